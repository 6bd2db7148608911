//! The scale-and-fault rehearsal: what holds while many write.

use serde_json::Value;
use serde_json::json;

use super::super::ask::Ask;
use super::super::ask::Outcome;
use super::super::facts::Subject;
use super::super::stress::Cohorts;
use super::super::stress::Stress;
use super::super::stress::Stressed;
use super::super::stress::Under;
use super::super::turn::Move;
use super::super::turn::News;
use super::super::turn::Stop;
use super::super::turn::StopKind;
use super::super::turn::Turn;
use super::super::turn::expect;
use super::probe::named;
use super::recovery::STALE_TOKEN;
use super::recovery::at;
use super::recovery::pointer;
use super::recovery::subject;
use super::release;

/// How often a migration under load is asked for: a commit that is under way when it looks is a blocker.
const ATTEMPTS: usize = 20;

/// Of the commits from one base exactly one lands.
pub(super) fn cohorts(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let subject = subject(turn)?;
    let News::Stressed(stressed) = news else {
        return Ok(Move::Stress(Box::new(Stress::Cohorts(Cohorts {
            subject,
            writers: turn.orders.writers,
            iterations: turn.orders.iterations,
        }))));
    };
    let before = pointer(&stressed.before)?.generation;
    let mut conflicts = 0;
    for (round, commits) in stressed.commits.iter().enumerate() {
        let winners = commits.iter().filter(|it| it.told.outcome == Outcome::Done).count();
        for commit in commits {
            expect(commit, &[200, 409])?;
        }
        conflicts += commits.len() - winners;
        if winners != 1 {
            let words = format!(
                "in round {round} {winners} of {} commits from one base were acknowledged",
                commits.len()
            );
            return Err(Stop::broken(words));
        }
    }
    let now = pointer(&stressed.after)?;
    let won = stressed.commits.len() as u64;
    if now.generation != before + won {
        let words = format!(
            "{won} commits were acknowledged, generation {before} became {}",
            now.generation
        );
        return Err(Stop::broken(words));
    }
    let winner = stressed.commits.last().and_then(|commits| {
        let winner = commits.iter().find(|it| it.told.outcome == Outcome::Done)?;
        winner.text("/version-token").map(str::to_owned)
    });
    if winner.as_ref().is_some_and(|token| *token != now.version_token) {
        return Err(Stop::broken("the pointer is not the last winner's"));
    }
    note(
        turn,
        "cohorts",
        json!({"rounds": won, "writers": turn.orders.writers, "conflicts": conflicts}),
    );
    turn.facts.subject = Some(Subject { pointer: now, ..subject });
    Ok(Move::Pass(format!("{won} rounds: one winner each, {conflicts} conflicts, no other answer")))
}

fn note(turn: &mut Turn<'_>, what: &str, value: Value) {
    turn.facts.stressed.insert(what.to_owned(), value);
}

/// Sends `asks` while writers commit.
fn under(turn: &Turn<'_>, subject: Subject, what: &str, asks: Vec<Ask>) -> Move {
    Move::Stress(Box::new(Stress::Under(Under {
        subject,
        writers: turn.orders.writers,
        what: what.to_owned(),
        asks,
        attempts: 1,
        probe: None,
    })))
}

/// What writers were told is what the table has: every acknowledged property is there, no refused one is, and the
/// generation advanced by the acknowledged ones (and `others`).
fn tally(
    turn: &mut Turn<'_>,
    what: &str,
    stressed: &Stressed,
    others: u64,
) -> Result<String, Stop> {
    let mut subject = subject(turn)?;
    let (before, now) = (pointer(&stressed.before)?, pointer(&stressed.after)?);
    expect(&stressed.loaded, &[200])?;
    let properties = stressed.loaded.told.body.pointer("/metadata/properties");
    let (mut done, mut refused) = (0, 0);
    for commit in stressed.commits.iter().flatten() {
        let updates = match &commit.ask.body {
            super::super::ask::Body::Json(body) => body.pointer("/updates/0/updates").cloned(),
            _ => None,
        };
        let Some(Value::Object(updates)) = updates else { continue };
        let is_there = updates.iter().all(|(name, value)| {
            properties.and_then(|properties| properties.get(name)) == Some(value)
        });
        match commit.told.outcome {
            Outcome::Done => done += 1,
            Outcome::Refused => refused += 1,
            Outcome::Unknown => {
                return Err(Stop::new(
                    StopKind::Lost,
                    format!("the answer to a commit was lost: {}", commit.told.words),
                    "what writers were told cannot be held against the table: start the same command again",
                ));
            }
        }
        if commit.told.outcome == Outcome::Done && !is_there {
            return Err(Stop::broken(format!(
                "a commit was acknowledged and is not there: {updates:?}"
            )));
        }
        if commit.told.outcome == Outcome::Refused && is_there {
            return Err(Stop::broken(format!("a commit was refused and is there: {updates:?}")));
        }
        if commit.told.outcome == Outcome::Refused {
            expect(commit, &[409, 503])?;
        }
    }
    if now.generation != before.generation + done + others {
        let words = format!(
            "{done} commits were acknowledged, generation {} became {}",
            before.generation, now.generation
        );
        return Err(Stop::broken(words));
    }
    note(turn, what, json!({"acknowledged": done, "refused": refused}));
    subject.pointer = now;
    turn.facts.subject = Some(subject);
    Ok(format!(
        "{done} commits were acknowledged and are there, {refused} were refused and are not"
    ))
}

/// A repair under load moves no pointer of its own.
pub(super) fn recovery(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let subject = subject(turn)?;
    let News::Stressed(stressed) = news else {
        let ask = at(turn, &subject).recovery(named(&subject.table));
        return Ok(under(turn, subject.clone(), "recovery", vec![ask]));
    };
    for heard in &stressed.heard {
        expect(heard, &[200])?;
    }
    Ok(Move::Pass(tally(turn, "recovery", &stressed, 0)?))
}

/// A rollback with the token of before the writers is refused.
pub(super) fn rollback(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let subject = subject(turn)?;
    let News::Stressed(stressed) = news else {
        let target = subject.earlier.clone().unwrap_or(subject.pointer.metadata_location.clone());
        let ask = at(turn, &subject).rollback(named(&subject.table), &target, STALE_TOKEN);
        return Ok(under(turn, subject.clone(), "rollback", vec![ask]));
    };
    for heard in &stressed.heard {
        if heard.status() == 200 {
            return Err(Stop::broken("a rollback with a token that never was is acknowledged"));
        }
        expect(heard, &[400, 409])?;
    }
    Ok(Move::Pass(tally(turn, "rollback", &stressed, 0)?))
}

/// An import of another pointer is refused.
pub(super) fn import(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let subject = subject(turn)?;
    let News::Stressed(stressed) = news else {
        let Some(target) = subject.earlier.clone() else {
            let words = "no other metadata of the table is known to import";
            return Ok(Move::Skip(words.to_owned()));
        };
        let ask = at(turn, &subject).import(named(&subject.table), &target);
        return Ok(under(turn, subject.clone(), "import", vec![ask]));
    };
    for heard in &stressed.heard {
        if heard.status() == 200 {
            return Err(Stop::broken("an import of other metadata was acknowledged"));
        }
        expect(heard, &[400, 409])?;
    }
    Ok(Move::Pass(tally(turn, "import", &stressed, 0)?))
}

/// A preflight under load is answered.
pub(super) fn dry_run(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let subject = subject(turn)?;
    let News::Stressed(stressed) = news else {
        let ask = at(turn, &subject).preflight();
        return Ok(under(turn, subject.clone(), "dry_run", vec![ask]));
    };
    let mut statuses = Vec::new();
    for heard in &stressed.heard {
        expect(heard, &[200])?;
        statuses.push(heard.text("/status").unwrap_or_default().to_owned());
    }
    let words = tally(turn, "dry_run", &stressed, 0)?;
    Ok(Move::Pass(format!("the preflight under load said {}; {words}", statuses.join(", "))))
}

/// Every commit was acknowledged and is there, or refused and is not; then the fence is released.
pub(super) fn materialize(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let subject = subject(turn)?;
    let at = at(turn, &subject);
    let News::Stressed(stressed) = news else {
        let (asks, subject) = (vec![at.migrate()], subject.clone());
        let under = Under {
            what: "materialize".to_owned(),
            writers: turn.orders.writers,
            probe: Some(vec![at.cancel(), at.preflight()]),
            attempts: ATTEMPTS,
            asks,
            subject,
        };
        return Ok(Move::Stress(Box::new(Stress::Under(under))));
    };
    let [migrate, cancel, after] = &*stressed.heard else {
        return Err(Stop::unreadable("answers are missing".to_owned()));
    };
    // A commit that is only staged for the moment of the preflight is a blocker like any other.
    if migrate.status() == 409 {
        let words = format!("the migration was refused under load: {}", migrate.told.words);
        let remedy = "a commit was under way each time that it looked: start the same command again with fewer --writers";
        return Err(Stop::new(StopKind::Blocked, words, remedy));
    }
    let it = release::fenced(migrate, &subject.warehouse)?;
    release::released(cancel, after, &subject.warehouse)?;
    let words = tally(turn, "materialize", &stressed, 0)?;
    Ok(Move::Pass(format!(
        "{} with {} commits; {words}; then it was released",
        it.status, it.commit_log_count
    )))
}

/// What the run leaves as evidence.
pub(super) fn artifacts(turn: &mut Turn<'_>, _: News) -> Result<Move, Stop> {
    let subject = subject(turn)?;
    let facts = &turn.facts;
    let counts = serde_json::to_string(&facts.stressed).unwrap_or_default();
    Ok(Move::Pass(format!(
        "release {}, backing {}, {} nodes, {} writers, {} rounds, final generation {} ({}), counts {counts}",
        facts.releases.join(", "),
        facts.backing,
        turn.orders.nodes,
        turn.orders.writers,
        turn.orders.iterations,
        subject.pointer.generation,
        subject.pointer.metadata_location
    )))
}
