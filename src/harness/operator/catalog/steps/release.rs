//! A migration that is tried and taken back.

use super::super::answers;
use super::super::answers::Execution;
use super::super::answers::Preflight;
use super::super::ask::Heard;
use super::super::routes;
use super::super::turn::Move;
use super::super::turn::News;
use super::super::turn::Stop;
use super::super::turn::StopKind;
use super::super::turn::Turn;
use super::super::turn::expect;
use super::super::turn::heard;
use super::fence;
use super::probe::named;
use super::ready::READY;
use super::ready::remedy;
use super::recovery::at;
use super::recovery::pointer;
use super::recovery::subject;
use super::recovery::unmoved;

/// No blocker.
pub(super) fn dry_run(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let subject = subject(turn)?;
    if turn.round == 0 {
        return Ok(Move::Send(vec![at(turn, &subject).preflight()]));
    }
    let it = preflight(heard(news).first())?;
    if let Some(blocker) = it.blockers.first() {
        let words = format!("{} is blocked: {}", subject.warehouse, it.blockers.join(", "));
        return Err(Stop::new(StopKind::Blocked, words, remedy(blocker)));
    }
    if it.status != READY {
        let words = format!("{} is {}, not {READY}", subject.warehouse, it.status);
        return Err(Stop::new(
            StopKind::Precondition,
            words,
            "finish or cancel the migration first",
        ));
    }
    Ok(Move::Pass(format!(
        "{}, {} tables, {} commits",
        it.status, it.table_count, it.commit_log_count
    )))
}

fn preflight(heard: Option<&Heard>) -> Result<Preflight, Stop> {
    let heard = heard.ok_or_else(|| Stop::unreadable("an answer is missing".to_owned()))?;
    expect(heard, &[200])?;
    answers::read(heard).map_err(Stop::unreadable)
}

/// The warehouse is fenced and copied; writes are refused, reads are not; then it is released.
pub(super) fn materialize(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let subject = subject(turn)?;
    let (at, table) = (at(turn, &subject), named(&subject.table));
    let commit = |what: &str| {
        let id = turn.orders.commit_id(what);
        at.commit(table, routes::set_property("firedrill.rehearsal", what, &id, None))
    };
    if turn.round == 0 {
        return Ok(Move::Send(vec![at.pointer(table), at.migrate()]));
    }
    let all = heard(news);
    match turn.round {
        1 => {
            let [before, migrate] = &*all else {
                return Err(Stop::unreadable("answers are missing".to_owned()));
            };
            turn.facts.work.kept = serde_json::json!(pointer(before)?);
            fenced(migrate, &subject.warehouse)?;
            Ok(Move::Send(vec![
                at.preflight(),
                commit("fenced"),
                at.load(table),
                at.pointer(table),
            ]))
        }
        2 => {
            let [counted, commit, load, after] = &*all else {
                return Err(Stop::unreadable("answers are missing".to_owned()));
            };
            let counted = preflight(Some(counted))?;
            if commit.status() == 200 {
                return Err(Stop::broken("a commit under the fence was acknowledged"));
            }
            expect(commit, &[409])?;
            expect(load, &[200])?;
            let before = serde_json::from_value(turn.facts.work.kept.clone()).unwrap_or_default();
            unmoved("a migration", &before, &pointer(after)?)?;
            if !counted.object_backed_writes_fenced {
                return Err(Stop::broken("a materialised warehouse is not fenced"));
            }
            let words = format!(
                "{}: a commit was refused, a load was not; ready to enable: {}",
                counted.status, counted.ready_to_enable_durable_strong
            );
            turn.facts.work.notes.push(words);
            Ok(Move::Send(vec![at.cancel(), at.preflight()]))
        }
        _ => {
            let [cancel, after] = &*all else {
                return Err(Stop::unreadable("answers are missing".to_owned()));
            };
            released(cancel, after, &subject.warehouse)?;
            let notes = turn.facts.work.notes.join("; ");
            Ok(Move::Pass(format!("{notes}; then it was released, and is {READY} again")))
        }
    }
}

/// Whether a migration did what it has to.
pub(super) fn fenced(migrate: &Heard, warehouse: &str) -> Result<Execution, Stop> {
    expect(migrate, &[200])?;
    let it: Execution = answers::read(migrate).map_err(Stop::unreadable)?;
    fence::executed(warehouse, &it)?;
    Ok(it)
}

/// Whether a cancel did what it has to.
pub(super) fn released(cancel: &Heard, after: &Heard, warehouse: &str) -> Result<(), Stop> {
    let fenced = |stop: Stop| Stop {
        words: format!("{} (the warehouse {warehouse} is still fenced)", stop.words),
        ..stop
    };
    expect(cancel, &[200]).map_err(fenced)?;
    let status = cancel.text("/status").unwrap_or_default();
    let it = preflight(Some(after))?;
    if status != "FENCE_RELEASED" || it.object_backed_writes_fenced || it.status != READY {
        let words = format!("a cancel ended as {status}, and {warehouse} is {}", it.status);
        return Err(Stop::new(StopKind::Unexpected, words, "look at firedrill catalog status"));
    }
    Ok(())
}
