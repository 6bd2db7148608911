//! The configuration as the node uses it: read, checked as a whole, secrets loaded from their files.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use crate::node::locks::votes::SetVotes;
use crate::node::s3::access::KnownPrincipal;
use crate::node::s3::access::Principals;
use crate::protocol::access;
use crate::protocol::catalog::settings;
use crate::protocol::catalog::settings::Backing;
use crate::protocol::catalog::settings::Gates;
use crate::protocol::catalog::snapshot::codec::SNAPSHOT_BYTES_MAX;
use crate::protocol::config::CatalogConfig;
use crate::protocol::config::NodeConfig;
use crate::protocol::config::Switch;
use crate::protocol::object::quorum;
use crate::yaml;
use crate::yaml::YamlError;

/// Why a configuration cannot be used. Nothing was touched.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read, or says something that is not understood.
    #[error("the configuration cannot be read")]
    Yaml(#[from] YamlError),
    /// What it says does not fit together.
    #[error("the configuration makes no sense: {0}")]
    Senseless(String),
    /// A secret cannot be read.
    #[error("the secret in {path} cannot be read")]
    Secret {
        /// Its file.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A secret's file is empty.
    #[error("the secret in {path} is empty")]
    EmptySecret {
        /// Its file.
        path: PathBuf,
    },
}

/// A configuration that makes sense.
pub struct Loaded {
    /// As it was written.
    pub config: NodeConfig,
    /// Principals with their secrets.
    pub principals: Principals,
    /// The cluster's secret.
    pub cluster_secret: Vec<u8>,
    /// Parity shards of standard objects.
    pub parity: usize,
    /// The table catalog.
    pub catalog: CatalogSettings,
}

/// The table catalog's switches and settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogSettings {
    /// Where its state is.
    pub backing: Backing,
    /// Whether it writes snapshots of version 2.
    pub gates: Gates,
    /// What has no switch.
    pub config: CatalogConfig,
}

impl CatalogSettings {
    /// From the configuration and the process's environment, which must not contradict each other.
    fn read(
        config: &CatalogConfig,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let value = |name: &str, configured: &Option<Switch>| {
            let configured = configured.as_ref().map(|switch| switch.word().to_owned());
            match (configured, environment(name)) {
                (Some(one), Some(other)) if one.trim() != other.trim() => Err(format!(
                    "{name} is `{one}` in the configuration and `{other}` in the environment"
                )),
                (configured, from_environment) => Ok(configured.or(from_environment)),
            }
        };
        let flag = |name: &str, configured: &Option<Switch>| {
            settings::parse_flag(name, value(name, configured)?.as_deref())
        };
        let backing = value(settings::BACKING, &config.backing)?;
        if config.commit_history_per_table == 0 {
            return Err("commit_history_per_table is 0".to_owned());
        }
        if !(1..=SNAPSHOT_BYTES_MAX).contains(&config.snapshot_bytes_max) {
            let bytes_max = config.snapshot_bytes_max;
            return Err(format!(
                "snapshot_bytes_max is {bytes_max}, not 1 to {SNAPSHOT_BYTES_MAX}"
            ));
        }
        Ok(Self {
            backing: Backing::parse(backing.as_deref())?,
            gates: Gates {
                requested: flag(settings::SNAPSHOT_V2, &config.snapshot_v2)?,
                fleet_confirmed: flag(
                    settings::SNAPSHOT_V2_FLEET_CONFIRMED,
                    &config.snapshot_v2_fleet_confirmed,
                )?,
            },
            config: config.clone(),
        })
    }
}

impl Loaded {
    /// Reads a configuration with its secrets.
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let config: NodeConfig = yaml::read(path)?;
        let parity = check(&config).map_err(ConfigError::Senseless)?;
        // What is not text is no value that a switch has, and stops the start as any other.
        let environment = |name: &str| Some(std::env::var_os(name)?.to_string_lossy().into_owned());
        let catalog =
            CatalogSettings::read(&config.catalog, environment).map_err(ConfigError::Senseless)?;
        let mut principals = BTreeMap::new();
        for (access_key, principal) in &config.principals {
            let secret = read_secret(&principal.secret_file)?;
            let actions = principal.actions.clone();
            let account = principal.account.clone().unwrap_or_else(|| access::ACCOUNT.to_owned());
            principals.insert(access_key.clone(), KnownPrincipal { secret, actions, account });
        }
        let cluster_secret = read_secret(&config.cluster_secret_file)?.into_bytes();
        Ok(Self {
            principals: Principals::new(principals),
            cluster_secret,
            parity,
            catalog,
            config,
        })
    }

    /// What all nodes must agree on.
    pub fn layout(&self) -> String {
        let drives: Vec<_> =
            self.config.nodes.iter().map(|node| node.drives.len().to_string()).collect();
        let (drives, set) = (drives.join(","), self.config.set_drives);
        format!("drives {drives}; sets of {set}; parity {}", self.parity)
    }

    /// All drives, in endpoint order: `(node, slot on the node)`.
    pub fn endpoints(&self) -> Vec<(usize, usize)> {
        endpoints(&self.config)
    }

    /// Set and slot of an endpoint.
    pub fn place(&self, endpoint: usize) -> (usize, usize) {
        (endpoint / self.config.set_drives, endpoint % self.config.set_drives)
    }

    /// The lock votes over each set.
    pub fn votes(&self) -> Vec<SetVotes> {
        let owners: Vec<_> = self.endpoints().iter().map(|(node, _)| *node).collect();
        let data = self.config.set_drives - self.parity;
        let write_quorum = quorum::write(data, self.parity);
        owners
            .chunks(self.config.set_drives)
            .map(|owners| SetVotes::new(owners, self.config.nodes.len(), write_quorum))
            .collect()
    }
}

fn endpoints(config: &NodeConfig) -> Vec<(usize, usize)> {
    let nodes = config.nodes.iter().enumerate();
    nodes.flat_map(|(node, entry)| (0..entry.drives.len()).map(move |slot| (node, slot))).collect()
}

/// Checks what only makes sense together, and answers the parity.
pub(crate) fn check(config: &NodeConfig) -> Result<usize, String> {
    let (nodes, set) = (config.nodes.len(), config.set_drives);
    if config.node >= nodes {
        return Err(format!("node {} is not among {nodes} nodes", config.node));
    }
    let drives = endpoints(config).len();
    if config.nodes[config.node].drives.is_empty() {
        return Err(format!("node {} has no drives", config.node));
    }
    if !(1..=16).contains(&set) || !drives.is_multiple_of(set) {
        return Err(format!("{drives} drives do not make sets of {set}; a set has 1 to 16"));
    }
    if set == 1 && drives > 1 {
        return Err("sets of one drive are for deployments of one drive".to_owned());
    }
    let parity = config.parity.unwrap_or_else(|| quorum::default_parity(set));
    if !quorum::is_possible(set, parity) {
        return Err(format!("{parity} parity shards are impossible in a set of {set}"));
    }
    let own = &config.nodes[config.node].drives;
    for (slot, root) in own.iter().enumerate() {
        if !root.is_absolute() {
            return Err(format!("drive {}/{slot} is not an absolute path", config.node));
        }
        if own[..slot].contains(root) {
            return Err(format!("drive {}/{slot} is listed twice", config.node));
        }
    }
    for (number, node) in config.nodes.iter().enumerate() {
        if !node.endpoints.is_empty() && node.endpoints.len() != node.drives.len() {
            let (names, drives) = (node.endpoints.len(), node.drives.len());
            return Err(format!("node {number} has {names} endpoints for {drives} drives"));
        }
    }
    let limits = &config.limits;
    let periods = [
        ("drive_deadline_ms", limits.drive_deadline_ms),
        ("probe_period_ms", limits.probe_period_ms),
        ("peer_deadline_ms", limits.peer_deadline_ms),
        ("lock_lease_ms", limits.lock_lease_ms),
        ("lock_wait_ms", limits.lock_wait_ms),
        ("heal_period_ms", limits.heal_period_ms),
        ("client_wait_ms", limits.client_wait_ms),
    ];
    if let Some((name, _)) = periods.iter().find(|(_, ms)| *ms == 0) {
        return Err(format!("{name} is 0"));
    }
    for (name, count) in [
        ("drive_queue_max", limits.drive_queue_max),
        ("replacement_page", limits.replacement_page),
        ("scan_deep_every", limits.scan_deep_every as usize),
        ("connections_max", limits.connections_max),
    ] {
        if count == 0 {
            return Err(format!("{name} is 0"));
        }
    }
    if !(1..=100).contains(&limits.scan_share_percent) {
        return Err(format!("scan_share_percent is {}, not 1 to 100", limits.scan_share_percent));
    }
    Ok(parity)
}

fn read_secret(path: &Path) -> Result<String, ConfigError> {
    let read = fs::read_to_string(path);
    let secret = read.map_err(|source| ConfigError::Secret { path: path.to_owned(), source })?;
    // Editors and `echo` end files with a line end.
    let secret = secret.trim_end_matches(['\n', '\r']).to_owned();
    if secret.is_empty() {
        return Err(ConfigError::EmptySecret { path: path.to_owned() });
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::config::Limits;
    use crate::protocol::config::NodeEntry;

    fn config(nodes: usize, drives: usize, set_drives: usize) -> NodeConfig {
        let drive = |node: usize, slot: usize| PathBuf::from(format!("/mnt/{node}/{slot}"));
        let entry = |node| NodeEntry {
            address: String::new(),
            drives: (0..drives).map(|slot| drive(node, slot)).collect(),
            endpoints: Vec::new(),
        };
        NodeConfig {
            node: 0,
            listen: "127.0.0.1:0".to_owned(),
            nodes: (0..nodes).map(entry).collect(),
            set_drives,
            parity: None,
            durability: Default::default(),
            cluster_secret_file: PathBuf::new(),
            principals: BTreeMap::new(),
            allow_unmounted: false,
            limits: Limits::default(),
            release: Default::default(),
            catalog: Default::default(),
        }
    }

    #[test]
    fn only_topologies_that_are_possible_pass() {
        for (nodes, drives, set, parity) in
            [(1, 1, 1, Some(0)), (1, 4, 4, Some(2)), (1, 6, 6, Some(3)), (3, 4, 12, Some(4))]
        {
            let checked = check(&config(nodes, drives, set));
            assert_eq!(checked.ok(), parity, "{nodes} x {drives} in sets of {set}");
        }
        for (nodes, drives, set) in [(1, 4, 3), (1, 4, 0), (2, 17, 17), (1, 2, 1), (1, 0, 1)] {
            let checked = check(&config(nodes, drives, set));
            assert!(checked.is_err(), "{nodes} x {drives} in sets of {set}");
        }
        let breaks: [fn(&mut NodeConfig); 6] = [
            |config| config.nodes[0].endpoints.push("http://one".to_owned()),
            |config| config.node = 1,
            |config| config.parity = Some(3),
            |config| config.nodes[0].drives[1] = "mnt/1".into(),
            |config| config.nodes[0].drives[1] = config.nodes[0].drives[0].clone(),
            |config| config.limits.lock_lease_ms = 0,
        ];
        for (number, change) in breaks.iter().enumerate() {
            let mut config = config(1, 4, 4);
            change(&mut config);
            assert!(check(&config).is_err(), "change {number}");
        }
    }

    #[test]
    fn the_switches_of_the_catalog_stand_in_one_place_and_have_known_values() {
        let config: CatalogConfig = serde_json::from_str(
            r#"{"RUSTFS_TABLE_CATALOG_BACKING":"durable-strong","RUSTFS_TABLE_CATALOG_STRONG_SNAPSHOT_V2":true}"#,
        )
        .expect("a section");
        let read = |config: &CatalogConfig, name: &'static str, value: &'static str| {
            CatalogSettings::read(config, |asked| (asked == name).then(|| value.to_owned()))
        };
        let fleet = settings::SNAPSHOT_V2_FLEET_CONFIRMED;
        let both = read(&config, fleet, "on").expect("known values");
        assert_eq!((both.backing, both.gates.write_version()), (Backing::DurableStrong, 2));
        let none = read(&CatalogConfig::default(), "", "").expect("nothing is said");
        assert_eq!((none.backing, none.gates.write_version()), (Backing::Object, 1));
        for (name, value) in
            [(settings::BACKING, "object"), (settings::SNAPSHOT_V2, "no"), (fleet, "perhaps")]
        {
            let refused = read(&config, name, value).expect_err("it contradicts, or is unknown");
            assert!(refused.contains(name), "{refused}");
        }
        let refused = read(&CatalogConfig::default(), settings::BACKING, "memory");
        assert!(refused.is_err(), "an unknown backing");
    }

    #[test]
    fn a_secret_is_read_from_its_file_and_is_not_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secret");
        fs::write(&path, "s3cret\n").expect("written");
        assert_eq!(read_secret(&path).expect("a secret"), "s3cret");
        fs::write(&path, "\n").expect("written");
        assert!(matches!(read_secret(&path), Err(ConfigError::EmptySecret { .. })));
        let gone = folder.path().join("gone");
        assert!(matches!(read_secret(&gone), Err(ConfigError::Secret { .. })));
    }
}
