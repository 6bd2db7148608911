//! What the store could not do, as S3 says it.
//!
//! What must hold: an error whose effect is unknown is a 500, which a client must take as unknown; a
//! 503 says that nothing was done; a 4xx is a definite refusal.

use http::HeaderMap;
use http::HeaderName;
use http::HeaderValue;
use http::StatusCode;
use s3s::S3Error;
use s3s::S3ErrorCode;

use crate::disk::layout::IllegalName;
use crate::node::s3::convert;
use crate::node::store::api::BodyError;
use crate::node::store::api::StoreError;
use crate::protocol::object::condition::Unmet;
use crate::value::VersionId;

/// The error as S3 has it.
pub fn s3_error(error: &StoreError) -> S3Error {
    let mut answer = S3Error::with_message(code(error), crate::node::chain(error));
    let mut headers = HeaderMap::new();
    match error {
        StoreError::Deleted { marker, modtime_ns, .. } => {
            headers = marker_headers(*marker, *modtime_ns);
        }
        StoreError::IsDeleteMarker { version, modtime_ns, .. } => {
            headers = marker_headers(*version, *modtime_ns);
            headers.insert(http::header::ALLOW, HeaderValue::from_static("DELETE"));
        }
        StoreError::Condition { unmet: Unmet::NotModified, current, .. } => {
            answer.set_status_code(StatusCode::NOT_MODIFIED);
            if let Some((etag, modtime_ns)) = current {
                put(&mut headers, http::header::ETAG, &format!("\"{etag}\""));
                put(&mut headers, http::header::LAST_MODIFIED, &convert::http_date(*modtime_ns));
            }
        }
        StoreError::Range { size } => {
            put(&mut headers, http::header::CONTENT_RANGE, &format!("bytes */{size}"));
        }
        StoreError::IncompleteBody(body) if is_other_body(body) => {
            answer.set_status_code(StatusCode::BAD_REQUEST);
        }
        _ => {}
    }
    answer.set_headers(headers);
    answer
}

fn code(error: &StoreError) -> S3ErrorCode {
    match error {
        StoreError::NoSuchBucket(_) => S3ErrorCode::NoSuchBucket,
        StoreError::BucketExists(_) => S3ErrorCode::BucketAlreadyOwnedByYou,
        StoreError::BucketNotEmpty(_) => S3ErrorCode::BucketNotEmpty,
        StoreError::NoSuchKey(_) | StoreError::Deleted { .. } => S3ErrorCode::NoSuchKey,
        StoreError::NoSuchVersion { .. } => S3ErrorCode::NoSuchVersion,
        StoreError::IsDeleteMarker { .. } => S3ErrorCode::MethodNotAllowed,
        StoreError::Condition { unmet: Unmet::Failed, .. } => S3ErrorCode::PreconditionFailed,
        StoreError::Condition { unmet: Unmet::NoSuchKey, .. } => S3ErrorCode::NoSuchKey,
        StoreError::Condition { unmet: Unmet::NotModified, .. } => S3ErrorCode::NotModified,
        StoreError::Range { .. } => S3ErrorCode::InvalidRange,
        StoreError::IllegalName(IllegalName::Bucket) => S3ErrorCode::InvalidBucketName,
        StoreError::IllegalName(IllegalName::TooLong) => S3ErrorCode::KeyTooLongError,
        StoreError::IllegalName(_) => S3ErrorCode::InvalidArgument,
        StoreError::NoSuchUpload(_) => S3ErrorCode::NoSuchUpload,
        StoreError::InvalidPart(_) => S3ErrorCode::InvalidPart,
        StoreError::InvalidPartOrder => S3ErrorCode::InvalidPartOrder,
        StoreError::PartTooSmall { .. } => S3ErrorCode::EntityTooSmall,
        StoreError::InvalidRequest(_) => S3ErrorCode::InvalidRequest,
        StoreError::BadDigest | StoreError::BadChecksum(_) => S3ErrorCode::BadDigest,
        StoreError::IncompleteBody(body) if is_other_body(body) => {
            S3ErrorCode::Custom("XAmzContentSHA256Mismatch".into())
        }
        StoreError::IncompleteBody(_) => S3ErrorCode::IncompleteBody,
        StoreError::Lock(_) | StoreError::NoQuorum { .. } => S3ErrorCode::SlowDown,
        StoreError::Unreadable { .. } | StoreError::Unknown { .. } => S3ErrorCode::InternalError,
    }
}

/// Whether s3s found another body than the one that was signed.
fn is_other_body(body: &BodyError) -> bool {
    body.0.contains("Sha256Mismatch")
}

/// Says that the latest or named version is a delete marker.
fn marker_headers(marker: VersionId, modtime_ns: i64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("x-amz-delete-marker", HeaderValue::from_static("true"));
    put(&mut headers, HeaderName::from_static("x-amz-version-id"), &marker.to_string());
    put(&mut headers, http::header::LAST_MODIFIED, &convert::http_date(modtime_ns));
    headers
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::drive::Effect;
    use crate::value::ObjectKey;

    fn key() -> ObjectKey {
        ObjectKey { bucket: "b".to_owned(), key: "k".to_owned() }
    }

    #[test]
    fn an_unknown_outcome_is_never_a_refusal_and_a_503_says_that_nothing_was_done() {
        let unknown = StoreError::Unknown { target: key(), why: String::new() };
        let quorum = StoreError::NoQuorum { what: "take it", able: 1, needed: 3, why: None };
        for error in [unknown.clone(), quorum, StoreError::BadDigest, StoreError::NoSuchKey(key())]
        {
            let answered = s3_error(&error).status_code().expect("a status");
            let code = answered.as_u16();
            match error.effect() {
                Effect::Unknown => assert_eq!(code, 500, "{error}"),
                Effect::None => assert!(code == 503 || code < 500, "{error}: {code}"),
            }
        }
    }

    #[test]
    fn a_delete_marker_is_told_from_a_key_that_never_was() {
        let marker = VersionId([7; 16]);
        let deleted = StoreError::Deleted { target: key(), marker, modtime_ns: 0 };
        let error = s3_error(&deleted);
        assert_eq!(error.status_code(), Some(StatusCode::NOT_FOUND));
        let headers = error.headers().expect("headers");
        assert_eq!(headers["x-amz-delete-marker"], "true");
        assert_eq!(headers["x-amz-version-id"], marker.to_string().as_str());
        let named =
            StoreError::IsDeleteMarker { target: key(), version: VersionId::NULL, modtime_ns: 0 };
        let error = s3_error(&named);
        assert_eq!(error.status_code(), Some(StatusCode::METHOD_NOT_ALLOWED));
        assert_eq!(error.headers().expect("headers")["x-amz-version-id"], "null");
    }
}
