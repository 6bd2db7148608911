//! The course of one generation: what the executor asks the protocol between two acts.
//!
//! Production always gets [`Sound`], which asks the protocol and nothing else. A rehearsal plants its defects by
//! decorating it (`defects`), never inside.

use std::sync::Arc;

use crate::protocol::replacement::ids::GenerationId;
use crate::protocol::replacement::refusal::Refusal;
use crate::protocol::replacement::run;
use crate::protocol::replacement::scan::Done;
use crate::protocol::replacement::store::Durable;
use crate::protocol::replacement::store::Now;
use crate::protocol::replacement::store::Write;

/// One question: the arguments of [`run::next_write`].
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// What is durable.
    pub durable: &'a Durable,
    /// The generation.
    pub id: GenerationId,
    /// What is so now.
    pub now: &'a Now,
    /// What was done since the last write.
    pub done: &'a Done,
}

/// Whoever answers.
pub trait Course: Send + Sync {
    /// The next write of a generation, as [`run::next_write`].
    ///
    /// # Errors
    /// Whatever stops it.
    fn next_write(&self, asked: Asked<'_>) -> Result<Option<Write>, Refusal>;
}

/// The course as the protocol has it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sound;

impl Course for Sound {
    fn next_write(&self, asked: Asked<'_>) -> Result<Option<Write>, Refusal> {
        run::next_write(asked.durable, asked.id, asked.now, asked.done)
    }
}

/// A shared course.
pub type SharedCourse = Arc<dyn Course>;
