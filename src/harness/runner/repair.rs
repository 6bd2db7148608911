//! Diagnosis and repair of what interrupted commits left, with the table's pointer seen from outside around it.

use std::sync::PoisonError;

use serde_json::Value;

use super::life::Life;
use super::life::Trouble;
use super::tables::at;
use super::tables::otherwise;
use super::tables::owed;
use crate::harness::operator::catalog::ask::Heard;
use crate::harness::operator::catalog::ask::Outcome;
use crate::harness::operator::catalog::routes::Named;
use crate::harness::scenario::catalog::CatalogStep;
use crate::harness::scenario::catalog::Expected;
use crate::harness::scenario::catalog::repair::Diagnose;
use crate::harness::scenario::catalog::repair::Recover;
use crate::harness::scenario::catalog::split_table;
use crate::harness::workload::catalog::CatalogAction;
use crate::harness::workload::catalog::Commit;

/// How a commit stands of which there is no record.
const ABSENT: &str = "ABSENT";

impl Life<'_> {
    /// Asks how the commits of a table stand.
    ///
    /// # Errors
    /// They do not stand as the step says.
    pub(super) async fn diagnose(&self, step: &CatalogStep, on: &Diagnose) -> Result<(), Trouble> {
        let (namespace, name) = split_table(&on.table).unwrap_or_default();
        let ask = at(&on.warehouse).diagnostics(Named { namespace: &namespace, name: &name });
        let action = CatalogAction::Diagnose;
        let ask = ask.waiting();
        let heard = self.asked(&on.warehouse, Some(&on.table), on.node, action, ask).await;
        owed(step, Expected::Done, &heard)?;
        let status = heard.text("/recovery_status").unwrap_or_default();
        let actions = words(&heard, "/recommended_actions");
        let last = self.last_commit(&on.warehouse, &on.table);
        let commit = last.map(|commit| state_of(&heard, &commit.commit_id));
        let is_so = status == on.status
            && actions == on.actions
            && on.commit.as_ref().is_none_or(|wanted| commit.as_ref() == Some(wanted));
        if is_so {
            return Ok(());
        }
        let commit_owed = on.commit.as_deref().unwrap_or("any");
        let owed = format!(
            "{} {:?} with its last commit {commit_owed}, not {status} {actions:?} with {commit:?}",
            on.status, on.actions
        );
        Err(otherwise(step, &owed, &heard))
    }

    /// Repairs a table; its pointer is seen before, and after unless nobody may answer.
    ///
    /// # Errors
    /// The pointer could not be seen, or another number of repairs was told than the step says.
    pub(super) async fn recover(&self, step: &CatalogStep, on: &Recover) -> Result<Heard, Trouble> {
        let (namespace, name) = split_table(&on.table).unwrap_or_default();
        let named = Named { namespace: &namespace, name: &name };
        self.see_pointer(step, on, named).await?;
        let ask = at(&on.warehouse).recovery(named);
        let action = CatalogAction::Recover;
        let heard = self.asked(&on.warehouse, Some(&on.table), on.node, action, ask).await;
        if heard.told.outcome == Outcome::Unknown {
            return Ok(heard);
        }
        self.see_pointer(step, on, named).await?;
        let told = heard.number("/finalized_count");
        if heard.told.outcome == Outcome::Done && on.finalized.is_some() && told != on.finalized {
            return Err(otherwise(step, &format!("done with {:?} repairs", on.finalized), &heard));
        }
        Ok(heard)
    }

    async fn see_pointer(
        &self,
        step: &CatalogStep,
        on: &Recover,
        named: Named<'_>,
    ) -> Result<(), Trouble> {
        let ask = at(&on.warehouse).pointer(named).waiting();
        let action = CatalogAction::Pointer;
        let heard = self.asked(&on.warehouse, Some(&on.table), on.node, action, ask).await;
        owed(step, Expected::Done, &heard)
    }

    /// Looks for a commit in the metadata of its table.
    pub(super) async fn look_for(
        &self,
        warehouse: &str,
        table: &str,
        node: usize,
        commit: &Commit,
    ) -> Heard {
        let (namespace, name) = split_table(table).unwrap_or_default();
        let ask = at(warehouse).load(Named { namespace: &namespace, name: &name });
        let action = CatalogAction::Look(commit.clone());
        self.asked(warehouse, Some(table), node, action, ask).await
    }

    fn last_commit(&self, warehouse: &str, table: &str) -> Option<Commit> {
        let last = self.tables.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.get(&format!("{warehouse}.{table}")).cloned()
    }
}

fn words(heard: &Heard, place: &str) -> Vec<String> {
    let list = heard.told.body.pointer(place).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned)).collect()
}

/// How a commit stands, as diagnostics have it.
fn state_of(heard: &Heard, commit_id: &str) -> String {
    let commits = heard.told.body.pointer("/commit_recovery/commits").and_then(Value::as_array);
    let of = |it: &&Value| it.get("commit_id").and_then(Value::as_str) == Some(commit_id);
    let state = commits.into_iter().flatten().find(of);
    let state = state.and_then(|it| it.get("recovery_state")).and_then(Value::as_str);
    state.unwrap_or(ABSENT).to_owned()
}
