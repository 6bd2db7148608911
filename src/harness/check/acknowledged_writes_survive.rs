//! Acknowledged writes survive; refused ones stay away.
//!
//! Verified: every object that was acknowledged, or that a read has seen, and was neither overwritten
//! nor deleted since, is listed by every node, is read back whole from at least one, and lies on
//! enough drives. Judged by the final reads and, apart from them, by the census. What a refused write
//! would have put there is nowhere.
//!
//! Not verified: reads under load (`reads_are_linearizable`), markers and removals
//! (`deletes_stay_deleted`), spare redundancy (`every_version_is_full`).

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::model::book;
use super::model::book::Book;
use super::model::drives;
use super::model::drives::Drives;
use super::model::null_slot::NullSlot;
use super::model::null_slot::State;
use super::model::stack::Effect;
use super::model::stack::Id;
use super::model::stack::NULL;
use super::model::stack::Values;
use super::model::story::Contents;
use super::model::story::Story;
use super::model::story::Told;
use super::model::tolerance::Kept;
use super::model::tolerance::Tolerance;
use super::model::wire::Wire;
use crate::harness::audit::census::VersionClass;
use crate::harness::workload::history::Listed;
use crate::harness::workload::history::Outcome;
use crate::harness::workload::history::Seen;
use crate::harness::workload::record::NEVER;
use crate::value::Digest;
use crate::value::VersionId;

/// Its name.
pub const NAME: &str = "acknowledged_writes_survive";
/// The kind of a write that is gone, unreadable, or hidden by an older one again.
const LOST: &str = "acknowledged_write_lost";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let book = Book::of(witnesses);
    let mut check = Check {
        wire: Wire::of(&book),
        drives: Drives::of(witnesses),
        tolerance: Tolerance::of(witnesses),
        examination: Examination::of(NAME),
    };
    for key in &book.keys {
        let story = Story::tell(&book, key, false);
        check.numbered(&story);
        check.null(&story);
        check.refused(&book, &story);
    }
    check.witnesses_are_there();
    check.examination.finish()
}

struct Check<'a, 'b> {
    wire: Wire<'a, 'b>,
    drives: Drives<'a>,
    tolerance: Tolerance<'a>,
    examination: Examination,
}

/// What one witness says against a write.
struct Complaint {
    kind: &'static str,
    what: String,
    evidence: String,
    /// Whether more losses than the version could spare would excuse it.
    is_excusable: bool,
    /// Whether nobody got an answer at all.
    is_unanswered: bool,
    /// Further operations that explain it.
    operations: Vec<u64>,
}

impl Check<'_, '_> {
    fn witnesses_are_there(&mut self) {
        if self.wire.is_silent() {
            let message = "no node was asked what it has in the end".to_owned();
            self.examination.found(Found::undecided("no_final_reads", message));
        }
        if !self.drives.are_known {
            self.examination.nobody_looked();
        }
    }

    /// Objects with versions of their own.
    fn numbered(&mut self, story: &Story<'_>) {
        for told in story.writes.iter().filter(|told| told.is_certain()) {
            let Some(value) = told.value else { continue };
            let mut ids = Vec::new();
            for effect in &told.effects {
                match effect {
                    Effect::Put { id, .. } if *id != NULL => ids.push(*id),
                    _ => {}
                }
            }
            let is_removed = story.writes.iter().any(|other| {
                other
                    .effects
                    .iter()
                    .any(|effect| matches!(effect, Effect::Remove { id } if ids.contains(id)))
            });
            if ids.is_empty() || told.may_be_of_null() || is_removed {
                continue;
            }
            self.examination.examined();
            let contents = &story.contents[value as usize];
            let complaints = self.against(story, contents, &ids);
            self.complain(story, told, complaints);
        }
    }

    /// What the witnesses say against the version with one of these ids and these contents.
    fn against(&self, story: &Story<'_>, contents: &Contents, ids: &[Id]) -> Vec<Complaint> {
        let key = &story.key;
        let versions = ids.iter().filter_map(|id| story.version(*id)).collect::<Vec<_>>();
        let mut complaints = Vec::new();
        for (listing, rows) in self.wire.versions(key) {
            let is_it = |row: &&&Listed| {
                !row.delete_marker && row.version.is_some_and(|version| versions.contains(&version))
            };
            if rows.iter().any(|row| is_it(&row)) {
                continue;
            }
            complaints.push(Complaint {
                is_unanswered: false,
                kind: LOST,
                what: format!("node {} does not list it", listing.op.asked.node),
                evidence: listing.op.line(),
                is_excusable: true,
                operations: Vec::new(),
            });
        }
        for version in &versions {
            complaints.extend(self.unread(story, contents, *version));
        }
        if self.drives.are_known {
            let found = versions.iter().find_map(|version| self.drives.version(key, *version));
            complaints.extend(self.not_kept(found));
        }
        complaints
    }

    /// What the final reads say against a version that has to have these contents.
    fn unread(
        &self,
        story: &Story<'_>,
        contents: &Contents,
        version: VersionId,
    ) -> Option<Complaint> {
        let gets = self.wire.gets(&story.key, Some(version)).collect::<Vec<_>>();
        let last = gets.last()?;
        let mut wrong = None;
        for get in gets.iter().filter(|get| get.is_acknowledged()) {
            match get.answer.as_ref().and_then(|answer| answer.seen.as_ref()) {
                Some(Seen::Object { digest: Some(digest), .. }) if *digest == contents.digest => {
                    return None;
                }
                Some(Seen::Object { .. }) => wrong = Some((get, "wrong_bytes", "other bytes")),
                _ => wrong = wrong.or(Some((get, LOST, "nothing"))),
            }
        }
        let complaint = match wrong {
            Some((get, kind, seen)) => Complaint {
                is_unanswered: false,
                kind,
                what: format!("node {} reads {seen}", get.asked.node),
                evidence: get.line(),
                is_excusable: kind == LOST,
                operations: vec![get.id()],
            },
            None => Complaint {
                is_unanswered: true,
                kind: LOST,
                what: "no node reads it".to_owned(),
                evidence: last.line(),
                is_excusable: true,
                operations: Vec::new(),
            },
        };
        Some(complaint)
    }

    /// What the census says against a version that has to be there.
    fn not_kept(
        &self,
        found: Option<&crate::harness::audit::census::VersionCensus>,
    ) -> Option<Complaint> {
        let (kind, what) = match found {
            None => (LOST, "no drive holds it".to_owned()),
            Some(found) if found.delete_marker => {
                (LOST, "the drives hold a marker in its place".to_owned())
            }
            Some(found) => match found.class {
                VersionClass::Full | VersionClass::Degraded | VersionClass::AtRisk => return None,
                // One id with two identities: which one readers get is `drives_agree`'s matter.
                VersionClass::Divergent => return None,
                VersionClass::Uncommitted => {
                    (LOST, format!("only {} drives hold it", found.metadata_copies))
                }
                VersionClass::Unreadable => {
                    (LOST, format!("{} good shards of {}", found.good_shards, found.data_shards))
                }
            },
        };
        let evidence = "census.json".to_owned();
        let operations = Vec::new();
        Some(Complaint {
            kind,
            what,
            evidence,
            is_excusable: true,
            is_unanswered: false,
            operations,
        })
    }

    fn complain(&mut self, story: &Story<'_>, told: &Told<'_>, complaints: Vec<Complaint>) {
        if complaints.is_empty() {
            return;
        }
        let set = self.drives.key(&story.key).map(|key| key.set);
        let size = told.value.map_or(0, |value| story.contents[value as usize].size);
        let kept = Kept::Object(size);
        let is_beyond =
            self.tolerance.exceeded(&story.key, kept, told.certain, NEVER, set).is_some();
        if is_beyond && complaints.iter().all(|complaint| complaint.is_excusable) {
            self.examination.excused();
            return;
        }
        let worst = complaints.iter().find(|complaint| !complaint.is_excusable);
        let kind = worst.unwrap_or(&complaints[0]).kind;
        let how = if told.op.is_acknowledged() { "was acknowledged" } else { "was seen by a read" };
        let what = complaints.iter().map(|complaint| complaint.what.as_str());
        let what = what.collect::<Vec<_>>().join(", ");
        let message = format!("operation {} {how}, and in the end {what}", told.op.id());
        let operations = complaints.iter().flat_map(|complaint| complaint.operations.clone());
        let mut found = Found::fail(kind, message)
            .about(&story.key)
            .explained_by([told.op.id()].into_iter().chain(operations))
            .shown_in(told.op.line());
        for complaint in &complaints {
            found = found.shown_in(&complaint.evidence);
        }
        self.examination.found(found);
    }

    /// The null version.
    fn null(&mut self, story: &Story<'_>) {
        let Some(slot) = NullSlot::of(story) else { return };
        let writes = slot.last.iter().filter(|told| told.value.is_some()).count();
        if writes == 0 {
            return;
        }
        self.examination.examined();
        let mut complaints = Vec::new();
        let mut complain = |found: &State, what: String, evidence: String| {
            if slot.allows(found) || slot.is_about_a_delete(found) {
                return;
            }
            let writer = NullSlot::writer(story, found);
            let (kind, is_excusable) = match (found, writer) {
                (State::Object(_), Some(_)) => (LOST, true),
                (State::Object(_), None) => ("wrong_bytes", false),
                _ => (LOST, true),
            };
            let operations = writer.map(|told| told.op.id()).into_iter().collect();
            let is_unanswered = false;
            complaints.push(Complaint {
                kind,
                what,
                evidence,
                is_excusable,
                is_unanswered,
                operations,
            });
        };
        for (listing, rows) in self.wire.versions(&story.key) {
            let found = listed_null(story, rows);
            let what = format!("node {} lists {}", listing.op.asked.node, words(story, &found));
            complain(&found, what, listing.op.line());
        }
        for get in self.wire.gets(&story.key, Some(VersionId::NULL)) {
            let Some(answer) = get.answer.as_ref().filter(|_| get.is_acknowledged()) else {
                continue;
            };
            let found = match &answer.seen {
                Some(Seen::Object { digest: Some(digest), size, .. }) => {
                    by_digest(story, *digest, *size)
                }
                // Whether it is a marker or nothing, the listing says.
                _ => continue,
            };
            let what = format!("node {} reads {}", get.asked.node, words(story, &found));
            complain(&found, what, get.line());
        }
        if self.drives.are_known {
            let found = self.drives.version(&story.key, VersionId::NULL);
            let found = found.filter(|found| drives::is_committed(found));
            let state = match found {
                None => State::Nothing,
                Some(found) if found.delete_marker => State::Marker,
                Some(found) => match found.digest {
                    Some(digest) => by_digest(story, digest, found.size),
                    None => State::Object(Values::Any),
                },
            };
            let what = format!("the drives hold {}", words(story, &state));
            complain(&state, what, "census.json".to_owned());
            if let Some(found) = found.filter(|found| !found.delete_marker) {
                complaints.extend(self.not_kept(Some(found)));
            }
        }
        // It is listed and there, but nobody reads it.
        let mut contents = slot.last.iter().rev().filter_map(|told| told.value);
        if let Some(value) = contents.next() {
            let unread = self.unread(story, &story.contents[value as usize], VersionId::NULL);
            complaints.extend(unread.filter(|complaint| complaint.is_unanswered));
        }
        let last = slot.last.iter().rev().find(|told| told.value.is_some());
        if let Some(told) = last {
            self.complain(story, told, complaints);
        }
    }

    /// What refused writes would have put there.
    fn refused(&mut self, book: &Book<'_>, story: &Story<'_>) {
        for op in book.ops(&story.key).filter(|op| op.outcome() == Outcome::Refused) {
            let Some((digest, size, etag)) = book::contents(&op.asked.action) else { continue };
            // Others may have written the same contents.
            if story.by_digest(digest, size).is_some() {
                continue;
            }
            self.examination.examined();
            let listed = self.wire.versions(&story.key);
            let listed = listed.iter().find(|(_, rows)| {
                rows.iter().any(|row| row.size == size && Some(row.etag.as_str()) == etag)
            });
            let kept = self.drives.key(&story.key).and_then(|key| {
                let versions = key.versions.iter().filter(|version| drives::is_committed(version));
                versions.into_iter().find(|version| version.digest == Some(digest))
            });
            let (what, evidence) = match (listed, kept) {
                (Some((listing, _)), _) => (
                    format!("node {} lists what it wrote", listing.op.asked.node),
                    listing.op.line(),
                ),
                (None, Some(_)) => {
                    ("the drives hold what it wrote".to_owned(), "census.json".to_owned())
                }
                (None, None) => continue,
            };
            let message = format!("operation {} was refused, and in the end {what}", op.id());
            let found = Found::fail("refused_write_took_effect", message)
                .about(&story.key)
                .explained_by([op.id()])
                .shown_in(op.line())
                .shown_in(evidence);
            self.examination.found(found);
        }
    }
}

/// The null version as a listing shows it.
pub(super) fn listed_null(story: &Story<'_>, rows: &[&Listed]) -> State {
    match rows.iter().find(|row| row.version == Some(VersionId::NULL)) {
        None => State::Nothing,
        Some(row) if row.delete_marker => State::Marker,
        Some(row) => State::Object(story.listed(row)),
    }
}

/// An object with these contents.
pub(super) fn by_digest(story: &Story<'_>, digest: Digest, size: u64) -> State {
    State::Object(Values::These(story.by_digest(digest, size).into_iter().collect()))
}

/// What was found, in words.
pub(super) fn words(story: &Story<'_>, found: &State) -> String {
    match (found, NullSlot::writer(story, found)) {
        (State::Nothing, _) => "nothing".to_owned(),
        (State::Marker, _) => "a delete marker".to_owned(),
        (State::Object(_), Some(told)) => format!("what operation {} wrote", told.op.id()),
        (State::Object(Values::Any), None) => "an object".to_owned(),
        (State::Object(_), None) => "contents that nobody wrote".to_owned(),
    }
}
