//! The status of replacements, in the words of the released servers' contract: read from the drives whenever it is
//! asked for. It decides nothing.

use crate::node::replacement::survey;
use crate::node::service::Node;
use crate::protocol::replacement::status;
use crate::protocol::replacement::status::Answer;
use crate::protocol::replacement::status::DriveRecords;
use crate::protocol::replacement::status::PeerAnswer;
use crate::protocol::replacement::status::Snapshot;

/// What this node tells of its own drives.
pub async fn local(node: &Node) -> Snapshot {
    let owners = node.loaded.endpoints();
    // What blocks a set lies in no intent that a drive could be asked for.
    let blocked = node.replacements.blocked().into_iter();
    let mut drives: Vec<_> = blocked
        .map(|words| DriveRecords { error: Some(words), ..DriveRecords::default() })
        .collect();
    for endpoint in (0..owners.len()).filter(|endpoint| owners[*endpoint].0 == node.me()) {
        drives.push(survey::records(survey::read(node.client(endpoint)).await));
    }
    status::snapshot(&drives, &node.replacements.live())
}

/// What this node and its peers tell; `path` is the route that was asked.
pub async fn answer(node: &Node, path: &str) -> Answer {
    let local = local(node).await;
    let mut peers = Vec::new();
    for peer in node.peers.iter().flatten() {
        peers.push(match peer.ask("replacement", &()).await {
            Ok(snapshot) => PeerAnswer::Snapshot(snapshot),
            Err(_) => PeerAnswer::Unavailable,
        });
    }
    Answer {
        contract_version: status::CONTRACT_VERSION,
        path: path.to_owned(),
        scope: status::SCOPE.to_owned(),
        cluster: status::cluster(&local, &peers),
        local,
    }
}
