//! `requests.jsonl`: every request and its answer, as they happen. Secrets are never written.

use std::fs::File;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;

use super::ask::Heard;
use super::ask::Outcome;
use super::error::CatalogError;
use super::step::Step;

/// Its name in the run's folder.
pub const NAME: &str = "requests.jsonl";
/// Bytes of a body that are kept; a longer one is cut, which is said.
const BODY_BYTES_MAX: usize = 64 << 10;

/// One line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Counts from 0.
    pub number: u64,
    /// The step.
    pub step: Option<Step>,
    /// When the answer was there: milliseconds since 1970.
    pub at_ms: u64,
    /// The node.
    pub endpoint: String,
    /// Who signed; empty for nobody.
    pub access_key: String,
    /// Method, path, query.
    pub request: String,
    /// What it carried.
    pub body: Value,
    /// The status; `None` without a whole answer.
    pub status: Option<u16>,
    /// What it means.
    pub outcome: Outcome,
    /// The answer's body.
    pub answer: Value,
    /// Why there is no answer, or the server's words about an error.
    pub words: String,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

/// Writes requests down; where nothing is to be kept it only counts.
#[derive(Debug)]
pub struct Recorder(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    file: Option<File>,
    next: u64,
    step: Option<Step>,
    failed: Option<String>,
}

impl Recorder {
    /// Keeps nothing.
    pub fn none() -> Self {
        Self(Mutex::new(Inner { file: None, next: 0, step: None, failed: None }))
    }

    /// Goes on with the file in `folder`, whose last line may be torn.
    ///
    /// # Errors
    ///
    /// The file cannot be opened.
    pub fn open(folder: &Path) -> Result<Self, CatalogError> {
        let path = folder.join(NAME);
        let before = std::fs::read(&path).unwrap_or_default();
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let mut file = file.map_err(CatalogError::io("open", &path))?;
        if before.last().is_some_and(|byte| *byte != b'\n') {
            file.write_all(b"\n").map_err(CatalogError::io("write", &path))?;
        }
        let next = before.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count();
        let inner = Inner { file: Some(file), next: next as u64, step: None, failed: None };
        Ok(Self(Mutex::new(inner)))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose requests come next.
    pub fn begin(&self, step: Step) {
        self.inner().step = Some(step);
    }

    /// The number of the next line.
    pub fn next(&self) -> u64 {
        self.inner().next
    }

    /// Why not everything was written, if so.
    pub fn failed(&self) -> Option<String> {
        self.inner().failed.clone()
    }

    /// Writes one request down.
    pub(super) fn record(&self, endpoint: &str, access_key: &str, heard: &Heard, took: Duration) {
        let mut inner = self.inner();
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let body = match &heard.ask.body {
            super::ask::Body::Empty => Value::Null,
            super::ask::Body::Json(value) => value.clone(),
            super::ask::Body::Text(text) => Value::String(text.clone()),
        };
        let line = Line {
            number: inner.next,
            step: inner.step,
            at_ms: u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
            endpoint: endpoint.to_owned(),
            access_key: access_key.to_owned(),
            request: heard.ask.words(),
            body: kept(body),
            status: heard.told.status,
            outcome: heard.told.outcome,
            answer: kept(heard.told.body.clone()),
            words: heard.told.words.clone(),
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        };
        inner.next += 1;
        let mut bytes = serde_json::to_vec(&line).unwrap_or_default();
        bytes.push(b'\n');
        if let Some(file) = &mut inner.file
            && let Err(error) = file.write_all(&bytes)
        {
            inner.failed = Some(error.to_string());
        }
    }
}

/// `body` without secrets, and not longer than it may be.
fn kept(mut body: Value) -> Value {
    hide(&mut body);
    let length = serde_json::to_string(&body).map_or(0, |text| text.len());
    if length <= BODY_BYTES_MAX {
        return body;
    }
    let text = body.to_string();
    let cut: String = text.chars().take(BODY_BYTES_MAX / 4).collect();
    Value::String(format!("{cut}… (cut: {length} bytes)"))
}

/// Replaces whatever a name calls a secret.
fn hide(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let name = name.to_ascii_lowercase();
                let is_secret = ["secret", "session-token", "session_token", "password"]
                    .iter()
                    .any(|word| name.contains(word));
                if is_secret && !value.is_null() {
                    *value = Value::String("<secret>".to_owned());
                } else {
                    hide(value);
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(hide),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::harness::operator::catalog::ask::Ask;
    use crate::harness::operator::catalog::ask::Told;
    use crate::harness::report::recorded;

    #[test]
    fn secrets_are_not_written_and_a_torn_line_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let ask = Ask::new("GET", "/iceberg/v1/lake/namespaces/a/tables/t/credentials");
        let body = json!({"config": {"s3.secret-access-key": "hush", "version-token": "token-1"}});
        let told = Told::answered(&ask, 200, body);
        let heard = Heard { ask, told };
        std::fs::write(folder.path().join(NAME), "{\"torn").unwrap();
        let recorder = Recorder::open(folder.path()).unwrap();
        recorder.begin(Step::Inventory);
        assert_eq!(recorder.next(), 1);
        recorder.record("127.0.0.1:1", "key", &heard, Duration::ZERO);
        let text = std::fs::read_to_string(folder.path().join(NAME)).unwrap();
        assert!(!text.contains("hush"), "{text}");
        assert!(text.contains("token-1"));
        let rest = text.split_once('\n').unwrap().1;
        std::fs::write(folder.path().join("rest"), rest).unwrap();
        let lines = recorded::read_lines::<Line>(&folder.path().join("rest")).unwrap();
        assert_eq!(lines.entries[0].number, 1);
        assert_eq!(lines.entries[0].step, Some(Step::Inventory));
    }
}
