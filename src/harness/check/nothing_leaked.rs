//! After settling, the drives hold nothing that no version owns.
//!
//! Verified, by the census: no data directory, inline value, temporary file, backup, part of a completed
//! upload or unknown name is left; no more uploads are open than clients can have left open.
//!
//! Not verified: the trash (emptied in its own time), what a healer moved to quarantine, and versions
//! below a quorum: both wait for a grace, so that nothing is deleted that a returning drive could save.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use crate::harness::audit::census::Surplus;
use crate::harness::audit::census::SurplusKind;
use crate::harness::workload::history::Action;
use crate::harness::workload::history::Outcome;
use crate::harness::workload::record::History;

/// Its name.
pub const NAME: &str = "nothing_leaked";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let Some(census) = examination.census(witnesses) else { return examination.finish() };
    for _ in &census.drives {
        examination.examined();
    }
    let mut open = BTreeMap::<String, BTreeSet<&str>>::new();
    for surplus in &census.surplus {
        let kind = match surplus.kind {
            SurplusKind::Trash | SurplusKind::Quarantined => continue,
            SurplusKind::OpenUpload => {
                open.entry(upload_of(surplus)).or_default().insert(&surplus.drive);
                continue;
            }
            SurplusKind::OrphanDataDir => "orphan_data_dir",
            SurplusKind::OrphanInline => "orphan_inline",
            SurplusKind::Temporary => "temporary",
            SurplusKind::Transient => "transient",
            SurplusKind::UploadLeftover => "upload_leftover",
            SurplusKind::Unknown => "unknown_name",
        };
        let message =
            format!("drive {} keeps {} ({} bytes)", surplus.drive, surplus.path, surplus.bytes);
        let evidence = format!("drive {}: {}", surplus.drive, surplus.path);
        examination.found(Found::fail(kind, message).shown_in("census.json").shown_in(evidence));
    }
    let legal = uploads_left_open(witnesses.history);
    // On fewer drives than a majority nobody can go on with it: it waits for its grace.
    let majority = witnesses.facts.set_drives / 2 + 1;
    open.retain(|_, drives| drives.len() >= majority);
    if open.len() > legal {
        let message = format!(
            "{} uploads are open on the drives, and clients can have left {legal} open",
            open.len()
        );
        let mut found = Found::fail("open_upload", message).shown_in("census.json");
        for path in open.keys().take(8) {
            found = found.shown_in(path);
        }
        examination.found(found);
    }
    examination.finish()
}

/// The upload's directory, the same on every drive.
fn upload_of(surplus: &Surplus) -> String {
    surplus.path.split('/').take(4).collect::<Vec<_>>().join("/")
}

/// How many uploads can still be open: begun, perhaps, and neither completed nor aborted for certain.
fn uploads_left_open(history: &History) -> usize {
    let mut ended = BTreeSet::new();
    for op in history.ops.iter().filter(|op| op.is_acknowledged()) {
        if let Action::CompleteUpload { upload, .. } | Action::AbortUpload { upload } =
            &op.asked.action
        {
            ended.insert(upload.as_str());
        }
    }
    let begun = history.ops.iter().filter(|op| op.asked.action == Action::CreateUpload);
    let open = begun.filter(|op| match op.outcome() {
        Outcome::Refused => false,
        Outcome::Ambiguous => true,
        Outcome::Acknowledged => {
            let id = op.answer.as_ref().and_then(|answer| answer.upload.as_deref());
            id.is_none_or(|id| !ended.contains(id))
        }
    });
    open.count()
}
