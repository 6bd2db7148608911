//! `hang_writes`: writes to drives hang until healed; reads work.
//!
//! The file system is frozen, and the ledger says so before: whatever hangs in it can only die once it is
//! thawed. Evidence: a write of ours, in a child that nobody needs, which does not return.

use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use futures::future::FutureExt;
use tokio::time::Instant;
use tokio::time::sleep;

use super::Injected;
use super::Miss;
use super::Scene;
use super::Standing;
use super::drives_of;
use super::probe;
use crate::harness::scenario::fault::HangWrites;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::blocking;
use crate::harness::testbed::processes;

/// How long a write must not return.
const HANG_AT_LEAST: Duration = Duration::from_millis(200);
/// How long a child may take to come free after the thaw.
const FREE_PATIENCE: Duration = Duration::from_secs(5);
/// How often a child is looked at.
const LOOK_PERIOD: Duration = Duration::from_millis(2);

struct Hanging {
    /// Each drive with the child that hangs in it.
    drives: Vec<(usize, Child)>,
}

pub(super) async fn inject(fault: &HangWrites, scene: &Scene<'_>) -> Injected {
    let drives = drives_of(scene.testbed, fault.node, &fault.drives)?;
    let hardware = Arc::clone(scene.testbed.hardware());
    let frozen = blocking(move || {
        let mut frozen = Vec::new();
        for drive in drives {
            hardware.freeze(drive)?;
            frozen.push((drive, start_write(&hardware.root(drive))?));
        }
        Ok(frozen)
    });
    let mut standing = Hanging { drives: frozen.await? };
    let begun = Instant::now();
    while begun.elapsed() < HANG_AT_LEAST && standing.hanging() == standing.drives.len() {
        sleep(LOOK_PERIOD).await;
    }
    let hanging = standing.hanging();
    if hanging < standing.drives.len() {
        let returned = standing.drives.len() - hanging;
        standing.heal(scene.testbed).await?;
        return Err(Miss::NotReached(format!("{returned} writes of ours returned")));
    }
    let ms = HANG_AT_LEAST.as_millis();
    scene.teller.injected(format!("{hanging} writes of ours had not returned after {ms} ms"));
    Ok(Some(Box::new(standing)))
}

/// Begins a write that leaves nothing behind: the time stamp of the drive's root.
fn start_write(root: &Path) -> Result<Child, TestbedError> {
    let mut touch = Command::new("touch");
    touch.arg(root).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    touch.spawn().map_err(TestbedError::io("start touch on", root))
}

impl Hanging {
    /// How many of the writes hang in the kernel.
    fn hanging(&mut self) -> usize {
        let hangs = |(_, child): &mut (usize, Child)| {
            let pid = i32::try_from(child.id()).unwrap_or_default();
            let has_ended = child.try_wait().is_ok_and(|status| status.is_some());
            // Before it has come to its write it is somewhere else; it has not returned either way.
            !has_ended && processes::stat(pid).is_ok()
        };
        self.drives.iter_mut().map(hangs).filter(|hangs| *hangs).count()
    }
}

impl Standing for Hanging {
    fn measure<'a>(&'a mut self, _: &'a Arc<Testbed>) -> BoxFuture<'a, Option<String>> {
        async move {
            let hanging = self.hanging();
            (hanging > 0).then(|| format!("{hanging} writes of ours still hang"))
        }
        .boxed()
    }

    fn heal<'a>(
        &'a mut self,
        testbed: &'a Arc<Testbed>,
    ) -> BoxFuture<'a, Result<String, TestbedError>> {
        async move {
            let hardware = Arc::clone(testbed.hardware());
            let drives: Vec<usize> = self.drives.iter().map(|(drive, _)| *drive).collect();
            let thawing = Arc::clone(&hardware);
            let all = drives.clone();
            blocking(move || all.iter().try_for_each(|drive| thawing.thaw(*drive))).await?;
            let begun = Instant::now();
            while self.hanging() > 0 {
                if begun.elapsed() > FREE_PATIENCE {
                    let state = "a hanging write to come free".to_owned();
                    return Err(TestbedError::Late { state, waited: FREE_PATIENCE });
                }
                sleep(LOOK_PERIOD).await;
            }
            blocking(move || {
                for drive in drives.iter().filter(|drive| hardware.is_mounted(**drive)) {
                    let root = hardware.root(*drive);
                    probe::write(&root).map_err(TestbedError::io("write again on", &root))?;
                }
                Ok(format!("{} drives were thawed; the hanging writes returned", drives.len()))
            })
            .await
        }
        .boxed()
    }
}
