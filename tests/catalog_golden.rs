//! State of the table catalog that released servers wrote, held against our readers.
//!
//! Goal: every persisted record of the captures comes back byte for byte and lies under the key that its identity
//! gives it, every fingerprint recomputes, and each snapshot that was made to be refused is refused in the way in
//! which it was. The captures lie in the folder that the variable FIREDRILL_GOLDEN names; without it each trial is
//! ignored and the first line says so.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;

use firedrill::protocol::catalog::commit_record::CommitRecord;
use firedrill::protocol::catalog::entry::BucketEntry;
use firedrill::protocol::catalog::entry::NamespaceEntry;
use firedrill::protocol::catalog::entry::TableEntry;
use firedrill::protocol::catalog::entry::ViewEntry;
use firedrill::protocol::catalog::fence::BucketFence;
use firedrill::protocol::catalog::fence::RegistryFence;
use firedrill::protocol::catalog::fingerprint;
use firedrill::protocol::catalog::keys;
use firedrill::protocol::catalog::prefix::IndexEntry;
use firedrill::protocol::catalog::prefix::IndexState;
use firedrill::protocol::catalog::record::Record;
use firedrill::protocol::catalog::record::compact;
use firedrill::protocol::catalog::recovery::Records;
use firedrill::protocol::catalog::refusal::Class;
use firedrill::protocol::catalog::refusal::Refusal;
use firedrill::protocol::catalog::report::Diagnostics;
use firedrill::protocol::catalog::report::Export;
use firedrill::protocol::catalog::report::Manifest;
use firedrill::protocol::catalog::settings::Backing;
use firedrill::protocol::catalog::snapshot::codec;
use libtest_mimic::Arguments;
use libtest_mimic::Failed;
use libtest_mimic::Trial;
use serde_json::Value;

/// The buckets of the captures: a key names them by their hashes only.
const BUCKETS: [&str; 8] =
    ["lake1", "lake2", "lake3", "lake4", "lake5", "newlake", "buckets", "other"];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let golden = golden();
    if let Err(reason) = &golden {
        eprintln!("catalog_golden: every trial is ignored, {reason}");
    }
    let root = golden.clone().unwrap_or_default();
    let mut trials = Vec::new();
    for set in sets(&root) {
        let folder = root.join(&set);
        trials.push(Trial::test(format!("bytes::{set}"), move || comes_back(&folder)));
    }
    for case in cases(&root) {
        let folder = root.join(&case);
        trials.push(Trial::test(format!("recovery::{case}"), move || is_classified(&folder)));
    }
    let folder = root.clone();
    trials.push(Trial::test("export", move || is_exported(&folder)));
    let folder = root.clone();
    trials.push(Trial::test("fingerprints", move || recompute(&folder)));
    trials.push(Trial::test("snapshots", move || are_judged_as_they_were(&root)));
    let trials = trials.into_iter().map(|trial| trial.with_ignored_flag(golden.is_err()));
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Where the captures are, or why nothing can be tried.
fn golden() -> Result<PathBuf, String> {
    let folder = env::var_os("FIREDRILL_GOLDEN").ok_or("FIREDRILL_GOLDEN is not set")?;
    let folder = PathBuf::from(folder).join("catalog");
    if folder.is_dir() { Ok(folder) } else { Err(format!("{} is no folder", folder.display())) }
}

fn sets(root: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let folders = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let mut sets: Vec<_> =
        folders.map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    sets.sort();
    sets
}

/// Every folder of a crash that has the state and the diagnostics right after it.
fn cases(root: &Path) -> Vec<String> {
    let mut cases = Vec::new();
    for set in ["05-crash-commit", "08-crash-ddl"] {
        for case in sets(&root.join(set)) {
            let folder = root.join(set).join(&case);
            if folder.join("state").is_dir() && diagnostics(&folder).is_some() {
                cases.push(format!("{set}/{case}"));
            }
        }
    }
    cases
}

/// What the server said right after the crash.
fn diagnostics(folder: &Path) -> Option<Value> {
    let names = ["diagnostics-after-crash.json", "diagnostics-after.json"];
    let text = names.iter().find_map(|name| fs::read(folder.join(name)).ok())?;
    Some(serde_json::from_slice(&text).unwrap())
}

/// Every persisted object at or below `folder`: its file and its key in the meta bucket.
fn objects(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(objects(&path));
            continue;
        }
        let text = path.to_string_lossy();
        if let Some(at) = text.find(keys::ROOT) {
            found.push((path.clone(), text[at..].to_owned()));
        }
    }
    found.sort();
    found
}

fn bucket_of(key: &str) -> Option<&'static str> {
    BUCKETS.into_iter().find(|bucket| key.starts_with(&format!("{}/", keys::bucket_root(bucket))))
}

/// Reads what lies under `key` as what it must be and gives it back as we write it.
fn again(key: &str, bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
    fn record<T: Record>(bucket: &str, key: &str, bytes: &[u8]) -> Result<Vec<u8>, Refusal> {
        T::decode(bucket, key, bytes).map(|record| record.encode())
    }
    if key == keys::SNAPSHOT {
        let snapshot = codec::decode(bytes)?;
        return codec::encode(&snapshot.contents, snapshot.version);
    }
    if key == keys::REGISTRY_FENCE {
        return RegistryFence::decode(bytes).map(|fence| compact(&fence));
    }
    let bucket = bucket_of(key).unwrap_or_else(|| panic!("{key} is in no known bucket"));
    let name = key.rsplit('/').next().unwrap();
    let below = &key[keys::bucket_root(bucket).len() + 1..];
    match (below.split('/').next().unwrap(), name) {
        ("table-bucket.json", _) => record::<BucketEntry>(bucket, key, bytes),
        ("namespaces", keys::NAMESPACE_ENTRY) => record::<NamespaceEntry>(bucket, key, bytes),
        ("namespaces", keys::TABLE_ENTRY) => record::<TableEntry>(bucket, key, bytes),
        ("namespaces", keys::VIEW_ENTRY) => record::<ViewEntry>(bucket, key, bytes),
        ("commits", _) => record::<CommitRecord>(bucket, key, bytes),
        ("commit-idempotency", _) => {
            CommitRecord::decode_idempotency(bucket, key, bytes).map(|record| record.encode())
        }
        ("warehouse-index", "state.json") => {
            IndexState::decode(bucket, bytes).map(|state| compact(&state))
        }
        ("warehouse-index", _) => record::<IndexEntry>(bucket, key, bytes),
        ("backing-migration", _) => BucketFence::decode(bucket, bytes).map(|fence| compact(&fence)),
        _ => panic!("{key} is nothing we know"),
    }
}

fn comes_back(folder: &Path) -> Result<(), Failed> {
    for (path, key) in objects(folder) {
        let bytes = fs::read(&path).unwrap();
        let at = path.display();
        let written = again(&key, &bytes).map_err(|refusal| format!("{at}: {refusal}"))?;
        if written != bytes {
            return Err(format!(
                "{at} comes back as\n{}\nand was\n{}",
                String::from_utf8_lossy(&written),
                String::from_utf8_lossy(&bytes)
            )
            .into());
        }
    }
    Ok(())
}

/// Every commit is to us what it was to the server.
fn is_classified(folder: &Path) -> Result<(), Failed> {
    let said = diagnostics(folder).unwrap();
    let table: TableEntry = serde_json::from_value(said["catalog"]["table"].clone())?;
    let bucket = table.table_bucket.clone();
    let below = |prefix: String| -> Vec<(String, Vec<u8>)> {
        let found = objects(&folder.join("state")).into_iter();
        let found = found.filter(|(_, key)| key.starts_with(&prefix));
        found.map(|(path, key)| (key, fs::read(path).unwrap())).collect()
    };
    let mut commits = Vec::new();
    for (key, bytes) in below(keys::commits(&bucket, &table.table_id)) {
        commits.push(CommitRecord::decode(&bucket, &key, &bytes)?);
    }
    let mut idempotency = Vec::new();
    for (key, bytes) in below(keys::idempotency(&bucket, &table.table_id)) {
        idempotency.push(CommitRecord::decode_idempotency(&bucket, &key, &bytes)?);
    }
    let records = Records::new(&table, &commits, &idempotency);
    let mut ours = serde_json::to_value(records.report(0))?;
    let mut theirs = said["commit_recovery"].clone();
    for report in [&mut ours, &mut theirs] {
        for commit in report["commits"].as_array_mut().unwrap() {
            commit.as_object_mut().unwrap().remove("reason");
        }
    }
    if ours != theirs {
        return Err(format!("ours\n{ours}\ntheirs\n{theirs}").into());
    }
    let manifest = Manifest::of(&table, &records.report(0), Backing::Object);
    let wal = serde_json::to_value(manifest.current.wal)?;
    // Most captures have the manifest cut down to what differs.
    let manifest = &said["backing_manifest"];
    let theirs = manifest.get("wal").unwrap_or(&manifest["current"]["wal"]);
    assert_eq!(wal, *theirs);
    let catalog = said["catalog"].clone();
    let export = Export {
        table_bucket: serde_json::from_value(catalog["table_bucket"].clone())?,
        namespace: serde_json::from_value(catalog["namespace"].clone())?,
        backing_manifest: Manifest::of(&table, &records.report(0), Backing::Object),
        table: table.clone(),
    };
    let status = serde_json::from_value(said["current_metadata_status"].clone())?;
    let ours = Diagnostics::new(export, status, records.report(0), 0, Vec::new());
    let ours = serde_json::to_value(ours)?;
    for member in ["recovery_status", "recommended_actions"] {
        assert_eq!(ours[member], said[member], "{member}");
    }
    let migration = &ours["backing_manifest"]["migration"];
    for member in ["status", "blockers"] {
        assert_eq!(migration[member], said["backing_manifest"]["migration"][member], "{member}");
    }
    Ok(())
}

/// The export of a healthy table is the server's, member for member.
fn is_exported(root: &Path) -> Result<(), Failed> {
    let log = fs::read(root.join("01-object-healthy/rest-log.json")).unwrap();
    let log: Vec<Value> = serde_json::from_slice(&log)?;
    let path = |it: &&Value| it["path"].as_str().is_some_and(|it| it.ends_with("/catalog/export"));
    let said = log.iter().find(path).ok_or("no export was captured")?["response"].clone();
    let table: TableEntry = serde_json::from_value(said["table"].clone())?;
    let report = Records::new(&table, &[], &[]).report(0);
    let ours = Export {
        table_bucket: serde_json::from_value(said["table_bucket"].clone())?,
        namespace: serde_json::from_value(said["namespace"].clone())?,
        backing_manifest: Manifest::of(&table, &report, Backing::Object),
        table,
    };
    assert_eq!(serde_json::to_value(ours)?, said);
    Ok(())
}

/// The fences of the final state hold the fingerprints of what the snapshot beside them holds.
fn recompute(root: &Path) -> Result<(), Failed> {
    let folder = root.join("02-migration/state-final");
    let objects: BTreeMap<String, PathBuf> =
        objects(&folder).into_iter().map(|(path, key)| (key, path)).collect();
    let snapshot = codec::decode(&fs::read(&objects[keys::SNAPSHOT]).unwrap())?;
    for bucket in ["lake1", "lake2", "lake3"] {
        let fence = fs::read(&objects[&keys::bucket_fence(bucket)]).unwrap();
        let expected = BucketFence::decode(bucket, &fence)?.source_fingerprint;
        let found = fingerprint::of_bucket(&snapshot.contents, bucket);
        if found.is_none() || found != expected {
            return Err(format!("{bucket}: {found:?}, and the server had {expected:?}").into());
        }
    }
    Ok(())
}

/// What a seeded snapshot was to the server that was given it.
fn are_judged_as_they_were(root: &Path) -> Result<(), Failed> {
    let folder = root.join("04-snapshot-v2");
    let expected = [
        ("empty-object", Some(Class::Damaged)),
        ("missing-array", Some(Class::Damaged)),
        ("truncated", Some(Class::Damaged)),
        ("unknown-field", Some(Class::Damaged)),
        ("v1-collision", None),
        ("v1-history-gap", Some(Class::Invalid)),
        ("v1-missing-idempotency-index", Some(Class::Invalid)),
        ("v1-orphan-commit", None),
        ("v1-staged-commit", None),
        ("v2-collision", Some(Class::Invalid)),
        ("v2-orphan-commit", Some(Class::Invalid)),
        ("version-0", Some(Class::Invalid)),
        ("version-3", Some(Class::Invalid)),
    ];
    for (name, class) in expected {
        let bytes = fs::read(folder.join(format!("seeds/{name}.json"))).unwrap();
        let judged = codec::decode(&bytes);
        if judged.as_ref().err().map(|refusal| refusal.class) != class {
            return Err(format!("{name}: {judged:?}").into());
        }
        if let Ok(snapshot) = judged {
            let is_quarantined = !snapshot.derived.collisions.is_empty();
            assert_eq!(is_quarantined, name == "v1-collision", "{name}");
            assert_eq!(snapshot.orphans > 0, name == "v1-orphan-commit", "{name}");
        }
    }
    for name in ["snapshot-v1", "snapshot-v2", "snapshot-v2-written-with-gates-off"] {
        let bytes = fs::read(folder.join(format!("{name}.json"))).unwrap();
        let snapshot = codec::decode(&bytes)?;
        assert_eq!(codec::encode(&snapshot.contents, snapshot.version)?, bytes, "{name}");
    }
    Ok(())
}
