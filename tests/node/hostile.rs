//! Hostile clients: what they send is refused in words or the connection ends, in bounded time and memory, and the node
//! serves everybody else as before.

use std::fs;
use std::io;
use std::io::Read as _;
use std::io::Write as _;
use std::net::Shutdown;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use firedrill::sigv4;
use firedrill::sigv4::Credentials;
use firedrill::sigv4::Payload;
use firedrill::sigv4::Scope;

use crate::client::Client;
use crate::client::Sent;
use crate::process::ACCESS_KEY;
use crate::process::Cluster;
use crate::process::SECRET_KEY;
use crate::process::SOON;

/// How long the nodes of these tests wait for a client.
const CLIENT_WAIT: Duration = Duration::from_millis(1_500);
/// Whatever clients do, a node takes no more memory than this above what it had.
const GROWTH_BYTES_MAX: u64 = 160 << 20;

/// A node with little patience and a bucket, and the memory that it has had so far.
struct Besieged {
    cluster: Cluster,
    client: Client,
    before_bytes: u64,
}

fn besieged() -> Besieged {
    let mut cluster = Cluster::new(1, 4);
    let wait_ms = CLIENT_WAIT.as_millis().try_into().expect("a short wait");
    cluster.configure(|config| config.limits.client_wait_ms = wait_ms);
    cluster.start(0);
    cluster.wait_ready(0);
    let client = cluster.client(0);
    client.put("/bucket", b"").expect(200);
    client.put("/bucket/kept", &vec![5; 3_000_000]).expect(200);
    let before_bytes = cluster.peak_bytes(0);
    Besieged { cluster, client, before_bytes }
}

impl Besieged {
    /// The node serves as before, and has taken no more memory than it may.
    #[track_caller]
    fn stands(&self) {
        self.client.put("/bucket/after", &vec![6; 400_000]).expect(200);
        assert!(self.client.get("/bucket/after").expect(200).body == vec![6; 400_000]);
        assert!(self.client.get("/bucket/kept").expect(200).body == vec![5; 3_000_000]);
        let grown = self.cluster.peak_bytes(0).saturating_sub(self.before_bytes);
        assert!(grown < GROWTH_BYTES_MAX, "it took {} MiB more", grown >> 20);
        let log = fs::read_to_string(self.cluster.log(0)).expect("a log");
        assert!(!log.contains("a request failed inside"), "{log}");
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.cluster.address(0)).expect("a connection");
        stream.set_read_timeout(Some(SOON)).expect("a timeout");
        stream
    }

    /// Sends bytes as they are, and reads whatever comes until the connection ends.
    fn raw(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect();
        // It may be refused before it was sent whole.
        let _ = stream.write_all(bytes);
        rest(&mut stream)
    }

    /// The head of a signed request at `now` (Unix seconds), whose body is not signed.
    fn head(&self, method: &str, target: &str, more: &[(&str, &str)], now: i64) -> String {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut headers = vec![("host".to_owned(), self.cluster.address(0).to_owned())];
        headers.extend(more.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        let request = sigv4::Request { method, path, query, headers: &headers };
        let signed = sigv4::sign(&request, Payload::Unsigned, &credentials(), &scope(now));
        headers.extend(signed.map(|(name, value)| (name.to_owned(), value)));
        let lines = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
        format!("{method} {target} HTTP/1.1\r\n{}\r\n", lines.collect::<String>())
    }
}

fn credentials() -> Credentials {
    Credentials { access_key: ACCESS_KEY.to_owned(), secret_key: SECRET_KEY.to_owned() }
}

fn scope(now: i64) -> Scope<'static> {
    Scope { region: "us-east-1", service: "s3", now }
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    since.as_secs().cast_signed()
}

/// What a connection brings until its end.
fn rest(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    match stream.read_to_end(&mut bytes) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
        Err(error) => panic!("the connection does not end: {error}"),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// Whether a client learns that nothing was done: in words, or by the end of its connection.
#[track_caller]
fn refused(answer: &str, what: &str) {
    let is_refusal = answer.is_empty() || (400..500).contains(&status(answer));
    assert!(is_refusal, "{what}: {answer}");
}

/// Goal: a body that is shorter than announced, stops, or trickles ends in the node's time, not in the client's, and
/// nothing of it becomes an object.
#[test]
fn a_body_that_does_not_come_is_not_waited_for() {
    let besieged = besieged();
    let put = |key: &str, length: &str| {
        besieged.head("PUT", &format!("/bucket/{key}"), &[("content-length", length)], now())
    };
    let mut short = besieged.connect();
    short.write_all((put("short", "1000") + "only this").as_bytes()).expect("sent");
    short.shutdown(Shutdown::Write).expect("ended");
    refused(&rest(&mut short), "a body that is cut off");

    let began = Instant::now();
    let mut silent = besieged.connect();
    silent.write_all((put("silent", "3000000") + "and nothing more").as_bytes()).expect("sent");
    let mut trickling = besieged.connect();
    trickling.write_all(put("trickling", "3000000").as_bytes()).expect("sent");
    let mut chunked = besieged.connect();
    let head = besieged.head("PUT", "/bucket/chunked", &[("transfer-encoding", "chunked")], now());
    chunked.write_all((head + "5\r\nhello\r\n").as_bytes()).expect("sent");
    let mut versioning = besieged.connect();
    let head = besieged.head("PUT", "/bucket?versioning", &[("content-length", "500")], now());
    versioning.write_all((head + "<VersioningConf").as_bytes()).expect("sent");
    while trickling.write_all(b"x").is_ok() {
        assert!(began.elapsed() < SOON, "a trickle is taken for ever");
        thread::sleep(Duration::from_millis(50));
    }
    for (stream, what) in [
        (&mut silent, "a body that stops"),
        (&mut trickling, "a body that trickles"),
        (&mut chunked, "a body without an end"),
        (&mut versioning, "a document that stops"),
    ] {
        refused(&rest(stream), what);
    }
    assert!(began.elapsed() < 6 * CLIENT_WAIT, "{:?}", began.elapsed());
    for key in ["short", "silent", "trickling", "chunked"] {
        besieged.client.get(&format!("/bucket/{key}")).expect(404);
    }
    let unsent = besieged.cluster.drive(0, 0).join(".rustfs.sys/tmp");
    besieged.cluster.wait(0, "rid of what did not come", || {
        let entries = fs::read_dir(&unsent).expect("a folder").flatten();
        entries.filter(|entry| entry.file_name() != ".trash").count() == 0
    });
    besieged.stands();
}

/// Goal: bytes past the announced length are no part of the object, and no request of anybody.
#[test]
fn bytes_behind_a_body_are_no_part_of_it() {
    let besieged = besieged();
    let head = besieged.head("PUT", "/bucket/five", &[("content-length", "5")], now());
    let answer = besieged.raw(&[head.as_bytes(), b"hello", &[b'x'; 200_000]].concat());
    assert_eq!(status(&answer), 200, "{answer}");
    assert_eq!(besieged.client.get("/bucket/five").expect(200).body, b"hello");
    for lengths in [
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: 5\r\ntransfer-encoding: chunked\r\n",
        "content-length: -1\r\n",
        "content-length: 18446744073709551616\r\n",
        "content-length: 0x5\r\n",
    ] {
        let answer = besieged
            .raw(format!("PUT /bucket/lies HTTP/1.1\r\nhost: h\r\n{lengths}\r\nhello").as_bytes());
        refused(&answer, lengths);
    }
    // More than any object can have.
    let head =
        besieged.head("PUT", "/bucket/lies", &[("content-length", "9223372036854775807")], now());
    refused(&besieged.raw(head.as_bytes()), "an endless length");
    besieged.client.get("/bucket/lies").expect(404);
    besieged.stands();
}

#[test]
fn floods_of_headers_are_refused() {
    let besieged = besieged();
    let many: String = (0..20_000).map(|at| format!("x-{at}: y\r\n")).collect();
    let large = format!("x-large: {}\r\n", "y".repeat(4 << 20));
    let target = "t".repeat(1 << 20);
    for (flood, what) in [
        (format!("GET /bucket/kept HTTP/1.1\r\nhost: h\r\n{many}\r\n"), "many"),
        (format!("GET /bucket/kept HTTP/1.1\r\nhost: h\r\n{large}\r\n"), "large"),
        (format!("GET /bucket/kept HTTP/1.1\r\nhost: h\r\n{}", "x".repeat(8 << 20)), "no end"),
        (format!("GET /{target} HTTP/1.1\r\nhost: h\r\n\r\n"), "a long target"),
        ("\0\u{1}\u{2} nonsense \r\n\r\n".to_owned(), "nonsense"),
        ("\r\n".repeat(100_000), "empty lines"),
    ] {
        refused(&besieged.raw(flood.as_bytes()), what);
    }
    let metadata: Vec<_> =
        (0..90).map(|at| (format!("x-amz-meta-{at}"), "m".repeat(1_000))).collect();
    let metadata: Vec<_> = metadata.iter().map(|(name, value)| (&**name, &**value)).collect();
    let answer = besieged.client.send("PUT", "/bucket/m", &metadata, b"");
    assert!((400..500).contains(&answer.status), "metadata of 90 KB: {answer}");
    besieged.stands();
}

/// Goal: connections that say nothing cost little, keep no client out, and are ended by the node.
#[test]
fn two_thousand_silent_connections_keep_nobody_out() {
    let besieged = besieged();
    let began = Instant::now();
    let mut silent: Vec<TcpStream> = (0..2_000).map(|_| besieged.connect()).collect();
    for (at, stream) in silent.iter_mut().enumerate() {
        // Some have begun a head, and go on no more.
        if at % 2 == 0 {
            stream.write_all(b"GET /bucket/kept HTTP/1.1\r\nhost").expect("sent");
        }
    }
    for _ in 0..5 {
        assert!(besieged.client.get("/bucket/kept").expect(200).body == vec![5; 3_000_000]);
    }
    besieged.stands();
    for stream in &mut silent {
        refused(&rest(stream), "silence");
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    besieged.stands();
}

#[test]
fn no_more_connections_are_held_than_the_limit_says() {
    let mut cluster = Cluster::new(1, 4);
    cluster.configure(|config| config.limits.connections_max = 20);
    cluster.start(0);
    cluster.wait_ready(0);
    let connect = || TcpStream::connect(cluster.address(0)).expect("a connection");
    let held: Vec<TcpStream> = (0..20).map(|_| connect()).collect();
    cluster.wait(0, "full", || {
        let mut one_more = connect();
        one_more.set_read_timeout(Some(Duration::from_millis(500))).expect("a timeout");
        let mut byte = [0];
        // Closed at once: nothing, or a reset; a held one says nothing until the timeout.
        match one_more.read(&mut byte) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    });
    drop(held);
    cluster.wait(0, "open again", || cluster.client(0).plain("GET", "/health/live").is_ok());
}

/// Goal: an answer that nobody reads is given up.
#[test]
fn an_answer_that_nobody_reads_is_not_kept_for_ever() {
    let besieged = besieged();
    let large = vec![7; 40 << 20];
    besieged
        .client
        .try_send("PUT", "/bucket/large", &[], Sent::Unsigned(&large))
        .expect("an answer")
        .expect(200);
    let streams: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = besieged.connect();
            let head = besieged.head("GET", "/bucket/large", &[], now());
            stream.write_all(head.as_bytes()).expect("sent");
            stream
        })
        .collect();
    besieged.cluster.wait(0, "rid of who does not read", || {
        let table = fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
        let ports: Vec<String> = streams
            .iter()
            .map(|stream| format!(":{:04X}", stream.local_addr().expect("an address").port()))
            .collect();
        // The node's ends: their remote port is one of ours, and they are established.
        let held = table.lines().skip(1).filter(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields[3] == "01" && ports.iter().any(|port| fields[2].ends_with(port))
        });
        held.count() == 0
    });
    assert!(besieged.client.get("/bucket/large").expect(200).body == large);
}

/// Goal: every operation that reads a document refuses what is none in words, at once and whatever its size.
#[test]
fn documents_that_are_none_are_refused() {
    let besieged = besieged();
    let client = &besieged.client;
    let created = client.send("POST", "/bucket/parts?uploads", &[], b"").expect(200);
    let complete = format!("/bucket/parts?uploadId={}", created.element("UploadId"));
    let operations =
        [("PUT", "/bucket?versioning"), ("POST", "/bucket?delete"), ("POST", complete.as_str())];
    let laughs: String =
        (1..30).map(|at| format!("<!ENTITY l{at} \"&l{0};&l{0};\">", at - 1)).collect();
    let laughs = format!("<!DOCTYPE x [<!ENTITY l0 \"ha\">{laughs}]><Delete>&l29;</Delete>");
    let deep = "<a>".repeat(200_000);
    let many = format!("<Delete>{}</Delete>", "<Object><Key>k</Key></Object>".repeat(1_001));
    let huge = format!("<Delete>{}</Delete>", " ".repeat(24 << 20));
    let documents: [(&str, &[u8]); 12] = [
        ("nothing", b""),
        ("a torn one", b"<Delete><Object><Key>k</Ke"),
        ("another one", b"<Unknown/>"),
        ("no XML", b"{\"json\": true}"),
        ("no UTF-8", b"<Delete><Object><Key>\xff\xfe</Key></Object></Delete>"),
        ("a zero", b"<Delete>\0</Delete>"),
        ("a wrong end", b"<Delete><Object></Delete></Object>"),
        ("a wrong number", b"<CompleteMultipartUpload><Part><PartNumber>99999999999</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>"),
        ("entities", laughs.as_bytes()),
        ("depth", deep.as_bytes()),
        ("too many", many.as_bytes()),
        ("too much", huge.as_bytes()),
    ];
    for (method, target) in operations {
        for (what, document) in &documents {
            let began = Instant::now();
            let md5 = md5_of(document);
            let answer =
                client.try_send(method, target, &[("content-md5", &md5)], Sent::Whole(document));
            let answer = match answer {
                Ok(answer) => answer,
                // It was refused, and its connection ended, before it was sent whole.
                Err(_) if document.len() > 1 << 20 => continue,
                Err(error) => panic!("{method} {target} with {what}: {error}"),
            };
            let status = answer.status;
            assert!((400..500).contains(&status), "{method} {target} with {what}: {answer}");
            assert!(began.elapsed() < Duration::from_secs(10), "{what} took {:?}", began.elapsed());
        }
    }
    besieged.stands();
}

fn md5_of(bytes: &[u8]) -> String {
    use base64::Engine as _;
    use md5::Digest as _;
    base64::prelude::BASE64_STANDARD.encode(md5::Md5::digest(bytes))
}

#[test]
fn signatures_count_for_their_secret_their_time_and_their_request() {
    let besieged = besieged();
    let cases = [
        (now() - 20 * 60, "RequestTimeTooSkewed"),
        (now() + 20 * 60, "RequestTimeTooSkewed"),
        (0, "RequestTimeTooSkewed"),
    ];
    for (at, code) in cases {
        let head = besieged.head("GET", "/bucket/kept", &[("connection", "close")], at);
        let answer = besieged.raw(head.as_bytes());
        assert_eq!(status(&answer), 403, "{answer}");
        assert!(answer.contains(code), "{at}: {answer}");
    }
    let head = besieged.head("GET", "/bucket/kept", &[("connection", "close")], now());
    for (from, to) in [
        ("/bucket/kept", "/bucket/other"),
        ("GET ", "PUT "),
        ("Signature=", "Signature=0"),
        ("x-amz-date: 2", "x-amz-date: 3"),
        ("Credential=test-key", "Credential=test-kex"),
        ("AWS4-HMAC-SHA256 ", "AWS4-HMAC-SHA256"),
        ("SignedHeaders=connection;", "SignedHeaders="),
    ] {
        assert!(head.contains(from), "{head}");
        let answer = besieged.raw(head.replacen(from, to, 1).as_bytes());
        refused(&answer, from);
        assert!(!answer.is_empty(), "{from} for {to}");
    }
    let headers = [("host".to_owned(), besieged.cluster.address(0).to_owned())];
    let request =
        sigv4::Request { method: "GET", path: "/bucket/kept", query: "", headers: &headers };
    let presigned =
        |at: i64, expires_s: u32| sigv4::presign(&request, &credentials(), &scope(at), expires_s);
    let ask = |query: &str| {
        besieged.client.plain("GET", &format!("/bucket/kept?{query}")).expect("an answer")
    };
    let good = presigned(now(), 60);
    ask(&good).expect(200);
    ask(&presigned(now() - 120, 60)).expect(403);
    ask(&presigned(now() + 3_600, 60)).expect(403);
    ask(&good.replace("Expires=60", "Expires=600")).expect(403);
    ask(&presigned(now() - 8 * 86_400, 9 * 86_400)).expect(400);
    ask(&presigned(now(), u32::MAX)).expect(400);
    // The same URL once more, past its time.
    let short = presigned(now() - 58, 60);
    besieged.cluster.wait(0, "past it", || ask(&short).status == 403);
    besieged.stands();
}

/// Goal: no name leads out of its bucket, and none to the system's own files.
#[test]
fn names_lead_nowhere_else() {
    let besieged = besieged();
    let list = |folder: &std::path::Path| {
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name()).collect();
        names.sort();
        names
    };
    let (outside, drive) = (besieged.cluster.folder.path(), besieged.cluster.drive(0, 0));
    let before = (list(outside), list(drive), list(&drive.join(".rustfs.sys")));
    // S3 takes these for names like any other: they are stored below their bucket, and come back.
    for target in [
        "/bucket/../escaped",
        "/bucket/%2e%2e/escaped",
        "/bucket/..%2Fescaped",
        "/bucket/a/%2e%2e/%2e%2e/escaped",
        "/bucket/a%2F..%2F..%2Fescaped",
        "/bucket/./a",
        "/bucket/a/xl.meta",
        "/bucket/a/xl.meta/b",
        "/bucket/a__XLDIR__",
        "/bucket%2F..%2F..%2Fescaped/k",
    ] {
        besieged.client.put(target, b"escaped").expect(200);
        assert_eq!(besieged.client.get(target).expect(200).body, b"escaped", "GET {target}");
        let source = [("x-amz-copy-source", target)];
        besieged.client.send("PUT", "/bucket/copied", &source, b"").expect(200);
        assert_eq!(before, (list(outside), list(drive), list(&drive.join(".rustfs.sys"))));
        besieged.client.delete(target).expect(204);
        besieged.client.get(target).expect(404);
        besieged.client.delete("/bucket/copied").expect(204);
    }
    let long = format!("/bucket/{}", "k".repeat(1_025));
    for target in [
        "/bucket/a%00b",
        "/.rustfs.sys/format.json",
        "/.rustfs.sys/buckets/escaped",
        "/%2e%2e/escaped",
        "/..%2F..%2Fetc/passwd",
        &long,
    ] {
        let put = besieged.client.put(target, b"escaped");
        assert!((400..500).contains(&put.status), "PUT {target}: {put}");
        let got = besieged.client.get(target);
        assert!((400..500).contains(&got.status), "GET {target}: {got}");
        let deleted = besieged.client.delete(target);
        assert!((204..500).contains(&deleted.status), "DELETE {target}: {deleted}");
        let source = [("x-amz-copy-source", target)];
        let copied = besieged.client.send("PUT", "/bucket/copied", &source, b"");
        assert!((400..500).contains(&copied.status), "copy of {target}: {copied}");
    }
    for bucket in
        ["/..", "/.rustfs.sys", "/%2e%2e", "/a", "/UPPER", "/127.0.0.1", "/a..b", "/a%2Fb%2Fc"]
    {
        let made = besieged.client.put(bucket, b"");
        assert!((400..500).contains(&made.status), "{bucket}: {made}");
    }
    assert_eq!(before, (list(outside), list(drive), list(&drive.join(".rustfs.sys"))));
    besieged.client.get("/bucket/copied").expect(404);
    besieged.stands();
}
