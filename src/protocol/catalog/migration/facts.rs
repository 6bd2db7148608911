//! What is durable about migrations, read under the exclusive locks (of a preflight: under none).
//!
//! # Sources
//!
//! Specification of the catalog §5.1 (readiness), §5.7 (baseline).

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::fence::Cancelled;
use crate::protocol::catalog::fence::CutOver;
use crate::protocol::catalog::fence::RegistryFence;
use crate::protocol::catalog::fingerprint;
use crate::protocol::catalog::migration::source::Source;
use crate::protocol::catalog::strong::hydrate::Loaded;
use crate::protocol::catalog::strong::hydrate::Memory;
use crate::protocol::catalog::strong::plan::Rules;

/// What is durable.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The bucket that is asked about.
    pub source: Source,
    /// The registry fence.
    pub registry: Option<RegistryFence>,
    /// Every bucket fence, by bucket.
    pub fences: BTreeMap<String, BucketFence>,
    /// Every bucket that has an object-backed entry.
    pub object_buckets: BTreeSet<String>,
    /// The snapshot; `None` when there is none, and that is explained or was never otherwise.
    pub target: Option<Loaded>,
    /// What this process remembers of the snapshot, hydrated.
    pub memory: Memory,
    /// The cut-over record.
    pub cut_over: Option<CutOver>,
    /// The cancellation record.
    pub cancelled: Option<Cancelled>,
}

impl Facts {
    /// The fence of the bucket that is asked about.
    pub fn fence(&self) -> Option<&BucketFence> {
        self.fences.get(&self.source.name)
    }

    /// The fingerprint that a bucket has in the snapshot.
    pub fn target_fingerprint(&self, bucket: &str) -> Option<String> {
        fingerprint::of_bucket(&self.target.as_ref()?.snapshot.contents, bucket)
    }

    /// The buckets of the snapshot.
    pub fn strong_buckets(&self) -> BTreeSet<String> {
        let target = self.target.as_ref();
        target.map(|loaded| loaded.snapshot.contents.bucket_names()).unwrap_or_default()
    }

    /// Whether everything is copied: what a durable-strong process demands of what it opens.
    pub fn is_ready(&self) -> bool {
        self.unready().is_none()
    }

    /// What is missing before a durable-strong process may open this state.
    pub fn unready(&self) -> Option<String> {
        if self.registry.is_none() {
            return Some("no migration has fenced the table buckets".to_owned());
        }
        for bucket in &self.object_buckets {
            let Some(fence) = self.fences.get(bucket).filter(|fence| fence.is_materialized())
            else {
                return Some(format!("bucket {bucket} was not materialized"));
            };
            if self.target_fingerprint(bucket) != fence.source_fingerprint {
                return Some(format!("the strong snapshot has another state of bucket {bucket}"));
            }
        }
        if self.strong_buckets() != self.object_buckets {
            return Some("the strong snapshot has buckets that were not migrated".to_owned());
        }
        None
    }

    /// The same rules with the epoch above that of the snapshot that the last cancellation removed.
    pub fn rules(&self, rules: &Rules) -> Rules {
        let floor = self.cancelled.as_ref().map_or(0, |cancelled| cancelled.epoch);
        Rules { epoch_floor: rules.epoch_floor.max(floor), ..*rules }
    }
}
