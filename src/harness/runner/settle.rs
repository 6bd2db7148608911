//! Settling: every fault healed, every node started, and time to become whole.
//!
//! Nodes are asked to heal and say when they are done; that is only the hint to look. Whether they
//! are is judged later, by the census. When the time has gone by, the drives themselves are looked at,
//! to tell a cluster that is slow from one that has stopped repairing itself.

use std::collections::BTreeMap;
use std::time::Duration;
use std::time::Instant;

use tokio::time;

use super::life::Life;
use super::life::Trouble;
use crate::harness::audit::census::Census;
use crate::harness::audit::census::ReplacementCensus;
use crate::harness::audit::census::VersionClass;
use crate::harness::scenario::counter::Counter;
use crate::harness::scenario::form::Finder;
use crate::harness::scenario::form::Settle;
use crate::harness::workload::history::Event;
use crate::harness::workload::history::Fence;
use crate::harness::workload::history::Note;
use crate::harness::workload::history::SettleEvent;
use crate::protocol::admin::DriveCondition;
use crate::protocol::admin::HealProgress;
use crate::protocol::admin::HealState;
use crate::protocol::admin::ScanStatus;

/// How often nodes are asked how far they are.
const POLL: Duration = Duration::from_millis(50);
/// Cycles in which a scanner has to find everything.
const CYCLES: u64 = 2;
/// How many times the objective a cluster is given while it still makes progress.
const EXTENSIONS: u32 = 4;

/// How the repair stands, as the nodes say.
enum Standing {
    Whole,
    Left(String),
}

impl Life<'_> {
    /// Heals, starts and waits. Answers when everything is whole, or nothing moves any more.
    pub(super) async fn settle(&self, settle: &Settle) -> Result<(), Trouble> {
        self.waiting.on_ourselves("armed faults to strike");
        self.background.drained().await?;
        self.waiting.on_ourselves("faults to be healed");
        // Whether work went on under a fault is told from what was counted.
        self.recorder.written().await;
        self.injector.heal_all().await?;
        self.start_all().await?;

        let within = Duration::from_secs(settle.within_s);
        let within_ms = settle.within_s.saturating_mul(1_000);
        self.recorder.record(Event::Settle(SettleEvent::Began { within_ms }));
        let began = Instant::now();
        if self.plan.expect.provokes.contains_key(&Counter::VersionsHealed) {
            let census = self.look().await?;
            let versions = damaged(&census);
            let when = "as the settle began".to_owned();
            self.recorder.record(Event::Noted(Note::Damage { when, versions }));
        }
        self.waiting.on_the_cluster("the cluster to become whole");
        let mut healing = Healing::default();
        let mut scans = Scans::default();
        let mut looks: Vec<Look> = Vec::new();
        let mut next_look = within / 2;
        loop {
            let standing = match settle.by {
                Finder::Heal => self.standing(&mut healing).await,
                Finder::Scanner => self.scanned(&mut scans).await,
            };
            let left = match standing {
                Standing::Whole => break,
                Standing::Left(left) => left,
            };
            if began.elapsed() >= next_look {
                let progressed = self.look_again(&mut looks, &left).await?;
                let was_allowed = next_look > within / 2;
                next_look += within / 2;
                if (was_allowed && !progressed) || began.elapsed() >= within * EXTENSIONS {
                    self.recorder.record(Event::Settle(SettleEvent::Ended { repaired: false }));
                    return Ok(());
                }
            }
            // Not a wait for a while: nodes have no way to call us, so their state is asked for.
            time::sleep(POLL).await;
        }
        self.recorder.record(Event::Settle(SettleEvent::Ended { repaired: true }));
        self.recorder.record(Event::Fence(Fence::Settled));
        Ok(())
    }

    /// Takes a census of the living drives and holds it against the one before.
    async fn look_again(&self, looks: &mut Vec<Look>, left: &str) -> Result<bool, Trouble> {
        let census = self.look().await?;
        let look = Look { left: left.to_owned(), ..Look::of(&census) };
        let progressed = looks.last().is_none_or(|before| look.is_better_than(before));
        let evidence = format!("{} ({left})", look.words());
        self.recorder.record(Event::Settle(SettleEvent::Looked { progressed, evidence }));
        looks.push(look);
        Ok(progressed)
    }

    /// How the nodes say that the repair stands; starts a heal where none runs.
    async fn standing(&self, healing: &mut Healing) -> Standing {
        let address = self.testbed.client_address(healing.node);
        if healing.id.is_none()
            && let Some(left) = self.out_of_service(false).await
        {
            // A heal would pass over what is away, and end.
            return Standing::Left(left);
        }
        let progress = match &healing.id {
            None => match self.admin.heal(address).await {
                Ok(started) => {
                    healing.id = Some(started.id);
                    return Standing::Left(healing.words("a heal has just begun"));
                }
                Err(reason) => return healing.elsewhere(self.plan.testbed.nodes, &reason),
            },
            Some(id) => match self.admin.progress(address, id).await {
                Ok(progress) => progress,
                Err(reason) => return healing.elsewhere(self.plan.testbed.nodes, &reason),
            },
        };
        if let Some(left) = left_of(&progress) {
            if progress.state == HealState::Running {
                return Standing::Left(healing.words(&left));
            }
            healing.again(&left);
            return Standing::Left(left);
        }
        match self.out_of_service(true).await {
            Some(left) => {
                // What is completed now may have been missed by the heal before.
                healing.again(&left);
                Standing::Left(left)
            }
            None => Standing::Whole,
        }
    }

    /// How the nodes say that the repair stands when nobody asks for it: whether each scanner has ended so many cycles
    /// since everything is in service.
    async fn scanned(&self, scans: &mut Scans) -> Standing {
        if let Some(left) = self.out_of_service(false).await {
            scans.since.clear();
            return Standing::Left(left);
        }
        let mut scanning = 0;
        for node in 0..self.plan.testbed.nodes {
            let status = match self.admin.status(self.testbed.client_address(node)).await {
                Ok(status) => status,
                Err(reason) => return Standing::Left(format!("node {node}: {reason}")),
            };
            let scan = status.heal.scan;
            scanning += scan.sets;
            if scan.sets == 0 {
                continue;
            }
            if let Some(left) = scans.left_of(node, &scan) {
                return Standing::Left(left);
            }
        }
        if scanning == 0 {
            return Standing::Left("no node scans".to_owned());
        }
        match self.out_of_service(true).await {
            Some(left) => Standing::Left(left),
            None => Standing::Whole,
        }
    }

    /// The first node that is not ready, misses a drive or replaces one (what is nobody's is told only when every
    /// drive speaks); `or_behind`, or that has partial writes queued.
    async fn out_of_service(&self, or_behind: bool) -> Option<String> {
        for node in 0..self.plan.testbed.nodes {
            let status = match self.admin.status(self.testbed.client_address(node)).await {
                Ok(status) => status,
                Err(reason) => return Some(format!("node {node}: {reason}")),
            };
            let off = status.drives.iter().find(|drive| drive.state != DriveCondition::Online);
            if let Some(drive) = off {
                let state = format!("{:?}", drive.state).to_lowercase();
                return Some(format!("node {node} sees drive {} {state}", drive.name));
            }
            if !status.ready {
                return Some(format!("node {node} is not ready: {}", status.reason));
            }
            let queued = status.heal.queued;
            if or_behind && queued > 0 {
                return Some(format!("node {node} has {queued} partial writes queued"));
            }
            let replacement = &status.replacement;
            if replacement.open > 0 {
                let said = [replacement.reasons.as_slice(), &replacement.alarms].concat();
                return Some(format!("node {node} replaces drives: {}", said.join("; ")));
            }
        }
        None
    }
}

/// What a heal has left to do, in words.
fn left_of(progress: &HealProgress) -> Option<String> {
    let examined = progress.examined;
    match progress.state {
        HealState::Running => Some(format!("a heal has examined {examined} versions")),
        HealState::Done if progress.failed > 0 => {
            let problem = progress.problems.first().map_or("", String::as_str);
            Some(format!("{} versions could not be made whole: {problem}", progress.failed))
        }
        HealState::Done => None,
    }
}

/// The scans that are waited for.
#[derive(Debug, Default)]
struct Scans {
    /// Cycles that each scanning node had begun when everything was in service.
    since: BTreeMap<usize, u64>,
}

impl Scans {
    /// What a node's scanner has left to do before it has looked at everything twice, in words.
    fn left_of(&mut self, node: usize, scan: &ScanStatus) -> Option<String> {
        let since = *self.since.entry(node).or_insert(scan.cycles_begun);
        if scan.cycles_begun < since {
            // It was started again.
            self.since.insert(node, scan.cycles_begun);
        }
        let ended = scan.cycles_ended.saturating_sub(since);
        if ended < CYCLES {
            let keys = scan.keys;
            return Some(format!("node {node} has scanned {ended} times, and {keys} keys again"));
        }
        let problem = scan.problems.first().map_or("", String::as_str);
        (scan.failed > 0)
            .then(|| format!("node {node} left {} as they are: {problem}", scan.failed))
    }
}

/// The heal that is watched.
#[derive(Debug, Default)]
struct Healing {
    node: usize,
    id: Option<String>,
    /// Why the one before was not enough.
    because: Option<String>,
}

impl Healing {
    /// Another heal is needed.
    fn again(&mut self, because: &str) {
        (self.id, self.because) = (None, Some(because.to_owned()));
    }

    /// How far it is, and why it runs.
    fn words(&self, progress: &str) -> String {
        match &self.because {
            Some(because) => format!("{progress}, once more: {because}"),
            None => progress.to_owned(),
        }
    }

    /// Turns to the next node.
    fn elsewhere(&mut self, nodes: usize, reason: &str) -> Standing {
        let left = format!("node {} does not heal: {reason}", self.node);
        self.again(&left);
        self.node = (self.node + 1) % nodes;
        Standing::Left(left)
    }
}

/// What a census of living drives shows of their redundancy, and what the nodes say is left to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Look {
    versions: u64,
    damaged: u64,
    good_shards: u64,
    blank_drives: u64,
    /// The records of replacements.
    records: Vec<ReplacementCensus>,
    left: String,
}

impl Look {
    fn of(census: &Census) -> Self {
        let versions = || census.keys.iter().flat_map(|key| &key.versions);
        Self {
            versions: versions().count() as u64,
            damaged: damaged(census),
            good_shards: versions()
                .map(|version| (version.good_shards + version.metadata_copies) as u64)
                .sum(),
            blank_drives: census.drives.iter().filter(|drive| drive.place.is_none()).count() as u64,
            records: census.replacement.clone(),
            left: String::new(),
        }
    }

    /// Where all data is whole, what is left is to read it: whoever does so says other things than before.
    fn is_better_than(&self, before: &Self) -> bool {
        let is_whole = self.damaged == 0 && self.blank_drives == 0;
        self.records != before.records
            || is_whole && self.left != before.left
            || self.damaged < before.damaged
            || self.good_shards > before.good_shards
            || self.blank_drives < before.blank_drives
    }

    fn words(&self) -> String {
        format!(
            "{} of {} versions are not whole, {} good shards and copies, {} drives without a place",
            self.damaged, self.versions, self.good_shards, self.blank_drives
        )
    }
}

/// Versions that are not full.
fn damaged(census: &Census) -> u64 {
    let versions = census.keys.iter().flat_map(|key| &key.versions);
    versions.filter(|version| version.class != VersionClass::Full).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scanner_has_to_look_twice_after_everything_is_there() {
        let scan = |cycles_begun, cycles_ended, failed| ScanStatus {
            sets: 1,
            cycles_begun,
            cycles_ended,
            failed,
            ..ScanStatus::default()
        };
        let mut scans = Scans::default();
        // The third was under way already, and may have passed by what is looked for.
        for (begun, ended) in [(3, 2), (3, 3), (4, 4), (5, 4)] {
            assert!(scans.left_of(0, &scan(begun, ended, 0)).is_some(), "{begun} {ended}");
        }
        assert_eq!(scans.left_of(0, &scan(5, 5, 0)), None);
        assert!(scans.left_of(0, &scan(5, 5, 1)).is_some(), "what it leaves is not whole");
        assert!(scans.left_of(0, &scan(1, 0, 0)).is_some(), "it began anew");
        assert!(scans.left_of(0, &scan(2, 2, 0)).is_some());
        assert_eq!(scans.left_of(0, &scan(3, 3, 0)), None);
    }

    #[test]
    fn whoever_still_reads_whole_data_or_moves_records_makes_progress_and_whoever_waits_does_not() {
        let left = |words: &str| words.to_owned();
        let reading = Look { left: left("a heal has examined 18 versions"), ..Look::default() };
        let further = Look { left: left("a heal has examined 40 versions"), ..Look::default() };
        assert!(further.is_better_than(&reading));
        assert!(!further.is_better_than(&further), "who says the same has stopped");
        let hurt = Look { damaged: 1, ..further.clone() };
        assert!(!hurt.is_better_than(&Look { damaged: 1, ..reading }), "words mend nothing");
        let records = vec![ReplacementCensus::default()];
        assert!(Look { records, ..hurt.clone() }.is_better_than(&hurt));
    }
}
