//! What is wrong with a scenario whose every value can be read.
//!
//! Each problem names the path of the value it is about, so that its place can be told. Nothing here
//! depends on a seed or a machine; `plan` refuses what does.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::fault::Fault;
use super::form::Await;
use super::form::SCENARIO_FORMAT;
use super::form::ScenarioForm;
use super::form::Step;
use super::form::TestbedForm;
use super::operator::Misuse;
use super::operator::OperatorStep;
use super::parse::CANARY;
use super::warehouses;
use super::warehouses::Warehouses;
use crate::harness::check;
use crate::harness::operator::error::OperatorError;
use crate::harness::workload::spec::LoadSpec;
use crate::harness::workload::spec::Mix;
use crate::harness::workload::spec::Targets;
use crate::protocol::replacement::discover::Alarm;
use crate::protocol::replacement::refusal::Refusal;

/// A path such as `steps[2].inject.kill`, and what is wrong there.
pub type Problem = (String, String);

/// Everything that is wrong with `form`, a scenario of `family`.
pub fn problems(form: &ScenarioForm, family: &str) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let Err(message) = form.testbed.topology() {
        // Nothing else about drives can be told of a cluster that cannot exist.
        return vec![("testbed".to_owned(), message)];
    }
    heading(form, family, &mut problems);
    expectations(form, family, &mut problems);
    steps(form, &mut problems);
    tolerance(form, &mut problems);
    problems
}

/// Adds a problem.
fn add(problems: &mut Vec<Problem>, path: &str, message: impl Into<String>) {
    problems.push((path.to_owned(), message.into()));
}

/// The keys before the steps.
fn heading(form: &ScenarioForm, family: &str, problems: &mut Vec<Problem>) {
    if form.format != SCENARIO_FORMAT {
        let message = format!("format {} is not read here, only {SCENARIO_FORMAT}", form.format);
        add(problems, "format", message);
    }
    let is_name = !form.scenario.is_empty()
        && form.scenario.len() <= 80
        && form
            .scenario
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !is_name {
        add(problems, "scenario", "a name is of lower-case letters, digits and `-`");
    }
    if form.claim.trim().is_empty() {
        add(problems, "claim", "a scenario without a claim proves nothing");
    }
    if !form.testbed.defects.is_empty() && family != CANARY {
        let message = format!("defects are planted in the family `{CANARY}` only");
        add(problems, "testbed.defects", message);
    }
    for (name, principal) in &form.testbed.principals {
        if let Some(message) = principal.problem(name) {
            add(problems, &format!("testbed.principals.{name}"), message);
        }
    }
    if form.limits.wall_s == 0 || form.limits.wall_s > 24 * 3_600 {
        add(problems, "limits.wall_s", "1 to 86400 seconds are possible");
    }
    workload(form, problems);
}

/// `workload`.
fn workload(form: &ScenarioForm, problems: &mut Vec<Problem>) {
    let workload = &form.workload;
    if workload.buckets.is_empty() {
        add(problems, "workload.buckets", "names no bucket");
    }
    for name in workload.buckets.keys() {
        let is_name = (3..=63).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !name.starts_with('-')
            && !name.ends_with('-');
        if !is_name {
            let message = format!("`{name}` is not a bucket's name: 3 to 63 of a-z, 0-9 and `-`");
            add(problems, &format!("workload.buckets.{name}"), message);
        }
    }
    mix_and_clients("workload", Some(workload.mix), Some(workload.clients), problems);
    if workload.keys == 0 {
        add(problems, "workload.keys", "at least one key");
    }
    if workload.timeout_ms == 0 {
        add(problems, "workload.timeout_ms", "nobody answers within 0 ms");
    }
}

/// The two things that a workload and a load both have.
fn mix_and_clients(
    path: &str,
    mix: Option<Mix>,
    clients: Option<u32>,
    problems: &mut Vec<Problem>,
) {
    if mix.is_some_and(|mix| mix.total() == 0) {
        add(problems, &format!("{path}.mix"), "draws nothing");
    }
    if clients.is_some_and(|clients| !(1..=CLIENTS_MAX).contains(&clients)) {
        add(problems, &format!("{path}.clients"), format!("1 to {CLIENTS_MAX} clients"));
    }
}

/// One `load`.
fn load(form: &ScenarioForm, path: &str, load: &LoadSpec, problems: &mut Vec<Problem>) {
    if load.operations == 0 {
        add(problems, &format!("{path}.operations"), "a load of nothing");
    }
    mix_and_clients(path, load.mix, load.clients, problems);
    for (index, bucket) in load.buckets.iter().flatten().enumerate() {
        if !form.workload.buckets.contains_key(bucket) {
            let message = format!("the workload has no bucket `{bucket}`");
            add(problems, &format!("{path}.buckets[{index}]"), message);
        }
    }
    if load.buckets.as_ref().is_some_and(Vec::is_empty) {
        add(problems, &format!("{path}.buckets"), "names no bucket");
    }
    if let Targets::These(nodes) = &load.targets {
        if nodes.is_empty() {
            add(problems, &format!("{path}.targets"), "names no node");
        }
        for node in nodes {
            node_exists(&form.testbed, &format!("{path}.targets"), *node, problems);
        }
    }
}

/// Clients of the largest workload.
const CLIENTS_MAX: u32 = 256;

/// `expect`.
fn expectations(form: &ScenarioForm, family: &str, problems: &mut Vec<Problem>) {
    let mut seen = BTreeSet::new();
    if form.expect.holds.is_empty() {
        add(problems, "expect.holds", "names no invariant");
    }
    for (index, name) in form.expect.holds.iter().enumerate() {
        let path = format!("expect.holds[{index}]");
        if check::invariant(name).is_none() {
            add(problems, &path, format!("there is no invariant `{name}`"));
        }
        if !seen.insert(name) {
            add(problems, &path, format!("`{name}` stands twice"));
        }
    }
    if form.expect.provokes.is_empty() {
        add(problems, "expect.provokes", "a run that need not provoke anything proves nothing");
    }
    for (counter, least) in &form.expect.provokes {
        if *least == 0 {
            let path = format!("expect.provokes.{}", counter.name());
            add(problems, &path, "0 is provoked by doing nothing");
        }
    }
    match &form.expect.fails {
        Some(fails) if family != CANARY && (fails.issue.is_none() || fails.until.is_none()) => {
            add(problems, "expect.fails", "a known failure has an `issue` and a date `until`");
        }
        Some(_) if family != CANARY => {}
        Some(_) if form.testbed.defects.is_empty() => {
            add(problems, "testbed", "a canary plants at least one defect");
        }
        None if family == CANARY => {
            add(problems, "expect", "a canary states the finding that catches it: `fails`");
        }
        _ => {}
    }
    if let Some(until) = form.expect.fails.as_ref().and_then(|fails| fails.until.as_ref())
        && !is_date(until)
    {
        add(problems, "expect.fails.until", format!("{until:?} is not a date `YYYY-MM-DD`"));
    }
}

/// Whether `text` has the form of a date.
fn is_date(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    let [year, month, day] = parts.as_slice() else {
        return false;
    };
    let number = |text: &str, length: usize| {
        if text.len() == length { text.parse::<u32>().ok() } else { None }
    };
    number(year, 4).is_some()
        && number(month, 2).is_some_and(|month| (1..=12).contains(&month))
        && number(day, 2).is_some_and(|day| (1..=31).contains(&day))
}

/// `steps`: their order, and what each names.
fn steps(form: &ScenarioForm, problems: &mut Vec<Problem>) {
    let last = form.steps.len().saturating_sub(1);
    match form.steps.last() {
        Some(Step::Check(_)) => {}
        _ => add(problems, "steps", "the last step is `check: {}`"),
    }
    match form.steps.iter().rev().nth(1) {
        Some(Step::Settle(_)) => {}
        _ => add(problems, "steps", "the step before `check` is `settle`"),
    }
    let mut away: BTreeSet<(usize, usize)> = BTreeSet::new();
    let mut buckets = Buckets::before(form);
    let mut warehouses = Warehouses::default();
    for (index, step) in form.steps.iter().enumerate() {
        let path = format!("steps[{index}].{}", step.name());
        match step {
            Step::Load(spec) => {
                load(form, &path, spec, problems);
                buckets.serve(form, &path, spec, problems);
            }
            Step::Inject(fault) => inject(form, &path, fault, &mut away, problems),
            Step::Heal(_) => {}
            Step::Start(on) => {
                node_exists(&form.testbed, &format!("{path}.node"), on.node, problems);
                if let Some(number) = &on.refuses {
                    tells(&format!("{path}.refuses"), number, problems);
                }
            }
            Step::Stop(on) | Step::FlattenRecords(on) => {
                node_exists(&form.testbed, &format!("{path}.node"), on.node, problems);
            }
            Step::RecreateBucket(on) => {
                if !form.workload.buckets.contains_key(&on.bucket) {
                    let message = format!("the workload has no bucket `{}`", on.bucket);
                    add(problems, &format!("{path}.bucket"), message);
                }
            }
            Step::Operator(step) => operator(form, &path, step, problems),
            Step::CreateBucket(on) => buckets.change(form, &path, &on.bucket, true, problems),
            Step::DeleteBucket(on) => buckets.change(form, &path, &on.bucket, false, problems),
            Step::Await(state) => awaited(form, &path, state, problems),
            Step::Catalog(step) => warehouses.asked(form, &path, step, problems),
            Step::Client(step) => warehouses.visited(&path, step, problems),
            Step::Commits(commits) => warehouses.committed(form, &path, commits, problems),
            Step::Restart(restart) => warehouses::restarted(form, &path, restart, problems),
            Step::Settle(settle) => {
                if settle.within_s == 0 {
                    add(problems, &format!("{path}.within_s"), "nothing settles within 0 seconds");
                }
                away.clear();
            }
            Step::Check(_) => {
                if index != last {
                    add(problems, &path, "only the last step is `check`");
                }
            }
        }
    }
}

/// One use of a tool: whether it can be used so, and whether what it names exists.
fn operator(form: &ScenarioForm, path: &str, step: &OperatorStep, problems: &mut Vec<Problem>) {
    let tool = step.tool.name();
    node_exists(&form.testbed, &format!("{path}.node"), step.node, problems);
    let all = form.testbed.nodes * form.testbed.drives;
    let sets = all / form.testbed.set_drives();
    if step.set >= sets {
        let message = format!("there is no set {}: they are counted 0 to {}", step.set, sets - 1);
        add(problems, &format!("{path}.set"), message);
    }
    if step.write && !step.tool.may_write() {
        add(problems, &format!("{path}.write"), format!("`{tool}` writes on no drive"));
    }
    if let Some(code) = step.refused.as_ref().filter(|code| !OperatorError::has_code(code)) {
        add(problems, &format!("{path}.refused"), format!("no tool is ever refused by `{code}`"));
    }
    match step.misuse {
        Some(misuse) if !misuse.is_possible(step.tool) => {
            add(problems, &format!("{path}.misuse"), format!("`{tool}` cannot be used so"));
        }
        Some(Misuse::NotAsserted) if !step.write => {
            add(problems, &format!("{path}.misuse"), "nothing is asserted unless `write: true`");
        }
        Some(_) if step.refused.is_none() => {
            add(problems, path, "a misuse has to be refused: state by what in `refused`");
        }
        _ => {}
    }
}

/// Which buckets of the workload are there, step by step.
struct Buckets<'a> {
    absent: BTreeSet<&'a str>,
}

impl<'a> Buckets<'a> {
    /// Before the first step: those that a step makes are not there yet.
    fn before(form: &'a ScenarioForm) -> Self {
        let made = form.steps.iter().filter_map(|step| match step {
            Step::CreateBucket(on) => Some(on.bucket.as_str()),
            _ => None,
        });
        Self { absent: made.collect() }
    }

    /// A step makes or deletes one.
    fn change(
        &mut self,
        form: &ScenarioForm,
        path: &str,
        bucket: &'a str,
        is_made: bool,
        problems: &mut Vec<Problem>,
    ) {
        let place = format!("{path}.bucket");
        if !form.workload.buckets.contains_key(bucket) {
            add(problems, &place, format!("the workload has no bucket `{bucket}`"));
        }
        let has_changed =
            if is_made { self.absent.remove(bucket) } else { self.absent.insert(bucket) };
        if !has_changed {
            let state = if is_made { "is there already" } else { "is not there" };
            add(problems, &place, format!("bucket `{bucket}` {state}"));
        }
    }

    /// A load needs those that it names, or else all of them.
    fn serve(&self, form: &ScenarioForm, path: &str, load: &LoadSpec, problems: &mut Vec<Problem>) {
        let named = load.buckets.clone();
        let named = named.unwrap_or_else(|| form.workload.buckets.keys().cloned().collect());
        if let Some(absent) = named.iter().find(|name| self.absent.contains(name.as_str())) {
            let message = format!("bucket `{absent}` is not there: name the others");
            add(problems, &format!("{path}.buckets"), message);
        }
    }
}

/// What a node is to tell.
fn tells(place: &str, told: &str, problems: &mut Vec<Problem>) {
    let mut refusals = Refusal::TABLE.iter().map(|row| row.1);
    if !refusals.any(|number| number == told) && !Alarm::NAMES.contains(&told) {
        add(problems, place, format!("there is neither a refusal nor an alarm `{told}`"));
    }
}

/// One `await`.
fn awaited(form: &ScenarioForm, path: &str, state: &Await, problems: &mut Vec<Problem>) {
    node_exists(&form.testbed, &format!("{path}.node"), state.node, problems);
    tells(&format!("{path}.told"), &state.told, problems);
    if state.within_s == 0 {
        add(problems, &format!("{path}.within_s"), "nothing is told within 0 seconds");
    }
}

/// One fault: whether what it names exists, and whether it can strike.
fn inject(
    form: &ScenarioForm,
    path: &str,
    fault: &Fault,
    away: &mut BTreeSet<(usize, usize)>,
    problems: &mut Vec<Problem>,
) {
    let path = format!("{path}.{}", fault.name());
    for node in fault.nodes(form.testbed.nodes) {
        node_exists(&form.testbed, &path, node, problems);
    }
    if fault.nodes(form.testbed.nodes).is_empty() && fault.slots().is_none() {
        add(problems, &path, "names no node");
    }
    if let Some((node, slots)) = fault.slots() {
        let drives = format!("{path}.drives");
        if slots.is_empty() {
            add(problems, &drives, "names no drive");
        }
        for slot in slots {
            if *slot >= form.testbed.drives {
                let count = form.testbed.drives;
                let message = format!("there is no drive {node}/{slot}: a node has {count}");
                add(problems, &drives, message);
            }
            let place = (node, *slot);
            match fault {
                Fault::PullDrive(_) if !away.insert(place) => {
                    add(problems, &drives, format!("drive {node}/{slot} is already pulled"));
                }
                Fault::ReturnDrive(_) if !away.remove(&place) => {
                    add(problems, &drives, format!("drive {node}/{slot} was not pulled before"));
                }
                _ => {}
            }
        }
        if slots.iter().collect::<BTreeSet<_>>().len() != slots.len() {
            add(problems, &drives, "names a drive twice");
        }
    }
    let trigger = fault.trigger();
    let triggers =
        [trigger.at.is_some(), trigger.after_operations.is_some(), trigger.after_ms.is_some()];
    if triggers.iter().filter(|is_set| **is_set).count() > 1 {
        add(problems, &path, "has more than one trigger: `at`, `after_operations` or `after_ms`");
    }
    if let Some(node) = trigger.on_node {
        let place = format!("{path}.on_node");
        node_exists(&form.testbed, &place, node, problems);
        if trigger.at.is_none() {
            add(problems, &place, "names who passes a crash point: state `at`");
        }
    }
    if trigger.of.is_some() && trigger.at.is_none() {
        add(problems, &format!("{path}.of"), "names where a crash point is passed: state `at`");
    }
    let is_of_a_held_task = match fault {
        Fault::Hold(_) => true,
        Fault::TamperRecord(fault) => fault.live,
        _ => false,
    };
    if is_of_a_held_task && trigger.at.is_none() {
        add(problems, &path, "needs a task that is held: state `at`");
    }
    match trigger.nth {
        Some(_) if trigger.at.is_none() => {
            add(
                problems,
                &format!("{path}.nth"),
                "counts the passings of a crash point: state `at`",
            );
        }
        Some(0) => add(problems, &format!("{path}.nth"), "passings are counted from 1"),
        _ => {}
    }
    let is_between_nodes =
        matches!(fault, Fault::Partition(_) | Fault::Delay(_) | Fault::HangPeer(_));
    if is_between_nodes && form.testbed.nodes < 2 {
        add(problems, &path, "needs at least two nodes");
    }
    if let Fault::Partition(partition) = fault
        && partition.from.iter().any(|node| partition.to.contains(node))
    {
        add(problems, &path, "cuts a node from itself");
    }
    if let Fault::VmRestart(restart) = fault
        && restart.mounts == super::fault::Mounts::Same
        && restart.order != super::fault::DriveOrder::Kept
    {
        add(problems, &path, "mounts that stay the same keep their order");
    }
    if let Fault::SwapShards(_) = fault
        && form.testbed.set_drives() == form.testbed.parity
    {
        add(problems, &path, "has no data shards to exchange");
    }
}

/// Adds a problem when there is no such node.
fn node_exists(testbed: &TestbedForm, path: &str, node: usize, problems: &mut Vec<Problem>) {
    if node >= testbed.nodes {
        let count = testbed.nodes;
        add(
            problems,
            path,
            format!("there is no node {node}: they are counted 0 to {}", count - 1),
        );
    }
}

/// Destruction beyond what parity can bring back, between two settles.
///
/// A version may have been acknowledged while drives were away, and lacks a shard on each of them.
/// What is destroyed on top of that must leave enough to read. A group of drives that vanishes at
/// once and takes the write quorum with it is not counted: nothing is acknowledged meanwhile.
fn tolerance(form: &ScenarioForm, problems: &mut Vec<Problem>) {
    if form.beyond_tolerance {
        return;
    }
    let testbed = &form.testbed;
    let spare = testbed.set_drives() - testbed.write_quorum();
    // By set: drives that may lack a shard, and whether something was destroyed.
    let mut lost: BTreeMap<usize, (BTreeSet<usize>, bool)> = BTreeMap::new();
    for (index, step) in form.steps.iter().enumerate() {
        let fault = match step {
            Step::Settle(_) => {
                lost.clear();
                continue;
            }
            Step::Inject(fault) => fault,
            _ => continue,
        };
        let drives: Vec<usize> = match fault.slots() {
            Some((node, slots)) if fault.destroys() || fault.hides() => {
                slots.iter().map(|slot| node * testbed.drives + slot).collect()
            }
            Some(_) => continue,
            None => fault
                .nodes(testbed.nodes)
                .into_iter()
                .flat_map(|node| (0..testbed.drives).map(move |slot| node * testbed.drives + slot))
                .collect(),
        };
        let mut by_set: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for drive in drives {
            by_set.entry(drive / testbed.set_drives()).or_default().insert(drive);
        }
        for (set, drives) in by_set {
            if !fault.destroys() && drives.len() > spare {
                continue;
            }
            let (missing, is_destroyed) = lost.entry(set).or_default();
            missing.extend(drives);
            *is_destroyed |= fault.destroys();
            if *is_destroyed && missing.len() > testbed.parity {
                let message = format!(
                    "up to {} of {} drives of a set may lack what was acknowledged, parity is {}: \
                     settle before, or state `beyond_tolerance: true`",
                    missing.len(),
                    testbed.set_drives(),
                    testbed.parity
                );
                problems.push((format!("steps[{index}].inject"), message));
                return;
            }
        }
    }
}
