//! `firedrill audit`: the census of existing drives, ours or RustFS's and MinIO's.
//!
//! Nothing on the drives is changed. Exit codes: 0 every version is full, 1 one is unreadable or divergent,
//! 2 nobody can tell (something changed meanwhile, a write was never finished, or the drives do not belong
//! together), 3 one is degraded or at risk.

use std::collections::BTreeMap;
use std::io;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::Exit;
use super::drives;
use super::drives::shown;
use crate::harness::audit;
use crate::harness::audit::AuditOptions;
use crate::harness::audit::DriveSource;
use crate::harness::audit::census::Census;
use crate::harness::audit::census::DriveState;
use crate::harness::audit::census::KeyCensus;
use crate::harness::audit::census::ProblemKind;
use crate::harness::audit::census::VersionClass;
use crate::harness::audit::lease;
use crate::harness::report::Chain;
use crate::value::ObjectKey;

/// Arguments of `audit`.
#[derive(Debug, Clone, Args)]
pub struct AuditArgs {
    /// Drive roots or image files, best in pool order
    #[arg(required = true)]
    pub drives: Vec<PathBuf>,
    /// Print the whole census as JSON
    #[arg(long)]
    pub json: bool,
    /// Audit although a node is running: what changes meanwhile is undecided
    #[arg(long)]
    pub live: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Audit<'a> {
    format: u32,
    census: &'a Census,
    /// Keys that something happened to while we looked.
    in_motion: &'a [ObjectKey],
    exit: u8,
}

/// The classes in the order of the table.
const CLASSES: [(VersionClass, &str); 6] = [
    (VersionClass::Full, "full"),
    (VersionClass::Degraded, "degraded"),
    (VersionClass::AtRisk, "at risk"),
    (VersionClass::Uncommitted, "uncommitted"),
    (VersionClass::Unreadable, "unreadable"),
    (VersionClass::Divergent, "divergent"),
];

/// Takes the census of the drives and prints it.
pub fn run(arguments: &AuditArgs) -> Exit {
    drives::with_mounted("audit", &arguments.drives, |sources| audit(arguments, sources))
}

fn audit(arguments: &AuditArgs, sources: &[DriveSource]) -> Exit {
    if !arguments.live && !are_free(sources) {
        return Exit::Usage;
    }
    let (census, in_motion) = match audit::take_twice(sources, &AuditOptions::default()) {
        Ok(taken) => taken,
        Err(error) => {
            eprintln!("firedrill audit: {}", Chain(&error));
            return Exit::Undecided;
        }
    };
    let exit = judge(&census, &in_motion);
    let printed = if arguments.json {
        print_json(&census, &in_motion, exit)
    } else {
        print(&census, &in_motion, exit)
    };
    match printed {
        // A reader who has seen enough is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            eprintln!("firedrill audit: cannot print: {error}");
            Exit::Internal
        }
        _ => exit,
    }
}

/// Whether no node has any of the drives; says which if one has.
fn are_free(sources: &[DriveSource]) -> bool {
    let mut free = true;
    for source in sources {
        match lease::is_held(&source.root) {
            Ok(false) => {}
            Ok(true) => {
                eprintln!(
                    "firedrill audit: a running node has {}; stop it, or audit with --live",
                    shown(&source.name)
                );
                free = false;
            }
            Err(error) => eprintln!(
                "firedrill audit: whether a node has {} cannot be told: {error}",
                shown(&source.name)
            ),
        }
    }
    free
}

/// The worst of all that is not in motion.
fn judge(census: &Census, in_motion: &[ObjectKey]) -> Exit {
    let mut exit = if in_motion.is_empty() { Exit::Held } else { Exit::Undecided };
    if census.deployment.is_none() {
        exit = exit.worst(Exit::Undecided);
    }
    if census
        .drives
        .iter()
        .any(|drive| drive.state != DriveState::Member || !drive.problems.is_empty())
    {
        exit = exit.worst(Exit::Late);
    }
    for key in census.keys.iter().filter(|key| !in_motion.contains(&key.target)) {
        for version in &key.versions {
            exit = exit.worst(match version.class {
                VersionClass::Full => Exit::Held,
                VersionClass::Degraded | VersionClass::AtRisk => Exit::Late,
                VersionClass::Uncommitted => Exit::Undecided,
                VersionClass::Unreadable | VersionClass::Divergent => Exit::Broken,
            });
        }
        let is_lost = key.versions.is_empty()
            && key.problems.iter().any(|problem| problem.kind == ProblemKind::MetadataCorrupt);
        if is_lost {
            exit = exit.worst(Exit::Broken);
        } else if !key.same_order || !key.problems.is_empty() {
            exit = exit.worst(Exit::Late);
        }
    }
    exit
}

fn print_json(census: &Census, in_motion: &[ObjectKey], exit: Exit) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let audit = Audit { format: 1, census, in_motion, exit: exit.code() };
    serde_json::to_writer_pretty(&mut out, &audit).map_err(io::Error::from)?;
    writeln!(out)?;
    out.flush()
}

fn print(census: &Census, in_motion: &[ObjectKey], exit: Exit) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let deployment = census.deployment.as_deref().unwrap_or("unknown, no majority agrees");
    writeln!(out, "deployment {deployment}")?;
    for drive in &census.drives {
        let place =
            drive.place.map_or_else(String::new, |(set, slot)| format!(" set {set} slot {slot}"));
        let state = match drive.state {
            DriveState::Member => "member",
            DriveState::Blank => "blank",
            DriveState::Foreign => "foreign",
            DriveState::Unreadable => "unreadable",
            DriveState::Missing => "missing",
        };
        writeln!(out, "  {}  {state}{place}", shown(&drive.name))?;
        for problem in &drive.problems {
            writeln!(out, "      {}", shown(problem))?;
        }
    }
    print_counts(&mut out, census)?;
    for bucket in census.buckets.iter().filter(|bucket| !bucket.missing_on.is_empty()) {
        let drives = bucket.missing_on.iter().map(|drive| shown(drive)).collect::<Vec<_>>();
        writeln!(out, "bucket {} is missing on {}", shown(&bucket.name), drives.join(", "))?;
    }
    for key in &census.keys {
        if in_motion.contains(&key.target) {
            writeln!(out, "in motion    {}", shown(&key.target.to_string()))?;
        } else {
            print_key(&mut out, key)?;
        }
    }
    print_surplus(&mut out, census)?;
    let verdict = match exit {
        Exit::Held => "every version is full",
        Exit::Broken => "a version is unreadable or divergent",
        Exit::Undecided => "not everything can be told",
        _ => "a version, a key or a drive is less than whole",
    };
    writeln!(out, "{verdict} (exit {exit})")?;
    out.flush()
}

fn print_counts(out: &mut impl io::Write, census: &Census) -> io::Result<()> {
    let mut counts = BTreeMap::<(bool, VersionClass), usize>::new();
    for key in &census.keys {
        for version in &key.versions {
            *counts.entry((key.target.bucket == ".rustfs.sys", version.class)).or_default() += 1;
        }
    }
    write!(out, "{:<10}", "versions")?;
    for (_, name) in CLASSES {
        write!(out, " {name:>11}")?;
    }
    writeln!(out)?;
    for (is_system, name) in [(false, "objects"), (true, "system")] {
        write!(out, "{name:<10}")?;
        for (class, _) in CLASSES {
            write!(out, " {:>11}", counts.get(&(is_system, class)).copied().unwrap_or_default())?;
        }
        writeln!(out)?;
    }
    let mib = census.bytes_read / (1 << 20);
    writeln!(out, "{} buckets, {} keys, {mib} MiB read", census.buckets.len(), census.keys.len())
}

fn print_key(out: &mut impl io::Write, key: &KeyCensus) -> io::Result<()> {
    let target = shown(&key.target.to_string());
    for version in key.versions.iter().filter(|version| version.class != VersionClass::Full) {
        let class = CLASSES.iter().find(|(class, _)| *class == version.class).map_or("", |it| it.1);
        let what = if version.delete_marker { "delete marker" } else { "object" };
        let needed = version.good_shards as i64 - version.margin;
        let (id, good) = (version.version, version.good_shards);
        writeln!(out, "{class:<12} {target}  {what} {id}: {good} good, {needed} needed")?;
        for problem in &version.problems {
            let (drive, path) = (shown(&problem.drive), shown(&problem.path));
            writeln!(out, "    {drive}: {path}: {}", shown(&problem.detail))?;
        }
    }
    if !key.versions.is_empty() && key.versions.iter().any(|it| it.class != VersionClass::Full) {
        return Ok(());
    }
    if !key.same_order || !key.problems.is_empty() {
        writeln!(out, "{:<12} {target}  set {}", "key", key.set)?;
    }
    for problem in &key.problems {
        let (drive, path) = (shown(&problem.drive), shown(&problem.path));
        writeln!(out, "    {drive}: {path}: {}", shown(&problem.detail))?;
    }
    Ok(())
}

fn print_surplus(out: &mut impl io::Write, census: &Census) -> io::Result<()> {
    let mut sums = BTreeMap::<String, (usize, u64)>::new();
    for surplus in &census.surplus {
        let kind = format!("{:?}", surplus.kind);
        let sum = sums.entry(kind).or_default();
        sum.0 += 1;
        sum.1 += surplus.bytes;
    }
    if sums.is_empty() {
        return Ok(());
    }
    writeln!(out, "surplus (owned by no version, no error):")?;
    for (kind, (count, bytes)) in sums {
        let words = kind.chars().fold(String::new(), |mut words, letter| {
            if letter.is_uppercase() && !words.is_empty() {
                words.push(' ');
            }
            words.extend(letter.to_lowercase());
            words
        });
        writeln!(out, "  {words}: {count}, {bytes} bytes")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::audit::census::DriveCensus;
    use crate::harness::audit::census::VersionCensus;
    use crate::value::VersionId;

    fn census(classes: &[VersionClass]) -> Census {
        let version = |class: &VersionClass| VersionCensus {
            version: VersionId::NULL,
            modtime_ns: 1,
            delete_marker: false,
            size: 0,
            digest: None,
            etag: None,
            data_shards: 2,
            parity_shards: 2,
            class: *class,
            metadata_copies: 4,
            good_shards: 4,
            margin: 2,
            problems: Vec::new(),
        };
        let key = KeyCensus {
            target: ObjectKey { bucket: "bucket".into(), key: "key".into() },
            set: 0,
            versions: classes.iter().map(version).collect(),
            same_order: true,
            problems: Vec::new(),
        };
        Census {
            format: 1,
            deployment: Some("id".into()),
            drives: vec![DriveCensus {
                name: "d1".into(),
                place: Some((0, 0)),
                id: None,
                state: DriveState::Member,
                problems: Vec::new(),
            }],
            buckets: Vec::new(),
            keys: vec![key],
            surplus: Vec::new(),
            replacement: Vec::new(),
            catalog: None,
            bytes_read: 0,
        }
    }

    #[test]
    fn the_worst_version_decides() {
        use VersionClass::*;
        let code = |classes: &[VersionClass]| judge(&census(classes), &[]).code();
        assert_eq!(code(&[]), 0);
        assert_eq!(code(&[Full, Full]), 0);
        assert_eq!(code(&[Full, Degraded]), 3);
        assert_eq!(code(&[AtRisk]), 3);
        assert_eq!(code(&[Full, Uncommitted]), 2);
        assert_eq!(code(&[Degraded, Unreadable, Uncommitted]), 1);
        assert_eq!(code(&[Divergent]), 1);
    }

    #[test]
    fn what_is_in_motion_is_undecided() {
        let broken = census(&[VersionClass::Unreadable]);
        let moving = [broken.keys[0].target.clone()];
        assert_eq!(judge(&broken, &moving).code(), 2);
    }

    #[test]
    fn a_drive_that_is_less_than_a_member_is_told() {
        let mut found = census(&[VersionClass::Full]);
        found.drives[0].state = DriveState::Blank;
        assert_eq!(judge(&found, &[]).code(), 3);
        found.deployment = None;
        assert_eq!(judge(&found, &[]).code(), 3);
    }
}
