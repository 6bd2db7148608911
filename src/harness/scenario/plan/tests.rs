//! One seed, one plan; a plan that does not fit is refused.

use super::*;
use crate::harness::scenario::parse;

fn case(drive_mib: u64, bytes_max: u64) -> Case {
    let text = format!(
        "\
format: 1
scenario: sound
claim: It holds.
suite: quick
testbed: {{ nodes: 1, drives: 4, parity: 2, drive_mib: {drive_mib} }}
workload:
  buckets: {{ plain: unversioned, kept: enabled }}
  bytes_max: {bytes_max}
steps:
  - load: {{ operations: 400 }}
  - inject: {{ power_cut: {{ nodes: all, at: put.meta_renamed }} }}
  - load: {{ operations: 100 }}
  - settle: {{ within_s: 10 }}
  - check: {{}}
expect:
  holds: [acknowledged_writes_survive]
  provokes: {{ crash_points_reached: 1 }}
"
    );
    let scenario = parse::parse("s.yaml", "objects", &text).unwrap();
    scenario.cases[0].clone()
}

#[test]
fn the_plan_of_one_seed_is_the_same_byte_for_byte_and_of_another_seed_differs() {
    let json = |seed| {
        let plan = plan(&case(64, 16 << 20), Seed(seed), Overrides::default()).unwrap();
        plan.to_json()
    };
    assert_eq!(json(7), json(7));
    let (one, other): (Plan, Plan) =
        (serde_json::from_str(&json(7)).unwrap(), serde_json::from_str(&json(8)).unwrap());
    let digests = |plan: &Plan| plan.clients.iter().map(|client| client.digest).collect::<Vec<_>>();
    assert_ne!(digests(&one), digests(&other));
    assert_ne!(one.testbed.drives, other.testbed.drives);
    assert_eq!(one.clients.len(), 8, "four clients in each of two loads");
    assert_eq!(one.clients.iter().map(|client| client.operations).sum::<u64>(), 500);
    assert_eq!(one.faults[0].at.unwrap().name(), "put.meta_renamed");
}

#[test]
fn a_plan_is_read_as_it_was_written() {
    let plan = plan(&case(64, 16 << 20), Seed(7), Overrides::default()).unwrap();
    let read: Plan = serde_json::from_str(&plan.to_json()).unwrap();
    assert_eq!(read, plan);
}

#[test]
fn a_workload_that_fills_its_drives_is_refused() {
    let small = plan(&case(16, 96 << 20), Seed(7), Overrides::default());
    assert!(matches!(small, Err(Refusal::TooFull { percent: 70, .. })), "{small:?}");
}

#[test]
fn images_larger_than_half_of_memory_are_refused() {
    let plan = plan(&case(64, 16 << 20), Seed(7), Overrides::default()).unwrap();
    assert!(plan.fits(512 << 20, 1).is_ok());
    assert!(plan.fits(511 << 20, 1).is_err());
    assert!(plan.fits(512 << 20, 2).is_err());
}

#[test]
fn the_command_line_may_weaken_the_promise_and_strengthen_the_rung() {
    let overrides = Overrides { durability: Some(Durability::Relaxed), rung: Some(Rung::Memory) };
    let plan = plan(&case(64, 16 << 20), Seed(7), overrides).unwrap();
    assert_eq!(plan.testbed.durability, Durability::Relaxed);
    assert_eq!(plan.testbed.rung, Rung::Loop, "never below what the scenario needs");
}
