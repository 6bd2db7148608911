//! Whether a version is there, when drives contradict each other: what is decided, what has to be decided
//! first, and which way.
//!
//! A version by its id is a register: absent, or one identity at a time. A write puts its value on a quorum
//! of drives and is acknowledged; one that was interrupted leaves it on fewer. Nobody may return a value
//! that a later reader could miss, and nobody may pass over one that was acknowledged or returned. So:
//!
//! * what a write quorum holds is decided; what a majority lacks is decided to be absent;
//! * otherwise the newest value that can be read again is brought to a write quorum *before* anyone returns
//!   it, and what can neither be read nor ever have been acknowledged is cleared away;
//! * what may have been acknowledged and cannot be read now leaves the version open: an error.
//!
//! Values of one id are ordered by their moments, because a writer holds the key's lock and chooses a moment
//! later than any that it finds. Pure.

use std::cmp::Reverse;

use crate::protocol::object::quorum;
use crate::protocol::object::select::Candidate;

/// What one drive says of one version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    /// What it holds.
    pub now: Now,
    /// What it held before a write that may still be taken back, contents included.
    pub kept: Vec<Candidate>,
}

/// What one drive holds of one version.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Now {
    /// It cannot say.
    #[default]
    Silent,
    /// Nothing.
    Lacks,
    /// This.
    Holds(Candidate),
}

/// A value and who stands behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backing {
    /// The value.
    pub candidate: Candidate,
    /// Drives that hold it.
    pub holders: Vec<usize>,
    /// Drives that do not hold it any more, but kept it.
    pub keepers: Vec<usize>,
    /// Drives that must hold it before it counts as written.
    pub write_quorum: usize,
}

/// What the drives' words add up to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It is there.
    Present(Backing),
    /// It is not there.
    Absent,
    /// It is there as soon as a write quorum holds it; the caller holds the key's lock and sees to that.
    Bring(Backing),
    /// It is absent as soon as a majority lacks it; the caller holds the key's lock and sees to that.
    Clear,
    /// Nobody can tell before more drives answer.
    Open,
}

/// Adds up the words of all drives of a set, in slot order.
///
/// `alone` says that no write of the key is under way (the caller holds a lock) and that `kept` is complete: then
/// drives that all say the same, and kept nothing that says otherwise, are believed when too many others
/// are missing for a quorum.
pub fn decide(words: &[Word], alone: bool) -> Decision {
    let n = words.len();
    let tally = Tally::of(words);
    if let Some(ballot) = tally.ballots.iter().find(|it| it.holders.len() >= it.write_quorum(n)) {
        return Decision::Present(ballot.backing(n));
    }
    if tally.lacking >= quorum::majority(n) {
        return Decision::Absent;
    }
    if alone && tally.is_unanimous() {
        match tally.ballots.first() {
            Some(ballot) if ballot.holders.len() >= ballot.read_quorum(n) => {
                return Decision::Present(ballot.backing(n));
            }
            None if tally.lacking >= quorum::absence(n) => return Decision::Absent,
            _ => {}
        }
    }

    let absence_possible = tally.lacking + tally.silent >= quorum::majority(n);
    let mut newer = Vec::new();
    for ballot in &tally.ballots {
        let readable = ballot.holders.len() + ballot.keepers.len();
        if readable >= ballot.read_quorum(n) && !absence_possible {
            return Decision::Bring(ballot.backing(n));
        }
        // A drive with something newer may have held this and have settled the newer one since.
        let overwritten = newer.iter().filter(|it| !ballot.keepers.contains(it)).count();
        if readable + tally.silent + overwritten >= ballot.write_quorum(n) {
            return Decision::Open;
        }
        newer.extend_from_slice(&ballot.holders);
    }
    if tally.ballots.is_empty() || n - tally.silent < quorum::majority(n) {
        return Decision::Open;
    }
    Decision::Clear
}

/// The words, by identity.
struct Tally {
    /// Newest first.
    ballots: Vec<Ballot>,
    lacking: usize,
    silent: usize,
}

struct Ballot {
    candidate: Candidate,
    holders: Vec<usize>,
    keepers: Vec<usize>,
}

impl Tally {
    fn of(words: &[Word]) -> Self {
        let mut tally = Self { ballots: Vec::new(), lacking: 0, silent: 0 };
        for (drive, word) in words.iter().enumerate() {
            match word.now {
                Now::Silent => tally.silent += 1,
                Now::Lacks => tally.lacking += 1,
                Now::Holds(candidate) => tally.ballot(candidate).holders.push(drive),
            }
            if word.now == Now::Silent {
                continue;
            }
            for kept in &word.kept {
                let ballot = tally.ballot(*kept);
                if !ballot.holders.contains(&drive) && !ballot.keepers.contains(&drive) {
                    ballot.keepers.push(drive);
                }
            }
        }
        tally.ballots.sort_by_key(|it| Reverse((it.candidate.modtime_ns, it.candidate.identity)));
        tally
    }

    fn ballot(&mut self, candidate: Candidate) -> &mut Ballot {
        let found = self.ballots.iter().position(|it| it.candidate.identity == candidate.identity);
        let index = found.unwrap_or_else(|| {
            self.ballots.push(Ballot { candidate, holders: Vec::new(), keepers: Vec::new() });
            self.ballots.len() - 1
        });
        &mut self.ballots[index]
    }

    /// Whether all that speak say one thing, and kept nothing else.
    fn is_unanimous(&self) -> bool {
        match self.ballots.as_slice() {
            [] => self.lacking > 0,
            [only] => self.lacking == 0 && only.keepers.is_empty(),
            _ => false,
        }
    }
}

impl Ballot {
    fn read_quorum(&self, n: usize) -> usize {
        let Candidate { marker, size, data, parity, .. } = self.candidate;
        if marker || size == 0 { quorum::read_marker(n) } else { quorum::read(data, parity) }
    }

    fn write_quorum(&self, n: usize) -> usize {
        let Candidate { marker, data, parity, .. } = self.candidate;
        quorum::write_of((!marker).then_some((data, parity)), n)
    }

    fn backing(&self, n: usize) -> Backing {
        Backing {
            candidate: self.candidate,
            holders: self.holders.clone(),
            keepers: self.keepers.clone(),
            write_quorum: self.write_quorum(n),
        }
    }
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
