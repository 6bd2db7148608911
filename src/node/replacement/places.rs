//! How drives are called in records: by their configured address, never by an id.

use std::collections::BTreeSet;

use crate::protocol::config::NodeConfig;

/// The endpoint of every drive, in endpoint order: the bare path, or `http://<address><path>` where paths alone do
/// not tell the drives of the deployment apart.
pub fn endpoints(config: &NodeConfig) -> Vec<String> {
    let drives = || {
        let nodes = config.nodes.iter();
        nodes.flat_map(|node| node.drives.iter().map(move |drive| (node, drive)))
    };
    let paths: BTreeSet<_> = drives().map(|(_, drive)| drive).collect();
    let is_plain = paths.len() == drives().count();
    drives()
        .map(|(node, drive)| match is_plain {
            true => drive.to_string_lossy().into_owned(),
            false => format!("http://{}{}", node.address, drive.to_string_lossy()),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use super::*;
    use crate::protocol::config::NodeEntry;

    #[test]
    fn drives_of_two_nodes_are_told_apart() {
        let entry = |node: usize, drive: &str| NodeEntry {
            address: format!("10.0.0.{node}:9000"),
            drives: vec![PathBuf::from(drive)],
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
        };
        let apart = config(vec![entry(1, "/d1"), entry(2, "/d2")]);
        assert_eq!(endpoints(&apart), ["/d1", "/d2"]);
        let alike = config(vec![entry(1, "/d"), entry(2, "/d")]);
        assert_eq!(endpoints(&alike), ["http://10.0.0.1:9000/d", "http://10.0.0.2:9000/d"]);
    }
}
