//! Links, handoffs and the chain that they form.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::Serialize;

use crate::protocol::replacement::identity::Identity;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::ids::SetId;
use crate::protocol::replacement::marker;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::refusal::on_record;

/// A chain has no more links than this.
pub const LINKS_MAX: usize = 32;

/// One handoff: who passed on what to whom. The keys and their order are the record's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Names this edge; evidence only.
    pub transaction_id: GenerationId,
    /// Who passed on.
    pub predecessor: GenerationId,
    /// Who took over.
    pub successor: GenerationId,
    /// The set of both.
    pub set_disk_id: String,
    /// SHA-256 of the predecessor's bytes before it prepared; cannot be recomputed later.
    pub source_sha256: [u8; 32],
    /// What the successor is bound to, in target order.
    pub targets: Vec<Identity>,
    /// The owner that each marker must name before it is moved; `None` when it must be absent.
    pub expected_markers: Vec<Option<String>>,
    /// The successor's plan: bucket names, sorted, each once.
    pub buckets: Vec<String>,
}

/// How far a handoff has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandoffPhase {
    /// The successor is named; some markers may have moved.
    Prepared,
    /// Every marker names the successor.
    MarkersOwned,
    /// The predecessor has stepped back; the successor may rebuild.
    Committed,
}

/// The predecessor's word about who comes next: nothing else may name a successor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handoff {
    /// How far it has come.
    pub phase: HandoffPhase,
    /// Its terms.
    pub link: Link,
}

impl Link {
    /// Whether `other` is this handoff, however often it was bound again to other mounts since.
    ///
    /// A blank drive takes the expected marker away with it, so that member may only have become absent.
    pub fn is_same_edge(&self, other: &Self) -> bool {
        let endpoints = |link: &Self| -> Vec<String> {
            link.targets.iter().map(|it| it.endpoint.clone()).collect()
        };
        let markers = self.expected_markers.iter().zip(&other.expected_markers);
        self.transaction_id == other.transaction_id
            && self.predecessor == other.predecessor
            && self.successor == other.successor
            && self.set_disk_id == other.set_disk_id
            && self.source_sha256 == other.source_sha256
            && self.buckets == other.buckets
            && endpoints(self) == endpoints(other)
            && markers.into_iter().all(|(new, old)| new == old || new.is_none())
    }

    /// Checks the link by itself; `holder` is the generation in whose record it stands.
    ///
    /// # Errors
    ///
    /// [`Refusal::LinkInvalid`].
    pub fn check(&self, holder: GenerationId) -> Result<(), Refusal> {
        let refuse = |seen: String, expected: &str| {
            Refusal::LinkInvalid(on_record(Record::Intent, holder, seen, expected))
        };
        if self.predecessor == self.successor {
            return Err(refuse(self.successor.to_string(), "two generations"));
        }
        self.set_disk_id.parse::<SetId>().map_err(|seen| refuse(seen, "a set"))?;
        let endpoints: BTreeSet<_> = self.targets.iter().map(|it| &it.endpoint).collect();
        if self.targets.is_empty() || endpoints.len() != self.targets.len() {
            return Err(refuse(format!("targets {endpoints:?}"), "one or more, each once"));
        }
        if self.expected_markers.len() != self.targets.len() {
            let seen = format!("{} markers", self.expected_markers.len());
            return Err(refuse(seen, "one for each target"));
        }
        let owner = marker::owner(&self.set_disk_id, self.predecessor);
        if let Some(other) = self.expected_markers.iter().flatten().find(|it| **it != owner) {
            return Err(refuse(format!("marker `{other}`"), &format!("`{owner}` or none")));
        }
        if !self.buckets.windows(2).all(|pair| pair[0] < pair[1]) {
            return Err(refuse(format!("plan {:?}", self.buckets), "names in order, each once"));
        }
        Ok(())
    }
}

/// Checks a chain that is to end in `last`, which belongs to `set`; `holder` is where it stands.
///
/// # Errors
///
/// [`Refusal::LineageBroken`], or what a link of it says.
pub fn check(
    lineage: &[Link],
    last: GenerationId,
    set: &str,
    holder: GenerationId,
) -> Result<(), Refusal> {
    let refuse = |seen: String, expected: &str| {
        Refusal::LineageBroken(on_record(Record::Intent, holder, seen, expected))
    };
    if lineage.len() > LINKS_MAX {
        return Err(refuse(format!("{} links", lineage.len()), "at most 32"));
    }
    let mut seen = BTreeSet::new();
    for link in lineage {
        link.check(holder)?;
        if link.set_disk_id != set {
            return Err(refuse(format!("a link of {}", link.set_disk_id), set));
        }
        if link.predecessor == last || !seen.insert(link.predecessor) {
            return Err(refuse(format!("{} twice", link.predecessor), "a chain without cycles"));
        }
    }
    for pair in lineage.windows(2) {
        if pair[0].successor != pair[1].predecessor {
            let next = pair[1].predecessor;
            return Err(refuse(format!("{} before {next}", pair[0].successor), "one chain"));
        }
    }
    match lineage.last() {
        Some(link) if link.successor != last => {
            Err(refuse(format!("a chain to {}", link.successor), &last.to_string()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = "pool_0_set_0";

    fn id(number: u128) -> GenerationId {
        GenerationId(uuid::Uuid::from_u128(number))
    }

    /// A link from one generation to the next.
    fn link(predecessor: u128, successor: u128) -> Link {
        let target = Identity {
            endpoint: "/d".to_owned(),
            canonical_path: "/d".to_owned(),
            physical_device_ids: vec!["loop0".to_owned()],
            filesystem_identity: "69:1792:2".to_owned(),
        };
        Link {
            transaction_id: id(0),
            predecessor: id(predecessor),
            successor: id(successor),
            set_disk_id: SET.to_owned(),
            source_sha256: [0; 32],
            targets: vec![target],
            expected_markers: vec![Some(marker::owner(SET, id(predecessor)))],
            buckets: vec!["a".to_owned(), "b".to_owned()],
        }
    }

    fn chain(pairs: &[(u128, u128)]) -> Vec<Link> {
        pairs.iter().map(|(one, other)| link(*one, *other)).collect()
    }

    #[test]
    fn only_one_chain_to_the_last_generation_is_a_lineage() {
        let ask = |pairs: &[(u128, u128)], last| check(&chain(pairs), id(last), SET, id(last));
        assert_eq!(ask(&[], 1), Ok(()));
        assert_eq!(ask(&[(1, 2), (2, 3)], 3), Ok(()));
        let broken: [(&[(u128, u128)], u128); 6] = [
            (&[(1, 2), (2, 3)], 4),
            (&[(1, 2), (9, 3)], 3),
            (&[(1, 2), (2, 1), (1, 3)], 3),
            (&[(3, 1), (1, 3)], 3),
            (&[(1, 1)], 1),
            (&[(1, 2), (1, 3)], 3),
        ];
        for (pairs, last) in broken {
            assert!(ask(pairs, last).is_err(), "{pairs:?} leads to {last}");
        }
        assert!(check(&chain(&[(1, 2)]), id(2), "pool_0_set_1", id(2)).is_err(), "another set");
    }

    #[test]
    fn a_lineage_has_at_most_thirty_two_links() {
        let pairs: Vec<_> = (1..=33).map(|number| (number, number + 1)).collect();
        assert_eq!(check(&chain(&pairs[..32]), id(33), SET, id(33)), Ok(()));
        assert!(check(&chain(&pairs), id(34), SET, id(34)).is_err());
    }

    #[test]
    fn a_link_is_refused_for_each_of_its_members() {
        let changes: [fn(&mut Link); 7] = [
            |link| link.successor = link.predecessor,
            |link| link.set_disk_id = "set".to_owned(),
            |link| link.targets.clear(),
            |link| link.targets.push(link.targets[0].clone()),
            |link| link.expected_markers.clear(),
            |link| link.expected_markers[0] = Some("pool_0_set_0:x".to_owned()),
            |link| link.buckets.reverse(),
        ];
        assert_eq!(link(1, 2).check(id(1)), Ok(()));
        for (index, change) in changes.iter().enumerate() {
            let mut link = link(1, 2);
            change(&mut link);
            assert!(link.check(id(1)).is_err(), "change {index}");
        }
        let text = serde_json::to_string(&link(1, 2)).unwrap();
        assert!(serde_json::from_str::<Link>(&text).is_ok());
        let unknown = text.replacen('{', "{\"x\":1,", 1);
        assert!(serde_json::from_str::<Link>(&unknown).is_err(), "an unknown key");
        let short = text.replacen("[0,0,", "[0,", 1);
        assert!(serde_json::from_str::<Link>(&short).is_err(), "31 numbers");
    }
}
