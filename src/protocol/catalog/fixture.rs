//! Records for the tests of this box: table `sales.orders` of bucket `lake1`, and its neighbours.

use std::collections::BTreeMap;

use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::commit_record::Status;
use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::State;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;

/// The bucket of most tests.
pub const BUCKET: &str = "lake1";

/// A namespace by its dotted form.
pub fn namespace(dotted: &str) -> Namespace {
    Namespace::from_dotted(dotted).unwrap()
}

/// A table or view of `sales`.
pub fn identifier(name: &str) -> Identifier {
    Identifier::new(namespace("sales"), name).unwrap()
}

/// The metadata file of `sales.orders` after this many commits.
pub fn location(commits: u64) -> String {
    let folder = keys::table_metadata(&identifier("orders"));
    format!("{folder}{}", keys::metadata_file(commits + 1, "id"))
}

/// The version token of `sales.orders` after this many commits.
pub fn token(commits: u64) -> String {
    format!("token-{commits}")
}

/// A bucket entry.
pub fn bucket() -> BucketEntry {
    BucketEntry::new(BUCKET)
}

/// The entry of an explicit namespace.
pub fn namespace_entry(dotted: &str) -> NamespaceEntry {
    NamespaceEntry::new(BUCKET, &namespace(dotted), BTreeMap::new())
}

/// A table of `sales`, as it was created.
pub fn table(name: &str) -> TableEntry {
    let id = format!("id-of-{name}");
    TableEntry {
        version: 1,
        table_bucket: BUCKET.to_owned(),
        namespace: "sales".to_owned(),
        table: name.to_owned(),
        table_uuid: format!("uuid-of-{name}"),
        format: "ICEBERG".to_owned(),
        format_version: 2,
        warehouse_location: format!("s3://{BUCKET}/tables/{id}"),
        metadata_location: keys::table_metadata(&identifier(name))
            + &keys::first_metadata_file("id"),
        version_token: token(0),
        generation: 1,
        state: State::Active,
        properties: BTreeMap::new(),
        created_at: None,
        updated_at: None,
        table_id: id,
    }
}

/// `sales.orders` after this many commits.
pub fn table_at(commits: u64) -> TableEntry {
    TableEntry {
        metadata_location: location(commits),
        version_token: token(commits),
        generation: commits + 1,
        ..table("orders")
    }
}

/// A view of `sales`, as it was created.
pub fn view(name: &str) -> ViewEntry {
    let id = format!("id-of-{name}");
    ViewEntry {
        version: 1,
        table_bucket: BUCKET.to_owned(),
        namespace: "sales".to_owned(),
        view: name.to_owned(),
        view_uuid: format!("uuid-of-{name}"),
        format: "ICEBERG_VIEW".to_owned(),
        format_version: 1,
        warehouse_location: format!("s3://{BUCKET}/views/{id}"),
        metadata_location: keys::view_metadata(&identifier(name))
            + &keys::first_metadata_file("id"),
        version_token: token(0),
        generation: 1,
        state: State::Active,
        properties: BTreeMap::new(),
        created_at: None,
        updated_at: None,
        view_id: id,
    }
}

/// The n-th commit to `sales.orders`, without an idempotency key.
pub fn commit(n: u64, status: Status) -> CommitRecord {
    CommitRecord {
        version: 1,
        commit_id: format!("commit-{n}"),
        idempotency_key: None,
        table_id: table("orders").table_id,
        operation: "append".to_owned(),
        expected_version_token: token(n - 1),
        new_version_token: token(n),
        previous_metadata_location: location(n - 1),
        new_metadata_location: location(n),
        requirements: Vec::new(),
        status,
        writer: None,
        created_at: None,
        updated_at: None,
    }
}

/// The n-th commit to `sales.orders`, with an idempotency key.
pub fn keyed_commit(n: u64, status: Status) -> CommitRecord {
    CommitRecord { idempotency_key: Some(format!("key-{n}")), ..commit(n, status) }
}
