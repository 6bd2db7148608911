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
    (n + 1 - majority(n)).max(1)
}

/// Drives of `n` that must have a version before it counts as written: an object's `geometry` is its data and parity
/// shards, a delete marker has none. Never below a majority, whatever geometry a drive claims.
pub fn write_of(geometry: Option<(usize, usize)>, n: usize) -> usize {
    geometry.map_or(0, |(data, parity)| write(data, parity)).max(majority(n))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quorums_are_those_of_the_table() {
        // Drives, parity, read, write, majority.
        let table = [
            (1, 0, 1, 1, 1),
            (2, 1, 1, 2, 2),
            (3, 1, 2, 2, 2),
            (4, 2, 2, 3, 3),
            (5, 2, 3, 3, 3),
            (6, 3, 3, 4, 4),
            (7, 3, 4, 4, 4),
            (8, 4, 4, 5, 5),
            (9, 4, 5, 5, 5),
            (10, 4, 6, 6, 6),
            (12, 4, 8, 8, 7),
            (14, 4, 10, 10, 8),
            (16, 4, 12, 12, 9),
        ];
        for (n, parity, reads, writes, deletes) in table {
            let p = default_parity(n);
            assert_eq!(
                (p, read(n - p, p), write(n - p, p), majority(n)),
                (parity, reads, writes, deletes)
            );
        }
        assert_eq!((reduced_parity(1), reduced_parity(6), system_parity(7)), (0, 1, 3));
    }

    #[test]
    fn quorums_that_must_meet_do() {
        for n in 1..=16 {
            for parity in (0..=n / 2).filter(|parity| is_possible(n, *parity)) {
                let data = n - parity;
                assert!(write(data, parity) + write(data, parity) > n, "two writes");
                assert!(write(data, parity) + majority(n) > n, "a write and a delete");
                assert!(write(data, parity) <= n && read(data, parity) <= write(data, parity));
                // With so many drives saying no, no quorum that acknowledges can have been reached.
                assert!(n - absence(n) < majority(n) && n - absence(n) < write(data, parity));
            }
            assert!(majority(n) + read_marker(n) > n, "a marker that was acknowledged is read");
        }
        assert!(!is_possible(4, 3) && !is_possible(17, 0) && !is_possible(0, 0));
    }
}
