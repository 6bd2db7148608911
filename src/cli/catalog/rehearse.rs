//! `firedrill catalog rehearse`.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::exit_of;
use super::failed;
use super::print;
use super::reach;
use super::reach::ReachArgs;
use super::single::is_confirmed;
use crate::cli::Exit;
use crate::cli::drives::shown;
use crate::harness::operator::catalog::ask::By;
use crate::harness::operator::catalog::client::Client;
use crate::harness::operator::catalog::error::CatalogError;
use crate::harness::operator::catalog::orders::Orders;
use crate::harness::operator::catalog::orders::Rehearsal;
use crate::harness::operator::catalog::orders::TableName;
use crate::harness::operator::catalog::recorder::Recorder;
use crate::harness::operator::catalog::rehearse;
use crate::harness::operator::catalog::rehearse::Conclusion;
use crate::harness::operator::catalog::rehearse::Folder;
use crate::harness::operator::catalog::state::State;
use crate::harness::operator::catalog::step::Step;
use crate::harness::operator::catalog::turn::Stop;
use crate::harness::operator::catalog::turn::StopKind;
use crate::out::sayln;

/// Arguments of `catalog rehearse`.
#[derive(Debug, Clone, Args)]
pub struct RehearseArgs {
    #[command(flatten)]
    reach: ReachArgs,
    /// What to rehearse
    #[arg(
        long,
        value_name = "cutover|snapshot-v2|disaster-recovery|scale-fault",
        default_value = "cutover"
    )]
    rehearsal: String,
    /// Do it; without it the catalog is only read
    #[arg(long)]
    execute: bool,
    /// The same warehouse once more (again for each of them); --execute needs it
    #[arg(long = "confirm", value_name = "NAME")]
    confirm: Vec<String>,
    /// The folder of a backup that `catalog backup` has made; --execute needs it
    #[arg(long, value_name = "DIR")]
    backup: Option<PathBuf>,
    /// A command that does a step which only you can do
    #[arg(long = "hook", value_name = "STEP=COMMAND")]
    hooks: Vec<String>,
    /// A step that you have done, or verified by other means
    #[arg(long = "done", value_name = "STEP")]
    done: Vec<String>,
    /// Stop before this step
    #[arg(long, value_name = "STEP")]
    stop_before: Option<String>,
    /// Print all requests as JSON, and send none but reads
    #[arg(long, conflicts_with = "execute")]
    print: bool,
    /// The folder of the run; where it was begun, it goes on (default: one below --report-dir, by what is rehearsed)
    #[arg(long, value_name = "DIR")]
    run: Option<PathBuf>,
    /// Where folders of runs are made
    #[arg(long, default_value = "reports")]
    report_dir: PathBuf,
    /// Rehearse on this table of yours (NAMESPACE.TABLE) instead of one made for it; disposable, or backed up
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Concurrent writers
    #[arg(long, default_value_t = 8)]
    writers: usize,
    /// Rounds of concurrent writers
    #[arg(long, default_value_t = 50)]
    iterations: usize,
    /// Credentials of a principal who has the table's policy and S3 inside the table, and nothing else
    #[arg(long, value_name = "FILE", requires = "outside_credentials")]
    inside_credentials: Option<PathBuf>,
    /// Credentials of a principal who has S3 everywhere, and no table's policy
    #[arg(long, value_name = "FILE", requires = "inside_credentials")]
    outside_credentials: Option<PathBuf>,
    /// A drive of a fresh, stopped cluster of the same shape (again for each of them): the backup is restored there,
    /// and not into a cluster that is made for it in the run's folder
    #[arg(long = "fresh-drive", value_name = "DRIVE")]
    fresh_drives: Vec<PathBuf>,
}

/// Rehearses.
pub fn run(arguments: &RehearseArgs) -> Exit {
    go(arguments).unwrap_or_else(|error| failed("rehearse", &error))
}

/// What the arguments ask for.
fn orders(arguments: &RehearseArgs) -> Result<Orders, CatalogError> {
    let usage = CatalogError::Usage;
    let all = Rehearsal::ALL.into_iter();
    let rehearsal = all.clone().find(|it| it.name() == arguments.rehearsal).ok_or_else(|| {
        let names: Vec<_> = all.map(Rehearsal::name).collect();
        usage(format!("--rehearsal {} is none of {}", arguments.rehearsal, names.join(", ")))
    })?;
    if arguments.execute {
        is_confirmed(&arguments.reach.warehouses, &arguments.confirm)?;
    }
    if arguments.writers == 0 || arguments.iterations == 0 {
        return Err(usage("--writers and --iterations are at least 1".to_owned()));
    }
    let mut hooks = BTreeMap::new();
    for text in &arguments.hooks {
        let (name, command) = text
            .split_once('=')
            .ok_or_else(|| usage(format!("--hook {text} is not STEP=COMMAND")))?;
        let step: Step = name.parse().map_err(usage)?;
        if !step.takes_a_hook() {
            return Err(usage(format!("no command does the step {name}")));
        }
        hooks.insert(step, command.to_owned());
    }
    let mut done = BTreeSet::new();
    for name in &arguments.done {
        let step: Step = name.parse().map_err(usage)?;
        if !step.may_be_asserted() {
            return Err(usage(format!("the step {name} is not done by anybody's word")));
        }
        done.insert(step);
    }
    let stop_before = arguments.stop_before.as_ref().map(|name| name.parse()).transpose();
    let table = arguments.table.as_ref().map(|text| table(text)).transpose()?;
    if table.is_some() && matches!(rehearsal, Rehearsal::Cutover | Rehearsal::SnapshotV2) {
        let words = "--table is for the rehearsals of one table: disaster-recovery and scale-fault";
        return Err(usage(words.to_owned()));
    }
    Ok(Orders {
        execute: arguments.execute,
        backup: arguments.backup.clone(),
        table,
        writers: arguments.writers,
        iterations: arguments.iterations,
        hooks,
        done,
        stop_before: stop_before.map_err(usage)?,
        has_principals: arguments.inside_credentials.is_some(),
        fresh_drives: arguments.fresh_drives.clone(),
        ..arguments.reach.orders(rehearsal)?
    })
}

fn table(text: &str) -> Result<TableName, CatalogError> {
    let mut parts: Vec<_> = text.split('.').map(str::to_owned).collect();
    let name = parts.pop().filter(|name| !name.is_empty() && !parts.is_empty());
    let name =
        name.ok_or_else(|| CatalogError::Usage(format!("--table {text} is not NAMESPACE.TABLE")))?;
    Ok(TableName { namespace: parts, name })
}

fn go(arguments: &RehearseArgs) -> Result<Exit, CatalogError> {
    let orders = orders(arguments)?;
    let mut reach = arguments.reach.reach()?;
    let others = [
        (By::Inside, &arguments.inside_credentials),
        (By::Outside, &arguments.outside_credentials),
    ];
    for (by, file) in others {
        if let Some(file) = file {
            reach.credentials.insert(by, reach::from_file(file)?);
        }
    }
    let runtime = reach::runtime()?;
    if arguments.print {
        let wire = Arc::new(Client::new(reach, Arc::new(Recorder::none())));
        return Ok(match runtime.block_on(rehearse::print(&wire, &orders)) {
            Ok(document) => {
                let text = serde_json::to_string_pretty(&document).unwrap_or_default();
                print("rehearse", &format!("{text}\n"), Exit::Held)
            }
            Err((step, stop)) => stopped(step, &stop),
        });
    }
    let folder = Folder::take(&place(arguments, &orders)?)?;
    let mut state = folder.state(orders)?;
    let recorder = Arc::new(Recorder::open(folder.path())?);
    let wire = Arc::new(Client::new(reach, Arc::clone(&recorder)));
    sayln!("run {}: {}", state.orders.run_id, folder.path().display());
    let mut say = |line: &str| sayln!("{}", shown(line));
    let concluded =
        runtime.block_on(rehearse::go(&wire, &recorder, folder.path(), &mut state, &mut say))?;
    let report = folder.path().join("report.md");
    sayln!("report: {}", report.display());
    Ok(match concluded {
        Conclusion::Over { lacking: 0 } => Exit::Held,
        Conclusion::Over { lacking } => {
            eprintln!("{lacking} steps could not be checked; the report names them");
            Exit::Lacking
        }
        Conclusion::Stopped(step, stop) => stopped(step, &stop),
    })
}

/// Tells why it stopped, and the next command.
fn stopped(step: Step, stop: &Stop) -> Exit {
    eprintln!("stopped at {}: {}", step.name(), shown(&stop.words));
    eprintln!("what to do: {}", shown(&stop.remedy));
    let mut words: Vec<_> = std::env::args().map(|word| quoted(&word)).collect();
    if stop.kind == StopKind::Operator && step.may_be_asserted() {
        words.push(format!("--done {}", step.name()));
    }
    if stop.kind == StopKind::Operator && step == Step::TakeBackup {
        words.push("--backup DIR".to_owned());
    }
    if stop.kind == StopKind::Asked {
        let at = words.iter().position(|word| word.starts_with("--stop-before"));
        if let Some(at) = at {
            let count = if words[at].contains('=') { 1 } else { 2 };
            words.drain(at..(at + count).min(words.len()));
        }
    }
    eprintln!("then: {}", words.join(" "));
    exit_of(stop)
}

/// A word as a shell has to be given it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The folder of the run: the one that is named; else that of what is rehearsed, as long as it is not over.
fn place(arguments: &RehearseArgs, orders: &Orders) -> Result<PathBuf, CatalogError> {
    if let Some(run) = &arguments.run {
        return Ok(run.clone());
    }
    let first = orders.warehouses.first().map_or("none", String::as_str);
    let more = match orders.warehouses.len() {
        0 | 1 => String::new(),
        count => format!("+{}", count - 1),
    };
    let dry = if orders.execute { "" } else { "-dry" };
    let name = format!("catalog-{}{dry}-{first}{more}", orders.rehearsal.name());
    for attempt in 1.. {
        let name = if attempt == 1 { name.clone() } else { format!("{name}~{attempt}") };
        let path = arguments.report_dir.join(name);
        if !is_used_up(&path, orders.execute)? {
            return Ok(path);
        }
    }
    unreachable!("some number is free")
}

/// Whether a run in `path` has come to its end. A dry run is never gone on with.
fn is_used_up(path: &Path, execute: bool) -> Result<bool, CatalogError> {
    let state = State::read(path)?;
    Ok(state.is_some_and(|state| state.is_over || !execute))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_command_can_be_given_to_a_shell() {
        assert_eq!(quoted("--hook"), "--hook");
        assert_eq!(quoted("restart=ssh it's"), "'restart=ssh it'\\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_table_has_a_namespace() {
        assert_eq!(table("a.b.t").unwrap().to_string(), "a.b.t");
        assert!(table("t").is_err() && table("a.").is_err());
    }
}
