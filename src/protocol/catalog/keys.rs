//! Where everything of the catalog lies.
//!
//! Most is in the meta bucket `.rustfs.sys` under [`ROOT`]; metadata files are in the table bucket under
//! [`RESERVED`]. Ids that a client may choose enter a key only through [`hash`].
//!
//! # Sources
//!
//! Specification of the catalog §3.1 (layout), §2.8 (names of metadata files), §1.3 (their limits).

use uuid::Uuid;

use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;
use crate::value::Digest;

/// The bucket that holds the catalog's state.
pub const META_BUCKET: &str = ".rustfs.sys";
/// The prefix of all catalog state in the meta bucket.
pub const ROOT: &str = "s3tables/catalog";
/// The strong snapshot.
pub const SNAPSHOT: &str = "s3tables/catalog/strong-backing/snapshot.json";
/// The registry fence.
pub const REGISTRY_FENCE: &str =
    "s3tables/catalog/backing-migration/durable-strong-global-fence.json";
/// The name of the lock that orders registry writes, strong writes and migrations.
pub const REGISTRY_LOCK: &str =
    "s3tables/catalog/backing-migration/durable-strong-global-fence.lock";
/// Says that durable-strong processes have taken over (ours, M6).
pub const CUT_OVER: &str = "s3tables/catalog/backing-migration/firedrill-cut-over.json";
/// Says that the last cancellation has removed an empty snapshot (ours, M5).
pub const CANCELLED: &str = "s3tables/catalog/backing-migration/firedrill-cancelled.json";
/// The prefix of a table bucket that only the catalog writes.
pub const RESERVED: &str = ".rustfs-table";
/// The warehouse that every table bucket has: a component of paths only.
const WAREHOUSE: &str = ".rustfs-table/warehouses/default";
/// The prefix under which each table bucket has its folder.
pub const TABLE_BUCKETS: &str = "s3tables/catalog/table-buckets";
/// The last part of a namespace entry's key.
pub const NAMESPACE_ENTRY: &str = "namespace-entry.json";
/// The last part of a table entry's key.
pub const TABLE_ENTRY: &str = "table-entry.json";
/// The last part of a view entry's key.
pub const VIEW_ENTRY: &str = "view-entry.json";

/// Lower-case hexadecimal SHA-256 of `text`, as ids stand in keys.
pub fn hash(text: &str) -> String {
    Digest::of(text.as_bytes()).to_string()
}

/// The folder of a table bucket, without a slash at its end.
pub fn bucket_root(bucket: &str) -> String {
    format!("{TABLE_BUCKETS}/{}", hash(bucket))
}

/// The table bucket entry.
pub fn bucket_entry(bucket: &str) -> String {
    format!("{}/table-bucket.json", bucket_root(bucket))
}

/// The prefix of every namespace, table and view entry of a bucket.
pub fn namespaces(bucket: &str) -> String {
    format!("{}/namespaces/", bucket_root(bucket))
}

/// The prefix of all that lies in a namespace, namespaces below it included.
pub fn namespace_root(bucket: &str, namespace: &Namespace) -> String {
    format!("{}{}/", namespaces(bucket), namespace.slashed())
}

/// A namespace entry.
pub fn namespace_entry(bucket: &str, namespace: &Namespace) -> String {
    format!("{}{NAMESPACE_ENTRY}", namespace_root(bucket, namespace))
}

/// A table entry: the pointer.
pub fn table_entry(bucket: &str, table: &Identifier) -> String {
    format!("{}tables/{}/{TABLE_ENTRY}", namespace_root(bucket, &table.namespace), table.name)
}

/// A view entry.
pub fn view_entry(bucket: &str, view: &Identifier) -> String {
    format!("{}views/{}/{VIEW_ENTRY}", namespace_root(bucket, &view.namespace), view.name)
}

/// The prefix of a table's commit log.
pub fn commits(bucket: &str, table_id: &str) -> String {
    format!("{}/commits/{}/", bucket_root(bucket), hash(table_id))
}

/// A commit log record.
pub fn commit(bucket: &str, table_id: &str, commit_id: &str) -> String {
    format!("{}{}.json", commits(bucket, table_id), hash(commit_id))
}

/// The prefix of a table's idempotency records.
pub fn idempotency(bucket: &str, table_id: &str) -> String {
    format!("{}/commit-idempotency/{}/", bucket_root(bucket), hash(table_id))
}

/// An idempotency record.
pub fn idempotency_record(bucket: &str, table_id: &str, idempotency_key: &str) -> String {
    format!("{}{}.json", idempotency(bucket, table_id), hash(idempotency_key))
}

/// The prefix of a bucket's warehouse prefix index.
pub fn warehouse_index(bucket: &str) -> String {
    format!("{}/warehouse-index/", bucket_root(bucket))
}

/// The entry of a warehouse prefix, which ends in a slash.
pub fn warehouse_index_entry(bucket: &str, prefix: &str) -> String {
    format!("{}{}.json", warehouse_index(bucket), hash(prefix))
}

/// The readiness of a bucket's warehouse prefix index.
pub fn warehouse_index_state(bucket: &str) -> String {
    format!("{}state.json", warehouse_index(bucket))
}

/// The bucket fence.
pub fn bucket_fence(bucket: &str) -> String {
    format!("{}/backing-migration/durable-strong-fence.json", bucket_root(bucket))
}

/// The name of the lock that orders a bucket's object-backed changes and its migration.
pub fn bucket_fence_lock(bucket: &str) -> String {
    format!("{}/backing-migration/durable-strong-fence.lock", bucket_root(bucket))
}

/// Where an abandoned commit is kept for reference (ours, M3).
pub fn abandoned(bucket: &str, table_id: &str, commit_id: &str) -> String {
    let folder = bucket_root(bucket);
    format!("{folder}/firedrill/abandoned/{}/{}.json", hash(table_id), hash(commit_id))
}

/// In the table bucket: the default folder of a table's metadata files, with a slash at its end.
pub fn table_metadata(table: &Identifier) -> String {
    format!("{}metadata/", table_root(table))
}

/// In the table bucket: the folder of a view's metadata files, with a slash at its end.
pub fn view_metadata(view: &Identifier) -> String {
    format!("{WAREHOUSE}/namespaces/{}/views/{}/metadata/", view.namespace.slashed(), view.name)
}

/// In the table bucket: the name of a table's or a view's publication lock.
pub fn publication_lock(of: &Identifier) -> String {
    format!("{}publication.lock", table_root(of))
}

/// In the table bucket: the name of the bucket's publication lock.
pub fn bucket_publication_lock() -> String {
    format!("{WAREHOUSE}/publication.lock")
}

fn table_root(table: &Identifier) -> String {
    format!("{WAREHOUSE}/namespaces/{}/tables/{}/", table.namespace.slashed(), table.name)
}

/// Whether `key` of a table bucket is one that only the catalog writes.
pub fn is_reserved(key: &str) -> bool {
    key.strip_prefix(RESERVED).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The first metadata file of a table or view.
pub fn first_metadata_file(id: &str) -> String {
    metadata_file(1, id)
}

/// A metadata file: the generation that it makes, in at least five digits, and the commit's token.
pub fn metadata_file(generation: u64, token: &str) -> String {
    format!("{generation:05}-{token}.metadata.json")
}

/// The name of a metadata file when another table of the same folder has taken the plain one.
///
/// Ours: only its shape is given, and no server computes it from another's files.
pub fn scoped_metadata_file(generation: u64, table_id: &str, token: &str) -> String {
    metadata_file(generation, &format!("table-{}", hash(&format!("{table_id}/{token}"))))
}

/// The folder of a metadata file, with a slash at its end: all of `location` but its last part.
pub fn folder(location: &str) -> &str {
    let length = location.rfind('/').map_or(0, |slash| slash + 1);
    &location[..length]
}

/// Whether `name` may be a metadata file's.
pub fn is_metadata_file(name: &str) -> bool {
    let bytes = name.as_bytes();
    let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let is_spelt = |byte: &u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'_' | b'-')
    };
    bytes.len() <= 128
        && bytes.iter().all(is_spelt)
        && is_end(bytes.first())
        && is_end(bytes.last())
        && !name.contains("..")
        && (name.ends_with(".json") || name.ends_with(".json.gz"))
}

/// Whether `location` is a metadata file in the metadata folder of *some* table: after a rename it lies in the
/// folder of the old name.
pub fn is_table_metadata(location: &str) -> bool {
    let Some(rest) = location.strip_prefix(WAREHOUSE) else { return false };
    let Some(rest) = rest.strip_prefix("/namespaces/") else { return false };
    let parts: Vec<&str> = rest.split('/').collect();
    let [namespace @ .., "tables", table, "metadata", file] = &*parts else { return false };
    Namespace::of(namespace).is_ok_and(|namespace| Identifier::new(namespace, table).is_ok())
        && is_metadata_file(file)
}

/// Whether `location` is a metadata file directly in `folder`, which ends in a slash.
pub fn is_metadata_in(location: &str, folder: &str) -> bool {
    location.strip_prefix(folder).is_some_and(is_metadata_file)
}

/// The `s3://` form of a key of a table bucket.
pub fn location(bucket: &str, key: &str) -> String {
    format!("s3://{bucket}/{key}")
}

/// The key that a client's location names in `bucket`: the `s3://` form or the bare key.
pub fn key_of_location<'a>(bucket: &str, location: &'a str) -> Option<&'a str> {
    match location.strip_prefix("s3://") {
        None => Some(location).filter(|key| !key.is_empty() && !key.contains("://")),
        Some(rest) => {
            let key = rest.strip_prefix(bucket)?.strip_prefix('/')?;
            Some(key).filter(|key| !key.is_empty())
        }
    }
}

/// The ids of a commit: what names it, and what stands in its metadata file's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitNames {
    /// Names the commit.
    pub commit_id: String,
    /// Stands in the metadata file's name.
    pub token: String,
}

impl CommitNames {
    /// The names of a commit: by its commit id, else its idempotency key, else `fresh`.
    ///
    /// A UUID is taken in its canonical lower-case form and stands in the file's name; anything else stands there
    /// as its SHA-256.
    pub fn of(commit_id: Option<&str>, idempotency_key: Option<&str>, fresh: Uuid) -> Self {
        let Some(chosen) = commit_id.or(idempotency_key) else {
            let id = fresh.hyphenated().to_string();
            return Self { commit_id: id.clone(), token: id };
        };
        match Uuid::try_parse(chosen).ok().filter(|_| chosen.len() == 36) {
            Some(id) => {
                let id = id.hyphenated().to_string();
                Self { commit_id: id.clone(), token: id }
            }
            None => Self { commit_id: chosen.to_owned(), token: hash(chosen) },
        }
    }
}

/// The version token of this UUID.
pub fn version_token(id: Uuid) -> String {
    format!("token-{}", id.hyphenated())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders() -> Identifier {
        Identifier::from_record("sales.eu", "orders").unwrap()
    }

    #[test]
    fn every_key_is_where_the_layout_has_it() {
        let tb = "s3tables/catalog/table-buckets/3f90a0d00762aa65f05bf571ffee392f782c48f0c8cfc2f463d1a9fef42e2b77";
        assert_eq!(bucket_entry("lake1"), format!("{tb}/table-bucket.json"));
        assert_eq!(
            table_entry("lake1", &orders()),
            format!("{tb}/namespaces/sales/eu/tables/orders/table-entry.json")
        );
        assert_eq!(
            view_entry("lake1", &orders()),
            format!("{tb}/namespaces/sales/eu/views/orders/view-entry.json")
        );
        assert_eq!(warehouse_index_state("lake1"), format!("{tb}/warehouse-index/state.json"));
        assert_eq!(
            table_metadata(&orders()),
            ".rustfs-table/warehouses/default/namespaces/sales/eu/tables/orders/metadata/"
        );
        assert!(publication_lock(&orders()).ends_with("/tables/orders/publication.lock"));
    }

    #[test]
    fn metadata_lies_in_the_folder_of_some_table() {
        let folder = table_metadata(&orders());
        assert!(is_table_metadata(&format!("{folder}00001-x.metadata.json")));
        assert!(is_table_metadata(&format!("{folder}00001-x.metadata.json.gz")));
        for bad in [
            format!("{folder}sub/00001-x.metadata.json"),
            format!("{folder}..metadata.json"),
            format!("{folder}00001-X.metadata.json"),
            format!("{folder}00001-x.metadata.txt"),
            view_metadata(&orders()) + "00001-x.metadata.json",
            "data/00001-x.metadata.json".to_owned(),
        ] {
            assert!(!is_table_metadata(&bad), "{bad}");
        }
    }

    #[test]
    fn a_commit_is_named_by_its_id_then_its_key_then_by_chance() {
        let fresh = Uuid::from_u128(7);
        let named = CommitNames::of(Some("11111111-1111-4111-8111-11111111111A"), Some("k"), fresh);
        assert_eq!(named.token, "11111111-1111-4111-8111-11111111111a");
        let keyed = CommitNames::of(None, Some("key-two"), fresh);
        assert_eq!(keyed.commit_id, "key-two");
        assert_eq!(keyed.token, "c8df51469c308a59bfbd48a3e0bdd228ca922d6032035f5ef6e4ad45f473a9f3");
        assert_eq!(CommitNames::of(None, None, fresh).token, fresh.to_string());
        assert_eq!(metadata_file(4, &keyed.token)[..7], *"00004-c");
    }

    #[test]
    fn f45_what_only_the_catalog_writes_is_its_prefix_and_nothing_beside_it() {
        assert!(is_reserved(".rustfs-table") && is_reserved(".rustfs-table/x"));
        assert!(!is_reserved(".rustfs-tables/x") && !is_reserved("a/.rustfs-table/x"));
    }

    #[test]
    fn a_location_is_a_key_of_its_own_bucket() {
        assert_eq!(key_of_location("lake1", "s3://lake1/a/b"), Some("a/b"));
        assert_eq!(key_of_location("lake1", "a/b"), Some("a/b"));
        for bad in ["s3://lake12/a", "s3://lake1/", "s3://lake1", "gs://lake1/a", ""] {
            assert_eq!(key_of_location("lake1", bad), None, "{bad}");
        }
    }
}
