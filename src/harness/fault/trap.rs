//! `lost_reply` and `half_request`: requests that are caught on their way between a client and a node.
//!
//! The trap waits in the proxy. `Injected` is told for each request that it has caught, with what the proxy saw:
//! the answer that it threw away, or how far the request got.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use futures::future::BoxFuture;
use futures::future::FutureExt;
use tokio::sync::mpsc;

use super::Injected;
use super::Scene;
use super::Standing;
use crate::harness::scenario::fault::HalfRequest;
use crate::harness::scenario::fault::LostReply;
use crate::harness::scenario::fault::RequestKind;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::traps::Trap;
use crate::harness::testbed::traps::TrapAction;

struct Set {
    id: u64,
    node: usize,
    caught: Arc<AtomicUsize>,
}

pub(super) async fn lose_replies(fault: &LostReply, scene: &Scene<'_>) -> Injected {
    let LostReply { node, request, count, .. } = fault;
    set(scene, *node, *request, *count, TrapAction::LoseReply)
}

pub(super) async fn cut_requests(fault: &HalfRequest, scene: &Scene<'_>) -> Injected {
    let HalfRequest { node, request, count, .. } = fault;
    set(scene, *node, *request, *count, TrapAction::CutInHalf)
}

fn set(
    scene: &Scene<'_>,
    node: usize,
    kind: RequestKind,
    count: usize,
    action: TrapAction,
) -> Injected {
    let (told, mut caught_now) = mpsc::unbounded_channel();
    let trap = Trap { id: scene.id, action, kind, left: count, told };
    scene.testbed.network().set_trap(node, trap);
    let caught = Arc::new(AtomicUsize::new(0));
    let (teller, counter) = (scene.teller.clone(), Arc::clone(&caught));
    // Ends when the trap is lifted, and with it the sender.
    tokio::spawn(async move {
        while let Some(evidence) = caught_now.recv().await {
            counter.fetch_add(1, Ordering::SeqCst);
            teller.injected(evidence.clone());
            // The request itself is the work that it was in force for.
            teller.in_force(evidence);
        }
    });
    Ok(Some(Box::new(Set { id: scene.id, node, caught })))
}

impl Standing for Set {
    fn measure<'a>(&'a mut self, _: &'a Arc<Testbed>) -> BoxFuture<'a, Option<String>> {
        // Told for each request already.
        async move { None }.boxed()
    }

    fn heal<'a>(
        &'a mut self,
        testbed: &'a Arc<Testbed>,
    ) -> BoxFuture<'a, Result<String, TestbedError>> {
        async move {
            let left = testbed.network().lift_trap(self.node, self.id);
            let caught = self.caught.load(Ordering::SeqCst);
            Ok(format!("{caught} requests were caught; the trap still waited for {left}"))
        }
        .boxed()
    }

    fn is_waiting(&self) -> bool {
        self.caught.load(Ordering::SeqCst) == 0
    }
}
