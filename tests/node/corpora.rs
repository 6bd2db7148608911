//! Writes the files of `fixtures/fuzz` that only a running node writes: open uploads, queues, records of a replacement,
//! answers. The others come from `src/fuzz/tests/corpora.rs`.
//!
//! `cargo test --test node -- --ignored writes_the_corpora_of_a_node` makes them anew; do that when a format grows.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use firedrill::protocol::replacement::names;
use firedrill::protocol::replacement::names::Name;
use firedrill::protocol::replacement::names::Record;

use crate::client::Answer;
use crate::process::Cluster;

/// A corpus of small files is mutated faster and farther.
const FILE_BYTES_MAX: usize = 12 << 10;
/// Files of one kind of record.
const FILES_MAX: usize = 6;

fn keep(target: &str, name: &str, bytes: impl AsRef<[u8]>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/fuzz").join(target);
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join(name), bytes).expect("written");
}

/// An answer in the form in which the target `s3-answer` reads one.
fn keep_answer(name: &str, answer: &Answer) {
    let headers = answer.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
    let head = format!("{}\n{}\n", answer.status, headers.collect::<String>());
    keep("s3-answer", name, [head.as_bytes(), &answer.body].concat());
}

/// Every file below `folder` whose name `is` wanted.
fn files(folder: &Path, is: &dyn Fn(&str) -> bool, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            files(&path, is, found);
        } else if is(&name)
            && let Ok(bytes) = fs::read(&path)
        {
            found.push((name, bytes));
        }
    }
}

#[test]
#[ignore = "writes fixtures/fuzz anew"]
fn writes_the_corpora_of_a_node() {
    let mut cluster = Cluster::new(1, 4);
    cluster.start(0);
    cluster.wait_ready(0);
    let client = cluster.client(0);
    client.put("/bucket", b"").expect(200);
    let enable = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
    client.put("/bucket?versioning", enable).expect(200);
    for at in 0..3 {
        client.put("/bucket/three", format!("version {at}").as_bytes()).expect(200);
    }
    client.delete("/bucket/three").expect(204);
    let headers = [
        ("content-type", "text/plain"),
        ("x-amz-meta-colour", "red"),
        ("x-amz-tagging", "a=b"),
        ("x-amz-checksum-algorithm", "SHA256"),
        ("x-amz-checksum-sha256", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="),
    ];
    client.send("PUT", "/bucket/kept", &headers, b"").expect(200);
    for key in ["a/1", "a/2", "b"] {
        client.put(&format!("/bucket/{key}"), &vec![b'x'; 300_000]).expect(200);
    }
    let created = client.send("POST", "/bucket/parts?uploads", &[], b"").expect(200);
    keep_answer("create-upload", &created);
    let upload = created.element("UploadId");
    for part in 1..=2 {
        let target = format!("/bucket/parts?partNumber={part}&uploadId={upload}");
        client.send("PUT", &target, &[("x-amz-checksum-crc32", "AAAAAA==")], b"").expect(200);
    }
    keep_answer("objects", &client.get("/bucket?list-type=2&max-keys=3").expect(200));
    keep_answer("versions", &client.get("/bucket?versions&max-keys=2").expect(200));
    keep_answer("grouped", &client.get("/bucket?list-type=2&delimiter=/").expect(200));
    keep_answer("missing", &client.get("/bucket/nothing").expect(404));
    keep_answer("head", &client.send("HEAD", "/bucket/b", &[], b"").expect(200));
    keep("admin-answer", "ready", client.plain("GET", "/health/ready").expect("an answer").body);
    keep("admin-answer", "status", client.get("/firedrill/v1/status").expect(200).body);
    let heal = client.send("POST", "/firedrill/v1/heal?deep=true", &[], b"").expect(200);
    keep("admin-answer", "heal-started", &heal.body);
    let text = heal.text();
    let id = text.split('"').nth(3).expect("an id").to_owned();
    let progress = || client.get(&format!("/firedrill/v1/heal/{id}")).expect(200);
    cluster.wait(0, "healed", || progress().text().contains("done"));
    keep("admin-answer", "heal-progress", progress().body);
    let yaml = fs::read_to_string(cluster.folder.path().join("0.yaml")).expect("its configuration");
    let folder = cluster.folder.path().display().to_string();
    keep("node-config", "one-node-of-four-drives.yaml", yaml.replace(&folder, "/mnt"));

    let mut found = Vec::new();
    files(cluster.drive(0, 0), &|name| name == "xl.meta" || name.ends_with(".meta"), &mut found);
    for (number, (name, bytes)) in found.into_iter().enumerate() {
        let target = if name == "xl.meta" { "xl-meta" } else { "part-meta" };
        if bytes.len() <= FILE_BYTES_MAX {
            keep(target, &format!("of-a-node-{number}"), bytes);
        }
    }
    misses_a_drive(&mut cluster);
    replaces_a_drive(&mut cluster);
}

/// Writes and deletes while a drive is away: the queue of the others tells of it.
fn misses_a_drive(cluster: &mut Cluster) {
    let (drive, aside) = (cluster.drive(0, 3).to_owned(), cluster.folder.path().join("aside"));
    let client = cluster.client(0);
    cluster.terminate(0);
    fs::rename(&drive, &aside).expect("renamed");
    cluster.start(0);
    cluster.wait_ready(0);
    client.put("/bucket/missed", &vec![b'y'; 200_000]).expect(200);
    client.put("/other", b"").expect(200);
    let target = "/bucket/missed";
    client.delete(target).expect(204);
    let mut queues = Vec::new();
    cluster.wait(0, "behind", || {
        files(cluster.drive(0, 0), &|name| name == "queue.jsonl", &mut queues);
        queues.iter().any(|(_, bytes)| bytes.len() > 300)
    });
    let (_, longest) = queues.iter().max_by_key(|(_, bytes)| bytes.len()).expect("a queue");
    keep("heal-queue", "a-drive-is-away.jsonl", longest);
    cluster.terminate(0);
    fs::rename(&aside, &drive).expect("renamed");
}

/// Blanks a drive: a generation is begun, and its records come and go.
fn replaces_a_drive(cluster: &mut Cluster) {
    let drive = cluster.drive(0, 3).to_owned();
    fs::remove_dir_all(&drive).expect("removed");
    fs::create_dir_all(&drive).expect("a directory");
    cluster.start(0);
    let folder = cluster.folder.path().display().to_string();
    let mut kept: BTreeMap<&str, BTreeSet<Vec<u8>>> = BTreeMap::new();
    let mut anchors: BTreeSet<Vec<u8>> = BTreeSet::new();
    let began = Instant::now();
    let mut is_over = false;
    while !is_over && began.elapsed() < Duration::from_secs(60) {
        let mut found = Vec::new();
        for slot in 0..3 {
            files(
                &cluster.drive(0, slot).join(".rustfs.sys/buckets"),
                &|name| name.contains("_ahm_") || name.contains("_firedrill_"),
                &mut found,
            );
        }
        let mut anchor = BTreeMap::new();
        for (name, bytes) in found {
            let paths = [format!("{}/{name}", names::FOLDER), format!("{}/{name}", names::LEDGERS)];
            let Some((path, Name::Record(record, _))) = paths
                .iter()
                .map(|path| (path, names::parse(path)))
                .find(|(_, name)| *name != Name::Other)
            else {
                continue;
            };
            let text = String::from_utf8_lossy(&bytes).replace(&folder, "/mnt");
            let target = match record {
                Record::Intent => "replacement-intent",
                Record::Proof => "replacement-proof",
                Record::Checkpoint => "replacement-checkpoint",
                Record::Note => "replacement-note",
                _ => "",
            };
            if !target.is_empty() && !text.is_empty() {
                kept.entry(target).or_default().insert(text.clone().into_bytes());
            }
            is_over |= record == Record::Proof;
            anchor.insert(path.clone(), text);
        }
        if anchor.len() > 1 {
            anchors.insert(serde_json::to_vec(&anchor).expect("plain data"));
        }
        thread::sleep(Duration::from_millis(2));
    }
    for (target, files) in kept {
        let skip = files.len().saturating_sub(FILES_MAX);
        for (number, bytes) in files.into_iter().skip(skip).enumerate() {
            keep(target, &format!("of-a-node-{number}.json"), bytes);
        }
    }
    for (number, bytes) in anchors.into_iter().take(FILES_MAX).enumerate() {
        keep("replacement-anchor", &format!("of-a-node-{number}.json"), bytes);
    }
    cluster.wait_ready(0);
    let told = cluster.client(0).get("/firedrill/v1/replacement").expect(200);
    keep("admin-answer", "replacement", told.text().replace(&folder, "/mnt"));
}
