//! Views, namespaces, table buckets.

use std::collections::BTreeMap;

use crate::protocol::catalog::depot::Depot;
use crate::protocol::catalog::depot::End;
use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::State;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::fence::RegistryFence;
use crate::protocol::catalog::fixture;
use crate::protocol::catalog::fixture::BUCKET;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::object::bucket;
use crate::protocol::catalog::object::bucket::Next;
use crate::protocol::catalog::object::namespace;
use crate::protocol::catalog::object::tests::tables::home;
use crate::protocol::catalog::object::view;
use crate::protocol::catalog::record::compact;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::crash_point::CrashPoint;

fn read(depot: &Depot, request: &view::Request) -> view::Durable {
    let entry = &request.entry;
    view::Durable {
        fence: depot.fence(),
        home: home(depot, &entry.namespace),
        table: depot.table(&entry.view).map(|found| found.value),
        view: depot.view(&entry.view),
        has_metadata: depot.has_metadata(&entry.metadata_location),
    }
}

fn run(depot: &mut Depot, request: &view::Request, crash: Option<CrashPoint>) -> End<ViewEntry> {
    depot.run(crash, |depot| view::next(&read(depot, request), request))
}

fn creation(name: &str) -> view::Request {
    let (entry, metadata) = (fixture::view(name), Some(b"{}".to_vec()));
    view::Request { entry, base: None, metadata, has_fresh_name: true }
}

fn replacement(base: &ViewEntry, token: &str) -> view::Request {
    let folder = keys::folder(&base.metadata_location);
    let entry = ViewEntry {
        metadata_location: format!("{folder}{}", keys::metadata_file(2, token)),
        version_token: token.to_owned(),
        generation: 2,
        ..base.clone()
    };
    view::Request { entry, base: Some(base.clone()), ..creation("v") }
}

#[test]
fn k_v1_a_metadata_file_alone_is_no_view() {
    let mut depot = Depot::with_orders(0);
    let point = CrashPoint::CatalogViewMetadataWritten;
    assert_eq!(run(&mut depot, &creation("v"), Some(point)), End::Crashed);
    assert!(depot.view("v").is_none());
    let undone = view::undo(&read(&depot, &creation("v")), &creation("v"));
    assert_eq!(undone.len(), 1);
    assert_eq!(run(&mut depot, &creation("v"), None).done(), fixture::view("v"));
}

#[test]
fn k_v2_an_entry_is_the_view() {
    let mut depot = Depot::with_orders(0);
    let point = CrashPoint::CatalogViewEntryWritten;
    assert_eq!(run(&mut depot, &creation("v"), Some(point)), End::Crashed);
    assert_eq!(depot.view("v").unwrap().value, fixture::view("v"));
    assert_eq!(run(&mut depot, &creation("v"), None).done(), fixture::view("v"));
    assert_eq!(view::undo(&read(&depot, &creation("v")), &creation("v")), []);
}

#[test]
fn k_v3_a_replaced_view_is_the_old_one_or_the_new_one() {
    let mut depot = Depot::with_orders(0);
    let base = run(&mut depot, &creation("v"), None).done();
    let request = replacement(&base, "t2");
    let point = CrashPoint::CatalogViewMetadataWritten;
    assert_eq!(run(&mut depot, &request, Some(point)), End::Crashed);
    assert_eq!(depot.view("v").unwrap().value, base);
    let point = CrashPoint::CatalogViewPointerMoved;
    assert_eq!(run(&mut depot, &request, Some(point)), End::Crashed);
    assert_eq!(depot.view("v").unwrap().value, request.entry);
    assert_eq!(run(&mut depot, &request, None).done(), request.entry, "a lost answer is found out");
    let late = replacement(&base, "t3");
    assert_eq!(run(&mut depot, &late, None).refused().class, Class::Conflict);
    let mut gone = Depot::with_orders(0);
    assert_eq!(run(&mut gone, &late, None).refused().class, Class::NoSuchView);
}

#[test]
fn f19_a_view_may_not_have_a_tables_name() {
    let mut depot = Depot::with_orders(0);
    assert_eq!(run(&mut depot, &creation("orders"), None).refused().class, Class::AlreadyExists);
    run(&mut depot, &creation("v"), None).done();
    let mut again = creation("v");
    again.entry.view_id = "another".to_owned();
    assert_eq!(run(&mut depot, &again, None).refused().class, Class::AlreadyExists);
}

#[test]
fn a_view_is_dropped_once() {
    let mut depot = Depot::with_orders(0);
    run(&mut depot, &creation("v"), None).done();
    let (bucket, view) = (BUCKET.to_owned(), fixture::identifier("v"));
    let drop = view::Drop { bucket, view, seen: Some(fixture::view("v")) };
    let read = |depot: &Depot| view::Durable { view: depot.view("v"), ..view::Durable::default() };
    let point = CrashPoint::CatalogViewEntryDeleted;
    let crashed = depot.run(Some(point), |depot| view::next_of_drop(&read(depot), &drop));
    assert_eq!(crashed, End::Crashed);
    depot.run(None, |depot| view::next_of_drop(&read(depot), &drop)).done();
    let unseen = view::Drop { seen: None, ..drop };
    let refusal = depot.run(None, |depot| view::next_of_drop(&read(depot), &unseen)).refused();
    assert_eq!(refusal.class, Class::NoSuchView);
}

fn request(dotted: &str) -> namespace::Request {
    namespace::Request {
        bucket: BUCKET.to_owned(),
        namespace: fixture::namespace(dotted),
        properties: BTreeMap::new(),
        attempted: false,
    }
}

fn read_namespace(depot: &Depot, request: &namespace::Request) -> namespace::Durable {
    namespace::Durable {
        fence: depot.fence(),
        registry_fence: None,
        bucket: depot.bucket(),
        namespace: depot.namespace(request.namespace.dotted()),
        has_descendants: depot
            .tables()
            .iter()
            .any(|table| fixture::namespace(&table.namespace).is_below(&request.namespace)),
        has_entries: depot
            .tables()
            .iter()
            .any(|table| table.namespace == request.namespace.dotted()),
    }
}

/// The request, knowing whether it has sent its write.
fn sent(
    depot: &Depot,
    before: &[CrashPoint],
    request: &namespace::Request,
    point: CrashPoint,
) -> namespace::Request {
    let attempted = request.attempted || depot.passed[before.len()..].contains(&point);
    namespace::Request { attempted, ..request.clone() }
}

fn create(depot: &mut Depot, request: &namespace::Request) -> End<NamespaceEntry> {
    let before = depot.passed.clone();
    depot.run(None, |depot| {
        let request = sent(depot, &before, request, CrashPoint::CatalogNamespaceEntryWritten);
        namespace::next_of_create(&read_namespace(depot, &request), &request)
    })
}

fn drop(depot: &mut Depot, request: &namespace::Request) -> End<()> {
    let before = depot.passed.clone();
    depot.run(None, |depot| {
        let request = sent(depot, &before, request, CrashPoint::CatalogNamespaceEntryDeleted);
        namespace::next_of_drop(&read_namespace(depot, &request), &request)
    })
}

#[test]
fn a_namespace_is_created_once_and_makes_its_bucket_entry() {
    let mut depot = Depot::default();
    create(&mut depot, &request("hr")).done();
    assert_eq!(depot.bucket(), Some(BucketEntry::new(BUCKET)));
    assert_eq!(create(&mut depot, &request("hr")).refused().class, Class::AlreadyExists);
    let lost = namespace::Request { attempted: true, ..request("hr") };
    create(&mut depot, &lost).done();
    assert_eq!(create(&mut depot, &request("hr.tables")).refused().class, Class::Invalid);
}

#[test]
fn an_implicit_namespace_is_there_already() {
    let mut depot = Depot::with_orders(0);
    depot.remove(&keys::namespace_entry(BUCKET, &fixture::namespace("sales")));
    let mut durable = read_namespace(&depot, &request("sales"));
    durable.has_descendants = true;
    let refusal = namespace::next_of_create(&durable, &request("sales")).unwrap_err();
    assert_eq!(refusal.class, Class::AlreadyExists);
}

#[test]
fn an_inactive_namespace_is_revived() {
    let mut depot = Depot::with_orders(0);
    let mut entry = fixture::namespace_entry("hr");
    entry.state = State::Deleted;
    depot.file(&entry);
    assert!(create(&mut depot, &request("hr")).done().is_active());
}

#[test]
fn only_an_empty_namespace_is_dropped() {
    let mut depot = Depot::with_orders(0);
    assert_eq!(drop(&mut depot, &request("sales")).refused().class, Class::NamespaceNotEmpty);
    create(&mut depot, &request("hr")).done();
    drop(&mut depot, &request("hr")).done();
    assert_eq!(drop(&mut depot, &request("hr")).refused().class, Class::NoSuchNamespace);
    drop(&mut depot, &namespace::Request { attempted: true, ..request("hr") }).done();
}

#[test]
fn f21_a_fenced_bucket_takes_no_namespace_and_no_view() {
    let mut depot = Depot::with_orders(0);
    create(&mut depot, &request("hr")).done();
    let fence = BucketFence::preparing(BUCKET, "m", false, None);
    depot.put(&keys::bucket_fence(BUCKET), compact(&fence));
    assert_eq!(create(&mut depot, &request("new")).refused().class, Class::Unavailable);
    assert_eq!(drop(&mut depot, &request("hr")).refused().class, Class::Conflict);
    assert_eq!(run(&mut depot, &creation("v"), None).refused().class, Class::Unavailable);
}

/// Does what enabling asks for, up to the given number of steps.
fn enable(durable: &mut bucket::Durable, steps: usize) -> Next {
    for _ in 0..steps {
        match bucket::next(durable, BUCKET).unwrap() {
            Next::Mark => durable.has_marker = true,
            Next::Write(write) => {
                assert_eq!(write.point, CrashPoint::CatalogBucketEntryWritten);
                durable.entry = Some(BucketEntry::new(BUCKET));
            }
            done @ Next::Done(_) => return done,
        }
    }
    bucket::next(durable, BUCKET).unwrap()
}

#[test]
fn k_b1_a_marker_without_an_entry_is_healed_by_asking_again() {
    let mut durable = bucket::Durable::default();
    enable(&mut durable, 1);
    assert!(durable.has_marker && durable.entry.is_none());
    assert_eq!(enable(&mut durable, 9), Next::Done(BucketEntry::new(BUCKET)));
}

#[test]
fn k_b2_an_entry_is_there_for_good() {
    let mut durable = bucket::Durable::default();
    enable(&mut durable, 2);
    assert_eq!(bucket::next(&durable, BUCKET).unwrap(), Next::Done(BucketEntry::new(BUCKET)));
}

#[test]
fn f22_a_fence_is_looked_at_before_the_marker() {
    let fenced = bucket::Durable {
        registry_fence: Some(RegistryFence::new("m")),
        ..bucket::Durable::default()
    };
    assert_eq!(bucket::next(&fenced, BUCKET).unwrap_err().class, Class::Unavailable);
    let known =
        bucket::Durable { has_marker: true, entry: Some(BucketEntry::new(BUCKET)), ..fenced };
    assert!(matches!(bucket::next(&known, BUCKET), Ok(Next::Done(_))), "what is there stays");
}
