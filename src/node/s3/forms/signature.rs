//! Who signed a form: with its policy document, by version 4, or by version 2 as forms of old do.
//!
//! Pure: secrets and the time are given.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hmac::Hmac;
use hmac::KeyInit as _;
use hmac::Mac as _;
use s3s::S3Result;
use s3s::s3_error;
use sha1::Sha1;

use crate::protocol::access::form::Fields;
use crate::sigv4;

/// The fields of which one stands in every form that somebody has signed.
const SIGNING: [&str; 7] = [
    "policy",
    "signature",
    "awsaccesskeyid",
    "x-amz-signature",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-algorithm",
];

/// A form that somebody has signed.
#[derive(Debug, PartialEq, Eq)]
pub struct Signed {
    /// Whose access key it is.
    pub access_key: String,
    /// The policy document.
    pub policy: Vec<u8>,
}

/// Who signed a form; nothing when nobody meant to. `secret` knows the secrets of access keys.
///
/// # Errors
/// The signature is wrong or incomplete, or its key unknown.
pub fn verify(
    fields: &Fields,
    secret: impl Fn(&str) -> Option<String>,
    now_s: i64,
) -> S3Result<Option<Signed>> {
    if !fields.keys().any(|name| SIGNING.contains(&name.as_str())) {
        return Ok(None);
    }
    let field = |name: &str| {
        let value = fields.get(name).map(String::as_str);
        value.ok_or_else(|| s3_error!(InvalidArgument, "a signed form needs the field {name}"))
    };
    let policy = field("policy")?;
    let known = |key: &str| secret(key).ok_or_else(|| s3_error!(InvalidAccessKeyId));
    let (access_key, is_right) = if fields.contains_key("awsaccesskeyid") {
        let (key, signature) = (field("awsaccesskeyid")?, field("signature")?);
        (key, is_version_2(policy, signature, &known(key)?))
    } else {
        if field("x-amz-algorithm")? != "AWS4-HMAC-SHA256" {
            return Err(s3_error!(InvalidArgument, "the algorithm of a form is AWS4-HMAC-SHA256"));
        }
        let malformed = || s3_error!(InvalidArgument, "x-amz-credential has no scope");
        let (credential, signature) = (field("x-amz-credential")?, field("x-amz-signature")?);
        let (key, scope) = credential.split_once('/').ok_or_else(malformed)?;
        let place = (field("x-amz-date")?, scope);
        (key, sigv4::verify_policy(policy, signature, &known(key)?, place, now_s))
    };
    if !is_right {
        return Err(s3_error!(SignatureDoesNotMatch));
    }
    let document = BASE64_STANDARD.decode(policy);
    let document = document.map_err(|_| s3_error!(InvalidPolicyDocument, "it is not Base64"))?;
    Ok(Some(Signed { access_key: access_key.to_owned(), policy: document }))
}

fn is_version_2(policy: &str, signature: &str, secret: &str) -> bool {
    let Ok(signature) = BASE64_STANDARD.decode(signature) else { return false };
    let mut mac = Hmac::<Sha1>::new_from_slice(secret.as_bytes()).expect("keys have any length");
    mac.update(policy.as_bytes());
    mac.verify_slice(&signature).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sigv4::Credentials;
    use crate::sigv4::Scope;

    const NOW: i64 = 1_700_000_000;

    fn secret(key: &str) -> Option<String> {
        (key == "key").then(|| "secret".to_owned())
    }

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn signed(now: i64) -> Fields {
        let credentials =
            Credentials { access_key: "key".to_owned(), secret_key: "secret".to_owned() };
        let scope = Scope { region: "us-east-1", service: "s3", now };
        let mut fields = fields(&[("policy", "e30="), ("x-amz-algorithm", "AWS4-HMAC-SHA256")]);
        let made = sigv4::sign_policy("e30=", &credentials, &scope);
        fields.extend(made.map(|(name, value)| (name.to_owned(), value)));
        fields
    }

    #[test]
    fn whoever_signed_is_known_by_either_version() {
        let expected = || Some(Signed { access_key: "key".to_owned(), policy: b"{}".to_vec() });
        assert_eq!(verify(&signed(NOW), secret, NOW).expect("right"), expected());
        let mut mac = Hmac::<Sha1>::new_from_slice(b"secret").expect("any length");
        mac.update(b"e30=");
        let signature = BASE64_STANDARD.encode(mac.finalize().into_bytes());
        let old =
            fields(&[("policy", "e30="), ("awsaccesskeyid", "key"), ("signature", &signature)]);
        assert_eq!(verify(&old, secret, NOW).expect("right"), expected());
        assert_eq!(verify(&fields(&[("key", "x")]), secret, NOW).expect("nobody's"), None);
    }

    #[test]
    fn a_signature_that_is_wrong_old_or_incomplete_is_refused() {
        let code = |fields: &Fields, now| {
            let refused = verify(fields, secret, now).expect_err("it is refused");
            refused.code().as_str().to_owned()
        };
        for (now, expected) in [(NOW + 604_801, false), (NOW - 901, false), (NOW + 604_800, true)] {
            assert_eq!(verify(&signed(NOW), secret, now).is_ok(), expected, "{now}");
        }
        for (name, value, expected) in [
            ("policy", Some("e31="), "SignatureDoesNotMatch"),
            ("x-amz-signature", Some("00"), "SignatureDoesNotMatch"),
            ("x-amz-date", Some("20000101T000000Z"), "SignatureDoesNotMatch"),
            ("x-amz-credential", Some("other/a/b/s3/aws4_request"), "InvalidAccessKeyId"),
            ("x-amz-credential", Some("key"), "InvalidArgument"),
            ("x-amz-algorithm", Some("AWS4-ECDSA"), "InvalidArgument"),
            ("x-amz-signature", None, "InvalidArgument"),
            ("policy", None, "InvalidArgument"),
        ] {
            let mut fields = signed(NOW);
            match value {
                Some(value) => fields.insert(name.to_owned(), value.to_owned()),
                None => fields.remove(name),
            };
            assert_eq!(code(&fields, NOW), expected, "{name}: {value:?}");
        }
        let old = [("policy", "e30="), ("awsaccesskeyid", "key"), ("signature", "AAAA")];
        assert_eq!(code(&fields(&old), NOW), "SignatureDoesNotMatch");
        assert_eq!(code(&fields(&old[..2]), NOW), "InvalidArgument");
    }
}
