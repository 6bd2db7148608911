//! `junit.xml`: a fail and a missed objective are a `failure`, what nobody can tell an `error`, a machine that
//! lacks something `skipped`.

use std::collections::BTreeMap;
use std::time::Duration;

use quick_junit::NonSuccessKind;
use quick_junit::Property;
use quick_junit::Report;
use quick_junit::TestCase;
use quick_junit::TestCaseStatus;
use quick_junit::TestSuite;

use super::class::ExitClass;
use super::error::ReportError;
use super::escape::visible;
use super::suite::CaseSummary;
use super::suite::SuiteReport;

/// The file of a whole run: one suite a family.
///
/// # Errors
/// [`ReportError::Page`]: a mistake of ours.
pub(super) fn suite(run: &SuiteReport) -> Result<String, ReportError> {
    let mut report = Report::new("firedrill");
    report.set_time(Duration::from_millis(run.took_ms));
    let mut families: BTreeMap<&str, TestSuite> = BTreeMap::new();
    for case in &run.cases {
        let family = families.entry(&case.family).or_insert_with(|| {
            let mut family = TestSuite::new(shown(&case.family));
            family.add_property(Property::new("seed", run.seed.to_string()));
            family
        });
        family.add_test_case(test_case(case));
    }
    report.add_test_suites(families.into_values());
    if !run.reasons.is_empty() || run.cases.is_empty() {
        let mut whole = TestSuite::new("run");
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message(shown(&run.reasons.join("; ")));
        status.set_type(run.overall().word());
        whole.add_test_case(TestCase::new("the run as such", status));
        report.add_test_suite(whole);
    }
    report
        .to_string()
        .map_err(|source| ReportError::Page { page: "junit.xml", source: Box::new(source) })
}

fn test_case(case: &CaseSummary) -> TestCase {
    let mut test = TestCase::new(shown(&case.case), status(case));
    test.set_classname(shown(&case.family));
    test.set_time(Duration::from_millis(case.took_ms));
    test.add_property(Property::new("claim", shown(&case.claim)));
    test.add_property(Property::new("rerun", shown(&case.rerun)));
    test.add_property(Property::new("verdict", case.word()));
    if let Some(recovery_ms) = case.recovery_ms {
        test.add_property(Property::new("recovery_ms", recovery_ms.to_string()));
    }
    if let Some(lost) = case.acknowledged_writes_lost {
        test.add_property(Property::new("acknowledged_writes_lost", lost.to_string()));
    }
    test
}

fn status(case: &CaseSummary) -> TestCaseStatus {
    let mut status = match case.class {
        ExitClass::Held => return TestCaseStatus::success(),
        ExitClass::Skipped | ExitClass::SkippedAllowed | ExitClass::Nothing => {
            TestCaseStatus::skipped()
        }
        ExitClass::Broken | ExitClass::Late => TestCaseStatus::non_success(NonSuccessKind::Failure),
        ExitClass::Undecided
        | ExitClass::Refused
        | ExitClass::Signal(_)
        | ExitClass::Uncleaned
        | ExitClass::HarnessFailed => TestCaseStatus::non_success(NonSuccessKind::Error),
    };
    status.set_message(shown(case.reasons.first().map_or(case.word(), String::as_str)));
    status.set_type(case.word());
    let lines = case.reasons.iter().skip(1).chain(&case.findings).map(|line| shown(line));
    let mut lines: Vec<_> = lines.collect();
    lines.push(format!("again: {}", shown(&case.rerun)));
    status.set_description(lines.join("\n"));
    status
}

/// Text that XML can hold: control characters are not even allowed as entities.
fn shown(text: &str) -> String {
    visible(text).into_owned()
}
