//! The erasure code of a stripe: Reed-Solomon over GF(2^8) with the systematic Vandermonde matrix.

use rustfs_erasure_codec::galois_8::ReedSolomon;

use super::FormatError;
use super::frame::shard_size;

/// The code for one geometry. Cheap to share, costly to make: keep it.
#[derive(Debug)]
pub struct Erasure {
    data: usize,
    parity: usize,
    codec: Option<ReedSolomon>,
}

impl Erasure {
    /// The code for `data` + `parity` shards.
    ///
    /// # Errors
    ///
    /// The geometry is impossible: `data` must be at least 1, not below `parity`, and the sum at most 16.
    pub fn new(data: usize, parity: usize) -> Result<Self, FormatError> {
        let impossible =
            || FormatError::contradiction(format!("{data}+{parity} is no possible geometry"));
        if data == 0 || parity > data || data + parity > 16 {
            return Err(impossible());
        }
        let codec = match parity {
            0 => None,
            _ => Some(ReedSolomon::new(data, parity).map_err(|_| impossible())?),
        };
        Ok(Self { data, parity, codec })
    }

    /// Data shards.
    pub fn data(&self) -> usize {
        self.data
    }

    /// Parity shards.
    pub fn parity(&self) -> usize {
        self.parity
    }

    /// All shards.
    pub fn total(&self) -> usize {
        self.data + self.parity
    }

    /// The shards of one block, data first; each `ceil(block / data)` bytes, zero-padded at the end.
    pub fn encode_block(&self, block: &[u8]) -> Vec<Vec<u8>> {
        let shard_bytes = shard_size(block.len() as u64, self.data) as usize;
        let mut shards = (0..self.total())
            .map(|shard| {
                let mut bytes = Vec::with_capacity(shard_bytes);
                if shard < self.data {
                    let start = (shard * shard_bytes).min(block.len());
                    let end = (start + shard_bytes).min(block.len());
                    bytes.extend_from_slice(&block[start..end]);
                }
                bytes.resize(shard_bytes, 0);
                bytes
            })
            .collect::<Vec<_>>();
        if let Some(codec) = self.codec.as_ref().filter(|_| shard_bytes > 0) {
            codec.encode(&mut shards).expect("the shards are as many and as long as the code asks");
        }
        shards
    }

    /// Computes the parity of `data` shards of equal length into `parity`.
    pub fn encode_parity<T: AsRef<[u8]>>(&self, data: &[T], parity: &mut [Vec<u8>]) {
        let shard_bytes = data.first().map_or(0, |shard| shard.as_ref().len());
        for shard in parity.iter_mut() {
            shard.resize(shard_bytes, 0);
        }
        if let Some(codec) = self.codec.as_ref().filter(|_| shard_bytes > 0) {
            codec
                .encode_sep(data, parity)
                .expect("the shards are as many and as long as the code asks");
        }
    }

    /// Fills in every missing shard.
    ///
    /// # Errors
    ///
    /// Fewer than `data` shards are there, or their lengths differ.
    pub fn reconstruct(&self, shards: &mut [Option<Vec<u8>>]) -> Result<(), FormatError> {
        self.fill(shards, |codec, shards| codec.reconstruct(shards))
    }

    /// Fills in the missing data shards; parity shards stay as they are.
    ///
    /// # Errors
    ///
    /// As [`Erasure::reconstruct`].
    pub fn reconstruct_data(&self, shards: &mut [Option<Vec<u8>>]) -> Result<(), FormatError> {
        self.fill(shards, |codec, shards| codec.reconstruct_data(shards))
    }

    fn fill(
        &self,
        shards: &mut [Option<Vec<u8>>],
        work: impl FnOnce(
            &ReedSolomon,
            &mut [Option<Vec<u8>>],
        ) -> Result<(), rustfs_erasure_codec::Error>,
    ) -> Result<(), FormatError> {
        let present = shards.iter().flatten().count();
        let mut lengths = shards.iter().flatten().map(Vec::len);
        let length = lengths.next();
        if shards.len() != self.total() || present < self.data {
            return Err(FormatError::contradiction(format!(
                "{present} of {} shards are too few, {} are needed",
                shards.len(),
                self.data
            )));
        }
        if lengths.any(|other| Some(other) != length) {
            return Err(FormatError::contradiction("the shards differ in length"));
        }
        match &self.codec {
            _ if present == self.total() => Ok(()),
            _ if length == Some(0) => {
                shards.iter_mut().for_each(|shard| *shard = Some(Vec::new()));
                Ok(())
            }
            None => Ok(()),
            Some(codec) => work(codec, shards)
                .map_err(|error| FormatError::contradiction(format!("no reconstruction: {error}"))),
        }
    }

    /// Appends the block that the data shards hold, cut to `block_bytes`, to `contents`.
    pub fn join_block<T: AsRef<[u8]>>(data: &[T], block_bytes: usize, contents: &mut Vec<u8>) {
        let mut left = block_bytes;
        for shard in data {
            let shard = shard.as_ref();
            let take = shard.len().min(left);
            contents.extend_from_slice(&shard[..take]);
            left -= take;
        }
    }
}
