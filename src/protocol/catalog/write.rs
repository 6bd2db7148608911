//! The one shape of a durable step, and what a flow answers when it is asked for the next one.
//!
//! A flow is a function `next(&Durable, &Request) -> Result<Step<Answer>, Refusal>`. Whoever performs it reads,
//! asks, writes and reads again until the flow is done. It remembers nothing: resuming is asking again, and so is
//! finding out what became of a write whose answer was lost.
//!
//! # What the performer owes
//!
//! - [`Outcome::Done`] and [`Outcome::PreconditionFailed`]: read everything again and ask again, with the request's
//!   `attempted` set where it has one and the entry's write was sent. What was read under locks that keep everybody else
//!   from it, and was written since by a step that was [`Outcome::Done`], needs no reading: the drives take no further step
//!   once the locks are lost.
//! - [`Outcome::Unknown`]: read again and ask again, too, a bounded number of times; when reading does not answer it either, the request ends with
//!   [`Class::Unknown`](super::refusal::Class::Unknown).
//! - A step that [`Write::is_best_effort`] comes after the linearising one: its failure is logged and the flow is
//!   asked for its answer with the request's `leaves_unfinished` set.
//! - A refusal after a write of the same request: what the flow's `undo` asks for is done, best effort, under the
//!   same locks.
//!
//! # Sources
//!
//! Specification of the catalog §3.3 (preconditions), §3.4 and §5.5 (write orders).

use crate::protocol::crash_point::CrashPoint;

/// Where a key lies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The meta bucket `.rustfs.sys`.
    Meta,
    /// The table bucket of this name.
    Bucket(String),
}

/// The precondition of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum When {
    /// The key must hold nothing.
    Absent,
    /// The key must hold what has this ETag.
    Matches(String),
    /// None: the lock that is held is the guard.
    Always,
}

/// The next thing to make durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// In which bucket.
    pub place: Place,
    /// The key.
    pub key: String,
    /// What it holds then; `None` removes it.
    pub contents: Option<Vec<u8>>,
    /// The precondition.
    pub when: When,
    /// The crash point right after it.
    pub point: CrashPoint,
    /// Whether the request succeeds although this step fails.
    pub is_best_effort: bool,
    /// User metadata that is stored beside the contents.
    pub user_metadata: Vec<(String, String)>,
}

impl Write {
    /// Puts `contents` under `key` of the meta bucket.
    pub fn put(key: String, contents: Vec<u8>, when: When, point: CrashPoint) -> Self {
        Self { contents: Some(contents), ..Self::delete(key, when, point) }
    }

    /// Removes `key` from the meta bucket.
    pub fn delete(key: String, when: When, point: CrashPoint) -> Self {
        Self {
            place: Place::Meta,
            key,
            contents: None,
            when,
            point,
            is_best_effort: false,
            user_metadata: Vec::new(),
        }
    }

    /// Puts a metadata file, if there is none of its name, into the table bucket `bucket`.
    pub fn metadata(bucket: &str, key: String, contents: Vec<u8>, point: CrashPoint) -> Self {
        Self {
            place: Place::Bucket(bucket.to_owned()),
            ..Self::put(key, contents, When::Absent, point)
        }
    }

    /// Removes a metadata file from the table bucket `bucket`.
    pub fn remove_metadata(bucket: &str, key: String, point: CrashPoint) -> Self {
        Self {
            place: Place::Bucket(bucket.to_owned()),
            ..Self::delete(key, When::Always, point).best_effort()
        }
    }

    /// The same step, whose failure does not fail the request.
    #[must_use]
    pub fn best_effort(mut self) -> Self {
        self.is_best_effort = true;
        self
    }
}

/// What became of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is durable; what a `Put` wrote has this ETag.
    Done(Option<String>),
    /// Its precondition did not hold; nothing was written.
    PreconditionFailed,
    /// It may or may not have been written.
    Unknown,
}

/// What a flow says when it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step<A> {
    /// Make this durable, read again, ask again.
    Write(Write),
    /// All is done; this is the answer.
    Done(A),
}

impl<A> Step<A> {
    /// The same step with another answer.
    pub fn map<B>(self, change: impl FnOnce(A) -> B) -> Step<B> {
        match self {
            Self::Write(write) => Step::Write(write),
            Self::Done(answer) => Step::Done(change(answer)),
        }
    }

    /// The write that is asked for, if one is.
    pub fn write(&self) -> Option<&Write> {
        match self {
            Self::Write(write) => Some(write),
            Self::Done(_) => None,
        }
    }
}

/// A record as it was read, with the ETag that whoever replaces it expects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<T> {
    /// What the bytes say.
    pub value: T,
    /// The ETag; never empty.
    pub etag: String,
}

impl<T> Found<T> {
    /// `value`, read under `etag`.
    pub fn new(value: T, etag: impl Into<String>) -> Self {
        Self { value, etag: etag.into() }
    }

    /// The precondition that nobody wrote since.
    pub fn unchanged(&self) -> When {
        When::Matches(self.etag.clone())
    }
}
