//! `firedrill clean`: removes what killed runs left behind, and old reports when asked.

use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::SystemTime;

use clap::Args;

use super::Exit;
use crate::harness::report::directory::VERDICT;
use crate::harness::testbed::clean;
use crate::out::sayln;

/// Arguments of `clean`.
#[derive(Debug, Clone, Args)]
pub struct CleanArgs {
    /// Also remove finished run directories below this folder
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = "reports")]
    pub reports: Option<PathBuf>,
    /// Only those that are older, such as `7d` or `12h`
    #[arg(long, value_name = "AGE", requires = "reports")]
    pub older_than: Option<String>,
}

/// The folder below the reports whose runs are kept for good.
const KEPT: &str = "reference";

/// Cleans up and says what was done.
pub fn run(arguments: &CleanArgs) -> Exit {
    let older_than = match arguments.older_than.as_deref().map(parse_age).transpose() {
        Ok(age) => age.unwrap_or_default(),
        Err(message) => {
            eprintln!("firedrill clean: {message}");
            return Exit::Usage;
        }
    };
    let swept = clean::sweep();
    for name in &swept.alive {
        sayln!("testbed {name} is alive and was left alone");
    }
    for line in &swept.removed {
        sayln!("{line}");
    }
    let mut problems = swept.problems;
    let mut removed_reports = 0;
    if let Some(folder) = &arguments.reports {
        match remove_reports(folder, older_than) {
            Ok(count) => removed_reports = count,
            Err(error) => problems.push(format!("reports in {}: {error}", folder.display())),
        }
        sayln!("{removed_reports} run directories removed from {}", folder.display());
    }
    for line in &problems {
        eprintln!("firedrill clean: {line}");
    }
    if !problems.is_empty() {
        return Exit::Uncleaned;
    }
    if swept.removed.is_empty() && removed_reports == 0 {
        sayln!("nothing was left behind");
    }
    Exit::Held
}

/// Takes an age like `7d` apart.
fn parse_age(text: &str) -> Result<Duration, String> {
    let refuse = || format!("`{text}` is no age; say 30m, 12h or 7d");
    let unit = text.chars().last().ok_or_else(refuse)?;
    let seconds = match unit {
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(refuse()),
    };
    let count: u64 = text[..text.len() - 1].parse().map_err(|_| refuse())?;
    count.checked_mul(seconds).map(Duration::from_secs).ok_or_else(refuse)
}

/// Removes the runs below `folder` that have their verdict for longer than `age`; answers how many.
fn remove_reports(folder: &Path, age: Duration) -> io::Result<usize> {
    let mut removed = 0;
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name() == KEPT || !entry.file_type()?.is_dir() {
            continue;
        }
        // A run that has no verdict is at work, or is evidence of how it ended.
        let Ok(verdict) = entry.path().join(VERDICT).metadata() else {
            continue;
        };
        let since = SystemTime::now().duration_since(verdict.modified()?).unwrap_or_default();
        if since >= age {
            fs::remove_dir_all(entry.path())?;
            removed += 1;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_a_unit() {
        assert_eq!(parse_age("7d"), Ok(Duration::from_secs(7 * 86_400)));
        assert_eq!(parse_age("12h"), Ok(Duration::from_secs(12 * 3_600)));
        for wrong in ["", "7", "d", "-1d", "7 d", "7w", "99999999999999999d"] {
            assert!(parse_age(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_finished_runs_of_that_age_go_and_never_the_kept_ones() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["finished", "at-work", "reference"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        for name in ["finished", "reference"] {
            fs::write(folder.path().join(name).join(VERDICT), "{}").unwrap();
        }
        fs::write(folder.path().join("at-work/history.jsonl"), "").unwrap();
        assert_eq!(remove_reports(folder.path(), Duration::from_secs(3_600)).unwrap(), 0);
        assert_eq!(remove_reports(folder.path(), Duration::ZERO).unwrap(), 1);
        let left =
            ["finished", "at-work", "reference"].map(|name| folder.path().join(name).exists());
        assert_eq!(left, [false, true, true]);
    }
}
