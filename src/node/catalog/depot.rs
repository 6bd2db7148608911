//! Where the catalog's records lie: objects of the system volume, compared by their ETags.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream;

use super::locks::Locks;
use crate::node::s3::rights::FRESH;
use crate::node::seams::BoxFuture;
use crate::node::store::Store;
use crate::node::store::api::BucketDocument;
use crate::node::store::api::Metadata;
use crate::node::store::api::PutRequest;
use crate::node::store::api::ReadRequest;
use crate::node::store::api::StoreError;
use crate::node::store::system::SystemObject;
use crate::node::store::system::SystemStat;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::object::bucket;
use crate::protocol::catalog::record::Record;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::snapshot::codec::SNAPSHOT_VERSION_MAX;
use crate::protocol::catalog::write::Found;
use crate::protocol::catalog::write::Outcome;
use crate::protocol::catalog::write::Place;
use crate::protocol::catalog::write::When;
use crate::protocol::catalog::write::Write;
use crate::protocol::config::CatalogRelease;
use crate::protocol::crash_point::CrashPoint;
use crate::protocol::object::condition::Conditions;
use crate::protocol::object::condition::Tags;
use crate::value::ObjectKey;

/// Records that are read at once.
const AT_ONCE: usize = 32;

/// Records that were read, by their keys.
pub type Kept<T> = BTreeMap<String, Found<T>>;

/// Reads and writes what the catalog keeps. Cheap to clone.
#[derive(Clone)]
pub struct Depot {
    store: Arc<Store>,
    release: CatalogRelease,
}

impl Depot {
    /// Over this store, as this release.
    pub fn new(store: Arc<Store>, release: CatalogRelease) -> Self {
        Self { store, release }
    }

    /// Whether the release knows the fences of migrations.
    pub fn knows_fences(&self) -> bool {
        self.release != CatalogRelease::WithoutFences
    }

    /// Whether changes look for them.
    pub fn heeds_fences(&self) -> bool {
        self.knows_fences() && self.store.heeds_fences()
    }

    /// Whether the release keeps a table and a view from having one name.
    pub fn knows_collisions(&self) -> bool {
        self.release.knows_collisions()
    }

    /// The newest version of snapshots that the release reads.
    pub fn snapshot_version_max(&self) -> u32 {
        match self.release {
            CatalogRelease::SnapshotV1 => 1,
            CatalogRelease::Current | CatalogRelease::WithoutFences => SNAPSHOT_VERSION_MAX,
        }
    }

    /// The store.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// What lies under a key.
    ///
    /// # Errors
    ///
    /// [`Class::Unavailable`] or [`Class::Damaged`].
    pub async fn read(&self, key: &str) -> Result<Option<SystemObject>, Refusal> {
        Box::pin(self.store.read_system(key)).await.map_err(|error| unreadable(&error))
    }

    /// What lies under a key, without its contents.
    ///
    /// # Errors
    ///
    /// [`Class::Unavailable`] or [`Class::Damaged`].
    pub async fn stat(&self, key: &str) -> Result<Option<SystemStat>, Refusal> {
        self.store.stat_system(key).await.map_err(|error| unreadable(&error))
    }

    /// What lies under a key, as `decode` reads it.
    ///
    /// # Errors
    ///
    /// As reading and `decode` have them.
    pub async fn read_as<T>(
        &self,
        key: &str,
        decode: impl FnOnce(&[u8]) -> Result<T, Refusal>,
    ) -> Result<Option<Found<T>>, Refusal> {
        let Some(found) = self.read(key).await? else { return Ok(None) };
        Ok(Some(Found::new(decode(&found.contents)?, found.stat.etag)))
    }

    /// The record under a key in the folder of `bucket`.
    ///
    /// # Errors
    ///
    /// As reading and decoding have them.
    pub async fn record<R: Record>(
        &self,
        bucket: &str,
        key: &str,
    ) -> Result<Option<Found<R>>, Refusal> {
        self.read_as(key, |bytes| R::decode(bucket, key, bytes)).await
    }

    /// The keys that begin with `prefix`, in order.
    ///
    /// # Errors
    ///
    /// [`Class::Unavailable`] or [`Class::Damaged`].
    pub async fn keys(&self, prefix: &str) -> Result<Vec<String>, Refusal> {
        let listed = self.store.list_system(prefix).await.map_err(|error| unreadable(&error))?;
        Ok(listed.into_iter().map(|(key, _)| key).collect())
    }

    /// The keys that begin with `prefix`, in order, with their ETags.
    ///
    /// # Errors
    ///
    /// [`Class::Unavailable`] or [`Class::Damaged`].
    pub async fn list(&self, prefix: &str) -> Result<Vec<(String, String)>, Refusal> {
        let listed = self.store.list_system(prefix).await.map_err(|error| unreadable(&error))?;
        Ok(listed.into_iter().map(|(key, stat)| (key, stat.etag)).collect())
    }

    /// As [`Depot::read_all`] of keys that were listed with these ETags, but what `kept` has under the same ETag is not
    /// read again: an ETag is the digest of what lies there. `kept` has all of it then, and nothing else.
    ///
    /// # Errors
    ///
    /// The first that is met.
    pub async fn read_changed<T: Clone>(
        &self,
        listed: Vec<(String, String)>,
        kept: &mut Kept<T>,
        decode: impl Fn(&str, &[u8]) -> Result<T, Refusal>,
    ) -> Result<Vec<T>, Refusal> {
        let mut before = std::mem::take(kept);
        let mut changed = Vec::new();
        for (key, etag) in listed {
            match before.remove(&key).filter(|it| !etag.is_empty() && it.etag == etag) {
                Some(found) => drop(kept.insert(key, found)),
                None => changed.push(key),
            }
        }
        // A key that is gone by now is none.
        let read =
            self.read_all(changed, |key, bytes| Ok((key.to_owned(), decode(key, bytes)?))).await?;
        kept.extend(read.into_iter().map(|it| (it.value.0, Found::new(it.value.1, it.etag))));
        Ok(kept.values().map(|it| it.value.clone()).collect())
    }

    /// What lies under many keys, in their order, as `decode` reads it; what is gone by then is left out.
    ///
    /// # Errors
    ///
    /// The first that is met.
    pub async fn read_all<T>(
        &self,
        keys: Vec<String>,
        decode: impl Fn(&str, &[u8]) -> Result<T, Refusal>,
    ) -> Result<Vec<Found<T>>, Refusal> {
        let read = |key: String| -> BoxFuture<'static, _> {
            let depot = self.clone();
            Box::pin(async move {
                let found = depot.read(&key).await;
                (key, found)
            })
        };
        let reads: Vec<_> = keys.into_iter().map(read).collect();
        let mut reads = stream::iter(reads).buffered(AT_ONCE);
        let mut all = Vec::new();
        while let Some((key, found)) = reads.next().await {
            let Some(found) = found? else { continue };
            all.push(Found::new(decode(&key, &found.contents)?, found.stat.etag));
        }
        Ok(all)
    }

    /// The contents of an object of a table bucket.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`] when it has more than `limit` bytes; as reading has them.
    pub async fn object(
        &self,
        bucket: &str,
        key: &str,
        limit: usize,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let target = ObjectKey { bucket: bucket.to_owned(), key: key.to_owned() };
        let request = ReadRequest {
            target,
            version: None,
            range: None,
            part: None,
            conditions: Conditions::default(),
        };
        let read = match Box::pin(self.store.get(request)).await {
            Ok(read) => read,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(unreadable(&error)),
        };
        if read.info.size > limit as u64 {
            let size = read.info.size;
            return Err(Class::Invalid
                .because(format!("{bucket}/{key} has {size} bytes, more than {limit}")));
        }
        let mut contents = Vec::with_capacity(read.info.size as usize);
        let mut chunks = read.content;
        while let Some(chunk) = chunks.next().await {
            contents.extend_from_slice(&chunk.map_err(|error| unreadable(&error))?);
        }
        Ok(Some(contents))
    }

    /// Bytes of an object of a table bucket, if it is there.
    ///
    /// # Errors
    ///
    /// As reading has them.
    pub async fn length(&self, bucket: &str, key: &str) -> Result<Option<u64>, Refusal> {
        let target = ObjectKey { bucket: bucket.to_owned(), key: key.to_owned() };
        let request = ReadRequest {
            target,
            version: None,
            range: None,
            part: None,
            conditions: Conditions::default(),
        };
        match Box::pin(self.store.head(request)).await {
            Ok(info) => Ok(Some(info.size)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(unreadable(&error)),
        }
    }

    /// Performs one durable step under locks, and passes its crash point when it is done.
    ///
    /// # Errors
    ///
    /// [`Class::Unavailable`]: nothing was written.
    pub async fn perform(&self, write: &Write, locks: &Locks) -> Result<Outcome, Refusal> {
        locks.check()?;
        let user = write.user_metadata.iter().cloned().collect();
        let done = match (&write.place, &write.contents) {
            (Place::Meta, Some(contents)) => {
                let contents = Bytes::copy_from_slice(contents);
                let (when, under) = (conditions(&write.when), locks.all());
                let write = self.store.write_system(&write.key, contents, user, when, &under);
                Box::pin(write).await.map(Some)
            }
            (Place::Meta, None) => {
                let (when, under) = (conditions(&write.when), locks.all());
                let removed = self.store.remove_system(&write.key, when, &under);
                Box::pin(removed).await.map(|()| None)
            }
            (Place::Bucket(bucket), contents) => {
                let put = self.put_object(bucket, &write.key, contents.as_deref(), &write.when);
                Box::pin(put).await
            }
        };
        let outcome = match done {
            Ok(etag) => Outcome::Done(etag),
            Err(StoreError::Condition { .. }) => Outcome::PreconditionFailed,
            Err(StoreError::Unknown { .. }) => Outcome::Unknown,
            Err(error) => return Err(not_written(&error)),
        };
        if matches!(outcome, Outcome::Done(_)) {
            self.store.pass_system(write.point, &write.key).await;
        }
        Ok(outcome)
    }

    /// Whether a bucket has the marker of a table bucket, as it is durable now.
    ///
    /// # Errors
    ///
    /// [`Class::NotFound`] when there is no such bucket; as reading has them.
    pub async fn has_marker(&self, bucket: &str) -> Result<bool, Refusal> {
        match self.store.bucket(bucket).await {
            Ok(found) => Ok(!found.tables.is_empty()),
            Err(StoreError::NoSuchBucket(_)) => {
                Err(Class::NotFound.because(format!("there is no bucket {bucket}")))
            }
            Err(error) => Err(unreadable(&error)),
        }
    }

    /// Gives a bucket the marker of a table bucket. Nodes that looked at it a moment ago have looked again by the
    /// time that this returns.
    ///
    /// # Errors
    ///
    /// [`Class::Unavailable`]; a marker that may be there is no harm, since the request can be sent again.
    pub async fn mark(&self, bucket: &str) -> Result<(), Refusal> {
        let marker = bucket::MARKER.as_bytes().to_vec();
        let set = self.store.set_document(bucket, BucketDocument::Tables, marker).await;
        set.map_err(|error| Class::Unavailable.because(crate::node::chain(&error)))?;
        let key = keys::bucket_entry(bucket);
        self.store.pass_system(CrashPoint::CatalogBucketMarkerWritten, &key).await;
        tokio::time::sleep(FRESH).await;
        Ok(())
    }

    /// Removes what nobody asks for any more.
    ///
    /// # Errors
    ///
    /// [`Class::Unavailable`].
    pub async fn remove(&self, key: &str, locks: &Locks) -> Result<(), Refusal> {
        let removed = self.store.remove_system(key, Conditions::default(), &locks.all()).await;
        removed.map_err(|error| not_written(&error))
    }

    async fn put_object(
        &self,
        bucket: &str,
        key: &str,
        contents: Option<&[u8]>,
        when: &When,
    ) -> Result<Option<String>, StoreError> {
        let target = ObjectKey { bucket: bucket.to_owned(), key: key.to_owned() };
        let Some(contents) = contents else {
            let request = crate::node::store::api::DeleteRequest {
                target,
                version: None,
                conditions: Conditions::default(),
            };
            return self.store.delete(request).await.map(|_| None);
        };
        let contents = Bytes::copy_from_slice(contents);
        let headers = BTreeMap::from([("content-type".to_owned(), "application/json".to_owned())]);
        let request = PutRequest {
            target,
            size: Some(contents.len() as u64),
            metadata: Metadata { headers, ..Metadata::default() },
            content_md5: None,
            checksums: Vec::new(),
            conditions: conditions(when),
        };
        let put = self.store.put(request, stream::iter([Ok(contents)]).boxed()).await;
        put.map(|outcome| Some(outcome.etag))
    }
}

fn conditions(when: &When) -> Conditions {
    match when {
        When::Always => Conditions::default(),
        When::Absent => Conditions { if_none_match: Some(Tags::Any), ..Conditions::default() },
        When::Matches(etag) => {
            let if_match = Some(Tags::OneOf(vec![etag.clone()]));
            Conditions { if_match, ..Conditions::default() }
        }
    }
}

/// Whether an object is not there.
pub fn is_missing(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::NoSuchKey(_) | StoreError::NoSuchBucket(_) | StoreError::Deleted { .. }
    )
}

/// A read that failed.
pub fn unreadable(error: &StoreError) -> Refusal {
    let class = match error {
        StoreError::Unreadable { .. } => Class::Damaged,
        _ => Class::Unavailable,
    };
    class.because(crate::node::chain(error))
}

/// A write of which it is known that it did not happen.
fn not_written(error: &StoreError) -> Refusal {
    Class::Unavailable.because(crate::node::chain(error))
}
