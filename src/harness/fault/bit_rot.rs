//! `bit_rot`: bytes of drives change without an error. The node is stopped while they are changed.
//!
//! Evidence: each file with the offset and the byte before and after. There is nothing to undo: whether it was
//! repaired is for the census to say.

use std::io;
use std::path::Path;

use rand::RngExt;
use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::Injected;
use super::Scene;
use super::rot_files;
use super::rot_files::Change;
use super::rot_files::Stretch;
use super::strike::Blow;
use super::strike::strike;
use crate::harness::scenario::fault::BitRot;
use crate::harness::scenario::fault::RotTarget;

pub(super) async fn inject(fault: &BitRot, scene: &Scene<'_>) -> Injected {
    let dice = SmallRng::seed_from_u64(scene.seed);
    let rot = Rot { target: fault.target, files: fault.files, dice };
    strike(rot, fault.node, &fault.drives, scene).await
}

/// One bit flips in each of so many files.
struct Rot {
    target: RotTarget,
    files: usize,
    dice: SmallRng,
}

impl Blow for Rot {
    /// Where, and the dice that decide which bit.
    type Change = (Stretch, u64);

    fn count(&self) -> usize {
        self.files
    }

    fn plan(&mut self, root: &Path) -> io::Result<Vec<Self::Change>> {
        let mut left = rot_files::stretches(root, self.target)?;
        let mut chosen: Vec<Self::Change> = Vec::new();
        while chosen.len() < self.files && !left.is_empty() {
            let stretch = left.swap_remove(self.dice.random_range(0..left.len()));
            if !chosen.iter().any(|(other, _)| other.file == stretch.file) {
                chosen.push((stretch, self.dice.random()));
            }
        }
        Ok(chosen)
    }

    fn apply((stretch, dice): Self::Change, root: &Path) -> io::Result<String> {
        let Change { file, offset, before, after } = rot_files::flip(root, &stretch, dice)?;
        let file = file.display();
        Ok(format!("{file} @ {offset}: {:02x} became {:02x}", before[0], after[0]))
    }

    fn shortfall(&self, name: &str, found: usize) -> String {
        let target = format!("{:?}", self.target).to_lowercase();
        format!("drive {name} holds {found} files for {target} where {} were asked", self.files)
    }
}
