//! Striking files on drives of a stopped node: everywhere or nowhere.
//!
//! Every drive is looked at first. Only when each holds as much as was asked for is any of them changed, so that
//! what is told not to have struck has changed nothing.

use std::io;
use std::path::Path;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::future::FutureExt;

use super::Injected;
use super::Miss;
use super::Scene;
use super::Standing;
use super::drives_of;
use super::names_of;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::blocking;

/// What was changed on drives, and nobody changes back.
struct Struck {
    /// What was changed, in words.
    words: String,
}

/// What happens to the files of drives.
pub(super) trait Blow: Send + 'static {
    /// One change that was planned.
    type Change: Send;

    /// How many changes are made on each drive.
    fn count(&self) -> usize;

    /// Looks for that many changes on a drive, finds fewer where it does not hold as many, and changes nothing.
    fn plan(&mut self, root: &Path) -> io::Result<Vec<Self::Change>>;

    /// Makes one of them; says in words what was done.
    fn apply(change: Self::Change, root: &Path) -> io::Result<String>;

    /// Says that the drive `name` holds only `found` of what was asked.
    fn shortfall(&self, name: &str, found: usize) -> String;
}

/// Stops `node`, strikes the drives in its `slots`, and starts it again when it ran.
pub(super) async fn strike(
    mut blow: impl Blow,
    node: usize,
    slots: &[usize],
    scene: &Scene<'_>,
) -> Injected {
    let testbed = scene.testbed;
    let drives = drives_of(testbed, node, slots)?;
    let names = names_of(testbed, &drives);
    let was_running = testbed.is_running(node);
    testbed.stop(node).await?;
    let hardware = Arc::clone(testbed.hardware());
    let struck = blocking(move || {
        let roots: Vec<_> = drives.iter().map(|drive| hardware.root(*drive)).collect();
        let roots: Vec<_> =
            names.iter().zip(&roots).map(|(name, root)| (name.as_str(), &**root)).collect();
        everywhere_or_nowhere(&mut blow, &roots)
    })
    .await;
    if was_running {
        testbed.start(node).await?;
    }
    let words = struck?.map_err(Miss::NotReached)?;
    scene.teller.injected(words.clone());
    Ok(Some(Box::new(Struck { words })))
}

/// Strikes named drives. The inner error says which of them holds too little; then none was changed.
fn everywhere_or_nowhere<B: Blow>(
    blow: &mut B,
    roots: &[(&str, &Path)],
) -> Result<Result<String, String>, TestbedError> {
    let mut plans = Vec::new();
    for (name, root) in roots {
        let changes = blow.plan(root).map_err(TestbedError::io("look for files on", root))?;
        if changes.len() < blow.count() {
            return Ok(Err(blow.shortfall(name, changes.len())));
        }
        plans.push(changes);
    }
    let mut all = Vec::new();
    for ((name, root), changes) in roots.iter().zip(plans) {
        let done = changes.into_iter().map(|change| B::apply(change, root));
        let done = done.collect::<io::Result<Vec<_>>>();
        let done = done.map_err(TestbedError::io("change files on", root))?;
        all.push(format!("{name}: {}", done.join("; ")));
    }
    Ok(Ok(all.join("; ")))
}

impl Standing for Struck {
    fn measure<'a>(&'a mut self, _: &'a Arc<Testbed>) -> BoxFuture<'a, Option<String>> {
        async move { Some(self.words.clone()) }.boxed()
    }

    fn heal<'a>(&'a mut self, _: &'a Arc<Testbed>) -> BoxFuture<'a, Result<String, TestbedError>> {
        async move { Ok("nothing is changed back: repair is the cluster's".to_owned()) }.boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Removes so many files.
    struct Removal(usize);

    impl Blow for Removal {
        type Change = String;

        fn count(&self) -> usize {
            self.0
        }

        fn plan(&mut self, root: &Path) -> io::Result<Vec<String>> {
            let names = fs::read_dir(root)?.map(|entry| Ok(entry?.file_name()));
            let mut names: Vec<_> = names.collect::<io::Result<Vec<_>>>()?;
            names.truncate(self.0);
            Ok(names.into_iter().map(|name| name.to_string_lossy().into_owned()).collect())
        }

        fn apply(change: String, root: &Path) -> io::Result<String> {
            fs::remove_file(root.join(&change)).map(|()| change)
        }

        fn shortfall(&self, name: &str, found: usize) -> String {
            format!("drive {name} holds {found}")
        }
    }

    #[test]
    fn where_one_drive_holds_too_little_none_is_changed() {
        let drives = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for name in ["a", "b"] {
            fs::write(drives[0].path().join(name), name).unwrap();
        }
        fs::write(drives[1].path().join("c"), "c").unwrap();
        let roots = [("0/0", drives[0].path()), ("0/1", drives[1].path())];
        let left = |drive: usize| fs::read_dir(drives[drive].path()).unwrap().count();
        let told = everywhere_or_nowhere(&mut Removal(2), &roots).unwrap();
        assert_eq!(told, Err("drive 0/1 holds 1".to_owned()));
        assert_eq!((left(0), left(1)), (2, 1), "it was told not to have struck");
        let told = everywhere_or_nowhere(&mut Removal(1), &roots).unwrap().unwrap();
        assert!(told.contains("0/0: ") && told.ends_with("0/1: c"), "{told}");
        assert_eq!((left(0), left(1)), (1, 0));
    }
}
