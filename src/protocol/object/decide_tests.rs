//! No judgement on a version is contradicted by a later one: every state of small sets, tried.

use super::*;
use crate::value::VersionId;

/// The moment stands for the identity.
fn value(moment: i64, data: usize, parity: usize) -> Candidate {
    Candidate {
        identity: [moment as u8; 32],
        version: VersionId::NULL,
        modtime_ns: moment,
        marker: false,
        size: 10,
        data,
        parity,
    }
}

fn geometry(n: usize) -> (usize, usize) {
    (n - quorum::default_parity(n), quorum::default_parity(n))
}

/// Reads `2 1 - x 2(1) -(1)`: digits are objects of that moment, `-` nothing, `x` silence; what is kept stands
/// in brackets.
fn words(text: &str) -> Vec<Word> {
    let n = text.split(' ').count();
    let (data, parity) = geometry(n);
    let held = |digit: char| value(i64::from(digit as u8 - b'0'), data, parity);
    text.split(' ')
        .map(|word| {
            let now = match word.chars().next() {
                Some('x') => Now::Silent,
                Some('-') => Now::Lacks,
                Some(digit) => Now::Holds(held(digit)),
                None => panic!("{text}"),
            };
            let kept = word.chars().nth(2).map(held).into_iter().collect();
            Word { now, kept }
        })
        .collect()
}

fn decided(text: &str) -> (&'static str, i64) {
    said(&decide(&words(text), true))
}

fn said(decision: &Decision) -> (&'static str, i64) {
    match decision {
        Decision::Present(backing) => ("present", backing.candidate.modtime_ns),
        Decision::Absent => ("absent", 0),
        Decision::Bring(backing) => ("bring", backing.candidate.modtime_ns),
        Decision::Clear => ("clear", 0),
        Decision::Open => ("open", 0),
    }
}

#[test]
fn what_a_quorum_says_is_decided() {
    assert_eq!(decided("1 1 1 1"), ("present", 1));
    assert_eq!(decided("1 1 1 -"), ("present", 1));
    assert_eq!(decided("2 1 1 1"), ("present", 1));
    assert_eq!(decided("1 - - -"), ("absent", 0));
    assert_eq!(decided("- - - -"), ("absent", 0));
    assert_eq!(decided("- - - x"), ("absent", 0));
}

#[test]
fn what_was_interrupted_is_brought_forward_or_taken_back() {
    assert_eq!(decided("2 2 1 1"), ("bring", 2));
    assert_eq!(decided("1 1 - -"), ("bring", 1));
    assert_eq!(decided("1 1 - x"), ("bring", 1));
    assert_eq!(decided("1 - - x"), ("clear", 0));
    assert_eq!(decided("2 1 1 x"), ("bring", 1));
    // Six of twelve are too few to read; those that kept the version before make it whole.
    assert_eq!(decided("2 2 2 2 2 2 1 1 1 1 1 1"), ("open", 0));
    assert_eq!(decided("2(1) 2(1) 2(1) 2(1) 2(1) 2(1) 1 1 1 1 1 1"), ("bring", 1));
    assert_eq!(decided("- - - - - - 1 1 1 1 1 1"), ("clear", 0));
    assert_eq!(decided("-(1) -(1) -(1) -(1) -(1) -(1) 1 1 1 1 1 1"), ("bring", 1));
}

#[test]
fn what_may_have_been_acknowledged_and_cannot_be_read_stays_open() {
    assert_eq!(decided("x x 2 1"), ("open", 0));
    assert_eq!(decided("x x x 1"), ("open", 0));
    assert_eq!(decided("x x x -"), ("open", 0));
    assert_eq!(decided("x 1 -(1) -(1)"), ("open", 0));
    assert_eq!(decided("2 2 2 2 2 1 1 1 x x x x"), ("open", 0));
}

#[test]
fn half_the_drives_are_believed_when_they_agree_and_nothing_is_under_way() {
    assert_eq!(decided("x x 1 1"), ("present", 1));
    assert_eq!(decided("x x - -"), ("absent", 0));
    assert_eq!(decided("x x 2(1) 2"), ("bring", 2));
    assert_eq!(decided("x x -(1) -"), ("open", 0));
    assert_eq!(said(&decide(&words("x x 1 1"), false)), ("bring", 1));
    assert_eq!(said(&decide(&words("x x - -"), false)), ("open", 0));
}

/// Goal: a write that stopped anywhere, seen through any failures up to parity, is judged one way for good. All
/// sets of drives that have the value before (with a quorum) and after (without or with one), all failures,
/// and, after the first judgement was carried out, all failures again. Every value is replaced or removed.
#[test]
fn no_judgement_is_ever_contradicted_by_a_later_one() {
    for n in [2_usize, 3, 4, 5] {
        let (data, parity) = geometry(n);
        let (old, new) = (value(1, data, parity), value(2, data, parity));
        let quorum_of = |it: Option<Candidate>| match it {
            Some(_) => quorum::write(data, parity),
            None => quorum::majority(n),
        };
        for (before, after) in
            [(Some(old), Some(new)), (Some(old), None), (None, Some(old)), (None, None)]
        {
            for had in masks(n).filter(|it| ones(*it) >= quorum_of(before)) {
                for got in masks(n) {
                    let acknowledged = ones(got) >= quorum_of(after);
                    let drives: Vec<_> = (0..n)
                        .map(|drive| {
                            let was = if bit(had, drive) { before } else { None };
                            let now = if bit(got, drive) { after } else { was };
                            let kept = was.filter(|_| bit(got, drive)).into_iter().collect();
                            let now = now.map_or(Now::Lacks, Now::Holds);
                            Word { now, kept }
                        })
                        .collect();
                    for failed in masks(n).filter(|it| ones(*it) <= parity) {
                        check_first(&drives, failed, (before, after), acknowledged);
                    }
                }
            }
        }
    }
}

fn check_first(
    drives: &[Word],
    failed: u32,
    (before, after): (Option<Candidate>, Option<Candidate>),
    acknowledged: bool,
) {
    let n = drives.len();
    let parity = quorum::default_parity(n);
    let story = format!("{drives:?} without {failed:b}");
    let first = decide(&without(drives, failed), true);
    let Some((value, drives, by_count)) = carry_out(drives, failed, &first) else { return };
    let legal = if acknowledged { value == after } else { value == before || value == after };
    assert!(legal, "{story}: {first:?}");
    if !by_count && before.is_none() {
        // The first write of an id keeps nothing that would say that it is not decided; half of the
        // drives alone cannot tell it from a whole one.
        return;
    }
    for failed in masks(n).filter(|it| ones(*it) <= parity) {
        let second = decide(&without(&drives, failed), true);
        if let Some((again, ..)) = carry_out(&drives, failed, &second) {
            // Nobody was answered, so that the write may still take effect: but never go back.
            let legal = again == value || again == after;
            assert!(legal, "{story}: first {first:?}, then {second:?}");
        }
    }
}

/// The value that a caller would return, the drives after it saw to that, and whether a quorum stands behind it;
/// none when it would return an error.
fn carry_out(
    drives: &[Word],
    failed: u32,
    decision: &Decision,
) -> Option<(Option<Candidate>, Vec<Word>, bool)> {
    let n = drives.len();
    let mut drives = drives.to_vec();
    let able = n - ones(failed);
    let mut put = |now: Now| {
        for (_, word) in drives.iter_mut().enumerate().filter(|it| !bit(failed, it.0)) {
            *word = Word { now, kept: Vec::new() };
        }
    };
    match decision {
        Decision::Present(it) => {
            let by_count = it.holders.len() >= it.write_quorum;
            Some((Some(it.candidate), drives, by_count))
        }
        Decision::Absent => {
            let lacking = drives.iter().filter(|word| word.now == Now::Lacks).count();
            Some((None, drives, lacking >= quorum::majority(n)))
        }
        Decision::Bring(it) if able >= it.write_quorum => {
            put(Now::Holds(it.candidate));
            Some((Some(it.candidate), drives, true))
        }
        Decision::Clear => {
            put(Now::Lacks);
            Some((None, drives, true))
        }
        Decision::Bring(_) | Decision::Open => None,
    }
}

fn without(drives: &[Word], failed: u32) -> Vec<Word> {
    let seen = drives.iter().enumerate();
    seen.map(|(drive, word)| if bit(failed, drive) { Word::default() } else { word.clone() })
        .collect()
}

fn masks(n: usize) -> impl Iterator<Item = u32> {
    0..1 << n
}

fn bit(mask: u32, drive: usize) -> bool {
    mask >> drive & 1 == 1
}

fn ones(mask: u32) -> usize {
    mask.count_ones() as usize
}
