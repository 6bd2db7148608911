//! BYTES AND FLUSHES, synchronous: the format of a drive, and the one seam through which it is touched.

pub mod drive;
pub mod error;
pub mod format;
pub mod layout;
