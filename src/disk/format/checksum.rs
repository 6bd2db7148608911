//! S3's additional checksums: the record in which an object keeps them, and their computation.

use super::FormatError;

/// An algorithm, by S3's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Algorithm {
    /// `SHA256`.
    Sha256,
    /// `SHA1`.
    Sha1,
    /// `CRC32`.
    Crc32,
    /// `CRC32C`.
    Crc32C,
    /// `CRC64NVME`.
    Crc64Nvme,
    /// `XXHASH3`.
    Xxh3,
    /// `XXHASH64`.
    Xxh64,
    /// `XXHASH128`.
    Xxh128,
    /// `SHA512`.
    Sha512,
    /// `MD5`.
    Md5,
}

/// One checksum of one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Which.
    pub algorithm: Algorithm,
    /// The bits of the record's type word, as stored.
    pub type_bits: u64,
    /// Big-endian.
    pub digest: Vec<u8>,
    /// Parts of a multipart object; 0 otherwise.
    pub part_count: usize,
    /// Digests of the parts, when kept.
    pub parts: Vec<Vec<u8>>,
}

impl Record {
    /// The record of a single PUT.
    pub fn single(algorithm: Algorithm, digest: Vec<u8>) -> Self {
        let _ = (algorithm, digest);
        unimplemented!("being written")
    }

    /// The record of a multipart object whose checksum is over the digests of its parts.
    pub fn composite(algorithm: Algorithm, digest: Vec<u8>, parts: Vec<Vec<u8>>) -> Self {
        let _ = (algorithm, digest, parts);
        unimplemented!("being written")
    }

    /// The record of a multipart object whose checksum is over its contents.
    pub fn full_object(algorithm: Algorithm, digest: Vec<u8>) -> Self {
        let _ = (algorithm, digest);
        unimplemented!("being written")
    }

    /// Whether the digest is over the digests of the parts and not over the contents.
    pub fn is_composite(&self) -> bool {
        unimplemented!("being written")
    }

    /// Reads all records under the key.
    ///
    /// # Errors
    ///
    /// They do not decode.
    pub fn parse_all(bytes: &[u8]) -> Result<Vec<Self>, FormatError> {
        let _ = bytes;
        unimplemented!("being written")
    }

    /// All records as one value.
    pub fn encode_all(records: &[Self]) -> Vec<u8> {
        let _ = records;
        unimplemented!("being written")
    }
}

/// Computes one checksum.
#[derive(Clone)]
pub struct Hasher(Inner);

#[derive(Clone)]
enum Inner {}

impl Hasher {
    /// A hasher that has seen nothing.
    pub fn new(algorithm: Algorithm) -> Self {
        let _ = algorithm;
        unimplemented!("being written")
    }

    /// Takes in more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        let _ = bytes;
        match self.0 {}
    }

    /// The digest, big-endian.
    pub fn finish(self) -> Vec<u8> {
        match self.0 {}
    }
}
