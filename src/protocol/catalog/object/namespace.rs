//! Namespaces: creation and drop. Object-backed ones cannot change their properties.
//!
//! # Sources
//!
//! Specification of the catalog §3.6, §2.4; M9, M20.

use std::collections::BTreeMap;

use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::fence::RegistryFence;
use crate::protocol::catalog::name;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::object::permit;
use crate::protocol::catalog::object::permit::Purpose;
use crate::protocol::catalog::record::Record;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::write::Found;
use crate::protocol::catalog::write::Step;
use crate::protocol::catalog::write::When;
use crate::protocol::catalog::write::Write;
use crate::protocol::crash_point::CrashPoint;

/// What is durable, read under the locks.
#[derive(Debug, Clone, Default)]
pub struct Durable {
    /// The bucket fence, if it is there.
    pub fence: Option<BucketFence>,
    /// The registry fence, if it is there.
    pub registry_fence: Option<RegistryFence>,
    /// The bucket's entry.
    pub bucket: Option<BucketEntry>,
    /// The namespace's entry, whatever its state.
    pub namespace: Option<Found<NamespaceEntry>>,
    /// Whether an active table or view is in the namespace or below it, or an active namespace is below it.
    pub has_descendants: bool,
    /// Whether a table or view entry of any state is in the namespace; asked for a drop only.
    pub has_entries: bool,
}

/// A creation or a drop.
#[derive(Debug, Clone)]
pub struct Request {
    /// The bucket.
    pub bucket: String,
    /// The namespace.
    pub namespace: Namespace,
    /// The properties of a creation.
    pub properties: BTreeMap<String, String>,
    /// Whether this request has sent a write of the namespace's entry already, whatever was heard of it.
    pub attempted: bool,
}

/// The next write of a creation, or the entry once it is there.
///
/// # Errors
///
/// [`Class::Unavailable`] while the bucket is fenced, or its entry is missing while any migration exists;
/// [`Class::AlreadyExists`]; [`Class::Invalid`].
pub fn next_of_create(
    durable: &Durable,
    request: &Request,
) -> Result<Step<NamespaceEntry>, Refusal> {
    let (bucket, namespace) = (&request.bucket, &request.namespace);
    namespace.check_new()?;
    name::check_properties(&request.properties)?;
    permit::check_bucket(durable.fence.as_ref(), Purpose::Create)?;
    match &durable.bucket {
        None => {
            permit::check_registry(durable.registry_fence.as_ref())?;
            let entry = BucketEntry::new(bucket);
            let point = CrashPoint::CatalogBucketEntryWritten;
            let write = Write::put(entry.key(bucket)?, entry.encode(), When::Absent, point);
            return Ok(Step::Write(write));
        }
        Some(entry) if !entry.is_active() => {
            let text = format!("the table-bucket entry of {bucket} is not active");
            return Err(Class::Conflict.because(text));
        }
        Some(_) => {}
    }
    let entry = NamespaceEntry::new(bucket, namespace, request.properties.clone());
    let when = match &durable.namespace {
        Some(found) if found.value == entry && request.attempted => return Ok(Step::Done(entry)),
        Some(found) if !found.value.is_active() => found.unchanged(),
        None if !durable.has_descendants => When::Absent,
        _ => {
            let text = format!("there is a namespace {namespace} already");
            return Err(Class::AlreadyExists.because(text));
        }
    };
    let point = CrashPoint::CatalogNamespaceEntryWritten;
    Ok(Step::Write(Write::put(entry.key(bucket)?, entry.encode(), when, point)))
}

/// The next write of a drop.
///
/// # Errors
///
/// [`Class::Conflict`] while the bucket is fenced; [`Class::NamespaceNotEmpty`]; [`Class::NoSuchNamespace`].
pub fn next_of_drop(durable: &Durable, request: &Request) -> Result<Step<()>, Refusal> {
    let namespace = &request.namespace;
    permit::check_bucket(durable.fence.as_ref(), Purpose::Change)?;
    if durable.has_descendants || durable.has_entries {
        let text = format!("namespace {namespace} still has something in it");
        return Err(Class::NamespaceNotEmpty.because(text));
    }
    let Some(found) = durable.namespace.as_ref().filter(|found| found.value.is_active()) else {
        if request.attempted {
            return Ok(Step::Done(()));
        }
        return Err(Class::NoSuchNamespace.because(format!("there is no namespace {namespace}")));
    };
    let key = found.value.key(&request.bucket)?;
    let point = CrashPoint::CatalogNamespaceEntryDeleted;
    Ok(Step::Write(Write::delete(key, found.unchanged(), point)))
}
