//! The rules that an intent must pass before anyone acts on it.

use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::ids::SetId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::intent::Layout;
use crate::protocol::replacement::intent::PROTOCOL;
use crate::protocol::replacement::intent::Phase;
use crate::protocol::replacement::intent::SCHEMA;
use crate::protocol::replacement::lineage;
use crate::protocol::replacement::lineage::HandoffPhase;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::refusal::Particulars;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::refusal::on_record;

impl Intent {
    /// The record in `bytes`, which lie under the name of `generation`, held to every rule.
    ///
    /// An ordinary heal's record of an older schema comes back without its progress and as schema 7: nobody
    /// may resume by cursors that named null versions otherwise.
    ///
    /// # Errors
    ///
    /// The first rule that is broken. Nothing may be written then.
    pub fn read(generation: GenerationId, bytes: &[u8]) -> Result<Self, Refusal> {
        let on =
            |seen: String, expected: &str| on_record(Record::Intent, generation, seen, expected);
        let mut intent = Self::parse(bytes)
            .map_err(|error| Refusal::Unreadable(on(error.to_string(), "an intent's JSON")))?;
        if intent.task_id != generation {
            let seen = format!("a record of {}", intent.task_id);
            return Err(Refusal::NameDiffers(on(seen, &generation.to_string())));
        }
        if intent.schema_version > SCHEMA {
            return Err(Refusal::SchemaNewer(on(intent.schema_version.to_string(), "at most 7")));
        }
        let is_ordinary = intent.generation.is_none() && intent.targets.is_empty();
        if intent.schema_version < SCHEMA {
            if !is_ordinary {
                let seen = format!("schema {}", intent.schema_version);
                return Err(Refusal::LegacyRecord(on(seen, "7")));
            }
            if intent.schema_version < 6 {
                intent.pending_buckets.append(&mut intent.completed_buckets);
                intent.pending_buckets.sort_unstable();
                intent.pending_buckets.dedup();
                intent.rewind();
                intent.completed = false;
            }
            intent.schema_version = SCHEMA;
            intent.layout = Layout::Current;
        }
        if !is_ordinary {
            intent.check(&on)?;
        }
        Ok(intent)
    }

    fn check(&self, on: &dyn Fn(String, &str) -> Particulars) -> Result<(), Refusal> {
        if self.generation != Some(self.task_id) {
            let seen = format!("generation {:?}", self.generation);
            return Err(Refusal::BindingBroken(on(seen, &self.task_id.to_string())));
        }
        self.set_disk_id
            .parse::<SetId>()
            .map_err(|seen| Refusal::BindingBroken(on(seen, "a set")))?;
        lineage::check(&self.lineage, self.task_id, &self.set_disk_id, self.task_id)?;
        self.check_handoff(on)?;
        if self.lineage.last().is_some_and(|link| link.targets != self.identities) {
            let seen = "other identities in the last link".to_owned();
            return Err(Refusal::TargetsUnbound(on(seen, "the record's own")));
        }
        self.check_import(on)?;
        if let Some(successor) = self.legacy_successor
            && (successor == self.task_id || self.phase != Phase::Abandoned)
        {
            let seen = format!("phase {:?}, imported into {successor}", self.phase);
            return Err(Refusal::RetirementInconsistent(on(seen, "an abandoned source")));
        }
        if self.protocol != PROTOCOL {
            let seen = format!("execution protocol {}", self.protocol);
            return Err(Refusal::BindingBroken(on(seen, "1")));
        }
        let predecessor = self.lineage.last().map(|link| link.predecessor);
        if self.predecessor != predecessor {
            let seen = format!("predecessor {:?}", self.predecessor);
            return Err(Refusal::BindingBroken(on(seen, &format!("{predecessor:?}"))));
        }
        if !self.is_replacement() {
            let seen = format!("targets {:?} in phase {:?}", self.targets, self.phase);
            return Err(Refusal::TargetsUnbound(on(seen, "one identity for each, in its order")));
        }
        Ok(())
    }

    fn check_handoff(&self, on: &dyn Fn(String, &str) -> Particulars) -> Result<(), Refusal> {
        let Some(handoff) = &self.handoff else {
            if self.phase == Phase::HandoffPending {
                let seen = "no handoff".to_owned();
                return Err(Refusal::HandoffInconsistent(on(seen, "one, in this phase")));
            }
            return Ok(());
        };
        let refuse =
            |seen: String, expected: &str| Refusal::HandoffInconsistent(on(seen, expected));
        let link = &handoff.link;
        link.check(self.task_id)?;
        let phase = match handoff.phase {
            HandoffPhase::Prepared | HandoffPhase::MarkersOwned => Phase::HandoffPending,
            HandoffPhase::Committed => Phase::Abandoned,
        };
        if self.completed || self.phase != phase || self.legacy_successor.is_some() {
            let seen = format!("{:?} in phase {:?}", handoff.phase, self.phase);
            return Err(refuse(seen, &format!("phase {phase:?}, neither completed nor retired")));
        }
        if link.predecessor != self.task_id || link.set_disk_id != self.set_disk_id {
            let seen = format!("{} of {}", link.predecessor, link.set_disk_id);
            return Err(refuse(seen, "the record's own"));
        }
        if !link.targets.iter().map(|it| &it.endpoint).eq(&self.targets) {
            return Err(refuse("other targets".to_owned(), "the record's own"));
        }
        let mut lineage = self.lineage.clone();
        lineage.push(link.clone());
        lineage::check(&lineage, link.successor, &self.set_disk_id, self.task_id)
    }

    fn check_import(&self, on: &dyn Fn(String, &str) -> Particulars) -> Result<(), Refusal> {
        let Some(approval) = &self.legacy_import else {
            return Ok(());
        };
        approval.check(self.task_id)?;
        let root = self.lineage.first().map_or(self.task_id, |link| link.predecessor);
        let is_bound = approval.successor == root
            && approval.set_disk_id == self.set_disk_id
            && approval.targets == self.targets;
        if is_bound {
            return Ok(());
        }
        let seen = format!("an import into {}", approval.successor);
        Err(Refusal::ImportUnbound(on(seen, &format!("one into {root}, its set and targets"))))
    }
}
