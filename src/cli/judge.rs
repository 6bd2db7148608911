//! `firedrill judge`: judges a finished run again, from its files alone. Nothing is written.
//!
//! Plan, history and census decide; a verdict that lies beside them is not looked at. So it needs no
//! privileges, and a run that was copied elsewhere, or tampered with, speaks for itself.

use std::fmt::Write as _;
use std::path::Path;

use super::Exit;
use super::JudgeArgs;
use crate::harness::check::Judgement;
use crate::harness::check::Verdict;
use crate::harness::report::CaseReport;
use crate::harness::report::Chain;
use crate::harness::report::ReportError;
use crate::harness::report::RunDirectory;
use crate::harness::report::class::ExitClass;
use crate::harness::report::directory::PLAN;
use crate::harness::report::directory::SuiteDirectory;
use crate::harness::report::escape::visible;
use crate::harness::report::terminal;
use crate::harness::report::terminal::Terminal;
use crate::harness::runner::judge;
use crate::harness::runner::judge::Circumstances;
use crate::out::say;
use crate::out::sayln;

/// Findings of one invariant that are printed.
const FINDINGS_MAX: usize = 10;

/// Judges every case below the folder that `arguments` name; ends as the worst of them.
pub fn run(arguments: &JudgeArgs) -> Exit {
    match perform(&arguments.run) {
        Ok(exit) => exit,
        Err(error) => {
            eprintln!("firedrill judge: {}", Chain(&error));
            match error {
                ReportError::NotARun { .. } => Exit::Nothing,
                // What cannot be read cannot be told.
                ReportError::Newer { .. }
                | ReportError::Malformed { .. }
                | ReportError::History { .. } => Exit::Undecided,
                _ => Exit::Internal,
            }
        }
    }
}

fn perform(path: &Path) -> Result<Exit, ReportError> {
    let cases = match path.join(PLAN).is_file() {
        true => vec![RunDirectory::open(path)?],
        false => SuiteDirectory::open(path)?.cases()?,
    };
    let terminal = Terminal::detect();
    let mut worst: Option<ExitClass> = None;
    for case in cases {
        let known = Circumstances { stop: None, began_at: None, took_ms: None };
        let report = judge::judge(&case, known)?;
        sayln!("{}", terminal::case_line(terminal, &report));
        say!("{}", details(&report));
        worst = Some(worst.map_or(report.class, |worst| worst.worst(report.class)));
    }
    Ok(worst.map_or(Exit::Nothing, Exit::from))
}

/// Why, and what each invariant found, in lines.
fn details(report: &CaseReport) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail, here and below.
    for reason in &report.reasons {
        let _ = writeln!(text, "    {}", visible(reason));
    }
    if let Some(torn) = &report.torn {
        let _ = writeln!(text, "    torn: {}", visible(torn));
    }
    for judged in &report.judgements {
        let _ = writeln!(text, "    {}", counts(judged));
        for finding in judged.findings.iter().take(FINDINGS_MAX) {
            let target = finding.target.as_deref().unwrap_or("-");
            let operations = finding.operations.iter().map(u64::to_string);
            let operations = operations.collect::<Vec<_>>().join(", ");
            let _ = writeln!(
                text,
                "        {} {}: {} [operations: {operations}] [{}]",
                finding.kind,
                visible(target),
                visible(&finding.message),
                visible(&finding.evidence.join(", ")),
            );
        }
        if judged.findings.len() > FINDINGS_MAX {
            let more = judged.findings.len() - FINDINGS_MAX;
            let _ = writeln!(text, "        and {more} more");
        }
    }
    text
}

fn counts(judged: &Judgement) -> String {
    let verdict = match judged.verdict {
        Verdict::Pass => "pass",
        Verdict::Undecided => "undecided",
        Verdict::Fail => "fail",
    };
    let Judgement { invariant, examined, excused, .. } = judged;
    format!("{verdict:<9} {invariant}: {examined} examined, {excused} excused")
}
