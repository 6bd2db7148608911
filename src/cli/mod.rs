//! THE COMMAND LINE: one file a subcommand.

pub mod node;
