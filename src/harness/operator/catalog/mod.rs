//! The operator's tools of the table catalog: the cutover's runbook and the rehearsals around it, executed.
//!
//! They speak to a running catalog over its own wire, ours or another's, and write down every request and answer;
//! what a server says of itself is checked against what it answers. Deciding is pure: a step is a function from the
//! facts and the latest answers to the next move ([`turn`]), so that every step is tried without a server, and a
//! rehearsal that was killed goes on at the step where it stopped. A tool cancels nothing by itself.
//!
//! | module | holds |
//! |---|---|
//! | [`ask`], [`routes`], [`answers`] | requests, what came of them, what answers say |
//! | [`client`], [`recorder`] | sending, and writing down |
//! | [`orders`], [`step`], [`facts`], [`state`] | what was asked for, the steps, what is known, what is durable |
//! | [`turn`], [`steps`] | one step: the next move, or why it stops |
//! | [`stress`] | concurrent writers |
//! | [`rehearse`], [`hook`], [`printed`], [`report`] | the loop, the operator's hand, the requests, the report |
//! | [`restored`], [`fresh`] | whether the backup comes back, and the cluster of its own that it is tried in |
//! | [`single`] | the runbook's steps one by one |
//! | [`keep`] | backup, restore, verify, on drives |

pub mod answers;
pub mod ask;
pub mod client;
pub mod error;
pub mod facts;
pub mod fresh;
pub mod hook;
pub mod keep;
pub mod orders;
pub mod printed;
pub mod recorder;
pub mod rehearse;
pub mod report;
pub mod restored;
pub mod routes;
pub mod single;
pub mod state;
pub mod step;
pub mod steps;
pub mod stress;
pub mod turn;

#[cfg(test)]
mod tests;
