//! What a node is told in its configuration file and the secrets beside it.

use std::fs;
use std::fs::OpenOptions;
use std::io;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;

use crate::harness::scenario::plan::TestbedPlan;
use crate::protocol::config::CatalogConfig;
use crate::protocol::config::NodeConfig;
use crate::protocol::config::NodeEntry;
use crate::protocol::config::Principal;
use crate::protocol::config::Release;
use crate::yaml;

/// What all nodes of a testbed share besides the plan. Its secrets are never written to the run directory.
#[derive(Clone)]
pub struct ClusterSecrets {
    /// The access key of the one principal, who may do everything.
    pub access_key: String,
    /// Its secret key, which the plan's further principals have as well.
    pub secret_key: String,
    /// What peers sign with.
    pub cluster_secret: String,
}

/// Writes `node.yaml` and the secret files of one node into `folder`; answers the path of `node.yaml`.
///
/// `peer_address` tells where this node reaches each of the others (a proxy), and `drive_root` where a drive
/// is mounted in its owner's namespace.
///
/// # Errors
/// A file could not be written.
pub fn write(
    plan: &TestbedPlan,
    node: usize,
    secrets: &ClusterSecrets,
    folder: &Path,
    peer_address: impl Fn(usize) -> SocketAddr,
    drive_root: impl Fn(usize, usize) -> PathBuf,
) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let cluster_secret_file = folder.join("cluster.secret");
    let secret_file = folder.join("client.secret");
    write_secret(&cluster_secret_file, &secrets.cluster_secret)?;
    write_secret(&secret_file, &secrets.secret_key)?;
    let entry = |other: usize| NodeEntry {
        address: peer_address(other).to_string(),
        drives: plan.drives_of(other).map(|drive| drive_root(other, drive.slot)).collect(),
        endpoints: Vec::new(),
    };
    let everything = vec!["*".to_owned()];
    let root = Principal { secret_file: secret_file.clone(), actions: everything, account: None };
    let others = plan.principals.iter().map(|(name, form)| {
        let (secret_file, account) = (secret_file.clone(), form.account.clone());
        (name.clone(), Principal { secret_file, actions: form.actions.clone(), account })
    });
    let config = NodeConfig {
        node,
        listen: "127.0.0.1:0".to_owned(),
        nodes: (0..plan.nodes).map(entry).collect(),
        set_drives: plan.set_drives,
        parity: Some(plan.parity),
        durability: plan.durability,
        cluster_secret_file,
        principals: others.chain([(secrets.access_key.clone(), root)]).collect(),
        allow_unmounted: false,
        limits: plan.limits.clone(),
        release: plan.release,
        catalog: plan.catalog.clone(),
    };
    let path = folder.join("node.yaml");
    let text = yaml::write(&config).map_err(io::Error::other)?;
    fs::write(&path, text)?;
    Ok(path)
}

/// Has the node whose configuration lies at `path` behave as `release` from its next start on.
///
/// # Errors
/// The file could not be read or written.
pub fn become_release(path: &Path, release: Release) -> io::Result<()> {
    let config: NodeConfig = yaml::read(path).map_err(io::Error::other)?;
    let text = yaml::write(&NodeConfig { release, ..config }).map_err(io::Error::other)?;
    fs::write(path, text)
}

/// Has the node whose configuration lies at `path` serve the table catalog as `catalog` says from its next start on.
///
/// # Errors
/// The file could not be read or written.
pub fn become_catalog(path: &Path, catalog: CatalogConfig) -> io::Result<()> {
    let config: NodeConfig = yaml::read(path).map_err(io::Error::other)?;
    let text = yaml::write(&NodeConfig { catalog, ..config }).map_err(io::Error::other)?;
    fs::write(path, text)
}

/// Writes a file that only its owner can read.
///
/// # Errors
/// The file could not be written.
pub fn write_secret(path: &Path, secret: &str) -> io::Result<()> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(secret.as_bytes())
}
