//! What a snapshot holds, in memory.
//!
//! Entries are shared, so that a draft of the next state costs little more than its tables' names.
//!
//! # Sources
//!
//! Specification of the catalog §4.2 (arrays and their order).

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;

/// A bucket and a table id.
pub type TableId = (String, String);

/// The commits of one table: by their ids, and those with an idempotency key by it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableCommits {
    /// By commit id.
    pub commits: BTreeMap<String, Arc<CommitRecord>>,
    /// By idempotency key.
    pub idempotency: BTreeMap<String, Arc<CommitRecord>>,
}

/// The state of all table buckets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// By bucket.
    pub buckets: BTreeMap<String, Arc<BucketEntry>>,
    /// Explicit namespaces, by bucket and name.
    pub namespaces: BTreeMap<(String, Namespace), Arc<NamespaceEntry>>,
    /// By bucket and name.
    pub tables: BTreeMap<(String, Identifier), Arc<TableEntry>>,
    /// By bucket and name.
    pub views: BTreeMap<(String, Identifier), Arc<ViewEntry>>,
    /// By bucket and table id; a table without commits has none.
    pub commits: BTreeMap<TableId, Arc<TableCommits>>,
}

impl Contents {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The names of its buckets.
    pub fn bucket_names(&self) -> BTreeSet<String> {
        self.buckets.keys().cloned().collect()
    }

    /// A table by its name, whatever its state.
    pub fn table(&self, bucket: &str, name: &Identifier) -> Option<&Arc<TableEntry>> {
        self.tables.get(&(bucket.to_owned(), name.clone()))
    }

    /// A view by its name, whatever its state.
    pub fn view(&self, bucket: &str, name: &Identifier) -> Option<&Arc<ViewEntry>> {
        self.views.get(&(bucket.to_owned(), name.clone()))
    }

    /// An explicit namespace, whatever its state.
    pub fn namespace(&self, bucket: &str, name: &Namespace) -> Option<&Arc<NamespaceEntry>> {
        self.namespaces.get(&(bucket.to_owned(), name.clone()))
    }

    /// The commits of a table.
    pub fn commits_of(&self, bucket: &str, table_id: &str) -> Option<&Arc<TableCommits>> {
        self.commits.get(&(bucket.to_owned(), table_id.to_owned()))
    }

    /// The explicit namespaces of a bucket.
    pub fn namespaces_of(&self, bucket: &str) -> impl Iterator<Item = &Arc<NamespaceEntry>> {
        self.namespaces.iter().filter(move |((of, _), _)| of == bucket).map(|(_, entry)| entry)
    }

    /// The tables of a bucket.
    pub fn tables_of(&self, bucket: &str) -> impl Iterator<Item = (&Identifier, &Arc<TableEntry>)> {
        let of_bucket = move |((of, _), _): &(&(String, Identifier), _)| of == bucket;
        self.tables.iter().filter(of_bucket).map(|((_, name), entry)| (name, entry))
    }

    /// The views of a bucket.
    pub fn views_of(&self, bucket: &str) -> impl Iterator<Item = (&Identifier, &Arc<ViewEntry>)> {
        let of_bucket = move |((of, _), _): &(&(String, Identifier), _)| of == bucket;
        self.views.iter().filter(of_bucket).map(|((_, name), entry)| (name, entry))
    }

    /// Every namespace of a bucket in which, or below which, an active table or view is.
    pub fn implicit_namespaces(&self, bucket: &str) -> BTreeSet<Namespace> {
        let tables = self.tables_of(bucket).filter(|(_, it)| it.is_active()).map(|(name, _)| name);
        let views = self.views_of(bucket).filter(|(_, it)| it.is_active()).map(|(name, _)| name);
        let mut found = BTreeSet::new();
        for name in tables.chain(views) {
            let mut next = Some(name.namespace.clone());
            while let Some(namespace) = next {
                next = namespace.parent();
                if !found.insert(namespace) {
                    break;
                }
            }
        }
        found
    }

    /// Whether a namespace is there: an active entry, or none and something active in it or below it.
    pub fn has_namespace(&self, bucket: &str, name: &Namespace) -> bool {
        match self.namespace(bucket, name) {
            Some(entry) => entry.is_active(),
            None => self.implicit_namespaces(bucket).contains(name),
        }
    }

    /// Every namespace that is there, explicit or implicit.
    pub fn live_namespaces(&self, bucket: &str) -> BTreeSet<Namespace> {
        let mut found = self.implicit_namespaces(bucket);
        for ((of, name), entry) in &self.namespaces {
            if of == bucket && entry.is_active() {
                found.insert(name.clone());
            } else if of == bucket {
                found.remove(name);
            }
        }
        found
    }

    /// Takes everything of a bucket out.
    pub fn remove_bucket(&mut self, bucket: &str) {
        self.buckets.remove(bucket);
        self.namespaces.retain(|(of, _), _| of != bucket);
        self.tables.retain(|(of, _), _| of != bucket);
        self.views.retain(|(of, _), _| of != bucket);
        self.commits.retain(|(of, _), _| of != bucket);
    }

    /// Only what belongs to a bucket.
    #[must_use]
    pub fn of_bucket(&self, bucket: &str) -> Self {
        let mut only = Self::default();
        only.merge(self, Some(bucket));
        only
    }

    /// Adds what `other` has of `bucket` (of every bucket for `None`).
    pub fn merge(&mut self, other: &Self, bucket: Option<&str>) {
        fn take<K: Clone + Ord, V: Clone>(
            into: &mut BTreeMap<K, V>,
            from: &BTreeMap<K, V>,
            is_wanted: impl Fn(&K) -> bool,
        ) {
            let wanted = from.iter().filter(|(key, _)| is_wanted(key));
            into.extend(wanted.map(|(key, value)| (key.clone(), value.clone())));
        }
        let is_wanted = |of: &String| bucket.is_none_or(|bucket| of == bucket);
        take(&mut self.buckets, &other.buckets, is_wanted);
        take(&mut self.namespaces, &other.namespaces, |(of, _)| is_wanted(of));
        take(&mut self.tables, &other.tables, |(of, _)| is_wanted(of));
        take(&mut self.views, &other.views, |(of, _)| is_wanted(of));
        take(&mut self.commits, &other.commits, |(of, _)| is_wanted(of));
    }
}
