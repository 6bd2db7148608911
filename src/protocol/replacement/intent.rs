//! The intent: the durable record of one generation, and the only authority about its phase.
//!
//! One struct holds what any release wrote; [`Layout`] says which keys its bytes have, so that a record comes
//! back as it was read. What this release writes is always [`Layout::Current`]. The rules that a record must
//! pass before anyone acts on it are in `intent_rules.rs`.

use serde::Deserialize;
use serde::Serialize;
use serde::Serializer;
use serde::ser::SerializeMap as _;

use crate::protocol::replacement::approval::Approval;
use crate::protocol::replacement::identity::Identity;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::lineage::Handoff;
use crate::protocol::replacement::lineage::Link;

/// The schema that is written now.
pub const SCHEMA: u32 = 7;
/// The task type of every intent.
pub const TASK_TYPE: &str = "erasure_set";
/// The execution protocol that takes part in leases.
pub const PROTOCOL: u8 = 1;
/// Failed passes that a generation may have.
pub const RETRIES_MAX: u32 = 3;

/// Which keys a record's bytes have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layout {
    /// Schema 5 before it counted bytes.
    Early,
    /// Later schema 5, and schema 6.
    Legacy,
    /// Schema 7 before retries waited for a target.
    First,
    /// Schema 7.
    #[default]
    Current,
}

/// The phase of a generation.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Not a replacement.
    #[default]
    None,
    /// Published; targets may be formatted and marked.
    Intent,
    /// A successor that does not own its markers yet.
    OwnershipPending,
    /// A predecessor that has named its successor.
    HandoffPending,
    /// Every marker is owned; versions are being rebuilt.
    Rebuilding,
    /// The proof is durable; markers are being removed.
    Verified,
    /// The markers are gone; records are being removed.
    CleanupPending,
    /// Stepped back, retired, or given up: evidence.
    Abandoned,
}

/// The record of one generation; also of an ordinary heal, which has no generation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Intent {
    /// Which keys its bytes have.
    #[serde(skip)]
    pub layout: Layout,
    /// The schema.
    #[serde(default)]
    pub schema_version: u32,
    /// Where the first bucket that is not complete goes on; `None` is its beginning.
    #[serde(default)]
    pub resume_cursor: Option<String>,
    /// The generation, as its file's name has it.
    pub task_id: GenerationId,
    /// [`TASK_TYPE`].
    pub task_type: String,
    /// The set.
    #[serde(default)]
    pub set_disk_id: String,
    /// The targets' endpoints, sorted, each once.
    #[serde(rename = "replacement_targets", default)]
    pub targets: Vec<String>,
    /// What they are bound to, in the same order.
    #[serde(rename = "replacement_target_identities", default)]
    pub identities: Vec<Identity>,
    /// The bucket plan; checkpoints count positions in it.
    #[serde(rename = "replacement_buckets", default)]
    pub buckets: Vec<String>,
    /// The generation once more; `None` for an ordinary heal.
    #[serde(rename = "replacement_generation", default)]
    pub generation: Option<GenerationId>,
    /// The phase.
    #[serde(rename = "replacement_phase", default)]
    pub phase: Phase,
    /// [`PROTOCOL`], or 0 for a legacy record.
    #[serde(rename = "replacement_execution_protocol", default)]
    pub protocol: u8,
    /// Counts the saves; 0 at publication.
    #[serde(rename = "replacement_revision", default)]
    pub revision: u64,
    /// Who passed its targets on to this generation.
    #[serde(rename = "replacement_predecessor", default)]
    pub predecessor: Option<GenerationId>,
    /// To whom this generation passes on.
    #[serde(rename = "replacement_handoff", default)]
    pub handoff: Option<Handoff>,
    /// How the targets came to this generation.
    #[serde(rename = "replacement_lineage", default)]
    pub lineage: Vec<Link>,
    /// The import that began the chain.
    #[serde(rename = "replacement_legacy_import", default)]
    pub legacy_import: Option<Approval>,
    /// Into whom this legacy record was imported.
    #[serde(rename = "replacement_legacy_successor", default)]
    pub legacy_successor: Option<GenerationId>,
    /// Whether the one re-arming that older records get is used up.
    #[serde(rename = "replacement_legacy_retry_compatibility_done", default)]
    pub retry_compatibility_done: bool,
    /// Whether the last pass was rewound because a target was not ready.
    #[serde(rename = "replacement_retry_waiting_for_target", default)]
    pub waiting_for_target: bool,
    /// When the generation was made: seconds since 1970.
    pub start_time: u64,
    /// When it last made progress: seconds since 1970.
    pub last_update: u64,
    /// Whether the targets were found whole.
    pub completed: bool,
    /// How many versions there are to rebuild, where that is known.
    pub total_objects: u64,
    /// Versions dealt with.
    pub processed_objects: u64,
    /// Versions rebuilt and read back.
    pub successful_objects: u64,
    /// Versions that could not be rebuilt.
    pub failed_objects: u64,
    /// Versions put off.
    pub skipped_objects: u64,
    /// Versions left out for being too new; this release leaves none out.
    #[serde(default)]
    pub skipped_new_versions: u64,
    /// Versions left out for having expired.
    #[serde(default)]
    pub skipped_ilm_expired: u64,
    /// For display.
    #[serde(default)]
    pub current_bucket: Option<String>,
    /// For display.
    #[serde(default)]
    pub current_object: Option<String>,
    /// Buckets of the plan that are done.
    pub completed_buckets: Vec<String>,
    /// For display: the others.
    pub pending_buckets: Vec<String>,
    /// The last failure.
    #[serde(default)]
    pub error_message: Option<String>,
    /// Failed passes so far.
    pub retry_count: u32,
    /// How many there may be.
    pub max_retries: u32,
    /// Bytes rebuilt.
    #[serde(default)]
    pub processed_bytes: u64,
    /// Bytes there are to rebuild, where that is known.
    #[serde(default)]
    pub total_bytes: u64,
    /// Which baseline the totals were taken from.
    #[serde(default)]
    pub baseline_generation: Option<u64>,
    /// Whether the totals are known.
    #[serde(default)]
    pub baseline_known: bool,
    /// Whether the counters cannot be relied on any more.
    #[serde(default)]
    pub counter_unknown: bool,
}

impl Default for GenerationId {
    fn default() -> Self {
        Self(uuid::Uuid::nil())
    }
}

impl Serialize for Intent {
    /// The keys that the layout has, in their order.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let has_counters = self.layout >= Layout::Legacy;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema_version", &self.schema_version)?;
        map.serialize_entry("resume_cursor", &self.resume_cursor)?;
        map.serialize_entry("task_id", &self.task_id)?;
        map.serialize_entry("task_type", &self.task_type)?;
        map.serialize_entry("set_disk_id", &self.set_disk_id)?;
        map.serialize_entry("replacement_targets", &self.targets)?;
        map.serialize_entry("replacement_target_identities", &self.identities)?;
        map.serialize_entry("replacement_buckets", &self.buckets)?;
        map.serialize_entry("replacement_generation", &self.generation)?;
        map.serialize_entry("replacement_phase", &self.phase)?;
        if self.layout >= Layout::First {
            map.serialize_entry("replacement_execution_protocol", &self.protocol)?;
            map.serialize_entry("replacement_revision", &self.revision)?;
            map.serialize_entry("replacement_predecessor", &self.predecessor)?;
            map.serialize_entry("replacement_handoff", &self.handoff)?;
            map.serialize_entry("replacement_lineage", &self.lineage)?;
            map.serialize_entry("replacement_legacy_import", &self.legacy_import)?;
            map.serialize_entry("replacement_legacy_successor", &self.legacy_successor)?;
        }
        if self.layout >= Layout::Current {
            let done = &self.retry_compatibility_done;
            map.serialize_entry("replacement_legacy_retry_compatibility_done", done)?;
            map.serialize_entry("replacement_retry_waiting_for_target", &self.waiting_for_target)?;
        }
        map.serialize_entry("start_time", &self.start_time)?;
        map.serialize_entry("last_update", &self.last_update)?;
        map.serialize_entry("completed", &self.completed)?;
        map.serialize_entry("total_objects", &self.total_objects)?;
        map.serialize_entry("processed_objects", &self.processed_objects)?;
        map.serialize_entry("successful_objects", &self.successful_objects)?;
        map.serialize_entry("failed_objects", &self.failed_objects)?;
        map.serialize_entry("skipped_objects", &self.skipped_objects)?;
        if has_counters {
            map.serialize_entry("skipped_new_versions", &self.skipped_new_versions)?;
            map.serialize_entry("skipped_ilm_expired", &self.skipped_ilm_expired)?;
        }
        map.serialize_entry("current_bucket", &self.current_bucket)?;
        map.serialize_entry("current_object", &self.current_object)?;
        map.serialize_entry("completed_buckets", &self.completed_buckets)?;
        map.serialize_entry("pending_buckets", &self.pending_buckets)?;
        map.serialize_entry("error_message", &self.error_message)?;
        map.serialize_entry("retry_count", &self.retry_count)?;
        map.serialize_entry("max_retries", &self.max_retries)?;
        if has_counters {
            map.serialize_entry("processed_bytes", &self.processed_bytes)?;
            map.serialize_entry("total_bytes", &self.total_bytes)?;
            map.serialize_entry("baseline_generation", &self.baseline_generation)?;
            map.serialize_entry("baseline_known", &self.baseline_known)?;
            map.serialize_entry("counter_unknown", &self.counter_unknown)?;
        }
        map.end()
    }
}

impl Intent {
    /// The record in `bytes`, whatever release wrote it, without any rule applied.
    ///
    /// # Errors
    ///
    /// What the JSON reader says. Unknown keys are tolerated, and lost at the next save.
    pub fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let mut intent: Self = serde_json::from_slice(bytes)?;
        let keys: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(bytes)?;
        let has = |key: &str| keys.contains_key(key);
        intent.layout = if has("replacement_retry_waiting_for_target") {
            Layout::Current
        } else if has("replacement_revision") || intent.schema_version >= SCHEMA {
            Layout::First
        } else if has("counter_unknown") {
            Layout::Legacy
        } else {
            Layout::Early
        };
        Ok(intent)
    }

    /// The bytes of this record: compact JSON without a newline.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("an intent is plain JSON")
    }

    /// The next record: schema 7, one revision further. `None` when no further one can be counted.
    pub fn next(&self) -> Option<Self> {
        let revision = self.revision.checked_add(1)?;
        Some(Self { layout: Layout::Current, schema_version: SCHEMA, revision, ..self.clone() })
    }

    /// What the markers of its targets hold.
    pub fn owner(&self) -> String {
        crate::protocol::replacement::marker::owner(&self.set_disk_id, self.task_id)
    }

    /// Whether nothing has been rebuilt under this record.
    pub fn is_untouched(&self) -> bool {
        !self.completed
            && self.processed_objects == 0
            && self.resume_cursor.is_none()
            && self.completed_buckets.is_empty()
    }

    /// Whether as many passes have failed as may.
    pub fn is_exhausted(&self) -> bool {
        !self.completed && self.retry_count >= self.max_retries
    }

    /// Whether a target was passed on: to a successor, or by an import.
    pub fn has_passed_on(&self) -> bool {
        self.handoff.is_some() || self.legacy_successor.is_some()
    }

    /// Whether this is the record of a replacement at all.
    pub fn is_replacement(&self) -> bool {
        let endpoints = self.identities.iter().map(|it| &it.endpoint);
        let mut sorted: Vec<_> = self.targets.iter().collect();
        sorted.sort_unstable();
        sorted.dedup();
        self.generation == Some(self.task_id)
            && !self.targets.is_empty()
            && endpoints.eq(&self.targets)
            && sorted.len() == self.targets.len()
            && self.phase != Phase::None
    }

    /// Whether no fresh generation may take its targets.
    pub fn reserves_targets(&self) -> bool {
        self.generation == Some(self.task_id)
            && !self.targets.is_empty()
            && match self.phase {
                Phase::None => false,
                Phase::Abandoned => !self.has_passed_on(),
                _ => true,
            }
    }

    /// Whether somebody has to go on with it.
    pub fn is_due(&self) -> bool {
        let phases_open = matches!(
            self.phase,
            Phase::Intent | Phase::OwnershipPending | Phase::HandoffPending | Phase::Rebuilding
        );
        let phases_done = matches!(self.phase, Phase::Verified | Phase::CleanupPending);
        self.generation == Some(self.task_id)
            && !self.targets.is_empty()
            && (!self.completed && phases_open && self.retry_count < self.max_retries
                || self.completed && phases_done)
    }

    /// Takes back all that a pass has counted and where it was; the plan stays.
    pub fn rewind(&mut self) {
        self.resume_cursor = None;
        self.processed_objects = 0;
        self.successful_objects = 0;
        self.failed_objects = 0;
        self.skipped_objects = 0;
        self.skipped_new_versions = 0;
        self.skipped_ilm_expired = 0;
        self.processed_bytes = 0;
        self.current_bucket = None;
        self.current_object = None;
        self.completed_buckets.clear();
    }
}
