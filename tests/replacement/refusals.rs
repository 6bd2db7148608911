//! Every condition that stops recovery: it names itself by its number, and every byte stays.

use std::collections::BTreeSet;

use firedrill::protocol::replacement::approval::Approval;
use firedrill::protocol::replacement::checkpoint::Checkpoint;
use firedrill::protocol::replacement::failure;
use firedrill::protocol::replacement::failure::Failure;
use firedrill::protocol::replacement::flat;
use firedrill::protocol::replacement::intent::Intent;
use firedrill::protocol::replacement::intent::Layout;
use firedrill::protocol::replacement::intent::Phase;
use firedrill::protocol::replacement::lineage::HandoffPhase;
use firedrill::protocol::replacement::names::Record;
use firedrill::protocol::replacement::proof::Proof;
use firedrill::protocol::replacement::refusal::Effect;
use firedrill::protocol::replacement::refusal::Refusal;
use firedrill::protocol::replacement::resolve;
use firedrill::protocol::replacement::run;
use firedrill::protocol::replacement::scan::Checked;
use firedrill::protocol::replacement::scan::Done;
use firedrill::protocol::replacement::scan::Page;
use firedrill::protocol::replacement::start;
use firedrill::protocol::replacement::step::Step;
use firedrill::protocol::replacement::store::Now;

use crate::world::SET;
use crate::world::World;
use crate::world::first;
use crate::world::id;

/// A rebuild in its first bucket.
fn rebuilding() -> World {
    World::blank(2).until(Step::CursorSaved, 1)
}

/// A handoff that has got as far as `step`.
fn handing_over(step: Step, nth: usize) -> World {
    let mut world = rebuilding();
    world.remount(0);
    world.live_until(first(), step, nth);
    world
}

fn successor(world: &World) -> firedrill::protocol::replacement::ids::GenerationId {
    world.intent(first()).unwrap().handoff.unwrap().link.successor
}

fn link(world: &World) -> firedrill::protocol::replacement::lineage::Link {
    world.intent(first()).unwrap().handoff.unwrap().link
}

/// Damages, and the number that has to be named.
type Row = (&'static str, fn() -> World, fn(&mut World));

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("E2", rebuilding, |it| it.edit(first(), |intent| intent.task_id = id(5))),
    ("E3", rebuilding, |it| it.edit(first(), |intent| intent.schema_version = 8)),
    ("E4", rebuilding, |it| it.edit(first(), |intent| { intent.schema_version = 6; intent.layout = Layout::Legacy; })),
    ("E5", rebuilding, |it| it.put(Record::Intent, first(), b"{\"schema_version\":7")),
    ("E5", rebuilding, |it| it.put(Record::Intent, first(), b"")),
    ("E7", rebuilding, |it| it.edit(first(), |intent| intent.protocol = 0)),
    ("E7", rebuilding, |it| it.edit(first(), |intent| intent.predecessor = Some(id(5)))),
    ("E7", rebuilding, |it| it.edit(first(), |intent| intent.generation = Some(id(5)))),
    ("E7", rebuilding, |it| it.edit(first(), |intent| intent.set_disk_id = "set".to_owned())),
    ("E9", || handing_over(Step::HandoffCommitted, 1), |it| { let next = successor(it); it.edit(next, |intent| intent.identities[0].canonical_path = "/x".to_owned()); }),
    ("E8", rebuilding, |it| { let link = link(&handing_over(Step::HandoffPrepared, 1)); it.edit(first(), |intent| intent.lineage = vec![link]); }),
    ("E9", rebuilding, |it| it.edit(first(), |intent| { intent.identities.pop(); })),
    ("E9", rebuilding, |it| it.edit(first(), |intent| intent.identities.swap(0, 1))),
    ("E10", rebuilding, |it| it.edit(first(), |intent| intent.phase = Phase::HandoffPending)),
    ("E10", || handing_over(Step::HandoffPrepared, 1), |it| it.edit(first(), |intent| intent.phase = Phase::Rebuilding)),
    ("E10", || handing_over(Step::HandoffPrepared, 1), |it| it.edit(first(), |intent| intent.completed = true)),
    ("E10", || handing_over(Step::HandoffPrepared, 1), |it| it.edit(first(), |intent| intent.handoff.as_mut().unwrap().phase = HandoffPhase::Committed)),
    ("E11", || handing_over(Step::HandoffPrepared, 1), |it| it.edit(first(), |intent| intent.handoff.as_mut().unwrap().link.successor = first())),
    ("E11", || handing_over(Step::HandoffPrepared, 1), |it| it.edit(first(), |intent| { intent.handoff.as_mut().unwrap().link.expected_markers.pop(); })),
    ("E11", || handing_over(Step::HandoffPrepared, 1), |it| it.edit(first(), |intent| intent.handoff.as_mut().unwrap().link.expected_markers[0] = Some("x".to_owned()))),
    ("E11", || handing_over(Step::HandoffPrepared, 1), |it| it.edit(first(), |intent| intent.handoff.as_mut().unwrap().link.buckets.reverse())),
    ("E12", rebuilding, |it| it.edit(first(), |intent| intent.legacy_successor = Some(id(5)))),
    ("E13", rebuilding, |it| it.edit(first(), |intent| intent.legacy_import = Some(foreign_approval()))),
    ("E16", rebuilding, |it| { let mut proof = proof(it); proof.set_disk_id = "pool_0_set_3".to_owned(); it.put(Record::Proof, first(), &proof.encode()); }),
    ("E17", || handing_over(Step::HandoffCommitted, 1), |it| { let next = successor(it); let proof = Proof::of(&it.intent(next).unwrap(), 1, 2).encode(); it.put(Record::Proof, next, &proof); }),
    ("E19", rebuilding, |it| { let mut proof = proof(it); proof.schema_version = 3; it.put(Record::Proof, first(), &proof.encode()); }),
    ("E21", rebuilding, |it| { it.edit(first(), |intent| intent.revision = u64::MAX); it.remount(0); }),
    ("E22", rebuilding, |it| it.mounts[1] = Err("the path is no mount point".to_owned())),
    ("E27", rebuilding, |it| it.durable.markers[0] = Some(vec![b'a'; 257])),
    ("E27", rebuilding, |it| it.durable.markers[1] = Some(vec![0xff])),
    ("E28", rebuilding, |it| it.durable.markers[1] = Some(b"pool_0_set_2:x".to_vec())),
    ("E28", || World::blank(2).until(Step::TargetsNoted, 1), |it| it.durable.markers[1] = Some(b"other".to_vec())),
    ("E31", rebuilding, |it| { it.remount(0); it.durable.markers[1] = Some(b"other".to_vec()); }),
    ("E32", || handing_over(Step::MarkerMoved, 1), |it| it.durable.markers[1] = Some(b"other".to_vec())),
    ("E33", rebuilding, |it| it.mounts.swap(0, 1)),
    ("E34", rebuilding, |it| { it.remount(0); let long = long_lineage(it); it.edit(first(), |intent| { intent.predecessor = long.last().map(|link| link.predecessor); intent.lineage = long; }); }),
    ("E37", || handing_over(Step::MarkersOwned, 1), |it| { let mut mount = it.mounts[1].clone().unwrap(); mount.format_id = None; it.mounts[1] = Ok(mount); it.durable.markers[1] = None; }),
    ("E37", || handing_over(Step::SuccessorSealed, 1), |it| { let mut mount = it.mounts[1].clone().unwrap(); mount.format_id = None; it.mounts[1] = Ok(mount); it.durable.markers[1] = None; }),
    ("E38", || handing_over(Step::SuccessorSealed, 1), |it| { let next = successor(it); it.edit(next, |intent| intent.processed_objects = 1); it.remount(0); }),
    ("E38", || handing_over(Step::SuccessorSealed, 1), |it| { let next = successor(it); it.put(Record::Checkpoint, next, b""); it.remount(0); }),
    ("E39", || handing_over(Step::SuccessorSealed, 1), |it| { let next = successor(it); it.edit(next, |intent| { let mut link = intent.lineage[0].clone(); link.source_sha256 = [0; 32]; intent.lineage[0] = link; }); }),
    ("E40", || handing_over(Step::HandoffCommitted, 1), |it| { let next = successor(it); it.remove(Record::Intent, next); }),
    ("E41", || handing_over(Step::HandoffCommitted, 1), |it| it.remove(Record::Intent, first())),
    ("E44", rebuilding, |it| it.edit(first(), |intent| intent.retry_count = 3)),
    ("E44", rebuilding, |it| { it.edit(first(), |intent| intent.retry_count = 3); it.remount(0); }),
    ("E62", rebuilding, |it| { it.put(Record::Blocked, first(), b"blocked"); let spoilt = Checkpoint::fresh(first(), 1).encode(); it.put(Record::Checkpoint, first(), &spoilt); }),
    ("E68", || World::blank(2).until(Step::VerifiedSaved, 1), |it| it.durable.markers[0] = Some(b"other".to_vec())),
    ("E79", || handing_over(Step::SuccessorSealed, 1), |it| { it.remount(1); it.durable.markers[1] = None; }),
    ("E79", || handing_over(Step::SuccessorSealed, 1), |it| it.durable.markers[1] = None),
    ("Q16", rebuilding, |it| it.durable.files.is_blank = true),
    ("3.1", rebuilding, |it| it.edit(first(), |intent| intent.phase = Phase::Abandoned)),
];

fn proof(world: &World) -> Proof {
    Proof::of(&world.intent(first()).unwrap(), 1, 2)
}

fn foreign_approval() -> Approval {
    crate::import::Orphans::new().proposal()
}

/// A whole chain of 32 links that ends in the first generation.
fn long_lineage(world: &World) -> Vec<firedrill::protocol::replacement::lineage::Link> {
    let template = link(&handing_over(Step::HandoffPrepared, 1));
    let intent = world.intent(first()).unwrap();
    (0..32_u128)
        .map(|number| {
            let mut link = template.clone();
            link.predecessor = id(100 + number);
            link.successor = if number == 31 { first() } else { id(101 + number) };
            let owner = format!("{SET}:{}", link.predecessor);
            link.expected_markers = vec![Some(owner); 2];
            link.targets.clone_from(&intent.identities);
            link
        })
        .collect()
}

/// Goal: each condition refuses by its own number, and no byte changes, whoever asks how often.
#[test]
fn every_condition_names_itself_and_leaves_every_byte() {
    let mut wrong = Vec::new();
    for (index, (number, begin, damage)) in ROWS.iter().enumerate() {
        let mut world = begin();
        damage(&mut world);
        let before = world.durable.clone();
        let root = if *number == "E41" { id(1000 + 10 * world.lives + 14) } else { first() };
        let root = world.durable.files.generations().into_iter().find(|it| *it == root);
        let root = root.unwrap_or_else(|| world.durable.files.generations()[0]);
        match world.finish_from(root) {
            Ok(()) => wrong.push(format!("row {index}: {number} was not refused")),
            Err(refusal) => {
                if refusal.number() != *number {
                    wrong
                        .push(format!("row {index}: {} for {number}: {refusal}", refusal.number()));
                }
                if world.durable != before {
                    let steps = &world.log[world.log.len() - 2..];
                    wrong.push(format!("row {index}: {number} changed something: {steps:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Goal: no two conditions of different remedies are confused, and every number of the table is tried somewhere.
#[test]
fn the_numbers_tried_here_are_in_the_table() {
    let table: BTreeSet<&str> = Refusal::TABLE.iter().map(|row| row.1).collect();
    let tried: BTreeSet<&str> = ROWS.iter().map(|row| row.0).collect();
    assert!(tried.is_subset(&table), "{:?}", tried.difference(&table));
    assert!(tried.len() > 30, "{} conditions", tried.len());
}

/// Goal: a checkpoint that cannot be trusted is flagged once, and stays as it is.
#[test]
fn a_ledger_that_cannot_be_trusted_is_flagged_and_kept() {
    let mut world = rebuilding();
    let spoilt = Checkpoint::fresh(first(), 1).encode();
    world.put(Record::Checkpoint, first(), &spoilt);
    let refusal = world.finish().unwrap_err();
    assert_eq!(refusal.number(), "E62");
    assert_eq!(world.log.last(), Some(&Step::LedgerFlagged));
    assert_eq!(world.durable.files.record(Record::Checkpoint, first()), Some(&*spoilt));
}

/// Goal: flat copies of older releases: moved, removed, or left, and never believed over another.
#[test]
fn flat_records_are_moved_when_whole_and_left_when_in_doubt() {
    let world = rebuilding();
    let intent = world.durable.files.record(Record::Intent, first()).unwrap().to_vec();
    let ask = |world: &World| flat::next_write(&world.durable.files, first());
    let mut twin = world.clone();
    twin.put(Record::FlatIntent, first(), &intent);
    assert_eq!(ask(&twin).unwrap().unwrap().step, Step::FlatRemoved);
    let mut lone = twin.clone();
    lone.remove(Record::Intent, first());
    assert_eq!(ask(&lone).unwrap().unwrap().step, Step::FlatMoved);
    let mut other = twin.clone();
    other.edit(first(), |intent| intent.retry_count = 1);
    assert_eq!(ask(&other).unwrap_err().number(), "E14");
    let mut torn = world.clone();
    torn.put(Record::FlatIntent, first(), b"{");
    assert_eq!(ask(&torn).unwrap_err().number(), "E15");
    let mut legacy = world.clone();
    let old = Intent { schema_version: 5, layout: Layout::Early, ..world.intent(first()).unwrap() };
    legacy.put(Record::ResumeState, first(), &old.encode());
    assert_eq!(ask(&legacy).unwrap_err().number(), "E4");
    let mut ordinary = world.clone();
    let heal =
        Intent { schema_version: 5, layout: Layout::Early, task_id: first(), ..Intent::default() };
    ordinary.put(Record::ResumeState, first(), &heal.encode());
    assert_eq!(ask(&ordinary), Ok(None), "an ordinary heal's state is nobody's conflict");
    let mut proofs = world.clone();
    proofs.put(Record::Proof, first(), &proof(&world).encode());
    let later = Proof { verified_at: 2, ..proof(&world) };
    proofs.put(Record::FlatProof, first(), &later.encode());
    assert_eq!(ask(&proofs).unwrap_err().number(), "E18");
    let mut index = world.clone();
    index.put(Record::FlatIndex, first(), b"");
    assert_eq!(ask(&index).unwrap().unwrap().step, Step::FlatRemoved);
}

/// Goal: what a refusal costs. Conflicts pin the budget, broken passes cost one, waiting costs nothing.
#[test]
fn a_refusal_costs_what_its_effect_says() {
    let count = |world: &World| world.intent(first()).unwrap().retry_count;
    let refused = |change: fn(&mut World)| {
        let mut world = rebuilding();
        change(&mut world);
        let refusal = world.finish().unwrap_err();
        (world, refusal)
    };
    let (mut world, refusal) = refused(|it| it.durable.markers[0] = Some(b"other".to_vec()));
    assert_eq!(refusal.effect(), Effect::Pin);
    world.fail(first(), &Failure::Refused(refusal.clone()), 0, 9);
    assert_eq!(count(&world), 3);
    assert_eq!(world.intent(first()).unwrap().error_message, Some(refusal.to_string()));
    assert_eq!(world.finish().unwrap_err().number(), "E44", "pinned until it is re-armed");
    let (mut world, refusal) = refused(|it| it.mounts[0] = Err("gone".to_owned()));
    let before = world.durable.clone();
    world.fail(first(), &Failure::Refused(refusal), 0, 9);
    assert!(world.durable == before, "waiting leaves no trace");
    let mut world = rebuilding();
    world.fail(first(), &Failure::Other("cancelled".to_owned()), 0, 9);
    world.fail(first(), &Failure::Other("cancelled".to_owned()), 0, 9);
    assert_eq!(count(&world), 1, "one attempt is charged once");
    let mut world = World::blank(1).until(Step::VerifiedSaved, 1);
    let before = world.durable.clone();
    world.fail(first(), &Failure::Other("timeout".to_owned()), 0, 9);
    assert!(world.durable == before, "what was found whole is not doubted");
}

/// Goal: three failed passes are the end on whatever mount, until somebody re-arms it.
#[test]
fn an_exhausted_budget_is_the_end_until_it_is_rearmed() {
    let mut world = World::blank(1);
    world.failing.insert("key-4".to_owned());
    let mut refusal = world.begin(|_, _| false).unwrap_err();
    for pass in 0..3 {
        assert_eq!(refusal.number(), "E58", "pass {pass}: {refusal}");
        world.fail(first(), &Failure::Pass(refusal), pass, 9);
        assert_eq!(world.intent(first()).unwrap().retry_count, pass + 1);
        refusal = world.finish().unwrap_err();
    }
    assert_eq!(refusal.number(), "E44");
    let before = world.durable.clone();
    for mount in 0..3 {
        if mount > 0 {
            world.remount(0);
        }
        world.fail(first(), &Failure::TargetNotReady, 3, 9);
        let refusal = world.finish().unwrap_err();
        world.fail(first(), &Failure::Refused(refusal.clone()), 3, 9);
        assert_eq!(refusal.number(), "E44", "another mount re-arms nothing");
        assert!(world.durable == before, "no tick writes anything");
    }
    world.failing.clear();
    while let Some(write) = failure::rearm(&world.durable, first(), &world.now(false)).unwrap() {
        world.perform(&write);
    }
    assert_eq!(world.intent(first()).unwrap().retry_count, 0);
    world.finish().unwrap();
    world.assert_over();
}

/// Goal: handoffs cost nothing. Five mount changes in a row end in one proof with five links.
#[test]
fn mount_changes_are_bounded_by_the_lineage_alone() {
    let mut world = rebuilding();
    for nth in 1..=5 {
        world.remount(nth % 2);
        world.live_until(first(), Step::RebuildingEntered, nth + 1);
    }
    world.finish().unwrap();
    let last = world.assert_over();
    assert_eq!(world.proof(last).unwrap().lineage.len(), 5);
    assert_eq!(world.count(Step::SuccessorPublished), 5);
}

/// Goal: a drive that was swapped under recycled numbers, at any moment of the rebuild, is not taken for the old one.
#[test]
fn a_drive_under_recycled_numbers_gets_a_successor() {
    let steps =
        [Step::RebuildingEntered, Step::CursorSaved, Step::InternalsSaved, Step::VerifiedSaved];
    for step in steps {
        let mut world = World::blank(2).until(step, 1);
        world.replace_under_recycled_numbers(1);
        world.finish().unwrap();
        assert_ne!(world.assert_over(), first(), "after {step:?} the old cursor was resumed");
    }
    // Without the side-file nothing is the same: a record that another server left begins again.
    let mut world = rebuilding();
    world.remove(Record::Note, first());
    world.finish().unwrap();
    assert_ne!(world.assert_over(), first(), "an unknown drive was taken for the same");
}

/// Goal: a new blank drive during a pending transfer is a case, wherever it stands, and a marker that somebody
/// removed by hand is none.
#[test]
fn a_new_blank_drive_during_a_pending_transfer_gets_the_same_successor() {
    let moments = [
        (Step::HandoffPrepared, 1),
        (Step::SuccessorPublished, 1),
        (Step::SuccessorSealed, 1),
        (Step::MarkerMoved, 1),
        (Step::MarkerMoved, 2),
        (Step::MarkersOwned, 1),
    ];
    for (step, nth) in moments {
        for target in 0..2 {
            let mut world = handing_over(step, nth);
            let named = successor(&world);
            world.replace(target);
            world.finish().unwrap();
            assert_eq!(world.assert_over(), named, "after {step:?}, drive {target}");
            let proof = world.proof(named).unwrap();
            assert_eq!(proof.lineage.len(), 1);
        }
    }
}

/// Goal: a failed acquisition takes its own new markers back, the last first; a transfer takes none back.
#[test]
fn a_failed_acquisition_takes_back_what_it_wrote() {
    let mut world = World::blank(2).until(Step::MarkerAcquired, 1);
    world.durable.markers[1] = Some(b"other".to_vec());
    assert_eq!(world.finish().unwrap_err().number(), "E28");
    let back = run::roll_back(&world.durable, first(), &[0, 1]).unwrap().unwrap();
    world.perform(&back);
    assert_eq!(world.durable.markers, [None, Some(b"other".to_vec())]);
    assert_eq!(run::roll_back(&world.durable, first(), &[0, 1]), Ok(None));
    let moved = handing_over(Step::MarkerMoved, 1);
    let next = successor(&moved);
    assert_eq!(run::roll_back(&moved.durable, next, &[0]), Ok(None));
}

/// Goal: a marker goes only beside a proof; one that was lost is written again first.
#[test]
fn a_proof_that_was_lost_is_written_again_before_a_marker_goes() {
    for step in [Step::VerifiedSaved, Step::CleanupEntered] {
        let mut world = World::blank(1).until(step, 1);
        world.remove(Record::Proof, first());
        world.live(first(), |_, _| true).unwrap();
        assert_eq!(world.log.last(), Some(&Step::ProofWritten), "after {step:?}");
        world.finish().unwrap();
        world.assert_over();
    }
}

/// Goal: no proof without a clean pass and a check that found everything.
#[test]
fn a_proof_needs_a_clean_pass_and_a_clean_check() {
    let mut world = World::blank(1);
    world.unproved = 1;
    let refusal = world.begin(|_, _| false).unwrap_err();
    assert!(matches!(refusal, Refusal::CheckUnclean(_)), "{refusal}");
    assert!(!world.has(Record::Proof, first()));
    let now = world.now(false);
    let nothing = Done::Checked(Checked::default());
    let answer = run::next_write(&world.durable, first(), &now, &nothing);
    assert!(matches!(answer, Err(Refusal::CheckUnclean(_))), "a check of nothing proves nothing");
    let world = rebuilding();
    let early = Done::Checked(Checked { versions: 99, unproved: 0 });
    let answer = run::next_write(&world.durable, first(), &world.now(false), &early);
    assert!(matches!(answer, Err(Refusal::PhaseUnfit(_))), "{answer:?}");
}

/// Goal: a listing that does not lead on ends the pass.
#[test]
fn a_page_that_leads_nowhere_is_refused() {
    let world = rebuilding();
    let cursor = world.intent(first()).unwrap().resume_cursor;
    for outcomes in [0, 1] {
        let outcome = firedrill::protocol::replacement::scan::Outcome {
            key: "1:a".to_owned(),
            class: firedrill::protocol::replacement::scan::Class::Rebuilt,
            bytes: 0,
        };
        let page = Page {
            cursor: cursor.clone(),
            outcomes: vec![outcome; outcomes],
            next_cursor: if outcomes == 0 { Some("dw1:eg".to_owned()) } else { cursor.clone() },
            ..Page::default()
        };
        let answer = run::next_write(&world.durable, first(), &world.now(false), &Done::Page(page));
        assert_eq!(answer.unwrap_err().number(), "E61");
    }
}

/// Goal: who has passed its targets on reserves nothing; who has not, reserves the set.
#[test]
fn only_open_generations_keep_a_fresh_one_from_starting() {
    let ask = |world: &World| {
        let request = start::Request { generation: id(7), ..world.request() };
        start::next_write(&world.durable, &request, &world.now(true))
    };
    for step in [Step::IntentPublished, Step::CursorSaved, Step::CleanupEntered] {
        let world = World::blank(1).until(step, 1);
        assert_eq!(ask(&world).unwrap_err().number(), "E49", "after {step:?}");
    }
    let mut world = rebuilding();
    world.remount(0);
    world.finish().unwrap();
    assert!(world.has(Record::Intent, first()), "the predecessor is kept");
    assert_eq!(ask(&world).unwrap().unwrap().step, Step::IntentPublished);
}

/// Goal: a torn record that was never sealed may be published over; one that was sealed may not.
#[test]
fn a_torn_record_is_published_again_only_without_a_seal() {
    for torn in [&b""[..], b"{\"schema_ver"] {
        let mut world = World::blank(1).until(Step::FolderMade, 1);
        world.put(Record::Intent, first(), torn);
        let mut sealed = world.clone();
        world.begin(|_, _| false).unwrap();
        world.assert_over();
        sealed.put(Record::Seal, first(), b"sealed");
        let refusal = sealed.begin(|_, _| false).unwrap_err();
        assert_eq!(refusal.number(), "E5", "it may have allowed a format");
    }
}

/// Goal: the questions of startup and scanner are one, so they have one answer.
#[test]
fn asking_twice_is_answered_the_same() {
    let mut world = rebuilding();
    world.remount(0);
    let now: Now = world.now(true);
    let one = resolve::next_write(&world.durable, first(), &now);
    assert_eq!(one, resolve::next_write(&world.durable, first(), &now));
    assert_eq!(one.unwrap().unwrap().step, Step::HandoffPrepared);
}
