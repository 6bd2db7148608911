//! Every fault of drives on the real kernel: it is seen while it lasts, and gone when it was healed.
//!
//! One body for each, run on every file system that this machine has.

use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::path::Path;

use firedrill::harness::fault::Strike;
use firedrill::harness::scenario::plan::Filesystem;
use firedrill::harness::workload::history::Event;
use firedrill::harness::workload::history::FaultPhase::Healed;
use firedrill::harness::workload::history::FaultPhase::InForce;
use firedrill::harness::workload::history::FaultPhase::Injected;
use firedrill::harness::workload::history::FaultPhase::NotReached;
use firedrill::harness::workload::history::Note;
use libtest_mimic::Trial;

use crate::bed::Bed;
use crate::bed::ask;
use crate::bed::run;

macro_rules! on_every_filesystem {
    ($($name:ident),* $(,)?) => {
        vec![$(
            Trial::test(concat!(stringify!($name), "::ext4"), || run($name(Filesystem::Ext4))),
            Trial::test(concat!(stringify!($name), "::xfs"), || run($name(Filesystem::Xfs))),
        )*]
    };
}

pub fn trials() -> Vec<Trial> {
    on_every_filesystem![
        a_pulled_drive_keeps_what_was_flushed_and_comes_back_as_it_vanished,
        a_returned_drive_ends_its_pull,
        a_replaced_drive_is_blank_and_another,
        a_read_only_drive_refuses_writes_until_it_is_healed,
        a_full_drive_has_no_space_until_it_is_healed,
        reads_fail_until_they_are_healed,
        writes_hang_until_they_are_healed,
        a_missing_mount_stays_bare_and_what_appears_below_is_told,
        a_power_cut_loses_what_was_not_flushed_and_nothing_else,
        one_bit_rots_where_it_is_told,
        shards_are_exchanged_only_where_there_are_two,
    ]
}

/// Writes a file and flushes it with its name.
fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    File::open(path.parent().unwrap())?.sync_all()
}

async fn a_pulled_drive_keeps_what_was_flushed_and_comes_back_as_it_vanished(kind: Filesystem) {
    let bed = Bed::started(1, 2, kind).await;
    let root = bed.root("0/1");
    put(&root.join("flushed"), b"stays").unwrap();
    fs::write(root.join("unflushed"), b"goes").unwrap();
    let before = bed.testbed.identity("0/1").unwrap();
    bed.must_strike("pull_drive: { node: 0, drives: [1] }").await;
    assert!(!bed.testbed.drives()[1].mounted);
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0, "the path is no bare directory");
    assert!(bed.testbed.is_running(0), "the node does not depend on it");
    bed.work(0, "meanwhile").await;
    bed.injector.heal_all().await.unwrap();
    assert_eq!(bed.phases(), [Injected, InForce, Healed], "{:?}", bed.told());
    let after = bed.testbed.identity("0/1").unwrap();
    assert_eq!(before.uuid, after.uuid);
    assert_ne!(before.device, after.device);
    assert_eq!(fs::read(root.join("flushed")).unwrap(), b"stays");
    assert!(!root.join("unflushed").exists(), "what was not flushed survived");
    put(&root.join("again"), b"writable").unwrap();
    bed.end().await;
}

async fn a_returned_drive_ends_its_pull(kind: Filesystem) {
    let bed = Bed::started(1, 3, kind).await;
    assert_eq!(bed.strike("return_drive: { node: 0, drives: [1] }").await, Strike::NotReached);
    bed.must_strike("pull_drive: { node: 0, drives: [1, 2] }").await;
    bed.work(0, "meanwhile").await;
    bed.must_strike("return_drive: { node: 0, drives: [1, 2] }").await;
    assert_eq!(bed.phases(), [NotReached, Injected, InForce, Injected, Healed], "{:?}", bed.told());
    assert!(bed.testbed.drives().iter().all(|drive| drive.mounted));
    bed.injector.heal_all().await.unwrap();
    bed.end().await;
}

async fn a_replaced_drive_is_blank_and_another(kind: Filesystem) {
    let bed = Bed::started(1, 2, kind).await;
    let root = bed.root("0/1");
    put(&root.join("old"), b"gone").unwrap();
    let before = bed.testbed.identity("0/1").unwrap();
    bed.must_strike("replace_drive: { node: 0, drives: [1] }").await;
    let after = bed.testbed.identity("0/1").unwrap();
    assert_ne!(before.uuid, after.uuid);
    assert!(!root.join("old").exists());
    put(&root.join("new"), b"writable").unwrap();
    bed.must_strike("replace_drive: { node: 0, drives: [1] }").await;
    assert_ne!(after.uuid, bed.testbed.identity("0/1").unwrap().uuid, "replaced twice, once only");
    bed.injector.heal_all().await.unwrap();
    bed.end().await;
}

async fn a_read_only_drive_refuses_writes_until_it_is_healed(kind: Filesystem) {
    let bed = Bed::started(1, 2, kind).await;
    put(&bed.root("0/0").join("before"), b"stays").unwrap();
    bed.must_strike("read_only: { node: 0, drives: [0] }").await;
    let answer = bed.ask(0, "PUT /b/k", "body").await.unwrap();
    assert_eq!(answer.0, 500, "the node could write: {answer:?}");
    assert!(answer.1.contains("Read-only"), "{answer:?}");
    bed.progress.count_ended();
    bed.injector.heal_all().await.unwrap();
    assert_eq!(bed.phases(), [Injected, InForce, Healed], "{:?}", bed.told());
    assert_eq!(fs::read(bed.root("0/0").join("before")).unwrap(), b"stays");
    bed.work(0, "again").await;
    bed.end().await;
}

async fn a_full_drive_has_no_space_until_it_is_healed(kind: Filesystem) {
    let bed = Bed::started(1, 2, kind).await;
    bed.must_strike("fill_drive: { node: 0, drives: [0] }").await;
    let body = "x".repeat(64 << 10);
    let answer = bed.ask(0, "PUT /b/k", &body).await.unwrap();
    assert_eq!(answer.0, 500, "the node could write: {answer:?}");
    let foreign = fs::read_dir(bed.root("0/0")).unwrap().flatten();
    let foreign: Vec<_> = foreign.map(|entry| entry.file_name()).collect();
    assert!(foreign.iter().all(|name| name == "lost+found" || name == "_b_k"), "{foreign:?}");
    bed.progress.count_ended();
    bed.injector.heal_all().await.unwrap();
    assert_eq!(bed.phases(), [Injected, InForce, Healed], "{:?}", bed.told());
    assert_eq!(bed.ask(0, "PUT /b/k", &body).await.unwrap().0, 200);
    bed.end().await;
}

async fn reads_fail_until_they_are_healed(kind: Filesystem) {
    let bed = Bed::started(1, 2, kind).await;
    let path = bed.root("0/0").join("before");
    put(&path, &[7; 100_000]).unwrap();
    bed.must_strike("fail_reads: { node: 0, drives: [0] }").await;
    let read = fs::read(&path);
    assert!(read.is_err(), "a file that was whole before can still be read from the device");
    bed.progress.count_ended();
    bed.injector.heal_all().await.unwrap();
    assert_eq!(bed.phases(), [Injected, InForce, Healed], "{:?}", bed.told());
    assert_eq!(fs::read(&path).unwrap(), [7; 100_000]);
    bed.work(0, "again").await;
    bed.end().await;
}

async fn writes_hang_until_they_are_healed(kind: Filesystem) {
    let bed = Bed::started(1, 2, kind).await;
    put(&bed.root("0/0").join("before"), b"stays").unwrap();
    bed.must_strike("hang_writes: { node: 0, drives: [0] }").await;
    assert_eq!(fs::read(bed.root("0/0").join("before")).unwrap(), b"stays", "reads work");
    let put = ask(bed.testbed.client_address(0), "PUT /b/k", "body");
    tokio::pin!(put);
    let early = tokio::time::timeout(std::time::Duration::from_millis(300), &mut put).await;
    assert!(early.is_err(), "a write came back while writes hang: {early:?}");
    bed.progress.count_ended();
    bed.injector.heal_all().await.unwrap();
    assert_eq!(put.await.unwrap().0, 200, "the hanging write did not go on");
    assert_eq!(bed.phases(), [Injected, InForce, Healed], "{:?}", bed.told());
    bed.end().await;
}

async fn a_missing_mount_stays_bare_and_what_appears_below_is_told(kind: Filesystem) {
    let bed = Bed::started(1, 2, kind).await;
    put(&bed.root("0/1").join("before"), b"stays").unwrap();
    let below = |bed: &Bed| {
        let events = bed.events();
        let notes = events.into_iter().filter_map(|event| match event {
            Event::Noted(Note::BelowMountPoint { drive, entries }) => Some((drive, entries)),
            _ => None,
        });
        notes.collect::<Vec<_>>()
    };
    bed.must_strike("missing_mount: { node: 0, drives: [1] }").await;
    assert!(bed.testbed.is_running(0));
    bed.work(0, "meanwhile").await;
    bed.injector.heal_all().await.unwrap();
    assert_eq!(bed.phases(), [Injected, InForce, Healed], "{:?}", bed.told());
    assert_eq!(below(&bed), [("0/1".to_owned(), 0)]);
    assert_eq!(fs::read(bed.root("0/1").join("before")).unwrap(), b"stays");
    // This node writes to whatever lies at its first path: it is caught.
    bed.must_strike("missing_mount: { node: 0, drives: [0] }").await;
    bed.work(0, "below").await;
    bed.injector.heal_all().await.unwrap();
    assert_eq!(below(&bed)[1..], [("0/0".to_owned(), 1)], "a byte below a bare directory passed");
    bed.end().await;
}

async fn a_power_cut_loses_what_was_not_flushed_and_nothing_else(kind: Filesystem) {
    let bed = Bed::started(2, 2, kind).await;
    for drive in ["0/0", "1/1"] {
        put(&bed.root(drive).join("flushed"), b"stays").unwrap();
        fs::write(bed.root(drive).join("unflushed"), b"goes").unwrap();
    }
    let before = bed.testbed.identity("0/0").unwrap();
    bed.must_strike("power_cut: { nodes: all }").await;
    assert_eq!(bed.told()[0].drives.len(), 4, "{:?}", bed.told());
    for drive in ["0/0", "1/1"] {
        assert_eq!(fs::read(bed.root(drive).join("flushed")).unwrap(), b"stays");
        assert!(!bed.root(drive).join("unflushed").exists(), "{drive} kept what was not flushed");
        let left = fs::read_dir(bed.root(drive)).unwrap().flatten();
        assert!(
            left.map(|entry| entry.file_name())
                .all(|name| !name.to_string_lossy().starts_with(".firedrill"))
        );
    }
    let after = bed.testbed.identity("0/0").unwrap();
    assert_ne!(before.diskseq, after.diskseq, "the device was never detached");
    bed.work(0, "again").await;
    bed.work(1, "again").await;
    bed.end().await;
}

async fn one_bit_rots_where_it_is_told(kind: Filesystem) {
    let bed = Bed::started(1, 2, kind).await;
    let folder = bed.root("0/1").join("b/k/data");
    fs::create_dir_all(&folder).unwrap();
    put(&folder.join("part.1"), &[0; 5000]).unwrap();
    bed.must_strike("bit_rot: { node: 0, drives: [1], target: part }").await;
    let bytes = fs::read(folder.join("part.1")).unwrap();
    let flipped: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
    assert_eq!(flipped, 1, "exactly one bit");
    let offset = bytes.iter().position(|byte| *byte != 0).unwrap();
    let evidence = bed.told()[0].evidence.clone();
    assert!(
        evidence.contains(&format!("0/1: b/k/data/part.1 @ {offset}: 00 became")),
        "{evidence}"
    );
    assert!(bed.testbed.is_running(0), "it was started again");
    let strike = bed.strike("bit_rot: { node: 0, drives: [1], target: part, files: 2 }").await;
    assert_eq!(strike, Strike::NotReached, "there is one file only");
    bed.injector.heal_all().await.unwrap();
    bed.end().await;
}

async fn shards_are_exchanged_only_where_there_are_two(kind: Filesystem) {
    let bed = Bed::started(1, 2, kind).await;
    let part = |key: &str| bed.root("0/1").join("b").join(key).join("data/part.1");
    for (key, byte) in [("k", 1), ("l", 2)] {
        fs::create_dir_all(part(key).parent().unwrap()).unwrap();
        put(&part(key), &[byte; 300]).unwrap();
    }
    assert_eq!(bed.strike("swap_shards: { node: 0, drives: [0] }").await, Strike::NotReached);
    bed.must_strike("swap_shards: { node: 0, drives: [1] }").await;
    assert_eq!(fs::read(part("k")).unwrap(), [2; 300]);
    assert_eq!(fs::read(part("l")).unwrap(), [1; 300]);
    bed.injector.heal_all().await.unwrap();
    bed.end().await;
}
