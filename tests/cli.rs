//! The command line as its users meet it: the built binary, its words and its exit codes.
//!
//! Nothing here builds a cluster: what is refused must be refused before anything is created.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::process::Output;

use tempfile::TempDir;

/// The built binary.
const FIREDRILL: &str = env!("CARGO_BIN_EXE_firedrill");

/// A scenario that makes sense.
const SOUND: &str = "\
format: 1
scenario: sound
claim: It holds.
suite: quick
testbed:
  nodes: 1
  drives: 4
  parity: 2
workload:
  buckets: { plain: unversioned }
  bytes_max: 8388608
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

/// Runs the binary in `folder`.
fn firedrill(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(FIREDRILL);
    command.args(arguments).current_dir(folder).env("NO_COLOR", "1").env("CI", "1");
    for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
        command.env_remove(name);
    }
    command.output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn words(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// A folder with `text` as `objects/s.yaml` in it.
fn folder(text: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("objects")).unwrap();
    fs::write(folder.path().join("objects/s.yaml"), text).unwrap();
    folder
}

/// Goal: a wrong scenario is refused by `check`, `plan` and `run` alike, with exit 64, file, line and
/// column, and nothing appears beside it.
#[test]
fn a_wrong_scenario_is_refused_with_its_place_before_anything_is_created() {
    let aliases = format!("{SOUND}sources: &a [x]\nmore: [{}]\n", "*a, ".repeat(10 << 18));
    let wrong = [
        (SOUND.replace("claim:", "clam:"), "objects/s.yaml:3:1: ", "unknown field `clam`"),
        (SOUND.replace("within_s", "within_ms"), "objects/s.yaml:16:15: ", "within_ms"),
        (
            SOUND.replace("[acknowledged_writes_survive]", "[all_is_well]"),
            "objects/s.yaml:19:11: ",
            "no invariant `all_is_well`",
        ),
        (
            SOUND.replace("parity: 2", "parity: 2\n  parity: 2"),
            "objects/s.yaml:9:3: ",
            "duplicate key `parity`",
        ),
        (
            SOUND.replace("put.meta_renamed", "put.renamed"),
            "objects/s.yaml:14:21: ",
            "no crash point `put.renamed`",
        ),
        (
            SOUND.replace(
                "kill: { node: 0, at: put.meta_renamed }",
                "pull_drive: { node: 0, drives: [7] }",
            ),
            "objects/s.yaml:14:38: ",
            "no drive 0/7",
        ),
        (SOUND.replace("parity: 2", "parity: 3"), "objects/s.yaml:5:1: ", "impossible topology"),
        (aliases, "objects/s.yaml:22:", "bytes long"),
    ];
    for (text, place, message) in &wrong {
        let folder = folder(text);
        for command in [&["check", "objects/s.yaml"][..], &["plan", "objects/s.yaml"]] {
            let output = firedrill(folder.path(), command);
            let words = words(&output);
            assert_eq!(code(&output), 64, "{command:?}: {words}");
            assert!(words.contains(place) && words.contains(message), "{place} {message}: {words}");
        }
        // An ordinary user is told first that a run needs root.
        if nix::unistd::geteuid().is_root() {
            let output = firedrill(folder.path(), &["run", "objects/s.yaml"]);
            assert_eq!(code(&output), 64, "{}", words(&output));
            assert!(words(&output).contains(place), "{}", words(&output));
        }
        let left: Vec<_> = fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "something was created: {left:?}");
    }
}

#[test]
fn a_sound_scenario_makes_sense_and_its_plan_says_what_would_be_done() {
    let folder = folder(SOUND);
    let output = firedrill(folder.path(), &["check", "objects/s.yaml"]);
    assert_eq!(code(&output), 0, "{}", words(&output));
    let output = firedrill(folder.path(), &["plan", "objects/s.yaml"]);
    let words = words(&output);
    assert_eq!(code(&output), 0, "{words}");
    for expected in ["4 image files of 64 MiB", "step 1 kill: nodes 0, at put.meta_renamed"] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
}

#[test]
fn a_plan_is_the_same_for_one_seed_and_another_for_another() {
    let folder = folder(SOUND);
    let plan = |seed: &str| {
        let arguments = ["plan", "objects/s.yaml", "--json", "--seed", seed];
        let output = firedrill(folder.path(), &arguments);
        assert_eq!(code(&output), 0, "{}", words(&output));
        output.stdout
    };
    assert_eq!(plan("5"), plan("5"));
    assert_ne!(plan("5"), plan("6"));
}

#[test]
fn a_folder_of_scenarios_beside_the_caller_wins_over_the_built_in_ones() {
    let folder = tempfile::tempdir().unwrap();
    let built_in = words(&firedrill(folder.path(), &["list"]));
    assert!(built_in.contains("all-nodes-lose-power"), "{built_in}");
    fs::create_dir_all(folder.path().join("scenarios/objects")).unwrap();
    fs::write(folder.path().join("scenarios/objects/sound.yaml"), SOUND).unwrap();
    let own = firedrill(folder.path(), &["list"]);
    assert_eq!(code(&own), 0);
    assert!(words(&own).contains("1 scenarios, 1 cases"), "{}", words(&own));
}

#[test]
fn names_that_match_nothing_and_options_that_do_not_exist_are_usage() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &["plan", "no-such-scenario"][..],
        &["list", "--suite", "daily"],
        &["check", "missing.yaml"],
        &["run", "--nonsense"],
        &["frobnicate"],
    ] {
        let output = firedrill(folder.path(), arguments);
        assert_eq!(code(&output), 64, "{arguments:?}: {}", words(&output));
    }
    for arguments in [&["--help"][..], &["--version"], &["run", "--help"]] {
        assert_eq!(code(&firedrill(folder.path(), arguments)), 0, "{arguments:?}");
    }
}

#[test]
fn commands_that_are_not_built_yet_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let output = firedrill(folder.path(), &["explore", "status", "--anything"]);
    assert_eq!(code(&output), 5, "{}", words(&output));
    assert!(words(&output).contains("not built yet"), "{}", words(&output));
    let output = firedrill(folder.path(), &["replacement", "rehearse"]);
    assert_eq!(code(&output), 64, "{}", words(&output));
}

/// Goal: what would change a catalog is asked for twice, secrets are no arguments, and a mistake is named.
#[test]
fn the_tools_of_the_catalog_refuse_before_they_send_anything() {
    let folder = tempfile::tempdir().unwrap();
    // Nothing listens there: whatever is sent ends otherwise.
    let reach = ["--endpoint", "http://127.0.0.1:1", "--warehouse", "lake"];
    for (tool, more, expected) in [
        ("migrate", &[][..], "--confirm lake"),
        ("cancel", &["--confirm", "sea"], "--confirm lake"),
        ("rehearse", &["--execute"], "--confirm lake"),
        ("rehearse", &["--hook", "materialize=true"], "no command does"),
        ("rehearse", &["--hook", "drain"], "STEP=COMMAND"),
        ("rehearse", &["--done", "materialize"], "by anybody's word"),
        ("rehearse", &["--stop-before", "lunch"], "there is no step"),
        ("rehearse", &["--rehearsal", "picnic"], "is none of"),
        ("rehearse", &["--table", "a.t"], "--table is for"),
        ("preflight", &["--prefix", "/catalog"], "neither /iceberg"),
        ("preflight", &["--service", "sts"], "neither s3"),
        ("status", &[], "there are no credentials"),
    ] {
        let arguments: Vec<_> =
            ["catalog", tool].iter().chain(&reach).chain(more).copied().collect();
        let output = firedrill(folder.path(), &arguments);
        assert_eq!(code(&output), 64, "{arguments:?}: {}", words(&output));
        assert!(words(&output).contains(expected), "{arguments:?}: {}", words(&output));
    }
    let restore = ["catalog", "restore", "--from", "kept", "--selected", "0", "drive"];
    let output = firedrill(folder.path(), &restore);
    assert_eq!(code(&output), 64, "{}", words(&output));
    assert!(words(&output).contains("--stopped-all-writers"), "{}", words(&output));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "something was made");
}

/// Goal: an ordinary user learns what is missing and how to get it, and nothing is created.
#[test]
fn an_ordinary_user_is_told_what_a_run_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(FIREDRILL);
    if nix::unistd::geteuid().is_root() {
        use std::os::unix::process::CommandExt as _;
        // The folder stays root's: whoever writes into it anyway fails the test.
        command.uid(65_534).gid(65_534);
    }
    let output = command.arg("run").current_dir("/").env("NO_COLOR", "1").output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: another user cannot reach the binary ({error})");
            return;
        }
    };
    let words = words(&output);
    assert_eq!(code(&output), 5, "{words}");
    assert!(words.contains("root"), "{words}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_run_that_matches_nothing_ends_with_4() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("scenarios")).unwrap();
    let output = firedrill(folder.path(), &["run"]);
    assert_eq!(code(&output), 4, "{}", words(&output));
    assert!(!folder.path().join("reports").exists());
}

/// Goal: a target runs in a process of its own, and what it says follows from its seed; where it tests refusals only, it
/// fails.
#[test]
fn a_fuzz_target_says_what_became_of_its_cases() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let corpus = package.join("fixtures/fuzz").display().to_string();
    let fuzz = |corpus: &str, more: &[&str]| {
        let arguments = [&["fuzz", "part-meta", "--corpus", corpus][..], more].concat();
        firedrill(folder.path(), &arguments)
    };
    let counts = |output: &Output| {
        let text = words(output);
        let line = text.lines().find(|line| line.contains("part-meta"));
        let line = line.unwrap_or_else(|| panic!("{text}")).to_owned();
        line.split(" decoded").next().unwrap().to_owned()
    };
    let first = fuzz(&corpus, &["--cases", "3000", "--seed", "5"]);
    assert_eq!(code(&first), 0, "{}", words(&first));
    assert!(counts(&first).contains("3000 cases"), "{}", words(&first));
    let again = fuzz(&corpus, &["--cases", "3000", "--seed", "5"]);
    assert_eq!(counts(&first), counts(&again));
    let one = fuzz(&corpus, &["--seed", "5", "--case", "0"]);
    assert_eq!(code(&one), 0, "{}", words(&one));
    assert!(words(&one).contains("it was decoded"), "{}", words(&one));

    let nonsense = folder.path().join("corpus");
    fs::create_dir_all(nonsense.join("part-meta")).unwrap();
    let empty = fuzz(&nonsense.display().to_string(), &["--cases", "10"]);
    assert_eq!(code(&empty), 64, "{}", words(&empty));
    fs::write(nonsense.join("part-meta/nonsense"), "no part of anything").unwrap();
    let refused = fuzz(&nonsense.display().to_string(), &["--cases", "1000"]);
    assert_eq!(code(&refused), 1, "{}", words(&refused));
    assert!(words(&refused).contains("refusals only"), "{}", words(&refused));
    let unknown = firedrill(folder.path(), &["fuzz", "nothing"]);
    assert_eq!(code(&unknown), 64, "{}", words(&unknown));
}

/// Goal: a reader that has seen enough ends nothing; a full disk is told once, and is no success.
#[test]
fn output_that_nobody_takes_is_no_crash_and_output_that_is_lost_is_no_success() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let closed = Command::new(FIREDRILL).arg("list").stdout(writer).output().unwrap();
    assert_eq!((closed.status.code(), closed.stderr.as_slice()), (Some(0), &b""[..]));
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let lost = Command::new(FIREDRILL).arg("list").stdout(full).output().unwrap();
    assert_eq!(lost.status.code(), Some(70));
    let words = String::from_utf8(lost.stderr).unwrap();
    assert_eq!(words.lines().count(), 1, "{words}");
    assert!(words.contains("standard output: No space left on device"), "{words}");
}
