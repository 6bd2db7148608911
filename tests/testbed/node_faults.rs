//! Faults of processes and lines: kill, pause, restart, lost and half requests, partitions.

use std::time::Duration;
use std::time::Instant;

use firedrill::harness::fault::Strike;
use firedrill::harness::scenario::plan::Filesystem;
use firedrill::harness::testbed::Identity;
use firedrill::harness::workload::history::Event;
use firedrill::harness::workload::history::FaultPhase::Healed;
use firedrill::harness::workload::history::FaultPhase::InForce;
use firedrill::harness::workload::history::FaultPhase::Injected;
use firedrill::harness::workload::history::FaultPhase::NotReached;
use firedrill::harness::workload::history::Fence;
use firedrill::harness::workload::history::NodeState;
use libtest_mimic::Trial;
use tokio::time::sleep;

use crate::bed::Bed;
use crate::bed::run;

pub fn trials() -> Vec<Trial> {
    vec![
        Trial::test("a_killed_node_refuses_clients_until_it_is_healed", || {
            run(a_killed_node_refuses_clients_until_it_is_healed())
        }),
        Trial::test("a_node_is_killed_while_a_task_is_held_at_a_crash_point", || {
            run(a_node_is_killed_while_a_task_is_held())
        }),
        Trial::test("a_fault_whose_point_is_never_passed_is_told_as_not_reached", || {
            run(a_fault_whose_point_is_never_passed())
        }),
        Trial::test("a_paused_node_uses_no_processor_and_goes_on", || run(a_paused_node_goes_on())),
        Trial::test("a_restart_changes_the_identity_of_every_drive_and_no_byte", || {
            run(a_restart_changes_every_identity())
        }),
        Trial::test("a_restart_with_the_same_mounts_changes_none", || {
            run(a_restart_with_the_same_mounts_changes_none())
        }),
        Trial::test("a_lost_reply_takes_effect_and_never_arrives", || run(a_lost_reply())),
        Trial::test("half_a_request_takes_no_effect", || run(half_a_request())),
        Trial::test("a_one_way_partition_loses_requests_or_answers", || run(a_one_way_partition())),
        Trial::test("a_delay_is_measured_and_lifted", || run(a_delay())),
        Trial::test("a_hung_peer_serves_clients", || run(a_hung_peer())),
    ]
}

async fn a_killed_node_refuses_clients_until_it_is_healed() {
    let bed = Bed::started(1, 2, Filesystem::Ext4).await;
    bed.must_strike("kill: { node: 0 }").await;
    assert!(!bed.testbed.is_running(0));
    let refused = tokio::net::TcpStream::connect(bed.testbed.client_address(0)).await;
    assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    bed.progress.count_ended();
    assert_eq!(bed.strike("kill: { node: 0 }").await, Strike::NotReached, "it is dead already");
    bed.injector.heal_all().await.unwrap();
    bed.work(0, "again").await;
    assert_eq!(bed.phases(), [Injected, NotReached, InForce, Healed], "{:?}", bed.told());
    let events = bed.events();
    let dead = Event::Node { node: 0, state: NodeState::Dead };
    let dead = events.iter().position(|event| *event == dead).unwrap();
    assert_eq!(events[dead + 1], Event::Fence(Fence::NodeRestarted { node: 0 }));
    bed.end().await;
}

async fn a_node_is_killed_while_a_task_is_held() {
    let bed = Bed::started(1, 2, Filesystem::Ext4).await;
    let (answer, ()) = tokio::join!(
        async {
            // Until the point is armed nothing holds a request.
            loop {
                match bed.ask(0, "PUT /b/held", "body").await {
                    Some(_) => sleep(Duration::from_millis(5)).await,
                    None => return "no answer",
                }
            }
        },
        bed.must_strike("kill: { node: 0, at: put.meta_renamed }"),
    );
    assert_eq!(answer, "no answer");
    let told = bed.told();
    assert_eq!(told[0].at.as_deref(), Some("put.meta_renamed"));
    assert!(told[1].evidence.contains("held at put.meta_renamed"), "{told:?}");
    assert!(bed.root("0/0").join("_b_held").exists(), "a kill lost what was written");
    bed.injector.heal_all().await.unwrap();
    bed.end().await;
}

async fn a_fault_whose_point_is_never_passed() {
    let bed = Bed::started(1, 2, Filesystem::Ext4).await;
    let fault =
        firedrill::yaml::parse("fault", "kill: { node: 0, at: put.before_answer }").unwrap();
    let armed = bed.injector.prepare(&fault);
    let strike = bed.injector.strike(armed, Duration::from_millis(200)).await.unwrap();
    assert_eq!(strike, Strike::NotReached);
    assert_eq!(bed.phases(), [NotReached]);
    assert!(bed.testbed.is_running(0));
    bed.work(0, "again").await;
    bed.end().await;
}

async fn a_paused_node_goes_on() {
    let bed = Bed::started(1, 2, Filesystem::Ext4).await;
    bed.progress.count_invoked();
    let begun = Instant::now();
    bed.must_strike("pause: { node: 0, for_ms: 300 }").await;
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert_eq!(bed.phases(), [Injected, InForce, Healed], "{:?}", bed.told());
    bed.progress.count_ended();
    bed.work(0, "again").await;
    bed.end().await;
}

fn identities(bed: &Bed) -> Vec<Identity> {
    let names = bed.testbed.drives().into_iter().map(|drive| drive.name);
    names.map(|name| bed.testbed.identity(&name).unwrap()).collect()
}

async fn a_restart_changes_every_identity() {
    let bed = Bed::started(1, 4, Filesystem::Ext4).await;
    bed.work(0, "before").await;
    for order in ["kept", "exchanged", "reversed"] {
        let before = identities(&bed);
        bed.must_strike(&format!("vm_restart: {{ node: 0, mounts: changed, order: {order} }}"))
            .await;
        let after = identities(&bed);
        for (old, new) in before.iter().zip(&after) {
            assert_eq!(old.uuid, new.uuid, "{order}: the drives were mixed up");
            assert_ne!(old.device, new.device, "{order}");
            assert_ne!(old.st_dev, new.st_dev, "{order}");
            assert_ne!(old.mount_id, new.mount_id, "{order}");
        }
        let devices =
            |all: &[Identity]| all.iter().map(|one| one.device.clone()).collect::<Vec<_>>();
        let (before, after) = (devices(&before), devices(&after));
        match order {
            "exchanged" => assert_eq!(after[..2], [before[1].clone(), before[0].clone()]),
            "reversed" => assert_eq!(after, before.iter().rev().cloned().collect::<Vec<_>>()),
            _ => assert!(after.iter().all(|device| !before.contains(device))),
        }
        assert_eq!(bed.told().last().unwrap().phase, Healed);
        assert!(bed.root("0/0").join("_b_before").exists(), "{order}: a byte was lost");
        bed.work(0, order).await;
    }
    let changed: usize =
        bed.told().iter().filter(|e| e.phase == Injected).map(|e| e.drives.len()).sum();
    assert_eq!(changed, 12, "every drive, every time");
    bed.end().await;
}

async fn a_restart_with_the_same_mounts_changes_none() {
    let bed = Bed::started(1, 2, Filesystem::Ext4).await;
    let before = identities(&bed);
    bed.must_strike("vm_restart: { node: 0, mounts: same }").await;
    assert_eq!(before, identities(&bed));
    assert!(bed.told()[0].drives.is_empty(), "no drive changed: {:?}", bed.told());
    bed.work(0, "again").await;
    bed.end().await;
}

async fn a_lost_reply() {
    let bed = Bed::started(1, 2, Filesystem::Ext4).await;
    bed.must_strike("lost_reply: { node: 0, request: put, count: 2 }").await;
    assert_eq!(bed.phases(), [], "nothing was caught yet");
    // A request that is not meant passes.
    assert_eq!(bed.ask(0, "GET /b/k", "").await.unwrap().0, 404);
    for key in ["one", "two"] {
        assert_eq!(bed.ask(0, &format!("PUT /b/{key}"), "body").await, None, "{key} was answered");
        assert!(bed.root("0/0").join(format!("_b_{key}")).exists(), "{key} took no effect");
    }
    bed.work(0, "three").await;
    bed.injector.heal_all().await.unwrap();
    assert_eq!(bed.phases(), [Injected, InForce, Injected, InForce, Healed], "{:?}", bed.told());
    bed.must_strike("lost_reply: { node: 0, request: put }").await;
    bed.injector.heal_all().await.unwrap();
    assert_eq!(bed.phases()[5..], [NotReached], "a trap that caught nothing proved nothing");
    bed.work(0, "four").await;
    bed.end().await;
}

async fn half_a_request() {
    let bed = Bed::started(1, 2, Filesystem::Ext4).await;
    bed.must_strike("half_request: { node: 0, request: put }").await;
    let body = "x".repeat(300_000);
    assert_eq!(bed.ask(0, "PUT /b/half", &body).await, None);
    assert!(!bed.root("0/0").join("_b_half").exists(), "half a request took effect");
    bed.injector.heal_all().await.unwrap();
    let told = bed.told();
    assert!(told[0].evidence.contains("150000 of 300000 bytes"), "{told:?}");
    bed.work(0, "half").await;
    bed.end().await;
}

async fn a_one_way_partition() {
    let bed = Bed::started(2, 1, Filesystem::Ext4).await;
    let relay = async |from: usize, to: usize, key: &str| {
        let (_, words) = bed.ask(from, &format!("POST /{to}/{key}"), "").await.unwrap();
        let took_effect = bed.root(&format!("{to}/0")).join(format!("_relayed_{key}")).exists();
        (words == "answered", took_effect)
    };
    assert_eq!(relay(0, 1, "a").await, (true, true));
    bed.must_strike("partition: { from: [0], to: [1], one_way: true }").await;
    assert_eq!(relay(0, 1, "b").await, (false, false), "a request got through the cut");
    assert_eq!(relay(1, 0, "c").await, (false, true), "its answer must be lost, not itself");
    bed.work(0, "clients").await;
    bed.work(1, "clients").await;
    bed.injector.heal_all().await.unwrap();
    assert_eq!(bed.phases(), [Injected, InForce, Healed], "{:?}", bed.told());
    assert!(bed.told()[1].evidence.contains("thrown away"), "{:?}", bed.told());
    assert_eq!(relay(0, 1, "d").await, (true, true));
    assert!(!bed.root("1/0").join("_relayed_b").exists(), "what was cut arrived later");
    bed.must_strike("partition: { from: [0], to: [1] }").await;
    assert_eq!(relay(0, 1, "e").await, (false, false));
    assert_eq!(relay(1, 0, "f").await, (false, false));
    bed.injector.heal_all().await.unwrap();
    assert_eq!(relay(1, 0, "g").await, (true, true));
    bed.end().await;
}

async fn a_delay() {
    let bed = Bed::started(2, 1, Filesystem::Ext4).await;
    bed.must_strike("delay: { from: [0], to: [1], by_ms: 100 }").await;
    let begun = Instant::now();
    let (_, words) = bed.ask(0, "POST /1/slow", "").await.unwrap();
    assert_eq!(words, "answered");
    assert!(begun.elapsed() >= Duration::from_millis(200), "there and back: {:?}", begun.elapsed());
    bed.progress.count_ended();
    bed.injector.heal_all().await.unwrap();
    assert_eq!(bed.phases(), [Injected, InForce, Healed], "{:?}", bed.told());
    bed.end().await;
}

async fn a_hung_peer() {
    let bed = Bed::started(2, 1, Filesystem::Ext4).await;
    bed.must_strike("hang_peer: { node: 1 }").await;
    assert_eq!(bed.ask(0, "POST /1/k", "").await.unwrap().1, "silent");
    assert_eq!(bed.ask(1, "POST /0/k", "").await.unwrap().1, "answered", "it still asks others");
    bed.work(1, "clients").await;
    bed.injector.heal_all().await.unwrap();
    assert_eq!(bed.phases(), [Injected, InForce, Healed], "{:?}", bed.told());
    assert_eq!(bed.ask(0, "POST /1/k", "").await.unwrap().1, "answered");
    bed.end().await;
}
