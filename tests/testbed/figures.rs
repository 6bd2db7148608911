//! The figures that take minutes, asked for in little: that each part still measures something, not how fast it is.

use std::process::Command;

use libtest_mimic::Failed;
use libtest_mimic::Trial;

/// The built binary.
const FIREDRILL: &str = env!("CARGO_BIN_EXE_firedrill");

pub fn trials() -> Vec<Trial> {
    vec![Trial::test("figures::the_catalogs_figures_are_measured", catalog)]
}

/// A few tables, a fifth of a second, a snapshot of a quarter of a MiB.
fn catalog() -> Result<(), Failed> {
    let little = "bench catalog --clients 1,2 --tables 2 --seconds 0.2 --created 3 --restored 3,6 \
                  --snapshot 256k --runs 1";
    let output = Command::new(FIREDRILL).args(little.split(' ')).output()?;
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}\n{told}{words}", output.status).into());
    }
    let rows = [
        "| object | 2 | 1 |",
        "| object | 2 | 2 |",
        "| durable-strong | 2 | 2 |",
        "| 3 | through the API on 3×4",
        "| 6 | onto the drives of 1×4",
        "  a start, median of 1: ",
        "Fence: 3×4, 8 writers, 1 migrations",
        "| fence under load | 2 s | ",
        "| 1,000 tables created through the API | 180 s | - | not measured |",
        "| load of a snapshot of 60 MiB | 1 s | - | not measured |",
    ];
    match rows.iter().find(|row| !told.contains(**row)) {
        None => Ok(()),
        Some(row) => Err(format!("no row {row:?} in\n{told}").into()),
    }
}
