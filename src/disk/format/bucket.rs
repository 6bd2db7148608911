//! The contents of a bucket's metadata object, `.rustfs.sys/buckets/<bucket>/.metadata.bin`.
//!
//! A map of some fifty keys; we know a few and keep the others, and the order of all, as they are.

use super::FormatError;
use super::msgpack::Reader;
use super::msgpack::put_binary;
use super::msgpack::put_bool;
use super::msgpack::put_map;
use super::msgpack::put_text;
use crate::protocol::object::effect::BucketState;

/// Format 1, version 1, both little-endian.
const PREFIX: [u8; 4] = [1, 0, 1, 0];
const INCARNATION: &str = "BucketIncarnationID";
const TIME_TYPE: u8 = 5;

/// The bucket policy.
pub const POLICY: &str = "PolicyConfigJSON";
/// The bucket's tags.
pub const TAGS: &str = "TaggingConfigXML";
/// The bucket's owner and grants.
pub const ACL: &str = "BucketAclConfigJSON";
/// What makes it a table bucket.
pub const TABLES: &str = "TableBucketConfigJSON";

/// Keys whose values are documents, in the order in which they are written.
const DOCUMENTS: [&str; 11] = [
    POLICY,
    "NotificationConfigXML",
    "LifecycleConfigXML",
    "ObjectLockConfigXML",
    VERSIONING,
    "EncryptionConfigXML",
    TAGS,
    "QuotaConfigJSON",
    "ReplicationConfigXML",
    "BucketTargetsConfigJSON",
    "BucketTargetsConfigMetaJSON",
];
const DOCUMENT_TIMES: [&str; 11] = [
    "PolicyConfigUpdatedAt",
    "ObjectLockConfigUpdatedAt",
    "EncryptionConfigUpdatedAt",
    "TaggingConfigUpdatedAt",
    "QuotaConfigUpdatedAt",
    "ReplicationConfigUpdatedAt",
    VERSIONING_CHANGED,
    "LifecycleConfigUpdatedAt",
    "NotificationConfigUpdatedAt",
    "BucketTargetsConfigUpdatedAt",
    "BucketTargetsConfigMetaUpdatedAt",
];
const MORE_DOCUMENTS: [&str; 9] = [
    "CorsConfigXML",
    "LoggingConfigXML",
    "WebsiteConfigXML",
    "AccelerateConfigXML",
    "RequestPaymentConfigXML",
    "PublicAccessBlockConfigXML",
    ACL,
    TABLES,
    "DurabilityConfigJSON",
];
const MORE_DOCUMENT_TIMES: [&str; 9] = [
    "CorsConfigUpdatedAt",
    "LoggingConfigUpdatedAt",
    "WebsiteConfigUpdatedAt",
    "AccelerateConfigUpdatedAt",
    "RequestPaymentConfigUpdatedAt",
    "PublicAccessBlockConfigUpdatedAt",
    "BucketAclConfigUpdatedAt",
    "TableBucketConfigUpdatedAt",
    "DurabilityConfigUpdatedAt",
];
const NAME: &str = "Name";
const CREATED: &str = "Created";
const LOCK_ENABLED: &str = "LockEnabled";
const VERSIONING: &str = "VersioningConfigXML";
const VERSIONING_CHANGED: &str = "VersioningConfigUpdatedAt";

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
    /// When that document last changed, Unix nanoseconds; 0 for never.
    pub versioning_changed_ns: i64,
    /// All keys in their order, each with its encoded value; those above are written from the fields.
    keys: Vec<(String, Vec<u8>)>,
}

impl BucketMetadata {
    /// A new bucket, with every key that the format has.
    pub fn new(name: &str, created_ns: i64) -> Self {
        let mut keys = Vec::new();
        let mut add = |names: &[&str], value: &[u8]| {
            keys.extend(names.iter().map(|name| ((*name).to_owned(), value.to_vec())));
        };
        let mut never = Vec::new();
        put_time(&mut never, 0);
        let mut nil_id = Vec::new();
        put_binary(&mut nil_id, &[0; 16]);
        let empty = [0xc4, 0];
        // These three are written from the fields.
        add(&[NAME, CREATED, LOCK_ENABLED], &[]);
        add(&[INCARNATION], &nil_id);
        add(&DOCUMENTS, &empty);
        add(&DOCUMENT_TIMES, &never);
        add(&MORE_DOCUMENTS, &empty);
        add(&MORE_DOCUMENT_TIMES, &never);
        Self {
            name: name.to_owned(),
            created_ns,
            lock_enabled: false,
            versioning_xml: Vec::new(),
            versioning_changed_ns: 0,
            keys,
        }
    }

    /// Reads the object's contents.
    ///
    /// # Errors
    ///
    /// They do not decode, or are of an unknown version.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut reader = Reader::new(bytes);
        let prefix = reader.take(4, "the version of bucket metadata")?;
        if prefix != PREFIX {
            let version = hex::encode(prefix);
            return Err(FormatError::Version { what: "bucket metadata", version });
        }
        let mut bucket = Self {
            name: String::new(),
            created_ns: 0,
            lock_enabled: false,
            versioning_xml: Vec::new(),
            versioning_changed_ns: 0,
            keys: Vec::new(),
        };
        for _ in 0..reader.map("bucket metadata")? {
            let key = reader.text("a key of bucket metadata")?;
            let value = reader.skip("a value of bucket metadata")?;
            let mut field = Reader::new(value);
            match key {
                NAME => bucket.name = field.text("the name of a bucket")?.to_owned(),
                LOCK_ENABLED => bucket.lock_enabled = field.boolean("LockEnabled")?,
                CREATED | VERSIONING | VERSIONING_CHANGED if field.nil() => {}
                CREATED => bucket.created_ns = time(&mut field)?,
                VERSIONING => bucket.versioning_xml = field.binary(VERSIONING)?.to_vec(),
                VERSIONING_CHANGED => bucket.versioning_changed_ns = time(&mut field)?,
                _ => {}
            }
            bucket.keys.push((key.to_owned(), value.to_vec()));
        }
        reader.finish("the end of bucket metadata")?;
        for key in [NAME, CREATED, LOCK_ENABLED, VERSIONING, VERSIONING_CHANGED] {
            if !bucket.keys.iter().any(|(name, _)| name == key) {
                bucket.keys.push((key.to_owned(), Vec::new()));
            }
        }
        Ok(bucket)
    }

    /// The object's contents. What was parsed and not changed comes out byte for byte.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(2048);
        out.extend_from_slice(&PREFIX);
        put_map(&mut out, self.keys.len());
        for (key, value) in &self.keys {
            put_text(&mut out, key);
            match key.as_str() {
                NAME => put_text(&mut out, &self.name),
                CREATED => put_time(&mut out, self.created_ns),
                LOCK_ENABLED => put_bool(&mut out, self.lock_enabled),
                VERSIONING => put_binary(&mut out, &self.versioning_xml),
                VERSIONING_CHANGED => put_time(&mut out, self.versioning_changed_ns),
                _ => out.extend_from_slice(value),
            }
        }
        out
    }

    /// What the versioning document says.
    pub fn versioning(&self) -> BucketState {
        let text = String::from_utf8_lossy(&self.versioning_xml);
        let status = text.split_once("<Status>").and_then(|(_, rest)| rest.split_once("</Status>"));
        match status.map(|(status, _)| status.trim()) {
            Some("Enabled") => BucketState::Enabled,
            Some("Suspended") => BucketState::Suspended,
            _ => BucketState::Unversioned,
        }
    }

    /// Replaces the versioning document.
    pub fn set_versioning(&mut self, state: BucketState, now_ns: i64) {
        let status = match state {
            BucketState::Unversioned => "",
            BucketState::Enabled => "<Status>Enabled</Status>",
            BucketState::Suspended => "<Status>Suspended</Status>",
        };
        self.versioning_xml =
            format!("<VersioningConfiguration>{status}</VersioningConfiguration>").into_bytes();
        self.versioning_changed_ns = now_ns;
    }

    /// Any other document, by its key; empty when it is not there.
    pub fn document(&self, key: &str) -> Vec<u8> {
        let value = self.keys.iter().find(|(name, _)| name == key);
        let value = value.and_then(|(_, value)| Reader::new(value).binary("a document").ok());
        value.unwrap_or_default().to_vec()
    }

    /// Sets another document, by its key, and notes when. Empty takes it away.
    pub fn set_document(&mut self, key: &str, document: &[u8], now_ns: i64) {
        let mut value = Vec::new();
        put_binary(&mut value, document);
        self.set(key, value);
        let name = key.strip_suffix("XML").or_else(|| key.strip_suffix("JSON")).unwrap_or(key);
        let mut moment = Vec::new();
        put_time(&mut moment, now_ns);
        self.set(&format!("{name}UpdatedAt"), moment);
    }

    fn set(&mut self, key: &str, value: Vec<u8>) {
        match self.keys.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.keys.push((key.to_owned(), value)),
        }
    }
}

/// A moment: seconds and nanoseconds in an extension. 0 stands for never.
fn put_time(out: &mut Vec<u8>, moment_ns: i64) {
    out.extend_from_slice(&[0xc7, 12, TIME_TYPE]);
    out.extend_from_slice(&moment_ns.div_euclid(1_000_000_000).to_be_bytes());
    out.extend_from_slice(&(moment_ns.rem_euclid(1_000_000_000) as u32).to_be_bytes());
}

fn time(reader: &mut Reader<'_>) -> Result<i64, FormatError> {
    const WHAT: &str = "a time of bucket metadata";
    let (kind, bytes) = reader.extension(WHAT)?;
    let parts = bytes.split_first_chunk::<8>().filter(|_| kind == TIME_TYPE as i8);
    let moment = parts.and_then(|(seconds, rest)| {
        let nanoseconds = u32::from_be_bytes(rest.try_into().ok()?);
        let seconds = i64::from_be_bytes(*seconds).checked_mul(1_000_000_000)?;
        seconds.checked_add(i64::from(nanoseconds))
    });
    moment.ok_or_else(|| FormatError::contradiction(format!("{WHAT} is none")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_bucket_has_every_key_and_comes_back() {
        let mut bucket = BucketMetadata::new("photos", 1_795_961_149_345_284_850);
        bucket.set_versioning(BucketState::Enabled, 1_795_961_149_374_816_191);
        let bytes = bucket.encode();
        assert_eq!(bytes[..7], [1, 0, 1, 0, 0xde, 0, 44]);
        let again = BucketMetadata::parse(&bytes).unwrap();
        assert_eq!(again.name, "photos");
        assert_eq!(again.created_ns, 1_795_961_149_345_284_850);
        assert_eq!(again.versioning_changed_ns, 1_795_961_149_374_816_191);
        assert_eq!(again.versioning(), BucketState::Enabled);
        assert_eq!(again.encode(), bytes);
        let created = b"\xa7Created\xc7\x0c\x05\0\0\0\0k\x0c1=\x14\x94\xa0\xf2";
        assert!(bytes.windows(created.len()).any(|window| window == created));
    }

    #[test]
    fn keys_that_are_not_known_stay_where_they_are() {
        let mut bucket = BucketMetadata::new("photos", 5);
        let map = vec![0x81, 0xa1, b'x', 0x92, 1, 0xc0];
        bucket.keys.insert(9, ("OnDemandMigrationConfigJSON".into(), vec![0xc4, 1, 7]));
        bucket.keys.push(("BucketCreationCommitted".into(), map));
        let bytes = bucket.encode();
        let mut again = BucketMetadata::parse(&bytes).unwrap();
        assert_eq!(again.encode(), bytes);
        assert_eq!(again.document("OnDemandMigrationConfigJSON"), [7]);
        again.set_versioning(BucketState::Suspended, 6);
        again.set_document(POLICY, b"{}", 7_000_000_008);
        let changed = BucketMetadata::parse(&again.encode()).unwrap();
        let moment = b"PolicyConfigUpdatedAt\xc7\x0c\x05\0\0\0\0\0\0\0\x07\0\0\0\x08";
        assert!(again.encode().windows(moment.len()).any(|window| window == moment));
        assert_eq!(changed.versioning(), BucketState::Suspended);
        assert_eq!(changed.document(POLICY), b"{}");
        assert_eq!(changed.document("OnDemandMigrationConfigJSON"), [7]);
    }

    #[test]
    fn a_foreign_versioning_document_is_understood() {
        let mut bucket = BucketMetadata::new("photos", 5);
        assert_eq!(bucket.versioning(), BucketState::Unversioned);
        bucket.versioning_xml =
            b"<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
            <MFADelete>Disabled</MFADelete><Status> Suspended </Status></VersioningConfiguration>"
                .to_vec();
        assert_eq!(bucket.versioning(), BucketState::Suspended);
        bucket.set_versioning(BucketState::Unversioned, 9);
        assert_eq!(bucket.versioning(), BucketState::Unversioned);
    }

    #[test]
    fn damage_is_refused_and_never_panics() {
        let bytes = BucketMetadata::new("photos", 5).encode();
        for length in 0..bytes.len() {
            assert!(BucketMetadata::parse(&bytes[..length]).is_err());
        }
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            if let Ok(bucket) = BucketMetadata::parse(&bad) {
                let _ = bucket.encode();
            }
        }
    }
}
