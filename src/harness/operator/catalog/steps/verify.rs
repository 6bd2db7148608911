//! What is verified after the restart, before any writer is admitted: config, loads, idempotency.

use serde_json::Value;

use super::super::answers;
use super::super::answers::Pointer;
use super::super::ask::Heard;
use super::super::facts::Item;
use super::super::facts::Look;
use super::super::orders::Rehearsal;
use super::super::routes;
use super::super::turn::Move;
use super::super::turn::News;
use super::super::turn::Stop;
use super::super::turn::StopKind;
use super::super::turn::Turn;
use super::super::turn::expect;
use super::super::turn::heard;
use super::super::turn::many;
use super::probe::named;
use super::walk;

/// What only a durable strong catalog offers.
pub(super) const STRONG_ONLY: [&str; 2] =
    ["POST /v1/{prefix}/namespaces/{namespace}/properties", "POST /v1/{prefix}/tables/rename"];

/// Every node says that it is durable-strong.
pub(super) fn config(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let orders = turn.orders;
    // A node that refuses to serve says so only where it is asked how it stands.
    let tells = turn.facts.has_own_routes;
    if turn.round == 0 {
        let first = orders.warehouses.first().map_or("", String::as_str);
        let mut asks = Vec::new();
        for node in 0..orders.nodes {
            let ask = if tells { routes::status() } else { orders.at(first).config() };
            asks.push(ask.to(node).waiting());
        }
        return Ok(Move::Send(asks));
    }
    if turn.round == 1 && tells {
        for (node, status) in heard(news).iter().enumerate() {
            expect(status, &[200])?;
            if let Some(reason) = status.text("/refused").or(status.text("/refusal")) {
                let words = format!("node {node} refuses to serve its catalog: {reason}");
                return Err(Stop::broken(words));
            }
            turn.facts.work.count += u64::from(is_closed(status) == Some(true));
        }
        let first = orders.warehouses.first().map_or("", String::as_str);
        let nodes = 0..orders.nodes;
        return Ok(Move::Send(nodes.map(|node| orders.at(first).config().to(node)).collect()));
    }
    for (node, config) in heard(news).iter().enumerate() {
        expect(config, &[200])?;
        let backing = answers::backing(config);
        if backing != "durable-strong" {
            let words = format!("node {node} still runs with the backing {backing}");
            let remedy = "restart it with RUSTFS_TABLE_CATALOG_BACKING=durable-strong; never let it serve beside the others";
            return Err(Stop::new(StopKind::Precondition, words, remedy));
        }
        if let Some(missing) = STRONG_ONLY.iter().find(|it| !answers::offers(config, it)) {
            let words = format!("node {node} does not offer {missing}");
            return Err(Stop::new(
                StopKind::Unexpected,
                words,
                "is it the release that you meant?",
            ));
        }
    }
    let gate = match (tells, turn.facts.work.count) {
        (false, _) => "whether they are closed to writers they do not tell".to_owned(),
        (true, closed) => format!("{closed} of {} are closed to writers", orders.nodes),
    };
    Ok(Move::Pass(format!("durable-strong: {}; {gate}", many(orders.nodes, "node"))))
}

/// Whether a node says that it is closed to writers.
pub(super) fn is_closed(status: &Heard) -> Option<bool> {
    status.told.body.get("closed_to_writers").and_then(Value::as_bool)
}

/// Every table and view is where it was.
pub(super) fn loads(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let nodes = turn.orders.nodes;
    if turn.round == 0 {
        let mut items = Vec::new();
        for (warehouse, known) in &turn.facts.warehouses {
            for (index, table) in known.tables.values().enumerate() {
                let pointer = Item::named(Look::Pointer, warehouse, &table.name);
                items.extend((0..nodes).map(|node| pointer.clone().at(node)));
                let load = Item::named(Look::Load, warehouse, &table.name);
                items.push(load.at(index % nodes));
            }
            for (index, view) in known.views.values().enumerate() {
                items.push(Item::named(Look::View, warehouse, &view.name).at(index % nodes));
            }
        }
        turn.facts.work.pending = items.into();
    } else {
        let sent = std::mem::take(&mut turn.facts.work.sent);
        for (item, heard) in sent.iter().zip(&heard(news)) {
            same(turn, item, heard)?;
            turn.facts.work.count += 1;
        }
    }
    match walk::next(turn) {
        Some(next) => Ok(next),
        None if turn.facts.work.count == 0 => Ok(Move::Skip("there is nothing to load".to_owned())),
        None => {
            let (count, what) = (turn.facts.work.count, walk::summary(turn));
            let nodes = many(nodes, "node");
            Ok(Move::Pass(format!("{count} answers are as recorded: {what}, at {nodes}")))
        }
    }
}

/// Whether a table or view is as it was recorded.
fn same(turn: &Turn<'_>, item: &Item, heard: &Heard) -> Result<(), Stop> {
    let (name, node) = (&item.name, item.node);
    if heard.status() == 404 {
        return Err(Stop::broken(format!("{name} is not there any more (node {node})")));
    }
    expect(heard, &[200])?;
    let known = &turn.facts.warehouses[&item.warehouse];
    let key = name.to_string();
    // Only a cutover froze what was recorded; writers went on otherwise.
    let is_frozen = turn.orders.rehearsal == Rehearsal::Cutover;
    match item.look {
        Look::Pointer => {
            let now: Pointer = answers::read(heard).map_err(Stop::unreadable)?;
            let before = &known.tables[&key].pointer;
            let is_same = now.metadata_location == before.metadata_location
                && now.version_token == before.version_token
                && now.generation == before.generation;
            let is_later = !is_frozen && now.generation > before.generation;
            if !is_same && !is_later {
                let words = format!(
                    "{name} was at generation {} ({}, {}), node {node} has {} ({}, {})",
                    before.generation,
                    before.version_token,
                    before.metadata_location,
                    now.generation,
                    now.version_token,
                    now.metadata_location
                );
                return Err(Stop::broken(words));
            }
        }
        Look::Load => {
            let before = &known.tables[&key];
            let digest = walk::metadata_digest(heard);
            let is_same = before.metadata_sha256.as_ref().is_none_or(|before| *before == digest);
            if is_frozen && !is_same {
                return Err(Stop::broken(format!(
                    "{name} loads with other metadata (node {node})"
                )));
            }
        }
        Look::View => {
            let before = &known.views[&key].metadata_location;
            let now = heard.text("/metadata-location").unwrap_or_default();
            if is_frozen && now != before {
                let words = format!("the view {name} was at {before}, node {node} has {now}");
                return Err(Stop::broken(words));
            }
        }
        _ => {}
    }
    Ok(())
}

/// A commit of before the cutover, sent again, is answered as before and writes nothing.
pub(super) fn idempotency(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    if turn.round == 0 {
        if turn.facts.probes.is_empty() {
            return Err(Stop::new(
                StopKind::Operator,
                "there is no probe whose commit could be sent again",
                "send a commit of before the cutover again yourself (200, the same token and generation), then say --done verify-idempotency",
            ));
        }
        let mut asks = Vec::new();
        for (warehouse, probe) in &turn.facts.probes {
            let at = turn.orders.at(warehouse);
            asks.push(routes::status());
            asks.push(at.commit(named(&probe.table), probe.commit.clone()));
            asks.push(at.pointer(named(&probe.table)));
            asks.push(routes::status());
        }
        return Ok(Move::Send(asks));
    }
    let mut snapshots = "the server does not tell its snapshot's ETag".to_owned();
    for ((warehouse, probe), all) in turn.facts.probes.iter().zip(heard(news).chunks(4)) {
        let [before, replay, pointer, after] = all else { continue };
        if replay.status() == 503 {
            let words =
                format!("{warehouse} refuses even a commit that it has: {}", replay.told.words);
            let remedy = "this server verifies nothing while it is closed: verify by hand, then say --done verify-idempotency";
            return Err(Stop::new(StopKind::Unexpected, words, remedy));
        }
        if replay.status() == 409 {
            let words = format!(
                "{warehouse} takes a commit that it has for another: {}",
                replay.told.words
            );
            return Err(Stop::broken(words));
        }
        expect(replay, &[200])?;
        expect(pointer, &[200])?;
        let now: Pointer = answers::read(pointer).map_err(Stop::unreadable)?;
        let then = &probe.pointer;
        let answered = (replay.text("/version-token"), replay.number("/generation"));
        if answered != (Some(&*then.version_token), Some(then.generation))
            || now.version_token != then.version_token
        {
            return Err(Stop::broken(format!(
                "a commit of before, sent again to {warehouse}, was answered {answered:?}, and the table is at {} ({}); it was at {} ({})",
                now.generation, now.version_token, then.generation, then.version_token
            )));
        }
        match (snapshot_etag(before), snapshot_etag(after)) {
            (Some(before), Some(after)) if before != after => {
                let words =
                    format!("a commit of before, sent again to {warehouse}, wrote a snapshot");
                return Err(Stop::broken(words));
            }
            (Some(etag), Some(_)) => snapshots = format!("the snapshot is still {etag}"),
            _ => {}
        }
    }
    let count = many(turn.facts.probes.len(), "commit");
    Ok(Move::Pass(format!("answered as before: {count} of before; {snapshots}")))
}

/// The ETag of the snapshot, where a node tells it.
fn snapshot_etag(status: &Heard) -> Option<&str> {
    status.text("/snapshot/etag").or(status.text("/snapshot_etag"))
}
