//! Replacing drives: the loop that performs what `protocol::replacement` asks for.
//!
//! It decides nothing. `survey` reads the drives of a set and has the protocol say what is to be done; `attempt`
//! takes the leases and performs one write after another; `observe` reads what a question needs; `course` is where
//! it asks, and where `defects` are planted; `settle` comes first in the life of a node and settles what older
//! releases left; `legacy` behaves as one; `board` and `told` are what is told of it. One task a set does all of this,
//! so that no generation has two executors on a node; other nodes and processes are kept away by the leases on the
//! targets.
//!
//! What must always hold: between the first question and the last write the leases on all targets are held; a
//! refusal leaves the records as they are, is told, and the node serves on.

mod attempt;
mod board;
mod course;
mod defects;
mod legacy;
mod observe;
mod places;
mod settle;
mod survey;
mod told;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::Instrument as _;

pub use board::Board;
pub use course::SharedCourse;
#[cfg(test)]
pub use defects::bends_course;
pub use defects::course;
pub use told::answer;
pub use told::local;

use crate::node::replacement::attempt::Attempt;
use crate::node::replacement::attempt::End;
use crate::node::replacement::settle::Settling;
use crate::node::seams::BoxFuture;
use crate::node::service::Node;
use crate::node::store::Store;
use crate::node::store::api::HealRequest;
use crate::protocol::admin::DriveCondition;
use crate::protocol::replacement::discover::Decision;
use crate::protocol::replacement::discover::DriveState;
use crate::protocol::replacement::discover::discover;

/// How often a set in which nothing is open is looked at.
const QUIET_PERIOD: Duration = Duration::from_secs(10);
/// For how long drives that say nothing keep a fresh generation from beginning: one of them may hold a record.
const SILENCE: Duration = Duration::from_secs(10);
/// How long the next attempt waits after one that failed.
const RETRY: Duration = Duration::from_secs(2);

/// Replaces drives of this node, in every set that has one, for as long as the future is polled.
pub async fn run(node: &Arc<Node>, store: &Arc<Store>) {
    let mut sets: Vec<usize> = node.keepers.iter().map(|keeper| keeper.place().0).collect();
    sets.dedup();
    node.replacements.expect(&sets);
    let mut work = tokio::task::JoinSet::new();
    for set in sets {
        let (node, store) = (Arc::clone(node), Arc::clone(store));
        let release = node.loaded.config.release.legacy();
        let watched = async move {
            match release {
                None => watch(&node, &store, set).await,
                Some(release) => legacy::watch(&node, &store, set, release).await,
            }
        };
        work.spawn(watched.in_current_span());
    }
    while let Some(ended) = work.join_next().await {
        ended.expect("a replacement does not panic");
    }
}

/// Looks at one set again and again, and goes on with what is open in it.
async fn watch(node: &Arc<Node>, store: &Arc<Store>, set: usize) {
    let period = Duration::from_millis(node.loaded.config.limits.probe_period_ms);
    let began = Instant::now();
    let mut looked = None::<Instant>;
    let mut pause = Duration::ZERO;
    let mut settling = Settling::default();
    loop {
        // Not a wait for a while: drives have no way to call, so their state is asked for.
        tokio::time::sleep(period.max(pause)).await;
        pause = Duration::ZERO;
        let is_quiet = !node.replacements.is_open(set) && !has_blank(node, set);
        if is_quiet && looked.is_some_and(|looked| looked.elapsed() < QUIET_PERIOD) {
            continue;
        }
        looked = Some(Instant::now());
        attempt::give_up(node, set).await;
        let settled = settling.go_on(node, store, set).await;
        let survey = survey::survey(node, set).await;
        let discovery = discover(&survey);
        let mut decision = discovery.decision;
        let is_silent = |state: &DriveState| matches!(state, DriveState::Away(_));
        if matches!(decision, Decision::Begin { .. })
            && began.elapsed() < SILENCE
            && survey.drives.iter().any(|drive| is_silent(&drive.state))
        {
            decision = Decision::Wait("drives that may hold a record say nothing yet".to_owned());
        }
        match settled {
            Ok(()) => {}
            Err(End::Refused(refusal)) => decision = Decision::Block(refusal),
            Err(End::Deferred(why)) => decision = Decision::Wait(why),
            Err(End::Over) => continue,
        }
        node.replacements.decided(set, &decision, &discovery.alarms);
        let Some(attempt) = Attempt::of(node, store, set, &survey, decision) else { continue };
        let attempt: BoxFuture<'static, End> = Box::pin(attempt.run());
        match attempt.await {
            // What is nobody's can be told now that every drive speaks again.
            End::Over => drop(store.heal(HealRequest::default())),
            End::Deferred(why) => node.replacements.deferred(set, &why),
            End::Refused(refusal) => {
                node.replacements.refused(set, &refusal);
                pause = RETRY;
            }
        }
    }
}

/// Whether a drive of this node waits in the set.
fn has_blank(node: &Node, set: usize) -> bool {
    let mut own = node.keepers.iter().filter(|keeper| keeper.place().0 == set);
    own.any(|keeper| keeper.queue().standing().condition == DriveCondition::Blank)
}
