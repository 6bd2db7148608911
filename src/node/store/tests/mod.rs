//! The store over local drives in temporary directories.

mod amend;
mod bench;
mod buckets;
mod faults;
mod listing;
mod objects;
mod rot;
mod seams;
mod uploads;
