//! What is answered from memory, and what is not.

use std::fs;

use super::*;

fn shard(key: &str, moment: i64, length: u32) -> DriveRequest {
    let (target, data_dir) = (at(key), data_dir(moment));
    DriveRequest::ReadShard { target, data_dir, part: 1, offset: 2, length }
}

/// Goal: a small object and a piece of a shard are answered from memory, and nothing is that a thread would have to
/// look at more closely.
#[test]
fn reads_of_what_is_in_memory_are_answered_at_once() {
    let bench = Bench::new();
    put_inline(&bench, "small", VersionId::NULL, 5);
    put_large(&bench, "large", VersionId::NULL, 6);
    let read_as =
        |key: &str, inline, brief| DriveRequest::ReadKey { target: at(key), inline, brief };
    let read = |key: &str, inline| read_as(key, inline, false);
    for inline in [true, false] {
        let Some(reply) = bench.drive.at_once(&read("small", inline)) else {
            println!(
                "skipped: the file system of temporary files does not say what it has in memory"
            );
            return;
        };
        assert_eq!(Ok(reply), bench.drive.perform(read("small", inline)));
    }
    let Some(reply) = bench.drive.at_once(&shard("large", 6, 13)) else { panic!("not at once") };
    assert_eq!(Ok(reply), bench.drive.perform(shard("large", 6, 13)));

    assert_eq!(bench.drive.at_once(&shard("large", 6, 14)), None, "it ends before");
    assert_eq!(bench.drive.at_once(&shard("large", 6, 1 << 20)), None, "too long");
    assert_eq!(bench.drive.at_once(&shard("large", 7, 13)), None, "not there");
    assert_eq!(bench.drive.at_once(&read("large", true)), None, "it has a folder");
    assert_eq!(bench.drive.at_once(&read("none", true)), None, "not there");
    let brief = read_as("large", true, true);
    let folder = bench.folder.path().join(format!("bkt/large/{}", data_dir(6)));
    let told = bench.drive.perform(brief.clone());
    assert_eq!(bench.drive.at_once(&brief).map(Ok), Some(told));
    fs::write(folder.join(layout::META_BACKUP), b"").unwrap();
    assert_eq!(bench.drive.at_once(&brief), None, "something is kept there");
    fs::remove_file(folder.join(layout::META_BACKUP)).unwrap();
    fs::create_dir(bench.folder.path().join(format!("bkt/large/{}", data_dir(7)))).unwrap();
    assert_eq!(bench.drive.at_once(&brief), None, "another folder is there");
    assert_eq!(bench.drive.at_once(&read("../small", true)), None, "no key");
    assert_eq!(bench.drive.at_once(&DriveRequest::ListBuckets), None, "no such read");
    fs::create_dir(bench.folder.path().join("bkt/small/below")).unwrap();
    assert_eq!(bench.drive.at_once(&read("small", true)), None, "a key may lie below");
}

/// Goal: a drive that is not ours, or not the one that was opened, answers nothing at once.
#[test]
fn a_drive_that_is_not_ours_answers_nothing_at_once() {
    let bench = Bench::new();
    put_inline(&bench, "small", VersionId::NULL, 5);
    let read = DriveRequest::ReadKey { target: at("small"), inline: true, brief: false };
    if bench.drive.at_once(&read).is_none() {
        println!("skipped: the file system of temporary files does not say what it has in memory");
        return;
    }
    let stranger = open(bench.folder.path(), &bench.gate).unwrap();
    assert_eq!(stranger.at_once(&read), None, "nobody owns it");
    let elsewhere = bench.folder.path().with_extension("elsewhere");
    fs::rename(bench.folder.path(), &elsewhere).unwrap();
    fs::create_dir(bench.folder.path()).unwrap();
    assert_eq!(bench.drive.at_once(&read), None, "something else lies there");
    fs::remove_dir(bench.folder.path()).unwrap();
    fs::rename(&elsewhere, bench.folder.path()).unwrap();
    assert!(bench.drive.at_once(&read).is_some(), "nobody has noticed anything");
}
