//! What a testbed does for rehearsals of the table catalog.

use super::Testbed;
use super::TestbedError;
use super::nodes::Node;
use crate::protocol::config::CatalogConfig;

impl Testbed {
    /// Has a node serve the table catalog as `catalog` says from its next start on.
    ///
    /// # Errors
    /// Its configuration could not be written.
    pub fn become_catalog(&self, node: usize, catalog: CatalogConfig) -> Result<(), TestbedError> {
        self.nodes[node].become_catalog(catalog)
    }

    /// How many crash points were armed so far, over all nodes: a single request that has to pass one is sent after.
    pub fn armed(&self) -> u64 {
        self.nodes.iter().map(Node::armed).sum()
    }
}
