//! The tool of the catalog's runbook, started as a step: with a backup of the drives as they are, requests in the names
//! of the testbed's principals, and a folder that lives as long as the testbed.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use tokio::task;

use super::life::Life;
use super::life::Trouble;
use super::tables::OPERATOR;
use super::tables::PREFIX;
use crate::harness::operator::catalog::ask::By;
use crate::harness::operator::catalog::client::Client;
use crate::harness::operator::catalog::client::Reach;
use crate::harness::operator::catalog::keep::take;
use crate::harness::operator::catalog::orders::Orders;
use crate::harness::operator::catalog::orders::Rehearsal;
use crate::harness::operator::catalog::recorder::Recorder;
use crate::harness::operator::catalog::rehearse;
use crate::harness::operator::catalog::rehearse::Conclusion;
use crate::harness::operator::catalog::rehearse::Folder;
use crate::harness::scenario::rehearse::Rehearse;
use crate::harness::testbed::registry;
use crate::harness::workload::catalog::Rehearsed;
use crate::harness::workload::history::Event;
use crate::harness::workload::history::Note;

/// The folder of the run, in that of the testbed.
const FOLDER: &str = "rehearsal";
/// The backup, beside it.
const BACKUP: &str = "backup";

impl Life<'_> {
    /// Starts the tool, or starts it again; it has to come as far as the step says.
    pub(super) async fn rehearse(&self, on: &Rehearse) -> Result<(), Trouble> {
        let place = registry::folder_of(&self.testbed.context().name);
        let backup = place.join(BACKUP);
        if !backup.exists() {
            self.back_up(&backup).await?;
        }
        let folder = Folder::take(&place.join(FOLDER))?;
        let mut state = folder.state(self.orders(on, &backup))?;
        let known = state.done.len();
        let recorder = Arc::new(Recorder::open(folder.path())?);
        let wire = Arc::new(Client::new(self.reach(on), Arc::clone(&recorder)));
        let mut say = |line: &str| tracing::info!(line, "the runbook's tool");
        let concluded = rehearse::go(&wire, &recorder, folder.path(), &mut state, &mut say).await?;
        let done = state.done.iter().skip(known);
        let done = done.map(|done| format!("{}: {}", done.step.name(), done.evidence)).collect();
        let stopped = match concluded {
            Conclusion::Over { .. } => None,
            Conclusion::Stopped(step, stop) => Some((step.name(), stop.words)),
        };
        let at = stopped.as_ref().map(|(step, _)| step.clone());
        let told = match &stopped {
            None => "it came to its end".to_owned(),
            Some((step, words)) => format!("it stopped at {step}: {words}"),
        };
        self.recorder.record(Event::Noted(Note::Rehearsed(Rehearsed { done, stopped })));
        if at == on.stops {
            return Ok(());
        }
        let owed = match &on.stops {
            None => "come to its end".to_owned(),
            Some(step) => format!("stop at {step}"),
        };
        let waiting_for = "the runbook's tool".to_owned();
        Err(Trouble::Stuck { waiting_for, reason: format!("it had to {owed}; {told}") })
    }

    async fn back_up(&self, to: &Path) -> Result<(), Trouble> {
        let drives = self.testbed.drives().into_iter().map(|drive| drive.root).collect();
        let request = take::BackupRequest {
            drives,
            warehouses: BTreeSet::new(),
            to: to.to_owned(),
            live: true,
            release: env!("CARGO_PKG_VERSION").to_owned(),
        };
        task::spawn_blocking(move || take::run(&request)).await??;
        Ok(())
    }

    fn orders(&self, on: &Rehearse, backup: &Path) -> Orders {
        Orders {
            rehearsal: Rehearsal::Cutover,
            run_id: self.plan.seed.uuid("rehearsal").to_string(),
            prefix: PREFIX.to_owned(),
            nodes: self.plan.testbed.nodes,
            warehouses: on.warehouses.iter().cloned().collect(),
            execute: true,
            backup: Some(backup.to_owned()),
            table: None,
            writers: 1,
            iterations: 1,
            hooks: BTreeMap::new(),
            done: on.by_word().unwrap_or_default(),
            stop_before: on.before.as_ref().and_then(|name| name.parse().ok()),
            has_principals: true,
            fresh_drives: Vec::new(),
            program: None,
        }
    }

    fn reach(&self, on: &Rehearse) -> Reach {
        let mut reach = self.tables.reach(self.addresses(), OPERATOR);
        for (by, name) in [(By::Inside, &on.inside), (By::Outside, &on.outside)] {
            reach.credentials.extend(self.tables.signs(name).map(|signs| (by, signs)));
        }
        reach
    }
}
