//! A strict reader.
