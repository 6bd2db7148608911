//! What one node grants: who may change which key on its drives, until when.
//!
//! Pure: it is told the time, counted from any fixed moment on a clock that never goes back. It
//! grants nothing again before the lease of the last holder is over, released, or given back by
//! every step that was under way (a *pin*). It remembers nothing across a restart of its node; see
//! `quorum` for why that is enough.

use std::collections::BTreeMap;
use std::time::Duration;

use uuid::Uuid;

use crate::node::seams::LockMode;
use crate::value::ObjectKey;

/// The grants of one node.
#[derive(Debug)]
pub struct LockTable {
    lease: Duration,
    grants: BTreeMap<ObjectKey, Vec<Grant>>,
    /// Until when nobody new shares what somebody waits to have alone.
    wanted: BTreeMap<ObjectKey, Duration>,
}

/// How long who was refused a lock alone, because others share it, keeps new ones of them away: longer than it waits
/// before it asks again. Otherwise a lock that is shared all the time, by requests of other nodes, is never had alone.
const WANTED_FOR: Duration = Duration::from_millis(400);

/// One holder of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Grant {
    id: Uuid,
    mode: LockMode,
    /// When it lapses unless it is refreshed.
    until: Duration,
    /// Commit steps under way; it neither lapses nor passes on while there are any.
    pins: usize,
    /// Given up by its holder; it is gone with its last pin.
    released: bool,
}

impl Grant {
    /// Whether it still keeps others out.
    fn stands(&self, now: Duration) -> bool {
        self.pins > 0 || (!self.released && now < self.until)
    }

    /// Whether its holder may still act on it.
    fn serves(&self, now: Duration) -> bool {
        !self.released && now < self.until
    }
}

impl LockTable {
    /// An empty table whose grants last for `lease`.
    pub fn new(lease: Duration) -> Self {
        Self { lease, grants: BTreeMap::new(), wanted: BTreeMap::new() }
    }

    /// Grants `resource` to `id`, or says that somebody else has it. Asking again with the same id
    /// and mode refreshes the grant.
    pub fn grant(&mut self, resource: &ObjectKey, id: Uuid, mode: LockMode, now: Duration) -> bool {
        let until = now + self.lease;
        let grants = self.grants.entry(resource.clone()).or_default();
        grants.retain(|grant| grant.stands(now));
        if let Some(own) = grants.iter_mut().find(|grant| grant.id == id) {
            let granted = own.serves(now) && own.mode == mode;
            if granted {
                own.until = until;
            }
            return granted;
        }
        let all_shared = grants.iter().all(|grant| grant.mode == LockMode::Shared);
        let is_wanted = self.wanted.get(resource).is_some_and(|until| now < *until);
        let free = match mode {
            LockMode::Shared => all_shared && !is_wanted,
            LockMode::Exclusive => grants.is_empty(),
        };
        // Of keys it is no matter: reading one is short, and its writers come in line.
        if mode == LockMode::Exclusive && resource.key.is_empty() {
            self.wanted.retain(|_, until| now < *until);
            match free {
                true => self.wanted.remove(resource),
                false if all_shared => self.wanted.insert(resource.clone(), now + WANTED_FOR),
                false => None,
            };
        }
        if free {
            grants.push(Grant { id, mode, until, pins: 0, released: false });
        }
        self.forget_when_empty(resource);
        free
    }

    /// Makes a standing grant last for a lease from now. False when it is gone: it has lapsed, was
    /// released, or was never made.
    pub fn refresh(&mut self, resource: &ObjectKey, id: Uuid, now: Duration) -> bool {
        let until = now + self.lease;
        let Some(grant) = self.find(resource, id) else { return false };
        let serves = grant.serves(now);
        if serves {
            grant.until = until;
        }
        serves
    }

    /// Ends a grant, at once or with its last pin. Ending what is not there changes nothing.
    pub fn release(&mut self, resource: &ObjectKey, id: Uuid) {
        if let Some(grants) = self.grants.get_mut(resource) {
            for grant in grants.iter_mut().filter(|grant| grant.id == id) {
                grant.released = true;
            }
            grants.retain(|grant| !grant.released || grant.pins > 0);
        }
        self.forget_when_empty(resource);
    }

    /// Keeps a grant for the duration of one step. False when it is gone; the step must not be done.
    /// Every true is followed by one [`unpin`](Self::unpin).
    pub fn pin(&mut self, resource: &ObjectKey, id: Uuid, now: Duration) -> bool {
        let Some(grant) = self.find(resource, id) else { return false };
        let serves = grant.serves(now);
        if serves {
            grant.pins += 1;
        }
        serves
    }

    /// Ends one pin.
    pub fn unpin(&mut self, resource: &ObjectKey, id: Uuid) {
        let grant = self.find(resource, id).expect("a pinned grant is never dropped");
        assert!(grant.pins > 0, "every unpin ends a pin");
        grant.pins -= 1;
        if grant.pins == 0 && grant.released {
            self.release(resource, id);
        }
    }

    /// Drops what has lapsed, and says how many grants stand.
    pub fn sweep(&mut self, now: Duration) -> usize {
        self.grants.retain(|_, grants| {
            grants.retain(|grant| grant.stands(now));
            !grants.is_empty()
        });
        self.grants.values().map(Vec::len).sum()
    }

    fn find(&mut self, resource: &ObjectKey, id: Uuid) -> Option<&mut Grant> {
        self.grants.get_mut(resource)?.iter_mut().find(|grant| grant.id == id)
    }

    fn forget_when_empty(&mut self, resource: &ObjectKey) {
        if self.grants.get(resource).is_some_and(Vec::is_empty) {
            self.grants.remove(resource);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use LockMode::Exclusive;
    use LockMode::Shared;

    const LEASE: Duration = Duration::from_secs(2);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn key() -> ObjectKey {
        ObjectKey { bucket: "b".to_owned(), key: "k".to_owned() }
    }

    fn holder(number: u128) -> Uuid {
        Uuid::from_u128(number)
    }

    #[test]
    fn who_waits_for_a_name_alone_has_it_when_the_others_are_done() {
        let name = ObjectKey { bucket: "names".to_owned(), key: String::new() };
        let mut table = LockTable::new(LEASE);
        assert!(table.grant(&name, holder(1), Shared, at(0)));
        assert!(!table.grant(&name, holder(2), Exclusive, at(0)));
        assert!(!table.grant(&name, holder(3), Shared, at(0)), "one waits for it alone");
        assert!(table.grant(&name, holder(1), Shared, at(0)), "who has it keeps it");
        table.release(&name, holder(1));
        assert!(table.grant(&name, holder(2), Exclusive, at(0)));
        table.release(&name, holder(2));
        assert!(table.grant(&name, holder(3), Shared, at(0)));
        // Nobody asks for it alone any more.
        assert!(!table.grant(&name, holder(4), Exclusive, at(0)));
        assert!(table.grant(&name, holder(5), Shared, at(1)));
    }

    #[test]
    fn readers_share_and_writers_exclude() {
        for (first, second, both) in [
            (Shared, Shared, true),
            (Shared, Exclusive, false),
            (Exclusive, Shared, false),
            (Exclusive, Exclusive, false),
        ] {
            let mut table = LockTable::new(LEASE);
            assert!(table.grant(&key(), holder(1), first, at(0)));
            assert_eq!(table.grant(&key(), holder(2), second, at(0)), both, "{first:?} {second:?}");
        }
    }

    #[test]
    fn a_lease_ends_by_itself_and_its_holder_may_not_act_after_it() {
        let mut table = LockTable::new(LEASE);
        assert!(table.grant(&key(), holder(1), Exclusive, at(0)));
        assert!(table.refresh(&key(), holder(1), at(1)), "in time");
        assert!(!table.grant(&key(), holder(2), Exclusive, at(2)), "refreshed until 3");
        assert!(!table.refresh(&key(), holder(1), at(3)), "too late, though nobody came");
        assert!(!table.pin(&key(), holder(1), at(3)), "and no step is done on it");
        assert!(!table.grant(&key(), holder(1), Shared, at(2)), "nor does it change its mode");
        assert!(table.grant(&key(), holder(2), Exclusive, at(3)));
        assert!(!table.pin(&key(), holder(1), at(3)), "the old holder is fenced");
        assert!(table.pin(&key(), holder(2), at(3)));
    }

    #[test]
    fn a_pin_outlasts_lease_and_release() {
        let mut table = LockTable::new(LEASE);
        assert!(table.grant(&key(), holder(1), Exclusive, at(0)));
        assert!(table.pin(&key(), holder(1), at(1)));
        assert!(!table.grant(&key(), holder(2), Exclusive, at(9)), "the step is under way");
        table.release(&key(), holder(1));
        assert!(!table.grant(&key(), holder(2), Exclusive, at(9)), "still under way");
        assert!(!table.pin(&key(), holder(1), at(1)), "no new step after the release");
        table.unpin(&key(), holder(1));
        assert!(table.grant(&key(), holder(2), Exclusive, at(9)));
    }

    #[test]
    fn another_key_and_another_id_are_not_touched() {
        let other = ObjectKey { key: "other".to_owned(), ..key() };
        let mut table = LockTable::new(LEASE);
        assert!(table.grant(&key(), holder(1), Exclusive, at(0)));
        assert!(table.grant(&other, holder(2), Exclusive, at(0)));
        table.release(&key(), holder(2));
        assert!(!table.grant(&key(), holder(3), Exclusive, at(0)));
        assert!(!table.pin(&other, holder(1), at(0)));
        table.release(&key(), holder(1));
        assert!(!table.grant(&other, holder(3), Exclusive, at(0)));
        assert_eq!(table.sweep(at(0)), 1);
        assert_eq!(table.sweep(at(2)), 0);
        assert!(table.grants.is_empty(), "nothing is kept for keys that nobody holds");
    }

    /// What a holder may believe of its own grant, kept apart from the table.
    #[derive(Debug, Clone, Copy)]
    struct Belief {
        mode: LockMode,
        until: Duration,
        pins: usize,
        released: bool,
    }

    impl Belief {
        fn may_act(&self, now: Duration) -> bool {
            !self.released && now < self.until
        }

        fn is_in_the_way(&self, now: Duration) -> bool {
            self.pins > 0 || self.may_act(now)
        }
    }

    /// Goal: no sequence of calls lets a writer in beside anyone who may still act or is acting, and
    /// none lets a dead grant act again. Every sequence of five calls by two writers and a reader is
    /// tried, with the clock advancing between them.
    #[test]
    fn no_sequence_of_calls_admits_two_writers() {
        const CALLS: usize = 16;
        const LENGTH: u32 = 5;
        for sequence in 0..CALLS.pow(LENGTH) {
            let mut table = LockTable::new(LEASE);
            let mut beliefs: [Option<Belief>; 3] = [None; 3];
            let mut now = at(0);
            let mut rest = sequence;
            for _ in 0..LENGTH {
                let (call, who) = (rest % CALLS / 3, rest % CALLS % 3);
                rest /= CALLS;
                let (id, mode) = (holder(who as u128), [Exclusive, Exclusive, Shared][who]);
                let own = beliefs[who];
                let may_act = own.is_some_and(|own| own.may_act(now));
                match call {
                    0 if table.grant(&key(), id, mode, now) => {
                        for other in (0..3).filter(|other| *other != who) {
                            let Some(other) = beliefs[other] else { continue };
                            let excludes = other.mode == Exclusive || mode == Exclusive;
                            let clash = excludes && other.is_in_the_way(now);
                            assert!(!clash, "{sequence}: {who} was let in beside {other:?}");
                        }
                        let pins = own.map_or(0, |own| own.pins);
                        let until = now + LEASE;
                        beliefs[who] = Some(Belief { mode, until, pins, released: false });
                    }
                    1 if table.refresh(&key(), id, now) => {
                        assert!(may_act, "{sequence}: a dead grant was refreshed: {own:?}");
                        beliefs[who] = own.map(|own| Belief { until: now + LEASE, ..own });
                    }
                    2 if table.pin(&key(), id, now) => {
                        assert!(may_act, "{sequence}: a dead grant was pinned: {own:?}");
                        beliefs[who] = own.map(|own| Belief { pins: own.pins + 1, ..own });
                    }
                    3 if own.is_some_and(|own| own.pins > 0) => {
                        table.unpin(&key(), id);
                        beliefs[who] = own.map(|own| Belief { pins: own.pins - 1, ..own });
                    }
                    4 => {
                        table.release(&key(), id);
                        beliefs[who] = own.map(|own| Belief { released: true, ..own });
                    }
                    5 => now += LEASE / 2,
                    _ => {}
                }
            }
        }
    }
}
