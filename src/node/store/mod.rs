//! The store: objects, versions and buckets over erasure-coded drives.
//!
//! It knows drives only as [`DriveClient`](crate::node::seams::DriveClient)s and locks only as
//! [`Locks`](crate::node::seams::Locks); who is local and who is a peer is not its business.

mod amend;
pub mod api;
mod bucket;
mod calls;
mod copies;
mod counters;
mod delete;
mod describe;
mod error;
pub mod heal;
mod incoming;
mod land;
mod list;
mod look;
mod multipart;
mod publish;
mod put;
mod read;
mod rebuild;
mod remembered;
mod settle;
mod stage;
mod stagings;
pub mod system;
#[cfg(test)]
pub(in crate::node) mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;

use uuid::Uuid;

use crate::disk::format::erasure::Erasure;
use crate::disk::format::format_json::FormatJson;
use crate::protocol::object::effect::BucketState;
use crate::value::ObjectKey;
use crate::value::VersionId;
use api::*;
use heal::target::Rebuilt;
use heal::target::TargetCheck;

/// The store of one deployment, as one node sees it. Cheap to share.
pub struct Store {
    parts: StoreParts,
    counters: counters::Counters,
    /// The codes of the geometries that were met.
    codecs: Mutex<BTreeMap<(usize, usize), Arc<Erasure>>>,
    stagings: stagings::Stagings,
    buckets: remembered::Remembered,
    /// What healing remembers.
    heal: heal::State,
}

impl Store {
    /// A store over drives that have been admitted.
    pub fn new(parts: StoreParts) -> Arc<Self> {
        let drives: usize = parts.sets.iter().map(Vec::len).sum();
        let buckets = remembered::Remembered::new(parts.local.len() == drives);
        Arc::new(Self {
            buckets,
            parts,
            counters: counters::Counters::default(),
            codecs: Mutex::default(),
            stagings: stagings::Stagings::default(),
            heal: heal::State::default(),
        })
    }

    /// Makes a bucket.
    pub async fn create_bucket(self: &Arc<Self>, bucket: &str) -> Result<(), StoreError> {
        bucket::create(self, bucket, Vec::new()).await
    }

    /// Makes a bucket with an owner and grants.
    pub async fn create_bucket_of(
        self: &Arc<Self>,
        bucket: &str,
        acl: Vec<u8>,
    ) -> Result<(), StoreError> {
        bucket::create(self, bucket, acl).await
    }

    /// Removes an empty bucket.
    pub async fn delete_bucket(self: &Arc<Self>, bucket: &str) -> Result<(), StoreError> {
        bucket::delete(self, bucket).await
    }

    /// What a bucket is.
    pub async fn bucket(self: &Arc<Self>, bucket: &str) -> Result<BucketInfo, StoreError> {
        bucket::info(self, bucket).await
    }

    /// All buckets, by name.
    pub async fn list_buckets(self: &Arc<Self>) -> Result<Vec<BucketInfo>, StoreError> {
        bucket::list_all(self).await
    }

    /// Switches versioning on or suspends it.
    pub async fn set_versioning(
        self: &Arc<Self>,
        bucket: &str,
        state: BucketState,
    ) -> Result<(), StoreError> {
        bucket::set_versioning(self, bucket, state).await
    }

    /// Replaces one of a bucket's documents; an empty one takes it away.
    pub async fn set_document(
        self: &Arc<Self>,
        bucket: &str,
        document: BucketDocument,
        contents: Vec<u8>,
    ) -> Result<(), StoreError> {
        bucket::set_document(self, bucket, document, contents).await
    }

    /// Says something else of a version, the latest or one by its id; answers what it is then.
    pub async fn amend(
        self: &Arc<Self>,
        target: &ObjectKey,
        version: Option<VersionId>,
        amendment: Amendment,
    ) -> Result<ObjectInfo, StoreError> {
        amend::amend(self, target, version, amendment).await
    }

    /// Writes an object.
    pub async fn put(
        self: &Arc<Self>,
        request: PutRequest,
        body: BodyStream,
    ) -> Result<PutOutcome, StoreError> {
        put::put(self, request, body).await
    }

    /// Reads an object. Fails before the first byte wherever that is possible.
    pub async fn get(self: &Arc<Self>, request: ReadRequest) -> Result<ReadOutcome, StoreError> {
        read::get(self, request).await
    }

    /// What an object is.
    pub async fn head(self: &Arc<Self>, request: ReadRequest) -> Result<ObjectInfo, StoreError> {
        read::head(self, request).await
    }

    /// Deletes an object or a version. What is not there already is deleted.
    pub async fn delete(
        self: &Arc<Self>,
        request: DeleteRequest,
    ) -> Result<DeleteOutcome, StoreError> {
        delete::delete(self, request).await
    }

    /// Deletes many; answers stand in the order of the requests.
    pub async fn delete_many(
        self: &Arc<Self>,
        requests: Vec<DeleteRequest>,
    ) -> Vec<Result<DeleteOutcome, StoreError>> {
        delete::delete_many(self, requests).await
    }

    /// Copies an object; also answers which version was copied.
    pub async fn copy(
        self: &Arc<Self>,
        request: CopyRequest,
    ) -> Result<(PutOutcome, ObjectInfo), StoreError> {
        put::copy(self, request).await
    }

    /// Opens an upload; answers its id.
    pub async fn create_upload(
        self: &Arc<Self>,
        request: UploadRequest,
    ) -> Result<String, StoreError> {
        multipart::create(self, request).await
    }

    /// Uploads a part.
    pub async fn put_part(
        self: &Arc<Self>,
        request: PartRequest,
        body: BodyStream,
    ) -> Result<PartInfo, StoreError> {
        multipart::put_part(self, request, body).await
    }

    /// Uploads a part that is a copy; also answers which version was copied.
    pub async fn copy_part(
        self: &Arc<Self>,
        request: PartCopyRequest,
    ) -> Result<(PartInfo, ObjectInfo), StoreError> {
        multipart::copy_part(self, request).await
    }

    /// The parts of an upload with numbers above `after`, in order, at most `limit`, and whether more follow.
    pub async fn list_parts(
        self: &Arc<Self>,
        target: &ObjectKey,
        upload: &str,
        after: u32,
        limit: usize,
    ) -> Result<(UploadInfo, Vec<PartInfo>, bool), StoreError> {
        multipart::list_parts(self, target, upload, after, limit).await
    }

    /// Open uploads of a bucket.
    pub async fn list_uploads(
        self: &Arc<Self>,
        request: UploadListRequest,
    ) -> Result<UploadListing, StoreError> {
        multipart::list_uploads(self, request).await
    }

    /// Makes an object of an upload's parts.
    pub async fn complete_upload(
        self: &Arc<Self>,
        request: CompleteRequest,
    ) -> Result<PutOutcome, StoreError> {
        multipart::complete(self, request).await
    }

    /// Throws an upload away.
    pub async fn abort_upload(
        self: &Arc<Self>,
        target: &ObjectKey,
        upload: &str,
    ) -> Result<(), StoreError> {
        multipart::abort(self, target, upload).await
    }

    /// Keys with their latest versions, delete markers left out.
    pub async fn list(self: &Arc<Self>, request: ListRequest) -> Result<Listing, StoreError> {
        list::list(self, request).await
    }

    /// Keys with all their versions.
    pub async fn list_versions(
        self: &Arc<Self>,
        request: ListRequest,
    ) -> Result<Listing, StoreError> {
        list::list_versions(self, request).await
    }

    /// Begins to heal; answers the sequence's id.
    pub fn heal(self: &Arc<Self>, request: HealRequest) -> Uuid {
        heal::heal(self, request)
    }

    /// How far a sequence has come.
    pub fn heal_progress(&self, id: Uuid) -> Option<HealProgress> {
        heal::progress(self, id)
    }

    /// The format of the drive in a slot, which must exist.
    pub fn format_of(&self, set: usize, slot: usize) -> FormatJson {
        self.parts.format.for_place(set, slot).expect("the slot is one of the deployment's")
    }

    /// Rebuilds on the slots `targets` of a set at most `limit` objects of `bucket` that come after `after`.
    pub async fn rebuild_page(
        self: &Arc<Self>,
        set: usize,
        bucket: &str,
        after: &str,
        limit: usize,
        targets: &[usize],
    ) -> Rebuilt {
        heal::target::page(self, set, bucket, after, limit, targets).await
    }

    /// Rebuilds on the slots `targets` the system's own objects of a set.
    pub async fn rebuild_internals(self: &Arc<Self>, set: usize, targets: &[usize]) -> Rebuilt {
        heal::target::internals(self, set, targets).await
    }

    /// Checks every version of a set on the slots `targets`, byte for byte.
    pub async fn check_targets(self: &Arc<Self>, set: usize, targets: &[usize]) -> TargetCheck {
        heal::target::check(self, set, targets).await
    }

    /// How the store stands.
    pub fn status(&self) -> StoreStatus {
        heal::status(self)
    }

    /// Completes partial writes, keeps heartbeats and empties trash, until the future is dropped.
    pub async fn run(self: Arc<Self>) {
        heal::run(self).await;
    }
}
