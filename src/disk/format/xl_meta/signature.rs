//! The four bytes in a header that depend on the whole body but the shard number.
//!
//! Drives whose bodies agree have equal headers because of it; it takes part in the order of versions.

use std::collections::BTreeMap;

use xxhash_rust::xxh64::xxh64;

use super::MarkerBody;
use super::ObjectBody;

/// The signature of a body that does not decode.
pub(super) const UNREADABLE: [u8; 4] = *b"err\0";

/// The signature of an object.
pub(super) fn of_object(object: &ObjectBody) -> [u8; 4] {
    let mut bytes = Vec::new();
    object.encode_for_signature(&mut bytes);
    let user = maps(0xC2B4_0BBA_C11A_7295, &object.user);
    let system = maps(0x1BBC_7E1D_DE65_4743, &object.system);
    fold(user ^ system ^ xxh64(&bytes, 0))
}

/// The signature of a delete marker.
pub(super) fn of_marker(marker: &MarkerBody) -> [u8; 4] {
    let mut bytes = Vec::new();
    marker.encode_for_signature(&mut bytes);
    fold(maps(0x1BBC_7E1D_DE65_4743, &marker.system) ^ xxh64(&bytes, 0))
}

/// The order of a map's entries must not matter.
fn maps<V: AsRef<[u8]>>(start: u64, map: &BTreeMap<String, V>) -> u64 {
    map.iter().fold(start, |hash, (key, value)| {
        let key = xxh64(key.as_bytes(), 0) ^ 0x4EE3_BBAF_7AB2_506B;
        let value = xxh64(value.as_ref(), 0) ^ 0x8DA4_C8DA_6619_4257;
        hash ^ key.wrapping_add(value)
    })
}

fn fold(hash: u64) -> [u8; 4] {
    ((hash ^ (hash >> 32)) as u32).to_le_bytes()
}
