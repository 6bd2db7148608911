//! The lineage of generations as a drawing: a box each, a successor below its predecessor. Pure.
//!
//! A chain is one column, so that it fits a narrow screen; whoever has a second successor (which none should) opens
//! another column.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde::Serialize;

use super::lineage::Generation;
use super::lineage::cut;
use super::words;

const WIDTH: f64 = 290.0;
const HEIGHT: f64 = 78.0;
/// Between two rows: room for an arrow and its words.
const GAP: f64 = 34.0;
/// Between two columns.
const AISLE: f64 = 22.0;
/// Letters of an id that are shown: what comes before its first hyphen.
const ID_LETTERS: usize = 8;
/// Drives that a box names.
const DRIVES_MAX: usize = 6;

/// The drawing.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Graph {
    pub width: f64,
    pub height: f64,
    /// What it shows, in words.
    pub description: String,
    pub boxes: Vec<Card>,
    pub arrows: Vec<Arrow>,
}

/// One generation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Card {
    pub x: f64,
    pub y: f64,
    pub width: f64,
    pub height: f64,
    /// How it ended: `good`, `none` or `open`.
    pub tone: &'static str,
    pub name: String,
    pub drives: String,
    pub end: String,
    /// The whole id.
    pub title: String,
}

/// From a predecessor to its successor.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Arrow {
    pub path: String,
    pub head: String,
    pub x: f64,
    pub y: f64,
    pub label: String,
}

/// Draws `generations`; `None` when there are none.
pub(super) fn draw(generations: &[Generation]) -> Option<Graph> {
    if generations.is_empty() {
        return None;
    }
    let places = places(generations);
    let place = |id: &str| places.get(id).copied().unwrap_or((0, 0));
    let corner = |(column, row): (usize, usize)| {
        (1.0 + column as f64 * (WIDTH + AISLE), 1.0 + row as f64 * (HEIGHT + GAP))
    };
    let mut boxes = Vec::new();
    let mut arrows = Vec::new();
    for generation in generations {
        let (x, y) = corner(place(&generation.id));
        boxes.push(card(generation, x, y));
        let predecessor = generation.predecessor.as_deref().and_then(|id| places.get(id));
        if let Some(at) = predecessor {
            let (from_x, from_y) = corner(*at);
            let (from_x, from_y) = (from_x + 28.0, from_y + HEIGHT);
            let (to_x, to_y) = (x + 28.0, y);
            arrows.push(Arrow {
                path: format!(
                    "M{from_x} {from_y}C{from_x} {} {to_x} {} {to_x} {}",
                    from_y + GAP / 2.0,
                    to_y - GAP / 2.0,
                    to_y - 5.0
                ),
                head: format!("M{} {}l5 7l5 -7z", to_x - 5.0, to_y - 8.0),
                x: to_x + 14.0,
                y: to_y - GAP / 2.0 + 4.0,
                label: handed_over(generation),
            });
        }
    }
    let most = |of: fn((usize, usize)) -> usize| places.values().copied().map(of).max();
    let columns = most(|(column, _)| column).map_or(1, |last| last + 1) as f64;
    let rows = most(|(_, row)| row).map_or(1, |last| last + 1) as f64;
    Some(Graph {
        width: columns * (WIDTH + AISLE) - AISLE + 2.0,
        height: rows * (HEIGHT + GAP) - GAP + 2.0,
        description: description(generations),
        boxes,
        arrows,
    })
}

/// The column and row of each generation. Whoever is in a ring of its own making stands in the first row.
fn places(generations: &[Generation]) -> BTreeMap<&str, (usize, usize)> {
    let known: BTreeSet<&str> = generations.iter().map(|it| it.id.as_str()).collect();
    let parent = |it: &Generation| it.predecessor.as_deref().is_some_and(|id| known.contains(id));
    let mut places = BTreeMap::new();
    let mut columns = 0;
    let mut waiting: Vec<(&Generation, usize)> = Vec::new();
    let roots = generations.iter().filter(|it| !parent(it));
    // Whoever is left after all roots is in a ring.
    for first in roots.chain(generations) {
        if places.contains_key(first.id.as_str()) {
            continue;
        }
        waiting.push((first, 0));
        let mut is_new_column = true;
        while let Some((generation, row)) = waiting.pop() {
            if places.contains_key(generation.id.as_str()) {
                continue;
            }
            columns += usize::from(is_new_column);
            places.insert(generation.id.as_str(), (columns - 1, row));
            let successors = generations
                .iter()
                .filter(|it| it.predecessor.as_ref() == Some(&generation.id))
                .filter(|it| !places.contains_key(it.id.as_str()));
            let before = waiting.len();
            waiting.extend(successors.rev().map(|it| (it, row + 1)));
            is_new_column = waiting.len() == before;
        }
    }
    places
}

fn card(generation: &Generation, x: f64, y: f64) -> Card {
    let (tone, end) = end(generation);
    let mut drives: Vec<String> = generation.targets.iter().take(DRIVES_MAX).cloned().collect();
    if generation.targets.len() > DRIVES_MAX {
        drives.push(format!("and {} more", generation.targets.len() - DRIVES_MAX));
    }
    let drives = match drives.as_slice() {
        [] => "nobody knows of which drives".to_owned(),
        [drive] => format!("drive {drive}"),
        drives => format!("drives {}", drives.join(", ")),
    };
    Card {
        x,
        y,
        width: WIDTH,
        height: HEIGHT,
        tone,
        name: short(&generation.id),
        drives: cut(&drives),
        end,
        title: format!("generation {}", cut(&generation.id)),
    }
}

/// How a generation ended, and whether that is well.
fn end(generation: &Generation) -> (&'static str, String) {
    if let Some(seen) = &generation.stepped_back {
        return ("none", format!("stepped back by {}", words::moment(seen.at_us)));
    }
    match &generation.proof {
        Some(proof) if proof.is_kept => {
            ("good", format!("proved by {}", words::moment(proof.seen.at_us)))
        }
        Some(proof) => {
            ("open", format!("proof seen at {}, and gone", words::moment(proof.seen.at_us)))
        }
        None if generation.since_us.is_none() => ("open", "no record was seen".to_owned()),
        None => ("open", cut(&format!("left in phase {}", generation.phase))),
    }
}

/// When drives were handed over to a generation.
fn handed_over(generation: &Generation) -> String {
    match generation.stretches.iter().find(|phase| phase.name == "hand off") {
        Some(phase) if !phase.is_open => {
            let took = words::duration(phase.to_us.saturating_sub(phase.from_us));
            format!("handed over in {took}, by {}", words::moment(phase.to_us))
        }
        Some(phase) => format!("handed over since {}", words::moment(phase.from_us)),
        None => "handed over".to_owned(),
    }
}

fn description(generations: &[Generation]) -> String {
    let said = generations.iter().map(|generation| {
        let after = match &generation.predecessor {
            Some(predecessor) => format!(" after {}", short(predecessor)),
            None => String::new(),
        };
        format!("{}{after}: {}", short(&generation.id), end(generation).1)
    });
    said.collect::<Vec<_>>().join("; ")
}

/// The beginning of an id.
pub(super) fn short(id: &str) -> String {
    id.chars().take(ID_LETTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generation(id: &str, predecessor: Option<&str>) -> Generation {
        let predecessor = predecessor.map(str::to_owned);
        Generation { id: id.to_owned(), predecessor, ..Generation::default() }
    }

    #[test]
    fn a_chain_is_one_column_and_a_fork_opens_another() {
        let chain = [generation("a", None), generation("b", Some("a")), generation("c", Some("b"))];
        let at = |all: &[Generation], id: &str| places(all)[id];
        assert_eq!([at(&chain, "a"), at(&chain, "b"), at(&chain, "c")], [(0, 0), (0, 1), (0, 2)]);
        let fork = [generation("a", None), generation("b", Some("a")), generation("c", Some("a"))];
        assert_eq!([at(&fork, "a"), at(&fork, "b"), at(&fork, "c")], [(0, 0), (0, 1), (1, 1)]);
        let two = [generation("a", None), generation("b", None)];
        assert_eq!([at(&two, "a"), at(&two, "b")], [(0, 0), (1, 0)]);
    }

    #[test]
    fn a_ring_and_an_unknown_predecessor_are_drawn_all_the_same() {
        let ring = [generation("a", Some("b")), generation("b", Some("a"))];
        let drawn = draw(&ring).unwrap();
        assert_eq!((drawn.boxes.len(), drawn.arrows.len()), (2, 2));
        let alone = draw(&[generation("a", Some("lost"))]).unwrap();
        assert_eq!((alone.boxes.len(), alone.arrows.len()), (1, 0));
        assert_eq!(draw(&[]), None);
    }
}
