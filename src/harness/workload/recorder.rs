//! The one task that orders everything that happens in a run and writes it down.
//!
//! Whoever makes something happen reports it here: a request *before* its first byte leaves, an answer
//! *after* its last byte arrived. The queue keeps that order, so that an operation's interval in the
//! history encloses the real one. Each entry reaches the file before the next event is looked at.

use std::fs::File;
use std::io;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::sync::mpsc;
use tokio::sync::oneshot;

use super::history::Entry;
use super::history::Event;
use super::history::HISTORY_FORMAT;
use super::history::PHASE_END;
use crate::value::Seed;

/// What stands in the queue.
#[expect(clippy::large_enum_variant, reason = "almost every message is the large one")]
enum Message {
    /// Say when everything reported before stands in the file and was observed.
    Written(oneshot::Sender<()>),
    Happened(Event),
    Finish(oneshot::Sender<io::Result<u64>>),
}

/// Reports events; cheap to clone, never waits.
#[derive(Debug, Clone)]
pub struct Recorder {
    queue: mpsc::UnboundedSender<Message>,
    ended: Arc<AtomicU64>,
}

impl Recorder {
    /// Creates the file and starts the task. The first entry is the header. `observer` sees every
    /// entry after it was written, on the recording task: it must not block.
    ///
    /// # Errors
    /// The file could not be created.
    pub fn start(
        path: &Path,
        case: &str,
        seed: Seed,
        observer: impl Fn(&Entry) + Send + 'static,
    ) -> io::Result<Self> {
        let file = File::create(path)?;
        let (queue, mut events) = mpsc::unbounded_channel();
        let mut writer = Writer { file, began: Instant::now(), next_seq: 0, observer };
        let mut failed = writer
            .write(Event::Header { format: HISTORY_FORMAT, case: case.to_owned(), seed: seed.0 })
            .err();
        tokio::spawn(async move {
            while let Some(message) = events.recv().await {
                match message {
                    Message::Happened(event) => {
                        if failed.is_none() {
                            failed = writer.write(event).err();
                        }
                    }
                    Message::Written(answer) => {
                        // Whoever asked may have given up waiting.
                        let _ = answer.send(());
                    }
                    Message::Finish(answer) => {
                        let result = match failed.take() {
                            Some(error) => Err(error),
                            None => writer.finish(),
                        };
                        // Whoever asked may have given up waiting; the file is complete all the same.
                        let _ = answer.send(result);
                        return;
                    }
                }
            }
        });
        Ok(Self { queue, ended: Arc::new(AtomicU64::new(0)) })
    }

    /// Reports what happened. After [`Recorder::finish`] it is ignored.
    pub fn record(&self, event: Event) {
        if matches!(event, Event::Ended(_)) {
            self.ended.fetch_add(1, Ordering::Relaxed);
        }
        // A closed queue means that the run is over.
        let _ = self.queue.send(Message::Happened(event));
    }

    /// The run enters a step or phase.
    pub fn phase(&self, name: &str) {
        self.record(Event::Phase { name: name.to_owned() });
    }

    /// How many operations have ended so far, for triggers that count them.
    pub fn ended(&self) -> u64 {
        self.ended.load(Ordering::Relaxed)
    }

    /// Waits until everything that was reported before stands in the file and was observed: what counts
    /// entries has then counted them. Answers at once when the recording is over.
    pub async fn written(&self) {
        let (answer, answered) = oneshot::channel();
        if self.queue.send(Message::Written(answer)).is_ok() {
            // An error means that the task is gone: nothing more will be observed.
            let _ = answered.await;
        }
    }

    /// Writes everything that was reported before, then the last entry, and flushes the file.
    /// Answers the number of entries.
    ///
    /// # Errors
    /// The first failure of any write since the start; the file ends before the entry that failed.
    pub async fn finish(&self) -> io::Result<u64> {
        let (answer, answered) = oneshot::channel();
        let gone = || io::Error::other("the recording task is gone");
        self.queue.send(Message::Finish(answer)).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

/// The file and where it stands.
struct Writer<O> {
    file: File,
    began: Instant,
    next_seq: u64,
    observer: O,
}

impl<O: Fn(&Entry)> Writer<O> {
    fn write(&mut self, event: Event) -> io::Result<()> {
        let at_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let entry = Entry { seq: self.next_seq, at_us, event };
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.next_seq += 1;
        (self.observer)(&entry);
        Ok(())
    }

    fn finish(&mut self) -> io::Result<u64> {
        self.write(Event::Phase { name: PHASE_END.to_owned() })?;
        self.file.sync_all()?;
        Ok(self.next_seq)
    }
}
