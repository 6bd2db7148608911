//! What lies in the system's folder of a drive.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::disk::drive::KeptFormat;
use crate::disk::drive::Presence;
use crate::disk::drive::Queue;
use crate::disk::format::bucket::BucketMetadata;
use crate::disk::format::format_json::FormatJson;
use crate::disk::format::upload::PartMeta;
use crate::fuzz::Target;
use crate::fuzz::target::Envelope;
use crate::fuzz::target::Examined;
use crate::fuzz::target::Found;
use crate::fuzz::target::Shape;
use crate::fuzz::target::must;
use crate::node::store::heal::Doubt;
use crate::node::store::heal::Noted;

#[rustfmt::skip]
pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "format-json", about: "format.json: which deployment a drive belongs to",
        shape: Shape::Json, envelope: None, examine: format_json,
    },
    Target {
        name: "part-meta", about: "part.N.meta: a part of an open upload",
        shape: Shape::MessagePack, envelope: None, examine: part_meta,
    },
    Target {
        name: "bucket-metadata", about: "what a bucket is, besides its objects",
        shape: Shape::MessagePack, envelope: Some(BUCKET), examine: bucket_metadata,
    },
    Target {
        name: "heal-queue", about: "the durable queue of unfinished work, and its entries",
        shape: Shape::JsonLines, envelope: None, examine: heal_queue,
    },
    Target {
        name: "drive-notes", about: "presence, the kept format, doubts of the healer",
        shape: Shape::Json, envelope: None, examine: drive_notes,
    },
];

fn format_json(bytes: &[u8]) -> Examined {
    let Ok(format) = FormatJson::parse(bytes) else { return Ok(Found::Refused) };
    must(FormatJson::parse(&format.encode()).as_ref() == Ok(&format), "it is not read again")?;
    let (set, slot) = format.place();
    must(format.xl.sets[set][slot] == format.xl.this, "a drive is in another's slot")?;
    must(format.for_place(set, slot).as_ref() == Some(&format), "a drive is not its own peer")?;
    must(format.for_place(set, slot + 1).is_none_or(|peer| peer.is_peer_of(&format)), "no peer")?;
    Ok(Found::Decoded)
}

fn part_meta(bytes: &[u8]) -> Examined {
    let Ok(part) = PartMeta::parse(bytes) else { return Ok(Found::Refused) };
    must(PartMeta::parse(&part.encode()).as_ref() == Ok(&part), "it is not read again")?;
    must((1..=10_000).contains(&part.number), "a part has an impossible number")?;
    Ok(Found::Decoded)
}

/// Pieces: the four bytes of the version, the rest.
const BUCKET: Envelope = Envelope {
    open: |file| Some(vec![file.get(4..)?.to_vec()]),
    close: |pieces| [b"\x01\x00\x01\x00".as_slice(), &pieces.concat()].concat(),
    pieces: Shape::MessagePack,
};

fn bucket_metadata(bytes: &[u8]) -> Examined {
    let Ok(mut bucket) = BucketMetadata::parse(bytes) else { return Ok(Found::Refused) };
    let again = BucketMetadata::parse(&bucket.encode());
    must(again.is_ok_and(|again| again.encode() == bucket.encode()), "it is not read again")?;
    let state = bucket.versioning();
    bucket.set_versioning(state, 1);
    must(bucket.versioning() == state, "the state that was set is another")?;
    bucket.set_document("TaggingConfigXML", b"<Tagging/>", 1);
    must(
        bucket.document("TaggingConfigXML") == b"<Tagging/>",
        "a document that was set is another",
    )?;
    Ok(Found::Decoded)
}

/// What is read of the file is read of its own beginning too; entries of it are read by themselves.
fn heal_queue(bytes: &[u8]) -> Examined {
    let queue = Queue::read(bytes);
    must(queue.bytes() <= bytes.len() as u64, "more is read than there is")?;
    let again = Queue::read(&bytes[..queue.bytes() as usize]);
    must(
        (again.len(), again.bytes()) == (queue.len(), queue.bytes()),
        "its beginning is another queue",
    )?;
    let bodies = queue.bodies();
    let mut noted = bodies.iter().filter(|body| is_plain::<Noted>(body) == Ok(true));
    Ok(if noted.next().is_some() { Found::Decoded } else { Found::Refused })
}

fn drive_notes(bytes: &[u8]) -> Examined {
    let any =
        [is_plain::<Presence>(bytes)?, is_plain::<KeptFormat>(bytes)?, is_plain::<Doubt>(bytes)?];
    Ok(if any.contains(&true) { Found::Decoded } else { Found::Refused })
}

/// Whether `bytes` are JSON of a `T`, which is then written and read again as the same.
pub(super) fn is_plain<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Result<bool, String> {
    let Ok(value) = serde_json::from_slice::<T>(bytes) else { return Ok(false) };
    let written = serde_json::to_vec(&value).map_err(|error| format!("not written: {error}"))?;
    let again: T =
        serde_json::from_slice(&written).map_err(|error| format!("not read again: {error}"))?;
    let twice = serde_json::to_vec(&again).map_err(|error| format!("not written: {error}"))?;
    must(written == twice, "what is written again is something else")?;
    Ok(true)
}
