//! Where an operator has consented to an older strong snapshot, and what is given up by that. Pure.
//!
//! Consent is an act: a copy is put back, and every node is restarted on it. What was acknowledged between the making
//! of the copy and that restart may be gone. A copy under nodes that run on gives nothing up.

use std::collections::BTreeMap;

use crate::harness::workload::catalog::CatalogOp;
use crate::harness::workload::catalog::HandledHow;
use crate::harness::workload::history::Note;
use crate::harness::workload::record::History;

/// One consent, in positions of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Consent {
    /// Where the copy was made.
    pub(super) from: u64,
    /// Where every node was restarted on it.
    pub(super) until: u64,
}

/// Every consent of a run, in order.
pub(super) fn all(history: &History) -> Vec<Consent> {
    let mut kept = BTreeMap::<&str, u64>::new();
    let mut standing = None;
    let mut all = Vec::new();
    for note in &history.notes {
        match &note.what {
            Note::Snapshot(handled) => match handled.what {
                HandledHow::Kept => {
                    kept.insert(&handled.copy, note.seq);
                }
                HandledHow::PutBack => standing = kept.get(&*handled.copy).copied(),
                HandledHow::Removed => standing = None,
            },
            Note::Restarted => {
                let until = note.seq;
                all.extend(standing.take().map(|from| Consent { from, until }));
            }
            _ => {}
        }
    }
    all
}

/// Whether what a request has done may be gone by consent.
pub(super) fn gives_up(consents: &[Consent], op: &CatalogOp) -> bool {
    let Some(ended) = op.ended else { return false };
    consents.iter().any(|consent| consent.from < ended && ended < consent.until)
}
