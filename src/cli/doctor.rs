//! `firedrill doctor`: what this machine can rehearse, found out by trying, and what to install for the rest.

use clap::Args;
use serde::Serialize;

use super::Exit;
use crate::harness::scenario::plan::Rung;
use crate::harness::testbed::capability;
use crate::harness::testbed::capability::Capability;
use crate::harness::testbed::capability::RungState;
use crate::out::say;
use crate::out::sayln;

/// Arguments of `doctor`.
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Findings {
    format: u32,
    capabilities: Vec<Capability>,
    rungs: Vec<RungState>,
}

/// Prints the tables; lacking when the default rung is.
pub fn run(arguments: &DoctorArgs) -> Exit {
    let capabilities = capability::probe();
    let rungs = capability::rungs(&capabilities);
    let default = Rung::default();
    let is_lacking = rungs.iter().any(|state| state.rung == default && state.lacking.is_some());
    let findings = Findings { format: 1, capabilities, rungs };
    if arguments.json {
        let text = serde_json::to_string_pretty(&findings).expect("findings are plain data");
        sayln!("{text}");
    } else {
        say!("{}", table(&findings));
    }
    if is_lacking { Exit::Lacking } else { Exit::Held }
}

/// Both tables, as people read them.
fn table(findings: &Findings) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let width = findings.capabilities.iter().map(|one| one.name.len()).max().unwrap_or(0);
    for one in &findings.capabilities {
        let (sign, words) = match &one.found {
            Ok(words) => ("yes", words),
            Err(words) => ("NO ", words),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{sign}  {:width$}  {words}", one.name);
        if one.found.is_err() {
            let blank = "";
            let _ = writeln!(text, "     {blank:width$}  needed for {}", one.needed_for);
            let _ = writeln!(text, "     {blank:width$}  to get it: {}", one.how);
        }
    }
    let _ = writeln!(text);
    for state in &findings.rungs {
        let name = format!("{:?}", state.rung).to_lowercase();
        let _ = match &state.lacking {
            None => writeln!(text, "rung {name:6}  ready"),
            Some(why) => writeln!(text, "rung {name:6}  {why}"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_shown_with_the_way_to_get_it() {
        let one = |name, found: Result<&str, &str>| Capability {
            name,
            needed_for: "drives",
            how: if found.is_ok() { String::new() } else { "apt-get install it".to_owned() },
            found: found.map(str::to_owned).map_err(str::to_owned),
        };
        let capabilities = vec![one("loop", Ok("opens")), one("mkfs.ext4", Err("not found"))];
        let rungs = capability::rungs(&capabilities);
        let text = table(&Findings { format: 1, capabilities, rungs });
        assert!(text.contains("yes  loop       opens"), "{text}");
        assert!(text.contains("NO   mkfs.ext4  not found"), "{text}");
        assert!(text.contains("apt-get install it"), "{text}");
        assert!(text.contains("rung loop    lacks mkfs.ext4"), "{text}");
    }
}
