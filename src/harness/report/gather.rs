//! Finds finished runs below the paths that a person names.
//!
//! A path is the folder of a run, of one case, or of several runs. A run whose own verdict is missing is
//! put together from its cases.

use std::path::Component;
use std::path::Path;
use std::path::PathBuf;

use super::case::VERDICT_FORMAT;
use super::class::ExitClass;
use super::directory::RunDirectory;
use super::directory::SuiteDirectory;
use super::error::ReportError;
use super::render::render_all;
use super::render::render_suite;
use super::suite::CaseSummary;
use super::suite::SuiteReport;

/// A finished run and where it lies.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// Its folder.
    pub root: PathBuf,
    /// What it came to.
    pub report: SuiteReport,
    /// Whether the folder is that of one case alone.
    pub is_case: bool,
}

/// The finished runs at `path`, in order of their names.
///
/// # Errors
/// [`ReportError::NotARun`] when there is none; what cannot be read.
pub fn find(path: &Path) -> Result<Vec<Finished>, ReportError> {
    if let Some(run) = at(path)? {
        return Ok(vec![run]);
    }
    let listed = std::fs::read_dir(path).map_err(ReportError::io("list", path))?;
    let mut folders: Vec<PathBuf> =
        listed.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect();
    folders.sort();
    let mut runs = Vec::new();
    for folder in folders {
        runs.extend(at(&folder)?);
    }
    if runs.is_empty() { Err(ReportError::NotARun { path: path.to_owned() }) } else { Ok(runs) }
}

/// The run whose folder `path` itself is.
fn at(path: &Path) -> Result<Option<Finished>, ReportError> {
    let root = path.to_owned();
    if let Ok(case) = RunDirectory::open(path) {
        let report = alone(&[case], path, true)?;
        return Ok(Some(Finished { root, report, is_case: true }));
    }
    let Ok(run) = SuiteDirectory::open(path) else {
        return Ok(None);
    };
    let report = match run.path(super::directory::VERDICT).exists() {
        true => run.read_report()?,
        false => alone(&run.cases()?, path, false)?,
    };
    Ok(Some(Finished { root, report, is_case: false }))
}

/// A run put together from its cases alone.
fn alone(cases: &[RunDirectory], path: &Path, is_case: bool) -> Result<SuiteReport, ReportError> {
    let mut summaries = Vec::new();
    let mut first = None;
    for case in cases {
        let report = case.read_report()?;
        let folder = case.root().file_name().unwrap_or_default().to_string_lossy();
        summaries.push(CaseSummary::of(&report, if is_case { "." } else { &folder }));
        first.get_or_insert(report);
    }
    let Some(first) = first else {
        return Err(ReportError::NotARun { path: path.to_owned() });
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(SuiteReport {
        format: VERDICT_FORMAT,
        run: if is_case { first.about.case.clone() } else { name },
        command: together(summaries.iter().map(|case| case.rerun.as_str())),
        seed: first.about.seed,
        began_at: first.began_at.clone(),
        took_ms: summaries.iter().map(|case| case.took_ms).sum(),
        partition: None,
        class: ExitClass::Held,
        reasons: Vec::new(),
        drawn: Vec::new(),
        cases: summaries,
        version: first.version,
    })
}

/// Commands one after the other, each once.
pub(super) fn together<'a>(commands: impl Iterator<Item = &'a str>) -> String {
    let mut each: Vec<&str> = Vec::new();
    for command in commands {
        if !each.contains(&command) {
            each.push(command);
        }
    }
    each.join(" && ")
}

impl Finished {
    /// Renders its pages again, and those of its cases.
    ///
    /// # Errors
    /// As [`render_all`].
    pub fn render(&self) -> Result<(), ReportError> {
        if self.is_case {
            return render_all(&RunDirectory::open(&self.root)?);
        }
        let run = SuiteDirectory::open(&self.root)?;
        for case in run.cases()? {
            // A case that was never judged has nothing to show yet.
            if case.path(super::directory::VERDICT).exists() {
                render_all(&case)?;
            }
        }
        if run.path(super::directory::VERDICT).exists() { render_suite(&run) } else { Ok(()) }
    }

    /// Its report, for a page in the folder `from`: the folders of its cases as seen from there.
    pub fn seen_from(&self, from: &Path) -> SuiteReport {
        let root = relative(&absolute(&self.root), &absolute(from));
        let mut report = self.report.clone();
        for case in &mut report.cases {
            let folder = root.join(&case.folder);
            let parts = folder.components().filter(|part| !matches!(part, Component::CurDir));
            case.folder = parts.collect::<PathBuf>().to_string_lossy().into_owned();
        }
        report
    }
}

fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

/// The way from the folder `from` to `to`, both absolute.
fn relative(to: &Path, from: &Path) -> PathBuf {
    let common = to.components().zip(from.components()).take_while(|(to, from)| to == from).count();
    let up = from.components().skip(common).map(|_| Component::ParentDir);
    up.chain(to.components().skip(common)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_finds_the_cases_of_runs_that_lie_elsewhere() {
        let way = |to: &str, from: &str| relative(Path::new(to), Path::new(from));
        assert_eq!(way("/a/reports/x", "/a/reports"), Path::new("x"));
        assert_eq!(way("/a/shard-1/x", "/a/out"), Path::new("../shard-1/x"));
        assert_eq!(way("/a", "/a"), Path::new(""));
    }

    #[test]
    fn a_folder_without_runs_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let error = find(folder.path()).unwrap_err();
        assert!(matches!(error, ReportError::NotARun { .. }), "{error}");
    }
}
