//! One attempt on one generation: leases, then read, ask, write, repeat.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_bytes::ByteBuf;
use uuid::Uuid;

use crate::disk::drive::DriveError;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::node::replacement::course::Asked;
use crate::node::replacement::observe;
use crate::node::replacement::observe::Observed;
use crate::node::replacement::observe::Place;
use crate::node::replacement::places;
use crate::node::replacement::survey;
use crate::node::service::Node;
use crate::node::store::Store;
use crate::protocol::replacement::checkpoint;
use crate::protocol::replacement::discover::Decision;
use crate::protocol::replacement::discover::Survey;
use crate::protocol::replacement::failure;
use crate::protocol::replacement::failure::Failure;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::ids::SetId;
use crate::protocol::replacement::import;
use crate::protocol::replacement::intent::Phase;
use crate::protocol::replacement::legacy;
use crate::protocol::replacement::legacy::Release;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::refusal::about;
use crate::protocol::replacement::resolve;
use crate::protocol::replacement::run;
use crate::protocol::replacement::scan::Class;
use crate::protocol::replacement::scan::Done;
use crate::protocol::replacement::scan::Outcome;
use crate::protocol::replacement::scan::Page;
use crate::protocol::replacement::scan::Work;
use crate::protocol::replacement::start;
use crate::protocol::replacement::step::Step;
use crate::protocol::replacement::store;
use crate::protocol::replacement::store::Change;
use crate::protocol::replacement::store::Write;

/// Swaps in a row that found something else than what was read a moment before.
const CONFLICTS_MAX: u32 = 20;
/// How often what was put off is tried while every drive answers, before it counts as left out.
const TRIES_MAX: u32 = 10;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// Nothing is left to do for the generation.
    Over,
    /// Something has to come first; nothing was recorded.
    Deferred(String),
    /// The protocol refuses to go on.
    Refused(Refusal),
}

/// One attempt.
pub struct Attempt {
    node: Arc<Node>,
    objects: Arc<Store>,
    set: usize,
    anchor: Place,
    targets: Vec<Place>,
    /// The generation that was found, or is to begin.
    root: GenerationId,
    /// What is done for it.
    aim: Aim,
    /// Who holds the leases.
    holder: Uuid,
}

/// What an attempt is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// To begin a generation, and to go as far as it can.
    Begin,
    /// To go on with one.
    Resume,
    /// To import legacy records into it, as its approval permits.
    Import,
    /// To begin, or to go on, as an older release does.
    Legacy {
        /// Which.
        release: Release,
        /// Whether to begin.
        begins: bool,
    },
}

/// What an attempt remembers; nothing of it outlives the attempt.
#[derive(Default)]
struct Memory {
    buckets: Vec<String>,
    has_worked: bool,
    /// Targets whose markers it has written.
    acquired: BTreeSet<usize>,
    retries_before: Option<u32>,
    conflicts: u32,
    tries: u32,
    lives: Option<GenerationId>,
}

impl Attempt {
    /// The attempt that `decision` asks for, if it asks for one.
    pub fn of(
        node: &Arc<Node>,
        objects: &Arc<Store>,
        set: usize,
        survey: &Survey,
        decision: Decision,
    ) -> Option<Self> {
        let (root, aim, names, anchor) = match decision {
            Decision::Resume { generation, anchor } => {
                let mut read = survey.drives.iter().filter_map(|it| it.intents.get(&generation));
                let intent = read.find_map(|read| read.as_ref().ok())?;
                (generation, Aim::Resume, intent.targets.clone(), anchor)
            }
            Decision::Begin { targets, anchor, torn } => {
                (torn.unwrap_or(GenerationId(Uuid::new_v4())), Aim::Begin, targets, anchor)
            }
            Decision::Nothing | Decision::Wait(_) | Decision::Block(_) => return None,
        };
        Self::on(node, objects, set, (root, aim), names, anchor)
    }

    /// An attempt on these drives; `None` when one of them is none of the deployment's.
    pub fn on(
        node: &Arc<Node>,
        objects: &Arc<Store>,
        set: usize,
        (root, aim): (GenerationId, Aim),
        names: Vec<String>,
        anchor: String,
    ) -> Option<Self> {
        let endpoints = places::endpoints(&node.loaded.config);
        let place = |name: String| {
            let endpoint = endpoints.iter().position(|it| *it == name)?;
            Some(Place { endpoint, name })
        };
        let targets = names.into_iter().map(place).collect::<Option<Vec<_>>>()?;
        let (anchor, holder) = (place(anchor)?, Uuid::new_v4());
        let (node, objects) = (Arc::clone(node), Arc::clone(objects));
        Some(Self { node, objects, set, anchor, targets, root, aim, holder })
    }

    /// Takes the leases, goes as far as it can, and gives the leases up. An older release takes none.
    pub async fn run(self) -> End {
        let leased = if self.takes_leases() { self.targets.as_slice() } else { &[] };
        let mut end = Ok(());
        for target in leased {
            end = self.take_lease(target).await;
            if end.is_err() {
                break;
            }
        }
        let mut memory = Memory::default();
        if end.is_ok() {
            end = self.go(&mut memory).await;
        }
        self.node.replacements.lives(memory.lives, None);
        for target in leased {
            // It is given up by whoever never got it, too.
            self.node.replacements.owes(self.set, target.endpoint, self.holder);
        }
        give_up(&self.node, self.set).await;
        end.err().unwrap_or(End::Over)
    }

    /// Takes the lease on one target. What goes on makes no lock anew on a drive that was marked under one: whoever
    /// holds a removed lock would not be seen.
    async fn take_lease(&self, target: &Place) -> Result<(), End> {
        let client = self.node.client(target.endpoint);
        if self.aim == Aim::Resume
            && let Ok(copy) = survey::read(Arc::clone(&client)).await
            && copy.marker.is_some()
            && !copy.has_execution_lock
        {
            return Err(observe::lock_removed(target, "none on a drive that is marked"));
        }
        match client.call(DriveRequest::TakeExecution { holder: self.holder }).await {
            Ok(_) => Ok(()),
            Err(DriveError::Busy { path }) => {
                let seen = format!("{path}, held by somebody else");
                let on = about(seen, "a lease that is free", &target.name);
                Err(End::Refused(Refusal::LeaseHeld(on)))
            }
            Err(error) => Err(End::Deferred(format!("the lease on {}: {error}", target.name))),
        }
    }

    fn takes_leases(&self) -> bool {
        !matches!(self.aim, Aim::Legacy { .. })
    }

    async fn go(&self, memory: &mut Memory) -> Result<(), End> {
        let listed = self.objects.list_buckets().await;
        let listed = listed.map_err(|error| End::Deferred(format!("the buckets: {error}")))?;
        memory.buckets = listed.into_iter().map(|bucket| bucket.name).collect();
        memory.buckets.sort_unstable();
        match self.aim {
            Aim::Resume => {}
            Aim::Begin => self.publish(memory).await?,
            Aim::Import => return self.import(memory).await,
            Aim::Legacy { release, begins } => return self.go_back(memory, release, begins).await,
        }
        let mut done = Done::Nothing;
        loop {
            let seen = self.observe(memory).await?;
            let files = &seen.durable.files;
            let id = resolve::runner(files, self.root).map_err(End::Refused)?;
            let intent = files.intent(id).map_err(End::Refused)?;
            if let Some(intent) = &intent {
                memory.retries_before.get_or_insert(intent.value.retry_count);
            }
            let runs = intent.is_some_and(|it| it.value.phase == Phase::Rebuilding);
            self.lives(memory, runs.then_some(id));
            let asked = Asked { durable: &seen.durable, id, now: &seen.now, done: &done };
            match self.node.course.next_write(asked) {
                Ok(Some(write)) => self.perform(memory, &write).await?,
                Ok(None) => match run::work(&seen.durable, id) {
                    Ok(Work::Nothing) => return Ok(()),
                    Ok(work) => done = self.work(memory, work).await,
                    Err(refusal) => return Err(self.refuse(memory, id, refusal).await),
                },
                Err(refusal) => return Err(self.refuse(memory, id, refusal).await),
            }
        }
    }

    fn lives(&self, memory: &mut Memory, now: Option<GenerationId>) {
        if memory.lives != now {
            self.node.replacements.lives(memory.lives, now);
            memory.lives = now;
        }
    }

    async fn observe(&self, memory: &Memory) -> Result<Observed, End> {
        let Self { node, anchor, targets, .. } = self;
        let holder = self.takes_leases().then_some(self.holder);
        let (buckets, is_opening) = (&memory.buckets, !memory.has_worked);
        observe::observe(node, anchor, targets, holder, buckets, is_opening).await
    }

    /// The targets' slots in their set.
    fn slots(&self) -> Vec<usize> {
        self.targets.iter().map(|target| self.node.loaded.place(target.endpoint).1).collect()
    }

    /// What a fresh generation is to rebuild.
    fn request(&self) -> start::Request {
        start::Request {
            generation: self.root,
            set: SetId { pool: 0, set: self.set }.to_string(),
            targets: self.targets.iter().map(|target| target.name.clone()).collect(),
        }
    }

    /// Publishes a fresh generation.
    async fn publish(&self, memory: &mut Memory) -> Result<(), End> {
        let request = self.request();
        loop {
            let seen = self.observe(memory).await?;
            match start::next_write(&seen.durable, &request, &seen.now).map_err(ended)? {
                Some(write) => self.perform(memory, &write).await?,
                None => return Ok(()),
            }
        }
    }

    /// Imports what the approval of the generation permits.
    async fn import(&self, memory: &mut Memory) -> Result<(), End> {
        loop {
            let seen = self.observe(memory).await?;
            match import::next_write(&seen.durable, self.root, &seen.now).map_err(ended)? {
                Some(write) => self.perform(memory, &write).await?,
                None => return Ok(()),
            }
        }
    }

    /// Goes as far as an older release goes. It records no failure.
    async fn go_back(
        &self,
        memory: &mut Memory,
        release: Release,
        begins: bool,
    ) -> Result<(), End> {
        let request = self.request();
        if begins {
            loop {
                let seen = self.observe(memory).await?;
                match legacy::start(release, &seen.durable, &request, &seen.now).map_err(ended)? {
                    Some(write) => self.perform(memory, &write).await?,
                    None => break,
                }
            }
        }
        let mut done = Done::Nothing;
        loop {
            let seen = self.observe(memory).await?;
            let (durable, now) = (&seen.durable, &seen.now);
            let next = legacy::next_write(release, durable, self.root, now, &done);
            if let Some(write) = next.map_err(ended)? {
                self.perform(memory, &write).await?;
                continue;
            }
            match legacy::work(release, &durable.files, self.root).map_err(ended)? {
                Work::Nothing => return Ok(()),
                work => {
                    self.lives(memory, Some(self.root));
                    done = self.work(memory, work).await;
                }
            }
        }
    }

    /// Performs one write and passes its crash point.
    async fn perform(&self, memory: &mut Memory, write: &Write) -> Result<(), End> {
        let place = match write.place {
            store::Place::Anchor => &self.anchor,
            store::Place::Target(target) => &self.targets[target],
        };
        if write.step == Step::CleanupEntered {
            self.finish_targets().await?;
        }
        let drive = self.node.client(place.endpoint);
        let bytes = |bytes: &Option<Vec<u8>>| bytes.clone().map(ByteBuf::from);
        let request = match &write.change {
            Change::MakeFolder => DriveRequest::MakeRecordFolder,
            Change::Format => {
                let (set, slot) = self.node.loaded.place(place.endpoint);
                let format = self.objects.format_of(set, slot);
                DriveRequest::WriteFormat { bytes: format.encode(), rebuilding: true }
            }
            Change::Swap { expected, new } => DriveRequest::Swap {
                path: write.path.clone(),
                expected: bytes(expected),
                new: bytes(new),
            },
            Change::Link { .. } => {
                let why = format!("{}: links are made by operators' tools", write.step.name());
                return Err(End::Deferred(why));
            }
        };
        match drive.call(request).await {
            Ok(DriveReply::Swapped(false)) | Err(DriveError::Busy { .. }) => {
                memory.conflicts += 1;
                if memory.conflicts > CONFLICTS_MAX {
                    let why = format!("somebody else keeps changing {}", write.path);
                    return Err(End::Deferred(why));
                }
                // Whoever wrote is read before anything is asked again.
                return Ok(());
            }
            Ok(_) => memory.conflicts = 0,
            Err(error) => {
                let words = format!("{} on {}: {error}", write.step.name(), place.name);
                return Err(End::Deferred(words));
            }
        }
        if let store::Place::Target(target) = write.place {
            match write.step {
                Step::MarkerAcquired => drop(memory.acquired.insert(target)),
                Step::MarkerRolledBack => drop(memory.acquired.remove(&target)),
                _ => {}
            }
        }
        tracing::info!(step = write.step.name(), drive = drive.name(), "replacement step");
        self.node.replacements.wrote(self.set, write.step);
        self.node.pass(write.step, drive.name(), &write.path).await;
        Ok(())
    }

    /// No target is being rebuilt any more: its markers are gone, and what it lacks counts again.
    async fn finish_targets(&self) -> Result<(), End> {
        for target in &self.targets {
            let drive = self.node.client(target.endpoint);
            if let Err(error) = drive.call(DriveRequest::FinishRebuild).await {
                return Err(End::Deferred(format!("{}: {error}", target.name)));
            }
        }
        Ok(())
    }

    /// Does what is to be done between two writes. What was put off is not handed on before it was tried often.
    async fn work(&self, memory: &mut Memory, work: Work) -> Done {
        memory.has_worked = true;
        let slots = self.slots();
        let done = match work {
            Work::Nothing => Ok(Done::Nothing),
            Work::Page { bucket_index, bucket, cursor, objects_before } => {
                let after = cursor.as_deref().and_then(checkpoint::cursor_key).unwrap_or_default();
                let limit = self.node.loaded.config.limits.replacement_page;
                let rebuilt =
                    self.objects.rebuild_page(self.set, &bucket, &after, limit, &slots).await;
                let page = Page {
                    bucket_index,
                    cursor,
                    objects: rebuilt.objects,
                    next_cursor: rebuilt.last.as_deref().map(checkpoint::cursor_after),
                    objects_before,
                    outcomes: rebuilt.outcomes,
                };
                let is_whole = is_whole(&page.outcomes);
                self.judge(memory, rebuilt.broken, rebuilt.away, is_whole)
                    .map(|()| Done::Page(page))
            }
            Work::Internals => {
                let rebuilt = self.objects.rebuild_internals(self.set, &slots).await;
                let is_whole = is_whole(&rebuilt.outcomes);
                self.judge(memory, rebuilt.broken, rebuilt.away, is_whole)
                    .map(|()| Done::Internals(rebuilt.outcomes))
            }
            Work::Check => {
                let found = self.objects.check_targets(self.set, &slots).await;
                for problem in &found.problems {
                    tracing::warn!(set = self.set, problem, "not proved");
                }
                self.judge(memory, found.broken, found.away, found.checked.unproved == 0)
                    .map(|()| Done::Checked(found.checked))
            }
        };
        match done {
            Ok(done) => {
                memory.tries = 0;
                done
            }
            Err(why) => {
                self.node.replacements.deferred(self.set, &why);
                // The loop looks at the targets again before it goes on.
                tokio::time::sleep(PAUSE).await;
                Done::Nothing
            }
        }
    }

    /// Whether what was done is to be handed on, or tried again: why.
    fn judge(
        &self,
        memory: &mut Memory,
        broken: Option<String>,
        away: Option<String>,
        is_whole: bool,
    ) -> Result<(), String> {
        memory.tries += 1;
        match (broken, away) {
            (Some(why), _) => Err(why),
            (None, Some(why)) if !is_whole => Err(why),
            (None, None) if !is_whole && memory.tries < TRIES_MAX => {
                Err("versions that could not be rebuilt are tried again".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// Records why the attempt ends, as far as the protocol wants it recorded.
    async fn refuse(&self, memory: &mut Memory, id: GenerationId, refusal: Refusal) -> End {
        let failure = match refusal {
            Refusal::TargetNotReady(why) if !memory.has_worked => return End::Deferred(why.seen),
            Refusal::TargetNotReady(_) => Failure::TargetNotReady,
            Refusal::PassUnclean(_) | Refusal::CheckUnclean(_) => Failure::Pass(refusal.clone()),
            _ => Failure::Refused(refusal.clone()),
        };
        tracing::warn!(set = self.set, generation = %id, %refusal, "replacement is refused");
        match self.record(memory, id, &failure).await {
            Ok(()) => End::Refused(refusal),
            Err(end) => end,
        }
    }

    async fn record(
        &self,
        memory: &mut Memory,
        id: GenerationId,
        failure: &Failure,
    ) -> Result<(), End> {
        loop {
            let seen = self.observe(memory).await?;
            let acquired: Vec<usize> = memory.acquired.iter().copied().collect();
            let back = run::roll_back(&seen.durable, id, &acquired).map_err(End::Refused)?;
            let before = memory.retries_before.unwrap_or_default();
            let write = match back {
                Some(write) => Some(write),
                None => failure::next_write(&seen.durable, id, failure, before, &seen.now)
                    .map_err(End::Refused)?,
            };
            match write {
                Some(write) => self.perform(memory, &write).await?,
                None => return Ok(()),
            }
        }
    }
}

/// How an attempt ends by a refusal of which nothing is recorded.
fn ended(refusal: Refusal) -> End {
    match refusal {
        Refusal::TargetNotReady(why) => End::Deferred(why.seen),
        refusal => End::Refused(refusal),
    }
}

/// Gives up every lease of the set that its attempts have left. A drive that does not answer keeps its lease until it
/// does: what was asked of it before may still be under way there.
pub async fn give_up(node: &Node, set: usize) {
    for (endpoint, holder) in node.replacements.owed(set) {
        let give_up = DriveRequest::EndExecution { holder };
        match node.client(endpoint).call(give_up).await {
            Ok(_) => node.replacements.settled(endpoint, holder),
            Err(error) => tracing::debug!(set, endpoint, %error, "a lease was not given up yet"),
        }
    }
}

/// Whether nothing was put off or left out.
fn is_whole(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(|outcome| matches!(outcome.class, Class::Rebuilt | Class::Gone))
}
