//! Each change of durable-strong state, with the locks that it holds and the metadata file that it writes first.

use std::collections::BTreeMap;

use super::Explanation;
use super::Strong;
use crate::node::catalog::locks;
use crate::node::catalog::locks::Locks;
use crate::node::seams::LockMode;
use crate::node::store::api::BucketDocument;
use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::object::bucket;
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
use crate::protocol::catalog::write::Outcome;
use crate::protocol::catalog::write::Write;
use crate::protocol::crash_point::CrashPoint;

/// Gives a bucket its marker.
///
/// # Errors
///
/// [`Class::Unavailable`].
async fn mark(depot: &super::Depot, bucket: &str, has_marker: bool) -> Result<(), Refusal> {
    if has_marker {
        return Ok(());
    }
    let marker = bucket::MARKER.as_bytes().to_vec();
    let set = depot.store().set_document(bucket, BucketDocument::Tables, marker).await;
    // A marker that may be there is no harm: the request can be sent again.
    set.map_err(|error| Class::Unavailable.because(crate::node::chain(&error)))?;
    let key = crate::protocol::catalog::keys::bucket_entry(bucket);
    depot.store().pass_system(CrashPoint::CatalogBucketMarkerWritten, &key).await;
    Ok(())
}

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

    /// Whether a change would be refused, before its metadata file is written (M18).
    async fn check(&self, change: &Change) -> Result<(), Refusal> {
        let loaded = self.hydrate(Reader::Strong, &Explanation::default()).await?;
        plan::plan(loaded.as_deref(), &self.memory(), change, &self.rules).map(drop)
    }

    /// Writes a metadata file that nobody else has the name of.
    async fn put_file(&self, write: Option<Write>, held: &Locks) -> Result<(), Refusal> {
        let Some(write) = write else { return Ok(()) };
        if !self.is_admitted() {
            // The change itself says why.
            return Ok(());
        }
        match self.depot.perform(&write, held).await? {
            // A file of this name holds this commit: that was looked at before.
            Outcome::Done(_) | Outcome::PreconditionFailed => Ok(()),
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
    pub async fn enable(&self, bucket: &str, has_marker: bool) -> Result<BucketEntry, Refusal> {
        let held = self.take(Some(bucket), &[]).await?;
        let change = Change::EnableBucket(bucket.to_owned());
        self.check(&change).await?;
        mark(&self.depot, bucket, has_marker).await?;
        match self.change(change, &held).await? {
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
        let held = self.take(Some(&request.bucket), &[]).await?;
        let entry = NamespaceEntry::new(&request.bucket, &request.namespace, request.properties);
        match self.change(Change::CreateNamespace(entry), &held).await? {
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
        let held = self.take(Some(&request.bucket), &[]).await?;
        let change = Change::DropNamespace(request.bucket, request.namespace);
        self.change(change, &held).await.map(drop)
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
        let held = self.take(Some(bucket), &[]).await?;
        let change = Change::SetProperties(Properties {
            bucket: bucket.to_owned(),
            namespace: namespace.clone(),
            updates,
            removals,
        });
        match self.change(change, &held).await? {
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
        let held = self.take(Some(&bucket), &[(&bucket, &name)]).await?;
        let change = Change::CreateTable(entry);
        self.check(&change).await?;
        let file = request.metadata.map(|contents| {
            let point = CrashPoint::CatalogCreateMetadataWritten;
            Write::metadata(&bucket, key.clone(), contents, point)
        });
        let writes = file.is_some();
        self.put_file(file, &held).await?;
        match self.change(change, &held).await {
            Ok(Answer::Table(entry)) => Ok(entry),
            Ok(other) => Err(unexpected(&other)),
            Err(refusal) => {
                if writes && !refusal.leaves_it_unknown() && self.is_admitted() {
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
        let held = self.take(Some(bucket), &[(bucket, table)]).await?;
        let loaded = self.hydrate(Reader::Strong, &Explanation::default()).await?;
        let seen = loaded.and_then(|it| {
            let found = it.snapshot.contents.table(bucket, table);
            found.map(|entry| entry.table_id.clone())
        });
        let change = Change::DropTable(bucket.to_owned(), table.clone(), seen);
        self.change(change, &held).await.map(drop)
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
        let held = self.take(Some(bucket), &pointers[..if from == to { 1 } else { 2 }]).await?;
        let loaded = self.hydrate(Reader::Strong, &Explanation::default()).await?;
        let table_id = loaded.and_then(|it| {
            let found = it.snapshot.contents.table(bucket, &from);
            found.map(|entry| entry.table_id.clone())
        });
        let rename = Rename { bucket: bucket.to_owned(), from, to, table_id };
        self.change(Change::RenameTable(rename), &held).await.map(drop)
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
        let held = self.take(Some(&bucket), &[(&bucket, &name)]).await?;
        let change = match base {
            None => Change::CreateView(entry),
            Some(base) => Change::ReplaceView(Box::new((base, entry))),
        };
        self.check(&change).await?;
        let file = metadata.map(|contents| {
            let point = CrashPoint::CatalogViewMetadataWritten;
            Write::metadata(&bucket, key.clone(), contents, point)
        });
        let writes = file.is_some();
        self.put_file(file, &held).await?;
        match self.change(change, &held).await {
            Ok(Answer::View(entry)) => Ok(entry),
            Ok(other) => Err(unexpected(&other)),
            Err(refusal) => {
                if writes && !refusal.leaves_it_unknown() && self.is_admitted() {
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
        let held = self.take(Some(bucket), &[(bucket, view)]).await?;
        let loaded = self.hydrate(Reader::Strong, &Explanation::default()).await?;
        let seen = loaded.and_then(|it| {
            let found = it.snapshot.contents.view(bucket, view);
            found.map(|entry| entry.view_id.clone())
        });
        let change = Change::DropView(bucket.to_owned(), view.clone(), seen);
        self.change(change, &held).await.map(drop)
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
        let held = self.take(names, &[(&bucket, &request.table)]).await?;
        let change = Change::Commit(Box::new(Commit {
            bucket: bucket.clone(),
            table: request.table,
            record: request.record,
            warehouse_location: request.warehouse_location,
            format_version: request.format_version,
        }));
        self.check(&change).await?;
        let file = request.metadata.map(|contents| {
            let point = CrashPoint::CatalogStrongMetadataWritten;
            Write::metadata(&bucket, key.clone(), contents, point)
        });
        let removes_file = file.is_some() && request.has_fresh_name;
        self.put_file(file, &held).await?;
        match self.change(change, &held).await {
            Ok(Answer::Committed(table, is_replay)) => {
                Ok(Committed { table, commit_id, is_replay })
            }
            Ok(other) => Err(unexpected(&other)),
            Err(refusal) => {
                if removes_file && !refusal.leaves_it_unknown() && self.is_admitted() {
                    self.take_back(&bucket, &key, &held).await;
                }
                Err(refusal)
            }
        }
    }
}

fn unexpected(answer: &Answer) -> Refusal {
    Class::Damaged.because(format!("a change answered {answer:?}"))
}
