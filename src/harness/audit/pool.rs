//! Which of the drives that were named belong together, and where each sits.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use uuid::Uuid;

use super::AuditError;
use super::DriveSource;
use super::census::DriveCensus;
use super::census::DriveState;
use crate::disk::format::format_json::FormatJson;
use crate::disk::layout;

/// The drives of one deployment.
pub(super) struct Pool {
    /// What all members agree on.
    pub(super) format: FormatJson,
    /// Whether more than half of the drives that carry any format agree on it.
    pub(super) is_majority: bool,
    /// One for each slot, in pool order.
    pub(super) seats: Vec<Seat>,
    /// Drives that were named and have no slot.
    others: Vec<DriveCensus>,
}

/// One slot of the deployment.
pub(super) struct Seat {
    /// How reports name its drive.
    pub(super) name: String,
    /// Where its root is; `None` unless it is a member.
    pub(super) root: Option<PathBuf>,
    /// Why it is not a member, for problems of what it should hold.
    pub(super) absence: &'static str,
    census: DriveCensus,
}

/// What stands at a path that was named.
enum Found {
    Format(FormatJson),
    Not(DriveState, String),
}

impl Pool {
    pub(super) fn open(sources: &[DriveSource]) -> Result<Self, AuditError> {
        if sources.is_empty() {
            return Err(AuditError::NoDrives);
        }
        let found = sources.iter().map(look).collect::<Vec<_>>();
        let (format, votes) = most_common(sources, &found)?;
        let formatted = found.iter().filter(|it| matches!(it, Found::Format(_))).count();
        let slots = format.xl.sets[0].len();
        let mut taken = vec![None; format.xl.sets.len() * slots];
        let mut others = Vec::new();
        for (index, found) in found.iter().enumerate() {
            let Found::Format(own) = found else { continue };
            let problem = if own.is_peer_of(&format) {
                let (set, slot) = own.place();
                let seat = &mut taken[set * slots + slot];
                if seat.is_none() {
                    *seat = Some(index);
                    continue;
                }
                "another drive carries the same id"
            } else if own.id == format.id {
                "its format.json disagrees with its peers about the deployment's drives"
            } else {
                "it belongs to another deployment"
            };
            others.push((index, DriveState::Foreign, problem.to_owned(), Some(own.xl.this)));
        }
        for (index, found) in found.into_iter().enumerate() {
            if let Found::Not(state, problem) = found {
                others.push((index, state, problem, None));
            }
        }
        let mut spare = others
            .into_iter()
            .map(|(index, state, problem, id)| {
                let census = DriveCensus {
                    name: sources[index].name.clone(),
                    place: None,
                    id: id.map(|id| id.hyphenated().to_string()),
                    state,
                    problems: vec![problem],
                };
                (index, census)
            })
            .collect::<Vec<_>>();
        let seats = taken
            .iter()
            .enumerate()
            .map(|(position, index)| match index {
                Some(index) => member(&format, position, &sources[*index]),
                None => vacant(&format, position, &taken, &mut spare),
            })
            .collect();
        let others = spare.into_iter().map(|(_, census)| census).collect();
        Ok(Self { format, is_majority: votes * 2 > formatted, seats, others })
    }

    pub(super) fn slots(&self) -> usize {
        self.format.xl.sets[0].len()
    }

    pub(super) fn sets(&self) -> usize {
        self.format.xl.sets.len()
    }

    /// The slots of one set.
    pub(super) fn set(&self, set: usize) -> &[Seat] {
        &self.seats[set * self.slots()..(set + 1) * self.slots()]
    }

    /// The set where a key belongs.
    pub(super) fn set_of(&self, key: &str) -> usize {
        match self.format.xl.distribution_algorithm.as_str() {
            "CRCMOD" => layout::set_of_crc(key, self.sets()),
            _ => layout::set_of(self.format.id, key, self.sets()),
        }
    }

    /// All drives: the slots in pool order, then those without one.
    pub(super) fn census(&self) -> Vec<DriveCensus> {
        let seats = self.seats.iter().map(|seat| seat.census.clone());
        seats.chain(self.others.iter().cloned()).collect()
    }
}

fn member(format: &FormatJson, position: usize, source: &DriveSource) -> Seat {
    let (set, slot) = (position / format.xl.sets[0].len(), position % format.xl.sets[0].len());
    let mut problems = Vec::new();
    if source.root.join(layout::HEALING).exists() {
        problems.push("a whole-drive heal has not ended (healing.bin)".to_owned());
    }
    Seat {
        name: source.name.clone(),
        root: Some(source.root.clone()),
        absence: "",
        census: DriveCensus {
            name: source.name.clone(),
            place: Some((set, slot)),
            id: Some(format.xl.sets[set][slot].hyphenated().to_string()),
            state: DriveState::Member,
            problems,
        },
    }
}

/// The seat of a slot that no member fills. A drive that was named at this position, or the only one that is
/// left for the only slot that is left, is taken for it.
fn vacant(
    format: &FormatJson,
    position: usize,
    taken: &[Option<usize>],
    spare: &mut Vec<(usize, DriveCensus)>,
) -> Seat {
    let slots = format.xl.sets[0].len();
    let (set, slot) = (position / slots, position % slots);
    let in_order = taken.iter().enumerate().all(|(at, index)| index.is_none_or(|it| it == at));
    let alone = spare.len() == 1 && taken.iter().filter(|index| index.is_none()).count() == 1;
    let here = spare.iter().position(|(index, _)| alone || (in_order && *index == position));
    let id = format.xl.sets[set][slot].hyphenated().to_string();
    let census = here.map_or_else(
        || DriveCensus {
            name: format!("set {set} slot {slot}"),
            place: None,
            id: Some(id),
            state: DriveState::Missing,
            problems: vec!["no drive was named for this slot".to_owned()],
        },
        |at| spare.remove(at).1,
    );
    let absence = match census.state {
        DriveState::Blank => "the drive is blank",
        DriveState::Foreign => "the drive is foreign",
        DriveState::Unreadable => "the drive's format.json cannot be read",
        DriveState::Missing | DriveState::Member => "the drive is missing",
    };
    Seat { name: census.name.clone(), root: None, absence, census }
}

fn look(source: &DriveSource) -> Found {
    let path = source.root.join(layout::FORMAT);
    let root = match fs::metadata(&source.root) {
        Ok(root) => root,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Found::Not(DriveState::Missing, "there is nothing at its path".to_owned());
        }
        Err(error) => return Found::Not(DriveState::Unreadable, format!("its root: {error}")),
    };
    if !root.is_dir() {
        return Found::Not(DriveState::Unreadable, "its root is not a directory".to_owned());
    }
    match fs::read(&path) {
        Ok(bytes) => match FormatJson::parse(&bytes) {
            Ok(format) => Found::Format(format),
            Err(error) => {
                Found::Not(DriveState::Unreadable, format!("{}: {error}", layout::FORMAT))
            }
        },
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Found::Not(DriveState::Blank, format!("it has no {}", layout::FORMAT))
        }
        Err(error) => Found::Not(DriveState::Unreadable, format!("{}: {error}", layout::FORMAT)),
    }
}

/// The format that most drives share, and how many do.
fn most_common(
    sources: &[DriveSource],
    found: &[Found],
) -> Result<(FormatJson, usize), AuditError> {
    let mut groups = Vec::<(&FormatJson, usize)>::new();
    for found in found {
        let Found::Format(format) = found else { continue };
        match groups.iter_mut().find(|(other, _)| other.is_peer_of(format)) {
            Some((_, votes)) => *votes += 1,
            None => groups.push((format, 1)),
        }
    }
    groups.sort_by_key(|(_, votes)| std::cmp::Reverse(*votes));
    match groups.as_slice() {
        [] => {
            let seen = sources.iter().zip(found).filter_map(|(source, found)| match found {
                Found::Not(_, problem) => Some(format!("{}: {problem}", source.name)),
                Found::Format(_) => None,
            });
            Err(AuditError::NoDeployment { seen: seen.collect() })
        }
        [(_, first), (_, second), ..] if first == second => Err(AuditError::TwoDeployments),
        [(format, votes), ..] => {
            // `this` means nothing from here on; any of the drives stands for all.
            let mut format = (*format).clone();
            format.xl.this = first_drive(&format);
            Ok((format, *votes))
        }
    }
}

fn first_drive(format: &FormatJson) -> Uuid {
    format.xl.sets[0][0]
}
