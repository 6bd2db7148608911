//! Which table owns a key of a table bucket, as the strong snapshot says it.
//!
//! An error of any kind must stop the request, for everybody.
//!
//! # Sources
//!
//! Specification of the catalog §4.8, F42.

use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::settings::Gates;
use crate::protocol::catalog::strong::hydrate::Loaded;

/// Which table owns `key` of `bucket`.
///
/// # Errors
///
/// [`Class::Invalid`] when the bucket has no active entry; [`Class::Unavailable`] when version 2 is to be written
/// and was not yet; [`Class::Damaged`] when the owner's name is a view's, too.
pub fn resolve(
    loaded: Option<&Loaded>,
    gates: Gates,
    bucket: &str,
    key: &str,
) -> Result<Option<Identifier>, Refusal> {
    let snapshot = loaded.map(|loaded| &loaded.snapshot);
    let entry = snapshot.and_then(|snapshot| snapshot.contents.buckets.get(bucket));
    if !entry.is_some_and(|entry| entry.is_active()) {
        let text = format!("table bucket {bucket} has no active entry in the catalog");
        return Err(Class::Invalid.because(text));
    }
    if gates.write_version() > 1 && snapshot.is_none_or(|snapshot| snapshot.version < 2) {
        return Err(Class::Unavailable.because(
            "both gates of snapshot version 2 are open and no change has written it yet",
        ));
    }
    let derived = snapshot.map(|snapshot| &snapshot.derived);
    let owners = derived.and_then(|derived| derived.prefixes.get(bucket));
    let owner = owners.and_then(|owners| owners.owner(key));
    if let (Some(owner), Some(derived)) = (owner, derived) {
        derived.check_name(bucket, owner)?;
    }
    Ok(owner.cloned())
}
