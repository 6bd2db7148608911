//! Multipart uploads.
//!
//! An upload is a folder in the system volume, on the drives of its object's set: a metadata file that says
//! what the object is to be, and a data directory with the parts. Completing it moves that directory into
//! the key's. Uploads have a lock of their own; whoever takes the object's too takes it second.

mod complete;
mod parts;
mod take_back;
mod uploads;

use std::sync::Arc;

pub(super) use complete::complete;
pub(super) use parts::copy_part;
pub(super) use parts::list_parts;
pub(super) use parts::put_part;
pub(super) use take_back::take_back;
pub(super) use uploads::forget_bucket;
pub(super) use uploads::list_uploads;
pub(super) use uploads::target_of;

use super::Store;
use super::api::Amendment;
use super::api::StoreError;
use super::api::UploadInfo;
use super::api::UploadRequest;
use super::calls::Held;
use super::calls::now_ns;
use super::calls::upload_resource;
use super::copies::Copies;
use super::copies::Found;
use super::copies::Want;
use super::describe;
use super::heal;
use super::heal::Unfinished;
use super::publish::Publish;
use super::publish::Source;
use super::publish::publish;
use super::put::fresh_version;
use super::rebuild::successes;
use super::settle;
use super::stage::blank_object;
use crate::disk::drive::CommitKind;
use crate::disk::drive::DriveRequest;
use crate::disk::format::checksum::Algorithm;
use crate::disk::format::xl_meta::ObjectBody;
use crate::disk::format::xl_meta::keys;
use crate::disk::layout;
use crate::disk::layout::UploadName;
use crate::node::seams::LockMode;
use crate::protocol::object::condition::Conditions;
use crate::protocol::object::effect;
use crate::value::ObjectKey;

/// User key, of an open upload: the algorithm of its parts' checksums.
const CHECKSUM_ALGORITHM: &str = "x-rustfs-multipart-checksum";
/// User key, of an open upload: over what the object's checksum is.
const CHECKSUM_TYPE: &str = "x-rustfs-multipart-checksum-type";
const FULL_OBJECT: &str = "FULL_OBJECT";
const COMPOSITE: &str = "COMPOSITE";

/// An open upload.
struct Upload {
    /// Where the object is to be.
    target: ObjectKey,
    /// As clients know it.
    id: String,
    name: UploadName,
    /// Its key in the system volume.
    key: ObjectKey,
    set: usize,
    /// What the object is to be.
    object: ObjectBody,
    /// Drives that have the upload.
    holders: Vec<usize>,
}

impl Upload {
    fn checksum(&self) -> Option<(Algorithm, bool)> {
        let algorithm = Algorithm::by_name(self.object.user.get(CHECKSUM_ALGORITHM)?)?;
        let kind = self.object.user.get(CHECKSUM_TYPE).map_or(COMPOSITE, String::as_str);
        Some((algorithm, kind == FULL_OBJECT))
    }

    fn info(&self) -> UploadInfo {
        UploadInfo {
            target: self.target.clone(),
            upload: self.id.clone(),
            opened_ns: i64::try_from(self.name.opened_ns).unwrap_or(i64::MAX),
            checksum: self.checksum(),
            acl: describe::metadata(&self.object).acl,
        }
    }

    fn of(
        store: &Store,
        target: &ObjectKey,
        name: UploadName,
        found: Option<&Found>,
    ) -> Option<Self> {
        let found = found?;
        Some(Self {
            target: target.clone(),
            id: layout::upload_id(store.parts.format.id, name),
            name,
            key: upload_key(target, name),
            set: store.set_of(&target.key),
            object: found.version.as_object()?.clone(),
            holders: found.backing.holders.clone(),
        })
    }
}

/// The key of an upload in the system volume.
fn upload_key(target: &ObjectKey, name: UploadName) -> ObjectKey {
    let path = layout::upload_dir(&target.bucket, &target.key, name);
    let below = path.strip_prefix(layout::SYSTEM).and_then(|path| path.strip_prefix('/'));
    ObjectKey {
        bucket: layout::SYSTEM.to_owned(),
        key: below.expect("uploads lie in the system volume").to_owned(),
    }
}

/// Opens an upload; answers its id.
pub(super) async fn create(
    store: &Arc<Store>,
    request: UploadRequest,
) -> Result<String, StoreError> {
    let UploadRequest { target, metadata, checksum } = request;
    layout::check_key(&target.key)?;
    let bucket = store.bucket_of(&target.bucket).await?;
    let (data, parity) = store.geometry(metadata.reduced_redundancy);
    let distribution = layout::distribution(&target.bucket, &target.key, data + parity);
    let mut object = blank_object(data, parity, distribution);
    let is_directory = layout::is_directory_key(&target.key);
    object.version = effect::put(bucket.state, is_directory, fresh_version()).version;
    object.user = describe::user_map(&metadata);
    describe::amend(&mut object, Amendment::Acl(metadata.acl));
    if let Some((algorithm, full)) = checksum {
        object.user.insert(CHECKSUM_ALGORITHM.to_owned(), algorithm.name().to_owned());
        let kind = if full { FULL_OBJECT } else { COMPOSITE };
        object.user.insert(CHECKSUM_TYPE.to_owned(), kind.to_owned());
    }
    // Only one prefix: these are no values of the object.
    let mut note = |suffix: &str, value: &str| {
        let key = format!("{}{suffix}", keys::INTERNAL);
        object.system.insert(key, value.as_bytes().to_vec());
    };
    note(keys::UPLOAD_BUCKET, &target.bucket);
    note(keys::UPLOAD_OBJECT, &target.key);

    let opened_ns = u64::try_from(now_ns()).unwrap_or_default();
    // A completed upload is known again by the directory of its object's shards.
    let name = UploadName { id: object.data_dir, opened_ns };
    let key = upload_key(&target, name);
    let write = Publish {
        resource: upload_resource(&key, &target.key),
        target: key,
        set: store.set_of(&target.key),
        since_ns: 0,
        kind: CommitKind::Quiet,
        conditions: Conditions::default(),
        object,
        source: Source::Inline(Vec::new()),
        names_version: false,
        under: Vec::new(),
    };
    publish(store, write).await?;
    Ok(layout::upload_id(store.parts.format.id, name))
}

/// Throws an upload away.
pub(super) async fn abort(
    store: &Arc<Store>,
    target: &ObjectKey,
    id: &str,
) -> Result<(), StoreError> {
    let (upload, lock) = open_locked(store, target, id).await?;
    let store = Arc::clone(store);
    let task = tokio::spawn(async move { remove(&store, &upload, &lock).await });
    match task.await {
        Ok(result) => result,
        Err(error) => Err(StoreError::Unknown { target: target.clone(), why: error.to_string() }),
    }
}

/// Removes an upload from all drives; those that do not answer are to follow.
async fn remove(store: &Arc<Store>, upload: &Upload, lock: &Held) -> Result<(), StoreError> {
    let request = DriveRequest::RemoveUpload { grant: lock.grant(), upload: upload.key.clone() };
    let answers = store.ask_all(upload.set, &request).await;
    let took = successes(&answers);
    if took.len() < answers.len() {
        let work = Unfinished::Upload { set: upload.set, upload: upload.key.clone() };
        heal::enqueue(store, upload.set, &took, work).await;
    }
    let needed = store.needed(store.majority());
    if took.len() >= needed {
        return Ok(());
    }
    if took.is_empty() {
        let (able, why) = (0, super::calls::first_error(&answers));
        return Err(StoreError::NoQuorum { what: "remove the upload", able, needed, why });
    }
    Err(store.unknown(&upload.target, "too few drives removed the upload", needed))
}

/// Finds an upload without keeping anybody away.
async fn open(store: &Arc<Store>, target: &ObjectKey, id: &str) -> Result<Upload, StoreError> {
    let no_such = || StoreError::NoSuchUpload(id.to_owned());
    let name = layout::parse_upload_id(store.parts.format.id, id).ok_or_else(no_such)?;
    let key = upload_key(target, name);
    let set = store.set_of(&target.key);
    let agree = |copies: &Copies| copies.answered() == copies.copies.len();
    let copies = store.read_copies(set, &key, 0, false, agree).await;
    match copies.read(Want::Latest, false) {
        Ok(found) => Upload::of(store, target, name, found.first()).ok_or_else(no_such),
        Err(_) => open_locked(store, target, id).await.map(|(upload, _)| upload),
    }
}

/// Finds an upload and keeps everybody else away from it.
async fn open_locked(
    store: &Arc<Store>,
    target: &ObjectKey,
    id: &str,
) -> Result<(Upload, Held), StoreError> {
    let no_such = || StoreError::NoSuchUpload(id.to_owned());
    let name = layout::parse_upload_id(store.parts.format.id, id).ok_or_else(no_such)?;
    let key = upload_key(target, name);
    let set = store.set_of(&target.key);
    let lock = store.lock(&upload_resource(&key, &target.key), LockMode::Exclusive).await?;
    let mut copies = store.read_copies(set, &key, 0, false, |_| false).await;
    if copies.read(Want::Latest, true).is_err() {
        copies = settle::settle(store, set, &key, 0, &lock).await;
    }
    let found = copies.read(Want::Latest, true).map_err(|_| store.cannot_read(&copies))?;
    let upload = Upload::of(store, target, name, found.first()).ok_or_else(no_such)?;
    Ok((upload, lock))
}
