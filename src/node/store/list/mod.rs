//! Listings: what the drives agree on, in the order of keys, a page at a time.
//!
//! Drives are walked without locks. What a quorum of them says of a key cannot be taken back, and is shown; any
//! other key is looked at again under its lock, as a GET would.

mod walker;

use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream;

pub(super) use walker::Walker;

use super::Store;
use super::api::ListRequest;
use super::api::Listing;
use super::api::ObjectInfo;
use super::api::StoreError;
use super::bucket::Bucket;
use super::copies::Copies;
use super::copies::Found;
use super::copies::Want;
use super::describe;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// Keys that are looked at again at once.
const AT_ONCE: usize = 16;
/// Keys of a batch.
const BATCH: usize = 64;
/// Comes after everything that begins with what stands before it.
const LAST: char = char::MAX;

/// The keys of all sets in order.
struct Keys {
    walkers: Vec<Walker>,
    fronts: Vec<Option<Copies>>,
    begun: bool,
}

impl Keys {
    fn new(store: &Arc<Store>, bucket: &Bucket, prefix: &str, after: &str) -> Self {
        let walker = |set| Walker::new(store, set, &bucket.name, prefix, after, bucket.since_ns());
        let walkers: Vec<_> = (0..store.sets()).map(walker).collect();
        let fronts = walkers.iter().map(|_| None).collect();
        Self { walkers, fronts, begun: false }
    }

    async fn next(&mut self) -> Result<Option<Copies>, StoreError> {
        if !self.begun {
            self.begun = true;
            for (walker, front) in self.walkers.iter_mut().zip(&mut self.fronts) {
                *front = walker.next().await?;
            }
        }
        let keys = self.fronts.iter().enumerate();
        let first = keys
            .filter_map(|(set, front)| Some((front.as_ref()?.target.key.as_str(), set)))
            .min()
            .map(|(_, set)| set);
        let Some(set) = first else { return Ok(None) };
        let next = self.walkers[set].next().await?;
        Ok(std::mem::replace(&mut self.fronts[set], next))
    }

    async fn batch(&mut self, count: usize) -> Result<Vec<Copies>, StoreError> {
        let mut batch = Vec::new();
        while batch.len() < count {
            match self.next().await? {
                Some(copies) => batch.push(copies),
                None => break,
            }
        }
        Ok(batch)
    }

    async fn skip_to(&mut self, key: &str) -> Result<(), StoreError> {
        for (walker, front) in self.walkers.iter_mut().zip(&mut self.fronts) {
            walker.skip_to(key);
            if front.as_ref().is_some_and(|copies| copies.target.key.as_str() <= key) {
                *front = walker.next().await?;
            }
        }
        Ok(())
    }
}

/// What there is of a key, newest first; looked at again when the drives do not agree.
async fn resolve(
    store: &Arc<Store>,
    copies: Copies,
    want: Want,
) -> Result<(ObjectKey, Vec<Found>), StoreError> {
    if let Ok(found) = copies.read(want, false) {
        return Ok((copies.target, found));
    }
    let seen = store.look(copies.set, &copies.target, copies.since_ns, want, false).await?;
    Ok((copies.target, seen.found))
}

/// Whether no version of any key is there.
pub(super) async fn is_empty(store: &Arc<Store>, bucket: &Bucket) -> Result<bool, StoreError> {
    let mut keys = Keys::new(store, bucket, "", "");
    while let Some(copies) = keys.next().await? {
        if !resolve(store, copies, Want::All).await?.1.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Keys with their latest versions, delete markers left out.
pub(super) async fn list(store: &Arc<Store>, request: ListRequest) -> Result<Listing, StoreError> {
    let request = ListRequest { after_version: None, ..request };
    page(store, request, Want::Latest).await
}

/// Keys with all their versions.
pub(super) async fn list_versions(
    store: &Arc<Store>,
    request: ListRequest,
) -> Result<Listing, StoreError> {
    page(store, request, Want::All).await
}

async fn page(store: &Arc<Store>, request: ListRequest, want: Want) -> Result<Listing, StoreError> {
    let bucket = store.bucket_of(&request.bucket).await?;
    let mut page = Page {
        listing: Listing::default(),
        limit: request.limit,
        last: None,
        full: request.limit == 0,
        names_versions: want == Want::All,
        bucket: &bucket,
    };
    let group = |key: &str| group_of(key, &request.prefix, request.delimiter.as_deref());
    let mut skip = None;
    if let Some(version) =
        request.after_version.filter(|_| request.after.starts_with(&request.prefix))
    {
        let target = ObjectKey { bucket: bucket.name.clone(), key: request.after.clone() };
        let set = store.set_of(&target.key);
        let seen = store.look(set, &target, bucket.since_ns(), want, false).await?;
        let at = seen.found.iter().position(|it| it.version.id() == version);
        page.versions(&target, &seen.found, at.map_or(0, |at| at + 1));
    } else if group(&request.after).as_deref() == Some(&request.after) {
        // The last page ended with this group.
        skip = Some(format!("{}{LAST}", request.after));
    }
    let after = skip.as_deref().unwrap_or(&request.after);
    let mut keys = Keys::new(store, &bucket, &request.prefix, after);
    let mut last_group = skip.is_some().then(|| request.after.clone());
    while !page.full {
        let left = request.limit + 1 - page.count().min(request.limit);
        let batch = keys.batch(left.min(BATCH)).await?;
        if batch.is_empty() {
            break;
        }
        let each = batch.into_iter().map(|copies| resolve(store, copies, want));
        let resolved: Vec<_> = stream::iter(each).buffered(AT_ONCE).collect().await;
        let mut jump = None;
        for one in resolved {
            let (target, found) = one?;
            let shown = match want {
                Want::Latest => found.first().is_some_and(|it| it.version.as_object().is_some()),
                Want::All | Want::ById(_) => !found.is_empty(),
            };
            let group = group(&target.key);
            jump = group.clone().filter(|group| shown || last_group.as_ref() == Some(group));
            if !shown || group.is_some() && group == last_group {
                continue;
            }
            match group {
                Some(group) => {
                    page.prefix(group.clone());
                    last_group = Some(group);
                }
                None => page.versions(&target, &found, 0),
            }
            if page.full {
                break;
            }
        }
        if let Some(group) = jump.filter(|_| !page.full) {
            keys.skip_to(&format!("{group}{LAST}")).await?;
        }
    }
    Ok(page.listing)
}

/// The group that a key falls into: all that stands before and with the first delimiter behind the prefix.
fn group_of(key: &str, prefix: &str, delimiter: Option<&str>) -> Option<String> {
    let delimiter = delimiter.filter(|delimiter| !delimiter.is_empty())?;
    let rest = key.strip_prefix(prefix)?;
    let end = rest.find(delimiter)? + delimiter.len();
    Some(key[..prefix.len() + end].to_owned())
}

struct Page<'a> {
    listing: Listing,
    limit: usize,
    /// The last that was put on the page.
    last: Option<(String, Option<VersionId>)>,
    /// Whether there is no room for more; where the next page begins is known then.
    full: bool,
    names_versions: bool,
    bucket: &'a Bucket,
}

impl Page<'_> {
    fn count(&self) -> usize {
        self.listing.entries.len() + self.listing.prefixes.len()
    }

    /// Whether there is room for one more; if not, the page ends with the last one.
    fn has_room(&mut self) -> bool {
        if self.count() < self.limit {
            return true;
        }
        self.full = true;
        self.listing.next = self.last.clone();
        false
    }

    fn prefix(&mut self, group: String) {
        if self.has_room() {
            self.last = Some((group.clone(), None));
            self.listing.prefixes.push(group);
        }
    }

    fn versions(&mut self, target: &ObjectKey, found: &[Found], from: usize) {
        for (index, found) in found.iter().enumerate().skip(from) {
            if !self.has_room() {
                return;
            }
            let version = self.names_versions.then(|| found.version.id());
            self.last = Some((target.key.clone(), version));
            let info: ObjectInfo =
                describe::info(target, &found.version, self.bucket.state, index == 0);
            self.listing.entries.push(info);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_fall_into_groups_at_the_first_delimiter_behind_the_prefix() {
        assert_eq!(group_of("a/b/c", "", Some("/")).as_deref(), Some("a/"));
        assert_eq!(group_of("a/b/c", "a/", Some("/")).as_deref(), Some("a/b/"));
        assert_eq!(group_of("a/b", "a/", Some("/")), None);
        assert_eq!(group_of("a", "", Some("/")), None);
        assert_eq!(group_of("a/", "", Some("/")).as_deref(), Some("a/"));
        assert_eq!(group_of("a--b", "", Some("--")).as_deref(), Some("a--"));
        assert_eq!(group_of("a/b", "", None), None);
        assert_eq!(group_of("a/b", "", Some("")), None);
        assert_eq!(group_of("x", "y", Some("/")), None);
    }
}
