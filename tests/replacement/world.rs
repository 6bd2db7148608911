//! A set of drives in memory, and a node that performs what the protocol asks for and may die after any write.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use firedrill::protocol::replacement::checkpoint::cursor_after;
use firedrill::protocol::replacement::checkpoint::cursor_key;
use firedrill::protocol::replacement::checkpoint::ledger_key;
use firedrill::protocol::replacement::failure;
use firedrill::protocol::replacement::failure::Failure;
use firedrill::protocol::replacement::identity::Identity;
use firedrill::protocol::replacement::identity::Mounted;
use firedrill::protocol::replacement::ids::GenerationId;
use firedrill::protocol::replacement::intent::Intent;
use firedrill::protocol::replacement::names;
use firedrill::protocol::replacement::names::Record;
use firedrill::protocol::replacement::proof::Proof;
use firedrill::protocol::replacement::refusal::Refusal;
use firedrill::protocol::replacement::resolve;
use firedrill::protocol::replacement::run;
use firedrill::protocol::replacement::scan::Checked;
use firedrill::protocol::replacement::scan::Class;
use firedrill::protocol::replacement::scan::Done;
use firedrill::protocol::replacement::scan::Outcome;
use firedrill::protocol::replacement::scan::Page;
use firedrill::protocol::replacement::scan::Work;
use firedrill::protocol::replacement::start;
use firedrill::protocol::replacement::start::Request;
use firedrill::protocol::replacement::step::Step;
use firedrill::protocol::replacement::store::Change;
use firedrill::protocol::replacement::store::Durable;
use firedrill::protocol::replacement::store::Now;
use firedrill::protocol::replacement::store::Place;
use firedrill::protocol::replacement::store::Write;
use uuid::Uuid;

/// The set of every test.
pub const SET: &str = "pool_0_set_2";
/// Objects in a page.
const PAGE: usize = 2;
/// No run of a test needs more writes.
const WRITES_MAX: usize = 400;

/// The generation with this number.
pub fn id(number: u128) -> GenerationId {
    GenerationId(Uuid::from_u128(0x3f0c_1d52_7a41_4c1e_9b0a_51d2_a7c6_0000 + number))
}

/// The first generation of every test.
pub fn first() -> GenerationId {
    id(1)
}

/// Everything that outlives a node, and what its next life will see.
#[derive(Debug, Clone)]
pub struct World {
    pub durable: Durable,
    pub mounts: Vec<Result<Mounted, String>>,
    pub buckets: BTreeMap<String, Vec<String>>,
    /// Versions that cannot be rebuilt at present, by their keys.
    pub failing: BTreeSet<String>,
    pub unproved: u64,
    pub time_s: u64,
    /// Lives that nodes have had; each draws other ids.
    pub lives: u128,
    pub log: Vec<Step>,
    /// What each target holds of the buckets.
    pub held: Vec<BTreeSet<String>>,
}

/// A drive at slot `index`, on its `incarnation`th file system and mount.
pub fn drive(index: usize, incarnation: usize) -> Mounted {
    let path = format!("/srv/drive{index}");
    Mounted {
        identity: Identity {
            endpoint: format!("http://node-b.example:9000{path}"),
            canonical_path: path,
            physical_device_ids: vec![format!("sd{index}")],
            filesystem_identity: format!("{}:2097:128", 100 * index + incarnation),
        },
        filesystem_uuid: Some(format!("fs-{index}-{incarnation}")),
        format_id: None,
    }
}

impl World {
    /// A set with `targets` blank drives, and two buckets of five objects.
    pub fn blank(targets: usize) -> Self {
        let keys = || (0..5).map(|number| format!("key-{number}")).collect::<Vec<_>>();
        Self {
            durable: Durable { markers: vec![None; targets], ..Durable::default() },
            mounts: (0..targets).map(|index| Ok(drive(index, 0))).collect(),
            buckets: ["invoices", "photos"].map(|name| (name.to_owned(), keys())).into(),
            failing: BTreeSet::new(),
            unproved: 0,
            time_s: 1_790_000_000,
            lives: 0,
            log: Vec::new(),
            held: vec![BTreeSet::new(); targets],
        }
    }

    pub fn request(&self) -> Request {
        let endpoints = (0..self.mounts.len()).map(|index| drive(index, 0).identity.endpoint);
        Request { generation: first(), set: SET.to_owned(), targets: endpoints.collect() }
    }

    pub fn now(&self, is_opening: bool) -> Now {
        Now {
            time_s: self.time_s,
            mounts: self.mounts.clone(),
            buckets: self.buckets.keys().cloned().collect(),
            fresh_successor: id(1000 + self.lives),
            fresh_transaction: id(2000 + self.lives),
            is_opening,
        }
    }

    /// Publishes the first generation and lives until `stop` says so after a write, or nothing is left to do.
    pub fn begin(&mut self, mut stop: impl FnMut(&Self, Step) -> bool) -> Result<(), Refusal> {
        let request = self.request();
        while let Some(write) = start::next_write(&self.durable, &request, &self.now(true))? {
            self.perform(&write);
            if stop(self, write.step) {
                return Ok(());
            }
        }
        self.live(first(), stop)
    }

    /// As [`World::begin`], until `step` was performed for the `nth` time.
    pub fn until(mut self, step: Step, nth: usize) -> Self {
        self.begin(|world, _| world.count(step) == nth).unwrap();
        assert_eq!(self.count(step), nth, "{step:?} was not reached: {:?}", self.log);
        self
    }

    /// One more life of a node, that goes on with the chain of `root`, until `stop` or the end.
    pub fn live(
        &mut self,
        root: GenerationId,
        mut stop: impl FnMut(&Self, Step) -> bool,
    ) -> Result<(), Refusal> {
        self.lives += 1;
        let mut is_opening = true;
        let mut done = Done::Nothing;
        for _ in 0..WRITES_MAX {
            let runner = resolve::runner(&self.durable.files, root)?;
            let mut now = self.now(is_opening);
            now.fresh_successor = id(1000 + 10 * self.lives + self.log.len() as u128);
            let write = run::next_write(&self.durable, runner, &now, &done)?;
            if let Some(write) = write {
                self.perform(&write);
                if stop(self, write.step) {
                    return Ok(());
                }
                continue;
            }
            match run::work(&self.durable, runner)? {
                Work::Nothing => return Ok(()),
                work => {
                    done = self.work(&work);
                    is_opening = false;
                }
            }
        }
        panic!("no end after {WRITES_MAX} steps: {:?}", &self.log[self.log.len() - 20..]);
    }

    /// Dies, comes back, and goes on to the end.
    pub fn finish(&mut self) -> Result<(), Refusal> {
        self.finish_from(first())
    }

    pub fn finish_from(&mut self, root: GenerationId) -> Result<(), Refusal> {
        self.live(root, |_, _| false)
    }

    /// Comes back and performs `step` for the `nth` time since the beginning, then dies.
    pub fn live_until(&mut self, root: GenerationId, step: Step, nth: usize) {
        self.live(root, |world, _| world.count(step) == nth).unwrap();
        assert_eq!(self.count(step), nth, "{step:?} was not reached: {:?}", self.log);
    }

    /// Records `failure`, up to `limit` writes.
    pub fn fail(&mut self, of: GenerationId, failure: &Failure, before: u32, limit: usize) {
        for _ in 0..limit {
            let now = self.now(false);
            match failure::next_write(&self.durable, of, failure, before, &now).unwrap() {
                Some(write) => self.perform(&write),
                None => return,
            }
        }
    }

    fn work(&mut self, work: &Work) -> Done {
        self.time_s += 1;
        match work {
            Work::Nothing => Done::Nothing,
            Work::Page { bucket_index, bucket, cursor, objects_before } => {
                let keys = self.buckets.get(bucket).cloned().unwrap_or_default();
                let after = cursor.as_deref().and_then(cursor_key);
                let rest: Vec<_> = keys
                    .iter()
                    .filter(|key| after.as_ref().is_none_or(|after| *key > after))
                    .collect();
                let page = &rest[..rest.len().min(PAGE)];
                let outcomes = page.iter().map(|key| self.rebuild(bucket, key)).collect();
                let is_last = page.len() == rest.len();
                Done::Page(Page {
                    bucket_index: *bucket_index,
                    cursor: cursor.clone(),
                    outcomes,
                    objects: page.len(),
                    next_cursor: page.last().filter(|_| !is_last).map(|key| cursor_after(key)),
                    objects_before: *objects_before,
                })
            }
            Work::Internals => Done::Internals(vec![self.rebuild(".rustfs.sys", "pool.bin")]),
            Work::Check => {
                let held = self.held.iter().map(BTreeSet::len).min().unwrap_or(0) as u64;
                let all: u64 = self.buckets.values().map(|keys| keys.len() as u64).sum();
                let missing = (all + 1).saturating_sub(held);
                Done::Checked(Checked { versions: all + 1, unproved: missing.max(self.unproved) })
            }
        }
    }

    fn rebuild(&mut self, bucket: &str, key: &str) -> Outcome {
        let is_failing = self.failing.contains(key);
        if !is_failing {
            for held in &mut self.held {
                held.insert(format!("{bucket}/{key}"));
            }
        }
        let class = if is_failing { Class::Skipped } else { Class::Rebuilt };
        Outcome { key: ledger_key(key, Uuid::nil()), class, bytes: 10 }
    }

    /// Performs a write; a compare-and-swap that does not hold is a mistake of the protocol here.
    pub fn perform(&mut self, write: &Write) {
        self.time_s += 1;
        self.log.push(write.step);
        match (&write.change, write.place) {
            (Change::MakeFolder, _) => self.durable.files.has_folder = true,
            (Change::Format, Place::Target(target)) => {
                let mount = self.mounts[target].as_mut().unwrap();
                assert!(mount.is_blank(), "a drive is formatted once");
                mount.format_id = Some(format!("slot-{target}"));
            }
            (Change::Swap { expected, new }, Place::Target(target)) => {
                assert_eq!(write.path, names::MARKER);
                assert_eq!(self.durable.markers[target], *expected, "{write:?}");
                self.durable.markers[target].clone_from(new);
            }
            (Change::Swap { expected, new }, Place::Anchor) => {
                let files = &mut self.durable.files.bytes;
                assert_eq!(files.get(&write.path), expected.as_ref(), "{write:?}");
                match new {
                    Some(new) => files.insert(write.path.clone(), new.clone()),
                    None => files.remove(&write.path),
                };
            }
            (Change::Link { to }, _) => {
                let files = &mut self.durable.files.bytes;
                let bytes = files[&write.path].clone();
                assert!(files.insert(to.clone(), bytes).is_none(), "{to} is taken");
            }
            (Change::Format, Place::Anchor) => panic!("the anchor is not formatted"),
        }
    }

    /// The drive at `target` comes back under another mount.
    pub fn remount(&mut self, target: usize) {
        let mount = self.mounts[target].as_mut().unwrap();
        let text = &mut mount.identity.filesystem_identity;
        let number: usize = text.split(':').next().unwrap().parse().unwrap();
        *text = format!("{}:2097:128", number + 7);
    }

    /// A new blank drive lies at `target`.
    pub fn replace(&mut self, target: usize) {
        self.replace_under_recycled_numbers(target);
        self.remount(target);
    }

    /// A new blank drive lies at `target` and has the old one's numbers.
    pub fn replace_under_recycled_numbers(&mut self, target: usize) {
        let mount = self.mounts[target].as_mut().unwrap();
        mount.filesystem_uuid = mount.filesystem_uuid.as_ref().map(|uuid| format!("{uuid}+"));
        mount.format_id = None;
        self.durable.markers[target] = None;
        self.held[target].clear();
    }

    pub fn count(&self, step: Step) -> usize {
        self.log.iter().filter(|it| **it == step).count()
    }

    pub fn intent(&self, of: GenerationId) -> Option<Intent> {
        self.durable.files.intent(of).unwrap().map(|stored| stored.value)
    }

    pub fn proof(&self, of: GenerationId) -> Option<Proof> {
        self.durable.files.proof(of).unwrap()
    }

    pub fn has(&self, record: Record, of: GenerationId) -> bool {
        self.durable.files.record(record, of).is_some()
    }

    pub fn marker(&self, target: usize) -> Option<String> {
        self.durable.markers[target].clone().map(|bytes| String::from_utf8(bytes).unwrap())
    }

    /// Puts `intent` in the place of its record.
    pub fn edit(&mut self, of: GenerationId, change: impl FnOnce(&mut Intent)) {
        let mut intent = self.intent(of).unwrap();
        change(&mut intent);
        self.put(Record::Intent, of, &intent.encode());
    }

    pub fn put(&mut self, record: Record, of: GenerationId, bytes: &[u8]) {
        self.durable.files.bytes.insert(names::path(record, of), bytes.to_vec());
    }

    pub fn remove(&mut self, record: Record, of: GenerationId) {
        self.durable.files.bytes.remove(&names::path(record, of));
    }

    /// The one generation at the end of the chain: proved, cleaned, with nothing of it left on the targets.
    pub fn assert_over(&self) -> GenerationId {
        let last = resolve::runner(&self.durable.files, first()).unwrap();
        self.assert_over_as(last);
        last
    }

    pub fn assert_over_as(&self, last: GenerationId) {
        let identities: Vec<_> =
            self.mounts.iter().map(|it| it.as_ref().unwrap().identity.clone()).collect();
        let proof =
            self.proof(last).unwrap_or_else(|| panic!("no proof of {last}: {:?}", self.log));
        assert_eq!(proof.identities, identities, "the proof is of what is mounted");
        assert!(self.durable.markers.iter().all(Option::is_none), "{:?}", self.durable.markers);
        let rest = [Record::Intent, Record::Seal, Record::Note, Record::Checkpoint];
        assert!(rest.iter().all(|record| !self.has(*record, last)), "records of {last} are left");
        for held in &self.held {
            let all: usize = self.buckets.values().map(Vec::len).sum();
            assert!(held.len() > all, "{} of {all} versions are on the target", held.len());
        }
    }
}
