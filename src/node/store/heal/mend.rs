//! Mending one key: every version that is there comes to every drive; what is nobody's goes to quarantine.
//!
//! In this order, under the key's lock: what interrupted writes left is decided (`settle`), unreadable metadata
//! is put aside, leftovers go where the grace rules allow it, versions are brought, what was kept is cleared.

use std::collections::BTreeSet;
use std::sync::Arc;

use uuid::Uuid;

use super::grace;
use super::grace::Stays;
use super::surplus;
use super::surplus::Spare;
use super::verify;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::Quarantine;
use crate::disk::drive::Settle;
use crate::node::seams::LockMode;
use crate::node::store::Store;
use crate::node::store::api::StoreError;
use crate::node::store::calls::Held;
use crate::node::store::calls::upload_resource;
use crate::node::store::copies::Copies;
use crate::node::store::copies::Copy;
use crate::node::store::copies::Want;
use crate::node::store::multipart;
use crate::node::store::read;
use crate::node::store::read::Reader;
use crate::node::store::rebuild;
use crate::node::store::settle;
use crate::protocol::object::decide::Backing;
use crate::protocol::object::decide::Decision;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// A key that is looked at.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub set: usize,
    pub target: ObjectKey,
    /// Versions up to this moment belong to an earlier bucket of the same name.
    pub since_ns: i64,
}

/// How a key is looked at.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Manner {
    /// Every byte is read and compared.
    pub deep: bool,
    /// Only this version.
    pub only: Option<VersionId>,
    /// The bucket is gone: what lies in it goes at once.
    pub removing: bool,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Mended {
    /// Versions looked at.
    pub versions: u64,
    /// Versions brought back on at least one drive.
    pub healed: u64,
    /// Things moved to quarantine.
    pub quarantined: u64,
    /// Versions that nothing could be done for now.
    pub unhealed: u64,
    /// Leftovers that no version suffers from, whose grace has not ended.
    pub waiting: u64,
    /// Problems in words.
    pub problems: Vec<String>,
}

impl Mended {
    /// Whether every drive has everything, and none was missing.
    pub(super) fn is_done(&self) -> bool {
        self.unhealed == 0
    }
}

/// Looks at a key and mends it. A key that is whole is not locked.
pub(super) async fn key(store: &Arc<Store>, subject: &Subject, manner: Manner) -> Mended {
    let Subject { set, target, since_ns } = subject;
    let copies = store.read_copies(*set, target, *since_ns, true, |_| false).await;
    if surplus::is_whole(&copies) && is_sound(store, &copies, manner).await {
        let versions = copies.ids().len() as u64;
        return Mended { versions, ..Mended::default() };
    }
    let lock = match store.lock(&resource(&copies), LockMode::Exclusive).await {
        Ok(lock) => lock,
        Err(error) => {
            let problems = vec![format!("{target}: {error}")];
            return Mended { unhealed: 1, problems, ..Mended::default() };
        }
    };
    let store = Arc::clone(store);
    let mut mender = Mender { store, lock, manner, mended: Mended::default() };
    let copies = settle::complete(&mender.store, *set, target, *since_ns, &mender.lock).await;
    mender.run(copies).await;
    mender.mended
}

/// What is locked for a key: an upload's lock carries its object's key.
fn resource(copies: &Copies) -> ObjectKey {
    let target = &copies.target;
    if !surplus::is_upload(target) {
        return target.clone();
    }
    let metas = copies.copies.iter().filter_map(Copy::meta);
    let mut objects = metas.flat_map(|meta| meta.versions()).filter_map(|it| it.as_object());
    let object = objects.find_map(multipart::target_of);
    upload_resource(target, object.as_ref().map_or("", |object| &object.key))
}

/// Whether every byte of every version is as it should be, if that is asked for.
async fn is_sound(store: &Arc<Store>, copies: &Copies, manner: Manner) -> bool {
    if !manner.deep || surplus::is_upload(&copies.target) {
        return true;
    }
    for (id, _) in copies.ids() {
        if manner.only.is_some_and(|only| only != id) {
            continue;
        }
        let Decision::Present(backing) = copies.decide(id, false) else { return false };
        let is_object = !backing.candidate.marker;
        let apart = BTreeSet::new();
        let bad = verify::bad_slots(store, copies, &backing, &apart);
        if is_object && !bad.await.is_ok_and(|bad| bad.is_empty()) {
            return false;
        }
    }
    true
}

struct Mender {
    store: Arc<Store>,
    lock: Held,
    manner: Manner,
    mended: Mended,
}

impl Mender {
    async fn run(&mut self, mut copies: Copies) {
        if copies.copies.iter().any(surplus::is_corrupt) && self.put_aside(&copies).await {
            copies = self.read_again(&copies).await;
        }
        if self.send_off(&copies).await {
            copies = self.read_again(&copies).await;
        }
        for (id, _) in copies.ids() {
            if self.manner.only.is_some_and(|only| only != id) {
                continue;
            }
            match copies.decide(id, true) {
                Decision::Present(_) if !self.store.parts.rules.brings(id) => {}
                Decision::Present(backing) => {
                    self.mended.versions += 1;
                    self.bring(&copies, &backing).await;
                }
                // What is left of it was seen off, or its grace was found not to have ended.
                Decision::Absent | Decision::Clear => {}
                Decision::Bring(_) | Decision::Open => {
                    self.mended.versions += 1;
                    self.give_up_on(&copies, id);
                }
            }
        }
        let copies = self.read_again(&copies).await;
        let silent = surplus::silent(&copies);
        if silent > 0 {
            self.mended.unhealed += 1;
            self.mended.problems.push(format!("{}: {silent} drives do not answer", copies.target));
        }
        if self.manner.only.is_none() {
            self.clear_up(&copies).await;
        }
    }

    async fn read_again(&self, copies: &Copies) -> Copies {
        let (set, target) = (copies.set, &copies.target);
        self.store.read_copies(set, target, copies.since_ns, true, |_| false).await
    }

    fn fail(&mut self, target: &ObjectKey, id: VersionId, why: &str) {
        self.mended.unhealed += 1;
        self.mended.problems.push(format!("{target} version {id}: {why}"));
    }

    /// A version that cannot be decided. When only drives that are being rebuilt are silent, nobody will ever
    /// say more, and waiting for it would keep them from ending.
    fn give_up_on(&mut self, copies: &Copies, id: VersionId) {
        let target = &copies.target;
        if copies.copies.iter().all(|copy| copy.meta().is_some()) {
            let why = "only what a lost drive had of it could tell whether it is there";
            self.mended.problems.push(format!("{target} version {id}: {why}"));
        } else {
            self.fail(target, id, "too few drives answer to tell whether it is there");
        }
    }

    fn quarantine(&self, copies: &Copies) -> Quarantine {
        Quarantine {
            grant: self.lock.grant(),
            target: copies.target.clone(),
            version: None,
            directories: Vec::new(),
            inline: Vec::new(),
            metadata: false,
        }
    }

    /// Has drives move something to quarantine. Answers whether anything was there.
    async fn move_away(&mut self, set: usize, requests: Vec<(usize, Quarantine)>) -> bool {
        let requests = requests.into_iter().map(|(slot, it)| (slot, DriveRequest::Quarantine(it)));
        let answers = self.store.ask(set, requests.collect::<Vec<_>>()).await;
        let mut any = false;
        for (_, answer) in answers {
            if matches!(answer, Ok(DriveReply::Removed(removed)) if removed.found) {
                any = true;
                self.mended.quarantined += 1;
                self.store.counters.quarantined();
            }
        }
        any
    }

    /// Moves unreadable metadata away, when all that was in it is known from the other drives.
    async fn put_aside(&mut self, copies: &Copies) -> bool {
        if copies.read(Want::All, true).is_err() {
            let why = "its metadata is unreadable on a drive, and the others do not decide it";
            self.fail(&copies.target, VersionId::NULL, why);
            return false;
        }
        let corrupt = (0..copies.copies.len())
            .filter(|slot| surplus::is_corrupt(&copies.copies[*slot]))
            .map(|slot| (slot, Quarantine { metadata: true, ..self.quarantine(copies) }))
            .collect();
        self.move_away(copies.set, corrupt).await
    }

    /// Moves leftovers away, where the grace rules allow it.
    async fn send_off(&mut self, copies: &Copies) -> bool {
        let mut changed = self.purge_markers(copies).await;
        for leftover in surplus::leftovers(copies) {
            let id = leftover.version.id();
            if self.manner.only.is_some_and(|only| only != id) {
                continue;
            }
            let removing = self.manner.removing;
            if let Err(why) = grace::allows(&self.store, copies, &leftover, removing).await {
                self.mended.versions += 1;
                match why {
                    Stays::Grace => self.mended.waiting += 1,
                    Stays::Unproved(_) => self.fail(&copies.target, id, &why.to_string()),
                }
                continue;
            }
            let version = Some(settle::published(&leftover.version));
            let each = leftover.slots.iter();
            let each = each.map(|slot| (*slot, Quarantine { version, ..self.quarantine(copies) }));
            changed |= self.move_away(copies.set, each.collect()).await;
            grace::forget(&self.store, copies.set, &copies.target, &leftover).await;
        }
        changed
    }

    /// What a planted defect does: a marker that not every drive has is taken for dangling.
    async fn purge_markers(&mut self, copies: &Copies) -> bool {
        if self.store.parts.rules.heals_markers() {
            return false;
        }
        let mut changed = false;
        for marker in surplus::partial_markers(copies) {
            let version = Some(settle::published(&marker.version));
            let each = marker.slots.iter();
            let each = each.map(|slot| (*slot, Quarantine { version, ..self.quarantine(copies) }));
            changed |= self.move_away(copies.set, each.collect()).await;
        }
        changed
    }

    /// Brings a version that is there to every drive that answers and lacks it, or has it wrong.
    async fn bring(&mut self, copies: &Copies, backing: &Backing) {
        let (target, id) = (&copies.target, backing.candidate.version);
        let is_upload = surplus::is_upload(target);
        let bad = match (self.manner.deep, is_upload || backing.candidate.marker) {
            (_, true) => Ok(BTreeSet::new()),
            (true, false) => {
                verify::bad_slots(&self.store, copies, backing, &BTreeSet::new()).await
            }
            (false, false) => Ok(surplus::short_slots(copies, backing)),
        };
        let bad = match bad {
            Ok(bad) => bad,
            Err(error) => return self.fail(target, id, &error.to_string()),
        };
        // A newer write that never was acknowledged lies on top: it goes first, when its grace has ended.
        let is_covered = |slot: usize| {
            let moment = copies.version(slot, id).map(|version| version.header().modtime_ns);
            moment.is_some_and(|moment| moment > backing.candidate.modtime_ns)
        };
        let lacks = |slot: &usize| {
            let copy = &copies.copies[*slot];
            let is_wrong = !backing.holders.contains(slot)
                || bad.contains(slot)
                || surplus::is_double(copy, id);
            copy.meta().is_some() && is_wrong && !is_covered(*slot)
        };
        let to = (0..copies.copies.len()).filter(lacks).collect::<Vec<_>>();
        if to.is_empty() {
            return;
        }
        let sources = surplus::sources(backing, &bad);
        let answers = match self.prove(copies, &sources).await {
            Ok(()) => rebuild::rebuild(&self.store, &self.lock, copies, &sources, &to).await,
            Err(error) => Err(error),
        };
        let answers = match answers {
            Ok(answers) => answers,
            Err(error) => return self.fail(target, id, &error.to_string()),
        };
        let took = rebuild::successes(&answers).len();
        let mut replaced = Vec::new();
        for (slot, answer) in &answers {
            if let Ok(DriveReply::Committed(committed)) = answer
                && let Some(data_dir) = committed.old_data_dir
            {
                replaced.push((*slot, self.settle(copies, Vec::new(), vec![data_dir], None)));
            }
        }
        // What stays behind is found as surplus.
        self.store.ask(copies.set, replaced).await;
        if took > 0 {
            self.mended.healed += 1;
            self.store.counters.healed();
        }
        if took < to.len() {
            let why = answers.iter().find_map(|(_, answer)| answer.as_ref().err());
            let why = why.map_or_else(String::new, |why| format!(": {why}"));
            self.fail(target, id, &format!("{took} of {} drives took it{why}", to.len()));
        }
    }

    /// Without a spare shard only the MD5 that was kept tells whether contents are right.
    async fn prove(&self, copies: &Copies, sources: &Backing) -> Result<(), StoreError> {
        let candidate = sources.candidate;
        let shards = sources.holders.len() + sources.keepers.len();
        if candidate.marker || candidate.size == 0 || shards > candidate.data {
            return Ok(());
        }
        read::prove(&mut Reader::new(&self.store, copies, sources)?).await
    }

    fn settle(
        &self,
        copies: &Copies,
        rollbacks: Vec<Uuid>,
        data_dirs: Vec<Uuid>,
        parts: Option<(Uuid, Vec<u32>)>,
    ) -> DriveRequest {
        let (grant, target) = (self.lock.grant(), copies.target.clone());
        DriveRequest::Settle(Settle { grant, target, rollbacks, data_dirs, parts })
    }

    /// Clears what no write needs any more, and moves away what no version uses.
    async fn clear_up(&mut self, copies: &Copies) {
        let mut away = Vec::new();
        for (slot, spare) in surplus::spares(copies).into_iter().enumerate() {
            let Spare { rollbacks, parts, orphans, inline } = spare;
            let mut requests = Vec::new();
            if !rollbacks.is_empty() {
                requests.push((slot, self.settle(copies, rollbacks, Vec::new(), None)));
            }
            for parts in parts {
                requests.push((slot, self.settle(copies, Vec::new(), Vec::new(), Some(parts))));
            }
            for (slot, answer) in self.store.ask(copies.set, requests).await {
                if let Err(error) = answer {
                    let why =
                        format!("{}: drive {slot} keeps what nobody needs: {error}", copies.target);
                    self.mended.unhealed += 1;
                    self.mended.problems.push(why);
                }
            }
            if !orphans.is_empty() || !inline.is_empty() {
                let directories = orphans;
                away.push((slot, Quarantine { directories, inline, ..self.quarantine(copies) }));
            }
        }
        self.move_away(copies.set, away).await;
    }
}
