//! What lies at a key that should not, and whether everything lies there that should. Pure.

use std::collections::BTreeSet;

use uuid::Uuid;

use crate::disk::drive::DriveError;
use crate::disk::format::frame::PartLayout;
use crate::disk::format::xl_meta::Version;
use crate::disk::format::xl_meta::XlMeta;
use crate::disk::layout;
use crate::node::store::copies::Copies;
use crate::node::store::copies::Copy;
use crate::node::store::copies::State;
use crate::node::store::copies::Want;
use crate::protocol::object::decide::Backing;
use crate::protocol::object::decide::Decision;
use crate::protocol::object::quorum;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// What one drive has too much.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Spare {
    /// Directories that kept metadata for a write that is decided.
    pub rollbacks: Vec<Uuid>,
    /// Data directories of completed uploads, with the parts that belong there.
    pub parts: Vec<(Uuid, Vec<u32>)>,
    /// Directories that no version uses, on any drive.
    pub orphans: Vec<Uuid>,
    /// Inline values that no version owns.
    pub inline: Vec<String>,
}

/// A version on some drives that is not there by what all drives say.
#[derive(Debug, Clone)]
pub(super) struct Leftover {
    pub version: Version,
    pub slots: Vec<usize>,
    /// Whether a version suffers as long as this lies there: an older value of its id, which a quorum holds,
    /// lacks a shard, or nobody can read the id at all. A reader would take it back.
    pub in_the_way: bool,
}

/// Whether a key is an open upload.
pub(super) fn is_upload(target: &ObjectKey) -> bool {
    target.bucket == layout::SYSTEM && target.key.starts_with("multipart/")
}

/// Whether a drive's metadata cannot be read.
pub(super) fn is_corrupt(copy: &Copy) -> bool {
    matches!(copy.state, State::Failed(DriveError::Corrupt { .. }))
}

/// Whether every drive says all that it has, and what it lacks was never there.
pub(super) fn all_speak(copies: &Copies) -> bool {
    copies.copies.iter().all(|copy| copy.meta().is_some() && !copy.rebuilding)
}

/// Whether so many drives that are not being rebuilt hold an older write than `leftover` that all others together are no
/// write quorum: whatever the lost drives held, nobody can have been told that the newer one was done.
pub(super) fn is_outvoted(copies: &Copies, leftover: &Leftover) -> bool {
    let Decision::Present(backing) = copies.decide(leftover.version.id(), true) else {
        return false;
    };
    let n = copies.copies.len();
    let certain = backing.holders.iter().filter(|slot| !copies.copies[**slot].rebuilding).count();
    let geometry = leftover.version.as_object().map(|object| (object.data, object.parity));
    backing.candidate.modtime_ns < leftover.version.header().modtime_ns
        && n - certain < quorum::write_of(geometry, n)
        && silent(copies) == 0
}

/// Drives that did not answer at all.
pub(super) fn silent(copies: &Copies) -> usize {
    copies.copies.iter().filter(|copy| copy.meta().is_none() && !is_corrupt(copy)).count()
}

/// Whether every drive has every version, whole by names and lengths, and nothing else.
pub(super) fn is_whole(copies: &Copies) -> bool {
    let n = copies.copies.len();
    let ids = copies.ids();
    let is_full = |id: &VersionId| match copies.decide(*id, false) {
        Decision::Present(backing) => {
            backing.holders.len() == n
                && backing.keepers.is_empty()
                && short_slots(copies, &backing).is_empty()
        }
        _ => false,
    };
    let no_more = |copy: &Copy| copy.meta().is_some_and(|meta| counted(meta) == ids.len());
    all_speak(copies)
        && ids.iter().all(|(id, _)| is_full(id))
        && copies.copies.iter().all(no_more)
        && spares(copies).iter().all(|spare| *spare == Spare::default())
}

/// Versions that count: all but free ones.
fn counted(meta: &XlMeta) -> usize {
    meta.versions().iter().filter(|version| !version.header().is_free()).count()
}

/// Whether a drive holds an id twice.
pub(super) fn is_double(copy: &Copy, id: VersionId) -> bool {
    let versions = copy.meta().map_or(&[][..], XlMeta::versions);
    versions.iter().filter(|version| version.id() == id).count() > 1
}

/// The same backing without drives whose shards are bad.
pub(super) fn sources(backing: &Backing, bad: &BTreeSet<usize>) -> Backing {
    let good = |slots: &[usize]| slots.iter().copied().filter(|slot| !bad.contains(slot)).collect();
    Backing { holders: good(&backing.holders), keepers: good(&backing.keepers), ..backing.clone() }
}

/// Holders of a version whose shard is missing or of the wrong length.
pub(super) fn short_slots(copies: &Copies, backing: &Backing) -> BTreeSet<usize> {
    let is_short = |slot: &usize| {
        let Some((version, inline)) = copies.backed(*slot, backing) else { return true };
        let Some(object) = version.as_object().filter(|object| !object.is_remote()) else {
            return false;
        };
        // The drive's own shard must be the one that its place asks for.
        let own = object.distribution.get(*slot).copied().map(usize::from);
        if own != Some(object.shard) {
            return true;
        }
        let file_bytes = |size| {
            let (data, block_bytes) = (object.data, object.block_bytes);
            PartLayout { part_bytes: size, data, block_bytes }.file_bytes()
        };
        if object.is_inline() {
            return inline.map(|inline| inline.len() as u64) != Some(file_bytes(object.size));
        }
        let folders = &copies.copies[*slot].folders;
        let folder = folders.iter().find(|folder| folder.id == object.data_dir);
        object.parts.iter().any(|part| {
            let name = layout::part_file(part.number);
            let file = folder.and_then(|it| it.files.iter().find(|(file, _)| *file == name));
            file.map(|(_, length)| *length) != Some(file_bytes(part.size))
        })
    };
    backing.holders.iter().copied().filter(is_short).collect()
}

/// Versions on drives that are decided not to be there: deleted, never acknowledged, replaced by an older
/// one that was, or of an earlier bucket. Older writes of a version that is there are not among them:
/// bringing that version replaces them.
pub(super) fn leftovers(copies: &Copies) -> Vec<Leftover> {
    let mut leftovers = Vec::<Leftover>::new();
    for (slot, copy) in copies.copies.iter().enumerate() {
        for version in copy.meta().map_or(&[][..], XlMeta::versions) {
            if version.header().is_free() {
                continue;
            }
            let in_the_way = match copies.decide(version.id(), true) {
                _ if !copies.is_ours(version) => false,
                Decision::Absent => false,
                Decision::Clear => true,
                Decision::Present(backing)
                    if version.header().modtime_ns > backing.candidate.modtime_ns =>
                {
                    true
                }
                Decision::Present(_) | Decision::Bring(_) | Decision::Open => continue,
            };
            let identity = version.identity();
            match leftovers.iter_mut().find(|it| it.version.identity() == identity) {
                Some(leftover) => leftover.slots.push(slot),
                None => {
                    let (version, slots) = (version.clone(), vec![slot]);
                    leftovers.push(Leftover { version, slots, in_the_way });
                }
            }
        }
    }
    leftovers
}

/// Delete markers that are there, and that a drive which answers lacks.
pub(super) fn partial_markers(copies: &Copies) -> Vec<Leftover> {
    let mut partial = Vec::new();
    for (id, _) in copies.ids() {
        let Decision::Present(backing) = copies.decide(id, true) else { continue };
        let holds = |slot: &usize| backing.holders.contains(slot);
        let lacks = |slot: usize| copies.copies[slot].meta().is_some() && !holds(&slot);
        let version = backing.holders.first().and_then(|slot| copies.version(*slot, id));
        if let Some(version) = version.filter(|version| version.header().is_delete_marker())
            && (0..copies.copies.len()).any(lacks)
        {
            let (version, slots) = (version.clone(), backing.holders.clone());
            partial.push(Leftover { version, slots, in_the_way: false });
        }
    }
    partial
}

/// What every drive has too much, by slot. Nothing is too much before every drive has spoken and every
/// version is decided.
pub(super) fn spares(copies: &Copies) -> Vec<Spare> {
    let mut spares = vec![Spare::default(); copies.copies.len()];
    if !all_speak(copies) || copies.read(Want::All, false).is_err() || is_upload(&copies.target) {
        return spares;
    }
    let metas = || copies.copies.iter().filter_map(Copy::meta);
    let objects = metas().flat_map(XlMeta::versions).filter_map(Version::as_object);
    let used = objects.map(|object| object.data_dir).collect::<BTreeSet<_>>();
    for (copy, spare) in copies.copies.iter().zip(&mut spares) {
        let Some(meta) = copy.meta() else { continue };
        for folder in &copy.folders {
            if folder.keeps {
                spare.rollbacks.push(folder.id);
            } else if !used.contains(&folder.id) {
                spare.orphans.push(folder.id);
            }
        }
        for object in meta.versions().iter().filter_map(Version::as_object) {
            let folder = copy.folders.iter().find(|folder| folder.id == object.data_dir);
            let Some(folder) = folder.filter(|_| !object.is_inline()) else { continue };
            let is_own = |name: &str| {
                let number = name.strip_prefix("part.").and_then(|it| it.parse::<usize>().ok());
                let is_record = name.starts_with("part.") && name.ends_with(".meta");
                let is_listed = |number| object.parts.iter().any(|part| part.number == number);
                !is_record && number.is_none_or(is_listed)
            };
            if folder.files.iter().any(|(name, _)| !is_own(name)) {
                let numbers = object.parts.iter().map(|part| part.number as u32).collect();
                spare.parts.push((object.data_dir, numbers));
            }
        }
        spare.inline = meta.ownerless_inline().into_iter().map(str::to_owned).collect();
    }
    spares
}
