//! Looks at the records of replacements on the drives while a run goes on, and tells of it as a [`Sighting`].
//!
//! Taken around every fault (before it strikes a held task, and while the nodes that it took down are down) and, by
//! the runner, every now and then. It reads and decides nothing: a drive that cannot be read is left out.

use std::sync::Arc;

use super::Held;
use super::Scene;
use crate::harness::audit::DriveSource;
use crate::harness::audit::replacement;
use crate::harness::testbed::DrivePlace;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::harness::testbed::blocking;
use crate::harness::workload::history::Event;
use crate::harness::workload::history::Sighting;

/// What the points of the replacement protocol begin with.
const FAMILY: &str = "replacement.";

/// What the drives hold now. `held` is the task that is parked meanwhile, if one is.
///
/// # Errors
/// The task that reads failed.
pub(super) async fn look(
    testbed: &Arc<Testbed>,
    when: String,
    held: Option<&Held>,
) -> Result<Sighting, TestbedError> {
    // One node and one set have one executor: where that is held, nobody writes records.
    let plan = testbed.plan();
    let has_one = plan.nodes == 1 && plan.drives.len() == plan.set_drives;
    let is_held = has_one && held.is_some_and(|held| held.point.name().starts_with(FAMILY));
    let testbed = Arc::clone(testbed);
    let read = move || {
        let mut sighting = Sighting {
            when,
            fault: None,
            drives: Vec::new(),
            at_rest: Vec::new(),
            held: Vec::new(),
        };
        for place in testbed.drives().into_iter().filter(|place| place.mounted) {
            let drive = DriveSource { name: place.name, root: place.root };
            let was_down = !testbed.is_running(place.node);
            let Ok(held) = replacement::look(&drive) else { continue };
            // What was unmounted meanwhile was a bare directory.
            let is_there = |it: &DrivePlace| it.name == drive.name && it.mounted;
            if !testbed.drives().iter().any(is_there) {
                continue;
            }
            // A node that starts meanwhile may have written.
            if is_held || was_down && !testbed.is_running(place.node) {
                sighting.at_rest.push(drive.name.clone());
            }
            sighting.drives.push(drive.name);
            if held.marker.is_some() || !held.records.is_empty() {
                sighting.held.push(held);
            }
        }
        Ok(sighting)
    };
    blocking(read).await
}

impl Scene<'_> {
    /// Tells what the drives hold now, while nobody that the fault has struck runs.
    pub(super) async fn sight(&self, when: &str) -> Result<(), TestbedError> {
        let when = format!("{} {when}", self.teller.event.name);
        let sighting = look(self.testbed, when, self.held).await?;
        self.teller.sighted(sighting);
        Ok(())
    }
}

impl super::Teller {
    fn sighted(&self, sighting: Sighting) {
        let sighting = Sighting { fault: Some(self.event.fault), ..sighting };
        (self.testbed.context().events)(Event::Sighted(sighting));
    }
}
