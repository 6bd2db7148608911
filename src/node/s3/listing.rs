//! Listings of objects and versions.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use s3s::S3Request;
use s3s::S3Response;
use s3s::S3Result;
use s3s::dto::*;
use s3s::s3_error;

use super::Gateway;
use super::convert;
use super::grants;
use super::rights::object_acl;
use crate::node::store::api::ListRequest;
use crate::node::store::api::Listing;
use crate::node::store::api::ObjectInfo;
use crate::sigv4;

/// The most entries of a page.
const PAGE_MAX: i32 = 1_000;

/// How keys are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// As they are.
    Plain,
    /// Percent-encoded, so that XML can carry every key.
    Url,
}

impl Encoding {
    /// What a client asked for.
    pub fn asked(encoding: Option<&EncodingType>) -> S3Result<Self> {
        match encoding.map(EncodingType::as_str) {
            None => Ok(Self::Plain),
            Some(EncodingType::URL) => Ok(Self::Url),
            Some(_) => Err(s3_error!(InvalidArgument, "the encoding type is unknown")),
        }
    }

    /// One key, prefix or delimiter.
    pub fn print(self, text: &str) -> String {
        match self {
            Self::Plain => text.to_owned(),
            Self::Url => sigv4::encode(text, true),
        }
    }

    /// The delimiter of a request; an empty one is none.
    pub fn delimiter(self, delimiter: Option<String>) -> Option<String> {
        delimiter.filter(|delimiter| !delimiter.is_empty()).map(|delimiter| self.print(&delimiter))
    }

    /// Common prefixes.
    pub fn prefixes(self, prefixes: &[String]) -> Vec<CommonPrefix> {
        let print = |prefix: &String| CommonPrefix { prefix: Some(self.print(prefix)) };
        prefixes.iter().map(print).collect()
    }
}

/// Entries of a page, from what a client asked for.
pub fn page_size(asked: Option<i32>) -> S3Result<usize> {
    let asked = asked.unwrap_or(PAGE_MAX).min(PAGE_MAX);
    usize::try_from(asked).map_err(|_| s3_error!(InvalidArgument, "a page has no negative size"))
}

/// `ListObjectsV2`.
pub async fn list_objects_v2(
    gateway: &Gateway,
    request: S3Request<ListObjectsV2Input>,
) -> S3Result<S3Response<ListObjectsV2Output>> {
    let input = request.input;
    let encoding = Encoding::asked(input.encoding_type.as_ref())?;
    let limit = page_size(input.max_keys)?;
    let after = match &input.continuation_token {
        Some(token) => read_token(token)?,
        None => input.start_after.clone().unwrap_or_default(),
    };
    let listed = list(
        gateway,
        ListRequest {
            bucket: input.bucket.clone(),
            prefix: input.prefix.clone().unwrap_or_default(),
            delimiter: input.delimiter.clone().filter(|delimiter| !delimiter.is_empty()),
            after,
            after_version: None,
            limit,
        },
    );
    let listed = listed.await?;
    let owner = match input.fetch_owner.unwrap_or(false) {
        true => Some(gateway.owner(&input.bucket).await?),
        false => None,
    };
    let count = listed.entries.len() + listed.prefixes.len();
    Ok(S3Response::new(ListObjectsV2Output {
        name: Some(input.bucket),
        prefix: Some(encoding.print(&input.prefix.unwrap_or_default())),
        max_keys: Some(i32::try_from(limit).unwrap_or(PAGE_MAX)),
        key_count: Some(i32::try_from(count).unwrap_or(i32::MAX)),
        continuation_token: input.continuation_token,
        is_truncated: Some(listed.next.is_some()),
        next_continuation_token: listed.next.map(|(after, _)| token(&after)),
        common_prefixes: Some(encoding.prefixes(&listed.prefixes)),
        contents: Some(
            listed
                .entries
                .into_iter()
                .map(|info| object(info, encoding, owner.as_deref()))
                .collect(),
        ),
        delimiter: encoding.delimiter(input.delimiter),
        encoding_type: input.encoding_type,
        start_after: input.start_after.map(|after| encoding.print(&after)),
        request_charged: None,
    }))
}

/// `ListObjects`, the first version.
pub async fn list_objects(
    gateway: &Gateway,
    request: S3Request<ListObjectsInput>,
) -> S3Result<S3Response<ListObjectsOutput>> {
    let input = request.input;
    let encoding = Encoding::asked(input.encoding_type.as_ref())?;
    let limit = page_size(input.max_keys)?;
    let delimiter = input.delimiter.clone().filter(|delimiter| !delimiter.is_empty());
    let listed = list(
        gateway,
        ListRequest {
            bucket: input.bucket.clone(),
            prefix: input.prefix.clone().unwrap_or_default(),
            delimiter: delimiter.clone(),
            after: input.marker.clone().unwrap_or_default(),
            after_version: None,
            limit,
        },
    );
    let listed = listed.await?;
    let is_truncated = listed.next.is_some();
    let owner = gateway.owner(&input.bucket).await?;
    // Without a delimiter a client goes on from the last key.
    let next_marker = listed.next.filter(|_| delimiter.is_some()).map(|(after, _)| after);
    Ok(S3Response::new(ListObjectsOutput {
        name: Some(input.bucket),
        prefix: Some(encoding.print(&input.prefix.unwrap_or_default())),
        marker: Some(encoding.print(&input.marker.unwrap_or_default())),
        max_keys: Some(i32::try_from(limit).unwrap_or(PAGE_MAX)),
        is_truncated: Some(is_truncated),
        common_prefixes: Some(encoding.prefixes(&listed.prefixes)),
        contents: Some(
            listed.entries.into_iter().map(|info| object(info, encoding, Some(&owner))).collect(),
        ),
        delimiter: encoding.delimiter(input.delimiter),
        next_marker: next_marker.map(|marker| encoding.print(&marker)),
        encoding_type: input.encoding_type,
        request_charged: None,
    }))
}

/// `ListObjectVersions`.
pub async fn list_object_versions(
    gateway: &Gateway,
    request: S3Request<ListObjectVersionsInput>,
) -> S3Result<S3Response<ListObjectVersionsOutput>> {
    let input = request.input;
    let encoding = Encoding::asked(input.encoding_type.as_ref())?;
    let limit = page_size(input.max_keys)?;
    let after_version = convert::version(input.version_id_marker.clone())?;
    if after_version.is_some() && input.key_marker.is_none() {
        return Err(s3_error!(InvalidArgument, "a version marker needs a key marker"));
    }
    let asked = ListRequest {
        bucket: input.bucket.clone(),
        prefix: input.prefix.clone().unwrap_or_default(),
        delimiter: input.delimiter.clone().filter(|delimiter| !delimiter.is_empty()),
        after: input.key_marker.clone().unwrap_or_default(),
        after_version,
        limit,
    };
    let listed = if limit == 0 {
        nothing(gateway, &input.bucket).await?
    } else {
        let listed = gateway.store.list_versions(asked).await;
        listed.map_err(|error| gateway.refusal(&error))?
    };
    let owner = gateway.owner(&input.bucket).await?;
    let (mut versions, mut markers) = (Vec::new(), Vec::new());
    for info in listed.entries {
        let (key, version) =
            (Some(encoding.print(&info.target.key)), Some(info.version.to_string()));
        if info.delete_marker {
            markers.push(DeleteMarkerEntry {
                is_latest: Some(info.is_latest),
                key,
                last_modified: convert::time(info.modtime_ns),
                owner: Some(grants::owner(&owner)),
                version_id: version,
            });
        } else {
            let class = storage_class(&info);
            let its_owner = grants::owner(&object_acl(&info, &owner).owner.id);
            versions.push(ObjectVersion {
                e_tag: convert::etag(info.etag),
                is_latest: Some(info.is_latest),
                key,
                last_modified: convert::time(info.modtime_ns),
                owner: Some(its_owner),
                size: Some(convert::signed(info.size)),
                storage_class: Some(ObjectVersionStorageClass::from(class.to_owned())),
                version_id: version,
                ..ObjectVersion::default()
            });
        }
    }
    let is_truncated = listed.next.is_some();
    let (next_key, next_version) = listed.next.unzip();
    Ok(S3Response::new(ListObjectVersionsOutput {
        common_prefixes: Some(encoding.prefixes(&listed.prefixes)),
        delete_markers: Some(markers),
        delimiter: encoding.delimiter(input.delimiter),
        encoding_type: input.encoding_type,
        is_truncated: Some(is_truncated),
        key_marker: Some(encoding.print(&input.key_marker.unwrap_or_default())),
        max_keys: Some(i32::try_from(limit).unwrap_or(PAGE_MAX)),
        name: Some(input.bucket),
        next_key_marker: next_key.map(|key| encoding.print(&key)),
        next_version_id_marker: next_version.flatten().map(|version| version.to_string()),
        prefix: Some(encoding.print(&input.prefix.unwrap_or_default())),
        request_charged: None,
        version_id_marker: input.version_id_marker,
        versions: Some(versions),
    }))
}

async fn list(gateway: &Gateway, asked: ListRequest) -> S3Result<Listing> {
    if asked.limit == 0 {
        return nothing(gateway, &asked.bucket).await;
    }
    gateway.store.list(asked).await.map_err(|error| gateway.refusal(&error))
}

/// A page without entries; the bucket must be there all the same.
async fn nothing(gateway: &Gateway, bucket: &str) -> S3Result<Listing> {
    let bucket = gateway.store.bucket(bucket).await;
    bucket.map(|_| Listing::default()).map_err(|error| gateway.refusal(&error))
}

/// `bucket_owner` is given where answers name owners.
fn object(info: ObjectInfo, encoding: Encoding, bucket_owner: Option<&str>) -> Object {
    let class = storage_class(&info);
    let owner = bucket_owner.map(|owner| grants::owner(&object_acl(&info, owner).owner.id));
    Object {
        e_tag: convert::etag(info.etag),
        key: Some(encoding.print(&info.target.key)),
        last_modified: convert::time(info.modtime_ns),
        owner,
        size: Some(convert::signed(info.size)),
        storage_class: Some(ObjectStorageClass::from(class.to_owned())),
        ..Object::default()
    }
}

fn storage_class(info: &ObjectInfo) -> &'static str {
    if info.metadata.reduced_redundancy { "REDUCED_REDUNDANCY" } else { "STANDARD" }
}

/// Where a page ended, in a form that nobody is tempted to read.
pub(crate) fn token(after: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(after)
}

/// The reverse of [`token`].
pub(crate) fn read_token(token: &str) -> S3Result<String> {
    let after = BASE64_URL_SAFE_NO_PAD.decode(token).ok().map(String::from_utf8);
    match after {
        Some(Ok(after)) => Ok(after),
        _ => Err(s3_error!(InvalidArgument, "the continuation token is not ours")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_tokens_survive_the_way() {
        let key = "a b/ü+%\u{1}";
        assert_eq!(Encoding::Url.print(key), "a%20b/%C3%BC%2B%25%01");
        assert_eq!(Encoding::Plain.print(key), key);
        assert_eq!(Encoding::Url.delimiter(Some("\n".to_owned())).as_deref(), Some("%0A"));
        assert_eq!(Encoding::Plain.delimiter(Some(String::new())), None);
        assert_eq!(read_token(&token(key)).expect("our own token"), key);
        assert!(read_token("!").is_err());
    }

    #[test]
    fn pages_are_bounded() {
        assert_eq!(page_size(None).expect("the default"), 1_000);
        assert_eq!(page_size(Some(5_000)).expect("cut"), 1_000);
        assert_eq!(page_size(Some(0)).expect("nothing"), 0);
        assert!(page_size(Some(-1)).is_err());
    }
}
