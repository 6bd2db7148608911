//! What all records have in common: how they are read, and that each lies where its own identity puts it.
//!
//! # Sources
//!
//! Specification of the catalog §3.2 (unknown fields, identity against key), F6, F7.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;

/// A record of the catalog that lies under a key of its own in the meta bucket.
pub trait Record: Serialize + DeserializeOwned {
    /// What it is, in words.
    const KIND: &'static str;

    /// The bucket that it names, where it names one.
    fn bucket(&self) -> Option<&str>;

    /// The key that its own identity gives it in the folder of `bucket`.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`] when its identity is no identity.
    fn key(&self, bucket: &str) -> Result<String, Refusal>;

    /// Checks what its type does not say: versions, constants, forms.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`].
    fn check(&self) -> Result<(), Refusal>;

    /// Its bytes: compact JSON, `null`s written.
    fn encode(&self) -> Vec<u8> {
        compact(self)
    }

    /// The record that lies under `key` in the folder of `bucket`.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`]: unknown fields, another version, or an identity that belongs under another key.
    fn decode(bucket: &str, key: &str, bytes: &[u8]) -> Result<Self, Refusal> {
        let record: Self = parse(Self::KIND, key, bytes)?;
        record.check()?;
        if record.bucket().is_some_and(|named| named != bucket) || record.key(bucket)? != key {
            let kind = Self::KIND;
            return Err(Class::Invalid.because(format!("the {kind} under {key} belongs elsewhere")));
        }
        Ok(record)
    }
}

/// The bytes of any record: compact JSON.
pub fn compact<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("records are made of texts, numbers and lists of them")
}

/// Reads a record without looking at its identity.
pub(crate) fn parse<T: DeserializeOwned>(
    kind: &str,
    key: &str,
    bytes: &[u8],
) -> Result<T, Refusal> {
    serde_json::from_slice(bytes)
        .map_err(|error| Class::Invalid.because(format!("the {kind} under {key}: {error}")))
}

/// Refuses any version but `expected`.
pub(crate) fn check_version(kind: &str, version: u32, expected: u32) -> Result<(), Refusal> {
    if version == expected {
        return Ok(());
    }
    Err(Class::Invalid.because(format!("a {kind} of version {version}, not {expected}")))
}
