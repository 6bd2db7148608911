//! The named moments at which a rehearsal may hold or stop a node.
//!
//! Every durable step has a name. A production start arms none, and passing an unarmed point costs
//! one branch. The names are part of the scenario format: they are never reused for another moment. Steps of the
//! replacement protocol are declared there; here stand those that a rehearsal can strike.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::Serialize;

use crate::protocol::replacement::step::Step;

/// Declares the points once: variant, name as scenarios spell it, and what has happened by then.
macro_rules! crash_points {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+ replacement: [$($step:ident),+ $(,)?]) => {
        /// One named moment.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub enum CrashPoint {
            $($(#[doc = $doc])+ $variant,)+
            /// A durable step of the replacement protocol was taken.
            Replacement(Step),
        }

        impl CrashPoint {
            /// Every point there is, in the order of its protocol's steps.
            pub const ALL: &[Self] = &[$(Self::$variant,)+ $(Self::Replacement(Step::$step),)+];

            /// The name, as scenarios spell it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                    Self::Replacement(step) => step.name(),
                }
            }

            /// What has happened when a node is held here.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!($($doc,)+),)+
                    Self::Replacement(step) => step.meaning(),
                }
            }
        }
    };
}

crash_points! {
    /// A drive holds the staged shards of a PUT, not yet sealed: they may lie in memory alone.
    PutShardsStaged = "put.shards_staged",
    /// A drive has sealed the staged shards: no name that follows is durable without them.
    PutShardsSynced = "put.shards_synced",
    /// A drive holds the new xl.meta in its staging folder; no name that follows is durable without it.
    PutMetaStaged = "put.meta_staged",
    /// A drive has renamed the data directory into the key's directory.
    PutDataRenamed = "put.data_renamed",
    /// A drive has kept a copy of the xl.meta that is about to be replaced.
    PutBackupWritten = "put.backup_written",
    /// A drive has renamed the new xl.meta over the old one: its commit point.
    PutMetaRenamed = "put.meta_renamed",
    /// A drive has flushed the directories that name the new xl.meta.
    PutDirectorySynced = "put.directory_synced",
    /// The write reached its quorum; nothing was answered to the client yet.
    PutBeforeAnswer = "put.before_answer",
    /// A drive has kept a copy of the xl.meta that a delete is about to change.
    DeleteBackupWritten = "delete.backup_written",
    /// A drive has published the xl.meta that lacks the version or carries the marker.
    DeleteMetaRenamed = "delete.meta_renamed",
    /// The delete reached its quorum; nothing was answered to the client yet.
    DeleteBeforeAnswer = "delete.before_answer",
    /// The namespace lock of a conditional write is held and its condition was found true.
    ConditionChecked = "condition.checked",
    /// The parts of an upload were found whole; its commit is about to begin.
    MultipartPartsChecked = "multipart.parts_checked",
    /// A drive has committed a completed upload.
    MultipartMetaRenamed = "multipart.meta_renamed",
    /// The completed upload reached its quorum; nothing was answered to the client yet.
    MultipartBeforeAnswer = "multipart.before_answer",
    /// A drive that is being healed holds the rebuilt shards, sealed, in its staging folder.
    HealShardsStaged = "heal.shards_staged",
    /// A drive that is being healed has published the version.
    HealMetaRenamed = "heal.meta_renamed",
    /// The metadata file of a commit is written; the pointer has not moved.
    CatalogCommitMetadataWritten = "catalog.commit.metadata_written",
    /// The warehouse prefix that a commit moves its table to is reserved.
    CatalogCommitIndexReserved = "catalog.commit.index_reserved",
    /// The log record of a commit is staged.
    CatalogCommitLogStaged = "catalog.commit.log_staged",
    /// The idempotency record of a commit is staged.
    CatalogCommitKeyStaged = "catalog.commit.key_staged",
    /// The table's pointer has moved: the commit is visible.
    CatalogCommitPointerMoved = "catalog.commit.pointer_moved",
    /// The warehouse prefix that a commit moved its table from is released.
    CatalogCommitIndexReleased = "catalog.commit.index_released",
    /// The log record of a commit is committed.
    CatalogCommitLogCommitted = "catalog.commit.log_committed",
    /// The idempotency record of a commit is committed.
    CatalogCommitKeyCommitted = "catalog.commit.key_committed",
    /// The first metadata file of a table is written.
    CatalogCreateMetadataWritten = "catalog.create.metadata_written",
    /// The warehouse prefix of a new table is reserved.
    CatalogCreateIndexReserved = "catalog.create.index_reserved",
    /// The entry of a new table is written: it exists.
    CatalogCreateEntryWritten = "catalog.create.entry_written",
    /// A reservation of a request that failed is given back.
    CatalogIndexReturned = "catalog.undo.index_returned",
    /// The metadata file of a request that failed is removed.
    CatalogMetadataRemoved = "catalog.undo.metadata_removed",
    /// The warehouse prefix of a table that is being dropped is released.
    CatalogDropIndexDeleted = "catalog.drop.index_deleted",
    /// The entry of a dropped table is gone.
    CatalogDropEntryDeleted = "catalog.drop.entry_deleted",
    /// A metadata file of a view is written.
    CatalogViewMetadataWritten = "catalog.view.metadata_written",
    /// The entry of a new view is written: it exists.
    CatalogViewEntryWritten = "catalog.view.entry_written",
    /// A view's pointer has moved.
    CatalogViewPointerMoved = "catalog.view.pointer_moved",
    /// The entry of a dropped view is gone.
    CatalogViewEntryDeleted = "catalog.view.entry_deleted",
    /// The entry of a namespace is written.
    CatalogNamespaceEntryWritten = "catalog.namespace.entry_written",
    /// The entry of a dropped namespace is gone.
    CatalogNamespaceEntryDeleted = "catalog.namespace.entry_deleted",
    /// A bucket is marked as a table bucket; it has no entry yet.
    CatalogBucketMarkerWritten = "catalog.bucket.marker_written",
    /// The entry of a table bucket is written.
    CatalogBucketEntryWritten = "catalog.bucket.entry_written",
    /// An index entry that nobody owns is gone.
    CatalogBackfillStaleRemoved = "catalog.backfill.stale_removed",
    /// An index entry that was missing is written.
    CatalogBackfillEntryWritten = "catalog.backfill.entry_written",
    /// The warehouse index is ready.
    CatalogBackfillStateWritten = "catalog.backfill.state_written",
    /// Recovery has rewritten a log record as committed.
    CatalogRecoveryLogRewritten = "catalog.recovery.log_rewritten",
    /// Recovery has rewritten an idempotency record as committed.
    CatalogRecoveryKeyRewritten = "catalog.recovery.key_rewritten",
    /// A copy of an abandoned commit is kept for reference.
    CatalogRecoveryAbandonedKept = "catalog.recovery.abandoned_kept",
    /// The idempotency record of an abandoned commit is gone.
    CatalogRecoveryAbandonedKeyRemoved = "catalog.recovery.abandoned_key_removed",
    /// The log record of an abandoned commit is gone.
    CatalogRecoveryAbandonedLogRemoved = "catalog.recovery.abandoned_log_removed",
    /// The registry fence of a migration is raised.
    CatalogMigrateRegistryFenced = "catalog.migrate.registry_fenced",
    /// The bucket fence of a migration is raised, preparing.
    CatalogMigrateBucketFenced = "catalog.migrate.bucket_fenced",
    /// The snapshot has the bucket that is migrated.
    CatalogMigrateSnapshotWritten = "catalog.migrate.snapshot_written",
    /// The bucket fence says materialized.
    CatalogMigrateMaterialized = "catalog.migrate.materialized",
    /// A cancellation has raised the registry fence again.
    CatalogCancelRegistryFenced = "catalog.cancel.registry_fenced",
    /// The snapshot no longer has the bucket whose migration is cancelled.
    CatalogCancelSnapshotWritten = "catalog.cancel.snapshot_written",
    /// The bucket fence is gone.
    CatalogCancelBucketReleased = "catalog.cancel.bucket_released",
    /// The cut-over record is gone.
    CatalogCancelCutOverRemoved = "catalog.cancel.cut_over_removed",
    /// It is recorded that the empty snapshot goes with the last migration.
    CatalogCancelMarked = "catalog.cancel.marked",
    /// The empty snapshot that the migrations had made is gone.
    CatalogCancelSnapshotRemoved = "catalog.cancel.snapshot_removed",
    /// The registry fence is gone.
    CatalogCancelRegistryReleased = "catalog.cancel.registry_released",
    /// A durable-strong process has recorded that it takes over.
    CatalogCutOverRecorded = "catalog.cut_over.recorded",
    /// The metadata file of a durable-strong commit is written.
    CatalogStrongMetadataWritten = "catalog.strong.metadata_written",
    /// A durable-strong change has replaced the snapshot.
    CatalogStrongSnapshotWritten = "catalog.strong.snapshot_written",
    replacement: [
        FolderMade,
        IntentPublished,
        IntentSealed,
        TargetsNoted,
        TargetFormatted,
        MarkerAcquired,
        RebuildingEntered,
        LedgerReset,
        OutcomesSaved,
        PositionSaved,
        CursorSaved,
        LedgerPruned,
        CountersSaved,
        BucketCompleted,
        BucketAdvanced,
        InternalsSaved,
        ProofWritten,
        VerifiedSaved,
        MarkerCleared,
        CleanupEntered,
        LedgerRemoved,
        NoteRemoved,
        IntentRemoved,
        SealRemoved,
        HandoffPrepared,
        SuccessorPublished,
        SuccessorSealed,
        MarkerMoved,
        MarkersOwned,
        HandoffCommitted,
        SourceArchived,
        ImportPublished,
        ImportSealed,
        SourceRetired,
        ReceiptWritten,
        ApprovalConsumed,
        PlanExtended,
        ImportRebound,
        FlatMoved,
        FlatRemoved,
        LegacyAbandoned,
        MarkerRolledBack,
        HandoffRebound,
        SuccessorRebound,
        RetryArmed,
        ReadinessDeferred,
        FailureRecorded,
        LedgerFlagged,
    ]
}

impl fmt::Display for CrashPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for CrashPoint {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|point| point.name() == name);
        found.copied().ok_or_else(|| format!("there is no crash point `{name}`"))
    }
}

impl TryFrom<String> for CrashPoint {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        name.parse()
    }
}

impl From<CrashPoint> for String {
    fn from(point: CrashPoint) -> Self {
        point.name().to_owned()
    }
}

/// Where a point is passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The drive, by its name in the node's configuration; `None` for the coordinator of a request.
    pub drive: Option<String>,
    /// The bucket.
    pub bucket: String,
    /// The key.
    pub key: String,
}

/// What a node calls whenever it passes a point; holding means that the call does not return.
pub trait Passing: Send + Sync {
    /// Called on the thread that performs the step, right after it.
    fn pass(&self, point: CrashPoint, place: &Place);

    /// Whether passing may do anything at all now. Whoever would have to go out of its way for it need not when not.
    fn may_act(&self) -> bool {
        true
    }
}

/// Arms nothing: what every production start uses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unarmed;

impl Passing for Unarmed {
    fn pass(&self, _point: CrashPoint, _place: &Place) {}

    fn may_act(&self) -> bool {
        false
    }
}
