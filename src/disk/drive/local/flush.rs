//! One flush of a whole file system for everybody who waits for one.
//!
//! A flush that has begun before somebody asked does not count for it: what it was to make durable may have come too
//! late. So whoever asks waits for the end of a flush that began after that, and begins it when nobody else has; but not
//! before those who are about to ask have come, if they come soon.

use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use nix::errno::Errno;

/// Nobody waits longer than this for others to come, however long a flush takes.
const GATHERED_MAX: Duration = Duration::from_millis(5);

/// Flushes of one drive, shared by the threads that work on it.
#[derive(Debug, Default)]
pub(super) struct SharedFlush {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Flushes that have begun.
    begun: u64,
    /// Flushes that have ended: all that have begun, or all but the last.
    ended: u64,
    /// Those whose names were flushed.
    answered: u64,
    /// Whether somebody waits for others before it begins the next.
    gathering: bool,
    /// Writers that have begun, and those of them that have asked for a flush or given up.
    writers: (u64, u64),
    /// How long the last flush took.
    took: Duration,
    /// What the first flush that failed said. It is final: nobody knows what it left behind.
    failed: Option<Errno>,
}

/// A thread that writes and is going to ask for a flush, until this is dropped.
pub(super) struct Writer<'a>(&'a SharedFlush);

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.writers.1 += 1;
        let gathering = state.gathering;
        drop(state);
        if gathering {
            self.0.changed.notify_all();
        }
    }
}

impl SharedFlush {
    /// A thread begins to write.
    pub(super) fn writer(&self) -> Writer<'_> {
        self.state().writers.0 += 1;
        Writer(self)
    }

    /// Returns once a flush that began after this call has ended; `flush` does it when it is this thread's turn, which
    /// waits for those who write already, but no longer than a flush takes.
    ///
    /// # Errors
    /// Whatever the first flush that failed said, from then on.
    pub(super) fn take_part(
        &self,
        writer: Option<Writer<'_>>,
        flush: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let mut state = self.state();
        let wanted = state.begun + 1;
        if let Some(writer) = writer {
            // Under the same lock, so that nobody who waits for it goes on before it is counted.
            state.writers.1 += 1;
            std::mem::forget(writer);
            if state.gathering {
                self.changed.notify_all();
            }
        }
        while state.failed.is_none()
            && state.ended < wanted
            && (state.begun > state.ended || state.gathering)
        {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(errno) = state.failed {
            return Err(errno);
        }
        if state.ended >= wanted {
            return Ok(());
        }
        state = self.gather(state);
        state.begun += 1;
        drop(state);
        let began = Instant::now();
        let result = flush();
        let mut state = self.state();
        state.ended += 1;
        state.took = began.elapsed();
        if let Err(errno) = result {
            state.failed.get_or_insert(errno);
        }
        drop(state);
        self.changed.notify_all();
        result
    }

    /// Counts one whose names were flushed, and tells whether it is one in `every`.
    pub(super) fn is_nth(&self, every: u64) -> bool {
        let mut state = self.state();
        state.answered += 1;
        state.answered.is_multiple_of(every)
    }

    /// Waits for those who write now, as long as that is worth it.
    fn gather<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let (awaited, until) = (state.writers.0, Instant::now() + state.took.min(GATHERED_MAX));
        state.gathering = true;
        while state.writers.1 < awaited {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.gathering = false;
        state
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering;

    use super::*;

    /// Goal: nobody is answered by a flush that began before it asked, and many are answered by one.
    #[test]
    fn a_flush_counts_only_for_those_who_asked_before_it_began() {
        const THREADS: u64 = 8;
        const EACH: u64 = 200;
        let (shared, written) = (SharedFlush::default(), AtomicU64::new(0));
        let (flushed, flushes) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let writer = shared.writer();
                        let mine = written.fetch_add(1, Ordering::SeqCst) + 1;
                        let flush = || {
                            let seen = written.load(Ordering::SeqCst);
                            std::thread::sleep(Duration::from_micros(50));
                            flushed.fetch_max(seen, Ordering::SeqCst);
                            flushes.fetch_add(1, Ordering::SeqCst);
                            Ok(())
                        };
                        assert_eq!(shared.take_part(Some(writer), flush), Ok(()));
                        let durable = flushed.load(Ordering::SeqCst);
                        assert!(durable >= mine, "write {mine} was answered for at {durable}");
                    }
                });
            }
        });
        let flushes = flushes.load(Ordering::SeqCst);
        assert!(flushes < THREADS * EACH / 2, "{flushes} flushes were shared by nobody");
    }

    #[test]
    fn a_flush_that_failed_is_final() {
        let shared = SharedFlush::default();
        assert_eq!(shared.take_part(None, || Ok(())), Ok(()));
        assert_eq!(shared.take_part(None, || Err(Errno::EIO)), Err(Errno::EIO));
        assert_eq!(
            shared.take_part(None, || unreachable!("nothing is flushed any more")),
            Err(Errno::EIO)
        );
    }

    /// Goal: whoever is about to ask is waited for, whoever gives up is not, and nobody for long.
    #[test]
    fn a_flush_waits_for_those_who_write_already() {
        let flushed = |shared: &SharedFlush| shared.state().begun;
        let took = |shared: &SharedFlush| shared.state().took = Duration::from_secs(60);
        let shared = SharedFlush::default();
        std::thread::scope(|scope| {
            let (slow, lost) = (shared.writer(), shared.writer());
            took(&shared);
            scope.spawn(|| shared.take_part(Some(shared.writer()), || Ok(())));
            while !shared.state().gathering {
                std::thread::yield_now();
            }
            drop(lost);
            assert_eq!(shared.take_part(Some(slow), || Ok(())), Ok(()));
        });
        assert_eq!(flushed(&shared), 1, "one for both");
        // Somebody who never asks keeps nobody.
        let _stuck = shared.writer();
        took(&shared);
        assert_eq!(shared.take_part(None, || Ok(())), Ok(()));
        assert_eq!(flushed(&shared), 2);
    }
}
