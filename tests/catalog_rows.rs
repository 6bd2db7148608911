//! Every row of the catalog's tables has a test: conditions that fail closed (F), crash points (K), and where this
//! catalog does otherwise than the reference (M).
//!
//! F and K rows are found by the names of tests (`f9_…`, `f9_to_f12_…`, `k_c5_…`). What M rows promise is held by tests
//! that are named after the promise: the table below says which.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The conditions that fail closed are numbered from 1 to this.
const CONDITIONS: u32 = 55;

/// The crash points.
const CRASH_POINTS: &[&str] = &[
    "b1", "b2", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10", "d0", "d1", "d2",
    "d3", "g1", "i1", "i2", "m1", "m2", "m3", "m3b", "m4", "m5", "q1", "q2", "r1", "r2", "s1",
    "s2", "s3", "t1", "t2", "t3", "u1", "u2", "u3", "v1", "v2", "v3", "w1", "x1", "x2",
];

/// Which tests hold what is done otherwise than by the reference.
#[rustfmt::skip]
const BETTER: &[(u32, &[&str])] = &[
    (1,  &["m1_nothing_waits_for_a_lock_that_it_holds", "a_table_without_its_index_entry_gets_it_with_the_next_commit"]),
    (2,  &["m2_a_backfill_makes_the_entries_that_are_missing"]),
    (3,  &["k_c9_a_staged_commit_that_was_overtaken_is_put_aside_when_asked",
           "a_staged_commit_of_unknown_fate_is_never_put_aside",
           "an_overtaken_commit_is_for_recovery_because_recovery_helps"]),
    (4,  &["m4_m27_both_prefixes_take_both_names_of_the_service_and_no_other",
           "other_terms_take_what_generic_clients_sign"]),
    (5,  &["k_r2_a_cut_over_with_a_bucket_left_is_refused", "an_empty_snapshot_opens_nothing_that_is_object_backed",
           "a_bucket_that_was_never_migrated_keeps_the_strong_catalog_closed"]),
    (6,  &["what_was_taken_over_is_not_served_stale", "a_cutover_keeps_everything_and_opens_when_it_is_admitted"]),
    (7,  &["a_table_bucket_goes_only_when_nothing_is_left_of_it"]),
    (8,  &["f26_a_target_that_is_different_refuses_before_the_first_fence"]),
    (9,  &["f21_a_fence_is_a_conflict_for_a_change_and_never_taken_for_an_existing_thing"]),
    (10, &["f22_a_fence_is_looked_at_before_the_marker"]),
    (11, &["k_m1_a_registry_fence_alone_freezes_no_bucket",
           "k_d2_a_released_bucket_is_writable_while_the_registry_is_fenced"]),
    (12, &["k_m2_a_preparing_fence_is_gone_on_with_or_released"]),
    (13, &["k_d1_a_bucket_that_is_out_of_the_snapshot_is_still_fenced"]),
    (14, &["f54_only_a_process_that_held_nothing_may_take_a_failed_first_write_for_none",
           "k_m3_the_first_snapshot_write_is_ambiguous"]),
    (15, &["f25_a_source_that_changed_since_is_detected", "every_other_blocker_has_its_cause_and_its_action"]),
    (16, &["f51_another_buckets_migration_does_not_stop_a_cancellation"]),
    (17, &["k_c5_a_lost_answer_is_found_out_by_asking_again"]),
    (18, &["what_a_refused_creation_has_taken_is_given_back",
           "f9_to_f12_what_a_commit_is_based_on_and_what_it_refers_to"]),
    (19, &["k_t2_a_reservation_without_a_table_is_stale_and_can_be_taken_over",
           "a_reservation_without_its_owner_is_stale"]),
    (20, &["m20_tables_of_one_namespace_are_not_listed_in_another"]),
    (21, &["m21_no_table_lies_where_only_the_catalog_writes"]),
    (22, &["an_older_epoch_is_refused_until_a_restart",
           "f41_records_of_no_table_are_left_out_in_version_1_and_refused_in_version_2"]),
    (23, &["m23_m26_after_a_cutover_tables_are_still_diagnosed_and_nothing_is_said_to_be_repaired"]),
    (24, &["m24_publishing_what_is_current_changes_nothing"]),
    (25, &["m25_refusals_say_what_is_the_matter"]),
    (26, &["m23_m26_after_a_cutover_tables_are_still_diagnosed_and_nothing_is_said_to_be_repaired"]),
    (27, &["m4_m27_both_prefixes_take_both_names_of_the_service_and_no_other"]),
    (28, &["m28_what_a_dropped_table_leaves_is_under_the_buckets_policy_alone"]),
];

/// The names of all tests in `src` and `tests`, with how many have them.
fn tests() -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let mut folders = vec![Path::new("src").to_owned(), Path::new("tests").to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                names(&fs::read_to_string(&path).unwrap(), &mut found);
            }
        }
    }
    found
}

/// The functions of `text` that are tests.
fn names(text: &str, found: &mut BTreeMap<String, usize>) {
    let mut is_test = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if is_test && !line.starts_with("#[") && !line.starts_with("//") {
            let line = line.strip_prefix("pub ").unwrap_or(line);
            let line = line.strip_prefix("async ").unwrap_or(line);
            if let Some((name, _)) = line.strip_prefix("fn ").and_then(|rest| rest.split_once('('))
            {
                *found.entry(name.to_owned()).or_default() += 1;
            }
            is_test = false;
        }
    }
}

/// The numbers of the conditions that a test is named after: `f9_f13_…`, `f9_to_f12_…`.
fn conditions(name: &str) -> BTreeSet<u32> {
    let mut numbers = BTreeSet::new();
    let mut is_range = false;
    for word in name.split('_') {
        let number = word.strip_prefix('f').and_then(|digits| digits.parse::<u32>().ok());
        match number {
            Some(number) if is_range => {
                let first = numbers.last().copied().unwrap_or(number);
                numbers.extend(first..=number);
                is_range = false;
            }
            Some(number) => drop(numbers.insert(number)),
            None if word == "to" && !numbers.is_empty() => is_range = true,
            None => break,
        }
    }
    numbers
}

#[test]
fn every_condition_that_fails_closed_has_a_test_named_after_it() {
    let covered: BTreeSet<u32> = tests().keys().flat_map(|name| conditions(name)).collect();
    let missing: Vec<_> = (1..=CONDITIONS).filter(|row| !covered.contains(row)).collect();
    assert!(missing.is_empty(), "without a test: F{missing:?}");
}

#[test]
fn every_crash_point_has_a_test_named_after_it() {
    let all = tests();
    let is_there = |row: &&&str| all.keys().any(|name| name.starts_with(&format!("k_{row}_")));
    let missing: Vec<_> = CRASH_POINTS.iter().filter(|row| !is_there(row)).collect();
    assert!(missing.is_empty(), "without a test: K-{missing:?}");
}

#[test]
fn every_difference_to_the_reference_has_its_tests() {
    let all = tests();
    let rows: Vec<_> = BETTER.iter().map(|(row, _)| *row).collect();
    assert_eq!(rows, (1..=28).collect::<Vec<_>>());
    for (row, names) in BETTER {
        assert!(!names.is_empty(), "M{row}");
        for name in *names {
            assert!(all.contains_key(*name), "M{row}: there is no test {name}");
        }
    }
}

#[test]
fn a_name_tells_its_rows() {
    assert_eq!(conditions("f9_a_stale_base"), BTreeSet::from([9]));
    assert_eq!(conditions("f44_f45_keys"), BTreeSet::from([44, 45]));
    assert_eq!(conditions("f9_to_f12_what"), BTreeSet::from([9, 10, 11, 12]));
    assert!(conditions("files_lie").is_empty() && conditions("a_to_f3").is_empty());
    let mut found = BTreeMap::new();
    names("#[test]\nfn one() {}\nfn two() {}\n#[tokio::test]\nasync fn three() {", &mut found);
    assert_eq!(found.keys().collect::<Vec<_>>(), ["one", "three"]);
}
