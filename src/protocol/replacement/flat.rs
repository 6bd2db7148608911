//! Records where older releases kept them: moved to their place when this release could have written them,
//! removed when they say the same, and otherwise left for somebody to look into.

use std::collections::BTreeSet;

use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::intent::SCHEMA;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::proof::Proof;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::refusal::on_record;
use crate::protocol::replacement::step::Step;
use crate::protocol::replacement::store::Files;
use crate::protocol::replacement::store::Write;

/// Every generation that has a flat record.
pub fn generations(files: &Files) -> BTreeSet<GenerationId> {
    let flat = [Record::FlatIntent, Record::ResumeState, Record::FlatProof, Record::FlatIndex];
    files.generations_with(&flat)
}

/// The next write that settles the flat records of `id`; `None` when there are none left.
///
/// # Errors
///
/// [`Refusal::FlatUnreadable`], [`Refusal::LegacyRecord`], [`Refusal::FlatDiffers`], [`Refusal::ProofsDiffer`]:
/// every copy stays as it is.
pub fn next_write(files: &Files, id: GenerationId) -> Result<Option<Write>, Refusal> {
    for record in [Record::FlatIntent, Record::ResumeState] {
        if let Some(write) = intent(files, id, record)? {
            return Ok(Some(write));
        }
    }
    if let Some(write) = proof(files, id)? {
        return Ok(Some(write));
    }
    let index = files.record(Record::FlatIndex, id);
    Ok(index
        .map(|bytes| Write::record(Step::FlatRemoved, Record::FlatIndex, id, Some(bytes), None)))
}

fn intent(files: &Files, id: GenerationId, record: Record) -> Result<Option<Write>, Refusal> {
    let Some(bytes) = files.record(record, id) else {
        return Ok(None);
    };
    let flat = Intent::parse(bytes).map_err(|error| {
        Refusal::FlatUnreadable(on_record(record, id, error, "an intent's JSON"))
    })?;
    if flat.generation.is_none() && flat.targets.is_empty() {
        // An ordinary heal's state: none of ours, whatever its schema.
        return Ok(None);
    }
    if flat.schema_version < SCHEMA {
        let seen = format!("schema {}", flat.schema_version);
        return Err(Refusal::LegacyRecord(on_record(record, id, seen, "7")));
    }
    let flat = Intent::read(id, bytes)?;
    match files.intent(id)? {
        None => {
            let expected = files.record(Record::Intent, id);
            let new = Some(bytes.to_vec());
            Ok(Some(Write::record(Step::FlatMoved, Record::Intent, id, expected, new)))
        }
        Some(isolated) if isolated.value.encode() == flat.encode() => {
            Ok(Some(Write::record(Step::FlatRemoved, record, id, Some(bytes), None)))
        }
        Some(isolated) => {
            let seen = format!("revision {}", flat.revision);
            let expected = format!("revision {}, member for member", isolated.value.revision);
            Err(Refusal::FlatDiffers(on_record(record, id, seen, expected)))
        }
    }
}

fn proof(files: &Files, id: GenerationId) -> Result<Option<Write>, Refusal> {
    let Some(bytes) = files.record(Record::FlatProof, id) else {
        return Ok(None);
    };
    let flat = Proof::read(id, bytes)?;
    match files.proof(id)? {
        None => {
            let expected = files.record(Record::Proof, id);
            let new = Some(bytes.to_vec());
            Ok(Some(Write::record(Step::FlatMoved, Record::Proof, id, expected, new)))
        }
        Some(isolated) if isolated == flat => {
            Ok(Some(Write::record(Step::FlatRemoved, Record::FlatProof, id, Some(bytes), None)))
        }
        Some(_) => {
            let on = on_record(Record::FlatProof, id, "another proof", "the isolated one");
            Err(Refusal::ProofsDiffer(on))
        }
    }
}
