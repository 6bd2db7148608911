//! Asking the drives of a set: all at once, waiting for as many answers as matter.

use std::sync::Arc;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;

use super::Store;
use super::api::StoreError;
use crate::disk::drive::DriveError;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::Grant;
use crate::disk::format::erasure::Erasure;
use crate::disk::layout;
use crate::node::seams::BoxFuture;
use crate::node::seams::DriveClient;
use crate::node::seams::LockGuard;
use crate::node::seams::LockMode;
use crate::protocol::crash_point::CrashPoint;
use crate::protocol::crash_point::Place;
use crate::protocol::object::quorum;
use crate::protocol::rules::SharedRules;
use crate::value::ObjectKey;

/// How long the drives that lag behind a quorum are waited for before the others go on.
pub(super) const GRACE: Duration = Duration::from_millis(1_500);

/// One drive's answer.
pub(super) type Answer = (usize, Result<DriveReply, DriveError>);
/// Questions that are under way; they make progress while they are polled.
pub(super) type Asked = FuturesUnordered<BoxFuture<'static, Answer>>;

/// A lock that is held until this is dropped.
pub(super) struct Held {
    guard: Box<dyn LockGuard>,
    resource: ObjectKey,
}

impl Held {
    /// What commit steps carry.
    pub(super) fn grant(&self) -> Grant {
        Grant { resource: self.resource.clone(), lock: self.guard.id() }
    }

    /// Whether nobody else can have got it so far.
    pub(super) fn is_held(&self) -> bool {
        self.guard.is_held()
    }
}

/// What is locked for a whole bucket.
pub(super) fn bucket_resource(bucket: &str) -> ObjectKey {
    ObjectKey { bucket: bucket.to_owned(), key: String::new() }
}

/// What is locked for an upload. It carries the object's key, so that the nodes of the object's set vote.
pub(super) fn upload_resource(upload: &ObjectKey, key: &str) -> ObjectKey {
    ObjectKey { bucket: format!("{}/{}", upload.bucket, upload.key), key: key.to_owned() }
}

/// Unix nanoseconds.
pub(super) fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

/// Waits for answers until all are in, or `enough` says so of those that are and `grace` has passed since.
pub(super) async fn gather(
    asked: &mut Asked,
    grace: Duration,
    mut enough: impl FnMut(&[Answer]) -> bool,
) -> Vec<Answer> {
    let mut answers = Vec::new();
    let mut over = None;
    loop {
        let next = match over {
            None => asked.next().await,
            Some(over) => match tokio::time::timeout_at(over, asked.next()).await {
                Ok(next) => next,
                Err(_) => return answers,
            },
        };
        let Some(answer) = next else { return answers };
        answers.push(answer);
        if over.is_none() && enough(&answers) {
            if grace.is_zero() {
                return answers;
            }
            over = Some(tokio::time::Instant::now() + grace);
        }
    }
}

/// The first error among answers, for a message.
pub(super) fn first_error(answers: &[Answer]) -> Option<DriveError> {
    answers.iter().find_map(|(_, answer)| answer.as_ref().err().cloned())
}

impl Store {
    /// The drives of a set, in slot order.
    pub(super) fn drives(&self, set: usize) -> &[Arc<dyn DriveClient>] {
        &self.parts.sets[set]
    }

    /// Sets of the deployment.
    pub(super) fn sets(&self) -> usize {
        self.parts.sets.len()
    }

    /// Drives of each set.
    pub(super) fn set_drives(&self) -> usize {
        self.parts.sets[0].len()
    }

    /// The set that holds a key.
    pub(super) fn set_of(&self, key: &str) -> usize {
        layout::set_of(self.parts.format.id, key, self.sets())
    }

    /// Drives that count as a majority of a set.
    pub(super) fn majority(&self) -> usize {
        quorum::majority(self.set_drives())
    }

    /// Drives that must have a write, after the rules.
    pub(super) fn needed(&self, asked: usize) -> usize {
        self.parts.rules.write_quorum(asked)
    }

    /// Whether changes of the table catalog look for the fences of a migration, after the rules.
    pub fn heeds_fences(&self) -> bool {
        self.parts.rules.heeds_fences()
    }

    /// Whether the table catalog binds those who may do everything, after the rules.
    pub fn binds_everybody(&self) -> bool {
        self.parts.rules.binds_everybody()
    }

    /// The rules, for what others than the store decide.
    pub fn rules(&self) -> &SharedRules {
        &self.parts.rules
    }

    /// The code of a geometry.
    pub(super) fn erasure(&self, data: usize, parity: usize) -> Result<Arc<Erasure>, StoreError> {
        let mut codecs = self.codecs.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(codec) = codecs.get(&(data, parity)) {
            return Ok(Arc::clone(codec));
        }
        let codec = Erasure::new(data, parity)
            .map_err(|error| StoreError::InvalidRequest(error.to_string()))?;
        let codec = Arc::new(codec);
        codecs.insert((data, parity), Arc::clone(&codec));
        Ok(codec)
    }

    /// Begins to ask; drives that are offline are answered for at once.
    pub(super) fn start(
        &self,
        set: usize,
        requests: impl IntoIterator<Item = (usize, DriveRequest)>,
    ) -> Asked {
        let drives = self.drives(set);
        requests
            .into_iter()
            .map(|(slot, request)| {
                let drive = Arc::clone(&drives[slot]);
                Box::pin(async move {
                    if drive.is_online() {
                        (slot, drive.call(request).await)
                    } else {
                        let why = format!("{} is offline", drive.name());
                        (slot, Err(DriveError::NotAsked { why }))
                    }
                }) as BoxFuture<'static, Answer>
            })
            .collect()
    }

    /// Asks each drive of a set the same and waits for all answers, in slot order.
    pub(super) async fn ask_all(&self, set: usize, request: &DriveRequest) -> Vec<Answer> {
        let requests = (0..self.drives(set).len()).map(|slot| (slot, request.clone()));
        self.ask(set, requests).await
    }

    /// Asks some drives and waits for all answers, in slot order.
    pub(super) async fn ask(
        &self,
        set: usize,
        requests: impl IntoIterator<Item = (usize, DriveRequest)>,
    ) -> Vec<Answer> {
        let mut asked = self.start(set, requests);
        let mut answers = gather(&mut asked, Duration::ZERO, |_| false).await;
        answers.sort_by_key(|(slot, _)| *slot);
        answers
    }

    /// Takes a lock.
    pub(super) async fn lock(
        &self,
        resource: &ObjectKey,
        mode: LockMode,
    ) -> Result<Held, StoreError> {
        let wait = Duration::from_millis(self.parts.limits.lock_wait_ms);
        self.lock_within(resource, mode, wait).await
    }

    /// Takes a lock, waiting for it at most so long.
    pub(super) async fn lock_within(
        &self,
        resource: &ObjectKey,
        mode: LockMode,
        wait: Duration,
    ) -> Result<Held, StoreError> {
        let guard = self.parts.locks.acquire(resource, mode, wait).await?;
        Ok(Held { guard, resource: resource.clone() })
    }

    /// Passes a crash point of the coordinator, off the reactor: holding there means not to return.
    pub(super) async fn pass(&self, point: CrashPoint, target: &ObjectKey) {
        if !self.parts.passing.may_act() {
            return;
        }
        let passing = Arc::clone(&self.parts.passing);
        let place = Place { drive: None, bucket: target.bucket.clone(), key: target.key.clone() };
        let passed = tokio::task::spawn_blocking(move || passing.pass(point, &place)).await;
        passed.expect("passing a point does not panic");
    }
}
