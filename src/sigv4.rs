//! AWS signature version 4, for both ends of a connection: signing and verifying, pure.
//!
//! It computes; it sends nothing, knows no clock (the time is given, in Unix seconds) and keeps no
//! secret. Both ends share one canonical form, so an error in it would hide itself: the tests hold it
//! against the worked examples that AWS publishes.
//!
//! # Sources
//! "Signature Calculations for the Authorization Header" (single and multiple chunks) and
//! "Authenticating Requests: Using Query Parameters", Amazon S3 API reference.

use hmac::Hmac;
use hmac::KeyInit;
use hmac::Mac;
use sha2::Digest as _;
use sha2::Sha256;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// Header that says how the payload is signed.
pub const CONTENT_SHA256: &str = "x-amz-content-sha256";
/// Header that carries the time of signing.
pub const AMZ_DATE: &str = "x-amz-date";
/// How far the clocks of the two ends may differ, in seconds.
pub const SKEW_MAX_S: i64 = 15 * 60;
/// A presigned request counts for at most so long, in seconds: seven days.
pub const EXPIRES_MAX_S: u32 = 7 * 86_400;

/// One access key with its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The access key, public.
    pub access_key: String,
    /// The secret key.
    pub secret_key: String,
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Credentials({})", self.access_key)
    }
}

/// A request as it stands on the wire, without its body.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The method, in capitals.
    pub method: &'a str,
    /// The path as sent, percent-encoded.
    pub path: &'a str,
    /// The query as sent, percent-encoded, without `?`; empty when there is none.
    pub query: &'a str,
    /// Header names (any case) and values. `host` must be among them.
    pub headers: &'a [(String, String)],
}

/// How the body is covered by the signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    /// By its SHA-256.
    Sha256([u8; 32]),
    /// Not at all.
    Unsigned,
    /// By a chain of chunk signatures ([`ChunkSigner`]), the request's own being the seed.
    SignedChunks,
    /// Chunks without signatures, with a checksum trailer.
    UnsignedChunksTrailer,
}

impl Payload {
    /// The SHA-256 of `body`.
    pub fn of(body: &[u8]) -> Self {
        Self::Sha256(Sha256::digest(body).into())
    }

    /// The value of `x-amz-content-sha256`.
    pub fn header(self) -> String {
        match self {
            Self::Sha256(digest) => hex::encode(digest),
            Self::Unsigned => "UNSIGNED-PAYLOAD".to_owned(),
            Self::SignedChunks => "STREAMING-AWS4-HMAC-SHA256-PAYLOAD".to_owned(),
            Self::UnsignedChunksTrailer => "STREAMING-UNSIGNED-PAYLOAD-TRAILER".to_owned(),
        }
    }
}

/// Where and when a signature counts.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The region, `us-east-1` unless configured otherwise.
    pub region: &'a str,
    /// The service, `s3`.
    pub service: &'a str,
    /// Unix seconds.
    pub now: i64,
}

impl Scope<'_> {
    fn stamp(&self) -> String {
        amz_date(self.now)
    }

    fn text(&self) -> String {
        format!("{}/{}/{}/aws4_request", &self.stamp()[..8], self.region, self.service)
    }

    fn key(&self, secret: &str) -> [u8; 32] {
        signing_key(secret, &self.text())
    }
}

/// Signs by headers. Every header of `request` is signed; the three headers that are answered
/// (`x-amz-date`, `x-amz-content-sha256`, `authorization`) have to be added to it.
pub fn sign(
    request: &Request<'_>,
    payload: Payload,
    credentials: &Credentials,
    scope: &Scope<'_>,
) -> [(&'static str, String); 3] {
    let (stamp, payload) = (scope.stamp(), payload.header());
    let mut headers = request.headers.to_vec();
    headers.push((AMZ_DATE.to_owned(), stamp.clone()));
    headers.push((CONTENT_SHA256.to_owned(), payload.clone()));
    let signed = Request { headers: &headers, ..*request };
    let (names, canonical) = canonical_request(&signed, None, &payload);
    let signature =
        signature(&scope.key(&credentials.secret_key), &stamp, &scope.text(), &canonical);
    let authorization = format!(
        "{ALGORITHM} Credential={}/{}, SignedHeaders={names}, Signature={signature}",
        credentials.access_key,
        scope.text()
    );
    [(AMZ_DATE, stamp), (CONTENT_SHA256, payload), ("authorization", authorization)]
}

/// Signs a form's policy document, which is given as it is sent: in Base64. Answers `x-amz-credential`,
/// `x-amz-date` and `x-amz-signature`; the first two have to stand in the document.
pub fn sign_policy(
    policy: &str,
    credentials: &Credentials,
    scope: &Scope<'_>,
) -> [(&'static str, String); 3] {
    let signature = mac(&scope.key(&credentials.secret_key), policy.as_bytes());
    [
        ("x-amz-credential", format!("{}/{}", credentials.access_key, scope.text())),
        (AMZ_DATE, scope.stamp()),
        ("x-amz-signature", hex::encode(signature.finalize().into_bytes())),
    ]
}

/// Whether `signature` is that of a form's policy document: `date` and `scope` are what `x-amz-date` and
/// `x-amz-credential`, behind its access key, say. A signature counts for seven days.
pub fn verify_policy(
    policy: &str,
    signature: &str,
    secret_key: &str,
    (date, scope): (&str, &str),
    now: i64,
) -> bool {
    let parts: Vec<_> = scope.split('/').collect();
    let [day, _, "s3", "aws4_request"] = parts[..] else { return false };
    let (Some(signed), Ok(signature)) = (unix_seconds(date), hex::decode(signature)) else {
        return false;
    };
    date.starts_with(day)
        && signed <= now + SKEW_MAX_S
        && signed >= now - i64::from(EXPIRES_MAX_S)
        && mac(&signing_key(secret_key, scope), policy.as_bytes()).verify_slice(&signature).is_ok()
}

/// The signature in an `authorization` header made by [`sign`]: the seed of a [`ChunkSigner`].
pub fn signature_of(authorization: &str) -> Option<&str> {
    authorization.rsplit_once("Signature=").map(|(_, signature)| signature)
}

/// The whole query of a presigned request (what it had, and what was added), good for `expires_s`.
/// The payload is unsigned.
pub fn presign(
    request: &Request<'_>,
    credentials: &Credentials,
    scope: &Scope<'_>,
    expires_s: u32,
) -> String {
    let names = signed_names(request.headers);
    let credential = format!("{}/{}", credentials.access_key, scope.text());
    let added = format!(
        "X-Amz-Algorithm={ALGORITHM}&X-Amz-Credential={}&X-Amz-Date={}&X-Amz-Expires={expires_s}&X-Amz-SignedHeaders={}",
        encode(&credential, false),
        scope.stamp(),
        encode(&names, false),
    );
    let query = if request.query.is_empty() { added } else { format!("{}&{added}", request.query) };
    let signed = Request { query: &query, ..*request };
    let (_, canonical) = canonical_request(&signed, None, &Payload::Unsigned.header());
    let key = scope.key(&credentials.secret_key);
    let signature = signature(&key, &scope.stamp(), &scope.text(), &canonical);
    format!("{query}&X-Amz-Signature={signature}")
}

/// What a valid signature says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// Who signed.
    pub access_key: String,
    /// The value of `x-amz-content-sha256`, `UNSIGNED-PAYLOAD` when absent. The caller compares the body.
    pub payload: String,
    /// The request's own signature: the seed of the chunks.
    pub signature: String,
    /// The scope, `date/region/service/aws4_request`.
    pub scope: String,
}

/// Why a request is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// Nothing is signed.
    #[error("the request is not signed")]
    Unsigned,
    /// It cannot be understood.
    #[error("the signature is malformed: {0}")]
    Malformed(&'static str),
    /// Nobody has this access key.
    #[error("the access key is unknown")]
    UnknownKey,
    /// The signature is another one than the secret gives.
    #[error("the signature does not match")]
    Mismatch,
    /// Signed too long ago, or in the future.
    #[error("the time of signing is {skew_s} s away from ours")]
    Skewed {
        /// Our time minus the request's, in seconds.
        skew_s: i64,
    },
}

/// What a signature is accepted for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms<'a> {
    /// Services that may stand in the scope; empty for any.
    pub services: &'a [&'a str],
    /// The region that must stand in the scope; `None` for any.
    pub region: Option<&'a str>,
    /// The body, for clients that sign its hash and do not send it.
    pub body: Option<&'a [u8]>,
    /// Whether the path may have been encoded once more before it was signed, as generic SigV4 has it and S3 does
    /// not.
    pub encoded_twice: bool,
}

/// Verifies a request signed by headers or by query. `secret` answers the secret of an access key.
///
/// # Errors
/// [`SignatureError`]; the time is looked at last, so that it tells nothing to who has no key.
pub fn verify(
    request: &Request<'_>,
    secret: impl Fn(&str) -> Option<String>,
    now: i64,
) -> Result<Verified, SignatureError> {
    verify_on(request, &Terms::default(), secret, now)
}

/// As [`verify`], on other terms.
///
/// # Errors
/// [`SignatureError`].
pub fn verify_on(
    request: &Request<'_>,
    terms: &Terms<'_>,
    secret: impl Fn(&str) -> Option<String>,
    now: i64,
) -> Result<Verified, SignatureError> {
    let header = |name: &str| {
        let found = request.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim())
    };
    let parameter = |name: &str| {
        let mut pairs = query_pairs(request.query).into_iter();
        pairs.find(|(key, _)| key == name).map(|(_, value)| value)
    };
    let claim = if let Some(authorization) = header("authorization") {
        let fields = authorization
            .strip_prefix(ALGORITHM)
            .ok_or(SignatureError::Malformed("another algorithm"))?;
        let field = |name: &str| {
            let mut fields = fields.split(',').map(str::trim);
            let found = fields.find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            found.map(str::to_owned)
        };
        Claim {
            credential: field("Credential").ok_or(SignatureError::Malformed("no Credential"))?,
            names: field("SignedHeaders").ok_or(SignatureError::Malformed("no SignedHeaders"))?,
            signature: field("Signature").ok_or(SignatureError::Malformed("no Signature"))?,
            stamp: header(AMZ_DATE).ok_or(SignatureError::Malformed("no x-amz-date"))?.to_owned(),
            payload: match (header(CONTENT_SHA256), terms.body) {
                (Some(said), _) => said.to_owned(),
                (None, Some(body)) => Payload::of(body).header(),
                (None, None) => Payload::Unsigned.header(),
            },
            expires_s: None,
        }
    } else if let Some(signature) = parameter("X-Amz-Signature") {
        let need =
            |name| parameter(name).ok_or(SignatureError::Malformed("a parameter is missing"));
        let expires = need("X-Amz-Expires")?.parse::<u32>().ok();
        let expires = expires.filter(|expires_s| *expires_s <= EXPIRES_MAX_S);
        Claim {
            credential: need("X-Amz-Credential")?,
            names: need("X-Amz-SignedHeaders")?,
            signature,
            stamp: need("X-Amz-Date")?,
            payload: "UNSIGNED-PAYLOAD".to_owned(),
            expires_s: Some(i64::from(expires.ok_or(SignatureError::Malformed("X-Amz-Expires"))?)),
        }
    } else {
        return Err(SignatureError::Unsigned);
    };
    claim.check(request, terms, secret, now)
}

/// What a request says of its own signature.
struct Claim {
    credential: String,
    names: String,
    signature: String,
    stamp: String,
    payload: String,
    /// For how long a presigned request counts; `None` when signed by headers.
    expires_s: Option<i64>,
}

impl Claim {
    fn check(
        self,
        request: &Request<'_>,
        terms: &Terms<'_>,
        secret: impl Fn(&str) -> Option<String>,
        now: i64,
    ) -> Result<Verified, SignatureError> {
        let (access_key, scope) = self
            .credential
            .split_once('/')
            .ok_or(SignatureError::Malformed("Credential has no scope"))?;
        let at = unix_seconds(&self.stamp).ok_or(SignatureError::Malformed("x-amz-date"))?;
        if scope.split('/').count() != 4
            || !scope.ends_with("/aws4_request")
            || scope.split('/').next() != self.stamp.get(..8)
        {
            return Err(SignatureError::Malformed("the scope"));
        }
        let mut scoped = scope.split('/').skip(1);
        if terms.region.is_some_and(|region| scoped.next() != Some(region)) {
            return Err(SignatureError::Malformed("another region"));
        }
        let service = scope.split('/').nth(2).unwrap_or_default();
        if !terms.services.is_empty() && !terms.services.contains(&service) {
            return Err(SignatureError::Malformed("another service"));
        }
        if !self.names.split(';').any(|name| name == "host") {
            return Err(SignatureError::Malformed("host is not signed"));
        }
        let secret = secret(access_key).ok_or(SignatureError::UnknownKey)?;
        // What a presigned request added last is not part of what was signed.
        let query = match self.expires_s {
            None => request.query.to_owned(),
            Some(_) => {
                let pairs = request.query.split('&');
                let kept: Vec<_> =
                    pairs.filter(|pair| !pair.starts_with("X-Amz-Signature=")).collect();
                kept.join("&")
            }
        };
        let signed = Request { query: &query, ..*request };
        let key = signing_key(&secret, scope);
        let given = hex::decode(&self.signature).map_err(|_| SignatureError::Mismatch)?;
        let fits = |encoded_twice: bool| {
            let (names, payload) = (Some(self.names.as_str()), self.payload.as_str());
            let (_, canonical) = canonical_request_of(&signed, names, payload, encoded_twice);
            let text = string_to_sign(&self.stamp, scope, &canonical);
            mac(&key, text.as_bytes()).verify_slice(&given).is_ok()
        };
        if !(fits(false) || terms.encoded_twice && fits(true)) {
            return Err(SignatureError::Mismatch);
        }

        let skew_s = now - at;
        let late_max = self.expires_s.unwrap_or(SKEW_MAX_S);
        if skew_s > late_max || skew_s < -SKEW_MAX_S {
            return Err(SignatureError::Skewed { skew_s });
        }
        Ok(Verified {
            access_key: access_key.to_owned(),
            payload: self.payload,
            signature: self.signature,
            scope: scope.to_owned(),
        })
    }
}

/// Signs the chunks of a body, one after the other.
#[derive(Clone)]
pub struct ChunkSigner {
    key: [u8; 32],
    stamp: String,
    scope: String,
    previous: String,
}

impl ChunkSigner {
    /// Starts from the signature of the request that announces the chunks.
    pub fn new(credentials: &Credentials, scope: &Scope<'_>, seed: &str) -> Self {
        Self {
            key: scope.key(&credentials.secret_key),
            stamp: scope.stamp(),
            scope: scope.text(),
            previous: seed.to_owned(),
        }
    }

    /// The signature of the next chunk; an empty one ends the body.
    pub fn sign(&mut self, chunk: &[u8]) -> String {
        let text = format!(
            "{ALGORITHM}-PAYLOAD\n{}\n{}\n{}\n{}\n{}",
            self.stamp,
            self.scope,
            self.previous,
            hex::encode(Sha256::digest(b"")),
            hex::encode(Sha256::digest(chunk)),
        );
        self.previous = hex::encode(mac(&self.key, text.as_bytes()).finalize().into_bytes());
        self.previous.clone()
    }

    /// The next chunk as it is sent: its length and signature, its bytes, a line end.
    pub fn frame(&mut self, chunk: &[u8]) -> Vec<u8> {
        let head = format!("{:x};chunk-signature={}\r\n", chunk.len(), self.sign(chunk));
        [head.as_bytes(), chunk, b"\r\n"].concat()
    }
}

/// `text` percent-encoded as signatures have it: everything but letters, digits and `-._~`, and `/`
/// when `keeps_slash`.
pub fn encode(text: &str, keeps_slash: bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            b'/' if keeps_slash => encoded.push('/'),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

/// The bytes that `text` encodes; a `%` that begins nothing stands for itself.
fn decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let pair = bytes.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let mut one = [0];
        if let Some(pair) = pair
            && hex::decode_to_slice(pair, &mut one).is_ok()
        {
            decoded.push(one[0]);
            at += 3;
        } else {
            decoded.push(bytes[at]);
            at += 1;
        }
    }
    decoded
}

/// Decoded and encoded anew, so that both ends see one spelling.
fn respell(text: &str, keeps_slash: bool) -> String {
    let decoded = decode(text);
    match String::from_utf8(decoded) {
        Ok(text) => encode(&text, keeps_slash),
        // Not text: leave it as it was sent, the other end signed exactly that.
        Err(_) => text.to_owned(),
    }
}

/// A part of a path, decoded.
pub fn decoded(part: &str) -> String {
    String::from_utf8_lossy(&decode(part)).into_owned()
}

/// Names and values of a query, decoded.
pub fn query_pairs(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let split = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let text = |part: &str| String::from_utf8_lossy(&decode(part)).into_owned();
    split.map(|(name, value)| (text(name), text(value))).collect()
}

fn signed_names(headers: &[(String, String)]) -> String {
    let mut names: Vec<_> = headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    names.sort();
    names.dedup();
    names.join(";")
}

/// The names of the signed headers, and the canonical request over them (all when `names` is `None`).
fn canonical_request(
    request: &Request<'_>,
    names: Option<&str>,
    payload: &str,
) -> (String, String) {
    canonical_request_of(request, names, payload, false)
}

fn canonical_request_of(
    request: &Request<'_>,
    names: Option<&str>,
    payload: &str,
    encoded_twice: bool,
) -> (String, String) {
    let names = names.map_or_else(|| signed_names(request.headers), str::to_owned);
    let mut query: Vec<_> = request
        .query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (respell(name, false), respell(value, false)))
        .collect();
    query.sort();
    let query: Vec<_> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();

    let mut headers = String::new();
    for name in names.split(';') {
        let values = request.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        let values: Vec<_> = values
            .map(|(_, value)| value.split_ascii_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        headers.push_str(&format!("{name}:{}\n", values.join(",")));
    }
    let mut path =
        if request.path.is_empty() { "/".to_owned() } else { respell(request.path, true) };
    if encoded_twice {
        path = encode(&path, true);
    }
    let method = request.method;
    let query = query.join("&");
    (names.clone(), format!("{method}\n{path}\n{query}\n{headers}\n{names}\n{payload}"))
}

fn string_to_sign(stamp: &str, scope: &str, canonical: &str) -> String {
    let digest = hex::encode(Sha256::digest(canonical.as_bytes()));
    format!("{ALGORITHM}\n{stamp}\n{scope}\n{digest}")
}

fn signature(key: &[u8], stamp: &str, scope: &str, canonical: &str) -> String {
    let text = string_to_sign(stamp, scope, canonical);
    hex::encode(mac(key, text.as_bytes()).finalize().into_bytes())
}

fn signing_key(secret: &str, scope: &str) -> [u8; 32] {
    let start = format!("AWS4{secret}").into_bytes();
    let key = scope
        .split('/')
        .fold(start, |key, part| mac(&key, part.as_bytes()).finalize().into_bytes().to_vec());
    key.try_into().expect("a scope has parts, and each gives 32 bytes")
}

fn mac(key: &[u8], message: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(message);
    mac
}

/// `20130524T000000Z`.
fn amz_date(unix_s: i64) -> String {
    let time = jiff::Timestamp::from_second(unix_s).unwrap_or_default();
    time.strftime("%Y%m%dT%H%M%SZ").to_string()
}

fn unix_seconds(stamp: &str) -> Option<i64> {
    let time = jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", stamp).ok()?;
    Some(jiff::tz::TimeZone::UTC.to_timestamp(time).ok()?.as_second())
}

#[cfg(test)]
mod tests;
