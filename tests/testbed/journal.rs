//! How many flushes of its device a drive costs that is written to for longer than its journal is long.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use firedrill::disk::drive::Commit;
use firedrill::disk::drive::CommitKind;
use firedrill::disk::drive::Drive as _;
use firedrill::disk::drive::DriveRequest;
use firedrill::disk::drive::Fences;
use firedrill::disk::drive::Grant;
use firedrill::disk::drive::LocalDrive;
use firedrill::disk::drive::LocalOptions;
use firedrill::disk::drive::LocalSeams;
use firedrill::disk::drive::Shards;
use firedrill::disk::format::format_json::FormatJson;
use firedrill::disk::format::xl_meta::ObjectBody;
use firedrill::disk::format::xl_meta::Part;
use firedrill::disk::format::xl_meta::Version;
use firedrill::harness::scenario::plan::Filesystem;
use firedrill::protocol::config::Durability;
use firedrill::protocol::crash_point::Unarmed;
use firedrill::protocol::rules::Sound;
use firedrill::value::ObjectKey;
use firedrill::value::VersionId;
use libtest_mimic::Trial;
use uuid::Uuid;

use crate::bed::Bed;
use crate::bed::run;

/// The journal of the smallest drive takes some 60 of them.
const WRITES: u64 = 400;

pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("journal::a_write_is_two_flushes_however_many_there_were", || {
            run(two_flushes_a_write(Filesystem::Ext4))
        }),
        Trial::test("journal::a_write_is_two_flushes_however_many_there_were::xfs", || {
            run(two_flushes_a_write(Filesystem::Xfs))
        }),
    ]
}

/// Every lock is granted.
struct Granted;

impl Fences for Granted {
    fn pin(&self, _resource: &ObjectKey, _lock: Uuid) -> Option<Box<dyn Send>> {
        Some(Box::new(()))
    }
}

/// One writer, whom nobody shares a flush with. In a plain folder of the same file system, which the node leaves to its
/// owner, the journal becomes full, and a write costs more.
async fn two_flushes_a_write(filesystem: Filesystem) {
    let bed = Bed::new(1, 1, filesystem).await;
    let drive = &bed.testbed.drives()[0];
    let (root, device) = (drive.root.clone(), bed.testbed.identity(&drive.name).unwrap().device);
    let work = move || {
        let plain = root.join("plain");
        fs::create_dir(&plain).unwrap();
        [root, plain].map(|root| flushes_of_writes(&root, &device) as f64 / WRITES as f64)
    };
    let [each, in_a_folder] = tokio::task::spawn_blocking(work).await.unwrap();
    bed.end().await;
    println!("{each:.2} flushes a write on {filesystem:?}, {in_a_folder:.2} in a plain folder");
    assert!((1.0..2.4).contains(&each), "{each} flushes a write on {filesystem:?}");
    let fills_up = filesystem == Filesystem::Xfs || in_a_folder > 3.0;
    assert!(fills_up, "{in_a_folder}: it is checkpointed, or this kernel needs no checkpoints");
}

fn flushes_of_writes(root: &Path, device: &str) -> u64 {
    let options = LocalOptions {
        name: "0/0".to_owned(),
        root: root.to_owned(),
        allow_unmounted: true,
        durability: Durability::Strict,
    };
    let seams = LocalSeams {
        fences: Arc::new(Granted),
        passing: Arc::new(Unarmed),
        rules: Arc::new(Sound),
    };
    let drive = LocalDrive::open(options, seams).unwrap();
    let id = Uuid::from_u128(2);
    let bytes = FormatJson::new(Uuid::from_u128(1), id, vec![vec![id]]).encode();
    drive.perform(DriveRequest::WriteFormat { bytes, rebuilding: false }).unwrap();
    let make = DriveRequest::MakeBucket { grant: grant(""), bucket: "bkt".to_owned() };
    drive.perform(make).unwrap();
    let before = flushed(device);
    for number in 0..WRITES {
        drive.perform(DriveRequest::Commit(Box::new(write(number)))).unwrap();
    }
    flushed(device) - before
}

/// Flushes that a device has done; Documentation/block/stat.rst, the sixteenth number.
fn flushed(device: &str) -> u64 {
    let stat = fs::read_to_string(format!("/sys/block/{device}/stat")).unwrap();
    stat.split_ascii_whitespace().nth(15).unwrap().parse().unwrap()
}

fn grant(key: &str) -> Grant {
    let resource = ObjectKey { bucket: "bkt".to_owned(), key: key.to_owned() };
    Grant { resource, lock: Uuid::from_u128(9) }
}

/// A small object under a key of its own.
fn write(number: u64) -> Commit {
    let key = format!("key-{number}");
    let mut body = ObjectBody {
        version: VersionId::NULL,
        data_dir: Uuid::from_u128(u128::from(number) + 1),
        erasure_algorithm: 1,
        data: 1,
        parity: 0,
        block_bytes: 1 << 20,
        shard: 1,
        distribution: vec![1],
        checksum_algorithm: 1,
        parts: vec![Part {
            number: 1,
            size: 1,
            actual_size: 1,
            etag: String::new(),
            index: Vec::new(),
        }],
        size: 1,
        modtime_ns: 1,
        system: BTreeMap::new(),
        user: BTreeMap::new(),
        unknown: Vec::new(),
    };
    body.set_system("inline-data", "true");
    let version = Version::object(body);
    Commit {
        grant: grant(&key),
        target: ObjectKey { bucket: "bkt".to_owned(), key },
        header: version.header_bytes().to_vec(),
        body: version.body_bytes().to_vec(),
        shards: Shards::Inline(vec![0; 33]),
        kind: CommitKind::Put,
        decided: true,
        under: Vec::new(),
    }
}
