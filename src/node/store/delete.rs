//! DELETE: takes a version out, puts a marker in, or both at once.

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;
use uuid::Uuid;

use super::Store;
use super::api::DeleteOutcome;
use super::api::DeleteRequest;
use super::api::StoreError;
use super::calls::Held;
use super::calls::now_ns;
use super::copies::Copies;
use super::copies::Want;
use super::heal::Unfinished;
use super::land::Launch;
use super::land::land;
use super::publish::Kept;
use super::publish::clear_up;
use super::publish::is_decided;
use super::publish::note_divergence;
use super::publish::undo_on;
use super::put::fresh_version;
use super::settle;
use crate::disk::drive::Commit;
use crate::disk::drive::CommitKind;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::Grant;
use crate::disk::drive::Published;
use crate::disk::drive::Remove;
use crate::disk::drive::Shards;
use crate::disk::drive::Undo;
use crate::disk::format::xl_meta::Version;
use crate::disk::layout;
use crate::node::seams::LockMode;
use crate::protocol::crash_point::CrashPoint;
use crate::protocol::object::condition::Conditions;
use crate::protocol::object::condition::Current;
use crate::protocol::object::condition::Standing;
use crate::protocol::object::decide::Decision;
use crate::protocol::object::effect;
use crate::protocol::object::effect::BucketState;
use crate::protocol::object::effect::DeleteEffect;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// Deletes of one request that are under way at once.
const AT_ONCE: usize = 8;

/// Deletes many; answers stand in the order of the requests.
pub(super) async fn delete_many(
    store: &Arc<Store>,
    requests: Vec<DeleteRequest>,
) -> Vec<Result<DeleteOutcome, StoreError>> {
    let each = requests.into_iter().map(|request| delete(store, request));
    stream::iter(each).buffered(AT_ONCE).collect().await
}

/// Deletes an object or a version.
pub(super) async fn delete(
    store: &Arc<Store>,
    request: DeleteRequest,
) -> Result<DeleteOutcome, StoreError> {
    let DeleteRequest { target, version, conditions } = request;
    layout::check_key(&target.key)?;
    let bucket = store.bucket_of(&target.bucket).await?;
    let is_directory = layout::is_directory_key(&target.key);
    let effect = effect::delete(bucket.state, is_directory, version, fresh_version());
    let delete = Delete {
        set: store.set_of(&target.key),
        since_ns: bucket.since_ns(),
        names_version: version.is_some() || bucket.state != BucketState::Unversioned,
        point: Some(CrashPoint::DeleteBeforeAnswer),
        target,
        named: version,
        conditions,
        effect,
        under: Vec::new(),
    };
    run(store, delete).await
}

/// Removes an object of the system volume.
pub(super) async fn delete_record(
    store: &Arc<Store>,
    target: &ObjectKey,
) -> Result<(), StoreError> {
    delete_record_if(store, target, Conditions::default(), Vec::new()).await
}

/// Removes an object of the system volume under a condition and other locks.
pub(super) async fn delete_record_if(
    store: &Arc<Store>,
    target: &ObjectKey,
    conditions: Conditions,
    under: Vec<Grant>,
) -> Result<(), StoreError> {
    let delete = Delete {
        target: target.clone(),
        set: store.set_of(&target.key),
        since_ns: 0,
        named: None,
        conditions,
        effect: DeleteEffect { remove: Some(VersionId::NULL), marker: None },
        names_version: false,
        point: None,
        under,
    };
    run(store, delete).await.map(drop)
}

struct Delete {
    target: ObjectKey,
    set: usize,
    since_ns: i64,
    /// The version that the request names.
    named: Option<VersionId>,
    conditions: Conditions,
    effect: DeleteEffect,
    names_version: bool,
    point: Option<CrashPoint>,
    under: Vec<Grant>,
}

/// Goes on to its end even when the caller goes away.
async fn run(store: &Arc<Store>, delete: Delete) -> Result<DeleteOutcome, StoreError> {
    let target = delete.target.clone();
    let task = tokio::spawn(delete_locked(Arc::clone(store), delete));
    match task.await {
        Ok(result) => result,
        Err(_) => Err(store.unknown(&target, "the delete was torn down", 0)),
    }
}

async fn delete_locked(store: Arc<Store>, delete: Delete) -> Result<DeleteOutcome, StoreError> {
    let Delete { target, set, since_ns, named, conditions, effect, .. } = delete;
    let Delete { names_version, point, under, .. } = delete;
    let quorum = store.needed(store.majority());
    let lock = store.lock(&target, LockMode::Exclusive).await?;
    let mut copies = store.read_copies_to_write(set, &target, since_ns, quorum, false).await?;
    if !conditions.is_empty() {
        let (judged, is_there) = judge(&store, &conditions, named, copies, &lock).await?;
        if !is_there {
            return Ok(DeleteOutcome { version: named, delete_marker: false });
        }
        copies = judged;
        store.pass(CrashPoint::ConditionChecked, &target).await;
    }
    let moment_ns = store.parts.rules.moment_ns(now_ns(), copies.newest_ns(), since_ns);
    match effect {
        DeleteEffect { marker: Some(id), .. } => {
            let decided = is_decided(&store, &mut copies, id, &lock).await;
            store.remake_bucket(&copies).await?;
            let launch = put_marker(&store, &lock, &copies, id, moment_ns, quorum, decided);
            let landed = land(&store, &lock, launch).await?;
            note_divergence(&store, set, &target, &landed.done).await;
            if let Some(point) = point {
                store.pass(point, &target).await;
            }
            tokio::spawn(clear_up(store, set, target, lock, landed, Kept::default()));
            Ok(DeleteOutcome { version: names_version.then_some(id), delete_marker: true })
        }
        DeleteEffect { remove: Some(id), marker: None } => {
            let was_marker = holds_marker(&copies, id);
            let outcome =
                DeleteOutcome { version: names_version.then_some(id), delete_marker: was_marker };
            if is_nowhere(&copies, id) {
                return Ok(outcome);
            }
            let rollback = Uuid::new_v4();
            let launch = take_out(&store, &lock, &copies, id, moment_ns, quorum, rollback, under);
            let landed = land(&store, &lock, launch).await?;
            if let Some(point) = point {
                store.pass(point, &target).await;
            }
            let kept = Kept { rollbacks: vec![rollback], parts: None };
            tokio::spawn(clear_up(store, set, target, lock, landed, kept));
            Ok(outcome)
        }
        DeleteEffect { remove: None, marker: None } => Ok(DeleteOutcome::default()),
    }
}

/// Judges conditions against the version that is named, or the latest one. Answers the copies that they were
/// judged by, and whether there is anything to be deleted.
async fn judge(
    store: &Arc<Store>,
    conditions: &Conditions,
    named: Option<VersionId>,
    mut copies: Copies,
    lock: &Held,
) -> Result<(Copies, bool), StoreError> {
    let want = named.map_or(Want::Latest, Want::ById);
    if copies.read(want, true).is_err() {
        copies = settle::settle(store, copies.set, &copies.target, copies.since_ns, lock).await;
    }
    let found = copies.read(want, true).map_err(|_| store.cannot_read(&copies))?;
    let standing = match found.first().map(|found| found.version.as_object()) {
        None => Standing::Absent,
        Some(None) => Standing::Marker,
        Some(Some(object)) => {
            let (etag, modtime_ns) = (object.etag().to_owned(), object.modtime_ns);
            Standing::Object(Current { etag, modtime_ns }, object.size)
        }
    };
    match conditions.judge_delete(&standing) {
        Ok(is_there) => Ok((copies, is_there)),
        Err(unmet) => {
            let current = match standing {
                Standing::Object(current, _) => Some((current.etag, current.modtime_ns)),
                Standing::Absent | Standing::Marker => None,
            };
            Err(StoreError::Condition { target: copies.target.clone(), unmet, current })
        }
    }
}

/// Whether any drive has a marker under this id.
fn holds_marker(copies: &Copies, id: VersionId) -> bool {
    (0..copies.copies.len())
        .filter_map(|slot| copies.version(slot, id))
        .any(|version| version.header().is_delete_marker())
}

/// Whether a majority lacks the version and nobody who answered has it.
fn is_nowhere(copies: &Copies, id: VersionId) -> bool {
    let holds =
        |slot: usize| copies.copies[slot].meta().is_some_and(|meta| meta.find(id).is_some());
    copies.decide(id, false) == Decision::Absent && !(0..copies.copies.len()).any(holds)
}

fn put_marker(
    store: &Store,
    lock: &Held,
    copies: &Copies,
    id: VersionId,
    moment_ns: i64,
    quorum: usize,
    decided: bool,
) -> Launch {
    let version = Version::marker(id, moment_ns);
    let commit = Commit {
        grant: lock.grant(),
        target: copies.target.clone(),
        header: version.header_bytes().to_vec(),
        body: version.body_bytes().to_vec(),
        shards: Shards::None,
        kind: CommitKind::Delete,
        decided,
        under: Vec::new(),
    };
    let requests = online(store, copies.set)
        .map(|slot| (slot, DriveRequest::Commit(Box::new(commit.clone()))))
        .collect();
    let published = Published { version: id, modtime_ns: moment_ns, data_dir: None };
    Launch {
        set: copies.set,
        target: copies.target.clone(),
        requests,
        quorum,
        undo: undo_on(lock, copies, published, None),
        unfinished: Unfinished::Version { target: copies.target.clone(), version: id },
    }
}

#[expect(clippy::too_many_arguments, reason = "called once, and each is a thing of its own")]
fn take_out(
    store: &Store,
    lock: &Held,
    copies: &Copies,
    id: VersionId,
    moment_ns: i64,
    quorum: usize,
    rollback: Uuid,
    under: Vec<Grant>,
) -> Launch {
    let remove = Remove {
        grant: lock.grant(),
        target: copies.target.clone(),
        version: id,
        before_ns: moment_ns,
        rollback,
        under,
    };
    let requests = online(store, copies.set)
        .map(|slot| (slot, DriveRequest::Remove(remove.clone())))
        .collect();
    let undo = Undo {
        grant: lock.grant(),
        target: copies.target.clone(),
        published: None,
        rollback: Some(rollback),
        quarantine: false,
        upload: None,
    };
    let target = copies.target.clone();
    Launch {
        set: copies.set,
        target: target.clone(),
        requests,
        quorum,
        undo: Box::new(move |_, _| undo.clone()),
        unfinished: Unfinished::Removal { target, version: id, before_ns: moment_ns },
    }
}

fn online(store: &Store, set: usize) -> impl Iterator<Item = usize> {
    let drives = store.drives(set);
    (0..drives.len()).filter(move |slot| drives[*slot].is_online())
}
