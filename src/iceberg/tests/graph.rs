//! Whether what a snapshot refers to is there.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;

use super::avro::real;
use super::*;

const PLACE: Place<'static> = Place {
    bucket: "lake",
    warehouse_prefix: "tables/t/",
    metadata_prefix: ".rustfs-table/warehouses/default/namespaces/n/tables/t/metadata/",
};

/// A bucket: objects with their bytes, or only their lengths.
#[derive(Default)]
struct Bucket {
    objects: BTreeMap<String, Bytes>,
    lengths: BTreeMap<String, u64>,
    withheld: BTreeMap<String, Unread>,
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl ObjectReader for Bucket {
    async fn read(&self, key: &str, bytes_max: u64) -> Result<Bytes, Unread> {
        self.asked.lock().unwrap().push(key.to_owned());
        if let Some(why) = self.withheld.get(key) {
            return Err(why.clone());
        }
        let bytes = self.objects.get(key).ok_or(Unread::NotFound)?;
        if bytes.len() as u64 > bytes_max { Err(Unread::TooLarge) } else { Ok(bytes.clone()) }
    }

    async fn length(&self, key: &str) -> Result<u64, Unread> {
        self.asked.lock().unwrap().push(key.to_owned());
        match self.withheld.get(key) {
            Some(why) => Err(why.clone()),
            None => self.lengths.get(key).copied().ok_or(Unread::NotFound),
        }
    }
}

/// The real list, its two manifests, and the files that are in them.
fn bucket() -> Bucket {
    let object = |target: &str, name: &str| Bytes::from(real(target, name));
    Bucket {
        objects: BTreeMap::from([
            (
                "tables/t/metadata/snap-7.avro".to_owned(),
                object("manifest-list", "v2-deflate.avro"),
            ),
            ("tables/t/metadata/m0.avro".to_owned(), object("manifest", "v2-deflate.avro")),
            ("tables/t/metadata/m1.avro".to_owned(), object("manifest", "v2-deletes.avro")),
        ]),
        lengths: BTreeMap::from([
            ("tables/t/data/a.parquet".to_owned(), 1_001),
            ("tables/t/data/b.parquet".to_owned(), 1_002),
            ("tables/t/data/d.parquet".to_owned(), 1_004),
        ]),
        ..Bucket::default()
    }
}

/// The table that the real files are of.
fn table_of_files() -> Metadata {
    applied(&table(), append(7, None, 3)).unwrap()
}

fn look(bucket: &Bucket, table: &Metadata, budget: Budget) -> Result<Examined, Trouble> {
    let scope = Scope::all(table);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(graph(bucket, table, &scope, &PLACE, &budget))
}

fn refused(bucket: &Bucket) -> Class {
    class(look(bucket, &table_of_files(), Budget::SERVED))
}

#[test]
fn everything_that_a_snapshot_refers_to_is_looked_at() {
    let bucket = bucket();
    let examined = look(&bucket, &table_of_files(), Budget::SERVED).unwrap();
    assert_eq!(examined, Examined { snapshots: 1, manifests: 2, files: 3, statistics: 0 });
    let mut asked = bucket.asked.lock().unwrap().clone();
    asked.sort();
    let expected: Vec<String> =
        bucket.objects.keys().chain(bucket.lengths.keys()).cloned().collect();
    let mut expected = expected;
    expected.sort();
    assert_eq!(asked, expected, "each once");
}

#[test]
fn what_is_missing_forbidden_or_not_answered_is_three_things() {
    let keys =
        ["tables/t/metadata/snap-7.avro", "tables/t/metadata/m1.avro", "tables/t/data/b.parquet"];
    for key in keys {
        for (why, expected) in [
            (Unread::NotFound, Class::Invalid),
            (Unread::Forbidden, Class::Forbidden),
            (Unread::TooLarge, Class::Invalid),
            (Unread::Failed("no quorum".into()), Class::Unavailable),
        ] {
            let mut bucket = bucket();
            bucket.withheld.insert(key.to_owned(), why);
            assert_eq!(refused(&bucket), expected, "{key}");
        }
    }
}

#[test]
fn lengths_are_as_they_are_said() {
    let mut short = bucket();
    short.lengths.insert("tables/t/data/a.parquet".to_owned(), 1_000);
    assert_eq!(refused(&short), Class::Invalid);
    let mut long = bucket();
    let other = Bytes::from(real("manifest", "v2-null.avro"));
    long.objects.insert("tables/t/metadata/m0.avro".to_owned(), other);
    assert_eq!(refused(&long), Class::Invalid);
}

#[test]
fn a_manifest_is_of_the_spec_that_the_table_knows() {
    let mut document = table_of_files().document();
    document["partition-specs"] = json!([{"spec-id": 0, "fields": [
        {"source-id": 1, "field-id": 1000, "name": "b", "transform": "bucket[4]"}]}]);
    document["last-partition-id"] = json!(1000);
    let other = Metadata::from_document(document.clone()).unwrap();
    assert_eq!(class(look(&bucket(), &other, Budget::SERVED)), Class::Invalid);
    document["partition-specs"] = json!([{"spec-id": 5, "fields": []}]);
    document["default-spec-id"] = json!(5);
    let unknown = Metadata::from_document(document).unwrap();
    assert_eq!(class(look(&bucket(), &unknown, Budget::SERVED)), Class::Invalid);
}

#[test]
fn a_manifest_has_the_files_that_its_list_says() {
    let mut bucket = bucket();
    let swapped = bucket.objects["tables/t/metadata/m0.avro"].clone();
    bucket.objects.insert("tables/t/metadata/m1.avro".to_owned(), swapped);
    assert_eq!(refused(&bucket), Class::Invalid);
}

#[test]
fn a_manifest_is_not_younger_than_its_snapshot() {
    let table = applied(&table(), append(7, None, 2)).unwrap();
    assert_eq!(class(look(&bucket(), &table, Budget::SERVED)), Class::Invalid);
}

#[test]
fn files_lie_inside_the_table_each_kind_in_its_place() {
    let at = |list: &str| {
        let mut document = table_of_files().document();
        document["snapshots"][0]["manifest-list"] = json!(list);
        let table = Metadata::from_document(document).unwrap();
        let mut bucket = bucket();
        let bytes = bucket.objects["tables/t/metadata/snap-7.avro"].clone();
        let key = list.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
        bucket.objects.insert(key.map_or(list, |(_, key)| key).to_owned(), bytes);
        look(&bucket, &table, Budget::SERVED).is_ok()
    };
    assert!(at("s3://lake/tables/t/metadata/other.avro"));
    assert!(at("s3a://lake/tables/t/metadata/other.avro"));
    assert!(at(&format!("s3://lake/{}other.avro", PLACE.metadata_prefix)));
    for elsewhere in [
        "s3://other/tables/t/metadata/x.avro",
        "s3://lake/tables/t2/x.avro",
        "s3://lake/tables/t/../u/x.avro",
        "s3://lake/tables/t/",
        "s3://lake//tables/t/x.avro",
        "file:///tables/t/x.avro",
        "tables/t/x.avro",
        "s3://lakes/tables/t/x.avro",
        "",
    ] {
        assert!(!at(elsewhere), "{elsewhere}");
    }
    // Data that lies where the catalog keeps its own files.
    let place = Place { metadata_prefix: "tables/t/data/", ..PLACE };
    let table = table_of_files();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let scope = Scope::all(&table);
    let bucket = bucket();
    let looked = graph(&bucket, &table, &scope, &place, &Budget::SERVED);
    assert_eq!(class(runtime.block_on(looked)), Class::Invalid);
}

#[test]
fn a_commit_has_a_budget() {
    let table = table_of_files();
    let bucket = bucket();
    let bytes: u64 = bucket.objects.values().map(|bytes| bytes.len() as u64).sum();
    let enough = Budget {
        manifests: 2,
        traversals: 2,
        avro_bytes: bytes,
        file_references: 3,
        statistics: 0,
    };
    assert!(look(&bucket, &table, enough).is_ok());
    for less in [
        Budget { manifests: 1, ..enough },
        Budget { traversals: 1, ..enough },
        Budget { avro_bytes: bytes - 1, ..enough },
        Budget { file_references: 2, ..enough },
    ] {
        assert_eq!(class(look(&bucket, &table, less)), Class::Invalid, "{less:?}");
    }
}

#[test]
fn statistics_are_there_and_as_long_as_said() {
    let file = json!({"snapshot-id": 7, "statistics-path": "s3://lake/tables/t/metadata/s.puffin",
        "file-size-in-bytes": 10, "file-footer-size-in-bytes": 5, "blob-metadata": []});
    let old = table_of_files();
    let new =
        applied(&old, json!([{"action": "set-statistics", "snapshot-id": 7, "statistics": file}]));
    let new = new.unwrap();
    let mut bucket = bucket();
    assert_eq!(class(look(&bucket, &new, Budget::SERVED)), Class::Invalid);
    bucket.lengths.insert("tables/t/metadata/s.puffin".to_owned(), 10);
    assert_eq!(look(&bucket, &new, Budget::SERVED).unwrap().statistics, 1);
    let none = Budget { statistics: 0, ..Budget::SERVED };
    assert_eq!(class(look(&bucket, &new, none)), Class::Invalid);
    bucket.lengths.insert("tables/t/metadata/s.puffin".to_owned(), 11);
    assert_eq!(class(look(&bucket, &new, Budget::SERVED)), Class::Invalid);

    let scope = Scope::between(&old, &new);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    bucket.lengths.insert("tables/t/metadata/s.puffin".to_owned(), 10);
    let looked = graph(&bucket, &new, &scope, &PLACE, &Budget::SERVED);
    let expected = Examined { statistics: 1, ..Examined::default() };
    assert_eq!(runtime.block_on(looked), Ok(expected), "only what is new");
    assert!(Scope::between(&new, &new).is_empty());
    assert!(!Scope::between(&table(), &old).is_empty());
}
