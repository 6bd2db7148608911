//! The steps of the rehearsals, each a function from the facts and the latest news to the next move. Pure.

use super::step::Step;
use super::turn::Move;
use super::turn::News;
use super::turn::Stop;
use super::turn::Turn;

mod admit;
mod backup;
mod fence;
mod load;
mod maintenance;
mod policy;
pub use policy::CHECKS as POLICY_CHECKS;
mod probe;
pub use probe::first_commit;
pub use probe::replayable;
mod ready;
mod recovery;
pub use recovery::STALE_TOKEN;
pub use recovery::absent_metadata;
pub use recovery::pointer_commit;
mod release;
mod survey;
mod verify;
mod walk;

/// One turn of `step`.
///
/// # Errors
///
/// Why the rehearsal ends here.
pub fn dispatch(step: Step, turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    match step {
        Step::Identify => survey::identify(turn, news),
        Step::Inventory => survey::inventory(turn, news),
        Step::TakeBackup => backup::take(turn, news),
        Step::RestoreCheck => backup::restore_check(turn, news),
        Step::PreserveBackup => backup::preserve(turn, news),
        Step::Preflight => ready::preflight(turn, news),
        Step::Repair => ready::repair(turn, news),
        Step::Backfill => ready::backfill(turn, news),
        Step::PreflightClean => ready::preflight_clean(turn, news),
        Step::PlantProbe => probe::plant(turn, news),
        Step::RemoveProbe => probe::remove(turn, news),
        Step::Drain | Step::Quiesce | Step::Restart | Step::ConfirmReaders | Step::RestartV2 => {
            fence::by_hand(step, turn, news)
        }
        Step::Materialize => fence::materialize(turn, news),
        Step::VerifyReady => fence::verify_ready(turn, news),
        Step::VerifyConfig => verify::config(turn, news),
        Step::VerifyLoads => verify::loads(turn, news),
        Step::VerifyIdempotency => verify::idempotency(turn, news),
        Step::VerifyPolicy => policy::verify(turn, news),
        Step::PolicyProbe => policy::probe(turn, news),
        Step::Admit => admit::admit(turn, news),
        Step::VerifyWrites => admit::verify_writes(turn, news),
        Step::ControlledWrite => admit::controlled_write(turn, news),
        Step::VerifyV2 => admit::verify_v2(turn, news),
        Step::ExportCatalogState => recovery::export(turn, news),
        Step::LoadTableBeforeRecovery
        | Step::LoadTableAfterRecovery
        | Step::LoadTableAfterWriterCohort => recovery::load_is_as_recorded(turn, news),
        Step::StaleTokenCommitConflict => recovery::stale_token(turn, news),
        Step::MissingMetadataObjectRejected => recovery::missing_metadata(turn, news),
        Step::InjectGap => recovery::inject_gap(turn, news),
        Step::ReadRecoveryDiagnostics => recovery::diagnose(turn, news),
        Step::SafeRecoveryRepair => recovery::repair(turn, news),
        Step::DiagnosticsAfterRepair
        | Step::DiagnosticsAfterRecovery
        | Step::DiagnosticsAfterWriterCohort => recovery::is_healthy(turn, news),
        Step::RollbackToKnownMetadata => recovery::rollback(turn, news),
        Step::ImportKnownMetadata => recovery::import(turn, news),
        Step::MigrationDryRun => release::dry_run(turn, news),
        Step::MaterializeAndRelease => release::materialize(turn, news),
        Step::SpawnConcurrentWriters => load::cohorts(turn, news),
        Step::QueueMaintenanceJob => maintenance::queue(turn, news),
        Step::ClaimWorkerJob => maintenance::claim(turn, news),
        Step::RecoverExpiredLease => maintenance::take_over(turn, news),
        Step::StaleMaintenancePlan => maintenance::stale_plan(turn, news),
        Step::RecoveryUnderLoad => load::recovery(turn, news),
        Step::RollbackUnderLoad => load::rollback(turn, news),
        Step::ImportUnderLoad => load::import(turn, news),
        Step::MigrationDryRunUnderLoad => load::dry_run(turn, news),
        Step::MaterializeUnderLoad => load::materialize(turn, news),
        Step::CaptureRunArtifacts => load::artifacts(turn, news),
    }
}
