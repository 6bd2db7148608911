//! Secrets, the host's name, the home folder and absolute paths leave the files of a run.
//!
//! Free text (logs, ledger, evidence, words) loses all of them. In the files that are judged again
//! (plan, history, census, verdict) a host whose name is a plain word is left alone: the same word may be a
//! bucket's, and what is judged must not change. Binary evidence keeps its exact bytes but for secrets
//! and paths.

use std::borrow::Cow;
use std::path::Path;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::directory;
use super::directory::RunDirectory;
use super::directory::SuiteDirectory;
use super::error::ReportError;
use super::recorded;
use crate::harness::testbed::ledger::LedgerEntry;

/// Folders at the root of a machine whose paths are facts about the kernel, not about this machine.
const KERNEL_FOLDERS: [&str; 3] = ["dev", "proc", "sys"];

/// Shorter secrets than this would be found by chance.
const SECRET_BYTES_MIN: usize = 6;

/// What must not be read in the files of a run.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    exact: Vec<(Vec<u8>, String)>,
    paths: Vec<(Vec<u8>, String)>,
    hosts: Vec<Vec<u8>>,
    roots: Vec<Vec<u8>>,
}

/// What kind of text is redacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Logs and words.
    Free,
    /// Files that are judged again.
    Judged,
    /// Bytes as they were found.
    Binary,
}

impl Redactor {
    /// Replaces nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Knows this machine: the host's name, the home folders of the user and of the one who called
    /// sudo, the working directory, and which folders lie at the root.
    pub fn of_this_machine() -> Self {
        let mut redactor = Self::new();
        for file in ["/proc/sys/kernel/hostname", "/etc/hostname"] {
            if let Ok(name) = std::fs::read_to_string(file) {
                redactor = redactor.host(name.trim());
            }
        }
        if let Ok(folder) = std::env::current_dir() {
            redactor = redactor.path(&folder, "<folder>");
        }
        if let Some(home) = std::env::var_os("HOME") {
            redactor = redactor.path(Path::new(&home), "<home>");
        }
        if let Ok(user) = std::env::var("SUDO_USER")
            && !user.is_empty()
        {
            redactor = redactor.path(&Path::new("/home").join(user), "<home>");
        }
        let listed = std::fs::read_dir("/").into_iter().flatten().flatten();
        for entry in listed {
            redactor = redactor.root(&entry.file_name().to_string_lossy());
        }
        redactor
    }

    /// Replaces a secret, also in hexadecimal, base64 and as a URL or JSON writes it. What is shorter
    /// than six bytes is not a secret.
    #[must_use]
    pub fn secret(mut self, secret: &str) -> Self {
        if secret.len() < SECRET_BYTES_MIN {
            return self;
        }
        let percent: String = secret
            .bytes()
            .map(|byte| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    char::from(byte).to_string()
                }
                _ => format!("%{byte:02X}"),
            })
            .collect();
        let json = serde_json::to_string(secret).unwrap_or_default();
        let forms = [
            secret.to_owned(),
            hex::encode(secret),
            STANDARD.encode(secret).trim_end_matches('=').to_owned(),
            percent,
            json.trim_matches('"').to_owned(),
        ];
        for form in forms {
            if !self.exact.iter().any(|(known, _)| *known == form.as_bytes()) {
                self.exact.push((form.into_bytes(), "<secret>".to_owned()));
            }
        }
        self
    }

    /// Replaces a host's name where it stands as a word.
    #[must_use]
    pub fn host(mut self, name: &str) -> Self {
        let short = name.split('.').next().unwrap_or_default();
        for name in [name, short] {
            let name = name.as_bytes().to_vec();
            if name.len() > 1 && name != b"localhost" && !self.hosts.contains(&name) {
                self.hosts.push(name);
            }
        }
        // The longest first, so that a full name is not cut at its first dot.
        self.hosts.sort_by_key(|name| std::cmp::Reverse(name.len()));
        self
    }

    /// Replaces a path, and what lies below it keeps its own name, by `placeholder`.
    #[must_use]
    pub fn path(mut self, path: &Path, placeholder: &str) -> Self {
        let text = path.as_os_str().as_encoded_bytes();
        if text.len() > 1 && text.starts_with(b"/") {
            self.paths.push((text.to_vec(), placeholder.to_owned()));
            self.paths.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        }
        self
    }

    /// Replaces what lies above the last name of each other absolute path below this folder of the
    /// machine's root.
    #[must_use]
    pub fn root(mut self, folder: &str) -> Self {
        if !folder.is_empty() && !KERNEL_FOLDERS.contains(&folder) {
            self.roots.push(folder.as_bytes().to_vec());
        }
        self
    }

    /// Words for a person, without what must not be read.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.replace(text.as_bytes(), Kind::Free) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    fn replace<'a>(&self, text: &'a [u8], kind: Kind) -> Cow<'a, [u8]> {
        let mut replaced: Option<Vec<u8>> = None;
        let mut copied = 0;
        let mut at = 0;
        while at < text.len() {
            let Some((length, placeholder)) = self.found(text, at, kind) else {
                at += 1;
                continue;
            };
            let target = replaced.get_or_insert_with(|| Vec::with_capacity(text.len()));
            target.extend_from_slice(&text[copied..at]);
            target.extend_from_slice(placeholder.as_bytes());
            at += length;
            copied = at;
        }
        match replaced {
            None => Cow::Borrowed(text),
            Some(mut target) => {
                target.extend_from_slice(&text[copied..]);
                Cow::Owned(target)
            }
        }
    }

    /// What begins at `at` and must not be read: its length and what stands for it.
    fn found(&self, text: &[u8], at: usize, kind: Kind) -> Option<(usize, &str)> {
        let rest = &text[at..];
        let after = |length: usize| rest.get(length).copied();
        for (secret, placeholder) in &self.exact {
            if rest.starts_with(secret) {
                return Some((secret.len(), placeholder));
            }
        }
        let before = at.checked_sub(1).map(|place| text[place]);
        if before.is_some_and(is_of_a_name) {
            return None;
        }
        if rest.starts_with(b"/") && before != Some(b'/') {
            for (path, placeholder) in &self.paths {
                if rest.starts_with(path) && !after(path.len()).is_some_and(is_of_a_name) {
                    return Some((path.len(), placeholder));
                }
            }
            if kind == Kind::Free {
                return self.above_last_name(rest).map(|length| (length, "<path>"));
            }
        }
        if kind != Kind::Binary {
            for host in &self.hosts {
                let is_word =
                    rest.starts_with(host) && !after(host.len()).is_some_and(is_of_a_name);
                if is_word && (kind == Kind::Free || !is_plain_word(host)) {
                    return Some((host.len(), "<host>"));
                }
            }
        }
        None
    }

    /// How much of the absolute path that `rest` begins with lies above its last name.
    fn above_last_name(&self, rest: &[u8]) -> Option<usize> {
        let end = rest.iter().position(|byte| !is_of_a_path(*byte)).unwrap_or(rest.len());
        let path = &rest[1..end];
        let first = path.split(|byte| *byte == b'/').next()?;
        if first.len() == path.len() || !self.roots.iter().any(|root| root == first) {
            return None;
        }
        let last = path.iter().rposition(|byte| *byte == b'/')?;
        Some(last + 1)
    }

    fn file(&self, path: &Path, kind: Kind) -> Result<(), ReportError> {
        let bytes = std::fs::read(path).map_err(ReportError::io("read", path))?;
        let kind = if std::str::from_utf8(&bytes).is_err() && kind == Kind::Free {
            // A log may hold a few odd bytes; a shard holds hardly anything else.
            let odd = bytes.iter().filter(|byte| !byte.is_ascii()).count();
            if odd * 10 > bytes.len() || bytes.contains(&0) { Kind::Binary } else { kind }
        } else {
            kind
        };
        match self.replace(&bytes, kind) {
            Cow::Borrowed(_) => Ok(()),
            Cow::Owned(redacted) => recorded::write(path, &redacted),
        }
    }

    fn folder(&self, folder: &Path) -> Result<(), ReportError> {
        let listed = std::fs::read_dir(folder).map_err(ReportError::io("list", folder))?;
        let mut paths: Vec<PathBuf> = listed
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()
            .map_err(ReportError::io("list", folder))?;
        paths.sort();
        for path in paths {
            let kind = path.symlink_metadata().map_err(ReportError::io("look at", &path))?;
            if kind.is_dir() && path.file_name() == Some(directory::DRIVES.as_ref()) {
                // Images are whole file systems, and worth nothing once a byte of them has changed.
            } else if kind.is_dir() {
                self.folder(&path)?;
            } else if kind.is_file() {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let judged =
                    [directory::PLAN, directory::HISTORY, directory::CENSUS, directory::VERDICT];
                let is_judged = judged.contains(&name.as_ref());
                if name == directory::LEDGER && !is_torn_down(&path) {
                    continue;
                }
                self.file(&path, if is_judged { Kind::Judged } else { Kind::Free })?;
            }
        }
        Ok(())
    }
}

impl RunDirectory {
    /// Replaces everything that `redactor` knows in every file of the case. Only when nobody writes to
    /// them any more. The ledger of a testbed that still stands keeps its paths: `clean` needs them.
    ///
    /// # Errors
    /// [`ReportError::Io`]; each file is either as it was or redacted.
    pub fn redact(&self, redactor: &Redactor) -> Result<(), ReportError> {
        redactor.folder(self.root())
    }
}

impl SuiteDirectory {
    /// As [`RunDirectory::redact`], for the run with all its cases.
    ///
    /// # Errors
    /// [`ReportError::Io`]; each file is either as it was or redacted.
    pub fn redact(&self, redactor: &Redactor) -> Result<(), ReportError> {
        redactor.folder(self.root())
    }
}

/// Whether a ledger says that nothing of its testbed is left.
fn is_torn_down(ledger: &Path) -> bool {
    let lines = recorded::read_lines::<LedgerEntry>(ledger);
    lines.is_ok_and(|lines| lines.entries.last() == Some(&LedgerEntry::TornDown))
}

/// Whether a byte next to a word makes it part of a longer one.
fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' || byte >= 0x80
}

/// Whether a byte can stand in a path of free text.
fn is_of_a_path(byte: u8) -> bool {
    is_of_a_name(byte) || b"/.@+~%#=".contains(&byte)
}

/// Whether a host's name could be a bucket's or a field's just as well.
fn is_plain_word(host: &[u8]) -> bool {
    host.iter().all(u8::is_ascii_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor() -> Redactor {
        Redactor::new()
            .secret("s3cr3t/+key")
            .host("ci-7.example.net")
            .path(Path::new("/root"), "<home>")
            .path(Path::new("/tmp/run.x1/mnt"), "<testbed>")
            .root("tmp")
            .root("usr")
            .root("proc")
    }

    #[test]
    fn what_must_not_be_read_is_replaced_in_every_form() {
        for (text, redacted) in [
            ("key=s3cr3t/+key;", "key=<secret>;"),
            ("k=s3cr3t%2F%2Bkey", "k=<secret>"),
            (&hex::encode("s3cr3t/+key"), "<secret>"),
            ("host ci-7.example.net and ci-7:80", "host <host> and <host>:80"),
            ("open /root/x.yaml", "open <home>/x.yaml"),
            ("HOME=/root", "HOME=<home>"),
            ("/tmp/run.x1/mnt/0/1/xl.meta", "<testbed>/0/1/xl.meta"),
            ("\"/tmp/other/run/x.img\"", "\"<path>/x.img\""),
        ] {
            assert_eq!(redactor().text(text), redacted);
        }
    }

    #[test]
    fn what_only_looks_like_it_stays() {
        for text in [
            "ci-70 and xci-7",
            "/rooted and a/root/b",
            "http://127.0.0.1:9000/tmp/key",
            "/proc/self/mountinfo",
            "/dev/loop3",
            "GET /plain/tmp/x",
            "/tmp",
        ] {
            assert_eq!(redactor().text(text), text);
        }
    }

    #[test]
    fn a_host_that_is_a_plain_word_changes_nothing_that_is_judged() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(folder.path()).unwrap();
        let line = "{\"bucket\":\"plain\"}\n";
        std::fs::write(run.path(directory::HISTORY), line).unwrap();
        std::fs::write(run.node_log(0), line).unwrap();
        let shard = b"\x00plain\xff\xfe\x80";
        std::fs::write(run.path("evidence/part.1"), shard).unwrap();
        run.redact(&Redactor::new().host("plain")).unwrap();
        assert_eq!(std::fs::read_to_string(run.path(directory::HISTORY)).unwrap(), line);
        let log = std::fs::read_to_string(run.node_log(0)).unwrap();
        assert_eq!(log, "{\"bucket\":\"<host>\"}\n");
        assert_eq!(std::fs::read(run.path("evidence/part.1")).unwrap(), shard);
    }

    #[test]
    fn a_ledger_that_clean_still_needs_keeps_its_paths() {
        let folder = tempfile::tempdir().unwrap();
        let run = RunDirectory::create(folder.path()).unwrap();
        let standing = "{\"folder\":{\"path\":\"/tmp/run.x1/mnt/d\"}}\n";
        std::fs::write(run.path(directory::LEDGER), standing).unwrap();
        run.redact(&redactor()).unwrap();
        let ledger = || std::fs::read_to_string(run.path(directory::LEDGER)).unwrap();
        assert_eq!(ledger(), standing);
        std::fs::write(run.path(directory::LEDGER), format!("{standing}\"torn_down\"\n")).unwrap();
        run.redact(&redactor()).unwrap();
        assert_eq!(ledger(), "{\"folder\":{\"path\":\"<testbed>/d\"}}\n\"torn_down\"\n");
    }
}
