//! Objects of the system volume that others than the store keep: the records of the table catalog.
//!
//! They are written like any object, with the parity of the system's own, compared by their ETags, and found by
//! healing and rebuilding like everything else in the volume. Whoever writes one may do so *under* named locks:
//! the drives take the step only while these are still granted, so that a holder that slept past its lease
//! changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream;

use super::Store;
use super::api::Metadata;
use super::api::PutRequest;
use super::api::StoreError;
use super::calls::Held;
use super::copies::Copies;
use super::copies::Found;
use super::copies::Want;
use super::delete;
use super::describe;
use super::list::Walker;
use super::put;
use super::put::Place;
use super::read;
use super::read::Reader;
use crate::disk::drive::CommitKind;
use crate::disk::layout;
use crate::node::seams::BoxFuture;
use crate::node::seams::LockMode;
use crate::protocol::crash_point::CrashPoint;
use crate::protocol::object::condition::Conditions;
use crate::protocol::object::effect::BucketState;
use crate::protocol::object::quorum;
use crate::value::ObjectKey;

/// Keys that are looked at at once where a listing is not agreed on.
const AT_ONCE: usize = 16;

/// What an object of the system volume is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemStat {
    /// Its ETag, without quotes: the MD5 of its contents, in hexadecimal.
    pub etag: String,
    /// Bytes.
    pub size: u64,
    /// What its writer keeps with it.
    pub user: BTreeMap<String, String>,
}

/// An object of the system volume with its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemObject {
    /// What it is.
    pub stat: SystemStat,
    /// Its contents.
    pub contents: Bytes,
}

/// A named lock, held until this is dropped. All sets of the deployment vote for it.
pub struct NamedLock {
    held: Held,
}

impl NamedLock {
    /// Whether nobody else can have got it so far, as far as this node knows.
    pub fn is_held(&self) -> bool {
        self.held.is_held()
    }
}

fn target(key: &str) -> ObjectKey {
    ObjectKey { bucket: layout::SYSTEM.to_owned(), key: key.to_owned() }
}

/// What is locked for a name. No bucket is called like this.
fn resource(name: &str) -> ObjectKey {
    ObjectKey { bucket: format!("{}/{name}", layout::SYSTEM), key: String::new() }
}

impl SystemStat {
    fn of(found: &Found) -> Option<Self> {
        let object = found.version.as_object()?;
        let user = describe::metadata(object).user;
        Some(Self { etag: object.etag().to_owned(), size: object.size, user })
    }
}

impl Store {
    /// Takes a named lock, waiting for it at most so long.
    ///
    /// # Errors
    ///
    /// [`StoreError::Lock`]; nothing is held then.
    pub async fn lock_named(
        &self,
        name: &str,
        mode: LockMode,
        wait: Duration,
    ) -> Result<NamedLock, StoreError> {
        Ok(NamedLock { held: self.lock_within(&resource(name), mode, wait).await? })
    }

    /// How long a lock is waited for unless somebody says otherwise.
    pub fn lock_wait(&self) -> Duration {
        Duration::from_millis(self.parts.limits.lock_wait_ms)
    }

    /// Passes a crash point of whoever keeps objects here, off the reactor.
    pub async fn pass_system(&self, point: CrashPoint, key: &str) {
        self.pass(point, &target(key)).await;
    }

    /// An object of the system volume, or nothing.
    ///
    /// # Errors
    ///
    /// As reading any object has them.
    pub async fn read_system(
        self: &Arc<Self>,
        key: &str,
    ) -> Result<Option<SystemObject>, StoreError> {
        self.system_object(&target(key)).await
    }

    /// What an object of the system volume is, or nothing.
    ///
    /// # Errors
    ///
    /// As reading any object has them.
    pub async fn stat_system(
        self: &Arc<Self>,
        key: &str,
    ) -> Result<Option<SystemStat>, StoreError> {
        let target = target(key);
        let set = self.set_of(&target.key);
        let agree = |copies: &Copies| copies.read(Want::Latest, false).is_ok();
        let copies = self.read_copies(set, &target, 0, false, agree).await;
        if let Ok(found) = copies.read(Want::Latest, false) {
            return Ok(found.first().and_then(SystemStat::of));
        }
        let seen = self.look(set, &target, 0, Want::Latest, false).await?;
        Ok(seen.found.first().and_then(SystemStat::of))
    }

    /// Writes an object of the system volume under named locks; answers its ETag.
    ///
    /// # Errors
    ///
    /// `Condition` when one does not hold; `NoQuorum` also when a lock is not held any more; `Unknown`.
    pub async fn write_system(
        self: &Arc<Self>,
        key: &str,
        contents: Bytes,
        user: BTreeMap<String, String>,
        conditions: Conditions,
        under: &[&NamedLock],
    ) -> Result<String, StoreError> {
        let n = self.set_drives();
        let parity = quorum::system_parity(n);
        let place = Place {
            state: BucketState::Unversioned,
            since_ns: 0,
            geometry: (n - parity, parity),
            kind: CommitKind::Quiet,
            under: under.iter().map(|lock| lock.held.grant()).collect(),
        };
        let request = PutRequest {
            target: target(key),
            size: Some(contents.len() as u64),
            metadata: Metadata { user, ..Metadata::default() },
            content_md5: None,
            checksums: Vec::new(),
            conditions,
        };
        let body = stream::iter([Ok(contents)]).boxed();
        put::put_at(self, place, request, body).await.map(|outcome| outcome.etag)
    }

    /// Removes an object of the system volume under named locks. What is not there is removed already.
    ///
    /// # Errors
    ///
    /// As [`Store::write_system`].
    pub async fn remove_system(
        self: &Arc<Self>,
        key: &str,
        conditions: Conditions,
        under: &[&NamedLock],
    ) -> Result<(), StoreError> {
        let under = under.iter().map(|lock| lock.held.grant()).collect();
        delete::delete_record_if(self, &target(key), conditions, under).await
    }

    /// Keys of the system volume that begin with `prefix`, in order, with what they are.
    ///
    /// # Errors
    ///
    /// As listing any bucket has them.
    pub async fn list_system(
        self: &Arc<Self>,
        prefix: &str,
    ) -> Result<Vec<(String, SystemStat)>, StoreError> {
        let mut all = Vec::new();
        for set in 0..self.sets() {
            let mut walker = Walker::new(self, set, layout::SYSTEM, prefix, "", 0);
            let mut unclear = Vec::new();
            while let Some(copies) = walker.next().await? {
                match copies.read(Want::Latest, false) {
                    Ok(found) => {
                        let stat = found.first().and_then(SystemStat::of);
                        all.extend(stat.map(|stat| (copies.target.key, stat)));
                    }
                    Err(_) => unclear.push(copies.target),
                }
            }
            let look = |target: ObjectKey| -> BoxFuture<'static, Result<_, StoreError>> {
                let store = Arc::clone(self);
                Box::pin(async move {
                    let seen = store.look(set, &target, 0, Want::Latest, false).await?;
                    Ok((target.key, seen.found.first().and_then(SystemStat::of)))
                })
            };
            let looks: Vec<_> = unclear.into_iter().map(look).collect();
            let mut looks = stream::iter(looks).buffer_unordered(AT_ONCE);
            while let Some(looked) = looks.next().await {
                let (key, stat) = looked?;
                all.extend(stat.map(|stat| (key, stat)));
            }
        }
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(all)
    }

    /// An object of the system volume. Without a lock while the drives agree: what a write quorum holds cannot be
    /// taken back.
    pub(super) async fn system_object(
        self: &Arc<Self>,
        target: &ObjectKey,
    ) -> Result<Option<SystemObject>, StoreError> {
        let set = self.set_of(&target.key);
        let agree = |copies: &Copies| copies.read(Want::Latest, false).is_ok();
        let copies = self.read_copies(set, target, 0, true, agree).await;
        if let Ok(found) = copies.read(Want::Latest, false) {
            let Some(found) = found.first() else { return Ok(None) };
            let Some(stat) = SystemStat::of(found) else { return Ok(None) };
            let mut reader = Reader::new(self, &copies, &found.backing)?;
            if let Ok(chunks) = read::whole(&mut reader).await {
                let contents = chunks.concat().into();
                return Ok(Some(SystemObject { stat, contents }));
            }
        }
        let seen = self.look(set, target, 0, Want::Latest, true).await?;
        let Some(found) = seen.found.first() else { return Ok(None) };
        let Some(stat) = SystemStat::of(found) else { return Ok(None) };
        let mut reader = Reader::new(self, &seen.copies, &found.backing)?;
        let contents = read::whole(&mut reader).await?.concat().into();
        Ok(Some(SystemObject { stat, contents }))
    }
}
