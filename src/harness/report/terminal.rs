//! What a run prints while it works and at its end: a line a case, live progress, the summary.
//!
//! Results go to standard output, progress to standard error. `NO_COLOR`, `CI`, a dumb terminal and a
//! pipe are honoured. Everything that others wrote is made visible before it is printed.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::sync::Mutex;
use std::time::Duration;

use indicatif::MultiProgress;
use indicatif::ProgressBar;
use indicatif::ProgressStyle;

use super::assemble::quoted;
use super::case::CaseReport;
use super::class::ExitClass;
use super::compare::Comparison;
use super::escape::visible;
use super::suite;
use super::suite::CaseSummary;
use super::suite::SuiteReport;
use crate::out::sayln;

/// Width of the column of verdicts.
const WORD_WIDTH: usize = 14;

/// Reasons of one case that the summary prints.
const REASONS_MAX: usize = 4;

/// What the terminal can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terminal {
    /// Whether results may carry colour.
    pub colour: bool,
    /// Whether progress may move.
    pub live: bool,
}

impl Terminal {
    /// What the environment and the standard streams allow.
    pub fn detect() -> Self {
        let stdout = std::io::stdout().is_terminal();
        let stderr = std::io::stderr().is_terminal();
        Self::decide(|name| std::env::var(name).ok(), stdout, stderr)
    }

    fn decide(variable: impl Fn(&str) -> Option<String>, stdout: bool, stderr: bool) -> Self {
        let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
        let is_dumb = variable("TERM").is_none_or(|term| term == "dumb");
        Self {
            colour: stdout && !is_dumb && !is_set("NO_COLOR"),
            live: stderr && !is_dumb && !is_set("CI"),
        }
    }

    fn paint(self, style: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{style}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn word(self, class: ExitClass, word: &str) -> String {
        let style = match class {
            ExitClass::Held => "32;1",
            ExitClass::SkippedAllowed | ExitClass::Skipped | ExitClass::Nothing => "36",
            ExitClass::Undecided | ExitClass::Late | ExitClass::Refused => "33;1",
            _ => "31;1",
        };
        self.paint(style, &format!("{:>WORD_WIDTH$}", word.to_uppercase()))
    }
}

/// The line of one case, without its line end.
pub fn case_line(terminal: Terminal, case: &CaseReport) -> String {
    let met = case.expected.as_ref().is_some_and(|expected| expected.met);
    let word = suite::word(case.class, met, &case.about.family);
    let (family, name) = (visible(&case.about.family), visible(&case.about.case));
    line(terminal, case.class, word, case.took_ms, &family, &name)
}

fn line(
    terminal: Terminal,
    class: ExitClass,
    word: &str,
    took_ms: u64,
    family: &str,
    name: &str,
) -> String {
    format!(
        "{} [{:>8.3}s] {} {}",
        terminal.word(class, word),
        took_ms as f64 / 1e3,
        terminal.paint("35", &format!("{family:<11}")),
        terminal.paint("1", name)
    )
}

/// The end of a run: the verdict, how many of each, what needs attention (worst first) with the command
/// that runs it again, how much was covered, and where the page is.
pub fn summary(terminal: Terminal, run: &SuiteReport, page: Option<&str>) -> String {
    let overall = run.overall();
    let mut text = format!("{}\n", "─".repeat(WORD_WIDTH + 12));
    let counts: Vec<_> =
        run.counts().iter().map(|(word, count)| format!("{count} {word}")).collect();
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        text,
        "{} [{:>8.3}s] {} case{}: {}; seed {}",
        terminal.word(overall, overall.word()),
        run.took_ms as f64 / 1e3,
        run.cases.len(),
        if run.cases.len() == 1 { "" } else { "s" },
        if counts.is_empty() { "none".to_owned() } else { counts.join(", ") },
        run.seed
    );
    for reason in &run.reasons {
        let _ = writeln!(text, "{:WORD_WIDTH$}   {}", "", visible(reason));
    }
    for case in run.worst_first() {
        if !case.class.needs_attention() {
            continue;
        }
        let _ = writeln!(text, "\n{}", summary_line(terminal, case));
        for reason in case.reasons.iter().take(REASONS_MAX) {
            let _ = writeln!(text, "{:WORD_WIDTH$}   {}", "", visible(reason));
        }
        if case.reasons.len() > REASONS_MAX {
            let more = case.reasons.len() - REASONS_MAX;
            let _ = writeln!(text, "{:WORD_WIDTH$}   and {more} more", "");
        }
        let rerun = visible(&case.rerun);
        let _ = writeln!(text, "{:WORD_WIDTH$}   again: {}", "", terminal.paint("1", &rerun));
    }
    let covered = run.crash_points();
    let struck = covered.iter().filter(|(_, struck)| *struck).count();
    let _ = write!(text, "\n{:>WORD_WIDTH$} {struck} of {}", "crash points", covered.len());
    for drawn in &run.drawn {
        let _ =
            write!(text, ", {} {} of {} cases", visible(&drawn.scenario), drawn.covered, drawn.all);
    }
    let _ = writeln!(text, "\n{:>WORD_WIDTH$} {}", "again", visible(&run.command));
    if let Some(page) = page {
        let _ = writeln!(text, "{:>WORD_WIDTH$} {}", "report", visible(page));
    }
    text
}

/// What changed since an earlier run, a line each.
pub fn comparison(against: &Comparison) -> String {
    let mut text = format!("{:>WORD_WIDTH$} {}\n", "since", visible(&against.against));
    let mut row = |word: &str, name: &str, detail: &str| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{word:>WORD_WIDTH$} {}{detail}", visible(name));
    };
    if against.is_empty() {
        row("nothing", "changed", "");
    }
    for (case, before, now) in &against.newly_failing {
        row("newly failing", case, &format!(": {before}, now {now}"));
    }
    for (case, before, now) in &against.newly_passing {
        row("newly passing", case, &format!(": {before}, now {now}"));
    }
    for (case, what, before, now) in &against.slower {
        row("slower", case, &format!(" ({what}): {before} ms, now {now} ms"));
    }
    for (word, names) in [
        ("new", &against.added),
        ("gone", &against.removed),
        ("point gained", &against.points_gained),
        ("point lost", &against.points_lost),
    ] {
        names.iter().for_each(|name| row(word, name, ""));
    }
    text
}

fn summary_line(terminal: Terminal, case: &CaseSummary) -> String {
    let (family, name) = (visible(&case.family), visible(&case.case));
    line(terminal, case.class, case.word(), case.took_ms, &family, &name)
}

/// Progress of a run of `total` cases, shown from now on.
pub fn progress(terminal: Terminal, total: usize) -> Progress {
    let bars = terminal.live.then(|| {
        let bars = MultiProgress::new();
        let all = bars.add(ProgressBar::new(total as u64));
        all.set_style(style("{wide_bar:.green/dim} {pos}/{len} {elapsed} {msg}"));
        Bars { bars, all, running: Mutex::default() }
    });
    Progress { terminal, bars }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Live progress on a terminal; plain lines elsewhere. May be shared by cases that run side by side.
#[derive(Debug)]
pub struct Progress {
    terminal: Terminal,
    bars: Option<Bars>,
}

#[derive(Debug)]
struct Bars {
    bars: MultiProgress,
    all: ProgressBar,
    running: Mutex<Vec<(String, ProgressBar)>>,
}

impl Bars {
    fn running(&self) -> std::sync::MutexGuard<'_, Vec<(String, ProgressBar)>> {
        // A bar that was being changed when its thread died is still a bar.
        self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Progress {
    /// A case begins.
    pub fn case_began(&self, case: &str) {
        let Some(bars) = &self.bars else {
            return;
        };
        let bar = bars.bars.insert_before(&bars.all, ProgressBar::new_spinner());
        bar.set_style(style("{spinner:.cyan} {prefix:.bold} {msg:.dim} {elapsed}"));
        bar.set_prefix(visible(case).into_owned());
        bar.enable_steady_tick(Duration::from_millis(120));
        bars.running().push((case.to_owned(), bar));
    }

    /// A case enters a step or phase.
    pub fn phase(&self, case: &str, phase: &str) {
        if let Some(bars) = &self.bars
            && let Some((_, bar)) = bars.running().iter().find(|(name, _)| name == case)
        {
            bar.set_message(visible(phase).into_owned());
        }
    }

    /// A case ended: its line is printed.
    pub fn case_ended(&self, case: &CaseReport) {
        if let Some(bars) = &self.bars {
            let mut running = bars.running();
            if let Some(place) = running.iter().position(|(name, _)| *name == case.about.case) {
                let (_, bar) = running.remove(place);
                bar.finish_and_clear();
                bars.bars.remove(&bar);
            }
            bars.all.inc(1);
        }
        self.print(&case_line(self.terminal, case));
        for reason in case.reasons.iter().take(1).filter(|_| case.class.needs_attention()) {
            self.print(&format!("{:WORD_WIDTH$}   {}", "", visible(reason)));
        }
    }

    /// Prints a line between the moving ones.
    pub fn print(&self, line: &str) {
        match &self.bars {
            Some(bars) => bars.bars.suspend(|| sayln!("{line}")),
            None => sayln!("{line}"),
        }
    }

    /// Nothing moves any more.
    pub fn finish(&self) {
        if let Some(bars) = &self.bars {
            bars.running().drain(..).for_each(|(_, bar)| bar.finish_and_clear());
            bars.all.finish_and_clear();
        }
    }
}

/// A command for a person to copy, its words quoted where a shell needs it.
pub fn command<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(variables: &[(&str, &str)], stdout: bool, stderr: bool) -> (bool, bool) {
        let found = |name: &str| {
            let known = variables.iter().find(|(known, _)| *known == name);
            known.map(|(_, value)| (*value).to_owned())
        };
        let terminal = Terminal::decide(found, stdout, stderr);
        (terminal.colour, terminal.live)
    }

    #[test]
    fn colour_and_movement_need_a_terminal_that_wants_them() {
        assert_eq!(decide(&[("TERM", "xterm")], true, true), (true, true));
        assert_eq!(decide(&[("TERM", "xterm"), ("NO_COLOR", "1")], true, true), (false, true));
        assert_eq!(decide(&[("TERM", "xterm"), ("NO_COLOR", "")], true, true), (true, true));
        assert_eq!(decide(&[("TERM", "xterm"), ("CI", "true")], true, true), (true, false));
        assert_eq!(decide(&[("TERM", "xterm")], false, true), (false, true));
        assert_eq!(decide(&[("TERM", "dumb")], true, true), (false, false));
        assert_eq!(decide(&[], true, true), (false, false));
    }

    #[test]
    fn a_line_is_plain_without_colour() {
        let terminal = Terminal { colour: false, live: false };
        let line = line(terminal, ExitClass::Held, "pass", 4_213, "objects", "kill-during-puts");
        assert_eq!(line, "          PASS [   4.213s] objects     kill-during-puts");
    }
}
