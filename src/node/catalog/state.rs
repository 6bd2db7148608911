//! What one request sees of the catalog: records one by one, or one snapshot for all of it.
//!
//! # Sources
//!
//! Specification of the catalog §3.6 (namespaces), §4.10 (what a quarantine hides), §2.4 (listings).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::depot::Depot;
use super::listed::Listed;
use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::settings::Backing;
use crate::protocol::catalog::strong::hydrate::Loaded;

/// What a request sees.
pub enum State {
    /// One object an entry.
    Object(Depot),
    /// One snapshot for all.
    Strong(Arc<Loaded>),
}

impl State {
    /// The backing that it is of.
    pub fn backing(&self) -> Backing {
        match self {
            Self::Object(_) => Backing::Object,
            Self::Strong(_) => Backing::DurableStrong,
        }
    }

    /// The entry of a table bucket.
    ///
    /// # Errors
    ///
    /// As reading has them.
    pub async fn bucket(&self, bucket: &str) -> Result<Option<BucketEntry>, Refusal> {
        match self {
            Self::Object(depot) => {
                let found = depot.record(bucket, &keys::bucket_entry(bucket)).await?;
                Ok(found.map(|it| it.value))
            }
            Self::Strong(loaded) => {
                Ok(loaded.snapshot.contents.buckets.get(bucket).map(|it| (**it).clone()))
            }
        }
    }

    /// The properties of a namespace that is there; an implicit one has none.
    ///
    /// # Errors
    ///
    /// [`Class::NoSuchNamespace`]; as reading has them.
    pub async fn namespace(
        &self,
        bucket: &str,
        name: &Namespace,
    ) -> Result<BTreeMap<String, String>, Refusal> {
        let missing = || no_namespace(bucket, name);
        match self {
            Self::Object(depot) => {
                let key = keys::namespace_entry(bucket, name);
                let entry = depot.record::<NamespaceEntry>(bucket, &key).await?;
                match entry.map(|it| it.value) {
                    Some(entry) if entry.is_active() => Ok(entry.properties),
                    Some(_) => Err(missing()),
                    None => {
                        let below = Listed::of(depot, bucket, Some(name)).await?;
                        let live = below.live_namespaces(depot, bucket).await?;
                        live.contains_key(name).then(BTreeMap::new).ok_or_else(missing)
                    }
                }
            }
            Self::Strong(loaded) => match loaded.snapshot.contents.namespace(bucket, name) {
                Some(entry) if entry.is_active() => Ok(entry.properties.clone()),
                None if loaded.snapshot.contents.has_namespace(bucket, name) => Ok(BTreeMap::new()),
                _ => Err(missing()),
            },
        }
    }

    /// The namespaces directly in `parent`, or the outermost ones, in order.
    ///
    /// # Errors
    ///
    /// [`Class::NoSuchNamespace`] when the parent is not there; as reading has them.
    pub async fn namespaces(
        &self,
        bucket: &str,
        parent: Option<&Namespace>,
    ) -> Result<Vec<Namespace>, Refusal> {
        let live: Vec<Namespace> = match self {
            Self::Object(depot) => {
                let listed = Listed::of(depot, bucket, parent).await?;
                listed.live_namespaces(depot, bucket).await?.into_keys().collect()
            }
            Self::Strong(loaded) => {
                loaded.snapshot.contents.live_namespaces(bucket).into_iter().collect()
            }
        };
        if let Some(parent) = parent
            && !live.contains(parent)
        {
            return Err(no_namespace(bucket, parent));
        }
        let mut children: Vec<_> = live.iter().filter_map(|it| it.child_of(parent)).collect();
        children.sort();
        children.dedup();
        Ok(children)
    }

    /// The tables directly in a namespace, in order; none when there is no such namespace.
    ///
    /// # Errors
    ///
    /// As reading has them.
    pub async fn tables(&self, bucket: &str, of: &Namespace) -> Result<Vec<Identifier>, Refusal> {
        match self {
            Self::Object(depot) => {
                let listed = Listed::of(depot, bucket, Some(of)).await?;
                listed.active_tables(depot, bucket, of).await
            }
            Self::Strong(loaded) => {
                loaded.snapshot.derived.check_listing(bucket, Some(of))?;
                let tables = loaded.snapshot.contents.tables_of(bucket);
                let active = tables.filter(|(name, it)| name.namespace == *of && it.is_active());
                Ok(active.map(|(name, _)| name.clone()).collect())
            }
        }
    }

    /// The views directly in a namespace, in order; none when there is no such namespace.
    ///
    /// # Errors
    ///
    /// As reading has them.
    pub async fn views(&self, bucket: &str, of: &Namespace) -> Result<Vec<Identifier>, Refusal> {
        match self {
            Self::Object(depot) => {
                let listed = Listed::of(depot, bucket, Some(of)).await?;
                listed.active_views(depot, bucket, of).await
            }
            Self::Strong(loaded) => {
                loaded.snapshot.derived.check_listing(bucket, Some(of))?;
                let views = loaded.snapshot.contents.views_of(bucket);
                let active = views.filter(|(name, it)| name.namespace == *of && it.is_active());
                Ok(active.map(|(name, _)| name.clone()).collect())
            }
        }
    }

    /// A table that is in use.
    ///
    /// # Errors
    ///
    /// [`Class::NoSuchTable`]; [`Class::Damaged`] for a name that is a view's, too; as reading has them.
    pub async fn table(&self, bucket: &str, name: &Identifier) -> Result<TableEntry, Refusal> {
        let found = match self {
            Self::Object(depot) => {
                let key = keys::table_entry(bucket, name);
                depot.record::<TableEntry>(bucket, &key).await?.map(|it| it.value)
            }
            Self::Strong(loaded) => {
                loaded.snapshot.derived.check_name(bucket, name)?;
                loaded.snapshot.contents.table(bucket, name).map(|it| (**it).clone())
            }
        };
        let missing = || Class::NoSuchTable.because(format!("there is no table {bucket}/{name}"));
        found.filter(TableEntry::is_active).ok_or_else(missing)
    }

    /// A view that is in use.
    ///
    /// # Errors
    ///
    /// [`Class::NoSuchView`]; [`Class::Damaged`] for a name that is a table's, too; as reading has them.
    pub async fn view(&self, bucket: &str, name: &Identifier) -> Result<ViewEntry, Refusal> {
        let found = match self {
            Self::Object(depot) => {
                let key = keys::view_entry(bucket, name);
                depot.record::<ViewEntry>(bucket, &key).await?.map(|it| it.value)
            }
            Self::Strong(loaded) => {
                loaded.snapshot.derived.check_name(bucket, name)?;
                loaded.snapshot.contents.view(bucket, name).map(|it| (**it).clone())
            }
        };
        let missing = || Class::NoSuchView.because(format!("there is no view {bucket}/{name}"));
        found.filter(ViewEntry::is_active).ok_or_else(missing)
    }

    /// A commit by its id, and one by its idempotency key.
    ///
    /// # Errors
    ///
    /// As reading has them.
    pub async fn commit_of(
        &self,
        table: &TableEntry,
        commit_id: &str,
        idempotency_key: Option<&str>,
    ) -> Result<(Option<CommitRecord>, Option<CommitRecord>), Refusal> {
        let (bucket, id) = (&*table.table_bucket, &*table.table_id);
        match self {
            Self::Object(depot) => {
                let key = keys::commit(bucket, id, commit_id);
                let by_id = depot.record::<CommitRecord>(bucket, &key).await?;
                let by_key = match idempotency_key {
                    None => None,
                    Some(named) => {
                        let key = keys::idempotency_record(bucket, id, named);
                        let decode =
                            |bytes: &[u8]| CommitRecord::decode_idempotency(bucket, &key, bytes);
                        depot.read_as(&key, decode).await?
                    }
                };
                Ok((by_id.map(|it| it.value), by_key.map(|it| it.value)))
            }
            Self::Strong(loaded) => {
                let commits = loaded.snapshot.contents.commits_of(bucket, id);
                let by_id = commits.and_then(|it| it.commits.get(commit_id));
                let by_key = idempotency_key.and_then(|key| commits?.idempotency.get(key));
                Ok((by_id.map(|it| (**it).clone()), by_key.map(|it| (**it).clone())))
            }
        }
    }
}

/// The refusal for a namespace that is not there.
pub fn no_namespace(bucket: &str, name: &Namespace) -> Refusal {
    Class::NoSuchNamespace.because(format!("there is no namespace {bucket}/{name}"))
}
