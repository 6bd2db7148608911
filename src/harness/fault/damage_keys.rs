//! `damage_keys`: a drive holds of some keys something else than it took. The node is stopped meanwhile.
//!
//! Evidence: each key, and what was done to it. There is nothing to undo: whether it was repaired is for the census
//! to say.

use std::fs;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use uuid::Uuid;

use super::Injected;
use super::Miss;
use super::Scene;
use super::bit_rot::Rotten;
use super::drives_of;
use super::names_of;
use super::rot_files;
use crate::disk::format::xl_meta::ObjectBody;
use crate::disk::format::xl_meta::Version;
use crate::disk::format::xl_meta::XlMeta;
use crate::disk::format::xl_meta::keys;
use crate::disk::layout;
use crate::harness::scenario::fault::Damage;
use crate::harness::scenario::fault::DamageKeys;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::blocking;

pub(super) async fn inject(fault: &DamageKeys, scene: &Scene<'_>) -> Injected {
    let (testbed, node) = (scene.testbed, fault.node);
    let drives = drives_of(testbed, node, &fault.drives)?;
    let names = names_of(testbed, &drives);
    let was_running = testbed.is_running(node);
    testbed.stop(node).await?;
    let (hardware, into, count, seed) =
        (Arc::clone(testbed.hardware()), fault.into, fault.keys, scene.seed);
    let damaged = blocking(move || {
        let damage_one = |drive: &usize| {
            let root = hardware.root(*drive);
            damage(&root, into, count, seed).map_err(TestbedError::io("damage keys of", &root))
        };
        drives.iter().map(damage_one).collect::<Result<Vec<_>, _>>()
    })
    .await;
    if was_running {
        testbed.start(node).await?;
    }
    let damaged = damaged?;
    if let Some(position) = damaged.iter().position(|done| done.len() < fault.keys) {
        let (name, found) = (&names[position], damaged[position].len());
        let why = format!("{found} keys of drive {name} could become that, {count} were asked");
        return Err(Miss::NotReached(why));
    }
    let words = names.iter().zip(&damaged);
    let words = words.map(|(name, done)| format!("{name}: {}", done.join("; ")));
    let words = words.collect::<Vec<_>>().join("; ");
    scene.teller.injected(words.clone());
    Ok(Some(Box::new(Rotten { words })))
}

/// Damages so many keys of a drive, fewer where no more can become that; answers what was done to each.
fn damage(root: &Path, into: Damage, count: usize, seed: u64) -> io::Result<Vec<String>> {
    let mut folders = Vec::new();
    rot_files::walk(root, Path::new(""), &mut |file| {
        let is_meta = file.file_name().is_some_and(|name| name == layout::META_FILE);
        folders.extend(file.parent().filter(|_| is_meta).map(Path::to_owned));
        Ok(())
    })?;
    folders.sort();
    folders.shuffle(&mut SmallRng::seed_from_u64(seed));
    let mut done = Vec::new();
    for folder in folders {
        if done.len() == count {
            break;
        }
        let key = Key { root, meta: XlMeta::parse(&fs::read(key_file(root, &folder))?), folder };
        // What is not sound already cannot be shown to be damaged.
        let Ok(meta) = &key.meta else { continue };
        if let Some(words) = key.become_that(meta, into)? {
            done.push(format!("{}: {words}", key.folder.display()));
        }
    }
    Ok(done)
}

fn key_file(root: &Path, folder: &Path) -> PathBuf {
    root.join(folder).join(layout::META_FILE)
}

/// A key as it lies on a drive.
struct Key<'a> {
    root: &'a Path,
    folder: PathBuf,
    meta: Result<XlMeta, crate::disk::format::FormatError>,
}

impl Key<'_> {
    /// Damages it; `None` when it cannot become that.
    fn become_that(&self, meta: &XlMeta, into: Damage) -> io::Result<Option<String>> {
        let file = key_file(self.root, &self.folder);
        let versions = meta.versions();
        let objects = || versions.iter().filter_map(Version::as_object);
        match into {
            Damage::KeyMissing => {
                // Other keys may lie below it.
                for data_dir in objects().map(|object| object.data_dir) {
                    remove_folder(&self.path(data_dir))?;
                }
                fs::remove_file(&file)?;
                Ok(Some("everything was removed".to_owned()))
            }
            Damage::MetaMissing => {
                fs::remove_file(&file)?;
                Ok(Some("xl.meta was removed".to_owned()))
            }
            Damage::MetaShort => cut(&file, fs::metadata(&file)?.len() / 2).map(Some),
            Damage::MetaEmpty => cut(&file, 0).map(Some),
            Damage::PartMissing | Damage::PartShort => {
                let Some(part) = self.part(objects())? else { return Ok(None) };
                if into == Damage::PartMissing {
                    fs::remove_file(&part)?;
                    return Ok(Some(format!("{} was removed", short(&part))));
                }
                let words = cut(&part, fs::metadata(&part)?.len() / 2)?;
                Ok(Some(format!("{} {words}", short(&part))))
            }
            Damage::NewestMissing => self.without(meta, versions.first()),
            Damage::MarkerMissing => {
                let marker = versions.iter().find(|version| version.as_marker().is_some());
                self.without(meta, marker)
            }
            Damage::NullMissing => {
                let below = versions.iter().skip(1);
                let null = below.filter(|version| version.as_object().is_some());
                self.without(meta, null.into_iter().find(|version| version.id().is_null()))
            }
            Damage::TagsDiffer => self.otherwise(meta, |object| {
                object.user.insert(keys::TAGGING.to_owned(), "stray=yes".to_owned());
            }),
            Damage::MetadataDiffers => self.otherwise(meta, |object| {
                object.user.insert(keys::user_key("stray"), "yes".to_owned());
            }),
            Damage::Orphan => {
                let Some(part) = self.part(objects())? else { return Ok(None) };
                let orphan = self.path(Uuid::new_v4());
                fs::create_dir(&orphan)?;
                let copy = orphan.join(part.file_name().unwrap_or_default());
                fs::copy(&part, &copy)?;
                fs::File::open(&copy)?.sync_all()?;
                Ok(Some(format!("{} was added", short(&copy))))
            }
        }
    }

    fn path(&self, data_dir: Uuid) -> PathBuf {
        self.root.join(&self.folder).join(data_dir.hyphenated().to_string())
    }

    /// The file of a part that is not empty.
    fn part<'o>(
        &self,
        objects: impl Iterator<Item = &'o ObjectBody>,
    ) -> io::Result<Option<PathBuf>> {
        for object in objects.filter(|object| !object.is_inline()) {
            for part in &object.parts {
                let file = self.path(object.data_dir).join(layout::part_file(part.number));
                if fs::metadata(&file).is_ok_and(|it| it.len() > 1) {
                    return Ok(Some(file));
                }
            }
        }
        Ok(None)
    }

    /// Takes a version out, as if the write that made it had passed this drive by.
    fn without(&self, meta: &XlMeta, version: Option<&Version>) -> io::Result<Option<String>> {
        let Some(version) = version else { return Ok(None) };
        let mut left = meta.clone();
        left.remove(version.id());
        if let Some(object) = version.as_object().filter(|object| !object.is_inline()) {
            remove_folder(&self.path(object.data_dir))?;
        }
        self.replace(&left)?;
        Ok(Some(format!("version {} was taken out", version.id())))
    }

    /// Changes the newest object.
    fn otherwise(
        &self,
        meta: &XlMeta,
        change: impl FnOnce(&mut ObjectBody),
    ) -> io::Result<Option<String>> {
        let newest = meta.versions().iter().find(|version| version.as_object().is_some());
        let Some(newest) = newest else { return Ok(None) };
        let Some(other) = newest.with_object(change) else { return Ok(None) };
        let mut left = meta.clone();
        let inline = meta.inline(newest.id()).map(<[u8]>::to_vec);
        left.insert(other, inline);
        self.replace(&left)?;
        Ok(Some(format!("version {} has other metadata", newest.id())))
    }

    /// Writes other metadata, or none when no version is left.
    fn replace(&self, meta: &XlMeta) -> io::Result<()> {
        let file = key_file(self.root, &self.folder);
        if meta.is_empty() {
            return fs::remove_file(file);
        }
        fs::write(&file, meta.encode())?;
        fs::File::open(&file)?.sync_all()
    }
}

fn remove_folder(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Cuts a file; answers it in words.
fn cut(file: &Path, length: u64) -> io::Result<String> {
    let before = fs::metadata(file)?.len();
    let open = OpenOptions::new().write(true).open(file)?;
    open.set_len(length)?;
    open.sync_all()?;
    Ok(format!("was cut from {before} to {length} bytes"))
}

/// The last two names of a path.
fn short(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
    let name = path.file_name().unwrap_or_default();
    format!("{}/{}", folder.display(), name.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::VersionId;

    const PART: [u8; 40] = [7; 40];

    /// A drive with two keys: one holds a null version below a marker, the other an object with a part.
    fn drive() -> tempfile::TempDir {
        let drive = tempfile::tempdir().unwrap();
        let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/vectors");
        let vector = fs::read(vectors.join("disk0.xl.meta")).unwrap();
        let meta = XlMeta::parse(&vector).unwrap();
        let object = meta.versions().iter().find(|version| version.as_object().is_some());
        let object = object.unwrap().with_object(|object| {
            object.version = VersionId::NULL;
            object.system.clear();
            object.size = 100;
            for part in &mut object.parts {
                part.size = 100;
            }
        });
        let object = object.unwrap();
        let body = object.as_object().unwrap().clone();
        let newer = body.modtime_ns + 1_000;
        for (key, has_marker) in [("marked", true), ("plain", false)] {
            let mut meta = XlMeta::parse(&vector).unwrap();
            for version in meta.versions().iter().map(Version::id).collect::<Vec<_>>() {
                meta.remove(version);
            }
            meta.insert(object.clone(), None);
            if has_marker {
                meta.insert(Version::marker(VersionId([9; 16]), newer), None);
            }
            let folder = drive.path().join("bkt").join(key);
            let data = folder.join(body.data_dir.hyphenated().to_string());
            fs::create_dir_all(&data).unwrap();
            fs::write(data.join(layout::part_file(body.parts[0].number)), PART).unwrap();
            fs::write(folder.join(layout::META_FILE), meta.encode()).unwrap();
        }
        drive
    }

    fn meta(drive: &tempfile::TempDir, key: &str) -> Option<XlMeta> {
        let bytes = fs::read(drive.path().join("bkt").join(key).join(layout::META_FILE)).ok()?;
        XlMeta::parse(&bytes).ok()
    }

    #[test]
    fn each_damage_changes_what_it_names_on_as_many_keys_as_can_become_that() {
        for (into, can) in [
            (Damage::KeyMissing, 2),
            (Damage::MetaMissing, 2),
            (Damage::MetaShort, 2),
            (Damage::MetaEmpty, 2),
            (Damage::PartMissing, 2),
            (Damage::PartShort, 2),
            (Damage::NewestMissing, 2),
            (Damage::MarkerMissing, 1),
            (Damage::NullMissing, 1),
            (Damage::TagsDiffer, 2),
            (Damage::MetadataDiffers, 2),
            (Damage::Orphan, 2),
        ] {
            let drive = drive();
            let before = [meta(&drive, "marked"), meta(&drive, "plain")];
            let done = damage(drive.path(), into, 9, 1).unwrap();
            assert_eq!(done.len(), can, "{into:?}: {done:?}");
            let after = [meta(&drive, "marked"), meta(&drive, "plain")];
            let keeps = [Damage::PartMissing, Damage::PartShort, Damage::Orphan].contains(&into);
            assert_eq!(before == after, keeps, "{into:?}");
        }
    }

    #[test]
    fn a_marker_or_a_null_version_is_taken_out_alone() {
        let drive = drive();
        damage(drive.path(), Damage::MarkerMissing, 1, 1).unwrap();
        let left = meta(&drive, "marked").unwrap();
        assert_eq!(left.versions().iter().map(Version::id).collect::<Vec<_>>(), [VersionId::NULL]);
        let drive = self::drive();
        damage(drive.path(), Damage::NullMissing, 1, 1).unwrap();
        let left = meta(&drive, "marked").unwrap();
        assert!(left.versions().len() == 1 && left.versions()[0].as_marker().is_some());
    }
}
