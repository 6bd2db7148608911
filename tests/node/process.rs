//! Nodes as processes: their configuration, start, control and end.

use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::io::BufRead as _;
use std::io::BufReader;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use firedrill::protocol::config::Limits;
use firedrill::protocol::config::NodeConfig;
use firedrill::protocol::config::NodeEntry;
use firedrill::protocol::config::Principal;
use firedrill::protocol::config::Release;
use firedrill::protocol::control::Arm;
use firedrill::protocol::control::CONTROL_FD_VARIABLE;
use firedrill::protocol::control::FromNode;
use firedrill::protocol::control::ToNode;
use nix::fcntl::FcntlArg;
use nix::fcntl::FdFlag;
use nix::fcntl::fcntl;
use nix::sys::signal::Signal;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::client::Client;

/// How long anything that must happen may take on a busy machine.
pub const SOON: Duration = Duration::from_secs(30);
pub const ACCESS_KEY: &str = "test-key";
pub const SECRET_KEY: &str = "test-secret";

/// A deployment on a temporary directory; ending it ends its processes.
pub struct Cluster {
    pub folder: TempDir,
    configs: Vec<NodeConfig>,
    environment: BTreeMap<String, String>,
    running: BTreeMap<usize, Running>,
}

struct Running {
    child: Child,
    control: Option<UnixStream>,
}

impl Cluster {
    /// `nodes` nodes with `drives` drives each, all in one set, none started.
    pub fn new(nodes: usize, drives: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let secret = |name: &str, secret: &str| {
            let path = folder.path().join(name);
            fs::write(&path, secret).expect("written");
            path
        };
        let cluster_secret_file = secret("cluster", "cluster-secret\n");
        let all = Principal {
            secret_file: secret("all", SECRET_KEY),
            actions: vec!["*".to_owned()],
            account: None,
        };
        let reader = Principal {
            secret_file: secret("reader", "reader-secret"),
            actions: vec!["s3:GetObject".to_owned()],
            account: None,
        };
        let root = |node: usize, slot: usize| folder.path().join(format!("{node}/{slot}"));
        let entries: Vec<_> = (0..nodes)
            .map(|node| NodeEntry {
                address: format!("127.0.0.1:{}", free_port()),
                drives: (0..drives).map(|slot| root(node, slot)).collect(),
                endpoints: Vec::new(),
            })
            .collect();
        for drive in entries.iter().flat_map(|entry| &entry.drives) {
            fs::create_dir_all(drive).expect("a directory");
        }
        let configs = (0..nodes).map(|node| NodeConfig {
            node,
            listen: entries[node].address.clone(),
            nodes: entries.clone(),
            set_drives: nodes * drives,
            parity: None,
            durability: Default::default(),
            cluster_secret_file: cluster_secret_file.clone(),
            principals: BTreeMap::from([
                (ACCESS_KEY.to_owned(), all.clone()),
                ("reader".to_owned(), reader.clone()),
            ]),
            allow_unmounted: true,
            limits: Limits {
                drive_deadline_ms: 2_000,
                probe_period_ms: 200,
                peer_deadline_ms: 3_000,
                lock_lease_ms: 3_000,
                lock_wait_ms: 5_000,
                ..Limits::default()
            },
            release: Release::Current,
            catalog: Default::default(),
        });
        let (environment, running) = (BTreeMap::new(), BTreeMap::new());
        Self { configs: configs.collect(), environment, folder, running }
    }

    /// Changes the configuration of every node, from its next start on.
    pub fn configure(&mut self, change: impl FnMut(&mut NodeConfig)) {
        self.configs.iter_mut().for_each(change);
    }

    /// Sets a variable of every node's environment, from its next start on.
    pub fn set_variable(&mut self, name: &str, value: &str) {
        self.environment.insert(name.to_owned(), value.to_owned());
    }

    pub fn drive(&self, node: usize, slot: usize) -> &Path {
        &self.configs[node].nodes[node].drives[slot]
    }

    pub fn log(&self, node: usize) -> PathBuf {
        self.folder.path().join(format!("{node}.log"))
    }

    /// Starts a node without a control descriptor.
    pub fn start(&mut self, node: usize) {
        let command = self.command(node);
        self.spawn(node, command, None);
    }

    /// Starts a node with armed crash points.
    pub fn start_armed(&mut self, node: usize, arms: Vec<Arm>) {
        self.start_controlled(
            node,
            ToNode::Start { defects: vec![], run_file_systems: vec![], arms },
        );
    }

    /// Starts a node with a control descriptor.
    pub fn start_controlled(&mut self, node: usize, start: ToNode) {
        let (mut ours, theirs) = UnixStream::pair().expect("a socket pair");
        fcntl(&theirs, FcntlArg::F_SETFD(FdFlag::empty())).expect("inherited from now on");
        let mut command = self.command(node);
        command.env(CONTROL_FD_VARIABLE, theirs.as_raw_fd().to_string());
        writeln!(ours, "{}", serde_json::to_string(&start).expect("plain data")).expect("sent");
        self.spawn(node, command, Some(ours));
        drop(theirs);
    }

    fn command(&self, node: usize) -> Command {
        let path = self.folder.path().join(format!("{node}.yaml"));
        let yaml = firedrill::yaml::write(&self.configs[node]).expect("a configuration");
        fs::write(&path, yaml).expect("written");
        let log = File::options().create(true).append(true).open(self.log(node));
        let log = log.expect("a log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_firedrill"));
        command.arg("node").arg("--config").arg(path);
        command
            .env_clear()
            .envs(&self.environment)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        command
    }

    fn spawn(&mut self, node: usize, mut command: Command, control: Option<UnixStream>) {
        let child = command.spawn().expect("the binary runs");
        let before = self.running.insert(node, Running { child, control });
        assert!(before.is_none(), "node {node} runs already");
    }

    /// Waits until a node says that it is ready.
    pub fn wait_ready(&self, node: usize) {
        let client = self.client(node);
        self.wait(node, "ready", || {
            client.plain("GET", "/health/ready").is_ok_and(|answer| answer.status == 200)
        });
    }

    /// Waits until `is` becomes true.
    pub fn wait(&self, node: usize, what: &str, mut is: impl FnMut() -> bool) {
        let deadline = Instant::now() + SOON;
        while !is() {
            if Instant::now() > deadline {
                let log = fs::read_to_string(self.log(node)).unwrap_or_default();
                panic!("node {node} is not {what}; its log:\n{log}");
            }
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for a node's report that an armed point was passed.
    pub fn reached(&self, node: usize, arms: usize) {
        let control = self.running[&node].control.as_ref().expect("it is controlled");
        let control = control.try_clone().expect("a descriptor");
        control.set_read_timeout(Some(SOON)).expect("a timeout");
        let mut left = arms;
        for line in BufReader::new(control).lines() {
            let report: FromNode =
                serde_json::from_str(&line.expect("a report in time")).expect("a report");
            left -= usize::from(matches!(report, FromNode::Reached { .. }));
            if left == 0 {
                return;
            }
        }
        panic!("the node ended before it reached its points");
    }

    /// Lets the task that is held by an arm go on.
    pub fn release(&self, node: usize, arm: u64) {
        let mut control = self.running[&node].control.as_ref().expect("it is controlled");
        let line = serde_json::to_string(&ToNode::Release { arm }).expect("plain data");
        writeln!(control, "{line}").expect("sent");
    }

    /// Ends a node in order, and says how it ended and how long that took.
    pub fn terminate(&mut self, node: usize) -> (ExitStatus, Duration) {
        self.signal(node, Signal::SIGTERM)
    }

    /// Ends a node at once.
    pub fn kill(&mut self, node: usize) {
        self.signal(node, Signal::SIGKILL);
    }

    /// Freezes a node, or lets it go on.
    pub fn freeze(&self, node: usize, frozen: bool) {
        let pid = self.running[&node].child.id().cast_signed();
        let signal = if frozen { Signal::SIGSTOP } else { Signal::SIGCONT };
        kill(Pid::from_raw(pid), signal).expect("our own child");
    }

    fn signal(&mut self, node: usize, signal: Signal) -> (ExitStatus, Duration) {
        let mut running = self.running.remove(&node).expect("it runs");
        let began = Instant::now();
        kill(Pid::from_raw(running.child.id().cast_signed()), signal).expect("our own child");
        let status = loop {
            if let Some(status) = running.child.try_wait().expect("our own child") {
                break status;
            }
            assert!(began.elapsed() < SOON, "node {node} does not end");
            thread::sleep(Duration::from_millis(5));
        };
        (status, began.elapsed())
    }

    /// The most memory that a node ever had resident, in bytes.
    pub fn peak_bytes(&self, node: usize) -> u64 {
        let pid = self.running[&node].child.id();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kib.expect("the kernel says it") << 10
    }

    /// Where a node listens.
    pub fn address(&self, node: usize) -> &str {
        &self.configs[node].listen
    }

    /// A client that speaks to one node.
    pub fn client(&self, node: usize) -> Client {
        Client::new(&self.configs[node].listen, ACCESS_KEY, SECRET_KEY)
    }

    /// A client with other credentials.
    pub fn client_of(&self, node: usize, access_key: &str, secret_key: &str) -> Client {
        Client::new(&self.configs[node].listen, access_key, secret_key)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for running in self.running.values_mut() {
            // It may have ended by itself.
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}
