//! How fast the history checker is: the figure's history, and the worst that one key can be.
//!
//! `cargo bench --bench history_checker`. Resident memory is what `/proc/self/status` calls `VmHWM`.

use std::collections::BTreeMap;
use std::time::Instant;

use firedrill::harness::check;
use firedrill::harness::check::Facts;
use firedrill::harness::check::Judgement;
use firedrill::harness::check::Witnesses;
use firedrill::harness::workload::history::Entry;
use firedrill::harness::workload::record::History;
use firedrill::harness::workload::spec::BucketKind;
use firedrill::harness::workload::synthetic;
use firedrill::harness::workload::synthetic::Shape;
use firedrill::value::Seed;

fn main() {
    let small = Shape { keys: 100, ..Shape::FIGURE };
    for (what, shape) in [("a tenth of the figure", small), ("the figure", Shape::FIGURE)] {
        let begun = Instant::now();
        let history = read(synthetic::history(shape, Seed(1)));
        let read_s = begun.elapsed().as_secs_f64();
        judge(what, &history, "reads_are_linearizable", read_s);
    }
    for (what, legal) in [("30 open writes on one key", true), ("the same, illegal", false)] {
        let history = read(synthetic::open_writes(30, legal));
        judge(what, &history, "reads_are_linearizable", 0.0);
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown");
    println!("{peak}");
}

fn read(entries: impl IntoIterator<Item = Entry>) -> History {
    History::of(entries).unwrap_or_else(|error| panic!("{error}"))
}

fn judge(what: &str, history: &History, invariant: &str, read_s: f64) {
    let buckets = BTreeMap::from([
        (synthetic::PLAIN.to_owned(), BucketKind::Unversioned),
        (synthetic::KEPT.to_owned(), BucketKind::Enabled),
    ]);
    let facts = Facts {
        nodes: 1,
        drives: (0..4).map(|slot| format!("0/{slot}")).collect(),
        set_drives: 4,
        parity: 2,
        survives_power_loss: true,
        buckets,
        principals: BTreeMap::new(),
    };
    let witnesses = Witnesses { facts: &facts, history, census: None };
    let begun = Instant::now();
    let judged = check::judge(&witnesses, &[invariant.to_owned()]);
    let took_s = begun.elapsed().as_secs_f64();
    let Some(Judgement { verdict, examined, findings, .. }) = judged.first() else { return };
    let operations = history.ops.len();
    println!(
        "{what}: {operations} operations read in {read_s:.1} s, judged in {took_s:.2} s: {verdict:?}, \
         {examined} reads, {} findings {}",
        findings.len(),
        findings.first().map_or("", |finding| &finding.message),
    );
}
