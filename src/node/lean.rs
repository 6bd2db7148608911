//! The table catalog of a build without the feature `iceberg`: it serves nothing, and what table buckets hold is closed,
//! since nobody can tell whose it is.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use s3s::S3Result;
use s3s::s3_error;

use crate::node::config::CatalogSettings;
use crate::node::s3::access::Principals;
use crate::node::s3::rights::Rights;
use crate::node::store::Store;
use crate::node::store::api::StoreError;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;

/// Bytes of the largest body that is read.
pub const BODY_BYTES_MAX: usize = 1 << 20;
/// Why nothing is served.
const WHY: &str = "this binary was built without the feature `iceberg`, and has no table catalog";

pub use bridge::Access;

/// What an operation does with an object of a table bucket.
pub mod bridge {
    /// What an operation does with an object.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Access {
        /// Anything at all.
        Any,
    }

    /// Held for as long as a request goes on.
    #[derive(Default)]
    pub struct Pass;

    impl Pass {
        /// It holds nothing.
        pub fn is_empty(&self) -> bool {
            true
        }
    }

    /// Every operation is closed alike.
    pub fn access(_operation: &str) -> Option<Access> {
        Some(Access::Any)
    }
}

/// No catalog.
pub struct Catalog {
    store: Arc<Store>,
}

impl Catalog {
    /// No catalog.
    pub fn new(
        store: Arc<Store>,
        _principals: Principals,
        _rights: Arc<Rights>,
        _settings: CatalogSettings,
        _region: &'static str,
    ) -> Self {
        Self { store }
    }

    /// 406.
    pub async fn answer(&self, head: &Parts, _body: &[u8]) -> Response<Bytes> {
        let kind = Class::Unsupported.wire_type();
        refused(406, kind, WHY, head.method == http::Method::HEAD)
    }

    /// Denies everything in a table bucket.
    ///
    /// # Errors
    ///
    /// `AccessDenied`.
    pub async fn pass(
        &self,
        _pass: &mut bridge::Pass,
        _caller: Option<&str>,
        _bucket: &str,
        _key: &str,
        _access: Access,
    ) -> S3Result<()> {
        Err(s3_error!(AccessDenied, "{WHY}"))
    }

    /// Removes a bucket that is no table bucket.
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`] for a table bucket; and what the store says.
    pub async fn remove_bucket(&self, bucket: &str) -> Result<Result<(), StoreError>, Refusal> {
        match self.store.bucket(bucket).await {
            Ok(found) if !found.tables.is_empty() => Err(Class::Unsupported.because(WHY)),
            Ok(_) => Ok(self.store.delete_bucket(bucket).await),
            Err(error) => Ok(Err(error)),
        }
    }

    /// How it stands: not at all.
    pub async fn status(&self) -> serde_json::Value {
        serde_json::json!({ "refused": WHY })
    }

    /// Refused.
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`].
    pub async fn admit(&self) -> Result<(), Refusal> {
        Err(Class::Unsupported.because(WHY))
    }

    /// Refused.
    ///
    /// # Errors
    ///
    /// [`Class::Unsupported`].
    pub async fn backfill(&self, _bucket: &str) -> Result<serde_json::Value, Refusal> {
        Err(Class::Unsupported.because(WHY))
    }
}

/// An error in the shape that Iceberg clients read.
pub fn refused(code: u16, kind: &str, message: &str, is_head: bool) -> Response<Bytes> {
    let error = serde_json::json!({ "message": message, "type": kind, "code": code });
    let json = serde_json::json!({ "error": error }).to_string();
    let mut answer = Response::new(if is_head { Bytes::new() } else { Bytes::from(json) });
    *answer.status_mut() =
        http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    answer
}
