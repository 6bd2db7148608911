//! Hostile drives: files that were cut, blown up or made up, on as many drives as parity bears. Every read brings the right
//! bytes, the node goes on, and the next start takes the drives as they are.

use std::fs;
use std::fs::File;
use std::path::Path;
use std::path::PathBuf;

use firedrill::disk::format::msgpack::put_binary;
use firedrill::disk::format::msgpack::put_uint;
use firedrill::disk::format::xl_meta::XlMeta;
use firedrill::disk::layout;
use xxhash_rust::xxh64::xxh64;

use crate::client::Client;
use crate::process::Cluster;

/// Drives that parity bears: two of four.
const PARITY: usize = 2;
/// More than any process of ours may take.
const OVERSIZED_BYTES: u64 = 20 << 30;
/// A node of four drives takes no more than this, however its drives look.
const PEAK_BYTES_MAX: u64 = 400 << 20;

/// One kind of damage: what it is called, and what becomes of a file.
type Damage = (&'static str, fn(&Path));

/// What can be done to any file.
#[rustfmt::skip]
const ANY: &[Damage] = &[
    ("empty", |path| fs::write(path, b"").expect("written")),
    ("cut in the middle", |path| {
        let bytes = fs::read(path).expect("read");
        fs::write(path, &bytes[..bytes.len() / 2]).expect("written");
    }),
    ("a bit in the middle", |path| {
        let mut bytes = fs::read(path).expect("read");
        let at = bytes.len() / 2;
        bytes[at] ^= 4;
        fs::write(path, bytes).expect("written");
    }),
    ("all ones", |path| {
        let length = fs::read(path).expect("read").len();
        fs::write(path, vec![0xff; length]).expect("written");
    }),
    ("oversized", |path| {
        let file = File::options().write(true).open(path).expect("opened");
        file.set_len(OVERSIZED_BYTES).expect("made longer");
    }),
    ("gone", |path| fs::remove_file(path).expect("removed")),
    ("a directory", |path| {
        fs::remove_file(path).expect("removed");
        fs::create_dir(path).expect("made");
    }),
];

/// What is made up for an xl.meta.
#[rustfmt::skip]
const CRAFTED: &[Damage] = &[
    ("a huge number of versions", |path| fs::write(path, container(10_000, b"", b"")).expect("written")),
    ("an impossible number of versions", |path| fs::write(path, container(u64::MAX, b"", b"")).expect("written")),
    ("a length that lies", |path| {
        let mut bytes = fs::read(path).expect("read");
        bytes[9..13].copy_from_slice(&u32::MAX.to_be_bytes());
        fs::write(path, bytes).expect("written");
    }),
    ("an inline block that lies", |path| {
        let mut bytes = fs::read(path).expect("read");
        bytes.extend_from_slice(&[1, 0xdf, 0xff, 0xff, 0xff, 0xff]);
        fs::write(path, bytes).expect("written");
    }),
    ("the file of another drive, with another shard", |path| {
        let meta = XlMeta::parse(&fs::read(path).expect("read")).expect("sound");
        let version = &meta.versions()[0];
        let shard = version.as_object().expect("an object").shard;
        let moved = version.for_shard(1 + shard % 4).expect("an object");
        let inline = meta.inline(version.id()).map(<[u8]>::to_vec);
        let mut changed = meta.clone();
        changed.insert(moved, inline);
        fs::write(path, changed.encode()).expect("written");
    }),
    ("a version of an impossible size", |path| {
        let meta = XlMeta::parse(&fs::read(path).expect("read")).expect("sound");
        let version = &meta.versions()[0];
        let huge = version.with_object(|object| {
            object.size = 1 << 62;
            object.parts[0].size = 1 << 62;
            object.block_bytes = 1 << 40;
        });
        let inline = meta.inline(version.id()).map(<[u8]>::to_vec);
        let mut changed = meta.clone();
        changed.insert(huge.expect("an object"), inline);
        fs::write(path, changed.encode()).expect("written");
    }),
    ("ten thousand empty versions", |path| {
        let mut versions = Vec::new();
        for _ in 0..10_000 {
            put_binary(&mut versions, &[0x97]);
            put_binary(&mut versions, &[]);
        }
        fs::write(path, container(10_000, &versions, b"")).expect("written");
    }),
];

/// An xl.meta whose checksum is right.
fn container(count: u64, versions: &[u8], inline: &[u8]) -> Vec<u8> {
    let mut block = vec![3, 3];
    put_uint(&mut block, count);
    block.extend_from_slice(versions);
    let mut file = b"XL2 \x01\x00\x03\x00\xc6".to_vec();
    file.extend_from_slice(&(block.len() as u32).to_be_bytes());
    file.extend_from_slice(&block);
    file.push(0xce);
    file.extend_from_slice(&(xxh64(&block, 0) as u32).to_be_bytes());
    file.extend_from_slice(inline);
    file
}

fn contents(size: usize) -> Vec<u8> {
    (0..size).map(|at| ((at / 251) ^ at) as u8).collect()
}

fn started() -> (Cluster, Client) {
    let mut cluster = Cluster::new(1, 4);
    // What is damaged is healed when it is met, not behind our back.
    cluster.configure(|config| config.limits.heal_period_ms = 3_600_000);
    cluster.start(0);
    cluster.wait_ready(0);
    let client = cluster.client(0);
    client.put("/bucket", b"").expect(200);
    (cluster, client)
}

/// The files below a key on some drives whose names begin with `name`.
fn files(cluster: &Cluster, drives: &[usize], below: &str, name: &str) -> Vec<PathBuf> {
    fn walk(folder: &Path, name: &str, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, name, found);
            } else if entry.file_name().to_string_lossy().starts_with(name) {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    for drive in drives {
        walk(&cluster.drive(0, *drive).join(below), name, &mut found);
    }
    found
}

/// Goal: metadata files and shards of small and large objects, damaged in every way, on one drive and on each pair in turn.
/// Shards may be lost on as many drives as parity bears; of metadata a majority has to be left to tell what is newest, and
/// without one the answer is a refusal in words, never another version.
#[test]
fn objects_outlive_whatever_parity_bears() {
    let (cluster, client) = started();
    let sizes = [1_000, 300_000, 2_500_000];
    let mut number = 0;
    for (size, name, count, damages) in [
        (sizes[0], "xl.meta", 1, ANY),
        (sizes[0], "xl.meta", 1, CRAFTED),
        (sizes[1], "xl.meta", 1, ANY),
        (sizes[1], "xl.meta", 1, CRAFTED),
        (sizes[1], "xl.meta", PARITY, ANY),
        (sizes[0], "xl.meta", PARITY, CRAFTED),
        (sizes[1], "part.1", PARITY, ANY),
        (sizes[2], "part.1", PARITY, ANY),
    ] {
        for (what, damage) in damages {
            number += 1;
            let (key, body) = (format!("key-{number}"), contents(size));
            client.put(&format!("/bucket/{key}"), &body).expect(200);
            let pair = [number % 4, (number + 1 + number / 4 % 3) % 4];
            assert_ne!(pair[0], pair[1]);
            let drives = &pair[..count];
            let found = files(&cluster, drives, &format!("bucket/{key}"), name);
            assert_eq!(found.len(), count, "{name} of {size} bytes on {drives:?}");
            found.iter().for_each(|path| damage(path));
            let told = format!("{name} of {size} bytes, {what}, on {drives:?}");
            let must_serve = name != "xl.meta" || drives.len() == 1;
            let is_refusal = |status: u16| !must_serve && matches!(status, 500 | 503);
            let got = client.get(&format!("/bucket/{key}"));
            assert!(got.status == 200 || is_refusal(got.status), "{told}: {got}");
            assert!(got.status != 200 || got.body == body, "{told}: other bytes came back");
            let listed = client.get(&format!("/bucket?list-type=2&prefix={key}"));
            assert!(listed.status == 200 || is_refusal(listed.status), "{told}: {listed}");
            let again = contents(size + 7);
            let put = client.put(&format!("/bucket/{key}"), &again);
            assert!(put.status == 200 || is_refusal(put.status), "{told}: {put}");
            if put.status == 200 {
                assert!(client.get(&format!("/bucket/{key}")).expect(200).body == again, "{told}");
            }
        }
    }
    let peak = cluster.peak_bytes(0);
    assert!(peak < PEAK_BYTES_MAX, "{} MiB", peak >> 20);
}

/// Goal: an upload whose records and parts are damaged on a drive is completed to the right bytes.
#[test]
fn uploads_outlive_the_damage_of_a_drive() {
    let (cluster, client) = started();
    for (number, (what, damage)) in ANY.iter().enumerate() {
        for name in ["part.1.meta", "part.1", "xl.meta"] {
            let key = format!("upload-{number}-{name}");
            let created =
                client.send("POST", &format!("/bucket/{key}?uploads"), &[], b"").expect(200);
            let id = created.element("UploadId");
            let body = contents(400_000);
            let part =
                client.put(&format!("/bucket/{key}?partNumber=1&uploadId={id}"), &body).expect(200);
            let etag = part.header("etag").to_owned();
            // A write needs one drive more than its data: of records and parts one may be lost.
            let drives = [number % 4];
            let folder = layout::uploads_dir("bucket", &key);
            let mut found = files(&cluster, &drives, &folder, name);
            found.retain(|path| path.file_name().is_some_and(|found| found == name));
            assert_eq!(found.len(), drives.len(), "{name} on {drives:?}: {found:?}");
            found.iter().for_each(|path| damage(path));
            let document = format!(
                "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part></CompleteMultipartUpload>"
            );
            let completed = client.send(
                "POST",
                &format!("/bucket/{key}?uploadId={id}"),
                &[],
                document.as_bytes(),
            );
            let told = format!("{name}, {what}, on {drives:?}");
            assert_eq!(completed.status, 200, "{told}: {completed}");
            let got = client.get(&format!("/bucket/{key}"));
            assert_eq!(got.status, 200, "{told}: {got}");
            assert!(got.body == body, "{told}: other bytes came back");
        }
    }
    let peak = cluster.peak_bytes(0);
    assert!(peak < PEAK_BYTES_MAX, "{} MiB", peak >> 20);
}

/// Goal: files of the system's own, damaged while the node is away: it starts, serves every byte, and takes writes.
#[test]
fn a_node_starts_on_drives_whose_own_files_are_damaged() {
    let (mut cluster, client) = started();
    let body = contents(300_000);
    client.put("/bucket/k", &body).expect(200);
    let own = [
        ".rustfs.sys/format.json",
        ".rustfs.sys/buckets/bucket/.metadata.bin/xl.meta",
        ".rustfs.sys/buckets/.heal/firedrill/presence.json",
        ".rustfs.sys/buckets/.heal/firedrill/format.json",
        ".rustfs.sys/buckets/.heal/firedrill/records/staging-tags",
    ];
    for (number, (what, damage)) in ANY.iter().enumerate() {
        for (at, path) in own.iter().enumerate() {
            // A drive without its identity is none of the set's: one at a time, and it is another's turn each time.
            if *path == own[0] && matches!(*what, "gone" | "a directory") {
                continue;
            }
            cluster.terminate(0);
            let slot = (number + at) % 4;
            let file = cluster.drive(0, slot).join(path);
            let before = fs::read(&file).expect("it is there");
            damage(&file);
            cluster.start(0);
            cluster.wait_ready(0);
            let client = cluster.client(0);
            let told = format!("{path}, {what}, on {slot}");
            let got = client.get("/bucket/k");
            assert!(got.status == 200 && got.body == body, "{told}: {}", got.status);
            let put = client.put("/bucket/more", told.as_bytes());
            assert_eq!(put.status, 200, "{told}: {put}");
            assert!(cluster.peak_bytes(0) < PEAK_BYTES_MAX, "{told}: {}", cluster.peak_bytes(0));
            if file.is_dir() {
                fs::remove_dir(&file).expect("removed");
            }
            cluster.terminate(0);
            fs::write(&file, before).expect("as it was");
            cluster.start(0);
            cluster.wait_ready(0);
        }
    }
}
