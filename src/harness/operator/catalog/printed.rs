//! The requests of a rehearsal as they would be sent, in JSON: every body valid, every name and place filled in.
//!
//! What a server will only choose later (the version token of a table that does not exist yet, where it lies) stands
//! under `take`: from which request's answer, by which pointer, into which field of the body, or in place of which word
//! of the path. A rehearsal on a table that is there already (`--table`) has nothing to take. What not every server has
//! says under `not_served` by which statuses one tells that it has not: then the rest of the step is left out.

use serde_json::Value;
use serde_json::json;

use super::ask::Ask;
use super::ask::Body;
use super::ask::By;
use super::ask::To;
use super::facts::Facts;
use super::facts::Subject;
use super::orders::Orders;
use super::orders::TableName;
use super::routes;
use super::routes::Named;
use super::step::Step;
use super::steps;
use super::stress;

/// A request, with what may be answered to it.
struct Sent {
    ask: Ask,
    expect: Vec<u16>,
    id: Option<String>,
    take: Option<Take>,
    is_optional: bool,
}

/// What is taken from an earlier answer.
enum Take {
    /// A version token, into this field of the body.
    Token { field: &'static str },
    /// Where the probe of this warehouse lies, in place of [`PLACE`] in the path.
    Place { warehouse: String },
}

/// The commit of the probe whose answer has its version token.
const PROBE: &str = "probe";
/// The word of a path that stands for where a table lies in its bucket.
const PLACE: &str = "TABLE-PLACE";
/// By what a server tells that it has no such route.
const NOT_SERVED: [u16; 5] = [400, 404, 405, 406, 501];

fn sent(ask: Ask, expect: &[u16]) -> Sent {
    Sent { ask, expect: expect.to_vec(), id: None, take: None, is_optional: false }
}

impl Sent {
    fn called(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    fn taking(self, field: &'static str) -> Self {
        Self { take: Some(Take::Token { field }), ..self }
    }

    /// The same of a probe's object, whose place is not known yet.
    fn placed(self, warehouse: &str) -> Self {
        Self { take: Some(Take::Place { warehouse: warehouse.to_owned() }), ..self }
    }

    fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    fn value(&self, step: Step, number: usize) -> Value {
        let id = self.id.clone().unwrap_or_else(|| format!("{}-{number}", step.name()));
        let ask = &self.ask;
        let query: serde_json::Map<_, _> =
            ask.query.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let mut value = json!({
            "id": id,
            "method": ask.method,
            "path": ask.path,
            "query": query,
            "expect": self.expect,
            "node": match ask.to { To::Any => json!("any"), To::Node(node) => json!(node) },
            "signed_by": match ask.by {
                By::Operator => "operator",
                By::Inside => "principal with the table's policy alone",
                By::Outside => "principal with S3 alone",
                By::Nobody => "nobody",
            },
        });
        match &ask.body {
            Body::Empty => {}
            Body::Json(body) => value["body"] = body.clone(),
            Body::Text(text) => value["contents"] = json!(text),
        }
        match &self.take {
            None => {}
            Some(Take::Token { field }) => {
                value["take"] = json!({"of": PROBE, "pointer": "/version-token", "field": field});
            }
            Some(Take::Place { warehouse }) => {
                value["take"] = json!({
                    "of": place_id(warehouse),
                    "pointer": "/metadata/location",
                    "without": format!("s3://{warehouse}/"),
                    "in_path": PLACE,
                });
            }
        }
        if self.is_optional {
            value["not_served"] = json!(NOT_SERVED);
        }
        value
    }
}

/// The request whose answer tells where the probe of a warehouse lies.
fn place_id(warehouse: &str) -> String {
    format!("place-{warehouse}")
}

/// The probe's object inside its table.
fn inside(at: routes::At<'_>, method: &str, orders: &Orders) -> Ask {
    let place = format!("s3://{}/{PLACE}", at.warehouse);
    at.object(method, &orders.inside_key(&place, at.warehouse).unwrap_or_default())
}

/// The whole rehearsal. `base` is the metadata of the table that is rehearsed on, where it is there already.
pub fn document(orders: &Orders, facts: &Facts, base: Option<&Value>) -> Value {
    let all = orders.rehearsal.steps().iter().map(|step| {
        let (phase, purpose) = step.purpose();
        let requests = requests(*step, orders, facts, base);
        let values = requests.iter().enumerate().map(|(number, it)| it.value(*step, number));
        let values: Vec<_> = values.collect();
        let by = match step {
            step if step.is_the_operators() => "the operator, or --hook",
            Step::TakeBackup | Step::PreserveBackup => "firedrill, which reads the backup's folder",
            Step::RestoreCheck => "firedrill catalog restore and verify, or --hook",
            Step::SpawnConcurrentWriters => "all requests of a round at once; one is to be answered 200, the others 409",
            Step::RecoveryUnderLoad
            | Step::RollbackUnderLoad
            | Step::ImportUnderLoad
            | Step::MigrationDryRunUnderLoad
            | Step::MaterializeUnderLoad => "beside concurrent writers, each of which commits property after property",
            _ => "requests, in this order",
        };
        json!({"step": step.name(), "phase": phase, "purpose": purpose, "by": by, "requests": values})
    });
    json!({
        "format": 1,
        "rehearsal": orders.rehearsal.name(),
        "run_id": orders.run_id,
        "warehouses": orders.warehouses,
        "signing": "AWS signature version 4",
        "steps": all.collect::<Vec<_>>(),
    })
}

/// The table that is rehearsed on, as far as it is known.
fn subject(orders: &Orders, facts: &Facts) -> Option<Subject> {
    if let Some(subject) = &facts.subject {
        return Some(subject.clone());
    }
    let warehouse = orders.warehouses.first()?.clone();
    let table = orders.own_table();
    // Names of metadata files follow from generations and commit ids.
    let file = |generation: u32, commit: &str| {
        let TableName { namespace, name } = &table;
        let id = orders.commit_id(commit);
        format!(
            "s3://{warehouse}/.rustfs-table/warehouses/default/namespaces/{}/tables/{name}/metadata/{generation:05}-{id}.metadata.json",
            namespace.join("/")
        )
    };
    let pointer = super::answers::Pointer {
        metadata_location: file(3, "second"),
        generation: 3,
        ..Default::default()
    };
    let earlier = Some(file(2, "first"));
    Some(Subject { warehouse, table, pointer, earlier, has_gap: false })
}

fn requests(step: Step, orders: &Orders, facts: &Facts, base: Option<&Value>) -> Vec<Sent> {
    let Some(subject) = subject(orders, facts) else { return Vec::new() };
    let at = orders.at(&subject.warehouse);
    let table = Named { namespace: &subject.table.namespace, name: &subject.table.name };
    let is_own = facts.subject.is_none();
    let each = |make: &dyn Fn(routes::At<'_>) -> Ask, expect: &[u16]| {
        let names = orders.warehouses.iter();
        names.map(|name| sent(make(orders.at(name)), expect)).collect::<Vec<_>>()
    };
    let nodes = |ask: Ask, expect: &[u16]| {
        (0..orders.nodes).map(|node| sent(ask.clone().to(node), expect)).collect::<Vec<_>>()
    };
    let own = orders.own_table();
    let property = |what: &str| {
        routes::set_property("firedrill.rehearsal", what, &orders.commit_id(what), None)
    };
    match step {
        Step::Identify => {
            let mut all = nodes(at.config(), &[200]);
            all.extend(nodes(routes::status(), &[200]).into_iter().map(Sent::optional));
            all.extend(each(&|at| at.bucket(), &[200]));
            all.push(sent(routes::buckets(), &[200, 403]));
            all
        }
        Step::Inventory | Step::VerifyLoads => {
            let mut all = Vec::new();
            for (warehouse, known) in &facts.warehouses {
                let at = orders.at(warehouse);
                for table in known.tables.values() {
                    let it = Named { namespace: &table.name.namespace, name: &table.name.name };
                    all.extend([sent(at.pointer(it), &[200]), sent(at.load(it), &[200])]);
                }
                for view in known.views.values() {
                    let it = Named { namespace: &view.name.namespace, name: &view.name.name };
                    all.push(sent(at.load_view(it), &[200]));
                }
            }
            all
        }
        Step::Preflight | Step::PreflightClean | Step::VerifyReady => {
            each(&|at| at.preflight(), &[200])
        }
        Step::MigrationDryRun | Step::MigrationDryRunUnderLoad => {
            vec![sent(at.preflight(), &[200])]
        }
        Step::Repair => {
            let mut all = Vec::new();
            for (warehouse, known) in &facts.warehouses {
                let blockers = known.preflight.as_ref().map(|it| it.blockers.as_slice());
                if !blockers.unwrap_or_default().iter().any(|it| it == "COMMIT_RECOVERY_REQUIRED") {
                    continue;
                }
                for table in known.tables.values() {
                    let it = Named { namespace: &table.name.namespace, name: &table.name.name };
                    all.push(sent(orders.at(warehouse).recovery(it), &[200]));
                }
            }
            all
        }
        Step::Backfill => {
            let all = each(&|at| at.backfill(), &[200, 202, 204]);
            all.into_iter().map(Sent::optional).collect()
        }
        Step::PlantProbe | Step::RemoveProbe if orders.table.is_some() => Vec::new(),
        Step::PlantProbe => {
            let it = Named { namespace: &own.namespace, name: &own.name };
            let mut all = Vec::new();
            for name in &orders.warehouses {
                let at = orders.at(name);
                all.push(sent(at.create_namespace(&own.namespace), &[200, 409]));
                all.push(sent(at.create_table(it), &[200]));
                all.push(sent(at.commit(it, steps::first_commit(orders)), &[200]));
                let last = sent(at.commit(it, steps::replayable(orders)), &[200]);
                all.push(if *name == subject.warehouse { last.called(PROBE) } else { last });
                all.push(sent(at.load(it), &[200]).called(place_id(name)));
                let inside =
                    inside(at, "PUT", orders).holding("what only the table's policy may show");
                all.push(sent(inside, &[200]).placed(name));
                let outside = at.object("PUT", &orders.outside_key());
                all.push(sent(outside.holding("what belongs to no table"), &[200]));
            }
            all
        }
        Step::RemoveProbe => {
            let it = Named { namespace: &own.namespace, name: &own.name };
            let mut all = Vec::new();
            for name in &orders.warehouses {
                let at = orders.at(name);
                all.push(sent(inside(at, "DELETE", orders), &[200, 204, 404]).placed(name));
                let outside = at.object("DELETE", &orders.outside_key());
                all.push(sent(outside, &[200, 204, 404]));
            }
            all.extend(each(&|at| at.drop_table(it), &[204, 404]));
            all.extend(each(&|at| at.drop_namespace(&own.namespace), &[204, 404, 409]));
            all
        }
        Step::Materialize => each(&|at| at.migrate(), &[200]),
        Step::VerifyConfig => nodes(at.config(), &[200]),
        Step::VerifyIdempotency => {
            let it = Named { namespace: &own.namespace, name: &own.name };
            each(&|at| at.commit(it, steps::replayable(orders)), &[200])
        }
        // On a table of the operator's no object is put.
        Step::VerifyPolicy | Step::PolicyProbe if orders.table.is_some() => Vec::new(),
        Step::VerifyPolicy | Step::PolicyProbe => {
            let names = orders.warehouses.iter();
            names.flat_map(|name| policy(orders, name)).collect()
        }
        Step::Admit => {
            let all = nodes(routes::admit(), &[200, 202, 204]);
            all.into_iter().map(Sent::optional).collect()
        }
        Step::VerifyWrites => {
            let it = Named { namespace: &own.namespace, name: &own.name };
            each(&|at| at.commit(it, property("after")), &[200])
        }
        Step::ControlledWrite => {
            let namespace = [own.name.clone()];
            vec![
                sent(at.create_namespace(&namespace), &[200]),
                sent(at.drop_namespace(&namespace), &[204]),
            ]
        }
        Step::VerifyV2 => each(&|at| at.object("HEAD", &orders.outside_key()), &[200, 404]),
        Step::ExportCatalogState => {
            vec![sent(at.export(table), &[200]), sent(at.pointer(table), &[200])]
        }
        Step::LoadTableBeforeRecovery
        | Step::LoadTableAfterRecovery
        | Step::LoadTableAfterWriterCohort => {
            vec![sent(at.load(table), &[200]), sent(at.pointer(table), &[200])]
        }
        Step::ReadRecoveryDiagnostics
        | Step::DiagnosticsAfterRepair
        | Step::DiagnosticsAfterRecovery
        | Step::DiagnosticsAfterWriterCohort => vec![sent(at.diagnostics(table), &[200])],
        Step::SafeRecoveryRepair | Step::RecoveryUnderLoad => {
            vec![sent(at.recovery(table), &[200])]
        }
        Step::StaleTokenCommitConflict => {
            let current = &subject.pointer.metadata_location;
            let body = steps::pointer_commit(current, steps::STALE_TOKEN, current);
            vec![sent(at.commit(table, body), &[409])]
        }
        Step::MissingMetadataObjectRejected => {
            let current = &subject.pointer.metadata_location;
            let target = steps::absent_metadata(current, &orders.commit_id("absent"));
            let token = &subject.pointer.version_token;
            let body = steps::pointer_commit(current, token, &target);
            let it = sent(at.commit(table, body), &[400]);
            let field = "expected-version-token";
            vec![if is_own { it.taking(field) } else { it }]
        }
        Step::RollbackToKnownMetadata => {
            let target = subject.earlier.as_deref().unwrap_or(&subject.pointer.metadata_location);
            let rollback = at.rollback(table, target, &subject.pointer.version_token);
            let it = sent(rollback, if is_own { &[200] } else { &[200, 400, 409] });
            vec![if is_own { it.taking("version-token") } else { it }]
        }
        Step::RollbackUnderLoad => {
            let token = steps::STALE_TOKEN;
            let target = subject.earlier.as_deref().unwrap_or(&subject.pointer.metadata_location);
            vec![sent(at.rollback(table, target, token), &[400, 409])]
        }
        Step::ImportKnownMetadata | Step::ImportUnderLoad => {
            // The rollback before it has made the earlier state the current one.
            let target = subject.earlier.as_deref().unwrap_or(&subject.pointer.metadata_location);
            let expect: &[u16] =
                if step == Step::ImportKnownMetadata { &[200] } else { &[400, 409] };
            vec![sent(at.import(table, target), expect)]
        }
        Step::MaterializeAndRelease | Step::MaterializeUnderLoad => vec![
            sent(at.migrate(), &[200]),
            sent(at.commit(table, property("fenced")), &[409]),
            sent(at.cancel(), &[200]),
        ],
        Step::SpawnConcurrentWriters => (0..orders.writers)
            .map(|writer| {
                let id = orders.commit_id(&format!("cohort {writer}"));
                let fresh = json!({"last-column-id": 1, "current-schema-id": 0, "schemas": [{
                    "schema-id": 0,
                    "fields": [{"id": 1, "name": "id", "required": false, "type": "long"}],
                }]});
                let body = stress::cohort_commit(base.unwrap_or(&fresh), 0, writer, &id);
                sent(at.commit(table, body), &[200, 409])
            })
            .collect(),
        Step::QueueMaintenanceJob => vec![
            sent(at.set_maintenance(table, true, 60), &[200]).optional(),
            sent(at.schedule(table, "firedrill"), &[200]),
        ],
        Step::ClaimWorkerJob => {
            let each = ["w1", "w2"].map(|worker| sent(at.work(table, worker), &[200, 409]));
            each.map(Sent::optional).into()
        }
        Step::StaleMaintenancePlan => vec![
            sent(at.schedule(table, "firedrill"), &[200]).optional(),
            sent(at.commit(table, property("stale-plan")), &[200]),
            sent(at.work(table, "w1"), &[409]),
        ],
        Step::TakeBackup
        | Step::Drain
        | Step::Quiesce
        | Step::Restart
        | Step::RestoreCheck
        | Step::PreserveBackup
        | Step::ConfirmReaders
        | Step::RestartV2
        | Step::InjectGap
        | Step::RecoverExpiredLease
        | Step::CaptureRunArtifacts => Vec::new(),
    }
}

/// Who may see the probe's objects in a warehouse, and who may not.
fn policy(orders: &Orders, warehouse: &str) -> Vec<Sent> {
    let at = orders.at(warehouse);
    let each = steps::POLICY_CHECKS.iter().map(|(_, by, is_inside, is_allowed)| {
        let expect: &[u16] = if *is_allowed { &[200] } else { &[403] };
        match is_inside {
            true => sent(inside(at, "GET", orders).by(*by), expect).placed(warehouse),
            false => sent(at.object("GET", &orders.outside_key()).by(*by), expect),
        }
    });
    each.collect()
}
