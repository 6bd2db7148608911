//! What a node makes of a set, and what it tells about it.
