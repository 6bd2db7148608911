//! Who has reserved a warehouse prefix, and whether that still counts.
//!
//! # Sources
//!
//! Specification of the catalog §3.3, §3.8; M19 (an owner that is missing makes a reservation stale).

use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::prefix::IndexEntry;
use crate::protocol::catalog::record::Record;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::write::Found;
use crate::protocol::catalog::write::When;
use crate::protocol::catalog::write::Write;
use crate::protocol::crash_point::CrashPoint;

/// The index entry of a prefix, and the table entry under the name that it gives.
///
/// When that name is the one whose lock is held, the held entry is handed in and nothing is read again (M1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// The index entry.
    pub entry: Found<IndexEntry>,
    /// The table of the name that it gives, whatever its state.
    pub owner: Option<TableEntry>,
}

/// What a reservation is to a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The table's own.
    Own,
    /// Another active table's, which has this prefix.
    Foreign,
    /// Nobody's any more.
    Stale,
}

impl Reservation {
    /// What it is to `table`.
    pub fn standing(&self, table: &TableEntry) -> Standing {
        let entry = &self.entry.value;
        if entry.is_owned_by(table) {
            return Standing::Own;
        }
        if self.is_kept() { Standing::Foreign } else { Standing::Stale }
    }

    /// Whether its owner is active, is the same table still, and has this prefix.
    pub fn is_kept(&self) -> bool {
        let entry = &self.entry.value;
        self.owner.as_ref().is_some_and(|owner| {
            let prefix = prefix::of_table(&owner.table_bucket, &owner.warehouse_location);
            owner.is_active()
                && entry.is_owned_by(owner)
                && prefix.is_ok_and(|prefix| prefix == entry.warehouse_object_prefix)
        })
    }

    /// Removes it if nobody has written it since.
    pub fn removal(&self, point: CrashPoint) -> Write {
        let entry = &self.entry.value;
        let key = keys::warehouse_index_entry(&entry.table_bucket, &entry.warehouse_object_prefix);
        Write::delete(key, self.entry.unchanged(), point)
    }
}

/// The next write towards `table` having reserved `prefix`; `None` when it has.
///
/// # Errors
///
/// [`Class::Conflict`] when another table has it.
pub fn reserve(
    table: &TableEntry,
    prefix: &str,
    found: Option<&Reservation>,
    point: CrashPoint,
) -> Result<Option<Write>, Refusal> {
    let Some(reservation) = found else {
        let entry = IndexEntry::new(table, prefix);
        let key = entry.key(&table.table_bucket)?;
        return Ok(Some(Write::put(key, entry.encode(), When::Absent, point)));
    };
    match reservation.standing(table) {
        Standing::Own => Ok(None),
        Standing::Stale => Ok(Some(reservation.removal(CrashPoint::CatalogBackfillStaleRemoved))),
        Standing::Foreign => {
            let owner = &reservation.entry.value;
            Err(Class::Conflict.because(format!(
                "the warehouse prefix {prefix} is {}.{}'s",
                owner.namespace, owner.table
            )))
        }
    }
}

/// Refuses a prefix that overlaps another table's.
///
/// # Errors
///
/// [`Class::Conflict`].
pub fn check_overlap(
    prefix: &str,
    overlapping: Option<&crate::protocol::catalog::name::Identifier>,
) -> Result<(), Refusal> {
    match overlapping {
        None => Ok(()),
        Some(other) => Err(Class::Conflict
            .because(format!("the warehouse prefix {prefix} overlaps that of {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::catalog::entry::State;
    use crate::protocol::catalog::fixture;

    const PREFIX: &str = "tables/id-of-other/";

    fn found(owner: Option<TableEntry>) -> Reservation {
        let entry = IndexEntry::new(&fixture::table("other"), PREFIX);
        Reservation { entry: Found::new(entry, "e"), owner }
    }

    #[test]
    fn a_reservation_without_its_owner_is_stale() {
        let mine = fixture::table("orders");
        let other = fixture::table("other");
        assert_eq!(found(Some(other.clone())).standing(&mine), Standing::Foreign);
        assert_eq!(found(Some(other.clone())).standing(&other), Standing::Own);
        let gone = TableEntry { state: State::Deleted, ..other.clone() };
        let anew = TableEntry { table_id: "another".to_owned(), ..other.clone() };
        let moved = TableEntry { warehouse_location: "s3://lake1/elsewhere".to_owned(), ..other };
        for owner in [None, Some(gone), Some(anew), Some(moved)] {
            assert_eq!(found(owner).standing(&mine), Standing::Stale);
        }
    }

    #[test]
    fn a_stale_one_is_removed_before_the_prefix_is_reserved() {
        let mine = fixture::table("orders");
        let point = CrashPoint::CatalogCreateIndexReserved;
        let stale = found(None);
        let write = reserve(&mine, PREFIX, Some(&stale), point).unwrap().unwrap();
        assert_eq!((write.contents, write.when), (None, When::Matches("e".to_owned())));
        let write = reserve(&mine, PREFIX, None, point).unwrap().unwrap();
        assert_eq!((write.point, write.when), (point, When::Absent));
        let foreign = found(Some(fixture::table("other")));
        let refusal = reserve(&mine, PREFIX, Some(&foreign), point).unwrap_err();
        assert_eq!(refusal.class, Class::Conflict);
    }
}
