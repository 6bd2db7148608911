//! One key: its metadata on every drive of its set, and its versions.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::io::Read as _;
use std::path::Path;

use super::AuditOptions;
use super::census::DriveProblem;
use super::census::KeyCensus;
use super::census::ProblemKind;
use super::census::Surplus;
use super::part::Buffers;
use super::pool::Seat;
use super::surplus;
use super::version;
use super::walk::Dir;
use crate::disk::format::FormatError;
use crate::disk::format::xl_meta::Header;
use crate::disk::format::xl_meta::Version;
use crate::disk::format::xl_meta::XlMeta;
use crate::disk::layout;
use crate::value::ObjectKey;
use crate::value::VersionId;

/// A metadata file that is longer was not written by anybody's mistake.
const META_BYTES_MAX: u64 = 1 << 30;

/// What one drive of the set has of a key.
pub(super) enum Holding {
    /// The drive is not there; why.
    NoDrive(&'static str),
    /// It has no metadata file.
    NoFile,
    /// It has one that does not decode.
    Corrupt(String),
    /// It has one. The second value says why its inline values cannot be read, if so.
    Held(XlMeta, Option<FormatError>),
}

/// One key, with all that the drives have of it.
pub(super) struct Key<'a> {
    pub(super) bucket: &'a str,
    /// The key in its encoded form.
    pub(super) path: &'a str,
    pub(super) set: usize,
    pub(super) seats: &'a [Seat],
    /// By slot; `None` when the drive has nothing by that name.
    pub(super) dirs: Vec<Option<&'a Dir>>,
    pub(super) holdings: Vec<Holding>,
}

/// What was found out about one key.
pub(super) struct KeyFinding {
    /// `None` when no drive has metadata of it.
    pub(super) census: Option<KeyCensus>,
    pub(super) surplus: Vec<Surplus>,
    pub(super) bytes_read: u64,
}

impl<'a> Key<'a> {
    /// Reads the metadata files of one key.
    pub(super) fn read(
        bucket: &'a str,
        path: &'a str,
        set: usize,
        seats: &'a [Seat],
        dirs: Vec<Option<&'a Dir>>,
        bytes_read: &mut u64,
    ) -> Self {
        let holdings = seats
            .iter()
            .zip(&dirs)
            .map(|(seat, dir)| match &seat.root {
                None => Holding::NoDrive(seat.absence),
                Some(_) if dir.is_none_or(|dir| !dir.has_meta) => Holding::NoFile,
                Some(root) => hold(&root.join(meta_path(bucket, path)), bytes_read),
            })
            .collect();
        Self { bucket, path, set, seats, dirs, holdings }
    }

    pub(super) fn judge(self, options: &AuditOptions, buffers: &mut Buffers) -> KeyFinding {
        let mut bytes_read = 0;
        let surplus = surplus::of_key(&self);
        let has_meta =
            |holding: &Holding| matches!(holding, Holding::Held(..) | Holding::Corrupt(_));
        if !self.holdings.iter().any(has_meta) {
            return KeyFinding { census: None, surplus, bytes_read };
        }
        let mut versions = Vec::new();
        for (id, holders) in self.versions() {
            let judged = version::judge(&self, id, &holders, options, buffers, &mut bytes_read);
            versions.push(judged);
        }
        versions.sort_by(|(one, _), (other, _)| one.newest_first(other));
        let census = KeyCensus {
            target: ObjectKey {
                bucket: self.bucket.to_owned(),
                key: layout::decode_key(self.path),
            },
            set: self.set,
            versions: versions.into_iter().map(|(_, census)| census).collect(),
            same_order: self.is_same_everywhere(),
            problems: self.problems(),
        };
        KeyFinding { census: Some(census), surplus, bytes_read }
    }

    pub(super) fn meta_path(&self) -> String {
        meta_path(self.bucket, self.path)
    }

    pub(super) fn problem(
        &self,
        slot: usize,
        kind: ProblemKind,
        path: impl Into<String>,
        detail: impl Into<String>,
    ) -> DriveProblem {
        DriveProblem {
            drive: self.seats[slot].name.clone(),
            kind,
            path: path.into(),
            detail: detail.into(),
        }
    }

    /// All visible versions that any drive holds, with who holds them.
    fn versions(&self) -> BTreeMap<VersionId, Vec<(usize, &Version)>> {
        let mut all = BTreeMap::<VersionId, Vec<(usize, &Version)>>::new();
        for (slot, meta) in self.held() {
            for version in meta.versions().iter().filter(|version| !version.header().is_free()) {
                all.entry(version.id()).or_default().push((slot, version));
            }
        }
        all
    }

    /// Drives whose metadata file could be read.
    pub(super) fn held(&self) -> impl Iterator<Item = (usize, &XlMeta)> {
        self.holdings.iter().enumerate().filter_map(|(slot, holding)| match holding {
            Holding::Held(meta, _) => Some((slot, meta)),
            Holding::NoDrive(_) | Holding::NoFile | Holding::Corrupt(_) => None,
        })
    }

    fn is_same_everywhere(&self) -> bool {
        let mut lists = self.holdings.iter().filter_map(|holding| match holding {
            Holding::NoDrive(_) => None,
            Holding::Held(meta, _) => {
                Some(Some(meta.versions().iter().map(|it| *it.header()).collect::<Vec<_>>()))
            }
            Holding::NoFile | Holding::Corrupt(_) => Some(None),
        });
        let first = lists.next();
        first.as_ref().is_some_and(|list| list.is_some()) && lists.all(|list| Some(list) == first)
    }

    fn problems(&self) -> Vec<DriveProblem> {
        let mut problems = Vec::new();
        for (slot, holding) in self.holdings.iter().enumerate() {
            let mut add = |kind, detail: String| {
                problems.push(self.problem(slot, kind, self.meta_path(), detail));
            };
            match holding {
                Holding::NoDrive(_) => {}
                Holding::NoFile => add(ProblemKind::MetadataMissing, "there is no xl.meta".into()),
                Holding::Corrupt(error) => add(ProblemKind::MetadataCorrupt, error.clone()),
                Holding::Held(meta, inline) => {
                    if let Some(error) = inline {
                        add(ProblemKind::MetadataCorrupt, format!("its inline block: {error}"));
                    }
                    let headers = meta.versions().iter().map(Version::header).collect::<Vec<_>>();
                    let in_order = |pair: &[&Header]| pair[0].newest_first(pair[1]).is_lt();
                    if !headers.windows(2).all(in_order) {
                        let detail = "the versions do not stand newest first".to_owned();
                        add(ProblemKind::Inconsistent, detail);
                    }
                    let mut ids = headers.iter().map(|header| header.version).collect::<Vec<_>>();
                    ids.sort_unstable();
                    if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
                        let detail = format!("version {} stands twice", pair[0]);
                        add(ProblemKind::DuplicateVersion, detail);
                    }
                }
            }
        }
        problems
    }
}

fn meta_path(bucket: &str, path: &str) -> String {
    format!("{bucket}/{path}/{}", layout::META_FILE)
}

fn hold(path: &Path, bytes_read: &mut u64) -> Holding {
    let read = File::open(path).and_then(|file| {
        let mut bytes = Vec::with_capacity(file.metadata()?.len().min(1 << 20) as usize);
        file.take(META_BYTES_MAX + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    });
    let bytes = match read {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Holding::NoFile,
        Err(error) => return Holding::Corrupt(format!("it cannot be read: {error}")),
    };
    *bytes_read += bytes.len() as u64;
    if bytes.len() as u64 > META_BYTES_MAX {
        return Holding::Corrupt("it is larger than a metadata file can be".to_owned());
    }
    match XlMeta::parse_damaged(&bytes) {
        Ok((meta, inline)) => Holding::Held(meta, inline.err()),
        Err(error) => Holding::Corrupt(format!("{error} ({} bytes)", bytes.len())),
    }
}
