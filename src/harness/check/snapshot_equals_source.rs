//! While a migration stands and nobody has taken over, the snapshot is what was copied.
//!
//! Verified, by the drives: for each table bucket whose fence says MATERIALIZED, the fingerprint that we compute from
//! the bucket's own records is the one that the fence names, and the one that we compute from the snapshot's rows. A
//! bucket that is in the snapshot has a fence.
//!
//! Not verified: buckets after a durable-strong process has taken over, whose snapshot moves on.

use serde::Deserialize;

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::tables;
use super::tables::SNAPSHOT;
use crate::harness::audit::census::CatalogCensus;
use crate::value::Digest;

/// Its name.
pub const NAME: &str = "snapshot_equals_source";

/// The folders of table buckets.
const FOLDERS: &str = "s3tables/catalog/table-buckets/";
/// The end of a bucket fence's key.
const FENCE: &str = "/backing-migration/durable-strong-fence.json";

/// A bucket fence, as far as it matters here.
#[derive(Debug, Deserialize)]
pub(super) struct Fence {
    pub(super) table_bucket: String,
    pub(super) status: String,
    pub(super) source_fingerprint: Option<String>,
}

impl Fence {
    /// Whether its migration has copied the bucket.
    pub(super) fn is_materialized(&self) -> bool {
        self.status == "MATERIALIZED"
    }
}

/// Every bucket fence by its key; `None` for one that does not decode.
pub(super) fn fences(census: &CatalogCensus) -> impl Iterator<Item = (&str, Option<Fence>)> {
    let all = census.objects.iter().filter(|(key, _)| key.ends_with(FENCE));
    all.map(|(key, text)| (key.as_str(), serde_json::from_str(text).ok()))
}

/// The fingerprint of the records of the bucket whose fence is at `key`.
pub(super) fn source_of(census: &CatalogCensus, key: &str, fence: &Fence) -> String {
    let folder = key.strip_suffix(FENCE).unwrap_or(key);
    fingerprint(&of_objects(census, folder, &fence.table_bucket))
}

/// What tells where a record belongs.
#[derive(Debug, Deserialize)]
struct Place {
    #[serde(default)]
    table_bucket: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    table: String,
    #[serde(default)]
    view: String,
    #[serde(default)]
    table_id: String,
    #[serde(default)]
    commit_id: String,
    #[serde(default)]
    idempotency_key: Option<String>,
}

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let Some(census) = tables::census(&mut examination, witnesses) else {
        return examination.finish();
    };
    if tables::is_cut_over(census) {
        return examination.finish();
    }
    let snapshot = census.objects.get(SNAPSHOT).map(String::as_str);
    let mut fenced = Vec::new();
    for (key, fence) in fences(census) {
        let Some(fence) = fence else {
            let message = format!("the fence {key} does not decode");
            examination.found(Found::fail("fence_does_not_decode", message).shown_in(key));
            continue;
        };
        if fence.is_materialized() {
            examination.examined();
            for message in differences(census, key, &fence, snapshot) {
                let found = Found::fail("snapshot_differs", message);
                examination.found(found.shown_in(key).shown_in(SNAPSHOT));
            }
        }
        fenced.push(fence.table_bucket);
    }
    let buckets = snapshot.and_then(|text| member(text, "table_buckets")).map(items);
    for bucket in buckets.unwrap_or_default() {
        let name = place(bucket).map(|place| place.table_bucket).unwrap_or_default();
        if !fenced.contains(&name) {
            let message = format!("bucket {name} is in the snapshot, and no fence protects it");
            examination.found(Found::fail("snapshot_without_fence", message).shown_in(SNAPSHOT));
        }
    }
    examination.finish()
}

/// How the three fingerprints of a bucket differ.
fn differences(
    census: &CatalogCensus,
    key: &str,
    fence: &Fence,
    snapshot: Option<&str>,
) -> Vec<String> {
    let bucket = &fence.table_bucket;
    let source = source_of(census, key, fence);
    let mut differences = Vec::new();
    if fence.source_fingerprint.as_deref() != Some(&*source) {
        let named = fence.source_fingerprint.as_deref().unwrap_or("none");
        differences.push(format!("the records of {bucket} are {source}, its fence names {named}"));
    }
    let copied = snapshot.map(|text| fingerprint(&of_snapshot(text, bucket)));
    if copied.as_deref() != Some(&*source) {
        let copied = copied.as_deref().unwrap_or("not there");
        differences.push(format!("the records of {bucket} are {source}, the snapshot's {copied}"));
    }
    differences
}

/// The state of one bucket, each list in the order of a fingerprint, as texts.
#[derive(Debug, Default)]
struct State<'a> {
    bucket: &'a str,
    namespaces: Vec<(Vec<String>, &'a str)>,
    tables: Vec<(Vec<String>, &'a str)>,
    views: Vec<(Vec<String>, &'a str)>,
    commits: Vec<(Vec<String>, String)>,
    keyed: Vec<(Vec<String>, String)>,
}

fn place(text: &str) -> Option<Place> {
    serde_json::from_str(text).ok()
}

/// The parts of a namespace, and a name in it: what entries are ordered by.
fn order(namespace: &str, name: &str) -> Vec<String> {
    let parts = namespace.split('.').map(str::to_owned);
    // Nothing sorts before an end: `a` with a table `b` is before `a.b` with any.
    parts.chain([String::new(), name.to_owned()]).collect()
}

/// The state that the objects in the folder of a bucket tell.
fn of_objects<'a>(census: &'a CatalogCensus, folder: &str, bucket: &str) -> State<'a> {
    let mut state = State::default();
    let own = |key: &'a str| key.strip_prefix(folder)?.strip_prefix('/');
    let records = census.objects.iter().filter_map(|(key, text)| Some((own(key)?, &**text)));
    let records: Vec<(&str, &str)> = records.filter(|_| folder.starts_with(FOLDERS)).collect();
    for (key, text) in &records {
        let Some(place) = place(text) else { continue };
        if *key == "table-bucket.json" {
            state.bucket = text;
        } else if key.ends_with("/namespace-entry.json") {
            state.namespaces.push((order(&place.namespace, ""), text));
        } else if key.ends_with("/table-entry.json") {
            state.tables.push((order(&place.namespace, &place.table), text));
        } else if key.ends_with("/view-entry.json") {
            state.views.push((order(&place.namespace, &place.view), text));
        }
    }
    // Commits of tables that are gone are not copied.
    let ids: Vec<String> =
        state.tables.iter().filter_map(|(_, it)| Some(place(it)?.table_id)).collect();
    for (key, text) in &records {
        let Some(place) = place(text).filter(|place| ids.contains(&place.table_id)) else {
            continue;
        };
        if key.starts_with("commits/") {
            state.commits.push(row(bucket, &place.table_id, &place.commit_id, text));
        } else if let Some(id) = place.idempotency_key.filter(|_| key.starts_with("commit-idem")) {
            state.keyed.push(row(bucket, &place.table_id, &id, text));
        }
    }
    state
}

/// One row of commits, with what it is ordered by.
fn row(bucket: &str, table_id: &str, lookup: &str, commit: &str) -> (Vec<String>, String) {
    let text = format!(
        r#"{{"table_bucket":{},"table_id":{},"lookup_key":{},"commit":{commit}}}"#,
        quoted(bucket),
        quoted(table_id),
        quoted(lookup)
    );
    (vec![table_id.to_owned(), lookup.to_owned()], text)
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The state of a bucket that a snapshot tells.
fn of_snapshot<'a>(snapshot: &'a str, bucket: &str) -> State<'a> {
    let of = |name: &str| -> Vec<(Place, &'a str)> {
        let rows = member(snapshot, name).map(items).unwrap_or_default();
        let rows = rows.into_iter().filter_map(|text| Some((place(text)?, text)));
        rows.filter(|(place, _)| place.table_bucket == bucket).collect()
    };
    let entries = |name: &str| -> Vec<(Vec<String>, &'a str)> {
        let entry = |(place, text): (Place, &'a str)| {
            (order(&place.namespace, &format!("{}{}", place.table, place.view)), text)
        };
        of(name).into_iter().map(entry).collect()
    };
    let rows = |name: &str| -> Vec<(Vec<String>, String)> {
        let rows = of(name).into_iter().filter_map(|(place, text)| {
            let lookup = member(text, "lookup_key")?.trim_matches('"').to_owned();
            Some((vec![place.table_id, lookup], text.to_owned()))
        });
        rows.collect()
    };
    State {
        bucket: of("table_buckets").first().map_or("null", |(_, text)| text),
        namespaces: entries("namespaces"),
        tables: entries("tables"),
        views: entries("views"),
        commits: rows("commits"),
        keyed: rows("idempotency"),
    }
}

/// The fingerprint of a state: SHA-256 of its compact JSON.
fn fingerprint(state: &State<'_>) -> String {
    fn list<T: AsRef<str>>(rows: &[(Vec<String>, T)]) -> String {
        let mut rows: Vec<_> = rows.iter().map(|(key, text)| (key, text.as_ref())).collect();
        rows.sort();
        rows.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(",")
    }
    let text = format!(
        r#"{{"table_bucket":{},"namespaces":[{}],"tables":[{}],"views":[{}],"commits":[{}],"idempotency":[{}]}}"#,
        state.bucket,
        list(&state.namespaces),
        list(&state.tables),
        list(&state.views),
        list(&state.commits),
        list(&state.keyed)
    );
    Digest::of(text.as_bytes()).to_string()
}

/// The text of one member of a compact JSON object, byte for byte: decoding would forget how it was written.
fn member<'a>(object: &'a str, name: &str) -> Option<&'a str> {
    let wanted = format!("{}:", quoted(name));
    items(object).into_iter().find_map(|text| text.strip_prefix(&wanted))
}

/// The texts between the commas of a compact JSON array or object.
fn items(text: &str) -> Vec<&str> {
    let Some(inner) = text.get(1..text.len().saturating_sub(1)).filter(|it| !it.is_empty()) else {
        return Vec::new();
    };
    let (mut items, mut from, mut depth) = (Vec::new(), 0, 0_usize);
    let (mut is_text, mut is_escaped) = (false, false);
    for (at, byte) in inner.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            _ if is_text => {}
            b'[' | b'{' => depth += 1,
            b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                items.push(&inner[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    items.push(&inner[from..]);
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_where_values_end() {
        let object = r#"{"a":[1,{"b":"x,]}\",y"}],"c":{"d":[]},"e":null}"#;
        assert_eq!(items(object).len(), 3);
        assert_eq!(member(object, "a"), Some(r#"[1,{"b":"x,]}\",y"}]"#));
        assert_eq!(items(r#"[1,{"b":"x,]}\",y"}]"#), ["1", r#"{"b":"x,]}\",y"}"#]);
        assert_eq!(member(object, "e"), Some("null"));
        assert_eq!(member(object, "b"), None);
        assert!(items("[]").is_empty());
    }

    #[test]
    fn a_namespace_is_before_those_below_it() {
        assert!(order("a", "z") < order("a.b", "c"));
        assert!(order("a", "b") < order("a", "c"));
    }
}
