//! The words on the inherited control descriptor: JSON, one object a line, both directions.
//!
//! The descriptor is one end of a socket pair; its number stands in `FIREDRILL_CONTROL_FD`. A node
//! without it has no crash points, no planted defects and reads nothing from anyone. The first line
//! to the node is [`ToNode::Start`]; the node opens no drive before it has read it.

use serde::Deserialize;
use serde::Serialize;

use super::crash_point::CrashPoint;
use super::crash_point::Place;

/// The variable that carries the descriptor's number.
pub const CONTROL_FD_VARIABLE: &str = "FIREDRILL_CONTROL_FD";

/// From the harness to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ToNode {
    /// The first message, once.
    Start {
        /// Defects to plant before any drive is opened.
        defects: Vec<Defect>,
        /// UUIDs of the file systems that this run made; with a defect, no other drive is opened.
        run_file_systems: Vec<String>,
        /// Points armed from the start.
        arms: Vec<Arm>,
    },
    /// Arm one more point.
    Arm(Arm),
    /// Let the task that is held by `arm` go on, and disarm it.
    Release {
        /// The arm's id.
        arm: u64,
    },
}

/// One armed point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arm {
    /// Chosen by the harness; unique in a node's life.
    pub id: u64,
    /// The point.
    pub point: CrashPoint,
    /// Only on this drive (its name in the node's configuration); `None` for any.
    pub drive: Option<String>,
    /// Only for this bucket; `None` for any.
    pub bucket: Option<String>,
    /// Only for this key; `None` for any.
    pub key: Option<String>,
    /// The passing at which it acts, from 1, counted per drive and key.
    pub nth: u32,
    /// What to do there.
    pub action: ArmAction,
}

/// What an armed point does when it is passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArmAction {
    /// Report, then park the task until it is released or the process dies.
    Hold,
    /// Report, then end the process at once, without unwinding.
    Abort,
}

/// From a node to the harness.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromNode {
    /// The node accepts connections on this port of its configured address.
    Listening {
        /// The TCP port.
        port: u16,
    },
    /// An armed point was passed for the n-th time; written before the task is parked or the process ends.
    Reached {
        /// The arm's id.
        arm: u64,
        /// The point.
        point: CrashPoint,
        /// Where.
        place: Place,
    },
}

/// A planted defect: a decorator around a seam, never an `if` in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Defect {
    /// A write is acknowledged when the first drive has it.
    AcknowledgesBeforeQuorum,
    /// A drive reports a directory flush without doing it.
    SkipsDirectorySync,
    /// A drive gives names to contents that its device does not have yet.
    NamesBeforeContents,
    /// A new null version is put beside the old one instead of replacing it.
    KeepsTwoNullVersions,
    /// The healer reports a drive as healed after looking at names and lengths only.
    HealsWithoutChecking,
    /// A write whose outcome is unknown is answered as a refusal.
    RefusesTheUnknown,
    /// A shard is returned without comparing it with its frame's hash.
    ReturnsShardsUnchecked,
    /// The healer purges a delete marker that not every drive has, as dangling.
    PurgesPartialMarkers,
    /// A version's moment is the clock in whole seconds, whatever stands already.
    StampsWholeSeconds,
    /// A walk takes a key's directory for a leaf and does not look for keys below it.
    WalksPastKeysBelowKeys,
    /// A drive reports staged contents as thrown away and keeps them.
    KeepsDiscardedStaging,
    /// A successor takes its predecessor's markers for its own, and rebuilds.
    RebuildsBeforeMarkersMoved,
    /// A completion proof is issued without looking at the target's own shards.
    ProvesWithoutChecking,
    /// Cleanup takes the records of predecessors that the proof refers to.
    DeletesReferencedAuthority,
    /// A generation goes on at its cursor although the target's mount has changed.
    ResumesOnChangedMount,
    /// A rebuild passes over null versions, and takes its target for whole.
    PassesOverNullVersions,
    /// A change of the table catalog does not look for fences.
    ForgetsFences,
    /// Whoever may do everything passes by what the table catalog says of an object.
    LetsRootPass,
    /// A migration does not wait for changes that are under way.
    ForgetsTheDrain,
    /// A strong snapshot of version 2 is overwritten by one of version 1.
    DowngradesSnapshots,
    /// A cancellation releases the fence of a bucket whose strong state has moved on.
    ReleasesAdvancedFences,
}

impl Defect {
    /// Every defect there is.
    pub const ALL: &[Self] = &[
        Self::AcknowledgesBeforeQuorum,
        Self::SkipsDirectorySync,
        Self::NamesBeforeContents,
        Self::KeepsTwoNullVersions,
        Self::HealsWithoutChecking,
        Self::RefusesTheUnknown,
        Self::ReturnsShardsUnchecked,
        Self::PurgesPartialMarkers,
        Self::StampsWholeSeconds,
        Self::WalksPastKeysBelowKeys,
        Self::KeepsDiscardedStaging,
        Self::RebuildsBeforeMarkersMoved,
        Self::ProvesWithoutChecking,
        Self::DeletesReferencedAuthority,
        Self::ResumesOnChangedMount,
        Self::PassesOverNullVersions,
        Self::ForgetsFences,
        Self::LetsRootPass,
        Self::ForgetsTheDrain,
        Self::DowngradesSnapshots,
        Self::ReleasesAdvancedFences,
    ];
}
