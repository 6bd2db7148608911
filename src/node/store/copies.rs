//! What the drives hold of one key, and what it adds up to.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use uuid::Uuid;

use super::Store;
use super::api::StoreError;
use super::calls::Answer;
use super::calls::Asked;
use crate::disk::drive::DriveError;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::KeyCopy;
use crate::disk::drive::WalkEntry;
use crate::disk::format::xl_meta::Version;
use crate::disk::format::xl_meta::XlMeta;
use crate::protocol::object::decide::Backing;
use crate::protocol::object::decide::Decision;
use crate::protocol::object::decide::Now;
use crate::protocol::object::decide::Word;
use crate::protocol::object::decide::decide;
use crate::protocol::object::quorum;
use crate::protocol::object::select::Candidate;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// When the answer is certain, drives that lag are waited for so long: their shards may be of use.
const LAGGARDS: Duration = Duration::from_millis(20);

/// All drives' copies of one key, in slot order.
pub(super) struct Copies {
    pub(super) set: usize,
    pub(super) target: ObjectKey,
    /// Versions that are not younger than this belong to an earlier bucket of the same name.
    pub(super) since_ns: i64,
    pub(super) copies: Vec<Copy>,
}

/// One drive's copy.
pub(super) struct Copy {
    pub(super) state: State,
    /// Whether what it lacks says nothing.
    pub(super) rebuilding: bool,
    /// Whether the bucket's directory is there.
    pub(super) bucket: bool,
    /// Metadata that writes kept, with the folders in which it lies.
    pub(super) backups: Vec<(Uuid, XlMeta)>,
    /// The folders below the key that belong to it.
    pub(super) folders: Vec<FolderFacts>,
}

/// A folder below a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FolderFacts {
    pub(super) id: Uuid,
    /// Whether metadata of before some write is kept there.
    pub(super) keeps: bool,
    /// Names and lengths of its other files.
    pub(super) files: Vec<(String, u64)>,
}

pub(super) enum State {
    /// Its versions; none when it holds nothing of the key.
    Read(XlMeta),
    /// It cannot say.
    Failed(DriveError),
}

/// What is wanted of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    /// The latest version.
    Latest,
    /// One version.
    ById(VersionId),
    /// All versions, newest first.
    All,
}

/// A version that is there.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// As one of its holders stores it.
    pub(super) version: Version,
    pub(super) backing: Backing,
}

/// Versions that have to be decided before the key can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Undecided;

impl Copy {
    pub(super) fn failed(error: DriveError) -> Self {
        Self {
            state: State::Failed(error),
            rebuilding: false,
            bucket: false,
            backups: Vec::new(),
            folders: Vec::new(),
        }
    }

    fn of(answer: Result<DriveReply, DriveError>) -> Self {
        match answer {
            Ok(DriveReply::Key(copy)) => Self::of_key(*copy),
            Ok(other) => Self::failed(unexpected(&other)),
            Err(error) if error.is_absence() => {
                Self { state: State::Read(XlMeta::default()), ..Self::failed(error) }
            }
            Err(error) => Self::failed(error),
        }
    }

    fn of_key(copy: KeyCopy) -> Self {
        let state = state_of(copy.meta.as_deref());
        let kept = |folder: &crate::disk::drive::Folder| {
            let meta = XlMeta::parse(folder.backup.as_ref()?).ok()?;
            Some((folder.id, meta))
        };
        let backups = copy.folders.iter().filter_map(kept).collect();
        let facts = |folder: crate::disk::drive::Folder| FolderFacts {
            id: folder.id,
            keeps: folder.backup.is_some(),
            files: folder.files,
        };
        let folders = copy.folders.into_iter().map(facts).collect();
        Self { state, rebuilding: copy.rebuilding, bucket: copy.bucket, backups, folders }
    }

    /// From a page of a listing, which does not say what was kept.
    pub(super) fn of_entry(entry: Option<&WalkEntry>, rebuilding: bool) -> Self {
        let state = match entry {
            Some(entry) => state_of(entry.meta.as_deref()),
            None => State::Read(XlMeta::default()),
        };
        Self { state, rebuilding, bucket: true, backups: Vec::new(), folders: Vec::new() }
    }

    /// Its versions, when it can say.
    pub(super) fn meta(&self) -> Option<&XlMeta> {
        match &self.state {
            State::Read(meta) => Some(meta),
            State::Failed(_) => None,
        }
    }
}

fn state_of(meta: Option<&[u8]>) -> State {
    match meta.map(XlMeta::parse) {
        None => State::Read(XlMeta::default()),
        Some(Ok(meta)) => State::Read(meta),
        Some(Err(error)) => State::Failed(DriveError::Corrupt {
            path: crate::disk::layout::META_FILE.to_owned(),
            detail: error.to_string(),
        }),
    }
}

/// For a reply of another kind than asked for.
pub(super) fn unexpected(reply: &DriveReply) -> DriveError {
    let reply: String = format!("{reply:?}").chars().take(40).collect();
    let why = format!("another answer than asked for: {reply}");
    DriveError::Illegal { why }
}

/// The version as drives vote on it.
pub(super) fn candidate(version: &Version) -> Candidate {
    let object = version.as_object();
    Candidate {
        identity: version.identity(),
        version: version.id(),
        modtime_ns: version.header().modtime_ns,
        marker: object.is_none(),
        size: object.map_or(0, |object| object.size),
        data: object.map_or(0, |object| object.data),
        parity: object.map_or(0, |object| object.parity),
    }
}

impl Copies {
    pub(super) fn new(set: usize, target: ObjectKey, since_ns: i64, drives: usize) -> Self {
        let unasked = || Copy::failed(DriveError::NotAsked { why: "no answer yet".to_owned() });
        Self { set, target, since_ns, copies: (0..drives).map(|_| unasked()).collect() }
    }

    /// Drives that said what they hold.
    pub(super) fn answered(&self) -> usize {
        self.copies.iter().filter(|copy| copy.meta().is_some()).count()
    }

    /// What one of the others said.
    pub(super) fn failure(&self) -> Option<DriveError> {
        self.copies.iter().find_map(|copy| match &copy.state {
            State::Failed(error) => Some(error.clone()),
            State::Read(_) => None,
        })
    }

    /// One drive's version of an id, unless it belongs to an earlier bucket.
    pub(super) fn version(&self, slot: usize, id: VersionId) -> Option<&Version> {
        self.copies[slot].meta()?.find(id).filter(|version| self.is_ours(version))
    }

    /// The version of a winner, on a drive that holds it or kept it, with the inline contents there.
    pub(super) fn backed(
        &self,
        slot: usize,
        backing: &Backing,
    ) -> Option<(&Version, Option<&[u8]>)> {
        let copy = &self.copies[slot];
        let id = backing.candidate.version;
        let metas = copy.meta().into_iter().chain(copy.backups.iter().map(|(_, meta)| meta));
        let mut found = metas.filter_map(|meta| Some((meta.find(id)?, meta.inline(id))));
        found.find(|(version, _)| version.identity() == backing.candidate.identity)
    }

    pub(super) fn is_ours(&self, version: &Version) -> bool {
        version.header().modtime_ns > self.since_ns && !version.header().is_free()
    }

    fn word(&self, slot: usize, id: VersionId) -> Word {
        let copy = &self.copies[slot];
        let Some(meta) = copy.meta() else { return Word::default() };
        let now = match meta.find(id).filter(|version| self.is_ours(version)) {
            Some(version) if version.check().is_ok() => Now::Holds(candidate(version)),
            Some(_) => Now::Silent,
            None if copy.rebuilding => Now::Silent,
            None => Now::Lacks,
        };
        let kept = copy.backups.iter().filter_map(|(_, meta)| meta.find(id));
        let kept = kept.filter(|version| self.is_ours(version) && version.check().is_ok());
        let kept = kept.map(candidate).filter(|kept| now != Now::Holds(*kept)).collect();
        Word { now, kept }
    }

    /// What the drives say of one version. `alone` as [`decide`] has it.
    pub(super) fn decide(&self, id: VersionId, alone: bool) -> Decision {
        let words: Vec<_> = (0..self.copies.len()).map(|slot| self.word(slot, id)).collect();
        decide(&words, alone)
    }

    /// Every id that any drive holds or kept, with the newest moment of it, newest first.
    pub(super) fn ids(&self) -> Vec<(VersionId, i64)> {
        let mut ids = BTreeMap::new();
        for copy in &self.copies {
            let kept = copy.backups.iter().map(|(_, meta)| meta);
            for version in copy.meta().into_iter().chain(kept).flat_map(XlMeta::versions) {
                if self.is_ours(version) {
                    let moment = ids.entry(version.id()).or_insert(i64::MIN);
                    *moment = version.header().modtime_ns.max(*moment);
                }
            }
        }
        let mut ids: Vec<_> = ids.into_iter().collect();
        ids.sort_by_key(|(_, moment)| std::cmp::Reverse(*moment));
        ids
    }

    /// The newest moment of anything that any drive holds, earlier buckets included.
    pub(super) fn newest_ns(&self) -> i64 {
        let metas = self.copies.iter().filter_map(Copy::meta);
        let moments = metas.flat_map(XlMeta::versions).map(|it| it.header().modtime_ns);
        moments.max().unwrap_or(0).max(self.since_ns)
    }

    fn found(&self, backing: Backing) -> Found {
        let version = backing
            .holders
            .first()
            .and_then(|slot| self.version(*slot, backing.candidate.version))
            .expect("a version that is present has holders")
            .clone();
        Found { version, backing }
    }

    /// What is wanted, newest first; nothing when it is not there.
    pub(super) fn read(&self, want: Want, alone: bool) -> Result<Vec<Found>, Undecided> {
        let one = |id| match self.decide(id, alone) {
            Decision::Present(backing) => Ok(Some(self.found(backing))),
            Decision::Absent => Ok(None),
            Decision::Bring(_) | Decision::Clear | Decision::Open => Err(Undecided),
        };
        if self.answered() < quorum::absence(self.copies.len()) {
            return Err(Undecided);
        }
        let mut found = Vec::new();
        match want {
            Want::ById(id) => found.extend(one(id)?),
            Want::Latest => {
                // Drives that said nothing must not hide a newer version that was acknowledged.
                self.unseen_is_absent(alone)?;
                let ids = self.ids();
                for (index, (id, _)) in ids.iter().enumerate() {
                    found.extend(one(*id)?);
                    let next = ids.get(index + 1).map_or(i64::MIN, |(_, moment)| *moment);
                    let moment = |it: &Found| it.version.header().modtime_ns;
                    if found.iter().map(moment).max().is_some_and(|newest| newest > next) {
                        break;
                    }
                }
            }
            Want::All => {
                self.unseen_is_absent(alone)?;
                for (id, _) in self.ids() {
                    found.extend(one(id)?);
                }
            }
        }
        found.sort_by(|a, b| a.version.header().newest_first(b.version.header()));
        if want == Want::Latest {
            found.truncate(1);
        }
        Ok(found)
    }

    /// Whether a version that nobody mentioned is known to be absent.
    fn unseen_is_absent(&self, alone: bool) -> Result<(), Undecided> {
        let speak = |copy: &&Copy| copy.meta().is_some() && !copy.rebuilding;
        let speaking = self.copies.iter().filter(speak).count();
        let n = self.copies.len();
        // With fewer than a majority, one that stopped halfway may hide among the silent; half of the drives
        // are believed where nothing is under way.
        let needed = if alone { quorum::absence(n) } else { quorum::majority(n) };
        if speaking >= needed { Ok(()) } else { Err(Undecided) }
    }
}

impl Store {
    /// Reads a key from all drives, until `enough` says so of the answers so far, or all are in.
    pub(super) async fn read_copies(
        &self,
        set: usize,
        target: &ObjectKey,
        since_ns: i64,
        inline: bool,
        enough: impl FnMut(&Copies) -> bool,
    ) -> Copies {
        let request = DriveRequest::ReadKey { target: target.clone(), inline, brief: false };
        self.read_copies_as(set, target, since_ns, request, enough).await
    }

    /// As [`Store::read_copies`], with a [`DriveRequest::ReadKey`] of the caller's.
    pub(super) async fn read_copies_as(
        &self,
        set: usize,
        target: &ObjectKey,
        since_ns: i64,
        request: DriveRequest,
        mut enough: impl FnMut(&Copies) -> bool,
    ) -> Copies {
        let drives = self.drives(set).len();
        let mut asked: Asked = self.start(set, (0..drives).map(|slot| (slot, request.clone())));
        let mut copies = Copies::new(set, target.clone(), since_ns, drives);
        let mut over = None;
        loop {
            let next = match over {
                None => asked.next().await,
                Some(over) => tokio::time::timeout_at(over, asked.next()).await.ok().flatten(),
            };
            let Some((slot, answer)) = next else { return copies };
            copies.copies[slot] = Copy::of(answer);
            if over.is_none() && copies.answered() >= self.majority() && enough(&copies) {
                over = Some(tokio::time::Instant::now() + LAGGARDS);
            }
        }
    }

    /// Reads a key for a write: waits for every drive, but for the last ones only a while.
    pub(super) async fn read_copies_to_write(
        &self,
        set: usize,
        target: &ObjectKey,
        since_ns: i64,
        needed: usize,
        inline: bool,
    ) -> Result<Copies, StoreError> {
        let request = DriveRequest::ReadKey { target: target.clone(), inline, brief: false };
        let drives = self.drives(set).len();
        let mut asked = self.start(set, (0..drives).map(|slot| (slot, request.clone())));
        let is_good = |(_, answer): &Answer| answer.is_ok();
        let grace = Duration::from_millis(500);
        let answers = super::calls::gather(&mut asked, grace, |answers| {
            answers.iter().filter(|answer| is_good(answer)).count() >= needed
        })
        .await;
        let mut copies = Copies::new(set, target.clone(), since_ns, drives);
        for (slot, answer) in answers {
            copies.copies[slot] = Copy::of(answer);
        }
        let able = copies.answered();
        if able < needed {
            let why = copies.failure();
            return Err(StoreError::NoQuorum { what: "read the key", able, needed, why });
        }
        Ok(copies)
    }
}
