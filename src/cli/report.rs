//! `firedrill report`: renders finished runs, puts shards together, holds runs against earlier ones.

use std::path::Path;
use std::path::PathBuf;

use clap::Args;

use super::Exit;
use crate::harness::report::Chain;
use crate::harness::report::ReportError;
use crate::harness::report::SuiteReport;
use crate::harness::report::compare;
use crate::harness::report::gather;
use crate::harness::report::gather::Finished;
use crate::harness::report::render;
use crate::harness::report::terminal;
use crate::harness::report::terminal::Terminal;
use crate::out::say;

/// Arguments of `report`.
#[derive(Debug, Clone, Args)]
pub struct ReportArgs {
    /// Run directories, or folders of them
    #[arg(required = true)]
    pub runs: Vec<PathBuf>,
    /// Compare with this run, or with the latest other one in this folder
    #[arg(long, value_name = "RUN|DIR")]
    pub against: Option<PathBuf>,
    /// Write the merged page here
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the merged JUnit file here
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

/// Renders, merges and compares what `arguments` name; ends as the worst of the runs does.
pub fn run(arguments: &ReportArgs) -> Exit {
    match perform(arguments) {
        Ok(exit) => exit,
        Err(error) => {
            eprintln!("firedrill report: {}", Chain(&error));
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

fn perform(arguments: &ReportArgs) -> Result<Exit, ReportError> {
    let mut runs: Vec<Finished> = Vec::new();
    for path in &arguments.runs {
        runs.extend(gather::find(path)?);
    }
    for run in &runs {
        run.render()?;
    }
    let folder = arguments.html.as_deref().map_or(Path::new("."), folder);
    let seen: Vec<SuiteReport> = runs.iter().map(|run| run.seen_from(folder)).collect();
    let Some(merged) = compare::merge(&seen) else {
        return Ok(Exit::Nothing);
    };
    let against = match &arguments.against {
        Some(path) => earlier(path, &runs)?.map(|earlier| compare::compare(&merged, &earlier)),
        None => None,
    };
    if let Some(path) = &arguments.html {
        render::write_html(path, &merged, against.as_ref())?;
    }
    if let Some(path) = &arguments.junit {
        render::write_junit(path, &merged)?;
    }
    render::summarize(&merged, against.as_ref())?;
    let page = arguments.html.clone().or_else(|| match runs.as_slice() {
        [run] => Some(run.root.join("report.html")),
        _ => None,
    });
    let page = page.map(|page| page.display().to_string());
    say!("{}", terminal::summary(Terminal::detect(), &merged, page.as_deref()));
    if let Some(against) = &against {
        say!("\n{}", terminal::comparison(against));
    }
    Ok(merged.overall().into())
}

/// The folder that a file lies in.
fn folder(file: &Path) -> &Path {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// What to compare with: the run at `path`, or the latest one in it that is not among `runs`.
fn earlier(path: &Path, runs: &[Finished]) -> Result<Option<SuiteReport>, ReportError> {
    let same = |one: &Path, other: &Path| match (one.canonicalize(), other.canonicalize()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    };
    let others = gather::find(path)?.into_iter();
    let mut others = others.filter(|other| !runs.iter().any(|run| same(&run.root, &other.root)));
    Ok(others.next_back().map(|other| other.report))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_without_a_folder_lies_in_this_one() {
        assert_eq!(folder(Path::new("merged.html")), Path::new("."));
        assert_eq!(folder(Path::new("out/merged.html")), Path::new("out"));
    }
}
