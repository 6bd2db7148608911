//! One version of a key: its header, its body, and the bytes that they were read from.

use std::collections::BTreeMap;

use super::Body;
use super::Header;
use super::Identity;
use super::Kind;
use super::MarkerBody;
use super::ObjectBody;
use super::Part;
use super::codec::put_unknown;
use super::identity;
use super::keys;
use super::signature;
use crate::disk::format::FormatError;
use crate::disk::format::frame::PartLayout;
use crate::disk::format::msgpack::Reader;
use crate::disk::format::msgpack::put_array;
use crate::disk::format::msgpack::put_binary;
use crate::disk::format::msgpack::put_map;
use crate::disk::format::msgpack::put_text;
use crate::disk::format::msgpack::put_uint;
use crate::disk::format::msgpack::put_wide_int;
use crate::value::VersionId;

/// No file system has a longer file.
const FILE_BYTES_MAX: u64 = i64::MAX as u64;

/// One version. Its bytes are made when the version is made or changed, and kept as they were read otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    pub(super) header: Header,
    body: Body,
    /// The encoded header, without its length.
    header_bytes: Vec<u8>,
    /// The encoded body, without its length.
    pub(super) body_bytes: Vec<u8>,
    wrapper: Wrapper,
    /// Why the body is [`Body::Opaque`], if it should not be.
    unreadable: Option<FormatError>,
}

/// What stands around a body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Wrapper {
    generation: u64,
    unknown: Vec<(String, Vec<u8>)>,
}

impl Version {
    /// A new object version.
    pub fn object(body: ObjectBody) -> Self {
        let flags = object_flags(&body, 0);
        Self::from_body(Body::Object(Box::new(body)), flags, Wrapper::default())
    }

    /// A new delete marker.
    pub fn marker(version: VersionId, modtime_ns: i64) -> Self {
        let body = MarkerBody { version, modtime_ns, system: BTreeMap::new(), unknown: Vec::new() };
        Self::from_body(Body::Marker(body), 0, Wrapper::default())
    }

    /// Reads one version from its encoded header and body, as [`Version::header_bytes`] and
    /// [`Version::body_bytes`] give them; for the wire between nodes.
    ///
    /// A body that does not decode becomes [`Body::Opaque`], and [`Version::check`] says why: the versions
    /// beside it are not the worse for it.
    ///
    /// # Errors
    ///
    /// The header does not decode.
    pub fn parse(header: &[u8], body: &[u8]) -> Result<Self, FormatError> {
        Self::parse_as(3, header, body)
    }

    pub(super) fn parse_as(
        header_version: u64,
        header_bytes: &[u8],
        body_bytes: &[u8],
    ) -> Result<Self, FormatError> {
        let mut header = parse_header(header_version, header_bytes)?;
        let (body, wrapper, unreadable) = match parse_body(header.kind, body_bytes) {
            Ok((body, wrapper)) => (body, wrapper, None),
            Err(error) => (Body::Opaque, Wrapper::default(), Some(error)),
        };
        let mut header_bytes = header_bytes.to_vec();
        if header_version < 3 {
            // Older headers lack fields; what is written again has them.
            if let Body::Object(object) = &body {
                header.data = object.data as u8;
                header.parity = object.parity as u8;
            }
            header.signature = body_signature(&body);
            header_bytes = encode_header(&header);
        }
        let body_bytes = body_bytes.to_vec();
        Ok(Self { header, body, header_bytes, body_bytes, wrapper, unreadable })
    }

    fn from_body(body: Body, flags: u8, wrapper: Wrapper) -> Self {
        let (version, modtime_ns, kind, data, parity) = match &body {
            Body::Object(it) => (it.version, it.modtime_ns, Kind::Object, it.data, it.parity),
            Body::Marker(it) => (it.version, it.modtime_ns, Kind::Marker, 0, 0),
            Body::Opaque => unreachable!("only bodies that we understand are written"),
        };
        let header = Header {
            version,
            modtime_ns,
            signature: body_signature(&body),
            kind,
            flags,
            parity: u8::try_from(parity).expect("a geometry has at most 16 shards"),
            data: u8::try_from(data).expect("a geometry has at most 16 shards"),
        };
        let header_bytes = encode_header(&header);
        let body_bytes = encode_body(kind, &body, &wrapper);
        Self { header, body, header_bytes, body_bytes, wrapper, unreadable: None }
    }

    /// Its header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Its body.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// The encoded header.
    pub fn header_bytes(&self) -> &[u8] {
        &self.header_bytes
    }

    /// The encoded body.
    pub fn body_bytes(&self) -> &[u8] {
        &self.body_bytes
    }

    /// Its id.
    pub fn id(&self) -> VersionId {
        self.header.version
    }

    /// The object, if it is one that we understand.
    pub fn as_object(&self) -> Option<&ObjectBody> {
        match &self.body {
            Body::Object(object) => Some(object),
            Body::Marker(_) | Body::Opaque => None,
        }
    }

    /// The marker, if it is one.
    pub fn as_marker(&self) -> Option<&MarkerBody> {
        match &self.body {
            Body::Marker(marker) => Some(marker),
            Body::Object(_) | Body::Opaque => None,
        }
    }

    /// The same object with its body changed; header, signature and bytes are made anew, unknown keys stay.
    /// `None` when it is no object.
    pub fn with_object(&self, change: impl FnOnce(&mut ObjectBody)) -> Option<Self> {
        let mut object = self.as_object()?.clone();
        change(&mut object);
        let flags = object_flags(&object, self.header.flags);
        Some(Self::from_body(Body::Object(Box::new(object)), flags, self.wrapper.clone()))
    }

    /// The same object as another drive of its set stores it. `None` when it is no object.
    pub fn for_shard(&self, shard: usize) -> Option<Self> {
        self.with_object(|object| object.shard = shard)
    }

    /// Digest of everything that must be equal on all drives. Two drives whose versions have one identity
    /// hold the same version.
    pub fn identity(&self) -> Identity {
        identity::of(self)
    }

    /// The signature that the body has; the header's may differ when another server wrote it.
    pub fn computed_signature(&self) -> [u8; 4] {
        body_signature(&self.body)
    }

    /// Which rule of the format it breaks that a node insists on before it uses a version.
    ///
    /// # Errors
    ///
    /// The first rule that is broken.
    pub fn check(&self) -> Result<(), FormatError> {
        if let Some(error) = &self.unreadable {
            return Err(error.clone());
        }
        let broken = |what: String| Err(FormatError::Contradiction { what });
        let header = &self.header;
        let (version, modtime_ns, data, parity) = match &self.body {
            Body::Object(object) => {
                object.check()?;
                (object.version, object.modtime_ns, object.data, object.parity)
            }
            Body::Marker(marker) => (marker.version, marker.modtime_ns, 0, 0),
            Body::Opaque => return broken("the version is in a form that is not supported".into()),
        };
        if version != header.version {
            return broken(format!(
                "the header names version {}, the body {version}",
                header.version
            ));
        }
        if modtime_ns != header.modtime_ns {
            return broken("header and body differ in modification time".into());
        }
        if (data, parity) != (usize::from(header.data), usize::from(header.parity)) {
            return broken("header and body differ in geometry".into());
        }
        if modtime_ns <= 0 {
            return broken("the version has no modification time".into());
        }
        let flags = match &self.body {
            Body::Object(object) => object_flags(object, header.flags),
            Body::Marker(marker) => marker_flags(marker),
            Body::Opaque => header.flags,
        };
        if flags != header.flags {
            return broken(format!(
                "the header has flags {}, the body means {flags}",
                header.flags
            ));
        }
        Ok(())
    }
}

impl ObjectBody {
    fn check(&self) -> Result<(), FormatError> {
        let broken = |what: String| Err(FormatError::Contradiction { what });
        let total = self.total();
        if self.data == 0 || self.parity > self.data || total > 16 {
            return broken(format!("{}+{} is no possible geometry", self.data, self.parity));
        }
        if self.block_bytes == 0 {
            return broken("the block size is 0".into());
        }
        if self.erasure_algorithm != 1 || self.checksum_algorithm != 1 {
            return broken("the erasure code or the frame hash is unknown".into());
        }
        if !(1..=total).contains(&self.shard) {
            return broken(format!("shard {} is none of {total}", self.shard));
        }
        let mut shards = self.distribution.clone();
        shards.sort_unstable();
        if !shards.iter().map(|shard| usize::from(*shard)).eq(1..=total) {
            return broken("the distribution is no permutation of the shards".into());
        }
        if self.size > 0 && self.parts.is_empty() {
            return broken("an object with contents has no parts".into());
        }
        let sum = self.parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.size));
        if sum != Some(self.size) && !self.parts.is_empty() {
            return broken("the parts do not add up to the object's size".into());
        }
        let fits = |part: &Part| {
            let part_bytes = part.size;
            let layout = PartLayout { part_bytes, data: self.data, block_bytes: self.block_bytes };
            layout.file_bytes() <= FILE_BYTES_MAX
        };
        if !self.parts.iter().all(fits) {
            return broken("a shard of a part is larger than a file can be".into());
        }
        let mut numbers = self.parts.iter().map(|part| part.number).collect::<Vec<_>>();
        numbers.sort_unstable();
        let distinct = numbers.windows(2).all(|pair| pair[0] != pair[1]);
        if !distinct || numbers.iter().any(|number| !(1..=10_000).contains(number)) {
            return broken("part numbers repeat or are not from 1 to 10,000".into());
        }
        for suffix in [keys::CHECKSUM, keys::TRANSITION_STATUS] {
            let value = |prefix: &str| self.system.get(&format!("{prefix}{suffix}"));
            if let (Some(one), Some(other)) = (value(keys::INTERNAL), value(keys::INTERNAL_OTHER))
                && one != other
            {
                return broken(format!("the two values of `{suffix}` differ"));
            }
        }
        Ok(())
    }
}

/// The flags that a header must have; bit 1 is another server's habit and is kept as it was.
fn object_flags(object: &ObjectBody, before: u8) -> u8 {
    let inline = object.system(keys::INLINE_DATA).map_or(0, |_| Header::INLINE);
    inline | (before & Header::USES_DATA_DIR)
}

fn marker_flags(marker: &MarkerBody) -> u8 {
    let free = super::body::system_value(&marker.system, keys::FREE_VERSION);
    free.map_or(0, |_| Header::FREE)
}

fn body_signature(body: &Body) -> [u8; 4] {
    match body {
        Body::Object(object) => signature::of_object(object),
        Body::Marker(marker) => signature::of_marker(marker),
        Body::Opaque => signature::UNREADABLE,
    }
}

fn encode_header(header: &Header) -> Vec<u8> {
    let mut out = Vec::with_capacity(38);
    put_array(&mut out, 7);
    put_binary(&mut out, &header.version.0);
    put_wide_int(&mut out, header.modtime_ns);
    put_binary(&mut out, &header.signature);
    put_uint(&mut out, header.kind as u64);
    put_uint(&mut out, u64::from(header.flags));
    put_uint(&mut out, u64::from(header.parity));
    put_uint(&mut out, u64::from(header.data));
    out
}

fn parse_header(header_version: u64, bytes: &[u8]) -> Result<Header, FormatError> {
    let mut reader = Reader::new(bytes);
    let fields = reader.array("a version header")?;
    let expected = match header_version {
        1 => 4,
        2 => 5,
        _ => 7,
    };
    if fields != expected {
        return Err(FormatError::contradiction(format!(
            "a version header of version {header_version} has {fields} fields"
        )));
    }
    let version = VersionId(reader.fixed("a version id")?);
    let modtime_ns = reader.int("a modification time")?;
    let signature = if header_version > 1 { reader.fixed("a signature")? } else { [0; 4] };
    let kind = match reader.uint(3, "a version type")? {
        1 => Kind::Object,
        2 => Kind::Marker,
        3 => Kind::Legacy,
        _ => return Err(FormatError::contradiction("a version has type 0")),
    };
    let flags = reader.uint(255, "version flags")? as u8;
    let (parity, data) = match header_version {
        3 => (reader.uint(255, "parity shards")? as u8, reader.uint(255, "data shards")? as u8),
        _ => (0, 0),
    };
    reader.finish("the end of a version header")?;
    Ok(Header { version, modtime_ns, signature, kind, flags, parity, data })
}

fn encode_body(kind: Kind, body: &Body, wrapper: &Wrapper) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    put_map(&mut out, 3 + wrapper.unknown.len());
    put_text(&mut out, "Type");
    put_uint(&mut out, kind as u64);
    match body {
        Body::Object(object) => {
            put_text(&mut out, "V2Obj");
            object.encode(&mut out);
        }
        Body::Marker(marker) => {
            put_text(&mut out, "DelObj");
            marker.encode(&mut out);
        }
        Body::Opaque => unreachable!("only bodies that we understand are written"),
    }
    put_text(&mut out, "v");
    put_uint(&mut out, wrapper.generation);
    put_unknown(&mut out, &wrapper.unknown);
    out
}

fn parse_body(kind: Kind, bytes: &[u8]) -> Result<(Body, Wrapper), FormatError> {
    let mut reader = Reader::new(bytes);
    let pairs = reader.map("a version")?;
    let mut wrapper = Wrapper::default();
    let mut stored_kind = None;
    let mut body = None;
    for _ in 0..pairs {
        let key = reader.text("a key of a version")?;
        match key {
            "Type" => stored_kind = Some(reader.uint(255, "Type")?),
            "V2Obj" | "DelObj" | "V1Obj" if reader.nil() => {}
            "V2Obj" if body.is_none() => {
                body = Some(Body::Object(Box::new(ObjectBody::decode(&mut reader)?)));
            }
            "DelObj" if body.is_none() => {
                body = Some(Body::Marker(MarkerBody::decode(&mut reader)?));
            }
            "V1Obj" if body.is_none() => {
                reader.skip("V1Obj")?;
                body = Some(Body::Opaque);
            }
            "v" => wrapper.generation = reader.uint(u64::MAX, "v")?,
            "V2Obj" | "DelObj" | "V1Obj" => {
                return Err(FormatError::contradiction("a version has two bodies"));
            }
            _ => {
                let value = reader.skip("an unknown value")?.to_vec();
                wrapper.unknown.push((key.to_owned(), value));
            }
        }
    }
    reader.finish("the end of a version")?;
    let fits = match (&body, kind) {
        (Some(Body::Object(_)), Kind::Object)
        | (Some(Body::Marker(_)), Kind::Marker)
        | (Some(Body::Opaque), Kind::Legacy) => stored_kind == Some(kind as u64),
        _ => false,
    };
    match body {
        Some(body) if fits => Ok((body, wrapper)),
        _ => Err(FormatError::contradiction("header and body differ in the type of a version")),
    }
}
