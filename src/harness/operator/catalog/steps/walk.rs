//! Going through the namespaces, tables and views of the warehouses, a batch of requests a round.

use super::super::answers;
use super::super::answers::Listed;
use super::super::answers::Pointer;
use super::super::ask::Ask;
use super::super::ask::Heard;
use super::super::facts::Item;
use super::super::facts::Look;
use super::super::facts::Table;
use super::super::facts::View;
use super::super::facts::Warehouse;
use super::super::facts::canonical_digest;
use super::super::orders::TableName;
use super::super::routes::Named;
use super::super::turn::Move;
use super::super::turn::Stop;
use super::super::turn::Turn;
use super::super::turn::expect;
use super::super::turn::many;

/// Requests of one round.
const BATCH: usize = 64;

/// Forgets what is known of the warehouses' contents, and begins to look for it.
pub(super) fn begin(turn: &mut Turn<'_>) {
    for name in &turn.orders.warehouses {
        let known = turn.facts.warehouses.entry(name.clone()).or_default();
        *known = Warehouse {
            preflight: known.preflight.take(),
            execution: known.execution.take(),
            was_fenced: known.was_fenced,
            ..Warehouse::default()
        };
        turn.facts.work.pending.push_back(Item::namespace(Look::Children, name, &[]));
    }
}

/// The next batch of requests; `None` when nothing is left to look at.
pub(super) fn next(turn: &mut Turn<'_>) -> Option<Move> {
    let work = &mut turn.facts.work;
    let count = work.pending.len().min(BATCH);
    if count == 0 {
        return None;
    }
    work.sent = work.pending.drain(..count).collect();
    Some(Move::Send(work.sent.iter().map(|item| ask(turn.orders, item)).collect()))
}

/// The request that looks at `item`.
pub(super) fn ask(orders: &super::super::orders::Orders, item: &Item) -> Ask {
    let at = orders.at(&item.warehouse);
    let TableName { namespace, name } = &item.name;
    let table = Named { namespace, name };
    let ask = match item.look {
        Look::Children => at.namespaces(namespace, &item.page),
        Look::Tables => at.tables(namespace, &item.page),
        Look::Views => at.views(namespace, &item.page),
        Look::Pointer => at.pointer(table),
        Look::Load => at.load(table),
        Look::External => at.external(table),
        Look::Maintenance => at.maintenance_config(table),
        Look::View => at.load_view(table),
        Look::Diagnose => at.diagnostics(table),
        Look::Recover => at.recovery(table),
    };
    ask.to(item.node)
}

/// Takes the answers to the last batch. What is found is looked at in the ways of `of_tables`.
///
/// # Errors
///
/// An answer that is none.
pub(super) fn take(turn: &mut Turn<'_>, all: &[Heard], of_tables: &[Look]) -> Result<(), Stop> {
    let sent = std::mem::take(&mut turn.facts.work.sent);
    for (item, heard) in sent.iter().zip(all) {
        match item.look {
            Look::Children | Look::Tables | Look::Views => listing(turn, item, heard, of_tables)?,
            _ => single(turn, item, heard)?,
        }
    }
    Ok(())
}

fn listing(
    turn: &mut Turn<'_>,
    item: &Item,
    heard: &Heard,
    of_tables: &[Look],
) -> Result<(), Stop> {
    // A namespace may be dropped while it is looked at.
    if heard.status() == 404 && !item.name.namespace.is_empty() {
        return Ok(());
    }
    expect(heard, &[200])?;
    let work = &mut turn.facts.work;
    let next = if item.look == Look::Children {
        let (found, next) =
            answers::page::<Vec<String>>(heard, "namespaces").map_err(Stop::unreadable)?;
        for namespace in found {
            for look in [Look::Children, Look::Tables, Look::Views] {
                work.pending.push_back(Item::namespace(look, &item.warehouse, &namespace));
            }
            let known = turn.facts.warehouses.entry(item.warehouse.clone()).or_default();
            known.namespaces.push(namespace);
        }
        next
    } else {
        let (found, next) =
            answers::page::<Listed>(heard, "identifiers").map_err(Stop::unreadable)?;
        for listed in found {
            let name = TableName { namespace: listed.namespace, name: listed.name };
            let looks = if item.look == Look::Views { &[Look::View][..] } else { of_tables };
            let items = looks.iter().map(|look| Item::named(*look, &item.warehouse, &name));
            work.pending.extend(items);
        }
        next
    };
    if let Some(page) = next {
        work.pending.push_back(Item { page, ..item.clone() });
    }
    Ok(())
}

fn single(turn: &mut Turn<'_>, item: &Item, heard: &Heard) -> Result<(), Stop> {
    let known = turn.facts.warehouses.entry(item.warehouse.clone()).or_default();
    let key = item.name.to_string();
    match item.look {
        // A table may be dropped while it is looked at.
        Look::Pointer | Look::Load | Look::View if heard.status() == 404 => {}
        Look::Pointer => {
            expect(heard, &[200])?;
            let pointer: Pointer = answers::read(heard).map_err(Stop::unreadable)?;
            let name = item.name.clone();
            let table = Table { name, pointer, metadata_sha256: None, object_only: Vec::new() };
            known.tables.insert(key, table);
        }
        Look::Load => {
            expect(heard, &[200])?;
            if let Some(table) = known.tables.get_mut(&key) {
                table.metadata_sha256 = Some(metadata_digest(heard));
            }
        }
        Look::View => {
            expect(heard, &[200])?;
            let location = heard.text("/metadata-location").unwrap_or_default().to_owned();
            let view = View { name: item.name.clone(), metadata_location: location };
            known.views.insert(key, view);
        }
        Look::External if heard.status() == 200 => {
            // Without a bridge some servers answer an empty one.
            let is_set = ["/bridge", "/config", "/external-catalog", "/external_catalog_uri"];
            let is_set = is_set
                .iter()
                .any(|at| heard.told.body.pointer(at).is_some_and(|value| !value.is_null()));
            if let Some(table) = known.tables.get_mut(&key).filter(|_| is_set) {
                table.object_only.push("a bridge to another catalog".to_owned());
            }
        }
        Look::Maintenance if heard.status() == 200 => {
            let is_on = ["/background-enabled", "/config/background-enabled"];
            let is_on = is_on.iter().any(|at| heard.told.body.pointer(at) == Some(&true.into()));
            if let Some(table) = known.tables.get_mut(&key).filter(|_| is_on) {
                table.object_only.push("background maintenance".to_owned());
            }
        }
        _ => {}
    }
    Ok(())
}

/// SHA-256 of the metadata in the answer to a load.
pub(super) fn metadata_digest(heard: &Heard) -> String {
    canonical_digest(heard.told.body.get("metadata").unwrap_or(&serde_json::Value::Null))
}

/// What the warehouses hold, in words.
pub(super) fn summary(turn: &Turn<'_>) -> String {
    let count = |word: &str, of: fn(&Warehouse) -> usize| {
        many(turn.facts.warehouses.values().map(of).sum::<usize>(), word)
    };
    format!(
        "{}, {}, {} in {}",
        count("namespace", |it| it.namespaces.len()),
        count("table", |it| it.tables.len()),
        count("view", |it| it.views.len()),
        many(turn.facts.warehouses.len(), "warehouse"),
    )
}
