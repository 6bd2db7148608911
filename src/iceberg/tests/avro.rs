//! Avro files of others: real ones, and such as were made to break their reader.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use super::super::avro::Bounds;
use super::super::avro::Content;
use super::super::avro::Listed;
use super::super::avro::LiveFile;
use super::super::avro::Manifest;
use super::super::avro::ManifestList;
use super::*;

/// A corpus of the fuzz targets holds the real files.
pub(super) fn real(target: &str, name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/fuzz").join(target);
    fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{target}/{name}: {error}"))
}

fn listed(bytes: &[u8], bounds: Bounds) -> Result<Vec<Listed>, Trouble> {
    let mut list = ManifestList::open(bytes, bounds)?;
    let mut all = Vec::new();
    while let Some(some) = list.next()? {
        all.extend(some);
    }
    Ok(all)
}

fn live(bytes: &[u8], bounds: Bounds) -> Result<Vec<LiveFile>, Trouble> {
    let mut manifest = Manifest::open(bytes, bounds)?;
    let mut all = Vec::new();
    while let Some(some) = manifest.next()? {
        all.extend(some);
    }
    Ok(all)
}

fn number(bytes: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    while rest > 0x7f {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
}

/// A container of that schema with one block.
fn file(schema: Value, codec: &str, count: i64, block: &[u8]) -> Vec<u8> {
    let header = BTreeMap::from([
        ("avro.schema", schema.to_string()),
        ("avro.codec", codec.to_owned()),
        ("schema", super::schema().to_string()),
        ("partition-spec", "[]".to_owned()),
        ("format-version", "2".to_owned()),
    ]);
    let mut bytes = b"Obj\x01".to_vec();
    number(&mut bytes, header.len() as i64);
    for (key, value) in header {
        for part in [key, &value] {
            number(&mut bytes, part.len() as i64);
            bytes.extend_from_slice(part.as_bytes());
        }
    }
    number(&mut bytes, 0);
    bytes.extend_from_slice(&[7; 16]);
    number(&mut bytes, count);
    number(&mut bytes, block.len() as i64);
    bytes.extend_from_slice(block);
    bytes.extend_from_slice(&[7; 16]);
    bytes
}

fn record(fields: Value) -> Value {
    json!({"type": "record", "name": "r", "fields": fields})
}

/// Goal: lists of both versions, in every packing, say the same manifests.
#[test]
fn real_manifest_lists_are_read_in_every_packing() {
    for name in ["v2-null.avro", "v2-deflate.avro", "v2-snappy.avro", "v2-zstandard.avro"] {
        let listed = listed(&real("manifest-list", name), Bounds::SERVED).unwrap();
        assert_eq!(listed.len(), 2, "{name}");
        assert_eq!(listed[0].path, "s3://lake/tables/t/metadata/m0.avro");
        assert_eq!((listed[0].content, listed[1].content), (Content::Data, Content::Deletes));
        assert_eq!((listed[0].spec_id, listed[0].sequence_number), (0, 3));
    }
    let one = listed(&real("manifest-list", "v1-null.avro"), Bounds::SERVED).unwrap();
    assert_eq!((one.len(), one[0].content, one[0].sequence_number), (1, Content::Data, 0));
}

/// Goal: the files that belong to the table, and not those that were deleted from it; in pieces of any size.
#[test]
fn real_manifests_are_read_in_pieces_of_any_size() {
    for name in ["v2-null.avro", "v2-deflate.avro", "v1-deflate.avro", "v2-uuid.avro"] {
        let bytes = real("manifest", name);
        let whole = live(&bytes, Bounds::SERVED).unwrap();
        assert_eq!(whole.len(), 2, "{name}: of three one is deleted");
        assert_eq!(whole[0].path, "s3://lake/tables/t/data/a.parquet");
        assert_eq!((whole[0].length, whole[0].content), (1_001, Content::Data));
        let small = Bounds { piece_bytes: 1, piece_values: 1, ..Bounds::SERVED };
        assert_eq!(live(&bytes, small).unwrap(), whole, "{name}");
    }
    let bytes = real("manifest", "v2-deletes.avro");
    let deletes = Manifest::open(&bytes, Bounds::SERVED);
    assert_eq!(deletes.unwrap().content(), Content::Deletes);
}

#[test]
fn too_much_is_refused_before_it_is_read() {
    let bytes = real("manifest", "v2-deflate.avro");
    for bounds in [
        Bounds { encoded_bytes: bytes.len() - 1, ..Bounds::SERVED },
        Bounds { decoded_bytes: 100, ..Bounds::SERVED },
        Bounds { records: 2, ..Bounds::SERVED },
        Bounds { record_values: 10, ..Bounds::SERVED },
    ] {
        assert_eq!(class(live(&bytes, bounds)), Class::Invalid, "{bounds:?}");
    }
    assert!(
        live(&bytes, Bounds { encoded_bytes: bytes.len(), records: 3, ..Bounds::SERVED }).is_ok()
    );
}

#[test]
fn a_file_that_ends_anywhere_or_is_none_is_refused() {
    let bytes = real("manifest", "v2-null.avro");
    for end in 0..bytes.len() {
        // A file may end between two blocks.
        let cut = live(&bytes[..end], Bounds::SERVED);
        assert!(cut.is_err() || cut.unwrap().len() < 3);
    }
    assert_eq!(class(listed(b"", Bounds::SERVED)), Class::Invalid);
    assert_eq!(class(listed(b"PAR1", Bounds::SERVED)), Class::Invalid);
    let unknown = file(record(json!([{"name": "a", "type": "int"}])), "lz4", 0, &[]);
    assert_eq!(class(listed(&unknown, Bounds::SERVED)), Class::Unsupported);
}

/// Goal: a megabyte of it unpacks to a gigabyte. It is stopped at the limit, in every packing.
#[test]
fn a_block_that_unpacks_without_end_is_stopped() {
    let zeros = vec![0_u8; 1 << 20];
    let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut zstandard = zstd::Encoder::new(Vec::new(), 1).unwrap();
    for _ in 0..8 {
        deflate.write_all(&zeros).unwrap();
        zstandard.write_all(&zeros).unwrap();
    }
    let mut snappy = snap::raw::Encoder::new().compress_vec(&[0; 8 << 20]).unwrap();
    snappy.extend_from_slice(&[0; 4]);
    let small = Bounds { decoded_bytes: 4 << 20, ..Bounds::SERVED };
    let schema = record(json!([{"name": "a", "type": "int"}]));
    for (codec, block) in [
        ("deflate", deflate.finish().unwrap()),
        ("zstandard", zstandard.finish().unwrap()),
        ("snappy", snappy),
    ] {
        let trouble = listed(&file(schema.clone(), codec, 1, &block), small).unwrap_err();
        assert_eq!(trouble.text, "packed data is too large", "{codec}");
    }
    // Of snappy the first bytes are the length: gigabytes.
    let lie = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0];
    assert_eq!(class(listed(&file(schema, "snappy", 1, &lie), small)), Class::Invalid);
}

/// Goal: counts and lengths that the crate would make room for at once, on the strength of a few bytes.
#[test]
fn counts_and_lengths_are_true_before_the_crate_sees_them() {
    let refused = |fields: Value, count: i64, block: &[u8]| {
        class(listed(&file(record(fields), "null", count, block), Bounds::SERVED))
    };
    let mut many = Vec::new();
    number(&mut many, 1 << 40);
    let nothings = json!([{"name": "a", "type": {"type": "array", "items": "null"}}]);
    assert_eq!(refused(nothings.clone(), 1, &many), Class::Invalid, "items of no bytes");
    let mut negative = Vec::new();
    number(&mut negative, i64::MIN);
    number(&mut negative, 0);
    assert_eq!(refused(nothings, 1, &negative), Class::Invalid, "a count that has no opposite");
    assert_eq!(refused(json!([{"name": "a", "type": "string"}]), 1, &many), Class::Invalid);
    assert_eq!(refused(json!([{"name": "a", "type": "bytes"}]), 1, &negative), Class::Invalid);
    assert_eq!(refused(json!([{"name": "a", "type": "null"}]), 1_000, &[]), Class::Invalid);
    assert_eq!(refused(json!([]), 1_000, &[]), Class::Invalid);
    assert_eq!(refused(json!([{"name": "a", "type": "int"}]), i64::MAX, &[0]), Class::Invalid);
    assert_eq!(refused(json!([{"name": "a", "type": "int"}]), -1, &[0]), Class::Invalid);
    assert_eq!(refused(json!([{"name": "a", "type": "int"}]), 1, &[0, 0]), Class::Invalid);
    assert_eq!(refused(json!([{"name": "a", "type": "int"}]), 1, &[0xff; 20]), Class::Invalid);
    assert_eq!(refused(json!([{"name": "a", "type": ["null", "int"]}]), 1, &[6]), Class::Invalid);
    // A list that is in itself, as deep as the file is long.
    let deep = json!([{"name": "a", "type": ["null", "r"]}]);
    assert_eq!(refused(deep, 1, &[2; 100_000]), Class::Invalid);
}

#[test]
fn a_schema_that_is_none_is_refused() {
    let refused = |schema: Value| class(listed(&file(schema, "null", 0, &[]), Bounds::SERVED));
    assert_eq!(refused(json!("int")), Class::Invalid);
    assert_eq!(refused(json!(5)), Class::Invalid);
    assert_eq!(refused(record(json!([{"name": "a", "type": "absent"}]))), Class::Invalid);
    assert_eq!(refused(record(json!([{"name": "a"}]))), Class::Invalid);
    assert_eq!(refused(json!({"type": "record", "name": "r"})), Class::Invalid);
    assert_eq!(refused(json!({"type": "record", "fields": []})), Class::Invalid);
    let twice = record(json!([
        {"name": "a", "type": {"type": "fixed", "name": "r", "size": 1}}]));
    assert_eq!(refused(twice), Class::Invalid);
    let ambiguous = record(json!([
        {"name": "a", "type": {"type": "fixed", "name": "x.f", "size": 1}},
        {"name": "b", "type": {"type": "fixed", "name": "f", "size": 2}}]));
    assert_eq!(refused(ambiguous), Class::Invalid, "one name for two sizes");
    let unsized_one = record(json!([{"name": "a", "type": {"type": "fixed", "name": "f"}}]));
    assert_eq!(refused(unsized_one), Class::Invalid);
    let big =
        record(json!([{"name": "a", "type": {"type": "bytes", "logicalType": "big-decimal"}}]));
    assert_eq!(refused(big), Class::Invalid);
    let wide: Vec<Value> =
        (0..100_001).map(|n| json!({"name": format!("f{n}"), "type": "int"})).collect();
    assert_eq!(refused(record(json!(wide))), Class::Invalid);
}
