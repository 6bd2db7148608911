//! What a snapshot may hold, in each version.

use std::sync::Arc;

use crate::protocol::catalog::commit_record::Status;
use crate::protocol::catalog::entry::State;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::fixture;
use crate::protocol::catalog::fixture::BUCKET;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::snapshot::codec;
use crate::protocol::catalog::snapshot::contents::Contents;
use crate::protocol::catalog::snapshot::contents::TableCommits;
use crate::protocol::catalog::strong::tests::add_table;
use crate::protocol::catalog::strong::tests::add_view;
use crate::protocol::catalog::strong::tests::contents;

/// The class in which each version refuses what `change` makes of a good snapshot.
fn judged(change: impl Fn(&mut Contents)) -> [Option<Class>; 2] {
    [1, 2].map(|version| {
        let mut contents = contents(2);
        change(&mut contents);
        let bytes = codec::encode(&contents, version).unwrap();
        codec::decode(&bytes).err().map(|refusal| refusal.class)
    })
}

const BOTH: [Option<Class>; 2] = [Some(Class::Invalid); 2];
const ONLY_2: [Option<Class>; 2] = [None, Some(Class::Invalid)];
const NEITHER: [Option<Class>; 2] = [None; 2];

fn table(contents: &mut Contents, change: impl FnOnce(&mut TableEntry)) {
    let mut table = fixture::table("other");
    change(&mut table);
    add_table(contents, table);
}

fn text(contents: &Contents, version: u32) -> String {
    String::from_utf8(codec::encode(contents, version).unwrap()).unwrap()
}

#[test]
fn a_good_snapshot_comes_back_in_both_versions() {
    assert_eq!(judged(|_| {}), NEITHER);
    for version in [1, 2] {
        let bytes = codec::encode(&contents(2), version).unwrap();
        let snapshot = codec::decode(&bytes).unwrap();
        assert_eq!((snapshot.version, &*snapshot.contents), (version, &contents(2)));
        assert_eq!(codec::encode(&snapshot.contents, version).unwrap(), bytes);
    }
}

#[test]
fn f34_what_is_no_snapshot_is_damaged() {
    let good = text(&contents(1), 1);
    for bad in [
        good.replacen('{', r#"{"extra":1,"#, 1),
        good[..good.len() - 9].to_owned(),
        good.replacen(r#""idempotency":"#, r#""other":"#, 1),
        String::new(),
    ] {
        assert_eq!(codec::decode(bad.as_bytes()).unwrap_err().class, Class::Damaged);
    }
}

#[test]
fn f35_only_two_versions_are_known() {
    let good = text(&contents(1), 1);
    for version in ["0", "3"] {
        let bad = good.replacen(r#""version":1"#, &format!(r#""version":{version}"#), 1);
        assert_eq!(codec::decode(bad.as_bytes()).unwrap_err().class, Class::Invalid);
    }
}

#[test]
fn f41_records_of_no_table_are_left_out_in_version_1_and_refused_in_version_2() {
    let orphan = |contents: &mut Contents| {
        let key = (BUCKET.to_owned(), "nobody".to_owned());
        let mut record = fixture::commit(1, Status::Committed);
        record.table_id = "nobody".to_owned();
        let mut known = TableCommits::default();
        known.commits.insert(record.commit_id.clone(), Arc::new(record));
        contents.commits.insert(key, Arc::new(known));
    };
    assert_eq!(judged(orphan), ONLY_2);
    let mut with = contents(2);
    orphan(&mut with);
    let snapshot = codec::decode(&codec::encode(&with, 1).unwrap()).unwrap();
    assert_eq!((&*snapshot.contents, snapshot.orphans), (&contents(2), 1));
}

#[test]
fn inactive_entries_are_looked_at_in_version_2_only() {
    let gone = |change: fn(&mut TableEntry)| {
        move |contents: &mut Contents| {
            table(contents, |table| {
                table.state = State::Deleted;
                change(table);
            });
        }
    };
    assert_eq!(judged(gone(|_| {})), NEITHER);
    assert_eq!(judged(gone(|it| it.warehouse_location = "nowhere".to_owned())), ONLY_2);
    assert_eq!(judged(gone(|it| it.metadata_location = "nowhere".to_owned())), ONLY_2);
    assert_eq!(judged(gone(|it| it.namespace = "gone".to_owned())), ONLY_2);
}

#[test]
fn f41_a_name_is_a_tables_or_a_views() {
    assert_eq!(judged(|contents| add_view(contents, "orders")), ONLY_2);
    assert_eq!(judged(|contents| add_view(contents, "v")), NEITHER);
}

#[test]
fn active_entries_are_looked_at_in_both() {
    let with = |change: fn(&mut TableEntry)| move |contents: &mut Contents| table(contents, change);
    assert_eq!(judged(with(|_| {})), NEITHER);
    assert_eq!(judged(with(|it| it.warehouse_location = "nowhere".to_owned())), BOTH);
    assert_eq!(judged(with(|it| it.metadata_location = "nowhere".to_owned())), BOTH);
    assert_eq!(judged(with(|it| it.table_id = "id-of-orders".to_owned())), BOTH);
    let inside = "s3://lake1/tables/id-of-orders/x";
    assert_eq!(judged(|it| table(it, |it| it.warehouse_location = inside.to_owned())), BOTH);
    // A namespace that is not explicit is there because the table is.
    assert_eq!(judged(with(|it| it.namespace = "implicit".to_owned())), NEITHER);
}

#[test]
fn owners_have_to_be_there() {
    assert_eq!(judged(|contents| contents.buckets.clear()), BOTH);
    let closed = |contents: &mut Contents| {
        let mut bucket = fixture::bucket();
        bucket.state = State::Deleting;
        contents.buckets.insert(BUCKET.to_owned(), Arc::new(bucket));
    };
    assert_eq!(judged(closed), BOTH);
    let off = |contents: &mut Contents| {
        let mut entry = fixture::namespace_entry("sales");
        entry.state = State::Deleted;
        contents.namespaces.insert((BUCKET.to_owned(), fixture::namespace("sales")), entry.into());
    };
    assert_eq!(judged(off), BOTH, "inactive over something active");
    let empty = |contents: &mut Contents| {
        let mut entry = fixture::namespace_entry("hr");
        entry.state = State::Deleted;
        contents.namespaces.insert((BUCKET.to_owned(), fixture::namespace("hr")), entry.into());
    };
    assert_eq!(judged(empty), NEITHER);
}

#[test]
fn commits_have_to_lead_to_the_pointer_and_be_found_by_their_keys() {
    let known = |contents: &mut Contents, change: fn(&mut TableCommits)| {
        let key = (BUCKET.to_owned(), "id-of-orders".to_owned());
        change(Arc::make_mut(contents.commits.get_mut(&key).unwrap()));
    };
    let with = |change: fn(&mut TableCommits)| move |it: &mut Contents| known(it, change);
    let gap = with(|it| {
        it.commits.remove("commit-2");
        it.idempotency.remove("key-2");
    });
    assert_eq!(judged(gap), BOTH);
    let oldest = with(|it| {
        it.commits.remove("commit-1");
        it.idempotency.remove("key-1");
    });
    assert_eq!(judged(oldest), NEITHER, "what is kept leads to the pointer");
    assert_eq!(judged(with(|it| drop(it.idempotency.remove("key-1")))), BOTH);
    assert_eq!(judged(with(|it| drop(it.commits.remove("commit-1")))), BOTH);
    let failed = with(|it| {
        let record = Arc::new(fixture::keyed_commit(2, Status::Failed));
        it.commits.insert("commit-2".to_owned(), Arc::clone(&record));
        it.idempotency.insert("key-2".to_owned(), record);
    });
    assert_eq!(judged(failed), BOTH);
    let misfiled = with(|it| {
        let record = it.commits.remove("commit-2").unwrap();
        it.commits.insert("another".to_owned(), record);
    });
    assert_eq!(judged(misfiled), BOTH);
}
