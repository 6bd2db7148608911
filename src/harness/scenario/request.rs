//! A request that a step spells out, and a table of them: who asks for what, and which class of answer is owed.
//!
//! Some words in parentheses stand for what only the run knows, in the path, the query, headers and the body:
//! `(location of lake.sales.orders)`, the table's prefix in its bucket; `(metadata of …)` and `(token of …)`, its
//! pointer and version token just before the request; `(principal)`, who asks; `(new id)`, an id of its own.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use serde::Deserialize;
use serde::Serialize;
use serde_json::Value;

use super::catalog::split_warehouse;
use super::form::TestbedForm;
use crate::harness::workload::request::AnswerClass;
use crate::harness::workload::request::NOBODY;
use crate::harness::workload::request::ROOT;
use crate::harness::workload::request::Service;

/// Methods that are sent.
const METHODS: [&str; 6] = ["GET", "HEAD", "PUT", "POST", "DELETE", "PATCH"];
/// Where a blank that is about a table ends.
const END: char = ')';

/// A principal besides the one who may do everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrincipalForm {
    /// What it may do, as a node's configuration has it.
    pub actions: Vec<String>,
    /// The account that owns what it makes; the common one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

impl PrincipalForm {
    /// What is wrong with one of this name.
    pub fn problem(&self, name: &str) -> Option<String> {
        let is_word = !name.is_empty()
            && name.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'-');
        if !is_word || [ROOT, NOBODY].contains(&name) {
            return Some(format!("`{name}` is not a principal's name"));
        }
        self.actions.is_empty().then(|| format!("`{name}` may do nothing: nobody needs it"))
    }
}

/// What is asked, whoever asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The method, in capitals.
    pub method: String,
    /// The path, percent-encoded: of the catalog, of the node's own, or of object storage.
    pub path: String,
    /// Names and values of the query, not encoded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, String>,
    /// Headers besides those of the signature.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// A body of JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Any other body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Who asks: `root`, `nobody` (it is not signed), or a principal of the testbed.
    #[serde(rename = "as", default = "root")]
    pub principal: String,
    /// For which service it is signed.
    #[serde(default, skip_serializing_if = "Service::is_s3")]
    pub service: Service,
    /// Who is asked.
    #[serde(default)]
    pub node: usize,
    /// The class of the answer that is owed.
    pub expect: AnswerClass,
    /// The status that is owed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The type of error that is owed.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Words that have to stand in the error.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
    /// What the answer has to tell: values by their JSON pointers.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tells: BTreeMap<String, Value>,
}

/// Requests by rows, principals by columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matrix {
    /// Who asks, in the order of what each row expects.
    #[serde(rename = "as")]
    pub principals: Vec<String>,
    /// For which service they sign.
    #[serde(default, skip_serializing_if = "Service::is_s3")]
    pub service: Service,
    /// Who is asked.
    #[serde(default)]
    pub node: usize,
    /// What is asked.
    pub rows: Vec<Row>,
}

/// One request of everybody's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The method, in capitals.
    pub method: String,
    /// The path, percent-encoded.
    pub path: String,
    /// Names and values of the query, not encoded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub query: BTreeMap<String, String>,
    /// Headers besides those of the signature.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// A body of JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// Any other body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What each is owed.
    pub expect: Vec<AnswerClass>,
}

fn root() -> String {
    ROOT.to_owned()
}

impl Matrix {
    /// Every request, row by row.
    pub fn requests(&self) -> impl Iterator<Item = Request> {
        self.rows.iter().flat_map(|row| {
            self.principals.iter().zip(&row.expect).map(|(principal, expect)| Request {
                method: row.method.clone(),
                path: row.path.clone(),
                query: row.query.clone(),
                headers: row.headers.clone(),
                body: row.body.clone(),
                text: row.text.clone(),
                principal: principal.clone(),
                service: self.service,
                node: self.node,
                expect: *expect,
                status: None,
                kind: None,
                words: Vec::new(),
                tells: BTreeMap::new(),
            })
        })
    }

    /// What is wrong with it, by the key that is wrong.
    pub fn problems(&self, testbed: &TestbedForm) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        if self.principals.is_empty() {
            problems.push((".as".to_owned(), "names nobody".to_owned()));
        }
        if self.rows.is_empty() {
            problems.push((".rows".to_owned(), "asks for nothing".to_owned()));
        }
        for (index, row) in self.rows.iter().enumerate() {
            let (owed, columns) = (row.expect.len(), self.principals.len());
            if owed != columns {
                let message = format!("{owed} answers for {columns} principals");
                problems.push((format!(".rows[{index}].expect"), message));
            }
        }
        for request in self.requests() {
            for (_, message) in request.problems(testbed) {
                let known = (".rows".to_owned(), format!("{}: {message}", request.path));
                if !problems.contains(&known) {
                    problems.push(known);
                }
            }
        }
        problems
    }
}

impl Request {
    /// What is wrong with it, by the key that is wrong.
    pub fn problems(&self, testbed: &TestbedForm) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        let mut add = |key: &str, message: String| problems.push((key.to_owned(), message));
        if !METHODS.contains(&&*self.method) {
            add(".method", format!("`{}` is none of {}", self.method, METHODS.join(", ")));
        }
        if !self.path.starts_with('/') || self.path.contains(['?', '#']) {
            add(".path", format!("`{}` is not a path alone", self.path));
        }
        let who = &*self.principal;
        if who != ROOT && who != NOBODY && !testbed.principals.contains_key(who) {
            add(".as", format!("the testbed has no principal `{who}`"));
        }
        if self.body.is_some() && self.text.is_some() {
            add(".text", "one body is enough".to_owned());
        }
        for blank in self.blanks() {
            if let Blank::Of(what, table) = &blank {
                if split_warehouse(table).is_none() {
                    add(
                        "",
                        format!("`({what} of {table})`: tables are `warehouse.namespace.name`"),
                    );
                }
                if !Blank::KNOWN.contains(&&**what) {
                    let known = Blank::KNOWN.join(", ");
                    add("", format!("nobody knows the {what} of a table, but its {known}"));
                }
            }
        }
        problems
    }

    /// What only the run knows of it.
    pub fn blanks(&self) -> BTreeSet<Blank> {
        let mut blanks = BTreeSet::new();
        let maps = self.query.values().chain(self.headers.values());
        for text in maps.chain(self.text.iter()).chain([&self.path]) {
            blanks.extend(blanks_of(text));
        }
        if let Some(body) = &self.body {
            visit(&mut body.clone(), &mut |text| blanks.extend(blanks_of(text)));
        }
        blanks
    }

    /// The same with every blank filled that `known` has a value for.
    #[must_use]
    pub fn filled(&self, known: &BTreeMap<Blank, String>) -> Self {
        let mut request = self.clone();
        let fill = |text: &mut String| {
            for (blank, value) in known {
                *text = text.replace(&blank.words(), value);
            }
        };
        fill(&mut request.path);
        request.query.values_mut().chain(request.headers.values_mut()).for_each(fill);
        request.text.iter_mut().for_each(fill);
        if let Some(body) = &mut request.body {
            visit(body, &mut |text| fill(text));
        }
        request
    }
}

/// What only a run knows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blank {
    /// Something of a table, `warehouse.namespace.name`.
    Of(String, String),
    /// Who asks.
    Principal,
    /// An id that no other request has.
    NewId,
}

impl Blank {
    /// The prefix of a table in its bucket, without a slash at its end.
    pub const LOCATION: &str = "location";
    /// The metadata file that a table has now.
    pub const METADATA: &str = "metadata";
    /// The version token that a table has now.
    pub const TOKEN: &str = "token";
    /// What is known of a table.
    const KNOWN: [&str; 3] = [Self::LOCATION, Self::METADATA, Self::TOKEN];

    /// It as it stands in a request.
    fn words(&self) -> String {
        match self {
            Self::Of(what, table) => format!("({what} of {table})"),
            Self::Principal => "(principal)".to_owned(),
            Self::NewId => "(new id)".to_owned(),
        }
    }
}

/// The blanks of a text; other words in parentheses stand for themselves.
fn blanks_of(text: &str) -> Vec<Blank> {
    let mut blanks = Vec::new();
    for part in text.split('(').skip(1) {
        let Some((inside, _)) = part.split_once(END) else { continue };
        match (inside, inside.split_once(" of ")) {
            ("principal", _) => blanks.push(Blank::Principal),
            ("new id", _) => blanks.push(Blank::NewId),
            (_, Some((what, table))) => blanks.push(Blank::Of(what.to_owned(), table.to_owned())),
            _ => {}
        }
    }
    blanks
}

/// Visits every text of a document, keys left out.
fn visit(value: &mut Value, look: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => look(text),
        Value::Array(values) => values.iter_mut().for_each(|value| visit(value, look)),
        Value::Object(values) => values.values_mut().for_each(|value| visit(value, look)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(text: &str) -> Request {
        crate::yaml::parse("request", text).unwrap()
    }

    fn testbed() -> TestbedForm {
        let text = "{ nodes: 1, drives: 4, parity: 2, principals: { reader: { actions: [admin:GetTable] } } }";
        crate::yaml::parse("testbed", text).unwrap()
    }

    #[test]
    fn blanks_are_filled_wherever_they_stand() {
        let request = request(
            "{ method: PUT, path: /lake/(location of lake.a.t)/data/(principal) (x), as: reader, expect: denied,
               body: { token: (token of lake.a.t), list: [(new id), 7] } }",
        );
        let location = Blank::Of(Blank::LOCATION.to_owned(), "lake.a.t".to_owned());
        let token = Blank::Of(Blank::TOKEN.to_owned(), "lake.a.t".to_owned());
        let all = [location.clone(), token.clone(), Blank::Principal, Blank::NewId];
        assert_eq!(request.blanks(), all.into());
        let known = [
            (location, "tables/1".to_owned()),
            (token, "v7".to_owned()),
            (Blank::Principal, "reader".to_owned()),
            (Blank::NewId, "id".to_owned()),
        ];
        let filled = request.filled(&known.into());
        assert_eq!(filled.path, "/lake/tables/1/data/reader (x)");
        assert_eq!(filled.body, Some(json!({"token": "v7", "list": ["id", 7]})));
        assert!(filled.blanks().is_empty());
    }

    #[test]
    fn a_matrix_asks_each_row_of_everybody() {
        let text = "{ as: [root, reader, nobody], rows: [
            { method: GET, path: /iceberg/v1/config, expect: [supported, denied, denied] } ] }";
        let matrix: Matrix = crate::yaml::parse("matrix", text).unwrap();
        assert_eq!(matrix.problems(&testbed()), []);
        let owed: Vec<_> = matrix.requests().map(|it| (it.principal, it.expect)).collect();
        assert_eq!(owed[1], ("reader".to_owned(), AnswerClass::Denied));
        assert_eq!(owed.len(), 3);
        for bad in [
            "{ as: [], rows: [{ method: GET, path: /, expect: [] }] }",
            "{ as: [root], rows: [] }",
            "{ as: [root], rows: [{ method: GET, path: /, expect: [supported, denied] }] }",
            "{ as: [stranger], rows: [{ method: GET, path: /, expect: [denied] }] }",
        ] {
            let matrix: Matrix = crate::yaml::parse("matrix", bad).unwrap();
            assert_eq!(matrix.problems(&testbed()).len(), 1, "{bad}");
        }
    }

    #[test]
    fn a_principal_has_a_name_of_its_own_and_may_do_something() {
        let form = |actions: &[&str]| PrincipalForm {
            actions: actions.iter().map(|it| (*it).to_owned()).collect(),
            account: None,
        };
        assert_eq!(form(&["*"]).problem("table-writer"), None);
        for (name, actions) in
            [("root", &["*"][..]), ("nobody", &["*"]), ("A b", &["*"]), ("reader", &[])]
        {
            assert!(form(actions).problem(name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_request_that_cannot_be_sent_is_a_problem() {
        let good = "{ method: GET, path: /iceberg/v1/config, expect: supported, as: reader }";
        assert_eq!(request(good).problems(&testbed()), []);
        for bad in [
            "{ method: get, path: /x, expect: supported }",
            "{ method: GET, path: x, expect: supported }",
            "{ method: GET, path: /x?y=1, expect: supported }",
            "{ method: GET, path: /x, expect: supported, as: stranger }",
            "{ method: PUT, path: /x, expect: supported, body: {}, text: y }",
            "{ method: GET, path: /x/(weight of lake.a.t), expect: supported }",
            "{ method: GET, path: /x/(token of lake), expect: supported }",
        ] {
            assert_eq!(request(bad).problems(&testbed()).len(), 1, "{bad}");
        }
        for unread in [
            "{ method: GET, path: /x }",
            "{ method: GET, path: /x, expect: perhaps }",
            "{ method: GET, path: /x, expect: denied, by: root }",
        ] {
            assert!(crate::yaml::parse::<Request>("request", unread).is_err(), "{unread}");
        }
    }
}
