//! While a migration stands, nothing object-backed is changed.
//!
//! Verified, by the history: of a warehouse whose migration was acknowledged, no commit that was begun after that, under
//! an id that nobody had tried before, and no creation of a table, was acknowledged before a cancellation was asked for
//! or the nodes were ended to start with another backing.
//!
//! Not verified: a commit that was begun before the migration was acknowledged; it may have come before the fence.

use std::collections::BTreeMap;

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use crate::harness::workload::catalog::CatalogAction;
use crate::harness::workload::catalog::CatalogOp;
use crate::harness::workload::history::Note;
use crate::harness::workload::record::History;
use crate::harness::workload::record::NEVER;

/// Its name.
pub const NAME: &str = "fence_holds";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let history = witnesses.history;
    // Where each commit was first tried.
    let mut first = BTreeMap::<&str, u64>::new();
    for op in &history.catalog {
        if let Some(commit) = op.commit() {
            first.entry(&commit.commit_id).or_insert(op.invoked);
        }
    }
    for migration in history.catalog.iter().filter(|op| op.asked.action == CatalogAction::Migrate) {
        let Some(from) = migration.ended.filter(|_| migration.is_acknowledged()) else { continue };
        let until = until(history, migration, from);
        let changes = history.catalog.iter().filter(|op| {
            let begun = match (&op.asked.action, op.commit()) {
                (CatalogAction::CreateTable, _) => op.invoked,
                (_, Some(commit)) => first.get(&*commit.commit_id).copied().unwrap_or(op.invoked),
                _ => return false,
            };
            op.asked.warehouse == migration.asked.warehouse
                && begun > from
                && op.ended.is_some_and(|ended| ended < until)
        });
        for op in changes {
            examination.examined();
            if op.is_acknowledged() {
                let (table, warehouse) = (op.asked.table.as_deref(), &op.asked.warehouse);
                let message = format!(
                    "{} of {warehouse} was changed after its migration was acknowledged",
                    table.unwrap_or_default()
                );
                let found = Found::fail("fence_passed", message)
                    .explained_by([migration.asked.ask, op.asked.ask])
                    .shown_in(migration.line())
                    .shown_in(op.line());
                examination.found(found);
            }
        }
    }
    examination.finish()
}

/// Where the fence of `migration`, acknowledged at `from`, need not hold any longer.
fn until(history: &History, migration: &CatalogOp, from: u64) -> u64 {
    let cancels = history.catalog.iter().filter(|op| {
        op.asked.action == CatalogAction::Cancel
            && op.asked.warehouse == migration.asked.warehouse
            && op.invoked > from
    });
    let strong = history.notes.iter().filter(|note| {
        note.seq > from
            && matches!(&note.what, Note::Backing { backing, .. } if backing != "object")
    });
    let ends = cancels.map(|op| op.invoked).chain(strong.map(|note| note.seq));
    ends.min().unwrap_or(NEVER)
}
