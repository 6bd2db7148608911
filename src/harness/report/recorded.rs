//! The files of a run as such: JSON that carries its format, JSON lines that may be torn.
//!
//! A file appears under its name only when it is complete. It knows nothing of what the files mean.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::ReportError;

/// What every JSON file carries.
#[derive(Deserialize)]
struct Versioned {
    format: u32,
}

/// Writes `bytes` beside `path`, flushes them and renames them into place.
///
/// # Errors
/// [`ReportError::Io`]; `path` then holds what it held before.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".partial");
    let beside = path.with_file_name(name);
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    });
    written.map_err(|error| {
        // Whatever is left of it carries no file's name; nothing more can be done about it.
        let _ = std::fs::remove_file(&beside);
        ReportError::io("write", path)(error)
    })
}

/// Writes `value` as indented JSON with a newline at its end.
///
/// # Errors
/// As [`write`].
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), ReportError> {
    let mut bytes = serde_json::to_vec_pretty(value).map_err(|source| ReportError::Malformed {
        path: path.to_owned(),
        line: 0,
        source,
    })?;
    bytes.push(b'\n');
    write(path, &bytes)
}

/// Reads a JSON file that carries `format`, at most `newest`.
///
/// # Errors
/// [`ReportError::Io`], [`ReportError::Newer`], [`ReportError::Malformed`].
pub fn read_json<T: DeserializeOwned>(path: &Path, newest: u32) -> Result<T, ReportError> {
    let bytes = std::fs::read(path).map_err(ReportError::io("read", path))?;
    parse_json(path, &bytes, newest)
}

/// As [`read_json`], from bytes that were read from `path`.
///
/// # Errors
/// [`ReportError::Newer`], [`ReportError::Malformed`].
pub fn parse_json<T: DeserializeOwned>(
    path: &Path,
    bytes: &[u8],
    newest: u32,
) -> Result<T, ReportError> {
    let malformed = |source| ReportError::Malformed { path: path.to_owned(), line: 0, source };
    let Versioned { format } = serde_json::from_slice(bytes).map_err(malformed)?;
    if format > newest {
        return Err(ReportError::Newer { path: path.to_owned(), found: format, newest });
    }
    serde_json::from_slice(bytes).map_err(malformed)
}

/// What a file of JSON lines holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines<T> {
    /// Its entries, in order.
    pub entries: Vec<T>,
    /// Bytes of a last line that was not written to its end.
    pub torn_bytes: usize,
}

/// Reads a file of JSON lines. A last line without its newline that does not parse is torn, and left out.
///
/// # Errors
/// [`ReportError::Io`]; [`ReportError::Malformed`] for any other line.
pub fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Lines<T>, ReportError> {
    let bytes = std::fs::read(path).map_err(ReportError::io("read", path))?;
    let mut lines = Lines { entries: Vec::new(), torn_bytes: 0 };
    for (number, line) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
        match serde_json::from_slice(line) {
            Ok(entry) => lines.entries.push(entry),
            Err(_) if !line.ends_with(b"\n") => lines.torn_bytes = line.len(),
            Err(source) => {
                return Err(ReportError::Malformed { path: path.to_owned(), line: number, source });
            }
        }
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sample {
        format: u32,
        word: String,
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sample.json");
        let sample = Sample { format: 1, word: "kept".to_owned() };
        write_json(&path, &sample).unwrap();
        write_json(&path, &sample).unwrap();
        assert_eq!(read_json::<Sample>(&path, 1).unwrap(), sample);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_newer_format_is_refused_even_when_its_fields_are_unknown() {
        let text = br#"{"format":2,"other":[1]}"#;
        let error = parse_json::<Sample>(Path::new("sample.json"), text, 1).unwrap_err();
        assert!(matches!(error, ReportError::Newer { found: 2, newest: 1, .. }), "{error}");
        let error = parse_json::<Sample>(Path::new("sample.json"), b"{}", 1).unwrap_err();
        assert!(matches!(error, ReportError::Malformed { .. }), "{error}");
    }

    #[test]
    fn a_torn_last_line_is_left_out_and_a_torn_middle_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lines.jsonl");
        std::fs::write(&path, "1\n2\n[3,").unwrap();
        assert_eq!(read_lines::<u32>(&path).unwrap(), Lines { entries: vec![1, 2], torn_bytes: 3 });
        std::fs::write(&path, "1\n[2,\n3\n").unwrap();
        let error = read_lines::<u32>(&path).unwrap_err();
        assert!(matches!(error, ReportError::Malformed { line: 2, .. }), "{error}");
    }
}
