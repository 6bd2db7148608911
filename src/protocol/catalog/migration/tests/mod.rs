//! Walks migrations and their cancellations through every crash and every lost answer.

mod cancelling;
mod posting;
mod reporting;

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::protocol::catalog::commit_record::Status;
use crate::protocol::catalog::depot::Depot;
use crate::protocol::catalog::depot::End;
use crate::protocol::catalog::depot::etag;
use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::fence::Cancelled;
use crate::protocol::catalog::fence::CutOver;
use crate::protocol::catalog::fence::RegistryFence;
use crate::protocol::catalog::fixture;
use crate::protocol::catalog::fixture::BUCKET;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::migration::cancel;
use crate::protocol::catalog::migration::cancel::Released;
use crate::protocol::catalog::migration::facts::Facts;
use crate::protocol::catalog::migration::opening;
use crate::protocol::catalog::migration::post;
use crate::protocol::catalog::migration::post::Executed;
use crate::protocol::catalog::migration::preflight as report;
use crate::protocol::catalog::migration::preflight::Report;
use crate::protocol::catalog::migration::source::Source;
use crate::protocol::catalog::prefix::IndexState;
use crate::protocol::catalog::record::Record as _;
use crate::protocol::catalog::record::compact;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::settings::Gates;
use crate::protocol::catalog::snapshot::codec;
use crate::protocol::catalog::strong::hydrate::Loaded;
use crate::protocol::catalog::strong::hydrate::Memory;
use crate::protocol::catalog::strong::hydrate::Reader;
use crate::protocol::catalog::strong::hydrate::Stat;
use crate::protocol::catalog::strong::plan::Rules;
use crate::protocol::crash_point::CrashPoint;

const OTHER: &str = "lake2";

/// The objects, and a process with what it remembers.
#[derive(Debug, Clone, Default)]
struct World {
    depot: Depot,
    memory: Memory,
    unreadable: Vec<String>,
}

impl World {
    /// Two buckets: `lake1` with a table of two commits and a view, `lake2` with nothing.
    fn new() -> Self {
        let mut depot = Depot::with_orders(0);
        depot.file(&fixture::table_at(2));
        for n in 1..=2 {
            let record = fixture::keyed_commit(n, Status::Committed);
            depot.file(&record);
            let key = keys::idempotency_record(BUCKET, "id-of-orders", &format!("key-{n}"));
            depot.put(&key, record.encode());
        }
        depot.file(&fixture::view("v"));
        depot.put(&keys::bucket_entry(OTHER), BucketEntry::new(OTHER).encode());
        depot.put(&keys::warehouse_index_state(OTHER), compact(&IndexState::ready(OTHER)));
        Self { depot, ..Self::default() }
    }

    /// A process that has just started on the same objects.
    fn restarted(&self) -> Self {
        Self { memory: Memory::default(), ..self.clone() }
    }

    fn source(&self, bucket: &str) -> Source {
        let depot = &self.depot;
        let entry = depot.get(&keys::bucket_entry(bucket));
        let mut source = Source {
            name: bucket.to_owned(),
            bucket: entry.map(|bytes| {
                BucketEntry::decode(bucket, &keys::bucket_entry(bucket), bytes).unwrap()
            }),
            index_state: depot
                .get(&keys::warehouse_index_state(bucket))
                .map(|bytes| IndexState::decode(bucket, bytes).unwrap()),
            unreadable: self.unreadable.clone(),
            ..Source::default()
        };
        if bucket == BUCKET {
            let folder = keys::namespaces(bucket);
            source.namespaces =
                depot.all(&folder, keys::NAMESPACE_ENTRY).into_iter().map(|it| it.value).collect();
            source.tables = depot.tables();
            source.views =
                depot.all(&folder, keys::VIEW_ENTRY).into_iter().map(|it| it.value).collect();
            for table in &source.tables {
                let id = &table.table_id;
                source.commits.insert(id.clone(), depot.commits(id));
                source.idempotency.insert(id.clone(), depot.idempotency(id));
            }
        }
        source
    }

    /// Reads everything, hydrating as a migration does it.
    fn facts(&mut self, bucket: &str) -> Result<Facts, Refusal> {
        let depot = &self.depot;
        let mut facts = Facts { source: self.source(bucket), ..Facts::default() };
        let read = |key: &str| depot.get(key);
        facts.registry =
            read(keys::REGISTRY_FENCE).map(|it| RegistryFence::decode(it)).transpose()?;
        facts.cut_over = read(keys::CUT_OVER).map(|it| CutOver::decode(it)).transpose()?;
        facts.cancelled = read(keys::CANCELLED).map(|it| Cancelled::decode(it)).transpose()?;
        let mut fences = BTreeMap::new();
        let mut buckets = BTreeSet::new();
        for bucket in [BUCKET, OTHER] {
            if let Some(bytes) = read(&keys::bucket_fence(bucket)) {
                fences.insert(bucket.to_owned(), BucketFence::decode(bucket, bytes)?);
            }
            if read(&keys::bucket_entry(bucket)).is_some() {
                buckets.insert(bucket.to_owned());
            }
        }
        (facts.fences, facts.object_buckets) = (fences, buckets);
        match read(keys::SNAPSHOT) {
            Some(bytes) => {
                let stat = Stat { etag: etag(bytes), epoch: depot.epoch };
                self.memory.judge(Some(&stat.etag), Some(&stat), Reader::Migration)?;
                let snapshot = codec::decode(bytes)?;
                let loaded = Loaded { snapshot, etag: stat.etag, epoch: stat.epoch };
                self.memory = self.memory.install(&loaded)?;
                facts.target = Some(loaded);
            }
            None => {
                let cancelled = facts.cancelled.as_ref();
                if let Some(memory) = self.memory.explained(facts.fences.values(), cancelled) {
                    self.memory = memory;
                }
                self.memory.judge(None, None, Reader::Migration)?;
                self.memory = self.memory.install_empty();
            }
        }
        facts.memory = self.memory.clone();
        Ok(facts)
    }

    fn report(&mut self, bucket: &str) -> Result<Report, Refusal> {
        let facts = self.facts(bucket)?;
        report::report(&facts, &rules(), false)
    }

    fn post(&mut self, bucket: &str, crash: Option<CrashPoint>) -> End<Executed> {
        let before = self.depot.passed.len();
        let mut request = post::Request {
            migration_id: format!("migration-{before}"),
            rules: rules(),
            has_written: false,
        };
        self.walk(crash, |world| {
            let passed = &world.depot.passed[before..];
            request.has_written = passed.contains(&CrashPoint::CatalogMigrateSnapshotWritten);
            post::next(&world.facts(bucket)?, &request)
        })
    }

    fn cancel(&mut self, bucket: &str, crash: Option<CrashPoint>) -> End<Released> {
        let had_fence = self.depot.get(&keys::bucket_fence(bucket)).is_some();
        let request = cancel::Request { rules: rules(), had_fence, heeds_progress: true };
        self.walk(crash, |world| cancel::next(&world.facts(bucket)?, &request))
    }

    /// Opens as a durable-strong process.
    fn open(&mut self, crash: Option<CrashPoint>) -> End<()> {
        self.walk(crash, |world| opening::strong(&world.facts(BUCKET)?))
    }

    fn walk<A>(
        &mut self,
        crash: Option<CrashPoint>,
        mut ask: impl FnMut(&mut Self) -> Result<crate::protocol::catalog::write::Step<A>, Refusal>,
    ) -> End<A> {
        use crate::protocol::catalog::write::Step;
        for _ in 0..50 {
            match ask(self) {
                Ok(Step::Done(answer)) => return End::Done(answer),
                Err(refusal) => return End::Refused(refusal),
                Ok(Step::Write(write)) => {
                    if write.key == keys::SNAPSHOT {
                        self.memory = self.memory.has_tried();
                    }
                    self.depot.perform(&write);
                    if crash == Some(write.point) {
                        return End::Crashed;
                    }
                }
            }
        }
        panic!("the flow does not end: {:?}", self.depot.passed)
    }

    fn fence(&self, bucket: &str) -> Option<BucketFence> {
        let bytes = self.depot.get(&keys::bucket_fence(bucket))?;
        Some(BucketFence::decode(bucket, bytes).unwrap())
    }

    fn has(&self, key: &str) -> bool {
        self.depot.get(key).is_some()
    }

    /// All that is not of migrations.
    fn source_objects(&self) -> Vec<(String, Vec<u8>)> {
        let objects = self.depot.objects.iter();
        let of_source = |key: &str| !key.contains("/backing-migration/") && key != keys::SNAPSHOT;
        objects
            .filter(|((_, key), _)| of_source(key))
            .map(|((_, key), bytes)| (key.clone(), bytes.clone()))
            .collect()
    }

    /// Puts a snapshot there, as somebody else would.
    fn seed(&mut self, contents: &crate::protocol::catalog::snapshot::contents::Contents) {
        self.depot.put(keys::SNAPSHOT, codec::encode(contents, 1).unwrap());
        self.depot.epoch = None;
    }
}

fn rules() -> Rules {
    Rules::new(Gates::default())
}
