//! What is announced of contents is true of their bytes, recomputed by us.
//!
//! Verified: the ETag that a write is answered with is the one that S3 defines for the bytes sent; the
//! ETag and length that a GET announces belong to the bytes that it then delivers; contents decoded
//! from the drives have the digest, the length and the ETag of the write that made the version, and
//! every checksum stored beside them.
//!
//! Not verified: checksum headers other than ETags on the wire; ETags of versions that a foreign
//! server encrypts or compresses (they are not those that S3 defines, which is reported here).

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::model::book;
use super::model::book::Book;
use super::model::drives;
use super::model::drives::Drives;
use super::model::stack::Values;
use super::model::story::Story;
use crate::harness::audit::census::ProblemKind;
use crate::harness::workload::history::Action;
use crate::harness::workload::history::Outcome;
use crate::harness::workload::history::Seen;

/// Its name.
pub const NAME: &str = "checksums_match";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let book = Book::of(witnesses);
    let drives = Drives::of(witnesses);
    let mut examination = Examination::of(NAME);
    for key in &book.keys {
        let story = Story::tell(&book, key, false);
        writes(&mut examination, &book, &story);
        reads(&mut examination, &book, &story);
        held(&mut examination, &story, &drives);
    }
    examination.finish()
}

fn writes(examination: &mut Examination, book: &Book<'_>, story: &Story<'_>) {
    for op in book.ops(&story.key).filter(|op| op.is_acknowledged()) {
        let Some((_, _, Some(defined))) = book::contents(&op.asked.action) else { continue };
        let Some(answered) = op.answer.as_ref().and_then(|answer| answer.etag.as_deref()) else {
            continue;
        };
        examination.examined();
        if answered != defined {
            let message = format!(
                "operation {} was answered with ETag {answered}; its bytes have {defined}",
                op.id()
            );
            let found = Found::fail("etag_of_write", message).about(&story.key);
            examination.found(found.explained_by([op.id()]).shown_in(op.line()));
        }
    }
}

fn reads(examination: &mut Examination, book: &Book<'_>, story: &Story<'_>) {
    for op in book.ops(&story.key).filter(|op| op.outcome() == Outcome::Acknowledged) {
        let Action::Get { range, .. } = op.asked.action else { continue };
        let Some(answer) = &op.answer else { continue };
        let Some(Seen::Object { digest: Some(digest), size, .. }) = &answer.seen else { continue };
        let Some(etag) = &answer.etag else { continue };
        examination.examined();
        let announced = match range {
            None => story.by_etag(etag, *size),
            // A range has another length than what it is cut from.
            Some(_) => continue,
        };
        let delivered = story.by_digest(*digest, *size);
        let is_true = match (&announced, delivered) {
            (Values::Any, _) => true,
            (Values::These(announced), Some(delivered)) => announced.contains(&delivered),
            (Values::These(_), None) => false,
        };
        if is_true {
            continue;
        }
        let writers = match &announced {
            Values::These(values) => values.as_slice(),
            Values::Any => &[],
        };
        let writers = writers.iter().chain(&delivered);
        let writers = writers.flat_map(|value| &story.contents[*value as usize].ops);
        let message = format!(
            "operation {} was promised {size} bytes with ETag {etag} and got others ({digest})",
            op.id()
        );
        let found = Found::fail("etag_of_read", message)
            .about(&story.key)
            .explained_by(writers.copied().chain([op.id()]))
            .shown_in(op.line());
        examination.found(found);
    }
}

fn held(examination: &mut Examination, story: &Story<'_>, drives: &Drives<'_>) {
    let Some(kept) = drives.key(&story.key) else { return };
    let committed = kept.versions.iter().filter(|version| drives::is_committed(version));
    for version in committed.filter(|version| !version.delete_marker) {
        let mismatch = version.problems.iter().chain(&kept.problems);
        let mismatch = mismatch.into_iter().find(|p| p.kind == ProblemKind::ContentMismatch);
        let announced = version.etag.as_ref().map(|etag| story.by_etag(etag, version.size));
        let delivered = version.digest.map(|digest| story.by_digest(digest, version.size));
        let disagree = match (&announced, delivered) {
            (Some(Values::These(announced)), Some(delivered)) => {
                delivered.is_none_or(|delivered| !announced.contains(&delivered))
            }
            _ => false,
        };
        examination.examined();
        let what = match (mismatch, disagree) {
            (Some(problem), _) => format!("drive {}: {}", problem.drive, problem.detail),
            (None, true) => "its ETag belongs to other bytes than its shards give".to_owned(),
            (None, false) => continue,
        };
        let message = format!("version {} on the drives: {what}", version.version);
        let values = match announced {
            Some(Values::These(values)) => values,
            _ => Vec::new(),
        };
        let writers = values.iter().flat_map(|value| story.contents[*value as usize].ops.clone());
        let found = Found::fail("checksum_on_drives", message)
            .about(&story.key)
            .explained_by(writers)
            .shown_in("census.json");
        examination.found(found);
    }
}
