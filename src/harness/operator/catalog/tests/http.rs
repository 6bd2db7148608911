//! The same over sockets, with the client that operators use.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::io::Write as _;
use std::net::TcpListener;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use super::World;
use super::begun;
use super::orders;
use super::world::Instead;
use crate::harness::operator::catalog::ask::Ask;
use crate::harness::operator::catalog::ask::Body;
use crate::harness::operator::catalog::ask::By;
use crate::harness::operator::catalog::ask::Outcome;
use crate::harness::operator::catalog::client::Client;
use crate::harness::operator::catalog::client::Reach;
use crate::harness::operator::catalog::client::Wire as _;
use crate::harness::operator::catalog::orders::Rehearsal;
use crate::harness::operator::catalog::recorder;
use crate::harness::operator::catalog::recorder::Line;
use crate::harness::operator::catalog::recorder::Recorder;
use crate::harness::operator::catalog::rehearse;
use crate::harness::operator::catalog::rehearse::Conclusion;
use crate::harness::operator::catalog::report;
use crate::harness::report::recorded;
use crate::sigv4;
use crate::sigv4::Credentials;

const SECRET: &str = "hush-hush";

/// Serves `world` on a port of its own for as long as the test runs.
fn serve(world: Arc<World>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (world, stream) = (Arc::clone(&world), stream.unwrap());
            thread::spawn(move || answer(&world, stream));
        }
    });
    address
}

/// Reads one request, verifies its signature, and answers it; where the world loses the answer, the connection ends.
fn answer(world: &World, mut stream: TcpStream) -> Option<()> {
    let mut bytes = Vec::new();
    let head_end = loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        if let Some(at) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
            break at + 4;
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).ok()?;
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse::<usize>().ok()).unwrap_or(0);
    let mut body = bytes[head_end..].to_vec();
    while body.len() < length {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).ok().filter(|count| *count > 0)?;
        body.extend_from_slice(&buffer[..count]);
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let request = sigv4::Request { method, path, query, headers: &headers };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64;
    let verified = sigv4::verify(&request, |_| Some(SECRET.to_owned()), now);
    let by = match &verified {
        Ok(it) if it.access_key == "inside" => By::Inside,
        Ok(it) if it.access_key == "outside" => By::Outside,
        Ok(_) => By::Operator,
        Err(sigv4::SignatureError::Unsigned) => By::Nobody,
        Err(error) => panic!("{target}: {error}"),
    };
    if let Ok(it) = &verified
        && path.starts_with("/iceberg/")
    {
        assert!(it.scope.contains("/s3tables/"), "{}", it.scope);
    }
    let mut ask = Ask::new(method, path).by(by);
    ask.query = sigv4::query_pairs(query);
    ask.body = match serde_json::from_slice(&body) {
        Ok(value) => Body::Json(value),
        Err(_) => Body::Empty,
    };
    let told = world.told(&ask);
    let status = told.status?;
    let text = if told.body.is_null() { String::new() } else { told.body.to_string() };
    let text = if method == "HEAD" { String::new() } else { text };
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        text.len()
    );
    let head = if status == 204 {
        format!("HTTP/1.1 {status} X\r\nconnection: close\r\n\r\n")
    } else {
        head
    };
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(text.as_bytes()).ok()
}

fn reach(nodes: Vec<String>) -> Reach {
    let of =
        |name: &str| Credentials { access_key: name.to_owned(), secret_key: SECRET.to_owned() };
    Reach {
        nodes,
        service: "s3tables".to_owned(),
        region: "us-east-1".to_owned(),
        timeout: Duration::from_secs(20),
        starting: Duration::from_secs(5),
        credentials: BTreeMap::from([
            (By::Operator, of("operator")),
            (By::Inside, of("inside")),
            (By::Outside, of("outside")),
        ]),
    }
}

#[test]
fn a_cutover_over_sockets_is_written_down_whole_and_without_secrets() {
    let world = Arc::new(World::new());
    let address = serve(Arc::clone(&world));
    let folder = tempfile::tempdir().unwrap();
    let recorder = Arc::new(Recorder::open(folder.path()).unwrap());
    let nodes = vec![address.clone(), address];
    let wire = Arc::new(Client::new(reach(nodes), Arc::clone(&recorder)));
    let mut state = begun(orders(Rehearsal::Cutover));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut say = |_: &str| {};
    let concluded = runtime
        .block_on(rehearse::go(&wire, &recorder, folder.path(), &mut state, &mut say))
        .unwrap();
    assert_eq!(concluded, Conclusion::Over { lacking: 0 }, "{:?}", state.stopped);
    let lines = recorded::read_lines::<Line>(&folder.path().join(recorder::NAME)).unwrap();
    let asked = world.state().asked.len();
    assert_eq!(lines.entries.len(), asked, "every request stands in the file");
    for (number, line) in lines.entries.iter().enumerate() {
        assert_eq!(line.number, number as u64);
        assert!(line.step.is_some());
    }
    let markdown = std::fs::read_to_string(folder.path().join(report::MARKDOWN)).unwrap();
    assert!(markdown.contains("**Pass**"), "{markdown}");
    for step in Rehearsal::Cutover.steps() {
        assert!(markdown.contains(&step.name()), "{} is not reported", step.name());
    }
    for name in [recorder::NAME, report::MARKDOWN, report::JSON, "state.json"] {
        let text = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(!text.contains(SECRET), "{name} tells the secret");
    }
}

#[test]
fn only_a_refused_connection_was_not_executed() {
    let world = Arc::new(World::new());
    world.overrule("catalog/migration", 0, Instead::Lose);
    let address = serve(Arc::clone(&world));
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let wire = Client::new(reach(vec![address, free]), Arc::new(Recorder::none()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let at = orders(Rehearsal::Cutover);
    let at = at.at("lake");
    let lost = runtime.block_on(wire.send(&at.migrate()));
    assert_eq!((lost.told.outcome, lost.told.status), (Outcome::Unknown, None));
    let refused = runtime.block_on(wire.send(&at.migrate().to(1)));
    assert_eq!((refused.told.outcome, refused.told.status), (Outcome::Refused, None));
}
