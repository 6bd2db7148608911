//! The invariants: one file each, pure, *Verified / Not verified* at its head.
//!
//! A checker gets facts ([`Witnesses`]) and answers with a [`Judgement`]. It has no clock, file,
//! socket or dice and knows no protocol code; `audit` and `workload` have gathered what it sees.

mod acknowledged_commits_survive;
mod acknowledged_writes_survive;
mod catalog_changes_survive;
mod checksums_match;
mod commits_are_linear;
mod conditional_writes_are_atomic;
mod consent;
mod deletes_stay_deleted;
mod drives_agree;
mod every_version_is_full;
mod evidence_is_retained;
pub mod facts;
mod fence_holds;
mod findings;
mod format_never_downgrades;
mod generations;
mod historical_data_on_target;
mod listings_agree;
mod markers_match_authority;
pub mod model;
mod no_foreign_bytes;
mod no_orphan_generation;
mod no_split_brain;
mod no_step_back;
mod nothing_leaked;
mod null_version_is_unique;
mod one_successor;
mod pointer_never_steps_back;
mod policy_never_bypassed;
mod proof_is_true;
mod reads_are_linearizable;
mod repair_moves_no_pointer;
mod rights;
mod service_returned;
mod sightings;
mod snapshot_equals_source;
mod tables;
mod versions_are_ordered;

pub use facts::Facts;
pub use facts::Witnesses;
use serde::Deserialize;
use serde::Serialize;

/// What is decided about a claim, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It held, and there was something to hold.
    Pass,
    /// Nobody can tell from this run.
    Undecided,
    /// A promise was broken.
    Fail,
}

/// What one invariant found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Judgement {
    /// The invariant, as scenarios spell it.
    pub invariant: String,
    /// The worst of its findings; undecided when nothing was examined.
    pub verdict: Verdict,
    /// How many things (operations, versions, keys, as the invariant counts) it looked at.
    pub examined: u64,
    /// How many losses were excused as beyond tolerance.
    pub excused: u64,
    /// What it found; empty for a pass.
    pub findings: Vec<Finding>,
}

/// One broken promise, or one reason why nobody can tell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// A stable name for this kind of finding, for `expect: fails`.
    pub kind: String,
    /// Fail or undecided.
    pub verdict: Verdict,
    /// `bucket/key`, when it is about one.
    pub target: Option<String>,
    /// What was promised and what was seen, one or two sentences.
    pub message: String,
    /// The shortest list of operations that explains it.
    pub operations: Vec<u64>,
    /// Files and offsets that show it: `census.json`, `history.jsonl:LINE`, `drive: path @ offset`.
    pub evidence: Vec<String>,
}

/// One invariant: a promise that every run can be held to.
#[derive(Debug, Clone, Copy)]
pub struct Invariant {
    /// Its name, as scenarios spell it.
    pub name: &'static str,
    /// The promise, in one sentence.
    pub promise: &'static str,
    /// Judges it.
    pub judge: fn(&Witnesses<'_>) -> Judgement,
}

/// Every invariant there is, in the order in which reports show them.
pub const INVARIANTS: &[Invariant] = &[
    Invariant {
        name: acknowledged_writes_survive::NAME,
        promise: "Acknowledged writes survive; refused ones stay away.",
        judge: acknowledged_writes_survive::judge,
    },
    Invariant {
        name: deletes_stay_deleted::NAME,
        promise: "What was deleted stays deleted.",
        judge: deletes_stay_deleted::judge,
    },
    Invariant {
        name: reads_are_linearizable::NAME,
        promise: "Every key behaves like one register of versions, whoever asks and whatever breaks.",
        judge: reads_are_linearizable::judge,
    },
    Invariant {
        name: conditional_writes_are_atomic::NAME,
        promise: "A conditional write looks and writes in one instant.",
        judge: conditional_writes_are_atomic::judge,
    },
    Invariant {
        name: no_foreign_bytes::NAME,
        promise: "Nobody ever gets bytes that no write to that key has put there.",
        judge: no_foreign_bytes::judge,
    },
    Invariant {
        name: checksums_match::NAME,
        promise: "What is announced of contents is true of their bytes, recomputed by us.",
        judge: checksums_match::judge,
    },
    Invariant {
        name: null_version_is_unique::NAME,
        promise: "A key has at most one null version.",
        judge: null_version_is_unique::judge,
    },
    Invariant {
        name: versions_are_ordered::NAME,
        promise: "Versions of a key stand in the order in which they were written, everywhere.",
        judge: versions_are_ordered::judge,
    },
    Invariant {
        name: listings_agree::NAME,
        promise: "Lists, HEAD and GET tell one story in the end, on every node, and it is that of the drives.",
        judge: listings_agree::judge,
    },
    Invariant {
        name: every_version_is_full::NAME,
        promise: "Every version has all its shards again, on every drive of its set.",
        judge: every_version_is_full::judge,
    },
    Invariant {
        name: drives_agree::NAME,
        promise: "All drives tell one story.",
        judge: drives_agree::judge,
    },
    Invariant {
        name: nothing_leaked::NAME,
        promise: "After settling, the drives hold nothing that no version owns.",
        judge: nothing_leaked::judge,
    },
    Invariant {
        name: one_successor::NAME,
        promise: "A rebuild is handed to one successor, and no drive is rebuilt by two at once.",
        judge: one_successor::judge,
    },
    Invariant {
        name: no_orphan_generation::NAME,
        promise: "After settling, no replacement is left half done.",
        judge: no_orphan_generation::judge,
    },
    Invariant {
        name: markers_match_authority::NAME,
        promise: "A drive is marked by whoever rebuilds it, and by nobody else.",
        judge: markers_match_authority::judge,
    },
    Invariant {
        name: proof_is_true::NAME,
        promise: "What a completion proof says of a drive is so.",
        judge: proof_is_true::judge,
    },
    Invariant {
        name: service_returned::NAME,
        promise: "After every fault is healed, the cluster becomes whole and every node serves again.",
        judge: service_returned::judge,
    },
    Invariant {
        name: evidence_is_retained::NAME,
        promise: "What tells how a drive was rebuilt, and by whose authority, is kept for good.",
        judge: evidence_is_retained::judge,
    },
    Invariant {
        name: no_step_back::NAME,
        promise: "No record or marker of a replacement ever goes back.",
        judge: no_step_back::judge,
    },
    Invariant {
        name: historical_data_on_target::NAME,
        promise: "A rebuild that is claimed to be complete has brought every historical version.",
        judge: historical_data_on_target::judge,
    },
    Invariant {
        name: acknowledged_commits_survive::NAME,
        promise: "Acknowledged commits survive, each once; refused ones stay away.",
        judge: acknowledged_commits_survive::judge,
    },
    Invariant {
        name: commits_are_linear::NAME,
        promise: "The commits of a table are one chain, and each made a generation of its own.",
        judge: commits_are_linear::judge,
    },
    Invariant {
        name: snapshot_equals_source::NAME,
        promise: "While a migration stands and nobody has taken over, the snapshot is what was copied.",
        judge: snapshot_equals_source::judge,
    },
    Invariant {
        name: fence_holds::NAME,
        promise: "While a migration stands, nothing object-backed is changed.",
        judge: fence_holds::judge,
    },
    Invariant {
        name: policy_never_bypassed::NAME,
        promise: "What a table's policy denies is denied, whoever asks.",
        judge: policy_never_bypassed::judge,
    },
    Invariant {
        name: pointer_never_steps_back::NAME,
        promise: "The pointer of a table only goes on, whoever asks and whatever backing it has.",
        judge: pointer_never_steps_back::judge,
    },
    Invariant {
        name: no_split_brain::NAME,
        promise: "One backing counts, and nothing is acknowledged by the other.",
        judge: no_split_brain::judge,
    },
    Invariant {
        name: format_never_downgrades::NAME,
        promise: "A strong snapshot keeps the version that it has reached.",
        judge: format_never_downgrades::judge,
    },
    Invariant {
        name: repair_moves_no_pointer::NAME,
        promise: "A repair of what interrupted commits left moves no table's pointer.",
        judge: repair_moves_no_pointer::judge,
    },
    Invariant {
        name: catalog_changes_survive::NAME,
        promise: "Acknowledged creations and drops of what has a name in the catalog survive.",
        judge: catalog_changes_survive::judge,
    },
];

/// The invariant called `name`.
pub fn invariant(name: &str) -> Option<&'static Invariant> {
    INVARIANTS.iter().find(|invariant| invariant.name == name)
}

/// Judges the invariants called `names`, in that order. A name that does not exist is undecided and
/// says so: scenarios are checked for that long before.
pub fn judge(witnesses: &Witnesses<'_>, names: &[String]) -> Vec<Judgement> {
    let judge_one = |name: &String| match invariant(name) {
        Some(invariant) => (invariant.judge)(witnesses),
        None => Judgement {
            invariant: name.clone(),
            verdict: Verdict::Undecided,
            examined: 0,
            excused: 0,
            findings: Vec::new(),
        },
    };
    names.iter().map(judge_one).collect()
}

/// The worst of `judgements`; undecided when there is none.
pub fn worst(judgements: &[Judgement]) -> Verdict {
    judgements.iter().map(|judgement| judgement.verdict).max().unwrap_or(Verdict::Undecided)
}
