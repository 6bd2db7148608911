//! A history read back and put in order: every request beside its answer, by key and by bucket. Pure.
//!
//! It tolerates a torn last line and says so. Everything else that is not as the recorder writes it
//! (a gap, an answer without a request, a newer format) is refused: nothing is judged on half a record.

use std::collections::BTreeMap;

use super::catalog::CatalogOp;
use super::history::Action;
use super::history::Ending;
use super::history::Entry;
use super::history::Event;
use super::history::FaultEvent;
use super::history::Fence;
use super::history::HISTORY_FORMAT;
use super::history::NodeState;
use super::history::Note;
use super::history::Operation;
use super::history::Outcome;
use super::history::PHASE_END;
use super::history::PHASE_FINAL_READS;
use super::history::SettleEvent;
use super::history::Sighting;
use crate::value::ObjectKey;

/// A position in the history that nothing reaches: the end of what never ended.
pub const NEVER: u64 = u64::MAX;

/// A whole history.
#[derive(Debug, Clone, Default)]
pub struct History {
    /// The case, as the report names it.
    pub case: String,
    /// The seed of the run.
    pub seed: u64,
    /// Every request, in the order of invocation.
    pub ops: Vec<Op>,
    /// Positions in `ops` of everything about one key, in order.
    pub keys: BTreeMap<ObjectKey, Vec<usize>>,
    /// Positions in `ops` of everything about a bucket as such (listings included), in order.
    pub buckets: BTreeMap<String, Vec<usize>>,
    /// Every request to the table catalog, in the order of invocation.
    pub catalog: Vec<CatalogOp>,
    /// What was done to the cluster.
    pub faults: Vec<At<FaultEvent>>,
    /// Where everything was settled with every drive present.
    pub settled: Vec<At<()>>,
    /// Where a node's processes, connections and proxies were emptied.
    pub restarts: Vec<At<usize>>,
    /// How the settling went.
    pub settling: Vec<At<SettleEvent>>,
    /// Steps and phases, where they begin.
    pub phases: Vec<At<String>>,
    /// What nodes did.
    pub nodes: Vec<At<(usize, NodeState)>>,
    /// What the harness noticed about the run itself.
    pub notes: Vec<At<Note>>,
    /// What the drives held of the replacement protocol on the way.
    pub sightings: Vec<At<Sighting>>,
    /// Entries read.
    pub entries: u64,
    /// What is missing at the end of the file, if anything.
    pub torn: Option<TornTail>,
    /// From the operation's number to its position in `ops`.
    positions: BTreeMap<u64, usize>,
    /// From the number of a request to the catalog to its position in `catalog`.
    asks: BTreeMap<u64, usize>,
}

/// Something with its place in the history.
#[derive(Debug, Clone, PartialEq)]
pub struct At<T> {
    /// Its position.
    pub seq: u64,
    /// Microseconds since the run began.
    pub at_us: u64,
    /// What it is.
    pub what: T,
}

/// A request with its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Op {
    /// What was asked.
    pub asked: Operation,
    /// Where it was invoked.
    pub invoked: u64,
    /// When, in microseconds since the run began.
    pub invoked_us: u64,
    /// Where it ended for its client; [`NEVER`] when the record ends before.
    pub ended: u64,
    /// When, in microseconds since the run began.
    pub ended_us: u64,
    /// Its answer, if the record has one.
    pub answer: Option<Ending>,
    /// Whether it belongs to the final reads.
    pub is_final: bool,
}

impl Op {
    /// Its number.
    pub fn id(&self) -> u64 {
        self.asked.op
    }

    /// What the client may conclude; an operation without an answer is ambiguous.
    pub fn outcome(&self) -> Outcome {
        self.answer.as_ref().map_or(Outcome::Ambiguous, |answer| answer.outcome)
    }

    /// Whether it took effect for certain.
    pub fn is_acknowledged(&self) -> bool {
        self.outcome() == Outcome::Acknowledged
    }

    /// Whether it had ended before `other` began.
    pub fn precedes(&self, other: &Self) -> bool {
        self.ended < other.invoked
    }

    /// Whether it would change what readers of its key see.
    pub fn is_write(&self) -> bool {
        self.asked.action.is_write()
    }

    /// Where the record shows it, for a finding.
    pub fn line(&self) -> String {
        let seq = if self.ended == NEVER { self.invoked } else { self.ended };
        format!("history.jsonl:{}", seq + 1)
    }
}

/// A last line that was not written to its end, or a record that stops before the end of its run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The line, from 1.
    pub line: u64,
    /// Bytes that were left out.
    pub bytes: usize,
}

impl std::fmt::Display for TornTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "history.jsonl:{} is torn ({} bytes left out)", self.line, self.bytes)
    }
}

/// Why a history is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HistoryError {
    /// It does not begin with a header.
    #[error("history.jsonl does not begin with a header")]
    NoHeader,
    /// Somebody newer wrote it.
    #[error("history.jsonl has format {found}, newer than {HISTORY_FORMAT}")]
    Newer {
        /// Its format.
        found: u32,
    },
    /// A line before the last one is not an entry.
    #[error("history.jsonl:{line}: {message}")]
    Malformed {
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        message: String,
    },
}

impl History {
    /// Reads the text of a `history.jsonl`.
    ///
    /// # Errors
    /// [`HistoryError`], for everything except a torn last line.
    pub fn read(text: &[u8]) -> Result<Self, HistoryError> {
        let mut history = Self::default();
        let mut rest = text;
        let mut line = 0;
        while !rest.is_empty() {
            line += 1;
            let whole = rest.iter().position(|byte| *byte == b'\n');
            let (entry, next) = match whole {
                Some(end) => (&rest[..end], &rest[end + 1..]),
                None => (rest, &rest[rest.len()..]),
            };
            match serde_json::from_slice(entry) {
                Ok(entry) => history.push(entry)?,
                // A line without its end was being written when the run died.
                Err(_) if whole.is_none() => {
                    history.torn = Some(TornTail { line, bytes: entry.len() });
                }
                Err(error) => {
                    return Err(HistoryError::Malformed { line, message: error.to_string() });
                }
            }
            rest = next;
        }
        history.close(line)
    }

    /// The history that `entries` tell.
    ///
    /// # Errors
    /// [`HistoryError`].
    pub fn of(entries: impl IntoIterator<Item = Entry>) -> Result<Self, HistoryError> {
        let mut history = Self::default();
        for entry in entries {
            history.push(entry)?;
        }
        let lines = history.entries;
        history.close(lines)
    }

    fn close(mut self, lines: u64) -> Result<Self, HistoryError> {
        if self.entries == 0 {
            return Err(HistoryError::NoHeader);
        }
        if self.torn.is_none() && self.phase() != PHASE_END {
            self.torn = Some(TornTail { line: lines + 1, bytes: 0 });
        }
        Ok(self)
    }

    /// The operation with this number.
    pub fn op(&self, id: u64) -> Option<&Op> {
        self.positions.get(&id).map(|position| &self.ops[*position])
    }

    /// Where the first settle with every drive present after `seq` stands; [`NEVER`] without one.
    pub fn settled_after(&self, seq: u64) -> u64 {
        let next = self.settled.partition_point(|settled| settled.seq <= seq);
        self.settled.get(next).map_or(NEVER, |settled| settled.seq)
    }

    /// Where the last settle with every drive present stands.
    pub fn last_settled(&self) -> Option<u64> {
        self.settled.last().map(|settled| settled.seq)
    }

    /// The operations of the final reads: those that began after the last settle, in their phase.
    pub fn final_reads(&self) -> impl Iterator<Item = &Op> {
        self.ops.iter().filter(|op| op.is_final)
    }

    fn phase(&self) -> &str {
        self.phases.last().map_or("", |phase| &phase.what)
    }

    fn push(&mut self, entry: Entry) -> Result<(), HistoryError> {
        let Entry { seq, at_us, event } = entry;
        let malformed =
            |message: String| Err(HistoryError::Malformed { line: seq.saturating_add(1), message });
        if seq != self.entries {
            return malformed(format!("entry {seq} stands where {} belongs", self.entries));
        }
        self.entries += 1;
        if seq == 0 && !matches!(event, Event::Header { .. }) {
            return Err(HistoryError::NoHeader);
        }
        match event {
            Event::Header { format, .. } if format > HISTORY_FORMAT => {
                return Err(HistoryError::Newer { found: format });
            }
            Event::Header { case, seed, .. } => {
                self.case = case;
                self.seed = seed;
            }
            Event::Phase { name } => self.phases.push(At { seq, at_us, what: name }),
            Event::Invoked(asked) => {
                let position = self.ops.len();
                if self.positions.insert(asked.op, position).is_some() {
                    return malformed(format!("operation {} is invoked twice", asked.op));
                }
                if asked.target.key.is_empty() {
                    let bucket = self.buckets.entry(asked.target.bucket.clone()).or_default();
                    bucket.push(position);
                } else {
                    match self.keys.get_mut(&asked.target) {
                        Some(key) => key.push(position),
                        None => {
                            self.keys.insert(asked.target.clone(), vec![position]);
                        }
                    }
                }
                let is_final = self.phase() == PHASE_FINAL_READS;
                self.ops.push(Op {
                    asked,
                    invoked: seq,
                    invoked_us: at_us,
                    ended: NEVER,
                    ended_us: u64::MAX,
                    answer: None,
                    is_final,
                });
            }
            Event::Ended(answer) => {
                let Some(position) = self.positions.get(&answer.op) else {
                    return malformed(format!("operation {} ends without a beginning", answer.op));
                };
                let op = &mut self.ops[*position];
                if op.answer.is_some() {
                    return malformed(format!("operation {} ends twice", answer.op));
                }
                (op.ended, op.ended_us, op.answer) = (seq, at_us, Some(answer));
            }
            Event::CatalogAsked(asked) => {
                if self.asks.insert(asked.ask, self.catalog.len()).is_some() {
                    return malformed(format!("request {} is asked twice", asked.ask));
                }
                self.catalog.push(CatalogOp {
                    asked,
                    invoked: seq,
                    invoked_us: at_us,
                    ended: None,
                    ended_us: None,
                    answer: None,
                });
            }
            Event::CatalogAnswered(answer) => {
                let Some(position) = self.asks.get(&answer.ask) else {
                    return malformed(format!("request {} ends without a beginning", answer.ask));
                };
                let op = &mut self.catalog[*position];
                if op.answer.is_some() {
                    return malformed(format!("request {} ends twice", answer.ask));
                }
                (op.ended, op.ended_us, op.answer) = (Some(seq), Some(at_us), Some(answer));
            }
            Event::Fault(fault) => self.faults.push(At { seq, at_us, what: fault }),
            Event::Fence(Fence::Settled) => self.settled.push(At { seq, at_us, what: () }),
            Event::Fence(Fence::NodeRestarted { node }) => {
                self.restarts.push(At { seq, at_us, what: node });
            }
            Event::Settle(settle) => self.settling.push(At { seq, at_us, what: settle }),
            Event::Node { node, state } => {
                self.nodes.push(At { seq, at_us, what: (node, state) });
            }
            Event::Noted(note) => self.notes.push(At { seq, at_us, what: note }),
            Event::Sighted(sighting) => self.sightings.push(At { seq, at_us, what: sighting }),
        }
        Ok(())
    }
}

impl Action {
    /// Whether it would change what readers of a key see.
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            Self::Put { .. }
                | Self::Copy { .. }
                | Self::CompleteUpload { .. }
                | Self::Delete { .. }
        )
    }

    /// Whether it only reads.
    pub fn is_read(&self) -> bool {
        matches!(
            self,
            Self::Get { .. } | Self::Head { .. } | Self::List { .. } | Self::ListVersions { .. }
        )
    }
}
