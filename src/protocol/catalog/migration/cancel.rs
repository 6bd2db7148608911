//! DELETE: the next write that takes a bucket out of the strong snapshot and lets it be written again.
//!
//! # Sources
//!
//! Specification of the catalog §5.2, §5.8; M5 (the last cancellation leaves no empty snapshot), M16 (the bucket's
//! fingerprint is compared, not the whole snapshot's ETag).

use serde::Deserialize;
use serde::Serialize;

use crate::protocol::catalog::fence::Cancelled;
use crate::protocol::catalog::fence::RegistryFence;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::migration::facts::Facts;
use crate::protocol::catalog::migration::post::check_target_is_there;
use crate::protocol::catalog::migration::source;
use crate::protocol::catalog::record::compact;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::strong::change::Change;
use crate::protocol::catalog::strong::plan;
use crate::protocol::catalog::strong::plan::Plan;
use crate::protocol::catalog::strong::plan::Rules;
use crate::protocol::catalog::write::Step;
use crate::protocol::catalog::write::When;
use crate::protocol::catalog::write::Write;
use crate::protocol::crash_point::CrashPoint;

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// What is written by.
    pub rules: Rules,
    /// Whether this request found a bucket fence at its first reading.
    pub had_fence: bool,
    /// Whether it looks for changes of the strong state since it was copied.
    pub heeds_progress: bool,
}

/// Whether there was something to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// The bucket can be written again.
    FenceReleased,
    /// The bucket had no fence.
    NoMigrationFence,
}

/// The answer of a DELETE.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Released {
    /// The bucket.
    pub table_bucket: String,
    /// Whether there was something to cancel.
    pub status: Status,
    /// False.
    pub object_backed_writes_fenced: bool,
}

/// The next write of a DELETE, or its answer.
///
/// # Errors
///
/// [`Class::Conflict`] when source or strong state have changed since the copy, or the snapshot is missing;
/// [`Class::Invalid`], [`Class::NotFound`]. Then the fences stay.
pub fn next(facts: &Facts, request: &Request) -> Result<Step<Released>, Refusal> {
    let name = &facts.source.name;
    let Some(fence) = facts.fence() else {
        if facts.fences.is_empty()
            && let Some(write) = release_registry(facts)
        {
            return Ok(Step::Write(write));
        }
        let status =
            if request.had_fence { Status::FenceReleased } else { Status::NoMigrationFence };
        return Ok(Step::Done(Released {
            table_bucket: name.clone(),
            status,
            object_backed_writes_fenced: false,
        }));
    };
    // Looked at before anything is written, the registry fence included.
    let removal = removal(facts, request)?;
    if facts.registry.is_none() {
        let point = CrashPoint::CatalogCancelRegistryFenced;
        let registry = RegistryFence::new(&fence.migration_id);
        let key = keys::REGISTRY_FENCE.to_owned();
        return Ok(Step::Write(Write::put(key, compact(&registry), When::Absent, point)));
    }
    if let Some(write) = removal {
        return Ok(Step::Write(write));
    }
    let point = CrashPoint::CatalogCancelBucketReleased;
    Ok(Step::Write(Write::delete(keys::bucket_fence(name), When::Always, point)))
}

/// The write that takes the bucket out of the snapshot; `None` when it stays, or is out.
fn removal(facts: &Facts, request: &Request) -> Result<Option<Write>, Refusal> {
    let name = &facts.source.name;
    let fence = facts.fence().expect("only a bucket that is fenced is taken out");
    let conflict = |text: String| Err(Class::Conflict.because(text));
    let collected = source::collect(&facts.source, 1)?;
    let recorded = fence.source_fingerprint.as_ref();
    if recorded.is_some_and(|recorded| *recorded != collected.fingerprint) {
        return conflict(format!("bucket {name} has changed since it was copied"));
    }
    check_target_is_there(facts)?;
    if facts.cut_over.is_some() && !facts.strong_buckets().is_subset(&facts.object_buckets) {
        return conflict("the strong state has buckets of its own by now".to_owned());
    }
    let target = facts.target_fingerprint(name);
    let is_equal = target.as_ref() == Some(&collected.fingerprint);
    let is_out = target.is_none() && !fence.target_bucket_existed;
    let has_moved_on = fence.is_materialized() && !is_equal && !is_out;
    if has_moved_on && request.heeds_progress {
        return conflict(format!("the strong state of bucket {name} has moved on"));
    }
    if fence.target_bucket_existed || has_moved_on {
        return Ok(None);
    }
    let change = Change::RemoveBucket(name.clone(), collected.fingerprint);
    let rules = facts.rules(&request.rules);
    match plan::plan(facts.target.as_ref(), &facts.memory, &change, &rules)? {
        Plan::Unchanged(_) => Ok(None),
        Plan::Write(planned) => Ok(Some(planned.write)),
    }
}

/// With the last bucket fence gone: an empty snapshot goes, what says that it may be missing stays, and the registry
/// fence goes last.
fn release_registry(facts: &Facts) -> Option<Write> {
    facts.registry.as_ref()?;
    if let Some(loaded) = &facts.target
        && loaded.snapshot.contents.is_empty()
    {
        let epoch = loaded.epoch.max(facts.memory.epoch).unwrap_or_default();
        let mark = Cancelled::new(epoch);
        if facts.cancelled.as_ref() != Some(&mark) {
            let point = CrashPoint::CatalogCancelMarked;
            let key = keys::CANCELLED.to_owned();
            return Some(Write::put(key, compact(&mark), When::Always, point));
        }
        let point = CrashPoint::CatalogCancelSnapshotRemoved;
        let when = When::Matches(loaded.etag.clone());
        return Some(Write::delete(keys::SNAPSHOT.to_owned(), when, point));
    }
    if facts.cut_over.is_some() {
        let point = CrashPoint::CatalogCancelCutOverRemoved;
        return Some(Write::delete(keys::CUT_OVER.to_owned(), When::Always, point));
    }
    let point = CrashPoint::CatalogCancelRegistryReleased;
    Some(Write::delete(keys::REGISTRY_FENCE.to_owned(), When::Always, point))
}
