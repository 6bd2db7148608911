//! `pause`: one node is frozen and goes on later, as if nothing had happened.
//!
//! Evidence: every thread of it is stopped, and it used no processor time meanwhile. Ends by itself.

use std::time::Duration;

use tokio::time::sleep;

use super::Injected;
use super::Miss;
use super::Scene;
use crate::harness::scenario::fault::Pause;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::processes;
use crate::harness::workload::history::Event;
use crate::harness::workload::history::NodeState;

pub(super) async fn inject(fault: &Pause, scene: &Scene<'_>) -> Injected {
    let (testbed, node) = (scene.testbed, fault.node);
    if !testbed.is_running(node) {
        return Err(Miss::NotReached(format!("node {node} did not run")));
    }
    let work = scene.work();
    let process = testbed.freeze_node(node).await?;
    let tell = |state| (testbed.context().events)(Event::Node { node, state });
    tell(NodeState::Paused);
    let pid = process.pid();
    let look =
        || processes::stat(pid).map_err(TestbedError::io("look at", format!("process {pid}")));
    let before = look()?;
    let threads = processes::thread_states(pid).map(|states| states.len()).unwrap_or_default();
    scene.teller.injected(format!("{threads} threads of process {pid} are stopped"));
    sleep(Duration::from_millis(fault.for_ms)).await;
    let after = look();
    testbed.unfreeze_node(node)?;
    tell(NodeState::Resumed);
    let after = after?;
    if after.cpu_ticks != before.cpu_ticks || !matches!(after.state, 'T' | 'D') {
        let used = after.cpu_ticks - before.cpu_ticks;
        let state = after.state;
        return Err(Miss::NotReached(format!(
            "it did not stay stopped: state {state}, {used} ticks of processor time used"
        )));
    }
    if let Some(hit) = work.went_on(scene.progress) {
        let ms = fault.for_ms;
        scene.teller.in_force(format!("no processor time used in {ms} ms; {hit}"));
    }
    scene.teller.healed(format!("process {pid} goes on"));
    Ok(None)
}
