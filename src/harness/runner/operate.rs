//! An operator's tool, used on the drives of a node as an operator would: looked at first, then typed.
//!
//! It decides nothing. What was typed, what was answered and every byte that was left stand in the history; whether
//! that is what the scenario owes is concluded from there.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use tokio::task;

use super::life::Life;
use super::life::Trouble;
use crate::harness::audit::DriveSource;
use crate::harness::audit::replacement;
use crate::harness::operator::backup;
use crate::harness::operator::backup::BackupRequest;
use crate::harness::operator::error::OperatorError;
use crate::harness::operator::generations;
use crate::harness::operator::manifest::Manifest;
use crate::harness::operator::prepare;
use crate::harness::operator::prepare::Prepared;
use crate::harness::operator::rearm;
use crate::harness::operator::rearm::RearmRequest;
use crate::harness::operator::stopped;
use crate::harness::report::Chain;
use crate::harness::scenario::operator::Misuse;
use crate::harness::scenario::operator::OperatorStep;
use crate::harness::scenario::operator::Tool;
use crate::harness::testbed::DrivePlace;
use crate::harness::workload::history::Event;
use crate::harness::workload::history::Note;
use crate::harness::workload::history::OperatorNote;
use crate::harness::workload::history::WrittenFile;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::ids::SetId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::intent::Phase;
use crate::protocol::replacement::intent::SCHEMA;
use crate::protocol::replacement::marker;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Name;
use crate::protocol::replacement::names::Record;
use crate::value::Digest;
use crate::value::Seed;

/// The most of an answer that is kept, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;

impl Life<'_> {
    /// Uses a tool and notes what came of it.
    pub(super) async fn operate(&self, step: &OperatorStep) -> Result<(), Trouble> {
        self.waiting.on_ourselves(format!("replacement {}", step.tool.name()));
        let mut drives = self.testbed.drives();
        drives.retain(|drive| drive.node == step.node && drive.mounted);
        let (step, seed) = (step.clone(), self.plan.seed);
        let used = task::spawn_blocking(move || used(&step, &drives, seed)).await?;
        self.recorder.record(Event::Noted(Note::Operator(used)));
        Ok(())
    }

    /// Puts the intents and proofs of a node's drives where older releases kept them, once it is down.
    pub(super) async fn flatten(&self, node: usize) -> Result<(), Trouble> {
        self.waiting.on_ourselves("armed faults to strike");
        self.background.drained().await?;
        self.waiting.on_the_cluster(format!("node {node} to end"));
        self.testbed.stop(node).await?;
        let mut drives = self.testbed.drives();
        drives.retain(|drive| drive.node == node && drive.mounted);
        let moved = task::spawn_blocking(move || flattened(node, &drives)).await?;
        self.recorder.record(Event::Noted(Note::Operator(moved)));
        Ok(())
    }
}

/// Moves the records, and tells of it as of a tool.
fn flattened(node: usize, drives: &[DrivePlace]) -> OperatorNote {
    let mut note = OperatorNote {
        command: format!("records of node {node} are put where older releases kept them"),
        ..OperatorNote::default()
    };
    for drive in drives {
        match flatten(&drive.root) {
            Ok((before, after)) => note.files.extend(changes(&drive.name, &before, &after)),
            Err(error) => {
                note.missing = Some(format!("drive {}: {error}", drive.name));
                return note;
            }
        }
    }
    if note.files.is_empty() {
        note.missing = Some("there is no record".to_owned());
    }
    note
}

/// Moves the records of one drive; answers what it held before, and what then.
fn flatten(root: &Path) -> io::Result<(Held, Held)> {
    let before = held(root)?;
    for path in before.keys() {
        let flat = match names::parse(path) {
            Name::Record(Record::Intent, id) => names::path(Record::FlatIntent, id),
            Name::Record(Record::Proof, id) => names::path(Record::FlatProof, id),
            _ => continue,
        };
        fs::rename(root.join(path), root.join(&flat))?;
        fs::File::open(root.join(names::FOLDER))?.sync_all()?;
        fs::File::open(root.join(names::LEDGERS))?.sync_all()?;
    }
    Ok((before, held(root)?))
}

/// What a drive holds of replacements: paths relative to its root, and the bytes there.
type Held = BTreeMap<String, Vec<u8>>;

/// The drives as they were found.
struct Found<'a> {
    drives: &'a [DrivePlace],
    held: Vec<Held>,
}

/// What an operator works with, once it was found out.
struct Work {
    anchor: PathBuf,
    /// Generations, as they are typed.
    generations: Vec<GenerationId>,
    /// Endpoints with the drives that they are.
    targets: BTreeMap<String, PathBuf>,
}

fn used(step: &OperatorStep, drives: &[DrivePlace], seed: Seed) -> OperatorNote {
    let mut note = OperatorNote {
        command: format!("firedrill replacement {}", step.tool.name()),
        expected: step.refused.clone(),
        ..OperatorNote::default()
    };
    let found = match held_by_all(drives) {
        Ok(held) => Found { drives, held },
        Err(unreadable) => {
            note.missing = Some(unreadable);
            return note;
        }
    };
    let work = match found.work(step) {
        Some(work) => work,
        None => {
            note.missing = Some(format!("node {} has no such generation", step.node));
            return note;
        }
    };
    let kept = tempfile::tempdir();
    let answer = match (step.tool, &kept) {
        (Tool::Orphans, _) => orphans(drives),
        (Tool::Rearm, _) => give_back(step, &work, &mut note),
        (Tool::PrepareMigration, _) => prepare(step, &found, work, seed, &mut note),
        (Tool::Backup, Ok(folder)) => keep(step, &work, &folder.path().join("kept"), &mut note),
        (Tool::Backup, Err(error)) => {
            note.missing = Some(format!("there is no place for a backup: {error}"));
            return note;
        }
    };
    match answer {
        Ok(answer) => note.answer = answer,
        Err(error) => {
            (note.answer, note.refused) = (Chain(&error).to_string(), Some(error.code()));
        }
    }
    note.answer.truncate(note.answer.floor_char_boundary(ANSWER_BYTES_MAX));
    match held_by_all(drives) {
        Ok(after) => {
            for (drive, (before, after)) in drives.iter().zip(found.held.iter().zip(&after)) {
                note.files.extend(changes(&drive.name, before, after));
            }
        }
        Err(unreadable) => note.missing = Some(format!("what it left is not known: {unreadable}")),
    }
    note
}

/// Whatever lies in the folder of the records, every other record, and the marker, of a drive.
pub(super) fn held(root: &Path) -> io::Result<Held> {
    let mut held = replacement::read(root)?;
    let folder = root.join(names::FOLDER);
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(held),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let name = entry?.file_name();
        let path = format!("{}/{}", names::FOLDER, name.to_string_lossy());
        if let Entry::Vacant(unread) = held.entry(path) {
            unread.insert(fs::read(folder.join(&name))?);
        }
    }
    Ok(held)
}

/// What each drive holds, or which one cannot be read.
fn held_by_all(drives: &[DrivePlace]) -> Result<Vec<Held>, String> {
    let read = |drive: &DrivePlace| {
        held(&drive.root).map_err(|error| format!("drive {}: {error}", drive.name))
    };
    drives.iter().map(read).collect()
}

/// What is otherwise than before. Locks hold nothing, and are none of an operator's business.
fn changes(place: &str, before: &Held, after: &Held) -> Vec<WrittenFile> {
    let written = |path: &String, bytes: &[u8]| WrittenFile {
        place: place.to_owned(),
        path: path.clone(),
        bytes: bytes.len() as u64,
        sha256: Digest::of(bytes),
    };
    let is_new = |(path, bytes): &(&String, &Vec<u8>)| {
        before.get(*path) != Some(*bytes) && !path.ends_with(names::SWAP_LOCK)
    };
    let new = after.iter().filter(is_new).map(|(path, bytes)| written(path, bytes));
    let gone = before.keys().filter(|path| !after.contains_key(*path));
    new.chain(gone.map(|path| written(path, &[]))).collect()
}

impl Found<'_> {
    /// Every intent on a drive that is one of `set`, as any release wrote it.
    fn intents(&self, drive: usize, set: usize) -> impl Iterator<Item = Intent> {
        let id = SetId { pool: 0, set }.to_string();
        let read = self.held[drive].iter().filter_map(|(path, bytes)| match names::parse(path) {
            Name::Record(Record::Intent, _) => Intent::parse(bytes).ok(),
            _ => None,
        });
        read.filter(move |intent| intent.set_disk_id == id)
    }

    /// What the tool of `step` is for: the drive of the set that holds such records, and these.
    fn work(&self, step: &OperatorStep) -> Option<Work> {
        let is_meant = |intent: &Intent| match step.tool {
            Tool::PrepareMigration => intent.schema_version < SCHEMA,
            Tool::Rearm => intent.phase != Phase::Abandoned,
            Tool::Backup | Tool::Orphans => true,
        };
        for drive in 0..self.drives.len() {
            let meant: Vec<_> = self.intents(drive, step.set).filter(is_meant).collect();
            let Some(first) = meant.first() else { continue };
            let targets = first.targets.iter().filter_map(|endpoint| {
                let of = |drive: &&DrivePlace| Path::new(endpoint) == drive.root;
                Some((endpoint.clone(), self.drives.iter().find(of)?.root.clone()))
            });
            return Some(Work {
                anchor: self.drives[drive].root.clone(),
                generations: meant.iter().map(|intent| intent.task_id).collect(),
                targets: targets.collect(),
            });
        }
        (step.tool == Tool::Orphans).then(|| Work {
            anchor: PathBuf::new(),
            generations: Vec::new(),
            targets: BTreeMap::new(),
        })
    }

    /// The generation that has marked a drive.
    fn marks(&self, set: usize) -> Option<GenerationId> {
        let set = SetId { pool: 0, set }.to_string();
        let owners = self.held.iter().filter_map(|held| held.get(names::MARKER));
        owners.filter_map(|owner| marker::generation(&set, std::str::from_utf8(owner).ok()?)).next()
    }

    /// The id of the next successor of a set: the same until it was used up.
    fn successor(&self, set: usize, seed: Seed) -> GenerationId {
        let is_receipt =
            |path: &&String| matches!(names::parse(path), Name::Record(Record::Receipt, _));
        let used = self.held.iter().flat_map(|held| held.keys()).filter(is_receipt).count();
        GenerationId(seed.uuid(&format!("successor {used} of set {set}")))
    }
}

fn prepare(
    step: &OperatorStep,
    found: &Found<'_>,
    work: Work,
    seed: Seed,
    note: &mut OperatorNote,
) -> Result<String, OperatorError> {
    let mut request = prepare::Request {
        anchor: Some(work.anchor.to_string_lossy().into_owned()),
        sources: work.generations.iter().map(ToString::to_string).collect(),
        targets: Vec::new(),
        successor: Some(found.successor(step.set, seed).to_string()),
        write: step.write,
        stopped_all_writers: step.write,
    };
    let mut targets = work.targets;
    let unknown = GenerationId(seed.uuid("a generation that nobody began")).to_string();
    match step.misuse {
        None | Some(Misuse::TargetWithoutEndpoint | Misuse::TargetTwice) => {}
        Some(Misuse::NoAnchor) => request.anchor = None,
        Some(Misuse::TargetNotThere) => {
            targets.values_mut().for_each(|root| *root = root.join("not-there"));
        }
        Some(Misuse::AnotherTarget) => {
            targets = BTreeMap::from([("/another".to_owned(), work.anchor)]);
        }
        Some(Misuse::SourceNotAnId) => request.sources.push("../x".to_owned()),
        Some(Misuse::SourceTwice) => request.sources.extend(request.sources.first().cloned()),
        Some(Misuse::SourceUnknown) => request.sources.push(unknown),
        Some(Misuse::SourceLeftOut) => {
            let marks = found.marks(step.set).map(|id| id.to_string());
            request.sources.retain(|source| Some(source) != marks.as_ref());
        }
        Some(Misuse::SourcesOfTwoSets) => {
            let drives = 0..found.drives.len();
            let others = drives.flat_map(|drive| found.intents(drive, step.set + 1));
            request.sources.extend(others.map(|intent| intent.task_id.to_string()));
        }
        Some(Misuse::SuccessorIsSource) => request.successor = request.sources.first().cloned(),
        Some(Misuse::NotAsserted) => request.stopped_all_writers = false,
    }
    let typed = |(endpoint, root): (&String, &PathBuf)| format!("{endpoint}={}", root.display());
    request.targets = targets.iter().map(typed).collect();
    match step.misuse {
        Some(Misuse::TargetWithoutEndpoint) => {
            request.targets = targets.values().map(|root| root.display().to_string()).collect();
        }
        Some(Misuse::TargetTwice) => request.targets.extend(request.targets.first().cloned()),
        _ => {}
    }
    let words = |name: &str, values: &[String]| -> String {
        values.iter().map(|value| format!(" --{name} {value}")).collect()
    };
    note.command += &words("anchor", request.anchor.as_slice());
    note.command += &words("source", &request.sources);
    note.command += &words("target", &request.targets);
    note.command += &words("successor", request.successor.as_slice());
    note.command += if request.write { " --write" } else { "" };
    note.command += if request.stopped_all_writers { " --stopped-all-writers" } else { "" };
    match prepare::run(&request)? {
        Prepared::Proposed(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Prepared::Published(path) => {
            let text = fs::read(&path).map_err(|source| OperatorError::Io {
                step: "read",
                path: path.clone(),
                source,
            })?;
            Ok(format!("{}\n{}", path.display(), String::from_utf8_lossy(&text)))
        }
    }
}

fn keep(
    step: &OperatorStep,
    work: &Work,
    to: &Path,
    note: &mut OperatorNote,
) -> Result<String, OperatorError> {
    let mut targets: Vec<PathBuf> = work.targets.values().cloned().collect();
    match step.misuse {
        Some(Misuse::TargetNotThere) => targets.push(work.anchor.join("not-there")),
        Some(Misuse::TargetTwice) => targets.extend(targets.first().cloned()),
        _ => {}
    }
    note.command += &format!(" --anchor {}", work.anchor.display());
    targets.iter().for_each(|root| note.command += &format!(" --target {}", root.display()));
    note.command += " --to FOLDER";
    let request = BackupRequest { anchor: work.anchor.clone(), targets, to: to.to_owned() };
    let Manifest { drives, .. } = backup::run(&request)?;
    let count: usize = drives.iter().map(|drive| drive.files.len()).sum();
    let answer = format!("{count} files of {} drives kept", drives.len());
    for drive in drives {
        let files = drive.files.into_iter().map(|file| WrittenFile {
            place: format!("backup/{}", drive.folder),
            path: file.path,
            bytes: file.bytes,
            sha256: file.sha256.parse().expect("the manifest was just made"),
        });
        note.files.extend(files);
    }
    Ok(answer)
}

fn give_back(
    step: &OperatorStep,
    work: &Work,
    note: &mut OperatorNote,
) -> Result<String, OperatorError> {
    let generation = match step.misuse {
        Some(Misuse::SourceNotAnId) => "../x".to_owned(),
        _ => work.generations.first().map(ToString::to_string).unwrap_or_default(),
    };
    let asserted = step.write && step.misuse != Some(Misuse::NotAsserted);
    note.command += &format!(" --anchor {} --generation {generation}", work.anchor.display());
    note.command += if step.write { " --write" } else { "" };
    note.command += if asserted { " --stopped-all-writers" } else { "" };
    let written = rearm::run(&RearmRequest {
        anchor: work.anchor.clone(),
        generation,
        write: step.write,
        stopped_all_writers: asserted,
    })?;
    let lines = written.into_iter().map(|(step, path)| format!("{path} ({step})\n"));
    Ok(lines.collect())
}

fn orphans(drives: &[DrivePlace]) -> Result<String, OperatorError> {
    let source =
        |drive: &DrivePlace| DriveSource { name: drive.name.clone(), root: drive.root.clone() };
    let sources: Vec<_> = drives.iter().map(source).collect();
    let found = generations::find(&stopped::read_all(&sources)?);
    Ok(serde_json::to_string_pretty(&found).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_go_where_older_releases_kept_them_and_nothing_else_does() {
        let folder = tempfile::tempdir().unwrap();
        let id = GenerationId(Seed(1).uuid("generation"));
        let kinds = [Record::Intent, Record::Seal, Record::Proof, Record::Checkpoint];
        fs::create_dir_all(folder.path().join(names::FOLDER)).unwrap();
        let place = DrivePlace {
            name: "0/0".to_owned(),
            node: 0,
            slot: 0,
            root: folder.path().to_owned(),
            mounted: true,
        };
        let nothing = flattened(0, std::slice::from_ref(&place));
        assert!(nothing.missing.is_some(), "nothing was there to be moved");
        for record in kinds {
            fs::write(folder.path().join(names::path(record, id)), format!("{record:?}")).unwrap();
        }
        let note = flattened(0, &[place]);
        assert_eq!((note.files.len(), note.missing), (4, None));
        let kept = |record| fs::read_to_string(folder.path().join(names::path(record, id))).ok();
        assert_eq!(kept(Record::FlatIntent).as_deref(), Some("Intent"));
        assert_eq!(kept(Record::FlatProof).as_deref(), Some("Proof"));
        assert_eq!((kept(Record::Intent), kept(Record::Proof)), (None, None));
        assert!(kept(Record::Seal).is_some() && kept(Record::Checkpoint).is_some());
    }

    #[test]
    fn a_drive_whose_records_cannot_be_read_is_told_and_not_taken_for_empty() {
        let folder = tempfile::tempdir().unwrap();
        let id = GenerationId(Seed(1).uuid("generation"));
        assert!(held(folder.path()).unwrap().is_empty());
        fs::create_dir_all(folder.path().join(names::path(Record::Intent, id))).unwrap();
        let root = folder.path().to_owned();
        let place = DrivePlace { name: "0/0".to_owned(), node: 0, slot: 0, root, mounted: true };
        assert!(held(&place.root).is_err());
        let missing = flattened(0, &[place]).missing.unwrap();
        assert!(missing.contains("0/0"), "{missing}");
    }

    #[test]
    fn what_a_tool_leaves_is_told_file_by_file() {
        let held = |files: &[(&str, &str)]| -> Held {
            let owned =
                |(path, text): &(&str, &str)| ((*path).to_owned(), text.as_bytes().to_vec());
            files.iter().map(owned).collect()
        };
        let before = held(&[("a", "as it was"), ("b", "as it was"), ("c", "as it was")]);
        let after = held(&[("a", "as it was"), ("b", "otherwise"), ("d", "new")]);
        let changed = changes("0/1", &before, &after);
        let told: Vec<_> = changed.iter().map(|file| (&*file.path, file.bytes)).collect();
        assert_eq!(told, [("b", 9), ("d", 3), ("c", 0)]);
        assert_eq!(changed[0].sha256, Digest::of(b"otherwise"));
        assert!(changes("0/1", &before, &before).is_empty());
    }
}
