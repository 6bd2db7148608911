//! Each change of the catalog, in whichever backing the node has.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Catalog;
use super::caller::Caller;
use super::object;
use super::reply::Reply;
use super::state::State;
use super::tables::Rename;
use crate::protocol::catalog::actions::Action;
use crate::protocol::catalog::actions::Resource;
use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::object::commit;
use crate::protocol::catalog::object::create;
use crate::protocol::catalog::object::namespace;
use crate::protocol::catalog::object::view;
use crate::protocol::catalog::recovery::Records;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::settings::Backing;
use crate::protocol::catalog::strong::change::ChangedProperties;

/// Performs a change of a bucket in the backing that the node has, once it is sure that it may serve it. Changes are
/// large futures, which are kept off the stack.
macro_rules! in_backing {
    ($catalog:expr, $bucket:expr, $object:expr, $strong:expr) => {
        match $catalog.settings.backing {
            Backing::Object => {
                $catalog.check_current($bucket).await?;
                Box::pin($object).await
            }
            Backing::DurableStrong => {
                $catalog.check_opened().await?;
                $catalog.check_not_taken_back($bucket).await?;
                Box::pin($strong).await
            }
        }
    };
}

impl Catalog {
    pub(super) async fn change_enable(&self, bucket: &str) -> Result<BucketEntry, Refusal> {
        in_backing!(self, bucket, object::enable(&self.depot, bucket), self.strong.enable(bucket))
    }

    pub(super) async fn change_create_namespace(
        &self,
        request: namespace::Request,
    ) -> Result<NamespaceEntry, Refusal> {
        in_backing!(
            self,
            &request.bucket,
            object::create_namespace(&self.depot, request),
            self.strong.create_namespace(request)
        )
    }

    pub(super) async fn change_drop_namespace(
        &self,
        request: namespace::Request,
    ) -> Result<(), Refusal> {
        in_backing!(
            self,
            &request.bucket,
            object::drop_namespace(&self.depot, request),
            self.strong.drop_namespace(request)
        )
    }

    pub(super) async fn change_create_table(
        &self,
        request: create::Request,
    ) -> Result<TableEntry, Refusal> {
        in_backing!(
            self,
            &request.entry.table_bucket,
            object::create_table(&self.depot, request),
            self.strong.create_table(request)
        )
    }

    pub(super) async fn change_drop_table(
        &self,
        bucket: &str,
        table: &Identifier,
    ) -> Result<(), Refusal> {
        in_backing!(
            self,
            bucket,
            object::drop_table(&self.depot, bucket, table),
            self.strong.drop_table(bucket, table)
        )
    }

    pub(super) async fn change_put_view(
        &self,
        request: view::Request,
    ) -> Result<ViewEntry, Refusal> {
        in_backing!(
            self,
            &request.entry.table_bucket,
            object::put_view(&self.depot, request),
            self.strong.put_view(request)
        )
    }

    pub(super) async fn change_drop_view(
        &self,
        bucket: &str,
        view: &Identifier,
    ) -> Result<(), Refusal> {
        in_backing!(
            self,
            bucket,
            object::drop_view(&self.depot, bucket, view),
            self.strong.drop_view(bucket, view)
        )
    }

    pub(super) async fn change_commit(
        &self,
        request: commit::Request,
    ) -> Result<commit::Committed, Refusal> {
        in_backing!(
            self,
            &request.bucket,
            object::commit(&self.depot, request),
            self.strong.commit(request)
        )
    }

    /// What became of each property; only durable-strong namespaces change theirs.
    pub(super) async fn change_namespace_properties(
        &self,
        bucket: &str,
        namespace: &Namespace,
        removals: Vec<String>,
        updates: BTreeMap<String, String>,
    ) -> Result<ChangedProperties, Refusal> {
        self.check_opened().await?;
        self.check_not_taken_back(bucket).await?;
        self.strong.change_properties(bucket, namespace, removals, updates).await
    }

    /// `POST /tables/rename`: only durable-strong tables get another name.
    pub(super) async fn rename_table(
        &self,
        caller: &Caller,
        bucket: &str,
        body: &[u8],
    ) -> Result<Reply, Refusal> {
        if body.len() > super::RENAME_BYTES_MAX {
            return Err(Class::Invalid.because("the body of a rename is too large"));
        }
        let (from, to) = Rename::parse(body)?;
        caller.may(Action::SetTable, Resource::Table(bucket, &from))?;
        caller.may(Action::SetTable, Resource::Table(bucket, &to))?;
        if self.settings.backing == Backing::Object {
            let text = "tables are renamed in durable-strong backing only";
            return Err(Class::Unsupported.because(text));
        }
        self.check_opened().await?;
        self.check_not_taken_back(bucket).await?;
        self.strong.rename_table(bucket, from, to).await?;
        Ok(Reply::Empty)
    }

    /// `POST …/catalog/recovery`: in durable-strong backing there is nothing to repair, and nothing is written.
    pub(super) async fn recover(&self, bucket: &str, name: &Identifier) -> Result<Reply, Refusal> {
        match self.state(bucket).await? {
            State::Object(depot) => {
                let report = Box::pin(object::recover(&depot, bucket, name)).await?;
                Ok(Reply::json(&report))
            }
            State::Strong(loaded) => {
                let entry = State::Strong(loaded.clone()).table(bucket, name).await?;
                let contents = &loaded.snapshot.contents;
                let commits = contents.commits_of(bucket, &entry.table_id);
                let of = |records: Option<&BTreeMap<String, Arc<CommitRecord>>>| {
                    let all = records.into_iter().flat_map(BTreeMap::values);
                    all.map(|it| (**it).clone()).collect::<Vec<_>>()
                };
                let records = of(commits.map(|it| &it.commits));
                let keyed = of(commits.map(|it| &it.idempotency));
                Ok(Reply::json(&Records::new(&entry, &records, &keyed).report(0)))
            }
        }
    }
}
