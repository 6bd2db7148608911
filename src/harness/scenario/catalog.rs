//! Steps about the table catalog: `catalog: { migrate: { warehouse: lake } }`, `commits: { … }`, `restart: { … }`.
//!
//! A warehouse is made by its step, bucket and all: the workload's clients know nothing of it. Tables are written
//! `namespace.name`, those of a load `warehouse.namespace.name`.

mod drives;

pub use drives::FenceHeld;
pub use drives::Hand;
pub use drives::Holds;
pub use drives::SnapshotHeld;
use serde::Deserialize;
use serde::Serialize;

use self::named::OnNamespace;
use self::named::OnView;
use self::repair::Diagnose;
use self::repair::Recover;
use super::form::Nothing;
use super::rehearse::Rehearse;
use super::request::Matrix;
use super::request::Request;
use crate::protocol::config::CatalogConfig;

pub mod named;
pub mod repair;

/// One thing that is asked of the catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatalogStep {
    /// A bucket is made and enabled as a table bucket, with namespaces and tables.
    Enable(Enable),
    /// The index of a warehouse is filled.
    Backfill(OnWarehouse),
    /// A preflight is asked for, and has to tell a status.
    Preflight(Preflight),
    /// A warehouse is materialised.
    Migrate(OnWarehouse),
    /// A migration is cancelled.
    Cancel(OnWarehouse),
    /// A table is created.
    Create(OnTable),
    /// One commit is made, or the one before is sent again.
    Commit(OneCommit),
    /// Every node is opened to writers.
    Admit(Nothing),
    /// A request of the scenario's own wording.
    Request(Request),
    /// Requests by rows, principals by columns.
    Matrix(Matrix),
    /// The tool of the runbook goes on.
    Rehearse(Rehearse),
    /// A table's pointer is asked for.
    Pointer(Pointer),
    /// The drives have to hold this.
    Holds(Holds),
    /// A hand changes the strong snapshot on the drives.
    Snapshot(Hand),
    /// Every armed fault has struck: for what is done meanwhile.
    Struck(Nothing),
    /// Every armed fault has struck, and is undone: for what is done meanwhile.
    Heal(Nothing),
    /// A bucket is made, if it is not there, and enabled as a table bucket.
    TableBucket(OnWarehouse),
    /// A namespace is made.
    CreateNamespace(OnNamespace),
    /// A namespace is dropped.
    DropNamespace(OnNamespace),
    /// A table is dropped, and its files are kept.
    Drop(OnTable),
    /// A view is created.
    CreateView(OnView),
    /// A view is replaced.
    ReplaceView(OnView),
    /// A view is dropped.
    DropView(OnView),
    /// How the commits of a table stand is asked for, and has to be as the step says.
    Diagnose(Diagnose),
    /// What an interrupted commit left is set right; the table's pointer is looked at before and after.
    Recover(Recover),
}

impl CatalogStep {
    /// Its key.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Enable(_) => "enable",
            Self::Backfill(_) => "backfill",
            Self::Preflight(_) => "preflight",
            Self::Migrate(_) => "migrate",
            Self::Cancel(_) => "cancel",
            Self::Create(_) => "create",
            Self::Commit(_) => "commit",
            Self::Admit(_) => "admit",
            Self::Request(_) => "request",
            Self::Matrix(_) => "matrix",
            Self::Rehearse(_) => "rehearse",
            Self::Pointer(_) => "pointer",
            Self::Holds(_) => "holds",
            Self::Snapshot(_) => "snapshot",
            Self::Struck(_) => "struck",
            Self::Heal(_) => "heal",
            Self::TableBucket(_) => "table_bucket",
            Self::CreateNamespace(_) => "create_namespace",
            Self::DropNamespace(_) => "drop_namespace",
            Self::Drop(_) => "drop",
            Self::CreateView(_) => "create_view",
            Self::ReplaceView(_) => "replace_view",
            Self::DropView(_) => "drop_view",
            Self::Diagnose(_) => "diagnose",
            Self::Recover(_) => "recover",
        }
    }

    /// The node that is asked; `None` where all are.
    pub fn node(&self) -> Option<usize> {
        match self {
            Self::Enable(step) => Some(step.node),
            Self::Backfill(step)
            | Self::Migrate(step)
            | Self::Cancel(step)
            | Self::TableBucket(step) => Some(step.node),
            Self::Preflight(step) => Some(step.node),
            Self::Create(step) | Self::Drop(step) => Some(step.node),
            Self::Commit(step) => Some(step.node),
            Self::Request(step) => Some(step.node),
            Self::Matrix(step) => Some(step.node),
            Self::Pointer(step) => Some(step.node),
            Self::Rehearse(_)
            | Self::Admit(_)
            | Self::Holds(_)
            | Self::Snapshot(_)
            | Self::Struck(_)
            | Self::Heal(_) => None,
            Self::CreateNamespace(step) | Self::DropNamespace(step) => Some(step.node),
            Self::CreateView(step) | Self::ReplaceView(step) | Self::DropView(step) => {
                Some(step.node)
            }
            Self::Diagnose(step) => Some(step.node),
            Self::Recover(step) => Some(step.node),
        }
    }

    /// The warehouse; `None` where it is about all.
    pub fn warehouse(&self) -> Option<&str> {
        match self {
            Self::Enable(step) => Some(&step.warehouse),
            Self::Backfill(step)
            | Self::Migrate(step)
            | Self::Cancel(step)
            | Self::TableBucket(step) => Some(&step.warehouse),
            Self::Preflight(step) => Some(&step.warehouse),
            Self::Create(step) | Self::Drop(step) => Some(&step.warehouse),
            Self::Commit(step) => Some(&step.warehouse),
            Self::Pointer(step) => Some(&step.warehouse),
            Self::Holds(step) => step.warehouse.as_deref(),
            // Their paths say it.
            Self::Request(_) | Self::Matrix(_) | Self::Rehearse(_) => None,
            Self::Admit(_) | Self::Snapshot(_) | Self::Struck(_) | Self::Heal(_) => None,
            Self::CreateNamespace(step) | Self::DropNamespace(step) => Some(&step.warehouse),
            Self::CreateView(step) | Self::ReplaceView(step) | Self::DropView(step) => {
                Some(&step.warehouse)
            }
            Self::Diagnose(step) => Some(&step.warehouse),
            Self::Recover(step) => Some(&step.warehouse),
        }
    }
}

/// A new table bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Enable {
    /// Its name.
    pub warehouse: String,
    /// Its tables, `namespace.name`.
    pub tables: Vec<String>,
    /// Who is asked.
    #[serde(default)]
    pub node: usize,
}

/// Something about one warehouse.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnWarehouse {
    /// The warehouse.
    pub warehouse: String,
    /// Who is asked.
    #[serde(default)]
    pub node: usize,
    /// What has to come of it.
    #[serde(default)]
    pub expect: Expected,
}

/// A preflight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preflight {
    /// The warehouse.
    pub warehouse: String,
    /// Who is asked.
    #[serde(default)]
    pub node: usize,
    /// The status that it has to tell.
    pub status: String,
    /// Words that must stand among its blockers.
    #[serde(default)]
    pub blockers: Vec<String>,
}

/// Something about one table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnTable {
    /// The warehouse.
    pub warehouse: String,
    /// The table, `namespace.name`.
    pub table: String,
    /// Who is asked.
    #[serde(default)]
    pub node: usize,
    /// What has to come of it.
    #[serde(default)]
    pub expect: Expected,
}

/// One commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneCommit {
    /// The warehouse.
    pub warehouse: String,
    /// The table, `namespace.name`.
    pub table: String,
    /// Who is asked.
    #[serde(default)]
    pub node: usize,
    /// What has to come of it.
    #[serde(default)]
    pub expect: Expected,
    /// Whether it is the last one of its table once more, under the same id.
    #[serde(default)]
    pub again: bool,
    /// Whether it moves the table to a place of its own as well.
    #[serde(default)]
    pub relocates: bool,
    /// Whether it carries the idempotency key of the last one of its table, under an id of its own.
    #[serde(default)]
    pub reuses_key: bool,
}

/// A table's pointer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pointer {
    /// The warehouse.
    pub warehouse: String,
    /// The table, `namespace.name`.
    pub table: String,
    /// Who is asked.
    #[serde(default)]
    pub node: usize,
    /// What has to come of it.
    #[serde(default)]
    pub expect: Expected,
    /// The generation that it has to tell; any when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
}

/// What has to come of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// It is done.
    #[default]
    Done,
    /// It is not done, and the client knows.
    Refused,
    /// The client cannot know.
    Unknown,
    /// The client knows, whichever it is: what was sent before may have been done.
    Known,
}

/// Committers side by side, and what an operator does meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commits {
    /// How many.
    pub writers: u32,
    /// Commits of each; a writer goes on until what is done meanwhile has ended, and has two refused or done after.
    pub commits: u32,
    /// The tables, `warehouse.namespace.name`; writers take them in turn.
    pub tables: Vec<String>,
    /// Whether an unknown commit is sent again under the same id, to the next node.
    #[serde(default)]
    pub retry: bool,
    /// Whether a writer whose commit is unknown looks for it in the table's metadata, and sends it again only if it is
    /// not there.
    #[serde(default)]
    pub looks: bool,
    /// What an operator does once a quarter of the commits is done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meanwhile: Vec<CatalogStep>,
}

/// Nodes are ended, configured and started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restart {
    /// Which; all when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<usize>,
    /// The table catalog of these nodes from now on; as it was when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog: Option<CatalogConfig>,
}

/// The namespace and the name of `namespace.name`.
pub fn split_table(table: &str) -> Option<(Vec<String>, String)> {
    let parts: Vec<String> = table.split('.').map(str::to_owned).collect();
    let (name, namespace) = parts.split_last()?;
    let is_whole = !namespace.is_empty() && parts.iter().all(|part| !part.is_empty());
    is_whole.then(|| (namespace.to_vec(), name.clone()))
}

/// The warehouse and the rest of `warehouse.namespace.name`.
pub fn split_warehouse(table: &str) -> Option<(&str, &str)> {
    let (warehouse, rest) = table.split_once('.')?;
    (!warehouse.is_empty() && split_table(rest).is_some()).then_some((warehouse, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_say_what_is_asked_and_what_is_owed() {
        let text = "{ migrate: { warehouse: lake, node: 1, expect: unknown } }";
        let step: CatalogStep = crate::yaml::parse("step", text).unwrap();
        assert_eq!(
            (step.name(), step.node(), step.warehouse()),
            ("migrate", Some(1), Some("lake"))
        );
        for text in [
            "{ migrate: { bucket: lake } }",
            "{ migrate: { warehouse: lake, expect: perhaps } }",
            "{ preflight: { warehouse: lake } }",
            "{ remove: { warehouse: lake } }",
            "{ diagnose: { warehouse: lake, table: a.t } }",
            "{ drop_namespace: { warehouse: lake } }",
        ] {
            assert!(crate::yaml::parse::<CatalogStep>("step", text).is_err(), "{text}");
        }
        let text = "{ catalog: { RUSTFS_TABLE_CATALOG_BACKING: durable-strong } }";
        let restart: Restart = crate::yaml::parse("step", text).unwrap();
        assert!(!restart.catalog.unwrap().is_default());
    }

    #[test]
    fn a_table_has_a_namespace() {
        assert_eq!(split_table("a.b.t"), Some((vec!["a".into(), "b".into()], "t".into())));
        assert_eq!(split_warehouse("lake.a.t"), Some(("lake", "a.t")));
        for bad in ["t", ".t", "a.", "a..t", ""] {
            assert_eq!(split_table(bad), None, "{bad}");
        }
        assert_eq!(split_warehouse("lake.t"), None);
    }
}
