//! Who may do what: principals and their actions, from the node's configuration.
//!
//! An action is `s3:` and the operation's name (`s3:PutObject`), or `admin:` and an administrative one;
//! `*` allows everything, `s3:*` and `admin:*` one family. What no action allows is denied, and so is
//! whoever does not sign.

use std::collections::BTreeMap;
use std::sync::Arc;

use s3s::S3Result;
use s3s::access::S3Access;
use s3s::access::S3AccessContext;
use s3s::auth::S3Auth;
use s3s::auth::SecretKey;
use s3s::s3_error;

use crate::node::metrics::Metrics;

/// One principal, with its secret.
#[derive(Clone)]
pub struct KnownPrincipal {
    /// Its secret key.
    pub secret: String,
    /// What it may do.
    pub actions: Vec<String>,
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

    /// Whether the holder of `access_key` may do `action`.
    pub fn allows(&self, access_key: &str, action: &str) -> bool {
        let Some(principal) = self.0.get(access_key) else { return false };
        let family = action.split(':').next().unwrap_or_default();
        principal.actions.iter().any(|allowed| {
            allowed == "*"
                || allowed == action
                || allowed.strip_suffix(":*").is_some_and(|allowed| allowed == family)
        })
    }
}

/// What s3s asks about signatures and actions.
#[derive(Clone)]
pub struct Gate {
    /// The principals.
    pub principals: Principals,
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
        let operation = context.s3_op().name();
        self.metrics.operation(operation);
        let allowed = context.credentials().is_some_and(|credentials| {
            self.principals.allows(&credentials.access_key, &format!("s3:{operation}"))
        });
        if allowed { Ok(()) } else { Err(s3_error!(AccessDenied)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_action_allows_is_denied() {
        let principal = |actions: &[&str]| KnownPrincipal {
            secret: "secret".to_owned(),
            actions: actions.iter().map(|action| (*action).to_owned()).collect(),
        };
        let principals = Principals::new(BTreeMap::from([
            ("all".to_owned(), principal(&["*"])),
            ("reader".to_owned(), principal(&["s3:GetObject", "admin:*"])),
            ("nobody".to_owned(), principal(&[])),
        ]));
        for (who, action, allowed) in [
            ("all", "s3:PutObject", true),
            ("all", "admin:Heal", true),
            ("reader", "s3:GetObject", true),
            ("reader", "s3:PutObject", false),
            ("reader", "admin:Heal", true),
            ("nobody", "s3:GetObject", false),
            ("stranger", "s3:GetObject", false),
        ] {
            assert_eq!(principals.allows(who, action), allowed, "{who} {action}");
        }
        assert_eq!(principals.secret("stranger"), None);
    }
}
