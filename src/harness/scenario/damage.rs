//! What becomes of bytes and records that a fault changes behind a node's back.

use serde::Deserialize;
use serde::Serialize;

/// Which bytes rot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RotTarget {
    /// A part file.
    Part,
    /// An inline value.
    Inline,
    /// The metadata block of an xl.meta.
    XlMeta,
    /// The drive's format.json.
    Format,
}

/// What becomes of a key on one drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Damage {
    /// Nothing is left of it.
    KeyMissing,
    /// Its xl.meta is gone, and its shards lie there still.
    MetaMissing,
    /// Its xl.meta is cut to half its length.
    MetaShort,
    /// Its xl.meta is empty.
    MetaEmpty,
    /// The file of a part is gone.
    PartMissing,
    /// The file of a part is cut to half its length.
    PartShort,
    /// Its newest version is gone.
    NewestMissing,
    /// A delete marker is gone.
    MarkerMissing,
    /// A null version that lies below others is gone.
    NullMissing,
    /// A version has other tags, and is the same otherwise.
    TagsDiffer,
    /// A version has other metadata of its user, and is the same otherwise.
    MetadataDiffers,
    /// Shards lie there that no version has.
    Orphan,
}

/// What a stranger's hand makes of a record: a condition under which a replacement has to stop, called by its number,
/// or, where there is none, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Tampering {
    /// The intent has a schema that a later release writes.
    E3,
    /// The intent is torn, beside its seal.
    E5,
    /// The intent has another execution protocol.
    E7,
    /// The intent's targets are not the ones that its identities are about.
    E9,
    /// The lock of the target's execution lease is removed.
    E25,
    /// The target's marker is longer than an owner may be.
    E27,
    /// The target's marker names a stranger.
    E28,
    /// The intent is about another slot, in every place.
    E33,
    /// Another drive holds an intent of the same revision that says something else.
    E50,
    /// The ledger counts one object more than its digest is about.
    E62,
    /// The intent is torn, and was not sealed yet.
    #[serde(rename = "torn_unsealed")]
    TornUnsealed,
    /// A formatted target that is not marked yet is marked by a stranger.
    #[serde(rename = "second_marker")]
    SecondMarker,
}
