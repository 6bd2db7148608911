//! `swap_shards`: two shards that verify are exchanged, on one drive, between two objects of the same size.
//!
//! Each frame still carries its own hash: only a comparison with the other shards, or with the object's own
//! checksum, can tell. The node is stopped meanwhile. Evidence: the two files, and digests before and after.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use super::Injected;
use super::Scene;
use super::rot_files;
use super::rot_files::Stretch;
use super::strike::Blow;
use super::strike::strike;
use crate::harness::scenario::fault::RotTarget;
use crate::harness::scenario::fault::SwapShards;
use crate::value::Digest;

pub(super) async fn inject(fault: &SwapShards, scene: &Scene<'_>) -> Injected {
    strike(Swap { seed: scene.seed }, fault.node, &fault.drives, scene).await
}

/// Two shards of each drive change places.
struct Swap {
    seed: u64,
}

impl Blow for Swap {
    /// Two stretches of one length with different bytes.
    type Change = (Stretch, Stretch);

    fn count(&self) -> usize {
        1
    }

    fn plan(&mut self, root: &Path) -> io::Result<Vec<Self::Change>> {
        let mut by_length: BTreeMap<u64, Vec<Stretch>> = BTreeMap::new();
        for target in [RotTarget::Part, RotTarget::Inline] {
            for stretch in rot_files::stretches(root, target)? {
                by_length.entry(stretch.length).or_default().push(stretch);
            }
        }
        let rows: Vec<Vec<Stretch>> = by_length.into_values().filter(|row| row.len() > 1).collect();
        for step in 0..rows.len() {
            let row = &rows[(self.seed as usize).wrapping_add(step) % rows.len()];
            let first = &row[0];
            let bytes = rot_files::read(root, first)?;
            for other in row[1..].iter().filter(|other| other.file != first.file) {
                if rot_files::read(root, other)? != bytes {
                    return Ok(vec![(first.clone(), other.clone())]);
                }
            }
        }
        Ok(Vec::new())
    }

    fn apply((first, other): Self::Change, root: &Path) -> io::Result<String> {
        let bytes = rot_files::read(root, &first)?;
        rot_files::exchange(root, &first, &other)?;
        let now = Digest::of(&rot_files::read(root, &other)?);
        assert_eq!(now, Digest::of(&bytes), "the shards were not exchanged");
        let (one, two) = (first.file.display(), other.file.display());
        let words = format!("{one} @ {} and {two} @ {}", first.offset, other.offset);
        Ok(format!("{words} exchanged their {} bytes", first.length))
    }

    fn shortfall(&self, name: &str, _: usize) -> String {
        format!("drive {name} holds no two different shards of one size")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_shards_of_one_size_that_differ_are_exchanged() {
        let drive = tempfile::tempdir().unwrap();
        let put = |key: &str, bytes: &[u8]| {
            let folder = drive.path().join("b").join(key).join("data");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("part.1"), bytes).unwrap();
        };
        put("a", &[1; 50]);
        put("b", &[1; 50]);
        put("c", &[2; 51]);
        let mut swap = Swap { seed: 3 };
        assert_eq!(swap.plan(drive.path()).unwrap(), []);
        put("d", &[3; 51]);
        let change = swap.plan(drive.path()).unwrap().remove(0);
        let words = Swap::apply(change, drive.path()).unwrap();
        assert!(words.contains("b/c/") && words.contains("b/d/"), "{words}");
        assert_eq!(fs::read(drive.path().join("b/c/data/part.1")).unwrap(), [3; 51]);
        assert_eq!(fs::read(drive.path().join("b/d/data/part.1")).unwrap(), [2; 51]);
    }
}
