//! What was deleted stays deleted.
//!
//! Verified: a version whose removal was acknowledged is seen by no read that began after that, under
//! load or in the end, and lies on fewer drives than it takes to count; a delete marker that was
//! acknowledged, and not removed since, is listed by every node and lies on enough drives; the null
//! version is no object from before its last acknowledged delete.
//!
//! Not verified: objects (`acknowledged_writes_survive`), copies below a quorum that a drive kept
//! because it was away (`nothing_leaked` and the report of the census name them).

use super::Judgement;
use super::Witnesses;
use super::acknowledged_writes_survive::by_digest;
use super::acknowledged_writes_survive::listed_null;
use super::acknowledged_writes_survive::words;
use super::findings::Examination;
use super::findings::Found;
use super::model::book::Book;
use super::model::drives;
use super::model::drives::Drives;
use super::model::null_slot::NullSlot;
use super::model::null_slot::State;
use super::model::search::Step;
use super::model::search::What;
use super::model::stack::Effect;
use super::model::stack::Id;
use super::model::stack::NULL;
use super::model::stack::Values;
use super::model::stack::View;
use super::model::story::Story;
use super::model::story::Told;
use super::model::tolerance::Kept;
use super::model::tolerance::Tolerance;
use super::model::wire::Wire;
use crate::harness::workload::history::Seen;
use crate::harness::workload::record::NEVER;
use crate::value::VersionId;

/// Its name.
pub const NAME: &str = "deletes_stay_deleted";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let book = Book::of(witnesses);
    let mut check = Check {
        book: &book,
        wire: Wire::of(&book),
        drives: Drives::of(witnesses),
        tolerance: Tolerance::of(witnesses),
        examination: Examination::of(NAME),
    };
    for key in &book.keys {
        let story = Story::tell(&book, key, false);
        for told in story.writes.iter().filter(|told| told.op.is_acknowledged()) {
            match told.effects.as_slice() {
                [Effect::Remove { id }] if *id != NULL => check.removed(&story, told, *id),
                [Effect::Put { id, value: None }] if *id != NULL => check.marker(&story, told, *id),
                _ => {}
            }
        }
        check.null(&story);
    }
    if check.wire.is_silent() {
        let message = "no node was asked what it has in the end".to_owned();
        check.examination.found(Found::undecided("no_final_reads", message));
    }
    if !check.drives.are_known {
        check.examination.nobody_looked();
    }
    check.examination.finish()
}

struct Check<'a, 'b> {
    book: &'b Book<'a>,
    wire: Wire<'a, 'b>,
    drives: Drives<'a>,
    tolerance: Tolerance<'a>,
    examination: Examination,
}

impl Check<'_, '_> {
    /// A version that was removed for certain.
    fn removed(&mut self, story: &Story<'_>, told: &Told<'_>, id: Id) {
        self.examination.examined();
        let later = story.steps.iter().find(|step| step.from > told.certain && shows(step, id));
        let version = story.version(id);
        let kept = version.and_then(|version| self.drives.version(&story.key, version));
        let kept = kept.filter(|kept| drives::is_committed(kept));
        let (what, operations, evidence) = match (later, kept) {
            (Some(step), _) => {
                let line = self.book.history.op(step.op).map(|op| op.line());
                (format!("operation {} saw it again", step.op), vec![step.op], line)
            }
            (None, Some(kept)) => {
                let what = format!("{} drives hold it in the end", kept.metadata_copies);
                (what, Vec::new(), Some("census.json".to_owned()))
            }
            (None, None) => return,
        };
        let message = format!(
            "operation {} removed version {}, and {what}",
            told.op.id(),
            version.unwrap_or(VersionId::NULL)
        );
        self.found(story, told, Kept::Absence, "came_back", message, operations, evidence);
    }

    /// A marker that was put for certain.
    fn marker(&mut self, story: &Story<'_>, told: &Told<'_>, id: Id) {
        let removes = |other: &Told<'_>| other.effects.contains(&Effect::Remove { id });
        if story.writes.iter().any(removes) {
            return;
        }
        self.examination.examined();
        let Some(version) = story.version(id) else { return };
        let mut what = Vec::new();
        let mut evidence = None;
        for (listing, rows) in self.wire.versions(&story.key) {
            if !rows.iter().any(|row| row.version == Some(version) && row.delete_marker) {
                what.push(format!("node {} does not list it", listing.op.asked.node));
                evidence = Some(listing.op.line());
            }
        }
        if self.drives.are_known {
            let kept = self.drives.version(&story.key, version);
            if !kept.is_some_and(|kept| drives::is_committed(kept) && kept.delete_marker) {
                let copies = kept.map_or(0, |kept| kept.metadata_copies);
                what.push(format!("{copies} drives hold it"));
                evidence = evidence.or(Some("census.json".to_owned()));
            }
        }
        if what.is_empty() {
            return;
        }
        let message = format!(
            "operation {} was acknowledged with marker {version}, and in the end {}",
            told.op.id(),
            what.join(", ")
        );
        self.found(story, told, Kept::Marker, "lost_marker", message, Vec::new(), evidence);
    }

    /// The null version, when a delete may have been the last that happened to it.
    fn null(&mut self, story: &Story<'_>) {
        let Some(slot) = NullSlot::of(story) else { return };
        let deletes = slot.last.iter().rev().find(|told| told.value.is_none());
        let Some(told) = deletes.copied() else { return };
        self.examination.examined();
        let mut seen = Vec::new();
        for (listing, rows) in self.wire.versions(&story.key) {
            let found = listed_null(story, rows);
            let what = format!("node {} lists {}", listing.op.asked.node, words(story, &found));
            seen.push((found, what, listing.op.line()));
        }
        for get in self.wire.gets(&story.key, Some(VersionId::NULL)) {
            let answer = get.answer.as_ref().filter(|_| get.is_acknowledged());
            if let Some(Seen::Object { digest: Some(digest), size, .. }) =
                answer.and_then(|answer| answer.seen.as_ref())
            {
                let found = by_digest(story, *digest, *size);
                let what = format!("node {} reads {}", get.asked.node, words(story, &found));
                seen.push((found, what, get.line()));
            }
        }
        if self.drives.are_known {
            let kept = self.drives.version(&story.key, VersionId::NULL);
            let found = match kept.filter(|kept| drives::is_committed(kept)) {
                None => State::Nothing,
                Some(kept) if kept.delete_marker => State::Marker,
                Some(kept) => match kept.digest {
                    Some(digest) => by_digest(story, digest, kept.size),
                    None => State::Object(Values::Any),
                },
            };
            let what = format!("the drives hold {}", words(story, &found));
            seen.push((found, what, "census.json".to_owned()));
        }
        let wrong = seen
            .into_iter()
            .find(|(found, ..)| !slot.allows(found) && slot.is_about_a_delete(found));
        let Some((found, what, evidence)) = wrong else { return };
        let is_marker = told.effects.iter().all(|effect| matches!(effect, Effect::Put { .. }));
        let (kind, kept) = match (&found, is_marker) {
            (State::Object(_), true) => ("came_back", Kept::Marker),
            (State::Object(_), false) => ("came_back", Kept::Absence),
            _ => ("lost_marker", Kept::Marker),
        };
        let message =
            format!("operation {} deleted the null version, and in the end {what}", told.op.id());
        let writer = NullSlot::writer(story, &found).map(|told| told.op.id());
        self.found(story, told, kept, kind, message, writer.into_iter().collect(), Some(evidence));
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one finding, each of another kind")]
    fn found(
        &mut self,
        story: &Story<'_>,
        told: &Told<'_>,
        kept: Kept,
        kind: &str,
        message: String,
        operations: Vec<u64>,
        evidence: Option<String>,
    ) {
        let set = self.drives.key(&story.key).map(|key| key.set);
        if self.tolerance.exceeded(&story.key, kept, told.certain, NEVER, set).is_some() {
            self.examination.excused();
            return;
        }
        let mut found = Found::fail(kind, message)
            .about(&story.key)
            .explained_by(operations.into_iter().chain([told.op.id()]))
            .shown_in(told.op.line());
        if let Some(evidence) = evidence {
            found = found.shown_in(evidence);
        }
        self.examination.found(found);
    }
}

/// Whether a read saw the version with this id.
fn shows(step: &Step, id: Id) -> bool {
    match &step.what {
        What::Read(View::Version(seen, _)) => *seen == id,
        What::Read(View::Latest(_, seen)) => *seen == Some(id),
        What::Read(View::Stack { rows, .. }) => rows.iter().any(|row| row.id == id),
        _ => false,
    }
}
