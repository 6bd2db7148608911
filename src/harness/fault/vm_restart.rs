//! `vm_restart`: every process of one node dies and its drives are mounted anew, as after a restart of the
//! machine. Loses nothing that was written. Starts the node again and ends by itself.
//!
//! The kernel hands out loop numbers and mount ids again as soon as they are free. For `mounts: changed` the old
//! numbers stay unused, or are exchanged, and the old ids are parked under placeholders. Evidence: the identity of every drive,
//! read as its node sees it before and after; what came back the same is tried again, five times at most.

use std::time::Instant;

use futures::future::TryFutureExt;

use super::Injected;
use super::Miss;
use super::Scene;
use super::mounted_drives;
use super::names_of;
use crate::harness::scenario::fault::DriveOrder;
use crate::harness::scenario::fault::Mounts;
use crate::harness::scenario::fault::VmRestart;
use crate::harness::testbed::Identity;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::blocking;
use crate::harness::testbed::drives::Drives;
use crate::harness::testbed::lines::Rule;

/// How often the drives are mounted anew until every identity has changed.
const TRIES_MAX: usize = 5;

pub(super) async fn inject(fault: &VmRestart, scene: &Scene<'_>) -> Injected {
    let (testbed, node) = (scene.testbed, fault.node);
    let drives = mounted_drives(testbed, node);
    let names = names_of(testbed, &drives);
    let hardware = testbed.hardware();
    let before = identities(hardware, &drives)?;
    let work = scene.work();
    let began = Instant::now();
    // A machine that goes down says nothing to anybody, and nothing hangs in it.
    testbed.network().lay(scene.id, vec![Rule::Isolate { node }]);
    let killed = async {
        let thawed = std::sync::Arc::clone(hardware);
        let all = drives.clone();
        blocking(move || all.into_iter().try_for_each(|drive| thawed.thaw(drive))).await?;
        testbed.kill(node).await
    };
    killed.inspect_err(|_| testbed.network().lift(scene.id)).await?;
    testbed.network().lift(scene.id);
    let after = match fault.mounts {
        Mounts::Same => identities(hardware, &drives)?,
        Mounts::Changed => {
            let (hardware, drives, before, order) =
                (std::sync::Arc::clone(hardware), drives.clone(), before.clone(), fault.order);
            blocking(move || change_mounts(&hardware, &drives, &before, order)).await?
        }
    };
    let is_as_meant = |pair: &(&Identity, &Identity)| match fault.mounts {
        Mounts::Same => pair.0 == pair.1,
        Mounts::Changed => is_changed(pair.0, pair.1),
    };
    let pairs: Vec<_> = before.iter().zip(&after).collect();
    let evidence = names.iter().zip(&pairs).map(|(name, (old, new))| {
        let differences = old.differences(new);
        if differences.is_empty() {
            format!("{name} unchanged: {new}")
        } else {
            format!("{name}: {old} became {new} ({} differ)", differences.join(", "))
        }
    });
    let evidence = evidence.collect::<Vec<_>>().join("; ");
    let missed = pairs.iter().any(|pair| !is_as_meant(pair));
    if missed {
        start(scene, node).await?;
        return Err(Miss::NotReached(format!("after {TRIES_MAX} tries: {evidence}")));
    }
    let changed = if fault.mounts == Mounts::Changed { names } else { Vec::new() };
    scene.teller.injected_on(changed, evidence);
    scene.sight("before the node starts again").await?;
    start(scene, node).await?;
    if let Some(hit) = work.went_on(scene.progress) {
        scene.teller.in_force(hit);
    }
    let ms = began.elapsed().as_millis();
    scene.teller.healed(format!("node {node} listens again {ms} ms after it went down"));
    Ok(None)
}

async fn start(scene: &Scene<'_>, node: usize) -> Result<(), TestbedError> {
    if scene.testbed.is_running(node) { Ok(()) } else { scene.testbed.start(node).await }
}

fn identities(hardware: &Drives, drives: &[usize]) -> Result<Vec<Identity>, TestbedError> {
    drives.iter().map(|drive| hardware.identity(*drive)).collect()
}

/// Whether a drive came back under another device and another mount id.
fn is_changed(before: &Identity, after: &Identity) -> bool {
    before.device != after.device
        && before.st_dev != after.st_dev
        && before.mount_id != after.mount_id
}

/// Takes the drives out and puts them in again until every identity has changed, or five times.
fn change_mounts(
    hardware: &Drives,
    drives: &[usize],
    before: &[Identity],
    order: DriveOrder,
) -> Result<Vec<Identity>, TestbedError> {
    let highest = before.iter().map(|identity| identity.mount_id).max().unwrap_or_default();
    let mut parked = Vec::new();
    let mut numbers = Vec::new();
    let mut after = Vec::new();
    for _ in 0..TRIES_MAX {
        let taken_out = hardware.take_out(drives)?;
        if numbers.is_empty() {
            numbers = taken_out;
        }
        parked.push(hardware.park_mount_ids(highest)?);
        for (position, drive) in drives.iter().enumerate() {
            hardware.put_in(*drive, exchanged(order, position, &numbers))?;
        }
        after = identities(hardware, drives)?;
        if before.iter().zip(&after).all(|(old, new)| is_changed(old, new)) {
            break;
        }
    }
    drop(parked);
    Ok(after)
}

/// The old number that the drive at `position` comes back on; `None` for a new one.
fn exchanged(order: DriveOrder, position: usize, numbers: &[u32]) -> Option<u32> {
    let other = match order {
        DriveOrder::Kept => return None,
        DriveOrder::Exchanged => 1_usize.checked_sub(position)?,
        DriveOrder::Reversed => numbers.len() - 1 - position,
    };
    // The drive in the middle of a reversed row needs a new number to differ.
    if other == position { None } else { numbers.get(other).copied() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanged_numbers_are_used_once_each_and_never_by_their_own_drive() {
        for count in 1..6 {
            let numbers: Vec<u32> = (0..count).map(|number| 300 + number).collect();
            for order in [DriveOrder::Kept, DriveOrder::Exchanged, DriveOrder::Reversed] {
                let given = |position| exchanged(order, position, &numbers);
                let mut seen = std::collections::BTreeSet::new();
                for (position, own) in numbers.iter().enumerate() {
                    assert_ne!(given(position), Some(*own), "{order:?} of {count}");
                    assert!(given(position).is_none_or(|number| seen.insert(number)));
                }
            }
        }
    }
}
