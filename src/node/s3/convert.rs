//! Between S3's values and the store's: conditions, checksums, metadata, times.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::Context;
use std::task::Poll;
use std::time::Duration;
use std::time::UNIX_EPOCH;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures::Stream;
use futures::StreamExt as _;
use http::HeaderMap;
use s3s::S3Result;
use s3s::TrailingHeaders;
use s3s::dto::ChecksumType;
use s3s::dto::ETag;
use s3s::dto::StreamingBlob;
use s3s::dto::Timestamp;
use s3s::dto::TimestampFormat;
use s3s::s3_error;

use super::tags;
use crate::disk::format::checksum::Algorithm;
use crate::disk::format::checksum::Record;
use crate::node::store::api::BodyError;
use crate::node::store::api::BodyStream;
use crate::node::store::api::ContentStream;
use crate::node::store::api::ExpectedChecksum;
use crate::node::store::api::Metadata;
use crate::node::store::api::StoreError;
use crate::node::store::api::WantedChecksum;
use crate::protocol::object::condition::Conditions;
use crate::protocol::object::condition::Tags;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// The algorithms that S3 has, with their names and the lengths of their digests.
const ALGORITHMS: [(Algorithm, &str, usize); 5] = [
    (Algorithm::Crc32, "CRC32", 4),
    (Algorithm::Crc32C, "CRC32C", 4),
    (Algorithm::Crc64Nvme, "CRC64NVME", 8),
    (Algorithm::Sha1, "SHA1", 20),
    (Algorithm::Sha256, "SHA256", 32),
];

/// The most bytes of a user's metadata, names and values together.
const USER_BYTES_MAX: usize = 2 << 10;
/// The most bytes of the headers that are kept with an object.
const HEADER_BYTES_MAX: usize = 8 << 10;

/// Text without its percent-encoding; what is none stays as it is.
pub fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        let digits = others.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte.filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &others[2..];
            }
            None => {
                bytes.push(*first);
                rest = others;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A key of a bucket.
pub fn target(bucket: String, key: String) -> ObjectKey {
    ObjectKey { bucket, key }
}

/// A version as clients name it.
pub fn version(id: Option<String>) -> S3Result<Option<VersionId>> {
    let parse = |id: String| {
        id.parse().map_err(|why: String| s3_error!(InvalidArgument, "Invalid version id: {why}"))
    };
    id.filter(|id| !id.is_empty()).map(parse).transpose()
}

/// The version that a write has made, as S3 tells it: of the null version it says nothing.
pub fn made(version: Option<VersionId>) -> Option<String> {
    version.filter(|version| !version.is_null()).map(|version| version.to_string())
}

/// An ETag as S3 prints it.
pub fn etag(etag: String) -> Option<ETag> {
    Some(ETag::Strong(etag))
}

/// A time.
pub fn time(unix_ns: i64) -> Option<Timestamp> {
    let since = Duration::from_nanos(u64::try_from(unix_ns).unwrap_or(0));
    Some(Timestamp::from(UNIX_EPOCH + since))
}

/// A time as HTTP headers have it.
pub fn http_date(unix_ns: i64) -> String {
    let mut text = Vec::new();
    let formatted = time(unix_ns).map(|time| time.format(TimestampFormat::HttpDate, &mut text));
    match formatted {
        Some(Ok(())) => String::from_utf8(text).unwrap_or_default(),
        _ => String::new(),
    }
}

/// Unix seconds, rounded down.
pub fn unix_s(time: &Timestamp) -> Option<i64> {
    let mut text = Vec::new();
    time.format(TimestampFormat::EpochSeconds, &mut text).ok()?;
    let seconds: f64 = String::from_utf8(text).ok()?.parse().ok()?;
    Some(seconds.floor() as i64)
}

/// The conditions of a request, from its headers; `prefix` is `x-amz-copy-source-` for those on a
/// copy's source.
pub fn conditions(headers: &HeaderMap, prefix: &str) -> S3Result<Conditions> {
    let header = |name: &str| {
        let value = headers.get(format!("{prefix}{name}"))?;
        Some(value.to_str().map_err(|_| s3_error!(InvalidArgument, "{prefix}{name} is not text")))
    };
    let tags = |name: &str| header(name).transpose().map(|value| value.map(Tags::parse));
    let date = |name: &str| -> S3Result<Option<i64>> {
        let Some(value) = header(name).transpose()? else { return Ok(None) };
        // A date that cannot be read is no condition (RFC 9110, 13.1.3).
        Ok(Timestamp::parse(TimestampFormat::HttpDate, value).ok().as_ref().and_then(unix_s))
    };
    Ok(Conditions {
        if_size: None,
        if_modified_at_s: None,
        if_match: tags("if-match")?,
        if_none_match: tags("if-none-match")?,
        if_modified_since_s: date("if-modified-since")?,
        if_unmodified_since_s: date("if-unmodified-since")?,
    })
}

/// `Content-MD5`.
pub fn content_md5(value: Option<String>) -> S3Result<Option<[u8; 16]>> {
    let Some(value) = value else { return Ok(None) };
    let bytes = BASE64_STANDARD.decode(value).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.map(Some).ok_or_else(|| s3_error!(InvalidDigest))
}

/// The algorithm with this name.
pub fn algorithm(name: &str) -> S3Result<Algorithm> {
    let found = ALGORITHMS.iter().find(|(_, known, _)| name.eq_ignore_ascii_case(known));
    let found = found.map(|(algorithm, ..)| *algorithm);
    found.ok_or_else(|| s3_error!(InvalidRequest, "checksum algorithm {name} is unknown"))
}

/// The name of an algorithm that S3 has.
pub fn algorithm_name(algorithm: Algorithm) -> Option<&'static str> {
    ALGORITHMS.iter().find(|(known, ..)| *known == algorithm).map(|(_, name, _)| *name)
}

/// A digest as clients write it; a composite one ends in `-` and its parts.
pub fn digest(algorithm: Algorithm, text: &str) -> S3Result<Vec<u8>> {
    let text = text.split_once('-').map_or(text, |(digest, _)| digest);
    let length = ALGORITHMS.iter().find(|(known, ..)| *known == algorithm).map(|known| known.2);
    let digest = BASE64_STANDARD.decode(text).ok();
    let digest = digest.filter(|digest| Some(digest.len()) == length);
    // What no contents have is a wrong checksum of any.
    digest.ok_or_else(|| s3_error!(BadDigest, "a checksum value is malformed"))
}

/// The one checksum of an XML or header group, if any.
pub fn one_checksum(
    given: [(Algorithm, Option<String>); 5],
) -> S3Result<Option<(Algorithm, Vec<u8>)>> {
    let mut found = None;
    for (algorithm, text) in given {
        let Some(text) = text else { continue };
        if found.is_some() {
            return Err(s3_error!(InvalidRequest, "more than one checksum is given"));
        }
        found = Some((algorithm, digest(algorithm, &text)?));
    }
    Ok(found)
}

/// The checksums that a request announces in its headers or for its trailer.
pub fn wanted_checksums(
    headers: &HeaderMap,
    trailers: Option<TrailingHeaders>,
    asked: Option<&str>,
) -> S3Result<Vec<WantedChecksum>> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let announced = text("x-amz-trailer").unwrap_or_default().to_ascii_lowercase();
    let mut wanted = Vec::new();
    for (algorithm, name, _) in ALGORITHMS {
        let header = format!("x-amz-checksum-{}", name.to_ascii_lowercase());
        let expected = if let Some(value) = text(&header) {
            ExpectedChecksum::Is(digest(algorithm, value)?)
        } else if announced.split(',').any(|trailer| trailer.trim() == header) {
            let trailers = trailers.clone();
            ExpectedChecksum::Trailing(Box::new(move || {
                let trailers = trailers?;
                let value = trailers.read(|trailers| {
                    let value = trailers.get(&header)?.to_str().ok()?;
                    digest(algorithm, value).ok()
                });
                value.flatten()
            }))
        } else {
            continue;
        };
        wanted.push(WantedChecksum { algorithm, expected });
    }
    if wanted.len() > 1 {
        return Err(s3_error!(InvalidRequest, "more than one checksum is given"));
    }
    if let (true, Some(asked)) = (wanted.is_empty(), asked) {
        let algorithm = algorithm(asked)?;
        wanted.push(WantedChecksum { algorithm, expected: ExpectedChecksum::Any });
    }
    Ok(wanted)
}

/// A kept checksum as S3 prints it.
pub fn printed(record: &Record) -> String {
    let digest = BASE64_STANDARD.encode(&record.digest);
    if record.is_composite() { format!("{digest}-{}", record.part_count) } else { digest }
}

/// Whether kept checksums are over the contents or over their parts' digests.
pub fn checksum_type(records: &[Record]) -> Option<ChecksumType> {
    let first = records.iter().find(|record| algorithm_name(record.algorithm).is_some())?;
    Some(ChecksumType::from_static(if first.is_composite() {
        ChecksumType::COMPOSITE
    } else {
        ChecksumType::FULL_OBJECT
    }))
}

/// Sets the five checksum fields of an output from `(Algorithm, String)` pairs.
macro_rules! set_checksums {
    ($output:expr, $checksums:expr) => {
        for (algorithm, text) in $checksums {
            match algorithm {
                $crate::disk::format::checksum::Algorithm::Crc32 => {
                    $output.checksum_crc32 = Some(text);
                }
                $crate::disk::format::checksum::Algorithm::Crc32C => {
                    $output.checksum_crc32c = Some(text);
                }
                $crate::disk::format::checksum::Algorithm::Crc64Nvme => {
                    $output.checksum_crc64nvme = Some(text);
                }
                $crate::disk::format::checksum::Algorithm::Sha1 => {
                    $output.checksum_sha1 = Some(text);
                }
                $crate::disk::format::checksum::Algorithm::Sha256 => {
                    $output.checksum_sha256 = Some(text);
                }
                _ => {}
            }
        }
    };
}
pub(super) use set_checksums;

/// The five checksum fields of an input, for [`one_checksum`].
macro_rules! given_checksums {
    ($input:expr) => {
        [
            ($crate::disk::format::checksum::Algorithm::Crc32, $input.checksum_crc32.clone()),
            ($crate::disk::format::checksum::Algorithm::Crc32C, $input.checksum_crc32c.clone()),
            (
                $crate::disk::format::checksum::Algorithm::Crc64Nvme,
                $input.checksum_crc64nvme.clone(),
            ),
            ($crate::disk::format::checksum::Algorithm::Sha1, $input.checksum_sha1.clone()),
            ($crate::disk::format::checksum::Algorithm::Sha256, $input.checksum_sha256.clone()),
        ]
    };
}
pub(super) use given_checksums;

/// Pairs of algorithm and printed digest.
pub fn printed_all(records: &[Record]) -> Vec<(Algorithm, String)> {
    records.iter().map(|record| (record.algorithm, printed(record))).collect()
}

/// The same for digests that are not records.
pub fn printed_digests(digests: &[(Algorithm, Vec<u8>)]) -> Vec<(Algorithm, String)> {
    digests.iter().map(|(algorithm, digest)| (*algorithm, BASE64_STANDARD.encode(digest))).collect()
}

/// What a request wants to be kept with an object, from its headers.
pub fn metadata(
    headers: &HeaderMap,
    user: Option<impl IntoIterator<Item = (String, String)>>,
) -> S3Result<Metadata> {
    let text = |name: &str| -> S3Result<Option<String>> {
        let Some(value) = headers.get(name) else { return Ok(None) };
        let value = value.to_str().map_err(|_| s3_error!(InvalidArgument, "{name} is not text"))?;
        Ok(Some(value.to_owned()))
    };
    let mut kept = BTreeMap::new();
    for name in [
        "content-type",
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "expires",
    ] {
        let Some(mut value) = text(name)? else { continue };
        if name == "content-encoding" {
            // How the body was sent, not what the object is.
            let parts = value.split(',').map(str::trim).filter(|part| *part != "aws-chunked");
            value = parts.collect::<Vec<_>>().join(",");
            if value.is_empty() {
                continue;
            }
        }
        kept.insert(name.to_owned(), value);
    }
    let reduced_redundancy = match text("x-amz-storage-class")?.as_deref() {
        None | Some("STANDARD") => false,
        Some("REDUCED_REDUNDANCY") => true,
        Some(_) => return Err(s3_error!(InvalidStorageClass)),
    };
    let user = user.into_iter().flatten();
    let user: BTreeMap<_, _> =
        user.map(|(name, value)| (name.to_ascii_lowercase(), value)).collect();
    let bytes = |(name, value): (&String, &String)| name.len() + value.len();
    let is_too_large = user.iter().map(bytes).sum::<usize>() > USER_BYTES_MAX
        || kept.iter().map(bytes).sum::<usize>() > HEADER_BYTES_MAX;
    if is_too_large {
        return Err(s3_error!(MetadataTooLarge));
    }
    Ok(Metadata {
        headers: kept,
        user,
        tags: tags::of_header(headers)?,
        acl: None,
        reduced_redundancy,
    })
}

/// A request's body for the store.
pub fn body(blob: Option<StreamingBlob>) -> BodyStream {
    match blob {
        None => futures::stream::empty().boxed(),
        Some(blob) => blob.map(|bytes| bytes.map_err(|error| BodyError(error.to_string()))).boxed(),
    }
}

/// A length that a request announces.
pub fn length(length: Option<i64>) -> S3Result<Option<u64>> {
    let convert = |length: i64| length.try_into().map_err(|_| s3_error!(InvalidArgument));
    length.map(convert).transpose()
}

/// A number that an answer carries.
pub fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The store's contents as s3s wants them: shared between threads, though it never is.
pub struct Content(Mutex<ContentStream>);

impl Content {
    /// These contents.
    pub fn blob(content: ContentStream) -> StreamingBlob {
        StreamingBlob::wrap(Self(Mutex::new(content)))
    }
}

impl Stream for Content {
    type Item = Result<Bytes, StoreError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let content = self.0.get_mut().expect("nobody else ever holds it");
        content.poll_next_unpin(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
        });
        pairs.collect()
    }

    #[test]
    fn conditions_are_read_from_their_headers() {
        let given = headers(&[
            ("if-none-match", "*"),
            ("if-modified-since", "Fri, 24 May 2013 00:00:00 GMT"),
            ("x-amz-copy-source-if-match", "\"aa\", W/\"bb\""),
            ("if-unmodified-since", "yesterday"),
        ]);
        let read = conditions(&given, "").expect("they are text");
        assert_eq!(read.if_none_match, Some(Tags::Any));
        assert_eq!(read.if_modified_since_s, Some(1_369_353_600));
        assert_eq!(read.if_unmodified_since_s, None);
        let source = conditions(&given, "x-amz-copy-source-").expect("they are text");
        assert_eq!(source.if_match, Some(Tags::OneOf(vec!["aa".to_owned(), "bb".to_owned()])));
        assert_eq!(source.if_none_match, None);
    }

    #[test]
    fn one_checksum_is_taken_and_two_or_a_malformed_one_are_not() {
        let crc = ("x-amz-checksum-crc32", "AAAAAQ==");
        let wanted = wanted_checksums(&headers(&[crc]), None, None).expect("a sound one");
        assert!(
            matches!(&wanted[..], [WantedChecksum { algorithm: Algorithm::Crc32, expected: ExpectedChecksum::Is(digest) }] if *digest == [0, 0, 0, 1])
        );
        let trailer = ("x-amz-trailer", "x-amz-checksum-crc64nvme");
        let wanted = wanted_checksums(&headers(&[trailer]), None, None).expect("a sound one");
        assert!(matches!(
            &wanted[..],
            [WantedChecksum {
                algorithm: Algorithm::Crc64Nvme,
                expected: ExpectedChecksum::Trailing(_)
            }]
        ));
        let wanted = wanted_checksums(&headers(&[]), None, Some("SHA256")).expect("a sound one");
        assert!(matches!(
            &wanted[..],
            [WantedChecksum { algorithm: Algorithm::Sha256, expected: ExpectedChecksum::Any }]
        ));
        for bad in [
            &[crc, trailer][..],
            &[("x-amz-checksum-sha1", "AAAAAQ==")][..],
            &[("x-amz-checksum-crc32", "!")][..],
        ] {
            assert!(wanted_checksums(&headers(bad), None, None).is_err(), "{bad:?}");
        }
        assert!(wanted_checksums(&headers(&[]), None, Some("MD4")).is_err());
    }

    #[test]
    fn how_a_body_was_sent_is_not_kept_with_it() {
        let given = headers(&[
            ("content-encoding", "aws-chunked,gzip"),
            ("content-type", "text/plain"),
            ("x-amz-storage-class", "STANDARD"),
        ]);
        let user = [("Colour".to_owned(), "Red".to_owned())];
        let kept = metadata(&given, Some(user)).expect("sound headers");
        assert_eq!(kept.headers["content-encoding"], "gzip");
        assert_eq!(kept.headers["content-type"], "text/plain");
        assert_eq!(kept.user["colour"], "Red");
        let none: Option<[(String, String); 0]> = None;
        let kept = metadata(&headers(&[("content-encoding", "aws-chunked")]), none);
        assert!(kept.expect("sound headers").headers.is_empty());
        let none: Option<[(String, String); 0]> = None;
        assert!(metadata(&headers(&[("x-amz-storage-class", "GLACIER")]), none).is_err());
    }

    #[test]
    fn percent_encoding_is_undone_where_it_is_one() {
        assert_eq!(decoded("a%20b%2F%C3%BC"), "a b/ü");
        assert_eq!(decoded("100%"), "100%");
        assert_eq!(decoded("%zz%4"), "%zz%4");
    }

    #[test]
    fn times_are_printed_as_http_has_them() {
        assert_eq!(http_date(1_369_353_600_999_999_999), "Fri, 24 May 2013 00:00:00 GMT");
    }
}
