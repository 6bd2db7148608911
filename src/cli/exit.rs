//! How a command ends: the exit codes, and which of two is worse.

use std::fmt;

use crate::harness::report::ExitClass;

/// What a nightly job can act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: everything held.
    Held,
    /// 1: a promise was broken.
    Broken,
    /// 2: nobody can tell.
    Undecided,
    /// 3: a time objective was missed.
    Late,
    /// 4: nothing matched, or nothing ran.
    Nothing,
    /// 5: this machine, or this version of firedrill, lacks what was asked.
    Lacking,
    /// 64: wrong usage, a wrong scenario, or the refusal of an operator tool.
    Usage,
    /// 70: the harness itself failed.
    Internal,
    /// 75: something could not be cleaned up.
    Uncleaned,
    /// 128+n: a signal ended it; everything was torn down, the verdict is undecided.
    Signal(u8),
}

/// From worst to harmless.
const WORST_FIRST: [Exit; 9] = [
    Exit::Internal,
    Exit::Uncleaned,
    Exit::Broken,
    Exit::Late,
    Exit::Undecided,
    Exit::Usage,
    Exit::Lacking,
    Exit::Nothing,
    Exit::Held,
];

impl Exit {
    /// The number that the process ends with.
    pub fn code(self) -> u8 {
        match self {
            Self::Held => 0,
            Self::Broken => 1,
            Self::Undecided => 2,
            Self::Late => 3,
            Self::Nothing => 4,
            Self::Lacking => 5,
            Self::Usage => 64,
            Self::Internal => 70,
            Self::Uncleaned => 75,
            Self::Signal(number) => number.wrapping_add(128),
        }
    }

    /// The worse of two. A signal is what the caller must learn of, whatever else there was, unless
    /// the harness failed or left something behind.
    #[must_use]
    pub fn worst(self, other: Self) -> Self {
        if self.rank() <= other.rank() { self } else { other }
    }

    /// 0 for the worst.
    fn rank(self) -> usize {
        match self {
            Self::Signal(_) => 2,
            _ => {
                let place = WORST_FIRST.iter().position(|exit| *exit == self);
                let place = place.expect("every exit but a signal stands in the table");
                if place < 2 { place } else { place + 1 }
            }
        }
    }
}

impl From<ExitClass> for Exit {
    fn from(class: ExitClass) -> Self {
        match class {
            ExitClass::Held | ExitClass::SkippedAllowed => Self::Held,
            ExitClass::Nothing => Self::Nothing,
            ExitClass::Skipped => Self::Lacking,
            ExitClass::Refused => Self::Usage,
            ExitClass::Undecided => Self::Undecided,
            ExitClass::Late => Self::Late,
            ExitClass::Broken => Self::Broken,
            ExitClass::Signal(number) => Self::Signal(number),
            ExitClass::Uncleaned => Self::Uncleaned,
            ExitClass::HarnessFailed => Self::Internal,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code())
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_first_order_is_that_of_the_manual() {
        let codes = WORST_FIRST.map(Exit::code);
        assert_eq!(codes, [70, 75, 1, 3, 2, 64, 5, 4, 0]);
    }

    #[test]
    fn of_two_exits_the_worse_counts_whichever_comes_first() {
        for (worse, one) in WORST_FIRST.iter().enumerate() {
            for other in &WORST_FIRST[worse..] {
                assert_eq!(one.worst(*other), *one);
                assert_eq!(other.worst(*one), *one);
            }
        }
        assert_eq!(Exit::Broken.worst(Exit::Signal(2)), Exit::Signal(2));
        assert_eq!(Exit::Signal(15).code(), 143);
        assert_eq!(Exit::Signal(2).worst(Exit::Uncleaned), Exit::Uncleaned);
    }
}
