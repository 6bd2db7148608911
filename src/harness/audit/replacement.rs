//! Records and markers of replacements, as they stand on the drives. They are not understood here.

use std::fs;
use std::io;
use std::path::Path;

use super::census::ReplacementCensus;
use super::pool::Pool;
use crate::disk::layout;

/// What every member holds; drives that hold nothing are left out.
pub(super) fn of_pool(pool: &Pool) -> Vec<ReplacementCensus> {
    let members = pool.seats.iter().filter_map(|seat| Some((&seat.name, seat.root.as_ref()?)));
    let census = members.map(|(name, root)| of_drive(name, root));
    census.filter(|it| it.marker.is_some() || !it.records.is_empty()).collect()
}

fn of_drive(name: &str, root: &Path) -> ReplacementCensus {
    let text = |path: &str| match fs::read(root.join(path)) {
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        // It is there, and whoever judges it cannot read it either.
        Err(error) => Some(format!("cannot be read: {error}")),
    };
    let mut census = ReplacementCensus {
        drive: name.to_owned(),
        marker: text(layout::HEALING),
        ..ReplacementCensus::default()
    };
    for folder in [layout::REPLACEMENT, layout::BUCKETS] {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        for entry in entries {
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            let is_lock = path.ends_with(layout::SWAP_LOCK);
            if layout::is_replacement(&path)
                && !is_lock
                && let Some(text) = text(&path)
            {
                census.records.insert(path, text);
            }
        }
    }
    census
}
