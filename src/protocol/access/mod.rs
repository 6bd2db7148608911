//! Who may do what with buckets and objects of others: grants, policies, and the tags that policies look at.
//!
//! A principal belongs to an account, and an account owns what its principals make. What a principal may do at
//! all stands in the node's configuration; whether it may do it to what another account owns is said by
//! that account, in a list of grants ([`acl`]) or in a bucket's policy ([`policy`]).

pub mod acl;
pub mod form;
pub(crate) mod operator;
pub mod policy;
pub mod tags;

/// The account that owns what nobody else was said to own.
pub const ACCOUNT: &str = "firedrill";

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who<'a> {
    /// Somebody who did not sign.
    Anyone,
    /// A principal.
    Principal {
        /// Its access key.
        name: &'a str,
        /// Its account.
        account: &'a str,
    },
}

impl<'a> Who<'a> {
    /// The account, of whoever has one.
    pub fn account(self) -> Option<&'a str> {
        match self {
            Self::Anyone => None,
            Self::Principal { account, .. } => Some(account),
        }
    }
}
