//! The write that a change needs: its version, its precondition, its bytes.
//!
//! # Sources
//!
//! Specification of the catalog §4.6 (protocol, version, postconditions), §4.9, §4.10; M22 (epoch).

use std::sync::Arc;

use crate::protocol::catalog::fingerprint;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::settings::Gates;
use crate::protocol::catalog::snapshot::codec;
use crate::protocol::catalog::snapshot::codec::Snapshot;
use crate::protocol::catalog::snapshot::contents::Contents;
use crate::protocol::catalog::snapshot::derived::Derived;
use crate::protocol::catalog::snapshot::validate;
use crate::protocol::catalog::strong::change::Answer;
use crate::protocol::catalog::strong::change::Change;
use crate::protocol::catalog::strong::draft;
use crate::protocol::catalog::strong::hydrate;
use crate::protocol::catalog::strong::hydrate::Loaded;
use crate::protocol::catalog::strong::hydrate::Memory;
use crate::protocol::catalog::write::When;
use crate::protocol::catalog::write::Write;

/// What a process writes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// The gates of version 2.
    pub gates: Gates,
    /// The most commits that a table keeps.
    pub history_max: usize,
    /// Whether no name may become both a table's and a view's, and only what undoes that is written where one is.
    pub knows_collisions: bool,
    /// No epoch is at or below this one: that of the snapshot that the last cancellation removed.
    pub epoch_floor: u64,
    /// Whether a snapshot keeps the version that it has reached.
    pub keeps_version: bool,
    /// The most bytes of a snapshot that is written; what is there is read up to [`codec::SNAPSHOT_BYTES_MAX`].
    pub bytes_max: usize,
}

impl Rules {
    /// The rules of these gates, with the default bound.
    pub fn new(gates: Gates) -> Self {
        Self {
            gates,
            history_max: draft::HISTORY_MAX,
            knows_collisions: true,
            epoch_floor: 0,
            keeps_version: true,
            bytes_max: codec::SNAPSHOT_BYTES_MAX,
        }
    }
}

/// A change that needs a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The write.
    pub write: Write,
    /// What is durable after it, but for its ETag.
    pub snapshot: Snapshot,
    /// Its epoch.
    pub epoch: u64,
    /// The answer after it.
    pub answer: Answer,
}

/// What a change needs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "a plan is made once and taken apart at once")]
pub enum Plan {
    /// Nothing: this is the answer.
    Unchanged(Answer),
    /// A write.
    Write(Box<Planned>),
}

/// What `change` needs on top of `loaded` (`None` when there is no snapshot), which was hydrated into `memory`.
///
/// # Errors
///
/// As [`draft::apply`]; [`Class::Conflict`] for a change in quarantine that does not shrink it; [`Class::Invalid`]
/// for contents that version 2 does not allow, or that are too large.
pub fn plan(
    loaded: Option<&Loaded>,
    memory: &Memory,
    change: &Change,
    rules: &Rules,
) -> Result<Plan, Refusal> {
    let (nothing, nothing_derived) = (Contents::default(), Derived::default());
    let (contents, derived) = match loaded {
        Some(loaded) => (&*loaded.snapshot.contents, &*loaded.snapshot.derived),
        None => (&nothing, &nothing_derived),
    };
    let (next, answer) = draft::apply(contents, derived, change, rules)?;
    let Some(next) = next else { return Ok(Plan::Unchanged(answer)) };
    let seen = loaded.map(|loaded| loaded.snapshot.version).max(memory.version);
    let seen = seen.filter(|_| rules.keeps_version);
    let next_derived = Derived::of(&next)?;
    let version = match rules.knows_collisions {
        true => version(seen, rules.gates, derived, &next_derived)?,
        false => rules.gates.write_version(),
    };
    let next_derived = validate::validate(&next, version)?;
    let bytes = codec::encode(&next, version)?;
    codec::check_size(bytes.len(), rules.bytes_max)?;
    let last =
        loaded.and_then(|loaded| loaded.epoch).max(memory.epoch).max(Some(rules.epoch_floor));
    let epoch = last.unwrap_or_default() + 1;
    let when = match loaded {
        Some(loaded) => When::Matches(loaded.etag.clone()),
        None => When::Absent,
    };
    let mut write = Write::put(keys::SNAPSHOT.to_owned(), bytes, when, change.point());
    write.user_metadata = vec![(hydrate::EPOCH.to_owned(), epoch.to_string())];
    let snapshot =
        Snapshot { version, contents: Arc::new(next), derived: Arc::new(next_derived), orphans: 0 };
    Ok(Plan::Write(Box::new(Planned { write, snapshot, epoch, answer })))
}

/// The version of the next write: never below what was seen, 2 when both gates are open, and 1 as long as a name is
/// both a table's and a view's.
///
/// # Errors
///
/// [`Class::Invalid`] when such a name remains and version 2 was seen; [`Class::Conflict`] when the set of such
/// names does not shrink.
pub fn version(
    seen: Option<u32>,
    gates: Gates,
    before: &Derived,
    after: &Derived,
) -> Result<u32, Refusal> {
    let seen = seen.unwrap_or(1);
    if after.collisions.is_empty() {
        return Ok(seen.max(gates.write_version()));
    }
    if seen > 1 {
        return Err(Class::Invalid
            .because("a name is both a table's and a view's, which version 2 does not allow"));
    }
    let shrinks = after.collisions.len() < before.collisions.len()
        && after.collisions.is_subset(&before.collisions);
    if shrinks {
        return Ok(1);
    }
    Err(Class::Conflict.because(
        "a name is both a table's and a view's: until one of them is dropped, nothing else is changed",
    ))
}

/// Whether the contents show that `change` has happened, when the answer of its write was lost.
pub fn has_happened(contents: &Contents, change: &Change) -> bool {
    match change {
        Change::EnableBucket(bucket) => contents.buckets.contains_key(bucket),
        Change::CreateNamespace(entry) => entry.name().is_ok_and(|name| {
            contents.namespace(&entry.table_bucket, &name).is_some_and(|found| **found == *entry)
        }),
        Change::DropNamespace(bucket, name) => contents.namespace(bucket, name).is_none(),
        Change::SetProperties(it) => {
            contents.namespace(&it.bucket, &it.namespace).is_some_and(|found| {
                it.updates.iter().all(|(key, value)| found.properties.get(key) == Some(value))
                    && it.removals.iter().all(|key| !found.properties.contains_key(key))
            })
        }
        Change::CreateTable(entry) => entry.identifier().is_ok_and(|name| {
            contents.table(&entry.table_bucket, &name).is_some_and(|found| **found == *entry)
        }),
        Change::Commit(it) => {
            let known = contents.commits_of(&it.bucket, &it.record.table_id);
            let found = known.and_then(|known| known.commits.get(&it.record.commit_id));
            found.is_some_and(|found| found.has_payload_of(&it.record))
        }
        Change::DropTable(bucket, name, seen) => contents
            .table(bucket, name)
            .is_none_or(|now| seen.as_ref().is_some_and(|seen| now.table_id != *seen)),
        Change::RenameTable(it) => {
            let is_gone = contents.table(&it.bucket, &it.from).is_none();
            let there = contents.table(&it.bucket, &it.to);
            let is_same = there.is_some_and(|now| it.table_id.as_ref() == Some(&now.table_id));
            is_gone && is_same
        }
        Change::CreateView(entry) => is_view(contents, entry),
        Change::ReplaceView(pair) => is_view(contents, &pair.1),
        Change::DropView(bucket, name, seen) => contents
            .view(bucket, name)
            .is_none_or(|now| seen.as_ref().is_some_and(|seen| now.view_id != *seen)),
        Change::AddBucket(bucket, added) => {
            let there = fingerprint::of_bucket(contents, bucket);
            there.is_some() && there == fingerprint::of_bucket(added, bucket)
        }
        Change::RemoveBucket(bucket, _) => !contents.buckets.contains_key(bucket),
    }
}

fn is_view(contents: &Contents, entry: &crate::protocol::catalog::entry::ViewEntry) -> bool {
    entry.identifier().is_ok_and(|name| {
        contents.view(&entry.table_bucket, &name).is_some_and(|found| **found == *entry)
    })
}
