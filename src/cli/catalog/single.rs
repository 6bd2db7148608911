//! The runbook's steps, one a command.

use std::sync::Arc;

use clap::Args;

use super::failed;
use super::print;
use super::reach;
use super::reach::ReachArgs;
use crate::cli::Exit;
use crate::harness::operator::catalog::client::Client;
use crate::harness::operator::catalog::error::CatalogError;
use crate::harness::operator::catalog::orders::Rehearsal;
use crate::harness::operator::catalog::recorder::Recorder;
use crate::harness::operator::catalog::single;
use crate::harness::operator::catalog::single::Single;

/// Arguments of a step.
#[derive(Debug, Clone, Args)]
pub struct SingleArgs {
    #[command(flatten)]
    reach: ReachArgs,
}

/// Arguments of a step that changes something.
#[derive(Debug, Clone, Args)]
pub struct ConfirmedArgs {
    #[command(flatten)]
    reach: ReachArgs,
    /// The same warehouse once more (again for each of them)
    #[arg(long = "confirm", value_name = "NAME")]
    confirm: Vec<String>,
}

fn name(single: Single) -> &'static str {
    match single {
        Single::Preflight => "preflight",
        Single::Migrate => "migrate",
        Single::Cancel => "cancel",
        Single::Status => "status",
        Single::Admit => "admit",
        Single::Backfill => "backfill",
    }
}

/// Does one step, and prints the answers as JSON.
pub fn run(single: Single, arguments: &SingleArgs) -> Exit {
    go(single, &arguments.reach).unwrap_or_else(|error| failed(name(single), &error))
}

/// As [`run`], after it was confirmed.
pub fn confirmed(single: Single, arguments: &ConfirmedArgs) -> Exit {
    if let Err(error) = is_confirmed(&arguments.reach.warehouses, &arguments.confirm) {
        return failed(name(single), &error);
    }
    go(single, &arguments.reach).unwrap_or_else(|error| failed(name(single), &error))
}

/// Demands every warehouse's name a second time.
pub fn is_confirmed(warehouses: &[String], confirm: &[String]) -> Result<(), CatalogError> {
    let sorted =
        |names: &[String]| names.iter().cloned().collect::<std::collections::BTreeSet<_>>();
    if sorted(warehouses) == sorted(confirm) {
        return Ok(());
    }
    let wanted: Vec<_> = warehouses.iter().map(|name| format!("--confirm {name}")).collect();
    let words = format!("this changes the catalog: say {}", wanted.join(" "));
    Err(CatalogError::Usage(words))
}

fn go(single: Single, arguments: &ReachArgs) -> Result<Exit, CatalogError> {
    let orders = arguments.orders(Rehearsal::Cutover)?;
    let reach = arguments.reach()?;
    let wire = Arc::new(Client::new(reach, Arc::new(Recorder::none())));
    let result = reach::runtime()?.block_on(single::run(&wire, &orders, single));
    Ok(match result {
        Ok(value) => {
            let text = serde_json::to_string_pretty(&value).unwrap_or_default();
            print(name(single), &format!("{text}\n"), Exit::Held)
        }
        Err(stop) => {
            eprintln!("firedrill catalog {}: {}", name(single), stop.words);
            eprintln!("  what to do: {}", stop.remedy);
            super::exit_of(&stop)
        }
    })
}
