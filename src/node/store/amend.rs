//! Saying something else of a version: its tags, its grants. Its contents stay where they lie.
//!
//! The version is published again over itself, a nanosecond later than it was: values of one id are told apart
//! by their moments, and its place among the key's versions must stay. Only drives that hold the version
//! take part; the others follow by healing.

use std::sync::Arc;

use super::Store;
use super::api::Amendment;
use super::api::ObjectInfo;
use super::api::StoreError;
use super::calls::Held;
use super::copies::Copies;
use super::copies::Found;
use super::copies::Want;
use super::describe;
use super::heal::Unfinished;
use super::land::Launch;
use super::land::land;
use super::publish::Kept;
use super::publish::clear_up;
use super::publish::undo_on;
use super::read;
use super::settle;
use crate::disk::drive::Commit;
use crate::disk::drive::CommitKind;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::Published;
use crate::disk::drive::Shards;
use crate::disk::format::xl_meta::Version;
use crate::disk::layout;
use crate::node::seams::LockMode;
use crate::protocol::object::quorum;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// Amends a version. Goes on to its end even when the caller goes away.
///
/// # Errors
///
/// As a read of the version has them, and as [`land`] has them.
pub(super) async fn amend(
    store: &Arc<Store>,
    target: &ObjectKey,
    version: Option<VersionId>,
    amendment: Amendment,
) -> Result<ObjectInfo, StoreError> {
    layout::check_key(&target.key)?;
    let task = tokio::spawn(amend_locked(Arc::clone(store), target.clone(), version, amendment));
    match task.await {
        Ok(result) => result,
        Err(_) => Err(store.unknown(target, "the write was torn down", 0)),
    }
}

async fn amend_locked(
    store: Arc<Store>,
    target: ObjectKey,
    version: Option<VersionId>,
    amendment: Amendment,
) -> Result<ObjectInfo, StoreError> {
    let bucket = store.bucket_of(&target.bucket).await?;
    let (set, since_ns) = (store.set_of(&target.key), bucket.since_ns());
    let lock = store.lock(&target, LockMode::Exclusive).await?;
    let needed = store.needed(store.majority());
    let mut copies = store.read_copies_to_write(set, &target, since_ns, needed, false).await?;
    let want = version.map_or(Want::Latest, Want::ById);
    if copies.read(want, true).is_err() {
        copies = settle::settle(&store, set, &target, since_ns, &lock).await;
    }
    let found = copies.read(want, true).map_err(|_| store.cannot_read(&copies))?;
    let found = read::found_or(&target, version, found.first())?;
    let amended = amended(&copies, &found, amendment)?;
    let launch = launch(&store, &lock, &copies, &found, &amended);
    let landed = land(&store, &lock, launch).await?;
    let info = describe::info(&target, &amended, bucket.state, false);
    tokio::spawn(clear_up(store, set, target, lock, landed, Kept::default()));
    Ok(info)
}

/// The version as it is to be.
fn amended(copies: &Copies, found: &Found, amendment: Amendment) -> Result<Version, StoreError> {
    let old_ns = found.version.header().modtime_ns;
    let moment_ns = old_ns + 1;
    let others = copies.copies.iter().filter_map(super::copies::Copy::meta);
    let mut others = others.flat_map(|meta| meta.versions());
    if others.any(|it| it.id() != found.version.id() && it.header().modtime_ns == moment_ns) {
        let why = "the next version follows so closely that this one cannot be changed any more";
        return Err(StoreError::InvalidRequest(why.to_owned()));
    }
    let amended = found.version.with_object(|object| {
        object.modtime_ns = moment_ns;
        describe::amend(object, amendment);
    });
    Ok(amended.expect("it was found to be an object"))
}

fn launch(store: &Store, lock: &Held, copies: &Copies, found: &Found, amended: &Version) -> Launch {
    let object = amended.as_object().expect("it was made as an object");
    let (set, target, id) = (copies.set, copies.target.clone(), amended.id());
    let request = |slot: usize| {
        let shard = object.distribution.get(slot).copied().map(usize::from)?;
        let version = amended.for_shard(shard)?;
        let commit = Commit {
            grant: lock.grant(),
            target: target.clone(),
            header: version.header_bytes().to_vec(),
            body: version.body_bytes().to_vec(),
            shards: Shards::Kept,
            kind: CommitKind::Quiet,
            decided: true,
            under: Vec::new(),
        };
        Some((slot, DriveRequest::Commit(Box::new(commit))))
    };
    let published = Published {
        version: id,
        modtime_ns: amended.header().modtime_ns,
        data_dir: Some(object.data_dir),
    };
    let drives = store.drives(set);
    let holders = found.backing.holders.iter().copied();
    Launch {
        set,
        target: target.clone(),
        requests: holders.filter(|slot| drives[*slot].is_online()).filter_map(request).collect(),
        quorum: store.needed(quorum::write(object.data, object.parity)),
        undo: undo_on(lock, copies, published, None),
        unfinished: Unfinished::Version { target, version: id },
    }
}
