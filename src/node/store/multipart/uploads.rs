//! Which uploads are open.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;
use uuid::Uuid;

use super::Upload;
use super::abort;
use crate::disk::format::xl_meta::ObjectBody;
use crate::disk::format::xl_meta::keys;
use crate::disk::layout;
use crate::disk::layout::UploadName;
use crate::node::store::Store;
use crate::node::store::api::StoreError;
use crate::node::store::api::UploadInfo;
use crate::node::store::api::UploadListRequest;
use crate::node::store::api::UploadListing;
use crate::node::store::copies::Copies;
use crate::node::store::copies::Want;
use crate::node::store::list::Walker;
use crate::value::ObjectKey;

/// Objects of uploads that are looked at side by side.
const LOOKS_MAX: usize = 16;

/// Open uploads of a bucket.
pub(in crate::node::store) async fn list_uploads(
    store: &Arc<Store>,
    request: UploadListRequest,
) -> Result<UploadListing, StoreError> {
    store.bucket_of(&request.bucket).await?;
    let uploads = uploads_of(store, &request.bucket).await?;
    let data_dirs: BTreeMap<String, Uuid> =
        uploads.iter().map(|upload| (upload.id.clone(), upload.object.data_dir)).collect();
    let mut uploads: Vec<UploadInfo> = uploads.iter().map(Upload::info).collect();
    uploads.retain(|upload| upload.target.key.starts_with(&request.prefix));
    uploads.sort_by(|one, other| {
        let order = |it: &UploadInfo| (it.target.key.clone(), it.opened_ns, it.upload.clone());
        order(one).cmp(&order(other))
    });
    let mut listing = page(uploads, &request);
    let listed = stream::iter(std::mem::take(&mut listing.uploads)).map(|upload| async {
        let data_dir = data_dirs[&upload.upload];
        (!is_object(store, &upload.target, data_dir).await).then_some(upload)
    });
    let open: Vec<Option<UploadInfo>> = listed.buffered(LOOKS_MAX).collect().await;
    listing.uploads = open.into_iter().flatten().collect();
    Ok(listing)
}

/// Whether an upload is an object by now: its completion removes it, and a power cut may bring it back.
async fn is_object(store: &Arc<Store>, target: &ObjectKey, data_dir: Uuid) -> bool {
    let Ok(bucket) = store.bucket_of(&target.bucket).await else { return false };
    let (set, since_ns) = (store.set_of(&target.key), bucket.since_ns());
    let enough = |copies: &Copies| copies.read(Want::All, false).is_ok();
    let copies = store.read_copies(set, target, since_ns, false, enough).await;
    let Ok(found) = copies.read(Want::All, false) else { return false };
    let mut objects = found.iter().filter_map(|found| found.version.as_object());
    objects.any(|object| object.data_dir == data_dir)
}

/// Cuts the page that is asked for out of all uploads in order.
fn page(uploads: Vec<UploadInfo>, request: &UploadListRequest) -> UploadListing {
    let mut listing = UploadListing::default();
    let mut seen = BTreeSet::new();
    let marker = request.key_marker.as_str();
    // Where the marker's upload is still there, what follows it; otherwise all of its key.
    let position = request
        .upload_marker
        .as_ref()
        .and_then(|id| uploads.iter().position(|it| it.target.key == marker && it.upload == *id));
    let mut last = None;
    for (index, upload) in uploads.into_iter().enumerate() {
        let key = upload.target.key.as_str();
        let is_past = match (key.cmp(marker), &request.upload_marker) {
            (std::cmp::Ordering::Greater, _) => true,
            (std::cmp::Ordering::Equal, Some(_)) => position.is_none_or(|it| index > it),
            _ => marker.is_empty(),
        };
        let group = request.delimiter.as_ref().filter(|it| !it.is_empty()).and_then(|delimiter| {
            let rest = &key[request.prefix.len()..];
            let end = rest.find(delimiter.as_str())? + delimiter.len();
            Some(key[..request.prefix.len() + end].to_owned())
        });
        let is_past = group.as_ref().map_or(is_past, |group| group.as_str() > marker);
        if !is_past || group.as_ref().is_some_and(|group| seen.contains(group)) {
            continue;
        }
        if listing.uploads.len() + listing.prefixes.len() >= request.limit {
            listing.next = last;
            break;
        }
        match group {
            Some(group) => {
                seen.insert(group.clone());
                last = Some((group.clone(), None));
                listing.prefixes.push(group);
            }
            None => {
                last = Some((key.to_owned(), Some(upload.upload.clone())));
                listing.uploads.push(upload);
            }
        }
    }
    listing
}

async fn uploads_of(store: &Arc<Store>, bucket: &str) -> Result<Vec<Upload>, StoreError> {
    let mut uploads = Vec::new();
    for set in 0..store.sets() {
        let mut walker = Walker::new(store, set, layout::SYSTEM, "multipart/", "", 0);
        while let Some(copies) = walker.next().await? {
            // What the drives do not agree on is not an upload that anybody was told of, or not any more.
            let Ok(found) = copies.read(Want::Latest, false) else { continue };
            let Some(found) = found.first() else { continue };
            let Some(object) = found.version.as_object() else { continue };
            let Some(target) = target_of(object).filter(|it| it.bucket == bucket) else { continue };
            let name = copies.target.key.rsplit('/').next().unwrap_or_default();
            let Ok(name) = name.parse::<UploadName>() else { continue };
            uploads.extend(Upload::of(store, &target, name, Some(found)));
        }
    }
    Ok(uploads)
}

/// Where an upload's object is to be.
pub(in crate::node::store) fn target_of(object: &ObjectBody) -> Option<ObjectKey> {
    let text = |suffix| String::from_utf8(object.system(suffix)?.to_vec()).ok();
    Some(ObjectKey { bucket: text(keys::UPLOAD_BUCKET)?, key: text(keys::UPLOAD_OBJECT)? })
}

/// Throws away the open uploads of a bucket that is gone.
pub(in crate::node::store) async fn forget_bucket(store: &Arc<Store>, bucket: &str) {
    let Ok(uploads) = uploads_of(store, bucket).await else { return };
    for upload in uploads {
        if let Err(error) = abort(store, &upload.target, &upload.id).await {
            tracing::warn!(target = %upload.target, %error, "an upload outlives its bucket");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upload(key: &str, opened_ns: i64) -> UploadInfo {
        let target = ObjectKey { bucket: "bkt".to_owned(), key: key.to_owned() };
        UploadInfo {
            target,
            upload: format!("{key}@{opened_ns}"),
            opened_ns,
            checksum: None,
            acl: None,
        }
    }

    /// Goal: pages of every size, one after the other, hold each upload and prefix exactly once.
    #[test]
    fn pages_neither_skip_nor_repeat() {
        let all = vec![
            upload("a", 1),
            upload("a", 2),
            upload("b/c", 1),
            upload("b/d", 1),
            upload("b/d", 2),
            upload("e", 1),
        ];
        for (delimiter, count) in [(None, 6), (Some("/".to_owned()), 4)] {
            for limit in 1..=7 {
                let mut request = UploadListRequest {
                    delimiter: delimiter.clone(),
                    limit,
                    ..UploadListRequest::default()
                };
                let mut seen = Vec::new();
                for _ in 0..10 {
                    let listing = page(all.clone(), &request);
                    seen.extend(listing.uploads.into_iter().map(|it| it.upload));
                    seen.extend(listing.prefixes);
                    let Some((key, upload)) = listing.next else { break };
                    (request.key_marker, request.upload_marker) = (key, upload);
                }
                let unique = seen.iter().collect::<BTreeSet<_>>().len();
                assert_eq!((seen.len(), unique), (count, count), "{limit}: {seen:?}");
            }
        }
    }
}
