//! The load of a strong snapshot near its cap: its time, and the memory that it takes.
//!
//! The snapshot, with the fences of a finished migration, is written onto the drives of a stopped node. The first start
//! after it compares what was copied with what is there, as every cut-over does; the starts after that only load it, and
//! are what the goal is about. Each start answers one request that needs the snapshot; one that finds it loaded is
//! taken off.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use tokio::task;
use uuid::Uuid;

use super::Options;
use super::cluster::Cluster;
use super::cluster::Ground;
use super::cluster::NAMESPACE;
use super::cluster::ONE_BY_FOUR;
use super::cluster::at;
use super::cluster::table;
use super::generated::Object;
use super::generated::Still;
use super::generated::etag;
use super::goals::Goal;
use super::goals::Goals;
use crate::harness::operator::catalog::routes::Named;
use crate::harness::runner::bench::Tell;
use crate::harness::runner::bench::numbers::median;
use crate::protocol::catalog::commit_record::CommitRecord;
use crate::protocol::catalog::commit_record::Status;
use crate::protocol::catalog::entry::BucketEntry;
use crate::protocol::catalog::entry::ENTRY_VERSION;
use crate::protocol::catalog::entry::NamespaceEntry;
use crate::protocol::catalog::entry::State;
use crate::protocol::catalog::entry::TABLE_FORMAT;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::fence::RegistryFence;
use crate::protocol::catalog::fingerprint;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::record::compact;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::snapshot::codec;
use crate::protocol::catalog::snapshot::contents::Contents;
use crate::protocol::catalog::snapshot::contents::TableCommits;
use crate::protocol::catalog::strong::hydrate;

const WAREHOUSE: &str = "bench-snapshot";
/// Commits of each table, all with idempotency keys.
const COMMITS: u64 = 100;
/// The size that the goals are about, in bytes: so much and more.
const GOAL_BYTES: usize = 59 << 20;

/// One start.
struct Load {
    seconds: f64,
    /// Memory at its most beside what was resident before, in bytes, and what stays.
    memory: Option<(u64, u64)>,
}

/// Measures all of it.
pub(super) async fn measure(
    options: &Options,
    ground: &Ground<'_>,
    goals: &mut Goals,
    tell: Tell<'_>,
) -> Result<(), String> {
    let bytes = options.snapshot_bytes;
    let made = task::spawn_blocking(move || generate(bytes)).await;
    let made = made.map_err(|error| error.to_string())?.map_err(|refusal| refusal.text)?;
    let mib = made.bytes.len() as f64 / f64::from(1 << 20);
    tell(&format!("Snapshot: {mib:.1} MiB, {} tables of {COMMITS} commits; 1×4.", made.tables));
    let began = Instant::now();
    let read = codec::decode(&made.bytes).map_err(|refusal| refusal.text)?;
    let decoded_s = began.elapsed().as_secs_f64();
    let began = Instant::now();
    let written = codec::encode(&read.contents, read.version).map_err(|refusal| refusal.text)?;
    let encoded_s = began.elapsed().as_secs_f64();
    if written != made.bytes {
        return Err("the snapshot is written otherwise than it was read".to_owned());
    }
    drop((read, written));
    let ms = |seconds: f64| format!("{:.0} ms", seconds * 1e3);
    tell(&format!("  on one core: decoded in {}, encoded in {}", ms(decoded_s), ms(encoded_s)));
    let cluster = ground.cluster(ONE_BY_FOUR).await?;
    let measured = loads(options, &cluster, &made, goals, tell).await;
    cluster.end(measured).await
}

async fn loads(
    options: &Options,
    cluster: &Cluster,
    made: &Made,
    goals: &mut Goals,
    tell: Tell<'_>,
) -> Result<(), String> {
    cluster.warehouse(WAREHOUSE).await?;
    cluster.stop().await?;
    let (roots, parity) = (cluster.roots(), cluster.shape().parity);
    let objects = made.objects();
    let written = task::spawn_blocking(move || write(&roots, parity, &objects));
    written.await.map_err(|error| error.to_string())??;
    cluster.become_strong()?;
    let opening = load(cluster).await?;
    tell(&of_load("the first start, with the comparison of a cut-over", &opening, made));
    let mut all = Vec::new();
    for _ in 0..options.runs {
        all.push(load(cluster).await?);
    }
    let seconds = median(all.iter().map(|load| load.seconds).collect());
    let memory = all.iter().map(|load| load.memory).max().flatten();
    let words = format!("a start, median of {}", options.runs);
    tell(&of_load(&words, &Load { seconds, memory }, made));
    if made.bytes.len() >= GOAL_BYTES {
        goals.set(Goal::SnapshotLoad, seconds);
        let ratio = memory.map(|(most, _)| most as f64 / made.bytes.len() as f64);
        ratio.into_iter().for_each(|ratio| goals.set(Goal::SnapshotMemory, ratio));
    }
    Ok(())
}

fn of_load(words: &str, load: &Load, made: &Made) -> String {
    let ratio = |bytes: u64| bytes as f64 / made.bytes.len().max(1) as f64;
    let memory = match load.memory {
        Some((most, kept)) => {
            format!("at most {:.1} of its size in memory, {:.1} stay", ratio(most), ratio(kept))
        }
        None => "memory is unreadable".to_owned(),
    };
    format!("  {words}: {:.0} ms; {memory}", load.seconds * 1e3)
}

/// Starts the node, and has it load the snapshot.
async fn load(cluster: &Cluster) -> Result<Load, String> {
    cluster.stop().await?;
    cluster.start().await?;
    let outside = cluster.outside()?;
    let before = outside.first().and_then(|node| node.resident_bytes());
    let mut client = cluster.client(0).await?;
    let namespace = [NAMESPACE.to_owned()];
    let name = table(0);
    let ask = at(WAREHOUSE).pointer(Named { namespace: &namespace, name: &name });
    let began = Instant::now();
    client.done(&ask).await?;
    let first_s = began.elapsed().as_secs_f64();
    let now = outside.first().and_then(|node| node.resident_bytes());
    let most = outside.first().and_then(|node| node.resident_bytes_max());
    let began = Instant::now();
    client.done(&ask).await?;
    let again_s = began.elapsed().as_secs_f64();
    let memory = match (before, most, now) {
        (Some(before), Some(most), Some(now)) => {
            Some((most.saturating_sub(before), now.saturating_sub(before)))
        }
        _ => None,
    };
    Ok(Load { seconds: (first_s - again_s).max(0.0), memory })
}

/// A snapshot that a migration has left.
struct Made {
    bytes: Vec<u8>,
    tables: usize,
    fingerprint: String,
}

impl Made {
    /// It and its fences; the bucket's entry is there already.
    fn objects(&self) -> Vec<Object> {
        let (id, etag) = (Uuid::new_v4().to_string(), etag(&self.bytes));
        let fence = BucketFence::preparing(WAREHOUSE, &id, false, None);
        let fence = fence.materialized(&self.fingerprint, &etag);
        let registry = compact(&RegistryFence::new(&id));
        vec![
            Object::system(keys::REGISTRY_FENCE.to_owned(), registry),
            Object::system(keys::bucket_fence(WAREHOUSE), compact(&fence)),
            Object::system(keys::SNAPSHOT.to_owned(), self.bytes.clone()).with(hydrate::EPOCH, "1"),
        ]
    }
}

fn write(roots: &[PathBuf], parity: usize, objects: &[Object]) -> Result<(), String> {
    Still::open(roots, parity)?.write(objects)
}

/// A snapshot of at most so many bytes, and of at least one table.
fn generate(bytes_max: usize) -> Result<Made, Refusal> {
    let namespace = Namespace::from_dotted(NAMESPACE)?;
    let mut contents = Contents::default();
    contents.buckets.insert(WAREHOUSE.to_owned(), Arc::new(BucketEntry::new(WAREHOUSE)));
    let entry = NamespaceEntry::new(WAREHOUSE, &namespace, Default::default());
    contents.namespaces.insert((WAREHOUSE.to_owned(), namespace.clone()), Arc::new(entry));
    let empty = codec::encode(&contents, 1)?.len();
    add(&mut contents, &namespace, 0)?;
    let of_each = codec::encode(&contents, 1)?.len() - empty;
    let tables = (bytes_max.saturating_sub(empty) / (of_each + 2)).max(1);
    for number in 1..tables {
        add(&mut contents, &namespace, number)?;
    }
    let fingerprint = fingerprint::of_bucket(&contents, WAREHOUSE).unwrap_or_default();
    Ok(Made { bytes: codec::encode(&contents, 1)?, tables, fingerprint })
}

/// Adds a table with its commits.
fn add(contents: &mut Contents, namespace: &Namespace, number: usize) -> Result<(), Refusal> {
    let name = Identifier::new(namespace.clone(), &table(number))?;
    let (id, folder) = (Uuid::new_v4().to_string(), keys::table_metadata(&name));
    let mut at = folder.clone() + &keys::first_metadata_file(&id);
    let mut token = keys::version_token(Uuid::new_v4());
    let mut commits = TableCommits::default();
    for generation in 2..=COMMITS + 1 {
        let (commit_id, key) = (Uuid::new_v4().to_string(), Uuid::new_v4().to_string());
        let next_at = folder.clone() + &keys::metadata_file(generation, &commit_id);
        let next_token = keys::version_token(Uuid::new_v4());
        let record = Arc::new(CommitRecord {
            version: ENTRY_VERSION,
            commit_id: commit_id.clone(),
            idempotency_key: Some(key.clone()),
            table_id: id.clone(),
            operation: "append".to_owned(),
            expected_version_token: token,
            new_version_token: next_token.clone(),
            previous_metadata_location: at,
            new_metadata_location: next_at.clone(),
            requirements: Vec::new(),
            status: Status::Committed,
            writer: None,
            created_at: None,
            updated_at: None,
        });
        commits.commits.insert(commit_id, Arc::clone(&record));
        commits.idempotency.insert(key, record);
        (at, token) = (next_at, next_token);
    }
    let entry = TableEntry {
        version: ENTRY_VERSION,
        table_bucket: WAREHOUSE.to_owned(),
        namespace: NAMESPACE.to_owned(),
        table: name.name.clone(),
        table_uuid: Uuid::new_v4().to_string(),
        format: TABLE_FORMAT.to_owned(),
        format_version: 2,
        warehouse_location: format!("s3://{WAREHOUSE}/tables/{id}"),
        metadata_location: at,
        version_token: token,
        generation: COMMITS + 1,
        state: State::Active,
        properties: Default::default(),
        created_at: None,
        updated_at: None,
        table_id: id.clone(),
    };
    contents.tables.insert((WAREHOUSE.to_owned(), name), Arc::new(entry));
    contents.commits.insert((WAREHOUSE.to_owned(), id), Arc::new(commits));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_snapshot_is_whole_and_no_larger_than_asked() {
        let made = generate(1 << 20).expect("it is whole");
        assert!(made.bytes.len() <= 1 << 20, "{} bytes", made.bytes.len());
        let of_each = made.bytes.len() / made.tables;
        assert!(made.bytes.len() + 2 * of_each > 1 << 20, "there is room for {of_each} more");
        for version in [1, 2] {
            let read = codec::decode(&made.bytes).expect("it is whole");
            let bytes = codec::encode(&read.contents, version).expect("it is not too large");
            let again = codec::decode(&bytes).expect("it is whole in either version");
            assert_eq!(again.orphans, 0);
            let found = fingerprint::of_bucket(&again.contents, WAREHOUSE);
            assert_eq!(found.as_deref(), Some(&*made.fingerprint));
        }
    }
}
