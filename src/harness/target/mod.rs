//! What is rehearsed: the embedded node, as a process.
