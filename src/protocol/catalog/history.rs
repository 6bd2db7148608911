//! What the commit records of a table prove about the way to its current pointer.
//!
//! Every record says: from this state to that one, a state being a metadata file and a version token. Walking back
//! from the pointer gives the chain of states that were current; a record whose new state is on it was published.
//!
//! # Sources
//!
//! Specification of the catalog §3.5 (history proof).

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::commit_record::Status;
use crate::protocol::catalog::entry::TableEntry;

/// The ids of the commits on the chain that ends in a table's pointer, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History<'a> {
    chain: Vec<&'a str>,
    members: BTreeSet<&'a str>,
}

impl<'a> History<'a> {
    /// The chain of `table` in these records of it, the failed ones left out.
    ///
    /// A state that two records make ends the chain: neither of them is proven. A cycle proves nothing at all.
    pub fn of(table: &TableEntry, records: impl IntoIterator<Item = &'a CommitRecord>) -> Self {
        let mut makers: BTreeMap<(&str, &str), Option<&'a CommitRecord>> = BTreeMap::new();
        for record in records.into_iter().filter(|record| record.status != Status::Failed) {
            makers
                .entry(record.new_state())
                .and_modify(|maker| *maker = None)
                .or_insert(Some(record));
        }
        let mut seen = BTreeSet::new();
        let mut history = Self::default();
        let mut state = (&*table.metadata_location, &*table.version_token);
        while let Some(Some(record)) = makers.get(&state) {
            if !seen.insert(record.new_state()) {
                return Self::default();
            }
            history.chain.push(&record.commit_id);
            history.members.insert(&record.commit_id);
            state = record.previous_state();
        }
        history
    }

    /// Whether the commit of this id was published.
    pub fn proves(&self, commit_id: &str) -> bool {
        self.members.contains(commit_id)
    }

    /// The ids of the published commits, newest first.
    pub fn chain(&self) -> &[&'a str] {
        &self.chain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::catalog::fixture;

    #[test]
    fn a_chain_is_walked_back_from_the_pointer() {
        let records: Vec<_> = (1..=3).map(|step| fixture::commit(step, Status::Staged)).collect();
        let history = History::of(&fixture::table_at(3), &records);
        assert_eq!(history.chain(), ["commit-3", "commit-2", "commit-1"]);
        let history = History::of(&fixture::table_at(2), &records);
        assert!(history.proves("commit-2") && !history.proves("commit-3"));
    }

    #[test]
    fn a_gap_ends_the_chain() {
        let records =
            [fixture::commit(1, Status::Committed), fixture::commit(3, Status::Committed)];
        let history = History::of(&fixture::table_at(3), &records);
        assert!(history.proves("commit-3") && !history.proves("commit-1"));
    }

    #[test]
    fn failed_records_prove_nothing() {
        let records = [fixture::commit(1, Status::Committed), fixture::commit(2, Status::Failed)];
        assert_eq!(History::of(&fixture::table_at(2), &records), History::default());
    }

    #[test]
    fn a_state_that_two_records_make_proves_neither() {
        let twin =
            CommitRecord { commit_id: "twin".to_owned(), ..fixture::commit(2, Status::Staged) };
        let records =
            [fixture::commit(1, Status::Committed), fixture::commit(2, Status::Committed), twin];
        assert_eq!(History::of(&fixture::table_at(2), &records), History::default());
        let later = [&records[..], &[fixture::commit(3, Status::Committed)]].concat();
        assert_eq!(History::of(&fixture::table_at(3), &later).chain(), ["commit-3"]);
    }

    #[test]
    fn a_cycle_proves_nothing() {
        let first = fixture::commit(1, Status::Committed);
        let back = CommitRecord {
            previous_metadata_location: fixture::location(2),
            expected_version_token: fixture::token(2),
            ..first
        };
        let records = [back, fixture::commit(2, Status::Committed)];
        assert_eq!(History::of(&fixture::table_at(2), &records), History::default());
    }
}
