//! Routes of a migration, and what a process must find before it serves its backing.
//!
//! # Sources
//!
//! Specification of the catalog §2.6, §5, §6; M5, M6, M14, M15.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use futures::StreamExt as _;
use futures::stream;
use http::Method;
use uuid::Uuid;

use super::Catalog;
use super::depot::Depot;
use super::depot::Kept;
use super::documents;
use super::flow;
use super::flow::Flow;
use super::listed::Listed;
use super::locks;
use super::locks::Locks;
use super::object;
use super::reply::Reply;
use super::second_look;
use super::state::State;
use super::strong::Explanation;
use super::strong::Strong;
use crate::node::seams::BoxFuture;
use crate::node::seams::LockMode;
use crate::node::store::api::StoreError;
use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::fence::Cancelled;
use crate::protocol::catalog::fence::CutOver;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::migration::cancel;
use crate::protocol::catalog::migration::facts::Facts;
use crate::protocol::catalog::migration::opening;
use crate::protocol::catalog::migration::post;
use crate::protocol::catalog::migration::preflight;
use crate::protocol::catalog::migration::source::Source;
use crate::protocol::catalog::object::permit;
use crate::protocol::catalog::prefix::IndexState;
use crate::protocol::catalog::record::Record as _;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::settings::Backing;
use crate::protocol::catalog::strong::hydrate::Reader;
use crate::protocol::catalog::write::Outcome;
use crate::protocol::catalog::write::Step;
use crate::protocol::catalog::write::Write;

/// Metadata files that are looked at at once.
const AT_ONCE: usize = 4;
/// Buckets that are looked at at once.
const BUCKETS_AT_ONCE: usize = 16;

/// What is read for a migration.
#[derive(Clone, Copy)]
struct Reading<'a> {
    depot: &'a Depot,
    strong: &'a Strong,
    reader: Reader,
}

impl Reading<'_> {
    /// What is durable about migrations, with the source of `bucket` where one is named.
    async fn facts(&self, bucket: Option<(&str, &mut Known)>) -> Result<Facts, Refusal> {
        let depot = self.depot;
        let registry = depot
            .read_as(keys::REGISTRY_FENCE, crate::protocol::catalog::fence::RegistryFence::decode)
            .await?;
        let cut_over = depot.read_as(keys::CUT_OVER, CutOver::decode).await?;
        let cancelled = depot.read_as(keys::CANCELLED, Cancelled::decode).await?;
        let mut facts = Facts {
            registry: registry.map(|it| it.value),
            cut_over: cut_over.map(|it| it.value),
            cancelled: cancelled.map(|it| it.value),
            ..Facts::default()
        };
        let buckets = depot.store().list_buckets().await;
        let buckets = buckets.map_err(|error| super::depot::unreadable(&error))?;
        let look = |name: String| -> BoxFuture<'static, _> {
            let depot = depot.clone();
            Box::pin(async move {
                let decode = |bytes: &[u8]| BucketFence::decode(&name, bytes);
                let (entry_key, fence_key) = (keys::bucket_entry(&name), keys::bucket_fence(&name));
                let looks =
                    tokio::try_join!(depot.stat(&entry_key), depot.read_as(&fence_key, decode));
                looks.map(|(entry, fence)| (name, entry.is_some(), fence))
            })
        };
        let looks: Vec<_> = buckets.into_iter().map(|listed| look(listed.name)).collect();
        let mut looks = stream::iter(looks).buffered(BUCKETS_AT_ONCE);
        while let Some(looked) = looks.next().await {
            let (name, has_entry, fence) = looked?;
            facts.object_buckets.extend(has_entry.then(|| name.clone()));
            facts.fences.extend(fence.map(|fence| (name, fence.value)));
        }
        let explanation = Explanation {
            fences: facts.fences.values().cloned().collect(),
            cancelled: facts.cancelled.clone(),
        };
        let target = self.strong.hydrate(self.reader, &explanation).await?;
        facts.target = target.map(|it| (*it).clone());
        facts.memory = self.strong.memory();
        if let Some((bucket, known)) = bucket {
            facts.source = Box::pin(self.source(bucket, known)).await?;
        }
        Ok(facts)
    }

    /// The source of a bucket; what `known` has of it and is unchanged is not read again.
    async fn source(&self, bucket: &str, known: &mut Known) -> Result<Source, Refusal> {
        let depot = self.depot;
        let entry = depot.record::<BucketEntry>(bucket, &keys::bucket_entry(bucket)).await?;
        let listed = Listed::of(depot, bucket, None).await?;
        let keys = listed.namespaces.iter().map(|it| keys::namespace_entry(bucket, it));
        let decode = |key: &str, bytes: &[u8]| NamespaceEntry::decode(bucket, key, bytes);
        let namespaces = listed.with_etags(keys);
        let namespaces = depot.read_changed(namespaces, &mut known.namespaces, decode).await?;
        let keys = listed.tables.iter().map(|it| keys::table_entry(bucket, it));
        let decode = |key: &str, bytes: &[u8]| TableEntry::decode(bucket, key, bytes);
        let tables = listed.with_etags(keys);
        let tables = depot.read_changed(tables, &mut known.tables, decode).await?;
        let keys = listed.views.iter().map(|it| keys::view_entry(bucket, it));
        let decode = |key: &str, bytes: &[u8]| ViewEntry::decode(bucket, key, bytes);
        let views = listed.with_etags(keys);
        let views = depot.read_changed(views, &mut known.views, decode).await?;
        let decode = |bytes: &[u8]| IndexState::decode(bucket, bytes);
        let index_state = depot.read_as(&keys::warehouse_index_state(bucket), decode).await?;
        let unreadable = unreadable(depot, &tables, &views, &mut known.sound).await?;
        let commits = records(depot, bucket, &tables, Kind::Commit, &mut known.commits).await?;
        let idempotency =
            records(depot, bucket, &tables, Kind::Idempotency, &mut known.idempotency).await?;
        Ok(Source {
            name: bucket.to_owned(),
            bucket: entry.map(|it| it.value),
            namespaces,
            tables,
            views,
            commits,
            idempotency,
            index_state: index_state.map(|it| it.value),
            unreadable,
        })
    }
}

/// What one request has read of a bucket's source. Each step of a migration lists everything anew, so that whatever a
/// release without fences writes meanwhile is seen, and reads what has another ETag than before.
#[derive(Default)]
struct Known {
    namespaces: Kept<NamespaceEntry>,
    tables: Kept<TableEntry>,
    views: Kept<ViewEntry>,
    commits: Kept<CommitRecord>,
    idempotency: Kept<CommitRecord>,
    /// Metadata files that were found to be what their entries say: nobody writes over them.
    sound: BTreeSet<String>,
}

type ByTable = BTreeMap<String, Vec<CommitRecord>>;

/// Which of a commit's two records.
#[derive(Clone, Copy)]
enum Kind {
    Commit,
    Idempotency,
}

/// The commit or idempotency records of tables that are there, by table id: one listing for all of them.
async fn records(
    depot: &Depot,
    bucket: &str,
    tables: &[TableEntry],
    kind: Kind,
    kept: &mut Kept<CommitRecord>,
) -> Result<ByTable, Refusal> {
    let of_table: fn(&str, &str) -> String = match kind {
        Kind::Commit => keys::commits,
        Kind::Idempotency => keys::idempotency,
    };
    let folders: BTreeSet<String> =
        tables.iter().map(|table| of_table(bucket, &table.table_id)).collect();
    let mut listed = depot.list(&all_of(bucket, kind)).await?;
    listed.retain(|(key, _)| folders.contains(keys::folder(key)));
    let read = depot
        .read_changed(listed, kept, |key, bytes| match kind {
            Kind::Commit => CommitRecord::decode(bucket, key, bytes),
            Kind::Idempotency => CommitRecord::decode_idempotency(bucket, key, bytes),
        })
        .await?;
    let mut by_table = ByTable::new();
    for record in read {
        by_table.entry(record.table_id.clone()).or_default().push(record);
    }
    Ok(by_table)
}

/// The prefix of all records of a kind, of whichever table.
fn all_of(bucket: &str, kind: Kind) -> String {
    let folder = match kind {
        Kind::Commit => "commits",
        Kind::Idempotency => "commit-idempotency",
    };
    format!("{}/{folder}/", keys::bucket_root(bucket))
}

/// The current metadata files that are missing or do not parse. Those that are in `sound` are not read again.
async fn unreadable(
    depot: &Depot,
    tables: &[TableEntry],
    views: &[ViewEntry],
    sound: &mut BTreeSet<String>,
) -> Result<Vec<String>, Refusal> {
    let of_table = |entry: &TableEntry| -> BoxFuture<'static, _> {
        let (depot, entry) = (depot.clone(), entry.clone());
        Box::pin(async move {
            let seen = documents::table(&depot, &entry).await.map(drop);
            (of_table_file(&entry), entry.metadata_location, seen)
        })
    };
    let of_view = |entry: &ViewEntry| -> BoxFuture<'static, _> {
        let (depot, entry) = (depot.clone(), entry.clone());
        Box::pin(async move {
            let seen = documents::view(&depot, &entry).await.map(drop);
            (of_view_file(&entry), entry.metadata_location, seen)
        })
    };
    let tables = tables.iter().filter(|it| it.is_active() && !sound.contains(&of_table_file(it)));
    let views = views.iter().filter(|it| it.is_active() && !sound.contains(&of_view_file(it)));
    let all: Vec<_> = tables.map(of_table).chain(views.map(of_view)).collect();
    let mut all = stream::iter(all).buffered(AT_ONCE);
    let mut bad = Vec::new();
    while let Some((file, at, seen)) = all.next().await {
        match seen {
            Ok(()) => drop(sound.insert(file)),
            Err(error) if error.class == Class::Unavailable => return Err(error),
            Err(_) => bad.push(at),
        }
    }
    Ok(bad)
}

/// A table's metadata file, with all that it is held against.
fn of_table_file(entry: &TableEntry) -> String {
    format!("{} {} {}", entry.table_uuid, entry.warehouse_location, entry.metadata_location)
}

/// A view's metadata file, with all that it is held against.
fn of_view_file(entry: &ViewEntry) -> String {
    format!("{} {}", entry.view_uuid, entry.metadata_location)
}

struct Post<'a> {
    reading: Reading<'a>,
    bucket: &'a str,
    known: Known,
    request: post::Request,
}

impl Flow for Post<'_> {
    type Durable = Facts;
    type Answer = post::Executed;

    async fn read(&mut self) -> Result<Facts, Refusal> {
        Box::pin(self.reading.facts(Some((self.bucket, &mut self.known)))).await
    }

    fn next(&self, facts: &Facts) -> Result<Step<post::Executed>, Refusal> {
        post::next(facts, &self.request)
    }

    fn is_staged(&self) -> bool {
        true
    }

    fn performed(&mut self, write: &Write, outcome: &Outcome) {
        if write.key == keys::SNAPSHOT {
            self.reading.strong.has_tried();
            self.request.has_written |= matches!(outcome, Outcome::Done(_));
        }
    }
}

struct Cancel<'a> {
    reading: Reading<'a>,
    bucket: &'a str,
    known: Known,
    request: cancel::Request,
    has_looked: bool,
}

impl Flow for Cancel<'_> {
    type Durable = Facts;
    type Answer = cancel::Released;

    async fn read(&mut self) -> Result<Facts, Refusal> {
        let facts = Box::pin(self.reading.facts(Some((self.bucket, &mut self.known)))).await?;
        if !self.has_looked {
            self.has_looked = true;
            self.request.had_fence = facts.fence().is_some();
        }
        Ok(facts)
    }

    fn next(&self, facts: &Facts) -> Result<Step<cancel::Released>, Refusal> {
        cancel::next(facts, &self.request)
    }

    fn is_staged(&self) -> bool {
        true
    }

    fn performed(&mut self, write: &Write, _: &Outcome) {
        if write.key == keys::SNAPSHOT {
            self.reading.strong.has_tried();
        }
    }
}

struct Opening<'a>(Reading<'a>);

impl Flow for Opening<'_> {
    type Durable = Facts;
    type Answer = ();

    async fn read(&mut self) -> Result<Facts, Refusal> {
        Box::pin(self.0.facts(None)).await
    }

    fn next(&self, facts: &Facts) -> Result<Step<()>, Refusal> {
        opening::strong(facts)
    }
}

impl Catalog {
    fn reading(&self, reader: Reader) -> Reading<'_> {
        Reading { depot: &self.depot, strong: &self.strong, reader }
    }

    /// `…/catalog/migration`.
    pub(super) async fn migration(&self, method: &Method, bucket: &str) -> Result<Reply, Refusal> {
        if self.settings.backing == Backing::DurableStrong {
            let text = "migrations are for the object backing; this process has durable-strong";
            return Err(Class::Invalid.because(text));
        }
        if !self.depot.knows_fences() {
            return Err(Class::Unsupported.because("this release knows no migrations"));
        }
        let reading = self.reading(Reader::Migration);
        if *method == Method::GET {
            let known = &mut Known::default();
            let mut facts = Box::pin(reading.facts(Some((bucket, known)))).await?;
            Box::pin(second_look::look(&self.depot, &mut facts.source)).await?;
            let reference = self.settings.config.reference_wire;
            let report = preflight::report(&facts, &self.strong.rules(), reference)?;
            return Ok(Reply::json(&report));
        }
        let (mut held, store) = (Locks::none(), self.depot.store());
        // Whatever changes the bucket holds one of these with others: it has ended now, or waits and finds a fence.
        let drains = *method != Method::POST || store.rules().drains_writers();
        let mode = if drains { LockMode::Exclusive } else { LockMode::Shared };
        held.take(store, &locks::registry(), LockMode::Exclusive).await?;
        held.take(store, &locks::bucket_fence(bucket), mode).await?;
        let rules = self.strong.rules();
        if *method == Method::POST {
            let migration_id = Uuid::new_v4().to_string();
            let request = post::Request { migration_id, rules, has_written: false };
            let mut flow = Post { reading, bucket, known: Known::default(), request };
            let executed = Box::pin(flow::perform(&self.depot, &held, &mut flow)).await?;
            return Ok(Reply::json(&executed));
        }
        let heeds_progress = store.rules().heeds_strong_progress();
        let request = cancel::Request { rules, had_fence: false, heeds_progress };
        let known = Known::default();
        let mut flow = Cancel { reading, bucket, known, request, has_looked: false };
        let released = Box::pin(flow::perform(&self.depot, &held, &mut flow)).await?;
        Ok(Reply::json(&released))
    }

    /// Refuses to serve durable-strong state that was not migrated whole; says durably that it was taken over.
    ///
    /// # Errors
    ///
    /// [`Class::Unavailable`] with what is missing.
    pub(super) async fn check_opened(&self) -> Result<(), Refusal> {
        use std::sync::atomic::Ordering;
        if self.opened.load(Ordering::SeqCst) {
            return Ok(());
        }
        let _turn = self.opening.lock().await;
        if self.opened.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut held = Locks::none();
        held.take(self.depot.store(), &locks::registry(), LockMode::Shared).await?;
        let mut opening = Opening(self.reading(Reader::Strong));
        Box::pin(flow::perform(&self.depot, &held, &mut opening)).await?;
        self.opened.store(true, Ordering::SeqCst);
        tracing::info!("the durable-strong catalog is opened, and closed to writers");
        Ok(())
    }

    /// Removes a table bucket with what is left of it in the catalog. One that a migration holds, or that still has
    /// something in the catalog, is not removed (M7): a bucket of the same name would find it.
    ///
    /// # Errors
    ///
    /// [`Class::Conflict`]; as locking and reading have them; and what the store says.
    pub async fn remove_bucket(&self, bucket: &str) -> Result<Result<(), StoreError>, Refusal> {
        let store = self.depot.store();
        match store.bucket(bucket).await {
            Ok(found) if !found.tables.is_empty() => {}
            Ok(_) => return Ok(store.delete_bucket(bucket).await),
            Err(error) => return Ok(Err(error)),
        }
        let mut held = Locks::none();
        held.take(store, &locks::bucket_publication(bucket), LockMode::Exclusive).await?;
        held.take(store, &locks::registry(), LockMode::Shared).await?;
        held.take(store, &locks::bucket_fence(bucket), LockMode::Shared).await?;
        self.check_removable(bucket).await?;
        if let Err(error) = store.delete_bucket(bucket).await {
            return Ok(Err(error));
        }
        let root = format!("{}/", keys::bucket_root(bucket));
        for key in self.depot.keys(&root).await? {
            self.depot.remove(&key, &held).await?;
        }
        Ok(Ok(()))
    }

    async fn check_removable(&self, bucket: &str) -> Result<(), Refusal> {
        let conflict = |why: &str| Err(Class::Conflict.because(format!("bucket {bucket} {why}")));
        permit::check_bucket_deletion(object::fence(&self.depot, bucket).await?.as_ref())?;
        match self.state(bucket).await? {
            State::Object(depot) => {
                let listed = Listed::of(&depot, bucket, None).await?;
                let is_empty = listed.namespaces.is_empty()
                    && listed.tables.is_empty()
                    && listed.views.is_empty();
                if is_empty { Ok(()) } else { conflict("still has namespaces, tables or views") }
            }
            State::Strong(loaded) if loaded.snapshot.contents.buckets.contains_key(bucket) => {
                conflict("is in the strong snapshot, from which no bucket is removed")
            }
            State::Strong(_) => Ok(()),
        }
    }

    /// Refuses a durable-strong change of a bucket that another process has taken back to the object backing (M5).
    ///
    /// # Errors
    ///
    /// [`Class::Unavailable`].
    pub(super) async fn check_not_taken_back(&self, bucket: &str) -> Result<(), Refusal> {
        if self.depot.stat(&keys::bucket_entry(bucket)).await?.is_none() {
            return Ok(());
        }
        let fence = object::fence(&self.depot, bucket).await?;
        if fence.is_some_and(|it| it.is_materialized()) {
            return Ok(());
        }
        self.opened.store(false, std::sync::atomic::Ordering::SeqCst);
        let text = format!("bucket {bucket} was taken back to the object backing");
        Err(Class::Unavailable.because(text))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::node::catalog::tests::Deployment;

    #[tokio::test]
    async fn a_source_that_is_read_again_is_the_source_that_is_there_now() {
        let made = Deployment::new().await;
        let reading = made.catalog.reading(Reader::Migration);
        let mut known = Known::default();
        let keyed = |id: &str| json!({ "commit-id": id, "idempotency-key": format!("key-{id}") });
        let first = reading.source("lake1", &mut known).await.unwrap();
        assert_eq!((first.tables.len(), first.commits.len()), (1, 0));
        assert_eq!(made.set("a", keyed("one")).await.0, 200);
        assert_eq!(made.create("late").await.0, 200);
        let more = json!({ "namespace": ["more"], "properties": {} });
        assert_eq!(made.ask("POST", "lake1/namespaces", Some(more)).await.0, 200);
        for round in ["changed and added to", "unchanged", "with a table dropped"] {
            if round.contains("dropped") {
                let late = "lake1/namespaces/sales/tables/late";
                assert_eq!(made.ask("DELETE", late, None).await.0, 204);
            }
            let again = reading.source("lake1", &mut known).await.unwrap();
            let anew = reading.source("lake1", &mut Known::default()).await.unwrap();
            assert_eq!(again, anew, "a source that is {round}");
            assert_ne!(again, first, "a source that is {round}");
            assert!(again.unreadable.is_empty(), "a source that is {round}");
        }
        let last = reading.source("lake1", &mut known).await.unwrap();
        let records = |by_table: &ByTable| by_table.values().map(Vec::len).sum::<usize>();
        assert_eq!((last.tables.len(), last.namespaces.len()), (1, 2));
        assert_eq!((records(&last.commits), records(&last.idempotency)), (1, 1));
    }
}
