//! The faults a scenario can name: `inject: { kill: { node: 0, at: put.meta_renamed } }`.
//!
//! Every fault has the same four optional triggers. Without one it strikes at its step. With one it
//! is armed there and strikes in the background of later steps, in the order armed; `settle` waits
//! for it. What is named but never struck makes the run undecided.

use serde::Deserialize;
use serde::Serialize;

pub use super::damage::Damage;
pub use super::damage::RotTarget;
pub use super::damage::Tampering;
use crate::protocol::crash_point::CrashPoint;

/// When a fault strikes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// At this crash point.
    pub at: Option<CrashPoint>,
    /// At the n-th passing of `at`, from 1.
    pub nth: Option<u32>,
    /// The node that has to pass `at`; one of those that the fault names otherwise.
    pub on_node: Option<usize>,
    /// Of which bucket, or `bucket/key`, `at` has to be passed.
    pub of: Option<String>,
    /// After so many operations of the load have ended, counted from when it was armed.
    pub after_operations: Option<u64>,
    /// So long after it was armed.
    pub after_ms: Option<u64>,
}

/// Declares a fault's fields together with the triggers that all of them have.
macro_rules! fault_fields {
    ($(#[doc = $doc:literal])+ $name:ident { $($(#[$meta:meta])* $field:ident: $type:ty,)* }) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$meta])* pub $field: $type,)*
            /// At this crash point.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub at: Option<CrashPoint>,
            /// At the n-th passing of `at`, from 1.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub nth: Option<u32>,
            /// The node that has to pass `at`, where that is another one than the fault is about.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub on_node: Option<usize>,
            /// Of which bucket, or `bucket/key`, `at` has to be passed; of any otherwise.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub of: Option<String>,
            /// After so many operations of the load have ended.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub after_operations: Option<u64>,
            /// So long after it was armed, in milliseconds.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub after_ms: Option<u64>,
        }

        impl $name {
            /// When it strikes.
            pub fn trigger(&self) -> Trigger {
                Trigger {
                    at: self.at,
                    nth: self.nth,
                    on_node: self.on_node,
                    of: self.of.clone(),
                    after_operations: self.after_operations,
                    after_ms: self.after_ms,
                }
            }
        }
    };
}

fault_fields! {
    /// Every process of one node dies (SIGKILL). Loses nothing that was written.
    Kill {
        /// The node.
        node: usize,
    }
}
fault_fields! {
    /// One node is frozen and goes on later, as if nothing had happened.
    Pause {
        /// The node.
        node: usize,
        /// For how long.
        for_ms: u64,
    }
}
fault_fields! {
    /// Every process of one node dies and its drives are mounted anew, as after a restart of the machine.
    VmRestart {
        /// The node.
        node: usize,
        /// Whether every drive comes back under another identity.
        mounts: Mounts,
        /// In which order the drives come back on their loop devices.
        #[serde(default)]
        order: DriveOrder,
    }
}
fault_fields! {
    /// Nodes lose power: the page cache and the uncommitted journal of their drives are gone.
    PowerCut {
        /// The nodes, all at once.
        nodes: Nodes,
    }
}
fault_fields! {
    /// Drives of one node are taken out and blank ones put in their place.
    ReplaceDrive {
        /// The node.
        node: usize,
        /// Slots on the node, from 0.
        drives: Vec<usize>,
    }
}
fault_fields! {
    /// Drives of one node vanish while it runs; what they had not flushed is lost.
    PullDrive {
        /// The node.
        node: usize,
        /// Slots on the node, from 0.
        drives: Vec<usize>,
    }
}
fault_fields! {
    /// Pulled drives come back as they were when they vanished.
    ReturnDrive {
        /// The node.
        node: usize,
        /// Slots on the node, from 0.
        drives: Vec<usize>,
    }
}
fault_fields! {
    /// File systems of drives turn read-only under the running node.
    ReadOnly {
        /// The node.
        node: usize,
        /// Slots on the node, from 0.
        drives: Vec<usize>,
    }
}
fault_fields! {
    /// Drives have no space left.
    FillDrive {
        /// The node.
        node: usize,
        /// Slots on the node, from 0.
        drives: Vec<usize>,
    }
}
fault_fields! {
    /// Reads of drives fail with an I/O error.
    FailReads {
        /// The node.
        node: usize,
        /// Slots on the node, from 0.
        drives: Vec<usize>,
    }
}
fault_fields! {
    /// Writes to drives hang until healed.
    HangWrites {
        /// The node.
        node: usize,
        /// Slots on the node, from 0.
        drives: Vec<usize>,
    }
}
fault_fields! {
    /// One node starts while mounts of drives are missing: the bare directories are there.
    MissingMount {
        /// The node.
        node: usize,
        /// Slots on the node, from 0.
        drives: Vec<usize>,
    }
}
fault_fields! {
    /// Bytes of a drive change without an error. The node is stopped while they are changed.
    BitRot {
        /// The node.
        node: usize,
        /// Slots on the node, from 0.
        drives: Vec<usize>,
        /// Which bytes.
        target: RotTarget,
        /// How many files, at least 1.
        #[serde(default = "one")]
        files: usize,
    }
}
fault_fields! {
    /// Two shards that verify are exchanged: on one drive, between two objects of the same size.
    SwapShards {
        /// The node.
        node: usize,
        /// Slots on the node, from 0.
        drives: Vec<usize>,
    }
}
fault_fields! {
    /// A drive holds of some keys something else than it took: as after a write that it missed, a tool that was run on
    /// it by mistake, or a file system that was repaired. The node is stopped meanwhile.
    DamageKeys {
        /// The node.
        node: usize,
        /// Slots on the node, from 0.
        drives: Vec<usize>,
        /// What becomes of each key.
        into: Damage,
        /// How many keys of each drive, at least 1.
        #[serde(default = "one")]
        keys: usize,
    }
}
fault_fields! {
    /// A request takes effect and its answer never reaches the client.
    LostReply {
        /// The node whose answer is lost.
        node: usize,
        /// Which requests.
        request: RequestKind,
        /// How many of them, at least 1.
        #[serde(default = "one")]
        count: usize,
    }
}
fault_fields! {
    /// A request reaches the node only in part; then the connection ends.
    HalfRequest {
        /// The node.
        node: usize,
        /// Which requests.
        request: RequestKind,
        /// How many of them, at least 1.
        #[serde(default = "one")]
        count: usize,
    }
}
fault_fields! {
    /// Nodes cannot reach each other; clients still reach all.
    Partition {
        /// Senders.
        from: Vec<usize>,
        /// Receivers.
        to: Vec<usize>,
        /// Whether only `from` to `to` is cut, and answers and requests the other way still pass.
        #[serde(default)]
        one_way: bool,
    }
}
fault_fields! {
    /// Everything sent from some nodes to others takes longer.
    Delay {
        /// Senders.
        from: Vec<usize>,
        /// Receivers.
        to: Vec<usize>,
        /// By how much, each way.
        by_ms: u64,
    }
}
fault_fields! {
    /// A node accepts connections from its peers and never answers them.
    HangPeer {
        /// The node.
        node: usize,
    }
}

fault_fields! {
    /// The task that passes a crash point is held there until healed; the node serves on.
    Hold {
        /// The node.
        node: usize,
        /// Whether it is armed for the requests of later steps, and not waited for at its own.
        #[serde(default, skip_serializing_if = "is_not")]
        later: bool,
    }
}
fault_fields! {
    /// A stranger's hand changes what is durable of the replacement that is under way. It is given back when healed.
    TamperRecord {
        /// The node whose drives are being replaced.
        node: usize,
        /// What is changed.
        into: Tampering,
        /// Whether the node runs on meanwhile; it is stopped otherwise.
        #[serde(default)]
        live: bool,
    }
}

/// Serde's default for counts.
fn one() -> usize {
    1
}

/// Whether a flag is at its default.
fn is_not(flag: &bool) -> bool {
    !flag
}

/// Whether mounts keep their identity over a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mounts {
    /// Every drive comes back under another loop number and mount id.
    Changed,
    /// The mounts stay.
    Same,
}

/// In which order drives come back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DriveOrder {
    /// As before.
    #[default]
    Kept,
    /// The first two exchange their loop numbers.
    Exchanged,
    /// All in reverse.
    Reversed,
}

/// Some nodes or all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Nodes {
    /// Every node.
    All,
    /// These.
    These(Vec<usize>),
}

/// Which requests a fault of the network is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// PUT of an object.
    Put,
    /// DELETE of an object or version.
    Delete,
    /// CompleteMultipartUpload.
    CompleteUpload,
    /// A commit to a table.
    Commit,
    /// Anything.
    Any,
}

/// Declares the faults once: variant, name as scenarios spell it.
macro_rules! faults {
    ($($variant:ident = $name:literal,)+) => {
        /// One fault, under the name by which scenarios call it.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[expect(missing_docs, reason = "each variant is documented at the type it holds")]
        pub enum Fault {
            $($variant($variant),)+
        }

        impl Fault {
            /// Every name there is.
            pub const NAMES: &[&str] = &[$($name,)+];

            /// The name, as scenarios spell it.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name,)+ }
            }

            /// When it strikes.
            pub fn trigger(&self) -> Trigger {
                match self { $(Self::$variant(fault) => fault.trigger(),)+ }
            }
        }
    };
}

faults! {
    Kill = "kill",
    Pause = "pause",
    VmRestart = "vm_restart",
    PowerCut = "power_cut",
    ReplaceDrive = "replace_drive",
    PullDrive = "pull_drive",
    ReturnDrive = "return_drive",
    ReadOnly = "read_only",
    FillDrive = "fill_drive",
    FailReads = "fail_reads",
    HangWrites = "hang_writes",
    MissingMount = "missing_mount",
    BitRot = "bit_rot",
    SwapShards = "swap_shards",
    DamageKeys = "damage_keys",
    LostReply = "lost_reply",
    HalfRequest = "half_request",
    Partition = "partition",
    Delay = "delay",
    HangPeer = "hang_peer",
    Hold = "hold",
    TamperRecord = "tamper_record",
}

impl Trigger {
    /// Whether there is none: the fault strikes at its step.
    pub fn is_immediate(&self) -> bool {
        self.at.is_none() && self.after_operations.is_none() && self.after_ms.is_none()
    }

    /// The bucket, and the key where one is named, of which the crash point has to be passed.
    pub fn place(&self) -> (Option<&str>, Option<&str>) {
        match self.of.as_deref().map(|of| of.split_once('/').ok_or(of)) {
            None => (None, None),
            Some(Ok((bucket, key))) => (Some(bucket), Some(key)),
            Some(Err(bucket)) => (Some(bucket), None),
        }
    }
}

impl Fault {
    /// The nodes it names, out of `count`; those of its drives included. Sorted, without repetition.
    pub fn nodes(&self, count: usize) -> Vec<usize> {
        let mut nodes = match self {
            Self::Kill(fault) => vec![fault.node],
            Self::Pause(fault) => vec![fault.node],
            Self::VmRestart(fault) => vec![fault.node],
            Self::PowerCut(fault) => match &fault.nodes {
                Nodes::All => (0..count).collect(),
                Nodes::These(nodes) => nodes.clone(),
            },
            Self::LostReply(fault) => vec![fault.node],
            Self::HalfRequest(fault) => vec![fault.node],
            Self::Partition(fault) => [fault.from.as_slice(), &fault.to].concat(),
            Self::Delay(fault) => [fault.from.as_slice(), &fault.to].concat(),
            Self::HangPeer(fault) => vec![fault.node],
            Self::Hold(fault) => vec![fault.node],
            Self::TamperRecord(fault) => vec![fault.node],
            _ => self.slots().map(|(node, _)| node).into_iter().collect(),
        };
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// The node and the slots on it, for a fault of drives.
    pub fn slots(&self) -> Option<(usize, &[usize])> {
        match self {
            Self::ReplaceDrive(fault) => Some((fault.node, &fault.drives)),
            Self::PullDrive(fault) => Some((fault.node, &fault.drives)),
            Self::ReturnDrive(fault) => Some((fault.node, &fault.drives)),
            Self::ReadOnly(fault) => Some((fault.node, &fault.drives)),
            Self::FillDrive(fault) => Some((fault.node, &fault.drives)),
            Self::FailReads(fault) => Some((fault.node, &fault.drives)),
            Self::HangWrites(fault) => Some((fault.node, &fault.drives)),
            Self::MissingMount(fault) => Some((fault.node, &fault.drives)),
            Self::BitRot(fault) => Some((fault.node, &fault.drives)),
            Self::SwapShards(fault) => Some((fault.node, &fault.drives)),
            Self::DamageKeys(fault) => Some((fault.node, &fault.drives)),
            _ => None,
        }
    }

    /// The drives it names, as `node/slot`.
    pub fn drives(&self) -> Vec<String> {
        let Some((node, slots)) = self.slots() else {
            return Vec::new();
        };
        slots.iter().map(|slot| format!("{node}/{slot}")).collect()
    }

    /// Whether what the named drives held is gone for good once it struck, so that only a rebuild
    /// brings the redundancy back.
    pub fn destroys(&self) -> bool {
        matches!(
            self,
            Self::ReplaceDrive(_) | Self::BitRot(_) | Self::SwapShards(_) | Self::DamageKeys(_)
        )
    }

    /// Whether the named drives cannot be read while it lasts.
    pub fn hides(&self) -> bool {
        matches!(
            self,
            Self::PullDrive(_) | Self::FailReads(_) | Self::HangWrites(_) | Self::MissingMount(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_a_map_of_one_key_and_names_what_it_touches() {
        let text = "replace_drive: { node: 1, drives: [0, 2], at: put.meta_renamed, nth: 3 }";
        let fault: Fault = crate::yaml::parse("fault", text).unwrap();
        assert_eq!(fault.name(), "replace_drive");
        assert_eq!(fault.drives(), ["1/0", "1/2"]);
        assert_eq!(fault.nodes(3), [1]);
        assert!(!fault.trigger().is_immediate());
        assert!(fault.destroys());
        let of = |of: &str| Trigger { of: Some(of.to_owned()), ..Trigger::default() };
        assert_eq!(of(".rustfs.sys/a/b").place(), (Some(".rustfs.sys"), Some("a/b")));
        assert_eq!(
            (of("lake").place(), Trigger::default().place()),
            ((Some("lake"), None), (None, None))
        );
    }

    #[test]
    fn every_name_is_read_as_the_fault_of_that_name() {
        let samples = [
            "kill: { node: 0 }",
            "pause: { node: 0, for_ms: 10 }",
            "vm_restart: { node: 0, mounts: changed }",
            "power_cut: { nodes: all }",
            "power_cut: { nodes: { these: [0] } }",
            "replace_drive: { node: 0, drives: [0] }",
            "pull_drive: { node: 0, drives: [0] }",
            "return_drive: { node: 0, drives: [0] }",
            "read_only: { node: 0, drives: [0] }",
            "fill_drive: { node: 0, drives: [0] }",
            "fail_reads: { node: 0, drives: [0] }",
            "hang_writes: { node: 0, drives: [0] }",
            "missing_mount: { node: 0, drives: [0] }",
            "bit_rot: { node: 0, drives: [0], target: part }",
            "damage_keys: { node: 0, drives: [0], into: part_missing }",
            "swap_shards: { node: 0, drives: [0] }",
            "lost_reply: { node: 0, request: put }",
            "half_request: { node: 0, request: put }",
            "partition: { from: [0], to: [0] }",
            "delay: { from: [0], to: [0], by_ms: 5 }",
            "hang_peer: { node: 0 }",
            "hold: { node: 0, at: put.meta_renamed }",
            "tamper_record: { node: 0, into: E5 }",
        ];
        let mut seen = std::collections::BTreeSet::new();
        for text in samples {
            let fault: Fault = crate::yaml::parse("fault", text).unwrap();
            assert!(text.starts_with(fault.name()), "{text} was read as {}", fault.name());
            assert_eq!(fault.nodes(1), [0], "{text}");
            seen.insert(fault.name());
        }
        assert_eq!(seen.into_iter().collect::<Vec<_>>().len(), Fault::NAMES.len());
    }
}
