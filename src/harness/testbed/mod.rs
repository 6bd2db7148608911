//! The testbed: drives, mounts, processes and the lines between them, all real and all ours.
//!
//! | part | what it is |
//! |---|---|
//! | [`namespaces`] | this program again, in mount and PID namespaces of its own |
//! | [`registry`], [`ledger`], [`clean`] | what is alive, what it made, what dead ones left |
//! | [`capability`] | what this machine can do, by doing it |
//! | `image`, `loops`, `mounts`, `drives` | drives: images on a tmpfs, loop devices, mounts in two namespaces |
//! | `nodes` (and `harness::target`) | node processes, one life after another |
//! | `lines`, `wire`, `traps`, `proxy`, `network` | every byte between clients and nodes, and between nodes |
//!
//! It does what it is told. What is broken when, and what that proves, is for `harness::fault` and the
//! runner to say. Everything outside the process is told to the ledger before it is made.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use nix::mount::MntFlags;
use nix::mount::MsFlags;
use nix::mount::mount;
use nix::mount::umount2;
use nix::sys::signal::Signal;
use tokio::sync::mpsc;

use crate::harness::scenario::plan::TestbedPlan;
use crate::harness::target::config;
use crate::harness::target::config::ClusterSecrets;
use crate::harness::target::process::NodeProcess;
use crate::harness::workload::history::Event;
use crate::protocol::config::Release;
use crate::protocol::control::ArmAction;
use crate::protocol::crash_point::CrashPoint;
use crate::protocol::crash_point::Place;

use drives::Drives;
use image::Images;
use ledger::Ledger;
use ledger::LedgerEntry;
use loops::Loops;
use mounts::MountSpace;
use network::Network;
use nodes::Node;
use nodes::NodeParts;
use processes::ProcessMark;
use registry::Registration;

pub use error::TestbedError;
pub use identity::Identity;

pub mod bench;
pub mod capability;
mod catalog;
pub mod clean;
pub(crate) mod drives;
pub mod error;
pub mod identity;
mod image;
pub mod ledger;
pub(crate) mod lines;
mod loops;
mod mounts;
pub mod namespaces;
pub(crate) mod network;
mod nodes;
pub mod processes;
mod proxy;
pub mod registry;
pub mod still;
pub(crate) mod traps;
pub(crate) mod wire;

/// Where the testbed tells what it did: `Fault`, `Fence` and `Node` events, as they happen.
///
/// Called from any thread; it must not block.
pub type Sink = Arc<dyn Fn(Event) + Send + Sync>;

/// What a testbed is given besides its plan.
#[derive(Clone)]
pub struct RunContext {
    /// Names the testbed, `[a-z0-9-]`. Provisioning adds what makes it unique on this machine: runs in
    /// PID namespaces of their own cannot tell each other apart by number.
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
    /// What nodes prove themselves to each other with: no client's business, told so that it can be
    /// looked for in the run directory.
    pub cluster_secret: String,
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
    reached: mpsc::UnboundedReceiver<Place>,
}

impl Arming {
    /// Waits until the point was passed. `None`: the node died, or the arm was released.
    pub async fn reached(&mut self) -> Option<Place> {
        self.reached.recv().await
    }
}

/// Mount points, node configurations and secrets take less than this.
const FOLDER_BYTES: u64 = 16 << 20;
/// Room for templates beside the images.
const IMAGES_SPARE_BYTES: u64 = 64 << 20;
/// A drive and the copies of it that may exist at once, as long as none has holes.
const COPIES_OF_A_DRIVE: u64 = 3;

/// What everything else stands on: the registry entry, the ledger, the folder.
struct Ground {
    folder: PathBuf,
    ledger: Arc<Ledger>,
    registration: Registration,
    is_torn_down: Mutex<bool>,
}

/// A cluster that was built: drives, node processes, proxies.
///
/// Dropped without [`Testbed::teardown`], its nodes are killed and its mounts detached; `clean` removes
/// the rest, as after a killed run.
pub struct Testbed {
    plan: TestbedPlan,
    context: RunContext,
    credentials: Credentials,
    nodes: Vec<Node>,
    network: Arc<Network>,
    drives: Arc<Drives>,
    ground: Ground,
}

impl Testbed {
    /// Builds drives, namespaces and proxies as the plan has them; starts no node yet.
    ///
    /// The caller has [entered](namespaces::enter) namespaces of its own.
    ///
    /// # Errors
    /// As [`TestbedError`] has them; what was made is undone.
    pub async fn provision(
        plan: &TestbedPlan,
        context: &RunContext,
    ) -> Result<Arc<Self>, TestbedError> {
        Self::provision_in(plan, context, None).await
    }

    /// As [`provision`](Self::provision), with the images of the drives in the folder `images`, which is there, in
    /// place of a tmpfs.
    ///
    /// # Errors
    /// As [`TestbedError`] has them; what was made is undone.
    pub async fn provision_in(
        plan: &TestbedPlan,
        context: &RunContext,
        images: Option<&Path>,
    ) -> Result<Arc<Self>, TestbedError> {
        if !namespaces::is_inside() {
            return Err(TestbedError::Lacking {
                what: "namespaces of its own".to_owned(),
                how: "this command has to enter them first".to_owned(),
            });
        }
        capability::require_filesystem(plan.filesystem)?;
        let name = format!("{}-{}", context.name, hex::encode(rand::random::<[u8; 4]>()));
        let context = &RunContext { name, ..context.clone() };
        let (build_plan, build_context) = (plan.clone(), context.clone());
        let images = images.map(Path::to_owned);
        let build = move || build_hardware(&build_plan, &build_context, images.as_deref());
        let (ground, drives, spaces) = blocking(build).await?;
        let built = Self::connect(plan, context, &ground, &drives, spaces);
        match built {
            Ok((nodes, network, credentials)) => Ok(Arc::new(Self {
                plan: plan.clone(),
                context: context.clone(),
                credentials,
                nodes,
                network,
                drives,
                ground,
            })),
            Err(error) => {
                // The first problem is the one to tell; what stays is left to `clean`.
                let _ =
                    blocking(move || drives.tear_down().and_then(|()| ground.tear_down())).await;
                Err(error)
            }
        }
    }

    /// Makes proxies and configurations for nodes whose drives are there.
    fn connect(
        plan: &TestbedPlan,
        context: &RunContext,
        ground: &Ground,
        drives: &Drives,
        spaces: Vec<Arc<MountSpace>>,
    ) -> Result<(Vec<Node>, Arc<Network>, Credentials), TestbedError> {
        let network = Arc::new(Network::new(plan.nodes)?);
        let secrets = ClusterSecrets {
            access_key: format!("FD{}", hex::encode_upper(rand::random::<[u8; 9]>())),
            secret_key: hex::encode(rand::random::<[u8; 20]>()),
            cluster_secret: hex::encode(rand::random::<[u8; 32]>()),
        };
        let places = drives.places();
        let drive_root = |node: usize, slot: usize| {
            let place = places.iter().find(|place| (place.node, place.slot) == (node, slot));
            place.map(|place| place.root.clone()).unwrap_or_default()
        };
        let make_node = |(index, mounts): (usize, Arc<MountSpace>)| {
            let folder = ground.folder.join("nodes").join(index.to_string());
            let address = |other: usize| match other == index {
                true => SocketAddr::from(([127, 0, 0, 1], 0)),
                false => network.peer_address(index, other),
            };
            let config = config::write(plan, index, &secrets, &folder, address, drive_root)
                .map_err(TestbedError::io("configure", &folder))?;
            Ok(Node::new(NodeParts {
                index,
                program: context.program.clone(),
                config,
                log: context.directory.join("nodes").join(format!("{index}.log")),
                mounts,
                network: Arc::clone(&network),
                ledger: Arc::clone(&ground.ledger),
                events: Arc::clone(&context.events),
                defects: plan.defects.clone(),
            }))
        };
        let nodes = spaces.into_iter().enumerate().map(make_node).collect::<Result<_, _>>()?;
        let ClusterSecrets { access_key, secret_key, cluster_secret } = secrets;
        Ok((nodes, network, Credentials { access_key, secret_key, cluster_secret }))
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
        self.network.client_address(node)
    }

    /// Where a node listens itself, past every proxy; `None` while it is down. For what the harness asks
    /// about a node, never for what it judges.
    pub fn direct_address(&self, node: usize) -> Option<SocketAddr> {
        self.nodes[node].address()
    }

    /// Every drive in pool order.
    pub fn drives(&self) -> Vec<DrivePlace> {
        self.drives.places()
    }

    /// The identity of a drive's mount, as its node sees it.
    ///
    /// # Errors
    /// [`TestbedError::NoDrive`] when nothing is mounted there.
    pub fn identity(&self, drive: &str) -> Result<Identity, TestbedError> {
        self.drives.identity(self.drives.index(drive)?)
    }

    /// Starts a node and waits (bounded) until it listens.
    ///
    /// # Errors
    /// It runs already, ended by itself, or did not listen in time (and was killed then).
    pub async fn start(&self, node: usize) -> Result<(), TestbedError> {
        self.nodes[node].start(self.drives.uuids()).await
    }

    /// Has a node behave as `release` from its next start on.
    ///
    /// # Errors
    /// Its configuration could not be written.
    pub fn become_release(&self, node: usize, release: Release) -> Result<(), TestbedError> {
        self.nodes[node].become_release(release)
    }

    /// Whether the node's process lives.
    pub fn is_running(&self, node: usize) -> bool {
        self.nodes[node].is_running()
    }

    /// Waits until `/health/ready` answers 200.
    ///
    /// # Errors
    /// The node ended, or was not ready in time.
    pub async fn wait_ready(&self, node: usize, patience: Duration) -> Result<(), TestbedError> {
        self.nodes[node].wait_ready(patience).await
    }

    /// Ends a node with SIGTERM, and with SIGKILL when that took too long. Nothing when it does not run.
    ///
    /// # Errors
    /// It could not be reaped (a thread hangs in the kernel).
    pub async fn stop(&self, node: usize) -> Result<(), TestbedError> {
        self.nodes[node].stop().await
    }

    /// Kills a node (SIGKILL to its whole group), waits until it is reaped, closes its connections.
    ///
    /// # Errors
    /// It could not be reaped (a thread hangs in the kernel).
    pub async fn kill(&self, node: usize) -> Result<(), TestbedError> {
        self.nodes[node].kill().await
    }

    /// Arms a crash point on a running node.
    ///
    /// # Errors
    /// The node does not run.
    pub async fn arm(&self, node: usize, request: ArmRequest) -> Result<Arming, TestbedError> {
        let (arm, reached) = self.nodes[node].arm(request).await?;
        Ok(Arming { node, arm, reached })
    }

    /// Lets the task held by an arm go on, and disarms it. Nothing when the node has died since.
    pub async fn release(&self, node: usize, arm: u64) {
        self.nodes[node].release(arm).await;
    }

    /// Stops every node (see [`Testbed::stop`]), all at once.
    ///
    /// # Errors
    /// The first that could not be stopped; the others are.
    pub async fn stop_all(&self) -> Result<(), TestbedError> {
        futures::future::join_all(self.nodes.iter().map(Node::stop)).await.into_iter().collect()
    }

    /// Takes everything away again: processes, mounts, loop devices, images, the registry entry. Does
    /// nothing the second time.
    ///
    /// # Errors
    /// Something could not be removed; `clean` will try again (exit 75).
    pub async fn teardown(self: &Arc<Self>) -> Result<(), TestbedError> {
        let this = Arc::clone(self);
        blocking(move || this.drives.thaw_all()).await?;
        let killed = futures::future::join_all(self.nodes.iter().map(Node::kill)).await;
        killed.into_iter().collect::<Result<Vec<()>, _>>()?;
        let this = Arc::clone(self);
        blocking(move || {
            this.drives.tear_down()?;
            this.ground.tear_down()
        })
        .await
    }

    /// Ends every node and keeps the drives as image files in `folder`; they are of no use any more here.
    ///
    /// # Errors
    /// A drive could not be unmounted or copied.
    pub async fn keep_drives(self: &Arc<Self>, folder: &Path) -> Result<(), TestbedError> {
        let this = Arc::clone(self);
        blocking(move || this.drives.thaw_all()).await?;
        let killed = futures::future::join_all(self.nodes.iter().map(Node::kill)).await;
        killed.into_iter().collect::<Result<Vec<()>, _>>()?;
        let (this, folder) = (Arc::clone(self), folder.to_owned());
        blocking(move || this.drives.keep_images(&folder)).await
    }

    /// The drives, for whoever breaks them.
    pub(crate) fn hardware(&self) -> &Arc<Drives> {
        &self.drives
    }

    /// The lines, for whoever breaks them.
    pub(crate) fn network(&self) -> &Network {
        &self.network
    }

    /// A node's process, while it lives.
    pub(crate) fn process(&self, node: usize) -> Option<NodeProcess> {
        self.nodes[node].process()
    }

    /// Stops every thread of a node where it stands.
    pub(crate) async fn freeze_node(&self, node: usize) -> Result<NodeProcess, TestbedError> {
        self.nodes[node].freeze().await
    }

    /// Lets a frozen node go on.
    pub(crate) fn unfreeze_node(&self, node: usize) -> Result<(), TestbedError> {
        self.nodes[node].unfreeze()
    }
}

impl Drop for Testbed {
    fn drop(&mut self) {
        for process in self.nodes.iter().filter_map(Node::process) {
            // Whoever drops a testbed that was not torn down is already in trouble.
            let _ = process.signal(Signal::SIGKILL);
        }
    }
}

/// Does something that waits for the kernel, where it holds up nobody else.
pub(crate) async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, TestbedError> + Send + 'static,
) -> Result<T, TestbedError> {
    match tokio::task::spawn_blocking(act).await {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// What [`build_hardware`] made.
type Hardware = (Ground, Arc<Drives>, Vec<Arc<MountSpace>>);

/// Makes everything that needs no runtime: registry entry, folder, namespaces, drives.
fn build_hardware(
    plan: &TestbedPlan,
    context: &RunContext,
    images: Option<&Path>,
) -> Result<Hardware, TestbedError> {
    let ground = Ground::new(&context.name, &context.directory)?;
    match ground.raise(plan, &context.name, images) {
        Ok((drives, spaces)) => Ok((ground, drives, spaces)),
        Err(error) => {
            // The first problem is the one to tell; what stays is left to `clean`.
            let _ = ground.tear_down();
            Err(error)
        }
    }
}

impl Ground {
    fn new(name: &str, directory: &Path) -> Result<Self, TestbedError> {
        let is_plain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        assert!(!name.is_empty() && name.bytes().all(is_plain), "{name:?} names no testbed");
        let logs = directory.join("nodes");
        fs::create_dir_all(&logs).map_err(TestbedError::io("create", &logs))?;
        let registration = Registration::enter(name, loops::tag_of(name))?;
        let paths = [registration.ledger(), directory.join("ledger.jsonl")];
        let ledger = Arc::new(Ledger::create(&paths, name)?);
        let folder = registry::folder_of(name);
        Ok(Self { folder, ledger, registration, is_torn_down: Mutex::new(false) })
    }

    /// Mounts the folder, makes the nodes' namespaces and the drives.
    fn raise(
        &self,
        plan: &TestbedPlan,
        name: &str,
        images: Option<&Path>,
    ) -> Result<(Arc<Drives>, Vec<Arc<MountSpace>>), TestbedError> {
        for (role, pid) in [("reaper", 1), ("harness", std::process::id() as i32)] {
            let mark = ProcessMark::of(pid).map_err(TestbedError::io("look at", role))?;
            let (role, start_ticks) = (role.to_owned(), mark.start_ticks);
            self.ledger.write(&LedgerEntry::Process { role, pid, start_ticks })?;
        }
        let folder = &self.folder;
        self.ledger.write(&LedgerEntry::Folder { path: folder.clone() })?;
        fs::create_dir(folder).map_err(TestbedError::io("create", folder))?;
        self.mount_tmpfs(folder, FOLDER_BYTES)?;
        let roots = folder.join("drives");
        for drive in &plan.drives {
            let root = roots.join(drive.node.to_string()).join(drive.slot.to_string());
            fs::create_dir_all(&root).map_err(TestbedError::io("create", &root))?;
        }
        // The nodes' namespaces are made before anything is mounted that is not theirs.
        let space = |_| MountSpace::new(registry::root(), folder).map(Arc::new);
        let spaces: Vec<Arc<MountSpace>> = (0..plan.nodes)
            .map(space)
            .collect::<io::Result<_>>()
            .map_err(TestbedError::io("make mount namespaces below", folder))?;
        let images = match images {
            Some(images) => images.to_owned(),
            None => {
                let images = folder.join("images");
                fs::create_dir(&images).map_err(TestbedError::io("create", &images))?;
                let bytes = COPIES_OF_A_DRIVE * plan.image_bytes() + IMAGES_SPARE_BYTES;
                self.mount_tmpfs(&images, bytes)?;
                images
            }
        };
        let images = Images::new(plan.filesystem, plan.drive_mib, &images)?;
        let ledger = Arc::clone(&self.ledger);
        let loops = Loops::new(Arc::clone(&ledger), name);
        let drives =
            Drives::provision(&plan.drives, &roots, spaces.clone(), images, loops, ledger)?;
        Ok((Arc::new(drives), spaces))
    }

    fn mount_tmpfs(&self, path: &Path, bytes: u64) -> Result<(), TestbedError> {
        let source = "tmpfs".to_owned();
        self.ledger.write(&LedgerEntry::Mount { source, path: path.to_owned() })?;
        let options = format!("size={bytes},mode=755");
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("firedrill"), path, Some("tmpfs"), flags, Some(options.as_str()))
            .map_err(TestbedError::errno("mount a tmpfs at", path))
    }

    /// Unmounts and removes the folder and leaves the registry. Nothing when it was done.
    fn tear_down(&self) -> Result<(), TestbedError> {
        let mut done = self.is_torn_down.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if *done {
            return Ok(());
        }
        self.detach_folder()?;
        match fs::remove_dir(&self.folder) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(TestbedError::io("remove", &self.folder)(error)),
        }
        self.ledger.write(&LedgerEntry::TornDown)?;
        self.registration.withdraw()?;
        clean::remove_if_unused();
        *done = true;
        Ok(())
    }

    /// Detaches the folder's mount and everything mounted below it.
    fn detach_folder(&self) -> Result<(), TestbedError> {
        match umount2(&self.folder, MntFlags::MNT_DETACH) {
            // Not mounted, or not there: it never came so far.
            Ok(()) | Err(nix::errno::Errno::EINVAL | nix::errno::Errno::ENOENT) => Ok(()),
            Err(errno) => Err(TestbedError::errno("unmount", &self.folder)(errno)),
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let done = *self.is_torn_down.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if !done {
            // The registry entry stays for `clean`, which finds it unlocked from here on.
            let _ = self.detach_folder();
        }
    }
}
