//! The preflight report: everything that a POST would reject, before anything is written.
//!
//! # Sources
//!
//! Specification of the catalog §5.1; M3, M8, M11 to M15.

use serde::Deserialize;
use serde::Serialize;

use crate::protocol::catalog::migration::facts::Facts;
use crate::protocol::catalog::migration::source;
use crate::protocol::catalog::migration::source::CommitTotals;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::settings::BACKING;
use crate::protocol::catalog::strong::change::Change;
use crate::protocol::catalog::strong::plan;
use crate::protocol::catalog::strong::plan::Rules;

/// Where a migration stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    /// An operator has to look.
    ManualReviewRequired,
    /// Something can be repaired.
    RecoveryRequired,
    /// A POST may run.
    ReadyToSnapshot,
    /// A POST has begun and not ended (ours, M12).
    MigrationInProgress,
    /// A DELETE has begun and not ended (ours, M13).
    CancelInProgress,
    /// The snapshot has the bucket.
    SnapshotMaterialized,
}

/// What stops a POST.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Blocker {
    /// Commits that recovery or their client can finish.
    CommitRecoveryRequired,
    /// Commits that nobody can explain.
    CommitManualReviewRequired,
    /// The warehouse index is not ready.
    WarehouseIndexBackfillRequired,
    /// Two active tables have equal or nested prefixes.
    DuplicateWarehousePrefix,
    /// Two tables have one id.
    DuplicateTableIdentity,
    /// An active table and an active view have one name.
    TableViewIdentifierCollision,
    /// The snapshot has what was not copied from here.
    DurableStrongSnapshotChanged,
    /// What was copied has changed since (ours, M15).
    SourceChangedAfterMaterialization,
    /// A current metadata file is missing or does not parse (ours, M15).
    CurrentMetadataUnreadable,
    /// State that no snapshot may hold (ours).
    SourceStateInvalid,
    /// The snapshot would be too large (ours).
    SnapshotTooLarge,
}

impl Blocker {
    /// Whether the reference has it, too.
    fn is_of_the_reference(self) -> bool {
        self <= Self::DurableStrongSnapshotChanged
    }
}

/// What an operator may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Action {
    /// POST the recovery of each table.
    RunCatalogRecovery,
    /// Look at the commit log (ours, of the diagnostics' vocabulary).
    ReviewCommitLog,
    /// Fill the warehouse index.
    BackfillWarehouseIndex,
    /// Relocate or drop a table.
    ReviewDuplicateWarehousePrefixes,
    /// Look at the table entries.
    ReviewDuplicateTableIdentities,
    /// Drop the table or the view.
    ReviewTableViewIdentifierCollisions,
    /// POST the migration.
    SnapshotObjectBackedCatalog,
    /// Restart with the other backing.
    EnableDurableStrongBacking,
    /// Look whether the snapshot is whole.
    VerifyDurableStrongSnapshot,
    /// POST the migrations of the other buckets.
    SnapshotRemainingTableBuckets,
    /// Look at the snapshot.
    ReviewDurableStrongSnapshot,
    /// Restore the metadata file (ours).
    RestoreCurrentMetadataObject,
    /// Look at the bucket's entries (ours).
    ReviewSourceState,
    /// POST again, or DELETE (ours, M12 and M13).
    RetryMigrationOrCancel,
    /// Keep what a rollback needs.
    KeepObjectBackedRollbackConfig,
}

/// How to go back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollback {
    /// The switch.
    pub backing_config_key: String,
    /// Its value after the cut-over.
    pub current_backing_value: String,
    /// Its value to go back.
    pub rollback_backing_value: String,
    /// Whether object-backed state stays.
    pub preserves_object_backed_catalog: bool,
    /// Whether a restart is needed.
    pub requires_operator_restart: bool,
}

/// The report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The bucket.
    pub table_bucket: String,
    /// `OBJECT_BACKED`.
    pub source_kind: String,
    /// `STRONG_KV_WAL`, the legacy label of the strong snapshot.
    pub target_kind: String,
    /// Where it stands.
    pub status: Status,
    /// Explicit namespaces.
    pub namespace_count: usize,
    /// Tables of any state.
    pub table_count: usize,
    /// Views of any state.
    pub view_count: usize,
    /// Log records.
    pub commit_log_count: usize,
    /// Idempotency records.
    pub idempotency_index_count: usize,
    /// Different prefixes of active tables.
    pub warehouse_prefix_count: usize,
    /// Whether the index is ready.
    pub warehouse_index_ready: bool,
    /// Whether a bucket fence is there.
    pub object_backed_writes_fenced: bool,
    /// Whether a durable-strong process may open this state.
    pub ready_to_enable_durable_strong: bool,
    /// What stops a POST.
    pub blockers: Vec<Blocker>,
    /// What an operator may do.
    pub recommended_actions: Vec<Action>,
    /// How to go back.
    pub rollback: Rollback,
    /// Whether the registry fence is there (ours, M11); left out in the reference's words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub registry_fenced: Option<bool>,
    /// What was found, for a reader (ours); left out in the reference's words.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub details: Vec<String>,
}

/// `OBJECT_BACKED`, as reports spell it.
pub const SOURCE_KIND: &str = "OBJECT_BACKED";
/// The legacy label of the strong snapshot, as reports spell it.
pub const TARGET_KIND: &str = "STRONG_KV_WAL";

/// The report on the bucket of `facts`. `reference_wire` gives the words of the reference: its statuses, its
/// blockers and its members, and nothing more.
///
/// # Errors
///
/// [`Class::NotFound`] without a table-bucket entry.
pub fn report(facts: &Facts, rules: &Rules, reference_wire: bool) -> Result<Report, Refusal> {
    let source = &facts.source;
    let name = &source.name;
    if source.bucket.is_none() {
        return Err(Class::NotFound.because(format!("{name} has no table-bucket entry")));
    }
    let totals = source.totals();
    let (warehouse_prefix_count, _) = source.prefixes();
    let mut findings = find(facts, rules, totals);
    if reference_wire {
        findings.speak_as_the_reference(totals);
    }
    let status = status(facts, &findings, reference_wire);
    if status == Status::CancelInProgress {
        findings.blockers.clear();
    }
    let is_ready = status == Status::SnapshotMaterialized && facts.is_ready();
    let recommended_actions = actions(facts, &findings, status, is_ready, reference_wire);
    Ok(Report {
        table_bucket: name.clone(),
        source_kind: SOURCE_KIND.to_owned(),
        target_kind: TARGET_KIND.to_owned(),
        status,
        namespace_count: source.namespaces.len(),
        table_count: source.tables.len(),
        view_count: source.views.len(),
        commit_log_count: totals.records,
        idempotency_index_count: totals.keys,
        warehouse_prefix_count,
        warehouse_index_ready: source.is_index_ready(),
        object_backed_writes_fenced: facts.fence().is_some(),
        ready_to_enable_durable_strong: is_ready,
        blockers: findings.blockers,
        recommended_actions,
        rollback: Rollback {
            backing_config_key: BACKING.to_owned(),
            current_backing_value: "durable-strong".to_owned(),
            rollback_backing_value: "object".to_owned(),
            preserves_object_backed_catalog: true,
            requires_operator_restart: true,
        },
        registry_fenced: (!reference_wire).then_some(facts.registry.is_some()),
        details: if reference_wire { Vec::new() } else { findings.details },
    })
}

/// What was found.
struct Findings {
    blockers: Vec<Blocker>,
    details: Vec<String>,
}

impl Findings {
    fn add(&mut self, blocker: Blocker, detail: impl Into<String>) {
        if !self.blockers.contains(&blocker) {
            self.blockers.push(blocker);
        }
        self.details.push(detail.into());
    }

    /// The reference does not know that recovery can put a commit aside, nor our blockers.
    fn speak_as_the_reference(&mut self, totals: CommitTotals) {
        use Blocker as B;
        let is_commits =
            |it: &B| matches!(it, B::CommitRecoveryRequired | B::CommitManualReviewRequired);
        self.blockers.retain(|it| it.is_of_the_reference() && !is_commits(it));
        if totals.manual > 0 {
            self.blockers.insert(0, B::CommitManualReviewRequired);
        }
        if totals.staged + totals.repairable > 0 {
            self.blockers.insert(0, B::CommitRecoveryRequired);
        }
    }
}

fn find(facts: &Facts, rules: &Rules, totals: CommitTotals) -> Findings {
    use Blocker as B;
    let source = &facts.source;
    let mut found = Findings { blockers: Vec::new(), details: Vec::new() };
    let recoverable = totals.staged + totals.repairable + totals.manual_abandonable;
    if recoverable > 0 {
        found.add(B::CommitRecoveryRequired, format!("{recoverable} commits are not finished"));
    }
    let manual = totals.manual - totals.manual_abandonable.min(totals.manual);
    if manual > 0 {
        found.add(B::CommitManualReviewRequired, format!("{manual} commits cannot be explained"));
    }
    if !source.is_index_ready() {
        found.add(B::WarehouseIndexBackfillRequired, "the warehouse index is not ready");
    }
    if source.prefixes().1 {
        found.add(B::DuplicateWarehousePrefix, "two active tables have equal or nested prefixes");
    }
    if source.has_twins() {
        found.add(B::DuplicateTableIdentity, "two tables have one id");
    }
    if source.has_collision() {
        found.add(
            B::TableViewIdentifierCollision,
            "an active table and an active view have one name",
        );
    }
    for location in &source.unreadable {
        let detail = format!("the metadata file {location} is missing or does not parse");
        found.add(B::CurrentMetadataUnreadable, detail);
    }
    let collected = source::collect(source, rules.gates.write_version());
    let fingerprint = collected.as_ref().ok().map(|collected| &collected.fingerprint);
    compare(facts, fingerprint, &mut found);
    match &collected {
        Err(refusal) if found.blockers.is_empty() => {
            found.add(B::SourceStateInvalid, refusal.text.clone());
        }
        Ok(collected) if found.blockers.is_empty() => {
            let change =
                Change::AddBucket(source.name.clone(), Box::new(collected.contents.clone()));
            let target = facts.target.as_ref();
            if let Err(refusal) = plan::plan(target, &facts.memory, &change, &facts.rules(rules)) {
                found.add(B::SnapshotTooLarge, refusal.text);
            }
        }
        _ => {}
    }
    found
}

/// What the snapshot has, against what is here and what the fence recorded.
fn compare(facts: &Facts, source: Option<&String>, found: &mut Findings) {
    use Blocker as B;
    let name = &facts.source.name;
    let unknown: Vec<_> =
        facts.strong_buckets().difference(&facts.object_buckets).cloned().collect();
    if !unknown.is_empty() {
        let detail = format!("the strong snapshot has unknown buckets: {}", unknown.join(", "));
        found.add(B::DurableStrongSnapshotChanged, detail);
    }
    let target = facts.target_fingerprint(name);
    let recorded = facts.fence().and_then(|fence| fence.source_fingerprint.clone());
    match recorded {
        Some(recorded) => {
            if target.as_ref() != Some(&recorded) {
                let detail =
                    format!("the strong snapshot does not have bucket {name} as it was copied");
                found.add(B::DurableStrongSnapshotChanged, detail);
            }
            if source.is_some_and(|source| *source != recorded) {
                let detail = format!("bucket {name} has changed since it was copied");
                found.add(B::SourceChangedAfterMaterialization, detail);
            }
        }
        None => {
            if target.is_some() && source.is_some() && target.as_ref() != source {
                let detail = format!("the strong snapshot has bucket {name} with other contents");
                found.add(B::DurableStrongSnapshotChanged, detail);
            }
        }
    }
}

/// Whether a DELETE has taken the bucket out of the snapshot and not gone on.
fn is_cancelling(facts: &Facts) -> bool {
    facts.target.is_some()
        && facts.target_fingerprint(&facts.source.name).is_none()
        && facts.fence().is_some_and(|it| it.is_materialized() && !it.target_bucket_existed)
}

fn status(facts: &Facts, found: &Findings, reference_wire: bool) -> Status {
    use Blocker as B;
    let is_manual = |blocker: &B| {
        !matches!(blocker, B::CommitRecoveryRequired | B::WarehouseIndexBackfillRequired)
    };
    let is_cancelling = is_cancelling(facts) && !reference_wire;
    let only_the_snapshot = found.blockers.iter().all(|it| *it == B::DurableStrongSnapshotChanged);
    if is_cancelling && only_the_snapshot && facts.strong_buckets().is_subset(&facts.object_buckets)
    {
        return Status::CancelInProgress;
    }
    if found.blockers.iter().any(is_manual) {
        return Status::ManualReviewRequired;
    }
    if !found.blockers.is_empty() {
        return Status::RecoveryRequired;
    }
    match facts.fence() {
        Some(fence) if fence.is_materialized() => Status::SnapshotMaterialized,
        Some(_) if !reference_wire => Status::MigrationInProgress,
        _ => Status::ReadyToSnapshot,
    }
}

fn actions(
    facts: &Facts,
    found: &Findings,
    status: Status,
    is_ready: bool,
    reference_wire: bool,
) -> Vec<Action> {
    use Action as A;
    use Blocker as B;
    match status {
        Status::MigrationInProgress | Status::CancelInProgress => {
            return vec![A::RetryMigrationOrCancel, A::KeepObjectBackedRollbackConfig];
        }
        Status::ReadyToSnapshot
            if facts.registry.is_some() && facts.fences.is_empty() && !reference_wire =>
        {
            return vec![
                A::SnapshotObjectBackedCatalog,
                A::RetryMigrationOrCancel,
                A::KeepObjectBackedRollbackConfig,
            ];
        }
        Status::ReadyToSnapshot => {
            return vec![A::SnapshotObjectBackedCatalog, A::KeepObjectBackedRollbackConfig];
        }
        Status::SnapshotMaterialized => {
            let next = if is_ready {
                A::EnableDurableStrongBacking
            } else {
                A::SnapshotRemainingTableBuckets
            };
            return vec![A::VerifyDurableStrongSnapshot, next, A::KeepObjectBackedRollbackConfig];
        }
        Status::ManualReviewRequired | Status::RecoveryRequired => {}
    }
    let mut actions = Vec::new();
    let mut add = |action| {
        if !actions.contains(&action) {
            actions.push(action);
        }
    };
    for blocker in &found.blockers {
        match blocker {
            B::CommitRecoveryRequired => add(A::RunCatalogRecovery),
            B::CommitManualReviewRequired if reference_wire => add(A::RunCatalogRecovery),
            B::CommitManualReviewRequired => add(A::ReviewCommitLog),
            B::WarehouseIndexBackfillRequired => add(A::BackfillWarehouseIndex),
            B::DuplicateWarehousePrefix => add(A::ReviewDuplicateWarehousePrefixes),
            B::DuplicateTableIdentity => add(A::ReviewDuplicateTableIdentities),
            B::TableViewIdentifierCollision => add(A::ReviewTableViewIdentifierCollisions),
            B::DurableStrongSnapshotChanged => add(A::ReviewDurableStrongSnapshot),
            B::CurrentMetadataUnreadable => add(A::RestoreCurrentMetadataObject),
            B::SourceChangedAfterMaterialization | B::SourceStateInvalid | B::SnapshotTooLarge => {
                add(A::ReviewSourceState)
            }
        }
    }
    actions
}
