//! All lines of a testbed: from clients to each node, and from each node to each other.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::watch;

use super::TestbedError;
use super::lines::Lines;
use super::lines::Party;
use super::lines::Rule;
use super::proxy::Link;
use super::traps::Trap;
use super::traps::Traps;

/// The lines of one testbed.
#[derive(Debug)]
pub(crate) struct Network {
    links: Vec<Link>,
    lines: watch::Sender<Lines>,
    traps: Vec<Arc<Traps>>,
}

impl Network {
    /// Takes the ports. Must be called on a runtime.
    pub(super) fn new(nodes: usize) -> Result<Self, TestbedError> {
        let lines = watch::Sender::new(Lines::default());
        let traps: Vec<Arc<Traps>> = (0..nodes).map(|_| Arc::default()).collect();
        let mut links = Vec::new();
        for (to, trap) in traps.iter().enumerate() {
            let trap = Some(Arc::clone(trap));
            links.push(Link::new(Party::Clients, Party::Node(to), lines.subscribe(), trap)?);
            for from in (0..nodes).filter(|from| *from != to) {
                let ends = (Party::Node(from), Party::Node(to));
                links.push(Link::new(ends.0, ends.1, lines.subscribe(), None)?);
            }
        }
        Ok(Self { links, lines, traps })
    }

    fn link(&self, from: Party, to: usize) -> &Link {
        let ends = (from, Party::Node(to));
        self.links.iter().find(|link| link.ends() == ends).expect("every pair has its line")
    }

    /// Where clients reach a node.
    pub(crate) fn client_address(&self, node: usize) -> SocketAddr {
        self.link(Party::Clients, node).address()
    }

    /// Where one node reaches another.
    pub(crate) fn peer_address(&self, from: usize, to: usize) -> SocketAddr {
        self.link(Party::Node(from), to).address()
    }

    /// Opens the lines to a node that listens now.
    pub(super) async fn open_node(
        &self,
        node: usize,
        target: SocketAddr,
    ) -> Result<(), TestbedError> {
        for link in self.links.iter().filter(|link| link.ends().1 == Party::Node(node)) {
            link.open(target).await?;
        }
        Ok(())
    }

    /// Closes the lines to a node that died and ends its own connections: no byte of it or for it is left.
    pub(super) async fn close_node(&self, node: usize) -> Result<(), TestbedError> {
        for link in &self.links {
            let (from, to) = link.ends();
            if to == Party::Node(node) {
                link.close().await;
            } else if from == Party::Node(node) {
                link.reset().await?;
            }
        }
        Ok(())
    }

    /// Lays the rules of a fault over the lines.
    pub(crate) fn lay(&self, fault: u64, rules: Vec<Rule>) {
        self.lines.send_modify(|lines| lines.lay(fault, rules));
    }

    /// Lifts the rules of a fault.
    pub(crate) fn lift(&self, fault: u64) {
        self.lines.send_modify(|lines| lines.lift(fault));
    }

    /// How many pieces were thrown away between two nodes so far, on connections of either.
    pub(crate) fn thrown_away(&self, one: usize, other: usize) -> u64 {
        let (one, other) = (Party::Node(one), Party::Node(other));
        let between = |link: &&Link| {
            let ends = link.ends();
            ends == (one, other) || ends == (other, one)
        };
        self.links.iter().filter(between).map(Link::thrown_away).sum()
    }

    /// Sets a trap in front of a node.
    pub(crate) fn set_trap(&self, node: usize, trap: Trap) {
        self.traps[node].set(trap);
    }

    /// Lifts a fault's traps; answers how many requests they were still waiting for.
    pub(crate) fn lift_trap(&self, node: usize, fault: u64) -> usize {
        self.traps[node].lift(fault)
    }
}
