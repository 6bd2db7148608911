//! Changes of object-backed state: each reads its records, takes its locks, and performs a flow of the protocol.
//!
//! Locks are taken in one order: bucket publication, registry, bucket fence, publications of tables and views. Whatever
//! makes or drops a name holds the bucket's publication alone, so that nobody else decides about names meanwhile.

mod commit;
mod ddl;
mod index;
mod repair;
mod views;

pub use commit::commit;
pub use ddl::create_namespace;
pub use ddl::create_table;
pub use ddl::drop_namespace;
pub use ddl::drop_table;
pub use ddl::enable;
pub use index::backfill;
pub use index::prepare;
pub use index::resolve;
pub use repair::records_of;
pub use repair::recover;
pub use views::drop_view;
pub use views::put_view;

use super::depot::Depot;
use super::listed::Listed;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::fence::RegistryFence;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::object::create::Home;
use crate::protocol::catalog::object::reservation::Reservation;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::prefix::IndexEntry;
use crate::protocol::catalog::refusal::Refusal;

/// The fence of a bucket, if it is there.
///
/// # Errors
///
/// As reading and decoding have them.
pub async fn fence(depot: &Depot, bucket: &str) -> Result<Option<BucketFence>, Refusal> {
    if !depot.heeds_fences() {
        return Ok(None);
    }
    let decode = |bytes: &[u8]| BucketFence::decode(bucket, bytes);
    let found = depot.read_as(&keys::bucket_fence(bucket), decode).await?;
    Ok(found.map(|it| it.value))
}

/// The registry fence, if it is there.
///
/// # Errors
///
/// As reading and decoding have them.
pub async fn registry_fence(depot: &Depot) -> Result<Option<RegistryFence>, Refusal> {
    if !depot.heeds_fences() {
        return Ok(None);
    }
    let found = depot.read_as(keys::REGISTRY_FENCE, RegistryFence::decode).await?;
    Ok(found.map(|it| it.value))
}

/// The reservation of a prefix, with the table that it names.
async fn reservation(
    depot: &Depot,
    bucket: &str,
    prefix: &str,
) -> Result<Option<Reservation>, Refusal> {
    let key = keys::warehouse_index_entry(bucket, prefix);
    let Some(entry) = depot.record::<IndexEntry>(bucket, &key).await? else { return Ok(None) };
    let owner = keys::table_entry(bucket, &entry.value.identifier()?);
    let owner = depot.record::<TableEntry>(bucket, &owner).await?.map(|it| it.value);
    Ok(Some(Reservation { entry, owner }))
}

/// All tables of a bucket, whatever their state.
async fn tables(depot: &Depot, bucket: &str) -> Result<Vec<TableEntry>, Refusal> {
    let listed = Listed::of(depot, bucket, None).await?;
    listed.tables(depot, bucket).await
}

/// Another active table than `id` whose prefix overlaps.
///
/// A location that the catalog chose itself ends in a fresh id: below it there is nothing, so that looking at the
/// prefixes above it is enough.
async fn overlapping(
    depot: &Depot,
    bucket: &str,
    prefix: &str,
    id: &str,
) -> Result<Option<Identifier>, Refusal> {
    if prefix == format!("tables/{id}/") {
        for probe in prefix::probes(prefix).into_iter().skip(1) {
            if let Some(found) = reservation(depot, bucket, probe).await?
                && found.is_kept()
            {
                return Ok(Some(found.entry.value.identifier()?));
            }
        }
        return Ok(None);
    }
    for table in tables(depot, bucket).await? {
        if !table.is_active() || table.table_id == id {
            continue;
        }
        let other = prefix::of_table(bucket, &table.warehouse_location);
        if other.is_ok_and(|other| prefix::overlap(&other, prefix)) {
            return Ok(Some(table.identifier()?));
        }
    }
    Ok(None)
}

/// Bucket and namespace of something new.
async fn home(depot: &Depot, bucket: &str, namespace: &Namespace) -> Result<Home, Refusal> {
    let entry = depot.record(bucket, &keys::bucket_entry(bucket)).await?;
    let key = keys::namespace_entry(bucket, namespace);
    let explicit = depot.record::<NamespaceEntry>(bucket, &key).await?.map(|it| it.value);
    let is_implicit = match &explicit {
        Some(_) => false,
        None => {
            let below = Listed::of(depot, bucket, Some(namespace)).await?;
            below.live_namespaces(depot, bucket).await?.contains_key(namespace)
        }
    };
    Ok(Home { bucket: entry.map(|it| it.value), namespace: explicit, is_implicit })
}

/// Whether a metadata file of a table bucket is there.
async fn has_object(depot: &Depot, bucket: &str, key: &str) -> Result<bool, Refusal> {
    Ok(depot.length(bucket, key).await?.is_some())
}
