//! The strong snapshot and the fences on the drives: looked at between steps, kept, put back and removed by a hand.
//!
//! Nobody but the nodes writes there otherwise. A copy is that of every drive as it lies there, so that what is put
//! back is byte for byte what some node has written.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use serde_json::Value;
use tokio::time;

use super::life::Life;
use super::life::Trouble;
use crate::disk::layout;
use crate::harness::audit::census::CatalogCensus;
use crate::harness::operator::catalog::keep::held;
use crate::harness::scenario::catalog::Hand;
use crate::harness::scenario::catalog::Holds;
use crate::harness::testbed::DrivePlace;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::blocking;
use crate::harness::workload::catalog::CatalogSeen;
use crate::harness::workload::catalog::FenceSeen;
use crate::harness::workload::catalog::Handled;
use crate::harness::workload::catalog::HandledHow;
use crate::harness::workload::history::Event;
use crate::harness::workload::history::Note;
use crate::value::Digest;

/// How long drives may take to hold what they have to: what was left unknown is decided by healing.
const HOLDING_PATIENCE: Duration = Duration::from_secs(20);
/// How often they are looked at.
const HOLDING_PERIOD: Duration = Duration::from_millis(200);

/// The folder of the strong snapshot on a drive.
const SNAPSHOT: &str = ".rustfs.sys/s3tables/catalog/strong-backing/snapshot.json";
/// The end of its key.
const SNAPSHOT_KEY: &str = "/strong-backing/snapshot.json";
/// The end of the registry fence's key.
const REGISTRY_KEY: &str = "/durable-strong-global-fence.json";
/// The end of the key of a warehouse's fence.
const FENCE_KEY: &str = "/durable-strong-fence.json";

/// The files of one drive, by their paths below the snapshot's folder.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// What a hand has copied, and what was last seen.
#[derive(Debug, Default)]
pub struct Kept {
    /// By the copy's name, by drive.
    copies: BTreeMap<String, BTreeMap<String, Files>>,
    seen: Option<CatalogSeen>,
}

impl Life<'_> {
    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.tables.hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn mounted(&self) -> Vec<DrivePlace> {
        self.testbed.drives().into_iter().filter(|drive| drive.mounted).collect()
    }

    /// What the drives hold now; `None` when nobody can tell.
    async fn look_at_catalog(&self) -> Result<Option<CatalogSeen>, Trouble> {
        let _still = self.injector.still().await;
        let roots: Vec<PathBuf> = self.mounted().into_iter().map(|drive| drive.root).collect();
        // A drive that was taken out, or is blank, tells nothing: then nothing is seen, and that is no failure.
        let read = blocking(move || Ok(held::migrations(&roots).ok().flatten())).await?;
        Ok(read.and_then(|census| seen(&census)))
    }

    /// Notes what the drives hold, if that is not what they held before.
    pub(super) async fn see_catalog(&self) -> Result<Option<CatalogSeen>, Trouble> {
        let now = self.look_at_catalog().await?;
        let is_new = now.is_some() && self.kept().seen != now;
        if let Some(seen) = now.as_ref().filter(|_| is_new) {
            self.kept().seen.clone_from(&now);
            self.recorder.record(Event::Noted(Note::CatalogSeen(seen.clone())));
        }
        Ok(now)
    }

    /// Waits until the drives hold what they have to.
    pub(super) async fn hold_drives(&self, holds: &Holds) -> Result<(), Trouble> {
        let waiting_for = "the drives to hold what they have to of the catalog";
        self.waiting.on_the_cluster(waiting_for);
        let began = Instant::now();
        loop {
            let now = self.see_catalog().await?;
            if now.as_ref().is_some_and(|now| does_hold(holds, now)) {
                return Ok(());
            }
            if began.elapsed() > HOLDING_PATIENCE {
                let reason = format!("they hold {now:?} instead of {holds:?}");
                return Err(Trouble::Stuck { waiting_for: waiting_for.to_owned(), reason });
            }
            // Drives have no way to call us, so they are looked at.
            time::sleep(HOLDING_PERIOD).await;
        }
    }

    /// Does to the snapshot what a hand does.
    pub(super) async fn lay_hand(&self, hand: &Hand) -> Result<(), Trouble> {
        self.waiting.on_ourselves("a hand on the strong snapshot");
        let _still = self.injector.still().await;
        let drives = self.mounted();
        let nodes = 0..self.plan.testbed.nodes;
        let running: Vec<usize> = nodes.filter(|node| self.testbed.is_running(*node)).collect();
        let (what, copy, files) = match hand {
            Hand::Keep(name) => {
                let copied = blocking(move || copy_of(&drives)).await?;
                let files = count(&copied);
                self.kept().copies.insert(name.clone(), copied);
                (HandledHow::Kept, name.clone(), files)
            }
            Hand::PutBack(name) => {
                let copied = self.kept().copies.get(name).cloned().unwrap_or_default();
                let files = count(&copied);
                blocking(move || replace(&drives, &copied)).await?;
                (HandledHow::PutBack, name.clone(), files)
            }
            Hand::Remove(_) => {
                let files = blocking(move || {
                    let there = count(&copy_of(&drives)?);
                    replace(&drives, &BTreeMap::new())?;
                    Ok(there)
                });
                (HandledHow::Removed, String::new(), files.await?)
            }
        };
        let handled = Handled { what, copy, files, running };
        self.recorder.record(Event::Noted(Note::Snapshot(handled)));
        if files == 0 {
            let waiting_for = "a strong snapshot to lay a hand on".to_owned();
            let reason = "no drive holds one".to_owned();
            return Err(Trouble::Stuck { waiting_for, reason });
        }
        Ok(())
    }
}

fn count(copied: &BTreeMap<String, Files>) -> u64 {
    copied.values().map(|files| files.len() as u64).sum()
}

/// What a census tells in short; `None` when something of it cannot be read.
fn seen(census: &CatalogCensus) -> Option<CatalogSeen> {
    if !census.unreadable.is_empty() {
        return None;
    }
    let mut seen = CatalogSeen::default();
    for (key, text) in &census.objects {
        let record: Value = serde_json::from_str(text).ok()?;
        if key.ends_with(SNAPSHOT_KEY) {
            seen.snapshot = Some(u32::try_from(record.get("version")?.as_u64()?).ok()?);
            seen.digest = Some(Digest::of(text.as_bytes()));
        } else if key.ends_with(REGISTRY_KEY) {
            seen.registry_fence = true;
        } else if key.ends_with(FENCE_KEY) {
            let text = |name: &str| Some(record.get(name)?.as_str()?.to_owned());
            let (bucket, status) = (text("table_bucket")?, text("status")?);
            seen.fences.push(FenceSeen { bucket, status });
        }
    }
    Some(seen)
}

/// Whether what is seen is what has to be.
fn does_hold(holds: &Holds, seen: &CatalogSeen) -> bool {
    let fence = |bucket: &String| seen.fences.iter().find(|fence| fence.bucket == *bucket);
    let fences = holds.warehouse.as_ref().zip(holds.fence);
    holds.snapshot.is_none_or(|snapshot| snapshot.is(seen.snapshot))
        && holds.registry_fence.is_none_or(|is_up| is_up == seen.registry_fence)
        && fences.is_none_or(|(bucket, held)| held.is(fence(bucket)))
}

/// The snapshot's files on every drive; a drive without any is left out.
fn copy_of(drives: &[DrivePlace]) -> Result<BTreeMap<String, Files>, TestbedError> {
    let mut copied = BTreeMap::new();
    for drive in drives {
        let (folder, mut files) = (drive.root.join(SNAPSHOT), Files::new());
        read(&folder, Path::new(""), &mut files).map_err(TestbedError::io("copy", &folder))?;
        if !files.is_empty() {
            copied.insert(drive.name.clone(), files);
        }
    }
    Ok(copied)
}

fn read(folder: &Path, below: &Path, files: &mut Files) -> io::Result<()> {
    let listed = match fs::read_dir(folder.join(below)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        listed => listed?,
    };
    for entry in listed {
        let entry = entry?;
        let path = below.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => read(folder, &path, files)?,
            false => {
                files.insert(path.clone(), fs::read(folder.join(path))?);
            }
        }
    }
    Ok(())
}

/// Puts a copy in the snapshot's place on every drive; a drive of which there is none has none then.
fn replace(drives: &[DrivePlace], copied: &BTreeMap<String, Files>) -> Result<(), TestbedError> {
    for drive in drives {
        let place = drive.root.join(SNAPSHOT);
        let files = copied.get(&drive.name);
        replace_one(&drive.root, &place, files)
            .map_err(TestbedError::io("put a snapshot in the place of", &place))?;
    }
    Ok(())
}

/// The new folder is whole before the old one goes.
fn replace_one(root: &Path, place: &Path, files: Option<&Files>) -> io::Result<()> {
    let aside = root.join(layout::TMP).join("a-hand");
    let (new, old) = (aside.join("new"), aside.join("old"));
    fs::create_dir_all(&aside)?;
    for (path, bytes) in files.into_iter().flatten() {
        let file = new.join(path);
        fs::create_dir_all(file.parent().unwrap_or(&new))?;
        fs::write(&file, bytes)?;
        fs::File::open(&file)?.sync_all()?;
    }
    if place.exists() {
        fs::rename(place, &old)?;
    }
    let above = place.parent().unwrap_or(root);
    if files.is_some() {
        fs::create_dir_all(above)?;
        fs::rename(&new, place)?;
    }
    fs::remove_dir_all(&aside)?;
    match above.exists() {
        true => fs::File::open(above)?.sync_all(),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::scenario::catalog::SnapshotHeld;

    #[test]
    fn what_a_census_holds_is_told_in_short() {
        let mut census = CatalogCensus::default();
        let mut put = |key: &str, text: &str| census.objects.insert(key.into(), text.into());
        put("s3tables/catalog/strong-backing/snapshot.json", r#"{"version":2}"#);
        put("s3tables/catalog/backing-migration/durable-strong-global-fence.json", "{}");
        let fence = r#"{"table_bucket":"lake","status":"PREPARING"}"#;
        put("s3tables/catalog/table-buckets/x/backing-migration/durable-strong-fence.json", fence);
        let told = seen(&census).unwrap();
        assert_eq!((told.snapshot, told.registry_fence), (Some(2), true));
        assert_eq!(told.fences.len(), 1);
        let holds = |snapshot| Holds { snapshot: Some(snapshot), ..Holds::default() };
        assert!(does_hold(&holds(SnapshotHeld::V2), &told));
        assert!(!does_hold(&holds(SnapshotHeld::V1), &told));
        let fence: Holds =
            crate::yaml::parse("h", "{ warehouse: mart, fence: absent, registry_fence: true }")
                .unwrap();
        assert!(does_hold(&fence, &told));
        census.unreadable.push("too few drives".to_owned());
        assert_eq!(seen(&census), None);
    }

    #[test]
    fn a_copy_is_put_back_as_it_was_and_leaves_nothing_beside_it() {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().join(SNAPSHOT);
        fs::create_dir_all(place.join("data")).unwrap();
        fs::write(place.join("xl.meta"), b"older").unwrap();
        fs::write(place.join("data/part.1"), b"shard").unwrap();
        let drive = DrivePlace {
            name: "0/0".to_owned(),
            node: 0,
            slot: 0,
            root: root.path().to_owned(),
            mounted: true,
        };
        let drives = [drive];
        let older = copy_of(&drives).unwrap();
        assert_eq!(count(&older), 2);
        fs::remove_dir_all(place.join("data")).unwrap();
        fs::write(place.join("xl.meta"), b"newer").unwrap();
        replace(&drives, &older).unwrap();
        assert_eq!(copy_of(&drives).unwrap(), older);
        replace(&drives, &BTreeMap::new()).unwrap();
        assert!(!place.exists() && copy_of(&drives).unwrap().is_empty());
        assert!(!root.path().join(layout::TMP).join("a-hand").exists());
    }
}
