//! The shortest list of operations that still cannot be explained. Pure.

use super::search;
use super::search::Answer;
use super::search::Step;
use super::search::What;
use super::stack::Effect;
use super::stack::Guard;
use super::stack::Value;
use super::stack::Values;
use super::stack::View;

/// Configurations that one try may cost.
const BUDGET: u64 = 20_000;
/// Tries in all.
const TRIES: usize = 400;

/// The operations of `steps` without which the step at `failing` could be explained, that one
/// included, in the order of their beginnings. What is left out changes nothing: a read, or a write
/// whose contents nobody that is left has seen.
pub fn explain(steps: &[Step], failing: usize) -> Vec<u64> {
    let last = &steps[failing];
    let mut kept = (0..steps.len())
        .filter(|index| *index == failing || steps[*index].from < last.to)
        .collect::<Vec<_>>();
    let fails = |kept: &[usize]| {
        let steps = kept.iter().map(|index| steps[*index].clone()).collect::<Vec<_>>();
        match search::search(&steps, BUDGET) {
            Answer::Illegal(position) => kept[position] == failing,
            Answer::Legal | Answer::Budget(_) => false,
        }
    };
    // What begins after the failing read began, and every other read, goes first: most of it matters not.
    let mut tries = TRIES;
    let mut chunk = (kept.len() / 2).max(1);
    while tries > 0 {
        let mut start = 0;
        let mut removed_any = false;
        while start < kept.len() && tries > 0 {
            let end = (start + chunk).min(kept.len());
            let leaves = |index: &usize| *index != failing && kept[start..end].contains(index);
            let rest = kept.iter().copied().filter(|index| !leaves(index)).collect::<Vec<_>>();
            if rest.len() < kept.len() && !leaves_a_gap(steps, &kept, &rest) {
                tries -= 1;
                if fails(&rest) {
                    kept = rest;
                    removed_any = true;
                    continue;
                }
            }
            start = end;
        }
        if chunk == 1 && !removed_any {
            break;
        }
        chunk = (chunk / 2).max(1);
    }
    let mut ops = kept.iter().map(|index| steps[*index].op).collect::<Vec<_>>();
    ops.dedup();
    ops
}

/// Whether something that is left saw contents, or named a version, that only a write that goes made.
fn leaves_a_gap(steps: &[Step], kept: &[usize], rest: &[usize]) -> bool {
    let mut gone = kept.iter().filter(|index| !rest.contains(index));
    gone.any(|index| {
        let What::Write(effects, _) = &steps[*index].what else { return false };
        rest.iter().any(|left| effects.iter().any(|effect| depends(&steps[*left].what, *effect)))
    })
}

/// Whether what a step did can depend on `effect` having been there.
fn depends(what: &What, effect: Effect) -> bool {
    let (id, value) = match effect {
        Effect::Put { id, value } => (id, value),
        // Without the removal, what it removed would be there: every reader may depend on that.
        Effect::Remove { id } => {
            return match what {
                What::Read(View::Version(seen, _) | View::NoVersion(seen)) => *seen == id,
                What::Read(_) | What::Write(_, Guard::Absent | Guard::Is(_)) => true,
                What::Write(..) => false,
            };
        }
    };
    let sees = |values: &Values, value: Option<Value>| value.is_some_and(|value| values.has(value));
    match what {
        What::Read(View::Absent | View::IsNot(_)) | What::Write(_, Guard::Absent) => {
            value.is_none()
        }
        What::Read(View::Latest(values, _)) => sees(values, value),
        What::Read(View::Version(seen, values)) => *seen == id && sees(values, value),
        What::Read(View::NoVersion(seen)) => *seen == id && value.is_none(),
        What::Read(View::Stack { rows, .. }) => rows.iter().any(|row| row.id == id),
        What::Read(View::Present) => value.is_some(),
        What::Write(_, Guard::Is(values)) => sees(values, value),
        What::Write(effects, Guard::Always) => effects.contains(&Effect::Remove { id }),
    }
}
