//! The file: magic, versions, checksum, inline values.

use std::collections::BTreeSet;

use uuid::Uuid;
use xxhash_rust::xxh64::xxh64;

use super::Body;
use super::Version;
use crate::disk::format::FormatError;
use crate::disk::format::msgpack::Reader;
use crate::disk::format::msgpack::put_binary;
use crate::disk::format::msgpack::put_map;
use crate::disk::format::msgpack::put_text;
use crate::disk::format::msgpack::put_uint;
use crate::value::VersionId;

const MAGIC: &[u8; 4] = b"XL2 ";
const MAJOR: u16 = 1;
const MINOR: u16 = 3;
const HEADER_VERSION: u64 = 3;
const META_VERSION: u64 = 3;
const INLINE_VERSION: u8 = 1;
/// The most versions that one file may hold.
pub const VERSIONS_MAX: usize = 10_000;

/// All versions of one key on one drive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct XlMeta {
    pub(super) versions: Vec<Version>,
    pub(super) inline: InlineBlock,
}

/// The values that lie in the file itself: one framed shard per inline version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InlineBlock {
    pub(super) entries: Vec<(String, Vec<u8>)>,
}

impl XlMeta {
    /// Reads a whole file.
    ///
    /// # Errors
    ///
    /// Its container, a header or the inline block does not decode, or the checksum is wrong. Nothing of such
    /// a file may be used by a node.
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let (meta, inline) = Self::parse_damaged(bytes)?;
        inline.map(|()| meta)
    }

    /// As [`XlMeta::parse`], but a broken inline block costs only the inline values: it is empty then, and
    /// the second value says why. For a witness; a node has it healed instead.
    ///
    /// # Errors
    ///
    /// The container or a header does not decode, or the checksum is wrong.
    pub fn parse_damaged(bytes: &[u8]) -> Result<(Self, Result<(), FormatError>), FormatError> {
        let mut reader = Reader::new(bytes);
        if reader.take(4, "the magic")? != MAGIC {
            return Err(FormatError::Malformed { at: 0, what: "the magic of an xl.meta" });
        }
        let numbers = reader.take(4, "the version of the container")?;
        let major = u16::from_le_bytes([numbers[0], numbers[1]]);
        let minor = u16::from_le_bytes([numbers[2], numbers[3]]);
        if (major, minor) != (MAJOR, MINOR) {
            let version = format!("{major}.{minor}");
            return Err(FormatError::Version { what: "an xl.meta", version });
        }
        let length = word(&mut reader, 0xc6, "the length of the metadata")?;
        let block = reader.take(length as usize, "the metadata")?;
        let checksum = word(&mut reader, 0xce, "the checksum of the metadata")?;
        if checksum != xxh64(block, 0) as u32 {
            return Err(FormatError::Checksum { what: "the metadata" });
        }
        let versions = parse_versions(block)?;
        let rest = reader.take(reader.remaining(), "the inline block")?;
        Ok(match InlineBlock::parse(rest) {
            Ok(inline) => (Self { versions, inline }, Ok(())),
            Err(error) => (Self { versions, inline: InlineBlock::default() }, Err(error)),
        })
    }

    /// The whole file. What was parsed and not changed comes out byte for byte.
    pub fn encode(&self) -> Vec<u8> {
        let mut block = Vec::with_capacity(1024);
        put_uint(&mut block, HEADER_VERSION);
        put_uint(&mut block, META_VERSION);
        put_uint(&mut block, self.versions.len() as u64);
        for version in &self.versions {
            put_binary(&mut block, version.header_bytes());
            put_binary(&mut block, version.body_bytes());
        }
        let mut file = Vec::with_capacity(block.len() + 64);
        file.extend_from_slice(MAGIC);
        file.extend_from_slice(&MAJOR.to_le_bytes());
        file.extend_from_slice(&MINOR.to_le_bytes());
        file.push(0xc6);
        file.extend_from_slice(&(block.len() as u32).to_be_bytes());
        file.extend_from_slice(&block);
        file.push(0xce);
        file.extend_from_slice(&(xxh64(&block, 0) as u32).to_be_bytes());
        self.inline.encode(&mut file);
        file
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
        let entry = self.inline.entries.iter().find(|(name, _)| names(name, version));
        entry.map(|(_, value)| value.as_slice())
    }

    /// Inline values by their stored names, those that no version owns included.
    pub fn inline_entries(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.inline.entries.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// Stored names of inline values that no version owns.
    pub fn ownerless_inline(&self) -> Vec<&str> {
        let may_own = |body: &Body| match body {
            Body::Object(object) => object.is_inline(),
            Body::Marker(_) => false,
            Body::Opaque => true,
        };
        let owners = self.versions.iter().filter(|version| may_own(version.body()));
        let owners: BTreeSet<VersionId> = owners.map(Version::id).collect();
        let spelt: BTreeSet<String> = owners.iter().map(ToString::to_string).collect();
        let owned = |name: &str| {
            spelt.contains(name)
                || owners.contains(&VersionId::NULL) && names(name, VersionId::NULL)
        };
        self.inline_entries().map(|(name, _)| name).filter(|name| !owned(name)).collect()
    }

    /// Puts a version in its place, in place of the one with the same id (which is returned). `inline` is the
    /// framed shard of an inline version; `None` removes the value that the id had.
    pub fn insert(&mut self, version: Version, inline: Option<Vec<u8>>) -> Option<Version> {
        let id = version.id();
        let replaced = self.take(id);
        match (inline, self.inline.entries.iter_mut().find(|(name, _)| names(name, id))) {
            (Some(value), Some(entry)) => *entry = (id.to_string(), value),
            (Some(value), None) => self.inline.entries.push((id.to_string(), value)),
            (None, _) => self.inline.remove(id),
        }
        self.versions.push(version);
        self.versions.sort_by(|one, other| one.header().newest_first(other.header()));
        replaced
    }

    /// Adds a version beside the one with the same id, as no sound writer does. For planted defects and tests.
    pub fn insert_twice(&mut self, version: Version) {
        self.versions.push(version);
        self.versions.sort_by(|one, other| one.header().newest_first(other.header()));
    }

    /// Takes a version out, with its inline value.
    pub fn remove(&mut self, version: VersionId) -> Option<Version> {
        self.inline.remove(version);
        self.take(version)
    }

    /// Takes an inline value out by its stored name, whoever owns it.
    pub fn remove_inline(&mut self, name: &str) {
        self.inline.entries.retain(|(stored, _)| stored != name);
    }

    fn take(&mut self, version: VersionId) -> Option<Version> {
        let at = self.versions.iter().position(|entry| entry.id() == version)?;
        let taken = self.versions.remove(at);
        // A file with one id twice was written by mistake; replacing the id ends that.
        self.versions.retain(|entry| entry.id() != version);
        Some(taken)
    }

    /// Whether any version keeps its shards in this data directory.
    pub fn uses_data_dir(&self, data_dir: Uuid) -> bool {
        self.versions
            .iter()
            .filter_map(Version::as_object)
            .any(|object| object.data_dir == data_dir && !object.is_inline() && !object.is_remote())
    }
}

impl InlineBlock {
    fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut reader = Reader::new(bytes);
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        if reader.take(1, "the inline block")? != [INLINE_VERSION] {
            let version = bytes[0].to_string();
            return Err(FormatError::Version { what: "the inline block", version });
        }
        let pairs = reader.map("the inline block")?;
        let mut entries = Vec::<(String, Vec<u8>)>::new();
        for _ in 0..pairs {
            let name = reader.text("the name of an inline value")?.to_owned();
            let value = reader.binary("an inline value")?.to_vec();
            entries.push((name, value));
        }
        reader.finish("the end of the inline block")?;
        let mut seen = entries.iter().map(|(name, _)| name).collect::<Vec<_>>();
        seen.sort_unstable();
        if seen.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(FormatError::contradiction("an inline value stands twice"));
        }
        Ok(Self { entries })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        if self.entries.is_empty() {
            return;
        }
        out.push(INLINE_VERSION);
        put_map(out, self.entries.len());
        for (name, value) in &self.entries {
            put_text(out, name);
            put_binary(out, value);
        }
    }

    fn remove(&mut self, version: VersionId) {
        self.entries.retain(|(name, _)| !names(name, version));
    }
}

/// Whether an inline value's name means this version; the null version has two spellings.
fn names(name: &str, version: VersionId) -> bool {
    let nil = version.is_null() && Uuid::try_parse(name).is_ok_and(|id| id.is_nil());
    nil || name == version.to_string()
}

fn word(reader: &mut Reader<'_>, marker: u8, what: &'static str) -> Result<u32, FormatError> {
    let at = reader.position();
    let bytes = reader.take(5, what)?;
    if bytes[0] != marker {
        return Err(FormatError::Malformed { at, what });
    }
    Ok(u32::from_be_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]))
}

fn parse_versions(block: &[u8]) -> Result<Vec<Version>, FormatError> {
    let mut reader = Reader::new(block);
    let header_version = reader.uint(255, "the version of headers")?;
    let meta_version = reader.uint(255, "the version of bodies")?;
    if !(1..=HEADER_VERSION).contains(&header_version) || meta_version > META_VERSION {
        let version = format!("{header_version}/{meta_version}");
        return Err(FormatError::Version { what: "the metadata", version });
    }
    let count = reader.uint(VERSIONS_MAX as u64, "the number of versions")? as usize;
    let mut versions = Vec::new();
    for _ in 0..count {
        let header = reader.binary("a version header")?;
        let body = reader.binary("a version body")?;
        versions.push(Version::parse_as(header_version, header, body)?);
    }
    reader.finish("the end of the metadata")?;
    Ok(versions)
}
