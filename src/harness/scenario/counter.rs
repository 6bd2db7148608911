//! What can be counted in a finished run: the vocabulary of `provokes`.

use serde::Deserialize;
use serde::Serialize;

/// What can be counted in a finished run, from its history and census alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// Writes that were acknowledged.
    AcknowledgedWrites,
    /// Writes of which nobody can tell.
    AmbiguousWrites,
    /// Writes that were refused.
    RefusedWrites,
    /// Reads that were acknowledged.
    AcknowledgedReads,
    /// Deletes that were acknowledged.
    AcknowledgedDeletes,
    /// Conditional writes that were answered either way.
    ConditionalWrites,
    /// Multipart uploads of which completion was asked.
    MultipartCompletions,
    /// Faults that struck.
    FaultsInjected,
    /// Faults under which work went on.
    FaultsInForce,
    /// Faults that struck at a named crash point.
    CrashPointsReached,
    /// Drives that came back under another identity.
    MountsChanged,
    /// Times that a node became ready again after its process had ended.
    NodesRestarted,
    /// Operations that ended while some fault lasted.
    OperationsUnderFault,
    /// Versions acknowledged before a drive's contents were destroyed and whole in the census.
    VersionsHealed,
    /// Generations in the longest chain of replacements that the records on the drives tell of.
    LongestLineage,
    /// Times that a pass went on from where its records stood before its node had died, as both sets of records show.
    PassesResumed,
    /// States of replacements that were awaited and told.
    StatesTold,
    /// Null versions that were overwritten while a drive was out of its slot.
    OverwritesWhileAway,
    /// Keys that were deleted without naming a version while a drive was out of its slot.
    DeletesWhileAway,
    /// Delete markers that were removed while a drive was out of its slot.
    MarkersRemovedWhileAway,
    /// Null versions that were overwritten while a rebuild was held.
    OverwritesWhileHeld,
    /// Keys that were deleted without naming a version while a rebuild was held.
    DeletesWhileHeld,
    /// Delete markers that were removed while a rebuild was held.
    MarkersRemovedWhileHeld,
    /// Attempts at commits that were acknowledged.
    AcknowledgedCommits,
    /// Attempts at commits that were refused.
    RefusedCommits,
    /// Attempts at commits of which nobody can tell.
    UnknownCommits,
    /// Commits that were acknowledged, or seen in the metadata, after an earlier attempt had ended otherwise.
    CommitsResolved,
    /// Requests of a step's own wording that were done.
    SupportedRequests,
    /// Those that were refused for what they ask, or for when they ask it.
    RefusedRequests,
    /// Those that were refused for who asks.
    DeniedRequests,
    /// Those that were answered as not offered.
    UnsupportedRequests,
    /// Those that were refused and before and after which the drives were looked at.
    ComparedRefusals,
    /// Parts of their flows that real clients got through.
    ClientParts,
    /// Migrations and cancellations of which nobody can tell.
    UnknownMigrations,
    /// Migrations and cancellations that were refused.
    RefusedMigrations,
    /// Times that a hand has kept, put back or removed the strong snapshot on the drives.
    SnapshotsHandled,
    /// The newest version of the strong snapshot that the drives were seen to hold.
    NewestSnapshotVersion,
}

impl Counter {
    /// Every counter.
    pub const ALL: &[Self] = &[
        Self::AcknowledgedWrites,
        Self::AmbiguousWrites,
        Self::RefusedWrites,
        Self::AcknowledgedReads,
        Self::AcknowledgedDeletes,
        Self::ConditionalWrites,
        Self::MultipartCompletions,
        Self::FaultsInjected,
        Self::FaultsInForce,
        Self::CrashPointsReached,
        Self::MountsChanged,
        Self::NodesRestarted,
        Self::OperationsUnderFault,
        Self::VersionsHealed,
        Self::LongestLineage,
        Self::PassesResumed,
        Self::StatesTold,
        Self::OverwritesWhileAway,
        Self::DeletesWhileAway,
        Self::MarkersRemovedWhileAway,
        Self::OverwritesWhileHeld,
        Self::DeletesWhileHeld,
        Self::MarkersRemovedWhileHeld,
        Self::AcknowledgedCommits,
        Self::RefusedCommits,
        Self::UnknownCommits,
        Self::CommitsResolved,
        Self::SupportedRequests,
        Self::RefusedRequests,
        Self::DeniedRequests,
        Self::UnsupportedRequests,
        Self::ComparedRefusals,
        Self::ClientParts,
        Self::UnknownMigrations,
        Self::RefusedMigrations,
        Self::SnapshotsHandled,
        Self::NewestSnapshotVersion,
    ];

    /// Its name, as scenarios spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::AcknowledgedWrites => "acknowledged_writes",
            Self::AmbiguousWrites => "ambiguous_writes",
            Self::RefusedWrites => "refused_writes",
            Self::AcknowledgedReads => "acknowledged_reads",
            Self::AcknowledgedDeletes => "acknowledged_deletes",
            Self::ConditionalWrites => "conditional_writes",
            Self::MultipartCompletions => "multipart_completions",
            Self::FaultsInjected => "faults_injected",
            Self::FaultsInForce => "faults_in_force",
            Self::CrashPointsReached => "crash_points_reached",
            Self::MountsChanged => "mounts_changed",
            Self::NodesRestarted => "nodes_restarted",
            Self::OperationsUnderFault => "operations_under_fault",
            Self::VersionsHealed => "versions_healed",
            Self::LongestLineage => "longest_lineage",
            Self::PassesResumed => "passes_resumed",
            Self::StatesTold => "states_told",
            Self::OverwritesWhileAway => "overwrites_while_away",
            Self::DeletesWhileAway => "deletes_while_away",
            Self::MarkersRemovedWhileAway => "markers_removed_while_away",
            Self::OverwritesWhileHeld => "overwrites_while_held",
            Self::DeletesWhileHeld => "deletes_while_held",
            Self::MarkersRemovedWhileHeld => "markers_removed_while_held",
            Self::AcknowledgedCommits => "acknowledged_commits",
            Self::RefusedCommits => "refused_commits",
            Self::UnknownCommits => "unknown_commits",
            Self::CommitsResolved => "commits_resolved",
            Self::SupportedRequests => "supported_requests",
            Self::RefusedRequests => "refused_requests",
            Self::DeniedRequests => "denied_requests",
            Self::UnsupportedRequests => "unsupported_requests",
            Self::ComparedRefusals => "compared_refusals",
            Self::ClientParts => "client_parts",
            Self::UnknownMigrations => "unknown_migrations",
            Self::RefusedMigrations => "refused_migrations",
            Self::SnapshotsHandled => "snapshots_handled",
            Self::NewestSnapshotVersion => "newest_snapshot_version",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_named_as_they_are_written() {
        for counter in Counter::ALL {
            let written = serde_json::to_value(counter).unwrap();
            assert_eq!(written, counter.name());
        }
    }
}
