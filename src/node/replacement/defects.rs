//! Planted defects of replacements: decorators around the course, each with one lie.

use std::sync::Arc;

use crate::node::replacement::course::Asked;
use crate::node::replacement::course::Course;
use crate::node::replacement::course::SharedCourse;
use crate::node::replacement::course::Sound;
use crate::protocol::control::Defect;
use crate::protocol::replacement::identity::Mounted;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::run;
use crate::protocol::replacement::scan::Checked;
use crate::protocol::replacement::scan::Done;
use crate::protocol::replacement::scan::Work;
use crate::protocol::replacement::step::Step;
use crate::protocol::replacement::store::Change;
use crate::protocol::replacement::store::Durable;
use crate::protocol::replacement::store::Place;
use crate::protocol::replacement::store::Write;

/// The course with these defects; [`Sound`] without any of its own.
pub fn course(defects: &[Defect]) -> SharedCourse {
    let mut course: SharedCourse = Arc::new(Sound);
    for defect in defects {
        course = match defect {
            Defect::RebuildsBeforeMarkersMoved => Arc::new(TakesMarkersForMoved(course)),
            Defect::ProvesWithoutChecking => Arc::new(TakesTargetsForChecked(course)),
            Defect::DeletesReferencedAuthority => Arc::new(ClearsPredecessors(course)),
            Defect::ResumesOnChangedMount => Arc::new(TakesMountsForTheSame(course)),
            _ => course,
        };
    }
    course
}

/// Whether a defect is one of the course.
#[cfg(test)]
pub fn bends_course(defect: Defect) -> bool {
    use Defect::*;
    matches!(
        defect,
        RebuildsBeforeMarkersMoved
            | ProvesWithoutChecking
            | DeletesReferencedAuthority
            | ResumesOnChangedMount
    )
}

/// Takes the predecessor's markers for the successor's.
struct TakesMarkersForMoved(SharedCourse);

impl Course for TakesMarkersForMoved {
    fn next_write(&self, asked: Asked<'_>) -> Result<Option<Write>, Refusal> {
        let Asked { durable, id, .. } = asked;
        let mut believed = durable.clone();
        if let Some(successor) = intent(durable, id)?.filter(|it| it.predecessor.is_some()) {
            let owner = successor.owner().into_bytes();
            for marker in believed.markers.iter_mut().flatten() {
                marker.clone_from(&owner);
            }
        }
        let mut write = self.0.next_write(Asked { durable: &believed, ..asked })?;
        // What it takes for its own it clears as its own.
        if let Some(Write { place: Place::Target(target), change, path, .. }) = &mut write
            && let Change::Swap { expected, .. } = change
            && path == names::MARKER
        {
            expected.clone_from(&durable.markers[*target]);
        }
        Ok(write)
    }
}

/// Takes what it has rebuilt for checked.
struct TakesTargetsForChecked(SharedCourse);

impl Course for TakesTargetsForChecked {
    fn next_write(&self, asked: Asked<'_>) -> Result<Option<Write>, Refusal> {
        let Asked { durable, id, .. } = asked;
        match self.0.next_write(asked)? {
            None if run::work(durable, id)? == Work::Check => {
                let whole = Done::Checked(Checked { versions: u64::MAX, unproved: 0 });
                self.0.next_write(Asked { done: &whole, ..asked })
            }
            write => Ok(write),
        }
    }
}

/// Clears the records of predecessors away with its own.
struct ClearsPredecessors(SharedCourse);

impl Course for ClearsPredecessors {
    fn next_write(&self, asked: Asked<'_>) -> Result<Option<Write>, Refusal> {
        let Asked { durable, id, .. } = asked;
        let write = self.0.next_write(asked)?;
        // Before its seal goes, when nothing is left of it but the proof.
        if write.as_ref().is_none_or(|write| write.step != Step::SealRemoved) {
            return Ok(write);
        }
        for other in durable.files.generations() {
            let predecessor = intent(durable, other)?.filter(|it| {
                it.handoff.as_ref().is_some_and(|handoff| handoff.link.successor == id)
            });
            if predecessor.is_some() {
                let path = names::path(Record::Intent, other);
                let change = Change::Swap {
                    expected: durable.files.record(Record::Intent, other).map(<[u8]>::to_vec),
                    new: None,
                };
                let (step, place) = (Step::IntentRemoved, Place::Anchor);
                return Ok(Some(Write { step, place, path, change }));
            }
        }
        Ok(write)
    }
}

/// Takes every target for mounted as it was recorded.
struct TakesMountsForTheSame(SharedCourse);

impl Course for TakesMountsForTheSame {
    fn next_write(&self, asked: Asked<'_>) -> Result<Option<Write>, Refusal> {
        let Asked { durable, id, .. } = asked;
        let mut believed = asked.now.clone();
        if let Some(intent) = intent(durable, id)? {
            let recorded = |(mounted, identity): (&Result<Mounted, String>, _)| {
                mounted.clone().map(|mounted| Mounted { identity, ..mounted })
            };
            let pairs = asked.now.mounts.iter().zip(intent.identities);
            believed.mounts = pairs.map(recorded).collect();
        }
        self.0.next_write(Asked { now: &believed, ..asked })
    }
}

/// The record of a generation, if it has one.
fn intent(durable: &Durable, id: GenerationId) -> Result<Option<Intent>, Refusal> {
    Ok(durable.files.intent(id)?.map(|stored| stored.value))
}
