//! The format of what lies on a drive: pure.
