//! Bytes as lines.

use super::Random;
use super::json;

/// Changes one line of text, or which lines there are; false when there are none.
pub(super) fn mutate(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) -> bool {
    if !random.once_in(2) {
        return change_text(random, bytes);
    }
    rearrange(random, bytes, other)
}

/// Changes the JSON of one line, or which lines there are; false when there are none.
pub(super) fn mutate_json(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) -> bool {
    if random.once_in(4) {
        return rearrange(random, bytes, other);
    }
    let mut lines = split(bytes);
    if lines.is_empty() {
        return false;
    }
    let at = random.below(lines.len());
    let ended = lines[at].ends_with(b"\n");
    let mut line = lines[at].strip_suffix(b"\n").unwrap_or(&lines[at]).to_vec();
    if !json::mutate(random, &mut line) {
        return false;
    }
    // A value in several lines would be no line.
    line.retain(|byte| *byte != b'\n');
    if ended {
        line.push(b'\n');
    }
    lines[at] = line;
    *bytes = lines.concat();
    true
}

/// Other words of the same kind in place of one: a digit for a digit, a letter for a letter.
fn change_text(random: &mut Random, bytes: &mut Vec<u8>) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let is_word = |char: char| char.is_alphanumeric() || matches!(char, '_' | '.' | '%');
    let mut words = Vec::new();
    let mut start = None;
    for (at, char) in text.char_indices().chain([(text.len(), ' ')]) {
        match (start, is_word(char)) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                words.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    if words.is_empty() {
        return false;
    }
    let word = random.one_of(&words).clone();
    let changed = match random.below(6) {
        0 => text[random.one_of(&words).clone()].to_owned(),
        1 => random.one_of(&super::bytes::MAGIC).to_string(),
        _ => json::other_text(random, &text[word.clone()]),
    };
    bytes.splice(word, changed.into_bytes());
    true
}

/// A line that is missing, doubled, exchanged, or the other file's.
fn rearrange(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) -> bool {
    let mut lines = split(bytes);
    if lines.is_empty() {
        return false;
    }
    let (at, to) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(5) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(to, lines[at].clone()),
        2 => lines.swap(at, to),
        3 => {
            let others = split(other);
            if !others.is_empty() {
                lines.insert(to, random.one_of(&others).clone());
            }
        }
        _ => lines.truncate(at + 1),
    }
    *bytes = lines.concat();
    true
}

fn split(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}
