//! Everything that a person or a CI server reads about a run.
//!
//! | file | what it is |
//! |---|---|
//! | [`directory`] | where the files of a run lie; typed readers and writers |
//! | [`recorded`] | JSON with its format, JSON lines with a torn tail |
//! | [`case`] | what one case came to, as `verdict.json` has it |
//! | [`class`] | how it counts for the exit code |
//! | [`suite`] | what a whole run came to |
//! | [`chain`] | an error with its causes |
//!
//! A report is rendered from files alone. Nothing here judges a promise: `check` has done that.

pub mod case;
pub mod chain;
pub mod class;
pub mod directory;
pub mod error;
pub mod recorded;
pub mod suite;

pub use case::CaseReport;
pub use chain::Chain;
pub use class::ExitClass;
pub use directory::RunDirectory;
pub use directory::SuiteDirectory;
pub use error::ReportError;
pub use suite::SuiteReport;
