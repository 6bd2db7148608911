//! What stands before the load: buckets, the early versions of some, sources of copies; and
//! the deletion of a whole bucket in the middle of one.
//!
//! Everything here is asked again until it is acknowledged, each time as another operation, since
//! nothing else makes sense without it. Contents that may have been written twice are not used.

use std::time::Duration;
use std::time::Instant;

use bytes::Bytes;
use tokio::time;

use super::content;
use super::driver;
use super::driver::DOWN_POLL;
use super::driver::Driver;
use super::driver::Numbering;
use super::generator;
use super::history::Action;
use super::history::Condition;
use super::history::Ending;
use super::history::Outcome;
use super::history::Seen;
use super::memory::Source;
use super::spec::BucketKind;
use super::spec::WorkloadSpec;
use crate::value::Digest;
use crate::value::ObjectKey;

/// The client number of the preparation; those of later bucket steps follow it.
pub const PREPARING_CLIENT: u32 = 0;

/// Why a preparation did not end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} was not acknowledged in {waited_ms} ms: {last}")]
pub struct NotPrepared {
    /// What was asked.
    pub what: String,
    /// How long.
    pub waited_ms: u64,
    /// How the last attempt ended, in words.
    pub last: String,
}

/// Asks one thing at a time, again and again.
struct Insistence<'a> {
    driver: &'a Driver,
    numbers: Numbering,
    limit: Duration,
}

impl Driver {
    /// Makes the buckets of `spec`, what their kinds need, and the sources of copies. Each request is
    /// repeated for at most `limit`.
    ///
    /// # Errors
    /// [`NotPrepared`]; what was made stays.
    pub async fn prepare(&self, spec: &WorkloadSpec, limit: Duration) -> Result<(), NotPrepared> {
        let numbers = Numbering::of(PREPARING_CLIENT);
        let mut insist = Insistence { driver: self, numbers, limit };
        for (bucket, kind) in &spec.buckets {
            insist.bucket(bucket, *kind, spec.keys).await?;
            if spec.mix.copy > 0 {
                insist.sources(bucket).await?;
            }
        }
        Ok(())
    }

    /// Deletes every version in `bucket` and the bucket itself, then makes it anew, empty. `turn`
    /// tells the calls of a run apart, from 1.
    ///
    /// # Errors
    /// [`NotPrepared`]; what was deleted stays deleted.
    pub async fn recreate_bucket(
        &self,
        bucket: &str,
        kind: BucketKind,
        turn: u32,
        limit: Duration,
    ) -> Result<(), NotPrepared> {
        let numbers = Numbering::of(PREPARING_CLIENT + turn);
        let mut insist = Insistence { driver: self, numbers, limit };
        insist.delete_bucket(bucket).await?;
        insist.bucket(bucket, kind, 0).await
    }

    /// Deletes every version in `bucket` and the bucket itself. `turn` tells the calls of a run apart, from 1.
    ///
    /// # Errors
    /// [`NotPrepared`]; what was deleted stays deleted.
    pub async fn delete_bucket(
        &self,
        bucket: &str,
        turn: u32,
        limit: Duration,
    ) -> Result<(), NotPrepared> {
        let numbers = Numbering::of(PREPARING_CLIENT + turn);
        let mut insist = Insistence { driver: self, numbers, limit };
        insist.delete_bucket(bucket).await
    }

    /// Makes `bucket`, empty. `turn` tells the calls of a run apart, from 1.
    ///
    /// # Errors
    /// [`NotPrepared`]; what was made stays.
    pub async fn create_bucket(
        &self,
        bucket: &str,
        kind: BucketKind,
        turn: u32,
        limit: Duration,
    ) -> Result<(), NotPrepared> {
        let numbers = Numbering::of(PREPARING_CLIENT + turn);
        let mut insist = Insistence { driver: self, numbers, limit };
        insist.bucket(bucket, kind, 0).await
    }
}

impl Insistence<'_> {
    async fn bucket(
        &mut self,
        bucket: &str,
        kind: BucketKind,
        keys: u32,
    ) -> Result<(), NotPrepared> {
        let target = ObjectKey { bucket: bucket.to_owned(), key: String::new() };
        self.until_done(&target, |_| (Action::CreateBucket, Bytes::new())).await?;
        if kind == BucketKind::Unversioned {
            return Ok(());
        }
        let versioning = |enabled| move |_| (Action::SetVersioning { enabled }, Bytes::new());
        if kind != BucketKind::Adopted {
            self.until_done(&target, versioning(true)).await?;
        }
        if kind == BucketKind::Enabled {
            return Ok(());
        }
        for index in 0..generator::early_keys(keys) {
            let key = generator::key_name(index);
            let target = ObjectKey { bucket: bucket.to_owned(), key };
            self.until_done(&target, |op| put(op, generator::EARLY_BYTES)).await?;
        }
        self.until_done(&target, versioning(kind == BucketKind::Adopted)).await?;
        Ok(())
    }

    async fn sources(&mut self, bucket: &str) -> Result<(), NotPrepared> {
        for index in 0..generator::SOURCES {
            let size = generator::source_bytes(index);
            let key = generator::source_key(index);
            let target = ObjectKey { bucket: bucket.to_owned(), key };
            let (action, ending, attempts) = self.until_done(&target, |op| put(op, size)).await?;
            // A source that may have been written more than once has no certain contents.
            if let (Action::Put { digest, size, etag, .. }, 1) = (action, attempts) {
                let version = ending.version.filter(|version| !version.is_null());
                self.driver.memory().add_source(Source { target, version, digest, size, etag });
            }
        }
        Ok(())
    }

    async fn delete_bucket(&mut self, bucket: &str) -> Result<(), NotPrepared> {
        let target = ObjectKey { bucket: bucket.to_owned(), key: String::new() };
        let began = Instant::now();
        loop {
            let listing = |_| (Action::ListVersions { prefix: String::new() }, Bytes::new());
            let (_, listed, _) = self.until_done(&target, listing).await?;
            if let Some(Seen::Listing(rows)) = listed.seen {
                for row in rows {
                    let target = ObjectKey { bucket: bucket.to_owned(), key: row.key };
                    let version = row.version;
                    let delete = |_| (Action::Delete { version }, Bytes::new());
                    self.until_done(&target, delete).await?;
                }
            }
            let ending = self.once(&target, |_| (Action::DeleteBucket, Bytes::new())).await.1;
            if ending.outcome == Outcome::Acknowledged || ending.status == Some(404) {
                return Ok(());
            }
            if began.elapsed() > self.limit {
                return Err(self.gave_up("deleting the bucket", began, &ending));
            }
            time::sleep(DOWN_POLL).await;
        }
    }

    /// Asks until it is acknowledged, of every node in turn. Answers what was asked last, how it
    /// ended, and how often it was asked.
    async fn until_done(
        &mut self,
        target: &ObjectKey,
        request: impl Fn(u64) -> (Action, Bytes),
    ) -> Result<(Action, Ending, u32), NotPrepared> {
        let began = Instant::now();
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (action, ending) = self.once(target, &request).await;
            let exists = matches!(action, Action::CreateBucket) && ending.status == Some(409);
            let gone = matches!(action, Action::Delete { .. }) && ending.status == Some(404);
            if ending.outcome == Outcome::Acknowledged || exists || gone {
                return Ok((action, ending, attempts));
            }
            if began.elapsed() > self.limit {
                return Err(self.gave_up(&format!("{action:?}"), began, &ending));
            }
            time::sleep(DOWN_POLL).await;
        }
    }

    async fn once(
        &mut self,
        target: &ObjectKey,
        request: impl Fn(u64) -> (Action, Bytes),
    ) -> (Action, Ending) {
        let op = self.numbers.take();
        let (action, body) = request(op);
        let nodes = self.driver.nodes();
        let up = (0..nodes).map(|offset| (op as usize + offset) % nodes.max(1));
        let found = up.filter_map(|node| Some((node, self.driver.address(node)?))).next();
        let Some((node, address)) = found else {
            let ending = super::answer::unanswered(op, Outcome::Refused, "every node is down");
            return (action, ending);
        };
        let client = self.numbers.client();
        let asked = driver::operation(op, client, node, target.clone(), action.clone());
        (action, self.driver.attempt(asked, address, body, &[]).await)
    }

    fn gave_up(&self, what: &str, began: Instant, last: &Ending) -> NotPrepared {
        let waited_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        NotPrepared { what: what.to_owned(), waited_ms, last: last.reason.clone() }
    }
}

fn put(op: u64, size: u64) -> (Action, Bytes) {
    let body = content::bytes(op, 0, size);
    let action = Action::Put {
        digest: Digest::of(&body),
        size,
        etag: Some(content::etag(&body)),
        condition: Condition::Always,
    };
    (action, body.into())
}
