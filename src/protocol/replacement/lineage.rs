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
