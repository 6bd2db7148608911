//! A request that a step spells out, whoever asks: its words in the history, what it is about, and the class of its
//! answer. Pure.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::Serialize;

use super::catalog::CatalogAnswer;
use super::history::Outcome;
use crate::sigv4;

/// Whoever may do everything: the testbed's own principal.
pub const ROOT: &str = "root";
/// Whoever does not sign.
pub const NOBODY: &str = "nobody";
/// Where a catalog is served.
const CATALOGS: [&str; 2] = ["/iceberg/v1/", "/_iceberg/v1/"];
/// Where a node's own routes are.
const ADMIN: &str = "/firedrill/v1/";

/// The words of one request, as it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawRequest {
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
    /// What it carries; empty when nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
    /// Who asks: [`ROOT`], [`NOBODY`], or a principal by its name.
    pub principal: String,
    /// For which service it is signed.
    #[serde(default, skip_serializing_if = "Service::is_s3")]
    pub service: Service,
}

/// The service that a signature is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Service {
    /// Object storage.
    #[default]
    S3,
    /// Tables; on the routes of a catalog only.
    S3tables,
}

impl Service {
    /// Its name in a signature.
    pub fn name(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::S3tables => "s3tables",
        }
    }

    /// Whether it is the usual one.
    pub fn is_s3(&self) -> bool {
        *self == Self::S3
    }
}

/// What a request is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A route of the catalog: its segments after the prefix, decoded.
    Catalog(Vec<String>),
    /// A route of the node's own: what comes after its prefix.
    Admin(String),
    /// A bucket of object storage.
    Bucket(String),
    /// An object, by its bucket and its key.
    Object(String, String),
    /// All buckets.
    Storage,
}

impl RawRequest {
    /// What it is about.
    pub fn target(&self) -> Target {
        if let Some(rest) = CATALOGS.iter().find_map(|prefix| self.path.strip_prefix(prefix)) {
            return Target::Catalog(rest.split('/').map(decoded).collect());
        }
        if let Some(rest) = self.path.strip_prefix(ADMIN) {
            return Target::Admin(rest.to_owned());
        }
        let path = self.path.trim_start_matches('/');
        match path.split_once('/') {
            Some((bucket, key)) if !key.is_empty() => Target::Object(decoded(bucket), decoded(key)),
            Some((bucket, _)) => Target::Bucket(decoded(bucket)),
            None if !path.is_empty() => Target::Bucket(decoded(path)),
            None => Target::Storage,
        }
    }

    /// The table bucket that it is about, empty when it is about all; and the table, `namespace.name`, if it is about
    /// one.
    pub fn warehouse_and_table(&self) -> (String, Option<String>) {
        let segments = match self.target() {
            Target::Catalog(segments) => segments,
            Target::Bucket(bucket) | Target::Object(bucket, _) => return (bucket, None),
            Target::Admin(_) => {
                return (self.query.get("warehouse").cloned().unwrap_or_default(), None);
            }
            Target::Storage => return (String::new(), None),
        };
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match *segments {
            ["config"] => (self.query.get("warehouse").cloned().unwrap_or_default(), None),
            ["buckets", warehouse] => (warehouse.to_owned(), None),
            [warehouse, "namespaces", namespace, "tables", table, ..] => {
                let table = format!("{}.{table}", dotted(namespace));
                (warehouse.to_owned(), Some(table))
            }
            [warehouse, "namespaces", namespace, "tables" | "register"] if self.changes() => {
                let name = serde_json::from_str::<serde_json::Value>(&self.body).ok();
                let name = name.as_ref().and_then(|body| body.get("name")?.as_str());
                (warehouse.to_owned(), name.map(|name| format!("{}.{name}", dotted(namespace))))
            }
            [warehouse, ..] => (warehouse.to_owned(), None),
            [] => (String::new(), None),
        }
    }

    /// Whether it may change something.
    pub fn changes(&self) -> bool {
        !matches!(&*self.method, "GET" | "HEAD")
    }
}

impl fmt::Display for RawRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        for (index, (name, value)) in self.query.iter().enumerate() {
            let mark = if index == 0 { '?' } else { '&' };
            write!(f, "{mark}{name}={value}")?;
        }
        write!(f, " as {}", self.principal)
    }
}

/// The levels of a namespace as a path has them, with dots between.
pub fn dotted(namespace: &str) -> String {
    namespace.replace('\u{1f}', ".")
}

fn decoded(part: &str) -> String {
    sigv4::decoded(part)
}

/// What lay in the catalog and in the table buckets before a request that was refused, and after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compared {
    /// The request to the catalog.
    pub ask: u64,
    /// Objects that were compared.
    pub objects: u64,
    /// What has changed since, in words: the first ones.
    pub changed: Vec<String>,
}

/// What an answer says of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerClass {
    /// It was done.
    Supported,
    /// It was not done, for what it asks or for when it asks it.
    Refused,
    /// It was not done, for who asks.
    Denied,
    /// It is not offered.
    Unsupported,
    /// Nobody can tell whether it was done.
    Unknown,
}

impl AnswerClass {
    /// The class of an outcome with its status.
    pub fn of(outcome: Outcome, status: Option<u16>) -> Self {
        match (outcome, status) {
            (Outcome::Acknowledged, _) => Self::Supported,
            (Outcome::Ambiguous, _) => Self::Unknown,
            (Outcome::Refused, Some(401 | 403)) => Self::Denied,
            (Outcome::Refused, Some(405 | 406 | 501)) => Self::Unsupported,
            (Outcome::Refused, _) => Self::Refused,
        }
    }

    /// The class of a recorded answer; a request without one is unknown.
    pub fn of_answer(answer: Option<&CatalogAnswer>) -> Self {
        answer.map_or(Self::Unknown, |answer| Self::of(answer.outcome, answer.status))
    }

    /// Its name, as scenarios spell it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Supported => "supported",
            Self::Refused => "refused",
            Self::Denied => "denied",
            Self::Unsupported => "unsupported",
            Self::Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, path: &str, body: &str) -> RawRequest {
        RawRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            query: BTreeMap::new(),
            headers: BTreeMap::new(),
            body: body.to_owned(),
            principal: ROOT.to_owned(),
            service: Service::S3,
        }
    }

    #[test]
    fn a_path_says_what_a_request_is_about() {
        for (method, path, body, warehouse, table) in [
            ("GET", "/_iceberg/v1/lake/namespaces/a%1Fb/tables/t", "", "lake", Some("a.b.t")),
            (
                "POST",
                "/iceberg/v1/lake/namespaces/a/tables",
                r#"{"name":"t"}"#,
                "lake",
                Some("a.t"),
            ),
            ("GET", "/iceberg/v1/lake/namespaces/a/tables", "", "lake", None),
            ("PUT", "/iceberg/v1/buckets/lake", "", "lake", None),
            ("POST", "/iceberg/v1/lake/catalog/migration", "", "lake", None),
            ("PUT", "/lake/a%20b/c", "", "lake", None),
            ("DELETE", "/lake", "", "lake", None),
            ("GET", "/", "", "", None),
        ] {
            let seen = request(method, path, body).warehouse_and_table();
            assert_eq!(seen, (warehouse.to_owned(), table.map(str::to_owned)), "{method} {path}");
        }
        let object = request("PUT", "/lake/a%20b/c", "").target();
        assert_eq!(object, Target::Object("lake".to_owned(), "a b/c".to_owned()));
        assert_eq!(request("GET", "/lake/", "").target(), Target::Bucket("lake".to_owned()));
    }

    #[test]
    fn an_answer_has_a_class_of_its_own() {
        use AnswerClass as C;
        for (outcome, status, class) in [
            (Outcome::Acknowledged, Some(204), C::Supported),
            (Outcome::Refused, Some(403), C::Denied),
            (Outcome::Refused, Some(406), C::Unsupported),
            (Outcome::Refused, Some(501), C::Unsupported),
            (Outcome::Refused, Some(409), C::Refused),
            (Outcome::Refused, Some(503), C::Refused),
            (Outcome::Refused, None, C::Refused),
            (Outcome::Ambiguous, Some(500), C::Unknown),
        ] {
            assert_eq!(C::of(outcome, status), class, "{status:?}");
        }
        assert_eq!(C::of_answer(None), C::Unknown);
    }
}
