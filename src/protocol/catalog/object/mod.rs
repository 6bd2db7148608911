//! Object-backed state: one object an entry, and a flow for each change of it.
//!
//! | flow | locks that are held, besides the shared bucket-fence lock |
//! |---|---|
//! | [`commit`] | table entry and table publication (X); to another prefix also bucket publication (X) |
//! | [`create`] | bucket publication, namespace entry, table entry (X) |
//! | [`drop_table`] | bucket publication, namespace entry, table entry, table publication (X) |
//! | [`view`] | bucket publication (create), namespace entry, view entry (X) |
//! | [`namespace`] | namespace entry (X), and its bucket entry when that is made |
//! | [`bucket`] | registry (S), bucket publication, bucket entry (X) |
//! | [`backfill`] | bucket publication (X) |
//! | [`resolve`] | none; what it removes, under bucket publication (X) |
//!
//! What a flow is told about a key whose lock is held is what was read under it; nothing is locked twice (M1).
//!
//! # Sources
//!
//! Specification of the catalog §3.

pub mod backfill;
pub mod bucket;
pub mod commit;
pub mod create;
pub mod drop_table;
pub mod namespace;
pub mod permit;
pub mod reservation;
pub mod resolve;
#[cfg(test)]
mod tests;
pub mod view;
