//! A drive on a temporary directory, asked as a node asks it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use tempfile::TempDir;

use super::*;
use crate::disk::drive::*;
use crate::disk::format::format_json::FormatJson;
use crate::disk::format::xl_meta::ObjectBody;
use crate::disk::format::xl_meta::Part;
use crate::disk::format::xl_meta::Version;
use crate::disk::format::xl_meta::XlMeta;
use crate::disk::layout;
use crate::protocol::crash_point::CrashPoint;
use crate::protocol::crash_point::Place;
use crate::protocol::rules::Sound;
use crate::value::ObjectKey;
use crate::value::VersionId;
use uuid::Uuid;

#[derive(Default)]
struct Gate {
    closed: AtomicBool,
    passed: Mutex<Vec<CrashPoint>>,
}

impl Fences for Gate {
    fn pin(&self, _resource: &ObjectKey, _lock: Uuid) -> Option<Box<dyn Send>> {
        (!self.closed.load(Ordering::SeqCst)).then(|| Box::new(()) as Box<dyn Send>)
    }
}

impl Passing for Gate {
    fn pass(&self, point: CrashPoint, _place: &Place) {
        self.passed.lock().unwrap().push(point);
    }
}

struct Bench {
    folder: TempDir,
    gate: Arc<Gate>,
    drive: LocalDrive,
}

fn open(root: &Path, gate: &Arc<Gate>) -> Result<LocalDrive, DriveError> {
    let options = LocalOptions {
        name: "0/0".to_owned(),
        root: root.to_owned(),
        allow_unmounted: true,
        durability: Durability::Strict,
    };
    let seams = LocalSeams {
        fences: Arc::<Gate>::clone(gate),
        passing: Arc::<Gate>::clone(gate),
        rules: Arc::new(Sound),
    };
    LocalDrive::open(options, seams)
}

fn format() -> Vec<u8> {
    let drive = Uuid::from_u128(2);
    FormatJson::new(Uuid::from_u128(1), drive, vec![vec![drive]]).encode()
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let gate = Arc::new(Gate::default());
        let drive = open(folder.path(), &gate).unwrap();
        drive.perform(DriveRequest::WriteFormat { bytes: format(), rebuilding: false }).unwrap();
        let bench = Self { folder, gate, drive };
        bench.done(DriveRequest::MakeBucket { grant: grant("", "bkt"), bucket: "bkt".to_owned() });
        bench
    }

    fn done(&self, request: DriveRequest) {
        assert_eq!(self.drive.perform(request), Ok(DriveReply::Done));
    }

    fn commit(&self, commit: Commit) -> Result<Committed, DriveError> {
        match self.drive.perform(DriveRequest::Commit(Box::new(commit)))? {
            DriveReply::Committed(committed) => Ok(committed),
            other => panic!("a commit was answered by {other:?}"),
        }
    }

    fn remove(&self, key: &str, version: VersionId, before_ns: i64, rollback: Uuid) -> Removed {
        let remove =
            Remove { grant: grant("bkt", key), target: at(key), version, before_ns, rollback };
        match self.drive.perform(DriveRequest::Remove(remove)).unwrap() {
            DriveReply::Removed(removed) => removed,
            other => panic!("a remove was answered by {other:?}"),
        }
    }

    fn key(&self, key: &str) -> KeyCopy {
        let request = DriveRequest::ReadKey { target: at(key), inline: true };
        match self.drive.perform(request).unwrap() {
            DriveReply::Key(copy) => *copy,
            other => panic!("a read was answered by {other:?}"),
        }
    }

    fn meta(&self, key: &str) -> Option<XlMeta> {
        self.key(key).meta.map(|bytes| XlMeta::parse(&bytes).unwrap())
    }

    /// The moment of the null version, which tells the writes of these tests apart.
    fn null(&self, key: &str) -> Option<i64> {
        self.meta(key)?.find(VersionId::NULL).map(|version| version.header().modtime_ns)
    }

    fn page(&self, prefix: &str, after: &str, limit: u32) -> WalkPage {
        let request = DriveRequest::Walk {
            bucket: "bkt".to_owned(),
            prefix: prefix.to_owned(),
            after: after.to_owned(),
            limit,
        };
        match self.drive.perform(request).unwrap() {
            DriveReply::Page(page) => page,
            other => panic!("a walk was answered by {other:?}"),
        }
    }

    /// All files below the bucket, for finding leftovers.
    fn tree(&self, below: &str) -> Vec<String> {
        fn visit(root: &Path, at: &Path, found: &mut Vec<String>) {
            let mut entries =
                std::fs::read_dir(at).unwrap().map(|it| it.unwrap().path()).collect::<Vec<_>>();
            entries.sort();
            for path in entries {
                if path.is_dir() {
                    visit(root, &path, found);
                } else {
                    found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
                }
            }
        }
        let mut found = Vec::new();
        let root = self.folder.path().join(below);
        if root.exists() {
            visit(&root, &root, &mut found);
        }
        found
    }
}

fn at(key: &str) -> ObjectKey {
    ObjectKey { bucket: "bkt".to_owned(), key: key.to_owned() }
}

fn grant(bucket: &str, key: &str) -> Grant {
    let resource = ObjectKey { bucket: bucket.to_owned(), key: key.to_owned() };
    Grant { resource, lock: Uuid::from_u128(9) }
}

fn data_dir(moment: i64) -> Uuid {
    Uuid::from_u128(0xd000_0000 + moment.unsigned_abs() as u128)
}

fn object(id: VersionId, moment: i64, size: u64, inline: bool) -> Version {
    let mut body = ObjectBody {
        version: id,
        data_dir: data_dir(moment),
        erasure_algorithm: 1,
        data: 1,
        parity: 0,
        block_bytes: 1 << 20,
        shard: 1,
        distribution: vec![1],
        checksum_algorithm: 1,
        parts: vec![Part {
            number: 1,
            size,
            actual_size: size as i64,
            etag: String::new(),
            index: Vec::new(),
        }],
        size,
        modtime_ns: moment,
        system: BTreeMap::new(),
        user: BTreeMap::new(),
        unknown: Vec::new(),
    };
    if inline {
        body.set_system("inline-data", "true");
    }
    Version::object(body)
}

fn put(key: &str, version: &Version, shards: Shards) -> Commit {
    Commit {
        grant: grant("bkt", key),
        target: at(key),
        header: version.header_bytes().to_vec(),
        body: version.body_bytes().to_vec(),
        shards,
        kind: CommitKind::Put,
        decided: true,
    }
}

/// Puts a version with one byte of contents into the metadata file.
fn put_inline(bench: &Bench, key: &str, id: VersionId, moment: i64) -> Committed {
    let version = object(id, moment, 1, true);
    bench.commit(put(key, &version, Shards::Inline(vec![moment as u8; 33]))).unwrap()
}

/// Stages and publishes a version with shards of its own.
fn put_large(bench: &Bench, key: &str, id: VersionId, moment: i64) -> Committed {
    let staging = Staging { id: Uuid::new_v4(), data_dir: data_dir(moment) };
    for (offset, bytes) in [(0, vec![1; 10]), (10, vec![2; 5])] {
        bench.done(DriveRequest::Append { staging, part: 1, offset, bytes });
    }
    bench.done(DriveRequest::Seal { staging, target: at(key), kind: CommitKind::Put });
    let version = object(id, moment, 15, false);
    bench.commit(put(key, &version, Shards::Staged(staging))).unwrap()
}

fn published(moment: i64) -> Published {
    Published { version: VersionId::NULL, modtime_ns: moment, data_dir: Some(data_dir(moment)) }
}

fn undo(key: &str, moment: i64, rollback: Option<Uuid>) -> DriveRequest {
    DriveRequest::Undo(Undo {
        grant: grant("bkt", key),
        target: at(key),
        published: Some(published(moment)),
        rollback,
        quarantine: false,
        upload: None,
    })
}

fn settle(key: &str, rollbacks: Vec<Uuid>, data_dirs: Vec<Uuid>) -> DriveRequest {
    DriveRequest::Settle(Settle {
        grant: grant("bkt", key),
        target: at(key),
        rollbacks,
        data_dirs,
        parts: None,
    })
}

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

#[test]
fn the_queue_survives_a_death_and_a_torn_line() {
    let bench = Bench::new();
    let entry = |n: u8| QueueEntry { id: Uuid::from_u128(u128::from(n)), body: vec![n; 3] };
    for n in 1..=3 {
        bench.done(DriveRequest::QueuePut(entry(n)));
        bench.done(DriveRequest::QueuePut(entry(n)));
    }
    bench.done(DriveRequest::QueueDone { ids: vec![entry(1).id, Uuid::from_u128(99)] });
    let Bench { folder, gate, drive } = bench;
    drop(drive);
    let path = folder.path().join(".rustfs.sys/buckets/.heal/firedrill/queue.jsonl");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(b"{\"put\":{\"id\":\"0000");
    std::fs::write(&path, bytes).unwrap();

    let drive = open(folder.path(), &gate).unwrap();
    drive.own(1).unwrap();
    let bench = Bench { folder, gate, drive };
    let read = |bench: &Bench| match bench.drive.perform(DriveRequest::QueueRead { limit: 9 }) {
        Ok(DriveReply::Queue(entries)) => entries,
        other => panic!("{other:?}"),
    };
    assert_eq!(read(&bench), [entry(2), entry(3)]);
    bench.done(DriveRequest::QueuePut(entry(4)));
    assert_eq!(read(&bench), [entry(2), entry(3), entry(4)]);
    bench.done(DriveRequest::QueueDone { ids: (2..=4).map(|n| entry(n).id).collect() });
    assert_eq!(read(&bench), []);
    assert_eq!(std::fs::read(path).unwrap(), b"", "an empty queue is an empty file");
}

#[test]
fn possession_is_exclusive_and_presence_is_remembered() {
    let bench = Bench::new();
    let second = open(bench.folder.path(), &bench.gate).unwrap();
    assert!(matches!(second.own(5), Err(DriveError::Leased { .. })));
    assert_eq!(
        second.perform(DriveRequest::ListBuckets),
        Err(DriveError::NotOwned),
        "nothing is answered for a drive of somebody else"
    );
    bench.done(DriveRequest::Heartbeat { now_ns: 1_000 });
    let Bench { folder, gate, drive } = bench;
    std::fs::write(folder.path().join(".rustfs.sys/tmp/loose"), b"x").unwrap();
    drop(drive);
    second.own(5_000).unwrap();
    let DriveReply::Facts(facts) = second.perform(DriveRequest::Facts).unwrap() else { panic!() };
    assert_eq!((facts.absent_from_ns, facts.absent_until_ns), (1_000, 5_000));
    assert!(facts.unclean);
    assert!(!folder.path().join(".rustfs.sys/tmp/loose").exists(), "the staging area is wiped");
    assert!(!folder.path().join(layout::TMP_OLD).exists(), "and what was in it is gone");
    second.close(6_000).unwrap();
    assert!(!folder.path().join(layout::UNCLEAN).exists());
    let third = open(folder.path(), &gate).unwrap();
    third.own(7_000).unwrap();
    let DriveReply::Facts(facts) = third.perform(DriveRequest::Facts).unwrap() else { panic!() };
    assert!(!facts.unclean);
}

#[test]
fn nothing_is_written_before_a_drive_has_a_format() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Gate::default());
    let drive = open(folder.path(), &gate).unwrap();
    assert_eq!(drive.perform(DriveRequest::ReadFormat), Ok(DriveReply::Format(None)));
    assert_eq!(drive.own(1), Err(DriveError::Blank));
    for request in [
        DriveRequest::Heartbeat { now_ns: 1 },
        DriveRequest::MakeBucket { grant: grant("", "bkt"), bucket: "bkt".to_owned() },
        DriveRequest::WriteFormat { bytes: b"{}".to_vec(), rebuilding: false },
    ] {
        assert!(drive.perform(request).is_err());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "not one byte");
    drive.perform(DriveRequest::WriteFormat { bytes: format(), rebuilding: true }).unwrap();
    let DriveReply::Facts(facts) = drive.perform(DriveRequest::Facts).unwrap() else { panic!() };
    assert!(facts.rebuilding);
    drive.perform(DriveRequest::FinishRebuild).unwrap();
    assert!(!folder.path().join(layout::HEALING).exists());
    let other = Uuid::from_u128(3);
    let other = FormatJson::new(Uuid::from_u128(1), other, vec![vec![other]]).encode();
    assert_eq!(
        drive.perform(DriveRequest::WriteFormat { bytes: other, rebuilding: false }),
        Err(DriveError::Formatted)
    );
}

#[test]
fn a_drive_whose_mount_point_changed_is_not_written_through_either() {
    let bench = Bench::new();
    let moved = bench.folder.path().with_extension("moved");
    std::fs::rename(bench.folder.path(), &moved).unwrap();
    std::fs::create_dir(bench.folder.path()).unwrap();
    let version = object(VersionId::NULL, 1, 1, true);
    let swapped = bench.commit(put("k", &version, Shards::Inline(vec![1; 33]))).unwrap_err();
    assert!(matches!(swapped, DriveError::Swapped { .. }));
    assert_eq!(std::fs::read_dir(bench.folder.path()).unwrap().count(), 0);
    assert!(!moved.join("bkt/k").exists());
    // Back at its place it still has to be identified anew.
    std::fs::remove_dir(bench.folder.path()).unwrap();
    std::fs::rename(&moved, bench.folder.path()).unwrap();
    assert!(matches!(
        bench.drive.perform(DriveRequest::ListBuckets),
        Err(DriveError::Swapped { .. })
    ));
}

#[test]
fn a_directory_on_its_parents_file_system_is_an_absent_drive() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Gate::default());
    let options = LocalOptions {
        name: "0/0".to_owned(),
        root: folder.path().to_owned(),
        allow_unmounted: false,
        durability: Durability::Strict,
    };
    let seams =
        LocalSeams { fences: Arc::<Gate>::clone(&gate), passing: gate, rules: Arc::new(Sound) };
    let refused = LocalDrive::open(options, seams).err();
    assert!(matches!(refused, Some(DriveError::Absent { .. })), "{refused:?}");
}

#[test]
fn a_link_on_the_way_leads_nowhere() {
    let bench = Bench::new();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), bench.folder.path().join("bkt/link")).unwrap();
    let version = object(VersionId::NULL, 1, 1, true);
    let refused = bench.commit(put("link/k", &version, Shards::Inline(vec![1; 33])));
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}
