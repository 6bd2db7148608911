//! `firedrill plan`: exactly what a run would create and destroy.

use std::collections::BTreeSet;

use clap::Args;

use super::Exit;
use crate::harness::runner::selection;
use crate::harness::runner::selection::Wanted;
use crate::harness::scenario::plan;
use crate::harness::scenario::plan::Overrides;
use crate::harness::scenario::plan::Plan;
use crate::out::say;
use crate::out::sayln;
use crate::value::Seed;

/// Arguments of `plan`.
#[derive(Debug, Clone, Args)]
pub struct PlanArgs {
    /// A scenario file or name, or `name[case]`
    pub scenario: String,
    /// The seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The whole plan.json
    #[arg(long)]
    pub json: bool,
}

/// Prints the plans of the cases that `arguments` name.
pub fn run(arguments: &PlanArgs) -> Exit {
    let seed = Seed(arguments.seed);
    let names = vec![arguments.scenario.clone()];
    let clients = BTreeSet::new();
    let wanted = Wanted { names, suite: None, canaries: true, clients, seed };
    let selection = match selection::select(&wanted) {
        Ok(selection) => selection,
        Err(error) => {
            eprintln!("{error}");
            return Exit::Usage;
        }
    };
    let mut exit = if selection.cases.is_empty() { Exit::Nothing } else { Exit::Held };
    for case in &selection.cases {
        match plan::plan(case, seed, Overrides::default()) {
            Ok(plan) if arguments.json => say!("{}", plan.to_json()),
            Ok(plan) => print(&plan),
            Err(refusal) => {
                eprintln!("{refusal}");
                exit = exit.worst(Exit::Usage);
            }
        }
    }
    exit
}

/// What a person wants to know before root does it.
fn print(plan: &Plan) {
    let testbed = &plan.testbed;
    sayln!("{} (seed {})", plan.case, plan.seed);
    sayln!("  {}", plan.claim);
    sayln!("creates, and takes away in the end:");
    sayln!(
        "  {} image files of {} MiB on tmpfs ({} MiB), each behind a loop device, formatted, mounted",
        testbed.drives.len(),
        testbed.drive_mib,
        testbed.image_bytes() >> 20
    );
    sayln!(
        "  {} storage nodes with {} drives each, and the proxies before and between them",
        testbed.nodes,
        testbed.drives_per_node
    );
    for drive in &testbed.drives {
        sayln!("  drive {} with file system {}", drive.name, drive.uuid);
    }
    sayln!("asks:");
    for client in &plan.clients {
        sayln!(
            "  step {} client {}: {} operations, list {}",
            client.step,
            client.client,
            client.operations,
            client.digest
        );
    }
    let size = &plan.size;
    sayln!(
        "  at most {} keys and {} versions, {} bytes of contents",
        size.keys,
        size.versions,
        size.contents_bytes
    );
    sayln!(
        "  at most {} bytes and {} inodes on each drive",
        size.drive_bytes_max,
        size.drive_inodes_max
    );
    sayln!("destroys, on its own drives and nodes only:");
    if plan.faults.is_empty() {
        sayln!("  nothing");
    }
    for fault in &plan.faults {
        let nodes: Vec<_> = fault.nodes.iter().map(usize::to_string).collect();
        let mut line = format!("  step {} {}: nodes {}", fault.step, fault.name, nodes.join(", "));
        if !fault.drives.is_empty() {
            line.push_str(&format!(", drives {}", fault.drives.join(", ")));
        }
        if let Some(at) = fault.at {
            line.push_str(&format!(", at {at} ({})", at.meaning().trim()));
        }
        sayln!("{line}");
    }
}
