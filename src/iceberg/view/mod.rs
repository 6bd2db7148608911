//! Views: metadata of format version 1, how it begins and how it goes on.

mod changes;
mod document;

pub use changes::CreateView;
pub use changes::apply_view;
pub use changes::create_view;
pub use changes::view_transition;
pub use document::View;
