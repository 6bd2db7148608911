//! Looks at the records of replacements every now and then, and records what has changed.
//!
//! What nodes do between two looks is not seen: whoever judges by sightings says what follows from each.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time;

use crate::harness::fault::Injector;
use crate::harness::workload::history::Event;
use crate::harness::workload::history::Sighting;
use crate::harness::workload::recorder::Recorder;

/// Between two looks.
const PERIOD: Duration = Duration::from_millis(200);

/// The task that looks; dropping it ends it.
pub struct Watch(JoinHandle<()>);

impl Watch {
    /// Starts the task.
    pub fn start(injector: Arc<Injector>, recorder: Recorder) -> Self {
        Self(tokio::spawn(async move {
            let mut last = None::<Sighting>;
            loop {
                // Not a wait for a while: drives have no way to call us, so they are looked at.
                time::sleep(PERIOD).await;
                let sighting = match injector.sight().await {
                    Ok(sighting) => sighting,
                    Err(error) => {
                        tracing::warn!(%error, "the drives could not be looked at");
                        continue;
                    }
                };
                let before = last.as_ref().map(|last| (&last.drives, &last.held));
                let is_news = before != Some((&sighting.drives, &sighting.held));
                let is_empty = last.is_none() && sighting.held.is_empty();
                if is_news && !is_empty {
                    recorder.record(Event::Sighted(sighting.clone()));
                    last = Some(sighting);
                }
            }
        }))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}
