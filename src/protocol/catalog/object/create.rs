//! A new object-backed table: created with a first metadata file, or registered with one that is there.
//!
//! ```text
//!  T1 metadata file ─▶ T2 prefix reserved ─▶ T3 ENTRY
//! ```
//!
//! Everything that can refuse is looked at before anything is written (M18).
//!
//! # Sources
//!
//! Specification of the catalog §2.4.2, §3.7.

use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::object::permit;
use crate::protocol::catalog::object::permit::Purpose;
use crate::protocol::catalog::object::reservation;
use crate::protocol::catalog::object::reservation::Reservation;
use crate::protocol::catalog::object::reservation::Standing;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::record::Record;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::write::Step;
use crate::protocol::catalog::write::When;
use crate::protocol::catalog::write::Write;
use crate::protocol::crash_point::CrashPoint;

/// Where a new table or view is to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Home {
    /// The bucket's entry.
    pub bucket: Option<BucketEntry>,
    /// The explicit namespace, whatever its state.
    pub namespace: Option<NamespaceEntry>,
    /// Whether an active table or view is in the namespace or below it; asked only when it is not explicit.
    pub is_implicit: bool,
}

impl Home {
    /// Refuses a bucket that is not in use, and a namespace that is not there.
    ///
    /// # Errors
    ///
    /// [`Class::NotFound`], [`Class::NoSuchNamespace`].
    pub fn check(&self, namespace: &Namespace) -> Result<(), Refusal> {
        if !self.bucket.as_ref().is_some_and(BucketEntry::is_active) {
            return Err(Class::NotFound.because("the bucket has no active table-bucket entry"));
        }
        let is_there = match &self.namespace {
            Some(entry) => entry.is_active(),
            None => self.is_implicit,
        };
        if is_there {
            return Ok(());
        }
        Err(Class::NoSuchNamespace.because(format!("there is no namespace {namespace}")))
    }
}

/// What is durable, read under the locks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Durable {
    /// The bucket fence, if it is there.
    pub fence: Option<BucketFence>,
    /// Bucket and namespace.
    pub home: Home,
    /// The entry under the table's name, whatever its state.
    pub table: Option<TableEntry>,
    /// The view entry under the same name, whatever its state.
    pub view: Option<ViewEntry>,
    /// Whether the metadata file is there.
    pub has_metadata: bool,
    /// The reservation of the table's prefix.
    pub reservation: Option<Reservation>,
    /// Another active table whose prefix overlaps.
    pub overlapping: Option<Identifier>,
    /// Whether another table of the bucket has the same id.
    pub has_twin: bool,
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct Request {
    /// The table's entry, with fresh id and token.
    pub entry: TableEntry,
    /// The first metadata file's contents; `None` when the table is registered with one that is there.
    pub metadata: Option<Vec<u8>>,
}

/// The next write of a creation, or the entry once it is there.
///
/// # Errors
///
/// [`Class::Unavailable`] while the bucket is fenced; [`Class::NotFound`], [`Class::NoSuchNamespace`];
/// [`Class::AlreadyExists`] for a name that is taken; [`Class::Conflict`] for a prefix or id that is;
/// [`Class::Invalid`].
pub fn next(durable: &Durable, request: &Request) -> Result<Step<TableEntry>, Refusal> {
    let entry = &request.entry;
    let (bucket, name) = (&entry.table_bucket, entry.identifier()?);
    permit::check_bucket(durable.fence.as_ref(), Purpose::Create)?;
    entry.check()?;
    let prefix = prefix::of_new_table(bucket, &entry.warehouse_location)?;
    if !keys::is_table_metadata(&entry.metadata_location) {
        let at = &entry.metadata_location;
        return Err(Class::Invalid.because(format!("{at:?} is no table's metadata file")));
    }
    if let Some(found) = &durable.table {
        // Ids and tokens are drawn for one request: this is what it wrote itself.
        if found == entry {
            return Ok(Step::Done(entry.clone()));
        }
        return Err(Class::AlreadyExists.because(format!("there is a table {name} already")));
    }
    if durable.view.is_some() {
        return Err(Class::AlreadyExists.because(format!("there is a view {name} already")));
    }
    durable.home.check(&name.namespace)?;
    if durable.has_twin {
        return Err(Class::Conflict.because(format!("the id of {name} is another table's")));
    }
    reservation::check_overlap(&prefix, durable.overlapping.as_ref())?;
    // A refusal over the prefix comes before anything is written.
    let point = CrashPoint::CatalogCreateIndexReserved;
    let reserve = reservation::reserve(entry, &prefix, durable.reservation.as_ref(), point)?;
    if let Some(contents) = &request.metadata
        && !durable.has_metadata
    {
        let key = entry.metadata_location.clone();
        let point = CrashPoint::CatalogCreateMetadataWritten;
        return Ok(Step::Write(Write::metadata(bucket, key, contents.clone(), point)));
    }
    if let Some(write) = reserve {
        return Ok(Step::Write(write));
    }
    let key = entry.key(bucket)?;
    let point = CrashPoint::CatalogCreateEntryWritten;
    Ok(Step::Write(Write::put(key, entry.encode(), When::Absent, point)))
}

/// What an import makes of the table that has the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Import {
    /// There is none: it is registered, in either backing.
    Register,
    /// It is this table already, and stays as it is.
    Unchanged,
}

/// What an import of the metadata at `location`, of a table with this UUID and warehouse location, is.
///
/// # Errors
///
/// [`Class::Conflict`] over a table that is another one or stands elsewhere.
pub fn import(
    found: Option<&TableEntry>,
    table_uuid: &str,
    location: &str,
    warehouse_location: &str,
) -> Result<Import, Refusal> {
    let Some(found) = found else { return Ok(Import::Register) };
    let is_same = found.is_active()
        && found.table_uuid == table_uuid
        && found.metadata_location == location
        && found.warehouse_location.trim_end_matches('/')
            == warehouse_location.trim_end_matches('/');
    if is_same {
        return Ok(Import::Unchanged);
    }
    let name = format!("{}.{}", found.namespace, found.table);
    Err(Class::Conflict.because(format!("table {name} is there and is not what is imported")))
}

/// What gives back what a refused creation has taken. A metadata file that was registered stays.
pub fn undo(durable: &Durable, request: &Request) -> Vec<Write> {
    let entry = &request.entry;
    if durable.table.as_ref() == Some(entry) {
        return Vec::new();
    }
    let mut writes = Vec::new();
    if let Some(taken) = &durable.reservation
        && taken.standing(entry) == Standing::Own
    {
        writes.push(taken.removal(CrashPoint::CatalogIndexReturned).best_effort());
    }
    if durable.has_metadata && request.metadata.is_some() {
        let key = entry.metadata_location.clone();
        let point = CrashPoint::CatalogMetadataRemoved;
        writes.push(Write::remove_metadata(&entry.table_bucket, key, point));
    }
    writes
}
