//! Bytes as one JSON value: the result is JSON again, and says something else.

use serde_json::Map;
use serde_json::Number;
use serde_json::Value;

use super::Random;
use super::bytes::MAGIC;

/// Larger values are mutated as bytes.
const BYTES_MAX: usize = 64 << 10;

/// Changes the value in `bytes` once; false when there is none.
pub(super) fn mutate(random: &mut Random, bytes: &mut Vec<u8>) -> bool {
    if bytes.len() > BYTES_MAX {
        return false;
    }
    let Ok(mut value) = serde_json::from_slice::<Value>(bytes) else { return false };
    let nodes = count(&value);
    let chosen = random.below(nodes);
    let donor = nth(&value, random.below(nodes)).cloned().unwrap_or(Value::Null);
    if let Some(node) = nth_mut(&mut value, chosen) {
        change(random, node, donor);
    }
    let written = match random.once_in(8) {
        true => serde_json::to_vec_pretty(&value),
        false => serde_json::to_vec(&value),
    };
    match written {
        Ok(written) => *bytes = written,
        Err(_) => return false,
    }
    if random.once_in(24) {
        double_a_key(random, bytes);
    }
    true
}

fn change(random: &mut Random, node: &mut Value, donor: Value) {
    match node {
        Value::String(text) if !random.once_in(8) => *text = other_text(random, text),
        Value::Number(number) if !random.once_in(8) => *node = other_number(random, number),
        Value::Bool(is) if !random.once_in(8) => *is = !*is,
        Value::Array(items) if !random.once_in(8) => other_items(random, items, donor),
        Value::Object(keys) if !random.once_in(8) => other_keys(random, keys, donor),
        _ => {
            let any = [
                Value::Null,
                Value::Bool(true),
                Value::from(0),
                Value::from(-1),
                Value::from(u64::MAX),
                Value::from(1e308),
                Value::from(""),
                Value::from("../../etc"),
                Value::Array(Vec::new()),
                Value::Object(Map::new()),
                donor,
            ];
            *node = random.one_of(&any).clone();
        }
    }
}

/// Another character of the same class more often than anything else, so that it may well be taken.
pub(super) fn other_text(random: &mut Random, text: &str) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    let at = random.below(chars.len());
    match random.below(16) {
        0 => return String::new(),
        1 => chars.truncate(at),
        2 => chars
            .insert(at, *random.one_of(&['/', '.', '\0', '"', '\\', 'ü', '\u{10ffff}', '\n', '-'])),
        3 => return text.repeat(1 + random.length(40)),
        4 => return format!("../{text}"),
        5 => return text.to_uppercase(),
        _ if chars.is_empty() => return "a".to_owned(),
        _ => {
            let digit = random.below(10) as u8;
            let letter = random.below(6) as u8;
            chars[at] = match chars[at] {
                '0'..='9' => char::from(b'0' + digit),
                'a'..='f' => char::from(b'a' + letter),
                'A'..='Z' => char::from(b'A' + letter),
                'g'..='z' => char::from(b'g' + letter),
                other => other,
            };
        }
    }
    chars.into_iter().collect()
}

fn other_number(random: &mut Random, number: &Number) -> Value {
    let value = number.as_i64().unwrap_or(0);
    match random.below(6) {
        0 => Value::from(value.wrapping_add(1)),
        1 => Value::from(value.wrapping_sub(1)),
        2 => Value::from(*random.one_of(&MAGIC)),
        3 => Value::from((*random.one_of(&MAGIC)).cast_signed()),
        4 => Value::from(random.below(1_000)),
        _ => Value::from(value as f64 + 0.5),
    }
}

fn other_items(random: &mut Random, items: &mut Vec<Value>, donor: Value) {
    if items.is_empty() {
        items.push(donor);
        return;
    }
    let (at, to) = (random.below(items.len()), random.below(items.len()));
    match random.below(6) {
        0 => drop(items.remove(at)),
        1 => items.swap(at, to),
        2 => items.clear(),
        3 => items.insert(at, donor),
        4 => {
            let copy = items[at].clone();
            let times = if random.once_in(32) { random.below(2_000) } else { 1 };
            items.splice(to..to, std::iter::repeat_n(copy, times));
        }
        _ => items.reverse(),
    }
}

fn other_keys(random: &mut Random, keys: &mut Map<String, Value>, donor: Value) {
    let names: Vec<String> = keys.keys().cloned().collect();
    if names.is_empty() {
        keys.insert("a".to_owned(), donor);
        return;
    }
    let name = random.one_of(&names).clone();
    match random.below(5) {
        0 => drop(keys.remove(&name)),
        1 => {
            let name = other_text(random, &name);
            keys.insert(name, donor);
        }
        2 => {
            if let Some(value) = keys.remove(&name) {
                keys.insert(other_text(random, &name), value);
            }
        }
        3 => drop(keys.insert(name, donor)),
        // Values that change places.
        _ => {
            let other = random.one_of(&names).clone();
            let (one, two) = (keys[&name].clone(), keys[&other].clone());
            keys.insert(name, two);
            keys.insert(other, one);
        }
    }
}

/// Writes the first key of some object twice.
fn double_a_key(random: &mut Random, bytes: &mut Vec<u8>) {
    let opens: Vec<usize> = bytes
        .windows(2)
        .enumerate()
        .filter(|(_, pair)| *pair == b"{\"")
        .map(|(at, _)| at)
        .collect();
    if opens.is_empty() {
        return;
    }
    let at = *random.one_of(&opens) + 1;
    if let Some(end) = bytes[at..].iter().position(|byte| *byte == b':') {
        let mut doubled = bytes[at..=at + end].to_vec();
        doubled.extend_from_slice(b"null,");
        bytes.splice(at..at, doubled);
    }
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(keys) => keys.values().map(count).sum::<usize>(),
        _ => 0,
    }
}

fn nth(value: &Value, at: usize) -> Option<&Value> {
    fn find<'a>(value: &'a Value, left: &mut usize) -> Option<&'a Value> {
        if *left == 0 {
            return Some(value);
        }
        *left -= 1;
        match value {
            Value::Array(items) => items.iter().find_map(|item| find(item, left)),
            Value::Object(keys) => keys.values().find_map(|item| find(item, left)),
            _ => None,
        }
    }
    find(value, &mut { at })
}

fn nth_mut(value: &mut Value, at: usize) -> Option<&mut Value> {
    fn find<'a>(value: &'a mut Value, left: &mut usize) -> Option<&'a mut Value> {
        if *left == 0 {
            return Some(value);
        }
        *left -= 1;
        match value {
            Value::Array(items) => items.iter_mut().find_map(|item| find(item, left)),
            Value::Object(keys) => keys.values_mut().find_map(|item| find(item, left)),
            _ => None,
        }
    }
    find(value, &mut { at })
}
