//! What a migration takes by the number of tables, and what it takes to make them.
//!
//! Some are created through the wire on three nodes, one after the other; more are written onto the drives of one
//! node. After each migration it is cancelled, so that the next one finds no snapshot.

use std::path::PathBuf;
use std::time::Duration;
use std::time::Instant;

use serde_json::Value;
use serde_json::json;
use tokio::task;
use uuid::Uuid;

use super::Options;
use super::cluster::Client;
use super::cluster::Cluster;
use super::cluster::Ground;
use super::cluster::NAMESPACE;
use super::cluster::ONE_BY_FOUR;
use super::cluster::THREE_BY_FOUR;
use super::cluster::at;
use super::cluster::table;
use super::generated::Object;
use super::generated::Still;
use super::goals::Goal;
use super::goals::Goals;
use crate::harness::operator::catalog::ask::Told;
use crate::harness::runner::bench::Tell;
use crate::harness::runner::bench::numbers::median;
use crate::protocol::catalog::entry::ENTRY_VERSION;
use crate::protocol::catalog::entry::State;
use crate::protocol::catalog::entry::TABLE_FORMAT;
use crate::protocol::catalog::entry::TableEntry;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::prefix::IndexEntry;
use crate::protocol::catalog::record::Record as _;
use crate::protocol::catalog::refusal::Refusal;

/// The creation that others are compared with.
const EARLY: usize = 10;
/// Creations on either side of the one that is told, whose middle is taken.
const AROUND: usize = 4;
/// The numbers of tables that the goals are about.
const CREATED: usize = 1_000;
const RESTORED: (usize, usize) = (1_000, 10_000);

/// What a migration took.
struct Moved {
    preflight_s: f64,
    migration_s: f64,
}

/// Measures all of it.
pub(super) async fn measure(
    options: &Options,
    ground: &Ground<'_>,
    goals: &mut Goals,
    tell: Tell<'_>,
) -> Result<(), String> {
    tell(&format!("Migrations: preflights are medians of {}.", options.runs));
    tell(
        "| tables | made | last creation to the 10th | preflight ms | µs a table | migration ms | µs a table |",
    );
    tell("|--:|---|--:|--:|--:|--:|--:|");
    if !options.created.is_empty() {
        let cluster = ground.cluster(THREE_BY_FOUR).await?;
        let measured = created(options, &cluster, goals, tell).await;
        cluster.end(measured).await?;
    }
    if !options.restored.is_empty() {
        let cluster = ground.cluster(ONE_BY_FOUR).await?;
        let measured = restored(options, &cluster, goals, tell).await;
        cluster.end(measured).await?;
    }
    Ok(())
}

async fn created(
    options: &Options,
    cluster: &Cluster,
    goals: &mut Goals,
    tell: Tell<'_>,
) -> Result<(), String> {
    for &tables in &options.created {
        let warehouse = format!("bench-created-{tables}");
        cluster.warehouse(&warehouse).await?;
        let mut client = cluster.client(0).await?;
        let (began, mut took) = (Instant::now(), Vec::new());
        for number in 0..tables {
            let began = Instant::now();
            client.create(&warehouse, &table(number)).await?;
            took.push(began.elapsed());
        }
        let all_s = began.elapsed().as_secs_f64();
        let ratio = growth(&took);
        if tables == CREATED {
            goals.set(Goal::Created, all_s);
            ratio.into_iter().for_each(|ratio| goals.set(Goal::LastCreate, ratio));
        }
        let moved = moved(options, &mut client, &warehouse, tables).await?;
        tell(&row(tables, &format!("through the API on 3×4 in {all_s:.1} s"), ratio, &moved));
    }
    Ok(())
}

/// How much longer the last creation took than the 10th: medians of the creations around them.
fn growth(took: &[Duration]) -> Option<f64> {
    let middle = |around: &[Duration]| median(around.iter().map(Duration::as_secs_f64).collect());
    let early = took.get(EARLY - 1 - AROUND..EARLY + AROUND)?;
    let late = took.get(took.len() - (2 * AROUND + 1)..)?;
    (took.len() >= EARLY + AROUND + early.len()).then(|| middle(late) / middle(early).max(1e-9))
}

async fn restored(
    options: &Options,
    cluster: &Cluster,
    goals: &mut Goals,
    tell: Tell<'_>,
) -> Result<(), String> {
    let mut shares = Vec::new();
    for &tables in &options.restored {
        let warehouse = format!("bench-restored-{tables}");
        cluster.warehouse(&warehouse).await?;
        let mut client = cluster.client(0).await?;
        let first = client.create(&warehouse, &table(0)).await?;
        let began = Instant::now();
        cluster.stop().await?;
        let (roots, parity) = (cluster.roots(), cluster.shape().parity);
        let of = warehouse.clone();
        let written = task::spawn_blocking(move || write(&roots, parity, &of, &first, tables));
        written.await.map_err(|error| error.to_string())??;
        cluster.start().await?;
        let all_s = began.elapsed().as_secs_f64();
        let mut client = cluster.client(0).await?;
        let moved = moved(options, &mut client, &warehouse, tables).await?;
        tell(&row(tables, &format!("onto the drives of 1×4 in {all_s:.1} s"), None, &moved));
        shares.push((tables, moved));
    }
    let share = |tables: usize| {
        let found = shares.iter().find(|(of, _)| *of == tables)?;
        let of_each = |all_s: f64| all_s / tables as f64;
        Some((of_each(found.1.preflight_s), of_each(found.1.migration_s)))
    };
    if let (Some(few), Some(many)) = (share(RESTORED.0), share(RESTORED.1)) {
        goals.set(Goal::Preflight, many.0 / few.0.max(1e-12));
        goals.set(Goal::Migration, many.1 / few.1.max(1e-12));
    }
    Ok(())
}

/// Fills the index, asks for preflights, migrates, and cancels.
async fn moved(
    options: &Options,
    client: &mut Client,
    warehouse: &str,
    tables: usize,
) -> Result<Moved, String> {
    let at = at(warehouse);
    client.patiently(&at.backfill()).await?;
    let mut preflights = Vec::new();
    for _ in 0..options.runs {
        let began = Instant::now();
        let told = client.done(&at.preflight()).await?;
        preflights.push(began.elapsed().as_secs_f64());
        said(&told, "READY_TO_SNAPSHOT", tables)?;
    }
    let began = Instant::now();
    let told = client.done(&at.migrate()).await?;
    let migration_s = began.elapsed().as_secs_f64();
    said(&told, "SNAPSHOT_MATERIALIZED", tables)?;
    client.done(&at.cancel()).await?;
    Ok(Moved { preflight_s: median(preflights), migration_s })
}

/// Whether an answer is about all the tables, and says what it has to.
fn said(told: &Told, status: &str, tables: usize) -> Result<(), String> {
    let (found, count) = (&told.body["status"], &told.body["table_count"]);
    if found == status && *count == json!(tables) {
        return Ok(());
    }
    Err(format!("{found} of {count} tables, where {status} of {tables} was due: {}", told.body))
}

fn row(tables: usize, made: &str, ratio: Option<f64>, moved: &Moved) -> String {
    let ratio = ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
    let Moved { preflight_s, migration_s } = moved;
    let of_each = |all_s: f64| 1e6 * all_s / tables.max(1) as f64;
    format!(
        "| {tables} | {made} | {ratio} | {:.1} | {:.0} | {:.1} | {:.0} |",
        preflight_s * 1e3,
        of_each(*preflight_s),
        migration_s * 1e3,
        of_each(*migration_s),
    )
}

/// Writes all but the first table, whose creation was answered with `first`: entries, index, metadata files.
fn write(
    roots: &[PathBuf],
    parity: usize,
    warehouse: &str,
    first: &Told,
    tables: usize,
) -> Result<(), String> {
    let still = Still::open(roots, parity)?;
    let mut objects = Vec::new();
    for number in 1..tables {
        let made = of_table(warehouse, &table(number), &first.body["metadata"]);
        objects.extend(made.map_err(|refusal| refusal.text)?);
    }
    still.write(&objects)
}

/// What lies on drives of a table that has just been created; its metadata is a copy of `template`.
fn of_table(warehouse: &str, name: &str, template: &Value) -> Result<[Object; 3], Refusal> {
    let (id, uuid) = (Uuid::new_v4().to_string(), Uuid::new_v4().to_string());
    let name = Identifier::new(Namespace::from_dotted(NAMESPACE)?, name)?;
    let location = format!("s3://{warehouse}/tables/{id}");
    let prefix = prefix::of_new_table(warehouse, &location)?;
    let mut metadata = template.clone();
    metadata["table-uuid"] = json!(uuid);
    metadata["location"] = json!(location);
    let entry = TableEntry {
        version: ENTRY_VERSION,
        table_bucket: warehouse.to_owned(),
        namespace: NAMESPACE.to_owned(),
        table: name.name.clone(),
        table_uuid: uuid,
        format: TABLE_FORMAT.to_owned(),
        format_version: 2,
        warehouse_location: location,
        metadata_location: keys::table_metadata(&name) + &keys::first_metadata_file(&id),
        version_token: keys::version_token(Uuid::new_v4()),
        generation: 1,
        state: State::Active,
        properties: Default::default(),
        created_at: None,
        updated_at: None,
        table_id: id,
    };
    let index = IndexEntry::new(&entry, &prefix);
    let file = metadata.to_string().into_bytes();
    Ok([
        Object::of(warehouse, entry.metadata_location.clone(), file),
        Object::system(index.key(warehouse)?, index.encode()),
        Object::system(entry.key(warehouse)?, entry.encode()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn creations_grow_by_the_middle_of_the_last_to_that_of_the_tenth() {
        let mut took = vec![Duration::from_millis(10); 100];
        took.iter_mut().skip(90).for_each(|it| *it = Duration::from_millis(15));
        took[99] = Duration::from_secs(1);
        assert!(growth(&took).is_some_and(|ratio| (1.49..1.51).contains(&ratio)));
        assert_eq!(growth(&took[..10]), None, "the tenth is the last");
    }

    #[test]
    fn an_answer_about_other_tables_is_no_figure() {
        let ask = at("lake").preflight();
        let body = json!({ "status": "READY_TO_SNAPSHOT", "table_count": 9 });
        let told = Told::answered(&ask, 200, body);
        assert!(said(&told, "READY_TO_SNAPSHOT", 9).is_ok());
        assert!(said(&told, "READY_TO_SNAPSHOT", 10).is_err());
        assert!(said(&told, "SNAPSHOT_MATERIALIZED", 9).is_err());
    }
}
