//! Why a request of the catalog is not done: one class for each answer on the wire.
//!
//! A refusal is *known not executed*, except [`Class::Unknown`], which says that the write may have happened. A
//! client takes 500, 502 and 504 for "commit state unknown"; so a known failure of a changing request never has
//! one of these, and an unknown outcome always has 500.
//!
//! # Sources
//!
//! Specification of the catalog §2.1 (error classes and their types), §2.7 (what a client makes of them).

use std::fmt;

/// What a refusal means to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// There is no such thing.
    NotFound,
    /// There is no such namespace.
    NoSuchNamespace,
    /// There is no such table.
    NoSuchTable,
    /// There is no such view.
    NoSuchView,
    /// The name is taken.
    AlreadyExists,
    /// The namespace still has something in it.
    NamespaceNotEmpty,
    /// What the request was based on is no longer so.
    Conflict,
    /// The request, or a persisted record that it concerns, is not valid.
    Invalid,
    /// The request contradicts itself.
    Unprocessable,
    /// What is asked is not offered in this mode, or not at all.
    Unsupported,
    /// The caller may not.
    Forbidden,
    /// Not now, and nothing was done: a fence, a closed catalog, a gate, a lock that was not granted.
    Unavailable,
    /// Persisted state cannot be read as what it must be.
    Damaged,
    /// The write may or may not have happened.
    Unknown,
}

impl Class {
    /// The status of a request in this class; `changes` says whether the request is a changing one.
    pub fn status(self, changes: bool) -> u16 {
        match self {
            Self::NotFound | Self::NoSuchNamespace | Self::NoSuchTable | Self::NoSuchView => 404,
            Self::AlreadyExists | Self::NamespaceNotEmpty | Self::Conflict => 409,
            Self::Invalid => 400,
            Self::Unprocessable => 422,
            Self::Unsupported => 406,
            Self::Forbidden => 403,
            Self::Unavailable => 503,
            Self::Damaged if changes => 503,
            Self::Damaged | Self::Unknown => 500,
        }
    }

    /// The `type` of the error body.
    pub fn wire_type(self) -> &'static str {
        match self {
            Self::NotFound => "NoSuchResourceException",
            Self::NoSuchNamespace => "NoSuchNamespaceException",
            Self::NoSuchTable => "NoSuchTableException",
            Self::NoSuchView => "NoSuchViewException",
            Self::AlreadyExists => "AlreadyExistsException",
            Self::NamespaceNotEmpty => "NamespaceNotEmptyException",
            Self::Conflict => "CommitFailedException",
            Self::Invalid => "BadRequestException",
            Self::Unprocessable => "UnprocessableEntityException",
            Self::Unsupported => "UnsupportedOperationException",
            Self::Forbidden => "ForbiddenException",
            Self::Unavailable => "ServiceUnavailableException",
            Self::Damaged | Self::Unknown => "RESTException",
        }
    }

    /// A refusal of this class.
    pub fn because(self, text: impl Into<String>) -> Refusal {
        Refusal { class: self, text: text.into() }
    }
}

/// Why a request is not done, or why nobody can say whether it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What it means to a client.
    pub class: Class,
    /// What was found, for a reader: a fragment without a full stop.
    pub text: String,
}

impl Refusal {
    /// The status of the answer; `changes` says whether the request is a changing one.
    pub fn status(&self, changes: bool) -> u16 {
        self.class.status(changes)
    }

    /// Whether the write may have happened in spite of this answer.
    pub fn leaves_it_unknown(&self) -> bool {
        self.class == Class::Unknown
    }

    /// The same refusal in another class.
    #[must_use]
    pub fn as_class(mut self, class: Class) -> Self {
        self.class = class;
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Class; 14] = [
        Class::NotFound,
        Class::NoSuchNamespace,
        Class::NoSuchTable,
        Class::NoSuchView,
        Class::AlreadyExists,
        Class::NamespaceNotEmpty,
        Class::Conflict,
        Class::Invalid,
        Class::Unprocessable,
        Class::Unsupported,
        Class::Forbidden,
        Class::Unavailable,
        Class::Damaged,
        Class::Unknown,
    ];

    #[test]
    fn a_known_failure_of_a_changing_request_is_never_taken_for_an_unknown_one() {
        for class in ALL {
            let is_ambiguous = [500, 502, 504].contains(&class.status(true));
            assert_eq!(is_ambiguous, class == Class::Unknown, "{class:?}");
        }
    }

    #[test]
    fn damaged_state_is_an_error_of_the_server_on_a_read() {
        let refusal = Class::Damaged.because("the record is torn");
        assert_eq!((refusal.status(false), refusal.status(true)), (500, 503));
        assert!(!refusal.leaves_it_unknown());
        assert!(Class::Unknown.because("the answer was lost").leaves_it_unknown());
    }
}
