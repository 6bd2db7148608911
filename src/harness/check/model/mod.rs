//! What every invariant leans on: the model of a key, and what the witnesses say about it. Pure.
//!
//! | file | what it is |
//! |---|---|
//! | [`stack`] | the state of one key; effects and views |
//! | [`search`] | whether an order explains one key's history |

mod bits;
mod configurations;
mod order;
pub mod search;
pub mod stack;
