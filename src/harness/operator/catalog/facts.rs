//! What is known of the servers, as far as it was read.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;

use super::answers::Execution;
use super::answers::Pointer;
use super::answers::Preflight;
use super::orders::TableName;

/// What is known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// The backing, which is the same on every node.
    pub backing: String,
    /// What each node says of its release.
    pub releases: Vec<String>,
    /// Whether the servers have the routes of this project's own node.
    pub has_own_routes: bool,
    /// By warehouse.
    pub warehouses: BTreeMap<String, Warehouse>,
    /// The backup.
    pub backup: Option<BackupFacts>,
    /// What the rehearsal made, by warehouse.
    pub probes: BTreeMap<String, Probe>,
    /// Where the table stands that is rehearsed on.
    pub subject: Option<Subject>,
    /// What the writers of a stress did, for the artifacts.
    pub stressed: BTreeMap<String, Value>,
    /// For as long as one step lasts.
    #[serde(skip)]
    pub work: Work,
}

/// One warehouse.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Warehouse {
    /// Its namespaces.
    pub namespaces: Vec<Vec<String>>,
    /// Its tables, by their names.
    pub tables: BTreeMap<String, Table>,
    /// Its views: the location of their metadata.
    pub views: BTreeMap<String, View>,
    /// The latest preflight.
    pub preflight: Option<Preflight>,
    /// What the migration did.
    pub execution: Option<Execution>,
    /// Tables whose commits have to be repaired.
    pub to_repair: Vec<String>,
    /// Whether its fence stood before the rehearsal began.
    pub was_fenced: bool,
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// Its name.
    pub name: TableName,
    /// Where it stands.
    pub pointer: Pointer,
    /// SHA-256 of its metadata as it was loaded, in canonical JSON; only where it was loaded.
    pub metadata_sha256: Option<String>,
    /// What of it only an object-backed catalog does: background maintenance, a bridge.
    pub object_only: Vec<String>,
}

/// One view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// Its name.
    pub name: TableName,
    /// Where its metadata is.
    pub metadata_location: String,
}

/// What a verified backup says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackupFacts {
    /// SHA-256 of its manifest: what selects it.
    pub digest: String,
    /// The release that it was taken of.
    pub release: String,
    /// When it was taken: seconds since 1970.
    pub made_at: u64,
    /// By warehouse: the version token of each table in object-backed state.
    pub tokens: BTreeMap<String, BTreeMap<String, String>>,
    /// By warehouse: the version token of each table in the snapshot.
    pub strong_tokens: BTreeMap<String, BTreeMap<String, String>>,
}

/// What the rehearsal made in one warehouse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Probe {
    /// The table.
    pub table: TableName,
    /// The commit that can be sent again.
    pub commit: Value,
    /// Where the table stood after the first of its commits: what it can be rolled back to.
    pub earlier: String,
    /// Where the table stood after the last of them.
    pub pointer: Pointer,
    /// An object inside the table.
    pub inside_key: String,
    /// An object that belongs to no table.
    pub outside_key: String,
}

/// The table that is rehearsed on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The warehouse.
    pub warehouse: String,
    /// The table.
    pub table: TableName,
    /// Where it stands.
    pub pointer: Pointer,
    /// Where it stood before, if that is known.
    pub earlier: Option<String>,
    /// Whether an interrupted commit was left behind on purpose.
    pub has_gap: bool,
}

/// What one step has still to do.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Work {
    /// What is still to come.
    pub pending: VecDeque<Item>,
    /// What the requests are about that were sent last, in their order.
    pub sent: Vec<Item>,
    /// What was found out, for the evidence.
    pub notes: Vec<String>,
    /// A number that the step keeps.
    pub count: u64,
    /// A value that the step keeps.
    pub kept: Value,
}

/// What is looked at of a namespace, table or view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// The namespaces below it.
    Children,
    /// Its tables.
    Tables,
    /// Its views.
    Views,
    /// A table's pointer.
    Pointer,
    /// A table's metadata.
    Load,
    /// A table's bridge to another catalog.
    External,
    /// How a table is maintained.
    Maintenance,
    /// A view's metadata.
    View,
    /// How a table's commits stand.
    Diagnose,
    /// Repairs a table's commits.
    Recover,
}

/// Something to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// What of it.
    pub look: Look,
    /// In which warehouse.
    pub warehouse: String,
    /// The namespace; the name is empty where a namespace is meant.
    pub name: TableName,
    /// From which page on.
    pub page: String,
    /// At which node.
    pub node: usize,
}

impl Item {
    /// The first page of a namespace.
    pub fn namespace(look: Look, warehouse: &str, namespace: &[String]) -> Self {
        let name = TableName { namespace: namespace.to_vec(), name: String::new() };
        Self { look, warehouse: warehouse.to_owned(), name, page: String::new(), node: 0 }
    }

    /// A table or view.
    pub fn named(look: Look, warehouse: &str, name: &TableName) -> Self {
        let (warehouse, name) = (warehouse.to_owned(), name.clone());
        Self { look, warehouse, name, page: String::new(), node: 0 }
    }

    /// The same at another node.
    #[must_use]
    pub fn at(self, node: usize) -> Self {
        Self { node, ..self }
    }
}

/// SHA-256 of a value in one spelling, whatever order its members came in.
pub fn canonical_digest(value: &Value) -> String {
    // Maps of this crate's JSON are sorted by key.
    let text = serde_json::to_string(value).unwrap_or_default();
    crate::value::Digest::of(text.as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_members_is_no_difference() {
        let one: Value = serde_json::from_str(r#"{"b":1,"a":{"d":2,"c":3}}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"a":{"c":3,"d":2},"b":1}"#).unwrap();
        assert_eq!(canonical_digest(&one), canonical_digest(&other));
    }
}
