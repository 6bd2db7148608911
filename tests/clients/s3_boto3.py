#!/usr/bin/env python3
"""What boto3 and raw requests see of the node's S3: one line a check, exit 1 naming what failed.

    s3_boto3.py --endpoint URL [--endpoint URL]... [--only WORD]

Keys come from FIREDRILL_ACCESS_KEY and FIREDRILL_SECRET_KEY; those of a principal of another account, if
there is one, from FIREDRILL_OTHER_ACCESS_KEY and FIREDRILL_OTHER_SECRET_KEY.
"""

import argparse
import base64
import datetime
import hashlib
import itertools
import json
import os
import sys
import threading
import time
import traceback
import urllib.error
import urllib.request
import uuid
import zlib

import boto3
import botocore
from botocore.config import Config
from botocore.exceptions import ClientError

from signing import Signer, crc32

MIB = 1 << 20
CHECKS = []
COUNTER = itertools.count()


def check(function):
    CHECKS.append(function)
    return function


class World:
    """The cluster under test, and a bucket of its own for each check."""

    def __init__(self, endpoints):
        key, secret = os.environ["FIREDRILL_ACCESS_KEY"], os.environ["FIREDRILL_SECRET_KEY"]
        self.endpoints, self.keys, self.run = endpoints, (key, secret), uuid.uuid4().hex[:8]
        self.nodes = [self.client(endpoint, key, secret) for endpoint in endpoints]
        self.s3, self.raw = self.nodes[0], Signer(endpoints[0], key, secret)
        other = os.environ.get("FIREDRILL_OTHER_ACCESS_KEY")
        self.other = other and self.client(
            endpoints[-1], other, os.environ["FIREDRILL_OTHER_SECRET_KEY"])
        self.nobody = self.client(endpoints[-1], None, None)

    @staticmethod
    def client(endpoint, key, secret, **config):
        version = {"signature_version": "s3v4" if key else botocore.UNSIGNED}
        config = Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1},
                        region_name="us-east-1", proxies={}, **version, **config)
        return boto3.client("s3", endpoint_url=endpoint, aws_access_key_id=key,
                            aws_secret_access_key=secret, config=config)

    def bucket(self, versioning=None, **arguments):
        name = f"probe-{self.run}-{next(COUNTER)}"
        self.s3.create_bucket(Bucket=name, **arguments)
        if versioning:
            self.s3.put_bucket_versioning(
                Bucket=name, VersioningConfiguration={"Status": versioning})
        return name

    def clean(self):
        for bucket in self.s3.list_buckets()["Buckets"]:
            if not bucket["Name"].startswith(f"probe-{self.run}-"):
                continue
            name = bucket["Name"]
            for upload in self.s3.list_multipart_uploads(Bucket=name).get("Uploads", []):
                self.s3.abort_multipart_upload(Bucket=name, Key=upload["Key"],
                                               UploadId=upload["UploadId"])
            for page in self.s3.get_paginator("list_object_versions").paginate(Bucket=name):
                gone = [{"Key": it["Key"], "VersionId": it["VersionId"]}
                        for kind in ("Versions", "DeleteMarkers") for it in page.get(kind, [])]
                if gone:
                    self.s3.delete_objects(Bucket=name, Delete={"Objects": gone})
            self.s3.delete_bucket(Bucket=name)


def same(got, wanted, what=""):
    assert got == wanted, f"{what or 'got'}: {got!r}, not {wanted!r}"


def refused(status, code, call, **arguments):
    """The call must fail like this; answers the response."""
    try:
        call(**arguments)
    except ClientError as error:
        answer = error.response
        got = (answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"])
        # A HEAD has no body to tell the code.
        wanted = (status, code) if got[1] != str(status) else (status, str(status))
        same(got, wanted, f"refusal of {arguments}")
        return answer
    raise AssertionError(f"{arguments} was not refused with {status} {code}")


def body_of(answer):
    return answer["Body"].read()


def noise(size, seed=b"firedrill"):
    block = hashlib.sha256(seed).digest() * 32768
    return (block * (size // len(block) + 1))[:size]


def upload(s3, bucket, key, parts, complete=None, **arguments):
    """Uploads `parts` and completes; answers (answer, listed parts, upload id)."""
    opened = s3.create_multipart_upload(Bucket=bucket, Key=key, **arguments)["UploadId"]
    algorithm = {name: value for name, value in arguments.items() if name == "ChecksumAlgorithm"}
    listed = []
    for number, part in enumerate(parts, 1):
        answer = s3.upload_part(Bucket=bucket, Key=key, UploadId=opened, PartNumber=number,
                                Body=part, **algorithm)
        sums = {name: value for name, value in answer.items()
                if name.startswith("Checksum") and name != "ChecksumType"}
        listed.append({"ETag": answer["ETag"], "PartNumber": number, **sums})
    answer = s3.complete_multipart_upload(Bucket=bucket, Key=key, UploadId=opened,
                                          MultipartUpload={"Parts": listed}, **(complete or {}))
    return answer, listed, opened


# Signatures


@check
def signatures_by_header(w):
    bucket = w.bucket()
    w.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for key, secret, code in ((w.keys[0], "guess", "SignatureDoesNotMatch"),
                              ("stranger", "guess", "InvalidAccessKeyId")):
        stranger = w.client(w.endpoints[0], key, secret)
        refused(403, code, stranger.get_object, Bucket=bucket, Key="k")
        refused(403, code, stranger.put_object, Bucket=bucket, Key="k", Body=b"y")
    refused(403, "AccessDenied", w.nobody.get_object, Bucket=bucket, Key="k")
    refused(403, "AccessDenied", w.nobody.put_object, Bucket=bucket, Key="k", Body=b"y")
    refused(403, "AccessDenied", w.nobody.list_buckets)
    same(body_of(w.s3.get_object(Bucket=bucket, Key="k")), b"x", "what strangers left")
    # A body that is not the signed one.
    digest = hashlib.sha256(b"other").hexdigest()
    status, _, body = w.raw.send("PUT", f"/{bucket}/k", body=b"noise", payload=digest)
    same((status, b"XAmzContentSHA256Mismatch" in body), (400, True), str(body))
    status, _, _ = w.raw.send("PUT", f"/{bucket}/k", body=b"z", payload="UNSIGNED-PAYLOAD")
    same(status, 200, "an unsigned payload")


@check
def presigned_urls(w):
    bucket = w.bucket()
    url = w.s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "a b/ü+%"})
    urllib.request.urlopen(urllib.request.Request(url, data=b"by url", method="PUT")).close()
    url = w.s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a b/ü+%"})
    with urllib.request.urlopen(url) as answer:
        same(answer.read(), b"by url")
    wrong = url[:-1] + ("0" if url[-1] != "0" else "1")
    url = w.s3.generate_presigned_url(
        "get_object", Params={"Bucket": bucket, "Key": "a b/ü+%"}, ExpiresIn=1)
    time.sleep(2.1)
    for bad in (wrong, url):
        try:
            urllib.request.urlopen(bad).close()
            raise AssertionError("a bad URL was taken")
        except urllib.error.HTTPError as error:
            same(error.code, 403, "a bad URL")


@check
def chunked_bodies(w):
    bucket = w.bucket()
    body = noise(200_001)
    trailer = ("x-amz-checksum-crc32", crc32(body))
    for name, arguments in {
        "signed": {"signed": True},
        "signed-trailer": {"signed": True, "trailer": trailer},
        "unsigned-trailer": {"signed": False, "trailer": trailer},
    }.items():
        status, headers, answer = w.raw.send_chunks(
            f"/{bucket}/{name}", body, headers={"content-type": "text/x"}, **arguments)
        same(status, 200, f"{name}: {answer}")
        got = w.s3.get_object(Bucket=bucket, Key=name, ChecksumMode="ENABLED")
        same(body_of(got), body, name)
        same(got["ContentType"], "text/x", name)
        assert "ContentEncoding" not in got, "how a body was sent is kept with it"
        if "trailer" in arguments:
            same(got["ChecksumCRC32"], trailer[1], name)
            same(headers["x-amz-checksum-crc32"], trailer[1], name)
    wrong = ("x-amz-checksum-crc32", crc32(b"other"))
    for name, arguments in {
        "a chunk signed otherwise": {"signed": True, "spoil": "chunk"},
        "a trailer signed otherwise": {"signed": True, "trailer": trailer, "spoil": "trailer"},
        "a wrong checksum, signed": {"signed": True, "trailer": wrong},
        "a wrong checksum": {"signed": False, "trailer": wrong},
        "a trailer that is no checksum": {"signed": False, "trailer": (wrong[0], "AAAA")},
    }.items():
        status, _, answer = w.raw.send_chunks(f"/{bucket}/spoilt", body, **arguments)
        assert 400 <= status < 500, f"{name}: {status} {answer}"
    refused(404, "NoSuchKey", w.s3.get_object, Bucket=bucket, Key="spoilt")
    for size in (0, 1):
        trailer = ("x-amz-checksum-crc32", crc32(body[:size]))
        status, _, answer = w.raw.send_chunks(
            f"/{bucket}/small{size}", body[:size], signed=False, trailer=trailer)
        same(status, 200, f"{size} bytes: {answer}")


# Buckets


@check
def buckets(w):
    name = w.bucket()
    same(w.s3.head_bucket(Bucket=name)["ResponseMetadata"]["HTTPStatusCode"], 200)
    same(w.s3.get_bucket_location(Bucket=name)["LocationConstraint"], None)
    listed = w.s3.list_buckets(Prefix=name)
    same([it["Name"] for it in listed["Buckets"]], [name])
    assert name in [it["Name"] for it in w.nodes[-1].list_buckets()["Buckets"]]
    refused(409, "BucketAlreadyOwnedByYou", w.s3.create_bucket, Bucket=name)
    refused(400, "InvalidBucketName", w.s3.create_bucket, Bucket="UPPER_case")
    refused(404, "NoSuchBucket", w.s3.head_bucket, Bucket=name + "-gone")
    refused(404, "NoSuchBucket", w.s3.list_objects_v2, Bucket=name + "-gone")
    refused(404, "NoSuchBucket", w.s3.put_object, Bucket=name + "-gone", Key="k", Body=b"")
    w.s3.put_object(Bucket=name, Key="k", Body=b"")
    refused(409, "BucketNotEmpty", w.s3.delete_bucket, Bucket=name)
    w.s3.delete_object(Bucket=name, Key="k")
    w.s3.delete_bucket(Bucket=name)
    refused(404, "NoSuchBucket", w.s3.delete_bucket, Bucket=name)
    names = sorted(w.bucket() for _ in range(3))
    pages, token = [], {}
    while True:
        page = w.s3.list_buckets(Prefix=f"probe-{w.run}-", MaxBuckets=2, **token)
        pages += [it["Name"] for it in page["Buckets"]]
        if "ContinuationToken" not in page:
            break
        token = {"ContinuationToken": page["ContinuationToken"]}
    assert sorted(set(pages)) == pages and set(names) <= set(pages), pages


@check
def versioning_states(w):
    bucket = w.bucket()
    assert "Status" not in w.s3.get_bucket_versioning(Bucket=bucket)
    assert "VersionId" not in w.s3.put_object(Bucket=bucket, Key="k", Body=b"null 1")
    w.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    same(w.s3.get_bucket_versioning(Bucket=bucket)["Status"], "Enabled")
    first = w.s3.put_object(Bucket=bucket, Key="k", Body=b"one")["VersionId"]
    w.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    w.s3.put_object(Bucket=bucket, Key="k", Body=b"null 2")
    got = w.s3.get_object(Bucket=bucket, Key="k")
    same((body_of(got), got["VersionId"]), (b"null 2", "null"))
    listed = w.s3.list_object_versions(Bucket=bucket)["Versions"]
    same([it["VersionId"] for it in listed], ["null", first])
    same([it["IsLatest"] for it in listed], [True, False])
    marker = w.s3.delete_object(Bucket=bucket, Key="k")
    same((marker["DeleteMarker"], marker["VersionId"]), (True, "null"))
    listed = w.s3.list_object_versions(Bucket=bucket)
    same([it["VersionId"] for it in listed["Versions"]], [first], "versions under a null marker")
    same(body_of(w.s3.get_object(Bucket=bucket, Key="k", VersionId=first)), b"one")


@check
def delete_markers(w):
    bucket = w.bucket("Enabled")
    first = w.s3.put_object(Bucket=bucket, Key="k", Body=b"1")["VersionId"]
    marker = w.s3.delete_object(Bucket=bucket, Key="k")["VersionId"]
    for call in (w.s3.get_object, w.s3.head_object):
        answer = refused(404, "NoSuchKey", call, Bucket=bucket, Key="k")
        headers = answer["ResponseMetadata"]["HTTPHeaders"]
        same((headers["x-amz-delete-marker"], headers["x-amz-version-id"]), ("true", marker))
        answer = refused(405, "MethodNotAllowed", call, Bucket=bucket, Key="k", VersionId=marker)
        headers = answer["ResponseMetadata"]["HTTPHeaders"]
        same((headers["x-amz-delete-marker"], headers["allow"]), ("true", "DELETE"))
        assert "last-modified" in headers
    gone = w.s3.delete_object(Bucket=bucket, Key="k", VersionId=marker)
    same((gone["DeleteMarker"], gone["VersionId"]), (True, marker))
    same(body_of(w.s3.get_object(Bucket=bucket, Key="k")), b"1")
    gone = w.s3.delete_object(Bucket=bucket, Key="k", VersionId=first)
    same(gone["VersionId"], first)
    refused(404, "NoSuchVersion", w.s3.get_object, Bucket=bucket, Key="k", VersionId=first)
    refused(400, "InvalidArgument", w.s3.get_object, Bucket=bucket, Key="k", VersionId="nonsense")


# Objects


@check
def ranges_parts_and_overrides(w):
    bucket, body = w.bucket(), noise(3 * MIB + 17)
    w.s3.put_object(Bucket=bucket, Key="k", Body=body, ContentType="text/plain")
    size = len(body)
    for text, first, last in (("0-0", 0, 0), ("5-1048580", 5, 1048580), ("3145000-", 3145000, size - 1),
                              ("-9", size - 9, size - 1), (f"0-{size * 2}", 0, size - 1),
                              (f"-{size * 2}", 0, size - 1)):
        got = w.s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={text}")
        same(body_of(got), body[first:last + 1], text)
        same(got["ContentRange"], f"bytes {first}-{last}/{size}", text)
        same(got["ResponseMetadata"]["HTTPStatusCode"], 206, text)
        head = w.s3.head_object(Bucket=bucket, Key="k", Range=f"bytes={text}")
        same((head["ContentLength"], head["ResponseMetadata"]["HTTPStatusCode"]),
             (last + 1 - first, 206), f"HEAD of {text}")
    refused(416, "InvalidRange", w.s3.get_object, Bucket=bucket, Key="k", Range=f"bytes={size}-")
    w.s3.put_object(Bucket=bucket, Key="empty", Body=b"")
    refused(416, "InvalidRange", w.s3.get_object, Bucket=bucket, Key="empty", Range="bytes=0-5")
    got = w.s3.get_object(Bucket=bucket, Key="k", PartNumber=1)
    same((len(body_of(got)), got["ResponseMetadata"]["HTTPStatusCode"]), (size, 206), "part 1 of a PUT")
    refused(416, "InvalidPartNumber", w.s3.get_object, Bucket=bucket, Key="k", PartNumber=2)
    overrides = {"ResponseContentType": "a/b", "ResponseContentLanguage": "de",
                 "ResponseCacheControl": "no-cache", "ResponseContentEncoding": "x",
                 "ResponseContentDisposition": "attachment; filename=x"}
    expires = datetime.datetime(2030, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    got = w.s3.get_object(Bucket=bucket, Key="k", ResponseExpires=expires, **overrides)
    for name, value in overrides.items():
        same(got[name.removeprefix("Response")], value, name)
    same(got["ResponseMetadata"]["HTTPHeaders"]["expires"], "Wed, 02 Jan 2030 03:04:05 GMT")
    head = w.s3.head_object(Bucket=bucket, Key="k", ResponseContentType="a/b")
    same(head["ContentType"], "a/b", "override of a HEAD")


@check
def metadata(w):
    bucket = w.bucket()
    expires = datetime.datetime(2031, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
    kept = {"ContentType": "text/x-y; charset=utf-8", "CacheControl": "max-age=9",
            "ContentDisposition": "inline", "ContentEncoding": "gzip", "ContentLanguage": "de, en"}
    user = {"colour": "red  and blue", "empty": "", "etag": "mine", "content-type": "mine"}
    w.s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata=user, Expires=expires, **kept)
    for got in (w.s3.get_object(Bucket=bucket, Key="k"), w.s3.head_object(Bucket=bucket, Key="k")):
        for name, value in kept.items():
            same(got[name], value, name)
        # Blanks inside a value are folded where it is signed.
        same({name: " ".join(value.split()) for name, value in got["Metadata"].items()},
             {name: " ".join(value.split()) for name, value in user.items()})
        same(got["ResponseMetadata"]["HTTPHeaders"]["expires"], "Thu, 02 Jan 2031 03:04:05 GMT")
    w.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    got = w.s3.get_object(Bucket=bucket, Key="k")
    same((got["Metadata"], got["ContentType"]), ({}, "binary/octet-stream"))
    refused(400, "MetadataTooLarge", w.s3.put_object, Bucket=bucket, Key="big", Body=b"x",
            Metadata={"a": "x" * 2100})
    refused(400, "InvalidStorageClass", w.s3.put_object, Bucket=bucket, Key="k", Body=b"",
            StorageClass="GLACIER")


@check
def conditions_on_reads(w):
    bucket = w.bucket()
    etag = w.s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    at = w.s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    hour = datetime.timedelta(hours=1)
    for call in (w.s3.get_object, w.s3.head_object):
        for good in ({"IfMatch": etag}, {"IfMatch": "*"}, {"IfNoneMatch": '"other"'},
                     {"IfModifiedSince": at - hour}, {"IfUnmodifiedSince": at + hour},
                     {"IfMatch": etag, "IfUnmodifiedSince": at - hour}):
            call(Bucket=bucket, Key="k", **good)
        for bad in ({"IfMatch": '"other"'}, {"IfUnmodifiedSince": at - hour}):
            refused(412, "PreconditionFailed", call, Bucket=bucket, Key="k", **bad)
        for known in ({"IfNoneMatch": etag}, {"IfNoneMatch": "*"}, {"IfModifiedSince": at},
                      {"IfNoneMatch": etag, "IfModifiedSince": at - hour}):
            answer = refused(304, "304", call, Bucket=bucket, Key="k", **known)
            same(answer["ResponseMetadata"]["HTTPHeaders"]["etag"], etag)


@check
def conditions_on_writes(w):
    for versioning in (None, "Enabled"):
        bucket = w.bucket(versioning)
        put, delete = w.s3.put_object, w.s3.delete_object
        at = {"Bucket": bucket, "Key": "k"}
        for missing in ("*", '"etag"'):
            refused(404, "NoSuchKey", put, **at, Body=b"", IfMatch=missing)
        etag = put(**at, Body=b"1", IfNoneMatch="*")["ETag"]
        refused(412, "PreconditionFailed", put, **at, Body=b"2", IfNoneMatch="*")
        refused(412, "PreconditionFailed", put, **at, Body=b"2", IfNoneMatch=etag)
        refused(412, "PreconditionFailed", put, **at, Body=b"2", IfMatch='"other"')
        etag = put(**at, Body=b"2", IfMatch=etag)["ETag"]
        same(body_of(w.s3.get_object(**at)), b"2")
        # CompleteMultipartUpload and CopyObject.
        def complete(**condition):
            upload(w.s3, bucket, "k", [b"whole"], condition)
        refused(412, "PreconditionFailed", complete, IfNoneMatch="*")
        refused(412, "PreconditionFailed", complete, IfMatch='"other"')
        complete(IfMatch=etag)
        etag = w.s3.head_object(**at)["ETag"]
        copy = {"CopySource": {"Bucket": bucket, "Key": "k"}, "Bucket": bucket, "Key": "copy"}
        refused(412, "PreconditionFailed", w.s3.copy_object, **copy, CopySourceIfMatch='"other"')
        refused(412, "PreconditionFailed", w.s3.copy_object, **copy, CopySourceIfNoneMatch=etag)
        w.s3.copy_object(**copy, CopySourceIfMatch=etag, IfNoneMatch="*")
        refused(412, "PreconditionFailed", w.s3.copy_object, **copy, IfNoneMatch="*")
        # Deletes; what is not there is deleted.
        now = w.s3.head_object(**at)["LastModified"]
        old = datetime.datetime(2015, 1, 1)
        for wrong in ({"IfMatch": '"other"'}, {"IfMatchSize": 9}, {"IfMatchLastModifiedTime": old}):
            refused(412, "PreconditionFailed", delete, **at, **wrong)
            delete(Bucket=bucket, Key="never", **wrong)
        listed = w.s3.delete_objects(Bucket=bucket, Delete={"Objects": [
            {"Key": "k", "ETag": "other"}, {"Key": "k", "Size": 9}, {"Key": "never", "ETag": "x"},
            {"Key": "k", "LastModifiedTime": old}]})
        same([it["Code"] for it in listed["Errors"]], ["PreconditionFailed"] * 3)
        same([it["Key"] for it in listed["Deleted"]], ["never"])
        delete(**at, IfMatch=etag, IfMatchSize=5, IfMatchLastModifiedTime=now)
        refused(404, "NoSuchKey", w.s3.get_object, **at)
        if versioning:
            refused(412, "PreconditionFailed", delete, **at, IfMatch=etag)
            made = put(**at, Body=b"new")
            put(**at, Body=b"newer")
            version = {"VersionId": made["VersionId"]}
            refused(412, "PreconditionFailed", delete, **at, **version, IfMatch='"other"')
            delete(**at, **version, IfMatch=made["ETag"])
            refused(404, "NoSuchVersion", w.s3.get_object, **at, **version)


@check
def one_of_many_creators_wins(w):
    bucket, answers = w.bucket(), []

    def create(number):
        s3 = w.nodes[number % len(w.nodes)]
        try:
            s3.put_object(Bucket=bucket, Key="race", Body=str(number).encode(), IfNoneMatch="*")
            answers.append((200, number))
        except ClientError as error:
            answers.append((error.response["ResponseMetadata"]["HTTPStatusCode"], number))

    threads = [threading.Thread(target=create, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    same(sorted(status for status, _ in answers), [200] + [412] * 5)
    winner = next(number for status, number in answers if status == 200)
    same(body_of(w.s3.get_object(Bucket=bucket, Key="race")), str(winner).encode())


@check
def copies(w):
    bucket, other = w.bucket("Enabled"), w.bucket()
    key = "a b/ü+?&%41"
    first = w.s3.put_object(Bucket=bucket, Key=key, Body=b"one", Metadata={"colour": "red"},
                            ContentType="text/x", Tagging="t=1")["VersionId"]
    w.s3.put_object(Bucket=bucket, Key=key, Body=b"two")
    source = {"Bucket": bucket, "Key": key}
    answer = w.s3.copy_object(Bucket=other, Key="now", CopySource=source)
    assert answer["CopySourceVersionId"] != first
    same(body_of(w.s3.get_object(Bucket=other, Key="now")), b"two")
    answer = w.s3.copy_object(Bucket=other, Key="old", CopySource={**source, "VersionId": first})
    same(answer["CopySourceVersionId"], first)
    got = w.s3.get_object(Bucket=other, Key="old")
    same((body_of(got), got["Metadata"], got["ContentType"], got["TagCount"]),
         (b"one", {"colour": "red"}, "text/x", 1))
    same(answer["CopyObjectResult"]["ETag"], got["ETag"])
    w.s3.copy_object(Bucket=other, Key="old", CopySource={**source, "VersionId": first},
                     MetadataDirective="REPLACE", Metadata={"shape": "round"}, ContentType="text/y",
                     TaggingDirective="REPLACE", Tagging="u=2&v=3")
    got = w.s3.get_object(Bucket=other, Key="old")
    same((got["Metadata"], got["ContentType"], got["TagCount"]), ({"shape": "round"}, "text/y", 2))
    itself = {"Bucket": other, "Key": "old", "CopySource": {"Bucket": other, "Key": "old"}}
    refused(400, "InvalidRequest", w.s3.copy_object, **itself)
    w.s3.copy_object(**itself, MetadataDirective="REPLACE", Metadata={"new": "1"})
    same(w.s3.head_object(Bucket=other, Key="old")["Metadata"], {"new": "1"})
    refused(404, "NoSuchKey", w.s3.copy_object, Bucket=other, Key="k",
            CopySource={"Bucket": bucket, "Key": "never"})
    refused(404, "NoSuchBucket", w.s3.copy_object, Bucket=other, Key="k",
            CopySource={"Bucket": bucket + "-gone", "Key": "never"})
    w.s3.delete_object(Bucket=bucket, Key=key)
    refused(404, "NoSuchKey", w.s3.copy_object, Bucket=other, Key="k", CopySource=source)


@check
def many_deletes(w):
    bucket = w.bucket("Enabled")
    made = [w.s3.put_object(Bucket=bucket, Key=f"k{n}", Body=b"")["VersionId"] for n in range(3)]
    answer = w.s3.delete_objects(Bucket=bucket, Delete={"Objects": [
        {"Key": "k0"}, {"Key": "k1", "VersionId": made[1]}, {"Key": "never"}]})
    told = {it["Key"]: it for it in answer["Deleted"]}
    assert told["k0"]["DeleteMarker"] and told["k0"]["DeleteMarkerVersionId"], told
    same(told["k1"].get("VersionId"), made[1])
    answer = w.s3.delete_objects(Bucket=bucket, Delete={"Quiet": True, "Objects": [{"Key": "k2"}]})
    assert "Deleted" not in answer and "Errors" not in answer, answer
    many = {"Objects": [{"Key": f"m{n}"} for n in range(1001)]}
    refused(400, "MalformedXML", w.s3.delete_objects, Bucket=bucket, Delete=many)


# Checksums


@check
def checksums_of_puts(w):
    bucket, body = w.bucket(), noise(70_000)
    known = {"CRC32": crc32(body), "SHA1": base64.b64encode(hashlib.sha1(body).digest()).decode(),
             "SHA256": base64.b64encode(hashlib.sha256(body).digest()).decode()}
    algorithms = ["CRC32", "SHA1", "SHA256"]
    try:
        import awscrt  # noqa: F401, without it boto3 has neither of these
        algorithms += ["CRC32C", "CRC64NVME"]
    except ImportError:
        pass
    for algorithm in algorithms:
        put = w.s3.put_object(Bucket=bucket, Key=algorithm, Body=body, ChecksumAlgorithm=algorithm)
        name = f"Checksum{algorithm}"
        same(put["ChecksumType"], "FULL_OBJECT", algorithm)
        for got in (put, w.s3.get_object(Bucket=bucket, Key=algorithm, ChecksumMode="ENABLED"),
                    w.s3.head_object(Bucket=bucket, Key=algorithm, ChecksumMode="ENABLED")):
            same(got[name], known.get(algorithm, put[name]), algorithm)
        assert name not in w.s3.head_object(Bucket=bucket, Key=algorithm)
    for algorithm, text in (
        ("crc32c", "4waSgw=="), ("crc64nvme", "rosUhgp5mIg="), ("crc32", crc32(b"123456789")),
    ):
        header = f"x-amz-checksum-{algorithm}"
        status, headers, answer = w.raw.send("PUT", f"/{bucket}/{algorithm}", body=b"123456789",
                                             headers={header: text})
        same((status, headers.get(header)), (200, text), f"{algorithm}: {answer}")
        status, _, answer = w.raw.send("PUT", f"/{bucket}/bad", body=b"12345678", headers={header: text})
        same((status, b"BadDigest" in answer), (400, True), algorithm)
    md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
    w.s3.put_object(Bucket=bucket, Key="md5", Body=body, ContentMD5=md5)
    refused(400, "BadDigest", w.s3.put_object, Bucket=bucket, Key="bad", Body=b"other", ContentMD5=md5)
    refused(400, "InvalidDigest", w.s3.put_object, Bucket=bucket, Key="bad", Body=b"x", ContentMD5="no")
    refused(400, "BadDigest", w.s3.put_object, Bucket=bucket, Key="bad", Body=b"other",
            ChecksumSHA256=known["SHA256"])
    refused(400, "BadDigest", w.s3.put_object, Bucket=bucket, Key="bad", Body=b"other", ChecksumSHA256="bad")
    refused(404, "NoSuchKey", w.s3.get_object, Bucket=bucket, Key="bad")


@check
def checksums_of_uploads(w):
    bucket, parts = w.bucket(), [noise(5 * MIB), noise(70_001)]
    whole = b"".join(parts)
    for algorithm, digest in (("SHA256", hashlib.sha256), ("SHA1", hashlib.sha1)):
        answer, listed, _ = upload(w.s3, bucket, algorithm, parts, ChecksumAlgorithm=algorithm)
        name = f"Checksum{algorithm}"
        digests = [digest(part).digest() for part in parts]
        wanted = base64.b64encode(digest(b"".join(digests)).digest()).decode() + "-2"
        same([part[name] for part in listed], [base64.b64encode(it).decode() for it in digests])
        same((answer[name], answer["ChecksumType"]), (wanted, "COMPOSITE"), algorithm)
        got = w.s3.get_object(Bucket=bucket, Key=algorithm, ChecksumMode="ENABLED")
        same((got[name], body_of(got) == whole), (wanted, True), algorithm)
    answer, _, _ = upload(w.s3, bucket, "full", parts, {"ChecksumType": "FULL_OBJECT"},
                          ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")
    same((answer["ChecksumCRC32"], answer["ChecksumType"]), (crc32(whole), "FULL_OBJECT"))
    head = w.s3.head_object(Bucket=bucket, Key="full", ChecksumMode="ENABLED")
    same((head["ChecksumCRC32"], head["ChecksumType"]), (crc32(whole), "FULL_OBJECT"))
    answer, _, _ = upload(w.s3, bucket, "composite", parts, ChecksumAlgorithm="CRC32")
    each = b"".join(zlib.crc32(part).to_bytes(4, "big") for part in parts)
    same(answer["ChecksumCRC32"], crc32(each) + "-2")
    for number, part in enumerate(parts, 1):
        for call in (w.s3.get_object, w.s3.head_object):
            got = call(Bucket=bucket, Key="full", PartNumber=number, ChecksumMode="ENABLED")
            same((got["ChecksumCRC32"], got["ChecksumType"]), (crc32(part), "FULL_OBJECT"), f"part {number}")
    refused(400, "BadDigest", lambda **given: upload(
        w.s3, bucket, "wrong", parts, given, ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT"),
        ChecksumCRC32=crc32(b"other"), ChecksumType="FULL_OBJECT")
    attributes = w.s3.get_object_attributes(
        Bucket=bucket, Key="SHA256",
        ObjectAttributes=["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"])
    # Of all answers this one has its ETag without quotes.
    same(attributes["ETag"], w.s3.head_object(Bucket=bucket, Key="SHA256")["ETag"].strip('"'))
    same((attributes["ObjectSize"], attributes["ObjectParts"]["TotalPartsCount"],
          [part["Size"] for part in attributes["ObjectParts"]["Parts"]]),
         (len(whole), 2, [len(part) for part in parts]))
    same([part["ChecksumSHA256"] for part in attributes["ObjectParts"]["Parts"]],
         [base64.b64encode(hashlib.sha256(part).digest()).decode() for part in parts])


# Uploads


@check
def uploads(w):
    bucket, parts = w.bucket(), [noise(5 * MIB, b"1"), noise(5 * MIB, b"2"), noise(99, b"3")]
    whole = b"".join(parts)
    answer, listed, opened = upload(w.s3, bucket, "k", parts, Metadata={"a": "b"},
                                    ContentType="text/x", Tagging="t=1&u=2")
    md5s = b"".join(hashlib.md5(part).digest() for part in parts)
    same(answer["ETag"], f'"{hashlib.md5(md5s).hexdigest()}-3"')
    again = w.s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=opened,
                                           MultipartUpload={"Parts": listed})
    same(again["ETag"], answer["ETag"], "completed once more")
    got = w.nodes[-1].get_object(Bucket=bucket, Key="k")
    same((body_of(got) == whole, got["Metadata"], got["ContentType"], got["TagCount"]),
         (True, {"a": "b"}, "text/x", 2))
    at = 0
    for number, part in enumerate(parts, 1):
        got = w.s3.get_object(Bucket=bucket, Key="k", PartNumber=number)
        same((body_of(got) == part, got["PartsCount"]), (True, 3), f"part {number}")
        same(got["ContentRange"], f"bytes {at}-{at + len(part) - 1}/{len(whole)}")
        at += len(part)
        head = w.s3.head_object(Bucket=bucket, Key="k", PartNumber=number)
        same((head["ContentLength"], head["PartsCount"]), (len(part), 3))
    got = w.s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={5 * MIB - 3}-{5 * MIB + 3}")
    same(body_of(got), whole[5 * MIB - 3:5 * MIB + 4], "across parts")
    refused(416, "InvalidPartNumber", w.s3.get_object, Bucket=bucket, Key="k", PartNumber=4)


@check
def uploads_that_go_wrong(w):
    bucket = w.bucket()
    at = {"Bucket": bucket, "Key": "k"}
    opened = w.s3.create_multipart_upload(**at)["UploadId"]
    at["UploadId"] = opened
    etags = [w.s3.upload_part(**at, PartNumber=n, Body=b"small")["ETag"] for n in (1, 2)]

    def complete(*numbers, etag=None):
        listed = [{"PartNumber": n, "ETag": etag or etags[0]} for n in numbers]
        return w.s3.complete_multipart_upload(**at, MultipartUpload={"Parts": listed})

    refused(400, "EntityTooSmall", lambda: complete(1, 2))
    refused(400, "InvalidPartOrder", lambda: complete(2, 1))
    refused(400, "InvalidPart", lambda: complete(9))
    refused(400, "InvalidPart", lambda: complete(1, etag='"other"'))
    refused(400, "MalformedXML", w.s3.complete_multipart_upload, **at)
    refused(400, "MalformedXML", w.s3.complete_multipart_upload, **at, MultipartUpload={"Parts": []})
    refused(400, "InvalidArgument", w.s3.upload_part, **at, PartNumber=10_001, Body=b"")
    refused(404, "NoSuchUpload", w.s3.upload_part, **{**at, "UploadId": "none"}, PartNumber=1, Body=b"")
    refused(404, "NoSuchKey", w.s3.get_object, Bucket=bucket, Key="k")
    w.s3.abort_multipart_upload(**at)
    refused(404, "NoSuchUpload", w.s3.abort_multipart_upload, **at)
    refused(404, "NoSuchUpload", w.s3.list_parts, **at)
    refused(404, "NoSuchUpload", lambda: complete(1))


@check
def part_copies(w):
    bucket, body = w.bucket("Enabled"), noise(6 * MIB)
    version = w.s3.put_object(Bucket=bucket, Key="source ?", Body=body)["VersionId"]
    w.s3.put_object(Bucket=bucket, Key="source ?", Body=b"newer")
    source = {"Bucket": bucket, "Key": "source ?", "VersionId": version}
    at = {"Bucket": bucket, "Key": "k"}
    at["UploadId"] = w.s3.create_multipart_upload(**at)["UploadId"]
    listed = []
    for number, text in enumerate((f"bytes=0-{5 * MIB - 1}", f"bytes={5 * MIB}-{6 * MIB - 1}"), 1):
        answer = w.s3.upload_part_copy(**at, PartNumber=number, CopySource=source, CopySourceRange=text)
        listed.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})
        same(answer["CopySourceVersionId"], version)
    for bad in ("0-2", "bytes=0", "bytes=a-b", "bytes=0-b", "bytes=a-", "bytes=0-2,3-5", "bytes=-3"):
        refused(400, "InvalidArgument", w.s3.upload_part_copy, **at, PartNumber=3, CopySource=source,
                CopySourceRange=bad)
    refused(416, "InvalidRange", w.s3.upload_part_copy, **at, PartNumber=3,
            CopySource=source, CopySourceRange=f"bytes=0-{6 * MIB}")
    w.s3.complete_multipart_upload(**at, MultipartUpload={"Parts": listed})
    same(body_of(w.s3.get_object(Bucket=bucket, Key="k")) == body, True)


@check
def upload_listings(w):
    bucket = w.bucket()
    opened = {}
    for key in ("a/1", "a/2", "b", "c", "c"):
        made = w.s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
        opened.setdefault(key, []).append(made)
    listed = w.s3.list_multipart_uploads(Bucket=bucket)
    same([it["Key"] for it in listed["Uploads"]], ["a/1", "a/2", "b", "c", "c"])
    assert all(it["Initiator"]["ID"] and it["Owner"]["ID"] for it in listed["Uploads"])
    listed = w.s3.list_multipart_uploads(Bucket=bucket, Delimiter="/")
    same(([it["Prefix"] for it in listed["CommonPrefixes"]], [it["Key"] for it in listed["Uploads"]]),
         (["a/"], ["b", "c", "c"]))
    seen, marker = [], {}
    while True:
        page = w.s3.list_multipart_uploads(Bucket=bucket, MaxUploads=1, **marker)
        seen += [(it["Key"], it["UploadId"]) for it in page["Uploads"]]
        if not page["IsTruncated"]:
            break
        marker = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page["NextUploadIdMarker"]}
    same(sorted(seen), sorted((key, one) for key, ids in opened.items() for one in ids))
    at = {"Bucket": bucket, "Key": "b", "UploadId": opened["b"][0]}
    for number in (1, 2, 5):
        w.s3.upload_part(**at, PartNumber=number, Body=b"x" * number)
    page = w.s3.list_parts(**at, MaxParts=2)
    same(([it["PartNumber"] for it in page["Parts"]], page["IsTruncated"]), ([1, 2], True))
    page = w.s3.list_parts(**at, PartNumberMarker=page["NextPartNumberMarker"])
    same([(it["PartNumber"], it["Size"]) for it in page["Parts"]], [(5, 5)])


# Listings


@check
def listings(w):
    bucket = w.bucket()
    keys = ["a", "a/", "a/b", "a/b/c", "b c/d", "b+e", "ü/x", "z"]
    for key in keys:
        w.s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    v2, v1 = w.s3.list_objects_v2, w.s3.list_objects
    for page in (v1(Bucket=bucket), v2(Bucket=bucket)):
        same([it["Key"] for it in page["Contents"]], sorted(keys, key=lambda key: key.encode()))
    for page in (v1(Bucket=bucket, Delimiter="/"), v2(Bucket=bucket, Delimiter="/")):
        same(([it["Key"] for it in page["Contents"]], [it["Prefix"] for it in page["CommonPrefixes"]]),
             (["a", "b+e", "z"], ["a/", "b c/", "ü/"]))
    page = v2(Bucket=bucket, Prefix="a/", Delimiter="/")
    same(([it["Key"] for it in page["Contents"]], page["CommonPrefixes"], page["KeyCount"]),
         (["a/", "a/b"], [{"Prefix": "a/b/"}], 3))
    page = v2(Bucket=bucket, StartAfter="b c/d", FetchOwner=True)
    same([it["Key"] for it in page["Contents"]], ["b+e", "z", "ü/x"])
    assert page["Contents"][0]["Owner"]["ID"]
    assert "Owner" not in v2(Bucket=bucket)["Contents"][0]
    page = v1(Bucket=bucket, Delimiter="/", EncodingType="url")
    same(([it["Prefix"] for it in page["CommonPrefixes"]], [it["Key"] for it in page["Contents"]]),
         (["a/", "b%20c/", "%C3%BC/"], ["a", "b%2Be", "z"]))
    for limit in (1, 2, 3):
        seen, token = [], {}
        while True:
            page = v2(Bucket=bucket, Delimiter="/", MaxKeys=limit, **token)
            part = [it["Key"] for it in page.get("Contents", [])]
            part += [it["Prefix"] for it in page.get("CommonPrefixes", [])]
            assert len(part) <= limit and page["KeyCount"] == len(part)
            seen += part
            if not page["IsTruncated"]:
                break
            token = {"ContinuationToken": page["NextContinuationToken"]}
        same(sorted(seen), sorted(["a", "a/", "b c/", "b+e", "z", "ü/"]), f"pages of {limit}")
        seen, marker = [], ""
        while True:
            page = v1(Bucket=bucket, Delimiter="/", MaxKeys=limit, Marker=marker)
            seen += [it["Key"] for it in page.get("Contents", [])]
            seen += [it["Prefix"] for it in page.get("CommonPrefixes", [])]
            if not page["IsTruncated"]:
                break
            marker = page["NextMarker"]
        same(sorted(seen), sorted(["a", "a/", "b c/", "b+e", "z", "ü/"]), f"v1 pages of {limit}")
    assert "Delimiter" not in v2(Bucket=bucket, Delimiter=""), "an empty delimiter is none"
    page = v2(Bucket=bucket, ContinuationToken="", StartAfter="\n", Delimiter="\n")
    same((page["ContinuationToken"], page["StartAfter"], page["Delimiter"], page["KeyCount"]), ("", "\n", "\n", 8))
    same(v2(Bucket=bucket, MaxKeys=0)["KeyCount"], 0)
    refused(400, "InvalidArgument", v2, Bucket=bucket, ContinuationToken="nonsense!")


@check
def version_listings(w):
    bucket, made = w.bucket("Enabled"), []
    for key in ("a/1", "a/2", "b"):
        for _ in range(2):
            made.append((key, w.s3.put_object(Bucket=bucket, Key=key, Body=b"")["VersionId"]))
        made.append((key, w.s3.delete_object(Bucket=bucket, Key=key)["VersionId"]))
    for limit in (1, 2, 4, 1000):
        seen, marker = [], {}
        while True:
            page = w.s3.list_object_versions(Bucket=bucket, MaxKeys=limit, **marker)
            for kind in ("DeleteMarkers", "Versions"):
                seen += [(it["Key"], it["VersionId"]) for it in page.get(kind, [])]
            if not page["IsTruncated"]:
                break
            marker = {"KeyMarker": page["NextKeyMarker"],
                      "VersionIdMarker": page["NextVersionIdMarker"]}
        same(sorted(seen), sorted(made), f"pages of {limit}")
    page = w.s3.list_object_versions(Bucket=bucket, Delimiter="/")
    same([it["Prefix"] for it in page["CommonPrefixes"]], ["a/"])
    latest = [it["Key"] for it in page["DeleteMarkers"] if it["IsLatest"]]
    same(latest, ["b"])


@check
def pages_under_writes(w):
    bucket = w.bucket()
    stay = [f"k{number:03}" for number in range(60)]
    for key in stay:
        w.s3.put_object(Bucket=bucket, Key=key, Body=b"")
    stop = threading.Event()

    def churn():
        for number in itertools.cycle(range(59)):
            if stop.is_set():
                return
            w.nodes[-1].put_object(Bucket=bucket, Key=f"k{number:03}x", Body=b"")
            w.nodes[-1].delete_object(Bucket=bucket, Key=f"k{number:03}x")

    writer = threading.Thread(target=churn)
    writer.start()
    try:
        for _ in range(3):
            seen, token = [], {}
            while True:
                page = w.s3.list_objects_v2(Bucket=bucket, MaxKeys=7, **token)
                seen += [it["Key"] for it in page["Contents"]]
                if not page["IsTruncated"]:
                    break
                token = {"ContinuationToken": page["NextContinuationToken"]}
            same([key for key in seen if not key.endswith("x")], stay, "keys that stay")
            same(seen, sorted(set(seen)), "all keys")
    finally:
        stop.set()
        writer.join()


@check
def keys_of_every_shape(w):
    bucket = w.bucket()
    keys = ["a//b", "//", "/", "a/./b", "a/../b", "..", ".", f"x/{uuid.uuid4()}", str(uuid.uuid4()),
            "p", "p/q", "p/q/r", "p/", " ", " lead", "trail ", "\\", "a\\b", "%2F", "a%20b", "+", "&?#",
            "ü", "日本語/キー", "😀", "'\"<>", "xl.meta", "part.1", ".metadata.bin", "k" * 255,
            "/".join(["d" * 200] * 5)[:1024], "tab\tkey", "*", "~", "a:b", "!$()=,;@"]
    for key in keys:
        w.s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    for key in keys:
        same(body_of(w.nodes[-1].get_object(Bucket=bucket, Key=key)), key.encode(), key)
    listed = []
    for page in w.s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, MaxKeys=5):
        listed += [it["Key"] for it in page["Contents"]]
    same(listed, sorted(keys, key=lambda key: key.encode()))
    refused(400, "KeyTooLongError", w.s3.put_object, Bucket=bucket, Key="k" * 1025, Body=b"")
    for key in keys[::2]:
        w.s3.delete_object(Bucket=bucket, Key=key)
    gone = w.s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys[1::2]]})
    assert "Errors" not in gone, gone
    assert "Contents" not in w.s3.list_objects_v2(Bucket=bucket)


# Tags, grants, policies


@check
def object_tags(w):
    bucket = w.bucket("Enabled")
    at = {"Bucket": bucket, "Key": "k"}
    old = w.s3.put_object(**at, Body=noise(MIB), Tagging="b=2&a=%20x&c")["VersionId"]
    new = w.s3.put_object(**at, Body=b"small")["VersionId"]

    def tags(**version):
        return {it["Key"]: it["Value"] for it in w.nodes[-1].get_object_tagging(**at, **version)["TagSet"]}

    same((tags(VersionId=old), tags()), ({"a": " x", "b": "2", "c": ""}, {}))
    before = w.s3.head_object(**at, VersionId=old)
    answer = w.s3.put_object_tagging(**at, VersionId=old, Tagging={"TagSet": [
        {"Key": "ü", "Value": "ä/+=&"}, {"Key": "z", "Value": ""}]})
    same(answer["VersionId"], old)
    same((tags(VersionId=old), tags()), ({"ü": "ä/+=&", "z": ""}, {}))
    after = w.s3.head_object(**at, VersionId=old)
    for name in ("ETag", "LastModified", "ContentLength"):
        same(after[name], before[name], f"{name} after tagging")
    same(body_of(w.s3.get_object(**at, VersionId=old)), noise(MIB), "contents after tagging")
    same(w.s3.get_object(**at, VersionId=old)["TagCount"], 2)
    same(after["ResponseMetadata"]["HTTPHeaders"]["x-amz-tagging-count"], "2")
    same([it["VersionId"] for it in w.s3.list_object_versions(Bucket=bucket)["Versions"]], [new, old])
    w.s3.put_object_tagging(**at, Tagging={"TagSet": [{"Key": "n", "Value": "1"}]})
    same(tags(), {"n": "1"})
    w.s3.delete_object_tagging(**at)
    same((tags(), len(tags(VersionId=old))), ({}, 2))
    many = [{"Key": str(number), "Value": "x"} for number in range(11)]
    for bad in (many, [{"Key": "k" * 129, "Value": ""}], [{"Key": "k", "Value": "v" * 257}],
                [{"Key": "k", "Value": "1"}, {"Key": "k", "Value": "2"}], [{"Key": "k", "Value": "<"}],
                [{"Key": "aws:mine", "Value": "x"}]):
        refused(400, "InvalidTag", w.s3.put_object_tagging, **at, Tagging={"TagSet": bad})
    same(tags(), {})
    refused(400, "InvalidArgument", w.s3.put_object, **at, Body=b"", Tagging="a=1&a=2")
    refused(404, "NoSuchKey", w.s3.get_object_tagging, Bucket=bucket, Key="never")
    marker = w.s3.delete_object(**at)["VersionId"]
    refused(405, "MethodNotAllowed", w.s3.put_object_tagging, **at, VersionId=marker,
            Tagging={"TagSet": []})


@check
def bucket_tags(w):
    bucket = w.bucket()
    refused(404, "NoSuchTagSet", w.s3.get_bucket_tagging, Bucket=bucket)
    given = [{"Key": "a", "Value": "b & c"}, {"Key": "ü", "Value": ""}]
    w.s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": given})
    same(w.nodes[-1].get_bucket_tagging(Bucket=bucket)["TagSet"], given)
    w.s3.delete_bucket_tagging(Bucket=bucket)
    refused(404, "NoSuchTagSet", w.s3.get_bucket_tagging, Bucket=bucket)


@check
def grants(w):
    bucket = w.bucket()
    w.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    everyone = "http://acs.amazonaws.com/groups/global/AllUsers"

    def told(answer):
        return sorted((it["Grantee"].get("URI", "owner"), it["Permission"]) for it in answer["Grants"])

    own = [("owner", "FULL_CONTROL")]
    same(told(w.s3.get_bucket_acl(Bucket=bucket)), own)
    same(told(w.s3.get_object_acl(Bucket=bucket, Key="k")), own)
    refused(403, "AccessDenied", w.nobody.list_objects_v2, Bucket=bucket)
    w.s3.put_bucket_acl(Bucket=bucket, ACL="public-read")
    time.sleep(1.1)
    same(told(w.s3.get_bucket_acl(Bucket=bucket)), sorted(own + [(everyone, "READ")]))
    same(w.nobody.list_objects_v2(Bucket=bucket)["KeyCount"], 1)
    refused(403, "AccessDenied", w.nobody.get_object, Bucket=bucket, Key="k")
    refused(403, "AccessDenied", w.nobody.put_object, Bucket=bucket, Key="n", Body=b"")
    w.s3.put_object_acl(Bucket=bucket, Key="k", ACL="public-read")
    same(told(w.s3.get_object_acl(Bucket=bucket, Key="k")), sorted(own + [(everyone, "READ")]))
    same(body_of(w.nobody.get_object(Bucket=bucket, Key="k")), b"x")
    refused(403, "AccessDenied", w.nobody.delete_object, Bucket=bucket, Key="k")
    w.s3.put_object(Bucket=bucket, Key="k", Body=b"y")
    refused(403, "AccessDenied", w.nobody.get_object, Bucket=bucket, Key="k")
    w.s3.put_object(Bucket=bucket, Key="k", Body=b"z", ACL="public-read")
    same(body_of(w.nobody.get_object(Bucket=bucket, Key="k")), b"z")
    w.s3.put_bucket_acl(Bucket=bucket, ACL="public-read-write")
    time.sleep(1.1)
    w.nobody.put_object(Bucket=bucket, Key="anonymous", Body=b"")
    w.s3.put_bucket_acl(Bucket=bucket, ACL="private")
    time.sleep(1.1)
    refused(403, "AccessDenied", w.nobody.put_object, Bucket=bucket, Key="anonymous", Body=b"")
    refused(403, "AccessDenied", w.s3.list_objects_v2, Bucket=bucket, ExpectedBucketOwner="somebody")
    w.s3.put_object(Bucket=bucket, Key="given", Body=b"g", GrantRead=f'uri="{everyone}"',
                    GrantFullControl='id="firedrill"')
    answer = w.s3.get_object_acl(Bucket=bucket, Key="given")
    same(told(answer), sorted(own + [(everyone, "READ")]))
    same(body_of(w.nobody.get_object(Bucket=bucket, Key="given")), b"g")
    for code, given in (("InvalidArgument", 'id="nobody-we-know"'), ("InvalidArgument", "all"),
                        ("UnresolvableGrantByEmailAddress", 'emailAddress="a@b.example"')):
        refused(400, code, w.s3.put_object, Bucket=bucket, Key="given", Body=b"", GrantRead=given)
    refused(400, "InvalidRequest", w.s3.put_object, Bucket=bucket, Key="given", Body=b"", ACL="private",
            GrantRead=f'uri="{everyone}"')


def posted(w, bucket, fields, contents=b"contents", file_name="file.txt"):
    """Posts a form as a browser does; answers status, headers and body."""
    boundary, parts = uuid.uuid4().hex, []
    for name, value in fields.items():
        parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode())
    if contents is not None:
        parts.append(f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{file_name}"\r\n'
                     "Content-Type: text/plain\r\n\r\n".encode() + contents + b"\r\n")
    body = b"".join(parts) + f"--{boundary}--\r\n".encode()
    request = urllib.request.Request(f"{w.endpoints[0]}/{bucket}", data=body, method="POST", headers={
        "Content-Type": f"multipart/form-data; boundary={boundary}"})

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_):
            return None

    try:
        with urllib.request.build_opener(Stay, urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


@check
def forms(w):
    bucket = w.bucket(versioning="Enabled")

    def form(key, conditions=(), expires=600, **fields):
        made = w.s3.generate_presigned_post(bucket, key, Fields=fields or None, ExpiresIn=expires, Conditions=[
            *({name: value} for name, value in fields.items()), *conditions])
        return made["fields"]

    large = noise(3 * MIB + 17)
    status, headers, body = posted(w, bucket, form("a/${filename}", **{
        "Content-Type": "text/x", "x-amz-meta-colour": "blue", "success_action_status": "201", "acl": "public-read",
        "tagging": "<Tagging><TagSet><Tag><Key>a b</Key><Value>c</Value></Tag></TagSet></Tagging>"}), large,
        "C:\\folder\\name.bin")
    same((status, b"<Key>a/name.bin</Key>" in body), (201, True), body)
    got = w.nobody.get_object(Bucket=bucket, Key="a/name.bin")
    same((body_of(got) == large, got["ContentType"], got["Metadata"], got["VersionId"]),
         (True, "text/x", {"colour": "blue"}, headers["x-amz-version-id"]))
    same(w.s3.get_object_tagging(Bucket=bucket, Key="a/name.bin")["TagSet"], [{"Key": "a b", "Value": "c"}])
    to = "http://127.0.0.1:9/then?a=b"
    status, headers, _ = posted(w, bucket, form("k", success_action_redirect=to))
    etag = w.s3.head_object(Bucket=bucket, Key="k")["ETag"].strip('"')
    same((status, headers["Location"]), (303, f"{to}&bucket={bucket}&key=k&etag=%22{etag}%22"))
    digest = base64.b64encode(hashlib.sha256(b"contents").digest()).decode()
    same(posted(w, bucket, {**form("k"), "x-amz-checksum-sha256": digest})[0], 204)

    for what, status, code, fields, contents in (
        ("another key", 403, "AccessDenied", {**form("k"), "key": "other"}, b"x"),
        ("a field more", 403, "AccessDenied", {**form("k"), "x-amz-meta-a": "b"}, b"x"),
        ("a signature that is wrong", 403, "SignatureDoesNotMatch", {**form("k"), "x-amz-signature": "0" * 64}, b"x"),
        ("a key nobody has", 403, "InvalidAccessKeyId",
         {**form("k"), "x-amz-credential": "nobody/20260101/us-east-1/s3/aws4_request"}, b"x"),
        ("no signature", 400, "InvalidArgument", {"key": "k", "policy": form("k")["policy"]}, b"x"),
        ("out of time", 403, "AccessDenied", form("k", expires=-5), b"x"),
        ("too small", 400, "EntityTooSmall", form("k", [["content-length-range", 2, 4]]), b"x"),
        ("too large", 400, "EntityTooLarge", form("k", [["content-length-range", 2, 4]]), b"x" * 5),
        ("another checksum", 400, "BadDigest", {**form("k"), "x-amz-checksum-sha256": digest}, b"x"),
        ("no file", 400, "IncorrectNumberOfFilesInPostRequest", form("k"), None),
        ("encryption", 501, "NotImplemented", form("k", **{"x-amz-server-side-encryption": "AES256"}), b"x"),
        ("nobody", 403, "AccessDenied", {"key": "k"}, b"x"),
        ("too much before the file", 400, "MaxPostPreDataLengthExceeded", {"key": "k", "x": "y" * 20_001}, b"x"),
    ):
        got, _, body = posted(w, bucket, fields, contents)
        same((got, code.encode() in body), (status, True), f"{what}: {body}")
    same(len(w.s3.list_object_versions(Bucket=bucket, Prefix="k")["Versions"]), 2, "nothing else was stored")
    w.s3.put_bucket_acl(Bucket=bucket, ACL="public-read-write")
    time.sleep(1.1)
    same(posted(w, bucket, {"key": "anybody/${filename}", "button": "go"})[0], 204)
    same(body_of(w.s3.get_object(Bucket=bucket, Key="anybody/file.txt")), b"contents")


@check
def policies(w):
    bucket = w.bucket()
    w.s3.put_object(Bucket=bucket, Key="open/k", Body=b"x")
    w.s3.put_object(Bucket=bucket, Key="shut/k", Body=b"x")
    refused(404, "NoSuchBucketPolicy", w.s3.get_bucket_policy, Bucket=bucket)

    def policy(*statements):
        return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})

    arn = f"arn:aws:s3:::{bucket}"
    read = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"{arn}/open/*"}
    deny = {"Effect": "Deny", "Principal": {"AWS": "*"}, "Action": ["s3:Delete*"],
            "Resource": [f"{arn}/*"]}
    w.s3.put_bucket_policy(Bucket=bucket, Policy=policy(read, deny))
    time.sleep(1.1)
    same(w.s3.get_bucket_policy(Bucket=bucket)["Policy"], policy(read, deny))
    same(body_of(w.nobody.get_object(Bucket=bucket, Key="open/k")), b"x")
    refused(403, "AccessDenied", w.nobody.get_object, Bucket=bucket, Key="shut/k")
    refused(403, "AccessDenied", w.s3.delete_object, Bucket=bucket, Key="shut/k")
    gone = w.s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "shut/k"}]})
    same([it["Code"] for it in gone["Errors"]], ["AccessDenied"])
    tagged = {**read, "Resource": f"{arn}/*",
              "Condition": {"StringEquals": {"s3:ExistingObjectTag/level": "public"}}}
    w.s3.put_bucket_policy(Bucket=bucket, Policy=policy(tagged))
    w.s3.put_object(Bucket=bucket, Key="tagged", Body=b"t", Tagging="level=public")
    time.sleep(1.1)
    same(body_of(w.nobody.get_object(Bucket=bucket, Key="tagged")), b"t")
    refused(403, "AccessDenied", w.nobody.get_object, Bucket=bucket, Key="open/k")
    few = {"Effect": "Allow", "Principal": "*", "Action": "s3:ListBucket", "Resource": arn, "Condition": {
        "NumericLessThanEquals": {"s3:max-keys": 2}, "IpAddress": {"aws:SourceIp": ["127.0.0.0/8", "::1/128"]},
        "DateGreaterThan": {"aws:CurrentTime": "2020-01-01T00:00:00Z"}, "Null": {"s3:delimiter": "true"}}}
    w.s3.put_bucket_policy(Bucket=bucket, Policy=policy(few))
    time.sleep(1.1)
    same(w.nobody.list_objects_v2(Bucket=bucket, MaxKeys=2)["KeyCount"], 2)
    for given in ({}, {"MaxKeys": 3}, {"MaxKeys": 2, "Delimiter": "/"}):
        refused(403, "AccessDenied", w.nobody.list_objects_v2, Bucket=bucket, **given)
    elsewhere = {**few, "Condition": {"NotIpAddress": {"aws:SourceIp": ["127.0.0.0/8", "::1/128"]}}}
    w.s3.put_bucket_policy(Bucket=bucket, Policy=policy(elsewhere))
    time.sleep(1.1)
    refused(403, "AccessDenied", w.nobody.list_objects_v2, Bucket=bucket, MaxKeys=2)
    for bad in ("{", policy({**read, "Action": "s3:NoSuchThing"}), policy({**read, "Resource": "arn:aws:s3:::x"})):
        refused(400, "MalformedPolicy", w.s3.put_bucket_policy, Bucket=bucket, Policy=bad)
    strange = {**read, "Condition": {"ArnLike": {"aws:username": "9"}}}
    refused(501, "NotImplemented", w.s3.put_bucket_policy, Bucket=bucket, Policy=policy(strange))
    w.s3.delete_bucket_policy(Bucket=bucket)
    time.sleep(1.1)
    refused(403, "AccessDenied", w.nobody.get_object, Bucket=bucket, Key="tagged")


@check
def other_accounts(w):
    if not w.other:
        return "no principal of another account was given"
    bucket = w.bucket()
    w.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for call, more in ((w.other.get_object, {"Key": "k"}), (w.other.list_objects_v2, {}),
                       (w.other.put_object, {"Key": "n", "Body": b""}), (w.other.get_bucket_acl, {}),
                       (w.other.delete_bucket, {})):
        refused(403, "AccessDenied", call, Bucket=bucket, **more)
    mine = f"probe-{w.run}-other"
    w.other.create_bucket(Bucket=mine)
    try:
        refused(403, "AccessDenied", w.s3.list_objects_v2, Bucket=mine)
        refused(409, "BucketAlreadyExists", w.s3.create_bucket, Bucket=mine)
        refused(403, "AccessDenied", w.other.copy_object, Bucket=mine, Key="k",
                CopySource={"Bucket": bucket, "Key": "k"})
        w.s3.put_object_acl(Bucket=bucket, Key="k", ACL="authenticated-read")
        refused(403, "AccessDenied", w.nobody.get_object, Bucket=bucket, Key="k")
        w.other.copy_object(Bucket=mine, Key="k", CopySource={"Bucket": bucket, "Key": "k"})
        same(body_of(w.other.get_object(Bucket=mine, Key="k")), b"x")
    finally:
        w.other.delete_object(Bucket=mine, Key="k")
        w.other.delete_bucket(Bucket=mine)


@check
def what_is_not_there_says_so(w):
    bucket = w.bucket()
    w.s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for query in ("lifecycle", "cors", "website", "encryption", "replication", "notification",
                  "object-lock", "logging", "accelerate", "inventory", "publicAccessBlock",
                  "ownershipControls", "intelligent-tiering", "metrics", "analytics", "requestPayment"):
        status, _, body = w.raw.send("GET", f"/{bucket}", query)
        same((status, b"NotImplemented" in body), (501, True), f"GET ?{query}: {body}")
    for method, query in (("GET", "torrent"), ("GET", "retention"), ("GET", "legal-hold"),
                          ("POST", "restore")):
        status, _, body = w.raw.send(method, f"/{bucket}/k", query)
        same((status, b"NotImplemented" in body), (501, True), f"{method} ?{query}: {body}")
    for given in ({"ServerSideEncryption": "AES256"}, {"ObjectLockMode": "GOVERNANCE"},
                  {"WebsiteRedirectLocation": "/x"}, {"WriteOffsetBytes": 1}):
        refused(501, "NotImplemented", w.s3.put_object, Bucket=bucket, Key="k", Body=b"y", **given)
    same(body_of(w.s3.get_object(Bucket=bucket, Key="k")), b"x")
    refused(501, "NotImplemented", w.s3.create_bucket, Bucket=bucket + "-l", ObjectLockEnabledForBucket=True)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--endpoint", action="append", required=True)
    arguments.add_argument("--only", default="")
    arguments = arguments.parse_args()
    world, failed, began = World(arguments.endpoint), [], time.monotonic()
    chosen = [one for one in CHECKS if arguments.only in one.__name__]
    for one in chosen:
        at = time.monotonic()
        try:
            skipped = one(world)
            word = f"skipped: {skipped}" if skipped else "ok"
        except Exception as error:  # noqa: BLE001, whatever it is, it is this check's failure
            where = traceback.extract_tb(error.__traceback__)
            line = next((it.lineno for it in reversed(where) if it.filename == __file__
                         and it.name not in ("same", "refused")), 0)
            word = f"FAILED at line {line}: {type(error).__name__}: {error}"
            failed.append(one.__name__)
        print(f"boto3: {one.__name__.replace('_', ' ')}: {word} ({time.monotonic() - at:.1f} s)", flush=True)
    world.clean()
    print(f"boto3: {len(chosen) - len(failed)} of {len(chosen)} checks passed in "
          f"{time.monotonic() - began:.1f} s" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
