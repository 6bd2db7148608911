//! The parts of an open upload.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::StreamExt as _;

use super::Upload;
use super::open;
use super::open_locked;
use crate::disk::drive::CommitKind;
use crate::disk::drive::CommitPart;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::Effect;
use crate::disk::drive::Staging;
use crate::disk::format::checksum::Algorithm;
use crate::disk::format::frame::PartLayout;
use crate::disk::format::upload::PartMeta;
use crate::node::store::Store;
use crate::node::store::api::BodyError;
use crate::node::store::api::BodyStream;
use crate::node::store::api::ExpectedChecksum;
use crate::node::store::api::ObjectInfo;
use crate::node::store::api::PartCopyRequest;
use crate::node::store::api::PartInfo;
use crate::node::store::api::PartRequest;
use crate::node::store::api::Range;
use crate::node::store::api::StoreError;
use crate::node::store::api::UploadInfo;
use crate::node::store::api::WantedChecksum;
use crate::node::store::calls::GRACE;
use crate::node::store::calls::Held;
use crate::node::store::calls::first_error;
use crate::node::store::calls::gather;
use crate::node::store::calls::now_ns;
use crate::node::store::read;
use crate::node::store::stage;
use crate::node::store::stage::Plan;
use crate::node::store::stage::Stored;
use crate::protocol::object::quorum;
use crate::value::ObjectKey;

/// The highest part number.
const NUMBER_MAX: u32 = 10_000;

/// A part that enough drives have to read it.
pub(super) struct Part {
    pub(super) meta: PartMeta,
    /// Its record, as it is stored.
    pub(super) record: Vec<u8>,
    /// Drives that have it.
    pub(super) holders: Vec<usize>,
}

impl Part {
    /// A checksum that was kept with it.
    pub(super) fn checksum(&self, algorithm: Algorithm) -> Option<Vec<u8>> {
        BASE64_STANDARD.decode(self.meta.checksums.get(algorithm.name())?).ok()
    }

    fn info(&self) -> PartInfo {
        let checksum = |(name, value): (&String, &String)| {
            Some((Algorithm::by_name(name)?, BASE64_STANDARD.decode(value).ok()?))
        };
        PartInfo {
            number: self.meta.number as u32,
            size: self.meta.size,
            etag: self.meta.etag.clone(),
            modtime_ns: self.meta.modtime_ns.unwrap_or(0),
            checksums: self.meta.checksums.iter().filter_map(checksum).collect(),
        }
    }
}

/// The parts of an upload by number. Of a part that was uploaded again halfway, what enough drives have.
pub(super) async fn parts_of(
    store: &Store,
    upload: &Upload,
) -> Result<BTreeMap<u32, Part>, StoreError> {
    let data_dir = upload.object.data_dir;
    let request = DriveRequest::ReadParts { upload: upload.key.clone(), data_dir };
    let answers = store.ask_all(upload.set, &request).await;
    let able = answers.iter().filter(|(_, answer)| answer.is_ok()).count();
    let needed = upload.object.data;
    if able < needed {
        let why = first_error(&answers);
        return Err(StoreError::NoQuorum { what: "list the parts", able, needed, why });
    }
    let mut versions: BTreeMap<(u32, Vec<u8>), Vec<usize>> = BTreeMap::new();
    for (slot, answer) in answers {
        let Ok(DriveReply::Parts(copies)) = answer else { continue };
        for copy in copies {
            let Ok(meta) = PartMeta::parse(&copy.meta) else { continue };
            let file_bytes = PartLayout::new(meta.size, upload.object.data).file_bytes();
            if copy.bytes == file_bytes && meta.number == copy.number as usize {
                versions.entry((copy.number, copy.meta)).or_default().push(slot);
            }
        }
    }
    let mut parts = BTreeMap::<u32, Part>::new();
    for ((number, record), holders) in versions {
        let Ok(meta) = PartMeta::parse(&record) else { continue };
        let part = Part { meta, record, holders };
        let standing = |part: &Part| (part.holders.len(), part.meta.modtime_ns);
        let is_better = parts.get(&number).is_none_or(|other| standing(&part) > standing(other));
        if part.holders.len() >= needed && is_better {
            parts.insert(number, part);
        }
    }
    Ok(parts)
}

/// Uploads a part.
pub(in crate::node::store) async fn put_part(
    store: &Arc<Store>,
    request: PartRequest,
    body: BodyStream,
) -> Result<PartInfo, StoreError> {
    let PartRequest { target, upload: id, number, size, content_md5, mut checksums } = request;
    if !(1..=NUMBER_MAX).contains(&number) {
        return Err(StoreError::InvalidRequest(format!("no part can have number {number}")));
    }
    store.bucket_of(&target.bucket).await?;
    let upload = open(store, &target, &id).await?;
    if let Some((algorithm, _)) = upload.checksum()
        && !checksums.iter().any(|it| it.algorithm == algorithm)
    {
        checksums.push(WantedChecksum { algorithm, expected: ExpectedChecksum::Any });
    }
    let object = &upload.object;
    let staging = store.new_staging(object.data_dir).await;
    let plan = Plan {
        set: upload.set,
        target: upload.key.clone(),
        kind: CommitKind::Quiet,
        data: object.data,
        parity: object.parity,
        distribution: object.distribution.clone(),
        staging,
        part: number,
        inline: None,
        size,
        content_md5,
        checksums,
    };
    let mut received = stage::receive(store, plan, body).await?;
    let Stored::Staged(able) = &received.shards else {
        return Err(StoreError::InvalidRequest("a part is never inline".to_owned()));
    };
    let able = able.clone();
    let encoded = |(algorithm, digest): &(Algorithm, Vec<u8>)| {
        (algorithm.name().to_owned(), BASE64_STANDARD.encode(digest))
    };
    let meta = PartMeta {
        etag: received.etag.clone(),
        number: number as usize,
        size: received.size,
        actual_size: i64::try_from(received.size).unwrap_or(i64::MAX),
        modtime_ns: Some(now_ns()),
        index: Vec::new(),
        checksums: received.digests.iter().map(encoded).collect(),
    };
    let store = Arc::clone(store);
    let task = tokio::spawn(async move {
        let (upload, lock) = open_locked(&store, &target, &id).await?;
        let part = Part { record: meta.encode(), meta, holders: able };
        let took = commit_part(&store, &upload, &lock, staging, &part).await?;
        received.keep_only(&took);
        Ok(part.info())
    });
    task.await.unwrap_or_else(|error| {
        Err(StoreError::Unknown { target: upload.target, why: error.to_string() })
    })
}

/// Moves a staged part into the upload on its holders; answers who did.
pub(super) async fn commit_part(
    store: &Arc<Store>,
    upload: &Upload,
    lock: &Held,
    staging: Staging,
    part: &Part,
) -> Result<Vec<usize>, StoreError> {
    let commit = CommitPart {
        grant: lock.grant(),
        upload: upload.key.clone(),
        staging,
        part: part.meta.number as u32,
        meta: part.record.clone(),
    };
    let requests: Vec<_> = part
        .holders
        .iter()
        .filter(|slot| upload.holders.contains(slot))
        .map(|slot| (*slot, DriveRequest::CommitPart(Box::new(commit.clone()))))
        .collect();
    let needed = store.needed(quorum::write(upload.object.data, upload.object.parity));
    let able = requests.len();
    let what = "take the part";
    if able < needed {
        return Err(StoreError::NoQuorum { what, able, needed, why: None });
    }
    let mut asked = store.start(upload.set, requests);
    let answers = gather(&mut asked, GRACE, |answers| {
        answers.iter().filter(|(_, answer)| answer.is_ok()).count() >= needed
    })
    .await;
    let took = crate::node::store::rebuild::successes(&answers);
    if took.len() >= needed && lock.is_held() {
        return Ok(took);
    }
    let may_have = |error: &crate::disk::drive::DriveError| error.effect() == Effect::Unknown;
    let perhaps = answers.iter().any(|(_, answer)| answer.as_ref().err().is_some_and(may_have));
    if took.is_empty() && !perhaps {
        let why = first_error(&answers);
        return Err(StoreError::NoQuorum { what, able: 0, needed, why });
    }
    Err(store.unknown(&upload.target, "too few drives took the part", needed))
}

/// Uploads a part that is a copy.
pub(in crate::node::store) async fn copy_part(
    store: &Arc<Store>,
    request: PartCopyRequest,
) -> Result<(PartInfo, ObjectInfo), StoreError> {
    let PartCopyRequest { source, target, upload, number } = request;
    let range = source.range;
    let read = read::get(store, source).await?;
    // Of a copy nothing is left out silently.
    if let Some(Range::Between(_, last)) = range
        && last >= read.info.size
    {
        return Err(StoreError::Range { size: read.info.size });
    }
    let body = read.content.map(|chunk| chunk.map_err(|error| BodyError(error.to_string())));
    let request = PartRequest {
        target,
        upload,
        number,
        size: Some(read.span.1),
        content_md5: None,
        checksums: Vec::new(),
    };
    Ok((put_part(store, request, body.boxed()).await?, read.info))
}

/// The parts of an upload with numbers above `after`, at most `limit`, and whether more follow.
pub(in crate::node::store) async fn list_parts(
    store: &Arc<Store>,
    target: &ObjectKey,
    id: &str,
    after: u32,
    limit: usize,
) -> Result<(UploadInfo, Vec<PartInfo>, bool), StoreError> {
    store.bucket_of(&target.bucket).await?;
    let upload = open(store, target, id).await?;
    let parts = parts_of(store, &upload).await?;
    let mut rest = parts.range(after.saturating_add(1)..);
    let page: Vec<_> = rest.by_ref().take(limit).map(|(_, part)| part.info()).collect();
    let more = rest.next().is_some();
    Ok((upload.info(), page, more))
}
