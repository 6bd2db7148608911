//! A repair of what interrupted commits left moves no table's pointer.
//!
//! Verified, by the wire: where the pointer (file, token, generation) stood before a request for a repair and where it
//! stands at the next look after it are the same. By the drives, where nobody looked after the last repair: the
//! table's entry is where the pointer stood before it. Requests for a repair that were refused count as well.
//!
//! Not verified: repairs beside which something else may have moved the pointer or dropped the table. Where a commit
//! of which nobody can tell may still land, because its node lives, a moved pointer is undecided.

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::tables::Catalog;
use crate::harness::workload::catalog::CatalogAction;
use crate::harness::workload::catalog::CatalogOp;
use crate::harness::workload::history::NodeState;
use crate::harness::workload::history::Outcome;
use crate::harness::workload::record::History;
use crate::harness::workload::record::NEVER;

/// Its name.
pub const NAME: &str = "repair_moves_no_pointer";

/// Where a pointer stands.
#[derive(PartialEq)]
struct Pointer {
    location: String,
    token: String,
    generation: u64,
}

/// Where a pointer was seen.
struct Seen {
    /// Where the look at it began.
    from: u64,
    /// Where it ended.
    to: u64,
    pointer: Pointer,
    shown_in: String,
}

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let Some(catalog) = Catalog::of(&mut examination, witnesses) else {
        return examination.finish();
    };
    let history = witnesses.history;
    let repairs = history.catalog.iter().filter(|op| op.asked.action == CatalogAction::Recover);
    for repair in repairs {
        let name = name(repair);
        let found = match around(history, &catalog, repair) {
            None => Found::undecided(
                "pointer_unseen",
                format!("nobody saw the pointer of {name} before and after a repair of it"),
            ),
            Some((before, after)) => {
                if is_moved_beside(history, repair, &before, &after) {
                    continue;
                }
                examination.examined();
                if before.pointer == after.pointer {
                    continue;
                }
                let message = format!(
                    "the pointer of {name} stood at generation {} ({}) before a repair and at {} ({}) after it",
                    before.pointer.generation,
                    before.pointer.location,
                    after.pointer.generation,
                    after.pointer.location
                );
                let found = if may_land_late(history, repair, &before) {
                    let message = message + "; a commit of which nobody can tell may have landed";
                    Found::undecided("pointer_may_have_moved", message)
                } else {
                    Found::fail("pointer_moved", message)
                };
                found.shown_in(before.shown_in).shown_in(after.shown_in)
            }
        };
        examination.found(found.explained_by([repair.asked.ask]).shown_in(repair.line()));
    }
    examination.finish()
}

fn name(op: &CatalogOp) -> String {
    format!("{}.{}", op.asked.warehouse, op.asked.table.as_deref().unwrap_or_default())
}

fn is_of_same_table(op: &CatalogOp, other: &CatalogOp) -> bool {
    op.asked.warehouse == other.asked.warehouse && op.asked.table == other.asked.table
}

/// The last sight of the pointer before a repair, and the first one after it.
fn around(history: &History, catalog: &Catalog<'_>, repair: &CatalogOp) -> Option<(Seen, Seen)> {
    let ended = repair.ended.unwrap_or(NEVER);
    let sights = || {
        let looks = history
            .catalog
            .iter()
            .filter(|op| op.asked.action == CatalogAction::Pointer && is_of_same_table(op, repair));
        looks.filter_map(|op| {
            let answer = op.answer.as_ref()?;
            let pointer = Pointer {
                location: answer.pointer.clone()?,
                token: answer.token.clone()?,
                generation: answer.generation?,
            };
            Some(Seen { from: op.invoked, to: op.ended?, pointer, shown_in: op.line() })
        })
    };
    let before = sights().rfind(|seen| seen.to < repair.invoked)?;
    let on_the_wire = sights().find(|seen| seen.from > ended);
    let after = on_the_wire.or_else(|| {
        let table = catalog.tables.get(&name(repair))?;
        let pointer = Pointer {
            location: format!("s3://{}/{}", table.table_bucket, table.metadata_location),
            token: table.version_token.clone(),
            generation: table.generation,
        };
        Some(Seen { from: NEVER, to: NEVER, pointer, shown_in: "census.json".to_owned() })
    })?;
    Some((before, after))
}

/// Whether something else was asked meanwhile that may have moved the pointer.
fn is_moved_beside(history: &History, repair: &CatalogOp, before: &Seen, after: &Seen) -> bool {
    history.catalog.iter().any(|op| {
        let moves = matches!(
            op.asked.action,
            CatalogAction::Commit(_) | CatalogAction::CreateTable | CatalogAction::DropTable
        );
        moves
            && is_of_same_table(op, repair)
            && op.outcome() != Outcome::Refused
            && op.invoked < after.to
            && op.ended.unwrap_or(NEVER) > before.from
    })
}

/// Whether a commit from before may land still: nobody can tell what became of it, and its node did not die since.
fn may_land_late(history: &History, repair: &CatalogOp, before: &Seen) -> bool {
    let mut earlier = history.catalog.iter().filter(|op| {
        op.commit().is_some()
            && is_of_same_table(op, repair)
            && op.outcome() == Outcome::Ambiguous
            && op.invoked < before.from
    });
    earlier.any(|op| {
        let died = history.nodes.iter().any(|event| {
            event.what == (op.asked.node, NodeState::Dead)
                && (op.invoked..before.from).contains(&event.seq)
        });
        !died
    })
}
