//! Names and folders on a drive: pure.
