//! Steps about what the drives hold of the catalog: what they have to hold, and what a stranger's hand does to the
//! strong snapshot behind the nodes' backs.

use serde::Deserialize;
use serde::Serialize;

use crate::harness::workload::catalog::FenceSeen;

/// What the drives have to hold, within a few seconds: what is not named may be as it likes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Holds {
    /// The strong snapshot: its version, or that there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotHeld>,
    /// Whether the registry fence is up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_fence: Option<bool>,
    /// The warehouse that `fence` is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warehouse: Option<String>,
    /// How its fence stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fence: Option<FenceHeld>,
}

/// The strong snapshot, as drives have to hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotHeld {
    /// There is none.
    Absent,
    /// One of version 1.
    V1,
    /// One of version 2.
    V2,
}

/// The fence of a warehouse, as drives have to hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FenceHeld {
    /// There is none.
    Absent,
    /// A migration has begun.
    Preparing,
    /// A migration has copied it.
    Materialized,
}

impl SnapshotHeld {
    /// Whether this is the version that was seen.
    pub fn is(self, version: Option<u32>) -> bool {
        version
            == match self {
                Self::Absent => None,
                Self::V1 => Some(1),
                Self::V2 => Some(2),
            }
    }
}

impl FenceHeld {
    /// Whether this is how a fence was seen.
    pub fn is(self, seen: Option<&FenceSeen>) -> bool {
        match (self, seen) {
            (Self::Absent, None) => true,
            (Self::Preparing, Some(seen)) => seen.status == "PREPARING",
            (Self::Materialized, Some(seen)) => seen.status == "MATERIALIZED",
            (_, None) | (Self::Absent, Some(_)) => false,
        }
    }
}

/// What a hand does to the strong snapshot on every drive, whoever runs meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hand {
    /// It is copied under a name.
    Keep(String),
    /// What was copied under a name is put in its place.
    PutBack(String),
    /// It is removed.
    Remove(super::Nothing),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_drives_have_to_hold_is_compared_with_what_they_hold() {
        let text = "{ snapshot: v2, registry_fence: true, warehouse: lake, fence: preparing }";
        let holds: Holds = crate::yaml::parse("holds", text).unwrap();
        let (snapshot, fence) = (holds.snapshot.unwrap(), holds.fence.unwrap());
        assert!(snapshot.is(Some(2)) && !snapshot.is(Some(1)) && !snapshot.is(None));
        let seen = |status: &str| FenceSeen { bucket: "lake".into(), status: status.into() };
        assert!(fence.is(Some(&seen("PREPARING"))) && !fence.is(Some(&seen("MATERIALIZED"))));
        assert!(!fence.is(None) && FenceHeld::Absent.is(None));
        assert!(!FenceHeld::Absent.is(Some(&seen("PREPARING"))));
    }

    #[test]
    fn a_hand_keeps_puts_back_or_removes() {
        for text in ["{ keep: older }", "{ put_back: older }", "{ remove: {} }"] {
            crate::yaml::parse::<Hand>("hand", text).unwrap();
        }
        assert!(crate::yaml::parse::<Hand>("hand", "{ burn: {} }").is_err());
    }
}
