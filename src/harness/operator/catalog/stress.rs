//! Concurrent writers: from one base, so that one wins; or at their own pace, beside other requests.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use serde_json::Value;
use serde_json::json;

use super::ask::Ask;
use super::ask::Heard;
use super::ask::Outcome;
use super::client::Wire;
use super::facts::Subject;
use super::orders::Orders;
use super::routes;
use super::routes::Named;

/// Commits of one writer beside other requests.
const COMMITS_MAX: usize = 200;
/// Commits that each writer may have sent before the other requests begin.
const HEAD_START: usize = 2;

/// What the writers do.
#[derive(Debug, Clone, PartialEq)]
pub enum Stress {
    /// They commit from one base, round after round.
    Cohorts(Cohorts),
    /// They commit as they can, while other requests are sent.
    Under(Under),
}

/// Rounds of commits from one base.
#[derive(Debug, Clone, PartialEq)]
pub struct Cohorts {
    /// The table.
    pub subject: Subject,
    /// Writers a round.
    pub writers: usize,
    /// Rounds.
    pub iterations: usize,
}

/// Writers beside other requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Under {
    /// The table.
    pub subject: Subject,
    /// How many.
    pub writers: usize,
    /// For what: it is part of what they write.
    pub what: String,
    /// The requests that are sent meanwhile.
    pub asks: Vec<Ask>,
    /// How often each of them is sent as long as it is answered 409; only the last answer counts.
    pub attempts: usize,
    /// Requests that are sent once the writers have stopped.
    pub probe: Option<Vec<Ask>>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Stressed {
    /// Where the table stood before.
    pub before: Heard,
    /// The commits, by round or by writer.
    pub commits: Vec<Vec<Heard>>,
    /// The other requests.
    pub heard: Vec<Heard>,
    /// Where the table stands now.
    pub after: Heard,
    /// Its metadata now.
    pub loaded: Heard,
}

/// The commit of one writer from the base that `metadata` is: it adds a column, so that of all commits from one base
/// only the first can be true to what it requires.
pub fn cohort_commit(metadata: &Value, round: usize, writer: usize, commit_id: &str) -> Value {
    let last = metadata.get("last-column-id").and_then(Value::as_i64).unwrap_or_default();
    let current = metadata.get("current-schema-id").cloned().unwrap_or(json!(0));
    let schemas = metadata.get("schemas").and_then(Value::as_array);
    let schema =
        schemas.and_then(|all| all.iter().find(|it| it.get("schema-id") == Some(&current)));
    let mut fields =
        schema.and_then(|schema| schema.get("fields")?.as_array().cloned()).unwrap_or_default();
    fields.push(json!({
        "id": last + 1,
        "name": format!("r{round}_w{writer}"),
        "required": false,
        "type": "string",
    }));
    let next = schemas.map_or(0, Vec::len);
    json!({
        "requirements": [{"type": "assert-last-assigned-field-id", "last-assigned-field-id": last}],
        "updates": [
            {"action": "add-schema", "schema": {"type": "struct", "schema-id": next, "fields": fields}},
            {"action": "set-current-schema", "schema-id": -1},
        ],
        "commit-id": commit_id,
    })
}

/// Lets the writers loose.
pub async fn run<W: Wire>(wire: &Arc<W>, orders: &Orders, stress: &Stress) -> Stressed {
    match stress {
        Stress::Cohorts(cohorts) => {
            let (subject, table) = (&cohorts.subject, named(&cohorts.subject));
            let at = orders.at(&subject.warehouse);
            let before = wire.send(&at.pointer(table)).await;
            // Names the attempt: a step that is begun again writes anew.
            let attempt = before.number("/generation").unwrap_or_default();
            let mut rounds = Vec::new();
            for round in 0..cohorts.iterations {
                let base = wire.send(&at.load(table)).await;
                let metadata = base.told.body.get("metadata").cloned().unwrap_or_default();
                let asks = (0..cohorts.writers).map(|writer| {
                    let id = orders.commit_id(&format!("cohort {attempt} {round} {writer}"));
                    let ask = at.commit(table, cohort_commit(&metadata, round, writer, &id));
                    ask.to(writer % orders.nodes.max(1))
                });
                let asks: Vec<_> = asks.collect();
                let all = asks.iter().map(|ask| wire.send(ask));
                let heard = futures::future::join_all(all).await;
                let is_lost = heard.iter().any(|it| it.told.outcome == Outcome::Unknown);
                let winners = heard.iter().filter(|it| it.told.outcome == Outcome::Done).count();
                rounds.push(heard);
                if is_lost || winners != 1 {
                    break;
                }
            }
            let after = wire.send(&at.pointer(table)).await;
            let loaded = wire.send(&at.load(table)).await;
            Stressed { before, commits: rounds, heard: Vec::new(), after, loaded }
        }
        Stress::Under(under) => beside(wire, orders, under).await,
    }
}

fn named(subject: &Subject) -> Named<'_> {
    Named { namespace: &subject.table.namespace, name: &subject.table.name }
}

async fn beside<W: Wire>(wire: &Arc<W>, orders: &Orders, under: &Under) -> Stressed {
    let (subject, table) = (&under.subject, named(&under.subject));
    let at = orders.at(&subject.warehouse);
    let before = wire.send(&at.pointer(table)).await;
    let attempt = before.number("/generation").unwrap_or_default();
    let is_over = Arc::new(AtomicBool::new(false));
    let (started, mut starts) = tokio::sync::mpsc::channel::<()>(1);
    let writers: Vec<_> = (0..under.writers)
        .map(|writer| {
            let asks = (0..COMMITS_MAX).map(|number| {
                let name = format!("firedrill.{}.{writer}.{number}", under.what);
                let id = orders.commit_id(&format!("{name} {attempt}"));
                let body = routes::set_property(&name, &id, &id, None);
                at.commit(table, body).to(writer % orders.nodes.max(1))
            });
            let asks: Vec<_> = asks.collect();
            let (wire, is_over) = (Arc::clone(wire), Arc::clone(&is_over));
            let mut started = Some(started.clone());
            tokio::spawn(async move {
                let mut heard = Vec::new();
                for (number, ask) in asks.iter().enumerate() {
                    if number == HEAD_START {
                        started = None;
                    }
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    heard.push(wire.send(ask).await);
                }
                drop(started);
                heard
            })
        })
        .collect();
    drop(started);
    // It ends once every writer has let go of its end.
    let _ = starts.recv().await;
    let mut heard = Vec::new();
    for ask in &under.asks {
        let mut last = wire.send(ask).await;
        for _ in 1..under.attempts {
            if last.status() != 409 {
                break;
            }
            last = wire.send(ask).await;
        }
        heard.push(last);
    }
    is_over.store(true, Ordering::Relaxed);
    let mut commits = Vec::new();
    for writer in writers {
        commits.push(writer.await.unwrap_or_default());
    }
    for ask in under.probe.iter().flatten() {
        heard.push(wire.send(ask).await);
    }
    let after = wire.send(&at.pointer(table)).await;
    let loaded = wire.send(&at.load(table)).await;
    Stressed { before, commits, heard, after, loaded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cohorts_commit_requires_the_base_that_it_changes() {
        let metadata = json!({
            "last-column-id": 4, "current-schema-id": 1,
            "schemas": [
                {"schema-id": 0, "fields": [{"id": 1}]},
                {"schema-id": 1, "fields": [{"id": 1}, {"id": 4}]},
            ],
        });
        let body = cohort_commit(&metadata, 3, 5, "id");
        assert_eq!(body.pointer("/requirements/0/last-assigned-field-id"), Some(&json!(4)));
        let fields = body.pointer("/updates/0/schema/fields").unwrap().as_array().unwrap();
        assert_eq!(fields.len(), 3);
        assert_eq!(fields[2]["id"], 5);
        assert_eq!(fields[2]["name"], "r3_w5");
    }
}
