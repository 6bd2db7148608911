//! `hang_peer`: a node accepts connections from its peers and never answers them; clients are served.
//!
//! Evidence: a question of ours over a peer's line gets no answer while one past the line does.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::future::FutureExt;

use super::Injected;
use super::Miss;
use super::Scene;
use super::Standing;
use super::probe;
use crate::harness::scenario::fault::HangPeer;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::lines::Rule;

/// How long a question must stay without an answer.
const SILENCE_AT_LEAST: Duration = Duration::from_millis(200);
/// How long an answer over a whole line may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

struct Hung {
    id: u64,
    node: usize,
    line: SocketAddr,
}

pub(super) async fn inject(fault: &HangPeer, scene: &Scene<'_>) -> Injected {
    let (testbed, node) = (scene.testbed, fault.node);
    let Some(peer) = (0..testbed.plan().nodes).find(|peer| *peer != node) else {
        return Err(Miss::NotReached(format!("node {node} has no peer")));
    };
    testbed.network().lay(scene.id, vec![Rule::Hang { node }]);
    let line = testbed.network().peer_address(peer, node);
    let hung = Hung { id: scene.id, node, line };
    match hung.seen(testbed).await {
        Some(words) => {
            scene.teller.injected(words);
            Ok(Some(Box::new(hung)))
        }
        None => {
            testbed.network().lift(scene.id);
            Err(Miss::NotReached(format!("node {node} answers its peers, or nobody")))
        }
    }
}

impl Hung {
    async fn seen(&self, testbed: &Testbed) -> Option<String> {
        let direct = testbed.direct_address(self.node)?;
        let took = probe::ask(direct, ANSWER_PATIENCE).await?;
        if probe::ask(self.line, SILENCE_AT_LEAST).await.is_some() {
            return None;
        }
        let (silent, ms) = (SILENCE_AT_LEAST.as_millis(), took.as_millis());
        Some(format!("no answer to a peer within {silent} ms, to us in {ms} ms"))
    }
}

impl Standing for Hung {
    fn measure<'a>(&'a mut self, testbed: &'a Arc<Testbed>) -> BoxFuture<'a, Option<String>> {
        async move { self.seen(testbed).await }.boxed()
    }

    fn heal<'a>(
        &'a mut self,
        testbed: &'a Arc<Testbed>,
    ) -> BoxFuture<'a, Result<String, TestbedError>> {
        async move {
            testbed.network().lift(self.id);
            Ok(match probe::ask(self.line, ANSWER_PATIENCE).await {
                Some(took) => format!("a peer gets an answer in {} ms", took.as_millis()),
                None => "the rule is lifted; the node does not answer".to_owned(),
            })
        }
        .boxed()
    }
}
