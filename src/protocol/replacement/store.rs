//! What is durable about the generations of a set, as it was read, and the one kind of change to it.
//!
//! A decision reads bytes and asks for bytes: every change of a record or marker replaces, creates or removes
//! one file if its bytes are still the ones that the decision was taken on.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::protocol::replacement::approval::Approval;
use crate::protocol::replacement::checkpoint::Checkpoint;
use crate::protocol::replacement::identity::Mounted;
use crate::protocol::replacement::identity::Note;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::marker;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Name;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::proof::Proof;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::refusal::about;
use crate::protocol::replacement::refusal::on_record;
use crate::protocol::replacement::step::Step;

/// The files of the survivor anchor, by their paths relative to its root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// Whether the folder of the records is there.
    pub has_folder: bool,
    /// Whether the anchor reports that it is not formatted.
    pub is_blank: bool,
    /// What the files hold.
    pub bytes: BTreeMap<String, Vec<u8>>,
}

/// All that is durable about one generation and those that it is chained to, read under the leases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Durable {
    /// The anchor's files.
    pub files: Files,
    /// What each target's marker holds, in target order; `None` when it is absent.
    pub markers: Vec<Option<Vec<u8>>>,
}

/// What is so at the moment of the question and lies in no record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Now {
    /// Seconds since 1970.
    pub time_s: u64,
    /// Each target as it is mounted, in target order, or why it is not ready.
    pub mounts: Vec<Result<Mounted, String>>,
    /// The buckets that are listed, sorted.
    pub buckets: Vec<String>,
    /// Becomes the next successor's id, if one has to be named.
    pub fresh_successor: GenerationId,
    /// Becomes the next handoff's transaction, if one has to be prepared.
    pub fresh_transaction: GenerationId,
    /// Whether no work was done yet since the leases were taken.
    pub is_opening: bool,
}

/// Which drive a change is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The survivor anchor.
    Anchor,
    /// A target, counting from 0 in target order.
    Target(usize),
}

/// What is to be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Make the folder.
    MakeFolder,
    /// Format this slot of the set, if it is still blank.
    Format,
    /// Compare-and-swap: `None` stands for no file.
    Swap {
        /// What the file must hold.
        expected: Option<Vec<u8>>,
        /// What it holds then.
        new: Option<Vec<u8>>,
    },
    /// Give the file at `path` a second name; refused when the name is taken.
    Link {
        /// The second name.
        to: String,
    },
}

/// The next thing to make durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Which step it is; its name is the crash point right after it.
    pub step: Step,
    /// On which drive.
    pub place: Place,
    /// The path, relative to the drive's root.
    pub path: String,
    /// What is done there.
    pub change: Change,
}

impl Write {
    /// Replaces, creates or removes a record on the anchor.
    pub(crate) fn record(
        step: Step,
        record: Record,
        id: GenerationId,
        expected: Option<&[u8]>,
        new: Option<Vec<u8>>,
    ) -> Self {
        Self::file(step, names::path(record, id), expected, new)
    }

    /// Replaces, creates or removes a file on the anchor.
    pub(crate) fn file(
        step: Step,
        path: String,
        expected: Option<&[u8]>,
        new: Option<Vec<u8>>,
    ) -> Self {
        let change = Change::Swap { expected: expected.map(<[u8]>::to_vec), new };
        Self { step, place: Place::Anchor, path, change }
    }

    /// Replaces, creates or removes the marker of a target.
    pub(crate) fn marker(
        step: Step,
        target: usize,
        expected: Option<&[u8]>,
        new: Option<String>,
    ) -> Self {
        let change = Change::Swap {
            expected: expected.map(<[u8]>::to_vec),
            new: new.map(String::into_bytes),
        };
        Self { step, place: Place::Target(target), path: names::MARKER.to_owned(), change }
    }
}

/// A record with the bytes that it was read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored<T> {
    /// What the bytes say.
    pub value: T,
    /// The bytes: whoever replaces the record expects them.
    pub bytes: Vec<u8>,
}

impl Stored<Intent> {
    /// Saves the record after `change`, one revision further.
    ///
    /// # Errors
    ///
    /// [`Refusal::RevisionOverflow`].
    pub(crate) fn save(
        &self,
        step: Step,
        change: impl FnOnce(&mut Intent),
    ) -> Result<Write, Refusal> {
        let id = self.value.task_id;
        let mut next = self.value.next().ok_or_else(|| {
            let seen = format!("revision {}", self.value.revision);
            Refusal::RevisionOverflow(on_record(Record::Intent, id, seen, "one that can be raised"))
        })?;
        change(&mut next);
        Ok(Write::record(step, Record::Intent, id, Some(&self.bytes), Some(next.encode())))
    }
}

impl Files {
    /// What a record holds, if it is there.
    pub fn record(&self, record: Record, id: GenerationId) -> Option<&[u8]> {
        self.bytes.get(&names::path(record, id)).map(Vec::as_slice)
    }

    /// Every generation that has an intent where this release keeps it.
    pub fn generations(&self) -> Vec<GenerationId> {
        let names = self.bytes.keys().map(|path| names::parse(path));
        names
            .filter_map(|name| match name {
                Name::Record(Record::Intent, id) => Some(id),
                _ => None,
            })
            .collect()
    }

    /// Every generation that has one of `records`, each once.
    pub fn generations_with(&self, records: &[Record]) -> BTreeSet<GenerationId> {
        let names = self.bytes.keys().map(|path| names::parse(path));
        names
            .filter_map(|name| match name {
                Name::Record(record, id) if records.contains(&record) => Some(id),
                _ => None,
            })
            .collect()
    }

    /// Whether the intent is torn and may be published again over the same bytes: it does not parse, or is
    /// empty, and no seal says that it was ever complete.
    pub fn is_torn(&self, id: GenerationId) -> bool {
        let is_record = |bytes| Intent::parse(bytes).is_ok();
        self.record(Record::Intent, id).is_some_and(|bytes| !is_record(bytes))
            && self.record(Record::Seal, id).is_none()
    }

    /// The intent of `id`, held to every rule; `None` when there is none, or a torn one that was never sealed.
    ///
    /// # Errors
    ///
    /// What [`Intent::read`] says.
    pub fn intent(&self, id: GenerationId) -> Result<Option<Stored<Intent>>, Refusal> {
        let Some(bytes) = self.record(Record::Intent, id).filter(|_| !self.is_torn(id)) else {
            return Ok(None);
        };
        Ok(Some(Stored { value: Intent::read(id, bytes)?, bytes: bytes.to_vec() }))
    }

    /// The intent of `id`, which has to be there.
    ///
    /// # Errors
    ///
    /// As [`Files::intent`]; [`Refusal::PhaseUnfit`] when there is none.
    pub fn intent_of(&self, id: GenerationId) -> Result<Stored<Intent>, Refusal> {
        self.intent(id)?.ok_or_else(|| {
            Refusal::PhaseUnfit(on_record(Record::Intent, id, "no intent", "one to go on with"))
        })
    }

    /// The side-file of `id`; `None` when nothing is known.
    pub fn note(&self, id: GenerationId) -> Option<Note> {
        self.record(Record::Note, id).and_then(|bytes| Note::parse(id, bytes))
    }

    /// The valid proof of `id`; `None` when there is none, or a torn one that may be replaced.
    ///
    /// # Errors
    ///
    /// [`Refusal::ProofInvalid`] for one that parses and breaks a rule.
    pub fn proof(&self, id: GenerationId) -> Result<Option<Proof>, Refusal> {
        match self.record(Record::Proof, id).map(|bytes| Proof::read(id, bytes)) {
            None | Some(Err(Refusal::Unreadable(_))) => Ok(None),
            Some(Ok(proof)) => Ok(Some(proof)),
            Some(Err(refusal)) => Err(refusal),
        }
    }

    /// The ledger of `id`; `None` when there is none.
    ///
    /// # Errors
    ///
    /// [`Refusal::CheckpointRefused`].
    pub fn checkpoint(&self, id: GenerationId) -> Result<Option<Stored<Checkpoint>>, Refusal> {
        let Some(bytes) = self.record(Record::Checkpoint, id) else {
            return Ok(None);
        };
        if bytes.is_empty() {
            // A new manager may replace an empty file, as it may create one.
            return Ok(None);
        }
        Ok(Some(Stored { value: Checkpoint::read(id, bytes)?, bytes: bytes.to_vec() }))
    }

    /// The approval that names `successor`; `None` when there is none.
    ///
    /// # Errors
    ///
    /// [`Refusal::ApprovalInvalid`].
    pub fn approval(&self, successor: GenerationId) -> Result<Option<Approval>, Refusal> {
        let bytes = self.record(Record::Approval, successor);
        bytes.map(|bytes| Approval::read(successor, bytes)).transpose()
    }
}

impl Durable {
    /// The owner that each marker names, in target order.
    ///
    /// # Errors
    ///
    /// [`Refusal::MarkerUnreadable`].
    pub fn owners(&self, targets: &[String]) -> Result<Vec<Option<&str>>, Refusal> {
        assert_eq!(self.markers.len(), targets.len(), "one marker for each target");
        let markers = self.markers.iter().zip(targets);
        markers.map(|(bytes, endpoint)| marker::read(endpoint, bytes.as_deref())).collect()
    }
}

impl Now {
    /// Every target as it is mounted.
    ///
    /// # Errors
    ///
    /// [`Refusal::TargetNotReady`] for the first that is not, [`Refusal::SlotsChanged`] when they are not `targets`.
    pub fn mounted(&self, targets: &[String]) -> Result<Vec<&Mounted>, Refusal> {
        assert_eq!(self.mounts.len(), targets.len(), "one mount for each target");
        let mut mounted = Vec::new();
        for (mount, target) in self.mounts.iter().zip(targets) {
            match mount {
                Ok(it) if it.identity.endpoint == *target => mounted.push(it),
                Ok(it) => {
                    let seen = &it.identity.endpoint;
                    return Err(Refusal::SlotsChanged(about(seen, target, target)));
                }
                Err(reason) => {
                    let expected = "a drive mounted on a device of its own";
                    return Err(Refusal::TargetNotReady(about(reason, expected, target)));
                }
            }
        }
        Ok(mounted)
    }
}
