//! What happened since the process began.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

/// Counts, readable at any time.
#[derive(Debug, Default)]
pub(super) struct Counters {
    unknown: AtomicU64,
    undone: AtomicU64,
    repaired_reads: AtomicU64,
    healed: AtomicU64,
    quarantined: AtomicU64,
}

/// The counts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    /// Writes that were answered as unknown.
    pub(super) unknown: u64,
    /// Writes that were taken back.
    pub(super) undone: u64,
    /// Reads that met a bad or missing shard.
    pub(super) repaired_reads: u64,
    /// Versions that were brought back.
    pub(super) healed: u64,
    /// Things that were moved to quarantine.
    pub(super) quarantined: u64,
}

impl Counters {
    /// One more unknown outcome.
    pub(super) fn unknown(&self) {
        self.unknown.fetch_add(1, Ordering::Relaxed);
    }

    /// One more write taken back.
    pub(super) fn undone(&self) {
        self.undone.fetch_add(1, Ordering::Relaxed);
    }

    /// One more read that met trouble.
    pub(super) fn repaired_reads(&self) {
        self.repaired_reads.fetch_add(1, Ordering::Relaxed);
    }

    /// One more version brought back.
    pub(super) fn healed(&self) {
        self.healed.fetch_add(1, Ordering::Relaxed);
    }

    /// One more thing moved to quarantine.
    pub(super) fn quarantined(&self) {
        self.quarantined.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts now.
    pub(super) fn now(&self) -> Counts {
        Counts {
            unknown: self.unknown.load(Ordering::Relaxed),
            undone: self.undone.load(Ordering::Relaxed),
            repaired_reads: self.repaired_reads.load(Ordering::Relaxed),
            healed: self.healed.load(Ordering::Relaxed),
            quarantined: self.quarantined.load(Ordering::Relaxed),
        }
    }
}
