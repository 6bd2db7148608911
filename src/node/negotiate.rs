//! The loop that finds the deployment's format when a node starts: look, ask, act, look again.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::disk::drive::DriveRequest;
use crate::disk::format::format_json::FormatJson;
use crate::node::drives::Seen;
use crate::node::locks::quorum::LockCall;
use crate::node::locks::quorum::LockPeer;
use crate::node::service::Node;
use crate::node::startup;
use crate::node::startup::Next;
use crate::node::store::Store;

/// Between two looks.
const LOOK_PERIOD: Duration = Duration::from_millis(20);
/// Between two attempts to reach a peer that has not heard of our start.
const TELL_PERIOD: Duration = Duration::from_millis(100);

/// Looks until a format is accepted, and answers the store over it.
pub async fn until_accepted(node: &Arc<Node>) -> Arc<Store> {
    let formats = node.loaded.endpoints()[0].0 == node.me();
    loop {
        let seen = node.seen();
        match startup::next(&seen, node.loaded.config.set_drives, formats, Uuid::new_v4) {
            Next::Accept(format) => {
                let store = node.accept(*format);
                for peer in node.peers.iter().flatten() {
                    peer.hurry(false);
                }
                return store;
            }
            Next::Format(format) => write_formats(node, &seen, &format).await,
            Next::Wait { reason } => {
                if node.wait_for(&reason) {
                    tracing::info!(reason, "waiting for the format");
                }
            }
        }
        tokio::time::sleep(LOOK_PERIOD).await;
    }
}

/// Gives every blank drive its format. What fails is seen at the next look.
async fn write_formats(node: &Arc<Node>, seen: &[Seen], format: &FormatJson) {
    tracing::info!(deployment = %format.id, "formatting blank drives");
    let blank = seen.iter().enumerate().filter(|(_, seen)| **seen == Seen::Blank);
    let writes = blank.map(|(endpoint, _)| {
        let (set, slot) = node.loaded.place(endpoint);
        let own = format.for_place(set, slot).expect("the format has a drive for every endpoint");
        let drive = node.client(endpoint);
        async move {
            let write = DriveRequest::WriteFormat { bytes: own.encode(), rebuilding: false };
            if let Err(error) = drive.call(write).await {
                tracing::warn!(drive = drive.name(), %error, "drive was not formatted");
            }
        }
    });
    futures::future::join_all(writes).await;
    // The keepers and peers look again before anything is concluded from what was seen before.
    tokio::time::sleep(2 * LOOK_PERIOD).await;
}

/// Tells every peer that this node has forgotten what it granted, until all have heard it.
pub async fn tell_of_start(node: &Arc<Node>) {
    let tells = node.peers.iter().flatten().map(|peer| async move {
        loop {
            let told = LockPeer::ask(&**peer, LockCall::Forget { life: node.life }).await;
            if told.is_some_and(|answer| answer.granted) {
                return;
            }
            tokio::time::sleep(TELL_PERIOD).await;
        }
    });
    futures::future::join_all(tells).await;
    node.locks.remember();
}
