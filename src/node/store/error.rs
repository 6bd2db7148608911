//! Why the store did not do what it was asked, and whether it may have taken effect all the same.

use super::api::BodyError;
use crate::disk::drive::DriveError;
use crate::disk::drive::Effect;
use crate::disk::format::checksum::Algorithm;
use crate::disk::layout::IllegalName;
use crate::node::seams::LockError;
use crate::protocol::object::condition::Unmet;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// Why the store did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no such bucket.
    #[error("there is no bucket {0}")]
    NoSuchBucket(String),
    /// The bucket is there already.
    #[error("bucket {0} is there already")]
    BucketExists(String),
    /// The bucket still has objects or versions.
    #[error("bucket {0} is not empty")]
    BucketNotEmpty(String),
    /// There is no such key.
    #[error("there is no key {0}")]
    NoSuchKey(ObjectKey),
    /// The latest version is a delete marker: 404 with its id.
    #[error("{target} is deleted")]
    Deleted {
        /// The key.
        target: ObjectKey,
        /// The marker.
        marker: VersionId,
        /// Unix nanoseconds.
        modtime_ns: i64,
    },
    /// There is no such version.
    #[error("there is no version {version} of {target}")]
    NoSuchVersion {
        /// The key.
        target: ObjectKey,
        /// The version.
        version: VersionId,
    },
    /// The version asked for by id is a delete marker: 405.
    #[error("version {version} of {target} is a delete marker")]
    IsDeleteMarker {
        /// The key.
        target: ObjectKey,
        /// The version.
        version: VersionId,
        /// Unix nanoseconds.
        modtime_ns: i64,
    },
    /// A condition does not hold.
    #[error("a condition on {target} does not hold")]
    Condition {
        /// The key.
        target: ObjectKey,
        /// How.
        unmet: Unmet,
        /// What is there: ETag and modification time, Unix nanoseconds.
        current: Option<(String, i64)>,
    },
    /// The range lies outside the object.
    #[error("the range lies outside of {size} bytes")]
    Range {
        /// Bytes of the object.
        size: u64,
    },
    /// A name that cannot be stored.
    #[error("the name cannot be stored")]
    IllegalName(#[from] IllegalName),
    /// There is no such upload.
    #[error("there is no upload {0}")]
    NoSuchUpload(String),
    /// A listed part is not there, or is another one.
    #[error("part {0} is not there, or is another one")]
    InvalidPart(u32),
    /// The parts are not listed in ascending order.
    #[error("the parts are not in ascending order")]
    InvalidPartOrder,
    /// A part that is not the last is smaller than 5 MiB.
    #[error("part {number} has {size} bytes, too few for a part that is not the last")]
    PartTooSmall {
        /// Its number.
        number: u32,
        /// Its bytes.
        size: u64,
    },
    /// The request makes no sense.
    #[error("the request cannot be meant: {0}")]
    InvalidRequest(String),
    /// `Content-MD5` does not match the body.
    #[error("the body does not have the announced MD5")]
    BadDigest,
    /// An additional checksum does not match the body.
    #[error("the body does not have the announced {0:?} checksum")]
    BadChecksum(Algorithm),
    /// The body was shorter or longer than announced, or broke off.
    #[error("the body is not whole")]
    IncompleteBody(#[source] BodyError),
    /// Nothing was done, because the key stayed locked or too few nodes voted.
    #[error("no lock")]
    Lock(#[from] LockError),
    /// Nothing was done, because too few drives could take part.
    #[error("{able} of {needed} drives can {what}")]
    NoQuorum {
        /// What they were to do.
        what: &'static str,
        /// Drives that can.
        able: usize,
        /// Drives needed.
        needed: usize,
        /// What one of the others said.
        #[source]
        why: Option<DriveError>,
    },
    /// What is there contradicts itself, or too little of it can be read to say what it is.
    #[error("{target} cannot be read: {why}")]
    Unreadable {
        /// The key.
        target: ObjectKey,
        /// Why not.
        why: String,
    },
    /// The write may or may not have taken effect, now or later.
    #[error("whether {target} was changed cannot be known: {why}")]
    Unknown {
        /// The key.
        target: ObjectKey,
        /// Why not.
        why: String,
    },
}

impl StoreError {
    /// Whether the request may have taken effect in spite of this error.
    pub fn effect(&self) -> Effect {
        match self {
            Self::Unknown { .. } => Effect::Unknown,
            _ => Effect::None,
        }
    }
}
