//! One node: its drives, its peers, its locks, and the store over them once the format is known.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use tokio::sync::watch;
use uuid::Uuid;

use crate::disk::drive::DriveError;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::disk::format::format_json::FormatJson;
use crate::disk::layout;
use crate::node::catalog::Catalog;
use crate::node::config::Loaded;
use crate::node::control::Orders;
use crate::node::defects;
use crate::node::drives::Keeper;
use crate::node::drives::Seen;
use crate::node::drives::keeper::Open;
use crate::node::drives::queue::QueueLimits;
use crate::node::local::opener;
use crate::node::locks::LocalLocks;
use crate::node::locks::QuorumLocks;
use crate::node::locks::quorum::LockAnswer;
use crate::node::locks::quorum::LockCall;
use crate::node::locks::quorum::LockPeer;
use crate::node::locks::quorum::OwnTable;
use crate::node::metrics::Metrics;
use crate::node::peer::Peer;
use crate::node::peer::PeerDrive;
use crate::node::peer::auth::ClusterKey;
use crate::node::peer::client::PeerParts;
use crate::node::peer::server::PeerService;
use crate::node::peer::words::PeerDriveState;
use crate::node::peer::words::PeerState;
use crate::node::replacement;
use crate::node::replacement::Board;
use crate::node::replacement::SharedCourse;
use crate::node::seams::DriveClient;
use crate::node::store::Store;
use crate::node::store::api::StoreParts;
use crate::protocol::admin::DriveStatus;
use crate::protocol::admin::HealStatus;
use crate::protocol::admin::NodeStatus;
use crate::protocol::admin::Readiness;
use crate::protocol::control::Defect;
use crate::protocol::crash_point::CrashPoint;
use crate::protocol::crash_point::Passing;
use crate::protocol::crash_point::Place;
use crate::protocol::object::quorum;
use crate::protocol::replacement::status::Snapshot;
use crate::protocol::replacement::step::Step;
use crate::protocol::rules::SharedRules;
use crate::value::ObjectKey;

/// Threads of each drive. Most work on a drive is waiting for its flushes.
const DRIVE_THREADS: usize = 8;
/// For how long a node that has its format waits for a write quorum before it calls itself ready.
const QUORUM_WAIT: Duration = Duration::from_secs(10);

/// One node.
pub struct Node {
    /// Its configuration.
    pub loaded: Loaded,
    /// This start of the process; greater than any before.
    pub life: Uuid,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// Its drives, in slot order.
    pub keepers: Vec<Arc<Keeper>>,
    /// The other nodes by number; `None` for this one.
    pub peers: Vec<Option<Arc<Peer>>>,
    /// Proves requests between nodes.
    pub key: ClusterKey,
    /// The deployment's format, once it is accepted.
    pub reference: watch::Sender<Option<Arc<FormatJson>>>,
    /// What it grants.
    pub locks: LocalLocks,
    /// What is told of replacements.
    pub replacements: Board,
    /// What replacements ask the protocol by.
    pub course: SharedCourse,
    rules: SharedRules,
    defects: Vec<Defect>,
    started: Instant,
    passing: Arc<dyn Passing>,
    own_table: Arc<OwnTable>,
    quorum_locks: QuorumLocks,
    store: OnceLock<Arc<Store>>,
    catalog: OnceLock<Arc<Catalog>>,
    deployment: Arc<OnceLock<Uuid>>,
    /// Why it waits for its format.
    waits: Mutex<String>,
    stopping: AtomicBool,
}

impl Node {
    /// A node that has not begun to look for its drives and peers.
    pub fn new(loaded: Loaded, orders: Orders, passing: Arc<dyn Passing>) -> Arc<Self> {
        let limits = &loaded.config.limits;
        let (me, life) = (loaded.config.node, Uuid::now_v7());
        let lease = Duration::from_millis(limits.lock_lease_ms);
        let is_alone = loaded.config.nodes.len() == 1;
        // Alone, every holder of its grants ended with it.
        let locks = if is_alone { LocalLocks::new(lease) } else { LocalLocks::forgetful(lease) };
        let own_table = Arc::new(OwnTable::new(locks.clone(), life));
        let rules = defects::rules(&orders.defects);
        let key = ClusterKey::new(&loaded.cluster_secret, &loaded.layout());
        let reference = watch::Sender::new(None);

        let queue = QueueLimits {
            deadline: Duration::from_millis(limits.drive_deadline_ms),
            waiting_max: limits.drive_queue_max,
            threads: DRIVE_THREADS,
            left_behind_max: 4 * DRIVE_THREADS,
        };
        let probe_period = Duration::from_millis(limits.probe_period_ms);
        let endpoints = loaded.endpoints();
        let own = endpoints.iter().enumerate().filter(|(_, (node, _))| *node == me);
        let keepers = own.map(|(endpoint, (_, slot))| {
            let open: Arc<Open> = opener(&loaded.config, *slot, &orders, &locks, &passing, &rules);
            let (name, place) = (format!("{me}/{slot}"), loaded.place(endpoint));
            let told = reference.subscribe();
            Arc::new(Keeper::new(name, place, queue, probe_period, open, told))
        });
        let keepers = keepers.collect();

        let nodes = loaded.config.nodes.iter().enumerate();
        let peers: Vec<_> = nodes
            .map(|(node, entry)| {
                let parts = PeerParts {
                    me,
                    node,
                    address: entry.address.clone(),
                    drives: entry.drives.len(),
                    key: key.clone(),
                    deadline: Duration::from_millis(limits.peer_deadline_ms),
                    poll_period: probe_period,
                };
                (node != me).then(|| Arc::new(Peer::new(parts)))
            })
            .collect();
        let lock_peers = peers.iter().map(|peer| match peer {
            Some(peer) => Arc::clone(peer) as Arc<dyn LockPeer>,
            None => Arc::clone(&own_table) as Arc<dyn LockPeer>,
        });
        let deployment: Arc<OnceLock<Uuid>> = Arc::default();
        let (sets, known) = (loaded.votes(), Arc::clone(&deployment));
        let votes_of = move |resource: &ObjectKey| {
            // A whole bucket lies in every set, so that every set votes.
            let is_everywhere = resource.key.is_empty();
            match known.get() {
                Some(deployment) if !is_everywhere => {
                    vec![sets[layout::set_of(*deployment, &resource.key, sets.len())].clone()]
                }
                _ => sets.clone(),
            }
        };
        let quorum_locks = QuorumLocks::new(lock_peers.collect(), Box::new(votes_of), lease);
        Arc::new(Self {
            life,
            metrics: Arc::default(),
            rules,
            keepers,
            peers,
            key,
            reference,
            locks,
            replacements: Board::default(),
            course: replacement::course(&orders.defects),
            defects: orders.defects,
            started: Instant::now(),
            passing,
            own_table,
            quorum_locks,
            store: OnceLock::new(),
            catalog: OnceLock::new(),
            deployment,
            waits: Mutex::new("its drives were not looked at yet".to_owned()),
            stopping: AtomicBool::new(false),
            loaded,
        })
    }

    /// This node's number.
    pub fn me(&self) -> usize {
        self.loaded.config.node
    }

    /// The store, once the format is accepted.
    pub fn store(&self) -> Option<&Arc<Store>> {
        self.store.get()
    }

    /// The table catalog, once there is a store that it lies in.
    pub fn catalog(&self) -> Option<&Arc<Catalog>> {
        self.catalog.get()
    }

    /// Has the table catalog answer from now on.
    pub fn open_catalog(&self, catalog: &Arc<Catalog>) {
        self.catalog.get_or_init(|| Arc::clone(catalog));
    }

    /// What every endpoint is, as far as this node knows.
    pub fn seen(&self) -> Vec<Seen> {
        let endpoints = self.loaded.endpoints().into_iter();
        let seen = endpoints.map(|(node, slot)| match &self.peers[node] {
            Some(peer) => peer.drive(slot).seen,
            None => self.keepers[slot].seen(),
        });
        seen.collect()
    }

    /// The drive of an endpoint.
    pub fn client(&self, endpoint: usize) -> Arc<dyn DriveClient> {
        let (node, slot) = self.loaded.endpoints()[endpoint];
        match &self.peers[node] {
            Some(peer) => Arc::new(PeerDrive::new(Arc::clone(peer), slot)),
            None => Arc::new(self.keepers[slot].queue().clone()),
        }
    }

    /// Accepts the deployment's format: drives are admitted by it and the store is made over them.
    pub fn accept(&self, format: FormatJson) -> Arc<Store> {
        let deployment = *self.deployment.get_or_init(|| format.id);
        tracing::info!(%deployment, "the format is accepted");
        let endpoints = self.loaded.endpoints().len();
        let drives: Vec<_> = (0..endpoints).map(|endpoint| self.client(endpoint)).collect();
        let sets = drives.chunks(self.loaded.config.set_drives).map(<[_]>::to_vec).collect();
        let store = Store::new(StoreParts {
            sets,
            local: self.keepers.iter().map(|keeper| keeper.place()).collect(),
            format: format.clone(),
            parity: self.loaded.parity,
            locks: Arc::new(self.quorum_locks.clone()),
            rules: Arc::clone(&self.rules),
            passing: Arc::clone(&self.passing),
            limits: self.loaded.config.limits.clone(),
        });
        self.reference.send_replace(Some(Arc::new(format)));
        Arc::clone(self.store.get_or_init(|| store))
    }

    /// Passes the crash point of a durable step, off the reactor: holding there means not to return.
    pub async fn pass(&self, step: Step, drive: &str, path: &str) {
        let point = CrashPoint::Replacement(step);
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        let place =
            Place { drive: Some(drive.to_owned()), bucket: bucket.to_owned(), key: key.to_owned() };
        let passing = Arc::clone(&self.passing);
        let passed = tokio::task::spawn_blocking(move || passing.pass(point, &place)).await;
        passed.expect("passing a point does not panic");
    }

    /// Says why the format is waited for; true when that is news.
    pub fn wait_for(&self, reason: &str) -> bool {
        let mut waits = self.waits.lock().expect("nothing panics while it holds this");
        let is_news = *waits != reason;
        if is_news {
            reason.clone_into(&mut waits);
        }
        is_news
    }

    /// Begins to end: it calls itself not ready any more.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
    }

    /// Whether it is ready, and why not.
    pub fn readiness(&self) -> Readiness {
        let reason = self.not_ready().unwrap_or_default();
        let (defects, release) = (self.defects.clone(), self.loaded.config.release);
        Readiness { ready: reason.is_empty(), reason, defects, release }
    }

    fn not_ready(&self) -> Option<String> {
        if self.stopping.load(Ordering::SeqCst) {
            return Some("it is ending".to_owned());
        }
        if self.store().is_none() {
            return Some(self.waits.lock().expect("nothing panics while it holds this").clone());
        }
        if self.started.elapsed() > QUORUM_WAIT {
            return None;
        }
        if self.locks.is_quiet() {
            return Some("locks granted before its start may still be held".to_owned());
        }
        let set_drives = self.loaded.config.set_drives;
        let needed = quorum::write(set_drives - self.loaded.parity, self.loaded.parity);
        let drives = self.drive_states();
        for (set, drives) in drives.chunks(set_drives).enumerate() {
            let online = drives.iter().filter(|drive| drive.reason.is_empty()).count();
            if online < needed {
                return Some(format!("{online} of {needed} drives of set {set} are online"));
            }
        }
        None
    }

    fn drive_states(&self) -> Vec<PeerDriveState> {
        let endpoints = self.loaded.endpoints().into_iter();
        let states = endpoints.map(|(node, slot)| match &self.peers[node] {
            Some(peer) => peer.drive(slot),
            None => self.own_state(slot),
        });
        states.collect()
    }

    fn own_state(&self, slot: usize) -> PeerDriveState {
        let keeper = &self.keepers[slot];
        let standing = keeper.queue().standing();
        let is_blank = standing.condition == crate::protocol::admin::DriveCondition::Blank;
        let reason = if is_blank { "it has no format yet".to_owned() } else { standing.reason };
        PeerDriveState { condition: standing.condition, reason, seen: keeper.seen() }
    }

    /// How it stands.
    pub fn status(&self) -> NodeStatus {
        let store = self.store().map(|store| store.status()).unwrap_or_default();
        let ended_ms = u64::try_from(store.last_cycle_ended_ns / 1_000_000).unwrap_or(0);
        let heal = HealStatus {
            queued: store.queued,
            running: store.healing,
            last_cycle_ended_at_ms: (ended_ms > 0).then_some(ended_ms),
            versions_healed: store.healed,
            versions_quarantined: store.quarantined,
            scan: store.scan,
        };
        let endpoints = self.loaded.endpoints();
        let states = self.drive_states().into_iter().enumerate();
        let drives = states.map(|(endpoint, state)| {
            let (node, slot) = endpoints[endpoint];
            let (set, set_slot) = self.loaded.place(endpoint);
            let queued = match self.peers[node] {
                Some(_) => 0,
                None => self.keepers[slot].queue().standing().waiting,
            };
            DriveStatus {
                name: format!("{node}/{slot}"),
                set,
                slot: set_slot,
                state: state.condition,
                reason: state.reason,
                queued,
            }
        });
        let readiness = self.readiness();
        NodeStatus {
            format: 1,
            node: self.me(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            ready: readiness.ready,
            reason: readiness.reason,
            deployment: self.deployment.get().map(Uuid::to_string),
            defects: self.defects.clone(),
            drives: drives.collect(),
            heal,
            replacement: self.replacements.status(),
            locks_granted: self.locks.sweep(),
            locks_held: self.quorum_locks.held(),
            writes_unknown: store.unknown,
            writes_undone: store.undone,
            reads_repaired: store.repaired_reads,
        }
    }
}

impl PeerService for Node {
    fn state(&self) -> PeerState {
        let drives = (0..self.keepers.len()).map(|slot| self.own_state(slot)).collect();
        PeerState { life: self.life, deployment: self.deployment.get().copied(), drives }
    }

    fn lock(&self, from: usize, call: LockCall) -> LockAnswer {
        match call {
            LockCall::Forget { life } => {
                self.quorum_locks.forget_votes_of(from, life);
                LockAnswer { granted: true, life: self.life }
            }
            call => self.own_table.answer(&call),
        }
    }

    async fn replacement(&self) -> Snapshot {
        replacement::local(self).await
    }

    async fn drive(
        &self,
        slot: usize,
        request: DriveRequest,
    ) -> Option<Result<DriveReply, DriveError>> {
        Some(self.keepers.get(slot)?.queue().call(request).await)
    }
}
