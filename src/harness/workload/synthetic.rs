//! Large histories that no cluster made: what the checker's speed is measured with. Pure.
//!
//! They are legal: keys behave like registers of versions while clients overlap, answers get lost and
//! nodes restart. Digests and ETags only have to differ, so they are the operation's number.

use rand::RngExt as _;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::history::Action;
use super::history::Condition;
use super::history::Ending;
use super::history::Entry;
use super::history::Event;
use super::history::Fence;
use super::history::HISTORY_FORMAT;
use super::history::Listed;
use super::history::Operation;
use super::history::Outcome;
use super::history::PHASE_END;
use super::history::PHASE_FINAL_READS;
use super::history::Seen;
use crate::value::Digest;
use crate::value::ObjectKey;
use crate::value::Seed;
use crate::value::VersionId;

/// How large, and of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Keys; every second one lies in an enabled bucket, the others in an unversioned one.
    pub keys: usize,
    /// Operations on each key, on average.
    pub operations_per_key: usize,
    /// Clients, one request at a time each.
    pub clients: usize,
    /// Reads among all operations.
    pub read_percent: u32,
    /// Writes whose answer gets lost, among all operations.
    pub ambiguous_percent: u32,
    /// Restarts of a node; they end what nobody knows for none of the writes.
    pub restarts: usize,
}

impl Shape {
    /// The shape that the figures are stated for.
    pub const FIGURE: Self = Self {
        keys: 1000,
        operations_per_key: 1000,
        clients: 32,
        read_percent: 20,
        ambiguous_percent: 5,
        restarts: 10,
    };
}

/// The name of the unversioned bucket.
pub const PLAIN: &str = "plain";
/// The name of the enabled bucket.
pub const KEPT: &str = "kept";

/// A history of this shape, entry by entry.
pub fn history(shape: Shape, seed: Seed) -> impl Iterator<Item = Entry> {
    let mut world = World::new(shape, seed);
    let mut waiting = std::collections::VecDeque::from([Event::Header {
        format: HISTORY_FORMAT,
        case: "synthetic".to_owned(),
        seed: seed.0,
    }]);
    let mut seq = 0;
    std::iter::from_fn(move || {
        while waiting.is_empty() {
            if !world.go_on(&mut waiting) {
                return None;
            }
        }
        let event = waiting.pop_front()?;
        let entry = Entry { seq, at_us: seq, event };
        seq += 1;
        Some(entry)
    })
}

/// One key on which `open` overwrites lost their answers, and which is then read over and over while
/// acknowledged ones go on: the worst that one key can be. When `legal` is false, the last read sees
/// what an acknowledged overwrite had replaced for good.
pub fn open_writes(open: u64, legal: bool) -> Vec<Entry> {
    let mut events =
        vec![Event::Header { format: HISTORY_FORMAT, case: "open writes".to_owned(), seed: 0 }];
    let target = ObjectKey { bucket: PLAIN.to_owned(), key: "k".to_owned() };
    let mut tell = |op: u64, action: Action, outcome: Outcome, seen: Option<u64>| {
        let node = 0;
        let asked = Operation { op, client: 0, node, target: target.clone(), action };
        events.push(Event::Invoked(asked));
        let etag = seen.map(etag_of);
        let seen = seen.map(|writer| Seen::Object {
            digest: Some(digest_of(writer)),
            size: 64,
            written_by: Some(writer),
        });
        events.push(Event::Ended(Ending { etag, seen, ..ending(op, outcome) }));
    };
    let get = Action::Get { version: None, range: None };
    let mut op = 0;
    for _ in 0..open {
        op += 1;
        tell(op, put(op), Outcome::Ambiguous, None);
    }
    // Every one of them lands once, between acknowledged ones, from the last to the first.
    for late in (1..=open).rev() {
        op += 1;
        tell(op, put(op), Outcome::Acknowledged, None);
        let acknowledged = op;
        op += 1;
        tell(op, get.clone(), Outcome::Acknowledged, Some(acknowledged));
        op += 1;
        tell(op, get.clone(), Outcome::Acknowledged, Some(late));
    }
    if !legal {
        op += 1;
        tell(op, get, Outcome::Acknowledged, Some(open));
    }
    events.push(Event::Phase { name: PHASE_END.to_owned() });
    (0..).zip(events).map(|(seq, event)| Entry { seq, at_us: seq, event }).collect()
}

/// A key as it is.
#[derive(Debug, Default)]
struct Key {
    /// Newest last: the id and the operation that wrote it; `None` for a marker.
    versions: Vec<(VersionId, Option<u64>)>,
}

/// A request under way.
struct Flight {
    op: u64,
    key: usize,
    deletes: Option<bool>,
    /// Whether its effect comes when it begins, and not when it ends.
    is_early: bool,
    is_lost: bool,
    answer: Option<Ending>,
}

struct World {
    shape: Shape,
    dice: StdRng,
    keys: Vec<Key>,
    flights: Vec<Option<Flight>>,
    /// Writes whose answer got lost and that have not landed yet.
    late: Vec<(usize, u64, bool)>,
    next_op: u64,
    left: usize,
    final_keys: usize,
    is_over: bool,
}

impl World {
    fn new(shape: Shape, seed: Seed) -> Self {
        Self {
            shape,
            dice: StdRng::from_seed(seed.bytes("synthetic history")),
            keys: (0..shape.keys).map(|_| Key::default()).collect(),
            flights: (0..shape.clients).map(|_| None).collect(),
            late: Vec::new(),
            next_op: 1,
            left: shape.keys * shape.operations_per_key,
            final_keys: 0,
            is_over: false,
        }
    }

    fn target(&self, key: usize) -> ObjectKey {
        let bucket = if key.is_multiple_of(2) { PLAIN } else { KEPT };
        ObjectKey { bucket: bucket.to_owned(), key: format!("key-{key:06}") }
    }

    /// Adds what happens next; false when nothing does any more.
    fn go_on(&mut self, events: &mut std::collections::VecDeque<Event>) -> bool {
        if self.is_over {
            return false;
        }
        let client = self.dice.random_range(0..self.flights.len());
        match self.flights[client].take() {
            Some(flight) => events.push_back(self.land(flight)),
            None if self.left > 0 => {
                self.left -= 1;
                let every = self.shape.keys * self.shape.operations_per_key;
                let every = every / (self.shape.restarts + 1);
                if self.shape.restarts > 0
                    && self.left > 0
                    && self.left.is_multiple_of(every.max(1))
                {
                    events.push_back(Event::Fence(Fence::NodeRestarted { node: 0 }));
                }
                events.push_back(self.take_off(client));
            }
            None if self.flights.iter().any(Option::is_some) => {}
            None => self.finish(events),
        }
        true
    }

    fn take_off(&mut self, client: usize) -> Event {
        let op = self.next_op;
        self.next_op += 1;
        let key = self.dice.random_range(0..self.keys.len());
        let percent = self.dice.random_range(0..100);
        let is_read = percent < self.shape.read_percent;
        let is_lost = !is_read && percent < self.shape.read_percent + self.shape.ambiguous_percent;
        let deletes = (!is_read).then(|| self.dice.random_bool(0.1));
        let is_early = self.dice.random_bool(0.5);
        let action = match deletes {
            None => Action::Get { version: None, range: None },
            Some(true) => Action::Delete { version: None },
            Some(false) => put(op),
        };
        let mut flight = Flight { op, key, deletes, is_early, is_lost, answer: None };
        // Of the lost ones, some take effect at once, some much later, some never.
        if is_early && (!is_lost || self.dice.random_bool(0.5)) {
            flight.answer = Some(self.take_effect(&flight));
        }
        self.flights[client] = Some(flight);
        let (node, target) = (client % 3, self.target(key));
        let client = u32::try_from(client).unwrap_or(u32::MAX);
        Event::Invoked(Operation { op, client, node, target, action })
    }

    fn land(&mut self, flight: Flight) -> Event {
        if flight.is_lost {
            if let Some(deletes) = flight.deletes.filter(|_| !flight.is_early) {
                self.late.push((flight.key, flight.op, deletes));
            }
            if self.late.len() > 64 && self.dice.random_bool(0.5) {
                let index = self.dice.random_range(0..self.late.len());
                let (key, op, deletes) = self.late.swap_remove(index);
                let deletes = Some(deletes);
                let late =
                    Flight { op, key, deletes, is_early: false, is_lost: true, answer: None };
                self.take_effect(&late);
            }
            return Event::Ended(ending(flight.op, Outcome::Ambiguous));
        }
        let answer = flight.answer.clone();
        Event::Ended(answer.unwrap_or_else(|| self.take_effect(&flight)))
    }

    /// Lets a request take effect, or see, and answers it.
    fn take_effect(&mut self, flight: &Flight) -> Ending {
        let is_versioned = !flight.key.is_multiple_of(2);
        let versions = &mut self.keys[flight.key].versions;
        let acknowledged = ending(flight.op, Outcome::Acknowledged);
        let id = if is_versioned { version_of(flight.op) } else { VersionId::NULL };
        match flight.deletes {
            None => match versions.last() {
                Some((id, Some(writer))) => Ending {
                    version: is_versioned.then_some(*id),
                    etag: Some(etag_of(*writer)),
                    seen: Some(Seen::Object {
                        digest: Some(digest_of(*writer)),
                        size: 64,
                        written_by: Some(*writer),
                    }),
                    ..acknowledged
                },
                _ => Ending { seen: Some(Seen::Absent), ..acknowledged },
            },
            Some(deletes) => {
                if !is_versioned {
                    versions.clear();
                }
                if is_versioned || !deletes {
                    versions.push((id, (!deletes).then_some(flight.op)));
                }
                Ending {
                    version: is_versioned.then_some(id),
                    etag: (!deletes).then(|| etag_of(flight.op)),
                    delete_marker: deletes && is_versioned,
                    ..acknowledged
                }
            }
        }
    }

    fn finish(&mut self, events: &mut std::collections::VecDeque<Event>) {
        if self.final_keys == 0 {
            events.push_back(Event::Fence(Fence::Settled));
            events.push_back(Event::Phase { name: PHASE_FINAL_READS.to_owned() });
        }
        if self.final_keys == self.keys.len() {
            events.push_back(Event::Phase { name: PHASE_END.to_owned() });
            self.is_over = true;
            return;
        }
        let key = self.final_keys;
        self.final_keys += 1;
        let ObjectKey { bucket, key: name } = self.target(key);
        let newest_first = self.keys[key].versions.iter().rev().enumerate();
        let rows = newest_first.map(|(place, (version, writer))| Listed {
            key: name.clone(),
            version: Some(*version),
            delete_marker: writer.is_none(),
            latest: place == 0,
            etag: writer.map(etag_of).unwrap_or_default(),
            size: writer.map_or(0, |_| 64),
            cut: false,
        });
        let rows = rows.collect();
        let op = self.next_op;
        self.next_op += 1;
        let action = Action::ListVersions { prefix: name };
        let target = ObjectKey { bucket, key: String::new() };
        events.push_back(Event::Invoked(Operation { op, client: 0, node: 0, target, action }));
        let seen = Some(Seen::Listing(rows));
        events.push_back(Event::Ended(Ending { seen, ..ending(op, Outcome::Acknowledged) }));
    }
}

fn put(op: u64) -> Action {
    let condition = Condition::Always;
    Action::Put { digest: digest_of(op), size: 64, etag: Some(etag_of(op)), condition }
}

fn ending(op: u64, outcome: Outcome) -> Ending {
    super::answer::unanswered(op, outcome, "")
}

fn digest_of(op: u64) -> Digest {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&op.to_be_bytes());
    Digest(digest)
}

fn etag_of(op: u64) -> String {
    format!("{op:032x}")
}

fn version_of(op: u64) -> VersionId {
    let mut id = [0xaa; 16];
    id[..8].copy_from_slice(&op.to_be_bytes());
    VersionId(id)
}
