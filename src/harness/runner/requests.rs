//! Requests that a step spells out: sent, told to the history, and held against what the step says is owed.
//!
//! What is refused, whoever asks, has to leave the catalog and its buckets as they were: the drives are looked at before
//! and after, and what has changed is written down.

use std::collections::BTreeMap;

use tokio::task;
use tokio::time;

use super::life::Life;
use super::life::Trouble;
use super::tables;
use super::tables::ATTEMPTS_MAX;
use super::tables::BUSY;
use super::tables::BUSY_PERIOD;
use super::tables::Sender;
use super::tables::at;
use super::tables::instead;
use crate::harness::operator::catalog::ask::Ask;
use crate::harness::operator::catalog::ask::Body;
use crate::harness::operator::catalog::ask::Heard;
use crate::harness::operator::catalog::ask::Outcome as Meant;
use crate::harness::operator::catalog::keep::held;
use crate::harness::operator::catalog::routes::Named;
use crate::harness::scenario::catalog::CatalogStep;
use crate::harness::scenario::catalog::split_table;
use crate::harness::scenario::catalog::split_warehouse;
use crate::harness::scenario::request::Blank;
use crate::harness::scenario::request::Request;
use crate::harness::workload::catalog::CatalogAction;
use crate::harness::workload::catalog::CatalogRequest;
use crate::harness::workload::history::Event;
use crate::harness::workload::history::Note;
use crate::harness::workload::history::Outcome;
use crate::harness::workload::request::AnswerClass;
use crate::harness::workload::request::Compared;
use crate::harness::workload::request::RawRequest;
use crate::value::Digest;

/// Changes that are named where a refusal made them.
const CHANGED_MAX: usize = 16;

/// The digest of each object of the catalog and its buckets.
type Held = BTreeMap<String, Digest>;

impl Life<'_> {
    /// Sends requests one after another; the first ones that are answered otherwise than they have to be are told.
    pub(super) async fn request(
        &self,
        step: &CatalogStep,
        requests: impl IntoIterator<Item = Request>,
        is_alone: bool,
    ) -> Result<(), Trouble> {
        let mut before = None;
        let mut wrong = Vec::new();
        for request in requests {
            let waiting_for = format!("{} {}", request.method, request.path);
            self.waiting.on_the_cluster(format!("the answer to {waiting_for}"));
            let filled = request.filled(&self.known(&request).await?);
            if request.expect != AnswerClass::Supported && is_alone && before.is_none() {
                before = Some(self.held().await?);
            }
            let (number, heard) = self.spelt(&filled).await;
            let class = class_of(&heard);
            if class == AnswerClass::Supported || class == AnswerClass::Unknown {
                if filled.method != "GET" && filled.method != "HEAD" {
                    before = None;
                }
            } else if let Some(known) = before.take() {
                before = Some(self.compared(number, known).await?);
            }
            wrong.extend(owed(&filled, &heard));
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let waiting_for = format!("the catalog to {}", step.name());
        Err(Trouble::Stuck { waiting_for, reason: wrong.join("; ") })
    }

    /// Sends one request, once more as long as the server is too busy for one that has to be done.
    async fn spelt(&self, request: &Request) -> (u64, Heard) {
        let mut attempt = 1;
        loop {
            let raw = raw(request);
            let sender = Sender { principal: &request.principal, service: request.service };
            let (warehouse, table) = raw.warehouse_and_table();
            let (ask, number) = (ask(request), self.number());
            let action = CatalogAction::Request(raw);
            let asked = CatalogRequest {
                ask: number,
                node: request.node,
                warehouse,
                table,
                name: None,
                action,
            };
            let heard = self.sent(sender, asked, ask).await;
            let is_busy =
                request.expect == AnswerClass::Supported && heard.told.status == Some(BUSY);
            if !is_busy || attempt == ATTEMPTS_MAX {
                return (number, heard);
            }
            attempt += 1;
            // It was not done, and the server has no way to call us once it could be.
            time::sleep(BUSY_PERIOD).await;
        }
    }

    /// What the blanks of a request stand for just now.
    async fn known(&self, request: &Request) -> Result<BTreeMap<Blank, String>, Trouble> {
        let mut known = BTreeMap::new();
        for blank in request.blanks() {
            let value = match &blank {
                Blank::Principal => request.principal.clone(),
                Blank::NewId => {
                    let number = self.number();
                    self.plan.seed.uuid(&format!("request {number}")).to_string()
                }
                Blank::Of(what, table) => self.of_table(what, table, request.node).await?,
            };
            known.insert(blank, value);
        }
        Ok(known)
    }

    /// What the pointer of a table says; its place is asked for only once.
    async fn of_table(&self, what: &str, place: &str, node: usize) -> Result<String, Trouble> {
        if what == Blank::LOCATION
            && let Some(known) = self.tables.location(place)
        {
            return Ok(known);
        }
        let (warehouse, table) = split_warehouse(place).unwrap_or_default();
        let (namespace, name) = split_table(table).unwrap_or_default();
        let ask = at(warehouse).pointer(Named { namespace: &namespace, name: &name });
        let heard = self.asked(warehouse, Some(table), node, CatalogAction::Pointer, ask).await;
        let told = |pointer: &str| heard.text(pointer).map(str::to_owned);
        let value = match what {
            Blank::LOCATION => told("/warehouse-location").and_then(|location| {
                let prefix = location.strip_prefix(&format!("s3://{warehouse}/"))?;
                Some(prefix.trim_end_matches('/').to_owned())
            }),
            Blank::METADATA => told("/metadata-location"),
            Blank::TOKEN => told("/version-token"),
            _ => None,
        };
        let waiting_for = format!("the {what} of {place}");
        let reason = || instead("told", &heard);
        let value = value.ok_or_else(|| Trouble::Stuck { waiting_for, reason: reason() })?;
        if what == Blank::LOCATION {
            self.tables.keep_location(place, &value);
        }
        Ok(value)
    }

    /// What lies in the catalog and its buckets now, on a thread of its own.
    async fn held(&self) -> Result<Held, Trouble> {
        let drives = self.testbed.drives().into_iter().filter(|drive| drive.mounted);
        let roots: Vec<_> = drives.map(|drive| drive.root).collect();
        Ok(task::spawn_blocking(move || held::digests(&roots)).await??)
    }

    /// Compares it with `before`, tells the history, and answers what lies there now.
    async fn compared(&self, ask: u64, before: Held) -> Result<Held, Trouble> {
        let after = self.held().await?;
        let (objects, changed) = (before.len() as u64, changes(&before, &after));
        let compared = Compared { ask, objects, changed };
        self.recorder.record(Event::Noted(Note::Compared(compared)));
        Ok(after)
    }
}

/// What is otherwise, the first ones.
fn changes(before: &Held, after: &Held) -> Vec<String> {
    let gone = before.iter().filter_map(|(key, digest)| match after.get(key) {
        None => Some(format!("{key} is gone")),
        Some(now) if now != digest => Some(format!("{key} is another one")),
        Some(_) => None,
    });
    let new = after.keys().filter(|key| !before.contains_key(*key));
    gone.chain(new.map(|key| format!("{key} is new"))).take(CHANGED_MAX).collect()
}

/// It for the history.
fn raw(request: &Request) -> RawRequest {
    RawRequest {
        method: request.method.clone(),
        path: request.path.clone(),
        query: request.query.clone(),
        headers: request.headers.clone(),
        body: match (&request.body, &request.text) {
            (Some(body), _) => body.to_string(),
            (None, text) => text.clone().unwrap_or_default(),
        },
        principal: request.principal.clone(),
        service: request.service,
    }
}

/// It for the wire.
fn ask(request: &Request) -> Ask {
    let ask = Ask::new(&request.method, request.path.clone());
    let ask = request.query.iter().fold(ask, |ask, (name, value)| ask.with(name, value));
    let ask = request.headers.iter().fold(ask, |ask, (name, value)| ask.under(name, value));
    let body = match (&request.body, &request.text) {
        (Some(body), _) => Body::Json(body.clone()),
        (None, Some(text)) => Body::Text(text.clone()),
        (None, None) => Body::Empty,
    };
    Ask { body, ..ask }
}

fn class_of(heard: &Heard) -> AnswerClass {
    let outcome = match heard.told.outcome {
        Meant::Done => Outcome::Acknowledged,
        Meant::Refused => Outcome::Refused,
        Meant::Unknown => Outcome::Ambiguous,
    };
    AnswerClass::of(outcome, heard.told.status)
}

/// What is otherwise in an answer than it has to be.
fn owed(request: &Request, heard: &Heard) -> Option<String> {
    let kind = tables::kind(heard);
    let is_so = class_of(heard) == request.expect
        && request.status.is_none_or(|status| heard.status() == status)
        && (request.kind.is_none() || request.kind == kind)
        && request.words.iter().all(|words| heard.told.words.contains(words))
        && request.tells.iter().all(|(at, value)| heard.told.body.pointer(at) == Some(value));
    if is_so {
        return None;
    }
    let mut owed = format!("{} for {}", request.expect.name(), request.principal);
    for more in request.status.map(|it| it.to_string()).iter().chain(&request.kind) {
        owed += &format!(", {more}");
    }
    for words in &request.words {
        owed += &format!(", {words:?}");
    }
    for (at, value) in &request.tells {
        owed += &format!(", {at} {value}");
    }
    Some(instead(&owed, heard))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::harness::operator::catalog::ask::Told;

    fn request(more: &str) -> Request {
        let text = format!("{{ method: POST, path: /iceberg/v1/lake/x, {more} }}");
        crate::yaml::parse("request", &text).unwrap()
    }

    fn heard(request: &Request, status: u16, body: serde_json::Value) -> Heard {
        let ask = ask(request);
        let told = Told::answered(&ask, status, body);
        Heard { ask, told }
    }

    #[test]
    fn an_answer_is_held_against_everything_that_is_owed() {
        let refused = json!({"error": {"message": "a fence", "type": "CommitFailedException"}});
        let fenced =
            request("expect: refused, status: 409, type: CommitFailedException, words: [fence]");
        assert_eq!(owed(&fenced, &heard(&fenced, 409, refused.clone())), None);
        for (status, body) in [
            (200, json!({})),
            (503, refused.clone()),
            (409, json!({"error": {"message": "a fence", "type": "AlreadyExistsException"}})),
            (409, json!({"error": {"message": "no", "type": "CommitFailedException"}})),
        ] {
            assert!(owed(&fenced, &heard(&fenced, status, body)).is_some(), "{status}");
        }
        let closed = request("expect: supported, tells: { /closed: true }");
        assert_eq!(owed(&closed, &heard(&closed, 200, json!({"closed": true}))), None);
        assert!(owed(&closed, &heard(&closed, 200, json!({"closed": false}))).is_some());
        assert!(owed(&closed, &heard(&closed, 200, json!({}))).is_some());
        let denied = request("expect: denied, type: AccessDenied");
        let body = json!("<Error><Code>AccessDenied</Code></Error>");
        assert_eq!(owed(&denied, &heard(&denied, 403, body)), None);
    }

    #[test]
    fn whatever_has_changed_is_named() {
        let held = |pairs: &[(&str, &str)]| -> Held {
            let pairs = pairs.iter();
            pairs.map(|(key, text)| ((*key).to_owned(), Digest::of(text.as_bytes()))).collect()
        };
        let before = held(&[("a", "1"), ("b", "1"), ("c", "1")]);
        assert!(changes(&before, &before).is_empty());
        let after = held(&[("a", "1"), ("b", "2"), ("d", "1")]);
        assert_eq!(changes(&before, &after), ["b is another one", "c is gone", "d is new"]);
    }
}
