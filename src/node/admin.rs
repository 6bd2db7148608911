//! `/firedrill/v1/…`: how the node stands, healing, replacements, its configuration. Every request is signed.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use http::Response;
use http::StatusCode;
use http::request::Parts;
use serde::Serialize;
use sha2::Digest as _;
use sha2::Sha256;

use crate::node::catalog::Catalog;
use crate::node::peer::client::now_ms;
use crate::node::replacement;
use crate::node::service::Node;
use crate::node::store::api::HealRequest;
use crate::protocol::admin::HealProgress;
use crate::protocol::admin::HealStarted;
use crate::protocol::admin::HealState;
use crate::sigv4;

/// Where administration is asked for.
pub const PREFIX: &str = "/firedrill/v1/";
/// Bytes of the largest body that is read.
pub const BODY_BYTES_MAX: usize = 64 << 10;

/// Why a request was not done.
struct Refusal {
    status: StatusCode,
    why: String,
}

/// The body of a refusal.
#[derive(Serialize)]
struct Refused<'a> {
    error: &'a str,
}

/// Answers one request.
pub async fn answer(node: &Arc<Node>, head: &Parts, body: &Bytes) -> Response<Bytes> {
    match done(node, head, body).await {
        Ok(json) => json_answer(StatusCode::OK, json),
        Err(Refusal { status, why }) => {
            let json = serde_json::to_vec(&Refused { error: &why }).unwrap_or_default();
            json_answer(status, json)
        }
    }
}

/// An answer in JSON.
pub fn json_answer(status: StatusCode, json: Vec<u8>) -> Response<Bytes> {
    let answer = Response::builder()
        .status(status)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(Bytes::from(json));
    answer.expect("a status and a constant header make an answer")
}

async fn done(node: &Arc<Node>, head: &Parts, body: &Bytes) -> Result<Vec<u8>, Refusal> {
    let who = signer(node, head, body)?;
    let may = |action: &str| {
        if node.loaded.principals.allows(&who, action) {
            return Ok(());
        }
        Err(Refusal { status: StatusCode::FORBIDDEN, why: format!("{action} is not allowed") })
    };
    let path = head.uri.path().strip_prefix(PREFIX).unwrap_or_default();
    match (&head.method, path) {
        (&Method::GET, "status") => {
            may("admin:Status")?;
            json(&node.status())
        }
        (&Method::GET, "replacement") => {
            may("admin:Status")?;
            json(&replacement::answer(node, head.uri.path()).await)
        }
        (&Method::GET, "config") => {
            may("admin:Config")?;
            json(&node.loaded.config)
        }
        (&Method::POST, "heal") => {
            may("admin:Heal")?;
            let request = heal_request(head.uri.query().unwrap_or_default())?;
            let store = node.store().ok_or_else(|| Refusal {
                status: StatusCode::SERVICE_UNAVAILABLE,
                why: "the node has not started yet".to_owned(),
            })?;
            let id = store.heal(request).to_string();
            json(&HealStarted { id })
        }
        (&Method::GET, "catalog") => {
            may("admin:Status")?;
            json(&catalog(node)?.status().await)
        }
        (&Method::POST, "catalog/admit") => {
            may("admin:MigrateTableCatalog")?;
            let catalog = catalog(node)?;
            catalog.admit().await.map_err(of_catalog)?;
            json(&catalog.status().await)
        }
        (&Method::POST, "catalog/backfill") => {
            may("admin:SetTableBucket")?;
            let pairs = sigv4::query_pairs(head.uri.query().unwrap_or_default());
            let warehouse = pairs.iter().find(|(name, _)| name == "warehouse");
            let Some((_, warehouse)) = warehouse else {
                let why = "`warehouse` says which table bucket".to_owned();
                return Err(Refusal { status: StatusCode::BAD_REQUEST, why });
            };
            let filled = catalog(node)?.backfill(warehouse).await.map_err(of_catalog)?;
            json(&filled)
        }
        (&Method::GET, path) if path.starts_with("heal/") => {
            may("admin:Heal")?;
            let id = path["heal/".len()..].parse().ok();
            let progress = id.and_then(|id| node.store()?.heal_progress(id));
            let progress = progress.ok_or_else(|| Refusal {
                status: StatusCode::NOT_FOUND,
                why: "there is no such healing".to_owned(),
            })?;
            let state = if progress.running { HealState::Running } else { HealState::Done };
            json(&HealProgress {
                id: progress.id.to_string(),
                state,
                deep: progress.request.deep,
                examined: progress.versions,
                healed: progress.healed,
                quarantined: progress.quarantined,
                failed: progress.unhealed,
                waiting: progress.waiting,
                problems: progress.problems,
            })
        }
        _ => {
            let why = format!("{} {} is not known", head.method, head.uri.path());
            Err(Refusal { status: StatusCode::NOT_FOUND, why })
        }
    }
}

fn catalog(node: &Arc<Node>) -> Result<&Arc<Catalog>, Refusal> {
    node.catalog().ok_or_else(|| Refusal {
        status: StatusCode::SERVICE_UNAVAILABLE,
        why: "the node has not started yet".to_owned(),
    })
}

/// A refusal of the catalog.
fn of_catalog(refusal: crate::protocol::catalog::refusal::Refusal) -> Refusal {
    let status = StatusCode::from_u16(refusal.status(true));
    Refusal { status: status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), why: refusal.text }
}

/// Who signed the request, with this body.
fn signer(node: &Arc<Node>, head: &Parts, body: &Bytes) -> Result<String, Refusal> {
    let headers: Vec<_> = head
        .headers
        .iter()
        .map(|(name, value)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        })
        .collect();
    let request = sigv4::Request {
        method: head.method.as_str(),
        path: head.uri.path(),
        query: head.uri.query().unwrap_or_default(),
        headers: &headers,
    };
    let forbidden = |why: String| Refusal { status: StatusCode::FORBIDDEN, why };
    let now_s = i64::try_from(now_ms() / 1_000).unwrap_or(i64::MAX);
    let verified = sigv4::verify(&request, |key| node.loaded.principals.secret(key), now_s)
        .map_err(|error| forbidden(error.to_string()))?;
    let digest = hex::encode(Sha256::digest(body));
    if verified.payload != digest && verified.payload != sigv4::Payload::Unsigned.header() {
        return Err(forbidden("the body is not the one that was signed".to_owned()));
    }
    Ok(verified.access_key)
}

/// Whether `query` says what is to be healed.
pub(crate) fn is_heal_request(query: &str) -> bool {
    heal_request(query).is_ok()
}

/// What is to be healed, from `deep=true&bucket=…&prefix=…&key=…&version=…`.
fn heal_request(query: &str) -> Result<HealRequest, Refusal> {
    let nonsense = |why: String| Refusal { status: StatusCode::BAD_REQUEST, why };
    let mut request = HealRequest::default();
    for (name, value) in sigv4::query_pairs(query) {
        match name.as_str() {
            _ if value.is_empty() => {}
            "deep" => {
                let deep = value.parse().map_err(|_| nonsense("deep is true or false".into()))?;
                request.deep = deep;
            }
            "bucket" => request.bucket = Some(value),
            "prefix" => request.prefix = value,
            "key" => request.key = Some(value),
            "version" => request.version = Some(value.parse().map_err(nonsense)?),
            // Parts of a presigned request.
            _ if name.starts_with("X-Amz-") => {}
            _ => return Err(nonsense(format!("{name} is not known"))),
        }
    }
    let narrows = !request.prefix.is_empty() || request.key.is_some();
    if (narrows && request.bucket.is_none()) || (request.version.is_some() && request.key.is_none())
    {
        return Err(nonsense("a prefix or key needs a bucket, a version needs a key".into()));
    }
    Ok(request)
}

fn json<T: Serialize>(value: &T) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(value).map_err(|error| Refusal {
        status: StatusCode::INTERNAL_SERVER_ERROR,
        why: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_heal_is_read_strictly() {
        let read = |query| heal_request(query).ok();
        assert_eq!(read(""), Some(HealRequest::default()));
        let all = read("deep=true&bucket=b&prefix=a%2Fb").expect("sound");
        assert_eq!((all.deep, all.bucket.as_deref(), &*all.prefix), (true, Some("b"), "a/b"));
        assert!(read("bucket=b&key=k&version=null").expect("sound").version.is_some());
        for bad in [
            "deep=maybe",
            "depth=1",
            "prefix=a",
            "bucket=b&version=null",
            "bucket=b&key=k&version=x",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
