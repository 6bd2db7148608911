//! What says who may do what: forms with their policy documents, and policies of buckets.

use std::collections::BTreeMap;

use crate::fuzz::Target;
use crate::fuzz::target::Examined;
use crate::fuzz::target::Found;
use crate::fuzz::target::Shape;
use crate::fuzz::target::must;
use crate::node::s3::forms::fields::FormReader;
use crate::protocol::access::Who;
use crate::protocol::access::form::FormPolicy;
use crate::protocol::access::form::UPLOAD_BYTES_MAX;
use crate::protocol::access::policy::Ask;
use crate::protocol::access::policy::Policy;
use crate::protocol::access::policy::Word;

#[rustfmt::skip]
pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "form", about: "uploads by forms: their fields, their policy documents, and where their files end",
        shape: Shape::Text, envelope: None, examine: form,
    },
    Target {
        name: "bucket-policy", about: "policies of buckets, and what they say of a request",
        shape: Shape::Json, envelope: None, examine: bucket_policy,
    },
];

/// A moment at which no policy document of the corpus has expired, Unix seconds.
const THEN: i64 = 1_700_000_000;
/// The boundary of the forms in the corpus.
pub(in crate::fuzz) const BOUNDARY: &str = "frontier";

fn form(bytes: &[u8]) -> Examined {
    let media_type = format!("multipart/form-data; boundary={BOUNDARY}");
    let reader = || FormReader::new(&media_type).map_err(|_| "the boundary is refused".to_owned());
    let whole = reader()?.feed(bytes);
    // However the pieces are cut, it is the same form.
    let (mut pieces, mut cut) = (reader()?, Ok(None));
    for (index, piece) in bytes.chunks(61).enumerate() {
        cut = pieces.feed(piece);
        match &mut cut {
            Ok(None) => {}
            Ok(Some(form)) => {
                form.rest.extend_from_slice(&bytes[((index + 1) * 61).min(bytes.len())..]);
                break;
            }
            Err(_) => break,
        }
    }
    match (whole, cut) {
        (Ok(Some(whole)), Ok(Some(cut))) => {
            must(whole == cut, "the pieces of a form change what it is")?;
            let file = &whole.file_name;
            must(!file.contains('/'), "the name of a file has folders")?;
            if let Some(document) = whole.fields.get("policy")
                && let Ok(policy) = FormPolicy::parse(document.as_bytes())
            {
                let _ = policy.judge(&whole.fields, "bucket", THEN);
                must(*policy.length().end() <= UPLOAD_BYTES_MAX, "a policy allows too much")?;
            }
            Ok(Found::Decoded)
        }
        (Ok(None) | Err(_), Ok(None) | Err(_)) => Ok(Found::Refused),
        (whole, cut) => Err(format!("in one piece {:?}, in many {:?}", whole.is_ok(), cut.is_ok())),
    }
}

fn bucket_policy(bytes: &[u8]) -> Examined {
    let Ok(text) = std::str::from_utf8(bytes) else { return Ok(Found::Refused) };
    let Ok(policy) = Policy::parse(text, "bucket") else { return Ok(Found::Refused) };
    let facts = [
        ("aws:sourceip", "10.1.2.3"),
        ("aws:currenttime", "2026-01-01T00:00:00Z"),
        ("s3:max-keys", "7"),
        ("s3:prefix", "a/b"),
        ("aws:securetransport", "false"),
    ];
    let facts: BTreeMap<_, _> =
        facts.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    for who in [Who::Anyone, Who::Principal { name: "key", account: "other" }] {
        for (action, key) in [("s3:GetObject", Some("a/b")), ("s3:ListBucket", None)] {
            let ask = Ask { who, action, bucket: "bucket", key, facts: facts.clone() };
            let word = policy.judge(&ask);
            let is_silent_of_anyone = who != Who::Anyone || word != Word::Allow;
            must(
                is_silent_of_anyone || text.contains('*') || text.contains("Not"),
                "it allows everybody what it does not say",
            )?;
        }
    }
    Ok(Found::Decoded)
}
