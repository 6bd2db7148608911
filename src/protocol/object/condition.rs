//! Conditional requests: `If-Match`, `If-None-Match`, `If-Modified-Since`, `If-Unmodified-Since`.

/// What a condition names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tags {
    /// `*`: any version that is not a delete marker.
    Any,
    /// One of these ETags, without quotes.
    OneOf(Vec<String>),
}

/// The conditions of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Conditions {
    /// `If-Match`.
    pub if_match: Option<Tags>,
    /// `If-None-Match`.
    pub if_none_match: Option<Tags>,
    /// `If-Modified-Since`, Unix seconds.
    pub if_modified_since_s: Option<i64>,
    /// `If-Unmodified-Since`, Unix seconds.
    pub if_unmodified_since_s: Option<i64>,
    /// Of deletes: the bytes that the version must have.
    pub if_size: Option<u64>,
    /// Of deletes: when it must have been written, Unix seconds.
    pub if_modified_at_s: Option<i64>,
}

/// What stands where something is to be deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Absent,
    /// A delete marker.
    Marker,
    /// An object, and its bytes.
    Object(Current, u64),
}

/// The version that conditions are held against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Current {
    /// Its ETag, without quotes.
    pub etag: String,
    /// Unix nanoseconds.
    pub modtime_ns: i64,
}

/// Why a request does not go ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmet {
    /// A condition does not hold: 412.
    Failed,
    /// A reader already has it: 304.
    NotModified,
    /// A write is conditional on a version that does not exist: 404.
    NoSuchKey,
}

impl Conditions {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Judges a GET or HEAD of `current`.
    ///
    /// # Errors
    ///
    /// [`Unmet::Failed`] or [`Unmet::NotModified`].
    pub fn judge_read(&self, current: &Current) -> Result<(), Unmet> {
        if let Some(tags) = &self.if_match {
            if !tags.name(&current.etag) {
                return Err(Unmet::Failed);
            }
        } else if self.if_unmodified_since_s.is_some_and(|limit| current.modtime_s() > limit) {
            return Err(Unmet::Failed);
        }
        if let Some(tags) = &self.if_none_match {
            if tags.name(&current.etag) {
                return Err(Unmet::NotModified);
            }
        } else if self.if_modified_since_s.is_some_and(|limit| current.modtime_s() <= limit) {
            return Err(Unmet::NotModified);
        }
        Ok(())
    }

    /// Judges a delete of what stands there: the version that is named, or else the latest one. Answers whether
    /// there is anything to be deleted: what is not there fulfils every condition.
    ///
    /// # Errors
    ///
    /// [`Unmet::Failed`].
    pub fn judge_delete(&self, standing: &Standing) -> Result<bool, Unmet> {
        let met = match standing {
            Standing::Absent => return Ok(false),
            // A marker has neither ETag, nor size, nor a moment that a reader could know.
            Standing::Marker => {
                self.if_match.as_ref().is_none_or(|tags| *tags == Tags::Any)
                    && self.if_size.is_none()
                    && self.if_modified_at_s.is_none()
            }
            Standing::Object(current, size) => {
                self.if_match.as_ref().is_none_or(|tags| tags.name(&current.etag))
                    && self.if_none_match.as_ref().is_none_or(|tags| !tags.name(&current.etag))
                    && self.if_size.is_none_or(|wanted| wanted == *size)
                    && self.if_modified_at_s.is_none_or(|wanted| wanted == current.modtime_s())
            }
        };
        if met { Ok(true) } else { Err(Unmet::Failed) }
    }

    /// Judges a PUT or a completed upload. `current` is the latest version unless it is a delete
    /// marker; the caller holds the key's lock.
    ///
    /// # Errors
    ///
    /// [`Unmet::Failed`] or [`Unmet::NoSuchKey`].
    pub fn judge_write(&self, current: Option<&Current>) -> Result<(), Unmet> {
        if let Some(tags) = &self.if_match {
            match current {
                None => return Err(Unmet::NoSuchKey),
                Some(current) if !tags.name(&current.etag) => return Err(Unmet::Failed),
                Some(_) => {}
            }
        }
        match (&self.if_none_match, current) {
            (Some(tags), Some(current)) if tags.name(&current.etag) => Err(Unmet::Failed),
            _ => Ok(()),
        }
    }
}

impl Tags {
    /// Reads the value of `If-Match` or `If-None-Match`.
    pub fn parse(value: &str) -> Self {
        if value.trim() == "*" {
            return Self::Any;
        }
        let tags = value.split(',').map(|tag| {
            let tag = tag.trim();
            tag.strip_prefix("W/").unwrap_or(tag).trim_matches('"').to_owned()
        });
        Self::OneOf(tags.filter(|tag| !tag.is_empty()).collect())
    }

    fn name(&self, etag: &str) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(tags) => tags.iter().any(|tag| tag == etag || tag == "*"),
        }
    }
}

impl Current {
    fn modtime_s(&self) -> i64 {
        self.modtime_ns.div_euclid(1_000_000_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn current() -> Current {
        Current { etag: "aa".into(), modtime_ns: 1_000_000_000_500 }
    }

    fn one(tag: &str) -> Option<Tags> {
        Some(Tags::parse(tag))
    }

    #[test]
    fn writes_go_ahead_only_on_the_version_they_name() {
        let create = Conditions { if_none_match: one("*"), ..Conditions::default() };
        assert_eq!(create.judge_write(None), Ok(()));
        assert_eq!(create.judge_write(Some(&current())), Err(Unmet::Failed));
        let replace = Conditions { if_match: one("\"aa\""), ..Conditions::default() };
        assert_eq!(replace.judge_write(Some(&current())), Ok(()));
        assert_eq!(replace.judge_write(None), Err(Unmet::NoSuchKey));
        let other = Conditions { if_match: one("\"bb\""), ..Conditions::default() };
        assert_eq!(other.judge_write(Some(&current())), Err(Unmet::Failed));
        let differs = Conditions { if_none_match: one("\"bb\""), ..Conditions::default() };
        assert_eq!(differs.judge_write(Some(&current())), Ok(()));
        assert_eq!(Conditions::default().judge_write(None), Ok(()));
    }

    #[test]
    fn deletes_go_ahead_on_what_they_name_and_find_nothing_where_nothing_is() {
        let object = Standing::Object(current(), 7);
        let wants = |change: fn(&mut Conditions)| {
            let mut conditions = Conditions::default();
            change(&mut conditions);
            [&object, &Standing::Marker, &Standing::Absent].map(|it| conditions.judge_delete(it))
        };
        let (yes, no, nothing) = (Ok(true), Err(Unmet::Failed), Ok(false));
        assert_eq!(wants(|_| {}), [yes, yes, nothing]);
        assert_eq!(wants(|it| it.if_match = one("aa")), [yes, no, nothing]);
        assert_eq!(wants(|it| it.if_match = one("*")), [yes, yes, nothing]);
        assert_eq!(wants(|it| it.if_match = one("bb")), [no, no, nothing]);
        assert_eq!(wants(|it| it.if_size = Some(7)), [yes, no, nothing]);
        assert_eq!(wants(|it| it.if_size = Some(8)), [no, no, nothing]);
        assert_eq!(wants(|it| it.if_modified_at_s = Some(1000)), [yes, no, nothing]);
        assert_eq!(wants(|it| it.if_modified_at_s = Some(1001)), [no, no, nothing]);
    }

    #[test]
    fn reads_follow_the_precedence_of_http() {
        let judge = |conditions: Conditions| conditions.judge_read(&current());
        assert_eq!(judge(Conditions { if_match: one("*"), ..Conditions::default() }), Ok(()));
        assert_eq!(
            judge(Conditions { if_match: one("\"bb\", \"cc\""), ..Conditions::default() }),
            Err(Unmet::Failed)
        );
        assert_eq!(
            judge(Conditions { if_none_match: one("W/\"aa\""), ..Conditions::default() }),
            Err(Unmet::NotModified)
        );
        let since =
            |seconds| Conditions { if_modified_since_s: Some(seconds), ..Conditions::default() };
        assert_eq!(judge(since(999)), Ok(()));
        assert_eq!(judge(since(1000)), Err(Unmet::NotModified));
        let unmodified =
            |seconds| Conditions { if_unmodified_since_s: Some(seconds), ..Conditions::default() };
        assert_eq!(judge(unmodified(1000)), Ok(()));
        assert_eq!(judge(unmodified(999)), Err(Unmet::Failed));
        // An ETag outranks the date beside it.
        assert_eq!(judge(Conditions { if_match: one("aa"), ..unmodified(0) }), Ok(()));
        assert_eq!(judge(Conditions { if_none_match: one("bb"), ..since(5000) }), Ok(()));
    }
}
