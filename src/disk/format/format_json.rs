//! `format.json`: which deployment a drive belongs to, and its slot there.

use serde::Deserialize;
use serde::Serialize;
use uuid::Uuid;

use super::FormatError;

/// The identity of a drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormatJson {
    /// Always `1`.
    pub version: String,
    /// `xl`, or `xl-single` for a deployment of one drive.
    pub format: String,
    /// The deployment.
    pub id: Uuid,
    /// The drive in it.
    pub xl: Xl,
}

/// The drive and its peers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Xl {
    /// Always `3`.
    pub version: String,
    /// This drive.
    pub this: Uuid,
    /// All drives: `sets[set][slot]`.
    pub sets: Vec<Vec<Uuid>>,
    /// How keys are placed.
    #[serde(rename = "distributionAlgo")]
    pub distribution_algorithm: String,
}

impl FormatJson {
    /// The format of the drive `this` of a new deployment.
    pub fn new(deployment: Uuid, this: Uuid, sets: Vec<Vec<Uuid>>) -> Self {
        let single = sets.len() == 1 && sets[0].len() == 1;
        Self {
            version: "1".to_owned(),
            format: if single { "xl-single" } else { "xl" }.to_owned(),
            id: deployment,
            xl: Xl {
                version: "3".to_owned(),
                this,
                sets,
                distribution_algorithm: "SIPMOD+PARITY".to_owned(),
            },
        }
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    ///
    /// It is no such file, of an unknown version, or breaks a rule.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let format: Self = serde_json::from_slice(bytes)
            .map_err(|error| FormatError::contradiction(format!("no format.json: {error}")))?;
        format.check()?;
        Ok(format)
    }

    /// The file.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a format has text keys only")
    }

    /// Set and slot of this drive.
    pub fn place(&self) -> (usize, usize) {
        self.place_of(self.xl.this).expect("a checked format names its own drive")
    }

    /// Set and slot of another drive of the deployment.
    pub fn place_of(&self, drive: Uuid) -> Option<(usize, usize)> {
        self.xl.sets.iter().enumerate().find_map(|(set, drives)| {
            drives.iter().position(|id| *id == drive).map(|slot| (set, slot))
        })
    }

    /// Whether two drives belong to one deployment: all but `this` is equal.
    pub fn is_peer_of(&self, other: &Self) -> bool {
        let mut other = other.clone();
        other.xl.this = self.xl.this;
        *self == other
    }

    /// The format of the peer in this set and slot.
    pub fn for_place(&self, set: usize, slot: usize) -> Option<Self> {
        let this = *self.xl.sets.get(set)?.get(slot)?;
        let mut peer = self.clone();
        peer.xl.this = this;
        Some(peer)
    }

    fn check(&self) -> Result<(), FormatError> {
        if self.version != "1" {
            return Err(FormatError::Version {
                what: "format.json",
                version: self.version.clone(),
            });
        }
        if self.xl.version != "3" {
            return Err(FormatError::Version {
                what: "the xl part of format.json",
                version: self.xl.version.clone(),
            });
        }
        let broken = |rule: &str| Err(FormatError::contradiction(format!("format.json: {rule}")));
        let impossible = |id: &Uuid| id.is_nil() || id.is_max();
        if !matches!(self.format.as_str(), "xl" | "xl-single") {
            return broken("the format is neither `xl` nor `xl-single`");
        }
        if !matches!(self.xl.distribution_algorithm.as_str(), "SIPMOD+PARITY" | "SIPMOD" | "CRCMOD")
        {
            return broken("the distribution algorithm is unknown");
        }
        if impossible(&self.id) {
            return broken("the deployment id is nil or all ones");
        }
        let slots = self.xl.sets.first().map_or(0, Vec::len);
        if !(1..=16).contains(&slots) || self.xl.sets.iter().any(|set| set.len() != slots) {
            return broken("the sets are empty, too large or of unequal size");
        }
        let mut drives = self.xl.sets.concat();
        if drives.iter().any(impossible) {
            return broken("a drive id is nil or all ones");
        }
        drives.sort_unstable();
        if drives.windows(2).any(|pair| pair[0] == pair[1]) {
            return broken("a drive id occurs twice");
        }
        if drives.binary_search(&self.xl.this).is_err() {
            return broken("the drive's own id is not among its sets");
        }
        Ok(())
    }
}
