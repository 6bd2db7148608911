//! Blocks: whether the shards of one stripe belong together, and which do not.
//!
//! A frame's hash says that its bytes are whole, not that they are in their place. So every stripe is
//! encoded again and compared. Where a shard contradicts the others, redundancy tells which one it is; where
//! redundancy does not suffice, the candidates are handed on, to be held against the contents' ETag.

use crate::disk::format::erasure::Erasure;

/// A set of shards, bit i for shard i.
pub(super) type Mask = u16;

/// How many columns of a stripe are tried for each set of suspects.
const COLUMNS_MAX: usize = 256;
/// How many sets of suspects are handed on.
const CANDIDATES_MAX: usize = 512;

/// What one stripe is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stripe {
    /// All shards that are there belong together.
    Fits,
    /// Exactly these contradict the others.
    Wrong(Mask),
    /// Any of these sets may be the wrong ones, the likeliest first.
    Ambiguous(Vec<Mask>),
    /// Too few shards to decode.
    Lost,
}

/// Buffers that are reused from stripe to stripe.
#[derive(Default)]
pub(super) struct Scratch {
    parity: Vec<Vec<u8>>,
}

/// The bits of a mask.
pub(super) fn members(mask: Mask) -> impl Iterator<Item = usize> {
    (0..16).filter(move |shard| mask >> shard & 1 == 1)
}

/// Compares all shards in `have` with each other. `shards[i]` is shard i's bytes when bit i of `have` is set.
pub(super) fn examine(
    erasure: &Erasure,
    shards: &[&[u8]],
    have: Mask,
    scratch: &mut Scratch,
) -> Stripe {
    let data = erasure.data();
    let count = have.count_ones() as usize;
    if count < data {
        return Stripe::Lost;
    }
    let data_mask = (1 << data) - 1;
    if have & data_mask == data_mask {
        if have == data_mask {
            return Stripe::Fits;
        }
        scratch.parity.resize(erasure.parity(), Vec::new());
        erasure.encode_parity(&shards[..data], &mut scratch.parity);
        let same = |shard: usize| scratch.parity[shard - data] == shards[shard];
        if members(have & !data_mask).all(same) {
            return Stripe::Fits;
        }
    } else if fits(erasure, shards, have) {
        return Stripe::Fits;
    }
    suspect(erasure, shards, have)
}

/// The data shards, those that are missing or wrong computed from the others.
pub(super) fn data_of(erasure: &Erasure, shards: &[&[u8]], good: Mask) -> Option<Vec<Vec<u8>>> {
    let mut filled = only(shards, first(good, erasure.data()));
    erasure.reconstruct_data(&mut filled).ok()?;
    filled.into_iter().take(erasure.data()).collect()
}

/// Whether all shards of a mask lie on one codeword.
pub(super) fn fits(erasure: &Erasure, shards: &[&[u8]], mask: Mask) -> bool {
    let base = first(mask, erasure.data());
    let mut filled = only(shards, base);
    if erasure.reconstruct(&mut filled).is_err() {
        return false;
    }
    members(mask & !base).all(|shard| filled[shard].as_deref() == Some(shards[shard]))
}

fn only(shards: &[&[u8]], mask: Mask) -> Vec<Option<Vec<u8>>> {
    let present = |shard: usize| (mask >> shard & 1 == 1).then(|| shards[shard].to_vec());
    (0..shards.len()).map(present).collect()
}

/// The lowest `count` bits of a mask.
fn first(mask: Mask, count: usize) -> Mask {
    members(mask).take(count).fold(0, |taken, shard| taken | 1 << shard)
}

/// Finds the smallest sets of shards without which the others fit.
fn suspect(erasure: &Erasure, shards: &[&[u8]], have: Mask) -> Stripe {
    let columns = contradictions(erasure, shards, have);
    let narrow = shards
        .iter()
        .enumerate()
        .map(|(shard, bytes)| match have >> shard & 1 {
            1 => columns.iter().map(|column| bytes[*column]).collect(),
            _ => Vec::new(),
        })
        .collect::<Vec<Vec<u8>>>();
    let narrow = narrow.iter().map(Vec::as_slice).collect::<Vec<_>>();
    let spare = have.count_ones() as usize - erasure.data();
    let mut candidates = Vec::new();
    for wrong_count in 1..spare {
        candidates = subsets(have, wrong_count)
            .filter(|wrong| fits(erasure, &narrow, have & !wrong))
            .filter(|wrong| fits(erasure, shards, have & !wrong))
            .take(CANDIDATES_MAX)
            .collect::<Vec<_>>();
        match candidates.as_slice() {
            [] => {}
            [wrong] => return Stripe::Wrong(*wrong),
            _ => break,
        }
    }
    let pairs = exchanged(erasure, &narrow, shards, have);
    if let [pair] = pairs.as_slice() {
        return Stripe::Wrong(*pair);
    }
    if candidates.is_empty() {
        // Without any shard to spare everything fits, so that only the contents can tell.
        candidates = subsets(have, spare).take(CANDIDATES_MAX).collect();
    }
    candidates.sort_by_key(|candidate| !pairs.contains(candidate));
    Stripe::Ambiguous(candidates)
}

/// Pairs of shards that, put in each other's place, make the whole stripe fit. Symmetries of the code may
/// make it several.
fn exchanged(erasure: &Erasure, narrow: &[&[u8]], shards: &[&[u8]], have: Mask) -> Vec<Mask> {
    let pairs = subsets(have, 2).filter(|pair| {
        let mut two = members(*pair);
        let (Some(one), Some(other)) = (two.next(), two.next()) else { return false };
        [narrow, shards].iter().all(|shards| {
            let mut swapped = shards.to_vec();
            swapped.swap(one, other);
            fits(erasure, &swapped, have)
        })
    });
    pairs.collect()
}

/// Columns in which the shards contradict each other, a sample spread over all of them.
fn contradictions(erasure: &Erasure, shards: &[&[u8]], have: Mask) -> Vec<usize> {
    let base = first(have, erasure.data());
    let mut filled = only(shards, base);
    if erasure.reconstruct(&mut filled).is_err() {
        return Vec::new();
    }
    let rest = members(have & !base)
        .filter_map(|shard| Some((filled[shard].as_deref()?, shards[shard])))
        .collect::<Vec<_>>();
    let length = rest.first().map_or(0, |(bytes, _)| bytes.len());
    let differs = |column: &usize| rest.iter().any(|(one, other)| one[*column] != other[*column]);
    let all = (0..length).filter(differs).collect::<Vec<_>>();
    let step = all.len().div_ceil(COLUMNS_MAX).max(1);
    all.into_iter().step_by(step).collect()
}

/// All subsets of `count` members.
pub(super) fn subsets(mask: Mask, count: usize) -> impl Iterator<Item = Mask> {
    (0..=Mask::MAX)
        .filter(move |subset| subset & !mask == 0 && subset.count_ones() as usize == count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripe(data: usize, parity: usize) -> (Erasure, Vec<Vec<u8>>) {
        let erasure = Erasure::new(data, parity).unwrap();
        let block = (0..1500_u32).map(|byte| (byte * byte % 251) as u8).collect::<Vec<_>>();
        let shards = erasure.encode_block(&block);
        (erasure, shards)
    }

    fn judge(erasure: &Erasure, shards: &[Vec<u8>], have: Mask) -> Stripe {
        let shards = shards.iter().map(Vec::as_slice).collect::<Vec<_>>();
        examine(erasure, &shards, have, &mut Scratch::default())
    }

    #[test]
    fn any_whole_stripe_fits_and_any_too_small_one_is_lost() {
        for (data, parity) in [(1, 0), (1, 1), (2, 2), (3, 3), (4, 2)] {
            let (erasure, shards) = stripe(data, parity);
            for have in 0..(1 as Mask) << (data + parity) {
                let enough = have.count_ones() as usize >= data;
                let expected = if enough { Stripe::Fits } else { Stripe::Lost };
                assert_eq!(judge(&erasure, &shards, have), expected);
            }
        }
    }

    #[test]
    fn a_misplaced_shard_is_told_from_the_others() {
        for (data, parity) in [(2, 2), (3, 3), (4, 2), (8, 4)] {
            let total = data + parity;
            let all = (1 << total) - 1;
            for wrong in 0..total {
                let (erasure, mut shards) = stripe(data, parity);
                shards[wrong] = shards[(wrong + 1) % total].clone();
                assert_eq!(judge(&erasure, &shards, all), Stripe::Wrong(1 << wrong));
                // With another one missing too, as long as one is to spare.
                if parity > 2 {
                    let have = all & !(1 << ((wrong + 2) % total));
                    assert_eq!(judge(&erasure, &shards, have), Stripe::Wrong(1 << wrong));
                }
            }
        }
    }

    #[test]
    fn two_exchanged_shards_are_both_told() {
        let (erasure, mut shards) = stripe(3, 3);
        shards.swap(1, 4);
        assert_eq!(judge(&erasure, &shards, 0b11_1111), Stripe::Wrong(0b01_0010));
        // Here the code has a symmetry: exchanging the other two instead makes a stripe as well.
        let (erasure, mut shards) = stripe(2, 2);
        shards.swap(0, 3);
        let Stripe::Ambiguous(candidates) = judge(&erasure, &shards, 0b1111) else {
            panic!("two of four cannot be told by redundancy alone");
        };
        assert_eq!(candidates[..2], [0b0110, 0b1001]);
        // Not even enough are left to decode it.
        let (erasure, mut shards) = stripe(2, 1);
        shards.swap(0, 1);
        assert_eq!(judge(&erasure, &shards, 0b111), Stripe::Wrong(0b011));
    }

    #[test]
    fn what_redundancy_cannot_tell_is_left_to_the_contents() {
        let (erasure, mut shards) = stripe(2, 2);
        shards[0] = vec![7; shards[0].len()];
        shards[3] = vec![9; shards[3].len()];
        let Stripe::Ambiguous(candidates) = judge(&erasure, &shards, 0b1111) else {
            panic!("two of four cannot be told by redundancy alone");
        };
        assert_eq!(candidates.len(), 6);
        assert!(candidates.contains(&0b1001));
        let (erasure, mut shards) = stripe(1, 1);
        shards[1][0] ^= 1;
        assert_eq!(judge(&erasure, &shards, 0b11), Stripe::Ambiguous(vec![0b01, 0b10]));
    }

    #[test]
    fn one_wrong_byte_at_the_end_is_enough() {
        let (erasure, mut shards) = stripe(8, 4);
        *shards[2].last_mut().unwrap() ^= 1;
        shards[9][0] ^= 1;
        assert_eq!(judge(&erasure, &shards, 0xfff), Stripe::Wrong(1 << 2 | 1 << 9));
    }

    #[test]
    fn what_is_good_gives_the_data_back() {
        let (erasure, whole) = stripe(3, 3);
        let mut shards = whole.clone();
        shards[0] = shards[5].clone();
        let shards = shards.iter().map(Vec::as_slice).collect::<Vec<_>>();
        assert_eq!(data_of(&erasure, &shards, 0b11_1110).unwrap(), whole[..3]);
        assert_eq!(data_of(&erasure, &shards, 0b00_0110), None);
    }
}
