//! Publishing a version whose contents are in place: the part of a PUT, a copy and a completed upload that
//! happens under the key's lock.

use std::sync::Arc;

use uuid::Uuid;

use super::Store;
use super::api::PutOutcome;
use super::api::StoreError;
use super::calls::Held;
use super::calls::now_ns;
use super::copies::Copies;
use super::copies::Want;
use super::describe;
use super::heal;
use super::heal::Unfinished;
use super::land::Landed;
use super::land::Launch;
use super::land::land;
use super::settle;
use crate::disk::drive::Commit;
use crate::disk::drive::CommitKind;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::Grant;
use crate::disk::drive::Settle;
use crate::disk::drive::Shards;
use crate::disk::drive::Staging;
use crate::disk::drive::Undo;
use crate::disk::drive::rollback_folder;
use crate::disk::format::xl_meta::ObjectBody;
use crate::disk::format::xl_meta::Version;
use crate::node::seams::LockMode;
use crate::protocol::crash_point::CrashPoint;
use crate::protocol::object::condition::Conditions;
use crate::protocol::object::condition::Current;
use crate::protocol::object::decide::Decision;
use crate::protocol::object::quorum;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// A version that is about to be published.
pub(super) struct Publish {
    pub(super) target: ObjectKey,
    /// What is locked.
    pub(super) resource: ObjectKey,
    pub(super) set: usize,
    /// Versions up to this moment belong to an earlier bucket.
    pub(super) since_ns: i64,
    pub(super) kind: CommitKind,
    pub(super) conditions: Conditions,
    /// All but its moment and shard.
    pub(super) object: ObjectBody,
    pub(super) source: Source,
    /// Whether the answer names the version.
    pub(super) names_version: bool,
    /// Other locks that must still be held when it lands on a drive.
    pub(super) under: Vec<Grant>,
}

/// Where the contents are.
#[derive(Clone)]
pub(super) enum Source {
    /// Framed shards, by shard.
    Inline(Vec<Vec<u8>>),
    /// Staged on these drives.
    Staged(Staging, Vec<usize>),
    /// In an open upload, on these drives; of its parts only those listed are kept.
    Upload(ObjectKey, Vec<usize>, Vec<u32>),
}

/// What became of it, with the drives that took it.
pub(super) struct Published {
    pub(super) outcome: PutOutcome,
    pub(super) took: Vec<usize>,
}

/// Publishes. Goes on to its end even when the caller goes away.
///
/// # Errors
///
/// As [`land`] has them, and `Condition`, `Lock`.
pub(super) async fn publish(store: &Arc<Store>, publish: Publish) -> Result<Published, StoreError> {
    let target = publish.target.clone();
    let task = tokio::spawn(publish_locked(Arc::clone(store), publish));
    match task.await {
        Ok(result) => result,
        Err(_) => Err(store.unknown(&target, "the write was torn down", 0)),
    }
}

async fn publish_locked(store: Arc<Store>, publish: Publish) -> Result<Published, StoreError> {
    let Publish { target, resource, set, since_ns, kind, conditions, .. } = publish;
    let Publish { mut object, source, names_version, under, .. } = publish;
    let asked = quorum::write(object.data, object.parity);
    let quorum = store.needed(asked);
    let lock = store.lock(&resource, LockMode::Exclusive).await?;
    let mut copies = store.read_copies_to_write(set, &target, since_ns, quorum, false).await?;
    if !conditions.is_empty() {
        copies = judge(&store, &conditions, copies, &lock).await?;
        store.pass(CrashPoint::ConditionChecked, &target).await;
    }
    let decided = is_decided(&store, &mut copies, object.version, &lock).await;
    store.remake_bucket(&copies).await?;

    object.modtime_ns = store.parts.rules.moment_ns(now_ns(), copies.newest_ns(), since_ns);
    let outcome = PutOutcome {
        etag: object.etag().to_owned(),
        version: names_version.then_some(object.version),
        size: object.size,
        modtime_ns: object.modtime_ns,
        checksums: describe::checksums(&object),
    };
    let (id, data_dir) = (object.version, object.data_dir);
    let (upload, parts) = match &source {
        Source::Upload(upload, _, parts) => (Some(upload.clone()), Some((data_dir, parts.clone()))),
        Source::Inline(_) | Source::Staged(..) => (None, None),
    };
    let requests = requests(&store, &lock, &target, set, object, source, kind, decided, under);
    let published = crate::disk::drive::Published {
        version: id,
        modtime_ns: outcome.modtime_ns,
        data_dir: Some(data_dir),
    };
    let undo = undo_on(&lock, &copies, published, upload);
    let unfinished = Unfinished::Version { target: target.clone(), version: id };
    let launch = Launch { set, target: target.clone(), requests, quorum, undo, unfinished };
    let landed = land(&store, &lock, launch).await?;
    note_divergence(&store, set, &target, &landed.done).await;
    let point = match kind {
        CommitKind::Put => Some(CrashPoint::PutBeforeAnswer),
        CommitKind::Multipart => Some(CrashPoint::MultipartBeforeAnswer),
        CommitKind::Delete | CommitKind::Heal | CommitKind::Quiet => None,
    };
    if let Some(point) = point {
        store.pass(point, &target).await;
    }
    let took = landed.slots();
    tokio::spawn(clear_up(store, set, target, lock, landed, Kept { rollbacks: Vec::new(), parts }));
    Ok(Published { outcome, took })
}

#[expect(clippy::too_many_arguments, reason = "called once, and each is a thing of its own")]
fn requests(
    store: &Store,
    lock: &Held,
    target: &ObjectKey,
    set: usize,
    object: ObjectBody,
    source: Source,
    kind: CommitKind,
    decided: bool,
    under: Vec<Grant>,
) -> Vec<(usize, DriveRequest)> {
    let able: Vec<usize> = match &source {
        Source::Inline(_) => (0..store.drives(set).len()).collect(),
        Source::Staged(_, able) | Source::Upload(_, able, _) => able.clone(),
    };
    let (distribution, data_dir, is_inline) =
        (object.distribution.clone(), object.data_dir, object.is_inline());
    let version = Version::object(object);
    let request = |slot: usize| {
        let shard = usize::from(distribution[slot]);
        let version = version.for_shard(shard).expect("it was made as an object");
        let shards = match &source {
            Source::Inline(shards) if is_inline => Shards::Inline(shards[shard - 1].clone()),
            Source::Inline(_) => Shards::None,
            Source::Staged(staging, _) => Shards::Staged(*staging),
            Source::Upload(upload, ..) => Shards::Upload { upload: upload.clone(), data_dir },
        };
        let commit = Commit {
            grant: lock.grant(),
            target: target.clone(),
            header: version.header_bytes().to_vec(),
            body: version.body_bytes().to_vec(),
            shards,
            kind,
            decided,
            under: under.clone(),
        };
        (slot, DriveRequest::Commit(Box::new(commit)))
    };
    let drives = store.drives(set);
    able.into_iter().filter(|slot| drives[*slot].is_online()).map(request).collect()
}

/// How to take a publication back: by what the drive answered, or by what it held before.
pub(super) fn undo_on(
    lock: &Held,
    copies: &Copies,
    published: crate::disk::drive::Published,
    upload: Option<ObjectKey>,
) -> super::land::UndoOn {
    let (grant, target) = (lock.grant(), copies.target.clone());
    let before: Vec<Option<Uuid>> = copies
        .copies
        .iter()
        .map(|copy| copy.meta()?.find(published.version).map(rollback_folder))
        .collect();
    Box::new(move |slot, reply| {
        let rollback = match reply {
            Some(DriveReply::Committed(committed)) => committed.rollback,
            _ => before[slot],
        };
        Undo {
            grant: grant.clone(),
            target: target.clone(),
            published: Some(published),
            rollback,
            quarantine: false,
            upload: upload.clone(),
        }
    })
}

/// Judges conditions against the latest version. Answers the copies that it was judged by.
async fn judge(
    store: &Arc<Store>,
    conditions: &Conditions,
    mut copies: Copies,
    lock: &Held,
) -> Result<Copies, StoreError> {
    if copies.read(Want::Latest, true).is_err() {
        copies = settle::settle(store, copies.set, &copies.target, copies.since_ns, lock).await;
    }
    let Ok(found) = copies.read(Want::Latest, true) else {
        return Err(store.cannot_read(&copies));
    };
    let current = found.first().and_then(|found| {
        let object = found.version.as_object()?;
        Some(Current { etag: object.etag().to_owned(), modtime_ns: object.modtime_ns })
    });
    conditions.judge_write(current.as_ref()).map_err(|unmet| StoreError::Condition {
        target: copies.target.clone(),
        unmet,
        current: current.map(|it| (it.etag, it.modtime_ns)),
    })?;
    Ok(copies)
}

/// Whether what stands under an id is known; what can be decided is decided on the way.
pub(super) async fn is_decided(
    store: &Arc<Store>,
    copies: &mut Copies,
    id: VersionId,
    lock: &Held,
) -> bool {
    let is_known = |copies: &Copies| {
        matches!(copies.decide(id, true), Decision::Present(_) | Decision::Absent)
    };
    if is_known(copies) {
        return true;
    }
    if copies.decide(id, true) != Decision::Open {
        *copies = settle::settle(store, copies.set, &copies.target, copies.since_ns, lock).await;
    }
    is_known(copies)
}

/// Leaves the key to healing when the drives that took a write then hold different versions.
pub(super) async fn note_divergence(
    store: &Store,
    set: usize,
    target: &ObjectKey,
    done: &[(usize, DriveReply)],
) {
    let digests: Vec<u64> = done
        .iter()
        .filter_map(|(_, reply)| match reply {
            DriveReply::Committed(committed) => Some(committed.versions),
            _ => None,
        })
        .collect();
    if digests.windows(2).any(|pair| pair[0] != pair[1]) {
        let work = Unfinished::Key { target: target.clone() };
        let slots: Vec<_> = done.iter().map(|(slot, _)| *slot).collect();
        heal::enqueue(store, set, &slots, work).await;
    }
}

/// What a write left behind on every drive that took it, besides what the drive says itself.
#[derive(Default)]
pub(super) struct Kept {
    /// Where the metadata before a delete lies.
    pub(super) rollbacks: Vec<Uuid>,
    /// The parts of a completed upload that are its object's.
    pub(super) parts: Option<(Uuid, Vec<u32>)>,
}

/// Clears what was kept in case the write had to be taken back, and then gives the lock back.
pub(super) async fn clear_up(
    store: Arc<Store>,
    set: usize,
    target: ObjectKey,
    lock: Held,
    landed: Landed,
    kept: Kept,
) {
    let Landed { done, late } = landed;
    let settle = |slot: usize, reply: &DriveReply| {
        let mut settle = Settle {
            grant: lock.grant(),
            target: target.clone(),
            rollbacks: kept.rollbacks.clone(),
            data_dirs: Vec::new(),
            parts: kept.parts.clone(),
        };
        match reply {
            DriveReply::Committed(committed) => {
                settle.rollbacks.extend(committed.rollback);
                settle.data_dirs.extend(committed.old_data_dir);
            }
            DriveReply::Removed(removed) if removed.found => {
                settle.data_dirs.extend(removed.old_data_dir);
            }
            _ => return None,
        }
        let is_empty = settle.rollbacks.is_empty() && settle.data_dirs.is_empty();
        (!is_empty || settle.parts.is_some()).then_some((slot, DriveRequest::Settle(settle)))
    };
    let requests: Vec<_> = done.iter().filter_map(|(slot, reply)| settle(*slot, reply)).collect();
    let mut settled = store.ask(set, requests).await;
    let mut late = late;
    while let Some((slot, answer)) = futures::StreamExt::next(&mut late).await {
        if let Ok(reply) = answer
            && let Some(request) = settle(slot, &reply)
        {
            settled.extend(store.ask(set, [request]).await);
        }
    }
    let kept = settled.into_iter().filter_map(|(slot, answer)| Some((slot, answer.err()?)));
    let kept = kept.inspect(|(slot, error)| tracing::info!(%target, slot, %error, "not cleared"));
    let slots: Vec<_> = kept.map(|(slot, _)| slot).collect();
    if !slots.is_empty() {
        heal::enqueue(&store, set, &slots, Unfinished::Key { target }).await;
    }
}
