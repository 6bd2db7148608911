//! Durable-strong state: one snapshot in memory, held against the object that it is of, and replaced by every change.
//!
//! A catalog that was restarted is closed to writers until an operator has verified it and opens it: what needs no
//! write, such as the replay of a commit that was made before, is answered all the same.
//!
//! # Sources
//!
//! Specification of the catalog §4.4 to §4.7, §6.

mod changes;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use super::depot::Depot;
use super::locks;
use super::locks::Locks;
use crate::node::seams::LockMode;
use crate::node::store::system::SystemStat;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::fence::Cancelled;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::snapshot::codec;
use crate::protocol::catalog::strong::change::Answer;
use crate::protocol::catalog::strong::change::Change;
use crate::protocol::catalog::strong::hydrate;
use crate::protocol::catalog::strong::hydrate::Loaded;
use crate::protocol::catalog::strong::hydrate::Look;
use crate::protocol::catalog::strong::hydrate::Memory;
use crate::protocol::catalog::strong::hydrate::RELOADS_MAX;
use crate::protocol::catalog::strong::hydrate::Reader;
use crate::protocol::catalog::strong::hydrate::Reading;
use crate::protocol::catalog::strong::hydrate::Stat;
use crate::protocol::catalog::strong::plan;
use crate::protocol::catalog::strong::plan::Plan;
use crate::protocol::catalog::strong::plan::Planned;
use crate::protocol::catalog::strong::plan::Rules;
use crate::protocol::catalog::write::Outcome;

/// How often a change is planned anew because somebody else was faster.
const RACES_MAX: usize = 16;

/// The snapshot as one process has it.
pub struct Strong {
    depot: Depot,
    rules: Rules,
    /// Whether an operator has opened it to writers.
    admitted: AtomicBool,
    /// One change at a time.
    writing: tokio::sync::Mutex<()>,
    /// One reading at a time.
    reading: tokio::sync::Mutex<()>,
    held: Mutex<Held>,
}

/// What is in memory.
#[derive(Clone, Default)]
struct Held {
    memory: Memory,
    loaded: Option<Arc<Loaded>>,
}

/// What may explain that there is no snapshot.
#[derive(Debug, Clone, Default)]
pub struct Explanation {
    /// All bucket fences.
    pub fences: Vec<BucketFence>,
    /// The record of the last cancellation.
    pub cancelled: Option<Cancelled>,
}

/// A change that was planned, with what it was planned on.
pub struct Prepared {
    planned: Box<Planned>,
    base: Option<Arc<Loaded>>,
    memory: Memory,
}

impl Prepared {
    /// Whether it would be planned on just this.
    fn is_planned_on(&self, loaded: Option<&Arc<Loaded>>, memory: &Memory) -> bool {
        let is_same = match (&self.base, loaded) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        is_same && self.memory == *memory
    }
}

impl Strong {
    /// A snapshot that was not looked at yet.
    pub fn new(depot: Depot, rules: Rules) -> Self {
        Self {
            depot,
            rules,
            admitted: AtomicBool::new(false),
            writing: tokio::sync::Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            held: Mutex::default(),
        }
    }

    /// What changes are written by.
    pub fn rules(&self) -> Rules {
        self.rules
    }

    /// Opens it to writers.
    pub fn admit(&self) {
        self.admitted.store(true, Ordering::SeqCst);
    }

    /// Whether it is open to writers.
    pub fn is_admitted(&self) -> bool {
        self.admitted.load(Ordering::SeqCst)
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this process remembers of the snapshot.
    pub fn memory(&self) -> Memory {
        self.held().memory.clone()
    }

    /// A write of the snapshot was tried, whatever became of it.
    pub fn has_tried(&self) {
        let mut held = self.held();
        held.memory = held.memory.has_tried();
    }

    /// The snapshot as it is durable now; nothing when there is none and there may be none.
    ///
    /// # Errors
    ///
    /// [`Class::Damaged`] when it disappeared or cannot be read; [`Class::Invalid`] when it is not one, or older than
    /// what this process has seen.
    pub async fn hydrate(
        &self,
        reader: Reader,
        explanation: &Explanation,
    ) -> Result<Option<Arc<Loaded>>, Refusal> {
        if let Some(held) = self.if_current().await? {
            return Ok(held.loaded);
        }
        let _turn = self.reading.lock().await;
        if let Some(held) = self.if_current().await? {
            return Ok(held.loaded);
        }
        for _ in 0..RELOADS_MAX {
            let body = self.read().await?;
            let stat = self.depot.stat(keys::SNAPSHOT).await?.map(|it| stat_of(&it));
            let memory = self.memory();
            let etag = body.as_ref().map(|it| &*it.etag);
            let reading = match memory.judge(etag, stat.as_ref(), reader) {
                Ok(reading) => reading,
                Err(refusal) => {
                    let fences = &explanation.fences;
                    let cancelled = explanation.cancelled.as_ref();
                    let explained = memory.explained(fences, cancelled);
                    let Some(explained) = explained.filter(|_| body.is_none() && stat.is_none())
                    else {
                        return Err(refusal);
                    };
                    if reader == Reader::Strong {
                        return Err(refusal);
                    }
                    self.held().memory = explained;
                    continue;
                }
            };
            match (reading, body) {
                (Reading::TakeOver, Some(loaded)) => {
                    let mut held = self.held();
                    held.memory = held.memory.install(&loaded)?;
                    held.loaded = Some(Arc::new(loaded));
                    return Ok(held.loaded.clone());
                }
                (Reading::Empty, _) => {
                    let mut held = self.held();
                    held.memory = held.memory.install_empty();
                    held.loaded = None;
                    return Ok(None);
                }
                (Reading::TakeOver | Reading::Again, _) => {}
            }
        }
        Err(Class::Damaged.because("the strong snapshot changes faster than it can be read"))
    }

    /// What is in memory, if it is what is durable.
    async fn if_current(&self) -> Result<Option<Held>, Refusal> {
        let stat = self.depot.stat(keys::SNAPSHOT).await?.map(|it| stat_of(&it));
        let held = self.held();
        let look = held.memory.look(stat.as_ref())?;
        Ok((look == Look::Use).then(|| held.clone()))
    }

    async fn read(&self) -> Result<Option<Loaded>, Refusal> {
        let Some(stat) = self.depot.stat(keys::SNAPSHOT).await? else { return Ok(None) };
        let bytes = usize::try_from(stat.size).unwrap_or(usize::MAX);
        codec::check_size(bytes, codec::SNAPSHOT_BYTES_MAX)?;
        let Some(found) = self.depot.read(keys::SNAPSHOT).await? else { return Ok(None) };
        let Stat { etag, epoch } = stat_of(&found.stat);
        let version_max = self.depot.snapshot_version_max();
        let decoded =
            off_the_reactor(move || codec::decode_up_to(&found.contents, version_max)).await?;
        Ok(Some(Loaded { snapshot: decoded, etag, epoch }))
    }

    /// Performs a change under locks that are held; answers it with the snapshot that shows it. What was `prepared`
    /// of it is used as long as nobody has changed what it was planned on.
    ///
    /// # Errors
    ///
    /// As the change has them; [`Class::Unavailable`] when the catalog is closed to writers; [`Class::Unknown`].
    pub async fn change(
        &self,
        change: Change,
        mut prepared: Option<Prepared>,
        locks: &mut Locks,
    ) -> Result<Answer, Refusal> {
        let change = Arc::new(change);
        let _turn = match self.writing.try_lock() {
            Ok(turn) => turn,
            Err(_) => {
                // It would be planned anew anyway, and is as large as the snapshot.
                prepared = None;
                self.writing.lock().await
            }
        };
        // Bytes alone do not say which of two equal snapshots is the later one: one process after the other.
        locks.take(self.depot.store(), &locks::snapshot(), LockMode::Exclusive).await?;
        for _ in 0..RACES_MAX {
            let loaded = self.hydrate(Reader::Strong, &Explanation::default()).await?;
            let (memory, rules, wanted) = (self.memory(), self.rules, Arc::clone(&change));
            let fits = |it: &Prepared| it.is_planned_on(loaded.as_ref(), &memory);
            let planned = match prepared.take().filter(fits) {
                Some(prepared) => Plan::Write(prepared.planned),
                None => {
                    let plan = move || plan::plan(loaded.as_deref(), &memory, &wanted, &rules);
                    off_the_reactor(plan).await?
                }
            };
            let planned = match planned {
                Plan::Unchanged(answer) => return Ok(answer),
                Plan::Write(planned) => planned,
            };
            if !self.is_admitted() {
                return Err(closed());
            }
            let outcome = self.depot.perform(&planned.write, locks).await;
            match outcome {
                Ok(Outcome::Done(etag)) => {
                    let etag = etag.unwrap_or_default();
                    let (snapshot, epoch) = (planned.snapshot, Some(planned.epoch));
                    let loaded = Loaded { snapshot, etag, epoch };
                    let mut held = self.held();
                    // What was written is durable; that it cannot be taken over means only to read it again.
                    match held.memory.install(&loaded) {
                        Ok(memory) => {
                            held.memory = memory;
                            held.loaded = Some(Arc::new(loaded));
                        }
                        Err(_) => held.memory = held.memory.has_tried(),
                    }
                    return Ok(planned.answer);
                }
                Ok(Outcome::PreconditionFailed) => self.has_tried(),
                Ok(Outcome::Unknown) => {
                    self.has_tried();
                    let now = self.hydrate(Reader::Strong, &Explanation::default()).await;
                    let has_happened = now.is_ok_and(|now| {
                        now.is_some_and(|it| plan::has_happened(&it.snapshot.contents, &change))
                    });
                    if has_happened {
                        return Ok(planned.answer);
                    }
                    return Err(Class::Unknown
                        .because("what became of the strong snapshot cannot be known"));
                }
                Err(refusal) => {
                    self.has_tried();
                    return Err(refusal);
                }
            }
        }
        Err(Class::Conflict.because("others were faster each time; nothing was written"))
    }
}

/// Why a catalog that was restarted changes nothing.
fn closed() -> Refusal {
    Class::Unavailable.because(
        "the catalog was restarted and is closed to writers until it is verified and opened",
    )
}

fn stat_of(stat: &SystemStat) -> Stat {
    let epoch = stat.user.get(hydrate::EPOCH).and_then(|it| it.parse().ok());
    Stat { etag: stat.etag.clone(), epoch }
}

/// Does what takes long on a large snapshot where nobody waits for it.
async fn off_the_reactor<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(Class::Damaged.because(format!("the strong snapshot: {error}"))),
    }
}
