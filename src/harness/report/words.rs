//! Numbers and operations in words, the same in every kind of report. Pure.

use serde::Serialize;

use crate::harness::workload::history::Action;
use crate::harness::workload::history::Condition;
use crate::harness::workload::history::Outcome;
use crate::harness::workload::history::Seen;
use crate::harness::workload::record::NEVER;
use crate::harness::workload::record::Op;

/// A stretch of time, with three digits or so.
pub(super) fn duration(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000 => format!("{:.1} ms", us as f64 / 1e3),
        10_000..1_000_000 => format!("{:.0} ms", us as f64 / 1e3),
        1_000_000..60_000_000 => format!("{:.2} s", us as f64 / 1e6),
        _ => {
            let seconds = us / 1_000_000;
            format!("{} min {:02} s", seconds / 60, seconds % 60)
        }
    }
}

/// A moment of a run, in seconds since it began.
pub(super) fn moment(us: u64) -> String {
    format!("{:.3} s", us as f64 / 1e6)
}

/// A count, with a thin space between thousands.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut spaced = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            spaced.push('\u{202f}');
        }
        spaced.push(digit);
    }
    spaced
}

/// A number of bytes.
pub(super) fn bytes(number: u64) -> String {
    match number {
        0..10_240 => format!("{} B", count(number)),
        10_240..1_048_576 => format!("{:.1} KiB", number as f64 / 1024.0),
        _ => format!("{:.1} MiB", number as f64 / 1_048_576.0),
    }
}

/// How a request ended, in a word.
pub(super) fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Acknowledged => "acknowledged",
        Outcome::Refused => "refused",
        Outcome::Ambiguous => "ambiguous",
    }
}

/// What is asked, as one verb.
pub(super) fn verb(action: &Action) -> &'static str {
    match action {
        Action::CreateBucket => "create bucket",
        Action::DeleteBucket => "delete bucket",
        Action::SetVersioning { enabled: true } => "enable versioning",
        Action::SetVersioning { enabled: false } => "suspend versioning",
        Action::Put { .. } => "put",
        Action::Copy { .. } => "copy",
        Action::CreateUpload => "create upload",
        Action::PutPart { .. } => "put part",
        Action::CompleteUpload { .. } => "complete upload",
        Action::AbortUpload { .. } => "abort upload",
        Action::Delete { version: None } => "delete",
        Action::Delete { version: Some(_) } => "delete version",
        Action::Get { .. } => "get",
        Action::Head { .. } => "head",
        Action::List { .. } => "list",
        Action::ListVersions { .. } => "list versions",
    }
}

/// An operation as a row of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct OpRow {
    pub op: u64,
    pub client: u32,
    pub node: usize,
    pub verb: &'static str,
    pub target: String,
    pub detail: String,
    pub outcome: &'static str,
    pub answer: String,
    pub began: String,
    pub ended: String,
    pub took: String,
    pub line: u64,
}

impl OpRow {
    /// The row of `op`.
    pub(super) fn of(op: &Op) -> Self {
        let target = &op.asked.target;
        let has_ended = op.ended != NEVER;
        let seq = if has_ended { op.ended } else { op.invoked };
        Self {
            op: op.id(),
            client: op.asked.client,
            node: op.asked.node,
            verb: verb(&op.asked.action),
            target: if target.key.is_empty() { target.bucket.clone() } else { target.to_string() },
            detail: detail(&op.asked.action),
            outcome: outcome(op.outcome()),
            answer: answer(op),
            began: moment(op.invoked_us),
            ended: if has_ended { moment(op.ended_us) } else { "never".to_owned() },
            took: if has_ended {
                duration(op.ended_us.saturating_sub(op.invoked_us))
            } else {
                String::new()
            },
            line: seq + 1,
        }
    }

    /// The row as a sentence.
    pub(super) fn sentence(&self) -> String {
        let detail =
            if self.detail.is_empty() { String::new() } else { format!(" ({})", self.detail) };
        let answer =
            if self.answer.is_empty() { String::new() } else { format!(", {}", self.answer) };
        format!(
            "operation {}: client {} asks node {} at {} to {} {}{detail}: {}{answer} (history.jsonl:{})",
            self.op,
            self.client,
            self.node,
            self.began,
            self.verb,
            self.target,
            self.outcome,
            self.line
        )
    }
}

/// What an action carries, in words.
fn detail(action: &Action) -> String {
    let mut parts = Vec::new();
    match action {
        Action::Put { digest, size, condition, .. } => {
            parts.push(bytes(*size));
            parts.push(format!("sha256 {}…", short(&digest.to_string())));
            parts.extend(condition_words(condition));
        }
        Action::Copy { source, version, size, .. } => {
            parts.push(bytes(*size));
            parts.push(format!("from {source}"));
            parts.extend(version.map(|version| format!("version {version}")));
        }
        Action::PutPart { part, size, .. } => {
            parts.push(format!("part {part}"));
            parts.push(bytes(*size));
        }
        Action::CompleteUpload { parts: listed, digest, size, condition, .. } => {
            parts.push(format!("{} parts", listed.len()));
            parts.push(bytes(*size));
            parts.push(format!("sha256 {}…", short(&digest.to_string())));
            parts.extend(condition_words(condition));
        }
        Action::Delete { version } | Action::Head { version } => {
            parts.extend(version.map(|version| format!("version {version}")));
        }
        Action::Get { version, range } => {
            parts.extend(version.map(|version| format!("version {version}")));
            parts.extend(range.map(|(first, last)| format!("bytes {first} to {last}")));
        }
        Action::List { prefix } | Action::ListVersions { prefix } if !prefix.is_empty() => {
            parts.push(format!("prefix {prefix}"));
        }
        _ => {}
    }
    parts.join(", ")
}

fn condition_words(condition: &Condition) -> Option<String> {
    match condition {
        Condition::Always => None,
        Condition::IfAbsent => Some("only if absent".to_owned()),
        Condition::IfMatch(etag) => Some(format!("only if its ETag is {etag}")),
    }
}

/// What came back, in words.
fn answer(op: &Op) -> String {
    let Some(ending) = &op.answer else {
        return "no answer is on record".to_owned();
    };
    let mut parts = Vec::new();
    if !ending.reason.is_empty() {
        parts.push(ending.reason.clone());
    }
    parts.extend(ending.status.map(|status| format!("HTTP {status}")));
    parts.extend(ending.version.map(|version| format!("version {version}")));
    if ending.delete_marker {
        parts.push("a delete marker".to_owned());
    }
    match &ending.seen {
        Some(Seen::Object { digest, size, written_by }) => {
            parts.push(format!("saw {}", bytes(*size)));
            parts.extend(digest.map(|digest| format!("sha256 {}…", short(&digest.to_string()))));
            parts.extend(written_by.map(|op| format!("written by operation {op}")));
        }
        Some(Seen::Absent) => parts.push("saw nothing there".to_owned()),
        Some(Seen::Listing(lines)) => parts.push(format!("saw {} lines", lines.len())),
        None => {}
    }
    parts.join(", ")
}

/// The beginning of a digest.
fn short(digest: &str) -> &str {
    digest.get(..12).unwrap_or(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_long_as_a_reader_needs() {
        assert_eq!(duration(840), "840 µs");
        assert_eq!(duration(8_400), "8.4 ms");
        assert_eq!(duration(84_000), "84 ms");
        assert_eq!(duration(8_400_000), "8.40 s");
        assert_eq!(duration(84_000_000), "1 min 24 s");
        assert_eq!(count(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!(count(12), "12");
        assert_eq!(bytes(4096), "4\u{202f}096 B");
        assert_eq!(bytes(1 << 20), "1.0 MiB");
        assert_eq!(bytes(1 << 18), "256.0 KiB");
    }
}
