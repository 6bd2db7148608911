//! Lists of grants, of buckets and of objects.
//!
//! Stored as JSON in the shape in which RustFS stores them.

use serde::Deserialize;
use serde::Serialize;

use super::Who;

/// The group of everybody.
pub const EVERYONE: &str = "http://acs.amazonaws.com/groups/global/AllUsers";
/// The group of all principals.
pub const SIGNED: &str = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers";
/// The most grants of one list.
const GRANTS_MAX: usize = 100;

/// An owner, and what others may do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acl {
    /// The account that may do everything.
    pub owner: Owner,
    /// What is granted.
    pub grants: Vec<Grant>,
}

/// An owner.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its account.
    pub id: String,
    /// What it is called.
    pub display_name: String,
}

/// One grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// To whom.
    pub grantee: Grantee,
    /// What.
    pub permission: Permission,
}

/// Who is granted something: an account by its `id`, or a group by its `uri`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grantee {
    /// `CanonicalUser` or `Group`.
    pub grantee_type: String,
    /// The account.
    pub id: Option<String>,
    /// What it is called.
    pub display_name: Option<String>,
    /// The group.
    pub uri: Option<String>,
    /// Always nothing: there are no addresses.
    pub email_address: Option<String>,
}

/// What can be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Permission {
    /// To list a bucket, or to read an object.
    Read,
    /// To write into a bucket.
    Write,
    /// To read the list.
    ReadAcp,
    /// To change the list.
    WriteAcp,
    /// All of them.
    FullControl,
}

impl Permission {
    /// All, with the names that S3 gives them.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Read, "READ"),
        (Self::Write, "WRITE"),
        (Self::ReadAcp, "READ_ACP"),
        (Self::WriteAcp, "WRITE_ACP"),
        (Self::FullControl, "FULL_CONTROL"),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(one, _)| *one == self).expect("all are listed").1
    }

    /// The one with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(one, _)| *one)
    }
}

impl Owner {
    /// An account.
    pub fn of(account: &str) -> Self {
        Self { id: account.to_owned(), display_name: account.to_owned() }
    }
}

impl Grantee {
    /// An account.
    pub fn account(account: &str) -> Self {
        Self {
            grantee_type: "CanonicalUser".to_owned(),
            id: Some(account.to_owned()),
            display_name: Some(account.to_owned()),
            uri: None,
            email_address: None,
        }
    }

    /// A group.
    pub fn group(uri: &str) -> Self {
        Self {
            grantee_type: "Group".to_owned(),
            id: None,
            display_name: None,
            uri: Some(uri.to_owned()),
            email_address: None,
        }
    }

    fn is(&self, who: Who<'_>) -> bool {
        match (&self.id, &self.uri) {
            (Some(id), None) => who.account() == Some(id),
            (None, Some(uri)) => match uri.as_str() {
                EVERYONE => true,
                SIGNED => who != Who::Anyone,
                _ => false,
            },
            _ => false,
        }
    }
}

impl Acl {
    /// What nobody has said anything else of.
    pub fn private(owner: &str) -> Self {
        let own = Grant { grantee: Grantee::account(owner), permission: Permission::FullControl };
        Self { owner: Owner::of(owner), grants: vec![own] }
    }

    /// A canned list; `None` for a name that has no meaning here. `bucket_owner` matters for objects that another
    /// account writes.
    pub fn canned(name: &str, owner: &str, bucket_owner: &str) -> Option<Self> {
        let mut acl = Self::private(owner);
        let mut grant = |grantee: Grantee, permission: Permission| {
            acl.grants.push(Grant { grantee, permission });
        };
        match name {
            "private" => {}
            "public-read" => grant(Grantee::group(EVERYONE), Permission::Read),
            "public-read-write" => {
                grant(Grantee::group(EVERYONE), Permission::Read);
                grant(Grantee::group(EVERYONE), Permission::Write);
            }
            "authenticated-read" => grant(Grantee::group(SIGNED), Permission::Read),
            "bucket-owner-read" if bucket_owner != owner => {
                grant(Grantee::account(bucket_owner), Permission::Read);
            }
            "bucket-owner-full-control" if bucket_owner != owner => {
                grant(Grantee::account(bucket_owner), Permission::FullControl);
            }
            "bucket-owner-read" | "bucket-owner-full-control" => {}
            _ => return None,
        }
        Some(acl)
    }

    /// Whether the list says no more than that its owner owns it.
    pub fn is_private(&self) -> bool {
        *self == Self::private(&self.owner.id)
    }

    /// Whether it lets `who` do something. The owner may always read and change it.
    pub fn allows(&self, who: Who<'_>, permission: Permission) -> bool {
        let is_owner = who.account() == Some(self.owner.id.as_str());
        let always = matches!(permission, Permission::ReadAcp | Permission::WriteAcp);
        is_owner && always
            || self.grants.iter().any(|grant| {
                let covers = [permission, Permission::FullControl].contains(&grant.permission);
                covers && grant.grantee.is(who)
            })
    }

    /// Why it cannot be kept, if so.
    pub fn fault(&self) -> Option<String> {
        if self.grants.len() > GRANTS_MAX {
            return Some(format!("a list has at most {GRANTS_MAX} grants"));
        }
        let strange = |grant: &&Grant| match (&grant.grantee.id, &grant.grantee.uri) {
            (Some(id), None) => id.is_empty(),
            (None, Some(uri)) => ![EVERYONE, SIGNED].contains(&uri.as_str()),
            _ => true,
        };
        let strange = self.grants.iter().find(strange)?;
        Some(format!("{:?} names no account and no group", strange.grantee))
    }

    /// As it is stored.
    pub fn encode(&self) -> String {
        serde_json::to_string(self).expect("it is plain text")
    }

    /// Reads what is stored. What cannot be read grants nothing to anybody but `owner`.
    pub fn parse(stored: &[u8], owner: &str) -> Self {
        serde_json::from_slice(stored).unwrap_or_else(|_| Self::private(owner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: Who<'_> = Who::Principal { name: "o", account: "other" };
    const OWN: Who<'_> = Who::Principal { name: "me", account: "mine" };

    #[test]
    fn canned_lists_grant_what_their_names_say() {
        use Permission::*;
        let allowed = |canned: &str, who| {
            let acl = Acl::canned(canned, "mine", "mine").expect("a known name");
            let all = [Read, Write, ReadAcp, WriteAcp];
            all.into_iter().filter(|it| acl.allows(who, *it)).collect::<Vec<_>>()
        };
        for name in ["private", "public-read", "public-read-write", "authenticated-read"] {
            assert_eq!(allowed(name, OWN), [Read, Write, ReadAcp, WriteAcp], "{name}");
        }
        for (name, anyone, other) in [
            ("private", vec![], vec![]),
            ("public-read", vec![Read], vec![Read]),
            ("public-read-write", vec![Read, Write], vec![Read, Write]),
            ("authenticated-read", vec![], vec![Read]),
        ] {
            assert_eq!(allowed(name, Who::Anyone), anyone, "{name}");
            assert_eq!(allowed(name, OTHER), other, "{name}");
        }
        let given = Acl::canned("bucket-owner-full-control", "mine", "other").expect("known");
        assert!(given.allows(OTHER, Write) && !given.allows(Who::Anyone, Read));
        assert_eq!(Acl::canned("log-delivery-write", "mine", "mine"), None);
    }

    #[test]
    fn a_list_comes_back_and_a_spoilt_one_grants_nothing() {
        let acl = Acl::canned("public-read", "mine", "mine").expect("a known name");
        let stored = acl.encode();
        assert!(stored.contains(r#""permission":"READ""#), "{stored}");
        assert_eq!(Acl::parse(stored.as_bytes(), "x"), acl);
        assert!(!acl.is_private() && Acl::private("mine").is_private());
        let spoilt = Acl::parse(&stored.as_bytes()[1..], "mine");
        assert!(spoilt.is_private() && !spoilt.allows(Who::Anyone, Permission::Read));
    }

    #[test]
    fn whoever_owns_a_list_can_always_mend_it() {
        let acl = Acl { owner: Owner::of("mine"), grants: Vec::new() };
        assert!(acl.allows(OWN, Permission::WriteAcp) && !acl.allows(OWN, Permission::Read));
        assert_eq!(acl.fault(), None);
        let grant = |grantee| Grant { grantee, permission: Permission::Read };
        let strange = Grantee { id: None, ..Grantee::account("x") };
        for grantee in [Grantee::group("http://other"), Grantee::account(""), strange] {
            let acl = Acl { grants: vec![grant(grantee)], ..acl.clone() };
            assert!(acl.fault().is_some(), "{acl:?}");
        }
    }
}
