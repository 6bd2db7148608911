//! Acknowledged commits survive, each once; refused ones stay away.
//!
//! Verified, by the drives: the property of every acknowledged commit stands in the table's current metadata, and its
//! record exactly once in the table's history; the property of a commit of which every attempt was refused does not;
//! one of which nobody can tell has both or has no property; every record that says COMMITTED is of a commit that
//! somebody tried.
//!
//! Commits that an operator gave up, by restarting every node on an older snapshot, may be there or not.
//!
//! Not verified: commits that set anything but a property; tables that were dropped or renamed meanwhile.

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::tables;
use super::tables::Attempts;
use super::tables::Catalog;
use super::tables::Metadata;
use super::tables::Table;
use crate::harness::workload::history::Outcome;

/// Its name.
pub const NAME: &str = "acknowledged_commits_survive";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let Some(catalog) = Catalog::of(&mut examination, witnesses) else {
        return examination.finish();
    };
    let attempts = tables::attempts(witnesses.history);
    for tried in attempts.values() {
        let place = catalog.tables.get(&tried.table);
        let known = place.and_then(|table| Some((table, catalog.metadata(table)?)));
        let found = match (known, tried.outcome()) {
            (Some((table, metadata)), _) => of_table(&catalog, tried, table, &metadata),
            (None, Outcome::Acknowledged) => {
                let id = &tried.commit.commit_id;
                let message = format!(
                    "commit {id} was acknowledged, and table {} is gone or has no metadata",
                    tried.table
                );
                Some(Found::fail("table_lost", message))
            }
            (None, _) => None,
        };
        examination.examined();
        if let Some(found) = found {
            examination.found(tried.show(found).shown_in("census.json"));
        }
    }
    for (name, table) in &catalog.tables {
        for logged in catalog.commits_of(table) {
            if logged.status == "COMMITTED" && !attempts.contains_key(&*logged.commit_id) {
                let id = &logged.commit_id;
                let message = format!("table {name} has a commit {id} that nobody asked for");
                let found = Found::fail("commit_of_nobody", message);
                examination.found(found.shown_in("census.json"));
            }
        }
    }
    examination.finish()
}

/// What is wrong with one commit.
fn of_table(
    catalog: &Catalog<'_>,
    tried: &Attempts<'_>,
    table: &Table,
    metadata: &Metadata,
) -> Option<Found> {
    let (id, property) = (&tried.commit.commit_id, &tried.commit.property);
    let has_property = metadata.properties.get(property) == Some(id);
    let records = catalog.commits_of(table).iter().filter(|it| it.commit_id == *id).count();
    let name = &tried.table;
    let (kind, message) = match (tried.outcome(), has_property, records) {
        (Outcome::Acknowledged, true, 1)
        | (Outcome::Ambiguous, true, 1)
        | (Outcome::Ambiguous, false, 0 | 1)
        | (Outcome::Refused, false, 0 | 1) => return None,
        (Outcome::Acknowledged, false, _) => (
            "commit_lost",
            format!(
                "commit {id} to {name} was acknowledged, and {property} is not in its metadata"
            ),
        ),
        (Outcome::Refused, true, _) => (
            "refused_commit_took_effect",
            format!("commit {id} to {name} was refused, and {property} is in its metadata"),
        ),
        (_, true, 0) => (
            "commit_without_record",
            format!("commit {id} to {name} took effect, and its history has no record of it"),
        ),
        (_, _, records) => (
            "commit_doubled",
            format!("the history of {name} has {records} records of commit {id}"),
        ),
    };
    Some(Found::fail(kind, message))
}
