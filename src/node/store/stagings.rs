//! Staging folders that nobody will publish any more.
//!
//! A staging id begins with a tag of the process that drew it. The tags of this node's processes stand on its
//! own drives, so that the next process throws away, on every drive of the deployment, what an earlier one
//! left when it died. What a drive did not throw away when it was asked is asked for again.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use tokio::sync::OnceCell;
use uuid::Uuid;

use super::Store;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::Staging;

/// The record on this node's drives: one tag a line, in hexadecimal.
const RECORD: &str = "staging-tags";

/// What this process knows of stagings.
pub(super) struct Stagings {
    tag: u64,
    /// Done once this process' own tag is on its drives.
    recorded: OnceCell<()>,
    /// Tags of earlier processes whose stagings may still lie on some drive.
    old: Mutex<Vec<u64>>,
    /// Stagings of this process that a drive was to throw away and did not: set, slot, staging.
    left: Mutex<Vec<(usize, usize, Staging)>>,
}

impl Default for Stagings {
    fn default() -> Self {
        let (tag, _) = Uuid::new_v4().as_u64_pair();
        Self { tag, recorded: OnceCell::new(), old: Mutex::default(), left: Mutex::default() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Stagings {
    /// A staging folder of this process.
    fn draw(&self, data_dir: Uuid) -> Staging {
        let (_, rest) = Uuid::new_v4().as_u64_pair();
        Staging { id: Uuid::from_u64_pair(self.tag, rest), data_dir }
    }

    /// Work that waits for drives.
    pub(super) fn waiting(&self) -> u64 {
        (lock(&self.old).len() + lock(&self.left).len()) as u64
    }
}

impl Store {
    /// A new staging folder. Only the first call of a process takes time.
    pub(super) async fn new_staging(&self, data_dir: Uuid) -> Staging {
        self.stagings.recorded.get_or_init(|| record(self)).await;
        self.stagings.draw(data_dir)
    }

    /// Throws a staging folder away on some drives; who cannot now is asked again.
    pub(super) async fn discard(
        &self,
        set: usize,
        slots: impl IntoIterator<Item = usize>,
        staging: Staging,
    ) {
        let requests = slots.into_iter().map(|slot| (slot, DriveRequest::Discard { staging }));
        for (slot, answer) in self.ask(set, requests).await {
            if answer.is_err() {
                lock(&self.stagings.left).push((set, slot, staging));
            }
        }
    }
}

/// Puts this process' tag on its own drives beside those of earlier processes, which it takes over.
async fn record(store: &Store) {
    let own = store.stagings.tag;
    let read = DriveRequest::RecordRead { name: RECORD.to_owned() };
    let mut tags = vec![];
    for (_, answer) in on_local(store, &read).await {
        if let Ok(DriveReply::Record(Some(bytes))) = answer {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            tags.extend(text.lines().filter_map(|line| u64::from_str_radix(line, 16).ok()));
        }
    }
    tags.sort_unstable();
    tags.dedup();
    lock(&store.stagings.old).clone_from(&tags);
    tags.push(own);
    write(store, &tags).await;
}

async fn write(store: &Store, tags: &[u64]) {
    let lines: Vec<_> = tags.iter().map(|tag| format!("{tag:016x}\n")).collect();
    let bytes = lines.concat().into_bytes();
    on_local(store, &DriveRequest::RecordPut { name: RECORD.to_owned(), bytes }).await;
}

async fn on_local(store: &Store, request: &DriveRequest) -> Vec<super::calls::Answer> {
    let mut answers = Vec::new();
    for set in 0..store.sets() {
        let local = store.parts.local.iter().filter(|(of, _)| *of == set);
        let requests: Vec<_> = local.map(|(_, slot)| (*slot, request.clone())).collect();
        answers.extend(store.ask(set, requests).await);
    }
    answers
}

/// Asks again for what was not thrown away yet. Called now and then.
pub(super) async fn retry(store: &Arc<Store>) {
    store.stagings.recorded.get_or_init(|| record(store)).await;
    let left = std::mem::take(&mut *lock(&store.stagings.left));
    for (set, slot, staging) in left {
        store.discard(set, [slot], staging).await;
    }
    let old = lock(&store.stagings.old).clone();
    if old.is_empty() {
        return;
    }
    let mut still = Vec::new();
    for tag in old {
        let mut everywhere = true;
        for set in 0..store.sets() {
            let answers = store.ask_all(set, &DriveRequest::DiscardOf { tag }).await;
            everywhere &= answers.iter().all(|(_, answer)| answer.is_ok());
        }
        if !everywhere {
            still.push(tag);
        }
    }
    lock(&store.stagings.old).clone_from(&still);
    still.push(store.stagings.tag);
    write(store, &still).await;
}
