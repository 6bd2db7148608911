//! Dropping an object-backed table: its prefix is released, then its entry removed.
//!
//! Between the two the table is there, and what it owns is found by looking at all tables. Commit records stay,
//! under an id that nobody has any more.
//!
//! # Sources
//!
//! Specification of the catalog §3.7.

use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::object::commit::active;
use crate::protocol::catalog::object::permit;
use crate::protocol::catalog::object::permit::Purpose;
use crate::protocol::catalog::object::reservation::Reservation;
use crate::protocol::catalog::object::reservation::Standing;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::prefix::IndexEntry;
use crate::protocol::catalog::record::Record;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::write::Found;
use crate::protocol::catalog::write::Step;
use crate::protocol::catalog::write::When;
use crate::protocol::catalog::write::Write;
use crate::protocol::crash_point::CrashPoint;

/// What is durable, read under the locks.
#[derive(Debug, Clone, Default)]
pub struct Durable {
    /// The bucket fence, if it is there.
    pub fence: Option<BucketFence>,
    /// The table's entry.
    pub table: Option<Found<TableEntry>>,
    /// The reservation of the table's prefix.
    pub reservation: Option<Reservation>,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The bucket.
    pub bucket: String,
    /// The table.
    pub table: Identifier,
    /// The entry as this request first read it under its locks, if it was there.
    pub seen: Option<TableEntry>,
}

/// The next write of a drop.
///
/// # Errors
///
/// [`Class::NoSuchTable`]; [`Class::Conflict`] while the bucket is fenced, or when the table's prefix is
/// reserved by another.
pub fn next(durable: &Durable, request: &Request) -> Result<Step<()>, Refusal> {
    permit::check_bucket(durable.fence.as_ref(), Purpose::Change)?;
    let is_gone = request.seen.as_ref().is_some_and(|seen| {
        durable.table.as_ref().is_none_or(|now| now.value.table_id != seen.table_id)
    });
    if is_gone {
        return Ok(Step::Done(()));
    }
    let found = active(durable.table.as_ref(), &request.table)?;
    if let Some(reservation) = &durable.reservation {
        match reservation.standing(&found.value) {
            Standing::Own => {
                let point = CrashPoint::CatalogDropIndexDeleted;
                return Ok(Step::Write(reservation.removal(point)));
            }
            Standing::Foreign => {
                let text = format!("the warehouse prefix of {} is another table's", request.table);
                return Err(Class::Conflict.because(text));
            }
            Standing::Stale => {}
        }
    }
    let key = keys::table_entry(&request.bucket, &request.table);
    let point = CrashPoint::CatalogDropEntryDeleted;
    Ok(Step::Write(Write::delete(key, found.unchanged(), point)))
}

/// What gives back the reservation of a table that could not be dropped.
pub fn undo(durable: &Durable, request: &Request) -> Vec<Write> {
    let (Some(found), Some(seen)) = (&durable.table, &request.seen) else { return Vec::new() };
    if durable.reservation.is_some() || found.value != *seen {
        return Vec::new();
    }
    let Ok(prefix) = prefix::of_table(&request.bucket, &seen.warehouse_location) else {
        return Vec::new();
    };
    let entry = IndexEntry::new(seen, &prefix);
    let key = keys::warehouse_index_entry(&request.bucket, &prefix);
    let point = CrashPoint::CatalogIndexReturned;
    vec![Write::put(key, entry.encode(), When::Absent, point).best_effort()]
}
