//! A drive on a temporary directory, asked as a node asks it.

mod at_once;
mod bounds;
mod order;
mod possession;
mod replacement;
mod writes;

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
    let (options, seams) = parts(root, gate);
    LocalDrive::open(options, seams)
}

fn parts(root: &Path, gate: &Arc<Gate>) -> (LocalOptions, LocalSeams) {
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
    (options, seams)
}

fn format() -> Vec<u8> {
    let drive = Uuid::from_u128(2);
    FormatJson::new(Uuid::from_u128(1), drive, vec![vec![drive]]).encode()
}

impl Bench {
    fn new() -> Self {
        Self::with(|root, gate| open(root, gate).unwrap())
    }

    fn with(drive: impl FnOnce(&Path, &Arc<Gate>) -> LocalDrive) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let gate = Arc::new(Gate::default());
        let drive = drive(folder.path(), &gate);
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
        let remove = Remove {
            grant: grant("bkt", key),
            target: at(key),
            version,
            before_ns,
            rollback,
            under: Vec::new(),
        };
        match self.drive.perform(DriveRequest::Remove(remove)).unwrap() {
            DriveReply::Removed(removed) => removed,
            other => panic!("a remove was answered by {other:?}"),
        }
    }

    fn key(&self, key: &str) -> KeyCopy {
        let request = DriveRequest::ReadKey { target: at(key), inline: true, brief: false };
        let at_once = self.drive.at_once(&request);
        let reply = self.drive.perform(request).unwrap();
        assert!(at_once.is_none_or(|it| it == reply), "{key} is another thing at once");
        match reply {
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
        under: Vec::new(),
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
