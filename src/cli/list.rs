//! `firedrill list`: the scenarios and their cases.

use clap::Args;
use serde::Serialize;

use super::Exit;
use super::check;
use crate::harness::scenario::form::Suite;
use crate::harness::scenario::parse::Scenario;
use crate::out::sayln;

/// Arguments of `list`.
#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    /// Scenario files, folders or names
    pub scenarios: Vec<String>,
    /// Only this suite
    #[arg(long, value_name = "quick|nightly|release")]
    pub suite: Option<String>,
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// One scenario, as `--json` prints it.
#[derive(Debug, Serialize)]
struct Row<'a> {
    scenario: &'a str,
    family: &'a str,
    file: &'a str,
    suite: Suite,
    claim: &'a str,
    cases: Vec<&'a str>,
    invariants: &'a [String],
}

/// Prints every scenario that `arguments` name.
pub fn run(arguments: &ListArgs) -> Exit {
    let suite = match arguments.suite.as_deref().map(str::parse::<Suite>).transpose() {
        Ok(suite) => suite,
        Err(message) => {
            eprintln!("firedrill list: {message}");
            return Exit::Usage;
        }
    };
    let scenarios = match check::load(&arguments.scenarios) {
        Ok(scenarios) => scenarios,
        Err(message) => {
            eprintln!("{message}");
            return Exit::Usage;
        }
    };
    let wanted = |scenario: &&Scenario| suite.is_none_or(|suite| scenario.suite() <= suite);
    let shown: Vec<&Scenario> = scenarios.iter().filter(wanted).collect();
    if arguments.json {
        let rows: Vec<_> = shown.iter().map(|scenario| row(scenario)).collect();
        match serde_json::to_string_pretty(&rows) {
            Ok(text) => sayln!("{text}"),
            Err(error) => {
                eprintln!("firedrill list: {error}");
                return Exit::Internal;
            }
        }
    } else {
        print(&shown);
    }
    if shown.is_empty() { Exit::Nothing } else { Exit::Held }
}

fn row(scenario: &Scenario) -> Row<'_> {
    let form = &scenario.cases[0].form;
    Row {
        scenario: &scenario.name,
        family: &scenario.family,
        file: &scenario.file,
        suite: scenario.suite(),
        claim: form.claim.trim(),
        cases: scenario.cases.iter().map(|case| case.name.as_str()).collect(),
        invariants: &form.expect.holds,
    }
}

fn print(scenarios: &[&Scenario]) {
    let mut family = "";
    for scenario in scenarios {
        if scenario.family != family {
            family = &scenario.family;
            sayln!("{family}");
        }
        sayln!("  {} ({})", scenario.name, scenario.suite());
        sayln!("      {}", scenario.cases[0].form.claim.trim());
        for case in &scenario.cases {
            if let Some(value) = &case.value {
                sayln!("      [{value}]");
            }
        }
    }
    let cases: usize = scenarios.iter().map(|scenario| scenario.cases.len()).sum();
    sayln!("{} scenarios, {cases} cases", scenarios.len());
}
