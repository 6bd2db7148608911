//! What a change makes of the contents.
//!
//! # Sources
//!
//! Specification of the catalog §2.4, §2.8, §3.6, §4.7, §4.10; the bounded commit history is ours.

use std::sync::Arc;

use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::commit_record::Status;
use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::fingerprint;
use crate::protocol::catalog::history::History;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::record::Record as _;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::snapshot::contents::Contents;
use crate::protocol::catalog::snapshot::contents::TableCommits;
use crate::protocol::catalog::snapshot::derived::Derived;
use crate::protocol::catalog::strong::change::Answer;
use crate::protocol::catalog::strong::change::Change;
use crate::protocol::catalog::strong::change::ChangedProperties;
use crate::protocol::catalog::strong::change::Commit;
use crate::protocol::catalog::strong::change::Properties;
use crate::protocol::catalog::strong::change::Rename;
use crate::protocol::catalog::strong::plan::Rules;

/// How many commits of a table are kept unless something else is configured.
pub const HISTORY_MAX: usize = 10_000;

/// The next contents, or `None` when nothing changes, and the answer.
pub type Drafted = (Option<Contents>, Answer);

/// What `change` makes of `contents`. The rules bound the commits that a table keeps, at least one: the newest of its
/// proven chain stay, the others go together with their idempotency records.
///
/// # Errors
///
/// What the change's own rules refuse; [`Class::Damaged`] for a name that is both a table's and a view's.
pub fn apply(
    contents: &Contents,
    derived: &Derived,
    change: &Change,
    rules: &Rules,
) -> Result<Drafted, Refusal> {
    match change {
        Change::EnableBucket(bucket) => enable_bucket(contents, bucket),
        Change::CreateNamespace(entry) => create_namespace(contents, entry),
        Change::DropNamespace(bucket, namespace) => drop_namespace(contents, bucket, namespace),
        Change::SetProperties(properties) => set_properties(contents, properties),
        Change::CreateTable(entry) => create_table(contents, derived, entry),
        Change::Commit(it) => commit(contents, derived, it, rules.history_max),
        Change::DropTable(bucket, name, seen) => {
            drop_table(contents, bucket, name, seen.as_deref())
        }
        Change::RenameTable(rename) => rename_table(contents, derived, rename),
        Change::CreateView(entry) => create_view(contents, entry, rules),
        Change::ReplaceView(pair) => replace_view(contents, derived, &pair.0, &pair.1),
        Change::DropView(bucket, name, seen) => drop_view(contents, bucket, name, seen.as_deref()),
        Change::AddBucket(bucket, added) => add_bucket(contents, bucket, added),
        Change::RemoveBucket(bucket, expected) => remove_bucket(contents, bucket, expected),
    }
}

/// A copy of the contents, changed.
fn draft(contents: &Contents, change: impl FnOnce(&mut Contents)) -> Option<Contents> {
    let mut next = contents.clone();
    change(&mut next);
    Some(next)
}

fn check_bucket(contents: &Contents, bucket: &str) -> Result<(), Refusal> {
    match contents.buckets.get(bucket) {
        Some(entry) if entry.is_active() => Ok(()),
        _ => Err(Class::NotFound.because(format!("{bucket} has no active table-bucket entry"))),
    }
}

fn check_namespace(contents: &Contents, bucket: &str, name: &Namespace) -> Result<(), Refusal> {
    if contents.has_namespace(bucket, name) {
        return Ok(());
    }
    Err(Class::NoSuchNamespace.because(format!("there is no namespace {name}")))
}

/// Refuses a name that an entry of any state has.
fn check_free(contents: &Contents, bucket: &str, name: &Identifier) -> Result<(), Refusal> {
    let what = if contents.table(bucket, name).is_some() {
        "table"
    } else if contents.view(bucket, name).is_some() {
        "view"
    } else {
        return Ok(());
    };
    Err(Class::AlreadyExists.because(format!("there is a {what} {name} already")))
}

fn active_table<'a>(
    contents: &'a Contents,
    bucket: &str,
    name: &Identifier,
) -> Result<&'a Arc<TableEntry>, Refusal> {
    contents
        .table(bucket, name)
        .filter(|entry| entry.is_active())
        .ok_or_else(|| Class::NoSuchTable.because(format!("there is no table {name}")))
}

fn active_view<'a>(
    contents: &'a Contents,
    bucket: &str,
    name: &Identifier,
) -> Result<&'a Arc<ViewEntry>, Refusal> {
    contents
        .view(bucket, name)
        .filter(|entry| entry.is_active())
        .ok_or_else(|| Class::NoSuchView.because(format!("there is no view {name}")))
}

fn enable_bucket(contents: &Contents, bucket: &str) -> Result<Drafted, Refusal> {
    if let Some(entry) = contents.buckets.get(bucket) {
        check_bucket(contents, bucket).map_err(|refusal| refusal.as_class(Class::Conflict))?;
        return Ok((None, Answer::Bucket(BucketEntry::clone(entry))));
    }
    let entry = BucketEntry::new(bucket);
    let next = draft(contents, |next| {
        next.buckets.insert(bucket.to_owned(), Arc::new(entry.clone()));
    });
    Ok((next, Answer::Bucket(entry)))
}

fn create_namespace(contents: &Contents, entry: &NamespaceEntry) -> Result<Drafted, Refusal> {
    let (bucket, name) = (&entry.table_bucket, entry.name()?);
    name.check_new()?;
    name::check_properties(&entry.properties)?;
    if contents.buckets.contains_key(bucket) {
        check_bucket(contents, bucket)?;
    }
    if contents.has_namespace(bucket, &name) {
        return Err(Class::AlreadyExists.because(format!("there is a namespace {name} already")));
    }
    let next = draft(contents, |next| {
        let new = || Arc::new(BucketEntry::new(bucket));
        next.buckets.entry(bucket.clone()).or_insert_with(new);
        next.namespaces.insert((bucket.clone(), name), Arc::new(entry.clone()));
    });
    Ok((next, Answer::Namespace(entry.clone())))
}

fn drop_namespace(contents: &Contents, bucket: &str, name: &Namespace) -> Result<Drafted, Refusal> {
    check_bucket(contents, bucket)?;
    let has_entries = contents.tables_of(bucket).any(|(it, _)| it.namespace == *name)
        || contents.views_of(bucket).any(|(it, _)| it.namespace == *name);
    let has_descendants = contents.live_namespaces(bucket).iter().any(|it| it.is_below(name));
    if has_entries || has_descendants {
        let text = format!("namespace {name} still has something in it");
        return Err(Class::NamespaceNotEmpty.because(text));
    }
    check_namespace(contents, bucket, name)?;
    let next = draft(contents, |next| {
        next.namespaces.remove(&(bucket.to_owned(), name.clone()));
    });
    Ok((next, Answer::Done))
}

fn set_properties(contents: &Contents, change: &Properties) -> Result<Drafted, Refusal> {
    let (bucket, name) = (&change.bucket, &change.namespace);
    if let Some(both) = change.removals.iter().find(|key| change.updates.contains_key(*key)) {
        let text = format!("property {both:?} is to be set and removed at once");
        return Err(Class::Unprocessable.because(text));
    }
    check_namespace(contents, bucket, name)?;
    let old = contents.namespace(bucket, name);
    let mut entry = match old {
        Some(entry) => NamespaceEntry::clone(entry),
        None => NamespaceEntry::new(bucket, name, Default::default()),
    };
    let mut answer = ChangedProperties::default();
    for (key, value) in &change.updates {
        entry.properties.insert(key.clone(), value.clone());
        answer.updated.push(key.clone());
    }
    for key in &change.removals {
        match entry.properties.remove(key) {
            Some(_) => answer.removed.push(key.clone()),
            None => answer.missing.push(key.clone()),
        }
    }
    name::check_properties(&entry.properties)?;
    let is_same = match old {
        Some(old) => **old == entry,
        None => entry.properties.is_empty(),
    };
    let answer = Answer::Properties(answer);
    if is_same {
        return Ok((None, answer));
    }
    let next = draft(contents, |next| {
        next.namespaces.insert((bucket.clone(), name.clone()), Arc::new(entry));
    });
    Ok((next, answer))
}

/// Refuses a prefix that overlaps another table's.
fn check_prefix(
    derived: &Derived,
    bucket: &str,
    name: &Identifier,
    prefix: &str,
) -> Result<(), Refusal> {
    let other = derived.prefixes.get(bucket).and_then(|owners| owners.overlapping(prefix));
    match other.filter(|other| *other != name) {
        None => Ok(()),
        Some(other) => {
            let text = format!("the warehouse prefix {prefix} overlaps that of {other}");
            Err(Class::Conflict.because(text))
        }
    }
}

fn create_table(
    contents: &Contents,
    derived: &Derived,
    entry: &TableEntry,
) -> Result<Drafted, Refusal> {
    let (bucket, name) = (&entry.table_bucket, entry.identifier()?);
    entry.check()?;
    let prefix = prefix::of_new_table(bucket, &entry.warehouse_location)?;
    if !keys::is_table_metadata(&entry.metadata_location) {
        let at = &entry.metadata_location;
        return Err(Class::Invalid.because(format!("{at:?} is no table's metadata file")));
    }
    check_bucket(contents, bucket)?;
    check_free(contents, bucket, &name)?;
    check_namespace(contents, bucket, &name.namespace)?;
    if contents.tables_of(bucket).any(|(_, other)| other.table_id == entry.table_id) {
        return Err(Class::Conflict.because(format!("the id of {name} is another table's")));
    }
    check_prefix(derived, bucket, &name, &prefix)?;
    let next = draft(contents, |next| {
        next.tables.insert((bucket.clone(), name), Arc::new(entry.clone()));
    });
    Ok((next, Answer::Table(entry.clone())))
}

fn commit(
    contents: &Contents,
    derived: &Derived,
    change: &Commit,
    history_max: usize,
) -> Result<Drafted, Refusal> {
    let (bucket, name) = (&change.bucket, &change.table);
    check_bucket(contents, bucket)?;
    derived.check_name(bucket, name)?;
    let table = active_table(contents, bucket, name)?;
    let record = change.record.with_status(Status::Committed);
    let conflict = |text: String| Err(Class::Conflict.because(text));
    if table.table_id != record.table_id {
        return conflict(format!("{name} was dropped and made anew meanwhile"));
    }
    let known = contents.commits_of(bucket, &table.table_id);
    if let Some(found) = existing(known.map(|it| &**it), &record)? {
        // Every record of a snapshot is on the way to the pointer.
        let is_own = found.new_version_token == record.new_version_token;
        return Ok((None, Answer::Committed(TableEntry::clone(table), !is_own)));
    }
    let (location, token) = record.previous_state();
    if !table.is_at(location, token) {
        return conflict(format!("{name} has moved on from what the commit is based on"));
    }
    if record.new_metadata_location == table.metadata_location {
        return Ok((None, Answer::Committed(TableEntry::clone(table), true)));
    }
    if change.warehouse_location != table.warehouse_location {
        let prefix = prefix::of_new_table(bucket, &change.warehouse_location)?;
        check_prefix(derived, bucket, name, &prefix)?;
    }
    let moved = TableEntry {
        metadata_location: record.new_metadata_location.clone(),
        version_token: record.new_version_token.clone(),
        generation: table.generation.saturating_add(1),
        warehouse_location: change.warehouse_location.clone(),
        format_version: change.format_version,
        ..TableEntry::clone(table)
    };
    let answer = Answer::Committed(moved.clone(), false);
    let next = draft(contents, |next| {
        let key = (bucket.clone(), moved.table_id.clone());
        let commits = Arc::make_mut(next.commits.entry(key).or_default());
        let record = Arc::new(record);
        if let Some(name) = &record.idempotency_key {
            commits.idempotency.insert(name.clone(), Arc::clone(&record));
        }
        commits.commits.insert(record.commit_id.clone(), record);
        prune(commits, &moved, history_max);
        next.tables.insert((bucket.clone(), name.clone()), Arc::new(moved));
    });
    Ok((next, answer))
}

/// The record of the same commit, if there is one.
fn existing<'a>(
    known: Option<&'a TableCommits>,
    record: &CommitRecord,
) -> Result<Option<&'a CommitRecord>, Refusal> {
    let Some(known) = known else { return Ok(None) };
    let id = &record.commit_id;
    let by_key = record.idempotency_key.as_ref().and_then(|key| known.idempotency.get(key));
    let by_id = known.commits.get(id);
    if by_key.is_some_and(|found| found.commit_id != *id) {
        let text = format!("the idempotency key of commit {id} is another commit's");
        return Err(Class::Conflict.because(text));
    }
    match by_id.or(by_key) {
        None => Ok(None),
        Some(found) if found.has_payload_of(record) => Ok(Some(&**found)),
        Some(_) => {
            Err(Class::Conflict.because(format!("commit {id} is known with other contents")))
        }
    }
}

/// Keeps the newest commits of the chain that leads to the table's pointer.
fn prune(commits: &mut TableCommits, table: &TableEntry, history_max: usize) {
    if commits.commits.len() <= history_max.max(1) {
        return;
    }
    let history = History::of(table, commits.commits.values().map(|it| &**it));
    let kept = history.chain().iter().take(history_max.max(1)).map(|id| (*id).to_owned());
    let kept: std::collections::BTreeSet<String> = kept.collect();
    commits.commits.retain(|id, _| kept.contains(id));
    commits.idempotency.retain(|_, record| kept.contains(&record.commit_id));
}

fn drop_table(
    contents: &Contents,
    bucket: &str,
    name: &Identifier,
    seen: Option<&str>,
) -> Result<Drafted, Refusal> {
    check_bucket(contents, bucket)?;
    let table = active_table(contents, bucket, name)?;
    if seen.is_some_and(|seen| seen != table.table_id) {
        let text = format!("{name} was dropped and made anew meanwhile");
        return Err(Class::Conflict.because(text));
    }
    let next = draft(contents, |next| {
        next.tables.remove(&(bucket.to_owned(), name.clone()));
        next.commits.remove(&(bucket.to_owned(), table.table_id.clone()));
    });
    Ok((next, Answer::Done))
}

fn rename_table(
    contents: &Contents,
    derived: &Derived,
    rename: &Rename,
) -> Result<Drafted, Refusal> {
    let Rename { bucket, from, to, .. } = rename;
    check_bucket(contents, bucket)?;
    derived.check_name(bucket, from)?;
    check_namespace(contents, bucket, &to.namespace)?;
    let table = active_table(contents, bucket, from)?;
    check_free(contents, bucket, to)?;
    let renamed = TableEntry {
        namespace: to.namespace.dotted().to_owned(),
        table: to.name.clone(),
        ..TableEntry::clone(table)
    };
    let next = draft(contents, |next| {
        next.tables.remove(&(bucket.clone(), from.clone()));
        next.tables.insert((bucket.clone(), to.clone()), Arc::new(renamed.clone()));
    });
    Ok((next, Answer::Table(renamed)))
}

fn check_view(entry: &ViewEntry) -> Result<Identifier, Refusal> {
    entry.check()?;
    let name = entry.identifier()?;
    prefix::of_view(&entry.table_bucket, &entry.warehouse_location)?;
    if !keys::is_metadata_in(&entry.metadata_location, &keys::view_metadata(&name)) {
        let at = &entry.metadata_location;
        return Err(Class::Invalid.because(format!("{at:?} is no metadata file of view {name}")));
    }
    Ok(name)
}

fn create_view(contents: &Contents, entry: &ViewEntry, rules: &Rules) -> Result<Drafted, Refusal> {
    let (bucket, name) = (&entry.table_bucket, check_view(entry)?);
    check_bucket(contents, bucket)?;
    if rules.knows_collisions || contents.view(bucket, &name).is_some() {
        check_free(contents, bucket, &name)?;
    }
    check_namespace(contents, bucket, &name.namespace)?;
    let next = draft(contents, |next| {
        next.views.insert((bucket.clone(), name), Arc::new(entry.clone()));
    });
    Ok((next, Answer::View(entry.clone())))
}

fn replace_view(
    contents: &Contents,
    derived: &Derived,
    base: &ViewEntry,
    entry: &ViewEntry,
) -> Result<Drafted, Refusal> {
    let (bucket, name) = (&entry.table_bucket, check_view(entry)?);
    derived.check_name(bucket, &name)?;
    let found = active_view(contents, bucket, &name)?;
    if **found != *base {
        let text = format!("view {name} has moved on from what the change is based on");
        return Err(Class::Conflict.because(text));
    }
    if entry.metadata_location == base.metadata_location {
        return Ok((None, Answer::View(base.clone())));
    }
    let next = draft(contents, |next| {
        next.views.insert((bucket.clone(), name), Arc::new(entry.clone()));
    });
    Ok((next, Answer::View(entry.clone())))
}

fn drop_view(
    contents: &Contents,
    bucket: &str,
    name: &Identifier,
    seen: Option<&str>,
) -> Result<Drafted, Refusal> {
    check_bucket(contents, bucket)?;
    let view = active_view(contents, bucket, name)?;
    if seen.is_some_and(|seen| seen != view.view_id) {
        let text = format!("{name} was dropped and made anew meanwhile");
        return Err(Class::Conflict.because(text));
    }
    let next = draft(contents, |next| {
        next.views.remove(&(bucket.to_owned(), name.clone()));
    });
    Ok((next, Answer::Done))
}

fn add_bucket(contents: &Contents, bucket: &str, added: &Contents) -> Result<Drafted, Refusal> {
    let (there, wanted) =
        (fingerprint::of_bucket(contents, bucket), fingerprint::of_bucket(added, bucket));
    if there.is_some() && there == wanted {
        return Ok((None, Answer::Done));
    }
    if there.is_some() {
        let text = format!("the strong snapshot has bucket {bucket} with other contents");
        return Err(Class::Conflict.because(text));
    }
    Ok((draft(contents, |next| next.merge(added, Some(bucket))), Answer::Done))
}

fn remove_bucket(contents: &Contents, bucket: &str, expected: &str) -> Result<Drafted, Refusal> {
    match fingerprint::of_bucket(contents, bucket) {
        None => Ok((None, Answer::Done)),
        Some(found) if found == expected => {
            Ok((draft(contents, |next| next.remove_bucket(bucket)), Answer::Done))
        }
        Some(_) => {
            let text = format!("the strong state of bucket {bucket} has moved on");
            Err(Class::Conflict.because(text))
        }
    }
}
