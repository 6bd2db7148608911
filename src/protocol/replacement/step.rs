//! The durable steps of the protocol: each is a named moment at which a rehearsal may hold or stop a node.
//!
//! A decision says by it which write it asks for. The names are crash points; they stand apart from
//! [`CrashPoint`](crate::protocol::crash_point::CrashPoint) until an executor passes them, because every point of that
//! list has to be struck by a scenario.

/// Declares the steps once: variant, name as scenarios spell it, and what has happened by then.
macro_rules! steps {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// One durable step.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Step {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Step {
            /// Every step there is, in the order of the protocol.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name of the crash point right after it.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What has happened when a node is held there.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc,)+),)+ }
            }
        }
    };
}

steps! {
    /// The survivor anchor has the folder of the records.
    FolderMade = "replacement.folder_made",
    /// The intent of a fresh generation is published.
    IntentPublished = "replacement.intent_published",
    /// The seal proves the intent complete.
    IntentSealed = "replacement.intent_sealed",
    /// The side-file says what the targets are.
    TargetsNoted = "replacement.targets_noted",
    /// A target is formatted.
    TargetFormatted = "replacement.target_formatted",
    /// A target's marker names the fresh generation.
    MarkerAcquired = "replacement.marker_acquired",
    /// A marker that a failed acquisition had written is gone again.
    MarkerRolledBack = "replacement.marker_rolled_back",
    /// The intent says that every marker is owned and versions are being rebuilt.
    RebuildingEntered = "replacement.rebuilding_entered",
    /// The ledger of a pass exists, or was set back to its beginning.
    LedgerReset = "replacement.ledger_reset",
    /// The ledger holds outcomes of the page under way.
    OutcomesSaved = "replacement.page.outcomes_saved",
    /// The ledger has the position after the page.
    PositionSaved = "replacement.page.position_saved",
    /// The intent has the cursor after the page.
    CursorSaved = "replacement.page.cursor_saved",
    /// The ledger has forgotten the page's versions.
    LedgerPruned = "replacement.page.ledger_pruned",
    /// The intent has the counters of a bucket's pages.
    CountersSaved = "replacement.bucket.counters_saved",
    /// The intent says that the bucket is done.
    BucketCompleted = "replacement.bucket.completed",
    /// The ledger stands on the next bucket.
    BucketAdvanced = "replacement.bucket.advanced",
    /// The ledger counts the rebuilt internal objects.
    InternalsSaved = "replacement.internals_saved",
    /// The completion proof is durable.
    ProofWritten = "replacement.proof_written",
    /// The intent says that the targets were found whole.
    VerifiedSaved = "replacement.verified_saved",
    /// A target's marker is gone.
    MarkerCleared = "replacement.marker_cleared",
    /// The intent says that every marker is gone.
    CleanupEntered = "replacement.cleanup_entered",
    /// A record that is not needed any more is gone: the ledger and what belongs to it.
    LedgerRemoved = "replacement.cleanup.ledger_removed",
    /// The side-file is gone.
    NoteRemoved = "replacement.cleanup.note_removed",
    /// The intent is gone.
    IntentRemoved = "replacement.cleanup.intent_removed",
    /// The seal is gone; the proof stays.
    SealRemoved = "replacement.cleanup.seal_removed",
    /// The predecessor has named its successor.
    HandoffPrepared = "replacement.handoff.prepared",
    /// The predecessor's handoff is bound to other mounts.
    HandoffRebound = "replacement.handoff.rebound",
    /// The successor's record is published.
    SuccessorPublished = "replacement.handoff.successor_published",
    /// The seal proves the successor's record complete.
    SuccessorSealed = "replacement.handoff.successor_sealed",
    /// The successor's record is bound to other mounts.
    SuccessorRebound = "replacement.handoff.successor_rebound",
    /// A target's marker names the successor.
    MarkerMoved = "replacement.handoff.marker_moved",
    /// The predecessor says that every marker has moved.
    MarkersOwned = "replacement.handoff.markers_owned",
    /// The predecessor has stepped back.
    HandoffCommitted = "replacement.handoff.committed",
    /// The intent has a failed pass charged.
    RetryArmed = "replacement.failure.retry_armed",
    /// The intent waits for a target without a charge.
    ReadinessDeferred = "replacement.failure.readiness_deferred",
    /// The intent has a failure recorded.
    FailureRecorded = "replacement.failure.recorded",
    /// An operator has re-armed an exhausted generation.
    BudgetRearmed = "replacement.failure.rearmed",
    /// A checkpoint that cannot be trusted is flagged.
    LedgerFlagged = "replacement.failure.ledger_flagged",
    /// An approval is staged beside its name.
    ApprovalStaged = "replacement.import.approval_staged",
    /// The approval has its name.
    ApprovalPublished = "replacement.import.approval_published",
    /// The staged approval is gone.
    ApprovalUnstaged = "replacement.import.approval_unstaged",
    /// A source's bytes are archived.
    SourceArchived = "replacement.import.source_archived",
    /// The imported successor is published.
    ImportPublished = "replacement.import.successor_published",
    /// The imported successor is sealed.
    ImportSealed = "replacement.import.successor_sealed",
    /// The imported successor's plan has grown.
    PlanExtended = "replacement.import.plan_extended",
    /// The imported successor is bound to other mounts.
    ImportRebound = "replacement.import.successor_rebound",
    /// A source is retired.
    SourceRetired = "replacement.import.source_retired",
    /// The receipt is durable.
    ReceiptWritten = "replacement.import.receipt_written",
    /// The approval is consumed.
    ApprovalConsumed = "replacement.import.approval_consumed",
    /// An older release's copy of a record lies where this one keeps it.
    FlatMoved = "replacement.flat.moved",
    /// An older release's copy of a record is gone.
    FlatRemoved = "replacement.flat.removed",
    /// An older release has given a generation up.
    LegacyAbandoned = "replacement.legacy.abandoned",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_name_of_its_own_in_the_family() {
        let mut names: Vec<_> = Step::ALL.iter().map(|step| step.name()).collect();
        assert!(names.iter().all(|name| name.starts_with("replacement.")));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Step::ALL.len());
        assert!(Step::ALL.iter().all(|step| step.meaning().trim().ends_with('.')));
    }
}
