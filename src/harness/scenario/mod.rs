//! Scenarios: as typed (`form`, `parse`, `validate`), as meant (`plan`). Pure: no clock, file or socket.

pub mod catalog;
pub mod clients;
pub mod counter;
pub mod damage;
pub mod fault;
pub mod form;
pub mod library;
pub mod operator;
pub mod parse;
pub mod plan;
pub mod rehearse;
pub mod request;
pub mod size;
pub mod validate;
mod warehouses;
