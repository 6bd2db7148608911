//! Policy documents of forms: what may be uploaded with one, and until when.
//!
//! Whoever signs a document lets others upload in their name, as far as the document goes. So nothing in it is
//! passed over: what is not understood is refused, and so is a field that it does not name.
//!
//! # Sources
//! "POST Policy" and "Browser-Based Uploads Using POST", Amazon S3 API reference.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use serde_json::Value;

/// The most bytes of a document.
const BYTES_MAX: usize = 20_000;
/// The most bytes of one upload.
pub const UPLOAD_BYTES_MAX: u64 = 5 << 30;

/// Fields by their names in lowercase.
pub type Fields = BTreeMap<String, String>;

/// Why an upload is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormFault {
    /// The document is none.
    Malformed(String),
    /// The document has run out, or the form is not as the document says.
    Denied(String),
}

/// A policy document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormPolicy {
    /// Unix seconds after which it counts for nothing.
    expires_s: i64,
    conditions: Vec<Condition>,
    length: RangeInclusive<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    /// In lowercase, without `$`.
    field: String,
    value: String,
    /// Whether it is enough that the field begins so.
    is_prefix: bool,
}

impl FormPolicy {
    /// Reads a document.
    ///
    /// # Errors
    /// [`FormFault::Malformed`].
    pub fn parse(text: &[u8]) -> Result<Self, FormFault> {
        let malformed = |why: &str| FormFault::Malformed(why.to_owned());
        if text.len() > BYTES_MAX {
            return Err(malformed("it is too long"));
        }
        let json: Value =
            serde_json::from_slice(text).map_err(|error| malformed(&error.to_string()))?;
        let json = json.as_object().ok_or_else(|| malformed("it is no JSON object"))?;
        if let Some(name) =
            json.keys().find(|name| !["expiration", "conditions"].contains(&&***name))
        {
            return Err(FormFault::Malformed(format!("documents have no {name}")));
        }
        let expires = json.get("expiration").and_then(Value::as_str);
        let expires = expires.ok_or_else(|| malformed("it has no expiration"))?;
        // A time without its `T` and `Z` is one to jiff and none to S3.
        let is_plain = expires.ends_with('Z') && expires.contains('T');
        let expires = expires.parse::<jiff::Timestamp>().ok().filter(|_| is_plain);
        let expires = expires.ok_or_else(|| malformed("its expiration is no time in UTC"))?;
        let conditions = json.get("conditions").and_then(Value::as_array);
        let conditions = conditions.ok_or_else(|| malformed("it has no list of conditions"))?;
        let mut policy = Self {
            expires_s: expires.as_second(),
            conditions: Vec::new(),
            length: 0..=UPLOAD_BYTES_MAX,
        };
        for condition in conditions {
            policy.add(condition)?;
        }
        Ok(policy)
    }

    fn add(&mut self, condition: &Value) -> Result<(), FormFault> {
        let malformed = || FormFault::Malformed(format!("{condition} is no condition"));
        match condition {
            Value::Object(pairs) => {
                let mut pairs = pairs.iter();
                let (Some((field, value)), None) = (pairs.next(), pairs.next()) else {
                    return Err(malformed());
                };
                let value = value.as_str().ok_or_else(malformed)?.to_owned();
                let field = field.to_ascii_lowercase();
                self.conditions.push(Condition { field, value, is_prefix: false });
            }
            Value::Array(words) => {
                let [operator, first, second] = &words[..] else { return Err(malformed()) };
                let operator = operator.as_str().ok_or_else(malformed)?.to_ascii_lowercase();
                if operator == "content-length-range" {
                    let (min, max) = (number(first), number(second));
                    let (min, max) = min.zip(max).ok_or_else(malformed)?;
                    // Of several ranges all hold.
                    self.length = min.max(*self.length.start())..=max.min(*self.length.end());
                    return Ok(());
                }
                let is_prefix = match operator.as_str() {
                    "eq" => false,
                    "starts-with" => true,
                    _ => return Err(malformed()),
                };
                let field = first.as_str().and_then(|field| field.strip_prefix('$'));
                let field = field.ok_or_else(malformed)?.to_ascii_lowercase();
                let value = second.as_str().ok_or_else(malformed)?.to_owned();
                self.conditions.push(Condition { field, value, is_prefix });
            }
            _ => return Err(malformed()),
        }
        Ok(())
    }

    /// How many bytes the contents may have.
    pub fn length(&self) -> RangeInclusive<u64> {
        self.length.clone()
    }

    /// Holds a form against it. `bucket` is the one that it was posted to, `now_s` the time in Unix seconds.
    ///
    /// # Errors
    /// [`FormFault::Denied`].
    pub fn judge(&self, fields: &Fields, bucket: &str, now_s: i64) -> Result<(), FormFault> {
        let denied = |why: String| Err(FormFault::Denied(why));
        if now_s >= self.expires_s {
            return denied("the policy has expired".to_owned());
        }
        for condition in &self.conditions {
            let field = condition.field.as_str();
            // What is not in the form is empty.
            let value = match field {
                "bucket" => bucket,
                _ => fields.get(field).map_or("", String::as_str),
            };
            if !condition.holds(value) {
                return denied(format!("the policy does not allow this {field}"));
            }
        }
        let named = |name: &str| self.conditions.iter().any(|condition| condition.field == name);
        match fields.keys().find(|name| !needs_no_condition(name) && !named(name)) {
            Some(name) => denied(format!("the policy does not name the field {name}")),
            None => Ok(()),
        }
    }
}

impl Condition {
    fn holds(&self, value: &str) -> bool {
        let holds = |value: &str| match self.is_prefix {
            true => value.starts_with(&self.value),
            false => value == self.value,
        };
        // Of a list of types each must hold.
        match self.is_prefix && self.field == "content-type" {
            true => value.split(',').all(|value| holds(value.trim_start())),
            false => holds(value),
        }
    }
}

/// Whether a field may stand in a form although the document does not name it: it is about the document itself,
/// about nothing, or binds the contents to themselves and so lets nobody do more.
fn needs_no_condition(name: &str) -> bool {
    ["awsaccesskeyid", "signature", "x-amz-signature", "policy", "submit"].contains(&name)
        || ["x-ignore-", "x-amz-checksum-"].iter().any(|prefix| name.starts_with(prefix))
}

fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000;

    fn fields(pairs: &[(&str, &str)]) -> Fields {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn document(conditions: &str) -> String {
        format!(r#"{{"expiration":"2030-01-01T00:00:00Z","conditions":[{conditions}]}}"#)
    }

    #[test]
    fn a_form_is_held_to_every_condition_and_every_field_to_one() {
        let text = document(
            r#"{"bUcket":"b"},["StArTs-WiTh","$KeY","foo"],["eq","$acl","private"],
               ["starts-with","$Content-Type","text/"],["content-length-range",1,"9"]"#,
        );
        let policy = FormPolicy::parse(text.as_bytes()).expect("it is sound");
        assert_eq!(policy.length(), 1..=9);
        let form = [("key", "foo.txt"), ("acl", "private"), ("content-type", "text/plain,text/x")];
        assert_eq!(policy.judge(&fields(&form), "b", NOW), Ok(()));
        for (why, bucket, extra) in [
            ("another bucket", "c", ("submit", "x")),
            ("another key", "b", ("key", "bar")),
            ("another list", "b", ("acl", "public-read")),
            ("one type of two", "b", ("content-type", "text/plain,image/png")),
            ("an unnamed field", "b", ("x-amz-meta-a", "b")),
            ("an unnamed field", "b", ("success_action_status", "200")),
        ] {
            let mut form = fields(&form);
            form.insert(extra.0.to_owned(), extra.1.to_owned());
            let judged = policy.judge(&form, bucket, NOW);
            assert!(matches!(judged, Err(FormFault::Denied(_))), "{why}");
        }
        for (name, value) in
            [("x-ignore-me", "x"), ("awsaccesskeyid", "x"), ("x-amz-checksum-sha256", "x")]
        {
            let mut form = fields(&form);
            form.insert(name.to_owned(), value.to_owned());
            assert_eq!(policy.judge(&form, "b", NOW), Ok(()), "{name}");
        }
        let later = policy.judge(&fields(&form), "b", 1_893_456_000);
        assert!(matches!(later, Err(FormFault::Denied(_))), "it has expired");
    }

    #[test]
    fn a_field_that_is_not_there_is_empty() {
        let of = |conditions: &str| {
            let policy = FormPolicy::parse(document(conditions).as_bytes()).expect("it is sound");
            policy.judge(&Fields::new(), "b", NOW).is_ok()
        };
        assert!(of(r#"["starts-with","$x-amz-meta-a",""]"#) && of(r#"["eq","$acl",""]"#));
        assert!(!of(r#"["starts-with","$x-amz-meta-a","x"]"#) && !of(r#"{"acl":"private"}"#));
    }

    #[test]
    fn what_is_no_document_is_refused() {
        for text in [
            "",
            "[]",
            "{}",
            r#"{"expiration":"2030-01-01T00:00:00Z"}"#,
            r#"{"conditions":[]}"#,
            r#"{"EXPIRATION":"2030-01-01T00:00:00Z","conditions":[]}"#,
            r#"{"expiration":"2030-01-01T00:00:00Z","CONDITIONS":[]}"#,
            r#"{"expiration":"2030-01-01 00:00:00+00:00","conditions":[]}"#,
            r#"{"expiration":"tomorrow","conditions":[]}"#,
            r#"{"expiration":1893456000,"conditions":[]}"#,
            &document("{}"),
            &document(r#"{"acl":"x","key":"y"}"#),
            &document(r#"{"acl":1}"#),
            &document(r#"["eq","$acl"]"#),
            &document(r#"["eq","acl","x"]"#),
            &document(r#"["matches","$acl","x"]"#),
            &document(r#"["content-length-range",0]"#),
            &document(r#"["content-length-range",-1,0]"#),
            &document("7"),
        ] {
            let parsed = FormPolicy::parse(text.as_bytes());
            assert!(matches!(parsed, Err(FormFault::Malformed(_))), "{text}");
        }
    }

    #[test]
    fn a_range_without_numbers_lets_nothing_through() {
        let text = document(r#"["content-length-range",0,4],["content-length-range",5,9]"#);
        let policy = FormPolicy::parse(text.as_bytes()).expect("it is sound");
        assert!(policy.length().is_empty());
    }
}
