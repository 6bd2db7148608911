//! What tells how a drive was rebuilt, and by whose authority, is kept for good.
//!
//! Verified, by what was seen on each drive in the course of the run and by the census: a proof, a receipt, an archive
//! and the record of a generation that has passed its targets on, once seen, are there ever after, receipts and
//! archives word for word; an approval is there until its receipt is. Whatever a record or a proof refers to is on
//! some drive: the record of each predecessor in its lineage, and the receipt and the archives of the import that
//! began its chain.
//!
//! Not verified: what no look has seen and nothing refers to. What lay on a drive that another one was put in the
//! place of is lost with it, and is no finding.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::generations::INTENT;
use super::generations::PROOF;
use super::generations::is_drive;
use super::sightings;
use crate::harness::audit::census::Census;

/// Its name.
pub const NAME: &str = "evidence_is_retained";

const APPROVAL: &str = "_legacy_replacement_approval.json";
const RECEIPT: &str = "_legacy_replacement_receipt.json";
const ARCHIVE: &str = "_legacy_original.json";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let Some(census) = examination.census(witnesses) else { return examination.finish() };
    for pair in sightings::pairs(witnesses) {
        let after = &pair.after.held.records;
        let evidence =
            pair.before.held.records.iter().filter(|(path, text)| is_evidence(path, text));
        for (path, text) in evidence {
            examination.examined();
            let receipt = path.strip_suffix(APPROVAL).map(|stem| format!("{stem}{RECEIPT}"));
            let is_consumed = receipt.is_some_and(|receipt| after.contains_key(&receipt));
            let told = |kind: &str, what: &str| {
                Found::fail(kind, format!("drive {}: {path} {what}", pair.drive))
                    .shown_in(pair.before.evidence.clone())
                    .shown_in(pair.after.evidence.clone())
            };
            match after.get(path) {
                None if is_consumed => {}
                // An older release's copy moves.
                None if after.keys().any(|other| file(other) == file(path)) => {}
                None => examination.found(told("evidence_gone", "was there, and is gone")),
                Some(now)
                    if now != text && (path.ends_with(RECEIPT) || path.ends_with(ARCHIVE)) =>
                {
                    examination.found(told("evidence_changed", "says something else now"));
                }
                Some(_) => {}
            }
        }
    }
    references(&mut examination, witnesses, census);
    examination.finish()
}

fn file(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether a record has to stay.
fn is_evidence(path: &str, text: &str) -> bool {
    let has_passed_on = || {
        let json: Value = serde_json::from_str(text).unwrap_or_default();
        json["replacement_handoff"].is_object() || json["replacement_legacy_successor"].is_string()
    };
    [PROOF, APPROVAL, RECEIPT, ARCHIVE].iter().any(|ending| path.ends_with(ending))
        || path.ends_with(INTENT) && has_passed_on()
}

/// What the records and proofs that are left refer to.
fn references(examination: &mut Examination, witnesses: &Witnesses<'_>, census: &Census) {
    let records = || census.replacement.iter().flat_map(|held| &held.records);
    let names: BTreeSet<&str> = records().map(|(path, _)| file(path)).collect();
    for held in &census.replacement {
        for (path, text) in &held.records {
            if path.ends_with(PROOF) {
                examination.examined();
            } else if !path.ends_with(INTENT) {
                continue;
            }
            let Ok(json) = serde_json::from_str::<Value>(text) else { continue };
            for (file, what) in referred(&json) {
                examination.examined();
                if names.contains(file.as_str()) || can_be_lost(witnesses, &json) {
                    continue;
                }
                let message = format!("{path} refers to {what}, and {file} is on no drive");
                let found = Found::fail("reference_broken", message)
                    .shown_in(format!("drive {}: {path}", held.drive));
                examination.found(found);
            }
        }
    }
}

/// The names of the files that a record or proof refers to, and what each is.
fn referred(json: &Value) -> Vec<(String, String)> {
    let mut referred = Vec::new();
    for link in json["replacement_lineage"].as_array().into_iter().flatten() {
        if let Some(id) = link["predecessor"].as_str() {
            referred.push((format!("{id}{INTENT}"), format!("its predecessor {id}")));
        }
    }
    let import = &json["replacement_legacy_import"];
    if let Some(id) = import["successor"].as_str() {
        // Until the sources are retired there is neither.
        let is_over = json["replacement_phase"] != "ownership_pending";
        let sources = import["sources"].as_array().into_iter().flatten();
        let sources = sources.filter_map(|source| source["task_id"].as_str());
        for source in sources.filter(|_| is_over) {
            let archive = format!("{id}_{source}{ARCHIVE}");
            referred.push((archive, format!("the archive of {source}")));
        }
        if is_over {
            referred.push((format!("{id}{RECEIPT}"), format!("the receipt of {id}")));
        }
    }
    referred
}

/// Whether a drive that is none of its targets was replaced in the run: what it refers to may have lain there.
fn can_be_lost(witnesses: &Witnesses<'_>, json: &Value) -> bool {
    let targets = json["replacement_targets"].as_array().into_iter().flatten();
    let targets: Vec<&str> = targets.filter_map(Value::as_str).collect();
    let is_target = |drive: &String| targets.iter().any(|endpoint| is_drive(endpoint, drive));
    let mut replaced = sightings::injected(witnesses.history)
        .filter(|fault| fault.what.name == "replace_drive")
        .flat_map(|fault| &fault.what.drives);
    replaced.any(|drive| !is_target(drive))
}
