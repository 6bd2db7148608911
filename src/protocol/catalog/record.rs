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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::catalog::commit_record::CommitRecord;
    use crate::protocol::catalog::commit_record::Status;
    use crate::protocol::catalog::entry::TableEntry;
    use crate::protocol::catalog::fixture;
    use crate::protocol::catalog::fixture::BUCKET;
    use crate::protocol::catalog::keys;

    fn read(key: &str, text: &str) -> Result<TableEntry, Refusal> {
        TableEntry::decode(BUCKET, key, text.as_bytes())
    }

    #[test]
    fn f6_unknown_fields_and_versions_are_refused() {
        let table = fixture::table("orders");
        let key = table.key(BUCKET).unwrap();
        let text = String::from_utf8(table.encode()).unwrap();
        assert_eq!(read(&key, &text), Ok(table));
        let unknown = text.replacen('{', r#"{"extra":1,"#, 1);
        assert_eq!(read(&key, &unknown).unwrap_err().class, Class::Invalid);
        let newer = text.replacen(r#""version":1"#, r#""version":2"#, 1);
        assert_eq!(read(&key, &newer).unwrap_err().class, Class::Invalid);
        let bare = text.replacen(r#""properties":{},"#, "", 1);
        assert!(read(&key, &bare).is_ok(), "missing properties are none");
        assert!(read(&key, &text[1..]).is_err());
    }

    #[test]
    fn f7_a_record_under_anothers_key_is_refused() {
        let table = fixture::table("orders");
        let other = fixture::table("other").key(BUCKET).unwrap();
        let refusal = TableEntry::decode(BUCKET, &other, &table.encode()).unwrap_err();
        assert_eq!(refusal.class, Class::Invalid);
        let key = table.key(BUCKET).unwrap();
        assert!(TableEntry::decode("lake2", &key, &table.encode()).is_err());
        let commit = fixture::keyed_commit(1, Status::Committed);
        let wrong = keys::commit(BUCKET, &commit.table_id, "another");
        assert!(CommitRecord::decode(BUCKET, &wrong, &commit.encode()).is_err());
        let right = keys::idempotency_record(BUCKET, &commit.table_id, "key-1");
        assert!(CommitRecord::decode_idempotency(BUCKET, &right, &commit.encode()).is_ok());
        let wrong = keys::idempotency_record(BUCKET, &commit.table_id, "key-2");
        assert!(CommitRecord::decode_idempotency(BUCKET, &wrong, &commit.encode()).is_err());
    }
}
