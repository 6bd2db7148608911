//! A cluster that serves a catalog, and the clients that ask it.

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use bytes::Bytes;
use http::Method;
use http::StatusCode;
use serde_json::Value;
use tokio::time;

use crate::harness::operator::catalog::ask::Ask;
use crate::harness::operator::catalog::ask::Body;
use crate::harness::operator::catalog::ask::Outcome;
use crate::harness::operator::catalog::ask::Told;
use crate::harness::operator::catalog::routes;
use crate::harness::operator::catalog::routes::At;
use crate::harness::operator::catalog::routes::Named;
use crate::harness::report::Chain;
use crate::harness::runner::bench::client::Lane;
use crate::harness::runner::bench::client::Target;
use crate::harness::runner::bench::client::Want;
use crate::harness::runner::bench::outside::Outside;
use crate::harness::scenario::plan::Filesystem;
use crate::harness::scenario::plan::TestbedPlan;
use crate::harness::testbed;
use crate::harness::testbed::DrivePlace;
use crate::harness::testbed::RunContext;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::protocol::config::CatalogConfig;
use crate::protocol::config::Switch;
use crate::sigv4;

/// Where the catalog is asked.
const PREFIX: &str = "/iceberg/v1";
/// The namespace of every table.
pub(super) const NAMESPACE: &str = "sales";
/// How long a node may take to be ready, and to serve its catalog then.
const STARTING: Duration = Duration::from_secs(60);
/// How often it is asked meanwhile.
const STARTING_PERIOD: Duration = Duration::from_millis(50);
/// MiB of a drive: room for the files and folders of ten thousand tables.
const DRIVE_MIB: u64 = 1024;

/// What a cluster is made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    pub(super) nodes: usize,
    pub(super) drives: usize,
    pub(super) parity: usize,
}

/// Three nodes of four drives.
pub(super) const THREE_BY_FOUR: Shape = Shape { nodes: 3, drives: 4, parity: 4 };
/// One node of four drives.
pub(super) const ONE_BY_FOUR: Shape = Shape { nodes: 1, drives: 4, parity: 2 };

/// Where clusters are started.
pub(super) struct Ground<'a> {
    pub(super) directory: &'a Path,
    pub(super) program: PathBuf,
}

/// A cluster that runs.
pub(super) struct Cluster {
    testbed: Arc<Testbed>,
    shape: Shape,
}

/// The routes of a warehouse.
pub(super) fn at(warehouse: &str) -> At<'_> {
    At { prefix: PREFIX, warehouse }
}

/// A table of the one namespace.
pub(super) fn table(number: usize) -> String {
    format!("t{number:05}")
}

impl Ground<'_> {
    /// Starts a cluster with the object backing.
    pub(super) async fn cluster(&self, shape: Shape) -> Result<Cluster, String> {
        let Shape { nodes, drives, parity } = shape;
        let plan = testbed::bench::plan_of(nodes, drives, Filesystem::Ext4, DRIVE_MIB);
        let plan = TestbedPlan { parity, ..plan };
        let context = RunContext {
            name: format!("bench-catalog-{}", std::process::id()),
            directory: self.directory.to_owned(),
            program: self.program.clone(),
            events: Arc::new(|_| {}),
        };
        let testbed = Testbed::provision(&plan, &context).await.map_err(words)?;
        let cluster = Cluster { testbed, shape };
        match cluster.start().await {
            Ok(()) => Ok(cluster),
            Err(error) => cluster.end(Err(error)).await.map(|()| unreachable!("it is an error")),
        }
    }
}

impl Cluster {
    /// Starts every node, and waits until all are ready.
    pub(super) async fn start(&self) -> Result<(), String> {
        for node in 0..self.shape.nodes {
            self.testbed.start(node).await.map_err(words)?;
        }
        for node in 0..self.shape.nodes {
            self.testbed.wait_ready(node, STARTING).await.map_err(words)?;
        }
        Ok(())
    }

    /// Ends every node.
    pub(super) async fn stop(&self) -> Result<(), String> {
        self.testbed.stop_all().await.map_err(words)
    }

    /// Has every node serve the durable-strong backing from its next start on.
    pub(super) fn become_strong(&self) -> Result<(), String> {
        let backing = Some(Switch::Word("durable-strong".to_owned()));
        for node in 0..self.shape.nodes {
            let catalog = CatalogConfig { backing: backing.clone(), ..CatalogConfig::default() };
            self.testbed.become_catalog(node, catalog).map_err(words)?;
        }
        Ok(())
    }

    /// Opens every node to writers.
    pub(super) async fn admit(&self) -> Result<(), String> {
        for node in 0..self.shape.nodes {
            self.client(node).await?.patiently(&routes::admit()).await?;
        }
        Ok(())
    }

    /// A client of one node; of the next ones where there are fewer.
    pub(super) async fn client(&self, node: usize) -> Result<Client, String> {
        let node = node % self.shape.nodes;
        let credentials = self.testbed.credentials();
        let target = Target {
            name: format!("node {node}"),
            address: self.testbed.direct_address(node).ok_or("the node does not listen")?,
            access_key: credentials.access_key.clone(),
            secret_key: credentials.secret_key.clone(),
        };
        Ok(Client { lane: Lane::open(&target, "", 0).await? })
    }

    /// What the kernel tells of each node, and of its drives.
    pub(super) fn outside(&self) -> Result<Vec<Outside>, String> {
        let drives = self.testbed.drives();
        let of_node = |node: usize| {
            let device = |drive: &DrivePlace| {
                self.testbed.identity(&drive.name).map(|it| it.device).map_err(words)
            };
            let devices = drives.iter().filter(|it| it.node == node).map(device);
            let pid = self.testbed.process(node).map(|process| process.pid());
            Ok(Outside { pid, devices: devices.collect::<Result<_, String>>()? })
        };
        (0..self.shape.nodes).map(of_node).collect()
    }

    /// The roots of the drives.
    pub(super) fn roots(&self) -> Vec<PathBuf> {
        self.testbed.drives().into_iter().map(|drive| drive.root).collect()
    }

    /// What it is made of.
    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Makes a table bucket with the one namespace.
    pub(super) async fn warehouse(&self, warehouse: &str) -> Result<(), String> {
        let mut client = self.client(0).await?;
        client.patiently(&Ask::new("PUT", format!("/{warehouse}"))).await?;
        client.patiently(&Ask::new("PUT", at(warehouse).bucket().path)).await?;
        let namespace = [NAMESPACE.to_owned()];
        client.patiently(&at(warehouse).create_namespace(&namespace)).await.map(drop)
    }

    /// Takes the cluster away, whatever became of what was measured.
    pub(super) async fn end(self, measured: Result<(), String>) -> Result<(), String> {
        self.testbed.teardown().await.map_err(words)?;
        measured
    }
}

fn words(error: TestbedError) -> String {
    Chain(&error).to_string()
}

/// One client with a connection that stays open.
pub(super) struct Client {
    lane: Lane,
}

impl Client {
    /// Sends a request, and says what came of it.
    pub(super) async fn ask(&mut self, ask: &Ask) -> Result<Told, String> {
        let query: Vec<_> = ask
            .query
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}={}", sigv4::encode(value, false)))
            .collect();
        let body = match &ask.body {
            Body::Empty => Bytes::new(),
            Body::Json(value) => Bytes::from(value.to_string()),
            Body::Text(text) => Bytes::from(text.clone()),
        };
        let method = Method::from_bytes(ask.method.as_bytes()).map_err(|it| it.to_string())?;
        let query = query.join("&");
        let answer = self.lane.ask_at(method, &ask.path, &query, body, Want::Bytes).await?;
        let body = match serde_json::from_slice(&answer.body) {
            Ok(body) => body,
            Err(_) => Value::String(String::from_utf8_lossy(&answer.body).into_owned()),
        };
        Ok(Told::answered(ask, answer.status, body))
    }

    /// As [`ask`](Self::ask); an answer that is none of success is an error.
    pub(super) async fn done(&mut self, ask: &Ask) -> Result<Told, String> {
        let told = self.ask(ask).await?;
        match told.outcome {
            Outcome::Done => Ok(told),
            Outcome::Refused | Outcome::Unknown => Err(refused(ask, &told)),
        }
    }

    /// As [`done`](Self::done), patient with a node that has only just started.
    pub(super) async fn patiently(&mut self, ask: &Ask) -> Result<Told, String> {
        let began = Instant::now();
        loop {
            let told = self.ask(ask).await?;
            let is_busy = told.status == Some(StatusCode::SERVICE_UNAVAILABLE.as_u16());
            if told.outcome == Outcome::Done {
                return Ok(told);
            }
            if !is_busy || began.elapsed() > STARTING {
                return Err(refused(ask, &told));
            }
            // A state is waited for, and asking is the only way to see it.
            time::sleep(STARTING_PERIOD).await;
        }
    }

    /// Creates a table of the one namespace.
    pub(super) async fn create(&mut self, warehouse: &str, name: &str) -> Result<Told, String> {
        let namespace = [NAMESPACE.to_owned()];
        let table = Named { namespace: &namespace, name };
        self.done(&at(warehouse).create_table(table)).await
    }
}

/// An answer that is none of success, in words.
pub(super) fn refused(ask: &Ask, told: &Told) -> String {
    format!("{}: {} {}", ask.words(), told.status.unwrap_or_default(), told.words)
}
