//! A node that behaves as an older release: for rehearsals of mixed fleets, upgrades and forbidden downgrades.
//!
//! It decides nothing. What an older release looks at and what it does stands in `protocol::replacement::legacy`; it
//! takes no lease, hands nothing off, and records no failure.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::disk::drive::ReplacementCopy;
use crate::node::replacement::RETRY;
use crate::node::replacement::attempt::Aim;
use crate::node::replacement::attempt::Attempt;
use crate::node::replacement::attempt::End;
use crate::node::replacement::places;
use crate::node::replacement::survey;
use crate::node::seams::BoxFuture;
use crate::node::service::Node;
use crate::node::store::Store;
use crate::protocol::replacement::discover::Decision;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::ids::SetId;
use crate::protocol::replacement::legacy;
use crate::protocol::replacement::legacy::Looked;
use crate::protocol::replacement::legacy::Release;
use crate::protocol::replacement::legacy::Turn;

/// Looks at one set again and again, and goes on as `release` does.
pub async fn watch(node: &Arc<Node>, store: &Arc<Store>, set: usize, release: Release) {
    let period = Duration::from_millis(node.loaded.config.limits.probe_period_ms);
    let mut pause = Duration::ZERO;
    loop {
        // Not a wait for a while: drives have no way to call, so their state is asked for.
        tokio::time::sleep(period.max(pause)).await;
        pause = Duration::ZERO;
        let drives = look(node, set).await;
        let turn = match legacy::decide(release, SetId { pool: 0, set }, &drives) {
            Ok(turn) => turn,
            Err(refusal) => {
                node.replacements.decided(set, &Decision::Block(refusal), &[]);
                pause = RETRY;
                continue;
            }
        };
        let (decision, root, begins) = match turn {
            Turn::Nothing => {
                node.replacements.decided(set, &Decision::Nothing, &[]);
                continue;
            }
            Turn::Resume { generation, targets, anchor } => {
                let decision = Decision::Resume { generation, anchor: anchor.clone() };
                (decision, (generation, targets, anchor), false)
            }
            Turn::Begin { targets, anchor } => {
                let (names, torn) = (targets.clone(), None);
                let decision = Decision::Begin { targets: names, anchor: anchor.clone(), torn };
                (decision, (GenerationId(Uuid::new_v4()), targets, anchor), true)
            }
        };
        node.replacements.decided(set, &decision, &[]);
        let (generation, targets, anchor) = root;
        let aim = (generation, Aim::Legacy { release, begins });
        let Some(attempt) = Attempt::on(node, store, set, aim, targets, anchor) else { continue };
        let attempt: BoxFuture<'static, End> = Box::pin(attempt.run());
        match attempt.await {
            End::Over => {}
            End::Deferred(why) => node.replacements.deferred(set, &why),
            End::Refused(refusal) => {
                node.replacements.refused(set, &refusal);
                pause = RETRY;
            }
        }
    }
}

/// Every drive of the set that answers and is mounted.
async fn look(node: &Arc<Node>, set: usize) -> Vec<Looked> {
    let size = node.loaded.config.set_drives;
    let (names, owners) = (places::endpoints(&node.loaded.config), node.loaded.endpoints());
    let looks = (set * size..(set + 1) * size).map(|endpoint| {
        let (name, is_local) = (names[endpoint].clone(), owners[endpoint].0 == node.me());
        let client = node.client(endpoint);
        async move { Some(looked(name, is_local, &survey::read(client).await.ok()?)) }
    });
    futures::future::join_all(looks).await.into_iter().flatten().collect()
}

fn looked(endpoint: String, is_local: bool, copy: &ReplacementCopy) -> Looked {
    let is_mounted = copy.mount.is_ok();
    let is_unmarked = copy.is_unfinished && copy.marker.is_none();
    Looked {
        endpoint,
        is_local: is_local && is_mounted,
        is_waiting: copy.format_id.is_none() || is_unmarked,
        marker: copy.marker.as_ref().map(|marker| marker.to_vec()),
        files: survey::files(copy),
    }
}
