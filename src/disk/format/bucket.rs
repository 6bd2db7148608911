//! The contents of a bucket's metadata object, `.rustfs.sys/buckets/<bucket>/.metadata.bin`.
//!
//! A map of some fifty keys; we know a few and keep the others as they are.

use super::FormatError;

/// What a bucket is, besides its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketMetadata {
    /// Its name.
    pub name: String,
    /// When it was made, Unix nanoseconds.
    pub created_ns: i64,
    /// Whether object locks were asked for when it was made.
    pub lock_enabled: bool,
    /// The `VersioningConfiguration` document; empty when versioning was never touched.
    pub versioning_xml: Vec<u8>,
    /// When that document last changed, Unix nanoseconds.
    pub versioning_changed_ns: i64,
    /// All other keys in their order, each with its encoded value.
    pub other: Vec<(String, Vec<u8>)>,
}

impl BucketMetadata {
    /// A new bucket.
    pub fn new(name: &str, created_ns: i64) -> Self {
        Self {
            name: name.to_owned(),
            created_ns,
            lock_enabled: false,
            versioning_xml: Vec::new(),
            versioning_changed_ns: 0,
            other: Vec::new(),
        }
    }

    /// Reads the object's contents.
    ///
    /// # Errors
    ///
    /// They do not decode.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let _ = bytes;
        unimplemented!("being written")
    }

    /// The object's contents.
    pub fn encode(&self) -> Vec<u8> {
        unimplemented!("being written")
    }
}
