//! Clients at work: each takes its list, one request at a time, and fills in what earlier answers
//! told. Every request stands in the history before its first byte leaves.
//!
//! A client never repeats a request whose end it does not know. A connection that is refused was not
//! executed, so the next node may be asked instead: as another operation, with other contents.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time;

use super::answer::CONNECTION_REFUSED;
use super::client::Client;
use super::generator::LaneList;
use super::history::Action;
use super::history::Ending;
use super::history::Event;
use super::history::Operation;
use super::history::Outcome;
use super::lane::Lane;
use super::memory::Memory;
use super::recorder::Recorder;
use super::spec::LoadSpec;
use super::spec::WhenDown;
use crate::value::ObjectKey;

/// Operations that one client can have in a run.
const OPS_PER_CLIENT: u64 = 1_000_000;
/// How long a client waits before it asks again for a node that is down.
pub(super) const DOWN_POLL: Duration = Duration::from_millis(100);

/// Where the nodes are.
pub trait Endpoints: Send + Sync {
    /// How many nodes there are.
    fn nodes(&self) -> usize;

    /// Where clients reach `node`; `None` while it is known to be down.
    fn address(&self, node: usize) -> Option<SocketAddr>;
}

/// Sends the requests of a run and remembers what was learnt. Cheap to clone.
#[derive(Clone)]
pub struct Driver {
    client: Client,
    recorder: Recorder,
    endpoints: Arc<dyn Endpoints>,
    memory: Arc<Mutex<Memory>>,
}

/// What became of a load step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoadSummary {
    /// Requests that took effect.
    pub acknowledged: u64,
    /// Requests that did not.
    pub refused: u64,
    /// Requests of which nobody can tell.
    pub ambiguous: u64,
    /// Clients that stopped early because every node they may ask stayed down.
    pub blocked: u64,
}

impl LoadSummary {
    pub(super) fn count(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Acknowledged => self.acknowledged += 1,
            Outcome::Refused => self.refused += 1,
            Outcome::Ambiguous => self.ambiguous += 1,
        }
    }

    fn add(&mut self, other: Self) {
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.ambiguous += other.ambiguous;
        self.blocked += other.blocked;
    }
}

impl Driver {
    /// A driver that has learnt nothing yet.
    pub fn new(client: Client, recorder: Recorder, endpoints: Arc<dyn Endpoints>) -> Self {
        Self { client, recorder, endpoints, memory: Arc::default() }
    }

    /// Works through `lists`, one client each, until all are done, blocked, or `stop` turns true.
    /// A client that is told to stop ends the request it waits for first.
    pub async fn load(
        &self,
        load: &LoadSpec,
        lists: Vec<LaneList>,
        stop: &watch::Receiver<bool>,
    ) -> LoadSummary {
        let targets = load.targets.nodes(self.endpoints.nodes());
        let mut lanes = JoinSet::new();
        for list in lists {
            let route = Route {
                targets: targets.clone(),
                turn: list.client as usize,
                when_down: load.when_down,
                patience: Duration::from_millis(load.down_wait_ms),
            };
            let mut lane = Lane::new(self.clone(), list.client, route);
            let stop = stop.clone();
            lanes.spawn(async move { lane.work(list.intents, &stop).await });
        }
        let mut summary = LoadSummary::default();
        while let Some(lane) = lanes.join_next().await {
            match lane {
                Ok(of_lane) => summary.add(of_lane),
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => summary.blocked += 1,
            }
        }
        summary
    }

    /// Every key that a write was sent to so far.
    pub fn touched(&self) -> Vec<ObjectKey> {
        self.memory().touched().cloned().collect()
    }

    pub(super) fn memory(&self) -> MutexGuard<'_, Memory> {
        // What clients remember only shapes later requests: a panic elsewhere leaves it usable.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn nodes(&self) -> usize {
        self.endpoints.nodes()
    }

    pub(super) fn address(&self, node: usize) -> Option<SocketAddr> {
        self.endpoints.address(node)
    }

    /// Sends one request, between its two entries in the history, and learns from its end.
    pub(super) async fn attempt(
        &self,
        operation: Operation,
        address: SocketAddr,
        body: Bytes,
        parts: &[super::client::PartTag],
    ) -> Ending {
        if operation.action.is_write() {
            self.memory().touch(&operation.target);
        }
        self.recorder.record(Event::Invoked(operation.clone()));
        let ending = self.client.send(&operation, address, body, parts).await;
        self.recorder.record(Event::Ended(ending.clone()));
        self.memory().learn(&operation, &ending);
        ending
    }
}

/// Numbers the operations of one client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbering {
    client: u32,
    next: u64,
}

impl Numbering {
    /// The numbers of `client`.
    pub(super) fn of(client: u32) -> Self {
        Self { client, next: 0 }
    }

    /// The next number.
    pub(super) fn take(&mut self) -> u64 {
        self.next += 1;
        u64::from(self.client) * OPS_PER_CLIENT + self.next
    }

    /// The client.
    pub(super) fn client(&self) -> u32 {
        self.client
    }
}

/// Which node a client asks next.
#[derive(Debug, Clone)]
pub(super) struct Route {
    /// The nodes that it may ask.
    pub(super) targets: Vec<usize>,
    /// Counts its requests.
    pub(super) turn: usize,
    /// What it does when a node is down.
    pub(super) when_down: WhenDown,
    /// How long it still waits for nodes that are down.
    pub(super) patience: Duration,
}

impl Route {
    /// The node whose turn it is.
    pub(super) fn node(&self) -> Option<usize> {
        self.targets.get(self.turn % self.targets.len().max(1)).copied()
    }

    /// Waits a little for a node that is down; false when the patience is used up or `stop` is set.
    pub(super) async fn wait(&mut self, stop: &watch::Receiver<bool>) -> bool {
        let began = Instant::now();
        let mut stop = stop.clone();
        // Ends early when told to stop; a closed channel cannot tell any more.
        let stopped = time::timeout(DOWN_POLL, stop.wait_for(|stop| *stop)).await;
        if stopped.is_ok_and(|stopped| stopped.is_err()) {
            time::sleep(DOWN_POLL.saturating_sub(began.elapsed())).await;
        }
        self.patience = self.patience.saturating_sub(began.elapsed());
        !self.patience.is_zero() && !*stop.borrow()
    }
}

/// Whether a request was not even accepted.
pub(super) fn was_refused_connection(ending: &Ending) -> bool {
    ending.outcome == Outcome::Refused && ending.reason == CONNECTION_REFUSED
}

/// The operation that asks `action` of `node`.
pub(super) fn operation(
    op: u64,
    client: u32,
    node: usize,
    target: ObjectKey,
    action: Action,
) -> Operation {
    Operation { op, client, node, target, action }
}
