//! A small S3 server in memory, one lock around everything: linearizable by construction, unless it is
//! told to break a promise. It verifies every signature.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;

use bytes::Bytes;
use firedrill::sigv4;
use firedrill::value::VersionId;
use http::Method;
use http::Response;
use http_body_util::BodyExt as _;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use md5::Digest as _;
use tokio::net::TcpListener;
use uuid::Uuid;

pub const ACCESS_KEY: &str = "stub";
pub const SECRET_KEY: &str = "not a secret";

/// Which promise is broken, while mischief is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mischief {
    None,
    /// The connection ends instead of an answer; half of these requests take effect.
    LosesAnswers {
        one_in: u64,
    },
    /// A put is acknowledged and does nothing.
    DropsWrites {
        one_in: u64,
    },
    /// A put takes effect and is answered with 409.
    RefusesWhatItDoes {
        one_in: u64,
    },
    /// Preconditions are taken for true.
    IgnoresConditions,
    /// A byte of what a GET answers is another.
    FlipsBytes {
        one_in: u64,
    },
}

/// A running server; it ends with its runtime.
pub struct Stub {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

struct State {
    buckets: BTreeMap<String, Bucket>,
    uploads: BTreeMap<String, BTreeMap<u32, Bytes>>,
    mischief: Mischief,
    is_on: bool,
    is_busy: bool,
    requests: u64,
}

#[derive(Default)]
struct Bucket {
    /// `None` until versioning was touched.
    enabled: Option<bool>,
    /// Newest last.
    keys: BTreeMap<String, Vec<Version>>,
}

#[derive(Clone)]
struct Version {
    id: VersionId,
    /// Contents and ETag; `None` for a marker.
    object: Option<(Bytes, String)>,
}

/// A request as the handlers see it.
struct Asked {
    method: Method,
    bucket: String,
    key: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Bytes,
}

type Answer = Response<Full<Bytes>>;

impl Stub {
    pub async fn start(mischief: Mischief) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(State {
            buckets: BTreeMap::new(),
            uploads: BTreeMap::new(),
            mischief,
            is_on: false,
            is_busy: false,
            requests: 0,
        }));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                tokio::spawn(async move {
                    let serve = service_fn(move |request| serve(Arc::clone(&state), request));
                    // An answer that is lost on purpose ends the connection with an error.
                    let _ =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), serve).await;
                });
            }
        });
        Self { address, state }
    }

    pub fn begin_mischief(&self) {
        self.state.lock().unwrap().is_on = true;
    }

    pub fn end_mischief(&self) {
        self.state.lock().unwrap().is_on = false;
    }

    pub fn be_busy(&self) {
        self.state.lock().unwrap().is_busy = true;
    }
}

/// The answer was lost on purpose.
#[derive(Debug, thiserror::Error)]
#[error("lost")]
struct Lost;

async fn serve(state: Arc<Mutex<State>>, request: http::Request<Incoming>) -> Result<Answer, Lost> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Lost)?.to_bytes();
    let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.as_str().to_owned(), value.to_str().unwrap().to_owned())
    };
    let headers = head.headers.iter().map(header).collect::<Vec<_>>();
    let path = head.uri.path();
    let query = head.uri.query().unwrap_or_default();
    let signed = sigv4::Request { method: head.method.as_str(), path, query, headers: &headers };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let secret = |key: &str| (key == ACCESS_KEY).then(|| SECRET_KEY.to_owned());
    let verified = sigv4::verify(&signed, secret, i64::try_from(now.as_secs()).unwrap());
    let verified = verified.unwrap_or_else(|error| panic!("{error}: {path}?{query}"));
    assert_eq!(
        verified.payload,
        sigv4::Payload::of(&body).header(),
        "the body is not what was signed"
    );

    let decode = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.as_bytes();
        while let Some((first, after)) = rest.split_first() {
            if *first == b'%' {
                bytes.push(
                    u8::from_str_radix(std::str::from_utf8(&after[..2]).unwrap(), 16).unwrap(),
                );
                rest = &after[2..];
            } else {
                bytes.push(*first);
                rest = after;
            }
        }
        String::from_utf8(bytes).unwrap()
    };
    let (bucket, key) = path[1..].split_once('/').unwrap_or((&path[1..], ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let asked = Asked {
        method: head.method.clone(),
        bucket: decode(bucket),
        key: decode(key),
        query: pairs.map(|(name, value)| (decode(name), decode(value))).collect(),
        headers: headers.into_iter().collect(),
        body,
    };
    let mut state = state.lock().unwrap();
    state.requests += 1;
    let mischief = if state.is_on { state.mischief } else { Mischief::None };
    let number = state.requests;
    let strikes =
        |one_in: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & 0xffff < 0x1_0000 / one_in;
    let is_put = asked.method == Method::PUT && !asked.key.is_empty() && asked.query.is_empty();
    if state.is_busy {
        return Ok(error(503, "SlowDown"));
    }
    match mischief {
        Mischief::LosesAnswers { one_in } if strikes(one_in) => {
            if number.is_multiple_of(2) {
                state.answer(&asked, false);
            }
            Err(Lost)
        }
        Mischief::DropsWrites { one_in } if is_put && strikes(one_in) => {
            let kept = state
                .buckets
                .get(&asked.bucket)
                .and_then(|bucket| bucket.keys.get(&asked.key).cloned());
            let answer = state.answer(&asked, false);
            if let Some(bucket) = state.buckets.get_mut(&asked.bucket) {
                bucket.keys.insert(asked.key.clone(), kept.unwrap_or_default());
            }
            Ok(answer)
        }
        Mischief::RefusesWhatItDoes { one_in } if is_put && strikes(one_in) => {
            state.answer(&asked, false);
            Ok(error(409, "OperationAborted"))
        }
        Mischief::IgnoresConditions => Ok(state.answer(&asked, true)),
        Mischief::FlipsBytes { one_in } if asked.method == Method::GET && strikes(one_in) => {
            let answer = state.answer(&asked, false);
            let (head, body) = answer.into_parts();
            let mut bytes = body.into_inner().unwrap_or_default().to_vec();
            let is_contents = !asked.key.is_empty() && head.status.is_success();
            if let Some(last) = bytes.last_mut().filter(|_| is_contents) {
                *last ^= 1;
            }
            Ok(Response::from_parts(head, Full::from(bytes)))
        }
        _ => Ok(state.answer(&asked, false)),
    }
}

impl State {
    fn answer(&mut self, asked: &Asked, ignores_conditions: bool) -> Answer {
        let asks = |name: &str| asked.query.contains_key(name);
        match (&asked.method, asked.key.is_empty()) {
            (&Method::PUT, true) if asks("versioning") => {
                let text = std::str::from_utf8(&asked.body).unwrap();
                let bucket = self.buckets.get_mut(&asked.bucket).unwrap();
                bucket.enabled = Some(text.contains("Enabled"));
                ok(Vec::new(), "")
            }
            (&Method::PUT, true) => {
                self.buckets.entry(asked.bucket.clone()).or_default();
                ok(Vec::new(), "")
            }
            (&Method::DELETE, true) => {
                let is_empty = self
                    .buckets
                    .get(&asked.bucket)
                    .is_some_and(|bucket| bucket.keys.values().all(Vec::is_empty));
                if !is_empty {
                    return error(409, "BucketNotEmpty");
                }
                self.buckets.remove(&asked.bucket);
                ok(Vec::new(), "")
            }
            (&Method::GET, true) => self.list(asked, asks("versions")),
            (&Method::POST, false) if asks("uploads") => {
                let id = Uuid::new_v4().to_string();
                self.uploads.insert(id.clone(), BTreeMap::new());
                let body = format!(
                    "<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
                );
                ok(Vec::new(), &body)
            }
            (&Method::PUT, false) if asks("partNumber") => {
                let part = asked.query["partNumber"].parse().unwrap();
                let Some(upload) = self.uploads.get_mut(&asked.query["uploadId"]) else {
                    return error(404, "NoSuchUpload");
                };
                upload.insert(part, asked.body.clone());
                ok(vec![("etag", md5_of(&asked.body))], "")
            }
            (&Method::POST, false) => {
                let Some(parts) = self.uploads.remove(&asked.query["uploadId"]) else {
                    return error(404, "NoSuchUpload");
                };
                let mut md5s = md5::Md5::new();
                for part in parts.values() {
                    md5s.update(md5::Md5::digest(part));
                }
                let etag = format!("{}-{}", hex::encode(md5s.finalize()), parts.len());
                let body = parts.values().flat_map(|part| part.iter().copied()).collect();
                let headers = self.put(asked, body, etag.clone());
                let body = format!(
                    "<CompleteMultipartUploadResult><ETag>&quot;{etag}&quot;</ETag></CompleteMultipartUploadResult>"
                );
                ok(headers, &body)
            }
            (&Method::DELETE, false) if asks("uploadId") => {
                self.uploads.remove(&asked.query["uploadId"]);
                ok(Vec::new(), "")
            }
            (&Method::PUT, false) => self.write(asked, ignores_conditions),
            (&Method::DELETE, false) => self.delete(asked),
            _ => self.read(asked),
        }
    }

    fn latest(&self, bucket: &str, key: &str) -> Option<&Version> {
        self.buckets.get(bucket)?.keys.get(key)?.last()
    }

    fn write(&mut self, asked: &Asked, ignores_conditions: bool) -> Answer {
        let latest =
            self.latest(&asked.bucket, &asked.key).and_then(|latest| latest.object.as_ref());
        let holds = match (asked.headers.get("if-none-match"), asked.headers.get("if-match")) {
            (Some(_), _) => latest.is_none(),
            (_, Some(wanted)) => match latest {
                None => return error(404, "NoSuchKey"),
                Some((_, etag)) => wanted.trim_matches('"') == etag,
            },
            _ => true,
        };
        if !holds && !ignores_conditions {
            return error(412, "PreconditionFailed");
        }
        let Some(source) = asked.headers.get("x-amz-copy-source") else {
            let etag = md5_of(&asked.body);
            let mut headers = self.put(asked, asked.body.clone(), etag.clone());
            headers.push(("etag", etag));
            return ok(headers, "");
        };
        let (path, version) = source.split_once("?versionId=").unwrap_or((source, ""));
        let (bucket, key) = path[1..].split_once('/').unwrap();
        let versions = self.buckets.get(bucket).and_then(|bucket| bucket.keys.get(key));
        let found = versions.and_then(|versions| {
            let wanted = |found: &&Version| version.is_empty() || found.id.to_string() == version;
            versions.iter().rev().find(wanted)
        });
        let Some((body, etag)) = found.and_then(|found| found.object.clone()) else {
            return error(404, "NoSuchKey");
        };
        let headers = self.put(asked, body, etag.clone());
        let body = format!("<CopyObjectResult><ETag>&quot;{etag}&quot;</ETag></CopyObjectResult>");
        ok(headers, &body)
    }

    fn put(&mut self, asked: &Asked, body: Bytes, etag: String) -> Vec<(&'static str, String)> {
        let bucket = self.buckets.get_mut(&asked.bucket).unwrap();
        let is_enabled = bucket.enabled == Some(true);
        let id = if is_enabled { VersionId(*Uuid::new_v4().as_bytes()) } else { VersionId::NULL };
        let versions = bucket.keys.entry(asked.key.clone()).or_default();
        versions.retain(|known| known.id != id);
        versions.push(Version { id, object: Some((body, etag)) });
        let told = bucket.enabled.map(|_| ("x-amz-version-id", id.to_string()));
        told.into_iter().collect()
    }

    fn delete(&mut self, asked: &Asked) -> Answer {
        let bucket = self.buckets.get_mut(&asked.bucket).unwrap();
        let versions = bucket.keys.entry(asked.key.clone()).or_default();
        if let Some(version) = asked.query.get("versionId") {
            versions.retain(|known| known.id.to_string() != *version);
            return ok(vec![("x-amz-version-id", version.clone())], "");
        }
        let id = match bucket.enabled {
            Some(true) => VersionId(*Uuid::new_v4().as_bytes()),
            _ => VersionId::NULL,
        };
        versions.retain(|known| known.id != id);
        if bucket.enabled.is_none() {
            return ok(Vec::new(), "");
        }
        versions.push(Version { id, object: None });
        let marker = ("x-amz-delete-marker", "true".to_owned());
        ok(vec![marker, ("x-amz-version-id", id.to_string())], "")
    }

    fn read(&self, asked: &Asked) -> Answer {
        let wanted = asked.query.get("versionId");
        let bucket = self.buckets.get(&asked.bucket);
        let versions = bucket.and_then(|bucket| bucket.keys.get(&asked.key));
        let found = versions.and_then(|versions| {
            let fits = |known: &&Version| wanted.is_none_or(|id| known.id.to_string() == *id);
            versions.iter().rev().find(fits)
        });
        let (version, body, etag) = match found {
            None => return error(404, "NoSuchKey"),
            Some(Version { id, object: None }) => {
                let status = if wanted.is_some() { 405 } else { 404 };
                let mut answer = error(status, "NoSuchKey");
                let headers = answer.headers_mut();
                headers.insert("x-amz-delete-marker", "true".parse().unwrap());
                headers.insert("x-amz-version-id", id.to_string().parse().unwrap());
                return answer;
            }
            Some(Version { id, object: Some((body, etag)) }) => (id, body, etag),
        };
        let mut headers = vec![("etag", format!("\"{etag}\""))];
        if bucket.is_some_and(|bucket| bucket.enabled.is_some()) {
            headers.push(("x-amz-version-id", version.to_string()));
        }
        let mut body = body.clone();
        if let Some(range) = asked.headers.get("range") {
            let (first, last) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
            let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
            if first >= body.len() {
                return error(416, "InvalidRange");
            }
            body = body.slice(first..body.len().min(last + 1));
        }
        let mut answer = ok(headers, "");
        let length = body.len().to_string().parse().unwrap();
        answer.headers_mut().insert("content-length", length);
        *answer.body_mut() =
            Full::from(if asked.method == Method::HEAD { Bytes::new() } else { body });
        answer
    }

    /// Seven lines a page, so that there are several.
    fn list(&self, asked: &Asked, of_versions: bool) -> Answer {
        let Some(bucket) = self.buckets.get(&asked.bucket) else {
            return error(404, "NoSuchBucket");
        };
        let prefix = asked.query.get("prefix").cloned().unwrap_or_default();
        let mut lines = Vec::new();
        for (key, versions) in bucket.keys.iter().filter(|(key, _)| key.starts_with(&prefix)) {
            for (place, version) in versions.iter().rev().enumerate() {
                let name = escaped(key);
                let text = match (&version.object, of_versions) {
                    (Some((body, etag)), true) => format!(
                        "<Version><Key>{name}</Key><VersionId>{}</VersionId><IsLatest>{}</IsLatest>\
                         <ETag>&quot;{etag}&quot;</ETag><Size>{}</Size></Version>",
                        version.id,
                        place == 0,
                        body.len()
                    ),
                    (None, true) => format!(
                        "<DeleteMarker><Key>{name}</Key><VersionId>{}</VersionId>\
                         <IsLatest>{}</IsLatest></DeleteMarker>",
                        version.id,
                        place == 0
                    ),
                    (Some((body, etag)), false) if place == 0 => format!(
                        "<Contents><Key>{name}</Key><ETag>&quot;{etag}&quot;</ETag><Size>{}</Size></Contents>",
                        body.len()
                    ),
                    _ => continue,
                };
                lines.push((format!("{key}\u{2}{place:05}"), text));
            }
        }
        let after = asked.query.get("continuation-token").or(asked.query.get("key-marker"));
        let left = lines.iter().filter(|(place, _)| {
            after.is_none_or(|after| place.as_str() > after.replace("%02", "\u{2}").as_str())
        });
        let left = left.collect::<Vec<_>>();
        let page = &left[..left.len().min(7)];
        let mut body =
            String::from(if of_versions { "<ListVersionsResult>" } else { "<ListBucketResult>" });
        for (_, text) in page {
            body += text;
        }
        let _ = write!(body, "<IsTruncated>{}</IsTruncated>", left.len() > page.len());
        if let Some((last, _)) = page.last().filter(|_| left.len() > page.len()) {
            let tag = if of_versions { "NextKeyMarker" } else { "NextContinuationToken" };
            let _ = write!(body, "<{tag}>{}</{tag}>", escaped(&last.replace('\u{2}', "%02")));
        }
        body += if of_versions { "</ListVersionsResult>" } else { "</ListBucketResult>" };
        ok(Vec::new(), &body)
    }
}

fn md5_of(bytes: &[u8]) -> String {
    hex::encode(md5::Md5::digest(bytes))
}

fn ok(headers: Vec<(&'static str, String)>, body: &str) -> Answer {
    let mut builder = Response::builder().status(200);
    for (name, value) in headers {
        builder = builder.header(name, value);
    }
    builder.body(Full::from(body.to_owned())).unwrap()
}

fn error(status: u16, code: &str) -> Answer {
    let body = format!("<Error><Code>{code}</Code></Error>");
    Response::builder().status(status).body(Full::from(body)).unwrap()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
