//! The first document of a view, and the next.

use std::collections::BTreeSet;
use std::collections::HashMap;

use iceberg::ViewUpdate;
use iceberg::spec::Schema;
use iceberg::spec::ViewFormatVersion;
use iceberg::spec::ViewMetadata;
use iceberg::spec::ViewMetadataBuilder;
use iceberg::spec::ViewVersion;
use serde_json::Map;
use serde_json::Value;
use serde_json::json;

use super::View;
use super::document::served;
use crate::iceberg::Fresh;
use crate::iceberg::Trouble;
use crate::iceberg::kept;
use crate::iceberg::kept::List;
use crate::iceberg::limits;
use crate::iceberg::shown;
use crate::iceberg::shown::read;
use crate::iceberg::trouble::guarded;

/// The body of a request that creates a view.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CreateView {
    /// The view's name.
    pub name: String,
    /// Where its files are to lie; the catalog chooses when there is none.
    #[serde(default)]
    pub location: Option<String>,
    /// Its columns.
    pub schema: Value,
    /// Its first version: what it selects.
    pub view_version: Value,
    /// Its properties.
    #[serde(default)]
    pub properties: HashMap<String, String>,
}

impl CreateView {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// `Invalid` when it is none.
    pub fn parse(body: &[u8]) -> Result<Self, Trouble> {
        serde_json::from_slice(body)
            .map_err(|error| Trouble::invalid(format!("the request is not valid: {error}")))
    }
}

/// The first metadata of a view. Its schema is number 0, its version number 1.
///
/// # Errors
/// `Invalid` for a schema or version that is none, or a dialect with two queries.
pub fn create_view(request: &CreateView, fresh: &Fresh<'_>) -> Result<View, Trouble> {
    let mut given = Given::default();
    limits::names_are_few([&request.schema])?;
    let schema: Schema = given.schema(&request.schema)?;
    let mut version = request.view_version.clone();
    // A client that leaves out its own numbers, or does not know the schema's, gets ours.
    for (key, number) in [("version-id", 1), ("schema-id", 0)] {
        if let Some(members) = version.as_object_mut() {
            members.insert(key.to_owned(), json!(number));
        }
    }
    let version: ViewVersion = given.version(&version)?;
    let builder = guarded("the view", || {
        ViewMetadataBuilder::new(
            fresh.location.to_owned(),
            schema,
            version,
            ViewFormatVersion::V1,
            request.properties.clone(),
        )
    })?;
    next(None, builder.assign_uuid(fresh.uuid), &given, fresh.now_ms)
}

/// Applies `updates` to a view in their order: the same input gives the same bytes.
///
/// # Errors
/// `Invalid` for an update that is unknown, malformed or not possible; `Unsupported` for another format version.
pub fn apply_view(view: &View, updates: &[Value], now_ms: i64) -> Result<View, Trouble> {
    limits::updates_fit(updates)?;
    let mut builder = view.seen.clone().into_builder();
    let mut given = Given::default();
    for update in updates {
        builder = then(builder, update, &mut given)?;
    }
    next(Some(view), builder, &given, now_ms)
}

/// Whether `new` may follow `old`: it is the same view.
///
/// # Errors
/// `Invalid` when it is not.
pub fn view_transition(old: &View, new: &View) -> Result<(), Trouble> {
    if old.uuid() != new.uuid() {
        return Err(Trouble::invalid("the uuid of a view never changes"));
    }
    Ok(())
}

/// What a request brought, as it wrote it.
#[derive(Default)]
struct Given {
    schemas: Vec<Value>,
    versions: Vec<Value>,
}

impl Given {
    fn schema(&mut self, schema: &Value) -> Result<Schema, Trouble> {
        limits::ids_have_room(schema)?;
        self.schemas.push(schema.clone());
        read("the schema", schema.clone())
    }

    /// The crate judges a version's time by the clock and by the log: it is shown none.
    fn version(&mut self, version: &Value) -> Result<ViewVersion, Trouble> {
        limits::ids_have_room(version)?;
        if !version["timestamp-ms"].is_i64() {
            return Err(Trouble::invalid("a view version has no timestamp-ms"));
        }
        let mut kept = version.clone();
        if let Some(kept) = kept.as_object_mut() {
            // Both numbers may be placeholders.
            kept.remove("schema-id");
            kept.remove("version-id");
        }
        self.versions.push(kept);
        let mut shown = version.clone();
        shown["timestamp-ms"] = json!(shown::TIMELESS_MS);
        read("the view version", shown)
    }
}

fn then(
    builder: ViewMetadataBuilder,
    update: &Value,
    given: &mut Given,
) -> Result<ViewMetadataBuilder, Trouble> {
    limits::ids_have_room(update)?;
    let action =
        update["action"].as_str().ok_or_else(|| Trouble::invalid("an update has no action"))?;
    let what = format!("the update {action}");
    match action {
        "add-schema" => {
            let schema = given.schema(&update["schema"])?;
            guarded(&what, || Ok(builder.add_schema(schema)))
        }
        "add-view-version" => {
            let version = given.version(&update["view-version"])?;
            guarded(&what, || builder.add_version(version))
        }
        "upgrade-format-version" => {
            let version = update["format-version"].as_i64();
            served(version.ok_or_else(|| Trouble::invalid("format-version is no integer"))?)?;
            Ok(builder)
        }
        "assign-uuid"
        | "set-location"
        | "set-properties"
        | "remove-properties"
        | "set-current-view-version" => {
            let update: ViewUpdate = read(&what, update.clone())?;
            guarded(&what, || match update {
                ViewUpdate::AssignUuid { uuid } => Ok(builder.assign_uuid(uuid)),
                ViewUpdate::SetLocation { location } => Ok(builder.set_location(location)),
                ViewUpdate::SetProperties { updates } => builder.set_properties(updates),
                ViewUpdate::RemoveProperties { removals } => {
                    Ok(builder.remove_properties(&removals))
                }
                ViewUpdate::SetCurrentViewVersion { view_version_id } => {
                    builder.set_current_version_id(view_version_id)
                }
                _ => Ok(builder),
            })
        }
        unknown => Err(Trouble::invalid(format!("the update {unknown:?} is unknown"))),
    }
}

/// Has the crate build, and writes down what it built.
fn next(
    old: Option<&View>,
    builder: ViewMetadataBuilder,
    given: &Given,
    now_ms: i64,
) -> Result<View, Trouble> {
    let built = guarded("the new view metadata", || builder.build())?;
    let mut built = as_json(&built.metadata)?;
    let before = old.map(|old| as_json(&old.seen)).transpose()?.unwrap_or_default();
    let list = |document: &Map<String, Value>, key: &str| {
        document.get(key).and_then(Value::as_array).cloned().unwrap_or_default()
    };

    // The versions that this request added are those that were not there; their times are in the request.
    let stood: BTreeSet<i64> = old
        .map_or(&[][..], |old| old.list("versions"))
        .iter()
        .filter_map(|version| version["version-id"].as_i64())
        .collect();
    let mut added = Vec::new();
    if let Some(Value::Array(versions)) = built.get_mut("versions") {
        versions.sort_by_key(|version| version["version-id"].as_i64());
        for version in versions {
            let id = version["version-id"].as_i64().unwrap_or_default();
            if stood.contains(&id) {
                continue;
            }
            let mut given = given.versions.iter().rev();
            let origin = given.find(|given| kept::agree(given, version, "timestamp-ms"));
            let time = origin.and_then(|given| given["timestamp-ms"].as_i64()).unwrap_or(now_ms);
            version["timestamp-ms"] = json!(time);
            added.push((id, time));
        }
    }
    let mut next = built.clone();
    for (key, id_key, given) in [
        ("schemas", "schema-id", given.schemas.as_slice()),
        ("versions", "version-id", given.versions.as_slice()),
    ] {
        let merged = List {
            id_key,
            is_assigned: true,
            built: &list(&built, key),
            built_before: &list(&before, key),
            before: old.map_or(&[], |old| old.list(key)),
            given,
        };
        next.insert(key.to_owned(), Value::Array(merged.merged()));
    }
    let known: Vec<&str> = built.keys().map(String::as_str).collect();
    next.extend(old.map(|old| kept::strangers(&old.document, &known)).unwrap_or_default());
    let log = shown::history(
        built.get("version-log"),
        old.map_or(&[], |old| old.list("version-log")),
        "version-id",
        |id| added.iter().find(|(added, _)| *added == id).map(|(_, time)| *time),
        now_ms,
    );
    next.insert("version-log".to_owned(), Value::Array(log));
    View::from_document(Value::Object(next))
}

fn as_json(metadata: &ViewMetadata) -> Result<Map<String, Value>, Trouble> {
    match guarded("the view metadata", || Ok(serde_json::to_value(metadata)))? {
        Ok(Value::Object(document)) => Ok(document),
        _ => Err(Trouble::invalid("the view metadata cannot be written")),
    }
}
