//! Drives that a real server wrote, held against what is known of them; then damaged one act at a time.
//!
//! Goal: the census says of every version exactly what is so. The drives lie in the folder that the
//! variable FIREDRILL_GOLDEN names; without it, or without the program `zstd`, each trial is ignored and the
//! last lines say how many were.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;
use std::process::ExitCode;
use std::process::Stdio;

use firedrill::disk::format::bucket::BucketMetadata;
use firedrill::disk::format::checksum::Record;
use firedrill::disk::format::upload::PartMeta;
use firedrill::disk::format::xl_meta::XlMeta;
use firedrill::disk::format::xl_meta::keys;
use firedrill::harness::audit;
use firedrill::harness::audit::AuditOptions;
use firedrill::harness::audit::DriveSource;
use firedrill::harness::audit::census::Census;
use firedrill::harness::audit::census::ProblemKind;
use firedrill::harness::audit::census::SurplusKind;
use firedrill::harness::audit::census::VersionCensus;
use firedrill::harness::audit::census::VersionClass;
use libtest_mimic::Arguments;
use libtest_mimic::Failed;
use libtest_mimic::Trial;
use serde_json::Value;
use tempfile::TempDir;

const CASES: [&str; 7] =
    ["ec4-2", "ec4-2-sc", "versions", "multipart", "single-drive", "3x4", "degraded"];

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let golden = golden();
    if let Err(reason) = &golden {
        eprintln!("golden: every trial is ignored, {reason}");
    }
    let folder = golden.clone().unwrap_or_default();
    let mut trials = Vec::new();
    for case in CASES {
        let root = folder.join("objects").join(case);
        let at = root.clone();
        trials.push(Trial::test(format!("census::{case}"), move || agrees(&at)));
        let at = root.clone();
        trials.push(Trial::test(format!("bytes::{case}"), move || comes_back(&at)));
    }
    for (case, bucket) in [("versions", "many"), ("multipart", "mpu"), ("3x4", "dist")] {
        let at = folder.join("objects").join(case);
        trials.push(Trial::test(format!("damage::{case}"), move || is_told(&at, bucket)));
    }
    let trials = trials.into_iter().map(|trial| trial.with_ignored_flag(golden.is_err()));
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Where the drives are, or why nothing can be tried.
fn golden() -> Result<PathBuf, String> {
    let folder = env::var_os("FIREDRILL_GOLDEN").ok_or("FIREDRILL_GOLDEN is not set")?;
    let folder = PathBuf::from(folder);
    if !folder.join("objects").is_dir() {
        return Err(format!("{} has no folder `objects`", folder.display()));
    }
    let zstd = Command::new("zstd").arg("--version").stdout(Stdio::null()).status();
    if !zstd.is_ok_and(|status| status.success()) {
        return Err("the program `zstd` is not installed".to_owned());
    }
    Ok(folder)
}

/// One case, unpacked.
struct Case {
    folder: TempDir,
    expected: Value,
    drives: Vec<String>,
}

impl Case {
    fn unpack(case: &Path) -> Self {
        let folder = TempDir::new().unwrap();
        let mut zstd = Command::new("zstd")
            .arg("-qdc")
            .arg(case.join("drives.tar.zst"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let tar = Command::new("tar")
            .args(["-x", "--no-same-owner", "-C"])
            .arg(folder.path())
            .stdin(zstd.stdout.take().unwrap())
            .status()
            .unwrap();
        assert!(tar.success() && zstd.wait().unwrap().success());
        let expected: Value =
            serde_json::from_slice(&fs::read(case.join("expected.json")).unwrap()).unwrap();
        let drives = expected["drives"].as_array().unwrap().iter();
        let drives = drives.map(|drive| drive["dir"].as_str().unwrap().to_owned()).collect();
        Self { folder, expected, drives }
    }

    fn path(&self, drive: &str, path: &str) -> PathBuf {
        self.folder.path().join(drive).join(path)
    }

    fn census(&self) -> Census {
        let sources = self
            .drives
            .iter()
            .map(|name| DriveSource { name: name.clone(), root: self.folder.path().join(name) });
        audit::take(&sources.collect::<Vec<_>>(), &AuditOptions::default()).unwrap()
    }
}

/// Every key, version, number and class, as the client and the list of damages know them.
fn agrees(case: &Path) -> Result<(), Failed> {
    let case = Case::unpack(case);
    let census = case.census();
    let mut complaints = Vec::new();
    let mut say = |text: String| complaints.push(text);
    if census.deployment.as_deref() != case.expected["deployment_id"].as_str() {
        say(format!("deployment {:?}", census.deployment));
    }
    let mut found = BTreeMap::new();
    for key in &census.keys {
        let users = key.target.bucket != ".rustfs.sys";
        if users && found.insert(key.target.to_string(), key).is_some() {
            say(format!("{} is told twice", key.target));
        }
    }
    let is_damaged = case.expected["damage"].is_array();
    let mut examined = 0;
    for (bucket, facts) in case.expected["buckets"].as_object().unwrap() {
        if !census.buckets.iter().any(|it| it.name == *bucket) {
            say(format!("bucket {bucket} is missing"));
        }
        for (key, facts) in facts["keys"].as_object().unwrap() {
            let name = format!("{bucket}/{key}");
            let Some(key) = found.remove(&name) else {
                say(format!("{name} is missing"));
                continue;
            };
            let expected = facts["versions"].as_array().unwrap();
            let ids = key.versions.iter().map(|it| it.version.to_string()).collect::<Vec<_>>();
            let wanted = expected.iter().map(|it| it["version_id"].as_str().unwrap());
            if !ids.iter().map(String::as_str).eq(wanted.clone()) {
                say(format!("{name}: {ids:?}, not {:?}", wanted.collect::<Vec<_>>()));
                continue;
            }
            if !(is_damaged || key.same_order && key.problems.is_empty()) {
                say(format!("{name}: {:?}", key.problems));
            }
            for (version, expected) in key.versions.iter().zip(expected) {
                examined += 1;
                for complaint in differences(version, expected, case.drives.len()) {
                    say(format!("{name} {}: {complaint}", version.version));
                }
            }
        }
    }
    found.keys().for_each(|name| say(format!("{name} should not be there")));
    if !is_damaged {
        let system = census.keys.iter().filter(|key| key.target.bucket == ".rustfs.sys");
        for key in system {
            for version in key.versions.iter().filter(|it| it.class != VersionClass::Full) {
                say(format!("{} is {:?}: {:?}", key.target, version.class, version.problems));
            }
        }
    }
    // What the stock server leaves lying about, and no more.
    let usual = [
        SurplusKind::Trash,
        SurplusKind::UploadLeftover,
        SurplusKind::OrphanInline,
        SurplusKind::OpenUpload,
    ];
    for surplus in census.surplus.iter().filter(|it| !usual.contains(&it.kind)) {
        let planted = "4462ebfc-5f91-4ef0-9cfb-ac6e7687a66e";
        if !(is_damaged && surplus.drive == "d2" && surplus.path.ends_with(planted)) {
            say(format!("surplus {surplus:?}"));
        }
    }
    let uploads = case.expected["open_uploads"].as_array().map_or(0, Vec::len);
    let open = census.surplus.iter().filter(|it| it.kind == SurplusKind::OpenUpload).count();
    if open != uploads * case.drives.len() {
        say(format!("{open} open uploads"));
    }
    assert!(examined > 10, "{examined} versions examined");
    conclude(&complaints)
}

fn differences(version: &VersionCensus, expected: &Value, drives: usize) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut compare = |what: &str, found: String, wanted: String| {
        if found != wanted {
            complaints.push(format!("{what} is {found}, not {wanted}"));
        }
    };
    let number = |name: &str| expected[name].as_u64();
    let text = |name: &str| expected[name].as_str().map(str::to_owned);
    let marker = expected["delete_marker"].as_bool().unwrap();
    compare("delete_marker", version.delete_marker.to_string(), marker.to_string());
    let modtime = expected["mod_time_ns"].as_i64().unwrap();
    compare("modtime", version.modtime_ns.to_string(), modtime.to_string());
    let good = number("good_shards").or(number("good_copies")).unwrap_or(drives as u64);
    compare("good shards", version.good_shards.to_string(), good.to_string());
    let copies = number("metadata_copies").unwrap_or(drives as u64);
    compare("metadata copies", version.metadata_copies.to_string(), copies.to_string());
    let class = text("class").unwrap_or("full".to_owned()).replace('-', "_");
    compare("class", serde_json::to_value(version.class).unwrap().as_str().unwrap().into(), class);
    let lacking = expected["drives_without_good_copy"].as_array().cloned().unwrap_or_default();
    let lacking = lacking.iter().map(|it| it.as_str().unwrap().to_owned()).collect::<BTreeSet<_>>();
    let told = version.problems.iter().map(|it| it.drive.clone()).collect::<BTreeSet<_>>();
    compare("drives without a good copy", format!("{told:?}"), format!("{lacking:?}"));
    if marker {
        return complaints;
    }
    compare("size", version.size.to_string(), number("size").unwrap().to_string());
    compare("etag", format!("{:?}", version.etag), format!("{:?}", text("etag")));
    let data = number("data_shards").unwrap();
    compare("data shards", version.data_shards.to_string(), data.to_string());
    let parity = number("parity_shards").unwrap().to_string();
    compare("parity shards", version.parity_shards.to_string(), parity);
    // What is read of an empty object is its metadata alone.
    let needed = if version.size == 0 { drives - drives / 2 } else { data as usize };
    let margin = good as i64 - needed as i64;
    compare("margin", version.margin.to_string(), margin.to_string());
    let readable = good >= data;
    let sha256 = text("sha256").filter(|_| readable);
    let digest = version.digest.map(|digest| digest.to_string());
    compare("sha256", format!("{digest:?}"), format!("{sha256:?}"));
    complaints
}

/// Every file that we decode is written again to the same bytes, and passes the rules of the format.
fn comes_back(case: &Path) -> Result<(), Failed> {
    let case = Case::unpack(case);
    let mut complaints = Vec::new();
    let mut metas = 0;
    for path in files_below(case.folder.path()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let shown = path.strip_prefix(case.folder.path()).unwrap().display().to_string();
        let bytes = fs::read(&path).unwrap();
        if name == "xl.meta" {
            let meta = match XlMeta::parse(&bytes) {
                Ok(meta) => meta,
                // The one that was cut short on purpose.
                Err(_) if shown == "d3/cycle/null-then-real/xl.meta" => continue,
                Err(error) => {
                    complaints.push(format!("{shown}: {error}"));
                    continue;
                }
            };
            metas += 1;
            if meta.encode() != bytes {
                complaints.push(format!("{shown} comes back differently"));
            }
            for version in meta.versions() {
                if let Err(error) = version.check() {
                    complaints.push(format!("{shown} {}: {error}", version.id()));
                }
                if version.computed_signature() != version.header().signature {
                    complaints.push(format!("{shown} {}: signature", version.id()));
                }
                // Made anew from its facts, the order of metadata keys apart.
                let Some(object) = version.as_object() else { continue };
                let anew = version.with_object(|_| ()).unwrap();
                if anew.header_bytes() != version.header_bytes() || anew.as_object() != Some(object)
                {
                    complaints.push(format!("{shown} {}: not the same anew", version.id()));
                }
                let record = object.system(keys::CHECKSUM).unwrap_or_default();
                if Record::encode_all(&Record::parse_all(record).unwrap()) != record {
                    complaints.push(format!("{shown} {}: checksum record", version.id()));
                }
            }
        } else if name.starts_with("part.") && name.ends_with(".meta") {
            match PartMeta::parse(&bytes) {
                Ok(part) if part.encode() == bytes => {}
                other => complaints.push(format!("{shown}: {other:?}")),
            }
        }
    }
    assert!(metas > 30, "{metas} files examined");
    buckets_come_back(&case, &mut complaints);
    conclude(&complaints)
}

/// The metadata objects of buckets: decoded by joining the data shards of their inline values.
fn buckets_come_back(case: &Case, complaints: &mut Vec<String>) {
    for (bucket, facts) in case.expected["buckets"].as_object().unwrap() {
        let mut shards = BTreeMap::new();
        let mut size = 0;
        for drive in &case.drives {
            let path =
                case.path(drive, &format!(".rustfs.sys/buckets/{bucket}/.metadata.bin/xl.meta"));
            let Ok(bytes) = fs::read(path) else { continue };
            let meta = XlMeta::parse(&bytes).unwrap();
            let version = meta.latest().unwrap();
            let object = version.as_object().unwrap();
            size = object.size as usize;
            if object.shard <= object.data {
                shards.insert(object.shard, meta.inline(version.id()).unwrap()[32..].to_vec());
            }
            if case.drives.len() > 1 && shards.len() == object.data {
                break;
            }
        }
        let mut bytes = shards.into_values().collect::<Vec<_>>().concat();
        if bytes.len() < size {
            continue; // A data shard was on the drive that was emptied.
        }
        bytes.truncate(size);
        let metadata = BucketMetadata::parse(&bytes).unwrap();
        let state = format!("{:?}", metadata.versioning());
        let wanted = facts["versioning"].as_str().unwrap().replace("off", "Unversioned");
        if metadata.name != *bucket || metadata.encode() != bytes || state != wanted {
            complaints.push(format!("bucket metadata of {bucket}: {state}"));
        }
    }
}

/// Damages one thing at a time: exactly that drive and version must be told, then nothing after the repair.
fn is_told(case: &Path, bucket: &str) -> Result<(), Failed> {
    let case = Case::unpack(case);
    let whole = case.census();
    let mut complaints = Vec::new();
    let mut acts = 0;
    let keys = whole.keys.iter().filter(|key| key.target.bucket == bucket).collect::<Vec<_>>();
    assert!(!keys.is_empty(), "there is no bucket {bucket}");
    for key in keys {
        let place = format!("{bucket}/{}", key.target.key);
        let drive = &case.drives[acts % case.drives.len()];
        let other = &case.drives[(acts + 1) % case.drives.len()];
        let meta_path = case.path(drive, &format!("{place}/xl.meta"));
        let Ok(bytes) = fs::read(&meta_path) else { continue };
        let meta = XlMeta::parse(&bytes).unwrap();
        let every = meta.versions().iter().map(|it| it.id().to_string()).collect::<BTreeSet<_>>();

        // A bit of the metadata: every version on this drive is the worse for it.
        let middle = 13 + (bytes.len() - 13).min(400) / 2;
        flip(&meta_path, middle);
        expect(
            &case,
            &mut complaints,
            "a bit of xl.meta",
            &place,
            &every,
            &[drive],
            &[ProblemKind::MetadataCorrupt],
        );
        flip(&meta_path, middle);
        acts += 1;

        let newest = meta.versions().iter().filter_map(|version| version.as_object());
        for object in newest.filter(|object| object.size > 64).take(2) {
            let this = BTreeSet::from([object.version.to_string()]);
            let name = format!("{}/{}", object.data_dir.hyphenated(), "part.1");
            if object.is_inline() {
                let value = meta.inline(object.version).unwrap();
                let at = position(&bytes, value).unwrap();
                for offset in [at, at + 32, at + value.len() - 1] {
                    flip(&meta_path, offset);
                    expect(
                        &case,
                        &mut complaints,
                        "a bit of an inline value",
                        &place,
                        &this,
                        &[drive],
                        &[ProblemKind::FrameCorrupt],
                    );
                    flip(&meta_path, offset);
                    acts += 1;
                }
                exchange_inline(&case, &mut complaints, &place, object.version, drive, other);
            } else if let Some(part) = object.parts.first() {
                let name = name.replace("part.1", &format!("part.{}", part.number));
                let path = case.path(drive, &format!("{place}/{name}"));
                let length = fs::metadata(&path).unwrap().len() as usize;
                for offset in [0, 31, 32, length / 2, length - 1] {
                    flip(&path, offset);
                    expect(
                        &case,
                        &mut complaints,
                        "a bit of a part",
                        &place,
                        &this,
                        &[drive],
                        &[ProblemKind::FrameCorrupt],
                    );
                    flip(&path, offset);
                    acts += 1;
                }
                let second = case.path(other, &format!("{place}/{name}"));
                if fs::read(&path).unwrap() != fs::read(&second).unwrap() {
                    swap_files(&path, &second);
                    expect(
                        &case,
                        &mut complaints,
                        "two parts exchanged",
                        &place,
                        &this,
                        &[drive, other],
                        &[ProblemKind::ShardMisplaced],
                    );
                    swap_files(&path, &second);
                    acts += 1;
                }
                if swap_frames(&path, object.data) {
                    expect(
                        &case,
                        &mut complaints,
                        "two frames exchanged",
                        &place,
                        &this,
                        &[drive],
                        &[ProblemKind::ShardMisplaced],
                    );
                    swap_frames(&path, object.data);
                    acts += 1;
                }
            }
        }
        if acts > 60 {
            break;
        }
    }
    assert!(acts > 5, "{acts} acts of damage");
    if case.census() != whole {
        complaints.push("after the last repair the census is not what it was".to_owned());
    }
    conclude(&complaints)
}

/// Takes the census and holds it against one act of damage.
fn expect(
    case: &Case,
    complaints: &mut Vec<String>,
    act: &str,
    place: &str,
    versions: &BTreeSet<String>,
    drives: &[&String],
    kinds: &[ProblemKind],
) {
    let census = case.census();
    let mut told = BTreeSet::new();
    for key in &census.keys {
        for version in &key.versions {
            for problem in &version.problems {
                let place = key.target.to_string();
                told.insert((
                    place,
                    version.version.to_string(),
                    problem.drive.clone(),
                    problem.kind,
                ));
            }
        }
    }
    let mut wanted = BTreeSet::new();
    for version in versions {
        for drive in drives {
            for kind in kinds {
                wanted.insert((place.to_owned(), version.clone(), (*drive).clone(), *kind));
            }
        }
    }
    if told != wanted {
        complaints.push(format!("{act} of {place}: told {told:?}, wanted {wanted:?}"));
    }
}

fn exchange_inline(
    case: &Case,
    complaints: &mut Vec<String>,
    place: &str,
    version: firedrill::value::VersionId,
    drive: &String,
    other: &String,
) {
    let paths = [drive, other].map(|drive| case.path(drive, &format!("{place}/xl.meta")));
    let files = paths.each_ref().map(|path| fs::read(path).unwrap());
    let metas = files.each_ref().map(|bytes| XlMeta::parse(bytes).unwrap());
    let values = metas.each_ref().map(|meta| meta.inline(version).unwrap().to_vec());
    if values[0] == values[1] {
        return;
    }
    for (index, meta) in metas.iter().enumerate() {
        let mut meta = meta.clone();
        let entry = meta.find(version).unwrap().clone();
        meta.insert(entry, Some(values[1 - index].clone()));
        fs::write(&paths[index], meta.encode()).unwrap();
    }
    let this = BTreeSet::from([version.to_string()]);
    expect(
        case,
        complaints,
        "two inline values exchanged",
        place,
        &this,
        &[drive, other],
        &[ProblemKind::ShardMisplaced],
    );
    for (path, bytes) in paths.iter().zip(&files) {
        fs::write(path, bytes).unwrap();
    }
}

fn flip(path: &Path, offset: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[offset] ^= 0x40;
    fs::write(path, bytes).unwrap();
}

fn swap_files(one: &Path, other: &Path) {
    let (first, second) = (fs::read(one).unwrap(), fs::read(other).unwrap());
    fs::write(one, second).unwrap();
    fs::write(other, first).unwrap();
}

/// Exchanges the first two whole frames of a shard file, if it has two and they differ.
fn swap_frames(path: &Path, data: usize) -> bool {
    let mut bytes = fs::read(path).unwrap();
    let frame = 32 + (1_usize << 20).div_ceil(data);
    if bytes.len() < 2 * frame || bytes[..frame] == bytes[frame..2 * frame] {
        return false;
    }
    let (first, second) = bytes.split_at_mut(frame);
    first.swap_with_slice(&mut second[..frame]);
    fs::write(path, bytes).unwrap();
    true
}

fn position(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes.windows(needle.len()).position(|window| window == needle)
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut open = vec![folder.to_owned()];
    let mut files = Vec::new();
    while let Some(path) = open.pop() {
        if path.ends_with(".trash") {
            continue;
        }
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() { open.push(entry.path()) } else { files.push(entry.path()) }
        }
    }
    files
}

fn conclude(complaints: &[String]) -> Result<(), Failed> {
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("\n").into()) }
}
