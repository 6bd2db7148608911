//! The course of one generation: what the executor asks the protocol between two acts.
//!
//! Production always gets [`Sound`], which asks the protocol and nothing else. A rehearsal plants its defects by
//! decorating it (`defects`), never inside.

use std::sync::Arc;

use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::run;
use crate::protocol::replacement::scan::Done;
use crate::protocol::replacement::scan::Work;
use crate::protocol::replacement::store::Durable;
use crate::protocol::replacement::store::Now;
use crate::protocol::replacement::store::Write;

/// What the executor asks.
pub trait Course: Send + Sync {
    /// The next write of a generation, as [`run::next_write`].
    ///
    /// # Errors
    /// Whatever stops it.
    fn next_write(
        &self,
        durable: &Durable,
        id: GenerationId,
        now: &Now,
        done: &Done,
    ) -> Result<Option<Write>, Refusal>;

    /// What is to be done when there is nothing to write, as [`run::work`].
    ///
    /// # Errors
    /// As reading the records.
    fn work(&self, durable: &Durable, id: GenerationId) -> Result<Work, Refusal>;
}

/// The course as the protocol has it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sound;

impl Course for Sound {
    fn next_write(
        &self,
        durable: &Durable,
        id: GenerationId,
        now: &Now,
        done: &Done,
    ) -> Result<Option<Write>, Refusal> {
        run::next_write(durable, id, now, done)
    }

    fn work(&self, durable: &Durable, id: GenerationId) -> Result<Work, Refusal> {
        run::work(durable, id)
    }
}

/// A shared course.
pub type SharedCourse = Arc<dyn Course>;
