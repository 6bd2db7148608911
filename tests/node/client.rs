//! A small client: one connection a request, signed, no retries.

use std::collections::BTreeMap;
use std::io;
use std::io::Read as _;
use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use firedrill::sigv4;
use firedrill::sigv4::ChunkSigner;
use firedrill::sigv4::Credentials;
use firedrill::sigv4::Payload;
use firedrill::sigv4::Scope;

/// Speaks to one node.
#[derive(Clone)]
pub struct Client {
    address: String,
    credentials: Credentials,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl Answer {
    /// The answer, which must have this status.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{self}");
        self
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header that must be there.
    #[track_caller]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).unwrap_or_else(|| panic!("no {name} in {self}"))
    }

    /// The contents of the first XML element with this name.
    #[track_caller]
    pub fn element(&self, name: &str) -> String {
        let found = self.elements(name);
        found.into_iter().next().unwrap_or_else(|| panic!("no {name} in {self}"))
    }

    /// The contents of all XML elements with this name.
    pub fn elements(&self, name: &str) -> Vec<String> {
        let (text, open, close) = (self.text(), format!("<{name}>"), format!("</{name}>"));
        let pieces = text.split(&open).skip(1);
        pieces.filter_map(|piece| Some(piece.split_once(&close)?.0.to_owned())).collect()
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body = self.text();
        let body: String = body.chars().take(600).collect();
        write!(f, "{} {:?}\n{body}", self.status, self.headers)
    }
}

/// How a body is sent.
pub enum Sent<'a> {
    /// As it is, covered by the signature.
    Whole(&'a [u8]),
    /// As it is, not covered.
    Unsigned(&'a [u8]),
    /// In signed chunks of 64 KiB.
    SignedChunks(&'a [u8]),
    /// In one chunk with a checksum behind it.
    Trailer(&'a [u8], &'a str, &'a str),
}

impl Client {
    pub fn new(address: &str, access_key: &str, secret_key: &str) -> Self {
        let (access_key, secret_key) = (access_key.to_owned(), secret_key.to_owned());
        Self { address: address.to_owned(), credentials: Credentials { access_key, secret_key } }
    }

    /// Sends a request that is signed over its whole body. `target` is a path with or without a query.
    #[track_caller]
    pub fn send(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        self.try_send(method, target, headers, Sent::Whole(body)).expect("an answer")
    }

    pub fn get(&self, target: &str) -> Answer {
        self.send("GET", target, &[], b"")
    }

    pub fn put(&self, target: &str, body: &[u8]) -> Answer {
        self.send("PUT", target, &[], body)
    }

    pub fn delete(&self, target: &str) -> Answer {
        self.send("DELETE", target, &[], b"")
    }

    pub fn try_send(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        sent: Sent<'_>,
    ) -> io::Result<Answer> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut all = vec![("host".to_owned(), self.address.clone())];
        all.extend(headers.iter().map(|(name, value)| ((*name).into(), (*value).into())));
        let mut add = |name: &str, value: String| all.push((name.to_owned(), value));
        let payload = match &sent {
            Sent::Whole(body) => {
                add("content-length", body.len().to_string());
                Payload::of(body)
            }
            Sent::Unsigned(body) => {
                add("content-length", body.len().to_string());
                Payload::Unsigned
            }
            Sent::SignedChunks(body) => {
                add("content-encoding", "aws-chunked".to_owned());
                add("x-amz-decoded-content-length", body.len().to_string());
                Payload::SignedChunks
            }
            Sent::Trailer(body, name, _) => {
                add("content-encoding", "aws-chunked".to_owned());
                add("x-amz-decoded-content-length", body.len().to_string());
                add("x-amz-trailer", (*name).to_owned());
                Payload::UnsignedChunksTrailer
            }
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
        let scope = Scope { region: "us-east-1", service: "s3", now: now.cast_signed() };
        let request = sigv4::Request { method, path, query, headers: &all };
        let signed = sigv4::sign(&request, payload, &self.credentials, &scope);
        let body = match sent {
            Sent::Whole(body) | Sent::Unsigned(body) => body.to_vec(),
            Sent::SignedChunks(body) => {
                let seed = sigv4::signature_of(&signed[2].1).expect("it was just made");
                let mut signer = ChunkSigner::new(&self.credentials, &scope, seed);
                let chunks = body.chunks(64 << 10).chain([&b""[..]]);
                chunks.flat_map(|chunk| signer.frame(chunk)).collect()
            }
            Sent::Trailer(body, name, value) => {
                let head = format!("{:x}\r\n", body.len());
                let tail = format!("\r\n0\r\n{name}:{value}\r\n\r\n");
                [head.as_bytes(), body, tail.as_bytes()].concat()
            }
        };
        if !all.iter().any(|(name, _)| name == "content-length") {
            all.push(("content-length".to_owned(), body.len().to_string()));
        }
        all.extend(signed.map(|(name, value)| (name.to_owned(), value)));
        self.exchange(method, target, &all, &body)
    }

    /// Sends a request that is not signed.
    pub fn plain(&self, method: &str, target: &str) -> io::Result<Answer> {
        let headers = [("host".to_owned(), self.address.clone())];
        self.exchange(method, target, &headers, b"")
    }

    fn exchange(
        &self,
        method: &str,
        target: &str,
        headers: &[(String, String)],
        body: &[u8],
    ) -> io::Result<Answer> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut head = format!("{method} {target} HTTP/1.1\r\nconnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes())?;
        // A node may answer a refused request before it has read the body.
        let sent = stream.write_all(body);
        let mut bytes = Vec::new();
        let read = stream.read_to_end(&mut bytes);
        if bytes.is_empty() {
            sent?;
            read?;
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        parse(&bytes, method).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

fn parse(bytes: &[u8], method: &str) -> Option<Answer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let (head, body) = (std::str::from_utf8(&bytes[..end]).ok()?, &bytes[end + 4..]);
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: BTreeMap<_, _> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let body = if headers.get("transfer-encoding").is_some_and(|value| value == "chunked") {
        unchunk(body)?
    } else {
        body.to_vec()
    };
    let length = headers.get("content-length").and_then(|length| length.parse().ok());
    let is_whole = method == "HEAD"
        || status == 304
        || length.is_none_or(|length: usize| length == body.len());
    is_whole.then_some(Answer { status, headers, body })
}

fn unchunk(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = bytes.windows(2).position(|window| window == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..line]).ok()?, 16).ok()?;
        bytes = &bytes[line + 2..];
        if size == 0 {
            return Some(body);
        }
        body.extend_from_slice(bytes.get(..size)?);
        bytes = bytes.get(size + 2..)?;
    }
}
