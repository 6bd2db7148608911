//! Enabling buckets; creating and dropping namespaces and tables.

use super::fence;
use super::has_object;
use super::home;
use super::overlapping;
use super::registry_fence;
use super::reservation;
use crate::node::catalog::depot::Depot;
use crate::node::catalog::flow;
use crate::node::catalog::flow::Flow;
use crate::node::catalog::listed::Listed;
use crate::node::catalog::locks;
use crate::node::catalog::locks::Locks;
use crate::node::seams::LockMode;
use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::object::bucket;
use crate::protocol::catalog::object::create;
use crate::protocol::catalog::object::drop_table;
use crate::protocol::catalog::object::namespace;
use crate::protocol::catalog::object::reservation::Reservation;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::prefix::IndexEntry;
use crate::protocol::catalog::record::Record as _;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::write::Found;
use crate::protocol::catalog::write::Outcome;
use crate::protocol::catalog::write::Place;
use crate::protocol::catalog::write::Step;
use crate::protocol::catalog::write::Write;

/// Steps of enabling a bucket before it is taken for stuck.
const STEPS_MAX: usize = 8;

/// The locks of whatever makes or drops a name in a bucket; of the registry, too, where its entry may be made.
async fn name_locks(depot: &Depot, bucket: &str, makes_entry: bool) -> Result<Locks, Refusal> {
    let mut held = Locks::none();
    let store = depot.store();
    held.take(store, &locks::bucket_publication(bucket), LockMode::Exclusive).await?;
    // A release that knows no fences knows no locks of theirs.
    if depot.knows_fences() {
        if makes_entry {
            held.take(store, &locks::registry(), LockMode::Shared).await?;
        }
        held.take(store, &locks::bucket_fence(bucket), LockMode::Shared).await?;
    }
    Ok(held)
}

/// Makes a bucket a table bucket: its marker, then its entry.
///
/// # Errors
///
/// As the flow has them.
pub async fn enable(depot: &Depot, bucket: &str) -> Result<BucketEntry, Refusal> {
    let held = name_locks(depot, bucket, true).await?;
    let mut may_be_there = false;
    let known_or = |may_be_there: bool, refusal: Refusal| match may_be_there {
        true => refusal.as_class(Class::Unknown),
        false => refusal,
    };
    for _ in 0..STEPS_MAX {
        let durable = enabling(depot, bucket).await.map_err(|it| known_or(may_be_there, it))?;
        match bucket::next(&durable, bucket)? {
            bucket::Next::Done(entry) => return Ok(entry),
            bucket::Next::Mark => {
                held.check()?;
                depot.mark(bucket).await?;
            }
            bucket::Next::Write(write) => {
                let outcome = depot.perform(&write, &held).await;
                let outcome = outcome.map_err(|it| known_or(may_be_there, it))?;
                may_be_there |= outcome != Outcome::PreconditionFailed;
            }
        }
    }
    let text = format!("the entry of {bucket} is written again and again");
    Err(known_or(may_be_there, Class::Unavailable.because(text)))
}

async fn enabling(depot: &Depot, bucket: &str) -> Result<bucket::Durable, Refusal> {
    let entry = depot.record::<BucketEntry>(bucket, &keys::bucket_entry(bucket)).await?;
    Ok(bucket::Durable {
        has_marker: depot.has_marker(bucket).await?,
        registry_fence: registry_fence(depot).await?,
        fence: fence(depot, bucket).await?,
        entry: entry.map(|it| it.value),
    })
}

struct CreateNamespace<'a> {
    depot: &'a Depot,
    request: namespace::Request,
}

async fn namespace_facts(
    depot: &Depot,
    bucket: &str,
    name: &Namespace,
) -> Result<namespace::Durable, Refusal> {
    let entry = depot.record::<BucketEntry>(bucket, &keys::bucket_entry(bucket)).await?;
    let below = Listed::of(depot, bucket, Some(name)).await?;
    let live = below.live_namespaces(depot, bucket).await?;
    let is_direct = |of: &Identifier| of.namespace == *name;
    Ok(namespace::Durable {
        fence: fence(depot, bucket).await?,
        registry_fence: registry_fence(depot).await?,
        bucket: entry.map(|it| it.value),
        namespace: depot.record(bucket, &keys::namespace_entry(bucket, name)).await?,
        has_descendants: live.keys().any(|it| it.is_below(name))
            || live.get(name).is_some_and(Option::is_none)
            || !below.active_tables(depot, bucket, name).await?.is_empty()
            || !below.active_views(depot, bucket, name).await?.is_empty(),
        has_entries: below.tables.iter().any(is_direct) || below.views.iter().any(is_direct),
    })
}

impl Flow for CreateNamespace<'_> {
    type Durable = namespace::Durable;
    type Answer = NamespaceEntry;

    async fn read(&mut self) -> Result<namespace::Durable, Refusal> {
        namespace_facts(self.depot, &self.request.bucket, &self.request.namespace).await
    }

    fn next(&self, durable: &namespace::Durable) -> Result<Step<NamespaceEntry>, Refusal> {
        namespace::next_of_create(durable, &self.request)
    }

    fn performed(&mut self, write: &Write, outcome: &Outcome) {
        let key = keys::namespace_entry(&self.request.bucket, &self.request.namespace);
        self.request.attempted |= write.key == key && *outcome != Outcome::PreconditionFailed;
    }
}

/// Makes a namespace, and the bucket's entry where it is missing.
///
/// # Errors
///
/// As the flow has them.
pub async fn create_namespace(
    depot: &Depot,
    request: namespace::Request,
) -> Result<NamespaceEntry, Refusal> {
    let held = name_locks(depot, &request.bucket, true).await?;
    check_marker(depot, &request.bucket).await?;
    flow::perform(depot, &held, &mut CreateNamespace { depot, request }).await
}

struct DropNamespace<'a>(CreateNamespace<'a>);

impl Flow for DropNamespace<'_> {
    type Durable = namespace::Durable;
    type Answer = ();

    async fn read(&mut self) -> Result<namespace::Durable, Refusal> {
        self.0.read().await
    }

    fn next(&self, durable: &namespace::Durable) -> Result<Step<()>, Refusal> {
        namespace::next_of_drop(durable, &self.0.request)
    }

    fn performed(&mut self, write: &Write, outcome: &Outcome) {
        self.0.performed(write, outcome);
    }
}

/// Drops an empty namespace.
///
/// # Errors
///
/// As the flow has them.
pub async fn drop_namespace(depot: &Depot, request: namespace::Request) -> Result<(), Refusal> {
    let held = name_locks(depot, &request.bucket, false).await?;
    flow::perform(depot, &held, &mut DropNamespace(CreateNamespace { depot, request })).await
}

struct CreateTable<'a> {
    depot: &'a Depot,
    request: create::Request,
    name: Identifier,
    prefix: Option<String>,
    /// What was read, with what was written since: while the locks are held nobody else writes it, and no drive takes
    /// a write once they are not.
    known: Option<create::Durable>,
}

impl CreateTable<'_> {
    async fn read_anew(&self) -> Result<create::Durable, Refusal> {
        let (depot, entry) = (self.depot, &self.request.entry);
        let bucket = &*entry.table_bucket;
        let table_key = keys::table_entry(bucket, &self.name);
        let view_key = keys::view_entry(bucket, &self.name);
        let of_prefix = async {
            match &self.prefix {
                // The flow refuses the location itself.
                None => Ok((None, None)),
                Some(prefix) => tokio::try_join!(
                    reservation(depot, bucket, prefix),
                    overlapping(depot, bucket, prefix, &entry.table_id),
                ),
            }
        };
        let (fence, home, table, view, has_metadata, (reservation, overlapping)) = tokio::try_join!(
            fence(depot, bucket),
            home(depot, bucket, &self.name.namespace),
            depot.record(bucket, &table_key),
            depot.record(bucket, &view_key),
            has_object(depot, bucket, &entry.metadata_location),
            of_prefix,
        )?;
        Ok(create::Durable {
            fence,
            home,
            table: table.map(|it| it.value),
            view: view.map(|it| it.value),
            has_metadata,
            reservation,
            overlapping,
            // Ids are drawn here, and never taken from a client.
            has_twin: false,
        })
    }

    /// What is durable once a write was done; nothing where only reading can tell.
    fn after(
        &self,
        mut known: create::Durable,
        write: &Write,
        outcome: &Outcome,
    ) -> Option<create::Durable> {
        let Outcome::Done(etag) = outcome else { return None };
        let contents = write.contents.as_deref()?;
        let (entry, key) = (&self.request.entry, &*write.key);
        let bucket = &*entry.table_bucket;
        let index = self.prefix.as_ref().map(|it| keys::warehouse_index_entry(bucket, it));
        if write.place != Place::Meta {
            known.has_metadata |= key == entry.metadata_location;
        } else if key == keys::table_entry(bucket, &self.name) {
            let entry = TableEntry::decode(bucket, key, contents).ok()?;
            if let Some(reserved) = &mut known.reservation
                && reserved.entry.value.is_owned_by(&entry)
            {
                reserved.owner = Some(entry.clone());
            }
            known.table = Some(entry);
        } else if index.as_deref() == Some(key) {
            let entry = IndexEntry::decode(bucket, key, contents).ok()?;
            let (entry, owner) = (Found::new(entry, etag.clone()?), known.table.clone());
            known.reservation = Some(Reservation { entry, owner });
        } else {
            return None;
        }
        Some(known)
    }
}

impl Flow for CreateTable<'_> {
    type Durable = create::Durable;
    type Answer = TableEntry;

    async fn read(&mut self) -> Result<create::Durable, Refusal> {
        let durable = match self.known.take() {
            Some(known) => known,
            None => self.read_anew().await?,
        };
        self.known = Some(durable.clone());
        Ok(durable)
    }

    fn performed(&mut self, write: &Write, outcome: &Outcome) {
        let known = self.known.take();
        self.known = known.and_then(|known| self.after(known, write, outcome));
    }

    fn next(&self, durable: &create::Durable) -> Result<Step<TableEntry>, Refusal> {
        create::next(durable, &self.request)
    }

    fn undo(&self, durable: &create::Durable) -> Vec<Write> {
        create::undo(durable, &self.request)
    }
}

/// Creates or registers a table.
///
/// # Errors
///
/// As the flow has them.
pub async fn create_table(depot: &Depot, request: create::Request) -> Result<TableEntry, Refusal> {
    let name = request.entry.identifier()?;
    let bucket = request.entry.table_bucket.clone();
    let prefix = prefix::of_table(&bucket, &request.entry.warehouse_location).ok();
    let held = name_locks(depot, &bucket, false).await?;
    flow::perform(depot, &held, &mut CreateTable { depot, request, name, prefix, known: None })
        .await
}

struct DropTable<'a> {
    depot: &'a Depot,
    request: drop_table::Request,
}

impl Flow for DropTable<'_> {
    type Durable = drop_table::Durable;
    type Answer = ();

    async fn read(&mut self) -> Result<drop_table::Durable, Refusal> {
        let (depot, bucket) = (self.depot, &*self.request.bucket);
        let key = keys::table_entry(bucket, &self.request.table);
        let table = depot.record::<TableEntry>(bucket, &key).await?;
        if self.request.seen.is_none() {
            self.request.seen = table.as_ref().map(|it| it.value.clone());
        }
        let location = self.request.seen.as_ref().map(|it| &*it.warehouse_location);
        let prefix = location.and_then(|it| prefix::of_table(bucket, it).ok());
        let reservation = match prefix {
            Some(prefix) => reservation(depot, bucket, &prefix).await?,
            None => None,
        };
        Ok(drop_table::Durable { fence: fence(depot, bucket).await?, table, reservation })
    }

    fn next(&self, durable: &drop_table::Durable) -> Result<Step<()>, Refusal> {
        drop_table::next(durable, &self.request)
    }

    fn undo(&self, durable: &drop_table::Durable) -> Vec<Write> {
        drop_table::undo(durable, &self.request)
    }
}

/// Drops a table.
///
/// # Errors
///
/// As the flow has them.
pub async fn drop_table(depot: &Depot, bucket: &str, table: &Identifier) -> Result<(), Refusal> {
    let mut held = name_locks(depot, bucket, false).await?;
    let publication = locks::publication(bucket, table);
    held.take(depot.store(), &publication, LockMode::Exclusive).await?;
    let request =
        drop_table::Request { bucket: bucket.to_owned(), table: table.clone(), seen: None };
    flow::perform(depot, &held, &mut DropTable { depot, request }).await
}

/// Refuses to make the entry of a bucket that is no table bucket any more.
async fn check_marker(depot: &Depot, bucket: &str) -> Result<(), Refusal> {
    match depot.has_marker(bucket).await? {
        true => Ok(()),
        false => Err(Class::Invalid.because(format!("bucket {bucket} is not enabled for tables"))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use uuid::Uuid;

    use super::*;
    use crate::node::catalog::tests::Deployment;
    use crate::protocol::config::CatalogRelease;

    const BUCKET: &str = "lake1";

    /// A creation of `sales.orders` at a location of the client's own, and the flow of it.
    async fn flow_of(depot: &Depot) -> CreateTable<'_> {
        let namespace = Namespace::from_dotted("sales").unwrap();
        let other = Identifier::new(namespace.clone(), "events").unwrap();
        let key = keys::table_entry(BUCKET, &other);
        let other = depot.record::<TableEntry>(BUCKET, &key).await.unwrap().unwrap().value;
        let name = Identifier::new(namespace, "orders").unwrap();
        let id = Uuid::new_v4().to_string();
        let entry = TableEntry {
            table: name.name.clone(),
            warehouse_location: format!("s3://{BUCKET}/mine"),
            metadata_location: keys::table_metadata(&name) + &keys::first_metadata_file(&id),
            table_id: id,
            ..other
        };
        let request = create::Request { entry, metadata: Some(b"{}".to_vec()) };
        CreateTable { depot, request, name, prefix: Some("mine/".to_owned()), known: None }
    }

    #[tokio::test]
    async fn what_is_carried_from_step_to_step_is_what_reading_finds() {
        let made = Deployment::new().await;
        let depot = Depot::new(Arc::clone(&made.bench.store), CatalogRelease::Current);
        let mut flow = flow_of(&depot).await;
        let mut steps = Vec::new();
        let entry = loop {
            let durable = flow.read().await.unwrap();
            assert_eq!(durable, flow.read_anew().await.unwrap(), "after {steps:?}");
            match flow.next(&durable).unwrap() {
                Step::Done(entry) => break entry,
                Step::Write(write) => {
                    let outcome = depot.perform(&write, &Locks::none()).await.unwrap();
                    flow.performed(&write, &outcome);
                    steps.push(write.point);
                    assert!(flow.known.is_some(), "{steps:?} was not carried on");
                }
            }
        };
        assert_eq!(entry, flow.request.entry);
        assert_eq!(steps.len(), 3, "T1, T2, T3: {steps:?}");
        let write = Write::metadata(BUCKET, "x".to_owned(), Vec::new(), steps[0]);
        flow.performed(&write, &Outcome::PreconditionFailed);
        assert!(flow.known.is_none(), "after a write that was not done all is read again");
    }
}
