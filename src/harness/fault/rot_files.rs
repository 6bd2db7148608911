//! Which files of a drive can rot, and where: found with the format's own reader, changed by nobody but us.

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;

use crate::disk::format::xl_meta::XlMeta;
use crate::disk::layout;
use crate::harness::scenario::fault::RotTarget;

/// Where the metadata block of an xl.meta begins: magic, versions, the header of the block.
const BLOCK_AT: usize = 13;
/// Where the block's length stands, big-endian.
const LENGTH_AT: usize = 9;

/// A stretch of bytes in a file of a drive.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stretch {
    /// The file, relative to the drive's root.
    pub(super) file: PathBuf,
    /// Where it begins.
    pub(super) offset: u64,
    /// How long it is; at least 1.
    pub(super) length: u64,
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) file: PathBuf,
    pub(super) offset: u64,
    pub(super) before: Vec<u8>,
    pub(super) after: Vec<u8>,
}

/// Every stretch of a drive that `target` is about, sorted: the data of objects, not of the system.
pub(super) fn stretches(root: &Path, target: RotTarget) -> io::Result<Vec<Stretch>> {
    if target == RotTarget::Format {
        let length = root.join(layout::FORMAT).metadata()?.len();
        let file = PathBuf::from(layout::FORMAT);
        return Ok(vec![Stretch { file, offset: 0, length }]);
    }
    let mut found = Vec::new();
    walk(root, Path::new(""), &mut |file| collect(root, file, target, &mut found))?;
    found.retain(|stretch| stretch.length > 0);
    found.sort();
    Ok(found)
}

/// Calls `each` for every file below `folder`, the system volume left out.
pub(super) fn walk(
    root: &Path,
    folder: &Path,
    each: &mut dyn FnMut(&Path) -> io::Result<()>,
) -> io::Result<()> {
    for entry in fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_file() {
            each(&path)?;
        } else if kind.is_dir() && path != Path::new(layout::SYSTEM) {
            walk(root, &path, each)?;
        }
    }
    Ok(())
}

/// Adds the stretches of one file.
fn collect(
    root: &Path,
    file: &Path,
    target: RotTarget,
    found: &mut Vec<Stretch>,
) -> io::Result<()> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let is_meta = name == layout::META_FILE;
    let file = file.to_owned();
    match target {
        RotTarget::Part if name.starts_with("part.") && !name.ends_with(".meta") => {
            let length = root.join(&file).metadata()?.len();
            found.push(Stretch { file, offset: 0, length });
        }
        RotTarget::XlMeta if is_meta => {
            let bytes = fs::read(root.join(&file))?;
            // What is not sound already cannot be shown to rot.
            if XlMeta::parse(&bytes).is_ok() {
                let word = &bytes[LENGTH_AT..BLOCK_AT];
                let length = u32::from_be_bytes([word[0], word[1], word[2], word[3]]).into();
                found.push(Stretch { file, offset: BLOCK_AT as u64, length });
            }
        }
        RotTarget::Inline if is_meta => {
            let bytes = fs::read(root.join(&file))?;
            let Ok(meta) = XlMeta::parse(&bytes) else {
                return Ok(());
            };
            for (_, value) in meta.inline_entries().filter(|(_, value)| !value.is_empty()) {
                // A framed shard begins with its hash: it stands nowhere else in the file.
                let at = bytes.windows(value.len()).rposition(|window| window == value);
                if let Some(offset) = at {
                    let (offset, length) = (offset as u64, value.len() as u64);
                    found.push(Stretch { file: file.clone(), offset, length });
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Flips one bit of a stretch: `dice` decides which.
pub(super) fn flip(root: &Path, stretch: &Stretch, dice: u64) -> io::Result<Change> {
    let offset = stretch.offset + (dice >> 3) % stretch.length;
    let path = root.join(&stretch.file);
    let mut byte = [0];
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    file.read_exact_at(&mut byte, offset)?;
    let after = [byte[0] ^ (1 << (dice & 7))];
    write(&file, &after, offset)?;
    Ok(Change { file: stretch.file.clone(), offset, before: byte.to_vec(), after: after.to_vec() })
}

/// Exchanges the contents of two stretches of the same length.
pub(super) fn exchange(root: &Path, one: &Stretch, other: &Stretch) -> io::Result<()> {
    let (first, second) = (read(root, one)?, read(root, other)?);
    for (stretch, bytes) in [(one, second), (other, first)] {
        let file = OpenOptions::new().write(true).open(root.join(&stretch.file))?;
        write(&file, &bytes, stretch.offset)?;
    }
    Ok(())
}

/// The bytes of a stretch.
pub(super) fn read(root: &Path, stretch: &Stretch) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(stretch.length).unwrap_or(usize::MAX)];
    File::open(root.join(&stretch.file))?.read_exact_at(&mut bytes, stretch.offset)?;
    Ok(bytes)
}

/// Writes so that it is on the drive and not only in memory.
fn write(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::format::frame;

    fn drive() -> tempfile::TempDir {
        let drive = tempfile::tempdir().unwrap();
        for folder in ["b/k/data", "b/l/data", ".rustfs.sys"] {
            fs::create_dir_all(drive.path().join(folder)).unwrap();
        }
        fs::write(drive.path().join("b/k/data/part.1"), [1; 40]).unwrap();
        fs::write(drive.path().join("b/k/data/part.1.meta"), [2; 40]).unwrap();
        fs::write(drive.path().join("b/l/data/part.1"), [3; 40]).unwrap();
        fs::write(drive.path().join(".rustfs.sys/part.9"), [4; 40]).unwrap();
        fs::write(drive.path().join(layout::FORMAT), b"{}").unwrap();
        drive
    }

    #[test]
    fn only_parts_of_objects_rot_as_parts_and_exactly_one_bit_changes() {
        let drive = drive();
        let found = stretches(drive.path(), RotTarget::Part).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        for dice in [0, 7, 12345, u64::MAX] {
            let change = flip(drive.path(), &found[0], dice).unwrap();
            assert_eq!((change.before[0] ^ change.after[0]).count_ones(), 1);
            let now = read(drive.path(), &found[0]).unwrap();
            assert_eq!(now[change.offset as usize], change.after[0]);
        }
        assert_eq!(stretches(drive.path(), RotTarget::Format).unwrap().len(), 1);
    }

    #[test]
    fn exchanged_stretches_have_each_others_bytes() {
        let drive = drive();
        let found = stretches(drive.path(), RotTarget::Part).unwrap();
        exchange(drive.path(), &found[0], &found[1]).unwrap();
        assert_eq!(read(drive.path(), &found[0]).unwrap(), [3; 40]);
        assert_eq!(read(drive.path(), &found[1]).unwrap(), [1; 40]);
    }

    #[test]
    fn metadata_and_inline_values_of_a_real_file_are_found_apart() {
        let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/vectors");
        let drives = tempfile::tempdir().unwrap();
        let (mut blocks, mut values) = (0, 0);
        let mut look = |root: &Path| {
            for stretch in stretches(root, RotTarget::XlMeta).unwrap() {
                let bytes = fs::read(root.join(&stretch.file)).unwrap();
                assert!(stretch.offset + stretch.length + 5 <= bytes.len() as u64);
                blocks += 1;
            }
            for stretch in stretches(root, RotTarget::Inline).unwrap() {
                let value = read(root, &stretch).unwrap();
                assert!(frame::verify(&value).is_some(), "{stretch:?} is no framed shard");
                values += 1;
            }
        };
        for drive in 0..4 {
            let root = drives.path().join(drive.to_string());
            fs::create_dir_all(root.join("bkt/obj")).unwrap();
            let vector = vectors.join(format!("disk{drive}.xl.meta"));
            fs::copy(vector, root.join("bkt/obj").join(layout::META_FILE)).unwrap();
            look(&root);
        }
        assert_eq!((blocks, values), (4, 4));
    }
}
