//! Preflights, and what makes them clean.

use super::super::answers;
use super::super::answers::Diagnostics;
use super::super::answers::Preflight;
use super::super::answers::Recovery;
use super::super::ask::Heard;
use super::super::facts::Item;
use super::super::facts::Look;
use super::super::turn::Move;
use super::super::turn::News;
use super::super::turn::Stop;
use super::super::turn::StopKind;
use super::super::turn::Turn;
use super::super::turn::expect;
use super::super::turn::heard;
use super::super::turn::is_not_served;
use super::walk;

/// Unfinished commits.
const RECOVERY: &str = "COMMIT_RECOVERY_REQUIRED";
/// The warehouse prefix index.
const BACKFILL: &str = "WAREHOUSE_INDEX_BACKFILL_REQUIRED";
/// Nothing is in the way.
pub(super) const READY: &str = "READY_TO_SNAPSHOT";
/// It is done already.
pub(super) const MATERIALIZED: &str = "SNAPSHOT_MATERIALIZED";
/// What a server would be asked for to see whether its index is whole.
const PROBE_KEY: &str = "firedrill-backfill-probe";

/// What an operator does about a blocker.
pub(super) fn remedy(blocker: &str) -> &'static str {
    match blocker {
        RECOVERY => {
            "repair the commits (the step repair does); a commit that was only staged is finished by its own client, or abandoned by the server's own recovery"
        }
        BACKFILL => {
            "backfill the warehouse prefix index (the step backfill does), or send any signed request for an object of the bucket"
        }
        "COMMIT_MANUAL_REVIEW_REQUIRED" => {
            "look at the records in the table's diagnostics; no tool decides this"
        }
        "DUPLICATE_WAREHOUSE_PREFIX" => "relocate or drop one of the tables",
        "DUPLICATE_TABLE_IDENTITY" => "restore one of the two entries from a backup",
        "TABLE_VIEW_IDENTIFIER_COLLISION" => "drop the table or the view",
        "DURABLE_STRONG_SNAPSHOT_CHANGED" => {
            "somebody changed the snapshot, or the source under its fence: review both against the backup"
        }
        _ => "see the server's documentation",
    }
}

/// Reads the preflights of all warehouses into the facts.
fn read_all(turn: &mut Turn<'_>, all: &[Heard]) -> Result<(), Stop> {
    for (name, heard) in turn.orders.warehouses.iter().zip(all) {
        expect(heard, &[200])?;
        let preflight: Preflight = answers::read(heard).map_err(Stop::unreadable)?;
        if preflight.table_bucket != *name {
            let words = format!("a preflight of {name} answers for {}", preflight.table_bucket);
            return Err(Stop::unreadable(words));
        }
        turn.facts.warehouses.entry(name.clone()).or_default().preflight = Some(preflight);
    }
    Ok(())
}

/// The requests for the preflights of all warehouses.
pub(super) fn ask_all(turn: &Turn<'_>) -> Move {
    let names = turn.orders.warehouses.iter();
    Move::Send(names.map(|name| turn.orders.at(name).preflight()).collect())
}

/// A blocker is in the way.
fn blocked(warehouse: &str, preflight: &Preflight, blockers: &[&String]) -> Stop {
    let names: Vec<_> = blockers.iter().map(|it| it.as_str()).collect();
    let words = format!("{warehouse} is {}: {}", preflight.status, names.join(", "));
    let remedies: Vec<_> = names.iter().map(|name| remedy(name)).collect();
    Stop::new(StopKind::Blocked, words, remedies.join("; "))
}

/// What each preflight says, in words.
fn summary(turn: &Turn<'_>) -> String {
    let each = turn.facts.warehouses.iter().filter_map(|(name, warehouse)| {
        let it = warehouse.preflight.as_ref()?;
        let blockers = match it.blockers.len() {
            0 => "no blockers".to_owned(),
            _ => it.blockers.join(", "),
        };
        let registry = match it.registry_fenced {
            Some(true) => ", the registry fence stands",
            _ => "",
        };
        Some(format!(
            "{name}: {}, {blockers}, {} tables, {} views, {} commits{registry}",
            it.status, it.table_count, it.view_count, it.commit_log_count
        ))
    });
    each.collect::<Vec<_>>().join("; ")
}

/// Every blocker is known. A dry run ends at any; otherwise those that the next steps repair may remain.
pub(super) fn preflight(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    if turn.round == 0 {
        return Ok(ask_all(turn));
    }
    read_all(turn, &heard(news))?;
    for name in &turn.orders.warehouses {
        let Some(known) = turn.facts.warehouses.get_mut(name) else { continue };
        let Some(it) = &known.preflight else { continue };
        known.was_fenced = it.object_backed_writes_fenced;
        let is_repairable = |blocker: &&String| *blocker == RECOVERY || *blocker == BACKFILL;
        let execute = turn.orders.execute;
        let stops: Vec<_> =
            it.blockers.iter().filter(|blocker| !(execute && is_repairable(blocker))).collect();
        if !stops.is_empty() {
            return Err(blocked(name, it, &stops));
        }
        if it.object_backed_writes_fenced && it.status != MATERIALIZED {
            let words = format!("{name} is fenced and not materialised: a migration is unfinished");
            let remedy =
                "finish it (firedrill catalog migrate) or undo it (firedrill catalog cancel)";
            return Err(Stop::new(StopKind::Precondition, words, remedy));
        }
    }
    Ok(Move::Pass(summary(turn)))
}

/// Whether `blocker` stands in any preflight; the warehouses where it does.
fn with_blocker(turn: &Turn<'_>, blocker: &str) -> Vec<String> {
    let has = |it: &&Preflight| it.blockers.iter().any(|one| one == blocker);
    let all = turn.facts.warehouses.iter();
    let found = all.filter(|(_, known)| known.preflight.as_ref().filter(has).is_some());
    found.map(|(name, _)| name.clone()).collect()
}

/// Finishes unfinished commits, and moves no pointer.
pub(super) fn repair(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    if turn.round == 0 {
        let names = with_blocker(turn, RECOVERY);
        if names.is_empty() {
            return Ok(Move::NotNeeded("no commit is unfinished".to_owned()));
        }
        for name in names {
            let tables = turn.facts.warehouses[&name].tables.values();
            let items = tables.map(|table| Item::named(Look::Diagnose, &name, &table.name));
            turn.facts.work.pending.extend(items.collect::<Vec<_>>());
        }
    } else {
        let sent = std::mem::take(&mut turn.facts.work.sent);
        for (item, heard) in sent.iter().zip(&heard(news)) {
            one_repair(turn, item, heard)?;
        }
    }
    match walk::next(turn) {
        Some(next) => Ok(next),
        None if turn.facts.work.notes.is_empty() => {
            Ok(Move::Pass("no table has a commit that a repair would finish".to_owned()))
        }
        None => Ok(Move::Pass(turn.facts.work.notes.join("; "))),
    }
}

fn one_repair(turn: &mut Turn<'_>, item: &Item, heard: &Heard) -> Result<(), Stop> {
    expect(heard, &[200])?;
    let work = &mut turn.facts.work;
    if item.look == Look::Diagnose {
        let it: Diagnostics = answers::read(heard).map_err(Stop::unreadable)?;
        let recovery = it.commit_recovery;
        if recovery.repairable() + recovery.staged_before_table_update_count > 0 {
            work.pending.push_back(Item { look: Look::Recover, ..item.clone() });
        }
        return Ok(());
    }
    let it: Recovery = answers::read(heard).map_err(Stop::unreadable)?;
    let table = &item.name;
    let before = turn.facts.warehouses.get(&item.warehouse);
    let before = before.and_then(|known| known.tables.get(&table.to_string()));
    // Writers are not drained yet: a token that is another one now may be theirs, a lower generation is nobody's.
    if before.is_some_and(|before| it.current_generation < before.pointer.generation) {
        let words = format!("a repair of {table} left generation {}", it.current_generation);
        return Err(Stop::broken(words));
    }
    work.notes.push(format!(
        "{table}: {} finished, {} only staged",
        it.finalized_count, it.staged_before_table_update_count
    ));
    Ok(())
}

/// Makes the warehouse prefix index whole: by the server's own route, else as the runbook does, by a request for an
/// object.
pub(super) fn backfill(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    if turn.round == 0 {
        let names = with_blocker(turn, BACKFILL);
        if names.is_empty() {
            return Ok(Move::NotNeeded("every index is whole".to_owned()));
        }
        return Ok(Move::Send(names.iter().map(|name| turn.orders.at(name).backfill()).collect()));
    }
    let all = heard(news);
    match turn.round {
        1 => {
            let mut by_object = Vec::new();
            for heard in &all {
                if is_not_served(heard) || heard.status() == 403 {
                    let warehouse = heard.ask.query.first().map_or("", |(_, value)| value);
                    by_object.push(turn.orders.at(warehouse).object("HEAD", PROBE_KEY));
                } else {
                    expect(heard, &[200, 202, 204])?;
                }
            }
            if !by_object.is_empty() {
                let words = "the server has no route for it: a request for an object was sent";
                turn.facts.work.notes.push(words.to_owned());
            }
            Ok(Move::Send(by_object))
        }
        2 => {
            for heard in &all {
                expect(heard, &[200, 404])?;
            }
            Ok(ask_all(turn))
        }
        _ => {
            read_all(turn, &all)?;
            if let Some(name) = with_blocker(turn, BACKFILL).first() {
                let words = format!("the warehouse prefix index of {name} is still not whole");
                let remedy = "see the server's log: is there a table whose index entry is missing, or a fence?";
                return Err(Stop::new(StopKind::Blocked, words, remedy));
            }
            let how = turn.facts.work.notes.join("; ");
            Ok(Move::Pass(format!("every index is whole. {how}").trim().to_owned()))
        }
    }
}

/// No blocker is left.
pub(super) fn preflight_clean(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    if turn.round == 0 {
        return Ok(ask_all(turn));
    }
    read_all(turn, &heard(news))?;
    for name in &turn.orders.warehouses {
        let known = turn.facts.warehouses.get(name);
        let Some(it) = known.and_then(|known| known.preflight.as_ref()) else { continue };
        let blockers: Vec<_> = it.blockers.iter().collect();
        if !blockers.is_empty() {
            return Err(blocked(name, it, &blockers));
        }
        if it.status != READY && it.status != MATERIALIZED {
            let words = format!("{name} is {}", it.status);
            let remedy = "finish or undo what is under way (firedrill catalog migrate, cancel)";
            return Err(Stop::new(StopKind::Precondition, words, remedy));
        }
    }
    Ok(Move::Pass(summary(turn)))
}
