//! Contents on their way out: never a wrong byte, never a short success.
//!
//! What leaves was agreed on by one shard more than the code needs. Where none is to spare the MD5 decides: of small
//! objects, which are read whole, before the first byte leaves; of larger ones before anything of a range leaves, and
//! before the last chunk of a whole part does.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::reader::Reader;
use crate::disk::format::checksum::Algorithm;
use crate::disk::format::checksum::Hasher;
use crate::node::store::Store;
use crate::node::store::api::ContentStream;
use crate::node::store::api::StoreError;
use crate::node::store::calls::Held;
use crate::node::store::heal;
use crate::value::VersionId;

/// Objects up to this size are read whole before the first byte leaves.
const SMALL_BYTES: u64 = 2 << 20;
/// Blocks shorter than this leave as one chunk: to put them together takes less time than more chunks do.
const JOINED_BYTES: usize = 64 << 10;
/// Blocks that are read at once.
const WINDOW: u64 = 2;
/// Chunks that wait for the client, so that the next blocks are read while these leave: one block, mostly.
const CHUNKS_AHEAD: usize = 4;
/// So long a reader keeps writers of the key waiting, so that what it reads stays.
const LOCK_KEPT: std::time::Duration = std::time::Duration::from_secs(2);

/// What is to be read of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    /// The part's index.
    part: usize,
    /// The first byte in it.
    start: u64,
    /// Bytes.
    length: u64,
    /// Whether that is the whole part.
    whole: bool,
}

/// Which pieces of which parts a span consists of.
fn pieces(sizes: &[u64], start: u64, length: u64) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut before = 0;
    for (part, &size) in sizes.iter().enumerate() {
        let first = start.max(before);
        let end = (start + length).min(before + size);
        if first < end {
            let length = end - first;
            pieces.push(Piece { part, start: first - before, length, whole: length == size });
        }
        before += size;
    }
    pieces
}

/// Opens the contents. The lock keeps the version in place for a while.
///
/// # Errors
///
/// `Unreadable` when it is known before the first byte that the contents cannot be had.
pub(in crate::node::store) async fn open(
    mut reader: Reader,
    span: (u64, u64),
    lock: Held,
) -> Result<ContentStream, StoreError> {
    let (start, length) = span;
    let size = reader.object().size;
    if length == 0 {
        return Ok(stream::empty().boxed());
    }
    if size <= SMALL_BYTES {
        let contents = whole(&mut reader).await;
        note_trouble(&reader).await;
        drop(lock);
        return Ok(slice(contents?, span));
    }
    let sizes: Vec<_> = reader.object().parts.iter().map(|part| part.size).collect();
    let pieces: VecDeque<_> = pieces(&sizes, start, length).into();
    let (sender, mut receiver) = mpsc::channel(CHUNKS_AHEAD);
    tokio::spawn(async move {
        let mut out = Out { sender, lock: Some(lock), until: Instant::now() + LOCK_KEPT };
        let result = send(&mut reader, pieces, &mut out).await;
        drop(out.lock.take());
        note_trouble(&reader).await;
        if let Err(error) = result {
            out.sender.send(Err(error)).await.ok();
        }
    });
    // What fails at once fails before the answer has begun.
    let first = match receiver.recv().await {
        Some(Ok(first)) => first,
        Some(Err(error)) => return Err(error),
        None => return Err(StoreError::InvalidRequest("the read was abandoned".to_owned())),
    };
    let rest = stream::unfold(receiver, |mut receiver| async move {
        let next = receiver.recv().await?;
        Some((next, receiver))
    });
    Ok(stream::once(async move { Ok(first) }).chain(rest).boxed())
}

/// A span of contents that are there, in chunks as they lie in memory.
fn slice(chunks: Vec<Bytes>, (start, length): (u64, u64)) -> ContentStream {
    let (start, end) = (start as usize, (start + length) as usize);
    let mut begin = 0;
    let wanted = chunks.into_iter().filter_map(move |chunk| {
        let (first, behind) = (begin, begin + chunk.len());
        begin = behind;
        let (from, to) = (start.max(first), end.min(behind));
        (from < to).then(|| Ok(chunk.slice(from - first..to - first)))
    });
    stream::iter(wanted).boxed()
}

/// The whole of a small object in chunks, held against its MD5s; when they do not match, without each drive in turn.
pub(in crate::node::store) async fn whole(reader: &mut Reader) -> Result<Vec<Bytes>, StoreError> {
    let (first, proven) = whole_once(reader).await?;
    if !reader.verifies() || proven || matches(reader, &first) {
        return Ok(first);
    }
    for slot in reader.slots() {
        let mut without = reader.without(slot);
        if let Ok((chunks, _)) = whole_once(&mut without).await
            && matches(&without, &chunks)
        {
            *reader = without;
            return Ok(chunks);
        }
    }
    Err(reader.unreadable("the contents do not have the MD5 that was kept"))
}

async fn whole_once(reader: &mut Reader) -> Result<(Vec<Bytes>, bool), StoreError> {
    let mut chunks = Vec::new();
    let mut all_proven = true;
    for part in 0..reader.object().parts.len() {
        let frames = reader.layout(part).frames();
        let mut at = 0;
        while at < frames {
            let count = WINDOW.min(frames - at);
            for block in reader.blocks(part, at, count).await? {
                all_proven &= block.proven;
                match block.block_bytes < JOINED_BYTES {
                    true => chunks.push(block.contents().into()),
                    false => chunks.extend(block.pieces(0, block.block_bytes)),
                }
            }
            at += count;
        }
    }
    Ok((chunks, all_proven))
}

/// The MD5 that a part must have, when it was kept.
fn md5_of(reader: &Reader, part: usize) -> Option<Vec<u8>> {
    let object = reader.object();
    let of_part = object.parts[part].etag.as_str();
    let text = match (of_part, object.parts.len()) {
        ("", 1) => object.etag(),
        _ => of_part,
    };
    let bytes = hex::decode(text).ok()?;
    (bytes.len() == 16).then_some(bytes)
}

fn matches(reader: &Reader, chunks: &[Bytes]) -> bool {
    let mut chunks = chunks.iter();
    let mut rest: &[u8] = &[];
    for part in 0..reader.object().parts.len() {
        let mut left = reader.object().parts[part].size as usize;
        let expected = md5_of(reader, part);
        let mut hasher = Hasher::new(Algorithm::Md5);
        while left > 0 {
            if rest.is_empty() {
                let Some(chunk) = chunks.next() else { return false };
                rest = chunk;
            }
            let (bytes, after) = rest.split_at(left.min(rest.len()));
            rest = after;
            left -= bytes.len();
            if expected.is_some() {
                hasher.update(bytes);
            }
        }
        if expected.is_some_and(|expected| hasher.finish() != expected) {
            return false;
        }
    }
    true
}

/// Where blocks go.
struct Out {
    sender: mpsc::Sender<Result<Bytes, StoreError>>,
    lock: Option<Held>,
    until: Instant,
}

impl Out {
    /// Hands a chunk on. False when nobody listens any more.
    async fn push(&mut self, chunk: Bytes) -> bool {
        if self.lock.is_some() {
            // A slow client must not keep writers waiting.
            match tokio::time::timeout_at(self.until, self.sender.reserve()).await {
                Ok(Ok(permit)) => {
                    permit.send(Ok(chunk));
                    return true;
                }
                Ok(Err(_)) => return false,
                Err(_) => self.lock = None,
            }
        }
        self.sender.send(Ok(chunk)).await.is_ok()
    }
}

async fn send(
    reader: &mut Reader,
    pieces: VecDeque<Piece>,
    out: &mut Out,
) -> Result<(), StoreError> {
    let verifies = reader.verifies();
    for piece in pieces {
        let layout = reader.layout(piece.part);
        let expected = md5_of(reader, piece.part).filter(|_| verifies);
        // A whole part whose first blocks are not proven is hashed on its way.
        let mut md5 = None;
        let mut checked = false;
        let mut begun = false;
        let (mut at, last) = (
            piece.start / layout.block_bytes,
            (piece.start + piece.length - 1) / layout.block_bytes,
        );
        while at <= last {
            let count = WINDOW.min(last + 1 - at);
            let blocks = reader.blocks(piece.part, at, count).await?;
            let proven = blocks.iter().all(|block| block.proven);
            if !proven && expected.is_some() && md5.is_none() && !checked {
                if piece.whole && !begun {
                    md5 = Some(Hasher::new(Algorithm::Md5));
                } else {
                    check_part(reader, piece.part).await?;
                    checked = true;
                }
            }
            begun = true;
            for (index, block) in blocks.iter().enumerate() {
                if let Some(hasher) = md5.take() {
                    md5 = Some(update(hasher, block.contents().into()).await);
                }
                let begin = (at + index as u64) * layout.block_bytes;
                let from = piece.start.saturating_sub(begin);
                let to = (piece.start + piece.length - begin).min(block.block_bytes as u64);
                let is_last = at + index as u64 == last;
                if is_last
                    && let Some(hasher) = md5.take()
                    && Some(hasher.finish()) != expected
                {
                    return Err(reader.unreadable("the contents do not have the MD5 that was kept"));
                }
                for chunk in block.pieces(from as usize, to as usize) {
                    if !out.push(chunk).await {
                        return Ok(());
                    }
                }
            }
            at += count;
        }
    }
    Ok(())
}

async fn update(mut hasher: Hasher, bytes: Bytes) -> Hasher {
    let work = move || {
        hasher.update(&bytes);
        hasher
    };
    tokio::task::spawn_blocking(work).await.expect("hashing does not panic")
}

/// Reads a whole part against its MD5, because nothing else proves what a range of it holds.
async fn check_part(reader: &mut Reader, part: usize) -> Result<(), StoreError> {
    let expected = md5_of(reader, part);
    let frames = reader.layout(part).frames();
    let mut hasher = Hasher::new(Algorithm::Md5);
    let mut at = 0;
    while at < frames {
        let count = WINDOW.min(frames - at);
        for block in reader.blocks(part, at, count).await? {
            hasher = update(hasher, block.contents().into()).await;
        }
        at += count;
    }
    if Some(hasher.finish()) == expected {
        return Ok(());
    }
    Err(reader.unreadable("the part does not have the MD5 that was kept"))
}

/// Holds every part whose MD5 was kept against it. For whoever makes shards anew without a spare to
/// tell a misplaced one by.
pub(in crate::node::store) async fn prove(reader: &mut Reader) -> Result<(), StoreError> {
    for part in 0..reader.object().parts.len() {
        if reader.object().parts[part].size > 0 && md5_of(reader, part).is_some() {
            check_part(reader, part).await?;
        }
    }
    Ok(())
}

/// Leaves the version to healing when a shard was missing, broken or misplaced.
pub(in crate::node::store) async fn note_trouble(reader: &Reader) {
    if !reader.met_trouble() {
        return;
    }
    let store: &Arc<Store> = reader.store();
    store.counters.repaired_reads();
    let version: VersionId = reader.object().version;
    let work = heal::Unfinished::Contents { target: reader.target().clone(), version };
    heal::enqueue(store, reader.set(), &reader.slots(), work).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_of_chunks_is_what_it_is_of_their_bytes() {
        let chunks = [&b"abc"[..], b"", b"de", b"fghi"].map(Bytes::from_static);
        let all = chunks.concat();
        for start in 0..all.len() {
            for length in 0..=all.len() - start {
                let stream = slice(chunks.to_vec(), (start as u64, length as u64));
                let found = futures::executor::block_on(stream.collect::<Vec<_>>());
                let found: Vec<u8> = found.into_iter().flat_map(Result::unwrap).collect();
                assert_eq!(found, all[start..start + length]);
            }
        }
    }

    #[test]
    fn a_span_is_cut_into_pieces_of_parts() {
        let sizes = [10, 0, 5];
        let piece = |part, start, length, whole| Piece { part, start, length, whole };
        assert_eq!(pieces(&sizes, 0, 15), [piece(0, 0, 10, true), piece(2, 0, 5, true)]);
        assert_eq!(pieces(&sizes, 9, 2), [piece(0, 9, 1, false), piece(2, 0, 1, false)]);
        assert_eq!(pieces(&sizes, 3, 4), [piece(0, 3, 4, false)]);
        assert_eq!(pieces(&sizes, 15, 0), []);
        for start in 0..15 {
            for length in 0..=15 - start {
                let total: u64 = pieces(&sizes, start, length).iter().map(|it| it.length).sum();
                assert_eq!(total, length);
            }
        }
    }
}
