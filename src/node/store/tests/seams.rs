//! The seams of a store, with faults: drives in a mood, locks of one process.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::Weak;
use std::time::Duration;

use tokio::sync::OwnedRwLockReadGuard;
use tokio::sync::OwnedRwLockWriteGuard;
use tokio::sync::RwLock;
use uuid::Uuid;

use crate::disk::drive::Drive as _;
use crate::disk::drive::DriveError;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::DriveStep;
use crate::disk::drive::Fences;
use crate::disk::drive::LocalDrive;
use crate::node::seams::BoxFuture;
use crate::node::seams::DriveClient;
use crate::node::seams::LockError;
use crate::node::seams::LockGuard;
use crate::node::seams::LockMode;
use crate::node::seams::Locks;
use crate::value::ObjectKey;

/// What a drive does with requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    Good,
    /// It is known to be away.
    Offline,
    /// Every request fails, without effect.
    Failing,
    /// Reads work, writes do not.
    ReadOnly,
    /// Nothing is done and no answer comes.
    Hung,
    /// What changes a key is done, but the answer is lost.
    LosesAnswers,
    /// What changes a key is lost on the way.
    LosesQuestions,
    /// Publishes, and then answers nothing more: its coordinator seems dead.
    FailsAfterCommit,
}

pub struct Client {
    pub drive: Arc<LocalDrive>,
    pub mood: Mutex<Mood>,
}

const NO_ANSWER: Duration = Duration::from_millis(300);

impl DriveClient for Client {
    fn name(&self) -> &str {
        self.drive.name()
    }

    fn is_online(&self) -> bool {
        *self.mood.lock().unwrap() != Mood::Offline
    }

    fn call(&self, request: DriveRequest) -> BoxFuture<'_, Result<DriveReply, DriveError>> {
        Box::pin(async move {
            let mood = *self.mood.lock().unwrap();
            let commits = matches!(
                request,
                DriveRequest::Commit(_) | DriveRequest::Remove(_) | DriveRequest::CommitPart(_)
            );
            let undoes = matches!(request, DriveRequest::Undo(_) | DriveRequest::Settle(_));
            let writes = commits || undoes || matches!(request, DriveRequest::Append { .. });
            let failed = DriveError::Io { step: DriveStep::Open, path: "x".to_owned(), errno: 5 };
            let lost = DriveError::Deadline { waited_ms: 300 };
            match mood {
                Mood::Good => self.perform(request).await,
                Mood::Offline => Err(DriveError::NotAsked { why: "offline".to_owned() }),
                Mood::Failing => Err(failed),
                Mood::ReadOnly if writes => Err(failed),
                Mood::Hung => {
                    tokio::time::sleep(NO_ANSWER).await;
                    Err(lost)
                }
                Mood::LosesAnswers if commits || undoes => {
                    self.perform(request).await.ok();
                    Err(lost)
                }
                Mood::LosesQuestions if commits || undoes => Err(lost),
                Mood::FailsAfterCommit if undoes => Err(lost),
                _ => self.perform(request).await,
            }
        })
    }
}

impl Client {
    async fn perform(&self, request: DriveRequest) -> Result<DriveReply, DriveError> {
        let drive = Arc::clone(&self.drive);
        tokio::task::spawn_blocking(move || drive.perform(request)).await.unwrap()
    }
}

/// Locks of one process, and the fences that stand for them.
#[derive(Default)]
pub struct Table {
    lines: Mutex<BTreeMap<ObjectKey, Arc<RwLock<()>>>>,
    pub held: Mutex<BTreeMap<Uuid, ObjectKey>>,
}

enum Turn {
    Shared(#[expect(dead_code, reason = "held for its drop")] OwnedRwLockReadGuard<()>),
    Exclusive(#[expect(dead_code, reason = "held for its drop")] OwnedRwLockWriteGuard<()>),
}

struct Guard {
    table: Weak<Table>,
    id: Uuid,
    _turn: Turn,
}

impl LockGuard for Guard {
    fn id(&self) -> Uuid {
        self.id
    }

    fn is_held(&self) -> bool {
        self.table.upgrade().is_some_and(|table| table.held.lock().unwrap().contains_key(&self.id))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(table) = self.table.upgrade() {
            table.held.lock().unwrap().remove(&self.id);
        }
    }
}

pub struct TableLocks(pub Arc<Table>);

impl Locks for TableLocks {
    fn acquire<'a>(
        &'a self,
        resource: &'a ObjectKey,
        mode: LockMode,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Box<dyn LockGuard>, LockError>> {
        Box::pin(async move {
            let line =
                Arc::clone(self.0.lines.lock().unwrap().entry(resource.clone()).or_default());
            let turn = async {
                match mode {
                    LockMode::Shared => Turn::Shared(line.read_owned().await),
                    LockMode::Exclusive => Turn::Exclusive(line.write_owned().await),
                }
            };
            let busy = LockError::Busy { resource: resource.clone(), waited_ms: 0 };
            let turn = tokio::time::timeout(wait, turn).await.map_err(|_| busy)?;
            let id = Uuid::new_v4();
            self.0.held.lock().unwrap().insert(id, resource.clone());
            let guard = Guard { table: Arc::downgrade(&self.0), id, _turn: turn };
            Ok(Box::new(guard) as Box<dyn LockGuard>)
        })
    }
}

impl Fences for Table {
    fn pin(&self, resource: &ObjectKey, lock: Uuid) -> Option<Box<dyn Send>> {
        let stands = self.held.lock().unwrap().get(&lock) == Some(resource);
        stands.then(|| Box::new(()) as Box<dyn Send>)
    }
}

impl Table {
    /// As if every lease had run out.
    pub fn lapse(&self) {
        self.held.lock().unwrap().clear();
    }
}
