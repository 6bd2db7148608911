//! Routes of table buckets and namespaces.
//!
//! # Sources
//!
//! Specification of the catalog §2.4, §2.5.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::Serialize;
use serde_json::json;

use super::Catalog;
use super::reply;
use super::reply::Reply;
use super::state::State;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::object::namespace;
use crate::protocol::catalog::page::Listing;
use crate::protocol::catalog::page::Page;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;

/// A request to make a namespace.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    namespace: Vec<String>,
    #[serde(default)]
    properties: BTreeMap<String, String>,
}

/// A request to change a namespace's properties.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    #[serde(default)]
    removals: Vec<String>,
    #[serde(default)]
    updates: BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct BucketBody<'a> {
    table_bucket: &'a str,
    enabled: bool,
    catalog_type: &'a str,
    warehouse: &'a str,
    warehouse_location: String,
    catalog_uri: String,
    compat_catalog_uri: String,
    credential_vending: &'a str,
    credential_scope: &'a str,
    credential_scope_prefix: String,
    catalog_entry_present: bool,
    properties: BTreeMap<String, String>,
}

/// Parameters of a listing.
pub struct Pages<'a> {
    /// `pageSize`.
    pub size: Option<&'a str>,
    /// `pageToken`.
    pub token: Option<&'a str>,
}

impl<'a> Pages<'a> {
    /// From the query.
    pub fn of(query: &'a [(String, String)]) -> Self {
        let value =
            |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        Self { size: value("pageSize"), token: value("pageToken") }
    }

    /// The part of `all`, which are in order, that is asked for, and the token of the next one.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`].
    pub fn cut<T>(
        &self,
        of: &Listing<'_>,
        mut all: Vec<T>,
        cursor: impl Fn(&T) -> String,
    ) -> Result<(Vec<T>, Option<String>), Refusal> {
        let Some(Page { size, after }) = of.page(self.size, self.token)? else {
            return Ok((all, None));
        };
        if let Some(after) = after {
            all.retain(|it| cursor(it) > after);
        }
        let has_more = all.len() > size;
        all.truncate(size);
        let token = all.last().filter(|_| has_more).map(|last| of.token(&cursor(last)));
        Ok((all, token))
    }
}

impl Catalog {
    /// `PUT /buckets/{warehouse}`.
    pub(super) async fn enable_bucket(&self, bucket: &str) -> Result<Reply, Refusal> {
        let entry = self.change_enable(bucket).await?;
        self.forget_marker(bucket);
        Ok(bucket_body(bucket, Some(entry.properties)))
    }

    /// `GET /buckets/{warehouse}`.
    pub(super) async fn bucket(&self, bucket: &str) -> Result<Reply, Refusal> {
        let entry = self.state(bucket).await?.bucket(bucket).await?;
        Ok(bucket_body(bucket, entry.map(|it| it.properties)))
    }

    /// `GET …/namespaces`.
    pub(super) async fn list_namespaces(
        &self,
        bucket: &str,
        query: &[(String, String)],
    ) -> Result<Reply, Refusal> {
        let parent = query.iter().find(|(name, _)| name == "parent");
        let parent = match parent {
            Some((_, parent)) if !parent.is_empty() => Some(Namespace::from_path(parent)?),
            _ => None,
        };
        let state = self.state(bucket).await?;
        let listing = Listing {
            resource: "namespaces",
            warehouse: bucket,
            namespace: parent.as_ref().map_or("", Namespace::dotted),
            backing: state.backing(),
        };
        let all = state.namespaces(bucket, parent.as_ref()).await?;
        let pages = Pages::of(query);
        let (page, token) = pages.cut(&listing, all, |it| it.dotted().to_owned())?;
        let levels: Vec<_> = page.iter().map(Namespace::levels).collect();
        Ok(Reply::json(&json!({ "namespaces": levels, "next-page-token": token })))
    }

    /// `POST …/namespaces`.
    pub(super) async fn create_namespace(
        &self,
        bucket: &str,
        body: &[u8],
    ) -> Result<Reply, Refusal> {
        let body: Create = reply::body(body)?;
        let name = Namespace::of(&body.namespace)?;
        let request = namespace::Request {
            bucket: bucket.to_owned(),
            namespace: name.clone(),
            properties: body.properties,
            attempted: false,
        };
        let entry = self.change_create_namespace(request).await?;
        Ok(namespace_body(&name, &entry.properties))
    }

    /// `GET …/namespaces/{namespace}`.
    pub(super) async fn load_namespace(
        &self,
        bucket: &str,
        name: &Namespace,
    ) -> Result<Reply, Refusal> {
        let properties = self.state(bucket).await?.namespace(bucket, name).await?;
        Ok(namespace_body(name, &properties))
    }

    /// `DELETE …/namespaces/{namespace}`.
    pub(super) async fn drop_namespace(
        &self,
        bucket: &str,
        name: &Namespace,
    ) -> Result<Reply, Refusal> {
        let request = namespace::Request {
            bucket: bucket.to_owned(),
            namespace: name.clone(),
            properties: BTreeMap::new(),
            attempted: false,
        };
        self.change_drop_namespace(request).await?;
        Ok(Reply::Empty)
    }

    /// `POST …/properties`.
    pub(super) async fn change_properties(
        &self,
        bucket: &str,
        name: &Namespace,
        body: &[u8],
    ) -> Result<Reply, Refusal> {
        let body: Change = reply::body(body)?;
        if let Some(both) = body.removals.iter().find(|it| body.updates.contains_key(*it)) {
            let text = format!("property {both} is to be removed and changed at once");
            return Err(Class::Unprocessable.because(text));
        }
        if matches!(self.state(bucket).await?, State::Object(_)) {
            let text = "properties of namespaces change in durable-strong backing only";
            return Err(Class::Unsupported.because(text));
        }
        let changed =
            self.change_namespace_properties(bucket, name, body.removals, body.updates).await?;
        Ok(Reply::json(&json!({
            "updated": changed.updated,
            "removed": changed.removed,
            "missing": changed.missing,
        })))
    }
}

fn namespace_body(name: &Namespace, properties: &BTreeMap<String, String>) -> Reply {
    Reply::json(&json!({ "namespace": name.levels(), "properties": properties }))
}

fn bucket_body(bucket: &str, entry: Option<BTreeMap<String, String>>) -> Reply {
    let root = format!("s3://{bucket}/");
    Reply::json(&BucketBody {
        table_bucket: bucket,
        enabled: true,
        catalog_type: crate::protocol::catalog::entry::CATALOG_TYPE,
        warehouse: bucket,
        warehouse_location: root.clone(),
        catalog_uri: format!("/iceberg/v1/{bucket}"),
        compat_catalog_uri: format!("/_iceberg/v1/{bucket}"),
        credential_vending: "unsupported",
        credential_scope: "warehouse-prefix",
        credential_scope_prefix: root,
        catalog_entry_present: entry.is_some(),
        properties: entry.unwrap_or_default(),
    })
}
