//! The operator's tool: what an approval has to say, and its publication.
//!
//! The tool reads, and prints a proposal; asked to write, it publishes the approval and nothing else. What it
//! refuses is told by number, so that a runbook can name it.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde::Deserialize;

use crate::protocol::replacement::approval::ASSERTION;
use crate::protocol::replacement::approval::Approval;
use crate::protocol::replacement::approval::SOURCES_MAX;
use crate::protocol::replacement::approval::Source;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::ids::SetId;
use crate::protocol::replacement::marker;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::step::Step;
use crate::protocol::replacement::store::Change;
use crate::protocol::replacement::store::Place;
use crate::protocol::replacement::store::Write;
use crate::value::Digest;

/// What the operator typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// `--anchor DIR`.
    pub anchor: Option<String>,
    /// Each `--source UUID`, as typed.
    pub sources: Vec<String>,
    /// Each `--target ENDPOINT=DIR`, as typed.
    pub targets: Vec<String>,
    /// `--successor UUID`, as typed.
    pub successor: Option<String>,
    /// `--write`.
    pub write: bool,
    /// `--stopped-all-writers`.
    pub stopped_all_writers: bool,
}

/// What lies at a path, without following a link at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Entry {
    /// Nothing.
    #[default]
    Missing,
    /// A folder.
    Folder,
    /// A regular file, and what it holds.
    File(Vec<u8>),
    /// A symbolic link.
    Symlink,
    /// A device, a socket, a pipe.
    Other,
    /// The operating system would not say: its words.
    Error(String),
}

/// What was seen on the drives: each path that [`paths`] names, and whose lease is held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// By path: the anchor's directory, the targets' directories, and the paths below them.
    pub entries: BTreeMap<String, Entry>,
    /// Directories of the anchor and the targets whose lease somebody holds.
    pub leased: BTreeSet<String>,
}

/// Why the tool refuses. Its number is in [`Refused::number`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{words}")]
pub struct Refused {
    /// Which refusal.
    pub number: u32,
    /// What was seen and what was expected.
    pub words: String,
}

impl Refused {
    /// Every number there is.
    pub const NUMBERS: std::ops::RangeInclusive<u32> = 1..=21;

    /// `P1` to `P20`, and `P21` for a lease that is held.
    pub fn number(&self) -> String {
        format!("P{}", self.number)
    }
}

fn refuse<T>(number: u32, words: impl Into<String>) -> Result<T, Refused> {
    Err(Refused { number, words: words.into() })
}

/// What the arguments name, once they are well formed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    /// The anchor's directory.
    pub anchor: String,
    /// The sources, in the order given.
    pub sources: Vec<GenerationId>,
    /// Each target's directory by its endpoint.
    pub targets: BTreeMap<String, String>,
    /// The successor.
    pub successor: GenerationId,
    /// Whether to publish.
    pub write: bool,
}

/// Reads the arguments.
///
/// # Errors
///
/// P1, P2, P3, P6, P7, P8 and P18.
pub fn arguments(request: &Request) -> Result<Arguments, Refused> {
    let Some(anchor) = request.anchor.clone() else {
        return refuse(1, "--anchor is missing");
    };
    let Some(successor) = &request.successor else {
        return refuse(1, "--successor is missing");
    };
    if request.sources.is_empty() || request.targets.is_empty() {
        let what = if request.sources.is_empty() { "--source" } else { "--target" };
        return refuse(1, format!("{what} is missing"));
    }
    if request.write && !request.stopped_all_writers {
        return refuse(18, "--write needs --stopped-all-writers: every node has to be down");
    }
    let mut targets = BTreeMap::new();
    for target in &request.targets {
        match target.split_once('=') {
            Some((endpoint, folder)) if !endpoint.is_empty() && !folder.is_empty() => {
                if targets.insert(endpoint.to_owned(), folder.to_owned()).is_some() {
                    return refuse(3, format!("target {endpoint} is given twice"));
                }
            }
            _ => return refuse(2, format!("{target:?} is not ENDPOINT=DIR")),
        }
    }
    let id = |text: &String| match text.parse::<GenerationId>() {
        Ok(id) => Ok(id),
        Err(words) => refuse(6, words),
    };
    let successor = id(successor)?;
    let sources = request.sources.iter().map(id).collect::<Result<Vec<_>, _>>()?;
    let distinct: BTreeSet<_> = sources.iter().collect();
    if sources.len() > SOURCES_MAX || distinct.len() != sources.len() {
        return refuse(7, format!("{} sources, of which each has to be another", sources.len()));
    }
    if sources.contains(&successor) {
        return refuse(8, format!("the successor {successor} is one of the sources"));
    }
    Ok(Arguments { anchor, sources, targets, successor, write: request.write })
}

/// The paths that have to be looked at for `arguments`, below their directories and the directories themselves.
pub fn paths(arguments: &Arguments) -> Vec<String> {
    let mut paths = vec![arguments.anchor.clone()];
    let anchor = |path: &str| format!("{}/{path}", arguments.anchor);
    paths.extend([".rustfs.sys", names::LEDGERS, names::FOLDER].map(anchor));
    let intents = arguments.sources.iter().map(|id| names::path(Record::Intent, *id));
    paths.extend(intents.map(|path| anchor(&path)));
    paths.push(anchor(&names::path(Record::Approval, arguments.successor)));
    for folder in arguments.targets.values() {
        paths.push(folder.clone());
        paths.push(format!("{folder}/.rustfs.sys"));
        paths.push(format!("{folder}/{}", names::MARKER));
    }
    paths
}

/// The members of a source that the tool looks at; the others are bound by the digest.
#[derive(Debug, Deserialize)]
struct Scope {
    #[serde(default)]
    schema_version: Option<u64>,
    #[serde(default)]
    task_id: Option<String>,
    #[serde(rename = "replacement_generation", default)]
    generation: Option<String>,
    #[serde(rename = "replacement_targets", default)]
    targets: Option<Vec<String>>,
    #[serde(default)]
    set_disk_id: Option<String>,
}

/// The approval to be published.
///
/// # Errors
///
/// P4, P5, P9 to P17, P19, P20, and P21 for a lease that is held when the approval is to be written.
pub fn proposal(arguments: &Arguments, seen: &Seen) -> Result<Approval, Refused> {
    let entry = |path: &str| seen.entries.get(path).cloned().unwrap_or_default();
    for folder in std::iter::once(&arguments.anchor).chain(arguments.targets.values()) {
        match entry(folder) {
            Entry::Folder => {}
            Entry::Error(words) => return refuse(20, format!("{folder}: {words}")),
            _ => {
                let words = "is not a directory: mount the drive, and name its mount point";
                return refuse(4, format!("{folder} {words}"));
            }
        }
    }
    for path in [".rustfs.sys", names::LEDGERS, names::FOLDER] {
        let path = format!("{}/{path}", arguments.anchor);
        match entry(&path) {
            Entry::Folder => {}
            Entry::Error(words) => return refuse(20, format!("{path}: {words}")),
            _ => return refuse(5, format!("{path} is not a directory of its own")),
        }
    }
    let mut first: Option<(Vec<String>, String)> = None;
    let mut sources = Vec::new();
    for id in &arguments.sources {
        let path = format!("{}/{}", arguments.anchor, names::path(Record::Intent, *id));
        let bytes = match entry(&path) {
            Entry::File(bytes) => bytes,
            Entry::Error(words) => return refuse(20, format!("{path}: {words}")),
            _ => return refuse(9, format!("{path} is not a regular file")),
        };
        let (targets, set) = scope(*id, &path, &bytes)?;
        match &first {
            None => {
                let is_sorted = targets.windows(2).all(|pair| pair[0] < pair[1]);
                if !is_sorted || !targets.iter().eq(arguments.targets.keys()) {
                    let given = arguments.targets.keys().collect::<Vec<_>>();
                    let words = format!("{path} has the targets {targets:?}, given are {given:?}");
                    return refuse(12, words);
                }
                first = Some((targets, set));
            }
            Some(first) if *first != (targets.clone(), set.clone()) => {
                return refuse(13, format!("{path} has {targets:?} of {set}, not {first:?}"));
            }
            Some(_) => {}
        }
        sources.push(Source { task_id: *id, sha256: Digest::of(&bytes).0 });
    }
    let Some((targets, set_disk_id)) = first else {
        return refuse(7, "no sources");
    };
    let mut expected_markers = Vec::new();
    for endpoint in &targets {
        let folder = &arguments.targets[endpoint];
        expected_markers.push(marker_of(folder, &set_disk_id, arguments, &entry)?);
    }
    let folders = targets.iter().map(|endpoint| &arguments.targets[endpoint]);
    let held = folders.chain([&arguments.anchor]).find(|folder| seen.leased.contains(*folder));
    if let Some(folder) = held.filter(|_| arguments.write) {
        return refuse(21, format!("somebody holds the lease of {folder}: stop every node"));
    }
    let path = names::path(Record::Approval, arguments.successor);
    if arguments.write && entry(&format!("{}/{path}", arguments.anchor)) != Entry::Missing {
        return refuse(19, format!("{path} is there already"));
    }
    Ok(Approval {
        schema_version: Approval::SCHEMA,
        successor: arguments.successor,
        set_disk_id,
        targets,
        expected_markers,
        sources,
        maintenance_assertion: ASSERTION.to_owned(),
    })
}

fn scope(id: GenerationId, path: &str, bytes: &[u8]) -> Result<(Vec<String>, String), Refused> {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(bytes) else {
        return refuse(10, format!("{path} is not JSON"));
    };
    let scope: Scope = match serde_json::from_value(value) {
        Ok(scope) => scope,
        Err(error) => return refuse(11, format!("{path}: {error}")),
    };
    let name = id.to_string();
    let is_named =
        scope.task_id.as_ref() == Some(&name) && scope.generation.as_ref() == Some(&name);
    let is_legacy = matches!(scope.schema_version, Some(5 | 6));
    let targets = scope.targets.unwrap_or_default();
    if !is_named || !is_legacy || targets.is_empty() {
        let words = format!(
            "{path} is of schema {:?} and generation {:?} with {} targets",
            scope.schema_version,
            scope.generation,
            targets.len()
        );
        return refuse(11, words);
    }
    match scope.set_disk_id {
        Some(set) => match set.parse::<SetId>() {
            Ok(_) => Ok((targets, set)),
            // No node would import it: the approval would block the set.
            Err(words) => refuse(14, format!("{path}: {words}")),
        },
        None => refuse(14, format!("{path} names no set")),
    }
}

fn marker_of(
    folder: &str,
    set: &str,
    arguments: &Arguments,
    entry: &dyn Fn(&str) -> Entry,
) -> Result<Option<String>, Refused> {
    let system = format!("{folder}/.rustfs.sys");
    if entry(&system) == Entry::Symlink {
        return refuse(15, format!("{system} is a symbolic link"));
    }
    let path = format!("{folder}/{}", names::MARKER);
    let bytes = match entry(&path) {
        Entry::Missing => return Ok(None),
        Entry::File(bytes) => bytes,
        Entry::Symlink => return refuse(15, format!("{path} is a symbolic link")),
        Entry::Folder | Entry::Other => return refuse(20, format!("{path} is not a file")),
        Entry::Error(words) => return refuse(20, format!("{path}: {words}")),
    };
    let Ok(owner) = String::from_utf8(bytes) else {
        return refuse(16, format!("{path} is not UTF-8"));
    };
    let source = marker::generation(set, &owner);
    if source.is_some_and(|source| arguments.sources.contains(&source)) {
        return Ok(Some(owner));
    }
    refuse(17, format!("{path} names {owner:?}, which is none of the sources"))
}

/// The next write of the approval's publication: staged beside its name, given its name, unstaged. `None` when
/// it has been published and nothing is left of its staging.
///
/// `staged` and `published` are what the two files hold now; `staging` is a fresh id, used for the staging's
/// name alone.
///
/// # Errors
///
/// P19 when another approval has the name.
pub fn publication(
    approval: &Approval,
    staging: GenerationId,
    staged: Option<&[u8]>,
    published: Option<&[u8]>,
) -> Result<Option<Write>, Refused> {
    let bytes = approval.encode_pretty();
    let path = format!("{}/.{staging}.migration.tmp", names::FOLDER);
    let name = names::path(Record::Approval, approval.successor);
    match (staged, published) {
        (_, Some(other)) if other != bytes => refuse(19, format!("{name} is there already")),
        (Some(staged), Some(_)) => {
            Ok(Some(Write::file(Step::ApprovalUnstaged, path, Some(staged), None)))
        }
        (None, Some(_)) => Ok(None),
        (Some(_), None) => Ok(Some(Write {
            step: Step::ApprovalPublished,
            place: Place::Anchor,
            path,
            change: Change::Link { to: name },
        })),
        (None, None) => Ok(Some(Write::file(Step::ApprovalStaged, path, None, Some(bytes)))),
    }
}
