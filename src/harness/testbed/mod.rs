//! The testbed: drives, mounts, processes and the lines between them, all real and all ours.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::harness::scenario::plan::TestbedPlan;
use crate::harness::workload::history::Event;
use crate::protocol::control::ArmAction;
use crate::protocol::crash_point::CrashPoint;
use crate::protocol::crash_point::Place;

pub use error::TestbedError;
pub use identity::Identity;

pub mod error;
pub mod identity;

/// Where the testbed tells what it did: `Fault`, `Fence` and `Node` events, as they happen.
///
/// Called from any thread; it must not block.
pub type Sink = Arc<dyn Fn(Event) + Send + Sync>;

/// What a testbed is given besides its plan.
#[derive(Clone)]
pub struct RunContext {
    /// Names the testbed: unique among those alive on this machine, `[a-z0-9-]`.
    pub name: String,
    /// The run directory; it exists. `ledger.jsonl` and `nodes/<n>.log` are written there.
    pub directory: PathBuf,
    /// The program that nodes are: started as `program node --config …`.
    pub program: PathBuf,
    /// Where events go.
    pub events: Sink,
}

/// What clients of a testbed sign with. Drawn anew for each testbed, never written to its run directory.
#[derive(Clone)]
pub struct Credentials {
    /// The access key.
    pub access_key: String,
    /// The secret key.
    pub secret_key: String,
}

/// A drive, as the harness sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrivePlace {
    /// `node/slot`.
    pub name: String,
    /// The node that owns it.
    pub node: usize,
    /// Its slot on that node.
    pub slot: usize,
    /// Where the harness has it mounted.
    pub root: PathBuf,
    /// Whether something is mounted there now (not while it is pulled).
    pub mounted: bool,
}

/// A crash point to arm on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArmRequest {
    /// The point.
    pub point: CrashPoint,
    /// The passing at which it acts, from 1.
    pub nth: u32,
    /// What to do there.
    pub action: ArmAction,
    /// Only on this drive; `None` for any.
    pub drive: Option<String>,
    /// Only for this bucket; `None` for any.
    pub bucket: Option<String>,
    /// Only for this key; `None` for any.
    pub key: Option<String>,
}

/// An armed point; dropping it does not disarm it ([`Testbed::release`] does).
#[derive(Debug)]
pub struct Arming {
    /// The node.
    pub node: usize,
    /// The arm's id, for [`Testbed::release`].
    pub arm: u64,
}

impl Arming {
    /// Waits until the point was passed. `None`: the node died before.
    pub async fn reached(&mut self) -> Option<Place> {
        None
    }
}

/// A cluster that was built: drives, node processes, proxies.
pub struct Testbed {
    plan: TestbedPlan,
    context: RunContext,
    credentials: Credentials,
}

impl Testbed {
    /// Builds drives, namespaces and proxies as the plan has them; starts no node yet.
    ///
    /// # Errors
    /// As [`TestbedError`] has them; what was made is undone.
    pub async fn provision(
        plan: &TestbedPlan,
        context: &RunContext,
    ) -> Result<Arc<Self>, TestbedError> {
        let _ = (plan, context);
        Err(unbuilt())
    }

    /// The plan it was built from.
    pub fn plan(&self) -> &TestbedPlan {
        &self.plan
    }

    /// What it was given besides.
    pub fn context(&self) -> &RunContext {
        &self.context
    }

    /// What its clients sign with.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Where clients reach a node: always its proxy, the same for the testbed's life. Refuses
    /// connections while the node is down.
    pub fn client_address(&self, node: usize) -> SocketAddr {
        let _ = node;
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    /// Every drive in pool order.
    pub fn drives(&self) -> Vec<DrivePlace> {
        Vec::new()
    }

    /// The identity of a drive's mount, as its node sees it.
    ///
    /// # Errors
    /// [`TestbedError::NoDrive`] when nothing is mounted there.
    pub fn identity(&self, drive: &str) -> Result<Identity, TestbedError> {
        let _ = drive;
        Err(unbuilt())
    }

    /// Starts a node and waits (bounded) until it listens.
    ///
    /// # Errors
    /// It runs already, ended by itself, or did not listen in time (and was killed then).
    pub async fn start(&self, node: usize) -> Result<(), TestbedError> {
        let _ = node;
        Err(unbuilt())
    }

    /// Whether the node's process lives.
    pub fn is_running(&self, node: usize) -> bool {
        let _ = node;
        false
    }

    /// Waits until `/health/ready` answers 200.
    ///
    /// # Errors
    /// The node ended, or was not ready in time.
    pub async fn wait_ready(&self, node: usize, patience: Duration) -> Result<(), TestbedError> {
        let _ = (node, patience);
        Err(unbuilt())
    }

    /// Ends a node with SIGTERM, and with SIGKILL when that took too long. Nothing when it does not run.
    ///
    /// # Errors
    /// It could not be reaped (a thread hangs in the kernel).
    pub async fn stop(&self, node: usize) -> Result<(), TestbedError> {
        let _ = node;
        Err(unbuilt())
    }

    /// Kills a node (SIGKILL to its whole group), waits until it is reaped, closes its connections.
    ///
    /// # Errors
    /// It could not be reaped (a thread hangs in the kernel).
    pub async fn kill(&self, node: usize) -> Result<(), TestbedError> {
        let _ = node;
        Err(unbuilt())
    }

    /// Arms a crash point on a running node.
    ///
    /// # Errors
    /// The node does not run.
    pub async fn arm(&self, node: usize, request: ArmRequest) -> Result<Arming, TestbedError> {
        let _ = (node, request);
        Err(unbuilt())
    }

    /// Lets the task held by an arm go on, and disarms it. Nothing when the node has died since.
    ///
    /// # Errors
    /// The control channel failed.
    pub async fn release(&self, node: usize, arm: u64) -> Result<(), TestbedError> {
        let _ = (node, arm);
        Err(unbuilt())
    }

    /// Stops every node (see [`Testbed::stop`]), all at once.
    ///
    /// # Errors
    /// The first that could not be stopped; the others are.
    pub async fn stop_all(&self) -> Result<(), TestbedError> {
        Err(unbuilt())
    }

    /// Takes everything away again: processes, mounts, loop devices, images, the registry entry.
    ///
    /// # Errors
    /// Something could not be removed; `clean` will try again (exit 75).
    pub async fn teardown(&self) -> Result<(), TestbedError> {
        Err(unbuilt())
    }
}

/// Stands for what is about to be written.
fn unbuilt() -> TestbedError {
    TestbedError::Lacking { what: "a testbed".to_owned(), how: "it is being built".to_owned() }
}
