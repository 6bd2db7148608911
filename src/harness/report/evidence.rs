//! `evidence/`: the exact bytes that a finding is about, within a bound.

use std::cell::Cell;
use std::path::PathBuf;

use super::directory;
use super::directory::RunDirectory;
use super::error::ReportError;
use super::recorded;

/// The most that one case keeps, in bytes: 64 MiB.
pub const EVIDENCE_BYTES_MAX: u64 = 64 << 20;

/// Keeps evidence of one case, and states what it had to cut.
#[derive(Debug)]
pub struct Evidence {
    folder: PathBuf,
    left: Cell<u64>,
}

impl RunDirectory {
    /// The evidence of this case, from here on.
    pub fn evidence(&self) -> Evidence {
        let folder = self.path(directory::EVIDENCE);
        Evidence { folder, left: Cell::new(EVIDENCE_BYTES_MAX) }
    }
}

impl Evidence {
    /// Keeps `bytes` as `name`, a plain file name. What does not fit is cut, and a file `name.cut` beside it
    /// says how much. Answers the path as findings name it.
    ///
    /// # Errors
    /// [`ReportError::Io`].
    pub fn keep(&self, name: &str, bytes: &[u8]) -> Result<String, ReportError> {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
        let name: String = name.trim_start_matches('.').chars().map(plain).take(150).collect();
        let length = bytes.len() as u64;
        let kept = length.min(self.left.get());
        self.left.set(self.left.get() - kept);
        let kept = usize::try_from(kept).unwrap_or(usize::MAX).min(bytes.len());
        std::fs::create_dir_all(&self.folder).map_err(ReportError::io("create", &self.folder))?;
        recorded::write(&self.folder.join(&name), &bytes[..kept])?;
        if kept < bytes.len() {
            let notice = format!(
                "{kept} of {length} bytes are kept: a case keeps at most {EVIDENCE_BYTES_MAX} in all\n"
            );
            recorded::write(&self.folder.join(format!("{name}.cut")), notice.as_bytes())?;
        }
        Ok(format!("{}/{name}", directory::EVIDENCE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut_and_the_cut_is_stated() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(folder.path()).unwrap();
        let evidence = run.evidence();
        evidence.left.set(6);
        assert_eq!(evidence.keep("0/1 plain/k", b"four").unwrap(), "evidence/0_1_plain_k");
        evidence.keep("../second", b"four").unwrap();
        let kept = |name: &str| std::fs::read(run.path("evidence").join(name)).unwrap();
        assert_eq!(kept("0_1_plain_k"), b"four");
        assert_eq!(kept("_second"), b"fo");
        let notice = String::from_utf8(kept("_second.cut")).unwrap();
        assert!(notice.starts_with("2 of 4 bytes"), "{notice}");
    }
}
