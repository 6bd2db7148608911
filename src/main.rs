//! The `firedrill` binary.

fn main() {}
