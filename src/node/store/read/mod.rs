//! GET and HEAD.

mod content;
mod frames;
mod reader;
mod stripe;

use std::sync::Arc;

pub(super) use content::prove;
pub(super) use content::whole;
pub(super) use reader::Block;
pub(super) use reader::Reader;

use super::Store;
use super::api::ObjectInfo;
use super::api::Range;
use super::api::ReadOutcome;
use super::api::ReadRequest;
use super::api::StoreError;
use super::bucket::Bucket;
use super::copies::Found;
use super::copies::Want;
use super::describe;
use super::look::Seen;
use crate::disk::layout;
use crate::protocol::object::condition::Current;
use crate::protocol::object::condition::Unmet;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// Reads an object.
pub(super) async fn get(
    store: &Arc<Store>,
    request: ReadRequest,
) -> Result<ReadOutcome, StoreError> {
    // The drives that answered first may not have enough good shards among them.
    match get_as(store, &request, false).await {
        Err(StoreError::Unreadable { .. }) => get_as(store, &request, true).await,
        result => result,
    }
}

async fn get_as(
    store: &Arc<Store>,
    request: &ReadRequest,
    patient: bool,
) -> Result<ReadOutcome, StoreError> {
    let (seen, found, info) = find(store, request, true, patient).await?;
    let span = span(request, &info)?;
    let reader = Reader::new(store, &seen.copies, &found.backing)?;
    let content = content::open(reader, span, seen.lock).await?;
    Ok(ReadOutcome { info, span, content })
}

/// What an object is.
pub(super) async fn head(
    store: &Arc<Store>,
    request: ReadRequest,
) -> Result<ObjectInfo, StoreError> {
    find(store, &request, false, false).await.map(|(_, _, info)| info)
}

async fn find(
    store: &Arc<Store>,
    request: &ReadRequest,
    inline: bool,
    patient: bool,
) -> Result<(Seen, Found, ObjectInfo), StoreError> {
    let target = &request.target;
    layout::check_key(&target.key)?;
    let bucket = store.bucket_of(&target.bucket).await?;
    let set = store.set_of(&target.key);
    let want = request.version.map_or(Want::Latest, Want::ById);
    let seen = store.look_as(set, target, bucket.since_ns(), want, inline, patient).await?;
    let found = found_or(target, request.version, seen.found.first())?;
    let info = describe_found(&bucket, &seen, &found);
    judge(request, &info)?;
    Ok((seen, found, info))
}

/// What was found, unless it is nothing, or a marker.
pub(super) fn found_or(
    target: &ObjectKey,
    version: Option<VersionId>,
    found: Option<&Found>,
) -> Result<Found, StoreError> {
    let target = target.clone();
    let Some(found) = found else {
        return Err(match version {
            Some(version) => StoreError::NoSuchVersion { target, version },
            None => StoreError::NoSuchKey(target),
        });
    };
    if found.version.as_object().is_some() {
        return Ok(found.clone());
    }
    let (marker, modtime_ns) = (found.version.id(), found.version.header().modtime_ns);
    Err(match version {
        Some(version) => StoreError::IsDeleteMarker { target, version, modtime_ns },
        None => StoreError::Deleted { target, marker, modtime_ns },
    })
}

fn describe_found(bucket: &Bucket, seen: &Seen, found: &Found) -> ObjectInfo {
    let newest = seen.copies.ids().first().map(|(id, _)| *id);
    let is_latest = newest == Some(found.version.id());
    describe::info(&seen.copies.target, &found.version, bucket.state, is_latest)
}

fn judge(request: &ReadRequest, info: &ObjectInfo) -> Result<(), StoreError> {
    let current = Current { etag: info.etag.clone(), modtime_ns: info.modtime_ns };
    request.conditions.judge_read(&current).map_err(|unmet: Unmet| StoreError::Condition {
        target: request.target.clone(),
        unmet,
        current: Some((current.etag, current.modtime_ns)),
    })
}

/// The first byte and the number of bytes that a request means.
fn span(request: &ReadRequest, info: &ObjectInfo) -> Result<(u64, u64), StoreError> {
    let size = info.size;
    if let Some(part) = request.part {
        let mut start = 0;
        for (number, bytes) in &info.parts {
            if *number == part {
                return Ok((start, *bytes));
            }
            start += bytes;
        }
        return Err(StoreError::Range { size });
    }
    let (start, end) = match request.range {
        None => return Ok((0, size)),
        Some(Range::Between(first, last)) if first <= last => (first, last.saturating_add(1)),
        Some(Range::Between(..)) | Some(Range::Last(0)) => return Err(StoreError::Range { size }),
        Some(Range::From(first)) => (first, size),
        Some(Range::Last(bytes)) => (size.saturating_sub(bytes), size),
    };
    if start >= size {
        return Err(StoreError::Range { size });
    }
    Ok((start, end.min(size) - start))
}
