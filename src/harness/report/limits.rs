//! What a run cannot have shown: the limits of its rung, of its testbed and of what it saw.

use super::case::About;
use crate::harness::audit::census::Census;
use crate::harness::check::INVARIANTS;
use crate::harness::check::Judgement;
use crate::harness::scenario::plan::Filesystem;
use crate::harness::scenario::plan::Rung;
use crate::harness::workload::history::Note;
use crate::harness::workload::record::History;
use crate::protocol::config::Durability;

/// The limits, each a sentence.
pub(super) fn not_tested(
    about: &About,
    history: Option<&History>,
    census: Option<&Census>,
    judgements: &[Judgement],
) -> Vec<String> {
    let mut limits: Vec<String> = of_rung(about.rung).iter().map(|&limit| limit.into()).collect();
    if about.durability == Durability::Relaxed {
        limits.push(
            "Durability is declared `relaxed`: names and metadata are not promised to survive a \
             loss of power, and a loss of them is no finding."
                .into(),
        );
    }
    limits.push(match about.filesystem {
        Filesystem::Ext4 => "Other file systems than ext4.".into(),
        Filesystem::Xfs => "Other file systems than xfs.".into(),
    });
    limits.push(
        "All nodes share one kernel and one clock: clocks that differ or jump are not rehearsed."
            .into(),
    );
    limits.push(
        "Real processes are not deterministic: the seed fixes what was done, not how it \
         interleaved. Only the interleaving in the history was judged."
            .into(),
    );
    let others: Vec<_> = INVARIANTS
        .iter()
        .map(|invariant| invariant.name)
        .filter(|name| !judgements.iter().any(|judged| judged.invariant == *name))
        .collect();
    if !others.is_empty() {
        limits.push(format!("Promises that this scenario does not claim: {}.", others.join(", ")));
    }
    if census.is_none() {
        limits.push("No census was taken: what the drives hold is not known.".into());
    }
    if let Some(history) = history {
        for note in &history.notes {
            if let Note::Shared { jobs } = note.what
                && jobs > 1
            {
                limits.push(format!(
                    "{jobs} cases shared the machine: times are reported, not judged."
                ));
            }
        }
        if let Some(torn) = &history.torn {
            limits.push(format!("What happened after the end of the record: {torn}."));
        }
    }
    limits
}

/// What a rung keeps where a real disaster would lose it.
fn of_rung(rung: Rung) -> &'static [&'static str] {
    match rung {
        Rung::Memory => &[
            "Everything below the seam of a drive: on rung `memory` no kernel, file system, process \
             or socket takes part.",
        ],
        Rung::Loop => &[
            "Writes that reached a drive without a flush: on rung `loop` a power cut keeps them, so \
             that a missing flush after direct I/O cannot show. Rung `block` can.",
            "Sectors that are torn or reordered by a drive, and drives that ignore a flush. Rung \
             `block` can.",
            "A crash of the kernel itself. A guest with a kernel of its own can.",
        ],
        Rung::Block => &["A crash of the kernel itself. A guest with a kernel of its own can."],
        Rung::Vm => &["Firmware and controllers of real drives."],
    }
}
