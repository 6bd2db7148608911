//! Whether everything that a snapshot refers to is there.
//!
//! A commit that makes a snapshot current promises its rows to every reader. So before it is published each manifest
//! list, manifest and live file of the snapshots that it brings is looked at: it is an object inside the table, that the
//! caller may read, and it is as long and of that partition spec as whoever refers to it says.

mod examination;
mod scope;

pub use examination::graph;
pub use scope::Budget;
pub use scope::Examined;
pub use scope::Place;
pub use scope::Scope;
