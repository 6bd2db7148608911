//! From what was found to the verdict and the exit code: each reason alone, on a run that holds without it.

use firedrill::harness::audit::census::Census;
use firedrill::harness::check::Finding;
use firedrill::harness::check::Judgement;
use firedrill::harness::check::Verdict;
use firedrill::harness::report::CaseReport;
use firedrill::harness::report::ExitClass;
use firedrill::harness::report::Gathered;
use firedrill::harness::report::Stop;
use firedrill::harness::report::assemble;
use firedrill::harness::report::case::CANARY_FAMILY;
use firedrill::harness::scenario::counter::Counter;
use firedrill::harness::scenario::form::ExpectedFailure;
use firedrill::harness::scenario::plan::Plan;
use firedrill::harness::workload::history::ClientNote;
use firedrill::harness::workload::history::Entry;
use firedrill::harness::workload::history::Event;
use firedrill::harness::workload::history::FaultPhase;
use firedrill::harness::workload::history::Note;
use firedrill::harness::workload::history::OperatorNote;
use firedrill::harness::workload::history::SettleEvent;
use firedrill::harness::workload::history::WrittenFile;
use firedrill::harness::workload::record::History;
use firedrill::harness::workload::request::Compared;
use firedrill::value::Digest;

use super::story;

/// Everything that a report is assembled from.
struct Ground {
    plan: Plan,
    entries: Vec<Entry>,
    census: Option<Census>,
    judgements: Vec<Judgement>,
    stop: Stop,
}

impl Ground {
    /// Puts an event in after the first entry.
    fn note(&mut self, event: Event) {
        self.entries.insert(1, Entry { seq: 0, at_us: 0, event });
    }

    /// A finding of this kind in the first judgement.
    fn find(&mut self, kind: &str) {
        let judged = &mut self.judgements[0];
        judged.verdict = Verdict::Fail;
        judged.findings.push(Finding {
            kind: kind.to_owned(),
            verdict: Verdict::Fail,
            target: None,
            message: format!("found {kind}"),
            operations: Vec::new(),
            evidence: Vec::new(),
        });
    }

    fn expect(&mut self, finding: &str, until: Option<&str>) {
        self.plan.expect.fails = Some(ExpectedFailure {
            finding: finding.to_owned(),
            issue: None,
            until: until.map(str::to_owned),
        });
    }

    /// Changes how the settle went.
    fn settled(&mut self, within_ms: u64, repaired: bool, progressed: Option<bool>) {
        for entry in &mut self.entries {
            match &mut entry.event {
                Event::Settle(SettleEvent::Began { within_ms: within }) => *within = within_ms,
                Event::Settle(SettleEvent::Ended { repaired: end }) => *end = repaired,
                _ => {}
            }
        }
        let ended = self
            .entries
            .iter()
            .position(|entry| matches!(entry.event, Event::Settle(SettleEvent::Ended { .. })));
        if let (Some(progressed), Some(place)) = (progressed, ended) {
            let evidence = "3 versions are not whole".to_owned();
            let event = Event::Settle(SettleEvent::Looked { progressed, evidence });
            let at_us = self.entries[place].at_us;
            self.entries.insert(place, Entry { seq: 0, at_us, event });
        }
    }
}

/// The report of a run that holds, but for what `change` makes of it.
fn changed(change: impl FnOnce(&mut Ground)) -> CaseReport {
    let plan = story::planned(story::PASS, "power", "vm-restart-under-load");
    let text = story::passing_history(&plan.case, 1);
    let mut ground = Ground {
        entries: text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        census: Some(story::census(&plan, false)),
        judgements: vec![story::held("acknowledged_writes_survive", 100)],
        stop: Stop::Ended,
        plan,
    };
    change(&mut ground);
    for (seq, entry) in (0..).zip(&mut ground.entries) {
        entry.seq = seq;
    }
    let history = History::of(ground.entries).unwrap();
    assemble(Gathered {
        plan: &ground.plan,
        history: Some(&history),
        census: ground.census.as_ref(),
        judgements: ground.judgements,
        stop: ground.stop,
        began_at: None,
        took_ms: None,
        today: "2026-09-30".to_owned(),
    })
}

/// Class, verdict, and the first reason of a changed run.
fn concluded(change: impl FnOnce(&mut Ground)) -> (ExitClass, Verdict, String) {
    let report = changed(change);
    let first = report.reasons.first().cloned().unwrap_or_default();
    (report.class, report.verdict, first)
}

#[test]
fn a_run_without_any_reason_holds() {
    assert_eq!(concluded(|_| {}), (ExitClass::Held, Verdict::Pass, String::new()));
}

#[test]
fn what_nobody_can_tell_is_undecided_and_says_why() {
    let undecided = |words: &str, change: &dyn Fn(&mut Ground)| {
        let (class, verdict, reason) = concluded(change);
        assert_eq!((class, verdict), (ExitClass::Undecided, Verdict::Undecided), "{words}");
        assert!(reason.contains(words), "{words} is not in {reason}");
    };
    undecided("no invariant", &|ground| ground.judgements.clear());
    undecided("examined nothing", &|ground| ground.judgements[0].examined = 0);
    undecided("is undecided", &|ground| ground.judgements[0].verdict = Verdict::Undecided);
    undecided("excused 6 of 100", &|ground| ground.judgements[0].excused = 6);
    undecided("no census", &|ground| ground.census = None);
    undecided("provoked ambiguous_writes", &|ground| {
        ground.plan.expect.provokes.insert(Counter::AmbiguousWrites, 99);
    });
    undecided("`partition` (step 3) never struck", &|ground| {
        ground.entries.retain(|entry| match &entry.event {
            Event::Fault(fault) => fault.name != "partition",
            _ => true,
        });
    });
    undecided("`partition` did not strike", &|ground| {
        for entry in &mut ground.entries {
            if let Event::Fault(fault) = &mut entry.event
                && fault.name == "partition"
            {
                fault.phase = FaultPhase::NotReached;
            }
        }
    });
    undecided("nobody looked", &|ground| ground.settled(30_000, false, None));
}

#[test]
fn what_may_be_excused_may_be_excused() {
    assert_eq!(concluded(|ground| ground.judgements[0].excused = 5).0, ExitClass::Held);
}

#[test]
fn a_missed_time_is_late_and_neither_a_pass_nor_a_broken_promise() {
    let late = concluded(|ground| ground.settled(800, true, None));
    assert_eq!((late.0, late.1), (ExitClass::Late, Verdict::Pass));
    let late = concluded(|ground| ground.settled(800, false, Some(true)));
    assert_eq!((late.0, late.1), (ExitClass::Late, Verdict::Pass));
    let stuck = concluded(|ground| ground.settled(30_000, false, Some(false)));
    assert_eq!((stuck.0, stuck.1), (ExitClass::Broken, Verdict::Fail));
    assert!(stuck.2.contains("3 versions are not whole"), "{}", stuck.2);
    let shared = changed(|ground| {
        ground.settled(800, true, None);
        ground.note(Event::Noted(Note::Shared { jobs: 2 }));
    });
    assert_eq!(shared.class, ExitClass::Held, "with several cases at once times are not judged");
    assert!(!shared.objective.as_ref().unwrap().is_met());
    assert!(shared.not_tested.iter().any(|limit| limit.contains("2 cases shared the machine")));
}

/// Goal: a real client that did not get through is a broken promise; one that was cut short, or is not there, proves
/// nothing.
#[test]
fn a_real_client_counts_by_how_it_got_through() {
    let noted = |passed: Option<bool>| {
        let (client, part) = ("pyiceberg".to_owned(), "before".to_owned());
        let note = ClientNote { client, part, passed, words: "as it said".to_owned() };
        concluded(|ground| ground.note(Event::Noted(Note::Client(note.clone()))))
    };
    assert_eq!(noted(Some(true)).0, ExitClass::Held);
    let (class, _, reason) = noted(Some(false));
    assert_eq!(class, ExitClass::Broken);
    assert!(reason.contains("as it said"), "{reason}");
    assert_eq!(noted(None).0, ExitClass::Undecided);
}

/// Goal: a tool that was refused by another rule than it had to be, that was not refused at all, or that was refused
/// and wrote nevertheless is a broken promise; one that found nothing to be used on proves nothing.
#[test]
fn a_tool_counts_by_what_it_was_refused_with_and_by_what_it_left() {
    let noted = |refused: Option<&str>, expected: Option<&str>, files: usize| {
        let file = WrittenFile {
            place: "0/1".to_owned(),
            path: "record".to_owned(),
            bytes: 6,
            sha256: Digest::of(b"record"),
        };
        let note = OperatorNote {
            command: "prepare-migration".to_owned(),
            refused: refused.map(str::to_owned),
            expected: expected.map(str::to_owned),
            files: vec![file; files],
            ..OperatorNote::default()
        };
        concluded(|ground| ground.note(Event::Noted(Note::Operator(note.clone())))).0
    };
    assert_eq!(noted(None, None, 1), ExitClass::Held);
    assert_eq!(noted(Some("P13"), Some("P13"), 0), ExitClass::Held);
    assert_eq!(noted(Some("P13"), Some("P13"), 1), ExitClass::Broken);
    assert_eq!(noted(Some("P12"), Some("P13"), 0), ExitClass::Broken);
    assert_eq!(noted(Some("P12"), None, 0), ExitClass::Broken);
    assert_eq!(noted(None, Some("P13"), 1), ExitClass::Broken);
    let missing = OperatorNote { missing: Some("no record".to_owned()), ..Default::default() };
    let note = Event::Noted(Note::Operator(missing));
    assert_eq!(concluded(|ground| ground.note(note.clone())).0, ExitClass::Undecided);
}

#[test]
fn a_refusal_counts_by_what_became_of_the_records() {
    let noted = |records: u64, changed: &[&str]| {
        let changed = changed.iter().map(|it| (*it).to_owned()).collect();
        let note = Note::Refused { node: 0, words: "A7".to_owned(), records, changed };
        concluded(|ground| ground.note(Event::Noted(note.clone()))).0
    };
    assert_eq!(noted(6, &[]), ExitClass::Held);
    assert_eq!(noted(6, &["0/0: the intent"]), ExitClass::Broken);
    assert_eq!(noted(0, &[]), ExitClass::Undecided, "nothing was there to be left alone");
}

#[test]
fn a_request_that_was_refused_and_changed_something_is_a_broken_promise() {
    let noted = |changed: Vec<String>| {
        let compared = Compared { ask: 7, objects: 12, changed };
        concluded(|ground| ground.note(Event::Noted(Note::Compared(compared.clone()))))
    };
    assert_eq!(noted(Vec::new()).0, ExitClass::Held);
    let changed = noted(vec!["lake/data is gone".to_owned()]);
    assert_eq!(changed.0, ExitClass::Broken);
    assert!(changed.2.contains("request 7") && changed.2.contains("is gone"), "{}", changed.2);
}

#[test]
fn a_record_that_was_written_on_beside_a_changed_one_is_a_broken_promise() {
    let noted = |changed: Vec<String>| {
        let (drive, path) = ("0/0".to_owned(), "record".to_owned());
        let note = Note::Tampered { drive, path, changed };
        concluded(|ground| ground.note(Event::Noted(note.clone())))
    };
    assert_eq!(noted(Vec::new()).0, ExitClass::Held);
    let written = noted(vec!["drive 0/0: record: 1 became 2".to_owned()]);
    assert_eq!(written.0, ExitClass::Broken);
    assert!(written.2.contains("1 became 2"), "{}", written.2);
}

#[test]
fn the_end_of_a_run_counts_by_who_is_to_blame() {
    let noted = |note: Note| concluded(|ground| ground.note(Event::Noted(note))).0;
    let stuck = |is_promise| Note::Stuck { waiting_for: "node 1".to_owned(), is_promise };
    let ended = |signal| Note::Interrupted { reason: "it".to_owned(), signal };
    assert_eq!(noted(stuck(true)), ExitClass::Broken);
    assert_eq!(noted(stuck(false)), ExitClass::HarnessFailed);
    assert_eq!(noted(ended(Some(15))), ExitClass::Signal(15));
    assert_eq!(noted(ended(None)), ExitClass::HarnessFailed);
    let stopped = |stop: Stop| {
        let report = changed(|ground| {
            ground.find("lost_write");
            ground.stop = stop;
        });
        (report.class, report.verdict)
    };
    let what = || "something".to_owned();
    let broken = Verdict::Fail;
    assert_eq!(stopped(Stop::Ended), (ExitClass::Broken, broken));
    let failed = Stop::Failed { error: what() };
    assert_eq!(stopped(failed), (ExitClass::HarnessFailed, broken));
    assert_eq!(stopped(Stop::Uncleaned { what: what() }), (ExitClass::Uncleaned, broken));
    assert_eq!(stopped(Stop::Signal { number: 2 }), (ExitClass::Signal(2), broken));
    let lacking = |allowed| stopped(Stop::Lacking { what: what(), allowed }).0;
    assert_eq!((lacking(false), lacking(true)), (ExitClass::Skipped, ExitClass::SkippedAllowed));
    assert_eq!(stopped(Stop::Refused { why: what() }).0, ExitClass::Refused);
}

#[test]
fn a_known_failure_is_excused_only_while_it_is_just_that() {
    let known = |found: &[&str], until: Option<&str>| {
        concluded(|ground| {
            ground.expect("lost_write", until);
            found.iter().for_each(|kind| ground.find(kind));
        })
    };
    assert_eq!(known(&["lost_write"], Some("2026-09-30")).0, ExitClass::Held);
    assert_eq!(known(&["lost_write"], Some("2026-09-29")).0, ExitClass::Broken);
    assert_eq!(known(&["lost_write", "wrong_bytes"], None).0, ExitClass::Broken);
    assert_eq!(known(&["wrong_bytes"], None).0, ExitClass::Broken);
    let fixed = known(&[], None);
    assert_eq!(fixed.0, ExitClass::Broken, "a known failure that is fixed has to be said so");
    assert!(fixed.2.contains("did not come"), "{}", fixed.2);
    let untold = concluded(|ground| {
        ground.expect("lost_write", None);
        ground.census = None;
    });
    assert_eq!(untold.0, ExitClass::Undecided);
}

#[test]
fn a_canary_is_caught_although_its_defect_breaks_more_than_one_promise() {
    let report = changed(|ground| {
        ground.plan.family = CANARY_FAMILY.to_owned();
        ground.expect("lost_write", None);
        ground.find("lost_write");
        ground.find("wrong_bytes");
        ground.note(Event::Noted(Note::Shared { jobs: 1 }));
    });
    assert_eq!((report.class, report.verdict), (ExitClass::Held, Verdict::Fail));
    let escaped = concluded(|ground| {
        ground.plan.family = CANARY_FAMILY.to_owned();
        ground.expect("lost_write", None);
    });
    assert_eq!(escaped.0, ExitClass::Broken);
}
