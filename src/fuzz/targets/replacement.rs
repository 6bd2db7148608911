//! The records of drive replacement, each kind by itself and all of an anchor together.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::fuzz::Target;
use crate::fuzz::target::Envelope;
use crate::fuzz::target::Examined;
use crate::fuzz::target::Found;
use crate::fuzz::target::Shape;
use crate::fuzz::target::must;
use crate::fuzz::target::stays_below;
use crate::protocol::replacement::approval::Approval;
use crate::protocol::replacement::checkpoint::Checkpoint;
use crate::protocol::replacement::flat;
use crate::protocol::replacement::identity::Mounted;
use crate::protocol::replacement::identity::Note;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::legacy;
use crate::protocol::replacement::marker;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Name;
use crate::protocol::replacement::proof::Proof;
use crate::protocol::replacement::resolve;
use crate::protocol::replacement::run;
use crate::protocol::replacement::scan::Done;
use crate::protocol::replacement::store::Change;
use crate::protocol::replacement::store::Durable;
use crate::protocol::replacement::store::Files;
use crate::protocol::replacement::store::Now;
use crate::protocol::replacement::store::Write;

#[rustfmt::skip]
pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "replacement-intent", about: "the record of a generation, as every release reads it",
        shape: Shape::Json, envelope: None, examine: intent,
    },
    Target {
        name: "replacement-proof", about: "that a generation finished",
        shape: Shape::Json, envelope: None, examine: proof,
    },
    Target {
        name: "replacement-checkpoint", about: "the ledger of a pass",
        shape: Shape::Json, envelope: Some(CHECKPOINT), examine: checkpoint,
    },
    Target {
        name: "replacement-approval", about: "an operator's permission to import, and its receipt",
        shape: Shape::Json, envelope: None, examine: approval,
    },
    Target {
        name: "replacement-note", about: "what the targets were when the generation began",
        shape: Shape::Json, envelope: None, examine: note,
    },
    Target {
        name: "replacement-marker", about: "markers, seals and the names of records",
        shape: Shape::Text, envelope: None, examine: markers,
    },
    Target {
        name: "replacement-anchor", about: "all records of an anchor: handoffs, chains, what is written next",
        shape: Shape::Json, envelope: Some(ANCHOR), examine: anchor,
    },
];

/// The generation that a record says it is of: its reader is told the name that it lies under.
fn named(bytes: &[u8], key: &str) -> GenerationId {
    let value: Option<Value> = serde_json::from_slice(bytes).ok();
    let id = value.as_ref().and_then(|value| value.get(key)?.as_str()?.parse().ok());
    id.unwrap_or_default()
}

fn intent(bytes: &[u8]) -> Examined {
    let id = named(bytes, "task_id");
    let releases = [legacy::Release::Legacy6, legacy::Release::Legacy5];
    let older = releases.map(|release| release.read(id, bytes).is_ok());
    let Ok(intent) = Intent::read(id, bytes) else {
        return Ok(if older.contains(&true) { Found::Decoded } else { Found::Refused });
    };
    // What the layout of its bytes has no key for is lost when it is written, and then no more.
    let written = intent.encode();
    let again = Intent::read(id, &written).map_err(|why| format!("not read again: {why}"))?;
    must(again.encode() == written, "an intent is written again as another")?;
    // An ordinary heal has no generation, and whatever else it says is about no target.
    let is_bound = intent.identities.len() == intent.targets.len();
    must(is_bound || intent.generation.is_none(), "a target is bound to nothing")?;
    Ok(Found::Decoded)
}

fn proof(bytes: &[u8]) -> Examined {
    let id = named(bytes, "task_id");
    let Ok(proof) = Proof::read(id, bytes) else { return Ok(Found::Refused) };
    must(Proof::read(id, &proof.encode()).as_ref() == Ok(&proof), "a proof is not read again")?;
    Ok(Found::Decoded)
}

/// One piece: the checkpoint, which gets the digest that belongs to it.
const CHECKPOINT: Envelope = Envelope {
    open: |file| Some(vec![file.to_vec()]),
    close: |pieces| {
        let bytes = pieces.concat();
        match Checkpoint::parse(&bytes) {
            Ok(checkpoint) => checkpoint.seal(checkpoint.checkpoint_time),
            Err(_) => bytes,
        }
    },
    pieces: Shape::Json,
};

fn checkpoint(bytes: &[u8]) -> Examined {
    let id = named(bytes, "task_id");
    let Ok(checkpoint) = Checkpoint::read(id, bytes) else { return Ok(Found::Refused) };
    let again = Checkpoint::read(id, &checkpoint.seal(checkpoint.checkpoint_time));
    must(
        again.is_ok_and(|again| again.known() == checkpoint.known()),
        "what was sealed is not read again",
    )?;
    let _ = checkpoint.digest_of_sorted_keys();
    Ok(Found::Decoded)
}

fn approval(bytes: &[u8]) -> Examined {
    let id = named(bytes, "successor");
    let Ok(approval) = Approval::read(id, bytes) else { return Ok(Found::Refused) };
    for written in [approval.encode(), approval.encode_pretty()] {
        must(
            Approval::read(id, &written).as_ref() == Ok(&approval),
            "an approval is not read again",
        )?;
    }
    Ok(Found::Decoded)
}

fn note(bytes: &[u8]) -> Examined {
    let id = named(bytes, "generation");
    let Some(note) = Note::parse(id, bytes) else { return Ok(Found::Refused) };
    must(Note::parse(id, &note.encode()).as_ref() == Some(&note), "a note is not read again")?;
    Ok(Found::Decoded)
}

/// The whole is a marker, and each line the path of a record.
fn markers(bytes: &[u8]) -> Examined {
    let mut found = Found::Refused;
    if let Ok(Some(owner)) = marker::read("drive", Some(bytes)) {
        must(owner.len() <= marker::BYTES_MAX, "a marker is longer than it may be")?;
        found = Found::Decoded;
    }
    for path in String::from_utf8_lossy(bytes).lines() {
        let written = match names::parse(path) {
            Name::Record(record, id) => names::path(record, id),
            Name::Archive { successor, source } => names::archive_path(successor, source),
            Name::Other => continue,
        };
        must(written == path, "a record has two names")?;
        must(stays_below(path), "a record leads out of the drive")?;
        found = Found::Decoded;
    }
    Ok(found)
}

/// Pieces: path and text of each file in turn.
const ANCHOR: Envelope = Envelope {
    open: |file| {
        let files: BTreeMap<String, String> = serde_json::from_slice(file).ok()?;
        Some(
            files
                .into_iter()
                .flat_map(|(path, text)| [path.into_bytes(), text.into_bytes()])
                .collect(),
        )
    },
    close: |pieces| {
        let text = |piece: &Vec<u8>| String::from_utf8_lossy(piece).into_owned();
        let pairs = pieces.chunks_exact(2).map(|pair| (text(&pair[0]), text(&pair[1])));
        serde_json::to_vec(&pairs.collect::<BTreeMap<_, _>>()).unwrap_or_default()
    },
    pieces: Shape::Json,
};

/// An object of paths and texts is the anchor of every generation in it. Whoever is asked for the next write asks for
/// one that stays in the records' place, or refuses.
fn anchor(bytes: &[u8]) -> Examined {
    let Ok(texts) = serde_json::from_slice::<BTreeMap<String, String>>(bytes) else {
        return Ok(Found::Refused);
    };
    let files = texts.into_iter().map(|(path, text)| (path, text.into_bytes())).collect();
    let files = Files { has_folder: true, is_blank: false, bytes: files };
    let mut found = Found::Refused;
    for id in flat::generations(&files) {
        if let Ok(Some(write)) = flat::next_write(&files, id) {
            stays(&write)?;
        }
    }
    for id in files.generations().into_iter().take(3) {
        let (_, _, _) = (files.is_torn(id), files.proof(id), files.checkpoint(id));
        let _ = files.approval(id);
        let Ok(Some(stored)) = files.intent(id) else { continue };
        found = Found::Decoded;
        let intent = stored.value;
        let mounts = intent.identities.iter().map(|identity| {
            Ok(Mounted { identity: identity.clone(), filesystem_uuid: None, format_id: None })
        });
        let now = Now {
            time_s: 1_700_000_000,
            mounts: mounts.collect(),
            buckets: vec!["bucket".to_owned()],
            is_opening: true,
            ..Now::default()
        };
        let owned = vec![Some(intent.owner().into_bytes()); intent.targets.len()];
        let gone = intent.targets.iter().map(|_| Err("away".to_owned()));
        let away = Now { mounts: gone.collect(), ..now.clone() };
        let mut durable =
            Durable { files: files.clone(), markers: vec![None; intent.targets.len()] };
        let _ = run::work(&durable, id);
        for (now, markers) in [(&now, None), (&now, Some(owned)), (&away, None)] {
            durable.markers = markers.unwrap_or(durable.markers);
            if let Ok(Some(write)) = run::next_write(&durable, id, now, &Done::Nothing) {
                stays(&write)?;
            }
        }
        let _ = resolve::runner(&files, id);
    }
    Ok(found)
}

fn stays(write: &Write) -> Result<(), String> {
    must(write.path.is_empty() || stays_below(&write.path), "a write leads out of the drive")?;
    if let Change::Swap { .. } = write.change {
        let known = write.path == names::MARKER || names::parse(&write.path) != Name::Other;
        must(known, "a write is to no record")?;
    }
    Ok(())
}
