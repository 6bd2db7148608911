//! The objects that the shards on drives, or copies of them, decode to. Reads only.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::super::error::CatalogError;
use super::tree;
use super::tree::Placed;
use crate::disk::format::erasure::Erasure;
use crate::disk::format::frame;
use crate::disk::format::frame::PartLayout;
use crate::disk::format::xl_meta::Identity;
use crate::disk::format::xl_meta::ObjectBody;
use crate::disk::format::xl_meta::Part;
use crate::disk::format::xl_meta::Version;
use crate::disk::format::xl_meta::XlMeta;
use crate::disk::layout;

/// An object with its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its bucket.
    pub bucket: String,
    /// Its key.
    pub key: String,
    /// What it holds; of an object that is compressed or encrypted, what is stored.
    pub contents: Vec<u8>,
}

/// Calls `look` with every object below `folders`, in order; what was deleted is none.
///
/// # Errors
///
/// An object cannot be read from these drives: too few have it, or they disagree.
pub fn each(
    drives: &[Placed],
    set_drives: usize,
    folders: &[String],
    mut look: impl FnMut(Object) -> Result<(), CatalogError>,
) -> Result<(), CatalogError> {
    each_or_why(drives, set_drives, folders, |object| look(object?))
}

/// As [`each`], and leaves it to `look` what an object means that cannot be read.
///
/// # Errors
///
/// The folders cannot be listed; what `look` says.
pub fn each_or_why(
    drives: &[Placed],
    set_drives: usize,
    folders: &[String],
    mut look: impl FnMut(Result<Object, CatalogError>) -> Result<(), CatalogError>,
) -> Result<(), CatalogError> {
    let mut places = BTreeSet::new();
    for drive in drives {
        for path in tree::list(&drive.root, folders)?.into_keys() {
            if let Some(place) = path.strip_suffix(&format!("/{}", layout::META_FILE)) {
                places.insert((place.to_owned(), drive.set));
            }
        }
    }
    for (place, set) in places {
        let members: Vec<_> = drives.iter().filter(|drive| drive.set == set).collect();
        let (bucket, path) = place.split_once('/').unwrap_or((&place, ""));
        let (bucket, key) = (bucket.to_owned(), layout::decode_key(path));
        let object = read(&members, set_drives, &place).transpose();
        if let Some(object) = object {
            look(object.map(|contents| Object { bucket, key, contents }))?;
        }
    }
    Ok(())
}

/// A version on one drive.
struct Copy<'a> {
    drive: &'a Placed,
    meta: &'a XlMeta,
    version: &'a Version,
}

fn broken(place: &str, why: impl std::fmt::Display) -> CatalogError {
    CatalogError::Broken(format!("{place} cannot be read: {why}"))
}

/// What the newest version at `place` holds that enough drives agree on; `None` when it is a deletion.
fn read(
    drives: &[&Placed],
    set_drives: usize,
    place: &str,
) -> Result<Option<Vec<u8>>, CatalogError> {
    let mut metas = Vec::new();
    for drive in drives {
        let path = drive.root.join(place).join(layout::META_FILE);
        // A drive that lacks it, or has it broken, has no vote.
        let meta = fs::read(&path).ok().and_then(|bytes| XlMeta::parse(&bytes).ok());
        metas.extend(meta.map(|meta| (*drive, meta)));
    }
    let mut groups = BTreeMap::<Identity, Vec<Copy<'_>>>::new();
    for (drive, meta) in &metas {
        if let Some(version) = meta.latest() {
            let copy = Copy { drive, meta, version };
            groups.entry(version.identity()).or_default().push(copy);
        }
    }
    let needed = |copies: &[Copy<'_>]| match copies[0].version.as_object() {
        Some(object) => object.data,
        None => set_drives - set_drives / 2,
    };
    let enough = groups.into_values().filter(|copies| copies.len() >= needed(copies));
    let newest = enough.max_by_key(|copies| copies[0].version.header().modtime_ns);
    let Some(copies) = newest else {
        let count = metas.len();
        return Err(broken(
            place,
            format!("{count} of {set_drives} drives have it, too few agree"),
        ));
    };
    let Some(object) = copies[0].version.as_object() else {
        return Ok(None);
    };
    let erasure = Erasure::new(object.data, object.parity).map_err(|error| broken(place, error))?;
    let mut contents = Vec::new();
    for part in &object.parts {
        one_part(place, &copies, object, part, &erasure, &mut contents)?;
    }
    Ok(Some(contents))
}

fn one_part(
    place: &str,
    copies: &[Copy<'_>],
    object: &ObjectBody,
    part: &Part,
    erasure: &Erasure,
    contents: &mut Vec<u8>,
) -> Result<(), CatalogError> {
    let lies =
        PartLayout { part_bytes: part.size, data: object.data, block_bytes: object.block_bytes };
    let mut files = vec![None; object.total()];
    for copy in copies {
        let given = object.distribution.get(copy.drive.slot).copied().map(usize::from);
        let own = copy.version.as_object().map(|own| own.shard);
        let Some(shard) = given.filter(|given| own == Some(*given)) else { continue };
        let bytes = shard_file(copy, object, part, place);
        if let (Some(file), Some(bytes)) = (files.get_mut(shard - 1), bytes) {
            *file = Some(bytes);
        }
    }
    for index in 0..lies.frames() {
        let span = lies.frame(index);
        let from = usize::try_from(span.offset).unwrap_or(usize::MAX);
        let mut shards: Vec<_> = files
            .iter()
            .map(|file| {
                let rest = file.as_ref()?.get(from..)?;
                let frame = rest.get(..frame::HASH_BYTES + span.shard_bytes)?;
                frame::verify(frame).map(<[u8]>::to_vec)
            })
            .collect();
        erasure.reconstruct_data(&mut shards).map_err(|error| broken(place, error))?;
        let data: Vec<_> = shards.into_iter().take(object.data).flatten().collect();
        Erasure::join_block(&data, span.block_bytes, contents);
    }
    Ok(())
}

/// The shard of one drive.
fn shard_file(copy: &Copy<'_>, object: &ObjectBody, part: &Part, place: &str) -> Option<Vec<u8>> {
    if object.is_inline() {
        return copy.meta.inline(object.version).map(<[u8]>::to_vec);
    }
    let folder = Path::new(place).join(object.data_dir.hyphenated().to_string());
    fs::read(copy.drive.root.join(folder).join(layout::part_file(part.number))).ok()
}
