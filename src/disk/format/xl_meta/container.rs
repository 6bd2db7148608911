//! The file: magic, versions, checksum, inline values.

use super::Version;
use crate::disk::format::FormatError;
use crate::value::VersionId;

/// All versions of one key on one drive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct XlMeta {
    versions: Vec<Version>,
    inline: InlineBlock,
}

/// The values that lie in the file itself: one framed shard per inline version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InlineBlock {
    entries: Vec<(String, Vec<u8>)>,
}

impl XlMeta {
    /// Reads a whole file.
    ///
    /// # Errors
    ///
    /// Its container, a version or the inline block does not decode, or the checksum is wrong. Nothing of such
    /// a file may be used.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let _ = bytes;
        unimplemented!("being written")
    }

    /// The whole file. What was parsed and not changed comes out byte for byte.
    pub fn encode(&self) -> Vec<u8> {
        unimplemented!("being written")
    }

    /// The versions, newest first, free versions included.
    pub fn versions(&self) -> &[Version] {
        &self.versions
    }

    /// Whether there is no version at all.
    pub fn is_empty(&self) -> bool {
        self.versions.is_empty()
    }

    /// The version with this id.
    pub fn find(&self, version: VersionId) -> Option<&Version> {
        self.versions.iter().find(|entry| entry.id() == version)
    }

    /// The newest version that is not free; a delete marker is one.
    pub fn latest(&self) -> Option<&Version> {
        self.versions.iter().find(|entry| !entry.header().is_free())
    }

    /// The framed shard of an inline version; empty for an empty object.
    pub fn inline(&self, version: VersionId) -> Option<&[u8]> {
        let _ = version;
        unimplemented!("being written")
    }

    /// Inline values by their stored names, those that no version owns included.
    pub fn inline_entries(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.inline.entries.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// Puts a version in its place, in place of the one with the same id (which is returned). `inline` is the
    /// framed shard of an inline version; `None` removes the value that the id had.
    pub fn insert(&mut self, version: Version, inline: Option<Vec<u8>>) -> Option<Version> {
        let _ = (version, inline);
        unimplemented!("being written")
    }

    /// Takes a version out, with its inline value.
    pub fn remove(&mut self, version: VersionId) -> Option<Version> {
        let _ = version;
        unimplemented!("being written")
    }

    /// Whether any version keeps its shards in this data directory.
    pub fn uses_data_dir(&self, data_dir: uuid::Uuid) -> bool {
        self.versions
            .iter()
            .filter_map(Version::as_object)
            .any(|object| object.data_dir == data_dir && !object.is_inline() && !object.is_remote())
    }
}
