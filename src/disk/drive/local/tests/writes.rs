//! Commits, removes, and what takes them back or clears up after them.

use super::*;

#[test]
fn a_large_version_is_staged_published_and_read_back() {
    let bench = Bench::new();
    let committed = put_large(&bench, "a/b", VersionId::NULL, 5);
    assert_eq!((committed.rollback, committed.old_data_dir), (None, None));
    assert_eq!(bench.null("a/b"), Some(5));
    let read = |offset, length| {
        let target = at("a/b");
        let data_dir = data_dir(5);
        let request = DriveRequest::ReadShard { target, data_dir, part: 1, offset, length };
        bench.drive.perform(request)
    };
    assert_eq!(read(8, 4), Ok(DriveReply::Bytes(vec![1, 1, 2, 2])));
    assert_eq!(read(14, 4), Ok(DriveReply::Bytes(vec![2])), "fewer bytes at the end");
    assert_eq!(
        *bench.gate.passed.lock().unwrap(),
        [
            CrashPoint::PutShardsStaged,
            CrashPoint::PutShardsSynced,
            CrashPoint::PutMetaStaged,
            CrashPoint::PutDataRenamed,
            CrashPoint::PutMetaRenamed,
            CrashPoint::PutDirectorySynced,
        ]
    );
    assert!(bench.tree(layout::TMP).is_empty(), "nothing stays in the staging area");
}

#[test]
fn an_overwrite_can_be_taken_back_until_it_is_settled() {
    let bench = Bench::new();
    for (first, second) in [(true, true), (true, false), (false, true), (false, false)] {
        let key = format!("k-{first}-{second}");
        let write = |inline: bool, moment| {
            let put = if inline { put_inline } else { put_large };
            put(&bench, &key, VersionId::NULL, moment)
        };
        write(first, 1);
        let before = bench.tree(&format!("bkt/{key}"));
        let committed = write(second, 2);
        assert_eq!(bench.null(&key), Some(2));
        assert_eq!(committed.rollback, Some(data_dir(1)), "named by what was replaced");
        assert_eq!(committed.old_data_dir, (!first).then(|| data_dir(1)));

        bench.done(undo(&key, 2, committed.rollback));
        assert_eq!(bench.null(&key), Some(1), "the version before is back");
        assert_eq!(bench.tree(&format!("bkt/{key}")), before, "and nothing else");

        let committed = write(second, 3);
        let data_dirs = Vec::from_iter(committed.old_data_dir);
        bench.done(settle(&key, Vec::from_iter(committed.rollback), data_dirs));
        let left = bench.tree(&format!("bkt/{key}"));
        assert_eq!(left.len(), if second { 1 } else { 2 }, "{left:?}");
        assert_eq!(bench.null(&key), Some(3));
    }
}

#[test]
fn taking_back_the_first_version_leaves_no_key() {
    let bench = Bench::new();
    put_large(&bench, "a/b/c", VersionId::NULL, 1);
    bench.done(undo("a/b/c", 7, None));
    assert_eq!(bench.null("a/b/c"), Some(1), "another write's undo does nothing");
    bench.done(undo("a/b/c", 1, None));
    assert!(!bench.folder.path().join("bkt/a").exists());
    assert!(bench.folder.path().join("bkt").exists());
}

#[test]
fn a_write_keeps_its_way_back_while_the_one_before_is_undecided() {
    let bench = Bench::new();
    put_inline(&bench, "k", VersionId::NULL, 1);
    put_inline(&bench, "k", VersionId::NULL, 2);
    let third = object(VersionId::NULL, 3, 1, true);
    let mut commit = put("k", &third, Shards::Inline(vec![3; 33]));
    commit.decided = false;
    bench.commit(commit).unwrap();
    let kept = bench.key("k").folders.into_iter().map(|it| (it.id, it.backup.is_some()));
    assert_eq!(kept.collect::<Vec<_>>(), [(data_dir(1), true), (data_dir(2), true)]);

    put_inline(&bench, "k", VersionId::NULL, 4);
    let kept = bench.key("k").folders.into_iter().map(|it| it.id).collect::<Vec<_>>();
    assert_eq!(kept, [data_dir(3)], "a decided write clears what came before it");
}

#[test]
fn a_remove_takes_one_version_and_can_be_taken_back() {
    let bench = Bench::new();
    let id = VersionId([7; 16]);
    put_large(&bench, "k", id, 1);
    put_inline(&bench, "k", VersionId::NULL, 2);
    let rollback = Uuid::from_u128(77);
    assert_eq!(bench.remove("k", id, 1, rollback), Removed::default(), "it is not older than 1");
    assert_eq!(bench.remove("k", VersionId([8; 16]), 9, rollback), Removed::default());

    let removed = bench.remove("k", id, 9, rollback);
    assert_eq!(removed, Removed { found: true, old_data_dir: Some(data_dir(1)) });
    assert!(bench.meta("k").unwrap().find(id).is_none());
    bench.done(DriveRequest::Undo(Undo {
        grant: grant("bkt", "k"),
        target: at("k"),
        published: None,
        rollback: Some(rollback),
        quarantine: false,
        upload: None,
    }));
    assert!(bench.meta("k").unwrap().find(id).is_some());

    bench.remove("k", id, 9, rollback);
    bench.done(settle("k", vec![rollback], vec![data_dir(1)]));
    assert_eq!(bench.tree("bkt/k"), ["xl.meta"]);
    bench.remove("k", VersionId::NULL, 9, rollback);
    assert_eq!(bench.null("k"), None);
    bench.done(settle("k", vec![rollback], Vec::new()));
    assert!(!bench.folder.path().join("bkt/k").exists(), "the last version takes its key along");
}

#[test]
fn without_its_lock_no_step_is_taken() {
    let bench = Bench::new();
    put_inline(&bench, "k", VersionId::NULL, 1);
    bench.gate.closed.store(true, Ordering::SeqCst);
    let version = object(VersionId::NULL, 2, 1, true);
    let refused = bench.commit(put("k", &version, Shards::Inline(vec![2; 33]))).unwrap_err();
    assert!(matches!(refused, DriveError::Fenced { .. }));
    assert_eq!(refused.effect(), Effect::None);
    assert!(bench.drive.perform(undo("k", 1, None)).is_err());
    assert_eq!(bench.null("k"), Some(1));
    let before = bench.tree("");
    for request in [
        DriveRequest::MakeBucket { grant: grant("", "new"), bucket: "new".to_owned() },
        DriveRequest::RemoveBucket { grant: grant("", "bkt"), bucket: "bkt".to_owned() },
        settle("k", vec![data_dir(1)], vec![data_dir(1)]),
    ] {
        assert!(matches!(bench.drive.perform(request), Err(DriveError::Fenced { .. })));
    }
    assert_eq!(bench.tree(""), before);
}

#[test]
fn keys_are_walked_in_the_order_of_their_bytes() {
    let bench = Bench::new();
    let uuid = "0f6f2a3e-5b51-4f0e-9a53-6a8f0a5c7d10";
    let mut keys = vec![
        "a".to_owned(),
        "a-b".to_owned(),
        "a/".to_owned(),
        "a/b".to_owned(),
        "a/b/c".to_owned(),
        format!("a/{uuid}"),
        format!("a/{uuid}/x"),
        "a0".to_owned(),
        "z/y/x".to_owned(),
        "ä".to_owned(),
    ];
    keys.sort();
    for key in &keys {
        put_large(&bench, key, VersionId::NULL, 5);
    }
    let names = |page: WalkPage| page.entries.into_iter().map(|it| it.key).collect::<Vec<_>>();
    assert_eq!(names(bench.page("", "", 1000)), keys);
    for (index, after) in keys.iter().enumerate() {
        assert_eq!(names(bench.page("", after, 1000)), keys[index + 1..], "after {after}");
    }
    for prefix in ["a", "a/", "a/b", "z/", "z/y/x", "q", "a/0f"] {
        let expected = keys.iter().filter(|key| key.starts_with(prefix)).cloned();
        assert_eq!(names(bench.page(prefix, "", 1000)), expected.collect::<Vec<_>>(), "{prefix}");
    }
    let mut seen = Vec::new();
    loop {
        let page = bench.page("", seen.last().map_or("", String::as_str), 3);
        let complete = page.complete;
        seen.extend(names(page));
        if complete {
            break;
        }
    }
    assert_eq!(seen, keys, "pages fit together");
    // The data directories of `a` are its own; the key with a UUID for a name is not.
    let copy = bench.key("a");
    assert_eq!(copy.folders.iter().map(|it| it.id).collect::<Vec<_>>(), [data_dir(5)]);
}

#[test]
fn quarantine_moves_what_it_is_told_and_never_another_key() {
    let bench = Bench::new();
    let child = Uuid::from_u128(0xabc);
    put_large(&bench, "a", VersionId::NULL, 1);
    put_inline(&bench, &format!("a/{}/x", child.hyphenated()), VersionId::NULL, 2);
    let stray = Uuid::from_u128(0xdef);
    let folder = bench.folder.path().join(format!("bkt/a/{}", stray.hyphenated()));
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("part.1"), b"stray").unwrap();

    let quarantine = |version, directories| {
        DriveRequest::Quarantine(Quarantine {
            grant: grant("bkt", "a"),
            target: at("a"),
            version,
            directories,
            inline: Vec::new(),
            metadata: false,
        })
    };
    bench.drive.perform(quarantine(None, vec![child, stray, data_dir(1)])).unwrap();
    assert!(!folder.exists());
    assert!(bench.meta(&format!("a/{}/x", child.hyphenated())).is_some(), "a child key stays");
    assert_eq!(bench.null("a"), Some(1));
    assert!(bench.tree("bkt/a").iter().any(|path| path.ends_with("part.1")), "its shards stay");

    bench.drive.perform(quarantine(Some(published(99)), Vec::new())).unwrap();
    assert_eq!(bench.null("a"), Some(1), "another write of the version is not touched");
    bench.drive.perform(quarantine(Some(published(1)), Vec::new())).unwrap();
    assert_eq!(bench.null("a"), None);
    let kept = bench.tree(layout::QUARANTINE);
    for name in ["xl.meta", "part.1", "origin.json"] {
        assert!(kept.iter().any(|path| path.ends_with(name)), "{name} is kept: {kept:?}");
    }
    let far = i64::MAX;
    bench.done(DriveRequest::Sweep { now_ns: 0, grace_s: 60 });
    assert_eq!(bench.tree(layout::QUARANTINE), kept, "its grace has not ended");
    bench.done(DriveRequest::Sweep { now_ns: far, grace_s: 60 });
    assert!(bench.tree(layout::QUARANTINE).is_empty());
}

#[test]
fn unreadable_metadata_is_put_aside_before_it_is_replaced() {
    let bench = Bench::new();
    put_inline(&bench, "k", VersionId::NULL, 1);
    let path = bench.folder.path().join("bkt/k/xl.meta");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    put_inline(&bench, "k", VersionId::NULL, 2);
    assert_eq!(bench.null("k"), Some(2));
    let kept = bench.tree(layout::QUARANTINE);
    let kept = kept.iter().find(|path| path.ends_with("xl.meta")).unwrap();
    let kept = bench.folder.path().join(layout::QUARANTINE).join(kept);
    assert_eq!(std::fs::read(kept).unwrap(), bytes);
}

#[test]
fn a_bucket_goes_only_when_nothing_but_empty_directories_is_in_it() {
    let bench = Bench::new();
    let remove =
        || DriveRequest::RemoveBucket { grant: grant("", "bkt"), bucket: "bkt".to_owned() };
    put_inline(&bench, "a/b", VersionId::NULL, 1);
    let refused = bench.drive.perform(remove()).unwrap_err();
    assert!(matches!(refused, DriveError::BucketNotEmpty { .. }));
    assert_eq!(bench.null("a/b"), Some(1));
    bench.done(undo("a/b", 1, None));
    std::fs::create_dir_all(bench.folder.path().join("bkt/x/y")).unwrap();
    bench.done(remove());
    bench.done(remove());
    let version = object(VersionId::NULL, 2, 1, true);
    let refused = bench.commit(put("k", &version, Shards::Inline(vec![2; 33]))).unwrap_err();
    assert_eq!(refused, DriveError::NoBucket { bucket: "bkt".to_owned() });
    assert!(!bench.folder.path().join("bkt").exists(), "a commit does not make its bucket");
}

#[test]
fn parts_of_an_upload_become_the_object_and_leave_no_records() {
    let bench = Bench::new();
    let upload = ObjectKey {
        bucket: layout::SYSTEM.to_owned(),
        key: format!("multipart/{}/{}x1", "ab".repeat(32), Uuid::from_u128(5).hyphenated()),
    };
    let dir = data_dir(4);
    let opened = object(VersionId::NULL, 4, 0, false);
    let mut commit = put("k", &opened, Shards::None);
    (commit.target, commit.kind) = (upload.clone(), CommitKind::Quiet);
    bench.commit(commit).unwrap();
    for part in [1, 2, 2, 3] {
        let staging = Staging { id: Uuid::new_v4(), data_dir: dir };
        bench.done(DriveRequest::Append { staging, part, offset: 0, bytes: vec![part as u8; 9] });
        bench.done(DriveRequest::Seal { staging, target: at("k"), kind: CommitKind::Quiet });
        bench.done(DriveRequest::CommitPart(Box::new(CommitPart {
            grant: grant("bkt", "k"),
            upload: upload.clone(),
            staging,
            part,
            meta: vec![part as u8],
        })));
    }
    let parts = bench
        .drive
        .perform(DriveRequest::ReadParts { upload: upload.clone(), data_dir: dir })
        .unwrap();
    let DriveReply::Parts(parts) = parts else { panic!("{parts:?}") };
    assert_eq!(parts.iter().map(|it| (it.number, it.bytes)).collect::<Vec<_>>().len(), 3);

    let whole = object(VersionId::NULL, 4, 18, false);
    let mut commit = put("k", &whole, Shards::Upload { upload: upload.clone(), data_dir: dir });
    commit.kind = CommitKind::Multipart;
    bench.commit(commit.clone()).unwrap();
    bench.done(DriveRequest::Undo(Undo {
        grant: grant("bkt", "k"),
        target: at("k"),
        published: Some(published(4)),
        rollback: None,
        quarantine: false,
        upload: Some(upload.clone()),
    }));
    assert_eq!(bench.null("k"), None, "taken back, the upload can be completed again");
    bench.commit(commit).unwrap();
    bench.done(DriveRequest::Settle(Settle {
        grant: grant("bkt", "k"),
        target: at("k"),
        rollbacks: Vec::new(),
        data_dirs: Vec::new(),
        parts: Some((dir, vec![1, 2])),
    }));
    let name = dir.hyphenated();
    let left = bench.tree("bkt/k");
    assert_eq!(left, [format!("{name}/part.1"), format!("{name}/part.2"), "xl.meta".to_owned()]);
    bench.done(DriveRequest::RemoveUpload { grant: grant("bkt", "k"), upload: upload.clone() });
    bench.done(DriveRequest::RemoveUpload { grant: grant("bkt", "k"), upload });
    assert!(bench.tree(layout::MULTIPART).is_empty());
}

/// Goal: a request that was cut off from the drive leaves nothing. What it sends after its folder was
/// thrown away must not make a file with a hole; what it left is swept, at the latest when the drive closes.
#[test]
fn what_nobody_published_is_swept_and_never_made_anew() {
    let bench = Bench::new();
    let staging = Staging { id: Uuid::new_v4(), data_dir: data_dir(1) };
    let append = |offset, bytes| DriveRequest::Append { staging, part: 1, offset, bytes };
    bench.done(append(0, vec![1; 10]));
    bench.done(DriveRequest::Sweep { now_ns: 0, grace_s: 60 });
    bench.done(append(10, vec![1; 10]));
    bench.done(DriveRequest::Discard { staging });
    assert!(bench.drive.perform(append(20, vec![1; 10])).is_err(), "it would begin with a hole");
    assert!(bench.tree(layout::TMP).is_empty());

    bench.done(append(0, vec![1; 10]));
    bench.drive.sweep_staging(std::time::Duration::from_secs(60)).unwrap();
    assert!(!bench.tree(layout::TMP).is_empty(), "it was heard of a moment ago");
    bench.drive.close(1).unwrap();
    assert!(bench.tree(layout::TMP).is_empty());
}
