//! Contents on their way in: cut into blocks, encoded, framed, and put where nobody sees them yet.
//!
//! A drive that fails or lags drops out while enough others stand. Nothing is published here; whatever is
//! staged is thrown away when the [`Received`] is dropped before it was published.

use std::sync::Arc;

use tokio::task::JoinHandle;
use uuid::Uuid;

use super::Store;
use super::api::BodyError;
use super::api::BodyStream;
use super::api::StoreError;
use super::api::WantedChecksum;
use super::calls::Answer;
use super::calls::Asked;
use super::calls::GRACE;
use super::calls::first_error;
use super::calls::gather;
use super::incoming::Blocks;
use super::incoming::Digests;
use crate::disk::drive::CommitKind;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::Staging;
use crate::disk::format::checksum::Algorithm;
use crate::disk::format::erasure::Erasure;
use crate::disk::format::frame;
use crate::disk::format::frame::BLOCK_BYTES;
use crate::disk::format::frame::PartLayout;
use crate::disk::format::xl_meta::ObjectBody;
use crate::protocol::object::quorum;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// What is to be received.
pub(super) struct Plan {
    pub(super) set: usize,
    /// What it is for.
    pub(super) target: ObjectKey,
    pub(super) kind: CommitKind,
    pub(super) data: usize,
    pub(super) parity: usize,
    /// The shard of each drive, from 1.
    pub(super) distribution: Vec<u8>,
    pub(super) staging: Staging,
    pub(super) part: u32,
    /// Whether small contents may go into the metadata, and whether the bucket keeps versions.
    pub(super) inline: Option<bool>,
    /// Length, when it is known.
    pub(super) size: Option<u64>,
    pub(super) content_md5: Option<[u8; 16]>,
    pub(super) checksums: Vec<WantedChecksum>,
}

/// What was received.
pub(super) struct Received {
    pub(super) size: u64,
    pub(super) etag: String,
    pub(super) digests: Vec<(Algorithm, Vec<u8>)>,
    pub(super) shards: Stored,
    guard: Guard,
}

/// Where the shards are.
pub(super) enum Stored {
    /// Framed, by shard, to go into the metadata; all empty for empty contents.
    Inline(Vec<Vec<u8>>),
    /// In staging folders of these drives, sealed.
    Staged(Vec<usize>),
}

/// Throws staged shards away unless told otherwise.
struct Guard {
    store: Arc<Store>,
    set: usize,
    staging: Staging,
    drives: Vec<usize>,
    /// What is under way, and what was not waited for any more.
    in_flight: Option<JoinHandle<Sent>>,
    late: Vec<Asked>,
}

/// Answers that were waited for, and the others.
type Sent = (Vec<Answer>, Asked);

impl Received {
    /// Shards on these drives, if any are left, are still to be thrown away.
    pub(super) fn keep_only(&mut self, published: &[usize]) {
        self.guard.drives.retain(|slot| !published.contains(slot));
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.drives.is_empty() {
            return;
        }
        let (store, set, staging) = (Arc::clone(&self.store), self.set, self.staging);
        let drives = std::mem::take(&mut self.drives);
        let (in_flight, mut late) = (self.in_flight.take(), std::mem::take(&mut self.late));
        runtime.spawn(async move {
            // What arrives after the rest was thrown away would stay.
            if let Some(Ok((_, asked))) = match in_flight {
                Some(task) => Some(task.await),
                None => None,
            } {
                late.push(asked);
            }
            for asked in &mut late {
                gather(asked, GRACE, |_| false).await;
            }
            store.discard(set, drives, staging).await;
        });
    }
}

/// An object of this geometry that says nothing yet.
pub(super) fn blank_object(data: usize, parity: usize, distribution: Vec<u8>) -> ObjectBody {
    ObjectBody {
        version: VersionId::NULL,
        data_dir: Uuid::new_v4(),
        erasure_algorithm: 1,
        data,
        parity,
        block_bytes: BLOCK_BYTES,
        shard: 1,
        distribution,
        checksum_algorithm: 1,
        parts: Vec::new(),
        size: 0,
        modtime_ns: 0,
        system: std::collections::BTreeMap::new(),
        user: std::collections::BTreeMap::new(),
        unknown: Vec::new(),
    }
}

/// Receives contents.
///
/// # Errors
///
/// `IncompleteBody`, `BadDigest`, `BadChecksum`, `NoQuorum`; nothing is left behind but what is being thrown away.
pub(super) async fn receive(
    store: &Arc<Store>,
    plan: Plan,
    body: BodyStream,
) -> Result<Received, StoreError> {
    let erasure = store.erasure(plan.data, plan.parity)?;
    let needed = store.needed(quorum::write(plan.data, plan.parity));
    let mut blocks = Blocks::new(body, plan.size);
    let mut digests = Digests::new(&plan.checksums);
    let mut stager = Stager::new(store, &plan, needed)?;

    let mut block = blocks.next().await?;
    let is_over = |block: &[u8]| block.len() < BLOCK_BYTES as usize;
    let fits = plan.inline.is_some_and(|versioned| {
        is_over(&block) && frame::goes_inline(block.len() as u64, plan.data, versioned)
    });
    let mut inline = None;
    if fits || block.is_empty() && plan.inline.is_some() {
        let frames;
        (digests, frames) = encode(&erasure, digests, block).await;
        inline = Some(frames);
    } else {
        let mut index = 0;
        loop {
            if plan.size.is_some_and(|size| blocks.received > size) {
                break;
            }
            if block.is_empty() {
                break;
            }
            let over = is_over(&block);
            let next = async {
                match over {
                    true => Ok(Vec::new()),
                    false => blocks.next().await,
                }
            };
            // The next block comes in while this one is worked on, and the one before goes out to the drives.
            let (encoded, next) = tokio::join!(encode(&erasure, digests, block), next);
            let frames;
            (digests, frames) = encoded;
            let offset = PartLayout::new(u64::MAX, plan.data).frame(index).offset;
            stager.append(offset, frames).await?;
            index += 1;
            block = next?;
        }
    }
    let size = blocks.received;
    if plan.size.is_some_and(|announced| announced != size) {
        let why = format!("{size} bytes came where {} were announced", plan.size.unwrap_or(0));
        return Err(StoreError::IncompleteBody(BodyError(why)));
    }
    drop(blocks);
    let (etag, digests) = digests.finish(plan.content_md5, plan.checksums)?;
    let shards = match inline {
        Some(frames) => Stored::Inline(frames),
        None => Stored::Staged(stager.seal(size == 0).await?),
    };
    Ok(Received { size, etag, digests, shards, guard: stager.guard })
}

/// Contents that are in memory already, for the metadata.
pub(super) fn inline_shards(erasure: &Erasure, contents: &[u8]) -> Vec<Vec<u8>> {
    framed(erasure, contents)
}

fn framed(erasure: &Erasure, block: &[u8]) -> Vec<Vec<u8>> {
    if block.is_empty() {
        return vec![Vec::new(); erasure.total()];
    }
    let mut frames = erasure.encode_behind(block, frame::HASH_BYTES);
    frames.iter_mut().for_each(|file| frame::seal(file));
    frames
}

/// Blocks up to so many bytes are worked on where they are: to hand them on would take longer.
const SMALL_BYTES: usize = 128 << 10;

/// Digests and encodes one block, off the reactor when it is large: both at once, because the MD5 alone takes as long as
/// all the rest.
async fn encode(
    erasure: &Arc<Erasure>,
    mut digests: Digests,
    block: Vec<u8>,
) -> (Digests, Vec<Vec<u8>>) {
    if block.len() <= SMALL_BYTES {
        digests.update(&block);
        return (digests, framed(erasure, &block));
    }
    let (erasure, block) = (Arc::clone(erasure), Arc::new(block));
    let digested = Arc::clone(&block);
    let digests = tokio::task::spawn_blocking(move || {
        digests.update(&digested);
        digests
    });
    let frames = tokio::task::spawn_blocking(move || framed(&erasure, &block));
    let (digests, frames) = tokio::join!(digests, frames);
    let sound = "digesting and encoding a block do not panic";
    (digests.expect(sound), frames.expect(sound))
}

/// Appends frames to all drives that keep up.
struct Stager {
    guard: Guard,
    target: ObjectKey,
    kind: CommitKind,
    part: u32,
    /// The shard of each drive, from 0.
    shards: Vec<usize>,
    live: Vec<usize>,
    needed: usize,
}

impl Stager {
    fn new(store: &Arc<Store>, plan: &Plan, needed: usize) -> Result<Self, StoreError> {
        let drives = store.drives(plan.set);
        let live: Vec<_> = (0..drives.len()).filter(|slot| drives[*slot].is_online()).collect();
        if live.len() < needed {
            let able = live.len();
            return Err(StoreError::NoQuorum { what: "take a write", able, needed, why: None });
        }
        let guard = Guard {
            store: Arc::clone(store),
            set: plan.set,
            staging: plan.staging,
            drives: Vec::new(),
            in_flight: None,
            late: Vec::new(),
        };
        let shards = plan.distribution.iter().map(|shard| usize::from(*shard) - 1).collect();
        Ok(Self {
            guard,
            target: plan.target.clone(),
            kind: plan.kind,
            part: plan.part,
            shards,
            live,
            needed,
        })
    }

    /// Sends one frame to each drive, after the one before has arrived.
    async fn append(&mut self, offset: u64, mut frames: Vec<Vec<u8>>) -> Result<(), StoreError> {
        self.wait().await?;
        for slot in &self.live {
            if !self.guard.drives.contains(slot) {
                self.guard.drives.push(*slot);
            }
        }
        let (staging, part) = (self.guard.staging, self.part);
        let requests: Vec<_> = self
            .live
            .iter()
            .map(|slot| {
                let bytes = std::mem::take(&mut frames[self.shards[*slot]]);
                (*slot, DriveRequest::Append { staging, part, offset, bytes })
            })
            .collect();
        self.ask(requests);
        Ok(())
    }

    fn ask(&mut self, requests: Vec<(usize, DriveRequest)>) {
        let mut asked = self.guard.store.start(self.guard.set, requests);
        let needed = self.needed;
        self.guard.in_flight = Some(tokio::spawn(async move {
            let answers = gather(&mut asked, GRACE, |answers| {
                answers.iter().filter(|(_, answer)| answer.is_ok()).count() >= needed
            })
            .await;
            (answers, asked)
        }));
    }

    /// Waits for what is under way; who failed or lags is out.
    async fn wait(&mut self) -> Result<(), StoreError> {
        let Some(task) = self.guard.in_flight.take() else { return Ok(()) };
        let (answers, late) = task.await.expect("asking drives does not panic");
        if !late.is_empty() {
            self.guard.late.push(late);
        }
        let took =
            |slot: &usize| answers.iter().any(|(other, answer)| other == slot && answer.is_ok());
        self.live.retain(took);
        if self.live.len() >= self.needed {
            return Ok(());
        }
        let why = first_error(&answers);
        let (able, needed) = (self.live.len(), self.needed);
        Err(StoreError::NoQuorum { what: "take the contents", able, needed, why })
    }

    /// Seals what was staged; answers the drives that did.
    async fn seal(&mut self, empty: bool) -> Result<Vec<usize>, StoreError> {
        if empty {
            // The folder is to be there all the same.
            self.append(0, vec![Vec::new(); self.shards.len()]).await?;
        }
        self.wait().await?;
        let seal = DriveRequest::Seal {
            staging: self.guard.staging,
            target: self.target.clone(),
            kind: self.kind,
        };
        let requests = self.live.iter().map(|slot| (*slot, seal.clone())).collect();
        self.ask(requests);
        self.wait().await?;
        Ok(self.live.clone())
    }
}
