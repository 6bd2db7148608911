//! What is larger than it may be: as it lies on the drive, and if it were written.

use std::fs;
use std::fs::File;

use xxhash_rust::xxh64::xxh64;

use super::*;
use crate::disk::format::msgpack::put_binary;
use crate::disk::format::msgpack::put_uint;
use crate::disk::format::xl_meta::VERSIONS_MAX;

/// Goal: the version that nobody could read again, with all those before it, is not taken.
#[test]
fn a_key_with_as_many_versions_as_it_may_have_takes_no_more() {
    let bench = Bench::new();
    put_inline(&bench, "k", VersionId::NULL, 5);
    let mut block = vec![3, 3];
    put_uint(&mut block, VERSIONS_MAX as u64);
    for number in 0..VERSIONS_MAX {
        let id = VersionId(*Uuid::from_u128(1 << 64 | number as u128).as_bytes());
        let marker = Version::marker(id, 1 + number as i64);
        put_binary(&mut block, marker.header_bytes());
        put_binary(&mut block, marker.body_bytes());
    }
    let mut full = b"XL2 \x01\x00\x03\x00\xc6".to_vec();
    full.extend_from_slice(&(block.len() as u32).to_be_bytes());
    full.extend_from_slice(&block);
    full.push(0xce);
    full.extend_from_slice(&(xxh64(&block, 0) as u32).to_be_bytes());
    let path = bench.folder.path().join("bkt/k/xl.meta");
    fs::write(&path, &full).unwrap();
    assert_eq!(bench.meta("k").unwrap().versions().len(), VERSIONS_MAX);
    let version = object(VersionId(*Uuid::from_u128(7).as_bytes()), 6, 1, true);
    let refused = bench.commit(put("k", &version, Shards::Inline(vec![6; 33])));
    assert!(matches!(refused, Err(DriveError::Illegal { .. })), "{refused:?}");
    assert!(fs::read(&path).unwrap() == full, "it was changed all the same");
}

/// Goal: a metadata file that is larger than any may be costs no memory, is no version's, and is written over like
/// every other that cannot be read; what it held is put aside.
#[test]
fn an_oversized_metadata_file_is_one_that_cannot_be_read() {
    let bench = Bench::new();
    put_inline(&bench, "k", VersionId::NULL, 5);
    let path = bench.folder.path().join("bkt/k/xl.meta");
    File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
    let read = bench.key("k").meta.expect("it is there");
    assert!(read.len() < 64 && XlMeta::parse(&read).is_err());
    let page = bench.page("", "", 10);
    assert_eq!(page.entries.len(), 1, "it is listed: other drives know what it is");
    put_inline(&bench, "k", VersionId::NULL, 6);
    assert_eq!(bench.null("k"), Some(6));
    let aside = bench.tree(layout::QUARANTINE);
    assert!(aside.iter().any(|path| path.ends_with("xl.meta")), "{aside:?}");
}
