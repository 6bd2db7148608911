//! What was deleted stays deleted.
//!
//! Verified: a version whose removal was acknowledged is seen by no read that began after that, under
//! load or in the end, and lies on fewer drives than it takes to count; a delete marker that was
//! acknowledged, and not removed since, is listed by every node and lies on enough drives; the null
//! version is no object from before its last acknowledged delete; a bucket that was deleted, and that nobody
//! has asked to make since, is listed by no node and lies on no drive.
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
use crate::harness::workload::history::Action;
use crate::harness::workload::history::Seen;
use crate::harness::workload::record::NEVER;
use crate::harness::workload::record::Op;
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
    buckets(&mut check.examination, witnesses);
    if !check.drives.are_known {
        check.examination.nobody_looked();
    }
    check.examination.finish()
}

/// Buckets whose deletion was acknowledged, and that nobody has asked to make since.
fn buckets(examination: &mut Examination, witnesses: &Witnesses<'_>) {
    let history = witnesses.history;
    for (name, positions) in &history.buckets {
        let ops = || positions.iter().map(|position| &history.ops[*position]);
        let is_deletion = |op: &&Op| op.asked.action == Action::DeleteBucket;
        let Some(deleted) = ops().filter(is_deletion).rfind(|op| op.is_acknowledged()) else {
            continue;
        };
        if ops().any(|op| op.asked.action == Action::CreateBucket && op.ended > deleted.invoked) {
            continue;
        }
        examination.examined();
        let census = witnesses.census.iter();
        let drives = census.flat_map(|census| &census.buckets).find(|bucket| bucket.name == *name);
        let listed = history.final_reads().find(|op| {
            let seen = op.answer.as_ref().and_then(|answer| answer.seen.as_ref());
            op.asked.target.bucket == *name && matches!(seen, Some(Seen::Listing(_)))
        });
        let shown = match (drives, listed) {
            (Some(_), _) => "census.json".to_owned(),
            (None, Some(op)) => op.line(),
            (None, None) => continue,
        };
        let message = format!("bucket {name} was deleted, and is there again");
        let found = Found::fail("bucket_returned", message);
        examination.found(found.explained_by([deleted.id()]).shown_in(shown));
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::audit::census::BucketCensus;
    use crate::harness::audit::census::Census;
    use crate::harness::check::Facts;
    use crate::harness::check::Verdict;
    use crate::harness::workload::history::Ending;
    use crate::harness::workload::history::Entry;
    use crate::harness::workload::history::Event;
    use crate::harness::workload::history::HISTORY_FORMAT;
    use crate::harness::workload::history::Operation;
    use crate::harness::workload::history::Outcome;
    use crate::harness::workload::record::History;
    use crate::value::ObjectKey;

    fn judged(actions: &[Action], lies_there: bool) -> Verdict {
        let header = Event::Header { format: HISTORY_FORMAT, case: "c".to_owned(), seed: 1 };
        let mut events = vec![header];
        for (op, action) in (1..).zip(actions) {
            let target = ObjectKey { bucket: "doomed".to_owned(), key: String::new() };
            let asked = Operation { op, client: 1, node: 0, target, action: action.clone() };
            events.push(Event::Invoked(asked));
            events.push(Event::Ended(Ending {
                op,
                outcome: Outcome::Acknowledged,
                reason: String::new(),
                status: Some(200),
                version: None,
                etag: None,
                delete_marker: false,
                upload: None,
                seen: None,
            }));
        }
        let entries = events.into_iter().zip(0..);
        let entries = entries.map(|(event, seq)| Entry { seq, at_us: seq, event });
        let history = History::of(entries).unwrap();
        let bucket = BucketCensus { name: "doomed".to_owned(), missing_on: Vec::new() };
        let census = Census {
            format: 1,
            deployment: None,
            drives: Vec::new(),
            buckets: lies_there.then_some(bucket).into_iter().collect(),
            keys: Vec::new(),
            surplus: Vec::new(),
            replacement: Vec::new(),
            catalog: None,
            bytes_read: 0,
        };
        let facts = Facts {
            nodes: 1,
            drives: Vec::new(),
            set_drives: 1,
            parity: 0,
            survives_power_loss: true,
            buckets: Default::default(),
            principals: Default::default(),
        };
        let witnesses = Witnesses { facts: &facts, history: &history, census: Some(&census) };
        let mut examination = Examination::of(NAME);
        buckets(&mut examination, &witnesses);
        examination.finish().verdict
    }

    #[test]
    fn a_deleted_bucket_may_not_come_back_unless_it_was_made_again() {
        let (made, gone) = (Action::CreateBucket, Action::DeleteBucket);
        let deleted = [made.clone(), gone.clone()];
        assert_eq!(judged(&deleted, false), Verdict::Pass);
        assert_eq!(judged(&deleted, true), Verdict::Fail);
        assert_ne!(judged(&[made.clone(), gone, made], true), Verdict::Fail);
    }
}
