//! The figures of `firedrill bench`: each measured by doing it, on this machine with this build.

pub mod catalog;
mod client;
mod numbers;
mod outside;
mod rebuild;
pub mod s3;

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use tokio::sync::watch;

use super::suite;
use super::suite::RunOptions;
use crate::harness::audit::census::Census;
use crate::harness::check;
use crate::harness::check::Facts;
use crate::harness::check::Witnesses;
use crate::harness::report::Chain;
use crate::harness::report::ExitClass;
use crate::harness::report::RunDirectory;
use crate::harness::report::terminal;
use crate::harness::report::terminal::Terminal;
use crate::harness::scenario::parse;
use crate::harness::scenario::plan;
use crate::harness::scenario::plan::Overrides;
use crate::harness::testbed;
use crate::harness::workload::history::NodeState;
use crate::harness::workload::history::PHASE_END;
use crate::harness::workload::record::History;
use crate::harness::workload::spec::BucketKind;
use crate::harness::workload::synthetic;
use crate::harness::workload::synthetic::Shape;
use crate::value::Seed;

/// The figures that can be asked for.
pub const NAMES: &[&str] =
    &["provision", "vm-restart", "census", "history", "rebuild", "s3", "catalog"];
/// Rounds of provisioning.
const ROUNDS: usize = 7;

/// The run that shows a restart and a census.
const SCENARIO: &str = "\
format: 1
scenario: figures
claim: A machine restarts with other mounts.
suite: quick
testbed: { nodes: 1, drives: 4, parity: 2 }
workload:
  buckets: { plain: unversioned, kept: enabled }
  sizes: blocks
  mix: { put: 1 }
  bytes_max: 50331648
steps:
  - load: { operations: 40 }
  - inject: { vm_restart: { node: 0, mounts: changed } }
  - settle: { within_s: 30 }
  - check: {}
expect:
  holds: [acknowledged_writes_survive]
  provokes: { mounts_changed: 4 }
";

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// The figure, with its unit.
    pub value: String,
    /// What is aimed at, if the figure stands for that as it is.
    pub aim: &'static str,
}

impl Figure {
    /// As a line of the table.
    fn line(&self) -> String {
        let Self { name, value, aim } = self;
        let aim = if aim.is_empty() { String::new() } else { format!("   aim {aim}") };
        format!("{name:<56} {value:>22}{aim}")
    }
}

/// Takes a line of the table as soon as it is known.
pub type Tell<'a> = &'a (dyn Fn(&str) + Sync);

/// What the figures that take minutes are asked for.
#[derive(Debug, Clone)]
pub struct Options {
    /// Of `s3`.
    pub s3: s3::Options,
    /// Of `catalog`.
    pub catalog: catalog::Options,
}

/// Measures the figures called `names`; all of them when there is none, but for `s3` and `catalog`, which take minutes
/// and are only measured when they are named, as `options` have them. `directory` takes what runs leave behind, `program`
/// is what nodes are. Each line is told as soon as it is known.
///
/// # Errors
/// What could not be measured, in words.
pub async fn measure(
    names: &[String],
    directory: &Path,
    program: PathBuf,
    options: &Options,
    tell: Tell<'_>,
) -> Result<(), String> {
    let wants = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    let print = |figures: Vec<Figure>| figures.iter().for_each(|figure| tell(&figure.line()));
    if wants("provision") {
        print(provision(directory).await?);
    }
    if wants("vm-restart") || wants("census") {
        let of_run = of_run(directory, program.clone()).await?;
        print(of_run.into_iter().filter(|(name, _)| wants(name)).map(|(_, it)| it).collect());
    }
    if wants("history") {
        print(vec![history()?]);
    }
    if wants("rebuild") {
        print(rebuild::measure(directory, program.clone()).await?);
    }
    let names_it = |figure: &str| names.iter().any(|name| name == figure);
    if names_it("s3") {
        s3::measure(directory, program.clone(), &options.s3, tell).await?;
    }
    if names_it("catalog") {
        catalog::measure(directory, program, &options.catalog, tell).await?;
    }
    Ok(())
}

async fn provision(directory: &Path) -> Result<Vec<Figure>, String> {
    let measured = testbed::bench::provision(directory, 64, ROUNDS).await;
    let measured = measured.map_err(|error| Chain(&error).to_string())?;
    let figure = |name: &str, took: Duration, aim| Figure {
        name: format!("{name}, median of {}", measured.rounds),
        value: millis(took),
        aim,
    };
    Ok(vec![
        figure("provision one 64 MiB ext4 drive", measured.one_drive, "≤ 12 ms"),
        figure("provision 16 drives", measured.sixteen_drives, "≤ 120 ms"),
        figure("take 16 drives away", measured.teardown, ""),
    ])
}

/// A run that was made for its figures.
struct Rehearsed {
    case: RunDirectory,
    history: History,
    census: Option<Census>,
}

/// Rehearses the one case of a scenario.
async fn rehearse(
    file: &str,
    scenario: &str,
    directory: &Path,
    program: PathBuf,
) -> Result<Rehearsed, String> {
    let scenario = parse::parse(file, "bench", scenario)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    let plan = plan::plan(&scenario.cases[0], Seed(1), Overrides::default())
        .map_err(|refusal| refusal.to_string())?;
    let options = RunOptions {
        plans: vec![plan],
        seed: Seed(1),
        command: "firedrill bench".to_owned(),
        partition: None,
        drawn: Vec::new(),
        jobs: 1,
        fail_fast: false,
        keep: false,
        may_lack: Vec::new(),
        report_dir: directory.to_owned(),
        program,
        clients: Arc::default(),
    };
    let quiet = Arc::new(terminal::progress(Terminal { colour: false, live: false }, 1));
    let (_stay, signal) = watch::channel(None);
    let ended = suite::run(options, quiet, signal).await;
    let ended = ended.map_err(|error| Chain(&error).to_string())?;
    if ended.report.class != ExitClass::Held {
        return Err(format!(
            "{file}: the run did not keep what it promised: {:?}",
            ended.report.class
        ));
    }
    let cases = ended.directory.cases().map_err(|error| Chain(&error).to_string())?;
    let case = cases.into_iter().next().ok_or("the run left no case")?;
    let history = case.read_history().map_err(|error| Chain(&error).to_string())?;
    let census = case.read_census().map_err(|error| Chain(&error).to_string())?;
    Ok(Rehearsed { case, history, census })
}

/// The figures that one run shows: a restart until readiness, and a census with full verification.
async fn of_run(directory: &Path, program: PathBuf) -> Result<Vec<(&'static str, Figure)>, String> {
    let rehearsed = rehearse("figures.yaml", SCENARIO, directory, program).await?;
    let Rehearsed { history, census, .. } = rehearsed;
    let down_us = history.nodes.iter().find(|event| event.what.1 == NodeState::Dead);
    let down_us = down_us.map(|event| event.at_us).ok_or("the node never went down")?;
    let up = |event: &&crate::harness::workload::record::At<(usize, NodeState)>| {
        event.at_us > down_us && event.what.1 == NodeState::Ready
    };
    let up_us = history.nodes.iter().find(up).ok_or("the node never came back")?.at_us;
    let phase = |name: &str| history.phases.iter().find(|phase| phase.what == name);
    let (began, ended) = (phase("census"), phase(PHASE_END));
    let (Some(began), Some(ended), Some(census)) = (began, ended, census) else {
        return Err("the run took no census".to_owned());
    };
    let took = Duration::from_micros(ended.at_us.saturating_sub(began.at_us));
    let mib = census.bytes_read as f64 / f64::from(1 << 20);
    let rate = mib / took.as_secs_f64().max(1e-6);
    Ok(vec![
        (
            "vm-restart",
            Figure {
                name: "VM restart with changed mounts to ready, 4 drives".to_owned(),
                value: millis(Duration::from_micros(up_us - down_us)),
                aim: "≤ 800 ms",
            },
        ),
        (
            "census",
            Figure {
                name: format!("census with full verification of {mib:.0} MiB"),
                value: format!("{} ({rate:.0} MiB/s)", millis(took)),
                aim: "",
            },
        ),
    ])
}

/// The history checker on the history that its figure is about.
fn history() -> Result<Figure, String> {
    let history = History::of(synthetic::history(Shape::FIGURE, Seed(1)));
    let history = history.map_err(|error| error.to_string())?;
    let buckets = [
        (synthetic::PLAIN.to_owned(), BucketKind::Unversioned),
        (synthetic::KEPT.to_owned(), BucketKind::Enabled),
    ];
    let facts = Facts {
        nodes: 1,
        drives: (0..4).map(|slot| format!("0/{slot}")).collect(),
        set_drives: 4,
        parity: 2,
        survives_power_loss: true,
        buckets: buckets.into(),
        principals: Default::default(),
    };
    let witnesses = Witnesses { facts: &facts, history: &history, census: None };
    let began = Instant::now();
    let judged = check::judge(&witnesses, &["reads_are_linearizable".to_owned()]);
    let took = began.elapsed();
    let verdict = check::worst(&judged);
    Ok(Figure {
        name: format!("history checker, {} operations: {verdict:?}", history.ops.len()),
        value: millis(took),
        aim: "≤ 20 s",
    })
}

fn millis(took: Duration) -> String {
    format!("{:.1} ms", took.as_secs_f64() * 1_000.0)
}
