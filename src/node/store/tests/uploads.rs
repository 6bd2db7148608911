//! Multipart uploads.

use std::sync::Arc;

use super::bench::*;
use crate::disk::format::checksum::Algorithm;
use crate::disk::format::checksum::Hasher;
use crate::node::store::api::*;
use crate::protocol::object::condition::Conditions;
use crate::protocol::object::condition::Tags;
use crate::protocol::object::effect::BucketState;

const FULL: usize = 5 << 20;

fn upload_request(name: &str) -> UploadRequest {
    UploadRequest { target: key("bkt", name), metadata: Metadata::default(), checksum: None }
}

async fn part(
    bench: &Bench,
    name: &str,
    upload: &str,
    number: u32,
    bytes: &[u8],
) -> Result<CompletePart, StoreError> {
    let request = PartRequest {
        target: key("bkt", name),
        upload: upload.to_owned(),
        number,
        size: Some(bytes.len() as u64),
        content_md5: None,
        checksums: Vec::new(),
    };
    let info = bench.store.put_part(request, body(bytes)).await?;
    Ok(CompletePart { number, etag: info.etag, checksum: None })
}

fn complete(name: &str, upload: &str, parts: Vec<CompletePart>) -> CompleteRequest {
    CompleteRequest {
        target: key("bkt", name),
        upload: upload.to_owned(),
        parts,
        checksum: None,
        conditions: Conditions::default(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completed_upload_is_an_object_of_the_listed_parts() {
    for n in [1, 4, 6] {
        let bench = Bench::new(n, BucketState::Enabled).await;
        let mut request = upload_request("k");
        request.metadata.user.insert("colour".to_owned(), "red".to_owned());
        let upload = bench.store.create_upload(request).await.unwrap();
        let (one, two) = (contents(FULL, 1), contents(700_001, 2));
        part(&bench, "k", &upload, 2, &contents(FULL, 9)).await.unwrap();
        let first = part(&bench, "k", &upload, 2, &one).await.unwrap();
        part(&bench, "k", &upload, 5, &contents(100, 3)).await.unwrap();
        let second = part(&bench, "k", &upload, 10_000, &two).await.unwrap();
        assert!(matches!(bench.get("k").await, Err(StoreError::NoSuchKey(_))));

        let target = key("bkt", "k");
        let (info, parts, more) = bench.store.list_parts(&target, &upload, 0, 2).await.unwrap();
        assert_eq!((info.upload.as_str(), parts.len(), more), (upload.as_str(), 2, true));
        let (_, parts, more) = bench.store.list_parts(&target, &upload, 5, 2).await.unwrap();
        assert_eq!((parts[0].number, parts[0].size, more), (10_000, 700_001, false));

        let request = complete("k", &upload, vec![first, second]);
        let outcome = bench.store.complete_upload(request).await.unwrap();
        let whole = [one.clone(), two.clone()].concat();
        assert!(outcome.etag.ends_with("-2"));
        assert_eq!(outcome.size, whole.len() as u64);
        assert!(outcome.version.is_some());
        assert!(bench.get("k").await.unwrap() == whole);
        let read = |part| ReadRequest { part: Some(part), ..read_request(key("bkt", "k")) };
        assert!(bench.read(read(2)).await.unwrap() == one);
        assert!(bench.read(read(10_000)).await.unwrap() == two);
        let across = Some(Range::Between(FULL as u64 - 10, FULL as u64 + 9));
        let read = ReadRequest { range: across, ..read_request(key("bkt", "k")) };
        assert!(bench.read(read).await.unwrap() == whole[FULL - 10..FULL + 10]);
        let info = bench.store.head(read_request(key("bkt", "k"))).await.unwrap();
        assert_eq!(info.parts, [(2, FULL as u64), (10_000, 700_001)]);
        assert_eq!(info.metadata.user["colour"], "red");

        bench.quiet().await;
        for drive in 0..n {
            let below = bench.below(drive, "k");
            assert_eq!(below.len(), 4, "metadata, a folder, the listed parts: {below:?}");
            let left = std::fs::read_dir(bench.root(drive).join(".rustfs.sys/multipart")).unwrap();
            assert_eq!(left.count(), 0, "nothing is left of the upload");
        }
        let again = part(&bench, "k", &upload, 1, b"x").await;
        assert_eq!(again.err(), Some(StoreError::NoSuchUpload(upload)));
        bench.audit().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_is_refused_and_the_upload_stays() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    let upload = bench.store.create_upload(upload_request("k")).await.unwrap();
    let one = part(&bench, "k", &upload, 1, b"small").await.unwrap();
    let two = part(&bench, "k", &upload, 2, b"").await.unwrap();
    let refused = |parts| bench.store.complete_upload(complete("k", &upload, parts));
    let too_small = refused(vec![one.clone(), two.clone()]).await;
    assert_eq!(too_small, Err(StoreError::PartTooSmall { number: 1, size: 5 }));
    assert_eq!(refused(vec![two, one.clone()]).await, Err(StoreError::InvalidPartOrder));
    let wrong = CompletePart { etag: "0".repeat(32), ..one.clone() };
    assert_eq!(refused(vec![wrong]).await, Err(StoreError::InvalidPart(1)));
    for number in [0, 10_001] {
        let refused = part(&bench, "k", &upload, number, b"x").await;
        assert!(matches!(refused, Err(StoreError::InvalidRequest(_))));
    }
    for id in ["", "nonsense", "../../x"] {
        let refused = bench.store.complete_upload(complete("k", id, vec![one.clone()])).await;
        assert_eq!(refused, Err(StoreError::NoSuchUpload(id.to_owned())));
    }
    bench.put("k", b"there").await.unwrap();
    let request = CompleteRequest {
        conditions: Conditions { if_none_match: Some(Tags::Any), ..Conditions::default() },
        ..complete("k", &upload, vec![one.clone()])
    };
    let unmet = bench.store.complete_upload(request).await;
    assert!(matches!(unmet, Err(StoreError::Condition { .. })), "{unmet:?}");
    assert_eq!(bench.get("k").await.unwrap(), b"there");
    bench.store.complete_upload(complete("k", &upload, vec![one])).await.unwrap();
    assert_eq!(bench.get("k").await.unwrap(), b"small");
    bench.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn checksums_of_parts_become_that_of_the_object() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    let (one, two) = (contents(FULL, 1), contents(1_000, 2));
    for (algorithm, full) in
        [(Algorithm::Crc32, true), (Algorithm::Crc64Nvme, true), (Algorithm::Sha256, false)]
    {
        let request = UploadRequest { checksum: Some((algorithm, full)), ..upload_request("k") };
        let upload = bench.store.create_upload(request).await.unwrap();
        let mut parts = vec![
            part(&bench, "k", &upload, 1, &one).await.unwrap(),
            part(&bench, "k", &upload, 2, &two).await.unwrap(),
        ];
        let digest = |chunks: &[&[u8]]| {
            let mut hasher = Hasher::new(algorithm);
            chunks.iter().for_each(|chunk| hasher.update(chunk));
            hasher.finish()
        };
        parts[0].checksum = Some((algorithm, digest(&[&one])));
        let whole = match full {
            true => digest(&[&one, &two]),
            false => digest(&[&digest(&[&one]), &digest(&[&two])]),
        };
        let wrong = CompleteRequest {
            checksum: Some((algorithm, vec![1; whole.len()])),
            ..complete("k", &upload, parts.clone())
        };
        let refused = bench.store.complete_upload(wrong).await;
        assert_eq!(refused, Err(StoreError::BadChecksum(algorithm)));
        let right = CompleteRequest {
            checksum: Some((algorithm, whole.clone())),
            ..complete("k", &upload, parts)
        };
        let outcome = bench.store.complete_upload(right).await.unwrap();
        assert_eq!(outcome.checksums[0].digest, whole, "{algorithm:?}");
        assert_eq!(outcome.checksums[0].is_composite(), !full);
    }
    bench.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_are_listed_and_thrown_away() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    bench.store.create_bucket("other").await.unwrap();
    let mut ids = Vec::new();
    for name in ["a", "a", "b/c", "b/d"] {
        ids.push(bench.store.create_upload(upload_request(name)).await.unwrap());
    }
    let other = UploadRequest { target: key("other", "a"), ..upload_request("a") };
    bench.store.create_upload(other).await.unwrap();
    let request = UploadListRequest {
        bucket: "bkt".to_owned(),
        delimiter: Some("/".to_owned()),
        limit: 10,
        ..UploadListRequest::default()
    };
    let listed = bench.store.list_uploads(request.clone()).await.unwrap();
    let listed_ids: Vec<_> = listed.uploads.iter().map(|it| it.upload.clone()).collect();
    assert_eq!(listed_ids, ids[..2], "oldest first within a key");
    assert_eq!(listed.prefixes, ["b/"]);

    part(&bench, "a", &ids[0], 1, &contents(400_000, 1)).await.unwrap();
    bench.store.abort_upload(&key("bkt", "a"), &ids[0]).await.unwrap();
    let gone = bench.store.abort_upload(&key("bkt", "a"), &ids[0]).await;
    assert_eq!(gone, Err(StoreError::NoSuchUpload(ids[0].clone())));
    assert_eq!(bench.store.list_uploads(request).await.unwrap().uploads.len(), 1);
    // An empty bucket goes, and its uploads with it.
    bench.store.delete_bucket("bkt").await.unwrap();
    bench.store.delete_bucket("other").await.unwrap();
    bench.quiet().await;
    for drive in 0..4 {
        let left = std::fs::read_dir(bench.root(drive).join(".rustfs.sys/multipart")).unwrap();
        assert_eq!(left.count(), 0);
    }
    bench.audit().await;
}

/// Goal: parts that were uploaded while different drives were away still make a whole object.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_that_different_drives_missed_are_brought_together() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    let upload = bench.store.create_upload(upload_request("k")).await.unwrap();
    let (one, two) = (contents(FULL, 1), contents(3_000_000, 2));
    bench.set_mood([0], Mood::Offline);
    let first = part(&bench, "k", &upload, 1, &one).await.unwrap();
    bench.all_good();
    bench.set_mood([1], Mood::Offline);
    let second = part(&bench, "k", &upload, 2, &two).await.unwrap();
    bench.all_good();
    bench.quiet().await;
    let request = complete("k", &upload, vec![first, second]);
    bench.store.complete_upload(request).await.unwrap();
    assert!(bench.get("k").await.unwrap() == [one, two].concat());
    bench.audit().await;
}

/// Goal: when answers of the commit are lost, the completion is unknown, and decided once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_whose_answers_are_lost_is_unknown_and_then_decided_once() {
    for mood in [Mood::LosesAnswers, Mood::LosesQuestions] {
        for lost in 1..=4 {
            let bench = Arc::new(Bench::new(4, BucketState::Unversioned).await);
            bench.put("k", b"before").await.unwrap();
            let upload = bench.store.create_upload(upload_request("k")).await.unwrap();
            let bytes = contents(1_200_000, 1);
            let only = part(&bench, "k", &upload, 1, &bytes).await.unwrap();
            bench.quiet().await;
            bench.set_mood(0..lost, mood);
            let done = bench.store.complete_upload(complete("k", &upload, vec![only])).await;
            bench.all_good();
            bench.quiet().await;
            let story = format!("{mood:?} on {lost}: {done:?}");
            let read = bench.get("k").await.unwrap();
            match &done {
                Ok(_) => assert!(read == bytes, "{story}"),
                Err(StoreError::Unknown { .. }) => {
                    assert!(read == bytes || read == b"before", "{story}");
                }
                Err(_) => panic!("{story}: it may have taken effect"),
            }
            assert!(bench.get("k").await.unwrap() == read, "{story}");
        }
    }
}

/// Goal: what a completion removed and a power cut brings back is no open upload, and its completion can be asked for
/// again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completed_upload_that_comes_back_is_not_open() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    let upload = bench.store.create_upload(upload_request("k")).await.unwrap();
    let only = part(&bench, "k", &upload, 1, &contents(FULL, 3)).await.unwrap();
    let folders = |drive: usize| {
        let mut found = Vec::new();
        for place in std::fs::read_dir(bench.root(drive).join(".rustfs.sys/multipart")).unwrap() {
            for upload in std::fs::read_dir(place.unwrap().path()).into_iter().flatten() {
                found.push(upload.unwrap().path());
            }
        }
        found
    };
    let kept: Vec<_> = (0..4)
        .flat_map(&folders)
        .map(|folder| (std::fs::read(folder.join("xl.meta")).unwrap(), folder))
        .collect();
    assert_eq!(kept.len(), 4);
    let list = async || {
        let request = UploadListRequest {
            bucket: "bkt".to_owned(),
            prefix: String::new(),
            delimiter: None,
            key_marker: String::new(),
            upload_marker: None,
            limit: 10,
        };
        bench.store.list_uploads(request).await.unwrap().uploads.len()
    };
    assert_eq!(list().await, 1);
    let first =
        bench.store.complete_upload(complete("k", &upload, vec![only.clone()])).await.unwrap();
    for (meta, folder) in &kept {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join("xl.meta"), meta).unwrap();
    }
    assert_eq!(list().await, 0, "it is completed");
    let again = bench.store.complete_upload(complete("k", &upload, vec![only])).await.unwrap();
    assert_eq!(again.etag, first.etag, "a retry is told what the first was told");
    assert_eq!((0..4).flat_map(&folders).count(), 0, "it is removed once more");
    assert!(bench.get("k").await == Ok(contents(FULL, 3)));
    bench.audit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_can_be_a_copy() {
    let bench = Bench::new(4, BucketState::Unversioned).await;
    let bytes = contents(2_000_000, 1);
    bench.put("from", &bytes).await.unwrap();
    let upload = bench.store.create_upload(upload_request("k")).await.unwrap();
    let range = Some(Range::Between(1_000_000, 1_999_999));
    let request = PartCopyRequest {
        source: ReadRequest { range, ..read_request(key("bkt", "from")) },
        target: key("bkt", "k"),
        upload: upload.clone(),
        number: 1,
    };
    let info = bench.store.copy_part(request).await.unwrap();
    let parts = vec![CompletePart { number: 1, etag: info.0.etag, checksum: None }];
    bench.store.complete_upload(complete("k", &upload, parts)).await.unwrap();
    assert!(bench.get("k").await.unwrap() == bytes[1_000_000..]);
}

/// Leaves a key as a completion does that dies when the first drive has published it.
async fn interrupt_completion(bench: &Bench, name: &str, upload: &str, part: &CompletePart) {
    let copy = |from: &std::path::Path, to: &std::path::Path| {
        let copied = std::process::Command::new("cp").arg("-a").args([from, to]).status();
        assert!(copied.unwrap().success());
    };
    let saved = tempfile::tempdir().unwrap();
    let uploads = |drive| bench.root(drive).join(".rustfs.sys/multipart");
    let folder_in = |path: std::path::PathBuf| {
        let mut entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        entries.find(|entry| entry.is_dir()).unwrap()
    };
    for drive in 0..4 {
        copy(&uploads(drive), &saved.path().join(drive.to_string()));
    }
    bench.store.complete_upload(complete(name, upload, vec![part.clone()])).await.unwrap();
    bench.quiet().await;
    for drive in 0..4 {
        std::fs::remove_dir_all(uploads(drive)).unwrap();
        copy(&saved.path().join(drive.to_string()), &uploads(drive));
        let of_key = bench.root(drive).join("bkt").join(name);
        let there = folder_in(of_key.clone());
        std::fs::remove_dir_all(&there).unwrap();
        let in_upload = folder_in(folder_in(folder_in(uploads(drive))));
        std::fs::rename(in_upload, there).unwrap();
        if drive > 0 {
            std::fs::remove_file(of_key.join("xl.meta")).unwrap();
        }
    }
}

/// Goal: parts of a completion that died are in their upload again, for whoever completes once more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_completion_that_died_can_be_repeated_with_and_without_healing() {
    for heals in [false, true] {
        for state in [BucketState::Enabled, BucketState::Unversioned] {
            let bench = Bench::new(4, state).await;
            let upload = bench.store.create_upload(upload_request("k")).await.unwrap();
            let bytes = contents(700_001, 4);
            let one = part(&bench, "k", &upload, 1, &bytes).await.unwrap();
            interrupt_completion(&bench, "k", &upload, &one).await;
            assert!(matches!(bench.get("k").await, Err(StoreError::NoSuchKey(_))));
            if heals {
                bench.heal().await;
                for drive in 0..4 {
                    assert_eq!(bench.held(drive, "k"), [], "drive {drive}");
                    assert!(bench.below(drive, "k").is_empty(), "drive {drive}");
                }
                let target = key("bkt", "k");
                let (_, parts, _) = bench.store.list_parts(&target, &upload, 0, 9).await.unwrap();
                assert_eq!(parts.len(), 1);
            }
            bench.store.complete_upload(complete("k", &upload, vec![one])).await.unwrap();
            assert!(bench.get("k").await.unwrap() == bytes);
            bench.quiet().await;
            bench.audit().await;
        }
    }
}
