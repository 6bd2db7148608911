//! Orphans that a schema 5 release left: nobody takes them over silently, and an approval brings them home.

use std::path::Path;

use firedrill::protocol::replacement::approval::Approval;
use firedrill::protocol::replacement::ids::GenerationId;
use firedrill::protocol::replacement::import;
use firedrill::protocol::replacement::intent::Intent;
use firedrill::protocol::replacement::names;
use firedrill::protocol::replacement::names::Record;
use firedrill::protocol::replacement::refusal::Refusal;
use firedrill::protocol::replacement::resolve;
use firedrill::protocol::replacement::store::Change;
use firedrill::protocol::replacement::store::Durable;
use firedrill::protocol::replacement::store::Files;
use firedrill::protocol::replacement::store::Now;
use libtest_mimic::Failed;

use super::drive;
use super::mounted;
use crate::Case;
use crate::conclude;

/// Every captured state is refused; the constructed approval imports the last one.
pub fn is_settled(case: &Path) -> Result<(), Failed> {
    let case = Case::unpack(case);
    let mut complaints = Vec::new();
    let mut files = Files { has_folder: true, ..Files::default() };
    let mut asked = 0;
    for event in &case.events {
        match &event.bytes {
            Some(bytes) => files.bytes.insert(event.path.clone(), bytes.clone()),
            None => files.bytes.remove(&event.path),
        };
        let durable = Durable { files: files.clone(), markers: vec![None] };
        for id in files.generations() {
            // A legacy record may not be gone on with: its phase says nothing about its markers, and
            // nothing binds it to what is mounted. Only an approval takes it over.
            let answer = resolve::next_write(&durable, id, &Now::default());
            if !matches!(answer, Err(Refusal::LegacyRecord(_))) {
                complaints.push(format!("t {}: {id}: {answer:?}", event.t));
            }
            asked += 1;
        }
    }
    if asked == 0 {
        complaints.push("no state was asked about".to_owned());
    }
    let approval = &case.expected["constructed_import_approval"]["approval"];
    if !approval.is_null() {
        let text = serde_json::to_vec(approval).unwrap();
        if let Err(complaint) = imports(&case, &text) {
            complaints.push(complaint);
        }
    }
    conclude(&complaints)
}

fn imports(case: &Case, text: &[u8]) -> Result<(), String> {
    let successor: GenerationId = "d0d0c0c0-b0b0-4a0a-9090-808070706099".parse().unwrap();
    let approval = Approval::read(successor, text).map_err(|refusal| refusal.to_string())?;
    let drives = case.files("final");
    let anchor = drive(case.expected["anchor_endpoint"].as_str().unwrap()).to_owned();
    let mut durable = Durable::default();
    durable.files.has_folder = true;
    for ((place, path), bytes) in &drives {
        if *place == anchor {
            durable.files.bytes.insert(path.clone(), bytes.clone());
        }
    }
    let on = |target: &String, path: &str| {
        drives.get(&(drive(target).to_owned(), path.to_owned())).cloned()
    };
    durable.markers = approval.targets.iter().map(|it| on(it, names::MARKER)).collect();
    let source = names::path(Record::Intent, approval.sources[0].task_id);
    let source = Intent::parse(&durable.files.bytes[&source]).unwrap();
    let mounts = source.identities.iter();
    let mounts =
        mounts.map(|identity| Ok(mounted(case, identity, Some("slot".to_owned())))).collect();
    let buckets = ["alpha", "beta", "mixed", "plain"].map(str::to_owned).to_vec();
    let now = Now { time_s: 1_796_000_000, mounts, buckets, ..Now::default() };
    durable.files.bytes.insert(names::path(Record::Approval, successor), text.to_vec());
    for _ in 0..100 {
        let next = import::next_write(&durable, successor, &now);
        let Some(write) = next.map_err(|refusal| refusal.to_string())? else {
            let intent = durable.files.intent_of(successor).map_err(|it| it.to_string())?.value;
            let receipt = durable.files.record(Record::Receipt, successor);
            assert_eq!(receipt, Some(text));
            assert_eq!(intent.legacy_import.as_ref(), Some(&approval));
            for source in &approval.sources {
                let retired = durable.files.intent_of(source.task_id).unwrap().value;
                assert_eq!(retired.legacy_successor, Some(successor));
            }
            return Ok(());
        };
        let Change::Swap { expected, new } = write.change else { panic!("{write:?}") };
        assert_eq!(durable.files.bytes.get(&write.path), expected.as_ref());
        match new {
            Some(new) => durable.files.bytes.insert(write.path, new),
            None => durable.files.bytes.remove(&write.path),
        };
    }
    Err("the import does not end".to_owned())
}
