//! Everything that a person or a CI server reads about a run.
//!
//! | file | what it is |
//! |---|---|
//! | [`directory`] | where the files of a run lie; typed readers and writers |
//! | [`recorded`] | JSON with its format, JSON lines with a torn tail |
//! | [`case`] | what one case came to, as `verdict.json` has it |
//! | [`class`] | how it counts for the exit code |
//! | [`suite`] | what a whole run came to |
//! | [`assemble`] | gathers a case's report from its witnesses; pure |
//! | [`conclude`] | from findings to one verdict and one exit class; pure |
//! | [`counters`] | what had to happen, counted; pure |
//! | `recovery` | phases of the way back, and what it cost; pure |
//! | `limits` | what a run cannot have shown; pure |
//! | [`redact`] | secrets, host name and paths leave the files |
//! | [`terminal`] | a line a case, live progress, the summary |
//! | [`render`] | the pages of a run from its files: [`markdown`], `html` with `timeline`, `junit` |
//! | [`escape`] | keys are hostile text |
//! | `words` | numbers and operations in words |
//! | [`compare`] | shards put together, a run held against an earlier one; pure |
//! | [`gather`] | finished runs below the paths that a person names |
//! | [`evidence`] | the exact bytes that a finding is about, within a bound |
//! | [`chain`] | an error with its causes |
//!
//! A report is rendered from files alone. Nothing here judges a promise: `check` has done that.

pub mod assemble;
pub mod case;
pub mod chain;
pub mod class;
pub mod compare;
pub mod conclude;
pub mod counters;
pub mod directory;
pub mod error;
pub mod escape;
pub mod evidence;
pub mod gather;
mod graph;
mod html;
mod junit;
mod limits;
mod lineage;
pub mod markdown;
mod meanwhile;
mod passes;
pub mod recorded;
mod recovery;
pub mod redact;
pub mod render;
pub mod suite;
pub mod terminal;
mod timeline;
mod words;

pub use assemble::Gathered;
pub use assemble::assemble;
pub use case::CaseReport;
pub use case::Provoked;
pub use chain::Chain;
pub use class::ExitClass;
pub use conclude::Stop;
pub use directory::RunDirectory;
pub use directory::SuiteDirectory;
pub use error::ReportError;
pub use redact::Redactor;
pub use render::render_all;
pub use render::render_suite;
pub use render::summarize;
pub use suite::CaseSummary;
pub use suite::Partition;
pub use suite::SuiteReport;
