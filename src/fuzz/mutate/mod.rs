//! Mutations: what becomes of a file of the corpus in one case.
//!
//! Bytes are changed as bytes (flips, magic numbers, cuts, insertions, copies, splices), as what they are built of
//! (JSON values, MessagePack values, lines), or as the pieces of their envelope, which is closed again over them.

mod bytes;
mod json;
mod lines;
mod message_pack;

use super::CASE_BYTES_MAX;
use super::Target;
use super::random::Random;
use super::target::Shape;

/// Mutations of one case at most.
const MUTATIONS_MAX: usize = 6;

/// The bytes of case `case`.
pub(super) fn mutate(target: &Target, corpus: &[Vec<u8>], seed: u64, case: u64) -> Vec<u8> {
    let mut random = Random::new(seed, case);
    let file = random.one_of(corpus).clone();
    let other = random.one_of(corpus).clone();
    let opened = target.envelope.filter(|_| !random.once_in(8));
    let opened = opened.and_then(|envelope| Some((envelope, (envelope.open)(&file)?)));
    let mut bytes = match opened {
        None => {
            let mut bytes = file;
            several(&mut random, target.shape, &mut bytes, &other);
            bytes
        }
        Some((envelope, mut pieces)) => {
            let others = (envelope.open)(&other).unwrap_or_default();
            if random.once_in(12) {
                rearrange(&mut random, &mut pieces, &others);
            }
            if !pieces.is_empty() {
                let at = random.below(pieces.len());
                let empty = Vec::new();
                let other = others.get(random.below(others.len())).unwrap_or(&empty);
                several(&mut random, envelope.pieces, &mut pieces[at], other);
            }
            (envelope.close)(&pieces)
        }
    };
    bytes.truncate(CASE_BYTES_MAX);
    bytes
}

/// A few mutations, one more often than two.
fn several(random: &mut Random, shape: Shape, bytes: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..MUTATIONS_MAX {
        one(random, shape, bytes, other);
        if !random.once_in(3) {
            break;
        }
    }
}

fn one(random: &mut Random, shape: Shape, bytes: &mut Vec<u8>, other: &[u8]) {
    let keeps_shape = !random.once_in(3);
    let done = match shape {
        _ if !keeps_shape => false,
        Shape::Binary => false,
        Shape::MessagePack => message_pack::mutate(random, bytes),
        Shape::Json => json::mutate(random, bytes),
        Shape::JsonLines => lines::mutate_json(random, bytes, other),
        Shape::Text => lines::mutate(random, bytes, other),
    };
    if !done {
        bytes::mutate(random, bytes, other);
    }
}

/// Pieces that are missing, doubled, exchanged, or another file's.
fn rearrange(random: &mut Random, pieces: &mut Vec<Vec<u8>>, others: &[Vec<u8>]) {
    if pieces.is_empty() {
        return;
    }
    let (at, to) = (random.below(pieces.len()), random.below(pieces.len()));
    match random.below(4) {
        0 => drop(pieces.remove(at)),
        1 => {
            let copy = pieces[at].clone();
            // Seldom so many that only a count can stop them.
            let times = if random.once_in(64) { random.below(2_000) } else { 1 };
            (0..times).for_each(|_| pieces.insert(to, copy.clone()));
        }
        2 => pieces.swap(at, to),
        _ if !others.is_empty() => pieces[at] = random.one_of(others).clone(),
        _ => {}
    }
}
