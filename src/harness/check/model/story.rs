//! What the history tells of one key, in the words of the search. Pure.
//!
//! Writes that were refused are left out: what they would have put there is something that nobody
//! wrote. A write whose end nobody knows may take effect once, from its beginning until everything is
//! settled with every drive present: a restart is not enough, because a drive that was away can still
//! bring it back. Versions whose id no client was told are matched with the writes that can have made
//! them, by their contents.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::book;
use super::book::Book;
use super::modes::Modes;
use super::search::Step;
use super::search::What;
use super::stack::Effect;
use super::stack::Guard;
use super::stack::Id;
use super::stack::NULL;
use super::stack::Row;
use super::stack::Value;
use super::stack::Values;
use super::stack::View;
use crate::harness::workload::content;
use crate::harness::workload::history::Action;
use crate::harness::workload::history::Condition;
use crate::harness::workload::history::Ending;
use crate::harness::workload::history::Listed;
use crate::harness::workload::history::Outcome;
use crate::harness::workload::history::Seen;
use crate::harness::workload::record::NEVER;
use crate::harness::workload::record::Op;
use crate::value::Digest;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// Ids from here on stand for versions whose id nobody ever saw: one for each contents, one for markers.
const UNSEEN: Id = 1 << 30;

/// Contents that were written to the key by a write that was not refused.
#[derive(Debug, Clone)]
pub struct Contents {
    /// Their SHA-256.
    pub digest: Digest,
    /// Their length in bytes.
    pub size: u64,
    /// ETags under which they may be seen; empty when nobody can tell.
    pub etags: BTreeSet<String>,
    /// The operations that wrote them, in order.
    pub ops: Vec<u64>,
}

/// A write that was not refused.
#[derive(Debug, Clone)]
pub struct Told<'a> {
    /// The request.
    pub op: &'a Op,
    /// What it can have done, one of these.
    pub effects: Vec<Effect>,
    /// Its contents; `None` for deletes.
    pub value: Option<Value>,
    /// Where it had taken effect for certain: its acknowledgement, or the end of the first read that
    /// saw it. [`NEVER`] when nobody can tell that it did.
    pub certain: u64,
    /// Where it can no longer take effect.
    pub until: u64,
}

impl Told<'_> {
    /// Whether it took effect for certain.
    pub fn is_certain(&self) -> bool {
        self.certain != NEVER
    }

    /// Whether it had taken effect before `other` began.
    pub fn precedes(&self, other: &Told<'_>) -> bool {
        self.certain.min(self.until) < other.op.invoked
    }

    /// Whether all that it can have done is about the null version.
    pub fn is_of_null(&self) -> bool {
        self.effects.iter().all(|effect| effect_id(*effect) == NULL)
    }

    /// Whether something that it can have done is about the null version.
    pub fn may_be_of_null(&self) -> bool {
        self.effects.iter().any(|effect| effect_id(*effect) == NULL)
    }
}

/// The version that an effect is about.
pub fn effect_id(effect: Effect) -> Id {
    match effect {
        Effect::Put { id, .. } | Effect::Remove { id } => id,
    }
}

/// Everything about one key.
#[derive(Debug)]
pub struct Story<'a> {
    /// The key.
    pub key: ObjectKey,
    /// Writes that were not refused, in the order of their beginnings.
    pub writes: Vec<Told<'a>>,
    /// What was written.
    pub contents: Vec<Contents>,
    /// What the search is asked.
    pub steps: Vec<Step>,
    ids: BTreeMap<VersionId, Id>,
    by_digest: BTreeMap<(Digest, u64), Value>,
    by_etag: BTreeMap<String, Vec<Value>>,
    trusts_etags: bool,
}

impl<'a> Story<'a> {
    /// The story of `key`. With `conditions`, preconditions and their refusals are part of it.
    pub fn tell(book: &Book<'a>, key: &ObjectKey, conditions: bool) -> Self {
        let mut story = Self {
            key: key.clone(),
            writes: Vec::new(),
            contents: Vec::new(),
            steps: Vec::new(),
            ids: BTreeMap::from([(VersionId::NULL, NULL)]),
            by_digest: BTreeMap::new(),
            by_etag: BTreeMap::new(),
            trusts_etags: book.trusts_etags,
        };
        story.gather_contents(book);
        let unclaimed = story.unclaimed(book);
        let makers = story.makers(book, &unclaimed);
        for op in book.ops(key) {
            story.tell_write(book, op, conditions, &unclaimed, &makers);
            story.tell_read(book, op, conditions);
        }
        for op in book.bucket_ops(&key.bucket) {
            // A bucket that could be deleted had nothing in it.
            if op.asked.action == Action::DeleteBucket && op.is_acknowledged() {
                story.see(op, View::Stack { rows: Vec::new(), interleaved: true, latest: None });
            }
        }
        for listing in book.listings_of(&key.bucket) {
            let Some(rows) = listing.about(&key.key) else { continue };
            let view = match (listing.of_versions, rows) {
                (true, rows) => story.stack_view(rows, listing.interleaved),
                (false, []) => View::Absent,
                (false, [row, ..]) => View::Latest(story.listed(row), None),
            };
            story.see(listing.op, view);
        }
        story.steps.sort_by_key(|step| step.from);
        story.confirm();
        story
    }

    /// The id of `version`, if anybody named it.
    pub fn id(&self, version: VersionId) -> Option<Id> {
        self.ids.get(&version).copied()
    }

    /// The version with this id; `None` for one that nobody ever saw.
    pub fn version(&self, id: Id) -> Option<VersionId> {
        self.ids.iter().find(|(_, known)| **known == id).map(|(version, _)| *version)
    }

    /// The contents that a listed line stands for.
    pub fn listed(&self, row: &Listed) -> Values {
        self.by_etag(&row.etag, row.size)
    }

    /// The contents with this digest and length.
    pub fn by_digest(&self, digest: Digest, size: u64) -> Option<Value> {
        self.by_digest.get(&(digest, size)).copied()
    }

    /// The contents that may be seen under this ETag with this length.
    pub fn by_etag(&self, etag: &str, size: u64) -> Values {
        let known = self.by_etag.get(etag).into_iter().flatten().copied();
        let mut found = known.collect::<Vec<_>>();
        if !self.trusts_etags {
            found.extend(self.without_etag());
        }
        found.retain(|value| self.contents[*value as usize].size == size);
        Values::These(found)
    }

    /// The write that made the version with this id and contents, if only one can have.
    pub fn maker(&self, id: Id, value: Option<Value>) -> Option<&Told<'a>> {
        let makes = |told: &&Told<'_>| told.effects.contains(&Effect::Put { id, value });
        let mut makers = self.writes.iter().filter(makes);
        makers.next().filter(|_| makers.next().is_none())
    }

    fn gather_contents(&mut self, book: &Book<'a>) {
        for op in book.ops(&self.key).filter(|op| op.outcome() != Outcome::Refused) {
            let Some((digest, size, defined)) = book::contents(&op.asked.action) else { continue };
            let answered = op.answer.as_ref().filter(|_| op.is_acknowledged());
            let answered = answered.and_then(|answer| answer.etag.clone());
            let etags =
                answered.or_else(|| defined.filter(|_| self.trusts_etags).map(str::to_owned));
            match self.by_digest(digest, size) {
                Some(value) => {
                    let contents = &mut self.contents[value as usize];
                    contents.etags.extend(etags);
                    contents.ops.push(op.id());
                }
                None => {
                    let etags = etags.into_iter().collect();
                    let value = Value::try_from(self.contents.len()).unwrap_or(Value::MAX);
                    self.by_digest.insert((digest, size), value);
                    self.contents.push(Contents { digest, size, etags, ops: vec![op.id()] });
                }
            }
        }
        for (value, contents) in (0..).zip(&self.contents) {
            for etag in &contents.etags {
                self.by_etag.entry(etag.clone()).or_default().push(value);
            }
        }
    }

    fn id_of(&mut self, version: VersionId) -> Id {
        let next = Id::try_from(self.ids.len()).unwrap_or(UNSEEN);
        *self.ids.entry(version).or_insert(next)
    }

    /// Numbered versions that somebody saw and no acknowledged write was told: what they are.
    fn unclaimed(&mut self, book: &Book<'a>) -> BTreeMap<Id, Option<Values>> {
        let mut seen = BTreeMap::new();
        let mut claimed = BTreeSet::new();
        for op in book.ops(&self.key).filter(|op| op.is_acknowledged()) {
            let Some(answer) = &op.answer else { continue };
            let asked = match &op.asked.action {
                Action::Get { version, .. } | Action::Head { version } => *version,
                action => {
                    let makes =
                        action.is_write() && !matches!(action, Action::Delete { version: Some(_) });
                    claimed.extend(answer.version.filter(|_| makes));
                    continue;
                }
            };
            if let (Some(version), Some(Seen::Object { .. })) =
                (answer.version.or(asked), &answer.seen)
            {
                let values = self.seen_values(book, op, answer);
                seen.insert(version, Some(values));
            }
        }
        for listing in book.listings_of(&self.key.bucket) {
            for row in listing.about(&self.key.key).into_iter().flatten() {
                if let Some(version) = row.version {
                    seen.insert(version, (!row.delete_marker).then(|| self.listed(row)));
                }
            }
        }
        let mut unclaimed = BTreeMap::new();
        for (version, what) in seen {
            let id = self.id_of(version);
            if id != NULL && !claimed.contains(&version) {
                unclaimed.insert(id, what);
            }
        }
        unclaimed
    }

    /// How many writes without a told id there are of each kind; `None` counts deletes.
    fn makers(
        &self,
        book: &Book<'a>,
        unclaimed: &BTreeMap<Id, Option<Values>>,
    ) -> BTreeMap<Option<Value>, usize> {
        let mut makers = BTreeMap::new();
        if unclaimed.is_empty() {
            return makers;
        }
        for op in book.ops(&self.key).filter(|op| op.outcome() != Outcome::Refused) {
            let is_told = op.is_acknowledged()
                && op.answer.as_ref().is_some_and(|answer| answer.version.is_some());
            let is_maker = match &op.asked.action {
                Action::Delete { version } => version.is_none(),
                action => action.is_write(),
            };
            if is_maker && !is_told {
                *makers.entry(self.value_of(&op.asked.action)).or_default() += 1;
            }
        }
        makers
    }

    fn value_of(&self, action: &Action) -> Option<Value> {
        let (digest, size, _) = book::contents(action)?;
        self.by_digest(digest, size)
    }

    fn tell_write(
        &mut self,
        book: &Book<'a>,
        op: &'a Op,
        conditions: bool,
        unclaimed: &BTreeMap<Id, Option<Values>>,
        makers: &BTreeMap<Option<Value>, usize>,
    ) {
        if !op.is_write() || op.outcome() == Outcome::Refused {
            return;
        }
        let is_acknowledged = op.is_acknowledged();
        let until = if is_acknowledged { op.ended } else { book.history.settled_after(op.invoked) };
        let told = op.answer.as_ref().filter(|_| is_acknowledged);
        let value = self.value_of(&op.asked.action);
        let effects = match op.asked.action {
            Action::Delete { version: Some(version) } => {
                vec![Effect::Remove { id: self.id_of(version) }]
            }
            _ => {
                let modes = book.modes.get(self.key.bucket.as_str());
                let modes = modes.map(|modes| modes.between(op.invoked, until)).unwrap_or_default();
                let candidates = Candidates { value, unclaimed, makers };
                self.effects(told, modes, &candidates)
            }
        };
        let guard = match (&op.asked.action, conditions) {
            (Action::Put { condition, .. } | Action::CompleteUpload { condition, .. }, true) => {
                self.guard(condition)
            }
            _ => Guard::Always,
        };
        self.steps.push(Step {
            op: op.id(),
            from: op.invoked,
            to: until,
            needed: is_acknowledged,
            what: What::Write(effects.clone(), guard),
        });
        let certain = if is_acknowledged { op.ended } else { NEVER };
        self.writes.push(Told { op, effects, value, certain, until });
    }

    /// What a write without a named version can have done, given what it was told.
    fn effects(
        &mut self,
        told: Option<&Ending>,
        modes: Modes,
        candidates: &Candidates<'_>,
    ) -> Vec<Effect> {
        let value = candidates.value;
        let told_version = told.and_then(|answer| answer.version);
        if let Some(version) = told_version.filter(|version| !version.is_null()) {
            return vec![Effect::Put { id: self.id_of(version), value }];
        }
        let is_marker = told.is_some_and(|answer| answer.delete_marker);
        // A directory object is a null version in every bucket.
        let is_directory = self.key.key.ends_with('/');
        let is_null = is_directory || told_version.is_some();
        let mut effects = Vec::new();
        if modes.enabled && !is_null {
            effects.extend(candidates.effects());
        }
        if modes.unversioned || modes.suspended || is_null {
            match value {
                Some(_) => effects.push(Effect::Put { id: NULL, value }),
                None => {
                    if (modes.suspended || is_marker) && !is_directory {
                        effects.push(Effect::Put { id: NULL, value: None });
                    }
                    if (modes.unversioned || is_directory || effects.is_empty()) && !is_marker {
                        effects.push(Effect::Remove { id: NULL });
                    }
                }
            }
        }
        effects
    }

    fn guard(&self, condition: &Condition) -> Guard {
        match condition {
            Condition::Always => Guard::Always,
            Condition::IfAbsent => Guard::Absent,
            Condition::IfMatch(etag) => Guard::Is(self.with_etag(etag)),
        }
    }

    fn with_etag(&self, etag: &str) -> Values {
        let known = self.by_etag.get(etag).into_iter().flatten().copied();
        Values::These(known.chain(self.without_etag()).collect())
    }

    /// Contents of which nobody can tell the ETag.
    fn without_etag(&self) -> impl Iterator<Item = Value> {
        let contents = (0..).zip(&self.contents);
        contents.filter(|(_, contents)| contents.etags.is_empty()).map(|(value, _)| value)
    }

    fn tell_read(&mut self, book: &Book<'a>, op: &'a Op, conditions: bool) {
        let Some(answer) = &op.answer else { return };
        match (&op.asked.action, op.outcome()) {
            (Action::Get { version, .. } | Action::Head { version }, Outcome::Acknowledged) => {
                let view = match (&answer.seen, version) {
                    (Some(Seen::Object { .. }), Some(version)) => {
                        let id = self.id_of(*version);
                        View::Version(id, self.seen_values(book, op, answer))
                    }
                    (Some(Seen::Object { .. }), None) => {
                        let id = answer.version.map(|version| self.id_of(version));
                        View::Latest(self.seen_values(book, op, answer), id)
                    }
                    (Some(Seen::Absent), Some(version)) => View::NoVersion(self.id_of(*version)),
                    (Some(Seen::Absent), None) => View::Absent,
                    _ => return,
                };
                self.see(op, view);
            }
            (
                Action::Put { condition, .. } | Action::CompleteUpload { condition, .. },
                Outcome::Refused,
            ) if conditions => {
                let view = match (condition, answer.status) {
                    (Condition::IfAbsent, Some(412)) => View::Present,
                    (Condition::IfMatch(etag), Some(412)) => View::IsNot(self.with_etag(etag)),
                    (Condition::IfMatch(_), Some(404)) => View::Absent,
                    _ => return,
                };
                self.see(op, view);
            }
            _ => {}
        }
    }

    fn see(&mut self, op: &Op, view: View) {
        let what = What::Read(view);
        self.steps.push(Step { op: op.id(), from: op.invoked, to: op.ended, needed: true, what });
    }

    /// The contents that a GET or HEAD saw.
    fn seen_values(&self, book: &Book<'a>, op: &Op, answer: &Ending) -> Values {
        let Some(Seen::Object { digest, size, written_by }) = &answer.seen else {
            return Values::These(Vec::new());
        };
        let range = match op.asked.action {
            Action::Get { range, .. } => range,
            _ => None,
        };
        let (Some(digest), Some((first, last))) = (digest, range) else {
            return match digest {
                Some(digest) => Values::These(self.by_digest(*digest, *size).into_iter().collect()),
                None => answer.etag.as_ref().map_or(Values::Any, |etag| self.by_etag(etag, *size)),
            };
        };
        let matches = |contents: &Contents| {
            let author = book.author(contents.digest);
            author.is_some_and(|author| {
                written_by.is_none_or(|writer| writer == author)
                    // All that was asked for, as far as there is any.
                    && first + size == contents.size.min(last + 1)
                    && (*size == 0 || content::digest(author, first, first + size - 1) == *digest)
            })
        };
        let found = (0..).zip(&self.contents).filter(|(_, contents)| matches(contents));
        Values::These(found.map(|(value, _)| value).collect())
    }

    fn stack_view(&mut self, rows: &[&Listed], interleaved: bool) -> View {
        let flagged = rows.iter().filter(|row| row.latest).count();
        let latest = rows.iter().position(|row| row.latest).filter(|_| flagged == 1);
        let rows = rows.iter().map(|row| Row {
            id: self.id_of(row.version.unwrap_or(VersionId::NULL)),
            value: (!row.delete_marker).then(|| self.listed(row)),
        });
        View::Stack { rows: rows.collect(), interleaved, latest }
    }

    /// A write that was seen has taken effect by the end of the first read that saw it.
    fn confirm(&mut self) {
        let mut first_seen = BTreeMap::<Value, u64>::new();
        let mut note = |values: &Values, to: u64| {
            if let Values::These(values) = values
                && let [value] = values.as_slice()
            {
                let first = first_seen.entry(*value).or_insert(to);
                *first = (*first).min(to);
            }
        };
        for step in &self.steps {
            match &step.what {
                What::Read(View::Latest(values, _) | View::Version(_, values)) => {
                    note(values, step.to)
                }
                What::Read(View::Stack { rows, .. }) => {
                    for values in rows.iter().filter_map(|row| row.value.as_ref()) {
                        note(values, step.to);
                    }
                }
                _ => {}
            }
        }
        for told in self.writes.iter_mut().filter(|told| told.certain == NEVER) {
            let Some(value) = told.value else { continue };
            let is_unique = self.contents[value as usize].ops.len() == 1;
            if let Some(first) = first_seen.get(&value).filter(|_| is_unique) {
                told.certain = *first;
            }
        }
    }
}

/// What a write whose version nobody was told can have made.
struct Candidates<'a> {
    value: Option<Value>,
    unclaimed: &'a BTreeMap<Id, Option<Values>>,
    makers: &'a BTreeMap<Option<Value>, usize>,
}

impl Candidates<'_> {
    fn effects(&self) -> Vec<Effect> {
        let value = self.value;
        let fits = |what: &Option<Values>| match (what, value) {
            (None, None) => true,
            (Some(values), Some(value)) => values.has(value),
            _ => false,
        };
        let seen = self.unclaimed.iter().filter(|(_, what)| fits(what));
        let mut ids = seen.map(|(id, _)| *id).collect::<Vec<_>>();
        let makers = self.makers.get(&value).copied().unwrap_or(0);
        if makers > ids.len() || ids.is_empty() {
            ids.push(UNSEEN + value.map_or(0, |value| value + 1));
        }
        ids.into_iter().map(|id| Effect::Put { id, value }).collect()
    }
}
