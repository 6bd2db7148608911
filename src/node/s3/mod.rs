//! S3 over the store: the operations of s3s's trait, each a few lines here and a function beside it.
//!
//! What is not in the trait's implementation answers `NotImplemented`, and so does a header that asks
//! for something that the store does not do: nothing that a client asks for is silently left out. s3s
//! has verified the signature, and `access` with `rights` the action, by the time anything here is called.

pub mod access;
mod actions;
pub mod attributes;
pub(crate) mod buckets;
pub(crate) mod convert;
mod errors;
pub mod forms;
mod grants;
pub(crate) mod listing;
pub(crate) mod objects;
pub mod rights;
mod tags;
mod unsupported;
mod uploads;

use std::sync::Arc;

use s3s::S3;
use s3s::S3Request;
use s3s::S3Response;
use s3s::S3Result;
use s3s::dto::*;

use crate::node::catalog::Catalog;
use crate::node::catalog::bridge::Pass;
use crate::node::store::Store;
use crate::node::store::api::ObjectInfo;
use crate::node::store::api::ReadRequest;
use crate::protocol::object::condition::Conditions;
use rights::Asked;
use rights::Rights;

/// S3 as one node serves it. Cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    store: Arc<Store>,
    rights: Arc<Rights>,
    catalog: Arc<Catalog>,
}

impl Gateway {
    /// Serves `store`, to whom `rights` and `catalog` let.
    pub fn new(store: Arc<Store>, rights: Arc<Rights>, catalog: Arc<Catalog>) -> Self {
        Self { store, rights, catalog }
    }

    /// Lets pass what only an operation knows of itself.
    async fn permit(&self, asked: &Asked<'_>, pass: &mut Pass) -> S3Result<()> {
        access::permit(&self.rights, &self.catalog, asked, pass).await
    }

    /// What an object is, or the version of it that is named.
    async fn info(
        &self,
        bucket: String,
        key: String,
        version: Option<String>,
    ) -> S3Result<ObjectInfo> {
        let read = ReadRequest {
            target: convert::target(bucket, key),
            version: convert::version(version)?,
            range: None,
            part: None,
            conditions: Conditions::default(),
        };
        self.store.head(read).await.map_err(|error| self.refusal(&error))
    }
}

/// Declares the operations: name, input and output as s3s has them, and the function that does it.
macro_rules! operations {
    ($($name:ident: $input:ident -> $output:ident = $module:ident,)+) => {
        #[async_trait::async_trait]
        impl S3 for Gateway {
            $(async fn $name(&self, request: S3Request<$input>) -> S3Result<S3Response<$output>> {
                $module::$name(self, request).await
            })+
        }
    };
}

operations! {
    list_buckets: ListBucketsInput -> ListBucketsOutput = buckets,
    create_bucket: CreateBucketInput -> CreateBucketOutput = buckets,
    delete_bucket: DeleteBucketInput -> DeleteBucketOutput = buckets,
    head_bucket: HeadBucketInput -> HeadBucketOutput = buckets,
    get_bucket_location: GetBucketLocationInput -> GetBucketLocationOutput = buckets,
    get_bucket_versioning: GetBucketVersioningInput -> GetBucketVersioningOutput = buckets,
    put_bucket_versioning: PutBucketVersioningInput -> PutBucketVersioningOutput = buckets,
    get_bucket_tagging: GetBucketTaggingInput -> GetBucketTaggingOutput = tags,
    put_bucket_tagging: PutBucketTaggingInput -> PutBucketTaggingOutput = tags,
    delete_bucket_tagging: DeleteBucketTaggingInput -> DeleteBucketTaggingOutput = tags,
    get_bucket_acl: GetBucketAclInput -> GetBucketAclOutput = grants,
    put_bucket_acl: PutBucketAclInput -> PutBucketAclOutput = grants,
    get_bucket_policy: GetBucketPolicyInput -> GetBucketPolicyOutput = grants,
    get_bucket_policy_status:
        GetBucketPolicyStatusInput -> GetBucketPolicyStatusOutput = grants,
    put_bucket_policy: PutBucketPolicyInput -> PutBucketPolicyOutput = grants,
    delete_bucket_policy: DeleteBucketPolicyInput -> DeleteBucketPolicyOutput = grants,
    put_object: PutObjectInput -> PutObjectOutput = objects,
    get_object: GetObjectInput -> GetObjectOutput = objects,
    head_object: HeadObjectInput -> HeadObjectOutput = objects,
    delete_object: DeleteObjectInput -> DeleteObjectOutput = objects,
    delete_objects: DeleteObjectsInput -> DeleteObjectsOutput = objects,
    get_object_attributes: GetObjectAttributesInput -> GetObjectAttributesOutput = attributes,
    get_object_tagging: GetObjectTaggingInput -> GetObjectTaggingOutput = tags,
    put_object_tagging: PutObjectTaggingInput -> PutObjectTaggingOutput = tags,
    delete_object_tagging: DeleteObjectTaggingInput -> DeleteObjectTaggingOutput = tags,
    get_object_acl: GetObjectAclInput -> GetObjectAclOutput = grants,
    put_object_acl: PutObjectAclInput -> PutObjectAclOutput = grants,
    copy_object: CopyObjectInput -> CopyObjectOutput = objects,
    create_multipart_upload: CreateMultipartUploadInput -> CreateMultipartUploadOutput = uploads,
    upload_part: UploadPartInput -> UploadPartOutput = uploads,
    upload_part_copy: UploadPartCopyInput -> UploadPartCopyOutput = uploads,
    complete_multipart_upload:
        CompleteMultipartUploadInput -> CompleteMultipartUploadOutput = uploads,
    abort_multipart_upload: AbortMultipartUploadInput -> AbortMultipartUploadOutput = uploads,
    list_parts: ListPartsInput -> ListPartsOutput = uploads,
    list_multipart_uploads: ListMultipartUploadsInput -> ListMultipartUploadsOutput = uploads,
    list_objects: ListObjectsInput -> ListObjectsOutput = listing,
    list_objects_v2: ListObjectsV2Input -> ListObjectsV2Output = listing,
    list_object_versions: ListObjectVersionsInput -> ListObjectVersionsOutput = listing,
}
