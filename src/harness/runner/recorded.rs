//! Recorded histories of broken promises, built into the binary: what each invariant catches without a
//! cluster, beside what it catches on one.
//!
//! They are the fixtures that prove the checkers; `prove --matrix` counts them in a column of its own.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::harness::audit::census::Census;
use crate::harness::check;
use crate::harness::check::Facts;
use crate::harness::check::Verdict;
use crate::harness::check::Witnesses;
use crate::harness::workload::record::History;

/// One recorded history.
#[derive(Debug, Clone, Copy)]
struct Recorded {
    name: &'static str,
    history: &'static str,
    census: Option<&'static str>,
}

/// Builds the table from names, so that each stands once.
macro_rules! recorded {
    (with_census: [$($with:literal,)*] alone: [$($alone:literal,)*]) => {
        const RECORDED: &[Recorded] = &[
            $(Recorded {
                name: $with,
                history: include_str!(concat!("../../../fixtures/histories/", $with, ".jsonl")),
                census: Some(include_str!(concat!(
                    "../../../fixtures/histories/", $with, ".census.json"
                ))),
            },)*
            $(Recorded {
                name: $alone,
                history: include_str!(concat!("../../../fixtures/histories/", $alone, ".jsonl")),
                census: None,
            },)*
        ];
    };
}

recorded! {
    with_census: [
        "a-backing-that-went-on",
        "a-bucket-deleted-with-a-key-in-it",
        "a-bucket-made-anew",
        "a-commit-in-the-other-backing",
        "a-commit-past-the-fence",
        "a-commit-that-may-have-landed-late",
        "a-commit-that-was-seen-is-gone",
        "a-commit-told-to-have-failed",
        "a-cursor-that-went-back",
        "a-degraded-version",
        "a-deleted-key-came-back",
        "a-drive-missed-a-delete",
        "a-drive-replaced-and-proved",
        "a-drop-that-was-undone",
        "a-fork-of-successors",
        "a-generation-told-twice",
        "a-grouped-listing",
        "a-handoff-for-changed-mounts",
        "a-handoff-that-went-back",
        "a-handoff-without-a-cause",
        "a-head-that-disagrees",
        "a-late-commit-beside-a-repair",
        "a-list-that-hid-a-key",
        "a-lost-commit",
        "a-lost-conditional-update",
        "a-lost-marker",
        "a-lost-version",
        "a-marker-and-a-version-never-brought",
        "a-marker-of-nobody",
        "a-marker-that-went-back",
        "a-migration-that-holds",
        "a-missing-bucket",
        "a-needless-refusal",
        "a-node-that-does-not-serve",
        "a-pass-begun-anew",
        "a-pass-begun-anew-behind-a-pause",
        "a-pass-begun-anew-for-no-reason",
        "a-pass-begun-anew-unseen",
        "a-phase-that-went-back",
        "a-power-cut-took-a-durable-step",
        "a-power-cut-took-what-was-not-durable",
        "a-power-cut-under-relaxed",
        "a-power-cut-under-strict",
        "a-predecessor-cleared-away",
        "a-predecessor-that-is-gone",
        "a-proof-that-is-gone",
        "a-proof-that-was-not-true-then",
        "a-proof-that-was-rewritten",
        "a-proof-without-its-history",
        "a-quiet-day",
        "a-rebuild-before-its-marker-moved",
        "a-rebuild-begun-again",
        "a-rebuild-left-half-done",
        "a-rebuild-seen-all-the-way",
        "a-rebuild-that-went-on-after-a-change",
        "a-receipt-that-was-rewritten",
        "a-record-changed-in-place",
        "a-record-that-came-back",
        "a-record-that-is-torn",
        "a-record-that-vanished",
        "a-refusal-by-an-ambiguous-winner",
        "a-refused-commit-took-effect",
        "a-refused-write-took-effect",
        "a-removed-version-came-back",
        "a-removed-version-stays-on-the-drives",
        "a-repair-that-holds",
        "a-repair-that-moved-the-pointer",
        "a-repair-that-nobody-watched",
        "a-replaced-drive-without-a-proof",
        "a-revision-that-went-back",
        "a-seen-write-vanished",
        "a-snapshot-of-an-older-version",
        "a-snapshot-that-missed-a-commit",
        "a-snapshot-without-a-fence",
        "a-stale-read",
        "a-successor-named-anew",
        "a-suspended-delete",
        "a-table-without-metadata",
        "a-version-that-only-the-wire-has",
        "a-write-under-way-beside-a-proof",
        "ambiguous-versions-are-matched",
        "an-ambiguous-write-lands-after-the-settle",
        "an-ambiguous-write-lands-late",
        "an-ambiguous-write-took-effect-twice",
        "an-approval-without-its-receipt",
        "an-archive-that-is-gone",
        "an-import-into-nobody",
        "an-import-that-was-proved",
        "an-import-with-its-evidence",
        "an-older-snapshot-by-consent",
        "an-older-snapshot-taken-over",
        "an-orphan",
        "an-overwritten-write-came-back",
        "an-unreadable-version",
        "an-upload-that-nobody-left-open",
        "beyond-tolerance",
        "bytes-of-another-key",
        "commits-to-a-table-without-metadata",
        "evidence-lost-with-its-drive",
        "nobody-claims-a-rebuild",
        "nodes-tell-two-stories",
        "null-versions-never-brought",
        "one-version-two-identities",
        "racing-pages",
        "repair-stopped",
        "repair-was-slow",
        "rotten-bytes-on-the-drives",
        "settled-between-two-losses",
        "two-commits-of-one-base",
        "two-null-versions",
        "two-winners",
        "uploads-left-open",
        "versions-out-of-order",
        "within-tolerance",
    ]
    alone: [
        "a-policy-that-holds",
        "a-wrong-etag",
        "an-answer-without-the-right",
        "half-of-each-write",
        "no-latest-version",
        "nothing-happened",
        "root-before-version-2",
        "root-past-the-catalog",
        "storage-without-the-tables-policy",
        "wrong-bytes-beyond-tolerance",
    ]
}

/// The first line of a recorded history, as far as it matters here.
#[derive(Debug, Deserialize)]
struct Header {
    facts: Facts,
    verdicts: BTreeMap<String, Verdict>,
}

/// How many recorded histories each invariant fails, of those that say it must.
///
/// # Errors
/// A recorded history that cannot be read, or that an invariant lets pass although it must fail.
pub fn caught() -> Result<BTreeMap<String, u32>, String> {
    let mut counts = BTreeMap::new();
    for recorded in RECORDED {
        let wrong = |what: String| format!("recorded history {}: {what}", recorded.name);
        let (header, text) =
            recorded.history.split_once('\n').ok_or_else(|| wrong("no header".to_owned()))?;
        let header: Header =
            serde_json::from_str(header).map_err(|error| wrong(error.to_string()))?;
        let history = History::read(text.as_bytes()).map_err(|error| wrong(error.to_string()))?;
        let census: Option<Census> = recorded
            .census
            .map(serde_json::from_str)
            .transpose()
            .map_err(|error| wrong(error.to_string()))?;
        let witnesses =
            Witnesses { facts: &header.facts, history: &history, census: census.as_ref() };
        let must = header.verdicts.iter().filter(|(_, verdict)| **verdict == Verdict::Fail);
        let names: Vec<String> = must.map(|(name, _)| name.clone()).collect();
        for judgement in check::judge(&witnesses, &names) {
            if judgement.verdict != Verdict::Fail {
                return Err(wrong(format!("{} lets it pass", judgement.invariant)));
            }
            *counts.entry(judgement.invariant).or_default() += 1;
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recorded_history_is_built_in() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/histories");
        let names = std::fs::read_dir(folder).unwrap().filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".jsonl").map(str::to_owned)
        });
        let mut names: Vec<String> = names.collect();
        names.sort();
        let mut built_in: Vec<&str> = RECORDED.iter().map(|recorded| recorded.name).collect();
        built_in.sort_unstable();
        assert_eq!(names, built_in);
    }

    #[test]
    fn every_invariant_catches_some_recorded_history() {
        let counts = caught().unwrap();
        for invariant in check::INVARIANTS {
            assert!(counts.contains_key(invariant.name), "{} catches none", invariant.name);
        }
    }
}
