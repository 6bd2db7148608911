//! Bytes as bytes.

use super::Random;
use crate::fuzz::CASE_BYTES_MAX;

/// Numbers at which lengths, counts and signs turn over.
pub(super) const MAGIC: [u64; 18] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x100,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
];

/// Changes `bytes` once.
pub(super) fn mutate(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = random.below(bytes.len());
    if bytes.is_empty() {
        bytes.extend_from_slice(&other[..random.length(other.len())]);
        bytes.push(random.next() as u8);
        return;
    }
    match random.below(16) {
        0..=3 => bytes[at] ^= 1 << random.below(8),
        4 => bytes[at] = random.next() as u8,
        5 => bytes[at] = *random.one_of(&[0, 1, 0x7f, 0x80, 0xff, b' ', b'/', b'.', b'"', b'\n']),
        6 => bytes[at] = bytes[at].wrapping_add(*random.one_of(&[1, 0xff])),
        7 | 8 => number(random, bytes, at),
        9 => bytes.truncate(at),
        10 => {
            let length = random.length(bytes.len() - at);
            bytes.drain(at..at + length);
        }
        11 => {
            let length = random.length(64);
            let fresh: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
            bytes.splice(at..at, fresh);
        }
        12 => copy(random, bytes, at),
        13 => {
            let from = random.below(other.len());
            let length = random.length(other.len() - from);
            let over = random.below(length + 1).min(bytes.len() - at);
            bytes.splice(at..at + over, other[from..from + length].iter().copied());
        }
        14 => {
            // The head of one and the tail of the other.
            bytes.truncate(at);
            bytes.extend_from_slice(&other[random.below(other.len())..]);
        }
        _ => {
            let length = random.length(bytes.len() - at);
            let fill = *random.one_of(&[0, 0xff, b'0', b'a']);
            bytes[at..at + length].fill(fill);
        }
    }
}

/// Writes a magic number, or one beside it, in some width and order.
fn number(random: &mut Random, bytes: &mut [u8], at: usize) {
    let near = *random.one_of(&[0, 1, u64::MAX]);
    let value = random.one_of(&MAGIC).wrapping_add(near);
    let width = (1 << random.below(4)).min(bytes.len() - at);
    let number = value.to_be_bytes();
    let number = match random.once_in(2) {
        true => number[8 - width..].to_vec(),
        false => number[8 - width..].iter().rev().copied().collect(),
    };
    bytes[at..at + width].copy_from_slice(&number);
}

/// Copies a stretch to somewhere else; seldom so often that the whole is oversized.
fn copy(random: &mut Random, bytes: &mut Vec<u8>, at: usize) {
    let length = random.length(bytes.len() - at);
    let to = random.below(bytes.len());
    let stretch = bytes[at..at + length].to_vec();
    let times = match length {
        0 => 0,
        _ if random.once_in(500) => (CASE_BYTES_MAX - bytes.len().min(CASE_BYTES_MAX)) / length,
        _ if random.once_in(20) => random.below(64),
        _ => 1,
    };
    bytes.splice(to..to, stretch.repeat(times));
}
