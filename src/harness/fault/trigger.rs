//! Waits until a fault strikes: a time, a count of requests, a task held at a crash point.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::stream::StreamExt;
use tokio::time::Instant;
use tokio::time::sleep;
use tokio::time::sleep_until;
use tokio::time::timeout;

use super::Armed;
use super::Held;
use super::Miss;
use super::Progress;
use crate::harness::scenario::fault::Trigger;
use crate::harness::testbed::ArmRequest;
use crate::harness::testbed::Arming;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::protocol::control::ArmAction;
use crate::protocol::crash_point::CrashPoint;
use crate::protocol::crash_point::Place;

/// How soon a node that does not run is tried again.
const RETRY_PERIOD: Duration = Duration::from_millis(10);

/// Waits for the trigger of a fault; answers the task that is held for it, if it strikes at a crash point.
pub(super) async fn wait(
    testbed: &Arc<Testbed>,
    progress: &Progress,
    armed: &Armed,
    patience: Duration,
) -> Result<Option<Held>, Miss> {
    let trigger = armed.fault.trigger();
    let deadline = Instant::now() + patience;
    let come = async {
        if let Some(count) = trigger.after_operations {
            progress.until_ended(armed.ended_then + count).await;
        }
        if let Some(ms) = trigger.after_ms {
            sleep_until(armed.since + Duration::from_millis(ms)).await;
        }
    };
    if timeout(patience, come).await.is_err() {
        let why = format!("its time had not come after {} ms", patience.as_millis());
        return Err(Miss::NotReached(why));
    }
    let Some(point) = trigger.at else {
        return Ok(None);
    };
    let nodes = match trigger.on_node {
        Some(node) => vec![node],
        None => armed.fault.nodes(testbed.plan().nodes),
    };
    wait_at(testbed, &nodes, point, &trigger, deadline).await.map(Some)
}

/// Holds the first task of any of `nodes` that passes `point` as the trigger has it.
async fn wait_at(
    testbed: &Arc<Testbed>,
    nodes: &[usize],
    point: CrashPoint,
    trigger: &Trigger,
    deadline: Instant,
) -> Result<Held, Miss> {
    loop {
        let mut armings = arm_all(testbed, nodes, point, trigger).await?;
        let reached = tokio::select! {
            reached = first_reached(&mut armings) => reached,
            () = sleep_until(deadline) => None,
        };
        let pid_of = |node| testbed.process(node).map(|process| process.pid());
        let held = reached.and_then(|(node, arm, place)| {
            let words = describe(node, point, &place);
            pid_of(node).map(|pid| Held { node, arm, pid, point, words })
        });
        for arming in &armings {
            if held.as_ref().is_none_or(|held| (held.node, held.arm) != (arming.node, arming.arm)) {
                testbed.release(arming.node, arming.arm).await;
            }
        }
        if let Some(held) = held {
            return Ok(held);
        }
        if Instant::now() >= deadline {
            return Err(Miss::NotReached(format!("no task of nodes {nodes:?} passed {point}")));
        }
        // Nobody runs, or whoever was armed has died since.
        sleep(RETRY_PERIOD).await;
    }
}

/// Arms the point on every node that runs.
async fn arm_all(
    testbed: &Arc<Testbed>,
    nodes: &[usize],
    point: CrashPoint,
    trigger: &Trigger,
) -> Result<Vec<Arming>, Miss> {
    let (nth, (bucket, key)) = (trigger.nth.unwrap_or(1), trigger.place());
    let (bucket, key) = (bucket.map(str::to_owned), key.map(str::to_owned));
    let mut armings = Vec::new();
    for node in nodes {
        let (action, bucket, key) = (ArmAction::Hold, bucket.clone(), key.clone());
        let request = ArmRequest { point, nth, action, drive: None, bucket, key };
        match testbed.arm(*node, request).await {
            Ok(arming) => armings.push(arming),
            Err(TestbedError::NotRunning { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(armings)
}

/// The first that was reached; `None` when every node has died.
async fn first_reached(armings: &mut [Arming]) -> Option<(usize, u64, Place)> {
    let mut waiting: FuturesUnordered<_> = armings
        .iter_mut()
        .map(|arming| async move { (arming.node, arming.arm, arming.reached().await) })
        .collect();
    while let Some((node, arm, place)) = waiting.next().await {
        if let Some(place) = place {
            return Some((node, arm, place));
        }
    }
    None
}

/// Where a task is held, in words.
fn describe(node: usize, point: CrashPoint, place: &Place) -> String {
    let drive = place.drive.as_ref().map(|drive| format!(" on drive {drive}")).unwrap_or_default();
    format!("node {node} was held at {point}{drive} for {}/{}", place.bucket, place.key)
}

/// Lets the held task go on, if its process still lives.
pub(super) async fn let_go(testbed: &Testbed, held: &Held) {
    if testbed.process(held.node).is_some_and(|process| process.pid() == held.pid) {
        testbed.release(held.node, held.arm).await;
    }
}
