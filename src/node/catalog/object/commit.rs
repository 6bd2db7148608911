//! Moving a table's pointer.

use super::fence;
use super::has_object;
use super::overlapping;
use super::reservation;
use crate::node::catalog::depot::Depot;
use crate::node::catalog::documents::METADATA_BYTES_MAX;
use crate::node::catalog::flow;
use crate::node::catalog::flow::Flow;
use crate::node::catalog::locks;
use crate::node::catalog::locks::Locks;
use crate::node::seams::LockMode;
use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::object::commit;
use crate::protocol::catalog::object::commit::Committed;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::record::Record as _;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::write::Step;
use crate::protocol::catalog::write::Write;

/// What is to be published.
pub type Publish = commit::Request;

struct Commit<'a> {
    depot: &'a Depot,
    request: Publish,
    to_prefix: Option<String>,
    /// Whether the metadata file was found to hold this commit's contents, or was written by it.
    holds_contents: bool,
}

impl Commit<'_> {
    fn moves(&self) -> bool {
        self.to_prefix.as_ref().is_some_and(|it| *it != self.request.from_prefix)
    }
}

impl Commit<'_> {
    /// Whether the new metadata file is there. Its name alone does not say whose contents it has.
    async fn has_metadata(&mut self) -> Result<bool, Refusal> {
        let (bucket, key) = (&*self.request.bucket, &*self.request.record.new_metadata_location);
        if self.holds_contents || self.request.metadata.is_none() {
            return has_object(self.depot, bucket, key).await;
        }
        let found = self.depot.object(bucket, key, METADATA_BYTES_MAX).await?;
        if found.is_some() && found != self.request.metadata {
            let text = format!("{key} is there already and holds another commit");
            return Err(Class::Conflict.because(text));
        }
        self.holds_contents = found.is_some();
        Ok(found.is_some())
    }
}

impl Flow for Commit<'_> {
    type Durable = commit::Durable;
    type Answer = Committed;

    async fn read(&mut self) -> Result<commit::Durable, Refusal> {
        let has_metadata = self.has_metadata().await?;
        let (depot, wanted) = (self.depot, &self.request.record);
        let (bucket, id) = (&*self.request.bucket, &*wanted.table_id);
        let key = keys::table_entry(bucket, &self.request.table);
        let table = depot.record::<TableEntry>(bucket, &key).await?;
        let key = keys::commit(bucket, id, &wanted.commit_id);
        let commit = depot.record::<CommitRecord>(bucket, &key).await?.map(|it| it.value);
        let keyed = match &wanted.idempotency_key {
            None => None,
            Some(named) => {
                let key = keys::idempotency_record(bucket, id, named);
                let decode = |bytes: &[u8]| CommitRecord::decode_idempotency(bucket, &key, bytes);
                depot.read_as(&key, decode).await?.map(|it| it.value)
            }
        };
        let reserved = match &self.to_prefix {
            Some(prefix) => reservation(depot, bucket, prefix).await?,
            None => None,
        };
        let (released, overlapping) = match (self.moves(), &self.to_prefix) {
            (true, Some(prefix)) => (
                reservation(depot, bucket, &self.request.from_prefix).await?,
                overlapping(depot, bucket, prefix, id).await?,
            ),
            _ => (None, None),
        };
        let mut durable = commit::Durable {
            fence: fence(depot, bucket).await?,
            table,
            has_metadata,
            commit,
            keyed,
            history: None,
            reservation: reserved,
            released,
            overlapping,
        };
        if commit::needs_history(&durable, &self.request) {
            let keys = depot.keys(&keys::commits(bucket, id)).await?;
            let read =
                depot.read_all(keys, |key, bytes| CommitRecord::decode(bucket, key, bytes)).await?;
            durable.history = Some(read.into_iter().map(|it| it.value).collect());
        }
        Ok(durable)
    }

    fn next(&self, durable: &commit::Durable) -> Result<Step<Committed>, Refusal> {
        commit::next(durable, &self.request)
    }

    fn undo(&self, durable: &commit::Durable) -> Vec<Write> {
        commit::undo(durable, &self.request)
    }

    fn leave_unfinished(&mut self) {
        self.request.leaves_unfinished = true;
    }
}

/// Publishes a commit.
///
/// # Errors
///
/// As the flow has them.
pub async fn commit(depot: &Depot, request: Publish) -> Result<Committed, Refusal> {
    let to_prefix = prefix::of_table(&request.bucket, &request.warehouse_location).ok();
    let publication = locks::publication(&request.bucket, &request.table);
    let mut flow = Commit { depot, request, to_prefix, holds_contents: false };
    let (mut held, store) = (Locks::none(), depot.store());
    let bucket = flow.request.bucket.clone();
    if flow.moves() {
        held.take(store, &locks::bucket_publication(&bucket), LockMode::Exclusive).await?;
    }
    if depot.knows_fences() {
        held.take(store, &locks::bucket_fence(&bucket), LockMode::Shared).await?;
    }
    held.take(store, &publication, LockMode::Exclusive).await?;
    flow::perform(depot, &held, &mut flow).await
}
