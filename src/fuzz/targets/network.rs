//! What clients send, what servers answer our clients, and what passes by.

use http::HeaderMap;
use http::HeaderName;
use http::HeaderValue;
use s3s::dto::CopySource;
use s3s::dto::Range;

use super::records::is_plain;
use crate::fuzz::Target;
use crate::fuzz::target::Envelope;
use crate::fuzz::target::Examined;
use crate::fuzz::target::Found;
use crate::fuzz::target::Shape;
use crate::fuzz::target::must;
use crate::harness::testbed::wire::Framing;
use crate::harness::testbed::wire::Piece;
use crate::harness::workload::answer::Answer;
use crate::harness::workload::answer::ListingPage;
use crate::harness::workload::answer::Word;
use crate::harness::workload::answer::ending;
use crate::harness::workload::history::Action;
use crate::node::admin;
use crate::node::s3::convert;
use crate::node::s3::listing;
use crate::node::s3::objects;
use crate::protocol::admin::HealProgress;
use crate::protocol::admin::HealStarted;
use crate::protocol::admin::NodeStatus;
use crate::protocol::admin::Readiness;
use crate::protocol::control::FromNode;
use crate::protocol::control::ToNode;
use crate::protocol::object::condition::Current;
use crate::protocol::replacement::status;
use crate::sigv4;
use crate::sigv4::Credentials;
use crate::sigv4::Payload;
use crate::sigv4::Request;
use crate::sigv4::Scope;

#[rustfmt::skip]
pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "s3-headers", about: "conditions, ranges, checksums, versions and copy sources of S3 requests",
        shape: Shape::Text, envelope: None, examine: s3_headers,
    },
    Target {
        name: "signature", about: "signature version 4, in headers and in URLs",
        shape: Shape::Text, envelope: Some(SIGNED), examine: signature,
    },
    Target {
        name: "list-token", about: "where the next page of a listing begins; the query of a healing",
        shape: Shape::Text, envelope: None, examine: list_token,
    },
    Target {
        name: "control-line", about: "what harness and node say to each other",
        shape: Shape::Json, envelope: None, examine: control_line,
    },
    Target {
        name: "admin-answer", about: "what a node tells of itself",
        shape: Shape::Json, envelope: None, examine: admin_answer,
    },
    Target {
        name: "s3-answer", about: "what a server answers the workload",
        shape: Shape::Text, envelope: None, examine: s3_answer,
    },
    Target {
        name: "http-stream", about: "requests and answers that pass by a proxy",
        shape: Shape::Text, envelope: None, examine: http_stream,
    },
];

/// The lines `name: value` of `text`; those that HTTP does not carry are left out.
fn header_lines(text: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in text.lines().take(64) {
        let Some((name, value)) = line.split_once(':') else { continue };
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.trim().as_bytes()), HeaderValue::from_str(value.trim()))
        {
            headers.append(name, value);
        }
    }
    headers
}

fn s3_headers(bytes: &[u8]) -> Examined {
    let Ok(text) = std::str::from_utf8(bytes) else { return Ok(Found::Refused) };
    let headers = header_lines(text);
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let mut decoded = 0;
    let mut refused = 0;
    let mut count = |is_decoded: Option<bool>| match is_decoded {
        Some(true) => decoded += 1,
        Some(false) => refused += 1,
        None => {}
    };
    let current = Current { etag: "etag".to_owned(), modtime_ns: 1_700_000_000_000_000_000 };
    for prefix in ["", "x-amz-copy-source-"] {
        let conditions = convert::conditions(&headers, prefix);
        if let Ok(conditions) = &conditions {
            let _ = (conditions.judge_read(&current), conditions.judge_write(Some(&current)));
            let exists = conditions.judge_write(None).is_ok() || conditions.if_match.is_some();
            must(exists, "what is not there is refused without a condition on it")?;
        }
        count(Some(conditions.is_ok()));
    }
    if let Some(range) = header("range") {
        let range = Range::parse(range).ok();
        count(Some(range.is_some()));
        if let Some(range) = range {
            for size in [0, 1, 1_000, u64::MAX] {
                if let Ok(checked) = range.check(size) {
                    must(
                        checked.start <= checked.end && checked.end <= size,
                        "a range is outside",
                    )?;
                }
            }
            let _ = objects::range(range);
        }
    }
    if let Some(source) = header("x-amz-copy-source") {
        let source = CopySource::parse(source).ok();
        count(source.map(|source| objects::copy_source(&source, &headers).is_ok()));
    }
    let wanted = convert::wanted_checksums(&headers, None, header("x-amz-sdk-checksum-algorithm"));
    must(wanted.as_ref().map_or(0, Vec::len) <= 1, "more than one checksum is wanted")?;
    count(Some(wanted.is_ok()));
    let owned = |name: &str| header(name).map(str::to_owned);
    let md5 = convert::content_md5(owned("content-md5"));
    count(header("content-md5").map(|_| md5.is_ok()));
    let version = convert::version(owned("x-amz-version-id"));
    count(header("x-amz-version-id").map(|_| version.is_ok()));
    let length = header("content-length").and_then(|length| length.parse().ok());
    count(length.map(|length| convert::length(Some(length)).is_ok()));
    Ok(if decoded > 0 && refused == 0 { Found::Decoded } else { Found::Refused })
}

/// The moment at which the corpus was signed, Unix seconds.
pub(crate) const SIGNED_AT: i64 = 1_760_000_000;

pub(crate) fn credentials() -> Credentials {
    Credentials { access_key: "key".to_owned(), secret_key: "secret".to_owned() }
}

/// A request as text: `METHOD PATH QUERY` and a line a header.
struct Written {
    method: String,
    path: String,
    query: String,
    headers: Vec<(String, String)>,
}

impl Written {
    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut words = lines.next()?.split(' ').map(str::to_owned);
        let (method, path) = (words.next()?, words.next()?);
        let query = words.next().unwrap_or_default();
        let header = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        };
        Some(Self { method, path, query, headers: lines.filter_map(header).take(64).collect() })
    }

    fn request(&self) -> Request<'_> {
        let Self { method, path, query, headers } = self;
        Request { method, path, query, headers }
    }

    fn write(&self) -> String {
        let headers = self.headers.iter().map(|(name, value)| format!("{name}: {value}\n"));
        format!("{} {} {}\n{}", self.method, self.path, self.query, headers.collect::<String>())
    }
}

/// One piece: the request without its signature, which is signed again.
const SIGNED: Envelope = Envelope {
    open: |file| Some(vec![file.to_vec()]),
    close: |pieces| {
        let bytes = pieces.concat();
        let text = String::from_utf8_lossy(&bytes);
        let Some(mut written) = Written::read(&text) else { return bytes };
        let own = ["authorization", sigv4::AMZ_DATE, sigv4::CONTENT_SHA256];
        let was_signed = written.headers.iter().any(|(name, _)| name == "authorization");
        written.headers.retain(|(name, _)| !own.contains(&name.as_str()));
        let scope = Scope { region: "us-east-1", service: "s3", now: SIGNED_AT };
        if was_signed {
            let signed = sigv4::sign(&written.request(), Payload::Unsigned, &credentials(), &scope);
            written.headers.extend(signed.map(|(name, value)| (name.to_owned(), value)));
        } else {
            let plain = written.query.split("&X-Amz-").next().unwrap_or_default().to_owned();
            written.query = plain;
            written.query = sigv4::presign(&written.request(), &credentials(), &scope, 600);
        }
        written.write().into_bytes()
    },
    pieces: Shape::Text,
};

/// Whoever is let in has the secret, and not at another time.
fn signature(bytes: &[u8]) -> Examined {
    let Some(written) = std::str::from_utf8(bytes).ok().and_then(Written::read) else {
        return Ok(Found::Refused);
    };
    let verify = |secret: &'static str, now| {
        let secret = |key: &str| (key == "key").then(|| secret.to_owned());
        sigv4::verify(&written.request(), secret, now)
    };
    must(verify("another", SIGNED_AT).is_err(), "another secret lets somebody in")?;
    let Ok(verified) = verify("secret", SIGNED_AT) else { return Ok(Found::Refused) };
    must(verified.access_key == "key", "somebody else signed")?;
    for now in [SIGNED_AT - 8 * 86_400, SIGNED_AT + 8 * 86_400] {
        must(verify("secret", now).is_err(), "it counts at another time")?;
    }
    Ok(Found::Decoded)
}

fn list_token(bytes: &[u8]) -> Examined {
    let Ok(text) = std::str::from_utf8(bytes) else { return Ok(Found::Refused) };
    let mut found = Found::Refused;
    for line in text.lines().take(100) {
        let written = listing::token(line);
        must(listing::read_token(&written).is_ok_and(|read| read == line), "a token is another's")?;
        if let Ok(after) = listing::read_token(line) {
            let again = listing::read_token(&listing::token(&after));
            must(again.is_ok_and(|again| again == after), "a token is not read again")?;
            found = Found::Decoded;
        }
        if line.contains('=') && admin::is_heal_request(line) {
            found = Found::Decoded;
        }
    }
    Ok(found)
}

fn control_line(bytes: &[u8]) -> Examined {
    let any = [is_plain::<ToNode>(bytes)?, is_plain::<FromNode>(bytes)?];
    Ok(if any.contains(&true) { Found::Decoded } else { Found::Refused })
}

fn admin_answer(bytes: &[u8]) -> Examined {
    let any = [
        is_plain::<NodeStatus>(bytes)?,
        is_plain::<Readiness>(bytes)?,
        is_plain::<HealStarted>(bytes)?,
        is_plain::<HealProgress>(bytes)?,
        is_plain::<status::Answer>(bytes)?,
    ];
    Ok(if any.contains(&true) { Found::Decoded } else { Found::Refused })
}

/// The first line is the status, then a line a header, an empty line, and the body.
fn s3_answer(bytes: &[u8]) -> Examined {
    let (head, body) = match bytes.windows(2).position(|pair| pair == b"\n\n") {
        Some(at) => (String::from_utf8_lossy(&bytes[..at]), bytes[at + 2..].to_vec()),
        None => (String::from_utf8_lossy(bytes), Vec::new()),
    };
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.trim().parse().ok()).unwrap_or(0);
    let pair = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((name.trim().to_ascii_lowercase(), value.trim().to_owned()))
    };
    let headers = lines.filter_map(pair).collect();
    let pages = [ListingPage::objects(&body), ListingPage::versions(&body)];
    let is_page = pages.iter().any(Result::is_ok);
    let answer = Answer { status, headers, body, received: None };
    let actions = [Action::CreateUpload, Action::Head { version: None }, Action::DeleteBucket];
    let mut is_read = is_page;
    for action in actions {
        let ending = ending(1, &action, &answer, Word { slow_down_is_refusal: true });
        is_read |= ending.upload.is_some() || ending.seen.is_some();
    }
    Ok(if is_read { Found::Decoded } else { Found::Refused })
}

/// However the bytes arrive: they are passed on as they are, and mean the same.
fn http_stream(bytes: &[u8]) -> Examined {
    // No more comes in one piece than a proxy reads at once.
    let (whole, heads) = passed(bytes, 64 << 10);
    must(whole == bytes, "what is passed on is something else")?;
    let step = 1 + bytes.len() % 97;
    let (in_pieces, heads_again) = passed(bytes, step);
    must(in_pieces == bytes, "in pieces, what is passed on is something else")?;
    must(heads == heads_again, "in pieces, other messages are seen")?;
    Ok(if heads > 0 { Found::Decoded } else { Found::Refused })
}

/// What comes out of a framing that gets `bytes` in steps, with what it still holds, and the heads that it saw.
fn passed(bytes: &[u8], step: usize) -> (Vec<u8>, usize) {
    let mut framing = Framing::new();
    let (mut out, mut heads) = (Vec::new(), 0);
    for stretch in bytes.chunks(step) {
        for piece in framing.push(stretch, |_| false) {
            match piece {
                Piece::Head(_, raw) => {
                    heads += 1;
                    out.extend(raw);
                }
                Piece::Body(raw) | Piece::Opaque(raw) => out.extend(raw),
                Piece::End => {}
            }
        }
    }
    out.extend_from_slice(framing.held());
    (out, heads)
}
