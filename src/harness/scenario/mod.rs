//! Scenarios: as typed (`parse`), as meant (`plan`). Pure: no clock, file or socket.

pub mod fault;
pub mod plan;
