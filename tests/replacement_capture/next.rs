//! Each captured state of release 1.0.1 and the write that came next.
//!
//! The capture was polled, so that several writes may lie between two states; the one that the protocol names
//! has to be among them. What this protocol does otherwise on purpose is listed in [`ON_PURPOSE`].

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;

use firedrill::protocol::replacement::checkpoint::Checkpoint;
use firedrill::protocol::replacement::identity::Identity;
use firedrill::protocol::replacement::identity::Note;
use firedrill::protocol::replacement::ids::GenerationId;
use firedrill::protocol::replacement::intent::Intent;
use firedrill::protocol::replacement::names;
use firedrill::protocol::replacement::names::Name;
use firedrill::protocol::replacement::names::Record;
use firedrill::protocol::replacement::refusal::Refusal;
use firedrill::protocol::replacement::resolve;
use firedrill::protocol::replacement::run;
use firedrill::protocol::replacement::scan::Checked;
use firedrill::protocol::replacement::scan::Class;
use firedrill::protocol::replacement::scan::Done;
use firedrill::protocol::replacement::scan::Outcome;
use firedrill::protocol::replacement::scan::Page;
use firedrill::protocol::replacement::start;
use firedrill::protocol::replacement::step::Step;
use firedrill::protocol::replacement::store::Change;
use firedrill::protocol::replacement::store::Durable;
use firedrill::protocol::replacement::store::Files;
use firedrill::protocol::replacement::store::Now;
use firedrill::protocol::replacement::store::Place;
use firedrill::protocol::replacement::store::Write;
use libtest_mimic::Failed;

use super::drive;
use super::mounted;
use crate::Case;
use crate::Event;
use crate::conclude;

/// Where this protocol answers otherwise, and why: the case, and a test of the answer.
type OnPurpose = (&'static str, &'static str, fn(&Result<Option<Write>, Refusal>) -> bool);

#[rustfmt::skip]
const ON_PURPOSE: &[OnPurpose] = &[
    ("09", "a handoff costs nothing of the failure budget: the released server exhausts it at the third mount change",
     |answer| matches!(answer, Ok(Some(write)) if write.step == Step::HandoffPrepared)),
    ("09", "an exhausted budget is the end until an operator re-arms it: the released server re-arms and exhausts it again at each tick",
     |answer| matches!(answer, Err(Refusal::BudgetExhausted(_)))),
];

/// What lies on the drives, by drive and path.
type Drives = BTreeMap<(String, String), Vec<u8>>;

pub fn is_named(folder: &Path) -> Result<(), Failed> {
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    let case = Case::unpack(folder);
    let mut drives = Drives::new();
    let mut complaints = Vec::new();
    let (mut named, mut on_purpose, mut display) = (0, 0, 0);
    let groups = groups(&case.events);
    for (index, group) in groups.iter().enumerate() {
        apply(&mut drives, group);
        let Some(next) = groups.get(index + 1) else { break };
        let Some(question) = Question::about(&case, &drives, next) else { continue };
        if next.iter().all(|event| event.path == names::FORMAT) {
            // The drive was wiped or given its format back by whoever made the capture.
            continue;
        }
        if question.is_display_only(next) {
            // This release saves nothing for display alone.
            display += 1;
            continue;
        }
        let answer = question.ask();
        let is_next = match &answer {
            Ok(Some(write)) => question.is_among(write, next),
            _ => false,
        };
        if is_next {
            named += 1;
            continue;
        }
        let known = ON_PURPOSE.iter().any(|row| name.starts_with(row.0) && row.2(&answer));
        if known {
            on_purpose += 1;
            continue;
        }
        let paths: Vec<_> = next.iter().map(|event| &event.path).collect();
        let answer = match answer {
            Ok(write) => format!("{:?}", write.map(|it| (it.step, it.path))),
            Err(refusal) => refusal.to_string(),
        };
        complaints.push(format!("t {}: {answer}, came {paths:?}", group[0].t));
    }
    println!("{name}: {named} named, {on_purpose} otherwise on purpose, {display} for display");
    if name.starts_with("09") {
        // Three mount changes exhaust the released server's budget: every answer is otherwise on purpose.
        assert_eq!((named, on_purpose), (0, groups.len() - 1));
    } else if name.starts_with("11") {
        begins_again(&case, &drives, &mut complaints);
    } else if named == 0 {
        complaints.push("no state was asked about".to_owned());
    }
    conclude(&complaints)
}

/// The released server refuses a fresh generation for ever once a set has a history; here a generation that
/// has passed its targets on reserves nothing.
fn begins_again(case: &Case, drives: &Drives, complaints: &mut Vec<String>) {
    let mut files = Files { has_folder: true, ..Files::default() };
    for ((_, path), bytes) in drives.iter().filter(|((drive, _), _)| drive == "node2/d2") {
        files.bytes.insert(path.clone(), bytes.clone());
    }
    let history = files.generations();
    assert_eq!(history.len(), 1, "one predecessor is left");
    let recorded = files.intent_of(history[0]).unwrap().value.identities[0].clone();
    let request = start::Request {
        generation: "00000000-0000-4000-8000-000000000011".parse().unwrap(),
        set: "pool_0_set_0".to_owned(),
        targets: vec![recorded.endpoint.clone()],
    };
    let mounts = vec![Ok(mounted(case, &recorded, None))];
    let now = Now { time_s: 1, mounts, ..Now::default() };
    let durable = Durable { files, markers: vec![None] };
    let answer = start::next_write(&durable, &request, &now);
    if !matches!(&answer, Ok(Some(write)) if write.step == Step::IntentPublished) {
        complaints.push(format!("a fresh generation: {answer:?}"));
    }
}

/// The events of one look of the poller, together.
fn groups(events: &[Event]) -> Vec<Vec<Event>> {
    let is_ours = |path: &str| {
        let is_record =
            matches!(names::parse(path), Name::Record(record, _) if record != Record::ResumeState);
        is_record || path == names::MARKER || path == names::FORMAT
    };
    let mut groups: Vec<Vec<Event>> = Vec::new();
    for event in events.iter().filter(|event| is_ours(&event.path)) {
        match groups.last_mut() {
            Some(group) if group[0].t == event.t => group.push(event.clone()),
            _ => groups.push(vec![event.clone()]),
        }
    }
    groups
}

fn apply(drives: &mut Drives, group: &[Event]) {
    for event in group {
        let key = (event.drive.clone(), event.path.clone());
        match &event.bytes {
            Some(bytes) => drives.insert(key, bytes.clone()),
            None => drives.remove(&key),
        };
    }
}

/// One state, and what its executor had done by the next one.
struct Question {
    anchor: String,
    durable: Durable,
    now: Now,
    asked: Asked,
    done: Vec<Done>,
}

/// Who is asked.
enum Asked {
    Start(start::Request),
    Run(GenerationId),
}

impl Question {
    /// The question about `drives`, of which `next` is to come; `None` when no record is concerned.
    fn about(case: &Case, drives: &Drives, next: &[Event]) -> Option<Self> {
        let concerned = next.iter().find_map(|event| match names::parse(&event.path) {
            Name::Record(
                Record::Intent | Record::Checkpoint | Record::Seal | Record::Proof,
                id,
            ) => Some((event.drive.clone(), id)),
            _ => None,
        });
        let (anchor, concerned) = concerned.or_else(|| {
            let path = drives
                .keys()
                .find(|(_, path)| matches!(names::parse(path), Name::Record(Record::Intent, _)))?;
            let Name::Record(_, id) = names::parse(&path.1) else { return None };
            Some((path.0.clone(), id))
        })?;
        let mut files = Files { has_folder: true, ..Files::default() };
        for ((drive, path), bytes) in drives {
            if *drive == anchor && matches!(names::parse(path), Name::Record(..)) {
                files.bytes.insert(path.clone(), bytes.clone());
            }
        }
        let created = next.iter().find_map(|event| match names::parse(&event.path) {
            Name::Record(Record::Intent, id) if files.record(Record::Intent, id).is_none() => {
                Intent::parse(event.bytes.as_ref()?).ok()
            }
            _ => None,
        });
        let is_fresh = created.as_ref().is_some_and(|intent| intent.predecessor.is_none());
        let (asked, identities) = if is_fresh && files.record(Record::Intent, concerned).is_none() {
            let intent = created.clone()?;
            let (set, targets) = (intent.set_disk_id.clone(), intent.targets.clone());
            let request = start::Request { generation: intent.task_id, set, targets };
            (Asked::Start(request), intent.identities)
        } else {
            let intents = files.generations().into_iter().map(|id| files.intent_of(id).unwrap());
            let is_root = |it: &Intent| it.predecessor.is_none();
            let mut roots = intents.map(|stored| stored.value).filter(is_root);
            let root = roots.next()?;
            let runner = resolve::runner(&files, root.task_id).unwrap();
            let identities =
                files.intent(runner).unwrap().map_or(root.identities, |it| it.value.identities);
            (Asked::Run(runner), identities)
        };
        let on = |identity: &Identity, path: &str| {
            let key = (drive(&identity.endpoint).to_owned(), path.to_owned());
            drives.get(&key).cloned()
        };
        let mounts: Vec<_> = identities
            .iter()
            .map(|identity| {
                let is_formatted = on(identity, names::FORMAT).is_some();
                Ok(mounted(case, identity, is_formatted.then(|| identity.endpoint.clone())))
            })
            .collect();
        let markers = identities.iter().map(|identity| on(identity, names::MARKER)).collect();
        let now = Now {
            time_s: 1_795_965_000,
            mounts,
            buckets: ["alpha", "beta", "mixed", "plain"].map(str::to_owned).to_vec(),
            fresh_successor: created.map_or_else(GenerationId::default, |it| it.task_id),
            fresh_transaction: GenerationId::default(),
            is_opening: false,
        };
        let mut question =
            Self { anchor, durable: Durable { files, markers }, now, asked, done: Vec::new() };
        question.note(&identities);
        question.done = question.done_until(next);
        Some(question)
    }

    /// The side-file that a live executor of ours would have left: the captures have none.
    fn note(&mut self, recorded: &[Identity]) {
        let Asked::Run(id) = self.asked else { return };
        let mounted: Vec<_> = self.now.mounts.iter().flatten().collect();
        if mounted.iter().map(|it| &it.identity).eq(recorded) {
            let targets = mounted.iter().map(|it| it.noted()).collect();
            let note = Note { format: Note::FORMAT, generation: id, targets };
            let path = names::path(Record::Note, id);
            self.durable.files.bytes.insert(path, note.encode());
        }
    }

    /// What the executor had done when the events of `next` were written.
    fn done_until(&self, next: &[Event]) -> Vec<Done> {
        let Asked::Run(id) = self.asked else { return vec![Done::Nothing] };
        let Ok(Some(ledger)) = self.durable.files.checkpoint(id) else {
            return vec![Done::Nothing];
        };
        let ledger = ledger.value;
        let path = |record| names::path(record, id);
        let event = |record| next.iter().find(|event| event.path == path(record));
        let bytes = |record| event(record).and_then(|event| event.bytes.as_ref());
        if event(Record::Proof).is_some() {
            let pool = Outcome { key: "pool.bin".to_owned(), class: Class::Rebuilt, bytes: 0 };
            let checked = Checked { versions: ledger.successful_objects + 1, unproved: 0 };
            return vec![Done::Internals(vec![pool]), Done::Checked(checked)];
        }
        let Some(after) = bytes(Record::Checkpoint) else {
            return vec![self.page(&ledger, None, bytes(Record::Intent))];
        };
        let after = Checkpoint::read(id, after).unwrap();
        let is_within = after.current_bucket_index == ledger.current_bucket_index
            && after.current_object_index == ledger.current_object_index;
        if is_within && after.known().len() >= ledger.known().len() {
            let known = ledger.known();
            let new = after.processed_objects.iter().filter(|key| !known.contains(key.as_str()));
            let outcome =
                |key: &String| Outcome { key: key.clone(), class: Class::Rebuilt, bytes: 0 };
            return vec![Done::Outcomes(new.map(outcome).collect())];
        }
        vec![self.page(&ledger, Some(&after), bytes(Record::Intent))]
    }

    /// The page whose end is `after`, with names of our own for the versions that were forgotten since.
    fn page(
        &self,
        ledger: &Checkpoint,
        after: Option<&Checkpoint>,
        intent: Option<&Vec<u8>>,
    ) -> Done {
        let intent = intent.and_then(|bytes| Intent::parse(bytes).ok());
        let after = after.unwrap_or(ledger);
        let is_last = after.current_bucket_index > ledger.current_bucket_index;
        let count = after.successful_objects - ledger.successful_objects;
        let mut keys: Vec<String> = ledger.processed_objects.clone();
        keys.extend((0..count).map(|number| format!("new-{number}")));
        let outcomes = keys.into_iter().map(|key| Outcome { key, class: Class::Rebuilt, bytes: 0 });
        let cursor = intent.and_then(|intent| intent.resume_cursor).or_else(|| {
            let Asked::Run(id) = self.asked else { return None };
            self.durable.files.intent_of(id).unwrap().value.resume_cursor
        });
        Done::Page(Page {
            bucket_index: ledger.current_bucket_index,
            cursor: None,
            outcomes: outcomes.collect(),
            objects: after.current_object_index.saturating_sub(ledger.current_object_index),
            next_cursor: cursor.filter(|_| !is_last),
            objects_before: ledger.current_object_index,
        })
    }

    /// The first write of the protocol that the released server has too.
    ///
    /// It has no side-file, and counts the internal objects in the record alone.
    fn ask(&self) -> Result<Option<Write>, Refusal> {
        let mut durable = self.durable.clone();
        let mut done = self.done.iter();
        let mut doing = done.next().unwrap();
        for _ in 0..4 {
            let write = match &self.asked {
                Asked::Start(request) => start::next_write(&durable, request, &self.now)?,
                Asked::Run(id) => run::next_write(&durable, *id, &self.now, doing)?,
            };
            let Some(write) = write else { return Ok(None) };
            if !matches!(write.step, Step::TargetsNoted | Step::InternalsSaved) {
                return Ok(Some(write));
            }
            if write.step == Step::InternalsSaved {
                doing = done.next().unwrap();
            }
            let Change::Swap { new: Some(new), .. } = write.change else { return Ok(None) };
            durable.files.bytes.insert(write.path, new);
        }
        Ok(None)
    }

    /// Whether `write` is among the events that came next, and means what came.
    fn is_among(&self, write: &Write, next: &[Event]) -> bool {
        let drive = match write.place {
            Place::Anchor => self.anchor.clone(),
            Place::Target(target) => {
                let mount = self.now.mounts[target].as_ref().unwrap();
                drive(&mount.identity.endpoint).to_owned()
            }
        };
        let came = next.iter().find(|event| event.drive == drive && event.path == write.path);
        let Some(came) = came else { return false };
        let Change::Swap { new: Some(new), .. } = &write.change else { return true };
        match (names::parse(&write.path), &came.bytes) {
            (_, None) => true,
            (Name::Record(Record::Intent, _), Some(bytes)) => {
                let (ours, theirs) = (Intent::parse(new).unwrap(), Intent::parse(bytes).unwrap());
                is_same_intent(&ours, &theirs)
            }
            (Name::Record(Record::Checkpoint, _), Some(bytes)) => {
                let (ours, theirs) =
                    (Checkpoint::parse(new).unwrap(), Checkpoint::parse(bytes).unwrap());
                ours.successful_objects <= theirs.successful_objects
                    && ours.current_bucket_index <= theirs.current_bucket_index
            }
            (_, Some(bytes)) => new == bytes,
        }
    }

    /// Whether all that came next was what the released server keeps for display.
    fn is_display_only(&self, next: &[Event]) -> bool {
        next.iter().all(|event| {
            let Name::Record(Record::Intent, id) = names::parse(&event.path) else { return false };
            let (Ok(Some(before)), Some(bytes)) = (self.durable.files.intent(id), &event.bytes)
            else {
                return false;
            };
            let mut before = before.value;
            let after = Intent::parse(bytes).unwrap();
            before.current_bucket.clone_from(&after.current_bucket);
            before.current_object.clone_from(&after.current_object);
            (before.revision, before.last_update) = (after.revision, after.last_update);
            before == after
        })
    }
}

/// Whether our record may stand between the one before and theirs: it is bound to the same things, and is not
/// ahead of what came.
fn is_same_intent(ours: &Intent, theirs: &Intent) -> bool {
    let terms = |intent: &Intent| {
        let handoff = intent.handoff.clone();
        handoff.map(|it| {
            let endpoints: BTreeSet<_> = it
                .link
                .targets
                .into_iter()
                .collect::<Vec<_>>()
                .into_iter()
                .map(|it| (it.endpoint, it.filesystem_identity, it.physical_device_ids))
                .collect();
            (it.link.successor, endpoints, it.link.expected_markers, it.link.buckets)
        })
    };
    ours.task_id == theirs.task_id
        && ours.targets == theirs.targets
        && ours.identities == theirs.identities
        && ours.buckets == theirs.buckets
        && ours.predecessor == theirs.predecessor
        && ours.lineage.len() == theirs.lineage.len()
        && ours.revision <= theirs.revision
        && (ours.phase == theirs.phase || ours.revision < theirs.revision)
        && (terms(ours) == terms(theirs) || theirs.handoff.is_none())
}
