//! Catalog state that a released server wrote, under a node of ours: it serves what that server served.
//!
//! The captures lie in the folder that the variable FIREDRILL_GOLDEN names; without it the test says that it was
//! skipped. Their objects are put onto drives that a node has formatted, as a node would have stored them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use firedrill::disk::format::erasure::Erasure;
use firedrill::disk::format::frame;
use firedrill::disk::format::xl_meta::ObjectBody;
use firedrill::disk::format::xl_meta::Part;
use firedrill::disk::format::xl_meta::Version;
use firedrill::disk::format::xl_meta::XlMeta;
use firedrill::disk::format::xl_meta::keys;
use firedrill::disk::layout;
use firedrill::protocol::catalog;
use firedrill::value::VersionId;
use md5::Digest as _;
use serde_json::Value;
use uuid::Uuid;

use crate::client::Client;
use crate::process::Cluster;

const DRIVES: usize = 4;

/// Stores an object as a node does: inline, two shards of data and two of parity.
fn store(cluster: &Cluster, bucket: &str, key: &str, contents: &[u8]) {
    let (data, parity) = (2, 2);
    let shards = Erasure::new(data, parity).expect("a code").encode_block(contents);
    let distribution = layout::distribution(bucket, key, DRIVES);
    let size = contents.len() as u64;
    let etag = hex::encode(md5::Md5::digest(contents));
    // What is older than its bucket belongs to an earlier one of that name.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let modtime_ns = i64::try_from(now.as_nanos()).expect("before 2262");
    for slot in 0..DRIVES {
        let shard = usize::from(distribution[slot]);
        let mut framed = Vec::new();
        frame::encode(&shards[shard - 1], &mut framed);
        let part = Part {
            number: 1,
            size,
            actual_size: i64::try_from(size).expect("a size"),
            etag: String::new(),
            index: Vec::new(),
        };
        let mut body = ObjectBody {
            version: VersionId::NULL,
            data_dir: Uuid::from_u128(7),
            erasure_algorithm: 1,
            data,
            parity,
            block_bytes: frame::BLOCK_BYTES,
            shard,
            distribution: distribution.clone(),
            checksum_algorithm: 1,
            parts: vec![part],
            size,
            modtime_ns,
            system: BTreeMap::new(),
            user: BTreeMap::from([(keys::ETAG.to_owned(), etag.clone())]),
            unknown: Vec::new(),
        };
        body.set_system(keys::INLINE_DATA, "true");
        let mut meta = XlMeta::default();
        meta.insert(Version::object(body), Some(framed));
        let folder = cluster.drive(0, slot).join(layout::key_dir(bucket, key));
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(layout::META_FILE), meta.encode()).expect("written");
    }
}

/// Every file below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// The state below `folder`, and the metadata files that the answers in `log` show, put onto the drives of a node
/// that has the table buckets already.
fn put(cluster: &Cluster, folder: &Path, log: &[Value]) -> usize {
    let mut count = 0;
    for path in files(folder) {
        let text = path.to_string_lossy().into_owned();
        let Some(at) = text.find(catalog::keys::ROOT) else { continue };
        store(cluster, layout::SYSTEM, &text[at..], &fs::read(&path).expect("a file"));
        count += 1;
    }
    for entry in log {
        let answer = &entry["response"];
        let (Some(place), Some(metadata)) =
            (answer["metadata-location"].as_str(), answer["metadata"].as_object())
        else {
            continue;
        };
        let place = place.strip_prefix("s3://").expect("a location");
        let (bucket, key) = place.split_once('/').expect("a bucket and a key");
        let metadata = serde_json::to_vec(metadata).expect("JSON");
        store(cluster, bucket, key, &metadata);
    }
    count
}

/// What a real server answered to the reads of `log`, and what the node answers to them now.
fn compared(client: &Client, log: &[Value]) -> usize {
    let mut count = 0;
    for entry in log {
        let (method, path) = (entry["method"].as_str(), entry["path"].as_str());
        let (Some("GET"), Some(path), Some(200)) = (method, path, entry["status"].as_u64()) else {
            continue;
        };
        let said = &entry["response"];
        let names: &[&str] = match path {
            path if path.ends_with("/metadata-location") => {
                &["/version-token", "/generation", "/metadata-location"]
            }
            path if path.ends_with("/catalog/export") => &["/table"],
            path if path.ends_with("/views") || path.ends_with("/tables") => &["/identifiers"],
            path if path.ends_with("/namespaces") => &["/namespaces"],
            path if path.contains("/tables/") && !path.contains("/catalog/") => {
                &["/metadata-location", "/metadata/table-uuid", "/metadata/properties"]
            }
            path if path.contains("/views/") => &["/metadata-location", "/metadata/view-uuid"],
            _ => continue,
        };
        // What was asked before the state came to be what it is now stands for something else.
        let answer = client.get(path);
        let ours: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        for name in names {
            let (said, ours) = (said.pointer(name), ours.pointer(name));
            if said.is_some() {
                assert_eq!(ours, said, "{path} {name}: {answer}");
                count += 1;
            }
        }
    }
    count
}

#[test]
fn a_node_serves_the_state_of_a_released_server() {
    let Some(golden) = std::env::var_os("FIREDRILL_GOLDEN") else {
        println!("skipped: FIREDRILL_GOLDEN is not set");
        return;
    };
    let root = Path::new(&golden).join("catalog/01-object-healthy");
    let log = fs::read(root.join("rest-log.json")).expect("a log");
    let log: Vec<Value> = serde_json::from_slice(&log).expect("JSON");
    let mut cluster = Cluster::new(1, DRIVES);
    cluster.start(0);
    cluster.wait_ready(0);
    for bucket in ["lake1", "lake2"] {
        cluster.client(0).put(&format!("/{bucket}"), b"").expect(200);
        let enable = format!("/iceberg/v1/buckets/{bucket}");
        cluster.client(0).send("PUT", &enable, &[], b"").expect(200);
    }
    cluster.terminate(0);
    assert_eq!(put(&cluster, &root.join("meta"), &log), 31, "objects of the capture");
    cluster.start(0);
    cluster.wait_ready(0);
    let client = cluster.client(0);
    let compared = compared(&client, &log);
    assert!(compared >= 10, "only {compared} answers were compared");
    // It goes on from there: with the server's own ids, keys and tokens.
    let events = "/iceberg/v1/lake1/namespaces/sales/tables/events";
    let replay = log.iter().find(|it| {
        it["path"] == events && it["request"]["idempotency-key"] == "key-one" && it["status"] == 200
    });
    let replay = replay.expect("a commit that was made with a key");
    let again = client.send("POST", events, &[], replay["request"].to_string().as_bytes());
    let again = again.expect(200).text();
    let again: Value = serde_json::from_str(&again).expect("JSON");
    assert_eq!(again["generation"], 5, "{again}");
    let commit =
        br#"{"requirements":[],"updates":[{"action":"set-properties","updates":{"z":"1"}}]}"#;
    let next = client.send("POST", events, &[], commit).expect(200).text();
    let next: Value = serde_json::from_str(&next).expect("JSON");
    assert_eq!(next["generation"], 6, "{next}");
}
