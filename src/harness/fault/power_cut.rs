//! `power_cut`: nodes lose power. The page cache and the uncommitted journal of their drives are gone.
//!
//! In this order, because each step stops a leak that a real loss of power does not have: the lines fall
//! silent, every thread stops, the file systems are shut down without their log, the processes die, the
//! devices are detached (so that no cache survives) and attached again. What reached a device without a flush
//! stays: this rung cannot lose it, and the report says so.
//!
//! Evidence: on every drive a write of ours failed afterwards, and a file that we wrote just before and did
//! not flush is gone. Starts the nodes again and ends by itself.

use std::fs;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use futures::future::join_all;

use super::Injected;
use super::Miss;
use super::Scene;
use super::mounted_drives;
use super::names_of;
use super::probe;
use crate::harness::scenario::fault::Fault;
use crate::harness::scenario::fault::PowerCut;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::blocking;
use crate::harness::testbed::drives::Drives;
use crate::harness::testbed::lines::Rule;

pub(super) async fn inject(fault: &PowerCut, scene: &Scene<'_>) -> Injected {
    let testbed = scene.testbed;
    let nodes = Fault::PowerCut(fault.clone()).nodes(testbed.plan().nodes);
    let drives: Vec<usize> = nodes.iter().flat_map(|node| mounted_drives(testbed, *node)).collect();
    let names = names_of(testbed, &drives);
    let work = scene.work();
    let began = Instant::now();
    let isolate = nodes.iter().map(|node| Rule::Isolate { node: *node }).collect();
    testbed.network().lay(scene.id, isolate);
    // Whoever hangs in the kernel cannot be stopped, and does nothing either.
    join_all(nodes.iter().map(|node| testbed.freeze_node(*node))).await;
    let hardware = Arc::clone(testbed.hardware());
    let (cut_drives, id) = (drives.clone(), scene.id);
    let cut = blocking(move || cut_power(&hardware, &cut_drives, id)).await;
    let killed: Result<Vec<()>, _> =
        join_all(nodes.iter().map(|node| testbed.kill(*node))).await.into_iter().collect();
    testbed.network().lift(scene.id);
    let errors_seen = cut?;
    killed?;
    let hardware = Arc::clone(testbed.hardware());
    let back_drives = drives.clone();
    let lost = blocking(move || come_back(&hardware, &back_drives, id)).await?;
    let started = join_all(nodes.iter().map(|node| testbed.start(*node)));
    if errors_seen < drives.len() {
        started.await.into_iter().collect::<Result<Vec<()>, _>>()?;
        let missed = drives.len() - errors_seen;
        return Err(Miss::NotReached(format!("{missed} drives took a write after they were cut")));
    }
    let evidence = format!(
        "{errors_seen} of {} drives failed a write once they were cut; an unflushed file is gone from {lost}",
        drives.len()
    );
    scene.teller.injected_on(names, evidence);
    scene.sight("before the nodes start again").await?;
    started.await.into_iter().collect::<Result<Vec<()>, _>>()?;
    if let Some(hit) = work.went_on(scene.progress) {
        scene.teller.in_force(hit);
    }
    let ms = began.elapsed().as_millis();
    scene.teller.healed(format!("nodes {nodes:?} listen again {ms} ms after the cut"));
    Ok(None)
}

/// The file that is written and not flushed.
fn unflushed_path(hardware: &Drives, drive: usize, id: u64) -> PathBuf {
    hardware.root(drive).join(format!(".firedrill-power-cut-{id}"))
}

/// Shuts every file system down; answers on how many a write of ours failed then.
fn cut_power(hardware: &Drives, drives: &[usize], id: u64) -> Result<usize, TestbedError> {
    for drive in drives {
        hardware.thaw(*drive)?;
        // On a drive that is read-only or full already there is nothing to lose.
        let path = unflushed_path(hardware, *drive, id);
        let _ = File::create(&path).and_then(|mut file| file.write_all(b"not flushed"));
    }
    for drive in drives {
        hardware.shut_down(*drive)?;
    }
    let fails = |drive: &&usize| probe::write(&hardware.root(**drive)).is_err();
    Ok(drives.iter().filter(fails).count())
}

/// Detaches and attaches the drives; answers on how many the unflushed file is gone.
fn come_back(hardware: &Drives, drives: &[usize], id: u64) -> Result<usize, TestbedError> {
    let numbers = hardware.take_out(drives)?;
    let mut lost = 0;
    for (drive, number) in drives.iter().zip(numbers) {
        hardware.put_in(*drive, Some(number))?;
        let path = unflushed_path(hardware, *drive, id);
        if path.exists() {
            // Somebody else's flush committed it in between, as it does on real drives.
            fs::remove_file(&path).map_err(TestbedError::io("remove", &path))?;
        } else {
            lost += 1;
        }
    }
    Ok(lost)
}
