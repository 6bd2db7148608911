//! Taking back a completion that was interrupted: its parts lie in their upload again.
//!
//! A completion moves the upload's data directory into the key's on each drive, and then publishes. When it
//! stops between the drives, and the version is decided not to be there, the upload is still open and its
//! parts are gone from it. A client that completes once more must find them.

use std::sync::Arc;

use uuid::Uuid;

use super::target_of;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::Published;
use crate::disk::drive::Undo;
use crate::disk::format::xl_meta::ObjectBody;
use crate::disk::format::xl_meta::Version;
use crate::disk::format::xl_meta::XlMeta;
use crate::node::seams::LockMode;
use crate::node::store::Store;
use crate::node::store::api::StoreError;
use crate::node::store::copies::Copies;
use crate::node::store::settle;
use crate::protocol::object::decide::Decision;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// Gives the open upload `upload` its parts back. The caller holds the upload's lock.
///
/// # Errors
///
/// The object's lock, or what a drive answered.
pub(in crate::node::store) async fn take_back(
    store: &Arc<Store>,
    upload: &ObjectKey,
    object: &ObjectBody,
) -> Result<(), StoreError> {
    let Some(target) = target_of(object) else { return Ok(()) };
    let (set, data_dir) = (store.set_of(&target.key), object.data_dir);
    let since_ns = store.bucket_of(&target.bucket).await?.since_ns();
    let copies = store.read_copies(set, &target, since_ns, false, |_| false).await;
    if strays(&copies, data_dir).is_none_or(|strays| strays.is_empty()) {
        return Ok(());
    }
    let lock = store.lock(&target, LockMode::Exclusive).await?;
    let copies = settle::complete(store, set, &target, since_ns, &lock).await;
    let Some(strays) = strays(&copies, data_dir).filter(|strays| !strays.is_empty()) else {
        return Ok(());
    };
    tracing::info!(%target, "taking back a completion that was interrupted");
    let undo = |(slot, published)| {
        let undo = Undo {
            grant: lock.grant(),
            target: target.clone(),
            published: Some(published),
            rollback: None,
            quarantine: false,
            upload: Some(upload.clone()),
        };
        (slot, DriveRequest::Undo(undo))
    };
    let requests: Vec<_> = strays.into_iter().map(undo).collect();
    for (slot, answer) in store.ask(set, requests).await {
        if let Err(error) = answer {
            tracing::warn!(%target, slot, %error, "the parts of an upload were not given back");
        }
    }
    Ok(())
}

/// Drives on which the upload's data directory lies in the key's directory, each with the version that owns it
/// there; `None` when that version is there, or nobody can say that it is not.
fn strays(copies: &Copies, data_dir: Uuid) -> Option<Vec<(usize, Published)>> {
    let mut strays = Vec::new();
    for (slot, copy) in copies.copies.iter().enumerate() {
        let mut versions = copy.meta().map_or(&[][..], XlMeta::versions).iter();
        let owns = |version: &&Version| {
            version.as_object().is_some_and(|object| object.data_dir == data_dir)
        };
        match versions.find(owns) {
            Some(version) => {
                match copies.decide(version.id(), true) {
                    Decision::Absent | Decision::Clear => {}
                    Decision::Present(backing)
                        if backing.candidate.identity != version.identity() => {}
                    Decision::Present(_) | Decision::Bring(_) | Decision::Open => return None,
                }
                strays.push((slot, settle::published(version)));
            }
            None if copy.folders.iter().any(|folder| folder.id == data_dir) => {
                // Names no write of any version.
                let (version, modtime_ns) = (VersionId::NULL, i64::MIN);
                let published = Published { version, modtime_ns, data_dir: Some(data_dir) };
                strays.push((slot, published));
            }
            None => {}
        }
    }
    Some(strays)
}
