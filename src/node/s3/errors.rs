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
use s3s::s3_error;

use crate::disk::layout::IllegalName;
use crate::node::s3::convert;
use crate::node::store::api::StoreError;
use crate::protocol::object::condition::Unmet;
use crate::protocol::rules::Rules;
use crate::value::VersionId;

/// The error as S3 has it.
pub fn s3_error(error: &StoreError, rules: &dyn Rules) -> S3Error {
    let message = crate::node::chain(error);
    match error {
        StoreError::NoSuchBucket(_) => S3Error::with_message(S3ErrorCode::NoSuchBucket, message),
        StoreError::BucketExists(_) => {
            S3Error::with_message(S3ErrorCode::BucketAlreadyOwnedByYou, message)
        }
        StoreError::BucketNotEmpty(_) => {
            S3Error::with_message(S3ErrorCode::BucketNotEmpty, message)
        }
        StoreError::NoSuchKey(_) => S3Error::with_message(S3ErrorCode::NoSuchKey, message),
        StoreError::Deleted { marker, modtime_ns, .. } => {
            let mut error = S3Error::with_message(S3ErrorCode::NoSuchKey, message);
            error.set_headers(marker_headers(*marker, *modtime_ns));
            error
        }
        StoreError::NoSuchVersion { .. } => {
            S3Error::with_message(S3ErrorCode::NoSuchVersion, message)
        }
        StoreError::IsDeleteMarker { version, modtime_ns, .. } => {
            let mut error = S3Error::with_message(S3ErrorCode::MethodNotAllowed, message);
            let mut headers = marker_headers(*version, *modtime_ns);
            headers.insert(http::header::ALLOW, HeaderValue::from_static("DELETE"));
            error.set_headers(headers);
            error
        }
        StoreError::Condition { unmet: Unmet::Failed, .. } => {
            S3Error::with_message(S3ErrorCode::PreconditionFailed, message)
        }
        StoreError::Condition { unmet: Unmet::NoSuchKey, .. } => {
            S3Error::with_message(S3ErrorCode::NoSuchKey, message)
        }
        StoreError::Condition { unmet: Unmet::NotModified, current, .. } => {
            let mut error = S3Error::with_message(S3ErrorCode::NotModified, message);
            error.set_status_code(StatusCode::NOT_MODIFIED);
            let mut headers = HeaderMap::new();
            if let Some((etag, modtime_ns)) = current {
                put(&mut headers, http::header::ETAG, &format!("\"{etag}\""));
                put(&mut headers, http::header::LAST_MODIFIED, &convert::http_date(*modtime_ns));
            }
            error.set_headers(headers);
            error
        }
        StoreError::Range { size } => {
            let mut error = S3Error::with_message(S3ErrorCode::InvalidRange, message);
            let mut headers = HeaderMap::new();
            put(&mut headers, http::header::CONTENT_RANGE, &format!("bytes */{size}"));
            error.set_headers(headers);
            error
        }
        StoreError::IllegalName(IllegalName::Bucket) => {
            S3Error::with_message(S3ErrorCode::InvalidBucketName, message)
        }
        StoreError::IllegalName(IllegalName::TooLong) => {
            S3Error::with_message(S3ErrorCode::KeyTooLongError, message)
        }
        StoreError::IllegalName(_) => S3Error::with_message(S3ErrorCode::InvalidArgument, message),
        StoreError::NoSuchUpload(_) => S3Error::with_message(S3ErrorCode::NoSuchUpload, message),
        StoreError::InvalidPart(_) => S3Error::with_message(S3ErrorCode::InvalidPart, message),
        StoreError::InvalidPartOrder => {
            S3Error::with_message(S3ErrorCode::InvalidPartOrder, message)
        }
        StoreError::PartTooSmall { .. } => {
            S3Error::with_message(S3ErrorCode::EntityTooSmall, message)
        }
        StoreError::InvalidRequest(_) => {
            S3Error::with_message(S3ErrorCode::InvalidRequest, message)
        }
        StoreError::BadDigest | StoreError::BadChecksum(_) => {
            S3Error::with_message(S3ErrorCode::BadDigest, message)
        }
        StoreError::IncompleteBody(body) if body.0.contains("Sha256Mismatch") => {
            let mut error = s3_error!(InvalidRequest, "the body is not the one that was signed");
            error.set_code(S3ErrorCode::Custom("XAmzContentSHA256Mismatch".into()));
            error.set_status_code(StatusCode::BAD_REQUEST);
            error
        }
        StoreError::IncompleteBody(_) => {
            S3Error::with_message(S3ErrorCode::IncompleteBody, message)
        }
        StoreError::Lock(_) | StoreError::NoQuorum { .. } => {
            S3Error::with_message(S3ErrorCode::SlowDown, message)
        }
        StoreError::Unreadable { .. } => S3Error::with_message(S3ErrorCode::InternalError, message),
        StoreError::Unknown { .. } if rules.admits_the_unknown() => {
            S3Error::with_message(S3ErrorCode::InternalError, message)
        }
        StoreError::Unknown { .. } => S3Error::with_message(S3ErrorCode::OperationAborted, message),
    }
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
    use crate::protocol::control::Defect;
    use crate::protocol::rules::Sound;
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
            let answered = s3_error(&error, &Sound).status_code().expect("a status");
            let code = answered.as_u16();
            match error.effect() {
                Effect::Unknown => assert_eq!(code, 500, "{error}"),
                Effect::None => assert!(code == 503 || code < 500, "{error}: {code}"),
            }
        }
        let bent = crate::node::defects::rules(&[Defect::RefusesTheUnknown]);
        let answered = s3_error(&unknown, &*bent).status_code().expect("a status");
        assert!(answered.is_client_error(), "the planted defect calls it a refusal");
    }

    #[test]
    fn a_delete_marker_is_told_from_a_key_that_never_was() {
        let marker = VersionId([7; 16]);
        let deleted = StoreError::Deleted { target: key(), marker, modtime_ns: 0 };
        let error = s3_error(&deleted, &Sound);
        assert_eq!(error.status_code(), Some(StatusCode::NOT_FOUND));
        let headers = error.headers().expect("headers");
        assert_eq!(headers["x-amz-delete-marker"], "true");
        assert_eq!(headers["x-amz-version-id"], marker.to_string().as_str());
        let named =
            StoreError::IsDeleteMarker { target: key(), version: VersionId::NULL, modtime_ns: 0 };
        let error = s3_error(&named, &Sound);
        assert_eq!(error.status_code(), Some(StatusCode::METHOD_NOT_ALLOWED));
        assert_eq!(error.headers().expect("headers")["x-amz-version-id"], "null");
    }
}
