//! The numbered life of a run. Everything that is seen is written down before it is judged.
//!
//! ```text
//!  1 clean      what dead runs left behind goes first; live ones are not touched
//!  2 plan       everything that will be done, fixed by scenario and seed
//!  3 provision  drives, namespaces, proxies
//!  4 start      nodes, until they are ready; buckets
//!  5 steps      load, faults, more load
//!  6 settle     faults healed, nodes started, time to become whole
//!  7 read       what the settled cluster answers: the wire
//!  8 stop       nodes
//!  9 census     what the drives hold
//! 10 judge      history, wire and census against each other
//! 11 evidence   the bytes that findings are about
//! 12 teardown   nothing of ours stays on the machine
//! 13 report     pages, without secrets and paths
//! ```
//!
//! | file | what it is |
//! |---|---|
//! | [`selection`] | which scenarios and cases a command line names |
//! | [`suite`] | steps 1 and 2, and every case in turn or side by side |
//! | [`case`] | steps 3 to 13 of one case |
//! | [`life`] | steps 4 to 7 |
//! | [`background`] | armed faults, which strike while later steps go on |
//! | [`settle`] | step 6 |
//! | [`watch`] | looks at the records of replacements on the way |
//! | [`awaited`] | a state that a node has to tell |
//! | [`operate`] | an operator's tool, used on stopped drives |
//! | [`clients`] | real clients, installed and sent through their flows |
//! | [`tables`], [`names`], [`repair`], [`writers`] | the table catalog, asked by an operator and by committers |
//! | [`rehearsal`] | the tool of the catalog's runbook, started as a step |
//! | [`requests`] | the same in a scenario's own words, by whom it names |
//! | [`hand`] | what the drives hold of its snapshot, and a hand that changes it |
//! | [`admin`] | asking nodes to heal, and what they say of it |
//! | [`judge`] | step 10, from files alone |
//! | [`evidence`] | step 11 |
//! | [`recorded`] | recorded histories of broken promises, for the matrix of `prove` |
//! | [`bench`] | figures of this machine and this build |

pub mod admin;
pub mod awaited;
pub mod background;
pub mod bench;
pub mod case;
pub mod clients;
pub mod evidence;
pub mod hand;
pub mod judge;
pub mod life;
mod names;
pub mod operate;
pub mod recorded;
pub mod rehearsal;
mod repair;
pub mod requests;
pub mod selection;
pub mod settle;
pub mod suite;
pub mod tables;
pub mod waiting;
pub mod watch;
pub mod writers;

pub use suite::run;
