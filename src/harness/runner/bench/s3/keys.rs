//! Listings of more and more keys, and the deletion of some.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use futures::future::try_join_all;
use http::Method;

use super::Server;
use crate::harness::runner::bench::Tell;
use crate::harness::runner::bench::client::Lane;
use crate::harness::runner::bench::client::Want;
use crate::harness::runner::bench::millis;
use crate::sigv4;

/// Clients that write and delete at once.
const CLIENTS: usize = 32;
/// Keys that are deleted one by one.
const DELETED: u64 = 10_000;
/// Listings of which the median is told.
const LISTINGS: usize = 3;

/// Writes keys, lists them all at each of the counts that are asked for, and deletes some.
pub(super) async fn measure(counts: &[u64], server: &Server, tell: Tell<'_>) -> Result<(), String> {
    let name = &server.target.name;
    let lanes = (0..CLIENTS).map(|lane| Lane::open(&server.target, &server.bucket, lane));
    let mut lanes = try_join_all(lanes).await?;
    let (mut there, mut per_key) = (0, Vec::new());
    for &count in counts {
        let began = Instant::now();
        each(&mut lanes, Method::PUT, there, count).await?;
        let rate = (count - there) as f64 / began.elapsed().as_secs_f64().max(1e-9);
        there = count;
        let mut took = Vec::new();
        for _ in 0..LISTINGS {
            let began = Instant::now();
            let seen = list_all(&mut lanes[0]).await?;
            took.push(began.elapsed());
            if seen != count {
                return Err(format!("{name}: the listing has {seen} keys of {count}"));
            }
        }
        took.sort_unstable();
        let took = took[LISTINGS / 2];
        let us = 1e6 * took.as_secs_f64() / count as f64;
        per_key.push(us);
        tell(&format!(
            "list {count} keys, pages of 1,000, {name}: {} ({us:.1} µs a key; written at {rate:.0} /s)",
            millis(took)
        ));
    }
    if per_key.len() > 1 {
        let low = per_key.iter().copied().fold(f64::MAX, f64::min);
        let high = per_key.iter().copied().fold(0.0, f64::max);
        tell(&format!(
            "  the slowest time of a key to the fastest, {name}: {:.2}   aim ≤ 1.25",
            high / low.max(1e-12)
        ));
    }
    let deleted = DELETED.min(there);
    let began = Instant::now();
    each(&mut lanes, Method::DELETE, 0, deleted).await?;
    let took = began.elapsed();
    let rate = deleted as f64 / took.as_secs_f64().max(1e-9);
    tell(&format!(
        "delete {deleted} keys, {CLIENTS} clients, {name}: {} ({rate:.0} /s)",
        millis(took)
    ));
    Ok(())
}

/// Writes or deletes the keys from one number to another, shared among the lanes.
async fn each(lanes: &mut [Lane], method: Method, from: u64, to: u64) -> Result<(), String> {
    let next = AtomicU64::new(from);
    try_join_all(lanes.iter_mut().map(|lane| {
        let (next, method) = (&next, method.clone());
        async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= to {
                    return Ok::<_, String>(());
                }
                let contents = match method {
                    Method::PUT => Bytes::from_static(b"x"),
                    _ => Bytes::new(),
                };
                let key = format!("listed/{number:07}");
                lane.succeed(method.clone(), &key, "", contents, Want::Bytes).await?;
            }
        }
    }))
    .await?;
    Ok(())
}

/// How many keys the bucket lists.
async fn list_all(lane: &mut Lane) -> Result<u64, String> {
    let (mut seen, mut after) = (0, String::new());
    loop {
        let mut query = "list-type=2&max-keys=1000&prefix=listed%2F".to_owned();
        if !after.is_empty() {
            query.push_str(&format!("&start-after={}", sigv4::encode(&after, false)));
        }
        let answer = lane.succeed(Method::GET, "", &query, Bytes::new(), Want::Bytes).await?;
        let text = String::from_utf8_lossy(&answer.body);
        let keys = text.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
        let keys: Vec<&str> = keys.collect();
        seen += keys.len() as u64;
        if keys.windows(2).any(|pair| pair[0] >= pair[1])
            || keys.first().is_some_and(|first| *first <= after.as_str())
        {
            return Err(format!("the listing behind {after:?} is out of order"));
        }
        let Some(last) = keys.last().filter(|_| text.contains("<IsTruncated>true")) else {
            return Ok(seen);
        };
        after = (*last).to_owned();
    }
}
