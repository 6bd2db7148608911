//! Real node processes on temporary directories, spoken to through their sockets.

mod client;
mod cluster;
mod process;
mod release;
mod requests;
mod service;
