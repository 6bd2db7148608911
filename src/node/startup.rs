//! Which format the deployment has, from what every endpoint holds: pure.
//!
//! A format counts when a strict majority of all endpoints carries it, each of them in its own slot.
//! The node of the first endpoint makes one, once every drive was reached and every drive is blank; a
//! first formatting that was interrupted (some drives have the new format and hold nothing, all
//! others are blank) is completed with the same ids. In every other case the node waits: it formats
//! nothing that it cannot see.
//!
//! # Sources
//! The format's specification, 1.1.

use uuid::Uuid;

use crate::disk::format::format_json::FormatJson;
use crate::node::drives::Seen;

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Serve the deployment with this format (`this` does not matter).
    Accept(Box<FormatJson>),
    /// Give every blank drive its format after this one, then look again.
    Format(Box<FormatJson>),
    /// Look again later.
    Wait {
        /// Why.
        reason: String,
    },
}

/// Decides. `seen` has every endpoint in order; `formats` says whether this node is the one that may
/// format; `new_id` gives ids for a new deployment.
pub fn next(
    seen: &[Seen],
    set_drives: usize,
    formats: bool,
    mut new_id: impl FnMut() -> Uuid,
) -> Next {
    let fits = |format: &FormatJson| {
        let sets = &format.xl.sets;
        sets.len() * set_drives == seen.len() && sets.iter().all(|set| set.len() == set_drives)
    };
    let in_slot = |endpoint: usize, format: &FormatJson| {
        format.place() == (endpoint / set_drives, endpoint % set_drives)
    };
    let formatted: Vec<_> = seen
        .iter()
        .enumerate()
        .filter_map(|(endpoint, seen)| Some((endpoint, seen.format()?)))
        .collect();
    let votes = |reference: &FormatJson| {
        let members = formatted.iter().filter(|(endpoint, format)| {
            format.is_peer_of(reference) && in_slot(*endpoint, format)
        });
        members.count()
    };
    let best = formatted
        .iter()
        .map(|(_, format)| *format)
        .filter(|format| fits(format))
        .max_by_key(|format| votes(format));
    if let Some(best) = best
        && votes(best) > seen.len() / 2
    {
        return Next::Accept(Box::new(best.clone()));
    }

    let blank = seen.iter().filter(|seen| **seen == Seen::Blank).count();
    if blank == seen.len() {
        if !formats {
            return wait("every drive is blank; the node of the first endpoint formats them");
        }
        let mut ids = || (0..set_drives).map(|_| new_id()).collect();
        let sets: Vec<Vec<Uuid>> = (0..seen.len() / set_drives).map(|_| ids()).collect();
        let (deployment, first) = (new_id(), sets[0][0]);
        return Next::Format(Box::new(FormatJson::new(deployment, first, sets)));
    }
    let holds_nothing =
        |seen: &Seen| matches!(seen, Seen::Blank | Seen::Formatted { is_empty: true, .. });
    if let Some(best) = best
        && votes(best) + blank == seen.len()
        && seen.iter().all(holds_nothing)
    {
        if formats {
            return Next::Format(Box::new(best.clone()));
        }
        return wait(
            "a first formatting was interrupted; the node of the first endpoint completes it",
        );
    }
    let counts = best.map_or(0, votes);
    let unknown = seen.iter().filter(|seen| **seen == Seen::Unknown).count();
    wait(&format!(
        "{counts} of {} drives agree on a format, more than half are needed; {blank} blank, {unknown} not reached",
        seen.len()
    ))
}

fn wait(reason: &str) -> Next {
    Next::Wait { reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format() -> FormatJson {
        let ids = |set: u128| (1..=4).map(|slot| Uuid::from_u128(16 * set + slot)).collect();
        let sets: Vec<Vec<Uuid>> = (1..=2).map(ids).collect();
        FormatJson::new(Uuid::from_u128(99), sets[0][0], sets)
    }

    fn drive(endpoint: usize, is_empty: bool) -> Seen {
        let format = format().for_place(endpoint / 4, endpoint % 4).expect("eight drives");
        Seen::Formatted { format: Box::new(format), is_empty }
    }

    fn decide(seen: &[Seen], formats: bool) -> Next {
        let mut number = 1_000;
        next(seen, 4, formats, || {
            number += 1;
            Uuid::from_u128(number)
        })
    }

    fn is_accepted(seen: &[Seen]) -> bool {
        matches!(decide(seen, true), Next::Accept(found) if found.is_peer_of(&format()))
    }

    #[test]
    fn a_strict_majority_in_its_slots_is_accepted_and_half_is_not() {
        for others in [Seen::Blank, Seen::Unknown, Seen::Absent { reason: String::new() }] {
            for present in 0..=8 {
                let seen: Vec<_> =
                    (0..8)
                        .map(|endpoint| {
                            if endpoint < present { drive(endpoint, false) } else { others.clone() }
                        })
                        .collect();
                assert_eq!(is_accepted(&seen), present > 4, "{present} of 8 and {others}");
            }
        }
    }

    #[test]
    fn exchanged_drives_do_not_vote() {
        let mut seen: Vec<_> = (0..8).map(|endpoint| drive(endpoint, false)).collect();
        seen.swap(0, 1);
        assert!(is_accepted(&seen), "six are in their slots");
        seen.swap(2, 3);
        assert!(matches!(decide(&seen, true), Next::Wait { .. }), "four are");
    }

    #[test]
    fn only_the_first_node_formats_and_only_when_all_drives_are_blank() {
        let blank = vec![Seen::Blank; 8];
        let Next::Format(made) = decide(&blank, true) else { panic!("all are blank") };
        assert_eq!(made.xl.sets.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4]);
        assert_eq!(FormatJson::parse(&made.encode()).expect("a sound format"), *made);
        assert!(matches!(decide(&blank, false), Next::Wait { .. }));
        for other in [
            Seen::Unknown,
            Seen::Absent { reason: String::new() },
            Seen::Unreadable { reason: String::new() },
            drive(7, false),
        ] {
            let mut seen = blank.clone();
            seen[7] = other;
            assert!(matches!(decide(&seen, true), Next::Wait { .. }), "{}", seen[7]);
        }
    }

    #[test]
    fn an_interrupted_first_formatting_is_completed_with_its_own_ids() {
        let mut seen = vec![Seen::Blank; 8];
        for endpoint in [0, 5] {
            seen[endpoint] = drive(endpoint, true);
        }
        let Next::Format(made) = decide(&seen, true) else { panic!("nothing holds data") };
        assert!(made.is_peer_of(&format()));
        assert!(matches!(decide(&seen, false), Next::Wait { .. }));
        seen[5] = drive(5, false);
        assert!(matches!(decide(&seen, true), Next::Wait { .. }), "one holds data");
        seen[5] = drive(4, true);
        assert!(matches!(decide(&seen, true), Next::Wait { .. }), "one is in another's slot");
    }

    #[test]
    fn a_format_of_another_shape_is_not_accepted() {
        let seen: Vec<_> = (0..8).map(|endpoint| drive(endpoint, false)).collect();
        assert!(matches!(next(&seen, 8, true, Uuid::new_v4), Next::Wait { .. }));
        assert!(matches!(next(&seen[..4], 4, true, Uuid::new_v4), Next::Wait { .. }));
    }
}
