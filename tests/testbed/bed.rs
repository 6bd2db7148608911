//! What the trials share: a small testbed, and a victim that is killed while it holds one.

use std::env;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering;

use firedrill::harness::scenario::plan::Filesystem;
use firedrill::harness::testbed::RunContext;
use firedrill::harness::testbed::Testbed;
use firedrill::harness::testbed::bench::plan_of;
use firedrill::harness::testbed::namespaces;
use firedrill::harness::testbed::namespaces::Entered;
use firedrill::harness::workload::history::Event;
use libtest_mimic::Failed;
use tempfile::TempDir;

/// Tells a process of this program that it is the victim, and where its run directory is.
const VICTIM_VARIABLE: &str = "FIREDRILL_TEST_VICTIM";

/// A testbed with everything that it told.
pub struct Bed {
    pub testbed: Arc<Testbed>,
    pub events: Arc<Mutex<Vec<Event>>>,
    _directory: TempDir,
}

/// A name that no other testbed of this machine has now.
fn name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
    format!("test-{}-{}", NEXT.fetch_add(1, Ordering::SeqCst), &boot[..8])
}

/// What a testbed is given besides its plan.
pub fn context(directory: &Path, events: &Arc<Mutex<Vec<Event>>>) -> RunContext {
    let events = Arc::clone(events);
    RunContext {
        name: name(),
        directory: directory.to_owned(),
        program: PathBuf::from(env!("CARGO_BIN_EXE_firedrill")),
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
        Self { testbed, events, _directory: directory }
    }

    /// Takes it away and checks that nothing is left.
    pub async fn end(self) {
        let folder = Path::new("/run/firedrill").join(&self.testbed.context().name);
        self.testbed.teardown().await.unwrap();
        assert!(!folder.exists(), "{} is left", folder.display());
        assert!(!folder.with_extension("json").exists(), "the registry entry is left");
    }
}

/// Runs a trial on a runtime of its own.
pub fn run<F: Future<Output = ()>>(trial: F) -> Result<(), Failed> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.unwrap().block_on(trial);
    Ok(())
}

/// Whether this process is the victim.
pub fn is_victim() -> bool {
    env::var_os(VICTIM_VARIABLE).is_some()
}

/// The victim: provisions and tears down without end, until it is killed.
pub fn be_a_victim() -> ExitCode {
    match namespaces::enter() {
        Ok(Entered::Inside) => {}
        Ok(Entered::Ended(code)) => return code,
        Err(error) => panic!("{error}"),
    }
    let directory = PathBuf::from(env::var_os(VICTIM_VARIABLE).unwrap());
    let _ = run(async {
        loop {
            let context = context(&directory, &Arc::default());
            let plan = plan_of(2, 3, Filesystem::Ext4, 64);
            let testbed = Testbed::provision(&plan, &context).await.unwrap();
            testbed.teardown().await.unwrap();
        }
    });
    ExitCode::SUCCESS
}
