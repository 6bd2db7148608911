//! Routes of tables that read, create and drop; commits are in [`super::commits`].
//!
//! # Sources
//!
//! Specification of the catalog §2.4, §2.5.

use serde::Deserialize;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;

use super::Catalog;
use super::documents;
use super::namespaces::Pages;
use super::reply;
use super::reply::Reply;
use crate::iceberg;
use crate::iceberg::Metadata;
use crate::iceberg::Snapshots;
use crate::protocol::catalog::entry::ENTRY_VERSION;
use crate::protocol::catalog::entry::State;
use crate::protocol::catalog::entry::TABLE_FORMAT;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::object::create;
use crate::protocol::catalog::page::Listing;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;

/// A request to register a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Register {
    name: String,
    metadata_location: String,
    #[serde(default)]
    overwrite: bool,
}

/// A request to import a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Import {
    metadata_location: String,
    #[serde(default)]
    properties: std::collections::BTreeMap<String, String>,
}

/// A name in a request's body.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Name {
    namespace: Vec<String>,
    name: String,
}

impl Name {
    /// The identifier.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`].
    pub(super) fn identifier(&self) -> Result<Identifier, Refusal> {
        Identifier::new(Namespace::of(&self.namespace)?, &self.name)
    }
}

/// A request to rename a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rename {
    source: Name,
    destination: Name,
}

impl Rename {
    /// What is renamed to what.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`].
    pub(super) fn parse(body: &[u8]) -> Result<(Identifier, Identifier), Refusal> {
        let body: Self = reply::body(body)?;
        Ok((body.source.identifier()?, body.destination.identifier()?))
    }
}

impl Catalog {
    /// `GET …/tables`.
    pub(super) async fn list_tables(
        &self,
        bucket: &str,
        of: &Namespace,
        query: &[(String, String)],
    ) -> Result<Reply, Refusal> {
        let state = self.state(bucket).await?;
        let all = state.tables(bucket, of).await?;
        identifiers("tables", bucket, of, state.backing(), all, query)
    }

    /// `POST …/tables`.
    pub(super) async fn create_table(
        &self,
        bucket: &str,
        namespace: &Namespace,
        body: &[u8],
    ) -> Result<Reply, Refusal> {
        let request = iceberg::CreateTable::parse(body).map_err(documents::refused)?;
        let name = Identifier::new(namespace.clone(), &request.name)?;
        let (table_id, table_uuid) = (Uuid::new_v4(), Uuid::new_v4());
        let location = match &request.location {
            Some(location) => location.strip_suffix('/').unwrap_or(location).to_owned(),
            None => format!("s3://{bucket}/tables/{table_id}"),
        };
        prefix::of_new_table(bucket, &location)?;
        let fresh =
            iceberg::Fresh { uuid: table_uuid, now_ms: super::now_ms(), location: &location };
        let metadata = iceberg::create_table(&request, &fresh).map_err(documents::refused)?;
        let entry = TableEntry {
            version: ENTRY_VERSION,
            table_bucket: bucket.to_owned(),
            namespace: namespace.dotted().to_owned(),
            table: name.name.clone(),
            table_id: table_id.to_string(),
            table_uuid: table_uuid.to_string(),
            format: TABLE_FORMAT.to_owned(),
            format_version: u32::from(metadata.format_version()),
            warehouse_location: location,
            metadata_location: keys::table_metadata(&name)
                + &keys::first_metadata_file(&table_id.to_string()),
            version_token: keys::version_token(Uuid::new_v4()),
            generation: 1,
            state: State::Active,
            properties: std::collections::BTreeMap::new(),
            created_at: None,
            updated_at: None,
        };
        let request = create::Request { entry, metadata: Some(metadata.to_bytes()) };
        let entry = self.change_create_table(request).await?;
        Ok(loaded(&entry, &metadata, Snapshots::All))
    }

    /// `POST …/register`.
    pub(super) async fn register_table(
        &self,
        bucket: &str,
        namespace: &Namespace,
        body: &[u8],
    ) -> Result<Reply, Refusal> {
        let body: Register = reply::body(body)?;
        if body.overwrite {
            return Err(Class::Unsupported.because("registering over a table is not served"));
        }
        let name = Identifier::new(namespace.clone(), &body.name)?;
        let (entry, metadata) = self.found_at(bucket, &name, &body.metadata_location).await?;
        let entry = self.change_create_table(create::Request { entry, metadata: None }).await?;
        Ok(loaded(&entry, &metadata, Snapshots::All))
    }

    /// `POST …/catalog/import`.
    pub(super) async fn import_table(
        &self,
        bucket: &str,
        name: &Identifier,
        body: &[u8],
    ) -> Result<Reply, Refusal> {
        let body: Import = reply::body(body)?;
        let (mut entry, metadata) = self.found_at(bucket, name, &body.metadata_location).await?;
        entry.properties = body.properties;
        match self.state(bucket).await?.table(bucket, name).await {
            Ok(known) => {
                let is_same = known.table_uuid == entry.table_uuid
                    && known.metadata_location == entry.metadata_location
                    && known.warehouse_location == entry.warehouse_location;
                if is_same {
                    return Ok(loaded(&known, &metadata, Snapshots::All));
                }
                let text =
                    format!("there is another table {bucket}/{name}, or it stands elsewhere");
                Err(Class::Conflict.because(text))
            }
            Err(Refusal { class: Class::NoSuchTable, .. }) => {
                let request = create::Request { entry, metadata: None };
                let entry = self.change_create_table(request).await?;
                Ok(loaded(&entry, &metadata, Snapshots::All))
            }
            Err(error) => Err(error),
        }
    }

    /// The entry of a table whose metadata is there already, with fresh id and token.
    async fn found_at(
        &self,
        bucket: &str,
        name: &Identifier,
        location: &str,
    ) -> Result<(TableEntry, Metadata), Refusal> {
        let key = keys::key_of_location(bucket, location)
            .filter(|key| keys::is_metadata_in(key, &keys::table_metadata(name)));
        let Some(key) = key else {
            let text = format!("{location:?} is not in the metadata folder of {bucket}/{name}");
            return Err(Class::Invalid.because(text));
        };
        let metadata = documents::table_at(&self.depot, bucket, key).await?;
        prefix::of_new_table(bucket, metadata.location())?;
        let entry = TableEntry {
            version: ENTRY_VERSION,
            table_bucket: bucket.to_owned(),
            namespace: name.namespace.dotted().to_owned(),
            table: name.name.clone(),
            table_id: Uuid::new_v4().to_string(),
            table_uuid: metadata.uuid().to_string(),
            format: TABLE_FORMAT.to_owned(),
            format_version: u32::from(metadata.format_version()),
            warehouse_location: metadata.location().to_owned(),
            metadata_location: key.to_owned(),
            version_token: keys::version_token(Uuid::new_v4()),
            generation: 1,
            state: State::Active,
            properties: std::collections::BTreeMap::new(),
            created_at: None,
            updated_at: None,
        };
        Ok((entry, metadata))
    }

    /// `GET …/tables/{table}`.
    pub(super) async fn load_table(
        &self,
        bucket: &str,
        name: &Identifier,
        query: &[(String, String)],
    ) -> Result<Reply, Refusal> {
        let wanted = query.iter().find(|(key, _)| key == "snapshots");
        let wanted = match wanted.map(|(_, value)| value.as_str()) {
            None | Some("all") => Snapshots::All,
            Some("refs") => Snapshots::Refs,
            Some(_) => return Err(Class::Invalid.because("snapshots are `all` or `refs`")),
        };
        let entry = self.state(bucket).await?.table(bucket, name).await?;
        let metadata = documents::table(&self.depot, &entry).await?;
        Ok(loaded(&entry, &metadata, wanted))
    }

    /// `HEAD …/tables/{table}`.
    pub(super) async fn has_table(
        &self,
        bucket: &str,
        name: &Identifier,
    ) -> Result<Reply, Refusal> {
        self.state(bucket).await?.table(bucket, name).await?;
        Ok(Reply::Empty)
    }

    /// `DELETE …/tables/{table}`.
    pub(super) async fn drop_table(
        &self,
        bucket: &str,
        name: &Identifier,
        query: &[(String, String)],
    ) -> Result<Reply, Refusal> {
        check_purge(query)?;
        self.change_drop_table(bucket, name).await?;
        Ok(Reply::Empty)
    }

    /// `GET …/credentials`: none are given out.
    pub(super) async fn credentials(
        &self,
        bucket: &str,
        name: &Identifier,
    ) -> Result<Reply, Refusal> {
        self.state(bucket).await?.table(bucket, name).await?;
        let document = json!({
            "config": credential_config(),
            "storage-credentials": [],
        });
        Ok(Reply::Secret(serde_json::to_vec(&document).unwrap_or_default()))
    }

    /// `GET …/metadata-location`.
    pub(super) async fn pointer(&self, bucket: &str, name: &Identifier) -> Result<Reply, Refusal> {
        let entry = self.state(bucket).await?.table(bucket, name).await?;
        Ok(pointer_body(&entry))
    }
}

/// Where a table stands.
pub(super) fn pointer_body(entry: &TableEntry) -> Reply {
    Reply::json(&json!({
        "metadata-location": keys::location(&entry.table_bucket, &entry.metadata_location),
        "version-token": entry.version_token,
        "generation": entry.generation,
        "warehouse-location": entry.warehouse_location,
    }))
}

fn credential_config() -> Value {
    json!({
        "rustfs.credential-mode": "client-provided-s3-credentials-required",
        "rustfs.credential-vending": "unsupported",
        "rustfs.credential-vending-reason": "credential-vending-disabled",
    })
}

/// What a client is told beside a table or view: where its files lie, and that it brings its own credentials.
pub(super) fn load_config(location: &str) -> Value {
    let mut config = credential_config();
    config["rustfs.credential-vending-reason"] = json!("temporary-credentials-not-implemented");
    config["rustfs.credential-scope"] = json!("table-prefix");
    config["rustfs.credential-scope-prefix"] = json!(location);
    config["warehouse-location"] = json!(location);
    config
}

fn loaded(entry: &TableEntry, metadata: &Metadata, wanted: Snapshots) -> Reply {
    let config = load_config(&entry.warehouse_location);
    Reply::json(&json!({
        "metadata-location": keys::location(&entry.table_bucket, &entry.metadata_location),
        "metadata": metadata.for_load(wanted),
        "config": config,
        "storage-credentials": [],
    }))
}

/// Refuses a drop that is to remove data, too.
///
/// # Errors
///
/// [`Class::Unsupported`]; [`Class::Invalid`] for a value that is neither true nor false.
pub(super) fn check_purge(query: &[(String, String)]) -> Result<(), Refusal> {
    let asked = query.iter().find(|(name, _)| name == "purgeRequested");
    match asked.map(|(_, value)| value.to_ascii_lowercase()).as_deref() {
        None | Some("false") => Ok(()),
        Some("true") => Err(Class::Unsupported.because("purging tables is not served")),
        Some(_) => Err(Class::Invalid.because("purgeRequested is neither true nor false")),
    }
}

/// A page of tables or views.
pub(super) fn identifiers(
    resource: &str,
    bucket: &str,
    namespace: &Namespace,
    backing: crate::protocol::catalog::settings::Backing,
    all: Vec<Identifier>,
    query: &[(String, String)],
) -> Result<Reply, Refusal> {
    let listing = Listing { resource, warehouse: bucket, namespace: namespace.dotted(), backing };
    let (page, token) = Pages::of(query).cut(&listing, all, |it| it.name.clone())?;
    let page: Vec<Value> = page
        .iter()
        .map(|it| json!({ "namespace": it.namespace.levels(), "name": it.name }))
        .collect();
    Ok(Reply::json(&json!({ "identifiers": page, "next-page-token": token })))
}
