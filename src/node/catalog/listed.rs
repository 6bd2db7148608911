//! What there is in a table bucket whose state is one object an entry: first by the keys, then by the entries.
//!
//! A key says which entry it holds from its end, so that a namespace with a segment `tables`, which older servers
//! made, is not taken for a table's folder (M20). Whether an entry is in use says only the entry.
//!
//! # Sources
//!
//! Specification of the catalog §3.1 (keys), §3.6 (explicit and implicit namespaces).

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::depot::Depot;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::record::Record;
use crate::protocol::catalog::refusal::Refusal;

/// The entries that a bucket has keys of.
#[derive(Debug, Default)]
pub struct Listed {
    /// Explicit namespaces.
    pub namespaces: BTreeSet<Namespace>,
    /// Tables.
    pub tables: BTreeSet<Identifier>,
    /// Views.
    pub views: BTreeSet<Identifier>,
    /// The ETags of all keys.
    etags: BTreeMap<String, String>,
}

/// What an entry's key names.
enum Named {
    Namespace(Namespace),
    Table(Identifier),
    View(Identifier),
}

impl Listed {
    /// All of a bucket, or of a namespace and what lies below it.
    ///
    /// # Errors
    ///
    /// As listing has them.
    pub async fn of(
        depot: &Depot,
        bucket: &str,
        below: Option<&Namespace>,
    ) -> Result<Self, Refusal> {
        let root = keys::namespaces(bucket);
        let prefix = below.map_or_else(|| root.clone(), |it| keys::namespace_root(bucket, it));
        let mut listed = Self::default();
        for (key, etag) in depot.list(&prefix).await? {
            match key.strip_prefix(&root).and_then(named) {
                Some(Named::Namespace(namespace)) => {
                    listed.namespaces.insert(namespace);
                }
                Some(Named::Table(table)) => {
                    listed.tables.insert(table);
                }
                Some(Named::View(view)) => {
                    listed.views.insert(view);
                }
                // Not an entry: what maintenance keeps, or a name that no server gives.
                None => {}
            }
            listed.etags.insert(key, etag);
        }
        Ok(listed)
    }

    /// Keys that were listed, with their ETags.
    pub fn with_etags(&self, keys: impl Iterator<Item = String>) -> Vec<(String, String)> {
        let with_etag = |key: String| {
            let etag = self.etags.get(&key).cloned().unwrap_or_default();
            (key, etag)
        };
        keys.map(with_etag).collect()
    }

    /// The entries of all its tables, whatever their state.
    ///
    /// # Errors
    ///
    /// As reading entries has them.
    pub async fn tables(&self, depot: &Depot, bucket: &str) -> Result<Vec<TableEntry>, Refusal> {
        let keys = self.tables.iter().map(|it| keys::table_entry(bucket, it)).collect();
        let entries =
            depot.read_all(keys, |key, bytes| TableEntry::decode(bucket, key, bytes)).await?;
        Ok(entries.into_iter().map(|it| it.value).collect())
    }

    /// The tables that are directly in a namespace and in use.
    ///
    /// # Errors
    ///
    /// As reading entries has them.
    pub async fn active_tables(
        &self,
        depot: &Depot,
        bucket: &str,
        of: &Namespace,
    ) -> Result<Vec<Identifier>, Refusal> {
        let names = self.tables.iter().filter(|it| it.namespace == *of);
        let keys = names.map(|it| keys::table_entry(bucket, it)).collect();
        let entries =
            depot.read_all(keys, |key, bytes| TableEntry::decode(bucket, key, bytes)).await?;
        let active = entries.into_iter().filter(|it| it.value.is_active());
        active.map(|it| it.value.identifier()).collect()
    }

    /// The views that are directly in a namespace and in use.
    ///
    /// # Errors
    ///
    /// As reading entries has them.
    pub async fn active_views(
        &self,
        depot: &Depot,
        bucket: &str,
        of: &Namespace,
    ) -> Result<Vec<Identifier>, Refusal> {
        let names = self.views.iter().filter(|it| it.namespace == *of);
        let keys = names.map(|it| keys::view_entry(bucket, it)).collect();
        let entries =
            depot.read_all(keys, |key, bytes| ViewEntry::decode(bucket, key, bytes)).await?;
        let active = entries.into_iter().filter(|it| it.value.is_active());
        active.map(|it| it.value.identifier()).collect()
    }

    /// The namespaces that are there, explicit or implicit, with the entries of the explicit ones.
    ///
    /// # Errors
    ///
    /// As reading entries has them.
    pub async fn live_namespaces(
        &self,
        depot: &Depot,
        bucket: &str,
    ) -> Result<BTreeMap<Namespace, Option<NamespaceEntry>>, Refusal> {
        let keys = self.namespaces.iter().map(|it| keys::namespace_entry(bucket, it)).collect();
        let explicit =
            depot.read_all(keys, |key, bytes| NamespaceEntry::decode(bucket, key, bytes)).await?;
        let mut live = BTreeMap::new();
        let mut retired = BTreeSet::new();
        for entry in explicit {
            let name = entry.value.name()?;
            match entry.value.is_active() {
                true => {
                    live.insert(name, Some(entry.value));
                }
                false => {
                    retired.insert(name);
                }
            }
        }
        // What has an entry of its own needs no witness.
        let of: BTreeSet<&Namespace> =
            self.tables.iter().chain(&self.views).map(|it| &it.namespace).collect();
        for namespace in of {
            let chain: Vec<_> = lineage(namespace).filter(|it| !live.contains_key(it)).collect();
            if chain.is_empty() || !self.is_in_use(depot, bucket, namespace).await? {
                continue;
            }
            live.extend(chain.into_iter().filter(|it| !retired.contains(it)).map(|it| (it, None)));
        }
        Ok(live)
    }

    async fn is_in_use(
        &self,
        depot: &Depot,
        bucket: &str,
        namespace: &Namespace,
    ) -> Result<bool, Refusal> {
        Ok(!self.active_tables(depot, bucket, namespace).await?.is_empty()
            || !self.active_views(depot, bucket, namespace).await?.is_empty())
    }
}

/// A namespace and all that it lies in.
fn lineage(namespace: &Namespace) -> impl Iterator<Item = Namespace> {
    std::iter::successors(Some(namespace.clone()), Namespace::parent)
}

fn named(path: &str) -> Option<Named> {
    let parts: Vec<&str> = path.split('/').collect();
    let (file, folders) = parts.split_last()?;
    match *file {
        keys::NAMESPACE_ENTRY => Namespace::of(folders).ok().map(Named::Namespace),
        keys::TABLE_ENTRY => resource(folders, "tables").map(Named::Table),
        keys::VIEW_ENTRY => resource(folders, "views").map(Named::View),
        _ => None,
    }
}

fn resource(folders: &[&str], kind: &str) -> Option<Identifier> {
    let [namespace @ .., folder, name] = folders else { return None };
    let namespace = Namespace::of(namespace).ok().filter(|_| *folder == kind)?;
    Identifier::new(namespace, name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_known_from_the_end_of_its_key() {
        let shown = |path: &str| match named(path) {
            Some(Named::Namespace(it)) => format!("namespace {it}"),
            Some(Named::Table(it)) => format!("table {it}"),
            Some(Named::View(it)) => format!("view {it}"),
            None => "nothing".to_owned(),
        };
        assert_eq!(shown("a/b/namespace-entry.json"), "namespace a.b");
        assert_eq!(shown("a/tables/t/table-entry.json"), "table a.t");
        assert_eq!(shown("a/tables/b/tables/t/table-entry.json"), "table a.tables.b.t");
        assert_eq!(shown("a/tables/b/namespace-entry.json"), "namespace a.tables.b");
        assert_eq!(shown("a/views/v/view-entry.json"), "view a.v");
        for nothing in ["a/tables/t/maintenance/x/config.json", "tables/t/table-entry.json", ""] {
            assert_eq!(shown(nothing), "nothing", "{nothing}");
        }
    }
}
