//! The worked examples of the Amazon S3 API reference, and what must be refused.

use super::*;

/// 2013-05-24 00:00:00 UTC.
const THEN: i64 = 1_369_353_600;
const EMPTY: Payload = Payload::Sha256([
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
]);

fn example() -> Credentials {
    Credentials {
        access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
    }
}

fn scope() -> Scope<'static> {
    Scope { region: "us-east-1", service: "s3", now: THEN }
}

fn secret(access_key: &str) -> Option<String> {
    (access_key == example().access_key).then(|| example().secret_key)
}

fn headers(more: &[(&str, &str)]) -> Vec<(String, String)> {
    let host = [("Host", "examplebucket.s3.amazonaws.com")];
    let all = host.iter().chain(more);
    all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The request with the headers that signing it adds.
fn signed(request: &Request<'_>, payload: Payload) -> Vec<(String, String)> {
    let mut headers = request.headers.to_vec();
    let added = sign(request, payload, &example(), &scope());
    headers.extend(added.map(|(name, value)| (name.to_owned(), value)));
    headers
}

#[test]
fn the_published_examples_are_signed_as_published() {
    let check = |method, path, query, more: &[(&str, &str)], payload, expected: &str| {
        let headers = headers(more);
        let request = Request { method, path, query, headers: &headers };
        let [_, _, (_, authorization)] = sign(&request, payload, &example(), &scope());
        assert_eq!(signature_of(&authorization), Some(expected), "{method} {path}?{query}");
    };
    check(
        "GET",
        "/test.txt",
        "",
        &[("Range", "bytes=0-9")],
        EMPTY,
        "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
    );
    check(
        "PUT",
        "/test$file.text",
        "",
        &[("Date", "Fri, 24 May 2013 00:00:00 GMT"), ("x-amz-storage-class", "REDUCED_REDUNDANCY")],
        Payload::of(b"Welcome to Amazon S3."),
        "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
    );
    check(
        "GET",
        "/",
        "lifecycle",
        &[],
        EMPTY,
        "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
    );
    check(
        "GET",
        "/",
        "prefix=J&max-keys=2",
        &[],
        EMPTY,
        "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
    );
}

#[test]
fn the_published_presigned_request_is_signed_as_published() {
    let headers = headers(&[]);
    let request = Request { method: "GET", path: "/test.txt", query: "", headers: &headers };
    let query = presign(&request, &example(), &scope(), 86_400);
    let expected = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";
    assert!(query.ends_with(expected), "{query}");

    let sent = Request { query: &query, ..request };
    let verified = verify(&sent, secret, THEN + 86_400).expect("valid until its last second");
    assert_eq!(verified.payload, "UNSIGNED-PAYLOAD");
    let late = verify(&sent, secret, THEN + 86_401);
    assert_eq!(late, Err(SignatureError::Skewed { skew_s: 86_401 }));
    let other = Request { path: "/other.txt", ..sent };
    assert_eq!(verify(&other, secret, THEN), Err(SignatureError::Mismatch));
}

#[test]
fn the_published_chunks_are_signed_as_published() {
    let headers: Vec<_> = [
        ("Host", "s3.amazonaws.com"),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ("Content-Encoding", "aws-chunked"),
        ("x-amz-decoded-content-length", "66560"),
        ("Content-Length", "66824"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    let path = "/examplebucket/chunkObject.txt";
    let request = Request { method: "PUT", path, query: "", headers: &headers };
    let [_, _, (_, authorization)] = sign(&request, Payload::SignedChunks, &example(), &scope());
    let seed = signature_of(&authorization).expect("it was just made");
    assert_eq!(seed, "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9");

    let mut chunks = ChunkSigner::new(&example(), &scope(), seed);
    let expected = [
        (65_536, "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648"),
        (1_024, "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497"),
        (0, "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9"),
    ];
    for (size, signature) in expected {
        assert_eq!(chunks.sign(&vec![b'a'; size]), signature, "the chunk of {size} bytes");
    }
}

#[test]
fn what_was_signed_is_verified_and_nothing_else() {
    let plain = headers(&[("x-amz-meta-note", "two  words")]);
    let query = "list-type=2&prefix=a%2Fb%20c&empty=";
    let request = Request { method: "GET", path: "/b/k%C3%A9y%2B1", query, headers: &plain };
    let all = signed(&request, EMPTY);
    let sent = Request { headers: &all, ..request };
    let verified = verify(&sent, secret, THEN + 60).expect("the request is sound");
    assert_eq!(verified.access_key, example().access_key);
    assert_eq!(verified.payload, EMPTY.header());

    let with = |name: &str, value: &str| {
        let mut headers = all.clone();
        headers.retain(|(key, _)| key != name);
        headers.push((name.to_owned(), value.to_owned()));
        headers
    };
    let refused = |request: Request<'_>| verify(&request, secret, THEN).expect_err("must not pass");
    use SignatureError::Mismatch;
    assert_eq!(refused(Request { method: "PUT", ..sent }), Mismatch);
    assert_eq!(refused(Request { path: "/b/key", ..sent }), Mismatch);
    assert_eq!(refused(Request { query: "list-type=2", ..sent }), Mismatch);
    let changed = with("x-amz-meta-note", "other words");
    assert_eq!(refused(Request { headers: &changed, ..sent }), Mismatch);
    let changed = with(CONTENT_SHA256, "UNSIGNED-PAYLOAD");
    assert_eq!(refused(Request { headers: &changed, ..sent }), Mismatch);
    assert_eq!(refused(Request { headers: &plain, ..sent }), SignatureError::Unsigned);

    let wrong = |_: &str| Some("another secret".to_owned());
    assert_eq!(verify(&sent, wrong, THEN), Err(Mismatch));
    assert_eq!(verify(&sent, |_| None, THEN), Err(SignatureError::UnknownKey));
    for skew_s in [SKEW_MAX_S + 1, -SKEW_MAX_S - 1] {
        let error = verify(&sent, secret, THEN + skew_s);
        assert_eq!(error, Err(SignatureError::Skewed { skew_s }));
    }
}

#[test]
fn a_signature_that_leaves_out_the_host_is_refused() {
    let bare = vec![("x-other".to_owned(), "1".to_owned())];
    let request = Request { method: "GET", path: "/", query: "", headers: &bare };
    let all = signed(&request, EMPTY);
    let sent = Request { headers: &all, ..request };
    assert_eq!(verify(&sent, secret, THEN), Err(SignatureError::Malformed("host is not signed")));
}

#[test]
fn nonsense_is_refused_without_a_panic() {
    for authorization in ["", "AWS4-HMAC-SHA256", "AWS4-HMAC-SHA256 Credential=a, Signature=zz"] {
        let headers = headers(&[("authorization", authorization), (AMZ_DATE, "é")]);
        let request = Request { method: "GET", path: "%", query: "%zz&=", headers: &headers };
        assert!(verify(&request, secret, THEN).is_err(), "{authorization:?}");
    }
}

#[test]
fn other_terms_take_what_generic_clients_sign() {
    let host = headers(&[("host", "127.0.0.1:9000")]);
    let path = "/iceberg/v1/lake/namespaces/a%1Fb";
    let body = br#"{"namespace":["a"]}"#;
    let sign_as = |path: &str, service: &str, region: &str| {
        let request = Request { method: "POST", path, query: "", headers: &host };
        let scope = Scope { region, service, now: THEN };
        let mut all = host.clone();
        let added = sign(&request, Payload::of(body), &example(), &scope);
        all.extend(added.map(|(name, value)| (name.to_owned(), value)));
        all
    };
    // Generic SigV4 signs the path as it encodes it once more, and `sign` takes what it is given.
    let twice = encode(path, true);
    let terms = Terms {
        services: &["s3", "s3tables"],
        region: Some("us-east-1"),
        body: Some(body),
        encoded_twice: true,
    };
    let check = |headers: &[(String, String)], terms: &Terms<'_>| {
        let sent = Request { method: "POST", path, query: "", headers };
        verify_on(&sent, terms, secret, THEN).map(|verified| verified.payload)
    };
    let of_body = Payload::of(body).header();
    for (signed, service) in [(path, "s3"), (path, "s3tables"), (&*twice, "s3")] {
        let mut headers = sign_as(signed, service, "us-east-1");
        assert_eq!(check(&headers, &terms), Ok(of_body.clone()), "{signed} {service}");
        // `sign` signs the header too, so that leaving it out is another signature.
        headers.retain(|(name, _)| name != CONTENT_SHA256);
        assert!(check(&headers, &terms).is_err());
    }
    let once = Terms { encoded_twice: false, ..terms };
    assert!(check(&sign_as(&twice, "s3", "us-east-1"), &once).is_err());
    for (service, region) in [("sts", "us-east-1"), ("s3", "eu-west-1")] {
        assert!(check(&sign_as(path, service, region), &terms).is_err(), "{service} {region}");
    }

    // A client that signs the hash of its body and does not send it.
    let (names, canonical) = canonical_request(
        &Request { method: "POST", path, query: "", headers: &host },
        None,
        &of_body,
    );
    let scope = Scope { region: "us-east-1", service: "s3", now: THEN };
    let signature =
        signature(&scope.key(&example().secret_key), &scope.stamp(), &scope.text(), &canonical);
    let mut bare = host.clone();
    bare.push((AMZ_DATE.to_owned(), scope.stamp()));
    bare.push((
        "authorization".to_owned(),
        format!(
            "{ALGORITHM} Credential={}/{}, SignedHeaders={names}, Signature={signature}",
            example().access_key,
            scope.text()
        ),
    ));
    assert_eq!(check(&bare, &terms), Ok(of_body));
    assert!(check(&bare, &Terms { body: None, ..terms }).is_err());
    assert!(check(&bare, &Terms { body: Some(b"{}"), ..terms }).is_err());
}
