//! How the tools of drive replacement print what they found.

use std::io;
use std::io::Write as _;

use serde::Serialize;

use crate::cli::drives::shown;
use crate::harness::operator::generations::Generation;
use crate::harness::operator::generations::Generations;
use crate::harness::operator::status::Status;

/// Prints `value` as indented JSON.
pub fn json(value: &impl Serialize) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    serde_json::to_writer_pretty(&mut out, value).map_err(io::Error::from)?;
    writeln!(out)?;
    out.flush()
}

/// A value's name in JSON, as a word.
fn word(value: &impl Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or("none").to_owned()
}

/// Prints what `orphans` found.
pub fn generations(found: &Generations) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for set in &found.sets {
        writeln!(out, "{}", shown(set.set_disk_id.as_deref().unwrap_or("no set is named")))?;
        for (slot, generations) in &set.slots {
            writeln!(out, "  slot {}: {}", shown(slot), generations.join(", "))?;
        }
        for generation in &set.generations {
            self::generation(&mut out, generation)?;
        }
    }
    for drive in &found.drives {
        let place =
            drive.place.map_or_else(String::new, |(set, slot)| format!(" set {set} slot {slot}"));
        let marker = drive
            .marker
            .as_deref()
            .map_or_else(|| "no marker".to_owned(), |owner| format!("marker {}", shown(owner)));
        writeln!(out, "{}{place}  {marker}", shown(&drive.drive))?;
        for problem in &drive.problems {
            writeln!(out, "    {}", shown(problem))?;
        }
    }
    let count: usize = found.sets.iter().map(|set| set.generations.len()).sum();
    writeln!(out, "{count} generations, {} orphaned", found.orphaned)?;
    out.flush()
}

fn generation(out: &mut impl io::Write, it: &Generation) -> io::Result<()> {
    let (id, state) = (&it.generation, word(&it.state));
    write!(out, "  {id}  {state}")?;
    if let Some((phase, schema)) = it.phase.zip(it.schema_version) {
        write!(out, ", {} in schema {schema}", word(&phase))?;
    }
    writeln!(out)?;
    if let Some(why) = &it.orphaned {
        writeln!(out, "      ORPHANED: {}", shown(why))?;
    }
    if let Some(successor) = &it.successor {
        writeln!(out, "      passes on to {successor}")?;
    }
    for drive in &it.markers {
        writeln!(out, "      has the marker of {}", shown(drive))?;
    }
    for (drive, paths) in &it.records {
        for path in paths {
            writeln!(out, "      {}: {path}", shown(drive))?;
        }
    }
    Ok(())
}

/// Prints a status.
pub fn status(status: &Status) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    for record in &status.records {
        write!(out, "{}  {}", record.task_id, word(&record.state))?;
        for place in record.set_disk_id.iter().chain(&record.target_slots) {
            write!(out, "  {}", shown(place))?;
        }
        writeln!(out)?;
        if let Some(reason) = &record.reason {
            writeln!(out, "    {}", shown(reason))?;
        }
        if let Some(verified_at) = record.verified_at {
            writeln!(out, "    found whole at {verified_at} s since 1970")?;
        }
    }
    for stop in &status.refusals {
        let drive = shown(&stop.drive);
        writeln!(out, "{} on {drive}: {}", stop.number, shown(&stop.words))?;
        writeln!(out, "    what to do: {}", stop.remedy)?;
    }
    match &status.reason {
        None => writeln!(out, "definitive")?,
        Some(reason) => writeln!(out, "not definitive: {}", shown(reason))?,
    }
    out.flush()
}
