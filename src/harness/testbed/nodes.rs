//! The nodes of a testbed: started, watched, ended. One life after another, never two at once.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio::time::sleep;
use tokio::time::timeout;

use super::ArmRequest;
use super::Sink;
use super::TestbedError;
use super::ledger::Ledger;
use super::ledger::LedgerEntry;
use super::mounts::MountSpace;
use super::network::Network;
use super::processes::ProcessMark;
use crate::harness::target::config;
use crate::harness::target::control::Control;
use crate::harness::target::health;
use crate::harness::target::process;
use crate::harness::target::process::NodeProcess;
use crate::harness::target::process::Start;
use crate::harness::workload::history::Event;
use crate::harness::workload::history::Fence;
use crate::harness::workload::history::NodeState;
use crate::protocol::config::CatalogConfig;
use crate::protocol::config::Release;
use crate::protocol::control::Arm;
use crate::protocol::control::Defect;
use crate::protocol::control::ToNode;
use crate::protocol::crash_point::Place;

/// How long a node may take until it listens.
const LISTEN_PATIENCE: Duration = Duration::from_secs(15);
/// How long a node may take to end after SIGTERM.
const STOP_PATIENCE: Duration = Duration::from_secs(10);
/// How long a killed node may take to be reaped.
const REAP_PATIENCE: Duration = Duration::from_secs(5);
/// How often readiness is asked for.
const READY_PERIOD: Duration = Duration::from_millis(5);
/// How often a state of a process is looked at.
const LOOK_PERIOD: Duration = Duration::from_millis(1);
/// How long a process may take until every thread of it is stopped.
const FREEZE_PATIENCE: Duration = Duration::from_millis(500);

/// One node, over all its lives.
pub(super) struct Node {
    index: usize,
    program: PathBuf,
    config: PathBuf,
    log: PathBuf,
    mounts: Arc<MountSpace>,
    network: Arc<Network>,
    ledger: Arc<Ledger>,
    events: Sink,
    defects: Vec<Defect>,
    arms: AtomicU64,
    /// How often a node took an armed point.
    armed: AtomicU64,
    life: Mutex<Option<Life>>,
    /// Held while the node is being started or ended.
    changing: tokio::sync::Mutex<()>,
}

/// One life of a node.
#[derive(Clone)]
struct Life {
    process: NodeProcess,
    control: Arc<Control>,
    address: Option<SocketAddr>,
    /// Set once it was told how to begin: nothing else may come to it before.
    is_greeted: Arc<AtomicBool>,
    /// Set before we end it: then nobody is surprised.
    is_ended_by_us: Arc<AtomicBool>,
}

/// What a node is made of.
pub(super) struct NodeParts {
    pub(super) index: usize,
    pub(super) program: PathBuf,
    pub(super) config: PathBuf,
    pub(super) log: PathBuf,
    pub(super) mounts: Arc<MountSpace>,
    pub(super) network: Arc<Network>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) events: Sink,
    pub(super) defects: Vec<Defect>,
}

impl Node {
    pub(super) fn new(parts: NodeParts) -> Self {
        let NodeParts { index, program, config, log, mounts, network, ledger, events, defects } =
            parts;
        Self {
            index,
            program,
            config,
            log,
            mounts,
            network,
            ledger,
            events,
            defects,
            arms: AtomicU64::new(1),
            armed: AtomicU64::new(0),
            life: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Life>> {
        self.life.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Has it behave as `release` from its next start on.
    pub(super) fn become_release(&self, release: Release) -> Result<(), TestbedError> {
        config::become_release(&self.config, release)
            .map_err(TestbedError::io("configure", &self.config))
    }

    /// Has it serve the table catalog as `catalog` says from its next start on.
    pub(super) fn become_catalog(&self, catalog: CatalogConfig) -> Result<(), TestbedError> {
        config::become_catalog(&self.config, catalog)
            .map_err(TestbedError::io("configure", &self.config))
    }

    /// Points that were armed in all its lives.
    pub(super) fn armed(&self) -> u64 {
        self.armed.load(Ordering::SeqCst)
    }

    /// The life that lasts, if any.
    fn living(&self) -> Option<Life> {
        self.lock().clone().filter(|life| life.process.status().is_none())
    }

    fn require_living(&self) -> Result<Life, TestbedError> {
        self.living().ok_or(TestbedError::NotRunning { node: self.index })
    }

    fn tell(&self, state: NodeState) {
        (self.events)(Event::Node { node: self.index, state });
    }

    pub(super) fn is_running(&self) -> bool {
        self.living().is_some()
    }

    /// The process, while it lives.
    pub(super) fn process(&self) -> Option<NodeProcess> {
        self.living().map(|life| life.process)
    }

    /// Where the node itself listens, past its proxy.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.living().and_then(|life| life.address)
    }

    /// Starts it and waits until it listens; its lines are open then.
    pub(super) async fn start(&self, run_file_systems: Vec<String>) -> Result<(), TestbedError> {
        let _changing = self.changing.lock().await;
        if self.is_running() {
            return Err(TestbedError::Running { node: self.index });
        }
        self.network.check()?;
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.map_err(TestbedError::io("open log", &self.log))?;
        let (control, theirs) = Control::new()
            .map_err(TestbedError::io("make the control channel of", &self.config))?;
        let mounts = self.mounts.descriptor();
        let mounts = mounts.map_err(TestbedError::io("reach the namespace of", &self.config))?;
        let (network, events, index) =
            (Arc::clone(&self.network), Arc::clone(&self.events), self.index);
        let on_end = move |_| async move {
            if let Err(error) = network.close_node(index).await {
                tracing::error!(%error, node = index, "the lines of a dead node stay closed");
                network.give_up(error);
            }
            events(Event::Node { node: index, state: NodeState::Dead });
            events(Event::Fence(Fence::NodeRestarted { node: index }));
        };
        let start = Start {
            program: &self.program,
            config: &self.config,
            log: &log,
            mounts: Some(mounts),
            control: theirs,
        };
        let process =
            NodeProcess::start(start, on_end).map_err(TestbedError::io("start", &self.program))?;
        self.tell(NodeState::Started);
        let control = Arc::new(control);
        let life = Life {
            process: process.clone(),
            control: Arc::clone(&control),
            address: None,
            is_greeted: Arc::default(),
            is_ended_by_us: Arc::default(),
        };
        let is_greeted = Arc::clone(&life.is_greeted);
        *self.lock() = Some(life);
        self.register(&process)?;
        let first_words =
            ToNode::Start { defects: self.defects.clone(), run_file_systems, arms: Vec::new() };
        // When the node is gone already, waiting for its port says so.
        let _ = control.say(&first_words).await;
        is_greeted.store(true, Ordering::SeqCst);
        let port = match timeout(LISTEN_PATIENCE, control.port()).await {
            Ok(Some(port)) => port,
            Ok(None) => {
                self.kill_life(&process).await?;
                return Err(self.ended_by_itself(&process));
            }
            Err(_) => {
                self.kill_life(&process).await?;
                let state = format!("node {} to listen", self.index);
                return Err(TestbedError::Late { state, waited: LISTEN_PATIENCE });
            }
        };
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if let Some(life) = self.lock().as_mut() {
            life.address = Some(address);
        }
        self.network.open_node(self.index, address).await?;
        if process.status().is_some() {
            // It ended in between; its lines may have been opened after they had been closed.
            self.network.close_node(self.index).await?;
            return Err(self.ended_by_itself(&process));
        }
        Ok(())
    }

    /// Tells the ledger of a new process, if it still lives.
    fn register(&self, process: &NodeProcess) -> Result<(), TestbedError> {
        let Ok(mark) = ProcessMark::of(process.pid()) else {
            return Ok(());
        };
        let role = format!("node {}", self.index);
        let ProcessMark { pid, start_ticks } = mark;
        self.ledger.write(&LedgerEntry::Process { role, pid, start_ticks })
    }

    fn ended_by_itself(&self, process: &NodeProcess) -> TestbedError {
        TestbedError::NodeEnded {
            node: self.index,
            status: process.status().map_or("unknown".to_owned(), |status| status.to_string()),
            last_line: process::last_line(&self.log),
        }
    }

    /// Waits until it says that it is ready.
    pub(super) async fn wait_ready(&self, patience: Duration) -> Result<(), TestbedError> {
        let begun = Instant::now();
        let mut last = String::new();
        loop {
            let life = self.lock().clone().ok_or(TestbedError::NotRunning { node: self.index })?;
            if life.process.status().is_some() {
                return Err(match life.is_ended_by_us.load(Ordering::SeqCst) {
                    true => TestbedError::NotRunning { node: self.index },
                    false => self.ended_by_itself(&life.process),
                });
            }
            if let Some(address) = life.address {
                match health::ready(address).await {
                    Some(health) if health.status == 200 => {
                        self.tell(NodeState::Ready);
                        return Ok(());
                    }
                    Some(health) => last = health.body,
                    None => last = "no answer".to_owned(),
                }
            }
            if begun.elapsed() > patience {
                let state = format!("node {} to be ready (it says: {last})", self.index);
                return Err(TestbedError::Late { state, waited: patience });
            }
            sleep(READY_PERIOD).await;
        }
    }

    /// Ends it with SIGTERM, then with SIGKILL.
    pub(super) async fn stop(&self) -> Result<(), TestbedError> {
        let _changing = self.changing.lock().await;
        let Some(life) = self.living() else {
            return Ok(());
        };
        life.is_ended_by_us.store(true, Ordering::SeqCst);
        self.signal(&life.process, Signal::SIGTERM)?;
        self.signal(&life.process, Signal::SIGCONT)?;
        match life.process.ended(STOP_PATIENCE).await {
            Some(_) => Ok(()),
            None => self.kill_life(&life.process).await,
        }
    }

    /// Kills it and waits until it was reaped.
    pub(super) async fn kill(&self) -> Result<(), TestbedError> {
        let _changing = self.changing.lock().await;
        match self.living() {
            Some(life) => {
                life.is_ended_by_us.store(true, Ordering::SeqCst);
                self.kill_life(&life.process).await
            }
            None => Ok(()),
        }
    }

    async fn kill_life(&self, process: &NodeProcess) -> Result<(), TestbedError> {
        self.signal(process, Signal::SIGKILL)?;
        match process.ended(REAP_PATIENCE).await {
            Some(_) => Ok(()),
            None => {
                let state = format!("node {} to be reaped after SIGKILL", self.index);
                Err(TestbedError::Late { state, waited: REAP_PATIENCE })
            }
        }
    }

    fn signal(&self, process: &NodeProcess, signal: Signal) -> Result<(), TestbedError> {
        let step = TestbedError::io("signal", format!("node {}", self.index));
        process.signal(signal).map_err(step)
    }

    /// Stops every thread of it where it stands, as if its processor had been taken away.
    pub(super) async fn freeze(&self) -> Result<NodeProcess, TestbedError> {
        let life = self.require_living()?;
        self.signal(&life.process, Signal::SIGSTOP)?;
        let begun = Instant::now();
        while !life.process.is_stopped() {
            if life.process.status().is_some() {
                return Err(self.ended_by_itself(&life.process));
            }
            if begun.elapsed() > FREEZE_PATIENCE {
                let state = format!("every thread of node {} to stop", self.index);
                return Err(TestbedError::Late { state, waited: FREEZE_PATIENCE });
            }
            sleep(LOOK_PERIOD).await;
        }
        Ok(life.process)
    }

    /// Lets a frozen node go on.
    pub(super) fn unfreeze(&self) -> Result<(), TestbedError> {
        let life = self.require_living()?;
        self.signal(&life.process, Signal::SIGCONT)?;
        Ok(())
    }

    /// Arms a crash point of this life.
    pub(super) async fn arm(
        &self,
        request: ArmRequest,
    ) -> Result<(u64, mpsc::UnboundedReceiver<Place>), TestbedError> {
        let life = self.require_living()?;
        if !life.is_greeted.load(Ordering::SeqCst) {
            return Err(TestbedError::NotRunning { node: self.index });
        }
        let id = self.arms.fetch_add(1, Ordering::SeqCst);
        let ArmRequest { point, nth, action, drive, bucket, key } = request;
        let arm = Arm { id, point, drive, bucket, key, nth, action };
        match life.control.arm(arm).await {
            Ok(reached) => {
                self.armed.fetch_add(1, Ordering::SeqCst);
                Ok((id, reached))
            }
            Err(_) => Err(TestbedError::NotRunning { node: self.index }),
        }
    }

    /// Disarms a crash point; nothing when that life is over.
    pub(super) async fn release(&self, arm: u64) {
        if let Some(life) = self.living() {
            // It may just have died, and its arms with it.
            let _ = life.control.release(arm).await;
        }
    }
}
