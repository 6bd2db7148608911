//! What lies in the files of a drive: pure functions from bytes to facts and back.
//!
//! Decoders never panic and use memory in proportion to their input, whatever it is. Everything that a
//! decoder does not know is kept byte for byte when the rest is written again.

pub mod bucket;
pub mod checksum;
pub mod erasure;
pub mod error;
pub mod format_json;
pub mod frame;
pub mod msgpack;
pub mod upload;
pub mod xl_meta;

pub use error::FormatError;
