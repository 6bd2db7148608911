//! `firedrill check`: whether scenarios make sense, without touching anything.

use std::path::Path;

use clap::Args;

use super::Exit;
use crate::harness::runner::selection::Catalogue;
use crate::harness::scenario::parse::Scenario;
use crate::harness::scenario::plan;
use crate::harness::scenario::plan::Overrides;
use crate::out::sayln;
use crate::value::Seed;

/// Arguments of `check`.
#[derive(Debug, Clone, Args)]
pub struct CheckArgs {
    /// Scenario files, folders or names
    pub scenarios: Vec<String>,
}

/// Reads and plans every case that `arguments` name.
pub fn run(arguments: &CheckArgs) -> Exit {
    let scenarios = match load(&arguments.scenarios) {
        Ok(scenarios) => scenarios,
        Err(message) => {
            eprintln!("{message}");
            return Exit::Usage;
        }
    };
    let mut exit = if scenarios.is_empty() { Exit::Nothing } else { Exit::Held };
    let cases = scenarios.iter().flat_map(|scenario| &scenario.cases);
    for case in cases.clone() {
        if let Err(refusal) = plan::plan(case, Seed(1), Overrides::default()) {
            eprintln!("{refusal}");
            exit = exit.worst(Exit::Usage);
        }
    }
    if exit == Exit::Held {
        sayln!("{} scenarios with {} cases make sense", scenarios.len(), cases.count());
    }
    exit
}

/// The scenarios that `names` name: files, folders, names or families; all when there is none.
///
/// # Errors
/// Everything that is wrong, a line each.
pub(super) fn load(names: &[String]) -> Result<Vec<Scenario>, String> {
    if names.is_empty() {
        return Ok(Catalogue::load().map_err(|error| error.to_string())?.scenarios);
    }
    let mut scenarios: Vec<Scenario> = Vec::new();
    let mut wrong = Vec::new();
    for name in names {
        match load_one(name) {
            Ok(found) => {
                for scenario in found {
                    if !scenarios.contains(&scenario) {
                        scenarios.push(scenario);
                    }
                }
            }
            Err(message) => wrong.push(message),
        }
    }
    if wrong.is_empty() { Ok(scenarios) } else { Err(wrong.join("\n")) }
}

fn load_one(name: &str) -> Result<Vec<Scenario>, String> {
    let path = Path::new(name);
    let looks_like_a_file = name.ends_with(".yaml") || name.ends_with(".yml") || path.is_file();
    if path.is_dir() {
        return Ok(Catalogue::of_folder(path).map_err(|error| error.to_string())?.scenarios);
    }
    if looks_like_a_file {
        let paths = [path.to_owned()];
        return Ok(Catalogue::of_paths(&paths).map_err(|error| error.to_string())?.scenarios);
    }
    let all = Catalogue::load().map_err(|error| error.to_string())?;
    let is_meant = |scenario: &Scenario| {
        scenario.name == name
            || scenario.family == name
            || scenario.cases.iter().any(|case| case.name == name)
    };
    let found: Vec<_> = all.scenarios.into_iter().filter(is_meant).collect();
    if found.is_empty() {
        return Err(format!("there is no scenario, case, family or file `{name}`"));
    }
    Ok(found)
}
