//! A strict reader of the current schema, written from the description of the bytes alone: it shares no code
//! with the protocol, and holds everything that a whole rehearsal leaves to the tables of keys.

use std::collections::BTreeSet;

use serde_json::Map;
use serde_json::Value;
use sha2::Digest as _;
use sha2::Sha256;

use crate::import::Orphans;
use crate::world::World;
use crate::world::first;

const INTENT: &[&str] = &[
    "schema_version",
    "resume_cursor",
    "task_id",
    "task_type",
    "set_disk_id",
    "replacement_targets",
    "replacement_target_identities",
    "replacement_buckets",
    "replacement_generation",
    "replacement_phase",
    "replacement_execution_protocol",
    "replacement_revision",
    "replacement_predecessor",
    "replacement_handoff",
    "replacement_lineage",
    "replacement_legacy_import",
    "replacement_legacy_successor",
    "replacement_legacy_retry_compatibility_done",
    "replacement_retry_waiting_for_target",
    "start_time",
    "last_update",
    "completed",
    "total_objects",
    "processed_objects",
    "successful_objects",
    "failed_objects",
    "skipped_objects",
    "skipped_new_versions",
    "skipped_ilm_expired",
    "current_bucket",
    "current_object",
    "completed_buckets",
    "pending_buckets",
    "error_message",
    "retry_count",
    "max_retries",
    "processed_bytes",
    "total_bytes",
    "baseline_generation",
    "baseline_known",
    "counter_unknown",
];
const CHECKPOINT: &[&str] = &[
    "schema_version",
    "task_id",
    "checkpoint_time",
    "current_bucket_index",
    "current_object_index",
    "processed_objects",
    "failed_objects",
    "skipped_objects",
    "successful_objects",
    "failed_object_count",
    "skipped_object_count",
    "skipped_new_versions",
    "skipped_ilm_expired",
    "processed_bytes",
    "total_objects",
    "total_bytes",
    "baseline_generation",
    "baseline_known",
    "counter_unknown",
    "integrity_digest",
];
const PROOF: &[&str] = &[
    "schema_version",
    "task_id",
    "replacement_generation",
    "set_disk_id",
    "replacement_targets",
    "replacement_target_identities",
    "replacement_lineage",
    "replacement_legacy_import",
    "verified_at",
];
const IDENTITY: &[&str] =
    &["endpoint", "canonical_path", "physical_device_ids", "filesystem_identity"];
const LINK: &[&str] = &[
    "transaction_id",
    "predecessor",
    "successor",
    "set_disk_id",
    "source_sha256",
    "targets",
    "expected_markers",
    "buckets",
];
const APPROVAL: &[&str] = &[
    "schema_version",
    "successor",
    "set_disk_id",
    "targets",
    "expected_markers",
    "sources",
    "maintenance_assertion",
];

type Read<T> = Result<T, String>;

fn object<'a>(value: &'a Value, keys: &[&str], is_closed: bool) -> Read<&'a Map<String, Value>> {
    let object = value.as_object().ok_or_else(|| format!("{value} is no object"))?;
    for key in keys {
        object.get(*key).ok_or_else(|| format!("no key {key}"))?;
    }
    let unknown = object.keys().find(|key| !keys.contains(&key.as_str()));
    match unknown.filter(|_| is_closed) {
        Some(key) => Err(format!("unknown key {key}")),
        None => Ok(object),
    }
}

/// The keys of the outermost object as they stand in the bytes.
fn order(bytes: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(bytes).unwrap();
    let (mut keys, mut depth, mut string, mut is_key) = (Vec::new(), 0, None, true);
    let mut escaped = false;
    for symbol in text.chars() {
        if let Some(word) = &mut string {
            match symbol {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' => {
                    if depth == 1 && is_key {
                        keys.push(std::mem::take(word));
                    }
                    string = None;
                }
                other => String::push(word, other),
            }
            continue;
        }
        match symbol {
            '"' => string = Some(String::new()),
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ':' if depth == 1 => is_key = false,
            ',' if depth == 1 => is_key = true,
            _ => {}
        }
    }
    keys
}

fn compact(bytes: &[u8], keys: &[&str]) -> Read<Value> {
    if bytes.iter().any(u8::is_ascii_whitespace) && !bytes.contains(&b' ') {
        return Err("white space".to_owned());
    }
    if order(bytes) != keys {
        return Err(format!("keys in the order {:?}", order(bytes)));
    }
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

fn text(value: &Value) -> Read<&str> {
    value.as_str().ok_or_else(|| format!("{value} is no text"))
}

fn number(value: &Value) -> Read<u64> {
    value.as_u64().ok_or_else(|| format!("{value} is no number"))
}

fn list(value: &Value) -> Read<&Vec<Value>> {
    value.as_array().ok_or_else(|| format!("{value} is no list"))
}

fn uuid(value: &Value) -> Read<&str> {
    let id = text(value)?;
    let groups: Vec<_> = id.split('-').map(str::len).collect();
    let is_hex = id.chars().all(|it| it == '-' || it.is_ascii_digit() || ('a'..='f').contains(&it));
    if groups == [8, 4, 4, 4, 12] && is_hex { Ok(id) } else { Err(format!("{id} is no UUID")) }
}

fn digest(value: &Value) -> Read<()> {
    let bytes = list(value)?;
    let fits = bytes.iter().all(|it| it.as_u64().is_some_and(|it| it < 256));
    if bytes.len() == 32 && fits { Ok(()) } else { Err("no digest of 32 numbers".to_owned()) }
}

fn identities(value: &Value, targets: Option<&Value>) -> Read<Vec<String>> {
    let mut endpoints = Vec::new();
    for identity in list(value)? {
        let identity = object(identity, IDENTITY, false)?;
        endpoints.push(text(&identity["endpoint"])?.to_owned());
        let devices: Vec<_> = list(&identity["physical_device_ids"])?.iter().collect();
        let is_sorted = devices.windows(2).all(|it| it[0].as_str() < it[1].as_str());
        let parts = text(&identity["filesystem_identity"])?.split(':').count();
        if devices.is_empty() || !is_sorted || parts != 3 {
            return Err(format!("identity {identity:?}"));
        }
    }
    let distinct: BTreeSet<_> = endpoints.iter().collect();
    if endpoints.is_empty() || distinct.len() != endpoints.len() {
        return Err("no targets, or one twice".to_owned());
    }
    match targets {
        Some(targets) if *targets != Value::from(endpoints.clone()) => {
            Err("identities of other targets".to_owned())
        }
        _ => Ok(endpoints),
    }
}

fn link(value: &Value, set: &Value) -> Read<()> {
    let link = object(value, LINK, true)?;
    uuid(&link["transaction_id"])?;
    digest(&link["source_sha256"])?;
    let (old, new) = (uuid(&link["predecessor"])?, uuid(&link["successor"])?);
    let endpoints = identities(&link["targets"], None)?;
    let owner = Value::from(format!("{}:{old}", text(set)?));
    let markers = list(&link["expected_markers"])?;
    let is_owned = markers.iter().all(|it| it.is_null() || *it == owner);
    let buckets = list(&link["buckets"])?;
    let is_sorted = buckets.windows(2).all(|it| it[0].as_str() < it[1].as_str());
    let fits = old != new
        && link["set_disk_id"] == *set
        && markers.len() == endpoints.len()
        && is_owned
        && is_sorted;
    if fits { Ok(()) } else { Err(format!("link {value}")) }
}

fn lineage(value: &Value, set: &Value, last: &Value, identities: &Value) -> Read<()> {
    let links = list(value)?;
    for value in links {
        link(value, set)?;
    }
    let chained = links.windows(2).all(|it| it[0]["successor"] == it[1]["predecessor"]);
    let end = links.last();
    let ends = end.is_none_or(|it| it["successor"] == *last && it["targets"] == *identities);
    if links.len() <= 32 && chained && ends { Ok(()) } else { Err(format!("lineage {value}")) }
}

fn approval(value: &Value) -> Read<()> {
    let approval = object(value, APPROVAL, true)?;
    uuid(&approval["successor"])?;
    let set = text(&approval["set_disk_id"])?;
    let mut owners = BTreeSet::new();
    for source in list(&approval["sources"])? {
        let source = object(source, &["task_id", "sha256"], true)?;
        digest(&source["sha256"])?;
        owners.insert(format!("{set}:{}", uuid(&source["task_id"])?));
    }
    let markers = list(&approval["expected_markers"])?;
    let is_owned = markers.iter().all(|it| it.is_null() || owners.contains(text(it).unwrap()));
    let fits = approval["schema_version"] == 1
        && approval["maintenance_assertion"] == "all-writers-stopped-before-upgrade"
        && (1..=32).contains(&owners.len())
        && markers.len() == list(&approval["targets"])?.len()
        && is_owned;
    if fits { Ok(()) } else { Err(format!("approval {value}")) }
}

fn intent(id: &str, bytes: &[u8]) -> Read<()> {
    let value = compact(bytes, INTENT)?;
    let it = object(&value, INTENT, false)?;
    let phases = [
        "intent",
        "ownership_pending",
        "handoff_pending",
        "rebuilding",
        "verified",
        "cleanup_pending",
        "abandoned",
    ];
    let phase = text(&it["replacement_phase"])?;
    let counters = ["total_objects", "processed_objects", "failed_objects", "skipped_objects"];
    for counter in counters.iter().chain(&["replacement_revision", "start_time", "retry_count"]) {
        number(&it[*counter])?;
    }
    let is_over = ["verified", "cleanup_pending"].contains(&phase);
    let fits = it["schema_version"] == 7
        && it["task_type"] == "erasure_set"
        && it["task_id"] == id
        && it["replacement_generation"] == id
        && it["replacement_execution_protocol"] == 1
        && phases.contains(&phase)
        && it["completed"] == is_over
        && it["max_retries"] == 3;
    if !fits {
        return Err(format!("intent {value}"));
    }
    let (set, identities_now) = (&it["set_disk_id"], &it["replacement_target_identities"]);
    identities(identities_now, Some(&it["replacement_targets"]))?;
    lineage(&it["replacement_lineage"], set, &it["task_id"], identities_now)?;
    let last = list(&it["replacement_lineage"])?.last();
    let predecessor = last.map_or(Value::Null, |link| link["predecessor"].clone());
    if it["replacement_predecessor"] != predecessor {
        return Err("a predecessor that the lineage does not name".to_owned());
    }
    if !it["replacement_handoff"].is_null() {
        let handoff = object(&it["replacement_handoff"], &["phase", "link"], true)?;
        link(&handoff["link"], set)?;
        let is_committed = handoff["phase"] == "committed";
        let expected = if is_committed { "abandoned" } else { "handoff_pending" };
        if phase != expected || handoff["link"]["predecessor"] != id {
            return Err(format!("handoff in phase {phase}"));
        }
    }
    if !it["replacement_legacy_import"].is_null() {
        approval(&it["replacement_legacy_import"])?;
    }
    let is_retired = !it["replacement_legacy_successor"].is_null();
    if is_retired && phase != "abandoned" { Err("retired".to_owned()) } else { Ok(()) }
}

fn proof(id: &str, bytes: &[u8]) -> Read<()> {
    let value = compact(bytes, PROOF)?;
    let it = object(&value, PROOF, false)?;
    let identities_then = &it["replacement_target_identities"];
    identities(identities_then, Some(&it["replacement_targets"]))?;
    lineage(&it["replacement_lineage"], &it["set_disk_id"], &it["task_id"], identities_then)?;
    if !it["replacement_legacy_import"].is_null() {
        approval(&it["replacement_legacy_import"])?;
    }
    let fits = it["schema_version"] == 2
        && it["task_id"] == id
        && it["replacement_generation"] == id
        && number(&it["verified_at"])? > 0;
    if fits { Ok(()) } else { Err(format!("proof {value}")) }
}

fn checkpoint(id: &str, bytes: &[u8]) -> Read<()> {
    let value = compact(bytes, CHECKPOINT)?;
    let it = object(&value, CHECKPOINT, true)?;
    // The digest is over the record with a null digest and sorted sets, keys as they stand.
    let mut parts = Vec::new();
    for key in CHECKPOINT {
        let part = match *key {
            "integrity_digest" => Value::Null,
            set if set.ends_with("_objects") && it[set].is_array() => {
                let mut names: Vec<_> = list(&it[set])?.clone();
                names.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
                Value::from(names)
            }
            key => it[key].clone(),
        };
        parts.push(format!("\"{key}\":{part}"));
    }
    let sum = Sha256::digest(format!("{{{}}}", parts.join(",")).as_bytes());
    let sum = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, sum);
    let fits = it["schema_version"] == 7 && it["task_id"] == id;
    if fits && it["integrity_digest"] == sum { Ok(()) } else { Err(format!("ledger {value}")) }
}

/// Reads every file of `world` that the description names; answers how many there were.
fn read(world: &World) -> usize {
    let mut count = 0;
    for (path, bytes) in &world.durable.files.bytes {
        let name = path.rsplit('/').next().unwrap();
        let id = &name[..36];
        let is_isolated = path.contains("/ahm-replacement/");
        let outcome = match &name[36..] {
            "_ahm_replacement_intent.json" => {
                assert!(is_isolated);
                let is_legacy = bytes.starts_with(b"{\"schema_version\":5")
                    || bytes.starts_with(b"{\"schema_version\":6");
                if is_legacy { Ok(()) } else { intent(id, bytes) }
            }
            "_ahm_replacement_completion_proof.json" => proof(id, bytes),
            "_ahm_checkpoint.json" => checkpoint(id, bytes),
            "_ahm_replacement_intent_seal" if bytes == b"sealed" => Ok(()),
            "_legacy_replacement_approval.json" | "_legacy_replacement_receipt.json" => {
                approval(&serde_json::from_slice(bytes).unwrap())
            }
            // Ours alone: the description knows no such name, and so nobody else looks at it.
            "_firedrill_identity.json" => continue,
            other if other.ends_with("_legacy_original.json") => Ok(()),
            other => Err(format!("unknown name {other}")),
        };
        outcome.unwrap_or_else(|words| panic!("{path}: {words}"));
        count += 1;
    }
    for marker in world.durable.markers.iter().flatten() {
        let owner = std::str::from_utf8(marker).unwrap();
        let (set, id) = owner.split_once(':').unwrap();
        uuid(&Value::from(id)).unwrap();
        assert!(set.starts_with("pool_") && marker.len() <= 256);
    }
    count
}

/// Goal: after every single write of a rebuild, a handoff, a rebinding and a failed pass, all that lies there is
/// what the description says.
#[test]
fn everything_that_lies_there_after_any_write_is_as_described() {
    let mut count = 0;
    let mut look = |world: &World| count += read(world);
    let mut world = World::blank(2);
    world
        .begin(|world, step| {
            look(world);
            step == firedrill::protocol::replacement::step::Step::CursorSaved
        })
        .unwrap();
    world.remount(0);
    world
        .live(first(), |world, step| {
            look(world);
            step == firedrill::protocol::replacement::step::Step::MarkerMoved
        })
        .unwrap();
    world.replace(1);
    world.failing.insert("key-4".to_owned());
    let refusal = world
        .live(first(), |world, _| {
            look(world);
            false
        })
        .unwrap_err();
    let failed = firedrill::protocol::replacement::failure::Failure::Pass(refusal);
    let runner =
        firedrill::protocol::replacement::resolve::runner(&world.durable.files, first()).unwrap();
    world.fail(runner, &failed, 0, 9);
    look(&world);
    world.failing.clear();
    world
        .live(first(), |world, _| {
            look(world);
            false
        })
        .unwrap();
    world.assert_over();
    let mut orphans = Orphans::approved();
    orphans
        .import(|world, _| {
            look(world);
            false
        })
        .unwrap();
    orphans.finish();
    look(&orphans.world);
    assert!(count > 300, "only {count} records were read");
}

/// Goal: the reader is strict: a change of one member is noticed.
#[test]
fn the_reader_refuses_what_the_description_refuses() {
    let mut world =
        World::blank(1).until(firedrill::protocol::replacement::step::Step::CursorSaved, 1);
    world.remount(0);
    world.live_until(first(), firedrill::protocol::replacement::step::Step::HandoffCommitted, 1);
    let id = first().to_string();
    let bytes =
        |world: &World, record| world.durable.files.record(record, first()).unwrap().to_vec();
    use firedrill::protocol::replacement::names::Record;
    let text = String::from_utf8(bytes(&world, Record::Intent)).unwrap();
    assert_eq!(intent(&id, text.as_bytes()), Ok(()));
    let changes = [
        ("\"phase\":\"committed\"", "\"phase\":\"prepared\""),
        ("\"phase\":\"committed\"", "\"phase\":\"committed\",\"x\":1"),
        ("\"transaction_id\"", "\"x\":1,\"transaction_id\""),
        ("\"replacement_execution_protocol\":1", "\"replacement_execution_protocol\":0"),
        ("\"max_retries\":3,", ""),
        ("\"completed\":false", "\"completed\":true"),
        ("pool_0_set_2\",\"source", "pool_0_set_3\",\"source"),
    ];
    for (from, to) in changes {
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{from}");
        assert!(intent(&id, changed.as_bytes()).is_err(), "{to} was read");
    }
    let ledger = String::from_utf8(bytes(&world, Record::Checkpoint)).unwrap();
    assert_eq!(checkpoint(&id, ledger.as_bytes()), Ok(()));
    let changed = ledger.replacen("\"successful_objects\":2", "\"successful_objects\":3", 1);
    assert_ne!(changed, ledger);
    assert!(checkpoint(&id, changed.as_bytes()).is_err(), "a ledger that was touched was read");
}
