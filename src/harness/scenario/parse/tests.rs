//! Scenarios that are wrong, each in one way, and where the error says so.

use super::*;

/// A scenario that makes sense.
const SOUND: &str = "\
format: 1
scenario: sound
claim: It holds.
suite: quick
testbed:
  nodes: 3
  drives: 4
  parity: 4
workload:
  buckets: { plain: unversioned }
steps:
  - load: { operations: 10 }
  - inject: { kill: { node: 0, at: put.meta_renamed } }
  - load: { operations: 10 }
  - settle: { within_s: 10 }
  - check: {}
expect:
  holds: [acknowledged_writes_survive]
  provokes: { crash_points_reached: 1 }
";

/// What is wrong with `text`, a line each.
fn wrong(text: &str) -> Vec<String> {
    match parse("s.yaml", "objects", text) {
        Ok(scenario) => panic!("{} was accepted", scenario.name),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

/// What is wrong with the sound scenario after `from` became `to`: one error, at this place.
#[track_caller]
fn refused(from: &str, to: &str, place: &str, words: &str) {
    assert!(SOUND.contains(from), "{from}");
    let errors = wrong(&SOUND.replacen(from, to, 1));
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].starts_with(&format!("s.yaml:{place}: ")), "{}", errors[0]);
    assert!(errors[0].contains(words), "{}", errors[0]);
}

#[test]
fn the_sound_scenario_is_accepted() {
    let scenario = parse("s.yaml", "objects", SOUND).unwrap();
    assert_eq!(scenario.cases.len(), 1);
    assert_eq!(scenario.cases[0].name, "sound");
}

#[test]
fn words_that_do_not_exist_are_refused_where_they_stand() {
    refused("claim:", "clam:", "3:1", "unknown field `clam`");
    refused("within_s: 10", "within_ms: 10", "15:15", "unknown field `within_ms`");
    refused(
        "[acknowledged_writes_survive]",
        "[all_is_well]",
        "18:11",
        "no invariant `all_is_well`",
    );
    refused("at: put.meta_renamed", "at: put.meta", "13:21", "no crash point `put.meta`");
    refused("kill:", "kil:", "13:15", "unknown variant `kil`");
    refused("suite: quick", "suite: quick\nsuite: quick", "5:1", "duplicate key `suite`");
    refused("crash_points_reached: 1", "crashes: 1", "19:15", "unknown variant `crashes`");
}

#[test]
fn what_does_not_exist_is_refused_where_it_is_named() {
    refused("node: 0", "node: 3", "13:15", "there is no node 3");
    let pulled = "pull_drive: { node: 0, drives: [4] }";
    let fault = "kill: { node: 0, at: put.meta_renamed }";
    refused(fault, pulled, "13:38", "there is no drive 0/4");
    refused("drives: 4", "drives: 9", "5:1", "state `set_drives`");
    refused("parity: 4", "parity: 7", "5:1", "impossible topology");
}

#[test]
fn a_tool_that_cannot_be_used_so_is_refused_where_it_stands() {
    let settle = "  - settle: { within_s: 10 }";
    let refuse = |step: &str, place: &str, message: &str| {
        refused(settle, &format!("  - operator: {{ {step} }}\n{settle}"), place, message);
    };
    refuse("tool: repair, node: 0", "15:23", "unknown variant `repair`");
    refuse("tool: backup, node: 3", "15:31", "there is no node 3");
    refuse("tool: backup, node: 0, set: 1", "15:40", "there is no set 1");
    refuse("tool: backup, node: 0, write: true", "15:40", "writes on no drive");
    refuse("tool: backup, node: 0, misuse: no_anchor, refused: P1", "15:40", "cannot be used so");
    let rearm = "tool: rearm, node: 0, misuse: not_asserted, refused: not_asserted";
    refuse(rearm, "15:39", "unless `write: true`");
    refuse("tool: rearm, node: 0, misuse: source_not_an_id", "15:5", "state by what");
    refuse("tool: backup, node: 0, refused: P22", "15:40", "no tool is ever refused by `P22`");
}

#[test]
fn a_scenario_that_proves_nothing_is_refused() {
    refused("{ crash_points_reached: 1 }", "{ crash_points_reached: 0 }", "19:15", "doing nothing");
    refused("  - settle: { within_s: 10 }\n", "", "11:1", "before `check` is `settle`");
    let stop = "stop: { node: 0 }";
    refused("check: {}", stop, "11:1", "last step is `check: {}`");
    refused("testbed:", "testbed:\n  defects: [skips_directory_sync]", "6:3", "canary");
    refused("at: put.meta_renamed", "nth: 2", "13:32", "state `at`");
    refused("at: put.meta_renamed", "at: put.meta_renamed, after_ms: 5", "13:15", "one trigger");
}

#[test]
fn steps_and_faults_of_recoveries_are_refused_where_they_make_no_sense() {
    let heal = "  - check: {}";
    let step = |text: &str| format!("  - {text}\n  - settle: {{ within_s: 10 }}\n{heal}");
    let asked = |text: &str, place: &str, words: &str| refused(heal, &step(text), place, words);
    asked("await: { node: 0, told: E99, within_s: 5 }", "16:23", "neither a refusal nor an alarm");
    asked("start: { node: 0, refuses: E99 }", "16:23", "neither a refusal nor an alarm");
    asked("await: { node: 3, told: E9, within_s: 5 }", "16:14", "no node 3");
    asked("await: { node: 0, told: E9, within_s: 0 }", "16:33", "within 0 seconds");
    asked("await: { node: 0, told: E9, in_s: 5 }", "16:33", "unknown field `in_s`");
    asked("inject: { hold: { node: 0 } }", "16:15", "state `at`");
    asked("inject: { tamper_record: { node: 0, into: E28, live: true } }", "16:15", "state `at`");
    asked("inject: { tamper_record: { node: 0, into: E4 } }", "16:47", "unknown variant `E4`");
    asked("inject: { pause: { node: 0, for_ms: 5, on_node: 1 } }", "16:44", "state `at`");
    asked("create_bucket: { bucket: other }", "16:22", "no bucket `other`");
    asked("delete_bucket: { bucket: other }", "16:22", "no bucket `other`");
    let load = "delete_bucket: { bucket: plain }\n  - load: { operations: 1 }";
    asked(load, "17:5", "bucket `plain` is not there");
    let twice = "delete_bucket: { bucket: plain }\n  - delete_bucket: { bucket: plain }";
    asked(twice, "17:22", "is not there");
}

/// Goal: what was acknowledged while a node was away, plus what is destroyed then, must leave enough
/// to read, unless a settle stands between them or the scenario asks for it.
#[test]
fn destruction_beyond_tolerance_is_refused_unless_it_is_meant() {
    let fault = "  - inject: { kill: { node: 0, at: put.meta_renamed } }\n";
    let away = format!("{fault}  - inject: {{ replace_drive: {{ node: 1, drives: [0] }} }}\n");
    refused(fault, &away, "14:5", "beyond_tolerance");
    let settled = format!(
        "{fault}  - settle: {{ within_s: 5 }}\n  - inject: {{ replace_drive: {{ node: 1, drives: [0] }} }}\n"
    );
    assert!(parse("s.yaml", "objects", &SOUND.replacen(fault, &settled, 1)).is_ok());
    let meant =
        SOUND.replacen(fault, &away, 1).replacen("suite:", "beyond_tolerance: true\nsuite:", 1);
    assert!(parse("s.yaml", "objects", &meant).is_ok());
}

#[test]
fn cases_are_made_of_values_and_of_crash_points() {
    let cases = "cases:\n  crash_points: put.*\nsteps:";
    let text = SOUND.replacen("steps:", cases, 1).replacen("put.meta_renamed", "$case", 1);
    let scenario = parse("s.yaml", "objects", &text).unwrap();
    assert_eq!(scenario.cases.len(), matching("put.*").len());
    assert_eq!(scenario.cases[0].name, "sound[put.shards_staged]");
    let nothing = text.replacen("put.*", "putt.*", 1);
    assert_eq!(wrong(&nothing), ["s.yaml:11:1: no crash point matches `putt.*`"]);
    let same = SOUND.replacen("steps:", cases, 1);
    assert!(wrong(&same)[0].contains("`$case` stands nowhere"));
}

#[test]
fn rotating_cases_are_drawn_from_the_seed_and_all_taken_at_night() {
    let cases = "cases:\n  crash_points: put.*\ncover: rotate 2\nsteps:";
    let text = SOUND.replacen("steps:", cases, 1).replacen("put.meta_renamed", "$case", 1);
    let scenario = parse("s.yaml", "objects", &text).unwrap();
    let names = |suite, seed| {
        let covered = scenario.covered(suite, Seed(seed)).into_iter();
        covered.map(|case| case.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(Suite::Quick, 1).len(), 2);
    assert_eq!(names(Suite::Quick, 1), names(Suite::Quick, 1));
    assert!((2..40).any(|seed| names(Suite::Quick, seed) != names(Suite::Quick, 1)));
    assert_eq!(names(Suite::Nightly, 1).len(), scenario.cases.len());
}

#[test]
fn an_error_of_every_case_is_told_once() {
    let cases = "cases:\n  values: [a, b]\nsteps:";
    let text = SOUND
        .replacen("steps:", cases, 1)
        .replacen("claim: It holds.", "claim: $case", 1)
        .replacen("node: 0", "node: 7", 1);
    let errors = wrong(&text);
    assert_eq!(errors.len(), 1, "{errors:?}");
}
