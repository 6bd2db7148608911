//! Records that are swapped, the execution lease, and a drive that is formatted to be rebuilt.

use serde_bytes::ByteBuf;

use super::*;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Record;

impl Bench {
    fn swap(&self, path: &str, expected: Option<&str>, new: Option<&str>) -> bool {
        let bytes = |text: Option<&str>| text.map(|text| ByteBuf::from(text.as_bytes()));
        let (expected, new) = (bytes(expected), bytes(new));
        let request = DriveRequest::Swap { path: path.to_owned(), expected, new };
        match self.drive.perform(request).unwrap() {
            DriveReply::Swapped(held) => held,
            other => panic!("a swap was answered by {other:?}"),
        }
    }

    fn replacement(&self) -> ReplacementCopy {
        match self.drive.perform(DriveRequest::ReadReplacement).unwrap() {
            DriveReply::Replacement(copy) => *copy,
            other => panic!("a read was answered by {other:?}"),
        }
    }

    fn is_rebuilding(&self) -> bool {
        match self.drive.perform(DriveRequest::Facts).unwrap() {
            DriveReply::Facts(facts) => facts.rebuilding,
            other => panic!("facts were answered by {other:?}"),
        }
    }
}

#[test]
fn a_swap_changes_a_record_only_if_it_is_what_was_read() {
    let bench = Bench::new();
    let path = names::path(Record::Intent, Default::default());
    bench.done(DriveRequest::MakeRecordFolder);
    assert!(!bench.swap(&path, Some("a"), Some("b")), "there was nothing to replace");
    assert!(bench.swap(&path, None, Some("a")));
    assert!(!bench.swap(&path, None, Some("b")), "it was there");
    assert!(bench.swap(&path, Some("a"), Some("b")));
    assert_eq!(bench.replacement().records[&path].as_slice(), b"b");
    assert!(bench.swap(&path, Some("b"), None));
    assert!(bench.replacement().records.is_empty());

    let busy = bench.drive.files.lock(&format!("{}/{}", names::FOLDER, names::SWAP_LOCK)).unwrap();
    let request = DriveRequest::Swap { path, expected: None, new: Some(ByteBuf::new()) };
    let refused = bench.drive.perform(request).unwrap_err();
    assert!(matches!(refused, DriveError::Busy { .. }), "{refused:?}");
    drop(busy);
    for foreign in ["bkt/k", ".rustfs.sys/format.json", "../x"] {
        let path = foreign.to_owned();
        let request = DriveRequest::Swap { path, expected: None, new: None };
        assert!(bench.drive.perform(request).is_err(), "{foreign} was swapped");
    }
}

#[test]
fn an_execution_lease_ends_with_the_last_request_under_it() {
    let bench = Bench::new();
    let other = open(bench.folder.path(), &bench.gate).unwrap();
    let take = |drive: &LocalDrive, holder| {
        drive.perform(DriveRequest::TakeExecution { holder: Uuid::from_u128(holder) })
    };
    assert!(take(&bench.drive, 1).is_ok() && take(&bench.drive, 1).is_ok());
    assert!(take(&bench.drive, 2).is_err() && take(&other, 2).is_err());
    assert_eq!(bench.replacement().execution, Some(Uuid::from_u128(1)));
    // A request that is under way.
    let share = bench.drive.share_of_execution();
    bench.done(DriveRequest::EndExecution { holder: Uuid::from_u128(2) });
    assert!(take(&other, 2).is_err(), "whoever does not hold it cannot give it up");
    bench.done(DriveRequest::EndExecution { holder: Uuid::from_u128(1) });
    assert!(take(&other, 2).is_err() && take(&bench.drive, 2).is_err(), "work goes on under it");
    drop(share);
    assert!(take(&other, 2).is_ok());
    assert!(bench.folder.path().join(names::LEASE).exists(), "the lock's file stays");
}

#[test]
fn a_lock_that_was_removed_is_missed_whether_it_is_held_or_not() {
    let bench = Bench::new();
    let lock = bench.folder.path().join(names::LEASE);
    assert!(!bench.replacement().has_execution_lock);
    bench.done(DriveRequest::TakeExecution { holder: Uuid::from_u128(1) });
    assert!(bench.replacement().has_execution_lock);
    std::fs::remove_file(&lock).unwrap();
    assert!(!bench.replacement().has_execution_lock);
    std::fs::write(&lock, "").unwrap();
    assert!(!bench.replacement().has_execution_lock, "another file is not the one that is held");
    bench.done(DriveRequest::EndExecution { holder: Uuid::from_u128(1) });
    assert!(bench.replacement().has_execution_lock);
}

#[test]
fn what_a_drive_lacks_says_nothing_from_its_format_until_its_rebuild_is_finished() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Gate::default());
    let drive = open(folder.path(), &gate).unwrap();
    let bench = Bench { folder, gate, drive };
    assert_eq!(bench.replacement().format_id, None);
    bench.done(DriveRequest::WriteFormat { bytes: format(), rebuilding: true });
    assert!(bench.is_rebuilding() && bench.replacement().is_unfinished);
    assert!(bench.swap(layout::HEALING, None, Some("pool_0_set_0:x")));
    // A process that dies here finds it so again.
    let Bench { folder, gate, drive } = bench;
    drop(drive);
    let drive = open(folder.path(), &gate).unwrap();
    drive.own(1).unwrap();
    let bench = Bench { folder, gate, drive };
    assert!(bench.is_rebuilding());
    bench.done(DriveRequest::FinishRebuild);
    assert!(bench.is_rebuilding(), "it is marked");
    assert!(bench.swap(layout::HEALING, Some("pool_0_set_0:x"), None));
    assert!(!bench.is_rebuilding() && !bench.replacement().is_unfinished);
}

#[test]
fn a_drive_tells_how_it_is_mounted() {
    let bench = Bench::new();
    let mount = bench.replacement().mount.unwrap();
    assert_eq!(mount.canonical_path, bench.folder.path().canonicalize().unwrap().to_str().unwrap());
    assert_eq!(mount.filesystem_identity.split(':').count(), 3);
    assert!(!mount.physical_device_ids.is_empty());
    let format = FormatJson::parse(&format()).unwrap().xl.this.hyphenated().to_string();
    assert_eq!(bench.replacement().format_id, Some(format));
}
