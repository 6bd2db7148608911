//! What the catalog says to ordinary S3 requests on table buckets: whose a key is, who may touch it, and that what
//! only the catalog writes is written by nobody else.
//!
//! # Sources
//!
//! Specification of the catalog §2.10, §4.8, F42 to F45.

use s3s::S3Result;
use s3s::s3_error;

use super::Catalog;
use super::caller::is_allowed;
use super::locks;
use super::locks::Locks;
use super::object;
use super::strong::Explanation;
use crate::node::seams::LockMode;
use crate::protocol::catalog::actions::Action;
use crate::protocol::catalog::actions::Resource;
use crate::protocol::catalog::keys;
use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::settings::Backing;
use crate::protocol::catalog::strong::hydrate::Reader;
use crate::protocol::catalog::strong::resolve;

/// What an operation does with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads it, or what is said of it.
    Read,
    /// Writes or removes it, or changes what is said of it.
    Write,
}

/// What an operation of S3 does with the object that it names; nothing where it names none.
pub fn access(operation: &str) -> Option<Access> {
    match operation {
        "GetObject"
        | "HeadObject"
        | "GetObjectAttributes"
        | "GetObjectAcl"
        | "GetObjectTagging" => Some(Access::Read),
        "PutObject"
        | "PostObject"
        | "CopyObject"
        | "DeleteObject"
        | "DeleteObjects"
        | "PutObjectAcl"
        | "PutObjectTagging"
        | "DeleteObjectTagging"
        | "CreateMultipartUpload"
        | "UploadPart"
        | "UploadPartCopy"
        | "CompleteMultipartUpload"
        | "AbortMultipartUpload"
        | "ListParts" => Some(Access::Write),
        _ => None,
    }
}

/// What one request holds of the catalog's locks for as long as it goes on, for all the keys that it names.
#[derive(Default)]
pub struct Pass {
    held: Locks,
}

impl Pass {
    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

impl Catalog {
    /// Lets an S3 request on a key of a table bucket pass, or refuses it. For a write the locks are to be held until
    /// it is answered.
    ///
    /// # Errors
    ///
    /// `AccessDenied`, for everybody, when it cannot be told whose the key is; `InvalidRequest` for what only the
    /// catalog writes.
    pub async fn pass(
        &self,
        pass: &mut Pass,
        caller: Option<&str>,
        bucket: &str,
        key: &str,
        access: Access,
    ) -> S3Result<()> {
        let is_bound = self.depot.store().binds_everybody();
        if !is_bound && caller.is_some_and(|it| self.principals.allows_everything(it)) {
            return Ok(());
        }
        if access == Access::Write && keys::is_reserved(key) {
            return Err(s3_error!(InvalidRequest, "only the table catalog writes here"));
        }
        let passed = Box::pin(self.owned_pass(pass, caller, bucket, key, access)).await;
        passed.map_err(|refusal| {
            tracing::debug!(bucket, key, %refusal, "an S3 request on a table bucket was denied");
            match refusal.class {
                Class::Unavailable if refusal.text.starts_with("the lock ") => {
                    s3_error!(SlowDown, "{}", refusal.text)
                }
                _ => s3_error!(AccessDenied, "{}", refusal.text),
            }
        })
    }

    async fn owned_pass(
        &self,
        pass: &mut Pass,
        caller: Option<&str>,
        bucket: &str,
        key: &str,
        access: Access,
    ) -> Result<(), Refusal> {
        let (held, store) = (&mut pass.held, self.depot.store());
        // Before the owner is found: nobody may become it meanwhile. Filling the index needs this lock alone, and
        // is done first.
        if self.settings.backing == Backing::Object && held.is_empty() {
            object::prepare(&self.depot, bucket).await?;
        }
        if access == Access::Write {
            held.take(store, &locks::bucket_publication(bucket), LockMode::Shared).await?;
        }
        let Some(owner) = self.owner(bucket, key).await? else { return Ok(()) };
        self.check_policy(caller, bucket, &owner, access)?;
        if access == Access::Write {
            held.take(store, &locks::publication(bucket, &owner), LockMode::Shared).await?;
        }
        Ok(())
    }

    fn check_policy(
        &self,
        caller: Option<&str>,
        bucket: &str,
        owner: &Identifier,
        access: Access,
    ) -> Result<(), Refusal> {
        let action = match access {
            Access::Read => Action::GetTableMetadata,
            Access::Write => Action::SetTableMetadata,
        };
        let on = Resource::Table(bucket, owner);
        if caller.is_some_and(|it| is_allowed(&self.principals, it, action, on)) {
            return Ok(());
        }
        let name = action.name();
        Err(Class::Forbidden
            .because(format!("the key is {bucket}/{owner}'s, and {name} is not allowed")))
    }

    async fn owner(&self, bucket: &str, key: &str) -> Result<Option<Identifier>, Refusal> {
        match self.settings.backing {
            Backing::Object => {
                self.check_current(bucket).await?;
                object::resolve(&self.depot, bucket, key).await
            }
            Backing::DurableStrong => {
                self.check_opened().await?;
                let loaded = self.strong.hydrate(Reader::Strong, &Explanation::default()).await?;
                resolve::resolve(loaded.as_deref(), self.strong.rules().gates, bucket, key)
            }
        }
    }

    /// Refuses a commit whose objects its caller may not touch, or nobody just now.
    ///
    /// # Errors
    ///
    /// [`Class::Forbidden`].
    pub(super) async fn check_data_plane(
        &self,
        bucket: &str,
        table: &Identifier,
        access_key: &str,
    ) -> Result<(), Refusal> {
        let entry = self.state(bucket).await?.table(bucket, table).await?;
        let prefix = crate::protocol::catalog::prefix::of_table(bucket, &entry.warehouse_location)?;
        let owner = self.owner(bucket, &format!("{prefix}x")).await;
        // What may be well in a moment is no final word.
        let owner = owner.map_err(|refusal| match refusal.class {
            Class::Unavailable => refusal,
            _ => refusal.as_class(Class::Forbidden),
        })?;
        match owner {
            Some(owner) if owner == *table => {
                self.check_policy(Some(access_key), bucket, &owner, Access::Read)
            }
            _ => Err(Class::Forbidden.because(format!("{bucket}/{table} does not own its prefix"))),
        }
    }
}
