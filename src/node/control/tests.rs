//! A node's end and the harness's end of one socket pair.

use std::sync::mpsc;
use std::time::Duration;

use super::*;

/// How long a thing that must happen may take, and a thing that must not is waited for.
const SOON: Duration = Duration::from_secs(5);
const WHILE: Duration = Duration::from_millis(100);

struct Harness {
    socket: UnixStream,
    lines: io::Lines<BufReader<UnixStream>>,
    ended: mpsc::Receiver<()>,
}

fn start(arms: Vec<Arm>) -> (Harness, Control) {
    let (mut socket, node) = UnixStream::pair().expect("a socket pair");
    let start = ToNode::Start { defects: vec![], run_file_systems: vec![], arms };
    writeln!(socket, "{}", serde_json::to_string(&start).expect("plain data")).expect("sent");
    let (sender, ended) = mpsc::channel();
    let (control, orders) =
        Control::on(node, move || sender.send(()).unwrap_or_default()).expect("it starts");
    assert_eq!(orders, Orders::default());
    let lines = BufReader::new(socket.try_clone().expect("a descriptor")).lines();
    (Harness { socket, lines, ended }, control)
}

impl Harness {
    fn says(&mut self, word: &ToNode) {
        let line = serde_json::to_string(word).expect("plain data");
        writeln!(self.socket, "{line}").expect("sent");
    }

    fn hears(&mut self) -> FromNode {
        let line = self.lines.next().expect("a line").expect("a whole line");
        serde_json::from_str(&line).expect("a report")
    }
}

fn hold(id: u64, nth: u32, key: Option<&str>) -> Arm {
    Arm {
        id,
        point: CrashPoint::PutMetaRenamed,
        drive: None,
        bucket: None,
        key: key.map(str::to_owned),
        nth,
        action: ArmAction::Hold,
    }
}

fn place(drive: &str, key: &str) -> Place {
    Place { drive: Some(drive.to_owned()), bucket: "b".to_owned(), key: key.to_owned() }
}

/// Passes on a thread of its own; the receiver hears when it went on.
fn pass(control: &Control, place: Place) -> mpsc::Receiver<()> {
    let (sender, went_on) = mpsc::channel();
    let passing = control.passing();
    thread::spawn(move || {
        passing.pass(CrashPoint::PutMetaRenamed, &place);
        sender.send(()).unwrap_or_default();
    });
    went_on
}

#[test]
fn a_task_is_held_from_its_report_until_its_release() {
    let (mut harness, control) = start(vec![hold(7, 1, None)]);
    let held = pass(&control, place("0/1", "k"));
    let expected =
        FromNode::Reached { arm: 7, point: CrashPoint::PutMetaRenamed, place: place("0/1", "k") };
    assert_eq!(harness.hears(), expected);
    assert!(held.recv_timeout(WHILE).is_err(), "it is parked");
    let other = pass(&control, place("0/2", "k"));
    other.recv_timeout(SOON).expect("an arm acts once");
    harness.says(&ToNode::Release { arm: 7 });
    held.recv_timeout(SOON).expect("it goes on");
}

#[test]
fn passings_are_counted_per_drive_and_key() {
    let (mut harness, control) = start(vec![]);
    harness.says(&ToNode::Arm(hold(1, 2, Some("k"))));
    // The arm is known once a passing is counted by it; an earlier one does not count.
    let deadline = std::time::Instant::now() + SOON;
    while control.armed.state().arms.is_empty() {
        assert!(std::time::Instant::now() < deadline, "the arm does not arrive");
        thread::yield_now();
    }
    for place in
        [place("0/0", "k"), place("0/1", "k"), place("0/0", "other"), place("0/0", "other")]
    {
        pass(&control, place).recv_timeout(SOON).expect("none of these is a second passing of k");
    }
    let held = pass(&control, place("0/1", "k"));
    assert!(
        matches!(harness.hears(), FromNode::Reached { arm: 1, place, .. } if place == self::place("0/1", "k"))
    );
    assert!(held.recv_timeout(WHILE).is_err(), "it is parked");
    harness.says(&ToNode::Release { arm: 1 });
    held.recv_timeout(SOON).expect("it goes on");
}

/// Goal: a held coordinator must not stop the node. As many tasks are held as the runtime has
/// threads, and another task must still run.
#[test]
fn held_coordinators_leave_the_runtime_its_threads() {
    let (mut harness, control) = start((0..2).map(|id| hold(id, 1, None)).collect());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build();
    let runtime = runtime.expect("a runtime");
    for key in ["a", "b"] {
        let passing = control.passing();
        runtime.spawn(async move { passing.pass(CrashPoint::PutMetaRenamed, &place("0/0", key)) });
        assert!(matches!(harness.hears(), FromNode::Reached { .. }));
    }
    let (sender, ran) = mpsc::channel();
    runtime.spawn(async move { sender.send(()).unwrap_or_default() });
    ran.recv_timeout(SOON).expect("the runtime still runs tasks");
    harness.says(&ToNode::Release { arm: 0 });
    harness.says(&ToNode::Release { arm: 1 });
}

#[test]
fn the_end_of_the_harness_is_noticed() {
    let (harness, _control) = start(vec![]);
    let Harness { socket, lines, ended } = harness;
    drop((socket, lines));
    ended.recv_timeout(SOON).expect("the node hears of it");
}

#[test]
fn anything_but_a_start_is_refused() {
    for line in ["", "{}", r#"{"release":{"arm":1}}"#, r#"{"start":{"defects":["invented"]}}"#] {
        let (mut socket, node) = UnixStream::pair().expect("a socket pair");
        writeln!(socket, "{line}").expect("sent");
        let refused = Control::on(node, || {});
        assert!(matches!(refused.err(), Some(ControlError::Start { .. })), "{line:?}");
    }
}
