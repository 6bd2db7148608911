//! What was asked for: which rehearsal, of what, and how far it may go.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Deserialize;
use serde::Serialize;

use super::routes::At;
use super::step::Step;
use crate::value::Digest;

/// What is rehearsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rehearsal {
    /// The cutover from object-backed state to the durable strong snapshot.
    Cutover,
    /// Snapshots of version 1 become version 2.
    SnapshotV2,
    /// Repair, rollback, import and a cancelled migration.
    DisasterRecovery,
    /// The same under concurrent writers.
    ScaleFault,
}

impl Rehearsal {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Cutover, Self::SnapshotV2, Self::DisasterRecovery, Self::ScaleFault];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cutover => "cutover",
            Self::SnapshotV2 => "snapshot-v2",
            Self::DisasterRecovery => "disaster-recovery",
            Self::ScaleFault => "scale-fault",
        }
    }
}

/// A table by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TableName {
    /// The segments of its namespace.
    pub namespace: Vec<String>,
    /// Its name.
    pub name: String,
}

impl std::fmt::Display for TableName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.namespace.join("."), self.name)
    }
}

/// What was asked for. What only says how to reach the servers is no part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orders {
    /// Which rehearsal.
    pub rehearsal: Rehearsal,
    /// Names this run in everything that it makes.
    pub run_id: String,
    /// `/iceberg/v1` or `/_iceberg/v1`.
    pub prefix: String,
    /// How many nodes there are.
    pub nodes: usize,
    /// The warehouses.
    pub warehouses: BTreeSet<String>,
    /// Whether anything may be changed.
    pub execute: bool,
    /// The verified backup.
    pub backup: Option<PathBuf>,
    /// The table that is rehearsed on, instead of one that the rehearsal makes for itself.
    pub table: Option<TableName>,
    /// Concurrent writers.
    pub writers: usize,
    /// Rounds of concurrent writers.
    pub iterations: usize,
    /// Commands that do what only the operator can do.
    #[serde(skip)]
    pub hooks: BTreeMap<Step, String>,
    /// Steps that the operator says to have done.
    #[serde(skip)]
    pub done: BTreeSet<Step>,
    /// The step before which to stop.
    #[serde(skip)]
    pub stop_before: Option<Step>,
    /// Whether both principals of the policy are at hand.
    #[serde(skip)]
    pub has_principals: bool,
    /// Drives of a fresh, stopped cluster into which the backup is restored at the end; without them one is made.
    #[serde(skip)]
    pub fresh_drives: Vec<PathBuf>,
    /// The program that a node of a fresh cluster is.
    #[serde(skip)]
    pub program: Option<PathBuf>,
}

impl Orders {
    /// A warehouse on the wire.
    pub fn at<'a>(&'a self, warehouse: &'a str) -> At<'a> {
        At { prefix: &self.prefix, warehouse }
    }

    /// The namespace that the rehearsal makes for itself.
    pub fn own_namespace(&self) -> Vec<String> {
        vec!["firedrill_rehearsal".to_owned()]
    }

    /// The table that the rehearsal makes for itself.
    pub fn own_table(&self) -> TableName {
        let name = format!("probe_{}", &Digest::of(self.run_id.as_bytes()).to_string()[..8]);
        TableName { namespace: self.own_namespace(), name }
    }

    /// The table that is rehearsed on.
    pub fn subject(&self) -> TableName {
        self.table.clone().unwrap_or_else(|| self.own_table())
    }

    /// A commit id of this run's, the same whenever it is asked for `what` again.
    pub fn commit_id(&self, what: &str) -> String {
        let digest = Digest::of(format!("{}/{what}", self.run_id).as_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest.0[..16]);
        uuid::Builder::from_random_bytes(bytes).into_uuid().hyphenated().to_string()
    }

    /// The object of the probe's that lies inside the table, by the table's place.
    pub fn inside_key(&self, warehouse_location: &str, warehouse: &str) -> Option<String> {
        let bucket = format!("s3://{warehouse}/");
        let prefix = warehouse_location.strip_prefix(&bucket)?.trim_end_matches('/');
        Some(format!("{prefix}/data/firedrill-policy-probe"))
    }

    /// The object of the probe's that belongs to no table.
    pub fn outside_key(&self) -> String {
        format!("firedrill-rehearsal/{}", self.own_table().name)
    }
}
