//! The durable queue: what writes left behind is finished as soon as the drives that lacked it are back.
//!
//! An entry stands on the drives that took the write. The node that owns the first of them that is online
//! works it off and then takes it off all of them; doing it twice does no harm. The first may have been out
//! of reach when the entry was made and not have it, so that after a while whoever has it works it off.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::stream;
use futures::stream::StreamExt as _;
use serde::Deserialize;
use serde::Serialize;
use tokio::time::Instant;
use uuid::Uuid;

use super::Unfinished;
use super::mend;
use super::mend::Manner;
use super::mend::Mended;
use super::mend::Subject;
use super::sequence;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::QueueEntry;
use crate::disk::drive::Remove;
use crate::disk::drive::Settle;
use crate::disk::layout;
use crate::node::seams::LockMode;
use crate::node::store::Store;
use crate::node::store::api::StoreError;
use crate::node::store::calls::bucket_resource;
use crate::node::store::rebuild::successes;
use crate::value::ObjectKey;

/// Entries that are read from one drive at once.
const READ: u32 = 512;
/// Entries that are worked off at once.
const AT_ONCE: usize = 4;
/// While no drive comes or goes, an entry is tried again after so long.
const RETRY: Duration = Duration::from_secs(5);
/// What readers stumbled over, at most.
const SUSPECTS_MAX: usize = 10_000;

/// What stands in an entry.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Noted {
    format: u32,
    set: usize,
    holders: Vec<usize>,
    work: Unfinished,
}

/// What is remembered of entries between rounds.
#[derive(Default)]
pub(super) struct Tried {
    /// When they were last tried, and who was online then.
    last: BTreeMap<Uuid, (Instant, Vec<usize>)>,
    /// When they were first seen here.
    seen: BTreeMap<Uuid, Instant>,
}

/// Notes unfinished work durably on the drives `took` of `set`, which took the write. Answers on how many
/// drives it stands; callers go on when it is none.
///
/// What a reader met is not a write's debt: it is only remembered, once, until it was looked at.
pub(in crate::node::store) async fn enqueue(
    store: &Store,
    set: usize,
    took: &[usize],
    work: Unfinished,
) -> usize {
    if matches!(work, Unfinished::Contents { .. }) {
        let mut suspects = store.heal.suspects();
        if suspects.len() < SUSPECTS_MAX {
            suspects.insert((set, work));
        }
        return 0;
    }
    // With nobody who surely took it, everybody who can keeps it.
    let holders: Vec<usize> = match took {
        [] => (0..store.drives(set).len()).collect(),
        took => took.to_vec(),
    };
    let noted = Noted { format: 1, set, holders: holders.clone(), work };
    let body = serde_json::to_vec(&noted).expect("a note has text keys only");
    let entry = QueueEntry { id: Uuid::new_v4(), body };
    let requests = holders.iter().map(|slot| (*slot, DriveRequest::QueuePut(entry.clone())));
    successes(&store.ask(set, requests.collect::<Vec<_>>()).await).len()
}

/// Works off what can be worked off now.
pub(super) async fn work_off(store: &Arc<Store>, tried: &mut Tried) {
    let mut left = 0;
    let mut alive = Vec::new();
    for set in 0..store.sets() {
        let drives = store.drives(set);
        let online = (0..drives.len()).filter(|slot| drives[*slot].is_online());
        let online = online.collect::<Vec<_>>();
        let is_local = |slot: &usize| store.parts.local.contains(&(set, *slot));
        let local = online.iter().copied().filter(is_local).collect::<Vec<_>>();
        let entries = read(store, set, &local).await;
        alive.extend(entries.keys().copied());
        let mut waiting = entries.len() as u64;
        store.heal.queued.store(left + waiting, Ordering::Relaxed);
        for id in entries.keys() {
            tried.seen.entry(*id).or_insert_with(Instant::now);
        }
        let is_ours = |id: &Uuid, noted: &Noted| {
            let first = noted.holders.iter().find(|slot| online.contains(slot));
            first.is_some_and(|slot| local.contains(slot)) || tried.seen[id].elapsed() >= RETRY
        };
        let is_due = |id: &Uuid| {
            tried.last.get(id).is_none_or(|(at, with)| at.elapsed() >= RETRY || *with != online)
        };
        let due = entries.into_iter().filter(|(id, noted)| is_ours(id, noted) && is_due(id));
        let due = due.collect::<Vec<_>>();
        let work = due.into_iter().map(|(id, noted)| async move {
            let done = finish(store, set, noted.work).await;
            if done {
                let request = DriveRequest::QueueDone { ids: vec![id] };
                let holders = noted.holders.into_iter().map(|slot| (slot, request.clone()));
                store.ask(set, holders.collect::<Vec<_>>()).await;
            }
            (id, done)
        });
        let mut work = stream::iter(work).buffer_unordered(AT_ONCE);
        while let Some((id, done)) = work.next().await {
            if done {
                tried.last.remove(&id);
                waiting = waiting.saturating_sub(1);
                store.heal.queued.store(left + waiting, Ordering::Relaxed);
            } else {
                tried.last.insert(id, (Instant::now(), online.clone()));
            }
        }
        left += waiting;
    }
    store.heal.queued.store(left, Ordering::Relaxed);
    tried.last.retain(|id, _| alive.contains(id));
    tried.seen.retain(|id, _| alive.contains(id));
}

/// The entries on this node's drives of a set.
async fn read(store: &Store, set: usize, local: &[usize]) -> BTreeMap<Uuid, Noted> {
    let mut entries = BTreeMap::new();
    let requests = local.iter().map(|slot| (*slot, DriveRequest::QueueRead { limit: READ }));
    for (_, answer) in store.ask(set, requests.collect::<Vec<_>>()).await {
        let Ok(DriveReply::Queue(read)) = answer else { continue };
        for entry in read {
            match serde_json::from_slice::<Noted>(&entry.body) {
                Ok(noted) if noted.format == 1 => drop(entries.insert(entry.id, noted)),
                _ => tracing::warn!(id = %entry.id, "an entry of the queue cannot be read"),
            }
        }
    }
    entries
}

/// Does one piece of work. Answers whether every drive of the set has it behind it.
pub(super) async fn finish(store: &Arc<Store>, set: usize, work: Unfinished) -> bool {
    let (target, manner) = match work {
        Unfinished::Version { target, version } => {
            (target, Manner { only: Some(version), ..Manner::default() })
        }
        Unfinished::Contents { target, version } => {
            (target, Manner { only: Some(version), deep: true, ..Manner::default() })
        }
        Unfinished::Key { target } => (target, Manner::default()),
        Unfinished::Removal { target, version, before_ns } => {
            return finish_removal(store, set, &target, version, before_ns).await;
        }
        Unfinished::Upload { upload, .. } => {
            return sequence::remove_upload(store, set, &upload).await;
        }
        Unfinished::Bucket { bucket } => return bucket_directories(store, set, &bucket).await,
    };
    match subject(store, set, target).await {
        Ok(subject) => {
            let mended = mend::key(store, &subject, manner).await;
            log(&mended);
            mended.is_done()
        }
        Err(_) => false,
    }
}

fn log(mended: &Mended) {
    for problem in &mended.problems {
        tracing::debug!(problem, "not healed");
    }
}

/// A key with the moment since which its bucket is there; of a bucket that is gone everything is older.
///
/// # Errors
///
/// Nobody can say whether there is the bucket.
pub(super) async fn subject(
    store: &Arc<Store>,
    set: usize,
    target: ObjectKey,
) -> Result<Subject, StoreError> {
    if target.bucket == layout::SYSTEM {
        return Ok(Subject { set, target, since_ns: 0 });
    }
    match store.bucket_of(&target.bucket).await {
        Ok(bucket) => Ok(Subject { set, target, since_ns: bucket.since_ns() }),
        Err(StoreError::NoSuchBucket(_)) => Ok(Subject { set, target, since_ns: i64::MAX }),
        Err(error) => Err(error),
    }
}

/// The moment since which a bucket is there; `None` when it is gone.
///
/// # Errors
///
/// Nobody can say whether there is the bucket.
pub(super) async fn bucket_since(
    store: &Arc<Store>,
    set: usize,
    bucket: &str,
) -> Result<Option<i64>, StoreError> {
    let probe = ObjectKey { bucket: bucket.to_owned(), key: "-".to_owned() };
    let since_ns = subject(store, set, probe).await?.since_ns;
    Ok((since_ns < i64::MAX).then_some(since_ns))
}

/// Repeats a delete on the drives that missed it.
async fn finish_removal(
    store: &Arc<Store>,
    set: usize,
    target: &ObjectKey,
    version: crate::value::VersionId,
    before_ns: i64,
) -> bool {
    let Ok(lock) = store.lock(target, LockMode::Exclusive).await else { return false };
    let rollback = Uuid::new_v4();
    let remove = DriveRequest::Remove(Remove {
        grant: lock.grant(),
        target: target.clone(),
        version,
        before_ns,
        rollback,
        under: Vec::new(),
    });
    let answers = store.ask_all(set, &remove).await;
    let mut all = successes(&answers).len() == answers.len();
    let mut settles = Vec::new();
    for (slot, answer) in answers {
        let Ok(DriveReply::Removed(removed)) = answer else { continue };
        if removed.found {
            let settle = Settle {
                grant: lock.grant(),
                target: target.clone(),
                rollbacks: vec![rollback],
                data_dirs: Vec::from_iter(removed.old_data_dir),
                parts: None,
            };
            settles.push((slot, DriveRequest::Settle(settle)));
        }
    }
    let settled = store.ask(set, settles).await;
    all &= settled.iter().all(|(_, answer)| answer.is_ok());
    all
}

/// Has every drive of a set have a bucket's directory, or none. Answers whether they all do.
pub(super) async fn bucket_directories(store: &Arc<Store>, set: usize, bucket: &str) -> bool {
    let resource = bucket_resource(bucket);
    let Ok(lock) = store.lock(&resource, LockMode::Exclusive).await else { return false };
    let (grant, name) = (lock.grant(), bucket.to_owned());
    let request = match store.bucket_of(bucket).await {
        Ok(_) => DriveRequest::MakeBucket { grant, bucket: name },
        Err(StoreError::NoSuchBucket(_)) => {
            sequence::clear_bucket(store, set, bucket).await;
            DriveRequest::RemoveBucket { grant, bucket: name }
        }
        Err(_) => return false,
    };
    let answers = store.ask_all(set, &request).await;
    successes(&answers).len() == answers.len()
}
