//! Traps for requests of one kind on their way to one node: the answer is lost, or only half arrives.

use std::sync::Mutex;
use std::sync::MutexGuard;

use tokio::sync::mpsc;

use super::wire::Head;
use crate::harness::scenario::fault::RequestKind;

/// What happens to a trapped request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrapAction {
    /// It takes effect, and its answer never arrives.
    LoseReply,
    /// It arrives in part, then the connection ends.
    CutInHalf,
}

/// A trap to be set.
#[derive(Debug)]
pub(crate) struct Trap {
    /// The fault's id.
    pub(crate) id: u64,
    /// What happens.
    pub(crate) action: TrapAction,
    /// To which requests.
    pub(crate) kind: RequestKind,
    /// To how many of them, still.
    pub(crate) left: usize,
    /// Where it is told, once for each request, what was seen.
    pub(crate) told: mpsc::UnboundedSender<String>,
}

/// A request that a trap has taken hold of. Unless it is [sprung](Traps::spring), give it [back](Traps::give_back).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    id: u64,
    pub(super) action: TrapAction,
}

/// The traps in front of one node.
#[derive(Debug, Default)]
pub(super) struct Traps {
    set: Mutex<Vec<Trap>>,
}

impl Traps {
    /// Sets one more.
    pub(super) fn set(&self, trap: Trap) {
        self.lock().push(trap);
    }

    /// Takes one away; answers how many requests it was still waiting for.
    pub(super) fn lift(&self, id: u64) -> usize {
        let mut set = self.lock();
        let left = set.iter().filter(|trap| trap.id == id).map(|trap| trap.left).sum();
        set.retain(|trap| trap.id != id);
        left
    }

    /// Claims a request for the first trap that waits for its kind.
    pub(super) fn claim(&self, request: &Head) -> Option<Claim> {
        let mut set = self.lock();
        let trap = set.iter_mut().find(|trap| trap.left > 0 && request.is(trap.kind))?;
        trap.left -= 1;
        Some(Claim { id: trap.id, action: trap.action })
    }

    /// The trap did its work on a claimed request.
    pub(super) fn spring(&self, claim: Claim, evidence: String) {
        if let Some(trap) = self.lock().iter().find(|trap| trap.id == claim.id) {
            // Nobody may listen any more.
            let _ = trap.told.send(evidence);
        }
    }

    /// A claimed request was not what it was for (it did not take effect): it waits for another.
    pub(super) fn give_back(&self, claim: Claim) {
        if let Some(trap) = self.lock().iter_mut().find(|trap| trap.id == claim.id) {
            trap.left += 1;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Trap>> {
        self.set.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
