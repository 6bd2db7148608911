//! What an older release does about a set, and which approvals are about one.

use std::collections::BTreeMap;

use firedrill::protocol::replacement::checkpoint::Checkpoint;
use firedrill::protocol::replacement::flat;
use firedrill::protocol::replacement::ids::SetId;
use firedrill::protocol::replacement::import;
use firedrill::protocol::replacement::intent::Phase;
use firedrill::protocol::replacement::legacy;
use firedrill::protocol::replacement::legacy::Looked;
use firedrill::protocol::replacement::legacy::Release;
use firedrill::protocol::replacement::legacy::Turn;
use firedrill::protocol::replacement::names;
use firedrill::protocol::replacement::names::Record;
use firedrill::protocol::replacement::refusal::Refusal;
use firedrill::protocol::replacement::scan::Class;
use firedrill::protocol::replacement::scan::Done;
use firedrill::protocol::replacement::scan::Outcome;
use firedrill::protocol::replacement::step::Step;
use firedrill::protocol::replacement::store::Files;

use crate::import::Orphans;
use crate::world::SET;
use crate::world::World;
use crate::world::drive;
use crate::world::first;

const HERE: SetId = SetId { pool: 0, set: 2 };

/// The drives of a set: its survivor, which holds the world's records, its target, and one more.
fn looked(world: &World) -> Vec<Looked> {
    let survivor = Looked {
        endpoint: "/survivor".to_owned(),
        is_local: true,
        files: world.durable.files.clone(),
        ..Looked::default()
    };
    let target = Looked {
        endpoint: drive(0, 0).identity.endpoint,
        is_local: true,
        is_waiting: world.mounts[0].as_ref().unwrap().is_blank(),
        marker: world.durable.markers[0].clone(),
        ..Looked::default()
    };
    let files = Files::default();
    let other = Looked { endpoint: "/other".to_owned(), is_local: true, files, ..survivor.clone() };
    vec![target, survivor, other]
}

#[test]
fn an_older_release_begins_on_what_is_blank_or_was_given_up() {
    let world = World::blank(1);
    let begins = legacy::decide(Release::Legacy6, HERE, &looked(&world));
    let targets = vec![drive(0, 0).identity.endpoint];
    let begin = Turn::Begin { targets: targets.clone(), anchor: "/survivor".to_owned() };
    assert_eq!(begins.as_ref(), Ok(&begin));
    // One that was given up has left its marker, and a second one goes on.
    let orphans = Orphans::new();
    let drives = looked(&orphans.world);
    let turn = legacy::decide(Release::Legacy6, HERE, &drives);
    let generation = orphans.sources[1];
    let resume = Turn::Resume { generation, targets, anchor: "/survivor".to_owned() };
    assert_eq!(turn, Ok(resume));
    let newer = legacy::decide(Release::Legacy5, HERE, &drives);
    assert!(matches!(newer, Err(Refusal::DowngradeRefused(_))), "{newer:?}");
    // Without it, a marker that nobody answers for is reason enough for another.
    let mut alone = Orphans::new().world;
    alone.remove(Record::Intent, generation);
    let turn = legacy::decide(Release::Legacy5, HERE, &looked(&alone));
    assert_eq!(turn, Ok(begin));
}

#[test]
fn an_older_release_leaves_alone_what_is_nobodys_or_another_nodes() {
    let mut world = World::blank(1);
    world.mounts[0].as_mut().unwrap().format_id = Some("slot-0".to_owned());
    assert_eq!(legacy::decide(Release::Legacy6, HERE, &looked(&world)), Ok(Turn::Nothing));
    let orphans = Orphans::new();
    let mut drives = looked(&orphans.world);
    drives[0].is_local = false;
    assert_eq!(legacy::decide(Release::Legacy6, HERE, &drives), Ok(Turn::Nothing));
    let elsewhere = SetId { pool: 0, set: 7 };
    drives[0].is_local = true;
    drives[0].marker = None;
    assert_eq!(legacy::decide(Release::Legacy6, elsewhere, &drives), Ok(Turn::Nothing));
}

/// Goal: the ledger of schema 5 has no name for the null version; that of schema 6 has.
#[test]
fn each_release_calls_the_null_version_by_its_own_name() {
    let null = "1:k00000000-0000-0000-0000-000000000000";
    for (release, called) in [(Release::Legacy5, "1:k"), (Release::Legacy6, null)] {
        let mut world = World::blank(1);
        let now = world.now(true);
        while let Some(write) =
            legacy::start(release, &world.durable, &world.request(), &now).unwrap()
        {
            world.perform(&write);
        }
        let outcome = Outcome { key: null.to_owned(), class: Class::Rebuilt, bytes: 1 };
        loop {
            let now = world.now(false);
            let done = Done::Outcomes(vec![outcome.clone()]);
            let write = legacy::next_write(release, &world.durable, first(), &now, &done);
            let write = write.unwrap().unwrap();
            world.perform(&write);
            if write.step == Step::OutcomesSaved {
                break;
            }
        }
        let bytes = world.durable.files.record(Record::Checkpoint, first()).unwrap();
        let ledger = Checkpoint::parse(bytes).unwrap();
        assert_eq!(ledger.processed_objects, [called], "{release:?}");
    }
}

#[test]
fn an_approval_of_another_set_or_of_other_drives_is_refused() {
    let approval = Orphans::new().proposal();
    let endpoints = vec![drive(0, 0).identity.endpoint];
    assert_eq!(import::check_scope(&approval, HERE, &endpoints), Ok(()));
    let elsewhere = SetId { pool: 0, set: 7 };
    let refusal = import::check_scope(&approval, elsewhere, &endpoints).unwrap_err();
    assert!(matches!(refusal, Refusal::SetDiffers(_)), "{refusal}");
    let refusal = import::check_scope(&approval, HERE, &["/other".to_owned()]).unwrap_err();
    assert!(matches!(refusal, Refusal::ImportTargetsDiffer(_)), "{refusal}");
    assert_eq!(approval.set_disk_id, SET);
}

#[test]
fn every_generation_with_a_flat_record_is_found_and_no_other() {
    let world = World::blank(1).until(Step::CursorSaved, 1);
    assert!(flat::generations(&world.durable.files).is_empty());
    let phases = [Record::FlatIntent, Record::FlatProof, Record::FlatIndex, Record::ResumeState];
    for record in phases {
        let bytes = BTreeMap::from([(names::path(record, first()), Vec::new())]);
        let files = Files { bytes, ..Files::default() };
        assert_eq!(flat::generations(&files).len(), 1, "{record:?}");
    }
    assert_eq!(world.intent(first()).unwrap().phase, Phase::Rebuilding);
}
