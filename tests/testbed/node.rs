//! A node that is just enough of one: it speaks the control protocol, answers health, and stores what is put
//! to it as a file on its first drive. What it does wrong nobody judges.

use std::fs;
use std::fs::File;
use std::io::BufRead;
use std::io::BufReader;
use std::io::Read;
use std::io::Write;
use std::net::TcpListener;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::Condvar;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use firedrill::protocol::config::NodeConfig;
use firedrill::protocol::control::Arm;
use firedrill::protocol::control::CONTROL_FD_VARIABLE;
use firedrill::protocol::control::FromNode;
use firedrill::protocol::control::ToNode;
use firedrill::protocol::crash_point::CrashPoint;
use firedrill::protocol::crash_point::Place;
use firedrill::sys;
use firedrill::yaml;

/// How long a request to a peer may take.
const RELAY_PATIENCE: Duration = Duration::from_millis(800);

struct Node {
    config: NodeConfig,
    control: Mutex<UnixStream>,
    arms: Mutex<Vec<Arm>>,
    released: Condvar,
}

/// Serves until it is killed.
pub fn serve(config: &Path) -> ! {
    let number = std::env::var(CONTROL_FD_VARIABLE).unwrap().parse().unwrap();
    let control = UnixStream::from(sys::inherited_descriptor(number).unwrap());
    let mut lines = BufReader::new(control.try_clone().unwrap()).lines();
    let start: ToNode = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert!(matches!(start, ToNode::Start { .. }));
    let text = fs::read_to_string(config).unwrap();
    let config: NodeConfig = yaml::parse("node.yaml", &text).unwrap();
    // Held open, as a real node does.
    let roots: Vec<File> =
        config.nodes[config.node].drives.iter().map(|root| File::open(root).unwrap()).collect();
    let listener = TcpListener::bind(&config.listen).unwrap();
    let port = listener.local_addr().unwrap().port();
    let node = Arc::new(Node {
        config,
        control: Mutex::new(control),
        arms: Mutex::default(),
        released: Condvar::new(),
    });
    node.say(&FromNode::Listening { port });
    let listening = Arc::clone(&node);
    thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let mut arms = listening.arms.lock().unwrap();
            match serde_json::from_str(&line).unwrap() {
                ToNode::Arm(arm) => arms.push(arm),
                ToNode::Release { arm } => arms.retain(|other| other.id != arm),
                ToNode::Start { .. } => panic!("a second start"),
            }
            listening.released.notify_all();
        }
    });
    for stream in listener.incoming().map_while(Result::ok) {
        let node = Arc::clone(&node);
        thread::spawn(move || node.converse(stream));
    }
    drop(roots);
    unreachable!("a listener has no end")
}

impl Node {
    fn say(&self, words: &FromNode) {
        let mut line = serde_json::to_vec(words).unwrap();
        line.push(b'\n');
        self.control.lock().unwrap().write_all(&line).unwrap();
    }

    fn converse(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut writer = stream;
        while let Some(Request { method, path, body, is_last }) = read_request(&mut reader) {
            let (status, words) = self.answer(&method, &path, &body);
            let length = words.len();
            let head = format!("HTTP/1.1 {status} Words\r\ncontent-length: {length}\r\n\r\n");
            let sent = writer.write_all(format!("{head}{words}").as_bytes());
            if sent.is_err() || is_last {
                return;
            }
        }
    }

    fn answer(&self, method: &str, path: &str, body: &[u8]) -> (u16, String) {
        match (method, path) {
            (_, path) if path.starts_with("/health/") => (200, "{}".to_owned()),
            // Has this node put something to a peer.
            ("POST", path) => {
                let (peer, key) = path[1..].split_once('/').unwrap();
                let address = &self.config.nodes[peer.parse::<usize>().unwrap()].address;
                (200, relay(address, key).unwrap_or("silent").to_owned())
            }
            ("PUT", path) => match self.store(path, body) {
                Ok(()) => (200, String::new()),
                Err(error) => (500, error.to_string()),
            },
            _ => (404, String::new()),
        }
    }

    fn store(&self, path: &str, body: &[u8]) -> std::io::Result<()> {
        let root = &self.config.nodes[self.config.node].drives[0];
        let mut file = File::create(root.join(path.replace('/', "_")))?;
        file.write_all(body)?;
        file.sync_all()?;
        File::open(root)?.sync_all()?;
        self.pass(CrashPoint::PutMetaRenamed, path);
        Ok(())
    }

    /// Passes a point; parks there as long as it is armed.
    fn pass(&self, point: CrashPoint, key: &str) {
        let arms = self.arms.lock().unwrap();
        let Some(arm) = arms.iter().find(|arm| arm.point == point).map(|arm| arm.id) else {
            return;
        };
        let place = Place { drive: None, bucket: "b".to_owned(), key: key.to_owned() };
        self.say(&FromNode::Reached { arm, point, place });
        let is_armed = |arms: &mut Vec<Arm>| arms.iter().any(|other| other.id == arm);
        drop(self.released.wait_while(arms, is_armed).unwrap());
    }
}

struct Request {
    method: String,
    path: String,
    body: Vec<u8>,
    is_last: bool,
}

/// The next request; `None` when the connection ended before it was whole.
fn read_request(reader: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut first = String::new();
    if reader.read_line(&mut first).ok()? == 0 {
        return None;
    }
    let (mut length, mut is_last) = (0, false);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        is_last |= line.to_ascii_lowercase().trim() == "connection: close";
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let mut words = first.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    Some(Request { method, path, body, is_last })
}

/// Puts something to a peer; `None` when no answer came.
fn relay(address: &str, key: &str) -> Option<&'static str> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(RELAY_PATIENCE)).ok()?;
    let request = format!("PUT /relayed/{key} HTTP/1.1\r\ncontent-length: 1\r\n\r\nx");
    stream.write_all(request.as_bytes()).ok()?;
    let mut first = [0; 12];
    stream.read_exact(&mut first).ok()?;
    (&first == b"HTTP/1.1 200").then_some("answered")
}
