//! Buckets that this node need not read again, because nobody but itself can have changed them.
//!
//! It is asked on the way of every request. Only what was read while nobody was changing it is kept; what a change left
//! unknown is never kept again, because it may take effect at any later time.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use super::bucket::Bucket;

/// Buckets that are kept before all are forgotten.
const KEPT_MAX: usize = 1_000;

/// What was read of buckets.
#[derive(Debug)]
pub(super) struct Remembered {
    /// Whether all drives are this node's own. Otherwise others may change a bucket, and nothing is kept.
    alone: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Counts beginnings and ends of changes.
    changes: u64,
    /// Changes that are under way, by bucket.
    changing: BTreeMap<String, usize>,
    /// Buckets of which a change may still take effect.
    unknown: BTreeSet<String>,
    kept: BTreeMap<String, Bucket>,
}

/// A moment; what is read after it is kept only if nothing was changed since.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment(u64);

/// A change that is under way. One that ends without being said to be [`certain`](Self::certain) leaves its bucket
/// unknown for good.
pub(super) struct Change<'a> {
    remembered: &'a Remembered,
    bucket: String,
    is_certain: bool,
}

impl Remembered {
    pub(super) fn new(alone: bool) -> Self {
        Self { alone, state: Mutex::default() }
    }

    /// The bucket, if it is known; else the moment before it is read.
    pub(super) fn recall(&self, bucket: &str) -> Result<Bucket, Moment> {
        let state = self.state();
        state.kept.get(bucket).cloned().ok_or(Moment(state.changes))
    }

    /// Keeps what was read since `moment`.
    pub(super) fn keep(&self, bucket: &Bucket, moment: Moment) {
        let mut state = self.state();
        let name = &bucket.name;
        let is_open = state.changing.contains_key(name) || state.unknown.contains(name);
        if !self.alone || state.changes != moment.0 || is_open {
            return;
        }
        if state.kept.len() >= KEPT_MAX {
            state.kept.clear();
        }
        state.kept.insert(name.clone(), bucket.clone());
    }

    /// A change begins: until its end the bucket is read anew each time.
    pub(super) fn change(&self, bucket: &str) -> Change<'_> {
        let mut state = self.state();
        state.changes += 1;
        state.kept.remove(bucket);
        *state.changing.entry(bucket.to_owned()).or_default() += 1;
        Change { remembered: self, bucket: bucket.to_owned(), is_certain: false }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Change<'_> {
    /// The change is done, or was not done: nothing of it comes later.
    pub(super) fn certain(mut self) {
        self.is_certain = true;
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let mut state = self.remembered.state();
        state.changes += 1;
        if let Some(count) = state.changing.get_mut(&self.bucket) {
            *count -= 1;
            if *count == 0 {
                state.changing.remove(&self.bucket);
            }
        }
        if !self.is_certain {
            state.unknown.insert(self.bucket.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::object::effect::BucketState;

    fn bucket(created_ns: i64) -> Bucket {
        let state = BucketState::Unversioned;
        Bucket { name: "bkt".to_owned(), created_ns, state, record: None }
    }

    fn known(remembered: &Remembered) -> Option<i64> {
        remembered.recall("bkt").ok().map(|bucket| bucket.created_ns)
    }

    fn moment(remembered: &Remembered) -> Moment {
        remembered.recall("bkt").map(drop).expect_err("nothing is kept yet")
    }

    #[test]
    fn what_was_read_beside_a_change_is_not_kept() {
        let remembered = Remembered::new(true);
        let before = moment(&remembered);
        let change = remembered.change("bkt");
        remembered.keep(&bucket(1), before);
        remembered.keep(&bucket(1), moment(&remembered));
        assert_eq!(known(&remembered), None, "a change is under way");
        let during = moment(&remembered);
        change.certain();
        remembered.keep(&bucket(1), during);
        assert_eq!(known(&remembered), None, "it was read before the change had ended");
        remembered.keep(&bucket(2), moment(&remembered));
        assert_eq!(known(&remembered), Some(2));
        remembered.change("bkt").certain();
        assert_eq!(known(&remembered), None);
    }

    #[test]
    fn a_bucket_of_which_a_change_may_come_later_is_never_kept() {
        let remembered = Remembered::new(true);
        drop(remembered.change("bkt"));
        remembered.keep(&bucket(1), moment(&remembered));
        assert_eq!(known(&remembered), None);
    }

    #[test]
    fn what_others_may_change_is_never_kept() {
        let remembered = Remembered::new(false);
        remembered.keep(&bucket(1), moment(&remembered));
        assert_eq!(known(&remembered), None);
    }
}
