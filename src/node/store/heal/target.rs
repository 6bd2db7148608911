//! Rebuilding the drives of one replacement: pages of a bucket, the system's own objects, and the check of the
//! targets' own shards.
//!
//! The rules of the protocol say what comes next (`protocol::replacement::scan`); here a version is brought and
//! looked at. One is only called rebuilt when every target holds it, whole by names and lengths; the check reads
//! every byte of the targets, and takes none of them for a source.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::FuturesUnordered;
use futures::stream::StreamExt as _;
use tokio::time::Instant;
use uuid::Uuid;

use super::mend;
use super::mend::Manner;
use super::mend::Subject;
use super::queue;
use super::sequence;
use super::surplus;
use super::verify;
use crate::disk::layout;
use crate::node::seams::BoxFuture;
use crate::node::store::Store;
use crate::node::store::api::StoreError;
use crate::node::store::copies::Copies;
use crate::node::store::list::Walker;
use crate::protocol::config::RebuildPace;
use crate::protocol::object::decide::Decision;
use crate::protocol::replacement::checkpoint::ledger_key;
use crate::protocol::replacement::scan::Checked;
use crate::protocol::replacement::scan::Class;
use crate::protocol::replacement::scan::Outcome;

/// Keys that are worked on at once at full pace.
const AT_ONCE_FULL: usize = 8;
/// Keys that are worked on at once beside clients.
const AT_ONCE_BACKGROUND: usize = 2;
/// The longest rest between two batches.
const REST_MAX: Duration = Duration::from_secs(2);

/// How many keys are worked on at once, and whether clients have the drives to themselves for as long after them.
#[derive(Clone, Copy)]
struct Pace {
    at_once: usize,
    rests: bool,
}

impl Pace {
    fn of(store: &Store) -> Self {
        match store.parts.limits.rebuild_pace {
            RebuildPace::Full => Self { at_once: AT_ONCE_FULL, rests: false },
            RebuildPace::Background => Self { at_once: AT_ONCE_BACKGROUND, rests: true },
        }
    }

    /// What follows a batch that began then.
    async fn rest(self, began: Instant) {
        if self.rests {
            tokio::time::sleep(began.elapsed().min(REST_MAX)).await;
        }
    }
}

/// What was done of a page, of the system's objects, or of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// What has become of every version.
    pub outcomes: Vec<Outcome>,
    /// Objects that were listed.
    pub objects: usize,
    /// The last of them, when others may follow.
    pub last: Option<String>,
    /// Why some drive had nothing to say; what was put off may be there once it answers.
    pub away: Option<String>,
    /// Why it was not done to the end.
    pub broken: Option<String>,
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetCheck {
    /// The numbers.
    pub checked: Checked,
    /// The first versions that were not proved.
    pub problems: Vec<String>,
    /// As in [`Rebuilt`].
    pub away: Option<String>,
    /// As in [`Rebuilt`].
    pub broken: Option<String>,
}

/// Rebuilds at most `limit` objects of `bucket` that come after `after`.
pub(in crate::node::store) async fn page(
    store: &Arc<Store>,
    set: usize,
    bucket: &str,
    after: &str,
    limit: usize,
    targets: &[usize],
) -> Rebuilt {
    let since_ns = match queue::bucket_since(store, set, bucket).await {
        Ok(Some(since_ns)) => since_ns,
        // It is gone, and is not made again.
        Ok(None) => return Rebuilt::default(),
        Err(error) => return Rebuilt { broken: Some(error.to_string()), ..Rebuilt::default() },
    };
    if after.is_empty() {
        // Where that fails the versions are put off.
        queue::bucket_directories(store, set, bucket).await;
    }
    let walker = Walker::new(store, set, bucket, "", after, since_ns);
    walk(store, walker, set, since_ns, limit, targets).await
}

/// Rebuilds the system's own objects of the set, open uploads included.
pub(in crate::node::store) async fn internals(
    store: &Arc<Store>,
    set: usize,
    targets: &[usize],
) -> Rebuilt {
    let walker = Walker::new(store, set, layout::SYSTEM, "", "", 0);
    walk(store, walker, set, 0, usize::MAX, targets).await
}

async fn walk(
    store: &Arc<Store>,
    mut walker: Walker,
    set: usize,
    since_ns: i64,
    limit: usize,
    targets: &[usize],
) -> Rebuilt {
    let pace = Pace::of(store);
    let mut rebuilt = Rebuilt::default();
    loop {
        let began = Instant::now();
        let most = pace.at_once.min(limit - rebuilt.objects);
        let subjects = match next_subjects(&mut walker, set, since_ns, most).await {
            Ok(subjects) => subjects,
            Err(error) => {
                rebuilt.broken = Some(error.to_string());
                return rebuilt;
            }
        };
        let is_over = subjects.len() < most;
        rebuilt.objects += subjects.len();
        let last = subjects.last().map(|subject| subject.target.key.clone());
        let mut work = FuturesUnordered::<BoxFuture<'_, Brought>>::new();
        for subject in &subjects {
            work.push(Box::pin(one(store, subject, targets)));
        }
        while let Some((outcomes, away)) = work.next().await {
            rebuilt.outcomes.extend(outcomes);
            rebuilt.away = rebuilt.away.or(away);
        }
        pace.rest(began).await;
        if is_over {
            return rebuilt;
        }
        // A page leads on by a version of it: keys that hold none are passed over.
        if rebuilt.objects >= limit && !rebuilt.outcomes.is_empty() {
            rebuilt.last = last;
            return rebuilt;
        }
        if rebuilt.objects >= limit {
            rebuilt.objects = 0;
        }
    }
}

/// The next keys of a walk, at most so many; fewer when it is over.
async fn next_subjects(
    walker: &mut Walker,
    set: usize,
    since_ns: i64,
    most: usize,
) -> Result<Vec<Subject>, StoreError> {
    let mut subjects = Vec::new();
    while subjects.len() < most {
        let Some(copies) = walker.next().await? else { break };
        subjects.push(Subject { set, target: copies.target, since_ns });
    }
    Ok(subjects)
}

/// What has become of a key's versions, and why some drive had nothing to say.
type Brought = (Vec<Outcome>, Option<String>);

/// Mends one key and says what each of its versions has become.
async fn one(store: &Arc<Store>, subject: &Subject, targets: &[usize]) -> Brought {
    mend::key(store, subject, Manner::default()).await;
    let Subject { set, target, since_ns } = subject;
    let copies = store.read_copies(*set, target, *since_ns, true, |_| false).await;
    let mut outcomes = Vec::new();
    for (id, _) in copies.ids() {
        let (class, bytes) = match copies.decide(id, true) {
            Decision::Present(backing) => {
                let short = surplus::short_slots(&copies, &backing);
                let has = |slot| backing.holders.contains(slot) && !short.contains(slot);
                let is_passed_over = !store.parts.rules.brings(id);
                let class = if is_passed_over || targets.iter().all(has) {
                    Class::Rebuilt
                } else {
                    Class::Skipped
                };
                (class, backing.candidate.size)
            }
            Decision::Absent | Decision::Clear => (Class::Gone, 0),
            // Only what a lost drive had of it could tell: nobody will ever say more.
            Decision::Bring(_) | Decision::Open if surplus::silent(&copies) == 0 => {
                tracing::warn!(%target, %id, "no drive that is left can tell whether it is there");
                (Class::Gone, 0)
            }
            Decision::Bring(_) | Decision::Open => (Class::Skipped, 0),
        };
        let key = ledger_key(&target.key, Uuid::from_bytes(id.0));
        outcomes.push(Outcome { key, class, bytes });
    }
    (outcomes, away(&copies))
}

fn away(copies: &Copies) -> Option<String> {
    let is_silent = surplus::silent(copies) > 0;
    let why = || copies.failure().map_or_else(String::new, |error| error.to_string());
    is_silent.then(|| format!("{}: {}", copies.target, why()))
}

/// Checks every version of the set on every target, byte for byte. What is not there is brought once more
/// before it counts as missing.
pub(in crate::node::store) async fn check(
    store: &Arc<Store>,
    set: usize,
    targets: &[usize],
) -> TargetCheck {
    let pace = Pace::of(store);
    let mut found = TargetCheck::default();
    let mut buckets = vec![layout::SYSTEM.to_owned()];
    buckets.extend(sequence::bucket_names(store).await);
    for bucket in buckets {
        let since_ns = match queue::bucket_since(store, set, &bucket).await {
            Ok(Some(since_ns)) => since_ns,
            Ok(None) => continue,
            Err(error) => {
                found.broken = Some(error.to_string());
                return found;
            }
        };
        let mut walker = Walker::new(store, set, &bucket, "", "", since_ns);
        loop {
            let began = Instant::now();
            let subjects = match next_subjects(&mut walker, set, since_ns, pace.at_once).await {
                Ok(subjects) => subjects,
                Err(error) => {
                    found.broken = Some(error.to_string());
                    return found;
                }
            };
            if subjects.is_empty() {
                break;
            }
            let mut work = FuturesUnordered::<BoxFuture<'_, Proved>>::new();
            for subject in &subjects {
                work.push(Box::pin(proved(store, subject, targets)));
            }
            while let Some((versions, problems, away)) = work.next().await {
                found.checked.versions += versions;
                found.checked.unproved += problems.len() as u64;
                found.problems.extend(problems);
                found.away = found.away.or(away);
            }
            pace.rest(began).await;
        }
    }
    found
}

/// How many versions a key has, which of them are not proved, and why some drive had nothing to say.
type Proved = (u64, Vec<String>, Option<String>);

async fn proved(store: &Arc<Store>, subject: &Subject, targets: &[usize]) -> Proved {
    let Subject { set, target, since_ns } = subject;
    let mut problems = Vec::new();
    let mut copies = store.read_copies(*set, target, *since_ns, true, |_| false).await;
    for is_last in [false, true] {
        problems = unproved(store, &copies, targets).await;
        if problems.is_empty() || is_last {
            break;
        }
        mend::key(store, subject, Manner { deep: true, ..Manner::default() }).await;
        copies = store.read_copies(*set, target, *since_ns, true, |_| false).await;
    }
    (copies.ids().len() as u64, problems, away(&copies))
}

async fn unproved(store: &Arc<Store>, copies: &Copies, targets: &[usize]) -> Vec<String> {
    let apart: BTreeSet<usize> = targets.iter().copied().collect();
    let mut problems = Vec::new();
    for (id, _) in copies.ids() {
        let backing = match copies.decide(id, true) {
            Decision::Present(backing) => backing,
            Decision::Absent | Decision::Clear => continue,
            Decision::Bring(_) | Decision::Open if surplus::silent(copies) == 0 => continue,
            Decision::Bring(_) | Decision::Open => {
                problems.push(format!("{} version {id}: undecided", copies.target));
                continue;
            }
        };
        let is_plain = backing.candidate.marker || surplus::is_upload(&copies.target);
        let bad = match is_plain {
            true => Ok(BTreeSet::new()),
            false => verify::bad_slots(store, copies, &backing, &apart).await,
        };
        match bad {
            Err(error) => problems.push(format!("{} version {id}: {error}", copies.target)),
            Ok(bad) => {
                if !store.parts.rules.brings(id) {
                    continue;
                }
                let lacks = |slot: &&usize| !backing.holders.contains(slot) || bad.contains(slot);
                if let Some(slot) = targets.iter().find(lacks) {
                    problems.push(format!("{} version {id} on slot {slot}", copies.target));
                }
            }
        }
    }
    problems
}
