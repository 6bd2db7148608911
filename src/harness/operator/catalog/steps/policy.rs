//! Whether objects of tables are reached through the tables' policy only.

use super::super::ask::Ask;
use super::super::ask::By;
use super::super::ask::Heard;
use super::super::turn::Move;
use super::super::turn::News;
use super::super::turn::Stop;
use super::super::turn::StopKind;
use super::super::turn::Turn;
use super::super::turn::heard;

/// Who asks for what, and what has to come: the name of the check, who, whether inside the table, whether allowed.
pub const CHECKS: [(&str, By, bool, bool); 7] = [
    ("the operator reads inside the table", By::Operator, true, true),
    ("the operator reads outside", By::Operator, false, true),
    ("nobody reads inside the table", By::Nobody, true, false),
    ("who has the table's policy reads inside", By::Inside, true, true),
    ("who has the table's policy reads outside", By::Inside, false, false),
    ("who has S3 alone reads inside", By::Outside, true, false),
    ("who has S3 alone reads outside", By::Outside, false, true),
];

/// Those checks that need no further principals.
const WITHOUT_PRINCIPALS: usize = 3;

fn asks(turn: &Turn<'_>) -> Vec<Ask> {
    let count = if turn.orders.has_principals { CHECKS.len() } else { WITHOUT_PRINCIPALS };
    let mut asks = Vec::new();
    for (warehouse, probe) in &turn.facts.probes {
        let at = turn.orders.at(warehouse);
        for (_, by, inside, _) in &CHECKS[..count] {
            let key = if *inside { &probe.inside_key } else { &probe.outside_key };
            asks.push(at.object("GET", key).by(*by));
        }
    }
    asks
}

fn judge(all: &[Heard], count: usize) -> Result<(), Stop> {
    for (index, heard) in all.iter().enumerate() {
        let (words, _, _, allowed) = CHECKS[index % count];
        let status = heard.status();
        let path = &heard.ask.path;
        match (allowed, status) {
            (true, 200) | (false, 403) => {}
            (false, 200) => {
                return Err(Stop::broken(format!(
                    "{words}: {path} was answered although no policy allows it"
                )));
            }
            (true, 403) => {
                return Err(Stop::new(
                    StopKind::Unexpected,
                    format!("{words}: {path} was refused: {}", heard.told.words),
                    "does the data plane find the table (is the snapshot of the version that the gates ask for)? do the principals have the policies that they should?",
                ));
            }
            _ => {
                let words = format!("{words}: {path} was answered {status}: {}", heard.told.words);
                return Err(Stop::new(
                    StopKind::Unexpected,
                    words,
                    "find out why, then start the same command again",
                ));
            }
        }
    }
    Ok(())
}

/// The fourth verification: without all of it no writer is admitted.
pub(super) fn verify(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    let by_hand = "try it yourself with two principals (one with the table's policy alone, one with S3 alone), then say --done verify-policy; or give --inside-credentials and --outside-credentials";
    if turn.round == 0 {
        let asks = asks(turn);
        if asks.is_empty() {
            let words = "there is no probe whose objects could be asked for";
            return Err(Stop::new(StopKind::Operator, words, by_hand));
        }
        return Ok(Move::Send(asks));
    }
    let all = heard(news);
    let count = if turn.orders.has_principals { CHECKS.len() } else { WITHOUT_PRINCIPALS };
    judge(&all, count)?;
    if !turn.orders.has_principals {
        let words = "only the operator's and nobody's own requests could be tried";
        return Err(Stop::new(StopKind::Operator, words, by_hand));
    }
    Ok(Move::Pass(format!(
        "{} requests were answered or refused as the policies have it",
        all.len()
    )))
}

/// The same within a rehearsal of one table.
pub(super) fn probe(turn: &mut Turn<'_>, news: News) -> Result<Move, Stop> {
    if turn.facts.probes.is_empty() {
        return Ok(Move::Skip(
            "on a table of yours no object is put: try its policy yourself".to_owned(),
        ));
    }
    if turn.round == 0 {
        return Ok(Move::Send(asks(turn)));
    }
    let all = heard(news);
    let count = if turn.orders.has_principals { CHECKS.len() } else { WITHOUT_PRINCIPALS };
    judge(&all, count)?;
    if !turn.orders.has_principals {
        let words = "only the operator's and nobody's requests were tried: --inside-credentials and --outside-credentials are missing";
        return Ok(Move::Skip(words.to_owned()));
    }
    Ok(Move::Pass(format!(
        "{} requests were answered or refused as the policies have it",
        all.len()
    )))
}
