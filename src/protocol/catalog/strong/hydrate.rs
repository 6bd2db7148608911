//! Whether the snapshot that a process has in memory is the one that is durable.
//!
//! A process remembers the newest version and the newest epoch that it has seen and never goes below them; a
//! restart forgets both, which is how an operator consents to an older snapshot.
//!
//! # Sources
//!
//! Specification of the catalog §4.4, §4.5, §5.7, F30 to F32, F36; M14, M22.

use crate::protocol::catalog::fence::Baseline;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::fence::Cancelled;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::snapshot::codec::Snapshot;

/// The user metadata of the snapshot's object that holds its epoch.
pub const EPOCH: &str = "firedrill-epoch";
/// How often reading is tried.
pub const RELOADS_MAX: usize = 3;

/// A snapshot in memory, with what its object says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// What it holds.
    pub snapshot: Snapshot,
    /// Its object's ETag.
    pub etag: String,
    /// Its epoch; absent when another server wrote it.
    pub epoch: Option<u64>,
}

/// What a look at the object without its body has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// The ETag, which some stores leave empty.
    pub etag: String,
    /// The epoch, if the object has one.
    pub epoch: Option<u64>,
}

/// What a process remembers of the snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// The ETag of what it has in memory; `None` when that is the absence of a snapshot.
    pub etag: Option<String>,
    /// Whether what it has in memory was hydrated and nothing has cast doubt on it.
    pub is_hydrated: bool,
    /// Whether there must be a snapshot: one was seen, or a write of one was tried.
    pub is_required: bool,
    /// The newest version seen.
    pub version: Option<u32>,
    /// The newest epoch seen.
    pub epoch: Option<u64>,
}

/// What to do after a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// What is in memory is what is durable.
    Use,
    /// Read it anew.
    Reload,
}

/// What to do after reading: the body, then a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Decode the body and take it over.
    TakeOver,
    /// There is no snapshot, and that is well.
    Empty,
    /// What was read does not fit together: read again, at most [`RELOADS_MAX`] times in all.
    Again,
}

/// Who reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// A process whose backing the snapshot is: there has to be one.
    Strong,
    /// A migration in an object-backed process: there may be none yet.
    Migration,
}

impl Memory {
    /// Whether what is in memory may be used, given what the object looks like (`None` for no object).
    ///
    /// # Errors
    ///
    /// [`Class::Damaged`] for an object without an ETag.
    pub fn look(&self, stat: Option<&Stat>) -> Result<Look, Refusal> {
        check_etag(stat)?;
        let is_same = match stat {
            // Two snapshots with the same bytes are told apart by their epochs.
            Some(stat) => {
                self.etag.as_ref() == Some(&stat.etag)
                    && (stat.epoch.is_none() || stat.epoch == self.epoch)
            }
            None => self.etag.is_none() && !self.is_required,
        };
        Ok(if self.is_hydrated && is_same { Look::Use } else { Look::Reload })
    }

    /// What a reading means: the ETag of the body that was read, if there was one, then a look at the object.
    ///
    /// # Errors
    ///
    /// [`Class::Damaged`]: the snapshot has disappeared, or has no ETag, or can be read and not looked at.
    pub fn judge(
        &self,
        body: Option<&str>,
        stat: Option<&Stat>,
        reader: Reader,
    ) -> Result<Reading, Refusal> {
        check_etag(stat)?;
        match (body, stat) {
            (Some(body), Some(stat)) if *body == stat.etag => Ok(Reading::TakeOver),
            (_, Some(_)) => Ok(Reading::Again),
            (Some(_), None) => {
                Err(Class::Damaged.because("the strong snapshot can be read but not looked at"))
            }
            (None, None) if self.is_required => {
                Err(Class::Damaged.because("the strong snapshot was there and has disappeared"))
            }
            (None, None) if reader == Reader::Strong => Err(Class::Damaged.because(
                "there is no strong snapshot: no table bucket was migrated to this backing",
            )),
            (None, None) => Ok(Reading::Empty),
        }
    }

    /// What a process remembers once it has taken a snapshot over.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`] when its version or epoch is older than what was seen; then what is in memory stays.
    pub fn install(&self, loaded: &Loaded) -> Result<Self, Refusal> {
        let version = loaded.snapshot.version;
        if let Some(seen) = self.version.filter(|seen| version < *seen) {
            return Err(Class::Invalid.because(format!(
                "the strong snapshot is of version {version}, and this process has seen version {seen}"
            )));
        }
        if let (Some(epoch), Some(seen)) = (loaded.epoch, self.epoch)
            && epoch < seen
        {
            return Err(Class::Invalid.because(format!(
                "the strong snapshot is of epoch {epoch}, and this process has seen epoch {seen}: restart every writer to accept an older one"
            )));
        }
        Ok(Self {
            etag: Some(loaded.etag.clone()),
            is_hydrated: true,
            is_required: true,
            version: Some(version),
            epoch: loaded.epoch.max(self.epoch),
        })
    }

    /// What a process remembers once it has found that there is no snapshot.
    #[must_use]
    pub fn install_empty(&self) -> Self {
        Self { etag: None, is_hydrated: true, ..self.clone() }
    }

    /// What a process remembers once it has tried to write, whatever became of it.
    #[must_use]
    pub fn has_tried(&self) -> Self {
        Self { is_hydrated: false, is_required: true, ..self.clone() }
    }

    /// What a process remembers of an absent snapshot whose absence is explained; `None` when it is not.
    ///
    /// It is explained when a first write of this process failed, while a preparing fence knows that there was
    /// none before and nothing was ever seen; and when the last cancellation has removed what this process saw.
    pub fn explained<'a>(
        &self,
        fences: impl IntoIterator<Item = &'a BucketFence>,
        cancelled: Option<&Cancelled>,
    ) -> Option<Self> {
        let fences: Vec<_> = fences.into_iter().collect();
        let knows_nothing = self.etag.is_none() && self.version.is_none() && self.epoch.is_none();
        let is_known_absent = !fences.is_empty()
            && fences.iter().all(|fence| {
                !fence.is_materialized()
                    && fence.baseline() == Baseline::Absent
                    && !fence.target_bucket_existed
            });
        let is_cancelled = cancelled
            .is_some_and(|it| self.epoch.is_none_or(|seen| seen <= it.epoch))
            && fences
                .iter()
                .all(|fence| fence.baseline() == Baseline::Absent && !fence.is_materialized());
        if (knows_nothing && is_known_absent) || is_cancelled {
            return Some(Self::default());
        }
        None
    }
}

fn check_etag(stat: Option<&Stat>) -> Result<(), Refusal> {
    match stat {
        Some(stat) if stat.etag.is_empty() => {
            Err(Class::Damaged.because("the object of the strong snapshot has no ETag"))
        }
        _ => Ok(()),
    }
}
