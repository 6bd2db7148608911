//! `prepare-migration`.

use std::collections::BTreeSet;
use std::fs;
use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::fs::symlink;

use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use serde_json::Value;

use super::drives::Answer;
use super::drives::Drives;
use super::drives::ENDPOINT;
use super::drives::FOLDER;
use super::drives::ORPHANS;
use super::drives::SUCCESSOR;
use super::drives::intent;

/// The approval of the specification, section 2.7.
const APPROVAL: &str = r#"{"schema_version":1,"successor":"d0d0c0c0-b0b0-4a0a-9090-808070706099","set_disk_id":"pool_0_set_2","targets":["http://node-b.example:9000/srv/drive3"],"expected_markers":["pool_0_set_2:11aa22bb-33cc-44dd-95ee-66ff77008801"],"sources":[{"task_id":"11aa22bb-33cc-44dd-95ee-66ff77008801","sha256":[110,225,225,65,220,25,226,200,83,98,144,14,12,87,229,88,62,137,53,138,140,79,182,39,32,161,69,205,57,210,184,213]},{"task_id":"11aa22bb-33cc-44dd-95ee-66ff77008802","sha256":[37,88,171,37,77,189,211,96,236,126,176,82,3,188,172,26,24,151,173,4,133,203,200,70,78,250,135,167,200,7,37,137]}],"maintenance_assertion":"all-writers-stopped-before-upgrade"}"#;
/// The approval's members in the order that they are printed in.
const MEMBERS: [&str; 7] = [
    "schema_version",
    "successor",
    "set_disk_id",
    "targets",
    "expected_markers",
    "sources",
    "maintenance_assertion",
];
const MARKER: &str = "target/.rustfs.sys/healing.bin";
const WRITE: [&str; 2] = ["--write", "--stopped-all-writers"];

/// The arguments of the example.
fn arguments() -> Vec<String> {
    let mut arguments: Vec<_> =
        ["prepare-migration", "--anchor", "anchor"].map(str::to_owned).into();
    for source in ORPHANS {
        arguments.extend(["--source".to_owned(), source.to_owned()]);
    }
    arguments.extend(["--target".to_owned(), format!("{ENDPOINT}=target")]);
    arguments.extend(["--successor".to_owned(), SUCCESSOR.to_owned()]);
    arguments
}

fn run(drives: &Drives, arguments: &[String], more: &[&str]) -> Answer {
    let arguments: Vec<_> = arguments.iter().map(String::as_str).chain(more.to_vec()).collect();
    drives.tool(&arguments)
}

fn approval_path() -> String {
    format!("{FOLDER}/{SUCCESSOR}_legacy_replacement_approval.json")
}

#[test]
fn a_dry_run_prints_the_approval_of_the_example_and_touches_nothing() {
    let drives = Drives::orphaned();
    let before = drives.tree();
    for more in [&[][..], &["--stopped-all-writers"]] {
        let answer = run(&drives, &arguments(), more);
        assert_eq!((answer.code, &*answer.err), (0, ""));
        let (ours, expected) = (answer.json(), serde_json::from_str::<Value>(APPROVAL).unwrap());
        for member in MEMBERS {
            assert_eq!(ours[member], expected[member], "{member}");
        }
        assert_eq!(ours.as_object().unwrap().len(), MEMBERS.len(), "another member");
        let places = MEMBERS.map(|member| answer.out.find(&format!("\n  \"{member}\": ")).unwrap());
        assert!(places.is_sorted(), "another order: {}", answer.out);
        assert!(answer.out.starts_with("{\n  \"") && answer.out.ends_with("\"\n}\n"));
    }
    assert_eq!(drives.tree(), before, "a dry run has written");
}

#[test]
fn a_write_publishes_what_was_proposed_and_nothing_else() {
    let drives = Drives::orphaned();
    let proposed = run(&drives, &arguments(), &[]).out;
    let before = drives.tree();
    let answer = run(&drives, &arguments(), &WRITE);
    assert_eq!((answer.code, &*answer.err), (0, ""));
    let path = drives.at("anchor").canonicalize().unwrap().join(approval_path());
    assert_eq!(answer.out, format!("{}\n", path.display()));
    assert_eq!(fs::read_to_string(&path).unwrap(), proposed);
    let facts = path.metadata().unwrap();
    assert_eq!(facts.permissions().mode() & 0o777, 0o600);
    let mut after = drives.tree();
    assert!(after.remove(&drives.at("anchor").join(approval_path())).is_some());
    // The folder has another time: a name was added to it.
    let folder = drives.at("anchor").join(FOLDER);
    let times = [before[&folder].2, before[&folder].3];
    let entry = after.get_mut(&folder).unwrap();
    (entry.2, entry.3) = (times[0], times[1]);
    assert_eq!(after, before, "more than the approval was written");
}

/// Goal: the node reads the approval as whoever owns the records.
#[test]
fn the_approval_belongs_to_the_owner_of_its_folder() {
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: needs root");
        return;
    }
    let drives = Drives::orphaned();
    std::os::unix::fs::chown(drives.at("anchor").join(FOLDER), Some(1234), Some(4321)).unwrap();
    assert_eq!(run(&drives, &arguments(), &WRITE).code, 0);
    let path = drives.at("anchor").join(approval_path());
    let (_, owner, ..) = drives.tree()[&path];
    assert_eq!(owner, 1234);
}

/// One damage of drives or arguments, and the number of its refusal.
type Damage = fn(&Drives, &mut Vec<String>);

fn set(arguments: &mut [String], after: &str, to: &str) {
    let place = arguments.iter().position(|it| it == after).unwrap();
    arguments[place + 1] = to.to_owned();
}

fn drop_both(arguments: &mut Vec<String>, option: &str) {
    while let Some(place) = arguments.iter().position(|it| it == option) {
        arguments.drain(place..place + 2);
    }
}

fn add(arguments: &mut Vec<String>, option: &str, value: &str) {
    arguments.extend([option.to_owned(), value.to_owned()]);
}

fn anchor(path: &str) -> String {
    format!("anchor/{path}")
}

fn relink(drives: &Drives, path: &str) {
    let (path, aside) = (drives.at(path), drives.at("aside"));
    fs::rename(&path, &aside).unwrap();
    symlink(&aside, &path).unwrap();
}

/// Every refusal of the specification's section 8.3, and the words that tell it from the others.
#[rustfmt::skip]
const REFUSALS: &[(&str, &str, Damage)] = &[
    ("P1", "--anchor is missing", |_, it| drop_both(it, "--anchor")),
    ("P1", "--source is missing", |_, it| drop_both(it, "--source")),
    ("P1", "--target is missing", |_, it| drop_both(it, "--target")),
    ("P1", "--successor is missing", |_, it| drop_both(it, "--successor")),
    ("P2", "is not ENDPOINT=DIR", |_, it| set(it, "--target", "target")),
    ("P2", "is not ENDPOINT=DIR", |_, it| set(it, "--target", "=target")),
    ("P2", "is not ENDPOINT=DIR", |_, it| set(it, "--target", &format!("{ENDPOINT}="))),
    ("P3", "is given twice", |_, it| add(it, "--target", &format!("{ENDPOINT}=anchor"))),
    ("P4", "nowhere is not a directory", |_, it| set(it, "--anchor", "nowhere")),
    ("P4", "nowhere is not a directory", |_, it| set(it, "--target", &format!("{ENDPOINT}=nowhere"))),
    ("P4", "mount the drive", |drives, it| {
        drives.write("drive.img", "an image");
        set(it, "--target", &format!("{ENDPOINT}=drive.img"));
    }),
    ("P5", "is not a directory of its own", |drives, _| relink(drives, "anchor/.rustfs.sys")),
    ("P5", "is not a directory of its own", |drives, _| relink(drives, "anchor/.rustfs.sys/buckets")),
    ("P5", "is not a directory of its own", |drives, _| relink(drives, &anchor(FOLDER))),
    ("P5", "is not a directory of its own", |drives, _| {
        fs::remove_dir_all(drives.at("anchor/.rustfs.sys")).unwrap();
        drives.write("anchor/.rustfs.sys", "a file");
    }),
    ("P6", "not the canonical spelling", |_, it| set(it, "--successor", &SUCCESSOR.to_uppercase())),
    ("P6", "is not a UUID", |_, it| set(it, "--source", "../../intent")),
    ("P7", "each has to be another", |_, it| add(it, "--source", ORPHANS[0])),
    ("P7", "33 sources", |_, it| {
        for number in 0..31 {
            add(it, "--source", &format!("00000000-0000-4000-8000-0000000000{number:02}"));
        }
    }),
    ("P8", "is one of the sources", |_, it| set(it, "--successor", ORPHANS[0])),
    ("P9", "is not a regular file", |drives, _| {
        fs::remove_file(drives.at(&anchor(&intent(ORPHANS[1])))).unwrap();
    }),
    ("P9", "is not a regular file", |drives, _| relink(drives, &anchor(&intent(ORPHANS[1])))),
    ("P9", "is not a regular file", |drives, _| {
        let path = drives.at(&anchor(&intent(ORPHANS[1])));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
    }),
    ("P10", "is not JSON", |drives, _| drives.write(&anchor(&intent(ORPHANS[0])), "{\"schema")),
    ("P11", "schema Some(7)", |drives, _| {
        drives.edit(&anchor(&intent(ORPHANS[0])), "\"schema_version\":5", "\"schema_version\":7");
    }),
    ("P11", "schema Some(4)", |drives, _| {
        drives.edit(&anchor(&intent(ORPHANS[0])), "\"schema_version\":5", "\"schema_version\":4");
    }),
    ("P11", "is of schema", |drives, _| {
        let (task, other) = (format!("\"task_id\":\"{}", ORPHANS[0]), format!("\"task_id\":\"{}", ORPHANS[1]));
        drives.edit(&anchor(&intent(ORPHANS[0])), &task, &other);
    }),
    ("P11", "with 0 targets", |drives, _| {
        drives.edit(&anchor(&intent(ORPHANS[0])), &format!("_targets\":[\"{ENDPOINT}\"]"), "_targets\":[]");
    }),
    ("P11", "invalid type", |drives, _| drives.write(&anchor(&intent(ORPHANS[0])), "7")),
    ("P12", "has the targets", |_, it| set(it, "--target", "http://node-b.example:9000/srv/drive4=target")),
    ("P12", "has the targets", |_, it| add(it, "--target", "http://another=target")),
    ("P12", "has the targets", |drives, it| {
        let (one, two) = (format!("_targets\":[\"{ENDPOINT}\"]"), format!("_targets\":[\"{ENDPOINT}\",\"http://a\"]"));
        drives.edit(&anchor(&intent(ORPHANS[0])), &one, &two);
        add(it, "--target", "http://a=target");
    }),
    ("P13", "of pool_0_set_3, not", |drives, _| {
        drives.edit(&anchor(&intent(ORPHANS[1])), "pool_0_set_2", "pool_0_set_3");
    }),
    ("P13", "drive4", |drives, _| {
        drives.edit(&anchor(&intent(ORPHANS[1])), "drive3\"]", "drive4\"]");
    }),
    ("P14", "names no set", |drives, _| {
        drives.edit(&anchor(&intent(ORPHANS[0])), "\"set_disk_id\"", "\"set_disk\"");
    }),
    ("P14", "does not name a set", |drives, _| {
        for orphan in ORPHANS {
            drives.edit(&anchor(&intent(orphan)), "pool_0_set_2", "the third");
        }
    }),
    ("P15", ".rustfs.sys is a symbolic link", |drives, _| relink(drives, "target/.rustfs.sys")),
    ("P15", "healing.bin is a symbolic link", |drives, _| relink(drives, MARKER)),
    ("P16", "is not UTF-8", |drives, _| fs::write(drives.at(MARKER), [0xff]).unwrap()),
    ("P17", "none of the sources", |drives, _| drives.edit(MARKER, ORPHANS[0], SUCCESSOR)),
    ("P17", "none of the sources", |drives, _| drives.edit(MARKER, "8801", "8801\n")),
    ("P17", "none of the sources", |drives, _| drives.edit(MARKER, "set_2", "set_3")),
    ("P18", "--write needs --stopped-all-writers", |_, it| it.push("--write".to_owned())),
    ("P19", "is there already", |drives, it| {
        drives.write(&anchor(&approval_path()), "another approval");
        it.extend(WRITE.map(str::to_owned));
    }),
    ("P19", "is there already", |drives, it| {
        assert_eq!(run(drives, it, &WRITE).code, 0);
        it.extend(WRITE.map(str::to_owned));
    }),
    ("P20", "healing.bin is not a file", |drives, _| {
        fs::remove_file(drives.at(MARKER)).unwrap();
        fs::create_dir(drives.at(MARKER)).unwrap();
    }),
    ("P20", "name too long", |_, it| set(it, "--anchor", &"a".repeat(300))),
    ("P20", "lock", |drives, it| {
        symlink("aside", drives.at("target/.rustfs-replacement.lock")).unwrap();
        it.extend(WRITE.map(str::to_owned));
    }),
];

#[test]
fn every_refusal_has_its_number_and_words_and_leaves_every_byte() {
    let mut seen = BTreeSet::new();
    for (number, words, damage) in REFUSALS {
        let (drives, mut arguments) = (Drives::orphaned(), arguments());
        damage(&drives, &mut arguments);
        let before = drives.tree();
        let answer = run(&drives, &arguments, &[]);
        assert_eq!(answer.code, 64, "{number}: {}{}", answer.out, answer.err);
        let start = format!("firedrill replacement prepare-migration: {number}: ");
        assert!(answer.err.starts_with(&start), "{number}: {}", answer.err);
        let complaint = answer.err.to_lowercase();
        assert!(complaint.contains(&words.to_lowercase()), "{number} {words}: {}", answer.err);
        assert_eq!((&*answer.out, answer.err.lines().count()), ("", 1), "{number}");
        assert_eq!(drives.tree(), before, "{number} has written");
        seen.insert((*number).to_owned());
    }
    let all: BTreeSet<_> = (1..=20).map(|number| format!("P{number}")).collect();
    assert_eq!(seen, all, "a refusal is not tried");
}

/// Goal: as long as anybody has the anchor or a target, in either way, nothing is published; and afterwards it is.
#[test]
fn nothing_is_published_while_a_lease_is_held() {
    for drive in ["anchor", "target"] {
        for lease in [".rustfs-replacement.lock", ".rustfs.sys/lease"] {
            let drives = Drives::orphaned();
            let path = drives.at(drive).join(lease);
            let file = File::create(&path).unwrap();
            let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).unwrap();
            let before = drives.tree();
            let answer = run(&drives, &arguments(), &WRITE);
            assert_eq!(answer.code, 64, "{}", answer.err);
            assert!(answer.err.contains("P21: somebody holds the lease of"), "{}", answer.err);
            assert!(answer.err.contains(drive), "{}", answer.err);
            assert_eq!(run(&drives, &arguments(), &[]).code, 0, "a dry run asks for no lease");
            assert_eq!(drives.tree(), before, "a refusal has written");
            drop(lock);
            assert_eq!(run(&drives, &arguments(), &WRITE).code, 0);
            assert!(path.exists(), "a lease's file was removed");
        }
    }
}

#[test]
fn a_marker_that_is_absent_is_expected_to_stay_absent() {
    let drives = Drives::orphaned();
    fs::remove_dir_all(drives.at("target/.rustfs.sys")).unwrap();
    let answer = run(&drives, &arguments(), &[]);
    assert_eq!(answer.json()["expected_markers"], serde_json::json!([null]), "{}", answer.err);
}

/// Goal: many at once with other sources: one approval, whole, and every other tool is refused.
#[test]
fn of_many_that_publish_at_once_one_wins() {
    let drives = Drives::orphaned();
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..8)
            .map(|number| {
                let mut arguments = arguments();
                if number % 2 == 1 {
                    arguments.drain(5..7);
                }
                let drives = &drives;
                scope.spawn(move || run(drives, &arguments, &WRITE))
            })
            .collect();
        running.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let winners = answers.iter().filter(|answer| answer.code == 0).count();
    assert!(winners >= 1, "nobody published");
    for answer in answers.iter().filter(|answer| answer.code != 0) {
        assert!(answer.code == 64 && answer.err.contains("P19: "), "{}", answer.err);
    }
    let names: Vec<_> = fs::read_dir(drives.at("anchor").join(FOLDER)).unwrap().collect();
    assert_eq!(names.len(), 3, "two intents and one approval: {names:?}");
}
