//! What a process makes of the object that it finds, or does not find.

use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::fence::Cancelled;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::strong::hydrate::Look;
use crate::protocol::catalog::strong::hydrate::Memory;
use crate::protocol::catalog::strong::hydrate::Reader;
use crate::protocol::catalog::strong::hydrate::Reading;
use crate::protocol::catalog::strong::hydrate::Stat;
use crate::protocol::catalog::strong::tests::contents;
use crate::protocol::catalog::strong::tests::loaded;

fn stat(etag: &str) -> Stat {
    Stat { etag: etag.to_owned(), epoch: None }
}

/// A process that has seen a snapshot of this version.
fn seen(version: u32) -> Memory {
    Memory::default().install(&loaded(&contents(1), version)).unwrap()
}

#[test]
fn an_unchanged_object_is_not_read_again() {
    let memory = seen(1);
    let etag = memory.etag.clone().unwrap();
    assert_eq!(memory.look(Some(&stat(&etag))), Ok(Look::Use));
    assert_eq!(memory.look(Some(&stat("another"))), Ok(Look::Reload));
    assert_eq!(memory.look(None), Ok(Look::Reload));
    assert_eq!(memory.has_tried().look(Some(&stat(&etag))), Ok(Look::Reload));
    assert_eq!(Memory::default().look(None), Ok(Look::Reload));
    assert_eq!(Memory::default().install_empty().look(None), Ok(Look::Use));
}

#[test]
fn f30_a_snapshot_that_disappears_is_missed() {
    let memory = seen(1);
    for reader in [Reader::Strong, Reader::Migration] {
        assert_eq!(memory.judge(None, None, reader).unwrap_err().class, Class::Damaged);
    }
    let tried = Memory::default().has_tried();
    assert!(tried.judge(None, None, Reader::Migration).is_err(), "a failed first write, too");
    assert_eq!(memory.judge(Some("e"), Some(&stat("e")), Reader::Strong), Ok(Reading::TakeOver));
}

#[test]
fn f31_a_strong_process_needs_a_snapshot_and_a_migration_does_not() {
    let fresh = Memory::default();
    assert_eq!(fresh.judge(None, None, Reader::Strong).unwrap_err().class, Class::Damaged);
    assert_eq!(fresh.judge(None, None, Reader::Migration), Ok(Reading::Empty));
}

#[test]
fn f32_an_object_needs_an_etag_that_stays() {
    let fresh = Memory::default();
    assert!(fresh.look(Some(&stat(""))).is_err());
    assert!(fresh.judge(Some(""), Some(&stat("")), Reader::Strong).is_err());
    assert_eq!(fresh.judge(Some("a"), Some(&stat("b")), Reader::Strong), Ok(Reading::Again));
    assert_eq!(fresh.judge(None, Some(&stat("b")), Reader::Strong), Ok(Reading::Again));
    assert!(fresh.judge(Some("a"), None, Reader::Strong).is_err());
}

#[test]
fn f36_an_older_version_is_refused_until_a_restart() {
    let memory = seen(2);
    let older = loaded(&contents(1), 1);
    assert_eq!(memory.install(&older).unwrap_err().class, Class::Invalid);
    assert!(memory.install(&loaded(&contents(1), 2)).is_ok(), "putting it back heals");
    assert!(Memory::default().install(&older).is_ok(), "a restart consents");
}

#[test]
fn an_older_epoch_is_refused_until_a_restart() {
    let at = |epoch| {
        let mut loaded = loaded(&contents(1), 1);
        loaded.epoch = epoch;
        loaded
    };
    let memory = Memory::default().install(&at(Some(7))).unwrap();
    assert_eq!(memory.install(&at(Some(6))).unwrap_err().class, Class::Invalid);
    assert!(memory.install(&at(Some(7))).is_ok() && memory.install(&at(Some(8))).is_ok());
    let foreign = memory.install(&at(None)).unwrap();
    assert_eq!(foreign.epoch, Some(7), "another server's snapshot is taken, and nothing forgotten");
    assert!(Memory::default().install(&at(Some(6))).is_ok(), "a restart consents");
}

#[test]
fn f54_only_a_process_that_held_nothing_may_take_a_failed_first_write_for_none() {
    let fence = BucketFence::preparing("lake1", "m", false, None);
    let tried = Memory::default().has_tried();
    assert_eq!(tried.explained([&fence], None), Some(Memory::default()));
    assert_eq!(tried.explained([], None), None, "no fence knows that there was none");
    assert_eq!(seen(1).explained([&fence], None), None, "it has held a snapshot");
    let mut held = tried.clone();
    held.version = Some(1);
    assert_eq!(held.explained([&fence], None), None);
    for other in [
        BucketFence::preparing("lake2", "m", false, Some("e")),
        BucketFence { version: 1, ..fence.clone() },
        fence.materialized("f", "e"),
    ] {
        assert_eq!(tried.explained([&fence, &other], None), None, "{other:?}");
    }
}

#[test]
fn what_the_last_cancellation_removed_is_not_missed() {
    let mut memory = seen(1);
    memory.epoch = Some(4);
    assert_eq!(memory.explained([], Some(&Cancelled::new(4))), Some(Memory::default()));
    assert_eq!(memory.explained([], Some(&Cancelled::new(3))), None, "it was a later one");
    let fence = BucketFence::preparing("lake1", "m", false, None).materialized("f", "e");
    assert_eq!(memory.explained([&fence], Some(&Cancelled::new(4))), None);
}
