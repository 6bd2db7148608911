//! Operations on buckets.

use s3s::S3Request;
use s3s::S3Response;
use s3s::S3Result;
use s3s::dto::*;
use s3s::s3_error;

use super::Gateway;
use super::convert;
use super::errors;
use super::grants;
use super::rights::acl_of;
use super::unsupported;
use crate::node::store::api::BucketInfo;
use crate::node::store::api::StoreError;
use crate::protocol::access::ACCOUNT;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::object::effect::BucketState;

/// The only region there is.
pub const REGION: &str = "us-east-1";

impl Gateway {
    /// The store's error as S3 has it.
    pub(super) fn refusal(&self, error: &StoreError) -> s3s::S3Error {
        errors::s3_error(error)
    }
}

/// `ListBuckets`.
pub async fn list_buckets(
    gateway: &Gateway,
    request: S3Request<ListBucketsInput>,
) -> S3Result<S3Response<ListBucketsOutput>> {
    let input = request.input;
    let listed = gateway.store.list_buckets().await.map_err(|error| gateway.refusal(&error))?;
    let prefix = input.prefix.clone().unwrap_or_default();
    let after = input.continuation_token.unwrap_or_default();
    let account = gateway.account(request.credentials.as_ref());
    let most = usize::try_from(input.max_buckets.unwrap_or(10_000)).unwrap_or(0);
    let mut buckets: Vec<BucketInfo> = listed
        .into_iter()
        .filter(|bucket| account.as_deref() == Some(&*acl_of(bucket).owner.id))
        .filter(|bucket| bucket.name.starts_with(&prefix) && bucket.name > after)
        .collect();
    let is_truncated = buckets.len() > most;
    buckets.truncate(most);
    let last = buckets.last().map(|bucket| bucket.name.clone());
    let buckets = buckets.into_iter().map(|bucket| Bucket {
        bucket_region: input.bucket_region.as_ref().map(|_| REGION.to_owned()),
        creation_date: convert::time(bucket.created_ns),
        name: Some(bucket.name),
    });
    Ok(S3Response::new(ListBucketsOutput {
        buckets: Some(buckets.collect()),
        continuation_token: last.filter(|_| is_truncated),
        owner: account.as_deref().map(grants::owner),
        prefix: input.prefix,
    }))
}

/// `CreateBucket`.
pub async fn create_bucket(
    gateway: &Gateway,
    request: S3Request<CreateBucketInput>,
) -> S3Result<S3Response<CreateBucketOutput>> {
    unsupported::refuse_but_grants(&request.headers)?;
    let input = request.input;
    let place = input.create_bucket_configuration.and_then(|given| given.location_constraint);
    if place.is_some_and(|place| place.as_str() != REGION) {
        return Err(s3_error!(InvalidLocationConstraint));
    }
    let account =
        gateway.account(request.credentials.as_ref()).unwrap_or_else(|| ACCOUNT.to_owned());
    let acl = grants::in_headers(&request.headers, &account, &account)?;
    gateway.known(&acl)?;
    let is_plain = acl.is_private() && account == ACCOUNT;
    let document = if is_plain { Vec::new() } else { acl.encode().into_bytes() };
    let created = gateway.store.create_bucket_of(&input.bucket, document).await;
    gateway.rights.forget(&input.bucket);
    if let Err(error) = created {
        let is_there = matches!(error, StoreError::BucketExists(_));
        return Err(match is_there && gateway.owner(&input.bucket).await? != account {
            true => s3_error!(BucketAlreadyExists),
            false => gateway.refusal(&error),
        });
    }
    let location = Some(format!("/{}", input.bucket));
    Ok(S3Response::new(CreateBucketOutput { location }))
}

/// `DeleteBucket`.
pub async fn delete_bucket(
    gateway: &Gateway,
    request: S3Request<DeleteBucketInput>,
) -> S3Result<S3Response<DeleteBucketOutput>> {
    let bucket = &request.input.bucket;
    let deleted = gateway.catalog.remove_bucket(bucket).await;
    gateway.rights.forget(bucket);
    match deleted {
        Ok(deleted) => deleted.map_err(|error| gateway.refusal(&error))?,
        Err(refusal) if refusal.class == Class::Unavailable => {
            return Err(s3_error!(SlowDown, "{}", refusal.text));
        }
        Err(refusal) => return Err(s3_error!(BucketNotEmpty, "{}", refusal.text)),
    }
    Ok(S3Response::new(DeleteBucketOutput::default()))
}

/// `HeadBucket`.
pub async fn head_bucket(
    gateway: &Gateway,
    request: S3Request<HeadBucketInput>,
) -> S3Result<S3Response<HeadBucketOutput>> {
    find(gateway, &request.input.bucket).await?;
    let bucket_region = Some(REGION.to_owned());
    Ok(S3Response::new(HeadBucketOutput { bucket_region, ..HeadBucketOutput::default() }))
}

/// `GetBucketLocation`: an empty constraint means the one region there is.
pub async fn get_bucket_location(
    gateway: &Gateway,
    request: S3Request<GetBucketLocationInput>,
) -> S3Result<S3Response<GetBucketLocationOutput>> {
    find(gateway, &request.input.bucket).await?;
    Ok(S3Response::new(GetBucketLocationOutput::default()))
}

/// `GetBucketVersioning`.
pub async fn get_bucket_versioning(
    gateway: &Gateway,
    request: S3Request<GetBucketVersioningInput>,
) -> S3Result<S3Response<GetBucketVersioningOutput>> {
    let bucket = find(gateway, &request.input.bucket).await?;
    let status = match bucket.state {
        BucketState::Unversioned => None,
        BucketState::Enabled => Some(BucketVersioningStatus::ENABLED),
        BucketState::Suspended => Some(BucketVersioningStatus::SUSPENDED),
    };
    let status = status.map(BucketVersioningStatus::from_static);
    Ok(S3Response::new(GetBucketVersioningOutput { mfa_delete: None, status }))
}

/// `PutBucketVersioning`.
pub async fn put_bucket_versioning(
    gateway: &Gateway,
    request: S3Request<PutBucketVersioningInput>,
) -> S3Result<S3Response<PutBucketVersioningOutput>> {
    unsupported::refuse(&request.headers)?;
    let input = request.input;
    let wanted = input.versioning_configuration;
    if wanted.mfa_delete.is_some_and(|mfa| mfa.as_str() != MFADelete::DISABLED) {
        return Err(s3_error!(NotImplemented, "MfaDelete is not implemented"));
    }
    let state = match wanted.status.as_ref().map(BucketVersioningStatus::as_str) {
        Some(BucketVersioningStatus::ENABLED) => BucketState::Enabled,
        Some(BucketVersioningStatus::SUSPENDED) => BucketState::Suspended,
        _ => return Err(s3_error!(IllegalVersioningConfigurationException)),
    };
    let set = gateway.store.set_versioning(&input.bucket, state).await;
    set.map_err(|error| gateway.refusal(&error))?;
    Ok(S3Response::new(PutBucketVersioningOutput::default()))
}

async fn find(gateway: &Gateway, bucket: &str) -> S3Result<BucketInfo> {
    gateway.store.bucket(bucket).await.map_err(|error| gateway.refusal(&error))
}
