//! What the trials share: a small testbed with nodes that are just enough of one, and its client.

use std::env;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use firedrill::harness::fault::Injector;
use firedrill::harness::fault::Progress;
use firedrill::harness::fault::Strike;
use firedrill::harness::scenario::fault::Fault;
use firedrill::harness::scenario::plan::Filesystem;
use firedrill::harness::testbed::RunContext;
use firedrill::harness::testbed::Testbed;
use firedrill::harness::testbed::bench::plan_of;
use firedrill::harness::workload::history::Event;
use firedrill::harness::workload::history::FaultEvent;
use firedrill::harness::workload::history::FaultPhase;
use firedrill::yaml;
use libtest_mimic::Failed;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long anything may take that must come.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A testbed with everything that it told.
pub struct Bed {
    pub testbed: Arc<Testbed>,
    pub injector: Arc<Injector>,
    pub progress: Arc<Progress>,
    events: Arc<Mutex<Vec<Event>>>,
    _directory: TempDir,
}

/// What a testbed is given besides its plan. Nodes are this program.
pub fn context(directory: &Path, events: &Arc<Mutex<Vec<Event>>>) -> RunContext {
    let events = Arc::clone(events);
    RunContext {
        name: "test".to_owned(),
        directory: directory.to_owned(),
        program: env::current_exe().unwrap(),
        events: Arc::new(move |event| events.lock().unwrap().push(event)),
    }
}

impl Bed {
    /// Builds nodes with so many drives each; starts none.
    pub async fn new(nodes: usize, drives: usize, filesystem: Filesystem) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let events = Arc::default();
        let context = context(directory.path(), &events);
        let plan = plan_of(nodes, drives, filesystem, 64);
        let testbed = Testbed::provision(&plan, &context).await.unwrap();
        let progress = Arc::new(Progress::default());
        let injector = Injector::new(Arc::clone(&testbed), Arc::clone(&progress), 7);
        Self { testbed, injector, progress, events, _directory: directory }
    }

    /// As [`Bed::new`], with every node started.
    pub async fn started(nodes: usize, drives: usize, filesystem: Filesystem) -> Self {
        let bed = Self::new(nodes, drives, filesystem).await;
        for node in 0..nodes {
            bed.testbed.start(node).await.unwrap();
            bed.testbed.wait_ready(node, PATIENCE).await.unwrap();
        }
        bed
    }

    /// Strikes with a fault as scenarios spell it.
    pub async fn strike(&self, fault: &str) -> Strike {
        let fault: Fault = yaml::parse("fault", fault).unwrap();
        self.injector.strike(self.injector.prepare(&fault), PATIENCE).await.unwrap()
    }

    /// Strikes, and fails the trial unless that came about.
    pub async fn must_strike(&self, fault: &str) {
        assert_eq!(self.strike(fault).await, Strike::Struck, "{fault}: {:?}", self.told());
    }

    /// Everything that faults told, in order.
    pub fn told(&self) -> Vec<FaultEvent> {
        let events = self.events.lock().unwrap();
        let faults = events.iter().filter_map(|event| match event {
            Event::Fault(event) => Some(event.clone()),
            _ => None,
        });
        faults.collect()
    }

    /// Everything that was told, in order.
    pub fn events(&self) -> Vec<Event> {
        self.events.lock().unwrap().clone()
    }

    /// The phases that faults told, in order.
    pub fn phases(&self) -> Vec<FaultPhase> {
        self.told().into_iter().map(|event| event.phase).collect()
    }

    /// Where a drive is mounted for us.
    pub fn root(&self, drive: &str) -> PathBuf {
        self.testbed.drives().into_iter().find(|place| place.name == drive).unwrap().root
    }

    /// Sends one request to a node as a client does; `None` when the connection ended without an answer.
    pub async fn ask(&self, node: usize, request: &str, body: &str) -> Option<(u16, String)> {
        ask(self.testbed.client_address(node), request, body).await
    }

    /// One operation of a workload: a PUT that must be acknowledged.
    pub async fn work(&self, node: usize, key: &str) {
        self.progress.count_invoked();
        let answer = self.ask(node, &format!("PUT /b/{key}"), "body").await;
        self.progress.count_ended();
        assert_eq!(answer.map(|(status, _)| status), Some(200));
    }

    /// Takes it away and checks that nothing is left.
    pub async fn end(self) {
        let folder = Path::new("/run/firedrill").join(&self.testbed.context().name);
        self.testbed.teardown().await.unwrap();
        assert!(!folder.exists(), "{} is left", folder.display());
        assert!(!folder.with_extension("json").exists(), "the registry entry is left");
    }
}

/// Sends one request; `None` when the connection ended without an answer.
pub async fn ask(
    address: std::net::SocketAddr,
    request: &str,
    body: &str,
) -> Option<(u16, String)> {
    let talk = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        let length = body.len();
        let head = format!("{request} HTTP/1.1\r\ncontent-length: {length}\r\n\r\n{body}");
        stream.write_all(head.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            let text = String::from_utf8_lossy(&answer).into_owned();
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let length = head.split("content-length: ").nth(1)?.lines().next()?;
                if body.len() >= length.parse().ok()? {
                    let status = head.split(' ').nth(1)?.parse().ok()?;
                    return Some((status, body.to_owned()));
                }
            }
            match stream.read(&mut chunk).await {
                Ok(0) | Err(_) => return None,
                Ok(bytes) => answer.extend_from_slice(&chunk[..bytes]),
            }
        }
    };
    timeout(PATIENCE, talk).await.expect("neither an answer nor an end")
}

/// Runs a trial on a runtime of its own.
pub fn run<F: Future<Output = ()>>(trial: F) -> Result<(), Failed> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(trial);
    Ok(())
}
