//! S3 as a client meets it: one node with four drives.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::client::Client;
use crate::client::Sent;
use crate::process::Cluster;

/// A started node with a bucket.
fn node() -> (Cluster, Client) {
    let mut cluster = Cluster::new(1, 4);
    cluster.start(0);
    cluster.wait_ready(0);
    let client = cluster.client(0);
    client.put("/bucket", b"").expect(200);
    (cluster, client)
}

/// Bytes that no block repeats.
fn bytes(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ length as u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        bytes.extend_from_slice(&(state ^ (state >> 29)).to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn enable(client: &Client, status: &str) {
    let body =
        format!("<VersioningConfiguration><Status>{status}</Status></VersioningConfiguration>");
    client.put("/bucket?versioning", body.as_bytes()).expect(200);
}

/// Goal: a client that waits to be told to go on is told so, also when it has nothing to send: one that is not
/// takes the next answer for another's.
#[test]
fn whoever_waits_for_a_word_before_the_body_gets_it() {
    let (_cluster, client) = node();
    let expects = [("expect", "100-continue")];
    let told = client.send("PUT", "/bucket/empty", &expects, b"").expect(100);
    assert!(told.text().starts_with("HTTP/1.1 200 OK\r\n"), "{told}");
    client.get("/bucket/empty").expect(200);
    let refused = client.send("PUT", "/gone/empty", &expects, b"").expect(100);
    assert!(refused.text().starts_with("HTTP/1.1 404"), "{refused}");
    client.put("/bucket/other", b"").expect(200);
}

#[test]
fn what_was_put_is_got_whatever_its_size() {
    let (_cluster, client) = node();
    for size in [0, 1, 1_000, 262_144, 262_145, 1 << 20, (1 << 20) + 1, 3_500_000] {
        let (key, body) = (format!("/bucket/size/{size}"), bytes(size));
        let put = client.put(&key, &body).expect(200);
        let got = client.get(&key).expect(200);
        assert!(got.body == body, "{size} bytes came back as others");
        assert_eq!(got.header("etag"), put.header("etag"));
        assert_eq!(got.header("content-length"), size.to_string());
        let head = client.send("HEAD", &key, &[], b"").expect(200);
        assert_eq!(head.header("content-length"), size.to_string());
    }
    let body = bytes(3_500_000);
    let range = |range: &str| client.send("GET", "/bucket/size/3500000", &[("range", range)], b"");
    let middle = range("bytes=1048570-2097160").expect(206);
    assert!(middle.body == body[1_048_570..=2_097_160], "the middle is another");
    assert_eq!(middle.header("content-range"), "bytes 1048570-2097160/3500000");
    assert!(range("bytes=-5").expect(206).body == body[3_499_995..]);
    assert!(range("bytes=3499990-9999999").expect(206).body == body[3_499_990..]);
    let outside = range("bytes=3500000-").expect(416);
    assert_eq!(outside.element("Code"), "InvalidRange");

    client.delete("/bucket/size/1").expect(204);
    assert_eq!(client.get("/bucket/size/1").expect(404).element("Code"), "NoSuchKey");
    client.delete("/bucket/size/1").expect(204);
    assert_eq!(client.get("/nobucket/k").expect(404).element("Code"), "NoSuchBucket");
    assert_eq!(client.delete("/bucket").expect(409).element("Code"), "BucketNotEmpty");
}

#[test]
fn what_a_client_keeps_with_an_object_comes_back() {
    let (_cluster, client) = node();
    let headers = [
        ("content-type", "text/plain"),
        ("cache-control", "max-age=5"),
        ("content-disposition", "attachment"),
        ("x-amz-meta-colour", "red"),
        ("x-amz-meta-etag", "not the ETag"),
    ];
    client.send("PUT", "/bucket/k", &headers, b"body").expect(200);
    let got = client.get("/bucket/k").expect(200);
    for (name, value) in headers {
        assert_eq!(got.header(name), value);
    }
    let copy = [("x-amz-copy-source", "/bucket/k")];
    client.send("PUT", "/bucket/copy", &copy, b"").expect(200);
    let got = client.get("/bucket/copy").expect(200);
    assert_eq!(got.body, b"body");
    assert_eq!(got.header("x-amz-meta-colour"), "red");
    let itself = client.send("PUT", "/bucket/k", &copy, b"").expect(400);
    assert_eq!(itself.element("Code"), "InvalidRequest");
    let replaced = [
        ("x-amz-copy-source", "/bucket/k"),
        ("x-amz-metadata-directive", "REPLACE"),
        ("x-amz-meta-colour", "blue"),
    ];
    client.send("PUT", "/bucket/k", &replaced, b"").expect(200);
    assert_eq!(client.get("/bucket/k").expect(200).header("x-amz-meta-colour"), "blue");
}

#[test]
fn versions_are_kept_and_markers_hide_them() {
    let (_cluster, client) = node();
    client.put("/bucket/k", b"null version").expect(200);
    enable(&client, "Enabled");
    let first = client.put("/bucket/k", b"one").expect(200).header("x-amz-version-id").to_owned();
    let second = client.put("/bucket/k", b"two").expect(200).header("x-amz-version-id").to_owned();
    assert_eq!(client.get("/bucket/k").expect(200).body, b"two");
    assert_eq!(client.get(&format!("/bucket/k?versionId={first}")).expect(200).body, b"one");
    let null = client.get("/bucket/k?versionId=null").expect(200);
    assert_eq!((&*null.body, null.header("x-amz-version-id")), (&b"null version"[..], "null"));

    let deleted = client.delete("/bucket/k").expect(204);
    let marker = deleted.header("x-amz-version-id").to_owned();
    assert_eq!(deleted.header("x-amz-delete-marker"), "true");
    let hidden = client.get("/bucket/k").expect(404);
    assert_eq!(hidden.header("x-amz-delete-marker"), "true");
    assert_eq!(hidden.header("x-amz-version-id"), marker);
    let named = client.get(&format!("/bucket/k?versionId={marker}")).expect(405);
    assert_eq!(named.header("x-amz-delete-marker"), "true");

    let listed = client.get("/bucket?versions").expect(200);
    // Markers stand before versions, each newest first.
    assert_eq!(listed.elements("VersionId"), [&*marker, &*second, &*first, "null"], "{listed}");
    assert!(client.get("/bucket?list-type=2").expect(200).elements("Key").is_empty());
    client.delete(&format!("/bucket/k?versionId={marker}")).expect(204);
    assert_eq!(client.get("/bucket/k").expect(200).body, b"two");

    enable(&client, "Suspended");
    let put = client.put("/bucket/k", b"three").expect(200);
    assert_eq!(put.headers.get("x-amz-version-id").map_or("null", |id| id), "null");
    let listed = client.get("/bucket?versions").expect(200).elements("VersionId");
    assert_eq!(listed, ["null", &*second, &*first], "the null version was replaced, not added");
    client.delete("/bucket/k").expect(204);
    assert_eq!(client.get("/bucket/k").expect(404).header("x-amz-version-id"), "null");
}

#[test]
fn conditions_decide_whether_a_write_happens() {
    let (_cluster, client) = node();
    let put =
        |condition: (&str, &str), body: &[u8]| client.send("PUT", "/bucket/k", &[condition], body);
    put(("if-match", "\"00\""), b"x").expect(404);
    let etag = put(("if-none-match", "*"), b"first").expect(200).header("etag").to_owned();
    assert_eq!(put(("if-none-match", "*"), b"x").expect(412).element("Code"), "PreconditionFailed");
    put(("if-match", "\"00\""), b"x").expect(412);
    assert_eq!(client.get("/bucket/k").expect(200).body, b"first");
    put(("if-match", &etag), b"second").expect(200);
    let read = |condition| client.send("GET", "/bucket/k", &[condition], b"");
    let etag = client.get("/bucket/k").expect(200).header("etag").to_owned();
    assert!(read(("if-none-match", &etag)).expect(304).body.is_empty());
    read(("if-match", "\"00\"")).expect(412);
    read(("if-match", &etag)).expect(200);
}

#[test]
fn an_upload_in_parts_becomes_one_object() {
    let (_cluster, client) = node();
    let (large, small) = (bytes(5 << 20), bytes(1_000));
    let upload = client.send("POST", "/bucket/big?uploads", &[], b"").expect(200);
    let id = upload.element("UploadId");
    let part = |number: usize, body: &[u8]| {
        let put = client.put(&format!("/bucket/big?partNumber={number}&uploadId={id}"), body);
        put.expect(200).header("etag").to_owned()
    };
    let (one, two) = (part(1, &large), part(2, &small));
    let parts = client.get(&format!("/bucket/big?uploadId={id}")).expect(200);
    assert_eq!(parts.elements("PartNumber"), ["1", "2"]);
    assert_eq!(client.get("/bucket?uploads").expect(200).elements("UploadId"), [&*id]);
    client.get("/bucket/big").expect(404);
    let complete = |parts: &[(usize, &str)]| {
        let parts: String = parts
            .iter()
            .map(|(number, etag)| {
                format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>")
            })
            .collect();
        let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        client.send("POST", &format!("/bucket/big?uploadId={id}"), &[], body.as_bytes())
    };
    assert_eq!(complete(&[(2, &two), (1, &one)]).expect(400).element("Code"), "InvalidPartOrder");
    assert_eq!(complete(&[(1, &two)]).expect(400).element("Code"), "InvalidPart");
    let done = complete(&[(1, &one), (2, &two)]).expect(200);
    assert!(done.element("ETag").contains("-2"), "{done}");
    let got = client.get("/bucket/big").expect(200);
    assert!(got.body == [large.clone(), small.clone()].concat(), "the parts are not joined");
    assert!(client.get("/bucket/big?partNumber=2").expect(206).body == small);
    assert_eq!(complete(&[(1, &one)]).expect(404).element("Code"), "NoSuchUpload");

    let upload = client.send("POST", "/bucket/gone?uploads", &[], b"").expect(200);
    let id = upload.element("UploadId");
    client.delete(&format!("/bucket/gone?uploadId={id}")).expect(204);
    client.put(&format!("/bucket/gone?partNumber=1&uploadId={id}"), b"x").expect(404);
}

#[test]
fn a_body_is_taken_only_with_the_checksum_that_it_has() {
    let (_cluster, client) = node();
    let body = bytes(100_000);
    let crc = BASE64_STANDARD.encode(crc32fast::hash(&body).to_be_bytes());
    let wrong = BASE64_STANDARD.encode([1, 2, 3, 4]);
    let put = |key: &str, headers: &[(&str, &str)], sent| {
        client.try_send("PUT", &format!("/bucket/{key}"), headers, sent).expect("an answer")
    };
    let stored = put("crc", &[("x-amz-checksum-crc32", &crc)], Sent::Whole(&body)).expect(200);
    assert_eq!(stored.header("x-amz-checksum-crc32"), crc);
    let mode = [("x-amz-checksum-mode", "ENABLED")];
    let got = client.send("GET", "/bucket/crc", &mode, b"").expect(200);
    assert_eq!(got.header("x-amz-checksum-crc32"), crc);

    put("bad", &[("x-amz-checksum-crc32", &wrong)], Sent::Whole(&body)).expect(400);
    let md5 = BASE64_STANDARD.encode([0; 16]);
    put("bad", &[("content-md5", &md5)], Sent::Unsigned(&body)).expect(400);
    let name = "x-amz-checksum-crc32";
    put("bad", &[], Sent::Trailer(&body, name, &wrong)).expect(400);
    client.get("/bucket/bad").expect(404);

    put("trailer", &[], Sent::Trailer(&body, name, &crc)).expect(200);
    put("chunks", &[], Sent::SignedChunks(&body)).expect(200);
    put("unsigned", &[], Sent::Unsigned(&body)).expect(200);
    for key in ["trailer", "chunks", "unsigned"] {
        let got = client.get(&format!("/bucket/{key}")).expect(200);
        assert!(got.body == body, "{key} came back as other bytes");
    }
    assert!(!client.get("/bucket/chunks").expect(200).headers.contains_key("content-encoding"));
}

#[test]
fn listings_page_group_and_encode() {
    let (_cluster, client) = node();
    for key in ["a", "b/1", "b/2", "c%20d", "e%26%3C"] {
        client.put(&format!("/bucket/{key}"), b"x").expect(200);
    }
    let listed = client.get("/bucket?list-type=2&encoding-type=url").expect(200);
    assert_eq!(listed.elements("Key"), ["a", "b/1", "b/2", "c%20d", "e%26%3C"]);
    let grouped = client.get("/bucket?list-type=2&delimiter=%2F").expect(200);
    assert_eq!(grouped.elements("Prefix").last().map(String::as_str), Some("b/"));
    assert_eq!(grouped.element("KeyCount"), "4");
    let mut keys = Vec::new();
    let mut target = "/bucket?list-type=2&max-keys=2".to_owned();
    loop {
        let page = client.get(&target).expect(200);
        keys.extend(page.elements("Key"));
        if page.element("IsTruncated") == "false" {
            break;
        }
        let token = page.element("NextContinuationToken");
        target = format!("/bucket?list-type=2&max-keys=2&continuation-token={token}");
    }
    assert_eq!(keys, ["a", "b/1", "b/2", "c d", "e&amp;&lt;"]);
    assert_eq!(client.get("/bucket?prefix=b").expect(200).elements("Key"), ["b/1", "b/2"]);

    let body = "<Delete><Object><Key>a</Key></Object><Object><Key>b/1</Key></Object></Delete>";
    let md5 = {
        use md5::Digest as _;
        BASE64_STANDARD.encode(md5::Md5::digest(body))
    };
    let deleted = client
        .send("POST", "/bucket?delete", &[("content-md5", &md5)], body.as_bytes())
        .expect(200);
    assert_eq!(deleted.elements("Key"), ["a", "b/1"]);
    assert_eq!(client.get("/bucket?prefix=b").expect(200).elements("Key"), ["b/2"]);
}
