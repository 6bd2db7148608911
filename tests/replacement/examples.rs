//! The examples of the specification, byte for byte, and digests that were computed apart from this code.

use firedrill::protocol::replacement::approval::Approval;
use firedrill::protocol::replacement::checkpoint::Checkpoint;
use firedrill::protocol::replacement::checkpoint::cursor_after;
use firedrill::protocol::replacement::identity::Identity;
use firedrill::protocol::replacement::ids::GenerationId;
use firedrill::protocol::replacement::intent::Intent;
use firedrill::protocol::replacement::intent::Layout;
use firedrill::protocol::replacement::lineage::HandoffPhase;
use firedrill::protocol::replacement::names;
use firedrill::protocol::replacement::names::Record;
use firedrill::protocol::replacement::prepare;
use firedrill::protocol::replacement::prepare::Entry;
use firedrill::protocol::replacement::prepare::Seen;
use firedrill::protocol::replacement::proof::Proof;
use firedrill::protocol::replacement::resolve;
use firedrill::protocol::replacement::start;
use firedrill::protocol::replacement::store::Change;
use firedrill::protocol::replacement::store::Durable;
use firedrill::protocol::replacement::store::Files;
use firedrill::protocol::replacement::store::Now;
use firedrill::protocol::replacement::store::Write;
use firedrill::value::Digest;

const ENDPOINT: &str = "http://node-b.example:9000/srv/drive3";
const FRESH: &str = "3f0c1d52-7a41-4c1e-9b0a-51d2a7c6e001";
const NEXT: &str = "8b6e2f90-15cd-4d77-a3f4-0c9be4d1e002";
const TRANSACTION: &str = "c4a7d3e8-2b19-46f5-8e60-7fd03a95e003";
const ORPHANS: [&str; 2] =
    ["11aa22bb-33cc-44dd-95ee-66ff77008801", "11aa22bb-33cc-44dd-95ee-66ff77008802"];
const IMPORTED: &str = "d0d0c0c0-b0b0-4a0a-9090-808070706099";

const INTENT: &str = r#"{"schema_version":7,"resume_cursor":null,"task_id":"3f0c1d52-7a41-4c1e-9b0a-51d2a7c6e001","task_type":"erasure_set","set_disk_id":"pool_0_set_2","replacement_targets":["http://node-b.example:9000/srv/drive3"],"replacement_target_identities":[{"endpoint":"http://node-b.example:9000/srv/drive3","canonical_path":"/srv/drive3","physical_device_ids":["sdq"],"filesystem_identity":"417:2097:128"}],"replacement_buckets":["invoices","photos"],"replacement_generation":"3f0c1d52-7a41-4c1e-9b0a-51d2a7c6e001","replacement_phase":"intent","replacement_execution_protocol":1,"replacement_revision":0,"replacement_predecessor":null,"replacement_handoff":null,"replacement_lineage":[],"replacement_legacy_import":null,"replacement_legacy_successor":null,"replacement_legacy_retry_compatibility_done":true,"replacement_retry_waiting_for_target":false,"start_time":1790000000,"last_update":1790000000,"completed":false,"total_objects":0,"processed_objects":0,"successful_objects":0,"failed_objects":0,"skipped_objects":0,"skipped_new_versions":0,"skipped_ilm_expired":0,"current_bucket":null,"current_object":null,"completed_buckets":[],"pending_buckets":["invoices","photos"],"error_message":null,"retry_count":0,"max_retries":3,"processed_bytes":0,"total_bytes":0,"baseline_generation":null,"baseline_known":false,"counter_unknown":false}"#;
const HANDOFF: &str = r#""replacement_handoff":{"phase":"prepared","link":{"transaction_id":"c4a7d3e8-2b19-46f5-8e60-7fd03a95e003","predecessor":"3f0c1d52-7a41-4c1e-9b0a-51d2a7c6e001","successor":"8b6e2f90-15cd-4d77-a3f4-0c9be4d1e002","set_disk_id":"pool_0_set_2","source_sha256":[215,168,234,17,150,136,195,9,253,51,41,184,247,196,222,23,214,27,36,75,35,18,1,136,78,247,35,10,139,34,164,237],"targets":[{"endpoint":"http://node-b.example:9000/srv/drive3","canonical_path":"/srv/drive3","physical_device_ids":["sdq"],"filesystem_identity":"588:2097:128"}],"expected_markers":["pool_0_set_2:3f0c1d52-7a41-4c1e-9b0a-51d2a7c6e001"],"buckets":["invoices","new-since","photos"]}}"#;
const PROOF: &str = r#"{"schema_version":2,"task_id":"8b6e2f90-15cd-4d77-a3f4-0c9be4d1e002","replacement_generation":"8b6e2f90-15cd-4d77-a3f4-0c9be4d1e002","set_disk_id":"pool_0_set_2","replacement_targets":["http://node-b.example:9000/srv/drive3"],"replacement_target_identities":[{"endpoint":"http://node-b.example:9000/srv/drive3","canonical_path":"/srv/drive3","physical_device_ids":["sdq"],"filesystem_identity":"588:2097:128"}],"replacement_lineage":[{"transaction_id":"c4a7d3e8-2b19-46f5-8e60-7fd03a95e003","predecessor":"3f0c1d52-7a41-4c1e-9b0a-51d2a7c6e001","successor":"8b6e2f90-15cd-4d77-a3f4-0c9be4d1e002","set_disk_id":"pool_0_set_2","source_sha256":[215,168,234,17,150,136,195,9,253,51,41,184,247,196,222,23,214,27,36,75,35,18,1,136,78,247,35,10,139,34,164,237],"targets":[{"endpoint":"http://node-b.example:9000/srv/drive3","canonical_path":"/srv/drive3","physical_device_ids":["sdq"],"filesystem_identity":"588:2097:128"}],"expected_markers":["pool_0_set_2:3f0c1d52-7a41-4c1e-9b0a-51d2a7c6e001"],"buckets":["invoices","new-since","photos"]}],"replacement_legacy_import":null,"verified_at":1790009999}"#;
const CHECKPOINT: &str = r#"{"schema_version":7,"task_id":"3f0c1d52-7a41-4c1e-9b0a-51d2a7c6e001","checkpoint_time":1790000421,"current_bucket_index":1,"current_object_index":1000,"processed_objects":["20:2026/07/cat-0998.jpg00000000-0000-0000-0000-000000000000","20:2026/07/cat-0999.jpg0b8e5a53-41d2-4f5c-8c46-2a3c6f7d1e10"],"failed_objects":[],"skipped_objects":[],"successful_objects":1500,"failed_object_count":0,"skipped_object_count":0,"skipped_new_versions":0,"skipped_ilm_expired":0,"processed_bytes":734003200,"total_objects":0,"total_bytes":0,"baseline_generation":null,"baseline_known":false,"counter_unknown":false,"integrity_digest":null}"#;
const APPROVAL: &str = r#"{"schema_version":1,"successor":"d0d0c0c0-b0b0-4a0a-9090-808070706099","set_disk_id":"pool_0_set_2","targets":["http://node-b.example:9000/srv/drive3"],"expected_markers":["pool_0_set_2:11aa22bb-33cc-44dd-95ee-66ff77008801"],"sources":[{"task_id":"11aa22bb-33cc-44dd-95ee-66ff77008801","sha256":[110,225,225,65,220,25,226,200,83,98,144,14,12,87,229,88,62,137,53,138,140,79,182,39,32,161,69,205,57,210,184,213]},{"task_id":"11aa22bb-33cc-44dd-95ee-66ff77008802","sha256":[37,88,171,37,77,189,211,96,236,126,176,82,3,188,172,26,24,151,173,4,133,203,200,70,78,250,135,167,200,7,37,137]}],"maintenance_assertion":"all-writers-stopped-before-upgrade"}"#;
const ORPHAN: &str = r#"{"schema_version":5,"resume_cursor":null,"task_id":"11aa22bb-33cc-44dd-95ee-66ff77008801","task_type":"erasure_set","set_disk_id":"pool_0_set_2","replacement_targets":["http://node-b.example:9000/srv/drive3"],"replacement_target_identities":[{"endpoint":"http://node-b.example:9000/srv/drive3","canonical_path":"/srv/drive3","physical_device_ids":["sdq"],"filesystem_identity":"301:2097:128"}],"replacement_buckets":["invoices"],"replacement_generation":"11aa22bb-33cc-44dd-95ee-66ff77008801","replacement_phase":"abandoned","start_time":1790000000,"last_update":1790000000,"completed":false,"total_objects":0,"processed_objects":0,"successful_objects":0,"failed_objects":0,"skipped_objects":0,"skipped_new_versions":0,"skipped_ilm_expired":0,"current_bucket":null,"current_object":null,"completed_buckets":[],"pending_buckets":["invoices"],"error_message":null,"retry_count":0,"max_retries":3,"processed_bytes":0,"total_bytes":0,"baseline_generation":null,"baseline_known":false,"counter_unknown":false}"#;

fn id(text: &str) -> GenerationId {
    text.parse().unwrap()
}

fn identity(filesystem: &str) -> Identity {
    Identity {
        endpoint: ENDPOINT.to_owned(),
        canonical_path: "/srv/drive3".to_owned(),
        physical_device_ids: vec!["sdq".to_owned()],
        filesystem_identity: filesystem.to_owned(),
    }
}

fn now(time_s: u64, filesystem: &str, buckets: &[&str]) -> Now {
    let mounted = firedrill::protocol::replacement::identity::Mounted {
        identity: identity(filesystem),
        filesystem_uuid: None,
        format_id: Some("slot".to_owned()),
    };
    Now {
        time_s,
        mounts: vec![Ok(mounted)],
        buckets: buckets.iter().map(|it| (*it).to_owned()).collect(),
        fresh_successor: id(NEXT),
        fresh_transaction: id(TRANSACTION),
        is_opening: true,
    }
}

fn bytes(write: &Write) -> String {
    let Change::Swap { new: Some(new), .. } = &write.change else { panic!("{write:?}") };
    String::from_utf8(new.clone()).unwrap()
}

#[test]
fn every_example_comes_back_byte_for_byte() {
    let intent = Intent::read(id(FRESH), INTENT.as_bytes()).unwrap();
    assert_eq!(intent.encode(), INTENT.as_bytes());
    assert_eq!(INTENT.len(), 1327);
    let proof = Proof::read(id(NEXT), PROOF.as_bytes()).unwrap();
    assert_eq!(proof.encode(), PROOF.as_bytes());
    let checkpoint = Checkpoint::parse(CHECKPOINT.as_bytes()).unwrap();
    assert_eq!(checkpoint.encode(), CHECKPOINT.as_bytes());
    let approval = Approval::read(id(IMPORTED), APPROVAL.as_bytes()).unwrap();
    assert_eq!(approval.encode(), APPROVAL.as_bytes());
    let orphan = Intent::parse(ORPHAN.as_bytes()).unwrap();
    assert_eq!(orphan.encode(), ORPHAN.as_bytes());
    assert_eq!(orphan.layout, Layout::Legacy);
}

#[test]
fn both_digests_of_the_example_checkpoint_are_accepted_and_one_is_written() {
    let checkpoint = Checkpoint::parse(CHECKPOINT.as_bytes()).unwrap();
    assert_eq!(checkpoint.digest(), "pKSoxIl0626vcgV/UHtAmWGuILBVw+ZS+DLfEsxpHWw=");
    let sorted = "iqQn3g6jjyJc4lUgX3mlvBaAvP/xd6jfPnQC900jZlM=";
    assert_eq!(checkpoint.digest_of_sorted_keys(), sorted);
    assert!(checkpoint.has_digest(sorted) && !checkpoint.has_digest("x"));
    let sealed = checkpoint.seal(checkpoint.checkpoint_time);
    assert_eq!(Checkpoint::read(id(FRESH), &sealed).unwrap().known(), checkpoint.known());
}

#[test]
fn a_fresh_generation_is_published_with_the_bytes_of_the_example() {
    let durable =
        Durable { files: Files { has_folder: true, ..Files::default() }, markers: vec![None] };
    let request = start::Request {
        generation: id(FRESH),
        set: "pool_0_set_2".to_owned(),
        targets: vec![ENDPOINT.to_owned()],
    };
    let now = now(1_790_000_000, "417:2097:128", &["invoices", "photos"]);
    let write = start::next_write(&durable, &request, &now).unwrap().unwrap();
    assert_eq!(bytes(&write), INTENT);
}

/// Goal: the predecessor of the example, its digest, its handoff, the successor and the last proof of the chain.
#[test]
fn a_changed_mount_is_handed_off_with_the_bytes_of_the_example() {
    let mut before = Intent::read(id(FRESH), INTENT.as_bytes()).unwrap();
    before.phase = firedrill::protocol::replacement::intent::Phase::Rebuilding;
    before.revision = 7;
    before.resume_cursor = Some(cursor_after("2026/07/cat-0999.jpg"));
    before.last_update = 1_790_000_420;
    (before.processed_objects, before.successful_objects) = (1500, 1500);
    before.processed_bytes = 734_003_200;
    before.current_bucket = Some("photos".to_owned());
    before.current_object = Some("2026/07/cat-0999.jpg".to_owned());
    before.completed_buckets = vec!["invoices".to_owned()];
    before.pending_buckets = vec!["photos".to_owned()];
    let digest = "d7a8ea119688c309fd3329b8f7c4de17d61b244b231201884ef7230a8b22a4ed";
    assert_eq!(Digest::of(&before.encode()).to_string(), digest);
    let mut files = Files { has_folder: true, ..Files::default() };
    files.bytes.insert(names::path(Record::Intent, id(FRESH)), before.encode());
    files.bytes.insert(names::path(Record::Seal, id(FRESH)), b"sealed".to_vec());
    let marker = format!("pool_0_set_2:{FRESH}").into_bytes();
    let mut durable = Durable { files, markers: vec![Some(marker)] };
    let now = now(1_790_000_500, "588:2097:128", &["new-since", "photos"]);
    let write = resolve::next_write(&durable, id(FRESH), &now).unwrap().unwrap();
    let prepared = bytes(&write);
    assert!(prepared.contains(HANDOFF), "{prepared}");
    assert!(prepared.contains(r#""replacement_phase":"handoff_pending""#));
    assert!(prepared.contains(r#""replacement_revision":8"#));
    durable.files.bytes.insert(write.path.clone(), prepared.into_bytes());

    let write = resolve::next_write(&durable, id(FRESH), &now).unwrap().unwrap();
    let successor = Intent::read(id(NEXT), bytes(&write).as_bytes()).unwrap();
    let handoff = durable.files.intent_of(id(FRESH)).unwrap().value.handoff.unwrap();
    assert_eq!(handoff.phase, HandoffPhase::Prepared);
    assert_eq!(successor.lineage.last(), Some(&handoff.link));
    assert_eq!(successor.lineage.len(), 1);
    assert_eq!(successor.predecessor, Some(id(FRESH)));
    assert_eq!((successor.revision, successor.start_time), (0, now.time_s));
    assert_eq!(successor.identities, handoff.link.targets);
    assert_eq!(successor.buckets, ["invoices", "new-since", "photos"]);
    assert_eq!(successor.pending_buckets, successor.buckets);
    assert!(successor.is_untouched() && successor.handoff.is_none());
    // The released servers charge the handoff to the failure budget; here the lineage alone bounds it.
    assert_eq!((successor.retry_count, successor.max_retries), (before.retry_count, 3));
    assert_eq!(Proof::of(&successor, 1_790_009_999, 2).encode(), PROOF.as_bytes());
}

/// Goal: what the operator's tool prints for two orphans, field by field and as a file.
#[test]
fn the_tool_proposes_the_approval_of_the_example() {
    let second = ORPHAN
        .replace(ORPHANS[0], ORPHANS[1])
        .replace("\"schema_version\":5", "\"schema_version\":6")
        .replace("301:2097:128", "355:2097:128")
        .replace("invoices", "photos")
        .replace("abandoned", "rebuilding");
    let mut seen = Seen::default();
    for folder in ["/a", "/a/.rustfs.sys", "/t", "/t/.rustfs.sys"] {
        seen.entries.insert(folder.to_owned(), Entry::Folder);
    }
    for folder in [names::LEDGERS, names::FOLDER] {
        seen.entries.insert(format!("/a/{folder}"), Entry::Folder);
    }
    for (source, text) in ORPHANS.iter().zip([ORPHAN, &second]) {
        let path = format!("/a/{}", names::path(Record::Intent, id(source)));
        seen.entries.insert(path, Entry::File(text.as_bytes().to_vec()));
    }
    let marker = format!("pool_0_set_2:{}", ORPHANS[0]).into_bytes();
    seen.entries.insert(format!("/t/{}", names::MARKER), Entry::File(marker));
    let request = prepare::Request {
        anchor: Some("/a".to_owned()),
        sources: ORPHANS.map(str::to_owned).to_vec(),
        targets: vec![format!("{ENDPOINT}=/t")],
        successor: Some(IMPORTED.to_owned()),
        ..prepare::Request::default()
    };
    let arguments = prepare::arguments(&request).unwrap();
    let approval = prepare::proposal(&arguments, &seen).unwrap();
    assert_eq!(String::from_utf8(approval.encode()).unwrap(), APPROVAL);
    let file = String::from_utf8(approval.encode_pretty()).unwrap();
    assert!(file.starts_with("{\n  \"schema_version\": 1,\n  \"successor\": \"d0d0"), "{file}");
    assert!(file.ends_with("\"all-writers-stopped-before-upgrade\"\n}\n"), "{file}");
    assert_eq!(Approval::read(id(IMPORTED), file.as_bytes()), Ok(approval));
}
