//! How soon a migration has its fence while writers commit.
//!
//! From outside: from the moment that the migration is asked for until the first commit is answered with the fence. A
//! commit that is acknowledged although it was sent after the migration's answer would be a broken fence.

use std::time::Duration;
use std::time::Instant;

use futures::future;
use tokio::sync::watch;
use tokio::time;

use super::Options;
use super::cluster::Client;
use super::cluster::Cluster;
use super::cluster::Ground;
use super::cluster::THREE_BY_FOUR;
use super::cluster::at;
use super::cluster::refused;
use super::cluster::table;
use super::commits;
use super::goals::Goal;
use super::goals::Goals;
use crate::harness::operator::catalog::ask::Outcome;
use crate::harness::runner::bench::Tell;
use crate::harness::runner::bench::numbers::median;

const WAREHOUSE: &str = "bench-fence";
/// Writers, each to a table of its own.
const WRITERS: usize = 8;
/// Commits of all writers before a migration is asked for.
const UNDER_WAY: usize = 3 * WRITERS;
/// How long a fence may take before it is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// How soon a migration whose locks were not granted is asked for again.
const AGAIN: Duration = Duration::from_millis(50);

/// How a commit was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Committed,
    Fenced,
    Busy,
}

/// A commit.
#[derive(Debug, Clone, Copy)]
struct Sent {
    sent: Instant,
    answered: Instant,
    answer: Answer,
}

/// What one migration saw.
#[derive(Debug, Clone, Copy)]
struct Fenced {
    /// Until the first commit was answered with the fence.
    fence_s: f64,
    /// Until the migration was answered.
    whole_s: f64,
    /// Commits that were acknowledged before it was asked for.
    before: usize,
    /// How often it was asked for: once more each time that its locks were not granted.
    asked: usize,
}

/// Measures it as often as there are runs.
pub(super) async fn measure(
    options: &Options,
    ground: &Ground<'_>,
    goals: &mut Goals,
    tell: Tell<'_>,
) -> Result<(), String> {
    let cluster = ground.cluster(THREE_BY_FOUR).await?;
    let measured = fences(options, &cluster, goals, tell).await;
    cluster.end(measured).await
}

async fn fences(
    options: &Options,
    cluster: &Cluster,
    goals: &mut Goals,
    tell: Tell<'_>,
) -> Result<(), String> {
    cluster.warehouse(WAREHOUSE).await?;
    let mut client = cluster.client(0).await?;
    for number in 0..WRITERS {
        client.create(WAREHOUSE, &table(number)).await?;
    }
    client.done(&at(WAREHOUSE).backfill()).await?;
    let mut all = Vec::new();
    for _ in 0..options.runs {
        all.push(one(cluster, &mut client).await?);
        client.done(&at(WAREHOUSE).cancel()).await?;
    }
    let of = |what: fn(&Fenced) -> f64| all.iter().map(what).collect::<Vec<_>>();
    let slowest = of(|it| it.fence_s).into_iter().fold(0.0, f64::max);
    let asked: usize = all.iter().map(|it| it.asked).sum();
    let commits: usize = all.iter().map(|it| it.before).sum();
    tell(&format!(
        "Fence: 3×4, {WRITERS} writers, {} migrations, asked for {asked} times, {commits} commits before them: fenced in \
         {:.0} ms, the slowest in {:.0} ms; whole migration {:.0} ms.",
        options.runs,
        median(of(|it| it.fence_s)) * 1e3,
        slowest * 1e3,
        median(of(|it| it.whole_s)) * 1e3,
    ));
    goals.set(Goal::Fence, slowest);
    Ok(())
}

async fn one(cluster: &Cluster, client: &mut Client) -> Result<Fenced, String> {
    let clients = future::try_join_all((0..WRITERS).map(|it| cluster.client(it))).await?;
    let (end, ended) = watch::channel(false);
    let (count, mut counted) = watch::channel(0);
    let writers = clients
        .into_iter()
        .enumerate()
        .map(|(writer, client)| write(client, writer, &count, ended.clone()));
    let migration = async {
        // Whether they are under way by then is for the answers to say.
        let _ = time::timeout(PATIENCE, counted.wait_for(|count| *count >= UNDER_WAY)).await;
        let asked = migrate(client).await;
        if asked.is_err() {
            // Nobody would be fenced.
            let _ = end.send(true);
        }
        asked
    };
    let (sent, migrated) = future::join(future::join_all(writers), migration).await;
    let (began, answered, asked) = migrated?;
    let sent: Vec<Sent> = sent.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
    seen(&sent, began, answered, asked)
}

/// Asks for the migration until its locks are granted; says when it was asked for first, when it was answered, and how
/// often it was asked for.
async fn migrate(client: &mut Client) -> Result<(Instant, Instant, usize), String> {
    let (ask, began) = (at(WAREHOUSE).migrate(), Instant::now());
    for asked in 1.. {
        let told = client.ask(&ask).await?;
        if told.outcome == Outcome::Done {
            return Ok((began, Instant::now(), asked));
        }
        if told.status != Some(503) || began.elapsed() > PATIENCE {
            return Err(refused(&ask, &told));
        }
        time::sleep(AGAIN).await;
    }
    unreachable!("it is asked for without end")
}

/// Commits until the fence answers, or nobody raises one.
async fn write(
    mut client: Client,
    writer: usize,
    count: &watch::Sender<usize>,
    ended: watch::Receiver<bool>,
) -> Result<Vec<Sent>, String> {
    let (began, mut all) = (Instant::now(), Vec::new());
    while !*ended.borrow() && began.elapsed() < 2 * PATIENCE {
        let ask = commits::commit(WAREHOUSE, &table(writer), writer, all.len());
        let sent = Instant::now();
        let told = client.ask(&ask).await?;
        let answer = match (told.outcome, told.status) {
            (Outcome::Done, _) => Answer::Committed,
            (Outcome::Refused, Some(409)) if told.words.contains("is fenced") => Answer::Fenced,
            (Outcome::Refused, Some(503)) => Answer::Busy,
            _ => return Err(refused(&ask, &told)),
        };
        all.push(Sent { sent, answered: Instant::now(), answer });
        if answer == Answer::Fenced {
            break;
        }
        count.send_modify(|count| *count += 1);
    }
    Ok(all)
}

/// What the writers' answers say of the fence.
fn seen(sent: &[Sent], began: Instant, answered: Instant, asked: usize) -> Result<Fenced, String> {
    let of = |answer: Answer| sent.iter().filter(move |it| it.answer == answer);
    if of(Answer::Committed).any(|it| it.sent > answered) {
        return Err("a commit was acknowledged that was sent behind the fence".to_owned());
    }
    let first = of(Answer::Fenced).map(|it| it.answered).min();
    let first = first.ok_or("no writer met the fence")?;
    let before = of(Answer::Committed).filter(|it| it.answered < began).count();
    if before == 0 {
        return Err("no commit was acknowledged before the migration was asked for".to_owned());
    }
    Ok(Fenced {
        fence_s: first.saturating_duration_since(began).as_secs_f64(),
        whole_s: answered.saturating_duration_since(began).as_secs_f64(),
        before,
        asked,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_stands_when_the_first_writer_meets_it_and_nobody_passes_it() {
        let zero = Instant::now();
        let at = |ms: u64| zero + Duration::from_millis(ms);
        let commit =
            |sent, answered, answer| Sent { sent: at(sent), answered: at(answered), answer };
        let good = [
            commit(0, 50, Answer::Committed),
            commit(60, 140, Answer::Committed),
            commit(90, 200, Answer::Busy),
            commit(150, 260, Answer::Fenced),
            commit(160, 240, Answer::Fenced),
        ];
        let fenced = seen(&good, at(100), at(300), 1).expect("it stands");
        assert!((0.139..0.141).contains(&fenced.fence_s), "{fenced:?}");
        assert!((0.199..0.201).contains(&fenced.whole_s) && fenced.before == 1, "{fenced:?}");
        let passed = [&good[..], &[commit(310, 320, Answer::Committed)]].concat();
        assert!(seen(&passed, at(100), at(300), 1).is_err(), "one got past it");
        assert!(seen(&good[..3], at(100), at(300), 1).is_err(), "nobody met it");
        assert!(seen(&good[1..], at(100), at(300), 1).is_err(), "nobody wrote before");
    }
}
