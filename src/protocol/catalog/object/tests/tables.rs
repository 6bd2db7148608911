//! Creation and drop of tables, backfill, resolution.

use crate::protocol::catalog::depot::Depot;
use crate::protocol::catalog::depot::End;
use crate::protocol::catalog::entry::State;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::fixture;
use crate::protocol::catalog::fixture::BUCKET;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::object::backfill;
use crate::protocol::catalog::object::create;
use crate::protocol::catalog::object::create::Home;
use crate::protocol::catalog::object::drop_table;
use crate::protocol::catalog::object::resolve;
use crate::protocol::catalog::object::resolve::Facts;
use crate::protocol::catalog::object::resolve::Resolution;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::prefix::IndexEntry;
use crate::protocol::catalog::prefix::IndexState;
use crate::protocol::catalog::prefix::PrefixMap;
use crate::protocol::catalog::record::compact;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::crash_point::CrashPoint;

fn request(name: &str) -> create::Request {
    create::Request { entry: fixture::table(name), metadata: Some(b"{}".to_vec()) }
}

pub(super) fn home(depot: &Depot, dotted: &str) -> Home {
    let namespace = depot.namespace(dotted).map(|found| found.value);
    Home { bucket: depot.bucket(), namespace, is_implicit: false }
}

fn read(depot: &Depot, request: &create::Request) -> create::Durable {
    let entry = &request.entry;
    let prefix = prefix::of_table(BUCKET, &entry.warehouse_location).unwrap();
    let mut others = PrefixMap::default();
    let mut has_twin = false;
    for table in depot.tables().iter().filter(|it| it.table != entry.table) {
        has_twin |= table.table_id == entry.table_id;
        let prefix = prefix::of_table(BUCKET, &table.warehouse_location).unwrap();
        others.insert(prefix, table.identifier().unwrap()).unwrap();
    }
    create::Durable {
        fence: depot.fence(),
        home: home(depot, &entry.namespace),
        table: depot.table(&entry.table).map(|found| found.value),
        view: depot.view(&entry.table).map(|found| found.value),
        has_metadata: depot.has_metadata(&entry.metadata_location),
        reservation: depot.reservation(&prefix),
        overlapping: others.overlapping(&prefix).cloned(),
        has_twin,
    }
}

fn create(
    depot: &mut Depot,
    request: &create::Request,
    crash: Option<CrashPoint>,
) -> End<TableEntry> {
    depot.run(crash, |depot| create::next(&read(depot, request), request))
}

fn refused(depot: &Depot, request: &create::Request) -> Refusal {
    let mut depot = depot.clone();
    let before = depot.objects.clone();
    let refusal = create(&mut depot, request, None).refused();
    assert_eq!(depot.objects, before, "a refused creation leaves nothing behind");
    refusal
}

fn drop_orders(depot: &mut Depot, crash: Option<CrashPoint>) -> End<()> {
    let seen = depot.table("orders").map(|found| found.value);
    let table = fixture::identifier("orders");
    let request = drop_table::Request { bucket: BUCKET.to_owned(), table, seen };
    depot.run(crash, |depot| drop_table::next(&read_drop(depot), &request))
}

fn read_drop(depot: &Depot) -> drop_table::Durable {
    drop_table::Durable {
        fence: depot.fence(),
        table: depot.table("orders"),
        reservation: depot.reservation("tables/id-of-orders/"),
    }
}

fn facts(depot: &Depot, key: &str) -> Facts {
    let hits = resolve::probes(BUCKET, key);
    let hits = hits.iter().filter_map(|it| {
        let entry: IndexEntry = depot.record(it)?;
        depot.reservation(&entry.warehouse_object_prefix)
    });
    Facts {
        bucket: depot.bucket(),
        state: depot.index_state(),
        hits: hits.collect(),
        tables: None,
        is_backfill_broken: false,
    }
}

fn owner(depot: &Depot, key: &str) -> Option<String> {
    let mut facts = facts(depot, key);
    let first = resolve::resolve(&facts, BUCKET, key).unwrap();
    facts.tables = Some(depot.tables());
    let answer = match first {
        Resolution::Scan => resolve::resolve(&facts, BUCKET, key).unwrap(),
        other => other,
    };
    match answer {
        Resolution::Table(name, _) => Some(name.to_string()),
        Resolution::Nobody(_) => None,
        other => panic!("{other:?}"),
    }
}

fn fill(depot: &mut Depot, crash: Option<CrashPoint>) -> End<backfill::Filled> {
    depot.run(crash, |depot| {
        let durable = backfill::Durable {
            fence: depot.fence(),
            tables: depot.tables(),
            index: depot.index(),
            state: depot.index_state(),
        };
        backfill::next(&durable, BUCKET)
    })
}

/// A bucket of an older release: tables, and no index at all.
fn legacy() -> Depot {
    let mut depot = Depot::with_orders(0);
    depot.add_table(&fixture::table("events"));
    let index = keys::warehouse_index(BUCKET);
    depot.objects.retain(|(_, key), _| !key.starts_with(&index));
    depot
}

#[test]
fn k_t1_a_metadata_file_alone_is_no_table() {
    let mut depot = Depot::with_orders(0);
    let new = request("new");
    let point = CrashPoint::CatalogCreateMetadataWritten;
    assert_eq!(create(&mut depot, &new, Some(point)), End::Crashed);
    assert!(depot.table("new").is_none() && owner(&depot, "tables/id-of-new/x").is_none());
    assert_eq!(create(&mut depot, &new, None).done(), new.entry);
}

#[test]
fn k_t2_a_reservation_without_a_table_is_stale_and_can_be_taken_over() {
    let mut depot = Depot::with_orders(0);
    let new = request("new");
    let point = CrashPoint::CatalogCreateIndexReserved;
    assert_eq!(create(&mut depot, &new, Some(point)), End::Crashed);
    assert!(depot.table("new").is_none());
    assert_eq!(owner(&depot, "tables/id-of-new/x"), None, "nobody is locked out");
    assert_eq!(create(&mut depot.clone(), &new, None).done(), new.entry);
    // The same name with another id: what PyIceberg's next attempt is.
    let mut again = request("new");
    again.entry.table_id = "another".to_owned();
    assert_eq!(create(&mut depot.clone(), &again, None).done(), again.entry);
    // Another name for the same prefix.
    let mut other = request("other");
    other.entry.warehouse_location.clone_from(&new.entry.warehouse_location);
    assert_eq!(create(&mut depot, &other, None).done(), other.entry);
    assert_eq!(owner(&depot, "tables/id-of-new/x").as_deref(), Some("sales.other"));
}

#[test]
fn k_t3_an_entry_is_the_table() {
    let mut depot = Depot::with_orders(0);
    let new = request("new");
    let point = CrashPoint::CatalogCreateEntryWritten;
    assert_eq!(create(&mut depot, &new, Some(point)), End::Crashed);
    assert_eq!(depot.table("new").unwrap().value, new.entry);
    assert_eq!(owner(&depot, "tables/id-of-new/x").as_deref(), Some("sales.new"));
    assert_eq!(create(&mut depot, &new, None).done(), new.entry, "a lost answer is found out");
    use CrashPoint as P;
    assert_eq!(
        depot.passed,
        [P::CatalogCreateMetadataWritten, P::CatalogCreateIndexReserved, point]
    );
}

#[test]
fn f19_a_name_is_one_things_only() {
    let mut depot = Depot::with_orders(0);
    let taken = request("orders");
    let mut anew = taken.clone();
    anew.entry.table_id = "another".to_owned();
    assert_eq!(refused(&depot, &anew).class, Class::AlreadyExists);
    depot.file(&fixture::view("new"));
    assert_eq!(refused(&depot, &request("new")).class, Class::AlreadyExists);
}

#[test]
fn f20_prefixes_and_ids_are_one_tables_only() {
    let depot = Depot::with_orders(0);
    let mut nested = request("new");
    nested.entry.warehouse_location = format!("s3://{BUCKET}/tables/id-of-orders/inside");
    assert_eq!(refused(&depot, &nested).class, Class::Conflict);
    let mut above = request("new");
    above.entry.warehouse_location = format!("s3://{BUCKET}/tables");
    assert_eq!(refused(&depot, &above).class, Class::Conflict);
    let mut twin = request("new");
    twin.entry.table_id = "id-of-orders".to_owned();
    assert_eq!(refused(&depot, &twin).class, Class::Conflict);
    let mut reserved = request("new");
    reserved.entry.warehouse_location = format!("s3://{BUCKET}/.rustfs-table/x");
    assert_eq!(refused(&depot, &reserved).class, Class::Invalid);
}

#[test]
fn a_table_needs_its_bucket_and_its_namespace() {
    let mut depot = Depot::with_orders(0);
    let mut elsewhere = request("new");
    elsewhere.entry.namespace = "hr".to_owned();
    assert_eq!(refused(&depot, &elsewhere).class, Class::NoSuchNamespace);
    depot.remove(&keys::bucket_entry(BUCKET));
    assert_eq!(refused(&depot, &request("new")).class, Class::NotFound);
}

#[test]
fn f21_a_fenced_bucket_takes_no_table_and_does_not_say_that_it_is_there() {
    let mut depot = Depot::with_orders(0);
    let fence = BucketFence::preparing(BUCKET, "m", false, None);
    depot.put(&keys::bucket_fence(BUCKET), compact(&fence));
    assert_eq!(refused(&depot, &request("new")).class, Class::Unavailable);
    assert_eq!(drop_orders(&mut depot, None).refused().class, Class::Conflict);
    assert_eq!(fill(&mut depot, None).refused().class, Class::Conflict);
}

#[test]
fn what_a_refused_creation_has_taken_is_given_back() {
    let mut depot = Depot::with_orders(0);
    let new = request("new");
    create(&mut depot, &new, Some(CrashPoint::CatalogCreateIndexReserved));
    let undone = create::undo(&read(&depot, &new), &new);
    assert_eq!(undone.len(), 2);
    for write in &undone {
        depot.perform(write);
    }
    assert_eq!(depot.objects, Depot::with_orders(0).objects);
    let registered = create::Request { metadata: None, ..new.clone() };
    create(&mut depot, &new, Some(CrashPoint::CatalogCreateIndexReserved));
    let undone = create::undo(&read(&depot, &registered), &registered);
    assert_eq!(undone.len(), 1, "a metadata file that was there before stays");
    create(&mut depot, &new, None).done();
    assert_eq!(create::undo(&read(&depot, &new), &new), []);
}

#[test]
fn k_x1_a_table_whose_prefix_is_released_is_there_and_protected() {
    let mut depot = Depot::with_orders(0);
    let point = CrashPoint::CatalogDropIndexDeleted;
    assert_eq!(drop_orders(&mut depot, Some(point)), End::Crashed);
    assert!(depot.table("orders").is_some());
    assert_eq!(owner(&depot, "tables/id-of-orders/x").as_deref(), Some("sales.orders"));
    fill(&mut depot.clone(), None).done();
    drop_orders(&mut depot, None).done();
    assert!(depot.table("orders").is_none());
}

#[test]
fn k_x2_a_dropped_table_is_gone_and_its_records_are_nobodys() {
    let mut depot = Depot::with_orders(2);
    let point = CrashPoint::CatalogDropEntryDeleted;
    assert_eq!(drop_orders(&mut depot, Some(point)), End::Crashed);
    assert!(depot.table("orders").is_none());
    assert_eq!(owner(&depot, "tables/id-of-orders/x"), None);
    assert_eq!(depot.commits("id-of-orders").len(), 2);
    assert_eq!(drop_orders(&mut depot, None).refused().class, Class::NoSuchTable);
}

#[test]
fn a_drop_that_fails_gives_the_prefix_back() {
    let mut depot = Depot::with_orders(0);
    let seen = depot.table("orders").map(|found| found.value);
    drop_orders(&mut depot, Some(CrashPoint::CatalogDropIndexDeleted));
    let table = fixture::identifier("orders");
    let request = drop_table::Request { bucket: BUCKET.to_owned(), table, seen };
    for write in drop_table::undo(&read_drop(&depot), &request) {
        depot.perform(&write);
    }
    assert_eq!(depot.objects, Depot::with_orders(0).objects);
}

#[test]
fn a_table_that_was_made_anew_meanwhile_is_not_dropped() {
    let mut depot = Depot::with_orders(0);
    let mut seen = fixture::table("orders");
    seen.table_id = "the one before".to_owned();
    let table = fixture::identifier("orders");
    let request = drop_table::Request { bucket: BUCKET.to_owned(), table, seen: Some(seen) };
    let before = depot.objects.clone();
    depot.run(None, |depot| drop_table::next(&read_drop(depot), &request)).done();
    assert_eq!(depot.objects, before);
}

#[test]
fn k_i1_a_torn_backfill_goes_on() {
    let mut depot = legacy();
    let point = CrashPoint::CatalogBackfillEntryWritten;
    assert_eq!(fill(&mut depot, Some(point)), End::Crashed);
    assert!(depot.index_state().is_none(), "not ready");
    assert_eq!(fill(&mut depot, None).done().prefixes, 2);
    let mut whole = legacy();
    fill(&mut whole, None).done();
    assert_eq!(depot.objects, whole.objects);
}

#[test]
fn k_i2_the_state_makes_the_index_ready() {
    let mut depot = legacy();
    let point = CrashPoint::CatalogBackfillStateWritten;
    assert_eq!(fill(&mut depot, Some(point)), End::Crashed);
    assert!(depot.index_state().unwrap().is_ready());
    assert_eq!(owner(&depot, "tables/id-of-events/x").as_deref(), Some("sales.events"));
}

#[test]
fn a_backfill_removes_what_nobody_owns_and_refuses_what_two_own() {
    let mut depot = Depot::with_orders(0);
    depot.file(&IndexEntry::new(&fixture::table("gone"), "tables/gone/"));
    assert_eq!(fill(&mut depot, None).done().prefixes, 1);
    assert_eq!(depot.objects, Depot::with_orders(0).objects);
    let mut nested = fixture::table("nested");
    nested.warehouse_location = format!("s3://{BUCKET}/tables/id-of-orders/x");
    depot.file(&nested);
    assert_eq!(fill(&mut depot, None).refused().class, Class::Conflict);
    let mut twin = fixture::table("nested");
    twin.table_id = "id-of-orders".to_owned();
    depot.file(&twin);
    assert_eq!(fill(&mut depot, None).refused().class, Class::Conflict);
}

#[test]
fn f43_a_table_bucket_without_an_active_entry_is_closed() {
    let depot = Depot::with_orders(0);
    let mut known = facts(&depot, "x/y");
    known.bucket = None;
    assert!(resolve::resolve(&known, BUCKET, "x/y").is_err());
    known.bucket = depot.bucket().map(|mut entry| {
        entry.state = State::Deleting;
        entry
    });
    assert!(resolve::resolve(&known, BUCKET, "x/y").is_err());
}

#[test]
fn resolution_looks_at_everything_before_it_says_nobody() {
    let depot = Depot::with_orders(0);
    let mut known = facts(&depot, "free/x");
    assert_eq!(resolve::resolve(&known, BUCKET, "free/x"), Ok(Resolution::Scan));
    known.tables = Some(depot.tables());
    assert_eq!(resolve::resolve(&known, BUCKET, "free/x"), Ok(Resolution::Nobody(Vec::new())));
    known.state = Some(IndexState { version: 1, ..IndexState::ready(BUCKET) });
    assert_eq!(resolve::resolve(&known, BUCKET, "free/x"), Ok(Resolution::Backfill));
    known.is_backfill_broken = true;
    assert_eq!(resolve::resolve(&known, BUCKET, "free/x"), Ok(Resolution::Nobody(Vec::new())));
}

#[test]
fn resolution_refuses_what_it_cannot_tell() {
    let mut depot = Depot::with_orders(0);
    let key = "tables/id-of-orders/nested/x";
    let mut nested = fixture::table("nested");
    nested.warehouse_location = format!("s3://{BUCKET}/tables/id-of-orders/nested");
    depot.add_table(&nested);
    let refusal = resolve::resolve(&facts(&depot, key), BUCKET, key).unwrap_err();
    assert_eq!(refusal.class, Class::Conflict);
    let depot = Depot::with_orders(0);
    let mut known = facts(&depot, key);
    known.hits[0].entry.value.state = State::Deleted;
    assert_eq!(resolve::resolve(&known, BUCKET, key).unwrap_err().class, Class::Invalid);
}

#[test]
fn f53_an_import_over_another_identity_is_a_conflict() {
    let found = fixture::table("orders");
    let import = |table: &TableEntry| {
        let (uuid, at) = (&table.table_uuid, &table.metadata_location);
        create::import(Some(&found), uuid, at, &table.warehouse_location)
    };
    assert_eq!(create::import(None, "u", "l", "w"), Ok(create::Import::Register));
    assert_eq!(import(&found), Ok(create::Import::Unchanged));
    let uuid = TableEntry { table_uuid: "another".to_owned(), ..found.clone() };
    let older = TableEntry { metadata_location: fixture::location(7), ..found.clone() };
    let moved = TableEntry { warehouse_location: "s3://lake1/x".to_owned(), ..found.clone() };
    for other in [uuid, older, moved] {
        assert_eq!(import(&other).unwrap_err().class, Class::Conflict);
    }
}
