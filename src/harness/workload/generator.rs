//! What each client is going to ask, fixed by the seed. Pure.
//!
//! An intent leaves open what only earlier answers can tell (which version, which ETag): the driver
//! fills that in when its turn comes. So the lists, and their digests in the plan, are the same for
//! one seed, whatever becomes of them.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use rand::RngExt as _;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde::Deserialize;
use serde::Serialize;

use super::spec::BucketKind;
use super::spec::LoadSpec;
use super::spec::Mix;
use super::spec::Sizes;
use super::spec::WorkloadSpec;
use crate::value::Digest;
use crate::value::ObjectKey;
use crate::value::Seed;

/// Bytes of a block of the format.
pub const BLOCK_BYTES: u64 = 1 << 20;
/// Bytes of the smallest part that is not an upload's last.
pub const PART_BYTES_MIN: u64 = 5 << 20;
/// Bytes of the largest object.
pub const OBJECT_BYTES_MAX: u64 = 32 << 20;
/// From here on an object is large: at most one operation in twenty.
const LARGE_BYTES: u64 = 2 << 20;
/// Keys of each bucket that are written once, before the load, as sources of copies.
pub const SOURCES: u32 = 2;

/// Something that a client is going to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// Write the key.
    Put {
        /// Where.
        target: ObjectKey,
        /// Bytes.
        size: u64,
        /// What must hold.
        only: Only,
    },
    /// Write the key in parts.
    Multipart {
        /// Where.
        target: ObjectKey,
        /// Bytes of each part.
        parts: Vec<u64>,
    },
    /// Write the key with what a source holds.
    Copy {
        /// Where.
        target: ObjectKey,
        /// Which of the sources that are there, counted round.
        source: u32,
    },
    /// Delete the key without naming a version.
    Delete {
        /// Which.
        target: ObjectKey,
    },
    /// Delete one version.
    DeleteVersion {
        /// Of which key.
        target: ObjectKey,
        /// Which of the versions known by then, counted round.
        pick: u32,
    },
    /// Read contents.
    Read {
        /// Which key.
        target: ObjectKey,
        /// Which of the versions known by then, counted round; `None` for the latest.
        pick: Option<u32>,
        /// The first byte and the number of bytes, in thousandths of the length expected; `None` for all.
        range: Option<(u32, u32)>,
    },
    /// Read metadata.
    Head {
        /// Which key.
        target: ObjectKey,
        /// Which of the versions known by then, counted round; `None` for the latest.
        pick: Option<u32>,
    },
    /// List the latest objects.
    List {
        /// Of which bucket.
        bucket: String,
        /// Only keys that begin so.
        prefix: String,
    },
    /// List all versions.
    ListVersions {
        /// Of which bucket.
        bucket: String,
        /// Only keys that begin so.
        prefix: String,
    },
}

/// What must hold for a write to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Only {
    /// Nothing.
    Always,
    /// The key is absent.
    IfAbsent,
    /// The key still has the ETag that was seen last.
    IfMatch,
}

/// What one client is going to do in one load step, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneList {
    /// The client, unique in the run.
    pub client: u32,
    /// What it does.
    pub intents: Vec<Intent>,
}

impl LaneList {
    /// A digest of the whole list.
    pub fn digest(&self) -> Digest {
        let text = serde_json::to_vec(&self.intents).expect("an intent is plain data");
        Digest::of(&text)
    }
}

/// What a workload will lie on drives at most, before parity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Footprint {
    /// Versions and markers.
    pub versions: u64,
    /// Keys.
    pub keys: u64,
    /// Bytes of contents kept at the peak, one write of each client under way included.
    pub bytes: u64,
}

/// The shape of the cluster, as far as sizes depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Data shards of an object.
    pub data_shards: u64,
}

/// The lists of all clients in every load step of a scenario.
pub fn lists(
    spec: &WorkloadSpec,
    loads: &[LoadSpec],
    geometry: Geometry,
    seed: Seed,
) -> Vec<Vec<LaneList>> {
    let all = loads.iter().map(|load| load.operations).sum::<u64>().max(1);
    let one_load = |(step, load): (usize, &LoadSpec)| {
        let clients = load.clients.unwrap_or(spec.clients).max(1);
        let budget = spec.bytes_max * load.operations / all / u64::from(clients);
        let one_lane = |lane| {
            let client = client_of(step, lane);
            let share = load.operations / u64::from(clients);
            let rest = u64::from(u64::from(lane) < load.operations % u64::from(clients));
            let seed = seed.split(&format!("load {step} client {lane}"));
            let mut drawing = Drawing::new(spec, load, geometry, budget, seed);
            let intents = (0..share + rest).map(|_| drawing.intent()).collect();
            LaneList { client, intents }
        };
        (0..clients).map(one_lane).collect()
    };
    loads.iter().enumerate().map(one_load).collect()
}

/// The number of a client of a load step; 0 is whoever prepares the buckets.
pub fn client_of(step: usize, lane: u32) -> u32 {
    u32::try_from(step + 1).unwrap_or(u32::MAX / 1000).saturating_mul(1000) + lane
}

/// What `lists` and the preparation of `spec` leave on drives at most.
pub fn footprint(spec: &WorkloadSpec, lists: &[Vec<LaneList>]) -> Footprint {
    let mut kept = BTreeMap::<&ObjectKey, (u64, u64)>::new();
    let (mut versions, mut bytes, mut in_flight) = (0, 0, 0);
    for lane in lists.iter().flatten() {
        let mut largest = 0;
        for intent in &lane.intents {
            let (target, size) = match intent {
                Intent::Put { target, size, .. } => (target, *size),
                Intent::Multipart { target, parts } => (target, parts.iter().sum()),
                Intent::Copy { target, .. } => (target, source_bytes(SOURCES - 1)),
                Intent::Delete { target } => (target, 0),
                _ => continue,
            };
            largest = largest.max(size);
            let kind = spec.buckets.get(&target.bucket);
            let of_key = kept.entry(target).or_default();
            if kind.is_some_and(|kind| kind.keeps_versions()) {
                *of_key = (of_key.0 + 1, of_key.1 + size);
            } else {
                *of_key = (1, of_key.1.max(size));
            }
        }
        in_flight += largest;
    }
    for (of_versions, of_bytes) in kept.values() {
        versions += of_versions;
        bytes += of_bytes;
    }
    let sources = spec.buckets.len() as u64 * u64::from(SOURCES);
    let source_bytes = (0..SOURCES).map(source_bytes).sum::<u64>() * spec.buckets.len() as u64;
    let early = spec.buckets.values().filter(|kind| kind.has_early_objects()).count() as u64
        * u64::from(early_keys(spec.keys));
    Footprint {
        versions: versions + sources + early,
        keys: kept.len() as u64 + sources + early,
        bytes: bytes + in_flight + source_bytes + early * EARLY_BYTES,
    }
}

/// Bytes of the versions that a bucket gets before its versioning becomes what it is during the load.
pub const EARLY_BYTES: u64 = 3000;

/// How many keys of such a bucket get one, out of `keys`.
pub fn early_keys(keys: u32) -> u32 {
    keys.div_ceil(3)
}

/// Bytes of source number `index`.
pub fn source_bytes(index: u32) -> u64 {
    if index.is_multiple_of(2) { 3_000 } else { BLOCK_BYTES + 4_321 }
}

/// The name of source number `index`.
pub fn source_key(index: u32) -> String {
    format!("source/{index:04}")
}

/// The name of key number `index`: first the awkward ones, then plain ones.
pub fn key_name(index: u32) -> String {
    let awkward = [
        "plain",
        "with space/and more",
        "\u{fc}n\u{ef}code/\u{43a}\u{43b}\u{44e}\u{447}-\u{9375}",
        "<script>&|",
        "plain/0c9d2f4e-6a51-4b7c-8e3d-1f2a3b4c5d6e",
        "plain/0c9d2f4e-6a51-4b7c-8e3d-1f2a3b4c5d6e/below",
        "plain/below",
        "percent%20plus+question?hash#",
        "a..b~star*(paren)'quote'",
        "deep/er/and/deep/er/still",
    ];
    match awkward.get(index as usize) {
        Some(name) => (*name).to_owned(),
        None => format!("folder-{}/key-{index:05}", index % 3),
    }
}

/// Draws the intents of one client.
struct Drawing<'a> {
    spec: &'a WorkloadSpec,
    buckets: Vec<&'a str>,
    mix: Mix,
    sizes: Sizes,
    geometry: Geometry,
    bytes_left: u64,
    drawn: u64,
    large: u64,
    written: BTreeSet<ObjectKey>,
    dice: StdRng,
}

impl<'a> Drawing<'a> {
    fn new(
        spec: &'a WorkloadSpec,
        load: &'a LoadSpec,
        geometry: Geometry,
        bytes_left: u64,
        seed: Seed,
    ) -> Self {
        let named = load.buckets.as_ref();
        let wanted = |name: &&String| named.is_none_or(|named| named.contains(name));
        Self {
            spec,
            buckets: spec.buckets.keys().filter(wanted).map(String::as_str).collect(),
            mix: load.mix.unwrap_or(spec.mix),
            sizes: load.sizes.unwrap_or(spec.sizes),
            geometry,
            bytes_left,
            drawn: 0,
            large: 0,
            written: BTreeSet::new(),
            dice: StdRng::from_seed(seed.bytes("intents")),
        }
    }

    fn intent(&mut self) -> Intent {
        self.drawn += 1;
        let Mix {
            put,
            overwrite,
            delete,
            delete_version,
            multipart,
            copy,
            put_if_absent,
            put_if_match,
            read,
            head,
            list,
            list_versions,
        } = self.mix;
        let weights = [
            put,
            overwrite,
            delete,
            delete_version,
            multipart,
            copy,
            put_if_absent,
            put_if_match,
            read,
            head,
            list,
            list_versions,
        ];
        let mut draw = self.dice.random_range(0..self.mix.total().max(1));
        let chosen = weights.iter().position(|weight| {
            let here = draw < *weight;
            draw = draw.saturating_sub(*weight);
            here
        });
        match chosen.unwrap_or(0) {
            0 => self.put(false, Only::Always),
            1 => self.put(true, Only::Always),
            2 => Intent::Delete { target: self.key(true) },
            3 => Intent::DeleteVersion { target: self.key(true), pick: self.pick() },
            4 => self.multipart(),
            5 => Intent::Copy { target: self.target(false), source: self.pick() },
            6 => self.put(false, Only::IfAbsent),
            7 => self.put(true, Only::IfMatch),
            8 => self.read(),
            9 => Intent::Head { target: self.key(true), pick: self.maybe_pick() },
            10 => Intent::List { bucket: self.bucket(), prefix: self.prefix() },
            _ => Intent::ListVersions { bucket: self.bucket(), prefix: self.prefix() },
        }
    }

    fn put(&mut self, written: bool, only: Only) -> Intent {
        let target = self.target(written);
        let kind = self.spec.buckets.get(&target.bucket).copied();
        let size = self.size(kind.unwrap_or(BucketKind::Unversioned));
        Intent::Put { target, size, only }
    }

    fn multipart(&mut self) -> Intent {
        let target = self.target(false);
        let kind = self.spec.buckets.get(&target.bucket).copied();
        let last = self.size(kind.unwrap_or(BucketKind::Unversioned)).max(1);
        let affordable = self.bytes_left >= PART_BYTES_MIN && self.may_be_large();
        let parts = if affordable && self.sizes == Sizes::Mixed && self.dice.random_bool(0.3) {
            self.bytes_left -= PART_BYTES_MIN;
            self.large += 1;
            vec![PART_BYTES_MIN, last.min(LARGE_BYTES)]
        } else {
            vec![last]
        };
        Intent::Multipart { target, parts }
    }

    fn read(&mut self) -> Intent {
        let (target, pick) = (self.key(true), self.maybe_pick());
        let range = self.dice.random_bool(0.25).then(|| {
            let first = self.dice.random_range(0..1000);
            (first, self.dice.random_range(1..=1000 - first))
        });
        Intent::Read { target, pick, range }
    }

    fn bucket(&mut self) -> String {
        let index = self.dice.random_range(0..self.buckets.len().max(1));
        self.buckets.get(index).copied().unwrap_or_default().to_owned()
    }

    /// A key to be written, remembered as such.
    fn target(&mut self, written: bool) -> ObjectKey {
        let target = self.key(written);
        self.written.insert(target.clone());
        target
    }

    /// A key; one that this client has written before, three times out of four, when `written`.
    fn key(&mut self, written: bool) -> ObjectKey {
        if written && !self.written.is_empty() && self.dice.random_bool(0.75) {
            let index = self.dice.random_range(0..self.written.len());
            if let Some(key) = self.written.iter().nth(index) {
                return key.clone();
            }
        }
        let key = key_name(self.dice.random_range(0..self.spec.keys.max(1)));
        ObjectKey { bucket: self.bucket(), key }
    }

    fn prefix(&mut self) -> String {
        match self.dice.random_range(0..4) {
            0 => "plain".to_owned(),
            1 => "folder-1/".to_owned(),
            _ => String::new(),
        }
    }

    fn pick(&mut self) -> u32 {
        self.dice.random_range(0..1 << 16)
    }

    fn maybe_pick(&mut self) -> Option<u32> {
        self.dice.random_bool(0.3).then(|| self.pick())
    }

    fn may_be_large(&self) -> bool {
        // One in twenty, the first not before the tenth operation.
        (self.large + 1) * 20 <= self.drawn + 10
    }

    fn size(&mut self, kind: BucketKind) -> u64 {
        let shard = if kind.keeps_versions() { 16 << 10 } else { 128 << 10 };
        let inline_max = shard * self.geometry.data_shards;
        let around = |dice: &mut StdRng, edge: u64| edge + dice.random_range(0..3) - 1;
        let dice = &mut self.dice;
        let mut size = match self.sizes {
            Sizes::Bytes(size) => return size,
            Sizes::Inline => dice.random_range(0..=4096),
            Sizes::Blocks => match dice.random_range(0..3) {
                0 => around(dice, BLOCK_BYTES),
                1 => around(dice, 2 * BLOCK_BYTES),
                _ => dice.random_range(inline_max + 1..=2 * BLOCK_BYTES.max(inline_max)),
            },
            Sizes::Mixed => match dice.random_range(0..100) {
                0..5 => 0,
                5..8 => dice.random_range(1..=33),
                8..55 => dice.random_range(64..=8192),
                55..68 => around(dice, inline_max),
                68..80 => dice.random_range(inline_max..=2 * inline_max),
                80..88 => around(dice, BLOCK_BYTES),
                88..95 => dice.random_range(BLOCK_BYTES..=LARGE_BYTES),
                // Small large ones are likelier than the largest.
                _ => {
                    let largest = OBJECT_BYTES_MAX >> dice.random_range(0..4);
                    dice.random_range(LARGE_BYTES..=largest)
                }
            },
        };
        // In a part file all the same, even when that is more than was left.
        let in_parts = (self.sizes == Sizes::Blocks).then_some(inline_max + 1);
        if size > LARGE_BYTES && !self.may_be_large() {
            let small = self.dice.random_range(64..=8192);
            size = in_parts.unwrap_or(small);
        }
        if size > self.bytes_left {
            let small = self.dice.random_range(0..=1024).min(self.bytes_left);
            size = in_parts.unwrap_or(small);
        }
        self.large += u64::from(size > LARGE_BYTES);
        self.bytes_left = self.bytes_left.saturating_sub(size);
        size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> WorkloadSpec {
        let text = "buckets: { plain: unversioned, kept: enabled, paused: suspended }";
        crate::yaml::parse("workload", text).unwrap()
    }

    fn load(operations: u64) -> LoadSpec {
        crate::yaml::parse("load", &format!("operations: {operations}")).unwrap()
    }

    const GEOMETRY: Geometry = Geometry { data_shards: 2 };

    #[test]
    fn one_seed_is_one_list_and_another_seed_another() {
        let digests = |seed| {
            let lists = lists(&spec(), &[load(100), load(50)], GEOMETRY, Seed(seed));
            lists.iter().flatten().map(LaneList::digest).collect::<Vec<_>>()
        };
        assert_eq!(digests(1), digests(1));
        assert!(digests(1).iter().zip(digests(2)).all(|(one, two)| *one != two));
    }

    #[test]
    fn objects_of_blocks_lie_in_part_files_whatever_is_left() {
        let text = "{ operations: 200, sizes: blocks, mix: { put: 1 } }";
        let load: LoadSpec = crate::yaml::parse("load", text).unwrap();
        let spec = WorkloadSpec { bytes_max: 4 << 20, ..spec() };
        let lists = lists(&spec, &[load], GEOMETRY, Seed(7));
        for intent in lists[0].iter().flat_map(|lane| &lane.intents) {
            let Intent::Put { target, size, .. } = intent else { panic!("{intent:?}") };
            let versioned = spec.buckets[&target.bucket].keeps_versions();
            let inline_max = if versioned { 32 << 10 } else { 256 << 10 };
            assert!(*size > inline_max, "{size} bytes for {target} go inline");
        }
    }

    #[test]
    fn a_load_has_every_operation_of_the_mix_and_keeps_to_its_budget() {
        let spec = WorkloadSpec { bytes_max: 64 << 20, ..spec() };
        let lists = lists(&spec, &[load(4001)], GEOMETRY, Seed(7));
        let intents = lists[0].iter().flat_map(|lane| &lane.intents).collect::<Vec<_>>();
        assert_eq!(intents.len(), 4001);
        let mut sent = 0;
        let mut large = 0;
        let mut kinds = BTreeSet::new();
        for intent in intents {
            let (kind, size) = match intent {
                Intent::Put { size, only, .. } => (format!("put {only:?}"), *size),
                Intent::Multipart { parts, .. } => ("multipart".to_owned(), parts.iter().sum()),
                other => (format!("{other:?}").split(' ').next().unwrap().to_owned(), 0),
            };
            kinds.insert(kind);
            sent += size;
            large += u64::from(size > LARGE_BYTES);
            assert!(size <= OBJECT_BYTES_MAX);
        }
        assert_eq!(kinds.len(), 11, "{kinds:?}");
        assert!(sent <= spec.bytes_max + 4001, "{sent} bytes");
        assert!((1..=4001 / 20).contains(&large), "{large} large ones");
        let footprint = footprint(&spec, &lists);
        assert!(footprint.bytes > 1 << 20 && footprint.keys > 60 && footprint.versions > 500);
    }
}
