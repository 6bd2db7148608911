//! Taking a lock at a quorum of nodes, keeping it while it is used, giving it back.
//!
//! A holder counts a node's vote only until a lease after it *asked* for it, so that it gives up
//! before the node does. A node that restarts has forgotten its grants: it grants nothing until every
//! holder has stopped counting on it ([`QuorumLocks::forget_votes_of`]) or a lease has passed.
//! Requests of one node for one key wait in line here, first come first served, before any of them
//! asks the other nodes; between nodes a refused attempt gives everything back and tries again after
//! a random while.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::Weak;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use serde::Deserialize;
use serde::Serialize;
use tokio::sync::OwnedRwLockReadGuard;
use tokio::sync::OwnedRwLockWriteGuard;
use tokio::sync::RwLock;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::node::locks::LocalLocks;
use crate::node::locks::votes::SetVotes;
use crate::node::seams::BoxFuture;
use crate::node::seams::LockError;
use crate::node::seams::LockGuard;
use crate::node::seams::LockMode;
use crate::node::seams::Locks;
use crate::value::ObjectKey;

/// The first pause between two attempts; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// How long the next in line waits for the other nodes to hear of a release.
const RELEASE_WAIT: Duration = Duration::from_millis(50);

/// What one node asks another about its locks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum LockCall {
    /// Grant it.
    Grant {
        /// What to lock.
        resource: ObjectKey,
        /// The attempt.
        id: Uuid,
        /// With others or alone.
        mode: LockMode,
    },
    /// Let it last for another lease.
    Refresh {
        /// What is locked.
        resource: ObjectKey,
        /// The grant.
        id: Uuid,
    },
    /// End it.
    Release {
        /// What is locked.
        resource: ObjectKey,
        /// The grant.
        id: Uuid,
    },
    /// The asking node has restarted: count on none of its earlier grants.
    Forget {
        /// Its new life.
        life: Uuid,
    },
}

/// The answer to a [`LockCall`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockAnswer {
    /// Whether it was done.
    pub granted: bool,
    /// The life of the node that answers: a greater one after each of its starts (UUID version 7).
    pub life: Uuid,
}

/// A node that can be asked for locks.
pub trait LockPeer: Send + Sync {
    /// Asks; `None` when no answer came, which means *cannot know*.
    fn ask(&self, call: LockCall) -> BoxFuture<'_, Option<LockAnswer>>;
}

/// This node's own table behind the same trait.
pub struct OwnTable {
    locks: LocalLocks,
    life: Uuid,
}

impl OwnTable {
    /// Asks `locks`, the table of the node's present `life`.
    pub fn new(locks: LocalLocks, life: Uuid) -> Self {
        Self { locks, life }
    }

    /// Answers at once.
    pub fn answer(&self, call: &LockCall) -> LockAnswer {
        let granted = match call {
            LockCall::Grant { resource, id, mode } => self.locks.grant(resource, *id, *mode),
            LockCall::Refresh { resource, id } => self.locks.refresh(resource, *id),
            LockCall::Release { resource, id } => {
                self.locks.release(resource, *id);
                true
            }
            // A matter of holders, not of the table: see `QuorumLocks::forget_votes_of`.
            LockCall::Forget { .. } => false,
        };
        LockAnswer { granted, life: self.life }
    }
}

impl LockPeer for OwnTable {
    fn ask(&self, call: LockCall) -> BoxFuture<'_, Option<LockAnswer>> {
        let answer = self.answer(&call);
        Box::pin(async move { Some(answer) })
    }
}

/// Answers the votes over a resource: one set for a key, every set for a whole bucket.
pub type VotesOf = dyn Fn(&ObjectKey) -> Vec<SetVotes> + Send + Sync;

/// Locks by quorum. Cheap to clone.
#[derive(Clone)]
pub struct QuorumLocks {
    shared: Arc<Shared>,
}

struct Shared {
    /// Every node in endpoint order, this one included.
    nodes: Vec<Arc<dyn LockPeer>>,
    votes_of: Box<VotesOf>,
    lease: Duration,
    /// Who waits here for which key.
    lines: Mutex<BTreeMap<ObjectKey, Weak<RwLock<()>>>>,
    /// Every lock that is held or tried here.
    held: Mutex<BTreeMap<Uuid, Weak<Held>>>,
    /// The life of each node whose votes count.
    lives: Mutex<Vec<Option<Uuid>>>,
}

/// A place at the head of the line.
enum Turn {
    Shared(#[expect(dead_code, reason = "held for its drop")] OwnedRwLockReadGuard<()>),
    Exclusive(#[expect(dead_code, reason = "held for its drop")] OwnedRwLockWriteGuard<()>),
}

/// One attempt that may become, be or have been a lock.
struct Held {
    shared: Arc<Shared>,
    resource: ObjectKey,
    id: Uuid,
    votes: Vec<SetVotes>,
    /// Until when each node's vote counts.
    until: Mutex<Vec<Option<Instant>>>,
    /// Given back: what is still granted by then is given back at once.
    over: AtomicBool,
}

impl QuorumLocks {
    /// Locks over `nodes` (in endpoint order, this one's own table included), whose grants last for
    /// `lease`.
    pub fn new(nodes: Vec<Arc<dyn LockPeer>>, votes_of: Box<VotesOf>, lease: Duration) -> Self {
        let lives = Mutex::new(vec![None; nodes.len()]);
        let (lines, held) = (Mutex::default(), Mutex::default());
        Self { shared: Arc::new(Shared { nodes, votes_of, lease, lines, held, lives }) }
    }

    /// From now on no lock of this node counts on a grant that `node` made before `life` began.
    pub fn forget_votes_of(&self, node: usize, life: Uuid) {
        self.shared.counts(node, life);
    }

    /// Locks that are held or tried here now.
    pub fn held(&self) -> usize {
        lock(&self.shared.held).len()
    }

    async fn take(
        &self,
        resource: &ObjectKey,
        mode: LockMode,
        wait: Duration,
    ) -> Result<Guard, LockError> {
        let started = Instant::now();
        let busy = || LockError::Busy {
            resource: resource.clone(),
            waited_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        };
        let line = self.shared.line(resource);
        let turn = async {
            match mode {
                LockMode::Shared => Turn::Shared(line.read_owned().await),
                LockMode::Exclusive => Turn::Exclusive(line.write_owned().await),
            }
        };
        let turn = tokio::time::timeout(wait, turn).await.map_err(|_| busy())?;

        let mut pause = PAUSE_MIN;
        loop {
            let left = wait.saturating_sub(started.elapsed());
            // A guard from the start: whoever gives up waiting gives back what was granted so far.
            let mut guard = Guard { held: self.shared.begin(resource), turn: None };
            let answered = guard.held.ask_all(mode, left).await;
            if guard.held.stands() {
                guard.held.keep();
                guard.turn = Some(turn);
                return Ok(guard);
            }
            let (granted, needed) = guard.held.shortfall(&answered);
            drop(guard);
            // Who cannot reach enough nodes learns it soon; who is refused waits for its turn.
            let reached = granted.is_none();
            let over = if reached { wait } else { wait / 4 };
            if started.elapsed() + pause >= over {
                return Err(match granted {
                    None => busy(),
                    Some(granted) => {
                        LockError::NoQuorum { resource: resource.clone(), granted, needed }
                    }
                });
            }
            tokio::time::sleep(pause.mul_f64(rand::random_range(0.5..1.5))).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }
}

impl Locks for QuorumLocks {
    fn acquire<'a>(
        &'a self,
        resource: &'a ObjectKey,
        mode: LockMode,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Box<dyn LockGuard>, LockError>> {
        Box::pin(async move {
            let guard = self.take(resource, mode, wait).await?;
            Ok(Box::new(guard) as Box<dyn LockGuard>)
        })
    }
}

impl Shared {
    fn line(&self, resource: &ObjectKey) -> Arc<RwLock<()>> {
        let mut lines = lock(&self.lines);
        if lines.len() > 1_024 {
            lines.retain(|_, line| line.strong_count() > 0);
        }
        if let Some(line) = lines.get(resource).and_then(Weak::upgrade) {
            return line;
        }
        let line = Arc::new(RwLock::new(()));
        lines.insert(resource.clone(), Arc::downgrade(&line));
        line
    }

    fn begin(self: &Arc<Self>, resource: &ObjectKey) -> Arc<Held> {
        let held = Arc::new(Held {
            shared: Arc::clone(self),
            resource: resource.clone(),
            id: Uuid::new_v4(),
            votes: (self.votes_of)(resource),
            until: Mutex::new(vec![None; self.nodes.len()]),
            over: AtomicBool::new(false),
        });
        lock(&self.held).insert(held.id, Arc::downgrade(&held));
        held
    }

    /// Whether an answer of `node` in `life` counts. A later life than the known one ends the votes of
    /// the earlier; an earlier one does not count.
    fn counts(&self, node: usize, life: Uuid) -> bool {
        let mut lives = lock(&self.lives);
        let Some(known) = lives.get_mut(node) else { return false };
        match known {
            Some(known) if *known > life => return false,
            Some(known) if *known < life => {
                let held: Vec<_> = lock(&self.held).values().filter_map(Weak::upgrade).collect();
                for held in held {
                    lock(&held.until)[node] = None;
                }
            }
            _ => {}
        }
        *known = Some(life);
        true
    }
}

impl Held {
    /// The nodes that have a vote.
    fn voters(&self) -> Vec<usize> {
        let nodes = 0..self.shared.nodes.len();
        nodes.filter(|node| self.votes.iter().any(|set| set.by_node[*node] > 0)).collect()
    }

    /// Asks every voter, and answers who answered at all, as soon as the votes suffice, can no longer
    /// suffice, or `wait` is over. Answers that come later are still counted or given back.
    async fn ask_all(self: &Arc<Self>, mode: LockMode, wait: Duration) -> Vec<bool> {
        let voters = self.voters();
        let mut answered = vec![false; self.shared.nodes.len()];
        let mut refused = vec![false; self.shared.nodes.len()];
        let (sender, mut answers) = mpsc::unbounded_channel();
        for &node in &voters {
            let (held, sender) = (Arc::clone(self), sender.clone());
            tokio::spawn(async move {
                let answer = held.ask(node, mode).await;
                // Nobody listens any more once the votes were enough.
                let _ = sender.send((node, answer));
            });
        }
        drop(sender);
        let collect = async {
            while let Some((node, answer)) = answers.recv().await {
                answered[node] = answer.is_some();
                refused[node] = answer != Some(true);
                let possible = |set: &SetVotes| set.count(|node| !refused[node]) >= set.needed;
                if self.stands() || !self.votes.iter().all(possible) {
                    break;
                }
            }
        };
        // Running out of time is seen by what was not answered.
        let _ = tokio::time::timeout(wait, collect).await;
        answered
    }

    async fn ask(self: &Arc<Self>, node: usize, mode: LockMode) -> Option<bool> {
        let (peer, asked) = (&self.shared.nodes[node], Instant::now());
        let resource = self.resource.clone();
        let answer = peer.ask(LockCall::Grant { resource, id: self.id, mode }).await?;
        let counts = self.shared.counts(node, answer.life) && answer.granted;
        if counts {
            lock(&self.until)[node] = Some(asked + self.shared.lease);
        }
        if answer.granted && self.over.load(Ordering::SeqCst) {
            self.release_at(node).await;
        }
        Some(counts)
    }

    async fn release_at(&self, node: usize) {
        let resource = self.resource.clone();
        // Without an answer the lease ends it.
        let _ = self.shared.nodes[node].ask(LockCall::Release { resource, id: self.id }).await;
    }

    fn stands(&self) -> bool {
        let (now, until) = (Instant::now(), lock(&self.until));
        let counts = |node: usize| until[node].is_some_and(|until| now < until);
        self.votes.iter().all(|set| set.count(counts) >= set.needed)
    }

    /// Votes granted and needed in the set that had too few *answers*; no votes when the nodes that
    /// answered would have been enough, so that it was somebody else who held it.
    fn shortfall(&self, answered: &[bool]) -> (Option<usize>, usize) {
        let until = lock(&self.until);
        let short = self.votes.iter().find(|set| set.count(|node| answered[node]) < set.needed);
        match short {
            None => (None, 0),
            Some(set) => (Some(set.count(|node| until[node].is_some())), set.needed),
        }
    }

    /// Refreshes the votes three times a lease until it is given back or lost.
    fn keep(self: &Arc<Self>) {
        let (held, period) = (Arc::downgrade(self), self.shared.lease / 3);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(period).await;
                let Some(held) = held.upgrade() else { return };
                if held.over.load(Ordering::SeqCst) || !held.stands() {
                    return;
                }
                let voters = held.voters();
                let counted: Vec<_> = {
                    let until = lock(&held.until);
                    voters.into_iter().filter(|node| until[*node].is_some()).collect()
                };
                for node in counted {
                    tokio::spawn(Arc::clone(&held).refresh(node));
                }
            }
        });
    }

    async fn refresh(self: Arc<Self>, node: usize) {
        let asked = Instant::now();
        let (resource, id) = (self.resource.clone(), self.id);
        let answer = self.shared.nodes[node].ask(LockCall::Refresh { resource, id }).await;
        let Some(answer) = answer else { return };
        let counts = self.shared.counts(node, answer.life) && answer.granted;
        let mut until = lock(&self.until);
        until[node] = match until[node] {
            Some(until) if counts => Some(until.max(asked + self.shared.lease)),
            _ => None,
        };
    }

    /// Ends it at every node: here at once, elsewhere in the background.
    fn give_back(self: &Arc<Self>) -> Vec<tokio::task::JoinHandle<()>> {
        self.over.store(true, Ordering::SeqCst);
        lock(&self.shared.held).remove(&self.id);
        let mut releases = Vec::new();
        for node in self.voters() {
            let held = Arc::clone(self);
            releases.push(tokio::spawn(async move { held.release_at(node).await }));
        }
        releases
    }
}

/// A lock that is held.
struct Guard {
    held: Arc<Held>,
    turn: Option<Turn>,
}

impl LockGuard for Guard {
    fn id(&self) -> Uuid {
        self.held.id
    }

    fn is_held(&self) -> bool {
        self.held.stands()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let (held, turn) = (Arc::clone(&self.held), self.turn.take());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            // The process ends: leases end what it held.
            held.over.store(true, Ordering::SeqCst);
            return;
        };
        let _entered = runtime.enter();
        let releases = held.give_back();
        runtime.spawn(async move {
            // The next in line would be refused by a node that has not heard of the release.
            let all = futures::future::join_all(releases);
            let _ = tokio::time::timeout(RELEASE_WAIT, all).await;
            drop(turn);
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds this")
}

#[cfg(test)]
mod tests;
