//! Three nodes with four drives each, in one set.

use std::thread;
use std::time::Duration;
use std::time::Instant;

use firedrill::protocol::control::Arm;
use firedrill::protocol::control::ArmAction;
use firedrill::protocol::crash_point::CrashPoint;

use crate::process::Cluster;

fn started() -> Cluster {
    let mut cluster = Cluster::new(3, 4);
    // In an order that nobody planned: the node that formats comes last.
    for node in [2, 1, 0] {
        cluster.start(node);
    }
    for node in 0..3 {
        cluster.wait_ready(node);
    }
    cluster
}

#[test]
fn every_node_tells_the_same_whichever_was_written_to() {
    let mut cluster = started();
    cluster.client(0).put("/bucket", b"").expect(200);
    let body = vec![5; 3_000_000];
    for node in 0..3 {
        cluster.client(node).put(&format!("/bucket/k{node}"), &body).expect(200);
    }
    for node in 0..3 {
        for key in 0..3 {
            let got = cluster.client(node).get(&format!("/bucket/k{key}")).expect(200);
            assert!(got.body == body, "node {node} has other bytes of k{key}");
        }
        let keys = cluster.client(node).get("/bucket?list-type=2").expect(200).elements("Key");
        assert_eq!(keys, ["k0", "k1", "k2"], "node {node}");
    }
    // One node goes, and comes back.
    cluster.kill(1);
    cluster.client(0).put("/bucket/k1", b"new").expect(200);
    assert_eq!(cluster.client(2).get("/bucket/k1").expect(200).body, b"new");
    cluster.start(1);
    cluster.wait_ready(1);
    assert_eq!(cluster.client(1).get("/bucket/k1").expect(200).body, b"new");
}

#[test]
fn nodes_that_compete_for_a_key_let_exactly_one_win() {
    let cluster = started();
    cluster.client(0).put("/bucket", b"").expect(200);
    for round in 0..5 {
        let puts: Vec<_> = (0..6)
            .map(|racer| {
                let client = cluster.client(racer % 3);
                let key = format!("/bucket/race{round}");
                let body = format!("{racer}");
                thread::spawn(move || {
                    let create = [("if-none-match", "*")];
                    client.send("PUT", &key, &create, body.as_bytes()).status
                })
            })
            .collect();
        let mut answers: Vec<_> =
            puts.into_iter().map(|put| put.join().expect("a thread")).collect();
        answers.sort_unstable();
        assert_eq!(answers, [200, 412, 412, 412, 412, 412], "round {round}");
    }
}

/// Goal: a node is frozen while it holds the lock of a conditional PUT, past its lease; another node
/// takes the lock and writes. When the first goes on, its write must not replace what the second wrote.
#[test]
fn a_holder_that_was_frozen_past_its_lease_overwrites_nothing() {
    let mut cluster = Cluster::new(3, 4);
    let arm = Arm {
        id: 1,
        point: CrashPoint::ConditionChecked,
        drive: None,
        bucket: Some("bucket".to_owned()),
        key: Some("k".to_owned()),
        nth: 1,
        action: ArmAction::Hold,
    };
    cluster.start_armed(0, vec![arm]);
    cluster.start(1);
    cluster.start(2);
    for node in 0..3 {
        cluster.wait_ready(node);
    }
    cluster.client(1).put("/bucket", b"").expect(200);
    let create = [("if-none-match", "*")];
    let frozen = cluster.client(0);
    let first = thread::spawn(move || frozen.send("PUT", "/bucket/k", &create, b"stale").status);
    cluster.reached(0, 1);
    cluster.freeze(0, true);
    let began = Instant::now();
    let second = loop {
        let answer = cluster.client(1).send("PUT", "/bucket/k", &create, b"fresh");
        if answer.status != 503 {
            break answer;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{answer}");
    };
    second.expect(200);
    cluster.freeze(0, false);
    cluster.release(0, 1);
    let stale = first.join().expect("a thread");
    assert_ne!(stale, 200, "a lapsed holder was told that it wrote");
    for node in 0..3 {
        let got = cluster.client(node).get("/bucket/k").expect(200);
        assert_eq!(got.body, b"fresh", "node {node} shows what a lapsed holder wrote");
    }
}

#[test]
fn a_minority_of_nodes_may_be_missing_at_the_start() {
    let mut cluster = started();
    cluster.client(0).put("/bucket", b"").expect(200);
    cluster.client(0).put("/bucket/k", b"body").expect(200);
    for node in 0..3 {
        cluster.terminate(node);
    }
    cluster.start(2);
    cluster.start(1);
    for node in [1, 2] {
        cluster.wait_ready(node);
        assert_eq!(cluster.client(node).get("/bucket/k").expect(200).body, b"body");
    }
    cluster.client(2).put("/bucket/k2", b"body").expect(200);
    cluster.start(0);
    cluster.wait_ready(0);
    assert_eq!(cluster.client(0).get("/bucket/k2").expect(200).body, b"body");
}
