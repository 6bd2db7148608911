//! Which bytes pass between whom now: the rules that faults lay over the lines of a testbed. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

/// An end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Party {
    /// All clients.
    Clients,
    /// A node.
    Node(usize),
}

/// What a fault does to lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Whatever `from` sends to `to` is lost, requests and answers alike.
    Cut {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
    },
    /// Whatever `from` sends to `to` takes longer.
    Delay {
        /// The sender.
        from: usize,
        /// The receiver.
        to: usize,
        /// By so much.
        by: Duration,
    },
    /// The node takes its peers' connections and never answers; its own connections work.
    Hang {
        /// The node.
        node: usize,
    },
    /// Nothing reaches the node and nothing leaves it: its machine is gone.
    Isolate {
        /// The node.
        node: usize,
    },
}

/// All rules, by the fault that laid them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lines {
    rules: BTreeMap<u64, Vec<Rule>>,
}

/// How bytes pass in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Flow {
    /// They are lost.
    pub(super) is_cut: bool,
    /// They take longer.
    pub(super) delay: Duration,
}

impl Lines {
    /// Lays a fault's rules.
    pub(super) fn lay(&mut self, fault: u64, rules: Vec<Rule>) {
        self.rules.insert(fault, rules);
    }

    /// Takes a fault's rules away.
    pub(super) fn lift(&mut self, fault: u64) {
        self.rules.remove(&fault);
    }

    /// How bytes pass from `from` to `to` on a connection that `initiator` made to `acceptor`.
    pub(super) fn flow(&self, (from, to): (Party, Party), acceptor: Party) -> Flow {
        let mut flow = Flow::default();
        for rule in self.rules.values().flatten() {
            match *rule {
                Rule::Cut { from: sender, to: receiver } => {
                    flow.is_cut |= (from, to) == (Party::Node(sender), Party::Node(receiver));
                }
                Rule::Delay { from: sender, to: receiver, by } => {
                    if (from, to) == (Party::Node(sender), Party::Node(receiver)) {
                        flow.delay += by;
                    }
                }
                Rule::Hang { node } => {
                    let is_between_nodes = from != Party::Clients && to != Party::Clients;
                    flow.is_cut |= is_between_nodes && acceptor == Party::Node(node);
                }
                Rule::Isolate { node } => {
                    flow.is_cut |= from == Party::Node(node) || to == Party::Node(node);
                }
            }
        }
        flow
    }
}

#[cfg(test)]
mod tests {
    use super::Party::Clients;
    use super::Party::Node;
    use super::*;

    fn cut(rule: Rule, way: (Party, Party), acceptor: Party) -> bool {
        let mut lines = Lines::default();
        lines.lay(1, vec![rule]);
        let is_cut = lines.flow(way, acceptor).is_cut;
        lines.lift(1);
        assert!(!lines.flow(way, acceptor).is_cut, "a lifted rule still acts");
        is_cut
    }

    #[test]
    fn a_one_way_cut_loses_requests_one_way_and_answers_the_other_way() {
        let rule = Rule::Cut { from: 0, to: 1 };
        assert!(cut(rule, (Node(0), Node(1)), Node(1)), "requests of 0 to 1");
        assert!(cut(rule, (Node(0), Node(1)), Node(0)), "answers of 0 to 1");
        assert!(!cut(rule, (Node(1), Node(0)), Node(0)), "requests of 1 to 0");
        assert!(!cut(rule, (Node(2), Node(1)), Node(1)), "somebody else's");
    }

    #[test]
    fn a_hung_peer_still_makes_requests_and_serves_clients() {
        let rule = Rule::Hang { node: 1 };
        assert!(cut(rule, (Node(0), Node(1)), Node(1)));
        assert!(cut(rule, (Node(1), Node(0)), Node(1)));
        assert!(!cut(rule, (Node(1), Node(0)), Node(0)));
        assert!(!cut(rule, (Clients, Node(1)), Node(1)));
    }

    #[test]
    fn an_isolated_node_is_cut_from_clients_too() {
        let rule = Rule::Isolate { node: 1 };
        assert!(cut(rule, (Clients, Node(1)), Node(1)));
        assert!(cut(rule, (Node(1), Node(0)), Node(0)));
        assert!(!cut(rule, (Clients, Node(0)), Node(0)));
    }

    #[test]
    fn delays_add_up() {
        let mut lines = Lines::default();
        let by = Duration::from_millis(20);
        lines.lay(1, vec![Rule::Delay { from: 0, to: 1, by }]);
        lines.lay(2, vec![Rule::Delay { from: 0, to: 1, by }]);
        assert_eq!(lines.flow((Node(0), Node(1)), Node(1)).delay, 2 * by);
        assert_eq!(lines.flow((Node(1), Node(0)), Node(1)).delay, Duration::ZERO);
    }
}
