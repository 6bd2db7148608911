//! What must hold of tables and views.

mod avro;
mod creation;
mod golden;
mod graph;
mod requirements;
mod transitions;
mod updates;
mod version_one;
mod views;

use serde_json::Value;
use serde_json::json;
use uuid::Uuid;

use super::*;

const UUID: Uuid = Uuid::from_u128(0x0123_4567_89ab_4cde_8f01_2345_6789_abcd);
const LOCATION: &str = "s3://lake/tables/t";
const FILE: &str = "s3://lake/.rustfs-table/t/metadata/00001-x.metadata.json";

fn fresh() -> Fresh<'static> {
    Fresh { uuid: UUID, now_ms: 1_000, location: LOCATION }
}

fn schema() -> Value {
    json!({"type": "struct", "schema-id": 0, "fields": [
        {"id": 1, "name": "id", "required": true, "type": "long"},
        {"id": 2, "name": "day", "required": false, "type": "date"},
    ], "identifier-field-ids": []})
}

fn create(body: Value) -> Result<Metadata, Trouble> {
    create_table(&CreateTable::parse(body.to_string().as_bytes())?, &fresh())
}

fn table() -> Metadata {
    create(json!({"name": "t", "schema": schema()})).unwrap()
}

fn moment(now_ms: i64) -> Moment<'static> {
    Moment { now_ms, previous_location: FILE }
}

fn applied(metadata: &Metadata, updates: Value) -> Result<Metadata, Trouble> {
    apply(metadata, updates.as_array().unwrap(), &moment(2_000))
}

fn snapshot(id: i64, parent: Option<i64>, number: i64) -> Value {
    let mut snapshot = json!({
        "snapshot-id": id, "sequence-number": number, "timestamp-ms": 1_500 + id,
        "manifest-list": format!("{LOCATION}/metadata/snap-{id}.avro"),
        "summary": {"operation": "append", "added-records": "1"}, "schema-id": 0,
    });
    if let Some(parent) = parent {
        snapshot["parent-snapshot-id"] = json!(parent);
    }
    snapshot
}

/// The updates of an append.
fn append(id: i64, parent: Option<i64>, number: i64) -> Value {
    json!([
        {"action": "add-snapshot", "snapshot": snapshot(id, parent, number)},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id},
    ])
}

fn class(refused: Result<impl Sized, Trouble>) -> Class {
    match refused {
        Ok(_) => panic!("it is not refused"),
        Err(trouble) => trouble.class,
    }
}
