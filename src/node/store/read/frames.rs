//! Bytes of a shard file, cut into frames. Pure.

use crate::disk::format::frame;
use crate::disk::format::frame::FrameSpan;
use crate::disk::format::frame::HASH_BYTES;

/// Frames of one drive: per block, the shard if its hash is right.
pub(super) type Frames = Vec<Option<Vec<u8>>>;

/// Cuts `bytes` into the frames of `spans`; what is missing or does not have its hash is left out.
pub(super) fn frames_of(bytes: &[u8], spans: &[FrameSpan], verifies: bool) -> Frames {
    let mut rest = bytes;
    let mut frames = Vec::with_capacity(spans.len());
    for span in spans {
        let Some((frame, after)) = rest.split_at_checked(HASH_BYTES + span.shard_bytes) else {
            frames.push(None);
            rest = &[];
            continue;
        };
        rest = after;
        frames.push(match verifies {
            true => frame::verify(frame).map(<[u8]>::to_vec),
            false => Some(frame[HASH_BYTES..].to_vec()),
        });
    }
    frames
}
