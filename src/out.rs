//! Words for people, on standard output, whose reader may go away as soon as it has seen enough.
//!
//! What is said to nobody is lost, and nothing else: a rehearsal whose output is cut short goes on to its report.

use std::fmt;
use std::io;
use std::io::Write as _;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

/// Whether something could not be written that somebody may have waited for.
static FAILED: AtomicBool = AtomicBool::new(false);

/// Writes to standard output. The first time that this fails is told on standard error, unless nobody listens any more.
pub(crate) fn print(words: fmt::Arguments<'_>) {
    if let Err(error) = io::stdout().lock().write_fmt(words)
        && error.kind() != io::ErrorKind::BrokenPipe
        && !FAILED.swap(true, Ordering::Relaxed)
    {
        writeln!(io::stderr(), "firedrill: standard output: {error}").ok();
    }
}

/// Whether something was lost because it could not be written, as on a full disk.
pub(crate) fn has_failed() -> bool {
    FAILED.load(Ordering::Relaxed)
}

/// As `print!`, but it does not panic.
macro_rules! say {
    ($($words:tt)*) => { $crate::out::print(::std::format_args!($($words)*)) };
}

/// As `println!`, but it does not panic.
macro_rules! sayln {
    () => { $crate::out::say!("\n") };
    ($words:literal $($more:tt)*) => { $crate::out::say!("{}\n", ::std::format_args!($words $($more)*)) };
}

pub(crate) use say;
pub(crate) use sayln;
