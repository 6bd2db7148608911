//! How fast drives are provisioned: the figures of `firedrill bench`.

use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use uuid::Uuid;

use super::RunContext;
use super::Testbed;
use super::TestbedError;
use crate::harness::scenario::plan::DrivePlan;
use crate::harness::scenario::plan::Filesystem;
use crate::harness::scenario::plan::Rung;
use crate::harness::scenario::plan::TestbedPlan;
use crate::protocol::config::Durability;
use crate::protocol::config::Limits;
use crate::protocol::config::Release;

/// What provisioning took: whole testbeds without nodes, from nothing to mounted drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProvisionFigures {
    /// How often each was done.
    pub rounds: usize,
    /// Median of one drive.
    pub one_drive: Duration,
    /// Median of sixteen drives.
    pub sixteen_drives: Duration,
    /// Median of taking sixteen drives away.
    pub teardown: Duration,
}

/// A plan of one node with so many drives, for tests and measurements of the testbed alone.
pub fn plan_of(nodes: usize, drives: usize, filesystem: Filesystem, drive_mib: u64) -> TestbedPlan {
    let drive = |index: usize| DrivePlan {
        name: format!("{}/{}", index / drives, index % drives),
        node: index / drives,
        slot: index % drives,
        uuid: Uuid::from_u128(0x6669_7265_0000_4000_8000_0000_0000_0000 + index as u128),
    };
    TestbedPlan {
        nodes,
        drives_per_node: drives,
        set_drives: nodes * drives,
        parity: nodes * drives / 2,
        filesystem,
        drive_mib,
        durability: Durability::Strict,
        rung: Rung::Loop,
        drives: (0..nodes * drives).map(drive).collect(),
        limits: Limits::default(),
        defects: Vec::new(),
        release: Release::Current,
        catalog: Default::default(),
        principals: Default::default(),
    }
}

/// Provisions and tears down, `rounds` times each. `directory` takes the ledgers.
///
/// # Errors
/// As provisioning has them.
pub async fn provision(
    directory: &Path,
    drive_mib: u64,
    rounds: usize,
) -> Result<ProvisionFigures, TestbedError> {
    let context = RunContext {
        name: format!("bench-{}", std::process::id()),
        directory: directory.to_owned(),
        program: "/bin/false".into(),
        events: std::sync::Arc::new(|_| {}),
    };
    let (mut one, mut sixteen, mut teardown) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        for (drives, figures) in [(1, &mut one), (16, &mut sixteen)] {
            let plan = plan_of(1, drives, Filesystem::Ext4, drive_mib);
            let begun = Instant::now();
            let testbed = Testbed::provision(&plan, &context).await?;
            figures.push(begun.elapsed());
            let begun = Instant::now();
            testbed.teardown().await?;
            if drives == 16 {
                teardown.push(begun.elapsed());
            }
        }
    }
    Ok(ProvisionFigures {
        rounds,
        one_drive: median(&mut one),
        sixteen_drives: median(&mut sixteen),
        teardown: median(&mut teardown),
    })
}

/// The middle of what was measured; the later one of two.
fn median(figures: &mut [Duration]) -> Duration {
    figures.sort_unstable();
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}
