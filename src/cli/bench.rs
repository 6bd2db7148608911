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
use crate::harness::runner::bench::s3;
use crate::harness::runner::bench::s3::Target;

/// Runs of a full table.
const FULL_RUNS: usize = 5;
/// Keys of the listings of a full table.
const FULL_KEYS: [u64; 3] = [10_000, 30_000, 100_000];
/// Keys of the listings otherwise.
const KEYS: [u64; 2] = [3_000, 10_000];
/// The object of many parts of a full table, and otherwise.
const MULTIPART_BYTES: (u64, u64) = (5 << 30, 1 << 30);

/// Arguments of `bench`.
#[derive(Debug, Clone, Args)]
pub struct BenchArgs {
    /// Figures; when none is named, all but `s3`, which takes minutes
    pub names: Vec<String>,
    /// s3: everything, medians of 5, listings of up to 100,000 keys, an object of 5 GiB; half an hour or more
    #[arg(long)]
    pub full: bool,
    /// s3: only these parts: load, keys, multipart
    #[arg(long, value_delimiter = ',', value_name = "PART,…")]
    pub parts: Vec<String>,
    /// s3: sizes of the objects
    #[arg(long, value_delimiter = ',', value_name = "BYTES,…", default_value = "4k,128k,1m,64m")]
    pub sizes: Vec<String>,
    /// s3: clients at once
    #[arg(long, value_delimiter = ',', value_name = "N,…", default_value = "1,8,32")]
    pub clients: Vec<usize>,
    /// s3: seconds of a round
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// s3: runs of each cell, of which the median is told
    #[arg(long)]
    pub runs: Option<usize>,
    /// s3: keys of the listings
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    pub keys: Vec<u64>,
    /// s3: size of the object of many parts
    #[arg(long, value_name = "BYTES")]
    pub multipart: Option<String>,
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
        println!("This is a debug build: its figures mean nothing.");
    }
    match measure(&arguments.names, &options) {
        Ok(()) => Exit::Held,
        Err((exit, message)) => {
            eprintln!("{message}");
            exit
        }
    }
}

/// What `s3` is asked for.
fn options(arguments: &BenchArgs) -> Result<s3::Options, String> {
    let BenchArgs { full, clients, seconds, .. } = arguments;
    let parts = match arguments.parts.as_slice() {
        [] => s3::Part::ALL.map(|(_, part)| part).to_vec(),
        names => names.iter().map(|name| part(name)).collect::<Result<_, _>>()?,
    };
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
    let is_positive = *seconds > 0.0 && seconds.is_finite();
    if !is_positive || runs == 0 || clients.contains(&0) || sizes.contains(&0) || keys.contains(&0)
    {
        return Err("sizes, clients, seconds, runs and keys are all more than nothing".to_owned());
    }
    Ok(s3::Options {
        parts,
        sizes,
        clients: clients.clone(),
        round: Duration::from_secs_f64(*seconds),
        runs,
        keys,
        multipart_bytes,
        disk: arguments.disk.clone().unwrap_or_else(std::env::temp_dir),
        peers: peers(arguments)?,
    })
}

fn part(name: &str) -> Result<s3::Part, String> {
    let found = s3::Part::ALL.iter().find(|(known, _)| *known == name);
    let known = s3::Part::ALL.map(|(name, _)| name).join(", ");
    found.map(|(_, part)| *part).ok_or_else(|| format!("there is no part `{name}`: {known}"))
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

fn measure(names: &[String], options: &s3::Options) -> Result<(), Refused> {
    run::needs_root("bench")?;
    let failed = |message: String| (Exit::Internal, format!("firedrill bench: {message}"));
    let program = run::program()?;
    let directory = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
    let runtime = runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(error.to_string()))?;
    let tell = |line: &str| println!("{line}");
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
