//! The objects of a catalog in memory, for tests that walk a flow write by write.

use std::collections::BTreeMap;

use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::fixture;
use crate::protocol::catalog::fixture::BUCKET;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::object::reservation::Reservation;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::prefix::IndexEntry;
use crate::protocol::catalog::prefix::IndexState;
use crate::protocol::catalog::record::Record;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::write::Found;
use crate::protocol::catalog::write::Outcome;
use crate::protocol::catalog::write::Place;
use crate::protocol::catalog::write::Step;
use crate::protocol::catalog::write::When;
use crate::protocol::catalog::write::Write;
use crate::protocol::crash_point::CrashPoint;
use crate::value::Digest;

/// Objects with the points that were passed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Depot {
    /// What lies where.
    pub objects: BTreeMap<(Place, String), Vec<u8>>,
    /// The points, in order.
    pub passed: Vec<CrashPoint>,
    /// The epoch of the strong snapshot.
    pub epoch: Option<u64>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End<A> {
    /// The process died right after this write.
    Crashed,
    /// The flow is done.
    Done(A),
    /// The flow refuses.
    Refused(Refusal),
}

impl<A: std::fmt::Debug> End<A> {
    /// The answer of a flow that is done.
    pub fn done(self) -> A {
        match self {
            Self::Done(answer) => answer,
            other => panic!("the flow is not done: {other:?}"),
        }
    }

    /// The refusal of a flow that refuses.
    pub fn refused(self) -> Refusal {
        match self {
            Self::Refused(refusal) => refusal,
            other => panic!("the flow does not refuse: {other:?}"),
        }
    }
}

impl Depot {
    /// Bucket `lake1` with namespace `sales`, table `sales.orders` after `commits` committed commits and a ready
    /// index.
    pub fn with_orders(commits: u64) -> Self {
        let mut depot = Self::default();
        depot.file(&fixture::bucket());
        depot.file(&fixture::namespace_entry("sales"));
        depot.add_table(&fixture::table_at(commits));
        for n in 1..=commits {
            depot.file(&fixture::commit(
                n,
                crate::protocol::catalog::commit_record::Status::Committed,
            ));
        }
        let ready = crate::protocol::catalog::record::compact(&IndexState::ready(BUCKET));
        depot.put(&keys::warehouse_index_state(BUCKET), ready);
        depot
    }

    /// Files a table and its index entry.
    pub fn add_table(&mut self, table: &TableEntry) {
        self.file(table);
        let prefix = prefix::of_table(BUCKET, &table.warehouse_location).unwrap();
        self.file(&IndexEntry::new(table, &prefix));
    }

    /// Puts a record where its identity has it.
    pub fn file<T: Record>(&mut self, record: &T) {
        self.put(&record.key(BUCKET).unwrap(), record.encode());
    }

    /// Puts anything.
    pub fn put(&mut self, key: &str, bytes: Vec<u8>) {
        self.objects.insert((Place::Meta, key.to_owned()), bytes);
    }

    /// Removes what lies under a key.
    pub fn remove(&mut self, key: &str) {
        self.objects.remove(&(Place::Meta, key.to_owned()));
    }

    /// What lies under a key.
    pub fn get(&self, key: &str) -> Option<&Vec<u8>> {
        self.objects.get(&(Place::Meta, key.to_owned()))
    }

    /// Whether the table bucket has this key.
    pub fn has_metadata(&self, key: &str) -> bool {
        self.objects.contains_key(&(Place::Bucket(BUCKET.to_owned()), key.to_owned()))
    }

    /// The record under a key, with its ETag.
    pub fn found<T: Record>(&self, key: &str) -> Option<Found<T>> {
        let bytes = self.get(key)?;
        Some(Found::new(T::decode(BUCKET, key, bytes).unwrap(), etag(bytes)))
    }

    /// The record under a key.
    pub fn record<T: Record>(&self, key: &str) -> Option<T> {
        self.found(key).map(|found| found.value)
    }

    /// Every record whose key begins and ends like this.
    pub fn all<T: Record>(&self, prefix: &str, suffix: &str) -> Vec<Found<T>> {
        let keys = self.objects.keys().filter(|(place, key)| {
            *place == Place::Meta && key.starts_with(prefix) && key.ends_with(suffix)
        });
        keys.filter_map(|(_, key)| self.found(key)).collect()
    }

    /// The table `sales.<name>`.
    pub fn table(&self, name: &str) -> Option<Found<TableEntry>> {
        self.found(&keys::table_entry(BUCKET, &fixture::identifier(name)))
    }

    /// The view `sales.<name>`.
    pub fn view(&self, name: &str) -> Option<Found<ViewEntry>> {
        self.found(&keys::view_entry(BUCKET, &fixture::identifier(name)))
    }

    /// Every table.
    pub fn tables(&self) -> Vec<TableEntry> {
        let all = self.all(&keys::namespaces(BUCKET), keys::TABLE_ENTRY);
        all.into_iter().map(|found| found.value).collect()
    }

    /// The bucket's entry.
    pub fn bucket(&self) -> Option<BucketEntry> {
        self.record(&keys::bucket_entry(BUCKET))
    }

    /// An explicit namespace.
    pub fn namespace(&self, dotted: &str) -> Option<Found<NamespaceEntry>> {
        self.found(&keys::namespace_entry(BUCKET, &fixture::namespace(dotted)))
    }

    /// The bucket's fence.
    pub fn fence(&self) -> Option<BucketFence> {
        let bytes = self.get(&keys::bucket_fence(BUCKET))?;
        Some(BucketFence::decode(BUCKET, bytes).unwrap())
    }

    /// The readiness of the index.
    pub fn index_state(&self) -> Option<IndexState> {
        let bytes = self.get(&keys::warehouse_index_state(BUCKET))?;
        Some(IndexState::decode(BUCKET, bytes).unwrap())
    }

    /// Every entry of the index.
    pub fn index(&self) -> Vec<Found<IndexEntry>> {
        let state = keys::warehouse_index_state(BUCKET);
        let folder = keys::warehouse_index(BUCKET);
        let keys = self.objects.keys().map(|(_, key)| key);
        let keys = keys.filter(|key| key.starts_with(&folder) && **key != state);
        keys.filter_map(|key| self.found(key)).collect()
    }

    /// The reservation of a prefix, with its owner.
    pub fn reservation(&self, prefix: &str) -> Option<Reservation> {
        let key = keys::warehouse_index_entry(BUCKET, prefix);
        let entry: Found<IndexEntry> = self.found(&key)?;
        let name = entry.value.identifier().unwrap();
        let owner = self.record(&keys::table_entry(BUCKET, &name));
        Some(Reservation { entry, owner })
    }

    /// Every log record of a table.
    pub fn commits(&self, table_id: &str) -> Vec<CommitRecord> {
        let all = self.all(&keys::commits(BUCKET, table_id), ".json");
        all.into_iter().map(|found| found.value).collect()
    }

    /// Every idempotency record of a table.
    pub fn idempotency(&self, table_id: &str) -> Vec<CommitRecord> {
        let prefix = keys::idempotency(BUCKET, table_id);
        let records = self.objects.iter().filter(|((_, key), _)| key.starts_with(&prefix));
        records
            .map(|((_, key), bytes)| CommitRecord::decode_idempotency(BUCKET, key, bytes).unwrap())
            .collect()
    }

    /// One idempotency record.
    pub fn keyed(&self, table_id: &str, name: &str) -> Option<CommitRecord> {
        self.idempotency(table_id)
            .into_iter()
            .find(|it| it.idempotency_key.as_deref() == Some(name))
    }

    /// Performs a write.
    pub fn perform(&mut self, write: &Write) -> Outcome {
        let at = (write.place.clone(), write.key.clone());
        let current = self.objects.get(&at).map(|bytes| etag(bytes));
        let holds = match &write.when {
            When::Absent => current.is_none(),
            When::Matches(expected) => current.as_ref() == Some(expected),
            When::Always => true,
        };
        if !holds {
            return Outcome::PreconditionFailed;
        }
        self.passed.push(write.point);
        if write.key == keys::SNAPSHOT {
            self.epoch = write.user_metadata.first().map(|(_, epoch)| epoch.parse().unwrap());
        }
        match &write.contents {
            Some(bytes) => {
                self.objects.insert(at, bytes.clone());
                Outcome::Done(Some(etag(bytes)))
            }
            None => {
                self.objects.remove(&at);
                Outcome::Done(None)
            }
        }
    }

    /// Reads, asks and writes until the flow is done, refuses, or has passed `crash_after`.
    pub fn run<A>(
        &mut self,
        crash_after: Option<CrashPoint>,
        mut ask: impl FnMut(&Self) -> Result<Step<A>, Refusal>,
    ) -> End<A> {
        for _ in 0..100 {
            match ask(self) {
                Ok(Step::Done(answer)) => return End::Done(answer),
                Err(refusal) => return End::Refused(refusal),
                Ok(Step::Write(write)) => {
                    self.perform(&write);
                    if crash_after == Some(write.point) {
                        return End::Crashed;
                    }
                }
            }
        }
        panic!("the flow does not end: {:?}", self.passed)
    }
}

/// The ETag of these bytes.
pub fn etag(bytes: &[u8]) -> String {
    Digest::of(bytes).to_string()[..16].to_owned()
}
