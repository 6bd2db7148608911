//! `swap_shards`: two shards that verify are exchanged, on one drive, between two objects of the same size.
//!
//! Each frame still carries its own hash: only a comparison with the other shards, or with the object's own
//! checksum, can tell. The node is stopped meanwhile. Evidence: the two files, and digests before and after.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::Injected;
use super::Miss;
use super::Scene;
use super::bit_rot::Rotten;
use super::drives_of;
use super::names_of;
use super::rot_files;
use super::rot_files::Stretch;
use crate::harness::scenario::fault::RotTarget;
use crate::harness::scenario::fault::SwapShards;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::blocking;
use crate::value::Digest;

pub(super) async fn inject(fault: &SwapShards, scene: &Scene<'_>) -> Injected {
    let (testbed, node) = (scene.testbed, fault.node);
    let drives = drives_of(testbed, node, &fault.drives)?;
    let names = names_of(testbed, &drives);
    let was_running = testbed.is_running(node);
    testbed.stop(node).await?;
    let (hardware, seed) = (Arc::clone(testbed.hardware()), scene.seed);
    let swapped = blocking(move || {
        let swap_one = |drive: &usize| {
            let root = hardware.root(*drive);
            swap(&root, seed).map_err(TestbedError::io("exchange shards on", &root))
        };
        drives.iter().map(swap_one).collect::<Result<Vec<_>, _>>()
    })
    .await;
    if was_running {
        testbed.start(node).await?;
    }
    let swapped = swapped?;
    if let Some(position) = swapped.iter().position(Option::is_none) {
        let name = &names[position];
        let why = format!("drive {name} holds no two different shards of one size");
        return Err(Miss::NotReached(why));
    }
    let words = names.iter().zip(swapped.iter().flatten());
    let words =
        words.map(|(name, words)| format!("{name}: {words}")).collect::<Vec<_>>().join("; ");
    scene.teller.injected(words.clone());
    Ok(Some(Box::new(Rotten { words })))
}

/// Exchanges two shards of a drive; `None` when it holds no two of one size that differ.
fn swap(root: &Path, seed: u64) -> std::io::Result<Option<String>> {
    let mut by_length: BTreeMap<u64, Vec<Stretch>> = BTreeMap::new();
    for target in [RotTarget::Part, RotTarget::Inline] {
        for stretch in rot_files::stretches(root, target)? {
            by_length.entry(stretch.length).or_default().push(stretch);
        }
    }
    let rows: Vec<Vec<Stretch>> = by_length.into_values().filter(|row| row.len() > 1).collect();
    for step in 0..rows.len() {
        let row = &rows[(seed as usize).wrapping_add(step) % rows.len()];
        let first = &row[0];
        let bytes = rot_files::read(root, first)?;
        for other in row[1..].iter().filter(|other| other.file != first.file) {
            if rot_files::read(root, other)? == bytes {
                continue;
            }
            rot_files::exchange(root, first, other)?;
            let now = Digest::of(&rot_files::read(root, other)?);
            assert_eq!(now, Digest::of(&bytes), "the shards were not exchanged");
            let (one, two) = (first.file.display(), other.file.display());
            let words = format!("{one} @ {} and {two} @ {}", first.offset, other.offset);
            return Ok(Some(format!("{words} exchanged their {} bytes", first.length)));
        }
    }
    Ok(None)
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
        assert_eq!(swap(drive.path(), 3).unwrap(), None);
        put("d", &[3; 51]);
        let words = swap(drive.path(), 3).unwrap().unwrap();
        assert!(words.contains("b/c/") && words.contains("b/d/"), "{words}");
        assert_eq!(fs::read(drive.path().join("b/c/data/part.1")).unwrap(), [3; 51]);
        assert_eq!(fs::read(drive.path().join("b/d/data/part.1")).unwrap(), [2; 51]);
    }
}
