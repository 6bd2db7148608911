//! Two invented runs, written as real ones are: one that passes and one canary that is caught.
//!
//! Their keys are hostile on purpose. Nothing here was measured.

use std::path::Path;

use firedrill::harness::audit::census::BucketCensus;
use firedrill::harness::audit::census::CENSUS_FORMAT;
use firedrill::harness::audit::census::Census;
use firedrill::harness::audit::census::DriveCensus;
use firedrill::harness::audit::census::DriveProblem;
use firedrill::harness::audit::census::DriveState;
use firedrill::harness::audit::census::KeyCensus;
use firedrill::harness::audit::census::ProblemKind;
use firedrill::harness::audit::census::VersionCensus;
use firedrill::harness::audit::census::VersionClass;
use firedrill::harness::check::Finding;
use firedrill::harness::check::Judgement;
use firedrill::harness::check::Verdict;
use firedrill::harness::report::CaseReport;
use firedrill::harness::report::Gathered;
use firedrill::harness::report::RunDirectory;
use firedrill::harness::report::Stop;
use firedrill::harness::report::assemble;
use firedrill::harness::report::render_all;
use firedrill::harness::scenario::form::ScenarioForm;
use firedrill::harness::scenario::parse::Case;
use firedrill::harness::scenario::plan::Overrides;
use firedrill::harness::scenario::plan::Plan;
use firedrill::harness::scenario::plan::plan;
use firedrill::harness::workload::history::Action;
use firedrill::harness::workload::history::Condition;
use firedrill::harness::workload::history::Ending;
use firedrill::harness::workload::history::Entry;
use firedrill::harness::workload::history::Event;
use firedrill::harness::workload::history::FaultEvent;
use firedrill::harness::workload::history::FaultPhase;
use firedrill::harness::workload::history::Fence;
use firedrill::harness::workload::history::HISTORY_FORMAT;
use firedrill::harness::workload::history::NodeState;
use firedrill::harness::workload::history::Operation;
use firedrill::harness::workload::history::Outcome;
use firedrill::harness::workload::history::PHASE_END;
use firedrill::harness::workload::history::PHASE_FINAL_READS;
use firedrill::harness::workload::history::Seen;
use firedrill::harness::workload::history::SettleEvent;
use firedrill::value::Digest;
use firedrill::value::ObjectKey;
use firedrill::value::Seed;
use firedrill::value::VersionId;

/// A key that would run a script, end a cell, colour a terminal and reverse a line.
pub const HOSTILE: &str = "<script>document.title='owned'</script>&|`x`\u{1b}[31m\u{202e}*";

/// The part of it that every page shows as text.
pub const SHOWN: &str = "<script>document.title='owned'</script>&|`x`\\u{1b}[31m\\u{202e}*";

/// The seed of both runs.
pub const SEED: Seed = Seed(20_260_930);

pub const PASS: &str = "
format: 1
scenario: vm-restart-under-load
claim: >
  An object that was acknowledged before a node's machine restarts with other mounts
  is there afterwards, whole and unchanged.
sources: [design 8]
suite: quick
testbed: { nodes: 3, drives: 4, parity: 4 }
workload: { buckets: { plain: unversioned, kept: enabled } }
steps:
  - load: { operations: 96 }
  - inject: { vm_restart: { node: 1, mounts: changed, at: put.meta_renamed } }
  - inject: { partition: { from: [0], to: [2], one_way: true } }
  - settle: { within_s: 30 }
  - check: {}
expect:
  holds: [acknowledged_writes_survive]
  provokes: { crash_points_reached: 1, ambiguous_writes: 1, nodes_restarted: 1 }
";

const CANARY: &str = "
format: 1
scenario: acknowledges-before-quorum
claim: A node that acknowledges a write when the first drive has it is caught.
suite: quick
testbed: { nodes: 1, drives: 4, parity: 2, defects: [acknowledges_before_quorum] }
workload: { buckets: { plain: unversioned } }
steps:
  - load: { operations: 24 }
  - inject: { power_cut: { nodes: all, at: put.data_renamed } }
  - settle: { within_s: 20 }
  - check: {}
expect:
  holds: [acknowledged_writes_survive]
  provokes: { faults_injected: 1 }
  fails: { finding: lost_write }
";

/// A history in the making.
pub struct Story {
    events: Vec<(u64, Event)>,
    op: u64,
}

impl Story {
    fn begin(case: &str) -> Self {
        let header = Event::Header { format: HISTORY_FORMAT, case: case.to_owned(), seed: SEED.0 };
        Self { events: vec![(0, header)], op: 0 }
    }

    fn at(&mut self, ms: u64, event: Event) {
        self.events.push((ms * 1_000, event));
    }

    fn phase(&mut self, ms: u64, name: &str) {
        self.at(ms, Event::Phase { name: name.to_owned() });
    }

    fn node(&mut self, ms: u64, node: usize, state: NodeState) {
        self.at(ms, Event::Node { node, state });
    }

    /// A request that begins and ends, or never does.
    #[expect(clippy::too_many_arguments, reason = "a request has that many parts")]
    pub fn asks(
        &mut self,
        client: u32,
        node: usize,
        from_us: u64,
        to_us: Option<u64>,
        key: &str,
        action: Action,
        ending: Ending,
    ) -> u64 {
        let op = self.op;
        self.op += 1;
        let target = ObjectKey { bucket: "plain".to_owned(), key: key.to_owned() };
        let asked = Operation { op, client, node, target, action };
        self.events.push((from_us, Event::Invoked(asked)));
        if let Some(to_us) = to_us {
            self.events.push((to_us, Event::Ended(Ending { op, ..ending })));
        }
        op
    }

    /// The text of the history.
    pub fn lines(mut self, end_ms: u64) -> String {
        self.phase(end_ms, PHASE_END);
        self.events.sort_by_key(|(at_us, _)| *at_us);
        let mut text = String::new();
        for (seq, (at_us, event)) in (0..).zip(self.events) {
            let entry = Entry { seq, at_us, event };
            text.push_str(&serde_json::to_string(&entry).expect("an entry is JSON"));
            text.push('\n');
        }
        text
    }
}

/// The ending of a request.
pub fn ending(outcome: Outcome, status: Option<u16>, reason: &str) -> Ending {
    Ending {
        op: 0,
        outcome,
        reason: reason.to_owned(),
        status,
        version: None,
        etag: None,
        delete_marker: false,
        upload: None,
        seen: None,
    }
}

/// A PUT of `size` bytes.
pub fn put(op: u64, size: u64) -> Action {
    let digest = Digest::of(&op.to_le_bytes());
    Action::Put { digest, size, etag: None, condition: Condition::Always }
}

fn fault(
    fault: u64,
    name: &str,
    phase: FaultPhase,
    nodes: &[usize],
    at: Option<&str>,
    evidence: &str,
) -> Event {
    Event::Fault(FaultEvent {
        fault,
        name: name.to_owned(),
        phase,
        nodes: nodes.to_vec(),
        drives: Vec::new(),
        at: at.map(str::to_owned),
        evidence: evidence.to_owned(),
    })
}

pub fn planned(text: &str, family: &str, name: &str) -> Plan {
    let form: ScenarioForm = firedrill::yaml::parse("story.yaml", text).expect("the story parses");
    let case = Case { name: name.to_owned(), family: family.to_owned(), value: None, form };
    plan(&case, SEED, Overrides::default()).expect("the story fits")
}

/// The history of the run that passes: `scale` times as many requests as the small one has.
pub fn passing_history(case: &str, scale: u64) -> String {
    let mut story = Story::begin(case);
    story.phase(0, "provision");
    for node in 0..3 {
        story.node(42 + node as u64 * 9, node, NodeState::Started);
        story.node(318 + node as u64 * 31, node, NodeState::Ready);
    }
    story.phase(420, "load");
    let (dead, back) = (1_620_000, 2_710_000);
    let gap = 240_000 / scale;
    for client in 0..6_u32 {
        let mut clock = 430_000 + u64::from(client) * 17_000;
        let mut turn = u64::from(client);
        while clock < 4_450_000 {
            turn += 1;
            let node = (turn % 3) as usize;
            let took =
                (gap / 3 + (turn * 7_919 + u64::from(client) * 104_729) % (gap / 2)).max(200);
            let key =
                if turn % 11 == 4 { HOSTILE.to_owned() } else { format!("k{:04}", turn % 24) };
            let is_read = turn % 4 == 3;
            let action = if is_read {
                Action::Get { version: None, range: None }
            } else {
                put(story.op, 1_024 << (turn % 7))
            };
            let is_down = node == 1 && clock < back && clock + took > dead;
            let (took, outcome) = if !is_down {
                let mut done = ending(Outcome::Acknowledged, Some(200), "");
                if is_read {
                    let digest = Some(Digest::of(&[]));
                    done.seen = Some(Seen::Object { digest, size: 4_096, written_by: Some(0) });
                }
                (took, done)
            } else if clock < dead {
                let reason = "the connection ended before an answer";
                (dead + 9_000 - clock, ending(Outcome::Ambiguous, None, reason))
            } else {
                (1_800, ending(Outcome::Refused, None, "connection refused"))
            };
            story.asks(client, node, clock, Some(clock + took), &key, action, outcome);
            clock += took + gap / 4;
        }
    }
    let point = Some("put.meta_renamed");
    story.at(
        1_620,
        fault(
            0,
            "vm_restart",
            FaultPhase::Injected,
            &[1],
            point,
            "held at put.meta_renamed on drive 1/2, then 4 processes killed",
        ),
    );
    story.node(1_622, 1, NodeState::Dead);
    story.at(
        1_650,
        fault(0, "vm_restart", FaultPhase::InForce, &[1], None, "31 operations ended meanwhile"),
    );
    story.at(2_352, Event::Fence(Fence::NodeRestarted { node: 1 }));
    story.at(
        2_355,
        fault(
            0,
            "vm_restart",
            FaultPhase::Healed,
            &[1],
            None,
            "loop 4 5 6 7 became 12 13 14 15; every mount id is new",
        ),
    );
    story.node(2_361, 1, NodeState::Started);
    story.node(2_710, 1, NodeState::Ready);
    story.at(
        3_200,
        fault(
            1,
            "partition",
            FaultPhase::Injected,
            &[0, 2],
            None,
            "0 → 2 cut; 3 connections closed",
        ),
    );
    story.at(
        3_320,
        fault(1, "partition", FaultPhase::InForce, &[0, 2], None, "12 operations ended meanwhile"),
    );
    story.at(3_905, fault(1, "partition", FaultPhase::Healed, &[0, 2], None, "0 → 2 passes again"));
    story.phase(4_600, "settle");
    story.at(4_600, Event::Settle(SettleEvent::Began { within_ms: 30_000 }));
    story.at(5_412, Event::Settle(SettleEvent::Ended { repaired: true }));
    story.at(5_412, Event::Fence(Fence::Settled));
    story.phase(5_413, PHASE_FINAL_READS);
    for turn in 0..24 {
        let mut done = ending(Outcome::Acknowledged, Some(200), "");
        done.seen = Some(Seen::Object { digest: None, size: 4_096, written_by: None });
        let from_us = 5_420_000 + turn * 18_000;
        let head = Action::Head { version: None };
        let node = (turn % 3) as usize;
        story.asks(0, node, from_us, Some(from_us + 9_000), &format!("k{turn:04}"), head, done);
    }
    story.phase(5_880, "census");
    story.lines(6_040)
}

fn canary_history(case: &str) -> String {
    let mut story = Story::begin(case);
    story.phase(0, "provision");
    story.node(38, 0, NodeState::Started);
    story.node(251, 0, NodeState::Ready);
    story.phase(260, "load");
    for turn in 0..20 {
        let from_us = 270_000 + turn * 40_000;
        let key = if turn == 17 { HOSTILE.to_owned() } else { format!("k{turn:04}") };
        let done = ending(Outcome::Acknowledged, Some(200), "");
        story.asks(0, 0, from_us, Some(from_us + 6_500), &key, put(turn, 262_144), done);
    }
    story.phase(1_080, "inject");
    story.at(
        1_092,
        fault(
            0,
            "power_cut",
            FaultPhase::Injected,
            &[0],
            Some("put.data_renamed"),
            "4 file systems shut down without flushing their log, then the node killed",
        ),
    );
    story.node(1_093, 0, NodeState::Dead);
    story.at(
        1_094,
        fault(0, "power_cut", FaultPhase::InForce, &[0], None, "no drive could be written"),
    );
    story.at(1_140, Event::Fence(Fence::NodeRestarted { node: 0 }));
    story.at(
        1_141,
        fault(
            0,
            "power_cut",
            FaultPhase::Healed,
            &[0],
            None,
            "4 drives mounted again, journals replayed",
        ),
    );
    story.node(1_150, 0, NodeState::Started);
    story.node(1_390, 0, NodeState::Ready);
    story.phase(1_400, "settle");
    story.at(1_400, Event::Settle(SettleEvent::Began { within_ms: 20_000 }));
    story.at(1_720, Event::Settle(SettleEvent::Ended { repaired: true }));
    story.at(1_720, Event::Fence(Fence::Settled));
    story.phase(1_721, PHASE_FINAL_READS);
    for turn in 0..20_u64 {
        let from_us = 1_725_000 + turn * 8_000;
        let key = if turn == 17 { HOSTILE.to_owned() } else { format!("k{turn:04}") };
        let mut done = ending(Outcome::Acknowledged, Some(200), "");
        done.seen = Some(if turn >= 17 {
            Seen::Absent
        } else {
            let digest = Some(Digest::of(&turn.to_le_bytes()));
            Seen::Object { digest, size: 262_144, written_by: Some(turn) }
        });
        let get = Action::Get { version: None, range: None };
        story.asks(0, 0, from_us, Some(from_us + 3_000), &key, get, done);
    }
    story.phase(1_900, "census");
    story.lines(1_960)
}

pub fn census(plan: &Plan, lost: bool) -> Census {
    let drive = |place: usize, name: &str| DriveCensus {
        name: name.to_owned(),
        place: Some((0, place)),
        id: Some(plan.testbed.drives[place].uuid.to_string()),
        state: DriveState::Member,
        problems: Vec::new(),
    };
    let drives = plan.testbed.drives.iter().enumerate();
    let data = plan.testbed.set_drives - plan.testbed.parity;
    let key = |number: u64| {
        let is_hostile = number == 17;
        let name = if is_hostile { HOSTILE.to_owned() } else { format!("k{number:04}") };
        let path = format!("plain/k{number:04}/xl.meta");
        let missing = |drive: usize| DriveProblem {
            drive: plan.testbed.drives[drive].name.clone(),
            kind: ProblemKind::MetadataMissing,
            path: path.clone(),
            detail: "no xl.meta; 4 of 4 belong".to_owned(),
        };
        let is_lost = lost && is_hostile;
        let problems: Vec<_> = if is_lost { (1..4).map(missing).collect() } else { Vec::new() };
        let good_shards = plan.testbed.set_drives - problems.len();
        KeyCensus {
            target: ObjectKey { bucket: "plain".to_owned(), key: name },
            set: 0,
            versions: vec![VersionCensus {
                version: VersionId::NULL,
                modtime_ns: 1_790_000_000_000_000_000,
                delete_marker: false,
                size: 262_144,
                digest: (!is_lost).then(|| Digest::of(&number.to_le_bytes())),
                etag: None,
                data_shards: data,
                parity_shards: plan.testbed.parity,
                class: if is_lost { VersionClass::Uncommitted } else { VersionClass::Full },
                metadata_copies: good_shards,
                good_shards,
                margin: good_shards as i64 - data as i64,
                problems,
            }],
            same_order: true,
            problems: Vec::new(),
        }
    };
    let bucket = BucketCensus { name: "plain".to_owned(), missing_on: Vec::new() };
    Census {
        format: CENSUS_FORMAT,
        deployment: Some(SEED.uuid("deployment").to_string()),
        drives: drives.map(|(place, drive_plan)| drive(place, &drive_plan.name)).collect(),
        buckets: vec![bucket],
        keys: (0..if lost { 18 } else { 6 }).map(key).collect(),
        surplus: Vec::new(),
        replacement: Vec::new(),
        catalog: None,
        bytes_read: 18 * 524_288,
    }
}

pub fn held(invariant: &str, examined: u64) -> Judgement {
    let invariant = invariant.to_owned();
    Judgement { invariant, verdict: Verdict::Pass, examined, excused: 0, findings: Vec::new() }
}

/// Writes the run that passes, with `scale` times as many requests as the small one has.
pub fn write_passing(root: &Path, scale: u64) -> (RunDirectory, CaseReport) {
    let plan = planned(PASS, "power", "vm-restart-under-load[put.meta_renamed]");
    let history = passing_history(&plan.case, scale);
    let judgements = vec![
        held("acknowledged_writes_survive", 68),
        held("reads_are_linearizable", 41),
        held("checksums_match", 24),
        held("every_version_is_full", 6),
        held("drives_agree", 12),
        held("nothing_leaked", 12),
        held("service_returned", 1),
    ];
    let census = census(&plan, false);
    write(root, &plan, &history, &census, judgements)
}

/// Writes the canary that is caught.
pub fn write_canary(root: &Path) -> (RunDirectory, CaseReport) {
    let plan = planned(CANARY, "canary", "acknowledges-before-quorum");
    let history = canary_history(&plan.case);
    let target = format!("plain/{HOSTILE}");
    let finding = Finding {
        kind: "lost_write".to_owned(),
        verdict: Verdict::Fail,
        target: Some(target),
        message:
            "operation 17 was acknowledged, and no later write or delete explains why operation \
                  37 finds nothing there"
                .to_owned(),
        operations: vec![17, 37],
        evidence: vec![
            "history.jsonl:46".to_owned(),
            "0/1: plain/k0017/xl.meta is missing".to_owned(),
        ],
    };
    let mut survive = held("acknowledged_writes_survive", 20);
    survive.verdict = Verdict::Fail;
    survive.findings.push(finding);
    let judgements = vec![survive, held("checksums_match", 17), held("null_version_is_unique", 17)];
    let census = census(&plan, true);
    write(root, &plan, &history, &census, judgements)
}

fn write(
    root: &Path,
    plan: &Plan,
    history: &str,
    census: &Census,
    judgements: Vec<Judgement>,
) -> (RunDirectory, CaseReport) {
    let run = RunDirectory::create(root).expect("the folder can be made");
    run.write_plan(plan).expect("the plan can be written");
    std::fs::write(run.path("history.jsonl"), history).expect("the history can be written");
    run.write_census(census).expect("the census can be written");
    for node in 0..plan.testbed.nodes {
        let log = format!("{{\"level\":\"INFO\",\"message\":\"ready\",\"node\":{node}}}\n");
        std::fs::write(run.node_log(node), log).expect("the log can be written");
    }
    let read = run.read_history().expect("the history can be read");
    let report = assemble(Gathered {
        plan,
        history: Some(&read),
        census: Some(census),
        judgements,
        stop: Stop::Ended,
        began_at: Some("2026-09-30T02:00:00Z".to_owned()),
        took_ms: None,
        today: "2026-09-30".to_owned(),
    });
    run.write_report(&report).expect("the verdict can be written");
    render_all(&run).expect("the pages can be rendered");
    (run, report)
}
