//! Walks durable-strong changes through every crash, lost answer and version.

mod changes;
mod memory;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::protocol::catalog::commit_record::Status;
use crate::protocol::catalog::depot::etag;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::fixture;
use crate::protocol::catalog::fixture::BUCKET;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::settings::Gates;
use crate::protocol::catalog::snapshot::codec;
use crate::protocol::catalog::snapshot::contents::Contents;
use crate::protocol::catalog::snapshot::contents::TableCommits;
use crate::protocol::catalog::strong::change::Answer;
use crate::protocol::catalog::strong::change::Change;
use crate::protocol::catalog::strong::change::Commit;
use crate::protocol::catalog::strong::hydrate::Loaded;
use crate::protocol::catalog::strong::hydrate::Memory;
use crate::protocol::catalog::strong::plan;
use crate::protocol::catalog::strong::plan::Plan;
use crate::protocol::catalog::strong::plan::Rules;
use crate::protocol::catalog::write::When;

const CLOSED: Gates = Gates { requested: false, fleet_confirmed: false };
const OPEN: Gates = Gates { requested: true, fleet_confirmed: true };

/// Bucket `lake1` with namespace `sales` and `sales.orders` after this many commits, each with its key.
pub(crate) fn contents(commits: u64) -> Contents {
    let mut contents = Contents::default();
    contents.buckets.insert(BUCKET.to_owned(), Arc::new(fixture::bucket()));
    add_namespace(&mut contents, "sales");
    let table = fixture::table_at(commits);
    let mut known = TableCommits::default();
    for n in 1..=commits {
        let record = Arc::new(fixture::keyed_commit(n, Status::Committed));
        known.idempotency.insert(format!("key-{n}"), Arc::clone(&record));
        known.commits.insert(record.commit_id.clone(), record);
    }
    if commits > 0 {
        let key = (BUCKET.to_owned(), table.table_id.clone());
        contents.commits.insert(key, Arc::new(known));
    }
    add_table(&mut contents, table);
    contents
}

pub(crate) fn add_table(
    contents: &mut Contents,
    table: crate::protocol::catalog::entry::TableEntry,
) {
    let name = table.identifier().unwrap();
    contents.tables.insert((table.table_bucket.clone(), name), Arc::new(table));
}

pub(crate) fn add_view(contents: &mut Contents, name: &str) {
    let view = fixture::view(name);
    contents.views.insert((BUCKET.to_owned(), fixture::identifier(name)), Arc::new(view));
}

fn add_namespace(contents: &mut Contents, dotted: &str) {
    let entry = Arc::new(fixture::namespace_entry(dotted));
    contents.namespaces.insert((BUCKET.to_owned(), fixture::namespace(dotted)), entry);
}

/// What a process has in memory when these contents are durable in this version.
pub(crate) fn loaded(contents: &Contents, version: u32) -> Loaded {
    let bytes = codec::encode(contents, version).unwrap();
    let snapshot = codec::decode(&bytes).unwrap();
    Loaded { snapshot, etag: etag(&bytes), epoch: None }
}

/// The object and the process that writes it.
#[derive(Debug, Clone)]
struct World {
    object: Option<(Vec<u8>, u64)>,
    memory: Memory,
    gates: Gates,
    writes: usize,
}

impl World {
    fn new(contents: &Contents, version: u32, gates: Gates) -> Self {
        let bytes = codec::encode(contents, version).unwrap();
        Self { object: Some((bytes, 1)), memory: Memory::default(), gates, writes: 0 }
    }

    fn loaded(&self) -> Option<Loaded> {
        let (bytes, epoch) = self.object.as_ref()?;
        let snapshot = codec::decode(bytes).unwrap();
        Some(Loaded { snapshot, etag: etag(bytes), epoch: Some(*epoch) })
    }

    fn version(&self) -> u32 {
        self.loaded().unwrap().snapshot.version
    }

    fn contents(&self) -> Contents {
        Contents::clone(&self.loaded().unwrap().snapshot.contents)
    }

    fn hydrate(&mut self) -> Result<Option<Loaded>, Refusal> {
        let loaded = self.loaded();
        self.memory = match &loaded {
            Some(loaded) => self.memory.install(loaded)?,
            None => self.memory.install_empty(),
        };
        Ok(loaded)
    }

    fn plan(&mut self, change: &Change) -> Result<Plan, Refusal> {
        let loaded = self.hydrate()?;
        plan::plan(loaded.as_ref(), &self.memory, change, &Rules::new(self.gates))
    }

    /// Performs a change whole.
    fn change(&mut self, change: &Change) -> Result<Answer, Refusal> {
        match self.plan(change)? {
            Plan::Unchanged(answer) => Ok(answer),
            Plan::Write(planned) => {
                match (&planned.write.when, self.loaded()) {
                    (When::Absent, None) => {}
                    (When::Matches(expected), Some(loaded)) => assert_eq!(*expected, loaded.etag),
                    other => panic!("{other:?}"),
                }
                let bytes = planned.write.contents.clone().unwrap();
                assert_eq!(codec::decode(&bytes).unwrap(), planned.snapshot, "self-check");
                self.object = Some((bytes, planned.epoch));
                self.writes += 1;
                Ok(planned.answer)
            }
        }
    }
}

/// The n-th commit; a retry draws another token.
fn commit(n: u64, fresh: &str) -> Change {
    let mut record = fixture::keyed_commit(n, Status::Staged);
    record.new_version_token = fresh.to_owned();
    Change::Commit(Box::new(Commit {
        bucket: BUCKET.to_owned(),
        table: fixture::identifier("orders"),
        record,
        warehouse_location: fixture::table("orders").warehouse_location,
        format_version: 2,
    }))
}

fn create_namespace(dotted: &str) -> Change {
    let namespace = fixture::namespace(dotted);
    Change::CreateNamespace(NamespaceEntry::new(BUCKET, &namespace, BTreeMap::new()))
}
