//! What clients do: the seeded generator, the client that knows how far a request got, the history.

pub mod history;
