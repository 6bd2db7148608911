//! The backup: that there is one, that it is whole, and that it can be restored.

use super::super::facts::BackupFacts;
use super::super::step::Step;
use super::super::turn::Move;
use super::super::turn::News;
use super::super::turn::Stop;
use super::super::turn::StopKind;
use super::super::turn::Turn;
use super::super::turn::many;

/// A verified backup of every warehouse.
pub(super) fn take(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    match news {
        News::Begin if turn.orders.backup.is_none() => Err(Stop::new(
            StopKind::Operator,
            "nothing is changed without a verified backup, and none is named",
            "take one on the storage machines: firedrill catalog backup --warehouse NAME --to DIR DRIVE…; then add --backup DIR",
        )),
        News::Begin if turn.orders.hooks.contains_key(&Step::TakeBackup) => {
            Ok(Move::Hand("take the backup".to_owned()))
        }
        News::Begin | News::ByHook(_) => Ok(Move::CheckBackup),
        News::Backup(Ok(backup)) => covered(turn, backup),
        News::Backup(Err(why)) => Err(broken(why)),
        _ => Ok(Move::CheckBackup),
    }
}

fn broken(why: String) -> Stop {
    let words = format!("the backup does not verify: {why}");
    Stop::new(StopKind::Precondition, words, "take another one")
}

fn covered(turn: &mut Turn<'_>, backup: BackupFacts) -> Result<Move, Stop> {
    for name in &turn.orders.warehouses {
        if !backup.tokens.contains_key(name) {
            let words = format!("the backup does not have the warehouse {name}");
            return Err(Stop::new(StopKind::Precondition, words, "take one of every warehouse"));
        }
    }
    let moved = moved_since(turn, &backup);
    let drift = match moved.len() {
        0 => "every table stands where it stood then".to_owned(),
        count => format!("since moved: {}, among them {}", many(count, "table"), moved[0]),
    };
    let evidence = format!(
        "backup {} of {}, release {}, verified; {drift}",
        backup.digest,
        time_of(backup.made_at),
        backup.release
    );
    turn.facts.backup = Some(backup);
    Ok(Move::Pass(evidence))
}

/// A time in words.
fn time_of(unix_s: u64) -> String {
    let time = jiff::Timestamp::from_second(i64::try_from(unix_s).unwrap_or_default());
    time.unwrap_or_default().to_string()
}

/// The tables that no longer stand where they stood when the backup was taken.
pub(super) fn moved_since(turn: &Turn<'_>, backup: &BackupFacts) -> Vec<String> {
    let mut moved = Vec::new();
    let is_object = turn.facts.backing == "object";
    let tokens = if is_object { &backup.tokens } else { &backup.strong_tokens };
    for (name, warehouse) in &turn.facts.warehouses {
        let kept = tokens.get(name);
        for (table, known) in &warehouse.tables {
            let token = kept.and_then(|kept| kept.get(table));
            if token != Some(&known.pointer.version_token) {
                moved.push(format!("{name}/{table}"));
            }
        }
    }
    moved
}

/// The backup, restored into a fresh cluster, holds what it kept.
pub(super) fn restore_check(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    match news {
        News::Begin if turn.orders.hooks.contains_key(&Step::RestoreCheck) => {
            Ok(Move::Hand("restore the backup into a fresh cluster and compare".to_owned()))
        }
        News::Begin => Ok(Move::Restore),
        News::Restored(restored) => restored.map(Move::Pass),
        News::ByHook(command) => Ok(Move::Pass(format!("restored and compared by `{command}`"))),
        _ => Ok(Move::Restore),
    }
}

/// The backup is still what it was.
pub(super) fn preserve(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    match news {
        News::Backup(Ok(backup)) => {
            let before = turn.facts.backup.as_ref().map(|it| it.digest.as_str());
            if before != Some(&backup.digest) {
                let words = format!("the backup is now {}, it was {before:?}", backup.digest);
                return Err(Stop::broken(words));
            }
            Ok(Move::Pass(format!(
                "backup {} is whole; keep it until the retention window of the new backing has passed",
                backup.digest
            )))
        }
        News::Backup(Err(why)) => Err(broken(why)),
        _ => Ok(Move::CheckBackup),
    }
}
