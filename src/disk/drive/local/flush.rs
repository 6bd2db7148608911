//! One flush of a whole file system for everybody who waits for one.
//!
//! A flush that has begun before somebody asked does not count for it: what it was to make durable may have come too
//! late. So whoever asks waits for the end of a flush that began after that, and begins it when nobody else has.

use std::sync::Condvar;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;

use nix::errno::Errno;

/// Flushes of one drive, shared by the threads that work on it.
#[derive(Debug, Default)]
pub(super) struct SharedFlush {
    state: Mutex<State>,
    ended: Condvar,
    writers: AtomicUsize,
}

/// A thread that writes and is going to flush, until this is dropped.
pub(super) struct Writer<'a>(&'a AtomicUsize);

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct State {
    /// Flushes that have begun.
    begun: u64,
    /// Flushes that have ended: all that have begun, or all but the last.
    ended: u64,
    /// What the first flush that failed said. It is final: nobody knows what it left behind.
    failed: Option<Errno>,
}

impl SharedFlush {
    /// A thread begins to write.
    pub(super) fn writer(&self) -> Writer<'_> {
        self.writers.fetch_add(1, Ordering::Relaxed);
        Writer(&self.writers)
    }

    /// Whether others write as well, so that a flush of everything serves more than one.
    pub(super) fn is_worth_sharing(&self) -> bool {
        self.writers.load(Ordering::Relaxed) > 1
    }

    /// Returns once a flush that began after this call has ended; `flush` does it when it is this thread's turn.
    ///
    /// # Errors
    /// Whatever the first flush that failed said, from then on.
    pub(super) fn take_part(&self, flush: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
        let mut state = self.state();
        let wanted = state.begun + 1;
        while state.failed.is_none() && state.ended < wanted && state.begun > state.ended {
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(errno) = state.failed {
            return Err(errno);
        }
        if state.ended >= wanted {
            return Ok(());
        }
        state.begun += 1;
        drop(state);
        let result = flush();
        let mut state = self.state();
        state.ended += 1;
        if let Err(errno) = result {
            state.failed.get_or_insert(errno);
        }
        drop(state);
        self.ended.notify_all();
        result
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

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
                        let mine = written.fetch_add(1, Ordering::SeqCst) + 1;
                        let flush = || {
                            let seen = written.load(Ordering::SeqCst);
                            std::thread::sleep(Duration::from_micros(50));
                            flushed.fetch_max(seen, Ordering::SeqCst);
                            flushes.fetch_add(1, Ordering::SeqCst);
                            Ok(())
                        };
                        assert_eq!(shared.take_part(flush), Ok(()));
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
        assert_eq!(shared.take_part(|| Ok(())), Ok(()));
        assert_eq!(shared.take_part(|| Err(Errno::EIO)), Err(Errno::EIO));
        assert_eq!(
            shared.take_part(|| unreachable!("nothing is flushed any more")),
            Err(Errno::EIO)
        );
    }
}
