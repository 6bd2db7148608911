//! What the catalog answers: JSON, and errors in the shape that Iceberg clients read.
//!
//! # Sources
//!
//! Specification of the catalog §2.1 (rules 5 to 7, the error body).

use bytes::Bytes;
use http::Response;
use http::StatusCode;
use http::header::CACHE_CONTROL;
use http::header::CONTENT_TYPE;
use http::header::RETRY_AFTER;
use serde::Serialize;

use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;

/// Seconds after which a client may try again what cannot be done now.
const RETRY_AFTER_S: &str = "1";

/// An answer.
#[derive(Debug)]
pub enum Reply {
    /// 200 with a document.
    Json(Vec<u8>),
    /// 200 with a document that nobody may keep.
    Secret(Vec<u8>),
    /// 204.
    Empty,
}

impl Reply {
    /// 200 with this document.
    pub fn json<T: Serialize + ?Sized>(document: &T) -> Self {
        Self::Json(bytes_of(document))
    }
}

fn bytes_of<T: Serialize + ?Sized>(document: &T) -> Vec<u8> {
    serde_json::to_vec(document).expect("answers are made of texts, numbers and lists of them")
}

/// An error as it stands on the wire.
#[derive(Serialize)]
struct Body<'a> {
    error: Fault<'a>,
}

#[derive(Serialize)]
struct Fault<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    code: u16,
}

/// The answer on the wire. `changes` says whether the request may change something, `is_head` that it wants no body.
pub fn written(reply: Result<Reply, Refusal>, changes: bool, is_head: bool) -> Response<Bytes> {
    match reply {
        Ok(Reply::Empty) => answer(StatusCode::NO_CONTENT, Vec::new()),
        Ok(Reply::Json(json)) => answer(StatusCode::OK, json),
        Ok(Reply::Secret(json)) => {
            let mut secret = answer(StatusCode::OK, json);
            secret.headers_mut().insert(CACHE_CONTROL, http::HeaderValue::from_static("no-store"));
            secret
        }
        Err(Refusal { class, text }) => {
            refused(class.status(changes), class.wire_type(), &text, is_head)
        }
    }
}

/// A refusal that no class has.
pub fn refused(code: u16, kind: &str, message: &str, is_head: bool) -> Response<Bytes> {
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let json = match is_head {
        true => Vec::new(),
        false => bytes_of(&Body { error: Fault { message, kind, code } }),
    };
    let mut refused = answer(status, json);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        refused.headers_mut().insert(RETRY_AFTER, http::HeaderValue::from_static(RETRY_AFTER_S));
    }
    refused
}

/// A document of the request's body.
///
/// # Errors
///
/// [`Class::Invalid`]: no JSON, or another form, unknown members included.
pub fn body<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(bytes)
        .map_err(|error| Class::Invalid.because(format!("the request's body: {error}")))
}

fn answer(status: StatusCode, json: Vec<u8>) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::from(json));
    *answer.status_mut() = status;
    if !answer.body().is_empty() {
        let kind = http::HeaderValue::from_static("application/json");
        answer.headers_mut().insert(CONTENT_TYPE, kind);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_document_unless_it_answers_head() {
        let refusal = || Err(Class::Conflict.because("the pointer has moved"));
        let seen = written(refusal(), true, false);
        assert_eq!(seen.status(), 409);
        let expected = br#"{"error":{"message":"the pointer has moved","type":"CommitFailedException","code":409}}"#;
        assert_eq!(seen.body().as_ref(), expected);
        let seen = written(refusal(), false, true);
        assert_eq!((seen.status().as_u16(), seen.body().len()), (409, 0));
        let closed = written(Err(Class::Unavailable.because("closed")), true, false);
        assert!(closed.headers().contains_key(RETRY_AFTER));
    }
}
