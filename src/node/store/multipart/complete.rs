//! Completing an upload.

use std::collections::BTreeMap;
use std::sync::Arc;

use crc_fast::CrcAlgorithm;
use md5::Digest as _;
use md5::Md5;

use super::CHECKSUM_ALGORITHM;
use super::CHECKSUM_TYPE;
use super::Upload;
use super::open_locked;
use super::parts::Part;
use super::parts::parts_of;
use super::remove;
use super::take_back;
use crate::disk::drive::CommitKind;
use crate::disk::drive::DriveRequest;
use crate::disk::format::checksum::Algorithm;
use crate::disk::format::checksum::Hasher;
use crate::disk::format::checksum::Record;
use crate::disk::format::xl_meta;
use crate::disk::format::xl_meta::ObjectBody;
use crate::disk::format::xl_meta::keys;
use crate::disk::layout;
use crate::node::store::Store;
use crate::node::store::api::CompletePart;
use crate::node::store::api::CompleteRequest;
use crate::node::store::api::PutOutcome;
use crate::node::store::api::StoreError;
use crate::node::store::bucket::Bucket;
use crate::node::store::calls::Held;
use crate::node::store::copies::Want;
use crate::node::store::describe;
use crate::node::store::publish::Publish;
use crate::node::store::publish::Source;
use crate::node::store::publish::publish;
use crate::node::store::put::fresh_version;
use crate::node::store::read::Reader;
use crate::node::store::rebuild;
use crate::protocol::crash_point::CrashPoint;
use crate::protocol::object::effect;
use crate::protocol::object::effect::BucketState;
use crate::protocol::object::quorum;
use crate::value::ObjectKey;

/// The smallest part that is not the last.
const PART_BYTES_MIN: u64 = 5 << 20;

/// Makes an object of an upload's parts. Goes on to its end even when the caller goes away.
pub(in crate::node::store) async fn complete(
    store: &Arc<Store>,
    request: CompleteRequest,
) -> Result<PutOutcome, StoreError> {
    let target = request.target.clone();
    let task = tokio::spawn(complete_locked(Arc::clone(store), request));
    match task.await {
        Ok(result) => result,
        Err(_) => Err(store.unknown(&target, "the completion was torn down", 0)),
    }
}

async fn complete_locked(
    store: Arc<Store>,
    request: CompleteRequest,
) -> Result<PutOutcome, StoreError> {
    let CompleteRequest { target, upload: id, parts: listed, checksum, conditions } = request;
    let bucket = store.bucket_of(&target.bucket).await?;
    let (upload, lock) = match open_locked(&store, &target, &id).await {
        Err(StoreError::NoSuchUpload(_)) => {
            return completed(&store, &bucket, &target, &id, &listed).await;
        }
        opened => opened?,
    };
    let mut parts = parts_of(&store, &upload).await?;
    if listed.iter().any(|part| !parts.contains_key(&part.number)) {
        take_back(&store, &upload.key, &upload.object).await?;
        parts = parts_of(&store, &upload).await?;
    }
    if listed.iter().any(|part| !parts.contains_key(&part.number))
        && let Ok(outcome) = completed(&store, &bucket, &target, &id, &listed).await
    {
        // Its removal was interrupted, or a power cut has brought it back.
        forget(&store, &upload, &lock).await;
        return Ok(outcome);
    }
    check_list(&listed, &parts)?;
    let numbers: Vec<u32> = listed.iter().map(|part| part.number).collect();
    parts.retain(|number, _| numbers.contains(number));

    let mut object = upload.object.clone();
    let is_directory = layout::is_directory_key(&target.key);
    let effect = effect::put(bucket.state, is_directory, fresh_version());
    if effect.version.is_null() || object.version.is_null() {
        // Versioning was switched since the upload was opened.
        object.version = effect.version;
    }
    let record = upload
        .checksum()
        .map(|(algorithm, full)| checksum_of(algorithm, full, &parts))
        .transpose()?;
    if let (Some((algorithm, expected)), Some(record)) = (&checksum, &record)
        && (*algorithm != record.algorithm || *expected != record.digest)
    {
        return Err(StoreError::BadChecksum(*algorithm));
    }
    fill(&mut object, &parts, record);
    let able = make_whole(&store, &upload, &lock, &mut parts).await?;
    store.pass(CrashPoint::MultipartPartsChecked, &target).await;

    let write = Publish {
        resource: target.clone(),
        target,
        set: upload.set,
        since_ns: bucket.since_ns(),
        kind: CommitKind::Multipart,
        conditions,
        object,
        source: Source::Upload(upload.key.clone(), able, numbers),
        names_version: effect.names_version,
        under: Vec::new(),
    };
    let published = publish(&store, write).await?;
    // Before it is answered: once its object was overwritten, nobody could tell it from one that is open.
    forget(&store, &upload, &lock).await;
    Ok(published.outcome)
}

/// Removes an upload that was completed. What cannot be removed now is looked for by the scanner.
async fn forget(store: &Arc<Store>, upload: &Upload, lock: &Held) {
    if let Err(error) = remove(store, upload, lock).await {
        tracing::warn!(target = %upload.target, %error, "a completed upload is left behind");
    }
}

/// What an upload has become, when it was completed before with the same parts and its object is still there.
async fn completed(
    store: &Arc<Store>,
    bucket: &Bucket,
    target: &ObjectKey,
    id: &str,
    listed: &[CompletePart],
) -> Result<PutOutcome, StoreError> {
    let no_such = || StoreError::NoSuchUpload(id.to_owned());
    let name = layout::parse_upload_id(store.parts.format.id, id).ok_or_else(no_such)?;
    let set = store.set_of(&target.key);
    let seen = store.look(set, target, bucket.since_ns(), Want::All, false).await?;
    let is_it = |object: &&ObjectBody| {
        let parts = object.parts.iter().zip(listed);
        object.data_dir == name.id
            && object.parts.len() == listed.len()
            && parts.into_iter().all(|(part, listed)| {
                part.number == listed.number as usize
                    && part.etag.eq_ignore_ascii_case(listed.etag.trim_matches('"'))
            })
    };
    let object = seen.found.iter().filter_map(|found| found.version.as_object()).find(is_it);
    let object = object.ok_or_else(no_such)?;
    Ok(PutOutcome {
        etag: object.etag().to_owned(),
        version: (bucket.state != BucketState::Unversioned).then_some(object.version),
        size: object.size,
        modtime_ns: object.modtime_ns,
        checksums: describe::checksums(object),
    })
}

/// Holds the client's list against what was uploaded.
fn check_list(listed: &[CompletePart], parts: &BTreeMap<u32, Part>) -> Result<(), StoreError> {
    if listed.is_empty() {
        return Err(StoreError::InvalidRequest("no parts are listed".to_owned()));
    }
    if listed.windows(2).any(|pair| pair[0].number >= pair[1].number) {
        return Err(StoreError::InvalidPartOrder);
    }
    for (index, wanted) in listed.iter().enumerate() {
        let number = wanted.number;
        let part = parts.get(&number).ok_or(StoreError::InvalidPart(number))?;
        if !part.meta.etag.eq_ignore_ascii_case(wanted.etag.trim_matches('"')) {
            return Err(StoreError::InvalidPart(number));
        }
        if let Some((algorithm, expected)) = &wanted.checksum
            && part.checksum(*algorithm).is_some_and(|it| it != *expected)
        {
            return Err(StoreError::InvalidPart(number));
        }
        let size = part.meta.size;
        if size < PART_BYTES_MIN && index + 1 < listed.len() {
            return Err(StoreError::PartTooSmall { number, size });
        }
    }
    Ok(())
}

/// What a completed upload says of its contents.
fn fill(object: &mut ObjectBody, parts: &BTreeMap<u32, Part>, record: Option<Record>) {
    object.parts = parts
        .values()
        .map(|part| xl_meta::Part {
            number: part.meta.number,
            size: part.meta.size,
            actual_size: part.meta.actual_size,
            etag: part.meta.etag.clone(),
            index: Vec::new(),
        })
        .collect();
    object.size = parts.values().map(|part| part.meta.size).sum();
    let mut md5 = Md5::new();
    for part in parts.values() {
        md5.update(hex::decode(&part.meta.etag).unwrap_or_default());
    }
    let etag = format!("{}-{}", hex::encode(md5.finalize()), parts.len());
    object.user.insert(keys::ETAG.to_owned(), etag);
    object.user.remove(CHECKSUM_ALGORITHM);
    object.user.remove(CHECKSUM_TYPE);
    object.remove_system(keys::UPLOAD_BUCKET);
    object.remove_system(keys::UPLOAD_OBJECT);
    object.set_system(keys::ACTUAL_SIZE, object.size.to_string());
    if let Some(record) = record {
        object.set_system(keys::CHECKSUM, Record::encode_all(&[record]));
    }
}

/// The checksum of the whole, from those of the parts.
fn checksum_of(
    algorithm: Algorithm,
    full: bool,
    parts: &BTreeMap<u32, Part>,
) -> Result<Record, StoreError> {
    let mut digests = Vec::new();
    for (number, part) in parts {
        let digest = part.checksum(algorithm).ok_or(StoreError::InvalidPart(*number))?;
        digests.push((digest, part.meta.size));
    }
    if !full {
        let mut hasher = Hasher::new(algorithm);
        digests.iter().for_each(|(digest, _)| hasher.update(digest));
        let digests = digests.into_iter().map(|(digest, _)| digest).collect();
        return Ok(Record::composite(algorithm, hasher.finish(), digests));
    }
    let (crc, bytes) = match algorithm {
        Algorithm::Crc32 => (CrcAlgorithm::Crc32IsoHdlc, 4),
        Algorithm::Crc32C => (CrcAlgorithm::Crc32Iscsi, 4),
        Algorithm::Crc64Nvme => (CrcAlgorithm::Crc64Nvme, 8),
        other => {
            let why = format!("{} cannot be over a whole multipart object", other.name());
            return Err(StoreError::InvalidRequest(why));
        }
    };
    let number = |digest: &[u8]| digest.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    let mut whole = None;
    for (digest, size) in &digests {
        let value = number(digest);
        whole = Some(match whole {
            None => value,
            Some(before) => crc_fast::checksum_combine(crc, before, value, *size),
        });
    }
    let whole = whole.unwrap_or(0).to_be_bytes();
    let digests = digests.into_iter().map(|(digest, _)| digest).collect();
    Ok(Record::full_object(algorithm, whole[8 - bytes..].to_vec(), digests))
}

/// Brings the listed parts to every drive that has the upload, if too few drives have them all. Answers the
/// drives that have.
async fn make_whole(
    store: &Arc<Store>,
    upload: &Upload,
    lock: &Held,
    parts: &mut BTreeMap<u32, Part>,
) -> Result<Vec<usize>, StoreError> {
    let needed = store.needed(quorum::write(upload.object.data, upload.object.parity));
    let have_all = |parts: &BTreeMap<u32, Part>| -> Vec<usize> {
        let all = |slot: &&usize| parts.values().all(|part| part.holders.contains(slot));
        upload.holders.iter().filter(all).copied().collect()
    };
    let able = have_all(parts);
    if able.len() >= needed {
        return Ok(able);
    }
    for part in parts.values_mut() {
        bring_part(store, upload, lock, part).await?;
    }
    let able = have_all(parts);
    if able.len() >= needed {
        return Ok(able);
    }
    let (what, able) = ("hold every part", able.len());
    Err(StoreError::NoQuorum { what, able, needed, why: None })
}

async fn bring_part(
    store: &Arc<Store>,
    upload: &Upload,
    lock: &Held,
    part: &mut Part,
) -> Result<(), StoreError> {
    let lacking: Vec<usize> = upload
        .holders
        .iter()
        .filter(|slot| !part.holders.contains(slot) && store.drives(upload.set)[**slot].is_online())
        .copied()
        .collect();
    if lacking.is_empty() {
        return Ok(());
    }
    let mut object = upload.object.clone();
    object.parts = vec![xl_meta::Part {
        number: part.meta.number,
        size: part.meta.size,
        actual_size: part.meta.actual_size,
        etag: part.meta.etag.clone(),
        index: Vec::new(),
    }];
    object.size = part.meta.size;
    let mut reader = Reader::over(store, upload.set, &upload.key, object, &part.holders)?;
    let staging = store.new_staging(upload.object.data_dir).await;
    let shard_of = |slot: usize| usize::from(upload.object.distribution[slot]) - 1;
    let to: Vec<_> = lacking.iter().map(|slot| (*slot, shard_of(*slot))).collect();
    let mut failed = Vec::new();
    let kind = CommitKind::Quiet;
    rebuild::stage(store, upload.set, &upload.key, &mut reader, staging, &to, kind, &mut failed)
        .await?;
    let holders = lacking
        .iter()
        .filter(|slot| !failed.iter().any(|(other, _)| other == *slot))
        .copied()
        .collect();
    let copy = Part { meta: part.meta.clone(), record: part.record.clone(), holders };
    // Each drive counts by itself here.
    let mut took = Vec::new();
    for slot in &copy.holders {
        let request = DriveRequest::CommitPart(Box::new(crate::disk::drive::CommitPart {
            grant: lock.grant(),
            upload: upload.key.clone(),
            staging,
            part: copy.meta.number as u32,
            meta: copy.record.clone(),
        }));
        took.extend(rebuild::successes(&store.ask(upload.set, [(*slot, request)]).await));
    }
    let left: Vec<_> = lacking.iter().filter(|slot| !took.contains(slot)).copied().collect();
    store.discard(upload.set, left, staging).await;
    part.holders.extend(took);
    Ok(())
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;

    use super::*;
    use crate::disk::format::upload::PartMeta;

    fn parts(algorithm: Algorithm, contents: &[&[u8]]) -> BTreeMap<u32, Part> {
        let part = |(index, bytes): (usize, &&[u8])| {
            let digest = |algorithm| {
                let mut hasher = Hasher::new(algorithm);
                hasher.update(bytes);
                hasher.finish()
            };
            let value = BASE64_STANDARD.encode(digest(algorithm));
            let meta = PartMeta {
                etag: hex::encode(digest(Algorithm::Md5)),
                number: index + 1,
                size: bytes.len() as u64,
                actual_size: bytes.len() as i64,
                checksums: [(algorithm.name().to_owned(), value)].into(),
                ..PartMeta::default()
            };
            (index as u32 + 1, Part { record: meta.encode(), meta, holders: vec![0] })
        };
        contents.iter().enumerate().map(part).collect()
    }

    #[test]
    fn a_checksum_over_the_whole_is_that_of_the_joined_contents() {
        for algorithm in [Algorithm::Crc32, Algorithm::Crc32C, Algorithm::Crc64Nvme] {
            let parts = parts(algorithm, &[b"first part", b"second", b""]);
            let mut hasher = Hasher::new(algorithm);
            hasher.update(b"first partsecond");
            let record = checksum_of(algorithm, true, &parts).unwrap();
            assert_eq!(record.digest, hasher.finish(), "{algorithm:?}");
            assert!(!record.is_composite());
        }
        let parts = parts(Algorithm::Sha256, &[b"a", b"b"]);
        assert!(checksum_of(Algorithm::Sha256, true, &parts).is_err());
        let record = checksum_of(Algorithm::Sha256, false, &parts).unwrap();
        assert!(record.is_composite());
        assert_eq!(record.parts.len(), 2);
    }

    #[test]
    fn a_list_that_does_not_fit_is_refused() {
        let parts = parts(Algorithm::Crc32, &[b"small", b"last"]);
        let listed = |number: u32| CompletePart {
            number,
            etag: parts.get(&number).map_or("none".to_owned(), |part| part.meta.etag.clone()),
            checksum: None,
        };
        assert_eq!(check_list(&[listed(2)], &parts), Ok(()));
        let refused = |list: &[CompletePart]| check_list(list, &parts).unwrap_err();
        assert!(matches!(refused(&[]), StoreError::InvalidRequest(_)));
        assert_eq!(refused(&[listed(2), listed(1)]), StoreError::InvalidPartOrder);
        assert_eq!(refused(&[listed(1), listed(1)]), StoreError::InvalidPartOrder);
        assert_eq!(refused(&[listed(3)]), StoreError::InvalidPart(3));
        let small = StoreError::PartTooSmall { number: 1, size: 5 };
        assert_eq!(refused(&[listed(1), listed(2)]), small);
        let other = CompletePart { etag: "another".to_owned(), ..listed(1) };
        assert_eq!(refused(&[other]), StoreError::InvalidPart(1));
        let wrong = (Algorithm::Crc32, vec![0; 4]);
        let wrong = CompletePart { checksum: Some(wrong), ..listed(1) };
        assert_eq!(refused(&[wrong]), StoreError::InvalidPart(1));
    }
}
