//! Writes the files of `fixtures/fuzz` that come from values of ours and from other fixtures. Those that only a running
//! node writes come from `tests/node/corpora.rs`.
//!
//! `cargo test --lib -- --ignored writes_the_corpora_of_values` makes them anew; do that when a format grows. Files
//! whose names begin with `hostile-` or `found-` are made by hand and stay.

mod network;
mod peer;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use uuid::Uuid;

use crate::disk::drive::Grant;
use crate::disk::format::bucket::BucketMetadata;
use crate::disk::format::checksum::Algorithm;
use crate::disk::format::checksum::Record;
use crate::disk::format::erasure::Erasure;
use crate::disk::format::format_json::FormatJson;
use crate::disk::format::frame;
use crate::disk::format::msgpack::Reader;
use crate::disk::format::xl_meta::XlMeta;
use crate::disk::layout;
use crate::disk::layout::UploadName;
use crate::protocol::object::effect::BucketState;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Name;
use crate::protocol::replacement::names::Record as Kept;
use crate::value::ObjectKey;
use crate::value::Seed;

/// A corpus of small files is mutated faster and farther.
const FILE_BYTES_MAX: usize = 12 << 10;
/// Files of one target that come from one source.
const FILES_MAX: usize = 10;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn keep(target: &str, name: &str, bytes: impl AsRef<[u8]>) {
    let folder = root().join("fuzz").join(target);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(name), bytes).expect("written");
}

fn id(name: &str) -> Uuid {
    Seed(1).uuid(name)
}

fn object() -> ObjectKey {
    ObjectKey { bucket: "bucket".to_owned(), key: "a/key".to_owned() }
}

fn grant() -> Grant {
    Grant { resource: object(), lock: id("lock") }
}

/// The files of the golden drives below `name`, by their paths.
fn golden(folder: &Path, name: &str) -> BTreeMap<String, Vec<u8>> {
    fn walk(folder: &Path, root: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, root, found);
            } else {
                let name =
                    path.strip_prefix(root).expect("below it").to_string_lossy().into_owned();
                found.insert(name, fs::read(&path).expect("a file"));
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(&folder.join(name), folder, &mut found);
    found
}

#[test]
#[ignore = "writes fixtures/fuzz anew"]
fn writes_the_corpora_of_values() {
    let drives = tempfile::tempdir().expect("a folder");
    let archive = root().join("golden/drives.tar.gz");
    let tar = Command::new("tar").arg("xzf").arg(archive).arg("-C").arg(drives.path()).status();
    assert!(tar.expect("tar runs").success());
    let files = golden(drives.path(), "0");
    write_disk(&files);
    peer::write_peer(&files);
    network::write_network();
    network::write_control();
    write_histories();
    write_scenarios();
}

fn write_disk(files: &BTreeMap<String, Vec<u8>>) {
    let mut messages = BTreeMap::new();
    for (path, bytes) in files {
        let name = path.replace(['/', ' '], "-");
        if path.ends_with("/xl.meta") && bytes.len() <= FILE_BYTES_MAX {
            let name = name
                .trim_start_matches("0-")
                .trim_end_matches("-xl.meta")
                .replace(".rustfs.sys-", "");
            keep("xl-meta", &name, bytes);
            let meta = XlMeta::parse(bytes).expect("our own file");
            for version in meta.versions() {
                messages.insert(format!("{name}-body"), version.body_bytes().to_vec());
                if let Some(object) = version.as_object() {
                    let sums = object.system.iter().find(|(key, _)| key.ends_with("crc"));
                    if let Some((_, sums)) = sums {
                        keep("checksum-records", &name, sums);
                    }
                }
            }
            if path.contains(".metadata.bin") {
                let inline = meta.inline_entries().next().expect("bucket metadata is inline");
                // Two data shards of four: the contents are not in one of them alone.
                messages.insert(format!("{name}-shard"), inline.1[frame::HASH_BYTES..].to_vec());
            }
        }
        if path.ends_with("format.json") {
            let target = if path.contains(".heal") { "drive-notes" } else { "format-json" };
            keep(target, &name, bytes);
        }
        if path.ends_with("presence.json") {
            keep("drive-notes", &name, bytes);
        }
    }
    for (name, bytes) in
        messages.iter().filter(|(_, bytes)| Reader::new(bytes).skip("").is_ok()).take(12)
    {
        keep("msgpack", name, bytes);
    }
    for disk in 0..4 {
        let name = format!("disk{disk}.xl.meta");
        let bytes = fs::read(root().join("vectors").join(&name)).expect("a vector");
        keep("xl-meta", &format!("vector-{disk}"), bytes);
    }
    for (data, parity, length, missing) in
        [(2, 2, 400, 1), (4, 2, 1_000, 2), (3, 3, 90, 3), (1, 1, 256, 1), (8, 8, 800, 8)]
    {
        let block: Vec<u8> = (0..length).map(|at| (at * 7 + data) as u8).collect();
        let shards = Erasure::new(data, parity).expect("a geometry").encode_block(&block);
        let mut file = vec![data as u8, parity as u8];
        for (at, shard) in shards.iter().enumerate() {
            let is_last_missing = at == shards.len() - 1 && missing > 0;
            // All frames but the last have one length in the corpus: a shorter one ends it.
            let shard = if is_last_missing { &[][..] } else { shard };
            let mut padded = shard.to_vec();
            if at < shards.len() - 1 {
                padded.resize(256, 0);
            }
            frame::encode(&padded, &mut file);
        }
        keep("frames", &format!("stripe-of-{data}-and-{parity}"), file);
    }
    let digest = |algorithm: Algorithm| vec![7; algorithm.digest_bytes()];
    for algorithm in [Algorithm::Crc32, Algorithm::Sha256, Algorithm::Crc64Nvme] {
        let records = [
            Record::single(algorithm, digest(algorithm)),
            Record::composite(algorithm, digest(algorithm), vec![digest(algorithm); 3]),
            Record::full_object(algorithm, digest(algorithm), Vec::new()),
        ];
        let name = format!("{}-three-records", algorithm.name().to_ascii_lowercase());
        keep("checksum-records", &name, Record::encode_all(&records));
    }
    let upload = UploadName { id: id("upload"), opened_ns: 1_760_000_000_000_000_000 };
    let lines = [
        "a/key/of/several segments",
        "ü",
        "folder/",
        "bucket-name.with.dots",
        &upload.to_string(),
        &layout::upload_id(Uuid::from_bytes([7; 16]), upload),
        &id("data directory").to_string(),
        &names::path(Kept::Intent, "0b8a4f5e-0000-4000-8000-000000000001".parse().expect("an id")),
    ];
    keep("names", "names", lines.join("\n"));
    keep("names", "keys", "a\na/b\na/b/c\n.hidden\nx y z/\n\u{1f600}\n");
    let mut bucket = BucketMetadata::new("bucket", 1_760_000_000_000_000_000);
    keep("bucket-metadata", "unversioned", bucket.encode());
    bucket.set_versioning(BucketState::Enabled, 1_760_000_001_000_000_000);
    keep("bucket-metadata", "versioned", bucket.encode());
    bucket.set_versioning(BucketState::Suspended, 1_760_000_002_000_000_000);
    bucket.set_document("TaggingConfigXML", b"<Tagging><TagSet/></Tagging>", 1);
    keep("bucket-metadata", "suspended-and-tagged", bucket.encode());
    let drives: Vec<Uuid> = (0..4).map(|at| id(&format!("drive {at}"))).collect();
    let format = FormatJson::new(id("deployment"), drives[2], vec![drives]);
    keep("format-json", "four-drives", format.encode());
    let sixteen =
        |set: usize| (0..16).map(|at| id(&format!("drive {set}/{at}"))).collect::<Vec<_>>();
    let format = FormatJson::new(id("deployment"), sixteen(1)[3], vec![sixteen(0), sixteen(1)]);
    keep("format-json", "two-sets-of-sixteen", format.encode());
    keep("drive-notes", "doubt", br#"{"format":1,"since_ns":1760000000000000000}"#);
}

/// What recorded histories hold: their own lines, their censuses, and the records that the drives had.
fn write_histories() {
    let mut by_kind = BTreeMap::<&str, usize>::new();
    let mut anchors = 0;
    let (mut histories, mut censuses) = (0, 0);
    let mut paths: Vec<PathBuf> = fs::read_dir(root().join("histories"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let bytes = fs::read(&path).expect("a file");
        if name.ends_with(".jsonl") && bytes.len() <= FILE_BYTES_MAX && histories < FILES_MAX {
            histories += 1;
            // The first line tells the fixture's story; the history follows it.
            let story = bytes.iter().position(|byte| *byte == b'\n').expect("a line");
            keep("history", &name, &bytes[story + 1..]);
        }
        if !name.ends_with(".census.json") {
            continue;
        }
        let stem = name.trim_end_matches(".census.json");
        if bytes.len() <= FILE_BYTES_MAX && censuses < 4 {
            censuses += 1;
            keep("run-files", &name, &bytes);
        }
        let census: Value = serde_json::from_slice(&bytes).expect("a census");
        for drive in census["replacement"].as_array().into_iter().flatten() {
            let records: BTreeMap<String, String> =
                serde_json::from_value(drive["records"].clone()).unwrap_or_default();
            for (path, text) in &records {
                let target = match names::parse(path) {
                    Name::Record(Kept::Intent, _) => "replacement-intent",
                    Name::Record(Kept::Proof, _) => "replacement-proof",
                    Name::Record(Kept::Checkpoint, _) => "replacement-checkpoint",
                    Name::Record(Kept::Approval | Kept::Receipt, _) => "replacement-approval",
                    Name::Record(Kept::Note, _) => "replacement-note",
                    _ => continue,
                };
                let target_of =
                    crate::fuzz::all().into_iter().find(|it| it.name == target).expect("a target");
                let is_sound = crate::fuzz::course::examine(&target_of, text.as_bytes())
                    == Ok(crate::fuzz::target::Found::Decoded);
                let count = by_kind.entry(target).or_default();
                if is_sound && *count < FILES_MAX {
                    *count += 1;
                    keep(target, &format!("{stem}-{count}.json"), text);
                }
            }
            let anchor = serde_json::to_vec(&records).expect("plain data");
            let target_of = crate::fuzz::all()
                .into_iter()
                .find(|it| it.name == "replacement-anchor")
                .expect("a target");
            if crate::fuzz::course::examine(&target_of, &anchor)
                == Ok(crate::fuzz::target::Found::Decoded)
                && anchors < FILES_MAX
            {
                anchors += 1;
                keep("replacement-anchor", &format!("{stem}.json"), anchor);
            }
        }
    }
    for run in ["pass", "canary"] {
        for name in ["plan.json", "verdict.json"] {
            let bytes = fs::read(root().join("runs").join(run).join(name)).expect("a file");
            if bytes.len() <= 2 * FILE_BYTES_MAX {
                keep("run-files", &format!("{run}-{name}"), bytes);
            }
        }
    }
    let marker = "pool_0_set_0:f1f1f1f1-0000-4000-8000-000000000001";
    keep("replacement-marker", "marker", marker);
    let id = "f1f1f1f1-0000-4000-8000-000000000001".parse().expect("an id");
    let paths: Vec<String> = Kept::ALL
        .iter()
        .map(|record| names::path(*record, id))
        .chain([names::archive_path(id, id)])
        .collect();
    keep("replacement-marker", "paths", paths.join("\n"));
}

fn write_scenarios() {
    let mut kept = 0;
    for family in ["power", "objects", "healing", "network", "replacement"] {
        let folder = root().parent().expect("the package").join("scenarios").join(family);
        let mut paths: Vec<PathBuf> = fs::read_dir(folder)
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        paths.sort();
        for path in paths.iter().take(2) {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            keep("scenario", &name, fs::read(path).expect("a file"));
            kept += 1;
        }
    }
    assert!(kept > 6);
}
