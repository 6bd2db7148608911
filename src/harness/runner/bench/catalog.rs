//! How fast the table catalog is: commits, a migration, the load of a strong snapshot, and the fence.
//!
//! Real clusters on loop drives on a tmpfs, strict, asked over the wire. What cannot be made through the wire in a
//! reasonable time, ten thousand tables or a snapshot near its cap, is written onto the drives of a stopped node as the
//! node would have written it. Each row is told as soon as it is known; the goals come at the end, each beside its figure.

mod cluster;
mod commits;
mod fence;
mod generated;
mod goals;
mod migration;
mod snapshot;

use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use super::Tell;
use cluster::Ground;
use goals::Goals;

/// A part of the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Commits a second, by tables and writers, in both backings.
    Commits,
    /// Creations, preflights and migrations, by tables.
    Migration,
    /// The load of a large strong snapshot, with the memory that it takes.
    Snapshot,
    /// How soon a migration has its fence while writers commit.
    Fence,
}

impl Part {
    /// All of them, as they are called.
    pub const ALL: [(&'static str, Self); 4] = [
        ("commits", Self::Commits),
        ("migration", Self::Migration),
        ("snapshot", Self::Snapshot),
        ("fence", Self::Fence),
    ];
}

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// The parts.
    pub parts: Vec<Part>,
    /// Writers at once.
    pub writers: Vec<usize>,
    /// Tables that they write to.
    pub tables: Vec<usize>,
    /// How long a round of commits goes on; a commit that has begun is ended.
    pub round: Duration,
    /// How often a preflight, a load and a fence are measured; the middle is told, of a fence the slowest.
    pub runs: usize,
    /// Numbers of tables that are created through the wire.
    pub created: Vec<usize>,
    /// Numbers of tables that are written onto the drives, rising.
    pub restored: Vec<usize>,
    /// Bytes of the snapshot.
    pub snapshot_bytes: usize,
}

/// Measures the embedded node's catalog; `tell` gets each line as soon as it is known.
///
/// # Errors
/// What could not be measured, in words; what was measured until then is told, and the goals that were not.
pub(super) async fn measure(
    directory: &Path,
    program: PathBuf,
    options: &Options,
    tell: Tell<'_>,
) -> Result<(), String> {
    let ground = Ground { directory, program };
    let mut goals = Goals::default();
    let measured = parts(options, &ground, &mut goals, tell).await;
    goals.tell(tell);
    measured
}

async fn parts(
    options: &Options,
    ground: &Ground<'_>,
    goals: &mut Goals,
    tell: Tell<'_>,
) -> Result<(), String> {
    for part in &options.parts {
        match part {
            Part::Commits => commits::measure(options, ground, tell).await?,
            Part::Migration => migration::measure(options, ground, goals, tell).await?,
            Part::Snapshot => snapshot::measure(options, ground, goals, tell).await?,
            Part::Fence => fence::measure(options, ground, goals, tell).await?,
        }
    }
    Ok(())
}
