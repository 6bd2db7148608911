//! The store over local drives in temporary directories.

mod amend;
pub mod bench;
mod buckets;
mod faults;
mod listing;
mod objects;
mod rot;
mod seams;
mod system;
mod uploads;
