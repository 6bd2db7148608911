//! Legacy records: what the operator's tool proposes and refuses, what a start makes of an approval, and what an
//! older release does with the records of both.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use firedrill::protocol::replacement::approval::Approval;
use firedrill::protocol::replacement::ids::GenerationId;
use firedrill::protocol::replacement::import;
use firedrill::protocol::replacement::intent::Intent;
use firedrill::protocol::replacement::intent::Layout;
use firedrill::protocol::replacement::intent::Phase;
use firedrill::protocol::replacement::legacy;
use firedrill::protocol::replacement::legacy::Release;
use firedrill::protocol::replacement::names;
use firedrill::protocol::replacement::names::Record;
use firedrill::protocol::replacement::prepare;
use firedrill::protocol::replacement::prepare::Entry;
use firedrill::protocol::replacement::prepare::Refused;
use firedrill::protocol::replacement::prepare::Request;
use firedrill::protocol::replacement::prepare::Seen;
use firedrill::protocol::replacement::refusal::Refusal;
use firedrill::protocol::replacement::scan::Done;
use firedrill::protocol::replacement::scan::Outcome;
use firedrill::protocol::replacement::scan::Page;
use firedrill::protocol::replacement::scan::Work;
use firedrill::protocol::replacement::step::Step;

use crate::world::SET;
use crate::world::World;
use crate::world::drive;
use crate::world::first;
use crate::world::id;

/// Two orphans of one target: a schema 5 one that was abandoned and owns the marker, and a schema 6 one.
pub struct Orphans {
    pub world: World,
    pub sources: [GenerationId; 2],
    pub successor: GenerationId,
    originals: [Vec<u8>; 2],
}

impl Orphans {
    pub fn new() -> Self {
        let mut world = World::blank(1);
        world.mounts[0].as_mut().unwrap().format_id = Some("slot-0".to_owned());
        world.durable.files.has_folder = true;
        let sources = [id(11), id(12)];
        let shapes = [(5, Layout::Early, Phase::Abandoned), (6, Layout::Legacy, Phase::Rebuilding)];
        let mut originals = [Vec::new(), Vec::new()];
        for (index, (schema, layout, phase)) in shapes.into_iter().enumerate() {
            let intent = orphan(sources[index], schema, layout, phase);
            originals[index] = intent.encode();
            world.put(Record::Intent, sources[index], &originals[index]);
            world.put(Record::Seal, sources[index], b"sealed");
        }
        world.durable.markers[0] = Some(format!("{SET}:{}", sources[0]).into_bytes());
        Self { world, sources, successor: id(99), originals }
    }

    pub fn approved() -> Self {
        let mut orphans = Self::new();
        let bytes = orphans.proposal().encode_pretty();
        orphans.world.put(Record::Approval, orphans.successor, &bytes);
        orphans
    }

    fn request(&self) -> Request {
        Request {
            anchor: Some("/anchor".to_owned()),
            sources: self.sources.map(|id| id.to_string()).to_vec(),
            targets: vec![format!("{}=/target", drive(0, 0).identity.endpoint)],
            successor: Some(self.successor.to_string()),
            write: false,
            stopped_all_writers: false,
        }
    }

    fn seen(&self) -> Seen {
        let mut entries = BTreeMap::new();
        let folders = ["/anchor", "/target", "/target/.rustfs.sys", "/anchor/.rustfs.sys"];
        for folder in folders.map(str::to_owned) {
            entries.insert(folder, Entry::Folder);
        }
        entries.insert(format!("/anchor/{}", names::LEDGERS), Entry::Folder);
        entries.insert(format!("/anchor/{}", names::FOLDER), Entry::Folder);
        for (path, bytes) in &self.world.durable.files.bytes {
            entries.insert(format!("/anchor/{path}"), Entry::File(bytes.clone()));
        }
        if let Some(marker) = &self.world.durable.markers[0] {
            let path = format!("/target/{}", names::MARKER);
            entries.insert(path, Entry::File(marker.clone()));
        }
        Seen { entries, leased: BTreeSet::new() }
    }

    pub fn proposal(&self) -> Approval {
        propose(&self.request(), &self.seen()).unwrap()
    }

    /// A start of a node, until `stop` says so after a write.
    pub fn import(&mut self, mut stop: impl FnMut(&World, Step) -> bool) -> Result<(), Refusal> {
        loop {
            let now = self.world.now(true);
            let next = import::next_write(&self.world.durable, self.successor, &now)?;
            let Some(write) = next else {
                return Ok(());
            };
            self.world.perform(&write);
            if stop(&self.world, write.step) {
                return Ok(());
            }
        }
    }

    /// The import goes on, then the successor; everything is where it must be then.
    pub fn finish(&mut self) {
        let approval = self.proposal_bytes();
        self.import(|_, _| false).unwrap();
        let world = &self.world;
        assert!(!world.has(Record::Approval, self.successor), "the approval is consumed");
        assert_eq!(world.durable.files.record(Record::Receipt, self.successor), Some(&*approval));
        for (source, original) in self.sources.iter().zip(&self.originals) {
            let archive = names::archive_path(self.successor, *source);
            assert_eq!(world.durable.files.bytes[&archive], *original);
            let retired = world.intent(*source).unwrap();
            assert_eq!(retired.legacy_successor, Some(self.successor));
            let original = Intent::parse(original).unwrap();
            assert_eq!(retired, import::retired(&original, self.successor));
        }
        let successor = world.intent(self.successor).unwrap();
        assert!(successor.lineage.is_empty() && successor.predecessor.is_none());
        self.world.finish_from(self.successor).unwrap();
        self.world.assert_over_as(self.successor);
        let proof = self.world.proof(self.successor).unwrap();
        assert!(proof.legacy_import.is_some() && proof.lineage.is_empty());
    }

    fn proposal_bytes(&self) -> Vec<u8> {
        let files = &self.world.durable.files;
        let held = files.record(Record::Approval, self.successor);
        held.or(files.record(Record::Receipt, self.successor)).unwrap().to_vec()
    }
}

fn orphan(id: GenerationId, schema: u32, layout: Layout, phase: Phase) -> Intent {
    let identity = drive(0, 3).identity;
    Intent {
        layout,
        schema_version: schema,
        task_id: id,
        task_type: "erasure_set".to_owned(),
        set_disk_id: SET.to_owned(),
        targets: vec![identity.endpoint.clone()],
        identities: vec![identity],
        buckets: vec!["invoices".to_owned()],
        pending_buckets: vec!["invoices".to_owned()],
        generation: Some(id),
        phase,
        start_time: 1_790_000_000,
        last_update: 1_790_000_000,
        max_retries: 3,
        ..Intent::default()
    }
}

fn propose(request: &Request, seen: &Seen) -> Result<Approval, Refused> {
    prepare::proposal(&prepare::arguments(request)?, seen)
}

#[test]
fn an_import_archives_publishes_retires_and_is_consumed() {
    let mut orphans = Orphans::approved();
    orphans.import(|_, _| false).unwrap();
    let steps = [
        Step::SourceArchived,
        Step::SourceArchived,
        Step::ImportPublished,
        Step::ImportSealed,
        Step::SourceRetired,
        Step::SourceRetired,
        Step::ReceiptWritten,
        Step::ApprovalConsumed,
    ];
    assert_eq!(orphans.world.log, steps);
    orphans.finish();
}

/// Goal: the mounts may change between the import and the first look of the successor's executor.
#[test]
fn an_imported_successor_that_has_not_begun_is_bound_again_in_place() {
    let mut orphans = Orphans::approved();
    orphans.import(|_, _| false).unwrap();
    orphans.world.remount(0);
    orphans.finish();
    assert_eq!(orphans.world.count(Step::ImportRebound), 1);
    assert_eq!(orphans.world.count(Step::HandoffPrepared), 0);
}

/// Goal: between the import and the transfer a marker may be touched by hand: it is moved only from its owner.
#[test]
fn an_imported_successor_takes_no_marker_but_the_approved_one() {
    for (marker, number) in [(Some(b"other".to_vec()), "E32"), (None, "E79")] {
        let mut orphans = Orphans::approved();
        orphans.import(|_, _| false).unwrap();
        orphans.world.durable.markers[0] = marker;
        let refusal = orphans.world.finish_from(orphans.successor).unwrap_err();
        assert_eq!(refusal.number(), number, "{refusal}");
        assert_eq!(orphans.world.count(Step::MarkerMoved), 0);
    }
}

/// Goal: after it began, an imported successor hands off like any other, and its heirs carry the import.
#[test]
fn a_descendant_of_an_import_carries_it() {
    let mut orphans = Orphans::approved();
    orphans.import(|_, _| false).unwrap();
    let root = orphans.successor;
    orphans.world.live_until(root, Step::CursorSaved, 1);
    orphans.world.remount(0);
    orphans.world.finish_from(root).unwrap();
    let heir = orphans.world.intent(root).unwrap().handoff.unwrap().link.successor;
    let proof = orphans.world.proof(heir).unwrap();
    assert_eq!(proof.lineage.len(), 1);
    assert_eq!(proof.legacy_import.unwrap().successor, root);
}

/// Goal: everything that may be wrong with an approval or what it is about; the records stay.
#[test]
fn an_import_refuses_what_is_not_as_it_was_approved() {
    type Damage = fn(&mut Orphans);
    type Expected = fn(&Refusal) -> bool;
    let rows: &[(&str, Damage, Expected)] = &[
        (
            "E70 unknown key",
            |it| alter(it, "\"schema_version\": 1", "\"x\": 1, \"schema_version\": 1"),
            |r| matches!(r, Refusal::ApprovalInvalid(_)),
        ),
        (
            "E70 assertion",
            |it| alter(it, "all-writers", "some-writers"),
            |r| matches!(r, Refusal::ApprovalInvalid(_)),
        ),
        (
            "E70 schema",
            |it| alter(it, "\"schema_version\": 1", "\"schema_version\": 2"),
            |r| matches!(r, Refusal::ApprovalInvalid(_)),
        ),
        (
            "E70 name",
            |it| {
                let other = it.successor.to_string();
                alter(it, &other, &id(98).to_string());
            },
            |r| matches!(r, Refusal::ApprovalInvalid(_)),
        ),
        (
            "E70 size",
            |it| {
                let bytes = [it.proposal_bytes(), vec![b' '; 65_536]].concat();
                let to = it.successor;
                it.world.put(Record::Approval, to, &bytes);
            },
            |r| matches!(r, Refusal::ApprovalInvalid(_)),
        ),
        (
            "E71 marker",
            |it| it.world.durable.markers[0] = Some(b"pool_0_set_2:x".to_vec()),
            |r| matches!(r, Refusal::ImportTargetsDiffer(_)),
        ),
        (
            "E71 marker gone",
            |it| it.world.durable.markers[0] = None,
            |r| matches!(r, Refusal::ImportTargetsDiffer(_)),
        ),
        (
            "E72 one byte",
            |it| rewrite(it, |intent| intent.start_time += 1),
            |r| matches!(r, Refusal::ImportSourceDiffers(_)),
        ),
        (
            "E72 schema 4",
            |it| rewrite(it, |intent| intent.schema_version = 4),
            |r| matches!(r, Refusal::ImportSourceDiffers(_)),
        ),
        (
            "E72 schema 7",
            |it| rewrite(it, |intent| intent.schema_version = 7),
            |r| matches!(r, Refusal::ImportSourceDiffers(_)),
        ),
        (
            "E72 protocol",
            |it| {
                rewrite(it, |intent| {
                    intent.layout = Layout::First;
                    intent.protocol = 1;
                })
            },
            |r| matches!(r, Refusal::ImportSourceDiffers(_)),
        ),
        (
            "E72 other set",
            |it| rewrite(it, |intent| intent.set_disk_id = "pool_0_set_3".to_owned()),
            |r| matches!(r, Refusal::ImportSourceDiffers(_)),
        ),
        (
            "E72 missing",
            |it| {
                let source = it.sources[1];
                it.world.remove(Record::Intent, source);
            },
            |r| matches!(r, Refusal::ImportSourceDiffers(_)),
        ),
        (
            "E73 archive",
            |it| {
                let path = names::archive_path(it.successor, it.sources[0]);
                it.world.durable.files.bytes.insert(path, b"{}".to_vec());
            },
            |r| matches!(r, Refusal::ArchiveDiffers(_)),
        ),
        (
            "E74 other record",
            |it| {
                let intent = orphan(it.successor, 7, Layout::Current, Phase::Rebuilding);
                let intent = Intent { protocol: 1, ..intent };
                let to = it.successor;
                it.world.put(Record::Intent, to, &intent.encode());
                it.world.put(Record::Seal, to, b"sealed");
            },
            |r| matches!(r, Refusal::ImportSuccessorDiffers(_)),
        ),
        (
            "E75 receipt",
            |it| {
                let to = it.successor;
                it.world.put(Record::Receipt, to, b"{}");
            },
            |r| matches!(r, Refusal::ReceiptDiffers(_)),
        ),
        (
            "E22 not mounted",
            |it| it.world.mounts[0] = Err("gone".to_owned()),
            |r| matches!(r, Refusal::TargetNotReady(_)),
        ),
    ];
    for (name, damage, expected) in rows {
        let mut orphans = Orphans::approved();
        damage(&mut orphans);
        let before = orphans.world.durable.clone();
        let refusal = orphans.import(|_, _| false).expect_err(name);
        assert!(expected(&refusal), "{name}: {refusal}");
        assert!(orphans.world.durable == before, "{name}: something was written");
    }
}

/// Goal: a retired source is only believed with the archive of its approved bytes.
#[test]
fn a_retired_source_without_its_archive_stops_the_import() {
    let mut orphans = Orphans::approved();
    orphans.import(|_, step| step == Step::SourceRetired).unwrap();
    let path = names::archive_path(orphans.successor, orphans.sources[0]);
    let files = &mut orphans.world.durable.files.bytes;
    let original = String::from_utf8(files.remove(&path).unwrap()).unwrap();
    let refusal = orphans.import(|_, _| false).unwrap_err();
    assert!(matches!(refusal, Refusal::ArchiveDiffers(_)), "{refusal}");
    let edited = original.replacen("\"retry_count\":0", "\"retry_count\":1", 1);
    assert_ne!(edited, original);
    orphans.world.durable.files.bytes.insert(path, edited.into_bytes());
    let refusal = orphans.import(|_, _| false).unwrap_err();
    assert!(matches!(refusal, Refusal::ArchiveDiffers(_)), "an edited archive: {refusal}");
}

/// Goal: a plan grows until the successor has begun, and is kept from then on.
#[test]
fn a_bucket_created_after_the_successor_began_is_not_in_its_plan() {
    let mut orphans = Orphans::approved();
    orphans.import(|_, step| step == Step::ReceiptWritten).unwrap();
    let successor = orphans.successor;
    orphans.world.live_until(successor, Step::RebuildingEntered, 1);
    orphans.world.buckets.insert("archive".to_owned(), vec!["key-0".to_owned()]);
    orphans.import(|_, _| false).unwrap();
    assert_eq!(orphans.world.intent(successor).unwrap().buckets, ["invoices", "photos"]);
}

fn alter(orphans: &mut Orphans, from: &str, to: &str) {
    let text = String::from_utf8(orphans.proposal_bytes()).unwrap();
    assert!(text.contains(from), "{from} is not in {text}");
    let successor = orphans.successor;
    orphans.world.put(Record::Approval, successor, text.replacen(from, to, 1).as_bytes());
}

fn rewrite(orphans: &mut Orphans, change: fn(&mut Intent)) {
    let source = orphans.sources[1];
    let bytes = orphans.world.durable.files.record(Record::Intent, source).unwrap();
    let mut intent = Intent::parse(bytes).unwrap();
    change(&mut intent);
    orphans.world.put(Record::Intent, source, &intent.encode());
}

/// Goal: every numbered refusal of the tool; nothing is written by any of them, as there is nothing to write.
#[test]
fn the_tool_refuses_by_number() {
    type Damage = fn(&mut Request, &mut Seen);
    let intent = |index: u128| format!("/anchor/{}", names::path(Record::Intent, id(11 + index)));
    let marker = format!("/target/{}", names::MARKER);
    let approval = format!("/anchor/{}", names::path(Record::Approval, id(99)));
    let replaced = |seen: &mut Seen, path: &str, from: &str, to: &str| {
        let Some(Entry::File(bytes)) = seen.entries.get_mut(path) else { panic!("no {path}") };
        let text = String::from_utf8(bytes.clone()).unwrap();
        assert!(text.contains(from), "{from} is not in {text}");
        *bytes = text.replace(from, to).into_bytes();
    };
    let rows: &[(u32, Damage)] = &[
        (1, |request, _| request.anchor = None),
        (1, |request, _| request.successor = None),
        (1, |request, _| request.sources.clear()),
        (1, |request, _| request.targets.clear()),
        (2, |request, _| request.targets[0] = "/target".to_owned()),
        (2, |request, _| request.targets[0] = "=/target".to_owned()),
        (2, |request, _| request.targets[0] = "endpoint=".to_owned()),
        (3, |request, _| request.targets.push(request.targets[0].clone())),
        (6, |request, _| request.sources[0] = request.sources[0].to_uppercase()),
        (6, |request, _| request.successor = Some("x".to_owned())),
        (7, |request, _| request.sources[1] = request.sources[0].clone()),
        (7, |request, _| request.sources = (0..33).map(|it| id(it).to_string()).collect()),
        (8, |request, _| request.successor = Some(request.sources[0].clone())),
        (18, |request, _| request.write = true),
        (4, |_, seen| drop(seen.entries.remove("/target"))),
        (4, |_, seen| drop(seen.entries.insert("/anchor".to_owned(), Entry::Symlink))),
        (5, |_, seen| drop(seen.entries.insert("/anchor/.rustfs.sys".to_owned(), Entry::Symlink))),
        (20, |_, seen| {
            drop(seen.entries.insert("/anchor".to_owned(), Entry::Error("EIO".to_owned())))
        }),
        (12, |request, _| request.targets.push("http://other=/target".to_owned())),
    ];
    let orphans = Orphans::new();
    let mut seen_numbers = BTreeSet::new();
    let mut check = |number: u32, request: &Request, seen: &Seen| {
        let refused = propose(request, seen).expect_err(&format!("P{number}"));
        assert_eq!(refused.number(), format!("P{number}"), "{refused}");
        seen_numbers.insert(number);
    };
    for (number, damage) in rows {
        let (mut request, mut seen) = (orphans.request(), orphans.seen());
        damage(&mut request, &mut seen);
        check(*number, &request, &seen);
    }
    let with = |path: &str, entry: Entry| {
        let mut seen = orphans.seen();
        seen.entries.insert(path.to_owned(), entry);
        seen
    };
    let edited = |path: &str, from: &str, to: &str| {
        let mut seen = orphans.seen();
        replaced(&mut seen, path, from, to);
        seen
    };
    let request = orphans.request();
    check(9, &request, &with(&intent(1), Entry::Symlink));
    check(9, &request, &with(&intent(1), Entry::Missing));
    check(10, &request, &with(&intent(1), Entry::File(b"{".to_vec())));
    check(11, &request, &edited(&intent(1), "\"schema_version\":6", "\"schema_version\":7"));
    check(11, &request, &with(&intent(1), Entry::File(b"[]".to_vec())));
    check(12, &request, &edited(&intent(0), "/srv/drive0\"]", "/srv/drive0\",\"/a\"]"));
    check(13, &request, &edited(&intent(1), "pool_0_set_2", "pool_0_set_3"));
    check(14, &request, &edited(&intent(0), "set_disk_id", "set_disk"));
    check(14, &request, &edited(&intent(0), "pool_0_set_2", "the second set"));
    check(15, &request, &with("/target/.rustfs.sys", Entry::Symlink));
    check(15, &request, &with(&marker, Entry::Symlink));
    check(16, &request, &with(&marker, Entry::File(vec![0xff])));
    let newline = format!("{SET}:{}\n", id(11)).into_bytes();
    check(17, &request, &with(&marker, Entry::File(newline)));
    let writing = Request { write: true, stopped_all_writers: true, ..request.clone() };
    check(19, &writing, &with(&approval, Entry::File(Vec::new())));
    check(20, &request, &with(&marker, Entry::Error("EIO".to_owned())));
    let leased = Seen { leased: ["/target".to_owned()].into(), ..orphans.seen() };
    check(21, &writing, &leased);
    let leased = Seen { leased: ["/anchor".to_owned()].into(), ..orphans.seen() };
    check(21, &writing, &leased);
    assert_eq!(seen_numbers, (1..=21).collect(), "a refusal is not tried");
    assert!(propose(&writing, &orphans.seen()).is_ok());
    let absent = with(&marker, Entry::Missing);
    assert_eq!(propose(&request, &absent).unwrap().expected_markers, [None]);
}

/// Goal: an older release writes its own records in its own order, and they come back byte for byte.
#[test]
fn an_older_release_goes_its_own_way_and_leaves_an_orphan() {
    for release in [Release::Legacy5, Release::Legacy6] {
        let mut world = World::blank(1);
        let before = legacy_life(&mut world, release, first());
        assert_eq!(
            before[..6],
            [
                Step::FolderMade,
                Step::IntentPublished,
                Step::IntentSealed,
                Step::TargetFormatted,
                Step::RebuildingEntered,
                Step::MarkerAcquired
            ],
            "{release:?} marks after it says that it rebuilds"
        );
        let bytes = world.durable.files.record(Record::Intent, first()).unwrap().to_vec();
        let intent = Intent::parse(&bytes).unwrap();
        assert_eq!((intent.schema_version, intent.phase), (release.schema(), Phase::Rebuilding));
        assert_eq!(intent.encode(), bytes);
        // Nobody takes it over without an approval.
        let refusal = world.finish().unwrap_err();
        assert!(matches!(refusal, Refusal::LegacyRecord(_)), "{refusal}");
        // Another mount: abandoned, and a second orphan whose marker is not its own.
        world.remount(0);
        let after = legacy_life(&mut world, release, id(2));
        assert!(after.contains(&Step::LegacyAbandoned), "{after:?}");
        assert_eq!(world.marker(0), Some(format!("{SET}:{}", first())));
    }
}

/// One life of an older release: a fresh generation or the one there is, one page of it, then kill.
fn legacy_life(world: &mut World, release: Release, fresh: GenerationId) -> Vec<Step> {
    let from = world.log.len();
    let now = world.now(true);
    if world.has(Record::Intent, first()) {
        let next = legacy::next_write(release, &world.durable, first(), &now, &Done::Nothing);
        world.perform(&next.unwrap().unwrap());
    }
    let request =
        firedrill::protocol::replacement::start::Request { generation: fresh, ..world.request() };
    while let Some(write) = legacy::start(release, &world.durable, &request, &now).unwrap() {
        world.perform(&write);
    }
    let mut done = Done::Nothing;
    loop {
        let now = world.now(false);
        match legacy::next_write(release, &world.durable, fresh, &now, &done) {
            Ok(Some(write)) => world.perform(&write),
            Ok(None) if done == Done::Nothing => {
                let work = legacy::work(release, &world.durable.files, fresh).unwrap();
                let page = Work::Page {
                    bucket_index: 0,
                    bucket: "invoices".to_owned(),
                    cursor: None,
                    objects_before: 0,
                };
                assert_eq!(work, page);
                let outcome = Outcome {
                    key: "5:key-0".to_owned(),
                    class: firedrill::protocol::replacement::scan::Class::Rebuilt,
                    bytes: 1,
                };
                done = Done::Page(Page {
                    outcomes: vec![outcome],
                    objects: 1,
                    next_cursor: Some("dw1:a2V5LTA".to_owned()),
                    ..Page::default()
                });
            }
            Ok(None) => break,
            Err(refusal) => {
                assert!(matches!(refusal, Refusal::MarkerForeign(_)), "{refusal}");
                break;
            }
        }
    }
    world.log[from..].to_vec()
}

/// Goal: an older release that meets records of this one refuses, in every state, and changes nothing.
#[test]
fn a_downgrade_in_mid_recovery_is_refused_and_nothing_is_lost() {
    for step in [Step::IntentPublished, Step::CursorSaved, Step::VerifiedSaved] {
        for release in [Release::Legacy5, Release::Legacy6] {
            let world = World::blank(1).until(step, 1);
            let now = world.now(true);
            let other = firedrill::protocol::replacement::start::Request {
                generation: id(7),
                ..world.request()
            };
            let starting = legacy::start(release, &world.durable, &other, &now);
            assert!(matches!(starting, Err(Refusal::DowngradeRefused(_))), "{starting:?}");
            let resuming =
                legacy::next_write(release, &world.durable, first(), &now, &Done::Nothing);
            assert!(matches!(resuming, Err(Refusal::DowngradeRefused(_))), "{resuming:?}");
            let mut upgraded = world.clone();
            upgraded.finish().unwrap();
            assert_eq!(upgraded.assert_over(), first());
        }
    }
}
