//! `PostObject`: uploads by the forms of browsers (`multipart/form-data`).
//!
//! s3s has such forms too, but holds the whole file in memory and leaves out the fields that it does not know; so
//! they are taken before it sees the request. What a form may do is said by its policy document
//! ([`crate::protocol::access::form`]); a form that nobody signed may do what everybody may. From there on it is a
//! PUT whose headers are the form's fields.
//!
//! What must hold: no field is passed over in silence, and no part of a file is kept unless all of it came and
//! has the size that it may have.

pub mod contents;
pub mod fields;
mod signature;

use std::fmt::Write as _;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use bytes::Bytes;
use futures::StreamExt as _;
use http::HeaderMap;
use http::HeaderName;
use http::HeaderValue;
use http::Method;
use http::Request;
use http::Response;
use http::StatusCode;
use http::Uri;
use http::header;
use http::request::Parts;
use http_body::Body as HttpBody;
use http_body_util::BodyExt as _;
use s3s::Body;
use s3s::S3Error;
use s3s::S3ErrorCode;
use s3s::S3Result;
use s3s::auth::Credentials;
use s3s::auth::SecretKey;
use s3s::s3_error;

use super::Gateway;
use super::access::Gate;
use super::access::permit;
use super::convert;
use super::rights::Asked;
use super::tags;
use super::unsupported;
use crate::node::catalog::bridge::Pass;
use crate::node::store::api::BodyError;
use crate::node::store::api::BodyStream;
use crate::node::store::api::Metadata;
use crate::node::store::api::PutOutcome;
use crate::node::store::api::PutRequest;
use crate::protocol::access::form::Fields;
use crate::protocol::access::form::FormFault;
use crate::protocol::access::form::FormPolicy;
use crate::protocol::access::form::UPLOAD_BYTES_MAX;
use crate::sigv4;
use contents::Contents;
use contents::Untaken;
use fields::Form;
use fields::FormReader;
use fields::Spoilt;

/// Fields that are kept as the header of the same name.
const KEPT: [&str; 8] = [
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-md5",
    "content-type",
    "expires",
    "x-amz-storage-class",
];
/// Fields that are about the form itself, or are read by their names.
const OWN: [&str; 14] = [
    "acl",
    "awsaccesskeyid",
    "bucket",
    "key",
    "policy",
    "redirect",
    "signature",
    "success_action_redirect",
    "success_action_status",
    "tagging",
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-signature",
];
/// What names the file in a field.
const FILE_NAME: &str = "${filename}";

/// Takes forms.
pub struct Forms {
    gateway: Gateway,
    gate: Gate,
}

impl Forms {
    /// Takes forms for `gateway`, from whom `gate` lets.
    pub fn new(gateway: Gateway, gate: Gate) -> Self {
        Self { gateway, gate }
    }

    /// Answers a request that is a form ([`is_one`]).
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: std::fmt::Display,
    {
        self.gate.metrics.operation("PostObject");
        let (head, body) = request.into_parts();
        let body = body.into_data_stream().map(|it| it.map_err(|it| BodyError(it.to_string())));
        let answer = match self.take(&head, body.boxed()).await {
            Ok(answer) => Ok(answer),
            Err(error) => error.to_http_response(),
        };
        answer.unwrap_or_else(|_| {
            let mut answer = Response::new(Body::empty());
            *answer.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
            answer
        })
    }

    async fn take(&self, head: &Parts, mut body: BodyStream) -> S3Result<Response<Body>> {
        let bucket = bucket_of(&head.uri);
        let bucket = bucket.ok_or_else(|| s3_error!(InvalidBucketName))?;
        let media_type = head.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
        let reader = FormReader::new(media_type.unwrap_or_default()).map_err(spoilt)?;
        let mut form = read(reader, &mut body).await?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);

        let secret = |key: &str| self.gate.principals.secret(key);
        let signed = signature::verify(&form.fields, secret, now_s)?;
        name_the_file(&mut form);
        let fields = &form.fields;
        let length = match &signed {
            None => 0..=UPLOAD_BYTES_MAX,
            Some(signed) => {
                let policy = FormPolicy::parse(&signed.policy).map_err(refusal)?;
                policy.judge(fields, &bucket, now_s).map_err(refusal)?;
                policy.length()
            }
        };
        let key = fields.get("key").filter(|key| !key.is_empty());
        let key = key.ok_or_else(|| s3_error!(InvalidArgument, "a form needs the field key"))?;
        let key = key.clone();
        let headers = headers(fields)?;
        unsupported::refuse_but_grants(&headers)?;

        let caller = signed.map(|signed| signed.access_key);
        let asked = Asked {
            caller: caller.as_deref(),
            operation: "PutObject",
            bucket: &bucket,
            key: Some(&key),
            version: None,
            headers: &headers,
            uri: &head.uri,
            tags: None,
            from: head.extensions.get().copied(),
        };
        let mut pass = Pass::default();
        permit(&self.gate.rights, &self.gate.catalog, &asked, &mut pass).await?;
        let answer_as = AnswerAs::of(fields, &bucket, &key, &head.headers);
        let put = self.put_request(fields, &headers, caller, (bucket, key)).await?;
        let contents = Contents::new(&mut form, body, length);
        let fate = contents.fate();
        let outcome = self.gateway.store.put(put, contents.boxed()).await;
        drop(pass);
        if let Some(why) = fate.get() {
            return Err(untaken(*why));
        }
        let outcome = outcome.map_err(|error| self.gateway.refusal(&error))?;
        answer_as.answer(&outcome)
    }

    async fn put_request(
        &self,
        fields: &Fields,
        headers: &HeaderMap,
        caller: Option<String>,
        (bucket, key): (String, String),
    ) -> S3Result<PutRequest> {
        let credentials =
            caller.map(|access_key| Credentials { access_key, secret_key: SecretKey::from("") });
        let acl = self.gateway.new_acl(&bucket, headers, credentials.as_ref()).await?;
        let user = fields.iter().filter_map(|(name, value)| {
            Some((name.strip_prefix("x-amz-meta-")?.to_owned(), value.clone()))
        });
        let kept = convert::metadata(headers, Some(user))?;
        let tags = fields.get("tagging").map(|text| tags::of_document(text)).transpose()?;
        let asked = fields.get("x-amz-checksum-algorithm").map(String::as_str);
        Ok(PutRequest {
            target: convert::target(bucket, key),
            size: None,
            metadata: Metadata { acl, tags: tags.flatten(), ..kept },
            content_md5: convert::content_md5(fields.get("content-md5").cloned())?,
            checksums: convert::wanted_checksums(headers, None, asked)?,
            conditions: convert::conditions(headers, "")?,
        })
    }
}

/// Whether a request is a form: posted to a bucket, and nothing else asked for.
pub fn is_one(head: &Parts) -> bool {
    let media_type = head.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let kind = media_type.unwrap_or_default().split(';').next().unwrap_or_default();
    let (_, key) = parts_of(&head.uri);
    head.method == Method::POST
        && kind.trim().eq_ignore_ascii_case("multipart/form-data")
        && key.is_empty()
        && head.uri.query().unwrap_or_default().is_empty()
}

fn parts_of(uri: &Uri) -> (&str, &str) {
    let path = uri.path().trim_start_matches('/');
    path.split_once('/').unwrap_or((path, ""))
}

fn bucket_of(uri: &Uri) -> Option<String> {
    let (bucket, _) = parts_of(uri);
    let bucket = convert::decoded(bucket);
    s3s::path::check_bucket_name(&bucket).then_some(bucket)
}

async fn read(mut reader: FormReader, body: &mut BodyStream) -> S3Result<Form> {
    while let Some(piece) = body.next().await {
        let piece = piece.map_err(|_| untaken(Untaken::BrokenOff))?;
        if let Some(form) = reader.feed(&piece).map_err(spoilt)? {
            return Ok(form);
        }
    }
    Err(spoilt(Spoilt::Malformed))
}

/// Puts the name of the file where the form asks for it. What was signed stays as it is.
fn name_the_file(form: &mut Form) {
    for (name, value) in &mut form.fields {
        if !["policy", "signature", "x-amz-signature"].contains(&name.as_str()) {
            *value = value.replace(FILE_NAME, &form.file_name);
        }
    }
}

/// What would stand in the headers of a PUT.
fn headers(fields: &Fields) -> S3Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        let header = match name.as_str() {
            "acl" => "x-amz-acl",
            name if OWN.contains(&name) || name.starts_with("x-amz-meta-") => continue,
            name if KEPT.contains(&name) || name.starts_with("x-amz-") => name,
            // Browsers send every field that has a name, the button included.
            _ => continue,
        };
        let known = KEPT.contains(&header)
            || header == "x-amz-acl"
            || header == "x-amz-checksum-algorithm"
            || ["x-amz-checksum-", "x-amz-grant-"].iter().any(|it| header.starts_with(it));
        let parsed =
            HeaderName::from_bytes(header.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
        let (header, value) = parsed
            .ok_or_else(|| s3_error!(InvalidArgument, "the field {name} cannot be a header"))?;
        let one = HeaderMap::from_iter([(header, value)]);
        if !known {
            unsupported::refuse_but_grants(&one)?;
            return Err(s3_error!(NotImplemented, "the field {name} is not implemented"));
        }
        headers.extend(one);
    }
    Ok(headers)
}

/// How success is told.
struct AnswerAs {
    bucket: String,
    key: String,
    /// Where the object is.
    location: String,
    status: StatusCode,
    /// Where the browser goes then.
    redirect: Option<Uri>,
}

impl AnswerAs {
    fn of(fields: &Fields, bucket: &str, key: &str, head: &HeaderMap) -> Self {
        let status = match fields.get("success_action_status").map(String::as_str) {
            Some("200") => StatusCode::OK,
            Some("201") => StatusCode::CREATED,
            _ => StatusCode::NO_CONTENT,
        };
        let redirect = fields.get("success_action_redirect").or_else(|| fields.get("redirect"));
        // What is no address is passed over, as S3 does.
        let redirect = redirect.and_then(|to| to.parse::<Uri>().ok());
        let redirect = redirect.filter(|to| matches!(to.scheme_str(), Some("http" | "https")));
        let host = head.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        Self {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            location: format!("http://{host}/{bucket}/{}", sigv4::encode(key, true)),
            status,
            redirect,
        }
    }

    fn answer(&self, outcome: &PutOutcome) -> S3Result<Response<Body>> {
        let unprintable = |error: http::Error| S3Error::internal_error(error);
        let etag = format!("\"{}\"", outcome.etag);
        let mut answer = Response::builder().header(header::ETAG, &etag);
        if let Some(version) = convert::made(outcome.version) {
            answer = answer.header("x-amz-version-id", version);
        }
        if let Some(redirect) = &self.redirect {
            let mut to = redirect.to_string();
            let joint = if redirect.query().is_some() { '&' } else { '?' };
            let encoded = |text: &str| sigv4::encode(text, false);
            let _ = write!(
                to,
                "{joint}bucket={}&key={}&etag={}",
                encoded(&self.bucket),
                encoded(&self.key),
                encoded(&etag)
            );
            let answer = answer.status(StatusCode::SEE_OTHER).header(header::LOCATION, to);
            return answer.body(Body::empty()).map_err(unprintable);
        }
        let answer = answer.status(self.status).header(header::LOCATION, &self.location);
        if self.status != StatusCode::CREATED {
            return answer.body(Body::empty()).map_err(unprintable);
        }
        let text = |text: &str| quick_xml::escape::escape(text).into_owned();
        let document = format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<PostResponse><Location>{}</Location><Bucket>{}</Bucket>\
             <Key>{}</Key><ETag>{}</ETag></PostResponse>",
            text(&self.location),
            text(&self.bucket),
            text(&self.key),
            text(&etag)
        );
        let answer = answer.header(header::CONTENT_TYPE, "application/xml");
        answer.body(Body::from(document)).map_err(unprintable)
    }
}

fn refusal(fault: FormFault) -> S3Error {
    match fault {
        FormFault::Malformed(why) => s3_error!(InvalidPolicyDocument, "{why}"),
        FormFault::Denied(why) => s3_error!(AccessDenied, "{why}"),
    }
}

fn spoilt(why: Spoilt) -> S3Error {
    let error = |code: S3ErrorCode, message: &'static str| {
        let mut error = S3Error::with_message(code, message);
        error.set_status_code(StatusCode::BAD_REQUEST);
        error
    };
    match why {
        Spoilt::Malformed => {
            error(S3ErrorCode::MalformedPOSTRequest, "the body is no multipart/form-data")
        }
        Spoilt::TooLong => error(
            S3ErrorCode::Custom("MaxPostPreDataLengthExceeded".into()),
            "there is too much before the file",
        ),
        Spoilt::NoFile => {
            error(S3ErrorCode::IncorrectNumberOfFilesInPostRequest, "the form has no file")
        }
    }
}

fn untaken(why: Untaken) -> S3Error {
    match why {
        Untaken::BrokenOff => s3_error!(IncompleteBody, "the form ends before its file does"),
        Untaken::TooSmall => s3_error!(EntityTooSmall, "the file is smaller than the policy says"),
        Untaken::TooLarge => s3_error!(EntityTooLarge, "the file is larger than the policy says"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn only_what_is_posted_to_a_bucket_is_a_form() {
        let head = |method: &str, target: &str, kind: &str| {
            let request =
                Request::builder().method(method).uri(target).header("content-type", kind).body(());
            request.expect("a request").into_parts().0
        };
        let kind = "Multipart/Form-Data; boundary=x";
        assert!(is_one(&head("POST", "/bucket", kind)) && is_one(&head("POST", "/bucket/", kind)));
        for (method, target, kind) in [
            ("PUT", "/bucket", kind),
            ("POST", "/bucket/key", kind),
            ("POST", "/bucket?delete", kind),
            ("POST", "/bucket", "application/xml"),
        ] {
            assert!(!is_one(&head(method, target, kind)), "{method} {target} {kind}");
        }
        assert_eq!(
            bucket_of(&"/a-bucket/".parse().expect("an address")).as_deref(),
            Some("a-bucket")
        );
        for path in ["/", "/..", "/a%2Fb", "/.rustfs.sys", "/ab"] {
            assert_eq!(bucket_of(&path.parse().expect("an address")), None, "{path}");
        }
    }

    #[test]
    fn fields_become_headers_and_what_is_not_known_is_refused() {
        let given = [("acl", "private"), ("content-type", "a/b"), ("key", "k"), ("button", "x")];
        let made = headers(&fields(&given)).expect("all are known");
        assert_eq!((made.len(), &made["x-amz-acl"]), (2, &HeaderValue::from_static("private")));
        for (name, code) in [
            ("x-amz-server-side-encryption", "NotImplemented"),
            ("x-amz-website-redirect-location", "NotImplemented"),
            ("x-amz-security-token", "NotImplemented"),
            ("x-amz-what-is-this", "NotImplemented"),
            ("x-amz-grant-\u{e9}", "InvalidArgument"),
        ] {
            let refused = headers(&fields(&[(name, "x")])).expect_err(name);
            assert_eq!(refused.code().as_str(), code, "{name}");
        }
        assert!(headers(&fields(&[("content-type", "a\r\nb: c")])).is_err());
    }

    #[test]
    fn success_is_told_as_the_form_asks() {
        let outcome = PutOutcome {
            etag: "e".to_owned(),
            version: None,
            size: 1,
            modtime_ns: 0,
            checksums: Vec::new(),
        };
        let answer = |pairs: &[(&str, &str)]| {
            let answer_as = AnswerAs::of(&fields(pairs), "bucket", "a key", &HeaderMap::new());
            let answer = answer_as.answer(&outcome).expect("it can be printed");
            let to = answer.headers()[header::LOCATION].to_str().expect("text").to_owned();
            (answer.status().as_u16(), to)
        };
        let location = "http:///bucket/a%20key";
        for (status, expected) in
            [("200", 200), ("201", 201), ("204", 204), ("404", 204), ("", 204)]
        {
            let found = answer(&[("success_action_status", status)]);
            assert_eq!(found, (expected, location.to_owned()));
        }
        for (field, to, expected) in [
            ("success_action_redirect", "http://h/p", "http://h/p?"),
            ("redirect", "https://h/p?q=1", "https://h/p?q=1&"),
        ] {
            let found = answer(&[(field, to), ("success_action_status", "201")]);
            let tail = "bucket=bucket&key=a%20key&etag=%22e%22";
            assert_eq!(found, (303, format!("{expected}{tail}")));
        }
        assert_eq!(answer(&[("redirect", "javascript:alert(1)")]).0, 204);
    }
}
