//! How fast S3 is served: one client process with connections that stay open, the same for every server.
//!
//! The node runs on 4+2 loop drives whose images lie on a tmpfs, strict. Another server can be measured by the same
//! client, given its address and keys. Each cell writes new keys, reads them back, and removes them; what is told of it
//! is the median of its rounds. Flushes are counted by the kernel, on the drives.

use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use futures::future::try_join_all;
use http::Method;
use http_body_util::BodyExt as _;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use md5::Digest as _;
use tokio::net::TcpStream;

use super::Figure;
use super::millis;
use crate::disk::format::erasure::Erasure;
use crate::disk::format::frame;
use crate::harness::report::Chain;
use crate::harness::scenario::plan::Filesystem;
use crate::harness::scenario::plan::TestbedPlan;
use crate::harness::testbed;
use crate::harness::testbed::RunContext;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::processes;
use crate::sigv4;
use crate::sigv4::Credentials;
use crate::sigv4::Payload;

/// Sizes of objects, in bytes, and how they are called.
const SIZES: [(usize, &str); 4] =
    [(4 << 10, "4 KiB"), (128 << 10, "128 KiB"), (1 << 20, "1 MiB"), (64 << 20, "64 MiB")];
/// Clients at once.
const CLIENTS: [usize; 3] = [1, 8, 32];
/// Rounds of each cell.
const ROUNDS: usize = 5;
/// How long a round goes on; a request that has begun is ended.
const ROUND: Duration = Duration::from_millis(700);
/// Keys of the listings.
const LISTED: [usize; 3] = [10_000, 30_000, 100_000];
/// Keys that are deleted one by one.
const DELETED: usize = 10_000;
/// MiB of a drive: room for the keys of the longest listing.
const DRIVE_MIB: u64 = 5 * 1024;
const BUCKET: &str = "bench";
const REGION: &str = "us-east-1";

/// A server that is measured.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where it listens; nothing is resolved.
    pub address: SocketAddr,
    /// Whose requests it takes.
    pub access_key: String,
    /// Their secret.
    pub secret_key: String,
}

/// Measures the embedded node, or `peer` where there is one.
///
/// # Errors
/// What could not be measured, in words.
pub(super) async fn measure(
    directory: &Path,
    program: PathBuf,
    peer: Option<&Target>,
) -> Result<Vec<Figure>, String> {
    if let Some(peer) = peer {
        return of_target(peer.clone(), &Outside::default()).await;
    }
    let drives = testbed::bench::plan_of(1, 6, Filesystem::Ext4, DRIVE_MIB);
    let plan = TestbedPlan { parity: 2, ..drives };
    let context = RunContext {
        name: format!("bench-s3-{}", std::process::id()),
        directory: directory.to_owned(),
        program,
        events: Arc::new(|_| {}),
    };
    let words = |error: testbed::TestbedError| Chain(&error).to_string();
    let testbed = Testbed::provision(&plan, &context).await.map_err(words)?;
    let measured = of_node(&testbed).await;
    testbed.teardown().await.map_err(words)?;
    measured
}

async fn of_node(testbed: &Arc<Testbed>) -> Result<Vec<Figure>, String> {
    let words = |error: testbed::TestbedError| Chain(&error).to_string();
    testbed.start(0).await.map_err(words)?;
    testbed.wait_ready(0, Duration::from_secs(30)).await.map_err(words)?;
    let credentials = testbed.credentials();
    let target = Target {
        address: testbed.direct_address(0).ok_or("the node does not listen")?,
        access_key: credentials.access_key.clone(),
        secret_key: credentials.secret_key.clone(),
    };
    let mut outside = Outside { pid: None, devices: Vec::new() };
    outside.pid = testbed.process(0).map(|process| process.pid());
    for drive in testbed.drives() {
        let identity = testbed.identity(&drive.name).map_err(words)?;
        outside.devices.push(identity.device);
    }
    of_target(target, &outside).await
}

/// What is looked at from outside while the server works.
#[derive(Debug, Default)]
struct Outside {
    /// The server's process, if it is ours.
    pid: Option<i32>,
    /// Its drives, as the kernel calls them.
    devices: Vec<String>,
}

impl Outside {
    /// Flushes that the drives have done so far.
    fn flushes(&self) -> u64 {
        let of_device = |device: &String| {
            let stat = std::fs::read_to_string(format!("/sys/block/{device}/stat")).ok()?;
            // The sixteenth number, by the kernel's `Documentation/block/stat.rst`.
            stat.split_ascii_whitespace().nth(15)?.parse::<u64>().ok()
        };
        self.devices.iter().filter_map(of_device).sum()
    }

    /// Processor time that the server and this process have used, in clock ticks.
    fn ticks(&self) -> (u64, u64) {
        let of = |pid| processes::stat(pid).map_or(0, |stat| stat.cpu_ticks);
        (self.pid.map_or(0, of), of(std::process::id() as i32))
    }
}

/// One connection and the keys that it has written.
struct Lane {
    target: Target,
    number: usize,
    sender: SendRequest<Full<Bytes>>,
    keys: Vec<String>,
}

impl Lane {
    async fn open(target: &Target, number: usize) -> Result<Self, String> {
        let sender = connect(target.address).await?;
        Ok(Self { target: target.clone(), number, sender, keys: Vec::new() })
    }

    /// Sends a request and receives its whole answer; answers its status, its length, and its bytes where asked.
    async fn ask(
        &mut self,
        method: Method,
        path: &str,
        query: &str,
        body: Bytes,
        keeps: bool,
    ) -> Result<(u16, u64, Vec<u8>), String> {
        if self.sender.ready().await.is_err() {
            self.sender = connect(self.target.address).await?;
        }
        let request = self.signed(method, path, query, body);
        let response = self.sender.send_request(request).await;
        let response = response.map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        let (mut content, mut length, mut kept) = (response.into_body(), 0, Vec::new());
        while let Some(frame) = content.frame().await {
            let frame = frame.map_err(|error| error.to_string())?;
            if let Some(data) = frame.data_ref() {
                length += data.len() as u64;
                if keeps {
                    kept.extend_from_slice(data);
                }
            }
        }
        Ok((status, length, kept))
    }

    fn signed(
        &self,
        method: Method,
        path: &str,
        query: &str,
        body: Bytes,
    ) -> http::Request<Full<Bytes>> {
        let credentials = Credentials {
            access_key: self.target.access_key.clone(),
            secret_key: self.target.secret_key.clone(),
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
        let scope = sigv4::Scope { region: REGION, service: "s3", now };
        let mut headers = vec![("host".to_owned(), self.target.address.to_string())];
        let plain = sigv4::Request { method: method.as_str(), path, query, headers: &headers };
        let signed = sigv4::sign(&plain, Payload::Unsigned, &credentials, &scope);
        headers.extend(signed.map(|(name, value)| (name.to_owned(), value)));
        let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        let mut builder = http::Request::builder().method(method).uri(target);
        for (name, value) in headers {
            builder = builder.header(name, value);
        }
        builder.body(Full::new(body)).expect("paths and headers are plain")
    }

    /// As [`ask`](Self::ask), of one key; an answer that is none of success is an error.
    async fn of_key(&mut self, method: Method, key: &str, body: Bytes) -> Result<u64, String> {
        let words = format!("{method} {key}");
        let (status, length, _) =
            self.ask(method, &format!("/{BUCKET}/{key}"), "", body, false).await?;
        if (200..300).contains(&status) { Ok(length) } else { Err(format!("{words}: {status}")) }
    }
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Full<Bytes>>, String> {
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = handshake.map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    Ok(sender)
}

/// What is asked for in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Put,
    Get,
    Head,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Put => "PUT",
            Self::Get => "GET",
            Self::Head => "HEAD",
        }
    }
}

/// What one round saw.
#[derive(Debug, Clone, Default)]
struct Round {
    requests: u64,
    took: Duration,
    /// How long each request took, sorted.
    latencies: Vec<Duration>,
}

impl Round {
    fn per_s(&self) -> f64 {
        self.requests as f64 / self.took.as_secs_f64().max(1e-9)
    }

    fn quantile(&self, percent: usize) -> Duration {
        let last = self.latencies.len().saturating_sub(1);
        self.latencies
            .get((self.latencies.len() * percent / 100).min(last))
            .copied()
            .unwrap_or_default()
    }
}

/// Has every lane ask for `kind` until a round is over.
async fn round(lanes: &mut [Lane], kind: Kind, turn: usize, body: &Bytes) -> Result<Round, String> {
    let began = Instant::now();
    let work = lanes.iter_mut().map(|lane| async move {
        let mut latencies = Vec::new();
        let mut count = 0;
        while latencies.is_empty() || began.elapsed() < ROUND {
            let asked = Instant::now();
            match kind {
                Kind::Put => {
                    let key = format!("{turn}/{}/{count}", lane.number);
                    lane.of_key(Method::PUT, &key, body.clone()).await?;
                    lane.keys.push(key);
                }
                Kind::Get | Kind::Head => {
                    let key = lane.keys[count % lane.keys.len()].clone();
                    let method = if kind == Kind::Get { Method::GET } else { Method::HEAD };
                    let length = lane.of_key(method, &key, Bytes::new()).await?;
                    if kind == Kind::Get && length != body.len() as u64 {
                        return Err(format!("GET {key}: {length} bytes of {}", body.len()));
                    }
                }
            }
            latencies.push(asked.elapsed());
            count += 1;
        }
        Ok::<_, String>(latencies)
    });
    let latencies = try_join_all(work).await?;
    let took = began.elapsed();
    let mut latencies: Vec<_> = latencies.into_iter().flatten().collect();
    latencies.sort_unstable();
    Ok(Round { requests: latencies.len() as u64, took, latencies })
}

/// The middle of some numbers.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
}

/// The rounds of one cell as a line of the table; `bytes` of an object.
fn line(name: String, rounds: &[Round], bytes: usize, more: &str) -> Figure {
    let of = |what: &dyn Fn(&Round) -> f64| median(rounds.iter().map(what).collect());
    let per_s = of(&Round::per_s);
    let wait =
        |percent| Duration::from_secs_f64(of(&|round| round.quantile(percent).as_secs_f64()));
    let rate = if bytes >= 1 << 20 {
        format!("{:.0} MB/s", per_s * bytes as f64 / 1e6)
    } else {
        format!("{per_s:.0} /s")
    };
    let (p50, p99) = (millis(wait(50)), millis(wait(99)));
    Figure { name, value: format!("{rate:>10}, p50 {p50:>9}, p99 {p99:>9}{more}"), aim: "" }
}

async fn of_target(target: Target, outside: &Outside) -> Result<Vec<Figure>, String> {
    let mut first = Lane::open(&target, 0).await?;
    let path = format!("/{BUCKET}");
    let (status, _, answer) = first.ask(Method::PUT, &path, "", Bytes::new(), true).await?;
    if status != 200 {
        let answer = String::from_utf8_lossy(&answer).into_owned();
        return Err(format!("the bucket was not made: {status} {answer}"));
    }
    let ticks = outside.ticks();
    let mut figures = Vec::new();
    let mut best = (0.0_f64, 0.0_f64);
    for (bytes, size) in SIZES {
        let body = Bytes::from((0..bytes).map(|at| (at * 131 % 251) as u8).collect::<Vec<_>>());
        for clients in CLIENTS {
            let lanes = (0..clients).map(|number| Lane::open(&target, number));
            let mut lanes = try_join_all(lanes).await?;
            let (mut puts, mut gets, mut heads) = (Vec::new(), Vec::new(), Vec::new());
            let (mut flushes, mut written) = (0, 0);
            for turn in 0..ROUNDS {
                let before = outside.flushes();
                puts.push(round(&mut lanes, Kind::Put, turn, &body).await?);
                flushes += outside.flushes().saturating_sub(before);
                written += puts[turn].requests;
                gets.push(round(&mut lanes, Kind::Get, turn, &body).await?);
                if bytes == SIZES[0].0 {
                    heads.push(round(&mut lanes, Kind::Head, turn, &body).await?);
                }
                remove(&mut lanes).await?;
            }
            let a_drive = (written * outside.devices.len() as u64).max(1);
            let flushed = match outside.devices.is_empty() {
                true => String::new(),
                false => format!(", {:.2} flushes a drive", flushes as f64 / a_drive as f64),
            };
            let name = |kind: Kind| format!("{} {size}, {clients} clients", kind.name());
            figures.push(line(name(Kind::Put), &puts, bytes, &flushed));
            figures.push(line(name(Kind::Get), &gets, bytes, ""));
            if !heads.is_empty() {
                figures.push(line(name(Kind::Head), &heads, 0, ""));
            }
            if bytes == SIZES[3].0 {
                let rate = |rounds: &[Round]| median(rounds.iter().map(Round::per_s).collect());
                let rate = |rounds: &[Round]| rate(rounds) * bytes as f64;
                best = (best.0.max(rate(&puts)), best.1.max(rate(&gets)));
            }
        }
    }
    figures.extend(budgets(best));
    figures.extend(of_keys(&target, &mut first).await?);
    let now = outside.ticks();
    let (server, client) = (now.0 - ticks.0, now.1 - ticks.1);
    if outside.pid.is_some() {
        let share = 100.0 * client as f64 / (server + client).max(1) as f64;
        figures.push(Figure {
            name: "the client's share of the processor time of both".to_owned(),
            value: format!("{share:.0} %"),
            aim: "",
        });
    }
    Ok(figures)
}

/// Deletes what the lanes have written.
async fn remove(lanes: &mut [Lane]) -> Result<(), String> {
    try_join_all(lanes.iter_mut().map(|lane| async move {
        for key in std::mem::take(&mut lane.keys) {
            lane.of_key(Method::DELETE, &key, Bytes::new()).await?;
        }
        Ok::<_, String>(())
    }))
    .await?;
    Ok(())
}

/// What one core could do at most with objects of 64 MiB, and how much of it was done.
fn budgets((put, get): (f64, f64)) -> Vec<Figure> {
    const BLOCKS: usize = 64;
    let block: Vec<u8> = (0..frame::BLOCK_BYTES).map(|at| (at * 31 % 251) as u8).collect();
    let erasure = Erasure::new(4, 2).expect("a sound geometry");
    let bytes = (BLOCKS * block.len()) as f64;
    let seconds = |work: &mut dyn FnMut()| {
        let began = Instant::now();
        (0..BLOCKS).for_each(|_| work());
        began.elapsed().as_secs_f64() / bytes
    };
    let mut digest = md5::Md5::new();
    let md5_s = seconds(&mut || digest.update(&block));
    let mut shards = Vec::new();
    let encode_s = seconds(&mut || shards = erasure.encode_block(&block));
    let mut frames = Vec::new();
    let hash_s = seconds(&mut || {
        frames.clear();
        shards.iter().for_each(|shard| frame::encode(shard, &mut frames));
    });
    let four = &frames[..frames.len() * 4 / 6];
    let verify_s = seconds(&mut || {
        let sound = four.chunks(four.len() / 4).all(|framed| frame::verify(framed).is_some());
        assert!(sound, "frames are sound");
    });
    let share = |rate: f64, seconds: f64| format!("{:.0} %", 100.0 * rate * seconds);
    let mb = |seconds: f64| format!("{:.0} MB/s", 1.0 / seconds / 1e6);
    vec![
        Figure {
            name: format!(
                "  PUT of 64 MiB, of MD5 + encode + hash: {}",
                mb(md5_s + encode_s + hash_s)
            ),
            value: share(put, md5_s + encode_s + hash_s),
            aim: "≥ 60 %",
        },
        Figure {
            name: format!("  GET of 64 MiB, of the hashes: {}", mb(verify_s)),
            value: share(get, verify_s),
            aim: "≥ 80 %",
        },
    ]
}

/// Listings of more and more keys, and the deletion of some.
async fn of_keys(target: &Target, first: &mut Lane) -> Result<Vec<Figure>, String> {
    let mut figures = Vec::new();
    let lanes = (0..CLIENTS[2]).map(|number| Lane::open(target, number));
    let mut lanes = try_join_all(lanes).await?;
    let mut there = 0;
    let mut per_key = Vec::new();
    for count in LISTED {
        let next = AtomicU64::new(there as u64);
        try_join_all(lanes.iter_mut().map(|lane| {
            let next = &next;
            async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count as u64 {
                        return Ok::<_, String>(());
                    }
                    let key = format!("listed/{number:07}");
                    lane.of_key(Method::PUT, &key, Bytes::from_static(b"x")).await?;
                }
            }
        }))
        .await?;
        there = count;
        let began = Instant::now();
        let seen = list_all(first).await?;
        let took = began.elapsed();
        if seen != count {
            return Err(format!("the listing has {seen} keys of {count}"));
        }
        per_key.push(took.as_secs_f64() / count as f64);
        figures.push(Figure {
            name: format!("list {count} keys, in pages of 1,000"),
            value: format!(
                "{} ({:.1} µs a key)",
                millis(took),
                1e6 * took.as_secs_f64() / count as f64
            ),
            aim: "",
        });
    }
    let (low, high) =
        per_key.iter().fold((f64::MAX, 0.0_f64), |(low, high), it| (low.min(*it), high.max(*it)));
    figures.push(Figure {
        name: "  the slowest time of a key beside the fastest".to_owned(),
        value: format!("{:.2}", high / low.max(1e-12)),
        aim: "≤ 1.25",
    });
    let next = AtomicU64::new(0);
    let began = Instant::now();
    try_join_all(lanes.iter_mut().map(|lane| {
        let next = &next;
        async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= DELETED as u64 {
                    return Ok::<_, String>(());
                }
                lane.of_key(Method::DELETE, &format!("listed/{number:07}"), Bytes::new()).await?;
            }
        }
    }))
    .await?;
    let took = began.elapsed();
    figures.push(Figure {
        name: format!("delete {DELETED} keys, {} clients", CLIENTS[2]),
        value: format!("{} ({:.0} /s)", millis(took), DELETED as f64 / took.as_secs_f64()),
        aim: "",
    });
    Ok(figures)
}

/// How many keys the bucket lists.
async fn list_all(lane: &mut Lane) -> Result<usize, String> {
    let (mut seen, mut after) = (0, String::new());
    loop {
        let after_text = sigv4::encode(&after, false);
        let mut query = "list-type=2&max-keys=1000".to_owned();
        if !after.is_empty() {
            query.push_str(&format!("&start-after={after_text}"));
        }
        let path = format!("/{BUCKET}");
        let (status, _, answer) = lane.ask(Method::GET, &path, &query, Bytes::new(), true).await?;
        let text = String::from_utf8_lossy(&answer);
        if status != 200 {
            return Err(format!("the listing: {status} {text}"));
        }
        let keys = text.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
        let keys: Vec<&str> = keys.collect();
        seen += keys.len();
        let Some(last) = keys.last().filter(|_| text.contains("<IsTruncated>true")) else {
            return Ok(seen);
        };
        after = (*last).to_owned();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_tells_its_rate_and_its_slow_requests() {
        let latencies = (1..=100).map(Duration::from_millis).collect();
        let round = Round { requests: 100, took: Duration::from_secs(2), latencies };
        assert_eq!(round.per_s(), 50.0);
        assert_eq!(round.quantile(50), Duration::from_millis(51));
        assert_eq!(round.quantile(99), Duration::from_millis(100));
        assert_eq!(Round::default().quantile(99), Duration::ZERO);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
    }
}
