//! Grants of buckets and objects, and bucket policies.

use http::HeaderMap;
use s3s::S3Request;
use s3s::S3Response;
use s3s::S3Result;
use s3s::auth::Credentials;
use s3s::dto;
use s3s::dto::*;
use s3s::s3_error;

use super::Gateway;
use super::convert;
use super::rights::acl_of;
use super::rights::object_acl;
use super::unsupported;
use crate::node::store::api::Amendment;
use crate::node::store::api::BucketDocument;
use crate::node::store::api::BucketInfo;
use crate::node::store::api::ReadRequest;
use crate::protocol::access::ACCOUNT;
use crate::protocol::access::acl;
use crate::protocol::access::acl::Acl;
use crate::protocol::access::policy;
use crate::protocol::access::policy::PolicyFault;
use crate::protocol::object::condition::Conditions;

impl Gateway {
    /// The account of whoever signed; what nobody signed is the bucket owner's.
    pub(super) fn account(&self, caller: Option<&Credentials>) -> Option<String> {
        let caller = caller.map(|caller| caller.access_key.as_str());
        self.rights.who(caller).account().map(str::to_owned)
    }

    /// Refuses a list that grants something to an account that there is not.
    pub(super) fn known(&self, acl: &Acl) -> S3Result<()> {
        let mut accounts = acl.grants.iter().filter_map(|grant| grant.grantee.id.as_deref());
        match accounts.find(|id| *id != acl.owner.id && !self.rights.has_account(id)) {
            Some(id) => Err(s3_error!(InvalidArgument, "there is no account {id}")),
            None => Ok(()),
        }
    }

    /// The account that owns a bucket.
    pub(super) async fn owner(&self, bucket: &str) -> S3Result<String> {
        let rights = self.rights.bucket(bucket).await.map_err(|error| self.refusal(&error))?;
        Ok(rights.owner().to_owned())
    }

    /// What a new object keeps of its owner and grants: nothing when it is simply the bucket owner's.
    pub(super) async fn new_acl(
        &self,
        bucket: &str,
        headers: &HeaderMap,
        caller: Option<&Credentials>,
    ) -> S3Result<Option<String>> {
        let bucket_owner = self.owner(bucket).await?;
        let owner = self.account(caller).unwrap_or_else(|| bucket_owner.clone());
        let acl = in_headers(headers, &owner, &bucket_owner)?;
        self.known(&acl)?;
        Ok(kept(&acl, &bucket_owner))
    }
}

/// Headers that grant something, and what.
const GRANTING: [(&str, acl::Permission); 5] = [
    ("x-amz-grant-read", acl::Permission::Read),
    ("x-amz-grant-write", acl::Permission::Write),
    ("x-amz-grant-read-acp", acl::Permission::ReadAcp),
    ("x-amz-grant-write-acp", acl::Permission::WriteAcp),
    ("x-amz-grant-full-control", acl::Permission::FullControl),
];

/// The list that a request's headers name, or give in full.
pub fn in_headers(headers: &HeaderMap, owner: &str, bucket_owner: &str) -> S3Result<Acl> {
    let name = match headers.get("x-amz-acl") {
        None => None,
        Some(name) => {
            Some(name.to_str().map_err(|_| s3_error!(InvalidArgument, "x-amz-acl is not text"))?)
        }
    };
    match (name, granted(headers, owner)?) {
        (Some(_), Some(_)) => Err(both()),
        (None, Some(acl)) => Ok(acl),
        (name, None) => named(name.unwrap_or("private"), owner, bucket_owner),
    }
}

/// The list that headers give in full: `id="account"`, `uri="group"`, separated by commas.
fn granted(headers: &HeaderMap, owner: &str) -> S3Result<Option<Acl>> {
    let mut acl = Acl { owner: acl::Owner::of(owner), grants: Vec::new() };
    for (name, permission) in GRANTING {
        let Some(value) = headers.get(name) else { continue };
        let malformed =
            || s3_error!(InvalidArgument, "{name} has grantees as id=\"…\" or uri=\"…\"");
        for grantee in value.to_str().map_err(|_| malformed())?.split(',') {
            let (kind, value) = grantee.split_once('=').ok_or_else(malformed)?;
            let value = value.trim().trim_matches('"');
            let grantee = match kind.trim().to_ascii_lowercase().as_str() {
                "id" => acl::Grantee::account(value),
                "uri" => acl::Grantee::group(value),
                "emailaddress" => return Err(no_addresses()),
                _ => return Err(malformed()),
            };
            acl.grants.push(acl::Grant { grantee, permission });
        }
    }
    match (acl.grants.is_empty(), acl.fault()) {
        (true, _) => Ok(None),
        (false, None) => Ok(Some(acl)),
        (false, Some(why)) => Err(s3_error!(InvalidArgument, "{why}")),
    }
}

fn no_addresses() -> s3s::S3Error {
    let code = s3s::S3ErrorCode::UnresolvableGrantByEmailAddress;
    s3s::S3Error::with_message(code, "accounts have no addresses")
}

fn both() -> s3s::S3Error {
    s3_error!(InvalidRequest, "a list is given by its name or in full")
}

/// The list with a canned name.
pub fn named(name: &str, owner: &str, bucket_owner: &str) -> S3Result<Acl> {
    let unknown = || match name {
        "aws-exec-read" | "log-delivery-write" => {
            s3_error!(NotImplemented, "the list {name} is not implemented")
        }
        _ => s3_error!(InvalidArgument, "there is no list {name}"),
    };
    Acl::canned(name, owner, bucket_owner).ok_or_else(unknown)
}

/// What is kept of an object's list.
pub fn kept(acl: &Acl, bucket_owner: &str) -> Option<String> {
    (acl.owner.id != bucket_owner || !acl.is_private()).then(|| acl.encode())
}

/// An account as answers have it.
pub fn owner(account: &str) -> dto::Owner {
    dto::Owner { display_name: Some(account.to_owned()), id: Some(account.to_owned()) }
}

/// `GetBucketAcl`.
pub async fn get_bucket_acl(
    gateway: &Gateway,
    request: S3Request<GetBucketAclInput>,
) -> S3Result<S3Response<GetBucketAclOutput>> {
    let acl = acl_of(&find(gateway, &request.input.bucket).await?);
    let (owner, grants) = printed(acl);
    Ok(S3Response::new(GetBucketAclOutput { grants: Some(grants), owner: Some(owner) }))
}

/// `PutBucketAcl`.
pub async fn put_bucket_acl(
    gateway: &Gateway,
    request: S3Request<PutBucketAclInput>,
) -> S3Result<S3Response<PutBucketAclOutput>> {
    unsupported::refuse_but_grants(&request.headers)?;
    let input = request.input;
    let owner = acl_of(&find(gateway, &input.bucket).await?).owner.id;
    let acl = asked(
        input.acl.as_ref().map(BucketCannedACL::as_str),
        &request.headers,
        input.access_control_policy,
        &owner,
        &owner,
    )?;
    gateway.known(&acl)?;
    // What says no more than what was always there says nothing.
    let is_plain = acl.is_private() && owner == ACCOUNT;
    let document = if is_plain { Vec::new() } else { acl.encode().into_bytes() };
    set(gateway, &input.bucket, BucketDocument::Acl, document).await?;
    Ok(S3Response::new(PutBucketAclOutput::default()))
}

/// `GetObjectAcl`.
pub async fn get_object_acl(
    gateway: &Gateway,
    request: S3Request<GetObjectAclInput>,
) -> S3Result<S3Response<GetObjectAclOutput>> {
    let input = request.input;
    let bucket_owner = gateway.owner(&input.bucket).await?;
    let info = gateway.info(input.bucket, input.key, input.version_id).await?;
    let (owner, grants) = printed(object_acl(&info, &bucket_owner));
    Ok(S3Response::new(GetObjectAclOutput {
        grants: Some(grants),
        owner: Some(owner),
        request_charged: None,
    }))
}

/// `PutObjectAcl`.
pub async fn put_object_acl(
    gateway: &Gateway,
    request: S3Request<PutObjectAclInput>,
) -> S3Result<S3Response<PutObjectAclOutput>> {
    unsupported::refuse_but_grants(&request.headers)?;
    let input = request.input;
    let bucket_owner = gateway.owner(&input.bucket).await?;
    let target = convert::target(input.bucket, input.key);
    let version = convert::version(input.version_id)?;
    let conditions = Conditions::default();
    let read = ReadRequest { target: target.clone(), version, range: None, part: None, conditions };
    let info = gateway.store.head(read).await.map_err(|error| gateway.refusal(&error))?;
    let owner = object_acl(&info, &bucket_owner).owner.id;
    let canned = input.acl.as_ref().map(ObjectCannedACL::as_str);
    let given = input.access_control_policy;
    let acl = asked(canned, &request.headers, given, &owner, &bucket_owner)?;
    gateway.known(&acl)?;
    // The version that was looked at, and not one that was written since.
    let version = info.names_version.then_some(info.version);
    let amendment = Amendment::Acl(kept(&acl, &bucket_owner));
    let amended = gateway.store.amend(&target, version, amendment).await;
    amended.map_err(|error| gateway.refusal(&error))?;
    Ok(S3Response::new(PutObjectAclOutput::default()))
}

/// `GetBucketPolicy`.
pub async fn get_bucket_policy(
    gateway: &Gateway,
    request: S3Request<GetBucketPolicyInput>,
) -> S3Result<S3Response<GetBucketPolicyOutput>> {
    let policy = policy_of(&find(gateway, &request.input.bucket).await?)?;
    Ok(S3Response::new(GetBucketPolicyOutput { policy: Some(policy) }))
}

/// `GetBucketPolicyStatus`.
pub async fn get_bucket_policy_status(
    gateway: &Gateway,
    request: S3Request<GetBucketPolicyStatusInput>,
) -> S3Result<S3Response<GetBucketPolicyStatusOutput>> {
    let bucket = find(gateway, &request.input.bucket).await?;
    let policy = policy::Policy::parse(&policy_of(&bucket)?, &bucket.name).map_err(refusal)?;
    let status = PolicyStatus { is_public: Some(policy.is_public()) };
    Ok(S3Response::new(GetBucketPolicyStatusOutput { policy_status: Some(status) }))
}

/// `PutBucketPolicy`.
pub async fn put_bucket_policy(
    gateway: &Gateway,
    request: S3Request<PutBucketPolicyInput>,
) -> S3Result<S3Response<PutBucketPolicyOutput>> {
    unsupported::refuse(&request.headers)?;
    let input = request.input;
    policy::Policy::parse(&input.policy, &input.bucket).map_err(refusal)?;
    let document = input.policy.into_bytes();
    set(gateway, &input.bucket, BucketDocument::Policy, document).await?;
    Ok(S3Response::new(PutBucketPolicyOutput::default()))
}

/// `DeleteBucketPolicy`.
pub async fn delete_bucket_policy(
    gateway: &Gateway,
    request: S3Request<DeleteBucketPolicyInput>,
) -> S3Result<S3Response<DeleteBucketPolicyOutput>> {
    set(gateway, &request.input.bucket, BucketDocument::Policy, Vec::new()).await?;
    Ok(S3Response::new(DeleteBucketPolicyOutput::default()))
}

async fn find(gateway: &Gateway, bucket: &str) -> S3Result<BucketInfo> {
    gateway.store.bucket(bucket).await.map_err(|error| gateway.refusal(&error))
}

async fn set(
    gateway: &Gateway,
    bucket: &str,
    document: BucketDocument,
    contents: Vec<u8>,
) -> S3Result<()> {
    let set = gateway.store.set_document(bucket, document, contents).await;
    gateway.rights.forget(bucket);
    set.map_err(|error| gateway.refusal(&error))
}

fn policy_of(bucket: &BucketInfo) -> S3Result<String> {
    if bucket.policy.is_empty() {
        return Err(s3_error!(NoSuchBucketPolicy));
    }
    Ok(String::from_utf8_lossy(&bucket.policy).into_owned())
}

fn refusal(fault: PolicyFault) -> s3s::S3Error {
    match fault {
        PolicyFault::Malformed(why) => s3_error!(MalformedPolicy, "{why}"),
        PolicyFault::Unsupported(what) => s3_error!(NotImplemented, "{what} is not implemented"),
    }
}

/// The list that a request asks for, by its canned name or in full.
fn asked(
    canned: Option<&str>,
    headers: &HeaderMap,
    given: Option<AccessControlPolicy>,
    owner: &str,
    bucket_owner: &str,
) -> S3Result<Acl> {
    let given = match (canned, granted(headers, owner)?, given) {
        (Some(name), None, None) => return named(name, owner, bucket_owner),
        (None, Some(acl), None) => return Ok(acl),
        (None, None, Some(given)) => given,
        (None, None, None) => {
            return Err(s3_error!(MissingSecurityHeader, "no list is given"));
        }
        _ => return Err(both()),
    };
    if given.owner.and_then(|given| given.id).is_some_and(|given| given != owner) {
        return Err(s3_error!(AccessDenied, "an owner cannot be changed"));
    }
    let mut acl = Acl { owner: acl::Owner::of(owner), grants: Vec::new() };
    for grant in given.grants.unwrap_or_default() {
        let malformed = || s3_error!(MalformedACLError, "a grant has a grantee and a permission");
        let grantee = grant.grantee.ok_or_else(malformed)?;
        let permission = grant.permission.as_ref().map(Permission::as_str);
        let permission = permission.and_then(acl::Permission::by_name).ok_or_else(malformed)?;
        if grantee.email_address.is_some() {
            return Err(no_addresses());
        }
        let grantee = match (grantee.id, grantee.uri) {
            (Some(id), None) => acl::Grantee::account(&id),
            (None, Some(uri)) => acl::Grantee::group(&uri),
            _ => return Err(malformed()),
        };
        acl.grants.push(acl::Grant { grantee, permission });
    }
    match acl.fault() {
        None => Ok(acl),
        Some(why) => Err(s3_error!(InvalidArgument, "{why}")),
    }
}

/// A list as answers have it: what groups may do stands first, as clients have come to expect.
fn printed(mut acl: Acl) -> (dto::Owner, Vec<Grant>) {
    acl.grants.sort_by_key(|grant| grant.grantee.uri.is_none());
    let grant = |grant: acl::Grant| Grant {
        permission: Some(Permission::from_static(grant.permission.name())),
        grantee: Some(Grantee {
            display_name: grant.grantee.display_name,
            email_address: None,
            id: grant.grantee.id,
            type_: Type::from(grant.grantee.grantee_type),
            uri: grant.grantee.uri,
        }),
    };
    (owner(&acl.owner.id), acl.grants.into_iter().map(grant).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_says_more_than_who_owns_the_bucket_is_kept() {
        let of =
            |name: &str, owner: &str| kept(&named(name, owner, "main").expect("known"), "main");
        assert_eq!(of("private", "main"), None);
        assert_eq!(of("bucket-owner-full-control", "main"), None);
        assert!(of("public-read", "main").is_some());
        assert!(of("private", "other").is_some());
        assert_eq!(
            named("log-delivery-write", "m", "m").expect_err("none").code().as_str(),
            "NotImplemented"
        );
        assert_eq!(
            named("nonsense", "m", "m").expect_err("none").code().as_str(),
            "InvalidArgument"
        );
    }

    #[test]
    fn headers_give_a_list_in_full_or_its_name() {
        let headers = |pairs: &[(&'static str, &'static str)]| {
            let pairs = pairs.iter().map(|(name, value)| {
                (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
            });
            pairs.collect::<HeaderMap>()
        };
        let everyone = "uri=\"http://acs.amazonaws.com/groups/global/AllUsers\", id=other";
        let both =
            headers(&[("x-amz-grant-read", everyone), ("x-amz-grant-write-acp", "id=\"x\"")]);
        let acl = in_headers(&both, "main", "main").expect("sound");
        let (_, grants) = printed(acl);
        let ids: Vec<_> =
            grants.iter().map(|it| it.grantee.as_ref().and_then(|it| it.id.clone())).collect();
        assert_eq!(ids, [None, Some("other".to_owned()), Some("x".to_owned())]);
        assert!(in_headers(&headers(&[]), "main", "main").expect("sound").is_private());
        for (pairs, code) in [
            (
                &[("x-amz-grant-read", "emailAddress=\"a@b\"")][..],
                "UnresolvableGrantByEmailAddress",
            ),
            (&[("x-amz-grant-read", "other")], "InvalidArgument"),
            (&[("x-amz-grant-read", "uri=\"http://x\"")], "InvalidArgument"),
            (&[("x-amz-grant-read", "id=x"), ("x-amz-acl", "private")], "InvalidRequest"),
        ] {
            let refused = in_headers(&headers(pairs), "main", "main").expect_err(code);
            assert_eq!(refused.code().as_str(), code, "{pairs:?}");
        }
    }

    #[test]
    fn a_list_in_full_is_taken_as_it_is_given() {
        let given = |grantee: Grantee, permission: &'static str| AccessControlPolicy {
            owner: Some(owner("main")),
            grants: Some(vec![Grant {
                grantee: Some(grantee),
                permission: Some(Permission::from_static(permission)),
            }]),
        };
        let of = |kind: &'static str| Grantee {
            display_name: None,
            email_address: None,
            id: None,
            type_: Type::from_static(kind),
            uri: None,
        };
        let account = Grantee { id: Some("other".to_owned()), ..of("CanonicalUser") };
        let acl = asked(
            None,
            &HeaderMap::new(),
            Some(given(account.clone(), "WRITE_ACP")),
            "main",
            "main",
        )
        .expect("sound");
        let (_, grants) = printed(acl);
        assert_eq!(grants[0].grantee.as_ref().and_then(|it| it.id.as_deref()), Some("other"));
        assert_eq!(grants.len(), 1);
        let mail = Grantee { email_address: Some("a@b".to_owned()), ..of("AmazonCustomerByEmail") };
        let group = Grantee { uri: Some("http://x".to_owned()), ..of("Group") };
        for (canned, list, code) in [
            (None, Some(given(mail, "READ")), "UnresolvableGrantByEmailAddress"),
            (None, Some(given(group, "READ")), "InvalidArgument"),
            (None, Some(given(account.clone(), "EAT")), "MalformedACLError"),
            (Some("private"), Some(given(account, "READ")), "InvalidRequest"),
            (None, None, "MissingSecurityHeader"),
        ] {
            let none = HeaderMap::new();
            let refused = asked(canned, &none, list, "main", "main").expect_err(code);
            assert_eq!(refused.code().as_str(), code);
        }
    }
}
