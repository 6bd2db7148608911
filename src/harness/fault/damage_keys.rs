//! `damage_keys`: a drive holds of some keys something else than it took. The node is stopped meanwhile.
//!
//! Evidence: each key, and what was done to it. There is nothing to undo: whether it was repaired is for the census
//! to say.

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use uuid::Uuid;

use super::Injected;
use super::Scene;
use super::rot_files;
use super::strike::Blow;
use super::strike::strike;
use crate::disk::format::xl_meta::ObjectBody;
use crate::disk::format::xl_meta::Version;
use crate::disk::format::xl_meta::XlMeta;
use crate::disk::format::xl_meta::keys;
use crate::disk::layout;
use crate::harness::scenario::fault::Damage;
use crate::harness::scenario::fault::DamageKeys;

pub(super) async fn inject(fault: &DamageKeys, scene: &Scene<'_>) -> Injected {
    let damage = KeyDamage { into: fault.into, keys: fault.keys, seed: scene.seed };
    strike(damage, fault.node, &fault.drives, scene).await
}

/// So many keys become something else.
struct KeyDamage {
    into: Damage,
    keys: usize,
    seed: u64,
}

impl Blow for KeyDamage {
    type Change = Change;

    fn count(&self) -> usize {
        self.keys
    }

    fn plan(&mut self, root: &Path) -> io::Result<Vec<Change>> {
        plan(root, self.into, self.keys, self.seed)
    }

    fn apply(change: Change, _: &Path) -> io::Result<String> {
        change.apply()?;
        Ok(change.words)
    }

    fn shortfall(&self, name: &str, found: usize) -> String {
        format!("{found} keys of drive {name} could become that, {} were asked", self.keys)
    }
}

/// What becomes of one key.
struct Change {
    /// What it is told as, with the key.
    words: String,
    /// The file that is changed.
    file: PathBuf,
    act: Act,
    /// Folders of shards that go with it.
    folders: Vec<PathBuf>,
}

enum Act {
    Remove,
    Cut(u64),
    Write(Vec<u8>),
    CopyTo(PathBuf),
}

impl Change {
    fn apply(&self) -> io::Result<()> {
        for folder in &self.folders {
            match fs::remove_dir_all(folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let written = match &self.act {
            Act::Remove => return fs::remove_file(&self.file),
            Act::Cut(length) => {
                OpenOptions::new().write(true).open(&self.file)?.set_len(*length)?;
                &self.file
            }
            Act::Write(bytes) => {
                fs::write(&self.file, bytes)?;
                &self.file
            }
            Act::CopyTo(copy) => {
                fs::create_dir(copy.parent().unwrap_or(copy))?;
                fs::copy(&self.file, copy)?;
                copy
            }
        };
        File::open(written)?.sync_all()
    }
}

/// What becomes of so many keys of a drive, fewer where no more can become that. Nothing is changed yet.
fn plan(root: &Path, into: Damage, count: usize, seed: u64) -> io::Result<Vec<Change>> {
    let mut folders = Vec::new();
    rot_files::walk(root, Path::new(""), &mut |file| {
        let is_meta = file.file_name().is_some_and(|name| name == layout::META_FILE);
        folders.extend(file.parent().filter(|_| is_meta).map(Path::to_owned));
        Ok(())
    })?;
    folders.sort();
    folders.shuffle(&mut SmallRng::seed_from_u64(seed));
    let mut changes = Vec::new();
    for key in folders {
        if changes.len() == count {
            break;
        }
        let folder = root.join(&key);
        // What is not sound already cannot be shown to be damaged.
        let Ok(meta) = XlMeta::parse(&fs::read(folder.join(layout::META_FILE))?) else { continue };
        if let Some(mut change) = change_of(&folder, &meta, into)? {
            change.words = format!("{}: {}", key.display(), change.words);
            changes.push(change);
        }
    }
    Ok(changes)
}

/// What becomes of the key in `folder`; `None` when it cannot become that.
fn change_of(folder: &Path, meta: &XlMeta, into: Damage) -> io::Result<Option<Change>> {
    let file = folder.join(layout::META_FILE);
    let versions = meta.versions();
    let shards = |object: &ObjectBody| folder.join(object.data_dir.hyphenated().to_string());
    let change = |file: &Path, act, words: &str| {
        Some(Change { words: words.to_owned(), file: file.to_owned(), act, folders: Vec::new() })
    };
    let cut = |file: &Path, length: u64| -> io::Result<Option<Change>> {
        let words = format!("cut from {} to {length} bytes", fs::metadata(file)?.len());
        Ok(change(file, Act::Cut(length), &format!("{}: {words}", short(file))))
    };
    let replaced = |left: &XlMeta| match left.is_empty() {
        true => Act::Remove,
        false => Act::Write(left.encode()),
    };
    let without = |version: Option<&Version>| {
        let version = version?;
        let mut left = meta.clone();
        left.remove(version.id());
        let object = version.as_object().filter(|object| !object.is_inline());
        let words = format!("version {} was taken out", version.id());
        let change = change(&file, replaced(&left), &words)?;
        Some(Change { folders: object.map(shards).into_iter().collect(), ..change })
    };
    let otherwise = |key: String, value: &str| {
        let newest = versions.iter().find(|version| version.as_object().is_some())?;
        let other = newest.with_object(|object| drop(object.user.insert(key, value.to_owned())))?;
        let mut left = meta.clone();
        left.insert(other, meta.inline(newest.id()).map(<[u8]>::to_vec));
        change(&file, replaced(&left), &format!("version {} has other metadata", newest.id()))
    };
    Ok(match into {
        // Other keys may lie below it.
        Damage::KeyMissing => change(&file, Act::Remove, "everything was removed").map(|change| {
            let objects = versions.iter().filter_map(Version::as_object);
            Change { folders: objects.map(shards).collect(), ..change }
        }),
        Damage::MetaMissing => change(&file, Act::Remove, "xl.meta was removed"),
        Damage::MetaShort => cut(&file, fs::metadata(&file)?.len() / 2)?,
        Damage::MetaEmpty => cut(&file, 0)?,
        Damage::PartMissing => part(folder, versions)
            .and_then(|part| change(&part, Act::Remove, &format!("{} was removed", short(&part)))),
        Damage::PartShort => match part(folder, versions) {
            Some(part) => cut(&part, fs::metadata(&part)?.len() / 2)?,
            None => None,
        },
        Damage::NewestMissing => without(versions.first()),
        Damage::MarkerMissing => without(versions.iter().find(|it| it.as_marker().is_some())),
        Damage::NullMissing => {
            let is_null = |it: &&Version| it.as_object().is_some() && it.id().is_null();
            without(versions.iter().skip(1).find(is_null))
        }
        Damage::TagsDiffer => otherwise(keys::TAGGING.to_owned(), "stray=yes"),
        Damage::MetadataDiffers => otherwise(keys::user_key("stray"), "yes"),
        Damage::Orphan => part(folder, versions).and_then(|part| {
            let orphan = folder.join(Uuid::new_v4().hyphenated().to_string());
            let copy = orphan.join(part.file_name()?);
            change(&part, Act::CopyTo(copy.clone()), &format!("{} was added", short(&copy)))
        }),
    })
}

/// The file of a part that is not empty.
fn part(folder: &Path, versions: &[Version]) -> Option<PathBuf> {
    let objects = versions.iter().filter_map(Version::as_object);
    let mut files = objects.filter(|object| !object.is_inline()).flat_map(|object| {
        let shards = folder.join(object.data_dir.hyphenated().to_string());
        object.parts.iter().map(move |part| shards.join(layout::part_file(part.number)))
    });
    files.find(|file| fs::metadata(file).is_ok_and(|it| it.len() > 1))
}

/// The last two names of a path.
fn short(path: &Path) -> String {
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
    let name = path.file_name().unwrap_or_default();
    format!("{}/{}", Path::new(folder).display(), Path::new(name).display())
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

    fn damage(root: &Path, into: Damage, count: usize, seed: u64) -> io::Result<Vec<Change>> {
        let changes = plan(root, into, count, seed)?;
        changes.iter().try_for_each(Change::apply)?;
        Ok(changes)
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
            assert_eq!(done.len(), can, "{into:?}");
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
