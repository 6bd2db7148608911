//! `return_drive`: pulled drives come back as they were when they vanished.
//!
//! Evidence: their UUIDs are mounted at the node's paths again. There is nothing to undo.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::future::FutureExt;

use super::Injected;
use super::Miss;
use super::Scene;
use super::Standing;
use super::drives_of;
use super::names_of;
use crate::harness::scenario::fault::ReturnDrive;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::blocking;

struct Returned {
    drives: Vec<usize>,
}

pub(super) async fn inject(fault: &ReturnDrive, scene: &Scene<'_>) -> Injected {
    let drives = drives_of(scene.testbed, fault.node, &fault.drives)?;
    let hardware = scene.testbed.hardware();
    if let Some(there) = drives.iter().find(|drive| hardware.is_mounted(**drive)) {
        let name = names_of(scene.testbed, &[*there]).join("");
        return Err(Miss::NotReached(format!("drive {name} had not been pulled")));
    }
    let (putting, all) = (Arc::clone(hardware), drives.clone());
    blocking(move || all.iter().try_for_each(|drive| putting.put_in(*drive, None))).await?;
    let mut words = Vec::new();
    for drive in &drives {
        words.push(format!("back as {}", hardware.identity(*drive)?));
    }
    scene.teller.injected(words.join("; "));
    Ok(Some(Box::new(Returned { drives })))
}

impl Standing for Returned {
    fn measure<'a>(&'a mut self, testbed: &'a Arc<Testbed>) -> BoxFuture<'a, Option<String>> {
        async move {
            let all = self.drives.iter().all(|drive| testbed.hardware().is_mounted(*drive));
            all.then(|| format!("{} returned drives are in their slots", self.drives.len()))
        }
        .boxed()
    }

    fn heal<'a>(&'a mut self, _: &'a Arc<Testbed>) -> BoxFuture<'a, Result<String, TestbedError>> {
        async move { Ok("the returned drives stay".to_owned()) }.boxed()
    }
}
