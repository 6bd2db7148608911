//! Routes of views.
//!
//! # Sources
//!
//! Specification of the catalog §2.9.

use serde::Deserialize;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;

use super::Catalog;
use super::documents;
use super::reply;
use super::reply::Reply;
use super::tables::Name;
use super::tables::check_purge;
use super::tables::identifiers;
use super::tables::load_config;
use crate::iceberg;
use crate::iceberg::View;
use crate::protocol::catalog::entry::ENTRY_VERSION;
use crate::protocol::catalog::entry::State;
use crate::protocol::catalog::entry::VIEW_FORMAT;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::object::view;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;

/// A replacement as a client sends it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Replace {
    #[serde(default)]
    identifier: Option<Name>,
    #[serde(default)]
    requirements: Vec<Value>,
    #[serde(default)]
    updates: Option<Vec<Value>>,
    #[serde(default)]
    expected_version_token: Option<String>,
    #[serde(default)]
    expected_metadata_location: Option<String>,
    #[serde(default)]
    new_metadata_location: Option<String>,
}

impl Catalog {
    /// `GET …/views`.
    pub(super) async fn list_views(
        &self,
        bucket: &str,
        of: &Namespace,
        query: &[(String, String)],
    ) -> Result<Reply, Refusal> {
        let state = self.state(bucket).await?;
        let all = state.views(bucket, of).await?;
        identifiers("views", bucket, of, state.backing(), all, query)
    }

    /// `POST …/views`.
    pub(super) async fn create_view(
        &self,
        bucket: &str,
        namespace: &Namespace,
        body: &[u8],
    ) -> Result<Reply, Refusal> {
        let request = iceberg::CreateView::parse(body).map_err(documents::refused)?;
        let name = Identifier::new(namespace.clone(), &request.name)?;
        let (view_id, view_uuid) = (Uuid::new_v4().to_string(), Uuid::new_v4());
        let location = match &request.location {
            Some(location) => location.strip_suffix('/').unwrap_or(location).to_owned(),
            None => format!("s3://{bucket}/views/{view_id}"),
        };
        if keys::is_reserved(&prefix::of_view(bucket, &location)?) {
            let text = format!("location {location:?} is inside {}", keys::RESERVED);
            return Err(Class::Invalid.because(text));
        }
        let fresh =
            iceberg::Fresh { uuid: view_uuid, now_ms: super::now_ms(), location: &location };
        let made = iceberg::create_view(&request, &fresh).map_err(documents::refused)?;
        let properties = request.properties.clone().into_iter().collect();
        let entry = ViewEntry {
            version: ENTRY_VERSION,
            table_bucket: bucket.to_owned(),
            namespace: namespace.dotted().to_owned(),
            view: name.name.clone(),
            view_uuid: view_uuid.to_string(),
            format: VIEW_FORMAT.to_owned(),
            format_version: 1,
            warehouse_location: location,
            metadata_location: keys::view_metadata(&name) + &keys::first_metadata_file(&view_id),
            view_id,
            version_token: keys::version_token(Uuid::new_v4()),
            generation: 1,
            state: State::Active,
            properties,
            created_at: None,
            updated_at: None,
        };
        let metadata = Some(made.to_bytes());
        let request = view::Request { entry, base: None, metadata, has_fresh_name: true };
        let entry = self.change_put_view(request).await?;
        Ok(loaded(&entry, &made))
    }

    /// `GET …/views/{view}`.
    pub(super) async fn load_view(
        &self,
        bucket: &str,
        name: &Identifier,
    ) -> Result<Reply, Refusal> {
        let entry = self.state(bucket).await?.view(bucket, name).await?;
        let view = documents::view(&self.depot, &entry).await?;
        Ok(loaded(&entry, &view))
    }

    /// `HEAD …/views/{view}`.
    pub(super) async fn has_view(&self, bucket: &str, name: &Identifier) -> Result<Reply, Refusal> {
        self.state(bucket).await?.view(bucket, name).await?;
        Ok(Reply::Empty)
    }

    /// `POST …/views/{view}`.
    pub(super) async fn replace_view(
        &self,
        bucket: &str,
        name: &Identifier,
        body: &[u8],
    ) -> Result<Reply, Refusal> {
        let body: Replace = reply::body(body)?;
        if let Some(said) = &body.identifier
            && said.identifier()? != *name
        {
            return Err(Class::Invalid.because("the body names another view than the path"));
        }
        let base = self.state(bucket).await?.view(bucket, name).await?;
        let current = documents::view(&self.depot, &base).await?;
        let (next, key, file, has_fresh_name) = match body.new_metadata_location {
            None => {
                let Some(updates) = &body.updates else {
                    return Err(Class::Invalid.because("a replacement has `updates`"));
                };
                iceberg::check_view(&body.requirements, &current).map_err(documents::refused)?;
                let next = iceberg::apply_view(&current, updates, super::now_ms())
                    .map_err(documents::refused)?;
                let generation = base.generation.saturating_add(1);
                let token = Uuid::new_v4().to_string();
                let key = keys::view_metadata(name) + &keys::metadata_file(generation, &token);
                let bytes = next.to_bytes();
                (next, key, Some(bytes), true)
            }
            Some(target) => {
                if body.updates.is_some_and(|it| !it.is_empty()) || !body.requirements.is_empty() {
                    let text = "a replacement by a metadata file that is there has no requirements and updates";
                    return Err(Class::Invalid.because(text));
                }
                let (Some(token), Some(at)) =
                    (body.expected_version_token, body.expected_metadata_location)
                else {
                    let text = "a replacement by a metadata file that is there needs `expected-version-token` and `expected-metadata-location`";
                    return Err(Class::Invalid.because(text));
                };
                if token != base.version_token
                    || keys::key_of_location(bucket, &at) != Some(&*base.metadata_location)
                {
                    let text = format!("{bucket}/{name} does not stand where it is expected");
                    return Err(Class::Conflict.because(text));
                }
                let key = keys::key_of_location(bucket, &target)
                    .filter(|key| keys::is_metadata_in(key, &keys::view_metadata(name)));
                let Some(key) = key else {
                    let text = format!("{target:?} is not in the view's metadata folder");
                    return Err(Class::Invalid.because(text));
                };
                let found = documents::view_at(&self.depot, bucket, key).await;
                let next = found.map_err(|error| match error.class {
                    Class::NotFound => error.as_class(Class::Invalid),
                    _ => error,
                })?;
                (next, key.to_owned(), None, false)
            }
        };
        iceberg::view_transition(&current, &next).map_err(documents::refused)?;
        if keys::is_reserved(&prefix::of_view(bucket, next.location())?) {
            return Err(Class::Invalid.because(format!("location is inside {}", keys::RESERVED)));
        }
        let entry = ViewEntry {
            warehouse_location: next.location().to_owned(),
            metadata_location: key,
            version_token: keys::version_token(Uuid::new_v4()),
            generation: base.generation.saturating_add(1),
            properties: base.properties.clone(),
            ..base.clone()
        };
        let request = view::Request { entry, base: Some(base), metadata: file, has_fresh_name };
        let entry = self.change_put_view(request).await?;
        Ok(loaded(&entry, &next))
    }

    /// `DELETE …/views/{view}`.
    pub(super) async fn drop_view(
        &self,
        bucket: &str,
        name: &Identifier,
        query: &[(String, String)],
    ) -> Result<Reply, Refusal> {
        check_purge(query)?;
        self.change_drop_view(bucket, name).await?;
        Ok(Reply::Empty)
    }
}

fn loaded(entry: &ViewEntry, view: &View) -> Reply {
    Reply::json(&json!({
        "metadata-location": keys::location(&entry.table_bucket, &entry.metadata_location),
        "metadata": view.document(),
        "config": load_config(&entry.warehouse_location),
    }))
}
