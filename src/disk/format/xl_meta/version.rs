//! One version of a key: its header, its body, and the bytes that they were read from.

use super::Body;
use super::Header;
use super::Identity;
use super::MarkerBody;
use super::ObjectBody;
use crate::disk::format::FormatError;
use crate::value::VersionId;

/// One version. Its bytes are made when the version is made or changed, and kept as they were read otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    header: Header,
    body: Body,
    /// The encoded header, without its length.
    header_bytes: Vec<u8>,
    /// The encoded body, without its length.
    body_bytes: Vec<u8>,
}

impl Version {
    /// A new object version.
    pub fn object(body: ObjectBody) -> Self {
        let _ = body;
        unimplemented!("being written")
    }

    /// A new delete marker.
    pub fn marker(version: VersionId, modtime_ns: i64) -> Self {
        let _ = (version, modtime_ns);
        unimplemented!("being written")
    }

    /// Reads one version from its encoded header and body, as [`Version::header_bytes`] and
    /// [`Version::body_bytes`] give them; for the wire between nodes.
    ///
    /// # Errors
    ///
    /// They do not decode, or contradict each other so that they cannot be used.
    pub fn parse(header: &[u8], body: &[u8]) -> Result<Self, FormatError> {
        let _ = (header, body);
        unimplemented!("being written")
    }

    /// Its header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Its body.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// The encoded header.
    pub fn header_bytes(&self) -> &[u8] {
        &self.header_bytes
    }

    /// The encoded body.
    pub fn body_bytes(&self) -> &[u8] {
        &self.body_bytes
    }

    /// Its id.
    pub fn id(&self) -> VersionId {
        self.header.version
    }

    /// The object, if it is one that we understand.
    pub fn as_object(&self) -> Option<&ObjectBody> {
        match &self.body {
            Body::Object(object) => Some(object),
            Body::Marker(_) | Body::Opaque => None,
        }
    }

    /// The marker, if it is one.
    pub fn as_marker(&self) -> Option<&MarkerBody> {
        match &self.body {
            Body::Marker(marker) => Some(marker),
            Body::Object(_) | Body::Opaque => None,
        }
    }

    /// The same object with its body changed; header, signature and bytes are made anew, unknown keys stay.
    /// `None` when it is no object.
    pub fn with_object(&self, change: impl FnOnce(&mut ObjectBody)) -> Option<Self> {
        let _ = change;
        unimplemented!("being written")
    }

    /// The same object as another drive of its set stores it. `None` when it is no object.
    pub fn for_shard(&self, shard: usize) -> Option<Self> {
        self.with_object(|object| object.shard = shard)
    }

    /// Digest of everything that must be equal on all drives. Two drives whose versions have one identity
    /// hold the same version.
    pub fn identity(&self) -> Identity {
        unimplemented!("being written")
    }

    /// Which rules of the format it breaks that a node insists on before it uses a version.
    ///
    /// # Errors
    ///
    /// The first rule that is broken.
    pub fn check(&self) -> Result<(), FormatError> {
        unimplemented!("being written")
    }
}
