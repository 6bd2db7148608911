//! Writing one version to drives that lack it, from those that have it.

use std::sync::Arc;

use super::Store;
use super::api::StoreError;
use super::calls::Answer;
use super::calls::Held;
use super::copies::Copies;
use super::read::Block;
use super::read::Reader;
use crate::disk::drive::Commit;
use crate::disk::drive::CommitKind;
use crate::disk::drive::DriveError;
use crate::disk::drive::DriveRequest;
use crate::disk::drive::Shards;
use crate::disk::drive::Staging;
use crate::disk::format::erasure::Erasure;
use crate::disk::format::frame;
use crate::disk::format::xl_meta::Version;
use crate::node::seams::BoxFuture;
use crate::protocol::object::decide::Backing;
use crate::value::ObjectKey;

/// Brings a version to every drive that answers and does not hold it. Answers whether any drive was changed.
pub(super) async fn bring(
    store: &Arc<Store>,
    lock: &Held,
    copies: &Copies,
    backing: &Backing,
) -> bool {
    let lacks =
        |slot: &usize| copies.copies[*slot].meta().is_some() && !backing.holders.contains(slot);
    let to: Vec<usize> = (0..copies.copies.len()).filter(lacks).collect();
    // Where the bucket was lost with the key, nothing can be written before it is there again.
    if let Err(error) = remake(store, copies).await {
        tracing::warn!(target = %copies.target, %error, "the bucket is not made again on drives that lack it");
    }
    match rebuild(store, lock, copies, backing, &to).await {
        Ok(answers) => answers.iter().any(|(_, answer)| answer.is_ok()),
        Err(error) => {
            tracing::warn!(target = %copies.target, %error, "an interrupted write cannot be completed");
            false
        }
    }
}

/// Makes the bucket where it was lost with the key. Boxed, because looking for the bucket may bring its record in turn.
fn remake<'a>(store: &'a Arc<Store>, copies: &'a Copies) -> BoxFuture<'a, Result<(), StoreError>> {
    Box::pin(store.remake_bucket(copies))
}

/// Writes a version to the drives `to`, as each of them stores it; what each answered stands in the result.
/// The caller holds the key's lock alone.
///
/// # Errors
///
/// `Unreadable` when the contents cannot be had; some drives may then have been staged to, none committed.
pub(super) async fn rebuild(
    store: &Arc<Store>,
    lock: &Held,
    copies: &Copies,
    backing: &Backing,
    to: &[usize],
) -> Result<Vec<Answer>, StoreError> {
    let sources = backing.holders.iter().chain(&backing.keepers);
    let version = sources
        .filter_map(|slot| copies.backed(*slot, backing))
        .map(|(version, _)| version.clone())
        .next()
        .ok_or_else(|| StoreError::Unreadable {
            target: copies.target.clone(),
            why: "no drive holds the version any more".to_owned(),
        })?;
    let Some(object) = version.as_object() else {
        let each = to.iter().map(|slot| (*slot, version.clone(), Shards::None)).collect();
        return Ok(commit(store, lock, copies, each).await);
    };
    let shard_of = |slot: usize| object.distribution.get(slot).copied().map(usize::from);
    let versions: Vec<(usize, usize, Version)> = to
        .iter()
        .filter_map(|slot| {
            let shard = shard_of(*slot)?;
            Some((*slot, shard - 1, version.for_shard(shard)?))
        })
        .collect();

    let mut reader = Reader::new(store, copies, backing)?;
    if object.is_inline() || object.size == 0 {
        let shards = if object.size == 0 {
            vec![Vec::new(); object.total()]
        } else {
            let blocks = reader.blocks(0, 0, 1).await?;
            framed(reader.erasure(), &blocks)
        };
        let each = versions.into_iter().map(|(slot, shard, version)| {
            let shards = match object.is_inline() {
                true => Shards::Inline(shards[shard].clone()),
                false => Shards::None,
            };
            (slot, version, shards)
        });
        return Ok(commit(store, lock, copies, each.collect()).await);
    }

    let staging = store.new_staging(object.data_dir).await;
    let mut failed = Vec::<Answer>::new();
    let shards: Vec<_> = versions.iter().map(|(slot, shard, _)| (*slot, *shard)).collect();
    let (set, target, kind) = (copies.set, &copies.target, CommitKind::Heal);
    let result = stage(store, set, target, &mut reader, staging, &shards, kind, &mut failed).await;
    let is_staged = |slot: usize| !failed.iter().any(|(other, _)| *other == slot);
    let answers = match result {
        Ok(()) => {
            let each = versions
                .iter()
                .filter(|(slot, ..)| is_staged(*slot))
                .map(|(slot, _, version)| (*slot, version.clone(), Shards::Staged(staging)));
            Ok(commit(store, lock, copies, each.collect()).await)
        }
        Err(error) => Err(error),
    };
    // A commit leaves nothing behind; whoever came no further does.
    let done = |slot: usize| match &answers {
        Ok(answers) => answers.iter().any(|(other, _)| *other == slot),
        Err(_) => false,
    };
    let left: Vec<_> =
        versions.iter().map(|(slot, ..)| *slot).filter(|slot| !done(*slot)).collect();
    store.discard(copies.set, left, staging).await;
    let mut answers = answers?;
    answers.extend(failed);
    Ok(answers)
}

/// Writes and flushes the shards of every part to the drives `to`, each with its shard; drives that fail are
/// noted and left out.
#[expect(clippy::too_many_arguments, reason = "each is a thing of its own")]
pub(super) async fn stage(
    store: &Arc<Store>,
    set: usize,
    target: &ObjectKey,
    reader: &mut Reader,
    staging: Staging,
    to: &[(usize, usize)],
    kind: CommitKind,
    failed: &mut Vec<Answer>,
) -> Result<(), StoreError> {
    const WINDOW: u64 = 2;
    let live = |failed: &[Answer]| -> Vec<(usize, usize)> {
        let stands = |(slot, _): &&(usize, usize)| !failed.iter().any(|(other, _)| other == slot);
        to.iter().filter(stands).copied().collect()
    };
    let note = |answers: Vec<Answer>, failed: &mut Vec<Answer>| {
        failed.extend(answers.into_iter().filter(|(_, answer)| answer.is_err()));
    };
    let parts = 0..reader.object().parts.len();
    let parts: Vec<_> = parts.map(|part| (part, reader.layout(part).frames())).collect();
    let windows = parts.into_iter().flat_map(|(index, frames)| {
        // An empty part has a file all the same.
        let begins = (0..frames.max(1)).step_by(WINDOW as usize);
        begins.map(move |at| (index, at, WINDOW.min(frames - at)))
    });
    let erasure = Arc::clone(reader.erasure());
    let mut pending = None;
    for window in windows.map(Some).chain([None]) {
        // What was read is encoded and sent while the next is read; both end before anything fails, so that nothing
        // arrives after the staging was thrown away.
        let send = send(store, set, &erasure, staging, pending.take(), live(failed));
        let read = async {
            match window {
                None | Some((_, _, 0)) => Ok(Vec::new()),
                Some((index, at, count)) => reader.blocks(index, at, count).await,
            }
        };
        let (answers, blocks) = tokio::join!(send, read);
        note(answers, failed);
        let blocks = blocks?;
        pending = window.map(|(index, at, _)| {
            let part = reader.object().parts[index].number as u32;
            (part, reader.layout(index).frame(at).offset, blocks)
        });
    }
    let seal = DriveRequest::Seal { staging, target: target.clone(), kind };
    let requests: Vec<_> = live(failed).into_iter().map(|(slot, _)| (slot, seal.clone())).collect();
    note(store.ask(set, requests).await, failed);
    Ok(())
}

/// Blocks of a part, with the place in its shard files where their frames begin.
type Placed = (u32, u64, Vec<Block>);

/// Sends the frames of some blocks to the drives `to`, each its shard's.
async fn send(
    store: &Store,
    set: usize,
    erasure: &Arc<Erasure>,
    staging: Staging,
    blocks: Option<Placed>,
    to: Vec<(usize, usize)>,
) -> Vec<Answer> {
    let Some((part, offset, blocks)) = blocks else { return Vec::new() };
    let (erasure, wanted) = (Arc::clone(erasure), to.clone());
    let work = move || {
        let is_wanted = |shard: usize| wanted.iter().any(|(_, wanted)| *wanted == shard);
        framed_some(&erasure, &blocks, is_wanted)
    };
    let shards = tokio::task::spawn_blocking(work).await.expect("encoding does not panic");
    let append = |(slot, shard): (usize, usize)| {
        let bytes = shards[shard].clone();
        (slot, DriveRequest::Append { staging, part, offset, bytes })
    };
    let requests: Vec<_> = to.into_iter().map(append).collect();
    store.ask(set, requests).await
}

/// The frames of every shard of these blocks, one behind the other.
pub(super) fn framed(erasure: &Erasure, blocks: &[Block]) -> Vec<Vec<u8>> {
    framed_some(erasure, blocks, |_| true)
}

/// As [`framed`], of some shards; nothing of the others.
fn framed_some(
    erasure: &Erasure,
    blocks: &[Block],
    is_wanted: impl Fn(usize) -> bool,
) -> Vec<Vec<u8>> {
    let mut files = vec![Vec::new(); erasure.total()];
    let wants_parity = (erasure.data()..erasure.total()).any(&is_wanted);
    for block in blocks {
        let mut parity = vec![Vec::new(); erasure.parity()];
        if wants_parity {
            erasure.encode_parity(&block.data, &mut parity);
        }
        let shards = block.data.iter().map(|shard| &**shard).chain(parity.iter().map(|it| &**it));
        for (index, (shard, file)) in shards.zip(&mut files).enumerate() {
            if is_wanted(index) {
                frame::encode(shard, file);
            }
        }
    }
    files
}

async fn commit(
    store: &Arc<Store>,
    lock: &Held,
    copies: &Copies,
    each: Vec<(usize, Version, Shards)>,
) -> Vec<Answer> {
    let requests = each.into_iter().map(|(slot, version, shards)| {
        let commit = Commit {
            grant: lock.grant(),
            target: copies.target.clone(),
            header: version.header_bytes().to_vec(),
            body: version.body_bytes().to_vec(),
            shards,
            kind: CommitKind::Heal,
            decided: false,
            under: Vec::new(),
        };
        (slot, DriveRequest::Commit(Box::new(commit)))
    });
    store.ask(copies.set, requests.collect::<Vec<_>>()).await
}

/// For callers that count: drives that answered with success.
pub(super) fn successes(answers: &[Answer]) -> Vec<usize> {
    let done = |(slot, answer): &(usize, Result<_, DriveError>)| answer.is_ok().then_some(*slot);
    answers.iter().filter_map(done).collect()
}
