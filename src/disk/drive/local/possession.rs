//! Identity, lease and presence: whose drive it is, and since when it has been here.

use std::time::Duration;

use serde::Deserialize;
use serde::Serialize;
use serde_bytes::ByteBuf;
use uuid::Uuid;

use super::LocalDrive;
use super::base::now_ns;
use super::queue::Queue;
use super::queue::RECORDS;
use crate::disk::drive::DriveError;
use crate::disk::drive::DriveFacts;
use crate::disk::drive::DriveStep;
use crate::disk::drive::error_at;
use crate::disk::format::format_json::FormatJson;
use crate::disk::layout;
use crate::value::Digest;

/// When the drive was here: read at the next start to know how long it was away.
const PRESENCE: &str = ".rustfs.sys/buckets/.heal/firedrill/presence.json";

/// What the format was when the drive was last admitted: a format that rotted is told from another one by it.
const KEPT_FORMAT: &str = ".rustfs.sys/buckets/.heal/firedrill/format.json";
/// Present from before a drive is formatted to be rebuilt until its rebuild is finished: what it lacks says nothing.
pub(super) const UNFINISHED: &str = ".rustfs.sys/buckets/.heal/firedrill/unfinished";
/// Bytes in which a rotten format may differ from what was kept; two formats differ in dozens.
const ROT_MAX: usize = 4;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct KeptFormat {
    format: u32,
    contents: String,
    /// SHA-256 of the contents.
    digest: Digest,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Presence {
    format: u32,
    alive_ns: i64,
    absent_from_ns: i64,
    absent_until_ns: i64,
}

impl LocalDrive {
    /// Takes an admitted drive into possession: its lease, its system folders, a clean staging area.
    ///
    /// A drive whose file system takes no writes is owned too; its writes fail one by one. So is one that is full: it
    /// is read, and takes writes once a heartbeat has found room for what has to lie there before.
    ///
    /// # Errors
    ///
    /// [`DriveError::Leased`] when another process owns it, [`DriveError::Blank`] without a format.
    pub fn own(&self, now_ns: i64) -> Result<(), DriveError> {
        self.guard_root()?;
        if self.read_format()?.is_none() {
            return Err(DriveError::Blank);
        }
        self.take_lease()?;
        match self.prepare(now_ns) {
            Err(DriveError::ReadOnly { .. }) => {}
            Err(full @ DriveError::Full { .. }) => self.state().unprepared = Some(full),
            prepared => prepared.inspect_err(|_| self.state().lease = None)?,
        }
        self.look_at_rebuild()?;
        let queue = Queue::load(self)?;
        *self.queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = queue;
        Ok(())
    }

    fn take_lease(&self) -> Result<(), DriveError> {
        if self.state().lease.is_some() {
            return Ok(());
        }
        let lease = self.files.lock(layout::LEASE).map_err(|errno| match errno {
            nix::errno::Errno::EWOULDBLOCK => DriveError::Leased { root: self.root_name() },
            errno => error_at(DriveStep::Open, layout::LEASE)(errno),
        })?;
        self.state().lease = Some(lease.held);
        Ok(())
    }

    fn prepare(&self, now_ns: i64) -> Result<(), DriveError> {
        let presence = match self.read_if_there(PRESENCE)? {
            Some(bytes) => serde_json::from_slice::<Presence>(&bytes).unwrap_or_default(),
            None => Presence::default(),
        };
        {
            let mut state = self.state();
            state.absent_from_ns = presence.alive_ns;
            state.absent_until_ns = if presence.alive_ns == 0 { 0 } else { now_ns };
        }
        let unclean = self.exists(layout::UNCLEAN)?;
        self.state().unclean = unclean;

        // The staging area of the process before holds nothing that anyone was told about.
        self.remove_tree(layout::TMP_OLD)?;
        match self.files.list(layout::TMP) {
            Ok(entries) => {
                for entry in entries {
                    self.remove_tree(&format!("{}/{}", layout::TMP, entry.name))?;
                }
            }
            Err(nix::errno::Errno::ENOENT | nix::errno::Errno::ENOTDIR) => {}
            Err(errno) => return Err(error_at(DriveStep::CleanUp, layout::TMP)(errno)),
        }
        for folder in layout::SYSTEM_FOLDERS {
            self.make_path("", folder)?;
        }
        self.make_path("", RECORDS)?;
        self.keep_format()?;

        self.write_file(layout::UNCLEAN, (now_ns / 1_000_000_000).to_string().as_bytes(), true)?;
        self.heartbeat_as_owner(now_ns)?;
        self.sync_directory(RECORDS, DriveStep::SyncStaged)?;
        self.sync_up_to("", ".rustfs.sys/buckets/.heal/firedrill")?;
        self.sync_directory(layout::SYSTEM, DriveStep::SyncStaged)?;
        self.sync_directory("", DriveStep::SyncStaged)
    }

    /// Says durably that the drive was closed in order, and gives up its lease.
    ///
    /// # Errors
    ///
    /// `Io`; the next start then takes it as unclean.
    pub fn close(&self, now_ns: i64) -> Result<(), DriveError> {
        self.guard_writes()?;
        self.sweep_staging(Duration::ZERO)?;
        self.sweep_trash()?;
        self.heartbeat_as_owner(now_ns)?;
        match self.files.remove_file(layout::UNCLEAN) {
            Ok(()) | Err(nix::errno::Errno::ENOENT) => {}
            Err(errno) => return Err(error_at(DriveStep::CleanUp, layout::UNCLEAN)(errno)),
        }
        self.sync_directory(layout::SYSTEM, DriveStep::SyncPublished)?;
        self.state().lease = None;
        Ok(())
    }

    pub(super) fn heartbeat(&self, now_ns: i64) -> Result<(), DriveError> {
        self.guard_reads()?;
        if self.state().unprepared.is_some() {
            self.prepare(now_ns)?;
            self.state().unprepared = None;
        }
        self.guard_writes()?;
        self.heartbeat_as_owner(now_ns)
    }

    fn heartbeat_as_owner(&self, now_ns: i64) -> Result<(), DriveError> {
        let presence = {
            let state = self.state();
            Presence {
                format: 1,
                alive_ns: now_ns,
                absent_from_ns: state.absent_from_ns,
                absent_until_ns: state.absent_until_ns,
            }
        };
        let bytes = serde_json::to_vec(&presence).expect("a presence has text keys only");
        let staged = format!("{}/{}", layout::TMP, Uuid::new_v4());
        self.write_file(&staged, &bytes, true)?;
        self.publish(&staged, PRESENCE)
    }

    pub(super) fn read_format(&self) -> Result<Option<ByteBuf>, DriveError> {
        self.guard_root()?;
        let Some(present) = self.read_if_there(layout::FORMAT)? else { return Ok(None) };
        Ok(Some(ByteBuf::from(match self.kept_format() {
            Some(kept) if is_rotten(&present, &kept) => kept,
            _ => present,
        })))
    }

    /// The format as it was when the drive was last admitted, if that can be read.
    fn kept_format(&self) -> Option<Vec<u8>> {
        let kept = self.read_if_there(KEPT_FORMAT).ok()??;
        let kept = serde_json::from_slice::<KeptFormat>(&kept).ok()?;
        (Digest::of(kept.contents.as_bytes()) == kept.digest).then(|| kept.contents.into_bytes())
    }

    /// Mends a format that rotted, and keeps one that is new.
    fn keep_format(&self) -> Result<(), DriveError> {
        let Some(good) = self.read_format()? else { return Ok(()) };
        if self.read_if_there(layout::FORMAT)?.as_deref() != Some(good.as_slice()) {
            self.publish_format(&good, false)?;
        }
        if self.kept_format().as_deref() == Some(good.as_slice()) {
            return Ok(());
        }
        let Ok(contents) = String::from_utf8(good.into_vec()) else { return Ok(()) };
        let digest = Digest::of(contents.as_bytes());
        let kept = KeptFormat { format: 1, contents, digest };
        let bytes = serde_json::to_vec(&kept).expect("a format has text keys only");
        let staged = format!("{}/{}", layout::TMP, Uuid::new_v4());
        self.write_file(&staged, &bytes, true)?;
        self.publish(&staged, KEPT_FORMAT)
    }

    pub(super) fn write_format(&self, bytes: &[u8], rebuilding: bool) -> Result<(), DriveError> {
        self.guard_root()?;
        if let Some(present) = self.read_format()? {
            // Telling it twice is fine; another identity is not.
            return if present.as_slice() == bytes { Ok(()) } else { Err(DriveError::Formatted) };
        }
        FormatJson::parse(bytes).map_err(|error| DriveError::Illegal { why: error.to_string() })?;
        self.make_path("", layout::TMP)?;
        self.take_lease()?;
        let published = self.publish_format(bytes, rebuilding);
        if published.is_err() {
            self.state().lease = None;
            return published;
        }
        self.own(now_ns())
    }

    fn publish_format(&self, bytes: &[u8], rebuilding: bool) -> Result<(), DriveError> {
        if rebuilding {
            let (folder, _) = UNFINISHED.rsplit_once('/').expect("it lies in a folder");
            self.make_path("", folder)?;
            self.write_file(UNFINISHED, b"", true)?;
            self.sync_up_to("", folder)?;
        }
        let staged = format!("{}/{}.format.json", layout::SYSTEM, Uuid::new_v4());
        self.write_file(&staged, bytes, true)?;
        self.sync_directory(layout::SYSTEM, DriveStep::SyncStaged)?;
        self.publish(&staged, layout::FORMAT)?;
        self.sync_directory(layout::SYSTEM, DriveStep::SyncPublished)?;
        self.sync_directory("", DriveStep::SyncPublished)
    }

    pub(super) fn finish_rebuild(&self) -> Result<(), DriveError> {
        self.guard_writes()?;
        match self.files.remove_file(UNFINISHED) {
            Ok(()) | Err(nix::errno::Errno::ENOENT) => {}
            Err(errno) => return Err(error_at(DriveStep::CleanUp, UNFINISHED)(errno)),
        }
        let (folder, _) = UNFINISHED.rsplit_once('/').expect("it lies in a folder");
        self.sync_directory(folder, DriveStep::SyncPublished)?;
        self.look_at_rebuild()
    }

    /// A drive is being rebuilt while a marker names who does it, or nobody has finished.
    fn look_at_rebuild(&self) -> Result<(), DriveError> {
        let rebuilding = self.exists(layout::HEALING)? || self.exists(UNFINISHED)?;
        self.state().rebuilding = rebuilding;
        Ok(())
    }

    pub(super) fn facts(&self) -> Result<DriveFacts, DriveError> {
        self.guard_root()?;
        let room = self.files.room().map_err(error_at(DriveStep::Read, ""))?;
        let quarantined = self.files.list(layout::QUARANTINE).map_or(0, |entries| entries.len());
        let state = self.state();
        Ok(DriveFacts {
            total_bytes: room.total_bytes,
            free_bytes: room.free_bytes,
            free_inodes: room.free_inodes,
            rebuilding: state.rebuilding,
            unclean: state.unclean,
            absent_from_ns: state.absent_from_ns,
            absent_until_ns: state.absent_until_ns,
            quarantined: quarantined as u64,
        })
    }
}

/// Whether `present` is what `kept` became: no JSON any more, or different in a few bytes only. What merely has
/// another form may be a newer server's.
fn is_rotten(present: &[u8], kept: &[u8]) -> bool {
    let differing = present.iter().zip(kept).filter(|(one, other)| one != other).count();
    let is_close = present.len() == kept.len() && (1..=ROT_MAX).contains(&differing);
    is_close || serde_json::from_slice::<serde::de::IgnoredAny>(present).is_err()
}
