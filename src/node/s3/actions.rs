//! Operations of S3 as policies name them, and the grants that open them.

use crate::protocol::access::acl::Permission;

/// Which list opens an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The bucket's.
    Bucket(Permission),
    /// The object's.
    Object,
    /// None.
    Nothing,
}

/// The action that a policy allows or denies.
pub fn of(operation: &str, names_version: bool) -> String {
    let versioned =
        |plain: &str, versioned: &str| if names_version { versioned } else { plain }.to_owned();
    let plain = match operation {
        "ListBuckets" => "ListAllMyBuckets",
        "HeadBucket" | "ListObjects" | "ListObjectsV2" => "ListBucket",
        "ListObjectVersions" => "ListBucketVersions",
        "ListMultipartUploads" => "ListBucketMultipartUploads",
        "ListParts" => "ListMultipartUploadParts",
        "DeleteBucketTagging" => "PutBucketTagging",
        "CopyObject"
        | "CreateMultipartUpload"
        | "UploadPart"
        | "UploadPartCopy"
        | "CompleteMultipartUpload" => "PutObject",
        "GetObject" | "HeadObject" => &versioned("GetObject", "GetObjectVersion"),
        "DeleteObject" | "DeleteObjects" => &versioned("DeleteObject", "DeleteObjectVersion"),
        "GetObjectAcl" => &versioned("GetObjectAcl", "GetObjectVersionAcl"),
        "GetObjectTagging" => &versioned("GetObjectTagging", "GetObjectVersionTagging"),
        "PutObjectTagging" => &versioned("PutObjectTagging", "PutObjectVersionTagging"),
        "DeleteObjectTagging" => &versioned("DeleteObjectTagging", "DeleteObjectVersionTagging"),
        same => same,
    };
    format!("s3:{plain}")
}

/// Which list opens an operation.
pub fn needs(operation: &str) -> Need {
    match operation {
        "HeadBucket"
        | "ListObjects"
        | "ListObjectsV2"
        | "ListObjectVersions"
        | "ListMultipartUploads" => Need::Bucket(Permission::Read),
        "PutObject"
        | "CopyObject"
        | "CreateMultipartUpload"
        | "UploadPart"
        | "UploadPartCopy"
        | "CompleteMultipartUpload"
        | "AbortMultipartUpload"
        | "ListParts" => Need::Bucket(Permission::Write),
        "GetBucketAcl" => Need::Bucket(Permission::ReadAcp),
        "PutBucketAcl" => Need::Bucket(Permission::WriteAcp),
        "GetObject"
        | "HeadObject"
        | "GetObjectAttributes"
        | "GetObjectAcl"
        | "PutObjectAcl"
        | "GetObjectTagging"
        | "PutObjectTagging"
        | "DeleteObjectTagging"
        | "DeleteObject"
        | "DeleteObjects" => Need::Object,
        _ => Need::Nothing,
    }
}

/// What an object's list must grant; nothing for what only its owner may do.
pub fn object_permission(operation: &str) -> Option<Permission> {
    match operation {
        "GetObject" | "HeadObject" | "GetObjectAttributes" => Some(Permission::Read),
        "GetObjectAcl" => Some(Permission::ReadAcp),
        "PutObjectAcl" => Some(Permission::WriteAcp),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::access::policy::ACTIONS;

    #[test]
    fn operations_have_the_names_that_policies_use() {
        for operation in [
            "HeadObject",
            "PutObject",
            "UploadPartCopy",
            "DeleteObject",
            "ListParts",
            "ListObjectsV2",
            "ListObjectVersions",
            "GetObjectTagging",
            "GetObjectAcl",
            "PutBucketTagging",
            "DeleteBucketTagging",
            "GetBucketPolicyStatus",
            "AbortMultipartUpload",
            "HeadBucket",
            "GetBucketLocation",
        ] {
            for names_version in [false, true] {
                let action = of(operation, names_version);
                assert!(ACTIONS.contains(&action.as_str()), "{operation}: {action}");
            }
        }
        assert_eq!(of("HeadObject", true), "s3:GetObjectVersion");
        assert_eq!(needs("DeleteBucket"), Need::Nothing);
        assert_eq!(needs("PutBucketPolicy"), Need::Nothing);
        assert_eq!(object_permission("PutObjectTagging"), None);
    }
}
