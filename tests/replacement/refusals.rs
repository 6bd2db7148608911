//! Every condition that stops recovery.
