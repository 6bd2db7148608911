//! The operator's hand: a command that does what only the operator can do.

use std::process::Stdio;

use tokio::process::Command;

use super::facts::Facts;
use super::orders::Orders;
use super::orders::Rehearsal;
use super::step::Step;

/// Runs `command` in a shell and waits for its end; its output goes to the terminal's error stream.
///
/// It is told by variables what is going on: `FIREDRILL_STEP`, `FIREDRILL_RUN_ID`, `FIREDRILL_WAREHOUSES` (separated
/// by commas), `FIREDRILL_BACKING` (that which is to come), `FIREDRILL_SNAPSHOT_V2`, and of the table that is rehearsed
/// on `FIREDRILL_WAREHOUSE`, `FIREDRILL_NAMESPACE` (by dots) and `FIREDRILL_TABLE`.
///
/// # Errors
///
/// It could not be started, or did not end well.
pub async fn run(step: Step, command: &str, orders: &Orders, facts: &Facts) -> Result<(), String> {
    let warehouses: Vec<_> = orders.warehouses.iter().map(String::as_str).collect();
    let is_strong = match orders.rehearsal {
        Rehearsal::Cutover => step >= Step::Restart,
        Rehearsal::SnapshotV2 => true,
        Rehearsal::DisasterRecovery | Rehearsal::ScaleFault => false,
    };
    let v2 = if step == Step::RestartV2 { "true" } else { "false" };
    let mut shell = Command::new("/bin/sh");
    shell
        .arg("-c")
        .arg(command)
        .env("FIREDRILL_STEP", step.name())
        .env("FIREDRILL_RUN_ID", &orders.run_id)
        .env("FIREDRILL_WAREHOUSES", warehouses.join(","))
        .env("FIREDRILL_BACKING", if is_strong { "durable-strong" } else { "object" })
        .env("FIREDRILL_SNAPSHOT_V2", v2)
        .stdin(Stdio::null())
        .stdout(Stdio::from(std::io::stderr()))
        .kill_on_drop(true);
    if let Some(subject) = &facts.subject {
        shell
            .env("FIREDRILL_WAREHOUSE", &subject.warehouse)
            .env("FIREDRILL_NAMESPACE", subject.table.namespace.join("."))
            .env("FIREDRILL_TABLE", &subject.table.name);
    }
    let status = shell.status().await.map_err(|error| format!("cannot start it: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("it ended with {status}")) }
}
