//! What there is: the nodes, the warehouses, and everything in them.

use super::super::answers;
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
use super::walk;

/// Every node answers with the backing that the rehearsal begins from; the warehouses are table buckets, and a
/// cutover names all of them.
pub(super) fn identify(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let orders = turn.orders;
    let warehouses: Vec<_> = orders.warehouses.iter().cloned().collect();
    let first = warehouses.first().map_or("", String::as_str);
    if turn.round == 0 {
        let mut asks = Vec::new();
        for node in 0..orders.nodes {
            asks.push(orders.at(first).config().to(node));
            asks.push(routes::status().to(node));
        }
        asks.extend(warehouses.iter().map(|name| orders.at(name).bucket()));
        asks.push(routes::buckets());
        return Ok(Move::Send(asks));
    }
    let all = heard(news);
    if turn.round == 2 {
        return others(turn, &all);
    }
    let (nodes, rest) = all.split_at((2 * orders.nodes).min(all.len()));
    let mut backings = Vec::new();
    for pair in nodes.chunks(2) {
        let [config, status] = pair else { continue };
        expect(config, &[200])?;
        backings.push(answers::backing(config).to_owned());
        let is_ours = status.status() == 200 && status.told.body.is_object();
        turn.facts.has_own_routes = is_ours;
        let release = status.text("/release").map(str::to_owned);
        turn.facts.releases.push(release.unwrap_or_else(|| "not told".to_owned()));
        if let Some(reason) = status.text("/refused").or(status.text("/refusal")) {
            let words = format!("a node refuses to serve its catalog: {reason}");
            return Err(Stop::new(StopKind::Precondition, words, "remove the cause first"));
        }
    }
    let wanted = match orders.rehearsal {
        Rehearsal::SnapshotV2 => "durable-strong",
        _ => "object",
    };
    for (node, backing) in backings.iter().enumerate() {
        if backing != wanted {
            let words = format!("node {node} runs with the backing {backing}, not {wanted}");
            let remedy = match wanted {
                "object" => {
                    "this deployment was cut over already: there is nothing left to do here"
                }
                _ => "rehearse the cutover first",
            };
            return Err(Stop::new(StopKind::Precondition, words, remedy));
        }
    }
    turn.facts.backing = wanted.to_owned();
    for (name, bucket) in warehouses.iter().zip(rest) {
        expect(bucket, &[200])?;
        let says = |field: &str| bucket.told.body.get(field).and_then(serde_json::Value::as_bool);
        if says("enabled") == Some(false) || says("catalog-entry-present") == Some(false) {
            let words = format!("{name} is no whole table bucket: its catalog entry is missing");
            let remedy = "enable it again (PUT …/buckets/NAME), or leave it out";
            return Err(Stop::new(StopKind::Precondition, words, remedy));
        }
    }
    let listing = rest.get(warehouses.len());
    let listing = listing.filter(|listing| listing.status() == 200);
    let Some(listing) = listing else {
        let words = "these credentials may not list the buckets: whether every table bucket is named, the step verify-ready will tell";
        turn.facts.work.notes.push(words.to_owned());
        return others(turn, &[]);
    };
    let others: Vec<_> = answers::bucket_names(listing)
        .into_iter()
        .filter(|name| !orders.warehouses.contains(name))
        .collect();
    Ok(Move::Send(others.iter().map(|name| orders.at(name).bucket()).collect()))
}

/// Whether other buckets are table buckets too.
fn others(turn: &mut Turn<'_>, all: &[super::super::ask::Heard]) -> Result<Move, Stop> {
    let others = all.iter().filter(|bucket| {
        let enabled = bucket.told.body.get("enabled").and_then(serde_json::Value::as_bool);
        bucket.status() == 200 && enabled != Some(false)
    });
    let names = others.map(|it| it.text("/table-bucket").unwrap_or(&it.ask.path).to_owned());
    let names: Vec<_> = names.collect();
    if turn.orders.rehearsal == Rehearsal::Cutover && !names.is_empty() {
        let words = format!(
            "these table buckets are not named: {}; the snapshot is one for all of them",
            names.join(", ")
        );
        let remedy = "name every table bucket with --warehouse (and --confirm)";
        return Err(Stop::new(StopKind::Precondition, words, remedy));
    }
    let facts = &turn.facts;
    let own = if facts.has_own_routes { "" } else { "not " };
    let mut evidence = format!(
        "{} with the backing {}, release {}; the routes below /firedrill/v1 are {own}served",
        many(turn.orders.nodes, "node"),
        facts.backing,
        facts.releases.join(", ")
    );
    for note in &facts.work.notes {
        evidence += &format!("; {note}");
    }
    Ok(Move::Pass(evidence))
}

/// The operations that only an object-backed catalog has, and what becomes of them.
pub(super) const OBJECT_ONLY: [(&str, &str); 7] = [
    ("catalog/migration", "after the cutover there is nothing left to migrate: refused"),
    ("catalog/export, catalog/diagnostics", "refused, or read-only, by the server's release"),
    (
        "catalog/recovery",
        "answers what it would do, and repairs nothing: nothing can be unfinished",
    ),
    ("catalog/external, catalog/external/sync", "refused"),
    ("maintenance/config, maintenance/metadata", "refused"),
    ("maintenance/scheduler, maintenance/worker, maintenance/jobs", "refused"),
    ("page tokens of listings", "a token of before the cutover is refused after it"),
];

/// Everything in the warehouses, with its pointers; and which object-only operations are in use.
pub(super) fn inventory(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    if turn.round == 0 {
        walk::begin(turn);
    } else {
        let looks = [Look::Pointer, Look::External, Look::Maintenance];
        let looks = if turn.facts.backing == "object" { &looks[..] } else { &looks[..1] };
        walk::take(turn, &heard(news), looks)?;
    }
    if let Some(next) = walk::next(turn) {
        return Ok(next);
    }
    let mut evidence = walk::summary(turn);
    let tables = turn.facts.warehouses.values().flat_map(|it| it.tables.values());
    let in_use = tables.filter(|table| !table.object_only.is_empty());
    let in_use: Vec<_> = in_use
        .map(|table| format!("{} has {}", table.name, table.object_only.join(", ")))
        .collect();
    if turn.facts.backing == "object" {
        let operations = OBJECT_ONLY.map(|(routes, becomes)| format!("{routes}: {becomes}"));
        evidence += &format!(
            ". In use of what only an object-backed catalog does: {}. What becomes of each such operation: {}",
            if in_use.is_empty() { "nothing".to_owned() } else { in_use.join("; ") },
            operations.join("; ")
        );
    }
    if let Some(table) = &turn.orders.table {
        let has = |it: &super::super::facts::Warehouse| it.tables.contains_key(&table.to_string());
        if !turn.facts.warehouses.values().any(has) {
            let words = format!("no warehouse has the table {table}");
            return Err(Stop::new(StopKind::Precondition, words, "name one that is there"));
        }
    }
    Ok(Move::Pass(evidence))
}
