//! Merging the drives' stacks of one key into the one stack that a listing shows.
//!
//! An entry is shown when as many drives hold it as reading it takes, so that listings, HEAD and GET tell
//! one story.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::protocol::object::quorum;
use crate::protocol::object::version::Header;
use crate::protocol::object::version::Kind;
use crate::value::VersionId;

/// One entry that the drives agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The entry.
    pub header: Header,
    /// Positions of the drives that hold it (same id, kind and geometry; signatures may differ).
    pub drives: Vec<usize>,
}

/// Merges stacks, newest first. `stacks[i]` is drive i's own stack, or `None` when it cannot say.
pub fn merge(stacks: &[Option<&[Header]>]) -> Vec<Merged> {
    let by_id = stacks.iter().map(|stack| {
        let entries = stack.unwrap_or_default().iter();
        entries.map(|header| (header.version, header)).collect::<BTreeMap<_, _>>()
    });
    let by_id = by_id.collect::<Vec<BTreeMap<VersionId, &Header>>>();
    let mut entries = stacks.iter().flatten().copied().flatten().collect::<Vec<_>>();
    entries.sort_by(|one, other| one.newest_first(other));
    let mut merged = Vec::new();
    let mut shown = BTreeSet::new();
    for header in entries {
        if shown.contains(&header.version) {
            continue;
        }
        let holds = |stack: &BTreeMap<VersionId, &Header>| {
            stack.get(&header.version).is_some_and(|other| header.names_the_same(other))
        };
        let drives = (0..stacks.len()).filter(|drive| holds(&by_id[*drive])).collect::<Vec<_>>();
        if drives.len() >= quorum_of(header, stacks.len()) {
            shown.insert(header.version);
            merged.push(Merged { header: *header, drives });
        }
    }
    merged
}

fn quorum_of(header: &Header, n: usize) -> usize {
    match header.kind {
        Kind::Marker => quorum::read_marker(n),
        Kind::Object | Kind::Legacy => {
            quorum::read(usize::from(header.data), usize::from(header.parity)).max(1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u8, moment: i64, kind: Kind) -> Header {
        let (data, parity) = if kind == Kind::Marker { (0, 0) } else { (2, 2) };
        Header {
            version: VersionId([id; 16]),
            modtime_ns: moment,
            signature: [0; 4],
            kind,
            flags: 0,
            parity,
            data,
        }
    }

    fn ids(stacks: &[&[Header]]) -> Vec<(u8, i64, usize)> {
        let stacks = stacks.iter().map(|stack| Some(*stack)).collect::<Vec<_>>();
        let merged = merge(&stacks).into_iter();
        merged.map(|it| (it.header.version.0[0], it.header.modtime_ns, it.drives.len())).collect()
    }

    #[test]
    fn equal_stacks_merge_to_themselves() {
        let stack = [entry(2, 20, Kind::Marker), entry(1, 10, Kind::Object)];
        assert_eq!(ids(&[&stack[..]; 4]), [(2, 20, 4), (1, 10, 4)]);
        assert_eq!(ids(&[&[], &[], &[], &[]]), []);
    }

    #[test]
    fn what_one_drive_alone_holds_is_hidden() {
        let old = [entry(1, 10, Kind::Object)];
        let new = [entry(2, 20, Kind::Object), entry(1, 10, Kind::Object)];
        assert_eq!(ids(&[&new, &old, &old, &old]), [(1, 10, 4)]);
        assert_eq!(ids(&[&new, &new, &old, &old]), [(2, 20, 2), (1, 10, 4)]);
        let marked = [entry(3, 30, Kind::Marker), entry(1, 10, Kind::Object)];
        assert_eq!(ids(&[&marked, &old, &old, &old]), [(1, 10, 4)]);
        assert_eq!(ids(&[&marked, &marked, &old, &old])[0], (3, 30, 2));
    }

    #[test]
    fn only_one_null_version_is_ever_shown() {
        let old = [entry(0, 10, Kind::Object)];
        let new = [entry(0, 20, Kind::Object)];
        assert_eq!(ids(&[&new, &new, &new, &old]), [(0, 20, 3)]);
        assert_eq!(ids(&[&new, &new, &old, &old]), [(0, 20, 2)]);
        assert_eq!(ids(&[&new, &old, &old, &old]), [(0, 10, 3)]);
    }

    #[test]
    fn drives_that_cannot_say_do_not_vote() {
        let stack = [entry(1, 10, Kind::Object)];
        assert_eq!(merge(&[Some(&stack[..]), Some(&stack[..]), None, None])[0].drives, [0, 1]);
        assert!(merge(&[Some(&stack[..]), None, None, None]).is_empty());
    }

    #[test]
    fn drives_that_lag_in_metadata_still_name_the_version() {
        let mut tagged = entry(1, 10, Kind::Object);
        tagged.signature = [9; 4];
        let plain = entry(1, 10, Kind::Object);
        assert_eq!(ids(&[&[tagged], &[plain], &[plain], &[plain]]), [(1, 10, 4)]);
        // Another geometry is another version.
        let mut other = plain;
        other.parity = 1;
        other.data = 3;
        assert_eq!(ids(&[&[other], &[plain], &[plain], &[plain]]), [(1, 10, 3)]);
    }
}
