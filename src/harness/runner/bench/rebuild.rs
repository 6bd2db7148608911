//! How fast a replaced drive is rebuilt, alone and beside clients.
//!
//! The moments are those at which the node says that it took a durable step; what was rebuilt is counted by the
//! census, and what clients had to wait by the history.

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::Value;

use super::Figure;
use super::Rehearsed;
use super::millis;
use super::rehearse;
use crate::disk::format::erasure::Erasure;
use crate::disk::format::frame;
use crate::harness::workload::history::FaultPhase;
use crate::harness::workload::record::NEVER;
use crate::harness::workload::record::Op;
use crate::protocol::replacement::step::Step;

/// A run that is made for its figures.
struct Run {
    name: &'static str,
    testbed: &'static str,
    workload: &'static str,
    /// What happens before everything settles.
    steps: &'static [&'static str],
}

/// Small versions, one drive of six replaced while nobody asks for anything.
const SMALL: Run = Run {
    name: "rebuild-small",
    testbed: "{ nodes: 1, drives: 6, parity: 2, node_limits: { rebuild_pace: full } }",
    workload: "{ buckets: { kept: enabled }, clients: 8, \
               keys: 500, sizes: inline, mix: { put: 1 }, bytes_max: 16777216 }",
    steps: &["load: { operations: 2000 }", "inject: { replace_drive: { node: 0, drives: [1] } }"],
};

/// The same beside clients, as it is without being told.
const BESIDE: Run = Run {
    name: "rebuild-beside-clients",
    testbed: "{ nodes: 1, drives: 6, parity: 2, node_limits: { rebuild_pace: background } }",
    workload: "{ buckets: { kept: enabled }, clients: 2, \
               keys: 500, sizes: inline, mix: { put: 1, read: 1 }, bytes_max: 16777216 }",
    steps: &[
        "load: { operations: 3000 }",
        "inject: { replace_drive: { node: 0, drives: [1] } }",
        "load: { operations: 1000 }",
    ],
};

/// Twelve drives on three nodes.
const WIDE: Run = Run {
    name: "rebuild-wide",
    testbed: "{ nodes: 3, drives: 4, parity: 4, node_limits: { rebuild_pace: full, replacement_page: 50 } }",
    workload: SMALL.workload,
    steps: &["load: { operations: 2000 }", "inject: { replace_drive: { node: 1, drives: [1] } }"],
};

/// Objects of many blocks.
const LARGE: Run = Run {
    name: "rebuild-large",
    testbed: "{ nodes: 1, drives: 6, parity: 2, drive_mib: 256, node_limits: { rebuild_pace: full } }",
    workload: "{ buckets: { plain: unversioned }, clients: 2, \
               keys: 24, sizes: { bytes: 33554432 }, mix: { put: 1 }, bytes_max: 805306368 }",
    steps: &["load: { operations: 24 }", "inject: { replace_drive: { node: 0, drives: [1] } }"],
};

/// Two targets whose mounts change in mid-rebuild.
const HANDOFF: Run = Run {
    name: "handoff",
    testbed: "{ nodes: 1, drives: 6, parity: 2, node_limits: { replacement_page: 20 } }",
    workload: "{ buckets: { kept: enabled }, clients: 4, \
               keys: 200, sizes: inline, mix: { put: 1 }, bytes_max: 16777216 }",
    steps: &[
        "load: { operations: 400 }",
        "inject: { replace_drive: { node: 0, drives: [1, 4] } }",
        "inject: { vm_restart: { node: 0, mounts: changed, at: replacement.page.cursor_saved } }",
    ],
};

impl Run {
    async fn rehearse(&self, directory: &Path, program: &Path) -> Result<Rehearsed, String> {
        rehearse(&self.file(), &self.text(), directory, program.to_owned()).await
    }

    fn file(&self) -> String {
        format!("{}.yaml", self.name)
    }

    /// The scenario: every run ends whole and proved.
    fn text(&self) -> String {
        let Self { name, testbed, workload, steps } = self;
        let steps: String = steps.iter().map(|step| format!("- {step}\n")).collect();
        format!(
            "format: 1\nscenario: {name}\nclaim: A replaced drive is rebuilt.\nsuite: quick\n\
             testbed: {testbed}\nworkload: {workload}\n\
             steps:\n{steps}- settle: {{ within_s: 240 }}\n- check: {{}}\n\
             expect:\n  holds: [one_successor, every_version_is_full, proof_is_true]\n  \
             provokes: {{ faults_injected: 1 }}\n\
             limits: {{ wall_s: 600 }}\n"
        )
    }
}

/// Measures all of it.
///
/// # Errors
/// What could not be measured, in words.
pub(super) async fn measure(directory: &Path, program: PathBuf) -> Result<Vec<Figure>, String> {
    let full = SMALL.rehearse(directory, &program).await?;
    let (full, full_rate) = rate("1×6, full pace, nobody else", "≥ 500 versions/s", &full, 0)?;
    let beside = BESIDE.rehearse(directory, &program).await?;
    let (background, rate_beside) = rate("1×6, background, beside 2 clients", "", &beside, 0)?;
    let share = Figure {
        name: "  of the full pace".to_owned(),
        value: format!("{:.0} %", 100.0 * rate_beside / full_rate),
        aim: "≥ 20 %",
    };
    let waits = waits(&beside)?;
    let wide = WIDE.rehearse(directory, &program).await?;
    let (wide_rate, _) = rate("3×4, full pace, nobody else", "≥ 300 versions/s", &wide, 1)?;
    let writes = writes_per_page(&wide)?;
    let large = LARGE.rehearse(directory, &program).await?;
    let large = of_large(&large, directory)?;
    let handoff = HANDOFF.rehearse(directory, &program).await?;
    let handoff = handoff_after_start(&handoff)?;
    let mut figures = vec![full, background, share, waits, wide_rate, writes];
    figures.extend(large);
    figures.push(handoff);
    Ok(figures)
}

/// Protocol writes of a page, of fifty objects and some 200 outcomes each.
fn writes_per_page(rehearsed: &Rehearsed) -> Result<Figure, String> {
    let steps = steps_of(rehearsed, 1)?;
    let count = |name: &str| steps.iter().filter(|step| step.name == name).count();
    let paged = [Step::OutcomesSaved, Step::PositionSaved, Step::CursorSaved, Step::LedgerPruned];
    let writes: usize = paged.iter().map(|step| count(step.name())).sum();
    let pages = count(Step::CursorSaved.name());
    if pages == 0 {
        return Err("the rebuild had no pages".to_owned());
    }
    Ok(Figure {
        name: format!("  protocol writes a page, {pages} pages"),
        value: format!("{:.1}", writes as f64 / pages as f64),
        aim: "≤ 4, and one per 1,000 outcomes",
    })
}

/// From the moment that a node listens again until the successor has everything.
fn handoff_after_start(rehearsed: &Rehearsed) -> Result<Figure, String> {
    let steps = steps_of(rehearsed, 0)?;
    let committed = steps.iter().find(|step| step.name == Step::HandoffCommitted.name());
    let committed = committed.ok_or("nothing was handed off")?.at;
    let mut listens = steps.iter().filter(|step| step.name == LISTENS && step.at < committed);
    let listens = listens.next_back().ok_or("the node never listened")?.at;
    let took = Duration::try_from(committed.duration_since(listens));
    Ok(Figure {
        name: "handoff of two targets, from the moment that the node listens".to_owned(),
        value: millis(took.map_err(|error| error.to_string())?),
        aim: "≤ 1 s after it is ready",
    })
}

/// Bytes of contents a second, the check of every byte before the proof included, beside what one core could do at
/// most without that check: each stripe read and verified from D drives, the lost shard made, written and flushed.
fn of_large(rehearsed: &Rehearsed, directory: &Path) -> Result<Vec<Figure>, String> {
    let took = rebuilt_in(rehearsed, 0)?.as_secs_f64().max(1e-6);
    let census = rehearsed.census.as_ref().ok_or("the run took no census")?;
    let versions = census.keys.iter().flat_map(|key| &key.versions);
    let bytes: u64 = versions.map(|version| version.size).sum();
    let rate = bytes as f64 / took;
    let parts = parts_of_a_rebuild(directory).map_err(|error| error.to_string())?;
    let seconds_per_byte: f64 = parts.iter().map(|(_, rate)| 1.0 / rate).sum();
    let mb = |rate: f64| format!("{:.0} MB/s", rate / 1e6);
    let words: Vec<_> = parts.iter().map(|(name, rate)| format!("{name} {}", mb(*rate))).collect();
    Ok(vec![
        Figure {
            name: format!("rebuild {} MB of 32 MiB objects, 1×6", bytes / 1_000_000),
            value: mb(rate),
            aim: "",
        },
        Figure {
            name: format!("  of 1/Σ(1/part) on one core: {}", words.join(", ")),
            value: format!("{:.0} %", 100.0 * rate * seconds_per_byte),
            aim: "≥ 60 %",
        },
    ])
}

/// The parts of rebuilding one of four data shards beside two of parity, in bytes of contents a second.
fn parts_of_a_rebuild(directory: &Path) -> std::io::Result<Vec<(&'static str, f64)>> {
    const BLOCKS: usize = 64;
    let erasure = Erasure::new(4, 2).expect("a sound geometry");
    let block: Vec<u8> = (0..frame::BLOCK_BYTES).map(|at| (at * 31 % 251) as u8).collect();
    let shards = erasure.encode_block(&block);
    let bytes = (BLOCKS * block.len()) as f64;
    let rate = |began: Instant| bytes / began.elapsed().as_secs_f64().max(1e-9);
    let mut framed = Vec::new();
    frame::encode(&shards[0], &mut framed);
    let (source, target) = (directory.join("parts.source"), directory.join("parts.target"));
    std::fs::write(&source, framed.repeat(BLOCKS * 4))?;
    std::fs::File::open(&source)?.sync_all()?;

    let began = Instant::now();
    let read = std::fs::read(&source)?;
    assert!(read.chunks(framed.len()).all(|it| frame::verify(it).is_some()), "shards are sound");
    let reading = rate(began);
    let began = Instant::now();
    for _ in 0..BLOCKS {
        let mut some: Vec<_> = shards.iter().cloned().map(Some).collect();
        (some[0], some[5]) = (None, None);
        erasure.reconstruct_data(&mut some).expect("four of six are enough");
        assert!(some[0].as_ref() == Some(&shards[0]), "the shard came back");
    }
    let decoding = rate(began);
    let began = Instant::now();
    let mut lost = Vec::new();
    (0..BLOCKS).for_each(|_| frame::encode(&shards[0], &mut lost));
    std::fs::write(&target, &lost)?;
    std::fs::File::open(&target)?.sync_all()?;
    let writing = rate(began);
    Ok(vec![("read", reading), ("decode", decoding), ("write", writing)])
}

/// Versions a second from the first marker to the proof, the check of every byte included.
fn rate(
    what: &str,
    aim: &'static str,
    rehearsed: &Rehearsed,
    node: usize,
) -> Result<(Figure, f64), String> {
    let took = rebuilt_in(rehearsed, node)?;
    let census = rehearsed.census.as_ref().ok_or("the run took no census")?;
    let versions: usize = census.keys.iter().map(|key| key.versions.len()).sum();
    let rate = versions as f64 / took.as_secs_f64().max(1e-6);
    let name = format!("rebuild {versions} small versions, {what}");
    Ok((Figure { name, value: format!("{rate:.0} versions/s"), aim }, rate))
}

/// From the first marker to the proof.
fn rebuilt_in(rehearsed: &Rehearsed, node: usize) -> Result<Duration, String> {
    let steps = steps_of(rehearsed, node)?;
    let moment = |step: Step| {
        let found = steps.iter().find(|told| told.name == step.name());
        found.map(|told| told.at).ok_or_else(|| format!("the node never passed {}", step.name()))
    };
    let took = moment(Step::ProofWritten)?.duration_since(moment(Step::RebuildingEntered)?);
    Duration::try_from(took).map_err(|error| error.to_string())
}

/// What the log tells of when a node listens.
const LISTENS: &str = "listening";

/// A moment of a node's log: a durable step, or that it listens.
struct Told {
    name: String,
    at: Timestamp,
}

fn steps_of(rehearsed: &Rehearsed, node: usize) -> Result<Vec<Told>, String> {
    let log = rehearsed.case.path(&format!("nodes/{node}.log"));
    let log = std::fs::read_to_string(&log).map_err(|error| format!("the node's log: {error}"))?;
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let told = lines.filter_map(|line| {
        let at: Timestamp = line["timestamp"].as_str()?.parse().ok()?;
        let fields = &line["fields"];
        let is_start = fields["message"] == LISTENS;
        let name = if is_start { LISTENS } else { fields["step"].as_str()? }.to_owned();
        Some(Told { name, at })
    });
    Ok(told.collect())
}

/// How long one request in a hundred waited during the rebuild, beside how long before.
fn waits(rehearsed: &Rehearsed) -> Result<Figure, String> {
    let history = &rehearsed.history;
    let injected = history.faults.iter().find(|event| event.what.phase == FaultPhase::Injected);
    let from_us = injected.ok_or("no drive was replaced")?.at_us;
    let to_us = from_us + rebuilt_in(rehearsed, 0)?.as_micros() as u64;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::scenario::parse;

    #[test]
    fn every_run_makes_sense() {
        for run in [SMALL, BESIDE, WIDE, LARGE, HANDOFF] {
            let parsed = parse::parse(&run.file(), "bench", &run.text());
            let parsed = parsed.unwrap_or_else(|errors| panic!("{}: {errors:?}", run.name));
            assert_eq!(parsed.cases.len(), 1);
        }
    }
}
