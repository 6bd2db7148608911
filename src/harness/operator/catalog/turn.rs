//! One turn of one step: from the facts and the latest news to the next move. Pure.

use serde::Deserialize;
use serde::Serialize;

use super::ask::Ask;
use super::ask::Heard;
use super::ask::Outcome;
use super::facts::BackupFacts;
use super::facts::Facts;
use super::orders::Orders;
use super::step::Step;
use super::steps;
use super::stress::Stress;
use super::stress::Stressed;

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub enum Move {
    /// Send these, one after the other, and tell what came.
    Send(Vec<Ask>),
    /// Let concurrent writers loose.
    Stress(Box<Stress>),
    /// Verify the backup.
    CheckBackup,
    /// Restore the backup into a fresh cluster, and compare.
    Restore,
    /// Let the operator do it: by a command, else by hand, in these words.
    Hand(String),
    /// The step held.
    Pass(String),
    /// The step is not needed.
    NotNeeded(String),
    /// The step, or a part of it, could not be done.
    Skip(String),
}

/// What came of the last move.
#[derive(Debug, Clone, PartialEq)]
pub enum News {
    /// The step begins.
    Begin,
    /// Answers.
    Heard(Vec<Heard>),
    /// What the writers did.
    Stressed(Box<Stressed>),
    /// The backup, or what is wrong with it.
    Backup(Result<BackupFacts, String>),
    /// What the restored backup was found to be, or why that is not known or not what it has to be.
    Restored(Result<String, Stop>),
    /// A command did it; by which option it was named.
    ByHook(String),
    /// The operator says that it is done.
    ByWord,
}

/// Why a step ends the rehearsal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopKind {
    /// Something has to be true first, and is not.
    Precondition,
    /// A preflight has a blocker.
    Blocked,
    /// An answer is another one than expected.
    Unexpected,
    /// An answer was lost: what the request did is not known.
    Lost,
    /// A promise is broken.
    Broken,
    /// The operator has to do something.
    Operator,
    /// It was asked to stop here.
    Asked,
}

/// A stop, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// Of which kind.
    pub kind: StopKind,
    /// Why.
    pub words: String,
    /// What may be done.
    pub remedy: String,
}

impl Stop {
    /// A stop of this kind.
    pub fn new(kind: StopKind, words: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { kind, words: words.into(), remedy: remedy.into() }
    }

    /// A promise is broken.
    pub fn broken(words: impl Into<String>) -> Self {
        let remedy =
            "keep writers out; the state of before is in the backup and in the object-backed files";
        Self::new(StopKind::Broken, words, remedy)
    }

    /// An answer that cannot be read.
    pub fn unreadable(words: String) -> Self {
        Self::new(StopKind::Unexpected, words, "is this a compatible server?")
    }
}

/// A turn of a step.
pub struct Turn<'a> {
    /// What was asked for.
    pub orders: &'a Orders,
    /// What is known; it counts once the step has held.
    pub facts: &'a mut Facts,
    /// How many moves the step has made.
    pub round: usize,
}

/// Makes the next move of `step`.
///
/// # Errors
///
/// Why the rehearsal ends here.
pub fn turn(step: Step, turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    if matches!(news, News::Begin) {
        turn.facts.work = Default::default();
        if turn.orders.done.contains(&step) && !step.is_the_operators() {
            return Ok(Move::Hand(String::new()));
        }
    }
    if matches!(news, News::ByWord) {
        return Ok(Move::Pass("by the operator's word".to_owned()));
    }
    steps::dispatch(step, turn, news)
}

/// The answers, where answers have to have come.
pub fn heard(news: News) -> Vec<Heard> {
    match news {
        News::Heard(all) => all,
        _ => Vec::new(),
    }
}

/// Demands one of `statuses`.
///
/// # Errors
///
/// A lost answer, or another status.
pub fn expect(heard: &Heard, statuses: &[u16]) -> Result<(), Stop> {
    let (words, told) = (heard.ask.words(), &heard.told);
    match told.status {
        Some(status) if statuses.contains(&status) => Ok(()),
        None if told.outcome == Outcome::Unknown && heard.ask.changes() => Err(lost(heard)),
        Some(status) if told.outcome == Outcome::Unknown => {
            let mut stop = lost(heard);
            stop.words = format!("{words} was answered {status} ({}): {}", told.words, LOST);
            Err(stop)
        }
        None => Err(Stop::new(
            StopKind::Unexpected,
            format!("{words} was not answered: {}", told.words),
            "see that the node runs, then start the same command again",
        )),
        Some(status) => {
            let expected: Vec<_> = statuses.iter().map(u16::to_string).collect();
            let expected = expected.join(" or ");
            Err(Stop::new(
                StopKind::Unexpected,
                format!("{words} was answered {status}, {expected} is expected: {}", told.words),
                "find out why, then start the same command again",
            ))
        }
    }
}

const LOST: &str = "whether it was done is not known";

fn lost(heard: &Heard) -> Stop {
    Stop::new(
        StopKind::Lost,
        format!("the answer to {} was lost ({}): {LOST}", heard.ask.words(), heard.told.words),
        "nothing was cancelled; start the same command again: the step looks first, and repeats what may be repeated",
    )
}

/// Whether a table of the server's own routes is missing there: it does not know the path.
pub fn is_not_served(heard: &Heard) -> bool {
    matches!(heard.status(), 400 | 404 | 405 | 406 | 501)
}

/// A number with its word: `1 node`, `2 nodes`.
pub fn many(count: impl TryInto<u64>, word: &str) -> String {
    let count = count.try_into().unwrap_or(u64::MAX);
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}
