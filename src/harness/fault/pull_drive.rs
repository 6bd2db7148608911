//! `pull_drive`: drives vanish under their running node; what they had not flushed is lost.
//!
//! The file system is shut down without its log, the image copied as it is then, the mount lazily detached: the
//! node's path is a bare directory from then on, and its open files are dead. Evidence: the node's path lies on
//! the same file system as its parent. Healed by putting the copy in.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::future::FutureExt;

use super::Injected;
use super::Miss;
use super::Scene;
use super::Standing;
use super::drives_of;
use super::names_of;
use crate::harness::scenario::fault::PullDrive;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::blocking;
use crate::harness::testbed::drives::Drives;

struct Pulled {
    drives: Vec<usize>,
}

pub(super) async fn inject(fault: &PullDrive, scene: &Scene<'_>) -> Injected {
    let drives = drives_of(scene.testbed, fault.node, &fault.drives)?;
    let hardware = scene.testbed.hardware();
    if let Some(out) = drives.iter().find(|drive| !hardware.is_mounted(**drive)) {
        let name = names_of(scene.testbed, &[*out]).join("");
        return Err(Miss::NotReached(format!("drive {name} was out already")));
    }
    let (pulling, all) = (Arc::clone(hardware), drives.clone());
    blocking(move || all.iter().try_for_each(|drive| pulling.pull(*drive))).await?;
    let bare = bare_paths(hardware, &drives)?;
    if bare < drives.len() {
        let still = drives.len() - bare;
        return Err(Miss::NotReached(format!("the node still sees {still} of the drives")));
    }
    scene.teller.injected(format!("the node sees bare directories in the place of {bare} drives"));
    Ok(Some(Box::new(Pulled { drives })))
}

/// How many of the drives' paths are bare directories for their node.
pub(super) fn bare_paths(hardware: &Drives, drives: &[usize]) -> Result<usize, TestbedError> {
    let is_bare = |root: &Path| -> io::Result<bool> {
        let parent = root.parent().unwrap_or(root);
        Ok(root.metadata()?.dev() == parent.metadata()?.dev())
    };
    let mut bare = 0;
    for drive in drives {
        let root = hardware.root(*drive);
        let look = hardware.as_node(*drive, is_bare);
        bare += usize::from(look.map_err(TestbedError::io("look at", &root))?);
    }
    Ok(bare)
}

/// The drives that are out.
fn out(hardware: &Drives, drives: &[usize]) -> Vec<usize> {
    drives.iter().copied().filter(|drive| !hardware.is_mounted(*drive)).collect()
}

impl Standing for Pulled {
    fn measure<'a>(&'a mut self, testbed: &'a Arc<Testbed>) -> BoxFuture<'a, Option<String>> {
        async move {
            let hardware = testbed.hardware();
            let out = out(hardware, &self.drives);
            let bare = bare_paths(hardware, &out).unwrap_or(0);
            (bare > 0).then(|| format!("the node sees {bare} bare directories"))
        }
        .boxed()
    }

    fn heal<'a>(
        &'a mut self,
        testbed: &'a Arc<Testbed>,
    ) -> BoxFuture<'a, Result<String, TestbedError>> {
        async move {
            let hardware = Arc::clone(testbed.hardware());
            let back = out(&hardware, &self.drives);
            let count = back.len();
            blocking(move || back.iter().try_for_each(|drive| hardware.put_in(*drive, None)))
                .await?;
            Ok(format!("{count} drives are mounted again as they were when they vanished"))
        }
        .boxed()
    }
}
