//! Whether a backup comes back: restored into a fresh cluster, compared with what it kept, and served.
//!
//! The restore is the one that operators use ([`keep::restore`]). Three things are compared: the objects that the
//! drives decode to (state, fences, the snapshot, metadata files), by digest; and over the wire where each table stands
//! and that each table, view and warehouse is served. With drives of the operator's only the first is done: starting
//! that cluster is theirs.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::client::Client;
use super::client::Wire as _;
use super::error::CatalogError;
use super::facts::Facts;
use super::fresh::Fresh;
use super::keep;
use super::keep::manifest::Manifest;
use super::keep::restore::RestoreRequest;
use super::keep::serve;
use super::orders::Orders;
use super::recorder::Recorder;
use super::turn::Stop;
use super::turn::StopKind;
use super::turn::many;
use crate::harness::report::Chain;

/// Where a rehearsal works.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Writes requests down.
    pub recorder: &'a Arc<Recorder>,
    /// The run's folder.
    pub folder: &'a Path,
}

/// Restores the backup and compares; answers what was seen.
///
/// # Errors
///
/// [`StopKind::Broken`]: the backup is damaged, or what came back is something else. [`StopKind::Operator`]: it
/// cannot be tried here, and nothing is known.
pub async fn check(place: &Place<'_>, orders: &Orders, facts: &Facts) -> Result<String, Stop> {
    let folder = orders.backup.clone().unwrap_or_default();
    let digest = facts.backup.as_ref().map(|it| it.digest.clone()).unwrap_or_default();
    let (manifest, found) = keep::verify::run(&folder).map_err(|error| broken(&error))?;
    if found != digest {
        return Err(Stop::broken(format!("the backup is now {found}, it was {digest}")));
    }
    let request = RestoreRequest {
        from: folder,
        selected: digest,
        drives: orders.fresh_drives.clone(),
        release: keep::Release::default(),
        replaced: None,
    };
    if request.drives.is_empty() {
        return in_a_cluster_of_its_own(place, orders, facts, &manifest, request).await;
    }
    let compared = restore(&request)?;
    let count = many(request.drives.len(), "drive");
    Ok(format!("backup {} was restored into {count}: {compared}", request.selected))
}

/// Restores onto stopped drives, and holds them against the backup.
fn restore(request: &RestoreRequest) -> Result<String, Stop> {
    keep::restore::run(request).map_err(|error| sorted(&error))?;
    keep::verify::against(&request.from, &request.drives).map_err(|error| sorted(&error))
}

async fn in_a_cluster_of_its_own(
    place: &Place<'_>,
    orders: &Orders,
    facts: &Facts,
    manifest: &Manifest,
    request: RestoreRequest,
) -> Result<String, Stop> {
    let Some(program) = &orders.program else {
        return Err(elsewhere("the program that a node is started from cannot be found"));
    };
    let (sets, set_drives) = (manifest.sets, manifest.set_drives);
    let fresh = Fresh::make(program, place.folder, sets * set_drives, set_drives).await;
    let mut fresh = fresh.map_err(|error| elsewhere(&Chain(&error).to_string()))?;
    let request = RestoreRequest { drives: fresh.drives().to_vec(), ..request };
    for (root, bucket) in request.drives.iter().flat_map(|root| {
        let buckets = manifest.warehouses.keys();
        buckets.map(move |bucket| (root, bucket))
    }) {
        // A bucket is a folder on every drive, those included of which nothing was kept.
        let folder = root.join(bucket);
        fs::create_dir_all(&folder)
            .map_err(|error| elsewhere(&format!("cannot create {}: {error}", folder.display())))?;
    }
    let compared = restore(&request)?;
    let is_strong = manifest.is_cut_over || facts.backing == "durable-strong";
    let reach = fresh.start(is_strong).await;
    let reach = reach.map_err(|error| elsewhere(&Chain(&error).to_string()))?;
    let client = Client::new(reach, Arc::clone(place.recorder));
    let mut asked = Vec::new();
    for question in serve::questions(manifest, is_strong, &orders.prefix) {
        let heard = client.send(&question.ask).await;
        asked.push((question, heard));
    }
    let served = serve::judge(&asked).map_err(|why| {
        Stop::broken(format!("a cluster restored from the backup differs: {why}"))
    })?;
    let stopped = fresh.stop().await;
    stopped.map_err(|error| elsewhere(&Chain(&error).to_string()))?;
    let backing = if is_strong { "durable-strong" } else { "object" };
    Ok(format!(
        "backup {} was restored into a cluster made for it, {}: {compared}{}; backing {backing}, {served}",
        request.selected,
        many(request.drives.len(), "drive"),
        told(manifest)
    ))
}

/// What of the state is more than tables.
fn told(manifest: &Manifest) -> String {
    let mut words = format!(", {} among them", many(manifest.fences.len(), "fence"));
    if let Some(snapshot) = &manifest.snapshot {
        words += &format!(", and the snapshot {}", snapshot.sha256);
    }
    words
}

fn broken(error: &CatalogError) -> Stop {
    Stop::broken(format!("the backup does not restore: {}", Chain(error)))
}

/// A restore that is refused, or that the machine does not carry, shows nothing about the backup.
fn sorted(error: &CatalogError) -> Stop {
    match error {
        CatalogError::Broken(_) | CatalogError::File(_) => broken(error),
        _ => elsewhere(&Chain(error).to_string()),
    }
}

fn elsewhere(why: &str) -> Stop {
    let words = format!("whether the backup restores is not known: {why}");
    let remedy = "restore it into a fresh cluster yourself: its drives by --fresh-drive, a command by --hook restore-check=COMMAND, or by hand (firedrill catalog restore, then verify), and --done restore-check";
    Stop::new(StopKind::Operator, words, remedy)
}
