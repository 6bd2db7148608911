//! What a table's commit records say of themselves, and what is safe to repair.
//!
//! Repair rewrites records; it never moves the pointer. A staged commit that provably was never published is put
//! aside (M3): it is copied, then its records are removed, which every server reads as "never staged".
//!
//! # Sources
//!
//! Specification of the catalog §3.5 (classification, report, safe repair), K-W1; M3, M26.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde::Deserialize;
use serde::Serialize;

use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::commit_record::Status;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::history::History;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::object::commit::active;
use crate::protocol::catalog::object::permit;
use crate::protocol::catalog::object::permit::Purpose;
use crate::protocol::catalog::record::Record;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::write::Found;
use crate::protocol::catalog::write::Step;
use crate::protocol::catalog::write::When;
use crate::protocol::catalog::write::Write;
use crate::protocol::crash_point::CrashPoint;

/// What a record is to the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RecoveryState {
    /// Done, and all its records say so.
    Committed,
    /// Published; its records do not say so yet.
    FinalizationRequired,
    /// Published and said so; its idempotency record is missing or stale.
    IdempotencyIndexRepairRequired,
    /// Staged on what is current: the client's retry goes on with it.
    StagedBeforeTableUpdate,
    /// Nothing that is known explains it.
    ManualReview,
}

/// What a commit's idempotency record is to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum KeyStatus {
    /// The commit has no key.
    NotRequired,
    /// There is none.
    Missing,
    /// It is the same.
    Matches,
    /// Same commit, another status.
    Stale,
    /// Another commit.
    Conflicting,
}

/// One commit of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedCommit {
    /// Names it.
    pub commit_id: String,
    /// The client's name for it.
    pub idempotency_key: Option<String>,
    /// What kind of change it is.
    pub operation: String,
    /// What its record says.
    pub status: Status,
    /// What it is to the table.
    pub recovery_state: RecoveryState,
    /// From this metadata file …
    pub previous_metadata_location: String,
    /// … to this one.
    pub new_metadata_location: String,
    /// From this token …
    pub expected_version_token: String,
    /// … to this one.
    pub new_version_token: String,
    /// Whether there is an idempotency record.
    pub idempotency_index_present: bool,
    /// What it is to the commit.
    pub idempotency_index_status: KeyStatus,
    /// Why, for a reader.
    pub reason: String,
}

/// The commit recovery report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The bucket.
    pub table_bucket: String,
    /// The namespace, with dots.
    pub namespace: String,
    /// The table.
    pub table: String,
    /// Its id.
    pub table_id: String,
    /// Its pointer.
    pub current_metadata_location: String,
    /// Its token.
    pub current_version_token: String,
    /// Its generation.
    pub current_generation: u64,
    /// Its commits, by their ids.
    pub commits: Vec<ReportedCommit>,
    /// How many are staged on what is current.
    pub staged_before_table_update_count: usize,
    /// How many are published and not said to be.
    pub finalization_required_count: usize,
    /// How many have an idempotency record that is missing or stale.
    pub idempotency_repair_required_count: usize,
    /// How many an operator must look at.
    pub manual_review_count: usize,
    /// How many repairs this call has made.
    pub finalized_count: usize,
}

impl Report {
    /// How many commits safe repair can set right.
    pub fn repairable(&self) -> usize {
        self.finalization_required_count + self.idempotency_repair_required_count
    }
}

/// All records of one table.
#[derive(Debug, Clone, Copy)]
pub struct Records<'a> {
    table: &'a TableEntry,
    commits: &'a [CommitRecord],
    idempotency: &'a [CommitRecord],
}

impl<'a> Records<'a> {
    /// The commit and idempotency records of `table`.
    pub fn new(
        table: &'a TableEntry,
        commits: &'a [CommitRecord],
        idempotency: &'a [CommitRecord],
    ) -> Self {
        Self { table, commits, idempotency }
    }

    /// The report of these records, sorted by commit id.
    pub fn report(&self, finalized_count: usize) -> Report {
        let history = History::of(self.table, self.commits);
        let keyed = self.keyed();
        let mut commits: Vec<_> =
            self.commits.iter().map(|commit| self.reported(commit, &history, &keyed)).collect();
        commits.sort_by(|a, b| a.commit_id.cmp(&b.commit_id));
        let count = |state| commits.iter().filter(|it| it.recovery_state == state).count();
        Report {
            table_bucket: self.table.table_bucket.clone(),
            namespace: self.table.namespace.clone(),
            table: self.table.table.clone(),
            table_id: self.table.table_id.clone(),
            current_metadata_location: self.table.metadata_location.clone(),
            current_version_token: self.table.version_token.clone(),
            current_generation: self.table.generation,
            staged_before_table_update_count: count(RecoveryState::StagedBeforeTableUpdate),
            finalization_required_count: count(RecoveryState::FinalizationRequired),
            idempotency_repair_required_count: count(RecoveryState::IdempotencyIndexRepairRequired),
            manual_review_count: count(RecoveryState::ManualReview),
            finalized_count,
            commits,
        }
    }

    /// The staged commits that provably were never published, by their ids.
    ///
    /// Every state has at most one successor, because each move of the pointer is conditional on it. So a staged
    /// commit was not published when its base is current, or when another commit is proven to have followed its
    /// base. This holds only while the table's lock is: otherwise its writer may be about to publish it.
    pub fn abandonable(&self) -> BTreeSet<&'a str> {
        let history = History::of(self.table, self.commits);
        let keyed = self.keyed();
        let proven = |commit: &&CommitRecord| history.proves(&commit.commit_id);
        let followed: BTreeSet<(&str, &str)> =
            self.commits.iter().filter(proven).map(CommitRecord::previous_state).collect();
        let is_lost = |commit: &&CommitRecord| {
            let (location, token) = commit.previous_state();
            let (new_location, new_token) = commit.new_state();
            commit.status == Status::Staged
                && !history.proves(&commit.commit_id)
                && !self.table.is_at(new_location, new_token)
                && key_status(commit, &keyed) != KeyStatus::Conflicting
                && (self.table.is_at(location, token) || followed.contains(&(location, token)))
        };
        self.commits.iter().filter(is_lost).map(|commit| &*commit.commit_id).collect()
    }

    fn keyed(&self) -> BTreeMap<&'a str, &'a CommitRecord> {
        let records = self.idempotency.iter();
        records.filter_map(|it| Some((it.idempotency_key.as_deref()?, it))).collect()
    }

    fn reported(
        &self,
        commit: &CommitRecord,
        history: &History<'_>,
        keyed: &BTreeMap<&str, &CommitRecord>,
    ) -> ReportedCommit {
        let key = key_status(commit, keyed);
        let (recovery_state, reason) = self.classify(commit, history, key);
        ReportedCommit {
            commit_id: commit.commit_id.clone(),
            idempotency_key: commit.idempotency_key.clone(),
            operation: commit.operation.clone(),
            status: commit.status,
            recovery_state,
            previous_metadata_location: commit.previous_metadata_location.clone(),
            new_metadata_location: commit.new_metadata_location.clone(),
            expected_version_token: commit.expected_version_token.clone(),
            new_version_token: commit.new_version_token.clone(),
            idempotency_index_present: !matches!(key, KeyStatus::NotRequired | KeyStatus::Missing),
            idempotency_index_status: key,
            reason: reason.to_owned(),
        }
    }

    /// The first line of the table that applies.
    fn classify(
        &self,
        commit: &CommitRecord,
        history: &History<'_>,
        key: KeyStatus,
    ) -> (RecoveryState, &'static str) {
        use RecoveryState as S;
        let is_at = |(location, token): (&str, &str)| self.table.is_at(location, token);
        let lacks_key = matches!(key, KeyStatus::Missing | KeyStatus::Stale);
        let is_current = is_at(commit.new_state());
        let is_published = is_current || history.proves(&commit.commit_id);
        match commit.status {
            _ if key == KeyStatus::Conflicting => {
                (S::ManualReview, "the idempotency record is another commit's")
            }
            Status::Failed => (S::ManualReview, "the commit is recorded as failed"),
            Status::Committed if is_published && lacks_key => {
                let state = S::IdempotencyIndexRepairRequired;
                (state, "the commit is published; its idempotency record is not up to date")
            }
            Status::Committed if is_current => (S::Committed, "the commit is the current one"),
            Status::Committed if is_published => (S::Committed, "later commits build on this one"),
            Status::Staged if is_published => {
                (S::FinalizationRequired, "the commit is published; its record does not say so")
            }
            Status::Committed => {
                (S::ManualReview, "the commit is recorded as committed; the table does not show it")
            }
            Status::Staged if is_at(commit.previous_state()) => {
                (S::StagedBeforeTableUpdate, "the commit was staged and has not been published")
            }
            Status::Staged => {
                (S::ManualReview, "the commit was staged and the table has moved on without it")
            }
        }
    }
}

fn key_status(commit: &CommitRecord, keyed: &BTreeMap<&str, &CommitRecord>) -> KeyStatus {
    let Some(name) = commit.idempotency_key.as_deref() else { return KeyStatus::NotRequired };
    match keyed.get(name) {
        None => KeyStatus::Missing,
        Some(record) if !record.has_payload_of(commit) => KeyStatus::Conflicting,
        Some(record)
            if record.status == commit.status
                && record.new_version_token == commit.new_version_token =>
        {
            KeyStatus::Matches
        }
        Some(_) => KeyStatus::Stale,
    }
}

/// What is durable, read under the table's exclusive locks.
#[derive(Debug, Clone, Default)]
pub struct Durable {
    /// The bucket fence, if it is there.
    pub fence: Option<BucketFence>,
    /// The table's entry.
    pub table: Option<Found<TableEntry>>,
    /// Every commit log record of it.
    pub commits: Vec<CommitRecord>,
    /// Every idempotency record of it.
    pub idempotency: Vec<CommitRecord>,
    /// The ids of the staged commits of which an equal copy is kept already.
    pub kept: BTreeSet<String>,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The table.
    pub table: Identifier,
    /// Whether staged commits that were never published are put aside (M3).
    pub abandons: bool,
    /// [`Report::repairable`] and the number of abandonable commits, as the first reading had them: what the
    /// answer counts. The first question is asked with `None`.
    pub found: Option<usize>,
}

/// The next write of a recovery, or its report.
///
/// # Errors
///
/// [`Class::NoSuchTable`](super::refusal::Class::NoSuchTable);
/// [`Class::Conflict`](super::refusal::Class::Conflict) while the bucket is fenced.
pub fn next(durable: &Durable, request: &Request) -> Result<Step<Report>, Refusal> {
    permit::check_bucket(durable.fence.as_ref(), Purpose::Change)?;
    let table = &active(durable.table.as_ref(), &request.table)?.value;
    let records = Records::new(table, &durable.commits, &durable.idempotency);
    let bucket = &table.table_bucket;
    let report = records.report(request.found.unwrap_or_default());
    let by_id: BTreeMap<&str, &CommitRecord> =
        durable.commits.iter().map(|commit| (&*commit.commit_id, commit)).collect();
    for reported in &report.commits {
        let commit = by_id[&*reported.commit_id];
        let finished = commit.with_status(Status::Committed);
        let write = match reported.recovery_state {
            RecoveryState::FinalizationRequired => {
                let (key, point) = (commit.key(bucket)?, CrashPoint::CatalogRecoveryLogRewritten);
                Write::put(key, finished.encode(), When::Always, point)
            }
            RecoveryState::IdempotencyIndexRepairRequired => {
                let name = commit.idempotency_key.as_deref().unwrap_or_default();
                let key = keys::idempotency_record(bucket, &commit.table_id, name);
                let point = CrashPoint::CatalogRecoveryKeyRewritten;
                Write::put(key, finished.encode(), When::Always, point)
            }
            _ => continue,
        };
        return Ok(Step::Write(write));
    }
    if request.abandons
        && let Some(id) = records.abandonable().first()
    {
        return Ok(Step::Write(abandon(durable, bucket, by_id[id])?));
    }
    Ok(Step::Done(report))
}

/// How many repairs a recovery of this state will make: what [`Request::found`] is to be.
pub fn repairs(durable: &Durable, abandons: bool) -> usize {
    let Some(table) = &durable.table else { return 0 };
    let records = Records::new(&table.value, &durable.commits, &durable.idempotency);
    let abandoned = if abandons { records.abandonable().len() } else { 0 };
    records.report(0).repairable() + abandoned
}

/// Kept for reference, then the key, then the log: what is left in between is a staged commit still.
fn abandon(durable: &Durable, bucket: &str, commit: &CommitRecord) -> Result<Write, Refusal> {
    if !durable.kept.contains(&commit.commit_id) {
        let key = keys::abandoned(bucket, &commit.table_id, &commit.commit_id);
        let point = CrashPoint::CatalogRecoveryAbandonedKept;
        return Ok(Write::put(key, commit.encode(), When::Always, point));
    }
    if let Some(name) = &commit.idempotency_key
        && durable.idempotency.iter().any(|it| it.idempotency_key.as_ref() == Some(name))
    {
        let key = keys::idempotency_record(bucket, &commit.table_id, name);
        let point = CrashPoint::CatalogRecoveryAbandonedKeyRemoved;
        return Ok(Write::delete(key, When::Always, point));
    }
    let point = CrashPoint::CatalogRecoveryAbandonedLogRemoved;
    Ok(Write::delete(commit.key(bucket)?, When::Always, point))
}
