//! What is told about the generations of a set, in the words of the released servers' contract.
//!
//! A node's word about itself: *running* only while that very generation has a live executor there.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde::Deserialize;
use serde::Serialize;

use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::intent::Phase;
use crate::protocol::replacement::lineage::HandoffPhase;
use crate::protocol::replacement::proof::Proof;
use crate::protocol::replacement::refusal::Refusal;

/// The version of the answer.
pub const CONTRACT_VERSION: u32 = 2;
/// What the answer is about.
pub const SCOPE: &str = "cluster_survivor_disks";

/// The state of a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nothing can be said.
    Unknown,
    /// It waits for its drives, or for their markers.
    WaitingForReplacement,
    /// An executor is rebuilding.
    Running,
    /// The last attempt failed; another one follows.
    Incomplete,
    /// The targets were found whole; records are being removed.
    CleanupPending,
    /// It has passed its targets on.
    HandedOver,
    /// It does not go on by itself.
    Unrecoverable,
    /// The targets were found whole.
    Completed,
}

/// One generation. The keys are the contract's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusRecord {
    /// The generation.
    pub task_id: String,
    /// Its state.
    pub state: State,
    /// The generation once more, if the record says so.
    pub generation: Option<String>,
    /// Its set.
    pub set_disk_id: Option<String>,
    /// Its targets.
    pub target_slots: Vec<String>,
    /// Why, where there is something to say.
    pub reason: Option<String>,
    /// When the targets were found whole: seconds since 1970.
    pub verified_at: Option<u64>,
}

/// What one node tells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Whether every drive was read and nothing is unknown.
    pub definitive: bool,
    /// Why not.
    pub reason: Option<String>,
    /// One for each generation.
    pub records: Vec<StatusRecord>,
}

/// The whole answer of a node that was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// [`CONTRACT_VERSION`].
    pub contract_version: u32,
    /// The route that was asked.
    pub path: String,
    /// [`SCOPE`].
    pub scope: String,
    /// What the node tells of its own drives.
    pub local: Snapshot,
    /// What the nodes tell together.
    pub cluster: Snapshot,
}

/// What one drive holds: its records and proofs, or why it could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DriveRecords {
    /// Intents by generation, as they were read.
    pub intents: BTreeMap<GenerationId, Result<Intent, Refusal>>,
    /// Proofs by generation.
    pub proofs: BTreeMap<GenerationId, Result<Proof, Refusal>>,
    /// Why the drive could not be read whole.
    pub error: Option<String>,
}

/// The status of a generation by its intent; `is_live` says whether it has an executor on this node.
pub fn of_intent(intent: &Intent, is_live: bool) -> StatusRecord {
    let (state, reason) = state(intent, is_live);
    StatusRecord {
        task_id: intent.task_id.to_string(),
        state,
        generation: intent.generation.map(|id| id.to_string()),
        set_disk_id: Some(intent.set_disk_id.clone()).filter(|set| !set.is_empty()),
        target_slots: intent.targets.clone(),
        reason,
        verified_at: None,
    }
}

fn state(intent: &Intent, is_live: bool) -> (State, Option<String>) {
    let say = |words: &str| Some(words.to_owned());
    if !intent.is_replacement() {
        return (State::Unknown, say("the record is not a valid replacement"));
    }
    // Who has stepped back is history, whatever it had failed before.
    if intent.phase == Phase::Abandoned {
        let committed = intent.handoff.as_ref().filter(|it| it.phase == HandoffPhase::Committed);
        let successor = committed.map(|it| it.link.successor).or(intent.legacy_successor);
        return match successor {
            Some(id) => {
                let words = format!("replacement responsibility transferred to {id}");
                (State::HandedOver, Some(words))
            }
            None => (State::Unrecoverable, say("the generation was given up")),
        };
    }
    let words = intent.error_message.clone();
    if intent.is_exhausted() {
        return (State::Unrecoverable, words.or(say("the failure budget is exhausted")));
    }
    if words.is_some() {
        return (State::Incomplete, words);
    }
    match intent.phase {
        Phase::Intent | Phase::OwnershipPending | Phase::HandoffPending => {
            (State::WaitingForReplacement, None)
        }
        Phase::Rebuilding if is_live => (State::Running, None),
        Phase::Rebuilding => (State::Unknown, say("no executor of it lives on this node")),
        Phase::Verified | Phase::CleanupPending => (State::CleanupPending, None),
        Phase::Abandoned | Phase::None => (State::Unknown, None),
    }
}

/// The status of a generation of which only the proof is left.
pub fn of_proof(proof: &Proof) -> StatusRecord {
    StatusRecord {
        task_id: proof.task_id.to_string(),
        state: State::Completed,
        generation: Some(proof.generation.to_string()),
        set_disk_id: Some(proof.set_disk_id.clone()),
        target_slots: proof.targets.clone(),
        reason: None,
        verified_at: Some(proof.verified_at),
    }
}

/// What a node tells of its own drives; `live` are the generations with an executor on it.
///
/// An intent speaks for its generation, whatever proof lies beside it; equal copies are one.
pub fn snapshot(drives: &[DriveRecords], live: &BTreeSet<GenerationId>) -> Snapshot {
    let mut reason = drives.is_empty().then(|| "no local drive was read".to_owned());
    let mut records: BTreeMap<GenerationId, StatusRecord> = BTreeMap::new();
    let mut proved: BTreeMap<GenerationId, StatusRecord> = BTreeMap::new();
    for drive in drives {
        if let Some(error) = &drive.error {
            reason.get_or_insert(error.clone());
        }
        for (id, read) in &drive.intents {
            let record = match read {
                Ok(intent) => of_intent(intent, live.contains(id)),
                Err(refusal) => {
                    reason.get_or_insert(refusal.to_string());
                    unknown(*id, &refusal.to_string())
                }
            };
            merge(&mut records, *id, record);
        }
        for (id, read) in &drive.proofs {
            match read {
                Ok(proof) => merge(&mut proved, *id, of_proof(proof)),
                Err(refusal) => {
                    reason.get_or_insert(refusal.to_string());
                    merge(&mut proved, *id, unknown(*id, &refusal.to_string()));
                }
            }
        }
    }
    for (id, record) in proved {
        records.entry(id).or_insert(record);
    }
    let open = records.values().find(|record| record.state == State::Unknown);
    if let Some(record) = open {
        reason.get_or_insert(record.reason.clone().unwrap_or_default());
    }
    let records = records.into_values().collect();
    Snapshot { definitive: reason.is_none(), reason, records }
}

fn unknown(id: GenerationId, reason: &str) -> StatusRecord {
    StatusRecord {
        task_id: id.to_string(),
        state: State::Unknown,
        generation: None,
        set_disk_id: None,
        target_slots: Vec::new(),
        reason: Some(reason.to_owned()),
        verified_at: None,
    }
}

/// Equal copies are one record; one that is over and one in cleanup are in cleanup; else nothing can be said.
fn merge<K: Ord + Copy>(records: &mut BTreeMap<K, StatusRecord>, key: K, record: StatusRecord) {
    let Some(there) = records.get_mut(&key) else {
        records.insert(key, record);
        return;
    };
    if *there == record {
        return;
    }
    let states = BTreeSet::from([there.state, record.state]);
    if states == BTreeSet::from([State::CleanupPending, State::Completed]) {
        if record.state == State::CleanupPending {
            *there = record;
        }
        return;
    }
    there.state = State::Unknown;
    there.reason = Some("copies of the generation differ".to_owned());
}

/// What a peer answered when it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerAnswer {
    /// Its snapshot.
    Snapshot(Snapshot),
    /// It does not know the question.
    Unsupported,
    /// It did not answer in time.
    Unavailable,
}

/// What the nodes tell together. An empty answer of a node contradicts nobody.
pub fn cluster(local: &Snapshot, peers: &[PeerAnswer]) -> Snapshot {
    let mut reason = local.reason.clone();
    let mut records: BTreeMap<String, StatusRecord> = BTreeMap::new();
    for record in &local.records {
        merge_named(&mut records, record);
    }
    for peer in peers {
        let said = match peer {
            PeerAnswer::Unsupported => Some("peer_replacement_recovery_status_unsupported"),
            PeerAnswer::Unavailable => Some("peer_replacement_recovery_status_unavailable"),
            PeerAnswer::Snapshot(snapshot) => {
                for record in &snapshot.records {
                    merge_named(&mut records, record);
                }
                (!snapshot.definitive).then_some("peer_replacement_recovery_status_not_definitive")
            }
        };
        if let Some(said) = said {
            reason.get_or_insert(said.to_owned());
        }
    }
    let records: Vec<_> = records.into_values().collect();
    if records.iter().any(|record| record.state == State::Unknown) {
        reason.get_or_insert("peer_replacement_recovery_status_conflict".to_owned());
    }
    Snapshot { definitive: reason.is_none(), reason, records }
}

fn merge_named(records: &mut BTreeMap<String, StatusRecord>, record: &StatusRecord) {
    let mut keyed: BTreeMap<(), StatusRecord> = BTreeMap::new();
    if let Some(there) = records.remove(&record.task_id) {
        keyed.insert((), there);
    }
    merge(&mut keyed, (), record.clone());
    records.extend(keyed.into_values().map(|it| (it.task_id.clone(), it)));
}
