//! An error with everything that caused it, on one line: the only way in which errors are printed.

use std::error::Error;
use std::fmt;

/// Shows an error and its causes, outermost first, with `: ` between them.
#[derive(Debug, Clone, Copy)]
pub struct Chain<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::report::ReportError;
    use std::path::Path;

    #[test]
    fn every_cause_is_shown_once() {
        let cause = std::io::Error::other("no space left");
        let error = ReportError::io("write", Path::new("plan.json"))(cause);
        assert_eq!(Chain(&error).to_string(), "cannot write plan.json: no space left");
    }
}
