//! Drives come and go as the plan has them.

use std::fs;
use std::fs::File;
use std::io::Write;

use firedrill::harness::scenario::plan::Filesystem;
use firedrill::harness::testbed::bench;
use libtest_mimic::Trial;

use crate::bed::Bed;
use crate::bed::run;

pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("drives_are_mounted_with_the_uuids_of_the_plan_and_nothing_is_left", || {
            run(drives_are_mounted(Filesystem::Ext4))
        }),
        Trial::test("drives_are_mounted_like_others::xfs", || {
            run(drives_are_mounted(Filesystem::Xfs))
        }),
        Trial::test("provisioning_keeps_to_its_figures", || {
            run(provisioning_keeps_to_its_figures())
        }),
    ]
}

async fn drives_are_mounted(filesystem: Filesystem) {
    let bed = Bed::new(2, 3, filesystem).await;
    let drives = bed.testbed.drives();
    assert_eq!(drives.len(), 6);
    let mut devices = std::collections::BTreeSet::new();
    for (drive, plan) in drives.iter().zip(&bed.testbed.plan().drives) {
        assert!(drive.mounted);
        let identity = bed.testbed.identity(&drive.name).unwrap();
        assert_eq!(identity.uuid, plan.uuid.to_string(), "{}", drive.name);
        assert!(devices.insert(identity.st_dev), "two drives share a device");
        let mut file = File::create(drive.root.join("probe")).unwrap();
        file.write_all(b"x").unwrap();
        file.sync_all().unwrap();
        // The node sees the same drive under the same path, and none of its peer's.
        fs::remove_file(drive.root.join("probe")).unwrap();
    }
    bed.end().await;
}

async fn provisioning_keeps_to_its_figures() {
    let directory = tempfile::tempdir().unwrap();
    let figures = bench::provision(directory.path(), 64, 5).await.unwrap();
    println!("{figures:?}");
    // Ten times the aim: a loaded machine must not fail this, a lost order of magnitude must.
    assert!(figures.one_drive.as_millis() < 120, "{figures:?}");
    assert!(figures.sixteen_drives.as_millis() < 1200, "{figures:?}");
}
