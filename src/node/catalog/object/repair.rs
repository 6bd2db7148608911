//! The commit records of a table, and setting right what an interrupted commit left of them.

use std::collections::BTreeSet;

use super::fence;
use crate::node::catalog::depot::Depot;
use crate::node::catalog::flow;
use crate::node::catalog::flow::Flow;
use crate::node::catalog::locks;
use crate::node::catalog::locks::Locks;
use crate::node::seams::LockMode;
use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::record::Record as _;
use crate::protocol::catalog::recovery;
use crate::protocol::catalog::recovery::Records;
use crate::protocol::catalog::recovery::Report;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::write::Step;

/// The commit and the idempotency records of a table.
///
/// # Errors
///
/// As reading and decoding have them.
pub async fn records_of(
    depot: &Depot,
    bucket: &str,
    table_id: &str,
) -> Result<(Vec<CommitRecord>, Vec<CommitRecord>), Refusal> {
    let keys = depot.keys(&keys::commits(bucket, table_id)).await?;
    let commits =
        depot.read_all(keys, |key, bytes| CommitRecord::decode(bucket, key, bytes)).await?;
    let keys = depot.keys(&keys::idempotency(bucket, table_id)).await?;
    let keyed = depot
        .read_all(keys, |key, bytes| CommitRecord::decode_idempotency(bucket, key, bytes))
        .await?;
    let values = |found: Vec<crate::protocol::catalog::write::Found<CommitRecord>>| {
        found.into_iter().map(|it| it.value).collect()
    };
    Ok((values(commits), values(keyed)))
}

struct Recover<'a> {
    depot: &'a Depot,
    bucket: &'a str,
    request: recovery::Request,
}

impl Flow for Recover<'_> {
    type Durable = recovery::Durable;
    type Answer = Report;

    async fn read(&mut self) -> Result<recovery::Durable, Refusal> {
        let (depot, bucket) = (self.depot, self.bucket);
        let key = keys::table_entry(bucket, &self.request.table);
        let table = depot.record::<TableEntry>(bucket, &key).await?;
        let mut durable = recovery::Durable {
            fence: fence(depot, bucket).await?,
            table,
            commits: Vec::new(),
            idempotency: Vec::new(),
            kept: BTreeSet::new(),
        };
        if let Some(table) = &durable.table {
            let id = &*table.value.table_id;
            (durable.commits, durable.idempotency) = records_of(depot, bucket, id).await?;
            let records = Records::new(&table.value, &durable.commits, &durable.idempotency);
            let lost = records.abandonable();
            for commit in durable.commits.iter().filter(|it| lost.contains(&*it.commit_id)) {
                let key = keys::abandoned(bucket, id, &commit.commit_id);
                let kept = depot.read(&key).await?;
                if kept.is_some_and(|it| *it.contents == *commit.encode()) {
                    durable.kept.insert(commit.commit_id.clone());
                }
            }
        }
        if self.request.found.is_none() {
            self.request.found = Some(recovery::repairs(&durable, self.request.abandons));
        }
        Ok(durable)
    }

    fn next(&self, durable: &recovery::Durable) -> Result<Step<Report>, Refusal> {
        recovery::next(durable, &self.request)
    }

    fn is_long(&self) -> bool {
        true
    }
}

/// Finishes what was published, and puts aside what provably never was.
///
/// # Errors
///
/// As the flow has them.
pub async fn recover(depot: &Depot, bucket: &str, table: &Identifier) -> Result<Report, Refusal> {
    let (mut held, store) = (Locks::none(), depot.store());
    if depot.knows_fences() {
        held.take(store, &locks::bucket_fence(bucket), LockMode::Shared).await?;
    }
    held.take(store, &locks::publication(bucket, table), LockMode::Exclusive).await?;
    let request = recovery::Request { table: table.clone(), abandons: true, found: None };
    flow::perform(depot, &held, &mut Recover { depot, bucket, request }).await
}
