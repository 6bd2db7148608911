//! Real node processes on temporary directories, spoken to through their sockets.

mod captured;
mod client;
mod cluster;
mod corpora;
mod damage;
mod hostile;
mod imports;
mod own_golden;
mod peers;
mod printed;
mod process;
mod rehearse;
mod release;
mod requests;
mod rights;
mod service;
