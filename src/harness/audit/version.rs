//! One version of one key: who holds it, whether they agree, and what its shards are worth.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use super::AuditOptions;
use super::census::DriveProblem;
use super::census::ProblemKind;
use super::census::VersionCensus;
use super::census::VersionClass;
use super::key::Holding;
use super::key::Key;
use super::object::ObjectReader;
use super::object::Shards;
use super::part::Buffers;
use crate::disk::format::xl_meta::Body;
use crate::disk::format::xl_meta::Header;
use crate::disk::format::xl_meta::Identity;
use crate::disk::format::xl_meta::ObjectBody;
use crate::disk::format::xl_meta::Version;
use crate::value::VersionId;

/// A larger block was not written by any server.
const BLOCK_BYTES_MAX: u64 = 64 << 20;

/// The drives that agree on one identity.
struct Group<'a> {
    slots: Vec<usize>,
    version: &'a Version,
}

/// Judges one version; `holders` are the drives that have an entry by this id, in slot order.
pub(super) fn judge(
    key: &Key<'_>,
    id: VersionId,
    holders: &[(usize, &Version)],
    options: &AuditOptions,
    buffers: &mut Buffers,
    bytes_read: &mut u64,
) -> (Header, VersionCensus) {
    let n = key.seats.len();
    let mut problems = absences(key, id, holders);
    let groups = group(key, holders, &mut problems);
    let Some((winner, losers)) = groups.split_first() else {
        let header = *holders[0].1.header();
        return (header, unusable(&header, problems));
    };
    let header = *winner.version.header();
    signatures(key, winner, holders, &mut problems);
    for loser in losers {
        for slot in &loser.slots {
            let detail = difference(winner.version, loser.version);
            problems.push(key.problem(*slot, ProblemKind::VersionDiffers, key.meta_path(), detail));
        }
    }
    let copies = winner.slots.len();
    let object = winner.version.as_object();
    let shards = match object {
        Some(object) if !object.is_remote() => {
            let slots = &winner.slots;
            let mut reader =
                ObjectReader { key, object, slots, problems: &mut problems, bytes_read };
            reader.read(options, buffers)
        }
        _ => Shards { good: copies, ..Shards::default() },
    };
    let quorums = Quorums::of(object, n);
    let silent =
        key.holdings.iter().filter(|it| matches!(it, Holding::NoDrive(_) | Holding::Corrupt(_)));
    let may_have = copies + silent.count();
    let rivals = losers.iter().any(|loser| loser.version.header().modtime_ns == header.modtime_ns);
    let is_split = rivals || (!losers.is_empty() && copies < quorums.write);
    problems
        .sort_by_key(|problem| (position(key, &problem.drive), problem.kind, problem.path.clone()));
    problems.dedup();
    let class = if shards.is_contradictory || is_split {
        VersionClass::Divergent
    } else if copies == n && shards.good == n && problems.is_empty() {
        VersionClass::Full
    } else if may_have < quorums.write {
        VersionClass::Uncommitted
    } else if copies < quorums.read || shards.good < quorums.read {
        VersionClass::Unreadable
    } else if copies == quorums.read || shards.good == quorums.read {
        VersionClass::AtRisk
    } else {
        VersionClass::Degraded
    };
    let etag = object.map(ObjectBody::etag).filter(|etag| !etag.is_empty());
    let census = VersionCensus {
        version: id,
        modtime_ns: header.modtime_ns,
        delete_marker: object.is_none(),
        size: object.map_or(0, |object| object.size),
        digest: shards.digest,
        etag: etag.map(str::to_owned),
        data_shards: object.map_or(0, |object| object.data),
        parity_shards: object.map_or(0, |object| object.parity),
        class,
        metadata_copies: copies,
        good_shards: shards.good,
        margin: shards.good as i64 - quorums.read as i64,
        problems,
    };
    (header, census)
}

/// How many drives reading and acknowledging this version takes.
struct Quorums {
    read: usize,
    write: usize,
}

impl Quorums {
    fn of(object: Option<&ObjectBody>, n: usize) -> Self {
        let marker_read = n - n / 2;
        match object {
            None => Self { read: marker_read, write: n / 2 + 1 },
            Some(object) => {
                let write = object.data + usize::from(object.data == object.parity);
                let read = if object.size == 0 { marker_read } else { object.data };
                Self { read, write }
            }
        }
    }
}

/// Drives that have no entry by this id.
fn absences(key: &Key<'_>, id: VersionId, holders: &[(usize, &Version)]) -> Vec<DriveProblem> {
    let has = holders.iter().map(|(slot, _)| *slot).collect::<BTreeSet<_>>();
    let mut problems = Vec::new();
    for (slot, holding) in key.holdings.iter().enumerate().filter(|(slot, _)| !has.contains(slot)) {
        let (kind, detail) = match holding {
            Holding::NoDrive(why) => (ProblemKind::MetadataMissing, (*why).to_owned()),
            Holding::NoFile => (ProblemKind::MetadataMissing, "there is no xl.meta".to_owned()),
            Holding::Corrupt(error) => (ProblemKind::MetadataCorrupt, error.clone()),
            Holding::Held(..) => (ProblemKind::VersionMissing, format!("it lacks version {id}")),
        };
        problems.push(key.problem(slot, kind, key.meta_path(), detail));
    }
    problems
}

/// Groups the usable entries by identity, the strongest first, the newest of equals before.
fn group<'a>(
    key: &Key<'_>,
    holders: &[(usize, &'a Version)],
    problems: &mut Vec<DriveProblem>,
) -> Vec<Group<'a>> {
    let mut groups = BTreeMap::<Identity, Group<'a>>::new();
    let mut seen = BTreeSet::new();
    for (slot, version) in holders {
        let mut add = |kind, detail: String| {
            problems.push(key.problem(*slot, kind, key.meta_path(), detail));
        };
        if !seen.insert(*slot) {
            add(ProblemKind::DuplicateVersion, format!("version {} stands twice", version.id()));
            continue;
        }
        if let Err(error) = version.check() {
            add(ProblemKind::Inconsistent, error.to_string());
            continue;
        }
        if let Some(object) = version.as_object() {
            if object.total() != key.seats.len() {
                let (total, n) = (object.total(), key.seats.len());
                add(
                    ProblemKind::Inconsistent,
                    format!("it has {total} shards in a set of {n} drives"),
                );
                continue;
            }
            if object.block_bytes > BLOCK_BYTES_MAX {
                add(
                    ProblemKind::Inconsistent,
                    format!("its blocks have {} bytes", object.block_bytes),
                );
                continue;
            }
        }
        let group = groups
            .entry(version.identity())
            .or_insert_with(|| Group { slots: Vec::new(), version });
        group.slots.push(*slot);
    }
    let mut groups = groups.into_values().collect::<Vec<_>>();
    groups.sort_by(|one, other| {
        let votes = other.slots.len().cmp(&one.slots.len());
        votes.then(one.version.header().newest_first(other.version.header()))
    });
    groups
}

/// A header whose signature differs from its peers' is told, unless all agree on another server's way of signing.
fn signatures(
    key: &Key<'_>,
    winner: &Group<'_>,
    holders: &[(usize, &Version)],
    problems: &mut Vec<DriveProblem>,
) {
    let members =
        holders.iter().filter(|(slot, _)| winner.slots.contains(slot)).collect::<Vec<_>>();
    let signature = |version: &Version| version.header().signature;
    if members.windows(2).all(|pair| signature(pair[0].1) == signature(pair[1].1)) {
        return;
    }
    for (slot, version) in members {
        if signature(version) != version.computed_signature() {
            let detail = "the signature in the header is not that of the body";
            problems.push(key.problem(*slot, ProblemKind::Inconsistent, key.meta_path(), detail));
        }
    }
}

/// A version that no drive holds in a usable form.
fn unusable(header: &Header, mut problems: Vec<DriveProblem>) -> VersionCensus {
    problems.sort_by(|one, other| one.drive.cmp(&other.drive).then(one.kind.cmp(&other.kind)));
    let (data, parity) = (usize::from(header.data), usize::from(header.parity));
    VersionCensus {
        version: header.version,
        modtime_ns: header.modtime_ns,
        delete_marker: header.is_delete_marker(),
        size: 0,
        digest: None,
        etag: None,
        data_shards: data,
        parity_shards: parity,
        class: VersionClass::Unreadable,
        metadata_copies: 0,
        good_shards: 0,
        margin: -(data as i64),
        problems,
    }
}

fn position(key: &Key<'_>, drive: &str) -> usize {
    key.seats.iter().position(|seat| seat.name == drive).unwrap_or(usize::MAX)
}

/// In what two entries of one id differ, in words.
fn difference(winner: &Version, other: &Version) -> String {
    let (one, two) = (winner.header(), other.header());
    if one.modtime_ns != two.modtime_ns {
        return format!("it is of {} ns, most drives have {} ns", two.modtime_ns, one.modtime_ns);
    }
    match (winner.body(), other.body()) {
        (Body::Object(one), Body::Object(two)) => {
            let fields = [
                ("data directory", one.data_dir != two.data_dir),
                ("size", one.size != two.size),
                ("parts", one.parts != two.parts),
                ("geometry", (one.data, one.parity) != (two.data, two.parity)),
                ("distribution", one.distribution != two.distribution),
                ("user metadata", one.user != two.user),
                ("internal metadata", one.system != two.system),
            ];
            let differing = fields.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name);
            let differing = differing.collect::<Vec<_>>().join(", ");
            format!("it differs from most drives in: {differing}")
        }
        (Body::Marker(_), Body::Marker(_)) => "it differs in internal metadata".to_owned(),
        _ => "it is of another type than on most drives".to_owned(),
    }
}
