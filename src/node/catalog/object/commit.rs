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
use crate::protocol::catalog::write::Found;
use crate::protocol::catalog::write::Outcome;
use crate::protocol::catalog::write::Place;
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
    /// What was read, with what was written since: while the locks are held nobody else writes it, and no drive takes
    /// a write once they are not.
    known: Option<commit::Durable>,
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

    async fn read_anew(&mut self) -> Result<commit::Durable, Refusal> {
        let has_metadata = self.has_metadata().await?;
        let (depot, wanted) = (self.depot, &self.request.record);
        let (bucket, id) = (&*self.request.bucket, &*wanted.table_id);
        let table_key = keys::table_entry(bucket, &self.request.table);
        let commit_key = keys::commit(bucket, id, &wanted.commit_id);
        let keyed = async {
            let Some(named) = &wanted.idempotency_key else { return Ok(None) };
            let key = keys::idempotency_record(bucket, id, named);
            let decode = |bytes: &[u8]| CommitRecord::decode_idempotency(bucket, &key, bytes);
            depot.read_as(&key, decode).await
        };
        let reserved = async {
            match &self.to_prefix {
                Some(prefix) => reservation(depot, bucket, prefix).await,
                None => Ok(None),
            }
        };
        let (fence, table, commit, keyed, reservation_now) = tokio::try_join!(
            fence(depot, bucket),
            depot.record::<TableEntry>(bucket, &table_key),
            depot.record::<CommitRecord>(bucket, &commit_key),
            keyed,
            reserved,
        )?;
        let (released, overlapping) = match (self.moves(), &self.to_prefix) {
            (true, Some(prefix)) => (
                reservation(depot, bucket, &self.request.from_prefix).await?,
                overlapping(depot, bucket, prefix, id).await?,
            ),
            _ => (None, None),
        };
        let mut durable = commit::Durable {
            fence,
            table,
            has_metadata,
            commit: commit.map(|it| it.value),
            keyed: keyed.map(|it| it.value),
            history: None,
            reservation: reservation_now,
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
}

/// What is durable once a write was done; nothing where only reading can tell.
fn after(
    mut known: commit::Durable,
    request: &Publish,
    write: &Write,
    outcome: &Outcome,
) -> Option<commit::Durable> {
    let Outcome::Done(etag) = outcome else { return None };
    let contents = write.contents.as_deref()?;
    let (bucket, key, wanted) = (&*request.bucket, &*write.key, &request.record);
    let keyed = wanted.idempotency_key.as_ref();
    let keyed = keyed.map(|it| keys::idempotency_record(bucket, &wanted.table_id, it));
    if write.place != Place::Meta {
        known.has_metadata |= write.key == wanted.new_metadata_location;
    } else if key == keys::table_entry(bucket, &request.table) {
        let entry = TableEntry::decode(bucket, key, contents).ok()?;
        if let Some(reserved) = &mut known.reservation
            && reserved.entry.value.is_owned_by(&entry)
        {
            reserved.owner = Some(entry.clone());
        }
        known.table = Some(Found::new(entry, etag.clone()?));
    } else if key == keys::commit(bucket, &wanted.table_id, &wanted.commit_id) {
        known.commit = Some(CommitRecord::decode(bucket, key, contents).ok()?);
    } else if keyed.as_deref() == Some(key) {
        known.keyed = Some(CommitRecord::decode_idempotency(bucket, key, contents).ok()?);
    } else {
        return None;
    }
    let is_enough = known.history.is_none() && !commit::needs_history(&known, request);
    is_enough.then_some(known)
}

impl Flow for Commit<'_> {
    type Durable = commit::Durable;
    type Answer = Committed;

    async fn read(&mut self) -> Result<commit::Durable, Refusal> {
        let durable = match self.known.take() {
            Some(known) => known,
            None => self.read_anew().await?,
        };
        self.known = Some(durable.clone());
        Ok(durable)
    }

    fn next(&self, durable: &commit::Durable) -> Result<Step<Committed>, Refusal> {
        commit::next(durable, &self.request)
    }

    fn undo(&self, durable: &commit::Durable) -> Vec<Write> {
        commit::undo(durable, &self.request)
    }

    fn performed(&mut self, write: &Write, outcome: &Outcome) {
        let is_done = matches!(outcome, Outcome::Done(_));
        self.holds_contents |= is_done && write.place != Place::Meta && write.contents.is_some();
        let known = self.known.take();
        self.known = known.and_then(|known| after(known, &self.request, write, outcome));
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
    let mut flow = Commit { depot, request, to_prefix, holds_contents: false, known: None };
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::node::catalog::tests::Deployment;
    use crate::protocol::catalog::commit_record::Status;
    use crate::protocol::catalog::entry::ENTRY_VERSION;
    use crate::protocol::catalog::name::Identifier;
    use crate::protocol::catalog::name::Namespace;
    use crate::protocol::config::CatalogRelease;

    const BUCKET: &str = "lake1";

    /// A commit to `sales.events` with a key, and the flow of it.
    async fn flow_of(depot: &Depot) -> Commit<'_> {
        let table = Identifier::new(Namespace::from_dotted("sales").unwrap(), "events").unwrap();
        let key = keys::table_entry(BUCKET, &table);
        let entry = depot.record::<TableEntry>(BUCKET, &key).await.unwrap().unwrap().value;
        let from_prefix = prefix::of_table(BUCKET, &entry.warehouse_location).unwrap();
        let folder = keys::folder(&entry.metadata_location);
        let record = CommitRecord {
            version: ENTRY_VERSION,
            commit_id: "one".to_owned(),
            idempotency_key: Some("key".to_owned()),
            table_id: entry.table_id.clone(),
            operation: "commit".to_owned(),
            expected_version_token: entry.version_token.clone(),
            new_version_token: "token".to_owned(),
            previous_metadata_location: entry.metadata_location.clone(),
            new_metadata_location: format!("{folder}00002-one.metadata.json"),
            requirements: Vec::new(),
            status: Status::Staged,
            writer: None,
            created_at: None,
            updated_at: None,
        };
        let request = Publish {
            bucket: BUCKET.to_owned(),
            table,
            record,
            metadata: Some(b"{}".to_vec()),
            warehouse_location: entry.warehouse_location,
            format_version: 2,
            from_prefix: from_prefix.clone(),
            has_fresh_name: false,
            leaves_unfinished: false,
        };
        let to_prefix = Some(from_prefix);
        Commit { depot, request, to_prefix, holds_contents: false, known: None }
    }

    #[tokio::test]
    async fn what_is_carried_from_step_to_step_is_what_reading_finds() {
        let made = Deployment::new().await;
        let depot = Depot::new(Arc::clone(&made.bench.store), CatalogRelease::Current);
        let mut flow = flow_of(&depot).await;
        let mut steps = Vec::new();
        let committed = loop {
            let durable = flow.read().await.unwrap();
            assert_eq!(durable, flow.read_anew().await.unwrap(), "after {steps:?}");
            match flow.next(&durable).unwrap() {
                Step::Done(committed) => break committed,
                Step::Write(write) => {
                    let outcome = depot.perform(&write, &Locks::none()).await.unwrap();
                    flow.performed(&write, &outcome);
                    steps.push(write.point);
                    assert!(flow.known.is_some(), "{steps:?} was not carried on");
                }
            }
        };
        assert_eq!(committed.table.generation, 2);
        assert_eq!(steps.len(), 6, "C1, C3, C4, C5, C7, C8: {steps:?}");
    }

    #[tokio::test]
    async fn whatever_a_write_does_not_say_for_certain_is_read_again() {
        let made = Deployment::new().await;
        let depot = Depot::new(Arc::clone(&made.bench.store), CatalogRelease::Current);
        let mut flow = flow_of(&depot).await;
        for outcome in [Outcome::PreconditionFailed, Outcome::Unknown, Outcome::Done(None)] {
            let durable = flow.read().await.unwrap();
            let Step::Write(mut write) = flow.next(&durable).unwrap() else {
                panic!("nothing was written yet");
            };
            if outcome == Outcome::Done(None) {
                write.contents = None;
            }
            flow.performed(&write, &outcome);
            assert!(flow.known.is_none(), "{outcome:?}");
        }
    }
}
