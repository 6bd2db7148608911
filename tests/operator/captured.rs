//! The tools on drives that released servers left.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;

use firedrill::value::Digest;
use serde_json::Value;
use tempfile::TempDir;

use super::drives::tool;
use super::drives::tree;

/// The host part of every endpoint of the captures.
const HOST: &str = "http://127.0.0.1:9402/srv/repl/";
const SUCCESSOR: &str = "d0d0c0c0-b0b0-4a0a-9090-808070706099";

/// The captured cases, or nothing after saying why.
fn cases(set: &str) -> Vec<PathBuf> {
    let Some(folder) = env::var_os("FIREDRILL_GOLDEN") else {
        println!("skipped: FIREDRILL_GOLDEN is not set");
        return Vec::new();
    };
    let Ok(entries) = fs::read_dir(Path::new(&folder).join(set)) else {
        println!("skipped: {} has no folder `{set}`", folder.display());
        return Vec::new();
    };
    let mut cases: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("final.tar.zst").is_file())
        .collect();
    cases.sort();
    cases
}

/// The drives of a case, and what the capture says of them.
fn unpack(case: &Path) -> Option<(TempDir, Value)> {
    let folder = tempfile::tempdir().unwrap();
    let archive = case.join("final.tar.zst");
    let zstd = Command::new("zstd").arg("-qdc").arg(archive).stdout(Stdio::piped()).spawn();
    let Ok(mut zstd) = zstd else {
        println!("skipped: the program `zstd` is not installed");
        return None;
    };
    let mut tar = Command::new("tar");
    tar.args(["-x", "--no-same-owner", "-C"]).arg(folder.path());
    let tar = tar.stdin(zstd.stdout.take().unwrap()).status().unwrap();
    assert!(tar.success() && zstd.wait().unwrap().success());
    let expected = fs::read(case.join("expected.json")).unwrap_or_else(|_| b"{}".to_vec());
    Some((folder, serde_json::from_slice(&expected).unwrap()))
}

/// Every drive of the case, as `node2/d1`.
fn drives(folder: &Path) -> Vec<String> {
    let mut drives = Vec::new();
    for node in 1..=3 {
        for drive in 1..=4 {
            let drive = format!("node{node}/d{drive}");
            if folder.join(&drive).is_dir() {
                drives.push(drive);
            }
        }
    }
    drives
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().map(|list| list.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

#[test]
fn every_captured_generation_is_listed_with_its_marker_and_nothing_is_written() {
    let cases: Vec<_> = cases("replacement").into_iter().chain(cases("replacement101")).collect();
    for case in &cases {
        let Some((folder, expected)) = unpack(case) else { return };
        let drives = drives(folder.path());
        let before = tree(folder.path());
        let name = case.file_name().unwrap().to_string_lossy();
        let with = |tool: &'static str| {
            [tool, "--json"]
                .into_iter()
                .chain(drives.iter().map(String::as_str))
                .collect::<Vec<_>>()
        };
        let answer = tool(folder.path(), &with("orphans"));
        assert_eq!(answer.code, 0, "{name}: {}{}", answer.out, answer.err);
        let found = answer.json();
        let mut listed = BTreeSet::new();
        for generation in found["sets"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|set| set["generations"].as_array().unwrap())
        {
            listed.insert(generation["generation"].as_str().unwrap().to_owned());
            let is_legacy = generation["schema_version"] == 5;
            assert!(!is_legacy || generation["orphaned"].is_string(), "{name}: {generation}");
        }
        for generation in expected["generations"].as_array().into_iter().flatten() {
            let id = generation["task_id"].as_str().unwrap();
            assert!(listed.contains(id), "{name}: {id} is not listed in {listed:?}");
        }
        for (endpoint, owner) in expected["markers"].as_object().into_iter().flatten() {
            let drive = endpoint.strip_prefix(HOST).unwrap_or(endpoint);
            let Some(owner) = owner.as_str() else { continue };
            let is_told = found["drives"]
                .as_array()
                .unwrap()
                .iter()
                .any(|told| told["drive"] == *drive && told["marker"] == *owner);
            assert!(is_told, "{name}: {owner} on {drive}: {}", found["drives"]);
        }
        let status = tool(folder.path(), &with("status"));
        assert!(matches!(status.code, 0 | 2), "{name}: {}", status.err);
        for record in status.json()["records"].as_array().unwrap() {
            assert_ne!(record["state"], "running", "{name}: {record}");
        }
        println!("{name}: {} generations, {} orphaned", listed.len(), found["orphaned"]);
        assert_eq!(tree(folder.path()), before, "{name}: looking has written");
    }
}

/// Goal: for every captured case with orphans, the approval is proposed, kept and published: it binds the captured
/// bytes, and nothing else on any drive changes.
#[test]
fn captured_orphans_can_be_kept_and_approved() {
    for case in cases("replacement") {
        let Some((folder, expected)) = unpack(&case) else { return };
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        let generations = expected["generations"].as_array().cloned().unwrap_or_default();
        let is_proved = |id: &Value| {
            expected["proofs"]
                .as_array()
                .is_some_and(|them| them.iter().any(|it| it["task_id"] == *id))
        };
        let orphans: Vec<_> = generations
            .iter()
            .filter(|it| it["schema"] == 5 && !is_proved(&it["task_id"]))
            .filter(|it| folder.path().join(it["file"].as_str().unwrap()).is_file())
            .collect();
        if orphans.is_empty() {
            println!("{name}: no orphan");
            continue;
        }
        let anchor = orphans[0]["file"].as_str().unwrap().split("/.rustfs.sys").next().unwrap();
        let endpoints = texts(&expected["targets"]);
        let roots: Vec<_> = endpoints.iter().map(|it| it.strip_prefix(HOST).unwrap()).collect();
        let targets: Vec<_> =
            endpoints.iter().zip(&roots).map(|(it, root)| format!("{it}={root}")).collect();
        let mut arguments = vec!["prepare-migration", "--anchor", anchor, "--successor", SUCCESSOR];
        for orphan in &orphans {
            arguments.extend(["--source", orphan["task_id"].as_str().unwrap()]);
        }
        for target in &targets {
            arguments.extend(["--target", target.as_str()]);
        }
        let before = tree(folder.path());
        let answer = tool(folder.path(), &arguments);
        assert_eq!(answer.code, 0, "{name}: {}", answer.err);
        let approval = answer.json();
        for (source, orphan) in approval["sources"].as_array().unwrap().iter().zip(&orphans) {
            let digest: Vec<u8> = serde_json::from_value(source["sha256"].clone()).unwrap();
            let bytes = fs::read(folder.path().join(orphan["file"].as_str().unwrap())).unwrap();
            assert_eq!(digest, Digest::of(&bytes).0, "{name}");
            assert_eq!(orphan["sha256"], Digest::of(&bytes).to_string(), "{name}");
        }
        for (endpoint, owner) in endpoints.iter().zip(texts(&approval["expected_markers"])) {
            assert_eq!(expected["markers"][endpoint], owner, "{name}");
        }
        assert_eq!(tree(folder.path()), before, "{name}: a dry run has written");

        let kept = tempfile::tempdir().unwrap();
        let to = kept.path().join("kept");
        let mut backup = vec!["backup", "--anchor", anchor, "--to", to.to_str().unwrap()];
        for root in &roots {
            backup.extend(["--target", root]);
        }
        let answer = tool(folder.path(), &backup);
        assert_eq!(answer.code, 0, "{name}: {}", answer.err);
        assert_eq!(tree(folder.path()), before, "{name}: the backup has written to a drive");

        arguments.extend(["--write", "--stopped-all-writers"]);
        let answer = tool(folder.path(), &arguments);
        assert_eq!(answer.code, 0, "{name}: {}", answer.err);
        let after = tree(folder.path());
        let fresh: Vec<_> = after.keys().filter(|path| !before.contains_key(*path)).collect();
        assert_eq!(fresh, [Path::new(answer.out.trim_end())], "{name}");
        assert!(before.iter().all(|(path, facts)| after[path].4 == facts.4), "{name}: other bytes");
        println!("{name}: {} orphans approved", orphans.len());
    }
}

/// Goal: the generation that a released server had exhausted by three mount changes goes on after it was re-armed.
#[test]
fn a_captured_generation_without_budget_is_rearmed() {
    let cases = cases("replacement101");
    let Some(case) = cases.iter().find(|case| case.ends_with("09-third-handoff-budget")) else {
        println!("skipped: no captured generation is exhausted");
        return;
    };
    let Some((folder, _)) = unpack(case) else { return };
    let drives = drives(folder.path());
    let status = || {
        let all = ["status", "--json"].into_iter().chain(drives.iter().map(String::as_str));
        tool(folder.path(), &all.collect::<Vec<_>>()).json()["refusals"].clone()
    };
    let before = status();
    assert_eq!((before.as_array().unwrap().len(), &before[0]["number"]), (1, &"E44".into()));
    let (drive, id) = (before[0]["drive"].as_str().unwrap(), before[0]["taskId"].as_str().unwrap());
    let mut arguments = vec!["rearm", "--anchor", drive, "--generation", id];
    arguments.extend(["--write", "--stopped-all-writers"]);
    let answer = tool(folder.path(), &arguments);
    assert_eq!(answer.code, 0, "{}", answer.err);
    assert_eq!(status(), serde_json::json!([]));
}
