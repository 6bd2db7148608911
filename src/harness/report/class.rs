//! How a case counts for the exit code.

use std::fmt;

use serde::Deserialize;
use serde::Serialize;

/// How a case, or a whole run, ended for a nightly job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitClass {
    /// Everything held, or failed exactly as the scenario expects.
    Held,
    /// This machine lacks what it needs, and the caller allowed that.
    SkippedAllowed,
    /// Nothing matched, or nothing ran (a whole run only).
    Nothing,
    /// This machine lacks what it needs.
    Skipped,
    /// A scenario was refused before anything was made.
    Refused,
    /// Nobody can tell.
    Undecided,
    /// Every promise held, but a time objective was missed.
    Late,
    /// A promise was broken, or an expected failure did not come.
    Broken,
    /// A signal ended it; everything was torn down.
    Signal(u8),
    /// Something could not be cleaned up.
    Uncleaned,
    /// The harness itself failed.
    HarnessFailed,
}

impl ExitClass {
    /// The number that a process ends with.
    pub fn code(self) -> u8 {
        match self {
            Self::Held | Self::SkippedAllowed => 0,
            Self::Broken => 1,
            Self::Undecided => 2,
            Self::Late => 3,
            Self::Nothing => 4,
            Self::Skipped => 5,
            Self::Refused => 64,
            Self::HarnessFailed => 70,
            Self::Uncleaned => 75,
            Self::Signal(number) => number.wrapping_add(128),
        }
    }

    /// From 0, harmless, to 10, worst: the order in which codes win.
    pub fn severity(self) -> u8 {
        match self {
            Self::Held => 0,
            Self::SkippedAllowed => 1,
            Self::Nothing => 2,
            Self::Skipped => 3,
            Self::Refused => 4,
            Self::Undecided => 5,
            Self::Late => 6,
            Self::Broken => 7,
            Self::Signal(_) => 8,
            Self::Uncleaned => 9,
            Self::HarnessFailed => 10,
        }
    }

    /// The worse of two.
    #[must_use]
    pub fn worst(self, other: Self) -> Self {
        if self.severity() >= other.severity() { self } else { other }
    }

    /// One word for a line or a badge.
    pub fn word(self) -> &'static str {
        match self {
            Self::Held => "pass",
            Self::SkippedAllowed | Self::Skipped => "skipped",
            Self::Nothing => "nothing ran",
            Self::Refused => "refused",
            Self::Undecided => "undecided",
            Self::Late => "late",
            Self::Broken => "fail",
            Self::Signal(_) => "interrupted",
            Self::Uncleaned => "not cleaned up",
            Self::HarnessFailed => "harness failed",
        }
    }

    /// Whether somebody has to look at it.
    pub fn needs_attention(self) -> bool {
        self.severity() > Self::SkippedAllowed.severity()
    }
}

impl fmt::Display for ExitClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_classes_the_one_that_wins_in_the_manual_wins_here() {
        let worst_first = [
            ExitClass::HarnessFailed,
            ExitClass::Uncleaned,
            ExitClass::Signal(2),
            ExitClass::Broken,
            ExitClass::Late,
            ExitClass::Undecided,
            ExitClass::Refused,
            ExitClass::Skipped,
            ExitClass::Nothing,
            ExitClass::SkippedAllowed,
            ExitClass::Held,
        ];
        let codes = worst_first.map(ExitClass::code);
        assert_eq!(codes, [70, 75, 130, 1, 3, 2, 64, 5, 4, 0, 0]);
        for (place, one) in worst_first.iter().enumerate() {
            for other in &worst_first[place..] {
                assert_eq!(one.worst(*other), *one);
                assert_eq!(other.worst(*one), *one);
            }
        }
    }
}
