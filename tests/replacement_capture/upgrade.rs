//! A node of ours on the records that a schema 5 fleet left: it refuses them, and finishes them after an approval.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use firedrill::harness::audit;
use firedrill::harness::audit::AuditOptions;
use firedrill::harness::audit::DriveSource;
use firedrill::harness::audit::census::VersionClass;
use firedrill::harness::operator::backup;
use firedrill::harness::operator::backup::BackupRequest;
use firedrill::harness::operator::prepare;
use firedrill::harness::operator::prepare::Prepared;
use firedrill::harness::operator::prepare::Request;
use firedrill::protocol::admin::NodeStatus;
use firedrill::protocol::replacement::approval::Approval;
use firedrill::protocol::replacement::ids::GenerationId;
use firedrill::protocol::replacement::intent::Intent;
use firedrill::protocol::replacement::intent::Phase;
use firedrill::protocol::replacement::names;
use firedrill::protocol::replacement::names::Record;
use firedrill::protocol::replacement::proof::Proof;
use firedrill::protocol::replacement::status::Answer;
use firedrill::value::Digest;
use libtest_mimic::Failed;

use super::drive;
use crate::Case;
use crate::process::Cluster;

/// The captures that an approval brings home: one orphan, two, three, and two targets.
pub const CASES: [&str; 4] =
    ["02-orphan-rebuilding", "03-two-orphans", "03c-three-orphans", "04b-two-targets-two-orphans"];
/// The id that the captures' constructed approvals give the successor.
const SUCCESSOR: &str = "d0d0c0c0-b0b0-4a0a-9090-808070706099";
/// How long a rebuild of a few versions may take on a busy machine.
const SOON: Duration = Duration::from_secs(90);

/// Every drive of the captured fleet, in pool order, as `node2/d1`.
fn places() -> Vec<String> {
    (1..=3).flat_map(|node| (1..=4).map(move |slot| format!("node{node}/d{slot}"))).collect()
}

/// Goal: the records of a real fleet lie on drives of ours under the names that they have; nothing is taken over
/// without an approval, and with one the drives are whole, the sources retired and every original kept.
pub fn is_finished(case: &Path) -> Result<(), Failed> {
    let case = Case::unpack(case);
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let targets: Vec<String> =
        case.expected["targets"].as_array().unwrap().iter().map(text).collect();
    let anchor = drive(case.expected["anchor_endpoint"].as_str().unwrap()).to_owned();
    let mut fleet = Cluster::new(1, 12);
    fleet.configure(|config| {
        let host = |place: String| format!("http://127.0.0.1:9402/srv/repl/{place}");
        config.nodes[0].endpoints = places().into_iter().map(host).collect();
    });
    let roots: BTreeMap<String, PathBuf> = places()
        .into_iter()
        .enumerate()
        .map(|(slot, place)| (place, fleet.drive(0, slot).to_owned()))
        .collect();
    fill(&mut fleet);

    let mut originals = BTreeMap::new();
    for ((place, path), bytes) in case.files("final") {
        let is_record = path.starts_with(names::LEDGERS) || path.contains("/healing.");
        if !is_record {
            continue;
        }
        let to = roots[&place].join(&path);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::write(&to, &bytes).unwrap();
        originals.insert(to, bytes);
    }
    for target in &targets {
        empty(&roots[drive(target)]);
    }
    fleet.start(0);
    fleet.wait_ready(0);
    let refused = |fleet: &Cluster| {
        let status: NodeStatus = asked(fleet, "/firedrill/v1/status");
        status.replacement.reasons.iter().any(|words| words.contains("(E4)"))
    };
    fleet.wait(0, "refusing", || refused(&fleet));
    let told: Answer = asked(&fleet, "/firedrill/v1/replacement");
    assert!(!told.local.definitive && told.local.reason.unwrap().contains("(E4)"));
    fleet.terminate(0);
    for (path, bytes) in &originals {
        assert_eq!(&fs::read(path).unwrap(), bytes, "{} was changed", path.display());
    }

    let target_roots: Vec<PathBuf> =
        targets.iter().map(|target| roots[drive(target)].clone()).collect();
    let to = fleet.folder.path().join("backup");
    let kept = BackupRequest { anchor: roots[&anchor].clone(), targets: target_roots.clone(), to };
    backup::run(&kept).unwrap();
    let approval = approve(&case, &targets, &roots, &roots[&anchor])?;
    fleet.start(0);
    fleet.wait_ready(0);
    let at = |record, id| roots[&anchor].join(names::path(record, id));
    let successor = approval.successor;
    let began = Instant::now();
    // The seal goes last.
    while at(Record::Seal, successor).exists() || !at(Record::Proof, successor).exists() {
        assert!(began.elapsed() < SOON, "{}", fs::read_to_string(fleet.log(0)).unwrap());
        thread::sleep(Duration::from_millis(50));
    }
    fleet.terminate(0);

    let proof = Proof::read(successor, &fs::read(at(Record::Proof, successor)).unwrap()).unwrap();
    assert_eq!(proof.legacy_import.as_ref(), Some(&approval));
    assert!(!at(Record::Approval, successor).exists());
    let receipt = Approval::read(successor, &fs::read(at(Record::Receipt, successor)).unwrap());
    assert_eq!(receipt.unwrap(), approval);
    for source in &approval.sources {
        let path = names::archive_path(successor, source.task_id);
        let archived = fs::read(roots[&anchor].join(path)).unwrap();
        assert_eq!(archived, originals[&at(Record::Intent, source.task_id)]);
        assert_eq!(Digest::of(&archived).0, source.sha256);
        let bytes = fs::read(at(Record::Intent, source.task_id)).unwrap();
        let retired = Intent::read(source.task_id, &bytes).unwrap();
        assert_eq!(retired.legacy_successor, Some(successor));
        assert_eq!(retired.phase, Phase::Abandoned);
    }
    for root in &target_roots {
        assert!(!root.join(names::MARKER).exists(), "{} is still marked", root.display());
    }
    is_whole(&roots)
}

/// Objects of several pages in the buckets that the captured plans name.
fn fill(fleet: &mut Cluster) {
    fleet.start(0);
    fleet.wait_ready(0);
    let client = fleet.client(0);
    for bucket in ["alpha", "beta", "mixed", "plain"] {
        client.put(&format!("/{bucket}"), b"").expect(200);
        for key in 0..8 {
            let body = vec![key; if key == 7 { 300_000 } else { 500 }];
            client.put(&format!("/{bucket}/k{key}"), &body).expect(200);
        }
    }
    fleet.terminate(0);
}

/// Takes every object from a drive, as if it had been blank when its rebuild began.
fn empty(root: &Path) {
    for entry in fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        let is_bucket = path.is_dir() && !path.ends_with(".rustfs.sys");
        if is_bucket {
            fs::remove_dir_all(path).unwrap();
        }
    }
}

/// Publishes the approval of every source; it says what the capture's constructed one says.
fn approve(
    case: &Case,
    targets: &[String],
    roots: &BTreeMap<String, PathBuf>,
    anchor: &Path,
) -> Result<Approval, Failed> {
    let successor: GenerationId = SUCCESSOR.parse().unwrap();
    let generations = case.expected["generations"].as_array().unwrap().iter();
    let mut sources: Vec<_> =
        generations.map(|it| it["task_id"].as_str().unwrap().to_owned()).collect();
    // The constructed approvals name them in order.
    sources.sort_unstable();
    let request = Request {
        anchor: Some(anchor.to_string_lossy().into_owned()),
        sources,
        targets: targets
            .iter()
            .map(|target| format!("{target}={}", roots[drive(target)].display()))
            .collect(),
        successor: Some(SUCCESSOR.to_owned()),
        write: true,
        stopped_all_writers: true,
    };
    let Prepared::Published(path) = prepare::run(&request)? else {
        return Err("nothing was published".into());
    };
    let bytes = fs::read(path)?;
    let constructed = &case.expected["constructed_import_approval"]["approval"];
    if !constructed.is_null() {
        let ours: serde_json::Value = serde_json::from_slice(&bytes)?;
        assert_eq!(&ours, constructed, "the approval says something else than the captured one");
    }
    Ok(Approval::read(successor, &bytes).unwrap())
}

fn asked<T: serde::de::DeserializeOwned>(fleet: &Cluster, path: &str) -> T {
    let answer = fleet.client(0).get(path).expect(200);
    serde_json::from_slice(&answer.body).unwrap()
}

/// Every version of the fleet has every shard.
fn is_whole(roots: &BTreeMap<String, PathBuf>) -> Result<(), Failed> {
    let source =
        |(name, root): (&String, &PathBuf)| DriveSource { name: name.clone(), root: root.clone() };
    let sources: Vec<_> = roots.iter().map(source).collect();
    let census = audit::take(&sources, &AuditOptions::default())?;
    let versions = census.keys.iter().flat_map(|key| &key.versions);
    let (mut count, mut full) = (0, 0);
    for version in versions {
        count += 1;
        full += usize::from(version.class == VersionClass::Full);
    }
    if count < 32 || full < count {
        return Err(format!("{full} of {count} versions are whole").into());
    }
    Ok(())
}
