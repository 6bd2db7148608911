//! What nodes say to each other.

use std::collections::BTreeMap;

use serde_bytes::ByteBuf;
use sha2::Digest as _;

use super::grant;
use super::id;
use super::keep;
use super::object;
use crate::disk::drive::*;
use crate::disk::format::format_json::FormatJson;
use crate::disk::format::xl_meta::Version;
use crate::disk::format::xl_meta::XlMeta;
use crate::fuzz::targets::peer as target;
use crate::node::drives::Seen;
use crate::node::locks::quorum::LockAnswer;
use crate::node::locks::quorum::LockCall;
use crate::node::peer::auth;
use crate::node::peer::words;
use crate::node::peer::words::PeerDriveState;
use crate::node::peer::words::PeerState;
use crate::node::seams::LockMode;
use crate::protocol::admin::DriveCondition;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Record as Kept;
use crate::protocol::replacement::status::Snapshot;
use crate::protocol::replacement::status::State;
use crate::protocol::replacement::status::StatusRecord;

pub(super) fn write_peer(files: &BTreeMap<String, Vec<u8>>) {
    let meta = files.get("0/versioned/three/xl.meta").expect("a golden file");
    let parsed = XlMeta::parse(meta).expect("our own file");
    let version: &Version = &parsed.versions()[0];
    let staging = Staging { id: id("staging"), data_dir: id("data directory") };
    let published = Published {
        version: version.id(),
        modtime_ns: version.header().modtime_ns,
        data_dir: Some(id("data directory")),
    };
    let commit = Commit {
        grant: grant(),
        target: object(),
        header: version.header_bytes().to_vec(),
        body: version.body_bytes().to_vec(),
        shards: Shards::Staged(staging),
        kind: CommitKind::Put,
        decided: true,
        under: Vec::new(),
    };
    let inline =
        Commit { shards: Shards::Inline(vec![1; 300]), kind: CommitKind::Heal, ..commit.clone() };
    let requests = [
        ("facts", DriveRequest::Facts),
        (
            "write-format",
            DriveRequest::WriteFormat {
                bytes: files["0/.rustfs.sys/format.json"].clone(),
                rebuilding: true,
            },
        ),
        ("make-bucket", DriveRequest::MakeBucket { grant: grant(), bucket: "bucket".to_owned() }),
        ("read-key", DriveRequest::ReadKey { target: object(), inline: true, brief: false }),
        (
            "read-shard",
            DriveRequest::ReadShard {
                target: object(),
                data_dir: id("d"),
                part: 3,
                offset: 1 << 20,
                length: 4096,
            },
        ),
        (
            "stat-parts",
            DriveRequest::StatParts {
                target: object(),
                data_dir: id("d"),
                parts: vec![1, 2, 10_000],
            },
        ),
        (
            "walk",
            DriveRequest::Walk {
                bucket: "bucket".into(),
                prefix: "a/".into(),
                after: "a/b".into(),
                limit: 1_000,
            },
        ),
        ("append", DriveRequest::Append { staging, part: 1, offset: 0, bytes: vec![9; 600] }),
        ("seal", DriveRequest::Seal { staging, target: object(), kind: CommitKind::Multipart }),
        ("commit-staged", DriveRequest::Commit(Box::new(commit))),
        ("commit-inline", DriveRequest::Commit(Box::new(inline))),
        (
            "remove",
            DriveRequest::Remove(Remove {
                grant: grant(),
                target: object(),
                version: version.id(),
                before_ns: 1 << 60,
                rollback: id("r"),
                under: Vec::new(),
            }),
        ),
        (
            "undo",
            DriveRequest::Undo(Undo {
                grant: grant(),
                target: object(),
                published: Some(published),
                rollback: Some(id("r")),
                quarantine: false,
                upload: None,
            }),
        ),
        (
            "settle",
            DriveRequest::Settle(Settle {
                grant: grant(),
                target: object(),
                rollbacks: vec![id("r")],
                data_dirs: vec![id("d")],
                parts: Some((id("d"), vec![1, 2])),
            }),
        ),
        (
            "quarantine",
            DriveRequest::Quarantine(Quarantine {
                grant: grant(),
                target: object(),
                version: Some(published),
                directories: vec![id("d")],
                inline: vec!["null".to_owned()],
                metadata: true,
            }),
        ),
        (
            "queue-put",
            DriveRequest::QueuePut(QueueEntry {
                id: id("entry"),
                body: br#"{"format":1}"#.to_vec(),
            }),
        ),
        (
            "record-put",
            DriveRequest::RecordPut { name: "staging-tags".to_owned(), bytes: b"00ff\n".to_vec() },
        ),
        (
            "swap",
            DriveRequest::Swap {
                path: names::path(
                    Kept::Intent,
                    "0b8a4f5e-0000-4000-8000-000000000001".parse().expect("an id"),
                ),
                expected: None,
                new: Some(ByteBuf::from(b"{}".to_vec())),
            },
        ),
        ("sweep", DriveRequest::Sweep { now_ns: 1 << 60, grace_s: 86_400 }),
    ];
    for (name, request) in requests {
        keep("peer-request", name, words::encode(&request));
    }
    let key = KeyCopy {
        meta: Some(meta.clone()),
        bucket: true,
        folders: vec![Folder {
            id: id("d"),
            backup: Some(meta.clone()),
            files: vec![("part.1".to_owned(), 1_000)],
        }],
        rebuilding: false,
    };
    let page = WalkPage {
        entries: vec![WalkEntry {
            key: "a/key".to_owned(),
            meta: Some(meta.clone()),
            folders: vec![id("d")],
        }],
        complete: true,
        rebuilding: false,
    };
    let facts = DriveFacts {
        total_bytes: 1 << 30,
        free_bytes: 1 << 29,
        free_inodes: 1_000,
        rebuilding: false,
        unclean: true,
        absent_from_ns: 0,
        absent_until_ns: 0,
        quarantined: 2,
    };
    let mount = MountIdentity {
        canonical_path: "/drives/0".into(),
        physical_device_ids: vec!["loop7".into()],
        filesystem_identity: "90:1799:2".into(),
        filesystem_uuid: Some(id("fs").to_string()),
    };
    let replacement = ReplacementCopy {
        format_id: Some(id("drive").to_string()),
        has_folder: true,
        mount: Ok(mount),
        marker: Some(ByteBuf::from(b"pool_0_set_0".to_vec())),
        ..ReplacementCopy::default()
    };
    let answers: [(&str, Result<DriveReply, DriveError>); 13] = [
        ("done", Ok(DriveReply::Done)),
        ("facts", Ok(DriveReply::Facts(facts))),
        (
            "format",
            Ok(DriveReply::Format(Some(ByteBuf::from(files["0/.rustfs.sys/format.json"].clone())))),
        ),
        (
            "buckets",
            Ok(DriveReply::Buckets(vec![BucketEntry {
                name: "bucket".into(),
                changed_ns: 1 << 60,
            }])),
        ),
        ("key", Ok(DriveReply::Key(Box::new(key)))),
        ("bytes", Ok(DriveReply::Bytes(vec![3; 900]))),
        ("lengths", Ok(DriveReply::Lengths(vec![Some(1), None, Some(1 << 40)]))),
        ("page", Ok(DriveReply::Page(page))),
        (
            "committed",
            Ok(DriveReply::Committed(Committed {
                rollback: Some(id("r")),
                old_data_dir: None,
                versions: u64::MAX,
            })),
        ),
        (
            "parts",
            Ok(DriveReply::Parts(vec![PartCopy {
                number: 1,
                meta: vec![0x94, 0xa0, 1, 1, 1],
                bytes: 5,
            }])),
        ),
        ("replacement", Ok(DriveReply::Replacement(Box::new(replacement)))),
        ("full", Err(DriveError::Full { step: DriveStep::Write, path: "bucket/a".into() })),
        ("fenced", Err(DriveError::Fenced { resource: object(), lock: id("lock") })),
    ];
    for (name, answer) in answers {
        keep("peer-answer", name, words::encode(&answer));
    }
    let format = FormatJson::parse(&files["0/.rustfs.sys/format.json"]).expect("our own file");
    let drives = [Seen::Blank, Seen::Formatted { format: Box::new(format), is_empty: false }];
    let drives = drives.into_iter().map(|seen| PeerDriveState {
        condition: DriveCondition::Online,
        reason: String::new(),
        seen,
    });
    keep(
        "peer-words",
        "state",
        words::encode(&PeerState {
            life: id("life"),
            deployment: Some(id("deployment")),
            drives: drives.collect(),
        }),
    );
    keep(
        "peer-words",
        "grant",
        words::encode(&LockCall::Grant {
            resource: object(),
            id: id("lock"),
            mode: LockMode::Exclusive,
        }),
    );
    keep(
        "peer-words",
        "refresh",
        words::encode(&LockCall::Refresh { resource: object(), id: id("lock") }),
    );
    keep("peer-words", "forget", words::encode(&LockCall::Forget { life: id("life") }));
    keep(
        "peer-words",
        "lock-answer",
        words::encode(&LockAnswer { granted: true, life: id("life") }),
    );
    let record = StatusRecord {
        task_id: id("generation").to_string(),
        state: State::Running,
        generation: Some(id("generation").to_string()),
        set_disk_id: Some("pool_0_set_0".into()),
        target_slots: vec!["/drives/0/1".into()],
        reason: None,
        verified_at: Some(1_760_000_000),
    };
    keep(
        "peer-words",
        "snapshot",
        words::encode(&Snapshot { definitive: true, reason: None, records: vec![record] }),
    );
    for (name, from, at_ms, body) in
        [("lock", 1, target::PROVED_MS, &b"body"[..]), ("late", 0, target::PROVED_MS - 11_000, b"")]
    {
        let body = sha2::Sha256::digest(body).into();
        let envelope = auth::Envelope { from, to: target::ASKED, at_ms, nonce: [7; 16], body };
        keep("peer-proof", name, target::key().prove("POST", "/firedrill/v1/peer/lock", &envelope));
    }
}
