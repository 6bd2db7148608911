//! Bytes of a shard file, cut into frames. Pure.

use bytes::Bytes;

use crate::disk::format::frame;
use crate::disk::format::frame::FrameSpan;
use crate::disk::format::frame::HASH_BYTES;

/// Frames of one drive: per block, the shard if its hash is right.
pub(super) type Frames = Vec<Option<Bytes>>;

/// Cuts `bytes` into the frames of `spans`; what is missing or does not have its hash is left out.
pub(super) fn frames_of(bytes: &Bytes, spans: &[FrameSpan], verifies: bool) -> Frames {
    let mut at = 0;
    let mut frames = Vec::with_capacity(spans.len());
    for span in spans {
        let end = at + HASH_BYTES + span.shard_bytes;
        let is_good = match bytes.get(at..end) {
            Some(frame) => !verifies || frame::verify(frame).is_some(),
            None => false,
        };
        frames.push(is_good.then(|| bytes.slice(at + HASH_BYTES..end)));
        at = end;
    }
    frames
}
