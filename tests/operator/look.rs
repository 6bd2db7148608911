//! `orphans` and `status` on made-up drives.

use std::fs;
use std::fs::File;

use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use serde_json::Value;

use super::drives::Drives;
use super::drives::ENDPOINT;
use super::drives::FOLDER;
use super::drives::ORPHAN;
use super::drives::ORPHANS;
use super::drives::SET;
use super::drives::SUCCESSOR;
use super::drives::intent;

const ORPHANS_JSON: [&str; 4] = ["orphans", "--json", "anchor", "target"];
const STATUS_JSON: [&str; 4] = ["status", "--json", "anchor", "target"];

/// A record of schema 7 by another id, in `phase`.
pub fn record(id: &str, phase: &str, members: &str) -> String {
    ORPHAN.replace(ORPHANS[0], id).replace("\"schema_version\":5", "\"schema_version\":7").replace(
        "\"abandoned\",",
        &format!("\"{phase}\",\"replacement_execution_protocol\":1,{members}"),
    )
}

fn only<'a>(list: &'a Value, key: &str, value: &str) -> &'a Value {
    let found: Vec<_> = list.as_array().unwrap().iter().filter(|item| item[key] == value).collect();
    assert_eq!(found.len(), 1, "{key} {value} in {list}");
    found[0]
}

/// The one generation `id` that `orphans` lists.
fn generation(found: &Value, id: &str) -> Value {
    let sets = found["sets"].as_array().unwrap();
    let all: Value =
        sets.iter().flat_map(|set| set["generations"].as_array().unwrap().clone()).collect();
    only(&all, "generation", id).clone()
}

#[test]
fn orphans_are_listed_by_set_and_slot_with_their_markers() {
    let drives = Drives::orphaned();
    let before = drives.tree();
    let answer = drives.tool(&ORPHANS_JSON);
    assert_eq!((answer.code, &*answer.err), (0, ""));
    let found = answer.json();
    assert_eq!((&found["format"], &found["orphaned"]), (&1.into(), &2.into()));
    let set = &found["sets"][0];
    assert_eq!(set["set_disk_id"], SET);
    assert_eq!(set["slots"][ENDPOINT], serde_json::json!(ORPHANS));
    let first = generation(&found, ORPHANS[0]);
    assert_eq!(first["phase"], "abandoned");
    assert_eq!(first["schema_version"], 5);
    assert_eq!(first["markers"], serde_json::json!(["target"]));
    assert_eq!(first["records"]["anchor"], serde_json::json!([intent(ORPHANS[0])]));
    assert!(first["orphaned"].as_str().unwrap().contains("has to be imported"), "{first}");
    assert_eq!(generation(&found, ORPHANS[1])["markers"], serde_json::json!([]));
    let target = only(&found["drives"], "drive", "target");
    assert_eq!(target["place"], serde_json::json!([2, 1]));
    assert_eq!(target["marker"], format!("{SET}:{}", ORPHANS[0]));

    let words = drives.tool(&["orphans", "anchor", "target"]);
    assert_eq!(words.code, 0);
    for line in [
        &format!("  slot {ENDPOINT}: {}, {}\n", ORPHANS[0], ORPHANS[1]),
        "abandoned in schema 5\n      ORPHANED: a legacy record",
        "      has the marker of target\n",
        "2 generations, 2 orphaned\n",
    ] {
        assert!(words.out.contains(line), "{line} in {}", words.out);
    }
    assert_eq!(drives.tree(), before, "looking has written");
}

#[test]
fn an_approval_says_into_whom_its_sources_are_imported() {
    let drives = Drives::orphaned();
    let target = format!("{ENDPOINT}=target");
    let mut arguments = vec!["prepare-migration", "--anchor", "anchor", "--target", &target];
    arguments.extend(["--source", ORPHANS[0], "--source", ORPHANS[1], "--successor", SUCCESSOR]);
    arguments.extend(["--write", "--stopped-all-writers"]);
    assert_eq!(drives.tool(&arguments).code, 0);
    let found = drives.tool(&ORPHANS_JSON).json();
    let why = generation(&found, ORPHANS[0])["orphaned"].as_str().unwrap().to_owned();
    assert!(why.ends_with(&format!("is approved to be imported into {SUCCESSOR}")), "{why}");
    assert!(generation(&found, SUCCESSOR)["orphaned"].is_null());
}

/// Goal: what nobody goes on with is called orphaned, and what somebody does is not.
#[test]
fn a_generation_is_orphaned_when_nobody_goes_on_with_it() {
    type Damage = fn(&Drives);
    #[rustfmt::skip]
    let rows: &[(&str, Option<&str>, Damage)] = &[
        (SUCCESSOR, None, |it| {
            it.write(&format!("anchor/{}", intent(SUCCESSOR)), &record(SUCCESSOR, "rebuilding", ""));
        }),
        (SUCCESSOR, Some("nobody took its targets over"), |it| {
            it.write(&format!("anchor/{}", intent(SUCCESSOR)), &record(SUCCESSOR, "abandoned", ""));
        }),
        (SUCCESSOR, Some("neither a record nor a proof"), |it| {
            let passed = format!("\"replacement_legacy_successor\":\"{}\",", SUCCESSOR.replace("d0d0", "e0e0"));
            it.write(&format!("anchor/{}", intent(SUCCESSOR)), &record(SUCCESSOR, "abandoned", &passed));
        }),
        (SUCCESSOR, None, |it| {
            let passed = format!("\"replacement_legacy_successor\":\"{}\",", ORPHANS[0]);
            it.write(&format!("anchor/{}", intent(SUCCESSOR)), &record(SUCCESSOR, "abandoned", &passed));
        }),
        (SUCCESSOR, Some("is refused (E7)"), |it| {
            let other = record(SUCCESSOR, "rebuilding", "").replace("_protocol\":1", "_protocol\":9");
            it.write(&format!("anchor/{}", intent(SUCCESSOR)), &other);
        }),
        (SUCCESSOR, Some("on none of these drives"), |it| {
            it.write("target/.rustfs.sys/healing.bin", &format!("{SET}:{SUCCESSOR}"));
        }),
        (ORPHANS[0], Some("does not parse"), |it| {
            it.write(&format!("anchor/{}", intent(ORPHANS[0])), "{\"schema");
            it.write(&format!("anchor/{FOLDER}/{}_ahm_replacement_intent_seal", ORPHANS[0]), "sealed");
        }),
        (ORPHANS[0], None, |it| it.write(&format!("anchor/{}", intent(ORPHANS[0])), "{\"schema")),
    ];
    for (id, expected, damage) in rows {
        let drives = Drives::orphaned();
        damage(&drives);
        let found = drives.tool(&ORPHANS_JSON).json();
        let why = generation(&found, id)["orphaned"].clone();
        match expected {
            None => assert!(why.is_null(), "{why}"),
            Some(words) => assert!(why.as_str().is_some_and(|it| it.contains(words)), "{why}"),
        }
    }
}

#[test]
fn the_status_says_what_stops_a_generation_and_what_may_be_done() {
    let drives = Drives::orphaned();
    let before = drives.tree();
    let answer = drives.tool(&STATUS_JSON);
    assert_eq!((answer.code, &*answer.err), (2, ""), "nothing is known of a legacy record");
    let status = answer.json();
    assert_eq!(status["definitive"], false);
    let keys: Vec<_> = status["records"][0].as_object().unwrap().keys().cloned().collect();
    let mut contract =
        ["taskId", "state", "generation", "setDiskId", "targetSlots", "reason", "verifiedAt"];
    contract.sort_unstable();
    let mut ours = keys.clone();
    ours.sort_unstable();
    assert_eq!(ours, contract);
    assert_eq!(only(&status["records"], "taskId", ORPHANS[0])["state"], "unknown");
    let stop = only(&status["refusals"], "taskId", ORPHANS[0]);
    assert_eq!((&stop["number"], &stop["drive"]), (&"E4".into(), &"anchor".into()));
    assert!(stop["remedy"].as_str().unwrap().contains("prepare-migration"), "{stop}");
    let words = drives.tool(&["status", "anchor", "target"]);
    assert_eq!(words.code, 2);
    assert!(words.out.contains("E4 on anchor: a legacy replacement record"), "{}", words.out);
    assert!(words.out.contains("    what to do: stop all writers and import it"), "{}", words.out);
    assert_eq!(drives.tree(), before, "looking has written");
}

/// Goal: by the drives alone nothing runs; each other state is told, and the refusal that belongs to it.
#[test]
fn each_state_is_told_and_running_never() {
    let exhausted = |text: String| text.replace("\"retry_count\":0", "\"retry_count\":3");
    let failed = |text: String| text.replace("\"error_message\":null", "\"error_message\":\"EIO\"");
    #[rustfmt::skip]
    let rows = [
        (record(SUCCESSOR, "intent", ""), "waiting_for_replacement", None),
        (record(SUCCESSOR, "rebuilding", ""), "unknown", None),
        (failed(record(SUCCESSOR, "rebuilding", "")), "incomplete", None),
        (exhausted(record(SUCCESSOR, "rebuilding", "")), "unrecoverable", Some("E44")),
        (record(SUCCESSOR, "verified", "").replace("\"completed\":false", "\"completed\":true"), "cleanup_pending", None),
        (record(SUCCESSOR, "abandoned", ""), "unrecoverable", Some("3.1")),
        (record(SUCCESSOR, "rebuilding", "").replace("_protocol\":1", "_protocol\":2"), "unknown", Some("E7")),
    ];
    for (text, state, number) in rows {
        let drives = Drives::orphaned();
        fs::remove_dir_all(drives.at("anchor").join(FOLDER)).unwrap();
        fs::remove_file(drives.at("target/.rustfs.sys/healing.bin")).unwrap();
        drives.write(&format!("anchor/{}", intent(SUCCESSOR)), &text);
        let answer = drives.tool(&STATUS_JSON);
        let status = answer.json();
        assert_eq!(status["records"][0]["state"], state, "{status}");
        assert_eq!(status["definitive"], state != "unknown", "{status}");
        assert_eq!(answer.code, if state == "unknown" { 2 } else { 0 });
        let numbers: Vec<_> =
            status["refusals"].as_array().unwrap().iter().map(|it| it["number"].as_str()).collect();
        assert_eq!(numbers, number.into_iter().map(Some).collect::<Vec<_>>(), "{status}");
    }
}

#[test]
fn markers_that_no_record_explains_and_copies_that_differ_are_told() {
    let drives = Drives::orphaned();
    drives.write("target/.rustfs.sys/healing.bin", &format!("{SET}:{SUCCESSOR}"));
    let status = drives.tool(&STATUS_JSON).json();
    let stop = only(&status["refusals"], "number", "Q9");
    assert_eq!((&stop["drive"], &stop["taskId"]), (&"target".into(), &SUCCESSOR.into()));
    fs::write(drives.at("target/.rustfs.sys/healing.bin"), [0xff; 300]).unwrap();
    let status = drives.tool(&STATUS_JSON).json();
    only(&status["refusals"], "number", "E27");

    let text = record(SUCCESSOR, "rebuilding", "");
    drives.write(&format!("anchor/{}", intent(SUCCESSOR)), &text);
    let other = text.replace("\"invoices\"", "\"others\"");
    drives.write(&format!("target/{}", intent(SUCCESSOR)), &other);
    let status = drives.tool(&STATUS_JSON).json();
    only(&status["refusals"], "number", "E50");
    assert_eq!(only(&status["records"], "taskId", SUCCESSOR)["state"], "unknown");
}

#[test]
fn drives_in_use_and_places_that_are_no_drives_are_refused() {
    let drives = Drives::orphaned();
    for tool in ["status", "orphans"] {
        let answer = drives.tool(&[tool, "nowhere"]);
        assert_eq!(answer.code, 64);
        assert!(answer.err.contains("nowhere is not a directory"), "{}", answer.err);
        let file = File::create(drives.at("anchor/.rustfs.sys/lease")).unwrap();
        let _lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).unwrap();
        let answer = drives.tool(&[tool, "anchor", "target"]);
        assert_eq!(answer.code, 64);
        assert!(answer.err.contains("somebody holds the lease of anchor"), "{}", answer.err);
    }
}

#[test]
fn what_cannot_be_read_is_told_and_leaves_the_answer_open() {
    let drives = Drives::orphaned();
    let marker = drives.at("target/.rustfs.sys/healing.bin");
    fs::remove_file(&marker).unwrap();
    fs::create_dir(&marker).unwrap();
    let answer = drives.tool(&ORPHANS_JSON);
    assert_eq!(answer.code, 2);
    let problem = only(&answer.json()["drives"], "drive", "target")["problems"][0].clone();
    assert_eq!(problem, ".rustfs.sys/healing.bin: not a regular file");
}
