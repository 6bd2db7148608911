//! The container of an Avro file, taken apart and put together again in plain pieces.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use serde_json::Value;
use serde_json::json;

use super::extent::Walk;
use super::packing::Packing;
use super::shape::Shape;
use super::shape::Shapes;
use crate::iceberg::Trouble;

const MAGIC: &[u8] = b"Obj\x01";
const SYNC_BYTES: usize = 16;
/// The most bytes of a header: schemas of wide tables are long.
const HEADER_BYTES_MAX: usize = 16 << 20;
/// The most entries of a header.
const HEADER_ENTRIES_MAX: usize = 1_024;

/// How much of one file is read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// The most bytes as it lies.
    pub encoded_bytes: usize,
    /// The most bytes of its blocks, unpacked.
    pub decoded_bytes: usize,
    /// The most records.
    pub records: usize,
    /// The most values of one record, values in values included.
    pub record_values: usize,
    /// With so many bytes a piece is full, whatever more there is.
    pub piece_bytes: usize,
    /// With so many values a piece is full.
    pub piece_values: usize,
}

impl Bounds {
    /// Those of the specification. In memory a value is some hundred bytes.
    pub(crate) const SERVED: Self = Self {
        encoded_bytes: 128 << 20,
        decoded_bytes: 128 << 20,
        records: 1_000_000,
        record_values: 1_000_000,
        piece_bytes: 1 << 20,
        piece_values: 100_000,
    };
}

/// An Avro file that is being read.
pub(super) struct Container<'a> {
    bounds: Bounds,
    rest: Walk<'a>,
    header: BTreeMap<String, Vec<u8>>,
    shapes: Shapes,
    packing: Packing,
    sync: &'a [u8],
    records_left: usize,
    decoded_left: usize,
    pieces: VecDeque<Vec<u8>>,
    was_any: bool,
}

impl<'a> Container<'a> {
    /// Reads the header.
    pub(super) fn open(bytes: &'a [u8], bounds: Bounds) -> Result<Self, Trouble> {
        if bytes.len() > bounds.encoded_bytes {
            return Err(Trouble::invalid("an Avro file is too large"));
        }
        let mut rest = Walk::new(bytes, HEADER_ENTRIES_MAX);
        if rest.take(MAGIC.len())? != MAGIC {
            return Err(Trouble::invalid("an object that should be an Avro file is none"));
        }
        let mut header = BTreeMap::new();
        loop {
            let count = rest.block()?;
            if count == 0 {
                break;
            }
            for _ in 0..count {
                let length = rest.length()?;
                let key = String::from_utf8(rest.take(length)?.to_vec());
                let key =
                    key.map_err(|_| Trouble::invalid("the header of an Avro file is broken"))?;
                let length = rest.length()?;
                header.insert(key, rest.take(length)?.to_vec());
                if rest.at() > HEADER_BYTES_MAX || header.len() > HEADER_ENTRIES_MAX {
                    return Err(Trouble::invalid("the header of an Avro file is too large"));
                }
            }
        }
        let sync = rest.take(SYNC_BYTES)?;
        let packing = Packing::named(header.get("avro.codec").map(Vec::as_slice))?;
        let mut schema: Value = header
            .get("avro.schema")
            .and_then(|schema| serde_json::from_slice(schema).ok())
            .ok_or_else(|| Trouble::invalid("an Avro file has no schema"))?;
        let shapes = Shapes::parse(&schema)?;
        uuids_are_fixed(&mut schema);
        // Only the names that mean something to the reader go on.
        header.retain(|key, _| !key.starts_with("avro."));
        header.insert("avro.schema".to_owned(), schema.to_string().into_bytes());
        header.insert("avro.codec".to_owned(), b"null".to_vec());
        Ok(Self {
            records_left: bounds.records,
            decoded_left: bounds.decoded_bytes,
            bounds,
            rest,
            header,
            shapes,
            packing,
            sync,
            pieces: VecDeque::new(),
            was_any: false,
        })
    }

    /// The header: what the writer says of the file.
    pub(super) fn header_mut(&mut self) -> &mut BTreeMap<String, Vec<u8>> {
        &mut self.header
    }

    /// Whether the records have a field of that name.
    pub(super) fn has_field(&self, name: &str) -> bool {
        let schema = self.header.get("avro.schema");
        let schema: Option<Value> = schema.and_then(|schema| serde_json::from_slice(schema).ok());
        let fields = schema.as_ref().and_then(|schema| schema["fields"].as_array());
        fields.is_some_and(|fields| fields.iter().any(|field| field["name"] == name))
    }

    /// The next records, as a plain file of their own: at least one piece, even of a file without records.
    pub(super) fn next_piece(&mut self) -> Result<Option<Vec<u8>>, Trouble> {
        while self.pieces.is_empty() && !self.rest.is_at_the_end() {
            self.read_block()?;
        }
        if let Some(piece) = self.pieces.pop_front() {
            self.was_any = true;
            return Ok(Some(piece));
        }
        if self.was_any {
            return Ok(None);
        }
        self.was_any = true;
        Ok(Some(self.piece(0, &[])))
    }

    /// Blocks follow each other until a piece is full; a large block is cut into pieces.
    fn read_block(&mut self) -> Result<(), Trouble> {
        let mut gathered = Vec::new();
        let mut count = 0;
        let mut values = 0;
        // A header of a megabyte is read again with each piece.
        let piece_bytes = self.bounds.piece_bytes.max(8 * self.header_bytes());
        while !self.rest.is_at_the_end() && gathered.len() < piece_bytes {
            let records = self.rest.length()?;
            let length = self.rest.length()?;
            let packed = self.rest.take(length)?;
            if self.rest.take(SYNC_BYTES)? != self.sync {
                return Err(Trouble::invalid("a block of an Avro file is broken"));
            }
            let left = self.records_left.checked_sub(records);
            self.records_left =
                left.ok_or_else(|| Trouble::invalid("an Avro file has too many records"))?;
            let plain = self.packing.unpacked(packed, self.decoded_left)?;
            self.decoded_left -= plain.len();
            let mut at = 0;
            for _ in 0..records {
                let mut walk = Walk::new(&plain[at..], self.bounds.record_values);
                walk.pass(self.shapes.top.as_ref().unwrap_or(&Shape::Fixed(0)), &self.shapes)?;
                if walk.at() == 0 {
                    return Err(Trouble::invalid("an Avro file has empty records"));
                }
                let passed = self.bounds.record_values - walk.values_left();
                let is_full = gathered.len() + walk.at() > piece_bytes
                    || values + passed > self.bounds.piece_values;
                if is_full && count > 0 {
                    let piece = self.piece(count, &gathered);
                    self.pieces.push_back(piece);
                    gathered.clear();
                    (count, values) = (0, 0);
                }
                gathered.extend_from_slice(&plain[at..at + walk.at()]);
                count += 1;
                values += passed;
                at += walk.at();
            }
            if at != plain.len() {
                return Err(Trouble::invalid("a block of an Avro file is longer than its records"));
            }
        }
        if count > 0 {
            let piece = self.piece(count, &gathered);
            self.pieces.push_back(piece);
        }
        Ok(())
    }

    fn header_bytes(&self) -> usize {
        self.header.iter().map(|(key, value)| key.len() + value.len()).sum()
    }

    /// A plain file of `count` records.
    fn piece(&self, count: usize, records: &[u8]) -> Vec<u8> {
        let mut piece = Vec::with_capacity(self.header_bytes() + records.len() + 256);
        piece.extend_from_slice(MAGIC);
        write_number(&mut piece, self.header.len());
        for (key, value) in &self.header {
            for part in [key.as_bytes(), value] {
                write_number(&mut piece, part.len());
                piece.extend_from_slice(part);
            }
        }
        write_number(&mut piece, 0);
        piece.extend_from_slice(self.sync);
        if count > 0 {
            write_number(&mut piece, count);
            write_number(&mut piece, records.len());
            piece.extend_from_slice(records);
            piece.extend_from_slice(self.sync);
        }
        piece
    }
}

fn write_number(bytes: &mut Vec<u8>, number: usize) {
    let mut rest = (number as u64) << 1;
    while rest > 0x7f {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// The crate takes a UUID of sixteen fixed bytes, as Iceberg writes them, for a string with a length before it.
fn uuids_are_fixed(schema: &mut Value) {
    match schema {
        Value::Array(parts) => parts.iter_mut().for_each(uuids_are_fixed),
        Value::Object(parts) => {
            let is_fixed = parts.get("type") == Some(&json!("fixed"));
            if is_fixed && parts.get("logicalType") == Some(&json!("uuid")) {
                parts.remove("logicalType");
            }
            parts.values_mut().for_each(uuids_are_fixed);
        }
        _ => {}
    }
}

/// A file as everything before its records (the header, and how many there are) and the records, unpacked: those of its
/// first piece. For whoever wants to damage them.
pub(crate) fn taken_apart(bytes: &[u8], bounds: Bounds) -> Option<[Vec<u8>; 2]> {
    let mut container = Container::open(bytes, bounds).ok()?;
    let header = container.piece(0, &[]);
    let piece = container.next_piece().ok()??;
    let mut block = Walk::new(&piece[header.len()..], 1);
    let (count, length) = (block.number().ok()?, block.length().ok()?);
    let head = [header.as_slice(), &count.to_le_bytes()].concat();
    Some([head, block.take(length).ok()?.to_vec()])
}

/// A file of what was [`taken_apart`].
pub(crate) fn put_together(head: &[u8], records: &[u8]) -> Vec<u8> {
    let Some((header, count)) = head.split_last_chunk() else { return Vec::new() };
    let mut bytes = header.to_vec();
    write_number(&mut bytes, u64::from_le_bytes(*count) as usize);
    write_number(&mut bytes, records.len());
    bytes.extend_from_slice(records);
    bytes.extend_from_slice(&header[header.len().saturating_sub(SYNC_BYTES)..]);
    bytes
}
