//! The entries of a table bucket: the bucket itself, its namespaces, tables and views.
//!
//! A table's entry is its *pointer*: moving it is what a commit is.
//!
//! # Sources
//!
//! Specification of the catalog §3.2 (fields and their order, constants, states).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::Serialize;

use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::record::Record;
use crate::protocol::catalog::record::check_version;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;

/// The version of every entry.
pub const ENTRY_VERSION: u32 = 1;
/// The catalog type of a bucket entry.
pub const CATALOG_TYPE: &str = "iceberg-rest";
/// The format of a table entry.
pub const TABLE_FORMAT: &str = "ICEBERG";
/// The format of a view entry.
pub const VIEW_FORMAT: &str = "ICEBERG_VIEW";

/// Whether an entry is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    /// In use.
    Active,
    /// Being taken away.
    Deleting,
    /// Taken away.
    Deleted,
}

/// A table bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketEntry {
    /// [`ENTRY_VERSION`].
    pub version: u32,
    /// The bucket.
    pub table_bucket: String,
    /// [`CATALOG_TYPE`].
    pub catalog_type: String,
    /// `s3://<bucket>/`.
    pub warehouse_root: String,
    /// Whether it is in use.
    pub state: State,
    /// Free properties.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// Written as null.
    pub created_at: Option<String>,
    /// Written as null.
    pub updated_at: Option<String>,
}

impl BucketEntry {
    /// The entry of a bucket that is enabled now.
    pub fn new(bucket: &str) -> Self {
        Self {
            version: ENTRY_VERSION,
            table_bucket: bucket.to_owned(),
            catalog_type: CATALOG_TYPE.to_owned(),
            warehouse_root: format!("s3://{bucket}/"),
            state: State::Active,
            properties: BTreeMap::new(),
            created_at: None,
            updated_at: None,
        }
    }

    /// Whether it is in use.
    pub fn is_active(&self) -> bool {
        self.state == State::Active
    }
}

impl Record for BucketEntry {
    const KIND: &'static str = "table bucket entry";

    fn bucket(&self) -> Option<&str> {
        Some(&self.table_bucket)
    }

    fn key(&self, _bucket: &str) -> Result<String, Refusal> {
        Ok(keys::bucket_entry(&self.table_bucket))
    }

    fn check(&self) -> Result<(), Refusal> {
        check_version(Self::KIND, self.version, ENTRY_VERSION)?;
        if self.catalog_type != CATALOG_TYPE
            || self.warehouse_root != format!("s3://{}/", self.table_bucket)
        {
            let bucket = &self.table_bucket;
            let text = format!("the entry of table bucket {bucket} has another type or root");
            return Err(Class::Invalid.because(text));
        }
        Ok(())
    }
}

/// An explicit namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceEntry {
    /// [`ENTRY_VERSION`].
    pub version: u32,
    /// The bucket.
    pub table_bucket: String,
    /// The form with dots.
    pub namespace: String,
    /// The form with slashes.
    pub namespace_id: String,
    /// Whether it is in use.
    pub state: State,
    /// Its properties.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// Written as null.
    pub created_at: Option<String>,
    /// Written as null.
    pub updated_at: Option<String>,
}

impl NamespaceEntry {
    /// The entry of a namespace that is created now.
    pub fn new(bucket: &str, namespace: &Namespace, properties: BTreeMap<String, String>) -> Self {
        Self {
            version: ENTRY_VERSION,
            table_bucket: bucket.to_owned(),
            namespace: namespace.dotted().to_owned(),
            namespace_id: namespace.slashed(),
            state: State::Active,
            properties,
            created_at: None,
            updated_at: None,
        }
    }

    /// Whether it is in use.
    pub fn is_active(&self) -> bool {
        self.state == State::Active
    }

    /// Its name.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`], also when its two forms do not correspond.
    pub fn name(&self) -> Result<Namespace, Refusal> {
        let namespace = Namespace::from_dotted(&self.namespace)?;
        if namespace.slashed() == self.namespace_id {
            return Ok(namespace);
        }
        let id = &self.namespace_id;
        Err(Class::Invalid.because(format!("namespace {namespace} has the id {id:?}")))
    }
}

impl Record for NamespaceEntry {
    const KIND: &'static str = "namespace entry";

    fn bucket(&self) -> Option<&str> {
        Some(&self.table_bucket)
    }

    fn key(&self, _bucket: &str) -> Result<String, Refusal> {
        Ok(keys::namespace_entry(&self.table_bucket, &self.name()?))
    }

    fn check(&self) -> Result<(), Refusal> {
        check_version(Self::KIND, self.version, ENTRY_VERSION)?;
        self.name().map(drop)
    }
}

/// A table: its identity and its pointer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableEntry {
    /// [`ENTRY_VERSION`].
    pub version: u32,
    /// The bucket.
    pub table_bucket: String,
    /// The namespace, with dots.
    pub namespace: String,
    /// The name.
    pub table: String,
    /// Assigned at creation or registration; never empty.
    pub table_id: String,
    /// The UUID that its metadata has.
    pub table_uuid: String,
    /// [`TABLE_FORMAT`].
    pub format: String,
    /// 1 or 2.
    pub format_version: u32,
    /// `s3://<bucket>/<prefix>`.
    pub warehouse_location: String,
    /// The current metadata file: a key of the table bucket.
    pub metadata_location: String,
    /// New with every move of the pointer: the value of compare-and-swap.
    pub version_token: String,
    /// Counts the moves, from 1.
    pub generation: u64,
    /// Whether it is in use.
    pub state: State,
    /// Free properties.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// Written as null.
    pub created_at: Option<String>,
    /// Written as null.
    pub updated_at: Option<String>,
}

impl TableEntry {
    /// Whether it is in use.
    pub fn is_active(&self) -> bool {
        self.state == State::Active
    }

    /// Its name.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`].
    pub fn identifier(&self) -> Result<Identifier, Refusal> {
        Identifier::from_record(&self.namespace, &self.table)
    }

    /// Whether the pointer stands at this location and token.
    pub fn is_at(&self, location: &str, token: &str) -> bool {
        self.metadata_location == location && self.version_token == token
    }
}

impl Record for TableEntry {
    const KIND: &'static str = "table entry";

    fn bucket(&self) -> Option<&str> {
        Some(&self.table_bucket)
    }

    fn key(&self, _bucket: &str) -> Result<String, Refusal> {
        Ok(keys::table_entry(&self.table_bucket, &self.identifier()?))
    }

    fn check(&self) -> Result<(), Refusal> {
        check_version(Self::KIND, self.version, ENTRY_VERSION)?;
        let identifier = self.identifier()?;
        if self.table_id.is_empty() || self.format != TABLE_FORMAT {
            let text = format!("the entry of table {identifier} has no id or another format");
            return Err(Class::Invalid.because(text));
        }
        Ok(())
    }
}

/// A view: its identity and its pointer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewEntry {
    /// [`ENTRY_VERSION`].
    pub version: u32,
    /// The bucket.
    pub table_bucket: String,
    /// The namespace, with dots.
    pub namespace: String,
    /// The name.
    pub view: String,
    /// Assigned at creation; never empty.
    pub view_id: String,
    /// The UUID that its metadata has.
    pub view_uuid: String,
    /// [`VIEW_FORMAT`].
    pub format: String,
    /// 1.
    pub format_version: u32,
    /// `s3://<bucket>/<prefix>`.
    pub warehouse_location: String,
    /// The current metadata file: a key of the table bucket.
    pub metadata_location: String,
    /// New with every move of the pointer.
    pub version_token: String,
    /// Counts the moves, from 1.
    pub generation: u64,
    /// Whether it is in use.
    pub state: State,
    /// Those of its creation.
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
    /// Written as null.
    pub created_at: Option<String>,
    /// Written as null.
    pub updated_at: Option<String>,
}

impl ViewEntry {
    /// Whether it is in use.
    pub fn is_active(&self) -> bool {
        self.state == State::Active
    }

    /// Its name.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`].
    pub fn identifier(&self) -> Result<Identifier, Refusal> {
        Identifier::from_record(&self.namespace, &self.view)
    }
}

impl Record for ViewEntry {
    const KIND: &'static str = "view entry";

    fn bucket(&self) -> Option<&str> {
        Some(&self.table_bucket)
    }

    fn key(&self, _bucket: &str) -> Result<String, Refusal> {
        Ok(keys::view_entry(&self.table_bucket, &self.identifier()?))
    }

    fn check(&self) -> Result<(), Refusal> {
        check_version(Self::KIND, self.version, ENTRY_VERSION)?;
        let identifier = self.identifier()?;
        if self.view_id.is_empty() || self.format != VIEW_FORMAT || self.format_version != 1 {
            let text = format!("the entry of view {identifier} has no id or another format");
            return Err(Class::Invalid.because(text));
        }
        Ok(())
    }
}
