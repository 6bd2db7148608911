//! Drives that an earlier build of this node wrote: every later one has to read them as they are.
//!
//! They lie in `fixtures/golden`: `drives.tar.gz`, and `expected.json` with what the client that wrote them knows.
//! `cargo test --test node -- --ignored writes_the_golden_drives` makes them anew; do that only when the format of
//! what is written grows, and keep what the old ones proved.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use firedrill::harness::audit;
use firedrill::harness::audit::AuditOptions;
use firedrill::harness::audit::DriveSource;
use firedrill::harness::audit::census::VersionClass;
use serde::Deserialize;
use serde::Serialize;
use sha2::Digest as _;
use sha2::Sha256;

use crate::client::Answer;
use crate::process::Cluster;

const DRIVES: usize = 4;
/// A quiet drive set needs no more room than this in the repository.
const MOST: u64 = 1 << 20;

/// What a client knows of one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    version: String,
    /// Bytes and SHA-256; nothing for a delete marker.
    value: Option<(u64, String)>,
}

/// The versions of each `bucket/key`, newest first.
type Expected = BTreeMap<String, Vec<Known>>;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/golden")
}

fn digest(body: &[u8]) -> String {
    hex::encode(Sha256::digest(body))
}

/// Contents that compress well and that no two sizes share.
fn contents(size: usize) -> Vec<u8> {
    (0..size).map(|at| ((at / 4099) ^ size) as u8).collect()
}

/// Writes versions of every kind, and remembers each as the answer told it.
struct Writer<'a> {
    cluster: &'a Cluster,
    expected: Expected,
}

impl Writer<'_> {
    fn keep(&mut self, target: &str, answer: &Answer, value: Option<&[u8]>) {
        let version = answer.headers.get("x-amz-version-id").map_or("null", String::as_str);
        let value = value.map(|body| (body.len() as u64, digest(body)));
        let versions = self.expected.entry(target.to_owned()).or_default();
        versions.retain(|known| known.version != version);
        versions.insert(0, Known { version: version.to_owned(), value });
    }

    fn put(&mut self, target: &str, size: usize) {
        let body = contents(size);
        let answer = self.cluster.client(0).put(&format!("/{target}"), &body).expect(200);
        self.keep(target, &answer, Some(&body));
    }

    fn delete(&mut self, target: &str) {
        let answer = self.cluster.client(0).delete(&format!("/{target}")).expect(204);
        self.keep(target, &answer, None);
    }

    fn versioning(&self, bucket: &str, state: &str) {
        let body =
            format!("<VersioningConfiguration><Status>{state}</Status></VersioningConfiguration>");
        self.cluster.client(0).put(&format!("/{bucket}?versioning"), body.as_bytes()).expect(200);
    }

    fn multipart(&mut self, target: &str, sizes: [usize; 2]) {
        let client = self.cluster.client(0);
        let begun = client.send("POST", &format!("/{target}?uploads"), &[], b"").expect(200);
        let upload = begun.element("UploadId");
        let mut body = Vec::new();
        let mut parts = String::new();
        for (number, size) in (1..).zip(sizes) {
            let part = contents(size);
            let path = format!("/{target}?partNumber={number}&uploadId={upload}");
            let etag = client.put(&path, &part).expect(200).header("etag").to_owned();
            parts += &format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>");
            body.extend(part);
        }
        let list = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        let path = format!("/{target}?uploadId={upload}");
        let answer = client.send("POST", &path, &[], list.as_bytes()).expect(200);
        self.keep(target, &answer, Some(&body));
    }
}

#[test]
#[ignore = "writes fixtures/golden anew"]
fn writes_the_golden_drives() {
    let mut cluster = Cluster::new(1, DRIVES);
    cluster.start(0);
    cluster.wait_ready(0);
    for bucket in ["plain", "versioned", "suspended"] {
        cluster.client(0).put(&format!("/{bucket}"), b"").expect(200);
    }
    let mut writer = Writer { cluster: &cluster, expected: Expected::new() };
    for size in [0, 1, 10_000, 300_000, 1_500_000] {
        writer.put(&format!("plain/of-{size}-bytes"), size);
    }
    writer.put("plain/overwritten", 7_000);
    writer.put("plain/overwritten", 8_000);
    writer.multipart("plain/in-parts", [5 << 20, 100_000]);
    writer.put("plain/a/deep/path with spaces".replace(' ', "%20").as_str(), 12);
    writer.put("versioned/began-before-versions", 200);
    writer.versioning("versioned", "Enabled");
    writer.put("versioned/began-before-versions", 201);
    writer.put("versioned/three", 20_000);
    writer.put("versioned/three", 400_000);
    writer.put("versioned/three", 30_000);
    writer.put("versioned/deleted", 5_000);
    writer.delete("versioned/deleted");
    writer.versioning("suspended", "Enabled");
    writer.put("suspended/null-on-top", 6_000);
    writer.versioning("suspended", "Suspended");
    writer.put("suspended/null-on-top", 6_001);
    writer.put("suspended/null-on-top", 6_002);
    writer.put("suspended/null-marker", 6_003);
    writer.delete("suspended/null-marker");
    let expected = writer.expected;
    cluster.terminate(0);

    fs::create_dir_all(folder()).expect("a folder");
    let archive = folder().join("drives.tar.gz");
    let tar = Command::new("tar")
        .args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-czf"])
        .arg(&archive)
        .arg("-C")
        .arg(cluster.drive(0, 0).parent().expect("the node's folder"))
        .args((0..DRIVES).map(|slot| slot.to_string()))
        .status();
    assert!(tar.expect("tar runs").success());
    let text = serde_json::to_string_pretty(&expected).expect("plain data");
    fs::write(folder().join("expected.json"), text + "\n").expect("written");
    let size = fs::metadata(&archive).expect("it was just written").len();
    assert!(size < MOST, "{size} bytes are too many for the repository");
}

/// The drives in the place of a new cluster's, not started.
fn unpacked() -> (Cluster, Expected) {
    let cluster = Cluster::new(1, DRIVES);
    let tar = Command::new("tar")
        .args(["--no-same-owner", "-xzf"])
        .arg(folder().join("drives.tar.gz"))
        .arg("-C")
        .arg(cluster.drive(0, 0).parent().expect("the node's folder"))
        .status();
    assert!(tar.expect("tar runs").success());
    let expected = fs::read(folder().join("expected.json")).expect("it lies in the repository");
    (cluster, serde_json::from_slice(&expected).expect("what was written"))
}

#[test]
fn drives_of_an_earlier_build_are_full_to_the_census() {
    let (cluster, mut expected) = unpacked();
    let root = |slot: usize| cluster.drive(0, slot).to_owned();
    let sources: Vec<_> = (0..DRIVES)
        .map(|slot| DriveSource { name: format!("0/{slot}"), root: root(slot) })
        .collect();
    let census = audit::take(&sources, &AuditOptions::default()).expect("a census");
    for key in census.keys.iter().filter(|key| !key.target.bucket.starts_with('.')) {
        let name = key.target.to_string().replace(' ', "%20");
        assert!(key.same_order && key.problems.is_empty(), "{name}: {:?}", key.problems);
        let found = key.versions.iter().map(|version| {
            assert_eq!(version.class, VersionClass::Full, "{name}: {:?}", version.problems);
            let digest = version.digest.map(|digest| (version.size, digest.to_string()));
            let value = digest.filter(|_| !version.delete_marker);
            Known { version: version.version.to_string(), value }
        });
        assert_eq!(Some(found.collect()), expected.remove(&name), "{name}");
    }
    assert!(expected.is_empty(), "not on the drives: {:?}", expected.keys());
    assert!(census.surplus.is_empty(), "{:?}", census.surplus);
}

#[test]
fn drives_of_an_earlier_build_are_served() {
    let (mut cluster, expected) = unpacked();
    cluster.start(0);
    cluster.wait_ready(0);
    let client = cluster.client(0);
    let mut read = 0;
    for (target, versions) in &expected {
        for known in versions {
            let path = format!("/{target}?versionId={}", known.version);
            let Some((size, sha256)) = &known.value else {
                client.get(&path).expect(405);
                continue;
            };
            let body = client.get(&path).expect(200).body;
            assert_eq!((body.len() as u64, &digest(&body)), (*size, sha256), "{path}");
            read += 1;
        }
        let latest = client.get(&format!("/{target}"));
        let is_there = versions.first().is_some_and(|known| known.value.is_some());
        assert_eq!(latest.status, if is_there { 200 } else { 404 }, "{target}");
    }
    assert!(read > 15, "{read} versions were read");
    // What a later build writes lies beside them.
    client.put("/versioned/three", b"a fourth").expect(200);
    assert_eq!(client.get("/versioned/three").expect(200).body, b"a fourth");
}
