//! Looking at every byte: which drives hold a version's shards as they should be.
//!
//! *Verified:* every frame on every drive that answers is, byte for byte, the one that the version's contents
//! make: rot, misplaced shards, wrong lengths and trailing bytes all differ.
//!
//! *Not verified:* drives that do not answer.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::surplus;
use crate::disk::drive::DriveReply;
use crate::disk::drive::DriveRequest;
use crate::node::store::Store;
use crate::node::store::api::StoreError;
use crate::node::store::copies::Copies;
use crate::node::store::read::Reader;
use crate::node::store::rebuild::framed;
use crate::protocol::object::decide::Backing;

/// Blocks that are looked at at once.
const WINDOW: u64 = 2;

/// Holders whose shards are missing, of the wrong length, rotten or misplaced. What lies on the drives `apart` is
/// judged by the others alone, as long as they have the contents.
///
/// # Errors
///
/// The contents cannot be had, so that nobody can say what the shards should be.
pub(super) async fn bad_slots(
    store: &Arc<Store>,
    copies: &Copies,
    backing: &Backing,
    apart: &BTreeSet<usize>,
) -> Result<BTreeSet<usize>, StoreError> {
    let mut bad = surplus::short_slots(copies, backing);
    // A planted defect: names and lengths have been looked at, and that is all.
    if !store.parts.rules.heals_by_contents() || backing.candidate.size == 0 {
        return Ok(bad);
    }
    let mut sound = surplus::sources(backing, &bad.union(apart).copied().collect());
    if sound.holders.len() < backing.candidate.data {
        sound = surplus::sources(backing, &bad);
    }
    let mut reader = Reader::new(store, copies, &sound)?;
    for part in 0..reader.object().parts.len() {
        let layout = reader.layout(part);
        let number = reader.object().parts[part].number as u32;
        let mut at = 0;
        while at < layout.frames() {
            let count = WINDOW.min(layout.frames() - at);
            let blocks = reader.blocks(part, at, count).await?;
            let code = Arc::clone(reader.erasure());
            let files = tokio::task::spawn_blocking(move || framed(&code, &blocks));
            let files = files.await.expect("encoding does not panic");
            let offset = layout.frame(at).offset;
            at += count;
            let is_last = at >= layout.frames();
            let expected = |slot: usize| {
                let shard = reader.object().distribution.get(slot).copied().map(usize::from);
                shard.and_then(|shard| files.get(shard - 1))
            };
            if reader.object().is_inline() {
                for slot in &backing.holders {
                    let inline = copies.backed(*slot, backing).and_then(|(_, inline)| inline);
                    if inline != expected(*slot).map(Vec::as_slice) {
                        bad.insert(*slot);
                    }
                }
                continue;
            }
            let length = files.first().map_or(0, Vec::len) + usize::from(is_last);
            let request = DriveRequest::ReadShard {
                target: copies.target.clone(),
                data_dir: reader.object().data_dir,
                part: number,
                offset,
                length: u32::try_from(length).unwrap_or(u32::MAX),
            };
            let holders = backing.holders.iter().map(|slot| (*slot, request.clone()));
            for (slot, answer) in store.ask(copies.set, holders.collect::<Vec<_>>()).await {
                let is_good = match answer {
                    Ok(DriveReply::Bytes(bytes)) => Some(&bytes) == expected(slot),
                    Err(error) => !(error.is_absence() || error.is_damage()),
                    Ok(_) => true,
                };
                if !is_good {
                    bad.insert(slot);
                }
            }
        }
    }
    Ok(bad)
}
