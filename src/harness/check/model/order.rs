//! What the listings of a key say about which of its numbered versions came first. Pure.
//!
//! Numbered versions never change places, so whatever a listing shows below another was there before
//! it. The null version moves whenever it is written: listings say nothing lasting about it.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::search::Step;
use super::search::What;
use super::stack::Id;
use super::stack::NULL;
use super::stack::View;

/// How one version stands to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// A listing shows it below: it came first.
    Below,
    /// A listing shows it above: it came later.
    Above,
    /// A listing shows both without their order.
    Unordered,
    /// No listing shows both.
    Unlisted,
}

/// Where a listing shows a version.
#[derive(Debug, Clone, Copy)]
struct Place {
    listing: usize,
    /// From the top, among those it can be compared with.
    rank: usize,
    is_marker: bool,
    is_latest: bool,
    interleaved: bool,
}

/// What the listings say.
#[derive(Debug, Default)]
pub struct Order {
    /// By id; ids are small numbers.
    places: Vec<Vec<Place>>,
    right_below: BTreeMap<Id, BTreeSet<Id>>,
}

impl Order {
    /// What the listings among `steps` say.
    pub fn of(steps: &[Step]) -> Self {
        let mut order = Self::default();
        for (listing, step) in steps.iter().enumerate() {
            let What::Read(View::Stack { rows, interleaved, latest }) = &step.what else {
                continue;
            };
            let latest = latest.map(|latest| rows[latest].id);
            let mut above = [None, None];
            for (rank, row) in rows.iter().enumerate() {
                let is_marker = row.value.is_none();
                let place = Place {
                    listing,
                    rank,
                    is_marker,
                    is_latest: latest == Some(row.id),
                    interleaved: *interleaved,
                };
                let index = row.id as usize;
                if order.places.len() <= index {
                    order.places.resize_with(index + 1, Vec::new);
                }
                order.places[index].push(place);
                if row.id == NULL {
                    continue;
                }
                let kind = usize::from(is_marker && !interleaved);
                // The latest lies above the first of the other kind, too.
                let above = match above[kind].replace(row.id) {
                    None if !place.is_latest => latest.filter(|latest| *latest != NULL),
                    above => above,
                };
                if let Some(above) = above {
                    order.right_below.entry(above).or_default().insert(row.id);
                }
            }
        }
        order
    }

    /// The ids that a listing shows right below `id`: they are there when it comes.
    pub fn right_below(&self, id: Id) -> impl Iterator<Item = Id> {
        self.right_below.get(&id).into_iter().flatten().copied()
    }

    fn places(&self, id: Id) -> &[Place] {
        self.places.get(id as usize).map_or(&[], Vec::as_slice)
    }

    /// How `id` stands to `other`.
    pub fn relation(&self, id: Id, other: Id) -> Relation {
        let (mine, its) = (self.places(id), self.places(other));
        let mut relation = Relation::Unlisted;
        for (mine, its) in mine.iter().flat_map(|mine| its.iter().map(move |its| (mine, its))) {
            if mine.listing != its.listing {
                continue;
            }
            let is_comparable = mine.interleaved || mine.is_marker == its.is_marker;
            let is_lasting = id != NULL && other != NULL;
            if is_lasting && (is_comparable || mine.is_latest || its.is_latest) {
                let is_above = mine.is_latest || is_comparable && mine.rank < its.rank;
                return if is_above && !its.is_latest { Relation::Above } else { Relation::Below };
            }
            relation = Relation::Unordered;
        }
        relation
    }
}
