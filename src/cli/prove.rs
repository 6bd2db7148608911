//! `firedrill prove`: runs each canary and the same scenario without its defect. The one must be
//! caught, the other must pass.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::Exit;
use super::run;
use crate::harness::check::Verdict;
use crate::harness::report::CaseReport;
use crate::harness::report::terminal::Terminal;
use crate::harness::runner::judge;
use crate::harness::runner::recorded;
use crate::harness::runner::selection::Catalogue;
use crate::harness::runner::suite::Ended;
use crate::harness::runner::suite::RunOptions;
use crate::harness::scenario::parse::CONTROL_SUFFIX;
use crate::harness::scenario::parse::Case;
use crate::harness::scenario::plan::Overrides;
use crate::out::sayln;
use crate::value::Seed;

/// Arguments of `prove`.
#[derive(Debug, Clone, Args)]
pub struct ProveArgs {
    /// Canaries; all when none is named
    pub canaries: Vec<String>,
    /// Run each canary and its control so many times
    #[arg(long, default_value_t = 1)]
    pub repeat: u32,
    /// Print the table of invariants and defects
    #[arg(long)]
    pub matrix: bool,
    /// The seed; drawn and printed when absent
    #[arg(long)]
    pub seed: Option<u64>,
    /// Run so many cases at once
    #[arg(long, default_value_t = 1)]
    pub jobs: usize,
    /// Where run directories are made
    #[arg(long, default_value = "reports")]
    pub report_dir: PathBuf,
}

/// Runs the canaries that `arguments` name, with their controls.
pub fn run(arguments: &ProveArgs) -> Exit {
    let seed = arguments.seed.map_or_else(run::draw, Seed);
    let options = match prepare(arguments, seed) {
        Ok(options) => options,
        Err((exit, message)) => {
            eprintln!("{message}");
            return exit;
        }
    };
    sayln!("seed {seed}, {} cases", options.plans.len());
    let ended = match run::perform(options, Terminal::detect()) {
        Ok(ended) => ended,
        Err((exit, message)) => {
            eprintln!("{message}");
            return exit;
        }
    };
    let mut exit = match ended.report.class {
        crate::harness::report::ExitClass::Held => Exit::Held,
        class => Exit::from(class),
    };
    for (canary, tally) in tallies(&ended.cases) {
        sayln!("{}", tally.line(&canary));
        exit = exit.worst(tally.exit());
    }
    if arguments.matrix {
        match matrix(&ended) {
            Ok((text, is_full)) => {
                sayln!("{text}");
                if !is_full {
                    exit = exit.worst(Exit::Broken);
                }
            }
            Err(message) => {
                eprintln!("firedrill prove: {message}");
                exit = exit.worst(Exit::Internal);
            }
        }
    }
    sayln!("reports: {}", ended.directory.root().display());
    sayln!("seed {seed}");
    if let Err(error) = run::give_back(&arguments.report_dir) {
        eprintln!("firedrill prove: the reports stay root's: {error}");
    }
    exit
}

/// Selects and plans; touches nothing.
fn prepare(arguments: &ProveArgs, seed: Seed) -> Result<RunOptions, run::Refused> {
    let catalogue = Catalogue::load().map_err(|error| (Exit::Usage, error.to_string()))?;
    let all = catalogue.scenarios.iter().flat_map(|scenario| &scenario.cases);
    let canaries: Vec<&Case> = all.filter(|case| case.is_canary()).collect();
    let mut cases: Vec<Case> = Vec::new();
    let named = arguments.canaries.iter().map(|name| {
        let name = name.rsplit('/').next().unwrap_or(name);
        name.strip_suffix(CONTROL_SUFFIX).unwrap_or(name)
    });
    let named: Vec<&str> = named.collect();
    for name in &named {
        if !canaries.iter().any(|case| case.name == *name) {
            return Err((Exit::Usage, format!("firedrill prove: there is no canary `{name}`")));
        }
    }
    for canary in canaries {
        if named.is_empty() || named.contains(&canary.name.as_str()) {
            cases.extend([canary.clone(), canary.control()]);
        }
    }
    if cases.is_empty() || arguments.repeat == 0 || arguments.jobs == 0 {
        return Err((Exit::Nothing, "firedrill prove: nothing to prove".to_owned()));
    }
    run::needs_root("prove")?;
    let plans = run::plans(&cases, seed, arguments.repeat, Overrides::default())?;
    run::fits(&plans, arguments.jobs)?;
    Ok(RunOptions {
        plans,
        seed,
        command: run::command(seed),
        partition: None,
        drawn: Vec::new(),
        jobs: arguments.jobs,
        fail_fast: false,
        keep: false,
        may_lack: Vec::new(),
        report_dir: arguments.report_dir.clone(),
        program: run::program()?,
        clients: Arc::default(),
    })
}

/// How often a canary was caught, and how often its control passed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Tally {
    runs: u32,
    caught: u32,
    undecided: u32,
    controls: u32,
    passed: u32,
    controls_undecided: u32,
    finding: String,
}

/// The tallies of all canaries.
fn tallies(cases: &[CaseReport]) -> BTreeMap<String, Tally> {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    for case in cases {
        let name = &case.about.case;
        if let Some(canary) = name.strip_suffix(CONTROL_SUFFIX) {
            let tally = tallies.entry(canary.to_owned()).or_default();
            tally.controls += 1;
            match case.verdict {
                Verdict::Pass => tally.passed += 1,
                Verdict::Undecided => tally.controls_undecided += 1,
                Verdict::Fail => {}
            }
        } else {
            let tally = tallies.entry(name.clone()).or_default();
            tally.runs += 1;
            match (&case.expected, case.verdict) {
                (Some(expected), _) if expected.met => tally.caught += 1,
                (_, Verdict::Undecided) => tally.undecided += 1,
                _ => {}
            }
            if let Some(expected) = &case.expected {
                tally.finding.clone_from(&expected.failure.finding);
            }
        }
    }
    tallies
}

impl Tally {
    /// 1 when a defect escaped or a control failed, 2 when nobody can tell of one of them.
    fn exit(&self) -> Exit {
        let escaped = self.runs - self.caught - self.undecided;
        let failed = self.controls - self.passed - self.controls_undecided;
        match (escaped + failed, self.undecided + self.controls_undecided) {
            (0, 0) => Exit::Held,
            (0, _) => Exit::Undecided,
            _ => Exit::Broken,
        }
    }

    fn line(&self, canary: &str) -> String {
        let word = match self.exit() {
            Exit::Held => "CAUGHT",
            Exit::Undecided => "UNDECIDED",
            _ => "ESCAPED",
        };
        format!(
            "{word:>12} {canary}: caught {} of {} by `{}`, without its defect passed {} of {}",
            self.caught, self.runs, self.finding, self.passed, self.controls
        )
    }
}

/// The table of invariants and defects: how often each invariant failed while each defect was planted.
/// The second value is whether every invariant failed for some defect and every defect was found.
fn matrix(ended: &Ended) -> Result<(String, bool), String> {
    let mut counts: BTreeMap<(String, String), u32> = BTreeMap::new();
    let mut defects = Vec::new();
    for directory in ended.directory.cases().map_err(|error| error.to_string())? {
        let (plan, judgements) =
            judge::every_invariant(&directory).map_err(|error| error.to_string())?;
        for defect in &plan.testbed.defects {
            let defect = serde_json::to_value(defect).unwrap_or_default();
            let defect = defect.as_str().unwrap_or_default().to_owned();
            if !defects.contains(&defect) {
                defects.push(defect.clone());
            }
            for judgement in &judgements {
                let failed = u32::from(judgement.verdict == Verdict::Fail);
                let key = (judgement.invariant.clone(), defect.clone());
                *counts.entry(key).or_default() += failed;
            }
        }
    }
    let recorded = recorded::caught()?;
    let mut text = String::from("\ninvariant × defect: runs in which the invariant failed\n");
    for (index, defect) in defects.iter().enumerate() {
        text.push_str(&format!("  {}: {defect}\n", index + 1));
    }
    text.push_str("  r: recorded histories of broken promises, judged without a cluster\n");
    text.push_str(&format!("{:>32}", ""));
    for index in 0..defects.len() {
        text.push_str(&format!("{:>5}", index + 1));
    }
    text.push_str("    r\n");
    let mut is_full = true;
    for invariant in crate::harness::check::INVARIANTS {
        let row = defects.iter().map(|defect| {
            counts.get(&(invariant.name.to_owned(), defect.clone())).copied().unwrap_or(0)
        });
        let row: Vec<u32> =
            row.chain([recorded.get(invariant.name).copied().unwrap_or(0)]).collect();
        is_full &= row.iter().any(|count| *count > 0);
        text.push_str(&format!("{:>32}", invariant.name));
        for count in row {
            let cell = if count == 0 { "·".to_owned() } else { count.to_string() };
            text.push_str(&format!("{cell:>5}"));
        }
        text.push('\n');
    }
    for (index, defect) in defects.iter().enumerate() {
        let is_found = counts.iter().any(|((_, of), count)| of == defect && *count > 0);
        if !is_found {
            is_full = false;
            text.push_str(&format!("  defect {} was not found by any invariant\n", index + 1));
        }
    }
    Ok((text, is_full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_escape_or_one_failed_control_is_enough() {
        let sound = Tally { runs: 3, caught: 3, controls: 3, passed: 3, ..Tally::default() };
        assert_eq!(sound.exit(), Exit::Held);
        assert_eq!(Tally { caught: 2, ..sound.clone() }.exit(), Exit::Broken);
        assert_eq!(Tally { passed: 2, ..sound.clone() }.exit(), Exit::Broken);
        let unsure = Tally { caught: 2, undecided: 1, ..sound };
        assert_eq!(unsure.exit(), Exit::Undecided);
    }
}
