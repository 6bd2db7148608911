//! A drive of a peer, behind the same seam as one of this node.

use std::sync::Arc;

use crate::disk::drive::DriveError;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::node::peer::Peer;
use crate::node::peer::pool::SendError;
use crate::node::seams::BoxFuture;
use crate::node::seams::DriveClient;
use crate::protocol::admin::DriveCondition;

/// A drive that a peer owns.
pub struct PeerDrive {
    name: String,
    path: String,
    slot: usize,
    peer: Arc<Peer>,
}

impl PeerDrive {
    /// The drive in `slot` of `peer`.
    pub fn new(peer: Arc<Peer>, slot: usize) -> Self {
        let name = format!("{}/{slot}", peer.node());
        Self { name, path: format!("drive/{slot}"), slot, peer }
    }
}

impl DriveClient for PeerDrive {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_online(&self) -> bool {
        self.peer.drive(self.slot).condition == DriveCondition::Online
    }

    fn call(&self, request: DriveRequest) -> BoxFuture<'_, Result<DriveReply, DriveError>> {
        Box::pin(async move {
            let answer = self.peer.ask(&self.path, &request).await;
            answer.unwrap_or_else(|error| {
                Err(match error {
                    SendError::NotSent(why) => DriveError::NotAsked { why },
                    SendError::NoAnswer(why) => DriveError::Unreachable { why },
                })
            })
        })
    }
}
