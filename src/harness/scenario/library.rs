//! The scenarios that are built into the binary.

/// One built-in scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltIn {
    /// Its family.
    pub family: &'static str,
    /// Its file, below `scenarios/`.
    pub file: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// Builds the table from families and names, so that each stands once.
macro_rules! built_in {
    ($($family:literal: [$($name:literal),* $(,)?])*) => {
        /// Every built-in scenario, by family.
        pub const BUILT_IN: &[BuiltIn] = &[
            $($(BuiltIn {
                family: $family,
                file: concat!($family, "/", $name, ".yaml"),
                text: include_str!(concat!("../../../scenarios/", $family, "/", $name, ".yaml")),
            },)*)*
        ];
    };
}

built_in! {
    "objects": [
        "half-a-request",
        "kill-during-multipart-complete",
        "kill-during-puts",
    ]
    "power": [
        "all-nodes-lose-power",
        "drives-in-another-order",
        "power-cut-at-every-point-of-a-delete",
        "power-cut-at-every-point-of-a-put",
        "vm-restart-with-changed-mounts",
    ]
    "network": [
        "a-hung-peer",
        "lost-reply",
        "one-way-partition-during-conditional-writes",
        "paused-past-its-lease",
        "slow-lines",
    ]
    "healing": [
        "a-bucket-made-anew-while-drives-are-away",
        "a-drive-replaced-under-load",
        "a-drive-returned-stale",
        "a-drive-that-cannot-be-read",
        "a-drive-that-turns-read-only",
        "a-full-drive",
        "a-hung-drive",
        "a-newest-version-missed-by-one-drive",
        "a-node-starts-with-a-mount-missing",
        "a-scan-that-dies-with-its-node",
        "bit-rot",
        "damage-on-a-drive-of-another-node",
        "damage-on-as-many-drives-as-parity",
        "damage-under-load",
        "delete-marker-missed-by-one-drive",
        "delete-markers-that-one-drive-lacks",
        "exchanged-shards-that-nobody-reads",
        "kill-while-healing",
        "metadata-that-differs",
        "more-than-parity-pulled-with-no-grace",
        "null-version-overwritten-while-a-node-is-away",
        "null-versions-below-newer-ones",
        "rot-that-nobody-reads",
        "shards-of-no-version",
        "the-scanning-node-is-away",
        "two-shards-exchanged",
        "what-a-drive-lacks",
        "what-was-cut-short",
    ]
    "replacement": [
        "a-bucket-made-after-an-import",
        "a-bucket-made-during-an-import",
        "a-full-drive-in-mid-pass",
        "a-hung-drive-in-mid-page",
        "a-ledger-that-somebody-changed",
        "a-lock-removed-under-its-holder",
        "a-marker-is-taken-back",
        "a-new-drive-in-mid-page",
        "a-record-that-somebody-changed",
        "a-source-fails-in-mid-page",
        "a-source-node-pauses",
        "a-torn-record-before-its-seal",
        "an-exhausted-budget",
        "buckets-come-and-go",
        "changes-during-outage-and-rebuild",
        "downgrade-in-mid-recovery",
        "four-mount-changes-in-a-row",
        "interrupted-in-mid-page",
        "mounts-changed-during-an-import",
        "one-machine-of-three-restarts",
        "orphans-of-two-sets",
        "power-cut-at-every-step",
        "power-cut-at-every-step-of-an-import",
        "records-where-older-releases-kept-them",
        "second-restart-during-handoff",
        "the-drive-away-in-mid-pass",
        "the-record-away-during-handoff",
        "the-record-on-another-node",
        "the-same-mounts-go-on",
        "third-restart-during-handoff",
        "three-passes-that-fail",
        "two-drives-on-two-nodes",
        "upgrade-with-orphans",
        "what-the-procedure-refuses",
    ]
    "catalog": [
        "a-cancellation-after-the-strong-state-advanced-is-refused",
        "a-commit-that-left-no-record-needs-no-repair",
        "a-commit-that-was-finished-needs-no-repair",
        "a-commit-that-was-overtaken-is-told-and-put-aside",
        "a-commit-that-was-published-is-told-and-finished",
        "a-commit-that-was-staged-is-told-and-put-aside",
        "a-commit-whose-key-is-stale-is-told-and-finished",
        "a-drive-is-replaced-and-mounts-change-inside-a-migration",
        "a-first-snapshot-write-that-landed-is-cancelled",
        "a-first-snapshot-write-that-landed-is-retried",
        "a-first-snapshot-write-that-was-lost-is-cancelled",
        "a-first-snapshot-write-that-was-lost-is-retried",
        "a-manual-review-stays-manual",
        "a-name-that-is-a-tables-and-a-views",
        "a-node-dies-as-a-bucket-is-enabled",
        "a-node-dies-as-a-missing-index-entry-is-made",
        "a-node-dies-as-a-namespace-is-dropped",
        "a-node-dies-as-a-namespace-is-made",
        "a-node-dies-as-a-refused-creation-is-taken-back",
        "a-node-dies-as-a-stale-index-entry-goes",
        "a-node-dies-as-a-table-is-moved",
        "a-node-dies-as-a-view-is-dropped",
        "a-node-dies-as-a-view-is-replaced",
        "a-node-dies-as-an-abandoned-commit-is-put-aside",
        "a-node-dies-as-an-index-is-filled",
        "a-node-dies-as-the-strong-snapshot-is-taken-over",
        "a-node-dies-at-every-step-of-a-cancellation",
        "a-node-dies-at-every-step-of-a-commit",
        "a-node-dies-at-every-step-of-a-creation",
        "a-node-dies-at-every-step-of-a-drop",
        "a-node-dies-at-every-step-of-a-durable-strong-commit",
        "a-node-dies-at-every-step-of-a-migration",
        "a-node-dies-at-every-step-of-a-repair",
        "a-node-dies-at-every-step-of-a-view",
        "a-node-paused-past-its-lease-inside-a-commit",
        "a-node-paused-past-its-lease-inside-a-migration",
        "a-real-client-over-a-cutover",
        "a-release-of-version-1-meets-a-snapshot-of-version-2",
        "a-snapshot-near-and-over-its-cap",
        "a-snapshot-that-disappears",
        "a-writer-that-knows-no-fence",
        "an-older-snapshot-under-running-nodes",
        "an-older-snapshot-with-the-operators-consent",
        "back-to-object-backing-is-refused-while-fences-stand",
        "both-gates-serve-no-table-data-before-version-2",
        "cancel-before-cutover-restores-writing",
        "commits-whose-answers-are-lost-are-looked-for",
        "commits-whose-answers-are-lost-are-sent-again",
        "cutover-of-two-warehouses-under-writers",
        "each-verification-fails-for-a-cause-of-its-own",
        "each-verification-fails-once",
        "eight-writers-on-one-table",
        "every-changing-route-around-a-cutover",
        "one-gate-alone-changes-no-format",
        "power-cut-as-a-bucket-is-enabled",
        "power-cut-as-a-missing-index-entry-is-made",
        "power-cut-as-a-namespace-is-dropped",
        "power-cut-as-a-namespace-is-made",
        "power-cut-as-a-refused-creation-is-taken-back",
        "power-cut-as-a-stale-index-entry-goes",
        "power-cut-as-a-table-is-moved",
        "power-cut-as-a-view-is-dropped",
        "power-cut-as-a-view-is-replaced",
        "power-cut-as-an-abandoned-commit-is-put-aside",
        "power-cut-as-an-index-is-filled",
        "power-cut-as-the-strong-snapshot-is-taken-over",
        "power-cut-at-every-step-of-a-cancellation",
        "power-cut-at-every-step-of-a-commit",
        "power-cut-at-every-step-of-a-creation",
        "power-cut-at-every-step-of-a-drop",
        "power-cut-at-every-step-of-a-durable-strong-commit",
        "power-cut-at-every-step-of-a-migration",
        "power-cut-at-every-step-of-a-repair",
        "power-cut-at-every-step-of-a-view",
        "two-warehouses-are-cancelled-one-after-the-other",
        "version-2-is-not-written-while-a-name-is-two-things",
        "version-2-stays-when-the-gates-are-closed-again",
        "what-each-principal-may-do",
    ]
    "canary": [
        "acknowledges-before-its-quorum",
        "deletes-referenced-authority",
        "downgrades-snapshots",
        "forgets-fences",
        "forgets-the-drain",
        "heals-without-checking",
        "keeps-discarded-staging",
        "keeps-two-null-versions",
        "lets-root-pass",
        "names-before-contents",
        "passes-over-null-versions",
        "proves-without-checking",
        "purges-partial-markers",
        "rebuilds-before-markers-moved",
        "refuses-the-unknown",
        "releases-advanced-fences",
        "resumes-on-changed-mount",
        "returns-shards-unchecked",
        "skips-the-directory-sync",
        "stamps-whole-seconds",
        "walks-past-keys-below-keys",
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::harness::scenario::fault::Fault;
    use crate::harness::scenario::form::Step;
    use crate::harness::scenario::form::Suite;
    use crate::harness::scenario::parse;
    use crate::harness::scenario::parse::Scenario;
    use crate::harness::scenario::plan;
    use crate::harness::scenario::plan::Overrides;
    use crate::protocol::control::Defect;
    use crate::protocol::crash_point::CrashPoint;
    use crate::value::Seed;

    fn all() -> Vec<Scenario> {
        let read = |known: &BuiltIn| match parse::parse(known.file, known.family, known.text) {
            Ok(scenario) => scenario,
            Err(errors) => panic!("{errors:#?}"),
        };
        BUILT_IN.iter().map(read).collect()
    }

    fn faults() -> impl Iterator<Item = Fault> {
        let cases = all().into_iter().flat_map(|scenario| scenario.cases);
        let steps = cases.flat_map(|case| case.form.steps);
        steps.filter_map(|step| match step {
            Step::Inject(fault) => Some(fault),
            _ => None,
        })
    }

    #[test]
    fn every_scenario_file_is_built_in() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let mut files = BTreeSet::new();
        for family in std::fs::read_dir(&folder).unwrap() {
            let family = family.unwrap().path();
            for file in std::fs::read_dir(&family).unwrap() {
                let file = file.unwrap().path();
                files.insert(file.strip_prefix(&folder).unwrap().display().to_string());
            }
        }
        let built_in: BTreeSet<String> =
            BUILT_IN.iter().map(|known| known.file.to_owned()).collect();
        assert_eq!(files, built_in);
    }

    #[test]
    fn every_scenario_makes_sense_is_named_as_its_file_and_can_be_planned() {
        for (scenario, known) in all().iter().zip(BUILT_IN) {
            let file = Path::new(known.file).file_stem().unwrap().to_str().unwrap();
            assert_eq!(scenario.name, file);
            for case in &scenario.cases {
                let planned = plan::plan(case, Seed(1), Overrides::default());
                assert!(planned.is_ok(), "{planned:?}");
            }
        }
    }

    #[test]
    fn every_fault_is_used_by_some_scenario() {
        let used: BTreeSet<&str> = faults().map(|fault| fault.name()).collect();
        let all: BTreeSet<&str> = Fault::NAMES.iter().copied().collect();
        assert_eq!(used, all);
    }

    /// Points that no run can be made to reach, each with the reason.
    const OUT_OF_REACH: [(CrashPoint, &str); 2] = [
        (
            CrashPoint::CatalogCancelRegistryFenced,
            "no step of ours leaves a bucket fence without the registry fence: the registry fence is raised first and \
             goes last, each under all locks; the point is for state that somebody else has written",
        ),
        (
            CrashPoint::CatalogIndexReturned,
            "whatever can refuse a request is looked at before its reservation is written, and nothing is given back \
             without its locks; what remains is a drive that refuses one write and takes the next removal",
        ),
    ];

    #[test]
    fn every_crash_point_is_used_by_some_scenario() {
        let used: BTreeSet<CrashPoint> = faults().filter_map(|fault| fault.trigger().at).collect();
        let out_of_reach: BTreeSet<CrashPoint> = OUT_OF_REACH.iter().map(|row| row.0).collect();
        let all: BTreeSet<CrashPoint> = CrashPoint::ALL.iter().copied().collect();
        assert_eq!(&used | &out_of_reach, all);
        assert!(used.is_disjoint(&out_of_reach), "{out_of_reach:?}");
    }

    #[test]
    fn every_defect_has_a_canary() {
        let planted = all().into_iter().flat_map(|scenario| scenario.cases);
        let planted: BTreeSet<Defect> =
            planted.flat_map(|case| case.form.testbed.defects).collect();
        assert_eq!(planted, Defect::ALL.iter().copied().collect());
    }

    /// Faults that need a long recovery around them, so that no quick case has room for them.
    const NIGHTLY: [&str; 2] = ["hold", "tamper_record"];

    /// Goal: the quick suite stays quick, and leaves no family and no fault out, whatever the seed.
    #[test]
    fn the_quick_suite_has_at_most_thirty_cases_and_every_fault_of_every_family() {
        for seed in 0..20 {
            let mut cases = 0;
            let mut families = BTreeSet::new();
            let mut used = BTreeSet::new();
            for scenario in all() {
                if scenario.suite() > Suite::Quick || scenario.family == parse::CANARY {
                    continue;
                }
                families.insert(scenario.family.clone());
                for case in scenario.covered(Suite::Quick, Seed(seed)) {
                    cases += 1;
                    used.extend(case.form.steps.iter().filter_map(|step| match step {
                        Step::Inject(fault) => Some(fault.name()),
                        _ => None,
                    }));
                }
            }
            assert!(cases <= 30, "{cases} cases with seed {seed}");
            assert_eq!(families.len(), 6, "{families:?}");
            used.extend(NIGHTLY);
            assert_eq!(used.len(), Fault::NAMES.len(), "{used:?}");
        }
    }
}
