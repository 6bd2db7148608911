//! Bodies from bytes and back.
//!
//! The order of keys, and where nil stands and where an empty collection, are the format's: the signature
//! depends on them.

use std::collections::BTreeMap;

use uuid::Uuid;

use super::MarkerBody;
use super::ObjectBody;
use super::Part;
use crate::disk::format::FormatError;
use crate::disk::format::msgpack::Reader;
use crate::disk::format::msgpack::put_array;
use crate::disk::format::msgpack::put_binary;
use crate::disk::format::msgpack::put_int;
use crate::disk::format::msgpack::put_map;
use crate::disk::format::msgpack::put_nil;
use crate::disk::format::msgpack::put_text;
use crate::disk::format::msgpack::put_uint;
use crate::value::VersionId;

/// Numbers of shards that are believed on the way in; whether they are possible is checked later.
const SHARDS_MAX: u64 = 255;

/// The arrays that describe parts, as stored.
#[derive(Default)]
struct PartArrays {
    numbers: Vec<u64>,
    etags: Option<Vec<String>>,
    sizes: Vec<u64>,
    actual_sizes: Option<Vec<i64>>,
    indexes: Option<Vec<Vec<u8>>>,
}

impl ObjectBody {
    /// Reads the value of `V2Obj`.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        let pairs = reader.map("an object")?;
        let mut seen = Vec::new();
        let mut parts = PartArrays::default();
        let mut body = Self {
            version: VersionId::NULL,
            data_dir: Uuid::nil(),
            erasure_algorithm: 0,
            data: 0,
            parity: 0,
            block_bytes: 0,
            shard: 0,
            distribution: Vec::new(),
            checksum_algorithm: 0,
            parts: Vec::new(),
            size: 0,
            modtime_ns: 0,
            system: BTreeMap::new(),
            user: BTreeMap::new(),
            unknown: Vec::new(),
        };
        for _ in 0..pairs {
            let key = reader.text("a key of an object")?;
            match key {
                "ID" => body.version = VersionId(reader.fixed("ID")?),
                "DDir" => body.data_dir = Uuid::from_bytes(reader.fixed("DDir")?),
                "EcAlgo" => body.erasure_algorithm = reader.uint(SHARDS_MAX, "EcAlgo")?,
                "EcM" => body.data = reader.uint(SHARDS_MAX, "EcM")? as usize,
                "EcN" => body.parity = reader.uint(SHARDS_MAX, "EcN")? as usize,
                "EcBSize" => body.block_bytes = reader.uint(1 << 40, "EcBSize")?,
                "EcIndex" => body.shard = reader.uint(SHARDS_MAX, "EcIndex")? as usize,
                "EcDist" => {
                    body.distribution =
                        array(reader, "EcDist", |r| Ok(r.uint(SHARDS_MAX, "EcDist")? as u8))?;
                }
                "CSumAlgo" => body.checksum_algorithm = reader.uint(SHARDS_MAX, "CSumAlgo")?,
                "PartNums" => {
                    parts.numbers = array(reader, "PartNums", |r| r.uint(1 << 32, "PartNums"))?;
                }
                "PartETags" => {
                    parts.etags = optional(reader, |r| {
                        array(r, "PartETags", |r| Ok(r.text("PartETags")?.to_owned()))
                    })?;
                }
                "PartSizes" => {
                    parts.sizes = array(reader, "PartSizes", |r| r.uint(1 << 62, "PartSizes"))?;
                }
                "PartASizes" => {
                    parts.actual_sizes =
                        optional(reader, |r| array(r, "PartASizes", |r| r.int("PartASizes")))?;
                }
                "PartIdx" => {
                    parts.indexes = optional(reader, |r| {
                        array(r, "PartIdx", |r| Ok(r.binary("PartIdx")?.to_vec()))
                    })?;
                }
                "Size" => body.size = reader.uint(1 << 62, "Size")?,
                "MTime" => body.modtime_ns = reader.int("MTime")?,
                "MetaSys" => body.system = optional(reader, system_map)?.unwrap_or_default(),
                "MetaUsr" => body.user = optional(reader, user_map)?.unwrap_or_default(),
                _ => {
                    let value = reader.skip("an unknown value")?.to_vec();
                    body.unknown.push((key.to_owned(), value));
                }
            }
            once(&mut seen, key)?;
        }
        for key in ["ID", "DDir", "EcM", "EcN", "EcBSize", "EcIndex", "EcDist", "Size", "MTime"] {
            if !seen.contains(&key) {
                return Err(FormatError::contradiction(format!("an object has no {key}")));
            }
        }
        body.parts = parts.join()?;
        Ok(body)
    }

    /// Appends the value of `V2Obj`.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.encode_as(out, self.shard, true);
    }

    /// Appends what the signature is taken of: no shard number, no maps, no ETags where all are empty.
    pub(super) fn encode_for_signature(&self, out: &mut Vec<u8>) {
        self.encode_as(out, 0, false);
    }

    fn encode_as(&self, out: &mut Vec<u8>, shard: usize, whole: bool) {
        let unknown = if whole { self.unknown.as_slice() } else { &[] };
        let known = if self.parts.is_empty() { 17 } else { 18 };
        // Always the two-byte form of the length.
        out.push(0xde);
        out.extend_from_slice(&((known + unknown.len()) as u16).to_be_bytes());
        put_text(out, "ID");
        put_binary(out, &self.version.0);
        put_text(out, "DDir");
        put_binary(out, self.data_dir.as_bytes());
        put_text(out, "EcAlgo");
        put_uint(out, self.erasure_algorithm);
        put_text(out, "EcM");
        put_uint(out, self.data as u64);
        put_text(out, "EcN");
        put_uint(out, self.parity as u64);
        put_text(out, "EcBSize");
        put_uint(out, self.block_bytes);
        put_text(out, "EcIndex");
        put_uint(out, shard as u64);
        put_text(out, "EcDist");
        put_array(out, self.distribution.len());
        self.distribution.iter().for_each(|shard| put_uint(out, u64::from(*shard)));
        put_text(out, "CSumAlgo");
        put_uint(out, self.checksum_algorithm);
        self.encode_parts(out, whole);
        put_text(out, "Size");
        put_uint(out, self.size);
        put_text(out, "MTime");
        put_int(out, self.modtime_ns);
        put_text(out, "MetaSys");
        match self.system.len() {
            0 => put_nil(out),
            _ if !whole => put_nil(out),
            _ => put_system(out, &self.system),
        }
        put_text(out, "MetaUsr");
        if self.user.is_empty() || !whole {
            put_nil(out);
        } else {
            put_map(out, self.user.len());
            for (key, value) in &self.user {
                put_text(out, key);
                put_text(out, value);
            }
        }
        put_unknown(out, unknown);
    }

    fn encode_parts(&self, out: &mut Vec<u8>, whole: bool) {
        let count = self.parts.len();
        let no_etags = count == 0 || (!whole && self.parts.iter().all(|part| part.etag.is_empty()));
        put_text(out, "PartNums");
        put_array(out, count);
        self.parts.iter().for_each(|part| put_uint(out, part.number as u64));
        put_text(out, "PartETags");
        if no_etags {
            put_nil(out);
        } else {
            put_array(out, count);
            self.parts.iter().for_each(|part| put_text(out, &part.etag));
        }
        put_text(out, "PartSizes");
        put_array(out, count);
        self.parts.iter().for_each(|part| put_uint(out, part.size));
        put_text(out, "PartASizes");
        if count == 0 {
            put_nil(out);
        } else {
            put_array(out, count);
            self.parts.iter().for_each(|part| put_int(out, part.actual_size));
        }
        if count > 0 {
            put_text(out, "PartIdx");
            put_array(out, count);
            self.parts.iter().for_each(|part| put_binary(out, &part.index));
        }
    }
}

impl MarkerBody {
    /// Reads the value of `DelObj`.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self, FormatError> {
        let pairs = reader.map("a delete marker")?;
        let mut seen = Vec::new();
        let mut body = Self {
            version: VersionId::NULL,
            modtime_ns: 0,
            system: BTreeMap::new(),
            unknown: Vec::new(),
        };
        for _ in 0..pairs {
            let key = reader.text("a key of a delete marker")?;
            match key {
                "ID" => body.version = VersionId(reader.fixed("ID")?),
                "MTime" => body.modtime_ns = reader.int("MTime")?,
                "MetaSys" => body.system = system_map(reader)?,
                _ => {
                    let value = reader.skip("an unknown value")?.to_vec();
                    body.unknown.push((key.to_owned(), value));
                }
            }
            once(&mut seen, key)?;
        }
        for key in ["ID", "MTime"] {
            if !seen.contains(&key) {
                return Err(FormatError::contradiction(format!("a delete marker has no {key}")));
            }
        }
        Ok(body)
    }

    /// Appends the value of `DelObj`.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.encode_as(out, &self.system, &self.unknown);
    }

    /// Appends what the signature is taken of.
    pub(super) fn encode_for_signature(&self, out: &mut Vec<u8>) {
        self.encode_as(out, &BTreeMap::new(), &[]);
    }

    fn encode_as(
        &self,
        out: &mut Vec<u8>,
        system: &BTreeMap<String, Vec<u8>>,
        unknown: &[(String, Vec<u8>)],
    ) {
        put_map(out, 3 + unknown.len());
        put_text(out, "ID");
        put_binary(out, &self.version.0);
        put_text(out, "MTime");
        put_int(out, self.modtime_ns);
        put_text(out, "MetaSys");
        put_system(out, system);
        put_unknown(out, unknown);
    }
}

impl PartArrays {
    fn join(self) -> Result<Vec<Part>, FormatError> {
        let count = self.numbers.len();
        let actual_sizes = self.actual_sizes.unwrap_or_default();
        if self.sizes.len() != count || actual_sizes.len() != count {
            return Err(FormatError::contradiction(format!(
                "{count} part numbers, {} sizes and {} actual sizes",
                self.sizes.len(),
                actual_sizes.len()
            )));
        }
        let mut etags = self.etags.filter(|etags| etags.len() == count).unwrap_or_default();
        let mut indexes = self.indexes.filter(|it| it.len() == count).unwrap_or_default();
        etags.resize(count, String::new());
        indexes.resize(count, Vec::new());
        let parts = self.numbers.into_iter().zip(self.sizes).zip(actual_sizes);
        let parts =
            parts.zip(etags).zip(indexes).map(|((((number, size), actual_size), etag), index)| {
                Part { number: number as usize, size, actual_size, etag, index }
            });
        Ok(parts.collect())
    }
}

fn once<'a>(seen: &mut Vec<&'a str>, key: &'a str) -> Result<(), FormatError> {
    if seen.contains(&key) {
        return Err(FormatError::contradiction(format!("the key {key} stands twice")));
    }
    // Past a few dozen unknown keys nobody honest wrote this, and looking for doubles grows costly.
    if seen.len() >= 64 {
        return Err(FormatError::contradiction("a version has more than 64 keys"));
    }
    seen.push(key);
    Ok(())
}

fn array<'a, T>(
    reader: &mut Reader<'a>,
    what: &'static str,
    element: impl Fn(&mut Reader<'a>) -> Result<T, FormatError>,
) -> Result<Vec<T>, FormatError> {
    let count = reader.array(what)?;
    (0..count).map(|_| element(reader)).collect()
}

fn optional<'a, T>(
    reader: &mut Reader<'a>,
    value: impl FnOnce(&mut Reader<'a>) -> Result<T, FormatError>,
) -> Result<Option<T>, FormatError> {
    if reader.nil() { Ok(None) } else { value(reader).map(Some) }
}

fn system_map(reader: &mut Reader<'_>) -> Result<BTreeMap<String, Vec<u8>>, FormatError> {
    let pairs = reader.map("MetaSys")?;
    let mut map = BTreeMap::new();
    for _ in 0..pairs {
        let key = reader.text("a key of MetaSys")?.to_owned();
        let value = reader.binary("a value of MetaSys")?.to_vec();
        if map.insert(key, value).is_some() {
            return Err(FormatError::contradiction("a key of MetaSys stands twice"));
        }
    }
    Ok(map)
}

fn user_map(reader: &mut Reader<'_>) -> Result<BTreeMap<String, String>, FormatError> {
    let pairs = reader.map("MetaUsr")?;
    let mut map = BTreeMap::new();
    for _ in 0..pairs {
        let key = reader.text("a key of MetaUsr")?.to_owned();
        let value = reader.text("a value of MetaUsr")?.to_owned();
        if map.insert(key, value).is_some() {
            return Err(FormatError::contradiction("a key of MetaUsr stands twice"));
        }
    }
    Ok(map)
}

fn put_system(out: &mut Vec<u8>, system: &BTreeMap<String, Vec<u8>>) {
    put_map(out, system.len());
    for (key, value) in system {
        put_text(out, key);
        put_binary(out, value);
    }
}

pub(super) fn put_unknown(out: &mut Vec<u8>, unknown: &[(String, Vec<u8>)]) {
    for (key, value) in unknown {
        put_text(out, key);
        out.extend_from_slice(value);
    }
}
