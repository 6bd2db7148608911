//! The keys of a version's metadata: which are ours, which the user's, and how each is spelt on a drive.
//!
//! Internal values stand under two prefixes with the same suffix; either may be read, both are written.
//! The user's own metadata (`x-amz-meta-NAME` on the wire) is stored as `NAME`, unless that name means
//! something else.

/// The prefix that is read first.
pub const INTERNAL: &str = "x-rustfs-internal-";
/// The other prefix of the same suffixes.
pub const INTERNAL_OTHER: &str = "x-minio-internal-";
/// The prefix of the user's metadata on the wire.
pub const USER_PREFIX: &str = "x-amz-meta-";

/// Suffix: the contents lie in the metadata file.
pub const INLINE_DATA: &str = "inline-data";
/// Suffix: bytes as the client sent them, in decimal.
pub const ACTUAL_SIZE: &str = "actual-size";
/// Suffix: contents are compressed; names the scheme.
pub const COMPRESSION: &str = "compression";
/// Suffix: the record of [`super::super::checksum`].
pub const CHECKSUM: &str = "crc";
/// Suffix: an empty value marks a free version.
pub const FREE_VERSION: &str = "free-version";
/// Suffix: `complete` when the contents were moved to a remote tier.
pub const TRANSITION_STATUS: &str = "transition-status";
/// Suffix, of an open upload: its bucket.
pub const UPLOAD_BUCKET: &str = "multipart-bucket";
/// Suffix, of an open upload: its key.
pub const UPLOAD_OBJECT: &str = "multipart-object";
/// Suffix: the object's owner and grants, as JSON.
pub const ACL: &str = "acl";
/// User key: the ETag, hexadecimal, without quotes.
pub const ETAG: &str = "etag";
/// User key: what the contents are.
pub const CONTENT_TYPE: &str = "content-type";
/// User key: tags as `key=value&…`, percent-encoded.
pub const TAGGING: &str = "X-Amz-Tagging";
/// User key: absent for standard objects.
pub const STORAGE_CLASS: &str = "x-amz-storage-class";

/// Headers whose names are stored as they are and never belong to the user.
const HEADERS: [&str; 8] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    CONTENT_TYPE,
    ETAG,
    "expires",
];

/// Prefixes that mean something to some server, so that a user's name below them keeps its own prefix.
const RESERVED_PREFIXES: [&str; 8] = [
    "x-amz-",
    INTERNAL,
    INTERNAL_OTHER,
    "x-rustfs-encryption-",
    "x-minio-encryption-",
    "x-rustfs-source-",
    "x-minio-source-",
    "x-rustfs-multipart-",
];

/// Whether a key belongs with the internal values (binary) and not with the text.
pub fn is_internal(key: &str) -> bool {
    has_prefix(key, INTERNAL) || has_prefix(key, INTERNAL_OTHER)
}

/// How a name of the user's metadata, without its wire prefix, is spelt on a drive.
pub fn user_key(name: &str) -> String {
    if is_reserved(name) { format!("{USER_PREFIX}{name}") } else { name.to_owned() }
}

/// The name of the user's metadata that a key on a drive means, without its wire prefix; `None` when the
/// key is not the user's.
pub fn user_name(key: &str) -> Option<&str> {
    if has_prefix(key, USER_PREFIX) {
        return key.get(USER_PREFIX.len()..);
    }
    (!is_reserved(key)).then_some(key)
}

fn is_reserved(name: &str) -> bool {
    HEADERS.iter().any(|header| header.eq_ignore_ascii_case(name))
        || RESERVED_PREFIXES.iter().any(|prefix| has_prefix(name, prefix))
}

fn has_prefix(key: &str, prefix: &str) -> bool {
    key.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_a_user_can_choose_comes_back() {
        let names = [
            "stage",
            "etag",
            "ETag",
            "Content-Type",
            "x-amz-foo",
            "x-amz-meta-twice",
            "expires",
            "ä",
            "x-rustfs-internal-crc",
        ];
        for name in names {
            assert_eq!(user_name(&user_key(name)), Some(name));
        }
        assert_eq!(user_key("stage"), "stage");
        assert_eq!(user_key("etag"), "x-amz-meta-etag");
    }

    #[test]
    fn what_a_server_stores_for_itself_is_not_the_users() {
        for key in
            [ETAG, CONTENT_TYPE, TAGGING, "x-amz-tagging", STORAGE_CLASS, "x-rustfs-internal-crc"]
        {
            assert_eq!(user_name(key), None, "{key}");
        }
        assert!(is_internal("X-RustFS-Internal-crc"));
        assert!(!is_internal("x-amz-meta-crc"));
        // A multi-byte character across the prefix's end must not panic.
        assert!(!is_internal("x-rustfs-internalä"));
    }
}
