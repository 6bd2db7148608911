//! Tests of backups, on four drives of one set with a catalog on them.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use tempfile::TempDir;
use uuid::Uuid;

use super::Release;
use super::manifest::Manifest;
use super::restore;
use super::restore::RestoreRequest;
use super::take;
use super::take::BackupRequest;
use super::verify;
use crate::disk::format::erasure::Erasure;
use crate::disk::format::format_json::FormatJson;
use crate::disk::format::frame;
use crate::disk::format::xl_meta::ObjectBody;
use crate::disk::format::xl_meta::Part;
use crate::disk::format::xl_meta::Version;
use crate::disk::format::xl_meta::XlMeta;
use crate::disk::format::xl_meta::keys;
use crate::disk::layout;
use crate::harness::operator::catalog::error::CatalogError;
use crate::value::Digest;
use crate::value::VersionId;

const DRIVES: usize = 4;

/// Four drives in a folder.
struct Set {
    folder: TempDir,
}

impl Set {
    /// Blank but formatted; `deployment` tells one from another.
    fn new(deployment: u128) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ids: Vec<_> =
            (0..DRIVES).map(|slot| Uuid::from_u128(deployment * 10 + slot as u128)).collect();
        for (slot, id) in ids.iter().enumerate() {
            let format = FormatJson::new(Uuid::from_u128(deployment), *id, vec![ids.clone()]);
            let path = folder.path().join(slot.to_string()).join(layout::FORMAT);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format.encode()).unwrap();
        }
        Self { folder }
    }

    fn root(&self, slot: usize) -> PathBuf {
        self.folder.path().join(slot.to_string())
    }

    fn roots(&self) -> Vec<PathBuf> {
        (0..DRIVES).map(|slot| self.root(slot)).collect()
    }

    /// Stores an object as a node does, in the metadata files or beside them.
    fn put(&self, bucket: &str, key: &str, contents: &[u8], is_inline: bool) {
        let (data, parity) = (2, 2);
        let shards = Erasure::new(data, parity).unwrap().encode_block(contents);
        let distribution = layout::distribution(bucket, key, DRIVES);
        let data_dir = Uuid::from_u128(7);
        for slot in 0..DRIVES {
            let shard = usize::from(distribution[slot]);
            let mut framed = Vec::new();
            frame::encode(&shards[shard - 1], &mut framed);
            let size = contents.len() as u64;
            let part = Part {
                number: 1,
                size,
                actual_size: size as i64,
                etag: String::new(),
                index: Vec::new(),
            };
            let mut body = ObjectBody {
                version: VersionId::NULL,
                data_dir,
                erasure_algorithm: 1,
                data,
                parity,
                block_bytes: frame::BLOCK_BYTES,
                shard,
                distribution: distribution.clone(),
                checksum_algorithm: 1,
                parts: vec![part],
                size,
                modtime_ns: 1_700_000_000_000_000_000,
                system: BTreeMap::new(),
                user: BTreeMap::from([(keys::ETAG.to_owned(), "e".to_owned())]),
                unknown: Vec::new(),
            };
            let folder = self.root(slot).join(layout::key_dir(bucket, key));
            fs::create_dir_all(&folder).unwrap();
            if is_inline {
                body.set_system(keys::INLINE_DATA, "true");
            } else {
                let beside = folder.join(data_dir.hyphenated().to_string());
                fs::create_dir_all(&beside).unwrap();
                fs::write(beside.join(layout::part_file(1)), &framed).unwrap();
            }
            let mut meta = XlMeta::default();
            meta.insert(Version::object(body), is_inline.then_some(framed));
            fs::write(folder.join(layout::META_FILE), meta.encode()).unwrap();
        }
    }
}

/// A set with the table bucket `lake`, one table, a fence and a snapshot of this version.
fn catalog(snapshot_version: u32) -> Set {
    let set = Set::new(1);
    let bucket = format!("s3tables/catalog/table-buckets/{}", Digest::of(b"lake"));
    let table = r#"{"table_bucket":"lake","namespace":"sales","table":"orders","table_id":"id","metadata_location":"m","version_token":"token-1","generation":4}"#;
    let snapshot = format!(r#"{{"version":{snapshot_version},"tables":[{table}]}}"#);
    let metadata = vec![b'x'; 300_000];
    let system = layout::SYSTEM;
    set.put(system, &format!("{bucket}/table-bucket.json"), b"{}", true);
    set.put(
        system,
        &format!("{bucket}/namespaces/sales/tables/orders/table-entry.json"),
        table.as_bytes(),
        true,
    );
    set.put(system, &format!("{bucket}/backing-migration/durable-strong-fence.json"), b"{}", true);
    set.put(system, "s3tables/catalog/strong-backing/snapshot.json", snapshot.as_bytes(), true);
    set.put(system, "buckets/lake/.metadata.bin", b"metadata", true);
    set.put("lake", ".rustfs-table/warehouses/default/m.json", &metadata, false);
    set.put("lake", "tables/id/data/a.parquet", b"not kept", true);
    set
}

fn taken(set: &Set, to: &Path) -> (Manifest, String) {
    take::run(&request(set, to)).unwrap()
}

fn request(set: &Set, to: &Path) -> BackupRequest {
    BackupRequest {
        drives: set.roots(),
        warehouses: BTreeSet::new(),
        to: to.to_owned(),
        live: false,
        release: "1.0".to_owned(),
    }
}

fn restoring(from: &Path, selected: &str, set: &Set) -> RestoreRequest {
    RestoreRequest {
        from: from.to_owned(),
        selected: selected.to_owned(),
        drives: set.roots(),
        release: Release::Current,
        replaced: None,
    }
}

#[test]
fn a_backup_says_what_the_drives_hold_and_restores_it() {
    let (set, folder) = (catalog(2), tempfile::tempdir().unwrap());
    let to = folder.path().join("kept");
    let (manifest, digest) = taken(&set, &to);
    let kept = &manifest.warehouses["lake"];
    assert_eq!(kept.tables["sales.orders"].version_token, "token-1");
    assert_eq!(kept.strong_tables["sales.orders"].generation, 4);
    assert_eq!(manifest.snapshot.as_ref().unwrap().version, 2);
    assert_eq!(manifest.fences.len(), 1);
    assert_eq!(manifest.objects.len(), 6, "data files are not kept: {:?}", manifest.objects);
    assert!(!manifest.is_cut_over);
    let facts = verify::facts(&to).unwrap();
    assert_eq!((facts.digest.as_str(), facts.release.as_str()), (digest.as_str(), "1.0"));
    assert_eq!(facts.tokens["lake"]["sales.orders"], "token-1");

    let fresh = Set::new(2);
    restore::run(&restoring(&to, &digest, &fresh)).unwrap();
    verify::against(&to, &fresh.roots()).unwrap();
    // As many drives may be lost as the objects bear.
    for slot in 0..2 {
        fs::remove_dir_all(fresh.root(slot).join(".rustfs.sys/s3tables")).unwrap();
        fs::remove_dir_all(fresh.root(slot).join("lake")).unwrap();
    }
    verify::against(&to, &fresh.roots()).unwrap();
    fresh.put("lake", ".rustfs-table/another", b"new", true);
    let error = verify::against(&to, &fresh.roots()).unwrap_err();
    assert!(error.to_string().contains("was not there"), "{error}");
}

#[test]
fn what_is_not_what_was_kept_is_not_restored() {
    let (set, folder) = (catalog(1), tempfile::tempdir().unwrap());
    let to = folder.path().join("kept");
    let (manifest, digest) = taken(&set, &to);
    let fresh = Set::new(2);
    let error = restore::run(&restoring(&to, &"0".repeat(64), &fresh)).unwrap_err();
    assert!(matches!(error, CatalogError::Refused(_)), "{error}");
    let file = to.join(&manifest.drives[1].folder).join(&manifest.drives[1].files[0].path);
    let before = fs::read(&file).unwrap();
    fs::write(&file, b"rotten").unwrap();
    let error = restore::run(&restoring(&to, &digest, &fresh)).unwrap_err();
    assert!(matches!(error, CatalogError::Broken(_)), "{error}");
    assert!(verify::facts(&to).is_err());
    fs::write(&file, before).unwrap();
    // A manifest that somebody has changed is another backup.
    let path = to.join(super::manifest::NAME);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("token-1", "token-2")).unwrap();
    let error = restore::run(&restoring(&to, &digest, &fresh)).unwrap_err();
    assert!(error.to_string().contains("selected is"), "{error}");
    for slot in 0..DRIVES {
        assert!(!fresh.root(slot).join("lake").exists(), "a refusal wrote something");
    }
}

#[test]
fn a_release_that_cannot_read_it_gets_none() {
    let folder = tempfile::tempdir().unwrap();
    let (v1, v2) = (folder.path().join("v1"), folder.path().join("v2"));
    let (_, digest_1) = taken(&catalog(1), &v1);
    let (_, digest_2) = taken(&catalog(2), &v2);
    for (from, digest, release, is_readable) in [
        (&v1, &digest_1, Release::SnapshotV1, true),
        (&v2, &digest_2, Release::SnapshotV1, false),
        (&v1, &digest_1, Release::WithoutFences, false),
        (&v2, &digest_2, Release::Current, true),
    ] {
        let fresh = Set::new(2);
        let request = RestoreRequest { release, ..restoring(from, digest, &fresh) };
        let restored = restore::run(&request);
        assert_eq!(restored.is_ok(), is_readable, "{release:?}: {restored:?}");
    }
}

#[test]
fn what_stands_on_the_drives_is_replaced_only_where_it_is_kept() {
    let (set, folder) = (catalog(1), tempfile::tempdir().unwrap());
    let (to, now) = (folder.path().join("kept"), folder.path().join("now"));
    let (_, digest) = taken(&set, &to);
    set.put("lake", ".rustfs-table/later", b"later", true);
    let request = restoring(&to, &digest, &set);
    assert!(restore::run(&request).unwrap_err().to_string().contains("already"));
    // The old backup does not have what came later.
    let replaced = Some(to.clone());
    let error = restore::run(&RestoreRequest { replaced, ..request.clone() }).unwrap_err();
    assert!(error.to_string().contains("would be lost"), "{error}");
    taken(&set, &now);
    restore::run(&RestoreRequest { replaced: Some(now), ..request }).unwrap();
    verify::against(&to, &set.roots()).unwrap();
    assert!(!set.root(0).join("lake/.rustfs-table/later").exists());
}

#[test]
fn a_backup_is_of_all_of_it_or_none() {
    let (set, folder) = (catalog(1), tempfile::tempdir().unwrap());
    let to = folder.path().join("kept");
    let other = BTreeSet::from(["lake".to_owned(), "sea".to_owned()]);
    let error = take::run(&BackupRequest { warehouses: other, ..request(&set, &to) }).unwrap_err();
    assert!(error.to_string().contains("lake"), "{error}");
    let inside = set.root(0).join("kept");
    assert!(take::run(&request(&set, &inside)).unwrap_err().to_string().contains("lies on"));
    // Three of four drives lost: what is left decodes to nothing.
    let alone = BackupRequest { drives: vec![set.root(0)], ..request(&set, &to) };
    assert!(matches!(take::run(&alone).unwrap_err(), CatalogError::Broken(_)));
    assert!(!to.exists(), "what is no backup is removed");
    fs::create_dir(&to).unwrap();
    assert!(take::run(&request(&set, &to)).unwrap_err().to_string().contains("there already"));
    let blank = Set::new(3);
    let error = take::run(&request(&blank, &folder.path().join("x"))).unwrap_err();
    assert!(error.to_string().contains("no table bucket"), "{error}");
}
