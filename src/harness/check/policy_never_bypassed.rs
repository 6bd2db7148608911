//! What a table's policy denies is denied, whoever asks.
//!
//! Verified, by the history, of every request that a step spells out: nobody was answered by the catalog, or by a node
//! about it, without the right that the route needs; nobody read, wrote or deleted an object below a table's place by
//! object storage without the table's own right; nobody, root included, changed what only the catalog writes; and
//! nobody, root included, reached an object of a table bucket between a start with both gates of version 2 open and the
//! first change that could have made the snapshot version 2.
//!
//! Not verified: what the policy of a bucket says besides; tables whose place no answer has told; requests of clients
//! that no step spells out.

use super::Judgement;
use super::Witnesses;
use super::findings::Examination;
use super::findings::Found;
use super::rights;
use super::rights::Right;
use crate::harness::workload::catalog::CatalogAction;
use crate::harness::workload::catalog::CatalogOp;
use crate::harness::workload::history::Note;
use crate::harness::workload::record::History;
use crate::harness::workload::record::NEVER;
use crate::harness::workload::request::AnswerClass;
use crate::harness::workload::request::NOBODY;
use crate::harness::workload::request::ROOT;
use crate::harness::workload::request::RawRequest;
use crate::harness::workload::request::Target;

/// Its name.
pub const NAME: &str = "policy_never_bypassed";

/// What of a table bucket only the catalog writes.
const RESERVED: &str = ".rustfs-table";
/// Statuses that only come after the caller was found to have the right.
const AFTER_THE_RIGHT: [u16; 4] = [404, 409, 412, 422];

/// Judges it.
pub fn judge(witnesses: &Witnesses<'_>) -> Judgement {
    let mut examination = Examination::of(NAME);
    let history = witnesses.history;
    let (places, warehouses, shut) = (places(history), warehouses(history), shut(history));
    for op in &history.catalog {
        let Some(request) = op.raw() else { continue };
        let class = AnswerClass::of_answer(op.answer.as_ref());
        let may = |right: &Right| match &*request.principal {
            ROOT => true,
            NOBODY => false,
            name => {
                let actions = witnesses.facts.principals.get(name);
                actions.is_some_and(|actions| right.is_given_by(actions))
            }
        };
        let lacking = rights::needed(request).into_iter().find(|right| !may(right));
        if let Some(right) = lacking {
            examination.examined();
            let status = op.answer.as_ref().and_then(|answer| answer.status);
            let is_told = status.is_some_and(|status| AFTER_THE_RIGHT.contains(&status));
            if class == AnswerClass::Supported || is_told {
                let action = right.action;
                let words = format!("{request} was answered {status:?} without {action}");
                examination.found(bypassed(op, words));
            }
        }
        for touched in touched(op, request) {
            let is_of_a_warehouse =
                warehouses.iter().any(|(name, from)| *name == touched.bucket && *from < op.invoked);
            if !is_of_a_warehouse {
                continue;
            }
            let is_shut = shut.is_some_and(|(from, until)| from < op.invoked && ends(op) < until);
            let owner = places.iter().find(|place| place.has(&touched, op));
            let right = owner
                .and_then(|place| Right::of_data(&place.warehouse, &place.table, touched.writes));
            let why = if touched.writes && is_reserved(&touched.key) {
                "only the catalog writes there".to_owned()
            } else if is_shut {
                "nothing of a table bucket is served before the snapshot is version 2".to_owned()
            } else if let Some(right) = right.filter(|right| !may(right)) {
                let table = owner.map(|place| &*place.table).unwrap_or_default();
                format!("it is of the table {table}, and {} is lacking", right.action)
            } else {
                continue;
            };
            examination.examined();
            if touched.was_done {
                let (bucket, key) = (&touched.bucket, &touched.key);
                examination.found(bypassed(op, format!("{request} reached {bucket}/{key}: {why}")));
            }
        }
    }
    examination.finish()
}

fn bypassed(op: &CatalogOp, words: String) -> Found {
    Found::fail("policy_bypassed", words).explained_by([op.asked.ask]).shown_in(op.line())
}

fn ends(op: &CatalogOp) -> u64 {
    op.ended.unwrap_or(NEVER)
}

fn is_reserved(key: &str) -> bool {
    key.strip_prefix(RESERVED).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// An object that a request touches.
struct Touched {
    bucket: String,
    key: String,
    writes: bool,
    was_done: bool,
}

/// The objects that a request of object storage touches, that of a copy's source among them.
fn touched(op: &CatalogOp, request: &RawRequest) -> Vec<Touched> {
    let was_done = AnswerClass::of_answer(op.answer.as_ref()) == AnswerClass::Supported;
    let mut all = Vec::new();
    match request.target() {
        Target::Object(bucket, key) => {
            let source = request.headers.get("x-amz-copy-source");
            let source = source.and_then(|it| it.trim_start_matches('/').split_once('/'));
            if let Some((bucket, key)) = source {
                let (bucket, key) = (bucket.to_owned(), key.to_owned());
                all.push(Touched { bucket, key, writes: false, was_done });
            }
            all.push(Touched { bucket, key, writes: request.changes(), was_done });
        }
        Target::Bucket(bucket) if request.query.contains_key("delete") => {
            let told = op.answer.as_ref().and_then(|answer| answer.text.as_deref());
            let deleted = elements(told.unwrap_or_default(), "Deleted");
            for key in elements(&request.body, "Key") {
                let was_done = was_done && deleted.iter().any(|it| elements(it, "Key") == [key]);
                let (bucket, key) = (bucket.clone(), key.to_owned());
                all.push(Touched { bucket, key, writes: true, was_done });
            }
        }
        _ => {}
    }
    all
}

/// The contents of each element of this name.
fn elements<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let parts = text.split(&*open).skip(1);
    parts.filter_map(|part| part.split_once(&*close).map(|(inside, _)| inside)).collect()
}

/// Where a table was, from when and until when.
struct Place {
    warehouse: String,
    table: String,
    prefix: String,
    from: u64,
    until: u64,
}

impl Place {
    fn has(&self, touched: &Touched, op: &CatalogOp) -> bool {
        self.warehouse == touched.bucket
            && touched.key.starts_with(&self.prefix)
            && self.from < op.invoked
            && ends(op) < self.until
    }
}

/// The places of tables that answers tell. Where a table is dropped or renamed, it may be gone from the moment that
/// this is asked.
fn places(history: &History) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for op in &history.catalog {
        let Some(table) = &op.asked.table else { continue };
        let (warehouse, told) = (&op.asked.warehouse, op.answer.as_ref());
        if op.raw().is_some_and(|it| it.method == "DELETE") {
            let gone = places
                .iter_mut()
                .filter(|it| it.warehouse == *warehouse && it.table == *table && it.until == NEVER);
            gone.for_each(|place| place.until = op.invoked);
        }
        let location = told.filter(|_| op.is_acknowledged()).and_then(|it| it.location.as_ref());
        let root = format!("s3://{warehouse}/");
        let Some(prefix) = location.and_then(|it| it.strip_prefix(&root)) else { continue };
        let prefix = format!("{}/", prefix.trim_end_matches('/'));
        let is_known = places.iter().any(|it| {
            it.warehouse == *warehouse
                && it.table == *table
                && it.prefix == prefix
                && it.until == NEVER
        });
        if !is_known {
            let (warehouse, table) = (warehouse.clone(), table.clone());
            places.push(Place { warehouse, table, prefix, from: ends(op), until: NEVER });
        }
    }
    // A rename names its table in its body only.
    let renamed = history.catalog.iter().filter(|op| {
        let path = op.raw().map(|it| &*it.path).unwrap_or_default();
        path.ends_with("/tables/rename")
    });
    for op in renamed {
        let of_warehouse = places.iter_mut().filter(|it| it.warehouse == op.asked.warehouse);
        of_warehouse.for_each(|place| place.until = place.until.min(op.invoked));
    }
    places
}

/// The table buckets, from when on.
fn warehouses(history: &History) -> Vec<(String, u64)> {
    let enables = history.catalog.iter().filter(|op| match &op.asked.action {
        CatalogAction::Enable => op.is_acknowledged(),
        CatalogAction::Request(request) => {
            let target = request.target();
            let is_a_bucket =
                matches!(&target, Target::Catalog(it) if it.len() == 2 && it[0] == "buckets");
            is_a_bucket && request.method == "PUT" && op.is_acknowledged()
        }
        _ => false,
    });
    enables.map(|op| (op.asked.warehouse.clone(), ends(op))).collect()
}

/// From when to when no object of a table bucket may be served to anybody.
fn shut(history: &History) -> Option<(u64, u64)> {
    let opened = history.notes.iter().find(|note| {
        let Note::Backing { backing, snapshot_v2 } = &note.what else { return false };
        backing != "object" && *snapshot_v2
    })?;
    let changes = history.catalog.iter().find(|op| {
        let is_change = match &op.asked.action {
            CatalogAction::Enable
            | CatalogAction::CreateNamespace
            | CatalogAction::CreateTable
            | CatalogAction::Commit(_) => true,
            CatalogAction::Request(request) => {
                request.changes() && matches!(request.target(), Target::Catalog(_))
            }
            _ => false,
        };
        let class = AnswerClass::of_answer(op.answer.as_ref());
        let may_be_done = matches!(class, AnswerClass::Supported | AnswerClass::Unknown);
        is_change && may_be_done && ends(op) > opened.seq
    });
    Some((opened.seq, changes.map_or(NEVER, |op| op.invoked)))
}
