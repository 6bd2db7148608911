//! A fresh generation: its records come before anything on a target is touched.

use crate::protocol::replacement::handoff;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::refusal::about;
use crate::protocol::replacement::refusal::on_record;
use crate::protocol::replacement::resolve;
use crate::protocol::replacement::step::Step;
use crate::protocol::replacement::store::Change;
use crate::protocol::replacement::store::Durable;
use crate::protocol::replacement::store::Now;
use crate::protocol::replacement::store::Place;
use crate::protocol::replacement::store::Write;

/// What a fresh generation is to rebuild.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its id.
    pub generation: GenerationId,
    /// The set, as `pool_<P>_set_<S>`.
    pub set: String,
    /// The targets' endpoints, sorted, each once.
    pub targets: Vec<String>,
}

/// The next write that publishes a fresh generation: folder, intent, seal. `None` when it is published.
///
/// # Errors
///
/// [`Refusal::SetReserved`] when another generation of the set still reserves targets (one that has passed its
/// targets on does not), [`Refusal::PhaseUnfit`] when the generation is over, [`Refusal::TargetNotReady`], and what
/// the records say.
pub fn next_write(
    durable: &Durable,
    request: &Request,
    now: &Now,
) -> Result<Option<Write>, Refusal> {
    let files = &durable.files;
    let id = request.generation;
    if files.is_blank {
        let expected = "a formatted survivor of the set";
        return Err(Refusal::NoAnchor(about("a blank drive", expected, names::FOLDER)));
    }
    if let Some(intent) = files.intent(id)? {
        let intent = intent.value;
        if intent.set_disk_id != request.set || intent.targets != request.targets {
            let seen = format!("{:?} of {}", intent.targets, intent.set_disk_id);
            let expected = format!("{:?} of {}", request.targets, request.set);
            let on = on_record(Record::Intent, id, seen, expected);
            return Err(Refusal::SetReserved(on));
        }
        let seal = files.record(Record::Seal, id);
        let is_sealed = seal.is_some();
        return Ok((!is_sealed).then(|| resolve::seal_write(Step::IntentSealed, id, None)));
    }
    if files.record(Record::Proof, id).is_some() {
        let seen = "a proof of an earlier life";
        return Err(Refusal::PhaseUnfit(on_record(Record::Proof, id, seen, "an id of its own")));
    }
    for other in files.generations() {
        let Some(intent) = files.intent(other)? else {
            continue;
        };
        if intent.value.set_disk_id == request.set && intent.value.reserves_targets() {
            let seen = format!("{other} in phase {:?}", intent.value.phase);
            let expected = format!("nobody else in {}", request.set);
            return Err(Refusal::SetReserved(on_record(Record::Intent, other, seen, expected)));
        }
    }
    let intent = match first(durable, request, now)? {
        First::Folder(write) => return Ok(Some(write)),
        First::Record(intent) => *intent,
    };
    // What is there can only be a torn record: it was never sealed, so nothing followed from it.
    let expected = files.record(Record::Intent, id);
    let new = Some(intent.encode());
    Ok(Some(Write::record(Step::IntentPublished, Record::Intent, id, expected, new)))
}

/// What the life of a generation begins with.
pub(super) enum First {
    /// The folder of its records.
    Folder(Write),
    /// Its record, as it stands at first.
    Record(Box<Intent>),
}

/// What a generation that is not published yet begins with.
///
/// # Errors
///
/// [`Refusal::TargetNotReady`].
pub(super) fn first(durable: &Durable, request: &Request, now: &Now) -> Result<First, Refusal> {
    let mounted = now.mounted(&request.targets)?;
    if !durable.files.has_folder {
        let (step, place) = (Step::FolderMade, Place::Anchor);
        let path = names::FOLDER.to_owned();
        return Ok(First::Folder(Write { step, place, path, change: Change::MakeFolder }));
    }
    let identities = resolve::identities(&mounted);
    let plan = handoff::union([&now.buckets]);
    let id = request.generation;
    Ok(First::Record(Box::new(handoff::fresh(id, &request.set, identities, plan, now.time_s))))
}
