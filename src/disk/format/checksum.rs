//! S3's additional checksums: the record in which an object keeps them, and their computation.

use crc_fast::CrcAlgorithm;
use md5::Md5;
use sha1::Sha1;
use sha2::Digest as _;
use sha2::Sha256;
use sha2::Sha512;
use xxhash_rust::xxh3::Xxh3;
use xxhash_rust::xxh64::Xxh64;

use super::FormatError;

const MULTIPART: u64 = 1 << 6;
const WITH_PARTS: u64 = 1 << 7;
const FULL_OBJECT: u64 = 1 << 9;
/// The most parts that an object has.
const PARTS_MAX: u64 = 10_000;

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

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Sha256,
        Self::Sha1,
        Self::Crc32,
        Self::Crc32C,
        Self::Crc64Nvme,
        Self::Xxh3,
        Self::Xxh64,
        Self::Xxh128,
        Self::Sha512,
        Self::Md5,
    ];

    /// Its name in S3.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SHA256",
            Self::Sha1 => "SHA1",
            Self::Crc32 => "CRC32",
            Self::Crc32C => "CRC32C",
            Self::Crc64Nvme => "CRC64NVME",
            Self::Xxh3 => "XXHASH3",
            Self::Xxh64 => "XXHASH64",
            Self::Xxh128 => "XXHASH128",
            Self::Sha512 => "SHA512",
            Self::Md5 => "MD5",
        }
    }

    /// The algorithm of this name, in any case.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
    }

    /// Bytes of its digest.
    pub fn digest_bytes(self) -> usize {
        match self {
            Self::Crc32 | Self::Crc32C => 4,
            Self::Crc64Nvme | Self::Xxh3 | Self::Xxh64 => 8,
            Self::Xxh128 | Self::Md5 => 16,
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }

    fn bit(self) -> u64 {
        1 << match self {
            Self::Sha256 => 1,
            Self::Sha1 => 2,
            Self::Crc32 => 3,
            Self::Crc32C => 4,
            Self::Crc64Nvme => 8,
            Self::Xxh3 => 10,
            Self::Xxh64 => 11,
            Self::Xxh128 => 12,
            Self::Sha512 => 13,
            Self::Md5 => 14,
        }
    }
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
        Self { algorithm, type_bits: algorithm.bit(), digest, part_count: 0, parts: Vec::new() }
    }

    /// The record of a multipart object whose checksum is over the digests of its parts.
    pub fn composite(algorithm: Algorithm, digest: Vec<u8>, parts: Vec<Vec<u8>>) -> Self {
        let type_bits = algorithm.bit() | MULTIPART | WITH_PARTS;
        Self { algorithm, type_bits, digest, part_count: parts.len(), parts }
    }

    /// The record of a multipart object whose checksum is over its contents, with those of its parts, if they are
    /// kept: whoever reads a part alone is told its own.
    pub fn full_object(algorithm: Algorithm, digest: Vec<u8>, parts: Vec<Vec<u8>>) -> Self {
        // This one is always over the contents and does without the mark.
        let mark = if algorithm == Algorithm::Crc64Nvme { 0 } else { FULL_OBJECT };
        let kept = if parts.is_empty() { 0 } else { MULTIPART | WITH_PARTS };
        let type_bits = algorithm.bit() | mark | kept;
        Self { algorithm, type_bits, digest, part_count: parts.len(), parts }
    }

    /// Whether the digest is over the digests of the parts and not over the contents.
    pub fn is_composite(&self) -> bool {
        self.type_bits & MULTIPART != 0
            && self.type_bits & FULL_OBJECT == 0
            && self.algorithm != Algorithm::Crc64Nvme
    }

    /// Reads all records under the key.
    ///
    /// # Errors
    ///
    /// They do not decode.
    pub fn parse_all(mut bytes: &[u8]) -> Result<Vec<Self>, FormatError> {
        let length = bytes.len();
        let mut records = Vec::new();
        while !bytes.is_empty() {
            let at = length - bytes.len();
            records.push(Self::parse(&mut bytes, at)?);
        }
        Ok(records)
    }

    /// All records as one value.
    pub fn encode_all(records: &[Self]) -> Vec<u8> {
        let mut out = Vec::new();
        for record in records {
            put_varint(&mut out, record.type_bits);
            out.extend_from_slice(&record.digest);
            if record.type_bits & MULTIPART != 0 {
                put_varint(&mut out, record.part_count as u64);
                if record.type_bits & WITH_PARTS != 0 {
                    record.parts.iter().for_each(|digest| out.extend_from_slice(digest));
                }
            }
        }
        out
    }

    fn parse(bytes: &mut &[u8], at: usize) -> Result<Self, FormatError> {
        const WHAT: &str = "a checksum record";
        let truncated = || FormatError::Truncated { at, what: WHAT };
        let malformed = || FormatError::Malformed { at, what: WHAT };
        let type_bits = varint(bytes).ok_or_else(truncated)?;
        let mut named = Algorithm::ALL.into_iter().filter(|it| type_bits & it.bit() != 0);
        let (Some(algorithm), None) = (named.next(), named.next()) else {
            return Err(malformed());
        };
        let digest_bytes = algorithm.digest_bytes();
        let digest = take(bytes, digest_bytes).ok_or_else(truncated)?.to_vec();
        let mut record = Self { algorithm, type_bits, digest, part_count: 0, parts: Vec::new() };
        if type_bits & MULTIPART != 0 {
            let count = varint(bytes).ok_or_else(truncated)?;
            if count > PARTS_MAX {
                return Err(malformed());
            }
            record.part_count = count as usize;
            if type_bits & WITH_PARTS != 0 {
                let parts = take(bytes, record.part_count * digest_bytes).ok_or_else(truncated)?;
                record.parts = parts.chunks(digest_bytes).map(<[u8]>::to_vec).collect();
            }
        }
        Ok(record)
    }
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..63).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Computes one checksum.
#[derive(Clone)]
pub struct Hasher(Inner);

#[derive(Clone)]
enum Inner {
    Sha256(Sha256),
    Sha1(Sha1),
    Crc32(crc_fast::Digest),
    Crc64(crc_fast::Digest),
    Xxh3(Box<Xxh3>),
    Xxh64(Xxh64),
    Xxh128(Box<Xxh3>),
    Sha512(Sha512),
    Md5(Md5),
}

impl Hasher {
    /// A hasher that has seen nothing.
    pub fn new(algorithm: Algorithm) -> Self {
        Self(match algorithm {
            Algorithm::Sha256 => Inner::Sha256(Sha256::new()),
            Algorithm::Sha1 => Inner::Sha1(Sha1::new()),
            Algorithm::Crc32 => Inner::Crc32(crc_fast::Digest::new(CrcAlgorithm::Crc32IsoHdlc)),
            Algorithm::Crc32C => Inner::Crc32(crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi)),
            Algorithm::Crc64Nvme => Inner::Crc64(crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme)),
            Algorithm::Xxh3 => Inner::Xxh3(Box::new(Xxh3::new())),
            Algorithm::Xxh64 => Inner::Xxh64(Xxh64::new(0)),
            Algorithm::Xxh128 => Inner::Xxh128(Box::new(Xxh3::new())),
            Algorithm::Sha512 => Inner::Sha512(Sha512::new()),
            Algorithm::Md5 => Inner::Md5(Md5::new()),
        })
    }

    /// Takes in more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            Inner::Sha256(it) => it.update(bytes),
            Inner::Sha1(it) => it.update(bytes),
            Inner::Crc32(it) | Inner::Crc64(it) => it.update(bytes),
            Inner::Xxh3(it) | Inner::Xxh128(it) => it.update(bytes),
            Inner::Xxh64(it) => it.update(bytes),
            Inner::Sha512(it) => it.update(bytes),
            Inner::Md5(it) => it.update(bytes),
        }
    }

    /// The digest, big-endian.
    pub fn finish(self) -> Vec<u8> {
        match self.0 {
            Inner::Sha256(it) => it.finalize().to_vec(),
            Inner::Sha1(it) => it.finalize().to_vec(),
            Inner::Crc32(it) => (it.finalize() as u32).to_be_bytes().to_vec(),
            Inner::Crc64(it) => it.finalize().to_be_bytes().to_vec(),
            Inner::Xxh3(it) => it.digest().to_be_bytes().to_vec(),
            Inner::Xxh64(it) => it.digest().to_be_bytes().to_vec(),
            Inner::Xxh128(it) => it.digest128().to_be_bytes().to_vec(),
            Inner::Sha512(it) => it.finalize().to_vec(),
            Inner::Md5(it) => it.finalize().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(algorithm: Algorithm, message: &[u8]) -> String {
        let mut hasher = Hasher::new(algorithm);
        message.chunks(3).for_each(|chunk| hasher.update(chunk));
        hex::encode(hasher.finish())
    }

    #[test]
    fn digests_are_those_of_the_published_check_values() {
        let check = b"123456789";
        assert_eq!(digest(Algorithm::Crc32, check), "cbf43926");
        assert_eq!(digest(Algorithm::Crc32C, check), "e3069283");
        assert_eq!(digest(Algorithm::Crc64Nvme, check), "ae8b14860a799888");
        assert_eq!(digest(Algorithm::Md5, b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(digest(Algorithm::Sha1, b"abc"), "a9993e364706816aba3e25717850c26c9cd0d89d");
        assert_eq!(digest(Algorithm::Xxh64, b""), "ef46db3751d8e999");
        assert_eq!(digest(Algorithm::Xxh3, b""), "2d06800538d394c2");
        assert_eq!(digest(Algorithm::Xxh128, b""), "99aa06d3014798d86001c324468d497f");
        for algorithm in Algorithm::ALL {
            assert_eq!(digest(algorithm, check).len(), 2 * algorithm.digest_bytes());
            assert_eq!(Algorithm::by_name(&algorithm.name().to_lowercase()), Some(algorithm));
        }
    }

    #[test]
    fn records_come_back_one_after_another() {
        let records = [
            Record::single(Algorithm::Sha256, vec![1; 32]),
            Record::composite(Algorithm::Crc32C, vec![2; 4], vec![vec![3; 4], vec![4; 4]]),
            Record::full_object(Algorithm::Crc32, vec![5; 4], vec![vec![8; 4]]),
            Record::full_object(Algorithm::Crc64Nvme, vec![6; 8], Vec::new()),
            Record::single(Algorithm::Md5, vec![7; 16]),
        ];
        let bytes = Record::encode_all(&records);
        assert_eq!(Record::parse_all(&bytes).unwrap(), records);
        assert_eq!(
            records.each_ref().map(Record::is_composite),
            [false, true, false, false, false]
        );
        assert_eq!(records[3].type_bits, 256);
        assert_eq!(Record::parse_all(&[]).unwrap(), []);
    }

    #[test]
    fn a_whole_object_record_with_digests_of_parts_is_no_composite() {
        // As the newest released server writes it: bits 6, 7 and 8, two parts.
        let mut bytes = vec![0xc0, 0x03];
        bytes.extend_from_slice(&[9; 8]);
        bytes.push(2);
        bytes.extend_from_slice(&[8; 16]);
        let records = Record::parse_all(&bytes).unwrap();
        assert_eq!(records[0].type_bits, 448);
        assert_eq!(records[0].parts, [[8; 8], [8; 8]]);
        assert!(!records[0].is_composite());
        assert_eq!(Record::encode_all(&records), bytes);
    }

    #[test]
    fn damage_is_refused_and_never_panics() {
        let whole = Record::encode_all(&[Record::composite(
            Algorithm::Sha1,
            vec![2; 20],
            vec![vec![3; 20]; 3],
        )]);
        for length in 1..whole.len() {
            assert!(Record::parse_all(&whole[..length]).is_err(), "{length}");
        }
        for bytes in [&[0xff; 12][..], &[0], &[1], &[0x0c, 0, 0, 0, 0], &[0x20, 1, 2, 3, 4]] {
            assert!(Record::parse_all(bytes).is_err(), "{bytes:x?}");
        }
        // A count of parts that would need more memory than there is input.
        let mut huge = vec![0xc8, 0x01, 1, 2, 3, 4];
        huge.extend_from_slice(&[0xff, 0xff, 0xff, 0x7f]);
        assert!(Record::parse_all(&huge).is_err());
    }
}
