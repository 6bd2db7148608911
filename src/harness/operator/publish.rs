//! The one thing that the tools write on a drive: an approval, staged, flushed, and given its name if that is free.

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::ErrorKind;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::fs::fchown;
use std::path::Path;
use std::path::PathBuf;

use nix::unistd::geteuid;

use super::error::OperatorError;
use super::prepare::read;
use crate::protocol::replacement::approval::Approval;
use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::names;
use crate::protocol::replacement::names::Record;
use crate::protocol::replacement::prepare;
use crate::protocol::replacement::store::Change;
use crate::protocol::replacement::store::Write;

/// Publishes `approval` on the anchor at `root` and answers where it lies. No file is ever replaced: a second
/// name is only given where nobody has it.
///
/// # Errors
///
/// [`OperatorError::Refused`] when the name is taken, [`OperatorError::Io`]: nothing is left behind.
/// [`OperatorError::Unflushed`]: the approval may be there.
pub(super) fn publish(root: &Path, approval: &Approval) -> Result<PathBuf, OperatorError> {
    let staging = GenerationId(uuid::Uuid::new_v4());
    let staged = root.join(names::FOLDER).join(format!(".{staging}.migration.tmp"));
    let published = root.join(names::path(Record::Approval, approval.successor));
    let go_on = || -> Result<(), OperatorError> {
        loop {
            let (now_staged, now_published) = (held(&staged)?, held(&published)?);
            let next = prepare::publication(
                approval,
                staging,
                now_staged.as_deref(),
                now_published.as_deref(),
            )?;
            match next {
                Some(write) => perform(root, &write)?,
                None => return Ok(()),
            }
        }
    };
    match go_on() {
        Ok(()) => Ok(published),
        Err(error) => {
            // A staging that stays is ignored by everybody.
            let _ = fs::remove_file(&staged);
            Err(error)
        }
    }
}

/// What a file holds; `None` when it is not there.
fn held(path: &Path) -> Result<Option<Vec<u8>>, OperatorError> {
    match read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(OperatorError::io("read", path)(error)),
    }
}

fn perform(root: &Path, write: &Write) -> Result<(), OperatorError> {
    let path = root.join(&write.path);
    let folder = path.parent().unwrap_or(root);
    match &write.change {
        Change::Swap { expected: None, new: Some(bytes) } => {
            stage(&path, folder, bytes).map_err(OperatorError::io("write", &path))
        }
        Change::Link { to } => {
            let to = root.join(to);
            match fs::hard_link(&path, &to) {
                Ok(()) => flush(folder),
                // Somebody was faster: what they wrote decides.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
                Err(error) => Err(OperatorError::io("link", &to)(error)),
            }
        }
        Change::Swap { expected: Some(_), new: None } => {
            // The approval has its name by now.
            fs::remove_file(&path)
                .map_err(|source| OperatorError::Unflushed { path: path.clone(), source })?;
            flush(folder)
        }
        change => unreachable!("the publication of an approval does not ask for {change:?}"),
    }
}

/// Writes and flushes a new file that its folder's owner, who runs the node, can read.
fn stage(path: &Path, folder: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    give_to_owner(&file, folder)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Gives a new file to whoever owns `folder`: the node, which has to open it. Only root can.
pub(super) fn give_to_owner(file: &File, folder: &Path) -> io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let owner = fs::metadata(folder)?;
    fchown(file, Some(owner.uid()), Some(owner.gid()))
}

fn flush(folder: &Path) -> Result<(), OperatorError> {
    let flushed = File::open(folder).and_then(|folder| folder.sync_all());
    flushed.map_err(|source| OperatorError::Unflushed { path: folder.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::replacement::step::Step;
    use crate::protocol::replacement::store::Place;

    /// Goal: an approval that another tool published after we looked is never written over.
    #[test]
    fn a_name_that_was_taken_meanwhile_stays_with_its_taker() {
        let anchor = tempfile::tempdir().unwrap();
        let at = |name: &str| anchor.path().join(name);
        fs::write(at("staged"), "ours").unwrap();
        fs::write(at("approval"), "theirs").unwrap();
        let link = Write {
            step: Step::ApprovalPublished,
            place: Place::Anchor,
            path: "staged".to_owned(),
            change: Change::Link { to: "approval".to_owned() },
        };
        perform(anchor.path(), &link).unwrap();
        assert_eq!(fs::read_to_string(at("approval")).unwrap(), "theirs");
        fs::remove_file(at("approval")).unwrap();
        perform(anchor.path(), &link).unwrap();
        assert_eq!(fs::read_to_string(at("approval")).unwrap(), "ours");
    }

    /// Goal: whoever comes too late is refused, and leaves no staging.
    #[test]
    fn a_refusal_takes_its_staging_away() {
        let anchor = tempfile::tempdir().unwrap();
        let folder = anchor.path().join(names::FOLDER);
        fs::create_dir_all(&folder).unwrap();
        let approval = |targets: &str| Approval {
            schema_version: Approval::SCHEMA,
            successor: GenerationId(uuid::Uuid::from_u128(7)),
            set_disk_id: "pool_0_set_0".to_owned(),
            targets: vec![targets.to_owned()],
            expected_markers: vec![None],
            sources: Vec::new(),
            maintenance_assertion: String::new(),
        };
        let path = publish(anchor.path(), &approval("http://one")).unwrap();
        let bytes = fs::read(&path).unwrap();
        assert_eq!(publish(anchor.path(), &approval("http://one")).unwrap(), path);
        let refused = publish(anchor.path(), &approval("http://another")).unwrap_err();
        assert!(refused.to_string().starts_with("P19: "), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), bytes);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "a staging stayed");
    }
}
