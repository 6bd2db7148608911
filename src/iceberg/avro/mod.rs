//! Avro files that others wrote: taken apart within bounds, and then read by the crate.
//!
//! The crate's reader trusts lengths and counts: a few bytes make it reserve gigabytes, unpack without end, or recurse
//! until the stack is gone. So a file is opened here first ([`container`]): its header is bounded, its blocks are
//! unpacked up to a limit, and every length and count is followed through the writer's schema ([`extent`]). What is
//! handed on is the same records in plain pieces of bounded size, whose every length is known to be true.

mod container;
mod extent;
mod manifest;
mod packing;
mod shape;

pub(crate) use container::Bounds;
pub(crate) use container::put_together;
pub(crate) use container::taken_apart;
pub(crate) use manifest::Content;
pub(crate) use manifest::Listed;
pub(crate) use manifest::LiveFile;
pub(crate) use manifest::Manifest;
pub(crate) use manifest::ManifestList;
pub(super) use packing::limited;
