//! `partition` and `delay`: nodes cannot reach each other, or only slowly; clients still reach all.
//!
//! What is cut is thrown away, never kept for later: on a connection of either side, in the direction that is
//! cut. Evidence: a question of ours through the same line that got no answer, or a late one, and pieces of
//! the nodes' own traffic that were thrown away.

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
use crate::harness::scenario::fault::Delay;
use crate::harness::scenario::fault::Partition;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::lines::Rule;

/// How long a question over a cut line must stay without an answer.
const SILENCE_AT_LEAST: Duration = Duration::from_millis(200);
/// How long an answer over a whole line may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);

/// Lines that are cut or slow.
struct Slowed {
    id: u64,
    pairs: Vec<(usize, usize)>,
    by: Option<Duration>,
    thrown_away_then: u64,
}

/// Every sender with every receiver.
fn pairs(from: &[usize], to: &[usize]) -> Vec<(usize, usize)> {
    let all = from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to)));
    all.filter(|(from, to)| from != to).collect()
}

pub(super) async fn cut(fault: &Partition, scene: &Scene<'_>) -> Injected {
    let pairs = pairs(&fault.from, &fault.to);
    let mut rules: Vec<Rule> =
        pairs.iter().map(|(from, to)| Rule::Cut { from: *from, to: *to }).collect();
    if !fault.one_way {
        rules.extend(pairs.iter().map(|(from, to)| Rule::Cut { from: *to, to: *from }));
    }
    lay(scene, pairs, rules, None).await
}

pub(super) async fn delay(fault: &Delay, scene: &Scene<'_>) -> Injected {
    let pairs = pairs(&fault.from, &fault.to);
    let by = Duration::from_millis(fault.by_ms);
    let both = pairs.iter().flat_map(|(from, to)| [(*from, *to), (*to, *from)]);
    let mut rules: Vec<Rule> = both.map(|(from, to)| Rule::Delay { from, to, by }).collect();
    // Nodes that stand on both sides are slowed once.
    rules.sort_by_key(|rule| match rule {
        Rule::Delay { from, to, .. } => (*from, *to),
        _ => (0, 0),
    });
    rules.dedup();
    lay(scene, pairs, rules, Some(by)).await
}

async fn lay(
    scene: &Scene<'_>,
    pairs: Vec<(usize, usize)>,
    rules: Vec<Rule>,
    by: Option<Duration>,
) -> Injected {
    if pairs.is_empty() {
        return Err(Miss::NotReached("no line lies between these nodes".to_owned()));
    }
    let testbed = scene.testbed;
    testbed.network().lay(scene.id, rules);
    let thrown_away_then = thrown_away(testbed, &pairs);
    let slowed = Slowed { id: scene.id, pairs, by, thrown_away_then };
    match slowed.seen(testbed).await {
        Some(words) => {
            scene.teller.injected(words);
            Ok(Some(Box::new(slowed)))
        }
        None => {
            testbed.network().lift(scene.id);
            Err(Miss::NotReached("the lines are as they were".to_owned()))
        }
    }
}

fn thrown_away(testbed: &Testbed, pairs: &[(usize, usize)]) -> u64 {
    pairs.iter().map(|(from, to)| testbed.network().thrown_away(*from, *to)).sum()
}

impl Slowed {
    fn address(&self, testbed: &Testbed, pair: &(usize, usize)) -> SocketAddr {
        testbed.network().peer_address(pair.0, pair.1)
    }

    /// What a question of ours over each line shows; `None` when one got its answer as usual.
    async fn seen(&self, testbed: &Testbed) -> Option<String> {
        let mut words = Vec::new();
        for pair in &self.pairs {
            let (from, to) = pair;
            if !testbed.is_running(*to) {
                words.push(format!("node {to} does not run"));
                continue;
            }
            let address = self.address(testbed, pair);
            match self.by {
                None => {
                    if probe::ask(address, SILENCE_AT_LEAST).await.is_some() {
                        return None;
                    }
                    let ms = SILENCE_AT_LEAST.as_millis();
                    words.push(format!("no answer from {to} to {from} within {ms} ms"));
                }
                Some(by) => {
                    let took = probe::ask(address, ANSWER_PATIENCE + 4 * by).await?;
                    if took < by {
                        return None;
                    }
                    let ms = took.as_millis();
                    words.push(format!("an answer from {to} to {from} took {ms} ms"));
                }
            }
        }
        Some(words.join("; "))
    }
}

impl Standing for Slowed {
    fn measure<'a>(&'a mut self, testbed: &'a Arc<Testbed>) -> BoxFuture<'a, Option<String>> {
        async move {
            let lost = thrown_away(testbed, &self.pairs) - self.thrown_away_then;
            let seen = self.seen(testbed).await?;
            let lost = self.by.is_none().then(|| format!("; {lost} pieces were thrown away"));
            Some(format!("{seen}{}", lost.unwrap_or_default()))
        }
        .boxed()
    }

    fn heal<'a>(
        &'a mut self,
        testbed: &'a Arc<Testbed>,
    ) -> BoxFuture<'a, Result<String, TestbedError>> {
        async move {
            testbed.network().lift(self.id);
            let mut answered = 0;
            for pair in &self.pairs {
                let address = self.address(testbed, pair);
                answered += usize::from(probe::ask(address, ANSWER_PATIENCE).await.is_some());
            }
            let all = self.pairs.len();
            Ok(format!("the rules are lifted; {answered} of {all} lines answered a question"))
        }
        .boxed()
    }
}
