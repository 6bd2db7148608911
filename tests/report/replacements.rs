//! Replacements on the page of a case: the lineage, the phases on the timeline, the proof, the markers.

use std::path::Path;

use firedrill::harness::audit::census::Census;
use firedrill::harness::report::RunDirectory;
use firedrill::harness::report::render_all;
use firedrill::harness::workload::history::Entry;
use firedrill::harness::workload::history::Event;

use super::copied;
use super::story::HOSTILE;
use super::story::SHOWN;
use super::text;

const STORY: &str = "a-rebuild-seen-all-the-way";
/// The generations of the story.
const PREDECESSOR: &str = "f1f1f1f1-0000-4000-8000-000000000001";
const SUCCESSOR: &str = "f1f1f1f1-0000-4000-8000-000000000002";

fn recorded(ending: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/histories");
    std::fs::read_to_string(folder.join(format!("{STORY}{ending}"))).unwrap()
}

/// A kept run in which the replacement of the recorded story was seen too; `change` may spoil what was seen.
fn with_replacement(change: impl Fn(&str) -> String) -> (tempfile::TempDir, RunDirectory) {
    let (folder, run) = copied("pass");
    let read = |line: &str| serde_json::from_str::<Entry>(line).unwrap();
    let kept = text(&run, "history.jsonl");
    let mut events: Vec<(u64, Event)> =
        kept.lines().map(read).map(|entry| (entry.at_us, entry.event)).collect();
    let story = change(&recorded(".jsonl"));
    let seen = story.lines().skip(1).map(read).filter(|entry| match &entry.event {
        Event::Sighted(_) => true,
        Event::Fault(fault) => fault.name == "replace_drive",
        _ => false,
    });
    let last = events.pop().unwrap();
    events.extend(seen.enumerate().map(|(place, entry)| {
        let at_us = 4_600_000 + place as u64 * 100_000;
        (at_us, entry.event)
    }));
    events.sort_by_key(|(at_us, _)| *at_us);
    events.push(last);
    let entries = (0..).zip(events).map(|(seq, (at_us, event))| Entry { seq, at_us, event });
    let lines: Vec<String> =
        entries.map(|entry| serde_json::to_string(&entry).unwrap() + "\n").collect();
    std::fs::write(run.path("history.jsonl"), lines.concat()).unwrap();
    let story: Census = serde_json::from_str(&change(&recorded(".census.json"))).unwrap();
    let mut census = run.read_census().unwrap().unwrap();
    census.replacement = story.replacement;
    run.write_census(&census).unwrap();
    render_all(&run).unwrap();
    (folder, run)
}

#[test]
fn the_lineage_its_phases_the_proof_and_the_markers_are_shown() {
    let (_folder, run) = with_replacement(str::to_owned);
    let page = text(&run, "report.html");
    assert_eq!(page.matches("class=\"g-box").count(), 2, "a box for each generation");
    assert_eq!(page.matches("class=\"g-edge\"").count(), 1, "an arrow for the handoff");
    for words in [
        "g-box none",
        "g-box good",
        "stepped back by",
        "proved by",
        "handed over in",
        &format!("after <code>{PREDECESSOR}</code>"),
        "schema 2, 1 link;",
        &format!("<code>{SUCCESSOR}</code> had it by"),
        "removed by",
        "proof was seen at",
    ] {
        assert!(page.contains(words), "`{words}` is not on the page");
    }
    for phase in ["detect", "handoff", "rebuild", "verify", "cleanup"] {
        let stretch = format!("<rect class=\"t-{phase}\" x=\"");
        assert!(page.matches(&stretch).count() >= 2, "{phase} is not on the timeline");
    }
    let page = text(&run, "report.md");
    let row = format!("| <code>{SUCCESSOR}</code> | <code>{PREDECESSOR}</code> | 0/1 | ");
    let row = page.lines().find(|line| line.starts_with(&row)).expect("a row for the successor");
    assert!(row.contains("rebuild ") && row.contains("| kept, by "), "{row}");
    assert!(row.contains("drive 0/1: removed by "), "{row}");
    let passed_on = format!("drive 0/1: <code>{SUCCESSOR}</code> had it by ");
    assert!(page.contains(&passed_on), "who had the marker is not told");
}

#[test]
fn a_run_without_replacements_shows_none() {
    let (_folder, run) = copied("pass");
    let page = text(&run, "report.html");
    for words in ["<h2>Replacements</h2>", "g-box none", "t-proof\"", "<rect class=\"t-rebuild\""] {
        assert!(!page.contains(words), "{words}");
    }
}

#[test]
fn a_proof_that_is_gone_in_the_end_is_no_good_end() {
    let (_folder, run) = with_replacement(str::to_owned);
    let mut census = run.read_census().unwrap().unwrap();
    for held in &mut census.replacement {
        held.records.retain(|path, _| !path.contains("completion_proof"));
    }
    run.write_census(&census).unwrap();
    render_all(&run).unwrap();
    let page = text(&run, "report.html");
    assert!(page.contains("and gone") && !page.contains("g-box good"));
}

/// Goal: what stands in records was written by whoever wrote to the drives, and is text.
#[test]
fn hostile_names_in_records_are_text() {
    let json = serde_json::to_string(HOSTILE).unwrap();
    // Records are JSON inside JSON.
    let twice = serde_json::to_string(json.trim_matches('"')).unwrap();
    let twice = twice.trim_matches('"');
    let (_folder, run) = with_replacement(|recorded| {
        recorded
            .replace("/drives/0/1", twice)
            .replace(SUCCESSOR, &SUCCESSOR.replace("f1f1", "<b>'"))
    });
    let page = text(&run, "report.html");
    for page in [&page, &text(&run, "report.md")] {
        assert!(!page.contains("<script") && !page.contains("\u{1b}"), "a name became a tag");
    }
    assert!(!page.contains("<b>'"), "a name became a tag");
    assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}'), "a name became a control");
    let begin: String = SHOWN.chars().take(20).collect();
    let escaped = begin.replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&#x27;");
    assert!(page.contains(&escaped), "the name of the target is not shown");
    assert!(page.contains("&lt;b&gt;&#x27;"), "the id is not shown");
}
