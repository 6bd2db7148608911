//! Metadata files of tables and views: found in the table bucket, and held against their entries.
//!
//! # Sources
//!
//! Specification of the catalog §1.3 (sizes), §2.8 (what must agree), F18.

use super::depot::Depot;
use crate::iceberg::Metadata;
use crate::iceberg::Trouble;
use crate::iceberg::View;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::entry::ViewEntry;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;

/// The largest metadata file, in bytes.
pub const METADATA_BYTES_MAX: usize = 50 << 20;

/// A refusal of the metadata engine, as the catalog has it.
pub fn refused(trouble: Trouble) -> Refusal {
    let class = match trouble.class {
        crate::iceberg::Class::Conflict => Class::Conflict,
        crate::iceberg::Class::Invalid => Class::Invalid,
        crate::iceberg::Class::Unsupported => Class::Unsupported,
        crate::iceberg::Class::Unprocessable => Class::Unprocessable,
        crate::iceberg::Class::Forbidden => Class::Forbidden,
        crate::iceberg::Class::Unavailable => Class::Unavailable,
    };
    class.because(trouble.text)
}

/// The current metadata of a table.
///
/// # Errors
///
/// [`Class::Damaged`] when it is missing, cannot be read, or is another table's.
pub async fn table(depot: &Depot, entry: &TableEntry) -> Result<Metadata, Refusal> {
    let metadata =
        table_at(depot, &entry.table_bucket, &entry.metadata_location).await.map_err(as_damage)?;
    if metadata.uuid().to_string() != entry.table_uuid
        || metadata.location() != entry.warehouse_location
    {
        let at = &entry.metadata_location;
        return Err(Class::Damaged
            .because(format!("the current metadata file {at} is of another table or location")));
    }
    Ok(metadata)
}

/// The metadata of a table under a key of its bucket.
///
/// # Errors
///
/// [`Class::NotFound`]; [`Class::Invalid`] when it is none; as reading has them.
pub async fn table_at(depot: &Depot, bucket: &str, key: &str) -> Result<Metadata, Refusal> {
    let bytes = bytes_at(depot, bucket, key).await?;
    let plain = crate::iceberg::plain_metadata(key, bytes).map_err(refused)?;
    Metadata::parse(&plain).map_err(refused)
}

/// The current metadata of a view.
///
/// # Errors
///
/// [`Class::Damaged`] when it is missing, cannot be read, or is another view's.
pub async fn view(depot: &Depot, entry: &ViewEntry) -> Result<View, Refusal> {
    let view =
        view_at(depot, &entry.table_bucket, &entry.metadata_location).await.map_err(as_damage)?;
    if view.uuid().to_string() != entry.view_uuid {
        let at = &entry.metadata_location;
        return Err(
            Class::Damaged.because(format!("the current metadata file {at} is of another view"))
        );
    }
    Ok(view)
}

/// The metadata of a view under a key of its bucket.
///
/// # Errors
///
/// As [`table_at`].
pub async fn view_at(depot: &Depot, bucket: &str, key: &str) -> Result<View, Refusal> {
    let bytes = bytes_at(depot, bucket, key).await?;
    let plain = crate::iceberg::plain_metadata(key, bytes).map_err(refused)?;
    View::parse(&plain).map_err(refused)
}

async fn bytes_at(depot: &Depot, bucket: &str, key: &str) -> Result<Vec<u8>, Refusal> {
    let found = depot.object(bucket, key, METADATA_BYTES_MAX).await?;
    found.ok_or_else(|| Class::NotFound.because(format!("there is no metadata file {key}")))
}

/// What is wrong with a file that must be right is damage; that it cannot be read just now is not.
fn as_damage(refusal: Refusal) -> Refusal {
    match refusal.class {
        Class::Unavailable => refusal,
        _ => refusal.as_class(Class::Damaged),
    }
}
