//! The completion proof: durable evidence that a generation finished. It outlives the intent.

use serde::Deserialize;
use serde::Serialize;
use serde::Serializer;
use serde::ser::SerializeMap as _;

use crate::protocol::replacement::approval::Approval;
use crate::protocol::replacement::identity::Identity;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::lineage;
use crate::protocol::replacement::lineage::Link;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::refusal::on_record;

/// A completion proof.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Proof {
    /// 1 without lineage and import, or 2.
    pub schema_version: u32,
    /// The generation.
    pub task_id: GenerationId,
    /// The generation once more.
    #[serde(rename = "replacement_generation")]
    pub generation: GenerationId,
    /// Its set.
    pub set_disk_id: String,
    /// Its targets, sorted.
    #[serde(rename = "replacement_targets")]
    pub targets: Vec<String>,
    /// What they were when they were found whole.
    #[serde(rename = "replacement_target_identities")]
    pub identities: Vec<Identity>,
    /// How the generation came to them; schema 2.
    #[serde(rename = "replacement_lineage", default)]
    pub lineage: Vec<Link>,
    /// The import that began its chain; schema 2.
    #[serde(rename = "replacement_legacy_import", default)]
    pub legacy_import: Option<Approval>,
    /// When the targets were found whole: seconds since 1970, not 0.
    pub verified_at: u64,
}

impl Serialize for Proof {
    /// The keys that the schema has, in their order.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema_version", &self.schema_version)?;
        map.serialize_entry("task_id", &self.task_id)?;
        map.serialize_entry("replacement_generation", &self.generation)?;
        map.serialize_entry("set_disk_id", &self.set_disk_id)?;
        map.serialize_entry("replacement_targets", &self.targets)?;
        map.serialize_entry("replacement_target_identities", &self.identities)?;
        if self.schema_version >= 2 {
            map.serialize_entry("replacement_lineage", &self.lineage)?;
            map.serialize_entry("replacement_legacy_import", &self.legacy_import)?;
        }
        map.serialize_entry("verified_at", &self.verified_at)?;
        map.end()
    }
}

impl Proof {
    /// The schema that is written now.
    pub const SCHEMA: u32 = 2;

    /// The proof of `intent`, whose targets were found whole at `verified_at_s`, in `schema` 1 or 2.
    pub fn of(intent: &Intent, verified_at_s: u64, schema: u32) -> Self {
        Self {
            schema_version: schema,
            task_id: intent.task_id,
            generation: intent.task_id,
            set_disk_id: intent.set_disk_id.clone(),
            targets: intent.targets.clone(),
            identities: intent.identities.clone(),
            lineage: intent.lineage.clone(),
            legacy_import: intent.legacy_import.clone(),
            verified_at: verified_at_s,
        }
    }

    /// The valid proof in `bytes`, which lie under the name of `generation`.
    ///
    /// # Errors
    ///
    /// [`Refusal::Unreadable`] for bytes that are no proof, [`Refusal::ProofInvalid`] for one that breaks a rule.
    pub fn read(generation: GenerationId, bytes: &[u8]) -> Result<Self, Refusal> {
        let proof: Self = serde_json::from_slice(bytes).map_err(|error| {
            Refusal::Unreadable(on_record(Record::Proof, generation, error, "a proof's JSON"))
        })?;
        proof.check(generation)?;
        Ok(proof)
    }

    fn check(&self, generation: GenerationId) -> Result<(), Refusal> {
        let refuse = |seen: String, expected: &str| {
            Refusal::ProofInvalid(on_record(Record::Proof, generation, seen, expected))
        };
        let has_history = !self.lineage.is_empty() || self.legacy_import.is_some();
        if !(self.schema_version == 2 || self.schema_version == 1 && !has_history) {
            return Err(refuse(
                format!("schema {}", self.schema_version),
                "2, or 1 without history",
            ));
        }
        if self.task_id != generation || self.generation != generation {
            return Err(refuse(format!("a proof of {}", self.task_id), &generation.to_string()));
        }
        if self.set_disk_id.is_empty() || self.verified_at == 0 {
            return Err(refuse("no set or no moment".to_owned(), "both"));
        }
        let endpoints = self.identities.iter().map(|it| &it.endpoint);
        if self.targets.is_empty() || !endpoints.eq(&self.targets) {
            return Err(refuse(format!("targets {:?}", self.targets), "one identity for each"));
        }
        lineage::check(&self.lineage, generation, &self.set_disk_id, generation)?;
        if self.lineage.last().is_some_and(|link| link.targets != self.identities) {
            return Err(refuse("other targets in the last link".to_owned(), "the proved ones"));
        }
        if let Some(approval) = &self.legacy_import {
            approval.check(generation)?;
            let root = self.lineage.first().map_or(generation, |link| link.predecessor);
            let is_bound = approval.successor == root
                && approval.set_disk_id == self.set_disk_id
                && approval.targets == self.targets;
            if !is_bound {
                return Err(refuse(format!("an import into {}", approval.successor), "this chain"));
            }
        }
        Ok(())
    }

    /// Whether this is the proof of `intent`, at whatever moment.
    pub fn matches(&self, intent: &Intent) -> bool {
        self.task_id == intent.task_id
            && Some(self.generation) == intent.generation
            && self.set_disk_id == intent.set_disk_id
            && self.targets == intent.targets
            && self.identities == intent.identities
            && self.lineage == intent.lineage
            && self.legacy_import == intent.legacy_import
    }

    /// The bytes of this proof: compact JSON without a newline.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a proof is plain JSON")
    }
}
