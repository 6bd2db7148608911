//! The first metadata of a table.

use std::collections::HashMap;

use iceberg::spec::Schema;
use iceberg::spec::SortOrder;
use iceberg::spec::TableMetadataBuilder;
use iceberg::spec::UnboundPartitionSpec;
use serde_json::Value;
use serde_json::json;
use uuid::Uuid;

use super::Metadata;
use super::Trouble;
use super::kept;
use super::limits;
use super::metadata;
use super::shown::read;
use super::trouble::guarded;
use super::written::Given;
use super::written::Next;

/// The body of a request that creates a table.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CreateTable {
    /// The table's name.
    pub name: String,
    /// Where its files are to lie; the catalog chooses when there is none.
    #[serde(default)]
    pub location: Option<String>,
    /// Its columns.
    pub schema: Value,
    /// How it is partitioned; not at all when there is none.
    #[serde(default)]
    pub partition_spec: Option<Value>,
    /// How its rows are sorted; not at all when there is none.
    #[serde(default)]
    pub write_order: Option<Value>,
    /// Whether it is only to be prepared. That is not served.
    #[serde(default)]
    pub stage_create: Option<bool>,
    /// Its properties. `format-version` is taken out of them.
    #[serde(default)]
    pub properties: HashMap<String, String>,
}

/// What the catalog chose for a new table or view.
#[derive(Debug, Clone)]
pub struct Fresh<'a> {
    /// Its UUID.
    pub uuid: Uuid,
    /// When this is, in milliseconds since 1970.
    pub now_ms: i64,
    /// Where its files lie: an `s3://` address.
    pub location: &'a str,
}

impl CreateTable {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// `Invalid` when it is none.
    pub fn parse(body: &[u8]) -> Result<Self, Trouble> {
        serde_json::from_slice(body)
            .map_err(|error| Trouble::invalid(format!("the request is not valid: {error}")))
    }
}

/// The first metadata of a table: field ids are assigned anew from 1, partition field ids from 1000, the schema and
/// the partition spec are number 0, the sort order is 0 when it sorts nothing and 1 otherwise.
///
/// # Errors
/// `Invalid` for a schema, spec, order or property that is none; `Unsupported` for a staged create and for other
/// format versions than 1 and 2.
pub fn create_table(request: &CreateTable, fresh: &Fresh<'_>) -> Result<Metadata, Trouble> {
    if request.stage_create == Some(true) {
        return Err(Trouble::unsupported("staged creation of tables is not served"));
    }
    let mut properties = request.properties.clone();
    let version = properties.remove("format-version").map_or(Ok(2), |version| {
        version.trim().parse().map_err(|_| Trouble::invalid("format-version is no integer"))
    })?;
    let format = metadata::format_of(version)?;

    let mut given = request.schema.clone();
    // Clients leave out the number of a schema that will be given one anyway.
    if let Some(given) = given.as_object_mut() {
        given.insert("schema-id".to_owned(), json!(0));
    }
    let spec = request.partition_spec.clone().filter(|spec| !spec.is_null());
    let order = request.write_order.clone().filter(|order| !order.is_null());
    for part in [Some(&given), spec.as_ref(), order.as_ref()].into_iter().flatten() {
        limits::ids_have_room(part)?;
    }
    limits::names_are_few([&given])?;
    let schema: Schema = read("the schema", given.clone())?;
    let spec: UnboundPartitionSpec =
        spec.map_or_else(|| Ok(UnboundPartitionSpec::default()), |spec| read("the spec", spec))?;
    let order: SortOrder = order
        .map_or_else(|| Ok(SortOrder::unsorted_order()), |order| read("the write-order", order))?;
    let builder = guarded("the table", || {
        TableMetadataBuilder::new(
            schema,
            spec,
            order,
            fresh.location.to_owned(),
            format,
            properties,
        )
    })?;
    let created = Next {
        old: None,
        given: &Given::default(),
        format_version: if version == 1 { 1 } else { 2 },
        now_ms: fresh.now_ms,
        logged: None,
    }
    .document(builder.assign_uuid(fresh.uuid))?;

    // The schema's fields have other ids than in the request, but stand where they stood.
    let mut document = created.document();
    for schema in [document.pointer("/schemas/0").cloned()].into_iter().flatten() {
        let schema = kept::completed(schema, &given);
        if document.get("schema").is_some() {
            document["schema"] = schema.clone();
        }
        document["schemas"] = json!([schema]);
    }
    Metadata::from_document(document)
}
