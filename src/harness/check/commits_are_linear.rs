//! The commits of a table are one chain, and each made a generation of its own.
//!
//! Verified, by the drives: from the table's current metadata file back, record by record, one chain leads over every
//! record that says COMMITTED, in as many steps as the generation says; no two records make one file; the metadata log
//! of the current file names the last files of that chain in their order. By the history: no two commits of a table
//! were acknowledged at their first attempt with one generation.
//!
//! Not verified: chains of which older records were dropped by the rule for the length of a history; generations of
//! commits that an operator gave up by putting an older snapshot back.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::Judgement;
use super::Witnesses;
use super::consent;
use super::findings::Examination;
use super::findings::Found;
use super::tables;
use super::tables::Catalog;
use super::tables::Logged;
use super::tables::Table;
use crate::harness::workload::catalog::CatalogOp;
use crate::harness::workload::record::History;

/// Its name.
pub const NAME: &str = "commits_are_linear";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let Some(catalog) = Catalog::of(&mut examination, witnesses) else {
        return examination.finish();
    };
    for (name, table) in &catalog.tables {
        let commits = catalog.commits_of(table);
        commits.iter().for_each(|_| examination.examined());
        for message in broken(name, table, commits) {
            let found = Found::fail("history_forks", message);
            examination.found(found.shown_in("census.json"));
        }
        let Some(metadata) = catalog.metadata(table) else {
            let message = format!("the drives give no current metadata of {name}, so no log of it");
            let found = Found::undecided("log_unknown", message);
            examination.found(found.shown_in("census.json"));
            continue;
        };
        let chain = chain(table, &by_file(commits));
        let root = format!("s3://{}/", table.table_bucket);
        let log = metadata.log.iter().map(|it| it.file.strip_prefix(&root).unwrap_or(&it.file));
        let log: Vec<&str> = log.collect();
        let earlier: Vec<&str> = chain.iter().rev().copied().collect();
        if !earlier.ends_with(&log) || log.is_empty() != earlier.is_empty() {
            let message = format!("the metadata log of {name} does not name the files before it");
            examination.found(Found::fail("log_is_no_chain", message).shown_in("census.json"));
        }
    }
    for found in doubled(witnesses.history) {
        examination.found(found);
    }
    examination.finish()
}

/// Records by the file that they make.
fn by_file(commits: &[Logged]) -> BTreeMap<&str, Vec<&Logged>> {
    let mut files = BTreeMap::<&str, Vec<&Logged>>::new();
    for commit in commits {
        files.entry(&commit.new_metadata_location).or_default().push(commit);
    }
    files
}

/// The files before the current one, the latest first.
fn chain<'a>(table: &'a Table, files: &BTreeMap<&'a str, Vec<&'a Logged>>) -> Vec<&'a str> {
    let mut chain = Vec::new();
    let mut seen = BTreeSet::from([table.metadata_location.as_str()]);
    let mut file = table.metadata_location.as_str();
    while let Some(made) = files.get(file).and_then(|made| made.first()) {
        file = &made.previous_metadata_location;
        if !seen.insert(file) {
            break;
        }
        chain.push(file);
    }
    chain
}

/// What is wrong with the records of a table.
fn broken(name: &str, table: &Table, commits: &[Logged]) -> Vec<String> {
    let files = by_file(commits);
    let chain = chain(table, &files);
    let mut broken = Vec::new();
    for (file, made) in files.iter().filter(|(_, made)| made.len() > 1) {
        let ids: Vec<&str> = made.iter().map(|it| it.commit_id.as_str()).collect();
        broken.push(format!("commits {} of {name} make one file, {file}", ids.join(" and ")));
    }
    let is_on_chain = |file: &str| file == table.metadata_location || chain.contains(&file);
    for commit in commits {
        if commit.status == "COMMITTED" && !is_on_chain(&commit.new_metadata_location) {
            let id = &commit.commit_id;
            broken.push(format!("commit {id} of {name} is not on the way to what is current"));
        }
    }
    let steps = chain.len() as u64;
    if table.generation != steps + 1 {
        let generation = table.generation;
        broken.push(format!("{name} is at generation {generation} after {steps} commits"));
    }
    broken
}

/// Generations that two commits were told.
fn doubled(history: &History) -> Vec<Found> {
    let mut told = BTreeMap::<(String, usize, u64), &CatalogOp>::new();
    let mut found = Vec::new();
    let consents = consent::all(history);
    let stands = |op: &&CatalogOp| op.is_acknowledged() && !consent::gives_up(&consents, op);
    for op in history.catalog.iter().filter(stands) {
        let is_first = op.commit().is_some_and(|commit| commit.attempt == 0);
        let generation = op.answer.as_ref().and_then(|answer| answer.generation);
        let (Some(table), Some(generation), true) = (&op.asked.table, generation, is_first) else {
            continue;
        };
        let name = format!("{}.{table}", op.asked.warehouse);
        // A table that is made anew begins again.
        let drops = tables::drops(history, &name).filter(|drop| drop.invoked < op.invoked).count();
        let place = (name.clone(), drops, generation);
        if let Some(other) = told.insert(place, op) {
            let message = format!("two commits of {name} were told generation {generation}");
            let finding = Found::fail("generation_told_twice", message);
            let finding = finding.explained_by([other.asked.ask, op.asked.ask]);
            found.push(finding.shown_in(other.line()).shown_in(op.line()));
        }
    }
    found
}
