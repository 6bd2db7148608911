//! Watches over one drive of this node: opens it, finds out what it is, admits it, probes it.
//!
//! Every look at the drive happens on a thread made for it, one at a time, so that a drive that hangs
//! costs one thread however long it is watched. A drive that vanished or was exchanged is closed and
//! what lies at its mount point is identified anew, like at the start.

use std::sync::Arc;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use tokio::sync::oneshot;
use tokio::sync::watch;

use crate::disk::drive::DriveError;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::disk::format::format_json::FormatJson;
use crate::node::drives::Attached;
use crate::node::drives::QueuedDrive;
use crate::node::drives::Seen;
use crate::node::drives::queue::QueueLimits;
use crate::node::drives::seen::admit;
use crate::node::seams::DriveClient;
use crate::protocol::admin::DriveCondition;

/// Opens the drive at one mount point, writing nothing.
pub type Open = dyn Fn() -> Result<Arc<dyn Attached>, DriveError> + Send + Sync;

/// How long a clean end waits for one drive.
const CLOSE_WAIT: Duration = Duration::from_secs(1);
/// How often a formatted drive is looked at again while the deployment's format is unknown.
const LOOK_PERIOD: Duration = Duration::from_millis(100);

/// The keeper of one drive.
pub struct Keeper {
    queue: QueuedDrive,
    limits: QueueLimits,
    place: (usize, usize),
    probe_period: Duration,
    open: Arc<Open>,
    seen: Mutex<Seen>,
    reference: watch::Receiver<Option<Arc<FormatJson>>>,
}

impl Keeper {
    /// A keeper of the drive `name` (`node/slot`), which is expected at `place` (set, slot). It admits the
    /// drive once `reference` has the deployment's format.
    pub fn new(
        name: String,
        place: (usize, usize),
        limits: QueueLimits,
        probe_period: Duration,
        open: Arc<Open>,
        reference: watch::Receiver<Option<Arc<FormatJson>>>,
    ) -> Self {
        let (queue, seen) = (QueuedDrive::new(name, limits), Mutex::new(Seen::Unknown));
        Self { queue, limits, place, probe_period, open, seen, reference }
    }

    /// The drive behind its queue.
    pub fn queue(&self) -> &QueuedDrive {
        &self.queue
    }

    /// Set and slot of its endpoint.
    pub fn place(&self) -> (usize, usize) {
        self.place
    }

    /// What the drive was when it was last looked at.
    pub fn seen(&self) -> Seen {
        self.seen.lock().expect("nothing panics while it holds this").clone()
    }

    /// Watches over the drive for as long as the future is polled.
    pub async fn keep(self: Arc<Self>) {
        let mut reference = self.reference.clone();
        loop {
            let known = reference.borrow_and_update().clone();
            if let Some(drive) = self.look(known.as_deref()).await {
                self.watch(&drive).await;
                continue;
            }
            let pause = if known.is_some() { self.probe_period } else { LOOK_PERIOD };
            // A format that becomes known is a reason to look at once.
            let _ = tokio::time::timeout(pause, reference.changed()).await;
        }
    }

    /// Closes the drive in order, unless it hangs.
    pub async fn close(&self) {
        let Some(drive) = self.queue.drive() else { return };
        if !self.queue.is_online() {
            return;
        }
        let closed = self.by_hand(move || drive.close(now_ns()));
        match tokio::time::timeout(CLOSE_WAIT, closed).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(drive = self.queue.name(), %error, "drive was not closed in order");
            }
            Err(_) => tracing::warn!(drive = self.queue.name(), "drive hangs and is left as it is"),
        }
    }

    /// Opens and identifies the drive, and puts it to work if it may be.
    async fn look(&self, reference: Option<&FormatJson>) -> Option<Arc<dyn Attached>> {
        let open = Arc::clone(&self.open);
        let opened = self.by_hand(move || open().map(|drive| (identify(&*drive), drive))).await;
        let (seen, drive) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let condition = match error {
                    DriveError::Illegal { .. } => DriveCondition::Refused,
                    _ => DriveCondition::Absent,
                };
                self.say(Seen::Absent { reason: error.to_string() });
                self.leave(condition, error.to_string());
                return None;
            }
        };
        self.say(seen.clone());
        match (&seen, reference) {
            (Seen::Blank, _) => {
                self.queue.attach(Arc::clone(&drive), DriveCondition::Blank);
                tracing::info!(drive = self.queue.name(), "drive is blank");
                Some(drive)
            }
            (Seen::Formatted { .. }, None) => {
                self.leave(
                    DriveCondition::Absent,
                    "the deployment's format is not known yet".into(),
                );
                None
            }
            (Seen::Formatted { format, .. }, Some(reference)) => {
                if let Err(misplaced) = admit(self.queue.name(), format, reference, self.place) {
                    self.leave(DriveCondition::Refused, misplaced.to_string());
                    return None;
                }
                let owned = Arc::clone(&drive);
                if let Err(error) = self.by_hand(move || owned.own(now_ns())).await {
                    let condition = match error {
                        DriveError::Leased { .. } => DriveCondition::Refused,
                        _ => DriveCondition::Absent,
                    };
                    self.leave(condition, error.to_string());
                    return None;
                }
                self.queue.attach(Arc::clone(&drive), DriveCondition::Online);
                tracing::info!(drive = self.queue.name(), "drive is online");
                Some(drive)
            }
            _ => {
                self.leave(DriveCondition::Refused, seen.to_string());
                None
            }
        }
    }

    /// Watches over a drive that is in service until it has to be identified anew.
    async fn watch(&self, drive: &Arc<dyn Attached>) {
        // What it comes back as when it was suspect.
        let mut served = self.queue.standing().condition;
        loop {
            let _ = tokio::time::timeout(self.probe_period, self.queue.changed()).await;
            match self.queue.standing().condition {
                DriveCondition::Online => {
                    if served == DriveCondition::Blank {
                        // It has just been given its format.
                        let drive = Arc::clone(drive);
                        self.say(self.by_hand(move || identify(&*drive)).await);
                        served = DriveCondition::Online;
                    }
                    // What it answers does not matter; whether it still is what was opened does.
                    let _ = self.queue.call(DriveRequest::Facts).await;
                }
                DriveCondition::Blank => {
                    let _ = self.queue.call(DriveRequest::Facts).await;
                }
                DriveCondition::Suspect => {
                    let probed = Arc::clone(drive);
                    let beat = DriveRequest::Heartbeat { now_ns: now_ns() };
                    match self.by_hand(move || probed.perform(beat)).await {
                        Err(
                            error @ (DriveError::Absent { .. }
                            | DriveError::Swapped { .. }
                            | DriveError::Distrusted { .. }),
                        ) => return self.leave(DriveCondition::Swapped, error.to_string()),
                        _ if self.queue.standing().left_behind > self.limits.left_behind_max => {}
                        _ => {
                            self.queue.attach(Arc::clone(drive), served);
                            tracing::info!(drive = self.queue.name(), "drive answers again");
                        }
                    }
                }
                DriveCondition::Absent
                | DriveCondition::Swapped
                | DriveCondition::Refused
                | DriveCondition::Unreachable => {
                    let standing = self.queue.standing();
                    return self.leave(standing.condition, standing.reason);
                }
            }
        }
    }

    /// Takes the drive out of service, and says so when that is news.
    fn leave(&self, condition: DriveCondition, reason: String) {
        let before = self.queue.standing();
        if (before.condition, &before.reason) != (condition, &reason) {
            tracing::warn!(
                drive = self.queue.name(),
                ?condition,
                reason,
                "drive is out of service"
            );
        }
        self.queue.detach(condition, reason);
    }

    fn say(&self, seen: Seen) {
        *self.seen.lock().expect("nothing panics while it holds this") = seen;
    }

    /// Runs `work` on a thread of its own and waits for it. A drive that is not in service and does not
    /// answer by its deadline is called suspect meanwhile.
    async fn by_hand<T, W>(&self, work: W) -> T
    where
        T: Send + 'static,
        W: FnOnce() -> T + Send + 'static,
    {
        let (sender, mut answer) = oneshot::channel();
        let mut body = Some(move || {
            // Nobody waits any more when the process ends.
            let _ = sender.send(work());
        });
        let name = format!("look {}", self.queue.name());
        while let Some(run) = body.take() {
            // Shared, so that it is not lost when no thread can be made.
            let shared = Arc::new(Mutex::new(Some(run)));
            let inside = Arc::clone(&shared);
            let spawned = thread::Builder::new().name(name.clone()).spawn(move || {
                let run = inside.lock().expect("it is taken once").take();
                run.into_iter().for_each(|run| run());
            });
            if let Err(error) = spawned {
                tracing::error!(drive = self.queue.name(), %error, "no thread to look at it");
                tokio::time::sleep(self.probe_period).await;
                body = shared.lock().expect("no thread took it").take();
            }
        }
        if let Ok(answer) = tokio::time::timeout(self.limits.deadline, &mut answer).await {
            return answer.expect("looking at a drive does not panic");
        }
        if self.queue.drive().is_none() {
            self.say(Seen::Absent { reason: "it does not answer".to_owned() });
            self.leave(DriveCondition::Suspect, "it does not answer".to_owned());
        }
        answer.await.expect("looking at a drive does not panic")
    }
}

/// Reads the identity of an opened drive.
fn identify(drive: &dyn Attached) -> Seen {
    let unreadable = |reason: String| Seen::Unreadable { reason };
    let bytes = match drive.perform(DriveRequest::ReadFormat) {
        Ok(DriveReply::Format(None)) => return Seen::Blank,
        Ok(DriveReply::Format(Some(bytes))) => bytes,
        Ok(other) => return unreadable(format!("an answer that was not asked for: {other:?}")),
        Err(error @ DriveError::Absent { .. }) => {
            return Seen::Absent { reason: error.to_string() };
        }
        Err(error) => return unreadable(error.to_string()),
    };
    match FormatJson::parse(&bytes) {
        Ok(format) => {
            // An answer that is not certain counts as data.
            let buckets = drive.perform(DriveRequest::ListBuckets);
            let is_empty =
                matches!(buckets, Ok(DriveReply::Buckets(buckets)) if buckets.is_empty());
            Seen::Formatted { format: Box::new(format), is_empty }
        }
        Err(error) => unreadable(error.to_string()),
    }
}

/// Unix nanoseconds now.
pub fn now_ns() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
