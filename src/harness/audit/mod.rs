//! The census of existing drives: reads only, and shares only the format with the node.

pub mod census;
