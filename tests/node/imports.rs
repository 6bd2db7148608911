//! What a start makes of an approval, and of records where older releases kept them, when something is not as it
//! should be: it names the refusal, and leaves every byte.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use firedrill::harness::operator::prepare;
use firedrill::harness::operator::prepare::Prepared;
use firedrill::harness::operator::prepare::Request;
use firedrill::protocol::admin::NodeStatus;
use firedrill::protocol::replacement::ids::GenerationId;
use firedrill::protocol::replacement::names;
use firedrill::protocol::replacement::names::Record;
use firedrill::protocol::replacement::status::Answer;

use crate::process::Cluster;

const SOURCE: &str = "3f0c1d52-7a41-4c1e-9b0a-51d2a7c6e001";
const SUCCESSOR: &str = "8b6e2f90-15cd-4d77-a3f4-0c9be4d1e002";
const STRANGER: &str = "c4a7d3e8-2b19-46f5-8e60-7fd03a95e003";

/// A node of four drives, stopped: drive 0/1 was being rebuilt by an older release, whose record lies on 0/0.
struct Fleet {
    cluster: Cluster,
    anchor: PathBuf,
    target: PathBuf,
}

impl Fleet {
    fn new() -> Self {
        let mut cluster = Cluster::new(1, 4);
        cluster.start(0);
        cluster.wait_ready(0);
        cluster.client(0).put("/bucket", b"").expect(200);
        cluster.terminate(0);
        let (anchor, target) = (cluster.drive(0, 0).to_owned(), cluster.drive(0, 1).to_owned());
        fs::create_dir_all(anchor.join(names::FOLDER)).expect("a folder");
        Self { cluster, anchor, target }
    }

    /// The same, with the older release's record and an approval of it.
    fn approved() -> Self {
        let fleet = Self::new();
        fs::write(fleet.path(Record::Intent, SOURCE), fleet.legacy()).expect("written");
        fs::write(fleet.path(Record::Seal, SOURCE), "sealed").expect("written");
        let marker = format!("pool_0_set_0:{SOURCE}");
        fs::write(fleet.target.join(names::MARKER), marker).expect("written");
        let request = Request {
            anchor: Some(fleet.anchor.display().to_string()),
            sources: vec![SOURCE.to_owned()],
            targets: vec![format!("{0}={0}", fleet.target.display())],
            successor: Some(SUCCESSOR.to_owned()),
            write: true,
            stopped_all_writers: true,
        };
        let published = prepare::run(&request).expect("an approval");
        assert!(matches!(published, Prepared::Published(_)));
        fleet
    }

    /// A record of schema 5 in the middle of its rebuild.
    fn legacy(&self) -> String {
        let target = self.target.display();
        let identity = format!(
            r#"{{"endpoint":"{target}","canonical_path":"{target}","physical_device_ids":["loop9"],"filesystem_identity":"9:9:9"}}"#
        );
        format!(
            r#"{{"schema_version":5,"resume_cursor":null,"task_id":"{SOURCE}","task_type":"erasure_set","set_disk_id":"pool_0_set_0","replacement_targets":["{target}"],"replacement_target_identities":[{identity}],"replacement_buckets":["bucket"],"replacement_generation":"{SOURCE}","replacement_phase":"rebuilding","start_time":1790000000,"last_update":1790000000,"completed":false,"total_objects":0,"processed_objects":0,"successful_objects":0,"failed_objects":0,"skipped_objects":0,"current_bucket":null,"current_object":null,"completed_buckets":[],"pending_buckets":["bucket"],"error_message":null,"retry_count":0,"max_retries":3}}"#
        )
    }

    fn path(&self, record: Record, id: &str) -> PathBuf {
        let id: GenerationId = id.parse().expect("an id");
        self.anchor.join(names::path(record, id))
    }

    /// Replaces a piece of the approval.
    fn edit_approval(&self, from: &str, to: &str) {
        let path = self.path(Record::Approval, SUCCESSOR);
        let text = fs::read_to_string(&path).expect("an approval");
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replace(from, to)).expect("written");
    }

    /// Every record and marker.
    fn records(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut records = BTreeMap::new();
        for root in [&self.anchor, &self.target] {
            for folder in [names::FOLDER, names::LEDGERS, ".rustfs.sys"] {
                for entry in fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
                    let path = entry.path();
                    let name = path.strip_prefix(root).expect("below").display().to_string();
                    if names::parse(&name) != names::Name::Other || name == names::MARKER {
                        records.insert(path.clone(), fs::read(path).expect("a record"));
                    }
                }
            }
        }
        records
    }

    fn status(&self) -> NodeStatus {
        let body = self.cluster.client(0).get("/firedrill/v1/status").expect(200).body;
        serde_json::from_slice(&body).expect("a status")
    }
}

/// Starts the node of an approved import that `spoil` has spoilt.
#[track_caller]
fn is_refused(number: &str, spoil: impl FnOnce(&Fleet)) {
    let fleet = Fleet::approved();
    spoil(&fleet);
    refuses(fleet, number);
}

#[track_caller]
fn refuses(mut fleet: Fleet, number: &str) {
    let before = fleet.records();
    assert!(!before.is_empty());
    fleet.cluster.start(0);
    fleet.cluster.wait_ready(0);
    let named = format!("({number})");
    let is_told = |fleet: &Fleet| {
        let reasons = fleet.status().replacement.reasons;
        reasons.iter().any(|words| words.contains(&named))
    };
    fleet.cluster.wait(0, &format!("refusing by {number}"), || is_told(&fleet));
    let body = fleet.cluster.client(0).get("/firedrill/v1/replacement").expect(200).body;
    let answer: Answer = serde_json::from_slice(&body).expect("an answer");
    let reason = answer.local.reason.unwrap_or_default();
    assert!(!answer.local.definitive && reason.contains(&named), "{reason}");
    // It serves on.
    fleet.cluster.client(0).put("/bucket/key", b"body").expect(200);
    fleet.cluster.terminate(0);
    assert_eq!(fleet.records(), before, "{number} left something else");
}

#[test]
fn an_import_that_is_not_as_it_was_approved_is_refused_by_name() {
    let write = |path: PathBuf, bytes: &str| fs::write(path, bytes).expect("written");
    // One byte more.
    is_refused("E72", |fleet| {
        write(fleet.path(Record::Intent, SOURCE), &(fleet.legacy() + " "));
    });
    is_refused("E72", |fleet| {
        fs::remove_file(fleet.path(Record::Intent, SOURCE)).expect("removed");
    });
    is_refused("E71", |fleet| {
        write(fleet.target.join(names::MARKER), &format!("pool_0_set_0:{STRANGER}"));
    });
    let target = |fleet: &Fleet| fleet.target.display().to_string();
    is_refused("E71", |fleet| fleet.edit_approval(&target(fleet), "/elsewhere"));
    is_refused("E48", |fleet| fleet.edit_approval("pool_0_set_0", "pool_0_set_7"));
    is_refused("E70", |fleet| fleet.edit_approval("\"sources\"", "\"origins\""));
    is_refused("E70", |fleet| fleet.edit_approval("all-writers-stopped", "some-writers-stopped"));
    is_refused("E73", |fleet| {
        let ids = (SUCCESSOR.parse().expect("an id"), SOURCE.parse().expect("an id"));
        write(fleet.anchor.join(names::archive_path(ids.0, ids.1)), "other bytes");
    });
    is_refused("E75", |fleet| write(fleet.path(Record::Receipt, SUCCESSOR), "other bytes"));
}

#[test]
fn a_record_of_an_older_release_is_refused_wherever_it_lies() {
    let with = |record: Record, text: &str| {
        let fleet = Fleet::new();
        let text = if text.is_empty() { fleet.legacy() } else { text.to_owned() };
        fs::write(fleet.path(record, SOURCE), text).expect("written");
        fleet
    };
    refuses(with(Record::Intent, ""), "E4");
    refuses(with(Record::FlatIntent, ""), "E4");
    refuses(with(Record::ResumeState, ""), "E4");
    refuses(with(Record::FlatIntent, "{\"schema_version\":"), "E15");
}

/// Goal: an ordinary heal's state under one of the flat names is nobody's replacement, whatever its schema.
#[test]
fn an_ordinary_heals_state_stops_nobody() {
    let mut fleet = Fleet::new();
    let text = format!(
        r#"{{"schema_version":5,"task_id":"{STRANGER}","task_type":"erasure_set","set_disk_id":"pool_0_set_0","replacement_targets":[],"replacement_generation":null,"replacement_phase":"none","start_time":1,"last_update":1,"completed":false,"total_objects":0,"processed_objects":0,"successful_objects":0,"failed_objects":0,"skipped_objects":0,"completed_buckets":[],"pending_buckets":[],"retry_count":0,"max_retries":3}}"#
    );
    fs::write(fleet.path(Record::ResumeState, STRANGER), text).expect("written");
    let before = fleet.records();
    fleet.cluster.start(0);
    fleet.cluster.wait_ready(0);
    fleet.cluster.wait(0, "done looking", || fleet.status().replacement.open == 0);
    assert!(fleet.status().replacement.reasons.is_empty());
    fleet.cluster.terminate(0);
    assert_eq!(fleet.records(), before);
}
