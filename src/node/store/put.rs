//! PUT and copy.

use std::sync::Arc;

use futures::StreamExt as _;
use uuid::Uuid;

use super::Store;
use super::api::Amendment;
use super::api::BodyError;
use super::api::BodyStream;
use super::api::CopyRequest;
use super::api::ExpectedChecksum;
use super::api::ObjectInfo;
use super::api::PutOutcome;
use super::api::PutRequest;
use super::api::StoreError;
use super::api::WantedChecksum;
use super::describe;
use super::publish::Publish;
use super::publish::Source;
use super::publish::publish;
use super::read;
use super::stage;
use super::stage::Plan;
use super::stage::Received;
use super::stage::Stored;
use super::stage::blank_object;
use crate::disk::drive::CommitKind;
use crate::disk::drive::Grant;
use crate::disk::drive::Staging;
use crate::disk::format::checksum::Record;
use crate::disk::format::xl_meta::ObjectBody;
use crate::disk::format::xl_meta::Part;
use crate::disk::format::xl_meta::keys;
use crate::disk::layout;
use crate::protocol::object::condition::Conditions;
use crate::protocol::object::effect;
use crate::protocol::object::effect::BucketState;
use crate::protocol::object::quorum;
use crate::value::ObjectKey;
use crate::value::VersionId;

impl Store {
    /// Data and parity shards of a new object.
    pub(super) fn geometry(&self, reduced_redundancy: bool) -> (usize, usize) {
        let n = self.set_drives();
        let standard = self.parts.parity;
        let parity = match reduced_redundancy {
            true => quorum::reduced_parity(n).min(standard),
            false => standard,
        };
        (n - parity, parity)
    }
}

/// A random version id.
pub(super) fn fresh_version() -> VersionId {
    VersionId(Uuid::new_v4().into_bytes())
}

/// Writes an object.
pub(super) async fn put(
    store: &Arc<Store>,
    request: PutRequest,
    body: BodyStream,
) -> Result<PutOutcome, StoreError> {
    layout::check_key(&request.target.key)?;
    let bucket = store.bucket_of(&request.target.bucket).await?;
    let geometry = store.geometry(request.metadata.reduced_redundancy);
    let (state, since_ns) = (bucket.state, bucket.since_ns());
    let place = Place { state, since_ns, geometry, kind: CommitKind::Put, under: Vec::new() };
    put_at(store, place, request, body).await
}

/// Where and as what an object is written.
pub(super) struct Place {
    pub(super) state: BucketState,
    pub(super) since_ns: i64,
    /// Data and parity shards.
    pub(super) geometry: (usize, usize),
    pub(super) kind: CommitKind,
    /// Other locks that must still be held when it lands on a drive.
    pub(super) under: Vec<Grant>,
}

/// Writes an object whose bucket is known.
pub(super) async fn put_at(
    store: &Arc<Store>,
    place: Place,
    request: PutRequest,
    body: BodyStream,
) -> Result<PutOutcome, StoreError> {
    let PutRequest { target, size, metadata, content_md5, checksums, conditions } = request;
    let Place { state, since_ns, geometry: (data, parity), kind, under } = place;
    let set = store.set_of(&target.key);
    let distribution = layout::distribution(&target.bucket, &target.key, data + parity);
    let mut object = blank_object(data, parity, distribution.clone());
    let staging = store.new_staging(object.data_dir).await;
    let plan = Plan {
        set,
        target: target.clone(),
        kind,
        data,
        parity,
        distribution,
        staging,
        part: 1,
        inline: Some(state == BucketState::Enabled),
        size,
        content_md5,
        checksums,
    };
    let received = stage::receive(store, plan, body).await?;

    let is_directory = layout::is_directory_key(&target.key);
    let effect = effect::put(state, is_directory, fresh_version());
    object.version = effect.version;
    object.user = describe::user_map(&metadata);
    describe::amend(&mut object, Amendment::Acl(metadata.acl));
    let records: Vec<_> = received
        .digests
        .iter()
        .map(|(algorithm, digest)| Record::single(*algorithm, digest.clone()))
        .collect();
    fill(&mut object, received.size, &received.etag, &records);
    let write = Publish {
        resource: target.clone(),
        target,
        set,
        since_ns,
        kind,
        conditions,
        object,
        source: Source::Inline(Vec::new()),
        names_version: effect.names_version,
        under,
    };
    publish_received(store, write, received, staging).await
}

/// What a single PUT says of its contents.
fn fill(object: &mut ObjectBody, size: u64, etag: &str, records: &[Record]) {
    object.size = size;
    object.parts = vec![Part {
        number: 1,
        size,
        actual_size: i64::try_from(size).unwrap_or(i64::MAX),
        etag: etag.to_owned(),
        index: Vec::new(),
    }];
    object.user.insert(keys::ETAG.to_owned(), etag.to_owned());
    object.set_system(keys::ACTUAL_SIZE, size.to_string());
    if !records.is_empty() {
        object.set_system(keys::CHECKSUM, Record::encode_all(records));
    }
}

async fn publish_received(
    store: &Arc<Store>,
    mut write: Publish,
    mut received: Received,
    staging: Staging,
) -> Result<PutOutcome, StoreError> {
    write.source = match &mut received.shards {
        Stored::Inline(shards) => {
            write.object.set_system(keys::INLINE_DATA, "true");
            Source::Inline(std::mem::take(shards))
        }
        Stored::Staged(able) => Source::Staged(staging, able.clone()),
    };
    let published = publish(store, write).await?;
    // A drive that took the write has used up what was staged there.
    received.keep_only(&published.took);
    Ok(published.outcome)
}

/// Writes a small object of the system volume, over the one before.
pub(super) async fn put_record(
    store: &Arc<Store>,
    target: &ObjectKey,
    contents: &[u8],
) -> Result<(), StoreError> {
    let n = store.set_drives();
    let parity = quorum::system_parity(n);
    let erasure = store.erasure(n - parity, parity)?;
    let distribution = layout::distribution(&target.bucket, &target.key, n);
    let mut object = blank_object(n - parity, parity, distribution);
    let mut md5 =
        crate::disk::format::checksum::Hasher::new(crate::disk::format::checksum::Algorithm::Md5);
    md5.update(contents);
    fill(&mut object, contents.len() as u64, &hex::encode(md5.finish()), &[]);
    object.set_system(keys::INLINE_DATA, "true");
    let write = Publish {
        target: target.clone(),
        resource: target.clone(),
        set: store.set_of(&target.key),
        since_ns: 0,
        kind: CommitKind::Quiet,
        conditions: Conditions::default(),
        object,
        source: Source::Inline(stage::inline_shards(&erasure, contents)),
        names_version: false,
        under: Vec::new(),
    };
    publish(store, write).await.map(drop)
}

/// Copies an object; also answers which version was copied.
pub(super) async fn copy(
    store: &Arc<Store>,
    request: CopyRequest,
) -> Result<(PutOutcome, ObjectInfo), StoreError> {
    let CopyRequest { mut source, target, metadata, tags, acl, checksum, conditions } = request;
    layout::check_key(&target.key)?;
    source.range = None;
    source.part = None;
    let read = read::get(store, source).await?;
    let info = read.info;
    let mut kept = match metadata {
        Some(metadata) => metadata,
        None => info.metadata.clone(),
    };
    match tags {
        Some(tags) => kept.tags = tags,
        None => kept.tags.clone_from(&info.metadata.tags),
    }
    kept.acl = acl;
    // The source's algorithms are kept; a checksum over parts is not one over this copy.
    let algorithms = match checksum {
        Some(algorithm) => vec![algorithm],
        None => info.checksums.iter().map(|record| record.algorithm).collect(),
    };
    let checksums = algorithms
        .into_iter()
        .map(|algorithm| WantedChecksum { algorithm, expected: ExpectedChecksum::Any })
        .collect();
    let put_request = PutRequest {
        target,
        size: Some(info.size),
        metadata: kept,
        content_md5: None,
        checksums,
        conditions,
    };
    let body = read.content.map(|chunk| chunk.map_err(|error| BodyError(error.to_string())));
    let outcome = put(store, put_request, body.boxed()).await?;
    Ok((outcome, info))
}
