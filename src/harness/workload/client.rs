//! One request, one answer: no retries, no pool, no guesses. It knows how far a request got.
//!
//! Every request has its own connection, so that nothing but the request itself can fail. A refused
//! connection is the only failure that proves that nothing was executed; anything later without a
//! whole answer is ambiguous. It judges nothing else and remembers nothing.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::Duration;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use base64::Engine as _;
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt as _;
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use sha2::Digest as _;
use tokio::net::TcpStream;
use tokio::time;

use super::answer;
use super::answer::Answer;
use super::answer::CONNECTION_REFUSED;
use super::answer::ListingPage;
use super::answer::Received;
use super::answer::Word;
use super::content;
use super::history::Action;
use super::history::Condition;
use super::history::Ending;
use super::history::Operation;
use super::history::Outcome;
use super::history::Seen;
use crate::sigv4;
use crate::sigv4::Credentials;
use crate::sigv4::Payload;

/// Pages after which a listing is taken for endless.
const PAGES_MAX: u32 = 10_000;
/// Bytes of the largest answer that is not contents.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// What a part of an upload is called in the request that completes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartTag {
    /// The part's number.
    pub part: u32,
    /// The ETag that its PUT was answered with, without quotes.
    pub etag: String,
}

/// Sends requests; cheap to clone.
#[derive(Debug, Clone)]
pub struct Client {
    credentials: Credentials,
    region: String,
    timeout: Duration,
    word: Word,
}

/// A request as it goes out.
struct Request {
    method: Method,
    path: String,
    query: Vec<(String, String)>,
    headers: Vec<(String, String)>,
    body: Bytes,
}

/// Why there is no whole answer.
enum Lost {
    /// The connection was refused: not executed.
    Refused,
    /// Nobody can tell.
    Unknown(String),
}

impl Client {
    /// A client that gives every answer up after `timeout`.
    pub fn new(credentials: Credentials, region: &str, timeout: Duration) -> Self {
        let word = Word::default();
        Self { credentials, region: region.to_owned(), timeout, word }
    }

    /// The same client, for a target that gives its `word`.
    pub fn believing(self, word: Word) -> Self {
        Self { word, ..self }
    }

    /// Sends `operation` to `address` and waits for its end. `body` is what a PUT carries; `parts`
    /// are the tags that complete an upload. Returns within the timeout (a listing: per page).
    pub async fn send(
        &self,
        operation: &Operation,
        address: SocketAddr,
        body: Bytes,
        parts: &[PartTag],
    ) -> Ending {
        let op = operation.op;
        let result = match &operation.action {
            Action::List { .. } | Action::ListVersions { .. } => {
                self.listing(operation, address).await
            }
            _ => {
                self.exchange(&request(operation, body, parts), address, first_byte(operation))
                    .await
            }
        };
        match result {
            Ok(Exchanged::Answer(answer)) => {
                answer::ending(op, &operation.action, &answer, self.word)
            }
            Ok(Exchanged::Listing(seen)) => Ending {
                seen: Some(seen),
                status: Some(200),
                ..answer::unanswered(op, Outcome::Acknowledged, "")
            },
            Err(Lost::Refused) => answer::unanswered(op, Outcome::Refused, CONNECTION_REFUSED),
            Err(Lost::Unknown(reason)) => answer::unanswered(op, Outcome::Ambiguous, reason),
        }
    }

    /// All pages of a listing.
    async fn listing(&self, asked: &Operation, address: SocketAddr) -> Result<Exchanged, Lost> {
        let mut rows = Vec::new();
        let mut next = Vec::new();
        for page in 0..PAGES_MAX {
            let mut request = request(asked, Bytes::new(), &[]);
            request.query.append(&mut next);
            let Exchanged::Answer(answer) = self.exchange(&request, address, None).await? else {
                break;
            };
            if answer.status != 200 {
                // A listing that breaks off has seen nothing; on its first page it may say why.
                return match page {
                    0 => Ok(Exchanged::Answer(answer)),
                    _ => Err(Lost::Unknown(format!("page {page}: {}", answer.status))),
                };
            }
            let read = match asked.action {
                Action::List { .. } => ListingPage::objects(&answer.body),
                _ => ListingPage::versions(&answer.body),
            };
            let mut read = read.map_err(Lost::Unknown)?;
            rows.append(&mut read.rows);
            match read.next {
                None => return Ok(Exchanged::Listing(Seen::Listing(rows))),
                Some(parameters) => next = parameters,
            }
        }
        Err(Lost::Unknown("a listing that does not end".to_owned()))
    }

    /// One request and its whole answer. With `contents_from`, a 2xx body is hashed, not kept.
    async fn exchange(
        &self,
        request: &Request,
        address: SocketAddr,
        contents_from: Option<u64>,
    ) -> Result<Exchanged, Lost> {
        let limit = self.timeout;
        match time::timeout(limit, self.exchange_unbounded(request, address, contents_from)).await {
            Ok(result) => result.map(Exchanged::Answer),
            Err(_) => Err(Lost::Unknown(format!("no whole answer in {} ms", limit.as_millis()))),
        }
    }

    async fn exchange_unbounded(
        &self,
        request: &Request,
        address: SocketAddr,
        contents_from: Option<u64>,
    ) -> Result<Answer, Lost> {
        let stream = match TcpStream::connect(address).await {
            Ok(stream) => stream,
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                return Err(Lost::Refused);
            }
            Err(error) => return Err(Lost::Unknown(format!("connecting: {error}"))),
        };
        // Without it, small requests would wait for acknowledgements; failing to set it only costs time.
        let _ = stream.set_nodelay(true);
        let unknown = |stage: &str| {
            let stage = stage.to_owned();
            move |error: hyper::Error| Lost::Unknown(format!("{stage}: {error}"))
        };
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(unknown("connecting"))?;
        let connection = tokio::spawn(connection);
        let signed = self.sign(request, address);
        let answered = async {
            let response =
                sender.send_request(signed).await.map_err(unknown("before an answer"))?;
            let (head, mut body) = response.into_parts();
            let text =
                |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
            let headers =
                head.headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value)));
            let mut answer = Answer {
                status: head.status.as_u16(),
                headers: headers.collect(),
                ..Answer::default()
            };
            let contents_from = contents_from.filter(|_| head.status.is_success());
            let mut receiver = content::Receiver::default();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(unknown("within the answer"))?;
                let Ok(data) = frame.into_data() else { continue };
                match contents_from {
                    Some(_) => receiver.take(&data),
                    None => answer.body.extend_from_slice(&data),
                }
                if answer.body.len() > ANSWER_BYTES_MAX {
                    return Err(Lost::Unknown("an answer without end".to_owned()));
                }
            }
            if let Some(first) = contents_from {
                let size = receiver.length();
                let (digest, written_by) = receiver.finish(first);
                answer.received = Some(Received { digest, size, written_by });
            }
            Ok(answer)
        }
        .await;
        drop(sender);
        connection.abort();
        answered
    }

    fn sign(&self, request: &Request, address: SocketAddr) -> http::Request<Full<Bytes>> {
        let query = request
            .query
            .iter()
            .map(|(name, value)| {
                format!("{}={}", sigv4::encode(name, false), sigv4::encode(value, false))
            })
            .collect::<Vec<_>>()
            .join("&");
        let mut headers = request.headers.clone();
        headers.push(("host".to_owned(), address.to_string()));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let scope = sigv4::Scope {
            region: &self.region,
            service: "s3",
            now: i64::try_from(now).unwrap_or(i64::MAX),
        };
        let plain = sigv4::Request {
            method: request.method.as_str(),
            path: &request.path,
            query: &query,
            headers: &headers,
        };
        let signed = sigv4::sign(&plain, Payload::of(&request.body), &self.credentials, &scope);
        headers.extend(signed.map(|(name, value)| (name.to_owned(), value)));
        let target = if query.is_empty() {
            request.path.clone()
        } else {
            format!("{}?{query}", request.path)
        };
        let mut builder = http::Request::builder().method(request.method.clone()).uri(target);
        for (name, value) in headers {
            builder = builder.header(name, value);
        }
        let body = Full::new(request.body.clone());
        builder.body(body).expect("paths and headers are made of encoded text")
    }
}

/// What came back.
enum Exchanged {
    Answer(Answer),
    Listing(Seen),
}

/// Where contents begin that a GET receives; `None` for everything else.
fn first_byte(operation: &Operation) -> Option<u64> {
    match operation.action {
        Action::Get { range, .. } => Some(range.map_or(0, |(first, _)| first)),
        _ => None,
    }
}

/// The request that `operation` stands for.
fn request(operation: &Operation, body: Bytes, parts: &[PartTag]) -> Request {
    let target = &operation.target;
    let bucket = format!("/{}", sigv4::encode(&target.bucket, false));
    let key = format!("{bucket}/{}", sigv4::encode(&target.key, true));
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let of_version = |version: &Option<crate::value::VersionId>| {
        version.iter().map(|version| pair("versionId", &version.to_string())).collect::<Vec<_>>()
    };
    let plain = |method, path: &str| Request {
        method,
        path: path.to_owned(),
        query: Vec::new(),
        headers: Vec::new(),
        body: Bytes::new(),
    };
    match &operation.action {
        Action::CreateBucket => plain(Method::PUT, &bucket),
        Action::DeleteBucket => plain(Method::DELETE, &bucket),
        Action::SetVersioning { enabled } => {
            let status = if *enabled { "Enabled" } else { "Suspended" };
            let text = format!(
                "<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                 <Status>{status}</Status></VersioningConfiguration>"
            );
            let query = vec![pair("versioning", "")];
            let headers = vec![content_md5(text.as_bytes())];
            Request { query, headers, body: text.into(), ..plain(Method::PUT, &bucket) }
        }
        Action::Put { condition, .. } => {
            Request { headers: conditional(condition), body, ..plain(Method::PUT, &key) }
        }
        Action::Copy { source, version, .. } => {
            let (from_bucket, from_key) =
                (sigv4::encode(&source.bucket, false), sigv4::encode(&source.key, true));
            let version = version.map(|version| format!("?versionId={version}"));
            let source = format!("/{from_bucket}/{from_key}{}", version.unwrap_or_default());
            Request {
                headers: vec![("x-amz-copy-source".to_owned(), source)],
                ..plain(Method::PUT, &key)
            }
        }
        Action::CreateUpload => {
            Request { query: vec![pair("uploads", "")], ..plain(Method::POST, &key) }
        }
        Action::PutPart { upload, part, .. } => {
            let query = vec![pair("partNumber", &part.to_string()), pair("uploadId", upload)];
            Request { query, body, ..plain(Method::PUT, &key) }
        }
        Action::CompleteUpload { upload, condition, .. } => {
            let mut text = String::from(
                "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">",
            );
            for PartTag { part, etag } in parts {
                text += &format!(
                    "<Part><ETag>&quot;{etag}&quot;</ETag><PartNumber>{part}</PartNumber></Part>"
                );
            }
            text += "</CompleteMultipartUpload>";
            let query = vec![pair("uploadId", upload)];
            let headers = conditional(condition);
            Request { query, headers, body: text.into(), ..plain(Method::POST, &key) }
        }
        Action::AbortUpload { upload } => {
            Request { query: vec![pair("uploadId", upload)], ..plain(Method::DELETE, &key) }
        }
        Action::Delete { version } => {
            Request { query: of_version(version), ..plain(Method::DELETE, &key) }
        }
        Action::Get { version, range } => {
            let headers = range
                .iter()
                .map(|(first, last)| ("range".to_owned(), format!("bytes={first}-{last}")))
                .collect();
            Request { query: of_version(version), headers, ..plain(Method::GET, &key) }
        }
        Action::Head { version } => {
            Request { query: of_version(version), ..plain(Method::HEAD, &key) }
        }
        Action::List { prefix } => {
            let query = vec![pair("list-type", "2"), pair("prefix", prefix)];
            Request { query, ..plain(Method::GET, &bucket) }
        }
        Action::ListVersions { prefix } => {
            let query = vec![pair("versions", ""), pair("prefix", prefix)];
            Request { query, ..plain(Method::GET, &bucket) }
        }
    }
}

fn conditional(condition: &Condition) -> Vec<(String, String)> {
    match condition {
        Condition::Always => Vec::new(),
        Condition::IfAbsent => vec![("if-none-match".to_owned(), "*".to_owned())],
        Condition::IfMatch(etag) => vec![("if-match".to_owned(), format!("\"{etag}\""))],
    }
}

fn content_md5(body: &[u8]) -> (String, String) {
    let digest = md5::Md5::digest(body);
    let text = base64::engine::general_purpose::STANDARD.encode(digest);
    ("content-md5".to_owned(), text)
}
