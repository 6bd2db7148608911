//! How the catalog of a node stands, and the two things that only an operator does to it.

use serde::Serialize;
use serde_json::json;

use super::Catalog;
use super::object;
use super::strong::Explanation;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::settings::Backing;
use crate::protocol::catalog::strong::hydrate::Reader;

/// How the catalog of one process stands.
#[derive(Debug, Serialize)]
pub struct Standing {
    /// `object` or `durable-strong`.
    backing: &'static str,
    /// The release that it behaves as.
    release: &'static str,
    /// Whether snapshots of version 2 are asked for.
    snapshot_v2: bool,
    /// Whether every process of the fleet is said to read version 2.
    snapshot_v2_fleet_confirmed: bool,
    /// The version that the next change of the snapshot has at least.
    write_version: u32,
    /// Whether no change is written until an operator opens it.
    closed_to_writers: bool,
    /// Why it serves nothing; absent when it serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    /// The snapshot that it has; absent when it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<serde_json::Value>,
}

impl Catalog {
    /// How it stands.
    pub async fn status(&self) -> Standing {
        let gates = self.strong.rules().gates;
        let is_strong = self.settings.backing == Backing::DurableStrong;
        let (mut refused, mut snapshot) = (None, None);
        if is_strong {
            let looked = match self.check_opened().await {
                Ok(()) => self.strong.hydrate(Reader::Strong, &Explanation::default()).await,
                Err(refusal) => Err(refusal),
            };
            match looked {
                Ok(Some(loaded)) => {
                    let contents = &loaded.snapshot.contents;
                    snapshot = Some(json!({
                        "version": loaded.snapshot.version,
                        "etag": loaded.etag,
                        "epoch": loaded.epoch,
                        "table_buckets": contents.buckets.len(),
                        "tables": contents.tables.len(),
                        "views": contents.views.len(),
                        "collisions": loaded.snapshot.derived.collisions.len(),
                    }));
                }
                Ok(None) => refused = Some("there is no strong snapshot".to_owned()),
                Err(refusal) => refused = Some(refusal.text),
            }
        }
        Standing {
            backing: self.settings.backing.name(),
            release: self.settings.config.release.name(),
            snapshot_v2: gates.requested,
            snapshot_v2_fleet_confirmed: gates.fleet_confirmed,
            write_version: gates.write_version(),
            closed_to_writers: is_strong && !self.strong.is_admitted(),
            refused,
            snapshot,
        }
    }

    /// Opens a durable-strong catalog to writers. Whoever does it has verified it.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`] in object backing; [`Class::Unavailable`] when it serves nothing.
    pub async fn admit(&self) -> Result<(), Refusal> {
        if self.settings.backing == Backing::Object {
            let text = "an object-backed catalog is never closed to writers";
            return Err(Class::Invalid.because(text));
        }
        self.check_opened().await?;
        self.strong.hydrate(Reader::Strong, &Explanation::default()).await?;
        self.strong.admit();
        tracing::info!("the durable-strong catalog is open to writers");
        Ok(())
    }

    /// Fills the warehouse index of a table bucket.
    ///
    /// # Errors
    ///
    /// As the flow has them; [`Class::Invalid`] where there is no index.
    pub async fn backfill(&self, bucket: &str) -> Result<serde_json::Value, Refusal> {
        if self.settings.backing == Backing::DurableStrong {
            let text = "a durable-strong catalog has no index to be filled";
            return Err(Class::Invalid.because(text));
        }
        self.check_table_bucket(bucket).await?;
        self.check_current(bucket).await?;
        let filled = object::backfill(&self.depot, bucket).await?;
        Ok(json!({ "warehouse": bucket, "prefixes": filled.prefixes, "ready": true }))
    }
}
