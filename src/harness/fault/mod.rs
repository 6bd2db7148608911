//! Faults: one file each, with what it does, how that is seen, and how it is undone.
//!
//! A fault is *prepared* at its step, *strikes* when its trigger says so, and is *healed* by the settle.
//! Each of the three is measured and told as a [`FaultEvent`] through the testbed's sink; what cannot be
//! brought about is told as `NotReached`. Nothing here decides what a fault means for a promise.
//!
//! A new fault is a file with `inject`, a line in [`inject`], and, when it lasts, a [`Standing`].

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::harness::scenario::fault::Fault;
use crate::harness::testbed::Testbed;
use crate::harness::testbed::TestbedError;
use crate::harness::workload::history::Event;
use crate::harness::workload::history::FaultEvent;
use crate::harness::workload::history::FaultPhase;
use crate::harness::workload::history::Sighting;
use crate::protocol::crash_point::CrashPoint;

pub use progress::Progress;

mod bit_rot;
mod damage_keys;
mod fail_reads;
mod fill_drive;
mod hang_peer;
mod hang_writes;
mod hold;
mod kill;
mod missing_mount;
mod partition;
mod pause;
mod power_cut;
mod probe;
mod progress;
mod pull_drive;
mod read_only;
mod records;
mod replace_drive;
mod return_drive;
mod rot_files;
mod sight;
mod strike;
mod swap_shards;
mod tamper_record;
mod trap;
mod trigger;
mod vm_restart;

/// Strikes and heals faults on one testbed.
pub struct Injector {
    testbed: Arc<Testbed>,
    progress: Arc<Progress>,
    seed: u64,
    next: AtomicU64,
    lasting: Mutex<Vec<Lasting>>,
    /// Held from the trigger of a fault until it has struck.
    striking: tokio::sync::Mutex<()>,
}

/// A fault that was prepared and has not struck yet.
#[derive(Debug, Clone)]
pub struct Armed {
    id: u64,
    fault: Fault,
    since: Instant,
    ended_then: u64,
}

/// How a strike ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strike {
    /// It was injected and seen to be.
    Struck,
    /// It could not be brought about, or its trigger never came: `NotReached` was told.
    NotReached,
}

/// A fault that is in force until it is healed.
struct Lasting {
    teller: Teller,
    standing: Box<dyn Standing>,
    ended_then: u64,
    told_in_force: bool,
}

/// What is known of a fault in force, and how it is undone.
trait Standing: Send + Sync {
    /// Measures whether it is still in force: what was seen, or `None`.
    fn measure<'a>(&'a mut self, testbed: &'a Arc<Testbed>) -> BoxFuture<'a, Option<String>>;

    /// Undoes it; answers what was seen then.
    fn heal<'a>(
        &'a mut self,
        testbed: &'a Arc<Testbed>,
    ) -> BoxFuture<'a, Result<String, TestbedError>>;

    /// Whether it has to be healed after all others, because that starts nodes.
    fn starts_nodes(&self) -> bool {
        false
    }

    /// The drives that it turned out to be about, where the scenario does not name them.
    fn drives(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether it strikes by itself later on and tells of it then (a trap for requests).
    fn is_waiting(&self) -> bool {
        false
    }
}

/// Why a fault did not strike.
#[derive(Debug)]
enum Miss {
    /// The world was not as it must be.
    NotReached(String),
    /// The harness failed.
    Failed(TestbedError),
}

impl From<TestbedError> for Miss {
    fn from(error: TestbedError) -> Self {
        Self::Failed(error)
    }
}

/// How an injection ended: with something in force, or with nothing left to heal.
type Injected = Result<Option<Box<dyn Standing>>, Miss>;

/// Where a task of a node is held for a fault.
#[derive(Debug, Clone)]
struct Held {
    node: usize,
    arm: u64,
    pid: i32,
    point: CrashPoint,
    words: String,
}

/// What a fault sees when it strikes.
struct Scene<'a> {
    testbed: &'a Arc<Testbed>,
    teller: &'a Teller,
    progress: &'a Progress,
    held: Option<&'a Held>,
    id: u64,
    seed: u64,
}

impl Scene<'_> {
    /// Looks at the workload: [`Work::went_on`] tells later whether any of it was under way meanwhile.
    fn work(&self) -> Work {
        Work {
            ended: self.progress.ended(),
            in_flight: self.progress.in_flight(),
            held: self.held.map(|held| held.words.clone()),
        }
    }
}

/// The workload at the moment of a strike.
struct Work {
    ended: u64,
    in_flight: u64,
    held: Option<String>,
}

impl Work {
    /// What work was hit, in words; `None` when there was none.
    fn went_on(&self, progress: &Progress) -> Option<String> {
        let ended = progress.ended() - self.ended;
        let mut words = Vec::new();
        if self.in_flight > 0 {
            words.push(format!("{} requests were under way", self.in_flight));
        }
        if ended > 0 {
            words.push(format!("{ended} requests ended meanwhile"));
        }
        words.extend(self.held.clone());
        (!words.is_empty()).then(|| words.join(", "))
    }
}

/// Tells of one fault.
#[derive(Clone)]
struct Teller {
    testbed: Arc<Testbed>,
    event: FaultEvent,
}

impl Teller {
    fn tell(&self, phase: FaultPhase, evidence: String) {
        tracing::info!(fault = self.event.fault, name = self.event.name, ?phase, evidence, "fault");
        let event = FaultEvent { phase, evidence, ..self.event.clone() };
        (self.testbed.context().events)(Event::Fault(event));
    }

    fn injected(&self, evidence: impl Into<String>) {
        self.tell(FaultPhase::Injected, evidence.into());
    }

    /// As [`Teller::injected`], about these drives only (`node/slot`).
    fn injected_on(&self, drives: Vec<String>, evidence: impl Into<String>) {
        let mut teller = self.clone();
        teller.event.drives = drives;
        teller.injected(evidence);
    }

    fn in_force(&self, evidence: impl Into<String>) {
        self.tell(FaultPhase::InForce, evidence.into());
    }

    fn healed(&self, evidence: impl Into<String>) {
        self.tell(FaultPhase::Healed, evidence.into());
    }
}

impl Injector {
    /// An injector; `seed` decides which files rot and the like.
    pub fn new(testbed: Arc<Testbed>, progress: Arc<Progress>, seed: u64) -> Arc<Self> {
        Arc::new(Self {
            testbed,
            progress,
            seed,
            next: AtomicU64::new(0),
            lasting: Mutex::default(),
            striking: tokio::sync::Mutex::default(),
        })
    }

    fn lasting(&self) -> MutexGuard<'_, Vec<Lasting>> {
        self.lasting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes note of a fault; triggers count from now. Does nothing to the machine.
    pub fn prepare(&self, fault: &Fault) -> Armed {
        Armed {
            id: self.next.fetch_add(1, Ordering::SeqCst),
            fault: fault.clone(),
            since: Instant::now(),
            ended_then: self.progress.ended(),
        }
    }

    fn teller(&self, armed: &Armed) -> Teller {
        let fault = &armed.fault;
        let event = FaultEvent {
            fault: armed.id,
            name: fault.name().to_owned(),
            phase: FaultPhase::NotReached,
            nodes: fault.nodes(self.testbed.plan().nodes),
            drives: fault.drives(),
            at: fault.trigger().at.map(|point| point.name().to_owned()),
            evidence: String::new(),
        };
        Teller { testbed: Arc::clone(&self.testbed), event }
    }

    /// Waits (at most `patience`) for the fault's trigger, strikes, and tells `Injected` or `NotReached`.
    /// A fault that ends by itself (`pause`, `vm_restart`, `power_cut`) returns when it has ended, its
    /// nodes started again and listening; it has told `InForce` and `Healed` by then. `lost_reply` and
    /// `half_request` return once their trap is set, and tell `Injected` for each request they catch.
    ///
    /// Call it for one fault after the other, in the order in which they were prepared.
    ///
    /// # Errors
    /// The harness itself failed (exit 70); `NotReached` is no error.
    pub async fn strike(&self, armed: Armed, patience: Duration) -> Result<Strike, TestbedError> {
        let teller = self.teller(&armed);
        let struck = match trigger::wait(&self.testbed, &self.progress, &armed, patience).await {
            Ok(held) => self.strike_now(&armed, &teller, held).await,
            Err(miss) => Err(miss),
        };
        match struck {
            Ok(()) => Ok(Strike::Struck),
            Err(Miss::NotReached(why)) => {
                teller.tell(FaultPhase::NotReached, why);
                Ok(Strike::NotReached)
            }
            Err(Miss::Failed(error)) => Err(error),
        }
    }

    /// What the drives hold now of the replacement protocol; waits until no fault is between its trigger and its end.
    ///
    /// # Errors
    /// The harness itself failed; a drive that cannot be read is left out.
    pub async fn sight(&self) -> Result<Sighting, TestbedError> {
        let _striking = self.striking.lock().await;
        sight::look(&self.testbed, "on the way".to_owned(), None).await
    }

    /// Waits until no fault is between its trigger and its end.
    pub async fn at_rest(&self) {
        drop(self.striking.lock().await);
    }

    /// As [`Injector::at_rest`]; none strikes as long as what is answered lives.
    pub async fn still(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.striking.lock().await
    }

    async fn strike_now(
        &self,
        armed: &Armed,
        teller: &Teller,
        held: Option<Held>,
    ) -> Result<(), Miss> {
        let _striking = self.striking.lock().await;
        if matches!(armed.fault, Fault::ReturnDrive(_)) {
            self.tell_in_force("pull_drive").await;
        }
        let scene = Scene {
            testbed: &self.testbed,
            teller,
            progress: &self.progress,
            held: held.as_ref(),
            id: armed.id,
            seed: self.seed ^ armed.id.wrapping_mul(0x9E37_79B9_7F4A_7C15),
        };
        let ended_then = self.progress.ended();
        if let Some(held) = &held {
            scene.sight(&format!("at {}", held.point)).await?;
        }
        let injected = inject(&armed.fault, &scene).await;
        // One that is to stay held is let go when the fault is healed, unless that has failed to strike.
        let stays = matches!((&armed.fault, &injected), (Fault::Hold(_), Ok(_)));
        if let Some(held) = held.filter(|_| !stays) {
            trigger::let_go(&self.testbed, &held).await;
        }
        if let Some(standing) = injected? {
            let (mut teller, told_in_force) = (teller.clone(), false);
            teller.event.drives.extend(standing.drives());
            self.lasting().push(Lasting { teller, standing, ended_then, told_in_force });
        }
        if matches!(armed.fault, Fault::ReturnDrive(_)) {
            self.end_if_over("pull_drive").await;
        }
        Ok(())
    }

    /// Tells `InForce` of every fault of this name that is measured now.
    async fn tell_in_force(&self, name: &str) {
        let mut all = std::mem::take(&mut *self.lasting());
        for lasting in all.iter_mut().filter(|lasting| lasting.teller.event.name == name) {
            lasting.tell_in_force(&self.testbed, &self.progress).await;
        }
        self.lasting().append(&mut all);
    }

    /// Tells `Healed` of every fault of this name of which nothing is measured any more.
    async fn end_if_over(&self, name: &str) {
        let all = std::mem::take(&mut *self.lasting());
        for mut lasting in all {
            let is_meant = lasting.teller.event.name == name;
            if is_meant && lasting.standing.measure(&self.testbed).await.is_none() {
                lasting.teller.healed("nothing of it is left since another fault has struck");
            } else {
                self.lasting().push(lasting);
            }
        }
    }

    /// Heals every fault that is in force, the newest first: tells `InForce` if work went on while it
    /// lasted and it is still measured, undoes it, tells `Healed` when that was seen. Nodes that `kill` took
    /// down are started last, and have told their port when this returns; those that `tamper_record` stops to look
    /// at their records stay down.
    ///
    /// # Errors
    /// Something could not be undone; the rest was tried all the same.
    pub async fn heal_all(&self) -> Result<(), TestbedError> {
        // Nobody looks at the drives while somebody changes them.
        let _striking = self.striking.lock().await;
        let mut all = std::mem::take(&mut *self.lasting());
        all.reverse();
        // Stable: within both halves the newest stays first.
        all.sort_by_key(|lasting| lasting.standing.starts_nodes());
        let mut result = Ok(());
        for mut lasting in all {
            lasting.tell_in_force(&self.testbed, &self.progress).await;
            match lasting.standing.heal(&self.testbed).await {
                Ok(evidence) if lasting.standing.is_waiting() => {
                    lasting.teller.tell(FaultPhase::NotReached, evidence);
                }
                Ok(evidence) => lasting.teller.healed(evidence),
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }
}

impl Lasting {
    /// Tells `InForce`, once, if it is measured and work went on meanwhile.
    async fn tell_in_force(&mut self, testbed: &Arc<Testbed>, progress: &Progress) {
        let ended = progress.ended() - self.ended_then;
        if self.told_in_force || ended == 0 {
            return;
        }
        if let Some(seen) = self.standing.measure(testbed).await {
            self.teller.in_force(format!("{ended} requests ended since it struck; {seen}"));
            self.told_in_force = true;
        }
    }
}

/// Strikes.
async fn inject(fault: &Fault, scene: &Scene<'_>) -> Injected {
    match fault {
        Fault::Kill(fault) => kill::inject(fault, scene).await,
        Fault::Pause(fault) => pause::inject(fault, scene).await,
        Fault::VmRestart(fault) => vm_restart::inject(fault, scene).await,
        Fault::PowerCut(fault) => power_cut::inject(fault, scene).await,
        Fault::ReplaceDrive(fault) => replace_drive::inject(fault, scene).await,
        Fault::PullDrive(fault) => pull_drive::inject(fault, scene).await,
        Fault::ReturnDrive(fault) => return_drive::inject(fault, scene).await,
        Fault::ReadOnly(fault) => read_only::inject(fault, scene).await,
        Fault::FillDrive(fault) => fill_drive::inject(fault, scene).await,
        Fault::FailReads(fault) => fail_reads::inject(fault, scene).await,
        Fault::HangWrites(fault) => hang_writes::inject(fault, scene).await,
        Fault::MissingMount(fault) => missing_mount::inject(fault, scene).await,
        Fault::BitRot(fault) => bit_rot::inject(fault, scene).await,
        Fault::SwapShards(fault) => swap_shards::inject(fault, scene).await,
        Fault::DamageKeys(fault) => damage_keys::inject(fault, scene).await,
        Fault::LostReply(fault) => trap::lose_replies(fault, scene).await,
        Fault::HalfRequest(fault) => trap::cut_requests(fault, scene).await,
        Fault::Partition(fault) => partition::cut(fault, scene).await,
        Fault::Delay(fault) => partition::delay(fault, scene).await,
        Fault::HangPeer(fault) => hang_peer::inject(fault, scene).await,
        Fault::Hold(fault) => hold::inject(fault, scene).await,
        Fault::TamperRecord(fault) => tamper_record::inject(fault, scene).await,
    }
}

/// The pool positions of the drives `slots` of `node`.
fn drives_of(testbed: &Testbed, node: usize, slots: &[usize]) -> Result<Vec<usize>, TestbedError> {
    let index = |slot: &usize| testbed.hardware().index(&format!("{node}/{slot}"));
    slots.iter().map(index).collect()
}

/// The pool positions of the drives of `node` that are mounted.
fn mounted_drives(testbed: &Testbed, node: usize) -> Vec<usize> {
    let places = testbed.drives().into_iter().enumerate();
    places
        .filter(|(_, place)| place.node == node && place.mounted)
        .map(|(index, _)| index)
        .collect()
}

/// The names of drives by their pool positions.
fn names_of(testbed: &Testbed, drives: &[usize]) -> Vec<String> {
    let places = testbed.drives();
    drives.iter().map(|drive| places[*drive].name.clone()).collect()
}
