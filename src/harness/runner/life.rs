//! From the first node's start to the last read: what a scenario says, done in order.
//!
//! It decides nothing. Whatever goes wrong with the cluster stands in the history; only what goes
//! wrong with us is an error here.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future;
use tokio::sync::watch;
use tokio::task;

use super::admin::Admin;
use super::background::Background;
use super::clients::Clients;
use super::operate;
use super::tables::Tables;
use super::waiting::Waiting;
use crate::harness::audit;
use crate::harness::audit::AuditError;
use crate::harness::audit::AuditOptions;
use crate::harness::audit::DriveSource;
use crate::harness::audit::census::CatalogCensus;
use crate::harness::audit::census::Census;
use crate::harness::fault::Injector;
use crate::harness::operator::catalog::error::CatalogError;
use crate::harness::operator::catalog::keep::held;
use crate::harness::scenario::form::StartNode;
use crate::harness::scenario::form::Step;
use crate::harness::scenario::plan::Plan;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::blocking;
use crate::harness::workload::driver::Driver;
use crate::harness::workload::driver::Endpoints;
use crate::harness::workload::history::Event;
use crate::harness::workload::history::Note;
use crate::harness::workload::history::PHASE_FINAL_READS;
use crate::harness::workload::prepare::NotPrepared;
use crate::harness::workload::recorder::Recorder;

/// Bytes of contents that the final reads fetch from every node before they share them out.
const FINAL_BYTES_MAX: u64 = 64 << 20;
/// How long nodes are waited for after a fault before clients go on.
const AFTER_FAULT_PATIENCE: Duration = Duration::from_secs(2);
/// Records that are named where a refusal changed them.
const CHANGED_MAX: usize = 16;
/// How long a cluster may take to make the buckets.
const PREPARE_PATIENCE: Duration = Duration::from_secs(30);

/// Why a life ended early.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// The cluster did not do what it owes, at this wait.
    #[error("{waiting_for}: {reason}")]
    Stuck {
        /// What was waited for.
        waiting_for: String,
        /// What came instead.
        reason: String,
    },
    /// No node had the crash point of an armed fault in time.
    #[error("no node had the crash point of an armed fault within {} ms", within.as_millis())]
    NotArmed {
        /// How long that was waited for.
        within: Duration,
    },
    /// The testbed failed.
    #[error("the testbed failed")]
    Testbed(#[from] TestbedError),
    /// The census could not be taken.
    #[error("the census failed")]
    Audit(#[from] AuditError),
    /// What the drives hold of the table catalog could not be read.
    #[error("the catalog on the drives")]
    Catalog(#[from] CatalogError),
    /// A task of ours panicked.
    #[error("a task of the harness panicked")]
    Task(#[from] task::JoinError),
}

/// One cluster with everything that acts on it.
pub struct Life<'a> {
    pub(super) plan: &'a Plan,
    pub(super) testbed: Arc<Testbed>,
    pub(super) recorder: Recorder,
    pub(super) driver: Driver,
    pub(super) injector: Arc<Injector>,
    pub(super) background: Background,
    pub(super) admin: Admin,
    pub(super) tables: Tables,
    pub(super) waiting: Waiting,
    /// Turns true when clients should stop.
    pub(super) stop: watch::Receiver<bool>,
    /// Real clients.
    pub(super) clients: &'a Clients,
    /// Hears the name of each step.
    pub(super) step: &'a (dyn Fn(&str) + Send + Sync),
}

/// Where clients reach the nodes of a testbed.
pub struct Addresses(pub Arc<Testbed>);

impl Endpoints for Addresses {
    fn nodes(&self) -> usize {
        self.0.plan().nodes
    }

    fn address(&self, node: usize) -> Option<SocketAddr> {
        self.0.is_running(node).then(|| self.0.client_address(node))
    }
}

impl Life<'_> {
    /// Lives it: steps 4 to 7.
    pub(super) async fn live(&self) -> Result<(), Trouble> {
        self.enter("start");
        let release = self.plan.testbed.release;
        for node in (0..self.plan.testbed.nodes).filter(|_| !release.is_current()) {
            self.recorder.record(Event::Noted(Note::Release { node, release }));
        }
        self.start_all().await?;
        self.waiting.on_the_cluster("the buckets to be made");
        let there = self.plan.workload_at_first();
        self.driver.prepare(&there, PREPARE_PATIENCE).await.map_err(stuck)?;

        let mut lists = self.plan.lists().into_iter();
        let mut bucket_turn = 0;
        for (index, step) in self.plan.steps.iter().enumerate() {
            let name = match step {
                Step::Inject(fault) => format!("{index} inject {}", fault.name()),
                Step::Check(_) => break,
                Step::Operator(step) => format!("{index} operator {}", step.tool.name()),
                Step::Client(step) => format!("{index} client {} {}", step.name, step.part.name()),
                Step::Catalog(step) => format!("{index} catalog {}", step.name()),
                step => format!("{index} {}", step.name()),
            };
            self.enter(&name);
            match step {
                Step::Load(load) => {
                    self.waiting.on_the_cluster(format!("the clients of step {index}"));
                    if let Some((_, lists)) = lists.next() {
                        self.driver.load(load, lists, &self.stop).await;
                    }
                }
                Step::Catalog(step) => self.ask_catalog(index, step, true).await?,
                Step::Commits(commits) => self.commit_all(index, commits).await?,
                Step::Client(step) => self.visit(index, step).await?,
                Step::Restart(restart) => self.restart(restart).await?,
                Step::Inject(fault) => {
                    self.arming(fault);
                    self.waiting.on_ourselves(format!("{} to strike", fault.name()));
                    self.background.inject(fault).await?;
                    self.recovered().await?;
                }
                Step::Heal(_) => self.heal().await?,
                Step::Start(on) => self.start_as(on).await?,
                Step::Stop(on) => {
                    self.waiting.on_the_cluster(format!("node {} to end", on.node));
                    self.testbed.stop(on.node).await?;
                }
                Step::RecreateBucket(on) => {
                    bucket_turn += 1;
                    self.waiting.on_the_cluster(format!("bucket {} to be made anew", on.bucket));
                    let kind = self.plan.workload.buckets[&on.bucket];
                    let made = self.driver.recreate_bucket(
                        &on.bucket,
                        kind,
                        bucket_turn,
                        PREPARE_PATIENCE,
                    );
                    made.await.map_err(stuck)?;
                }
                Step::Operator(step) => self.operate(step).await?,
                Step::FlattenRecords(on) => self.flatten(on.node).await?,
                Step::CreateBucket(on) => {
                    bucket_turn += 1;
                    self.waiting.on_the_cluster(format!("bucket {} to be made", on.bucket));
                    let kind = self.plan.workload.buckets[&on.bucket];
                    let driver = &self.driver;
                    let made =
                        driver.create_bucket(&on.bucket, kind, bucket_turn, PREPARE_PATIENCE);
                    made.await.map_err(stuck)?;
                }
                Step::DeleteBucket(on) => {
                    bucket_turn += 1;
                    self.waiting.on_the_cluster(format!("bucket {} to be deleted", on.bucket));
                    let driver = &self.driver;
                    let gone = driver.delete_bucket(&on.bucket, bucket_turn, PREPARE_PATIENCE);
                    gone.await.map_err(stuck)?;
                }
                Step::Await(state) => self.awaited(state).await?,
                Step::Settle(settle) => self.settle(settle).await?,
                Step::Check(_) => {}
            }
            if matches!(step, Step::Catalog(_) | Step::Commits(_) | Step::Restart(_)) {
                self.see_catalog().await?;
            }
        }
        self.enter(PHASE_FINAL_READS);
        self.waiting.on_the_cluster("the final reads");
        let buckets: Vec<String> = self.plan.workload.buckets.keys().cloned().collect();
        self.driver.final_reads(&buckets, FINAL_BYTES_MAX).await;
        Ok(())
    }

    /// Every armed fault has struck, and all are undone.
    pub(super) async fn heal(&self) -> Result<(), Trouble> {
        self.waiting.on_ourselves("faults to be healed");
        self.background.drained().await?;
        // Whether work went on under a fault is told from what was counted.
        self.recorder.written().await;
        Ok(self.injector.heal_all().await?)
    }

    /// Starts every node that does not run, all at once, and waits until all are ready.
    pub(super) async fn start_all(&self) -> Result<(), Trouble> {
        let nodes = 0..self.plan.testbed.nodes;
        self.waiting.on_the_cluster("the nodes to start");
        let starting = nodes.clone().filter(|node| !self.testbed.is_running(*node));
        let starting = starting.map(|node| async move { (node, self.testbed.start(node).await) });
        for (node, started) in future::join_all(starting).await {
            owed(started, || format!("node {node} to start"))?;
        }
        self.waiting.on_the_cluster("the nodes to become ready");
        let patience = Duration::from_secs(self.plan.limits.ready_s);
        let ready =
            nodes.map(|node| async move { (node, self.testbed.wait_ready(node, patience).await) });
        for (node, ready) in future::join_all(ready).await {
            owed(ready, || format!("node {node} to become ready"))?;
        }
        Ok(())
    }

    /// Gives nodes that a fault has restarted a while to become ready. Whether they can is up to the
    /// fault: what they do not serve is seen by the clients.
    async fn recovered(&self) -> Result<(), Trouble> {
        let running = (0..self.plan.testbed.nodes).filter(|node| self.testbed.is_running(*node));
        let ready = running.map(|node| self.testbed.wait_ready(node, AFTER_FAULT_PATIENCE));
        for ready in future::join_all(ready).await {
            match ready {
                Ok(()) | Err(TestbedError::Late { .. } | TestbedError::NotRunning { .. }) => {}
                result => owed(result, || "a node to go on after a fault".to_owned())?,
            }
        }
        Ok(())
    }

    /// Starts one node and waits until it is ready. Nothing when it runs; once more when an armed fault
    /// ends it only now.
    async fn start(&self, node: usize) -> Result<(), Trouble> {
        let patience = Duration::from_secs(self.plan.limits.ready_s);
        loop {
            self.injector.at_rest().await;
            if !self.testbed.is_running(node) {
                self.waiting.on_the_cluster(format!("node {node} to start"));
                owed(self.testbed.start(node).await, || format!("node {node} to start"))?;
            }
            self.waiting.on_the_cluster(format!("node {node} to become ready"));
            match self.testbed.wait_ready(node, patience).await {
                Err(TestbedError::NotRunning { .. }) => continue,
                ready => return owed(ready, || format!("node {node} to become ready")),
            }
        }
    }

    /// Starts one node as the step has it.
    async fn start_as(&self, on: &StartNode) -> Result<(), Trouble> {
        if let Some(release) = on.release {
            self.waiting.on_ourselves("armed faults to strike");
            self.background.drained().await?;
            self.waiting.on_the_cluster(format!("node {} to end", on.node));
            self.testbed.stop(on.node).await?;
            self.testbed.become_release(on.node, release)?;
            self.recorder.record(Event::Noted(Note::Release { node: on.node, release }));
        }
        let Some(number) = &on.refuses else {
            return self.start(on.node).await;
        };
        let before = self.records_of(on.node).await?;
        self.start(on.node).await?;
        let patience = Duration::from_secs(self.plan.limits.ready_s);
        let words = self.told(on.node, number, patience).await?;
        let after = self.records_of(on.node).await?;
        let is_other =
            |record: &(&(String, String), &Vec<u8>)| after.get(record.0) != Some(record.1);
        let changed =
            before.iter().filter(is_other).map(|((drive, path), _)| format!("{drive}: {path}"));
        let (records, changed) = (before.len() as u64, changed.take(CHANGED_MAX).collect());
        self.recorder.record(Event::Noted(Note::Refused {
            node: on.node,
            words,
            records,
            changed,
        }));
        Ok(())
    }

    /// Every record and marker on the drives of a node, by drive and path.
    async fn records_of(
        &self,
        node: usize,
    ) -> Result<BTreeMap<(String, String), Vec<u8>>, Trouble> {
        let mut drives = self.testbed.drives();
        drives.retain(|drive| drive.node == node && drive.mounted);
        let read = move || {
            let mut records = BTreeMap::new();
            for drive in &drives {
                let held = operate::held(&drive.root)
                    .map_err(TestbedError::io("read the records of", &drive.root))?;
                let of_drive = |(path, bytes)| ((drive.name.clone(), path), bytes);
                records.extend(held.into_iter().map(of_drive));
            }
            Ok(records)
        };
        Ok(blocking(read).await?)
    }

    /// A census of the drives as they are mounted now.
    pub(super) async fn look(&self) -> Result<Census, Trouble> {
        self.waiting.on_ourselves("a census");
        census(&self.testbed).await
    }

    fn enter(&self, phase: &str) {
        self.recorder.phase(phase);
        (self.step)(phase);
    }
}

/// A census of the drives of `testbed`, on a thread of its own.
pub(super) async fn census(testbed: &Testbed) -> Result<Census, Trouble> {
    let drives = testbed.drives().into_iter();
    let drives: Vec<_> =
        drives.map(|drive| DriveSource { name: drive.name, root: drive.root }).collect();
    let taken = task::spawn_blocking(move || audit::take(&drives, &AuditOptions::default()));
    Ok(taken.await??)
}

/// What the drives of `testbed` hold of the table catalog, on a thread of its own.
pub(super) async fn catalog(testbed: &Testbed) -> Result<Option<CatalogCensus>, Trouble> {
    let roots = testbed.drives().into_iter().map(|drive| drive.root).collect::<Vec<_>>();
    Ok(task::spawn_blocking(move || held::held(&roots)).await??)
}

/// A node that ends by itself, or does not get ready, breaks a promise; anything else is our failure.
fn owed(
    result: Result<(), TestbedError>,
    waiting_for: impl FnOnce() -> String,
) -> Result<(), Trouble> {
    match result {
        Err(error @ (TestbedError::NodeEnded { .. } | TestbedError::Late { .. })) => {
            Err(Trouble::Stuck { waiting_for: waiting_for(), reason: error.to_string() })
        }
        result => Ok(result?),
    }
}

/// A bucket that cannot be made is a promise that was not kept.
fn stuck(error: NotPrepared) -> Trouble {
    Trouble::Stuck { waiting_for: "the buckets".to_owned(), reason: error.to_string() }
}
