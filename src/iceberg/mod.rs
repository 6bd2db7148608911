//! Apache Iceberg: the metadata of tables and views, and the files that a snapshot refers to.
//!
//! The only place that names the `iceberg` crate. Documents come in and go out as JSON; nothing here has a clock, dice
//! or a socket: times and ids are handed in, and files are read through an [`ObjectReader`]. What goes in was written
//! by others, in requests and in a bucket: everything is bounded before it is decoded, and refused, never fatal.
//!
//! [`Metadata`] and [`View`] are documents that were found whole; [`create_table`], [`check`] and [`apply`] are the life
//! of a table; [`shown`] says in what the crate is worked around.

pub(crate) mod avro;
mod create;
mod file;
mod graph;
mod kept;
mod limits;
mod metadata;
mod reader;
mod requirements;
mod shown;
mod transition;
mod trouble;
mod updates;
mod view;
mod written;

#[cfg(test)]
mod tests;

pub use create::CreateTable;
pub use create::Fresh;
pub use create::create_table;
pub use file::plain_metadata;
pub use graph::Budget;
pub use graph::Examined;
pub use graph::Place;
pub use graph::Scope;
pub use graph::graph;
pub use limits::METADATA_BYTES_MAX;
pub use limits::REQUIREMENTS_MAX;
pub use limits::UPDATES_MAX;
pub use metadata::Logged;
pub use metadata::Metadata;
pub use metadata::Snapshots;
pub use reader::ObjectReader;
pub use reader::Unread;
pub use requirements::check;
pub use requirements::check_view;
pub use transition::forward_safe;
pub use transition::transition;
pub use trouble::Class;
pub use trouble::Trouble;
pub use updates::Moment;
pub use updates::apply;
pub use view::CreateView;
pub use view::View;
pub use view::apply_view;
pub use view::create_view;
pub use view::view_transition;
