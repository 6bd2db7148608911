//! Walks every flow of object-backed state through every crash, one write after another.

mod commit;
mod rest;
mod tables;
