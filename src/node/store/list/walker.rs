//! The keys of a bucket in order, each with what all drives of its set hold of it.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::disk::drive::DriveError;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::WalkEntry;
use crate::node::store::Store;
use crate::node::store::api::StoreError;
use crate::node::store::copies::Copies;
use crate::node::store::copies::Copy;
use crate::node::store::copies::unexpected;
use crate::protocol::object::quorum;
use crate::value::ObjectKey;

/// Keys that are asked of a drive at once.
const PAGE: u32 = 256;

/// Walks all drives of one set side by side.
pub(in crate::node::store) struct Walker {
    store: Arc<Store>,
    set: usize,
    bucket: String,
    prefix: String,
    since_ns: i64,
    cursors: Vec<Cursor>,
}

struct Cursor {
    after: String,
    buffer: VecDeque<WalkEntry>,
    complete: bool,
    failed: Option<DriveError>,
    rebuilding: bool,
}

impl Cursor {
    fn is_short(&self) -> bool {
        self.buffer.is_empty() && !self.complete && self.failed.is_none()
    }

    fn fill(&mut self, answer: Result<DriveReply, DriveError>) {
        match answer {
            Ok(DriveReply::Page(page)) => {
                if let Some(last) = page.entries.last() {
                    self.after.clone_from(&last.key);
                }
                self.complete = page.complete || page.entries.is_empty();
                self.rebuilding = page.rebuilding;
                self.buffer = page.entries.into();
            }
            Ok(other) => self.failed = Some(unexpected(&other)),
            // A drive that lacks the bucket may be about to be filled: what it lacks says nothing.
            Err(error) => self.failed = Some(error),
        }
    }
}

impl Walker {
    /// Keys of `bucket` that begin with `prefix` and come after `after`.
    pub(in crate::node::store) fn new(
        store: &Arc<Store>,
        set: usize,
        bucket: &str,
        prefix: &str,
        after: &str,
        since_ns: i64,
    ) -> Self {
        let cursor = || Cursor {
            after: after.to_owned(),
            buffer: VecDeque::new(),
            complete: false,
            failed: None,
            rebuilding: false,
        };
        Self {
            store: Arc::clone(store),
            set,
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            since_ns,
            cursors: store.drives(set).iter().map(|_| cursor()).collect(),
        }
    }

    /// The next key with all copies of it; nothing at the end.
    ///
    /// # Errors
    ///
    /// `NoQuorum` when so few drives are left that an acknowledged key could be missed.
    pub(in crate::node::store) async fn next(&mut self) -> Result<Option<Copies>, StoreError> {
        self.refill().await;
        let able = self.cursors.iter().filter(|it| it.failed.is_none() && !it.rebuilding).count();
        let needed = quorum::absence(self.cursors.len());
        if able < needed {
            let why = self.cursors.iter().find_map(|it| it.failed.clone());
            return Err(StoreError::NoQuorum { what: "list the keys", able, needed, why });
        }
        let fronts = self.cursors.iter().filter_map(|it| it.buffer.front());
        let Some(key) = fronts.map(|it| it.key.clone()).min() else { return Ok(None) };
        let target = ObjectKey { bucket: self.bucket.clone(), key };
        let mut copies = Copies::new(self.set, target, self.since_ns, self.cursors.len());
        for (cursor, copy) in self.cursors.iter_mut().zip(&mut copies.copies) {
            *copy = match &cursor.failed {
                Some(error) => Copy::failed(error.clone()),
                None => {
                    let entry = cursor.buffer.pop_front_if(|it| it.key == copies.target.key);
                    Copy::of_entry(entry.as_ref(), cursor.rebuilding)
                }
            };
        }
        Ok(Some(copies))
    }

    /// Goes on after `key`.
    pub(in crate::node::store) fn skip_to(&mut self, key: &str) {
        for cursor in &mut self.cursors {
            while cursor.buffer.pop_front_if(|it| it.key.as_str() <= key).is_some() {}
            if cursor.buffer.is_empty() && cursor.after.as_str() < key {
                key.clone_into(&mut cursor.after);
            }
        }
    }

    async fn refill(&mut self) {
        let short = |(slot, cursor): (usize, &Cursor)| {
            let request = DriveRequest::Walk {
                bucket: self.bucket.clone(),
                prefix: self.prefix.clone(),
                after: cursor.after.clone(),
                limit: PAGE,
            };
            cursor.is_short().then_some((slot, request))
        };
        let requests: Vec<_> = self.cursors.iter().enumerate().filter_map(short).collect();
        for (slot, answer) in self.store.ask(self.set, requests).await {
            self.cursors[slot].fill(answer);
        }
    }
}
