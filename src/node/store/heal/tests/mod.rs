//! Healing over real drives on temporary directories, in one process.

mod bench;
mod damage;
mod outages;
mod scans;
