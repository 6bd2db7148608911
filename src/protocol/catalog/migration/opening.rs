//! Whether a process may serve the backing that it is configured with.
//!
//! A durable-strong process opens only what was migrated whole, and says so durably before it serves; after that
//! the strong state moves on and is no longer compared with what was copied.
//!
//! # Sources
//!
//! M5, M6; specification of the catalog §6, F31, K-R2.

use crate::protocol::catalog::fence::CutOver;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::migration::facts::Facts;
use crate::protocol::catalog::record::compact;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::write::Step;
use crate::protocol::catalog::write::When;
use crate::protocol::catalog::write::Write;
use crate::protocol::crash_point::CrashPoint;

/// The next write before a durable-strong process serves, or that it may. Only the fields of `facts` about
/// migrations are read, not its source.
///
/// # Errors
///
/// [`Class::Unavailable`] with what is missing: every catalog request gets this answer, and object requests in
/// table buckets are denied.
pub fn strong(facts: &Facts) -> Result<Step<()>, Refusal> {
    let refuse = |why: &str| {
        Err(Class::Unavailable.because(format!("the durable-strong catalog stays closed: {why}")))
    };
    if facts.target.is_none() {
        return refuse("there is no strong snapshot");
    }
    if facts.object_buckets.is_empty() {
        return Ok(Step::Done(()));
    }
    let Some(registry) = &facts.registry else {
        return refuse("table buckets have object-backed state that no migration has fenced");
    };
    if let Some(cut_over) = &facts.cut_over {
        if cut_over.migration_id != registry.migration_id {
            return refuse("another migration than the present one was cut over");
        }
        let is_left = |bucket: &&String| {
            let fence = facts.fences.get(*bucket);
            !fence.is_some_and(crate::protocol::catalog::fence::BucketFence::is_materialized)
        };
        return match facts.object_buckets.iter().find(is_left) {
            Some(bucket) => refuse(&format!("bucket {bucket} was not materialized")),
            None => Ok(Step::Done(())),
        };
    }
    if let Some(why) = facts.unready() {
        return refuse(&why);
    }
    let record = CutOver::new(&registry.migration_id);
    let point = CrashPoint::CatalogCutOverRecorded;
    let key = keys::CUT_OVER.to_owned();
    Ok(Step::Write(Write::put(key, compact(&record), When::Absent, point)))
}
