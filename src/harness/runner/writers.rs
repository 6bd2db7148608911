//! Committers side by side, each with one request at a time, and an operator among them.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future;
use tokio::sync::watch;
use tokio::time;

use super::life::Life;
use super::life::Trouble;
use crate::harness::operator::catalog::ask::Outcome;
use crate::harness::scenario::catalog::Commits;
use crate::harness::scenario::catalog::split_warehouse;
use crate::harness::workload::catalog::Commit;

/// Attempts at one commit.
const ATTEMPTS_MAX: u32 = 60;
/// How soon an unknown commit is sent again.
const RETRY_PERIOD: Duration = Duration::from_millis(200);
/// Commits of a writer after what is done meanwhile.
const COMMITS_AFTER: u32 = 2;
/// Commits of a writer, whatever takes so long.
const COMMITS_MAX: u64 = 5_000;

impl Life<'_> {
    /// Lets the writers loose, and does meanwhile what the step says.
    pub(super) async fn commit_all(&self, index: usize, commits: &Commits) -> Result<(), Trouble> {
        self.waiting.on_ourselves("a fault to be armed");
        self.armed().await?;
        self.waiting.on_the_cluster(format!("the committers of step {index}"));
        let (count, counted) = watch::channel(0_u64);
        let is_over = AtomicBool::new(commits.meanwhile.is_empty());
        let writers =
            (0..commits.writers).map(|writer| self.write(index, commits, writer, &count, &is_over));
        let all = u64::from(commits.writers) * u64::from(commits.commits);
        let meanwhile = async {
            let done = self.meanwhile(index, commits, counted, all / 4).await;
            is_over.store(true, Ordering::SeqCst);
            done
        };
        let (written, done) = future::join(future::join_all(writers), meanwhile).await;
        written.into_iter().collect::<Result<(), Trouble>>()?;
        done
    }

    async fn meanwhile(
        &self,
        index: usize,
        commits: &Commits,
        mut counted: watch::Receiver<u64>,
        begin: u64,
    ) -> Result<(), Trouble> {
        for step in &commits.meanwhile {
            // Writers hold the sender for as long as this lasts.
            let _ = counted.wait_for(|count| *count >= begin).await;
            self.ask_catalog(index, step, false).await?;
        }
        Ok(())
    }

    async fn write(
        &self,
        index: usize,
        commits: &Commits,
        writer: u32,
        count: &watch::Sender<u64>,
        is_over: &AtomicBool,
    ) -> Result<(), Trouble> {
        let turn = writer as usize % commits.tables.len().max(1);
        let named = commits.tables.get(turn).map_or("", String::as_str);
        let Some((warehouse, table)) = split_warehouse(named) else {
            let waiting_for = format!("writer {writer} of step {index}");
            let reason = format!("`{named}` is not `warehouse.namespace.name`");
            return Err(Trouble::Stuck { waiting_for, reason });
        };
        let owed_after = if commits.meanwhile.is_empty() { 0 } else { COMMITS_AFTER };
        let (mut number, mut after) = (0, 0);
        while number < COMMITS_MAX && !*self.stop.borrow() {
            let has_ended = is_over.load(Ordering::SeqCst);
            if number >= u64::from(commits.commits) && has_ended && after >= owed_after {
                break;
            }
            after += u32::from(has_ended);
            let commit = self.new_commit(index, writer, number);
            self.see_through(commits, warehouse, table, commit).await;
            number += 1;
            count.send_modify(|count| *count += 1);
        }
        Ok(())
    }

    /// Sends a commit until it is known what became of it, where the step says so: by sending it again under the same
    /// id, or by looking whether it is there before it is.
    async fn see_through(
        &self,
        commits: &Commits,
        warehouse: &str,
        table: &str,
        mut commit: Commit,
    ) {
        let nodes = self.plan.testbed.nodes.max(1);
        for attempt in 0..ATTEMPTS_MAX {
            commit.attempt = attempt;
            let node = (commit.writer + attempt) as usize % nodes;
            let told = self.commit(warehouse, table, node, &commit).await.told;
            let is_known = told.outcome == Outcome::Done
                || told.outcome == Outcome::Refused && told.status.is_some();
            let goes_on = commits.retry || commits.looks;
            if is_known || !goes_on || *self.stop.borrow() {
                return;
            }
            if commits.looks && self.is_seen(warehouse, table, node, &commit).await {
                return;
            }
            // A node that is down has no way to call us, so the next one is asked.
            time::sleep(RETRY_PERIOD).await;
        }
    }

    /// Whether a commit of which nobody can tell stands in the table's metadata, by the first node that answers.
    async fn is_seen(&self, warehouse: &str, table: &str, first: usize, commit: &Commit) -> bool {
        let nodes = self.plan.testbed.nodes.max(1);
        for turn in 0..ATTEMPTS_MAX as usize {
            let heard = self.look_for(warehouse, table, (first + turn) % nodes, commit).await;
            if heard.told.outcome == Outcome::Done || *self.stop.borrow() {
                let place = format!("/metadata/properties/{}", commit.property);
                return heard.text(&place) == Some(commit.commit_id.as_str());
            }
            // Nobody who could answer has a way to call us.
            time::sleep(RETRY_PERIOD).await;
        }
        false
    }
}
