//! The table of crash points: a node dies when one write is durable and the next is not, and its next life ends
//! in the state that the table requires.

use firedrill::protocol::replacement::checkpoint::Checkpoint;
use firedrill::protocol::replacement::discover;
use firedrill::protocol::replacement::discover::Alarm;
use firedrill::protocol::replacement::discover::Decision;
use firedrill::protocol::replacement::discover::DriveState;
use firedrill::protocol::replacement::failure::Failure;
use firedrill::protocol::replacement::ids::GenerationId;
use firedrill::protocol::replacement::intent::Phase;
use firedrill::protocol::replacement::lineage::HandoffPhase;
use firedrill::protocol::replacement::names;
use firedrill::protocol::replacement::names::Record;
use firedrill::protocol::replacement::prepare;
use firedrill::protocol::replacement::refusal::Refusal;
use firedrill::protocol::replacement::resolve;
use firedrill::protocol::replacement::start;
use firedrill::protocol::replacement::step::Step;

use crate::discovery::survey;
use crate::import::Orphans;
use crate::world::SET;
use crate::world::World;
use crate::world::first;
use crate::world::id;

/// Number, what is durable and the next is not, and the test of what has to come of it.
type Row = (u32, &'static str, fn());

#[rustfmt::skip]
const TABLE: &[Row] = &[
    (1, "the folder", c1),
    (2, "a temporary file of the intent", c2),
    (3, "the intent", || same_and_changed(Step::IntentPublished, 1)),
    (4, "the seal", || same_and_changed(Step::IntentSealed, 1)),
    (5, "one of two formats", c5),
    (6, "all formats, no marker", c6),
    (7, "one of two markers", c7),
    (8, "all markers, phase intent", || same_and_changed(Step::MarkerAcquired, 2)),
    (9, "rebuilding, no ledger", || same_and_changed(Step::RebuildingEntered, 1)),
    (10, "outcomes, the page unfinished", c10),
    (11, "the position, not the cursor", c11),
    (12, "the cursor, the ledger not pruned", c12),
    (13, "the bucket done, the ledger still on it", c13),
    (14, "a charged retry, the ledger not reset", c14),
    (15, "a readiness rewind of the ledger alone", c15),
    (16, "the internal objects", || same_and_changed(Step::InternalsSaved, 1)),
    (17, "the proof, phase rebuilding", c17),
    (18, "a torn proof", c18),
    (19, "phase verified", c19),
    (20, "one of two markers cleared", c20),
    (21, "all markers cleared, phase verified", c21),
    (22, "phase cleanup pending", c22),
    (23, "the ledger removed", c23),
    (24, "the intent removed, the seal left", c24),
    (25, "prepared, no successor", c25),
    (26, "the successor, no seal", c26),
    (27, "the successor's seal, no marker moved", || handed_over(Step::SuccessorSealed, 1)),
    (28, "one of two markers moved", c28),
    (29, "all markers moved, prepared", || handed_over(Step::MarkerMoved, 2)),
    (30, "markers owned", || handed_over(Step::MarkersOwned, 1)),
    (31, "committed, the successor pending", c31),
    (32, "the successor rebuilding", || handed_over(Step::RebuildingEntered, 2)),
    (33, "the predecessor bound again, the successor not", c33),
    (34, "some archives", || imported(Step::SourceArchived, 1)),
    (35, "the imported successor", c35),
    (36, "some sources retired", || imported(Step::SourceRetired, 1)),
    (37, "all sources retired, no receipt", || imported(Step::SourceRetired, 2)),
    (38, "the receipt, the approval present", c38),
    (39, "the successor over, the approval present", c39),
    (40, "the tool's temporary file", c40),
    (41, "the approval linked, the temporary file left", c41),
    (42, "the anchor lost", c42),
    (43, "a failure that was not recorded", c43),
];

/// Goal: every row of the table, and all of them.
#[test]
fn every_row_of_the_crash_table_ends_as_it_must() {
    let numbers: Vec<u32> = TABLE.iter().map(|row| row.0).collect();
    assert_eq!(numbers, (1..=43).collect::<Vec<_>>(), "the table has 43 rows");
    for (number, what, row) in TABLE {
        println!("C{number}: {what}");
        row();
    }
}

/// Goal: the rule behind the table. Whatever the last durable write was, the same mount ends in the same
/// generation, and a changed one in exactly one successor, or in none if nothing was published yet.
#[test]
fn a_crash_after_any_write_ends_in_one_proof() {
    let mut whole = World::blank(2);
    whole.begin(|_, _| false).unwrap();
    let writes = whole.log.len();
    for survived in 0..writes {
        for change in [None, Some(0), Some(1)] {
            let mut world = World::blank(2);
            world.begin(|world, _| world.log.len() > survived).unwrap();
            if let Some(target) = change {
                world.remount(target);
            }
            // A generation that is over stays over; else it is begun, or gone on with.
            let is_over = !world.has(Record::Intent, first()) && world.has(Record::Proof, first());
            if is_over {
                world.finish().unwrap();
            } else {
                world.begin(|_, _| false).unwrap();
            }
            let last = resolve::runner(&world.durable.files, first()).unwrap();
            assert!(world.proof(last).is_some(), "after {survived} writes: {:?}", world.log);
            assert!(!world.has(Record::Intent, last), "after {survived} writes: {:?}", world.log);
            assert!(world.durable.markers.iter().all(Option::is_none), "after {survived} writes");
            let handoffs = world.count(Step::HandoffPrepared);
            assert!(handoffs <= usize::from(change.is_some()), "after {survived} writes");
        }
    }
}

/// Goal: the same inside a handoff, where a second restart may change the mounts again.
#[test]
fn a_second_restart_anywhere_in_a_handoff_ends_in_one_proof() {
    let begin = || {
        let mut world = World::blank(2).until(Step::CursorSaved, 1);
        world.remount(0);
        world
    };
    let mut whole = begin();
    let before = whole.log.len();
    whole.finish().unwrap();
    let writes = whole.log.len() - before;
    let committed = whole.log.iter().position(|step| *step == Step::HandoffCommitted).unwrap();
    for survived in 0..writes {
        for second in 0..3 {
            let mut world = begin();
            world.live(first(), |world, _| world.log.len() - before > survived).unwrap();
            // Cleanup needs no target: what is mounted then is no business of a generation that is over.
            let is_over = world.count(Step::CleanupEntered) > 0;
            match second {
                _ if is_over => {}
                0 => {}
                1 => world.remount(0),
                _ => world.replace(1),
            }
            world.finish().unwrap();
            world.assert_over();
            let successors = world.count(Step::SuccessorPublished);
            let is_pending = before + survived < committed;
            let most = if is_pending || second == 0 { 1 } else { 2 };
            assert!(successors <= most, "{successors} after {survived}: {:?}", world.log);
        }
    }
}

/// After `step`: the same mount goes on as the same generation, a changed one hands off once.
fn same_and_changed(step: Step, nth: usize) {
    let world = World::blank(2).until(step, nth);
    same(&world);
    changed(&world);
}

fn same(world: &World) {
    let mut world = world.clone();
    world.begin(|_, _| false).unwrap();
    assert_eq!(world.assert_over(), first());
    assert_eq!(world.count(Step::HandoffPrepared), 0);
    assert_eq!(world.count(Step::TargetFormatted), 2, "no drive is formatted twice");
}

fn changed(world: &World) {
    let mut world = world.clone();
    world.remount(1);
    world.finish().unwrap();
    let last = world.assert_over();
    assert_ne!(last, first(), "a changed mount gets a successor");
    assert_eq!(world.count(Step::HandoffPrepared), 1);
    let old = world.intent(first()).unwrap();
    assert_eq!(old.phase, Phase::Abandoned, "the predecessor is kept as evidence");
    assert_eq!(old.handoff.unwrap().phase, HandoffPhase::Committed);
    assert_eq!(world.proof(last).unwrap().lineage.len(), 1);
}

/// A handoff that died after `step` ends with the same successor, whether the mounts change again or not.
fn handed_over(step: Step, nth: usize) {
    let world = handing_over(step, nth);
    let named = named_successor(&world);
    let mut same = world.clone();
    same.finish().unwrap();
    assert_eq!(same.assert_over(), named, "the successor that was named");
    assert_eq!(same.count(Step::SuccessorPublished), 1);
}

/// Two targets, the first pass under way, then a changed mount, up to `step` in the next life.
fn handing_over(step: Step, nth: usize) -> World {
    let mut world = World::blank(2).until(Step::CursorSaved, 1);
    world.remount(0);
    world.live_until(first(), step, nth);
    world
}

fn named_successor(world: &World) -> GenerationId {
    world.intent(first()).unwrap().handoff.unwrap().link.successor
}

fn c1() {
    let mut world = World::blank(1).until(Step::FolderMade, 1);
    assert!(world.durable.files.generations().is_empty(), "no generation was begun");
    world.remount(0);
    world.begin(|_, _| false).unwrap();
    assert_eq!(world.assert_over(), first());
}

fn c2() {
    let mut world = World::blank(1).until(Step::FolderMade, 1);
    let name = format!(".buckets_ahm-replacement_{}_ahm_replacement_intent.json.x.tmp", id(9));
    let path = format!("{}/{name}", names::FOLDER);
    world.durable.files.bytes.insert(path.clone(), b"{\"schema".to_vec());
    assert!(world.durable.files.generations().is_empty(), "a leftover is no record");
    world.begin(|_, _| false).unwrap();
    assert_eq!(world.assert_over(), first());
    assert!(world.durable.files.bytes.contains_key(&path), "what is not ours is not removed");
}

fn c5() {
    let world = World::blank(2).until(Step::TargetFormatted, 1);
    same(&world);
    changed(&world);
}

fn c6() {
    let world = World::blank(2).until(Step::TargetFormatted, 2);
    assert_eq!(world.durable.markers, [None, None]);
    let survey = survey(&world);
    let decision = discover::discover(&survey).decision;
    let anchor = survey.drives[2].endpoint.clone();
    let resume = Decision::Resume { generation: first(), anchor };
    assert_eq!(decision, resume, "only the record makes the drives discoverable");
    same(&world);
}

fn c7() {
    let world = World::blank(2).until(Step::MarkerAcquired, 1);
    same(&world);
    let mut moved = world.clone();
    moved.remount(1);
    moved.live_until(first(), Step::HandoffPrepared, 1);
    let link = moved.intent(first()).unwrap().handoff.unwrap().link;
    assert_eq!(link.expected_markers, [Some(format!("{SET}:{}", first())), None]);
    changed(&world);
}

fn c10() {
    let world = World::blank(1).until(Step::OutcomesSaved, 1);
    let before = world.intent(first()).unwrap();
    assert_eq!(before.resume_cursor, None);
    let mut after = world.clone();
    after.live_until(first(), Step::CursorSaved, 1);
    // The page was read again from the old cursor, and its finished versions were known.
    assert_eq!(after.count(Step::OutcomesSaved), 1);
    assert_eq!(ledger(&after).successful_objects, 2, "no version is counted twice");
}

fn c11() {
    let mut world = World::blank(1).until(Step::PositionSaved, 1);
    world.live_until(first(), Step::CursorSaved, 1);
    assert_eq!(world.count(Step::OutcomesSaved), 1, "every version of the page was known");
    assert_eq!(ledger(&world).successful_objects, 2);
    world.finish().unwrap();
    assert_eq!(world.assert_over(), first());
}

fn c12() {
    let world = World::blank(1).until(Step::CursorSaved, 1);
    assert!(!ledger(&world).known().is_empty());
    let mut world = world;
    world.live_until(first(), Step::CursorSaved, 2);
    assert_eq!(ledger(&world).successful_objects, 4, "stale names are harmless");
    world.finish().unwrap();
    assert_eq!(world.assert_over(), first());
}

fn c13() {
    let mut world = World::blank(1).until(Step::BucketCompleted, 1);
    assert_eq!(ledger(&world).current_bucket_index, 0);
    world.live(first(), |_, _| true).unwrap();
    assert_eq!(world.log.last(), Some(&Step::BucketAdvanced), "the bucket is not read again");
    world.finish().unwrap();
    assert_eq!(world.assert_over(), first());
}

/// A first pass that left a version out, and why.
fn failed_pass() -> (World, Refusal) {
    let mut world = World::blank(1);
    world.failing.insert("key-4".to_owned());
    let refusal = world.begin(|_, _| false).unwrap_err();
    assert!(matches!(refusal, Refusal::PassUnclean(_)), "{refusal}");
    let done = world.intent(first()).unwrap().completed_buckets;
    assert!(done.is_empty(), "the first bucket that is not clean stops the pass");
    (world, refusal)
}

fn c14() {
    let (mut world, refusal) = failed_pass();
    world.fail(first(), &Failure::Pass(refusal), 0, 1);
    assert_eq!(world.log.last(), Some(&Step::RetryArmed));
    assert!(!ledger(&world).is_clean(), "the ledger is the old one");
    world.failing.clear();
    world.finish().unwrap();
    assert_eq!(world.assert_over(), first());
    assert_eq!(world.count(Step::LedgerReset), 2, "the ledger was reset when it was read");
}

fn c15() {
    // The first bucket is done; the second is being read when the target goes away.
    let mut world = World::blank(1);
    world.begin(|world, _| world.count(Step::CursorSaved) == 3).unwrap();
    let before = world.intent(first()).unwrap();
    world.fail(first(), &Failure::TargetNotReady, 0, 1);
    assert_eq!(world.log.last(), Some(&Step::LedgerReset));
    assert_eq!(world.intent(first()).unwrap(), before, "the record is the old one");
    assert!(ledger(&world).is_fresh());
    world.finish().unwrap();
    // The first bucket stays done, the second goes on at the record's cursor; the deep check is what says that
    // nothing is missing.
    assert_eq!(world.assert_over(), first());
    let (mut world, _) = failed_pass();
    world.edit(first(), |intent| intent.skipped_objects = 1);
    world.fail(first(), &Failure::TargetNotReady, 0, 1);
    world.failing.clear();
    let refusal = world.finish().unwrap_err();
    assert!(
        matches!(refusal, Refusal::PassUnclean(_)),
        "a pass that left something out: {refusal}"
    );
    assert!(!world.has(Record::Proof, first()), "it never ends in a proof");
}

fn c17() {
    let mut world = World::blank(1).until(Step::ProofWritten, 1);
    assert_eq!(world.intent(first()).unwrap().phase, Phase::Rebuilding);
    world.live(first(), |_, _| true).unwrap();
    let intent = world.intent(first()).unwrap();
    assert_eq!((intent.phase, intent.completed), (Phase::Verified, true));
    assert_eq!(intent.last_update, world.proof(first()).unwrap().verified_at);
    world.finish().unwrap();
    world.assert_over();
    assert_eq!(world.count(Step::InternalsSaved), 1, "nothing is scanned again");
}

fn c18() {
    let mut world = World::blank(1).until(Step::InternalsSaved, 1);
    world.put(Record::Proof, first(), b"{\"schema_version\":2,\"task");
    world.finish().unwrap();
    assert_eq!(world.assert_over(), first());
}

fn c19() {
    let world = World::blank(2).until(Step::VerifiedSaved, 1);
    let mut same = world.clone();
    same.finish().unwrap();
    assert_eq!(same.assert_over(), first());
    assert_eq!(same.count(Step::InternalsSaved), 1);
    changed(&world);
    let mut changed = world.clone();
    changed.remount(0);
    changed.finish().unwrap();
    assert!(changed.proof(first()).is_some(), "the old proof is kept and means nothing");
    assert_eq!(changed.count(Step::InternalsSaved), 2, "the successor scans again");
}

fn c20() {
    let world = World::blank(2).until(Step::MarkerCleared, 1);
    assert_eq!(world.durable.markers.iter().flatten().count(), 1);
    same_cleanup(&world);
    let mut moved = world.clone();
    moved.remount(0);
    moved.live_until(first(), Step::HandoffPrepared, 1);
    let expected = moved.intent(first()).unwrap().handoff.unwrap().link.expected_markers;
    assert_eq!(expected, [None, Some(format!("{SET}:{}", first()))]);
    changed(&world);
}

fn c21() {
    let world = World::blank(2).until(Step::MarkerCleared, 2);
    same_cleanup(&world);
    changed(&world);
}

fn same_cleanup(world: &World) {
    let mut world = world.clone();
    world.finish().unwrap();
    assert_eq!(world.assert_over(), first());
    assert_eq!(world.count(Step::HandoffPrepared), 0);
}

fn c22() {
    let mut world = World::blank(1).until(Step::CleanupEntered, 1);
    let mounts = world.mounts.clone();
    world.mounts[0] = Err("the drive is gone".to_owned());
    world.finish().unwrap();
    world.mounts = mounts;
    world.assert_over();
}

fn c23() {
    let mut world = World::blank(1).until(Step::LedgerRemoved, 1);
    assert!(world.has(Record::Intent, first()));
    world.finish().unwrap();
    assert_eq!(world.assert_over(), first());
}

fn c24() {
    let world = World::blank(1).until(Step::IntentRemoved, 1);
    assert!(world.has(Record::Seal, first()));
    assert!(world.durable.files.generations().is_empty(), "a seal alone is no generation");
    assert!(world.proof(first()).is_some(), "the proof says that it is over");
}

fn c25() {
    handed_over(Step::HandoffPrepared, 1);
    let mut world = handing_over(Step::HandoffPrepared, 1);
    let named = named_successor(&world);
    world.remount(0);
    world.finish().unwrap();
    assert_eq!(world.assert_over(), named, "bound again, not named again");
}

fn c26() {
    handed_over(Step::SuccessorPublished, 1);
    let world = handing_over(Step::SuccessorPublished, 1);
    assert!(!world.has(Record::Seal, named_successor(&world)));
}

fn c28() {
    handed_over(Step::MarkerMoved, 1);
    let mut world = handing_over(Step::MarkerMoved, 1);
    let named = named_successor(&world);
    let moved = world.marker(0);
    assert_eq!(moved, Some(format!("{SET}:{named}")));
    world.live(first(), |world, _| world.count(Step::MarkersOwned) == 1).unwrap();
    assert_eq!(world.marker(0), moved, "a marker that has moved does not move again");
}

fn c31() {
    handed_over(Step::HandoffCommitted, 1);
    let mut world = handing_over(Step::HandoffCommitted, 1);
    let named = named_successor(&world);
    world.remount(1);
    world.finish().unwrap();
    let last = world.assert_over();
    assert_ne!(last, named, "the successor hands off in its turn");
    assert_eq!(world.proof(last).unwrap().lineage.len(), 2);
}

fn c33() {
    let mut world = handing_over(Step::SuccessorSealed, 1);
    let named = named_successor(&world);
    world.remount(0);
    world.live_until(first(), Step::HandoffRebound, 1);
    let link = world.intent(first()).unwrap().handoff.unwrap().link;
    assert_ne!(world.intent(named).unwrap().identities, link.targets, "not yet bound again");
    world.live_until(first(), Step::SuccessorRebound, 1);
    assert_eq!(world.intent(named).unwrap().identities, link.targets);
    assert_eq!(world.intent(named).unwrap().revision, 1);
    world.finish().unwrap();
    assert_eq!(world.assert_over(), named);
}

/// An import that died after `step` ends with the approval's successor, every source archived and retired.
fn imported(step: Step, nth: usize) {
    let mut orphans = Orphans::approved();
    orphans.import(|world, _| world.count(step) == nth).unwrap();
    assert_eq!(orphans.world.count(step), nth);
    orphans.finish();
}

fn c35() {
    imported(Step::ImportPublished, 1);
    let mut orphans = Orphans::approved();
    orphans.import(|_, step| step == Step::ImportPublished).unwrap();
    orphans.world.buckets.insert("archive".to_owned(), vec!["key-0".to_owned()]);
    orphans.import(|_, _| false).unwrap();
    let successor = orphans.world.intent(orphans.successor).unwrap();
    assert_eq!(successor.buckets, ["archive", "invoices", "photos"], "the plan may still grow");
    orphans.finish();
}

fn c38() {
    imported(Step::ReceiptWritten, 1);
    let mut orphans = Orphans::approved();
    orphans.import(|_, step| step == Step::ReceiptWritten).unwrap();
    let successor = orphans.successor;
    orphans.world.live_until(successor, Step::CursorSaved, 1);
    let before = orphans.world.durable.clone();
    orphans.import(|_, _| false).unwrap();
    assert!(!orphans.world.has(Record::Approval, successor));
    orphans.world.put(
        Record::Approval,
        successor,
        before.files.record(Record::Approval, successor).unwrap(),
    );
    assert!(orphans.world.durable == before, "nothing else changes");
}

fn c39() {
    let mut orphans = Orphans::approved();
    orphans.import(|_, step| step == Step::ReceiptWritten).unwrap();
    let successor = orphans.successor;
    orphans.world.finish_from(successor).unwrap();
    let before = orphans.world.durable.clone();
    let refusal = orphans.import(|_, _| false).unwrap_err();
    assert!(matches!(refusal, Refusal::ImportTargetsDiffer(_)), "{refusal}");
    assert!(orphans.world.durable == before, "nothing is written");
}

fn c40() {
    let orphans = Orphans::new();
    let approval = orphans.proposal();
    let staged = approval.encode_pretty();
    let mut world = orphans.world.clone();
    let path = format!("{}/.{}.migration.tmp", names::FOLDER, id(77));
    world.durable.files.bytes.insert(path, staged);
    assert!(world.durable.files.approval(orphans.successor).unwrap().is_none());
    // The tool is run again, under another staging name.
    let next = prepare::publication(&approval, id(78), None, None).unwrap().unwrap();
    assert_eq!(next.step, Step::ApprovalStaged);
}

fn c41() {
    let mut orphans = Orphans::new();
    let approval = orphans.proposal();
    let staging = id(77);
    for step in [Step::ApprovalStaged, Step::ApprovalPublished] {
        let bytes = approval.encode_pretty();
        let staged = (step != Step::ApprovalStaged).then_some(&*bytes);
        let write = prepare::publication(&approval, staging, staged, None).unwrap().unwrap();
        assert_eq!(write.step, step);
        orphans.world.perform(&write);
    }
    orphans.import(|_, _| false).unwrap();
    orphans.finish();
    let path = format!("{}/.{staging}.migration.tmp", names::FOLDER);
    assert!(orphans.world.durable.files.bytes.contains_key(&path), "the leftover is nobody's");
}

fn c42() {
    let world = World::blank(1).until(Step::CursorSaved, 1);
    let mut survey = survey(&world);
    survey.drives[1].state = DriveState::Away("no such device".to_owned());
    survey.drives[1].intents.clear();
    survey.drives[0].state = DriveState::Formatted;
    let found = discover::discover(&survey);
    assert_eq!(found.decision, Decision::Nothing, "nothing is started");
    assert!(matches!(found.alarms[..], [Alarm::MarkerWithoutIntent { .. }]), "{:?}", found.alarms);
    // A fresh generation on another anchor is refused by the marker.
    let mut other = world.clone();
    other.durable.files.bytes.clear();
    let request = start::Request { generation: id(5), ..other.request() };
    while let Some(write) = start::next_write(&other.durable, &request, &other.now(true)).unwrap() {
        other.perform(&write);
    }
    let refusal = other.finish_from(id(5)).unwrap_err();
    assert!(matches!(refusal, Refusal::MarkerForeign(_)), "{refusal}");
}

fn c43() {
    let (mut world, _) = failed_pass();
    world.failing.clear();
    assert_eq!(world.intent(first()).unwrap().retry_count, 0, "the attempt is not charged");
    let refusal = world.finish().unwrap_err();
    assert!(matches!(refusal, Refusal::PassUnclean(_)), "the old state: {refusal}");
}

fn ledger(world: &World) -> Checkpoint {
    world.durable.files.checkpoint(first()).unwrap().unwrap().value
}
