//! Renders the pages of a run from its files alone.

use std::path::Path;

use super::compare::Comparison;
use super::directory;
use super::directory::RunDirectory;
use super::directory::SuiteDirectory;
use super::error::ReportError;
use super::html;
use super::junit;
use super::markdown;
use super::recorded;
use super::suite::CaseSummary;
use super::suite::SuiteReport;
use crate::value::Seed;

/// The variable that names a CI server's summary of the step.
pub const SUMMARY_VARIABLE: &str = "GITHUB_STEP_SUMMARY";

/// Writes `report.md`, `report.html` and `junit.xml` of a case, from its verdict, and its history and census
/// where there are any.
///
/// # Errors
/// [`ReportError`]; each file is either as it was or complete.
pub fn render_all(run: &RunDirectory) -> Result<(), ReportError> {
    let report = run.read_report()?;
    // A case that never began has no history.
    let has_history = run.path(directory::HISTORY).exists();
    let history = if has_history { Some(run.read_history()?) } else { None };
    let census = run.read_census()?;
    let page = html::case(&report, history.as_ref(), census.as_ref(), &files(run))?;
    recorded::write(&run.path(directory::HTML), page.as_bytes())?;
    let page = markdown::case(&report, history.as_ref(), census.as_ref());
    recorded::write(&run.path(directory::MARKDOWN), page.as_bytes())?;
    let alone = SuiteReport {
        format: report.format,
        run: report.about.case.clone(),
        command: report.rerun.clone(),
        seed: Seed(report.about.seed.0),
        began_at: report.began_at.clone(),
        took_ms: report.took_ms,
        partition: None,
        class: super::ExitClass::Held,
        reasons: Vec::new(),
        drawn: Vec::new(),
        cases: vec![CaseSummary::of(&report, ".")],
        version: report.version.clone(),
    };
    recorded::write(&run.path(directory::JUNIT), junit::suite(&alone)?.as_bytes())
}

/// Writes `report.md`, `report.html` and `junit.xml` of a whole run, from its verdict.
///
/// # Errors
/// As [`render_all`].
pub fn render_suite(run: &SuiteDirectory) -> Result<(), ReportError> {
    let report = run.read_report()?;
    write_html(&run.path(directory::HTML), &report, None)?;
    recorded::write(&run.path(directory::MARKDOWN), markdown::suite(&report, None).as_bytes())?;
    write_junit(&run.path(directory::JUNIT), &report)
}

/// Writes the page of a run, held against an earlier one or not.
///
/// # Errors
/// [`ReportError::Io`], [`ReportError::Page`].
pub fn write_html(
    path: &Path,
    run: &SuiteReport,
    against: Option<&Comparison>,
) -> Result<(), ReportError> {
    recorded::write(path, html::suite(run, against)?.as_bytes())
}

/// Writes all cases of a run as JUnit.
///
/// # Errors
/// [`ReportError::Io`], [`ReportError::Page`].
pub fn write_junit(path: &Path, run: &SuiteReport) -> Result<(), ReportError> {
    recorded::write(path, junit::suite(run)?.as_bytes())
}

/// A run as Markdown, held against an earlier one or not.
pub fn markdown(run: &SuiteReport, against: Option<&Comparison>) -> String {
    markdown::suite(run, against)
}

/// Appends a run to the CI server's summary of the step, when [`SUMMARY_VARIABLE`] names one.
///
/// # Errors
/// [`ReportError::Io`].
pub fn summarize(run: &SuiteReport, against: Option<&Comparison>) -> Result<(), ReportError> {
    match std::env::var_os(SUMMARY_VARIABLE) {
        Some(path) if !path.is_empty() => {
            markdown::append(Path::new(&path), &markdown::suite(run, against))
        }
        _ => Ok(()),
    }
}

/// The files of a case beside its page, as links.
fn files(run: &RunDirectory) -> Vec<String> {
    let mut files: Vec<String> = [
        directory::PLAN,
        directory::LEDGER,
        directory::HISTORY,
        directory::CENSUS,
        directory::VERDICT,
    ]
    .into_iter()
    .filter(|name| run.path(name).exists())
    .map(str::to_owned)
    .collect();
    for folder in [directory::NODES, directory::EVIDENCE] {
        let listed = std::fs::read_dir(run.path(folder)).into_iter().flatten().flatten();
        let mut names: Vec<_> = listed
            .filter_map(|entry| entry.file_name().into_string().ok())
            .map(|name| format!("{folder}/{name}"))
            .collect();
        names.sort();
        files.extend(names);
    }
    files
}
