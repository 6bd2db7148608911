//! What one case came to: `verdict.json` of its directory.
//!
//! Facts only, in words that need no other file. `assemble` gathers them, `conclude` draws the
//! conclusion, every page and line is rendered from them (and the history, for the timeline).

use serde::Deserialize;
use serde::Serialize;

use super::class::ExitClass;
use crate::harness::check::Judgement;
use crate::harness::check::Verdict;
use crate::harness::scenario::form::ExpectedFailure;
use crate::harness::scenario::form::Suite;
use crate::harness::scenario::plan::Filesystem;
use crate::harness::scenario::plan::Plan;
use crate::harness::scenario::plan::Rung;
use crate::harness::workload::history::OperatorNote;
use crate::protocol::config::Durability;
use crate::protocol::control::Defect;
use crate::value::Seed;

/// The format of a verdict file, of a case as of a whole run.
pub const VERDICT_FORMAT: u32 = 1;

/// The family whose cases plant a defect and must be caught.
pub const CANARY_FAMILY: &str = "canary";

/// Everything that is decided and reported about one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseReport {
    /// [`VERDICT_FORMAT`].
    pub format: u32,
    /// What was rehearsed.
    pub about: About,
    /// How it counts for the exit code.
    pub class: ExitClass,
    /// What is decided about the promises.
    pub verdict: Verdict,
    /// Why it is not a plain pass, worst first, each a sentence; empty for a plain pass.
    pub reasons: Vec<String>,
    /// What each invariant found, in the scenario's order.
    pub judgements: Vec<Judgement>,
    /// What had to happen, and how often it did.
    pub provokes: Vec<Provoked>,
    /// The failure that the scenario expects, and whether it is what happened.
    pub expected: Option<Expected>,
    /// How long the way back took, and what it cost.
    pub recovery: Recovery,
    /// The time objective of the last settle.
    pub objective: Option<Objective>,
    /// Steps and phases, in order.
    pub phases: Vec<Phase>,
    /// What was broken, with its evidence.
    pub faults: Vec<FaultReport>,
    /// What operators did with tools, in order, and the files that it left.
    #[serde(default)]
    pub procedure: Vec<OperatorNote>,
    /// The releases that nodes behaved as, in order, where it was not their own.
    #[serde(default)]
    pub releases: Vec<String>,
    /// What clients were told.
    pub operations: OperationCounts,
    /// What the drives held in the end; `None` when no census could be taken.
    pub census: Option<CensusCounts>,
    /// What this run cannot have shown.
    pub not_tested: Vec<String>,
    /// What is missing at the end of the history, if anything.
    pub torn: Option<String>,
    /// The command that runs this case again with the same choices.
    pub rerun: String,
    /// When it began, in UTC; unknown to a judge of copied files.
    pub began_at: Option<String>,
    /// How long it took in all, in milliseconds.
    pub took_ms: u64,
    /// The firedrill that judged it.
    pub version: String,
}

/// What was rehearsed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// The scenario.
    pub scenario: String,
    /// The case: the scenario's name, with its value in brackets when there are several.
    pub case: String,
    /// The family of the scenario.
    pub family: String,
    /// The promise, in a sentence.
    pub claim: String,
    /// What it goes back to.
    pub sources: Vec<String>,
    /// The smallest suite that runs it.
    pub suite: Suite,
    /// What every choice was drawn from.
    pub seed: Seed,
    /// What was real.
    pub rung: Rung,
    /// What an acknowledgement promised.
    pub durability: Durability,
    /// Processes.
    pub nodes: usize,
    /// Drives of each.
    pub drives_per_node: usize,
    /// Drives of one erasure set.
    pub set_drives: usize,
    /// Parity shards of an object.
    pub parity: usize,
    /// The file system of every drive.
    pub filesystem: Filesystem,
    /// Size of a drive in MiB.
    pub drive_mib: u64,
    /// Defects that were planted.
    pub defects: Vec<Defect>,
}

impl About {
    /// What `plan` is about.
    pub fn of(plan: &Plan) -> Self {
        let scenario = plan.case.split('[').next().unwrap_or_default();
        let testbed = &plan.testbed;
        Self {
            scenario: scenario.to_owned(),
            case: plan.case.clone(),
            family: plan.family.clone(),
            claim: plan.claim.clone(),
            sources: plan.sources.clone(),
            suite: plan.suite,
            seed: plan.seed,
            rung: testbed.rung,
            durability: testbed.durability,
            nodes: testbed.nodes,
            drives_per_node: testbed.drives_per_node,
            set_drives: testbed.set_drives,
            parity: testbed.parity,
            filesystem: testbed.filesystem,
            drive_mib: testbed.drive_mib,
            defects: testbed.defects.clone(),
        }
    }

    /// Whether the case plants a defect in order to be caught.
    pub fn is_canary(&self) -> bool {
        self.family == CANARY_FAMILY
    }
}

/// Something that had to happen for the verdict to mean anything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provoked {
    /// What is counted, as scenarios spell it.
    pub what: String,
    /// How often at least.
    pub stated: u64,
    /// How often it was seen.
    pub seen: u64,
}

impl Provoked {
    /// Whether it happened often enough.
    pub fn is_enough(&self) -> bool {
        self.seen >= self.stated
    }
}

/// A failure that the scenario expects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// As the scenario states it.
    pub failure: ExpectedFailure,
    /// Whether exactly this happened, in time.
    pub met: bool,
}

/// How long the way back took, and what it cost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recovery {
    /// Detect, restart, hand off, rebuild, verify: always all five, in this order.
    pub phases: Vec<RecoveryPhase>,
    /// The recovery point: acknowledged writes that were lost; `None` when that was not judged.
    pub acknowledged_writes_lost: Option<u64>,
}

impl Recovery {
    /// The recovery time: the sum of its phases; `None` when none of them was passed.
    pub fn time_us(&self) -> Option<u64> {
        let mut passed = self.phases.iter().filter_map(|phase| phase.took_us).peekable();
        passed.peek()?;
        Some(passed.sum())
    }
}

/// One phase of the way back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecoveryPhase {
    /// Its name.
    pub name: String,
    /// Microseconds spent in it; `None` when this run had no such phase.
    pub took_us: Option<u64>,
    /// From what to what it is measured.
    pub measured: String,
}

/// A time objective.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objective {
    /// The objective, in milliseconds.
    pub within_ms: u64,
    /// What it took.
    pub took_ms: u64,
    /// Whether everything was whole then.
    pub whole: bool,
    /// Whether the drives still grew more whole when they were last looked at; `None` without a look.
    pub progressed: Option<bool>,
    /// What was left to do, in words; empty when whole.
    pub left: String,
    /// Whether its time is judged: not when cases shared the machine.
    pub judged: bool,
}

impl Objective {
    /// Whether it was met.
    pub fn is_met(&self) -> bool {
        self.whole && self.took_ms <= self.within_ms
    }
}

/// A step or phase of the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// When it began, in microseconds since the run began.
    pub from_us: u64,
    /// When the next one began.
    pub to_us: u64,
}

/// One fault with the three facts that it must leave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultReport {
    /// Its number in the run.
    pub fault: u64,
    /// Its name, as scenarios spell it.
    pub name: String,
    /// The nodes it concerned.
    pub nodes: Vec<usize>,
    /// The drives it concerned.
    pub drives: Vec<String>,
    /// The crash point at which it struck.
    pub at: Option<String>,
    /// It was done, and seen to be done.
    pub injected: Option<FaultFact>,
    /// Work went on while it lasted.
    pub in_force: Option<FaultFact>,
    /// It was undone, and seen to be undone.
    pub healed: Option<FaultFact>,
    /// It could not be brought about.
    pub not_reached: Option<FaultFact>,
}

/// One fact about a fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultFact {
    /// When, in microseconds since the run began.
    pub at_us: u64,
    /// What was measured, in words.
    pub evidence: String,
    /// The line of the history that says so.
    pub line: u64,
}

/// What clients were told, final reads left out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationCounts {
    /// Writes: puts, copies, completed uploads, deletes.
    pub writes: Outcomes,
    /// Reads and listings.
    pub reads: Outcomes,
    /// Everything else: buckets, parts of uploads.
    pub others: Outcomes,
    /// Final reads: what the settled cluster was asked.
    pub final_reads: u64,
}

impl OperationCounts {
    /// All of them together, final reads left out.
    pub fn all(&self) -> Outcomes {
        Outcomes {
            acknowledged: self.writes.acknowledged
                + self.reads.acknowledged
                + self.others.acknowledged,
            refused: self.writes.refused + self.reads.refused + self.others.refused,
            ambiguous: self.writes.ambiguous + self.reads.ambiguous + self.others.ambiguous,
        }
    }
}

/// How requests ended for their clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outcomes {
    /// They took effect.
    pub acknowledged: u64,
    /// They took none.
    pub refused: u64,
    /// Nobody can tell.
    pub ambiguous: u64,
}

impl Outcomes {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.acknowledged + self.refused + self.ambiguous
    }
}

/// What the drives held in the end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CensusCounts {
    /// Drives that belong to the deployment and sit in their slots.
    pub drives_member: u64,
    /// All drives.
    pub drives: u64,
    /// Keys.
    pub keys: u64,
    /// Versions that are whole on every drive of their set.
    pub full: u64,
    /// Versions that can be read, with a margin.
    pub degraded: u64,
    /// Versions that can be read, with nothing to spare.
    pub at_risk: u64,
    /// Leftovers of writes below their quorum.
    pub uncommitted: u64,
    /// Versions that cannot be read.
    pub unreadable: u64,
    /// Versions that contradict themselves.
    pub divergent: u64,
    /// Things that no version owns.
    pub surplus: u64,
    /// Bytes that were read and hashed.
    pub bytes_read: u64,
}

impl CensusCounts {
    /// All versions.
    pub fn versions(&self) -> u64 {
        self.full
            + self.degraded
            + self.at_risk
            + self.uncommitted
            + self.unreadable
            + self.divergent
    }
}
