//! Operations on single objects, and the delete of many.

use s3s::S3Request;
use s3s::S3Response;
use s3s::S3Result;
use s3s::dto::*;
use s3s::s3_error;

use super::Gateway;
use super::convert;
use super::convert::set_checksums;
use super::rights::Asked;
use super::tags;
use super::unsupported;
use crate::disk::format::checksum::Algorithm;
use crate::disk::format::checksum::Record;
use crate::node::catalog::bridge::Pass;
use crate::node::store::api;
use crate::node::store::api::CopyRequest;
use crate::node::store::api::DeleteRequest;
use crate::node::store::api::ObjectInfo;
use crate::node::store::api::PutRequest;
use crate::node::store::api::ReadRequest;
use crate::protocol::object::condition::Conditions;
use crate::protocol::object::condition::Tags;
use crate::protocol::object::condition::Unmet;

/// `PutObject`.
pub async fn put_object(
    gateway: &Gateway,
    request: S3Request<PutObjectInput>,
) -> S3Result<S3Response<PutObjectOutput>> {
    unsupported::refuse_but_grants(&request.headers)?;
    let input = request.input;
    let asked = input.checksum_algorithm.as_ref().map(ChecksumAlgorithm::as_str);
    let acl =
        gateway.new_acl(&input.bucket, &request.headers, request.credentials.as_ref()).await?;
    let put = PutRequest {
        target: convert::target(input.bucket, input.key),
        size: convert::length(input.content_length)?,
        metadata: api::Metadata { acl, ..convert::metadata(&request.headers, input.metadata)? },
        content_md5: convert::content_md5(input.content_md5)?,
        checksums: convert::wanted_checksums(&request.headers, request.trailing_headers, asked)?,
        conditions: convert::conditions(&request.headers, "")?,
    };
    let outcome = gateway.store.put(put, convert::body(input.body)).await;
    let outcome = outcome.map_err(|error| gateway.refusal(&error))?;
    let mut output = PutObjectOutput {
        e_tag: convert::etag(outcome.etag),
        version_id: convert::made(outcome.version),
        checksum_type: convert::checksum_type(&outcome.checksums),
        ..PutObjectOutput::default()
    };
    set_checksums!(output, convert::printed_all(&outcome.checksums));
    Ok(S3Response::new(output))
}

/// `GetObject`.
pub async fn get_object(
    gateway: &Gateway,
    request: S3Request<GetObjectInput>,
) -> S3Result<S3Response<GetObjectOutput>> {
    unsupported::refuse(&request.headers)?;
    let input = request.input;
    let part = part_number(input.part_number)?;
    if part.is_some() && input.range.is_some() {
        return Err(s3_error!(InvalidRequest, "a range and a part number exclude each other"));
    }
    let is_whole = part.is_none() && input.range.is_none();
    let read = ReadRequest {
        target: convert::target(input.bucket, input.key),
        version: convert::version(input.version_id)?,
        range: input.range.map(range),
        part,
        conditions: convert::conditions(&request.headers, "")?,
    };
    let outcome = gateway.store.get(read).await.map_err(|error| match error {
        api::StoreError::Range { .. } if part.is_some() => no_such_part(),
        error => gateway.refusal(&error),
    })?;
    let (info, (first, length)) = (outcome.info, outcome.span);
    let mut output = GetObjectOutput {
        accept_ranges: Some("bytes".to_owned()),
        body: Some(convert::Content::blob(outcome.content)),
        content_length: Some(convert::signed(length)),
        content_range: (!is_whole && length > 0).then(|| content_range(first, length, info.size)),
        parts_count: part.map(|_| parts_count(&info)),
        tag_count: tags::count(&info),
        ..GetObjectOutput::default()
    };
    let checksums = asked_checksums(&info, input.checksum_mode.as_ref(), part, is_whole);
    describe!(output, info, checksums);
    Ok(S3Response::new(output))
}

/// `HeadObject`.
pub async fn head_object(
    gateway: &Gateway,
    request: S3Request<HeadObjectInput>,
) -> S3Result<S3Response<HeadObjectOutput>> {
    unsupported::refuse(&request.headers)?;
    let input = request.input;
    let part = part_number(input.part_number)?;
    let read = ReadRequest {
        target: convert::target(input.bucket, input.key),
        version: convert::version(input.version_id)?,
        range: None,
        part: None,
        conditions: convert::conditions(&request.headers, "")?,
    };
    let info = gateway.store.head(read).await.map_err(|error| gateway.refusal(&error))?;
    let has_range = input.range.is_some();
    if part.is_some() && has_range {
        return Err(s3_error!(InvalidRequest, "a range and a part number exclude each other"));
    }
    let overrides = (
        input.response_cache_control,
        input.response_content_disposition,
        input.response_content_encoding,
        input.response_content_language,
        input.response_content_type,
        input.response_expires,
    );
    let span = match (part, input.range) {
        (Some(part), _) => part_span(&info, part).ok_or_else(no_such_part)?,
        (None, Some(range)) => {
            let found = range.check(info.size);
            let found =
                found.map_err(|_| gateway.refusal(&api::StoreError::Range { size: info.size }))?;
            (found.start, found.end - found.start)
        }
        (None, None) => (0, info.size),
    };
    let is_whole = span == (0, info.size);
    let (tag_count, is_part) = (tags::count(&info), part.is_some() || has_range);
    let mut output = HeadObjectOutput {
        accept_ranges: Some("bytes".to_owned()),
        content_length: Some(convert::signed(span.1)),
        content_range: (is_part && span.1 > 0).then(|| content_range(span.0, span.1, info.size)),
        parts_count: part.map(|_| parts_count(&info)),
        ..HeadObjectOutput::default()
    };
    let checksums = asked_checksums(&info, input.checksum_mode.as_ref(), part, is_whole);
    describe!(output, info, checksums);
    let (cache_control, disposition, encoding, language, media_type, expires) = overrides;
    output.cache_control = cache_control.or(output.cache_control);
    output.content_disposition = disposition.or(output.content_disposition);
    output.content_encoding = encoding.or(output.content_encoding);
    output.content_language = language.or(output.content_language);
    output.content_type = media_type.or(output.content_type);
    output.expires = expires.or(output.expires);
    let mut answer = S3Response::new(output);
    // s3s has no such field in this answer.
    if let Some(count) = tag_count {
        answer.headers.insert("x-amz-tagging-count", count.into());
    }
    Ok(answer)
}

/// The checksums of what is answered: of a part its own, of the whole the object's, of any other bytes none.
fn asked_checksums(
    info: &ObjectInfo,
    mode: Option<&ChecksumMode>,
    part: Option<u32>,
    is_whole: bool,
) -> Vec<(Algorithm, String)> {
    if mode.map(ChecksumMode::as_str) != Some(ChecksumMode::ENABLED) {
        return Vec::new();
    }
    match part {
        Some(number) if info.etag.contains('-') => {
            let index = info.parts.iter().position(|(part, _)| *part == number);
            let of_part =
                |record: &Record| Some((record.algorithm, record.parts.get(index?)?.clone()));
            convert::printed_digests(&info.checksums.iter().filter_map(of_part).collect::<Vec<_>>())
        }
        // An object that was not uploaded in parts has one.
        Some(_) => convert::printed_all(&info.checksums),
        None if is_whole => convert::printed_all(&info.checksums),
        None => Vec::new(),
    }
}

/// Sets what GET and HEAD say of an object.
macro_rules! describe {
    ($output:ident, $info:ident, $checksums:ident) => {
        let mut headers = $info.metadata.headers;
        $output.cache_control = headers.remove("cache-control");
        $output.content_disposition = headers.remove("content-disposition");
        $output.content_encoding = headers.remove("content-encoding");
        $output.content_language = headers.remove("content-language");
        let media_type = headers.remove("content-type");
        $output.content_type = Some(media_type.unwrap_or_else(|| "binary/octet-stream".to_owned()));
        let expires = headers.remove("expires");
        $output.expires =
            expires.and_then(|date| Timestamp::parse(TimestampFormat::HttpDate, &date).ok());
        $output.e_tag = convert::etag($info.etag);
        $output.last_modified = convert::time($info.modtime_ns);
        $output.metadata = Some($info.metadata.user.into_iter().collect());
        $output.version_id = $info.names_version.then(|| $info.version.to_string());
        if $info.metadata.reduced_redundancy {
            $output.storage_class =
                Some(StorageClass::from_static(StorageClass::REDUCED_REDUNDANCY));
        }
        if !$checksums.is_empty() {
            $output.checksum_type = convert::checksum_type(&$info.checksums);
            set_checksums!($output, $checksums);
        }
    };
}
use describe;

/// `DeleteObject`.
pub async fn delete_object(
    gateway: &Gateway,
    request: S3Request<DeleteObjectInput>,
) -> S3Result<S3Response<DeleteObjectOutput>> {
    unsupported::refuse(&request.headers)?;
    let input = request.input;
    let delete = DeleteRequest {
        target: convert::target(input.bucket, input.key),
        version: convert::version(input.version_id)?,
        conditions: Conditions {
            if_size: convert::length(input.if_match_size)?,
            if_modified_at_s: input.if_match_last_modified_time.as_ref().and_then(convert::unix_s),
            ..convert::conditions(&request.headers, "")?
        },
    };
    let outcome = gateway.store.delete(delete).await.map_err(|error| gateway.refusal(&error))?;
    Ok(S3Response::new(DeleteObjectOutput {
        delete_marker: outcome.delete_marker.then_some(true),
        request_charged: None,
        version_id: outcome.version.map(|version| version.to_string()),
    }))
}

/// `DeleteObjects`.
pub async fn delete_objects(
    gateway: &Gateway,
    request: S3Request<DeleteObjectsInput>,
) -> S3Result<S3Response<DeleteObjectsOutput>> {
    unsupported::refuse(&request.headers)?;
    let input = request.input;
    if input.delete.objects.is_empty() || input.delete.objects.len() > 1_000 {
        return Err(s3_error!(MalformedXML, "1 to 1000 objects are deleted at once"));
    }
    let caller = request.credentials;
    let asked = Asked {
        caller: caller.as_ref().map(|caller| caller.access_key.as_str()),
        operation: "DeleteObjects",
        bucket: &input.bucket,
        key: None,
        version: None,
        headers: &request.headers,
        uri: &request.uri,
        tags: None,
        from: request.extensions.get().copied(),
    };
    // A principal needs the action of the whole; policy and grants are about each object.
    if asked.caller.is_some() && !gateway.rights.has_action(asked.caller, asked.operation) {
        return Err(s3_error!(AccessDenied));
    }
    // A bucket that is not there is one error, not a thousand.
    let bucket = gateway.store.bucket(&input.bucket).await;
    bucket.map_err(|error| gateway.refusal(&error))?;

    let (mut requests, mut names, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    // Held until all is deleted.
    let mut pass = Pass::default();
    for object in input.delete.objects {
        let version = match convert::version(object.version_id.clone()) {
            Ok(version) => {
                let asked = Asked { key: Some(&object.key), version, ..asked };
                gateway.permit(&asked, &mut pass).await.map(|()| version)
            }
            Err(error) => Err(error),
        };
        match version {
            Ok(version) => {
                let conditions = Conditions {
                    if_match: object.e_tag.map(|etag| Tags::parse(etag.value())),
                    if_size: convert::length(object.size)?,
                    if_modified_at_s: object.last_modified_time.as_ref().and_then(convert::unix_s),
                    ..Conditions::default()
                };
                let target = convert::target(input.bucket.clone(), object.key.clone());
                requests.push(DeleteRequest { target, version, conditions });
                names.push((object.key, object.version_id));
            }
            Err(error) => errors.push(refused(object.key, object.version_id, &error)),
        }
    }
    let outcomes = gateway.store.delete_many(requests).await;
    drop(pass);
    let mut deleted = Vec::new();
    for ((key, version_id), outcome) in names.into_iter().zip(outcomes) {
        match outcome {
            Ok(outcome) => {
                let made = outcome.version.map(|version| version.to_string());
                deleted.push(DeletedObject {
                    delete_marker: outcome.delete_marker.then_some(true),
                    delete_marker_version_id: made.filter(|_| outcome.delete_marker),
                    key: Some(key),
                    version_id,
                });
            }
            Err(error) => errors.push(refused(key, version_id, &gateway.refusal(&error))),
        }
    }
    let quiet = input.delete.quiet.unwrap_or(false);
    Ok(S3Response::new(DeleteObjectsOutput {
        deleted: (!quiet).then_some(deleted),
        errors: Some(errors),
        request_charged: None,
    }))
}

/// `CopyObject`.
pub async fn copy_object(
    gateway: &Gateway,
    request: S3Request<CopyObjectInput>,
) -> S3Result<S3Response<CopyObjectOutput>> {
    unsupported::refuse_but_grants(&request.headers)?;
    let input = request.input;
    let source = copy_source(&input.copy_source, &request.headers)?;
    let target = convert::target(input.bucket, input.key);
    let given = convert::metadata(&request.headers, input.metadata)?;
    let replaces = |directive: Option<&str>| match directive {
        None | Some("COPY") => Ok(false),
        Some("REPLACE") => Ok(true),
        Some(_) => Err(s3_error!(InvalidArgument, "a directive is COPY or REPLACE")),
    };
    let new_metadata = replaces(input.metadata_directive.as_ref().map(MetadataDirective::as_str))?;
    let new_tags = replaces(input.tagging_directive.as_ref().map(TaggingDirective::as_str))?;
    let same_place = source.target == target && source.version.is_none();
    if same_place && !new_metadata && !new_tags && input.storage_class.is_none() {
        return Err(s3_error!(InvalidRequest, "a copy onto itself must change something"));
    }
    let tags = new_tags.then(|| given.tags.clone());
    let acl =
        gateway.new_acl(&target.bucket, &request.headers, request.credentials.as_ref()).await?;
    let checksum = input.checksum_algorithm.as_ref().map(ChecksumAlgorithm::as_str);
    let copy = CopyRequest {
        source,
        target,
        metadata: new_metadata.then_some(given),
        tags,
        acl,
        checksum: checksum.map(convert::algorithm).transpose()?,
        conditions: convert::conditions(&request.headers, "")?,
    };
    let (outcome, copied) =
        gateway.store.copy(copy).await.map_err(|error| source_refusal(gateway, &error))?;
    let mut result = CopyObjectResult {
        e_tag: convert::etag(outcome.etag),
        last_modified: convert::time(outcome.modtime_ns),
        checksum_type: convert::checksum_type(&outcome.checksums),
        ..CopyObjectResult::default()
    };
    set_checksums!(result, convert::printed_all(&outcome.checksums));
    Ok(S3Response::new(CopyObjectOutput {
        copy_object_result: Some(result),
        copy_source_version_id: copied.names_version.then(|| copied.version.to_string()),
        version_id: convert::made(outcome.version),
        ..CopyObjectOutput::default()
    }))
}

/// The refusal of a copy: that its source is known already is no answer to a write.
pub fn source_refusal(gateway: &Gateway, error: &api::StoreError) -> s3s::S3Error {
    match error {
        api::StoreError::Condition { unmet: Unmet::NotModified, .. } => {
            s3_error!(PreconditionFailed)
        }
        error => gateway.refusal(error),
    }
}

/// What a copy reads.
pub fn copy_source(source: &CopySource, headers: &http::HeaderMap) -> S3Result<ReadRequest> {
    let CopySource::Bucket { bucket, key, version_id } = source else {
        return Err(s3_error!(NotImplemented, "access points are not implemented"));
    };
    Ok(ReadRequest {
        target: convert::target(bucket.to_string(), key.to_string()),
        version: convert::version(version_id.as_ref().map(ToString::to_string))?,
        range: None,
        part: None,
        conditions: convert::conditions(headers, "x-amz-copy-source-")?,
    })
}

/// A range as the store has it.
pub fn range(range: Range) -> api::Range {
    match range {
        Range::Int { first, last: Some(last) } => api::Range::Between(first, last),
        Range::Int { first, last: None } => api::Range::From(first),
        Range::Suffix { length } => api::Range::Last(length),
    }
}

/// A part's number as the store has it.
pub fn part_number(number: Option<i32>) -> S3Result<Option<u32>> {
    let convert = |number: i32| match number {
        1..=10_000 => Ok(number.unsigned_abs()),
        _ => Err(s3_error!(InvalidArgument, "part numbers are 1 to 10000")),
    };
    number.map(convert).transpose()
}

fn content_range(first: u64, length: u64, size: u64) -> String {
    format!("bytes {first}-{}/{size}", (first + length).saturating_sub(1))
}

fn parts_count(info: &ObjectInfo) -> i32 {
    i32::try_from(info.parts.len().max(1)).unwrap_or(i32::MAX)
}

/// Where a part begins, and its length.
fn part_span(info: &ObjectInfo, number: u32) -> Option<(u64, u64)> {
    let mut first = 0;
    for (part, size) in &info.parts {
        if *part == number {
            return Some((first, *size));
        }
        first += size;
    }
    None
}

/// S3's answer to the number of a part that the object does not have.
fn no_such_part() -> s3s::S3Error {
    let mut error = s3_error!(InvalidRange, "the object has no such part");
    error.set_code(s3s::S3ErrorCode::Custom("InvalidPartNumber".into()));
    error.set_status_code(http::StatusCode::RANGE_NOT_SATISFIABLE);
    error
}

fn refused(key: String, version_id: Option<String>, error: &s3s::S3Error) -> Error {
    Error {
        code: Some(error.code().as_str().to_owned()),
        key: Some(key),
        message: error.message().map(str::to_owned),
        version_id,
    }
}
