//! What a client can ask for that is not there yet: said, never ignored.

use http::HeaderMap;
use s3s::S3Result;
use s3s::s3_error;

/// Headers whose meaning the store does not have. A name that ends in `-` stands for all that begin so.
const HEADERS: [&str; 8] = [
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-",
    "x-amz-copy-source-server-side-encryption-",
    "x-amz-object-lock-",
    "x-amz-bucket-object-lock-enabled",
    "x-amz-website-redirect-location",
    "x-amz-write-offset-bytes",
    "x-amz-mfa",
];

/// Headers that mean something only where a list of grants is made.
const GRANTS: &str = "x-amz-grant-";

/// Refuses a request that asks for something that is not there.
///
/// # Errors
/// `NotImplemented`, with the header's name.
pub fn refuse(headers: &HeaderMap) -> S3Result<()> {
    match headers.keys().find(|name| name.as_str().starts_with(GRANTS)) {
        Some(name) => Err(s3_error!(NotImplemented, "{name} is not implemented here")),
        None => refuse_but_grants(headers),
    }
}

/// As [`refuse`], for what makes or changes a list of grants.
///
/// # Errors
/// `NotImplemented`, with the header's name.
pub fn refuse_but_grants(headers: &HeaderMap) -> S3Result<()> {
    for (name, value) in headers {
        let name = name.as_str();
        // Some clients say that they do not want it.
        if value == "false" {
            continue;
        }
        let meant = HEADERS.iter().any(|unsupported| {
            name == *unsupported || (unsupported.ends_with('-') && name.starts_with(unsupported))
        });
        if meant {
            return Err(s3_error!(NotImplemented, "{name} is not implemented"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_that_asks_for_more_is_refused_and_others_pass() {
        let one = |name: &'static str, value: &'static str| {
            HeaderMap::from_iter([(
                http::HeaderName::from_static(name),
                http::HeaderValue::from_static(value),
            )])
        };
        for (name, value) in [
            ("x-amz-server-side-encryption", "AES256"),
            ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
            ("x-amz-object-lock-mode", "GOVERNANCE"),
            ("x-amz-grant-read", "id=x"),
        ] {
            assert!(refuse(&one(name, value)).is_err(), "{name}");
            let is_grant = name.starts_with(GRANTS);
            assert_eq!(refuse_but_grants(&one(name, value)).is_ok(), is_grant, "{name}");
        }
        for (name, value) in [
            ("x-amz-acl", "private"),
            ("x-amz-bucket-object-lock-enabled", "false"),
            ("x-amz-meta-object-lock-mode", "x"),
            ("range", "bytes=0-1"),
        ] {
            assert!(refuse(&one(name, value)).is_ok(), "{name}");
        }
    }
}
