//! POST: the next write that brings a bucket into the strong snapshot.
//!
//! # Sources
//!
//! Specification of the catalog §5.2, §5.5, §5.6; M8.

use serde::Deserialize;
use serde::Serialize;

use crate::protocol::catalog::fence::Baseline;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::fence::RegistryFence;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::migration::facts::Facts;
use crate::protocol::catalog::migration::preflight;
use crate::protocol::catalog::migration::preflight::SOURCE_KIND;
use crate::protocol::catalog::migration::preflight::Status as Standing;
use crate::protocol::catalog::migration::preflight::TARGET_KIND;
use crate::protocol::catalog::migration::source;
use crate::protocol::catalog::migration::source::Collected;
use crate::protocol::catalog::record::compact;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::strong::change::Change;
use crate::protocol::catalog::strong::plan;
use crate::protocol::catalog::strong::plan::Plan;
use crate::protocol::catalog::strong::plan::Planned;
use crate::protocol::catalog::strong::plan::Rules;
use crate::protocol::catalog::write::Step;
use crate::protocol::catalog::write::When;
use crate::protocol::catalog::write::Write;
use crate::protocol::crash_point::CrashPoint;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// A fresh id, for a migration that begins.
    pub migration_id: String,
    /// What is written by.
    pub rules: Rules,
    /// Whether this request has written the snapshot.
    pub has_written: bool,
}

/// Whether a POST had to write the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// It has.
    SnapshotMaterialized,
    /// The snapshot had the bucket, with equal contents.
    SnapshotAlreadyMaterialized,
}

/// The answer of a POST.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executed {
    /// The bucket.
    pub table_bucket: String,
    /// `OBJECT_BACKED`.
    pub source_kind: String,
    /// `STRONG_KV_WAL`.
    pub target_kind: String,
    /// Whether the snapshot was written.
    pub status: Status,
    /// Explicit namespaces.
    pub namespace_count: usize,
    /// Tables.
    pub table_count: usize,
    /// Views.
    pub view_count: usize,
    /// Log records.
    pub commit_log_count: usize,
    /// Idempotency records.
    pub idempotency_index_count: usize,
    /// The fingerprint of what was copied.
    pub source_fingerprint: String,
    /// The snapshot's ETag.
    pub target_snapshot_etag: String,
    /// True.
    pub object_backed_writes_fenced: bool,
    /// Whether a durable-strong process may open this state.
    pub ready_to_enable_durable_strong: bool,
}

/// The next write of a POST, or its answer.
///
/// # Errors
///
/// [`Class::Conflict`] for every blocker, for a source that changed since it was copied, a target that has something
/// else, a snapshot that is missing; [`Class::Invalid`] for contents that no snapshot may hold;
/// [`Class::NotFound`]. A refusal of a migration that had not begun leaves nothing behind.
pub fn next(facts: &Facts, request: &Request) -> Result<Step<Executed>, Refusal> {
    let name = &facts.source.name;
    if facts.fence().is_none() {
        check_preflight(facts, request)?;
    }
    check_target_is_there(facts)?;
    let unknown: Vec<_> =
        facts.strong_buckets().difference(&facts.object_buckets).cloned().collect();
    if !unknown.is_empty() {
        return conflict(format!(
            "the strong snapshot has unknown buckets: {}",
            unknown.join(", ")
        ));
    }
    if !facts.source.is_index_ready() {
        return conflict(format!("the warehouse index of bucket {name} is not ready"));
    }
    let collected = source::collect(&facts.source, request.rules.gates.write_version())?;
    let recorded = facts.fence().and_then(|fence| fence.source_fingerprint.as_ref());
    if recorded.is_some_and(|recorded| *recorded != collected.fingerprint) {
        return conflict(format!("bucket {name} has changed since it was copied"));
    }
    // The whole write is known before the first fence: what would refuse it refuses here.
    let addition = addition(facts, request, &collected)?;
    if facts.registry.is_none() {
        let fence = RegistryFence::new(&request.migration_id);
        let point = CrashPoint::CatalogMigrateRegistryFenced;
        let key = keys::REGISTRY_FENCE.to_owned();
        return Ok(Step::Write(Write::put(key, compact(&fence), When::Absent, point)));
    }
    let etag = facts.target.as_ref().map(|loaded| loaded.etag.as_str());
    let Some(fence) = facts.fence() else {
        let has_bucket = facts.target_fingerprint(name).is_some();
        let fence = BucketFence::preparing(name, &request.migration_id, has_bucket, etag);
        let point = CrashPoint::CatalogMigrateBucketFenced;
        let key = keys::bucket_fence(name);
        return Ok(Step::Write(Write::put(key, compact(&fence), When::Absent, point)));
    };
    if let Some(planned) = addition {
        return Ok(Step::Write(planned.write));
    }
    let Some(etag) = etag else {
        return conflict(format!("the strong snapshot with bucket {name} has disappeared"));
    };
    let done = fence.materialized(&collected.fingerprint, etag);
    if *fence != done {
        let point = CrashPoint::CatalogMigrateMaterialized;
        let key = keys::bucket_fence(name);
        return Ok(Step::Write(Write::put(key, compact(&done), When::Always, point)));
    }
    Ok(Step::Done(answer(facts, request, &collected, etag)))
}

/// The write that adds the bucket to the snapshot; `None` when it is in there. Whoever performs the step that has
/// its crash point takes over [`Planned::snapshot`].
///
/// # Errors
///
/// As [`plan::plan`].
pub fn addition(
    facts: &Facts,
    request: &Request,
    collected: &Collected,
) -> Result<Option<Box<Planned>>, Refusal> {
    let contents = Box::new(collected.contents.clone());
    let change = Change::AddBucket(facts.source.name.clone(), contents);
    let rules = facts.rules(&request.rules);
    match plan::plan(facts.target.as_ref(), &facts.memory, &change, &rules)? {
        Plan::Unchanged(_) => Ok(None),
        Plan::Write(planned) => Ok(Some(planned)),
    }
}

fn conflict<T>(text: impl Into<String>) -> Result<T, Refusal> {
    Err(Class::Conflict.because(text))
}

/// A migration begins only where nothing is in its way.
fn check_preflight(facts: &Facts, request: &Request) -> Result<(), Refusal> {
    let report = preflight::report(facts, &request.rules, false)?;
    if report.status == Standing::ReadyToSnapshot {
        return Ok(());
    }
    // What is invalid in itself stays so, whatever an operator does about the rest.
    if report.blockers == [preflight::Blocker::SourceStateInvalid] {
        source::collect(&facts.source, request.rules.gates.write_version())?;
    }
    let found = report.details.join("; ");
    conflict(format!("bucket {} is not ready to be migrated: {found}", facts.source.name))
}

/// A snapshot that was there when the fence was raised must be there.
pub(crate) fn check_target_is_there(facts: &Facts) -> Result<(), Refusal> {
    let (Some(fence), None) = (facts.fence(), &facts.target) else { return Ok(()) };
    let was_absent = fence.baseline() == Baseline::Absent && !fence.target_bucket_existed;
    if !fence.is_materialized() && was_absent {
        return Ok(());
    }
    conflict("the strong snapshot that was there when the bucket was fenced is missing")
}

fn answer(facts: &Facts, request: &Request, collected: &Collected, etag: &str) -> Executed {
    let totals = facts.source.totals();
    Executed {
        table_bucket: facts.source.name.clone(),
        source_kind: SOURCE_KIND.to_owned(),
        target_kind: TARGET_KIND.to_owned(),
        status: if request.has_written {
            Status::SnapshotMaterialized
        } else {
            Status::SnapshotAlreadyMaterialized
        },
        namespace_count: facts.source.namespaces.len(),
        table_count: facts.source.tables.len(),
        view_count: facts.source.views.len(),
        commit_log_count: totals.records,
        idempotency_index_count: totals.keys,
        source_fingerprint: collected.fingerprint.clone(),
        target_snapshot_etag: etag.to_owned(),
        object_backed_writes_fenced: true,
        ready_to_enable_durable_strong: facts.is_ready(),
    }
}
