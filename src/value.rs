//! Plain values that every box may share: what a client can name and compare.
//!
//! Nothing here knows how a value is stored, sent or judged.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use serde::Serializer;
use serde::de::Error as _;
use sha2::Digest as _;
use sha2::Sha256;

/// SHA-256 of an object's contents.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", &hex::encode(self.0)[..12])
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut bytes = [0; 32];
        hex::decode_to_slice(text, &mut bytes)
            .map_err(|_| format!("{text:?} is not a SHA-256 digest in hexadecimal"))?;
        Ok(Self(bytes))
    }
}

/// Names one version of a key; [`VersionId::NULL`] is the null version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionId(pub [u8; 16]);

impl VersionId {
    /// The null version: what an unversioned or suspended bucket writes.
    pub const NULL: Self = Self([0; 16]);

    /// Whether this is the null version.
    pub fn is_null(self) -> bool {
        self == Self::NULL
    }
}

impl fmt::Display for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_null() {
            f.write_str("null")
        } else {
            write!(f, "{}", uuid::Uuid::from_bytes(self.0).hyphenated())
        }
    }
}

impl fmt::Debug for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for VersionId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "null" {
            return Ok(Self::NULL);
        }
        uuid::Uuid::try_parse(text)
            .map(|id| Self(id.into_bytes()))
            .map_err(|_| format!("{text:?} is neither `null` nor a version UUID"))
    }
}

/// A key in a bucket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// The bucket.
    pub bucket: String,
    /// The key, as the client spells it.
    pub key: String,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.bucket, self.key)
    }
}

/// The seed of a run, from which every choice of ours is drawn.
///
/// It is split by name for each user, so that one more draw here does not move the draws there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seed(pub u64);

impl Seed {
    /// The seed of the user that is called `name`.
    pub fn split(self, name: &str) -> Self {
        let digest = self.bytes(name);
        Self(u64::from_le_bytes([
            digest[0], digest[1], digest[2], digest[3], digest[4], digest[5], digest[6], digest[7],
        ]))
    }

    /// 32 bytes for `name`: the seed of a generator, or an id.
    pub fn bytes(self, name: &str) -> [u8; 32] {
        let mut hasher = Sha256::new();
        hasher.update(self.0.to_le_bytes());
        hasher.update(name.as_bytes());
        hasher.finalize().into()
    }

    /// A UUID for `name`.
    pub fn uuid(self, name: &str) -> uuid::Uuid {
        let digest = self.bytes(name);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        uuid::Builder::from_random_bytes(bytes).into_uuid()
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Serde as text, for the types above that have a `Display` and a `FromStr`.
macro_rules! serde_as_text {
    ($($name:ty),*) => {$(
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    )*};
}
serde_as_text!(Digest, VersionId);
