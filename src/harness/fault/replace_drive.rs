//! `replace_drive`: drives are taken out and blank ones, with other UUIDs, put in their place.
//!
//! Evidence: the UUID that is mounted there now, and that the new drive is empty. There is nothing to undo:
//! the new drives stay, and whether the redundancy came back is for the census to say.

use std::fs;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::future::FutureExt;

use super::Injected;
use super::Miss;
use super::Scene;
use super::Standing;
use super::drives_of;
use crate::harness::scenario::fault::ReplaceDrive;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::blocking;
use crate::harness::testbed::drives::Drives;

struct Replaced {
    drives: Vec<(usize, String)>,
}

pub(super) async fn inject(fault: &ReplaceDrive, scene: &Scene<'_>) -> Injected {
    let drives = drives_of(scene.testbed, fault.node, &fault.drives)?;
    let hardware = Arc::clone(scene.testbed.hardware());
    let replaced = blocking(move || replace(&hardware, &drives)).await?;
    let mut new = Vec::new();
    let mut words = Vec::new();
    for (drive, before, after, entries) in replaced {
        if before == after || entries > 0 {
            let why = format!("the drive that was put in has UUID {after} and {entries} entries");
            return Err(Miss::NotReached(why));
        }
        words.push(format!("UUID {before} was replaced by {after}, which is empty"));
        new.push((drive, after));
    }
    scene.teller.injected(words.join("; "));
    Ok(Some(Box::new(Replaced { drives: new })))
}

/// For each drive: the UUID before and after, and how many entries the new one has.
fn replace(
    hardware: &Drives,
    drives: &[usize],
) -> Result<Vec<(usize, String, String, usize)>, TestbedError> {
    let replace_one = |drive: &usize| {
        let before = match hardware.identity(*drive) {
            Ok(identity) => identity.uuid,
            Err(TestbedError::NoDrive { .. }) => "none".to_owned(),
            Err(error) => return Err(error),
        };
        hardware.replace(*drive)?;
        let root = hardware.root(*drive);
        let listed = fs::read_dir(&root).map_err(TestbedError::io("list", &root))?;
        // What mkfs makes, and what the node may already have made (it watches its mount points).
        let own = |name: &std::ffi::OsStr| name == "lost+found" || name == ".rustfs.sys";
        let entries = listed.flatten().filter(|entry| !own(&entry.file_name())).count();
        Ok((*drive, before, hardware.identity(*drive)?.uuid, entries))
    };
    drives.iter().map(replace_one).collect()
}

impl Standing for Replaced {
    fn measure<'a>(&'a mut self, testbed: &'a Arc<Testbed>) -> BoxFuture<'a, Option<String>> {
        async move {
            let is_there = |(drive, uuid): &(usize, String)| {
                testbed.hardware().identity(*drive).is_ok_and(|identity| identity.uuid == *uuid)
            };
            let all = self.drives.iter().all(is_there);
            all.then(|| format!("{} new drives are in their slots", self.drives.len()))
        }
        .boxed()
    }

    fn heal<'a>(&'a mut self, _: &'a Arc<Testbed>) -> BoxFuture<'a, Result<String, TestbedError>> {
        async move { Ok("the new drives stay".to_owned()) }.boxed()
    }
}
