//! Armed faults: they strike one after the other, in the order armed, while later steps go on.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::sync::mpsc;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::life::Trouble;
use crate::harness::fault::Armed;
use crate::harness::fault::Injector;
use crate::harness::scenario::fault::Fault;
use crate::harness::testbed::TestbedError;

/// How long a fault waits for its trigger once its turn has come.
const TRIGGER_PATIENCE: Duration = Duration::from_secs(30);

/// Something for the background to do.
enum Job {
    Strike(Armed),
    Tell(oneshot::Sender<Result<(), TestbedError>>),
}

/// The task that strikes armed faults; dropping it ends it.
pub struct Background {
    injector: Arc<Injector>,
    jobs: mpsc::UnboundedSender<Job>,
    task: Mutex<JoinHandle<()>>,
}

impl Background {
    /// Starts the task.
    pub fn start(injector: Arc<Injector>) -> Self {
        let (jobs, mut queue) = mpsc::unbounded_channel();
        let striker = Arc::clone(&injector);
        let task = tokio::spawn(async move {
            let mut failed = None;
            while let Some(job) = queue.recv().await {
                match job {
                    Job::Strike(armed) if failed.is_none() => {
                        failed = striker.strike(armed, TRIGGER_PATIENCE).await.err();
                    }
                    Job::Strike(_) => {}
                    Job::Tell(answer) => {
                        // Whoever asked may have given up.
                        let _ = answer.send(failed.take().map_or(Ok(()), Err));
                    }
                }
            }
        });
        Self { injector, jobs, task: Mutex::new(task) }
    }

    /// Strikes `fault` now, or arms it for the steps that follow.
    ///
    /// # Errors
    /// The harness failed; a fault that could not be brought about is told in the history.
    pub async fn inject(&self, fault: &Fault) -> Result<(), Trouble> {
        let armed = self.injector.prepare(fault);
        if strikes_under_load(fault) {
            return match self.jobs.send(Job::Strike(armed)) {
                Ok(()) => Ok(()),
                Err(_) => self.gone().await,
            };
        }
        // Faults strike in the order of the scenario, whether armed or not.
        if !strikes_beside(fault) {
            self.drained().await?;
        }
        self.injector.strike(armed, TRIGGER_PATIENCE).await?;
        Ok(())
    }

    /// Waits until every armed fault has struck, or has been told not to have been reached.
    ///
    /// # Errors
    /// The harness failed at one of them.
    pub async fn drained(&self) -> Result<(), Trouble> {
        let (answer, answered) = oneshot::channel();
        if self.jobs.send(Job::Tell(answer)).is_err() {
            return self.gone().await;
        }
        match answered.await {
            Ok(told) => Ok(told?),
            Err(_) => self.gone().await,
        }
    }

    /// Why the task is gone while somebody still needs it: it panicked.
    async fn gone(&self) -> Result<(), Trouble> {
        (&mut *self.task.lock().await).await?;
        Ok(())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.task.get_mut().abort();
    }
}

/// Whether a fault needs the requests of later steps: it has a trigger, is about requests, or means
/// nothing on a cluster at rest.
fn strikes_under_load(fault: &Fault) -> bool {
    let is_about_requests =
        matches!(fault, Fault::LostReply(_) | Fault::HalfRequest(_) | Fault::Pause(_));
    is_about_requests || !fault.trigger().is_immediate() && !strikes_beside(fault)
}

/// Whether a fault is waited for at its step, beside those that are armed: what an executor that is held there does
/// next is what they wait for, or what the next steps are about.
fn strikes_beside(fault: &Fault) -> bool {
    match fault {
        Fault::Hold(fault) => !fault.later,
        Fault::TamperRecord(fault) => fault.live,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_that_need_requests_wait_for_them() {
        let fault = |text: &str| crate::yaml::parse::<Fault>("fault", text).unwrap();
        assert!(!strikes_under_load(&fault("kill: { node: 0 }")));
        assert!(strikes_under_load(&fault("kill: { node: 0, after_operations: 5 }")));
        assert!(strikes_under_load(&fault("lost_reply: { node: 0, request: put }")));
        assert!(strikes_under_load(&fault("pause: { node: 0, for_ms: 5 }")));
        assert!(!strikes_under_load(&fault("hold: { node: 0, at: put.meta_renamed }")));
        assert!(strikes_under_load(&fault("hold: { node: 0, at: put.meta_renamed, later: true }")));
        let tampers = "tamper_record: { node: 0, into: E28, at: put.meta_renamed";
        assert!(strikes_under_load(&fault(&format!("{tampers} }}"))));
        assert!(!strikes_under_load(&fault(&format!("{tampers}, live: true }}"))));
    }
}
