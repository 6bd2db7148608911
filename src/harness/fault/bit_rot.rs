//! `bit_rot`: bytes of drives change without an error. The node is stopped while they are changed.
//!
//! Evidence: each file with the offset and the byte before and after. There is nothing to undo: whether it was
//! repaired is for the census to say.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::future::FutureExt;
use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::Injected;
use super::Miss;
use super::Scene;
use super::Standing;
use super::drives_of;
use super::names_of;
use super::rot_files;
use super::rot_files::Change;
use crate::harness::scenario::fault::BitRot;
use crate::harness::scenario::fault::RotTarget;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::blocking;
use crate::harness::testbed::drives::Drives;

/// Bytes that were changed on drives and that nobody changes back.
pub(super) struct Rotten {
    /// What was changed, in words.
    pub(super) words: String,
}

pub(super) async fn inject(fault: &BitRot, scene: &Scene<'_>) -> Injected {
    let (testbed, node) = (scene.testbed, fault.node);
    let drives = drives_of(testbed, node, &fault.drives)?;
    let names = names_of(testbed, &drives);
    let was_running = testbed.is_running(node);
    testbed.stop(node).await?;
    let (hardware, target, files, seed) =
        (Arc::clone(testbed.hardware()), fault.target, fault.files, scene.seed);
    let rotten = blocking(move || {
        let mut dice = SmallRng::seed_from_u64(seed);
        let rot_one = |drive: &usize| rot(&hardware, *drive, target, files, &mut dice);
        drives.iter().map(rot_one).collect::<Result<Vec<_>, _>>()
    })
    .await;
    if was_running {
        testbed.start(node).await?;
    }
    let rotten = rotten?;
    if let Some(position) = rotten.iter().position(|changes| changes.len() < files) {
        let (name, found) = (&names[position], rotten[position].len());
        let why =
            format!("drive {name} holds {found} files for {target:?} where {files} were asked");
        return Err(Miss::NotReached(why.to_lowercase()));
    }
    let describe = |(name, changes): (&String, &Vec<Change>)| {
        let words = changes.iter().map(|change| {
            let Change { file, offset, before, after } = change;
            let file = file.display();
            format!("{name}: {file} @ {offset}: {:02x} became {:02x}", before[0], after[0])
        });
        words.collect::<Vec<_>>().join("; ")
    };
    let words = names.iter().zip(&rotten).map(describe).collect::<Vec<_>>().join("; ");
    scene.teller.injected(words.clone());
    Ok(Some(Box::new(Rotten { words })))
}

/// Flips one bit in each of so many files of a drive, fewer when it does not hold as many.
fn rot(
    hardware: &Drives,
    drive: usize,
    target: RotTarget,
    files: usize,
    dice: &mut SmallRng,
) -> Result<Vec<Change>, TestbedError> {
    let root = hardware.root(drive);
    let mut left =
        rot_files::stretches(&root, target).map_err(TestbedError::io("search", &root))?;
    let mut changes: Vec<Change> = Vec::new();
    while changes.len() < files && !left.is_empty() {
        let stretch = left.swap_remove(dice.random_range(0..left.len()));
        if changes.iter().any(|change| change.file == stretch.file) {
            continue;
        }
        let change = rot_files::flip(&root, &stretch, dice.random());
        changes.push(change.map_err(TestbedError::io("change", root.join(&stretch.file)))?);
    }
    Ok(changes)
}

impl Standing for Rotten {
    fn measure<'a>(&'a mut self, _: &'a Arc<Testbed>) -> BoxFuture<'a, Option<String>> {
        async move { Some(self.words.clone()) }.boxed()
    }

    fn heal<'a>(&'a mut self, _: &'a Arc<Testbed>) -> BoxFuture<'a, Result<String, TestbedError>> {
        async move { Ok("nothing is changed back: repair is the cluster's".to_owned()) }.boxed()
    }
}
