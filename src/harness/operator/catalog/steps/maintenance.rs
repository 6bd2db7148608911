//! Maintenance jobs, on servers that have them.

use super::super::ask::Ask;
use super::super::ask::Heard;
use super::super::routes;
use super::super::turn::Move;
use super::super::turn::News;
use super::super::turn::Stop;
use super::super::turn::StopKind;
use super::super::turn::Turn;
use super::super::turn::expect;
use super::super::turn::heard;
use super::super::turn::is_not_served;
use super::probe::named;
use super::recovery::at;
use super::recovery::pointer;
use super::recovery::subject;
use super::recovery::unmoved;

/// Why these steps count for nothing on a server without maintenance.
const NONE: &str = "this server does no table maintenance";

fn job(heard: &Heard) -> (&str, &str) {
    let text = |at: &str, other: &str| heard.text(at).or(heard.text(other)).unwrap_or_default();
    (text("/report/job/job_id", "/job/job_id"), text("/report/job/status", "/job/status"))
}

fn unexpected(words: String) -> Stop {
    Stop::new(StopKind::Unexpected, words, "look at the table's maintenance jobs")
}

/// One job is queued, and a second call finds the same.
pub(super) fn queue(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let subject = subject(turn)?;
    let (at, table) = (at(turn, &subject), named(&subject.table));
    let all = heard(news);
    match turn.round {
        0 => Ok(Move::Send(vec![at.maintenance_config(table)])),
        1 if all.first().is_none_or(is_not_served) => Ok(Move::Skip(NONE.to_owned())),
        1 => Ok(Move::Send(vec![
            at.set_maintenance(table, true, 60),
            at.schedule(table, "firedrill"),
            at.schedule(table, "firedrill"),
        ])),
        _ => {
            let [set, first, second] = &*all else {
                return Err(Stop::unreadable("answers are missing".to_owned()));
            };
            expect(set, &[200])?;
            expect(first, &[200])?;
            expect(second, &[200])?;
            let ((id, status), (again, _)) = (job(first), job(second));
            if status != "QUEUED" || id != again {
                return Err(unexpected(format!("job {id} is {status}, then it is job {again}")));
            }
            turn.facts.stressed.insert("maintenance_job".to_owned(), id.into());
            Ok(Move::Pass(format!("job {id} is queued once")))
        }
    }
}

fn has_job(turn: &Turn<'_>) -> bool {
    turn.facts.stressed.contains_key("maintenance_job")
}

/// Of two workers one has the job.
pub(super) fn claim(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    if !has_job(turn) {
        return Ok(Move::Skip(NONE.to_owned()));
    }
    let subject = subject(turn)?;
    let (at, table) = (at(turn, &subject), named(&subject.table));
    if turn.round == 0 {
        let workers = ["w1", "w2"];
        return Ok(Move::Send(workers.map(|worker| at.work(table, worker)).into()));
    }
    let all = heard(news);
    for heard in &all {
        expect(heard, &[200, 409])?;
    }
    let owners = all.iter().filter(|it| matches!(job(it).1, "RUNNING" | "SUCCESSFUL")).count();
    if owners != 1 {
        return Err(Stop::broken(format!("{owners} of two workers have the job")));
    }
    Ok(Move::Pass("of two workers one has the job".to_owned()))
}

/// A lease that ran out is taken over. A plain server's clock cannot be moved: it has to be waited for.
pub(super) fn take_over(turn: &mut Turn<'_>, _: News) -> Result<Move, Stop> {
    if !has_job(turn) {
        return Ok(Move::Skip(NONE.to_owned()));
    }
    let words = "it takes a worker that dies with its job: kill one in the middle, and look at its job after the lease";
    Ok(Move::Skip(words.to_owned()))
}

/// A plan of before a commit does nothing.
pub(super) fn stale_plan(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    if !has_job(turn) {
        return Ok(Move::Skip(NONE.to_owned()));
    }
    let mut subject = subject(turn)?;
    let (at, table) = (at(turn, &subject), named(&subject.table));
    if turn.round == 0 {
        let id = turn.orders.commit_id("stale-plan");
        let body = routes::set_property("firedrill.rehearsal", "stale-plan", &id, None);
        let asks: Vec<Ask> = vec![
            at.schedule(table, "firedrill"),
            at.commit(table, body),
            at.pointer(table),
            at.work(table, "w1"),
            at.pointer(table),
        ];
        return Ok(Move::Send(asks));
    }
    let all = heard(news);
    let [queued, commit, before, work, after] = &*all else {
        return Err(Stop::unreadable("answers are missing".to_owned()));
    };
    expect(queued, &[200])?;
    expect(commit, &[200])?;
    let after = pointer(after)?;
    unmoved("a stale plan", &pointer(before)?, &after)?;
    expect(work, &[409])?;
    subject.pointer = after;
    turn.facts.subject = Some(subject);
    Ok(Move::Pass("the worker was refused, nothing moved".to_owned()))
}
