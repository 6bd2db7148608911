//! What a node says and refuses besides S3, how it starts, and how it ends.

use std::fs;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use firedrill::protocol::admin::DriveCondition;
use firedrill::protocol::admin::HealProgress;
use firedrill::protocol::admin::HealStarted;
use firedrill::protocol::admin::HealState;
use firedrill::protocol::admin::NodeStatus;
use firedrill::protocol::admin::Readiness;
use firedrill::protocol::control::Arm;
use firedrill::protocol::control::ArmAction;
use firedrill::protocol::control::Defect;
use firedrill::protocol::control::ToNode;
use firedrill::protocol::crash_point::CrashPoint;
use firedrill::protocol::replacement::status::Answer;

use crate::client::Client;
use crate::client::Sent;
use crate::process::Cluster;
use crate::process::SOON;

#[test]
fn nothing_is_told_of_replacements_where_there_were_none() {
    let mut cluster = Cluster::new(2, 2);
    cluster.start(0);
    cluster.start(1);
    cluster.wait_ready(0);
    cluster.wait_ready(1);
    let answer = cluster.client(0).get("/firedrill/v1/replacement").expect(200);
    let answer: Answer = serde_json::from_slice(&answer.body).expect("an answer");
    assert_eq!((answer.contract_version, &*answer.path), (2, "/firedrill/v1/replacement"));
    for told in [&answer.local, &answer.cluster] {
        assert!(told.definitive && told.records.is_empty(), "{told:?}");
    }
}

fn status(client: &Client) -> NodeStatus {
    let answer = client.get("/firedrill/v1/status").expect(200);
    serde_json::from_slice(&answer.body).expect("a status")
}

#[test]
fn only_health_and_metrics_are_told_to_strangers() {
    let mut cluster = Cluster::new(1, 4);
    cluster.start(0);
    cluster.wait_ready(0);
    let client = cluster.client(0);
    client.put("/bucket", b"").expect(200);

    client.plain("GET", "/health/live").expect("an answer").expect(200);
    let ready = client.plain("GET", "/health/ready").expect("an answer").expect(200);
    let ready: Readiness = serde_json::from_slice(&ready.body).expect("a readiness");
    assert_eq!((ready.ready, ready.defects), (true, vec![]));
    let metrics = client.plain("GET", "/metrics").expect("an answer").expect(200).text();
    assert!(metrics.contains("firedrill_s3_operations_total{operation=\"CreateBucket\"} 1"));
    assert!(metrics.contains("firedrill_drive_condition{drive=\"0/3\",condition=\"online\"} 1"));

    for (method, path) in [
        ("GET", "/"),
        ("GET", "/bucket"),
        ("GET", "/firedrill/v1/status"),
        ("POST", "/firedrill/v1/heal"),
        ("POST", "/firedrill/v1/catalog/admit"),
        ("GET", "/iceberg/v1/config"),
        ("GET", "/firedrill/v1/replacement"),
        ("POST", "/firedrill/v1/peer/replacement"),
        ("POST", "/firedrill/v1/peer/state"),
        ("POST", "/firedrill/v1/peer/drive/0"),
    ] {
        client.plain(method, path).expect("an answer").expect(403);
        let guess = cluster.client_of(0, crate::process::ACCESS_KEY, "guess");
        guess.send(method, path, &[], b"").expect(403);
        cluster.client_of(0, "nobody", "guess").send(method, path, &[], b"").expect(403);
    }
    let reader = cluster.client_of(0, "reader", "reader-secret");
    client.put("/bucket/k", b"x").expect(200);
    reader.get("/bucket/k").expect(200);
    reader.put("/bucket/k", b"y").expect(403);
    reader.get("/firedrill/v1/status").expect(403);

    client.get("/iceberg/v1/config").expect(200);
    reader.get("/iceberg/v1/config").expect(403);
    assert_eq!(client.get("/bucket?cors").expect(501).element("Code"), "NotImplemented");
    let sealed = [("x-amz-server-side-encryption", "AES256")];
    client.send("PUT", "/bucket/k", &sealed, b"x").expect(501);
}

#[test]
fn a_node_tells_how_it_stands_and_heals_on_request() {
    let mut cluster = Cluster::new(1, 4);
    cluster.start(0);
    cluster.wait_ready(0);
    let client = cluster.client(0);
    let standing = status(&client);
    assert!(standing.ready && standing.deployment.is_some(), "{standing:?}");
    assert_eq!(standing.drives.len(), 4);
    assert!(standing.drives.iter().all(|drive| drive.state == DriveCondition::Online));
    let config = client.get("/firedrill/v1/config").expect(200).text();
    assert!(config.contains("\"set_drives\":4"));
    assert!(!config.contains(crate::process::SECRET_KEY), "a configuration holds no secrets");

    client.put("/bucket", b"").expect(200);
    client.put("/bucket/k", &vec![7; 2_000_000]).expect(200);
    let lost = cluster.drive(0, 2).join("bucket/k");
    fs::remove_dir_all(&lost).expect("a drive loses a key");
    let started = client.send("POST", "/firedrill/v1/heal?deep=true", &[], b"").expect(200);
    let started: HealStarted = serde_json::from_slice(&started.body).expect("a start");
    let deadline = Instant::now() + SOON;
    let ended = loop {
        let progress = client.get(&format!("/firedrill/v1/heal/{}", started.id)).expect(200);
        let progress: HealProgress = serde_json::from_slice(&progress.body).expect("a progress");
        if progress.state == HealState::Done {
            break progress;
        }
        assert!(Instant::now() < deadline, "{progress:?}");
        thread::sleep(Duration::from_millis(20));
    };
    assert!(ended.healed >= 1 && ended.failed == 0, "{ended:?}");
    assert!(lost.join("xl.meta").exists(), "the drive has its key again");
    client.get("/firedrill/v1/heal/nonsense").expect(404);
    client.send("POST", "/firedrill/v1/heal?depth=1", &[], b"").expect(400);
}

/// Goal: what was acknowledged is there after a kill and after an end in order, and only the first
/// leaves the mark of an unclean end.
#[test]
fn a_restart_finds_everything_and_says_how_the_last_life_ended() {
    let mut cluster = Cluster::new(1, 4);
    let mark = cluster.drive(0, 0).join(".rustfs.sys/unclean-shutdown");
    cluster.start(0);
    cluster.wait_ready(0);
    cluster.client(0).put("/bucket", b"").expect(200);
    cluster.client(0).put("/bucket/k", b"body").expect(200);
    let deployment = status(&cluster.client(0)).deployment;
    assert!(mark.exists(), "it runs");
    cluster.kill(0);
    assert!(mark.exists(), "it was killed");
    cluster.start(0);
    cluster.wait_ready(0);
    assert_eq!(cluster.client(0).get("/bucket/k").expect(200).body, b"body");
    let (ended, took) = cluster.terminate(0);
    assert_eq!(ended.code(), Some(0));
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(!mark.exists(), "it ended in order");
    cluster.start(0);
    cluster.wait_ready(0);
    assert_eq!(cluster.client(0).get("/bucket/k").expect(200).body, b"body");
    assert_eq!(status(&cluster.client(0)).deployment, deployment, "it was not formatted again");
}

#[test]
fn a_drive_in_the_wrong_slot_is_refused_by_name_and_the_rest_serves() {
    let mut cluster = Cluster::new(1, 6);
    cluster.start(0);
    cluster.wait_ready(0);
    cluster.client(0).put("/bucket", b"").expect(200);
    cluster.client(0).put("/bucket/k", b"body").expect(200);
    cluster.terminate(0);
    // The drive of slot 4 comes back at slot 5, and slot 4 has none.
    let (four, five) = (cluster.drive(0, 4).to_owned(), cluster.drive(0, 5).to_owned());
    fs::remove_dir_all(&five).expect("removed");
    fs::rename(&four, &five).expect("renamed");
    cluster.start(0);
    cluster.wait_ready(0);
    let client = cluster.client(0);
    assert_eq!(client.get("/bucket/k").expect(200).body, b"body");
    let drives = status(&client).drives;
    assert_eq!(drives[4].state, DriveCondition::Absent, "{:?}", drives[4]);
    assert_eq!(drives[5].state, DriveCondition::Refused, "{:?}", drives[5]);
    for word in ["0/5", "slot 4", "slot 5"] {
        assert!(drives[5].reason.contains(word), "{}", drives[5].reason);
    }
    assert!(!four.exists(), "nothing is made where a drive is missing");
}

/// Goal: every thread of one drive hangs. A PUT is still answered within the drive's deadline and a
/// little, and the process still ends within two seconds.
#[test]
fn a_drive_whose_threads_all_hang_holds_up_neither_a_put_nor_the_end() {
    let mut cluster = Cluster::new(1, 4);
    let arm = |id: u64| Arm {
        id,
        point: CrashPoint::PutMetaRenamed,
        drive: Some("0/1".to_owned()),
        bucket: Some("bucket".to_owned()),
        key: Some(format!("hang{id}")),
        nth: 1,
        action: ArmAction::Hold,
    };
    cluster.start_armed(0, (0..4).map(arm).collect());
    cluster.wait_ready(0);
    let client = cluster.client(0);
    client.put("/bucket", b"").expect(200);
    let puts: Vec<_> = (0..4)
        .map(|number| {
            let client = client.clone();
            thread::spawn(move || client.put(&format!("/bucket/hang{number}"), b"x"))
        })
        .collect();
    cluster.reached(0, 4);
    let began = Instant::now();
    client.put("/bucket/free", b"y").expect(200);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    for put in puts {
        put.join().expect("a thread").expect(200);
    }
    assert_eq!(client.get("/bucket/free").expect(200).body, b"y");
    let (ended, took) = cluster.terminate(0);
    assert_eq!(ended.code(), Some(0));
    assert!(took < Duration::from_secs(2), "{took:?}");
}

/// Goal: a node that was given a defect must not be taken for a sound one, nor meet anybody's data.
#[test]
fn a_planted_defect_is_told_everywhere_and_meets_no_foreign_drive() {
    let mut cluster = Cluster::new(1, 4);
    cluster.start(0);
    cluster.wait_ready(0);
    cluster.client(0).put("/bucket", b"").expect(200);
    cluster.terminate(0);
    fs::remove_file(cluster.log(0)).expect("a log");
    cluster.start_controlled(
        0,
        ToNode::Start {
            defects: vec![Defect::SkipsDirectorySync],
            run_file_systems: vec!["00000000-0000-0000-0000-000000000001".to_owned()],
            arms: vec![],
        },
    );
    let client = cluster.client(0);
    cluster.wait(0, "refusing its drives", || {
        let sent = client.try_send("GET", "/firedrill/v1/status", &[], Sent::Whole(b""));
        let standing: Option<NodeStatus> =
            sent.ok().and_then(|answer| serde_json::from_slice(&answer.body).ok());
        standing.is_some_and(|standing| {
            standing.defects == [Defect::SkipsDirectorySync]
                && standing.drives.iter().all(|drive| drive.state == DriveCondition::Refused)
        })
    });
    let ready = client.plain("GET", "/health/ready").expect("an answer").expect(503);
    let ready: Readiness = serde_json::from_slice(&ready.body).expect("a readiness");
    assert_eq!(ready.defects, [Defect::SkipsDirectorySync]);
    let metrics = client.plain("GET", "/metrics").expect("an answer").expect(200).text();
    assert!(metrics.contains("firedrill_planted_defect{defect=\"SkipsDirectorySync\"} 1"));
    let log = fs::read_to_string(cluster.log(0)).expect("a log");
    assert!(log.lines().next().is_some_and(|line| line.contains("PLANTED DEFECTS")), "{log}");
}

#[test]
fn a_configuration_that_makes_no_sense_is_refused_with_64() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("node.yaml");
    fs::write(&path, "node: 0\nlisten: 127.0.0.1:0\nnodse: []\n").expect("written");
    let ended = std::process::Command::new(env!("CARGO_BIN_EXE_firedrill"))
        .args(["node", "--config"])
        .arg(&path)
        .output()
        .expect("the binary runs");
    assert_eq!(ended.status.code(), Some(64));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("nodse") && said.contains(":3:"), "{said}");
}
