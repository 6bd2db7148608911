//! A node that runs as an older release: no lease, no handoff, its own schema, and no understanding of ours.
//!
//! These are the released servers' habits, kept for rehearsals of mixed fleets, upgrades and forbidden
//! downgrades; nothing of the current protocol leans on them. The order is theirs: *rebuilding* is saved before
//! the markers, the cursor before the position, and a changed mount abandons a generation and begins another.

use crate::protocol::replacement::checkpoint;
use crate::protocol::replacement::checkpoint::Checkpoint;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::ids::SetId;
use crate::protocol::replacement::intent::Intent;
use crate::protocol::replacement::intent::Layout;
use crate::protocol::replacement::intent::Phase;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::proof::Proof;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::refusal::about;
use crate::protocol::replacement::refusal::on_record;
use crate::protocol::replacement::resolve;
use crate::protocol::replacement::scan::Class;
use crate::protocol::replacement::scan::Done;
use crate::protocol::replacement::scan::Outcome;
use crate::protocol::replacement::scan::Page;
use crate::protocol::replacement::scan::Work;
use crate::protocol::replacement::start;
use crate::protocol::replacement::start::First;
use crate::protocol::replacement::start::Request;
use crate::protocol::replacement::step::Step;
use crate::protocol::replacement::store::Change;
use crate::protocol::replacement::store::Durable;
use crate::protocol::replacement::store::Files;
use crate::protocol::replacement::store::Now;
use crate::protocol::replacement::store::Place;
use crate::protocol::replacement::store::Stored;
use crate::protocol::replacement::store::Write;

/// The release that a node runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// Writes schema 5 as it began.
    Legacy5,
    /// Writes schema 6.
    Legacy6,
}

impl Release {
    /// The schema of its intents.
    pub fn schema(self) -> u32 {
        match self {
            Self::Legacy5 => 5,
            Self::Legacy6 => 6,
        }
    }

    fn layout(self) -> Layout {
        match self {
            Self::Legacy5 => Layout::Early,
            Self::Legacy6 => Layout::Legacy,
        }
    }

    /// The schema of its checkpoints, and whether these have counters and a digest.
    fn ledger(self) -> (u32, bool) {
        match self {
            Self::Legacy5 => (5, false),
            Self::Legacy6 => (checkpoint::SCHEMA, true),
        }
    }

    /// The record in `bytes`, as far as this release understands it.
    ///
    /// # Errors
    ///
    /// [`Refusal::DowngradeRefused`] for a record of a later schema: it is left as it is, to the byte.
    pub fn read(self, id: GenerationId, bytes: &[u8]) -> Result<Intent, Refusal> {
        let intent = Intent::parse(bytes).map_err(|error| {
            Refusal::Unreadable(on_record(Record::Intent, id, error, "an intent's JSON"))
        })?;
        if intent.schema_version > self.schema() {
            let seen = format!("schema {}", intent.schema_version);
            let expected = format!("at most {}", self.schema());
            return Err(Refusal::DowngradeRefused(on_record(Record::Intent, id, seen, expected)));
        }
        if intent.task_id != id {
            let seen = format!("a record of {}", intent.task_id);
            return Err(Refusal::NameDiffers(on_record(Record::Intent, id, seen, id)));
        }
        Ok(intent)
    }
}

/// The next write that publishes a fresh generation as `release` does: folder, intent, seal.
///
/// # Errors
///
/// [`Refusal::DowngradeRefused`] when any record of the folder is of a later schema: nothing is written then.
pub fn start(
    release: Release,
    durable: &Durable,
    request: &Request,
    now: &Now,
) -> Result<Option<Write>, Refusal> {
    let files = &durable.files;
    let id = request.generation;
    for other in files.generations() {
        release.read(other, files.record(Record::Intent, other).unwrap_or_default())?;
    }
    if files.record(Record::Intent, id).is_some() {
        let is_sealed = files.record(Record::Seal, id).is_some();
        return Ok((!is_sealed).then(|| resolve::seal_write(Step::IntentSealed, id, None)));
    }
    let intent = match start::first(durable, request, now)? {
        First::Folder(write) => return Ok(Some(write)),
        First::Record(intent) => *intent,
    };
    let bytes = written(release, intent).encode();
    Ok(Some(Write::record(Step::IntentPublished, Record::Intent, id, None, Some(bytes))))
}

/// The next write of `id` as `release` goes on with it at a start of the process or in a pass; `None` when there
/// is work to do, or nothing is left but the proof.
///
/// # Errors
///
/// [`Refusal::MarkerForeign`], [`Refusal::TargetNotReady`], and what reading says.
pub fn next_write(
    release: Release,
    durable: &Durable,
    id: GenerationId,
    now: &Now,
    done: &Done,
) -> Result<Option<Write>, Refusal> {
    let files = &durable.files;
    let Some(bytes) = files.record(Record::Intent, id) else {
        let seal = files.record(Record::Seal, id);
        return Ok(
            seal.map(|it| Write::record(Step::SealRemoved, Record::Seal, id, Some(it), None))
        );
    };
    let stored = Stored { value: release.read(id, bytes)?, bytes: bytes.to_vec() };
    let intent = &stored.value;
    if matches!(intent.phase, Phase::Abandoned | Phase::None) {
        return Ok(None);
    }
    if intent.phase == Phase::CleanupPending {
        return Ok(clean(files, id));
    }
    let mounted = now.mounted(&intent.targets)?;
    if resolve::identities(&mounted) != intent.identities {
        return Ok(Some(save(release, &stored, Step::LegacyAbandoned, now, |next| {
            next.phase = Phase::Abandoned;
        })));
    }
    match intent.phase {
        Phase::Intent => {
            if let Some(target) = mounted.iter().position(|it| it.is_blank()) {
                let place = Place::Target(target);
                let (step, path) = (Step::TargetFormatted, names::FORMAT.to_owned());
                return Ok(Some(Write { step, place, path, change: Change::Format }));
            }
            Ok(Some(save(release, &stored, Step::RebuildingEntered, now, |next| {
                next.phase = Phase::Rebuilding;
            })))
        }
        Phase::Rebuilding => {
            let owner = intent.owner();
            for (target, found) in durable.owners(&intent.targets)?.into_iter().enumerate() {
                match found {
                    Some(found) if found == owner => {}
                    Some(found) => {
                        let evidence = format!("{}/{}", intent.targets[target], names::MARKER);
                        let on = about(format!("`{found}`"), format!("`{owner}`"), evidence);
                        return Err(Refusal::MarkerForeign(on));
                    }
                    None => {
                        let step = Step::MarkerAcquired;
                        return Ok(Some(Write::marker(step, target, None, Some(owner))));
                    }
                }
            }
            pass(release, files, &stored, now, done)
        }
        Phase::Verified => {
            let owned = durable.markers.iter().position(Option::is_some);
            if let Some(target) = owned {
                let expected = durable.markers[target].as_deref();
                return Ok(Some(Write::marker(Step::MarkerCleared, target, expected, None)));
            }
            Ok(Some(save(release, &stored, Step::CleanupEntered, now, |next| {
                next.phase = Phase::CleanupPending;
            })))
        }
        _ => Ok(None),
    }
}

/// What a pass of `id` has to do next; only pages: internal objects and shards are not looked at.
///
/// # Errors
///
/// As reading the record.
pub fn work(release: Release, files: &Files, id: GenerationId) -> Result<Work, Refusal> {
    let Some(bytes) = files.record(Record::Intent, id) else {
        return Ok(Work::Nothing);
    };
    let intent = release.read(id, bytes)?;
    let Some(ledger) = ledger(release, files, id).filter(|_| intent.phase == Phase::Rebuilding)
    else {
        return Ok(Work::Nothing);
    };
    let bucket_index = ledger.current_bucket_index;
    Ok(match intent.buckets.get(bucket_index) {
        Some(bucket) => Work::Page {
            bucket_index,
            bucket: bucket.clone(),
            cursor: intent.resume_cursor,
            objects_before: ledger.current_object_index,
        },
        None => Work::Nothing,
    })
}

/// One drive of a set, as an older release looks at it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Looked {
    /// Its endpoint.
    pub endpoint: String,
    /// Whether this node owns it.
    pub is_local: bool,
    /// Whether it waits to be rebuilt: it is not formatted, or was formatted for a rebuild that nobody has marked.
    pub is_waiting: bool,
    /// What its marker holds.
    pub marker: Option<Vec<u8>>,
    /// Its records.
    pub files: Files,
}

/// What an older release does about a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Turn {
    /// Nothing.
    Nothing,
    /// It goes on with a generation, or gives it up.
    Resume {
        /// The generation.
        generation: GenerationId,
        /// Its targets.
        targets: Vec<String>,
        /// The drive that holds its record.
        anchor: String,
    },
    /// It begins a fresh one.
    Begin {
        /// Its targets, sorted.
        targets: Vec<String>,
        /// The drive that is to hold its record.
        anchor: String,
    },
}

/// What `release` does about `set`, of which only the drives that answer are given, in slot order.
///
/// A drive that is still marked by a generation which was given up gets another generation, whoever the marker names.
///
/// # Errors
///
/// [`Refusal::DowngradeRefused`], and what reading says: nothing is done in the set then.
pub fn decide(release: Release, set: SetId, drives: &[Looked]) -> Result<Turn, Refusal> {
    let is_local = |target: &String| drives.iter().any(|it| it.is_local && it.endpoint == *target);
    let mut open = None;
    for drive in drives {
        for id in drive.files.generations() {
            let bytes = drive.files.record(Record::Intent, id).unwrap_or_default();
            let intent = release.read(id, bytes)?;
            let is_over = matches!(intent.phase, Phase::Abandoned | Phase::None);
            if !is_over && intent.set_disk_id.parse() == Ok(set) {
                open = open.or(Some((drive, intent)));
            }
        }
    }
    if let Some((anchor, intent)) = open {
        let is_ours = intent.targets.iter().all(is_local);
        let (generation, anchor) = (intent.task_id, anchor.endpoint.clone());
        let resume = Turn::Resume { generation, targets: intent.targets, anchor };
        return Ok(if is_ours { resume } else { Turn::Nothing });
    }
    let is_left = |it: &&Looked| it.is_local && (it.is_waiting || it.marker.is_some());
    let mut targets: Vec<_> = drives.iter().filter(is_left).map(|it| it.endpoint.clone()).collect();
    targets.sort_unstable();
    let is_fit = |it: &&Looked| !it.is_waiting && it.marker.is_none() && !it.files.is_blank;
    let fit = || drives.iter().filter(is_fit);
    let anchor = fit().find(|it| it.is_local).or(fit().next());
    Ok(match anchor {
        Some(anchor) if !targets.is_empty() => {
            Turn::Begin { targets, anchor: anchor.endpoint.clone() }
        }
        _ => Turn::Nothing,
    })
}

fn ledger(release: Release, files: &Files, id: GenerationId) -> Option<Checkpoint> {
    let bytes = files.record(Record::Checkpoint, id)?;
    let fresh = fresh_ledger(release, id, 0);
    Some(Checkpoint::parse(bytes).unwrap_or(fresh))
}

fn fresh_ledger(release: Release, id: GenerationId, now_s: u64) -> Checkpoint {
    let (schema_version, has_counters) = release.ledger();
    Checkpoint { schema_version, has_counters, ..Checkpoint::fresh(id, now_s) }
}

fn written(release: Release, intent: Intent) -> Intent {
    Intent { layout: release.layout(), schema_version: release.schema(), ..intent }
}

fn save(
    release: Release,
    stored: &Stored<Intent>,
    step: Step,
    now: &Now,
    change: impl FnOnce(&mut Intent),
) -> Write {
    let mut next = Intent { last_update: now.time_s, ..stored.value.clone() };
    change(&mut next);
    let bytes = written(release, next).encode();
    let id = stored.value.task_id;
    Write::record(step, Record::Intent, id, Some(&stored.bytes), Some(bytes))
}

fn save_ledger(files: &Files, step: Step, ledger: &Checkpoint, now: &Now) -> Write {
    let id = ledger.task_id;
    let expected = files.record(Record::Checkpoint, id);
    let bytes = if ledger.has_counters {
        ledger.seal(now.time_s)
    } else {
        Checkpoint { checkpoint_time: now.time_s, ..ledger.clone() }.encode()
    };
    Write::record(step, Record::Checkpoint, id, expected, Some(bytes))
}

fn pass(
    release: Release,
    files: &Files,
    stored: &Stored<Intent>,
    now: &Now,
    done: &Done,
) -> Result<Option<Write>, Refusal> {
    let intent = &stored.value;
    let id = intent.task_id;
    let Some(ledger) = ledger(release, files, id) else {
        let fresh = fresh_ledger(release, id, now.time_s);
        return Ok(Some(save_ledger(files, Step::LedgerReset, &fresh, now)));
    };
    let index = ledger.current_bucket_index;
    if let Some(bucket) = intent.buckets.get(index) {
        if intent.completed_buckets.contains(bucket) {
            let mut next = with(&ledger, &[]);
            forget(&mut next);
            next.current_bucket_index = index + 1;
            next.current_object_index = 0;
            return Ok(Some(save_ledger(files, Step::BucketAdvanced, &next, now)));
        }
        return Ok(match done {
            Done::Outcomes(outcomes) => {
                let next = with(&ledger, outcomes);
                let is_new = next != ledger;
                is_new.then(|| save_ledger(files, Step::OutcomesSaved, &next, now))
            }
            Done::Page(page) if page.bucket_index == index => {
                page_write(release, files, stored, &ledger, page, now)
            }
            _ => None,
        });
    }
    if files.record(Record::Proof, id).is_none() {
        let proof = Proof::of(intent, now.time_s, 1).encode();
        return Ok(Some(Write::record(Step::ProofWritten, Record::Proof, id, None, Some(proof))));
    }
    Ok(Some(save(release, stored, Step::VerifiedSaved, now, |next| {
        next.phase = Phase::Verified;
        next.completed = true;
    })))
}

/// The cursor goes first; position and forgetting are one write.
fn page_write(
    release: Release,
    files: &Files,
    stored: &Stored<Intent>,
    ledger: &Checkpoint,
    page: &Page,
    now: &Now,
) -> Option<Write> {
    let intent = &stored.value;
    if page.next_cursor.is_some() && intent.resume_cursor == page.next_cursor {
        let mut next = ledger.clone();
        forget(&mut next);
        next.current_object_index = page.objects_before + page.objects;
        let is_new = next != *ledger;
        return is_new.then(|| save_ledger(files, Step::PositionSaved, &next, now));
    }
    let next = with(ledger, &page.outcomes);
    if next != *ledger {
        return Some(save_ledger(files, Step::OutcomesSaved, &next, now));
    }
    if page.next_cursor.is_some() {
        return Some(save(release, stored, Step::CursorSaved, now, |next| {
            next.resume_cursor.clone_from(&page.next_cursor);
        }));
    }
    Some(save(release, stored, Step::BucketCompleted, now, |next| {
        let bucket = intent.buckets[page.bucket_index].clone();
        next.pending_buckets.retain(|it| *it != bucket);
        next.completed_buckets.push(bucket);
        next.resume_cursor = None;
        let page_count = page.objects_before.saturating_add(page.objects) as u64;
        next.processed_objects = next.processed_objects.saturating_add(page_count);
        next.successful_objects = next.processed_objects;
    }))
}

fn with(ledger: &Checkpoint, outcomes: &[Outcome]) -> Checkpoint {
    let mut next = ledger.clone();
    let mut known = ledger.known();
    for outcome in outcomes {
        if !known.insert(&outcome.key) {
            continue;
        }
        match outcome.class {
            Class::Rebuilt | Class::Gone => next.processed_objects.push(outcome.key.clone()),
            Class::Skipped => next.skipped_objects.push(outcome.key.clone()),
            Class::Failed => next.failed_objects.push(outcome.key.clone()),
        }
        if ledger.has_counters {
            next.successful_objects += u64::from(outcome.class <= Class::Gone);
        }
    }
    next
}

fn forget(ledger: &mut Checkpoint) {
    ledger.processed_objects.clear();
    ledger.failed_objects.clear();
    ledger.skipped_objects.clear();
}

fn clean(files: &Files, id: GenerationId) -> Option<Write> {
    let order = [(Record::Checkpoint, Step::LedgerRemoved), (Record::Intent, Step::IntentRemoved)];
    order.into_iter().find_map(|(record, step)| {
        let bytes = files.record(record, id)?;
        Some(Write::record(step, record, id, Some(bytes), None))
    })
}
