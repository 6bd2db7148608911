//! `kill`: every process of one node dies. Loses nothing that was written.
//!
//! Evidence: the process was reaped with signal 9, and clients are refused. Healed by starting it.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::future::FutureExt;

use super::Injected;
use super::Miss;
use super::Scene;
use super::Standing;
use super::probe;
use crate::harness::scenario::fault::Kill;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;

struct Killed {
    node: usize,
}

pub(super) async fn inject(fault: &Kill, scene: &Scene<'_>) -> Injected {
    let (testbed, node) = (scene.testbed, fault.node);
    let Some(process) = testbed.process(node) else {
        return Err(Miss::NotReached(format!("node {node} did not run")));
    };
    let work = scene.work();
    testbed.kill(node).await?;
    let status = process.status().map(|status| status.to_string()).unwrap_or_default();
    let refused = match probe::is_refused(testbed.client_address(node)).await {
        true => "clients are refused",
        false => "but a client got a connection",
    };
    scene.teller.injected(format!("process {} was reaped: {status}; {refused}", process.pid()));
    scene.sight("before the node starts again").await?;
    if let Some(hit) = work.held.as_ref() {
        scene.teller.in_force(hit.clone());
    }
    Ok(Some(Box::new(Killed { node })))
}

impl Standing for Killed {
    fn measure<'a>(&'a mut self, testbed: &'a Arc<Testbed>) -> BoxFuture<'a, Option<String>> {
        async move {
            (!testbed.is_running(self.node)).then(|| format!("node {} does not run", self.node))
        }
        .boxed()
    }

    fn heal<'a>(
        &'a mut self,
        testbed: &'a Arc<Testbed>,
    ) -> BoxFuture<'a, Result<String, TestbedError>> {
        async move {
            if testbed.is_running(self.node) {
                return Ok(format!("node {} runs again", self.node));
            }
            testbed.start(self.node).await?;
            Ok(format!("node {} was started and listens", self.node))
        }
        .boxed()
    }

    fn starts_nodes(&self) -> bool {
        true
    }
}
