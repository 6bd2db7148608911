//! `rearm`.

use std::fs;
use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::fs::chown;

use firedrill::protocol::replacement::checkpoint::Checkpoint;
use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use serde_json::Value;

use super::drives::Drives;
use super::drives::FOLDER;
use super::drives::ORPHANS;
use super::drives::SUCCESSOR;
use super::drives::intent;
use super::look::record;

const REARM: [&str; 5] = ["rearm", "--anchor", "anchor", "--generation", SUCCESSOR];
const WRITE: [&str; 2] = ["--write", "--stopped-all-writers"];

/// Drives with a generation that has failed three times.
fn exhausted() -> Drives {
    let drives = Drives::orphaned();
    let text = record(SUCCESSOR, "rebuilding", "\"replacement_revision\":8,")
        .replace("\"retry_count\":0", "\"retry_count\":3")
        .replace("\"error_message\":null", "\"error_message\":\"EIO\"")
        .replace("\"processed_objects\":0", "\"processed_objects\":7");
    drives.write(&format!("anchor/{}", intent(SUCCESSOR)), &text);
    drives
}

fn arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
    REARM.into_iter().chain(more.to_vec()).collect()
}

#[test]
fn a_dry_run_says_what_would_be_written_and_touches_nothing() {
    let drives = exhausted();
    let before = drives.tree();
    let answer = drives.tool(&REARM);
    assert_eq!((answer.code, &*answer.err), (0, ""));
    assert!(answer.out.starts_with("nothing was written"), "{}", answer.out);
    assert!(answer.out.contains(&intent(SUCCESSOR)), "{}", answer.out);
    assert_eq!(drives.tree(), before, "a dry run has written");
}

/// Goal: the record has its whole budget and begins anew, one revision further; nothing else changes, and who may
/// read it may still.
#[test]
fn an_exhausted_generation_has_its_budget_again() {
    let drives = exhausted();
    let path = drives.at("anchor").join(intent(SUCCESSOR));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let is_root = nix::unistd::geteuid().is_root();
    if is_root {
        chown(drives.at("anchor").join(FOLDER), Some(1234), None).unwrap();
        chown(&path, Some(1234), None).unwrap();
    }
    let status = drives.tool(&["status", "--json", "anchor", "target"]).json();
    assert!(status["refusals"].to_string().contains("\"E44\""), "{status}");
    let before = drives.tree();
    let answer = drives.tool(&arguments(&WRITE));
    assert_eq!((answer.code, &*answer.err), (0, ""));
    assert!(answer.out.contains("(replacement.failure.rearmed)"), "{}", answer.out);
    let saved: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    assert_eq!(saved["replacement_revision"], 9);
    assert_eq!((&saved["retry_count"], &saved["processed_objects"]), (&0.into(), &0.into()));
    assert!(saved["error_message"].is_null());
    let after = drives.tree();
    assert_eq!(after[&path].0, before[&path].0, "other permissions");
    assert_eq!(after[&path].1, before[&path].1, "another owner");
    let lock = &after[&drives.at("anchor").join(FOLDER).join(".rustfs-cas.lock")];
    assert!(!is_root || lock.1 == 1234, "the node cannot take the lock");
    for (other, facts) in &after {
        let is_lock = other.ends_with(".rustfs-cas.lock");
        assert!(
            is_lock || *other == path || before[other].4 == facts.4,
            "{} was written",
            other.display()
        );
    }
    assert_eq!(after.len(), before.len() + 1, "more than the lock of the folder was made");
    let status = drives.tool(&["status", "--json", "anchor", "target"]).json();
    assert!(!status["refusals"].to_string().contains("\"E44\""), "{status}");
    let again = drives.tool(&arguments(&WRITE));
    assert_eq!((again.code, &*again.out), (0, "its budget is not exhausted: nothing to do\n"));
}

#[test]
fn what_may_not_be_rearmed_stays_as_it_is() {
    type Damage = fn(&Drives, &mut Vec<&str>);
    #[rustfmt::skip]
    let rows: &[(&str, Damage)] = &[
        ("--write needs --stopped-all-writers", |_, it| it.truncate(6)),
        ("is not a UUID", |_, it| it[4] = "x"),
        ("E4: a legacy replacement record", |_, it| it[4] = ORPHANS[0]),
        ("E64: ", |_, it| it[4] = "00000000-0000-4000-8000-000000000000"),
        ("is not a directory", |_, it| it[2] = "nowhere"),
        ("cannot be read whole", |drives, _| {
            fs::remove_file(drives.at("anchor/.rustfs.sys/format.json")).unwrap();
            fs::create_dir(drives.at("anchor/.rustfs.sys/format.json")).unwrap();
        }),
    ];
    for (words, damage) in rows {
        let (drives, mut arguments) = (exhausted(), arguments(&WRITE));
        damage(&drives, &mut arguments);
        let before = drives.tree();
        let answer = drives.tool(&arguments);
        assert_eq!(answer.code, 64, "{words}: {}{}", answer.out, answer.err);
        assert!(answer.err.contains(words), "{words}: {}", answer.err);
        assert_eq!(drives.tree(), before, "{words}: a refusal has written");
    }
    for lock in [".rustfs-replacement.lock", ".rustfs.sys/buckets/ahm-replacement/.rustfs-cas.lock"]
    {
        let drives = exhausted();
        let file = File::create(drives.at("anchor").join(lock)).unwrap();
        let _lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).unwrap();
        let before = drives.tree();
        let answer = drives.tool(&arguments(&WRITE));
        assert_eq!(answer.code, 64, "{lock}: {}", answer.err);
        assert_eq!(drives.tree(), before, "{lock}: a refusal has written");
    }
}

/// Goal: the ledger is set back before the record; with the second write made impossible the tool says that it was
/// begun, and run again it goes on.
#[test]
fn a_ledger_is_set_back_first_and_what_was_begun_is_finished() {
    let drives = exhausted();
    let mut ledger = Checkpoint::fresh(SUCCESSOR.parse().unwrap(), 1);
    ledger.current_object_index = 1000;
    let path = format!("anchor/.rustfs.sys/buckets/{SUCCESSOR}_ahm_checkpoint.json");
    drives.write(&path, &String::from_utf8(ledger.seal(2)).unwrap());
    let lock = File::create(drives.at("anchor").join(FOLDER).join(".rustfs-cas.lock")).unwrap();
    let lock = Flock::lock(lock, FlockArg::LockExclusiveNonblock).unwrap();
    let answer = drives.tool(&arguments(&WRITE));
    assert_eq!(answer.code, 2, "{}", answer.err);
    assert!(answer.err.contains("1 of the records were written: run it again"), "{}", answer.err);
    let set_back = Checkpoint::parse(&fs::read(drives.at(&path)).unwrap()).unwrap();
    assert!(set_back.is_fresh(), "{set_back:?}");
    drop(lock);
    let answer = drives.tool(&arguments(&WRITE));
    assert_eq!((answer.code, answer.out.lines().count()), (0, 2), "{}{}", answer.out, answer.err);
    assert!(answer.out.contains("(replacement.failure.rearmed)"), "{}", answer.out);
}
