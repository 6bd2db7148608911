//! `report.html`: one file without script and without anything fetched, of a case and of a whole run.
//!
//! Templates escape every value; what hides in a value is made visible before that. The page forbids
//! itself everything but its own style.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use minijinja::Environment;
use minijinja::UndefinedBehavior;
use minijinja::Value;
use minijinja::escape_formatter;
use minijinja::value::Serde;
use serde::Serialize;

use super::case::CaseReport;
use super::case::FaultReport;
use super::case::Objective;
use super::case::Outcomes;
use super::compare::Comparison;
use super::error::ReportError;
use super::escape::spans;
use super::escape::visible;
use super::graph;
use super::graph::Graph;
use super::lineage;
use super::lineage::Generation;
use super::suite;
use super::suite::CaseSummary;
use super::suite::SuiteReport;
use super::timeline;
use super::timeline::Timeline;
use super::words;
use super::words::OpRow;
use crate::harness::audit::census::Census;
use crate::harness::check;
use crate::harness::check::Finding;
use crate::harness::check::Judgement;
use crate::harness::check::Verdict;
use crate::harness::workload::record::History;

/// Findings that a page shows.
const FINDINGS_MAX: usize = 50;

/// Problems of drives that a page shows.
const PROBLEMS_MAX: usize = 40;

/// A finding with everything a reader needs to believe it.
#[derive(Debug, Serialize)]
struct FindingCard<'a> {
    invariant: &'a str,
    promise: &'a str,
    finding: &'a Finding,
    word: &'static str,
    operations: Vec<OpRow>,
    /// Cited operations that the history does not have.
    unknown: Vec<u64>,
}

/// A row of the table of invariants.
#[derive(Debug, Serialize)]
struct InvariantRow<'a> {
    judged: &'a Judgement,
    promise: &'a str,
    word: &'static str,
}

/// One thing wrong on one drive.
#[derive(Debug, Serialize)]
struct ProblemRow<'a> {
    drive: &'a str,
    target: String,
    version: String,
    kind: String,
    path: &'a str,
    detail: &'a str,
}

/// A node in the picture of the cluster.
#[derive(Debug, Serialize)]
struct NodeCell {
    faults: BTreeSet<String>,
    drives: Vec<DriveCell>,
}

/// A drive in the picture of the cluster.
#[derive(Debug, Serialize)]
struct DriveCell {
    name: String,
    faults: BTreeSet<String>,
    problems: u64,
}

/// Everything that the page of a case shows.
#[derive(Debug, Serialize)]
struct CasePage<'a> {
    report: &'a CaseReport,
    word: &'static str,
    tone: &'static str,
    meaning: &'static str,
    met: bool,
    findings: Vec<FindingCard<'a>>,
    more_findings: usize,
    invariants: Vec<InvariantRow<'a>>,
    recovery_us: Option<u64>,
    objective_met: bool,
    all: Outcomes,
    timeline: Option<Timeline>,
    lineage: Option<Graph>,
    generations: Vec<Generation>,
    nodes: Vec<NodeCell>,
    problems: Vec<ProblemRow<'a>>,
    more_problems: usize,
    versions: u64,
    files: &'a [String],
}

/// Everything that the page of a run shows.
#[derive(Debug, Serialize)]
struct SuitePage<'a> {
    run: &'a SuiteReport,
    word: &'static str,
    tone: &'static str,
    code: u8,
    rows: Vec<CaseRow<'a>>,
    counts: Vec<CountRow>,
    families: BTreeMap<&'a str, u64>,
    faults: BTreeMap<&'a str, u64>,
    lost: u64,
    slowest_ms: u64,
    struck: usize,
    points: Vec<(&'static str, bool)>,
    against: Option<&'a Comparison>,
}

/// A case on the page of a run.
#[derive(Debug, Serialize)]
struct CaseRow<'a> {
    case: &'a CaseSummary,
    word: &'static str,
    tone: &'static str,
}

/// How many cases a word counts.
#[derive(Debug, Serialize)]
struct CountRow {
    word: &'static str,
    tone: &'static str,
    count: u64,
}

/// The page of one case.
///
/// # Errors
/// [`ReportError::Page`]: a mistake of ours.
pub(super) fn case(
    report: &CaseReport,
    history: Option<&History>,
    census: Option<&Census>,
    files: &[String],
) -> Result<String, ReportError> {
    let met = report.expected.as_ref().is_some_and(|expected| expected.met);
    let word = suite::word(report.class, met, &report.about.family);
    let (findings, more_findings) = findings(report, history);
    let (problems, more_problems) = problems(census);
    let generations =
        history.map_or_else(Vec::new, |history| lineage::generations(history, census));
    let page = CasePage {
        report,
        word,
        tone: tone(word),
        meaning: meaning(report, met),
        met,
        findings,
        more_findings,
        invariants: invariants(report),
        recovery_us: report.recovery.time_us(),
        objective_met: report.objective.as_ref().is_some_and(Objective::is_met),
        all: report.operations.all(),
        timeline: history.map(|history| timeline::draw(report, history, &generations)),
        lineage: graph::draw(&generations),
        generations,
        nodes: cluster(report, census),
        problems,
        more_problems,
        versions: report.census.map_or(0, |census| census.versions()),
        files,
    };
    render("case.html", Value::from(Serde(&page)))
}

/// The page of a whole run.
///
/// # Errors
/// [`ReportError::Page`]: a mistake of ours.
pub(super) fn suite(
    run: &SuiteReport,
    against: Option<&Comparison>,
) -> Result<String, ReportError> {
    let overall = run.overall();
    let points = run.crash_points();
    let count = |(word, count)| CountRow { word, tone: tone(word), count };
    let mut families: BTreeMap<&str, u64> = BTreeMap::new();
    let mut faults: BTreeMap<&str, u64> = BTreeMap::new();
    for case in &run.cases {
        *families.entry(&case.family).or_default() += 1;
        for (fault, times) in &case.faults {
            *faults.entry(fault).or_default() += times;
        }
    }
    let unexpected = run.cases.iter().filter(|case| !case.failed_as_expected);
    let page = SuitePage {
        run,
        word: overall.word(),
        tone: tone(overall.word()),
        code: overall.code(),
        rows: run.worst_first().into_iter().map(case_row).collect(),
        counts: run.counts().into_iter().map(count).collect(),
        families,
        faults,
        lost: unexpected.filter_map(|case| case.acknowledged_writes_lost).sum(),
        slowest_ms: run.cases.iter().map(|case| case.took_ms).max().unwrap_or(0).max(1),
        struck: points.iter().filter(|(_, struck)| *struck).count(),
        points,
        against,
    };
    render("suite.html", Value::from(Serde(&page)))
}

fn case_row(case: &CaseSummary) -> CaseRow<'_> {
    CaseRow { case, word: case.word(), tone: tone(case.word()) }
}

/// Renders a template with everything that all of them use.
fn render(page: &'static str, values: Value) -> Result<String, ReportError> {
    let error = |source: minijinja::Error| ReportError::Page { page, source: Box::new(source) };
    let mut templates = Environment::new();
    templates.set_undefined_behavior(UndefinedBehavior::Strict);
    templates.set_formatter(|out, state, value| match value.as_str() {
        Some(text) if !value.is_safe() => {
            escape_formatter(out, state, &Value::from(visible(text).as_ref()))
        }
        _ => escape_formatter(out, state, value),
    });
    templates.add_filter("marked", marked);
    templates.add_filter("duration", words::duration);
    templates.add_filter("moment", words::moment);
    templates.add_filter("count", words::count);
    templates.add_filter("bytes", words::bytes);
    let style = include_str!("page/style.css").to_owned();
    templates.add_global("style", Value::from_safe_string(style));
    for (name, text) in [
        ("base.html", include_str!("page/base.html")),
        ("seal.html", include_str!("page/seal.html")),
        ("case.html", include_str!("page/case.html")),
        ("timeline.html", include_str!("page/timeline.html")),
        ("lineage.html", include_str!("page/lineage.html")),
        ("suite.html", include_str!("page/suite.html")),
    ] {
        templates.add_template(name, text).map_err(error)?;
    }
    templates.get_template(page).and_then(|template| template.render(values)).map_err(error)
}

/// A sentence of ours, in which what stands between backticks is code. Everything in it is escaped.
fn marked(text: &str) -> Value {
    let shown = visible(text);
    let mut html = String::new();
    for (is_code, part) in spans(&shown) {
        html.push_str(if is_code { "<code>" } else { "" });
        for c in part.chars() {
            match c {
                '&' => html.push_str("&amp;"),
                '<' => html.push_str("&lt;"),
                '>' => html.push_str("&gt;"),
                '"' => html.push_str("&quot;"),
                '\'' => html.push_str("&#x27;"),
                _ => html.push(c),
            }
        }
        html.push_str(if is_code { "</code>" } else { "" });
    }
    Value::from_safe_string(html)
}

/// The colour of a badge: always beside a word and a sign.
fn tone(word: &str) -> &'static str {
    match word {
        "pass" | "caught" => "good",
        "known" | "undecided" | "refused" => "open",
        "late" => "late",
        "skipped" | "nothing ran" => "none",
        _ => "bad",
    }
}

/// What the verdict means, for someone who was not there.
fn meaning(report: &CaseReport, met: bool) -> &'static str {
    use super::class::ExitClass;
    match report.class {
        ExitClass::Held if met && report.about.is_canary() => {
            "A defect was planted on purpose, and the checks caught it: the claim does not hold, as it must not."
        }
        ExitClass::Held if met => {
            "The claim does not hold, in just the way that is known and excused until its date."
        }
        ExitClass::Held => "Every promise was examined, and every one was kept.",
        ExitClass::Broken => "A promise to a client was broken.",
        ExitClass::Undecided => "Nobody can tell from this run whether the claim holds.",
        ExitClass::Late => "Every promise was kept, but not in the promised time.",
        ExitClass::Skipped | ExitClass::SkippedAllowed => {
            "It was not run: this machine lacks what it needs."
        }
        ExitClass::Refused => "It was refused before anything was made.",
        ExitClass::Signal(_) => "It was interrupted and torn down: nobody can tell.",
        ExitClass::Uncleaned => "Something could not be cleaned up on this machine.",
        ExitClass::HarnessFailed => {
            "The harness itself failed: nothing is known about the cluster."
        }
        ExitClass::Nothing => "Nothing ran.",
    }
}

fn verdict_word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Undecided => "undecided",
        Verdict::Fail => "fail",
    }
}

fn promise(invariant: &str) -> &'static str {
    check::invariant(invariant).map_or("", |invariant| invariant.promise)
}

/// The findings, broken promises first, and how many there are beyond those shown.
fn findings<'a>(
    report: &'a CaseReport,
    history: Option<&History>,
) -> (Vec<FindingCard<'a>>, usize) {
    let mut cards = Vec::new();
    for judged in &report.judgements {
        for finding in &judged.findings {
            let found = |op: &u64| history.and_then(|history| history.op(*op));
            let operations = finding.operations.iter().filter_map(found).map(OpRow::of).collect();
            let unknown =
                finding.operations.iter().copied().filter(|op| found(op).is_none()).collect();
            cards.push(FindingCard {
                invariant: &judged.invariant,
                promise: promise(&judged.invariant),
                finding,
                word: verdict_word(finding.verdict),
                operations,
                unknown,
            });
        }
    }
    cards.sort_by_key(|card| std::cmp::Reverse(card.finding.verdict));
    let more = cards.len().saturating_sub(FINDINGS_MAX);
    cards.truncate(FINDINGS_MAX);
    (cards, more)
}

fn invariants(report: &CaseReport) -> Vec<InvariantRow<'_>> {
    report.judgements.iter().map(invariant).collect()
}

fn invariant(judged: &Judgement) -> InvariantRow<'_> {
    let word = verdict_word(judged.verdict);
    InvariantRow { judged, promise: promise(&judged.invariant), word }
}

/// What is wrong on which drive, and how much more there is.
fn problems(census: Option<&Census>) -> (Vec<ProblemRow<'_>>, usize) {
    let mut rows = Vec::new();
    for key in census.iter().flat_map(|census| &census.keys) {
        let of_key = key.problems.iter().map(|problem| (String::new(), problem));
        let of_versions = key.versions.iter().flat_map(|version| {
            version.problems.iter().map(|problem| (version.version.to_string(), problem))
        });
        for (version, problem) in of_key.chain(of_versions) {
            rows.push(ProblemRow {
                drive: &problem.drive,
                target: key.target.to_string(),
                version,
                kind: word_of(&problem.kind),
                path: &problem.path,
                detail: &problem.detail,
            });
        }
    }
    let more = rows.len().saturating_sub(PROBLEMS_MAX);
    rows.truncate(PROBLEMS_MAX);
    (rows, more)
}

/// The name of a plain variant, as JSON has it, in words.
fn word_of<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word.replace('_', " "),
        _ => String::new(),
    }
}

/// The nodes with their drives, with what was done to them and what is wrong with them.
fn cluster(report: &CaseReport, census: Option<&Census>) -> Vec<NodeCell> {
    let mut problems: BTreeMap<&str, u64> = BTreeMap::new();
    for key in census.iter().flat_map(|census| &census.keys) {
        let of_versions = key.versions.iter().flat_map(|version| &version.problems);
        for problem in key.problems.iter().chain(of_versions) {
            *problems.entry(&problem.drive).or_default() += 1;
        }
    }
    let names = |is_about: &dyn Fn(&FaultReport) -> bool| -> BTreeSet<String> {
        let struck = report.faults.iter().filter(|fault| fault.injected.is_some());
        struck.filter(|fault| is_about(fault)).map(|fault| fault.name.clone()).collect()
    };
    let drive = |node: usize, slot: usize| {
        let name = format!("{node}/{slot}");
        let faults = names(&|fault| fault.drives.contains(&name));
        let problems = problems.get(name.as_str()).copied().unwrap_or(0);
        DriveCell { name, faults, problems }
    };
    let node = |node: usize| NodeCell {
        faults: names(&|fault| fault.drives.is_empty() && fault.nodes.contains(&node)),
        drives: (0..report.about.drives_per_node).map(|slot| drive(node, slot)).collect(),
    };
    (0..report.about.nodes).map(node).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_between_backticks_is_code_and_nothing_is_a_tag() {
        let html = |text: &str| marked(text).to_string();
        assert_eq!(html("`a<b` is \"c\""), "<code>a&lt;b</code> is &quot;c&quot;");
        assert_eq!(html("one ` alone <i>"), "one ` alone &lt;i&gt;");
        assert_eq!(html("`a` and ` <b>"), "<code>a</code> and ` &lt;b&gt;");
    }
}
