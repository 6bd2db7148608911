//! What Prometheus sees of a node: counters that grow, gauges read from its status.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::time::Duration;

use crate::protocol::admin::DriveCondition;
use crate::protocol::admin::NodeStatus;

/// Upper bounds of the latency buckets, in seconds.
const BOUNDS_S: [f64; 8] = [0.005, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// Counters since the process started.
#[derive(Debug, Default)]
pub struct Metrics {
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    operations: BTreeMap<String, u64>,
    answers: BTreeMap<(&'static str, u16), u64>,
    durations: BTreeMap<&'static str, Durations>,
    in_flight: i64,
}

#[derive(Debug, Default)]
struct Durations {
    buckets: [u64; BOUNDS_S.len()],
    count: u64,
    sum_s: f64,
}

impl Metrics {
    /// An S3 operation was asked for.
    pub fn operation(&self, name: &str) {
        let mut counted = self.counted();
        match counted.operations.get_mut(name) {
            Some(count) => *count += 1,
            None => drop(counted.operations.insert(name.to_owned(), 1)),
        }
    }

    /// A request began.
    pub fn began(&self) {
        self.counted().in_flight += 1;
    }

    /// It was answered, or its connection ended (`None`).
    pub fn ended(&self, route: &'static str, status: Option<u16>, took: Duration) {
        let mut counted = self.counted();
        counted.in_flight -= 1;
        *counted.answers.entry((route, status.unwrap_or(0))).or_default() += 1;
        let durations = counted.durations.entry(route).or_default();
        let took_s = took.as_secs_f64();
        for (bucket, bound) in durations.buckets.iter_mut().zip(BOUNDS_S) {
            *bucket += u64::from(took_s <= bound);
        }
        durations.count += 1;
        durations.sum_s += took_s;
    }

    /// Requests that are being answered.
    pub fn in_flight(&self) -> i64 {
        self.counted().in_flight
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().expect("nothing panics while it counts")
    }

    /// Everything in the text format of Prometheus.
    pub fn render(&self, status: &NodeStatus) -> String {
        let mut text = Text::default();
        let counted = self.counted();
        text.family("firedrill_s3_operations_total", "counter", "S3 operations asked for.");
        for (name, count) in &counted.operations {
            text.sample("firedrill_s3_operations_total", &[("operation", name)], *count);
        }
        text.family(
            "firedrill_http_answers_total",
            "counter",
            "Answers by route and status; 0 is none.",
        );
        for ((route, status), count) in &counted.answers {
            let labels = [("route", *route), ("status", &status.to_string())];
            text.sample("firedrill_http_answers_total", &labels, *count);
        }
        let name = "firedrill_http_duration_seconds";
        text.family(name, "histogram", "From a request's head to its answer's head.");
        for (route, durations) in &counted.durations {
            for (count, bound) in durations.buckets.iter().zip(BOUNDS_S) {
                let labels = [("route", *route), ("le", &bound.to_string())];
                text.sample(&format!("{name}_bucket"), &labels, *count);
            }
            let labels = [("route", *route), ("le", "+Inf")];
            text.sample(&format!("{name}_bucket"), &labels, durations.count);
            text.sample(&format!("{name}_sum"), &[("route", route)], durations.sum_s);
            text.sample(&format!("{name}_count"), &[("route", route)], durations.count);
        }
        text.one(
            "firedrill_http_in_flight",
            "gauge",
            "Requests being answered.",
            counted.in_flight,
        );
        drop(counted);

        let conditions = [
            (DriveCondition::Online, "online"),
            (DriveCondition::Suspect, "suspect"),
            (DriveCondition::Absent, "absent"),
            (DriveCondition::Swapped, "swapped"),
            (DriveCondition::Blank, "blank"),
            (DriveCondition::Refused, "refused"),
            (DriveCondition::Unreachable, "unreachable"),
        ];
        text.family(
            "firedrill_drive_condition",
            "gauge",
            "1 for the condition that a drive is in.",
        );
        for drive in &status.drives {
            for (condition, name) in conditions {
                let labels = [("drive", drive.name.as_str()), ("condition", name)];
                let is = u8::from(drive.state == condition);
                text.sample("firedrill_drive_condition", &labels, is);
            }
        }
        text.family("firedrill_drive_queued", "gauge", "Requests that wait for a drive.");
        for drive in &status.drives {
            text.sample("firedrill_drive_queued", &[("drive", &drive.name)], drive.queued);
        }
        let heal = &status.heal;
        let healing = u8::from(heal.running);
        text.one("firedrill_heal_queued", "gauge", "Partial writes that wait.", heal.queued);
        text.one("firedrill_heal_running", "gauge", "Whether anything is being healed.", healing);
        let healed = heal.versions_healed;
        text.one("firedrill_heal_versions_total", "counter", "Versions healed.", healed);
        let set_aside = heal.versions_quarantined;
        text.one("firedrill_quarantined_total", "counter", "Versions set aside.", set_aside);
        let cycles = heal.scan.cycles_ended;
        text.one("firedrill_scan_cycles_total", "counter", "Scans that have ended.", cycles);
        let failed = heal.scan.failed;
        text.one("firedrill_scan_failed", "gauge", "Versions a scan could not heal.", failed);
        let unknown = status.writes_unknown;
        text.one(
            "firedrill_writes_unknown_total",
            "counter",
            "Writes answered as unknown.",
            unknown,
        );
        let undone = status.writes_undone;
        text.one("firedrill_writes_undone_total", "counter", "Writes taken back.", undone);
        let repaired = status.reads_repaired;
        text.one(
            "firedrill_reads_repaired_total",
            "counter",
            "Reads that met a bad shard.",
            repaired,
        );
        let of = &status.replacement;
        text.one("firedrill_replacement_open", "gauge", "Sets with an open replacement.", of.open);
        text.one(
            "firedrill_replacement_running",
            "gauge",
            "Generations with a live executor.",
            of.running,
        );
        let (alarms, writes) = (of.alarms.len(), of.writes);
        text.one("firedrill_replacement_alarms", "gauge", "What an operator has to know.", alarms);
        text.one("firedrill_replacement_writes_total", "counter", "Durable steps taken.", writes);
        let (proofs, refusals) = (of.proofs, of.refusals);
        text.one("firedrill_replacement_proofs_total", "counter", "Proofs written.", proofs);
        text.one("firedrill_replacement_refusals_total", "counter", "Attempts refused.", refusals);
        let granted = status.locks_granted;
        text.one("firedrill_locks_granted", "gauge", "Locks granted by this node.", granted);
        let held = status.locks_held;
        text.one("firedrill_locks_held", "gauge", "Locks that requests here hold or try.", held);
        let ready = u8::from(status.ready);
        text.one("firedrill_ready", "gauge", "Whether the node serves.", ready);
        text.family(
            "firedrill_planted_defect",
            "gauge",
            "1 for each defect planted by a rehearsal.",
        );
        for defect in &status.defects {
            let name = format!("{defect:?}");
            text.sample("firedrill_planted_defect", &[("defect", &name)], 1);
        }
        text.0
    }
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<_> = labels
            .iter()
            .map(|(name, value)| {
                let value = value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n");
                format!("{name}=\"{value}\"")
            })
            .collect();
        let labels = labels.join(",");
        if labels.is_empty() {
            self.line(format_args!("{name} {value}"));
        } else {
            self.line(format_args!("{name}{{{labels}}} {value}"));
        }
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a String takes everything");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::admin::DriveStatus;
    use crate::protocol::admin::HealStatus;
    use crate::protocol::admin::ReplacementStatus;
    use crate::protocol::control::Defect;

    #[test]
    fn counters_gauges_and_planted_defects_are_shown() {
        let metrics = Metrics::default();
        metrics.operation("PutObject");
        metrics.operation("PutObject");
        metrics.began();
        metrics.ended("s3", Some(200), Duration::from_millis(30));
        let drive = DriveStatus {
            name: "0/1".to_owned(),
            set: 0,
            slot: 1,
            state: DriveCondition::Suspect,
            reason: String::new(),
            queued: 3,
        };
        let status = NodeStatus {
            format: 1,
            node: 0,
            version: String::new(),
            uptime_ms: 0,
            ready: true,
            reason: String::new(),
            deployment: None,
            defects: vec![Defect::SkipsDirectorySync],
            drives: vec![drive],
            heal: HealStatus { queued: 7, ..HealStatus::default() },
            replacement: ReplacementStatus { open: 1, writes: 9, ..ReplacementStatus::default() },
            locks_granted: 0,
            locks_held: 2,
            writes_unknown: 0,
            writes_undone: 0,
            reads_repaired: 0,
        };
        let text = metrics.render(&status);
        for line in [
            "firedrill_s3_operations_total{operation=\"PutObject\"} 2",
            "firedrill_http_answers_total{route=\"s3\",status=\"200\"} 1",
            "firedrill_http_duration_seconds_bucket{route=\"s3\",le=\"0.02\"} 0",
            "firedrill_http_duration_seconds_bucket{route=\"s3\",le=\"0.05\"} 1",
            "firedrill_drive_condition{drive=\"0/1\",condition=\"suspect\"} 1",
            "firedrill_drive_condition{drive=\"0/1\",condition=\"online\"} 0",
            "firedrill_drive_queued{drive=\"0/1\"} 3",
            "firedrill_heal_queued 7",
            "firedrill_locks_held 2",
            "firedrill_replacement_open 1",
            "firedrill_replacement_writes_total 9",
            "firedrill_http_in_flight 0",
            "firedrill_planted_defect{defect=\"SkipsDirectorySync\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\nin\n{text}");
        }
    }
}
