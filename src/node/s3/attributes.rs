//! `GetObjectAttributes`: what an object is, as asked for.

use http::HeaderMap;
use http::Response;
use http::header::CONTENT_LENGTH;
use s3s::Body;
use s3s::S3Request;
use s3s::S3Response;
use s3s::S3Result;
use s3s::dto::*;
use s3s::s3_error;

use super::Gateway;
use super::convert;
use super::convert::set_checksums;
use super::listing::page_size;
use super::unsupported;
use crate::node::store::api::ObjectInfo;

/// What can be asked for.
const KNOWN: [&str; 5] = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"];

/// `GetObjectAttributes`.
pub async fn get_object_attributes(
    gateway: &Gateway,
    request: S3Request<GetObjectAttributesInput>,
) -> S3Result<S3Response<GetObjectAttributesOutput>> {
    unsupported::refuse(&request.headers)?;
    let input = request.input;
    let asked = asked(&request.headers)?;
    let wants = |name: &str| asked.iter().any(|asked| asked == name);
    let info = gateway.info(input.bucket, input.key, input.version_id).await?;
    let after = input.part_number_marker.unwrap_or(0);
    let after =
        u32::try_from(after).map_err(|_| s3_error!(InvalidArgument, "a marker is not negative"))?;
    let limit = page_size(input.max_parts)?;
    let mut checksum = None;
    if wants("Checksum") && !info.checksums.is_empty() {
        let checksum_type = convert::checksum_type(&info.checksums);
        let mut sums = Checksum { checksum_type, ..Checksum::default() };
        // The whole's, without the number of its parts: that stands beside it.
        let plain = info.checksums.iter().map(|it| (it.algorithm, convert::printed(it)));
        set_checksums!(sums, plain);
        checksum = Some(sums);
    }
    let class = if info.metadata.reduced_redundancy { "REDUCED_REDUNDANCY" } else { "STANDARD" };
    let mut answer = S3Response::new(GetObjectAttributesOutput {
        checksum,
        e_tag: wants("ETag").then(|| convert::etag(info.etag.clone())).flatten(),
        last_modified: convert::time(info.modtime_ns),
        object_parts: wants("ObjectParts").then(|| parts(&info, after, limit)).flatten(),
        object_size: wants("ObjectSize").then(|| convert::signed(info.size)),
        storage_class: wants("StorageClass").then(|| StorageClass::from(class.to_owned())),
        version_id: info.names_version.then(|| info.version.to_string()),
        ..GetObjectAttributesOutput::default()
    });
    answer.extensions.insert(BareEtag);
    Ok(answer)
}

/// Stands with an answer whose ETag leaves without its quotes.
#[derive(Clone)]
struct BareEtag;

/// The answer as it leaves: in this one alone S3 writes an ETag without quotes, and s3s writes none without.
pub fn finished(mut answer: Response<Body>) -> Response<Body> {
    if answer.extensions_mut().remove::<BareEtag>().is_none() {
        return answer;
    }
    let Some(xml) = answer.body().bytes() else { return answer };
    *answer.body_mut() = match std::str::from_utf8(&xml) {
        Ok(text) => Body::from(bare(text)),
        Err(_) => Body::from(xml),
    };
    answer.headers_mut().remove(CONTENT_LENGTH);
    answer
}

/// The document with its one ETag as it is.
fn bare(xml: &str) -> String {
    xml.replacen("<ETag>\"", "<ETag>", 1).replacen("\"</ETag>", "</ETag>", 1)
}

/// The attributes that the headers name.
fn asked(headers: &HeaderMap) -> S3Result<Vec<String>> {
    let mut asked = Vec::new();
    for value in headers.get_all("x-amz-object-attributes") {
        let value =
            value.to_str().map_err(|_| s3_error!(InvalidArgument, "an attribute is no text"))?;
        for name in value.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            if !KNOWN.contains(&name) {
                return Err(s3_error!(InvalidArgument, "there is no attribute {name}"));
            }
            asked.push(name.to_owned());
        }
    }
    match asked.is_empty() {
        true => Err(s3_error!(InvalidArgument, "no attribute is asked for")),
        false => Ok(asked),
    }
}

/// A page of the parts; nothing for an object that was not uploaded in parts.
fn parts(info: &ObjectInfo, after: u32, limit: usize) -> Option<GetObjectAttributesParts> {
    if !info.etag.contains('-') {
        return None;
    }
    let checksums = info.checksums.first();
    let all = info.parts.iter().enumerate().filter(|(_, (number, _))| *number > after);
    let all: Vec<_> = all.collect();
    let page: Vec<_> = all.iter().take(limit).collect();
    let is_truncated = all.len() > page.len();
    let last = page.last().map_or(after, |(_, (number, _))| *number);
    let part = |(index, (number, size)): &(usize, &(u32, u64))| {
        let mut part = ObjectPart {
            part_number: Some(number.cast_signed()),
            size: Some(convert::signed(*size)),
            ..ObjectPart::default()
        };
        let digest = checksums.and_then(|it| Some((it.algorithm, it.parts.get(*index)?.clone())));
        set_checksums!(part, convert::printed_digests(digest.as_slice()));
        part
    };
    Some(GetObjectAttributesParts {
        is_truncated: Some(is_truncated),
        max_parts: Some(i32::try_from(limit).unwrap_or(i32::MAX)),
        next_part_number_marker: Some(last.cast_signed()),
        part_number_marker: Some(after.cast_signed()),
        parts: Some(page.into_iter().map(part).collect()),
        total_parts_count: Some(i32::try_from(info.parts.len()).unwrap_or(i32::MAX)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_etag_of_attributes_leaves_without_quotes_and_every_other_answer_as_it_is() {
        let xml = "<A><ETag>\"0c-2\"</ETag><ObjectSize>3</ObjectSize></A>";
        let left = |marked: bool| {
            let mut answer = Response::new(Body::from(xml.to_owned()));
            if marked {
                answer.extensions_mut().insert(BareEtag);
            }
            finished(answer).into_body().bytes().expect("it is in memory")
        };
        assert_eq!(left(true), xml.replace('"', ""));
        assert_eq!(left(false), xml);
        assert_eq!(bare("<A><ObjectSize>3</ObjectSize></A>"), "<A><ObjectSize>3</ObjectSize></A>");
    }

    #[test]
    fn attributes_are_named_in_one_header_or_in_many() {
        let mut headers = HeaderMap::new();
        assert!(asked(&headers).is_err());
        headers.append("x-amz-object-attributes", "ETag, ObjectSize".parse().expect("text"));
        headers.append("x-amz-object-attributes", "Checksum".parse().expect("text"));
        assert_eq!(asked(&headers).expect("sound"), ["ETag", "ObjectSize", "Checksum"]);
        headers.append("x-amz-object-attributes", "Colour".parse().expect("text"));
        assert!(asked(&headers).is_err());
    }
}
