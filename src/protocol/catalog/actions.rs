//! The actions that a principal needs on the catalog's routes and on keys that a table owns.
//!
//! # Sources
//!
//! Specification of the catalog §2.3 to §2.6, §2.10.

use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;

/// Declares the actions: variant, name, what it is for.
macro_rules! actions {
    ($($(#[doc = $doc:literal])+ $variant:ident,)+) => {
        /// One action. Its name in a policy is `admin:` and the variant's.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Action {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Action {
            /// Every action.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name, as policies spell it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!("admin:", stringify!($variant)),)+
                }
            }
        }
    };
}

actions! {
    /// Configuration and preflight: of every bucket.
    GetTableCatalog,
    /// Migration and its cancellation: of every bucket.
    MigrateTableCatalog,
    /// Enable a table bucket.
    SetTableBucket,
    /// Look at a table bucket.
    GetTableBucket,
    /// Look at namespaces.
    GetTableNamespace,
    /// Create namespaces.
    SetTableNamespace,
    /// Drop namespaces.
    DeleteTableNamespace,
    /// Change a namespace's properties.
    UpdateTableNamespaceProperties,
    /// List tables, and ask whether a table or view is there.
    GetTable,
    /// Create tables and views.
    CreateTable,
    /// Register and import tables.
    RegisterTable,
    /// Rename tables.
    SetTable,
    /// Commit to tables and views, recover and roll back.
    CommitTable,
    /// Drop tables and views.
    DeleteTable,
    /// Load tables and views, export and diagnose; read what a table owns.
    GetTableMetadata,
    /// Write what a table owns.
    SetTableMetadata,
    /// Read the pointer with its token.
    GetTableMetadataLocation,
    /// Move the pointer.
    SetTableMetadataLocation,
    /// Ask for a table's credentials.
    GetTableCredentials,
    /// Look at maintenance.
    GetTableLifecycle,
    /// Configure maintenance.
    SetTableLifecycle,
    /// Run maintenance.
    RunTableMaintenance,
}

impl Action {
    /// Whether a grant is for the resources that it lists. A grant of the others is for every bucket.
    pub fn is_resource_scoped(self) -> bool {
        !matches!(self, Self::GetTableCatalog | Self::MigrateTableCatalog)
    }

    /// The action of this name, with or without its prefix, and with or without the `Action` at its end.
    pub fn from_name(name: &str) -> Option<Self> {
        let bare = name.strip_prefix("admin:").unwrap_or(name);
        let bare = bare.strip_suffix("Action").unwrap_or(bare);
        Self::ALL.iter().copied().find(|action| action.name()["admin:".len()..] == *bare)
    }
}

/// What an action is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource<'a> {
    /// Every bucket at once.
    Everything,
    /// One table bucket.
    Warehouse(&'a str),
    /// A namespace of a bucket.
    Namespace(&'a str, &'a Namespace),
    /// A table of a bucket.
    Table(&'a str, &'a Identifier),
    /// A view of a bucket.
    View(&'a str, &'a Identifier),
}

impl Resource<'_> {
    /// The bucket and the path that policies match: `namespaces/<ns>/tables/<t>` and its like, or nothing.
    pub fn bucket_and_path(&self) -> (&str, String) {
        match self {
            Self::Everything => ("", String::new()),
            Self::Warehouse(bucket) => (bucket, String::new()),
            Self::Namespace(bucket, it) => (bucket, format!("namespaces/{}", it.slashed())),
            Self::Table(bucket, it) => {
                let path = format!("namespaces/{}/tables/{}", it.namespace.slashed(), it.name);
                (bucket, path)
            }
            Self::View(bucket, it) => {
                let path = format!("namespaces/{}/views/{}", it.namespace.slashed(), it.name);
                (bucket, path)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_actions_are_for_every_bucket() {
        let global: Vec<_> = Action::ALL.iter().filter(|it| !it.is_resource_scoped()).collect();
        assert_eq!(global, [&Action::GetTableCatalog, &Action::MigrateTableCatalog]);
    }

    #[test]
    fn an_action_is_known_by_each_of_its_spellings() {
        for action in Action::ALL {
            assert_eq!(Action::from_name(action.name()), Some(*action));
        }
        assert_eq!(Action::from_name("GetTableCatalogAction"), Some(Action::GetTableCatalog));
        assert_eq!(Action::from_name("admin:Nothing"), None);
        let table = Identifier::from_record("a.b", "t").unwrap();
        assert_eq!(
            Resource::Table("lake1", &table).bucket_and_path(),
            ("lake1", "namespaces/a/b/tables/t".to_owned())
        );
    }
}
