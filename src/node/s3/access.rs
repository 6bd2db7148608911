//! Who may do what at all: principals and their actions, from the node's configuration.
//!
//! What that means for a bucket or an object is said in [`super::rights`]. An action is `s3:` and the operation's name (`s3:PutObject`), or `admin:` and an administrative one;
//! `*` allows everything, `s3:*` and `admin:*` one family. An action of the table catalog may end with `@` and what
//! it may be done to (`admin:CommitTable@lake/namespaces/sales/*`; `*` and `?` as in policies). What no action
//! allows is denied, and so is whoever does not sign.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use s3s::S3Result;
use s3s::access::S3Access;
use s3s::access::S3AccessContext;
use s3s::auth::S3Auth;
use s3s::auth::SecretKey;
use s3s::dto::CopySource;
use s3s::s3_error;

use super::convert;
use super::errors;
use super::rights::Asked;
use super::rights::Rights;
use crate::node::catalog::Catalog;
use crate::node::catalog::bridge;
use crate::node::catalog::bridge::Pass;
use crate::node::metrics::Metrics;
use crate::node::store::api::StoreError;
use crate::protocol::access::operator;
use crate::value::VersionId;

/// Operations that are judged where their bodies are known.
const LATER: [&str; 2] = ["DeleteObjects", "PutObjectTagging"];

/// One principal, with its secret.
#[derive(Clone)]
pub struct KnownPrincipal {
    /// Its secret key.
    pub secret: String,
    /// What it may do.
    pub actions: Vec<String>,
    /// The account that owns what it makes.
    pub account: String,
}

/// All principals, by access key. Cheap to clone.
#[derive(Clone)]
pub struct Principals(Arc<BTreeMap<String, KnownPrincipal>>);

impl Principals {
    /// These principals.
    pub fn new(principals: BTreeMap<String, KnownPrincipal>) -> Self {
        Self(Arc::new(principals))
    }

    /// The secret of an access key.
    pub fn secret(&self, access_key: &str) -> Option<String> {
        self.0.get(access_key).map(|principal| principal.secret.clone())
    }

    /// The account of an access key.
    pub fn account(&self, access_key: &str) -> Option<&str> {
        self.0.get(access_key).map(|principal| principal.account.as_str())
    }

    /// Whether a principal belongs to this account.
    pub fn has_account(&self, account: &str) -> bool {
        self.0.values().any(|principal| principal.account == account)
    }

    /// Whether the holder of `access_key` may do `action`, whatever it is done to.
    pub fn allows(&self, access_key: &str, action: &str) -> bool {
        self.allows_as(access_key, action, |pattern| pattern.is_none())
    }

    /// Whether the holder of `access_key` may do `action` to `resource`: `bucket/namespaces/…/tables/…`.
    #[cfg_attr(not(feature = "iceberg"), expect(dead_code, reason = "the catalog asks"))]
    pub fn allows_on(&self, access_key: &str, action: &str, resource: &str) -> bool {
        self.allows_as(access_key, action, |pattern| {
            pattern.is_none_or(|pattern| operator::matches(pattern, resource))
        })
    }

    /// Whether the holder of `access_key` may do `action` to anything at all.
    #[cfg_attr(not(feature = "iceberg"), expect(dead_code, reason = "the catalog asks"))]
    pub fn allows_somewhere(&self, access_key: &str, action: &str) -> bool {
        self.allows_as(access_key, action, |_| true)
    }

    /// Whether the holder of `access_key` may do everything.
    #[cfg_attr(not(feature = "iceberg"), expect(dead_code, reason = "the catalog asks"))]
    pub fn allows_everything(&self, access_key: &str) -> bool {
        self.0.get(access_key).is_some_and(|it| it.actions.iter().any(|action| action == "*"))
    }

    fn allows_as(
        &self,
        access_key: &str,
        action: &str,
        covers: impl Fn(Option<&str>) -> bool,
    ) -> bool {
        let Some(principal) = self.0.get(access_key) else { return false };
        let family = action.split(':').next().unwrap_or_default();
        principal.actions.iter().any(|allowed| {
            let (allowed, pattern) = match allowed.split_once('@') {
                Some((allowed, pattern)) => (allowed, Some(pattern)),
                None => (allowed.as_str(), None),
            };
            let is_meant = allowed == "*"
                || allowed == action
                || allowed.strip_suffix(":*").is_some_and(|allowed| allowed == family);
            is_meant && covers(pattern)
        })
    }
}

/// Locks of the table catalog that a request holds until it is answered.
#[derive(Clone)]
struct Holds(#[expect(dead_code, reason = "held for its drop")] Arc<Pass>);

/// Lets a request pass by the rights of whom its bucket belongs to, and by those of the table that owns its key; `pass`
/// is to be held until it is answered.
///
/// # Errors
///
/// As [`Rights::may`] and [`Catalog::pass`] have them.
pub async fn permit(
    rights: &Rights,
    catalog: &Catalog,
    asked: &Asked<'_>,
    pass: &mut Pass,
) -> S3Result<()> {
    rights.may(asked).await?;
    let (Some(access), Some(key)) = (bridge::access(asked.operation), asked.key) else {
        return Ok(());
    };
    match rights.bucket(asked.bucket).await {
        Ok(bucket) if bucket.is_table_bucket => {
            catalog.pass(pass, asked.caller, asked.bucket, key, access).await
        }
        Ok(_) | Err(StoreError::NoSuchBucket(_)) => Ok(()),
        Err(error) => Err(errors::s3_error(&error)),
    }
}

/// What s3s asks about signatures and actions.
#[derive(Clone)]
pub struct Gate {
    /// The principals.
    pub principals: Principals,
    /// Who may do what.
    pub rights: Arc<Rights>,
    /// What the table catalog says to it.
    pub catalog: Arc<Catalog>,
    /// Counts operations.
    pub metrics: Arc<Metrics>,
}

#[async_trait::async_trait]
impl S3Auth for Gate {
    async fn get_secret_key(&self, access_key: &str) -> S3Result<SecretKey> {
        let secret = self.principals.secret(access_key);
        secret.map(SecretKey::from).ok_or_else(|| s3_error!(InvalidAccessKeyId))
    }
}

#[async_trait::async_trait]
impl S3Access for Gate {
    async fn check(&self, context: &mut S3AccessContext<'_>) -> S3Result<()> {
        let from = context.extensions_mut().get().copied();
        let operation = context.s3_op().name();
        self.metrics.operation(operation);
        if operation == "PostObject" {
            // s3s would make a PUT of it, and leave out the fields of the form that it does not know: those that are
            // posted as they should be were taken before ([`super::forms`]).
            return Err(s3_error!(NotImplemented, "a form is posted to a bucket, without a query"));
        }
        let caller = context.credentials().map(|credentials| credentials.access_key.as_str());
        let path = context.s3_path();
        let Some(bucket) = path.get_bucket_name().filter(|_| operation != "CreateBucket") else {
            let allowed = self.rights.has_action(caller, operation);
            return if allowed { Ok(()) } else { Err(s3_error!(AccessDenied)) };
        };
        // These say in their bodies what they are about, and are asked for where that is known.
        if LATER.contains(&operation) {
            return Ok(());
        }
        let version = version_of(context.uri())?;
        let asked = Asked {
            caller,
            operation,
            bucket,
            key: path.get_object_key(),
            version,
            headers: context.headers(),
            uri: context.uri(),
            tags: None,
            from,
        };
        let mut pass = Pass::default();
        // The source first: reading it may have to wait for what writing the target would hold.
        self.source(&asked, context.headers(), &mut pass).await?;
        permit(&self.rights, &self.catalog, &asked, &mut pass).await?;
        if !pass.is_empty() {
            context.extensions_mut().insert(Holds(Arc::new(pass)));
        }
        Ok(())
    }
}

impl Gate {
    /// Lets a request read what it copies.
    async fn source(
        &self,
        asked: &Asked<'_>,
        headers: &HeaderMap,
        pass: &mut Pass,
    ) -> S3Result<()> {
        let Some(source) = headers.get("x-amz-copy-source") else { return Ok(()) };
        if !["CopyObject", "UploadPartCopy"].contains(&asked.operation) {
            return Ok(());
        }
        let source = source.to_str().ok().and_then(|source| CopySource::parse(source).ok());
        // What is no source is refused by the operation.
        let Some(CopySource::Bucket { bucket, key, version_id }) = source else { return Ok(()) };
        let sent = headers;
        let mut headers = HeaderMap::new();
        if let Some(expected) = sent.get("x-amz-source-expected-bucket-owner") {
            headers.insert("x-amz-expected-bucket-owner", expected.clone());
        }
        let asked = Asked {
            operation: "GetObject",
            bucket: &bucket,
            key: Some(&key),
            version: convert::version(version_id.map(String::from))?,
            headers: &headers,
            ..*asked
        };
        permit(&self.rights, &self.catalog, &asked, pass).await
    }
}

/// The version that a request names.
fn version_of(uri: &http::Uri) -> S3Result<Option<VersionId>> {
    let pairs = uri.query().unwrap_or_default().split('&');
    let version =
        pairs.filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == "versionId");
    convert::version(version.map(|(_, version)| convert::decoded(version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_action_allows_is_denied() {
        let principal = |actions: &[&str]| KnownPrincipal {
            secret: "secret".to_owned(),
            actions: actions.iter().map(|action| (*action).to_owned()).collect(),
            account: "mine".to_owned(),
        };
        let principals = Principals::new(BTreeMap::from([
            ("all".to_owned(), principal(&["*"])),
            ("reader".to_owned(), principal(&["s3:GetObject", "admin:*"])),
            ("nobody".to_owned(), principal(&[])),
            ("tables".to_owned(), principal(&["admin:CommitTable@lake/namespaces/a/*"])),
        ]));
        for (who, action, allowed) in [
            ("all", "s3:PutObject", true),
            ("all", "admin:Heal", true),
            ("reader", "s3:GetObject", true),
            ("reader", "s3:PutObject", false),
            ("reader", "admin:Heal", true),
            ("nobody", "s3:GetObject", false),
            ("tables", "admin:CommitTable", false),
            ("stranger", "s3:GetObject", false),
        ] {
            assert_eq!(principals.allows(who, action), allowed, "{who} {action}");
        }
        for (who, resource, allowed) in [
            ("tables", "lake/namespaces/a/tables/t", true),
            ("tables", "lake/namespaces/b/tables/t", false),
            ("reader", "lake/namespaces/b/tables/t", true),
            ("nobody", "lake/namespaces/a/tables/t", false),
        ] {
            let is_allowed = principals.allows_on(who, "admin:CommitTable", resource);
            assert_eq!(is_allowed, allowed, "{who} {resource}");
        }
        for (who, is_root) in [("all", true), ("reader", false), ("stranger", false)] {
            assert_eq!(principals.allows_everything(who), is_root, "{who}");
        }
        assert_eq!(principals.secret("stranger"), None);
        assert_eq!(principals.account("reader"), Some("mine"));
    }
}
