//! The fence, and what the operator does before and after it.

use super::super::answers;
use super::super::answers::Execution;
use super::super::answers::Preflight;
use super::super::facts::Look;
use super::super::step::Step;
use super::super::turn::Move;
use super::super::turn::News;
use super::super::turn::Stop;
use super::super::turn::StopKind;
use super::super::turn::Turn;
use super::super::turn::expect;
use super::super::turn::heard;
use super::backup;
use super::ready::MATERIALIZED;
use super::ready::ask_all;
use super::ready::remedy;
use super::walk;

/// What only the operator can do.
pub(super) fn by_hand(step: Step, turn: &Turn<'_>, news: News) -> Result<Move, Stop> {
    if let News::ByHook(command) = news {
        return Ok(Move::Pass(format!("done by `{command}`")));
    }
    let words = match step {
        Step::Drain => {
            "drain every catalog writer that predates the migration fence, and start it again with a release that knows it; keep all writers on that release until the cutover is over"
        }
        Step::Quiesce => {
            "stop maintenance workers, recovery jobs, exports, diagnoses and writes of bridges to other catalogs"
        }
        Step::Restart => {
            "restart every node with RUSTFS_TABLE_CATALOG_BACKING=durable-strong, and keep writers out"
        }
        Step::ConfirmReaders => {
            "see that every catalog writer runs a release that reads snapshots of version 2"
        }
        _ => {
            "restart every node with RUSTFS_TABLE_CATALOG_STRONG_SNAPSHOT_V2=true and RUSTFS_TABLE_CATALOG_STRONG_SNAPSHOT_V2_FLEET_CONFIRMED=true"
        }
    };
    if step == Step::Drain {
        let releases = turn.facts.releases.join(", ");
        return Ok(Move::Hand(format!("{words} (the nodes' own releases: {releases})")));
    }
    Ok(Move::Hand(words.to_owned()))
}

/// Fences every warehouse and copies it into the strong snapshot, one after the other.
pub(super) fn materialize(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let names: Vec<_> = turn.orders.warehouses.iter().cloned().collect();
    if turn.round > 0 {
        let name = &names[turn.round - 1];
        let all = heard(news);
        let Some(heard) = all.first() else {
            return Err(Stop::unreadable("an answer is missing".to_owned()));
        };
        expect(heard, &[200])?;
        let it: Execution = answers::read(heard).map_err(Stop::unreadable)?;
        executed(name, &it)?;
        turn.facts.warehouses.entry(name.clone()).or_default().execution = Some(it);
    }
    match names.get(turn.round) {
        Some(name) => Ok(Move::Send(vec![turn.orders.at(name).migrate()])),
        None => {
            let each = turn.facts.warehouses.iter().filter_map(|(name, known)| {
                let it = known.execution.as_ref()?;
                Some(format!(
                    "{name}: {}, {} tables, fingerprint {}, snapshot {}",
                    it.status, it.table_count, it.source_fingerprint, it.target_snapshot_etag
                ))
            });
            Ok(Move::Pass(each.collect::<Vec<_>>().join("; ")))
        }
    }
}

/// Whether a migration did what it has to do.
pub(super) fn executed(name: &str, it: &Execution) -> Result<(), Stop> {
    let is_done = matches!(&*it.status, MATERIALIZED | "SNAPSHOT_ALREADY_MATERIALIZED");
    if !is_done || !it.object_backed_writes_fenced {
        let words = format!(
            "the migration of {name} ended as {}, fenced: {}",
            it.status, it.object_backed_writes_fenced
        );
        return Err(Stop::new(
            StopKind::Unexpected,
            words,
            "look at firedrill catalog status; cancel by firedrill catalog cancel",
        ));
    }
    Ok(())
}

/// The counts in which an execution and a preflight differ.
pub(super) fn differing(it: &Execution, preflight: &Preflight) -> Vec<String> {
    let pairs = [
        ("namespaces", it.namespace_count, preflight.namespace_count),
        ("tables", it.table_count, preflight.table_count),
        ("views", it.view_count, preflight.view_count),
        ("commits", it.commit_log_count, preflight.commit_log_count),
        ("idempotency records", it.idempotency_index_count, preflight.idempotency_index_count),
    ];
    let differing = pairs.iter().filter(|(_, one, other)| one != other);
    differing.map(|(what, one, other)| format!("{one} {what} copied, {other} counted")).collect()
}

/// Every warehouse is ready; everything in it is recorded as it stands under the fence.
pub(super) fn verify_ready(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    match turn.round {
        0 => return Ok(ask_all(turn)),
        1 => {
            for (name, heard) in turn.orders.warehouses.iter().zip(&heard(news)) {
                expect(heard, &[200])?;
                let it: Preflight = answers::read(heard).map_err(Stop::unreadable)?;
                let known = turn.facts.warehouses.entry(name.clone()).or_default();
                ready(name, &it, known.execution.as_ref())?;
                known.preflight = Some(it);
            }
            walk::begin(turn);
        }
        _ => walk::take(turn, &heard(news), &[Look::Pointer, Look::Load])?,
    }
    if let Some(next) = walk::next(turn) {
        return Ok(next);
    }
    let mut evidence = format!(
        "every warehouse is {MATERIALIZED}, without blockers, ready; recorded under the fence: {}",
        walk::summary(turn)
    );
    if let Some(backup) = &turn.facts.backup {
        let moved = backup::moved_since(turn, backup);
        // The probes came after it.
        let own = turn.orders.own_table().to_string();
        let moved = moved.iter().filter(|table| !table.ends_with(&own)).count();
        evidence += &match moved {
            0 => "; the backup has every table as it stands".to_owned(),
            count => format!(
                "; the backup is older than {count} tables: take another one now that writes are fenced, and keep both"
            ),
        };
    }
    Ok(Move::Pass(evidence))
}

fn ready(name: &str, it: &Preflight, execution: Option<&Execution>) -> Result<(), Stop> {
    let remedies: Vec<_> = it.blockers.iter().map(|blocker| remedy(blocker)).collect();
    let stop = |words: String| {
        let actions = it.recommended_actions.join(", ");
        let remedy = format!("{}; the server recommends: {actions}", remedies.join("; "));
        Err(Stop::new(StopKind::Blocked, words, remedy.trim_start_matches("; ")))
    };
    if !it.blockers.is_empty() {
        return stop(format!("{name} has blockers: {}", it.blockers.join(", ")));
    }
    if it.status != MATERIALIZED {
        return stop(format!("{name} is {}, not {MATERIALIZED}", it.status));
    }
    if !it.object_backed_writes_fenced {
        return stop(format!("{name} is not fenced"));
    }
    if !it.ready_to_enable_durable_strong {
        return stop(format!(
            "{name} is materialised but not ready: some table bucket is not in the snapshot, or differs from it"
        ));
    }
    let differing = execution.map(|execution| differing(execution, it)).unwrap_or_default();
    if !differing.is_empty() {
        let words = format!("{name} was copied and counted differently: {}", differing.join(", "));
        return Err(Stop::new(
            StopKind::Unexpected,
            words,
            "a writer of an older release may have changed the source: cancel, drain, and migrate again",
        ));
    }
    Ok(())
}
