//! A catalog that answers as the wire has it, in memory; whatever it answers can be overruled.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::MutexGuard;

use serde_json::Value;
use serde_json::json;

use crate::harness::operator::catalog::ask::Ask;
use crate::harness::operator::catalog::ask::Body;
use crate::harness::operator::catalog::ask::By;
use crate::harness::operator::catalog::ask::Heard;
use crate::harness::operator::catalog::ask::Told;
use crate::harness::operator::catalog::client::Wire;

/// An answer in place of the catalog's own.
#[derive(Debug, Clone)]
pub enum Instead {
    /// This.
    Say(u16, Value),
    /// Its own answer with this member changed.
    Change(&'static str, Value),
    /// None: the request is executed, the answer lost.
    Lose,
    /// None: nothing listens.
    Refuse,
}

/// Overrules the answer to requests whose words contain `about`, once `after` of them were answered.
#[derive(Debug, Clone)]
pub struct Rule {
    pub about: String,
    pub after: usize,
    pub instead: Instead,
}

#[derive(Debug, Clone, Default)]
pub struct Table {
    pub generation: u64,
    pub token: String,
    pub log: Vec<String>,
    pub properties: BTreeMap<String, String>,
    pub columns: u64,
    /// By commit id: what it was answered.
    pub commits: BTreeMap<String, Value>,
}

#[derive(Debug, Default)]
pub struct State {
    pub tables: BTreeMap<(String, String), Table>,
    pub namespaces: BTreeSet<(String, String)>,
    pub fenced: BTreeSet<String>,
    pub objects: BTreeSet<String>,
    pub strong: bool,
    pub closed: bool,
    pub index_ready: bool,
    pub unfinished: u64,
    pub has_own_routes: bool,
    pub rules: Vec<Rule>,
    pub asked: Vec<String>,
    pub next: u64,
}

/// The catalog.
#[derive(Debug, Default)]
pub struct World(Mutex<State>);

const PREFIX: &str = "/iceberg/v1/";

impl World {
    /// A warehouse `lake` with the table `sales.orders`.
    pub fn new() -> Self {
        let world = Self::default();
        {
            let mut state = world.state();
            state.index_ready = true;
            state.has_own_routes = true;
            state.namespaces.insert(("lake".to_owned(), "sales".to_owned()));
            state.make("sales", "orders");
        }
        world
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub fn overrule(&self, about: &str, after: usize, instead: Instead) {
        self.state().rules.push(Rule { about: about.to_owned(), after, instead });
    }

    /// Whether some request's words contain `about`.
    pub fn was_asked(&self, about: &str) -> bool {
        self.state().asked.iter().any(|words| words.contains(about))
    }

    /// What a request is answered.
    pub fn told(&self, ask: &Ask) -> Told {
        let mut state = self.state();
        let words = ask.words();
        state.asked.push(format!("{words} {:?}", ask.to));
        let mut chosen = None;
        for rule in &mut state.rules {
            if words.contains(&rule.about) {
                if rule.after == 0 && chosen.is_none() {
                    chosen = Some(rule.instead.clone());
                }
                rule.after = rule.after.saturating_sub(1);
            }
        }
        if matches!(chosen, Some(Instead::Refuse)) {
            return Told::nobody();
        }
        if let Some(Instead::Say(status, body)) = chosen {
            return Told::answered(ask, status, body);
        }
        let (status, mut body) = state.answer(ask);
        match chosen {
            Some(Instead::Lose) => Told::lost("reset"),
            Some(Instead::Change(name, value)) => {
                if let Some(member) = body.pointer_mut(name) {
                    *member = value;
                }
                Told::answered(ask, status, body)
            }
            _ => Told::answered(ask, status, body),
        }
    }
}

impl Wire for World {
    async fn send(&self, ask: &Ask) -> Heard {
        Heard { ask: ask.clone(), told: self.told(ask) }
    }
}

fn error(status: u16, kind: &str) -> (u16, Value) {
    (status, json!({"error": {"message": "no", "type": kind, "code": status}}))
}

impl State {
    fn make(&mut self, namespace: &str, name: &str) {
        self.next += 1;
        let location = location(namespace, name, 1, "first");
        let table = Table {
            generation: 1,
            token: format!("token-{}", self.next),
            log: vec![location],
            columns: 1,
            ..Table::default()
        };
        self.tables.insert((namespace.to_owned(), name.to_owned()), table);
    }

    fn answer(&mut self, ask: &Ask) -> (u16, Value) {
        if let Some(rest) = ask.path.strip_prefix("/firedrill/v1/catalog") {
            return self.own(rest);
        }
        let Some(rest) = ask.path.strip_prefix(PREFIX) else {
            return self.object(ask);
        };
        let rest = rest.replace("%1F", ".");
        let parts: Vec<_> = rest.split('/').collect();
        match (&*ask.method, &*parts) {
            ("GET", ["config"]) => {
                // Once all is fenced, the operator has restarted everything.
                self.strong |= self.fenced.contains("lake");
                self.closed |= self.strong
                    && self.has_own_routes
                    && !self.asked.iter().any(|it| it.contains("catalog/admit"));
                let backing = if self.strong { json!("durable-strong") } else { Value::Null };
                let endpoints = if self.strong {
                    json!([
                        "POST /v1/{prefix}/namespaces/{namespace}/properties",
                        "POST /v1/{prefix}/tables/rename"
                    ])
                } else {
                    json!([])
                };
                (
                    200,
                    json!({"overrides": {"rustfs.catalog-backing": backing}, "endpoints": endpoints}),
                )
            }
            ("GET", ["buckets", "lake"]) => (
                200,
                json!({"table-bucket": "lake", "enabled": true, "catalog-entry-present": true}),
            ),
            ("GET", ["buckets", _]) => error(400, "BadRequestException"),
            (method, ["lake", "catalog", "migration"]) => self.migration(method),
            (method, ["lake", "namespaces"]) => self.namespaces(method, ask),
            ("DELETE", ["lake", "namespaces", namespace]) => {
                self.namespaces.remove(&("lake".to_owned(), (*namespace).to_owned()));
                (204, Value::Null)
            }
            ("GET", ["lake", "namespaces", namespace, "tables"]) => {
                let names = self.tables.keys().filter(|(of, _)| of == namespace);
                let all: Vec<_> =
                    names.map(|(of, name)| json!({"namespace": [of], "name": name})).collect();
                (200, json!({"identifiers": all, "next-page-token": null}))
            }
            ("GET", ["lake", "namespaces", "sales", "views"]) => (
                200,
                json!({"identifiers": [{"namespace": ["sales"], "name": "v"}], "next-page-token": null}),
            ),
            ("GET", ["lake", "namespaces", _, "views"]) => {
                (200, json!({"identifiers": [], "next-page-token": null}))
            }
            ("GET", ["lake", "namespaces", "sales", "views", "v"]) => {
                (200, json!({"metadata-location": "s3://lake/v", "metadata": {}}))
            }
            ("POST", ["lake", "namespaces", namespace, "tables"]) => {
                let Body::Json(body) = &ask.body else { return error(400, "BadRequestException") };
                let name = body["name"].as_str().unwrap_or_default();
                if self.fenced.contains("lake") {
                    return error(409, "CommitFailedException");
                }
                if self.tables.contains_key(&((*namespace).to_owned(), name.to_owned())) {
                    return error(409, "AlreadyExistsException");
                }
                self.make(namespace, name);
                (200, json!({}))
            }
            (method, ["lake", "namespaces", namespace, "tables", name, rest @ ..]) => {
                self.table(method, namespace, name, rest, &ask.body)
            }
            _ => error(501, "UnsupportedOperationException"),
        }
    }

    fn own(&mut self, rest: &str) -> (u16, Value) {
        match rest {
            _ if !self.has_own_routes => (404, json!("<Error/>")),
            "" => (
                200,
                json!({
                    "backing": if self.strong { "durable-strong" } else { "object" },
                    "release": "current",
                    "closed_to_writers": self.closed,
                    "snapshot": {"version": 1, "etag": format!("etag-{}", self.next)},
                }),
            ),
            "/admit" => {
                self.closed = false;
                (200, json!({}))
            }
            "/backfill" => {
                self.index_ready = true;
                (200, json!({}))
            }
            _ => (404, json!({"error": "not known"})),
        }
    }

    fn object(&mut self, ask: &Ask) -> (u16, Value) {
        if ask.path == "/" {
            return (
                200,
                json!(
                    "<ListAllMyBucketsResult><Buckets><Bucket><Name>lake</Name></Bucket><Bucket><Name>plain</Name></Bucket></Buckets></ListAllMyBucketsResult>"
                ),
            );
        }
        let inside = ask.path.contains("/tables/");
        match (&*ask.method, ask.by) {
            ("PUT", _) => {
                self.objects.insert(ask.path.clone());
                (200, Value::Null)
            }
            ("DELETE", _) => {
                self.objects.remove(&ask.path);
                (204, Value::Null)
            }
            ("HEAD", _) => {
                self.index_ready = true;
                (404, Value::Null)
            }
            (_, By::Nobody) => (403, Value::Null),
            (_, By::Inside) if !inside => (403, Value::Null),
            (_, By::Outside) if inside => (403, Value::Null),
            _ => (if self.objects.contains(&ask.path) { 200 } else { 404 }, json!("text")),
        }
    }

    fn migration(&mut self, method: &str) -> (u16, Value) {
        if self.strong {
            return error(400, "BadRequestException");
        }
        let mut blockers = Vec::new();
        if !self.index_ready {
            blockers.push("WAREHOUSE_INDEX_BACKFILL_REQUIRED");
        }
        if self.unfinished > 0 {
            blockers.push("COMMIT_RECOVERY_REQUIRED");
        }
        let counts = (self.namespaces.len(), self.tables.len());
        let is_fenced = self.fenced.contains("lake");
        match method {
            "POST" if !blockers.is_empty() => error(409, "CommitFailedException"),
            "POST" => {
                let status = if is_fenced {
                    "SNAPSHOT_ALREADY_MATERIALIZED"
                } else {
                    "SNAPSHOT_MATERIALIZED"
                };
                self.fenced.insert("lake".to_owned());
                (
                    200,
                    json!({
                        "status": status, "namespace_count": counts.0, "table_count": counts.1, "view_count": 1,
                        "source_fingerprint": "f", "target_snapshot_etag": "e",
                        "object_backed_writes_fenced": true, "ready_to_enable_durable_strong": true,
                    }),
                )
            }
            "DELETE" => {
                let status = if self.fenced.remove("lake") {
                    "FENCE_RELEASED"
                } else {
                    "NO_MIGRATION_FENCE"
                };
                (200, json!({"table_bucket": "lake", "status": status}))
            }
            _ => {
                let status = match (is_fenced, blockers.is_empty()) {
                    (true, _) => "SNAPSHOT_MATERIALIZED",
                    (_, true) => "READY_TO_SNAPSHOT",
                    (_, false) => "RECOVERY_REQUIRED",
                };
                (
                    200,
                    json!({
                        "table_bucket": "lake", "status": status, "namespace_count": counts.0,
                        "table_count": counts.1, "view_count": 1, "warehouse_index_ready": self.index_ready,
                        "object_backed_writes_fenced": is_fenced, "ready_to_enable_durable_strong": is_fenced,
                        "blockers": blockers, "recommended_actions": [],
                    }),
                )
            }
        }
    }

    fn namespaces(&mut self, method: &str, ask: &Ask) -> (u16, Value) {
        if method == "POST" {
            let Body::Json(body) = &ask.body else { return error(400, "BadRequestException") };
            let name = body["namespace"][0].as_str().unwrap_or_default().to_owned();
            if self.closed {
                return error(503, "ServiceUnavailableException");
            }
            let is_new = self.namespaces.insert(("lake".to_owned(), name));
            return if is_new { (200, json!({})) } else { error(409, "AlreadyExistsException") };
        }
        if ask.query.iter().any(|(name, _)| name == "parent") {
            return (200, json!({"namespaces": [], "next-page-token": null}));
        }
        let all: Vec<_> = self.namespaces.iter().map(|(_, name)| json!([name])).collect();
        (200, json!({"namespaces": all, "next-page-token": null}))
    }

    fn table(
        &mut self,
        method: &str,
        namespace: &str,
        name: &str,
        rest: &[&str],
        body: &Body,
    ) -> (u16, Value) {
        let key = (namespace.to_owned(), name.to_owned());
        if method == "DELETE" {
            self.tables.remove(&key);
            return (204, Value::Null);
        }
        let (is_fenced, unfinished) =
            (self.fenced.contains("lake") && !self.strong, self.unfinished);
        let (closed, fresh) = (self.closed, self.next + 1);
        let Some(table) = self.tables.get_mut(&key) else {
            return error(404, "NoSuchTableException");
        };
        let body = match body {
            Body::Json(body) => body.clone(),
            _ => Value::Null,
        };
        let current = table.log.last().cloned().unwrap_or_default();
        match (method, rest) {
            ("GET", []) => {
                (200, json!({"metadata-location": current, "metadata": metadata(table, name)}))
            }
            ("GET", ["metadata-location"]) => (
                200,
                json!({
                    "metadata-location": current, "version-token": table.token, "generation": table.generation,
                    "warehouse-location": format!("s3://lake/tables/{name}"),
                }),
            ),
            ("GET", ["catalog", "export"]) => (
                200,
                json!({"table": {
                    "table_id": "id", "table_uuid": "uuid", "metadata_location": current.trim_start_matches("s3://lake/"),
                    "version_token": table.token, "generation": table.generation,
                }}),
            ),
            ("GET", ["catalog", "diagnostics"]) => {
                let status = if unfinished > 0 { "RECOVERABLE" } else { "HEALTHY" };
                (
                    200,
                    json!({
                        "current_metadata_status": "VALID", "recovery_status": status, "recommended_actions": [],
                        "commit_recovery": {"finalization_required_count": unfinished},
                    }),
                )
            }
            ("POST", _) if is_fenced => error(409, "CommitFailedException"),
            ("POST", ["catalog", "recovery"]) => {
                let generation = table.generation;
                self.unfinished = 0;
                (200, json!({"finalized_count": unfinished, "current_generation": generation}))
            }
            ("POST", ["catalog", "rollback"]) => {
                if body["version-token"] != json!(table.token) {
                    return error(409, "CommitFailedException");
                }
                let target = body["metadata-location"].as_str().unwrap_or_default().to_owned();
                table.log.push(target);
                table.generation += 1;
                table.token = format!("token-{fresh}");
                self.next = fresh;
                (200, json!({}))
            }
            ("POST", ["catalog", "import"]) => {
                if body["metadata-location"] == json!(current) {
                    (200, json!({}))
                } else {
                    error(409, "CommitFailedException")
                }
            }
            ("POST", []) => {
                if let Some(target) = body["new-metadata-location"].as_str() {
                    return match body["expected-version-token"] == json!(table.token) {
                        true if table.log.iter().any(|it| it == target) => (200, json!({})),
                        true => error(400, "BadRequestException"),
                        false => error(409, "CommitFailedException"),
                    };
                }
                let id = body["commit-id"].as_str().unwrap_or_default().to_owned();
                if let Some(answer) = table.commits.get(&id) {
                    return (200, answer.clone());
                }
                if closed {
                    return error(503, "ServiceUnavailableException");
                }
                let required =
                    body.pointer("/requirements/0/last-assigned-field-id").and_then(Value::as_u64);
                if required.is_some_and(|required| required != table.columns) {
                    return error(409, "CommitFailedException");
                }
                table.columns += u64::from(required.is_some());
                table.generation += 1;
                table.token = format!("token-{fresh}");
                table.log.push(location(namespace, name, table.generation, &id));
                if let Some(Value::Object(updates)) = body.pointer("/updates/0/updates") {
                    for (name, value) in updates {
                        table
                            .properties
                            .insert(name.clone(), value.as_str().unwrap_or_default().to_owned());
                    }
                }
                let answer = json!({"version-token": table.token, "generation": table.generation});
                table.commits.insert(id, answer.clone());
                self.next = fresh;
                (200, answer)
            }
            _ => error(501, "UnsupportedOperationException"),
        }
    }
}

fn metadata(table: &Table, name: &str) -> Value {
    let (_, earlier) = table.log.split_last().unwrap();
    let log: Vec<_> = earlier.iter().map(|it| json!({"metadata-file": it})).collect();
    json!({
        "location": format!("s3://lake/tables/{name}"), "metadata-log": log, "properties": table.properties,
        "last-column-id": table.columns, "current-schema-id": 0, "schemas": [{"schema-id": 0, "fields": []}],
    })
}

fn location(namespace: &str, name: &str, generation: u64, id: &str) -> String {
    format!(
        "s3://lake/.rustfs-table/warehouses/default/namespaces/{namespace}/tables/{name}/metadata/{generation:05}-{id}.metadata.json"
    )
}
