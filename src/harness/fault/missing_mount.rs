//! `missing_mount`: one node starts while mounts of drives are missing: the bare directories are there.
//!
//! Evidence: the node's path is a bare directory when it starts, and what lies in it when the mount comes back:
//! not one byte may have appeared there, and whatever did is noted for the verdict. Healed by mounting, under
//! the running node.

use std::fs;
use std::io;
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
use super::pull_drive::bare_paths;
use crate::harness::scenario::fault::MissingMount;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::blocking;
use crate::harness::workload::history::Event;
use crate::harness::workload::history::Note;

struct Missing {
    drives: Vec<usize>,
}

pub(super) async fn inject(fault: &MissingMount, scene: &Scene<'_>) -> Injected {
    let (testbed, node) = (scene.testbed, fault.node);
    let drives = drives_of(testbed, node, &fault.drives)?;
    testbed.stop(node).await?;
    let (hardware, all) = (Arc::clone(testbed.hardware()), drives.clone());
    blocking(move || all.iter().try_for_each(|drive| hardware.unmount(*drive))).await?;
    let bare = bare_paths(testbed.hardware(), &drives)?;
    let standing = Missing { drives };
    let before = standing.entries_below(testbed)?;
    if bare < standing.drives.len() || before.iter().any(|entries| *entries > 0) {
        return Err(Miss::NotReached(format!("only {bare} paths are bare and empty directories")));
    }
    testbed.start(node).await?;
    scene.teller.injected(format!("node {node} started on {bare} bare, empty directories"));
    Ok(Some(Box::new(standing)))
}

/// Files and folders below a directory.
fn entries_below(root: &Path) -> io::Result<u64> {
    let mut count = 0;
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        count += 1;
        if entry.file_type()?.is_dir() {
            count += entries_below(&entry.path())?;
        }
    }
    Ok(count)
}

impl Missing {
    /// What lies below each bare directory, as the node sees it.
    fn entries_below(&self, testbed: &Testbed) -> Result<Vec<u64>, TestbedError> {
        let hardware = testbed.hardware();
        let count = |drive: &usize| {
            let root = hardware.root(*drive);
            hardware.as_node(*drive, entries_below).map_err(TestbedError::io("list", root))
        };
        self.drives.iter().map(count).collect()
    }
}

impl Standing for Missing {
    fn measure<'a>(&'a mut self, testbed: &'a Arc<Testbed>) -> BoxFuture<'a, Option<String>> {
        async move {
            let bare = bare_paths(testbed.hardware(), &self.drives).unwrap_or(0);
            (bare > 0).then(|| format!("{bare} mounts are still missing"))
        }
        .boxed()
    }

    fn heal<'a>(
        &'a mut self,
        testbed: &'a Arc<Testbed>,
    ) -> BoxFuture<'a, Result<String, TestbedError>> {
        async move {
            let entries = self.entries_below(testbed)?;
            for (drive, entries) in names_of(testbed, &self.drives).into_iter().zip(&entries) {
                let note = Note::BelowMountPoint { drive, entries: *entries };
                (testbed.context().events)(Event::Noted(note));
            }
            let (hardware, all) = (Arc::clone(testbed.hardware()), self.drives.clone());
            blocking(move || all.iter().try_for_each(|drive| hardware.mount_again(*drive))).await?;
            let total: u64 = entries.iter().sum();
            let count = self.drives.len();
            Ok(format!("{count} drives are mounted again; {total} entries had appeared below them"))
        }
        .boxed()
    }
}
