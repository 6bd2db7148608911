//! Where the files of a run lie: one folder a run, below it one folder a case.
//!
//! ```text
//! reports/<run>/            verdict.json report.md report.html junit.xml   of all cases together
//! reports/<run>/<case>/     plan.json ledger.jsonl history.jsonl census.json verdict.json
//!                           report.md report.html junit.xml nodes/*.log evidence/
//! ```
//!
//! Every file is complete before it has its name, except the two that are written as things happen
//! (ledger, history) and the nodes' own logs.

use std::path::Path;
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::case::CaseReport;
use super::case::VERDICT_FORMAT;
use super::error::ReportError;
use super::recorded;
use super::recorded::Lines;
use super::suite::SuiteReport;
use crate::harness::audit::census::CENSUS_FORMAT;
use crate::harness::audit::census::Census;
use crate::harness::scenario::plan::PLAN_FORMAT;
use crate::harness::scenario::plan::Plan;
use crate::harness::workload::record::History;

/// The plan of a case.
pub const PLAN: &str = "plan.json";
/// What was made outside the process.
pub const LEDGER: &str = "ledger.jsonl";
/// What clients were told and what was done meanwhile.
pub const HISTORY: &str = "history.jsonl";
/// Images of the drives, if they were to be kept.
pub const DRIVES: &str = "drives";
/// What the drives held.
pub const CENSUS: &str = "census.json";
/// What was decided, of a case as of a run.
pub const VERDICT: &str = "verdict.json";
/// The report as Markdown.
pub const MARKDOWN: &str = "report.md";
/// The report as a page.
pub const HTML: &str = "report.html";
/// The report for a CI server.
pub const JUNIT: &str = "junit.xml";
/// The folder of the nodes' logs.
pub const NODES: &str = "nodes";
/// The folder of what a finding is about.
pub const EVIDENCE: &str = "evidence";

/// The folder of one case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDirectory {
    root: PathBuf,
}

impl RunDirectory {
    /// Makes the folder with those for logs and evidence in it.
    ///
    /// # Errors
    /// [`ReportError::InUse`] when a case was recorded there; [`ReportError::Io`].
    pub fn create(root: &Path) -> Result<Self, ReportError> {
        if root.join(PLAN).exists() || root.join(HISTORY).exists() {
            return Err(ReportError::InUse { path: root.to_owned() });
        }
        for folder in [NODES, EVIDENCE] {
            let folder = root.join(folder);
            std::fs::create_dir_all(&folder).map_err(ReportError::io("create", &folder))?;
        }
        Ok(Self { root: root.to_owned() })
    }

    /// The folder at `root`, which holds a plan or a verdict of a case.
    ///
    /// # Errors
    /// [`ReportError::NotARun`].
    pub fn open(root: &Path) -> Result<Self, ReportError> {
        let run = Self { root: root.to_owned() };
        if root.join(PLAN).is_file() || run.read_report().is_ok() {
            Ok(run)
        } else {
            Err(ReportError::NotARun { path: root.to_owned() })
        }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where its file or folder called `name` is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Where the log of `node` is.
    pub fn node_log(&self, node: usize) -> PathBuf {
        self.root.join(NODES).join(format!("{node}.log"))
    }

    /// Writes `plan.json`.
    ///
    /// # Errors
    /// As [`recorded::write_json`].
    pub fn write_plan(&self, plan: &Plan) -> Result<(), ReportError> {
        recorded::write(&self.path(PLAN), plan.to_json().as_bytes())
    }

    /// Reads `plan.json`.
    ///
    /// # Errors
    /// As [`recorded::read_json`].
    pub fn read_plan(&self) -> Result<Plan, ReportError> {
        recorded::read_json(&self.path(PLAN), PLAN_FORMAT)
    }

    /// Reads `history.jsonl`, which the recorder wrote. A torn tail is no error.
    ///
    /// # Errors
    /// [`ReportError::Io`], [`ReportError::History`].
    pub fn read_history(&self) -> Result<History, ReportError> {
        let path = self.path(HISTORY);
        let bytes = std::fs::read(&path).map_err(ReportError::io("read", &path))?;
        History::read(&bytes)
            .map_err(|source| ReportError::History { path: self.root.clone(), source })
    }

    /// Reads `ledger.jsonl`, which the testbed wrote.
    ///
    /// # Errors
    /// As [`recorded::read_lines`].
    pub fn read_ledger<T: DeserializeOwned>(&self) -> Result<Lines<T>, ReportError> {
        recorded::read_lines(&self.path(LEDGER))
    }

    /// Writes `census.json`.
    ///
    /// # Errors
    /// As [`recorded::write_json`].
    pub fn write_census(&self, census: &Census) -> Result<(), ReportError> {
        recorded::write_json(&self.path(CENSUS), census)
    }

    /// Reads `census.json`; `None` when none was taken.
    ///
    /// # Errors
    /// As [`recorded::read_json`].
    pub fn read_census(&self) -> Result<Option<Census>, ReportError> {
        let path = self.path(CENSUS);
        if path.exists() { recorded::read_json(&path, CENSUS_FORMAT).map(Some) } else { Ok(None) }
    }

    /// Writes `verdict.json`.
    ///
    /// # Errors
    /// As [`recorded::write_json`].
    pub fn write_report(&self, report: &CaseReport) -> Result<(), ReportError> {
        recorded::write_json(&self.path(VERDICT), report)
    }

    /// Reads `verdict.json`.
    ///
    /// # Errors
    /// As [`recorded::read_json`].
    pub fn read_report(&self) -> Result<CaseReport, ReportError> {
        recorded::read_json(&self.path(VERDICT), VERDICT_FORMAT)
    }

    /// Writes any other file of JSON, below `evidence/` for one.
    ///
    /// # Errors
    /// As [`recorded::write_json`].
    pub fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), ReportError> {
        recorded::write_json(&self.path(name), value)
    }
}

/// The folder of one run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuiteDirectory {
    root: PathBuf,
}

impl SuiteDirectory {
    /// Makes the folder.
    ///
    /// # Errors
    /// [`ReportError::InUse`] when a run was recorded there; [`ReportError::Io`].
    pub fn create(root: &Path) -> Result<Self, ReportError> {
        if root.join(VERDICT).exists() {
            return Err(ReportError::InUse { path: root.to_owned() });
        }
        std::fs::create_dir_all(root).map_err(ReportError::io("create", root))?;
        Ok(Self { root: root.to_owned() })
    }

    /// The folder at `root`, which holds the verdict of a run or folders of cases.
    ///
    /// # Errors
    /// [`ReportError::NotARun`], [`ReportError::Io`].
    pub fn open(root: &Path) -> Result<Self, ReportError> {
        let run = Self { root: root.to_owned() };
        if run.read_report().is_ok() || !run.cases()?.is_empty() {
            Ok(run)
        } else {
            Err(ReportError::NotARun { path: root.to_owned() })
        }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where its file called `name` is.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Makes the folder of `case`; of a case that is repeated, the next one.
    ///
    /// # Errors
    /// [`ReportError::Io`].
    pub fn create_case(&self, case: &str) -> Result<RunDirectory, ReportError> {
        let name = folder_name(case);
        let mut attempt = 1_u32;
        loop {
            let folder = if attempt == 1 { name.clone() } else { format!("{name}~{attempt}") };
            match std::fs::create_dir(self.root.join(&folder)) {
                Ok(()) => return RunDirectory::create(&self.root.join(folder)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => attempt += 1,
                Err(error) => return Err(ReportError::io("create", &self.root)(error)),
            }
        }
    }

    /// The folders of its cases, in order of their names.
    ///
    /// # Errors
    /// [`ReportError::Io`].
    pub fn cases(&self) -> Result<Vec<RunDirectory>, ReportError> {
        let listed = std::fs::read_dir(&self.root).map_err(ReportError::io("list", &self.root))?;
        let mut cases: Vec<_> =
            listed.filter_map(|entry| RunDirectory::open(&entry.ok()?.path()).ok()).collect();
        cases.sort_by(|one, other| one.root.cmp(&other.root));
        Ok(cases)
    }

    /// Writes `verdict.json`.
    ///
    /// # Errors
    /// As [`recorded::write_json`].
    pub fn write_report(&self, report: &SuiteReport) -> Result<(), ReportError> {
        recorded::write_json(&self.path(VERDICT), report)
    }

    /// Reads `verdict.json`.
    ///
    /// # Errors
    /// As [`recorded::read_json`].
    pub fn read_report(&self) -> Result<SuiteReport, ReportError> {
        recorded::read_json(&self.path(VERDICT), VERDICT_FORMAT)
    }
}

/// The name of a case's folder: its own, in characters that no shell, URL or archive minds.
fn folder_name(case: &str) -> String {
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' | '.' => c,
        '[' => '@',
        _ => '_',
    };
    let name: String = case.trim_end_matches(']').chars().take(120).map(plain).collect();
    format!("{}{name}", if name.starts_with('.') || name.is_empty() { "_" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_cases_have_plain_names() {
        assert_eq!(folder_name("kill[put.meta_renamed]"), "kill@put.meta_renamed");
        assert_eq!(folder_name("../x y"), "_.._x_y");
        assert_eq!(folder_name(""), "_");
    }

    #[test]
    fn a_repeated_case_gets_a_folder_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let run = SuiteDirectory::create(folder.path()).unwrap();
        let first = run.create_case("a[b]").unwrap();
        let second = run.create_case("a[b]").unwrap();
        assert!(first.root().ends_with("a@b"));
        assert!(second.root().ends_with("a@b~2"));
        assert!(second.path(NODES).is_dir());
    }

    #[test]
    fn a_folder_that_was_used_is_not_used_again() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(HISTORY), "").unwrap();
        let error = RunDirectory::create(folder.path()).unwrap_err();
        assert!(matches!(error, ReportError::InUse { .. }), "{error}");
        let error = SuiteDirectory::open(folder.path()).unwrap_err();
        assert!(matches!(error, ReportError::NotARun { .. }), "{error}");
    }
}
