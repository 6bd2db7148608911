//! What a run waits for now, so that a wall limit can name it.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

/// The wait that a run is at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// For what, in words.
    pub for_what: String,
    /// Whether the cluster owes it; otherwise it is our own doing.
    pub is_promise: bool,
}

/// Shared by the run and whoever watches over its wall limit.
#[derive(Debug, Clone)]
pub struct Waiting(Arc<Mutex<Wait>>);

impl Default for Waiting {
    fn default() -> Self {
        let wait = Wait { for_what: "the run to begin".to_owned(), is_promise: false };
        Self(Arc::new(Mutex::new(wait)))
    }
}

impl Waiting {
    /// From now on the run waits for something that the cluster owes.
    pub fn on_the_cluster(&self, for_what: impl Into<String>) {
        self.set(Wait { for_what: for_what.into(), is_promise: true });
    }

    /// From now on the run waits for something of our own doing.
    pub fn on_ourselves(&self, for_what: impl Into<String>) {
        self.set(Wait { for_what: for_what.into(), is_promise: false });
    }

    /// The wait that the run is at.
    pub fn now(&self) -> Wait {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, wait: Wait) {
        // A word is whole or was not set: a panic elsewhere leaves nothing half done.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = wait;
    }
}
