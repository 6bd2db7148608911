//! What clients, servers and the harness say.

use super::keep;
use crate::fuzz::targets::access;
use crate::fuzz::targets::network as target;
use crate::harness::testbed::ledger::LedgerEntry;
use crate::node::s3::listing;
use crate::protocol::control::Arm;
use crate::protocol::control::ArmAction;
use crate::protocol::control::Defect;
use crate::protocol::control::FromNode;
use crate::protocol::control::ToNode;
use crate::protocol::crash_point::CrashPoint;
use crate::protocol::crash_point::Place;
use crate::sigv4;
use crate::sigv4::Payload;
use crate::sigv4::Request;
use crate::sigv4::Scope;

pub(super) fn write_network() {
    keep("list-token", "tokens", ["a/key", "ü/1", "z"].map(listing::token).join("\n"));
    keep(
        "list-token",
        "heal-query",
        "deep=true&bucket=b&prefix=a%2F&key=&version=\ndeep=false\nbucket=b&key=k&version=null\n",
    );
    let field = |name: &str, value: &str| {
        let line = format!("Content-Disposition: form-data; name=\"{name}\"");
        format!("--{}\r\n{line}\r\n\r\n{value}\r\n", access::BOUNDARY)
    };
    let file = |name: &str| {
        let line = format!("Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"");
        let line = format!("{line}\r\nContent-Type: text/plain");
        format!("--{0}\r\n{line}\r\n\r\nhello\r\n--{0}--\r\n", access::BOUNDARY)
    };
    let document = r#"{"expiration":"2030-01-01T00:00:00Z","conditions":[{"bucket":"bucket"},["starts-with","$key","a/"],["content-length-range",0,1024],{"acl":"private"}]}"#;
    keep("form", "anonymous", field("key", "a/${filename}") + &file("hello.txt"));
    keep(
        "form",
        "policy",
        ["key", "acl", "policy"]
            .iter()
            .zip(["a/b", "private", document])
            .fold(String::new(), |text, (name, value)| text + &field(name, value))
            + &file("C:\\folder\\hello.txt"),
    );
    keep(
        "bucket-policy",
        "public",
        r#"{"Version":"2012-10-17","Statement":[{"Sid":"one","Effect":"Allow","Principal":"*","Action":["s3:GetObject","s3:List*"],"Resource":["arn:aws:s3:::bucket","arn:aws:s3:::bucket/*"]}]}"#,
    );
    keep(
        "bucket-policy",
        "conditions",
        r#"{"Version":"2012-10-17","Statement":{"Effect":"Deny","NotPrincipal":{"AWS":["arn:aws:iam::other:root"]},"NotAction":"s3:PutObject","Resource":"arn:aws:s3:::bucket/*","Condition":{"IpAddress":{"aws:SourceIp":["10.0.0.0/8","2001:db8::/32"]},"NumericLessThanEquals":{"s3:max-keys":10},"DateGreaterThan":{"aws:CurrentTime":"2025-01-01T00:00:00Z"},"StringLikeIfExists":{"s3:prefix":"a/*"},"Bool":{"aws:SecureTransport":"false"},"Null":{"s3:delimiter":"true"}}}}"#,
    );
    keep(
        "s3-headers",
        "conditions",
        "If-Match: \"etag\", W/\"other\"\nIf-None-Match: *\nIf-Modified-Since: Wed, 21 Oct 2015 07:28:00 GMT\nIf-Unmodified-Since: Wed, 21 Oct 2026 07:28:00 GMT\n",
    );
    keep("s3-headers", "range", "Range: bytes=0-499\n");
    keep("s3-headers", "range-of-the-end", "Range: bytes=-500\nx-amz-version-id: null\n");
    keep(
        "s3-headers",
        "copy",
        "x-amz-copy-source: /bucket/a%20key?versionId=0b8a4f5e-0000-4000-8000-000000000001\nx-amz-copy-source-if-match: \"etag\"\nrange: bytes=5-\n",
    );
    keep(
        "s3-headers",
        "checksum",
        "x-amz-checksum-crc32: AAAAAA==\nx-amz-sdk-checksum-algorithm: CRC32\nContent-MD5: 1B2M2Y8AsgTpgAmY7PhCfg==\nContent-Length: 0\n",
    );
    keep(
        "s3-headers",
        "trailer",
        "x-amz-trailer: x-amz-checksum-sha256\nx-amz-decoded-content-length: 12\n",
    );
    let headers = [
        ("host".to_owned(), "127.0.0.1:9000".to_owned()),
        ("content-type".to_owned(), "text/plain".to_owned()),
    ];
    let scope = Scope { region: "us-east-1", service: "s3", now: target::SIGNED_AT };
    let credentials = target::credentials();
    let request = Request {
        method: "PUT",
        path: "/bucket/a%20key",
        query: "partNumber=1&uploadId=x",
        headers: &headers,
    };
    let signed = sigv4::sign(&request, Payload::Unsigned, &credentials, &scope);
    let all = headers.iter().cloned().chain(signed.map(|(name, value)| (name.to_owned(), value)));
    let lines: String = all.map(|(name, value)| format!("{name}: {value}\n")).collect();
    keep("signature", "headers", format!("PUT /bucket/a%20key partNumber=1&uploadId=x\n{lines}"));
    let request = Request { method: "GET", path: "/bucket/key", query: "", headers: &headers[..1] };
    let query = sigv4::presign(&request, &credentials, &scope, 600);
    keep("signature", "presigned", format!("GET /bucket/key {query}\nhost: 127.0.0.1:9000\n"));
    keep(
        "http-stream",
        "requests",
        "PUT /bucket/key HTTP/1.1\r\nhost: h\r\ncontent-length: 5\r\n\r\nhelloGET /bucket/key HTTP/1.1\r\nhost: h\r\nrange: bytes=0-1\r\n\r\nPUT /b/k2 HTTP/1.1\r\nhost: h\r\nx-amz-copy-source: /b/k\r\ncontent-length: 0\r\n\r\n",
    );
    keep(
        "http-stream",
        "chunks",
        "PUT /bucket/key HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\nA;x=y\r\n0123456789\r\n0\r\nx-trailer: v\r\n\r\nHEAD / HTTP/1.1\r\n\r\n",
    );
    keep(
        "http-stream",
        "answers",
        "HTTP/1.1 100 Continue\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\netag: \"x\"\r\ncontent-length: 3\r\n\r\nabcHTTP/1.1 404 Not Found\r\ncontent-type: application/xml\r\ntransfer-encoding: chunked\r\n\r\n3\r\n<a>\r\n0\r\n\r\n",
    );
}

pub(super) fn write_control() {
    let point: CrashPoint = "put.meta_renamed".parse().expect("a point");
    let arm = Arm {
        id: 7,
        point,
        drive: Some("0/1".into()),
        bucket: Some("b".into()),
        key: Some("k".into()),
        nth: 2,
        action: ArmAction::Hold,
    };
    let json = |line: &ToNode| serde_json::to_vec(line).expect("plain data");
    let start = ToNode::Start {
        defects: vec![Defect::SkipsDirectorySync],
        run_file_systems: vec!["0b8a".into()],
        arms: vec![arm.clone()],
    };
    keep("control-line", "start", json(&start));
    keep("control-line", "arm", json(&ToNode::Arm(arm)));
    keep("control-line", "release", json(&ToNode::Release { arm: 7 }));
    keep(
        "control-line",
        "listening",
        serde_json::to_vec(&FromNode::Listening { port: 9000 }).expect("plain data"),
    );
    let reached = FromNode::Reached {
        arm: 7,
        point,
        place: Place { drive: None, bucket: "b".into(), key: "k".into() },
    };
    keep("control-line", "reached", serde_json::to_vec(&reached).expect("plain data"));
    let ledger = [
        LedgerEntry::Header { format: 1, testbed: "t".into() },
        LedgerEntry::Process { role: "node 0".into(), pid: 12, start_ticks: 4_000 },
        LedgerEntry::TornDown,
    ];
    let lines = ledger.map(|entry| serde_json::to_string(&entry).expect("plain data") + "\n");
    keep("ledger", "ledger.jsonl", lines.concat());
}
