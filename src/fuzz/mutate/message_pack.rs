//! Bytes as MessagePack: one value changes, and what announces its length with it.

use super::Random;
use super::bytes::MAGIC;
use super::json;
use crate::disk::format::msgpack::Reader;
use crate::disk::format::msgpack::put_array;
use crate::disk::format::msgpack::put_binary;
use crate::disk::format::msgpack::put_int;
use crate::disk::format::msgpack::put_map;
use crate::disk::format::msgpack::put_nil;
use crate::disk::format::msgpack::put_text;
use crate::disk::format::msgpack::put_uint;

/// Larger files are mutated as bytes.
const BYTES_MAX: usize = 64 << 10;
const WHAT: &str = "a value of a case";

/// One value, or the head of a container: where it lies.
struct Token {
    from: usize,
    to: usize,
}

/// Changes one value in `bytes`; false when they do not begin with MessagePack.
pub(super) fn mutate(random: &mut Random, bytes: &mut Vec<u8>) -> bool {
    if bytes.len() > BYTES_MAX {
        return false;
    }
    let tokens = tokens(bytes);
    if tokens.is_empty() {
        return false;
    }
    let token = random.one_of(&tokens);
    let mut changed = Vec::new();
    change(random, &bytes[token.from..token.to], &mut changed);
    if random.once_in(10) {
        // The bytes of another value, a container's head included.
        let donor = random.one_of(&tokens);
        changed = bytes[donor.from..donor.to].to_vec();
    }
    bytes.splice(token.from..token.to, changed);
    true
}

fn tokens(bytes: &[u8]) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut reader = Reader::new(bytes);
    while reader.remaining() > 0 {
        let from = reader.position();
        let read = match bytes[from] {
            0x80..=0x8f | 0xde | 0xdf => reader.map(WHAT).is_ok(),
            0x90..=0x9f | 0xdc | 0xdd => reader.array(WHAT).is_ok(),
            _ => reader.skip(WHAT).is_ok(),
        };
        if !read {
            break;
        }
        tokens.push(Token { from, to: reader.position() });
    }
    tokens
}

fn change(random: &mut Random, token: &[u8], out: &mut Vec<u8>) {
    let mut reader = Reader::new(token);
    if let Ok(text) = reader.clone().text(WHAT) {
        put_text(out, &json::other_text(random, text));
    } else if let Ok(binary) = reader.clone().binary(WHAT) {
        let mut binary = binary.to_vec();
        match binary.len() {
            0 => binary.push(random.next() as u8),
            length if random.once_in(4) => {
                super::bytes::mutate(random, &mut binary, &token[..length / 2])
            }
            length => binary[random.below(length)] ^= 1 << random.below(8),
        }
        put_binary(out, &binary);
    } else if let Ok(number) = reader.clone().int(WHAT) {
        match random.below(4) {
            0 => put_uint(out, *random.one_of(&MAGIC)),
            1 => put_int(out, (*random.one_of(&MAGIC)).cast_signed()),
            2 => put_int(out, number.wrapping_add(1)),
            _ => put_int(out, number.wrapping_sub(1)),
        }
    } else if token[0] & 0xf0 == 0x80 || matches!(token[0], 0xde | 0xdf) {
        put_map(out, other_length(random, token));
    } else if token[0] & 0xf0 == 0x90 || matches!(token[0], 0xdc | 0xdd) {
        put_array(out, other_length(random, token));
    } else if reader.nil() || reader.boolean(WHAT).is_ok() {
        match random.below(3) {
            0 => put_nil(out),
            1 => out.push(0xc2),
            _ => out.push(0xc3),
        }
    } else {
        out.extend_from_slice(token);
        super::bytes::mutate(random, out, token);
    }
}

/// One more, one less, or a magic number of elements.
fn other_length(random: &mut Random, token: &[u8]) -> usize {
    let length = match token[0] {
        0x80..=0x9f => usize::from(token[0] & 0x0f),
        _ => token[1..].iter().fold(0, |length, byte| length << 8 | usize::from(*byte)),
    };
    match random.below(3) {
        0 => length.saturating_add(1),
        1 => length.saturating_sub(1),
        _ => *random.one_of(&MAGIC) as u32 as usize,
    }
}
