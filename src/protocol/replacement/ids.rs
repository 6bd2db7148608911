//! The two names that every record carries: the generation, and the set it belongs to.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use serde::Deserializer;
use serde::Serialize;
use serde::Serializer;
use serde::de::Error as _;
use uuid::Uuid;

/// Names one generation, or one transaction: a UUID that is only ever spelt in its canonical form,
/// lower case with hyphens.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GenerationId(pub Uuid);

impl fmt::Display for GenerationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl fmt::Debug for GenerationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for GenerationId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let id = Uuid::try_parse(text).map_err(|_| format!("{text:?} is not a UUID"))?;
        let id = Self(id);
        if id.to_string() == text {
            Ok(id)
        } else {
            Err(format!("{text:?} is not the canonical spelling of a UUID"))
        }
    }
}

impl Serialize for GenerationId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GenerationId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Names one erasure set: `pool_<P>_set_<S>`, both counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId {
    /// The pool.
    pub pool: usize,
    /// The set in it.
    pub set: usize,
}

impl fmt::Display for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pool_{}_set_{}", self.pool, self.set)
    }
}

impl FromStr for SetId {
    type Err = String;

    /// Leading zeros are tolerated, as the released servers tolerate them.
    fn from_str(text: &str) -> Result<Self, String> {
        let index = |digits: &str| {
            let is_decimal = !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit());
            is_decimal.then(|| digits.parse().ok()).flatten()
        };
        match text.split('_').collect::<Vec<_>>()[..] {
            ["pool", pool, "set", set] => index(pool).zip(index(set)),
            _ => None,
        }
        .map(|(pool, set)| Self { pool, set })
        .ok_or_else(|| format!("{text:?} does not name a set as `pool_<P>_set_<S>`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_spelling_names_a_generation() {
        let canonical = "3f0c1d52-7a41-4c1e-9b0a-51d2a7c6e001";
        assert_eq!(canonical.parse::<GenerationId>().unwrap().to_string(), canonical);
        let others = [
            "../x",
            "",
            "3F0C1D52-7A41-4C1E-9B0A-51D2A7C6E001",
            "{3f0c1d52-7a41-4c1e-9b0a-51d2a7c6e001}",
            "3f0c1d527a414c1e9b0a51d2a7c6e001",
            "urn:uuid:3f0c1d52-7a41-4c1e-9b0a-51d2a7c6e001",
        ];
        for other in others {
            assert!(other.parse::<GenerationId>().is_err(), "{other} was taken for an id");
        }
    }

    #[test]
    fn a_set_is_named_by_two_numbers_between_two_words() {
        assert_eq!("pool_0_set_12".parse(), Ok(SetId { pool: 0, set: 12 }));
        assert_eq!("pool_00_set_2".parse(), Ok(SetId { pool: 0, set: 2 }));
        for other in ["", "pool_0", "pool_0_set_", "set_0_pool_0", "pool_+1_set_0", "pool_0_set_0_"]
        {
            assert!(other.parse::<SetId>().is_err(), "{other} was taken for a set");
        }
    }
}
