//! What follows from a snapshot and is never stored: the owners of prefixes, and the names that are both a
//! table's and a view's.
//!
//! # Sources
//!
//! Specification of the catalog §4.2, §4.8 (prefixes), §4.10 (quarantine).

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::protocol::catalog::name::Identifier;
use crate::protocol::catalog::name::Namespace;
use crate::protocol::catalog::prefix;
use crate::protocol::catalog::prefix::PrefixMap;
use crate::protocol::catalog::refusal::Class;
use crate::protocol::catalog::refusal::Refusal;
use crate::protocol::catalog::snapshot::contents::Contents;

/// A bucket and a name that an active table and an active view share.
pub type Collision = (String, Identifier);

/// What follows from a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Derived {
    /// For each bucket the owners of its tables' prefixes.
    pub prefixes: BTreeMap<String, PrefixMap<Identifier>>,
    /// The names that are both a table's and a view's: while there is one, the snapshot is in quarantine.
    pub collisions: BTreeSet<Collision>,
}

impl Derived {
    /// What follows from `contents`.
    ///
    /// # Errors
    ///
    /// [`Class::Invalid`] for a location that names no prefix, or two prefixes that overlap.
    pub fn of(contents: &Contents) -> Result<Self, Refusal> {
        let mut derived = Self::default();
        for ((bucket, name), table) in &contents.tables {
            if !table.is_active() {
                continue;
            }
            let prefix = prefix::of_table(bucket, &table.warehouse_location)?;
            let owners = derived.prefixes.entry(bucket.clone()).or_default();
            if let Err(owner) = owners.insert(prefix, name.clone()) {
                return Err(Class::Invalid.because(format!(
                    "the warehouse prefixes of {bucket}/{owner} and {bucket}/{name} overlap"
                )));
            }
            let twin = contents.view(bucket, name);
            if twin.is_some_and(|view| view.is_active()) {
                derived.collisions.insert((bucket.clone(), name.clone()));
            }
        }
        Ok(derived)
    }

    /// Whether this name collides.
    pub fn collides(&self, bucket: &str, name: &Identifier) -> bool {
        !self.collisions.is_empty() && self.collisions.contains(&(bucket.to_owned(), name.clone()))
    }

    /// Whether some name of this namespace (of this bucket for `None`) collides.
    pub fn has_collision_in(&self, bucket: &str, namespace: Option<&Namespace>) -> bool {
        self.collisions.iter().any(|(of, name)| {
            of == bucket && namespace.is_none_or(|namespace| name.namespace == *namespace)
        })
    }

    /// Refuses an ambiguous read of one name.
    ///
    /// # Errors
    ///
    /// [`Class::Damaged`].
    pub fn check_name(&self, bucket: &str, name: &Identifier) -> Result<(), Refusal> {
        if self.collides(bucket, name) {
            let text = format!("{bucket}/{name} is both a table and a view; drop one of them");
            return Err(Class::Damaged.because(text));
        }
        Ok(())
    }

    /// Refuses an ambiguous listing of a namespace, or of a bucket for `None`.
    ///
    /// # Errors
    ///
    /// [`Class::Damaged`].
    pub fn check_listing(
        &self,
        bucket: &str,
        namespace: Option<&Namespace>,
    ) -> Result<(), Refusal> {
        if self.has_collision_in(bucket, namespace) {
            let text =
                format!("a name in {bucket} is both a table's and a view's; drop one of them");
            return Err(Class::Damaged.because(text));
        }
        Ok(())
    }
}
