//! What must hold of the engine and of the corpora.

mod corpora;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use super::*;
use crate::fuzz::target::Found;
use crate::fuzz::target::Shape;
use crate::value::Seed;

/// Enough to meet every mutation of every target many times, and few enough for every build.
const CASES: u64 = 2_000;
const SEED: Seed = Seed(20_260_101);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/fuzz")
}

fn corpus_of(target: &Target) -> Vec<Vec<u8>> {
    corpus::read(&folder(), target.name)
        .unwrap_or_else(|error| panic!("the corpus of {}: {error}", target.name))
}

/// Goal: every build runs every target for a while, from every file of its corpus: what was once found is among them.
#[test]
fn nothing_is_found_in_the_first_cases_of_any_target() {
    let mut wrong = Vec::new();
    for target in all() {
        let began = Instant::now();
        let summary = course::run(&target, &corpus_of(&target), SEED, CASES, |_| Ok(()));
        for finding in &summary.findings {
            let again = format!("fuzz {} --seed {} --case {}", target.name, SEED, finding.case);
            wrong.push(format!("{}: {}; again: {again}", target.name, finding.what));
        }
        let percent = summary.decoded * 100 / summary.cases;
        println!("{:<24} {percent:>3} % decoded, {:?}", target.name, began.elapsed());
        if percent < DECODED_PERCENT_MIN {
            wrong.push(format!("{}: {percent} % decoded", target.name));
        }
        if began.elapsed() > Duration::from_secs(120) {
            wrong.push(format!("{}: {:?}", target.name, began.elapsed()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Goal: a corpus begins with real files, so that each file that is no crash of old is decoded as it lies.
#[test]
fn the_real_files_of_every_corpus_are_decoded() {
    let mut refused = Vec::new();
    for target in all() {
        for entry in fs::read_dir(folder().join(target.name)).expect("a corpus") {
            let path = entry.expect("a file").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let examined = course::examine(&target, &fs::read(&path).expect("a file"));
            // Files that were made by hand or found say so in their names.
            let is_hostile = name.starts_with("hostile-") || name.starts_with("found-");
            if !is_hostile && examined != Ok(Found::Decoded) {
                refused.push(format!("{}/{name}: {examined:?}", target.name));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

/// A lean build has fewer targets than there are corpora.
#[cfg(feature = "iceberg")]
#[test]
fn every_target_has_a_corpus_and_every_corpus_a_target() {
    let targets: BTreeSet<String> = all().iter().map(|target| target.name.to_owned()).collect();
    let folders = fs::read_dir(folder()).expect("the corpora");
    let folders: BTreeSet<String> = folders
        .map(|entry| entry.expect("a folder").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(targets, folders);
    assert_eq!(targets.len(), all().len(), "two targets have one name");
}

#[test]
fn a_case_is_the_same_whenever_it_is_made_and_another_under_another_seed() {
    for target in all() {
        let corpus = corpus_of(&target);
        let cases = |seed| -> Vec<Vec<u8>> {
            (0..200).map(|case| course::case(&target, &corpus, seed, case)).collect()
        };
        let first = cases(SEED);
        assert_eq!(first, cases(SEED), "{}", target.name);
        assert_ne!(first, cases(Seed(SEED.0 + 1)), "{}", target.name);
        assert!(first.iter().zip(&corpus).all(|(case, file)| case == file), "{}", target.name);
        let different: BTreeSet<&Vec<u8>> = first.iter().collect();
        assert!(different.len() > 60, "{}: {} cases are all", target.name, different.len());
        assert!(first.iter().all(|case| case.len() <= CASE_BYTES_MAX));
    }
}

#[test]
fn an_envelope_that_is_opened_and_closed_is_decoded_as_before() {
    for target in all() {
        let Some(envelope) = target.envelope else { continue };
        let mut opened = 0;
        for file in corpus_of(&target) {
            let Some(pieces) = (envelope.open)(&file) else { continue };
            opened += 1;
            let closed = (envelope.close)(&pieces);
            let (before, after) =
                (course::examine(&target, &file), course::examine(&target, &closed));
            assert_eq!(before, after, "{}", target.name);
        }
        assert!(opened > 0, "{}: nothing of its corpus is opened", target.name);
    }
}

/// A target that fails in each of the ways in which one can.
fn broken(bytes: &[u8]) -> target::Examined {
    match bytes.first() {
        // As a panic is, and nothing is printed.
        Some(0..=0x3f) => std::panic::resume_unwind(Box::new("the first byte is low")),
        Some(0x40..=0x7f) => Err("a rule is broken".to_owned()),
        Some(0x80..=0xbf) => Ok(Found::Decoded),
        _ => Ok(Found::Refused),
    }
}

#[test]
fn panics_and_broken_rules_are_found_once_each_with_their_case() {
    let target =
        Target { name: "broken", about: "", shape: Shape::Binary, envelope: None, examine: broken };
    let corpus = vec![vec![0xff; 4], vec![0x90; 4]];
    let summary = course::run(&target, &corpus, SEED, 2_000, |_| Ok(()));
    let what = |finding: &course::Finding| finding.what.clone();
    let found: Vec<String> = summary.findings.iter().map(what).collect();
    assert!(found.iter().any(|what| what.starts_with("a panic")), "{found:?}");
    assert!(found.iter().any(|what| what == "a rule is broken"), "{found:?}");
    assert_eq!(found.len(), 2, "the same words are told once: {found:?}");
    assert_eq!(summary.cases, 2_000, "a finding ends nothing");
    assert!(summary.decoded > 0 && summary.decoded < summary.cases);
    for finding in &summary.findings {
        let bytes = course::case(&target, &corpus, SEED, finding.case);
        assert!(course::examine(&target, &bytes).is_err(), "the case is not found again");
    }
    let stopped = course::run(&target, &corpus, SEED, 2_000, |case| match case {
        7 => Err("too much memory".to_owned()),
        _ => Ok(()),
    });
    assert_eq!(
        (stopped.cases, stopped.findings.last().map(what)),
        (7, Some("too much memory".into()))
    );
}
