//! A scenario as meant: everything that a run will do, fixed by the scenario and the seed.
//!
//! `plan.json` is this, byte for byte the same for one seed. It holds no clock, path or host, and
//! `judge` needs nothing else to know what was promised.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::Serialize;
use uuid::Uuid;

use super::fault::Fault;
use super::form::ExpectForm;
use super::form::RunLimits;
use super::form::ScenarioForm;
use super::form::Step;
use super::form::Suite;
use super::form::TestbedForm;
use super::parse::Case;
use super::request::PrincipalForm;
use super::size::Size;
use crate::harness::check::Facts;
use crate::harness::workload::generator;
use crate::harness::workload::generator::Geometry;
use crate::harness::workload::generator::LaneList;
use crate::harness::workload::spec::LoadSpec;
use crate::harness::workload::spec::WorkloadSpec;
use crate::protocol::config::CatalogConfig;
use crate::protocol::config::Durability;
use crate::protocol::config::Limits;
use crate::protocol::config::Release;
use crate::protocol::control::Defect;
use crate::protocol::crash_point::CrashPoint;
use crate::value::Digest;
use crate::value::Seed;

/// The format of a plan file.
pub const PLAN_FORMAT: u32 = 1;

/// Everything that a run will do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`PLAN_FORMAT`].
    pub format: u32,
    /// The case, as every file of the run calls it.
    pub case: String,
    /// The family of its scenario.
    pub family: String,
    /// The promise.
    pub claim: String,
    /// What it goes back to.
    pub sources: Vec<String>,
    /// The smallest suite that runs it.
    pub suite: Suite,
    /// What every choice of ours is drawn from.
    pub seed: Seed,
    /// The cluster.
    pub testbed: TestbedPlan,
    /// What clients do.
    pub workload: WorkloadSpec,
    /// What happens, in order.
    pub steps: Vec<Step>,
    /// The faults among the steps.
    pub faults: Vec<PlannedFault>,
    /// The operations of each client of each load.
    pub clients: Vec<ClientPlan>,
    /// What must be true in the end.
    pub expect: ExpectForm,
    /// Bounds of the run.
    pub limits: RunLimits,
    /// Whether faults may destroy more than parity can bring back.
    pub beyond_tolerance: bool,
    /// What the drives must hold at the peak.
    pub size: Size,
}

/// One fault of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlannedFault {
    /// Its number in the run, from 0, in the order of the steps.
    pub fault: u64,
    /// The step that injects or arms it.
    pub step: usize,
    /// Its name.
    pub name: String,
    /// The crash point at which it strikes.
    pub at: Option<CrashPoint>,
    /// At which passing.
    pub nth: Option<u32>,
    /// The nodes it names.
    pub nodes: Vec<usize>,
    /// The drives it names.
    pub drives: Vec<String>,
}

/// One client of one load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientPlan {
    /// The step.
    pub step: usize,
    /// The client.
    pub client: u32,
    /// Its operations.
    pub operations: u64,
    /// SHA-256 of their list.
    pub digest: Digest,
}

/// What the command line changes about a scenario.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Another durability than the scenario's.
    pub durability: Option<Durability>,
    /// A higher rung than the scenario's.
    pub rung: Option<Rung>,
}

impl Overrides {
    /// What the command line says, in the words of scenarios.
    ///
    /// # Errors
    /// A word that does not exist.
    pub fn read(durability: Option<&str>, rung: Option<&str>) -> Result<Self, String> {
        let durability = durability.map(word).transpose()?;
        let rung = rung.map(word).transpose()?;
        Ok(Self { durability, rung })
    }
}

impl std::str::FromStr for Rung {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        word(text)
    }
}

/// Reads a word as scenarios are read.
fn word<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    let value = serde_json::Value::String(text.to_owned());
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// Why a case will not be run, although every word of it makes sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The workload does not fit on its drives.
    #[error(
        "{case}: a drive of {drive_mib} MiB would hold up to {what}: more than {percent} % of it"
    )]
    TooFull {
        /// The case.
        case: String,
        /// The size of its drives.
        drive_mib: u64,
        /// Bytes or inodes, in words.
        what: String,
        /// The most that is allowed.
        percent: u64,
    },
    /// The drives do not fit into memory.
    #[error(
        "{case}: images of {image_mib} MiB are more than half of {available_mib} MiB of memory"
    )]
    TooLarge {
        /// The case.
        case: String,
        /// All images.
        image_mib: u64,
        /// What is available.
        available_mib: u64,
    },
}

/// Most of a drive, in percent, that a workload may fill.
pub const FILL_PERCENT_MAX: u64 = 70;

/// Plans `case` for `seed`.
///
/// # Errors
/// [`Refusal::TooFull`]; nothing was touched.
pub fn plan(case: &Case, seed: Seed, overrides: Overrides) -> Result<Plan, Refusal> {
    let form = &case.form;
    let testbed = testbed(&form.testbed, seed, overrides);
    let lists = lists(&form.workload, &form.steps, &testbed, seed);
    let clients = lists.iter().flat_map(|(step, lanes)| {
        lanes.iter().map(|lane| ClientPlan {
            step: *step,
            client: lane.client,
            operations: lane.intents.len() as u64,
            digest: lane.digest(),
        })
    });
    let clients = clients.collect();
    let lanes: Vec<_> = lists.into_iter().map(|(_, lanes)| lanes).collect();
    let size = Size::of(generator::footprint(&form.workload, &lanes), &testbed);
    let faults = faults(form);
    let is_filled = faults.iter().any(|fault| fault.name == "fill_drive");
    if !is_filled && let Some(what) = size.excess(&testbed, FILL_PERCENT_MAX) {
        return Err(Refusal::TooFull {
            case: case.name.clone(),
            drive_mib: testbed.drive_mib,
            what,
            percent: FILL_PERCENT_MAX,
        });
    }
    Ok(Plan {
        format: PLAN_FORMAT,
        case: case.name.clone(),
        family: case.family.clone(),
        claim: form.claim.trim().to_owned(),
        sources: form.sources.clone(),
        suite: form.suite,
        seed,
        testbed,
        workload: form.workload.clone(),
        steps: form.steps.clone(),
        faults,
        clients,
        expect: form.expect.clone(),
        limits: form.limits.clone(),
        beyond_tolerance: form.beyond_tolerance,
        size,
    })
}

impl Plan {
    /// Whether the images of `jobs` such runs fit into half of `available_bytes` of memory.
    ///
    /// # Errors
    /// [`Refusal::TooLarge`].
    pub fn fits(&self, available_bytes: u64, jobs: u64) -> Result<(), Refusal> {
        let image_bytes = self.testbed.image_bytes().saturating_mul(jobs.max(1));
        if image_bytes <= available_bytes / 2 {
            return Ok(());
        }
        Err(Refusal::TooLarge {
            case: self.case.clone(),
            image_mib: image_bytes >> 20,
            available_mib: available_bytes >> 20,
        })
    }

    /// The bytes of `plan.json`.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self)
            .expect("a plan holds numbers, texts and lists, which JSON has words for");
        text.push('\n');
        text
    }

    /// The time objective of the last settle, in seconds.
    pub fn within_s(&self) -> Option<u64> {
        self.steps.iter().rev().find_map(|step| match step {
            Step::Settle(settle) => Some(settle.within_s),
            _ => None,
        })
    }

    /// What the checkers are told.
    pub fn facts(&self) -> Facts {
        let testbed = &self.testbed;
        let principals = testbed.principals.iter();
        let actions = principals.map(|(name, known)| (name.clone(), known.actions.clone()));
        Facts {
            nodes: testbed.nodes,
            drives: testbed.drives.iter().map(|drive| drive.name.clone()).collect(),
            set_drives: testbed.set_drives,
            parity: testbed.parity,
            survives_power_loss: testbed.durability == Durability::Strict,
            buckets: self.workload.buckets.clone(),
            principals: actions.collect(),
        }
    }

    /// The workload with those buckets alone that are there before the first step.
    pub fn workload_at_first(&self) -> WorkloadSpec {
        let mut workload = self.workload.clone();
        for step in &self.steps {
            if let Step::CreateBucket(on) = step {
                workload.buckets.remove(&on.bucket);
            }
        }
        workload
    }

    /// What each client of each load is going to ask, with the load's step.
    pub fn lists(&self) -> Vec<(usize, Vec<LaneList>)> {
        lists(&self.workload, &self.steps, &self.testbed, self.seed)
    }

    /// The fault that step `step` injects.
    pub fn fault_of(&self, step: usize) -> Option<(&PlannedFault, &Fault)> {
        let planned = self.faults.iter().find(|fault| fault.step == step)?;
        match self.steps.get(step) {
            Some(Step::Inject(fault)) => Some((planned, fault)),
            _ => None,
        }
    }
}

/// The lists of every load among `steps`.
fn lists(
    workload: &WorkloadSpec,
    steps: &[Step],
    testbed: &TestbedPlan,
    seed: Seed,
) -> Vec<(usize, Vec<LaneList>)> {
    let loads = steps.iter().enumerate().filter_map(|(index, step)| match step {
        Step::Load(load) => Some((index, load.clone())),
        _ => None,
    });
    let (places, loads): (Vec<usize>, Vec<LoadSpec>) = loads.unzip();
    let data_shards = (testbed.set_drives - testbed.parity) as u64;
    let seed = seed.split("workload");
    let lists = generator::lists(workload, &loads, Geometry { data_shards }, seed);
    places.into_iter().zip(lists).collect()
}

/// The cluster of a scenario, its drives named and numbered.
fn testbed(form: &TestbedForm, seed: Seed, overrides: Overrides) -> TestbedPlan {
    let drives = (0..form.nodes).flat_map(|node| {
        (0..form.drives).map(move |slot| {
            let name = format!("{node}/{slot}");
            let uuid = seed.uuid(&format!("drive {name}"));
            DrivePlan { name, node, slot, uuid }
        })
    });
    TestbedPlan {
        nodes: form.nodes,
        drives_per_node: form.drives,
        set_drives: form.set_drives(),
        parity: form.parity,
        filesystem: form.filesystem,
        drive_mib: form.drive_mib,
        durability: overrides.durability.unwrap_or(form.durability),
        rung: overrides.rung.unwrap_or(form.rung).max(form.rung),
        drives: drives.collect(),
        limits: form.node_limits.clone(),
        defects: form.defects.clone(),
        release: form.release,
        catalog: form.catalog.clone(),
        principals: form.principals.clone(),
    }
}

/// The faults of a scenario, numbered.
fn faults(form: &ScenarioForm) -> Vec<PlannedFault> {
    let injected = form.steps.iter().enumerate().filter_map(|(step, typed)| match typed {
        Step::Inject(fault) => Some((step, fault)),
        _ => None,
    });
    let numbered = (0..).zip(injected);
    let planned = numbered.map(|(number, (step, fault))| PlannedFault {
        fault: number,
        step,
        name: fault.name().to_owned(),
        at: fault.trigger().at,
        nth: fault.trigger().nth,
        nodes: fault.nodes(form.testbed.nodes),
        drives: fault.drives(),
    });
    planned.collect()
}

/// The cluster that a run builds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestbedPlan {
    /// Processes, one machine's worth each.
    pub nodes: usize,
    /// Drives of each node.
    pub drives_per_node: usize,
    /// Drives of one erasure set.
    pub set_drives: usize,
    /// Parity shards of an object.
    pub parity: usize,
    /// The file system of every drive.
    pub filesystem: Filesystem,
    /// Size of a drive's image in MiB.
    pub drive_mib: u64,
    /// What an acknowledgement promises.
    pub durability: Durability,
    /// What is real.
    pub rung: Rung,
    /// Every drive in pool order: node 0's slots, then node 1's.
    pub drives: Vec<DrivePlan>,
    /// Bounds and periods of the nodes.
    pub limits: Limits,
    /// Defects that every node plants.
    pub defects: Vec<Defect>,
    /// The table catalog of every node, until it is started with another.
    #[serde(default, skip_serializing_if = "CatalogConfig::is_default")]
    pub catalog: CatalogConfig,
    /// The release that every node behaves as, until it is started as another.
    #[serde(default, skip_serializing_if = "Release::is_current")]
    pub release: Release,
    /// Principals besides the one who may do everything, by their access keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub principals: BTreeMap<String, PrincipalForm>,
}

/// One drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrivePlan {
    /// `node/slot`, as every file of a run calls it.
    pub name: String,
    /// The node that owns it.
    pub node: usize,
    /// Its slot on that node, from 0.
    pub slot: usize,
    /// UUID of its file system.
    pub uuid: Uuid,
}

/// A file system that a drive can carry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Filesystem {
    /// ext4.
    #[default]
    Ext4,
    /// xfs, on machines that have its tools.
    Xfs,
}

/// How real a testbed is, from least to most.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rung {
    /// Protocol code over memory drives.
    Memory,
    /// Node processes over kernel file systems on loop devices.
    #[default]
    Loop,
    /// As `loop`, over a block device that may lose what was not flushed.
    Block,
    /// Guests with a kernel of their own.
    Vm,
}

impl TestbedPlan {
    /// Where the drive called `name` stands in [`TestbedPlan::drives`].
    pub fn drive(&self, name: &str) -> Option<&DrivePlan> {
        self.drives.iter().find(|drive| drive.name == name)
    }

    /// The drives of one node, in slot order.
    pub fn drives_of(&self, node: usize) -> impl Iterator<Item = &DrivePlan> {
        self.drives.iter().filter(move |drive| drive.node == node)
    }

    /// Bytes of all images.
    pub fn image_bytes(&self) -> u64 {
        (self.drives.len() as u64) * (self.drive_mib << 20)
    }
}

#[cfg(test)]
mod tests;
