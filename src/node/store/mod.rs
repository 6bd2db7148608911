//! The store: objects, versions and buckets over erasure-coded drives.
//!
//! It knows drives only as [`DriveClient`](crate::node::seams::DriveClient)s and locks only as
//! [`Locks`](crate::node::seams::Locks); who is local and who is a peer is not its business.

pub mod api;
pub mod heal;

use std::sync::Arc;

use uuid::Uuid;

use crate::protocol::object::effect::BucketState;
use crate::value::ObjectKey;
use api::*;

/// The store of one deployment, as one node sees it. Cheap to share.
pub struct Store {
    parts: StoreParts,
    /// What healing remembers.
    heal: heal::State,
}

#[expect(clippy::unused_async, unused_variables, reason = "being written")]
impl Store {
    /// A store over drives that have been admitted.
    pub fn new(parts: StoreParts) -> Arc<Self> {
        Arc::new(Self { parts, heal: heal::State::default() })
    }

    /// Makes a bucket.
    pub async fn create_bucket(self: &Arc<Self>, bucket: &str) -> Result<(), StoreError> {
        unimplemented!("being written")
    }

    /// Removes an empty bucket.
    pub async fn delete_bucket(self: &Arc<Self>, bucket: &str) -> Result<(), StoreError> {
        unimplemented!("being written")
    }

    /// What a bucket is.
    pub async fn bucket(self: &Arc<Self>, bucket: &str) -> Result<BucketInfo, StoreError> {
        unimplemented!("being written")
    }

    /// All buckets, by name.
    pub async fn list_buckets(self: &Arc<Self>) -> Result<Vec<BucketInfo>, StoreError> {
        unimplemented!("being written")
    }

    /// Switches versioning on or suspends it.
    pub async fn set_versioning(
        self: &Arc<Self>,
        bucket: &str,
        state: BucketState,
    ) -> Result<(), StoreError> {
        unimplemented!("being written")
    }

    /// Writes an object.
    pub async fn put(
        self: &Arc<Self>,
        request: PutRequest,
        body: BodyStream,
    ) -> Result<PutOutcome, StoreError> {
        unimplemented!("being written")
    }

    /// Reads an object. Fails before the first byte wherever that is possible.
    pub async fn get(self: &Arc<Self>, request: ReadRequest) -> Result<ReadOutcome, StoreError> {
        unimplemented!("being written")
    }

    /// What an object is.
    pub async fn head(self: &Arc<Self>, request: ReadRequest) -> Result<ObjectInfo, StoreError> {
        unimplemented!("being written")
    }

    /// Deletes an object or a version. What is not there already is deleted.
    pub async fn delete(
        self: &Arc<Self>,
        request: DeleteRequest,
    ) -> Result<DeleteOutcome, StoreError> {
        unimplemented!("being written")
    }

    /// Deletes many; answers stand in the order of the requests.
    pub async fn delete_many(
        self: &Arc<Self>,
        requests: Vec<DeleteRequest>,
    ) -> Vec<Result<DeleteOutcome, StoreError>> {
        unimplemented!("being written")
    }

    /// Copies an object; also answers which version was copied.
    pub async fn copy(
        self: &Arc<Self>,
        request: CopyRequest,
    ) -> Result<(PutOutcome, ObjectInfo), StoreError> {
        unimplemented!("being written")
    }

    /// Opens an upload; answers its id.
    pub async fn create_upload(
        self: &Arc<Self>,
        request: UploadRequest,
    ) -> Result<String, StoreError> {
        unimplemented!("being written")
    }

    /// Uploads a part.
    pub async fn put_part(
        self: &Arc<Self>,
        request: PartRequest,
        body: BodyStream,
    ) -> Result<PartInfo, StoreError> {
        unimplemented!("being written")
    }

    /// Uploads a part that is a copy.
    pub async fn copy_part(
        self: &Arc<Self>,
        request: PartCopyRequest,
    ) -> Result<PartInfo, StoreError> {
        unimplemented!("being written")
    }

    /// The parts of an upload with numbers above `after`, in order, at most `limit`, and whether more follow.
    pub async fn list_parts(
        self: &Arc<Self>,
        target: &ObjectKey,
        upload: &str,
        after: u32,
        limit: usize,
    ) -> Result<(UploadInfo, Vec<PartInfo>, bool), StoreError> {
        unimplemented!("being written")
    }

    /// Open uploads of a bucket.
    pub async fn list_uploads(
        self: &Arc<Self>,
        request: UploadListRequest,
    ) -> Result<UploadListing, StoreError> {
        unimplemented!("being written")
    }

    /// Makes an object of an upload's parts.
    pub async fn complete_upload(
        self: &Arc<Self>,
        request: CompleteRequest,
    ) -> Result<PutOutcome, StoreError> {
        unimplemented!("being written")
    }

    /// Throws an upload away.
    pub async fn abort_upload(
        self: &Arc<Self>,
        target: &ObjectKey,
        upload: &str,
    ) -> Result<(), StoreError> {
        unimplemented!("being written")
    }

    /// Keys with their latest versions, delete markers left out.
    pub async fn list(self: &Arc<Self>, request: ListRequest) -> Result<Listing, StoreError> {
        unimplemented!("being written")
    }

    /// Keys with all their versions.
    pub async fn list_versions(
        self: &Arc<Self>,
        request: ListRequest,
    ) -> Result<Listing, StoreError> {
        unimplemented!("being written")
    }

    /// Begins to heal; answers the sequence's id.
    pub fn heal(self: &Arc<Self>, request: HealRequest) -> Uuid {
        heal::heal(self, request)
    }

    /// How far a sequence has come.
    pub fn heal_progress(&self, id: Uuid) -> Option<HealProgress> {
        heal::progress(self, id)
    }

    /// Gives a blank drive in a known slot its format and begins to rebuild it; answers the sequence's id.
    pub async fn adopt_blank(
        self: &Arc<Self>,
        set: usize,
        slot: usize,
    ) -> Result<Uuid, StoreError> {
        heal::adopt_blank(self, set, slot).await
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
