//! The census of existing drives: reads only, and shares only the format with the node.
//!
//! [`take`] looks at everything once. The walk (names), then each key: its metadata on every drive, its
//! versions, every frame of every shard, every stripe encoded again, the contents. [`take_twice`] looks again at
//! what changed meanwhile, for drives that may be in use. What is wrong on a drive is never an error
//! but a part of the census; the order of everything in it depends on the drives alone.

pub mod census;
pub mod figures;
pub mod lease;

mod content;
mod key;
mod object;
mod part;
mod pool;
pub mod replacement;
mod stripe;
mod surplus;
mod version;
mod walk;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread;

use crate::disk::layout;
use crate::harness::audit::census::BucketCensus;
use crate::harness::audit::census::CENSUS_FORMAT;
use crate::harness::audit::census::Census;
use crate::harness::audit::census::DriveProblem;
use crate::harness::audit::census::KeyCensus;
use crate::harness::audit::census::ProblemKind;
use crate::harness::audit::key::Key;
use crate::harness::audit::key::KeyFinding;
use crate::harness::audit::part::Buffers;
use crate::harness::audit::pool::Pool;
use crate::harness::audit::walk::Tree;
use crate::value::ObjectKey;

/// One drive to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriveSource {
    /// How reports name it, `node/slot` or a path.
    pub name: String,
    /// Where its root is. A path that does not exist is a drive that is missing.
    pub root: PathBuf,
}

/// How closely to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditOptions {
    /// Whether SHA-256 of every version's contents is computed.
    pub digests: bool,
    /// Whether contents are compared with the ETags and checksums stored with them.
    pub contents: bool,
    /// Threads; 0 for as many as the machine has.
    pub threads: usize,
}

impl Default for AuditOptions {
    fn default() -> Self {
        Self { digests: true, contents: true, threads: 0 }
    }
}

/// Why no census could be taken.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// No drive was named.
    #[error("no drive was named")]
    NoDrives,
    /// None is formatted.
    #[error("none of the drives belongs to a deployment: {}", seen.join("; "))]
    NoDeployment {
        /// What stands at each instead.
        seen: Vec<String>,
    },
    /// As many drives belong to one deployment as to another.
    #[error("the drives belong to several deployments, and none has more of them than the others")]
    TwoDeployments,
}

/// Takes the census of one deployment. `drives` need not be in order; one that is missing, blank or foreign is
/// reported as such, in the slot of its position when the others are in order.
///
/// # Errors
///
/// See [`AuditError`]. What is wrong on a drive is no error but a part of the census.
pub fn take(drives: &[DriveSource], options: &AuditOptions) -> Result<Census, AuditError> {
    let pool = Pool::open(drives)?;
    let trees = walk_all(&pool, options);
    Ok(census_of(&pool, &trees, options))
}

/// As [`take`], and names the keys that something happened to while it looked: what the census says of them
/// is undecided.
///
/// # Errors
///
/// See [`AuditError`].
pub fn take_twice(
    drives: &[DriveSource],
    options: &AuditOptions,
) -> Result<(Census, Vec<ObjectKey>), AuditError> {
    let pool = Pool::open(drives)?;
    let before = walk_all(&pool, options);
    let census = census_of(&pool, &before, options);
    let after = walk_all(&pool, options);
    Ok((census, moving(&before, &after)))
}

/// The keys whose files are not what they were.
fn moving(before: &[Tree], after: &[Tree]) -> Vec<ObjectKey> {
    let mut moving = BTreeSet::new();
    for (one, other) in before.iter().zip(after) {
        for place in one.dirs.keys().chain(other.dirs.keys()) {
            if one.dirs.get(place) != other.dirs.get(place) {
                let (bucket, path) = place.clone();
                moving.insert(ObjectKey { bucket, key: layout::decode_key(&path) });
            }
        }
    }
    moving.into_iter().collect()
}

/// A key in the set where it is judged.
struct Task<'a> {
    bucket: &'a str,
    path: &'a str,
    set: usize,
    /// Positions of drives of other sets that hold it too.
    strayed: Vec<usize>,
}

fn census_of(pool: &Pool, trees: &[Tree], options: &AuditOptions) -> Census {
    let tasks = tasks(pool, trees);
    let judged = in_parallel(options, tasks.len(), |index, buffers| {
        judge(pool, trees, &tasks[index], options, buffers)
    });
    let mut drives = pool.census();
    let mut surplus = Vec::new();
    for (position, tree) in trees.iter().enumerate() {
        drives[position].problems.extend(tree.problems.iter().cloned());
        let name = &pool.seats[position].name;
        surplus.extend(tree.surplus.iter().cloned().map(|mut it| {
            it.drive.clone_from(name);
            it
        }));
    }
    let mut keys = Vec::new();
    let mut bytes_read = 0;
    for finding in judged {
        keys.extend(finding.census);
        surplus.extend(finding.surplus);
        bytes_read += finding.bytes_read;
    }
    keys.sort_by(|one: &KeyCensus, other| (&one.target, one.set).cmp(&(&other.target, other.set)));
    let positions = pool.seats.iter().enumerate().map(|(position, seat)| (&seat.name, position));
    let positions = positions.collect::<BTreeMap<_, _>>();
    surplus.sort_by(|one, other| {
        let place = |drive| positions.get(drive).copied().unwrap_or(usize::MAX);
        (place(&one.drive), &one.path, one.kind).cmp(&(
            place(&other.drive),
            &other.path,
            other.kind,
        ))
    });
    let deployment = pool.is_majority.then(|| pool.format.id.hyphenated().to_string());
    Census {
        format: CENSUS_FORMAT,
        deployment,
        drives,
        buckets: buckets(pool, trees),
        keys,
        surplus,
        replacement: replacement::of_pool(pool),
        catalog: None,
        bytes_read,
    }
}

fn buckets(pool: &Pool, trees: &[Tree]) -> Vec<BucketCensus> {
    let names = trees.iter().flat_map(|tree| &tree.buckets).collect::<BTreeSet<_>>();
    names
        .into_iter()
        .map(|name| {
            let missing =
                pool.seats.iter().zip(trees).filter(|(_, tree)| !tree.buckets.contains(name));
            BucketCensus {
                name: name.clone(),
                missing_on: missing.map(|(seat, _)| seat.name.clone()).collect(),
            }
        })
        .collect()
}

/// Walks every member; the others have empty trees.
fn walk_all(pool: &Pool, options: &AuditOptions) -> Vec<Tree> {
    in_parallel(options, pool.seats.len(), |index, _| match &pool.seats[index].root {
        Some(root) => Tree::walk(root).settled(),
        None => Tree::default(),
    })
}

/// Every place where any drive has something, in the set where it belongs.
fn tasks<'a>(pool: &Pool, trees: &'a [Tree]) -> Vec<Task<'a>> {
    let mut found = BTreeMap::<(&str, &str), Vec<usize>>::new();
    for (position, tree) in trees.iter().enumerate() {
        for (bucket, path) in tree.dirs.keys() {
            found.entry((bucket, path)).or_default().push(position);
        }
    }
    let mut tasks = Vec::new();
    for ((bucket, path), positions) in found {
        let sets =
            positions.iter().map(|position| position / pool.slots()).collect::<BTreeSet<_>>();
        if stands_in_every_set(bucket, path) {
            let each = |set| Task { bucket, path, set, strayed: Vec::new() };
            tasks.extend(sets.into_iter().map(each));
            continue;
        }
        let home = pool.set_of(path);
        // A key that stands only where it does not belong is judged there.
        let set = if sets.contains(&home) { home } else { sets.first().copied().unwrap_or(home) };
        let is_away = |position: &usize| {
            let own = position / pool.slots();
            own != home
                && trees[*position]
                    .dirs
                    .get(&(bucket.to_owned(), path.to_owned()))
                    .is_some_and(|dir| dir.has_meta)
        };
        let strayed = positions.into_iter().filter(is_away).collect();
        tasks.push(Task { bucket, path, set, strayed });
    }
    tasks
}

/// Caches that a server keeps in every set, whatever their names hash to.
fn stands_in_every_set(bucket: &str, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    bucket == layout::SYSTEM && matches!(name, ".usage-cache.bin" | ".usage-cache.bin.bkp")
}

fn judge(
    pool: &Pool,
    trees: &[Tree],
    task: &Task<'_>,
    options: &AuditOptions,
    buffers: &mut Buffers,
) -> KeyFinding {
    let place = (task.bucket.to_owned(), task.path.to_owned());
    let first = task.set * pool.slots();
    let dirs =
        trees[first..first + pool.slots()].iter().map(|tree| tree.dirs.get(&place)).collect();
    let mut bytes_read = 0;
    let seats = pool.set(task.set);
    let key = Key::read(task.bucket, task.path, task.set, seats, dirs, &mut bytes_read);
    let mut finding = key.judge(options, buffers);
    finding.bytes_read += bytes_read;
    if let Some(census) = &mut finding.census {
        let home = pool.set_of(task.path);
        census.problems.extend(task.strayed.iter().map(|position| DriveProblem {
            drive: pool.seats[*position].name.clone(),
            kind: ProblemKind::WrongSet,
            path: format!("{}/{}/{}", task.bucket, task.path, layout::META_FILE),
            detail: format!(
                "it stands in set {}, the key belongs in set {home}",
                position / pool.slots()
            ),
        }));
    }
    finding
}

/// Does `work` for every index, on several threads; the answers are in the order of the indexes.
fn in_parallel<T: Send>(
    options: &AuditOptions,
    count: usize,
    work: impl Fn(usize, &mut Buffers) -> T + Sync,
) -> Vec<T> {
    let machine = thread::available_parallelism().map_or(1, usize::from);
    let threads = if options.threads == 0 { machine } else { options.threads }.min(count).max(1);
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(count));
    let run = || {
        let mut buffers = Buffers::default();
        let mut own = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            own.push((index, work(index, &mut buffers)));
        }
        done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(own);
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(run);
        }
        run();
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, answer)| answer).collect()
}

#[cfg(test)]
mod tests;
