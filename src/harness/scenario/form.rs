//! A scenario as typed: the YAML form, one struct a map.
//!
//! Unknown keys are errors, units stand in the key, a step is a map of one key. What only makes
//! sense together is checked by `validate`, except the topology, which [`TestbedForm`] checks itself.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::Serialize;

use super::catalog::CatalogStep;
use super::catalog::Commits;
use super::catalog::Restart;
use super::clients::ClientStep;
use super::counter::Counter;
use super::fault::Fault;
use super::operator::OperatorStep;
use super::plan::Filesystem;
use super::plan::Rung;
use super::request::PrincipalForm;
use crate::harness::workload::spec::LoadSpec;
use crate::harness::workload::spec::WorkloadSpec;
use crate::protocol::config::CatalogConfig;
use crate::protocol::config::Durability;
use crate::protocol::config::Limits;
use crate::protocol::config::Release;
use crate::protocol::control::Defect;

/// The format of a scenario file.
pub const SCENARIO_FORMAT: u32 = 1;

/// A whole file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioForm {
    /// [`SCENARIO_FORMAT`].
    pub format: u32,
    /// Its name, the same as its file's.
    pub scenario: String,
    /// The promise, in a sentence.
    pub claim: String,
    /// What it goes back to.
    #[serde(default)]
    pub sources: Vec<String>,
    /// The smallest suite that runs it.
    pub suite: Suite,
    /// The cluster.
    pub testbed: TestbedForm,
    /// What clients do.
    pub workload: WorkloadSpec,
    /// One case for each of these; each `$case` in the file stands for the case's value.
    #[serde(default)]
    pub cases: Option<Cases>,
    /// Which cases one run takes.
    #[serde(default)]
    pub cover: Cover,
    /// What happens, in order.
    pub steps: Vec<Step>,
    /// What must be true in the end.
    pub expect: ExpectForm,
    /// Bounds of the run.
    #[serde(default)]
    pub limits: RunLimits,
    /// Whether faults may destroy more than parity can bring back.
    #[serde(default)]
    pub beyond_tolerance: bool,
}

/// When a scenario is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Suite {
    /// At every change.
    Quick,
    /// Every night.
    Nightly,
    /// Before a release.
    Release,
}

impl Suite {
    /// Every suite, from the smallest.
    pub const ALL: [Self; 3] = [Self::Quick, Self::Nightly, Self::Release];
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quick => "quick",
            Self::Nightly => "nightly",
            Self::Release => "release",
        })
    }
}

impl std::str::FromStr for Suite {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|suite| suite.to_string() == text);
        found.ok_or_else(|| format!("there is no suite `{text}`: quick, nightly or release"))
    }
}

/// The cluster.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestbedForm {
    /// Processes.
    pub nodes: usize,
    /// Drives of each.
    pub drives: usize,
    /// Drives of one erasure set; all drives when they fit into one.
    #[serde(default)]
    pub set_drives: Option<usize>,
    /// Parity shards of an object.
    pub parity: usize,
    /// The file system of every drive.
    #[serde(default)]
    pub filesystem: Filesystem,
    /// Size of a drive in MiB.
    #[serde(default = "default_drive_mib")]
    pub drive_mib: u64,
    /// What an acknowledgement promises.
    #[serde(default)]
    pub durability: Durability,
    /// What must be real at least.
    #[serde(default)]
    pub rung: Rung,
    /// Bounds and periods of the nodes.
    #[serde(default)]
    pub node_limits: Limits,
    /// Planted defects.
    #[serde(default)]
    pub defects: Vec<Defect>,
    /// The release that every node behaves as, until it is started as another.
    #[serde(default)]
    pub release: Release,
    /// The table catalog of every node, until it is started with another.
    #[serde(default)]
    pub catalog: CatalogConfig,
    /// Principals besides the one who may do everything, by their access keys.
    #[serde(default)]
    pub principals: BTreeMap<String, PrincipalForm>,
}

/// The size of a drive that a scenario does not state.
fn default_drive_mib() -> u64 {
    64
}

/// Drives of the largest erasure set that the format has.
const SET_DRIVES_MAX: usize = 16;

impl TestbedForm {
    /// Whether such a cluster can exist.
    ///
    /// # Errors
    /// Why it cannot. (A conversion while reading would lose the place.)
    pub fn topology(&self) -> Result<(), String> {
        let all = self.nodes.saturating_mul(self.drives);
        if all == 0 || self.nodes > 16 || all > 64 {
            return Err(format!(
                "impossible topology: {} nodes of {} drives (1 to 16 nodes, 1 to 64 drives in all)",
                self.nodes, self.drives
            ));
        }
        if self.set_drives.is_none() && all > SET_DRIVES_MAX {
            return Err(format!("{all} drives are more than one set: state `set_drives`"));
        }
        let set_drives = self.set_drives();
        if set_drives == 0 || set_drives > SET_DRIVES_MAX || !all.is_multiple_of(set_drives) {
            return Err(format!(
                "impossible topology: sets of {set_drives} drives out of {all} (1 to \
                 {SET_DRIVES_MAX}, a divisor of all)"
            ));
        }
        if self.parity > set_drives / 2 {
            return Err(format!(
                "impossible topology: parity {} in sets of {set_drives} drives (at most half)",
                self.parity
            ));
        }
        let least = match self.filesystem {
            Filesystem::Ext4 => 16,
            Filesystem::Xfs => 300,
        };
        if !(least..=4_096).contains(&self.drive_mib) {
            return Err(format!(
                "a drive of {} MiB: {least} to 4096 are possible with this file system",
                self.drive_mib
            ));
        }
        Ok(())
    }

    /// Drives of one erasure set.
    pub fn set_drives(&self) -> usize {
        self.set_drives.unwrap_or(self.nodes.saturating_mul(self.drives))
    }

    /// Drives that must acknowledge a write, as the format has it.
    pub fn write_quorum(&self) -> usize {
        let data = self.set_drives() - self.parity;
        if data == self.parity { data + 1 } else { data }
    }
}

/// How a scenario becomes several cases.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cases {
    /// One for each crash point that a pattern such as `put.*` matches.
    CrashPoints(String),
    /// One for each value.
    Values(Vec<String>),
}

/// Which cases one run takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Cover {
    /// All of them.
    #[default]
    All,
    /// So many, drawn from the seed; nightly takes them all.
    Rotate(usize),
}

impl TryFrom<String> for Cover {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let count = text.strip_prefix("rotate ").and_then(|count| count.parse().ok());
        match (text.as_str(), count) {
            ("all", _) => Ok(Self::All),
            (_, Some(count)) if count > 0 => Ok(Self::Rotate(count)),
            _ => Err(format!("cover `{text}` is neither `all` nor `rotate N`")),
        }
    }
}

/// One step: a map of one key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Clients work.
    Load(LoadSpec),
    /// A fault strikes, or is armed for the steps that follow.
    Inject(Fault),
    /// Every fault that is in force is undone; nodes that were killed stay down.
    Heal(Nothing),
    /// A node is started, and waited for until it is ready.
    Start(StartNode),
    /// A node is asked to end, and waited for.
    Stop(OnNode),
    /// A bucket is emptied, deleted and made again, as the workload declares it.
    RecreateBucket(OnBucket),
    /// An operator uses a tool on the drives of a node.
    Operator(OperatorStep),
    /// Records on the drives of a node that is stopped are put where older releases kept them.
    FlattenRecords(OnNode),
    /// A bucket of the workload that is not there yet is made.
    CreateBucket(OnBucket),
    /// A bucket is emptied and deleted.
    DeleteBucket(OnBucket),
    /// Something is asked of the table catalog; another answer than it owes is a failure.
    Catalog(CatalogStep),
    /// Committers work on tables.
    Commits(Commits),
    /// A real client goes through a part of its flow; that it does not get through is a failure.
    Client(ClientStep),
    /// Every armed fault has struck, nodes are ended, configured and started.
    Restart(Restart),
    /// Every armed fault has struck, and a node tells a state of its replacements; that it does not is a failure.
    Await(Await),
    /// Everything is healed, started and given time to become whole.
    Settle(Settle),
    /// Final reads, census, verdict: the last step.
    Check(Nothing),
}

impl Step {
    /// Its key.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Load(_) => "load",
            Self::Inject(_) => "inject",
            Self::Heal(_) => "heal",
            Self::Start(_) => "start",
            Self::Stop(_) => "stop",
            Self::RecreateBucket(_) => "recreate_bucket",
            Self::Operator(_) => "operator",
            Self::FlattenRecords(_) => "flatten_records",
            Self::CreateBucket(_) => "create_bucket",
            Self::DeleteBucket(_) => "delete_bucket",
            Self::Catalog(_) => "catalog",
            Self::Commits(_) => "commits",
            Self::Client(_) => "client",
            Self::Restart(_) => "restart",
            Self::Await(_) => "await",
            Self::Settle(_) => "settle",
            Self::Check(_) => "check",
        }
    }
}

/// Which node a step is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnNode {
    /// The node.
    pub node: usize,
}

/// Which node is started, and as what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartNode {
    /// The node.
    pub node: usize,
    /// The release that it behaves as from now on; it is ended first if it runs, after every armed fault has struck.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<Release>,
    /// The number of the refusal that it has to tell; every record that is there before stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refuses: Option<String>,
}

/// Which bucket a step is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnBucket {
    /// The bucket.
    pub bucket: String,
}

/// A state of its replacements that a node has to tell, while it rebuilds nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Await {
    /// The node.
    pub node: usize,
    /// What it has to name in its status: the number of a refusal, or an alarm.
    pub told: String,
    /// How long it may take, in seconds.
    pub within_s: u64,
}

/// How long a cluster may take to become whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settle {
    /// The time objective, in seconds.
    pub within_s: u64,
    /// Who finds what is to be made whole.
    #[serde(default, skip_serializing_if = "Finder::is_heal")]
    pub by: Finder,
}

/// Who finds what is to be made whole.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finder {
    /// A heal of everything that is asked for.
    #[default]
    Heal,
    /// The nodes' scanners, which nobody asks: two whole cycles of each.
    Scanner,
}

impl Finder {
    /// Whether it is the one that is asked.
    pub fn is_heal(&self) -> bool {
        *self == Self::Heal
    }
}

/// A map without keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// What must be true in the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectForm {
    /// The invariants, by name.
    pub holds: Vec<String>,
    /// What must have happened for them to mean anything, and how often at least.
    #[serde(default)]
    pub provokes: BTreeMap<Counter, u64>,
    /// The finding that is expected: a canary's catch, or a known failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fails: Option<ExpectedFailure>,
}

/// A finding that is expected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedFailure {
    /// The kind of finding.
    pub finding: String,
    /// Where the failure is being worked on; every failure but a canary's has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issue: Option<String>,
    /// The last day (`YYYY-MM-DD`) on which it is excused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
}

/// Bounds of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RunLimits {
    /// The whole run, in seconds.
    pub wall_s: u64,
    /// From the start of a node's process to its readiness, in seconds.
    pub ready_s: u64,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self { wall_s: 180, ready_s: 20 }
    }
}

#[cfg(test)]
mod tests;
