//! One backing counts, and nothing is acknowledged by the other.
//!
//! Verified, by the drives: where a durable-strong process has taken over, every bucket with object-backed records has
//! a fence that says MATERIALIZED, its records are still the ones that the fence names, and the snapshot has it. Where
//! none has, no commit is in the snapshot alone. By both: an acknowledged commit to a table that counts is not recorded
//! by the other backing alone.
//!
//! Not verified: what one backing has read while the other one went on.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde::Deserialize;

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::snapshot_equals_source;
use super::tables;
use super::tables::Decoded;
use super::tables::SNAPSHOT;
use super::tables::State;
use crate::harness::audit::census::CatalogCensus;
use crate::harness::workload::history::Outcome;

/// Its name.
pub const NAME: &str = "no_split_brain";

/// The end of the key of a bucket's object-backed entry.
const ENTRY: &str = "/table-bucket.json";

/// What says which bucket a record is of.
#[derive(Debug, Deserialize)]
struct OfBucket {
    table_bucket: String,
}

/// The table buckets of a snapshot.
#[derive(Debug, Deserialize)]
struct Buckets {
    table_buckets: Vec<OfBucket>,
}

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let Some(census) = tables::census(&mut examination, witnesses) else {
        return examination.finish();
    };
    let is_cut_over = tables::is_cut_over(census);
    if is_cut_over {
        left_behind(&mut examination, census);
    }
    let strong = match census.objects.contains_key(SNAPSHOT) {
        true => tables::strong(census).map(Decoded::state),
        false => Ok((Vec::new(), Vec::new())),
    };
    let (strong, objects) = match (strong, tables::objects(census).map(Decoded::state)) {
        (Ok(strong), Ok(objects)) => (strong, objects),
        (Err(message), _) | (_, Err(message)) => {
            let found = Found::undecided("catalog_does_not_decode", message);
            examination.found(found.shown_in("census.json"));
            return examination.finish();
        }
    };
    let (counts, other) = if is_cut_over { (strong, objects) } else { (objects, strong) };
    if !is_cut_over {
        alone(&mut examination, &counts, &other);
    }
    let elsewhere = elsewhere(&counts, &other);
    for tried in tables::attempts(witnesses.history).values() {
        examination.examined();
        let id = tried.commit.commit_id.as_str();
        if tried.outcome() == Outcome::Acknowledged && elsewhere.contains(id) {
            let message = format!(
                "commit {id} to {} was acknowledged by the backing that does not count",
                tried.table
            );
            let found = Found::fail("commit_in_the_other_backing", message);
            examination.found(tried.show(found).shown_in("census.json"));
        }
    }
    examination.finish()
}

/// Buckets whose object-backed records are not what a durable-strong process has taken over.
fn left_behind(examination: &mut Examination, census: &CatalogCensus) {
    let mut fenced = BTreeSet::new();
    for (key, fence) in snapshot_equals_source::fences(census) {
        let Some(fence) = fence.filter(snapshot_equals_source::Fence::is_materialized) else {
            continue;
        };
        examination.examined();
        let source = snapshot_equals_source::source_of(census, key, &fence);
        let named = fence.source_fingerprint.as_deref().unwrap_or("none");
        if source != named {
            let bucket = &fence.table_bucket;
            let message = format!(
                "the records of {bucket} are {source} since it was taken over, its fence names {named}"
            );
            let found = Found::fail("left_backing_changed", message);
            examination.found(found.shown_in(key).shown_in("census.json"));
        }
        fenced.insert(fence.table_bucket);
    }
    let snapshot = census.objects.get(SNAPSHOT).and_then(|it| serde_json::from_str(it).ok());
    let taken: BTreeSet<String> = snapshot
        .map(|it: Buckets| it.table_buckets.into_iter().map(|bucket| bucket.table_bucket).collect())
        .unwrap_or_default();
    for (key, text) in census.objects.iter().filter(|(key, _)| key.ends_with(ENTRY)) {
        let Ok(OfBucket { table_bucket: bucket }) = serde_json::from_str(text) else { continue };
        examination.examined();
        if !fenced.contains(&bucket) || !taken.contains(&bucket) {
            let message = format!(
                "bucket {bucket} has object-backed records, and was not migrated before the takeover"
            );
            let found = Found::fail("bucket_left_behind", message);
            examination.found(found.shown_in(&**key).shown_in(SNAPSHOT));
        }
    }
}

/// Commits of a snapshot that does not count, which the records that count do not have.
fn alone(examination: &mut Examination, counts: &State, other: &State) {
    let known: BTreeSet<&str> = counts.1.iter().map(|it| it.commit_id.as_str()).collect();
    for logged in &other.1 {
        examination.examined();
        if !known.contains(logged.commit_id.as_str()) {
            let id = &logged.commit_id;
            let message = format!("commit {id} is in the strong snapshot, which does not count");
            let found = Found::fail("commit_in_the_other_backing", message);
            examination.found(found.shown_in(SNAPSHOT));
        }
    }
}

/// Commits, to tables that count, that the backing which does not count has recorded as committed, and the one that
/// counts has not.
fn elsewhere<'a>(counts: &'a State, other: &'a State) -> BTreeSet<&'a str> {
    let mut known = BTreeMap::<&str, BTreeSet<&str>>::new();
    for table in &counts.0 {
        known.entry(&table.table_id).or_default();
    }
    for logged in &counts.1 {
        known.entry(&logged.table_id).or_default().insert(&logged.commit_id);
    }
    let is_unknown = |logged: &&super::tables::Logged| {
        let of_table = known.get(logged.table_id.as_str());
        logged.status == "COMMITTED"
            && of_table.is_some_and(|known| !known.contains(logged.commit_id.as_str()))
    };
    other.1.iter().filter(is_unknown).map(|it| it.commit_id.as_str()).collect()
}
