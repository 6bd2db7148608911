//! Where the files of a snapshot are read from.

use async_trait::async_trait;
use bytes::Bytes;

/// Reads objects of the table's bucket, with the rights of whoever commits.
#[async_trait]
pub trait ObjectReader: Send + Sync {
    /// The whole object, when it has at most `bytes_max` bytes.
    ///
    /// # Errors
    /// Why it was not read.
    async fn read(&self, key: &str, bytes_max: u64) -> Result<Bytes, Unread>;

    /// How many bytes the object has.
    ///
    /// # Errors
    /// Why it was not found out.
    async fn length(&self, key: &str) -> Result<u64, Unread>;
}

/// Why an object was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unread {
    /// There is none of that key.
    NotFound,
    /// The caller may not read it.
    Forbidden,
    /// It has more bytes than were asked for.
    TooLarge,
    /// The store did not answer, or not well: with its words.
    Failed(String),
}
