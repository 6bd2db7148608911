//! The steps of every rehearsal, in their order, and what each is for.

use std::str::FromStr;

use serde::Deserialize;
use serde::Serialize;

use super::orders::Orders;
use super::orders::Rehearsal;

/// A step. Its name is what `--hook`, `--done` and `--stop-before` take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "each is described by `Step::purpose`")]
pub enum Step {
    Identify,
    Inventory,
    TakeBackup,
    Preflight,
    Repair,
    Backfill,
    PreflightClean,
    PlantProbe,
    Drain,
    Quiesce,
    Materialize,
    VerifyReady,
    Restart,
    VerifyConfig,
    VerifyLoads,
    VerifyIdempotency,
    VerifyPolicy,
    Admit,
    VerifyWrites,
    RemoveProbe,
    RestoreCheck,
    PreserveBackup,
    ConfirmReaders,
    RestartV2,
    ControlledWrite,
    VerifyV2,
    ExportCatalogState,
    LoadTableBeforeRecovery,
    StaleTokenCommitConflict,
    MissingMetadataObjectRejected,
    InjectGap,
    ReadRecoveryDiagnostics,
    SafeRecoveryRepair,
    DiagnosticsAfterRepair,
    RollbackToKnownMetadata,
    ImportKnownMetadata,
    MigrationDryRun,
    MaterializeAndRelease,
    LoadTableAfterRecovery,
    PolicyProbe,
    DiagnosticsAfterRecovery,
    SpawnConcurrentWriters,
    LoadTableAfterWriterCohort,
    DiagnosticsAfterWriterCohort,
    QueueMaintenanceJob,
    ClaimWorkerJob,
    RecoverExpiredLease,
    StaleMaintenancePlan,
    RecoveryUnderLoad,
    RollbackUnderLoad,
    ImportUnderLoad,
    MigrationDryRunUnderLoad,
    MaterializeUnderLoad,
    CaptureRunArtifacts,
}

use Step::*;

const CUTOVER: [Step; 22] = [
    Identify,
    Inventory,
    TakeBackup,
    Preflight,
    Repair,
    Backfill,
    PreflightClean,
    PlantProbe,
    Drain,
    Quiesce,
    Materialize,
    VerifyReady,
    Restart,
    VerifyConfig,
    VerifyLoads,
    VerifyIdempotency,
    VerifyPolicy,
    Admit,
    VerifyWrites,
    RemoveProbe,
    RestoreCheck,
    PreserveBackup,
];

const SNAPSHOT_V2: [Step; 12] = [
    Identify,
    Inventory,
    TakeBackup,
    ConfirmReaders,
    RestartV2,
    VerifyConfig,
    VerifyLoads,
    Admit,
    ControlledWrite,
    VerifyV2,
    RestoreCheck,
    PreserveBackup,
];

const DISASTER_RECOVERY: [Step; 23] = [
    Identify,
    Inventory,
    TakeBackup,
    Preflight,
    Backfill,
    PlantProbe,
    ExportCatalogState,
    LoadTableBeforeRecovery,
    StaleTokenCommitConflict,
    MissingMetadataObjectRejected,
    InjectGap,
    ReadRecoveryDiagnostics,
    SafeRecoveryRepair,
    DiagnosticsAfterRepair,
    RollbackToKnownMetadata,
    ImportKnownMetadata,
    MigrationDryRun,
    MaterializeAndRelease,
    LoadTableAfterRecovery,
    PolicyProbe,
    DiagnosticsAfterRecovery,
    RemoveProbe,
    RestoreCheck,
];

const SCALE_FAULT: [Step; 23] = [
    Identify,
    Inventory,
    TakeBackup,
    Preflight,
    Backfill,
    PlantProbe,
    SpawnConcurrentWriters,
    LoadTableAfterWriterCohort,
    DiagnosticsAfterWriterCohort,
    QueueMaintenanceJob,
    ClaimWorkerJob,
    RecoverExpiredLease,
    StaleMaintenancePlan,
    RecoveryUnderLoad,
    RollbackUnderLoad,
    ImportUnderLoad,
    MigrationDryRunUnderLoad,
    MaterializeUnderLoad,
    LoadTableAfterRecovery,
    PolicyProbe,
    CaptureRunArtifacts,
    RemoveProbe,
    RestoreCheck,
];

/// What a dry run does: it reads, and nothing else.
const DRY: [Step; 3] = [Identify, Inventory, Preflight];

impl Rehearsal {
    /// Its steps, in order.
    pub fn steps(self) -> &'static [Step] {
        match self {
            Self::Cutover => &CUTOVER,
            Self::SnapshotV2 => &SNAPSHOT_V2,
            Self::DisasterRecovery => &DISASTER_RECOVERY,
            Self::ScaleFault => &SCALE_FAULT,
        }
    }
}

impl Orders {
    /// The steps that are gone through.
    pub fn steps(&self) -> &'static [Step] {
        match (self.execute, self.rehearsal) {
            (true, rehearsal) => rehearsal.steps(),
            (false, Rehearsal::SnapshotV2) => &DRY[..2],
            (false, _) => &DRY,
        }
    }
}

impl Step {
    /// Its name.
    pub fn name(self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        value.as_str().unwrap_or_default().to_owned()
    }

    /// Where the runbook or the specification's rehearsals have it, and what it is for.
    pub fn purpose(self) -> (&'static str, &'static str) {
        match self {
            Identify => (
                "preconditions",
                "every node answers, with one backing; the warehouses are table buckets, and no other is",
            ),
            Inventory => (
                "preconditions, step 1",
                "every pointer, token and generation is recorded; object-only operations are listed",
            ),
            TakeBackup => ("step 1", "there is a verified backup of every warehouse"),
            Preflight => {
                ("step 2", "every blocker is known; only those that can be repaired remain")
            }
            Repair => ("step 2", "unfinished commits are finished without moving a pointer"),
            Backfill => ("step 2", "the warehouse prefix index is whole"),
            PreflightClean => ("step 2", "no blocker is left"),
            PlantProbe => (
                "before the fence",
                "a table of the rehearsal's own stands, with a commit that can be sent again",
            ),
            Drain => ("step 3", "every writer knows the migration fence"),
            Quiesce => ("step 4", "nothing that only object-backed catalogs do is still at work"),
            Materialize => {
                ("steps 5 and 6", "every warehouse is fenced and copied into the strong snapshot")
            }
            VerifyReady => {
                ("step 6", "every warehouse is materialised, without blockers, and ready")
            }
            Restart => ("step 7", "every node runs with the durable strong backing"),
            VerifyConfig => (
                "step 7, verification 1",
                "every node says so in its config, and offers what only it can do",
            ),
            VerifyLoads => ("step 7, verification 2", "every table and view is where it was"),
            VerifyIdempotency => (
                "step 7, verification 3",
                "a commit of before the cutover is answered as before, and writes nothing",
            ),
            VerifyPolicy => (
                "step 7, verification 4",
                "objects of tables are reached through the tables' policy only",
            ),
            Admit => ("step 7, verification 5", "writers are admitted"),
            VerifyWrites => ("step 7", "a commit lands, and every node shows it"),
            RemoveProbe => ("afterwards", "what the rehearsal made is gone"),
            RestoreCheck => {
                ("afterwards", "the backup, restored into a fresh cluster, holds what it kept")
            }
            PreserveBackup => ("step 8", "the backup is still whole, and is kept"),
            ConfirmReaders => ("version 2, step 1", "every catalog writer reads version 2"),
            RestartV2 => ("version 2, step 2", "every writer runs with both gates"),
            ControlledWrite => {
                ("version 2, step 3", "one write that needs no object makes the snapshot version 2")
            }
            VerifyV2 => {
                ("version 2, step 3", "the data plane serves, which it does from version 2 only")
            }
            ExportCatalogState => {
                ("capture-baseline", "pointer, token, generation and identity are recorded")
            }
            LoadTableBeforeRecovery => ("capture-baseline", "what is loaded is what is exported"),
            StaleTokenCommitConflict => {
                ("failure probes", "a commit with a stale token is refused, and moves nothing")
            }
            MissingMetadataObjectRejected => (
                "failure probes",
                "a commit of metadata that is not there is refused, and moves nothing",
            ),
            InjectGap => (
                "diagnose-and-repair",
                "a commit is interrupted between its pointer and its records",
            ),
            ReadRecoveryDiagnostics => {
                ("diagnose-and-repair", "the diagnosis counts what is unfinished")
            }
            SafeRecoveryRepair => (
                "diagnose-and-repair",
                "the repair finishes it and moves no pointer; a second one finds nothing",
            ),
            DiagnosticsAfterRepair => ("diagnose-and-repair", "the table is healthy"),
            RollbackToKnownMetadata => {
                ("rollback-or-import", "a forward-safe rollback lands; a stale one moves nothing")
            }
            ImportKnownMetadata => (
                "rollback-or-import",
                "an import of the current metadata changes nothing; of another it is refused",
            ),
            MigrationDryRun => ("migration-preflight", "no blocker"),
            MaterializeAndRelease => (
                "migration-preflight",
                "the warehouse is fenced and copied, writes are refused, reads are not; then it is released",
            ),
            LoadTableAfterRecovery => {
                ("post-recovery-validation", "the pointer is where it was meant to be")
            }
            PolicyProbe => (
                "post-recovery-validation",
                "objects of the table are reached through the table's policy only",
            ),
            DiagnosticsAfterRecovery => ("post-recovery-validation", "the table is healthy"),
            SpawnConcurrentWriters => {
                ("concurrent-commit-stress", "of the commits from one base exactly one lands")
            }
            LoadTableAfterWriterCohort => {
                ("concurrent-commit-stress", "the pointer is the last winner's")
            }
            DiagnosticsAfterWriterCohort => ("concurrent-commit-stress", "the table is healthy"),
            QueueMaintenanceJob => {
                ("maintenance-scheduler-failover", "one job is queued, and only one")
            }
            ClaimWorkerJob => ("maintenance-scheduler-failover", "of two workers one has the job"),
            RecoverExpiredLease => {
                ("maintenance-scheduler-failover", "a lease that ran out is taken over")
            }
            StaleMaintenancePlan => {
                ("maintenance-scheduler-failover", "a plan of before a commit does nothing")
            }
            RecoveryUnderLoad => (
                "recovery-rollback-import-under-load",
                "a repair under load moves no pointer of its own",
            ),
            RollbackUnderLoad => {
                ("recovery-rollback-import-under-load", "a stale rollback is refused")
            }
            ImportUnderLoad => {
                ("recovery-rollback-import-under-load", "an import of another pointer is refused")
            }
            MigrationDryRunUnderLoad => {
                ("durable-backing-cutover-under-load", "a preflight under load is answered")
            }
            MaterializeUnderLoad => (
                "durable-backing-cutover-under-load",
                "every commit was acknowledged and is there, or was refused and is not; then it is released",
            ),
            CaptureRunArtifacts => (
                "post-run-evidence",
                "the build, the mode, the counts and the final pointer are recorded",
            ),
        }
    }

    /// Whether only the operator can do it.
    pub fn is_the_operators(self) -> bool {
        matches!(self, Drain | Quiesce | Restart | ConfirmReaders | RestartV2 | InjectGap)
    }

    /// Whether the operator may say that it was done, or verified, by other means.
    pub fn may_be_asserted(self) -> bool {
        let verified_elsewhere =
            matches!(self, VerifyIdempotency | VerifyPolicy | Admit | RestoreCheck | VerifyV2);
        (self.is_the_operators() && self != InjectGap) || verified_elsewhere
    }

    /// Whether a command can do it.
    pub fn takes_a_hook(self) -> bool {
        self.is_the_operators() || matches!(self, TakeBackup | Admit | RestoreCheck)
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = Rehearsal::ALL.into_iter().flat_map(Rehearsal::steps);
        let found = all.copied().find(|step| step.name() == text);
        found.ok_or_else(|| format!("there is no step {text:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_its_name_and_place() {
        for rehearsal in Rehearsal::ALL {
            let steps = rehearsal.steps();
            for (index, step) in steps.iter().enumerate() {
                assert_eq!(step.name().parse::<Step>().unwrap(), *step);
                assert!(!steps[..index].contains(step), "{step:?} stands twice");
                assert!(!step.purpose().0.is_empty() && !step.purpose().1.is_empty());
            }
            assert!(steps.starts_with(&[Identify, Inventory]), "reading comes first");
        }
        assert!("nonsense".parse::<Step>().is_err());
    }

    #[test]
    fn nothing_of_a_cutover_comes_before_what_it_needs() {
        let place = |step| CUTOVER.iter().position(|it| *it == step).unwrap();
        for pair in [
            (TakeBackup, PlantProbe),
            (PreflightClean, Materialize),
            (PlantProbe, Materialize),
            (Drain, Materialize),
            (Quiesce, Materialize),
            (Materialize, VerifyReady),
            (VerifyReady, Restart),
            (VerifyConfig, Admit),
            (VerifyLoads, Admit),
            (VerifyIdempotency, Admit),
            (VerifyPolicy, Admit),
            (Admit, VerifyWrites),
        ] {
            assert!(place(pair.0) < place(pair.1), "{pair:?}");
        }
    }
}
