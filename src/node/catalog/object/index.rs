//! The warehouse prefix index: filling it, and asking it whose a key is.

use super::fence;
use super::reservation;
use super::tables;
use crate::node::catalog::depot::Depot;
use crate::node::catalog::flow;
use crate::node::catalog::flow::Flow;
use crate::node::catalog::locks;
use crate::node::catalog::locks::Locks;
use crate::node::seams::LockMode;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::object::backfill;
use crate::protocol::catalog::object::backfill::Filled;
use crate::protocol::catalog::object::resolve as owner;
use crate::protocol::catalog::object::resolve::Facts;
use crate::protocol::catalog::object::resolve::Resolution;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::prefix::IndexEntry;
use crate::protocol::catalog::prefix::IndexState;
use crate::protocol::catalog::record::Record as _;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::write::Step;

struct Backfill<'a> {
    depot: &'a Depot,
    bucket: &'a str,
}

impl Flow for Backfill<'_> {
    type Durable = backfill::Durable;
    type Answer = Filled;

    async fn read(&mut self) -> Result<backfill::Durable, Refusal> {
        let (depot, bucket) = (self.depot, self.bucket);
        let mut keys = depot.keys(&keys::warehouse_index(bucket)).await?;
        keys.retain(|key| *key != keys::warehouse_index_state(bucket));
        let index =
            depot.read_all(keys, |key, bytes| IndexEntry::decode(bucket, key, bytes)).await?;
        Ok(backfill::Durable {
            fence: fence(depot, bucket).await?,
            tables: tables(depot, bucket).await?,
            index,
            state: state(depot, bucket).await?,
        })
    }

    fn next(&self, durable: &backfill::Durable) -> Result<Step<Filled>, Refusal> {
        backfill::next(durable, self.bucket)
    }

    fn is_long(&self) -> bool {
        true
    }
}

async fn state(depot: &Depot, bucket: &str) -> Result<Option<IndexState>, Refusal> {
    let decode = |bytes: &[u8]| IndexState::decode(bucket, bytes);
    let found = depot.read_as(&keys::warehouse_index_state(bucket), decode).await?;
    Ok(found.map(|it| it.value))
}

/// Fills the index of a bucket.
///
/// # Errors
///
/// As the flow has them.
pub async fn backfill(depot: &Depot, bucket: &str) -> Result<Filled, Refusal> {
    let (mut held, store) = (Locks::none(), depot.store());
    held.take(store, &locks::bucket_publication(bucket), LockMode::Exclusive).await?;
    held.take(store, &locks::bucket_fence(bucket), LockMode::Shared).await?;
    flow::perform(depot, &held, &mut Backfill { depot, bucket }).await
}

/// Fills the index of a bucket unless it is ready. That a server cannot do it just now is no reason to deny
/// anything: then all tables are looked at.
///
/// # Errors
///
/// What is wrong with the state itself.
pub async fn prepare(depot: &Depot, bucket: &str) -> Result<(), Refusal> {
    if state(depot, bucket).await?.is_some_and(|it| it.is_ready()) {
        return Ok(());
    }
    match backfill(depot, bucket).await {
        Ok(_) => Ok(()),
        Err(error) if is_of_the_server(&error) => {
            tracing::warn!(bucket, %error, "the warehouse index was not filled");
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// The table that owns a key of a table bucket whose index was [prepared](prepare).
///
/// # Errors
///
/// Any: then nobody may touch the key.
pub async fn resolve(
    depot: &Depot,
    bucket: &str,
    key: &str,
) -> Result<Option<Identifier>, Refusal> {
    let entry = depot.record(bucket, &keys::bucket_entry(bucket)).await?;
    let mut facts = Facts {
        bucket: entry.map(|it| it.value),
        state: state(depot, bucket).await?,
        hits: Vec::new(),
        tables: None,
        is_backfill_broken: false,
    };
    for probe in prefix::probes(key) {
        facts.hits.extend(reservation(depot, bucket, probe).await?);
    }
    // All tables are read at most once.
    for _ in 0..3 {
        let (found, stale) = match owner::resolve(&facts, bucket, key)? {
            Resolution::Table(table, stale) => (Some(table), stale),
            Resolution::Nobody(stale) => (None, stale),
            Resolution::Scan => {
                facts.tables = Some(tables(depot, bucket).await?);
                continue;
            }
            // It could not be filled a moment ago.
            Resolution::Backfill => {
                facts.is_backfill_broken = true;
                continue;
            }
        };
        if !stale.is_empty() {
            let (depot, bucket) = (depot.clone(), bucket.to_owned());
            tokio::spawn(async move {
                let mut held = Locks::none();
                let lock = locks::bucket_publication(&bucket);
                if held.take(depot.store(), &lock, LockMode::Exclusive).await.is_err() {
                    return;
                }
                for write in stale {
                    if let Err(error) = depot.perform(&write, &held).await {
                        tracing::warn!(key = write.key, %error, "a stale index entry stays");
                    }
                }
            });
        }
        return Ok(found);
    }
    Err(Class::Unavailable.because("whose the key is was not found out"))
}

/// Whether it says nothing about the state itself.
fn is_of_the_server(refusal: &Refusal) -> bool {
    matches!(refusal.class, Class::Unavailable | Class::Unknown)
}
