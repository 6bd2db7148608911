//! A table of the rehearsal's own in each warehouse, so that nobody else's has to be touched.

use super::super::answers;
use super::super::answers::Pointer;
use super::super::ask::Heard;
use super::super::facts::Item;
use super::super::facts::Look;
use super::super::facts::Probe;
use super::super::facts::Subject;
use super::super::orders::Orders;
use super::super::orders::TableName;
use super::super::routes;
use super::super::routes::Named;
use super::super::turn::Move;
use super::super::turn::News;
use super::super::turn::Stop;
use super::super::turn::Turn;
use super::super::turn::expect;
use super::super::turn::heard;
use super::super::turn::many;
use serde_json::Value;

/// The property that the probe's commits set.
const PROPERTY: &str = "firedrill.rehearsal";

pub(super) fn named(table: &TableName) -> Named<'_> {
    Named { namespace: &table.namespace, name: &table.name }
}

/// The commit of the probe's that is sent again after the cutover.
pub fn replayable(orders: &Orders) -> Value {
    let key = format!("firedrill-{}", orders.run_id);
    routes::set_property(PROPERTY, "second", &orders.commit_id("second"), Some(&key))
}

/// The commit of the probe's before it.
pub fn first_commit(orders: &Orders) -> Value {
    routes::set_property(PROPERTY, "first", &orders.commit_id("first"), None)
}

/// Plants the probes; on what is already there it changes nothing, since its commits have their ids.
pub(super) fn plant(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let orders = turn.orders;
    if let (0, Some(table)) = (turn.round, &orders.table) {
        return adopt(turn, table);
    }
    if turn.round == 0 {
        let free = orders
            .warehouses
            .iter()
            .filter(|name| !turn.facts.warehouses.get(*name).is_some_and(|known| known.was_fenced));
        let free: Vec<_> = free.cloned().collect();
        if free.len() < orders.warehouses.len() {
            let words = "some warehouses are fenced already and got no probe";
            turn.facts.work.notes.push(words.to_owned());
        }
        let table = orders.own_table();
        let items = free.iter().map(|name| Item::named(Look::Pointer, name, &table));
        turn.facts.work.pending.extend(items);
        return Ok(next(turn));
    }
    let all = heard(news);
    let table = orders.own_table();
    let item = turn.facts.work.sent.first().cloned();
    let Some(item) = item else { return Ok(over(turn)) };
    let at = orders.at(&item.warehouse);
    let named = named(&table);
    turn.facts.work.count += 1;
    match turn.facts.work.count {
        1 => {
            for heard in &all {
                // What an earlier start of this run has made is there already.
                expect(heard, &[200, 409])?;
            }
            let commits = [first_commit(orders), replayable(orders)];
            Ok(Move::Send(commits.map(|body| at.commit(named, body)).into()))
        }
        2 => {
            for heard in &all {
                expect(heard, &[200])?;
            }
            Ok(Move::Send(vec![at.pointer(named), at.load(named)]))
        }
        3 => {
            let probe = read(orders, &item.warehouse, &all)?;
            let text = "what only the table's policy may show";
            let objects = vec![
                at.object("PUT", &probe.inside_key).holding(text),
                at.object("PUT", &probe.outside_key).holding("what belongs to no table"),
            ];
            turn.facts.probes.insert(item.warehouse.clone(), probe);
            Ok(Move::Send(objects))
        }
        _ => {
            for heard in &all {
                expect(heard, &[200])?;
            }
            turn.facts.work.count = 0;
            Ok(next(turn))
        }
    }
}

/// The next warehouse, or the end.
fn next(turn: &mut Turn<'_>) -> Move {
    let Some(item) = turn.facts.work.pending.pop_front() else { return over(turn) };
    let at = turn.orders.at(&item.warehouse);
    let asks = vec![at.create_namespace(&item.name.namespace), at.create_table(named(&item.name))];
    turn.facts.work.sent = vec![item];
    Move::Send(asks)
}

fn over(turn: &mut Turn<'_>) -> Move {
    let notes = turn.facts.work.notes.join("; ");
    let Some((warehouse, probe)) = turn.facts.probes.iter().next() else {
        return Move::Skip(format!("no probe could be planted: {notes}"));
    };
    turn.facts.subject = Some(Subject {
        warehouse: warehouse.clone(),
        table: probe.table.clone(),
        pointer: probe.pointer.clone(),
        earlier: Some(probe.earlier.clone()),
        has_gap: false,
    });
    let count = many(turn.facts.probes.len(), "warehouse");
    let words = format!("{} in {count}, with two commits each", probe.table);
    Move::Pass(if notes.is_empty() { words } else { format!("{words}; {notes}") })
}

fn read(orders: &Orders, warehouse: &str, all: &[Heard]) -> Result<Probe, Stop> {
    let [pointer, load] = all else { return Err(Stop::unreadable("answers are missing".into())) };
    expect(pointer, &[200])?;
    expect(load, &[200])?;
    let pointer: Pointer = answers::read(pointer).map_err(Stop::unreadable)?;
    let place = if pointer.warehouse_location.is_empty() {
        load.text("/metadata/location").unwrap_or_default()
    } else {
        &pointer.warehouse_location
    };
    let inside_key = orders.inside_key(place, warehouse).ok_or_else(|| {
        Stop::unreadable(format!("the probe's place {place:?} is not in {warehouse}"))
    })?;
    let log = load.told.body.pointer("/metadata/metadata-log").and_then(Value::as_array);
    let earlier = log.and_then(|log| log.last()?.get("metadata-file")?.as_str());
    Ok(Probe {
        table: orders.own_table(),
        commit: replayable(orders),
        earlier: earlier.unwrap_or_default().to_owned(),
        pointer,
        inside_key,
        outside_key: orders.outside_key(),
    })
}

/// Takes the operator's own table for the one that is rehearsed on.
fn adopt(turn: &mut Turn<'_>, table: &TableName) -> Result<Move, Stop> {
    let found = turn.facts.warehouses.iter().find_map(|(name, known)| {
        Some((name.clone(), known.tables.get(&table.to_string())?.pointer.clone()))
    });
    let Some((warehouse, pointer)) = found else {
        return Err(Stop::unreadable(format!("no warehouse has the table {table}")));
    };
    let words = format!("rehearsed on {warehouse}/{table}, generation {}", pointer.generation);
    let (table, earlier) = (table.clone(), None);
    turn.facts.subject = Some(Subject { warehouse, table, pointer, earlier, has_gap: false });
    Ok(Move::Pass(words))
}

/// Removes what was planted.
pub(super) fn remove(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    if turn.round == 0 {
        if turn.facts.probes.is_empty() {
            return Ok(Move::NotNeeded("nothing was planted".to_owned()));
        }
        let mut asks = Vec::new();
        for (warehouse, probe) in &turn.facts.probes {
            let at = turn.orders.at(warehouse);
            asks.push(at.object("DELETE", &probe.inside_key));
            asks.push(at.object("DELETE", &probe.outside_key));
            asks.push(at.drop_table(named(&probe.table)));
            asks.push(at.drop_namespace(&probe.table.namespace));
        }
        return Ok(Move::Send(asks));
    }
    for (index, heard) in heard(news).iter().enumerate() {
        // Others may have put something into the namespace; it is theirs then.
        expect(heard, if index % 4 == 3 { &[204, 404, 409] } else { &[200, 204, 404] })?;
    }
    Ok(Move::Pass("the probes' tables, namespaces and objects are gone".to_owned()))
}
