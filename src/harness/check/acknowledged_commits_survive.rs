//! Acknowledged commits survive, each once; refused ones stay away.
//!
//! Verified, by the drives: the property of every commit that was acknowledged, or that somebody saw, stands in the
//! table's current metadata, and its record exactly once in the table's history; the property of a commit of which
//! every attempt was refused does not; one of which nobody can tell has both or has no property; every record that says
//! COMMITTED is of a commit that somebody tried. By the history: no client was told that a commit has failed after it
//! had taken effect. Where nothing shows which of the two came first, that is undecided.
//!
//! Commits that an operator gave up, by restarting every node on an older snapshot, may be there or not.
//!
//! Not verified: commits that set anything but a property; commits to a table that were begun before it was dropped.

use std::collections::BTreeMap;

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::tables;
use super::tables::Attempts;
use super::tables::Catalog;
use super::tables::Metadata;
use super::tables::Table;
use crate::harness::workload::catalog::CatalogOp;
use crate::harness::workload::history::Outcome;

/// The status that tells a client of the catalog that its commit has failed.
const CONFLICT: u16 = 409;

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
        if tables::was_dropped_since(witnesses.history, tried) {
            continue;
        }
        let place = catalog.tables.get(&tried.table);
        let known = place.and_then(|table| Some((table, catalog.metadata(table)?)));
        let (id, name) = (&tried.commit.commit_id, &tried.table);
        let found = match (known, tried.outcome()) {
            (Some((table, metadata)), _) => of_table(&catalog, tried, table, &metadata)
                .or_else(|| told_to_have_failed(&catalog, &attempts, tried, table, &metadata)),
            (None, Outcome::Acknowledged) => {
                let message = format!(
                    "commit {id} was acknowledged, and table {name} is gone or has no metadata"
                );
                Some(Found::fail("table_lost", message))
            }
            (None, _) => {
                let message = format!(
                    "table {name} is gone or has no metadata: nobody can tell what became of commit {id}"
                );
                Some(Found::undecided("effect_unknown", message))
            }
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

/// What is wrong when a client was told in the end that a commit has failed, after an attempt of which it could not
/// tell: the client begins anew, and the change is made twice.
fn told_to_have_failed(
    catalog: &Catalog<'_>,
    all: &BTreeMap<&str, Attempts<'_>>,
    tried: &Attempts<'_>,
    table: &Table,
    metadata: &Metadata,
) -> Option<Found> {
    let (id, name) = (&tried.commit.commit_id, &tried.table);
    let took_effect = metadata.properties.get(&tried.commit.property) == Some(id);
    if !took_effect || tried.outcome() != Outcome::Ambiguous {
        return None;
    }
    let is_failure = |op: &&&CatalogOp| {
        let status = op.answer.as_ref().and_then(|answer| answer.status);
        op.outcome() == Outcome::Refused && status == Some(CONFLICT)
    };
    let told = tried.ops.iter().filter(is_failure).max_by_key(|op| op.invoked)?;
    let mut unknown = tried.ops.iter().filter(|op| op.outcome() == Outcome::Ambiguous);
    if unknown.any(|op| op.ended.is_none_or(|ended| ended > told.invoked)) {
        return None;
    }
    let generations = catalog.generations(table);
    let own = generations.get(&**id);
    let mut others = all.values().filter(|other| other.table == *name);
    let later = others.find_map(|other| {
        let generation = generations.get(&*other.commit.commit_id)?;
        let before = |op: &&&CatalogOp| {
            op.is_acknowledged() && op.ended.is_some_and(|ended| ended < told.invoked)
        };
        let shows = own.is_some_and(|own| generation > own);
        other.ops.iter().filter(|_| shows).find(before).copied()
    });
    let message = format!(
        "the client of commit {id} to {name} was told that it has failed, and it took effect"
    );
    Some(match later {
        Some(later) => {
            let words = format!("{message}: a later commit had been acknowledged by then");
            Found::fail("told_to_have_failed", words).shown_in(later.line())
        }
        None => Found::undecided("told_to_have_failed", message + ", before or after that"),
    })
}
