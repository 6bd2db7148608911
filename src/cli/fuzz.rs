//! `firedrill fuzz`: hostile bytes for every decoder that reads from a drive or the network.

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use clap::Args;

use super::Exit;
use super::run;
use crate::fuzz;
use crate::fuzz::DECODED_PERCENT_MIN;
use crate::fuzz::MEMORY_BYTES_MAX;
use crate::fuzz::Target;
use crate::fuzz::corpus;
use crate::fuzz::course;
use crate::fuzz::target::Found;
use crate::fuzz::watch;
use crate::fuzz::watch::Order;
use crate::fuzz::watch::Outcome;
use crate::harness::report::Chain;
use crate::out::sayln;
use crate::value::Seed;

/// Arguments of `fuzz`.
#[derive(Debug, Clone, Args)]
pub struct FuzzArgs {
    /// Targets; all when none is named
    pub targets: Vec<String>,
    /// Name the targets, and run nothing
    #[arg(long)]
    pub list: bool,
    /// Cases of each target
    #[arg(long, default_value_t = 1_000_000)]
    pub cases: u64,
    /// What the cases follow from; drawn and printed when absent
    #[arg(long)]
    pub seed: Option<u64>,
    /// Run this one case of one target again
    #[arg(long)]
    pub case: Option<u64>,
    /// The folder with a folder of real files for each target
    #[arg(long, default_value = "fixtures/fuzz")]
    pub corpus: PathBuf,
    /// Where the bytes of each finding are left
    #[arg(long, default_value = "reports/fuzz")]
    pub findings: PathBuf,
    /// Be the process of one target
    #[arg(long, hide = true)]
    pub progress: Option<PathBuf>,
}

/// Runs what `arguments` name; a finding, a target that decodes too little, or too much memory is a broken promise.
pub fn run(arguments: &FuzzArgs) -> Exit {
    let targets = match chosen(&arguments.targets) {
        Ok(targets) => targets,
        Err(message) => return usage(&message),
    };
    if arguments.list {
        targets.iter().for_each(|target| sayln!("{:<24} {}", target.name, target.about));
        return Exit::Held;
    }
    let seed = Seed(arguments.seed.unwrap_or_else(rand::random));
    let order = Order { corpus: arguments.corpus.clone(), seed, cases: arguments.cases };
    match (&arguments.progress, arguments.case, &targets[..]) {
        (Some(progress), _, [target]) => match watch::be_watched(target, &order, progress) {
            Ok(()) => Exit::Held,
            Err(error) => failed(&format!("{}: {}", target.name, Chain(&error))),
        },
        (None, Some(case), [target]) => one_case(target, &order, case, &arguments.findings),
        (_, Some(_), _) | (Some(_), ..) => usage("one case is one target's: name it"),
        _ => all(&targets, &order, &arguments.findings),
    }
}

fn chosen(names: &[String]) -> Result<Vec<Target>, String> {
    let all = fuzz::all();
    if names.is_empty() {
        return Ok(all);
    }
    let find = |name: &String| {
        let found = all.iter().find(|target| target.name == name).copied();
        found.ok_or_else(|| format!("there is no target `{name}`; `--list` names them"))
    };
    names.iter().map(find).collect()
}

fn all(targets: &[Target], order: &Order, findings: &Path) -> Exit {
    let program = match run::program() {
        Ok(program) => program,
        Err((exit, message)) => {
            eprintln!("{message}");
            return exit;
        }
    };
    sayln!("seed {}", order.seed);
    let mut exit = Exit::Held;
    for target in targets {
        if let Err(error) = corpus::read(&order.corpus, target.name) {
            let folder = order.corpus.join(target.name);
            return usage(&format!("{}: {}", folder.display(), Chain(&error)));
        }
        match watch::watch(&program, target, order) {
            Ok(outcome) => exit = exit.worst(judge(target, order, &outcome, findings)),
            Err(error) => return failed(&Chain(&error).to_string()),
        }
    }
    sayln!("seed {}", order.seed);
    exit
}

/// Prints what became of a target.
fn judge(target: &Target, order: &Order, outcome: &Outcome, findings: &Path) -> Exit {
    let summary = &outcome.summary;
    let percent = summary.decoded * 100 / summary.cases.max(1);
    let mut wrong = Vec::new();
    if summary.findings.is_empty() && percent < DECODED_PERCENT_MIN {
        wrong.push(format!(
            "fewer than {DECODED_PERCENT_MIN} % were decoded: it tests refusals only"
        ));
    }
    if outcome.peak_bytes > MEMORY_BYTES_MAX {
        wrong.push(format!("it took more than {} MiB", MEMORY_BYTES_MAX >> 20));
    }
    let word = if wrong.is_empty() && summary.findings.is_empty() { "ok" } else { "FAILED" };
    sayln!(
        "{word:<6} {:<24} {:>9} cases {percent:>3} % decoded {:>3} MiB {:>7.1} s",
        target.name,
        summary.cases,
        outcome.peak_bytes.div_ceil(1 << 20),
        outcome.took.as_secs_f64(),
    );
    wrong.iter().for_each(|wrong| sayln!("       {wrong}"));
    for finding in &summary.findings {
        sayln!("       case {}: {}", finding.case, finding.what);
        match leave(target, order, finding.case, findings) {
            Ok(path) => sayln!("       its bytes: {}", path.display()),
            Err(message) => eprintln!("firedrill fuzz: {message}"),
        }
        sayln!(
            "       again: firedrill fuzz {} --seed {} --case {}",
            target.name,
            order.seed.0,
            finding.case
        );
    }
    if word == "ok" { Exit::Held } else { Exit::Broken }
}

/// Leaves the bytes of a case where they can be looked at, and kept as a fixture.
fn leave(target: &Target, order: &Order, case: u64, findings: &Path) -> Result<PathBuf, String> {
    let corpus = corpus::read(&order.corpus, target.name).map_err(|error| error.to_string())?;
    let path = findings.join(format!("{}-{}-{case}", target.name, order.seed.0));
    let written = fs::create_dir_all(findings)
        .and_then(|()| fs::write(&path, course::case(target, &corpus, order.seed, case)));
    written.map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

fn one_case(target: &Target, order: &Order, case: u64, findings: &Path) -> Exit {
    let corpus = match corpus::read(&order.corpus, target.name) {
        Ok(corpus) => corpus,
        Err(error) => return usage(&Chain(&error).to_string()),
    };
    match leave(target, order, case, findings) {
        Ok(path) => sayln!("its bytes: {}", path.display()),
        Err(message) => return failed(&message),
    }
    course::keep_panics();
    match course::examine(target, &course::case(target, &corpus, order.seed, case)) {
        Ok(Found::Decoded) => sayln!("it was decoded"),
        Ok(Found::Refused) => sayln!("it was refused"),
        Err(what) => {
            sayln!("{what}");
            return Exit::Broken;
        }
    }
    Exit::Held
}

fn usage(message: &str) -> Exit {
    eprintln!("firedrill fuzz: {message}");
    Exit::Usage
}

fn failed(message: &str) -> Exit {
    eprintln!("firedrill fuzz: {message}");
    Exit::Internal
}
