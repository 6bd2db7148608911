//! Filling the warehouse index: an entry for every active table, then the word that it is ready.
//!
//! # Sources
//!
//! Specification of the catalog §3.8; M1 and M2 (missing entries are made), M19 (stale ones go).

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::object::permit;
use crate::protocol::catalog::object::permit::Purpose;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::prefix::IndexEntry;
use crate::protocol::catalog::prefix::IndexState;
use crate::protocol::catalog::prefix::PrefixMap;
use crate::protocol::catalog::record::Record;
use crate::protocol::catalog::record::compact;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::write::Found;
use crate::protocol::catalog::write::Step;
use crate::protocol::catalog::write::When;
use crate::protocol::catalog::write::Write;
use crate::protocol::crash_point::CrashPoint;

/// What is durable, read under the exclusive bucket publication lock: no table is being created meanwhile.
#[derive(Debug, Clone, Default)]
pub struct Durable {
    /// The bucket fence, if it is there.
    pub fence: Option<BucketFence>,
    /// Every table of the bucket, whatever its state.
    pub tables: Vec<TableEntry>,
    /// Every entry of the index.
    pub index: Vec<Found<IndexEntry>>,
    /// The readiness.
    pub state: Option<IndexState>,
}

/// A ready index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filled {
    /// How many prefixes it has.
    pub prefixes: usize,
}

/// The next write of a backfill of `bucket`.
///
/// # Errors
///
/// [`Class::Conflict`] while the bucket is fenced, and for ids or prefixes that two tables share;
/// [`Class::Invalid`] for a location that is none.
pub fn next(durable: &Durable, bucket: &str) -> Result<Step<Filled>, Refusal> {
    permit::check_bucket(durable.fence.as_ref(), Purpose::Change)?;
    let mut wanted: BTreeMap<String, IndexEntry> = BTreeMap::new();
    let mut owners = PrefixMap::default();
    let mut ids = BTreeSet::new();
    for table in durable.tables.iter().filter(|table| table.is_active()) {
        let name = table.identifier()?;
        if !ids.insert(&table.table_id) {
            return Err(
                Class::Conflict.because(format!("the id of {name} is another table's, too"))
            );
        }
        let prefix = prefix::of_table(bucket, &table.warehouse_location)?;
        if let Err(owner) = owners.insert(prefix.clone(), name.clone()) {
            let text = format!("the warehouse prefixes of {owner} and {name} overlap");
            return Err(Class::Conflict.because(text));
        }
        wanted.insert(prefix.clone(), IndexEntry::new(table, &prefix));
    }
    let mut missing = wanted.clone();
    for found in &durable.index {
        let entry = &found.value;
        let prefix = &entry.warehouse_object_prefix;
        if wanted.get(prefix) == Some(entry) {
            missing.remove(prefix);
            continue;
        }
        let key = keys::warehouse_index_entry(bucket, prefix);
        let point = CrashPoint::CatalogBackfillStaleRemoved;
        return Ok(Step::Write(Write::delete(key, found.unchanged(), point)));
    }
    if let Some(entry) = missing.into_values().next() {
        let point = CrashPoint::CatalogBackfillEntryWritten;
        let write = Write::put(entry.key(bucket)?, entry.encode(), When::Absent, point);
        return Ok(Step::Write(write));
    }
    let ready = IndexState::ready(bucket);
    if durable.state.as_ref() != Some(&ready) {
        let key = keys::warehouse_index_state(bucket);
        let point = CrashPoint::CatalogBackfillStateWritten;
        return Ok(Step::Write(Write::put(key, compact(&ready), When::Always, point)));
    }
    Ok(Step::Done(Filled { prefixes: wanted.len() }))
}
