//! The checkpoint: the ledger of the pass that is under way.
//!
//! Its digest covers the compact JSON with a null digest, the three sets sorted and the keys in the order of
//! the record. Older builds of the same servers wrote the keys alphabetically before they took the digest: both
//! are accepted, the first is written.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde::Serialize;
use serde::Serializer;
use serde::ser::SerializeMap as _;
use serde_json::Value;
use uuid::Uuid;

use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::refusal::on_record;
use crate::value::Digest;

/// The schema that is written now.
pub const SCHEMA: u32 = 7;

/// A ledger. The sets name versions of the page under way only: they are emptied at its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Checkpoint {
    /// Whether its bytes have the counters and the digest; schema 5 began without.
    #[serde(skip)]
    pub has_counters: bool,
    /// The schema.
    #[serde(default)]
    pub schema_version: u32,
    /// The generation.
    pub task_id: GenerationId,
    /// When it was saved: seconds since 1970.
    pub checkpoint_time: u64,
    /// The bucket's position in the plan.
    pub current_bucket_index: usize,
    /// Objects listed so far in that bucket; a figure of progress only.
    pub current_object_index: usize,
    /// Versions dealt with.
    pub processed_objects: Vec<String>,
    /// Versions that could not be rebuilt.
    pub failed_objects: Vec<String>,
    /// Versions put off.
    pub skipped_objects: Vec<String>,
    /// Versions rebuilt and read back.
    #[serde(default)]
    pub successful_objects: u64,
    /// Versions that could not be rebuilt, over the whole pass.
    #[serde(default)]
    pub failed_object_count: u64,
    /// Versions put off, over the whole pass.
    #[serde(default)]
    pub skipped_object_count: u64,
    /// Versions left out for being too new; this release leaves none out.
    #[serde(default)]
    pub skipped_new_versions: u64,
    /// Versions left out for having expired.
    #[serde(default)]
    pub skipped_ilm_expired: u64,
    /// Bytes rebuilt.
    #[serde(default)]
    pub processed_bytes: u64,
    /// How many versions there are, where that is known.
    #[serde(default)]
    pub total_objects: u64,
    /// How many bytes there are, where that is known.
    #[serde(default)]
    pub total_bytes: u64,
    /// Which baseline the totals were taken from.
    #[serde(default)]
    pub baseline_generation: Option<u64>,
    /// Whether the totals are known.
    #[serde(default)]
    pub baseline_known: bool,
    /// Whether the counters cannot be relied on any more.
    #[serde(default)]
    pub counter_unknown: bool,
    /// SHA-256 of the rest, in padded base64.
    #[serde(default)]
    pub integrity_digest: Option<String>,
}

impl Serialize for Checkpoint {
    /// The keys that the bytes have, in their order.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema_version", &self.schema_version)?;
        map.serialize_entry("task_id", &self.task_id)?;
        map.serialize_entry("checkpoint_time", &self.checkpoint_time)?;
        map.serialize_entry("current_bucket_index", &self.current_bucket_index)?;
        map.serialize_entry("current_object_index", &self.current_object_index)?;
        map.serialize_entry("processed_objects", &self.processed_objects)?;
        map.serialize_entry("failed_objects", &self.failed_objects)?;
        map.serialize_entry("skipped_objects", &self.skipped_objects)?;
        if self.has_counters {
            map.serialize_entry("successful_objects", &self.successful_objects)?;
            map.serialize_entry("failed_object_count", &self.failed_object_count)?;
            map.serialize_entry("skipped_object_count", &self.skipped_object_count)?;
            map.serialize_entry("skipped_new_versions", &self.skipped_new_versions)?;
            map.serialize_entry("skipped_ilm_expired", &self.skipped_ilm_expired)?;
            map.serialize_entry("processed_bytes", &self.processed_bytes)?;
            map.serialize_entry("total_objects", &self.total_objects)?;
            map.serialize_entry("total_bytes", &self.total_bytes)?;
            map.serialize_entry("baseline_generation", &self.baseline_generation)?;
            map.serialize_entry("baseline_known", &self.baseline_known)?;
            map.serialize_entry("counter_unknown", &self.counter_unknown)?;
            map.serialize_entry("integrity_digest", &self.integrity_digest)?;
        }
        map.end()
    }
}

impl Checkpoint {
    /// The ledger of a pass that has not begun.
    pub fn fresh(generation: GenerationId, now_s: u64) -> Self {
        Self {
            has_counters: true,
            schema_version: SCHEMA,
            task_id: generation,
            checkpoint_time: now_s,
            ..Self::default()
        }
    }

    /// The ledger in `bytes`, whatever release wrote it, without any rule applied.
    ///
    /// # Errors
    ///
    /// What the JSON reader says.
    pub fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let mut checkpoint: Self = serde_json::from_slice(bytes)?;
        let keys: BTreeMap<String, Value> = serde_json::from_slice(bytes)?;
        checkpoint.has_counters = keys.contains_key("counter_unknown");
        Ok(checkpoint)
    }

    /// The ledger in `bytes`, which lie under the name of `generation`, if it can be trusted.
    ///
    /// A ledger of an older schema is known to exist and no more: it comes back fresh, at its own moment.
    ///
    /// # Errors
    ///
    /// [`Refusal::CheckpointRefused`]: the caller flags it and does not go on.
    pub fn read(generation: GenerationId, bytes: &[u8]) -> Result<Self, Refusal> {
        let refuse = |seen: String, expected: &str| {
            Refusal::CheckpointRefused(on_record(Record::Checkpoint, generation, seen, expected))
        };
        let checkpoint =
            Self::parse(bytes).map_err(|error| refuse(error.to_string(), "a checkpoint's JSON"))?;
        if checkpoint.task_id != generation {
            return Err(refuse(format!("one of {}", checkpoint.task_id), &generation.to_string()));
        }
        if checkpoint.schema_version > SCHEMA {
            return Err(refuse(format!("schema {}", checkpoint.schema_version), "at most 7"));
        }
        if checkpoint.schema_version < SCHEMA {
            return Ok(Self::fresh(generation, checkpoint.checkpoint_time));
        }
        match &checkpoint.integrity_digest {
            Some(digest) if checkpoint.has_digest(digest) => Ok(checkpoint),
            Some(digest) => Err(refuse(format!("digest {digest}"), &checkpoint.digest())),
            None => Err(refuse("no digest".to_owned(), &checkpoint.digest())),
        }
    }

    /// Whether `digest` is this ledger's, in either order of its keys.
    pub fn has_digest(&self, digest: &str) -> bool {
        digest == self.digest() || digest == self.digest_of_sorted_keys()
    }

    /// The digest, with the keys in the order of the record.
    pub fn digest(&self) -> String {
        let bytes = serde_json::to_vec(&self.digested()).expect("a checkpoint is plain JSON");
        STANDARD.encode(Digest::of(&bytes).0)
    }

    /// The digest, with the keys in the order of the alphabet.
    pub fn digest_of_sorted_keys(&self) -> String {
        let value = serde_json::to_value(self.digested()).expect("a checkpoint is plain JSON");
        let keys: BTreeMap<_, _> = value.as_object().into_iter().flatten().collect();
        let bytes = serde_json::to_vec(&keys).expect("a checkpoint is plain JSON");
        STANDARD.encode(Digest::of(&bytes).0)
    }

    fn digested(&self) -> Self {
        let mut checkpoint = Self { integrity_digest: None, ..self.clone() };
        checkpoint.processed_objects.sort_unstable();
        checkpoint.failed_objects.sort_unstable();
        checkpoint.skipped_objects.sort_unstable();
        checkpoint
    }

    /// The bytes of this ledger as they are: compact JSON without a newline.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a checkpoint is plain JSON")
    }

    /// The bytes of this ledger saved at `now_s`, with the digest that belongs to them.
    pub fn seal(&self, now_s: u64) -> Vec<u8> {
        let mut sealed = Self { checkpoint_time: now_s, ..self.clone() };
        sealed.integrity_digest = Some(sealed.digest());
        sealed.encode()
    }

    /// Every version that the page under way has dealt with.
    pub fn known(&self) -> BTreeSet<&str> {
        let sets = [&self.processed_objects, &self.failed_objects, &self.skipped_objects];
        sets.into_iter().flatten().map(String::as_str).collect()
    }

    /// Whether nothing stands in it.
    pub fn is_fresh(&self) -> bool {
        Self { integrity_digest: None, ..self.clone() }
            == Self::fresh(self.task_id, self.checkpoint_time)
    }

    /// Whether the pass has left no version out so far.
    pub fn is_clean(&self) -> bool {
        self.failed_object_count == 0 && self.skipped_object_count == 0
    }
}

/// How the ledger names a version of an object: the key's length in bytes, a colon, the key, the version.
///
/// The null version is the nil UUID.
pub fn ledger_key(key: &str, version: Uuid) -> String {
    format!("{}:{key}{}", key.len(), version.hyphenated())
}

/// What a cursor begins with.
const CURSOR: &str = "dw1:";

/// The cursor after a page whose last object is `key`.
pub fn cursor_after(key: &str) -> String {
    format!("{CURSOR}{}", URL_SAFE_NO_PAD.encode(key))
}

/// The key that `cursor` stands on; the next page reads it once more and drops it. `None` for a cursor that
/// is not one: the bucket begins again then.
pub fn cursor_key(cursor: &str) -> Option<String> {
    let key = URL_SAFE_NO_PAD.decode(cursor.strip_prefix(CURSOR)?).ok()?;
    String::from_utf8(key).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_leads_back_to_its_key() {
        assert_eq!(cursor_after("obj/00999.bin"), "dw1:b2JqLzAwOTk5LmJpbg");
        assert_eq!(cursor_key("dw1:b2JqLzAwOTk5LmJpbg").as_deref(), Some("obj/00999.bin"));
        assert_eq!(cursor_key("v1:b2JqLzAwOTk5LmJpbg"), None);
        assert_eq!(cursor_key("dw1:b2JqLzAwOTk5LmJpb==="), None);
    }

    #[test]
    fn the_null_version_is_named_by_the_nil_id() {
        let name = ledger_key("obj/00050.bin", Uuid::nil());
        assert_eq!(name, "13:obj/00050.bin00000000-0000-0000-0000-000000000000");
    }

    #[test]
    fn a_ledger_that_was_touched_is_refused() {
        let id = GenerationId::default();
        let good = Checkpoint { successful_objects: 7, ..Checkpoint::fresh(id, 1) };
        let bytes = good.seal(2);
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(Checkpoint::read(id, &bytes).is_ok());
        let altered = [
            text.replace(":7,\"f", ":8,\"f"),
            text.replace("\"schema_version\":7", "\"schema_version\":8"),
            text.replace("00000000-0000-0000-0000-000000000000", &Uuid::max().to_string()),
            text[..text.len() - 3].to_owned(),
            String::from_utf8(good.encode()).unwrap(),
        ];
        for altered in altered {
            assert_ne!(altered, text);
            assert!(Checkpoint::read(id, altered.as_bytes()).is_err(), "trusted {altered}");
        }
    }

    #[test]
    fn a_ledger_of_an_older_schema_counts_for_nothing() {
        let id = GenerationId::default();
        let old = Checkpoint {
            has_counters: false,
            schema_version: 5,
            current_object_index: 1000,
            processed_objects: vec!["1:a".to_owned()],
            ..Checkpoint::fresh(id, 9)
        };
        assert_eq!(Checkpoint::read(id, &old.encode()), Ok(Checkpoint::fresh(id, 9)));
    }
}
