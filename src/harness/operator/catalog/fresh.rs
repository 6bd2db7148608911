//! A cluster of its own for as long as a check lasts: one embedded node on plain folders below the run's folder.
//!
//! It needs neither root nor loop devices. Its node hears from its parent through the control descriptor and ends
//! when the parent does, so that a rehearsal that is killed leaves folders behind and no process; the next start
//! removes them. It is no testbed: nothing is broken in it, and what its drives survive is not asked.

use std::collections::BTreeMap;
use std::fs;
use std::fs::OpenOptions;
use std::io;
use std::io::ErrorKind;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::Signal;
use tokio::time::Instant;
use tokio::time::sleep;
use tokio::time::timeout;

use super::ask::By;
use super::client::Reach;
use super::error::CatalogError;
use crate::harness::target::config::write_secret;
use crate::harness::target::control::Control;
use crate::harness::target::health;
use crate::harness::target::process;
use crate::harness::target::process::NodeProcess;
use crate::harness::target::process::Start;
use crate::protocol::config::CatalogConfig;
use crate::protocol::config::NodeConfig;
use crate::protocol::config::NodeEntry;
use crate::protocol::config::Principal;
use crate::protocol::config::Switch;
use crate::protocol::control::ToNode;
use crate::sigv4::Credentials;
use crate::yaml;

/// Its folder below the run's.
pub const FOLDER: &str = "fresh-cluster";
/// The log of its node, beside that folder.
pub const LOG: &str = "fresh-cluster.log";
/// How long the node may take until it listens, and then until it is ready.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How long it may take to end.
const STOP_PATIENCE: Duration = Duration::from_secs(20);
/// How often it is asked whether it is ready.
const READY_PERIOD: Duration = Duration::from_millis(20);
/// How long an answer of it may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(60);
/// The one access key.
const ACCESS_KEY: &str = "fresh-cluster";

/// The cluster. Dropped, its node is killed and its folder removed; the log stays.
#[derive(Debug)]
pub struct Fresh {
    program: PathBuf,
    folder: PathBuf,
    log: PathBuf,
    config: NodeConfig,
    secret_key: String,
    life: Option<(NodeProcess, Control)>,
}

impl Fresh {
    /// Makes folders for `drives` drives of sets of `set_drives`, and has a node format them; it is stopped then.
    ///
    /// # Errors
    ///
    /// [`CatalogError::Io`] or [`CatalogError::Lacking`]: this machine does not carry it.
    pub async fn make(
        program: &Path,
        run: &Path,
        drives: usize,
        set_drives: usize,
    ) -> Result<Self, CatalogError> {
        let run = fs::canonicalize(run).map_err(CatalogError::io("find", run))?;
        let folder = run.join(FOLDER);
        remove(&folder).map_err(CatalogError::io("remove", &folder))?;
        let roots: Vec<_> = (0..drives).map(|slot| folder.join(format!("drive{slot}"))).collect();
        for root in &roots {
            fs::create_dir_all(root).map_err(CatalogError::io("create", root))?;
        }
        let secret_key = hex::encode(rand::random::<[u8; 20]>());
        let cluster_secret_file = folder.join("cluster.secret");
        let secret_file = folder.join("client.secret");
        let cluster_secret = hex::encode(rand::random::<[u8; 32]>());
        write_secret(&cluster_secret_file, &cluster_secret)
            .and_then(|()| write_secret(&secret_file, &secret_key))
            .map_err(CatalogError::io("write secrets into", &folder))?;
        let everything = Principal { secret_file, actions: vec!["*".to_owned()], account: None };
        let listen = "127.0.0.1:0".to_owned();
        let entry = NodeEntry { address: listen.clone(), drives: roots, endpoints: Vec::new() };
        let config = NodeConfig {
            node: 0,
            listen,
            nodes: vec![entry],
            set_drives,
            parity: None,
            durability: Default::default(),
            cluster_secret_file,
            principals: BTreeMap::from([(ACCESS_KEY.to_owned(), everything)]),
            allow_unmounted: true,
            limits: Default::default(),
            release: Default::default(),
            catalog: CatalogConfig::default(),
        };
        let log = run.join(LOG);
        let program = program.to_owned();
        let mut fresh = Self { program, folder, log, config, secret_key, life: None };
        fresh.start(false).await?;
        fresh.stop().await?;
        Ok(fresh)
    }

    /// The roots of its drives.
    pub fn drives(&self) -> &[PathBuf] {
        &self.config.nodes[0].drives
    }

    /// Starts its node with one backing or the other; answers how it is reached.
    ///
    /// # Errors
    ///
    /// [`CatalogError::Lacking`]: the node ended or was not ready in time.
    pub async fn start(&mut self, is_strong: bool) -> Result<Reach, CatalogError> {
        let backing = if is_strong { "durable-strong" } else { "object" };
        self.config.catalog.backing = Some(Switch::Word(backing.to_owned()));
        let path = self.folder.join("node.yaml");
        let text = yaml::write(&self.config).map_err(io::Error::other);
        let written = text.and_then(|text| fs::write(&path, text));
        written.map_err(CatalogError::io("write", &path))?;
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.map_err(CatalogError::io("open", &self.log))?;
        let (control, theirs) =
            Control::new().map_err(CatalogError::io("make the control channel of", &path))?;
        let start = Start {
            program: &self.program,
            config: &path,
            log: &log,
            mounts: None,
            control: theirs,
        };
        let process = NodeProcess::start(start, |_| async {})
            .map_err(CatalogError::io("start", &self.program))?;
        let first_words =
            ToNode::Start { defects: Vec::new(), run_file_systems: Vec::new(), arms: Vec::new() };
        // When the node is gone already, waiting for its port says so.
        let _ = control.say(&first_words).await;
        let (_, control) = self.life.insert((process, control));
        let Ok(Some(port)) = timeout(START_PATIENCE, control.port()).await else {
            return Err(self.silent("does not listen"));
        };
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let began = Instant::now();
        while health::ready(address).await.is_none_or(|health| health.status != 200) {
            if began.elapsed() > START_PATIENCE {
                return Err(self.silent("is not ready"));
            }
            sleep(READY_PERIOD).await;
        }
        let (access_key, secret_key) = (ACCESS_KEY.to_owned(), self.secret_key.clone());
        let operator = Credentials { access_key, secret_key };
        Ok(Reach {
            nodes: vec![address.to_string()],
            service: "s3".to_owned(),
            region: "us-east-1".to_owned(),
            timeout: ANSWER_PATIENCE,
            starting: START_PATIENCE,
            credentials: BTreeMap::from([(By::Operator, operator)]),
        })
    }

    fn silent(&self, what: &str) -> CatalogError {
        let (log, seconds) = (self.log.display(), START_PATIENCE.as_secs());
        let last = process::last_line(&self.log);
        CatalogError::Lacking(format!(
            "the node of the fresh cluster {what} (it was given {seconds} s; see {log}): {last}"
        ))
    }

    /// Ends its node.
    ///
    /// # Errors
    ///
    /// [`CatalogError::Lacking`]: it does not end.
    pub async fn stop(&mut self) -> Result<(), CatalogError> {
        let Some((process, _control)) = self.life.take() else { return Ok(()) };
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            process.signal(signal).map_err(CatalogError::io("end the node of", &self.folder))?;
            if process.ended(STOP_PATIENCE).await.is_some() {
                return Ok(());
            }
        }
        Err(CatalogError::Lacking("the node of the fresh cluster does not end".to_owned()))
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if let Some((process, _)) = self.life.take() {
            // It also ends by itself, since its control channel closes.
            let _ = process.signal(Signal::SIGKILL);
        }
        // What cannot be removed now is removed by the next start in the same folder.
        let _ = remove(&self.folder);
    }
}

/// Removes a folder, if it is there.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
