//! Views: creation, replacement, drop. They have no commit log, so that a lost answer is found out by what the
//! entry says.
//!
//! # Sources
//!
//! Specification of the catalog §2.9, §3.7.

use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::object::create::Home;
use crate::protocol::catalog::object::permit;
use crate::protocol::catalog::object::permit::Purpose;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::record::Record;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::write::Found;
use crate::protocol::catalog::write::Step;
use crate::protocol::catalog::write::When;
use crate::protocol::catalog::write::Write;
use crate::protocol::crash_point::CrashPoint;

/// What is durable, read under the locks. A replacement and a drop need no home and no table.
#[derive(Debug, Clone, Default)]
pub struct Durable {
    /// The bucket fence, if it is there.
    pub fence: Option<BucketFence>,
    /// Bucket and namespace.
    pub home: Home,
    /// The table entry under the same name, whatever its state.
    pub table: Option<TableEntry>,
    /// The view's entry, whatever its state.
    pub view: Option<Found<ViewEntry>>,
    /// Whether the new metadata file is there.
    pub has_metadata: bool,
}

/// A creation or a replacement.
#[derive(Debug, Clone)]
pub struct Request {
    /// The entry as it is to be, with a fresh token.
    pub entry: ViewEntry,
    /// The entry that is replaced; `None` for a creation.
    pub base: Option<ViewEntry>,
    /// The metadata file's contents; `None` when the client has put it there itself.
    pub metadata: Option<Vec<u8>>,
    /// Whether the name of the metadata file was drawn for this request.
    pub has_fresh_name: bool,
}

/// A drop.
#[derive(Debug, Clone)]
pub struct Drop {
    /// The bucket.
    pub bucket: String,
    /// The view.
    pub view: Identifier,
    /// The entry as this request first read it under its locks, if it was there.
    pub seen: Option<ViewEntry>,
}

/// The next write of a creation or replacement, or the entry once it is there.
///
/// # Errors
///
/// [`Class::Unavailable`] or [`Class::Conflict`] while the bucket is fenced; [`Class::AlreadyExists`],
/// [`Class::NoSuchNamespace`]; [`Class::NoSuchView`]; [`Class::Conflict`] when the base moved;
/// [`Class::Invalid`].
pub fn next(durable: &Durable, request: &Request) -> Result<Step<ViewEntry>, Refusal> {
    let entry = &request.entry;
    let (bucket, name) = (&entry.table_bucket, entry.identifier()?);
    let is_new = request.base.is_none();
    let purpose = if is_new { Purpose::Create } else { Purpose::Change };
    permit::check_bucket(durable.fence.as_ref(), purpose)?;
    entry.check()?;
    prefix::of_view(bucket, &entry.warehouse_location)?;
    let found = durable.view.as_ref();
    if found.is_some_and(|found| found.value == *entry) {
        return Ok(Step::Done(entry.clone()));
    }
    let (when, point) = match &request.base {
        None => {
            if found.is_some() {
                return Err(Class::AlreadyExists.because(format!("there is a view {name} already")));
            }
            if durable.table.is_some() {
                return Err(
                    Class::AlreadyExists.because(format!("there is a table {name} already"))
                );
            }
            durable.home.check(&name.namespace)?;
            (When::Absent, CrashPoint::CatalogViewEntryWritten)
        }
        Some(base) => {
            let found = found.filter(|found| found.value.is_active());
            let Some(found) = found else {
                return Err(Class::NoSuchView.because(format!("there is no view {name}")));
            };
            if found.value != *base {
                let text = format!("view {name} has moved on from what the change is based on");
                return Err(Class::Conflict.because(text));
            }
            if entry.metadata_location == base.metadata_location {
                return Ok(Step::Done(base.clone()));
            }
            (found.unchanged(), CrashPoint::CatalogViewPointerMoved)
        }
    };
    if let Some(contents) = &request.metadata
        && !durable.has_metadata
    {
        let key = entry.metadata_location.clone();
        let point = CrashPoint::CatalogViewMetadataWritten;
        return Ok(Step::Write(Write::metadata(bucket, key, contents.clone(), point)));
    }
    Ok(Step::Write(Write::put(entry.key(bucket)?, entry.encode(), when, point)))
}

/// What removes the metadata file of a change that was refused, if nobody else waits for it.
pub fn undo(durable: &Durable, request: &Request) -> Vec<Write> {
    let entry = &request.entry;
    let at = &entry.metadata_location;
    let is_used = durable.view.as_ref().is_some_and(|found| found.value.metadata_location == *at);
    if is_used || !durable.has_metadata || !request.has_fresh_name || request.metadata.is_none() {
        return Vec::new();
    }
    let point = CrashPoint::CatalogMetadataRemoved;
    vec![Write::remove_metadata(&entry.table_bucket, at.clone(), point)]
}

/// The next write of a drop.
///
/// # Errors
///
/// [`Class::NoSuchView`]; [`Class::Conflict`] while the bucket is fenced.
pub fn next_of_drop(durable: &Durable, request: &Drop) -> Result<Step<()>, Refusal> {
    permit::check_bucket(durable.fence.as_ref(), Purpose::Change)?;
    let is_gone = request.seen.as_ref().is_some_and(|seen| {
        durable.view.as_ref().is_none_or(|now| now.value.view_id != seen.view_id)
    });
    if is_gone {
        return Ok(Step::Done(()));
    }
    let found = durable.view.as_ref().filter(|found| found.value.is_active());
    let Some(found) = found else {
        let name = &request.view;
        return Err(Class::NoSuchView.because(format!("there is no view {name}")));
    };
    let key = keys::view_entry(&request.bucket, &request.view);
    let point = CrashPoint::CatalogViewEntryDeleted;
    Ok(Step::Write(Write::delete(key, found.unchanged(), point)))
}
