//! The words of the seam: what a drive can be asked, and what it answers.
//!
//! They cross the wire between nodes. Bulk bytes are bounded by [`BULK_BYTES_MAX`] a request; more comes
//! in several requests. A target names a key as the client spells it; `.rustfs.sys` is the bucket of the
//! system's own objects and of open uploads.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::Serialize;
use serde_bytes::ByteBuf;
use uuid::Uuid;

use crate::value::ObjectKey;
use crate::value::VersionId;

/// The most bulk bytes in one request or reply.
pub const BULK_BYTES_MAX: usize = 4 << 20;

/// The lock under which a step is taken: the owner of the drive takes it only while its own lock table
/// still grants this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// What was locked.
    pub resource: ObjectKey,
    /// The lock's id.
    pub lock: Uuid,
}

/// A folder of shards that is being written, `.rustfs.sys/tmp/<id>/<data_dir>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staging {
    /// Random, of this request.
    pub id: Uuid,
    /// The data directory that it will become.
    pub data_dir: Uuid,
}

/// What a drive can be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DriveRequest {
    /// How it stands; answered by [`DriveReply::Facts`].
    Facts,
    /// Its `format.json`; answered by [`DriveReply::Format`].
    ReadFormat,
    /// Gives a blank drive its identity, and takes it into possession.
    WriteFormat {
        /// The whole `format.json`.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
        /// Whether the drive is to be rebuilt: until [`DriveRequest::FinishRebuild`] what it lacks says nothing.
        rebuilding: bool,
    },
    /// The drive holds everything that it should again.
    FinishRebuild,
    /// Says durably that the drive was here.
    Heartbeat {
        /// Unix nanoseconds.
        now_ns: i64,
    },
    /// Its buckets; answered by [`DriveReply::Buckets`].
    ListBuckets,
    /// Makes a bucket's directory; one that is there already is fine.
    MakeBucket {
        /// The lock on the bucket.
        grant: Grant,
        /// The bucket.
        bucket: String,
    },
    /// Removes a bucket's directory with all empty directories below it; one that is gone already is fine.
    RemoveBucket {
        /// The lock on the bucket.
        grant: Grant,
        /// The bucket.
        bucket: String,
    },
    /// All that it holds of one key; answered by [`DriveReply::Key`].
    ReadKey {
        /// The key.
        target: ObjectKey,
        /// Whether inline contents are wanted too.
        inline: bool,
        /// Whether folders in which no metadata is kept may be left out.
        #[serde(default)]
        brief: bool,
    },
    /// Bytes of a shard file; fewer come back at its end. Answered by [`DriveReply::Bytes`].
    ReadShard {
        /// The key.
        target: ObjectKey,
        /// The version's data directory.
        data_dir: Uuid,
        /// The part.
        part: u32,
        /// Where to begin.
        offset: u64,
        /// How many bytes.
        length: u32,
    },
    /// Lengths of shard files; answered by [`DriveReply::Lengths`].
    StatParts {
        /// The key.
        target: ObjectKey,
        /// The version's data directory.
        data_dir: Uuid,
        /// The parts.
        parts: Vec<u32>,
    },
    /// Keys of a bucket in order; answered by [`DriveReply::Page`].
    Walk {
        /// The bucket.
        bucket: String,
        /// Only keys that begin with this.
        prefix: String,
        /// Only keys after this one.
        after: String,
        /// At most so many keys.
        limit: u32,
    },
    /// Writes part of a staged shard file.
    Append {
        /// The folder.
        staging: Staging,
        /// The part.
        part: u32,
        /// Where these bytes belong.
        offset: u64,
        /// The bytes, frames included.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Sees to it that no name that follows is durable without what was staged.
    Seal {
        /// The folder.
        staging: Staging,
        /// What it is for.
        target: ObjectKey,
        /// What kind of write it belongs to.
        kind: CommitKind,
    },
    /// Throws a staged folder away.
    Discard {
        /// The folder.
        staging: Staging,
    },
    /// Throws away all staged folders whose ids begin with these 64 bits.
    DiscardOf {
        /// The bits, big-endian.
        tag: u64,
    },
    /// Publishes one version of a key; answered by [`DriveReply::Committed`].
    Commit(Box<Commit>),
    /// Takes one version out of a key; answered by [`DriveReply::Removed`].
    Remove(Remove),
    /// Takes back what a commit or remove of the same lock did here.
    Undo(Undo),
    /// Clears what was kept in case a write had to be taken back.
    Settle(Settle),
    /// Moves what healing found to belong to nobody into quarantine; answered by [`DriveReply::Removed`].
    Quarantine(Quarantine),
    /// Moves a staged part into an open upload.
    CommitPart(Box<CommitPart>),
    /// The parts of an open upload; answered by [`DriveReply::Parts`].
    ReadParts {
        /// The upload.
        upload: ObjectKey,
        /// Its data directory.
        data_dir: Uuid,
    },
    /// Removes an open upload with everything in it; one that is gone already is fine.
    RemoveUpload {
        /// The lock on the upload.
        grant: Grant,
        /// The upload.
        upload: ObjectKey,
    },
    /// Adds an entry to the durable queue of unfinished work.
    QueuePut(QueueEntry),
    /// Entries of that queue; answered by [`DriveReply::Queue`].
    QueueRead {
        /// At most so many.
        limit: u32,
    },
    /// Takes entries off the queue.
    QueueDone {
        /// Their ids.
        ids: Vec<Uuid>,
    },
    /// Writes one small durable record of the healer.
    RecordPut {
        /// Its name: lowercase letters, digits, `-`.
        name: String,
        /// Its contents.
        #[serde(with = "serde_bytes")]
        bytes: Vec<u8>,
    },
    /// Reads such a record; answered by [`DriveReply::Record`].
    RecordRead {
        /// Its name.
        name: String,
    },
    /// Removes such a record, if it is there.
    RecordRemove {
        /// Its name.
        name: String,
    },
    /// What it holds of the replacement protocol, and how it is mounted; answered by
    /// [`DriveReply::Replacement`].
    ReadReplacement,
    /// Takes the drive's execution lease; [`DriveError::Busy`](super::DriveError::Busy) while anybody else's
    /// work under it goes on.
    TakeExecution {
        /// Who takes it; the same one may ask twice.
        holder: Uuid,
    },
    /// Gives the execution lease up; it ends with the last request that is under way.
    EndExecution {
        /// Who took it.
        holder: Uuid,
    },
    /// Makes the folder of replacement records; one that is there already is fine.
    MakeRecordFolder,
    /// Replaces, creates or removes a replacement record or marker, if it holds what is expected; `None` stands
    /// for no file. Answered by [`DriveReply::Swapped`].
    Swap {
        /// Its path.
        path: String,
        /// What it must hold.
        expected: Option<ByteBuf>,
        /// What it holds then.
        new: Option<ByteBuf>,
    },
    /// Empties the trash, and the quarantine of what is older than its grace.
    Sweep {
        /// Unix nanoseconds.
        now_ns: i64,
        /// How long the quarantine keeps things, in seconds.
        grace_s: u64,
    },
}

/// What kind of write a commit belongs to; it decides which crash points are passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommitKind {
    /// A PUT or copy.
    Put,
    /// A delete that puts in a marker.
    Delete,
    /// A completed upload.
    Multipart,
    /// Healing.
    Heal,
    /// The system's own: an upload opened, a part stored.
    Quiet,
}

/// Where a commit's shards come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Shards {
    /// There are none: a marker, an empty or inline object.
    None,
    /// The contents lie in the metadata file: this drive's framed shard.
    Inline(#[serde(with = "serde_bytes")] Vec<u8>),
    /// A sealed staging folder.
    Staged(Staging),
    /// The data directory of an open upload.
    Upload {
        /// The upload.
        upload: ObjectKey,
        /// Its data directory.
        data_dir: Uuid,
    },
    /// They stay as they lie: only what is said of the version changes. Refused where the drive does not hold it.
    Kept,
}

/// Publishes one version of a key. The drive edits its own copy of the key's versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// The lock.
    pub grant: Grant,
    /// The key.
    pub target: ObjectKey,
    /// The version as this drive stores it: its encoded header.
    #[serde(with = "serde_bytes")]
    pub header: Vec<u8>,
    /// Its encoded body.
    #[serde(with = "serde_bytes")]
    pub body: Vec<u8>,
    /// Its contents.
    pub shards: Shards,
    /// What kind of write it is.
    pub kind: CommitKind,
    /// Whether every earlier write of this version id is known to be decided, so that what was kept to take
    /// it back may go.
    pub decided: bool,
    /// Other locks that the step is taken under: each must still be granted too.
    #[serde(default)]
    pub under: Vec<Grant>,
}

/// Takes one version out of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remove {
    /// The lock.
    pub grant: Grant,
    /// The key.
    pub target: ObjectKey,
    /// The version.
    pub version: VersionId,
    /// Only when it is older than this, Unix nanoseconds.
    pub before_ns: i64,
    /// Where the metadata before the delete is kept until it is settled.
    pub rollback: Uuid,
    /// Other locks that the step is taken under: each must still be granted too.
    #[serde(default)]
    pub under: Vec<Grant>,
}

/// Takes back what a commit or remove did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    /// The lock.
    pub grant: Grant,
    /// The key.
    pub target: ObjectKey,
    /// The version that was published; `None` to take back a remove.
    pub published: Option<Published>,
    /// The directory that holds the metadata before.
    pub rollback: Option<Uuid>,
    /// Whether what is taken back goes to quarantine and not to the trash.
    pub quarantine: bool,
    /// Give the data directory back to this open upload.
    pub upload: Option<ObjectKey>,
}

/// Names exactly one write of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// The version.
    pub version: VersionId,
    /// When it was written, Unix nanoseconds.
    pub modtime_ns: i64,
    /// Its data directory; `None` for a marker.
    pub data_dir: Option<Uuid>,
}

/// Clears what was kept in case a write had to be taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settle {
    /// The lock.
    pub grant: Grant,
    /// The key.
    pub target: ObjectKey,
    /// Rollback directories to remove.
    pub rollbacks: Vec<Uuid>,
    /// Data directories to remove unless a version uses them.
    pub data_dirs: Vec<Uuid>,
    /// In this data directory keep only these parts.
    pub parts: Option<(Uuid, Vec<u32>)>,
}

/// Moves into quarantine what belongs to nobody.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quarantine {
    /// The lock.
    pub grant: Grant,
    /// The key.
    pub target: ObjectKey,
    /// A version, with its data directory.
    pub version: Option<Published>,
    /// Directories below the key that no version uses, on any drive.
    pub directories: Vec<Uuid>,
    /// Inline contents by stored name that no version owns.
    pub inline: Vec<String>,
    /// The whole metadata file, because it cannot be read.
    pub metadata: bool,
}

/// Moves a staged part into an open upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitPart {
    /// The lock on the upload.
    pub grant: Grant,
    /// The upload.
    pub upload: ObjectKey,
    /// The sealed folder; its data directory is the upload's.
    pub staging: Staging,
    /// The part.
    pub part: u32,
    /// Its record, `part.N.meta`.
    #[serde(with = "serde_bytes")]
    pub meta: Vec<u8>,
}

/// One entry of the durable queue of unfinished work. The drive does not look into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueEntry {
    /// Its id, the same on every drive that keeps it.
    pub id: Uuid,
    /// What is to be done.
    #[serde(with = "serde_bytes")]
    pub body: Vec<u8>,
}

/// What a drive answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DriveReply {
    /// It is done.
    Done,
    /// How the drive stands.
    Facts(DriveFacts),
    /// Its `format.json`; `None` on a blank drive.
    Format(Option<serde_bytes::ByteBuf>),
    /// Its buckets, in order.
    Buckets(Vec<BucketEntry>),
    /// All that it holds of one key.
    Key(Box<KeyCopy>),
    /// Bytes.
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    /// Lengths of files in the order asked; `None` for a missing one.
    Lengths(Vec<Option<u64>>),
    /// A page of keys.
    Page(WalkPage),
    /// The version is published.
    Committed(Committed),
    /// The version is out.
    Removed(Removed),
    /// The parts of an upload.
    Parts(Vec<PartCopy>),
    /// Entries of the queue, oldest first.
    Queue(Vec<QueueEntry>),
    /// A record; `None` when it is not there.
    Record(Option<serde_bytes::ByteBuf>),
    /// What it holds of the replacement protocol.
    Replacement(Box<ReplacementCopy>),
    /// Whether the file held what was expected, and was changed.
    Swapped(bool),
}

/// What a drive holds of the replacement protocol, and how it is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplacementCopy {
    /// The drive's own id in its `format.json`; `None` when it is blank.
    pub format_id: Option<String>,
    /// Whether it was formatted to be rebuilt, and no rebuild was finished since.
    pub is_unfinished: bool,
    /// Whether the folder of the records is there.
    pub has_folder: bool,
    /// Who holds its execution lease, as far as the drive's own node has it.
    pub execution: Option<Uuid>,
    /// Whether the lease's lock lies at its place: the held one, if it is held.
    pub has_execution_lock: bool,
    /// What its marker holds, up to one byte more than a marker may have.
    pub marker: Option<ByteBuf>,
    /// Its records, by path.
    pub records: BTreeMap<String, ByteBuf>,
    /// How it is mounted, or why that says nothing now.
    pub mount: Result<MountIdentity, String>,
}

impl Default for ReplacementCopy {
    fn default() -> Self {
        Self {
            format_id: None,
            is_unfinished: false,
            has_folder: false,
            execution: None,
            has_execution_lock: false,
            marker: None,
            records: BTreeMap::new(),
            mount: Err("nobody has looked".to_owned()),
        }
    }
}

/// How a drive is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountIdentity {
    /// The real path of its root.
    pub canonical_path: String,
    /// Names of the disks below its file system, sorted; `<major>:<minor>` where the kernel names none.
    pub physical_device_ids: Vec<String>,
    /// `<mount id>:<st_dev>:<st_ino>` of the root, in decimal.
    pub filesystem_identity: String,
    /// The UUID of its file system; `None` when it has none.
    pub filesystem_uuid: Option<String>,
}

/// How a drive stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveFacts {
    /// Bytes of its file system.
    pub total_bytes: u64,
    /// Bytes free for us.
    pub free_bytes: u64,
    /// Inodes free.
    pub free_inodes: u64,
    /// Whether it is being rebuilt.
    pub rebuilding: bool,
    /// Whether it was in use when its node last died.
    pub unclean: bool,
    /// When it was last known to be here before it was last away, Unix nanoseconds; 0 when it never was away.
    pub absent_from_ns: i64,
    /// When it came back, Unix nanoseconds.
    pub absent_until_ns: i64,
    /// Files and directories at the top of its quarantine.
    pub quarantined: u64,
}

/// One bucket of a drive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketEntry {
    /// Its name.
    pub name: String,
    /// When its directory last changed, Unix nanoseconds.
    pub changed_ns: i64,
}

/// All that a drive holds of one key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyCopy {
    /// The metadata file, without its inline block unless that was asked for; `None` when there is none.
    #[serde(with = "serde_bytes")]
    pub meta: Option<Vec<u8>>,
    /// Whether the bucket's directory is there.
    pub bucket: bool,
    /// Directories below the key that are not keys themselves: data directories, rollback directories.
    pub folders: Vec<Folder>,
    /// Whether the drive is being rebuilt, so that what it lacks says nothing.
    pub rebuilding: bool,
}

/// A directory below a key that belongs to the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folder {
    /// Its name.
    pub id: Uuid,
    /// The metadata file that is kept there, with its inline block.
    #[serde(with = "serde_bytes")]
    pub backup: Option<Vec<u8>>,
    /// Names and lengths of its other files.
    pub files: Vec<(String, u64)>,
}

/// A page of keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkPage {
    /// Keys in order, as clients spell them.
    pub entries: Vec<WalkEntry>,
    /// Whether nothing follows.
    pub complete: bool,
    /// Whether the drive is being rebuilt.
    pub rebuilding: bool,
}

/// One key of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WalkEntry {
    /// The key.
    pub key: String,
    /// Its metadata file without the inline block; `None` when only leftovers lie there.
    #[serde(with = "serde_bytes")]
    pub meta: Option<Vec<u8>>,
    /// Directories below the key that belong to it.
    pub folders: Vec<Uuid>,
}

/// What a commit changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    /// Where the metadata before is kept.
    pub rollback: Option<Uuid>,
    /// The data directory of the version that was replaced, when no version uses it any more.
    pub old_data_dir: Option<Uuid>,
    /// Digest of the ids of all versions now here, in order: equal on drives that hold the same.
    pub versions: u64,
}

/// What a remove changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removed {
    /// Whether the version was there.
    pub found: bool,
    /// Its data directory, when no version uses it any more.
    pub old_data_dir: Option<Uuid>,
}

/// A part of an open upload, as one drive has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartCopy {
    /// Its number.
    pub number: u32,
    /// Its record.
    #[serde(with = "serde_bytes")]
    pub meta: Vec<u8>,
    /// Bytes of its shard file.
    pub bytes: u64,
}
