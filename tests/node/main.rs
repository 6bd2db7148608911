//! Real node processes on temporary directories, spoken to through their sockets.

mod client;
mod cluster;
mod own_golden;
mod process;
mod requests;
mod service;
