//! Healing sequences: what a request names is walked and mended, key by key.
//!
//! Everything goes in this order: the system's own objects, the buckets' directories, their keys, open
//! uploads. Where somebody asked for it, drives that were rebuilt by it are whole again then; the scanner leaves
//! that to whoever rebuilds them.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::stream::StreamExt as _;
use tokio::time::Instant;
use uuid::Uuid;

use super::Busy;
use super::grace;
use super::grace::Stays;
use super::mend;
use super::mend::Manner;
use super::mend::Mended;
use super::mend::Subject;
use super::queue;
use super::surplus;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::disk::layout;
use crate::node::seams::BoxFuture;
use crate::node::seams::LockMode;
use crate::node::store::Store;
use crate::node::store::api::HealProgress;
use crate::node::store::api::HealRequest;
use crate::node::store::api::StoreError;
use crate::node::store::bucket;
use crate::node::store::calls::now_ns;
use crate::node::store::calls::upload_resource;
use crate::node::store::copies::Copies;
use crate::node::store::copies::Copy;
use crate::node::store::copies::Want;
use crate::node::store::list::Walker;
use crate::node::store::multipart;
use crate::node::store::rebuild::successes;
use crate::value::ObjectKey;

/// Keys that are mended at once when somebody asked for it.
const AT_ONCE: usize = 8;
/// The longest rest after a key.
const REST_MAX: Duration = Duration::from_secs(60);
/// Problems that are kept in words.
const PROBLEMS_MAX: usize = 50;
/// Sequences that are remembered.
const SEQUENCES_MAX: usize = 100;
const UPLOADS: &str = "multipart/";

/// Begins a sequence.
pub(super) fn begin(store: &Arc<Store>, request: HealRequest) -> Uuid {
    let id = Uuid::now_v7();
    let progress = HealProgress {
        id,
        request: request.clone(),
        running: true,
        began_ns: now_ns(),
        ..HealProgress::default()
    };
    {
        let mut sequences = store.heal.sequences();
        while sequences.len() >= SEQUENCES_MAX {
            let oldest = sequences.iter().find(|(_, it)| !it.running).map(|(id, _)| *id);
            let Some(oldest) = oldest else { break };
            sequences.remove(&oldest);
        }
        sequences.insert(id, progress);
    }
    let store = Arc::clone(store);
    tokio::spawn(async move {
        let _busy = Busy::new(&store.heal.busy);
        let (sets, deep) = ((0..store.sets()).collect(), request.deep);
        let sequence = Sequence { store: Arc::clone(&store), id, deep, sets, pace: Pace::FULL };
        sequence.run(request).await;
        sequence.update(|progress| {
            progress.running = false;
            progress.ended_ns = Some(now_ns());
        });
    });
    id
}

/// Whether a sequence over everything runs that somebody asked for.
pub(super) fn heals_everything(store: &Store) -> bool {
    let scan = store.heal.scan().under_way();
    let sequences = store.heal.sequences();
    let is_asked = |it: &HealProgress| it.running && Some(it.id) != scan;
    sequences.values().any(|it| is_asked(it) && it.request.bucket.is_none())
}

/// How much of the time drives are kept at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pace {
    at_once: usize,
    share_percent: u32,
}

impl Pace {
    const FULL: Self = Self { at_once: AT_ONCE, share_percent: 100 };

    /// One key after the other, so much of the time, from 1 to 100 percent.
    pub(super) fn share(percent: u32) -> Self {
        Self { at_once: 1, share_percent: percent.clamp(1, 100) }
    }

    /// How long drives have for others after they were at work for so long.
    fn rest(self, worked: Duration) -> Duration {
        (worked * (100 - self.share_percent) / self.share_percent).min(REST_MAX)
    }
}

struct Sequence {
    store: Arc<Store>,
    id: Uuid,
    deep: bool,
    /// The sets that it is about.
    sets: Vec<usize>,
    pace: Pace,
}

/// Looks at everything in these sets, at this pace; answers what came of it.
pub(super) async fn scan(
    store: &Arc<Store>,
    id: Uuid,
    sets: Vec<usize>,
    deep: bool,
    pace: Pace,
) -> HealProgress {
    let request = HealRequest { deep, ..HealRequest::default() };
    let began_ns = now_ns();
    let progress = HealProgress { id, request, running: true, began_ns, ..HealProgress::default() };
    store.heal.sequences().insert(id, progress);
    let sequence = Sequence { store: Arc::clone(store), id, deep, sets, pace };
    sequence.everything().await;
    store.heal.sequences().remove(&id).unwrap_or_default()
}

impl Sequence {
    fn update(&self, change: impl FnOnce(&mut HealProgress)) {
        if let Some(progress) = self.store.heal.sequences().get_mut(&self.id) {
            change(progress);
        }
    }

    fn add(&self, mended: Mended) {
        self.update(|progress| {
            progress.keys += 1;
            progress.versions += mended.versions;
            progress.healed += mended.healed;
            progress.quarantined += mended.quarantined;
            progress.unhealed += mended.unhealed;
            progress.waiting += mended.waiting;
            let room = PROBLEMS_MAX.saturating_sub(progress.problems.len());
            progress.problems.extend(mended.problems.into_iter().take(room));
        });
    }

    fn fail(&self, why: String) {
        self.add(Mended { unhealed: 1, problems: vec![why], ..Mended::default() });
    }

    async fn run(&self, request: HealRequest) {
        let HealRequest { bucket, prefix, key, version, .. } = request;
        match (bucket, key) {
            (Some(bucket), Some(key)) => {
                let set = self.store.set_of(&key);
                let manner = Manner { deep: self.deep, only: version, removing: false };
                match queue::subject(&self.store, set, ObjectKey { bucket, key }).await {
                    Ok(subject) => self.add(mend::key(&self.store, &subject, manner).await),
                    Err(error) => self.fail(error.to_string()),
                }
            }
            (Some(bucket), None) => {
                let target = bucket::record_key(&bucket);
                let set = self.store.set_of(&target.key);
                let record = Subject { set, target, since_ns: 0 };
                self.add(mend::key(&self.store, &record, self.manner()).await);
                self.bucket(&bucket, &prefix).await;
            }
            (None, _) => {
                let began_with = self.online();
                self.everything().await;
                let left = self.store.heal.sequences().get(&self.id).map_or(1, |it| it.unhealed);
                if left == 0 && began_with == self.online() {
                    self.finish_rebuilds(&began_with).await;
                }
            }
        }
    }

    fn manner(&self) -> Manner {
        Manner { deep: self.deep, ..Manner::default() }
    }

    async fn everything(&self) {
        for set in self.sets.iter().copied() {
            self.keys(set, layout::SYSTEM, "", 0).await;
        }
        for set in self.sets.iter().copied() {
            // Before their keys are looked at, where what was moved there would be taken for garbage.
            self.take_back(set).await;
        }
        for bucket in bucket_names(&self.store).await {
            self.bucket(&bucket, "").await;
        }
        for set in self.sets.iter().copied() {
            self.uploads(set).await;
        }
    }

    /// Drives that take work, by set.
    fn online(&self) -> Vec<Vec<bool>> {
        let of_set = |set| self.store.drives(set).iter().map(|drive| drive.is_online()).collect();
        (0..self.store.sets()).map(of_set).collect()
    }

    /// Mends a bucket: its directories, then its keys.
    async fn bucket(&self, name: &str, prefix: &str) {
        for set in self.sets.iter().copied() {
            let since_ns = match queue::bucket_since(&self.store, set, name).await {
                Ok(since_ns) => since_ns,
                Err(error) => return self.fail(format!("bucket {name}: {error}")),
            };
            let is_there = since_ns.is_some();
            let answers = self.store.ask_all(set, &DriveRequest::ListBuckets).await;
            let differs = answers.iter().any(|(_, answer)| match answer {
                Ok(DriveReply::Buckets(entries)) => {
                    entries.iter().any(|entry| entry.name == name) != is_there
                }
                _ => false,
            });
            if differs && !queue::bucket_directories(&self.store, set, name).await {
                self.fail(format!(
                    "the directory of bucket {name} is not as it should be everywhere"
                ));
            }
            if let Some(since_ns) = since_ns {
                self.keys(set, name, prefix, since_ns).await;
            }
        }
    }

    /// Mends every key of a bucket on one set.
    async fn keys(&self, set: usize, bucket: &str, prefix: &str, since_ns: i64) {
        let mut walker = Walker::new(&self.store, set, bucket, prefix, "", since_ns);
        let mut working = FuturesUnordered::<BoxFuture<'_, Mended>>::new();
        loop {
            let copies = match walker.next().await {
                Ok(Some(copies)) => copies,
                Ok(None) => break,
                Err(error) => {
                    self.fail(format!("the keys of {bucket} cannot be walked: {error}"));
                    break;
                }
            };
            let target = copies.target;
            if surplus::is_upload(&target) {
                walker.skip_to(&format!("{UPLOADS}{}", char::MAX));
                continue;
            }
            if self.store.set_of(&target.key) != set {
                self.fail(format!("{target} lies in set {set}, where it does not belong"));
                continue;
            }
            let (subject, manner) = (Subject { set, target, since_ns }, self.manner());
            working.push(Box::pin(async move { self.mend(&subject, manner).await }));
            while working.len() >= self.pace.at_once {
                if let Some(mended) = working.next().await {
                    self.add(mended);
                }
            }
        }
        while let Some(mended) = working.next().await {
            self.add(mended);
        }
    }

    /// Mends one key, then leaves its drives to others for a while.
    async fn mend(&self, subject: &Subject, manner: Manner) -> Mended {
        let began = Instant::now();
        let mended = mend::key(&self.store, subject, manner).await;
        tokio::time::sleep(self.pace.rest(began.elapsed())).await;
        mended
    }

    /// Gives open uploads their parts back whose completion was interrupted.
    async fn take_back(&self, set: usize) {
        let mut walker = Walker::new(&self.store, set, layout::SYSTEM, UPLOADS, "", 0);
        loop {
            let copies = match walker.next().await {
                Ok(Some(copies)) => copies,
                Ok(None) => return,
                // Told when they are mended.
                Err(_) => return,
            };
            let Ok(found) = copies.read(Want::Latest, true) else { continue };
            let Some(object) = found.first().and_then(|it| it.version.as_object()) else {
                continue;
            };
            let Some(target) = multipart::target_of(object) else { continue };
            let resource = upload_resource(&copies.target, &target.key);
            let Ok(_lock) = self.store.lock(&resource, LockMode::Exclusive).await else { continue };
            match multipart::take_back(&self.store, &copies.target, object).await {
                // Of a bucket that is gone everything goes.
                Ok(()) | Err(StoreError::NoSuchBucket(_)) => {}
                Err(error) => self.fail(format!("{target}: its upload: {error}")),
            }
        }
    }

    /// Mends open uploads, and removes those that are completed, or nobody's.
    async fn uploads(&self, set: usize) {
        let mut walker = Walker::new(&self.store, set, layout::SYSTEM, UPLOADS, "", 0);
        loop {
            let key = match walker.next().await {
                Ok(Some(copies)) => copies.target,
                Ok(None) => return,
                Err(error) => return self.fail(format!("the uploads cannot be walked: {error}")),
            };
            let copies = self.store.read_copies(set, &key, 0, true, |_| false).await;
            let may_go = match copies.read(Want::Latest, true) {
                Ok(found) if found.is_empty() => self.is_nobodys(&copies).await,
                Ok(_) => self.is_completed(&copies).await,
                Err(_) => false,
            };
            if may_go {
                if !remove_upload(&self.store, set, &key).await {
                    self.fail(format!("{key} was not removed from every drive"));
                }
                continue;
            }
            let subject = Subject { set, target: key, since_ns: 0 };
            self.add(self.mend(&subject, self.manner()).await);
        }
    }

    /// Whether what is left of an upload that no quorum has may be removed.
    async fn is_nobodys(&self, copies: &Copies) -> bool {
        if !surplus::all_speak(copies) {
            return false;
        }
        for leftover in surplus::leftovers(copies) {
            let allowed = grace::allows(&self.store, copies, &leftover, false).await;
            match allowed {
                Ok(()) => continue,
                Err(Stays::Grace) => self.add(Mended { waiting: 1, ..Mended::default() }),
                Err(why) => self.fail(format!("{}: {why}", copies.target)),
            }
            return false;
        }
        true
    }

    /// Whether the upload's object is there already.
    async fn is_completed(&self, copies: &Copies) -> bool {
        let Ok(found) = copies.read(Want::Latest, true) else { return false };
        let Some(upload) = found.first().and_then(|it| it.version.as_object()) else {
            return false;
        };
        let Some(target) = multipart::target_of(upload) else { return false };
        let subject = queue::subject(&self.store, copies.set, target).await;
        let Ok(Subject { set, target, since_ns }) = subject else { return false };
        let there = self.store.read_copies(set, &target, since_ns, false, |_| false).await;
        let Ok(found) = there.read(Want::All, false) else { return false };
        let mut objects = found.iter().filter_map(|it| it.version.as_object());
        objects.any(|object| object.data_dir == upload.data_dir)
    }

    /// Drives that were being rebuilt, in sets where everyone was there all along, are whole again.
    async fn finish_rebuilds(&self, online: &[Vec<bool>]) {
        for (set, drives) in online.iter().enumerate() {
            if drives.contains(&false) {
                continue;
            }
            for (slot, answer) in self.store.ask_all(set, &DriveRequest::Facts).await {
                if !matches!(answer, Ok(DriveReply::Facts(facts)) if facts.rebuilding) {
                    continue;
                }
                let finish = [(slot, DriveRequest::FinishRebuild)];
                for (slot, answer) in self.store.ask(set, finish).await {
                    match answer {
                        Ok(_) => tracing::info!(set, slot, "a drive is whole again"),
                        Err(error) => self.fail(format!("drive {slot} of set {set}: {error}")),
                    }
                }
            }
        }
    }
}

/// Every name that is a bucket's directory on any drive, or may be a bucket's by its record.
pub(super) async fn bucket_names(store: &Arc<Store>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for set in 0..store.sets() {
        for (_, answer) in store.ask_all(set, &DriveRequest::ListBuckets).await {
            let Ok(DriveReply::Buckets(entries)) = answer else { continue };
            names.extend(entries.into_iter().map(|entry| entry.name));
        }
        let mut walker = Walker::new(store, set, layout::SYSTEM, "buckets/", "", 0);
        while let Ok(Some(copies)) = walker.next().await {
            let name = copies.target.key.strip_prefix("buckets/");
            let name = name.and_then(|rest| rest.strip_suffix("/.metadata.bin"));
            names.extend(name.map(str::to_owned));
        }
    }
    names.retain(|name| layout::check_bucket(name).is_ok());
    names
}

/// Removes an upload from every drive. Answers whether they all are without it.
pub(super) async fn remove_upload(store: &Arc<Store>, set: usize, upload: &ObjectKey) -> bool {
    let copies = store.read_copies(set, upload, 0, false, |_| false).await;
    let metas = copies.copies.iter().filter_map(Copy::meta);
    let mut objects = metas.flat_map(|meta| meta.versions()).filter_map(|it| it.as_object());
    let object = objects.find_map(multipart::target_of);
    let resource = upload_resource(upload, object.as_ref().map_or("", |object| &object.key));
    let Ok(lock) = store.lock(&resource, LockMode::Exclusive).await else { return false };
    let request = DriveRequest::RemoveUpload { grant: lock.grant(), upload: upload.clone() };
    let answers = store.ask_all(set, &request).await;
    successes(&answers).len() == answers.len()
}

/// Moves away what lies in the directories of a bucket that is gone, on one set.
pub(super) async fn clear_bucket(store: &Arc<Store>, set: usize, bucket: &str) {
    let mut keys = BTreeSet::new();
    let mut after =
        (0..store.drives(set).len()).map(|slot| (slot, String::new())).collect::<BTreeMap<_, _>>();
    // Each drive by itself: most of them have no such bucket any more.
    while !after.is_empty() {
        let request = |(slot, after): (&usize, &String)| {
            let walk = DriveRequest::Walk {
                bucket: bucket.to_owned(),
                prefix: String::new(),
                after: after.clone(),
                limit: 1000,
            };
            (*slot, walk)
        };
        let requests = after.iter().map(request).collect::<Vec<_>>();
        for (slot, answer) in store.ask(set, requests).await {
            match answer {
                Ok(DriveReply::Page(page)) if !page.entries.is_empty() => {
                    let last = page.entries.last().map(|entry| entry.key.clone());
                    keys.extend(page.entries.into_iter().map(|entry| entry.key));
                    match last.filter(|_| !page.complete) {
                        Some(last) => drop(after.insert(slot, last)),
                        None => drop(after.remove(&slot)),
                    }
                }
                _ => drop(after.remove(&slot)),
            }
        }
    }
    for key in keys {
        let target = ObjectKey { bucket: bucket.to_owned(), key };
        let subject = Subject { set, target, since_ns: i64::MAX };
        let manner = Manner { removing: true, ..Manner::default() };
        mend::key(store, &subject, manner).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drives_are_left_to_others_for_the_rest_of_the_time() {
        let worked = Duration::from_millis(30);
        assert_eq!(Pace::share(10).rest(worked), Duration::from_millis(270));
        assert_eq!(Pace::share(100).rest(worked), Duration::ZERO);
        assert_eq!(Pace::share(1).rest(Duration::from_secs(10)), REST_MAX);
        assert_eq!(Pace::FULL.rest(worked), Duration::ZERO);
    }
}
