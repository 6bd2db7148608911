//! Each change of durable-strong state, with the locks that it holds and the metadata file that it writes first.

use std::collections::BTreeMap;

use super::Explanation;
use super::Prepared;
use super::Strong;
use crate::node::catalog::documents::METADATA_BYTES_MAX;
use crate::node::catalog::locks;
use crate::node::catalog::locks::Locks;
use crate::node::seams::LockMode;
use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::object::commit;
use crate::protocol::catalog::object::commit::Committed;
use crate::protocol::catalog::object::create;
use crate::protocol::catalog::object::namespace;
use crate::protocol::catalog::object::view;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::strong::change::Answer;
use crate::protocol::catalog::strong::change::Change;
use crate::protocol::catalog::strong::change::ChangedProperties;
use crate::protocol::catalog::strong::change::Commit;
use crate::protocol::catalog::strong::change::Properties;
use crate::protocol::catalog::strong::change::Rename;
use crate::protocol::catalog::strong::hydrate::Reader;
use crate::protocol::catalog::strong::plan;
use crate::protocol::catalog::strong::plan::Plan;
use crate::protocol::catalog::write::Outcome;
use crate::protocol::catalog::write::Place;
use crate::protocol::catalog::write::Write;
use crate::protocol::crash_point::CrashPoint;

impl Strong {
    /// The locks of a change: of the bucket's names when it makes or drops one, of the registry, of a pointer.
    async fn take(
        &self,
        names_of: Option<&str>,
        pointers: &[(&str, &Identifier)],
    ) -> Result<Locks, Refusal> {
        let (mut held, store) = (Locks::none(), self.depot.store());
        if let Some(bucket) = names_of {
            held.take(store, &locks::bucket_publication(bucket), LockMode::Exclusive).await?;
        }
        held.take(store, &locks::registry(), LockMode::Shared).await?;
        for (bucket, name) in pointers {
            held.take(store, &locks::publication(bucket, name), LockMode::Exclusive).await?;
        }
        Ok(held)
    }

    /// The answer of a change that needs no write. One that needs a write is refused here where it would be refused
    /// anyway, before its metadata file is written (M18).
    async fn check(&self, change: &Change) -> Result<Checked, Refusal> {
        let base = self.hydrate(Reader::Strong, &Explanation::default()).await?;
        let (memory, rules, change) = (self.memory(), self.rules, change.clone());
        let planned = super::off_the_reactor(move || {
            let planned = plan::plan(base.as_deref(), &memory, &change, &rules)?;
            Ok((planned, base, memory))
        });
        match planned.await? {
            (Plan::Unchanged(answer), ..) => Ok(Checked::Unchanged(answer)),
            (Plan::Write(_), ..) if !self.is_admitted() => Err(super::closed()),
            (Plan::Write(planned), base, memory) => {
                Ok(Checked::Write(Prepared { planned, base, memory }))
            }
        }
    }

    /// Writes the metadata file of a change. One that is there under its name must be the same.
    async fn put_file(&self, write: Option<&Write>, held: &Locks) -> Result<(), Refusal> {
        let Some(write) = write else { return Ok(()) };
        match self.depot.perform(write, held).await? {
            Outcome::Done(_) => Ok(()),
            Outcome::PreconditionFailed => {
                let Place::Bucket(bucket) = &write.place else { return Ok(()) };
                let found = self.depot.object(bucket, &write.key, METADATA_BYTES_MAX).await?;
                if found == write.contents {
                    return Ok(());
                }
                let text = format!("{} is there already and holds something else", write.key);
                Err(Class::Conflict.because(text))
            }
            Outcome::Unknown => {
                let text = format!("whether {} was written cannot be known", write.key);
                Err(Class::Unavailable.because(text))
            }
        }
    }

    /// Removes a metadata file that a refused change has left.
    async fn take_back(&self, bucket: &str, key: &str, held: &Locks) {
        let point = CrashPoint::CatalogMetadataRemoved;
        let write = Write::remove_metadata(bucket, key.to_owned(), point);
        if let Err(error) = self.depot.perform(&write, held).await {
            tracing::warn!(key, %error, "the metadata file of a refused change stays");
        }
    }

    /// Makes a bucket a table bucket.
    ///
    /// # Errors
    ///
    /// As [`Strong::change`] has them.
    pub async fn enable(&self, bucket: &str) -> Result<BucketEntry, Refusal> {
        let mut held = self.take(Some(bucket), &[]).await?;
        let change = Change::EnableBucket(bucket.to_owned());
        let has_marker = self.depot.has_marker(bucket).await?;
        let known = self.check(&change).await?;
        if !has_marker {
            self.depot.mark(bucket).await?;
        }
        let prepared = match known {
            Checked::Unchanged(Answer::Bucket(entry)) => return Ok(entry),
            Checked::Unchanged(other) => return Err(unexpected(&other)),
            Checked::Write(prepared) => prepared,
        };
        match self.change(change, Some(prepared), &mut held).await? {
            Answer::Bucket(entry) => Ok(entry),
            other => Err(unexpected(&other)),
        }
    }

    /// Makes a namespace.
    ///
    /// # Errors
    ///
    /// As [`Strong::change`] has them.
    pub async fn create_namespace(
        &self,
        request: namespace::Request,
    ) -> Result<NamespaceEntry, Refusal> {
        request.namespace.check_new()?;
        let mut held = self.take(Some(&request.bucket), &[]).await?;
        if !self.depot.has_marker(&request.bucket).await? {
            let text = format!("bucket {} is not enabled for tables", request.bucket);
            return Err(Class::Invalid.because(text));
        }
        let entry = NamespaceEntry::new(&request.bucket, &request.namespace, request.properties);
        match self.change(Change::CreateNamespace(entry), None, &mut held).await? {
            Answer::Namespace(entry) => Ok(entry),
            other => Err(unexpected(&other)),
        }
    }

    /// Drops an empty namespace.
    ///
    /// # Errors
    ///
    /// As [`Strong::change`] has them.
    pub async fn drop_namespace(&self, request: namespace::Request) -> Result<(), Refusal> {
        let mut held = self.take(Some(&request.bucket), &[]).await?;
        let change = Change::DropNamespace(request.bucket, request.namespace);
        self.change(change, None, &mut held).await.map(drop)
    }

    /// Changes properties of a namespace.
    ///
    /// # Errors
    ///
    /// As [`Strong::change`] has them.
    pub async fn change_properties(
        &self,
        bucket: &str,
        namespace: &Namespace,
        removals: Vec<String>,
        updates: BTreeMap<String, String>,
    ) -> Result<ChangedProperties, Refusal> {
        let mut held = self.take(Some(bucket), &[]).await?;
        let change = Change::SetProperties(Properties {
            bucket: bucket.to_owned(),
            namespace: namespace.clone(),
            updates,
            removals,
        });
        match self.change(change, None, &mut held).await? {
            Answer::Properties(changed) => Ok(changed),
            other => Err(unexpected(&other)),
        }
    }

    /// Creates or registers a table.
    ///
    /// # Errors
    ///
    /// As [`Strong::change`] has them.
    pub async fn create_table(&self, request: create::Request) -> Result<TableEntry, Refusal> {
        let entry = request.entry;
        let name = entry.identifier()?;
        let (bucket, key) = (entry.table_bucket.clone(), entry.metadata_location.clone());
        let mut held = self.take(Some(&bucket), &[(&bucket, &name)]).await?;
        let change = Change::CreateTable(entry);
        let prepared = match self.check(&change).await? {
            Checked::Unchanged(Answer::Table(entry)) => return Ok(entry),
            Checked::Unchanged(other) => return Err(unexpected(&other)),
            Checked::Write(prepared) => prepared,
        };
        let file = request.metadata.map(|contents| {
            let point = CrashPoint::CatalogCreateMetadataWritten;
            Write::metadata(&bucket, key.clone(), contents, point)
        });
        let writes = file.is_some();
        self.put_file(file.as_ref(), &held).await?;
        match self.change(change, Some(prepared), &mut held).await {
            Ok(Answer::Table(entry)) => Ok(entry),
            Ok(other) => Err(unexpected(&other)),
            Err(refusal) => {
                if writes && !refusal.leaves_it_unknown() {
                    self.take_back(&bucket, &key, &held).await;
                }
                Err(refusal)
            }
        }
    }

    /// Drops a table with its commits.
    ///
    /// # Errors
    ///
    /// As [`Strong::change`] has them.
    pub async fn drop_table(&self, bucket: &str, table: &Identifier) -> Result<(), Refusal> {
        let mut held = self.take(Some(bucket), &[(bucket, table)]).await?;
        let loaded = self.hydrate(Reader::Strong, &Explanation::default()).await?;
        let seen = loaded.and_then(|it| {
            let found = it.snapshot.contents.table(bucket, table);
            found.map(|entry| entry.table_id.clone())
        });
        let change = Change::DropTable(bucket.to_owned(), table.clone(), seen);
        self.change(change, None, &mut held).await.map(drop)
    }

    /// Renames a table.
    ///
    /// # Errors
    ///
    /// As [`Strong::change`] has them.
    pub async fn rename_table(
        &self,
        bucket: &str,
        from: Identifier,
        to: Identifier,
    ) -> Result<(), Refusal> {
        // In one order, whichever way two renamings go.
        let mut pointers = [(bucket, &from), (bucket, &to)];
        pointers.sort();
        let mut held = self.take(Some(bucket), &pointers[..if from == to { 1 } else { 2 }]).await?;
        let loaded = self.hydrate(Reader::Strong, &Explanation::default()).await?;
        let table_id = loaded.and_then(|it| {
            let found = it.snapshot.contents.table(bucket, &from);
            found.map(|entry| entry.table_id.clone())
        });
        let rename = Rename { bucket: bucket.to_owned(), from, to, table_id };
        self.change(Change::RenameTable(rename), None, &mut held).await.map(drop)
    }

    /// Creates or replaces a view.
    ///
    /// # Errors
    ///
    /// As [`Strong::change`] has them.
    pub async fn put_view(&self, request: view::Request) -> Result<ViewEntry, Refusal> {
        let view::Request { entry, base, metadata, .. } = request;
        let name = entry.identifier()?;
        let (bucket, key) = (entry.table_bucket.clone(), entry.metadata_location.clone());
        let mut held = self.take(Some(&bucket), &[(&bucket, &name)]).await?;
        let change = match base {
            None => Change::CreateView(entry),
            Some(base) => Change::ReplaceView(Box::new((base, entry))),
        };
        let prepared = match self.check(&change).await? {
            Checked::Unchanged(Answer::View(entry)) => return Ok(entry),
            Checked::Unchanged(other) => return Err(unexpected(&other)),
            Checked::Write(prepared) => prepared,
        };
        let file = metadata.map(|contents| {
            let point = CrashPoint::CatalogViewMetadataWritten;
            Write::metadata(&bucket, key.clone(), contents, point)
        });
        let writes = file.is_some();
        self.put_file(file.as_ref(), &held).await?;
        match self.change(change, Some(prepared), &mut held).await {
            Ok(Answer::View(entry)) => Ok(entry),
            Ok(other) => Err(unexpected(&other)),
            Err(refusal) => {
                if writes && !refusal.leaves_it_unknown() {
                    self.take_back(&bucket, &key, &held).await;
                }
                Err(refusal)
            }
        }
    }

    /// Drops a view.
    ///
    /// # Errors
    ///
    /// As [`Strong::change`] has them.
    pub async fn drop_view(&self, bucket: &str, view: &Identifier) -> Result<(), Refusal> {
        let mut held = self.take(Some(bucket), &[(bucket, view)]).await?;
        let loaded = self.hydrate(Reader::Strong, &Explanation::default()).await?;
        let seen = loaded.and_then(|it| {
            let found = it.snapshot.contents.view(bucket, view);
            found.map(|entry| entry.view_id.clone())
        });
        let change = Change::DropView(bucket.to_owned(), view.clone(), seen);
        self.change(change, None, &mut held).await.map(drop)
    }

    /// Publishes a commit.
    ///
    /// # Errors
    ///
    /// As [`Strong::change`] has them.
    pub async fn commit(&self, request: commit::Request) -> Result<Committed, Refusal> {
        let commit_id = request.record.commit_id.clone();
        let (bucket, key) = (request.bucket.clone(), request.record.new_metadata_location.clone());
        let moves = {
            let to =
                crate::protocol::catalog::prefix::of_table(&bucket, &request.warehouse_location);
            to.is_ok_and(|to| to != request.from_prefix)
        };
        let names = moves.then_some(&*bucket);
        let mut held = self.take(names, &[(&bucket, &request.table)]).await?;
        let change = Change::Commit(Box::new(Commit {
            bucket: bucket.clone(),
            table: request.table,
            record: request.record,
            warehouse_location: request.warehouse_location,
            format_version: request.format_version,
        }));
        let prepared = match self.check(&change).await? {
            Checked::Unchanged(Answer::Committed(table, is_replay)) => {
                return Ok(Committed { table, commit_id, is_replay });
            }
            Checked::Unchanged(other) => return Err(unexpected(&other)),
            Checked::Write(prepared) => prepared,
        };
        let file = request.metadata.map(|contents| {
            let point = CrashPoint::CatalogStrongMetadataWritten;
            Write::metadata(&bucket, key.clone(), contents, point)
        });
        let removes_file = file.is_some() && request.has_fresh_name;
        self.put_file(file.as_ref(), &held).await?;
        match self.change(change, Some(prepared), &mut held).await {
            Ok(Answer::Committed(table, is_replay)) => {
                Ok(Committed { table, commit_id, is_replay })
            }
            Ok(other) => Err(unexpected(&other)),
            Err(refusal) => {
                if removes_file && !refusal.leaves_it_unknown() {
                    self.take_back(&bucket, &key, &held).await;
                }
                Err(refusal)
            }
        }
    }
}

/// What was found out of a change before anything was written.
#[expect(clippy::large_enum_variant, reason = "it is made once and taken apart at once")]
enum Checked {
    /// It needs no write.
    Unchanged(Answer),
    /// It needs this one.
    Write(Prepared),
}

fn unexpected(answer: &Answer) -> Refusal {
    Class::Damaged.because(format!("a change answered {answer:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::catalog::tests::Deployment;
    use crate::node::catalog::tests::strong;

    #[tokio::test]
    async fn what_was_planned_on_an_older_state_is_planned_anew() {
        let made: Deployment = strong().await;
        let strong = &made.catalog.strong;
        let change = |name: &str| {
            let namespace = Namespace::from_dotted(name).unwrap();
            Change::CreateNamespace(NamespaceEntry::new("lake1", &namespace, BTreeMap::new()))
        };
        let prepared = |name: &'static str| async move {
            match strong.check(&change(name)).await.unwrap() {
                Checked::Write(prepared) => prepared,
                Checked::Unchanged(answer) => panic!("{name} is there: {answer:?}"),
            }
        };
        let (stale, twice) = (prepared("one").await, prepared("two").await);
        let mut held = strong.take(Some("lake1"), &[]).await.unwrap();
        strong.change(change("two"), Some(twice), &mut held).await.unwrap();
        let twice = prepared("three").await;
        strong.change(change("one"), Some(stale), &mut held).await.unwrap();
        strong.change(change("three"), Some(twice), &mut held).await.unwrap();
        let loaded = strong.hydrate(Reader::Strong, &Explanation::default()).await.unwrap();
        let live = loaded.unwrap().snapshot.contents.live_namespaces("lake1");
        let live: Vec<_> = live.iter().map(ToString::to_string).collect();
        assert_eq!(live, ["one", "sales", "three", "two"]);
    }
}
