//! What each change does and refuses, and in which version it is written.

use std::collections::BTreeSet;

use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::fixture;
use crate::protocol::catalog::fixture::BUCKET;
use crate::protocol::catalog::json::Json;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::snapshot::codec;
use crate::protocol::catalog::strong::change::Answer;
use crate::protocol::catalog::strong::change::Change;
use crate::protocol::catalog::strong::change::ChangedProperties;
use crate::protocol::catalog::strong::change::Properties;
use crate::protocol::catalog::strong::change::Rename;
use crate::protocol::catalog::strong::plan;
use crate::protocol::catalog::strong::plan::Plan;
use crate::protocol::catalog::strong::plan::Rules;
use crate::protocol::catalog::strong::resolve;
use crate::protocol::catalog::strong::tests::CLOSED;
use crate::protocol::catalog::strong::tests::OPEN;
use crate::protocol::catalog::strong::tests::World;
use crate::protocol::catalog::strong::tests::add_table;
use crate::protocol::catalog::strong::tests::add_view;
use crate::protocol::catalog::strong::tests::commit;
use crate::protocol::catalog::strong::tests::contents;
use crate::protocol::catalog::strong::tests::create_namespace;

fn world(commits: u64) -> World {
    World::new(&contents(commits), 1, CLOSED)
}

fn refused(world: &mut World, change: &Change) -> Class {
    let before = world.object.clone();
    let class = world.change(change).unwrap_err().class;
    assert_eq!(world.object, before);
    class
}

fn drop_table(name: &str) -> Change {
    Change::DropTable(BUCKET.to_owned(), fixture::identifier(name), None)
}

fn drop_view(name: &str) -> Change {
    Change::DropView(BUCKET.to_owned(), fixture::identifier(name), None)
}

#[test]
fn k_s1_a_metadata_file_changes_nothing() {
    let world = world(1);
    let table = world.contents().table(BUCKET, &fixture::identifier("orders")).unwrap().clone();
    assert_eq!(*table, fixture::table_at(1));
}

#[test]
fn k_s2_a_commit_is_there_whole_or_not_at_all() {
    let mut landed = world(1);
    landed.change(&commit(2, "t")).unwrap();
    let contents = landed.contents();
    let table = contents.table(BUCKET, &fixture::identifier("orders")).unwrap();
    let known = contents.commits_of(BUCKET, "id-of-orders").unwrap();
    assert_eq!((&*table.version_token, table.generation), ("t", 3));
    assert!(known.commits.contains_key("commit-2") && known.idempotency.contains_key("key-2"));
    assert!(plan::has_happened(&contents, &commit(2, "t")));
    assert!(!plan::has_happened(&world(1).contents(), &commit(2, "t")));
    let before = landed.object.clone();
    let answer = landed.change(&commit(2, "t2")).unwrap();
    assert_eq!(answer, Answer::Committed(TableEntry::clone(table), true));
    assert_eq!(landed.object, before, "a replay writes nothing");
}

/// Whatever is changed, a lost answer is decided by what is there.
#[test]
fn k_s3_every_change_has_happened_or_has_not() {
    let name = fixture::identifier;
    let mut base = contents(1);
    add_view(&mut base, "v");
    let view = fixture::view("v");
    let moved = ViewEntry {
        metadata_location: keys::view_metadata(&name("v")) + "00002-x.metadata.json",
        version_token: "t".to_owned(),
        ..view.clone()
    };
    let mut w = fixture::view("w");
    w.warehouse_location = "s3://lake1/views/w".to_owned();
    let mut start = World::new(&base, 1, CLOSED);
    start.change(&create_namespace("hr")).unwrap();
    let changes = [
        Change::EnableBucket("lake2".to_owned()),
        create_namespace("new"),
        Change::DropNamespace(BUCKET.to_owned(), fixture::namespace("hr")),
        Change::SetProperties(properties(&[("a", "1")], &[])),
        Change::CreateTable(fixture::table("new")),
        commit(2, "t"),
        Change::DropTable(BUCKET.to_owned(), name("orders"), Some("id-of-orders".to_owned())),
        Change::RenameTable(rename("orders", "renamed")),
        Change::CreateView(w),
        Change::ReplaceView(Box::new((view, moved))),
        Change::DropView(BUCKET.to_owned(), name("v"), Some("id-of-v".to_owned())),
    ];
    for change in changes {
        let mut world = start.clone();
        assert!(!plan::has_happened(&world.contents(), &change), "{change:?}");
        world.change(&change).unwrap();
        assert!(plan::has_happened(&world.contents(), &change), "{change:?}");
    }
}

fn rename(from: &str, to: &str) -> Rename {
    Rename {
        bucket: BUCKET.to_owned(),
        from: fixture::identifier(from),
        to: fixture::identifier(to),
        table_id: Some(format!("id-of-{from}")),
    }
}

fn properties(updates: &[(&str, &str)], removals: &[&str]) -> Properties {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    Properties {
        bucket: BUCKET.to_owned(),
        namespace: fixture::namespace("sales"),
        updates: updates.iter().map(owned).collect(),
        removals: removals.iter().map(|key| (*key).to_owned()).collect(),
    }
}

#[test]
fn properties_are_set_removed_and_missed() {
    let mut world = world(0);
    world.change(&Change::SetProperties(properties(&[("a", "1"), ("b", "2")], &[]))).unwrap();
    let answer = world.change(&Change::SetProperties(properties(&[("c", "3")], &["a", "x"])));
    let expected = ChangedProperties {
        updated: vec!["c".to_owned()],
        removed: vec!["a".to_owned()],
        missing: vec!["x".to_owned()],
    };
    assert_eq!(answer, Ok(Answer::Properties(expected)));
    let writes = world.writes;
    world.change(&Change::SetProperties(properties(&[("b", "2")], &["x"]))).unwrap();
    assert_eq!(world.writes, writes, "what is so already is not written");
    let both = Change::SetProperties(properties(&[("b", "2")], &["b"]));
    assert_eq!(refused(&mut world, &both), Class::Unprocessable);
}

#[test]
fn f9_f13_stale_bases_and_other_contents_are_conflicts() {
    let mut world = world(2);
    assert_eq!(refused(&mut world, &commit(4, "t")), Class::Conflict);
    let Change::Commit(mut other) = commit(2, "t") else { unreachable!() };
    other.record.requirements = vec![Json::Null];
    assert_eq!(refused(&mut world, &Change::Commit(other)), Class::Conflict);
    let Change::Commit(mut other) = commit(2, "t") else { unreachable!() };
    other.record.commit_id = "another".to_owned();
    assert_eq!(refused(&mut world, &Change::Commit(other)), Class::Conflict);
    let Change::Commit(mut other) = commit(3, "t") else { unreachable!() };
    other.record.table_id = "another".to_owned();
    assert_eq!(refused(&mut world, &Change::Commit(other)), Class::Conflict);
}

#[test]
fn f19_f20_names_ids_and_prefixes_are_one_things_only() {
    let mut world = world(0);
    assert_eq!(
        refused(&mut world, &Change::CreateTable(fixture::table("orders"))),
        Class::AlreadyExists
    );
    assert_eq!(
        refused(&mut world, &Change::CreateView(fixture::view("orders"))),
        Class::AlreadyExists
    );
    let mut nested = fixture::table("new");
    nested.warehouse_location = format!("s3://{BUCKET}/tables/id-of-orders/x");
    assert_eq!(refused(&mut world, &Change::CreateTable(nested)), Class::Conflict);
    let mut twin = fixture::table("new");
    twin.table_id = "id-of-orders".to_owned();
    assert_eq!(refused(&mut world, &Change::CreateTable(twin)), Class::Conflict);
    let mut elsewhere = fixture::table("new");
    elsewhere.namespace = "hr".to_owned();
    assert_eq!(refused(&mut world, &Change::CreateTable(elsewhere)), Class::NoSuchNamespace);
    let mut foreign = fixture::table("new");
    foreign.table_bucket = "lake9".to_owned();
    foreign.warehouse_location = "s3://lake9/x".to_owned();
    assert_eq!(refused(&mut world, &Change::CreateTable(foreign)), Class::NotFound);
}

#[test]
fn a_renamed_table_keeps_all_but_its_name() {
    let mut world = world(2);
    world.change(&Change::RenameTable(rename("orders", "renamed"))).unwrap();
    let contents = world.contents();
    let renamed = contents.table(BUCKET, &fixture::identifier("renamed")).unwrap();
    let expected = TableEntry { table: "renamed".to_owned(), ..fixture::table_at(2) };
    assert_eq!(**renamed, expected);
    assert_eq!(contents.commits_of(BUCKET, "id-of-orders").unwrap().commits.len(), 2);
    let gone = Change::RenameTable(rename("orders", "x"));
    assert_eq!(refused(&mut world, &gone), Class::NoSuchTable);
    let taken = Change::RenameTable(rename("renamed", "renamed"));
    assert_eq!(refused(&mut world, &taken), Class::AlreadyExists);
    let mut away = rename("renamed", "x");
    away.to.namespace = fixture::namespace("hr");
    assert_eq!(refused(&mut world, &Change::RenameTable(away)), Class::NoSuchNamespace);
}

#[test]
fn a_dropped_table_takes_its_commits_with_it() {
    let mut world = world(2);
    world.change(&drop_table("orders")).unwrap();
    assert!(world.contents().commits.is_empty());
    assert_eq!(refused(&mut world, &drop_table("orders")), Class::NoSuchTable);
    let namespace = || Change::DropNamespace(BUCKET.to_owned(), fixture::namespace("sales"));
    world.change(&namespace()).unwrap();
    assert_eq!(refused(&mut world, &namespace()), Class::NoSuchNamespace);
    let mut full = super::World::new(&contents(1), 1, CLOSED);
    assert_eq!(refused(&mut full, &namespace()), Class::NamespaceNotEmpty);
}

#[test]
fn a_table_can_be_moved_and_is_found_where_it_is() {
    let mut world = world(0);
    let Change::Commit(mut moving) = commit(1, "t") else { unreachable!() };
    moving.warehouse_location = format!("s3://{BUCKET}/moved");
    world.change(&Change::Commit(moving)).unwrap();
    let loaded = world.loaded();
    let owner = |key| resolve::resolve(loaded.as_ref(), CLOSED, BUCKET, key).unwrap();
    assert_eq!(owner("moved/x"), Some(fixture::identifier("orders")));
    assert_eq!(owner("tables/id-of-orders/x"), None);
}

/// Goal: history is bounded, and what is kept is proven and found by its key.
#[test]
fn the_newest_commits_are_kept() {
    let mut world = world(3);
    let loaded = world.hydrate().unwrap();
    let rules = Rules { history_max: 2, ..Rules::new(CLOSED) };
    let plan = plan::plan(loaded.as_ref(), &world.memory, &commit(4, "t"), &rules).unwrap();
    let Plan::Write(planned) = plan else { panic!("a commit is a write") };
    let again = codec::decode(planned.write.contents.as_ref().unwrap()).unwrap();
    let known = again.contents.commits_of(BUCKET, "id-of-orders").unwrap();
    let ids: BTreeSet<&str> = known.commits.keys().map(String::as_str).collect();
    assert_eq!(ids, BTreeSet::from(["commit-3", "commit-4"]));
    assert_eq!(known.idempotency.len(), 2);
}

#[test]
fn k_u1_both_gates_write_version_2_with_the_next_change() {
    let mut world = World::new(&contents(1), 1, OPEN);
    let loaded = world.loaded();
    let refusal = resolve::resolve(loaded.as_ref(), OPEN, BUCKET, "free/x").unwrap_err();
    assert_eq!(refusal.class, Class::Unavailable, "f42: until then the data plane is closed");
    world.change(&commit(1, "t2")).unwrap();
    world.change(&Change::EnableBucket(BUCKET.to_owned())).unwrap();
    assert_eq!((world.version(), world.writes), (1, 0), "what changes nothing upgrades nothing");
    world.change(&create_namespace("scratch")).unwrap();
    assert_eq!(world.version(), 2);
    let mut expected = contents(1);
    super::add_namespace(&mut expected, "scratch");
    assert_eq!(world.contents(), expected, "nothing is lost on the way");
    let loaded = world.loaded();
    assert_eq!(resolve::resolve(loaded.as_ref(), OPEN, BUCKET, "free/x"), Ok(None));
}

#[test]
fn k_u2_version_2_stays_without_the_gates() {
    let mut world = World::new(&contents(1), 2, CLOSED);
    world.change(&create_namespace("a")).unwrap();
    assert_eq!(world.version(), 2);
    let one_gate = [(true, false), (false, true)].map(|(requested, fleet_confirmed)| {
        let gates = crate::protocol::catalog::settings::Gates { requested, fleet_confirmed };
        let mut world = World::new(&contents(1), 1, gates);
        world.change(&create_namespace("a")).unwrap();
        world.version()
    });
    assert_eq!(one_gate, [1, 1]);
}

#[test]
fn k_u3_an_older_reader_refuses_version_2() {
    let bytes = codec::encode(&contents(1), 2).unwrap();
    assert_eq!(codec::decode_up_to(&bytes, 1).unwrap_err().class, Class::Invalid);
    let bytes = codec::encode(&contents(1), 1).unwrap();
    assert!(codec::decode_up_to(&bytes, 1).is_ok());
}

/// Two names that are both a table's and a view's.
fn quarantined(gates: crate::protocol::catalog::settings::Gates) -> World {
    let mut contents = contents(1);
    add_table(&mut contents, fixture::table("events"));
    add_view(&mut contents, "orders");
    add_view(&mut contents, "events");
    World::new(&contents, 1, gates)
}

#[test]
fn an_older_release_lets_a_view_have_a_tables_name() {
    let mut world = World::new(&contents(1), 1, CLOSED);
    let view = Change::CreateView(fixture::view("orders"));
    assert_eq!(refused(&mut world, &view), Class::AlreadyExists);
    let rules = Rules { knows_collisions: false, ..Rules::new(CLOSED) };
    let loaded = world.hydrate().unwrap();
    let plan = plan::plan(loaded.as_ref(), &world.memory, &view, &rules).unwrap();
    let Plan::Write(planned) = plan else { panic!("a creation is a write") };
    let made = codec::decode(planned.write.contents.as_ref().unwrap()).unwrap();
    assert_eq!((made.version, made.derived.collisions.len()), (1, 1));
}

#[test]
fn k_q1_each_cleanup_shrinks_the_set_and_stays_at_version_1() {
    let mut world = quarantined(OPEN);
    world.change(&drop_view("orders")).unwrap();
    assert_eq!(world.version(), 1);
    let left = world.loaded().unwrap().snapshot.derived.collisions.clone();
    assert_eq!(left, BTreeSet::from([(BUCKET.to_owned(), fixture::identifier("events"))]));
}

#[test]
fn k_q2_the_last_cleanup_lifts_the_quarantine() {
    for (gates, version) in [(OPEN, 2), (CLOSED, 1)] {
        let mut world = quarantined(gates);
        world.change(&drop_view("orders")).unwrap();
        world.change(&drop_table("events")).unwrap();
        assert_eq!(world.version(), version);
        assert!(world.loaded().unwrap().snapshot.derived.collisions.is_empty());
        world.change(&create_namespace("a")).unwrap();
    }
}

#[test]
fn f39_what_is_ambiguous_is_not_served() {
    let world = quarantined(CLOSED);
    let loaded = world.loaded().unwrap();
    let derived = &loaded.snapshot.derived;
    let (orders, sales) = (fixture::identifier("orders"), fixture::namespace("sales"));
    assert_eq!(derived.check_name(BUCKET, &orders).unwrap_err().class, Class::Damaged);
    assert!(derived.check_listing(BUCKET, Some(&sales)).is_err());
    assert!(derived.check_listing(BUCKET, None).is_err());
    assert!(derived.check_name(BUCKET, &fixture::identifier("other")).is_ok());
    assert!(derived.check_listing(BUCKET, Some(&fixture::namespace("hr"))).is_ok());
    let key = "tables/id-of-orders/x";
    assert!(resolve::resolve(Some(&loaded), CLOSED, BUCKET, key).is_err());
    assert_eq!(resolve::resolve(Some(&loaded), CLOSED, BUCKET, "free/x"), Ok(None));
}

#[test]
fn f40_in_quarantine_nothing_but_cleanup_is_changed() {
    for gates in [CLOSED, OPEN] {
        let mut world = quarantined(gates);
        assert_eq!(refused(&mut world, &create_namespace("a")), Class::Conflict);
        assert_eq!(refused(&mut world, &Change::EnableBucket("b".to_owned())), Class::Conflict);
        assert_eq!(refused(&mut world, &commit(2, "t")), Class::Damaged);
    }
}

#[test]
fn f41_version_2_allows_no_collision() {
    let mut contents = contents(1);
    add_view(&mut contents, "orders");
    let bytes = codec::encode(&contents, 2).unwrap();
    assert_eq!(codec::decode(&bytes).unwrap_err().class, Class::Invalid);
    let mut world = quarantined(OPEN);
    world.memory.version = Some(2);
    assert!(world.change(&create_namespace("a")).is_err());
}

#[test]
fn f43_a_bucket_that_the_snapshot_does_not_have_is_closed() {
    let loaded = world(1).loaded();
    let refusal = resolve::resolve(loaded.as_ref(), CLOSED, "lake9", "x").unwrap_err();
    assert_eq!(refusal.class, Class::Invalid);
    assert!(resolve::resolve(None, CLOSED, BUCKET, "x").is_err());
}

#[test]
fn f33_a_snapshot_that_is_too_large_is_not_published() {
    let mut huge = fixture::table("huge");
    huge.properties.insert("k".to_owned(), "x".repeat(codec::SNAPSHOT_BYTES_MAX));
    assert_eq!(refused(&mut world(0), &Change::CreateTable(huge)), Class::Invalid);
    let bytes_max = codec::SNAPSHOT_BYTES_MAX;
    assert!(codec::check_size(bytes_max, bytes_max).is_ok());
    assert!(codec::check_size(bytes_max + 1, bytes_max).is_err());
}

#[test]
fn f33_a_lower_cap_counts_for_what_is_written() {
    let mut world = world(0);
    let loaded = world.hydrate().unwrap();
    let rules = Rules { bytes_max: 64, ..Rules::new(CLOSED) };
    let change = create_namespace("a");
    let refusal = plan::plan(loaded.as_ref(), &world.memory, &change, &rules).unwrap_err();
    assert_eq!(refusal.class, Class::Invalid);
    assert!(world.change(&change).is_ok());
}

/// Two processes write the same object: the second has to look again, and then it knows.
#[test]
fn f37_a_lost_race_is_asked_again() {
    let mut mine = world(1);
    let Ok(Plan::Write(planned)) = mine.plan(&commit(2, "t")) else { panic!("it is a write") };
    let mut theirs = mine.clone();
    theirs.change(&create_namespace("a")).unwrap();
    let stale = crate::protocol::catalog::write::When::Matches(theirs.loaded().unwrap().etag);
    assert_ne!(planned.write.when, stale, "its precondition does not hold any more");
    mine.object = theirs.object.clone();
    mine.change(&commit(2, "t")).unwrap();
    assert!(mine.contents().has_namespace(BUCKET, &fixture::namespace("a")), "nothing is lost");
    // The winner was the same commit: it is found, and nothing is written again.
    let mut again = world(1);
    again.object = mine.object.clone();
    let answer = again.change(&commit(2, "t")).unwrap();
    assert!(matches!(answer, Answer::Committed(_, false)));
    // The winner was another commit of the same base.
    let Change::Commit(mut other) = commit(2, "o") else { unreachable!() };
    other.record.commit_id = "another".to_owned();
    other.record.idempotency_key = None;
    assert_eq!(refused(&mut again, &Change::Commit(other)), Class::Conflict);
}

#[test]
fn f38_a_write_that_did_not_happen_is_known_by_what_is_there() {
    let world = world(1);
    assert!(!plan::has_happened(&world.contents(), &commit(2, "t")));
    assert!(!plan::has_happened(&world.contents(), &create_namespace("a")));
    assert!(plan::has_happened(&world.contents(), &create_namespace("sales")));
}
