//! Whether somebody may do something: principals' actions, then policy and grants of who owns it.
//!
//! ```text
//!  the policy denies it ─────────────────────────────────────────▶ no
//!  the caller's account owns the bucket: its actions, or the policy ▶ yes
//!  somebody else's bucket: its actions *and* (policy or grant) ───▶ yes
//!  nobody's signature: policy or grant ──────────────────────────▶ yes
//! ```
//!
//! What a bucket's owner says is remembered for [`FRESH`]: on other nodes a change takes effect that much later.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;
use std::time::Instant;

use http::HeaderMap;
use http::Uri;
use s3s::S3Result;
use s3s::s3_error;

use super::access::Principals;
use super::actions;
use super::actions::Need;
use super::errors;
use crate::node::store::Store;
use crate::node::store::api::BucketInfo;
use crate::node::store::api::ObjectInfo;
use crate::node::store::api::ReadRequest;
use crate::node::store::api::StoreError;
use crate::protocol::access::ACCOUNT;
use crate::protocol::access::Who;
use crate::protocol::access::acl::Acl;
use crate::protocol::access::acl::Permission;
use crate::protocol::access::policy::Ask;
use crate::protocol::access::policy::Policy;
use crate::protocol::access::policy::Word;
use crate::protocol::access::tags;
use crate::protocol::access::tags::Tags;
use crate::protocol::object::condition::Conditions;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// How long a node goes by what it has read of a bucket.
pub const FRESH: Duration = Duration::from_secs(1);
/// Buckets that are remembered before old ones are forgotten.
const REMEMBERED_MAX: usize = 1_000;
/// What whoever owns a bucket may do whatever its policy says: otherwise it could lock everybody out for ever.
const ALWAYS_THE_OWNERS: [&str; 3] = ["GetBucketPolicy", "PutBucketPolicy", "DeleteBucketPolicy"];

/// What a bucket's owner says.
pub struct BucketRights {
    /// Its owner and grants.
    pub acl: Acl,
    /// Its policy; an error when there is one that is not understood.
    policy: Result<Option<Policy>, ()>,
    /// Whether the table catalog has a say in it.
    pub is_table_bucket: bool,
}

impl BucketRights {
    fn of(bucket: &BucketInfo) -> Self {
        let policy = match std::str::from_utf8(&bucket.policy) {
            Ok("") => Ok(None),
            Ok(text) => Policy::parse(text, &bucket.name).map(Some).map_err(drop),
            Err(_) => Err(()),
        };
        Self { acl: acl_of(bucket), policy, is_table_bucket: !bucket.tables.is_empty() }
    }

    /// The account that owns the bucket.
    pub fn owner(&self) -> &str {
        &self.acl.owner.id
    }
}

/// Owner and grants of a bucket.
pub fn acl_of(bucket: &BucketInfo) -> Acl {
    Acl::parse(&bucket.acl, ACCOUNT)
}

/// Owner and grants of an object in a bucket of `bucket_owner`.
pub fn object_acl(info: &ObjectInfo, bucket_owner: &str) -> Acl {
    let stored = info.metadata.acl.as_deref().unwrap_or_default();
    Acl::parse(stored.as_bytes(), bucket_owner)
}

/// One thing that somebody wants to do.
pub struct Asked<'a> {
    /// The access key of whoever signed.
    pub caller: Option<&'a str>,
    /// The operation, as S3 names it.
    pub operation: &'a str,
    /// The bucket.
    pub bucket: &'a str,
    /// The key, when it is about an object.
    pub key: Option<&'a str>,
    /// The version that is named.
    pub version: Option<VersionId>,
    /// The request's headers.
    pub headers: &'a HeaderMap,
    /// The request's address.
    pub uri: &'a Uri,
    /// Tags that are to be set, when they do not stand in a header.
    pub tags: Option<&'a Tags>,
    /// Where the request comes from.
    pub from: Option<Origin>,
}

/// Where a request comes from; stands among its extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin(pub IpAddr);

/// Decides. Cheap to share.
pub struct Rights {
    store: Arc<Store>,
    principals: Principals,
    remembered: Mutex<BTreeMap<String, (Instant, Arc<BucketRights>)>>,
}

impl Rights {
    /// Decides for these principals.
    pub fn new(store: Arc<Store>, principals: Principals) -> Self {
        Self { store, principals, remembered: Mutex::default() }
    }

    /// Who signs with this access key.
    pub fn who<'a>(&'a self, caller: Option<&'a str>) -> Who<'a> {
        let named = caller.and_then(|name| Some((name, self.principals.account(name)?)));
        named.map_or(Who::Anyone, |(name, account)| Who::Principal { name, account })
    }

    /// Whether there is such an account.
    pub fn has_account(&self, account: &str) -> bool {
        account == ACCOUNT || self.principals.has_account(account)
    }

    /// Whether this access key may do an operation at all.
    pub fn has_action(&self, caller: Option<&str>, operation: &str) -> bool {
        caller.is_some_and(|name| self.principals.allows(name, &format!("s3:{operation}")))
    }

    /// What the owner of a bucket says.
    ///
    /// # Errors
    ///
    /// As the store has them.
    pub async fn bucket(&self, name: &str) -> Result<Arc<BucketRights>, StoreError> {
        if let Some((read, rights)) = self.remembered().get(name)
            && read.elapsed() < FRESH
        {
            return Ok(Arc::clone(rights));
        }
        let read = Instant::now();
        let rights = Arc::new(BucketRights::of(&self.store.bucket(name).await?));
        let mut remembered = self.remembered();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.retain(|_, (read, _)| read.elapsed() < FRESH);
        }
        remembered.insert(name.to_owned(), (read, Arc::clone(&rights)));
        Ok(rights)
    }

    /// Reads a bucket's rights anew before the next decision.
    pub fn forget(&self, bucket: &str) {
        self.remembered().remove(bucket);
    }

    fn remembered(
        &self,
    ) -> std::sync::MutexGuard<'_, BTreeMap<String, (Instant, Arc<BucketRights>)>> {
        self.remembered.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Lets it pass, or refuses it.
    ///
    /// # Errors
    ///
    /// `AccessDenied`; and what the store says when it cannot tell what the owner says.
    pub async fn may(&self, asked: &Asked<'_>) -> S3Result<()> {
        let who = self.who(asked.caller);
        let has_action = self.has_action(asked.caller, asked.operation);
        let rights = match self.bucket(asked.bucket).await {
            Ok(rights) => rights,
            // The operation says so itself.
            Err(StoreError::NoSuchBucket(_)) if has_action || who == Who::Anyone => return Ok(()),
            Err(StoreError::NoSuchBucket(_)) => return Err(denied()),
            Err(error) => return Err(errors::s3_error(&error)),
        };
        let expected = asked.headers.get("x-amz-expected-bucket-owner");
        if expected.is_some_and(|expected| expected.as_bytes() != rights.owner().as_bytes()) {
            return Err(denied());
        }
        let is_own = who.account() == Some(rights.owner());
        if is_own && has_action && ALWAYS_THE_OWNERS.contains(&asked.operation) {
            return Ok(());
        }
        let word = match &rights.policy {
            Ok(None) => Word::Silent,
            Ok(Some(policy)) => self.judge(policy, who, asked).await?,
            Err(()) => {
                return Err(s3_error!(AccessDenied, "the bucket's policy is not understood"));
            }
        };
        let is_enough = match (word, who) {
            (Word::Deny, _) => false,
            (Word::Allow, Who::Principal { .. }) => is_own || has_action,
            (Word::Allow, Who::Anyone) => true,
            (Word::Silent, Who::Principal { .. }) if is_own => has_action,
            (Word::Silent, Who::Principal { .. }) if !has_action => false,
            (Word::Silent, _) => return self.granted(&rights, who, asked).await,
        };
        if is_enough { Ok(()) } else { Err(denied()) }
    }

    async fn judge(&self, policy: &Policy, who: Who<'_>, asked: &Asked<'_>) -> S3Result<Word> {
        let mut facts = facts(who, asked);
        if policy.asks_for_tags() && actions::needs(asked.operation) == Need::Object {
            match self.object(asked).await {
                Ok(info) => {
                    let existing =
                        info.metadata.tags.as_deref().and_then(|text| tags::parse(text).ok());
                    for (key, value) in existing.into_iter().flatten() {
                        facts.insert(format!("s3:existingobjecttag/{key}"), value);
                    }
                }
                Err(error) if is_missing(&error) => {}
                Err(error) => return Err(errors::s3_error(&error)),
            }
        }
        let action = actions::of(asked.operation, asked.version.is_some());
        let ask = Ask { who, action: &action, bucket: asked.bucket, key: asked.key, facts };
        Ok(policy.judge(&ask))
    }

    /// Whether the bucket's or the object's list opens it.
    async fn granted(
        &self,
        rights: &BucketRights,
        who: Who<'_>,
        asked: &Asked<'_>,
    ) -> S3Result<()> {
        let opens = |permission| match rights.acl.allows(who, permission) {
            true => Ok(()),
            false => Err(denied()),
        };
        let permission = match actions::needs(asked.operation) {
            Need::Bucket(permission) => return opens(permission),
            Need::Nothing => return Err(denied()),
            Need::Object => actions::object_permission(asked.operation),
        };
        let info = match self.object(asked).await {
            Ok(info) => info,
            // Who may list a bucket may know what is not in it.
            Err(error) if is_missing(&error) => return opens(Permission::Read),
            Err(error) => return Err(errors::s3_error(&error)),
        };
        let acl = object_acl(&info, rights.owner());
        let is_its_owner = who.account() == Some(acl.owner.id.as_str());
        let is_open = match permission {
            Some(permission) => is_its_owner || acl.allows(who, permission),
            None => is_its_owner,
        };
        // What lies in somebody else's bucket is taken out only by who may write there.
        let may_write = rights.acl.allows(who, Permission::Write);
        let is_delete = ["DeleteObject", "DeleteObjects"].contains(&asked.operation);
        if is_open && (may_write || !is_delete) { Ok(()) } else { Err(denied()) }
    }

    async fn object(&self, asked: &Asked<'_>) -> Result<ObjectInfo, StoreError> {
        let target = ObjectKey {
            bucket: asked.bucket.to_owned(),
            key: asked.key.unwrap_or_default().to_owned(),
        };
        let conditions = Conditions::default();
        let read =
            ReadRequest { target, version: asked.version, range: None, part: None, conditions };
        self.store.head(read).await
    }
}

fn is_missing(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::NoSuchKey(_)
            | StoreError::NoSuchVersion { .. }
            | StoreError::Deleted { .. }
            | StoreError::IsDeleteMarker { .. }
            | StoreError::NoSuchBucket(_)
    )
}

fn denied() -> s3s::S3Error {
    s3_error!(AccessDenied)
}

/// What the conditions of a policy can ask for.
fn facts(who: Who<'_>, asked: &Asked<'_>) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    for (name, value) in asked.headers {
        let Ok(value) = value.to_str() else { continue };
        let name = name.as_str();
        let key = match name {
            "referer" => "aws:referer".to_owned(),
            "user-agent" => "aws:useragent".to_owned(),
            "if-match" | "if-none-match" => format!("s3:{name}"),
            _ if name.starts_with("x-amz-") => format!("s3:{name}"),
            _ => continue,
        };
        let value = match name {
            "x-amz-copy-source" => super::convert::decoded(value.trim_start_matches('/')),
            _ => value.to_owned(),
        };
        facts.insert(key, value);
    }
    for pair in asked.uri.query().unwrap_or_default().split('&') {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = name.to_ascii_lowercase();
        if ["prefix", "delimiter", "max-keys", "versionid"].contains(&name.as_str()) {
            facts.insert(format!("s3:{name}"), super::convert::decoded(&value.replace('+', " ")));
        }
    }
    let now = jiff::Timestamp::now();
    facts.insert("aws:currenttime".to_owned(), now.to_string());
    facts.insert("aws:epochtime".to_owned(), now.as_second().to_string());
    if let Some(Origin(address)) = asked.from {
        facts.insert("aws:sourceip".to_owned(), address.to_canonical().to_string());
    }
    facts.insert("aws:securetransport".to_owned(), "false".to_owned());
    facts.insert("s3:signatureversion".to_owned(), "AWS4-HMAC-SHA256".to_owned());
    if let Who::Principal { name, .. } = who {
        facts.insert("aws:username".to_owned(), name.to_owned());
    }
    let header = asked.headers.get("x-amz-tagging").and_then(|value| value.to_str().ok());
    let header = header.and_then(|text| tags::parse(text).ok());
    for (key, value) in header.iter().chain(asked.tags).flatten() {
        facts.insert(format!("s3:requestobjecttag/{key}"), value.clone());
    }
    facts
}
