//! One commit to an object-backed table, from its metadata file to its records.
//!
//! ```text
//!  C1 metadata file ─▶ C2 prefix reserved ─▶ C3 log STAGED ─▶ C4 key STAGED ─▶ C5 POINTER ─▶ C6 old prefix
//!  released ─▶ C7 log COMMITTED ─▶ C8 key COMMITTED          (C2, C6: to another prefix only, or C2 when missing)
//! ```
//!
//! C5 is the linearising write. A retry of the same commit goes on where the records stand, with the token that
//! they have; a write whose answer was lost is found out by asking again (M17).
//!
//! # Sources
//!
//! Specification of the catalog §3.4, §2.8 (replay); M24 (publishing what is current is no change).

use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::commit_record::Status;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::history::History;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::object::permit;
use crate::protocol::catalog::object::permit::Purpose;
use crate::protocol::catalog::object::reservation;
use crate::protocol::catalog::object::reservation::Reservation;
use crate::protocol::catalog::object::reservation::Standing;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::record::Record;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::write::Found;
use crate::protocol::catalog::write::Step;
use crate::protocol::catalog::write::When;
use crate::protocol::catalog::write::Write;
use crate::protocol::crash_point::CrashPoint;

/// What is durable, read under the locks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Durable {
    /// The bucket fence, if it is there.
    pub fence: Option<BucketFence>,
    /// The table's entry.
    pub table: Option<Found<TableEntry>>,
    /// Whether the new metadata file is there. That it holds this commit's contents is the reader's to check.
    pub has_metadata: bool,
    /// The log record of this commit id.
    pub commit: Option<CommitRecord>,
    /// The idempotency record of this commit's key.
    pub keyed: Option<CommitRecord>,
    /// Every log record of the table; read only when [`needs_history`].
    pub history: Option<Vec<CommitRecord>>,
    /// The reservation of the prefix that the table has after the commit.
    pub reservation: Option<Reservation>,
    /// The reservation of [`Request::from_prefix`].
    pub released: Option<Reservation>,
    /// Another active table, by its id, whose prefix overlaps the one after the commit; looked for only when the
    /// commit moves the table to another prefix.
    pub overlapping: Option<Identifier>,
}

/// What is asked for. It stays the same from the first question to the last.
#[derive(Debug, Clone)]
pub struct Request {
    /// The bucket.
    pub bucket: String,
    /// The table.
    pub table: Identifier,
    /// The commit, staged, with a fresh new token.
    pub record: CommitRecord,
    /// The metadata file's contents; `None` when the client has put it there itself.
    pub metadata: Option<Vec<u8>>,
    /// The table's location after the commit.
    pub warehouse_location: String,
    /// The format version after the commit.
    pub format_version: u32,
    /// The prefix that the table had when the request was begun.
    pub from_prefix: String,
    /// Whether the name of the metadata file was drawn for this request, so that nobody else waits for it.
    pub has_fresh_name: bool,
    /// Whether a best-effort step has failed: then what is left of them is left to recovery.
    pub leaves_unfinished: bool,
}

/// What a commit has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The table as it stands now.
    pub table: TableEntry,
    /// The commit.
    pub commit_id: String,
    /// Whether nothing had to be published: it was, or it was current already.
    pub is_replay: bool,
}

/// Whether the question can only be answered with every log record of the table.
pub fn needs_history(durable: &Durable, request: &Request) -> bool {
    let (Some(table), Some(commit)) = (&durable.table, &durable.commit) else { return false };
    let is_at = |(location, token): (&str, &str)| table.value.is_at(location, token);
    durable.history.is_none()
        && commit.has_payload_of(&request.record)
        && !is_at(commit.new_state())
        && !is_at(commit.previous_state())
}

/// The next write of a commit, or its answer.
///
/// # Errors
///
/// [`Class::NoSuchTable`]; [`Class::Conflict`] when the base moved, the id or key names another commit, the records
/// contradict each other, the bucket is fenced or the prefix is another table's; [`Class::Invalid`] for a location
/// that is none. Nothing of it moves the pointer.
pub fn next(durable: &Durable, request: &Request) -> Result<Step<Committed>, Refusal> {
    let wanted = &request.record;
    if let (Some(found), Some(commit)) = (&durable.table, &durable.commit)
        && durable.fence.is_some()
        && is_finished(durable, &found.value, commit, wanted)
    {
        // A fence is no reason to deny what was done before it: the client would do it again elsewhere.
        let is_replay = commit.new_version_token != wanted.new_version_token;
        return Ok(Step::Done(done(&found.value, commit, is_replay)));
    }
    permit::check_bucket(durable.fence.as_ref(), Purpose::Change)?;
    let found = active(durable.table.as_ref(), &request.table)?;
    let table = &found.value;
    if table.table_id != wanted.table_id {
        let text = format!("{} was dropped and made anew meanwhile", request.table);
        return Err(Class::Conflict.because(text));
    }
    check_records(durable, wanted)?;
    let conflict = |text: &str| {
        let id = &wanted.commit_id;
        Err(Class::Conflict.because(format!("commit {id} of {}: {text}", request.table)))
    };
    let Some(commit) = &durable.commit else {
        let (location, token) = wanted.previous_state();
        if !table.is_at(location, token) {
            return conflict("the table has moved on from what it is based on");
        }
        if wanted.new_metadata_location == table.metadata_location {
            return Ok(Step::Done(done(table, wanted, true)));
        }
        return publish(durable, request, found, wanted);
    };
    let is_at = |(location, token): (&str, &str)| table.is_at(location, token);
    let is_published = is_at(commit.new_state()) || is_proven(durable, table, commit);
    match commit.status {
        Status::Failed => conflict("it is recorded as failed"),
        Status::Staged | Status::Committed if is_published => {
            finish(durable, request, table, commit)
        }
        Status::Staged if is_at(commit.previous_state()) => {
            publish(durable, request, found, commit)
        }
        Status::Staged => conflict("it is staged, and the table has moved on"),
        Status::Committed => {
            conflict("it is recorded as committed, and the table does not show it")
        }
    }
}

/// Whether a commit is published, and all its records say so.
fn is_finished(
    durable: &Durable,
    table: &TableEntry,
    commit: &CommitRecord,
    wanted: &CommitRecord,
) -> bool {
    let (location, token) = commit.new_state();
    table.is_active()
        && table.table_id == wanted.table_id
        && commit.status == Status::Committed
        && commit.has_payload_of(wanted)
        && (table.is_at(location, token) || is_proven(durable, table, commit))
        && check_records(durable, wanted).is_ok()
        && (commit.idempotency_key.is_none() || durable.keyed.as_ref() == Some(commit))
}

/// What gives back what a refused commit has taken: the reservation, and a metadata file that nobody waits for.
pub fn undo(durable: &Durable, request: &Request) -> Vec<Write> {
    let Some(table) = &durable.table else { return Vec::new() };
    let is_published = durable.commit.is_some()
        || table.value.metadata_location == request.record.new_metadata_location;
    let mut writes = Vec::new();
    let current = prefix::of_table(&request.bucket, &table.value.warehouse_location).ok();
    if let Some(taken) = &durable.reservation
        && taken.standing(&table.value) == Standing::Own
        && !is_published
        && current.as_ref() != Some(&taken.entry.value.warehouse_object_prefix)
    {
        writes.push(taken.removal(CrashPoint::CatalogIndexReturned).best_effort());
    }
    if durable.has_metadata && request.has_fresh_name && request.metadata.is_some() && !is_published
    {
        let key = request.record.new_metadata_location.clone();
        let point = CrashPoint::CatalogMetadataRemoved;
        writes.push(Write::remove_metadata(&request.bucket, key, point));
    }
    writes
}

/// The table's entry, when it is there and active.
pub(crate) fn active<'a>(
    table: Option<&'a Found<TableEntry>>,
    name: &Identifier,
) -> Result<&'a Found<TableEntry>, Refusal> {
    table
        .filter(|found| found.value.is_active())
        .ok_or_else(|| Class::NoSuchTable.because(format!("there is no table {name}")))
}

/// Refuses records that contradict each other or name another commit.
fn check_records(durable: &Durable, wanted: &CommitRecord) -> Result<(), Refusal> {
    let conflict = |text: String| Err(Class::Conflict.because(text));
    let id = &wanted.commit_id;
    if let Some(keyed) = &durable.keyed {
        let key = keyed.idempotency_key.as_deref().unwrap_or_default();
        if keyed.commit_id != *id {
            let other = &keyed.commit_id;
            return conflict(format!(
                "idempotency key {key} is that of commit {other}, not of {id}"
            ));
        }
        match &durable.commit {
            None => return conflict(format!("idempotency key {key} has no commit record")),
            Some(commit) if !keyed.has_payload_of(commit) => {
                return conflict(format!("commit {id} and its idempotency record differ"));
            }
            Some(_) => {}
        }
    }
    match &durable.commit {
        Some(commit) if !commit.has_payload_of(wanted) => {
            conflict(format!("commit {id} is known with other contents"))
        }
        _ => Ok(()),
    }
}

fn is_proven(durable: &Durable, table: &TableEntry, commit: &CommitRecord) -> bool {
    durable.history.as_ref().is_some_and(|all| History::of(table, all).proves(&commit.commit_id))
}

/// C1 to C5.
fn publish(
    durable: &Durable,
    request: &Request,
    found: &Found<TableEntry>,
    commit: &CommitRecord,
) -> Result<Step<Committed>, Refusal> {
    let bucket = &request.bucket;
    let table = &found.value;
    let moved = TableEntry {
        metadata_location: commit.new_metadata_location.clone(),
        version_token: commit.new_version_token.clone(),
        generation: table.generation.saturating_add(1),
        warehouse_location: request.warehouse_location.clone(),
        format_version: request.format_version,
        ..table.clone()
    };
    let old = prefix::of_table(bucket, &table.warehouse_location)?;
    let new = if moved.warehouse_location == table.warehouse_location {
        old.clone()
    } else {
        prefix::of_new_table(bucket, &moved.warehouse_location)?
    };
    if new != old {
        reservation::check_overlap(&new, durable.overlapping.as_ref())?;
    }
    if let Some(contents) = &request.metadata
        && !durable.has_metadata
    {
        let key = commit.new_metadata_location.clone();
        let point = CrashPoint::CatalogCommitMetadataWritten;
        return Ok(Step::Write(Write::metadata(bucket, key, contents.clone(), point)));
    }
    let point = CrashPoint::CatalogCommitIndexReserved;
    let found_there = durable.reservation.as_ref();
    if let Some(write) = reservation::reserve(&moved, &new, found_there, point)? {
        return Ok(Step::Write(write));
    }
    if durable.commit.is_none() {
        let key = commit.key(bucket)?;
        let point = CrashPoint::CatalogCommitLogStaged;
        return Ok(Step::Write(Write::put(key, commit.encode(), When::Absent, point)));
    }
    if let (Some(name), None) = (&commit.idempotency_key, &durable.keyed) {
        let key = keys::idempotency_record(bucket, &commit.table_id, name);
        let point = CrashPoint::CatalogCommitKeyStaged;
        return Ok(Step::Write(Write::put(key, commit.encode(), When::Absent, point)));
    }
    let key = keys::table_entry(bucket, &request.table);
    let point = CrashPoint::CatalogCommitPointerMoved;
    Ok(Step::Write(Write::put(key, moved.encode(), found.unchanged(), point)))
}

/// C6 to C8: nothing of it fails the commit.
fn finish(
    durable: &Durable,
    request: &Request,
    table: &TableEntry,
    commit: &CommitRecord,
) -> Result<Step<Committed>, Refusal> {
    let step = |write: Write| Ok(Step::Write(write.best_effort()));
    if !request.leaves_unfinished {
        let prefix = prefix::of_table(&request.bucket, &table.warehouse_location)?;
        if let Some(old) = &durable.released
            && request.from_prefix != prefix
            && old.entry.value.is_owned_by(table)
            && old.entry.value.warehouse_object_prefix == request.from_prefix
        {
            return step(old.removal(CrashPoint::CatalogCommitIndexReleased));
        }
        let finished = commit.with_status(Status::Committed);
        if commit.status != Status::Committed {
            let key = commit.key(&request.bucket)?;
            let point = CrashPoint::CatalogCommitLogCommitted;
            return step(Write::put(key, finished.encode(), When::Always, point));
        }
        if let Some(name) = &commit.idempotency_key
            && durable.keyed.as_ref() != Some(&finished)
        {
            let key = keys::idempotency_record(&request.bucket, &commit.table_id, name);
            let point = CrashPoint::CatalogCommitKeyCommitted;
            return step(Write::put(key, finished.encode(), When::Always, point));
        }
    }
    Ok(Step::Done(done(
        table,
        commit,
        commit.new_version_token != request.record.new_version_token,
    )))
}

fn done(table: &TableEntry, commit: &CommitRecord, is_replay: bool) -> Committed {
    Committed { table: table.clone(), commit_id: commit.commit_id.clone(), is_replay }
}
