//! Names and folders on a drive, and where in a deployment a key lives. Pure.
//!
//! All paths are relative to the drive's root and use `/`. What lies in the files is the business of
//! [`super::format`].

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::Digest as _;
use sha2::Sha256;
use siphasher::sip::SipHasher24;
use uuid::Uuid;

use crate::protocol::replacement::names;
pub use crate::protocol::replacement::names::FOLDER as REPLACEMENT;
pub use crate::protocol::replacement::names::LEASE as EXECUTION;
pub use crate::protocol::replacement::names::SWAP_LOCK;
use crate::value::VersionId;

/// The system volume.
pub const SYSTEM: &str = ".rustfs.sys";
/// The name of the metadata file in a key's directory.
pub const META_FILE: &str = "xl.meta";
/// The drive's identity.
pub const FORMAT: &str = ".rustfs.sys/format.json";
/// The file whose lock says that a node owns the drive. It is made once and never replaced.
pub const LEASE: &str = ".rustfs.sys/lease";
/// Present while a whole drive is being rebuilt.
pub const HEALING: &str = ".rustfs.sys/healing.bin";
/// Present while a node runs; left behind by one that was killed.
pub const UNCLEAN: &str = ".rustfs.sys/unclean-shutdown";
/// Staging area; wiped at start.
pub const TMP: &str = ".rustfs.sys/tmp";
/// Everything deleted is first renamed to here.
pub const TRASH: &str = ".rustfs.sys/tmp/.trash";
/// Where the staging area of the process before is moved at start.
pub const TMP_OLD: &str = ".rustfs.sys/tmp-old";
/// Open uploads.
pub const MULTIPART: &str = ".rustfs.sys/multipart";
/// Configuration of buckets, and other records of the system.
pub const BUCKETS: &str = ".rustfs.sys/buckets";
/// Journals of healers: what they have still to do, and what they remember of drives. No keys.
pub const HEAL: &str = ".rustfs.sys/buckets/.heal";
/// Configuration of the deployment.
pub const CONFIG: &str = ".rustfs.sys/config";
/// What a healer has moved aside, until its grace has ended.
pub const QUARANTINE: &str = ".rustfs.sys/quarantine";
/// Folders of the system volume that every drive has.
pub const SYSTEM_FOLDERS: [&str; 7] = [
    BUCKETS,
    MULTIPART,
    CONFIG,
    TMP,
    TRASH,
    ".rustfs.sys/datausage",
    ".rustfs.sys/datausage/state",
];
/// What stands for the trailing `/` of a key.
pub const DIRECTORY_SUFFIX: &str = "__XLDIR__";
/// What follows a segment of a key that cannot be a directory's name as it is, or would mean something else.
/// Other servers refuse such keys, so that the suffix changes no name that they give.
pub const SEGMENT_SUFFIX: &str = "__XLSEG__";
/// The backup of the metadata file, below a rollback directory.
pub const META_BACKUP: &str = "xl.meta.bkp";
/// Marks, below a rollback directory, that there was no metadata file before.
pub const MARKER_ROLLBACK: &str = "xl.meta.delete-marker.rollback";
/// Prefix of the mark, in a data directory, that the deletion of its version is prepared.
pub const RESERVE_DELETE: &str = "reserve-delete-data.";
/// Prefix of the mark, in a data directory, that the deletion of its version is decided.
pub const DELETE_DATA: &str = "delete-data.";
/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
/// The longest path segment, in bytes.
pub const SEGMENT_BYTES_MAX: usize = 255;

/// Why a name cannot be a key or a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IllegalName {
    /// Nothing at all.
    #[error("the name is empty")]
    Empty,
    /// Longer than [`KEY_BYTES_MAX`], or a segment longer than [`SEGMENT_BYTES_MAX`].
    #[error("the name, or a segment of it, is too long")]
    TooLong,
    /// It contains a NUL.
    #[error("the name contains a NUL")]
    Nul,
    /// It is no bucket name by the rules of S3.
    #[error("the name is no valid bucket name")]
    Bucket,
}

/// Says whether `key` can be stored.
///
/// # Errors
///
/// The first rule that it breaks.
pub fn check_key(key: &str) -> Result<(), IllegalName> {
    if key.is_empty() {
        return Err(IllegalName::Empty);
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(IllegalName::TooLong);
    }
    if key.contains('\0') {
        return Err(IllegalName::Nul);
    }
    // A suffix makes a segment longer than it looks.
    if encode_key(key).split('/').any(|segment| segment.len() > SEGMENT_BYTES_MAX) {
        return Err(IllegalName::TooLong);
    }
    Ok(())
}

/// Says whether `bucket` is a name that S3 allows.
///
/// # Errors
///
/// [`IllegalName::Bucket`].
pub fn check_bucket(bucket: &str) -> Result<(), IllegalName> {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = bucket.as_bytes();
    let legal = (3..=63).contains(&bytes.len())
        && bytes.iter().all(|&byte| alphanumeric(byte) || matches!(byte, b'-' | b'.'))
        && alphanumeric(bytes[0])
        && alphanumeric(bytes[bytes.len() - 1])
        && !bucket.contains("..")
        && bucket.parse::<std::net::Ipv4Addr>().is_err();
    if legal { Ok(()) } else { Err(IllegalName::Bucket) }
}

/// Whether `key` is stored as a directory object, which only ever has a null version.
pub fn is_directory_key(key: &str) -> bool {
    key.ends_with('/')
}

/// The key as a path: a trailing `/` becomes [`DIRECTORY_SUFFIX`], and what cannot be a name gets
/// [`SEGMENT_SUFFIX`]. Placement hashes this form.
pub fn encode_key(key: &str) -> String {
    let (plain, is_directory) = match key.strip_suffix('/') {
        Some(plain) => (plain, true),
        None => (key, false),
    };
    let mut path = String::with_capacity(key.len() + DIRECTORY_SUFFIX.len());
    for (index, segment) in plain.split('/').enumerate() {
        if index > 0 {
            path.push('/');
        }
        path.push_str(segment);
        if is_special(segment) {
            path.push_str(SEGMENT_SUFFIX);
        }
    }
    if is_directory {
        path.push_str(DIRECTORY_SUFFIX);
    }
    path
}

/// The reverse of [`encode_key`].
pub fn decode_key(path: &str) -> String {
    let (plain, is_directory) = match path.strip_suffix(DIRECTORY_SUFFIX) {
        Some(plain) => (plain, true),
        None => (path, false),
    };
    let segments = plain.split('/');
    let segments: Vec<_> =
        segments.map(|it| it.strip_suffix(SEGMENT_SUFFIX).unwrap_or(it)).collect();
    let key = segments.join("/");
    if is_directory { key + "/" } else { key }
}

/// Whether a segment of a key means something else as a name on a drive.
fn is_special(segment: &str) -> bool {
    matches!(segment, "" | "." | ".." | META_FILE)
        || segment.ends_with(DIRECTORY_SUFFIX)
        || segment.ends_with(SEGMENT_SUFFIX)
}

/// Whether a path is one that the replacement protocol uses: a record, or one of its locks.
pub fn is_replacement(path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name {
        EXECUTION => folder.is_empty(),
        SWAP_LOCK => [SYSTEM, BUCKETS, REPLACEMENT].contains(&folder),
        _ => names::parse(path) != names::Name::Other,
    }
}

/// A key's directory.
pub fn key_dir(bucket: &str, key: &str) -> String {
    format!("{bucket}/{}", encode_key(key))
}

/// A key's metadata file.
pub fn meta_path(bucket: &str, key: &str) -> String {
    format!("{bucket}/{}/{META_FILE}", encode_key(key))
}

/// The directory of one version's shards.
pub fn data_dir(bucket: &str, key: &str, data_dir: Uuid) -> String {
    format!("{bucket}/{}/{}", encode_key(key), data_dir.hyphenated())
}

/// The shard file of one part.
pub fn part_path(bucket: &str, key: &str, data_dir: Uuid, part: usize) -> String {
    format!("{bucket}/{}/{}/{}", encode_key(key), data_dir.hyphenated(), part_file(part))
}

/// The name of a part's shard file.
pub fn part_file(part: usize) -> String {
    format!("part.{part}")
}

/// The name of the record beside a part of an open upload.
pub fn part_meta_file(part: usize) -> String {
    format!("part.{part}.meta")
}

/// Reads a directory name as a data directory: lowercase, hyphenated, nothing else.
pub fn parse_data_dir(name: &str) -> Option<Uuid> {
    let id = Uuid::try_parse(name).ok()?;
    (id.hyphenated().to_string() == name).then_some(id)
}

/// Where the metadata before a write is kept until the write has its quorum, when the version that it
/// replaces has no data directory of its own.
pub fn rollback_dir(version: VersionId) -> Uuid {
    let mut id = version.0;
    for (byte, salt) in id.iter_mut().zip(b"rustfs_inline_rb") {
        *byte ^= salt;
    }
    Uuid::from_bytes(id)
}

/// The directory of all uploads of one key.
pub fn uploads_dir(bucket: &str, key: &str) -> String {
    let name = Sha256::digest(format!("{bucket}/{}", encode_key(key)).as_bytes());
    format!("{MULTIPART}/{}", hex::encode(name))
}

/// The directory of one upload.
pub fn upload_dir(bucket: &str, key: &str, upload: UploadName) -> String {
    format!("{}/{upload}", uploads_dir(bucket, key))
}

/// The name of an upload's directory: `<uuid>x<unix nanoseconds>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UploadName {
    /// Random.
    pub id: Uuid,
    /// When it was opened.
    pub opened_ns: u64,
}

impl fmt::Display for UploadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.id.hyphenated(), self.opened_ns)
    }
}

impl FromStr for UploadName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let parsed = name.split_once('x').and_then(|(id, opened_ns)| {
            let name = Self { id: parse_data_dir(id)?, opened_ns: opened_ns.parse().ok()? };
            Some(name)
        });
        parsed
            .filter(|parsed| parsed.to_string() == name)
            .ok_or_else(|| format!("{name:?} is not the name of an upload"))
    }
}

/// The id by which clients know an upload.
pub fn upload_id(deployment: Uuid, upload: UploadName) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(format!("{}.{upload}", deployment.hyphenated()))
}

/// The reverse of [`upload_id`]; `None` when it was not made by this deployment.
pub fn parse_upload_id(deployment: Uuid, id: &str) -> Option<UploadName> {
    let text = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(id).ok()?).ok()?;
    let (owner, upload) = text.split_once('.')?;
    (owner == deployment.hyphenated().to_string()).then(|| upload.parse().ok()).flatten()
}

/// Which shard (1-based) each drive of a set of `n` holds: a rotation that depends on bucket and key alone.
pub fn distribution(bucket: &str, key: &str, n: usize) -> Vec<u8> {
    rotation(&format!("{bucket}/{}", encode_key(key)), n)
}

fn rotation(name: &str, n: usize) -> Vec<u8> {
    assert!((1..=16).contains(&n), "a set has 1 to 16 drives, not {n}");
    let start = crc32fast::hash(name.as_bytes()) as usize % n;
    (0..n).map(|drive| 1 + ((start + drive + 1) % n) as u8).collect()
}

/// The set that holds a key. The bucket does not matter.
pub fn set_of(deployment: Uuid, key: &str, sets: usize) -> usize {
    assert!(sets > 0, "a deployment has at least one set");
    let hash = SipHasher24::new_with_key(deployment.as_bytes()).hash(encode_key(key).as_bytes());
    (hash % sets as u64) as usize
}

/// The set that holds a key, by the oldest way of placing keys (`CRCMOD`).
pub fn set_of_crc(key: &str, sets: usize) -> usize {
    assert!(sets > 0, "a deployment has at least one set");
    crc32fast::hash(encode_key(key).as_bytes()) as usize % sets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placement_is_that_of_the_published_vectors() {
        let first = |name: &str| rotation(name, 16)[0];
        assert_eq!(first("object"), 14);
        assert_eq!(first("The Shining Script <v1>.pdf"), 16);
        assert_eq!(first("Cost Benefit Analysis (2009-2010).pptx"), 15);
        assert_eq!(first("SHØRT"), 11);
        assert_eq!(first("a/b/c/"), 3);
        assert_eq!(first("/a/b/c"), 6);
        assert_eq!(distribution("bkt", "obj", 4), [4, 1, 2, 3]);

        let id = Uuid::try_parse("f5c58c61-7175-4018-ab5e-a94fe9c2de4e").unwrap();
        let hash = |name: &str| SipHasher24::new_with_key(id.as_bytes()).hash(name.as_bytes());
        assert_eq!(hash("object"), 0x4f49_d9e2_772a_878d);
        assert_eq!(set_of(id, "object", 200), 37);
        assert_eq!(set_of(id, "The Shining Script <v1>.pdf", 200), 38);
        assert_eq!(set_of(id, "Cost Benefit Analysis (2009-2010).pptx", 200), 59);
        assert_eq!(set_of(id, "117Gn8rfHL2ACARPAhaFd0AGzic9pUbIA/5OCn5A", 200), 35);
        assert_eq!(set_of(id, "SHØRT", 200), 49);
        assert_eq!(hash("a/b/c/") % 200, 159);
        assert_eq!(hash("/a/b/c") % 200, 96);
        assert_eq!(set_of_crc("object", 200), 28);
        assert_eq!(set_of_crc("SHØRT", 200), 97);
    }

    #[test]
    fn every_distribution_is_a_permutation() {
        for n in 1..=16 {
            let mut shards = distribution("bucket", &format!("key-{n}"), n);
            shards.sort_unstable();
            assert_eq!(shards, (1..=n as u8).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_directory_key_keeps_its_slash_through_the_path() {
        assert_eq!(key_dir("bkt", "photos/"), "bkt/photos__XLDIR__");
        for key in ["a", "a/b", "a/", "a/b/c/", "ä/🔥"] {
            assert_eq!(decode_key(&encode_key(key)), key);
            assert_eq!(check_key(key), Ok(()));
        }
    }

    #[test]
    fn every_key_has_a_path_of_its_own_with_sound_names() {
        let segments =
            ["", ".", "..", "a", META_FILE, "a__XLDIR__", "a__XLSEG__", "__XLSEG__", "__XLDIR__"];
        let mut paths = std::collections::BTreeMap::new();
        for one in segments {
            for two in segments {
                for key in
                    [format!("{one}/{two}"), format!("{one}/{two}/"), format!("x/{one}/{two}")]
                {
                    let path = encode_key(&key);
                    assert_eq!(decode_key(&path), key, "{path}");
                    let is_sound = |name: &str| !matches!(name, "" | "." | ".." | META_FILE);
                    assert!(path.split('/').all(is_sound), "{key:?} becomes {path:?}");
                    let other = paths.insert(path, key.clone());
                    assert!(other.is_none_or(|other| other == key), "{key:?} has another's path");
                    assert_eq!(check_key(&key), Ok(()));
                }
            }
        }
    }

    #[test]
    fn what_is_no_key_of_s3_or_too_long_for_a_drive_is_refused() {
        let long = "x".repeat(256);
        let longer = "x/".repeat(600);
        let cases = [
            ("", IllegalName::Empty),
            ("a\0b", IllegalName::Nul),
            (&long, IllegalName::TooLong),
            (&longer, IllegalName::TooLong),
        ];
        for (key, why) in cases {
            assert_eq!(check_key(key), Err(why), "{key:?}");
        }
        // The suffix makes a segment longer than its key.
        assert_eq!(check_key(&format!("{}/", "x".repeat(246))), Ok(()));
        assert_eq!(check_key(&format!("{}/", "x".repeat(247))), Err(IllegalName::TooLong));
    }

    #[test]
    fn bucket_names_follow_s3() {
        for name in ["abc", "a-b.c", "123", &"x".repeat(63)] {
            assert_eq!(check_bucket(name), Ok(()), "{name}");
        }
        for name in [
            "",
            "ab",
            "Abc",
            "a_b",
            "-ab",
            "ab-",
            "a..b",
            "10.0.0.1",
            &"x".repeat(64),
            ".rustfs.sys",
        ] {
            assert_eq!(check_bucket(name), Err(IllegalName::Bucket), "{name}");
        }
    }

    #[test]
    fn an_upload_id_comes_back_only_to_its_deployment() {
        let ours = Uuid::from_u128(0x1111);
        let upload =
            UploadName { id: Uuid::from_u128(0x2222), opened_ns: 1_795_961_149_171_203_055 };
        let id = upload_id(ours, upload);
        assert_eq!(parse_upload_id(ours, &id), Some(upload));
        assert_eq!(parse_upload_id(Uuid::from_u128(3), &id), None);
        assert_eq!(parse_upload_id(ours, "%%%"), None);
        assert_eq!(parse_upload_id(ours, &BASE64_URL_SAFE_NO_PAD.encode("../../x")), None);
    }

    #[test]
    fn the_rollback_directory_of_the_null_version_is_the_published_one() {
        let id = rollback_dir(VersionId::NULL).hyphenated().to_string();
        assert_eq!(id, "72757374-6673-5f69-6e6c-696e655f7262");
        assert_eq!(parse_data_dir(&id).map(|id| id.hyphenated().to_string()), Some(id));
        assert_eq!(parse_data_dir("72757374-6673-5F69-6e6c-696e655f7262"), None);
        assert_eq!(parse_data_dir("7275737466735f696e6c696e655f7262"), None);
    }
}
