//! The permit: what a fence or a cut-over forbids.
//!
//! A change holds the shared lock of its fence, then finds the fence's file absent, and keeps the lock to its end.
//!
//! # Sources
//!
//! Specification of the catalog §5.9, §5.10; M6 (no stale reads), M9 (a fence is no "already exists").

use crate::protocol::catalog::fence::BucketFence;
use crate::protocol::catalog::fence::CutOver;
use crate::protocol::catalog::fence::RegistryFence;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;

/// What kind of change asks for a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Something new: a client takes a conflict here for "it is there already".
    Create,
    /// A change of what is there.
    Change,
}

/// Refuses a change of a bucket while its fence is there.
///
/// # Errors
///
/// [`Class::Unavailable`] for a creation, [`Class::Conflict`] for a change.
pub fn check_bucket(fence: Option<&BucketFence>, purpose: Purpose) -> Result<(), Refusal> {
    let Some(fence) = fence else { return Ok(()) };
    let class = match purpose {
        Purpose::Create => Class::Unavailable,
        Purpose::Change => Class::Conflict,
    };
    let (bucket, id) = (&fence.table_bucket, &fence.migration_id);
    Err(class.because(format!("bucket {bucket} is fenced by migration {id}")))
}

/// Refuses a new table-bucket entry while any migration exists.
///
/// # Errors
///
/// [`Class::Unavailable`].
pub fn check_registry(fence: Option<&RegistryFence>) -> Result<(), Refusal> {
    let Some(fence) = fence else { return Ok(()) };
    let id = &fence.migration_id;
    Err(Class::Unavailable.because(format!("table buckets are fenced by migration {id}")))
}

/// Refuses to delete a bucket that a migration holds: its part of the snapshot would be left without it (M7).
///
/// # Errors
///
/// [`Class::Conflict`].
pub fn check_bucket_deletion(fence: Option<&BucketFence>) -> Result<(), Refusal> {
    check_bucket(fence, Purpose::Change)
}

/// Refuses to serve object-backed state that a durable-strong process has taken over.
///
/// # Errors
///
/// [`Class::Unavailable`].
pub fn check_current(
    cut_over: Option<&CutOver>,
    fence: Option<&BucketFence>,
) -> Result<(), Refusal> {
    match (cut_over, fence) {
        (Some(_), Some(fence)) => Err(Class::Unavailable.because(format!(
            "bucket {} was taken over by a durable-strong process; what is here is stale: start with the backing durable-strong, or cancel the migration",
            fence.table_bucket
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f21_a_fence_is_a_conflict_for_a_change_and_never_taken_for_an_existing_thing() {
        let fence = BucketFence::preparing("lake1", "m", false, None);
        let refusal = |purpose| check_bucket(Some(&fence), purpose).unwrap_err();
        assert_eq!(refusal(Purpose::Create).class, Class::Unavailable);
        assert_eq!(refusal(Purpose::Change).class, Class::Conflict);
        assert!(check_bucket(None, Purpose::Create).is_ok());
        assert!(check_bucket_deletion(Some(&fence)).is_err());
        assert!(check_bucket_deletion(None).is_ok());
    }

    #[test]
    fn f22_no_bucket_is_registered_while_a_migration_exists() {
        let fence = RegistryFence::new("m");
        assert_eq!(check_registry(Some(&fence)).unwrap_err().class, Class::Unavailable);
        assert!(check_registry(None).is_ok());
    }

    #[test]
    fn what_was_taken_over_is_not_served_stale() {
        let fence = BucketFence::preparing("lake1", "m", false, None);
        let cut_over = CutOver::new("m");
        assert!(check_current(Some(&cut_over), Some(&fence)).is_err());
        assert!(check_current(Some(&cut_over), None).is_ok(), "a bucket that was never moved");
        assert!(check_current(None, Some(&fence)).is_ok(), "a migration that is under way");
    }
}
