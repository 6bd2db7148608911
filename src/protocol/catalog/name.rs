//! The names of the catalog: namespaces, and the segments that namespaces, tables and views are made of.
//!
//! # Sources
//!
//! Specification of the catalog §1.3 (limits), §2.1 rule 8 (spellings in a path), M20 (reserved segments).

use std::fmt;

use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;

/// The longest identifier segment, in bytes.
pub const SEGMENT_BYTES_MAX: usize = 64;
/// The longest namespace in its dotted form, in bytes.
pub const NAMESPACE_BYTES_MAX: usize = 512;
/// The most properties of a namespace.
pub const PROPERTIES_MAX: usize = 256;
/// The longest key of a namespace property, in bytes.
pub const PROPERTY_KEY_BYTES_MAX: usize = 256;
/// The longest value of a namespace property, in bytes.
pub const PROPERTY_VALUE_BYTES_MAX: usize = 4096;
/// All keys and values of a namespace's properties together, in bytes.
pub const PROPERTIES_BYTES_MAX: usize = 64 * 1024;
/// The segments that a new namespace may not have: resources lie under folders of these names.
pub const RESERVED_SEGMENTS: [&str; 2] = ["tables", "views"];
/// What separates the segments of a namespace in a path.
pub const SEPARATOR: char = '\u{1f}';

/// Checks one identifier segment, or the name of a table or a view.
///
/// # Errors
///
/// [`Class::Invalid`]; `what` says what the segment names.
pub fn check_segment(what: &str, segment: &str) -> Result<(), Refusal> {
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = segment.as_bytes();
    let has_length = (1..=SEGMENT_BYTES_MAX).contains(&bytes.len());
    let is_spelt = bytes.iter().all(|byte| is_alphanumeric(*byte) || matches!(byte, b'_' | b'-'));
    let ends = [bytes.first(), bytes.last()].into_iter().flatten();
    if has_length && is_spelt && ends.into_iter().all(|byte| is_alphanumeric(*byte)) {
        return Ok(());
    }
    Err(Class::Invalid.because(format!(
        "{what} {segment:?} is not 1 to {SEGMENT_BYTES_MAX} of a-z, 0-9, _ and - with a letter or digit at both ends"
    )))
}

/// A namespace of one or more segments. Ordered by its dotted form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(String);

impl Namespace {
    /// The namespace of these segments.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`].
    pub fn of<S: AsRef<str>>(segments: &[S]) -> Result<Self, Refusal> {
        if segments.is_empty() {
            return Err(Class::Invalid.because("a namespace has at least one segment"));
        }
        let segments: Vec<&str> = segments.iter().map(AsRef::as_ref).collect();
        for segment in &segments {
            check_segment("namespace segment", segment)?;
        }
        let dotted = segments.join(".");
        if dotted.len() > NAMESPACE_BYTES_MAX {
            let seen = dotted.len();
            return Err(Class::Invalid.because(format!(
                "the namespace has {seen} bytes, more than {NAMESPACE_BYTES_MAX}"
            )));
        }
        Ok(Self(dotted))
    }

    /// The namespace that records spell like this, with dots.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`].
    pub fn from_dotted(dotted: &str) -> Result<Self, Refusal> {
        Self::of(&dotted.split('.').collect::<Vec<_>>())
    }

    /// The namespace of a path segment or a parameter, already percent-decoded.
    ///
    /// Segments are separated by U+001F; where there is none, dots separate them, as older clients do it.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`].
    pub fn from_path(decoded: &str) -> Result<Self, Refusal> {
        if decoded.contains(SEPARATOR) {
            return Self::of(&decoded.split(SEPARATOR).collect::<Vec<_>>());
        }
        Self::from_dotted(decoded)
    }

    /// Refuses a *new* namespace with a segment under which resources lie (M20).
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`].
    pub fn check_new(&self) -> Result<(), Refusal> {
        match self.segments().find(|segment| RESERVED_SEGMENTS.contains(segment)) {
            None => Ok(()),
            Some(segment) => Err(Class::Invalid.because(format!(
                "namespace {self} has the segment `{segment}`, under which the catalog keeps its resources"
            ))),
        }
    }

    /// Its segments, outermost first.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('.')
    }

    /// Its segments, as answers spell them.
    pub fn levels(&self) -> Vec<String> {
        self.segments().map(str::to_owned).collect()
    }

    /// The form with dots, as records spell it.
    pub fn dotted(&self) -> &str {
        &self.0
    }

    /// The form with slashes: the record's `namespace_id`, and its part of keys.
    pub fn slashed(&self) -> String {
        self.0.replace('.', "/")
    }

    /// How many segments it has.
    pub fn depth(&self) -> usize {
        self.segments().count()
    }

    /// The namespace that it lies in, if it is not outermost.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('.').map(|(parent, _)| Self(parent.to_owned()))
    }

    /// Whether it lies in `other`, at any depth.
    pub fn is_below(&self, other: &Self) -> bool {
        self.0.strip_prefix(other.0.as_str()).is_some_and(|rest| rest.starts_with('.'))
    }

    /// Its ancestor, or itself, that is a direct child of `parent` (of the root for `None`).
    pub fn child_of(&self, parent: Option<&Self>) -> Option<Self> {
        if parent.is_some_and(|parent| !self.is_below(parent)) {
            return None;
        }
        let depth = parent.map_or(0, Self::depth) + 1;
        Some(Self(self.segments().take(depth).collect::<Vec<_>>().join(".")))
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Namespace({})", self.0)
    }
}

/// A table or a view: its namespace and its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identifier {
    /// The namespace it lies in.
    pub namespace: Namespace,
    /// Its name there.
    pub name: String,
}

impl Identifier {
    /// The table or view `name` in `namespace`.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`] when the name is not one segment.
    pub fn new(namespace: Namespace, name: &str) -> Result<Self, Refusal> {
        check_segment("name", name)?;
        Ok(Self { namespace, name: name.to_owned() })
    }

    /// The table or view that a record names.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`].
    pub fn from_record(namespace: &str, name: &str) -> Result<Self, Refusal> {
        Self::new(Namespace::from_dotted(namespace)?, name)
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.namespace, self.name)
    }
}

/// Checks the properties of a namespace against their limits.
///
/// # Errors
///
/// [`Class::Invalid`].
pub fn check_properties<'a>(
    properties: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> Result<(), Refusal> {
    let (mut count, mut bytes) = (0, 0);
    for (key, value) in properties {
        count += 1;
        bytes += key.len() + value.len();
        if !(1..=PROPERTY_KEY_BYTES_MAX).contains(&key.len())
            || value.len() > PROPERTY_VALUE_BYTES_MAX
        {
            return Err(Class::Invalid.because(format!(
                "a property has a key of {} and a value of {} bytes; allowed are 1 to {PROPERTY_KEY_BYTES_MAX} and {PROPERTY_VALUE_BYTES_MAX}",
                key.len(),
                value.len()
            )));
        }
    }
    if count > PROPERTIES_MAX || bytes > PROPERTIES_BYTES_MAX {
        return Err(Class::Invalid.because(format!(
            "{count} properties of {bytes} bytes together; allowed are {PROPERTIES_MAX} and {PROPERTIES_BYTES_MAX}"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_segment_is_lower_case_with_a_letter_or_digit_at_both_ends() {
        for good in ["a", "7", "a_b-c", &"x".repeat(64)] {
            check_segment("name", good).unwrap();
        }
        for bad in ["", "A", "_a", "a-", "a.b", "a b", "ü", &"x".repeat(65)] {
            assert_eq!(check_segment("name", bad).unwrap_err().class, Class::Invalid, "{bad:?}");
        }
    }

    #[test]
    fn a_namespace_has_a_dotted_and_a_slashed_form() {
        let namespace = Namespace::of(&["sales", "eu"]).unwrap();
        assert_eq!((namespace.dotted(), &*namespace.slashed()), ("sales.eu", "sales/eu"));
        assert_eq!(Namespace::from_path("sales\u{1f}eu").unwrap(), namespace);
        assert_eq!(Namespace::from_path("sales.eu").unwrap(), namespace);
        assert!(Namespace::from_path("sales\u{1f}eu.x").is_err(), "a dot is no separator here");
        assert!(Namespace::of::<&str>(&[]).is_err());
        assert!(Namespace::of(&vec!["x".repeat(64); 8]).is_err(), "519 bytes");
    }

    #[test]
    fn a_namespace_knows_its_ancestors() {
        let parse = |dotted: &str| Namespace::from_dotted(dotted).unwrap();
        let (root, deep) = (parse("a"), parse("a.b.c"));
        assert!(deep.is_below(&root) && !parse("ab").is_below(&root) && !root.is_below(&root));
        assert_eq!(deep.child_of(None), Some(parse("a")));
        assert_eq!(deep.child_of(Some(&root)), Some(parse("a.b")));
        assert_eq!(root.child_of(Some(&root)), None);
        assert_eq!(deep.parent(), Some(parse("a.b")));
    }

    #[test]
    fn a_new_namespace_may_not_hide_among_the_resources() {
        assert!(Namespace::from_dotted("sales.tables.b").unwrap().check_new().is_err());
        assert!(Namespace::from_dotted("sales.table").unwrap().check_new().is_ok());
    }

    #[test]
    fn properties_have_limits() {
        let properties = |count: usize, bytes: usize| -> BTreeMap<String, String> {
            (0..count).map(|index| (format!("k{index:03}"), "v".repeat(bytes))).collect()
        };
        assert!(check_properties(&properties(256, 250)).is_ok());
        assert!(check_properties(&properties(257, 1)).is_err());
        assert!(check_properties(&properties(256, 256)).is_err(), "over 64 KiB");
        assert!(check_properties(&properties(1, 4097)).is_err());
        assert!(check_properties(&BTreeMap::from([(String::new(), String::new())])).is_err());
    }
}
