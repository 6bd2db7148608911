//! Who asks, and whether they may.
//!
//! # Sources
//!
//! Specification of the catalog §2.2 (signatures, what stock clients leave out), §2.3 (actions and resources), M4, M27.

use http::request::Parts;

use super::reply;
use crate::node::peer::client::now_ms;
use crate::node::s3::access::Principals;
use crate::protocol::catalog::actions::Action;
use crate::protocol::catalog::actions::Resource;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::sigv4;
use crate::sigv4::SignatureError;

/// The services in whose name a request may be signed, on both prefixes.
const SERVICES: [&str; 2] = ["s3", "s3tables"];

/// Somebody whose signature was good.
pub struct Caller {
    access_key: String,
    principals: Principals,
}

impl Caller {
    /// Whoever signed a request with this body.
    ///
    /// # Errors
    ///
    /// The whole answer.
    pub fn of(
        principals: &Principals,
        region: &str,
        head: &Parts,
        body: &[u8],
    ) -> Result<Self, Box<http::Response<bytes::Bytes>>> {
        let is_head = head.method == http::Method::HEAD;
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
        let terms = sigv4::Terms {
            services: &SERVICES,
            region: Some(region),
            body: Some(body),
            encoded_twice: true,
        };
        let now_s = i64::try_from(now_ms() / 1_000).unwrap_or(i64::MAX);
        let forbidden = |kind: &str, why: &str| Box::new(reply::refused(403, kind, why, is_head));
        let verified = sigv4::verify_on(&request, &terms, |key| principals.secret(key), now_s)
            .map_err(|error| match error {
                SignatureError::UnknownKey => {
                    forbidden("NotAuthorizedException", "the access key is unknown")
                }
                other => forbidden("ForbiddenException", &other.to_string()),
            })?;
        let is_covered = verified.payload == sigv4::Payload::of(body).header()
            || verified.payload == sigv4::Payload::Unsigned.header();
        if !is_covered {
            return Err(forbidden("ForbiddenException", "the body is not the one that was signed"));
        }
        Ok(Self { access_key: verified.access_key, principals: principals.clone() })
    }

    /// The access key.
    pub fn access_key(&self) -> &str {
        &self.access_key
    }

    /// Lets it pass, or refuses it.
    ///
    /// # Errors
    ///
    /// [`Class::Forbidden`].
    pub fn may(&self, action: Action, on: Resource<'_>) -> Result<(), Refusal> {
        if is_allowed(&self.principals, &self.access_key, action, on) {
            return Ok(());
        }
        Err(Class::Forbidden.because(format!("{} is not allowed", action.name())))
    }
}

/// Whether the holder of an access key may do `action` to `on`.
///
/// A grant of the two actions that are for every bucket at once is one, whatever it names.
pub fn is_allowed(
    principals: &Principals,
    access_key: &str,
    action: Action,
    on: Resource<'_>,
) -> bool {
    if !action.is_resource_scoped() {
        return principals.allows_somewhere(access_key, action.name());
    }
    let (bucket, path) = on.bucket_and_path();
    principals.allows_on(access_key, action.name(), &format!("{bucket}/{path}"))
}
