//! Several runs at once: shards put together, and a run held against an earlier one. Pure.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde::Serialize;

use super::class::ExitClass;
use super::gather;
use super::suite::SuiteReport;

/// A case is slower when it takes this much longer than before, in percent...
const SLOWER_PERCENT: u64 = 150;

/// ...and by more than this, so that noise of short cases is not reported.
const SLOWER_MS_MIN: u64 = 1_000;

/// What changed between two runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// The name of the earlier run.
    pub against: String,
    /// Cases that held before and do not now: case, before, now.
    pub newly_failing: Vec<(String, String, String)>,
    /// Cases that did not hold before and do now: case, before, now.
    pub newly_passing: Vec<(String, String, String)>,
    /// Cases that take much longer: case, what (`case` or `recovery`), before and now in ms.
    pub slower: Vec<(String, String, u64, u64)>,
    /// Cases that only this run has.
    pub added: Vec<String>,
    /// Cases that only the earlier run has.
    pub removed: Vec<String>,
    /// Crash points at which a fault strikes only now.
    pub points_gained: Vec<String>,
    /// Crash points at which a fault struck only before.
    pub points_lost: Vec<String>,
}

impl Comparison {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        *self == Self { against: self.against.clone(), ..Self::default() }
    }
}

/// What changed from `before` to `now`. Of a case that was repeated, the worst and the slowest counts.
pub fn compare(now: &SuiteReport, before: &SuiteReport) -> Comparison {
    let (now_cases, before_cases) = (by_case(now), by_case(before));
    let mut comparison = Comparison { against: before.run.clone(), ..Comparison::default() };
    for (name, case) in &now_cases {
        let Some(earlier) = before_cases.get(name) else {
            comparison.added.push((*name).to_owned());
            continue;
        };
        let change = || ((*name).to_owned(), earlier.word.to_owned(), case.word.to_owned());
        match (earlier.class.needs_attention(), case.class.needs_attention()) {
            (false, true) => comparison.newly_failing.push(change()),
            (true, false) => comparison.newly_passing.push(change()),
            _ => {}
        }
        if is_slower(earlier.took_ms, case.took_ms) {
            let what = "case".to_owned();
            comparison.slower.push(((*name).to_owned(), what, earlier.took_ms, case.took_ms));
        }
        if let (Some(earlier_ms), Some(ms)) = (earlier.recovery_ms, case.recovery_ms)
            && is_slower(earlier_ms, ms)
        {
            let what = "recovery".to_owned();
            comparison.slower.push(((*name).to_owned(), what, earlier_ms, ms));
        }
    }
    let gone = before_cases.keys().filter(|name| !now_cases.contains_key(*name));
    comparison.removed = gone.map(|name| (*name).to_owned()).collect();
    let (points_now, points_before) = (points(now), points(before));
    comparison.points_gained = points_now.difference(&points_before).cloned().collect();
    comparison.points_lost = points_before.difference(&points_now).cloned().collect();
    comparison
}

fn is_slower(before_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_mul(100) > before_ms.saturating_mul(SLOWER_PERCENT)
        && now_ms - before_ms > SLOWER_MS_MIN
}

fn points(run: &SuiteReport) -> BTreeSet<String> {
    run.cases.iter().flat_map(|case| case.crash_points.iter().cloned()).collect()
}

/// A case with all its repetitions.
struct Repeated {
    class: ExitClass,
    word: &'static str,
    took_ms: u64,
    recovery_ms: Option<u64>,
}

fn by_case(run: &SuiteReport) -> BTreeMap<&str, Repeated> {
    let mut cases: BTreeMap<&str, Repeated> = BTreeMap::new();
    for case in &run.cases {
        let one = Repeated {
            class: case.class,
            word: case.word(),
            took_ms: case.took_ms,
            recovery_ms: case.recovery_ms,
        };
        match cases.get_mut(case.case.as_str()) {
            None => {
                cases.insert(&case.case, one);
            }
            Some(known) => {
                if one.class.severity() > known.class.severity() {
                    (known.class, known.word) = (one.class, one.word);
                }
                known.took_ms = known.took_ms.max(one.took_ms);
                known.recovery_ms = known.recovery_ms.max(one.recovery_ms);
            }
        }
    }
    cases
}

/// Puts runs together into one. Shards of one partition must be there, each once; otherwise the whole
/// is undecided and says which is missing or double. Without a run there is nothing to put together.
pub fn merge(runs: &[SuiteReport]) -> Option<SuiteReport> {
    let (first, others) = runs.split_first()?;
    let mut merged = first.clone();
    if others.is_empty() {
        blame_shards(&mut merged, runs);
        return Some(merged);
    }
    merged = SuiteReport {
        run: runs.iter().map(|run| run.run.as_str()).collect::<Vec<_>>().join(" + "),
        took_ms: runs.iter().map(|run| run.took_ms).sum(),
        partition: None,
        class: runs.iter().fold(ExitClass::Held, |worst, run| worst.worst(run.class)),
        reasons: runs.iter().flat_map(|run| run.reasons.clone()).collect(),
        drawn: Vec::new(),
        cases: Vec::new(),
        command: gather::together(runs.iter().map(|run| run.command.as_str())),
        ..first.clone()
    };
    for run in runs {
        for drawn in &run.drawn {
            // Shards draw from the same cases: what one of them covered, the whole has covered.
            match merged.drawn.iter_mut().find(|known| known.scenario == drawn.scenario) {
                Some(known) => known.covered = (known.covered + drawn.covered).min(known.all),
                None => merged.drawn.push(drawn.clone()),
            }
        }
        merged.cases.extend(run.cases.iter().cloned());
    }
    blame_shards(&mut merged, runs);
    Some(merged)
}

/// Says which shard is missing or double.
fn blame_shards(merged: &mut SuiteReport, runs: &[SuiteReport]) {
    let mut partitions: BTreeMap<(u64, u64), BTreeMap<u64, usize>> = BTreeMap::new();
    for run in runs {
        if let Some(partition) = run.partition {
            let shards = partitions.entry((run.seed.0, partition.of)).or_default();
            *shards.entry(partition.shard).or_default() += 1;
        }
    }
    for ((seed, of), shards) in &partitions {
        for shard in 1..=*of {
            let problem = match shards.get(&shard).copied().unwrap_or(0) {
                1 => continue,
                0 => format!("shard {shard} of {of} (seed {seed}) is missing"),
                times => format!("shard {shard} of {of} (seed {seed}) is there {times} times"),
            };
            merged.reasons.push(problem);
            merged.class = merged.class.worst(ExitClass::Undecided);
        }
    }
}
