//! Requests to the table catalog on the timeline: a lane of the operator's, and one of each committer.

use std::collections::BTreeMap;

use super::Asked;
use super::LANES_MAX;
use super::words;
use crate::harness::workload::catalog::CatalogAction;
use crate::harness::workload::catalog::CatalogOp;
use crate::harness::workload::history::Outcome;
use crate::harness::workload::record::History;

/// Requests by lane. When there are too many committers, neighbours share a lane.
pub(super) fn grouped(history: &History) -> Vec<(String, Vec<&CatalogOp>)> {
    let mut operator = Vec::new();
    let mut writers = BTreeMap::<u32, Vec<&CatalogOp>>::new();
    for op in &history.catalog {
        match &op.asked.action {
            CatalogAction::Commit(commit) | CatalogAction::Look(commit) => {
                writers.entry(commit.writer).or_default().push(op);
            }
            _ => operator.push(op),
        }
    }
    let writers: Vec<(u32, Vec<&CatalogOp>)> = writers.into_iter().collect();
    let per_lane = writers.len().div_ceil(LANES_MAX).max(1);
    let lanes = writers.chunks(per_lane).map(|lane| {
        let name = match lane {
            [(writer, _)] => format!("writer {writer}"),
            [(writer, _), others @ ..] => format!("writer {writer} +{}", others.len()),
            [] => String::new(),
        };
        (name, lane.iter().flat_map(|(_, ops)| ops.iter().copied()).collect())
    });
    let operator = (!operator.is_empty()).then(|| ("operator".to_owned(), operator));
    operator.into_iter().chain(lanes).collect()
}

impl Asked for CatalogOp {
    fn outcome(&self) -> Outcome {
        self.outcome()
    }

    fn invoked_us(&self) -> u64 {
        self.invoked_us
    }

    fn ended_us(&self) -> Option<u64> {
        self.ended_us
    }

    fn sentence(&self) -> String {
        let asked = &self.asked;
        let mut words = format!("{} of node {}", verb(&asked.action), asked.node);
        if !asked.warehouse.is_empty() {
            words += &format!(": {}", asked.warehouse);
        }
        for name in asked.table.iter().chain(&asked.name) {
            words += &format!(".{name}");
        }
        words += &format!(", {}", words::outcome(self.outcome()));
        if let Some(status) = self.answer.as_ref().and_then(|answer| answer.status) {
            words += &format!(" ({status})");
        }
        words += &format!(", from {}", words::moment(self.invoked_us));
        if let Some(ended_us) = self.ended_us {
            let took = words::duration(ended_us.saturating_sub(self.invoked_us));
            words += &format!(" for {took}");
        }
        words
    }
}

/// What is asked, in words.
fn verb(action: &CatalogAction) -> &'static str {
    match action {
        CatalogAction::MakeBucket => "make bucket",
        CatalogAction::Enable => "enable",
        CatalogAction::CreateNamespace => "create namespace",
        CatalogAction::CreateTable => "create table",
        CatalogAction::Backfill => "backfill",
        CatalogAction::Preflight => "preflight",
        CatalogAction::Migrate => "migrate",
        CatalogAction::Cancel => "cancel",
        CatalogAction::Admit => "admit",
        CatalogAction::Commit(_) => "commit",
        CatalogAction::Look(_) => "look",
        CatalogAction::Pointer => "pointer",
        CatalogAction::Diagnose => "diagnose",
        CatalogAction::Recover => "recover",
        CatalogAction::DropTable => "drop table",
        CatalogAction::DropNamespace => "drop namespace",
        CatalogAction::CreateView => "create view",
        CatalogAction::ReplaceView => "replace view",
        CatalogAction::DropView => "drop view",
        CatalogAction::Request(_) => "request",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::workload::history::Entry;

    #[test]
    fn requests_stand_in_the_lanes_of_who_asked() {
        let commit = r#"{"commit":{"writer":3,"property":"p","commit_id":"c","attempt":0}}"#;
        let asked = |ask: u64, action: &str| {
            format!(
                r#"{{"catalog_asked":{{"ask":{ask},"node":1,"warehouse":"lake","table":"a.t","action":{action}}}}}"#
            )
        };
        let events = [
            r#"{"header":{"format":1,"case":"c","seed":1}}"#.to_owned(),
            asked(0, r#""create_table""#),
            r#"{"catalog_answered":{"ask":0,"outcome":"acknowledged","status":200}}"#.to_owned(),
            asked(1, commit),
        ];
        let entries = events.iter().enumerate().map(|(seq, event)| {
            let text = format!(r#"{{"seq":{seq},"at_us":{},"event":{event}}}"#, seq * 1_000);
            serde_json::from_str::<Entry>(&text).unwrap()
        });
        let history = History::of(entries).unwrap();
        let lanes = grouped(&history);
        let names: Vec<&str> = lanes.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["operator", "writer 3"]);
        let words = lanes[0].1[0].sentence();
        assert!(
            words.starts_with("create table of node 1: lake.a.t, acknowledged (200)"),
            "{words}"
        );
        assert_eq!((lanes[1].1[0].ended_us(), lanes[1].1[0].outcome()), (None, Outcome::Ambiguous));
    }
}
