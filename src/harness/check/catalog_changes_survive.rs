//! Acknowledged creations and drops of what has a name in the catalog survive.
//!
//! Verified, by the drives: a table bucket, namespace, table or view whose last acknowledged change made it is there,
//! and one whose last acknowledged change dropped it is not; where changes overlapped, or nobody can tell what became
//! of one, either of what they lead to is right.
//!
//! Not verified: names that only requests of which nobody can tell were about; what a name leads to, which is
//! `acknowledged_commits_survive` for tables.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::tables::Catalog;
use super::tables::Kind;
use crate::harness::workload::catalog::CatalogAction;
use crate::harness::workload::catalog::CatalogOp;
use crate::harness::workload::history::NodeState;
use crate::harness::workload::history::Outcome;
use crate::harness::workload::record::History;
use crate::harness::workload::record::NEVER;

/// Its name.
pub const NAME: &str = "catalog_changes_survive";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let Some(catalog) = Catalog::of(&mut examination, witnesses) else {
        return examination.finish();
    };
    let history = witnesses.history;
    let mut changes = BTreeMap::<(Kind, String), Vec<(bool, &CatalogOp)>>::new();
    for op in &history.catalog {
        if let Some((kind, name, is_made)) = change(op) {
            changes.entry((kind, name)).or_default().push((is_made, op));
        }
    }
    for ((kind, name), changes) in &changes {
        let Some(owed) = owed(history, changes) else { continue };
        examination.examined();
        let is_there = catalog.names.contains(&(*kind, name.clone()));
        if is_there == owed {
            continue;
        }
        let (word, what) = (kind.word(), if owed { "created" } else { "dropped" });
        let seen = if is_there { "is there" } else { "is not there" };
        let message = format!("{word} {name} was {what} for certain, and {seen}");
        let kind = if owed { "creation_lost" } else { "drop_undone" };
        let mut found = Found::fail(kind, message).shown_in("census.json");
        for (_, op) in changes {
            found = found.shown_in(op.line());
        }
        examination.found(found.explained_by(changes.iter().map(|(_, op)| op.asked.ask)));
    }
    examination.finish()
}

/// What a request makes (`true`) or drops, if it may have done so.
fn change(op: &CatalogOp) -> Option<(Kind, String, bool)> {
    let (asked, warehouse) = (&op.asked, &op.asked.warehouse);
    let of = |name: &Option<String>| name.as_ref().map(|name| format!("{warehouse}.{name}"));
    let change = match asked.action {
        CatalogAction::Enable => (Kind::Bucket, warehouse.clone(), true),
        CatalogAction::CreateNamespace => (Kind::Namespace, of(&asked.name)?, true),
        CatalogAction::DropNamespace => (Kind::Namespace, of(&asked.name)?, false),
        CatalogAction::CreateTable => (Kind::Table, of(&asked.table)?, true),
        CatalogAction::DropTable => (Kind::Table, of(&asked.table)?, false),
        CatalogAction::CreateView | CatalogAction::ReplaceView => {
            (Kind::View, of(&asked.name)?, true)
        }
        CatalogAction::DropView => (Kind::View, of(&asked.name)?, false),
        _ => return None,
    };
    // A replacement of which nobody can tell makes nothing that was not there.
    let is_moot = asked.action == CatalogAction::ReplaceView && op.outcome() == Outcome::Ambiguous;
    (op.outcome() != Outcome::Refused && !is_moot).then_some(change)
}

/// Whether a name has to be there (`true`) or not; `None` when either is right.
fn owed(history: &History, changes: &[(bool, &CatalogOp)]) -> Option<bool> {
    let acknowledged: Vec<&(bool, &CatalogOp)> =
        changes.iter().filter(|(_, op)| op.is_acknowledged()).collect();
    let ended = |op: &CatalogOp| op.ended.unwrap_or(NEVER);
    let last_begun = acknowledged.iter().map(|(_, op)| op.invoked).max()?;
    // Nothing acknowledged began after these had ended.
    let last = acknowledged.iter().filter(|(_, op)| ended(op) > last_begun);
    let mut ends: BTreeSet<bool> = last.map(|(is_made, _)| *is_made).collect();
    // One of which nobody can tell may land at any time, unless its node died before the last one began.
    let open = changes.iter().filter(|(_, op)| {
        let died = history.nodes.iter().any(|event| {
            event.what == (op.asked.node, NodeState::Dead)
                && (op.invoked..last_begun).contains(&event.seq)
        });
        op.outcome() == Outcome::Ambiguous && !died
    });
    ends.extend(open.map(|(is_made, _)| *is_made));
    (ends.len() == 1).then(|| ends.contains(&true))
}
