//! Which right a request needs, as the specification's tables of routes have it, and whether a principal's actions give
//! it. Pure, and on its own: nothing of it comes from the server.

use serde_json::Value;

use crate::harness::workload::request::RawRequest;
use crate::harness::workload::request::Target;
use crate::harness::workload::request::dotted;

/// A right, and what it is needed for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Right {
    /// The action, without its family.
    pub(super) action: &'static str,
    /// For what.
    pub(super) scope: Scope,
}

/// What a grant has to be for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scope {
    /// Whatever it lists: such a grant is for everything.
    Any,
    /// Everything: a grant that lists something is not enough.
    All,
    /// This resource.
    One(String),
}

impl Right {
    fn new(action: &'static str, scope: Scope) -> Self {
        Self { action, scope }
    }

    /// Of what a table owns: to read it, or to write it.
    pub(super) fn of_data(warehouse: &str, table: &str, writes: bool) -> Option<Self> {
        let action = if writes { "SetTableMetadata" } else { "GetTableMetadata" };
        let (namespace, name) = table.rsplit_once('.')?;
        Some(Self::new(action, Scope::One(of_table(warehouse, namespace, name))))
    }

    /// Whether these actions give it.
    pub(super) fn is_given_by(&self, actions: &[String]) -> bool {
        actions.iter().any(|granted| {
            let (granted, pattern) = match granted.split_once('@') {
                Some((granted, pattern)) => (granted, Some(pattern)),
                None => (granted.as_str(), None),
            };
            let is_meant = granted == "*"
                || granted == "admin:*"
                || granted.strip_prefix("admin:") == Some(self.action);
            let covers = match (&self.scope, pattern) {
                (_, None) | (Scope::Any, _) => true,
                (Scope::All, Some(_)) => false,
                (Scope::One(resource), Some(pattern)) => matches(pattern, resource),
            };
            is_meant && covers
        })
    }
}

fn of_table(warehouse: &str, namespace: &str, name: &str) -> String {
    format!("{warehouse}/namespaces/{}/tables/{name}", namespace.replace('.', "/"))
}

/// What a request needs on the routes of the catalog and of a node; nothing where everybody who signs is answered, or
/// where object storage is asked.
pub(super) fn needed(request: &RawRequest) -> Vec<Right> {
    match request.target() {
        Target::Catalog(segments) => of_catalog(request, &segments),
        Target::Admin(path) => {
            let action = match (&*request.method, &*path) {
                ("GET", "catalog") => "Status",
                ("POST", "catalog/admit") => "MigrateTableCatalog",
                ("POST", "catalog/backfill") => "SetTableBucket",
                _ => return Vec::new(),
            };
            vec![Right::new(action, Scope::All)]
        }
        Target::Bucket(_) | Target::Object(..) | Target::Storage => Vec::new(),
    }
}

fn of_catalog(request: &RawRequest, segments: &[String]) -> Vec<Right> {
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let method = &*request.method;
    let one =
        |action: &'static str, resource: String| vec![Right::new(action, Scope::One(resource))];
    match (method, &*segments) {
        ("GET", ["config"]) | ("GET", [_, "catalog", "migration"]) => {
            vec![Right::new("GetTableCatalog", Scope::Any)]
        }
        ("POST" | "DELETE", [_, "catalog", "migration"]) => {
            vec![Right::new("MigrateTableCatalog", Scope::Any)]
        }
        ("PUT", ["buckets", warehouse]) => one("SetTableBucket", format!("{warehouse}/")),
        ("GET", ["buckets", warehouse]) => one("GetTableBucket", format!("{warehouse}/")),
        ("GET", [warehouse, "namespaces"]) => one("GetTableNamespace", format!("{warehouse}/")),
        ("POST", [warehouse, "namespaces"]) => one("SetTableNamespace", format!("{warehouse}/")),
        ("POST", [warehouse, "tables", "rename"]) => renamed(warehouse, &request.body),
        (_, [warehouse, "namespaces", namespace, below @ ..]) => {
            let resource =
                format!("{warehouse}/namespaces/{}", dotted(namespace).replace('.', "/"));
            match below {
                ["tables", table, of @ ..] => of_one(method, of)
                    .map_or(Vec::new(), |action| one(action, format!("{resource}/tables/{table}"))),
                ["views", view] => of_one(method, &[])
                    .map_or(Vec::new(), |action| one(action, format!("{resource}/views/{view}"))),
                below => of_namespace(method, below)
                    .map_or(Vec::new(), |action| one(action, resource.clone())),
            }
        }
        _ => Vec::new(),
    }
}

fn of_namespace(method: &str, below: &[&str]) -> Option<&'static str> {
    Some(match (method, below) {
        ("GET" | "HEAD", []) => "GetTableNamespace",
        ("DELETE", []) => "DeleteTableNamespace",
        ("POST", ["properties"]) => "UpdateTableNamespaceProperties",
        ("GET", ["tables"]) => "GetTable",
        ("GET", ["views"]) => "GetTableMetadata",
        ("POST", ["tables" | "views"]) => "CreateTable",
        ("POST", ["register"]) => "RegisterTable",
        _ => return None,
    })
}

/// What a table or view needs, or something of a table.
fn of_one(method: &str, of: &[&str]) -> Option<&'static str> {
    Some(match (method, of) {
        ("GET", [] | ["catalog", "export" | "diagnostics"]) => "GetTableMetadata",
        ("HEAD", []) => "GetTable",
        ("POST", [] | ["catalog", "recovery" | "rollback"]) => "CommitTable",
        ("DELETE", []) => "DeleteTable",
        ("GET", ["credentials"]) => "GetTableCredentials",
        ("GET", ["metadata-location"]) => "GetTableMetadataLocation",
        ("PUT", ["metadata-location"]) => "SetTableMetadataLocation",
        ("POST", ["catalog", "import"]) => "RegisterTable",
        _ => return None,
    })
}

/// Both names of a rename stand in its body.
fn renamed(warehouse: &str, body: &str) -> Vec<Right> {
    let Ok(body) = serde_json::from_str::<Value>(body) else { return Vec::new() };
    let right = |side: &str| {
        let side = body.get(side)?;
        let levels: Vec<&str> =
            side.get("namespace")?.as_array()?.iter().filter_map(Value::as_str).collect();
        let name = side.get("name")?.as_str()?;
        let resource = of_table(warehouse, &levels.join("."), name);
        Some(Right::new("SetTable", Scope::One(resource)))
    };
    ["source", "destination"].into_iter().filter_map(right).collect()
}

/// Whether a pattern with `*` and `?` covers all of a text.
fn matches(pattern: &str, text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    // Which beginnings of the text the pattern so far covers.
    let mut covered = vec![false; text.len() + 1];
    covered[0] = true;
    for sign in pattern.chars() {
        let mut next = vec![false; text.len() + 1];
        match sign {
            '*' => {
                let mut is_reached = false;
                for (at, reached) in next.iter_mut().enumerate() {
                    is_reached |= covered[at];
                    *reached = is_reached;
                }
            }
            sign => {
                for (at, letter) in text.iter().enumerate() {
                    next[at + 1] = covered[at] && (sign == '?' || sign == *letter);
                }
            }
        }
        covered = next;
    }
    covered[text.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::workload::request::ROOT;
    use crate::harness::workload::request::Service;

    fn needs(method: &str, path: &str, body: &str) -> Vec<String> {
        let request = RawRequest {
            method: method.to_owned(),
            path: path.to_owned(),
            query: Default::default(),
            headers: Default::default(),
            body: body.to_owned(),
            principal: ROOT.to_owned(),
            service: Service::S3,
        };
        let words = |right: Right| match right.scope {
            Scope::One(resource) => format!("{} {resource}", right.action),
            Scope::Any | Scope::All => right.action.to_owned(),
        };
        needed(&request).into_iter().map(words).collect()
    }

    #[test]
    fn each_route_needs_its_right() {
        let rename = r#"{"source":{"namespace":["a"],"name":"t"},"destination":{"namespace":["b","c"],"name":"u"}}"#;
        for (method, path, body, rights) in [
            ("GET", "/iceberg/v1/config", "", &["GetTableCatalog"][..]),
            ("DELETE", "/iceberg/v1/lake/catalog/migration", "", &["MigrateTableCatalog"]),
            ("POST", "/iceberg/v1/lake/namespaces", "", &["SetTableNamespace lake/"]),
            (
                "DELETE",
                "/_iceberg/v1/lake/namespaces/a%1Fb",
                "",
                &["DeleteTableNamespace lake/namespaces/a/b"],
            ),
            (
                "POST",
                "/iceberg/v1/lake/namespaces/a/tables/t/catalog/import",
                "",
                &["RegisterTable lake/namespaces/a/tables/t"],
            ),
            (
                "HEAD",
                "/iceberg/v1/lake/namespaces/a/views/v",
                "",
                &["GetTable lake/namespaces/a/views/v"],
            ),
            (
                "POST",
                "/iceberg/v1/lake/tables/rename",
                rename,
                &["SetTable lake/namespaces/a/tables/t", "SetTable lake/namespaces/b/c/tables/u"],
            ),
            ("POST", "/firedrill/v1/catalog/admit", "", &["MigrateTableCatalog"]),
            ("POST", "/iceberg/v1/lake/transactions/commit", "", &[]),
            ("PUT", "/lake/key", "", &[]),
        ] {
            assert_eq!(needs(method, path, body), rights, "{method} {path}");
        }
    }

    #[test]
    fn a_grant_is_for_what_it_lists_unless_its_action_is_for_everything() {
        let table = Right::of_data("lake", "a.b.t", true).unwrap();
        let config = Right::new("GetTableCatalog", Scope::Any);
        let admit = Right::new("MigrateTableCatalog", Scope::All);
        for (right, granted, is_given) in [
            (&table, "*", true),
            (&table, "admin:*", true),
            (&table, "s3:*", false),
            (&table, "admin:SetTableMetadata", true),
            (&table, "admin:GetTableMetadata", false),
            (&table, "admin:SetTableMetadata@lake/namespaces/a/*", true),
            (&table, "admin:SetTableMetadata@lake/namespaces/a/?/tables/t", true),
            (&table, "admin:SetTableMetadata@lake/namespaces/b/*", false),
            (&config, "admin:GetTableCatalog@other/", true),
            (&admit, "admin:MigrateTableCatalog@lake/", false),
            (&admit, "admin:MigrateTableCatalog", true),
        ] {
            assert_eq!(right.is_given_by(&[granted.to_owned()]), is_given, "{granted}");
        }
    }

    #[test]
    fn a_pattern_covers_the_whole_text() {
        for (pattern, text, is_so) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("a?", "a", false),
            ("**x", "aax", true),
        ] {
            assert_eq!(matches(pattern, text), is_so, "{pattern} {text}");
        }
    }
}
