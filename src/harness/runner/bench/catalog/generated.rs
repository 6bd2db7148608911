//! Objects on the drives of a stopped node, as the node would have written them.
//!
//! One set, no versions, nothing flushed one by one: whoever writes here starts the node only afterwards.

use std::collections::BTreeMap;
use std::fs;
use std::fs::File;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::thread;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use md5::Digest as _;
use uuid::Uuid;

use crate::disk::format::erasure::Erasure;
use crate::disk::format::frame;
use crate::disk::format::frame::BLOCK_BYTES;
use crate::disk::format::xl_meta::ObjectBody;
use crate::disk::format::xl_meta::Part;
use crate::disk::format::xl_meta::Version;
use crate::disk::format::xl_meta::XlMeta;
use crate::disk::format::xl_meta::keys;
use crate::disk::layout;
use crate::harness::operator::catalog::keep::tree;
use crate::harness::report::Chain;
use crate::protocol::object::quorum;
use crate::value::VersionId;

/// Threads that write.
const THREADS: usize = 4;

/// An object.
#[derive(Debug, Clone)]
pub(super) struct Object {
    bucket: String,
    key: String,
    contents: Vec<u8>,
    user: BTreeMap<String, String>,
}

impl Object {
    /// A record of the system's.
    pub(super) fn system(key: String, contents: Vec<u8>) -> Self {
        Self { bucket: layout::SYSTEM.to_owned(), key, contents, user: BTreeMap::new() }
    }

    /// An object of a bucket.
    pub(super) fn of(bucket: &str, key: String, contents: Vec<u8>) -> Self {
        let user = BTreeMap::from([(keys::CONTENT_TYPE.to_owned(), "application/json".to_owned())]);
        Self { bucket: bucket.to_owned(), key, contents, user }
    }

    /// The same with something that its writer keeps with it.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.user.insert(keys::user_key(name), value.to_owned());
        self
    }
}

/// The ETag of some contents.
pub(super) fn etag(contents: &[u8]) -> String {
    hex::encode(md5::Md5::digest(contents))
}

/// The drives of one set, of nodes that do not run.
pub(super) struct Still {
    /// Their roots, by slot.
    roots: Vec<PathBuf>,
    /// Parity shards of a bucket's objects.
    parity: usize,
    modtime_ns: i64,
}

impl Still {
    /// The drives at `roots`.
    ///
    /// # Errors
    /// They are no formatted drives of one set.
    pub(super) fn open(roots: &[PathBuf], parity: usize) -> Result<Self, String> {
        let drives = tree::open(roots).map_err(|error| Chain(&error).to_string())?;
        if drives.sets != 1 || drives.drives.len() != drives.set_drives {
            return Err("the drives are not all of one set".to_owned());
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let modtime_ns = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
        let roots = drives.drives.into_iter().map(|drive| drive.root).collect();
        Ok(Self { roots, parity, modtime_ns })
    }

    /// Writes objects that are not there, and flushes the drives.
    ///
    /// # Errors
    /// What could not be written, in words.
    pub(super) fn write(&self, objects: &[Object]) -> Result<(), String> {
        let of_each = objects.len().div_ceil(THREADS).max(1);
        thread::scope(|scope| {
            let works: Vec<_> = objects
                .chunks(of_each)
                .map(|some| scope.spawn(move || some.iter().try_for_each(|it| self.put(it))))
                .collect();
            works.into_iter().try_for_each(|work| match work.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            })
        })?;
        self.roots.iter().try_for_each(|root| {
            let flushed = File::open(root)
                .and_then(|root| nix::unistd::syncfs(root).map_err(io::Error::from));
            flushed.map_err(|error| format!("{}: {error}", root.display()))
        })
    }

    fn put(&self, object: &Object) -> Result<(), String> {
        let Object { bucket, key, contents, user } = object;
        let drives = self.roots.len();
        let parity = match bucket.as_str() {
            layout::SYSTEM => quorum::system_parity(drives),
            _ => self.parity,
        };
        let data = drives - parity;
        let erasure = Erasure::new(data, parity).map_err(|error| format!("{key}: {error}"))?;
        let mut shards = vec![Vec::new(); drives];
        for block in contents.chunks(BLOCK_BYTES as usize) {
            for (file, shard) in shards.iter_mut().zip(erasure.encode_block(block)) {
                frame::encode(&shard, file);
            }
        }
        let is_inline = frame::goes_inline(contents.len() as u64, data, false);
        let version = Version::object(self.body(object, data, parity, is_inline, user));
        let data_dir = version.as_object().map(|it| it.data_dir).unwrap_or_default();
        let distribution = layout::distribution(bucket, key, drives);
        for (root, shard) in self.roots.iter().zip(&distribution) {
            let shard = usize::from(*shard);
            let file = std::mem::take(&mut shards[shard - 1]);
            let own = version.for_shard(shard).ok_or_else(|| format!("{key}: is no object"))?;
            let mut meta = XlMeta::default();
            let placed = if is_inline {
                meta.insert(own, Some(file));
                Ok(())
            } else {
                meta.insert(own, None);
                create(&root.join(layout::part_path(bucket, key, data_dir, 1)), &file)
            };
            let path = root.join(layout::meta_path(bucket, key));
            let placed = placed.and_then(|()| create(&path, &meta.encode()));
            placed.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    fn body(
        &self,
        object: &Object,
        data: usize,
        parity: usize,
        is_inline: bool,
        user: &BTreeMap<String, String>,
    ) -> ObjectBody {
        let (size, etag) = (object.contents.len() as u64, etag(&object.contents));
        let mut body = ObjectBody {
            version: VersionId::NULL,
            data_dir: Uuid::new_v4(),
            erasure_algorithm: 1,
            data,
            parity,
            block_bytes: BLOCK_BYTES,
            shard: 1,
            distribution: layout::distribution(&object.bucket, &object.key, data + parity),
            checksum_algorithm: 1,
            parts: vec![Part {
                number: 1,
                size,
                actual_size: i64::try_from(size).unwrap_or(i64::MAX),
                etag: etag.clone(),
                index: Vec::new(),
            }],
            size,
            modtime_ns: self.modtime_ns,
            system: BTreeMap::new(),
            user: user.clone(),
            unknown: Vec::new(),
        };
        body.user.insert(keys::ETAG.to_owned(), etag);
        body.set_system(keys::ACTUAL_SIZE, size.to_string());
        if is_inline {
            body.set_system(keys::INLINE_DATA, "true");
        }
        body
    }
}

/// Writes a file that is not there, with the folders that it lies in.
fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = File::create_new(path)?;
    io::Write::write_all(&mut file, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::format::format_json::FormatJson;
    use crate::harness::operator::catalog::keep::contents;

    /// Four formatted drives below `folder`.
    fn drives(folder: &Path) -> Vec<PathBuf> {
        let ids: Vec<Uuid> = (1..=4_u128).map(Uuid::from_u128).collect();
        let deployment = Uuid::from_u128(9);
        let drive = |id: &Uuid| {
            let root = folder.join(id.to_string());
            let format = FormatJson::new(deployment, *id, vec![ids.clone()]);
            create(&root.join(layout::FORMAT), &format.encode()).expect("a temporary folder");
            root
        };
        ids.iter().map(drive).collect()
    }

    #[test]
    fn what_is_written_reads_as_any_object_does() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let roots = drives(folder.path());
        let still = Still::open(&roots, 2).expect("four drives of one set");
        let large: Vec<u8> = (0..3_000_000_usize).map(|at| (at % 251) as u8).collect();
        let objects = [
            Object::system("s3tables/catalog/small.json".to_owned(), b"small".to_vec()),
            Object::system("s3tables/catalog/large.json".to_owned(), large.clone())
                .with("name", "value"),
            Object::of("lake", ".rustfs-table/a/b.json".to_owned(), b"{}".to_vec()),
        ];
        still.write(&objects).expect("there is room");
        let open = tree::open(&roots).expect("they are still drives");
        // Two of four are enough, whichever.
        for two in [[0, 1], [2, 3], [1, 2]] {
            let some: Vec<_> = two.iter().map(|at| open.drives[*at].clone()).collect();
            let mut found = Vec::new();
            let folders = [layout::SYSTEM.to_owned(), "lake".to_owned()];
            contents::each(&some, 4, &folders, |object| {
                found.push((object.key, object.contents));
                Ok(())
            })
            .expect("all of it reads");
            found.sort();
            let wanted = [&objects[2], &objects[1], &objects[0]];
            let wanted = wanted.map(|it| (it.key.clone(), it.contents.clone()));
            assert!(found == wanted, "{two:?}: {} objects", found.len());
        }
        assert!(still.write(&objects[..1]).is_err(), "nothing is written over");
    }
}
