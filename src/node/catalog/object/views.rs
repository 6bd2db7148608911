//! Creating, replacing and dropping views.

use super::fence;
use super::has_object;
use super::home;
use crate::node::catalog::depot::Depot;
use crate::node::catalog::flow;
use crate::node::catalog::flow::Flow;
use crate::node::catalog::locks;
use crate::node::catalog::locks::Locks;
use crate::node::seams::LockMode;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::object::create::Home;
use crate::protocol::catalog::object::view;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::write::Step;
use crate::protocol::catalog::write::Write;

async fn take(depot: &Depot, bucket: &str, name: &Identifier) -> Result<Locks, Refusal> {
    let (mut held, store) = (Locks::none(), depot.store());
    held.take(store, &locks::bucket_publication(bucket), LockMode::Exclusive).await?;
    if depot.knows_fences() {
        held.take(store, &locks::bucket_fence(bucket), LockMode::Shared).await?;
    }
    held.take(store, &locks::publication(bucket, name), LockMode::Exclusive).await?;
    Ok(held)
}

struct Put<'a> {
    depot: &'a Depot,
    request: view::Request,
    name: Identifier,
}

impl Flow for Put<'_> {
    type Durable = view::Durable;
    type Answer = ViewEntry;

    async fn read(&mut self) -> Result<view::Durable, Refusal> {
        let (depot, entry) = (self.depot, &self.request.entry);
        let bucket = &*entry.table_bucket;
        let is_new = self.request.base.is_none();
        let table = match is_new && depot.knows_collisions() {
            true => depot.record(bucket, &keys::table_entry(bucket, &self.name)).await?,
            false => None,
        };
        let home = match is_new {
            true => home(depot, bucket, &self.name.namespace).await?,
            false => Home::default(),
        };
        Ok(view::Durable {
            fence: fence(depot, bucket).await?,
            home,
            table: table.map(|it| it.value),
            view: depot.record(bucket, &keys::view_entry(bucket, &self.name)).await?,
            has_metadata: has_object(depot, bucket, &entry.metadata_location).await?,
        })
    }

    fn next(&self, durable: &view::Durable) -> Result<Step<ViewEntry>, Refusal> {
        view::next(durable, &self.request)
    }

    fn undo(&self, durable: &view::Durable) -> Vec<Write> {
        view::undo(durable, &self.request)
    }
}

/// Creates or replaces a view.
///
/// # Errors
///
/// As the flow has them.
pub async fn put_view(depot: &Depot, request: view::Request) -> Result<ViewEntry, Refusal> {
    let name = request.entry.identifier()?;
    let held = take(depot, &request.entry.table_bucket, &name).await?;
    flow::perform(depot, &held, &mut Put { depot, request, name }).await
}

struct Drop<'a> {
    depot: &'a Depot,
    request: view::Drop,
}

impl Flow for Drop<'_> {
    type Durable = view::Durable;
    type Answer = ();

    async fn read(&mut self) -> Result<view::Durable, Refusal> {
        let (depot, bucket) = (self.depot, &*self.request.bucket);
        let key = keys::view_entry(bucket, &self.request.view);
        let found = depot.record::<ViewEntry>(bucket, &key).await?;
        if self.request.seen.is_none() {
            self.request.seen = found.as_ref().map(|it| it.value.clone());
        }
        let fence = fence(depot, bucket).await?;
        Ok(view::Durable { fence, view: found, ..view::Durable::default() })
    }

    fn next(&self, durable: &view::Durable) -> Result<Step<()>, Refusal> {
        view::next_of_drop(durable, &self.request)
    }
}

/// Drops a view.
///
/// # Errors
///
/// As the flow has them.
pub async fn drop_view(depot: &Depot, bucket: &str, name: &Identifier) -> Result<(), Refusal> {
    let held = take(depot, bucket, name).await?;
    let request = view::Drop { bucket: bucket.to_owned(), view: name.clone(), seen: None };
    flow::perform(depot, &held, &mut Drop { depot, request }).await
}
