//! A second look at commits that seem not to be finished, so that nobody is told to repair one that is under way.
//!
//! A preflight reads records one after the other while writers go on: a commit may be between its pointer and its
//! records, or move the pointer between two reads, and looks interrupted either way. A commit holds its table's lock for
//! as long as it lasts; under that lock what is unfinished is unfinished for good.
//!
//! # Sources
//!
//! Specification of the catalog §3.4, §3.5, §5.1.

use super::depot::Depot;
use super::locks;
use super::locks::Locks;
use super::object;
use crate::node::seams::LockMode;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::migration::source::Source;
use crate::protocol::catalog::refusal::Refusal;

/// Reads the tables of `source` again whose commits seem not to be finished, each while no commit to it is under way.
///
/// A table whose lock is not granted in time is left as it was seen: somebody is at work on it, or nobody can tell.
///
/// # Errors
///
/// As reading has them.
pub(super) async fn look(depot: &Depot, source: &mut Source) -> Result<(), Refusal> {
    for seen in source.unfinished() {
        let Ok(name) = seen.identifier() else { continue };
        let bucket = &source.name;
        let mut held = Locks::none();
        let publication = locks::publication(bucket, &name);
        if held.take(depot.store(), &publication, LockMode::Shared).await.is_err() {
            continue;
        }
        let key = keys::table_entry(bucket, &name);
        let now = depot.record::<TableEntry>(bucket, &key).await?.map(|it| it.value);
        let id = now.as_ref().map_or(&seen.table_id, |entry| &entry.table_id);
        let (commits, idempotency) = object::records_of(depot, bucket, id).await?;
        if held.check().is_err() {
            continue;
        }
        source.replace(&seen, now, commits, idempotency);
    }
    Ok(())
}
