//! Whose drive it is, where it lies, and what it remembers.

use super::*;

#[test]
fn the_queue_survives_a_death_and_a_torn_line() {
    let bench = Bench::new();
    let entry = |n: u8| QueueEntry { id: Uuid::from_u128(u128::from(n)), body: vec![n; 3] };
    for n in 1..=3 {
        bench.done(DriveRequest::QueuePut(entry(n)));
        bench.done(DriveRequest::QueuePut(entry(n)));
    }
    bench.done(DriveRequest::QueueDone { ids: vec![entry(1).id, Uuid::from_u128(99)] });
    let Bench { folder, gate, drive } = bench;
    drop(drive);
    let path = folder.path().join(".rustfs.sys/buckets/.heal/firedrill/queue.jsonl");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend_from_slice(b"{\"put\":{\"id\":\"0000");
    std::fs::write(&path, bytes).unwrap();

    let drive = open(folder.path(), &gate).unwrap();
    drive.own(1).unwrap();
    let bench = Bench { folder, gate, drive };
    let read = |bench: &Bench| match bench.drive.perform(DriveRequest::QueueRead { limit: 9 }) {
        Ok(DriveReply::Queue(entries)) => entries,
        other => panic!("{other:?}"),
    };
    assert_eq!(read(&bench), [entry(2), entry(3)]);
    bench.done(DriveRequest::QueuePut(entry(4)));
    assert_eq!(read(&bench), [entry(2), entry(3), entry(4)]);
    bench.done(DriveRequest::QueueDone { ids: (2..=4).map(|n| entry(n).id).collect() });
    assert_eq!(read(&bench), []);
    assert_eq!(std::fs::read(path).unwrap(), b"", "an empty queue is an empty file");
}

#[test]
fn possession_is_exclusive_and_presence_is_remembered() {
    let bench = Bench::new();
    let second = open(bench.folder.path(), &bench.gate).unwrap();
    assert!(matches!(second.own(5), Err(DriveError::Leased { .. })));
    assert_eq!(
        second.perform(DriveRequest::ListBuckets),
        Err(DriveError::NotOwned),
        "nothing is answered for a drive of somebody else"
    );
    bench.done(DriveRequest::Heartbeat { now_ns: 1_000 });
    let Bench { folder, gate, drive } = bench;
    std::fs::write(folder.path().join(".rustfs.sys/tmp/loose"), b"x").unwrap();
    drop(drive);
    second.own(5_000).unwrap();
    let DriveReply::Facts(facts) = second.perform(DriveRequest::Facts).unwrap() else { panic!() };
    assert_eq!((facts.absent_from_ns, facts.absent_until_ns), (1_000, 5_000));
    assert!(facts.unclean);
    assert!(!folder.path().join(".rustfs.sys/tmp/loose").exists(), "the staging area is wiped");
    assert!(!folder.path().join(layout::TMP_OLD).exists(), "and what was in it is gone");
    second.close(6_000).unwrap();
    assert!(!folder.path().join(layout::UNCLEAN).exists());
    let third = open(folder.path(), &gate).unwrap();
    third.own(7_000).unwrap();
    let DriveReply::Facts(facts) = third.perform(DriveRequest::Facts).unwrap() else { panic!() };
    assert!(!facts.unclean);
}

#[test]
fn a_format_that_rotted_is_mended_and_another_drive_s_is_not() {
    let bench = Bench::new();
    let Bench { folder, gate, drive } = bench;
    drop(drive);
    let path = folder.path().join(layout::FORMAT);
    let good = std::fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut rotten = good.clone();
        rotten[at] ^= 1;
        std::fs::write(&path, &rotten).unwrap();
        let drive = open(folder.path(), &gate).unwrap();
        let read = drive.perform(DriveRequest::ReadFormat).unwrap();
        assert!(matches!(read, DriveReply::Format(Some(bytes)) if bytes == good), "byte {at}");
        assert_eq!(std::fs::read(&path).unwrap(), rotten, "looking changes nothing");
        drive.own(1).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), good, "byte {at}");
    }
    std::fs::write(&path, &good[..9]).unwrap();
    open(folder.path(), &gate).unwrap().own(1).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), good, "a torn one too");

    let newer = br#"{"version":"2","format":"xl-next"}"#;
    std::fs::write(&path, newer).unwrap();
    let drive = open(folder.path(), &gate).unwrap();
    let read = drive.perform(DriveRequest::ReadFormat).unwrap();
    assert!(
        matches!(read, DriveReply::Format(Some(bytes)) if bytes == newer),
        "a newer server's stays"
    );

    let mut other = FormatJson::parse(&good).unwrap();
    other.id = Uuid::new_v4();
    std::fs::write(&path, other.encode()).unwrap();
    let drive = open(folder.path(), &gate).unwrap();
    let read = drive.perform(DriveRequest::ReadFormat).unwrap();
    assert!(matches!(read, DriveReply::Format(Some(bytes)) if bytes == other.encode()));
}

#[test]
fn nothing_is_written_before_a_drive_has_a_format() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Gate::default());
    let drive = open(folder.path(), &gate).unwrap();
    assert_eq!(drive.perform(DriveRequest::ReadFormat), Ok(DriveReply::Format(None)));
    assert_eq!(drive.own(1), Err(DriveError::Blank));
    for request in [
        DriveRequest::Heartbeat { now_ns: 1 },
        DriveRequest::MakeBucket { grant: grant("", "bkt"), bucket: "bkt".to_owned() },
        DriveRequest::WriteFormat { bytes: b"{}".to_vec(), rebuilding: false },
    ] {
        assert!(drive.perform(request).is_err());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "not one byte");
    drive.perform(DriveRequest::WriteFormat { bytes: format(), rebuilding: true }).unwrap();
    let DriveReply::Facts(facts) = drive.perform(DriveRequest::Facts).unwrap() else { panic!() };
    assert!(facts.rebuilding);
    drive.perform(DriveRequest::FinishRebuild).unwrap();
    assert!(!folder.path().join(layout::HEALING).exists());
    let other = Uuid::from_u128(3);
    let other = FormatJson::new(Uuid::from_u128(1), other, vec![vec![other]]).encode();
    assert_eq!(
        drive.perform(DriveRequest::WriteFormat { bytes: other, rebuilding: false }),
        Err(DriveError::Formatted)
    );
}

#[test]
fn a_drive_whose_mount_point_changed_is_not_written_through_either() {
    let bench = Bench::new();
    let moved = bench.folder.path().with_extension("moved");
    std::fs::rename(bench.folder.path(), &moved).unwrap();
    std::fs::create_dir(bench.folder.path()).unwrap();
    let version = object(VersionId::NULL, 1, 1, true);
    let swapped = bench.commit(put("k", &version, Shards::Inline(vec![1; 33]))).unwrap_err();
    assert!(matches!(swapped, DriveError::Swapped { .. }));
    assert_eq!(std::fs::read_dir(bench.folder.path()).unwrap().count(), 0);
    assert!(!moved.join("bkt/k").exists());
    // Back at its place it still has to be identified anew.
    std::fs::remove_dir(bench.folder.path()).unwrap();
    std::fs::rename(&moved, bench.folder.path()).unwrap();
    assert!(matches!(
        bench.drive.perform(DriveRequest::ListBuckets),
        Err(DriveError::Swapped { .. })
    ));
}

#[test]
fn a_directory_on_its_parents_file_system_is_an_absent_drive() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Gate::default());
    let options = LocalOptions {
        name: "0/0".to_owned(),
        root: folder.path().to_owned(),
        allow_unmounted: false,
        durability: Durability::Strict,
    };
    let seams =
        LocalSeams { fences: Arc::<Gate>::clone(&gate), passing: gate, rules: Arc::new(Sound) };
    let refused = LocalDrive::open(options, seams).err();
    assert!(matches!(refused, Some(DriveError::Absent { .. })), "{refused:?}");
}

#[test]
fn a_link_on_the_way_leads_nowhere() {
    let bench = Bench::new();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), bench.folder.path().join("bkt/link")).unwrap();
    let version = object(VersionId::NULL, 1, 1, true);
    let refused = bench.commit(put("link/k", &version, Shards::Inline(vec![1; 33])));
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}
