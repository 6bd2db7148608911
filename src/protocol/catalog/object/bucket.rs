//! Enabling a table bucket: its marker, then its entry.
//!
//! The marker is bucket metadata and not an object of the catalog; a bucket that has it and no entry refuses all
//! object traffic. So what could refuse the entry is looked at first (M10).
//!
//! # Sources
//!
//! Specification of the catalog §1.1 (marker), §2.5.

use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::fence::RegistryFence;
use crate::protocol::catalog::object::permit;
use crate::protocol::catalog::object::permit::Purpose;
use crate::protocol::catalog::record::Record;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::write::When;
use crate::protocol::catalog::write::Write;
use crate::protocol::crash_point::CrashPoint;

/// The name of the marker among a bucket's metadata.
pub const MARKER_NAME: &str = "table-bucket.json";
/// What a new marker holds. Any bytes at all mark a bucket.
pub const MARKER: &str =
    r#"{"version":1,"catalog_type":"iceberg-rest","reserved_prefix":".rustfs-table"}"#;

/// What is durable, read under the locks.
#[derive(Debug, Clone, Default)]
pub struct Durable {
    /// Whether the bucket has the marker.
    pub has_marker: bool,
    /// The registry fence, if it is there.
    pub registry_fence: Option<RegistryFence>,
    /// The bucket fence, if it is there.
    pub fence: Option<BucketFence>,
    /// The bucket's entry.
    pub entry: Option<BucketEntry>,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Give the bucket [`MARKER`]; the crash point is [`CrashPoint::CatalogBucketMarkerWritten`].
    Mark,
    /// Make this durable.
    Write(Write),
    /// This is the entry.
    Done(BucketEntry),
}

/// The next step of enabling `bucket`. An entry that is there stays as it is.
///
/// # Errors
///
/// [`Class::Unavailable`] while a migration exists and the entry does not; [`Class::Conflict`] for an entry that
/// is not active.
pub fn next(durable: &Durable, bucket: &str) -> Result<Next, Refusal> {
    match &durable.entry {
        Some(entry) if !entry.is_active() => {
            let text = format!("the table-bucket entry of {bucket} is not active");
            return Err(Class::Conflict.because(text));
        }
        Some(entry) if durable.has_marker => return Ok(Next::Done(entry.clone())),
        Some(_) => return Ok(Next::Mark),
        None => {}
    }
    permit::check_registry(durable.registry_fence.as_ref())?;
    permit::check_bucket(durable.fence.as_ref(), Purpose::Create)?;
    if !durable.has_marker {
        return Ok(Next::Mark);
    }
    let entry = BucketEntry::new(bucket);
    let point = CrashPoint::CatalogBucketEntryWritten;
    Ok(Next::Write(Write::put(entry.key(bucket)?, entry.encode(), When::Always, point)))
}
