//! Tags of objects and buckets.

use http::HeaderMap;
use quick_xml::de;
use quick_xml::se;
use s3s::S3Error;
use s3s::S3Request;
use s3s::S3Response;
use s3s::S3Result;
use s3s::dto::*;
use s3s::s3_error;
use serde::Deserialize;
use serde::Serialize;

use super::Gateway;
use super::convert;
use super::rights::Asked;
use super::unsupported;
use crate::node::catalog::bridge::Pass;
use crate::node::store::api::Amendment;
use crate::node::store::api::BucketDocument;
use crate::node::store::api::ObjectInfo;
use crate::protocol::access::tags;
use crate::protocol::access::tags::TagFault;
use crate::protocol::access::tags::Tags;
use crate::sigv4;

/// The tags of a request's header, as an object keeps them.
pub fn of_header(headers: &HeaderMap) -> S3Result<Option<String>> {
    let Some(text) = headers.get("x-amz-tagging") else { return Ok(None) };
    let text = text.to_str().map_err(|_| refusal(TagFault::Text))?;
    let tags = tags::parse(text).map_err(refusal)?;
    Ok(stored(&tags))
}

/// The tags of a form's field, which has them as a document, as an object keeps them.
pub fn of_document(text: &str) -> S3Result<Option<String>> {
    let document: Document = de::from_str(text)
        .map_err(|error| s3_error!(MalformedXML, "the field tagging: {error}"))?;
    let tags = tags::check(document.pairs(), tags::OBJECT_TAGS_MAX).map_err(refusal)?;
    Ok(stored(&tags))
}

/// How many tags an object has; nothing when it has none.
pub fn count(info: &ObjectInfo) -> Option<i32> {
    let tags = tags_of(info);
    (!tags.is_empty()).then(|| i32::try_from(tags.len()).unwrap_or(i32::MAX))
}

fn stored(tags: &Tags) -> Option<String> {
    tags::text(tags, |text| sigv4::encode(text, false))
}

/// What another server has kept in a way that we do not read counts as nothing.
fn tags_of(info: &ObjectInfo) -> Tags {
    let text = info.metadata.tags.as_deref().unwrap_or_default();
    tags::parse(text).unwrap_or_default()
}

fn refusal(fault: TagFault) -> S3Error {
    match fault {
        TagFault::Text => s3_error!(InvalidArgument, "x-amz-tagging is no list of tags"),
        TagFault::Rule(why) => s3_error!(InvalidTag, "{why}"),
    }
}

fn given(tagging: Tagging, max: usize) -> S3Result<Tags> {
    let pair = |tag: Tag| (tag.key.unwrap_or_default(), tag.value.unwrap_or_default());
    tags::check(tagging.tag_set.into_iter().map(pair).collect(), max).map_err(refusal)
}

fn printed(tags: Tags) -> Vec<Tag> {
    tags.into_iter().map(|(key, value)| Tag { key: Some(key), value: Some(value) }).collect()
}

/// `GetObjectTagging`.
pub async fn get_object_tagging(
    gateway: &Gateway,
    request: S3Request<GetObjectTaggingInput>,
) -> S3Result<S3Response<GetObjectTaggingOutput>> {
    let input = request.input;
    let info = gateway.info(input.bucket, input.key, input.version_id).await?;
    Ok(S3Response::new(GetObjectTaggingOutput {
        tag_set: printed(tags_of(&info)),
        version_id: info.names_version.then(|| info.version.to_string()),
    }))
}

/// `PutObjectTagging`.
pub async fn put_object_tagging(
    gateway: &Gateway,
    request: S3Request<PutObjectTaggingInput>,
) -> S3Result<S3Response<PutObjectTaggingOutput>> {
    unsupported::refuse(&request.headers)?;
    let from = request.extensions.get().copied();
    let (caller, headers, uri) = (request.credentials, request.headers, request.uri);
    let input = request.input;
    let version = convert::version(input.version_id)?;
    let tags = given(input.tagging, tags::OBJECT_TAGS_MAX)?;
    let asked = Asked {
        caller: caller.as_ref().map(|caller| caller.access_key.as_str()),
        operation: "PutObjectTagging",
        bucket: &input.bucket,
        key: Some(&input.key),
        version,
        headers: &headers,
        uri: &uri,
        tags: Some(&tags),
        from,
    };
    let mut pass = Pass::default();
    gateway.permit(&asked, &mut pass).await?;
    let target = convert::target(input.bucket, input.key);
    let amended = gateway.store.amend(&target, version, Amendment::Tags(stored(&tags))).await;
    let info = amended.map_err(|error| gateway.refusal(&error))?;
    let version_id = info.names_version.then(|| info.version.to_string());
    Ok(S3Response::new(PutObjectTaggingOutput { version_id }))
}

/// `DeleteObjectTagging`.
pub async fn delete_object_tagging(
    gateway: &Gateway,
    request: S3Request<DeleteObjectTaggingInput>,
) -> S3Result<S3Response<DeleteObjectTaggingOutput>> {
    let input = request.input;
    let target = convert::target(input.bucket, input.key);
    let version = convert::version(input.version_id)?;
    let amended = gateway.store.amend(&target, version, Amendment::Tags(None)).await;
    let info = amended.map_err(|error| gateway.refusal(&error))?;
    let version_id = info.names_version.then(|| info.version.to_string());
    Ok(S3Response::new(DeleteObjectTaggingOutput { version_id }))
}

/// `GetBucketTagging`.
pub async fn get_bucket_tagging(
    gateway: &Gateway,
    request: S3Request<GetBucketTaggingInput>,
) -> S3Result<S3Response<GetBucketTaggingOutput>> {
    let bucket = gateway.store.bucket(&request.input.bucket).await;
    let bucket = bucket.map_err(|error| gateway.refusal(&error))?;
    let text = String::from_utf8_lossy(&bucket.tags);
    let kept = match text.is_empty() {
        true => Vec::new(),
        false => {
            let kept: Document = de::from_str(&text)
                .map_err(|error| s3_error!(InternalError, "the bucket's tags: {error}"))?;
            kept.pairs()
        }
    };
    if kept.is_empty() {
        return Err(s3_error!(NoSuchTagSet));
    }
    let tag = |(key, value)| Tag { key: Some(key), value: Some(value) };
    let tag_set = kept.into_iter().map(tag).collect();
    Ok(S3Response::new(GetBucketTaggingOutput { tag_set }))
}

/// `PutBucketTagging`.
pub async fn put_bucket_tagging(
    gateway: &Gateway,
    request: S3Request<PutBucketTaggingInput>,
) -> S3Result<S3Response<PutBucketTaggingOutput>> {
    unsupported::refuse(&request.headers)?;
    let tags = given(request.input.tagging, tags::BUCKET_TAGS_MAX)?;
    let document = Document::of(tags).encode()?;
    set(gateway, &request.input.bucket, document).await?;
    Ok(S3Response::new(PutBucketTaggingOutput::default()))
}

/// `DeleteBucketTagging`.
pub async fn delete_bucket_tagging(
    gateway: &Gateway,
    request: S3Request<DeleteBucketTaggingInput>,
) -> S3Result<S3Response<DeleteBucketTaggingOutput>> {
    set(gateway, &request.input.bucket, Vec::new()).await?;
    Ok(S3Response::new(DeleteBucketTaggingOutput::default()))
}

async fn set(gateway: &Gateway, bucket: &str, document: Vec<u8>) -> S3Result<()> {
    let set = gateway.store.set_document(bucket, BucketDocument::Tags, document).await;
    set.map_err(|error| gateway.refusal(&error))
}

/// The document `Tagging`.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "Tagging")]
struct Document {
    #[serde(rename = "TagSet", default)]
    set: Set,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Set {
    #[serde(rename = "Tag", default)]
    tags: Vec<Pair>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Pair {
    #[serde(rename = "Key", default)]
    key: String,
    #[serde(rename = "Value", default)]
    value: String,
}

impl Document {
    fn of(tags: Tags) -> Self {
        let tags = tags.into_iter().map(|(key, value)| Pair { key, value }).collect();
        Self { set: Set { tags } }
    }

    fn pairs(self) -> Vec<(String, String)> {
        self.set.tags.into_iter().map(|pair| (pair.key, pair.value)).collect()
    }

    fn encode(&self) -> S3Result<Vec<u8>> {
        let text = se::to_string(self).map_err(|error| s3_error!(InternalError, "{error}"))?;
        Ok(text.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_of_tags_comes_back() {
        let tags =
            Tags::from([("a b".to_owned(), "<&>".to_owned()), ("ü".to_owned(), String::new())]);
        let document = Document::of(tags.clone());
        let text = String::from_utf8(document.encode().expect("it is text")).expect("it is text");
        assert!(text.starts_with("<Tagging><TagSet><Tag><Key>a b</Key>"), "{text}");
        let again: Document = de::from_str(&text).expect("our own document");
        assert_eq!(again, document);
        let foreign = "<?xml version=\"1.0\"?><Tagging xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
                       <TagSet></TagSet></Tagging>";
        let foreign: Document = de::from_str(foreign).expect("another's document");
        assert_eq!(foreign.pairs(), []);
    }
}
