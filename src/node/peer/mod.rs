//! Nodes among themselves: HTTP/1.1 on the node's own listener, below `/firedrill/v1/peer/`.
//!
//! `auth` proves that a request and its answer come from this cluster and are used once. `pool` keeps
//! connections and knows whether a request can have been sent. `client` is a peer as this node reaches
//! it, `drive` one of its drives behind the store's seam, `server` the other end. Whatever was sent and
//! not answered may have been done; what was never sent was not.

pub mod auth;
pub mod client;
pub mod drive;
pub mod pool;
pub mod server;
pub mod words;

pub use client::Peer;
pub use drive::PeerDrive;
