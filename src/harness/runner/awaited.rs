//! Waits until a node tells that its replacements stand still, and why.
//!
//! A node's word is no witness of what it has done: that it names its reason is the promise itself. What it did with
//! the records meanwhile is seen on the drives.

use std::time::Duration;
use std::time::Instant;

use tokio::time;

use super::life::Life;
use super::life::Trouble;
use crate::harness::scenario::form::Await;
use crate::harness::workload::history::Event;
use crate::harness::workload::history::Note;
use crate::protocol::replacement::status::Answer;
use crate::protocol::replacement::status::State;

/// How often the node is asked.
const POLL: Duration = Duration::from_millis(50);

impl Life<'_> {
    /// Waits until every armed fault has struck and a node tells the state, and notes it.
    pub(super) async fn awaited(&self, state: &Await) -> Result<(), Trouble> {
        self.waiting.on_ourselves("armed faults to strike");
        self.background.drained().await?;
        let within = Duration::from_secs(state.within_s);
        let words = self.told(state.node, &state.told, within).await?;
        let (node, named) = (state.node, state.told.clone());
        self.recorder.record(Event::Noted(Note::Told { node, named, words }));
        Ok(())
    }

    /// Waits until a node names `state` in its status, and tells of no generation that it is running; answers its
    /// words.
    pub(super) async fn told(
        &self,
        node: usize,
        state: &str,
        within: Duration,
    ) -> Result<String, Trouble> {
        let waiting_for = format!("node {node} to tell {state}");
        self.waiting.on_the_cluster(waiting_for.clone());
        let began = Instant::now();
        loop {
            let reason = match self.told_now(node, state).await {
                Ok(words) => return Ok(words),
                Err(instead) => instead,
            };
            if began.elapsed() >= within {
                return Err(Trouble::Stuck { waiting_for, reason });
            }
            // Not a wait for a while: nodes have no way to call us, so their state is asked for.
            time::sleep(POLL).await;
        }
    }

    /// The words of the state, or what the node tells instead.
    async fn told_now(&self, node: usize, state: &str) -> Result<String, String> {
        let address = self.testbed.client_address(node);
        let status = self.admin.status(address).await?.replacement;
        let said = [status.reasons.as_slice(), &status.alarms].concat().join("; ");
        if !status.standing.iter().any(|named| named == state) {
            return Err(format!("it names {:?} and says: {said}", status.standing));
        }
        let told = self.admin.replacement(address).await?;
        match running(&told) {
            Some(id) => Err(format!("it names {state} and rebuilds {id}")),
            None => Ok(said),
        }
    }
}

/// A generation that the node says it is rebuilding.
fn running(told: &Answer) -> Option<&str> {
    let records = told.local.records.iter();
    records.filter(|it| it.state == State::Running).map(|it| it.task_id.as_str()).next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::replacement::status::Snapshot;
    use crate::protocol::replacement::status::StatusRecord;

    #[test]
    fn who_rebuilds_stands_not_still() {
        let answer = |state| {
            let record = StatusRecord {
                task_id: "1".to_owned(),
                state,
                generation: None,
                set_disk_id: None,
                target_slots: Vec::new(),
                reason: None,
                verified_at: None,
            };
            let local = Snapshot { definitive: true, reason: None, records: vec![record] };
            Answer {
                contract_version: 2,
                path: String::new(),
                scope: String::new(),
                cluster: local.clone(),
                local,
            }
        };
        assert_eq!(running(&answer(State::Running)), Some("1"));
        assert_eq!(running(&answer(State::Unrecoverable)), None);
    }
}
