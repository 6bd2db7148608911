//! What clients do: the seeded generator, the client that knows how far a request got, the history.
//!
//! | file | what it is |
//! |---|---|
//! | [`spec`] | what a scenario says about it; pure |
//! | [`content`] | bytes that can be traced to the operation that wrote them; pure |
//! | [`generator`] | what each client is going to ask, fixed by the seed; pure |
//! | [`history`] | what was asked and answered, as it stands in `history.jsonl` |
//! | [`record`] | reading a history back, with its torn tail; pure |
//! | [`recorder`] | the one task that orders everything that happens |
//! | [`client`] | one request, one answer, no retries |
//! | [`answer`] | what an answer means for its client; pure |
//! | [`catalog`] | words of the history about the table catalog |
//! | [`request`] | those of a request that a step spells out; pure |
//! | [`tool`] | those of an operator's tool |
//! | [`driver`] | clients at work; [`memory`] is what they have learnt |
//! | [`prepare`] | what stands before the load |
//! | [`synthetic`] | large histories for measurements; pure |
//! | [`final_reads`] | what the settled cluster answers |

pub mod answer;
pub mod catalog;
pub mod client;
pub mod content;
pub mod driver;
pub mod final_reads;
pub mod generator;
pub mod history;
mod lane;
pub mod memory;
pub mod prepare;
pub mod record;
pub mod recorder;
pub mod request;
pub mod spec;
pub mod synthetic;
pub mod tool;
