//! What an operator is told of one table: export, diagnostics, backing manifest.
//!
//! # Sources
//!
//! Specification of the catalog §2.5 (shapes, vocabularies, precedence); M3, M23.

use serde::Deserialize;
use serde::Serialize;

use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::migration::preflight::SOURCE_KIND;
use crate::protocol::catalog::migration::preflight::TARGET_KIND;
use crate::protocol::catalog::record::Record as _;
use crate::protocol::catalog::recovery::Report;
use crate::protocol::catalog::settings::Backing;

/// What a migration has to do, in order.
pub const REQUIRED_STEPS: [&str; 5] = [
    "SNAPSHOT_CATALOG_EXPORT",
    "REPLAY_COMMIT_LOG",
    "VERIFY_CURRENT_POINTER",
    "ENABLE_SINGLE_WRITER_FENCING",
    "CUT_OVER_LINEARIZABLE_READS",
];
/// What a validation at scale has to show.
pub const REQUIRED_SCENARIOS: [&str; 5] = [
    "CONCURRENT_COMMIT_CAS",
    "COMMIT_LOG_RECOVERY_REPLAY",
    "MIGRATION_SNAPSHOT_REPLAY",
    "READ_REPLICA_STALE_READ_GUARD",
    "CLIENT_CONFORMANCE_MATRIX",
];
/// The route of an export, as manifests name it.
pub const EXPORT_API: &str =
    "GET /iceberg/v1/{warehouse}/namespaces/{namespace}/tables/{table}/catalog/export";

/// How a table's state is kept, and what is left to be done before it is kept otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// 1.
    pub version: u32,
    /// How it is kept.
    pub current: Current,
    /// How it would move.
    pub migration: Migration,
    /// What is promised of high availability.
    pub ha: HighAvailability,
    /// What is promised of scale.
    pub scale_validation: ScaleValidation,
}

/// How a table's state is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Current {
    /// `OBJECT_BACKED`, or `DURABLE_STRONG` (ours, M23).
    pub kind: String,
    /// `RUSTFS_SYS_OBJECT`.
    pub authority: String,
    /// How a write is guarded.
    pub consistency: String,
    /// What is durable before the pointer moves.
    pub durability: String,
    /// The key that holds the pointer.
    pub current_pointer_path: String,
    /// The commit log.
    pub wal: Wal,
    /// What an export has.
    pub snapshot: ExportParts,
}

/// The commit log of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wal {
    /// Whether anything is left to be done.
    pub status: WalStatus,
    /// Where the log records are.
    pub commit_log_prefix: String,
    /// Where the idempotency records are.
    pub idempotency_index_prefix: String,
    /// The pointer's generation.
    pub committed_generation: u64,
    /// As in the recovery report.
    pub staged_before_table_update_count: usize,
    /// As in the recovery report.
    pub finalization_required_count: usize,
    /// As in the recovery report.
    pub idempotency_repair_required_count: usize,
    /// As in the recovery report.
    pub manual_review_count: usize,
}

/// Whether a commit log has something left to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum WalStatus {
    /// Nothing.
    Recoverable,
    /// Recovery or a client's retry.
    RecoveryRequired,
    /// An operator.
    ManualReviewRequired,
}

/// What an export has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportParts {
    /// [`EXPORT_API`].
    pub export_api: String,
    /// True.
    pub includes_table_bucket: bool,
    /// True.
    pub includes_namespace: bool,
    /// True.
    pub includes_table_pointer: bool,
    /// True.
    pub includes_backing_manifest: bool,
}

/// How a table's state would move into the strong snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Migration {
    /// `OBJECT_BACKED`.
    pub source_kind: String,
    /// `STRONG_KV_WAL`.
    pub target_kind: String,
    /// `READY_TO_SNAPSHOT`, `RECOVERY_REQUIRED`, `MANUAL_REVIEW_REQUIRED`; in durable-strong mode
    /// `SNAPSHOT_MATERIALIZED`.
    pub status: String,
    /// [`REQUIRED_STEPS`].
    pub required_steps: Vec<String>,
    /// The commits' blockers.
    pub blockers: Vec<String>,
}

/// What is promised of high availability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HighAvailability {
    /// One region writes.
    pub writer_region_model: String,
    /// Others list and load.
    pub read_replica_strategy: String,
    /// What a commit reads.
    pub commit_read_requirement: String,
    /// False.
    pub active_active_supported: bool,
    /// True.
    pub failover_requires_operator_promotion: bool,
}

/// What is promised of scale.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScaleValidation {
    /// `MATRIX_PUBLISHED`.
    pub status: String,
    /// True.
    pub benchmark_required: bool,
    /// [`REQUIRED_SCENARIOS`].
    pub required_scenarios: Vec<String>,
}

impl Manifest {
    /// The manifest of a table in this backing, given its recovery report.
    pub fn of(table: &TableEntry, report: &Report, backing: Backing) -> Self {
        let (recovery, manual) = (
            report.repairable() + report.staged_before_table_update_count > 0,
            report.manual_review_count > 0,
        );
        let (wal, status) = match (recovery, manual) {
            (_, true) => (WalStatus::ManualReviewRequired, "MANUAL_REVIEW_REQUIRED"),
            (true, false) => (WalStatus::RecoveryRequired, "RECOVERY_REQUIRED"),
            (false, false) if backing == Backing::DurableStrong => {
                (WalStatus::Recoverable, "SNAPSHOT_MATERIALIZED")
            }
            (false, false) => (WalStatus::Recoverable, "READY_TO_SNAPSHOT"),
        };
        let blockers =
            [(recovery, "COMMIT_RECOVERY_REQUIRED"), (manual, "COMMIT_MANUAL_REVIEW_REQUIRED")];
        let blockers = blockers.into_iter().filter(|(is_there, _)| *is_there);
        Self {
            version: 1,
            current: Current::of(table, report, backing, wal),
            migration: Migration {
                source_kind: SOURCE_KIND.to_owned(),
                target_kind: TARGET_KIND.to_owned(),
                status: status.to_owned(),
                required_steps: REQUIRED_STEPS.map(str::to_owned).to_vec(),
                blockers: blockers.map(|(_, name)| name.to_owned()).collect(),
            },
            ha: HighAvailability {
                writer_region_model: "SINGLE_ACTIVE_WRITER_REGION".to_owned(),
                read_replica_strategy: "READ_ONLY_REPLICAS_FOR_LIST_AND_LOAD".to_owned(),
                commit_read_requirement: "LINEARIZABLE_LEADER_READ".to_owned(),
                active_active_supported: false,
                failover_requires_operator_promotion: true,
            },
            scale_validation: ScaleValidation {
                status: "MATRIX_PUBLISHED".to_owned(),
                benchmark_required: true,
                required_scenarios: REQUIRED_SCENARIOS.map(str::to_owned).to_vec(),
            },
        }
    }
}

impl Current {
    fn of(table: &TableEntry, report: &Report, backing: Backing, status: WalStatus) -> Self {
        let (bucket, id) = (&table.table_bucket, &table.table_id);
        let (kind, consistency, durability, path) = match backing {
            Backing::Object => (
                SOURCE_KIND,
                "CONDITIONAL_OBJECT_CAS",
                "STAGED_COMMIT_LOG_BEFORE_POINTER_UPDATE",
                table.key(bucket).unwrap_or_default(),
            ),
            Backing::DurableStrong => (
                "DURABLE_STRONG",
                "CONDITIONAL_SNAPSHOT_CAS",
                "POINTER_AND_COMMIT_LOG_IN_ONE_SNAPSHOT",
                keys::SNAPSHOT.to_owned(),
            ),
        };
        let prefix = |of: String| match backing {
            Backing::Object => of,
            Backing::DurableStrong => keys::SNAPSHOT.to_owned(),
        };
        Self {
            kind: kind.to_owned(),
            authority: "RUSTFS_SYS_OBJECT".to_owned(),
            consistency: consistency.to_owned(),
            durability: durability.to_owned(),
            current_pointer_path: path,
            wal: Wal {
                status,
                commit_log_prefix: prefix(keys::commits(bucket, id)),
                idempotency_index_prefix: prefix(keys::idempotency(bucket, id)),
                committed_generation: table.generation,
                staged_before_table_update_count: report.staged_before_table_update_count,
                finalization_required_count: report.finalization_required_count,
                idempotency_repair_required_count: report.idempotency_repair_required_count,
                manual_review_count: report.manual_review_count,
            },
            snapshot: ExportParts {
                export_api: EXPORT_API.to_owned(),
                includes_table_bucket: true,
                includes_namespace: true,
                includes_table_pointer: true,
                includes_backing_manifest: true,
            },
        }
    }
}

/// All that the catalog has of one table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    /// The bucket's entry.
    pub table_bucket: BucketEntry,
    /// The explicit namespace's entry.
    pub namespace: NamespaceEntry,
    /// The table's entry.
    pub table: TableEntry,
    /// How it is kept.
    pub backing_manifest: Manifest,
}

/// What was found of the current metadata file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum MetadataStatus {
    /// It is there and is the table's.
    Valid,
    /// It is not there.
    MissingObject,
    /// The pointer names no metadata file of a table.
    InvalidLocation,
    /// It does not parse, or is another table's.
    InvalidJson,
}

/// How a table is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum RecoveryStatus {
    /// Nothing is to be done.
    Healthy,
    /// Recovery or a client's retry sets it right.
    Recoverable,
    /// An operator has to look at its commits.
    ManualReviewRequired,
    /// An operator has to look at its metadata.
    ReadOnlyRecommended,
}

/// What an operator may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Advice {
    /// POST its recovery.
    RunCommitRecovery,
    /// Let the client send its commit again.
    RetryCommit,
    /// Restore the metadata file.
    RestoreCurrentMetadataObject,
    /// Set the metadata file right.
    FixCurrentMetadataJson,
    /// Bring the metadata file to where it belongs.
    MoveCurrentMetadataInsideTable,
    /// Look at the commit log.
    ReviewCommitLog,
}

/// How a table is, in full.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostics {
    /// All that the catalog has of it.
    pub catalog: Export,
    /// What was found of its current metadata file.
    pub current_metadata_status: MetadataStatus,
    /// How it is.
    pub recovery_status: RecoveryStatus,
    /// What an operator may do.
    pub recommended_actions: Vec<Advice>,
    /// Its commits.
    pub commit_recovery: Report,
    /// How it is kept.
    pub backing_manifest: Manifest,
    /// The metadata files in its folder that nothing leads to.
    pub orphan_metadata_candidate_locations: Vec<String>,
}

impl Diagnostics {
    /// The diagnostics of a table. `abandonable` says how many of its commits recovery can put aside, 0 to speak as
    /// the reference does.
    pub fn new(
        catalog: Export,
        metadata: MetadataStatus,
        report: Report,
        abandonable: usize,
        orphans: Vec<String>,
    ) -> Self {
        let (recovery_status, recommended_actions) = judge(metadata, &report, abandonable);
        Self {
            backing_manifest: catalog.backing_manifest.clone(),
            catalog,
            current_metadata_status: metadata,
            recovery_status,
            recommended_actions,
            commit_recovery: report,
            orphan_metadata_candidate_locations: orphans,
        }
    }
}

/// How a table is, and what to do: of the three about commits, the first that applies.
fn judge(
    metadata: MetadataStatus,
    report: &Report,
    abandonable: usize,
) -> (RecoveryStatus, Vec<Advice>) {
    let mut advice = Vec::new();
    match metadata {
        MetadataStatus::Valid => {}
        MetadataStatus::MissingObject => advice.push(Advice::RestoreCurrentMetadataObject),
        MetadataStatus::InvalidLocation => advice.push(Advice::MoveCurrentMetadataInsideTable),
        MetadataStatus::InvalidJson => advice.push(Advice::FixCurrentMetadataJson),
    }
    let staged = report.staged_before_table_update_count;
    let manual = report.manual_review_count.saturating_sub(abandonable.saturating_sub(staged));
    let status = if manual > 0 {
        advice.push(Advice::ReviewCommitLog);
        RecoveryStatus::ManualReviewRequired
    } else if report.repairable() > 0 || manual < report.manual_review_count {
        advice.push(Advice::RunCommitRecovery);
        RecoveryStatus::Recoverable
    } else if staged > 0 {
        advice.push(Advice::RetryCommit);
        RecoveryStatus::Recoverable
    } else {
        RecoveryStatus::Healthy
    };
    if metadata == MetadataStatus::Valid {
        (status, advice)
    } else {
        (RecoveryStatus::ReadOnlyRecommended, advice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::catalog::commit_record::CommitRecord;
    use crate::protocol::catalog::commit_record::Status;
    use crate::protocol::catalog::fixture;
    use crate::protocol::catalog::recovery::Records;

    fn report(commits: &[CommitRecord]) -> Report {
        Records::new(&fixture::table_at(2), commits, &[]).report(0)
    }

    fn told(commits: &[CommitRecord], abandonable: usize) -> (RecoveryStatus, Vec<Advice>) {
        judge(MetadataStatus::Valid, &report(commits), abandonable)
    }

    #[test]
    fn advice_goes_by_what_is_worst() {
        let done = fixture::commit(1, Status::Committed);
        let clean = [done.clone(), fixture::commit(2, Status::Committed)];
        assert_eq!(told(&clean, 0), (RecoveryStatus::Healthy, vec![]));
        let gap = [done.clone(), fixture::commit(2, Status::Staged)];
        let recover = (RecoveryStatus::Recoverable, vec![Advice::RunCommitRecovery]);
        assert_eq!(told(&gap, 0), recover);
        let staged = [&clean[..], &[fixture::commit(3, Status::Staged)]].concat();
        assert_eq!(told(&staged, 1), (RecoveryStatus::Recoverable, vec![Advice::RetryCommit]));
        let lost = CommitRecord {
            commit_id: "lost".to_owned(),
            new_version_token: "lost".to_owned(),
            ..fixture::commit(2, Status::Staged)
        };
        let overtaken = [&clean[..], &[lost]].concat();
        let review = (RecoveryStatus::ManualReviewRequired, vec![Advice::ReviewCommitLog]);
        assert_eq!(told(&overtaken, 0), review);
        assert_eq!(told(&overtaken, 1), recover, "recovery puts it aside");
    }

    #[test]
    fn f18_a_table_with_broken_metadata_is_for_reading_only() {
        for (status, advice) in [
            (MetadataStatus::MissingObject, Advice::RestoreCurrentMetadataObject),
            (MetadataStatus::InvalidLocation, Advice::MoveCurrentMetadataInsideTable),
            (MetadataStatus::InvalidJson, Advice::FixCurrentMetadataJson),
        ] {
            let told = judge(status, &report(&[]), 0);
            assert_eq!(told, (RecoveryStatus::ReadOnlyRecommended, vec![advice]));
        }
    }

    #[test]
    fn a_manifest_says_how_a_table_is_kept() {
        let (table, report) = (fixture::table_at(2), report(&[]));
        let object = Manifest::of(&table, &report, Backing::Object);
        assert_eq!(object.migration.status, "READY_TO_SNAPSHOT");
        assert!(object.current.current_pointer_path.ends_with("/tables/orders/table-entry.json"));
        let strong = Manifest::of(&table, &report, Backing::DurableStrong);
        assert_eq!(strong.current.current_pointer_path, keys::SNAPSHOT);
        assert_eq!(strong.migration.status, "SNAPSHOT_MATERIALIZED");
    }
}
