//! The timeline of a run as numbers that a template draws: phases, faults, client lanes, node lifelines,
//! replacements.
//!
//! Pure. What lies closer together than a reader can see becomes one mark, so that a drawing's size
//! depends on its width and its lanes, not on how many operations there were.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Serialize;

use super::assemble::end_us;
use super::case::CaseReport;
use super::graph;
use super::lineage::Generation;
use super::words;
use super::words::OpRow;
use crate::harness::workload::history::NodeState;
use crate::harness::workload::history::Outcome;
use crate::harness::workload::record::History;
use crate::harness::workload::record::NEVER;
use crate::harness::workload::record::Op;

mod catalog;

/// Width of the drawing.
const WIDTH: f64 = 960.0;
/// Height of the strip of phases.
const STRIP: f64 = 22.0;
/// Height of a fault's row.
const FAULT: f64 = 20.0;
/// Height of a lane.
const LANE: f64 = 18.0;
/// Space between groups of rows.
const GAP: f64 = 12.0;
/// More clients than this share lanes.
const LANES_MAX: usize = 16;
/// What is narrower would not be seen.
const MARK_MIN: f64 = 1.2;
/// Operations that have a mark of their own, with words.
const OWN_MARKS_MAX: usize = 400;
/// Cited operations that are pointed at.
const PINS_MAX: usize = 12;
/// Replacements that have a row.
const GENERATIONS_MAX: usize = 16;
/// Width of a letter of a label, about.
const LETTER: f64 = 6.1;

/// A drawing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Timeline {
    pub width: f64,
    pub height: f64,
    /// Where the rows that faults shade begin and end.
    pub shade_top: f64,
    pub shade_height: f64,
    /// What it shows, in words.
    pub description: String,
    pub phases: Vec<Block>,
    pub faults: Vec<Block>,
    pub clients: Vec<Lane>,
    pub nodes: Vec<Life>,
    /// Replacements, a row each.
    pub generations: Vec<Life>,
    pub pins: Vec<Pin>,
    pub ticks: Vec<Tick>,
    pub labels: Vec<Label>,
    /// Whether operations are merged into marks without words.
    pub is_merged: bool,
}

/// A labelled stretch of time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Block {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub label: String,
    /// Where the label stands.
    pub label_x: f64,
    /// `start` or `end`.
    pub anchor: &'static str,
    pub title: String,
}

/// What one client, or a few, asked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Lane {
    pub y: f64,
    pub marks: Vec<Mark>,
}

/// One path: every operation of one outcome, or one operation with its words.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Mark {
    pub class: &'static str,
    pub path: String,
    pub title: String,
}

/// The life of a node, or of a generation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Life {
    pub y: f64,
    pub stretches: Vec<Stretch>,
    /// Where a node's process ended, or a generation's proof was first seen.
    pub deaths: Vec<Death>,
}

/// A stretch of a node's life.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Stretch {
    pub x: f64,
    pub width: f64,
    pub class: &'static str,
    pub title: String,
}

/// The end of a process, or a proof.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Death {
    pub x: f64,
    pub title: String,
}

/// A cited operation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Pin {
    pub x: f64,
    pub y: f64,
    pub op: u64,
    pub label_x: f64,
    pub anchor: &'static str,
    pub title: String,
}

/// A moment on the axis.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Tick {
    pub x: f64,
    pub label: String,
    pub anchor: &'static str,
}

/// The name of a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Label {
    pub y: f64,
    pub text: String,
    pub class: &'static str,
}

/// The scale from microseconds to the drawing.
struct Scale {
    end_us: u64,
}

impl Scale {
    fn x(&self, at_us: u64) -> f64 {
        round(at_us.min(self.end_us) as f64 / self.end_us as f64 * WIDTH)
    }

    /// Left and width of a stretch, at least as wide as can be seen.
    fn stretch(&self, from_us: u64, to_us: u64, least: f64) -> (f64, f64) {
        let left = self.x(from_us).min(WIDTH - least);
        (round(left), round((self.x(to_us) - left).max(least)))
    }
}

/// Draws `history` of the case that `report` is about.
pub(super) fn draw(report: &CaseReport, history: &History, generations: &[Generation]) -> Timeline {
    let scale = Scale { end_us: end_us(history).max(1) };
    let mut labels = Vec::new();
    let mut y = 0.0;

    let phases = phases(report, &scale);
    labels.push(Label { y: y + 15.0, text: "phases".to_owned(), class: "group" });
    y += STRIP + GAP / 2.0;

    let (faults, rows) = faults(report, &scale, y);
    if rows > 0 {
        labels.push(Label { y: y + 14.0, text: "faults".to_owned(), class: "group" });
        y += rows as f64 * FAULT + GAP;
    }
    let shade_top = y - GAP / 2.0;

    let grouped = grouped(history);
    let is_merged = history.ops.len() + history.catalog.len() > OWN_MARKS_MAX;
    let mut clients = Vec::new();
    let mut lane_of = BTreeMap::new();
    for (name, members, ops) in grouped {
        labels.push(Label { y: y + 13.0, text: name, class: "row" });
        clients.push(Lane { y, marks: marks(&ops, &scale, y, is_merged) });
        lane_of.extend(members.into_iter().map(|client| (client, y)));
        y += LANE;
    }
    for (name, ops) in catalog::grouped(history) {
        labels.push(Label { y: y + 13.0, text: name, class: "row" });
        clients.push(Lane { y, marks: marks(&ops, &scale, y, is_merged) });
        y += LANE;
    }
    y += GAP;

    let mut nodes = Vec::new();
    for (node, mut life) in lives(report, history, &scale) {
        labels.push(Label { y: y + 13.0, text: format!("node {node}"), class: "row" });
        life.y = y;
        nodes.push(life);
        y += LANE;
    }
    let mut rebuilds = Vec::new();
    let told = generations.iter().filter(|generation| !generation.stretches.is_empty());
    for generation in told.take(GENERATIONS_MAX) {
        if rebuilds.is_empty() {
            y += GAP;
            labels.push(Label { y: y + 11.0, text: "replacements".to_owned(), class: "group" });
            y += LANE;
        }
        labels.push(Label { y: y + 13.0, text: graph::short(&generation.id), class: "row" });
        rebuilds.push(rebuild(generation, &scale, y));
        y += LANE;
    }
    y += GAP / 2.0;
    let shade_height = y - shade_top;

    Timeline {
        width: WIDTH,
        height: y + 22.0,
        shade_top,
        shade_height,
        description: description(report, &scale),
        phases,
        faults,
        clients,
        nodes,
        generations: rebuilds,
        pins: pins(report, history, &scale, &lane_of),
        ticks: ticks(&scale),
        labels,
        is_merged,
    }
}

/// The phases of a generation, and the look that first showed its proof.
fn rebuild(generation: &Generation, scale: &Scale, y: f64) -> Life {
    let name = graph::short(&generation.id);
    let stretches = generation.stretches.iter().map(|phase| {
        let (x, width) = scale.stretch(phase.from_us, phase.to_us, 2.0);
        let took = words::duration(phase.to_us.saturating_sub(phase.from_us));
        let from = words::moment(phase.from_us);
        let title = format!("{name}: {} for {took}, from {from}, as seen", phase.name);
        let class = match phase.name {
            "detect" => "detect",
            "hand off" => "handoff",
            "rebuild" => "rebuild",
            "verify" => "verify",
            _ => "cleanup",
        };
        Stretch { x, width, class, title }
    });
    let stretches = stretches.collect();
    let proof = generation.proof.as_ref().map(|proof| {
        let title = format!("{name}: its proof was seen at {}", words::moment(proof.seen.at_us));
        Death { x: scale.x(proof.seen.at_us), title }
    });
    Life { y, stretches, deaths: proof.into_iter().collect() }
}

fn round(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

fn description(report: &CaseReport, scale: &Scale) -> String {
    let all = report.operations.all();
    let many = |number: u64, noun: &str| {
        format!("{} {noun}{}", words::count(number), if number == 1 { "" } else { "s" })
    };
    format!(
        "{}: {} ({} acknowledged, {} refused, {} ambiguous) and {}; {}; {}",
        words::duration(scale.end_us),
        many(all.total(), "operation"),
        words::count(all.acknowledged),
        words::count(all.refused),
        words::count(all.ambiguous),
        many(report.operations.final_reads, "final read"),
        many(report.faults.len() as u64, "fault"),
        many(report.about.nodes as u64, "node")
    )
}

fn phases(report: &CaseReport, scale: &Scale) -> Vec<Block> {
    let block = |phase: &super::case::Phase| {
        let (x, width) = scale.stretch(phase.from_us, phase.to_us, 1.0);
        let took = words::duration(phase.to_us.saturating_sub(phase.from_us));
        let letters = ((width - 8.0) / LETTER) as usize;
        let name = phase.name.replace('_', " ");
        let label = if name.chars().count() <= letters { name.clone() } else { String::new() };
        let title = format!("{name}: {took}, from {}", words::moment(phase.from_us));
        Block { x, y: 0.0, width, label, label_x: x + 5.0, anchor: "start", title }
    };
    report.phases.iter().map(block).collect()
}

/// The faults, each in the first row where it and its label have room.
fn faults(report: &CaseReport, scale: &Scale, top: f64) -> (Vec<Block>, usize) {
    let mut free_from: Vec<f64> = Vec::new();
    let mut blocks = Vec::new();
    let mut struck: Vec<_> =
        report.faults.iter().filter_map(|fault| Some((fault, fault.injected.as_ref()?))).collect();
    struck.sort_by_key(|(_, injected)| injected.at_us);
    for (fault, injected) in struck {
        let end_us = fault.healed.as_ref().map_or(scale.end_us, |healed| healed.at_us);
        let (x, width) = scale.stretch(injected.at_us, end_us, 3.0);
        let at = fault.at.as_ref().map(|at| format!(" at {at}")).unwrap_or_default();
        let label = format!("{}{at}", fault.name);
        let needed = label.chars().count() as f64 * LETTER + 10.0;
        // Inside when it fits, else on its right, else on its left.
        let (label_x, anchor, from, to) = if width >= needed {
            (x + 6.0, "start", x, x + width)
        } else if x + width + needed <= WIDTH {
            (x + width + 5.0, "start", x, x + width + needed)
        } else {
            (x - 5.0, "end", x - needed, x + width)
        };
        let row = free_from.iter().position(|free| *free <= from).unwrap_or(free_from.len());
        if row == free_from.len() {
            free_from.push(0.0);
        }
        free_from[row] = to + 4.0;
        let healed = match &fault.healed {
            Some(healed) => format!("healed at {}", words::moment(healed.at_us)),
            None => "never healed".to_owned(),
        };
        let title = format!("{label}: injected at {}, {healed}", words::moment(injected.at_us));
        let y = top + row as f64 * FAULT;
        blocks.push(Block { x, y, width, label, label_x: round(label_x), anchor, title });
    }
    (blocks, free_from.len())
}

/// Operations by lane: a name, its clients, what they asked. Clients that take turns (those of one load
/// after those of another) share a lane; when there are still too many, neighbours do.
fn grouped(history: &History) -> Vec<(String, Vec<u32>, Vec<&Op>)> {
    let mut active: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for op in &history.ops {
        let to_us = if op.ended == NEVER { u64::MAX } else { op.ended_us };
        let span = active.entry(op.asked.client).or_insert((op.invoked_us, to_us));
        *span = (span.0.min(op.invoked_us), span.1.max(to_us));
    }
    let mut clients: Vec<(u32, (u64, u64))> = active.into_iter().collect();
    clients.sort_by_key(|(client, (from_us, _))| (*from_us, *client));
    let mut turns: Vec<(u64, Vec<u32>)> = Vec::new();
    for (client, (from_us, to_us)) in clients {
        match turns.iter_mut().find(|(busy_until_us, _)| *busy_until_us <= from_us) {
            Some((busy_until_us, members)) => {
                *busy_until_us = to_us;
                members.push(client);
            }
            None => turns.push((to_us, vec![client])),
        }
    }
    let per_lane = turns.len().div_ceil(LANES_MAX).max(1);
    turns
        .chunks(per_lane)
        .map(|lane| {
            let members: Vec<u32> =
                lane.iter().flat_map(|(_, members)| members.iter().copied()).collect();
            let name = match members.as_slice() {
                [client] => format!("client {client}"),
                [client, others @ ..] => format!("{client} and {} more", others.len()),
                [] => String::new(),
            };
            let ops = history.ops.iter().filter(|op| members.contains(&op.asked.client)).collect();
            (name, members, ops)
        })
        .collect()
}

/// Top, height and class of the marks of an outcome: shape tells it apart as well as colour.
fn shape(outcome: Outcome) -> (&'static str, f64, f64) {
    match outcome {
        Outcome::Acknowledged => ("acknowledged", 5.0, 8.0),
        Outcome::Refused => ("refused", 12.0, 4.0),
        Outcome::Ambiguous => ("ambiguous", 2.0, 14.0),
    }
}

/// One request as it is drawn.
trait Asked {
    fn outcome(&self) -> Outcome;
    fn invoked_us(&self) -> u64;
    /// `None` when it never ended.
    fn ended_us(&self) -> Option<u64>;
    fn sentence(&self) -> String;
}

impl Asked for Op {
    fn outcome(&self) -> Outcome {
        self.outcome()
    }

    fn invoked_us(&self) -> u64 {
        self.invoked_us
    }

    fn ended_us(&self) -> Option<u64> {
        (self.ended != NEVER).then_some(self.ended_us)
    }

    fn sentence(&self) -> String {
        OpRow::of(self).sentence()
    }
}

fn marks<A: Asked>(ops: &[&A], scale: &Scale, y: f64, is_merged: bool) -> Vec<Mark> {
    let mut marks = Vec::new();
    for outcome in [Outcome::Acknowledged, Outcome::Refused, Outcome::Ambiguous] {
        let (class, top, height) = shape(outcome);
        let of_it = ops.iter().filter(|op| op.outcome() == outcome);
        let stretch = |op: &A| {
            let end_us = op.ended_us().unwrap_or(scale.end_us);
            scale.stretch(op.invoked_us(), end_us, MARK_MIN)
        };
        if !is_merged {
            marks.extend(of_it.map(|op| {
                let (x, width) = stretch(op);
                let mut path = String::new();
                rectangle(&mut path, x, y + top, width, height);
                Mark { class, path, title: op.sentence() }
            }));
            continue;
        }
        let mut stretches: Vec<(f64, f64)> = of_it.map(|op| stretch(op)).collect();
        if stretches.is_empty() {
            continue;
        }
        let count = stretches.len() as u64;
        stretches.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut path = String::new();
        let mut current: Option<(f64, f64)> = None;
        for (x, width) in stretches {
            let end = x + width;
            current = match current {
                // A gap that is narrower than a mark would not be seen.
                Some((from, to)) if x - to < MARK_MIN => Some((from, to.max(end))),
                Some((from, to)) => {
                    rectangle(&mut path, from, y + top, to - from, height);
                    Some((x, end))
                }
                None => Some((x, end)),
            };
        }
        if let Some((from, to)) = current {
            rectangle(&mut path, from, y + top, to - from, height);
        }
        marks.push(Mark { class, path, title: format!("{} {class}", words::count(count)) });
    }
    marks
}

fn rectangle(path: &mut String, x: f64, y: f64, width: f64, height: f64) {
    let (x, width) = (round(x), round(width));
    // Writing to a string cannot fail.
    let _ = write!(path, "M{x} {y}h{width}v{height}h-{width}z");
}

/// The lives of all nodes, those that nothing is heard of included.
fn lives(report: &CaseReport, history: &History, scale: &Scale) -> BTreeMap<usize, Life> {
    let empty = || Life { y: 0.0, stretches: Vec::new(), deaths: Vec::new() };
    let mut lives: BTreeMap<usize, Life> =
        (0..report.about.nodes).map(|node| (node, empty())).collect();
    let mut current: BTreeMap<usize, (u64, &'static str)> = BTreeMap::new();
    let close = |lives: &mut BTreeMap<usize, Life>, node, since: (u64, &'static str), to_us| {
        let (x, width) = scale.stretch(since.0, to_us, 1.0);
        let took = words::duration(to_us.saturating_sub(since.0));
        let title = format!("node {node} {} for {took}", since.1);
        let life: &mut Life = lives.entry(node).or_insert_with(empty);
        life.stretches.push(Stretch { x, width, class: since.1, title });
    };
    for event in &history.nodes {
        let (node, state) = event.what;
        if let Some(since) = current.remove(&node) {
            close(&mut lives, node, since, event.at_us);
        }
        let class = match state {
            NodeState::Started => "starting",
            NodeState::Ready | NodeState::Resumed => "ready",
            NodeState::Paused => "paused",
            NodeState::Dead => {
                let x = scale.x(event.at_us);
                let title = format!("node {node} dead at {}", words::moment(event.at_us));
                let life = lives.entry(node).or_insert_with(empty);
                life.deaths.push(Death { x, title });
                continue;
            }
        };
        current.insert(node, (event.at_us, class));
    }
    for (node, since) in current {
        close(&mut lives, node, since, scale.end_us);
    }
    lives
}

/// Pointers at the operations that findings cite.
fn pins(
    report: &CaseReport,
    history: &History,
    scale: &Scale,
    lane_of: &BTreeMap<u32, f64>,
) -> Vec<Pin> {
    let findings = report.judgements.iter().flat_map(|judged| &judged.findings);
    let cited: BTreeSet<u64> =
        findings.flat_map(|finding| finding.operations.iter().copied()).collect();
    let ops = cited.into_iter().filter_map(|op| history.op(op)).take(PINS_MAX);
    let pin = |op: &Op| {
        let x = scale.x(op.invoked_us);
        let is_right = x > WIDTH - 40.0;
        Some(Pin {
            x,
            y: *lane_of.get(&op.asked.client)?,
            op: op.id(),
            label_x: if is_right { x - 6.0 } else { x + 6.0 },
            anchor: if is_right { "end" } else { "start" },
            title: OpRow::of(op).sentence(),
        })
    };
    ops.filter_map(pin).collect()
}

/// At most about ten round moments.
fn ticks(scale: &Scale) -> Vec<Tick> {
    let steps_us = (0..9).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_u64.pow(power)));
    let step_us = steps_us.into_iter().find(|step| scale.end_us / step <= 10);
    let step_us = step_us.unwrap_or(scale.end_us / 10 + 1);
    let moments = (0..).map(|place| place * step_us).take_while(|at_us| *at_us <= scale.end_us);
    moments
        .map(|at_us| {
            let x = scale.x(at_us);
            let label = if step_us >= 1_000_000 {
                format!("{} s", at_us / 1_000_000)
            } else if scale.end_us >= 1_000_000 {
                format!("{:.1} s", at_us as f64 / 1e6)
            } else {
                words::duration(at_us)
            };
            let anchor = if x < 12.0 {
                "start"
            } else if x > WIDTH - 16.0 {
                "end"
            } else {
                "middle"
            };
            Tick { x, label, anchor }
        })
        .collect()
}
