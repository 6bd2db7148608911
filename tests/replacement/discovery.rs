//! What a node makes of a set, and what it tells about it.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use firedrill::protocol::replacement::discover;
use firedrill::protocol::replacement::discover::Alarm;
use firedrill::protocol::replacement::discover::Decision;
use firedrill::protocol::replacement::discover::Drive;
use firedrill::protocol::replacement::discover::DriveState;
use firedrill::protocol::replacement::discover::Survey;
use firedrill::protocol::replacement::ids::GenerationId;
use firedrill::protocol::replacement::intent::Intent;
use firedrill::protocol::replacement::intent::Phase;
use firedrill::protocol::replacement::refusal::Refusal;
use firedrill::protocol::replacement::resolve;
use firedrill::protocol::replacement::status;
use firedrill::protocol::replacement::status::DriveRecords;
use firedrill::protocol::replacement::status::PeerAnswer;
use firedrill::protocol::replacement::status::State;
use firedrill::protocol::replacement::step::Step;

use crate::world::SET;
use crate::world::World;
use crate::world::first;
use crate::world::id;

fn decision(survey: &Survey) -> Decision {
    discover::discover(survey).decision
}

fn anchor(survey: &Survey) -> String {
    survey.drives.last().unwrap().endpoint.clone()
}

#[test]
fn blank_drives_of_a_node_are_begun_together_on_a_survivor() {
    let found = survey(&World::blank(2));
    let targets = found.drives[..2].iter().map(|drive| drive.endpoint.clone()).collect();
    let begin = Decision::Begin { targets, anchor: anchor(&found), torn: None };
    assert_eq!(decision(&found), begin);
    let mut without = found;
    without.drives[2].state = DriveState::Blank;
    without.drives[2].is_local = false;
    let found = discover::discover(&without);
    assert!(matches!(found.decision, Decision::Wait(_)));
    assert_eq!(found.alarms, [Alarm::NoAnchor]);
}

#[test]
fn a_second_blank_drive_waits_for_the_first_generation_and_does_not_stop_it() {
    let world = World::blank(1).until(Step::CursorSaved, 1);
    let mut found = survey(&world);
    let mut extra = found.drives[0].clone();
    extra.endpoint = "http://node-b.example:9000/srv/zzz".to_owned();
    (extra.state, extra.marker) = (DriveState::Blank, None);
    found.drives.insert(1, extra.clone());
    let resume = Decision::Resume { generation: first(), anchor: anchor(&found) };
    assert_eq!(decision(&found), resume);
    found.active.insert(first());
    assert!(matches!(decision(&found), Decision::Wait(_)), "its executor holds the leases");
    // When the first is over, whatever it was handed on through, the second begins.
    let mut over = world;
    over.remount(0);
    over.finish().unwrap();
    let mut found = survey(&over);
    found.drives.insert(1, extra.clone());
    let begin =
        Decision::Begin { targets: vec![extra.endpoint], anchor: first_local(&found), torn: None };
    assert_eq!(decision(&found), begin);
}

fn first_local(survey: &Survey) -> String {
    survey.drives[0].endpoint.clone()
}

/// Goal: two nodes began one drive each at the same moment: both agree who goes first, and nobody waits for ever.
#[test]
fn of_two_generations_begun_at_once_the_smaller_endpoint_goes_first() {
    let intent = |endpoint: &str, number, phase| Intent {
        task_id: id(number),
        generation: Some(id(number)),
        targets: vec![endpoint.to_owned()],
        set_disk_id: SET.to_owned(),
        max_retries: 3,
        phase,
        ..Intent::default()
    };
    let base = survey(&World::blank(2));
    let (one, two) = (base.drives[0].endpoint.clone(), base.drives[1].endpoint.clone());
    let on_node = |mine: usize, phases: [Phase; 2]| {
        let mut found = base.clone();
        found.drives[1 - mine].is_local = false;
        let records = [intent(&one, 9, phases[0]), intent(&two, 8, phases[1])];
        let records = records.map(|intent| (intent.task_id, Ok(intent)));
        found.drives[2].intents = BTreeMap::from(records);
        decision(&found)
    };
    let both = [Phase::Intent, Phase::Intent];
    let runs = |decision: &Decision, number| matches!(decision, Decision::Resume { generation, .. } if *generation == id(number));
    assert!(runs(&on_node(0, both), 9));
    assert!(matches!(on_node(1, both), Decision::Wait(_)));
    // Who has begun does not wait, and then the other one does.
    let late = [Phase::Intent, Phase::Rebuilding];
    assert!(runs(&on_node(1, late), 8));
    assert!(matches!(on_node(0, late), Decision::Wait(_)));
}

#[test]
fn a_marker_without_a_record_and_an_anchor_that_is_away_start_nothing() {
    let world = World::blank(2).until(Step::CursorSaved, 1);
    let mut found = survey(&world);
    found.anchors.insert(first(), anchor(&found));
    found.drives[2].state = DriveState::Away("EIO".to_owned());
    found.drives[2].intents.clear();
    found.drives[1].state = DriveState::Blank;
    found.drives[1].marker = None;
    // Another survivor could hold a record, and still nothing is begun.
    let mut survivor = found.drives[2].clone();
    survivor.endpoint = "http://node-b.example:9000/srv/other".to_owned();
    survivor.state = DriveState::Formatted;
    found.drives.push(survivor);
    let discovery = discover::discover(&found);
    assert!(matches!(discovery.decision, Decision::Wait(_)), "{discovery:?}");
    let is_told = |wanted: fn(&Alarm) -> bool| discovery.alarms.iter().any(wanted);
    assert!(is_told(|alarm| matches!(alarm, Alarm::MarkerWithoutIntent { .. })));
    assert!(is_told(|alarm| matches!(alarm, Alarm::AnchorAway { .. })));
}

#[test]
fn a_record_that_cannot_be_trusted_blocks_the_set() {
    let world = World::blank(1).until(Step::CursorSaved, 1);
    let good = survey(&world);
    let blocked = |change: fn(&mut Survey)| {
        let mut found = good.clone();
        change(&mut found);
        let discovery = discover::discover(&found);
        assert!(!discovery.alarms.is_empty() || matches!(discovery.decision, Decision::Block(_)));
        match discovery.decision {
            Decision::Block(refusal) => refusal.number(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(blocked(|it| put(it, |intent| intent.last_update += 1)), "E50");
    assert_eq!(blocked(|it| put(it, |intent| intent.buckets.clear())), "E50");
    let ahead = blocked(|it| {
        put(it, |intent| {
            intent.revision += 1;
            intent.buckets.clear();
        });
    });
    assert_eq!(ahead, "E50", "no save changes what a record is bound to");
    assert_eq!(
        blocked(|it| put(it, |intent| intent.set_disk_id = "pool_0_set_9".to_owned())),
        "E48"
    );
    assert_eq!(
        blocked(|it| {
            let read = Intent::read(first(), b"{");
            it.drives[0].intents.insert(first(), read);
        }),
        "E5"
    );
    // A later revision of the same record counts.
    let mut found = good.clone();
    put(&mut found, |intent| intent.revision += 1);
    let resume = Decision::Resume { generation: first(), anchor: found.drives[0].endpoint.clone() };
    assert_eq!(decision(&found), resume);
}

/// Goal: a drive is never taken for another one's target because a record was edited: its marker tells.
#[test]
fn a_drive_that_is_marked_by_a_generation_of_other_slots_blocks_the_set() {
    let world = World::blank(1).until(Step::CursorSaved, 1);
    let mut found = survey(&world);
    let elsewhere = "http://node-b.example:9000/srv/zzz".to_owned();
    let mut intent = found.drives[1].intents[&first()].clone().unwrap();
    intent.targets = vec![elsewhere.clone()];
    intent.identities[0].endpoint = elsewhere;
    found.drives[1].intents.insert(first(), Ok(intent));
    let discovery = discover::discover(&found);
    match &discovery.decision {
        Decision::Block(refusal) => assert_eq!(refusal.number(), "E33"),
        other => panic!("{other:?}"),
    }
    assert_eq!(discovery.alarms.iter().map(Alarm::name).collect::<Vec<_>>(), ["E33"]);
}

fn put(found: &mut Survey, change: fn(&mut Intent)) {
    let mut intent = found.drives[1].intents[&first()].clone().unwrap();
    change(&mut intent);
    found.drives[0].intents.insert(first(), Ok(intent));
}

#[test]
fn an_exhausted_or_abandoned_generation_blocks_its_set() {
    let mut world = World::blank(1).until(Step::CursorSaved, 1);
    world.edit(first(), |intent| intent.retry_count = 3);
    let exhausted = decision(&survey(&world));
    assert!(matches!(exhausted, Decision::Block(Refusal::BudgetExhausted(_))), "{exhausted:?}");
    world.edit(first(), |intent| {
        intent.retry_count = 0;
        intent.phase = Phase::Abandoned;
    });
    let abandoned = decision(&survey(&world));
    assert!(matches!(abandoned, Decision::Block(Refusal::Abandoned(_))), "{abandoned:?}");
}

fn records(world: &World) -> DriveRecords {
    let files = &world.durable.files;
    let intents = files.generations().into_iter();
    let mut records = DriveRecords {
        intents: intents.map(|id| (id, files.intent_of(id).map(|it| it.value))).collect(),
        ..DriveRecords::default()
    };
    let last = resolve::runner(files, first()).unwrap();
    if let Some(proof) = world.proof(last) {
        records.proofs.insert(last, Ok(proof));
    }
    records
}

fn state(world: &World, of: GenerationId, live: &[GenerationId]) -> State {
    let live: BTreeSet<_> = live.iter().copied().collect();
    let snapshot = status::snapshot(&[records(world)], &live);
    let record = snapshot.records.iter().find(|record| record.task_id == of.to_string());
    record.unwrap().state
}

#[test]
fn the_status_follows_the_record_and_running_needs_an_executor() {
    let at = |step| World::blank(1).until(step, 1);
    let published = at(Step::IntentPublished);
    assert_eq!(state(&published, first(), &[]), State::WaitingForReplacement);
    let rebuilding = at(Step::CursorSaved);
    assert_eq!(state(&rebuilding, first(), &[first()]), State::Running);
    assert_eq!(state(&rebuilding, first(), &[id(5)]), State::Unknown, "another one's executor");
    assert!(!status::snapshot(&[records(&rebuilding)], &BTreeSet::new()).definitive);
    assert_eq!(state(&at(Step::VerifiedSaved), first(), &[]), State::CleanupPending);
    let mut over = rebuilding.clone();
    over.finish().unwrap();
    assert_eq!(state(&over, first(), &[]), State::Completed);
    let mut failed = rebuilding.clone();
    failed.edit(first(), |intent| intent.error_message = Some("EIO".to_owned()));
    assert_eq!(state(&failed, first(), &[first()]), State::Incomplete);
    failed.edit(first(), |intent| intent.retry_count = 3);
    assert_eq!(state(&failed, first(), &[]), State::Unrecoverable);
    let mut handed = rebuilding.clone();
    handed.remount(0);
    handed.finish().unwrap();
    assert_eq!(state(&handed, first(), &[]), State::HandedOver, "not unrecoverable");
}

#[test]
fn the_status_is_told_in_the_words_of_the_contract() {
    let mut world = World::blank(1);
    world.begin(|_, _| false).unwrap();
    let snapshot = status::snapshot(&[records(&world)], &BTreeSet::new());
    let told = serde_json::to_value(&snapshot).unwrap();
    let keys: Vec<_> = told["records"][0].as_object().unwrap().keys().map(String::as_str).collect();
    let expected =
        ["generation", "reason", "setDiskId", "state", "targetSlots", "taskId", "verifiedAt"];
    assert_eq!(keys.iter().copied().collect::<BTreeSet<_>>(), BTreeSet::from(expected));
    assert_eq!(
        (&told["definitive"], &told["records"][0]["state"]),
        (&true.into(), &"completed".into())
    );
    let cluster = |peers: &[PeerAnswer]| status::cluster(&snapshot, peers);
    let empty = status::Snapshot { definitive: true, ..status::Snapshot::default() };
    assert!(cluster(&[PeerAnswer::Snapshot(empty)]).definitive, "an empty peer contradicts nobody");
    assert!(cluster(&[PeerAnswer::Snapshot(snapshot.clone())]).definitive);
    for (peer, reason) in [
        (PeerAnswer::Unavailable, "peer_replacement_recovery_status_unavailable"),
        (PeerAnswer::Unsupported, "peer_replacement_recovery_status_unsupported"),
    ] {
        assert_eq!(cluster(&[peer]).reason.as_deref(), Some(reason));
    }
    let mut other = snapshot.clone();
    other.records[0].verified_at = Some(1);
    let reason = cluster(&[PeerAnswer::Snapshot(other)]).reason;
    assert_eq!(reason.as_deref(), Some("peer_replacement_recovery_status_conflict"));
}

/// What a node sees of `world`: its targets, and one survivor that holds the records.
pub fn survey(world: &World) -> Survey {
    let mut drives: Vec<Drive> = Vec::new();
    for (index, mount) in world.mounts.iter().enumerate() {
        let state = match mount {
            Ok(mount) if mount.is_blank() => DriveState::Blank,
            Ok(_) => DriveState::Formatted,
            Err(reason) => DriveState::Away(reason.clone()),
        };
        drives.push(Drive {
            endpoint: crate::world::drive(index, 0).identity.endpoint,
            is_local: true,
            state,
            marker: world.durable.markers[index].clone(),
            intents: BTreeMap::new(),
            torn: BTreeSet::new(),
        });
    }
    let files = &world.durable.files;
    let intents = files.generations().into_iter();
    let intents = intents.map(|id| (id, files.intent_of(id).map(|stored| stored.value)));
    drives.push(Drive {
        endpoint: "http://node-b.example:9000/srv/survivor".to_owned(),
        is_local: true,
        state: DriveState::Formatted,
        marker: None,
        intents: intents.collect(),
        torn: BTreeSet::new(),
    });
    Survey { set: SET.parse().unwrap(), drives, active: BTreeSet::new(), anchors: BTreeMap::new() }
}
