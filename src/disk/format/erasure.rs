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
    /// The code with the first parity shard alone: a row of the matrix does not depend on the rows behind it.
    first: Option<ReedSolomon>,
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
        let first = match parity {
            0 | 1 => None,
            _ => Some(ReedSolomon::new(data, 1).map_err(|_| impossible())?),
        };
        Ok(Self { data, parity, codec, first })
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

    /// As [`encode_block`](Self::encode_block), with `room` bytes of zeros before each shard: what is to stand before it
    /// needs no copy then.
    pub fn encode_behind(&self, block: &[u8], room: usize) -> Vec<Vec<u8>> {
        let shard_bytes = shard_size(block.len() as u64, self.data) as usize;
        let shard = |shard: usize| {
            let mut bytes = Vec::with_capacity(room + shard_bytes);
            bytes.resize(room, 0);
            let start = (shard * shard_bytes).min(block.len());
            let end = (start + shard_bytes).min(block.len());
            bytes.extend_from_slice(&block[start..end]);
            bytes.resize(room + shard_bytes, 0);
            bytes
        };
        let mut files: Vec<_> = (0..self.data).map(shard).collect();
        files.resize_with(self.total(), || vec![0; room + shard_bytes]);
        if let Some(codec) = self.codec.as_ref().filter(|_| shard_bytes > 0) {
            let (data, parity) = files.split_at_mut(self.data);
            let data: Vec<_> = data.iter().map(|file| &file[room..]).collect();
            let mut parity: Vec<_> = parity.iter_mut().map(|file| &mut file[room..]).collect();
            codec
                .encode_sep(&data, &mut parity)
                .expect("the shards are as many and as long as the code asks");
        }
        files
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

    /// Whether parity shards, named by their number from 0, follow from all `data` shards.
    pub fn follows<T: AsRef<[u8]>, U: AsRef<[u8]>>(
        &self,
        data: &[T],
        spare: &[(usize, U)],
    ) -> bool {
        let shard_bytes = data.first().map_or(0, |shard| shard.as_ref().len());
        let is_long = |bytes: &[u8]| bytes.len() == shard_bytes;
        if !data.iter().all(|shard| is_long(shard.as_ref()))
            || !spare.iter().all(|(at, shard)| *at < self.parity && is_long(shard.as_ref()))
        {
            return false;
        }
        if spare.is_empty() || shard_bytes == 0 {
            return true;
        }
        let (codec, rows) = match (&self.first, spare) {
            (Some(first), [(0, _)]) => (Some(first), 1),
            _ => (self.codec.as_ref(), self.parity),
        };
        let mut parity = vec![vec![0; shard_bytes]; rows];
        let encoded = codec.map(|codec| codec.encode_sep(data, &mut parity));
        matches!(encoded, Some(Ok(())))
            && spare.iter().all(|(at, shard)| parity[*at] == shard.as_ref())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every parity shard alone, and all together, follow from the data, and no changed one does.
    #[test]
    fn parity_follows_from_its_own_data_alone() {
        for (data, parity) in [(1, 1), (2, 2), (4, 2), (5, 3), (8, 7)] {
            let erasure = Erasure::new(data, parity).expect("a geometry");
            let block: Vec<u8> = (0..10_001).map(|at| (at * 7 % 253) as u8).collect();
            let shards = erasure.encode_block(&block);
            let (known, spare) = shards.split_at(data);
            let all: Vec<_> = spare.iter().cloned().enumerate().collect();
            assert!(erasure.follows(known, &all));
            assert!(erasure.follows::<_, Vec<u8>>(known, &[]));
            for (at, shard) in &all {
                assert!(erasure.follows(known, &[(*at, shard)]), "{data}+{parity}: {at}");
                let mut wrong = shard.clone();
                wrong[17] ^= 1;
                assert!(!erasure.follows(known, &[(*at, &wrong)]), "{data}+{parity}: {at}");
                assert!(!erasure.follows(known, &[(*at, &shard[1..])]));
            }
            assert!(!erasure.follows(known, &[(parity, &spare[0])]));
        }
    }

    #[test]
    fn room_before_the_shards_changes_nothing_about_them() {
        for (data, parity) in [(1, 0), (1, 1), (4, 2), (5, 3)] {
            let erasure = Erasure::new(data, parity).expect("a geometry");
            for length in [1, 7, 4096, 10_001] {
                let block: Vec<u8> = (0..length).map(|at| (at * 7 + 3) as u8).collect();
                let behind = erasure.encode_behind(&block, 5);
                assert!(behind.iter().all(|file| file[..5] == [0; 5]));
                let shards: Vec<_> = behind.into_iter().map(|file| file[5..].to_vec()).collect();
                assert_eq!(shards, erasure.encode_block(&block), "{data}+{parity} of {length}");
            }
        }
    }

    #[test]
    fn the_code_is_that_of_the_published_self_test() {
        let table: [(usize, usize, u64); 14] = [
            (2, 2, 0x23fb_21be_2496_f5d3),
            (3, 1, 0x60ab_0521_48b0_10b4),
            (3, 2, 0xe649_27da_ef76_435a),
            (3, 3, 0x672f_6f24_2b22_7b21),
            (4, 2, 0x62b9_5529_4550_4fef),
            (4, 4, 0x09a0_7581_dcd0_3da8),
            (5, 3, 0x7ad9_161a_cbb4_c325),
            (6, 6, 0x4b79_0564_8488_3e4c),
            (8, 4, 0x03ba_5e9b_41bf_07f0),
            (8, 7, 0x5074_8e00_99d6_57e8),
            (9, 3, 0xa64e_3be6_d6fe_7e92),
            (10, 5, 0x4383_e58a_086c_c1ac),
            (12, 3, 0xd5ce_5836_8ae9_0b13),
            (14, 1, 0x78a2_8bba_ec57_996e),
        ];
        let block = (0..=255).collect::<Vec<u8>>();
        for (data, parity, digest) in table {
            let shards = Erasure::new(data, parity).unwrap().encode_block(&block);
            let mut message = Vec::new();
            for (number, shard) in shards.iter().enumerate() {
                message.push(number as u8);
                message.extend_from_slice(shard);
            }
            let found = xxhash_rust::xxh64::xxh64(&message, 0);
            assert_eq!(found, digest, "{data}+{parity}: {found:x}");
        }
    }

    #[test]
    fn the_second_published_vector_holds() {
        let shards = Erasure::new(5, 5).unwrap().encode_block(&[0, 1, 4, 5, 2, 3, 6, 7, 8, 9]);
        let parity = [[0x0c, 0x0d], [0x0a, 0x0b], [0x0e, 0x0f], [0x5a, 0x5b], [0x5e, 0x5f]];
        assert_eq!(shards[5..], parity);
    }

    #[test]
    fn any_enough_shards_give_the_block_back() {
        for (data, parity) in [(1, 0), (1, 1), (2, 1), (2, 2), (3, 3), (4, 2), (8, 4)] {
            let erasure = Erasure::new(data, parity).unwrap();
            for length in [0, 1, data - 1, data, data + 1, 1000] {
                let block = (0..length).map(|byte| (byte * 7 + 3) as u8).collect::<Vec<_>>();
                let whole = erasure.encode_block(&block);
                for mask in 0_u32..1 << erasure.total() {
                    let mut shards = whole
                        .iter()
                        .enumerate()
                        .map(|(number, shard)| (mask >> number & 1 == 1).then(|| shard.clone()))
                        .collect::<Vec<_>>();
                    let enough = mask.count_ones() as usize >= data;
                    let mut data_only = shards.clone();
                    assert_eq!(erasure.reconstruct(&mut shards).is_ok(), enough);
                    assert_eq!(erasure.reconstruct_data(&mut data_only).is_ok(), enough);
                    if !enough {
                        continue;
                    }
                    let shards = shards.into_iter().flatten().collect::<Vec<_>>();
                    assert_eq!(shards, whole, "{data}+{parity} {mask:b}");
                    let data_only = data_only.into_iter().take(data).flatten().collect::<Vec<_>>();
                    let mut contents = Vec::new();
                    Erasure::join_block(&data_only, length, &mut contents);
                    assert_eq!(contents, block);
                }
            }
        }
    }

    #[test]
    fn parity_alone_is_that_of_the_whole_block() {
        let erasure = Erasure::new(3, 2).unwrap();
        let whole = erasure.encode_block(b"some bytes of a block");
        let mut parity = vec![Vec::new(), vec![9; 99]];
        erasure.encode_parity(&whole[..3], &mut parity);
        assert_eq!(parity, whole[3..]);
    }

    #[test]
    fn impossible_geometries_and_unequal_shards_are_refused() {
        for (data, parity) in [(0, 0), (0, 1), (1, 2), (9, 8), (17, 0)] {
            assert!(Erasure::new(data, parity).is_err(), "{data}+{parity}");
        }
        let erasure = Erasure::new(2, 1).unwrap();
        let mut unequal = [Some(vec![1, 2]), Some(vec![1]), None];
        assert!(erasure.reconstruct(&mut unequal).is_err());
        let mut few = [Some(vec![1, 2]), Some(vec![3, 4])];
        assert!(erasure.reconstruct(&mut few).is_err());
    }
}
