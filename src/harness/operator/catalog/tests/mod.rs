//! Tests of the rehearsals, against a catalog in memory.

mod cutover;
mod http;
mod others;
mod world;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::error::CatalogError;
use super::facts::BackupFacts;
use super::orders::Orders;
use super::orders::Rehearsal;
use super::recorder::Recorder;
use super::rehearse;
use super::rehearse::Conclusion;
use super::rehearse::Folder;
use super::state::Done;
use super::state::Ended;
use super::state::State;
use super::step::Step;
use super::turn::Stop;
use world::World;

/// Orders that execute everything, with the operator's word for what only the operator can do.
fn orders(rehearsal: Rehearsal) -> Orders {
    Orders {
        rehearsal,
        run_id: "5f0f5ad8-0000-4000-8000-000000000001".to_owned(),
        prefix: "/iceberg/v1".to_owned(),
        nodes: 2,
        warehouses: BTreeSet::from(["lake".to_owned()]),
        execute: true,
        backup: Some("kept".into()),
        table: None,
        writers: 3,
        iterations: 4,
        hooks: BTreeMap::new(),
        done: BTreeSet::from([
            Step::Drain,
            Step::Quiesce,
            Step::Restart,
            Step::ConfirmReaders,
            Step::RestartV2,
            Step::RestoreCheck,
        ]),
        stop_before: None,
        has_principals: true,
        fresh_drives: Vec::new(),
        program: None,
    }
}

/// A state in which the backup was verified already: there are no drives here that it could be taken from.
fn begun(orders: Orders) -> State {
    let mut state = State::new(orders);
    let tokens = BTreeMap::from([("lake".to_owned(), BTreeMap::new())]);
    state.facts.backup = Some(BackupFacts {
        digest: "d".to_owned(),
        release: "r".to_owned(),
        made_at: 0,
        strong_tokens: tokens.clone(),
        tokens,
    });
    for step in [Step::TakeBackup, Step::PreserveBackup] {
        state.done.push(Done {
            step,
            ended: Ended::Passed,
            evidence: "kept".to_owned(),
            requests: (0, 0),
            took_ms: 0,
            lacks: false,
        });
    }
    state
}

/// Goes on with what is durable in `folder`.
fn go_on(world: &Arc<World>, folder: &Path, orders: Orders) -> Result<Conclusion, CatalogError> {
    let held = Folder::take(folder)?;
    if State::read(folder)?.is_none() {
        begun(orders.clone()).write(folder)?;
    }
    let mut state = held.state(orders)?;
    let recorder = Arc::new(Recorder::open(folder)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut say = |_: &str| {};
    runtime.block_on(rehearse::go(world, &recorder, folder, &mut state, &mut say))
}

/// A whole rehearsal in a folder of its own.
fn rehearsed(world: &Arc<World>, orders: Orders) -> (Conclusion, State) {
    let folder = tempfile::tempdir().unwrap();
    let concluded = go_on(world, folder.path(), orders).unwrap();
    (concluded, State::read(folder.path()).unwrap().unwrap())
}

fn stop(concluded: Conclusion) -> (Step, Stop) {
    match concluded {
        Conclusion::Stopped(step, stop) => (step, stop),
        Conclusion::Over { lacking } => panic!("it went on to its end, {lacking} lacking"),
    }
}
