//! `part.N.meta`: the record beside a part of an open upload.

use std::collections::BTreeMap;

use super::FormatError;

/// One uploaded part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartMeta {
    /// MD5 in hexadecimal.
    pub etag: String,
    /// Its number, 1 to 10,000.
    pub number: usize,
    /// Stored bytes.
    pub size: u64,
    /// Bytes as the client sent them; negative when unknown.
    pub actual_size: i64,
    /// When it was uploaded, Unix nanoseconds.
    pub modtime_ns: Option<i64>,
    /// Index into a compressed part; empty without.
    pub index: Vec<u8>,
    /// Checksums by S3's names (`CRC32C`, …), base64.
    pub checksums: BTreeMap<String, String>,
}

impl PartMeta {
    /// Reads a record, in its positional or its named form.
    ///
    /// # Errors
    ///
    /// It does not decode, or records an error of its own.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let _ = bytes;
        unimplemented!("being written")
    }

    /// The record in its positional form.
    pub fn encode(&self) -> Vec<u8> {
        unimplemented!("being written")
    }
}
