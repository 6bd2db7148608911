//! Which table owns a key of a table bucket, as object-backed state says it.
//!
//! An error of any kind must stop the request, for everybody.
//!
//! # Sources
//!
//! Specification of the catalog §3.8 (resolution), §2.10; M19 (a missing owner makes an entry stale).

use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::State;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::object::reservation::Reservation;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::prefix::IndexState;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::write::Write;
use crate::protocol::crash_point::CrashPoint;

/// What was read for one key.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The bucket's entry.
    pub bucket: Option<BucketEntry>,
    /// The readiness of the index.
    pub state: Option<IndexState>,
    /// The index entries that are there among [`probes`], deepest first, each with its owner.
    pub hits: Vec<Reservation>,
    /// Every table of the bucket; read only when [`Resolution::Scan`] asked for it.
    pub tables: Option<Vec<TableEntry>>,
    /// Whether a backfill was tried and failed for a reason of the server's own.
    pub is_backfill_broken: bool,
}

/// What a key belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resolution {
    /// This table. The writes remove index entries that nobody owns: best effort, under the exclusive bucket
    /// publication lock, after the request.
    Table(Identifier, Vec<Write>),
    /// No table: the ordinary policy decides alone.
    Nobody(Vec<Write>),
    /// Read every table and ask again.
    Scan,
    /// Fill the index and ask again.
    Backfill,
}

/// The keys of the index entries that may own `key`, deepest first.
pub fn probes(bucket: &str, key: &str) -> Vec<String> {
    prefix::probes(key)
        .into_iter()
        .map(|probe| keys::warehouse_index_entry(bucket, probe))
        .collect()
}

/// Which table owns `key`.
///
/// # Errors
///
/// [`Class::Invalid`] when bucket or index entry are not in use, [`Class::Conflict`] when two tables own it.
pub fn resolve(facts: &Facts, bucket: &str, key: &str) -> Result<Resolution, Refusal> {
    if !facts.bucket.as_ref().is_some_and(BucketEntry::is_active) {
        let text = format!("table bucket {bucket} has no active entry in the catalog");
        return Err(Class::Invalid.because(text));
    }
    let is_ready = facts.state.as_ref().is_some_and(IndexState::is_ready);
    if !is_ready && !facts.is_backfill_broken {
        return Ok(Resolution::Backfill);
    }
    let mut stale = Vec::new();
    let mut owners = Vec::new();
    for hit in &facts.hits {
        let entry = &hit.entry.value;
        if entry.state != State::Active {
            let prefix = &entry.warehouse_object_prefix;
            let text = format!("the index entry of {prefix} is not active");
            return Err(Class::Invalid.because(text));
        }
        if hit.is_kept() {
            owners.push(entry.identifier()?);
        } else {
            stale.push(hit.removal(CrashPoint::CatalogBackfillStaleRemoved).best_effort());
        }
    }
    match &*owners {
        [] => {}
        [owner] => return Ok(Resolution::Table(owner.clone(), stale)),
        [first, second, ..] => {
            return Err(Class::Conflict.because(format!("{first} and {second} both own {key}")));
        }
    }
    let Some(tables) = &facts.tables else { return Ok(Resolution::Scan) };
    let mut found = None;
    for table in tables.iter().filter(|table| table.is_active()) {
        let prefix = prefix::of_table(bucket, &table.warehouse_location)?;
        if key.starts_with(&prefix) && found.replace(table.identifier()?).is_some() {
            return Err(Class::Conflict.because(format!("two tables own {key}")));
        }
    }
    Ok(match found {
        Some(owner) => Resolution::Table(owner, stale),
        None => Resolution::Nobody(stale),
    })
}
