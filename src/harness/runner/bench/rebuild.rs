//! How fast a replaced drive is rebuilt, alone and beside clients.
//!
//! The moments are those at which the node says that it took a durable step; what was rebuilt is counted by the
//! census, and what clients had to wait by the history.

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::Figure;
use super::Rehearsed;
use super::millis;
use super::rehearse;
use crate::harness::workload::history::FaultPhase;
use crate::harness::workload::record::NEVER;
use crate::harness::workload::record::Op;
use crate::protocol::replacement::step::Step;

/// Small versions, one drive of six replaced while nobody asks for anything.
const SMALL: &str = "\
format: 1
scenario: rebuild-small
claim: A replaced drive is rebuilt.
suite: quick
testbed: { nodes: 1, drives: 6, parity: 2, node_limits: { rebuild_pace: full } }
workload:
  buckets: { kept: enabled }
  clients: 8
  keys: 500
  sizes: inline
  mix: { put: 1 }
  bytes_max: 16777216
steps:
  - load: { operations: 2000 }
  - inject: { replace_drive: { node: 0, drives: [1] } }
  - settle: { within_s: 120 }
  - check: {}
expect:
  holds: [every_version_is_full, proof_is_true]
  provokes: { faults_injected: 1 }
limits: { wall_s: 600 }
";

/// The same beside clients, as it is without being told.
const BESIDE: &str = "\
format: 1
scenario: rebuild-beside-clients
claim: A replaced drive is rebuilt beside clients.
suite: quick
testbed: { nodes: 1, drives: 6, parity: 2, node_limits: { rebuild_pace: background } }
workload:
  buckets: { kept: enabled }
  clients: 2
  keys: 500
  sizes: inline
  mix: { put: 1, read: 1 }
  bytes_max: 16777216
steps:
  - load: { operations: 3000 }
  - inject: { replace_drive: { node: 0, drives: [1] } }
  - load: { operations: 1000 }
  - settle: { within_s: 240 }
  - check: {}
expect:
  holds: [every_version_is_full, proof_is_true]
  provokes: { faults_injected: 1 }
limits: { wall_s: 600 }
";

/// Measures both.
///
/// # Errors
/// What could not be measured, in words.
pub(super) async fn measure(directory: &Path, program: PathBuf) -> Result<Vec<Figure>, String> {
    let full = rehearse("rebuild.yaml", SMALL, directory, program.clone()).await?;
    let (full, full_rate) = rate("full pace, nobody else", "≥ 500 versions/s", &full)?;
    let beside = rehearse("beside.yaml", BESIDE, directory, program).await?;
    let (background, rate) = rate("background, beside 2 clients", "", &beside)?;
    let share = Figure {
        name: "  of the full pace".to_owned(),
        value: format!("{:.0} %", 100.0 * rate / full_rate),
        aim: "≥ 20 %",
    };
    Ok(vec![full, background, share, waits(&beside)?])
}

/// Versions a second from the first marker to the proof, the check of every byte included.
fn rate(what: &str, aim: &'static str, rehearsed: &Rehearsed) -> Result<(Figure, f64), String> {
    let took = rebuilt_in(rehearsed)?;
    let census = rehearsed.census.as_ref().ok_or("the run took no census")?;
    let versions: usize = census.keys.iter().map(|key| key.versions.len()).sum();
    let rate = versions as f64 / took.as_secs_f64().max(1e-6);
    let name = format!("rebuild {versions} small versions, 1×6, {what}");
    Ok((Figure { name, value: format!("{rate:.0} versions/s"), aim }, rate))
}

fn rebuilt_in(rehearsed: &Rehearsed) -> Result<Duration, String> {
    let log = rehearsed.case.path("nodes/0.log");
    let log = std::fs::read_to_string(&log).map_err(|error| format!("the node's log: {error}"))?;
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let steps = lines.filter_map(|line| {
        let at: Timestamp = line["timestamp"].as_str()?.parse().ok()?;
        Some((line["fields"]["step"].as_str()?.to_owned(), at))
    });
    let steps: Vec<_> = steps.collect();
    let moment = |step: Step| {
        let found = steps.iter().find(|(name, _)| name == step.name());
        found.map(|(_, at)| *at).ok_or_else(|| format!("the node never passed {}", step.name()))
    };
    let took = moment(Step::ProofWritten)?.duration_since(moment(Step::RebuildingEntered)?);
    Duration::try_from(took).map_err(|error| error.to_string())
}

/// How long one request in a hundred waited during the rebuild, beside how long before.
fn waits(rehearsed: &Rehearsed) -> Result<Figure, String> {
    let history = &rehearsed.history;
    let injected = history.faults.iter().find(|event| event.what.phase == FaultPhase::Injected);
    let from_us = injected.ok_or("no drive was replaced")?.at_us;
    let to_us = from_us + rebuilt_in(rehearsed)?.as_micros() as u64;
    let ended = || history.ops.iter().filter(|op| !op.is_final && op.ended != NEVER);
    let idle = slowest_hundredth(ended().filter(|op| op.ended_us < from_us));
    let busy = slowest_hundredth(ended().filter(|op| (from_us..to_us).contains(&op.invoked_us)));
    let (idle, busy) = idle.zip(busy).ok_or("clients asked for nothing during the rebuild")?;
    Ok(Figure {
        name: "  p99 of clients meanwhile, beside idle".to_owned(),
        value: format!(
            "{} / {} = {:.1}",
            millis(busy),
            millis(idle),
            busy.as_secs_f64() / idle.as_secs_f64().max(1e-6)
        ),
        aim: "≤ 3",
    })
}

fn slowest_hundredth<'a>(ops: impl Iterator<Item = &'a Op>) -> Option<Duration> {
    let mut took: Vec<_> = ops.map(|op| op.ended_us.saturating_sub(op.invoked_us)).collect();
    took.sort_unstable();
    let at = took.len() * 99 / 100;
    took.get(at).map(|us| Duration::from_micros(*us))
}
