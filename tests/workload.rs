//! The workload from end to end against a small S3 server in memory, judged as a run is judged.
//!
//! No drive, no root: what is tried here is the client, the driver, the recorder, the final reads and
//! the checkers together, on a server that keeps its promises and on one that breaks them.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

#[path = "workload/stub.rs"]
mod stub;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use firedrill::harness::check;
use firedrill::harness::check::Facts;
use firedrill::harness::check::INVARIANTS;
use firedrill::harness::check::Judgement;
use firedrill::harness::check::Verdict;
use firedrill::harness::check::Witnesses;
use firedrill::harness::workload::answer::Word;
use firedrill::harness::workload::client::Client;
use firedrill::harness::workload::driver::Driver;
use firedrill::harness::workload::driver::Endpoints;
use firedrill::harness::workload::driver::LoadSummary;
use firedrill::harness::workload::generator;
use firedrill::harness::workload::generator::Geometry;
use firedrill::harness::workload::history::Action;
use firedrill::harness::workload::history::Event;
use firedrill::harness::workload::history::Fence;
use firedrill::harness::workload::history::Operation;
use firedrill::harness::workload::history::Outcome;
use firedrill::harness::workload::history::PHASE_FINAL_READS;
use firedrill::harness::workload::history::Seen;
use firedrill::harness::workload::record::History;
use firedrill::harness::workload::recorder::Recorder;
use firedrill::harness::workload::spec::LoadSpec;
use firedrill::harness::workload::spec::WhenDown;
use firedrill::harness::workload::spec::WorkloadSpec;
use firedrill::sigv4::Credentials;
use firedrill::value::ObjectKey;
use firedrill::value::Seed;
use stub::Mischief;
use stub::Stub;
use tokio::io::AsyncReadExt as _;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// The same server behind every node.
struct Nodes(Vec<Option<SocketAddr>>);

impl Endpoints for Nodes {
    fn nodes(&self) -> usize {
        self.0.len()
    }

    fn address(&self, node: usize) -> Option<SocketAddr> {
        self.0[node]
    }
}

fn credentials() -> Credentials {
    Credentials { access_key: stub::ACCESS_KEY.to_owned(), secret_key: stub::SECRET_KEY.to_owned() }
}

fn client() -> Client {
    Client::new(credentials(), "us-east-1", Duration::from_millis(2000))
}

fn spec() -> WorkloadSpec {
    let text = "{ buckets: { plain: unversioned, kept: enabled, paused: suspended }, keys: 8, \
                bytes_max: 8000000 }";
    firedrill::yaml::parse("workload", text).unwrap()
}

/// What became of a run.
struct Run {
    summary: LoadSummary,
    history: History,
    judgements: Vec<Judgement>,
}

impl Run {
    fn verdict(&self, invariant: &str) -> Verdict {
        self.judgements.iter().find(|judged| judged.invariant == invariant).unwrap().verdict
    }
}

/// Prepares, loads, settles, reads and judges, by a server with this mischief.
async fn run(mischief: Mischief, operations: u64) -> Run {
    let spec = spec();
    let stub = Stub::start(mischief).await;
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("history.jsonl");
    let recorder = Recorder::start(&path, "workload", Seed(5), |_| {}).unwrap();
    let nodes = Arc::new(Nodes(vec![Some(stub.address), Some(stub.address)]));
    let driver = Driver::new(client(), recorder.clone(), nodes);
    driver.prepare(&spec, Duration::from_secs(10)).await.unwrap();
    stub.begin_mischief();
    let load: LoadSpec =
        firedrill::yaml::parse("load", &format!("operations: {operations}")).unwrap();
    let geometry = Geometry { data_shards: 2 };
    let lists = generator::lists(&spec, std::slice::from_ref(&load), geometry, Seed(5));
    let (_stop, stopped) = watch::channel(false);
    recorder.phase("load");
    let summary = driver.load(&load, lists[0].clone(), &stopped).await;
    stub.end_mischief();
    recorder.record(Event::Fence(Fence::Settled));
    recorder.phase(PHASE_FINAL_READS);
    let buckets = spec.buckets.keys().cloned().collect::<Vec<_>>();
    let read = driver.final_reads(&buckets, 1 << 30).await;
    assert_eq!(read.unanswered, 0);
    recorder.finish().await.unwrap();

    let history = History::read(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(history.torn, None);
    let facts = Facts {
        nodes: 2,
        drives: (0..4).map(|slot| format!("{}/{}", slot / 2, slot % 2)).collect(),
        set_drives: 4,
        parity: 2,
        survives_power_loss: true,
        buckets: spec.buckets.clone(),
        principals: BTreeMap::new(),
    };
    let witnesses = Witnesses { facts: &facts, history: &history, census: None };
    let names = INVARIANTS.iter().map(|known| known.name.to_owned()).collect::<Vec<_>>();
    let judgements = check::judge(&witnesses, &names);
    Run { summary, history, judgements }
}

/// Whatever `run` found broken.
fn broken(run: &Run) -> BTreeMap<&str, String> {
    let findings = run.judgements.iter().flat_map(|judged| {
        judged.findings.iter().map(|finding| (judged.invariant.as_str(), finding))
    });
    let failing = findings.filter(|(_, finding)| finding.verdict == Verdict::Fail);
    failing.map(|(name, finding)| (name, format!("{finding:?}"))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_keeps_its_promises_passes_under_load() {
    let run = run(Mischief::None, 600).await;
    assert_eq!(broken(&run), BTreeMap::new());
    assert!(run.summary.acknowledged > 400, "{:?}", run.summary);
    assert_eq!(run.summary.ambiguous, 0);
    for name in [
        "reads_are_linearizable",
        "conditional_writes_are_atomic",
        "no_foreign_bytes",
        "checksums_match",
        "null_version_is_unique",
        "versions_are_ordered",
        "listings_agree",
        "service_returned",
    ] {
        assert_eq!(run.verdict(name), Verdict::Pass, "{name}");
    }
    // Without a census these cannot be told.
    assert_eq!(run.verdict("acknowledged_writes_survive"), Verdict::Undecided);
    let kinds = run.history.ops.iter().map(|op| std::mem::discriminant(&op.asked.action));
    let kinds = kinds.collect::<std::collections::HashSet<_>>();
    assert!(kinds.len() >= 12, "{} kinds of operations", kinds.len());
}

/// Goal: answers that get lost are no false alarm, however many they are.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_answers_are_ambiguous_and_no_finding() {
    let run = run(Mischief::LosesAnswers { one_in: 4 }, 600).await;
    assert!(run.summary.ambiguous > 60, "{:?}", run.summary);
    assert_eq!(broken(&run), BTreeMap::new());
    assert_eq!(run.verdict("reads_are_linearizable"), Verdict::Pass);
    assert_eq!(run.verdict("conditional_writes_are_atomic"), Verdict::Pass);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_acknowledged_and_dropped_is_found() {
    let run = run(Mischief::DropsWrites { one_in: 8 }, 600).await;
    assert_eq!(run.verdict("acknowledged_writes_survive"), Verdict::Fail);
    assert_eq!(run.verdict("reads_are_linearizable"), Verdict::Fail);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_that_takes_effect_is_found() {
    let run = run(Mischief::RefusesWhatItDoes { one_in: 10 }, 600).await;
    assert_eq!(run.verdict("acknowledged_writes_survive"), Verdict::Fail);
    let kinds = run.judgements[0].findings.iter().map(|finding| finding.kind.as_str());
    assert!(kinds.clone().any(|kind| kind == "refused_write_took_effect"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_that_are_not_looked_at_are_found() {
    let run = run(Mischief::IgnoresConditions, 600).await;
    assert_eq!(run.verdict("conditional_writes_are_atomic"), Verdict::Fail);
    assert_eq!(run.verdict("reads_are_linearizable"), Verdict::Pass);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_change_on_their_way_are_found() {
    let run = run(Mischief::FlipsBytes { one_in: 4 }, 400).await;
    assert_eq!(run.verdict("no_foreign_bytes"), Verdict::Fail);
    assert_eq!(run.verdict("checksums_match"), Verdict::Fail);
}

/// One exchange with a server that behaves like `behave`.
async fn against(behave: &'static [u8], reads_first: bool, action: Action) -> (Outcome, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        if reads_first {
            let mut buffer = [0; 4096];
            let _ = stream.read(&mut buffer).await;
        }
        let _ = stream.write_all(behave).await;
        if behave.is_empty() && reads_first {
            // Silent: it keeps the connection and never answers.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    });
    let target = ObjectKey { bucket: "b".to_owned(), key: "k".to_owned() };
    let operation = Operation { op: 1, client: 0, node: 0, target, action };
    let client = Client::new(credentials(), "us-east-1", Duration::from_millis(300));
    let ending = client.send(&operation, address, bytes::Bytes::new(), &[]).await;
    server.abort();
    assert!(ending.outcome == Outcome::Acknowledged || ending.seen.is_none());
    (ending.outcome, ending.reason)
}

/// Goal: the client knows how far a request got, and claims no more than it knows.
#[tokio::test]
async fn only_a_connection_that_was_refused_is_not_executed() {
    let delete = || Action::Delete { version: None };
    let get = || Action::Get { version: None, range: None };

    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let target = ObjectKey { bucket: "b".to_owned(), key: "k".to_owned() };
    let operation = Operation { op: 1, client: 0, node: 0, target, action: delete() };
    let refused = client().send(&operation, closed, bytes::Bytes::new(), &[]).await;
    assert_eq!(refused.outcome, Outcome::Refused);

    let cases: [(&[u8], bool, Action); 6] = [
        (b"", false, delete()),           // closed before it was read
        (b"", true, delete()),            // read, then silence
        (b"HTTP/1.1 20", true, delete()), // half a head
        (b"HTTP/1.1 503 x\r\ncontent-length: 0\r\n\r\n", true, delete()),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nshort", true, get()),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nshort\r\n", true, get()),
    ];
    for (behave, reads_first, action) in cases {
        let (outcome, reason) = against(behave, reads_first, action).await;
        assert_eq!(outcome, Outcome::Ambiguous, "{:?}", String::from_utf8_lossy(behave));
        assert!(!reason.is_empty());
    }
    let done = b"HTTP/1.1 204 No Content\r\n\r\n";
    assert_eq!(against(done, true, delete()).await.0, Outcome::Acknowledged);
    let denied = b"HTTP/1.1 403 x\r\ncontent-length: 0\r\n\r\n";
    assert_eq!(against(denied, true, delete()).await.0, Outcome::Refused);
}

/// Goal: a client whose node is down goes elsewhere, waits or skips as it is told, and always ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_get_past_nodes_that_are_down() {
    let stub = Stub::start(Mischief::None).await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let spec = WorkloadSpec { clients: 2, ..spec() };
    for (down, when_down, blocked) in [
        (Some(closed), WhenDown::Elsewhere, 0),
        (None, WhenDown::Elsewhere, 0),
        (Some(closed), WhenDown::Skip, 0),
        (None, WhenDown::Wait, 2),
    ] {
        let path = folder.path().join("history.jsonl");
        let recorder = Recorder::start(&path, "down", Seed(1), |_| {}).unwrap();
        let nodes = Arc::new(Nodes(vec![Some(stub.address), down]));
        let driver = Driver::new(client(), recorder.clone(), nodes);
        driver.prepare(&spec, Duration::from_secs(10)).await.unwrap();
        let mut load: LoadSpec = firedrill::yaml::parse("load", "operations: 30").unwrap();
        (load.when_down, load.down_wait_ms) = (when_down, 400);
        let lists = generator::lists(&spec, &[load.clone()], Geometry { data_shards: 2 }, Seed(9));
        let (_stop, stopped) = watch::channel(false);
        let summary = driver.load(&load, lists[0].clone(), &stopped).await;
        assert_eq!(summary.blocked, blocked, "{when_down:?} {down:?}: {summary:?}");
        assert!(recorder.ended() > 0);
        recorder.finish().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_is_emptied_deleted_and_made_again() {
    let stub = Stub::start(Mischief::None).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history.jsonl");
    let recorder = Recorder::start(&path, "anew", Seed(1), |_| {}).unwrap();
    let driver = Driver::new(client(), recorder.clone(), Arc::new(Nodes(vec![Some(stub.address)])));
    let spec = spec();
    driver.prepare(&spec, Duration::from_secs(10)).await.unwrap();
    let kind = spec.buckets["paused"];
    driver.recreate_bucket("paused", kind, 1, Duration::from_secs(10)).await.unwrap();
    recorder.finish().await.unwrap();
    let history = History::read(&std::fs::read(&path).unwrap()).unwrap();
    let mut ops = history.buckets["paused"].iter().map(|position| &history.ops[*position]);
    let deleted = ops.clone().filter(|op| op.asked.action == Action::DeleteBucket);
    assert!(deleted.clone().count() > 0 && deleted.clone().all(|op| op.is_acknowledged()));
    let listed = ops.find(|op| matches!(op.asked.action, Action::ListVersions { .. }));
    let seen = listed.and_then(|op| op.answer.as_ref()).and_then(|answer| answer.seen.clone());
    assert!(matches!(seen, Some(Seen::Listing(rows)) if !rows.is_empty()));
}

/// A target that gives its word is believed, and nobody else is.
#[tokio::test]
async fn a_targets_word_makes_a_refusal() {
    let stub = Stub::start(Mischief::None).await;
    stub.be_busy();
    let target = ObjectKey { bucket: "b".to_owned(), key: "k".to_owned() };
    let action = Action::Delete { version: None };
    let operation = Operation { op: 1, client: 0, node: 0, target, action };
    let body = bytes::Bytes::new();
    let plain = client().send(&operation, stub.address, body.clone(), &[]).await;
    assert_eq!(plain.outcome, Outcome::Ambiguous);
    let believing = client().believing(Word { slow_down_is_refusal: true });
    let refused = believing.send(&operation, stub.address, body, &[]).await;
    assert_eq!((refused.outcome, refused.reason.as_str()), (Outcome::Refused, "503 SlowDown"));
}
