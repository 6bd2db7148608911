//! All lines of a testbed: from clients to each node, and from each node to each other.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

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
    /// Why a line could not be opened again: what nodes see of each other is not what was asked for any more.
    given_up: Mutex<Option<TestbedError>>,
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
        Ok(Self { links, lines, traps, given_up: Mutex::default() })
    }

    /// A line is closed that should be open: the run is not to be judged.
    pub(super) fn give_up(&self, error: TestbedError) {
        *self.given_up.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
    }

    /// Fails once a line was given up.
    pub(super) fn check(&self) -> Result<(), TestbedError> {
        let mut given_up = self.given_up.lock().unwrap_or_else(PoisonError::into_inner);
        given_up.take().map_or(Ok(()), Err)
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
    ///
    /// # Errors
    /// The first line that could not be opened again; all others are as they have to be.
    pub(super) async fn close_node(&self, node: usize) -> Result<(), TestbedError> {
        let mut done = Ok(());
        for link in &self.links {
            let (from, to) = link.ends();
            if to == Party::Node(node) {
                link.close().await;
            } else if from == Party::Node(node) {
                let reset = link.reset().await;
                done = done.and(reset);
            }
        }
        done
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::BorrowedFd;
    use std::os::fd::OwnedFd;

    use nix::sys::socket::getsockopt;
    use nix::sys::socket::sockopt::AcceptConn;
    use tokio::net::TcpListener;
    use tokio::net::TcpStream;

    use super::*;

    /// A second descriptor of every socket that listens on one of `ports`, as a child has them that was just forked.
    #[expect(unsafe_code, reason = "descriptors are borrowed by their number")]
    fn listeners(ports: &[u16]) -> Vec<OwnedFd> {
        let fds = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let fds = fds.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let listens = |fd: &i32| {
            // SAFETY: it is borrowed for two questions; one that was closed meanwhile answers with an error.
            let borrowed = unsafe { BorrowedFd::borrow_raw(*fd) };
            let name = nix::sys::socket::getsockname::<nix::sys::socket::SockaddrIn>(*fd);
            let is_ours = name.is_ok_and(|name| ports.contains(&name.port()));
            is_ours && getsockopt(&borrowed, AcceptConn).unwrap_or(false)
        };
        let fds = fds.filter(listens);
        // SAFETY: as above.
        fds.map(|fd| nix::unistd::dup(unsafe { BorrowedFd::borrow_raw(fd) }).unwrap()).collect()
    }

    #[tokio::test]
    async fn lines_are_opened_again_while_a_child_still_has_their_sockets() {
        let network = Network::new(2).unwrap();
        let node = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let target = node.local_addr().unwrap();
        for node in 0..2 {
            network.open_node(node, target).await.unwrap();
        }
        let address = network.peer_address(0, 1);
        let forked = listeners(&[address.port()]);
        assert_eq!(forked.len(), 1);
        network.close_node(0).await.unwrap();
        TcpStream::connect(address).await.unwrap();
        network.close_node(1).await.unwrap();
        TcpStream::connect(address).await.unwrap_err();
        network.open_node(1, target).await.unwrap();
        TcpStream::connect(address).await.unwrap();
        drop(forked);
    }

    #[tokio::test]
    async fn a_line_that_was_given_up_is_told_once() {
        let network = Network::new(1).unwrap();
        network.check().unwrap();
        network.give_up(TestbedError::NotRunning { node: 0 });
        network.check().unwrap_err();
        network.check().unwrap();
    }
}
