//! Commits a second: as many writers as are asked for, each with one commit at a time, as a stock client sends them.
//!
//! A commit counts from its first attempt to its acknowledgement: one that lost a race is sent again at once, as often
//! as it takes.

use std::time::Duration;
use std::time::Instant;

use futures::future::try_join_all;
use serde_json::json;

use super::Options;
use super::cluster::Client;
use super::cluster::Cluster;
use super::cluster::Ground;
use super::cluster::NAMESPACE;
use super::cluster::THREE_BY_FOUR;
use super::cluster::at;
use super::cluster::refused;
use super::cluster::table;
use crate::harness::operator::catalog::ask::Ask;
use crate::harness::operator::catalog::ask::Outcome;
use crate::harness::operator::catalog::routes::Named;
use crate::harness::runner::bench::Tell;
use crate::harness::runner::bench::numbers::quantile;
use crate::harness::runner::bench::outside::Outside;
use crate::harness::runner::bench::outside::TICKS_PER_S;

const WAREHOUSE: &str = "bench-commits";
/// A writer gives a commit up that others win over for so many rounds.
const GIVE_UP: u32 = 20;

/// Where the catalog's state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Backing {
    Object,
    Strong,
}

impl Backing {
    fn word(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Strong => "durable-strong",
        }
    }
}

/// What one round saw.
#[derive(Debug, Default)]
struct Round {
    took: Duration,
    /// From the first attempt of each commit to its acknowledgement, sorted.
    latencies: Vec<Duration>,
    /// Attempts that were answered with a refusal.
    refused: usize,
    /// Flushes of all drives, where they could be read.
    flushes: Option<u64>,
    /// Clock ticks of all nodes, where they could be read.
    ticks: Option<u64>,
}

/// Measures both backings, each on a cluster of its own.
pub(super) async fn measure(
    options: &Options,
    ground: &Ground<'_>,
    tell: Tell<'_>,
) -> Result<(), String> {
    let seconds = options.round.as_secs_f64();
    tell(&format!("Commits: 3 nodes of 4 drives, strict, 8+4; rounds of {seconds} s."));
    tell(
        "| backing | tables | writers | commits/s | p50 ms | p99 ms | refused of a commit \
         | flushes of a drive | cores of the nodes |",
    );
    tell("|---|--:|--:|--:|--:|--:|--:|--:|--:|");
    for backing in [Backing::Object, Backing::Strong] {
        let cluster = ground.cluster(THREE_BY_FOUR).await?;
        let measured = of_backing(options, &cluster, backing, tell).await;
        cluster.end(measured).await?;
    }
    Ok(())
}

async fn of_backing(
    options: &Options,
    cluster: &Cluster,
    backing: Backing,
    tell: Tell<'_>,
) -> Result<(), String> {
    cluster.warehouse(WAREHOUSE).await?;
    let mut client = cluster.client(0).await?;
    let most = options.tables.iter().copied().max().unwrap_or_default();
    for number in 0..most {
        client.create(WAREHOUSE, &table(number)).await?;
    }
    if backing == Backing::Strong {
        client.done(&at(WAREHOUSE).backfill()).await?;
        client.done(&at(WAREHOUSE).migrate()).await?;
        cluster.stop().await?;
        cluster.become_strong()?;
        cluster.start().await?;
        cluster.admit().await?;
    }
    let outside = cluster.outside()?;
    for &tables in &options.tables {
        for &writers in &options.writers {
            let clients = try_join_all((0..writers).map(|it| cluster.client(it))).await?;
            let round = round(options, clients, &outside, tables).await?;
            tell(&row(backing, tables, writers, &round, &outside));
        }
    }
    Ok(())
}

async fn round(
    options: &Options,
    mut clients: Vec<Client>,
    outside: &[Outside],
    tables: usize,
) -> Result<Round, String> {
    let writers = clients.len();
    let before = (flushes(outside), ticks(outside));
    let began = Instant::now();
    let work = clients.iter_mut().enumerate().map(|(writer, client)| async move {
        let (mut latencies, mut lost) = (Vec::new(), 0);
        let mut number = 0;
        while latencies.is_empty() || began.elapsed() < options.round {
            // Whoever writes to as many tables as there are for it alone meets nobody.
            let name = table((writer + number * writers) % tables.max(1));
            let ask = commit(WAREHOUSE, &name, writer, number);
            let (first, mut is_done) = (Instant::now(), false);
            while !is_done {
                let told = client.ask(&ask).await?;
                match told.outcome {
                    Outcome::Done => is_done = true,
                    Outcome::Refused if matches!(told.status, Some(409 | 503)) => lost += 1,
                    Outcome::Refused | Outcome::Unknown => return Err(refused(&ask, &told)),
                }
                if !is_done && began.elapsed() >= options.round * GIVE_UP {
                    return Ok((latencies, lost));
                }
            }
            latencies.push(first.elapsed());
            number += 1;
        }
        Ok::<_, String>((latencies, lost))
    });
    let done = try_join_all(work).await?;
    let took = began.elapsed();
    let since = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
    let flushes = since(flushes(outside), before.0);
    let ticks = since(ticks(outside), before.1);
    let refused = done.iter().map(|(_, lost)| lost).sum();
    let mut latencies: Vec<_> = done.into_iter().flat_map(|(latencies, _)| latencies).collect();
    latencies.sort_unstable();
    Ok(Round { took, latencies, refused, flushes, ticks })
}

/// A commit that sets one property of the writer's own.
pub(super) fn commit(warehouse: &str, name: &str, writer: usize, number: usize) -> Ask {
    let properties = json!({ format!("writer-{writer}"): number.to_string() });
    let body = json!({
        "requirements": [],
        "updates": [{ "action": "set-properties", "updates": properties }],
    });
    let namespace = [NAMESPACE.to_owned()];
    at(warehouse).commit(Named { namespace: &namespace, name }, body)
}

/// Flushes of all drives so far; `None` where they cannot be read.
fn flushes(outside: &[Outside]) -> Option<u64> {
    outside.iter().map(|node| node.flushes().ok()).sum()
}

fn ticks(outside: &[Outside]) -> Option<u64> {
    outside.iter().map(Outside::ticks).sum()
}

fn row(
    backing: Backing,
    tables: usize,
    writers: usize,
    round: &Round,
    outside: &[Outside],
) -> String {
    let commits = round.latencies.len();
    let seconds = round.took.as_secs_f64().max(1e-9);
    let of_each = |number: f64| number / commits.max(1) as f64;
    let drives: usize = outside.iter().map(|node| node.devices.len()).sum();
    let or_unknown = |number: Option<f64>| match number {
        Some(number) => format!("{number:.2}"),
        None => "unreadable".to_owned(),
    };
    let flushes = round.flushes.map(|it| of_each(it as f64) / drives.max(1) as f64);
    let cores = round.ticks.map(|it| it as f64 / TICKS_PER_S / seconds);
    format!(
        "| {} | {tables} | {writers} | {:.1} | {:.1} | {:.1} | {:.2} | {} | {} |",
        backing.word(),
        commits as f64 / seconds,
        quantile(&round.latencies, 50).as_secs_f64() * 1e3,
        quantile(&round.latencies, 99).as_secs_f64() * 1e3,
        of_each(round.refused as f64),
        or_unknown(flushes),
        or_unknown(cores),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_tells_what_a_commit_took() {
        let round = Round {
            took: Duration::from_secs(2),
            latencies: [10, 20, 30, 40].map(Duration::from_millis).to_vec(),
            refused: 2,
            flushes: Some(48),
            ticks: None,
        };
        let devices = ["a", "b"].map(str::to_owned).to_vec();
        let outside = [Outside { pid: None, devices }];
        assert_eq!(
            row(Backing::Strong, 64, 8, &round, &outside),
            "| durable-strong | 64 | 8 | 2.0 | 30.0 | 40.0 | 0.50 | 6.00 | unreadable |"
        );
        let nothing = row(Backing::Object, 1, 1, &Round::default(), &outside);
        assert!(nothing.starts_with("| object | 1 | 1 | 0.0 | 0.0 | 0.0 |"), "{nothing}");
    }
}
