//! Multipart uploads.

use s3s::S3Request;
use s3s::S3Response;
use s3s::S3Result;
use s3s::dto::*;
use s3s::s3_error;

use super::Gateway;
use super::convert;
use super::convert::given_checksums;
use super::convert::set_checksums;
use super::grants;
use super::listing::Encoding;
use super::listing::page_size;
use super::objects;
use super::unsupported;
use crate::disk::format::checksum::Algorithm;
use crate::node::store::api::CompletePart;
use crate::node::store::api::CompleteRequest;
use crate::node::store::api::Metadata;
use crate::node::store::api::PartCopyRequest;
use crate::node::store::api::PartRequest;
use crate::node::store::api::UploadInfo;
use crate::node::store::api::UploadListRequest;
use crate::node::store::api::UploadRequest;
use crate::protocol::access::acl::Acl;
use crate::value::ObjectKey;

/// `CreateMultipartUpload`.
pub async fn create_multipart_upload(
    gateway: &Gateway,
    request: S3Request<CreateMultipartUploadInput>,
) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
    unsupported::refuse_but_grants(&request.headers)?;
    let input = request.input;
    let checksum = upload_checksum(
        input.checksum_algorithm.as_ref().map(ChecksumAlgorithm::as_str),
        input.checksum_type.as_ref().map(ChecksumType::as_str),
    )?;
    let upload = UploadRequest {
        target: convert::target(input.bucket.clone(), input.key.clone()),
        metadata: Metadata {
            acl: gateway
                .new_acl(&input.bucket, &request.headers, request.credentials.as_ref())
                .await?,
            ..convert::metadata(&request.headers, input.metadata)?
        },
        checksum,
    };
    let id = gateway.store.create_upload(upload).await.map_err(|error| gateway.refusal(&error))?;
    Ok(S3Response::new(CreateMultipartUploadOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(id),
        checksum_algorithm: checksum.and_then(|(algorithm, _)| printed_algorithm(algorithm)),
        checksum_type: checksum.map(|(_, full)| printed_type(full)),
        ..CreateMultipartUploadOutput::default()
    }))
}

/// `UploadPart`.
pub async fn upload_part(
    gateway: &Gateway,
    request: S3Request<UploadPartInput>,
) -> S3Result<S3Response<UploadPartOutput>> {
    unsupported::refuse(&request.headers)?;
    let input = request.input;
    let asked = input.checksum_algorithm.as_ref().map(ChecksumAlgorithm::as_str);
    let part = PartRequest {
        target: convert::target(input.bucket, input.key),
        upload: input.upload_id,
        number: required_part_number(input.part_number)?,
        size: convert::length(input.content_length)?,
        content_md5: convert::content_md5(input.content_md5)?,
        checksums: convert::wanted_checksums(&request.headers, request.trailing_headers, asked)?,
    };
    let part = gateway.store.put_part(part, convert::body(input.body)).await;
    let part = part.map_err(|error| gateway.refusal(&error))?;
    let mut output =
        UploadPartOutput { e_tag: convert::etag(part.etag), ..UploadPartOutput::default() };
    set_checksums!(output, convert::printed_digests(&part.checksums));
    Ok(S3Response::new(output))
}

/// `UploadPartCopy`.
pub async fn upload_part_copy(
    gateway: &Gateway,
    request: S3Request<UploadPartCopyInput>,
) -> S3Result<S3Response<UploadPartCopyOutput>> {
    unsupported::refuse(&request.headers)?;
    let input = request.input;
    let mut source = objects::copy_source(&input.copy_source, &request.headers)?;
    if let Some(range) = &input.copy_source_range {
        let malformed = || s3_error!(InvalidArgument, "the range of a copy is bytes=first-last");
        let range = Range::parse(range).map_err(|_| malformed())?;
        // Here S3 knows no open ranges.
        if !matches!(range, Range::Int { last: Some(_), .. }) {
            return Err(malformed());
        }
        source.range = Some(objects::range(range));
    }
    let copy = PartCopyRequest {
        source,
        target: convert::target(input.bucket, input.key),
        upload: input.upload_id,
        number: required_part_number(input.part_number)?,
    };
    let (part, copied) = gateway
        .store
        .copy_part(copy)
        .await
        .map_err(|error| objects::source_refusal(gateway, &error))?;
    let mut result = CopyPartResult {
        e_tag: convert::etag(part.etag),
        last_modified: convert::time(part.modtime_ns),
        ..CopyPartResult::default()
    };
    set_checksums!(result, convert::printed_digests(&part.checksums));
    Ok(S3Response::new(UploadPartCopyOutput {
        copy_part_result: Some(result),
        copy_source_version_id: copied.names_version.then(|| copied.version.to_string()),
        ..UploadPartCopyOutput::default()
    }))
}

/// `CompleteMultipartUpload`.
pub async fn complete_multipart_upload(
    gateway: &Gateway,
    request: S3Request<CompleteMultipartUploadInput>,
) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
    unsupported::refuse(&request.headers)?;
    let input = request.input;
    let listed = input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default();
    if listed.is_empty() {
        return Err(s3_error!(MalformedXML, "no parts are listed"));
    }
    let mut parts = Vec::new();
    for part in listed {
        let number = required_part_number(part.part_number.unwrap_or(0))?;
        let checksum = convert::one_checksum(given_checksums!(part))?;
        let etag = part.e_tag.ok_or_else(|| s3_error!(MalformedXML, "a part has no ETag"))?;
        parts.push(CompletePart { number, etag: etag.value().to_owned(), checksum });
    }
    let target = convert::target(input.bucket.clone(), input.key.clone());
    if let Some(announced) = input.mpu_object_size {
        let size = uploaded_size(gateway, &target, &input.upload_id, &parts).await?;
        if u64::try_from(announced) != Ok(size) {
            return Err(s3_error!(InvalidRequest, "the parts have {size} bytes"));
        }
    }
    let given = [
        (Algorithm::Crc32, input.checksum_crc32),
        (Algorithm::Crc32C, input.checksum_crc32c),
        (Algorithm::Crc64Nvme, input.checksum_crc64nvme),
        (Algorithm::Sha1, input.checksum_sha1),
        (Algorithm::Sha256, input.checksum_sha256),
    ];
    let complete = CompleteRequest {
        target,
        upload: input.upload_id,
        parts,
        checksum: convert::one_checksum(given)?,
        conditions: convert::conditions(&request.headers, "")?,
    };
    let outcome = gateway.store.complete_upload(complete).await;
    let outcome = outcome.map_err(|error| gateway.refusal(&error))?;
    let mut output = CompleteMultipartUploadOutput {
        location: Some(format!("/{}/{}", input.bucket, input.key)),
        bucket: Some(input.bucket),
        key: Some(input.key),
        e_tag: convert::etag(outcome.etag),
        version_id: convert::made(outcome.version),
        checksum_type: convert::checksum_type(&outcome.checksums),
        ..CompleteMultipartUploadOutput::default()
    };
    set_checksums!(output, convert::printed_all(&outcome.checksums));
    Ok(S3Response::new(output))
}

/// `AbortMultipartUpload`.
pub async fn abort_multipart_upload(
    gateway: &Gateway,
    request: S3Request<AbortMultipartUploadInput>,
) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
    let input = request.input;
    let target = convert::target(input.bucket, input.key);
    let aborted = gateway.store.abort_upload(&target, &input.upload_id).await;
    aborted.map_err(|error| gateway.refusal(&error))?;
    Ok(S3Response::new(AbortMultipartUploadOutput::default()))
}

/// `ListParts`.
pub async fn list_parts(
    gateway: &Gateway,
    request: S3Request<ListPartsInput>,
) -> S3Result<S3Response<ListPartsOutput>> {
    unsupported::refuse(&request.headers)?;
    let input = request.input;
    let after = u32::try_from(input.part_number_marker.unwrap_or(0)).unwrap_or(0);
    let limit = page_size(input.max_parts)?;
    let target = convert::target(input.bucket.clone(), input.key.clone());
    let listed = gateway.store.list_parts(&target, &input.upload_id, after, limit).await;
    let (upload, parts, more) = listed.map_err(|error| gateway.refusal(&error))?;
    let last = parts.last().map(|part| part.number.cast_signed());
    let bucket_owner = gateway.owner(&input.bucket).await?;
    let owner = upload_owner(&upload, &bucket_owner);
    let parts = parts.into_iter().map(|part| {
        let mut printed = Part {
            e_tag: convert::etag(part.etag),
            last_modified: convert::time(part.modtime_ns),
            part_number: Some(part.number.cast_signed()),
            size: Some(convert::signed(part.size)),
            ..Part::default()
        };
        set_checksums!(printed, convert::printed_digests(&part.checksums));
        printed
    });
    Ok(S3Response::new(ListPartsOutput {
        bucket: Some(input.bucket),
        key: Some(input.key),
        upload_id: Some(input.upload_id),
        checksum_algorithm: upload.checksum.and_then(|(algorithm, _)| printed_algorithm(algorithm)),
        checksum_type: upload.checksum.map(|(_, full)| printed_type(full)),
        is_truncated: Some(more),
        max_parts: Some(i32::try_from(limit).unwrap_or(i32::MAX)),
        next_part_number_marker: last.filter(|_| more),
        part_number_marker: Some(after.cast_signed()),
        parts: Some(parts.collect()),
        initiator: Some(initiator(&owner)),
        owner: Some(grants::owner(&owner)),
        storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
        ..ListPartsOutput::default()
    }))
}

/// `ListMultipartUploads`.
pub async fn list_multipart_uploads(
    gateway: &Gateway,
    request: S3Request<ListMultipartUploadsInput>,
) -> S3Result<S3Response<ListMultipartUploadsOutput>> {
    let input = request.input;
    let encoding = Encoding::asked(input.encoding_type.as_ref())?;
    let limit = page_size(input.max_uploads)?;
    let listed = gateway.store.list_uploads(UploadListRequest {
        bucket: input.bucket.clone(),
        prefix: input.prefix.clone().unwrap_or_default(),
        delimiter: input.delimiter.clone().filter(|delimiter| !delimiter.is_empty()),
        key_marker: input.key_marker.clone().unwrap_or_default(),
        upload_marker: input.upload_id_marker.clone().filter(|marker| !marker.is_empty()),
        limit,
    });
    let listed = listed.await.map_err(|error| gateway.refusal(&error))?;
    let bucket_owner = gateway.owner(&input.bucket).await?;
    let uploads = listed.uploads.into_iter().map(|upload| MultipartUpload {
        checksum_algorithm: upload.checksum.and_then(|(algorithm, _)| printed_algorithm(algorithm)),
        checksum_type: upload.checksum.map(|(_, full)| printed_type(full)),
        initiated: convert::time(upload.opened_ns),
        initiator: Some(initiator(&upload_owner(&upload, &bucket_owner))),
        key: Some(encoding.print(&upload.target.key)),
        owner: Some(grants::owner(&upload_owner(&upload, &bucket_owner))),
        storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
        upload_id: Some(upload.upload),
    });
    let (next_key, next_upload) = listed.next.clone().unzip();
    Ok(S3Response::new(ListMultipartUploadsOutput {
        bucket: Some(input.bucket),
        common_prefixes: Some(encoding.prefixes(&listed.prefixes)),
        delimiter: encoding.delimiter(input.delimiter),
        encoding_type: input.encoding_type,
        is_truncated: Some(listed.next.is_some()),
        key_marker: input.key_marker.map(|marker| encoding.print(&marker)),
        max_uploads: Some(i32::try_from(limit).unwrap_or(i32::MAX)),
        next_key_marker: next_key.map(|key| encoding.print(&key)),
        next_upload_id_marker: next_upload.flatten(),
        prefix: input.prefix.map(|prefix| encoding.print(&prefix)),
        request_charged: None,
        upload_id_marker: input.upload_id_marker,
        uploads: Some(uploads.collect()),
    }))
}

/// The checksum of an upload, and whether that of the whole is over the contents.
fn upload_checksum(
    algorithm: Option<&str>,
    kind: Option<&str>,
) -> S3Result<Option<(Algorithm, bool)>> {
    let Some(algorithm) = algorithm.map(convert::algorithm).transpose()? else {
        if kind.is_some() {
            return Err(s3_error!(InvalidRequest, "a checksum type needs an algorithm"));
        }
        return Ok(None);
    };
    // CRC64NVME is never composite, and a SHA cannot be computed from those of the parts.
    let by_default = algorithm == Algorithm::Crc64Nvme;
    let full = match kind {
        None => by_default,
        Some(ChecksumType::FULL_OBJECT) => true,
        Some(ChecksumType::COMPOSITE) => false,
        Some(_) => return Err(s3_error!(InvalidRequest, "the checksum type is unknown")),
    };
    let impossible = match algorithm {
        Algorithm::Crc64Nvme => !full,
        Algorithm::Sha1 | Algorithm::Sha256 => full,
        _ => false,
    };
    if impossible {
        return Err(s3_error!(InvalidRequest, "algorithm and checksum type do not go together"));
    }
    Ok(Some((algorithm, full)))
}

/// The account that has opened an upload.
fn upload_owner(upload: &UploadInfo, bucket_owner: &str) -> String {
    let acl = upload.acl.as_deref().unwrap_or_default();
    Acl::parse(acl.as_bytes(), bucket_owner).owner.id
}

fn initiator(account: &str) -> Initiator {
    Initiator { display_name: Some(account.to_owned()), id: Some(account.to_owned()) }
}

/// Bytes of the listed parts, as they were uploaded.
async fn uploaded_size(
    gateway: &Gateway,
    target: &ObjectKey,
    upload: &str,
    parts: &[CompletePart],
) -> S3Result<u64> {
    let (mut after, mut size) = (0, 0);
    loop {
        let listed = gateway.store.list_parts(target, upload, after, 1_000).await;
        let (_, page, more) = listed.map_err(|error| gateway.refusal(&error))?;
        let listed = page.iter().filter(|part| parts.iter().any(|one| one.number == part.number));
        size += listed.map(|part| part.size).sum::<u64>();
        match page.last() {
            Some(last) if more => after = last.number,
            _ => return Ok(size),
        }
    }
}

fn required_part_number(number: i32) -> S3Result<u32> {
    let number = objects::part_number(Some(number))?;
    number.ok_or_else(|| s3_error!(InvalidArgument))
}

fn printed_algorithm(algorithm: Algorithm) -> Option<ChecksumAlgorithm> {
    convert::algorithm_name(algorithm).map(ChecksumAlgorithm::from_static)
}

fn printed_type(full: bool) -> ChecksumType {
    ChecksumType::from_static(if full {
        ChecksumType::FULL_OBJECT
    } else {
        ChecksumType::COMPOSITE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithm_and_type_go_together_as_s3_has_it() {
        let checksum = |algorithm, kind| upload_checksum(algorithm, kind).ok();
        assert_eq!(checksum(None, None), Some(None));
        let full = Some(Some((Algorithm::Crc64Nvme, true)));
        assert_eq!(checksum(Some("CRC64NVME"), None), full);
        assert_eq!(checksum(Some("SHA256"), None), Some(Some((Algorithm::Sha256, false))));
        let full = Some(Some((Algorithm::Crc32, true)));
        assert_eq!(checksum(Some("CRC32"), Some("FULL_OBJECT")), full);
        assert_eq!(checksum(Some("SHA1"), Some("FULL_OBJECT")), None);
        assert_eq!(checksum(Some("CRC64NVME"), Some("COMPOSITE")), None);
        assert_eq!(checksum(None, Some("COMPOSITE")), None);
        assert_eq!(checksum(Some("MD5"), None), None);
    }
}
