//! The object-backed state of one bucket, as a migration copies it.
//!
//! # Sources
//!
//! Specification of the catalog §5.4.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::fingerprint;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::prefix::IndexState;
use crate::protocol::catalog::prefix::PrefixMap;
use crate::protocol::catalog::recovery::Records;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::snapshot::codec::Row;
use crate::protocol::catalog::snapshot::contents::Contents;
use crate::protocol::catalog::snapshot::validate;
use crate::protocol::catalog::snapshot::validate::Parts;

/// What was read of a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Source {
    /// The bucket's name.
    pub name: String,
    /// Its entry.
    pub bucket: Option<BucketEntry>,
    /// Its explicit namespaces, whatever their states.
    pub namespaces: Vec<NamespaceEntry>,
    /// Its tables, whatever their states.
    pub tables: Vec<TableEntry>,
    /// Its views, whatever their states.
    pub views: Vec<ViewEntry>,
    /// The log records of each of its tables, by table id. Those of tables that are gone are not read.
    pub commits: BTreeMap<String, Vec<CommitRecord>>,
    /// The idempotency records of each of its tables, by table id.
    pub idempotency: BTreeMap<String, Vec<CommitRecord>>,
    /// The readiness of its warehouse index.
    pub index_state: Option<IndexState>,
    /// The current metadata files that are missing or do not parse, of active tables and views.
    pub unreadable: Vec<String>,
}

/// What is copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// The bucket's part of a snapshot.
    pub contents: Contents,
    /// Its fingerprint.
    pub fingerprint: String,
}

/// How the bucket's commits stand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommitTotals {
    /// Log records.
    pub records: usize,
    /// Idempotency records.
    pub keys: usize,
    /// Staged on what is current.
    pub staged: usize,
    /// Published or done, with records that do not say so.
    pub repairable: usize,
    /// For an operator to look at.
    pub manual: usize,
    /// Of the staged ones: recovery can put them aside.
    pub abandonable: usize,
    /// Of those for an operator: recovery can put them aside.
    pub manual_abandonable: usize,
}

impl Source {
    /// Whether its warehouse index is ready.
    pub fn is_index_ready(&self) -> bool {
        self.index_state.as_ref().is_some_and(IndexState::is_ready)
    }

    /// How its commits stand.
    pub fn totals(&self) -> CommitTotals {
        let mut totals = CommitTotals::default();
        for table in &self.tables {
            let (commits, keys) = self.records(table);
            totals.records += commits.len();
            totals.keys += keys.len();
            let records = Records::new(table, commits, keys);
            let report = records.report(0);
            let abandonable = records.abandonable();
            totals.staged += report.staged_before_table_update_count;
            totals.repairable += report.repairable();
            totals.manual += report.manual_review_count;
            totals.abandonable += abandonable.len().min(report.staged_before_table_update_count);
            totals.manual_abandonable +=
                abandonable.len().saturating_sub(report.staged_before_table_update_count);
        }
        totals
    }

    /// The tables with commits that are not finished, as far as was seen.
    pub fn unfinished(&self) -> Vec<TableEntry> {
        let is_unfinished = |table: &&TableEntry| {
            let (commits, keys) = self.records(table);
            let report = Records::new(table, commits, keys).report(0);
            let staged = report.staged_before_table_update_count;
            staged + report.repairable() + report.manual_review_count > 0
        };
        self.tables.iter().filter(is_unfinished).cloned().collect()
    }

    /// Puts what was read of a table later in place of what was `seen` of it; it may be gone, or another by now.
    pub fn replace(
        &mut self,
        seen: &TableEntry,
        now: Option<TableEntry>,
        commits: Vec<CommitRecord>,
        idempotency: Vec<CommitRecord>,
    ) {
        self.commits.remove(&seen.table_id);
        self.idempotency.remove(&seen.table_id);
        let place = self.tables.iter().position(|table| table == seen);
        match (now, place) {
            (Some(now), Some(place)) => {
                self.commits.insert(now.table_id.clone(), commits);
                self.idempotency.insert(now.table_id.clone(), idempotency);
                self.tables[place] = now;
            }
            (None, Some(place)) => {
                self.tables.remove(place);
            }
            (_, None) => {}
        }
    }

    fn records(&self, table: &TableEntry) -> (&[CommitRecord], &[CommitRecord]) {
        let commits = self.commits.get(&table.table_id).map_or(&[][..], Vec::as_slice);
        let keys = self.idempotency.get(&table.table_id).map_or(&[][..], Vec::as_slice);
        (commits, keys)
    }

    /// The different prefixes of its active tables, and whether two of them overlap. A location that names no
    /// prefix is left to [`collect`].
    pub fn prefixes(&self) -> (usize, bool) {
        let mut distinct = BTreeSet::new();
        let mut owners = PrefixMap::default();
        let mut overlaps = false;
        for table in self.tables.iter().filter(|table| table.is_active()) {
            let Ok(prefix) = prefix::of_table(&self.name, &table.warehouse_location) else {
                continue;
            };
            overlaps |= owners.insert(prefix.clone(), ()).is_err();
            distinct.insert(prefix);
        }
        (distinct.len(), overlaps)
    }

    /// Whether two table entries have the same id.
    pub fn has_twins(&self) -> bool {
        let ids: BTreeSet<&String> = self.tables.iter().map(|table| &table.table_id).collect();
        ids.len() < self.tables.len()
    }

    /// Whether an active table and an active view have the same name.
    pub fn has_collision(&self) -> bool {
        let views: BTreeSet<(&String, &String)> = self
            .views
            .iter()
            .filter(|view| view.is_active())
            .map(|view| (&view.namespace, &view.view))
            .collect();
        let mut tables = self.tables.iter().filter(|table| table.is_active());
        tables.any(|table| views.contains(&(&table.namespace, &table.table)))
    }
}

/// What a migration copies of `source` into a snapshot of this version.
///
/// # Errors
///
/// [`Class::NotFound`] without a bucket entry; [`Class::Conflict`] for commits that are not finished, for names, ids
/// or prefixes that two entries share; [`Class::Invalid`] for state that no snapshot may hold.
pub fn collect(source: &Source, version: u32) -> Result<Collected, Refusal> {
    let name = &source.name;
    let Some(bucket) = &source.bucket else {
        return Err(Class::NotFound.because(format!("{name} has no table-bucket entry")));
    };
    let totals = source.totals();
    if totals.staged + totals.repairable + totals.manual > 0 {
        return Err(
            Class::Conflict.because(format!("bucket {name} has commits that are not finished"))
        );
    }
    if source.has_twins() || source.has_collision() || source.prefixes().1 {
        let text = format!("bucket {name} has names, ids or prefixes that two entries share");
        return Err(Class::Conflict.because(text));
    }
    let row = |table: &String, lookup: &String, commit: &CommitRecord| Row {
        table_bucket: name.clone(),
        table_id: table.clone(),
        lookup_key: lookup.clone(),
        commit: commit.clone(),
    };
    let mut parts = Parts {
        buckets: vec![bucket.clone()],
        namespaces: source.namespaces.clone(),
        tables: source.tables.clone(),
        views: source.views.clone(),
        commits: Vec::new(),
        idempotency: Vec::new(),
    };
    for table in &source.tables {
        let (commits, keys) = source.records(table);
        let id = &table.table_id;
        parts.commits.extend(commits.iter().map(|it| row(id, &it.commit_id, it)));
        for record in keys {
            let lookup = record.idempotency_key.clone().unwrap_or_default();
            parts.idempotency.push(row(id, &lookup, record));
        }
    }
    let (contents, _) = validate::assemble(parts, version)?;
    if contents.buckets.len() != 1 || !contents.buckets.contains_key(name) {
        let text = format!("what lies in the folder of bucket {name} is another bucket's");
        return Err(Class::Invalid.because(text));
    }
    validate::validate(&contents, version)?;
    let fingerprint = fingerprint::of_bucket(&contents, name);
    let fingerprint = fingerprint.expect("the bucket's entry was put in a moment ago");
    Ok(Collected { contents, fingerprint })
}
