//! Every recorded history in `fixtures/histories` gets the verdicts that its header states, and every
//! invariant is shown there to pass, to fail and to be undecided.
//!
//! A fixture is `NAME.jsonl`: a header line (the story, the facts, the verdicts, and the operations
//! that findings must name), then a history as a run records it. `NAME.census.json` is what the drives
//! hold, where that matters.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use firedrill::harness::audit::census::Census;
use firedrill::harness::check;
use firedrill::harness::check::Facts;
use firedrill::harness::check::INVARIANTS;
use firedrill::harness::check::Judgement;
use firedrill::harness::check::Verdict;
use firedrill::harness::check::Witnesses;
use firedrill::harness::workload::record::History;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    story: String,
    facts: Facts,
    verdicts: BTreeMap<String, Verdict>,
    #[serde(default)]
    names: Vec<u64>,
}

struct Fixture {
    name: String,
    header: Header,
    /// The history without the header line.
    text: String,
    census: Option<Census>,
}

impl Fixture {
    fn read(path: &Path) -> Self {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(path).unwrap();
        let (header, text) = text.split_once('\n').unwrap();
        let header = serde_json::from_str(header).unwrap_or_else(|error| panic!("{name}: {error}"));
        let census = fs::read_to_string(path.with_extension("census.json")).ok();
        let census = census.map(|text| {
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
        });
        Self { name, header, text: text.to_owned(), census }
    }

    fn named(name: &str) -> Self {
        Self::read(&folder().join(format!("{name}.jsonl")))
    }

    fn judge(&self, names: &[String]) -> Vec<Judgement> {
        let history = History::read(self.text.as_bytes());
        let history = history.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        let facts = &self.header.facts;
        let witnesses = Witnesses { facts, history: &history, census: self.census.as_ref() };
        check::judge(&witnesses, names)
    }

    fn judge_one(&self, name: &str) -> Judgement {
        self.judge(&[name.to_owned()]).remove(0)
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/histories")
}

fn fixtures() -> Vec<Fixture> {
    let entries = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut paths = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .collect::<Vec<_>>();
    paths.sort();
    paths.iter().map(|path| Fixture::read(path)).collect()
}

/// Operations that failing findings name.
fn named(judgements: &[Judgement]) -> BTreeSet<u64> {
    let findings = judgements.iter().flat_map(|judgement| &judgement.findings);
    let failing = findings.filter(|finding| finding.verdict == Verdict::Fail);
    failing.flat_map(|finding| finding.operations.iter().copied()).collect()
}

#[test]
fn every_history_gets_its_verdicts() {
    let mut wrong = Vec::new();
    for fixture in fixtures() {
        assert!(fixture.header.story.len() > 20, "{} tells no story", fixture.name);
        let names = fixture.header.verdicts.keys().cloned().collect::<Vec<_>>();
        let judgements = fixture.judge(&names);
        for judgement in &judgements {
            let expected = fixture.header.verdicts[&judgement.invariant];
            if judgement.verdict != expected {
                wrong.push(format!("{}: expected {expected:?}, not {judgement:#?}", fixture.name));
            }
            for finding in &judgement.findings {
                assert!(!finding.message.is_empty(), "{}: {finding:?}", fixture.name);
                let shows = finding.verdict == Verdict::Undecided || !finding.evidence.is_empty();
                assert!(shows, "{}: no evidence for {finding:?}", fixture.name);
            }
        }
        let named = named(&judgements);
        if !fixture.header.names.iter().all(|op| named.contains(op)) {
            let names = &fixture.header.names;
            wrong.push(format!("{}: {names:?} are not all in {named:?}", fixture.name));
        }
    }
    assert!(wrong.is_empty(), "{} surprises:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_invariant_is_proved_to_pass_to_fail_and_to_be_undecided() {
    let mut seen = BTreeMap::<String, BTreeSet<Verdict>>::new();
    for fixture in fixtures() {
        for (invariant, verdict) in fixture.header.verdicts {
            assert!(check::invariant(&invariant).is_some(), "{}: {invariant}?", fixture.name);
            seen.entry(invariant).or_default().insert(verdict);
        }
    }
    for invariant in INVARIANTS {
        let verdicts = seen.get(invariant.name).map_or(0, BTreeSet::len);
        assert_eq!(verdicts, 3, "{} has not all three verdicts in fixtures", invariant.name);
        assert!(invariant.promise.ends_with('.'), "{}", invariant.name);
    }
}

/// Goal: what a good history passes does not hang on one witness being there: each invariant fails or
/// is undecided, but never passes, when everything it could look at is gone.
#[test]
fn nothing_passes_without_having_looked() {
    let mut fixture = Fixture::named("nothing-happened");
    fixture.census = None;
    for invariant in INVARIANTS {
        let judgement = fixture.judge_one(invariant.name);
        assert_eq!(judgement.verdict, Verdict::Undecided, "{}", invariant.name);
        assert_eq!(judgement.examined, 0, "{}", invariant.name);
        assert!(!judgement.findings.is_empty(), "{} does not say why", invariant.name);
    }
}

#[test]
fn a_torn_tail_changes_no_verdict_and_is_named() {
    for mut fixture in fixtures() {
        let names = fixture.header.verdicts.keys().cloned().collect::<Vec<_>>();
        let whole = fixture.judge(&names);
        fixture.text.truncate(fixture.text.len() - 10);
        let history = History::read(fixture.text.as_bytes()).unwrap();
        let torn = history.torn.expect("ten bytes are missing");
        assert!(torn.bytes > 0 && torn.to_string().starts_with("history.jsonl:"), "{torn}");
        assert_eq!(fixture.judge(&names), whole, "{}", fixture.name);
    }
}

#[test]
fn half_a_line_in_the_middle_is_refused() {
    let fixture = Fixture::named("a-stale-read");
    let broken = fixture.text.replacen("\"seq\":3", "\"seq\":4", 1);
    assert!(History::read(broken.as_bytes()).is_err());
    let broken = fixture.text.replacen("{\"seq\":3", "{\"se\":3", 1);
    assert!(History::read(broken.as_bytes()).is_err());
    let newer = fixture.text.replacen("\"format\":1", "\"format\":2", 1);
    assert!(History::read(newer.as_bytes()).is_err());
    assert!(History::read(b"").is_err());
}

/// Goal: the census is a witness of its own. A version that the wire still shows is missed when it is
/// taken out of the census, whichever version it is.
#[test]
fn a_version_taken_out_of_the_census_is_missed_and_its_operation_named() {
    let fixture = Fixture::named("a-quiet-day");
    let mut missed = 0;
    let census = fixture.census.clone().unwrap();
    for (position, key) in census.keys.iter().enumerate() {
        for (index, version) in key.versions.iter().enumerate() {
            let mut less = Fixture::named("a-quiet-day");
            let taken = less.census.as_mut().unwrap().keys[position].versions.remove(index);
            let invariant = match version.delete_marker {
                true => "deletes_stay_deleted",
                false => "acknowledged_writes_survive",
            };
            let judgement = less.judge_one(invariant);
            assert_eq!(judgement.verdict, Verdict::Fail, "without {taken:?} of {:?}", key.target);
            assert!(!named(&[judgement]).is_empty());
            missed += 1;
        }
    }
    assert!(missed >= 8, "{missed} versions");
}

/// Goal: a history that claims more than happened is caught: a refused write, turned into an
/// acknowledged one, breaks a promise and is named.
#[test]
fn a_refusal_turned_into_an_acknowledgement_is_caught() {
    let mut caught = 0;
    for (name, op) in [("a-quiet-day", 35), ("a-quiet-day", 37), ("a-needless-refusal", 1)] {
        let mut fixture = Fixture::named(name);
        let before = format!("\"op\":{op},\"outcome\":\"refused\"");
        let after = format!("\"op\":{op},\"outcome\":\"acknowledged\"");
        assert!(fixture.text.contains(&before), "{name}");
        fixture.text = fixture.text.replace(&before, &after);
        let names = INVARIANTS.iter().map(|known| known.name.to_owned()).collect::<Vec<_>>();
        let judgements = fixture.judge(&names);
        assert_eq!(check::worst(&judgements), Verdict::Fail, "{name} {op}");
        assert!(named(&judgements).contains(&op), "{name} {op}: {:?}", named(&judgements));
        caught += 1;
    }
    assert_eq!(caught, 3);
}

#[test]
fn a_finding_names_the_shortest_list_of_operations() {
    let lost = Fixture::named("a-stale-read").judge_one("reads_are_linearizable");
    assert_eq!(lost.findings[0].operations, [1, 2, 3]);
    let winners = Fixture::named("two-winners").judge_one("conditional_writes_are_atomic");
    assert_eq!(winners.findings[0].operations, [1, 2]);
}
