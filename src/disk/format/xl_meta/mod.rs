//! `xl.meta`: the versions of one key on one drive, and the contents of the small ones.
//!
//! [`XlMeta`] is the file; a [`Version`] is one entry: its [`Header`] and its [`Body`]. Bodies that nobody
//! touches, unknown keys in those that are touched, and inline values that no version owns are written
//! again exactly as they were read. What a version's metadata keys mean is in [`keys`].

mod body;
mod codec;
mod container;
mod identity;
pub mod keys;
mod signature;
mod version;

pub use body::Body;
pub use body::MarkerBody;
pub use body::ObjectBody;
pub use body::Part;
pub use container::InlineBlock;
pub use container::VERSIONS_MAX;
pub use container::XlMeta;
pub use identity::Identity;
pub use version::Version;

pub use crate::protocol::object::version::Header;
pub use crate::protocol::object::version::Kind;

#[cfg(test)]
mod tests;
