//! Steps about what interrupted commits leave behind: diagnosis and repair.

use serde::Deserialize;
use serde::Serialize;

use super::Expected;

/// How the commits of a table stand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Diagnose {
    /// The warehouse.
    pub warehouse: String,
    /// The table, `namespace.name`.
    pub table: String,
    /// Who is asked.
    #[serde(default)]
    pub node: usize,
    /// The `recovery_status` that it has to tell.
    pub status: String,
    /// The `recommended_actions`, all of them and in their order.
    #[serde(default)]
    pub actions: Vec<String>,
    /// How the last single commit of the table stands (its `recovery_state`), or `ABSENT` when no record may be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

/// A repair of what interrupted commits left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recover {
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
    /// How many repairs it has to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finalized: Option<u64>,
}
