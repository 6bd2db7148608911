//! The states that a key can be in at one moment of its history, without those that add nothing.

use std::collections::HashMap;
use std::hash::DefaultHasher;
use std::hash::Hash as _;
use std::hash::Hasher as _;

use super::bits::Bits;
use super::stack::Entry;
use super::stack::Stack;

/// One state, and how it was reached as far as that still matters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The versions.
    pub stack: Stack,
    /// Slots of promised writes and of reads that took effect while they are still under way.
    pub done: Bits,
    /// Slots of writes that were never promised and took effect.
    pub spent: Bits,
    /// Contested ids that were given out.
    pub used: Bits,
}

impl Configuration {
    /// Whether whatever can follow `other` can follow this one too.
    fn covers(&self, other: &Self) -> bool {
        self.done == other.done
            && self.stack.len() == other.stack.len()
            && self.spent.is_within(other.spent)
            && self.used.is_within(other.used)
            && self.stack.iter().rev().eq(other.stack.iter().rev())
    }

    fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.done.hash(&mut hasher);
        // Cheap for each entry, because stacks are long; ids tell versions apart, and values null versions.
        let mix = |hash: u64, entry: &Entry| {
            let entry = u64::from(entry.id) << 32 | u64::from(entry.value.unwrap_or(u32::MAX));
            (hash ^ entry).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29)
        };
        self.stack.iter().fold(self.stack.len() as u64, mix).hash(&mut hasher);
        hasher.finish()
    }
}

/// A set of them, none of which covers another that came later.
#[derive(Debug, Default)]
pub struct Configurations {
    all: Vec<Configuration>,
    by_hash: HashMap<u64, Vec<usize>>,
}

/// Up to here, looking at each is faster than hashing.
const FEW: usize = 4;

impl Configurations {
    /// Adds `configuration` unless one that covers it is there; answers whether it was added.
    pub fn insert(&mut self, configuration: Configuration) -> bool {
        if self.by_hash.is_empty() {
            if self.all.iter().any(|known| known.covers(&configuration)) {
                return false;
            }
            self.all.push(configuration);
            if self.all.len() > FEW {
                for (index, known) in self.all.iter().enumerate() {
                    self.by_hash.entry(known.hash()).or_default().push(index);
                }
            }
            return true;
        }
        let alike = self.by_hash.entry(configuration.hash()).or_default();
        if alike.iter().any(|index| self.all[*index].covers(&configuration)) {
            return false;
        }
        alike.push(self.all.len());
        self.all.push(configuration);
        true
    }

    /// All of them, in the order in which they came.
    pub fn into_vec(self) -> Vec<Configuration> {
        self.all
    }
}
