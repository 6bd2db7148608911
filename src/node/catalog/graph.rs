//! What a commit refers to, read with the rights of whoever commits.
//!
//! # Sources
//!
//! Specification of the catalog §2.8 (graph validation), §2.10 (table policy).

use async_trait::async_trait;
use bytes::Bytes;

use super::Catalog;
use super::caller::Caller;
use super::depot::Depot;
use super::documents;
use crate::iceberg;
use crate::iceberg::Metadata;
use crate::iceberg::ObjectReader;
use crate::iceberg::Place;
use crate::iceberg::Scope;
use crate::iceberg::Unread;
use crate::node::s3::rights::Asked;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;

struct AsCaller<'a> {
    catalog: &'a Catalog,
    caller: &'a Caller,
    bucket: &'a str,
}

impl AsCaller<'_> {
    async fn check(&self, key: &str) -> Result<(), Unread> {
        let (headers, uri) = (http::HeaderMap::new(), http::Uri::default());
        let asked = Asked {
            caller: Some(self.caller.access_key()),
            operation: "GetObject",
            bucket: self.bucket,
            key: Some(key),
            version: None,
            headers: &headers,
            uri: &uri,
            tags: None,
            from: None,
        };
        self.catalog.rights.may(&asked).await.map_err(|error| match error.code() {
            s3s::S3ErrorCode::AccessDenied => Unread::Forbidden,
            other => Unread::Failed(other.as_str().to_owned()),
        })
    }

    fn depot(&self) -> &Depot {
        &self.catalog.depot
    }
}

#[async_trait]
impl ObjectReader for AsCaller<'_> {
    async fn read(&self, key: &str, bytes_max: u64) -> Result<Bytes, Unread> {
        self.check(key).await?;
        let limit = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        match self.depot().object(self.bucket, key, limit).await {
            Ok(Some(contents)) => Ok(Bytes::from(contents)),
            Ok(None) => Err(Unread::NotFound),
            Err(Refusal { class: Class::Invalid, .. }) => Err(Unread::TooLarge),
            Err(refusal) => Err(Unread::Failed(refusal.text)),
        }
    }

    async fn length(&self, key: &str) -> Result<u64, Unread> {
        self.check(key).await?;
        match self.depot().length(self.bucket, key).await {
            Ok(Some(length)) => Ok(length),
            Ok(None) => Err(Unread::NotFound),
            Err(refusal) => Err(Unread::Failed(refusal.text)),
        }
    }
}

impl Catalog {
    /// Looks at everything that the snapshots refer to which a commit adds; at all of them when there is no `before`.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`] for what is missing or not as it is referred to; [`Class::Forbidden`];
    /// [`Class::Unavailable`].
    pub(super) async fn check_graph(
        &self,
        caller: &Caller,
        bucket: &str,
        entry: &TableEntry,
        before: Option<&Metadata>,
        after: &Metadata,
    ) -> Result<(), Refusal> {
        let scope = match before {
            Some(before) => Scope::between(before, after),
            None => Scope::all(after),
        };
        if scope.is_empty() {
            return Ok(());
        }
        // What a table owns is closed while its snapshot is not of the version that the gates ask for.
        let name = entry.identifier()?;
        self.check_data_plane(bucket, &name, caller.access_key()).await?;
        let place = Place {
            bucket,
            warehouse_prefix: &prefix::of_table(bucket, after.location())?,
            metadata_prefix: keys::folder(&entry.metadata_location),
        };
        let reader = AsCaller { catalog: self, caller, bucket };
        let budget = iceberg::Budget::SERVED;
        let examined = iceberg::graph(&reader, after, &scope, &place, &budget).await;
        examined.map(drop).map_err(documents::refused)
    }
}
