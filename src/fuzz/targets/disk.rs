//! What lies under the keys of a drive: metadata, shards, names.

use uuid::Uuid;

use crate::disk::format::checksum::Record;
use crate::disk::format::erasure::Erasure;
use crate::disk::format::frame;
use crate::disk::format::frame::HASH_BYTES;
use crate::disk::format::frame::PartLayout;
use crate::disk::format::msgpack::Reader;
use crate::disk::format::msgpack::put_binary;
use crate::disk::format::msgpack::put_uint;
use crate::disk::format::xl_meta::Version;
use crate::disk::format::xl_meta::XlMeta;
use crate::disk::layout;
use crate::disk::layout::UploadName;
use crate::fuzz::Target;
use crate::fuzz::target::Envelope;
use crate::fuzz::target::Examined;
use crate::fuzz::target::Found;
use crate::fuzz::target::Shape;
use crate::fuzz::target::must;
use crate::fuzz::target::stays_below;
use xxhash_rust::xxh64::xxh64;

/// Versions of one file that are looked at one by one.
const VERSIONS_EXAMINED: usize = 16;
/// Frames of the corpus hold this many bytes of a shard at most.
const FRAME_BYTES: usize = 256;

#[rustfmt::skip]
pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "xl-meta", about: "xl.meta: all versions of a key on one drive",
        shape: Shape::Binary, envelope: Some(XL_META), examine: xl_meta,
    },
    Target {
        name: "frames", about: "shard files: hashed frames, and a stripe made of them",
        shape: Shape::Binary, envelope: Some(FRAMES), examine: frames,
    },
    Target {
        name: "checksum-records", about: "the checksums kept with a version",
        shape: Shape::Binary, envelope: None, examine: checksum_records,
    },
    Target {
        name: "msgpack", about: "any MessagePack value, carried and read",
        shape: Shape::MessagePack, envelope: None, examine: msgpack,
    },
    Target {
        name: "names", about: "keys, upload ids and directory names",
        shape: Shape::Text, envelope: None, examine: names,
    },
];

/// Pieces: the two versions of the format, then header and body of each version, then the inline block.
const XL_META: Envelope =
    Envelope { open: open_xl_meta, close: close_xl_meta, pieces: Shape::MessagePack };

fn open_xl_meta(file: &[u8]) -> Option<Vec<Vec<u8>>> {
    let length = u32::from_be_bytes(file.get(9..13)?.try_into().ok()?) as usize;
    let block = file.get(13..13 + length)?;
    let mut reader = Reader::new(block);
    let what = "a piece of a case";
    let versions = (reader.uint(255, what).ok()? as u8, reader.uint(255, what).ok()? as u8);
    let count = reader.uint(1 << 16, what).ok()?;
    let mut pieces = vec![vec![versions.0, versions.1]];
    for _ in 0..2 * count {
        pieces.push(reader.binary(what).ok()?.to_vec());
    }
    pieces.push(file.get(18 + length..)?.to_vec());
    Some(pieces)
}

fn close_xl_meta(pieces: &[Vec<u8>]) -> Vec<u8> {
    let [versions, between @ .., inline] = pieces else { return pieces.concat() };
    let mut block = versions.clone();
    put_uint(&mut block, between.len() as u64 / 2);
    between.iter().for_each(|piece| put_binary(&mut block, piece));
    let mut file = b"XL2 \x01\x00\x03\x00\xc6".to_vec();
    file.extend_from_slice(&(block.len() as u32).to_be_bytes());
    file.extend_from_slice(&block);
    file.push(0xce);
    file.extend_from_slice(&(xxh64(&block, 0) as u32).to_be_bytes());
    file.extend_from_slice(inline);
    file
}

/// What is read is read again as the same; what passes for usable has a possible geometry, and shards whose
/// places can be computed; a version that is taken out is out.
fn xl_meta(bytes: &[u8]) -> Examined {
    let is_whole = XlMeta::parse(bytes).is_ok();
    let Ok((mut meta, inline)) = XlMeta::parse_damaged(bytes) else {
        must(!is_whole, "a file is whole and cannot be read")?;
        return Ok(Found::Refused);
    };
    must(is_whole == inline.is_ok(), "two readers disagree about a file")?;
    let again =
        XlMeta::parse(&meta.encode()).map_err(|error| format!("not read again: {error}"))?;
    must(again == meta, "what is written again is something else")?;
    drop(again);
    // Versions beyond these differ in nothing that the next would not show, and there may be ten thousand.
    for version in meta.versions().iter().take(VERSIONS_EXAMINED) {
        usable(&meta, version)?;
    }
    let _ = (meta.latest(), meta.ownerless_inline());
    if let Some(id) = meta.versions().first().map(Version::id) {
        meta.remove(id);
        must(meta.find(id).is_none() && meta.inline(id).is_none(), "a version taken out is in")?;
        must(
            XlMeta::parse(&meta.encode()).as_ref() == Ok(&meta),
            "it is not read after a removal",
        )?;
    }
    Ok(if inline.is_ok() { Found::Decoded } else { Found::Refused })
}

/// What must hold of a version, all the more when a node may use it.
fn usable(meta: &XlMeta, version: &Version) -> Result<(), String> {
    let _ = (version.identity(), version.computed_signature());
    let again = Version::parse(version.header_bytes(), version.body_bytes());
    must(again.as_ref() == Ok(version), "a version is read otherwise by itself")?;
    let Some(object) = version.as_object() else { return Ok(()) };
    for value in object.system.values() {
        let _ = Record::parse_all(value);
    }
    let _ = (object.etag(), object.is_inline(), object.is_remote(), object.is_encoded());
    if version.check().is_err() {
        return Ok(());
    }
    Erasure::new(object.data, object.parity).map_err(|error| format!("it may be used: {error}"))?;
    let moved = version.for_shard(1).ok_or("an object is none")?;
    must(moved.check().is_ok(), "on another drive the version breaks a rule")?;
    must(moved.identity() == version.identity(), "on another drive it is another version")?;
    for part in &object.parts {
        let layout = PartLayout {
            part_bytes: part.size,
            data: object.data,
            block_bytes: object.block_bytes,
        };
        lies_as_it_should(&layout)?;
        must((1..=10_000).contains(&part.number), "a part has an impossible number")?;
    }
    if let Some(value) = meta.inline(version.id()) {
        let _ = frame::verify(value);
    }
    Ok(())
}

/// The frames of a part follow each other, and end where the file ends.
fn lies_as_it_should(layout: &PartLayout) -> Result<(), String> {
    let frames = layout.frames();
    must(layout.file_bytes() < 1 << 63, "a shard file is larger than files can be")?;
    if frames == 0 {
        return must(layout.file_bytes() == 0, "a part without frames has bytes");
    }
    let last = layout.frame(frames - 1);
    let end = last.offset + (HASH_BYTES + last.shard_bytes) as u64;
    must(end == layout.file_bytes(), "the last frame does not end the file")?;
    must(layout.frame(frames).block_bytes == 0, "there is a frame behind the last")?;
    must(layout.frame(0).offset == 0, "the first frame is not at the beginning")
}

/// Pieces: the geometry (two bytes), then the data of each frame.
const FRAMES: Envelope = Envelope { open: open_frames, close: close_frames, pieces: Shape::Binary };

fn open_frames(file: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (geometry, rest) = file.split_at_checked(2)?;
    let mut pieces = vec![geometry.to_vec()];
    pieces.extend(
        rest.chunks(HASH_BYTES + FRAME_BYTES)
            .filter_map(|frame| Some(frame.get(HASH_BYTES..)?.to_vec())),
    );
    Some(pieces)
}

fn close_frames(pieces: &[Vec<u8>]) -> Vec<u8> {
    let mut file = pieces.first().cloned().unwrap_or_default();
    file.resize(2, 0);
    for piece in pieces.iter().skip(1) {
        frame::encode(&piece[..piece.len().min(FRAME_BYTES)], &mut file);
    }
    file
}

/// The first two bytes are data and parity shards, the frames behind them the shards of one block, an empty one for a
/// missing shard. A stripe that can be filled in has the shards that it had.
fn frames(bytes: &[u8]) -> Examined {
    let Some((&[data, parity], rest)) = bytes
        .split_at_checked(2)
        .map(|(head, rest)| (<&[u8; 2]>::try_from(head).unwrap_or(&[0, 0]), rest))
    else {
        return Ok(Found::Refused);
    };
    let mut shards: Vec<Option<Vec<u8>>> = Vec::new();
    for file in rest.chunks(HASH_BYTES + FRAME_BYTES) {
        let verified = frame::verify(file);
        if let Some(data) = verified {
            let mut again = Vec::new();
            frame::encode(data, &mut again);
            must(again == file, "a frame with its hash is written as another")?;
        }
        shards.push(verified.filter(|data| !data.is_empty()).map(<[u8]>::to_vec));
    }
    let Ok(erasure) = Erasure::new(data.into(), parity.into()) else { return Ok(Found::Refused) };
    shards.resize(erasure.total(), None);
    let before = shards.clone();
    if erasure.reconstruct(&mut shards).is_err() {
        must(shards == before, "a stripe that cannot be filled in was changed")?;
        return Ok(Found::Refused);
    }
    let kept =
        before.iter().zip(&shards).all(|(before, after)| before.is_none() || before == after);
    must(kept, "a shard that was there was changed")?;
    must(shards.iter().all(Option::is_some), "a shard is missing after all")?;
    let mut contents = Vec::new();
    let whole: Vec<_> = shards.iter().flatten().take(erasure.data()).collect();
    Erasure::join_block(&whole, usize::MAX, &mut contents);
    let missing = before.iter().filter(|shard| shard.is_none()).count();
    if missing == erasure.parity() && !contents.is_empty() {
        // With no opinion to spare, what was filled in is what the code makes of the data.
        must(
            erasure.encode_block(&contents) == shards.into_iter().flatten().collect::<Vec<_>>(),
            "a stripe is not the code of its data",
        )?;
    }
    Ok(Found::Decoded)
}

fn checksum_records(bytes: &[u8]) -> Examined {
    let Ok(records) = Record::parse_all(bytes) else { return Ok(Found::Refused) };
    let again = Record::parse_all(&Record::encode_all(&records));
    must(again.as_ref() == Ok(&records), "records are not read again as they are written")?;
    let _ = records.iter().filter(|record| record.is_composite()).count();
    Ok(Found::Decoded)
}

/// A value that can be carried lies where it was read, and every kind of reader ends.
fn msgpack(bytes: &[u8]) -> Examined {
    let what = "a value of a case";
    let start = Reader::new(bytes);
    let _ = (start.clone().int(what), start.clone().text(what), start.clone().binary(what));
    let _ = (
        start.clone().extension(what),
        start.clone().boolean(what),
        start.clone().fixed::<16>(what),
    );
    let left = bytes.len();
    must(!start.clone().array(what).is_ok_and(|count| count > left), "an array is too long")?;
    must(!start.clone().map(what).is_ok_and(|pairs| 2 * pairs > left), "a map is too long")?;
    let mut reader = start;
    let Ok(value) = reader.skip(what) else { return Ok(Found::Refused) };
    must(value.len() == reader.position() && bytes.starts_with(value), "a value lies elsewhere")?;
    must(Reader::new(value).skip(what) == Ok(value), "a value is not read again")?;
    Ok(Found::Decoded)
}

/// One name a line: no key leads out of its bucket, and what is a name is spelt in one way.
fn names(bytes: &[u8]) -> Examined {
    let Ok(text) = std::str::from_utf8(bytes) else { return Ok(Found::Refused) };
    let mut found = Found::Refused;
    let deployment = Uuid::from_bytes([7; 16]);
    for name in text.lines().take(1_000) {
        if layout::check_bucket(name).is_ok() {
            must(stays_below(name) && !name.contains('/'), "a bucket leads out of the drive")?;
        }
        if layout::check_key(name).is_ok() {
            let directory = layout::key_dir("bucket", name);
            must(stays_below(&directory), "a key leads out of its bucket")?;
            must(
                layout::decode_key(&layout::encode_key(name)) == name,
                "a key is stored as another",
            )?;
            found = Found::Decoded;
        }
        if let Some(id) = layout::parse_data_dir(name) {
            must(id.hyphenated().to_string() == name, "a directory has two names")?;
        }
        if let Ok(upload) = name.parse::<UploadName>() {
            must(upload.to_string() == name, "an upload has two names")?;
            let id = layout::upload_id(deployment, upload);
            must(layout::parse_upload_id(deployment, &id) == Some(upload), "an upload is lost")?;
            found = Found::Decoded;
        }
        if let Some(upload) = layout::parse_upload_id(deployment, name) {
            must(stays_below(&layout::upload_dir("bucket", "key", upload)), "an upload leads out")?;
            found = Found::Decoded;
        }
        let _ = layout::is_replacement(name);
    }
    Ok(found)
}
