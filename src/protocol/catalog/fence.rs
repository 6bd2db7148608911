//! The fences of a migration: files that freeze what a migration has copied.
//!
//! The *registry fence* freezes table-bucket entries, a *bucket fence* every object-backed change of its bucket.
//! Both outlive the process. The *cut-over record*, which is ours, says that a durable-strong process has taken
//! over, so that an object-backed one does not serve what is stale (M6).
//!
//! # Sources
//!
//! Specification of the catalog §5.3 (fields, validity, baselines).

use serde::Deserialize;
use serde::Serialize;

use crate::protocol::catalog::keys;
use crate::protocol::catalog::record::parse;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;

/// The version of a fence that is written.
pub const FENCE_VERSION: u32 = 2;

/// Freezes the entries of table buckets while any migration exists.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RegistryFence {
    /// 1 or 2.
    pub version: u32,
    /// The migration that raised it first.
    pub migration_id: String,
}

impl RegistryFence {
    /// A fence of this release.
    pub fn new(migration_id: &str) -> Self {
        Self { version: FENCE_VERSION, migration_id: migration_id.to_owned() }
    }

    /// Reads the fence.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`]; then it stays, and freezes all the same.
    pub fn decode(bytes: &[u8]) -> Result<Self, Refusal> {
        let fence: Self = parse("registry fence", keys::REGISTRY_FENCE, bytes)?;
        if !(1..=FENCE_VERSION).contains(&fence.version) || fence.migration_id.is_empty() {
            let version = fence.version;
            return Err(Class::Invalid.because(format!(
                "the registry fence is of version {version} or names no migration"
            )));
        }
        Ok(fence)
    }
}

/// How far a bucket's migration has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum FenceStatus {
    /// The bucket is frozen and may or may not be in the snapshot.
    Preparing,
    /// The snapshot has it.
    Materialized,
}

/// What a preparing fence knows of the snapshot that was there before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Baseline {
    /// There was none.
    Absent,
    /// There was one.
    Present,
    /// The fence is of a release that did not record it.
    Unknown,
}

/// Freezes every object-backed change of one table bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketFence {
    /// 1 or 2.
    pub version: u32,
    /// The bucket.
    pub table_bucket: String,
    /// The migration.
    pub migration_id: String,
    /// How far it has come.
    pub status: FenceStatus,
    /// Whether the snapshot had this bucket before.
    pub target_bucket_existed: bool,
    /// The fingerprint of what was copied; of a materialised fence only.
    pub source_fingerprint: Option<String>,
    /// The snapshot's ETag: before the copy while preparing, after it when materialised.
    pub target_snapshot_etag: Option<String>,
}

impl BucketFence {
    /// The first fence of a migration: `observed` is the snapshot's ETag, if there is a snapshot.
    pub fn preparing(
        bucket: &str,
        migration_id: &str,
        target_bucket_existed: bool,
        observed: Option<&str>,
    ) -> Self {
        Self {
            version: FENCE_VERSION,
            table_bucket: bucket.to_owned(),
            migration_id: migration_id.to_owned(),
            status: FenceStatus::Preparing,
            target_bucket_existed,
            source_fingerprint: None,
            target_snapshot_etag: observed.map(str::to_owned),
        }
    }

    /// The same fence once the snapshot, now of this ETag, has the bucket with this fingerprint.
    #[must_use]
    pub fn materialized(&self, fingerprint: &str, etag: &str) -> Self {
        Self {
            version: FENCE_VERSION,
            status: FenceStatus::Materialized,
            source_fingerprint: Some(fingerprint.to_owned()),
            target_snapshot_etag: Some(etag.to_owned()),
            ..self.clone()
        }
    }

    /// What a preparing fence knows of the snapshot before.
    pub fn baseline(&self) -> Baseline {
        match (self.version, &self.target_snapshot_etag) {
            (FENCE_VERSION, None) => Baseline::Absent,
            (FENCE_VERSION, Some(_)) => Baseline::Present,
            _ => Baseline::Unknown,
        }
    }

    /// Whether the snapshot has the bucket.
    pub fn is_materialized(&self) -> bool {
        self.status == FenceStatus::Materialized
    }

    /// Reads the fence in the folder of `bucket`.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`]; then it stays, and freezes all the same.
    pub fn decode(bucket: &str, bytes: &[u8]) -> Result<Self, Refusal> {
        let fence: Self = parse("bucket fence", &keys::bucket_fence(bucket), bytes)?;
        let has_identity = (1..=FENCE_VERSION).contains(&fence.version)
            && fence.table_bucket == bucket
            && !fence.migration_id.is_empty();
        let has_evidence = match fence.status {
            FenceStatus::Preparing => fence.source_fingerprint.is_none(),
            FenceStatus::Materialized => {
                fence.source_fingerprint.is_some() && fence.target_snapshot_etag.is_some()
            }
        };
        let is_possible = fence.is_materialized()
            || !(fence.target_bucket_existed && fence.baseline() == Baseline::Absent);
        if has_identity && has_evidence && is_possible {
            return Ok(fence);
        }
        Err(Class::Invalid.because(format!("the fence of bucket {bucket} contradicts itself")))
    }
}

/// Says that durable-strong processes have taken over (ours, M6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CutOver {
    /// 1.
    pub version: u32,
    /// The migration of the registry fence.
    pub migration_id: String,
}

impl CutOver {
    /// The record of this migration's cut-over.
    pub fn new(migration_id: &str) -> Self {
        Self { version: 1, migration_id: migration_id.to_owned() }
    }

    /// Reads the record.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Refusal> {
        let record: Self = parse("cut-over record", keys::CUT_OVER, bytes)?;
        if record.version != 1 {
            let version = record.version;
            return Err(Class::Invalid.because(format!("a cut-over record of version {version}")));
        }
        Ok(record)
    }
}

/// Says that the last cancellation has removed an empty snapshot (ours, M5): its absence is no loss to a process
/// that saw it, and the next snapshot's epoch is above its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cancelled {
    /// 1.
    pub version: u32,
    /// The epoch of the snapshot that was removed; 0 when it had none.
    pub epoch: u64,
}

impl Cancelled {
    /// The record of a snapshot of this epoch.
    pub fn new(epoch: u64) -> Self {
        Self { version: 1, epoch }
    }

    /// Reads the record.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`].
    pub fn decode(bytes: &[u8]) -> Result<Self, Refusal> {
        let record: Self = parse("cancellation record", keys::CANCELLED, bytes)?;
        if record.version != 1 {
            let version = record.version;
            return Err(
                Class::Invalid.because(format!("a cancellation record of version {version}"))
            );
        }
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::catalog::record::compact;

    fn read(fence: &BucketFence) -> Result<BucketFence, Refusal> {
        BucketFence::decode("lake1", &compact(fence))
    }

    #[test]
    fn a_fence_says_what_was_there_before_it() {
        let absent = BucketFence::preparing("lake1", "m", false, None);
        let present = BucketFence::preparing("lake1", "m", true, Some("e"));
        assert_eq!(read(&absent).unwrap().baseline(), Baseline::Absent);
        assert_eq!(read(&present).unwrap().baseline(), Baseline::Present);
        let older = BucketFence { version: 1, ..absent.clone() };
        assert_eq!(read(&older).unwrap().baseline(), Baseline::Unknown);
        let done = read(&older.materialized("f", "e2")).unwrap();
        assert!(done.is_materialized() && done.version == 2, "a retry rewrites it as version 2");
        assert_eq!(done.migration_id, "m");
    }

    #[test]
    fn f24_a_fence_that_contradicts_itself_is_not_read() {
        let good = BucketFence::preparing("lake1", "m", false, None);
        let some = || Some("x".to_owned());
        for bad in [
            BucketFence { version: 3, ..good.clone() },
            BucketFence { version: 0, ..good.clone() },
            BucketFence { table_bucket: "lake2".to_owned(), ..good.clone() },
            BucketFence { migration_id: String::new(), ..good.clone() },
            BucketFence { source_fingerprint: some(), ..good.clone() },
            BucketFence { target_bucket_existed: true, ..good.clone() },
            BucketFence { status: FenceStatus::Materialized, ..good.clone() },
            BucketFence {
                status: FenceStatus::Materialized,
                source_fingerprint: some(),
                ..good.clone()
            },
        ] {
            assert_eq!(read(&bad).unwrap_err().class, Class::Invalid, "{bad:?}");
        }
        assert!(RegistryFence::decode(br#"{"version":3,"migration_id":"m"}"#).is_err());
        assert!(RegistryFence::decode(br#"{"version":1,"migration_id":"m"}"#).is_ok());
        assert!(RegistryFence::decode(br#"{"version":2,"migration_id":""}"#).is_err());
        assert!(RegistryFence::decode(br#"{"version":2,"migration_id":"m","x":1}"#).is_err());
        assert!(CutOver::decode(&compact(&CutOver::new("m"))).is_ok());
        assert!(CutOver::decode(br#"{"version":2,"migration_id":"m"}"#).is_err());
    }
}
