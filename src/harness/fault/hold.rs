//! `hold`: the task that passes a crash point is held there until healed; the node serves on.
//!
//! What a scenario does meanwhile is done for certain while that task stands where it stands. Evidence: the node's
//! word that the task is parked, and that its process lives. Healed by letting the task go.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::future::FutureExt;

use super::Held;
use super::Injected;
use super::Miss;
use super::Scene;
use super::Standing;
use super::trigger;
use crate::harness::scenario::fault::Hold;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;

struct Holding {
    held: Held,
}

#[expect(clippy::unused_async, reason = "every fault is injected the same way")]
pub(super) async fn inject(_: &Hold, scene: &Scene<'_>) -> Injected {
    let Some(held) = scene.held else {
        return Err(Miss::NotReached("no task is held".to_owned()));
    };
    scene.teller.injected(held.words.clone());
    Ok(Some(Box::new(Holding { held: held.clone() })))
}

impl Holding {
    /// Whether the process whose task is held lives.
    fn lives(&self, testbed: &Testbed) -> bool {
        testbed.process(self.held.node).is_some_and(|process| process.pid() == self.held.pid)
    }
}

impl Standing for Holding {
    fn measure<'a>(&'a mut self, testbed: &'a Arc<Testbed>) -> BoxFuture<'a, Option<String>> {
        async move { self.lives(testbed).then(|| self.held.words.clone()) }.boxed()
    }

    fn heal<'a>(
        &'a mut self,
        testbed: &'a Arc<Testbed>,
    ) -> BoxFuture<'a, Result<String, TestbedError>> {
        async move {
            let lived = self.lives(testbed);
            trigger::let_go(testbed, &self.held).await;
            Ok(match lived {
                true => "the task was let go".to_owned(),
                false => "the process of the task had ended".to_owned(),
            })
        }
        .boxed()
    }
}
