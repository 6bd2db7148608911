//! `tamper_record`: a stranger's hand changes what is durable of the replacement that is under way.
//!
//! The node is killed before, unless the record is to change under the living node while its executor is held.
//! Evidence: each file with its length and digest before and after. Healed by stopping the node, looking at what has
//! become of the changed record and of every other one, and giving the original back. What has changed without
//! being allowed to is noted for the verdict. The node stays down then, until it is started.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::future::FutureExt;
use serde_json::Value;
use tokio::time::Instant;
use tokio::time::sleep;

use super::Injected;
use super::Miss;
use super::Scene;
use super::Standing;
use super::records;
use super::records::Intent;
use crate::disk::layout;
use crate::harness::scenario::fault::TamperRecord;
use crate::harness::scenario::fault::Tampering;
use crate::harness::testbed::DrivePlace;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::blocking;
use crate::harness::workload::history::Event;
use crate::harness::workload::history::Note;
use crate::protocol::replacement::names::Record;
use crate::value::Digest;

/// Bytes of a marker that is too long to name anybody.
const LONG_MARKER_BYTES: usize = 300;
/// How long a torn record may take to be published again.
const AGAIN_PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks for it.
const LOOK_PERIOD: Duration = Duration::from_millis(50);
/// A generation that nobody has ever begun.
const STRANGER: &str = "5f1a9e0c-3d77-4f0e-9a55-0d2c6b7e8f90";

/// One file that is changed.
#[derive(Debug, Clone)]
struct Edit {
    drive: String,
    root: PathBuf,
    path: String,
    before: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
}

/// Every record and marker by drive and path.
type Files = BTreeMap<(String, String), Vec<u8>>;

struct Tampered {
    node: usize,
    into: Tampering,
    edit: Edit,
    /// What every drive held once it was changed.
    around: Files,
    has_made_folder: bool,
}

pub(super) async fn inject(fault: &TamperRecord, scene: &Scene<'_>) -> Injected {
    let (testbed, node, into) = (scene.testbed, fault.node, fault.into);
    let was_running = testbed.is_running(node);
    if !fault.live {
        testbed.kill(node).await?;
    }
    let places = testbed.drives();
    let changed = blocking(move || Ok(change(&places, into))).await?;
    if !fault.live && was_running {
        testbed.start(node).await?;
    }
    let (edit, around, has_made_folder) = changed.map_err(Miss::NotReached)?;
    scene.teller.injected_on(vec![edit.drive.clone()], edit.words());
    if let Some(hit) = scene.work().went_on(scene.progress) {
        scene.teller.in_force(hit);
    }
    Ok(Some(Box::new(Tampered { node, into, edit, around, has_made_folder })))
}

/// Changes what `into` says; answers what was changed, what all drives hold then, and whether a folder was made.
fn change(places: &[DrivePlace], into: Tampering) -> Result<(Edit, Files, bool), String> {
    let mut open = records::intents(places);
    open.retain(Intent::is_open);
    let [intent] = open.as_slice() else {
        return Err(format!("{} generations are open", open.len()));
    };
    let edit = plan(places, intent, into)?;
    let file = edit.root.join(&edit.path);
    let folder = file.parent().unwrap_or(&edit.root);
    let has_made_folder = !folder.is_dir();
    fs::create_dir_all(folder)
        .and_then(|()| put(&file, edit.after.as_deref()))
        .map_err(|error| format!("{}: {error}", edit.path))?;
    Ok((edit, everything(places)?, has_made_folder))
}

fn everything(places: &[DrivePlace]) -> Result<Files, String> {
    let mut files = Files::new();
    for place in places.iter().filter(|place| place.mounted) {
        let read = records::read(&place.root);
        let read = read.map_err(|error| format!("drive {}: {error}", place.name))?;
        files.extend(read.into_iter().map(|(path, bytes)| ((place.name.clone(), path), bytes)));
    }
    Ok(files)
}

/// Replaces a file whole, as whoever has a right to it does, or removes it.
fn put(file: &Path, bytes: Option<&[u8]>) -> io::Result<()> {
    match bytes {
        Some(bytes) => {
            let aside = file.with_file_name(".tampered.tmp");
            fs::write(&aside, bytes)?;
            fs::File::open(&aside)?.sync_all()?;
            fs::rename(&aside, file)?;
        }
        None => fs::remove_file(file)?,
    }
    fs::File::open(file.parent().unwrap_or(file))?.sync_all()
}

/// What is to be changed, and into what.
fn plan(places: &[DrivePlace], intent: &Intent, into: Tampering) -> Result<Edit, String> {
    let named = |name: &str| places.iter().find(|place| place.name == name && place.mounted);
    let anchor = named(&intent.drive).ok_or("the drive of the record is out")?;
    let targets = intent.targets();
    let is_target = |place: &&DrivePlace| targets.iter().any(|it| is_of(it, &place.name));
    let text = String::from_utf8_lossy(&intent.bytes).into_owned();
    let of_intent = |after: Vec<u8>| {
        let (drive, root) = (intent.drive.clone(), anchor.root.clone());
        let (before, after) = (Some(intent.bytes.clone()), Some(after));
        Ok(Edit { drive, root, path: intent.path.clone(), before, after })
    };
    let swapped = |old: &str, new: &str| match text.contains(old) {
        true => Ok(text.replacen(old, new, 1).into_bytes()),
        false => Err(format!("the record does not say {old}")),
    };
    let other = || {
        let mut free = places.iter().filter(|place| place.mounted && place.node == anchor.node);
        free.find(|place| !is_target(place) && place.name != intent.drive)
            .ok_or_else(|| "no other drive is there".to_owned())
    };
    let on_target = |is_marked: bool, path: &str, after: Option<Vec<u8>>| {
        let mut found = places.iter().filter(|place| place.mounted).filter(is_target);
        let path = path.to_owned();
        let place = found
            .find(|place| place.root.join(layout::HEALING).exists() == is_marked)
            .ok_or_else(|| format!("no target whose marker is there: {is_marked}"))?;
        let (drive, root) = (place.name.clone(), place.root.clone());
        let before = match fs::read(root.join(&path)) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(format!("drive {drive}: {path}: {error}")),
        };
        Ok(Edit { drive, root, path, before, after })
    };
    let stranger = || format!("{}:{STRANGER}", intent.set()).into_bytes();
    let is_sealed = anchor.root.join(intent.seal_path()).exists();
    match into {
        Tampering::E3 => of_intent(swapped("\"schema_version\":7", "\"schema_version\":8")?),
        Tampering::E5 | Tampering::TornUnsealed if is_sealed != (into == Tampering::E5) => {
            Err(format!("the record is sealed: {is_sealed}"))
        }
        Tampering::E5 | Tampering::TornUnsealed => {
            of_intent(intent.bytes[..intent.bytes.len() / 2].to_vec())
        }
        Tampering::E7 => {
            let key = "\"replacement_execution_protocol\":";
            of_intent(swapped(&format!("{key}1"), &format!("{key}2"))?)
        }
        Tampering::E9 | Tampering::E33 => {
            let target = targets.first().ok_or("it has no target")?;
            let name = places.iter().find(|place| is_of(target, &place.name));
            let name = &name.ok_or("its target is no drive of ours")?.name;
            let another = target.strip_suffix(name.as_str()).unwrap_or(target);
            let another = format!("{another}{}", other()?.name);
            let whole = |text: &str| format!("\"{text}\"");
            match into {
                Tampering::E9 => of_intent(swapped(&whole(target), &whole(&another))?),
                _ => of_intent(text.replace(&whole(target), &whole(&another)).into_bytes()),
            }
        }
        Tampering::E25 => on_target(true, layout::EXECUTION, None),
        Tampering::E27 => on_target(true, layout::HEALING, Some(vec![b'a'; LONG_MARKER_BYTES])),
        Tampering::E28 => on_target(true, layout::HEALING, Some(stranger())),
        Tampering::SecondMarker => on_target(false, layout::HEALING, Some(stranger())),
        Tampering::E62 => {
            let (drive, root, path) = (intent.drive.clone(), &anchor.root, intent.ledger_path());
            let ledger = fs::read(root.join(&path)).map_err(|error| format!("{path}: {error}"))?;
            let mut json: Value =
                serde_json::from_slice(&ledger).map_err(|error| format!("{path}: {error}"))?;
            let count = json["successful_objects"].as_u64().unwrap_or(0);
            json["successful_objects"] = (count + 1).into();
            let after = Some(json.to_string().into_bytes());
            Ok(Edit { drive, root: root.clone(), path, before: Some(ledger), after })
        }
        Tampering::E50 => {
            let place = other()?;
            let mut json: Value = serde_json::from_slice(&intent.bytes)
                .map_err(|error| format!("the record: {error}"))?;
            let later = json["last_update"].as_u64().unwrap_or(0) + 1;
            json["last_update"] = later.into();
            let after = Some(json.to_string().into_bytes());
            let (drive, root) = (place.name.clone(), place.root.clone());
            Ok(Edit { drive, root, path: intent.path.clone(), before: None, after })
        }
    }
}

/// Whether `endpoint` is the drive `node/slot`: testbeds mount each drive on a path that ends with its name.
fn is_of(endpoint: &str, drive: &str) -> bool {
    endpoint.strip_suffix(drive).is_some_and(|rest| rest.ends_with('/'))
}

impl Edit {
    fn words(&self) -> String {
        let describe = |bytes: &[u8]| {
            let digest = Digest::of(bytes).to_string();
            let digest = digest.get(..16).unwrap_or(&digest).to_owned();
            format!("{} bytes {digest}", bytes.len())
        };
        let describe = |bytes: Option<&[u8]>| bytes.map_or("nothing".to_owned(), describe);
        let (before, after) = (describe(self.before.as_deref()), describe(self.after.as_deref()));
        let (drive, path) = (&self.drive, &self.path);
        format!("drive {drive}: {path}: {before} became {after}")
    }

    /// What the file holds now.
    fn now(&self) -> Option<Vec<u8>> {
        fs::read(self.root.join(&self.path)).ok()
    }

    /// Gives the original back.
    fn undo(&self, has_made_folder: bool) -> io::Result<()> {
        let file = self.root.join(&self.path);
        match &self.before {
            Some(bytes) => put(&file, Some(bytes)),
            None => {
                fs::remove_file(&file)?;
                match file.parent().filter(|_| has_made_folder) {
                    Some(folder) => fs::remove_dir(folder),
                    None => Ok(()),
                }
            }
        }
    }
}

impl Tampered {
    /// Waits for what the node does of its own accord, in a time of its own: a quick client must not cut it short.
    async fn wait_published_again(&self, testbed: &Arc<Testbed>) -> Result<(), TestbedError> {
        let deadline = Instant::now() + AGAIN_PATIENCE;
        while testbed.is_running(self.node) && Instant::now() < deadline {
            let (places, path) = (testbed.drives(), self.edit.path.clone());
            if blocking(move || Ok(is_published_again(&places, &path))).await? {
                return Ok(());
            }
            sleep(LOOK_PERIOD).await;
        }
        Ok(())
    }

    /// What has changed since although nothing may, in words.
    fn changed(&self, now: &Files) -> Vec<String> {
        let mut changed = Vec::new();
        let all: std::collections::BTreeSet<_> = self.around.keys().chain(now.keys()).collect();
        for file in all {
            let (before, after) = (self.around.get(file), now.get(file));
            if before == after || self.may_change(file, before, after) {
                continue;
            }
            let words = |bytes: Option<&Vec<u8>>| match bytes {
                Some(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
                None => "nothing".to_owned(),
            };
            let (drive, path) = file;
            changed.push(format!(
                "drive {drive}: {path}: {} became {}",
                words(before),
                words(after)
            ));
        }
        changed
    }

    /// Whether a refusal of this kind may write this: the failure that it records in the intent, and nothing of its
    /// progress; a marker that a failed acquisition had written and takes back; the flag beside a ledger.
    fn may_change(
        &self,
        (drive, path): &(String, String),
        before: Option<&Vec<u8>>,
        after: Option<&Vec<u8>>,
    ) -> bool {
        let is_changed_one = (drive, path) == (&self.edit.drive, &self.edit.path);
        match self.into {
            Tampering::E27 | Tampering::E28 | Tampering::SecondMarker if !is_changed_one => {
                let is_own_marker = path == layout::HEALING && after.is_none();
                let takes_back = self.into == Tampering::SecondMarker && is_own_marker;
                takes_back || is_failure_alone(before, after)
            }
            Tampering::E62 if !is_changed_one => {
                let is_flag = path.ends_with(Record::Blocked.ending());
                let is_flagged = is_flag && before.is_none() && after.is_some();
                is_flagged || is_failure_alone(before, after)
            }
            // It is published again under its own id, and all follows.
            Tampering::TornUnsealed => true,
            _ => false,
        }
    }
}

/// Whether two intents differ in what a recorded failure changes, and in nothing else.
fn is_failure_alone(before: Option<&Vec<u8>>, after: Option<&Vec<u8>>) -> bool {
    let strip = |bytes: Option<&Vec<u8>>| {
        let mut json: Value = serde_json::from_slice(bytes?).ok()?;
        let fields = json.as_object_mut()?;
        for key in ["error_message", "retry_count", "last_update", "replacement_revision"] {
            fields.remove(key)?;
        }
        Some(json)
    };
    strip(before).is_some_and(|before| Some(before) == strip(after))
}

/// Whether the generation whose record was torn is there again, or over.
fn is_published_again(places: &[DrivePlace], path: &str) -> bool {
    let proof = records::beside(path, Record::Proof);
    places.iter().filter(|place| place.mounted).any(|place| {
        let parses = |path: &str| {
            let bytes = fs::read(place.root.join(path)).unwrap_or_default();
            serde_json::from_slice::<Value>(&bytes).is_ok()
        };
        parses(path) || parses(&proof)
    })
}

impl Standing for Tampered {
    fn measure<'a>(&'a mut self, _: &'a Arc<Testbed>) -> BoxFuture<'a, Option<String>> {
        async move {
            let is_there = self.edit.now() == self.edit.after;
            is_there.then(|| format!("{} is as it was changed", self.edit.path))
        }
        .boxed()
    }

    fn drives(&self) -> Vec<String> {
        vec![self.edit.drive.clone()]
    }

    fn heal<'a>(
        &'a mut self,
        testbed: &'a Arc<Testbed>,
    ) -> BoxFuture<'a, Result<String, TestbedError>> {
        async move {
            if self.into == Tampering::TornUnsealed {
                self.wait_published_again(testbed).await?;
            }
            testbed.stop(self.node).await?;
            let places = testbed.drives();
            let path = self.edit.path.clone();
            let looked = blocking(move || {
                let again = is_published_again(&places, &path);
                Ok(everything(&places).map(|files| (files, again)))
            });
            let changed = match (looked.await?, self.into) {
                (Err(why), _) => vec![why],
                (Ok((_, false)), Tampering::TornUnsealed) => {
                    vec!["the torn record was not published again under its id".to_owned()]
                }
                (Ok((now, _)), _) => self.changed(&now),
            };
            let count = changed.len();
            let (drive, path) = (self.edit.drive.clone(), self.edit.path.clone());
            let note = Note::Tampered { drive, path, changed };
            (testbed.context().events)(Event::Noted(note));
            let (edit, has_made_folder) = (self.edit.clone(), self.has_made_folder);
            let is_given_back = self.into != Tampering::TornUnsealed;
            if is_given_back {
                let file = edit.root.join(&edit.path);
                blocking(move || {
                    edit.undo(has_made_folder).map_err(TestbedError::io("give back", file))
                })
                .await?;
            }
            let what = if is_given_back { "the original is there again" } else { "it stays" };
            Ok(format!("{what}; {count} records had changed that may not"))
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
