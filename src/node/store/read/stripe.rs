//! One stripe of an object: the shards of one block, checked against each other. Pure.
//!
//! A frame's hash says that its bytes are those that were written, not that they were written *there*. With
//! more shards than the code needs, a shard that belongs elsewhere contradicts the others.

use bytes::Bytes;

use crate::disk::format::erasure::Erasure;

/// What shards add up to.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::node::store) enum Solved {
    /// The data shards; `proven` when more shards than needed agree.
    Data {
        /// All data shards.
        data: Vec<Bytes>,
        /// Whether a spare shard agreed.
        proven: bool,
    },
    /// They contradict each other.
    Contradiction,
    /// There are too few.
    TooFew,
}

/// Puts a stripe together; `shards[i]` is shard i of the code, if it is there.
pub(in crate::node::store) fn solve(erasure: &Erasure, shards: &[Option<Bytes>]) -> Solved {
    let present: Vec<_> = (0..shards.len()).filter(|shard| shards[*shard].is_some()).collect();
    if present.len() < erasure.data() {
        return Solved::TooFew;
    }
    let (base, spare) = present.split_at(erasure.data());
    if let Some(data) = shards[..erasure.data()].iter().cloned().collect::<Option<Vec<Bytes>>>() {
        // Nothing is to be made anew: what is to spare has to follow from what is there.
        let spare: Vec<_> = spare
            .iter()
            .filter_map(|shard| Some((shard - erasure.data(), shards[*shard].as_ref()?)))
            .collect();
        return match erasure.follows(&data, &spare) {
            true => Solved::Data { data, proven: !spare.is_empty() },
            false => Solved::Contradiction,
        };
    }
    let mut work = vec![None; shards.len()];
    for shard in base {
        work[*shard] = shards[*shard].as_ref().map(|bytes| bytes.to_vec());
    }
    let filled = match spare {
        [] => erasure.reconstruct_data(&mut work),
        _ => erasure.reconstruct(&mut work),
    };
    let differs = |shard: &usize| work[*shard].as_deref() != shards[*shard].as_deref();
    if filled.is_err() || spare.iter().any(differs) {
        return Solved::Contradiction;
    }
    let data = work.into_iter().take(erasure.data()).flatten().map(Bytes::from).collect();
    Solved::Data { data, proven: !spare.is_empty() }
}

/// Puts a stripe together whose shards contradict each other, by leaving out the fewest that make the others
/// agree with one to spare. Answers the data shards and what was left out; nothing when more than one way is
/// as good.
pub(in crate::node::store) fn solve_without_the_wrong(
    erasure: &Erasure,
    shards: &[Option<Bytes>],
) -> Option<(Vec<Bytes>, Vec<usize>)> {
    let present: Vec<_> = (0..shards.len()).filter(|shard| shards[*shard].is_some()).collect();
    let spare = present.len().checked_sub(erasure.data() + 1)?;
    for wrong in 1..=spare {
        let mut found = None;
        for mask in 0_u32..1 << present.len() {
            if mask.count_ones() as usize != wrong {
                continue;
            }
            let left_out: Vec<_> = (0..present.len())
                .filter(|index| mask >> index & 1 == 1)
                .map(|index| present[index])
                .collect();
            let mut rest = shards.to_vec();
            for shard in &left_out {
                rest[*shard] = None;
            }
            if let Solved::Data { data, proven: true } = solve(erasure, &rest)
                && found.replace((data, left_out)).is_some()
            {
                return None;
            }
        }
        if found.is_some() {
            return found;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripe(erasure: &Erasure, salt: u8) -> Vec<Option<Bytes>> {
        let block: Vec<u8> = (0..1000_u32).map(|at| (at * 7) as u8 ^ salt).collect();
        erasure.encode_block(&block).into_iter().map(|shard| Some(shard.into())).collect()
    }

    /// Goal: whichever shards are missing or come from another stripe, what comes out is the block, an error,
    /// or (with nothing to spare) said to be unproven.
    #[test]
    fn a_shard_of_another_stripe_is_found_out_while_one_is_to_spare() {
        for (data, parity) in [(1, 1), (2, 1), (2, 2), (3, 3), (4, 2)] {
            let erasure = Erasure::new(data, parity).unwrap();
            let (good, other) = (stripe(&erasure, 0), stripe(&erasure, 0x5a));
            let truth: Vec<_> = good[..data].iter().flatten().cloned().collect();
            for missing in 0_u32..1 << (data + parity) {
                for wrong in 0..data + parity {
                    let mut shards = good.clone();
                    shards[wrong].clone_from(&other[wrong]);
                    for shard in (0..shards.len()).filter(|shard| missing >> shard & 1 == 1) {
                        shards[shard] = None;
                    }
                    let present = shards.iter().flatten().count();
                    let wrong_is_there = shards[wrong].is_some();
                    match solve(&erasure, &shards) {
                        Solved::TooFew => assert!(present < data),
                        Solved::Data { data: found, proven } => {
                            assert_eq!(proven, present > data);
                            assert!(found == truth || wrong_is_there && !proven);
                        }
                        Solved::Contradiction => assert!(wrong_is_there && present > data),
                    }
                    let found = solve_without_the_wrong(&erasure, &shards);
                    if wrong_is_there && present >= data + 2 {
                        assert_eq!(found, Some((truth.clone(), vec![wrong])));
                    } else if present < data + 2 {
                        assert_eq!(found, None, "nothing tells which one is wrong");
                    }
                }
            }
        }
    }

    #[test]
    fn without_parity_nothing_is_proven() {
        let erasure = Erasure::new(1, 0).unwrap();
        let shards = [Some(Bytes::from_static(b"x"))];
        let data = vec![Bytes::from_static(b"x")];
        assert_eq!(solve(&erasure, &shards), Solved::Data { data, proven: false });
        assert_eq!(solve(&erasure, &[None]), Solved::TooFew);
    }
}
