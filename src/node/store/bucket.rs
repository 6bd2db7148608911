//! Buckets: directories on all drives, and a record in the system volume that decides whether there is one.
//!
//! A record without directories is a bucket whose directories are made again when they are missed;
//! directories without a record are a bucket of another server when a majority has them. What is older than
//! the bucket's record belongs to an earlier bucket of the same name and is never seen.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;

use super::Store;
use super::api::BucketDocument;
use super::api::BucketInfo;
use super::api::StoreError;
use super::calls::Answer;
use super::calls::Held;
use super::calls::bucket_resource;
use super::calls::now_ns;
use super::copies::Copies;
use super::delete;
use super::heal;
use super::heal::Unfinished;
use super::list;
use super::multipart;
use super::put;
use super::remembered::Change;
use crate::disk::drive::DriveError;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::disk::format::bucket;
use crate::disk::format::bucket::BucketMetadata;
use crate::disk::layout;
use crate::node::seams::LockMode;
use crate::protocol::object::effect::BucketState;
use crate::value::ObjectKey;

/// A bucket that is there.
#[derive(Debug, Clone)]
pub(super) struct Bucket {
    pub(super) name: String,
    pub(super) created_ns: i64,
    pub(super) state: BucketState,
    /// Its record; a bucket of another server may have none.
    pub(super) record: Option<Arc<BucketMetadata>>,
}

impl Bucket {
    /// What is not younger than this belongs to an earlier bucket.
    pub(super) fn since_ns(&self) -> i64 {
        self.record.as_ref().map_or(0, |record| record.created_ns)
    }

    fn info(self) -> BucketInfo {
        let document = |key| self.record.as_ref().map_or_else(Vec::new, |it| it.document(key));
        BucketInfo {
            policy: document(bucket::POLICY),
            tags: document(bucket::TAGS),
            acl: document(bucket::ACL),
            tables: document(bucket::TABLES),
            name: self.name,
            created_ns: self.created_ns,
            state: self.state,
        }
    }
}

/// Where a bucket's record lies.
pub(super) fn record_key(bucket: &str) -> ObjectKey {
    ObjectKey { bucket: layout::SYSTEM.to_owned(), key: format!("buckets/{bucket}/.metadata.bin") }
}

impl Store {
    /// The bucket, or `NoSuchBucket`.
    pub(super) async fn bucket_of(self: &Arc<Self>, name: &str) -> Result<Bucket, StoreError> {
        let no_such = || StoreError::NoSuchBucket(name.to_owned());
        layout::check_bucket(name).map_err(|_| no_such())?;
        let moment = match self.buckets.recall(name) {
            Ok(bucket) => return Ok(bucket),
            Err(moment) => moment,
        };
        if let Some(record) = self.bucket_record(name).await? {
            let bucket = Bucket {
                name: name.to_owned(),
                created_ns: record.created_ns,
                state: record.versioning(),
                record: Some(Arc::new(record)),
            };
            self.buckets.keep(&bucket, moment);
            return Ok(bucket);
        }
        // Every set has every bucket; one set's majority answers for all.
        let answers = self.ask_all(0, &DriveRequest::ListBuckets).await;
        match directories(&answers, name) {
            (have, _, changed_ns) if have >= self.majority() => Ok(Bucket {
                name: name.to_owned(),
                created_ns: changed_ns,
                state: BucketState::Unversioned,
                record: None,
            }),
            (have, lack, _) if lack >= self.set_drives() + 1 - self.majority() => {
                let _ = have;
                Err(no_such())
            }
            (able, _, _) => {
                let (needed, why) = (self.majority(), super::calls::first_error(&answers));
                Err(StoreError::NoQuorum {
                    what: "say whether the bucket is there",
                    able,
                    needed,
                    why,
                })
            }
        }
    }

    /// A bucket's record.
    async fn bucket_record(
        self: &Arc<Self>,
        name: &str,
    ) -> Result<Option<BucketMetadata>, StoreError> {
        let target = record_key(name);
        let Some(found) = self.system_object(&target).await? else { return Ok(None) };
        let record = BucketMetadata::parse(&found.contents)
            .map_err(|error| StoreError::Unreadable { target, why: error.to_string() })?;
        Ok(Some(record))
    }

    /// Makes the bucket's directory on those drives that were found to lack it, if there still is the bucket.
    pub(super) async fn remake_bucket(self: &Arc<Self>, copies: &Copies) -> Result<(), StoreError> {
        let bucket = &copies.target.bucket;
        let lacks = |slot: &usize| {
            let copy = &copies.copies[*slot];
            copy.meta().is_some() && !copy.bucket
        };
        let slots: Vec<usize> = (0..copies.copies.len()).filter(lacks).collect();
        if slots.is_empty() || bucket == layout::SYSTEM {
            return Ok(());
        }
        let lock = self.lock(&bucket_resource(bucket), LockMode::Exclusive).await?;
        self.bucket_of(bucket).await?;
        let make = DriveRequest::MakeBucket { grant: lock.grant(), bucket: bucket.clone() };
        self.ask(copies.set, slots.into_iter().map(|slot| (slot, make.clone()))).await;
        Ok(())
    }

    /// Asks every drive of every set the same; answers by set.
    async fn ask_everywhere(&self, request: &DriveRequest) -> Vec<Vec<Answer>> {
        let sets = (0..self.sets()).map(|set| self.ask_all(set, request));
        futures::future::join_all(sets).await
    }

    /// Notes that a bucket's directory is to follow on the drives that did not answer.
    async fn note_bucket(&self, bucket: &str, answers: &[Vec<Answer>]) {
        for (set, answers) in answers.iter().enumerate() {
            let took: Vec<usize> = super::rebuild::successes(answers);
            if took.len() < answers.len() {
                let work = Unfinished::Bucket { bucket: bucket.to_owned() };
                heal::enqueue(self, set, &took, work).await;
            }
        }
    }
}

/// Drives that have a bucket's directory, drives that lack it, and the oldest change of one.
fn directories(answers: &[Answer], name: &str) -> (usize, usize, i64) {
    let (mut have, mut lack, mut changed_ns) = (0, 0, i64::MAX);
    for (_, answer) in answers {
        let Ok(DriveReply::Buckets(buckets)) = answer else { continue };
        match buckets.iter().find(|bucket| bucket.name == name) {
            Some(bucket) => {
                have += 1;
                changed_ns = changed_ns.min(bucket.changed_ns);
            }
            None => lack += 1,
        }
    }
    (have, lack, changed_ns)
}

fn successes(answers: &[Answer]) -> usize {
    answers.iter().filter(|(_, answer)| answer.is_ok()).count()
}

/// Makes a bucket.
pub(super) async fn create(store: &Arc<Store>, name: &str, acl: Vec<u8>) -> Result<(), StoreError> {
    layout::check_bucket(name)?;
    let (store, name) = (Arc::clone(store), name.to_owned());
    finish(tokio::spawn(async move { create_locked(&store, &name, &acl).await })).await
}

async fn create_locked(store: &Arc<Store>, name: &str, acl: &[u8]) -> Result<(), StoreError> {
    let lock = store.lock(&bucket_resource(name), LockMode::Exclusive).await?;
    let change = store.buckets.change(name);
    let result = create_under(store, name, acl, &lock).await;
    settled(change, &result);
    result
}

/// Ends a change of a bucket, whose effect is known or not.
fn settled(change: Change<'_>, result: &Result<(), StoreError>) {
    let is_certain = |error: &StoreError| error.effect() == crate::disk::drive::Effect::None;
    if result.as_ref().err().is_none_or(is_certain) {
        change.certain();
    }
}

async fn create_under(
    store: &Arc<Store>,
    name: &str,
    acl: &[u8],
    lock: &Held,
) -> Result<(), StoreError> {
    match store.bucket_of(name).await {
        Err(StoreError::NoSuchBucket(_)) => {}
        Err(error) => return Err(error),
        // Directories without a record and without a key: somebody began to make it and did not end.
        Ok(bucket) if bucket.record.is_none() && list::is_empty(store, &bucket).await? => {}
        Ok(_) => return Err(StoreError::BucketExists(name.to_owned())),
    }
    let make = DriveRequest::MakeBucket { grant: lock.grant(), bucket: name.to_owned() };
    let answers = store.ask_everywhere(&make).await;
    let needed = store.needed(store.majority());
    if let Some(few) = answers.iter().find(|answers| successes(answers) < needed) {
        let remove = DriveRequest::RemoveBucket { grant: lock.grant(), bucket: name.to_owned() };
        store.ask_everywhere(&remove).await;
        let (able, why) = (successes(few), super::calls::first_error(few));
        return Err(StoreError::NoQuorum { what: "make the bucket", able, needed, why });
    }
    let mut record = BucketMetadata::new(name, now_ns());
    if !acl.is_empty() {
        record.set_document(bucket::ACL, acl, record.created_ns);
    }
    if let Err(error) = put::put_record(store, &record_key(name), &record.encode()).await {
        if error.effect() == crate::disk::drive::Effect::None {
            let remove =
                DriveRequest::RemoveBucket { grant: lock.grant(), bucket: name.to_owned() };
            store.ask_everywhere(&remove).await;
        }
        return Err(error);
    }
    store.note_bucket(name, &answers).await;
    Ok(())
}

/// Removes an empty bucket.
pub(super) async fn delete(store: &Arc<Store>, name: &str) -> Result<(), StoreError> {
    let (store, name) = (Arc::clone(store), name.to_owned());
    finish(tokio::spawn(async move { delete_locked(&store, &name).await })).await
}

async fn delete_locked(store: &Arc<Store>, name: &str) -> Result<(), StoreError> {
    let lock = store.lock(&bucket_resource(name), LockMode::Exclusive).await?;
    let change = store.buckets.change(name);
    let result = delete_under(store, name, &lock).await;
    settled(change, &result);
    result
}

async fn delete_under(store: &Arc<Store>, name: &str, lock: &Held) -> Result<(), StoreError> {
    let bucket = store.bucket_of(name).await?;
    if !list::is_empty(store, &bucket).await? {
        return Err(StoreError::BucketNotEmpty(name.to_owned()));
    }
    // The directories go first: each drive refuses while a key lies in it, and takes none afterwards, so
    // that no write can slip in between.
    let grant = lock.grant();
    let remove = DriveRequest::RemoveBucket { grant: grant.clone(), bucket: name.to_owned() };
    let answers = store.ask_everywhere(&remove).await;
    let needed = store.needed(store.majority());
    if let Some(few) = answers.iter().find(|answers| successes(answers) < needed) {
        let make = DriveRequest::MakeBucket { grant, bucket: name.to_owned() };
        store.ask_everywhere(&make).await;
        let is_full =
            |(_, answer): &Answer| matches!(answer, Err(DriveError::BucketNotEmpty { .. }));
        if few.iter().any(is_full) {
            return Err(StoreError::BucketNotEmpty(name.to_owned()));
        }
        let (able, why) = (successes(few), super::calls::first_error(few));
        return Err(StoreError::NoQuorum { what: "remove the bucket", able, needed, why });
    }
    if bucket.record.is_some()
        && let Err(error) = delete::delete_record(store, &record_key(name)).await
    {
        if error.effect() == crate::disk::drive::Effect::None {
            let make = DriveRequest::MakeBucket { grant, bucket: name.to_owned() };
            store.ask_everywhere(&make).await;
        }
        return Err(error);
    }
    store.note_bucket(name, &answers).await;
    multipart::forget_bucket(store, name).await;
    Ok(())
}

/// What a bucket is.
pub(super) async fn info(store: &Arc<Store>, name: &str) -> Result<BucketInfo, StoreError> {
    store.bucket_of(name).await.map(Bucket::info)
}

/// All buckets, by name.
pub(super) async fn list_all(store: &Arc<Store>) -> Result<Vec<BucketInfo>, StoreError> {
    const AT_ONCE: usize = 16;
    let answers = store.ask_all(0, &DriveRequest::ListBuckets).await;
    let (able, needed) = (successes(&answers), store.majority());
    if able < needed {
        let why = super::calls::first_error(&answers);
        return Err(StoreError::NoQuorum { what: "list their buckets", able, needed, why });
    }
    let mut names = BTreeSet::new();
    for (_, answer) in &answers {
        if let Ok(DriveReply::Buckets(buckets)) = answer {
            names.extend(buckets.iter().map(|bucket| bucket.name.clone()));
        }
    }
    let each = names.into_iter().map(|name| async move { store.bucket_of(&name).await });
    let found: Vec<_> = stream::iter(each).buffered(AT_ONCE).collect().await;
    let mut buckets = Vec::new();
    for bucket in found {
        match bucket {
            Ok(bucket) => buckets.push(bucket.info()),
            Err(StoreError::NoSuchBucket(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(buckets)
}

/// Switches versioning on or suspends it.
pub(super) async fn set_versioning(
    store: &Arc<Store>,
    name: &str,
    state: BucketState,
) -> Result<(), StoreError> {
    if state == BucketState::Unversioned {
        let why = "versioning that was ever switched on can only be suspended";
        return Err(StoreError::InvalidRequest(why.to_owned()));
    }
    change(store, name, move |record| record.set_versioning(state, now_ns())).await
}

/// Replaces one of a bucket's documents; an empty one takes it away.
pub(super) async fn set_document(
    store: &Arc<Store>,
    name: &str,
    document: BucketDocument,
    contents: Vec<u8>,
) -> Result<(), StoreError> {
    let key = match document {
        BucketDocument::Policy => bucket::POLICY,
        BucketDocument::Tags => bucket::TAGS,
        BucketDocument::Acl => bucket::ACL,
        BucketDocument::Tables => bucket::TABLES,
    };
    change(store, name, move |record| record.set_document(key, &contents, now_ns())).await
}

/// Changes a bucket's record, under its lock. Goes on to its end even when the caller goes away.
async fn change(
    store: &Arc<Store>,
    name: &str,
    change: impl FnOnce(&mut BucketMetadata) + Send + 'static,
) -> Result<(), StoreError> {
    let (store, name) = (Arc::clone(store), name.to_owned());
    finish(tokio::spawn(async move {
        let lock = store.lock(&bucket_resource(&name), LockMode::Exclusive).await?;
        let changing = store.buckets.change(&name);
        let bucket = store.bucket_of(&name).await;
        let result = match bucket {
            Ok(bucket) => {
                let mut record = match bucket.record {
                    Some(record) => Arc::unwrap_or_clone(record),
                    None => BucketMetadata::new(&name, 0),
                };
                change(&mut record);
                put::put_record(&store, &record_key(&name), &record.encode()).await
            }
            Err(error) => Err(error),
        };
        settled(changing, &result);
        drop(lock);
        result
    }))
    .await
}

async fn finish(task: tokio::task::JoinHandle<Result<(), StoreError>>) -> Result<(), StoreError> {
    task.await.unwrap_or_else(|error| {
        let target = ObjectKey { bucket: layout::SYSTEM.to_owned(), key: "buckets".to_owned() };
        Err(StoreError::Unknown { target, why: error.to_string() })
    })
}
