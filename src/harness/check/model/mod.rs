//! What every invariant leans on: the model of a key, and what the witnesses say about it. Pure.
//!
//! | file | what it is |
//! |---|---|
//! | [`stack`] | the state of one key; effects and views |
//! | [`search`] | whether an order explains one key's history |
//! | [`shrink`] | the shortest list of operations that cannot be explained |
//! | [`story`] | what the history tells of one key, in the words of the search |
//! | [`book`] | the history by key; listings and versioning by bucket |
//! | [`tolerance`] | which losses are excused |
//! | [`null_slot`] | what the null version may be in the end |
//! | [`wire`] | what the settled cluster answered |
//! | [`drives`] | what the drives hold |

mod bits;
pub mod book;
mod configurations;
pub mod drives;
pub mod modes;
pub mod null_slot;
mod order;
pub mod search;
pub mod shrink;
pub mod stack;
pub mod story;
pub mod tolerance;
pub mod wire;
