//! How drives are called in records: by their configured address, never by an id.

use std::collections::BTreeSet;

use crate::protocol::config::NodeConfig;
use crate::protocol::config::NodeEntry;

/// The endpoint of every drive, in endpoint order: the one that is configured, the bare path, or
/// `http://<address><path>` where paths alone do not tell the drives of the deployment apart.
pub fn endpoints(config: &NodeConfig) -> Vec<String> {
    let drives = || {
        let nodes = config.nodes.iter();
        nodes.flat_map(|node| node.drives.iter().map(move |drive| (node, drive)))
    };
    let paths: BTreeSet<_> = drives().map(|(_, drive)| drive).collect();
    let is_plain = paths.len() == drives().count();
    let named = |node: &NodeEntry| {
        let own = node.drives.iter().map(|drive| match is_plain {
            true => drive.to_string_lossy().into_owned(),
            false => format!("http://{}{}", node.address, drive.to_string_lossy()),
        });
        if node.endpoints.is_empty() { own.collect() } else { node.endpoints.clone() }
    };
    config.nodes.iter().flat_map(named).collect::<Vec<_>>()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn drives_of_two_nodes_are_told_apart() {
        let entry = |node: usize, drive: &str| NodeEntry {
            address: format!("10.0.0.{node}:9000"),
            drives: vec![PathBuf::from(drive)],
            endpoints: Vec::new(),
        };
        let config = |nodes| NodeConfig {
            node: 0,
            listen: String::new(),
            nodes,
            set_drives: 2,
            parity: None,
            durability: Default::default(),
            cluster_secret_file: PathBuf::new(),
            principals: BTreeMap::new(),
            allow_unmounted: false,
            limits: Default::default(),
            release: Default::default(),
            catalog: Default::default(),
        };
        let apart = config(vec![entry(1, "/d1"), entry(2, "/d2")]);
        assert_eq!(endpoints(&apart), ["/d1", "/d2"]);
        let alike = config(vec![entry(1, "/d"), entry(2, "/d")]);
        assert_eq!(endpoints(&alike), ["http://10.0.0.1:9000/d", "http://10.0.0.2:9000/d"]);
        let mut named = config(vec![entry(1, "/d1"), entry(2, "/d2")]);
        named.nodes[1].endpoints = vec!["http://node-b:9000/srv/d2".to_owned()];
        assert_eq!(endpoints(&named), ["/d1", "http://node-b:9000/srv/d2"]);
    }
}
