//! What is durable before what: on a file system that keeps the order of changes, and on one that does not.

use std::sync::Arc;

use nix::errno::Errno;

use super::*;
use crate::disk::drive::files::AfterWrite;
use crate::disk::drive::files::Entry;
use crate::disk::drive::files::Files;
use crate::disk::drive::files::Lock;
use crate::disk::drive::files::Room;

/// What was done to files, by their paths.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Written(String),
    /// Its contents went to the device, and were flushed there or not.
    Kept(String, AfterWrite),
    Renamed(String, String),
    /// Names of one directory were flushed, or of all.
    Flushed(Option<String>),
}

/// Real files, of which it is said whether they are ordered, and a record of what is done to them.
struct Recorded {
    files: Beneath,
    is_ordered: bool,
    steps: Arc<Mutex<Vec<Step>>>,
}

impl Recorded {
    fn after<T>(&self, result: Result<T, Errno>, step: Step) -> Result<T, Errno> {
        if result.is_ok() {
            self.steps.lock().unwrap().push(step);
        }
        result
    }
}

macro_rules! hand_on {
    ($($name:ident($($argument:ident: $of:ty),*) -> $answer:ty;)*) => {
        $(fn $name(&self, $($argument: $of),*) -> $answer { self.files.$name($($argument),*) })*
    };
}

impl Files for Recorded {
    hand_on! {
        check_root() -> Result<(), (String, String)>;
        read(path: &str) -> Result<Vec<u8>, Errno>;
        read_at(path: &str, offset: u64, length: usize) -> Result<Vec<u8>, Errno>;
        length(path: &str) -> Result<u64, Errno>;
        changed_ns(path: &str) -> Result<i64, Errno>;
        writes_per_checkpoint() -> Option<u64>;
        begin_checkpoint() -> ();
        list(path: &str) -> Result<Vec<Entry>, Errno>;
        make_directory(path: &str) -> Result<(), Errno>;
        has_no_directories(path: &str) -> Result<bool, Errno>;
        is_root_at_once() -> bool;
        read_beside_at_once(
            directory: &str, name: &str, bytes_max: u64, folders: &dyn Fn(&[u8]) -> Vec<String>, lacking: &str
        ) -> Option<Vec<u8>>;
        read_at_once(path: &str, offset: u64, length: usize) -> Option<Vec<u8>>;
        link(from: &str, to: &str) -> Result<(), Errno>;
        truncate(path: &str, length: u64) -> Result<(), Errno>;
        remove_file(path: &str) -> Result<(), Errno>;
        remove_directory(path: &str) -> Result<(), Errno>;
        lock(path: &str) -> Result<Lock, Errno>;
        inode(path: &str) -> Result<u64, Errno>;
        mount() -> Result<MountIdentity, String>;
        room() -> Result<Room, Errno>;
    }

    fn write(
        &self,
        path: &str,
        bytes: &[u8],
        then: Option<(AfterWrite, &mut bool)>,
    ) -> Result<(), Errno> {
        let kept = then.as_ref().map(|(then, _)| *then);
        let result = self.files.write(path, bytes, then);
        let result = self.after(result, Step::Written(path.to_owned()));
        match kept {
            Some(kept) => self.after(result, Step::Kept(path.to_owned(), kept)),
            None => result,
        }
    }

    fn write_at(&self, path: &str, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        self.after(self.files.write_at(path, offset, bytes), Step::Written(path.to_owned()))
    }

    fn sync_file(&self, path: &str) -> Result<(), Errno> {
        let step = Step::Kept(path.to_owned(), AfterWrite::Sync);
        self.after(self.files.sync_file(path), step)
    }

    fn sync_directory(&self, path: &str) -> Result<(), Errno> {
        self.after(self.files.sync_directory(path), Step::Flushed(Some(path.to_owned())))
    }

    fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    fn write_back(&self, path: &str) -> Result<(), Errno> {
        let step = Step::Kept(path.to_owned(), AfterWrite::WriteBack);
        self.after(self.files.write_back(path), step)
    }

    fn sync_ordered(&self, directory: &str) -> Result<(), Errno> {
        self.after(self.files.sync_ordered(directory), Step::Flushed(None))
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), Errno> {
        let step = Step::Renamed(from.to_owned(), to.to_owned());
        self.after(self.files.rename(from, to), step)
    }
}

/// Checks one answered request: whatever it wrote was kept before a name was given to it for good, and that name was
/// flushed before the answer; on an ordered file system by one flush.
fn check(steps: &[Step], is_ordered: bool) {
    let kept_how = if is_ordered { AfterWrite::WriteBack } else { AfterWrite::Sync };
    let is_published = |step: &Step| matches!(step, Step::Renamed(_, to) if to.starts_with("bkt/"));
    let published = steps.iter().rposition(is_published).expect("something was published");
    for (at, step) in steps[..published].iter().enumerate() {
        let Step::Written(path) = step else { continue };
        let kept = Step::Kept(path.clone(), kept_how);
        assert!(steps[at..published].contains(&kept), "{path} may be lost: {steps:?}");
    }
    let flushes: Vec<_> =
        steps.iter().filter(|step| matches!(step, Step::Flushed(_))).cloned().collect();
    let Step::Renamed(_, to) = &steps[published] else { unreachable!() };
    let directory = to.rsplit_once('/').map(|(directory, _)| directory.to_owned());
    let last = if is_ordered { Step::Flushed(None) } else { Step::Flushed(directory) };
    assert!(steps[published..].contains(&last), "{to} may be lost: {steps:?}");
    if is_ordered {
        assert_eq!(flushes, [Step::Flushed(None)], "one flush is enough: {steps:?}");
    }
}

/// Goal: in both kinds of file systems contents come before their names, and names before the answer.
#[test]
fn contents_are_kept_before_their_names_and_names_before_the_answer() {
    for is_ordered in [true, false] {
        let steps = Arc::<Mutex<Vec<Step>>>::default();
        let bench = Bench::with(|root, gate| {
            let files = Beneath::open(root, true).unwrap();
            let recorded = Recorded { files, is_ordered, steps: Arc::clone(&steps) };
            let (options, seams) = parts(root, gate);
            LocalDrive::over(options, seams, Box::new(recorded))
        });
        let answered = || {
            check(&steps.lock().unwrap(), is_ordered);
            steps.lock().unwrap().clear();
        };
        steps.lock().unwrap().clear();
        put_inline(&bench, "small", VersionId::NULL, 1);
        answered();
        put_inline(&bench, "small", VersionId::NULL, 2);
        answered();
        put_inline(&bench, "a/b/c", VersionId::NULL, 1);
        answered();
        put_large(&bench, "large", VersionId::NULL, 3);
        answered();
        put_large(&bench, "large", VersionId(*Uuid::from_u128(7).as_bytes()), 4);
        answered();
        assert!(bench.remove("large", VersionId::NULL, 100, Uuid::from_u128(5)).found);
        answered();
        // The last version goes: its file goes to the trash, and that name is flushed, too.
        assert!(bench.remove("small", VersionId::NULL, 100, Uuid::from_u128(6)).found);
        assert!(matches!(steps.lock().unwrap().last(), Some(Step::Flushed(_))));
    }
}
