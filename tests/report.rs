//! Reports, from the files of finished runs to what a person and a browser see.
//!
//! `FIREDRILL_REGENERATE=1 cargo test --test report` writes `fixtures/runs/` anew.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its ground has failed")]

#[path = "report/conclusions.rs"]
mod conclusions;
#[path = "report/replacements.rs"]
mod replacements;
#[path = "report/story.rs"]
mod story;

use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use firedrill::harness::check::Verdict;
use firedrill::harness::report::CaseSummary;
use firedrill::harness::report::ExitClass;
use firedrill::harness::report::Partition;
use firedrill::harness::report::Redactor;
use firedrill::harness::report::ReportError;
use firedrill::harness::report::RunDirectory;
use firedrill::harness::report::SuiteDirectory;
use firedrill::harness::report::SuiteReport;
use firedrill::harness::report::compare;
use firedrill::harness::report::render_all;
use firedrill::harness::report::render_suite;
use firedrill::harness::report::terminal;
use firedrill::harness::report::terminal::Terminal;

use story::HOSTILE;
use story::SHOWN;

const PLAIN: Terminal = Terminal { colour: false, live: false };

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/runs")
}

/// A copy of a kept run that may be changed, with its pages.
fn copied(name: &str) -> (tempfile::TempDir, RunDirectory) {
    let folder = tempfile::tempdir().unwrap();
    copy(&fixtures().join(name), folder.path());
    let run = RunDirectory::open(folder.path()).unwrap();
    render_all(&run).unwrap();
    (folder, run)
}

/// The pages of a case: what is rendered, and not kept.
const PAGES: [&str; 3] = ["report.html", "report.md", "junit.xml"];

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

fn text(run: &RunDirectory, name: &str) -> String {
    std::fs::read_to_string(run.path(name)).unwrap()
}

fn suite(cases: Vec<CaseSummary>) -> SuiteReport {
    SuiteReport {
        format: 1,
        run: "20260930T020000Z".to_owned(),
        command: "firedrill run --suite quick --seed 20260930".to_owned(),
        seed: story::SEED,
        began_at: Some("2026-09-30T02:00:00Z".to_owned()),
        took_ms: cases.iter().map(|case| case.took_ms).sum(),
        partition: None,
        class: ExitClass::Held,
        reasons: Vec::new(),
        drawn: Vec::new(),
        cases,
        version: "0.1.0".to_owned(),
    }
}

fn summary_of(name: &str) -> CaseSummary {
    let run = RunDirectory::open(&fixtures().join(name)).unwrap();
    CaseSummary::of(&run.read_report().unwrap(), name)
}

/// Goal: the kept runs are what today's code writes, so that a change of format is noticed.
#[test]
fn the_kept_runs_are_what_is_written_today() {
    let made = tempfile::tempdir().unwrap();
    story::write_passing(&made.path().join("pass"), 1);
    story::write_canary(&made.path().join("canary"));
    if std::env::var_os("FIREDRILL_REGENERATE").is_some() {
        for name in ["pass", "canary"] {
            let kept = fixtures().join(name);
            if kept.exists() {
                std::fs::remove_dir_all(&kept).unwrap();
            }
            copy(&made.path().join(name), &kept);
            for page in PAGES {
                std::fs::remove_file(kept.join(page)).unwrap();
            }
        }
    }
    for name in ["pass", "canary"] {
        RunDirectory::open(&fixtures().join(name)).unwrap().read_plan().unwrap();
    }
    for name in ["pass/history.jsonl", "pass/verdict.json", "canary/verdict.json"] {
        let kept = std::fs::read_to_string(fixtures().join(name)).unwrap();
        let today = std::fs::read_to_string(made.path().join(name)).unwrap();
        assert!(kept == today, "{name} changed: set FIREDRILL_REGENERATE=1 and review the diff");
    }
}

#[test]
fn a_run_that_kept_every_promise_passes_and_says_what_it_cannot_show() {
    let (_folder, run) = copied("pass");
    let report = run.read_report().unwrap();
    assert_eq!((report.class, report.verdict), (ExitClass::Held, Verdict::Pass));
    assert_eq!(report.reasons, Vec::<String>::new());
    assert_eq!(report.recovery.acknowledged_writes_lost, Some(0));
    let took = |name: &str| {
        let phase = report.recovery.phases.iter().find(|phase| phase.name == name).unwrap();
        phase.took_us
    };
    assert_eq!(took("detect"), Some(2_000), "the process was seen dead 2 ms after the fault");
    assert_eq!(took("restart"), Some(349_000));
    assert_eq!(took("hand off"), None, "nothing was handed over, and nothing is invented");
    assert_eq!(took("rebuild"), Some(812_000));
    assert_eq!(took("verify"), Some(467_000));
    assert_eq!(report.recovery.time_us(), Some(2_000 + 349_000 + 812_000 + 467_000));
    assert!(report.not_tested.iter().any(|limit| limit.contains("without a flush")));
    assert!(report.provokes.iter().all(|provoked| provoked.is_enough()));
    assert!(report.operations.all().ambiguous > 0 && report.operations.all().refused > 0);
}

#[test]
fn a_canary_that_is_caught_names_the_broken_promise_and_the_operation() {
    let (_folder, run) = copied("canary");
    let report = run.read_report().unwrap();
    assert_eq!((report.class, report.verdict), (ExitClass::Held, Verdict::Fail));
    assert!(report.expected.as_ref().unwrap().met);
    assert_eq!(report.recovery.acknowledged_writes_lost, Some(1));
    let line = terminal::case_line(PLAIN, &report);
    assert!(line.contains("CAUGHT") && line.contains("canary"), "{line}");
    let page = text(&run, "report.md");
    for words in ["acknowledged\\_writes\\_survive", "operation 17: client 0", "Planted on purpose"]
    {
        assert!(page.contains(words) || page.contains(&words.replace("\\_", "&#95;")), "{words}");
    }
}

/// Goal: rendering needs nothing but the files, and gives the same pages again.
#[test]
fn pages_are_rendered_from_the_files_alone() {
    for name in ["pass", "canary"] {
        let (_folder, run) = copied(name);
        let first = PAGES.map(|page| text(&run, page));
        for page in PAGES {
            std::fs::remove_file(run.path(page)).unwrap();
        }
        render_all(&run).unwrap();
        assert!(PAGES.map(|page| text(&run, page)) == first, "{name} is rendered otherwise");
    }
}

#[test]
fn a_torn_history_is_rendered_and_a_newer_file_is_refused() {
    let (_folder, run) = copied("pass");
    let mut history = std::fs::read(run.path("history.jsonl")).unwrap();
    history.truncate(history.len() - 10);
    std::fs::write(run.path("history.jsonl"), history).unwrap();
    render_all(&run).unwrap();
    let census = text(&run, "census.json").replacen("\"format\": 1", "\"format\": 2", 1);
    std::fs::write(run.path("census.json"), census).unwrap();
    let error = render_all(&run).unwrap_err();
    assert!(matches!(error, ReportError::Newer { found: 2, .. }), "{error}");
}

#[test]
fn hostile_keys_are_text_in_markdown_junit_and_on_a_terminal() {
    let (_folder, run) = copied("canary");
    let page = text(&run, "report.md");
    assert!(!page.contains("<script") && !page.contains('\u{1b}') && !page.contains('\u{202e}'));
    for row in page.lines().filter(|line| line.starts_with('|')) {
        let bars = row.replace("\\|", "").matches('|').count();
        assert!([4, 6, 8].contains(&bars), "a key ended a cell: {row}");
    }
    let junit = text(&run, "junit.xml");
    assert!(!junit.contains("<script") && !junit.contains('\u{1b}'));
    let mut case = summary_of("canary");
    case.case = HOSTILE.to_owned();
    case.class = ExitClass::Broken;
    case.reasons = vec![HOSTILE.to_owned()];
    let shown = terminal::summary(PLAIN, &suite(vec![case]), None);
    assert!(shown.contains(SHOWN) && !shown.contains('\u{1b}') && !shown.contains('\u{202e}'));
}

#[test]
fn the_summary_lists_the_worst_first_with_the_command_that_repeats_it() {
    let mut late = summary_of("pass");
    late.class = ExitClass::Late;
    late.rerun = "firedrill run late --seed 1".to_owned();
    let mut broken = summary_of("pass");
    broken.class = ExitClass::Broken;
    broken.rerun = "firedrill run broken --seed 1".to_owned();
    let run = suite(vec![summary_of("pass"), late, broken]);
    assert_eq!(run.overall(), ExitClass::Broken);
    let shown = terminal::summary(PLAIN, &run, Some("reports/x/report.html"));
    let place = |words: &str| shown.find(words).unwrap_or_else(|| panic!("{words} in {shown}"));
    assert!(place("3 cases: 1 fail, 1 late, 1 pass") < place("firedrill run broken"));
    assert!(place("firedrill run broken") < place("firedrill run late"));
    assert!(place("firedrill run late") < place("reports/x/report.html"));
}

#[test]
fn junit_tells_failures_errors_and_skipped_cases_apart() {
    let with = |class: ExitClass, name: &str| {
        let mut case = summary_of("pass");
        (case.class, case.case) = (class, name.to_owned());
        case.reasons = vec![format!("because of {name}")];
        case
    };
    let folder = tempfile::tempdir().unwrap();
    let directory = SuiteDirectory::create(folder.path()).unwrap();
    let run = suite(vec![
        with(ExitClass::Held, "held"),
        with(ExitClass::Broken, "broken"),
        with(ExitClass::Late, "late"),
        with(ExitClass::Undecided, "undecided"),
        with(ExitClass::Skipped, "lacking"),
    ]);
    directory.write_report(&run).unwrap();
    render_suite(&directory).unwrap();
    let junit = std::fs::read_to_string(directory.path("junit.xml")).unwrap();
    assert!(junit.contains("tests=\"5\" skipped=\"1\" failures=\"2\" errors=\"1\""), "{junit}");
    assert_eq!(junit.matches("<failure message=\"because of").count(), 2);
    assert_eq!(junit.matches("<error message=\"because of undecided").count(), 1);
    assert_eq!(junit.matches("<skipped message=\"because of lacking").count(), 1);
}

#[test]
fn shards_are_put_together_and_a_missing_or_double_one_is_undecided() {
    let shard = |shard: u64| {
        let mut run = suite(vec![summary_of("pass")]);
        run.partition = Some(Partition { shard, of: 3 });
        run
    };
    let whole = compare::merge(&[shard(1), shard(2), shard(3)]).unwrap();
    assert_eq!((whole.overall(), whole.cases.len()), (ExitClass::Held, 3));
    let missing = compare::merge(&[shard(1), shard(3)]).unwrap();
    assert_eq!(missing.overall().code(), 2);
    assert!(missing.reasons[0].contains("shard 2 of 3"), "{:?}", missing.reasons);
    let double = compare::merge(&[shard(1), shard(2), shard(2), shard(3)]).unwrap();
    assert_eq!(double.overall().code(), 2);
    assert!(double.reasons[0].contains("2 times"), "{:?}", double.reasons);
    assert_eq!(compare::merge(&[shard(1)]).unwrap().overall().code(), 2);
    assert!(compare::merge(&[]).is_none());
}

#[test]
fn a_comparison_names_what_changed_and_nothing_else() {
    let before = suite(vec![summary_of("pass"), summary_of("canary")]);
    assert!(compare::compare(&before, &before).is_empty());
    let mut now = before.clone();
    now.cases[0].class = ExitClass::Broken;
    now.cases[0].took_ms += 20_000;
    now.cases[0].crash_points.clear();
    now.cases.remove(1);
    let changed = compare::compare(&now, &before);
    assert_eq!(changed.newly_failing.len(), 1);
    assert_eq!(changed.newly_failing[0].2, "fail");
    assert_eq!(changed.slower.len(), 1);
    assert_eq!(changed.removed, ["acknowledges-before-quorum"]);
    assert_eq!(changed.points_lost, ["put.data_renamed", "put.meta_renamed"]);
    let healed = compare::compare(&before, &now);
    assert_eq!(healed.newly_passing.len(), 1);
    assert_eq!(healed.added, ["acknowledges-before-quorum"]);
}

/// Goal: search a run's folder for everything that must not be read in it.
#[test]
fn nothing_of_this_machine_is_left_in_a_run_directory() {
    let secrets = ["c1u5ter/s3cret+of-the-test", "drill-host-42", "/home/somebody"];
    let (_folder, run) = copied("canary");
    let log = format!(
        "host={1} secret={0} config={2}/node.yaml image={2}/run/0.img other=/var/lib/x/y\n",
        secrets[0], secrets[1], secrets[2]
    );
    let ledger = format!("{{\"folder\":{{\"path\":\"{}/run\"}}}}\n\"torn_down\"\n", secrets[2]);
    std::fs::write(run.path("ledger.jsonl"), ledger).unwrap();
    for name in ["nodes/0.log", "nodes/1.log", "evidence/mounts.txt"] {
        std::fs::create_dir_all(run.path(name).parent().unwrap()).unwrap();
        std::fs::write(run.path(name), &log).unwrap();
    }
    let history = text(&run, "history.jsonl").replacen(
        "\"evidence\":\"",
        &format!("\"evidence\":\"{} {} ", secrets[1], secrets[2]),
        1,
    );
    std::fs::write(run.path("history.jsonl"), history).unwrap();
    let before = run.read_history().unwrap().entries;
    let redactor = Redactor::new()
        .secret(secrets[0])
        .host(secrets[1])
        .path(Path::new(secrets[2]), "<home>")
        .root("var");
    run.redact(&redactor).unwrap();
    assert_eq!(run.read_history().unwrap().entries, before, "the history is still a history");
    assert_eq!(
        text(&run, "nodes/0.log"),
        "host=<host> secret=<secret> config=<home>/node.yaml image=<home>/run/0.img other=<path>/y\n"
    );
    let mut files = 0;
    for path in every_file(run.root()) {
        let bytes = std::fs::read(&path).unwrap();
        for secret in secrets {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{secret} is in {}", path.display());
        }
        files += 1;
    }
    assert!(files >= 9, "only {files} files were searched");
}

fn every_file(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { every_file(&path) } else { vec![path] }).collect()
}

/// Goal: 20,000 operations make a page that a phone opens, with every kind of outcome still in it.
#[test]
fn a_page_stays_small_however_many_operations_there_were() {
    let folder = tempfile::tempdir().unwrap();
    let (run, report) = story::write_passing(folder.path(), 190);
    assert!(report.operations.all().total() > 15_000, "{:?}", report.operations.all());
    let page = text(&run, "report.html");
    assert!(page.len() < 400_000, "{} bytes", page.len());
    for mark in ["acknowledged-mark", "refused-mark", "ambiguous-mark"] {
        assert!(page.contains(&format!("<path class=\"{mark}\"")), "{mark}");
    }
}

#[test]
fn a_page_fetches_nothing_and_carries_no_script() {
    for name in ["pass", "canary"] {
        let (_folder, run) = copied(name);
        let page = text(&run, "report.html");
        for word in ["<script", "src=", "http:", "https:", "url(//", "@import", "<link", "onload="]
        {
            assert!(!page.contains(word), "{name}: {word}");
        }
        assert!(page.contains("default-src 'none'"));
    }
}

/// The browser of this machine, if it has one.
fn browser() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names.into_iter().find(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|asked| asked.status.success())
    })
}

/// What a real browser makes of a page, after every script that it would run.
fn dumped(browser: &str, page: &Path) -> String {
    let profile = tempfile::tempdir().unwrap();
    let answer = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(["--virtual-time-budget=2000", "--dump-dom"])
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    String::from_utf8(answer.stdout).unwrap()
}

/// Goal: in a real browser the hostile key is text, and no script ran: one would have changed the title.
#[test]
fn a_browser_shows_hostile_keys_as_text_and_runs_nothing() {
    let Some(browser) = browser() else {
        println!("SKIPPED: no chromium on this machine");
        return;
    };
    let (_folder, run) = copied("canary");
    let shown = dumped(browser, &run.path("report.html"));
    assert!(shown.contains("<title>caught: acknowledges-before-quorum · firedrill</title>"));
    assert!(!shown.contains("<script"), "a script element stands in the page");
    let escaped = SHOWN.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    assert!(shown.contains(&escaped), "the key is not shown as text");

    // The same page with a script that nothing escaped: the browser would have run it, were it not
    // forbidden. Without the policy it does, so that this test can see a script that runs.
    let script = "<script>document.title='owned'</script></head>";
    let with = text(&run, "report.html").replacen("</head>", script, 1);
    std::fs::write(run.path("with.html"), &with).unwrap();
    assert!(!dumped(browser, &run.path("with.html")).contains("<title>owned</title>"));
    let without = with.replacen("Content-Security-Policy", "X-None", 1);
    std::fs::write(run.path("without.html"), without).unwrap();
    assert!(dumped(browser, &run.path("without.html")).contains("<title>owned</title>"));
}
