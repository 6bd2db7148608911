//! The cases of one target, one after the other, in this process.

use std::panic;
use std::sync::Mutex;
use std::sync::PoisonError;

use super::Target;
use super::mutate;
use super::target::Examined;
use super::target::Found;
use crate::value::Seed;

/// More findings than this tell nothing new.
const FINDINGS_MAX: usize = 20;

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The case's number.
    pub case: u64,
    /// What was wrong.
    pub what: String,
}

/// What came of some cases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Cases that were examined.
    pub cases: u64,
    /// Cases that were decoded.
    pub decoded: u64,
    /// What was found.
    pub findings: Vec<Finding>,
}

/// Characters of a finding; what is longer is data.
const WORDS_MAX: usize = 400;

/// Where the last panic happened and what it said; a panic that is caught tells only half of it.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// From now on a panic is remembered and not printed.
pub fn keep_panics() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let said = info.payload_as_str().unwrap_or("not in words");
        *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = format!("{place}: {said}");
    }));
}

/// The bytes of one case. The first cases are the files of the corpus as they are.
pub fn case(target: &Target, corpus: &[Vec<u8>], seed: Seed, case: u64) -> Vec<u8> {
    match usize::try_from(case).ok().and_then(|case| corpus.get(case)) {
        Some(file) => file.clone(),
        None => mutate::mutate(target, corpus, seed.split(target.name).0, case),
    }
}

/// Examines one case; a panic is an error like any other.
///
/// # Errors
/// What did not hold.
pub fn examine(target: &Target, bytes: &[u8]) -> Examined {
    let examine = target.examine;
    panic::catch_unwind(|| examine(bytes)).unwrap_or_else(|_| {
        let said = LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Err(format!("a panic at {said}"))
    })
}

/// Examines cases `0..cases`, and says of each that it begins. A second finding of the same words is left out.
pub fn run(
    target: &Target,
    corpus: &[Vec<u8>],
    seed: Seed,
    cases: u64,
    mut begins: impl FnMut(u64) -> Result<(), String>,
) -> Summary {
    let mut summary = Summary::default();
    for number in 0..cases {
        if let Err(what) = begins(number) {
            summary.findings.push(Finding { case: number, what });
            break;
        }
        let bytes = case(target, corpus, seed, number);
        let examined = examine(target, &bytes);
        summary.cases += 1;
        match examined {
            Ok(Found::Decoded) => summary.decoded += 1,
            Ok(Found::Refused) => {}
            Err(what) => {
                let what: String = what.chars().take(WORDS_MAX).collect();
                if !summary.findings.iter().any(|known| known.what == what) {
                    summary.findings.push(Finding { case: number, what });
                }
                if summary.findings.len() >= FINDINGS_MAX {
                    break;
                }
            }
        }
    }
    summary
}
