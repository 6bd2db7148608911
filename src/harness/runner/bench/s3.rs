//! How fast S3 is served: one client process, the same for every server, beside each other in each run.
//!
//! The node runs on 4+2 loop drives whose images lie on a tmpfs, strict. Other servers are measured by the same client,
//! given their addresses and keys; how they keep their promises is for whoever starts them to say. Each cell writes
//! new keys, reads them back and removes them; what is told of it is the median of its runs, as soon as it is known.
//! Flushes are counted by the kernel, on the drives.

mod keys;
mod large;
mod load;
mod table;

use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;

pub use super::client::Target;

use super::Tell;
use super::client::Lane;
use super::client::Want;
use super::outside::Outside;
use crate::harness::report::Chain;
use crate::harness::scenario::plan::Filesystem;
use crate::harness::scenario::plan::TestbedPlan;
use crate::harness::testbed;
use crate::harness::testbed::RunContext;
use crate::harness::testbed::Testbed;
use table::Table;

/// MiB of a drive in memory.
const DRIVE_MIB: u64 = 1024;
/// A drive on disk has room for its share of the object so many times over.
const ROOM: u64 = 2;
/// Bytes that stay free where drives lie on a disk.
const SPARE_BYTES: u64 = 4 << 30;

/// A part of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// PUT, GET and HEAD, by size and clients; with 64 MiB also beside what one core could do.
    Load,
    /// Listings of more and more keys, and the deletion of some.
    Keys,
    /// A large object in parts, with the memory that it takes.
    Multipart,
}

impl Part {
    /// All of them, as they are called.
    pub const ALL: [(&'static str, Self); 3] =
        [("load", Self::Load), ("keys", Self::Keys), ("multipart", Self::Multipart)];
}

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// The parts.
    pub parts: Vec<Part>,
    /// Bytes of objects.
    pub sizes: Vec<u64>,
    /// Clients at once.
    pub clients: Vec<usize>,
    /// How long a round goes on; a request that has begun is ended.
    pub round: Duration,
    /// Runs of each cell, of which the median is told.
    pub runs: usize,
    /// Keys of the listings, rising.
    pub keys: Vec<u64>,
    /// What the node's drives carry.
    pub filesystem: Filesystem,
    /// Bytes of the object of many parts.
    pub multipart_bytes: u64,
    /// Where the drives of that object lie.
    pub disk: PathBuf,
    /// Who is measured beside the node.
    pub peers: Vec<Target>,
}

/// A server with the bucket that was made on it.
#[derive(Clone)]
struct Server {
    target: Target,
    bucket: String,
    outside: Outside,
}

impl Server {
    /// Makes a bucket of our own.
    async fn begin(target: Target, outside: Outside) -> Result<Self, String> {
        let bucket = format!("bench-{}", hex::encode(rand::random::<[u8; 4]>()));
        let mut lane = Lane::open(&target, &bucket, 0).await?;
        lane.succeed(Method::PUT, "", "", Bytes::new(), Want::Bytes).await?;
        Ok(Self { target, bucket, outside })
    }
}

/// Measures the embedded node, beside peers where there are any; `tell` gets each line as soon as it is known.
///
/// # Errors
/// What could not be measured, in words.
pub(super) async fn measure(
    directory: &Path,
    program: PathBuf,
    options: &Options,
    tell: Tell<'_>,
) -> Result<(), String> {
    let ground = Ground { directory, program, filesystem: options.filesystem };
    for part in &options.parts {
        match part {
            Part::Load => {
                let node = ground.node(DRIVE_MIB, None).await?;
                let measured = load(options, &node.server, tell).await;
                node.end(measured).await?;
            }
            Part::Keys => {
                let node = ground.node(DRIVE_MIB, None).await?;
                let measured = keys(options, &node.server, tell).await;
                node.end(measured).await?;
            }
            Part::Multipart => multipart(options, &ground, tell).await?,
        }
    }
    Ok(())
}

/// The node and the peers, each with a bucket.
async fn beside(node: &Server, peers: &[Target]) -> Result<Vec<Server>, String> {
    let mut servers = vec![node.clone()];
    for peer in peers {
        servers.push(Server::begin(peer.clone(), Outside::default()).await?);
    }
    Ok(servers)
}

async fn load(options: &Options, node: &Server, tell: Tell<'_>) -> Result<(), String> {
    if let Err(error) = node.outside.flushes() {
        tell(&format!("Flushes are not counted: {error}."));
    }
    let servers = beside(node, &options.peers).await?;
    let seconds = options.round.as_secs_f64();
    tell(&format!(
        "The node: 4+2 loop drives ({:?}) on a tmpfs, strict. Rounds of {seconds} s, medians of {}.",
        options.filesystem, options.runs
    ));
    let budgets = large::Budgets::measure();
    let table = Table::begin(tell);
    let mut best = (0.0_f64, 0.0_f64);
    for &bytes in &options.sizes {
        for &clients in &options.clients {
            let (put, get) = load::cell(options, &servers, &table, bytes, clients).await?;
            if bytes == large::BUDGETED_BYTES {
                best = (best.0.max(put), best.1.max(get));
            }
        }
    }
    if options.sizes.contains(&large::BUDGETED_BYTES) {
        budgets.tell(best, tell);
    }
    Ok(())
}

async fn keys(options: &Options, node: &Server, tell: Tell<'_>) -> Result<(), String> {
    for server in beside(node, &options.peers).await? {
        keys::measure(&options.keys, &server, tell).await?;
    }
    Ok(())
}

async fn multipart(options: &Options, ground: &Ground<'_>, tell: Tell<'_>) -> Result<(), String> {
    let disk = tempfile::tempdir_in(&options.disk);
    let disk = disk.map_err(|error| format!("{}: {error}", options.disk.display()))?;
    let (asked, free) = (options.multipart_bytes, free_bytes(disk.path())?);
    // Six shards of a quarter each; the drives are hollow files that fill up to that.
    let bytes = asked.min(free.saturating_sub(SPARE_BYTES) * 4 / 6);
    if bytes < asked {
        tell(&format!(
            "There is room for {} of the {} of the large object.",
            table::size(bytes),
            table::size(asked)
        ));
    }
    let drive_mib = ((bytes / 4 * ROOM) >> 20).max(DRIVE_MIB);
    let node = ground.node(drive_mib, Some(disk.path())).await?;
    let measured = large::multipart(&node.server, bytes, tell).await;
    node.end(measured).await
}

/// Bytes that are free where `path` lies.
fn free_bytes(path: &Path) -> Result<u64, String> {
    let stat = nix::sys::statvfs::statvfs(path);
    let stat = stat.map_err(|errno| format!("{}: {errno}", path.display()))?;
    Ok(stat.blocks_available().saturating_mul(stat.fragment_size()))
}

/// Where nodes are started.
struct Ground<'a> {
    directory: &'a Path,
    program: PathBuf,
    filesystem: Filesystem,
}

/// A node that runs, on drives of its own.
struct Running {
    testbed: Arc<Testbed>,
    server: Server,
}

impl Ground<'_> {
    /// Starts a node on six drives, whose images lie on a tmpfs or in `images`.
    async fn node(&self, drive_mib: u64, images: Option<&Path>) -> Result<Running, String> {
        let drives = testbed::bench::plan_of(1, 6, self.filesystem, drive_mib);
        let plan = TestbedPlan { parity: 2, ..drives };
        let context = RunContext {
            name: format!("bench-s3-{}", std::process::id()),
            directory: self.directory.to_owned(),
            program: self.program.clone(),
            events: Arc::new(|_| {}),
        };
        let testbed = Testbed::provision_in(&plan, &context, images).await.map_err(words)?;
        match start(&testbed).await {
            Ok(server) => Ok(Running { testbed, server }),
            Err(error) => {
                testbed.teardown().await.map_err(words)?;
                Err(error)
            }
        }
    }
}

impl Running {
    /// Takes the node away, whatever became of what was measured.
    async fn end(self, measured: Result<(), String>) -> Result<(), String> {
        self.testbed.teardown().await.map_err(words)?;
        measured
    }
}

fn words(error: testbed::TestbedError) -> String {
    Chain(&error).to_string()
}

async fn start(testbed: &Arc<Testbed>) -> Result<Server, String> {
    testbed.start(0).await.map_err(words)?;
    testbed.wait_ready(0, Duration::from_secs(30)).await.map_err(words)?;
    let credentials = testbed.credentials();
    let target = Target {
        name: "node".to_owned(),
        address: testbed.direct_address(0).ok_or("the node does not listen")?,
        access_key: credentials.access_key.clone(),
        secret_key: credentials.secret_key.clone(),
    };
    let pid = testbed.process(0).map(|process| process.pid());
    let device = |drive: &testbed::DrivePlace| {
        testbed.identity(&drive.name).map(|identity| identity.device).map_err(words)
    };
    let devices = testbed.drives().iter().map(device).collect::<Result<_, _>>()?;
    Server::begin(target, Outside { pid, devices }).await
}
