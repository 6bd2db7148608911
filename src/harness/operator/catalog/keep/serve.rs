//! Whether a cluster serves what a backup kept: every warehouse, every table where it stood, every view. Pure.
//!
//! *Verified*: the location, token and generation of each table that the manifest names, that its metadata loads from
//! that location, and that each view loads. *Not verified*: what else the cluster serves (the objects on its drives
//! are compared before it is started), data files, and writing.

use super::super::ask::Ask;
use super::super::ask::Heard;
use super::super::orders::TableName;
use super::super::routes::At;
use super::super::routes::Named;
use super::manifest::KeptPointer;
use super::manifest::KeptWarehouse;
use super::manifest::Manifest;

/// Differences that are told, the first ones.
const TOLD_MAX: usize = 10;

/// One thing to be asked of a cluster, and what its answer has to say.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The request.
    pub ask: Ask,
    /// What it is about, in words.
    what: String,
    answer: Answer,
}

#[derive(Debug, Clone, PartialEq)]
enum Answer {
    /// It is there.
    Served,
    /// A pointer that is this one.
    Pointer(String, KeptPointer),
    /// Metadata from this place.
    Metadata(String),
}

/// What has to be asked about everything that `manifest` names. `is_strong` tells which of the two states is served.
pub fn questions(manifest: &Manifest, is_strong: bool, prefix: &str) -> Vec<Question> {
    let each = manifest.warehouses.iter().flat_map(|(name, kept)| {
        let at = At { prefix, warehouse: name };
        let bucket = Question { ask: at.bucket(), what: name.clone(), answer: Answer::Served };
        let views = kept.views.iter().map(move |view| {
            let (name, what) = (parsed(view), format!("{name}/{view}"));
            let ask = at.load_view(Named { namespace: &name.namespace, name: &name.name });
            Question { ask, what, answer: Answer::Served }
        });
        let tables = of(kept, is_strong).iter().flat_map(move |(table, pointer)| {
            let (parsed, what) = (parsed(table), format!("{name}/{table}"));
            let it = Named { namespace: &parsed.namespace, name: &parsed.name };
            let place = format!("s3://{name}/{}", pointer.metadata_location);
            let stands = Answer::Pointer(place.clone(), pointer.clone());
            [
                Question { ask: at.pointer(it), what: what.clone(), answer: stands },
                Question { ask: at.load(it), what, answer: Answer::Metadata(place) },
            ]
        });
        std::iter::once(bucket).chain(tables).chain(views).collect::<Vec<_>>()
    });
    each.collect()
}

fn of(kept: &KeptWarehouse, is_strong: bool) -> &std::collections::BTreeMap<String, KeptPointer> {
    if is_strong { &kept.strong_tables } else { &kept.tables }
}

/// A name as the manifest has it: segments and name with points between them.
fn parsed(name: &str) -> TableName {
    let mut segments: Vec<_> = name.split('.').map(str::to_owned).collect();
    let name = segments.pop().unwrap_or_default();
    TableName { namespace: segments, name }
}

/// What came of all questions, in words.
///
/// # Errors
///
/// What is served otherwise than it was kept, the first few of it.
pub fn judge(asked: &[(Question, Heard)]) -> Result<String, String> {
    let mut found: Vec<_> = asked.iter().filter_map(|(it, heard)| difference(it, heard)).collect();
    if found.is_empty() {
        let count = |is: fn(&Answer) -> bool| asked.iter().filter(|(it, _)| is(&it.answer)).count();
        let tables = count(|answer| matches!(answer, Answer::Pointer(..)));
        let others = count(|answer| matches!(answer, Answer::Served));
        return Ok(format!(
            "served: {tables} tables at the location, token and generation that were kept, {others} warehouses and views"
        ));
    }
    let more = found.len().saturating_sub(TOLD_MAX);
    found.truncate(TOLD_MAX);
    if more > 0 {
        found.push(format!("and {more} more"));
    }
    Err(found.join("; "))
}

/// How an answer differs from what was kept.
fn difference(question: &Question, heard: &Heard) -> Option<String> {
    let Question { what, answer, .. } = question;
    if heard.status() != 200 {
        let (status, words) = (heard.status(), &heard.told.words);
        return Some(format!("{what} is answered {status} {words}"));
    }
    match answer {
        Answer::Served => None,
        Answer::Pointer(place, kept) => {
            let location = heard.text("/metadata-location").unwrap_or_default();
            let token = heard.text("/version-token").unwrap_or_default();
            let generation = heard.number("/generation").unwrap_or_default();
            let stands = (location, token, generation);
            let is_same = stands == (place, &kept.version_token, kept.generation);
            (!is_same).then(|| {
                format!(
                    "{what} stands at {stands:?}, {place}, {} and {} were kept",
                    kept.version_token, kept.generation
                )
            })
        }
        Answer::Metadata(place) => {
            let location = heard.text("/metadata-location").unwrap_or_default();
            let has_metadata = heard.text("/metadata/table-uuid").is_some();
            let is_same = location == place && has_metadata;
            (!is_same).then(|| format!("{what} loads from {location:?}, {place:?} was kept"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use serde_json::json;

    use super::super::super::ask::Told;
    use super::*;

    fn kept() -> KeptPointer {
        KeptPointer {
            table_id: "id".to_owned(),
            metadata_location: "m/00002-x.metadata.json".to_owned(),
            version_token: "token-2".to_owned(),
            generation: 2,
        }
    }

    fn asked(status: u16, body: Value, answer: Answer) -> Result<String, String> {
        let ask = Ask::new("GET", "/x");
        let told = Told::answered(&ask, status, body);
        let question = Question { ask: ask.clone(), what: "lake/a.t".to_owned(), answer };
        judge(&[(question, Heard { ask, told })])
    }

    #[test]
    fn a_table_has_to_stand_where_it_was_kept() {
        let place = "s3://lake/m/00002-x.metadata.json";
        let stands = |location: &str, token: &str, generation: u64| {
            let body = json!({"metadata-location": location, "version-token": token, "generation": generation});
            asked(200, body, Answer::Pointer(place.to_owned(), kept()))
        };
        assert!(stands(place, "token-2", 2).unwrap().contains("1 tables"));
        assert!(stands(place, "token-2", 3).is_err(), "another generation");
        assert!(stands(place, "token-1", 2).is_err(), "another token");
        assert!(stands("s3://lake/m/00001-x.metadata.json", "token-2", 2).is_err());
        let missing = asked(404, Value::Null, Answer::Pointer(place.to_owned(), kept()));
        assert!(missing.unwrap_err().contains("lake/a.t is answered 404"));
    }

    #[test]
    fn metadata_has_to_load_from_there() {
        let place = "s3://lake/m/00002-x.metadata.json";
        let loads = |body: Value| asked(200, body, Answer::Metadata(place.to_owned()));
        let metadata = json!({"table-uuid": "u"});
        assert!(loads(json!({"metadata-location": place, "metadata": metadata})).is_ok());
        assert!(loads(json!({"metadata-location": place})).is_err(), "no metadata");
        assert!(loads(json!({"metadata-location": "elsewhere", "metadata": metadata})).is_err());
        assert!(asked(503, Value::Null, Answer::Served).is_err());
    }

    #[test]
    fn a_name_is_taken_apart_at_its_last_point() {
        let name = parsed("a.b.t");
        assert_eq!((name.namespace.join("/"), name.name), ("a/b".to_owned(), "t".to_owned()));
    }
}
