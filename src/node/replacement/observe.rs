//! What one question of the protocol needs to see: the anchor's files, the targets' markers, and how they are mounted.

use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use uuid::Uuid;

use crate::disk::drive::ReplacementCopy;
use crate::node::replacement::attempt::End;
use crate::node::replacement::survey;
use crate::node::service::Node;
use crate::protocol::replacement::identity::Identity;
use crate::protocol::replacement::identity::Mounted;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::names;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::refusal::about;
use crate::protocol::replacement::store::Durable;
use crate::protocol::replacement::store::Now;

/// A drive that an attempt works with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its position among all drives of the deployment.
    pub endpoint: usize,
    /// What records call it.
    pub name: String,
}

/// What was seen at one moment.
pub struct Observed {
    /// What is durable.
    pub durable: Durable,
    /// What is so besides.
    pub now: Now,
}

/// Looks at the anchor and at every target.
///
/// # Errors
///
/// Why the attempt cannot go on: the anchor says nothing, or a target's lease is not `holder`'s any more, or its lock
/// was removed (without a holder there are no leases to be held).
pub async fn observe(
    node: &Node,
    anchor: &Place,
    targets: &[Place],
    holder: Option<Uuid>,
    buckets: &[String],
    is_opening: bool,
) -> Result<Observed, End> {
    let mut reads = vec![survey::read(node.client(anchor.endpoint))];
    for target in targets {
        reads.push(survey::read(node.client(target.endpoint)));
    }
    let mut copies = futures::future::join_all(reads).await.into_iter();
    let anchor_copy = copies.next().expect("the anchor was read");
    let away = |why| End::Deferred(format!("anchor {}: {why}", anchor.name));
    let anchor_copy = anchor_copy.map_err(away)?;
    let (mut markers, mut mounts) = (Vec::new(), Vec::new());
    for (target, copy) in targets.iter().zip(copies) {
        if let (Ok(copy), Some(holder)) = (&copy, holder) {
            if copy.execution != Some(holder) {
                return Err(End::Deferred(format!("the lease on {} was lost", target.name)));
            }
            if !copy.has_execution_lock {
                return Err(lock_removed(target, "another file, or none, while the lock is held"));
            }
        }
        let marker = copy.as_ref().ok().and_then(|copy| copy.marker.as_ref());
        markers.push(marker.map(|marker| marker.to_vec()));
        mounts.push(copy.and_then(|copy| mounted(target, copy)));
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(Observed {
        durable: Durable { files: survey::files(&anchor_copy), markers },
        now: Now {
            time_s: since.as_secs(),
            mounts,
            buckets: buckets.to_vec(),
            fresh_successor: GenerationId(Uuid::new_v4()),
            fresh_transaction: GenerationId(Uuid::new_v4()),
            is_opening,
        },
    })
}

/// What an attempt says whose lock on a target is not where it was, or must be.
pub fn lock_removed(target: &Place, seen: &str) -> End {
    let evidence = format!("{} on {}", names::LEASE, target.name);
    End::Refused(Refusal::LeaseRemoved(about(seen, "the lock that is never removed", evidence)))
}

fn mounted(target: &Place, copy: ReplacementCopy) -> Result<Mounted, String> {
    let mount = copy.mount?;
    Ok(Mounted {
        identity: Identity {
            endpoint: target.name.clone(),
            canonical_path: mount.canonical_path,
            physical_device_ids: mount.physical_device_ids,
            filesystem_identity: mount.filesystem_identity,
        },
        filesystem_uuid: mount.filesystem_uuid,
        format_id: copy.format_id,
    })
}
