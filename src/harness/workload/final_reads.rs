//! What the settled cluster answers: every listing, every version and every latest object, from every
//! node. Recorded as ordinary operations, in a phase of their own.
//!
//! A read that is not answered is asked again a few times: the settled cluster owes an answer, and an
//! unanswered read proves nothing. The checkers judge what stays unanswered.

use std::collections::BTreeSet;

use bytes::Bytes;
use tokio::task::JoinSet;
use tokio::time;

use super::driver;
use super::driver::DOWN_POLL;
use super::driver::Driver;
use super::driver::Numbering;
use super::history::Action;
use super::history::Ending;
use super::history::Outcome;
use super::history::Seen;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// The first client number of the final reads; one for each node.
pub const FINAL_CLIENT: u32 = 900_000;
/// How often one read is asked.
const ATTEMPTS: u32 = 5;

/// What the final reads saw.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FinalSummary {
    /// Reads that were answered.
    pub answered: u64,
    /// Reads that stayed unanswered.
    pub unanswered: u64,
    /// Bytes of contents read.
    pub bytes: u64,
}

impl Driver {
    /// Reads everything in `buckets`, and every key that was ever written, from every node at once.
    /// Contents are read from every node until `bytes_max` bytes were read in all; after that each
    /// version is read from one node and only its metadata from the others.
    pub async fn final_reads(&self, buckets: &[String], bytes_max: u64) -> FinalSummary {
        let nodes = self.nodes();
        let budget = bytes_max / (nodes as u64).max(1);
        let mut readers = JoinSet::new();
        for node in 0..nodes {
            let numbers = Numbering::of(FINAL_CLIENT + u32::try_from(node).unwrap_or(0));
            let summary = FinalSummary::default();
            let mut reader = Reader { driver: self.clone(), node, numbers, budget, summary };
            let (buckets, touched) = (buckets.to_vec(), self.touched());
            readers.spawn(async move {
                reader.read(&buckets, &touched).await;
                reader.summary
            });
        }
        let mut summary = FinalSummary::default();
        while let Some(of_node) = readers.join_next().await {
            match of_node {
                Ok(of_node) => {
                    summary.answered += of_node.answered;
                    summary.unanswered += of_node.unanswered;
                    summary.bytes += of_node.bytes;
                }
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => summary.unanswered += 1,
            }
        }
        summary
    }
}

/// Reads everything from one node.
struct Reader {
    driver: Driver,
    node: usize,
    numbers: Numbering,
    budget: u64,
    summary: FinalSummary,
}

impl Reader {
    async fn read(&mut self, buckets: &[String], touched: &[ObjectKey]) {
        let mut keys = touched.iter().cloned().collect::<BTreeSet<_>>();
        let mut versions = Vec::new();
        for bucket in buckets {
            let target = ObjectKey { bucket: bucket.clone(), key: String::new() };
            let prefix = String::new;
            let listed = self.ask(&target, Action::ListVersions { prefix: prefix() }).await;
            self.ask(&target, Action::List { prefix: prefix() }).await;
            let Some(Seen::Listing(rows)) = listed.seen else { continue };
            for row in rows {
                let target = ObjectKey { bucket: bucket.clone(), key: row.key };
                keys.insert(target.clone());
                versions.push((target, row.version, row.size));
            }
        }
        for (position, (target, version, size)) in versions.iter().enumerate() {
            self.ask(target, Action::Head { version: *version }).await;
            self.contents(position, target, *version, *size).await;
        }
        for (position, target) in keys.iter().enumerate() {
            let head = self.ask(target, Action::Head { version: None }).await;
            let size = match head.seen {
                Some(Seen::Object { size, .. }) => size,
                _ => 0,
            };
            self.contents(position, target, None, size).await;
        }
    }

    /// Reads contents while the budget lasts; after that, one node reads each.
    async fn contents(
        &mut self,
        position: usize,
        target: &ObjectKey,
        version: Option<VersionId>,
        size: u64,
    ) {
        let is_mine = position % self.driver.nodes().max(1) == self.node;
        if !is_mine && self.summary.bytes + size > self.budget {
            return;
        }
        let read = self.ask(target, Action::Get { version, range: None }).await;
        if let Some(Seen::Object { size, .. }) = read.seen {
            self.summary.bytes += size;
        }
    }

    async fn ask(&mut self, target: &ObjectKey, action: Action) -> Ending {
        let mut last = None;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                time::sleep(DOWN_POLL * attempt).await;
            }
            let Some(address) = self.driver.address(self.node) else { continue };
            let op = self.numbers.take();
            let client = self.numbers.client();
            let asked = driver::operation(op, client, self.node, target.clone(), action.clone());
            let ended = self.driver.attempt(asked, address, Bytes::new(), &[]).await;
            if ended.outcome == Outcome::Acknowledged {
                self.summary.answered += 1;
                return ended;
            }
            last = Some(ended);
        }
        self.summary.unanswered += 1;
        last.unwrap_or_else(|| super::answer::unanswered(0, Outcome::Refused, "the node is down"))
    }
}
