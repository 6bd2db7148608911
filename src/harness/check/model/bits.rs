//! A small set of small numbers that is copied for nothing.

/// Numbers below [`Bits::CAPACITY`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Bits([u64; 4]);

impl Bits {
    /// The first number that does not fit.
    pub const CAPACITY: usize = 256;

    /// Whether `index` is in it.
    pub fn has(self, index: usize) -> bool {
        self.0[index / 64] & (1 << (index % 64)) != 0
    }

    /// Adds `index`.
    pub fn set(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    /// Takes `index` out.
    pub fn clear(&mut self, index: usize) {
        self.0[index / 64] &= !(1 << (index % 64));
    }

    /// Whether everything in it is in `other` too.
    pub fn is_within(self, other: Self) -> bool {
        self.0.iter().zip(other.0).all(|(mine, its)| mine & !its == 0)
    }
}
