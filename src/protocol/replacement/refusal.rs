//! Why nothing may be written: one variant for each condition that stops recovery.
//!
//! A refusal leaves every record as it stands. It says what was seen, what was expected and where the evidence
//! lies; [`Refusal::remedy`] says what an operator may do, and [`Refusal::effect`] what the node does about it.

use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Record;

/// What a refusal is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Particulars {
    /// What was found.
    pub seen: String,
    /// What would have let it go on.
    pub expected: String,
    /// The file that shows it, relative to its drive's root, or the drive's endpoint.
    pub evidence: String,
}

/// What the node does about a refusal. Nothing of it touches the evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Reports it; the next attempt asks again.
    Report,
    /// Leaves the set alone until the next tick; nothing is recorded and nothing is charged.
    Defer,
    /// Admits no replacement work in the set until every record of it reads well again.
    Block,
    /// Records the failure in the generation's intent and charges one attempt.
    Record,
    /// Records the failure and exhausts the budget: only an operator re-arms it.
    Pin,
}

/// Declares the refusals: variant, number in the table of fail-closed conditions, effect, words, remedy.
macro_rules! refusals {
    ($($(#[doc = $doc:literal])+ $variant:ident = $number:literal, $effect:ident, $words:literal, $remedy:literal;)+) => {
        /// Why nothing may be written.
        #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
        pub enum Refusal {
            $($(#[doc = $doc])+
            #[error("{}: seen {}, expected {} ({})", $words, .0.seen, .0.expected, .0.evidence)]
            $variant(Particulars),)+
        }

        impl Refusal {
            /// Every condition: name, number, words and what an operator may do.
            pub const TABLE: &[(&str, &str, &str, &str)] =
                &[$((stringify!($variant), $number, $words, $remedy),)+];

            /// The number of the fail-closed condition, or of the decision that added it.
            pub fn number(&self) -> &'static str {
                match self { $(Self::$variant(_) => $number,)+ }
            }

            /// What the node does about it.
            pub fn effect(&self) -> Effect {
                match self { $(Self::$variant(_) => Effect::$effect,)+ }
            }

            /// What an operator may do.
            pub fn remedy(&self) -> &'static str {
                match self { $(Self::$variant(_) => $remedy,)+ }
            }

            /// What was seen, what was expected and where the evidence lies.
            pub fn particulars(&self) -> &Particulars {
                match self { $(Self::$variant(it) => it,)+ }
            }
        }
    };
}

refusals! {
    /// An id that is not a canonical UUID.
    IdNotCanonical = "E1", Report, "the id is not canonical", "name the generation as its record does";
    /// A record under another generation's name.
    NameDiffers = "E2", Block, "the record lies under another generation's name", "move the copy out of the folder";
    /// A schema that a later release wrote.
    SchemaNewer = "E3", Block, "a later release wrote the record", "start that release again: this one changes nothing";
    /// A schema 5 or 6 replacement record.
    LegacyRecord = "E4", Block, "a legacy replacement record", "stop all writers and import it: `replacement prepare-migration`";
    /// Bytes that are no record.
    Unreadable = "E5", Block, "the record does not parse", "restore the record from a backup of the survivor metadata";
    /// Another protocol, or a predecessor that the lineage does not name.
    BindingBroken = "E7", Block, "the record's binding is broken", "restore the record from a backup of the survivor metadata";
    /// A lineage that forks, cycles, ends elsewhere or is too long.
    LineageBroken = "E8", Block, "the lineage is broken", "restore the record from a backup of the survivor metadata";
    /// Targets and identities, or identities and lineage, do not agree.
    TargetsUnbound = "E9", Block, "the targets are not the ones that the record is bound to", "restore the record from a backup of the survivor metadata";
    /// A handoff that does not fit the record's phase.
    HandoffInconsistent = "E10", Block, "the handoff does not fit its record", "restore the record from a backup of the survivor metadata";
    /// A link that is not well formed.
    LinkInvalid = "E11", Block, "a link is not well formed", "restore the record from a backup of the survivor metadata";
    /// A retired source in another phase.
    RetirementInconsistent = "E12", Block, "the record is retired in a phase that cannot be", "restore the record from its archive";
    /// An approval that names another chain.
    ImportUnbound = "E13", Block, "the import does not belong to the record", "restore the record from a backup of the survivor metadata";
    /// Two intents of one generation that differ.
    FlatDiffers = "E14", Block, "two copies of the intent differ", "find out which is right, and move the other out";
    /// A flat intent that does not parse.
    FlatUnreadable = "E15", Block, "an older release's copy of the intent does not parse", "move it out of the folder after it was looked into";
    /// A proof of something else beside an active intent.
    ProofDiffers = "E16", Block, "the proof does not match the intent", "find out who wrote it; move it out of the folder";
    /// A proof beside an intent that cannot have one.
    ProofUnexpected = "E17", Block, "there is a proof in a phase that cannot have one", "find out who wrote it; move it out of the folder";
    /// Two proofs of one generation that differ.
    ProofsDiffer = "E18", Block, "two copies of the proof differ", "find out which is right, and move the other out";
    /// A proof of an unknown schema, or one that its schema does not allow.
    ProofInvalid = "E19", Block, "the proof is not valid", "move it out of the folder after it was looked into";
    /// Somebody else wrote the record in between.
    StaleWriter = "E20", Report, "the record was changed by somebody else", "none is needed: the next attempt reads it again";
    /// No further revision can be counted.
    RevisionOverflow = "E21", Report, "the revision cannot be counted on", "restore the record from a backup of the survivor metadata";
    /// A target that is not mounted, not admitted, or whose identity cannot be computed.
    TargetNotReady = "E22", Defer, "a target is not ready", "mount the drive at its endpoint, on a device of its own";
    /// A lease or a lock is held.
    LeaseHeld = "E24", Defer, "an execution lease is held", "wait for its holder, or end that process; never remove the lock file";
    /// A lock file that is not the one which was locked, or is gone from a drive that was marked under it.
    LeaseRemoved = "E25", Report, "the lock of an execution lease was removed", "stop every node of the set, so that nobody holds it, then put an empty `.rustfs-replacement.lock` back";
    /// A marker that cannot name anybody.
    MarkerUnreadable = "E27", Pin, "the marker names nobody", "find out who wrote it, keep a copy, then remove it and re-arm";
    /// A marker that names a stranger, met by a fresh acquisition or during the rebuild.
    MarkerForeign = "E28", Pin, "the marker names another owner", "find the owner's record on the set's drives; re-arm after it was settled";
    /// A marker that names a stranger, met when a handoff begins.
    HandoffMarkerForeign = "E31", Pin, "the marker names an owner that is not the predecessor", "find the owner's record on the set's drives; re-arm after it was settled";
    /// A marker that names a stranger, met by a transfer.
    TransferMarkerForeign = "E32", Pin, "the marker names neither its recorded owner nor the successor", "find the owner's record on the set's drives; re-arm after it was settled";
    /// Targets that are not the recorded slots.
    SlotsChanged = "E33", Record, "the targets are other slots", "configure the endpoints as the record has them";
    /// A phase from which nothing is handed off.
    NotEligible = "E34", Record, "the generation cannot be handed off", "none is needed unless its record was edited";
    /// A chain that is as long as it may get.
    LineageFull = "E34", Record, "the lineage is full", "let the rebuild finish on an unchanged mount";
    /// Too many failed passes.
    BudgetExhausted = "E44", Report, "the failure budget is exhausted", "remove the cause named in the record, then `replacement rearm`";
    /// A pending handoff meets targets or markers that were not foreseen.
    PendingDiffers = "E37", Record, "a pending handoff meets another target", "put the recorded drive back, or a blank one of its own identity";
    /// A successor that has begun cannot be bound again.
    SuccessorStarted = "E38", Record, "the successor has begun and cannot be bound again", "move its checkpoint out only if it is known to be foreign";
    /// The reserved successor id holds another record.
    SuccessorDiffers = "E39", Record, "the successor's id holds another record", "move that record out of the folder after it was looked into";
    /// A committed handoff without its successor.
    SuccessorMissing = "E40", Record, "the successor of a committed handoff is missing", "restore it from a backup of the survivor metadata";
    /// A pending successor without its predecessor.
    PredecessorMissing = "E41", Record, "the predecessor is missing", "restore it from a backup of the survivor metadata";
    /// A target changed between two looks of the same attempt.
    TargetChanged = "E57", Record, "a target changed while it was worked on", "none is needed: the next attempt hands off";
    /// The anchor that was remembered is away.
    AnchorUnavailable = "E45", Defer, "the survivor anchor is away", "bring the drive back: it holds the generation's only record";
    /// Another drive stands for the anchor.
    AnchorDiffers = "E46", Report, "the record lies on another drive", "remove the copy that is not the anchor's";
    /// No drive may hold the record.
    NoAnchor = "E47", Report, "no formatted drive of the set can hold the record", "bring a survivor of the set back";
    /// A record of another set.
    SetDiffers = "E48", Block, "the record belongs to another set", "move the copy out of the folder";
    /// Another generation still reserves the set.
    SetReserved = "E49", Defer, "another generation reserves the set", "none is needed: it waits for its turn";
    /// Copies of one generation that cannot both be true.
    CopiesDiffer = "E50", Block, "copies of the generation contradict each other", "find out which is right, and move the others out";
    /// A drive that could not be formatted.
    FormatFailed = "E56", Record, "a target was not formatted", "look at the drive; the next attempt formats it again";
    /// A pass that left versions out.
    PassUnclean = "E58", Record, "the pass left versions out", "look at the source drives; the pass is repeated";
    /// The deep check found something that is not on a target.
    CheckUnclean = "E58", Record, "the check of the targets' own shards failed", "look at the target; the pass is repeated";
    /// A page that does not lead on.
    PageStuck = "E61", Record, "the listing does not advance", "look at the drives' metadata of this bucket";
    /// A ledger that cannot be trusted.
    CheckpointRefused = "E62", Record, "the checkpoint cannot be trusted", "move it out of the folder: the pass starts again";
    /// A step that the phase does not have.
    PhaseUnfit = "E64", Report, "the phase has no such step", "none is needed";
    /// A marker that may not be removed.
    ClearForeign = "E68", Report, "the marker to be removed names another owner", "find the owner's record on the set's drives";
    /// An approval that is not valid.
    ApprovalInvalid = "E70", Block, "the approval is not valid", "remove it and prepare it again";
    /// Targets or markers are not the approved ones.
    ImportTargetsDiffer = "E71", Block, "a target is not as it was approved", "prepare the approval again from what is there now";
    /// A source is not the approved one.
    ImportSourceDiffers = "E72", Block, "a source is not as it was approved", "restore the source, or prepare the approval again";
    /// An archive holds something else.
    ArchiveDiffers = "E73", Block, "the archive of a source holds other bytes", "restore the archive from a backup of the survivor metadata";
    /// The successor's id holds another record.
    ImportSuccessorDiffers = "E74", Block, "the successor of the import is another record", "prepare the approval again with a fresh successor";
    /// The receipt holds something else.
    ReceiptDiffers = "E75", Block, "the receipt is not the approval", "restore the receipt from a backup of the survivor metadata";
    /// A marker that was expected is gone, on a drive that is not blank.
    MarkerVanished = "E79", Pin, "the marker that was expected is gone", "write the recorded owner back if the drive is the recorded one, then re-arm";
    /// The anchor has lost its format.
    AnchorBlank = "Q16", Report, "the survivor anchor is blank", "bring the drive back that holds the record";
    /// The generation has stepped back, or was given up.
    Abandoned = "3.1", Block, "the generation was given up", "import it, or move its record out after it was looked into";
    /// A release refuses what a later one wrote.
    DowngradeRefused = "A7", Block, "an older release meets a record of a later one", "start the later release again";
}

/// Builds the particulars of a refusal from what has a text.
pub(crate) fn about(
    seen: impl ToString,
    expected: impl ToString,
    evidence: impl ToString,
) -> Particulars {
    Particulars {
        seen: seen.to_string(),
        expected: expected.to_string(),
        evidence: evidence.to_string(),
    }
}

/// Builds the particulars of a refusal whose evidence is a record of `generation`.
pub(crate) fn on_record(
    record: Record,
    generation: GenerationId,
    seen: impl ToString,
    expected: impl ToString,
) -> Particulars {
    about(seen, expected, names::path(record, generation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_was_seen_what_was_expected_and_where() {
        let refusal = Refusal::MarkerForeign(about("`a`", "`b`", "drive 1"));
        let words = "the marker names another owner: seen `a`, expected `b` (drive 1)";
        assert_eq!(refusal.to_string(), words);
        assert_eq!((refusal.number(), refusal.effect()), ("E28", Effect::Pin));
    }

    #[test]
    fn every_refusal_has_words_of_its_own_and_a_remedy() {
        let mut words: Vec<_> = Refusal::TABLE.iter().map(|row| row.2).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Refusal::TABLE.len(), "two refusals say the same");
        assert!(Refusal::TABLE.iter().all(|row| !row.3.is_empty() && !row.2.ends_with('.')));
    }
}
