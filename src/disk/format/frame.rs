//! Frames: how a shard lies in its file, each block of it behind its own hash.
//!
//! A part is cut into blocks of `block_bytes`; each block becomes one frame in each shard file: 32 bytes of
//! HighwayHash-256, then the shard's bytes of that block. Nothing ties a frame to its place: only the
//! stripe can tell a misplaced one.

use highway::HighwayHash as _;
use highway::HighwayHasher;
use highway::Key;

/// Bytes of the hash before each frame's data.
pub const HASH_BYTES: usize = 32;
/// Block size of everything newly written.
pub const BLOCK_BYTES: u64 = 1 << 20;

const KEY: [u64; 4] =
    [0xcd8a_238e_fa34_e74b, 0x5285_96bb_e683_3e26, 0x1444_9fa3_5d93_0f04, 0xa036_de22_139d_e097];

/// The hash that stands before a frame's data.
pub fn hash(data: &[u8]) -> [u8; HASH_BYTES] {
    let mut hasher = HighwayHasher::new(Key(KEY));
    hasher.append(data);
    let mut bytes = [0; HASH_BYTES];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(hasher.finalize256()) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Appends one frame to `file`.
pub fn encode(shard: &[u8], file: &mut Vec<u8>) {
    file.extend_from_slice(&hash(shard));
    file.extend_from_slice(shard);
}

/// Makes a frame of a shard that lies behind room for its hash.
///
/// # Panics
///
/// There is no such room.
pub fn seal(file: &mut [u8]) {
    let (room, shard) = file.split_at_mut(HASH_BYTES);
    room.copy_from_slice(&hash(shard));
}

/// The data of one whole frame, when its hash is right.
pub fn verify(frame: &[u8]) -> Option<&[u8]> {
    let (stored, data) = frame.split_at_checked(HASH_BYTES)?;
    (hash(data) == stored).then_some(data)
}

/// How one part lies in a shard file. All sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartLayout {
    /// Stored size of the part.
    pub part_bytes: u64,
    /// Data shards.
    pub data: usize,
    /// Block size.
    pub block_bytes: u64,
}

/// One frame's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameSpan {
    /// Where it begins in the shard file, hash included.
    pub offset: u64,
    /// Its data, without the hash.
    pub shard_bytes: usize,
    /// Bytes of the part that its block holds.
    pub block_bytes: usize,
}

impl PartLayout {
    /// The layout of new data.
    pub fn new(part_bytes: u64, data: usize) -> Self {
        Self { part_bytes, data, block_bytes: BLOCK_BYTES }
    }

    /// Frames in each shard file.
    pub fn frames(&self) -> u64 {
        self.part_bytes.div_ceil(self.block_bytes)
    }

    /// The n-th frame's place, from 0. Past the end it has no bytes.
    pub fn frame(&self, index: u64) -> FrameSpan {
        let full = shard_size(self.block_bytes, self.data);
        let start = index.saturating_mul(self.block_bytes);
        let block_bytes = self.part_bytes.saturating_sub(start).min(self.block_bytes);
        FrameSpan {
            offset: index.saturating_mul(full + HASH_BYTES as u64),
            shard_bytes: shard_size(block_bytes, self.data) as usize,
            block_bytes: block_bytes as usize,
        }
    }

    /// Bytes of a shard without hashes.
    pub fn payload_bytes(&self) -> u64 {
        let full = self.part_bytes / self.block_bytes;
        let rest = self.part_bytes % self.block_bytes;
        full.saturating_mul(shard_size(self.block_bytes, self.data)) + shard_size(rest, self.data)
    }

    /// Bytes of a shard file.
    pub fn file_bytes(&self) -> u64 {
        self.payload_bytes().saturating_add(self.frames().saturating_mul(HASH_BYTES as u64))
    }
}

/// Bytes of each shard of a block of `block_bytes`.
pub fn shard_size(block_bytes: u64, data: usize) -> u64 {
    block_bytes.div_ceil(data.max(1) as u64)
}

/// The largest shard that still goes into the metadata file, for a single PUT of known length.
pub fn inline_shard_bytes_max(data: usize, versioning_enabled: bool) -> u64 {
    let most = (256_u64 << 10).div_ceil(data.max(1) as u64).min(128 << 10);
    if versioning_enabled { most / 8 } else { most }
}

/// Whether an object of `size` bytes goes into the metadata file.
pub fn goes_inline(size: u64, data: usize, versioning_enabled: bool) -> bool {
    PartLayout::new(size, data).payload_bytes() <= inline_shard_bytes_max(data, versioning_enabled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_the_published_vectors() {
        let all = (0..=255).collect::<Vec<u8>>();
        let cases: [(&[u8], &str); 3] = [
            (b"", "5e76d207cf4ab20866fdc03c83e8a0f4e8f458e880777956ec0bae4e9f23f6c5"),
            (b"hello", "7ca89f8fe6fe306d589992f0526c4b36c4684f43f7c7383da2ed0bc599b7595f"),
            (&all, "7c4b54c324348b596045255e02c3faf3d38014229758f467de84926de69f7cf0"),
        ];
        for (message, digest) in cases {
            assert_eq!(hex::encode(hash(message)), digest);
        }
        let mut message = Vec::new();
        let mut last = [0; HASH_BYTES];
        for _ in 0..32 {
            last = hash(&message);
            message.extend_from_slice(&last);
        }
        let chained = "39c0407ed3f01b18d22c85db4aeff11e060ca5f43131b0126731ca197cd42313";
        assert_eq!(hex::encode(last), chained);
    }

    #[test]
    fn sizes_are_those_of_the_table() {
        let table = [
            (2, 1, 1, 33),
            (2, 1_048_577, 524_289, 524_353),
            (2, 10_485_883, 5_242_942, 5_243_294),
            (3, 1_048_576, 349_526, 349_558),
            (4, 5_242_880, 1_310_720, 1_310_880),
            (4, 10_485_883, 2_621_471, 2_621_823),
            (6, 1_048_577, 174_764, 174_828),
            (8, 262_145, 32_769, 32_801),
            (12, 10_485_883, 873_831, 874_183),
            (3, 0, 0, 0),
        ];
        for (data, part_bytes, payload, file) in table {
            let layout = PartLayout::new(part_bytes, data);
            assert_eq!(
                (layout.payload_bytes(), layout.file_bytes()),
                (payload, file),
                "{data} {part_bytes}"
            );
        }
    }

    #[test]
    fn frames_fill_the_file_exactly() {
        for data in 1..=16 {
            for part_bytes in
                [0, 1, 15, 16, 1 << 20, (1 << 20) + 1, (3 << 20) - 1, 3 << 20, 5_000_001]
            {
                let layout = PartLayout::new(part_bytes, data);
                let mut at = 0;
                let mut bytes = 0;
                for index in 0..layout.frames() {
                    let span = layout.frame(index);
                    assert_eq!(span.offset, at);
                    at += (HASH_BYTES + span.shard_bytes) as u64;
                    bytes += span.block_bytes as u64;
                }
                assert_eq!((at, bytes), (layout.file_bytes(), part_bytes));
            }
        }
    }

    #[test]
    fn the_inline_limit_is_that_of_the_table() {
        // Data shards, then the largest inline object without and with versioning.
        let table = [
            (1, 131_072, 16_384),
            (2, 262_144, 32_768),
            (3, 262_146, 32_766),
            (5, 262_145, 32_765),
            (7, 262_150, 32_767),
            (9, 262_152, 32_769),
            (10, 262_150, 32_760),
            (11, 262_152, 32_769),
            (12, 262_152, 32_760),
        ];
        for (data, plain, versioned) in table {
            for (limit, enabled) in [(plain, false), (versioned, true)] {
                assert!(goes_inline(limit, data, enabled), "{data} {limit}");
                assert!(!goes_inline(limit + 1, data, enabled), "{data} {limit}");
            }
        }
    }

    #[test]
    fn a_flipped_bit_anywhere_in_a_frame_is_seen() {
        let mut frame = Vec::new();
        encode(b"shard bytes", &mut frame);
        assert_eq!(verify(&frame), Some(b"shard bytes".as_slice()));
        for bit in 0..frame.len() * 8 {
            let mut bad = frame.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(verify(&bad), None, "bit {bit}");
        }
        for length in 0..frame.len() {
            assert_eq!(verify(&frame[..length]), None);
        }
    }
}
