//! The warehouse prefix index: filling it, and asking it whose a key is.

use std::time::Duration;

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
use crate::protocol::catalog::write::Found;
use crate::protocol::catalog::write::Outcome;
use crate::protocol::catalog::write::Step;
use crate::protocol::catalog::write::Write;

/// How long an S3 request that comes first waits to fill the index: others of the bucket may take long.
const PREPARE_WAIT: Duration = Duration::from_millis(250);

struct Backfill<'a> {
    depot: &'a Depot,
    bucket: &'a str,
    /// What was read, with what was written since: reading all anew for each entry would take for ever.
    known: Option<backfill::Durable>,
}

impl Flow for Backfill<'_> {
    type Durable = backfill::Durable;
    type Answer = Filled;

    async fn read(&mut self) -> Result<backfill::Durable, Refusal> {
        if let Some(known) = &self.known {
            return Ok(known.clone());
        }
        let (depot, bucket) = (self.depot, self.bucket);
        let mut keys = depot.keys(&keys::warehouse_index(bucket)).await?;
        keys.retain(|key| *key != keys::warehouse_index_state(bucket));
        let index =
            depot.read_all(keys, |key, bytes| IndexEntry::decode(bucket, key, bytes)).await?;
        let durable = backfill::Durable {
            fence: fence(depot, bucket).await?,
            tables: tables(depot, bucket).await?,
            index,
            state: state(depot, bucket).await?,
        };
        self.known = Some(durable.clone());
        Ok(durable)
    }

    fn performed(&mut self, write: &Write, outcome: &Outcome) {
        let is_state = write.key == keys::warehouse_index_state(self.bucket);
        let entry = |bytes: &Vec<u8>| IndexEntry::decode(self.bucket, &write.key, bytes).ok();
        match (outcome, &write.contents, &mut self.known) {
            (Outcome::Done(Some(etag)), Some(bytes), Some(known)) if !is_state => {
                known.index.extend(entry(bytes).map(|it| Found::new(it, etag.clone())));
            }
            (Outcome::Done(_), None, Some(known)) => {
                known
                    .index
                    .retain(|it| it.value.key(self.bucket).ok().as_ref() != Some(&write.key));
            }
            // Anything else is read again.
            (_, _, known) => *known = None,
        }
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
    backfill_within(depot, bucket, depot.store().lock_wait()).await
}

async fn backfill_within(depot: &Depot, bucket: &str, wait: Duration) -> Result<Filled, Refusal> {
    let (mut held, store) = (Locks::none(), depot.store());
    let publication = locks::bucket_publication(bucket);
    held.take_within(store, &publication, LockMode::Exclusive, wait).await?;
    if depot.knows_fences() {
        held.take(store, &locks::bucket_fence(bucket), LockMode::Shared).await?;
    }
    flow::perform(depot, &held, &mut Backfill { depot, bucket, known: None }).await
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
    match backfill_within(depot, bucket, PREPARE_WAIT).await {
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
        // What is stale among the index's entries goes when the index is filled the next time, or the prefix is used.
        return match owner::resolve(&facts, bucket, key)? {
            Resolution::Table(table, _) => Ok(Some(table)),
            Resolution::Nobody(_) => Ok(None),
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
    }
    Err(Class::Unavailable.because("whose the key is was not found out"))
}

/// Whether it says nothing about the state itself.
fn is_of_the_server(refusal: &Refusal) -> bool {
    matches!(refusal.class, Class::Unavailable | Class::Unknown)
}
