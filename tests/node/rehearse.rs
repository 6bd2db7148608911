//! The operator's tools of the table catalog, on a real node: the cutover from its first request to its last, killed by
//! nobody but stopped wherever only the operator can go on.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Output;

use firedrill::protocol::config::Principal;
use firedrill::protocol::control::Arm;
use firedrill::protocol::control::ArmAction;

use crate::client::Client;
use crate::client::Sent;
use crate::process::ACCESS_KEY;
use crate::process::Cluster;
use crate::process::SECRET_KEY;

/// A node with four drives and a principal of each kind, started.
pub fn started() -> Cluster {
    let mut cluster = Cluster::new(1, 4);
    let folder = cluster.folder.path().to_owned();
    cluster.configure(|config| {
        // The one has what the bucket's policy gives it and the table's policy; the other S3 alone.
        let inside =
            ["s3:GetObject", "admin:GetTableMetadata@lake/namespaces/firedrill_rehearsal/*"];
        for (name, actions, account) in
            [("inside", &inside[..], Some("inside")), ("outside", &["s3:*"], None)]
        {
            let secret_file = folder.join(format!("{name}.secret"));
            std::fs::write(&secret_file, SECRET_KEY).expect("written");
            let actions = actions.iter().map(|it| (*it).to_owned()).collect();
            let account = account.map(str::to_owned);
            config.principals.insert(name.to_owned(), Principal { secret_file, actions, account });
        }
    });
    for name in ["inside", "outside", ACCESS_KEY] {
        let text = format!("AWS_ACCESS_KEY_ID={name}\nAWS_SECRET_ACCESS_KEY={SECRET_KEY}\n");
        std::fs::write(folder.join(format!("{name}.keys")), text).expect("written");
    }
    cluster.start(0);
    cluster.wait_ready(0);
    cluster
}

/// The warehouse `lake` with the table `sales.orders` and a commit.
pub fn filled(client: &Client) {
    client.put("/lake", b"").expect(200);
    client.send("PUT", "/iceberg/v1/buckets/lake", &[], b"").expect(200);
    let policy = br#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow",
        "Principal":{"AWS":"arn:aws:iam::inside:root"},"Action":"s3:GetObject","Resource":"arn:aws:s3:::lake/tables/*"}]}"#;
    client.send("PUT", "/lake?policy", &[], policy).expect(204);
    let json = [("content-type", "application/json")];
    let post = |path: &str, body: &str| {
        let path = format!("/iceberg/v1/lake/{path}");
        client.send("POST", &path, &json, body.as_bytes()).expect(200)
    };
    post("namespaces", r#"{"namespace":["sales"],"properties":{}}"#);
    post(
        "namespaces/sales/tables",
        r#"{"name":"orders","schema":{"type":"struct","schema-id":0,"fields":[{"id":1,"name":"id","required":false,"type":"long"}]}}"#,
    );
    post(
        "namespaces/sales/tables/orders",
        r#"{"requirements":[],"updates":[{"action":"set-properties","updates":{"a":"1"}}]}"#,
    );
}

fn drives(cluster: &Cluster) -> Vec<PathBuf> {
    (0..4).map(|slot| cluster.drive(0, slot).to_owned()).collect()
}

fn firedrill(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firedrill"));
    command.arg("catalog").args(arguments).env_clear().output().expect("the binary runs")
}

/// Runs a tool, which has to end with `code`; its words.
#[track_caller]
pub fn ends(code: i32, arguments: &[&str]) -> String {
    let output = firedrill(arguments);
    let (out, err) = (&output.stdout, &output.stderr);
    let words = format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err));
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {words}");
    words
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[test]
fn an_operator_cuts_a_real_catalog_over() {
    let mut cluster = started();
    filled(&cluster.client(0));
    let folder = cluster.folder.path().to_owned();
    let file = |name: &str| text(&folder.join(name));
    let endpoint = format!("http://{}", cluster.address(0));
    let (keys, run, kept) = (file(&format!("{ACCESS_KEY}.keys")), file("run"), file("kept"));
    let reach = ["--endpoint", &endpoint, "--warehouse", "lake", "--credentials", &keys];
    let with = |first: &[&str], more: &[&str]| -> Vec<String> {
        let all = first.iter().chain(&reach).chain(more);
        all.map(|word| (*word).to_owned()).collect()
    };
    let call = |code: i32, words: Vec<String>| {
        ends(code, &words.iter().map(String::as_str).collect::<Vec<_>>())
    };

    // A dry run reads; the index of a fresh warehouse is the only blocker.
    let words = call(64, with(&["rehearse"], &["--report-dir", &file("reports")]));
    assert!(words.contains("WAREHOUSE_INDEX_BACKFILL_REQUIRED"), "{words}");
    let printed = call(0, with(&["rehearse"], &["--print"]));
    let printed: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(printed["steps"].as_array().expect("steps").len(), 22);

    let roots: Vec<_> = drives(&cluster).iter().map(|path| text(path)).collect();
    let mut backup = vec!["backup", "--live", "--to", &kept];
    backup.extend(roots.iter().map(String::as_str));
    let words = ends(0, &backup);
    assert!(words.contains("lake: 1 tables"), "{words}");
    let digest = words.lines().next().expect("a digest").to_owned();
    assert!(ends(0, &["verify", "--backup", &kept, "--selected", &digest]).contains(&digest));

    // A fresh cluster of the same shape, formatted and stopped.
    let mut fresh = Cluster::new(1, 4);
    fresh.start(0);
    fresh.wait_ready(0);
    fresh.terminate(0);
    let (inside, outside) = (file("inside.keys"), file("outside.keys"));
    let mut execute: Vec<_> = ["--execute", "--confirm", "lake", "--backup", &kept, "--run", &run]
        .map(str::to_owned)
        .into();
    execute.extend(
        ["--inside-credentials", &inside, "--outside-credentials", &outside].map(str::to_owned),
    );
    for drive in drives(&fresh) {
        execute.extend(["--fresh-drive".to_owned(), text(&drive)]);
    }
    let go = |code: i32, more: &[&str]| {
        let all: Vec<_> = execute.iter().map(String::as_str).chain(more.iter().copied()).collect();
        call(code, with(&["rehearse"], &all))
    };
    // Killed in the middle of a step, it goes on at that step.
    let all: Vec<_> =
        execute.iter().map(String::as_str).chain(["--hook", "drain=kill -9 $PPID"]).collect();
    let words = with(&["rehearse"], &all);
    let killed = firedrill(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(killed.status.signal(), Some(9), "{killed:?}");
    let words = go(2, &[]);
    assert!(words.contains("--done drain") && !words.contains("plant-probe"), "{words}");
    let done = ["--done", "drain", "--hook", "quiesce=test \"$FIREDRILL_WAREHOUSES\" = lake"];
    let words = go(2, &done);
    assert!(words.contains("--done restart"), "{words}");
    // Under the fence reads go on, and commits do not.
    let client = cluster.client(0);
    let orders = "/iceberg/v1/lake/namespaces/sales/tables/orders";
    client.get(orders).expect(200);
    let commit =
        br#"{"requirements":[],"updates":[{"action":"set-properties","updates":{"b":"1"}}]}"#;
    client.send("POST", orders, &[], commit).expect(409);

    cluster.terminate(0);
    cluster.set_variable("RUSTFS_TABLE_CATALOG_BACKING", "durable-strong");
    cluster.start(0);
    cluster.wait_ready(0);
    // Until it was verified it is closed to writers.
    cluster.client(0).send("POST", orders, &[], commit).expect(503);
    let words = go(0, &["--done", "restart"]);
    assert!(words.contains("preserve-backup: held"), "{words}");
    cluster.client(0).send("POST", orders, &[], commit).expect(200);

    let report = std::fs::read_to_string(folder.join("run/report.md")).expect("a report");
    assert!(report.contains("**Pass**"), "{report}");
    let requests = std::fs::read_to_string(folder.join("run/requests.jsonl")).expect("requests");
    assert!(requests.lines().count() > 50);
    assert!(!requests.contains(SECRET_KEY), "a secret was written down");

    // Snapshots of version 2 come after it, with both gates.
    let strong = file("kept-strong");
    let mut backup = vec!["backup", "--live", "--to", &strong];
    backup.extend(roots.iter().map(String::as_str));
    let words = ends(0, &backup);
    assert!(words.contains("1 tables in the snapshot"), "{words}");
    let (run, name) = (file("run-v2"), "snapshot-v2");
    let v2 =
        ["--rehearsal", name, "--execute", "--confirm", "lake", "--backup", &strong, "--run", &run];
    let words = call(2, with(&["rehearse"], &[&v2[..], &["--done", "confirm-readers"]].concat()));
    assert!(words.contains("--done restart-v2"), "{words}");
    cluster.terminate(0);
    for gate in ["", "_FLEET_CONFIRMED"] {
        let variable = format!("RUSTFS_TABLE_CATALOG_STRONG_SNAPSHOT_V2{gate}");
        cluster.set_variable(&variable, "true");
    }
    cluster.start(0);
    cluster.wait_ready(0);
    let words = call(0, with(&["rehearse"], &[&v2[..], &["--done", "restart-v2"]].concat()));
    assert!(words.contains("say that it is version 2"), "{words}");
    // A release that reads version 1 alone gets no such backup.
    let second = file("kept-v2");
    let mut backup = vec!["backup", "--live", "--to", &second];
    backup.extend(roots.iter().map(String::as_str));
    let words = ends(0, &backup);
    let digest_v2 = words.lines().next().expect("a digest").to_owned();
    let mut restore = vec!["restore", "--from", &second, "--selected", &digest_v2];
    restore.extend(["--release", "snapshot-v1", "--stopped-all-writers"]);
    let fresh_roots: Vec<_> = drives(&fresh).iter().map(|path| text(path)).collect();
    restore.extend(fresh_roots.iter().map(String::as_str));
    assert!(ends(64, &restore).contains("reads up to 1"));

    // What was restored serves: the table stands where it stood when it was kept.
    fresh.start(0);
    fresh.wait_ready(0);
    let restored = fresh.client(0).get(&format!("{orders}/metadata-location")).expect(200).text();
    assert!(restored.contains("\"generation\":2"), "{restored}");
}

#[test]
fn a_real_node_holds_both_rehearsals_that_cut_nothing_over() {
    let cluster = started();
    let client = cluster.client(0);
    filled(&client);
    let folder = cluster.folder.path().to_owned();
    let file = |name: &str| text(&folder.join(name));
    let endpoint = format!("http://{}", cluster.address(0));
    let (keys, kept) = (file(&format!("{ACCESS_KEY}.keys")), file("kept"));
    let roots: Vec<_> = drives(&cluster).iter().map(|path| text(path)).collect();
    let mut backup = vec!["backup", "--live", "--to", &kept];
    backup.extend(roots.iter().map(String::as_str));
    ends(0, &backup);
    let (inside, outside) = (file("inside.keys"), file("outside.keys"));
    for (rehearsal, skipped) in
        [("disaster-recovery", &["inject-gap"][..]), ("scale-fault", &["queue-maintenance-job"])]
    {
        let run = file(rehearsal);
        let arguments = [
            "rehearse",
            "--rehearsal",
            rehearsal,
            "--endpoint",
            &endpoint,
            "--warehouse",
            "lake",
            "--credentials",
            &keys,
            "--execute",
            "--confirm",
            "lake",
            "--backup",
            &kept,
            "--run",
            &run,
            "--inside-credentials",
            &inside,
            "--outside-credentials",
            &outside,
            "--writers",
            "3",
            "--iterations",
            "3",
        ];
        // What takes a crash, or maintenance, is not counted as passed.
        let words = ends(5, &arguments);
        for name in skipped {
            assert!(words.contains(&format!("{name}: skipped")), "{words}");
        }
    }
    // The warehouse is as it was: not fenced, and writable.
    let commit =
        br#"{"requirements":[],"updates":[{"action":"set-properties","updates":{"b":"1"}}]}"#;
    client.send("POST", "/iceberg/v1/lake/namespaces/sales/tables/orders", &[], commit).expect(200);
}

/// A point of a commit to the table of [`filled`], at which `action` is done the next time that it is passed.
fn armed(point: &str, action: ArmAction) -> Arm {
    let point = point.parse().expect("a crash point");
    Arm { id: 1, point, drive: None, bucket: None, key: None, nth: 1, action }
}

/// Goal: a commit that is merely under way is nothing to be repaired; one that was interrupted is.
#[test]
fn a_preflight_tells_a_commit_under_way_from_one_that_was_interrupted() {
    let mut cluster = started();
    filled(&cluster.client(0));
    let orders = "/iceberg/v1/lake/namespaces/sales/tables/orders";
    let commit = |key: &str| {
        format!(
            r#"{{"requirements":[],"updates":[{{"action":"set-properties","updates":{{"{key}":"1"}}}}]}}"#
        )
    };
    let blockers = |client: &Client| {
        let report = client.get("/iceberg/v1/lake/catalog/migration").expect(200).text();
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        report["blockers"].to_string()
    };
    cluster.terminate(0);
    cluster.start_armed(0, vec![armed("catalog.commit.pointer_moved", ArmAction::Hold)]);
    cluster.wait_ready(0);
    let client = cluster.client(0);
    client.send("POST", "/firedrill/v1/catalog/backfill?warehouse=lake", &[], b"").expect(200);
    let (other, body) = (client.clone(), commit("held"));
    let writer =
        std::thread::spawn(move || other.send("POST", orders, &[], body.as_bytes()).status);
    cluster.reached(0, 1);
    let other = client.clone();
    let preflight = std::thread::spawn(move || blockers(&other));
    // It has to look while the commit stands between its pointer and its records.
    std::thread::sleep(std::time::Duration::from_millis(700));
    cluster.release(0, 1);
    assert_eq!(preflight.join().expect("a thread"), "[]");
    assert_eq!(writer.join().expect("a thread"), 200);

    cluster.terminate(0);
    cluster.start_armed(0, vec![armed("catalog.commit.pointer_moved", ArmAction::Abort)]);
    cluster.wait_ready(0);
    // Nobody answers any more.
    let _ = cluster.client(0).try_send("POST", orders, &[], Sent::Whole(commit("lost").as_bytes()));
    cluster.terminate(0);
    cluster.start(0);
    cluster.wait_ready(0);
    assert_eq!(blockers(&cluster.client(0)), r#"["COMMIT_RECOVERY_REQUIRED"]"#);
}

/// Goal: with a commit that a crash has really interrupted, every step of the disaster-recovery rehearsal is checked.
#[test]
fn a_commit_that_a_crash_has_interrupted_is_found_and_repaired() {
    let mut cluster = started();
    filled(&cluster.client(0));
    let folder = cluster.folder.path().to_owned();
    let file = |name: &str| text(&folder.join(name));
    let endpoint = format!("http://{}", cluster.address(0));
    let kept = file("kept");
    let roots: Vec<_> = drives(&cluster).iter().map(|path| text(path)).collect();
    let mut backup = vec!["backup", "--live", "--to", &kept];
    backup.extend(roots.iter().map(String::as_str));
    ends(0, &backup);
    let (asked, done) = (folder.join("asked"), folder.join("done"));
    let hook = format!(
        "inject-gap=echo $FIREDRILL_NAMESPACE/tables/$FIREDRILL_TABLE > {0}.new && mv {0}.new {0}; \
         until [ -e {1} ]; do sleep 0.05; done",
        asked.display(),
        done.display()
    );
    let more = [
        ("--endpoint", endpoint),
        ("--credentials", file(&format!("{ACCESS_KEY}.keys"))),
        ("--backup", kept),
        ("--run", file("run")),
        ("--inside-credentials", file("inside.keys")),
        ("--outside-credentials", file("outside.keys")),
        ("--hook", hook),
    ];
    let rehearsal = std::thread::spawn(move || {
        let mut words = vec!["rehearse", "--rehearsal", "disaster-recovery", "--execute"];
        words.extend(["--warehouse", "lake", "--confirm", "lake"]);
        words.extend(more.iter().flat_map(|(name, value)| [*name, value.as_str()]));
        ends(0, &words)
    });
    cluster.wait(0, "asked for a gap", || asked.exists() || rehearsal.is_finished());
    let table = std::fs::read_to_string(&asked).expect("the table that is rehearsed on");
    cluster.terminate(0);
    cluster.start_armed(0, vec![armed("catalog.commit.pointer_moved", ArmAction::Abort)]);
    cluster.wait_ready(0);
    let path = format!("/iceberg/v1/lake/namespaces/{}", table.trim());
    let body =
        br#"{"requirements":[],"updates":[{"action":"set-properties","updates":{"gap":"1"}}]}"#;
    // Nobody answers any more.
    let _ = cluster.client(0).try_send("POST", &path, &[], Sent::Whole(body));
    cluster.terminate(0);
    cluster.start(0);
    cluster.wait_ready(0);
    std::fs::write(&done, "").expect("written");
    let words = rehearsal.join().expect("it held");
    assert!(words.contains("safe-recovery-repair: held: 1 finished"), "{words}");
    assert!(words.contains("was refused without a fence"), "{words}");
}

/// Changes one file of a backup.
fn changed(path: &Path, change: impl FnOnce(String) -> String) {
    let before = std::fs::read_to_string(path).expect("a file of the backup");
    let after = change(before.clone());
    assert_ne!(before, after, "nothing was changed");
    std::fs::write(path, after).expect("written");
}

#[test]
fn a_backup_is_tried_in_a_cluster_of_its_own_and_a_damaged_one_is_told() {
    let cluster = started();
    filled(&cluster.client(0));
    let folder = cluster.folder.path().to_owned();
    let file = |name: &str| text(&folder.join(name));
    let endpoint = format!("http://{}", cluster.address(0));
    let keys = file(&format!("{ACCESS_KEY}.keys"));
    let kept = |name: &str| {
        let place = file(name);
        let roots: Vec<_> = drives(&cluster).iter().map(|path| text(path)).collect();
        let mut backup = vec!["backup", "--live", "--to", &place];
        backup.extend(roots.iter().map(String::as_str));
        ends(0, &backup);
        place
    };
    let go = |code: i32, run: &str, kept: &str, more: &[&str]| {
        let run = file(run);
        let reach = ["--endpoint", &endpoint, "--warehouse", "lake", "--credentials", &keys];
        let what = ["rehearse", "--rehearsal", "scale-fault", "--execute", "--confirm", "lake"];
        let small = ["--writers", "2", "--iterations", "1", "--backup", kept, "--run", &run];
        ends(code, &[&what[..], &reach, &small, more].concat())
    };

    // What it cannot check on this server is named, and the backup is not among it.
    let good = kept("good");
    let words = go(5, "run-good", &good, &[]);
    let line = words.lines().find(|line| line.starts_with("restore-check: ")).expect("a line");
    assert!(line.starts_with("restore-check: held"), "{line}");
    assert!(line.contains("backing object, served: 1 tables"), "{line}");
    assert!(folder.join("run-good/fresh-cluster.log").exists());
    assert!(!folder.join("run-good/fresh-cluster").exists(), "its drives are left");

    // A shard that rots between the first look at the backup and its last use.
    let rotten = kept("rotten");
    go(0, "run-rotten", &rotten, &["--stop-before", "restore-check"]);
    let manifest = folder.join("rotten/manifest.json");
    let told: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&manifest).expect("it")).expect("JSON");
    let of = &told["drives"][0];
    let name = |value: &serde_json::Value| value.as_str().expect("a name").to_owned();
    let shard = folder.join("rotten").join(name(&of["folder"])).join(name(&of["files"][0]["path"]));
    let mut bytes = std::fs::read(&shard).expect("a shard");
    bytes.push(0);
    std::fs::write(&shard, bytes).expect("written");
    assert!(go(1, "run-rotten", &rotten, &[]).contains("does not restore"));

    // A backup that is whole, and says of a table what its own files do not.
    let lying = kept("lying");
    changed(&folder.join("lying/manifest.json"), |manifest| {
        manifest.replace("\"generation\": 2", "\"generation\": 3")
    });
    let words = go(1, "run-lying", &lying, &[]);
    assert!(words.contains("a cluster restored from the backup differs"), "{words}");
    assert!(words.contains("lake/sales.orders stands at"), "{words}");

    // A deployment of several sets comes back in itself only: that is not known, and no pass.
    let several = kept("several");
    changed(&folder.join("several/manifest.json"), |manifest| {
        manifest.replace("\"sets\": 1", "\"sets\": 2")
    });
    let words = go(2, "run-several", &several, &[]);
    assert!(words.contains("whether the backup restores is not known"), "{words}");
    let words = go(5, "run-several", &several, &["--done", "restore-check"]);
    assert!(words.contains("restore-check: by the operator's word"), "{words}");
}
