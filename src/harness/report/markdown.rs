//! `report.md`, of a case and of a whole run, and what a CI server shows of it.
//!
//! Everything that others wrote is escaped: no key ends a cell, opens a tag or calls a user.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;

use super::case::CaseReport;
use super::case::FaultFact;
use super::compare::Comparison;
use super::error::ReportError;
use super::escape::markdown as plain;
use super::escape::markdown_code as code;
use super::escape::markdown_prose as prose;
use super::lineage;
use super::lineage::Generation;
use super::lineage::Marker;
use super::lineage::Phase;
use super::suite;
use super::suite::SuiteReport;
use super::words;
use super::words::OpRow;
use crate::harness::audit::census::Census;
use crate::harness::check::Finding;
use crate::harness::check::Verdict;
use crate::harness::workload::record::History;

/// The most that a step's summary may hold, in bytes: 900 KiB.
pub const SUMMARY_BYTES_MAX: usize = 900 * 1024;

/// Findings that a page shows.
const FINDINGS_MAX: usize = 50;

/// The page of one case. Writing to a string cannot fail, so that the results are left alone.
pub(super) fn case(
    report: &CaseReport,
    history: Option<&History>,
    census: Option<&Census>,
) -> String {
    let met = report.expected.as_ref().is_some_and(|expected| expected.met);
    let word = suite::word(report.class, met, &report.about.family);
    let mut text = format!(
        "# {} {}: {}\n\n> {}\n",
        sign(word),
        plain(word),
        code(&report.about.case),
        plain(&report.about.claim)
    );
    if !report.about.defects.is_empty() {
        let defects: Vec<_> = report.about.defects.iter().map(named).collect();
        let _ = writeln!(text, "\n**Planted on purpose:** {}.", defects.join(", "));
    }
    if !report.releases.is_empty() {
        let _ = writeln!(text, "\n**Other releases:** {}.", plain(&report.releases.join(", ")));
    }
    if let Some(expected) = &report.expected {
        let came = if expected.met { "came" } else { "did not come as expected" };
        let finding = code(&expected.failure.finding);
        let _ = writeln!(text, "\n**Expected finding** {finding}: it {came}.");
    }
    if !report.reasons.is_empty() {
        text.push('\n');
        for reason in &report.reasons {
            let _ = writeln!(text, "- {}", prose(reason));
        }
    }
    figures(&mut text, report);
    findings(&mut text, report, history);
    invariants(&mut text, report);
    provokes(&mut text, report);
    faults(&mut text, report);
    procedure(&mut text, report);
    recovery(&mut text, report);
    if let Some(history) = history {
        generations(&mut text, &lineage::generations(history, census));
    }
    let _ = writeln!(text, "\n## Run it again\n\n{}", block(&report.rerun));
    text.push_str("\n## What was not tested\n\n");
    for limit in &report.not_tested {
        let _ = writeln!(text, "- {}", prose(limit));
    }
    if let Some(torn) = &report.torn {
        let _ = writeln!(text, "\n{}.", plain(torn));
    }
    text
}

/// What an operator did, with the bytes of every file that it left.
fn procedure(text: &mut String, report: &CaseReport) {
    if report.procedure.is_empty() {
        return;
    }
    text.push_str("\n## What an operator did\n");
    for used in &report.procedure {
        let came = match &used.refused {
            Some(refused) => format!("refused: {}", plain(refused)),
            None => "done".to_owned(),
        };
        let _ = writeln!(text, "\n{} ({came})\n", code(&used.command));
        for line in used.answer.lines() {
            let _ = writeln!(text, "{}", block(line));
        }
        if !used.files.is_empty() {
            text.push_str("\n| where | file | bytes | SHA-256 |\n|---|---|---:|---|\n");
        }
        for file in &used.files {
            let (place, path) = (plain(&file.place), code(&file.path));
            let _ = writeln!(text, "| {place} | {path} | {} | {} |", file.bytes, file.sha256);
        }
    }
}

fn figures(text: &mut String, report: &CaseReport) {
    let all = report.operations.all();
    let lost = report.recovery.acknowledged_writes_lost;
    let lost = lost.map_or("not judged".to_owned(), |lost| lost.to_string());
    let recovery = report.recovery.time_us().map_or("none".to_owned(), words::duration);
    let _ = writeln!(
        text,
        "\n| acknowledged writes lost | recovery time | acknowledged | refused | ambiguous | took | seed |\n\
         |---:|---:|---:|---:|---:|---:|---:|\n| {lost} | {recovery} | {} | {} | {} | {} | {} |",
        words::count(all.acknowledged),
        words::count(all.refused),
        words::count(all.ambiguous),
        words::duration(report.took_ms.saturating_mul(1_000)),
        report.about.seed
    );
}

fn findings(text: &mut String, report: &CaseReport, history: Option<&History>) {
    let judged = report.judgements.iter();
    let mut found: Vec<(&str, &Finding)> = judged
        .flat_map(|judged| {
            judged.findings.iter().map(|finding| (judged.invariant.as_str(), finding))
        })
        .collect();
    if found.is_empty() {
        return;
    }
    found.sort_by_key(|(_, finding)| std::cmp::Reverse(finding.verdict));
    text.push_str("\n## Findings\n");
    for (invariant, finding) in found.iter().take(FINDINGS_MAX) {
        let target = finding.target.as_deref().map(|target| format!(" {}", code(target)));
        let _ = writeln!(
            text,
            "\n**{}** {} {}{}\n\n{}\n",
            verdict(finding.verdict),
            code(invariant),
            plain(&finding.kind),
            target.unwrap_or_default(),
            plain(&finding.message)
        );
        for op in &finding.operations {
            let _ = match history.and_then(|history| history.op(*op)) {
                Some(op) => writeln!(text, "- {}", plain(&OpRow::of(op).sentence())),
                None => writeln!(text, "- operation {op}"),
            };
        }
        for place in &finding.evidence {
            let _ = writeln!(text, "- {}", code(place));
        }
    }
    if found.len() > FINDINGS_MAX {
        let _ = writeln!(text, "\n{} more in `verdict.json`.", found.len() - FINDINGS_MAX);
    }
}

fn invariants(text: &mut String, report: &CaseReport) {
    if report.judgements.is_empty() {
        return;
    }
    text.push_str(
        "\n## Promises examined\n\n| verdict | invariant | examined | excused | findings |\n\
         |---|---|---:|---:|---:|\n",
    );
    for judged in &report.judgements {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            verdict(judged.verdict),
            code(&judged.invariant),
            judged.examined,
            judged.excused,
            judged.findings.len()
        );
    }
}

fn provokes(text: &mut String, report: &CaseReport) {
    if report.provokes.is_empty() {
        return;
    }
    text.push_str("\n## What had to happen\n\n| what | stated | seen |\n|---|---:|---:|\n");
    for provoked in &report.provokes {
        let _ = writeln!(
            text,
            "| {} | {} | {} |",
            code(&provoked.what),
            provoked.stated,
            provoked.seen
        );
    }
}

fn faults(text: &mut String, report: &CaseReport) {
    if report.faults.is_empty() {
        return;
    }
    text.push_str(
        "\n## What was broken\n\n| fault | at | injected | in force | healed |\n|---|---|---|---|---|\n",
    );
    let fact = |fact: &Option<FaultFact>| match fact {
        Some(fact) => format!("{}: {}", words::moment(fact.at_us), plain(&fact.evidence)),
        None => "not seen".to_owned(),
    };
    for fault in &report.faults {
        let injected = match (&fault.injected, &fault.not_reached) {
            (None, Some(missed)) => format!("not reached: {}", plain(&missed.evidence)),
            _ => fact(&fault.injected),
        };
        let _ = writeln!(
            text,
            "| {} | {} | {injected} | {} | {} |",
            code(&fault.name),
            fault.at.as_deref().map(code).unwrap_or_default(),
            fact(&fault.in_force),
            fact(&fault.healed)
        );
    }
}

fn recovery(text: &mut String, report: &CaseReport) {
    if report.recovery.time_us().is_none() {
        return;
    }
    text.push_str("\n## The way back\n\n| phase | took | measured |\n|---|---:|---|\n");
    for phase in &report.recovery.phases {
        let took = phase.took_us.map_or("–".to_owned(), words::duration);
        let _ = writeln!(text, "| {} | {took} | {} |", plain(&phase.name), plain(&phase.measured));
    }
    if let Some(objective) = &report.objective {
        let _ = writeln!(
            text,
            "| objective | {} of {} | {}{} |",
            words::duration(objective.took_ms.saturating_mul(1_000)),
            words::duration(objective.within_ms.saturating_mul(1_000)),
            if objective.is_met() { "met" } else { "missed" },
            if objective.judged { "" } else { "; not judged: cases shared the machine" }
        );
    }
}

/// Each generation with whom it took over from, its phases, its proof and its markers.
fn generations(text: &mut String, generations: &[Generation]) {
    if generations.is_empty() {
        return;
    }
    text.push_str(
        "\n## Generations\n\n| generation | after | drives | phases, as seen | proof | markers |\n\
         |---|---|---|---|---|---|\n",
    );
    for one in generations {
        let after = one.predecessor.as_deref().map(code).unwrap_or_default();
        let phase = |it: &Phase| {
            let on = if it.is_open { " and on" } else { "" };
            format!("{} {}{on}", it.name, words::duration(it.to_us.saturating_sub(it.from_us)))
        };
        let mut phases: Vec<_> = one.stretches.iter().map(phase).collect();
        if let Some(seen) = &one.stepped_back {
            phases.push(format!("stepped back by {}", words::moment(seen.at_us)));
        }
        let proof = one.proof.as_ref().map_or("none was seen".to_owned(), |it| {
            let kept = if it.is_kept { "kept" } else { "gone" };
            let seen = words::moment(it.seen.at_us);
            format!("{kept}, by {seen}: drive {}, {}", plain(&it.drive), code(&it.path))
        });
        let marker = |it: &Marker| {
            let end = match (&it.gone, &it.passed_to) {
                (None, _) => "still there".to_owned(),
                (Some(gone), None) => format!("removed by {}", words::moment(gone.at_us)),
                (Some(gone), Some(to)) => {
                    format!("{} had it by {}", code(&lineage::cut(to)), words::moment(gone.at_us))
                }
            };
            format!("drive {}: {end}", plain(&it.drive))
        };
        let markers: Vec<_> = one.markers.iter().map(marker).collect();
        let _ = writeln!(
            text,
            "| {} | {after} | {} | {} | {proof} | {} |",
            code(&one.id),
            plain(&one.targets.join(", ")),
            phases.join(", "),
            markers.join("; ")
        );
    }
}

/// The page of a whole run.
pub(super) fn suite(run: &SuiteReport, against: Option<&Comparison>) -> String {
    let overall = run.overall();
    let counts: Vec<_> =
        run.counts().iter().map(|(word, count)| format!("{count} {word}")).collect();
    let mut text = format!(
        "# {} firedrill: {}\n\n{} cases in {}, seed {}, exit {}\n",
        sign(overall.word()),
        if counts.is_empty() { "no case ran".to_owned() } else { counts.join(", ") },
        run.cases.len(),
        words::duration(run.took_ms.saturating_mul(1_000)),
        run.seed,
        overall.code()
    );
    for reason in &run.reasons {
        let _ = writeln!(text, "\n- {}", prose(reason));
    }
    if let Some(against) = against {
        comparison(&mut text, against);
    }
    text.push_str(
        "\n| | case | claim | took | recovery | writes lost |\n|---|---|---|---:|---:|---:|\n",
    );
    for case in run.worst_first() {
        let recovery = case.recovery_ms.map(|ms| words::duration(ms.saturating_mul(1_000)));
        let lost = case.acknowledged_writes_lost.map(|lost| lost.to_string());
        let _ = writeln!(
            text,
            "| {} {} | {} | {} | {} | {} | {} |",
            sign(case.word()),
            case.word(),
            code(&case.case),
            plain(&case.claim),
            words::duration(case.took_ms.saturating_mul(1_000)),
            recovery.unwrap_or_default(),
            lost.unwrap_or_default()
        );
    }
    for case in run.worst_first().into_iter().filter(|case| case.class.needs_attention()) {
        let _ =
            writeln!(text, "\n### {} {}: {}\n", sign(case.word()), case.word(), code(&case.case));
        for line in case.reasons.iter().chain(&case.findings) {
            let _ = writeln!(text, "- {}", prose(line));
        }
        let _ = writeln!(text, "\n{}", block(&case.rerun));
    }
    let points = run.crash_points();
    let struck = points.iter().filter(|(_, struck)| *struck).count();
    let _ = writeln!(text, "\nCrash points struck: {struck} of {}.", points.len());
    for drawn in &run.drawn {
        let name = plain(&drawn.scenario);
        let _ = writeln!(text, "Of {name}, {} of {} cases were drawn.", drawn.covered, drawn.all);
    }
    let _ = writeln!(text, "\nAll of it again:\n\n{}", block(&run.command));
    text
}

fn comparison(text: &mut String, against: &Comparison) {
    let _ = writeln!(text, "\n## Since {}\n", plain(&against.against));
    if against.is_empty() {
        text.push_str("Nothing changed.\n");
    }
    for (case, before, now) in &against.newly_failing {
        let _ = writeln!(text, "- **newly failing** {}: {before}, now {now}", code(case));
    }
    for (case, before, now) in &against.newly_passing {
        let _ = writeln!(text, "- newly passing {}: {before}, now {now}", code(case));
    }
    for (case, what, before, now) in &against.slower {
        let _ = writeln!(text, "- slower {} ({what}): {before} ms, now {now} ms", code(case));
    }
    for (word, names) in [
        ("new case", &against.added),
        ("gone", &against.removed),
        ("crash point gained", &against.points_gained),
        ("crash point lost", &against.points_lost),
    ] {
        for name in names {
            let _ = writeln!(text, "- {word} {}", code(name));
        }
    }
}

fn sign(word: &str) -> &'static str {
    match word {
        "pass" | "caught" => "✅",
        "known" | "undecided" | "refused" => "❔",
        "late" => "⏱️",
        "skipped" | "nothing ran" => "⏭️",
        _ => "❌",
    }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "held",
        Verdict::Undecided => "undecided",
        Verdict::Fail => "broken",
    }
}

/// A planted defect's name.
fn named<T: serde::Serialize>(value: &T) -> String {
    let name = serde_json::to_value(value).unwrap_or_default();
    code(name.as_str().unwrap_or_default())
}

/// A command as a block: indented, so that nothing in it can end it.
fn block(command: &str) -> String {
    format!("    {}", super::escape::visible(command))
}

/// `text` in at most `bytes_max` bytes, cut at the end of a line and saying so.
pub(super) fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let notice = "\n\nThe rest is cut; the whole is in `report.md`.\n";
    let mut end = bytes_max.saturating_sub(notice.len()).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let end = text[..end].rfind('\n').unwrap_or(0);
    format!("{}{notice}", &text[..end])
}

/// Appends `text` to a CI server's summary of the step, as far as it has room.
///
/// # Errors
/// [`ReportError::Io`].
pub(super) fn append(summary: &Path, text: &str) -> Result<(), ReportError> {
    let error = ReportError::io("append to", summary);
    let held = std::fs::metadata(summary).map_or(0, |held| held.len());
    let room = SUMMARY_BYTES_MAX.saturating_sub(usize::try_from(held).unwrap_or(usize::MAX));
    if room < 1_024 {
        return Ok(());
    }
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(summary);
    opened.and_then(|mut file| file.write_all(cut(text, room).as_bytes())).map_err(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_never_grows_past_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("summary.md");
        let text = "| a row of a table |\n".repeat(30_000);
        append(&path, &text).unwrap();
        append(&path, &text).unwrap();
        append(&path, &text).unwrap();
        let written = std::fs::read_to_string(&path).unwrap();
        assert!(written.len() <= SUMMARY_BYTES_MAX, "{}", written.len());
        assert!(written.ends_with("in `report.md`.\n"));
    }

    #[test]
    fn a_cut_keeps_whole_lines() {
        let text = format!("first\n{}", "é".repeat(200));
        let cut = cut(&text, 100);
        assert!(cut.starts_with("first\n\nThe rest"), "{cut}");
    }
}
