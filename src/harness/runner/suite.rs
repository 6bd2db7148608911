//! Every case of a run, in turn or side by side, and what they came to together.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::task::JoinSet;

use super::case;
use super::case::CaseOptions;
use super::clients::Clients;
use crate::harness::report::CaseReport;
use crate::harness::report::Chain;
use crate::harness::report::ExitClass;
use crate::harness::report::Redactor;
use crate::harness::report::ReportError;
use crate::harness::report::SuiteDirectory;
use crate::harness::report::SuiteReport;
use crate::harness::report::case::VERDICT_FORMAT;
use crate::harness::report::render;
use crate::harness::report::suite::CaseSummary;
use crate::harness::report::suite::Drawn;
use crate::harness::report::suite::Partition;
use crate::harness::report::terminal::Progress;
use crate::harness::scenario::plan::Plan;
use crate::harness::scenario::plan::Rung;
use crate::value::Seed;

/// What a run is asked for.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The cases, planned.
    pub plans: Vec<Plan>,
    /// The seed that was asked for or drawn.
    pub seed: Seed,
    /// The command that does the same again.
    pub command: String,
    /// Which shard of all cases this is.
    pub partition: Option<Partition>,
    /// Scenarios of which only some cases were drawn.
    pub drawn: Vec<Drawn>,
    /// Cases at once, at least 1.
    pub jobs: usize,
    /// Whether nothing new is begun after the first case that does not hold.
    pub fail_fast: bool,
    /// Whether the drives of a case that does not hold stay until they are cleaned up.
    pub keep: bool,
    /// Rungs that this machine may lack.
    pub may_lack: Vec<Rung>,
    /// The folder in which the run gets one of its own.
    pub report_dir: PathBuf,
    /// The program that nodes are.
    pub program: PathBuf,
    /// Real clients.
    pub clients: Arc<Clients>,
}

/// Why a run as such failed; what its cases found stands in their folders.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The files of the run could not be written.
    #[error("the files of the run")]
    Report(#[from] ReportError),
    /// A task of ours panicked.
    #[error("a task of the harness panicked")]
    Task(#[from] JoinError),
}

/// A run that has ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// What it came to.
    pub report: SuiteReport,
    /// The cases that ran, in the order in which they were planned.
    pub cases: Vec<CaseReport>,
    /// Its folder.
    pub directory: SuiteDirectory,
}

/// One case that has ended: its place among the plans, its folder, its report or why there is none.
type EndedCase = (usize, String, Result<CaseReport, String>);

/// Runs every case of `options` and leaves everything in a folder of the run's own.
///
/// # Errors
/// [`RunError`]; a case that failed for reasons of ours is no error here but counts as such.
pub async fn run(
    options: RunOptions,
    progress: Arc<Progress>,
    signal: watch::Receiver<Option<i32>>,
) -> Result<Ended, RunError> {
    let began = Instant::now();
    let began_at = Timestamp::now();
    let directory = new_directory(&options.report_dir, began_at)?;
    let options = Arc::new(options);
    let jobs = options.jobs.max(1);
    let mut queue: VecDeque<usize> = (0..options.plans.len()).collect();
    let mut running: JoinSet<Result<EndedCase, ReportError>> = JoinSet::new();
    let mut ended: Vec<EndedCase> = Vec::new();
    let mut reasons = Vec::new();
    loop {
        let is_stopped = signal.borrow().is_some()
            || (options.fail_fast && ended.iter().any(|(_, _, report)| does_not_hold(report)));
        if is_stopped && !queue.is_empty() {
            reasons.push(format!("{} cases were not begun", queue.len()));
            queue.clear();
        }
        while running.len() < jobs
            && let Some(index) = queue.pop_front()
        {
            let one = OneCase {
                index,
                options: Arc::clone(&options),
                directory: directory.clone(),
                progress: Arc::clone(&progress),
                signal: signal.clone(),
            };
            running.spawn(one.run());
        }
        let Some(finished) = running.join_next().await else {
            break;
        };
        ended.push(finished??);
    }
    ended.sort_by_key(|(index, ..)| *index);
    let mut class = match *signal.borrow() {
        Some(number) => ExitClass::Signal(u8::try_from(number).unwrap_or(u8::MAX)),
        None => ExitClass::Held,
    };
    let mut summaries = Vec::new();
    let mut cases = Vec::new();
    for (_, folder, report) in ended {
        match report {
            Ok(report) => {
                summaries.push(CaseSummary::of(&report, &folder));
                cases.push(report);
            }
            Err(reason) => {
                class = class.worst(ExitClass::HarnessFailed);
                reasons.push(reason);
            }
        }
    }
    let name = directory.root().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let report = SuiteReport {
        format: VERDICT_FORMAT,
        run: name,
        command: options.command.clone(),
        seed: options.seed,
        began_at: Some(began_at.to_string()),
        took_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        partition: options.partition,
        class,
        reasons,
        drawn: options.drawn.clone(),
        cases: summaries,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    directory.write_report(&report.redacted(&Redactor::of_this_machine()))?;
    render::render_suite(&directory)?;
    Ok(Ended { report, cases, directory })
}

/// Whether a case is a reason to stop early.
fn does_not_hold(report: &Result<CaseReport, String>) -> bool {
    report
        .as_ref()
        .map_or(true, |report| report.class.needs_attention() && report.class != ExitClass::Skipped)
}

/// Makes the run's folder, named after the second in which it began.
fn new_directory(
    parent: &std::path::Path,
    began_at: Timestamp,
) -> Result<SuiteDirectory, ReportError> {
    let stamp = began_at.strftime("%Y%m%d-%H%M%S").to_string();
    std::fs::create_dir_all(parent).map_err(ReportError::io("create", parent))?;
    let mut attempt = 1_u32;
    loop {
        let name = if attempt == 1 { stamp.clone() } else { format!("{stamp}-{attempt}") };
        let path = parent.join(name);
        match std::fs::create_dir(&path) {
            Ok(()) => return SuiteDirectory::create(&path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => attempt += 1,
            Err(error) => return Err(ReportError::io("create", &path)(error)),
        }
    }
}

/// One case on a task of its own.
struct OneCase {
    index: usize,
    options: Arc<RunOptions>,
    directory: SuiteDirectory,
    progress: Arc<Progress>,
    signal: watch::Receiver<Option<i32>>,
}

impl OneCase {
    async fn run(self) -> Result<EndedCase, ReportError> {
        let plan = &self.options.plans[self.index];
        let directory = self.directory.create_case(&plan.case)?;
        let folder =
            directory.root().file_name().unwrap_or_default().to_string_lossy().into_owned();
        self.progress.case_began(&plan.case);
        let step = |name: &str| self.progress.phase(&plan.case, name);
        let options = CaseOptions {
            testbed: format!("{}-{}", std::process::id(), self.index),
            program: self.options.program.clone(),
            jobs: self.options.jobs as u64,
            keep: self.options.keep,
            may_lack: self.options.may_lack.contains(&plan.testbed.rung),
            signal: self.signal.clone(),
            clients: &self.options.clients,
            step: &step,
        };
        let report = match case::run(plan, &directory, &options).await {
            Ok(report) => {
                self.progress.case_ended(&report);
                Ok(report)
            }
            Err(error) => {
                let reason = format!("{}: {}", plan.case, Chain(&error));
                self.progress.print(&reason);
                Err(reason)
            }
        };
        Ok((self.index, folder, report))
    }
}
