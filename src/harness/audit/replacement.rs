//! Records and markers of replacements, as they stand on the drives. They are not understood here.
//!
//! A census has them beside everything else, read while no node runs; [`look`] reads them alone, at any time.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use super::DriveSource;
use super::census::ReplacementCensus;
use super::pool::Pool;
use crate::disk::layout;

/// What every member holds; drives that hold nothing are left out.
pub(super) fn of_pool(pool: &Pool) -> Vec<ReplacementCensus> {
    let members = pool.seats.iter().filter_map(|seat| Some((&seat.name, seat.root.as_ref()?)));
    let census = members.map(|(name, root)| of_drive(name, root));
    census.filter(|it| it.marker.is_some() || !it.records.is_empty()).collect()
}

/// What `drive` holds now. What changes meanwhile is seen before or after its change, each file for itself.
///
/// # Errors
/// Something that is there cannot be read: nobody knows what the drive holds.
pub fn look(drive: &DriveSource) -> io::Result<ReplacementCensus> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let mut held = read(&drive.root)?;
    Ok(ReplacementCensus {
        drive: drive.name.clone(),
        marker: held.remove(layout::HEALING).map(text),
        records: held.into_iter().map(|(path, bytes)| (path, text(bytes))).collect(),
    })
}

/// Every record, and the marker, below `root` by its path there.
///
/// # Errors
/// Something that is there cannot be read.
pub fn read(root: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut paths = paths(root)?;
    paths.push(layout::HEALING.to_owned());
    let mut found = BTreeMap::new();
    for path in paths {
        match fs::read(root.join(&path)) {
            Ok(bytes) => drop(found.insert(path, bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn of_drive(name: &str, root: &Path) -> ReplacementCensus {
    let text = |path: &str| match fs::read(root.join(path)) {
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        // It is there, and whoever judges it cannot read it either.
        Err(error) => Some(format!("cannot be read: {error}")),
    };
    let records = paths(root).unwrap_or_default().into_iter();
    ReplacementCensus {
        drive: name.to_owned(),
        marker: text(layout::HEALING),
        records: records.filter_map(|path| text(&path).map(|text| (path, text))).collect(),
    }
}

/// The paths of the records on a drive, locks left out. A folder that is not there holds none.
fn paths(root: &Path) -> io::Result<Vec<String>> {
    let mut paths = Vec::new();
    for folder in [layout::REPLACEMENT, layout::BUCKETS] {
        let entries = match fs::read_dir(root.join(folder)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let path = format!("{folder}/{}", entry?.file_name().to_string_lossy());
            if layout::is_replacement(&path) && !path.ends_with(layout::SWAP_LOCK) {
                paths.push(path);
            }
        }
    }
    Ok(paths)
}
