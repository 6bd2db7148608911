//! The four bytes in a header that depend on the whole body.
