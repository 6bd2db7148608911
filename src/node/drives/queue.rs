//! One drive behind its queue.
//!
//! A request waits for its answer until a deadline, never for the thread that works on it. What misses
//! its deadline makes the drive *suspect*: what still waits in the queue is answered as not asked, the
//! threads that are stuck in a system call are left behind (they end when the call returns), and
//! nothing new is taken until the keeper has found the drive answering again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::thread;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::oneshot;

use crate::disk::drive::DriveError;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::node::drives::Attached;
use crate::node::seams::BoxFuture;
use crate::node::seams::DriveClient;
use crate::protocol::admin::DriveCondition;

/// What an answer is.
pub type Answer = Result<DriveReply, DriveError>;

/// Bounds of one drive's queue.
#[derive(Debug, Clone, Copy)]
pub struct QueueLimits {
    /// How long a request may wait for its answer.
    pub deadline: Duration,
    /// Requests that may wait; the next is refused at once.
    pub waiting_max: usize,
    /// Threads that work on them.
    pub threads: usize,
    /// A drive with more threads stuck than this stays suspect until some have come back.
    pub left_behind_max: usize,
}

/// A drive behind its queue. Cheap to clone.
#[derive(Clone)]
pub struct QueuedDrive {
    shared: Arc<Shared>,
}

struct Shared {
    name: String,
    limits: QueueLimits,
    state: Mutex<State>,
    work: Condvar,
    /// Rung when the condition changes by itself: a deadline was missed, the drive is not what it was.
    changed: Notify,
}

struct State {
    drive: Option<Arc<dyn Attached>>,
    condition: DriveCondition,
    reason: String,
    /// Threads of an earlier generation end as soon as they can.
    generation: u64,
    next_job: u64,
    waiting: VecDeque<Job>,
    /// Threads of this generation that are inside the drive.
    busy: usize,
    /// Threads of earlier generations that are still inside it.
    left_behind: usize,
}

struct Job {
    number: u64,
    request: DriveRequest,
    answer: oneshot::Sender<Answer>,
}

/// How a drive stands now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Its condition.
    pub condition: DriveCondition,
    /// Why, when it is not online.
    pub reason: String,
    /// Requests that wait.
    pub waiting: usize,
    /// Threads that are stuck in it.
    pub left_behind: usize,
}

impl QueuedDrive {
    /// A drive that was not opened yet.
    pub fn new(name: String, limits: QueueLimits) -> Self {
        let state = State {
            drive: None,
            condition: DriveCondition::Absent,
            reason: "it was not opened yet".to_owned(),
            generation: 0,
            next_job: 0,
            waiting: VecDeque::new(),
            busy: 0,
            left_behind: 0,
        };
        let (work, changed) = (Condvar::new(), Notify::new());
        Self { shared: Arc::new(Shared { name, limits, state: Mutex::new(state), work, changed }) }
    }

    /// How it stands.
    pub fn standing(&self) -> Standing {
        let state = self.shared.state();
        Standing {
            condition: state.condition,
            reason: state.reason.clone(),
            waiting: state.waiting.len(),
            left_behind: state.left_behind,
        }
    }

    /// The drive behind it, while there is one.
    pub fn drive(&self) -> Option<Arc<dyn Attached>> {
        self.shared.state().drive.clone()
    }

    /// Puts `drive` behind the queue with fresh threads, online or blank.
    pub fn attach(&self, drive: Arc<dyn Attached>, condition: DriveCondition) {
        let mut state = self.shared.state();
        self.shared.end_generation(&mut state, condition, String::new());
        state.drive = Some(Arc::clone(&drive));
        for number in 0..self.shared.limits.threads {
            let (shared, drive, generation) =
                (Arc::clone(&self.shared), Arc::clone(&drive), state.generation);
            let name = format!("drive {} {number}", self.shared.name);
            let spawned =
                thread::Builder::new().name(name).spawn(move || shared.work(&*drive, generation));
            if let Err(error) = spawned {
                tracing::error!(drive = self.shared.name, %error, "a drive lacks a thread");
            }
        }
    }

    /// Takes a drive out of service; what waits is answered as not asked.
    pub fn detach(&self, condition: DriveCondition, reason: String) {
        let mut state = self.shared.state();
        self.shared.end_generation(&mut state, condition, reason);
        state.drive = None;
    }

    /// Waits until the condition has changed by itself since the last wait.
    pub async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    async fn ask(&self, request: DriveRequest) -> Answer {
        let shared = &self.shared;
        if let Some(reply) = shared.at_once(&request) {
            return Ok(reply);
        }
        let gives_format = matches!(request, DriveRequest::WriteFormat { .. });
        let (number, generation, answer) = shared.enqueue(request)?;
        let answer = match tokio::time::timeout(shared.limits.deadline, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => return Err(shared.not_asked()),
            Err(_) => return Err(shared.miss(number, generation)),
        };
        match &answer {
            Ok(_) if gives_format => shared.change(generation, DriveCondition::Online, ""),
            Err(error @ DriveError::Absent { .. }) => {
                shared.change(generation, DriveCondition::Absent, &error.to_string());
            }
            Err(error @ (DriveError::Swapped { .. } | DriveError::Distrusted { .. })) => {
                shared.change(generation, DriveCondition::Swapped, &error.to_string());
            }
            _ => {}
        }
        answer
    }
}

impl DriveClient for QueuedDrive {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn is_online(&self) -> bool {
        self.shared.state().condition == DriveCondition::Online
    }

    fn call(&self, request: DriveRequest) -> BoxFuture<'_, Answer> {
        Box::pin(self.ask(request))
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds a queue")
    }

    /// What a drive in service answers from memory.
    fn at_once(&self, request: &DriveRequest) -> Option<DriveReply> {
        let drive = {
            let state = self.state();
            let serves = state.condition == DriveCondition::Online;
            serves.then(|| state.drive.clone())??
        };
        drive.at_once(request)
    }

    fn not_asked(&self) -> DriveError {
        let state = self.state();
        let why = match state.reason.as_str() {
            "" => format!("it was {:?} for a moment", state.condition),
            reason => reason.to_owned(),
        };
        DriveError::NotAsked { why }
    }

    fn enqueue(
        &self,
        request: DriveRequest,
    ) -> Result<(u64, u64, oneshot::Receiver<Answer>), DriveError> {
        let mut state = self.state();
        if !matches!(state.condition, DriveCondition::Online | DriveCondition::Blank) {
            return Err(DriveError::NotAsked { why: state.reason.clone() });
        }
        if state.waiting.len() >= self.limits.waiting_max {
            return Err(DriveError::NotAsked { why: "its queue is full".to_owned() });
        }
        let (number, generation) = (state.next_job, state.generation);
        state.next_job += 1;
        let (sender, answer) = oneshot::channel();
        state.waiting.push_back(Job { number, request, answer: sender });
        drop(state);
        self.work.notify_one();
        Ok((number, generation, answer))
    }

    /// A request had no answer in time: the drive is suspect. What was still in the queue was not asked.
    fn miss(&self, number: u64, generation: u64) -> DriveError {
        let waited_ms = u64::try_from(self.limits.deadline.as_millis()).unwrap_or(u64::MAX);
        let mut state = self.state();
        let waited = state.waiting.iter().any(|job| job.number == number);
        if state.generation == generation {
            let reason = format!("no answer within {waited_ms} ms");
            tracing::warn!(drive = self.name, waited_ms, busy = state.busy, "drive is suspect");
            self.end_generation(&mut state, DriveCondition::Suspect, reason);
            self.changed.notify_one();
        }
        if waited {
            let why = format!("it took up nothing new for {waited_ms} ms");
            return DriveError::NotAsked { why };
        }
        DriveError::Deadline { waited_ms }
    }

    /// What an answer says about the drive as a whole.
    fn change(&self, generation: u64, condition: DriveCondition, reason: &str) {
        let mut state = self.state();
        if state.generation != generation || state.condition == condition {
            return;
        }
        tracing::info!(drive = self.name, ?condition, reason, "drive changed");
        if condition == DriveCondition::Online {
            state.condition = condition;
            state.reason.clear();
        } else {
            self.end_generation(&mut state, condition, reason.to_owned());
        }
        self.changed.notify_one();
    }

    /// Leaves the threads behind and lets go of what waits.
    fn end_generation(&self, state: &mut State, condition: DriveCondition, reason: String) {
        state.generation += 1;
        state.left_behind += state.busy;
        state.busy = 0;
        state.condition = condition;
        state.reason = reason;
        // Dropping a job tells its caller that it was not asked.
        state.waiting.clear();
        self.work.notify_all();
    }

    /// The life of one thread.
    fn work(&self, drive: &dyn Attached, generation: u64) {
        loop {
            let mut state = self.state();
            let job = loop {
                if state.generation != generation {
                    return;
                }
                match state.waiting.pop_front() {
                    Some(job) => break job,
                    None => {
                        state = self.work.wait(state).expect("nothing panics while it holds this");
                    }
                }
            };
            state.busy += 1;
            drop(state);

            let answer = drive.perform(job.request);

            let mut state = self.state();
            if state.generation == generation {
                state.busy -= 1;
            } else {
                state.left_behind -= 1;
            }
            drop(state);
            // Nobody waits any more when the deadline is over.
            let _ = job.answer.send(answer);
        }
    }
}

#[cfg(test)]
mod tests;
