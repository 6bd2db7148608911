//! Repair, rollback and import of one table: the disaster-recovery rehearsal in its executable form.

use serde_json::Value;
use serde_json::json;

use super::super::answers;
use super::super::answers::Diagnostics;
use super::super::answers::Pointer;
use super::super::answers::Preflight;
use super::super::answers::Recovery;
use super::super::ask::Heard;
use super::super::facts::Subject;
use super::super::routes::At;
use super::super::step::Step;
use super::super::turn::Move;
use super::super::turn::News;
use super::super::turn::Stop;
use super::super::turn::StopKind;
use super::super::turn::Turn;
use super::super::turn::expect;
use super::super::turn::heard;
use super::probe::named;

/// The table that is rehearsed on.
pub(super) fn subject(turn: &Turn<'_>) -> Result<Subject, Stop> {
    turn.facts.subject.clone().ok_or_else(|| {
        let words = "there is no table to rehearse on";
        let remedy =
            "every warehouse is fenced: cancel the migration, or name a table with --table";
        Stop::new(StopKind::Precondition, words, remedy)
    })
}

/// The table's warehouse on the wire.
pub(super) fn at<'a>(turn: &Turn<'a>, subject: &'a Subject) -> At<'a> {
    At { prefix: &turn.orders.prefix, warehouse: &subject.warehouse }
}

/// Reads a pointer.
pub(super) fn pointer(heard: &Heard) -> Result<Pointer, Stop> {
    expect(heard, &[200])?;
    answers::read(heard).map_err(Stop::unreadable)
}

/// Demands that a pointer is where it was.
pub(super) fn unmoved(what: &str, before: &Pointer, now: &Pointer) -> Result<(), Stop> {
    let same = before.version_token == now.version_token
        && before.generation == now.generation
        && before.metadata_location == now.metadata_location;
    if same {
        return Ok(());
    }
    Err(Stop::broken(format!(
        "{what} moved the pointer: generation {} ({}) became {} ({})",
        before.generation, before.version_token, now.generation, now.version_token
    )))
}

/// Records the pointer, and that the export says the same.
pub(super) fn export(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let subject = subject(turn)?;
    let (at, table) = (at(turn, &subject), named(&subject.table));
    if turn.round == 0 {
        return Ok(Move::Send(vec![at.pointer(table), at.export(table), at.pointer(table)]));
    }
    let all = heard(news);
    let [before, export, after] = &*all else {
        return Err(missing());
    };
    let (before, after) = (pointer(before)?, pointer(after)?);
    expect(export, &[200])?;
    if before == after {
        let location = export.text("/table/metadata_location").unwrap_or_default();
        let token = export.text("/table/version_token").unwrap_or_default();
        let generation = export.number("/table/generation").unwrap_or_default();
        let is_same = before.metadata_location.ends_with(location)
            && !location.is_empty()
            && before.version_token == token
            && before.generation == generation;
        if !is_same {
            let words = format!(
                "the export has generation {generation} ({token}), the table has {} ({})",
                before.generation, before.version_token
            );
            return Err(Stop::broken(words));
        }
    }
    let id = export.text("/table/table_id").unwrap_or_default();
    let uuid = export.text("/table/table_uuid").unwrap_or_default();
    let words = format!(
        "{}/{} ({id}, {uuid}): generation {}, {}, {}",
        subject.warehouse,
        subject.table,
        after.generation,
        after.version_token,
        after.metadata_location
    );
    turn.facts.subject = Some(Subject { pointer: after, ..subject });
    Ok(Move::Pass(words))
}

/// What is loaded is what is recorded.
pub(super) fn load_is_as_recorded(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let subject = subject(turn)?;
    let (at, table) = (at(turn, &subject), named(&subject.table));
    if turn.round == 0 {
        return Ok(Move::Send(vec![at.load(table), at.pointer(table)]));
    }
    let all = heard(news);
    let [load, now] = &*all else {
        return Err(missing());
    };
    expect(load, &[200])?;
    let now = pointer(now)?;
    unmoved("something between two steps", &subject.pointer, &now)?;
    let loaded = load.text("/metadata-location").unwrap_or_default();
    if loaded != now.metadata_location {
        let words = format!("a load answers {loaded}, the pointer is at {}", now.metadata_location);
        return Err(Stop::broken(words));
    }
    Ok(Move::Pass(format!("generation {}, {loaded}, as recorded", now.generation)))
}

/// A token that no server has ever given out.
pub const STALE_TOKEN: &str = "token-00000000-0000-4000-8000-000000000000";

/// A commit in the pointer form that names the current state by this token, and moves to `target`.
pub fn pointer_commit(current: &str, token: &str, target: &str) -> Value {
    json!({
        "requirements": [],
        "updates": [],
        "expected-version-token": token,
        "expected-metadata-location": current,
        "new-metadata-location": target,
    })
}

/// A metadata file beside the current one that is not there.
pub fn absent_metadata(current: &str, commit_id: &str) -> String {
    let folder = current.rsplit_once('/').map_or("", |(folder, _)| folder);
    format!("{folder}/99999-{commit_id}.metadata.json")
}

/// A commit with a stale token is refused, and moves nothing.
pub(super) fn stale_token(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    refused_commit(turn, news, 409, |current, _| pointer_commit(current, STALE_TOKEN, current))
}

/// A commit of metadata that is not there is refused, and moves nothing.
pub(super) fn missing_metadata(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let id = turn.orders.commit_id("absent");
    refused_commit(turn, news, 400, |current, token| {
        pointer_commit(current, token, &absent_metadata(current, &id))
    })
}

fn refused_commit(
    turn: &mut Turn<'_>,
    news: News,
    status: u16,
    body: impl Fn(&str, &str) -> Value,
) -> Result<Move, Stop> {
    let subject = subject(turn)?;
    let (at, table) = (at(turn, &subject), named(&subject.table));
    if turn.round == 0 {
        return Ok(Move::Send(vec![at.pointer(table)]));
    }
    let all = heard(news);
    if turn.round == 1 {
        let now = pointer(all.first().ok_or_else(missing)?)?;
        turn.facts.work.kept = json!(now);
        let body = body(&now.metadata_location, &now.version_token);
        return Ok(Move::Send(vec![at.commit(table, body), at.pointer(table)]));
    }
    let [commit, after] = &*all else { return Err(missing()) };
    let before = serde_json::from_value(turn.facts.work.kept.clone()).unwrap_or_default();
    if commit.status() == 200 {
        return Err(Stop::broken("a commit that had to be refused was acknowledged"));
    }
    unmoved("a refused commit", &before, &pointer(after)?)?;
    expect(commit, &[status])?;
    Ok(Move::Pass(format!("answered {status}: {}; nothing moved", commit.told.words)))
}

fn missing() -> Stop {
    Stop::unreadable("answers are missing".to_owned())
}

/// A commit is interrupted, by a command of the operator's.
pub(super) fn inject_gap(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let mut subject = subject(turn)?;
    match news {
        News::Begin if !turn.orders.hooks.contains_key(&Step::InjectGap) => Ok(Move::Skip(
            "it takes a server that dies between a commit's pointer and its records: name a command that does so with --hook inject-gap=COMMAND; without it the repair has nothing to repair".to_owned(),
        )),
        News::Begin => Ok(Move::Hand("interrupt a commit".to_owned())),
        News::ByHook(_) => {
            Ok(Move::Send(vec![at(turn, &subject).pointer(named(&subject.table)).waiting()]))
        }
        _ => {
            let all = heard(news);
            let Some(now) = all.first() else {
                return Err(Stop::unreadable("an answer is missing".to_owned()));
            };
            let now = pointer(now)?;
            let words = format!("generation {} became {}", subject.pointer.generation, now.generation);
            if now.generation < subject.pointer.generation {
                return Err(Stop::broken(words));
            }
            subject.pointer = now;
            subject.has_gap = true;
            turn.facts.subject = Some(subject);
            Ok(Move::Pass(words))
        }
    }
}

/// The diagnosis counts what is unfinished; with a gap the migration is blocked, and refused without a fence.
pub(super) fn diagnose(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let subject = subject(turn)?;
    let (at, table) = (at(turn, &subject), named(&subject.table));
    let all = heard(news);
    match turn.round {
        0 => Ok(Move::Send(vec![at.diagnostics(table), at.preflight()])),
        1 => {
            let [diagnosis, preflight] = &*all else {
                return Err(missing());
            };
            let counted = counted(turn, diagnosis, subject.has_gap)?;
            let it: Preflight = answers::read(preflight).map_err(Stop::unreadable)?;
            if !subject.has_gap {
                let nothing = "no commit was interrupted: that it would be seen, and block a migration, is not shown";
                return Ok(Move::Skip(format!("{counted}; {nothing}")));
            }
            if !it.blockers.iter().any(|blocker| blocker == "COMMIT_RECOVERY_REQUIRED") {
                let words = format!("an unfinished commit blocks no migration: {:?}", it.blockers);
                return Err(Stop::broken(words));
            }
            turn.facts.work.notes.push(counted);
            Ok(Move::Send(vec![at.migrate(), at.preflight()]))
        }
        _ => {
            let [migrate, after] = &*all else {
                return Err(missing());
            };
            if migrate.status() == 200 {
                return Err(Stop::broken("a migration ran in spite of its blocker"));
            }
            expect(migrate, &[409])?;
            expect(after, &[200])?;
            let after: Preflight = answers::read(after).map_err(Stop::unreadable)?;
            if after.object_backed_writes_fenced {
                return Err(Stop::broken("a migration that was refused left a fence"));
            }
            let counted = turn.facts.work.notes.join("; ");
            let words =
                format!("{counted}; the migration is blocked, and was refused without a fence");
            Ok(Move::Pass(words))
        }
    }
}

/// What a diagnosis counts, in words; it has to see the gap that was made.
fn counted(turn: &mut Turn<'_>, diagnosis: &Heard, has_gap: bool) -> Result<String, Stop> {
    expect(diagnosis, &[200])?;
    let it: Diagnostics = answers::read(diagnosis).map_err(Stop::unreadable)?;
    let recovery = &it.commit_recovery;
    let counted = format!(
        "{}, metadata {}: {} to finish, {} indexes to repair, {} only staged, {} for review",
        it.recovery_status,
        it.current_metadata_status,
        recovery.finalization_required_count,
        recovery.idempotency_repair_required_count,
        recovery.staged_before_table_update_count,
        recovery.manual_review_count
    );
    let noted = &mut turn.facts.stressed;
    noted.insert("repairable".to_owned(), recovery.repairable().into());
    noted.insert("manual_review".to_owned(), recovery.manual_review_count.into());
    if it.current_metadata_status != "VALID" {
        let words = format!("the current metadata is {}", it.current_metadata_status);
        return Err(Stop::new(StopKind::Blocked, words, it.recommended_actions.join(", ")));
    }
    if has_gap && recovery.repairable() == 0 {
        let words = format!("the interrupted commit is not seen: {counted}");
        let remedy = "did the command interrupt a commit after its pointer moved?";
        return Err(Stop::new(StopKind::Unexpected, words, remedy));
    }
    Ok(counted)
}

/// The repair finishes what was counted and moves no pointer; a second one finds nothing.
pub(super) fn repair(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let subject = subject(turn)?;
    let (at, table) = (at(turn, &subject), named(&subject.table));
    if turn.round == 0 {
        return Ok(Move::Send(vec![
            at.pointer(table),
            at.recovery(table),
            at.recovery(table),
            at.pointer(table),
        ]));
    }
    let all = heard(news);
    let [before, first, second, after] = &*all else {
        return Err(missing());
    };
    expect(first, &[200])?;
    expect(second, &[200])?;
    unmoved("a repair", &pointer(before)?, &pointer(after)?)?;
    let read = |heard: &Heard| answers::read::<Recovery>(heard).map_err(Stop::unreadable);
    let (first, second) = (read(first)?, read(second)?);
    let expected = turn.facts.stressed.get("repairable").and_then(Value::as_u64);
    if expected.is_some_and(|expected| first.finalized_count != expected) {
        let words =
            format!("{} commits were finished, {expected:?} were counted", first.finalized_count);
        return Err(Stop::new(
            StopKind::Unexpected,
            words,
            "is somebody else committing to the table?",
        ));
    }
    if second.finalized_count != 0 {
        let words = format!("a second repair finished {} more", second.finalized_count);
        return Err(Stop::new(
            StopKind::Unexpected,
            words,
            "is somebody else committing to the table?",
        ));
    }
    if first.finalized_count == 0 {
        let words = "the pointer did not move, but there was nothing to repair";
        return Ok(Move::Skip(words.to_owned()));
    }
    let words = format!("{} finished, then none; the pointer did not move", first.finalized_count);
    Ok(Move::Pass(words))
}

/// The table is healthy, but for what a person has to look at anyway.
pub(super) fn is_healthy(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let subject = subject(turn)?;
    if turn.round == 0 {
        let ask = at(turn, &subject).diagnostics(named(&subject.table));
        return Ok(Move::Send(vec![ask]));
    }
    let all = heard(news);
    let Some(heard) = all.first() else {
        return Err(Stop::unreadable("an answer is missing".to_owned()));
    };
    expect(heard, &[200])?;
    let it: Diagnostics = answers::read(heard).map_err(Stop::unreadable)?;
    let before = turn.facts.stressed.get("manual_review").and_then(Value::as_u64);
    let review = it.commit_recovery.manual_review_count;
    let is_as_before = before == Some(review) && review > 0;
    if it.recovery_status != "HEALTHY" && !is_as_before {
        let words =
            format!("the table is {}: {}", it.recovery_status, it.recommended_actions.join(", "));
        return Err(Stop::new(StopKind::Blocked, words, "look at its diagnostics"));
    }
    let words = format!("{}, {review} records for review", it.recovery_status);
    Ok(Move::Pass(words))
}

/// A rollback to the state before lands; with a stale token it moves nothing.
pub(super) fn rollback(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let subject = subject(turn)?;
    let (at, table) = (at(turn, &subject), named(&subject.table));
    match turn.round {
        0 => return Ok(Move::Send(vec![at.pointer(table), at.load(table)])),
        1 => {
            let all = heard(news);
            let [now, load] = &*all else {
                return Err(missing());
            };
            let before = pointer(now)?;
            expect(load, &[200])?;
            let log = load.told.body.pointer("/metadata/metadata-log");
            let log = log.and_then(Value::as_array);
            let logged = log.and_then(|log| log.last()?.get("metadata-file")?.as_str());
            let Some(target) = subject.earlier.clone().or(logged.map(str::to_owned)) else {
                let words = "the table was never changed: there is nothing to roll back to";
                return Ok(Move::Skip(words.to_owned()));
            };
            turn.facts.work.kept = json!([before, target]);
            // The second of them carries a token that the first has made stale.
            let token = &before.version_token;
            return Ok(Move::Send(vec![
                at.rollback(table, &target, token),
                at.pointer(table),
                at.rollback(table, &before.metadata_location, token),
                at.pointer(table),
            ]));
        }
        _ => {}
    }
    let (before, target): (Pointer, String) =
        serde_json::from_value(turn.facts.work.kept.clone()).unwrap_or_default();
    let all = heard(news);
    let [fresh, after, stale, last] = &*all else {
        return Err(missing());
    };
    // Of a table of the operator's it is not known whether the state before is forward-safe.
    let is_ours = subject.earlier.is_some();
    expect(fresh, if is_ours { &[200] } else { &[200, 400, 409] })?;
    let (after, last) = (pointer(after)?, pointer(last)?);
    if fresh.status() != 200 {
        unmoved("a refused rollback", &before, &after)?;
    } else if after.generation != before.generation + 1 || after.metadata_location != target {
        let words = format!(
            "a rollback to {target} was acknowledged, the table is at generation {} ({})",
            after.generation, after.metadata_location
        );
        return Err(Stop::broken(words));
    }
    if fresh.status() == 200 {
        if stale.status() == 200 {
            return Err(Stop::broken("a rollback with a stale token was acknowledged"));
        }
        expect(stale, &[409])?;
        unmoved("a rollback with a stale token", &after, &last)?;
    }
    let words = format!(
        "the fresh one was answered {}, generation {} became {}; the stale one {}. A rollback of an append is refused by design (400) and was not tried",
        fresh.status(),
        before.generation,
        after.generation,
        stale.status()
    );
    // What it stood at before is what an import must refuse now.
    let earlier = is_ours.then_some(before.metadata_location);
    turn.facts.subject = Some(Subject { pointer: last, earlier, ..subject });
    Ok(Move::Pass(words))
}

/// An import of the current metadata changes nothing, of another it is refused.
pub(super) fn import(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let subject = subject(turn)?;
    let (at, table) = (at(turn, &subject), named(&subject.table));
    if turn.round == 0 {
        let mut asks = vec![
            at.pointer(table),
            at.import(table, &subject.pointer.metadata_location),
            at.pointer(table),
        ];
        if let Some(other) = &subject.earlier {
            asks.extend([at.import(table, other), at.pointer(table)]);
        }
        return Ok(Move::Send(asks));
    }
    let all = heard(news);
    let [before, same, after, rest @ ..] = &*all else {
        return Err(missing());
    };
    let before = pointer(before)?;
    expect(same, &[200])?;
    unmoved("an import of the current metadata", &before, &pointer(after)?)?;
    if let [other, last] = rest {
        if other.status() == 200 {
            return Err(Stop::broken("an import of other metadata was acknowledged"));
        }
        expect(other, &[409])?;
        unmoved("a refused import", &before, &pointer(last)?)?;
    }
    Ok(Move::Pass("nothing moved".to_owned()))
}
