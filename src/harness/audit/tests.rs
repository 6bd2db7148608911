//! Goal: of drives that we wrote ourselves, and then spoilt in one way each, the census says that way.

mod hostile;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use md5::Digest as _;
use md5::Md5;
use rand::RngExt as _;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use tempfile::TempDir;
use uuid::Uuid;

use super::*;
use crate::disk::format::erasure::Erasure;
use crate::disk::format::format_json::FormatJson;
use crate::disk::format::frame;
use crate::disk::format::xl_meta::ObjectBody;
use crate::disk::format::xl_meta::Part;
use crate::disk::format::xl_meta::Version;
use crate::disk::format::xl_meta::XlMeta;
use crate::disk::format::xl_meta::keys;
use crate::harness::audit::census::DriveState;
use crate::harness::audit::census::SurplusKind;
use crate::harness::audit::census::VersionCensus;
use crate::harness::audit::census::VersionClass;
use crate::value::Digest;
use crate::value::VersionId;

const KEY: &str = "some/key";
const NULL: VersionId = VersionId::NULL;

/// Drives that a test writes.
struct Drives {
    folder: TempDir,
    formats: Vec<FormatJson>,
}

/// One version to be written.
#[derive(Clone)]
struct Put<'a> {
    key: &'a str,
    version: VersionId,
    modtime_ns: i64,
    contents: &'a [u8],
    parity: usize,
    inline: bool,
}

impl Drives {
    fn new(sets: usize, slots: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let id = |set: usize, slot: usize| Uuid::from_u128(0x100 + (set * 16 + slot) as u128);
        let ids = (0..sets).map(|set| (0..slots).map(|slot| id(set, slot)).collect::<Vec<_>>());
        let ids = ids.collect::<Vec<_>>();
        let deployment = Uuid::from_u128(7);
        let format = |this: &Uuid| FormatJson::new(deployment, *this, ids.clone());
        let formats = ids.iter().flatten().map(format).collect::<Vec<_>>();
        let drives = Self { folder, formats };
        for (index, format) in drives.formats.iter().enumerate() {
            fs::create_dir_all(drives.path(index, layout::SYSTEM)).unwrap();
            fs::create_dir_all(drives.path(index, "bucket")).unwrap();
            fs::write(drives.path(index, layout::FORMAT), format.encode()).unwrap();
        }
        drives
    }

    fn path(&self, drive: usize, path: &str) -> PathBuf {
        self.folder.path().join(format!("d{drive}")).join(path)
    }

    fn sources(&self) -> Vec<DriveSource> {
        let source = |drive| DriveSource {
            name: format!("d{drive}"),
            root: self.folder.path().join(format!("d{drive}")),
        };
        (0..self.formats.len()).map(source).collect()
    }

    fn census(&self) -> Census {
        take(&self.sources(), &AuditOptions::default()).unwrap()
    }

    fn meta(&self, drive: usize, key: &str) -> XlMeta {
        fs::read(self.path(drive, &layout::meta_path("bucket", key)))
            .map(|bytes| XlMeta::parse(&bytes).unwrap())
            .unwrap_or_default()
    }

    fn write_meta(&self, drive: usize, key: &str, meta: &XlMeta) {
        fs::create_dir_all(self.path(drive, &layout::key_dir("bucket", key))).unwrap();
        fs::write(self.path(drive, &layout::meta_path("bucket", key)), meta.encode()).unwrap();
    }

    /// Writes a version to the given drives of the set where it belongs.
    fn put_on(&self, drives: &[usize], put: &Put<'_>) {
        let slots = self.formats[0].xl.sets[0].len();
        let first = layout::set_of(self.formats[0].id, put.key, self.formats.len() / slots) * slots;
        let (object, shards) = object(put, slots);
        for slot in drives {
            let drive = first + slot;
            let shard = usize::from(object.distribution[*slot]);
            let own = ObjectBody { shard, ..object.clone() };
            let file = shards[shard - 1].clone();
            let mut meta = self.meta(drive, put.key);
            if !put.inline {
                let folder = layout::data_dir("bucket", put.key, object.data_dir);
                fs::create_dir_all(self.path(drive, &folder)).unwrap();
                fs::write(self.path(drive, &format!("{folder}/part.1")), &file).unwrap();
            }
            meta.insert(Version::object(own), put.inline.then_some(file));
            self.write_meta(drive, put.key, &meta);
        }
    }

    fn mark_on(&self, drives: &[usize], version: VersionId, modtime_ns: i64) {
        for drive in drives {
            let mut meta = self.meta(*drive, KEY);
            meta.insert(Version::marker(version, modtime_ns), None);
            self.write_meta(*drive, KEY, &meta);
        }
    }

    /// The object's shard file on a drive.
    fn part(&self, drive: usize) -> PathBuf {
        let meta = self.meta(drive, KEY);
        let object = meta.versions().iter().find_map(Version::as_object).unwrap();
        self.path(drive, &layout::part_path("bucket", KEY, object.data_dir, 1))
    }
}

/// An object and its shard files.
fn object(put: &Put<'_>, slots: usize) -> (ObjectBody, Vec<Vec<u8>>) {
    let data = slots - put.parity;
    let etag = hex::encode(Md5::digest(put.contents));
    let size = put.contents.len() as u64;
    let mut object = ObjectBody {
        version: put.version,
        data_dir: Uuid::from_u128(put.modtime_ns as u128 | 1 << 100),
        erasure_algorithm: 1,
        data,
        parity: put.parity,
        block_bytes: frame::BLOCK_BYTES,
        shard: 1,
        distribution: layout::distribution("bucket", put.key, slots),
        checksum_algorithm: 1,
        parts: vec![Part {
            number: 1,
            size,
            actual_size: size as i64,
            etag: etag.clone(),
            index: Vec::new(),
        }],
        size,
        modtime_ns: put.modtime_ns,
        system: BTreeMap::new(),
        user: BTreeMap::from([(keys::ETAG.to_owned(), etag)]),
        unknown: Vec::new(),
    };
    if put.inline {
        object.set_system(keys::INLINE_DATA, "true");
    }
    let erasure = Erasure::new(data, put.parity).unwrap();
    let mut files = vec![Vec::new(); slots];
    for block in put.contents.chunks(frame::BLOCK_BYTES as usize) {
        for (file, shard) in files.iter_mut().zip(erasure.encode_block(block)) {
            frame::encode(&shard, file);
        }
    }
    (object, files)
}

fn contents(length: usize) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(length as u64);
    (0..length).map(|_| random.random()).collect()
}

fn put(contents: &[u8]) -> Put<'_> {
    Put {
        key: KEY,
        version: NULL,
        modtime_ns: 1_000,
        contents,
        parity: 2,
        inline: contents.len() < 1000,
    }
}

fn only(census: &Census) -> &VersionCensus {
    assert_eq!((census.keys.len(), census.keys[0].versions.len()), (1, 1), "{census:#?}");
    &census.keys[0].versions[0]
}

/// What is told of the only version: its class, good shards, and each problem's drive and kind.
fn told(drives: &Drives) -> (VersionClass, usize, Vec<(String, ProblemKind)>) {
    let census = drives.census();
    let version = only(&census);
    let problems = version.problems.iter().map(|it| (it.drive.clone(), it.kind)).collect();
    (version.class, version.good_shards, problems)
}

fn on(drives: &[usize], kind: ProblemKind) -> Vec<(String, ProblemKind)> {
    drives.iter().map(|drive| (format!("d{drive}"), kind)).collect()
}

const ALL: [usize; 4] = [0, 1, 2, 3];

#[test]
fn whole_versions_are_full_and_read_exactly() {
    for length in [0, 1, 7, 999, 1000, 100_000, (1 << 20) + 1, 3 << 20] {
        let drives = Drives::new(1, 4);
        let contents = contents(length);
        drives.put_on(&ALL, &put(&contents));
        let census = drives.census();
        let version = only(&census);
        assert_eq!(version.class, VersionClass::Full, "{length}: {version:#?}");
        assert_eq!(version.digest, Some(Digest::of(&contents)));
        assert_eq!((version.good_shards, version.margin, version.metadata_copies), (4, 2, 4));
        assert!(census.keys[0].same_order && census.surplus.is_empty());
        assert!(census.drives.iter().all(|drive| drive.state == DriveState::Member));
    }
}

#[test]
fn the_census_does_not_depend_on_threads_or_order() {
    let drives = Drives::new(2, 4);
    let contents = contents(50_000);
    for number in 0..20 {
        let key = format!("key-{number}");
        drives.put_on(&[0, 1, 3], &Put { key: &key, ..put(&contents) });
    }
    let census = drives.census();
    let one = take(&drives.sources(), &AuditOptions { threads: 1, ..AuditOptions::default() });
    assert_eq!(one.unwrap(), census);
    let mut sources = drives.sources();
    sources.reverse();
    assert_eq!(take(&sources, &AuditOptions::default()).unwrap(), census);
    let sets = census.keys.iter().map(|key| key.set).collect::<BTreeSet<_>>();
    assert_eq!(sets, BTreeSet::from([0, 1]));
}

#[test]
fn classes_follow_what_is_left() {
    use VersionClass::*;
    let large = contents(5000);
    let small = contents(50);
    for contents in [&large, &small] {
        let drives = Drives::new(1, 4);
        drives.put_on(&ALL, &put(contents));
        // A blank drive cannot say that it never had the version.
        for (blanked, class) in [(3, Degraded), (2, AtRisk), (1, Unreadable)] {
            fs::remove_dir_all(drives.path(blanked, "")).unwrap();
            fs::create_dir(drives.path(blanked, "")).unwrap();
            let (found, good, problems) = told(&drives);
            assert_eq!((found, good), (class, blanked));
            let gone = (blanked..4).collect::<Vec<_>>();
            assert_eq!(problems, on(&gone, ProblemKind::MetadataMissing));
        }
    }
    // Drives that are whole and lack it say that it was never acknowledged.
    let drives = Drives::new(1, 4);
    drives.put_on(&[0, 2], &put(&large));
    let (class, good, problems) = told(&drives);
    assert_eq!((class, good), (Uncommitted, 2));
    assert_eq!(problems, on(&[1, 3], ProblemKind::MetadataMissing));
    drives.put_on(&[3], &put(&large));
    assert_eq!(told(&drives).0, Degraded);
}

#[test]
fn delete_markers_are_counted() {
    let drives = Drives::new(1, 4);
    drives.mark_on(&ALL, VersionId([1; 16]), 5);
    assert_eq!(told(&drives), (VersionClass::Full, 4, vec![]));
    assert!(only(&drives.census()).delete_marker);
    fs::remove_dir_all(drives.path(1, "bucket/some")).unwrap();
    assert_eq!(told(&drives), (VersionClass::Degraded, 3, on(&[1], ProblemKind::MetadataMissing)));
    fs::remove_dir_all(drives.path(2, "bucket/some")).unwrap();
    assert_eq!(told(&drives).0, VersionClass::Uncommitted);
}

#[test]
fn a_stale_copy_is_told_and_a_split_is_divergent() {
    let (old, new) = (contents(60), contents(70));
    let drives = Drives::new(1, 4);
    drives.put_on(&ALL, &put(&old));
    drives.put_on(&[0, 1, 2], &Put { modtime_ns: 2_000, ..put(&new) });
    let census = drives.census();
    assert_eq!(only(&census).digest, Some(Digest::of(&new)));
    assert!(!census.keys[0].same_order);
    assert_eq!(told(&drives), (VersionClass::Degraded, 3, on(&[3], ProblemKind::VersionDiffers)));
    drives.put_on(&[2], &put(&old));
    assert_eq!(told(&drives).0, VersionClass::Divergent);
    assert_eq!(only(&drives.census()).digest, Some(Digest::of(&new)));
}

#[test]
fn one_moment_with_two_identities_is_divergent() {
    let drives = Drives::new(1, 4);
    let contents = contents(60);
    drives.put_on(&ALL, &put(&contents));
    let mut meta = drives.meta(1, KEY);
    let tagged = meta.versions()[0].with_object(|object| {
        object.user.insert(keys::TAGGING.to_owned(), "a=b".to_owned());
    });
    let value = meta.inline(NULL).map(<[u8]>::to_vec);
    meta.insert(tagged.unwrap(), value);
    drives.write_meta(1, KEY, &meta);
    let (class, good, problems) = told(&drives);
    assert_eq!((class, good), (VersionClass::Divergent, 3));
    assert_eq!(problems, on(&[1], ProblemKind::VersionDiffers));
}

#[test]
fn two_null_versions_are_told() {
    let drives = Drives::new(1, 4);
    let (old, new) = (contents(60), contents(70));
    drives.put_on(&ALL, &put(&new));
    for drive in ALL {
        let mut meta = drives.meta(drive, KEY);
        let older = Put { modtime_ns: 500, ..put(&old) };
        let (mut body, _) = object(&older, 4);
        body.shard = usize::from(body.distribution[drive]);
        meta.insert_twice(Version::object(body));
        drives.write_meta(drive, KEY, &meta);
    }
    let (class, _, problems) = told(&drives);
    assert_eq!(problems, on(&ALL, ProblemKind::DuplicateVersion));
    assert_ne!(class, VersionClass::Full);
    let census = drives.census();
    assert_eq!(only(&census).digest, Some(Digest::of(&new)));
    assert!(census.keys[0].problems.iter().all(|it| it.kind == ProblemKind::DuplicateVersion));
}

#[test]
fn a_shard_in_the_wrong_place_is_found_with_and_without_help() {
    let contents = contents(2_500_000);
    let drives = Drives::new(1, 4);
    drives.put_on(&ALL, &put(&contents));
    let files = ALL.map(|drive| fs::read(drives.part(drive)).unwrap());
    fs::write(drives.part(1), &files[3]).unwrap();
    assert_eq!(told(&drives), (VersionClass::Degraded, 3, on(&[1], ProblemKind::ShardMisplaced)));
    assert_eq!(only(&drives.census()).digest, Some(Digest::of(&contents)));
    // With another drive gone, only the ETag tells which of the three is wrong.
    fs::remove_file(drives.part(0)).unwrap();
    let (class, good, mut problems) = told(&drives);
    problems.retain(|(_, kind)| *kind != ProblemKind::PartMissing);
    assert_eq!((class, good), (VersionClass::AtRisk, 2));
    assert_eq!(problems, on(&[1], ProblemKind::ShardMisplaced));
    assert_eq!(only(&drives.census()).digest, Some(Digest::of(&contents)));
}

#[test]
fn what_nothing_stored_can_settle_is_divergent_and_names_all() {
    let contents = contents(5000);
    let drives = Drives::new(1, 2);
    drives.put_on(&[0, 1], &Put { parity: 1, ..put(&contents) });
    for drive in [0, 1] {
        let mut meta = drives.meta(drive, KEY);
        let encoded = meta.versions()[0]
            .with_object(|object| object.set_system(keys::COMPRESSION, "zstd"))
            .unwrap();
        meta.insert(encoded, None);
        drives.write_meta(drive, KEY, &meta);
    }
    assert_eq!(told(&drives).0, VersionClass::Full);
    assert_eq!(only(&drives.census()).digest, None, "the contents are not the client's");
    let mut file = Vec::new();
    frame::encode(&vec![5; 5000], &mut file);
    fs::write(drives.part(1), file).unwrap();
    let (class, _, problems) = told(&drives);
    assert_eq!(class, VersionClass::Divergent);
    assert_eq!(problems, on(&[0, 1], ProblemKind::ShardMisplaced));
}

#[test]
fn contents_that_are_not_what_their_etag_says_are_divergent() {
    let drives = Drives::new(1, 4);
    let contents = contents(60);
    drives.put_on(&ALL, &put(&contents));
    for drive in ALL {
        let mut meta = drives.meta(drive, KEY);
        let value = meta.inline(NULL).map(<[u8]>::to_vec);
        let wrong = meta.versions()[0].with_object(|object| {
            object.user.insert(keys::ETAG.to_owned(), "0".repeat(32));
        });
        meta.insert(wrong.unwrap(), value);
        drives.write_meta(drive, KEY, &meta);
    }
    let (class, _, problems) = told(&drives);
    assert_eq!(class, VersionClass::Divergent);
    assert_eq!(problems, on(&ALL, ProblemKind::ContentMismatch));
    let blind = AuditOptions { contents: false, ..AuditOptions::default() };
    assert_eq!(only(&take(&drives.sources(), &blind).unwrap()).class, VersionClass::Full);
}

#[test]
fn metadata_that_contradicts_itself_is_told() {
    let contents = contents(60);
    let spoilt: [fn(&mut ObjectBody); 3] = [
        |object| object.shard = object.shard % 4 + 1,
        |object| object.size += 1,
        |object| object.distribution.swap(0, 1),
    ];
    for spoil in spoilt {
        let drives = Drives::new(1, 4);
        drives.put_on(&ALL, &put(&contents));
        let mut meta = drives.meta(2, KEY);
        let value = meta.inline(NULL).map(<[u8]>::to_vec);
        meta.insert(meta.versions()[0].with_object(spoil).unwrap(), value);
        drives.write_meta(2, KEY, &meta);
        let (class, good, problems) = told(&drives);
        assert_eq!(good, 3);
        assert_ne!(class, VersionClass::Full);
        assert!(problems.iter().all(|(drive, _)| drive == "d2"), "{problems:?}");
        assert_eq!(problems.len(), 1);
    }
}

#[test]
fn a_key_in_the_wrong_set_is_told() {
    let drives = Drives::new(2, 4);
    let contents = contents(60);
    drives.put_on(&ALL, &put(&contents));
    let home = layout::set_of(drives.formats[0].id, KEY, 2) * 4;
    let away = (home + 4) % 8;
    let meta = drives.meta(home + 1, KEY);
    drives.write_meta(away + 1, KEY, &meta);
    let census = drives.census();
    assert_eq!(census.keys.len(), 1);
    assert_eq!(only(&census).class, VersionClass::Full);
    let problem = &census.keys[0].problems[0];
    assert_eq!(
        (problem.drive.clone(), problem.kind),
        (format!("d{}", away + 1), ProblemKind::WrongSet)
    );
}

#[test]
fn drives_that_do_not_belong_are_told() {
    let drives = Drives::new(1, 4);
    let contents = contents(60);
    drives.put_on(&ALL, &put(&contents));
    let state = |drives: &Drives, drive: usize| drives.census().drives[drive].state;
    let mut foreign = drives.formats[1].clone();
    foreign.id = Uuid::from_u128(99);
    fs::write(drives.path(1, layout::FORMAT), foreign.encode()).unwrap();
    assert_eq!(state(&drives, 1), DriveState::Foreign);
    assert_eq!(told(&drives).1, 3);
    fs::write(drives.path(1, layout::FORMAT), b"{").unwrap();
    assert_eq!(state(&drives, 1), DriveState::Unreadable);
    fs::write(drives.path(1, layout::FORMAT), drives.formats[2].encode()).unwrap();
    assert_eq!(state(&drives, 1), DriveState::Foreign, "the same id twice");
    fs::remove_file(drives.path(1, layout::FORMAT)).unwrap();
    assert_eq!(state(&drives, 1), DriveState::Blank);
    fs::remove_dir_all(drives.path(1, "")).unwrap();
    assert_eq!(state(&drives, 1), DriveState::Missing);
    let three =
        drives.sources().into_iter().filter(|source| source.name != "d1").collect::<Vec<_>>();
    let census = take(&three, &AuditOptions::default()).unwrap();
    assert_eq!(census.drives[1].state, DriveState::Missing);
    assert_eq!(census.drives[1].name, "set 0 slot 1");
    fs::write(drives.path(2, layout::HEALING), b"").unwrap();
    assert_eq!(drives.census().drives[2].problems.len(), 1);

    let other = Drives::new(1, 4);
    let mut format = other.formats[0].clone();
    format.id = Uuid::from_u128(99);
    fs::write(other.path(0, layout::FORMAT), format.encode()).unwrap();
    let both = [other.sources()[0].clone(), drives.sources()[0].clone()];
    assert!(matches!(take(&both, &AuditOptions::default()), Err(AuditError::TwoDeployments)));
    let none = [DriveSource { name: "x".into(), root: drives.path(0, "bucket") }];
    assert!(matches!(take(&none, &AuditOptions::default()), Err(AuditError::NoDeployment { .. })));
    assert!(matches!(take(&[], &AuditOptions::default()), Err(AuditError::NoDrives)));
}

#[test]
fn what_belongs_to_nobody_is_surplus_and_child_keys_are_not() {
    let drives = Drives::new(1, 4);
    let contents = contents(5000);
    drives.put_on(&ALL, &put(&contents));
    let child = format!("{KEY}/{}", Uuid::from_u128(0xc0ffee));
    let grandchild = format!("{child}/x");
    for key in [&child, &grandchild] {
        drives.put_on(&ALL, &Put { key, ..put(&contents) });
    }
    assert!(drives.census().surplus.is_empty());
    assert_eq!(drives.census().keys.len(), 3);
    let data_dir = layout::data_dir("bucket", KEY, object(&put(&contents), 4).0.data_dir);
    let orphan = format!("bucket/{KEY}/{}", Uuid::from_u128(0xdead));
    let rollback = format!("bucket/{KEY}/{}", layout::rollback_dir(NULL));
    let deleted = format!("bucket/{KEY}/{}", Uuid::from_u128(0xde1e));
    let expected = [
        (format!("{orphan}/part.1"), SurplusKind::OrphanDataDir, orphan.clone()),
        (format!("{rollback}/xl.meta.bkp"), SurplusKind::Transient, rollback.clone()),
        (format!("{deleted}/delete-data.x"), SurplusKind::Transient, deleted.clone()),
        (format!("{data_dir}/part.2"), SurplusKind::UploadLeftover, format!("{data_dir}/part.2")),
        (
            format!("{data_dir}/part.1.meta"),
            SurplusKind::UploadLeftover,
            format!("{data_dir}/part.1.meta"),
        ),
        (format!("{data_dir}/noise"), SurplusKind::Unknown, format!("{data_dir}/noise")),
        (
            ".rustfs.sys/tmp/abc/xl.meta".into(),
            SurplusKind::Temporary,
            ".rustfs.sys/tmp/abc".into(),
        ),
        (
            ".rustfs.sys/tmp/.trash/abc".into(),
            SurplusKind::Trash,
            ".rustfs.sys/tmp/.trash/abc".into(),
        ),
        (
            ".rustfs.sys/quarantine/q/xl.meta".into(),
            SurplusKind::Quarantined,
            ".rustfs.sys/quarantine/q".into(),
        ),
        ("bucket/stray".into(), SurplusKind::Unknown, "bucket/stray".into()),
    ];
    for (file, _, _) in &expected {
        let path = drives.path(1, file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, b"12345").unwrap();
    }
    // A newer server's proof of a shard belongs there.
    fs::write(drives.path(1, &format!("{data_dir}/part.1.integrity.{}", Uuid::nil())), b"x")
        .unwrap();
    let name = layout::UploadName { id: Uuid::from_u128(5), opened_ns: 6 };
    let upload = layout::upload_dir("bucket", "upload", name);
    fs::create_dir_all(drives.path(1, &upload)).unwrap();
    fs::write(drives.path(1, &format!("{upload}/xl.meta")), b"12345").unwrap();
    let mut wanted = expected.map(|(_, kind, path)| (path, kind)).to_vec();
    wanted.push((upload, SurplusKind::OpenUpload));
    wanted.sort();
    let census = drives.census();
    let found = census.surplus.iter().map(|it| (it.path.clone(), it.kind)).collect::<Vec<_>>();
    assert_eq!(found, wanted);
    assert!(census.surplus.iter().all(|it| it.drive == "d1" && it.bytes == 5));
    assert_eq!(census.keys.len(), 3);
}

#[test]
fn whatever_happens_to_a_key_meanwhile_is_seen() {
    let drives = Drives::new(1, 4);
    let contents = contents(5000);
    drives.put_on(&ALL, &put(&contents));
    drives.put_on(&ALL, &Put { key: "quiet", ..put(&contents) });
    let look = || {
        let pool = Pool::open(&drives.sources()).unwrap();
        walk_all(&pool, &AuditOptions::default())
    };
    let before = look();
    assert_eq!(moving(&before, &look()), []);
    let acts: [&dyn Fn(); 3] = [
        &|| drives.put_on(&[1], &Put { modtime_ns: 9_000, ..put(&contents) }),
        &|| fs::write(drives.part(2), b"other").unwrap(),
        &|| fs::remove_dir_all(drives.path(3, "bucket/some")).unwrap(),
    ];
    for act in acts {
        let before = look();
        act();
        let key = ObjectKey { bucket: "bucket".into(), key: KEY.into() };
        assert_eq!(moving(&before, &look()), [key]);
    }
}
