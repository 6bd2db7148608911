//! `firedrill bench`: the figures of this machine and this build, each as soon as it is known.

use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use tokio::runtime;

use super::Exit;
use super::run;
use super::run::Refused;
use crate::harness::runner::bench;
use crate::harness::runner::bench::catalog;
use crate::harness::runner::bench::s3;
use crate::harness::runner::bench::s3::Target;
use crate::harness::scenario::plan::Filesystem;
use crate::out::sayln;

/// Runs of a full table.
const FULL_RUNS: usize = 5;
/// Seconds of a round of `catalog --full`, and otherwise.
const SECONDS: (f64, f64) = (5.0, 1.0);
/// Tables that are created through the wire, and written onto drives, of `catalog --full`.
const FULL_TABLES: ([usize; 2], [usize; 2]) = ([10, 1_000], [1_000, 10_000]);
/// The same otherwise.
const TABLES: ([usize; 2], [usize; 2]) = ([10, 100], [100, 1_000]);
/// Runs of what is repeated in `catalog --full`.
const CATALOG_RUNS: usize = 3;
/// Keys of the listings of a full table.
const FULL_KEYS: [u64; 3] = [10_000, 30_000, 100_000];
/// Keys of the listings otherwise.
const KEYS: [u64; 2] = [3_000, 10_000];
/// The object of many parts of a full table, and otherwise.
const MULTIPART_BYTES: (u64, u64) = (5 << 30, 1 << 30);

/// Arguments of `bench`.
#[derive(Debug, Clone, Args)]
pub struct BenchArgs {
    /// Figures; when none is named, all but `s3` and `catalog`, which take minutes
    pub names: Vec<String>,
    /// s3: everything, medians of 5, listings of up to 100,000 keys, an object of 5 GiB; half an hour or more. catalog: up
    /// to 10,000 tables, rounds of 5 s, medians of 3
    #[arg(long)]
    pub full: bool,
    /// Only these parts, of s3: load, keys, multipart; of catalog: commits, migration, snapshot, fence
    #[arg(long, value_delimiter = ',', value_name = "PART,…")]
    pub parts: Vec<String>,
    /// s3: sizes of the objects
    #[arg(long, value_delimiter = ',', value_name = "BYTES,…", default_value = "4k,128k,1m,64m")]
    pub sizes: Vec<String>,
    /// s3: clients at once; catalog: writers
    #[arg(long, value_delimiter = ',', value_name = "N,…", default_value = "1,8,32")]
    pub clients: Vec<usize>,
    /// Seconds of a round: 1, but 5 of catalog with --full
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Runs of each cell, of which the median is told
    #[arg(long)]
    pub runs: Option<usize>,
    /// s3: keys of the listings
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    pub keys: Vec<u64>,
    /// catalog: tables that writers commit to
    #[arg(long, value_delimiter = ',', value_name = "N,…", default_value = "1,64")]
    pub tables: Vec<usize>,
    /// catalog: tables that are created through the API and migrated
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    pub created: Option<Vec<usize>>,
    /// catalog: tables that are written onto the drives of a stopped node and migrated
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    pub restored: Option<Vec<usize>>,
    /// catalog: size of the strong snapshot that is loaded
    #[arg(long, value_name = "BYTES", default_value = "60m")]
    pub snapshot: String,
    /// s3: size of the object of many parts
    #[arg(long, value_name = "BYTES")]
    pub multipart: Option<String>,
    /// s3: the file system of the node's drives
    #[arg(long, value_name = "ext4|xfs", default_value = "ext4", value_parser = filesystem)]
    pub filesystem: Filesystem,
    /// s3: the folder in which the drives of that object lie
    #[arg(long, value_name = "DIR")]
    pub disk: Option<PathBuf>,
    /// s3: measure this server beside the node, on 127.0.0.1; may be given again
    #[arg(
        long,
        requires = "access_key",
        requires = "secret_file",
        value_name = "NAME=ADDRESS:PORT"
    )]
    pub peer: Vec<String>,
    /// The access key of the peers
    #[arg(long, requires = "peer")]
    pub access_key: Option<String>,
    /// The file that holds the secret key of the peers
    #[arg(long, requires = "peer")]
    pub secret_file: Option<PathBuf>,
}

/// Measures what `arguments` name, and prints a table.
pub fn run(arguments: &BenchArgs) -> Exit {
    let usage = |message: String| {
        eprintln!("firedrill bench: {message}");
        Exit::Usage
    };
    for name in &arguments.names {
        if !bench::NAMES.contains(&name.as_str()) {
            return usage(format!("there is no figure `{name}`: {}", bench::NAMES.join(", ")));
        }
    }
    let options = match options(arguments) {
        Ok(options) => options,
        Err(message) => return usage(message),
    };
    if cfg!(debug_assertions) {
        sayln!("This is a debug build: its figures mean nothing.");
    }
    match measure(&arguments.names, &options) {
        Ok(()) => Exit::Held,
        Err((exit, message)) => {
            eprintln!("{message}");
            exit
        }
    }
}

/// What the figures that take minutes are asked for.
fn options(arguments: &BenchArgs) -> Result<bench::Options, String> {
    let names_it = |figure: &str| arguments.names.iter().any(|name| name == figure);
    let of_s3 = if names_it("s3") { &s3::Part::ALL[..] } else { &[] };
    let of_catalog = if names_it("catalog") { &catalog::Part::ALL[..] } else { &[] };
    for name in &arguments.parts {
        let known: Vec<_> =
            of_s3.iter().map(|it| it.0).chain(of_catalog.iter().map(|it| it.0)).collect();
        if !known.contains(&name.as_str()) {
            return Err(format!("there is no part `{name}`: {}", known.join(", ")));
        }
    }
    let seconds = arguments.seconds;
    if seconds.is_some_and(|seconds| seconds <= 0.0 || !seconds.is_finite()) {
        return Err("a round takes more than no time".to_owned());
    }
    let round = |otherwise: f64| Duration::from_secs_f64(seconds.unwrap_or(otherwise));
    let of_catalog_round = if arguments.full { SECONDS.0 } else { SECONDS.1 };
    let catalog = wanted(of_catalog, &arguments.parts);
    Ok(bench::Options {
        s3: of_s3_options(arguments, round(SECONDS.1), wanted(of_s3, &arguments.parts))?,
        catalog: of_catalog_options(arguments, round(of_catalog_round), catalog)?,
    })
}

/// The parts that are named; all of them when there is none.
fn wanted<T: Copy>(known: &[(&str, T)], names: &[String]) -> Vec<T> {
    let is_wanted = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
    known.iter().filter(|(name, _)| is_wanted(name)).map(|(_, part)| *part).collect()
}

fn filesystem(text: &str) -> Result<Filesystem, String> {
    match text {
        "ext4" => Ok(Filesystem::Ext4),
        "xfs" => Ok(Filesystem::Xfs),
        other => Err(format!("`{other}` is none of ext4 and xfs")),
    }
}

/// What `s3` is asked for.
fn of_s3_options(
    arguments: &BenchArgs,
    round: Duration,
    parts: Vec<s3::Part>,
) -> Result<s3::Options, String> {
    let BenchArgs { full, clients, .. } = arguments;
    let sizes = arguments.sizes.iter().map(|text| bytes(text)).collect::<Result<Vec<_>, _>>()?;
    let mut keys = match arguments.keys.as_slice() {
        [] if *full => FULL_KEYS.to_vec(),
        [] => KEYS.to_vec(),
        keys => keys.to_vec(),
    };
    keys.sort_unstable();
    keys.dedup();
    let multipart_bytes = match &arguments.multipart {
        Some(text) => bytes(text)?,
        None if *full => MULTIPART_BYTES.0,
        None => MULTIPART_BYTES.1,
    };
    let runs = arguments.runs.unwrap_or(if *full { FULL_RUNS } else { 1 });
    if runs == 0 || clients.contains(&0) || sizes.contains(&0) || keys.contains(&0) {
        return Err("sizes, clients, runs and keys are all more than nothing".to_owned());
    }
    Ok(s3::Options {
        parts,
        sizes,
        clients: clients.clone(),
        round,
        runs,
        keys,
        filesystem: arguments.filesystem,
        multipart_bytes,
        disk: arguments.disk.clone().unwrap_or_else(std::env::temp_dir),
        peers: peers(arguments)?,
    })
}

/// What `catalog` is asked for.
fn of_catalog_options(
    arguments: &BenchArgs,
    round: Duration,
    parts: Vec<catalog::Part>,
) -> Result<catalog::Options, String> {
    let (created, restored) = if arguments.full { FULL_TABLES } else { TABLES };
    let numbers = |given: &Option<Vec<usize>>, otherwise: [usize; 2]| {
        let mut numbers = given.clone().unwrap_or_else(|| otherwise.to_vec());
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    };
    let created = numbers(&arguments.created, created);
    let restored = numbers(&arguments.restored, restored);
    let runs = arguments.runs.unwrap_or(if arguments.full { CATALOG_RUNS } else { 1 });
    let snapshot_bytes = usize::try_from(bytes(&arguments.snapshot)?).unwrap_or(usize::MAX);
    let (writers, tables) = (arguments.clients.clone(), arguments.tables.clone());
    if [&writers, &tables, &created, &restored].iter().any(|it| it.contains(&0)) || runs == 0 {
        return Err("writers, tables and runs are all more than nothing".to_owned());
    }
    Ok(catalog::Options { parts, writers, tables, round, runs, created, restored, snapshot_bytes })
}

/// A number of bytes; `k`, `m` and `g` stand for KiB, MiB and GiB.
fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.to_ascii_lowercase().as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 10),
        Some(b'm') => (&text[..text.len() - 1], 20),
        Some(b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    number.ok_or_else(|| format!("`{text}` is no number of bytes"))
}

/// The servers that are measured beside the node.
fn peers(arguments: &BenchArgs) -> Result<Vec<Target>, String> {
    let (Some(access_key), Some(file)) = (&arguments.access_key, &arguments.secret_file) else {
        return Ok(Vec::new());
    };
    if arguments.names != ["s3"] {
        return Err("--peer is for the figure `s3` alone".to_owned());
    }
    let secret_key = secret(file)?;
    let peer = |text: &String| {
        let named = text.split_once('=');
        let (name, address) = named.ok_or_else(|| format!("--peer {text}: NAME=ADDRESS:PORT"))?;
        let address: SocketAddr =
            address.parse().map_err(|_| format!("--peer {text}: `{address}` is no address"))?;
        if !address.ip().is_loopback() {
            return Err(format!("--peer {text}: only a server on this machine is measured"));
        }
        let (name, access_key) = (name.to_owned(), access_key.clone());
        Ok(Target { name, address, access_key, secret_key: secret_key.clone() })
    };
    arguments.peer.iter().map(peer).collect()
}

fn secret(file: &Path) -> Result<String, String> {
    let secret = std::fs::read_to_string(file);
    let secret = secret.map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(secret.trim_end().to_owned())
}

fn measure(names: &[String], options: &bench::Options) -> Result<(), Refused> {
    run::needs_root("bench")?;
    let failed = |message: String| (Exit::Internal, format!("firedrill bench: {message}"));
    let program = run::program()?;
    let directory = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
    let runtime = runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(error.to_string()))?;
    let tell = |line: &str| sayln!("{line}");
    let measured = bench::measure(names, directory.path(), program, options, &tell);
    runtime.block_on(measured).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_people_write_them() {
        let good = ["0", "17", "4k", "128K", "1m", "5G"].map(bytes);
        assert_eq!(good, [0, 17, 4 << 10, 128 << 10, 1 << 20, 5 << 30].map(Ok));
        for bad in ["", "k", "-1", "1.5m", "1t", "99999999999g", "é"] {
            assert!(bytes(bad).is_err(), "{bad:?} was taken for a size");
        }
    }
}
