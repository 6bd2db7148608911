//! Reading stripes of one version from the drives that hold its shards.
//!
//! Asks one drive more than the code needs, so that a misplaced shard shows; goes on to others when one is
//! missing, broken or slow. Blocks come out proven or said to be unproven, never merely hoped for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use tokio::time::Instant;

use super::frames::Frames;
use super::frames::frames_of;
use super::stripe::Solved;
use super::stripe::solve;
use super::stripe::solve_without_the_wrong;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::disk::format::erasure::Erasure;
use crate::disk::format::frame::FrameSpan;
use crate::disk::format::frame::HASH_BYTES;
use crate::disk::format::frame::PartLayout;
use crate::disk::format::xl_meta::ObjectBody;
use crate::node::store::Store;
use crate::node::store::api::StoreError;
use crate::node::store::calls::Asked;
use crate::node::store::copies::Copies;
use crate::protocol::object::decide::Backing;
use crate::value::ObjectKey;

/// After so long without an answer another drive is asked.
const HEDGE: Duration = Duration::from_millis(250);
/// So long a spare shard is waited for when enough others are there.
const SPARE_PATIENCE: Duration = Duration::from_millis(1_000);
/// Work on more bytes than this leaves the reactor.
const OFF_REACTOR_BYTES: usize = 512 << 10;

/// A drive that has, or should have, a shard.
#[derive(Debug, Clone)]
struct Source {
    slot: usize,
    /// From 0.
    shard: usize,
    /// The framed shard, when it lies in the metadata.
    inline: Option<Vec<u8>>,
    /// How often it failed.
    trouble: u32,
}

/// Reads one version.
#[derive(Clone)]
pub(in crate::node::store) struct Reader {
    store: Arc<Store>,
    set: usize,
    target: ObjectKey,
    object: ObjectBody,
    erasure: Arc<Erasure>,
    sources: Vec<Source>,
    verifies: bool,
    met_trouble: bool,
}

/// One block.
pub(in crate::node::store) struct Block {
    /// Its data shards.
    pub(in crate::node::store) data: Vec<Bytes>,
    /// Its bytes of the part.
    pub(in crate::node::store) block_bytes: usize,
    /// Whether more shards than needed agreed.
    pub(in crate::node::store) proven: bool,
}

impl Block {
    /// The bytes from one place to another, as they lie in the shards.
    pub(in crate::node::store) fn pieces(
        &self,
        from: usize,
        to: usize,
    ) -> impl Iterator<Item = Bytes> + '_ {
        let mut begin = 0;
        self.data.iter().filter_map(move |shard| {
            let (first, end) = (begin, begin + shard.len());
            begin = end;
            let (from, to) = (from.max(first), to.min(self.block_bytes).min(end));
            (from < to).then(|| shard.slice(from - first..to - first))
        })
    }

    /// The bytes.
    pub(in crate::node::store) fn contents(&self) -> Vec<u8> {
        let mut contents = Vec::with_capacity(self.block_bytes);
        Erasure::join_block(&self.data, self.block_bytes, &mut contents);
        contents
    }
}

impl Reader {
    /// A reader of what `backing` says, from those drives that hold or kept it.
    ///
    /// # Errors
    ///
    /// `Unreadable` when the version is in a form that we do not read.
    pub(in crate::node::store) fn new(
        store: &Arc<Store>,
        copies: &Copies,
        backing: &Backing,
    ) -> Result<Self, StoreError> {
        let target = copies.target.clone();
        let unreadable =
            |why: &str| StoreError::Unreadable { target: target.clone(), why: why.to_owned() };
        let mut object = None;
        let mut sources = Vec::new();
        for slot in backing.holders.iter().chain(&backing.keepers) {
            let Some((version, inline)) = copies.backed(*slot, backing) else { continue };
            let Some(body) = version.as_object() else {
                return Err(unreadable("it is no object"));
            };
            // A drive that disagrees about its own shard holds nothing that can be relied on.
            if body.distribution.get(*slot).copied().map(usize::from) != Some(body.shard) {
                continue;
            }
            let inline = body.is_inline().then(|| inline.unwrap_or_default().to_vec());
            sources.push(Source { slot: *slot, shard: body.shard - 1, inline, trouble: 0 });
            object.get_or_insert_with(|| body.clone());
        }
        let object = object.ok_or_else(|| unreadable("no drive has a usable copy"))?;
        if !object.is_inline() {
            // A data directory belongs to one version for good, so that a drive that was not asked, or whose
            // metadata is unreadable, may still help out.
            for (slot, shard) in object.distribution.iter().enumerate() {
                if slot < copies.copies.len() && !sources.iter().any(|it| it.slot == slot) {
                    let shard = usize::from(*shard) - 1;
                    sources.push(Source { slot, shard, inline: None, trouble: 1 });
                }
            }
        }
        if object.is_remote() || object.is_encoded() {
            return Err(unreadable("its contents are compressed, encrypted or elsewhere"));
        }
        Self::from(store, copies.set, target, object, sources)
    }

    /// A reader of shard files that lie on these drives, each as the distribution has it.
    ///
    /// # Errors
    ///
    /// The geometry is impossible.
    pub(in crate::node::store) fn over(
        store: &Arc<Store>,
        set: usize,
        target: &ObjectKey,
        object: ObjectBody,
        holders: &[usize],
    ) -> Result<Self, StoreError> {
        let source = |slot: &usize| {
            let shard = usize::from(*object.distribution.get(*slot)?) - 1;
            Some(Source { slot: *slot, shard, inline: None, trouble: 0 })
        };
        let sources = holders.iter().filter_map(source).collect();
        Self::from(store, set, target.clone(), object, sources)
    }

    fn from(
        store: &Arc<Store>,
        set: usize,
        target: ObjectKey,
        object: ObjectBody,
        sources: Vec<Source>,
    ) -> Result<Self, StoreError> {
        let erasure = store.erasure(object.data, object.parity)?;
        let verifies = store.parts.rules.verifies_frames();
        let store = Arc::clone(store);
        let met_trouble = false;
        Ok(Self { store, set, target, object, erasure, sources, verifies, met_trouble })
    }

    /// The version.
    pub(in crate::node::store) fn object(&self) -> &ObjectBody {
        &self.object
    }

    /// Whose version it is.
    pub(in crate::node::store) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The key.
    pub(in crate::node::store) fn target(&self) -> &ObjectKey {
        &self.target
    }

    /// The key's set.
    pub(in crate::node::store) fn set(&self) -> usize {
        self.set
    }

    /// The code.
    pub(in crate::node::store) fn erasure(&self) -> &Arc<Erasure> {
        &self.erasure
    }

    /// Whether what is read is held against what is known of it.
    pub(in crate::node::store) fn verifies(&self) -> bool {
        self.verifies
    }

    /// Whether a shard was missing, broken or misplaced.
    pub(in crate::node::store) fn met_trouble(&self) -> bool {
        self.met_trouble
    }

    /// Shards that it can read from, by drive.
    pub(in crate::node::store) fn slots(&self) -> Vec<usize> {
        self.sources.iter().map(|source| source.slot).collect()
    }

    /// The same without one drive.
    pub(in crate::node::store) fn without(&self, slot: usize) -> Self {
        let mut reader = self.clone();
        reader.sources.retain(|source| source.slot != slot);
        reader
    }

    /// How a part lies in its shard files.
    pub(in crate::node::store) fn layout(&self, part: usize) -> PartLayout {
        PartLayout {
            part_bytes: self.object.parts[part].size,
            data: self.object.data,
            block_bytes: self.object.block_bytes,
        }
    }

    /// Reads blocks of a part (by its index), from the `first` on.
    ///
    /// # Errors
    ///
    /// `Unreadable` when too few shards are good, or nothing tells which of them are.
    pub(in crate::node::store) async fn blocks(
        &mut self,
        part: usize,
        first: u64,
        count: u64,
    ) -> Result<Vec<Block>, StoreError> {
        let layout = self.layout(part);
        let spans: Arc<[FrameSpan]> = (first..first + count).map(|at| layout.frame(at)).collect();
        let number = self.object.parts[part].number;
        let total = self.erasure.total();
        let mut got: Vec<Frames> = vec![vec![None; total]; spans.len()];
        let mut asked = BTreeSet::new();
        self.fetch(number, &spans, &mut got, &mut asked, false).await?;

        let (solved, shards) = self.solve(got).await;
        got = shards;
        if !solved.contains(&Solved::Contradiction) {
            return self.finish(solved, &spans);
        }
        // Somebody's shard belongs elsewhere: the more opinions, the better.
        self.met_trouble = true;
        self.fetch(number, &spans, &mut got, &mut asked, true).await?;
        let erasure = Arc::clone(&self.erasure);
        let outcome = tokio::task::spawn_blocking(move || {
            let solve_one = |shards: &Frames| match solve(&erasure, shards) {
                Solved::Contradiction => match solve_without_the_wrong(&erasure, shards) {
                    Some((data, wrong)) => (Solved::Data { data, proven: true }, wrong),
                    None => (Solved::Contradiction, Vec::new()),
                },
                other => (other, Vec::new()),
            };
            got.iter().map(solve_one).collect::<Vec<_>>()
        })
        .await
        .expect("solving a stripe does not panic");
        let mut solved = Vec::new();
        for (one, wrong) in outcome {
            for source in self.sources.iter_mut().filter(|it| wrong.contains(&it.shard)) {
                source.trouble += 10;
            }
            solved.push(one);
        }
        self.finish(solved, &spans)
    }

    fn finish(&self, solved: Vec<Solved>, spans: &[FrameSpan]) -> Result<Vec<Block>, StoreError> {
        let block = |(solved, span): (Solved, &FrameSpan)| match solved {
            Solved::Data { data, proven } => {
                Ok(Block { data, block_bytes: span.block_bytes, proven })
            }
            Solved::Contradiction => {
                Err(self.unreadable("shards contradict each other, and nothing tells who is right"))
            }
            Solved::TooFew => Err(self.unreadable("too few shards are good")),
        };
        solved.into_iter().zip(spans).map(block).collect()
    }

    /// The error for contents that cannot be had.
    pub(in crate::node::store) fn unreadable(&self, why: &str) -> StoreError {
        StoreError::Unreadable { target: self.target.clone(), why: why.to_owned() }
    }

    async fn solve(&self, got: Vec<Frames>) -> (Vec<Solved>, Vec<Frames>) {
        let erasure = Arc::clone(&self.erasure);
        let bytes = got.iter().flatten().flatten().map(Bytes::len).sum::<usize>();
        let work = move || {
            let solved = got.iter().map(|shards| solve(&erasure, shards)).collect();
            (solved, got)
        };
        if bytes < OFF_REACTOR_BYTES {
            return work();
        }
        tokio::task::spawn_blocking(work).await.expect("solving a stripe does not panic")
    }

    /// Asks drives for frames until each block has one shard more than the code needs, or nobody is left.
    async fn fetch(
        &mut self,
        part: usize,
        spans: &Arc<[FrameSpan]>,
        got: &mut [Frames],
        asked: &mut BTreeSet<usize>,
        everybody: bool,
    ) -> Result<(), StoreError> {
        let needed = self.erasure.data();
        let want = match (everybody, self.verifies) {
            (true, _) => self.erasure.total(),
            (false, true) => (needed + 1).min(self.erasure.total()),
            (false, false) => needed,
        };
        let fewest = |got: &[Frames]| {
            got.iter().map(|shards| shards.iter().flatten().count()).min().unwrap_or(want)
        };
        let mut order: Vec<usize> =
            (0..self.sources.len()).filter(|source| !asked.contains(source)).collect();
        order.sort_by_key(|source| {
            let it = &self.sources[*source];
            (it.trouble, !self.store.drives(self.set)[it.slot].is_online(), it.shard)
        });
        let mut order = order.into_iter();
        let mut pending = Asked::new();
        // What came is checked at one go, as soon as it may be enough.
        let mut came = Vec::new();
        let began = Instant::now();
        let mut hedge = began + HEDGE;
        // Drives that are so slow that others are asked in their place.
        let mut slow = 0;
        while fewest(got) < want {
            while fewest(got) + came.len() + pending.len() < want + slow {
                let Some(source) = order.next() else { break };
                asked.insert(source);
                match self.sources[source].inline.clone() {
                    None => pending.push(self.ask(source, part, spans)),
                    Some(bytes) => came.push((source, bytes)),
                }
            }
            let is_late = began.elapsed() >= SPARE_PATIENCE;
            let may_do = fewest(got) + came.len() >= want || pending.is_empty() || is_late;
            if !came.is_empty() && may_do {
                for (source, frames) in self.check(std::mem::take(&mut came), spans).await {
                    self.take(source, frames, got);
                }
                continue;
            }
            if pending.is_empty() || fewest(got) >= needed && is_late {
                break;
            }
            let Ok(answer) = tokio::time::timeout_at(hedge, pending.next()).await else {
                hedge = Instant::now() + HEDGE;
                slow += 1;
                continue;
            };
            match answer {
                Some((source, Ok(DriveReply::Bytes(bytes)))) => came.push((source, bytes)),
                Some((source, _)) => self.take(source, vec![None; spans.len()], got),
                None => {}
            }
        }
        if fewest(got) < needed {
            self.met_trouble = true;
            return Err(self.unreadable("too few shards are good"));
        }
        Ok(())
    }

    fn take(&mut self, source: usize, frames: Frames, got: &mut [Frames]) {
        let source = &mut self.sources[source];
        if frames.iter().any(Option::is_none) {
            source.trouble += 1;
            self.met_trouble = true;
        }
        for (shards, frame) in got.iter_mut().zip(frames) {
            shards[source.shard] = frame;
        }
    }

    fn ask(
        &self,
        source: usize,
        part: usize,
        spans: &[FrameSpan],
    ) -> crate::node::seams::BoxFuture<'static, crate::node::store::calls::Answer> {
        let (first, last) = (spans[0], spans[spans.len() - 1]);
        let length = last.offset + (HASH_BYTES + last.shard_bytes) as u64 - first.offset;
        let request = DriveRequest::ReadShard {
            target: self.target.clone(),
            data_dir: self.object.data_dir,
            part: part as u32,
            offset: first.offset,
            length: length as u32,
        };
        let drive = Arc::clone(&self.store.drives(self.set)[self.sources[source].slot]);
        Box::pin(async move { (source, drive.call(request).await) })
    }

    /// Cuts the bytes of sources into frames and checks each.
    async fn check(
        &self,
        came: Vec<(usize, Vec<u8>)>,
        spans: &Arc<[FrameSpan]>,
    ) -> Vec<(usize, Frames)> {
        let (spans, verifies) = (Arc::clone(spans), self.verifies);
        let bytes = came.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        let check = move |(source, bytes): (usize, Vec<u8>)| {
            (source, frames_of(&Bytes::from(bytes), &spans, verifies))
        };
        let work = move || came.into_iter().map(check).collect();
        if bytes < OFF_REACTOR_BYTES {
            return work();
        }
        tokio::task::spawn_blocking(work).await.expect("checking frames does not panic")
    }
}
