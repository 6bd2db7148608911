//! Requests whose body is a document: it is read whole, and within bounds, before S3 sees the request.
//!
//! What S3 is given then is there: a document that is too large or does not come is the client's fault, and is
//! answered as one.

use bytes::Bytes;
use http::Method;
use http::Request;
use http::StatusCode;
use http::request::Parts;
use http_body::Body;
use http_body_util::BodyExt as _;
use http_body_util::LengthLimitError;
use http_body_util::Limited;

use crate::sigv4;

/// Bytes of the largest document: a completed upload of ten thousand parts with their checksums takes a third of it.
pub const BYTES_MAX: usize = 8 << 20;

/// Why a request is not handed on; nothing was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The status of the answer.
    pub status: StatusCode,
    /// The code, as S3 names it.
    pub code: &'static str,
    /// The reason, in words that XML can carry.
    pub message: &'static str,
}

const TOO_LARGE: Refusal = Refusal {
    status: StatusCode::BAD_REQUEST,
    code: "MaxMessageLengthExceeded",
    message: "the document is too large",
};
const INCOMPLETE: Refusal = Refusal {
    status: StatusCode::BAD_REQUEST,
    code: "IncompleteBody",
    message: "the document did not come whole, or not in time",
};
const TOO_LONG: Refusal = Refusal {
    status: StatusCode::BAD_REQUEST,
    code: "AuthorizationQueryParametersError",
    message: "a presigned request counts for at most seven days",
};

/// Refuses what is wrong with a request's head that S3 would let pass.
///
/// # Errors
/// A presigned request that counts for longer than any may.
pub fn check(head: &Parts) -> Result<(), Refusal> {
    let pairs = sigv4::query_pairs(head.uri.query().unwrap_or_default());
    let mut expires = pairs.iter().filter(|(name, _)| name == "X-Amz-Expires");
    let is_fine = expires.all(|(_, value)| {
        value.parse::<u32>().is_ok_and(|expires_s| expires_s <= sigv4::EXPIRES_MAX_S)
    });
    if is_fine { Ok(()) } else { Err(TOO_LONG) }
}

/// Whether the body of a request with this head is a document and no object's contents.
pub fn is_one(head: &Parts) -> bool {
    let path = head.uri.path().trim_start_matches('/');
    let names_key = path.split_once('/').is_some_and(|(_, key)| !key.is_empty());
    let kind = head.headers.get(http::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    match head.method {
        Method::POST => !kind.is_some_and(|kind| kind.starts_with("multipart/form-data")),
        Method::PUT if names_key => {
            let pairs = sigv4::query_pairs(head.uri.query().unwrap_or_default());
            let documents = ["acl", "tagging", "retention", "legal-hold", "restore"];
            pairs.iter().any(|(name, _)| documents.contains(&name.as_str()))
        }
        _ => true,
    }
}

/// The request with its document.
///
/// # Errors
/// It is too large, or does not come whole.
pub async fn read<B>(request: Request<B>) -> Result<Request<Bytes>, Refusal>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (head, body) = request.into_parts();
    match Limited::new(body, BYTES_MAX).collect().await {
        Ok(body) => Ok(Request::from_parts(head, body.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Err(TOO_LARGE),
        Err(_) => Err(INCOMPLETE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Full;

    fn head(method: &str, target: &str) -> Parts {
        let request = Request::builder().method(method).uri(target).body(());
        request.expect("a request").into_parts().0
    }

    #[test]
    fn only_contents_are_no_documents() {
        for (method, target, expected) in [
            ("PUT", "/bucket/key", false),
            ("PUT", "/bucket/key?partNumber=1&uploadId=x", false),
            ("PUT", "/bucket/key?tagging", true),
            ("PUT", "/bucket", true),
            ("PUT", "/bucket/?versioning", true),
            ("POST", "/bucket?delete", true),
            ("POST", "/bucket/key?uploadId=x", true),
            ("GET", "/bucket/key", true),
            ("DELETE", "/bucket/key", true),
        ] {
            assert_eq!(is_one(&head(method, target)), expected, "{method} {target}");
        }
    }

    #[test]
    fn a_presigned_request_counts_for_seven_days_at_most() {
        assert_eq!(check(&head("GET", "/b/k?X-Amz-Expires=604800&x=y")), Ok(()));
        for expires in ["604801", "99999999999999999999", "-1", "", "x"] {
            let target = format!("/b/k?X-Amz-Expires={expires}");
            assert_eq!(check(&head("GET", &target)), Err(TOO_LONG), "{expires}");
        }
    }

    #[tokio::test]
    async fn a_document_is_as_large_as_it_may_be() {
        let request = |bytes: usize| Request::new(Full::new(Bytes::from(vec![b' '; bytes])));
        let read_whole = read(request(BYTES_MAX)).await.expect("as large as it may be");
        assert_eq!(read_whole.into_body().len(), BYTES_MAX);
        assert_eq!(read(request(BYTES_MAX + 1)).await.err(), Some(TOO_LARGE));
    }
}
