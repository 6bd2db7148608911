//! What an answer means for its client: acknowledged, refused or ambiguous. Pure.
//!
//! When in doubt, ambiguous: a server error says nothing about what was written. A refusal is a
//! promise that nothing was, and only two things are one: a connection that was never accepted, and
//! an answer that says so (4xx, 501 for what is not built, and what the target gives its [`Word`] on). A read that was not answered whole has
//! seen nothing.

use serde::Deserialize;

use super::history::Action;
use super::history::Ending;
use super::history::Listed;
use super::history::Outcome;
use super::history::Seen;
use crate::value::VersionId;

/// The reason of a request whose connection was refused: it was not executed.
pub const CONNECTION_REFUSED: &str = "connection refused";

/// What the target promises of its server errors. A target that promises nothing gets the default:
/// every one of them is ambiguous. Whoever promises is held to it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Word {
    /// `503 SlowDown` is answered only when nothing of the request took effect, or ever will.
    pub slow_down_is_refusal: bool,
}

/// An answer that arrived whole; contents of a GET are in `received` and not in `body`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body, empty for a GET that found contents.
    pub body: Vec<u8>,
    /// What a GET received.
    pub received: Option<Received>,
}

/// Contents that arrived whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Their SHA-256.
    pub digest: crate::value::Digest,
    /// Their length.
    pub size: u64,
    /// The operation that wrote their beginning.
    pub written_by: Option<u64>,
}

impl Answer {
    /// The value of header `name`.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn version(&self) -> Option<VersionId> {
        self.header("x-amz-version-id")?.parse().ok()
    }

    fn etag(&self) -> Option<String> {
        self.header("etag").map(unquoted)
    }

    fn is_delete_marker(&self) -> bool {
        self.header("x-amz-delete-marker") == Some("true")
    }

    fn error(&self) -> Option<ErrorBody> {
        let text = std::str::from_utf8(&self.body).ok()?;
        // Only a document whose root is <Error> has a code at its top.
        text.contains("<Error").then(|| quick_xml::de::from_str(text).ok()).flatten()
    }
}

/// An ETag without its quotes.
pub fn unquoted(etag: &str) -> String {
    etag.trim_matches('"').to_owned()
}

/// An ending of operation `op` without an answer.
pub fn unanswered(op: u64, outcome: Outcome, reason: impl Into<String>) -> Ending {
    Ending {
        op,
        outcome,
        reason: reason.into(),
        status: None,
        version: None,
        etag: None,
        delete_marker: false,
        upload: None,
        seen: None,
    }
}

/// How operation `op`, which asked for `action`, ended, given a whole answer. Listings are read page
/// by page: see [`ListingPage`].
pub fn ending(op: u64, action: &Action, answer: &Answer, word: Word) -> Ending {
    let mut ending = Ending {
        status: Some(answer.status),
        version: answer.version(),
        etag: answer.etag(),
        delete_marker: answer.is_delete_marker(),
        ..unanswered(op, Outcome::Acknowledged, "")
    };
    let is_keyed_read = matches!(action, Action::Get { .. } | Action::Head { .. });
    match answer.status {
        200..=299 => match body_of(action, answer, &mut ending) {
            Ok(()) => {}
            Err(reason) => {
                ending.outcome = Outcome::Ambiguous;
                ending.reason = reason;
                ending.seen = None;
            }
        },
        404 if is_keyed_read => {
            ending.reason = answer.error().map(|error| error.code).unwrap_or_default();
            ending.seen = Some(Seen::Absent);
        }
        // A version that is a marker has no contents.
        405 if is_keyed_read => ending.seen = Some(Seen::Absent),
        404 if matches!(action, Action::List { .. } | Action::ListVersions { .. }) => {
            ending.reason = answer.error().map(|error| error.code).unwrap_or_default();
            ending.seen = Some(Seen::Absent);
        }
        status => {
            let code = answer.error().map(|error| error.code).unwrap_or_default();
            // 408 ends the wait for a body that may have arrived all the same.
            let is_refusal = (300..500).contains(&status) && status != 408
                || status == 501
                || status == 503 && code == "SlowDown" && word.slow_down_is_refusal;
            ending.outcome = if is_refusal { Outcome::Refused } else { Outcome::Ambiguous };
            ending.reason = format!("{status} {code}").trim_end().to_owned();
        }
    }
    ending
}

/// What the body of a success says, for those actions that have one.
fn body_of(action: &Action, answer: &Answer, ending: &mut Ending) -> Result<(), String> {
    match action {
        Action::Get { .. } => {
            let received = answer.received.ok_or("a success without contents")?;
            ending.seen = Some(Seen::Object {
                digest: Some(received.digest),
                size: received.size,
                written_by: received.written_by,
            });
        }
        Action::Head { .. } => {
            let size = answer.header("content-length").and_then(|text| text.parse().ok());
            let size = size.ok_or("a HEAD without a length")?;
            ending.seen = Some(Seen::Object { digest: None, size, written_by: None });
        }
        Action::Copy { .. } | Action::CompleteUpload { .. } => {
            if let Some(error) = answer.error() {
                return Err(format!("200, then {}", error.code));
            }
            let result: WriteResult = parse(&answer.body)?;
            ending.etag = Some(unquoted(&result.etag));
        }
        Action::CreateUpload => {
            let result: UploadResult = parse(&answer.body)?;
            ending.upload = Some(result.upload);
        }
        _ => {}
    }
    Ok(())
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    let text = std::str::from_utf8(body).map_err(|_| "an answer that is not UTF-8".to_owned())?;
    quick_xml::de::from_str(text).map_err(|error| format!("an answer that cannot be read: {error}"))
}

/// One page of a listing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListingPage {
    /// Its lines, in the order received.
    pub rows: Vec<Listed>,
    /// Parameters of the request for the next page; `None` on the last one.
    pub next: Option<Vec<(String, String)>>,
}

impl ListingPage {
    /// Reads a page of ListObjectsV2.
    ///
    /// # Errors
    /// Why it cannot be read: the listing has seen nothing then.
    pub fn objects(body: &[u8]) -> Result<Self, String> {
        let result: ObjectsPage = parse(body)?;
        let row = |object: ObjectRow| Listed {
            key: object.key,
            version: None,
            delete_marker: false,
            latest: true,
            etag: unquoted(&object.etag),
            size: object.size,
            cut: false,
        };
        let next = match (result.truncated, result.token) {
            (false, _) => None,
            (true, Some(token)) => Some(vec![("continuation-token".to_owned(), token)]),
            (true, None) => return Err("a truncated page without a token".to_owned()),
        };
        Ok(Self::of(result.contents.into_iter().map(row).collect(), next))
    }

    /// Reads a page of ListObjectVersions, keeping versions and markers in the order in
    /// which the document has them.
    ///
    /// # Errors
    /// Why it cannot be read: the listing has seen nothing then.
    pub fn versions(body: &[u8]) -> Result<Self, String> {
        let result: VersionsPage = parse(body)?;
        let mut rows = Vec::new();
        for line in result.lines {
            let (row, delete_marker) = match line {
                VersionLine::Version(row) => (row, false),
                VersionLine::DeleteMarker(row) => (row, true),
                VersionLine::Other => continue,
            };
            let version =
                row.version.parse().map_err(|error| format!("a listing in which {error}"));
            rows.push(Listed {
                key: row.key,
                version: Some(version?),
                delete_marker,
                latest: row.latest,
                etag: unquoted(&row.etag),
                size: row.size,
                cut: false,
            });
        }
        let head: VersionsHead = parse(body)?;
        let next = match (head.truncated, head.key, head.version) {
            (false, ..) => None,
            (true, Some(key), version) => {
                let mut next = vec![("key-marker".to_owned(), key)];
                next.extend(version.map(|version| ("version-id-marker".to_owned(), version)));
                Some(next)
            }
            (true, None, _) => return Err("a truncated page without a marker".to_owned()),
        };
        Ok(Self::of(rows, next))
    }

    fn of(mut rows: Vec<Listed>, next: Option<Vec<(String, String)>>) -> Self {
        if let Some(last) = rows.last_mut().filter(|_| next.is_some()) {
            last.cut = true;
        }
        Self { rows, next }
    }
}

/// `<Error>`.
#[derive(Debug, Deserialize)]
struct ErrorBody {
    #[serde(rename = "Code", default)]
    code: String,
}

/// `<CopyObjectResult>`, `<CompleteMultipartUploadResult>`.
#[derive(Debug, Deserialize)]
struct WriteResult {
    #[serde(rename = "ETag")]
    etag: String,
}

/// `<InitiateMultipartUploadResult>`.
#[derive(Debug, Deserialize)]
struct UploadResult {
    #[serde(rename = "UploadId")]
    upload: String,
}

/// `<ListBucketResult>`.
#[derive(Debug, Deserialize)]
struct ObjectsPage {
    #[serde(rename = "Contents", default)]
    contents: Vec<ObjectRow>,
    #[serde(rename = "IsTruncated", default)]
    truncated: bool,
    #[serde(rename = "NextContinuationToken")]
    token: Option<String>,
}

#[derive(Debug, Deserialize)]
struct ObjectRow {
    #[serde(rename = "Key")]
    key: String,
    #[serde(rename = "ETag", default)]
    etag: String,
    #[serde(rename = "Size", default)]
    size: u64,
}

/// The lines of `<ListVersionsResult>`, in document order.
#[derive(Debug, Deserialize)]
struct VersionsPage {
    #[serde(rename = "$value", default)]
    lines: Vec<VersionLine>,
}

#[derive(Debug, Deserialize)]
enum VersionLine {
    Version(VersionRow),
    DeleteMarker(VersionRow),
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct VersionRow {
    #[serde(rename = "Key")]
    key: String,
    #[serde(rename = "VersionId")]
    version: String,
    #[serde(rename = "IsLatest")]
    latest: bool,
    #[serde(rename = "ETag", default)]
    etag: String,
    #[serde(rename = "Size", default)]
    size: u64,
}

/// The rest of `<ListVersionsResult>`.
#[derive(Debug, Deserialize)]
struct VersionsHead {
    #[serde(rename = "IsTruncated", default)]
    truncated: bool,
    #[serde(rename = "NextKeyMarker")]
    key: Option<String>,
    #[serde(rename = "NextVersionIdMarker")]
    version: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::workload::history::Condition;
    use crate::value::Digest;

    fn put() -> Action {
        let (digest, condition) = (Digest::of(b""), Condition::Always);
        Action::Put { digest, size: 0, etag: None, condition }
    }

    fn answer(status: u16, body: &str) -> Answer {
        Answer { status, body: body.as_bytes().to_vec(), ..Answer::default() }
    }

    #[test]
    fn only_what_says_so_is_a_refusal() {
        let outcome = |status| ending(1, &put(), &answer(status, ""), Word::default()).outcome;
        for status in [301, 400, 403, 404, 409, 412, 501] {
            assert_eq!(outcome(status), Outcome::Refused, "{status}");
        }
        for status in [408, 500, 502, 503, 504] {
            assert_eq!(outcome(status), Outcome::Ambiguous, "{status}");
        }
        assert_eq!(outcome(200), Outcome::Acknowledged);
    }

    #[test]
    fn a_busy_server_has_refused_only_if_it_promises_so() {
        let error = "<Error><Code>SlowDown</Code></Error>";
        let outcome = |status, slow_down_is_refusal| {
            ending(1, &put(), &answer(status, error), Word { slow_down_is_refusal }).outcome
        };
        assert_eq!(outcome(503, false), Outcome::Ambiguous);
        assert_eq!(outcome(503, true), Outcome::Refused);
        assert_eq!(outcome(500, true), Outcome::Ambiguous, "another status, another meaning");
    }

    #[test]
    fn a_missing_key_is_something_that_a_read_has_seen() {
        let error = "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Key>a</Key></Error>";
        let get = Action::Get { version: None, range: None };
        let read = ending(1, &get, &answer(404, error), Word::default());
        assert_eq!((read.outcome, read.seen), (Outcome::Acknowledged, Some(Seen::Absent)));
        assert_eq!(read.reason, "NoSuchKey");
        let failed = ending(1, &get, &answer(503, error), Word::default());
        assert_eq!((failed.outcome, failed.seen), (Outcome::Ambiguous, None));
    }

    #[test]
    fn a_success_that_turns_into_an_error_is_ambiguous() {
        let complete = Action::CompleteUpload {
            upload: "u".to_owned(),
            parts: vec![1],
            digest: Digest::of(b""),
            size: 0,
            etag: None,
            condition: Condition::Always,
        };
        let error = "<Error><Code>InternalError</Code></Error>";
        assert_eq!(
            ending(1, &complete, &answer(200, error), Word::default()).outcome,
            Outcome::Ambiguous
        );
        assert_eq!(
            ending(1, &complete, &answer(200, ""), Word::default()).outcome,
            Outcome::Ambiguous
        );
        let whole = "<CompleteMultipartUploadResult><Bucket>b</Bucket><ETag>&quot;ab-1&quot;</ETag>\
                     </CompleteMultipartUploadResult>";
        let ending = ending(1, &complete, &answer(200, whole), Word::default());
        assert_eq!(ending.outcome, Outcome::Acknowledged);
        assert_eq!(ending.etag.as_deref(), Some("ab-1"));
    }

    #[test]
    fn a_page_of_versions_keeps_the_order_of_versions_and_markers() {
        let body = "<ListVersionsResult><Name>b</Name><IsTruncated>true</IsTruncated>\
            <DeleteMarker><Key>a</Key><VersionId>null</VersionId><IsLatest>true</IsLatest></DeleteMarker>\
            <Version><Key>a</Key><VersionId>0c9d2f4e-6a51-4b7c-8e3d-1f2a3b4c5d6e</VersionId>\
            <IsLatest>false</IsLatest><ETag>&quot;e&quot;</ETag><Size>5</Size><StorageClass>S</StorageClass></Version>\
            <DeleteMarker><Key>&lt;script&gt;&amp;|</Key><VersionId>null</VersionId><IsLatest>true</IsLatest></DeleteMarker>\
            <NextKeyMarker>a</NextKeyMarker><NextVersionIdMarker>null</NextVersionIdMarker>\
            </ListVersionsResult>";
        let page = ListingPage::versions(body.as_bytes()).unwrap();
        let rows = page.rows.iter().map(|row| (row.key.as_str(), row.delete_marker, row.size));
        let expected = [("a", true, 0), ("a", false, 5), ("<script>&|", true, 0)];
        assert_eq!(rows.collect::<Vec<_>>(), expected);
        assert_eq!(page.rows.iter().map(|row| row.cut).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(page.next.unwrap().len(), 2);
    }

    #[test]
    fn a_page_of_objects_ends_or_names_the_next_one() {
        let body = |rest: &str| {
            format!(
                "<ListBucketResult><Contents><Key>k y</Key><ETag>\"e\"</ETag><Size>7</Size></Contents>\
                 {rest}</ListBucketResult>"
            )
        };
        let last = ListingPage::objects(body("<IsTruncated>false</IsTruncated>").as_bytes());
        let last = last.unwrap();
        assert_eq!((last.rows[0].key.as_str(), last.rows[0].size, last.next), ("k y", 7, None));
        let more =
            "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>";
        assert!(ListingPage::objects(body(more).as_bytes()).unwrap().next.is_some());
        let endless = body("<IsTruncated>true</IsTruncated>");
        assert!(ListingPage::objects(endless.as_bytes()).is_err());
    }
}
