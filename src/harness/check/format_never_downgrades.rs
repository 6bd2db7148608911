//! A strong snapshot keeps the version that it has reached.
//!
//! Verified, by what the drives were seen to hold between the steps and by the census: from one look to the next, the
//! snapshot's version does not fall.
//!
//! Looks between which a hand has put back or removed the snapshot, which found none, or between which somebody has
//! asked to cancel a migration, are not compared: another snapshot may begin there.
//!
//! Not verified: what came and went between two looks.

use serde::Deserialize;

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::tables::SNAPSHOT;
use crate::harness::workload::catalog::CatalogAction;
use crate::harness::workload::catalog::HandledHow;
use crate::harness::workload::history::Note;
use crate::harness::workload::record::History;
use crate::harness::workload::record::NEVER;

/// Its name.
pub const NAME: &str = "format_never_downgrades";

/// The version of a snapshot.
#[derive(Debug, Deserialize)]
struct Versioned {
    version: u32,
}

/// A version that was seen, and where.
#[derive(Debug, Clone, Copy)]
struct Seen {
    seq: u64,
    version: u32,
}

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let history = witnesses.history;
    let mut before: Option<Seen> = None;
    for note in &history.notes {
        match &note.what {
            Note::Snapshot(handled) if handled.what != HandledHow::Kept => before = None,
            Note::CatalogSeen(seen) => {
                let now = seen.snapshot.map(|version| Seen { seq: note.seq, version });
                compare(&mut examination, history, before, now);
                before = now;
            }
            _ => {}
        }
    }
    let Some(census) = examination.census(witnesses) else {
        return examination.finish();
    };
    let text = census.catalog.as_ref().and_then(|catalog| catalog.objects.get(SNAPSHOT));
    match text.map(|text| serde_json::from_str::<Versioned>(text)) {
        None => {}
        Some(Ok(Versioned { version })) => {
            compare(&mut examination, history, before, Some(Seen { seq: NEVER, version }));
        }
        Some(Err(error)) => {
            let message = format!("the strong snapshot does not decode: {error}");
            let found = Found::undecided("snapshot_does_not_decode", message);
            examination.found(found.shown_in("census.json"));
        }
    }
    examination.finish()
}

/// Two looks, one after the other.
fn compare(
    examination: &mut Examination,
    history: &History,
    before: Option<Seen>,
    now: Option<Seen>,
) {
    let (Some(before), Some(now)) = (before, now) else { return };
    let is_cancelled = history.catalog.iter().any(|op| {
        op.asked.action == CatalogAction::Cancel && before.seq < op.invoked && op.invoked < now.seq
    });
    if is_cancelled {
        return;
    }
    examination.examined();
    if now.version < before.version {
        let message = format!(
            "the strong snapshot was of version {} and is of version {} now",
            before.version, now.version
        );
        let place = match now.seq {
            NEVER => "census.json".to_owned(),
            seq => format!("history.jsonl:{}", seq + 1),
        };
        let found = Found::fail("format_downgraded", message);
        let found = found.shown_in(format!("history.jsonl:{}", before.seq + 1));
        examination.found(found.shown_in(place));
    }
}
