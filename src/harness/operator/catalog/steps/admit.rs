//! Admitting writers, and the first writes after it.

use super::super::answers;
use super::super::answers::Pointer;
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
use super::verify::is_closed;

/// Opens every node to writers, where there is a switch; else the operator does. The first node that refuses leaves the
/// ones after it closed.
pub(super) fn admit(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    if let News::ByHook(command) = &news {
        return Ok(Move::Pass(format!("done by `{command}`")));
    }
    let nodes = turn.orders.nodes;
    if !turn.facts.has_own_routes {
        let words = "this server has no switch for it: let the writers in by your own means";
        return Ok(Move::Hand(words.to_owned()));
    }
    let answers = heard(news);
    match turn.round {
        round if round <= nodes => {
            for heard in &answers {
                expect(heard, &[200, 202, 204])?;
            }
            Ok(Move::Send(match round {
                round if round < nodes => vec![routes::admit().to(round)],
                _ => (0..nodes).map(|node| routes::status().to(node)).collect(),
            }))
        }
        _ => {
            for (node, status) in answers.iter().enumerate() {
                expect(status, &[200])?;
                if is_closed(status) != Some(false) {
                    let words = format!("node {node} is still closed to writers");
                    return Err(Stop::new(StopKind::Unexpected, words, "see its log"));
                }
            }
            Ok(Move::Pass(format!("open to writers: {}", many(nodes, "node"))))
        }
    }
}

/// A commit lands, and every node shows it.
pub(super) fn verify_writes(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let nodes = turn.orders.nodes;
    if turn.round == 0 {
        if turn.facts.probes.is_empty() {
            let words = "there is no probe to write to: look at a writer's own first commit";
            return Ok(Move::Skip(words.to_owned()));
        }
        let mut asks = Vec::new();
        for (warehouse, probe) in &turn.facts.probes {
            let at = turn.orders.at(warehouse);
            let id = turn.orders.commit_id("after");
            let body = routes::set_property("firedrill.rehearsal", "after", &id, None);
            asks.push(at.commit(named(&probe.table), body));
            asks.extend((0..nodes).map(|node| at.pointer(named(&probe.table)).to(node)));
        }
        return Ok(Move::Send(asks));
    }
    let all = heard(news);
    for ((warehouse, probe), answers) in turn.facts.probes.iter().zip(all.chunks(1 + nodes)) {
        let [commit, pointers @ ..] = answers else { continue };
        expect(commit, &[200])?;
        let token = commit.text("/version-token").unwrap_or_default();
        for (node, pointer) in pointers.iter().enumerate() {
            expect(pointer, &[200])?;
            let now: Pointer = answers::read(pointer).map_err(Stop::unreadable)?;
            if now.version_token != token || now.generation != probe.pointer.generation + 1 {
                return Err(Stop::broken(format!(
                    "a commit to {warehouse}/{} was acknowledged with {token}; node {node} has {} at generation {}, {} is expected",
                    probe.table,
                    now.version_token,
                    now.generation,
                    probe.pointer.generation + 1
                )));
            }
        }
    }
    let (count, nodes) = (many(turn.facts.probes.len(), "commit"), many(nodes, "node"));
    Ok(Move::Pass(format!("landed: {count}, shown by {nodes}")))
}

/// A namespace is made and dropped: an effective write that needs no object.
pub(super) fn controlled_write(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let first = turn.orders.warehouses.first().map_or("", String::as_str);
    let at = turn.orders.at(first);
    let namespace = vec![turn.orders.own_table().name];
    if turn.round == 0 {
        return Ok(Move::Send(vec![
            at.create_namespace(&namespace),
            at.drop_namespace(&namespace),
        ]));
    }
    for (index, heard) in heard(news).iter().enumerate() {
        expect(heard, if index == 0 { &[200, 409] } else { &[204] })?;
    }
    Ok(Move::Pass(format!("the namespace {} was made and dropped in {first}", namespace[0])))
}

/// The data plane serves, which it does with both gates from version 2 only.
pub(super) fn verify_v2(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let orders = turn.orders;
    if turn.round == 0 {
        let mut asks = Vec::new();
        for node in 0..orders.nodes {
            asks.push(routes::status().to(node));
            let key = orders.outside_key();
            let names = orders.warehouses.iter();
            asks.extend(names.map(|name| orders.at(name).object("HEAD", &key).to(node)));
        }
        return Ok(Move::Send(asks));
    }
    let mut told = "the nodes do not tell the snapshot's version".to_owned();
    for (node, all) in heard(news).chunks(1 + orders.warehouses.len()).enumerate() {
        let [status, objects @ ..] = all else { continue };
        let version = status.number("/snapshot/version").or(status.number("/snapshot_version"));
        if let Some(version) = version {
            if version != 2 {
                let words = format!("node {node} has a snapshot of version {version}");
                let remedy = "are both gates on, at every node? was the write an effective one?";
                return Err(Stop::new(StopKind::Unexpected, words, remedy));
            }
            told = "the nodes say that it is version 2".to_owned();
        }
        for object in objects {
            if object.status() == 403 {
                let words = format!("node {node} refuses the data plane of {}", object.ask.path);
                let remedy = "with both gates on that is so until the snapshot is version 2: repeat controlled-write";
                return Err(Stop::new(StopKind::Unexpected, words, remedy));
            }
            expect(object, &[200, 404])?;
        }
    }
    Ok(Move::Pass(format!("the data plane of every warehouse serves at every node; {told}")))
}
