//! What people write, and what a run leaves and a later command reads.

use std::path::Path;

use super::records::is_plain;
use crate::fuzz::Target;
use crate::fuzz::target::Examined;
use crate::fuzz::target::Found;
use crate::fuzz::target::Shape;
use crate::fuzz::target::must;
use crate::harness::audit::census::CENSUS_FORMAT;
use crate::harness::audit::census::Census;
use crate::harness::operator::manifest::Manifest;
use crate::harness::report::CaseReport;
use crate::harness::report::case::VERDICT_FORMAT;
use crate::harness::report::recorded;
use crate::harness::scenario::parse;
use crate::harness::scenario::plan::PLAN_FORMAT;
use crate::harness::scenario::plan::Plan;
use crate::harness::testbed::ledger::LedgerEntry;
use crate::harness::testbed::registry;
use crate::harness::workload::record::History;
use crate::node::config;
use crate::protocol::config::NodeConfig;
use crate::yaml;

#[rustfmt::skip]
pub(super) const TARGETS: &[Target] = &[
    Target {
        name: "node-config", about: "node.yaml",
        shape: Shape::Text, envelope: None, examine: node_config,
    },
    Target {
        name: "scenario", about: "a scenario's YAML",
        shape: Shape::Text, envelope: None, examine: scenario,
    },
    Target {
        name: "history", about: "history.jsonl",
        shape: Shape::JsonLines, envelope: None, examine: history,
    },
    Target {
        name: "run-files", about: "plan.json, census.json, verdict.json, a backup's manifest, a registry's entry",
        shape: Shape::Json, envelope: None, examine: run_files,
    },
    Target {
        name: "ledger", about: "ledger.jsonl",
        shape: Shape::JsonLines, envelope: None, examine: ledger,
    },
];

fn node_config(bytes: &[u8]) -> Examined {
    let Ok(text) = std::str::from_utf8(bytes) else { return Ok(Found::Refused) };
    let Ok(read) = yaml::parse::<NodeConfig>("node.yaml", text) else { return Ok(Found::Refused) };
    let written = yaml::write(&read).map_err(|error| format!("not written: {error}"))?;
    let again = yaml::parse::<NodeConfig>("node.yaml", &written);
    must(again.as_ref() == Ok(&read), "a configuration is not read again as it is written")?;
    Ok(if config::check(&read).is_ok() { Found::Decoded } else { Found::Refused })
}

fn scenario(bytes: &[u8]) -> Examined {
    let Ok(text) = std::str::from_utf8(bytes) else { return Ok(Found::Refused) };
    match parse::parse("scenario.yaml", "objects", text) {
        Ok(scenario) => {
            must(!scenario.cases.is_empty(), "a scenario without cases").map(|()| Found::Decoded)
        }
        Err(errors) => {
            must(!errors.is_empty(), "refused without a reason").map(|()| Found::Refused)
        }
    }
}

fn history(bytes: &[u8]) -> Examined {
    let Ok(history) = History::read(bytes) else { return Ok(Found::Refused) };
    let _ = (history.last_settled(), history.final_reads().count());
    Ok(Found::Decoded)
}

fn run_files(bytes: &[u8]) -> Examined {
    let path = Path::new("file.json");
    let read = recorded::parse_json::<Census>(path, bytes, CENSUS_FORMAT).is_ok()
        || recorded::parse_json::<CaseReport>(path, bytes, VERDICT_FORMAT).is_ok()
        || recorded::parse_json::<Plan>(path, bytes, PLAN_FORMAT).is_ok();
    let any = [
        is_plain::<Census>(bytes)?,
        is_plain::<CaseReport>(bytes)?,
        is_plain::<Manifest>(bytes)?,
        is_plain::<registry::Entry>(bytes)?,
        read,
    ];
    Ok(if any.contains(&true) { Found::Decoded } else { Found::Refused })
}

/// Lines up to the first that cannot be read, as the ledger's own reader takes them.
fn ledger(bytes: &[u8]) -> Examined {
    let mut read = 0;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if !is_plain::<LedgerEntry>(line)? {
            break;
        }
        read += 1;
    }
    Ok(if read > 0 { Found::Decoded } else { Found::Refused })
}
