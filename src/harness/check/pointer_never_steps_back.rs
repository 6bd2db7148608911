//! The pointer of a table only goes on, whoever asks and whatever backing it has.
//!
//! Verified, by the history: what a table's pointer was told to be, by a commit at its first attempt or to whoever
//! asked for it, is never of an older generation than what had been told before it was asked; one generation is one
//! metadata file. By the drives: what counts in the end is of no older generation than anything that was told, and of
//! the newest told one it is that very file.
//!
//! What was told between the making of a copy of the snapshot and the restart of every node on it is given up by
//! consent, and is not compared with what came later.
//!
//! Not verified: tables that are gone in the end, or were dropped and made anew.

use std::collections::BTreeMap;

use super::Judgement;
use super::Witnesses;
use super::consent;
use super::findings::Examination;
use super::findings::Found;
use super::tables::Catalog;
use crate::harness::workload::catalog::CatalogAction;
use crate::harness::workload::catalog::CatalogOp;
use crate::harness::workload::record::History;

/// Its name.
pub const NAME: &str = "pointer_never_steps_back";

/// What one answer told of a table.
#[derive(Debug, Clone, Copy)]
struct Told<'a> {
    op: &'a CatalogOp,
    ended: u64,
    generation: u64,
    file: Option<&'a str>,
}

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let all = told(witnesses.history);
    for (table, told) in &all {
        told.iter().for_each(|_| examination.examined());
        back(&mut examination, table, told);
        forked(&mut examination, table, told);
    }
    let Some(catalog) = Catalog::of(&mut examination, witnesses) else {
        return examination.finish();
    };
    for (table, told) in &all {
        let newest = told.iter().max_by_key(|it| it.generation);
        let (Some(newest), Some(now)) = (newest, catalog.tables.get(table)) else { continue };
        let (generation, file) = (now.generation, now.metadata_location.as_str());
        let is_other = generation == newest.generation && newest.file.is_some_and(|it| it != file);
        if generation < newest.generation || is_other {
            let message = format!(
                "the drives have generation {generation} of {table}, {file}, and generation {} was told, {}",
                newest.generation,
                newest.file.unwrap_or("without its file")
            );
            examination.found(show(Found::fail("pointer_lost", message), newest));
        }
    }
    examination.finish()
}

/// What was told of each table, in the order in which it was told, without what was given up.
fn told(history: &History) -> BTreeMap<String, Vec<Told<'_>>> {
    let consents = consent::all(history);
    let mut all = BTreeMap::<String, Vec<Told<'_>>>::new();
    for op in &history.catalog {
        let is_asked = op.asked.action == CatalogAction::Pointer
            || op.commit().is_some_and(|commit| commit.attempt == 0);
        let (Some(table), Some(answer), Some(ended)) = (&op.asked.table, &op.answer, op.ended)
        else {
            continue;
        };
        let Some(generation) = answer.generation else { continue };
        if !is_asked || !op.is_acknowledged() || consent::gives_up(&consents, op) {
            continue;
        }
        let root = format!("s3://{}/", op.asked.warehouse);
        let file = answer.pointer.as_deref();
        let file = file.map(|file| file.strip_prefix(&root).unwrap_or(file));
        let name = format!("{}.{table}", op.asked.warehouse);
        all.entry(name).or_default().push(Told { op, ended, generation, file });
    }
    for told in all.values_mut() {
        told.sort_by_key(|it| it.ended);
    }
    all
}

/// Answers that are older than what had been told before they were asked for.
fn back(examination: &mut Examination, table: &str, told: &[Told<'_>]) {
    // The newest of all that were told so far.
    let newest = told.iter().scan(None, |newest: &mut Option<Told<'_>>, it| {
        *newest = Some(newest.filter(|newest| newest.generation >= it.generation).unwrap_or(*it));
        *newest
    });
    let newest: Vec<Told<'_>> = newest.collect();
    for it in told {
        let before = told.partition_point(|other| other.ended < it.op.invoked);
        let Some(before) = before.checked_sub(1).and_then(|index| newest.get(index)) else {
            continue;
        };
        if it.generation < before.generation {
            let message = format!(
                "generation {} of {table} was told after generation {}",
                it.generation, before.generation
            );
            let found = Found::fail("pointer_stepped_back", message);
            examination.found(show(show(found, before), it));
        }
    }
}

/// Generations of which two files were told.
fn forked(examination: &mut Examination, table: &str, told: &[Told<'_>]) {
    let mut files = BTreeMap::<u64, Told<'_>>::new();
    for it in told.iter().filter(|it| it.file.is_some()) {
        let first = files.entry(it.generation).or_insert(*it);
        if first.file != it.file {
            let message = format!("two files were told of generation {} of {table}", it.generation);
            let found = Found::fail("pointer_forked", message);
            examination.found(show(show(found, first), it));
        }
    }
}

fn show(found: Found, told: &Told<'_>) -> Found {
    found.explained_by([told.op.asked.ask]).shown_in(told.op.line())
}
