//! Which version the drives' answers add up to.
//!
//! Every drive of the set is asked for one version, the latest or one by its id, and answers with its own
//! idea of it. Answers vote by *identity*: a digest of everything but what differs between drives.

use std::cmp::Reverse;

use crate::protocol::object::quorum;
use crate::value::VersionId;

/// One drive's idea of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Candidate {
    /// Digest of all that must be equal on all drives; shard number and contents are not in it.
    pub identity: [u8; 32],
    /// Its id.
    pub version: VersionId,
    /// Unix nanoseconds.
    pub modtime_ns: i64,
    /// Whether it is a delete marker.
    pub marker: bool,
    /// Bytes of its contents.
    pub size: u64,
    /// Data shards; 0 for a marker.
    pub data: usize,
    /// Parity shards; 0 for a marker.
    pub parity: usize,
}

/// What one drive said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It holds this.
    Holds(Candidate),
    /// It can read its metadata, and the version (or the whole key) is not in it.
    NotFound,
    /// It cannot say: offline, blank, being rebuilt, or its metadata is unreadable.
    Failed,
}

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// The latest version.
    Latest,
    /// The version with this id.
    ById(VersionId),
}

/// The version that won.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// The winner.
    pub candidate: Candidate,
    /// Positions of the drives that hold exactly this identity.
    pub drives: Vec<usize>,
    /// Drives that must agree to read it.
    pub read_quorum: usize,
    /// Drives that must have it before it counts as acknowledged.
    pub write_quorum: usize,
}

impl Selected {
    /// Whether a write quorum holds it. If not, a reader that returns it must first make it so, or a later
    /// reader may no longer see what this one returned.
    pub fn is_committed(&self) -> bool {
        self.drives.len() >= self.write_quorum
    }
}

/// Why no version won.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unselected {
    /// So many drives lack it that no write of it can have been acknowledged.
    NotFound,
    /// Too few drives answered, or they contradict each other.
    NoQuorum,
}

/// Adds up the answers of all drives of a set, in slot order.
///
/// With every drive answering, the latest version is the one that a write quorum holds: an overwrite that
/// reached fewer drives is not believed and not ignored, it is [`Unselected::NoQuorum`] until it is repaired. With
/// drives missing, an older version may win by a read quorum, because a newer one that was acknowledged
/// would then have left it too few drives.
///
/// # Errors
///
/// See [`Unselected`].
pub fn select(answers: &[Answer], wanted: Wanted) -> Result<Selected, Unselected> {
    let tally = Tally::of(answers);
    let winner = tally.quorums().and_then(|(read, write)| match wanted {
        Wanted::ById(_) => tally.strongest(read),
        Wanted::Latest => {
            let usable = answers.len() - tally.missing - tally.failed;
            let strongest = tally.strongest(write);
            if strongest.is_some() || usable == answers.len() {
                strongest
            } else if usable < write {
                tally.strongest(read)
            } else {
                tally.newest_older(read)
            }
        }
    });
    winner.map(|ballot| ballot.selected(answers.len())).ok_or_else(|| tally.refusal(answers.len()))
}

/// The version that repair should bring to every drive: the newest that can be read, unless a newer one might
/// have been acknowledged and only waits for drives that did not answer.
///
/// Where [`select`] finds no quorum because an overwrite stopped halfway, this rolls the overwrite forward if
/// enough drives have it to read it, and back if not. The caller holds the key's lock.
///
/// # Errors
///
/// [`Unselected::NotFound`]: nothing that was ever acknowledged is left, what remains may go to quarantine.
/// [`Unselected::NoQuorum`]: nobody can tell before more drives answer; nothing may be changed.
pub fn repair_target(answers: &[Answer]) -> Result<Selected, Unselected> {
    let n = answers.len();
    let tally = Tally::of(answers);
    for ballot in &tally.ballots {
        let (read, write) = ballot.quorums(n);
        let votes = ballot.drives.len();
        if votes >= read {
            return Ok(ballot.selected(n));
        }
        if votes + tally.failed >= write {
            return Err(Unselected::NoQuorum);
        }
    }
    Err(tally.refusal(n))
}

/// The answers, by identity.
struct Tally {
    /// Newest first.
    ballots: Vec<Ballot>,
    missing: usize,
    failed: usize,
    drives: usize,
}

struct Ballot {
    candidate: Candidate,
    drives: Vec<usize>,
}

impl Tally {
    fn of(answers: &[Answer]) -> Self {
        let mut ballots = Vec::<Ballot>::new();
        let (mut missing, mut failed) = (0, 0);
        for (drive, answer) in answers.iter().enumerate() {
            match answer {
                Answer::NotFound => missing += 1,
                Answer::Failed => failed += 1,
                Answer::Holds(candidate) => {
                    let same =
                        |ballot: &&mut Ballot| ballot.candidate.identity == candidate.identity;
                    match ballots.iter_mut().find(same) {
                        Some(ballot) => ballot.drives.push(drive),
                        None => ballots.push(Ballot { candidate: *candidate, drives: vec![drive] }),
                    }
                }
            }
        }
        ballots.sort_by_key(|ballot| {
            Reverse((ballot.candidate.modtime_ns, ballot.candidate.identity))
        });
        Self { ballots, missing, failed, drives: answers.len() }
    }

    /// Read and write quorum by the vote on parity; `None` when no parity has enough votes to be believed.
    fn quorums(&self) -> Option<(usize, usize)> {
        let votes = |parity: usize| {
            let of_parity =
                self.ballots.iter().filter(|ballot| ballot.parity(self.drives) == parity);
            of_parity.map(|ballot| ballot.drives.len()).sum::<usize>()
        };
        // Newest first: of two parities with equal votes the newer version's is taken.
        let parities = self.ballots.iter().map(|ballot| ballot.parity(self.drives));
        let believed = parities.filter(|parity| votes(*parity) >= self.drives - *parity);
        let parity = believed.rev().max_by_key(|parity| votes(*parity))?;
        let read = self.drives - parity;
        Some((read, if read == parity { read + 1 } else { read }))
    }

    /// The identity with most votes, the newest of equals, if it has `quorum`.
    fn strongest(&self, quorum: usize) -> Option<&Ballot> {
        let strongest = self.ballots.iter().rev().max_by_key(|ballot| ballot.drives.len());
        strongest.filter(|ballot| ballot.drives.len() >= quorum)
    }

    /// The newest identity but the first that has `quorum`; none when the first is not alone at its moment.
    fn newest_older(&self, quorum: usize) -> Option<&Ballot> {
        let (newest, older) = self.ballots.split_first()?;
        let moment = newest.candidate.modtime_ns;
        if older.first().is_some_and(|ballot| ballot.candidate.modtime_ns == moment) {
            return None;
        }
        older.iter().find(|ballot| ballot.drives.len() >= quorum)
    }

    fn refusal(&self, n: usize) -> Unselected {
        if self.missing >= quorum::absence(n) { Unselected::NotFound } else { Unselected::NoQuorum }
    }
}

impl Ballot {
    fn is_small(&self) -> bool {
        self.candidate.marker || self.candidate.size == 0
    }

    fn parity(&self, n: usize) -> usize {
        if self.is_small() { n / 2 } else { self.candidate.parity.min(n / 2) }
    }

    fn quorums(&self, n: usize) -> (usize, usize) {
        let Candidate { marker, data, parity, .. } = self.candidate;
        let read =
            if self.is_small() { quorum::read_marker(n) } else { quorum::read(data, parity) };
        let write = if marker { quorum::majority(n) } else { quorum::write(data, parity) };
        (read, write)
    }

    fn selected(&self, n: usize) -> Selected {
        let (read_quorum, write_quorum) = self.quorums(n);
        Selected {
            candidate: self.candidate,
            drives: self.drives.clone(),
            read_quorum,
            write_quorum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(moment: i64, data: usize, parity: usize) -> Answer {
        Answer::Holds(Candidate {
            identity: [moment as u8; 32],
            version: VersionId([moment as u8; 16]),
            modtime_ns: moment,
            marker: false,
            size: 10,
            data,
            parity,
        })
    }

    fn marker(moment: i64) -> Answer {
        Answer::Holds(Candidate {
            identity: [moment as u8; 32],
            version: VersionId([moment as u8; 16]),
            modtime_ns: moment,
            marker: true,
            size: 0,
            data: 0,
            parity: 0,
        })
    }

    /// Reads `2211 -x`: digits are objects 2+2 of that moment, letters `a` to `c` markers, `-` is not
    /// found, `x` failed.
    fn answers(text: &str) -> Vec<Answer> {
        let (data, parity) = match text.len() {
            4 => (2, 2),
            6 => (3, 3),
            5 => (3, 2),
            n => panic!("no geometry for {n} drives"),
        };
        text.chars()
            .map(|drive| match drive {
                '-' => Answer::NotFound,
                'x' => Answer::Failed,
                '1'..='9' => object(i64::from(drive as u8 - b'0'), data, parity),
                'a'..='f' => marker(i64::from(drive as u8 - b'a') + 10),
                other => panic!("{other}"),
            })
            .collect()
    }

    fn latest(text: &str) -> Result<i64, Unselected> {
        select(&answers(text), Wanted::Latest).map(|selected| selected.candidate.modtime_ns)
    }

    fn by_id(text: &str) -> Result<i64, Unselected> {
        let wanted = Wanted::ById(VersionId::NULL);
        select(&answers(text), wanted).map(|selected| selected.candidate.modtime_ns)
    }

    fn repaired(text: &str) -> Result<i64, Unselected> {
        repair_target(&answers(text)).map(|selected| selected.candidate.modtime_ns)
    }

    use Unselected::NoQuorum;
    use Unselected::NotFound;

    #[test]
    fn the_latest_version_is_what_a_write_quorum_holds() {
        assert_eq!(latest("1111"), Ok(1));
        assert_eq!(latest("111-"), Ok(1));
        assert_eq!(latest("11xx"), Ok(1));
        assert_eq!(latest("11--"), Ok(1));
        assert_eq!(latest("1xxx"), Err(NoQuorum));
        assert_eq!(latest("1---"), Err(NotFound));
        assert_eq!(latest("2221"), Ok(2));
        assert_eq!(latest("2111"), Ok(1));
        assert_eq!(latest("211x"), Ok(1));
        // Halfway: neither may be given out.
        assert_eq!(latest("2211"), Err(NoQuorum));
        assert_eq!(latest("221x"), Err(NoQuorum));
        assert_eq!(latest("----"), Err(NotFound));
        assert_eq!(latest("--xx"), Err(NotFound));
        assert_eq!(latest("-xxx"), Err(NoQuorum));
        assert_eq!(latest("xxxx"), Err(NoQuorum));
    }

    #[test]
    fn a_delete_marker_is_read_by_half_the_drives() {
        assert_eq!(latest("aaa1"), Ok(10));
        assert_eq!(latest("aaxx"), Ok(10));
        assert_eq!(latest("a---"), Err(NotFound));
        assert_eq!(latest("aa11"), Err(NoQuorum));
        assert_eq!(latest("aaa333"), Err(NoQuorum));
        assert_eq!(latest("aaa33x"), Err(NoQuorum));
        assert_eq!(latest("aa333x"), Ok(3));
    }

    #[test]
    fn a_version_by_its_id_needs_a_read_quorum() {
        assert_eq!(by_id("2211"), Ok(2));
        assert_eq!(by_id("2111"), Ok(1));
        assert_eq!(by_id("11--"), Ok(1));
        assert_eq!(by_id("1---"), Err(NotFound));
        assert_eq!(by_id("1-xx"), Err(NoQuorum));
        assert_eq!(by_id("222111"), Ok(2));
        assert_eq!(by_id("22xx11"), Err(NoQuorum));
    }

    #[test]
    fn two_identities_of_one_moment_are_told_apart_by_votes_only() {
        let mut answers = answers("1111");
        let twin = |answer: &mut Answer| {
            if let Answer::Holds(candidate) = answer {
                candidate.identity = [0xff; 32];
            }
        };
        twin(&mut answers[3]);
        let selected = select(&answers, Wanted::Latest).unwrap();
        assert_eq!(selected.drives, [0, 1, 2]);
        assert!(selected.is_committed());
        twin(&mut answers[2]);
        assert_eq!(select(&answers, Wanted::Latest), Err(NoQuorum));
    }

    #[test]
    fn an_uncommitted_version_is_known_as_such() {
        let selected = select(&answers("11--"), Wanted::Latest).unwrap();
        assert!(!selected.is_committed());
        assert_eq!((selected.read_quorum, selected.write_quorum), (2, 3));
        assert!(select(&answers("aaa-"), Wanted::Latest).unwrap().is_committed());
        assert!(!select(&answers("aa--"), Wanted::Latest).unwrap().is_committed());
    }

    #[test]
    fn repair_rolls_forward_what_can_be_read_and_back_what_cannot() {
        assert_eq!(repaired("2211"), Ok(2));
        assert_eq!(repaired("2111"), Ok(1));
        assert_eq!(repaired("211x"), Ok(1));
        // Version 2 may have been acknowledged by both drives that are away.
        assert_eq!(repaired("21xx"), Err(NoQuorum));
        assert_eq!(repaired("1---"), Err(NotFound));
        assert_eq!(repaired("1--x"), Err(NotFound));
        assert_eq!(repaired("1-xx"), Err(NoQuorum));
        assert_eq!(repaired("aa11"), Ok(10));
        assert_eq!(repaired("a111"), Ok(1));
    }

    /// Goal: whatever was acknowledged last is never passed over, and whatever `select` gives out is at
    /// least as new. All placements of an acknowledged write over an older one, all failures up to parity.
    #[test]
    fn an_acknowledged_write_is_never_passed_over() {
        for n in [4_usize, 5, 6] {
            let (data, parity) = (n - quorum::default_parity(n), quorum::default_parity(n));
            for holders in 0_u32..1 << n {
                if (holders.count_ones() as usize) < quorum::write(data, parity) {
                    continue;
                }
                for failed in (0_u32..1 << n).filter(|mask| mask.count_ones() as usize <= parity) {
                    let answers = (0..n)
                        .map(|drive| match (failed >> drive & 1, holders >> drive & 1) {
                            (1, _) => Answer::Failed,
                            (_, 1) => object(2, data, parity),
                            _ => object(1, data, parity),
                        })
                        .collect::<Vec<_>>();
                    for found in [
                        select(&answers, Wanted::Latest),
                        select(&answers, Wanted::ById(VersionId::NULL)),
                        repair_target(&answers),
                    ] {
                        if let Ok(selected) = found {
                            assert_eq!(selected.candidate.modtime_ns, 2, "{holders:b} {failed:b}");
                        } else {
                            assert_eq!(found, Err(NoQuorum));
                        }
                    }
                    if failed == 0 {
                        assert!(select(&answers, Wanted::Latest).unwrap().is_committed());
                    }
                }
            }
        }
    }

    /// Goal: no set of answers makes the rules panic or contradict their own quorums.
    #[test]
    fn every_combination_of_answers_is_judged() {
        let kinds = [Answer::NotFound, Answer::Failed, object(1, 2, 2), object(2, 2, 2), marker(3)];
        for n in 1..=4_u32 {
            for number in 0..5_usize.pow(n) {
                let answers =
                    (0..n).map(|drive| kinds[number / 5_usize.pow(drive) % 5]).collect::<Vec<_>>();
                for wanted in [Wanted::Latest, Wanted::ById(VersionId::NULL)] {
                    if let Ok(selected) = select(&answers, wanted) {
                        assert!(!selected.drives.is_empty());
                    }
                }
                let _ = repair_target(&answers);
            }
        }
        assert_eq!(select(&[], Wanted::Latest), Err(NoQuorum));
        // A geometry that does not fit the set must not panic either.
        let _ = select(&[object(1, 200, 200)], Wanted::Latest);
    }
}
