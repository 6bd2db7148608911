//! One case from its first drive to its report: steps 3 to 13.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time;

use super::admin::Admin;
use super::background::Background;
use super::clients::Clients;
use super::evidence;
use super::judge;
use super::judge::Circumstances;
use super::life;
use super::life::Addresses;
use super::life::Life;
use super::life::Trouble;
use super::tables::Tables;
use super::waiting::Waiting;
use super::watch::Watch;
use crate::harness::audit::census::Census;
use crate::harness::fault::Injector;
use crate::harness::fault::Progress;
use crate::harness::report::CaseReport;
use crate::harness::report::Chain;
use crate::harness::report::ReportError;
use crate::harness::report::RunDirectory;
use crate::harness::report::conclude::Stop;
use crate::harness::report::directory::DRIVES;
use crate::harness::report::directory::HISTORY;
use crate::harness::report::redact::Redactor;
use crate::harness::report::render;
use crate::harness::scenario::clients;
use crate::harness::scenario::plan::Plan;
use crate::harness::scenario::plan::Rung;
use crate::harness::testbed::RunContext;
use crate::harness::testbed::Sink;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::registry;
use crate::harness::workload::answer::Word;
use crate::harness::workload::client::Client;
use crate::harness::workload::driver::Driver;
use crate::harness::workload::history::Event;
use crate::harness::workload::history::Note;
use crate::harness::workload::recorder::Recorder;
use crate::sigv4::Credentials;

/// The region that clients sign for; nodes accept it unless they are configured otherwise.
const REGION: &str = "us-east-1";
/// How long the cluster may take to end after its last step, whatever happened before.
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// What a case is given besides its plan.
pub struct CaseOptions<'a> {
    /// Names its testbed: unique among those alive on this machine.
    pub testbed: String,
    /// The program that nodes are.
    pub program: PathBuf,
    /// Cases at once, this one included.
    pub jobs: u64,
    /// Whether the drives are kept, as images in the directory of the case.
    pub keep: bool,
    /// Whether the caller allows this machine to lack the case's rung.
    pub may_lack: bool,
    /// Holds the number of a signal once one has arrived.
    pub signal: watch::Receiver<Option<i32>>,
    /// Real clients.
    pub clients: &'a Clients,
    /// Hears the name of each step.
    pub step: &'a (dyn Fn(&str) + Send + Sync),
}

/// Why a case could not even be recorded.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    /// Its files could not be written or read.
    #[error("the files of the case")]
    Report(#[from] ReportError),
    /// Its history could not be written.
    #[error("cannot write the history")]
    History(#[source] std::io::Error),
    /// Its pages could not be rendered.
    #[error("a task of the harness panicked")]
    Task(#[from] JoinError),
}

/// Runs `plan` and leaves everything about it in `directory`.
///
/// # Errors
/// [`CaseError`]; the machine is cleaned up nevertheless.
pub async fn run(
    plan: &Plan,
    directory: &RunDirectory,
    options: &CaseOptions<'_>,
) -> Result<CaseReport, CaseError> {
    let began = Instant::now();
    let began_at = Timestamp::now().to_string();
    directory.write_plan(plan)?;

    let progress = Arc::new(Progress::default());
    let counted = Arc::clone(&progress);
    let recorder =
        Recorder::start(&directory.path(HISTORY), &plan.case, plan.seed, move |entry| match entry
            .event
        {
            Event::Invoked(_) | Event::CatalogAsked(_) => counted.count_invoked(),
            Event::Ended(_) | Event::CatalogAnswered(_) => counted.count_ended(),
            _ => {}
        })
        .map_err(CaseError::History)?;
    if options.jobs > 1 {
        recorder.record(Event::Noted(Note::Shared { jobs: options.jobs }));
    }
    recorder.phase("provision");
    (options.step)("provision");
    let told = recorder.clone();
    let events: Sink = Arc::new(move |event| told.record(event));
    let context = RunContext {
        name: options.testbed.clone(),
        directory: directory.root().to_owned(),
        program: options.program.clone(),
        events,
    };
    let ready = match built(plan.testbed.rung) {
        Ok(()) => installed(plan, options).await,
        Err(error) => Err(error),
    };
    let provisioned = match ready {
        Ok(()) => Testbed::provision(&plan.testbed, &context).await,
        Err(error) => Err(error),
    };
    let testbed = match provisioned {
        Ok(testbed) => testbed,
        Err(error) => {
            let stop = not_provisioned(&error, &recorder, options.may_lack);
            recorder.finish().await.map_err(CaseError::History)?;
            let took_ms = Some(millis(began.elapsed()));
            let circumstances =
                Circumstances { stop: Some(stop), began_at: Some(began_at), took_ms };
            let report = judge::judge(directory, circumstances)?;
            return finish(directory, report, Redactor::of_this_machine());
        }
    };

    let stop = live(plan, &testbed, &recorder, &progress, options).await;
    let circumstances = Circumstances { stop: Some(stop), began_at: Some(began_at), took_ms: None };
    let mut report = judged(&testbed, &recorder, directory, circumstances, options).await?;

    let kept = match options.keep {
        true => testbed.keep_drives(&directory.path(DRIVES)).await,
        false => Ok(()),
    };
    let stop = match (testbed.teardown().await, kept) {
        (Err(error), _) => Some(Stop::Uncleaned { what: Chain(&error).to_string() }),
        (Ok(()), Err(error)) => Some(Stop::Failed { error: Chain(&error).to_string() }),
        (Ok(()), Ok(())) => None,
    };
    if let Some(stop) = stop {
        let known = Circumstances {
            stop: Some(stop),
            began_at: report.began_at.clone(),
            took_ms: Some(report.took_ms),
        };
        report = judge::judge(directory, known)?;
    }
    report.took_ms = millis(began.elapsed());
    let secrets = testbed.credentials();
    let redactor = Redactor::of_this_machine()
        .secret(&secrets.secret_key)
        .secret(&secrets.cluster_secret)
        .path(&registry::folder_of(&testbed.context().name), "<testbed>");
    finish(directory, report, redactor)
}

/// Whether testbeds of `rung` can be built by this version.
fn built(rung: Rung) -> Result<(), TestbedError> {
    let name = match rung {
        Rung::Loop => return Ok(()),
        Rung::Memory => "memory",
        Rung::Block => "block",
        Rung::Vm => "vm",
    };
    let version = env!("CARGO_PKG_VERSION");
    let how = format!("it is not built yet in version {version}");
    Err(TestbedError::Lacking { what: format!("rung `{name}`"), how })
}

/// Whether every real client of the case is there, after it was installed where it can be.
async fn installed(plan: &Plan, options: &CaseOptions<'_>) -> Result<(), TestbedError> {
    for client in clients::of(&plan.steps) {
        (options.step)(&format!("install {client}"));
        options.clients.install(client).await.map_err(|what| TestbedError::Lacking {
            what,
            how: "it takes python3 with venv and pip, and a package index that can be reached"
                .to_owned(),
        })?;
    }
    Ok(())
}

/// Why there is no testbed.
fn not_provisioned(error: &TestbedError, recorder: &Recorder, may_lack: bool) -> Stop {
    if let TestbedError::Lacking { .. } = error {
        return Stop::Lacking { what: error.to_string(), allowed: may_lack };
    }
    let reason = Chain(error).to_string();
    recorder.record(Event::Noted(Note::Interrupted { reason: reason.clone(), signal: None }));
    Stop::Failed { error: reason }
}

/// Steps 4 to 7, within the wall limit and until a signal.
async fn live(
    plan: &Plan,
    testbed: &Arc<Testbed>,
    recorder: &Recorder,
    progress: &Arc<Progress>,
    options: &CaseOptions<'_>,
) -> Stop {
    let secrets = testbed.credentials();
    let credentials = Credentials {
        access_key: secrets.access_key.clone(),
        secret_key: secrets.secret_key.clone(),
    };
    let client =
        Client::new(credentials.clone(), REGION, Duration::from_millis(plan.workload.timeout_ms))
            .believing(Word { slow_down_is_refusal: true });
    let endpoints = Arc::new(Addresses(Arc::clone(testbed)));
    let seed = plan.seed.split("faults");
    let injector = Injector::new(Arc::clone(testbed), Arc::clone(progress), seed.0);
    let (stop_clients, stop) = watch::channel(false);
    let waiting = Waiting::default();
    let _watch = Watch::start(Arc::clone(&injector), recorder.clone());
    let life = Life {
        plan,
        testbed: Arc::clone(testbed),
        recorder: recorder.clone(),
        driver: Driver::new(client, recorder.clone(), endpoints),
        injector: Arc::clone(&injector),
        background: Background::start(Arc::clone(&injector)),
        admin: Admin::new(credentials.clone(), REGION),
        tables: Tables::new(credentials, REGION, plan.workload.timeout_ms),
        waiting: waiting.clone(),
        stop,
        clients: options.clients,
        step: options.step,
    };
    let wall = Duration::from_secs(plan.limits.wall_s);
    let mut signal = options.signal.clone();
    let lived = tokio::select! {
        lived = life.live() => lived,
        () = time::sleep(wall) => {
            let wait = waiting.now();
            let reason = format!("nothing came of it within the wall limit of {} s", wall.as_secs());
            match wait.is_promise {
                true => Err(Trouble::Stuck { waiting_for: wait.for_what, reason }),
                false => {
                    let waiting_for = wait.for_what;
                    recorder.record(Event::Noted(Note::Stuck { waiting_for, is_promise: false }));
                    Ok(())
                }
            }
        }
        number = arrival(&mut signal) => {
            let reason = format!("signal {number}");
            recorder.record(Event::Noted(Note::Interrupted { reason, signal: Some(number) }));
            return Stop::Signal { number: u8::try_from(number).unwrap_or(u8::MAX) };
        }
    };
    // Clients that still wait for an answer are told that nobody needs it any more.
    let _ = stop_clients.send(true);
    let stop = match lived {
        Ok(()) => Stop::Ended,
        Err(Trouble::Stuck { waiting_for, reason }) => {
            let waiting_for = format!("{waiting_for} ({reason})");
            recorder.record(Event::Noted(Note::Stuck { waiting_for, is_promise: true }));
            Stop::Ended
        }
        Err(error) => {
            let reason = Chain(&error).to_string();
            let note = Note::Interrupted { reason: reason.clone(), signal: None };
            recorder.record(Event::Noted(note));
            Stop::Failed { error: reason }
        }
    };
    if let Err(error) = injector.heal_all().await {
        let reason = Chain(&error).to_string();
        recorder.record(Event::Noted(Note::Interrupted { reason: reason.clone(), signal: None }));
        return Stop::Failed { error: reason };
    }
    stop
}

/// The number of the signal that arrives; never, when nobody can send one.
pub(super) async fn arrival(signal: &mut watch::Receiver<Option<i32>>) -> i32 {
    let arrived = signal.wait_for(Option::is_some).await.ok().and_then(|number| *number);
    match arrived {
        Some(number) => number,
        None => std::future::pending().await,
    }
}

/// Steps 8 to 11: nodes stopped, census, verdict, evidence.
async fn judged(
    testbed: &Arc<Testbed>,
    recorder: &Recorder,
    directory: &RunDirectory,
    mut known: Circumstances,
    options: &CaseOptions<'_>,
) -> Result<CaseReport, CaseError> {
    (options.step)("stop");
    let stopped = time::timeout(STOP_PATIENCE, testbed.stop_all()).await;
    let not_stopped = match stopped {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(Chain(&error).to_string()),
        Err(_) => Some(format!("the nodes did not end within {} s", STOP_PATIENCE.as_secs())),
    };
    let is_interrupted = matches!(known.stop, Some(Stop::Signal { .. }));
    if let Some(reason) = &not_stopped {
        let note = Note::Interrupted { reason: reason.clone(), signal: None };
        recorder.record(Event::Noted(note));
        known.stop = Some(Stop::Failed { error: reason.clone() });
    } else if !is_interrupted {
        (options.step)("census");
        recorder.phase("census");
        match looked(testbed).await {
            Ok(census) => directory.write_census(&census)?,
            Err(error) => {
                let reason = Chain(&error).to_string();
                let note = Note::Interrupted { reason: reason.clone(), signal: None };
                recorder.record(Event::Noted(note));
                known.stop = Some(Stop::Failed { error: reason });
            }
        }
    }
    recorder.finish().await.map_err(CaseError::History)?;
    (options.step)("judge");
    let place = directory.clone();
    let report = tokio::task::spawn_blocking(move || judge::judge(&place, known)).await??;
    if report.class.needs_attention() || report.expected.is_some() {
        let (place, drives, about) = (directory.clone(), testbed.drives(), report.clone());
        let gathered =
            tokio::task::spawn_blocking(move || evidence::gather(&about, &place, &drives)).await?;
        gathered?;
    }
    Ok(report)
}

/// Step 9: the drives, and what they hold of the table catalog.
async fn looked(testbed: &Testbed) -> Result<Census, Trouble> {
    let census = life::census(testbed).await?;
    Ok(Census { catalog: life::catalog(testbed).await?, ..census })
}

/// Step 13: the verdict and its pages, without secrets and paths.
fn finish(
    directory: &RunDirectory,
    report: CaseReport,
    redactor: Redactor,
) -> Result<CaseReport, CaseError> {
    directory.write_report(&report)?;
    directory.redact(&redactor)?;
    render::render_all(directory)?;
    Ok(directory.read_report()?)
}

/// Whole milliseconds.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
