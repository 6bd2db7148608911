//! PUT, GET and HEAD of one size under so many clients: one cell of the table, every server in turn in each run.

use std::time::Duration;
use std::time::Instant;

use bytes::Bytes;
use futures::future::try_join_all;
use http::Method;

use super::Options;
use super::Server;
use super::table;
use super::table::Table;
use crate::harness::runner::bench::client::Lane;
use crate::harness::runner::bench::client::Want;
use crate::harness::runner::bench::numbers::median;
use crate::harness::runner::bench::numbers::quantile;
use crate::harness::runner::bench::outside;
use crate::harness::runner::bench::outside::TICKS_PER_S;

/// A round ends once it has moved so many bytes, however much time is left: memory holds the drives.
const ROUND_BYTES_MAX: u64 = 1 << 30;
/// One answer in so many is held against what was written, byte by byte.
const COMPARED_EVERY: usize = 16;

/// What is asked for.
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
    took: Duration,
    /// How long each request took, sorted.
    latencies: Vec<Duration>,
    /// Flushes of all drives, where they could be read.
    flushes: Option<u64>,
    /// Clock ticks of the client and of the server, where they could be read.
    ticks: (Option<u64>, Option<u64>),
}

impl Round {
    fn per_s(&self) -> f64 {
        self.latencies.len() as f64 / self.took.as_secs_f64().max(1e-9)
    }

    fn quantile(&self, percent: usize) -> f64 {
        quantile(&self.latencies, percent).as_secs_f64()
    }
}

/// Measures one size under so many clients on every server, and prints a row of each as soon as it is known.
/// Answers the rates of PUT and GET of the first server, in bytes a second.
pub(super) async fn cell(
    options: &Options,
    servers: &[Server],
    table: &Table<'_>,
    bytes: u64,
    clients: usize,
) -> Result<(f64, f64), String> {
    let contents: Vec<u8> = (0..bytes).map(|at| (at * 131 % 251) as u8).collect();
    let body = Bytes::from(contents);
    // What HEAD takes does not hang on the size.
    let kinds = match options.sizes.first() {
        Some(first) if *first == bytes => vec![Kind::Put, Kind::Get, Kind::Head],
        _ => vec![Kind::Put, Kind::Get],
    };
    let mut rounds = vec![vec![Vec::new(); servers.len()]; kinds.len()];
    for run in 0..options.runs {
        for (at, server) in servers.iter().enumerate() {
            let lanes = (0..clients).map(|lane| Lane::open(&server.target, &server.bucket, lane));
            let mut lanes = try_join_all(lanes).await?;
            for (kind, rounds) in kinds.iter().zip(&mut rounds) {
                rounds[at].push(round(options, server, &mut lanes, *kind, run, &body).await?);
            }
            remove(&mut lanes).await?;
        }
    }
    let rate = |rounds: &[Round]| median(rounds.iter().map(Round::per_s).collect());
    for (kind, rounds) in kinds.iter().zip(&rounds) {
        let first = rate(&rounds[0]);
        for (server, rounds) in servers.iter().zip(rounds) {
            let of = |what: &dyn Fn(&Round) -> Option<f64>| {
                let known: Option<Vec<f64>> = rounds.iter().map(what).collect();
                known.map(median)
            };
            let requests = |round: &Round| round.latencies.len().max(1) as f64;
            let cores = |ticks: Option<u64>, round: &Round| {
                Some(ticks? as f64 / TICKS_PER_S / round.took.as_secs_f64().max(1e-9))
            };
            let drives = server.outside.devices.len().max(1) as f64;
            let is_put = *kind == Kind::Put && !server.outside.devices.is_empty();
            table.row(&table::Row {
                what: format!("{} {}", kind.name(), table::size(bytes)),
                clients,
                server: &server.target.name,
                per_s: rate(rounds),
                bytes_per_s: (*kind != Kind::Head).then(|| rate(rounds) * bytes as f64),
                p50_s: of(&|round| Some(round.quantile(50))).unwrap_or_default(),
                p99_s: of(&|round| Some(round.quantile(99))).unwrap_or_default(),
                client_cores: of(&|round| cores(round.ticks.0, round)),
                server_cores: of(&|round| cores(round.ticks.1, round)),
                flushes: is_put
                    .then(|| of(&|round| Some(round.flushes? as f64 / requests(round) / drives))),
                of_first: first / rate(rounds).max(1e-9),
            });
        }
    }
    let rate = |kind: usize| rate(&rounds[kind][0]) * bytes as f64;
    Ok((rate(0), rate(1)))
}

/// Has every lane ask for `kind` until a round is over; a request that has begun is ended.
async fn round(
    options: &Options,
    server: &Server,
    lanes: &mut [Lane],
    kind: Kind,
    run: usize,
    body: &Bytes,
) -> Result<Round, String> {
    let flushes = server.outside.flushes();
    let ticks = (outside::own_ticks(), server.outside.ticks());
    let of_each = ROUND_BYTES_MAX / (body.len().max(1) * lanes.len()) as u64;
    let requests_max = usize::try_from(of_each).unwrap_or(usize::MAX).max(1);
    let began = Instant::now();
    let work = lanes.iter_mut().map(|lane| async move {
        let mut latencies = Vec::new();
        while latencies.is_empty()
            || began.elapsed() < options.round
                && (kind == Kind::Head || latencies.len() < requests_max)
        {
            let (asked, count) = (Instant::now(), latencies.len());
            match kind {
                Kind::Put => {
                    let key = format!("{run}/{}/{count}", lane.number);
                    lane.succeed(Method::PUT, &key, "", body.clone(), Want::Bytes).await?;
                    lane.keys.push(key);
                }
                Kind::Get => {
                    let key = lane.keys[count % lane.keys.len()].clone();
                    let want = match count % COMPARED_EVERY {
                        0 => Want::Same(body),
                        _ => Want::Length,
                    };
                    let answer = lane.succeed(Method::GET, &key, "", Bytes::new(), want).await?;
                    if answer.length != body.len() as u64 {
                        return Err(format!("GET {key}: {} of {}", answer.length, body.len()));
                    }
                }
                Kind::Head => {
                    let key = lane.keys[count % lane.keys.len()].clone();
                    lane.succeed(Method::HEAD, &key, "", Bytes::new(), Want::Length).await?;
                }
            }
            latencies.push(asked.elapsed());
        }
        Ok::<_, String>(latencies)
    });
    let latencies = try_join_all(work).await?;
    let took = began.elapsed();
    let since = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
    let ticks = (since(outside::own_ticks(), ticks.0), since(server.outside.ticks(), ticks.1));
    let flushes = since(server.outside.flushes().ok(), flushes.ok());
    let mut latencies: Vec<_> = latencies.into_iter().flatten().collect();
    latencies.sort_unstable();
    Ok(Round { took, latencies, flushes, ticks })
}

/// Deletes what the lanes have written.
async fn remove(lanes: &mut [Lane]) -> Result<(), String> {
    try_join_all(lanes.iter_mut().map(|lane| async move {
        for key in std::mem::take(&mut lane.keys) {
            lane.succeed(Method::DELETE, &key, "", Bytes::new(), Want::Bytes).await?;
        }
        Ok::<_, String>(())
    }))
    .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_tells_its_rate_and_its_slow_requests() {
        let latencies = (1..=100).map(Duration::from_millis).collect();
        let round = Round { took: Duration::from_secs(2), latencies, ..Round::default() };
        assert_eq!(round.per_s(), 50.0);
        assert_eq!(round.quantile(50), 0.051);
        assert_eq!(round.quantile(99), 0.1);
        assert_eq!(Round::default().quantile(99), 0.0);
    }
}
