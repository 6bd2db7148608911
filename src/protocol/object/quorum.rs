//! How many drives must agree.
//!
//! `n` is the number of drives of the set throughout, `data` and `parity` a version's geometry.

/// Parity shards of a standard object in a set of `n` drives, when nobody chose otherwise.
pub fn default_parity(n: usize) -> usize {
    match n {
        0 | 1 => 0,
        2 | 3 => 1,
        4 | 5 => 2,
        6 | 7 => 3,
        _ => 4,
    }
}

/// Parity shards of an object of reduced redundancy.
pub fn reduced_parity(n: usize) -> usize {
    usize::from(n > 1)
}

/// Parity shards of objects of the system volume: as many as there can be.
pub fn system_parity(n: usize) -> usize {
    n / 2
}

/// Whether `parity` is possible in a set of `n` drives.
pub fn is_possible(n: usize, parity: usize) -> bool {
    (1..=16).contains(&n) && parity <= n / 2
}

/// Drives that must have an object's version before it is acknowledged; any two such groups, and any
/// such group and a group that is read, meet.
pub fn write(data: usize, parity: usize) -> usize {
    if data == parity { data + 1 } else { data }
}

/// Drives that must answer alike before an object's version is read.
pub fn read(data: usize, _parity: usize) -> usize {
    data
}

/// Drives that must have a delete marker, or the removal of a version, before it is acknowledged.
/// The same majority creates and deletes buckets.
pub fn majority(n: usize) -> usize {
    n / 2 + 1
}

/// Drives that must answer alike before a delete marker or an empty object is read.
pub fn read_marker(n: usize) -> usize {
    n - n / 2
}

/// Drives that must say *not found* before a version is known never to have been acknowledged: with so
/// many, no write can have reached even the smallest quorum that acknowledges.
pub fn absence(n: usize) -> usize {
    n + 1 - majority(n)
}
