//! What must be so before anybody uses a snapshot, or what a migration is about to put into one.
//!
//! # Sources
//!
//! Specification of the catalog §4.2 (what version 2 adds), §4.3.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::fmt::Display;
use std::sync::Arc;

use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::commit_record::Status;
use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::history::History;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::record::Record;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::snapshot::codec::Row;
use crate::protocol::catalog::snapshot::contents::Contents;
use crate::protocol::catalog::snapshot::contents::TableCommits;
use crate::protocol::catalog::snapshot::derived::Derived;

/// The arrays of a snapshot, before anything is known of them.
pub(crate) struct Parts {
    pub(crate) buckets: Vec<BucketEntry>,
    pub(crate) namespaces: Vec<NamespaceEntry>,
    pub(crate) tables: Vec<TableEntry>,
    pub(crate) views: Vec<ViewEntry>,
    pub(crate) commits: Vec<Row<CommitRecord>>,
    pub(crate) idempotency: Vec<Row<CommitRecord>>,
}

fn invalid(text: impl Into<String>) -> Refusal {
    Class::Invalid.because(text)
}

/// Puts an entry in its place.
fn place<K: Ord, V>(
    map: &mut BTreeMap<K, Arc<V>>,
    key: K,
    value: V,
    what: impl Display,
) -> Result<(), Refusal> {
    match map.entry(key) {
        Entry::Vacant(free) => {
            free.insert(Arc::new(value));
            Ok(())
        }
        Entry::Occupied(_) => Err(invalid(format!("the strong snapshot has {what} twice"))),
    }
}

/// Puts every entry in its place and checks what it says of itself. The second value counts the commit records
/// that belong to no table, which version 1 leaves out and version 2 refuses.
///
/// # Errors
///
/// [`Class::Invalid`].
pub(crate) fn assemble(parts: Parts, version: u32) -> Result<(Contents, usize), Refusal> {
    let mut contents = Contents::default();
    for entry in parts.buckets {
        entry.check()?;
        let bucket = entry.table_bucket.clone();
        place(&mut contents.buckets, bucket.clone(), entry, format!("bucket {bucket}"))?;
    }
    for entry in parts.namespaces {
        entry.check()?;
        let key = (entry.table_bucket.clone(), entry.name()?);
        let what = format!("namespace {}/{}", key.0, key.1);
        place(&mut contents.namespaces, key, entry, what)?;
    }
    let mut ids = BTreeSet::new();
    for entry in parts.tables {
        entry.check()?;
        let key = (entry.table_bucket.clone(), entry.identifier()?);
        let what = format!("table {}/{}", key.0, key.1);
        if !ids.insert((key.0.clone(), entry.table_id.clone())) {
            return Err(invalid(format!("the id of {what} is another table's, too")));
        }
        place(&mut contents.tables, key, entry, what)?;
    }
    let mut view_ids = BTreeSet::new();
    for entry in parts.views {
        entry.check()?;
        let key = (entry.table_bucket.clone(), entry.identifier()?);
        let what = format!("view {}/{}", key.0, key.1);
        if !view_ids.insert((key.0.clone(), entry.view_id.clone())) {
            return Err(invalid(format!("the id of {what} is another view's, too")));
        }
        place(&mut contents.views, key, entry, what)?;
    }
    let mut orphans = 0;
    let mut histories: BTreeMap<(String, String), TableCommits> = BTreeMap::new();
    for row in parts.commits {
        let Some((key, lookup, commit)) = owned(row, &ids, version, &mut orphans)? else {
            continue;
        };
        commit.check()?;
        if commit.commit_id != lookup || commit.table_id != key.1 {
            return Err(invalid(format!("commit {lookup} of {} is filed as another's", key.0)));
        }
        let table = histories.entry(key).or_default();
        place(&mut table.commits, lookup.clone(), commit, format!("commit {lookup}"))?;
    }
    for row in parts.idempotency {
        let Some((key, lookup, record)) = owned(row, &ids, version, &mut orphans)? else {
            continue;
        };
        let table = histories.entry(key).or_default();
        let commit = table.commits.get(&record.commit_id);
        let Some(commit) = commit.filter(|commit| ***commit == record) else {
            return Err(invalid(format!("idempotency key {lookup} has no equal commit")));
        };
        if record.idempotency_key.as_ref() != Some(&lookup) {
            return Err(invalid(format!("idempotency key {lookup} is filed as another")));
        }
        // Both stand for one record.
        if table.idempotency.insert(lookup.clone(), Arc::clone(commit)).is_some() {
            return Err(invalid(format!("idempotency key {lookup} stands twice")));
        }
    }
    contents.commits = histories.into_iter().map(|(key, table)| (key, Arc::new(table))).collect();
    Ok((contents, orphans))
}

/// The parts of a row whose table is there.
#[expect(clippy::type_complexity, reason = "the parts of one row, taken apart at once")]
fn owned(
    row: Row<CommitRecord>,
    ids: &BTreeSet<(String, String)>,
    version: u32,
    orphans: &mut usize,
) -> Result<Option<((String, String), String, CommitRecord)>, Refusal> {
    let key = (row.table_bucket, row.table_id);
    if ids.contains(&key) {
        return Ok(Some((key, row.lookup_key, row.commit)));
    }
    if version > 1 {
        let lookup = row.lookup_key;
        return Err(invalid(format!("commit record {lookup} of {} belongs to no table", key.0)));
    }
    *orphans += 1;
    Ok(None)
}

/// Checks what the entries say of each other, and gives what follows from them.
///
/// A version-1 snapshot with a name that is both a table's and a view's passes; that is its quarantine.
///
/// # Errors
///
/// [`Class::Invalid`].
pub fn validate(contents: &Contents, version: u32) -> Result<Derived, Refusal> {
    let implicit: BTreeMap<&String, BTreeSet<Namespace>> =
        contents.buckets.keys().map(|it| (it, contents.implicit_namespaces(it))).collect();
    for ((bucket, namespace), entry) in &contents.namespaces {
        check_namespace(contents, bucket, namespace, entry, &implicit)?;
    }
    let is_live = |bucket: &String, name: &Identifier| -> bool {
        match contents.namespace(bucket, &name.namespace) {
            Some(entry) => entry.is_active(),
            None => implicit.get(bucket).is_some_and(|known| known.contains(&name.namespace)),
        }
    };
    for ((bucket, name), table) in &contents.tables {
        let what = format!("table {bucket}/{name}");
        check_owner(contents, bucket, table.is_active(), &what)?;
        if table.is_active() || version > 1 {
            prefix::of_table(bucket, &table.warehouse_location)?;
            if !keys::is_table_metadata(&table.metadata_location) {
                let at = &table.metadata_location;
                return Err(invalid(format!("{what} has its metadata at {at:?}")));
            }
            if !is_live(bucket, name) {
                return Err(invalid(format!("{what} is in a namespace that is not active")));
            }
        }
    }
    for ((bucket, name), view) in &contents.views {
        let what = format!("view {bucket}/{name}");
        check_owner(contents, bucket, view.is_active(), &what)?;
        if view.is_active() || version > 1 {
            prefix::of_view(bucket, &view.warehouse_location)?;
            if !keys::is_metadata_in(&view.metadata_location, &keys::view_metadata(name)) {
                let at = &view.metadata_location;
                return Err(invalid(format!("{what} has its metadata at {at:?}")));
            }
            if !is_live(bucket, name) {
                return Err(invalid(format!("{what} is in a namespace that is not active")));
            }
        }
    }
    check_commits(contents)?;
    let derived = Derived::of(contents)?;
    if version > 1
        && let Some((bucket, name)) = derived.collisions.first()
    {
        return Err(invalid(format!("{bucket}/{name} is both a table and a view")));
    }
    Ok(derived)
}

fn check_namespace(
    contents: &Contents,
    bucket: &String,
    namespace: &Namespace,
    entry: &NamespaceEntry,
    implicit: &BTreeMap<&String, BTreeSet<Namespace>>,
) -> Result<(), Refusal> {
    let what = format!("namespace {bucket}/{namespace}");
    name::check_properties(&entry.properties)?;
    check_owner(contents, bucket, entry.is_active(), &what)?;
    if entry.is_active() {
        return Ok(());
    }
    let has_resources = implicit.get(bucket).is_some_and(|known| known.contains(namespace));
    let has_descendants = contents
        .namespaces
        .iter()
        .any(|((of, other), entry)| of == bucket && entry.is_active() && other.is_below(namespace));
    if has_resources || has_descendants {
        return Err(invalid(format!("{what} is not active but has something active in it")));
    }
    Ok(())
}

/// The bucket of an entry must be there, and be active when the entry is.
fn check_owner(
    contents: &Contents,
    bucket: &str,
    is_active: bool,
    what: &str,
) -> Result<(), Refusal> {
    match contents.buckets.get(bucket) {
        None => Err(invalid(format!("{what} is of no table bucket"))),
        Some(owner) if is_active && !owner.is_active() => {
            Err(invalid(format!("{what} is active in a bucket that is not")))
        }
        Some(_) => Ok(()),
    }
}

/// Every record must be on the way to its table's pointer, and every key must find its commit.
fn check_commits(contents: &Contents) -> Result<(), Refusal> {
    for ((bucket, _), table) in &contents.tables {
        let Some(commits) = contents.commits_of(bucket, &table.table_id) else { continue };
        let history = History::of(table, commits.commits.values().map(|it| &**it));
        for (id, commit) in &commits.commits {
            if commit.status == Status::Failed || !history.proves(id) {
                let text =
                    format!("commit {id} of {bucket} is not on the way to its table's pointer");
                return Err(invalid(text));
            }
            let key = commit.idempotency_key.as_ref();
            if key.is_some_and(|key| !commits.idempotency.contains_key(key)) {
                return Err(invalid(format!("commit {id} of {bucket} has no idempotency record")));
            }
        }
    }
    Ok(())
}
