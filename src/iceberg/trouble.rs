//! Why something was refused.

use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

use iceberg::ErrorKind;

/// What kind of refusal it is: which status and error type the client gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The table is not as the client expected: it refreshes and tries again (409).
    Conflict,
    /// The request, or the document, is wrong by itself (400).
    Invalid,
    /// It is legal Iceberg that this catalog does not serve (406).
    Unsupported,
    /// Two halves of the request contradict each other (422).
    Unprocessable,
    /// The caller may not read an object that the commit refers to (403).
    Forbidden,
    /// An object could not be read just now; nothing was written (503).
    Unavailable,
}

/// A refusal. It leaves nothing behind: whoever gives one has written nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Trouble {
    /// Its kind.
    pub class: Class,
    /// What is wrong, for the client: a fragment without a full stop.
    pub text: String,
}

impl Trouble {
    pub(super) fn new(class: Class, text: impl Into<String>) -> Self {
        Self { class, text: text.into() }
    }

    pub(super) fn conflict(text: impl Into<String>) -> Self {
        Self::new(Class::Conflict, text)
    }

    pub(super) fn invalid(text: impl Into<String>) -> Self {
        Self::new(Class::Invalid, text)
    }

    pub(super) fn unsupported(text: impl Into<String>) -> Self {
        Self::new(Class::Unsupported, text)
    }
}

impl From<iceberg::Error> for Trouble {
    fn from(error: iceberg::Error) -> Self {
        let class = match error.kind() {
            ErrorKind::CatalogCommitConflicts => Class::Conflict,
            ErrorKind::FeatureUnsupported => Class::Unsupported,
            _ => Class::Invalid,
        };
        Self::new(class, error.message().trim_end_matches('.'))
    }
}

/// Asks the crate, and takes a panic of its for a refusal.
///
/// It indexes and adds on the strength of what it has read, and what it reads here was written by others. We look for
/// what is known to break it first; this wall is for what is not.
pub(super) fn guarded<T>(
    what: &str,
    ask: impl FnOnce() -> Result<T, iceberg::Error>,
) -> Result<T, Trouble> {
    match catch_unwind(AssertUnwindSafe(ask)) {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(Trouble::invalid(format!("{what} cannot be made sense of"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_the_crate_is_a_refusal() {
        // As a panic is, and nothing is printed.
        let broken =
            || -> Result<(), iceberg::Error> { std::panic::resume_unwind(Box::new("index")) };
        let trouble = guarded("the schema", broken).expect_err("a refusal");
        assert_eq!(trouble, Trouble::invalid("the schema cannot be made sense of"));
    }
}
