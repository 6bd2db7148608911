//! `backup`.

use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::os::unix::fs::symlink;

use firedrill::value::Digest;
use nix::fcntl::Flock;
use nix::fcntl::FlockArg;
use serde_json::Value;

use super::drives::Drives;
use super::drives::FOLDER;
use super::drives::ORPHANS;
use super::drives::intent;

const BACKUP: [&str; 7] = ["backup", "--anchor", "anchor", "--target", "target", "--to", "kept"];

/// Drives with every kind of file that has to be kept, and some that have not.
fn drives() -> Drives {
    let drives = Drives::orphaned();
    let id = ORPHANS[0];
    for path in [
        format!("{FOLDER}/{id}_ahm_replacement_intent_seal"),
        format!("{FOLDER}/whatever an operator left"),
        format!("{FOLDER}/.rustfs-cas.lock"),
        format!(".rustfs.sys/buckets/{id}_ahm_checkpoint.json"),
        format!(".rustfs.sys/buckets/{id}_ahm_resume_state.json"),
    ] {
        drives.write(&format!("anchor/{path}"), &path);
    }
    drives.write("anchor/.rustfs.sys/buckets/plain/.metadata.bin/xl.meta", "of a bucket");
    drives
}

#[test]
fn a_backup_holds_the_records_and_markers_with_their_digests() {
    let drives = drives();
    let before = drives.tree();
    let answer = drives.tool(&BACKUP);
    assert_eq!((answer.code, &*answer.err), (0, ""));
    assert_eq!(answer.out, "10 files of 2 drives kept: kept/manifest.json\n");

    let manifest = fs::read(drives.at("kept/manifest.json")).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["format"], 1);
    let mut listed = BTreeMap::new();
    for (drive, name) in manifest["drives"].as_array().unwrap().iter().zip(["anchor", "target"]) {
        assert_eq!(drive["root"], name);
        assert_eq!(drive["has_marker"], name == "target");
        for file in drive["files"].as_array().unwrap() {
            let path = file["path"].as_str().unwrap();
            let copy =
                fs::read(drives.at("kept").join(drive["folder"].as_str().unwrap()).join(path));
            let (copy, original) = (copy.unwrap(), fs::read(drives.at(name).join(path)).unwrap());
            assert_eq!(copy, original, "{path}");
            assert_eq!(file["sha256"], Digest::of(&copy).to_string(), "{path}");
            assert_eq!(file["bytes"], copy.len(), "{path}");
            listed.insert(format!("{name}/{path}"), ());
        }
    }
    assert_eq!(listed.len(), 10);
    for path in [
        "target/.rustfs.sys/healing.bin".to_owned(),
        "anchor/.rustfs.sys/format.json".to_owned(),
        format!("anchor/{}", intent(ORPHANS[1])),
        format!("anchor/{FOLDER}/whatever an operator left"),
    ] {
        assert!(listed.contains_key(&path), "{path} was not kept");
    }

    let after = drives.tree();
    let (kept, rest): (Vec<_>, Vec<_>) =
        after.into_iter().partition(|(path, _)| path.starts_with(drives.at("kept")));
    let files = kept.iter().filter(|(path, _)| path.is_file()).count();
    assert_eq!(files, 11, "the copies and the manifest");
    assert!(kept.iter().all(|(_, facts)| facts.0 & 0o077 == 0), "others may read a backup");
    assert_eq!(rest.into_iter().collect::<BTreeMap<_, _>>(), before, "a drive was written to");
}

#[test]
fn a_backup_overwrites_nothing() {
    let drives = drives();
    assert_eq!(drives.tool(&BACKUP).code, 0);
    let before = drives.tree();
    let answer = drives.tool(&BACKUP);
    assert_eq!(answer.code, 64);
    assert!(answer.err.contains("kept is there already"), "{}", answer.err);
    assert_eq!(drives.tree(), before);
}

/// Goal: each refusal has words of its own, and leaves the drives and everything else as it was.
#[test]
fn a_backup_that_cannot_be_whole_is_not_begun() {
    type Damage = fn(&Drives, &mut Vec<&'static str>);
    #[rustfmt::skip]
    let rows: &[(&str, Damage)] = &[
        ("kept is there already", |drives, _| symlink("nowhere", drives.at("kept")).unwrap()),
        ("lies on the drive", |_, it| it[6] = "target/kept"),
        ("lies on the drive", |_, it| it[6] = "anchor/.rustfs.sys/kept"),
        ("mount the drive", |_, it| it[4] = "nowhere"),
        ("mount the drive", |drives, it| {
            drives.write("drive.img", "an image");
            it[2] = "drive.img";
        }),
        ("is named twice", |_, it| it[4] = "anchor/"),
        ("holds no record", |drives, _| {
            fs::remove_dir_all(drives.at("anchor/.rustfs.sys/buckets")).unwrap();
        }),
        ("is not a regular file", |drives, _| {
            symlink("elsewhere", drives.at("anchor").join(FOLDER).join("link")).unwrap();
        }),
        ("is not a regular file", |drives, _| {
            fs::remove_file(drives.at("target/.rustfs.sys/healing.bin")).unwrap();
            fs::create_dir(drives.at("target/.rustfs.sys/healing.bin")).unwrap();
        }),
        ("cannot find nowhere", |_, it| it[6] = "nowhere/kept"),
    ];
    for (words, damage) in rows {
        let (drives, mut arguments) = (drives(), BACKUP.to_vec());
        damage(&drives, &mut arguments);
        let before = drives.tree();
        let answer = drives.tool(&arguments);
        assert_eq!(answer.code, 64, "{words}: {}{}", answer.out, answer.err);
        assert!(answer.err.contains(words), "{words}: {}", answer.err);
        let after = drives.tree();
        assert!(
            before.keys().eq(after.keys())
                && before.iter().all(|(path, facts)| facts.4 == after[path].4),
            "{words}: something was written"
        );
    }
}

#[test]
fn a_drive_in_use_is_not_kept() {
    for lease in ["anchor/.rustfs.sys/lease", "target/.rustfs-replacement.lock"] {
        let drives = drives();
        let file = File::create(drives.at(lease)).unwrap();
        let _lock = Flock::lock(file, FlockArg::LockExclusiveNonblock).unwrap();
        let before = drives.tree();
        let answer = drives.tool(&BACKUP);
        assert_eq!(answer.code, 64);
        assert!(answer.err.contains("somebody holds the lease of"), "{}", answer.err);
        assert_eq!(drives.tree(), before);
    }
}
