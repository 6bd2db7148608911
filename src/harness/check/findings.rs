//! How an invariant keeps count while it looks, and comes to its judgement. Pure.

use super::Finding;
use super::Judgement;
use super::Verdict;
use super::Witnesses;
use crate::harness::audit::census::Census;
use crate::value::ObjectKey;

/// Findings of one kind that are written out; the rest is counted in the last one.
const FINDINGS_MAX: usize = 50;
/// More excused losses than this share of what was examined leave nothing to judge, in percent.
const EXCUSED_PERCENT_MAX: u64 = 5;

/// One invariant at work.
#[derive(Debug)]
pub(super) struct Examination {
    invariant: &'static str,
    examined: u64,
    excused: u64,
    findings: Vec<Finding>,
    left_out: u64,
}

/// A finding under construction.
#[derive(Debug)]
pub(super) struct Found(Finding);

impl Found {
    /// A broken promise.
    pub(super) fn fail(kind: &str, message: String) -> Self {
        Self::new(kind, Verdict::Fail, message)
    }

    /// A reason why nobody can tell.
    pub(super) fn undecided(kind: &str, message: String) -> Self {
        Self::new(kind, Verdict::Undecided, message)
    }

    fn new(kind: &str, verdict: Verdict, message: String) -> Self {
        let kind = kind.to_owned();
        let (target, operations, evidence) = (None, Vec::new(), Vec::new());
        Self(Finding { kind, verdict, target, message, operations, evidence })
    }

    /// What it is about.
    pub(super) fn about(mut self, key: &ObjectKey) -> Self {
        self.0.target = Some(key.to_string());
        self
    }

    /// The operations that explain it.
    pub(super) fn explained_by(mut self, operations: impl IntoIterator<Item = u64>) -> Self {
        self.0.operations.extend(operations);
        self.0.operations.dedup();
        self
    }

    /// Where it shows.
    pub(super) fn shown_in(mut self, evidence: impl Into<String>) -> Self {
        self.0.evidence.push(evidence.into());
        self
    }
}

impl Examination {
    /// Nothing looked at yet.
    pub(super) fn of(invariant: &'static str) -> Self {
        Self { invariant, examined: 0, excused: 0, findings: Vec::new(), left_out: 0 }
    }

    /// The census; without one it is told that nobody can tell.
    pub(super) fn census<'a>(&mut self, witnesses: &Witnesses<'a>) -> Option<&'a Census> {
        if witnesses.census.is_none() {
            self.nobody_looked();
        }
        witnesses.census
    }

    /// There is no census.
    pub(super) fn nobody_looked(&mut self) {
        let message = "nobody looked at the drives".to_owned();
        self.found(Found::undecided("no_census", message));
    }

    /// One more thing was looked at.
    pub(super) fn examined(&mut self) {
        self.examined += 1;
    }

    /// A loss that was beyond tolerance.
    pub(super) fn excused(&mut self) {
        self.excused += 1;
    }

    /// A finding. Of each kind only the first ones are written out.
    pub(super) fn found(&mut self, found: Found) {
        let Found(finding) = found;
        let alike = self.findings.iter().filter(|known| known.kind == finding.kind).count();
        if alike < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.left_out += 1;
        }
    }

    /// The judgement.
    pub(super) fn finish(mut self) -> Judgement {
        if self.excused * 100 > self.examined * EXCUSED_PERCENT_MAX {
            let message = format!(
                "{} of {} were beyond what the cluster could spare: too many to judge the rest",
                self.excused, self.examined
            );
            self.findings.push(Found::undecided("too_many_excused", message).0);
        }
        if self.examined == 0 && self.findings.is_empty() {
            let message = "there was nothing to look at".to_owned();
            self.findings.push(Found::undecided("nothing_examined", message).0);
        }
        if self.left_out > 0
            && let Some(last) = self.findings.last_mut()
        {
            last.message += &format!(" (and {} findings more)", self.left_out);
        }
        let worst = self.findings.iter().map(|finding| finding.verdict).max();
        let verdict = match worst {
            None => Verdict::Pass,
            Some(worst) => worst,
        };
        Judgement {
            invariant: self.invariant.to_owned(),
            verdict,
            examined: self.examined,
            excused: self.excused,
            findings: self.findings,
        }
    }
}
