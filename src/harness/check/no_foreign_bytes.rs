//! Nobody ever gets bytes that no write to that key has put there.
//!
//! Verified: the bytes of every GET that was answered whole, and of every version that the drives give
//! back, are those of one write to that key that had begun by then and was not refused: all of them,
//! at their place. The finding names whose bytes they are, as far as they tell.
//!
//! Not verified: which of the key's writes (`reads_are_linearizable`); answers that broke off.

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::model::book;
use super::model::book::Book;
use super::model::drives;
use super::model::drives::Drives;
use super::model::search::What;
use super::model::stack::Values;
use super::model::stack::View;
use super::model::story::Story;
use crate::harness::workload::history::Action;
use crate::harness::workload::history::Outcome;
use crate::harness::workload::history::Seen;
use crate::harness::workload::record::Op;
use crate::value::Digest;

/// Its name.
pub const NAME: &str = "no_foreign_bytes";

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let book = Book::of(witnesses);
    let drives = Drives::of(witnesses);
    let mut examination = Examination::of(NAME);
    for key in &book.keys {
        let story = Story::tell(&book, key, false);
        for step in &story.steps {
            let What::Read(View::Latest(values, _) | View::Version(_, values)) = &step.what else {
                continue;
            };
            let Some(op) = book.history.op(step.op) else { continue };
            let is_get = matches!(op.asked.action, Action::Get { .. });
            let Values::These(values) = values else { continue };
            if !is_get {
                continue;
            }
            examination.examined();
            let begun = |value: &u32| {
                let writers = &story.contents[*value as usize].ops;
                let writers = writers.iter().filter_map(|writer| book.history.op(*writer));
                writers.into_iter().any(|writer| writer.invoked < op.ended)
            };
            if values.iter().any(begun) {
                continue;
            }
            foreign_read(&mut examination, &book, &story, op);
        }
        let Some(kept) = drives.key(key) else { continue };
        let committed = kept.versions.iter().filter(|version| drives::is_committed(version));
        for version in committed {
            let Some(digest) = version.digest else { continue };
            examination.examined();
            if story.by_digest(digest, version.size).is_some() {
                continue;
            }
            let whose = whose(&book, &story, digest, None);
            let message =
                format!("version {} on the drives holds {}", version.version, whose.words);
            let found = Found::fail("foreign_bytes", message)
                .about(key)
                .explained_by(whose.operation)
                .shown_in("census.json");
            examination.found(found);
        }
    }
    for key in drives.user_keys().filter(|key| !book.keys.contains(&key.target)) {
        if let Some(version) = key.versions.iter().find(|version| drives::is_committed(version)) {
            examination.examined();
            let message =
                format!("the drives hold version {} of a key that nobody wrote", version.version);
            let found = Found::fail("foreign_key", message).about(&key.target);
            examination.found(found.shown_in("census.json"));
        }
    }
    examination.finish()
}

fn foreign_read(examination: &mut Examination, book: &Book<'_>, story: &Story<'_>, op: &Op) {
    let seen = op.answer.as_ref().and_then(|answer| answer.seen.as_ref());
    let Some(Seen::Object { digest: Some(digest), size, written_by }) = seen else { return };
    let whose = whose(book, story, *digest, *written_by);
    let message = format!("operation {} read {size} bytes: {}", op.id(), whose.words);
    let found = Found::fail("foreign_bytes", message)
        .about(&story.key)
        .explained_by(whose.operation.into_iter().chain([op.id()]))
        .shown_in(op.line());
    examination.found(found);
}

/// Whose bytes they are, as far as they tell.
struct Whose {
    words: String,
    operation: Option<u64>,
}

fn whose(book: &Book<'_>, story: &Story<'_>, digest: Digest, begins: Option<u64>) -> Whose {
    let wrote = |op: &&Op| book::contents(&op.asked.action).is_some_and(|(d, ..)| d == digest);
    let words = |op: &Op| {
        let how = match (op.asked.target == story.key, op.outcome()) {
            (true, Outcome::Refused) => "which was refused".to_owned(),
            (true, _) => "which had not begun".to_owned(),
            (false, _) => format!("which wrote {}", op.asked.target),
        };
        format!("those of operation {}, {how}", op.id())
    };
    if let Some(op) = book.history.ops.iter().find(wrote) {
        return Whose { words: words(op), operation: Some(op.id()) };
    }
    match begins.and_then(|op| book.history.op(op)) {
        Some(op) => Whose {
            words: format!("they begin like those of operation {} and go on otherwise", op.id()),
            operation: Some(op.id()),
        },
        None => Whose { words: "bytes that no operation wrote".to_owned(), operation: None },
    }
}
