//! How many drives must stand behind a lock: pure.
//!
//! A node votes with the drives that it owns in the key's set. Enough are a majority, and so many
//! that no write quorum can be found among the others: whoever holds a lock at fewer reaches no write
//! quorum, because the nodes outside refuse its steps.

/// The votes over one erasure set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetVotes {
    /// Votes of each node, in endpoint order: its drives in this set.
    pub by_node: Vec<usize>,
    /// Votes that make a lock.
    pub needed: usize,
}

impl SetVotes {
    /// The votes over a set whose drive `slot` belongs to node `owners[slot]`, and whose writes need
    /// `write_quorum` drives.
    pub fn new(owners: &[usize], nodes: usize, write_quorum: usize) -> Self {
        let mut by_node = vec![0; nodes];
        for &owner in owners {
            by_node[owner] += 1;
        }
        let drives = owners.len();
        assert!((1..=drives).contains(&write_quorum), "a write needs some drives of its set");
        Self { by_node, needed: (drives / 2 + 1).max(drives - write_quorum + 1) }
    }

    /// The votes of the nodes for which `granted` answers true.
    pub fn count(&self, granted: impl Fn(usize) -> bool) -> usize {
        let votes = self.by_node.iter().enumerate();
        votes.filter(|(node, _)| granted(*node)).map(|(_, votes)| votes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: for every way to spread up to 8 drives over up to 4 nodes and every write quorum, two
    /// disjoint groups of nodes never both have the votes, and a group without them never owns a
    /// write quorum beside a holder.
    #[test]
    fn two_holders_never_both_have_the_votes_and_an_old_one_has_no_write_quorum() {
        for nodes in 1..=4_usize {
            for drives in 1..=8_usize {
                let owners: Vec<_> = (0..drives).map(|drive| drive % nodes).collect();
                for write_quorum in 1..=drives {
                    let votes = SetVotes::new(&owners, nodes, write_quorum);
                    for group in 0..1_usize << nodes {
                        let holder = votes.count(|node| group >> node & 1 == 1);
                        let others = votes.count(|node| group >> node & 1 == 0);
                        assert_eq!(holder + others, drives);
                        if holder >= votes.needed {
                            assert!(others < votes.needed, "two holders");
                            assert!(others < write_quorum, "a stale holder could write");
                        }
                    }
                }
            }
        }
    }
}
