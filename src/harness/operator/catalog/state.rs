//! What of a rehearsal is durable: `state.json`, written after each step.

use std::path::Path;

use serde::Deserialize;
use serde::Serialize;

use super::facts::Facts;
use super::orders::Orders;
use super::step::Step;
use super::turn::Stop;
use crate::harness::report::ReportError;
use crate::harness::report::recorded;

/// Its name in the run's folder.
pub const NAME: &str = "state.json";
/// Its format.
const FORMAT: u32 = 1;

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// It held.
    Passed,
    /// It could not be done, or is not needed, for this reason; it counts as nothing.
    Skipped,
    /// It is done by the operator's word alone.
    Asserted,
}

/// One step that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// Which.
    pub step: Step,
    /// How.
    pub ended: Ended,
    /// What was seen, or why it was skipped.
    pub evidence: String,
    /// Its requests in `requests.jsonl`: from this number to before that one.
    pub requests: (u64, u64),
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// Whether a check is missing that the rehearsal asks for.
    pub lacks: bool,
}

/// What is durable of a rehearsal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// 1.
    pub format: u32,
    /// What was asked for.
    pub orders: Orders,
    /// The steps that are over, in order.
    pub done: Vec<Done>,
    /// The step that may have been begun.
    pub under_way: Option<Step>,
    /// How often it was started.
    pub starts: u32,
    /// Why it stopped last.
    pub stopped: Option<(Step, Stop)>,
    /// Whether all of it is over.
    pub is_over: bool,
    /// What is known.
    pub facts: Facts,
}

impl State {
    /// Nothing was done yet.
    pub fn new(orders: Orders) -> Self {
        Self {
            format: FORMAT,
            orders,
            done: Vec::new(),
            under_way: None,
            starts: 0,
            stopped: None,
            is_over: false,
            facts: Facts::default(),
        }
    }

    /// The step to be done next; `None` when all are over.
    pub fn next(&self) -> Option<Step> {
        let is_done = |step: &&Step| self.done.iter().any(|done| done.step == **step);
        self.orders.steps().iter().find(|step| !is_done(step)).copied()
    }

    /// Reads what is durable; `None` when nothing is.
    ///
    /// # Errors
    ///
    /// As [`recorded::read_json`].
    pub fn read(folder: &Path) -> Result<Option<Self>, ReportError> {
        let path = folder.join(NAME);
        if path.exists() { recorded::read_json(&path, FORMAT).map(Some) } else { Ok(None) }
    }

    /// Makes it durable.
    ///
    /// # Errors
    ///
    /// As [`recorded::write_json`]; what was durable stays so.
    pub fn write(&self, folder: &Path) -> Result<(), ReportError> {
        recorded::write_json(&folder.join(NAME), self)?;
        let flushed = std::fs::File::open(folder).and_then(|folder| folder.sync_all());
        flushed.map_err(ReportError::io("flush", folder))
    }
}
