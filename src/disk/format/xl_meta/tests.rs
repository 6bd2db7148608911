//! Goal: what we write is what the published vectors hold, byte for byte, and no input makes a reader
//! panic or forget what it does not understand.

use std::collections::BTreeMap;

use rand::RngExt as _;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use uuid::Uuid;

use super::Body;
use super::Header;
use super::ObjectBody;
use super::Part;
use super::Version;
use super::XlMeta;
use super::keys;
use crate::disk::format::erasure::Erasure;
use crate::disk::format::frame;
use crate::disk::layout;
use crate::value::VersionId;

const VECTORS: [&[u8]; 4] = [
    include_bytes!("../../../../fixtures/vectors/disk0.xl.meta"),
    include_bytes!("../../../../fixtures/vectors/disk1.xl.meta"),
    include_bytes!("../../../../fixtures/vectors/disk2.xl.meta"),
    include_bytes!("../../../../fixtures/vectors/disk3.xl.meta"),
];
const OBJECT: &str = "11111111-2222-4333-8444-555555555555";
const MARKER: &str = "99999999-8888-4777-8666-555555555555";
const MOMENT_NS: i64 = 1_767_225_600_123_456_789;

fn id(text: &str) -> VersionId {
    text.parse().unwrap()
}

/// The object of the published example as drive `drive` holds it.
fn example(drive: usize) -> ObjectBody {
    let distribution = layout::distribution("bkt", "obj", 4);
    let mut body = ObjectBody {
        version: id(OBJECT),
        data_dir: Uuid::try_parse("aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee").unwrap(),
        erasure_algorithm: 1,
        data: 2,
        parity: 2,
        block_bytes: frame::BLOCK_BYTES,
        shard: usize::from(distribution[drive]),
        distribution,
        checksum_algorithm: 1,
        parts: vec![Part {
            number: 1,
            size: 6,
            actual_size: 6,
            etag: "b1946ac92492d2347c6235b4d2611184".into(),
            index: Vec::new(),
        }],
        size: 6,
        modtime_ns: MOMENT_NS,
        system: BTreeMap::new(),
        user: BTreeMap::from([
            (keys::CONTENT_TYPE.into(), "text/plain".into()),
            (keys::ETAG.into(), "b1946ac92492d2347c6235b4d2611184".into()),
        ]),
        unknown: Vec::new(),
    };
    body.set_system(keys::ACTUAL_SIZE, "6");
    body.set_system(keys::INLINE_DATA, "true");
    body
}

fn inline_value(shard: usize) -> Vec<u8> {
    let shards = Erasure::new(2, 2).unwrap().encode_block(b"hello\n");
    let mut value = Vec::new();
    frame::encode(&shards[shard - 1], &mut value);
    value
}

fn example_file(drive: usize) -> XlMeta {
    let body = example(drive);
    let inline = inline_value(body.shard);
    let mut meta = XlMeta::default();
    meta.insert(Version::object(body), Some(inline));
    meta.insert(Version::marker(id(MARKER), MOMENT_NS + 1_000_000_000), None);
    meta
}

#[test]
fn the_published_facts_make_the_published_bytes() {
    for (drive, vector) in VECTORS.iter().enumerate() {
        assert_eq!(example_file(drive).encode(), *vector, "drive {drive}");
    }
}

#[test]
fn the_published_bytes_decode_and_come_back_identical() {
    for (drive, vector) in VECTORS.iter().enumerate() {
        let meta = XlMeta::parse(vector).unwrap();
        assert_eq!(meta.encode(), *vector);
        assert_eq!(meta, example_file(drive));
        assert_eq!(meta.latest().unwrap().id(), id(MARKER));
        let version = meta.find(id(OBJECT)).unwrap();
        assert_eq!(version.as_object(), Some(&example(drive)));
        assert_eq!(version.header().signature, [0x1d, 0x9d, 0xea, 0x14]);
        assert_eq!(meta.versions()[0].header().signature, [0x69, 0x9f, 0xb8, 0x2a]);
        assert_eq!(version.header_bytes().len(), 38);
        assert_eq!(meta.inline(id(OBJECT)), Some(inline_value(example(drive).shard).as_slice()));
        for version in meta.versions() {
            assert_eq!(version.check(), Ok(()));
            assert_eq!(version.computed_signature(), version.header().signature);
            let again = Version::parse(version.header_bytes(), version.body_bytes()).unwrap();
            assert_eq!(again, *version);
        }
    }
}

#[test]
fn drives_of_a_set_agree_in_all_but_shard_and_inline_bytes() {
    let metas = VECTORS.map(|vector| XlMeta::parse(vector).unwrap());
    for meta in &metas[1..] {
        for (one, other) in metas[0].versions().iter().zip(meta.versions()) {
            assert_eq!(one.header_bytes(), other.header_bytes());
            assert_eq!(one.identity(), other.identity());
        }
    }
    let object = metas[0].find(id(OBJECT)).unwrap();
    let other = metas[1].find(id(OBJECT)).unwrap();
    let moved = object.for_shard(other.as_object().unwrap().shard).unwrap();
    assert_eq!(moved.body_bytes(), other.body_bytes());
    let tagged = object
        .with_object(|object| drop(object.user.insert(keys::TAGGING.into(), "a=b".into())))
        .unwrap();
    assert_ne!(tagged.identity(), object.identity());
    assert_ne!(tagged.header().signature, object.header().signature);
    let replicated =
        object.with_object(|object| object.set_system("replication-status", "PENDING")).unwrap();
    assert_eq!(replicated.identity(), object.identity());
}

#[test]
fn an_empty_null_object_has_the_published_form() {
    let mut body = example(0);
    body.version = VersionId::NULL;
    body.size = 0;
    body.parts[0].size = 0;
    body.parts[0].actual_size = 0;
    let mut meta = XlMeta::default();
    meta.insert(Version::object(body), Some(Vec::new()));
    let bytes = meta.encode();
    assert!(bytes.ends_with(&[0x01, 0x81, 0xa4, b'n', b'u', b'l', b'l', 0xc4, 0x00]));
    let again = XlMeta::parse(&bytes).unwrap();
    assert_eq!(again.inline(VersionId::NULL), Some(&[][..]));
    assert_eq!(again.versions()[0].header().flags, Header::INLINE);
    assert_eq!(again.versions()[0].check(), Ok(()));
}

#[test]
fn an_object_without_parts_omits_their_index_and_writes_nil() {
    let mut body = example(0);
    body.parts.clear();
    body.size = 0;
    body.system.clear();
    body.user.clear();
    let version = Version::object(body.clone());
    let bytes = version.body_bytes();
    let has = |needle: &[u8]| bytes.windows(needle.len()).any(|window| window == needle);
    assert!(has(&[0xde, 0x00, 0x11]), "seventeen keys");
    assert!(!has(b"PartIdx"));
    assert!(has(b"\xa9PartETags\xc0") && has(b"\xaaPartASizes\xc0"));
    assert!(has(b"\xa7MetaSys\xc0") && has(b"\xa7MetaUsr\xc0"));
    assert_eq!(Version::parse(version.header_bytes(), bytes).unwrap().as_object(), Some(&body));
}

#[test]
fn a_version_is_put_in_its_place_and_replaces_its_id() {
    let mut meta = XlMeta::default();
    for (number, seconds) in [(1_u128, 5), (2, 9), (3, 1), (4, 7)] {
        let version = VersionId(Uuid::from_u128(number).into_bytes());
        meta.insert(Version::marker(version, MOMENT_NS + seconds), None);
    }
    let order = |meta: &XlMeta| {
        let ids = meta.versions().iter().map(|version| version.id().0[15]);
        ids.collect::<Vec<_>>()
    };
    assert_eq!(order(&meta), [2, 4, 1, 3]);
    let fourth = VersionId(Uuid::from_u128(4).into_bytes());
    let replaced = meta.insert(Version::marker(fourth, MOMENT_NS + 20), None).unwrap();
    assert_eq!(replaced.header().modtime_ns, MOMENT_NS + 7);
    assert_eq!(order(&meta), [4, 2, 1, 3]);
    assert_eq!(meta.remove(fourth).unwrap().header().modtime_ns, MOMENT_NS + 20);
    assert_eq!(meta.remove(fourth), None);
    assert_eq!(order(&meta), [2, 1, 3]);
}

#[test]
fn inline_values_come_and_go_with_their_versions() {
    let mut meta = example_file(0);
    let mut null = example(0);
    null.version = VersionId::NULL;
    meta.insert(Version::object(null), Some(vec![7; 40]));
    let meta = XlMeta::parse(&meta.encode()).unwrap();
    assert_eq!(meta.inline(VersionId::NULL), Some(&[7; 40][..]));
    assert_eq!(meta.inline(id(OBJECT)), Some(inline_value(4).as_slice()));

    let mut replaced = meta.clone();
    replaced.insert(Version::marker(VersionId::NULL, MOMENT_NS), None);
    assert_eq!(replaced.inline(VersionId::NULL), None);
    assert_eq!(replaced.inline(id(OBJECT)), Some(inline_value(4).as_slice()));
    replaced.remove(id(OBJECT));
    // Nothing inline is left, so the block is gone.
    let bytes = replaced.encode();
    assert_eq!(bytes[bytes.len() - 5], 0xce);
}

#[test]
fn an_ownerless_inline_value_is_kept_and_told() {
    let mut meta = example_file(0);
    meta.inline.entries.push(("null".into(), b"left over".to_vec()));
    let bytes = meta.encode();
    let mut again = XlMeta::parse(&bytes).unwrap();
    assert_eq!(again.encode(), bytes);
    assert_eq!(again.ownerless_inline(), ["null"]);
    // A null marker does not own it either.
    again.versions.push(Version::marker(VersionId::NULL, 1));
    assert_eq!(again.ownerless_inline(), ["null"]);
    // A later null version replaces it.
    let mut null = example(0);
    null.version = VersionId::NULL;
    again.insert(Version::object(null), Some(b"new".to_vec()));
    assert_eq!(again.inline(VersionId::NULL), Some(b"new".as_slice()));
    assert!(again.ownerless_inline().is_empty());
}

#[test]
fn what_is_not_known_is_kept_through_a_change() {
    let mut body = example(0);
    // A nested value of types that we never write.
    let value = vec![0x82, 0xa1, b'x', 0xca, 1, 2, 3, 4, 0xa1, b'y', 0x91, 0xc7, 1, 5, 9];
    body.unknown.push(("Later".into(), value.clone()));
    let version = Version::object(body);
    let read = Version::parse(version.header_bytes(), version.body_bytes()).unwrap();
    assert_eq!(read.as_object().unwrap().unknown, [("Later".to_owned(), value)]);
    let changed = read.for_shard(2).unwrap().for_shard(4).unwrap();
    assert_eq!(changed.body_bytes(), version.body_bytes());
}

#[test]
fn a_body_that_does_not_decode_harms_no_other_version() {
    let mut meta = example_file(0);
    let mut legacy = meta.find(id(OBJECT)).unwrap().clone();
    legacy.body_bytes = vec![0x93, 1, 2, 3];
    meta.versions[1] = legacy;
    let bytes = meta.encode();
    let mut again = XlMeta::parse(&bytes).unwrap();
    assert_eq!(again.encode(), bytes);
    assert_eq!(*again.versions()[1].body(), Body::Opaque);
    assert!(again.versions()[1].check().is_err());
    assert_eq!(again.versions()[0].check(), Ok(()));
    again.insert(Version::marker(VersionId::NULL, 5), None);
    assert_eq!(again.versions()[1].body_bytes(), [0x93, 1, 2, 3]);
}

#[test]
fn a_header_that_contradicts_its_body_is_told() {
    let version = Version::object(example(0));
    let mut cases = Vec::new();
    let mut with = |change: &dyn Fn(&mut Version)| {
        let mut bad = version.clone();
        change(&mut bad);
        cases.push(bad);
    };
    with(&|it| it.header.version = VersionId::NULL);
    with(&|it| it.header.modtime_ns += 1);
    with(&|it| it.header.data = 3);
    with(&|it| it.header.flags = 0);
    for bad in cases {
        assert!(bad.check().is_err(), "{:?}", bad.header);
    }
    let broken: [fn(&mut ObjectBody); 12] = [
        |it| it.data = 0,
        |it| it.parity = 3,
        |it| it.block_bytes = 0,
        |it| it.shard = 5,
        |it| it.shard = 0,
        |it| it.distribution = vec![1, 2, 3, 3],
        |it| it.distribution = vec![1, 2, 3],
        |it| it.erasure_algorithm = 2,
        |it| it.size = 7,
        |it| it.parts[0].number = 10_001,
        |it| it.modtime_ns = 0,
        |it| it.parts.clear(),
    ];
    for (number, change) in broken.iter().enumerate() {
        let bad = version.with_object(change).unwrap();
        assert!(bad.check().is_err(), "case {number}");
    }
}

#[test]
fn every_flipped_bit_of_the_metadata_is_seen_and_none_panics() {
    let vector = VECTORS[0];
    let inline_at = 0x270;
    for bit in 0..vector.len() * 8 {
        let mut bad = vector.to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        if bit / 8 < inline_at {
            assert!(XlMeta::parse(&bad).is_err(), "bit {bit}");
        } else {
            // The checksum does not cover the inline block; the frame's hash does.
            let Ok(meta) = XlMeta::parse(&bad) else { continue };
            let value = meta.inline(id(OBJECT));
            assert_eq!(value.and_then(frame::verify), None, "bit {bit}");
        }
    }
    for length in 0..vector.len() {
        let cut = XlMeta::parse(&vector[..length]);
        assert!(cut.is_err() || length == inline_at, "{length} bytes");
    }
}

#[test]
fn hostile_bytes_neither_panic_nor_exhaust_memory() {
    let mut random = StdRng::seed_from_u64(7);
    for _ in 0..10_000 {
        let mut bytes = VECTORS[random.random_range(0..4)].to_vec();
        for _ in 0..random.random_range(1..8) {
            match random.random_range(0..4) {
                0 => {
                    let at = random.random_range(0..bytes.len());
                    bytes[at] = random.random();
                }
                1 => {
                    let at = random.random_range(0..bytes.len());
                    bytes.insert(at, random.random());
                }
                2 => {
                    let at = random.random_range(0..bytes.len());
                    bytes.remove(at);
                }
                _ => {
                    let at = random.random_range(0..bytes.len());
                    let marks = [0xdd, 0xdf, 0xc6, 0xdb, 0xff, 0xc0, 0xde, 0xcf];
                    bytes[at] = marks[random.random_range(0..marks.len())];
                }
            }
        }
        // The checksum is made right, so that the metadata itself is read.
        if bytes.len() > 18 {
            let length = u32::from_be_bytes([bytes[9], bytes[10], bytes[11], bytes[12]]) as usize;
            if let Some(end) = 13_usize.checked_add(length).filter(|end| end + 5 <= bytes.len()) {
                let checksum = xxhash_rust::xxh64::xxh64(&bytes[13..end], 0) as u32;
                bytes[end] = 0xce;
                bytes[end + 1..end + 5].copy_from_slice(&checksum.to_be_bytes());
            }
        }
        if let Ok((meta, _)) = XlMeta::parse_damaged(&bytes) {
            let encoded = meta.encode();
            let again = XlMeta::parse(&encoded).unwrap();
            assert_eq!(again.versions(), meta.versions());
            for version in meta.versions() {
                let _ = (version.check(), version.identity(), version.computed_signature());
            }
        }
    }
}
