//! Drive images: one template a size, copied without its holes, each copy with a UUID of its own.
//!
//! An ext4 image is copied, because that is ten times faster than making it. Its checksums hang on a seed
//! that stands in the superblock (`metadata_csum_seed`), so that a new UUID costs one checksum and no
//! process. An xfs image is made anew each time: its copy would carry the template's UUID in every block.
//!
//! # Sources
//! ext4 disk layout: kernel documentation `filesystems/ext4/super`; `mke2fs(8)`, `mkfs.xfs(8)`.

use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::Read as _;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::Stdio;

use crc_fast::CrcAlgorithm;
use nix::errno::Errno;
use nix::unistd::Whence;
use nix::unistd::lseek64;
use uuid::Uuid;

use super::TestbedError;
use crate::harness::scenario::plan::Filesystem;

/// Bytes of a block of every drive: what production has, and `mkfs.ext4` would not choose for small ones.
const BLOCK_BYTES: u64 = 4096;
/// Smaller xfs than this is refused without `--unsupported`.
const XFS_SUPPORTED_MIB: u64 = 300;

/// Where the primary superblock of an ext4 stands.
const SUPERBLOCK_AT: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 1024;
const MAGIC_AT: usize = 0x38;
const BLOCKS_PER_GROUP_AT: usize = 0x20;
const UUID_AT: usize = 0x68;
const JOURNAL_BLOCKS_AT: usize = 0x10C;
const CHECKSUM_AT: usize = 0x3FC;
const EXT4_MAGIC: [u8; 2] = [0x53, 0xEF];
const EXTENT_MAGIC: [u8; 2] = [0x0A, 0xF3];

/// Makes the images of one kind of drive.
#[derive(Debug)]
pub(super) struct Images {
    filesystem: Filesystem,
    bytes: u64,
    folder: PathBuf,
    template: Option<PathBuf>,
}

impl Images {
    /// Makes the template, where there is one, in `folder`.
    pub(super) fn new(
        filesystem: Filesystem,
        drive_mib: u64,
        folder: &Path,
    ) -> Result<Self, TestbedError> {
        let bytes = drive_mib << 20;
        let template = match filesystem {
            Filesystem::Xfs => None,
            Filesystem::Ext4 => {
                let path = folder.join("template.img");
                make_ext4(&path, bytes)?;
                Some(path)
            }
        };
        Ok(Self { filesystem, bytes, folder: folder.to_owned(), template })
    }

    /// Where the image `name` lies, or would.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.img"))
    }

    /// Makes a new blank image with this UUID.
    pub(super) fn make(&self, path: &Path, uuid: Uuid) -> Result<(), TestbedError> {
        match &self.template {
            Some(template) => {
                copy_sparse(template, path)?;
                set_ext4_uuid(path, uuid).map_err(TestbedError::io("give a UUID to", path))
            }
            None => make_xfs(path, self.bytes, uuid),
        }
    }

    /// The kind of file system on them.
    pub(super) fn filesystem(&self) -> Filesystem {
        self.filesystem
    }
}

/// A file of `bytes` zeros that takes no space.
fn make_hollow(path: &Path, bytes: u64) -> Result<File, TestbedError> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let file = file.map_err(TestbedError::io("create image", path))?;
    file.set_len(bytes).map_err(TestbedError::io("size image", path))?;
    Ok(file)
}

/// Makes an ext4 that is the same, bit for bit, every time.
fn make_ext4(path: &Path, bytes: u64) -> Result<(), TestbedError> {
    make_hollow(path, bytes)?;
    // Inode tables and journal are written now, so that no kernel thread writes them at random times;
    // all metadata and the journal stand in front, so that `fail_reads` can spare them; nothing is
    // reserved for root, so that a full drive is full for us as well; there is an inode for each block, because a
    // small object takes a directory and a file.
    let extended = "lazy_itable_init=0,lazy_journal_init=0,packed_meta_blocks=1,\
                    hash_seed=6d0a5d5e-5d1c-4a86-9d5a-1f2a3b4c5d6e";
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.env("E2FSPROGS_FAKE_TIME", "1700000000")
        .args(["-q", "-F", "-b", "4096", "-i", "4096", "-m", "0"])
        .args(["-O", "metadata_csum,metadata_csum_seed"])
        .args(["-U", "00000000-0000-4000-8000-000000000000", "-E", extended])
        .arg(path);
    run_tool("mkfs.ext4", &mut mkfs)
}

/// Makes an xfs.
fn make_xfs(path: &Path, bytes: u64, uuid: Uuid) -> Result<(), TestbedError> {
    make_hollow(path, bytes)?;
    let mut mkfs = Command::new("mkfs.xfs");
    mkfs.arg("-q").arg("-m").arg(format!("uuid={uuid}"));
    if bytes < XFS_SUPPORTED_MIB << 20 {
        mkfs.arg("--unsupported");
    }
    run_tool("mkfs.xfs", mkfs.arg(path))
}

/// Runs a tool of the machine to its end.
pub(super) fn run_tool(tool: &'static str, command: &mut Command) -> Result<(), TestbedError> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(TestbedError::io("run", tool))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let words = format!("{}: {}", output.status, said.trim());
    Err(TestbedError::Tool { tool, words })
}

/// Copies a file without its holes; the copy is new.
pub(super) fn copy_sparse(from: &Path, to: &Path) -> Result<(), TestbedError> {
    let source = File::open(from).map_err(TestbedError::io("open image", from))?;
    let bytes = source.metadata().map_err(TestbedError::io("measure image", from))?.len();
    let target = make_hollow(to, bytes)?;
    copy_data(&source, &target, bytes).map_err(TestbedError::io("copy image to", to))
}

/// Copies the stretches of `source` that hold data.
fn copy_data(source: &File, target: &File, bytes: u64) -> io::Result<()> {
    let mut at = 0;
    while at < bytes as i64 {
        let start = match lseek64(source, at, Whence::SeekData) {
            Ok(start) => start,
            Err(Errno::ENXIO) => break,
            Err(errno) => return Err(errno.into()),
        };
        at = lseek64(source, start, Whence::SeekHole)?;
        lseek64(source, start, Whence::SeekSet)?;
        lseek64(target, start, Whence::SeekSet)?;
        let length = (at - start) as u64;
        // The kernel copies, also where it has to go from one file system to another.
        if io::copy(&mut source.take(length), &mut &*target)? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

/// Writes a UUID into the superblock of an ext4 and into every copy of it.
fn set_ext4_uuid(path: &Path, uuid: Uuid) -> io::Result<()> {
    let image = OpenOptions::new().read(true).write(true).open(path)?;
    let blocks = image.metadata()?.len() / BLOCK_BYTES;
    let primary = read_superblock(&image, SUPERBLOCK_AT)?;
    write_superblock(&image, SUPERBLOCK_AT, primary, uuid)?;
    let per_group = u64::from(u32_at(&primary, BLOCKS_PER_GROUP_AT));
    let groups = blocks.div_ceil(per_group);
    for group in (1..groups).filter(|group| has_superblock(*group)) {
        let at = group * per_group * BLOCK_BYTES;
        let copy = read_superblock(&image, at)?;
        write_superblock(&image, at, copy, uuid)?;
    }
    Ok(())
}

/// Whether a group past the first carries a copy of the superblock (`sparse_super`): 1 and the powers
/// of 3, 5 and 7.
fn has_superblock(group: u64) -> bool {
    let is_power_of = |base: u64| {
        let mut power = base;
        while power < group {
            power *= base;
        }
        power == group
    };
    group == 1 || [3, 5, 7].into_iter().any(is_power_of)
}

/// Reads one superblock and checks that it is one.
fn read_superblock(image: &File, at: u64) -> io::Result<[u8; SUPERBLOCK_BYTES]> {
    let mut block = [0; SUPERBLOCK_BYTES];
    image.read_exact_at(&mut block, at)?;
    if block[MAGIC_AT..MAGIC_AT + 2] != EXT4_MAGIC {
        let words = format!("no ext4 superblock at byte {at}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, words));
    }
    Ok(block)
}

/// Writes one superblock with another UUID and the checksum that goes with it.
fn write_superblock(
    image: &File,
    at: u64,
    mut block: [u8; SUPERBLOCK_BYTES],
    uuid: Uuid,
) -> io::Result<()> {
    block[UUID_AT..UUID_AT + 16].copy_from_slice(uuid.as_bytes());
    // The kernel keeps the register as it is; the named algorithm inverts it at the end.
    let crc = !(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, &block[..CHECKSUM_AT]) as u32);
    block[CHECKSUM_AT..].copy_from_slice(&crc.to_le_bytes());
    image.write_all_at(&block, at)
}

/// The first byte past everything that an ext4 needs to stay alive: bitmaps, inode tables, journal.
///
/// Read from the copy of the journal's extents that its superblock keeps.
pub(super) fn ext4_journal_end(image: &Path) -> io::Result<u64> {
    let block = read_superblock(&File::open(image)?, SUPERBLOCK_AT)?;
    let tree = &block[JOURNAL_BLOCKS_AT..JOURNAL_BLOCKS_AT + 60];
    let refuse = |words: &str| io::Error::new(io::ErrorKind::InvalidData, words.to_owned());
    if tree[..2] != EXTENT_MAGIC || tree[6..8] != [0, 0] {
        return Err(refuse("the journal of the ext4 is not told by its superblock"));
    }
    let count = usize::from(u16::from_le_bytes([tree[2], tree[3]])).min(4);
    let extents = tree[12..].chunks_exact(12).take(count);
    let ends = extents.map(|extent| {
        let length = u16::from_le_bytes([extent[4], extent[5]]);
        let high = u64::from(u16::from_le_bytes([extent[6], extent[7]])) << 32;
        (high | u64::from(u32_at(extent, 8))) + u64::from(length)
    });
    ends.max().map(|end| end * BLOCK_BYTES).ok_or_else(|| refuse("the ext4 has no journal"))
}

/// A little-endian number.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(tool: &str) -> bool {
        Command::new(tool).arg("-V").output().is_ok()
    }

    #[test]
    fn copies_of_the_template_pass_the_checker_of_the_file_system_and_differ_in_their_uuid() {
        if !has("mkfs.ext4") || !has("e2fsck") {
            eprintln!("skipped: mkfs.ext4 or e2fsck is missing");
            return;
        }
        // 300 MiB have three groups, the second and fourth of which carry copies of the superblock.
        for mib in [16, 64, 300] {
            let folder = tempfile::tempdir().unwrap();
            let images = Images::new(Filesystem::Ext4, mib, folder.path()).unwrap();
            for number in [1_u128, 2] {
                let uuid = Uuid::from_u128(number);
                let path = images.path(&number.to_string());
                images.make(&path, uuid).unwrap();
                let image = File::open(&path).unwrap();
                let block = read_superblock(&image, SUPERBLOCK_AT).unwrap();
                assert_eq!(&block[UUID_AT..UUID_AT + 16], uuid.as_bytes());
                let check = Command::new("e2fsck").args(["-f", "-n"]).arg(&path).output().unwrap();
                let said = String::from_utf8_lossy(&check.stdout);
                assert!(check.status.success(), "{mib} MiB: {said}");
                let end = ext4_journal_end(&path).unwrap();
                assert!(end > SUPERBLOCK_AT && end < images.bytes, "journal ends at {end}");
            }
            use std::os::unix::fs::MetadataExt;
            let stored = folder.path().join("1.img").metadata().unwrap().blocks() * 512;
            assert!(stored < (mib << 20) / 4, "{stored} bytes: the copy is not sparse");
        }
    }

    #[test]
    fn a_wrong_checksum_is_noticed_by_the_checker_of_the_file_system() {
        if !has("mkfs.ext4") || !has("e2fsck") {
            eprintln!("skipped: mkfs.ext4 or e2fsck is missing");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let images = Images::new(Filesystem::Ext4, 16, folder.path()).unwrap();
        let path = images.path("x");
        images.make(&path, Uuid::from_u128(7)).unwrap();
        let image = OpenOptions::new().write(true).open(&path).unwrap();
        image.write_all_at(&[9; 16], SUPERBLOCK_AT + UUID_AT as u64).unwrap();
        let check = Command::new("e2fsck").args(["-f", "-n"]).arg(&path).output().unwrap();
        assert!(!check.status.success());
    }

    #[test]
    fn copies_of_the_superblock_stand_where_the_layout_has_them() {
        let with: Vec<_> = (1..50).filter(|group| has_superblock(*group)).collect();
        assert_eq!(with, [1, 3, 5, 7, 9, 25, 27, 49]);
    }
}
