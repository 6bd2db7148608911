//! What a whole run came to: `verdict.json` of the folder that holds its cases.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde::Deserialize;
use serde::Serialize;

use super::case::CaseReport;
use super::class::ExitClass;
use super::redact::Redactor;
use crate::harness::check::Verdict;
use crate::protocol::crash_point::CrashPoint;
use crate::value::Seed;

/// How many findings of one case a summary keeps.
const HEADLINES_MAX: usize = 3;

/// Everything that is reported about one run of several cases.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SuiteReport {
    /// [`super::case::VERDICT_FORMAT`].
    pub format: u32,
    /// The name of the run's folder.
    pub run: String,
    /// The command that does the same again, its seed included.
    pub command: String,
    /// What every choice was drawn from.
    pub seed: Seed,
    /// When it began, in UTC.
    pub began_at: Option<String>,
    /// How long it took in all, in milliseconds.
    pub took_ms: u64,
    /// Which shard of all cases this is.
    pub partition: Option<Partition>,
    /// How the run as such ended: [`ExitClass::Held`] unless something outside its cases went wrong.
    pub class: ExitClass,
    /// What went wrong outside the cases, each a sentence.
    pub reasons: Vec<String>,
    /// Scenarios of which only some cases were drawn.
    pub drawn: Vec<Drawn>,
    /// The cases, in the order in which they were planned.
    pub cases: Vec<CaseSummary>,
    /// The firedrill that ran it.
    pub version: String,
}

/// One shard of all cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partition {
    /// Which one, from 1.
    pub shard: u64,
    /// Of how many.
    pub of: u64,
}

/// A scenario of which only some cases were drawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drawn {
    /// The scenario.
    pub scenario: String,
    /// Cases of this run.
    pub covered: u64,
    /// All its cases.
    pub all: u64,
}

/// One case in a run's summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseSummary {
    /// The case.
    pub case: String,
    /// Its family.
    pub family: String,
    /// The promise.
    pub claim: String,
    /// The folder of its files, below the run's.
    pub folder: String,
    /// How it counts.
    pub class: ExitClass,
    /// What is decided about the promises.
    pub verdict: Verdict,
    /// Whether it failed in just the way that its scenario expects.
    pub failed_as_expected: bool,
    /// Why it is not a plain pass, worst first.
    pub reasons: Vec<String>,
    /// The findings that matter most, `invariant: message`.
    pub findings: Vec<String>,
    /// How many findings there are in all.
    pub findings_total: u64,
    /// How long it took.
    pub took_ms: u64,
    /// The recovery time.
    pub recovery_ms: Option<u64>,
    /// The recovery point.
    pub acknowledged_writes_lost: Option<u64>,
    /// Faults that struck, by name, with how often.
    pub faults: BTreeMap<String, u64>,
    /// Crash points at which a fault struck.
    pub crash_points: BTreeSet<String>,
    /// The command that runs it again.
    pub rerun: String,
}

impl CaseSummary {
    /// The summary of `case`, whose files lie in `folder` below the run's.
    pub fn of(case: &CaseReport, folder: &str) -> Self {
        let mut findings: Vec<_> = case
            .judgements
            .iter()
            .flat_map(|judged| judged.findings.iter().map(move |found| (judged, found)))
            .collect();
        findings.sort_by_key(|(_, finding)| std::cmp::Reverse(finding.verdict));
        let mut faults = BTreeMap::new();
        let mut crash_points = BTreeSet::new();
        for fault in case.faults.iter().filter(|fault| fault.injected.is_some()) {
            *faults.entry(fault.name.clone()).or_default() += 1;
            crash_points.extend(fault.at.clone());
        }
        Self {
            case: case.about.case.clone(),
            family: case.about.family.clone(),
            claim: case.about.claim.clone(),
            folder: folder.to_owned(),
            class: case.class,
            verdict: case.verdict,
            failed_as_expected: case.expected.as_ref().is_some_and(|expected| expected.met),
            reasons: case.reasons.clone(),
            findings_total: findings.len() as u64,
            findings: findings
                .iter()
                .take(HEADLINES_MAX)
                .map(|(judged, finding)| format!("{}: {}", judged.invariant, finding.message))
                .collect(),
            took_ms: case.took_ms,
            recovery_ms: case.recovery.time_us().map(|time| time / 1_000),
            acknowledged_writes_lost: case.recovery.acknowledged_writes_lost,
            faults,
            crash_points,
            rerun: case.rerun.clone(),
        }
    }

    /// Whether it ran at all.
    pub fn ran(&self) -> bool {
        !matches!(self.class, ExitClass::Skipped | ExitClass::SkippedAllowed | ExitClass::Refused)
    }

    /// One word for a line or a badge: as the class has it, or `caught` for a canary and `known` for
    /// another failure that is expected.
    pub fn word(&self) -> &'static str {
        word(self.class, self.failed_as_expected, &self.family)
    }
}

/// The word for a case of this class and family.
pub(super) fn word(class: ExitClass, failed_as_expected: bool, family: &str) -> &'static str {
    match class {
        ExitClass::Held if failed_as_expected && family == super::case::CANARY_FAMILY => "caught",
        ExitClass::Held if failed_as_expected => "known",
        _ => class.word(),
    }
}

impl SuiteReport {
    /// The same without what `redactor` knows: a command line names folders of this machine.
    #[must_use]
    pub fn redacted(&self, redactor: &Redactor) -> Self {
        let reasons = self.reasons.iter().map(|reason| redactor.text(reason).into_owned());
        Self {
            command: redactor.text(&self.command).into_owned(),
            reasons: reasons.collect(),
            ..self.clone()
        }
    }

    /// How the run counts: the worst of itself and its cases; nothing when no case ran.
    pub fn overall(&self) -> ExitClass {
        let cases = self.cases.iter().map(|case| case.class);
        let worst = cases.fold(self.class, ExitClass::worst);
        if self.cases.iter().any(CaseSummary::ran) {
            worst
        } else {
            worst.worst(ExitClass::Nothing)
        }
    }

    /// The cases, worst first; of equally bad ones, the slowest first.
    pub fn worst_first(&self) -> Vec<&CaseSummary> {
        let mut cases: Vec<_> = self.cases.iter().collect();
        cases.sort_by_key(|case| {
            (
                std::cmp::Reverse(case.class.severity()),
                !case.failed_as_expected,
                std::cmp::Reverse(case.took_ms),
            )
        });
        cases
    }

    /// How many cases each word counts, worst first.
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        let mut counts: Vec<(&'static str, u64)> = Vec::new();
        for case in self.worst_first() {
            match counts.iter_mut().find(|(word, _)| *word == case.word()) {
                Some((_, count)) => *count += 1,
                None => counts.push((case.word(), 1)),
            }
        }
        counts
    }

    /// Every crash point there is, with whether a fault struck at it in some case.
    pub fn crash_points(&self) -> Vec<(&'static str, bool)> {
        let struck = |name: &str| self.cases.iter().any(|case| case.crash_points.contains(name));
        CrashPoint::ALL.iter().map(|point| (point.name(), struck(point.name()))).collect()
    }
}
