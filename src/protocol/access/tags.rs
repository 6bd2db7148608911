//! Tags of objects and buckets: their rules, and the text in which an object keeps them.

use std::collections::BTreeMap;

/// The most tags of an object.
pub const OBJECT_TAGS_MAX: usize = 10;
/// The most tags of a bucket.
pub const BUCKET_TAGS_MAX: usize = 50;
/// The longest key, in characters.
const KEY_MAX: usize = 128;
/// The longest value, in characters.
const VALUE_MAX: usize = 256;

/// Tags by key.
pub type Tags = BTreeMap<String, String>;

/// Why tags cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagFault {
    /// The text is no list of tags, or names a key twice.
    Text,
    /// A tag, or their number, breaks a rule.
    Rule(String),
}

/// Holds tags against the rules.
///
/// # Errors
///
/// [`TagFault::Rule`], with the first that is broken.
pub fn check(pairs: Vec<(String, String)>, max: usize) -> Result<Tags, TagFault> {
    let broken = |what: String| Err(TagFault::Rule(what));
    if pairs.len() > max {
        return broken(format!("there are {} tags, and at most {max} are kept", pairs.len()));
    }
    let mut tags = Tags::new();
    for (key, value) in pairs {
        let is_legal = |text: &str| text.chars().all(is_legal);
        if key.is_empty() || key.chars().count() > KEY_MAX || !is_legal(&key) {
            return broken(format!("{key:?} cannot be the key of a tag"));
        }
        if key.starts_with("aws:") {
            return broken("keys that begin with aws: are not for clients".to_owned());
        }
        if value.chars().count() > VALUE_MAX || !is_legal(&value) {
            return broken(format!("{value:?} cannot be the value of a tag"));
        }
        if let Some(other) = tags.insert(key, value) {
            return broken(format!("a key stands twice, once with the value {other:?}"));
        }
    }
    Ok(tags)
}

fn is_legal(character: char) -> bool {
    character.is_alphanumeric() || character.is_whitespace() || "_.:/=+-@&".contains(character)
}

/// Reads `key=value&…`, percent-encoded, as requests and objects have it.
///
/// # Errors
///
/// [`TagFault`].
pub fn parse(text: &str) -> Result<Tags, TagFault> {
    let mut pairs = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(key), Some(value)) = (decode(key), decode(value)) else {
            return Err(TagFault::Text);
        };
        if pairs.iter().any(|(other, _)| *other == key) {
            return Err(TagFault::Text);
        }
        pairs.push((key, value));
    }
    check(pairs, OBJECT_TAGS_MAX)
}

/// The text of tags; `None` when there are none.
pub fn text(tags: &Tags, encode: impl Fn(&str) -> String) -> Option<String> {
    let pairs = tags.iter().map(|(key, value)| format!("{}={}", encode(key), encode(value)));
    let text = pairs.collect::<Vec<_>>().join("&");
    (!text.is_empty()).then_some(text)
}

/// Undoes percent-encoding; `+` stands for a blank.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, others)) = rest.split_first() {
        rest = others;
        match first {
            b'%' => {
                let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
                bytes.push(u8::from_str_radix(digits, 16).ok()?);
                rest = &rest[2..];
            }
            b'+' => bytes.push(b' '),
            byte => bytes.push(*byte),
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_come_back_from_their_text() {
        let tags = parse("b=2&a=%20x+y&c&%C3%BC=%2B").expect("sound tags");
        let pairs: Vec<_> =
            tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(pairs, [("a", " x y"), ("b", "2"), ("c", ""), ("ü", "+")]);
        let encode = |text: &str| crate::sigv4::encode(text, false);
        let text = text(&tags, encode).expect("there are some");
        assert_eq!(parse(&text).expect("our own text"), tags);
        assert_eq!(super::text(&Tags::new(), encode), None);
    }

    #[test]
    fn what_breaks_a_rule_is_refused() {
        let one = |key: &str, value: &str| check(vec![(key.to_owned(), value.to_owned())], 10);
        assert!(one(&"ü".repeat(128), &"v".repeat(256)).is_ok());
        for (key, value) in [
            ("", "x"),
            (&*"k".repeat(129), ""),
            ("k", &*"v".repeat(257)),
            ("aws:k", ""),
            ("<", ""),
            ("k", "\u{1}"),
        ] {
            assert!(matches!(one(key, value), Err(TagFault::Rule(_))), "{key:?}={value:?}");
        }
        let many = |count: usize| (0..count).map(|at| (at.to_string(), String::new())).collect();
        assert!(check(many(10), 10).is_ok());
        assert!(check(many(11), 10).is_err());
        let twice = vec![("k".to_owned(), "1".to_owned()), ("k".to_owned(), "2".to_owned())];
        assert!(check(twice, 10).is_err());
        for text in ["a=1&a=2", "a=%2", "a=%zz", "%ff=1"] {
            assert_eq!(parse(text), Err(TagFault::Text), "{text}");
        }
    }
}
